"""Replace a file that other programs write to as well, so that nothing they wrote is lost.

An *exchange* is as durable as a replace, in three steps: the new file is *staged* next to the old
one, the two *swap* names, the folder is synced. What another program wrote in the last moment is
then in the *displaced* file, until the caller has compared and removed it.
"""

from __future__ import annotations

import errno
import os
import sys
from functools import cache

from forestay.base import files
from forestay.base.clock import Clock
from forestay.base.hashing import digest_of
from forestay.errors import ForestayError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from ctypes import CDLL

_SWAPPED = ".forestay-swap"
_MARK = 12


def stage_all(
    new: Sequence[tuple[str, bytes, str]], mode: int = 0o600, seen: str = ""
) -> list[str | ForestayError]:
    """Stage files, each given as place, bytes and SHA-256; return the name of each or its error.

    All are handed to the disk before the first sync, which then writes most of them at once.
    """
    begun = [_begun(path, data, mode) for path, data, _ in new]
    fds = [each[1] for each in begun if isinstance(each, tuple)]
    failed = dict(zip(fds, map(_sync, fds), strict=True))
    return [
        _set_aside(path, *each, seen + digest[:_MARK], failed[each[1]])
        if isinstance(each, tuple)
        else each
        for each, (path, _, digest) in zip(begun, new, strict=True)
    ]


def _begun(path: str, data: bytes, mode: int) -> tuple[str, int] | ForestayError:
    """Write new bytes to an open temporary that is not synced yet."""
    try:
        temporary, fd = files.begin_temporary(path, data, mode)
    except ForestayError as error:
        return error
    except OSError as error:
        return files.failure(error, "write", path)
    try:
        # Let the system begin to write it to the disk, so that its sync takes less time.
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    except (AttributeError, OSError):
        pass  # only a hint: the sync writes it
    return temporary, fd


def swap(
    aside: str, path: str, *, backup: tuple[str, bytes] | None = None, mode: int = 0o600
) -> bool:
    """Swap the names of a staged file and the one under `path`; False if there was no old one.

    The swap is durable once the folder is synced. A `backup` (name and bytes) is replaced only when
    the new bytes are safe: on a full disk the earlier backup stays. If this raises, the new file is
    removed and the old one is in its place.
    """
    try:
        if backup:
            files.replace(*backup, mode=files.mode_of(aside) or mode)
        return _swap(aside, path)
    except ForestayError:
        files.remove(aside)
        raise
    except OSError as error:  # nothing else: after the swap the staged name has the user's bytes
        files.remove(aside)
        raise files.failure(error, "write", path) from error


def _set_aside(
    path: str, temporary: str, fd: int, mark: str, error: OSError | None
) -> str | ForestayError:
    aside = f"{temporary.removesuffix(files.TEMPORARY)}.{mark}{_SWAPPED}"
    try:
        os.close(fd)
        if error is not None:
            raise error
        os.rename(temporary, aside)
    except OSError as problem:
        files.remove(temporary)
        return files.failure(problem, "write", path)
    return aside


def sync_all(paths: Iterable[str]) -> None:
    """Sync folders after exchanges, and files after lines were appended without a sync."""
    opened: dict[str, int] = {}
    failed: dict[str, OSError | None] = {}
    try:
        for path in sorted(paths):
            try:
                opened[path] = os.open(path, files.ANY)
            except FileNotFoundError:
                continue  # it was removed: there is nothing to sync
            except OSError as error:
                failed[path] = error
        failed |= zip(opened, map(_sync, opened.values()), strict=True)
    finally:
        for fd in opened.values():
            os.close(fd)
    for path, problem in failed.items():
        if problem is not None and problem.errno not in files.NO_FOLDER_SYNC:
            raise files.failure(problem, "write", path) from problem


def _sync(fd: int) -> OSError | None:
    """Sync a file; return the error, or None."""
    try:
        files.sync_file(fd)
    except OSError as error:
        return error
    return None


def exchange(path: str, data: bytes, mode: int = 0o600, *, seen: bytes | None = None) -> str:
    """Exchange one file; return where the old one is now, empty if there was none.

    If this process dies, a displaced file whose bytes it had `seen` is recognized as handled.
    """
    aside = stage(path, data, mode, seen)
    was_there = swap(aside, path)
    sync_all([files.folder_of(path)])
    return aside if was_there else ""


def stage(path: str, data: bytes, mode: int = 0o600, seen: bytes | None = None) -> str:
    """Stage one file next to its place; return its name."""
    known = "" if seen is None else f"{_mark(seen)}."
    (aside,) = stage_all([(path, data, _mark(data))], mode, known)
    if isinstance(aside, ForestayError):
        raise aside
    return aside


def undo(aside: str, path: str) -> None:
    """Undo an exchange: swap the displaced file and the new one again."""
    try:
        _swap(aside, path)
        files.sync_folder(files.folder_of(path))
    except OSError as error:
        raise files.failure(error, "write", path) from error


def displaced(path: str) -> list[str]:
    """Return the files that an exchange of `path` left because its process died."""
    return files.list_temporaries(path, _SWAPPED)


def remove_displaced(aside: str, data: bytes, clock: Clock | None = None) -> int | None:
    """Remove a displaced file if it has these bytes; return None if it has others.

    With a clock, this waits briefly for a program that is still writing it. The returned descriptor
    holds the space until `free_removed`: freeing it may take a disk as long as writing a file.
    """
    try:
        fd = os.open(aside, files.ANY)
    except OSError:
        return None
    try:
        # A pipe without a writer has no bytes either.
        is_plain = data or not files.is_irregular(aside)
        is_plain = is_plain and (clock is None or _is_left_alone(fd, clock))
        if is_plain and files.read_up_to(fd, len(data) + 1, len(data)) == data:
            os.unlink(aside)
            return fd
    except OSError:
        pass  # the next reader reports the reason
    os.close(fd)
    return None


def added_later(fd: int, size: int, clock: Clock) -> bytes:
    """Return what other programs appended to a removed file after `size` bytes.

    This waits briefly for a program that still has the file open for writing.
    """
    _is_left_alone(fd, clock)
    return os.pread(fd, max(os.fstat(fd).st_size - size, 0), size)


def is_finished(path: str, clock: Clock) -> bool:
    """Return whether no program is writing a file, after a short wait."""
    try:
        fd = os.open(path, files.ANY)
    except OSError:
        return True  # reading it reports the reason
    try:
        return _is_left_alone(fd, clock)
    finally:
        os.close(fd)


_GLANCES, _GLANCE = 50, 0.004


def _is_left_alone(fd: int, clock: Clock) -> bool:
    """Return whether no program has a file open for writing, after a short wait."""
    for _ in range(_GLANCES):
        if not _is_being_written(fd):
            return True
        clock.sleep(_GLANCE)
    return False


def _is_being_written(fd: int) -> bool:
    """Return whether a program has a file open for writing; False where that is unknown."""
    import fcntl
    import signal

    try:
        # A program that opens the file now causes a signal; this one is ignored by default.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        return True
    except (OSError, AttributeError):
        pass  # the system has no leases for this file
    return False


def free_removed(fds: Sequence[int]) -> None:
    """Free the space of files that were removed."""
    for fd in fds:
        os.close(fd)


def is_staged(aside: str, data: bytes) -> bool:
    """Return whether a staged file never swapped names: its name has the digest of its bytes.

    After a power cut there may be no other record that these bytes are ours.
    """
    return aside.endswith(f".{_mark(data)}{_SWAPPED}")


def _is_done_with(aside: str) -> bool:
    """Return whether a file can be removed: it never swapped names, or its bytes were seen."""
    try:
        data = files.read_bounded(aside, _LARGEST, follow=False)
    except ForestayError:
        return False
    return is_staged(aside, data) or f".{_mark(data)}." in os.path.basename(aside)


_LARGEST = 256 * 1024 * 1024


def remove_leftovers(path: str) -> list[str]:
    """Remove what interrupted writes to `path` left; return displaced files not handled yet.

    The caller holds the lock of the folder.
    """
    for temporary in files.list_unfinished(path):
        files.remove(temporary)
    left = []
    for aside in displaced(path):
        if _is_done_with(aside):
            files.remove(aside)
        else:
            left.append(aside)
    return left


def _mark(data: bytes) -> str:
    return digest_of(data)[:_MARK]


def leftovers(path: str) -> list[str]:
    """Return the files that interrupted writes to `path` left; the caller holds the lock."""
    return [*files.list_temporaries(path, files.TEMPORARY), *files.list_temporaries(path, _SWAPPED)]


def has_leftovers(folder: str) -> bool:
    """Return whether a folder contains files of an interrupted write."""
    try:
        return any(name.endswith((_SWAPPED, files.TEMPORARY)) for name in os.listdir(folder))
    except OSError:
        return False


def _swap(aside: str, path: str) -> bool:
    """Swap the names of two files; False if there was only the new one."""
    if _swap_names(aside, path):
        return True
    old_name = files.temporary_name(path, _SWAPPED)
    try:
        os.link(path, old_name, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(aside, path)
        return False
    # This system cannot swap: bytes written between these two calls would be lost.
    os.rename(aside, path)
    os.rename(old_name, aside)
    return True


@cache
def _libc() -> CDLL:
    """Return the C library, loaded once."""
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def _swap_names(a: str, b: str) -> bool:
    """Swap two files in one step; False if the system cannot, or a file is missing."""
    import ctypes

    names = (os.fsencode(a), os.fsencode(b))
    libc = _libc()
    try:
        if sys.platform == "darwin":
            done = libc.renamex_np(*names, ctypes.c_uint(2))
        else:
            here = ctypes.c_int(-100)  # AT_FDCWD
            done = libc.renameat2(here, names[0], here, names[1], ctypes.c_uint(2))
    except AttributeError:
        return False
    code = ctypes.get_errno()
    if done and code not in (errno.ENOENT, errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        raise OSError(code, os.strerror(code))
    return not done
