"""Changing a part of a file that other programs write, too, at any moment.

The file gives way to the changed one in one step, and what that displaced is looked at: an edit
that somebody made meanwhile is merged into what is in its place, lines that were added to a log are
added there. What cannot be read comes back. Nothing goes that was not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from forestay.base import files, swap_file
from forestay.base.clock import Clock
from forestay.errors import ForestayError, Refused
from forestay.formats.diff import merge
from forestay.formats.text.document import Document
from forestay.formats.text.safe_parse import LONGEST

Change = Callable[[bytes], bytes]
"""What is to become of a file's bytes; nothing more, once it was done."""

Join = Callable[[bytes, bytes, bytes], bytes]
"""What two make of a file that each of them changed: from what, the one's bytes, the other's."""

_TRIES = 50


def amend(path: str, change: Change, join: Join | None = None) -> None:
    """Change a file that others write anew; `join` says how, if it is no document."""
    join = join or partial(_joined, path.rpartition(".")[2])
    versions, beside, seen = [_read(path)], "", b""
    new = change(versions[0])
    for _ in range(_TRIES):
        if new == versions[0]:
            return _forget(beside, seen)
        aside = swap_file.exchange(path, new, mode=0o644, seen=versions[0])
        # Someone's edit is in its place now: what it was read from may go.
        _forget(beside, seen)
        made, seen = _with_edit(path, aside, new, versions, join)
        versions, new, beside = [new, *versions], change(made), aside
    raise _never_left_alone(path, why=f"what was found there last is in {beside}")


def _with_edit(
    path: str, aside: str, new: bytes, versions: Sequence[bytes], join: Join
) -> tuple[bytes, bytes]:
    """What was put under a name, with what the exchange displaced if that was someone's edit; and
    what was displaced. `versions` are those that it may have been made from, the newest first."""
    try:
        found = _read(aside) if aside else versions[0]
        if found == versions[0]:
            return new, found
        return join(_nearest(found, versions), found, new), found
    except ForestayError:
        # Whatever it is, it was there and is nobody's to throw away.
        swap_file.undo(aside, path)
        _forget(aside, new)
        raise


def _nearest(found: bytes, versions: Sequence[bytes]) -> bytes:
    """Return the version that has the fewest different lines, the newest of equals."""
    lines = set(found.splitlines())
    return min(versions, key=lambda each: len(lines ^ set(each.splitlines())))


def _joined(kind: str, base: bytes, edit: bytes, ours: bytes) -> bytes:
    was, theirs, made = (Document.parse(data, kind) for data in (base, edit, ours))
    return theirs.rewrite(merge(was.value, theirs.value, made.value)[0])


def _read(path: str) -> bytes:
    return files.read_bounded(path, LONGEST, follow=False)


def _forget(aside: str, seen: bytes) -> None:
    fd = swap_file.remove_displaced(aside, seen) if aside else None
    swap_file.free_removed([] if fd is None else [fd])


def amend_lines(path: str, change: Change, most: int) -> None:
    """Change a log that others add lines to, and their lines in the same way."""
    for _ in range(_TRIES):
        old = files.read_bounded(path, most, follow=False)
        new = change(old)
        aside = swap_file.exchange(path, new, 0o644, seen=old) if new != old else ""
        if not aside or _is_carried_over(path, aside, old, change, most):
            return
        swap_file.undo(aside, path)
        _is_carried_over(path, aside, new, bytes, most)
    raise _never_left_alone(path)


def _is_carried_over(path: str, aside: str, old: bytes, change: Change, most: int) -> bool:
    """Whether what was displaced is known, and gone; lines that somebody added to it are added
    to what is in its place."""
    while (fd := swap_file.remove_displaced(aside, old)) is None:
        now = files.read_bounded(aside, most, follow=False)
        if not now.startswith(old):
            return False
        _add(path, change(now[len(old) :]))
        old = now
    try:
        _add(path, change(swap_file.added_later(fd, len(old), Clock())))
    finally:
        swap_file.free_removed([fd])
    return True


def _add(path: str, lines: bytes) -> None:
    if lines:
        files.append_lines(path, lines, mode=0o644)


def _never_left_alone(path: str, why: str = "") -> Refused:
    return Refused(f"{path} is being written by someone else all the time", why=why, file=path)
