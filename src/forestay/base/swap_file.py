"""Putting bytes under a name that others write to as well, so that nothing they wrote is lost.

Words. An *exchange* is as durable as a replace, in three steps: the new file is *staged* beside,
the two *swap* places, the folder is synced. What someone wrote in the last moment lies beside
then, under a name that `displaced` finds, until whoever swapped has looked at it and removes it.
"""

from __future__ import annotations

import errno
import os
import re
import sys

from forestay.base import files
from forestay.base.clock import Clock
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
    """New bytes in a temporary that is open, on their way to the disk but not synced."""
    try:
        temporary, fd = files.begin_temporary(path, data, mode)
    except ForestayError as error:
        return error
    except OSError as error:
        return files.failure(error, "write", path)
    _start_writing(fd)
    return temporary, fd


def _start_writing(fd: int) -> None:
    """Let the system begin to write what a file has; whoever syncs it then waits less."""
    if hasattr(os, "posix_fadvise"):
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        except OSError:
            return  # a hint only: the sync does the work then


def swap(
    aside: str, path: str, *, backup: tuple[str, bytes] | None = None, mode: int = 0o600
) -> bool:
    """Let a staged file and the one under `path` change places; False if there was no old one.

    It lasts once the folder is synced. A `backup` (its name and bytes) is replaced when the new
    bytes are safe, not before: a disk that has no room for them leaves the backup of earlier.
    When it raises, the new file is gone and the old one there.
    """
    try:
        if backup:
            files.replace(*backup, mode=files.mode_of(aside) or mode)
        return _swap(aside, path)
    except ForestayError:
        files.remove(aside)
        raise
    except OSError as error:  # nothing else: after the step itself this is what someone wrote
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
    """The last step of exchanges in some folders, and of lines added to some files `soon` to be
    synced: from now on they survive power loss."""
    opened: dict[str, int] = {}
    failed: dict[str, OSError | None] = {}
    try:
        for path in sorted(paths):
            try:
                opened[path] = os.open(path, files.ANY)
            except FileNotFoundError:
                continue  # someone took it away: there is nothing to last
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
    """Sync a file; return what went wrong."""
    try:
        files.sync_file(fd)
    except OSError as error:
        return error
    return None


def one(path: str, data: bytes, mode: int = 0o600, *, seen: bytes | None = None) -> str:
    """An exchange of one file; returns where the old one is now, empty if there was none.

    If this process dies, a displaced file with bytes that it had `seen` is known for done with.
    """
    aside = stage(path, data, mode, seen)
    was_there = swap(aside, path)
    sync_all([files.folder_of(path)])
    return aside if was_there else ""


def stage(path: str, data: bytes, mode: int = 0o600, seen: bytes | None = None) -> str:
    """Write one file beside its place; returns its name."""
    known = "" if seen is None else f"{_mark(seen)}."
    (aside,) = stage_all([(path, data, _mark(data))], mode, known)
    if isinstance(aside, ForestayError):
        raise aside
    return aside


def put_back(aside: str, path: str) -> None:
    """Undo an exchange: what it displaced has its name again, what has the name lies aside."""
    try:
        _swap(aside, path)
        files.sync_folder(files.folder_of(path))
    except OSError as error:
        raise files.failure(error, "write", path) from error


def displaced(path: str) -> list[str]:
    """Files that an exchange of `path` left beside it because its process died."""
    return files.list_temporaries(path, _SWAPPED)


def forget(aside: str, data: bytes, clock: Clock | None = None) -> int | None:
    """Remove what an exchange displaced, if it has these bytes; None if it is something else.

    With a clock, whoever is still writing it is waited for a moment first. The number that is
    returned holds its space until it is `let_go`: a disk may need as long to take that back as to
    write a file.
    """
    try:
        fd = os.open(aside, files.ANY)
    except OSError:
        return None
    try:
        # A pipe that nobody writes to has no bytes either.
        is_plain = data or not files.is_irregular(aside)
        is_plain = is_plain and (clock is None or _is_left_alone(fd, clock))
        if is_plain and files.read_up_to(fd, len(data) + 1, len(data)) == data:
            os.unlink(aside)
            return fd
    except OSError:
        pass  # whatever it is, whoever looks at it next says why
    os.close(fd)
    return None


def added_later(fd: int, size: int, clock: Clock) -> bytes:
    """What others added behind so many bytes of a file that nobody can open any more; whoever has
    it open still may be about to, and is waited for a moment."""
    _is_left_alone(fd, clock)
    return os.pread(fd, max(os.fstat(fd).st_size - size, 0), size)


def is_finished(path: str, clock: Clock) -> bool:
    """Whether nobody is still writing a file; who is, is waited for a moment."""
    try:
        fd = os.open(path, files.ANY)
    except OSError:
        return True  # whoever reads it says why
    try:
        return _is_left_alone(fd, clock)
    finally:
        os.close(fd)


_GLANCES, _GLANCE = 50, 0.004


def _is_left_alone(fd: int, clock: Clock) -> bool:
    """Whether nobody has a file open to write to it; who has is waited for a moment."""
    for _ in range(_GLANCES):
        if not _is_being_written(fd):
            return True
        clock.sleep(_GLANCE)
    return False


def _is_being_written(fd: int) -> bool:
    """Whether somebody has a file open to write to it; no, where the system does not tell."""
    import fcntl
    import signal

    try:
        # Who opens it at this very moment is told to us by a signal: one that ends nobody.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        return True
    except (OSError, AttributeError):
        return False
    return False


def let_go(fds: Sequence[int]) -> None:
    """Give back the space of files that were removed."""
    for fd in fds:
        os.close(fd)


def is_staged(aside: str, data: bytes) -> bool:
    """Whether what lies aside never changed places: its name says what it was made with.

    After a power cut nothing else may know that these bytes are ours.
    """
    return aside.endswith(f".{_mark(data)}{_SWAPPED}")


def _is_done_with(aside: str) -> bool:
    """Whether nobody needs what lies aside: it never changed places, or was seen before it did."""
    try:
        data = files.read_bounded(aside, _LARGEST, follow=False)
    except ForestayError:
        return False
    return is_staged(aside, data) or f".{_mark(data)}." in os.path.basename(aside)


_LARGEST = 256 * 1024 * 1024


def clear_up(path: str) -> list[str]:
    """Remove what a write to `path` left when it was cut off, for whoever holds the lock; returns
    what it displaced and nobody has looked at."""
    for temporary in files.list_unfinished(path):
        files.remove(temporary)
    left = []
    for aside in displaced(path):
        if _is_done_with(aside):
            files.remove(aside)
        else:
            left.append(aside)
    return left


def cut_off(folder: str) -> list[str]:
    """The files of a folder an exchange of which was cut off, by what it left there."""
    found = map(_LEFT.fullmatch, files.list_names(folder))
    return list(dict.fromkeys(os.path.join(folder, each[1]) for each in found if each))


_LEFT = re.compile(rf"\.(.+?)\.[0-9a-f]{{12}}(\.[0-9a-f]{{{_MARK}}}){{0,2}}{_SWAPPED}")


def _mark(data: bytes) -> str:
    from forestay.base.hashing import digest_of

    return digest_of(data)[:_MARK]


def leftovers(path: str) -> list[str]:
    """All that a write to `path` may have left beside it; for whoever holds the lock."""
    return [*files.list_temporaries(path, files.TEMPORARY), *files.list_temporaries(path, _SWAPPED)]


def has_leftovers(folder: str) -> bool:
    """Whether a glance at a folder shows that something was not finished there."""
    try:
        return any(name.endswith((_SWAPPED, files.TEMPORARY)) for name in os.listdir(folder))
    except OSError:
        return False


def _swap(aside: str, path: str) -> bool:
    """Let two files change names; False if there was only the new one."""
    if _swap_names(aside, path):
        return True
    kept = files.temporary_name(path, _SWAPPED)
    try:
        os.link(path, kept, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(aside, path)
        return False
    # This system cannot swap: what is written between these two lines would be lost.
    os.rename(aside, path)
    os.rename(kept, aside)
    return True


def _libc() -> CDLL:
    """The C library, whose names are looked up once."""
    if not _LIBC:
        import ctypes

        _LIBC.append(ctypes.CDLL(None, use_errno=True))
    return _LIBC[0]


_LIBC: list[CDLL] = []


def _swap_names(a: str, b: str) -> bool:
    """Swap two files in one step; False where the system, or a missing file, does not let us."""
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
