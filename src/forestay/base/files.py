"""Write the user's files durably (only `swap_file` writes them too) and read files within bounds.

A *durable replace* leaves either the old bytes or the new ones under a name, never a mixture and
never nothing, even if the process dies in between: the new bytes go to a *temporary* in the same
folder and are synced, the temporary is renamed, and the folder is synced so that the name itself
survives. A *private* folder or file belongs to this user alone: 0700 and 0600, whatever the umask
is. To *quarantine* a file is to move it away without losing a byte. A *stamp* is what the system
knows of a file without reading it.

This module owns the order of the system calls and the translation of their errors. A failed sync is
a failure: after it the content of the disk is unknown, so nothing is acknowledged. Temporaries are
named `.NAME.RANDOM.forestay-tmp`; one that outlives its process was never acknowledged and may be
deleted.
"""

from __future__ import annotations

import errno
import os
import stat
import sys

from forestay.base.clock import Clock
from forestay.errors import Busy, ForestayError, InvalidInput, ReadOnly, Refused, StoreFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

# Names in a home, next to the settings; docs/formats.md describes each.
DATABASE = "forestay.db"
LOCK, QUEUE = "writer.lock", "writer.queue"
HEADS = "heads"
BACKUPS = "backups"
BACKUP_STATE = "state.json"
PACK = ".fspack"
SPOOL = "spool"
WAITING = "new"
"""In the spool: what hooks reported and no process has ingested yet."""
QUARANTINE = "quarantine"
SEAL = "moved"
"""Records where the contents of this home were moved to."""
STORES, REMEMBERED = "stores", "remembered"
"""Local facts about stores elsewhere, and the chain heads written to each."""
KEYS = "keys"
TEMPORARY = ".forestay-tmp"

_CHUNK = 1 << 20

# Error class and remedy per errno. Every code not listed is StoreFailed without a hint.
_MEANING: dict[int, tuple[type[ForestayError], str]] = {
    errno.EROFS: (ReadOnly, "choose another place; for the home: FORESTAY_HOME=DIR"),
    errno.EACCES: (ReadOnly, "check owner and permissions: ls -ld FILE"),
    errno.EPERM: (ReadOnly, "check owner and permissions: ls -ld FILE"),
    errno.ENOSPC: (StoreFailed, "free some space, then run the command again: df -h"),
    errno.EDQUOT: (StoreFailed, "your disk quota is used up; free some space, then try again"),
    errno.EIO: (StoreFailed, "the disk reports errors; see the system log, then: forestay verify"),
    errno.EMFILE: (StoreFailed, "too many open files; raise the limit: ulimit -n"),
    errno.ENFILE: (StoreFailed, "too many open files on this machine"),
    errno.ENOENT: (InvalidInput, "check the path"),
    errno.EEXIST: (InvalidInput, "choose another name"),
    errno.ENOTDIR: (InvalidInput, "a part of the path is a file, not a folder"),
    errno.EISDIR: (InvalidInput, "this is a folder; name a file"),
    errno.ELOOP: (InvalidInput, "symbolic links are not followed here; name the real file"),
    errno.ENAMETOOLONG: (InvalidInput, "choose a shorter name"),
    errno.EINVAL: (InvalidInput, "this file system does not allow this name"),
    errno.ENXIO: (InvalidInput, "this is a socket or a device; name a file"),
}


def failure(error: OSError | ValueError, doing: str, path: str) -> ForestayError:
    """Return the error to raise for a system error, with the file and a remedy."""
    if not isinstance(error, OSError):  # what os functions raise for an impossible path
        return InvalidInput(f"not a path: {path[:200]!r}", why=str(error))
    kind, hint = _MEANING.get(error.errno or 0, (StoreFailed, ""))
    if kind is ReadOnly and doing == "read":
        kind = StoreFailed
    # With O_NOFOLLOW the system reports the first link as "too many levels".
    is_link = error.errno == errno.ELOOP and os.path.islink(path)
    return kind(
        f"cannot {doing} {path}",
        why="it is a symbolic link" if is_link else (error.strerror or str(error)).lower(),
        hint=hint.replace("FILE", _find_culprit(path, doing)) if "FILE" in hint else hint,
        operation="read" if doing == "read" else "update",
        file=path,
    )


def _find_culprit(path: str, doing: str) -> str:
    """Return the path whose permissions prevent access, quoted for a shell: often the folder."""
    if doing == "write" and os.path.lexists(path) and not is_writable(folder_of(path)):
        path = folder_of(path)
    while not os.path.lexists(path) and folder_of(path) != path:
        path = folder_of(path)
    return shell_quote(path)


def shell_quote(path: str) -> str:
    """Return a path quoted for a shell command."""
    import shlex

    return shlex.quote(path)


def move_away_command(path: str) -> str:
    """Return the shell command that moves a file out of the way."""
    return f"mv {shell_quote(path)} {shell_quote(f'{path}.old')}"


def _require_path(path: str) -> None:
    if path.isascii() and "\0" not in path:
        return
    try:
        possible = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        possible = False
    if not possible:
        raise InvalidInput(f"not a path: {path[:200]!r}", why="it has a NUL or a lone surrogate")


# --- folders ---------------------------------------------------------------------------------


def make_private_dir(path: str) -> bool:
    """Ensure that `path` is a folder only this user can change; return whether it was created.

    Missing parents are created too, all 0700 whatever the umask is, and their names are synced. An
    existing folder of another user, or one that other users can write to, is refused, not repaired.
    """
    _require_path(path)
    try:
        created = _make_dirs(os.path.abspath(path), private=True)
        _require_ours(path, os.stat(path))
        # A process may have died between making the folder and syncing its name.
        if not created and not os.listdir(path):
            sync_folder(os.path.dirname(os.path.abspath(path)))
    except OSError as error:
        raise failure(error, "make the folder", path) from error
    return created


def make_folder(path: str) -> None:
    """Ensure that a folder of the user's project exists, with its name synced."""
    _require_path(path)
    try:
        _make_dirs(os.path.abspath(path))
    except FileExistsError:
        raise InvalidInput(f"{path} is not a folder", file=path) from None
    except OSError as error:
        raise failure(error, "make the folder", path) from error


def _make_dirs(path: str, *, private: bool = False) -> bool:
    if os.path.isdir(path):
        return False
    parent = os.path.dirname(path)
    if parent != path:
        _make_dirs(parent, private=private)
    try:
        os.mkdir(path, 0o700 if private else 0o777)
    except FileExistsError:
        if os.path.isdir(path):
            return False  # another process was faster
        raise
    if private:
        os.chmod(path, 0o700)  # mkdir obeys the umask, which may have cleared our own bits
    sync_folder(parent)
    return True


def _require_ours(path: str, facts: os.stat_result) -> None:
    elsewhere = "set FORESTAY_HOME to a folder of your own"
    if not stat.S_ISDIR(facts.st_mode):
        raise InvalidInput(f"{path} is not a folder", hint=elsewhere, file=path)
    if facts.st_uid != os.geteuid():
        raise Refused(
            f"{path} belongs to another user",
            why=f"its owner is user {facts.st_uid}, and this is user {os.geteuid()}",
            hint=elsewhere,
            file=path,
        )
    if facts.st_mode & 0o022:
        raise Refused(
            f"other users of this computer can write to {path}",
            why=f"its mode is {stat.S_IMODE(facts.st_mode):04o}",
            hint=f"chmod 700 {shell_quote(path)}",
            file=path,
        )


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
ANY = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Flags to open anything without following a link or waiting for the writer of a pipe."""
# Codes of file systems that cannot sync a folder: that is not a failed sync.
NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP)


def sync_folder(path: str) -> None:
    fd = os.open(path, _FOLDER)
    try:
        sync_file(fd)
    except OSError as error:
        if error.errno not in NO_FOLDER_SYNC:
            raise
    finally:
        os.close(fd)


def sync_file(fd: int) -> None:
    """Wait until what was written to an open file survives power loss."""
    if sys.platform == "darwin":
        import fcntl

        # On macOS, fsync leaves the bytes in the drive's cache.
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fsync(fd)


class locked:
    """Lock a folder or a file for one short change: `with locked(folder): …`.

    Other processes wait, longer each time, and get Busy after `timeout` seconds. The kernel
    releases the lock when the process dies. With `private` a missing file is created for this user
    alone and stays. With `shared` other processes may share the lock.
    """

    _fd = -1

    def __init__(
        self,
        path: str,
        *,
        timeout: float = 10.0,
        clock: Clock | None = None,
        private: bool = False,
        shared: bool = False,
    ) -> None:
        self._path, self._timeout, self._clock = path, timeout, clock or Clock()
        self._flags = os.O_NOFOLLOW | (os.O_RDWR | os.O_CREAT if private else os.O_RDONLY)
        self._private, self._shared = private, shared

    def __enter__(self) -> None:
        self._fd = _open(self._path, self._flags, "lock")
        try:
            if self._private and stat.S_IMODE(os.fstat(self._fd).st_mode) != 0o600:
                os.fchmod(self._fd, 0o600)  # the umask or an earlier version set another mode
            _lock(self._fd, self._path, self._timeout, self._clock, shared=self._shared)
        except BaseException as error:
            self.__exit__()
            if isinstance(error, OSError):
                raise failure(error, "lock", self._path) from error
            raise

    def __exit__(self, *_: object) -> None:
        import fcntl

        fd, self._fd = self._fd, -1
        try:
            # A child forked in the meantime inherited the lock and may stay alive for long.
            fcntl.flock(fd, fcntl.LOCK_UN)
        finally:
            os.close(fd)

    def __del__(self) -> None:
        # After an interrupt at the wrong moment no other process would ever get the lock.
        if self._fd >= 0:
            os.close(self._fd)


# A busy writer holds the lock most of the time: others must try often to get it.
_LONGEST_PAUSE = 0.05


def attempts(timeout: float, clock: Clock) -> Iterator[None]:
    """Yield once per attempt, with longer pauses each time; the last is after `timeout` seconds."""
    deadline, pause = clock.monotonic() + timeout, 0.005
    yield
    while clock.monotonic() < deadline:
        # With jitter: processes that wait for the same file must not wake up together.
        clock.sleep(pause * (0.5 + clock.random(1)[0] / 255))
        pause = min(pause * 2, _LONGEST_PAUSE)
        yield


def _lock(fd: int, path: str, timeout: float, clock: Clock, *, shared: bool = False) -> None:
    import fcntl

    for _ in attempts(timeout, clock):
        try:
            return fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
    raise Busy(f"another process is changing {path}")


# --- writing ---------------------------------------------------------------------------------


def replace(path: str, data: bytes | Iterable[bytes], mode: int = 0o600) -> None:
    """Write `data`, whole or in chunks, under the name `path`, so that it survives power loss.

    If this raises, the old file is intact and no temporary is left; only if the last step, the sync
    of the folder, fails may either version be found after a crash. A symbolic link is refused:
    replacing it would silently detach it from its target.
    """
    _require_path(path)
    try:
        temporary = _write_temporary(path, _chunks(data), mode, _mode_of_regular(path))
        try:
            os.rename(temporary, path)
        except BaseException:
            remove(temporary)
            raise
        sync_folder(folder_of(path))
    except OSError as error:
        raise failure(error, "write", path) from error


def create(path: str, data: bytes | Iterable[bytes], mode: int = 0o600) -> None:
    """Write a new file like `replace`; raise InvalidInput if the name exists.

    The name appears with all of its bytes, so no reader sees half a file.
    """
    _require_path(path)
    try:
        temporary = _write_temporary(path, _chunks(data), mode)
        try:
            _link_or_claim(temporary, path)
        finally:
            remove(temporary)
        sync_folder(folder_of(path))
    except FileExistsError as error:
        raise InvalidInput(
            f"{path} already exists", hint="choose another name, or move it away", file=path
        ) from error
    except OSError as error:
        raise failure(error, "write", path) from error


def create_all(out: str, contents: dict[str, bytes]) -> list[str]:
    """Create one file named `out`, or files in a folder `out`; return their paths.

    Nothing is written if a name exists, and nothing stays if not all can be written or after an
    interrupt, because half a session would look like a whole one.
    """
    if out == "-":
        raise InvalidInput(
            "-o needs the name of a file or folder", hint="for a file named -: -o ./-"
        )
    is_folder = len(contents) > 1 or out.endswith("/") or os.path.isdir(out)
    targets = {
        os.path.join(out, name) if is_folder else out: data for name, data in contents.items()
    }
    for target in targets:
        if os.path.lexists(target):
            raise InvalidInput(
                f"{target} already exists", hint="choose another file with -o", file=target
            )
    new_folders, begun = _missing_folders(targets), list[str]()
    try:
        for target, data in targets.items():
            make_folder(folder_of(target))
            begun.append(target)
            create(target, data, mode=0o644)
    except BaseException as error:
        # A file that another process created in the meantime is not ours.
        _undo_creation(begun[:-1] if isinstance(error, InvalidInput) else begun, new_folders)
        raise
    return begun


def _missing_folders(paths: Iterable[str]) -> list[str]:
    """Return the folders that do not exist yet, innermost first."""
    missing = set()
    for path in paths:
        folder = os.path.dirname(os.path.abspath(path))
        while not os.path.lexists(folder):
            missing.add(folder)
            folder = os.path.dirname(folder)
    return sorted(missing, key=len, reverse=True)


def _undo_creation(begun: list[str], folders: list[str]) -> None:
    for path in begun:
        remove(path)
    for folder in folders:
        try:
            os.rmdir(folder)
        except OSError:
            pass  # it was not created, or another process put something in it


def append_lines(path: str, data: bytes, mode: int = 0o600, *, sync: bool = True) -> None:
    """Append lines in one write, so that lines of several processes never mix.

    They are synced, unless the caller does that later (sync=False). A torn line that a full disk
    or a crash left at the end is terminated first and stays: a reader sees one bad line, never two
    good ones joined. Raises Busy if another process has locked the file.
    """
    lines = data.removesuffix(b"\n") + b"\n"
    _append(path, mode, lambda fd: lines, sync=sync)


def append_once(path: str, line: bytes, *, header: bytes = b"", mode: int = 0o600) -> None:
    """Append a line like `append_lines` unless the file has it; `header` begins a new file."""

    def choose_lines(fd: int) -> bytes:
        size = os.fstat(fd).st_size
        if not size:
            return b"".join(each + b"\n" for each in (header, line) if each)
        existing = os.pread(fd, size, 0).replace(b"\r\n", b"\n").split(b"\n")
        return b"" if line in existing else line + b"\n"

    _append(path, mode, choose_lines)


def _append(
    path: str, mode: int, choose_lines: Callable[[int], bytes], *, sync: bool = True
) -> None:
    _require_path(path)
    try:
        fd, is_new = _open_for_append(path, mode)
        try:
            # A line that another process is just writing must not look like a torn one.
            _lock(fd, path, 10.0, Clock())
            if lines := choose_lines(fd):
                _append_whole(fd, lines)
            if sync:
                sync_file(fd)
        finally:
            os.close(fd)
        if is_new:
            sync_folder(folder_of(path))
    except OSError as error:
        raise failure(error, "write", path) from error


def require_no_link(folder: str) -> None:
    """Refuse a project folder that is a link: files written there would end up elsewhere."""
    if os.path.islink(folder):
        raise Refused(
            f"{folder} is a symbolic link",
            why="files are not written through a link",
            hint="replace the link by a folder",
            file=folder,
        )


def move(path: str, target: str) -> None:
    """Rename a file on the same disk durably, replacing any file of that name."""
    _require_path(path)
    try:
        os.rename(path, target)
        sync_folder(folder_of(target))
        sync_folder(folder_of(path))
    except OSError as error:
        raise failure(error, "move", path) from error


def quarantine(path: str, folder: str) -> str:
    """Move a file into `folder` without losing a byte, and return its new path.

    The rename frees the name, so a file that another process just put there is moved, not lost.
    Nothing in the folder is overwritten.
    """
    _require_path(path)
    make_private_dir(folder)
    try:
        moved = os.path.join(folder, f"{_cut(os.path.basename(path))}.{os.urandom(6).hex()}")
        try:
            os.rename(path, moved)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _move_across(path, moved)
        sync_folder(folder)
        sync_folder(folder_of(path))
    except OSError as error:
        raise failure(error, "move aside", path) from error
    return moved


def _chunks(data: bytes | Iterable[bytes]) -> Iterable[bytes]:
    return (data,) if isinstance(data, bytes) else data


def begin_temporary(path: str, data: bytes, mode: int) -> tuple[str, int]:
    """Write new bytes for `path` to an open, unsynced temporary; return name and descriptor."""
    _require_path(path)
    temporary = temporary_name(path)
    return temporary, _write_new(temporary, (data,), mode, _mode_of_regular(path))


def mode_of(path: str) -> int | None:
    try:
        return stat.S_IMODE(os.lstat(path).st_mode) & 0o777
    except FileNotFoundError:
        return None


def _write_temporary(path: str, chunks: Iterable[bytes], mode: int, old: int | None = None) -> str:
    temporary = temporary_name(path)
    fd = _write_new(temporary, chunks, mode, old)
    try:
        try:
            sync_file(fd)
        finally:
            os.close(fd)
    except BaseException:
        remove(temporary)
        raise
    return temporary


def _write_new(temporary: str, chunks: Iterable[bytes], mode: int, old: int | None) -> int:
    """Create a file and return it open and not synced; `old` is the mode of the replaced one.

    A file in the home is always private; a file in the user's project retains its mode, and a new
    one follows the umask.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    exact = old if mode & 0o077 else mode
    fd = os.open(temporary, flags, mode if exact is None else exact)
    try:
        if exact is not None:
            os.fchmod(fd, exact)
        for chunk in chunks:
            _write_all(fd, chunk)
    except BaseException:
        os.close(fd)
        remove(temporary)
        raise
    return fd


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _link_or_claim(temporary: str, path: str) -> None:
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        # No hard links on this file system: claim the name with an empty file, then replace that.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        try:
            os.rename(temporary, path)
        except BaseException:
            remove(path)
            raise


def _open_for_append(path: str, mode: int) -> tuple[int, bool]:
    # O_NONBLOCK prevents waiting for a fifo; it has no effect on a regular file.
    flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    is_new = True
    try:
        fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        fd, is_new = os.open(path, flags), False
    try:
        _require_regular(path, os.fstat(fd))
        if is_new and not mode & 0o077:
            os.fchmod(fd, mode)
    except BaseException:
        os.close(fd)
        raise
    return fd, is_new


def _append_whole(fd: int, line: bytes) -> None:
    size = os.fstat(fd).st_size
    if size and os.pread(fd, 1, size - 1) != b"\n":
        line = b"\n" + line
    if os.write(fd, line) != len(line):
        raise OSError(errno.ENOSPC, "only a part of the line could be written")


def _move_across(path: str, moved: str) -> None:
    """Move to another file system; free the name first, so that no newer file is removed."""
    aside = os.path.join(folder_of(path), os.path.basename(moved) + ".aside")
    os.rename(path, aside)
    try:
        os.rename(_write_temporary(moved, read_chunks(aside, follow=False), 0o600), moved)
        sync_folder(folder_of(moved))  # the copy must be durable before the original is removed
    except BaseException:
        _restore_name(aside, path)
        raise
    os.unlink(aside)


def _restore_name(aside: str, path: str) -> None:
    try:
        os.link(aside, path)
        os.unlink(aside)
    except OSError:
        # The name is used again, or there are no hard links here: the bytes stay under the other
        # name, and the error to report is the one that prevented the move.
        pass


def _mode_of_regular(path: str) -> int | None:
    """Return the mode of the regular file under a name; None if there is none."""
    try:
        facts = os.lstat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(facts.st_mode):
        raise OSError(errno.ELOOP, "it is a symbolic link")
    _require_regular(path, facts)
    return stat.S_IMODE(facts.st_mode) & 0o777


def temporary_name(path: str, suffix: str = TEMPORARY) -> str:
    name = f".{_cut(os.path.basename(path))}.{os.urandom(6).hex()}{suffix}"
    return os.path.join(folder_of(path), name)


def _cut(name: str) -> str:
    # A name may fill the 255 bytes a file system allows; a temporary's is longer.
    return os.fsdecode(os.fsencode(name)[:200])


def folder_of(path: str) -> str:
    return os.path.dirname(path) or "."


def list_unfinished(path: str) -> list[str]:
    """Return leftover temporaries for `path`; the caller holds the lock of the folder."""
    return list_temporaries(path, TEMPORARY)


def list_temporaries(path: str, ending: str) -> list[str]:
    """Return the files that were created for `path` with this ending."""
    folder, name = folder_of(path), f".{_cut(os.path.basename(path))}."
    found = (n for n in list_names(folder) if n.startswith(name) and n.endswith(ending))
    return [os.path.join(folder, n) for n in found]


def remove(path: str) -> None:
    """Remove a temporary if it still exists."""
    try:
        os.unlink(path)
    except OSError:
        # Already gone, or the disk fails as a whole: the first error is the one to report, and
        # the doctor finds a temporary that stays.
        pass


# --- reading ---------------------------------------------------------------------------------


def read_bounded(path: str, limit: int, *, follow: bool = True, private: bool = False) -> bytes:
    """Return the bytes of a regular file of at most `limit` bytes; InvalidInput otherwise.

    Never waits on a fifo or a device and never reads more than the limit, even from a growing file.
    With `private`, a file that another user could have written is refused.
    """
    return read_stamped(path, limit, follow=follow, private=private)[0]


def read_stamped(
    path: str, limit: int, *, follow: bool = True, private: bool = False
) -> tuple[bytes, str]:
    """Return the bytes like `read_bounded`, and the stamp the file had before reading."""
    fd = _open(path, os.O_RDONLY | (0 if follow else os.O_NOFOLLOW), "read")
    try:
        facts = os.fstat(fd)
        _require_regular(path, facts)
        if private:
            _require_private(path, facts)
        # Reading part of a file that is too large anyway would take seconds.
        is_larger = facts.st_size > limit
        data = b"" if is_larger else read_up_to(fd, limit + 1, facts.st_size)
    except OSError as error:
        raise failure(error, "read", path) from error
    finally:
        os.close(fd)
    if is_larger or len(data) > limit:
        raise InvalidInput(f"{path} is too large", why=f"it has over {limit} bytes", file=path)
    return data, stamp_of(facts)


def stamp(path: str) -> str:
    """Return the stamp of a file or link; empty if there is none."""
    try:
        return stamp_of(os.lstat(path))
    except OSError:
        return ""


def stamp_of(facts: os.stat_result) -> str:
    """Return size, inode and times; the last one changes even if a program restores the others."""
    return f"{facts.st_size}.{facts.st_ino}.{facts.st_mtime_ns}.{facts.st_ctime_ns}"


def read_optional(
    path: str, limit: int, *, follow: bool = True, private: bool = False
) -> bytes | None:
    """Return the bytes like `read_bounded`, but None if there is no such file."""
    try:
        return read_bounded(path, limit, follow=follow, private=private)
    except InvalidInput as error:
        if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
            return None
        raise


def read_text(path: str, limit: int = 4096) -> str | None:
    """Return a small file as stripped text; None if it is missing, unreadable or too large."""
    try:
        data = read_optional(path, limit)
    except ForestayError:
        return None
    return None if data is None else data.decode("utf-8", "replace").strip()


def read_chunks(path: str, *, follow: bool = True) -> Iterator[bytes]:
    """Yield the bytes of a regular file of any size in chunks."""
    fd = _open(path, os.O_RDONLY | (0 if follow else os.O_NOFOLLOW), "read")
    try:
        _require_regular(path, os.fstat(fd))
        while part := os.read(fd, _CHUNK):
            yield part
    except OSError as error:
        raise failure(error, "read", path) from error
    finally:
        os.close(fd)


def _open(path: str, flags: int, doing: str) -> int:
    _require_path(path)
    try:
        return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise failure(error, doing, path) from error


def _require_regular(path: str, facts: os.stat_result) -> None:
    if not stat.S_ISREG(facts.st_mode):
        hint = "put a file in its place, or move it away"
        raise InvalidInput(f"{path} is not a regular file", hint=hint, file=path)


def _require_private(path: str, facts: os.stat_result) -> None:
    # Where the umask makes files 0664, a closed folder still excludes other users.
    open_to_others = facts.st_mode & 0o022 and os.stat(folder_of(path)).st_mode & 0o011
    if facts.st_uid not in (0, os.geteuid()) or open_to_others:
        raise Refused(
            f"other users of this computer can write to {path}",
            hint=f"chmod 600 {shell_quote(path)}",
            file=path,
        )


def read_up_to(fd: int, limit: int, expected_size: int) -> bytes:
    """Read at most `limit` bytes of a file with `expected_size` bytes, which may be wrong."""
    data = os.read(fd, min(limit, max(expected_size, 0) + 1, _CHUNK))
    if len(data) == expected_size:
        return data  # one byte more was requested, so the file ends here
    parts, limit = [data], limit - len(data)
    while data and limit > 0 and (data := os.read(fd, min(limit, _CHUNK))):
        parts.append(data)
        limit -= len(data)
    return b"".join(parts)


def list_paths(folder: str) -> list[str]:
    """Return the paths of everything in a folder, sorted; empty if the folder does not exist."""
    try:
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, ValueError) as error:
        raise failure(error, "read", folder) from error


def list_names(folder: str) -> list[str]:
    """Return the names of everything in a folder, sorted; empty if it cannot be listed."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def is_irregular(path: str) -> bool:
    """Return whether `path` exists and is not a regular file; a link is not one."""
    try:
        return not stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def size(path: str) -> int:
    """Return the size of a file in bytes; 0 if it does not exist or cannot be read."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def is_writable(folder: str) -> bool:
    """Return whether this process may change the contents of a folder, without trying it."""
    try:
        return has_access(folder, os.W_OK) and not os.statvfs(folder).f_flag & os.ST_RDONLY
    except OSError:
        return False


def has_access(path: str, what: int) -> bool:
    """Return whether this process, by its effective user, has the access `what` (`os.W_OK`)."""
    return os.access(path, what, effective_ids=os.access in os.supports_effective_ids)


# --- obstacles: what prevents a change, found out without trying it -----------------------------


def why_not_writable(folder: str) -> str:
    """Return why files cannot be written to an existing folder; empty if they can."""
    try:
        facts = os.statvfs(folder)
    except OSError:
        return ""
    if facts.f_flag & os.ST_RDONLY:
        return "the file system is read-only"
    if facts.f_blocks and not facts.f_bavail:
        return "the disk is full"
    if is_not_searchable(folder):
        return f"{folder} may not be entered"
    return "" if has_access(folder, os.W_OK) else f"{folder} may not be written to"


def why_not_replaceable(path: str) -> str:
    """Return why a file in a writable folder cannot be replaced; empty if it can."""
    try:
        above, owner = os.stat(folder_of(path)), os.lstat(path).st_uid
    except OSError:
        return ""
    is_ours = not above.st_mode & stat.S_ISVTX or os.geteuid() in (0, owner, above.st_uid)
    return "" if is_ours else f"{path} belongs to another user"


def why_not_appendable(path: str) -> str:
    """Return why lines cannot be added to an existing file; empty if they can."""
    is_there = os.path.lexists(path)
    return f"{path} may not be written to" if is_there and not has_access(path, os.W_OK) else ""


def is_unreadable(path: str) -> bool:
    """Return whether something exists that this process may not read or list."""
    return os.path.lexists(path) and not has_access(path, os.R_OK)


def is_not_searchable(folder: str) -> bool:
    """Return whether a folder exists in which this process may not even open files by name."""
    return os.path.isdir(folder) and not has_access(folder, os.X_OK)
