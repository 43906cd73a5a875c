"""Recognize the files that sync tools (Dropbox, Syncthing, …) create next to objects.

A *copy* is another file made from an object: a duplicate with a number, or a conflict copy with a
date or the name of a computer. A *placeholder* stands for a file that is not downloaded yet. A
*partial* file is a transfer in progress, of Forestay or another program. A *stranger* is any other
file.

A file is recognized by its name. That works because no object has a name that a sync tool makes:
`is_object` is the rule for names of objects.
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


class FileKind(NamedTuple):
    """The kind of a file, and the object it belongs to ("" for partial files and strangers)."""

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

# What a tool adds to a name; a tool that preserves the suffix adds it before the suffix.
_MARKS = (
    r" \(.+\)",  # Dropbox, Nextcloud, Google Drive, Seafile, pCloud, browsers: any text
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


def classify_file(name: str) -> FileKind:
    """Return the kind of a file or folder by its name."""
    if _PLAIN.fullmatch(name):
        return FileKind(OBJECT, name)  # fast path: nearly all files
    if found := _PLACEHOLDER.fullmatch(name):
        return FileKind(PLACEHOLDER, found[1] or found[2])
    if _PARTIAL.fullmatch(name):
        return FileKind(PARTIAL)
    if found := _COPY.fullmatch(name):
        inner = classify_file(found["whole"] or found["stem"] + (found["ending"] or ""))
        return FileKind(COPY, inner.of) if inner.kind in (OBJECT, COPY) else FileKind(STRANGER)
    if name not in _STRANGERS and re.fullmatch(_NAME, name):
        return FileKind(OBJECT, name)
    return FileKind(STRANGER)


def is_object(name: str) -> bool:
    """Return whether a name can be that of an object, and not one that a sync tool makes."""
    return len(name) <= 200 and classify_file(name) == (OBJECT, name)
