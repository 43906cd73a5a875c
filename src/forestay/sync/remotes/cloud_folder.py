"""Recognize the files that sync tools (Dropbox, Syncthing, …) create next to objects.

A *copy* is a second file of the same origin: a duplicate with a number, a conflict copy with a date
or the name of a computer. A *placeholder* stands for a file whose bytes are not downloaded yet. A
*partial* file is a transfer in progress, of Forestay or another program. A *stranger* is unrelated.

The table of spellings works only because no object is ever named like one of them: `is_object` is
the rule for that.
"""

from __future__ import annotations

import re
from typing import NamedTuple

OBJECT, COPY, PLACEHOLDER, PARTIAL, STRANGER = (
    "object",
    "copy",
    "placeholder",
    "partial",
    "stranger",
)


class Meaning(NamedTuple):
    """The kind of a file, and its object (empty for partial files and strangers)."""

    kind: str
    of: str = ""


_NAME = r"[a-z0-9][a-z0-9.-]*"
_PLAIN = re.compile(r"[a-z0-9-]+")

_PARTIAL = re.compile(
    r"~.*|.*~|.*\.(?:part|partial|filepart|tmp|temp|crdownload|download|opdownload|!sync|bts|swp"
    r"|swx|lock)|\.~.*|\..*\.forestay-tmp",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(
    rf"\.({_NAME})\.icloud|({_NAME})\.(?:nextcloud|owncloud|opencloud|cloudf)"
)

# If a tool preserves the suffix of a name, its mark is before the suffix.
_MARKS = (
    r" \(.+\)",  # Dropbox, Nextcloud, Google Drive, Seafile, pCloud, browsers: whatever they say
    r" - Copy(?: \(\d+\))?",  # Windows
    r" copy(?: \d+)?",  # macOS
    r" \d+",  # iCloud
    r"\.sync-conflict-\d{8}-\d{6}(?:-[A-Z0-9]+)?",  # Syncthing
    r"_conflict-\d{8}-\d{6}",  # ownCloud
    r"_.+_[A-Z][a-z]{2}-\d\d-\d{6}-\d{4}_Conflict",  # Synology: computer and time
    r"\.[Cc]onflict\d*",  # Resilio, rclone bisync
    r"-[A-Z][A-Za-z0-9-]*",  # OneDrive: the name of the computer
)
_COPY = re.compile(
    rf"(?:Copy of (?P<whole>{_NAME})"
    rf"|(?P<stem>[a-z0-9][a-z0-9.-]*?)(?:{'|'.join(_MARKS)})(?P<ending>\.[a-z0-9]+)?)"
)
_STRANGERS = frozenset(["desktop.ini", "thumbs.db", "lost.dir", "found.000"])


def meaning(name: str) -> Meaning:
    """Return the kind of a file or folder by its name."""
    if _PLAIN.fullmatch(name):
        return Meaning(OBJECT, name)  # as nearly all of them are
    if found := _PLACEHOLDER.fullmatch(name):
        return Meaning(PLACEHOLDER, found[1] or found[2])
    if _PARTIAL.fullmatch(name):
        return Meaning(PARTIAL)
    if found := _COPY.fullmatch(name):
        inner = meaning(found["whole"] or found["stem"] + (found["ending"] or ""))
        return Meaning(COPY, inner.of) if inner.kind in (OBJECT, COPY) else Meaning(STRANGER)
    if name not in _STRANGERS and re.fullmatch(_NAME, name):
        return Meaning(OBJECT, name)
    return Meaning(STRANGER)


def is_object(name: str) -> bool:
    """Return whether a name can be an object's, and not a tool's spelling of another."""
    return len(name) <= 200 and meaning(name) == (OBJECT, name)
