"""Change a part of a file that other programs may write at any moment.

The changed file is exchanged with the old one in one step. Then the old (*displaced*) file is read:
an edit that another program made in the meantime is merged into the new file, and lines that it
added to a log are added to the new log. A displaced file that cannot be read is moved back. It is
removed only after it was read.
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
"""Return the new bytes of a file; must change nothing when applied to its own result."""

Join = Callable[[bytes, bytes, bytes], bytes]
"""Merge two changed versions of a file: the arguments are base, edit of another program, ours."""

_TRIES = 50


def amend(path: str, change: Change, join: Join | None = None) -> None:
    """Change a file that other programs replace; `join` merges files that are not documents."""
    join = join or partial(_joined, path.rpartition(".")[2])
    versions, displaced, seen = [_read(path)], "", b""
    new = change(versions[0])
    for _ in range(_TRIES):
        if new == versions[0]:
            return _remove_displaced(displaced, seen)
        aside = swap_file.exchange(path, new, mode=0o644, seen=versions[0])
        # The merged edit is in place now, so the displaced bytes are no longer needed.
        _remove_displaced(displaced, seen)
        made, seen = _with_edit(path, aside, new, versions, join)
        versions, new, displaced = [new, *versions], change(made), aside
    raise _always_changing(path, why=f"its last content is in {displaced}")


def _with_edit(
    path: str, aside: str, new: bytes, versions: Sequence[bytes], join: Join
) -> tuple[bytes, bytes]:
    """Return the new bytes with a displaced edit merged into them, and the displaced bytes.

    `versions` are the bytes that the edit can have been made from, newest first.
    """
    try:
        found = _read(aside) if aside else versions[0]
        if found == versions[0]:
            return new, found
        return join(_nearest(found, versions), found, new), found
    except ForestayError:
        # It contains what another program wrote, so it must not be deleted.
        swap_file.undo(aside, path)
        _remove_displaced(aside, new)
        raise


def _nearest(found: bytes, versions: Sequence[bytes]) -> bytes:
    """Return the version with the fewest lines that differ from `found`, the newest of equals."""
    lines = set(found.splitlines())
    return min(versions, key=lambda each: len(lines ^ set(each.splitlines())))


def _joined(kind: str, base: bytes, edit: bytes, ours: bytes) -> bytes:
    was, theirs, made = (Document.parse(data, kind) for data in (base, edit, ours))
    return theirs.rewrite(merge(was.value, theirs.value, made.value)[0])


def _read(path: str) -> bytes:
    return files.read_bounded(path, LONGEST, follow=False)


def _remove_displaced(aside: str, seen: bytes) -> None:
    fd = swap_file.remove_displaced(aside, seen) if aside else None
    swap_file.free_removed([] if fd is None else [fd])


def amend_lines(path: str, change: Change, most: int) -> None:
    """Change a log to which other programs add lines; apply `change` to lines added meanwhile, too.

    At most `most` bytes are read.
    """
    for _ in range(_TRIES):
        old = files.read_bounded(path, most, follow=False)
        new = change(old)
        aside = swap_file.exchange(path, new, 0o644, seen=old) if new != old else ""
        if not aside or _move_new_lines(path, aside, old, change, most):
            return
        swap_file.undo(aside, path)
        _move_new_lines(path, aside, new, bytes, most)
    raise _always_changing(path)


def _move_new_lines(path: str, aside: str, old: bytes, change: Change, most: int) -> bool:
    """Add the new lines of the displaced log to the current one, and remove the displaced log.

    Return False if the displaced log was changed in another way than by adding lines.
    """
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


def _always_changing(path: str, why: str = "") -> Refused:
    return Refused(f"{path} is constantly being written by another program", why=why, file=path)
