"""How files of users are written, by nobody else but `exchange`, and read within bounds.

Words. A *durable replace* leaves the old bytes or the new ones under a name, never a mixture
and never nothing, whatever dies in between: the new bytes go to a *temporary* beside the
target, are synced, take the name by rename, and the folder is synced so that the name itself
survives. A *private* folder or file belongs to this user alone: 0700 and 0600, whatever the
umask. To *quarantine* is to move a file aside without losing a byte of it. A *stamp* is what the
system knows of a file without reading it.

The secret is the order of the system calls, and what each of their errors means for a person.
A sync that fails is a failure: after it nobody knows what the disk holds, so nothing is
acknowledged. Temporaries are named `.NAME.RANDOM.holdfast-tmp`; one that outlives its process
was never acknowledged and may be deleted.
"""

from __future__ import annotations

import errno
import os
import stat
import sys

from holdfast.clock import Clock
from holdfast.errors import Busy, HoldfastError, InvalidInput, ReadOnly, Refused, StoreFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

# What lies in a home, beside the settings; docs/formats.md says what each is.
DATABASE = "holdfast.db"
LOCK, QUEUE = "writer.lock", "writer.queue"
HEADS = "heads"
BACKUPS = "backups"
BACKUP_STATE = "state.json"
PACK = ".hfpack"
SPOOL = "spool"
WAITING = "new"
"""Within the spool: what hooks said and nobody has taken up."""
QUARANTINE = "quarantine"
SEAL = "moved"
"""Where everything went that was kept in this home."""
STORES, REMEMBERED = "stores", "remembered"
"""What is true of this machine about stores elsewhere, and the chain ends written to each."""
KEYS = "keys"
TEMPORARY = ".holdfast-tmp"

_CHUNK = 1 << 20

# What a code means, and what helps. Everything not listed is StoreFailed without a hint.
_MEANING: dict[int, tuple[type[HoldfastError], str]] = {
    errno.EROFS: (ReadOnly, "choose a place elsewhere; that of the home: HOLDFAST_HOME=DIR"),
    errno.EACCES: (ReadOnly, "check owner and permissions: ls -ld FILE"),
    errno.EPERM: (ReadOnly, "check owner and permissions: ls -ld FILE"),
    errno.ENOSPC: (StoreFailed, "free some space, then run the command again: df -h"),
    errno.EDQUOT: (StoreFailed, "your disk quota is used up; free some space, then try again"),
    errno.EIO: (StoreFailed, "the disk reports errors; see the system log, then: holdfast verify"),
    errno.EMFILE: (StoreFailed, "too many open files; raise the limit: ulimit -n"),
    errno.ENFILE: (StoreFailed, "too many open files on this machine"),
    errno.ENOENT: (InvalidInput, "check the path"),
    errno.EEXIST: (InvalidInput, "choose another name"),
    errno.ENOTDIR: (InvalidInput, "a part of the path is a file, not a folder"),
    errno.EISDIR: (InvalidInput, "this is a folder; name a file"),
    errno.ELOOP: (InvalidInput, "symbolic links are not followed here; name the real file"),
    errno.ENAMETOOLONG: (InvalidInput, "choose a shorter name"),
    errno.EINVAL: (InvalidInput, "this name is not possible here"),
    errno.ENXIO: (InvalidInput, "this is a socket or a device; name a file"),
}


def failure(error: OSError | ValueError, doing: str, path: str) -> HoldfastError:
    """The error of ours that a system error means, with the file and what helps."""
    if not isinstance(error, OSError):  # what os functions raise for an impossible path
        return InvalidInput(f"not a path: {path[:200]!r}", why=str(error))
    kind, hint = _MEANING.get(error.errno or 0, (StoreFailed, ""))
    if kind is ReadOnly and doing == "read":
        kind = StoreFailed
    # The system says "too many levels" of the first, where none is followed.
    is_link = error.errno == errno.ELOOP and os.path.islink(path)
    return kind(
        f"cannot {doing} {path}",
        why="it is a symbolic link" if is_link else (error.strerror or str(error)).lower(),
        hint=hint.replace("FILE", _at_fault(path, doing)) if "FILE" in hint else hint,
        operation="read" if doing == "read" else "update",
        file=path,
    )


def _at_fault(path: str, doing: str) -> str:
    """Whose permissions keep us from a file, as it can be pasted: often those of its folder."""
    if doing == "write" and os.path.lexists(path) and not is_writable(folder_of(path)):
        path = folder_of(path)
    while not os.path.lexists(path) and folder_of(path) != path:
        path = folder_of(path)
    return quoted(path)


def quoted(path: str) -> str:
    """A path as it can be pasted into a command."""
    import shlex

    return shlex.quote(path)


def out_of_the_way(path: str) -> str:
    """The command that moves something away."""
    return f"mv {quoted(path)} {quoted(f'{path}.old')}"


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
    """Make sure that `path` is a folder only this user can change; True if it was made now.

    Missing parents are made too, all 0700 whatever the umask, and their names are synced. An
    existing folder of another user, or one that others may write to, is refused, not mended.
    """
    _require_path(path)
    try:
        made = _make_dirs(os.path.abspath(path))
        facts = os.stat(path)
        _require_ours(path, facts)
        # A process may have died between making the folder and syncing its name.
        if made or not os.listdir(path):
            sync_folder(os.path.dirname(os.path.abspath(path)))
    except OSError as error:
        raise failure(error, "make the folder", path) from error
    return made


def make_folder(path: str) -> None:
    """Make sure that a folder of the user's project is there, its name synced."""
    _require_path(path)
    if os.path.isdir(path):
        return
    parent = os.path.dirname(os.path.abspath(path))
    make_folder(parent)
    try:
        os.mkdir(path)
        sync_folder(parent)
    except FileExistsError:
        if not os.path.isdir(path):
            raise InvalidInput(f"{path} is not a folder", file=path) from None
    except OSError as error:
        raise failure(error, "make the folder", path) from error


def _make_dirs(path: str) -> bool:
    if os.path.isdir(path):
        return False
    parent = os.path.dirname(path)
    if parent != path and _make_dirs(parent):
        sync_folder(os.path.dirname(parent))
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if os.path.isdir(path):
            return False  # another process was faster
        raise
    os.chmod(path, 0o700)  # mkdir obeys the umask, which may have taken our own bits
    return True


def _require_ours(path: str, facts: os.stat_result) -> None:
    elsewhere = "set HOLDFAST_HOME to a folder of your own"
    if not stat.S_ISDIR(facts.st_mode):
        raise InvalidInput(f"{path} is not a folder", hint=elsewhere, file=path)
    if facts.st_uid != os.geteuid():
        raise Refused(
            f"{path} belongs to another user",
            why=f"user {facts.st_uid}, and this is user {os.geteuid()}",
            hint=elsewhere,
            file=path,
        )
    if facts.st_mode & 0o022:
        raise Refused(
            f"others may write to {path}",
            why=f"its mode is {stat.S_IMODE(facts.st_mode):04o}",
            hint=f"chmod 700 {quoted(path)}",
            file=path,
        )


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
ANY = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""To open whatever has a name, without following a link or waiting for who writes to a pipe."""
# Some file systems have no such operation for folders; that is not a failed one.
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

        # fsync leaves the bytes in the drive's cache there.
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fsync(fd)


class locked:
    """Hold a folder, or a file, for one short change: `with locked(folder): …`.

    Others who ask for it wait, longer each time, and get Busy after `timeout` seconds. The
    kernel lets go when the process dies. With `private` a file that is not there is made, and
    stays, for this user alone; with `shared` others may hold it as well, as long as nobody holds
    it alone.
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
        made = os.O_RDWR | os.O_CREAT if private else os.O_RDONLY
        self._flags = os.O_NOFOLLOW | made
        self._private, self._shared = private, shared

    def __enter__(self) -> None:
        self._fd = _open(self._path, self._flags, "lock")
        try:
            if self._private:
                _make_private(self._fd, self._path)
            _lock(self._fd, self._path, self._timeout, self._clock, shared=self._shared)
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        import fcntl

        fd, self._fd = self._fd, -1
        try:
            # A child that was forked meanwhile has it as well, and may not close it for long.
            fcntl.flock(fd, fcntl.LOCK_UN)
        finally:
            os.close(fd)

    def __del__(self) -> None:
        # An interrupt at the wrong moment: nobody else would ever get it.
        if self._fd >= 0:
            os.close(self._fd)


def _make_private(fd: int, path: str) -> None:
    try:
        if stat.S_IMODE(os.fstat(fd).st_mode) != 0o600:
            os.fchmod(fd, 0o600)  # the umask, or an earlier version, wanted it otherwise
    except OSError as error:
        raise failure(error, "lock", path) from error


# Who writes on has a lock most of the time: others must look often to find it free.
_LONGEST_PAUSE = 0.05


def tries(timeout: float, clock: Clock) -> Iterator[None]:
    """The turns of somebody who waits, longer each time; the last is after `timeout` seconds."""
    give_up, pause = clock.monotonic() + timeout, 0.005
    yield
    while clock.monotonic() < give_up:
        # With some chance in it: those who wait for the same file must not wake up together.
        clock.sleep(pause * (0.5 + clock.random(1)[0] / 255))
        pause = min(pause * 2, _LONGEST_PAUSE)
        yield


def _lock(fd: int, path: str, timeout: float, clock: Clock, *, shared: bool = False) -> None:
    import fcntl

    for _ in tries(timeout, clock):
        try:
            return fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        except OSError as error:
            raise failure(error, "lock", path) from error
    raise Busy(f"another process is changing {path}")


# --- writing ---------------------------------------------------------------------------------


def replace(path: str, data: bytes | Iterable[bytes], mode: int = 0o600) -> None:
    """Put `data`, whole or in pieces, under the name `path`; it then survives power loss.

    When it raises, the old file is intact and no temporary is left; only if the very last step,
    the sync of the folder, fails may either version be found after a crash. A symbolic link is
    refused: replacing it would silently part it from the file it stands for.
    """
    _require_path(path)
    try:
        temporary = _write_temporary(path, _pieces(data), mode, _mode_of_plain(path))
        try:
            os.rename(temporary, path)
        except BaseException:
            remove(temporary)
            raise
        sync_folder(folder_of(path))
    except OSError as error:
        raise failure(error, "write", path) from error


def create(path: str, data: bytes | Iterable[bytes], mode: int = 0o600) -> None:
    """Like replace, but the name must be free: InvalidInput if anything has it.

    The name appears with all of its bytes, so that no reader meets half a file.
    """
    _require_path(path)
    try:
        temporary = _write_temporary(path, _pieces(data), mode)
        try:
            _take_name(temporary, path)
        finally:
            remove(temporary)
        sync_folder(folder_of(path))
    except FileExistsError as error:
        raise InvalidInput(
            f"{path} already exists", hint="choose another name, or move it away", file=path
        ) from error
    except OSError as error:
        raise failure(error, "write", path) from error


def create_all(out: str, made: dict[str, bytes]) -> list[str]:
    """Create files of the user's, one as `out`, several in it; one in it too, if it is a folder.

    Nothing is written if a name is taken, and nothing stays if not all of them can be, or after
    an interrupt: half of a session would be taken for one. Says where they are.
    """
    if out == "-":
        raise InvalidInput(
            "-o needs the name of a file or folder", hint="-o ./- if it is called so"
        )
    is_folder = len(made) > 1 or out.endswith("/") or os.path.isdir(out)
    targets = {os.path.join(out, name) if is_folder else out: data for name, data in made.items()}
    for target in targets:
        if os.path.lexists(target):
            raise InvalidInput(f"{target} is there already", hint="choose another -o", file=target)
    new_folders, begun = _not_there_yet(targets), list[str]()
    try:
        for target, data in targets.items():
            make_folder(folder_of(target))
            begun.append(target)
            create(target, data, mode=0o644)
    except BaseException as error:
        # Whose name was taken meanwhile is not ours.
        _take_back(begun[:-1] if isinstance(error, InvalidInput) else begun, new_folders)
        raise
    return begun


def _not_there_yet(paths: Iterable[str]) -> list[str]:
    """The folders that have to be made for files, those within others first."""
    missing = set()
    for path in paths:
        folder = os.path.dirname(os.path.abspath(path))
        while not os.path.lexists(folder):
            missing.add(folder)
            folder = os.path.dirname(folder)
    return sorted(missing, key=len, reverse=True)


def _take_back(begun: list[str], folders: list[str]) -> None:
    for path in begun:
        remove(path)
    for folder in folders:
        try:
            os.rmdir(folder)
        except OSError:
            pass  # it was not made, or somebody put something in it


def append_lines(path: str, data: bytes, mode: int = 0o600, *, soon: bool = False) -> None:
    """Add a line or several in one write, so that those of several processes never mix.

    They are synced, unless whoever asks does that `soon`. A torn line that a full disk or a crash
    left at the end is closed first and stays as it is: a reader sees one bad line, never two good
    ones joined. Busy if someone keeps the file locked.
    """
    lines = data.removesuffix(b"\n") + b"\n"
    _append(path, mode, lambda fd: lines, soon=soon)


def append_once(path: str, line: bytes, *, first: bytes = b"", mode: int = 0o600) -> None:
    """Add a line in the same way, unless it is there; a file that is made begins with `first`."""

    def wanted(fd: int) -> bytes:
        size = os.fstat(fd).st_size
        if not size:
            return b"".join(each + b"\n" for each in (first, line) if each)
        known = os.pread(fd, size, 0).replace(b"\r\n", b"\n").split(b"\n")
        return b"" if line in known else line + b"\n"

    _append(path, mode, wanted)


def _append(path: str, mode: int, wanted: Callable[[int], bytes], *, soon: bool = False) -> None:
    _require_path(path)
    try:
        fd, made = _open_for_append(path, mode)
        try:
            # A line that another process is just writing must not be taken for a torn one.
            _lock(fd, path, 10.0, Clock())
            if lines := wanted(fd):
                _append_whole(fd, lines)
            if not soon:
                sync_file(fd)
        finally:
            os.close(fd)
        if made:
            sync_folder(folder_of(path))
    except OSError as error:
        raise failure(error, "write", path) from error


def require_no_link(folder: str) -> None:
    """Refuse a folder of the project that is a link: what goes there would go somewhere else."""
    if os.path.islink(folder):
        raise Refused(
            f"{folder} is a symbolic link",
            why="nothing is put where a link leads",
            hint="put a folder in its place",
            file=folder,
        )


def move(path: str, target: str) -> None:
    """Give a file another name on the same disk, durably; what had that name is gone."""
    _require_path(path)
    try:
        os.rename(path, target)
        sync_folder(folder_of(target))
        sync_folder(folder_of(path))
    except OSError as error:
        raise failure(error, "move", path) from error


def quarantine(path: str, folder: str) -> str:
    """Move a file aside into `folder`, every byte kept, and return where it is now.

    The name is freed by a rename, so what a faster process put there meanwhile is moved, not
    lost, and nothing already in the folder is overwritten.
    """
    _require_path(path)
    make_private_dir(folder)
    try:
        kept = os.path.join(folder, f"{_cut(os.path.basename(path))}.{os.urandom(6).hex()}")
        try:
            os.rename(path, kept)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _move_across(path, kept)
        sync_folder(folder)
        sync_folder(folder_of(path))
    except OSError as error:
        raise failure(error, "move aside", path) from error
    return kept


def _pieces(data: bytes | Iterable[bytes]) -> Iterable[bytes]:
    return (data,) if isinstance(data, bytes) else data


def begin_temporary(path: str, data: bytes, mode: int) -> tuple[str, int]:
    """New bytes for `path` in a temporary that is open and not synced, and its name."""
    _require_path(path)
    temporary = temporary_name(path)
    return temporary, _written(temporary, (data,), mode, _mode_of_plain(path))


def mode_of(path: str) -> int | None:
    try:
        return stat.S_IMODE(os.lstat(path).st_mode) & 0o777
    except FileNotFoundError:
        return None


def _write_temporary(path: str, chunks: Iterable[bytes], mode: int, old: int | None = None) -> str:
    temporary = temporary_name(path)
    fd = _written(temporary, chunks, mode, old)
    try:
        try:
            sync_file(fd)
        finally:
            os.close(fd)
    except BaseException:
        remove(temporary)
        raise
    return temporary


def _written(temporary: str, chunks: Iterable[bytes], mode: int, old: int | None) -> int:
    """A new file that is still open and not synced; `old` is the mode of the one it replaces.

    A file of ours is private whatever happens; one of the user's stays as its owner made it, and
    a new one is as the umask wants it.
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


def _take_name(temporary: str, path: str) -> None:
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        # No hard links here. Claim the name, then rename over our own empty claim.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        try:
            os.rename(temporary, path)
        except BaseException:
            remove(path)
            raise


def _open_for_append(path: str, mode: int) -> tuple[int, bool]:
    # O_NONBLOCK keeps a fifo from hanging us; it means nothing for a regular file.
    flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    made = True
    try:
        fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        fd, made = os.open(path, flags), False
    try:
        _require_regular(path, os.fstat(fd))
        if made and not mode & 0o077:
            os.fchmod(fd, mode)
    except BaseException:
        os.close(fd)
        raise
    return fd, made


def _append_whole(fd: int, line: bytes) -> None:
    size = os.fstat(fd).st_size
    if size and os.pread(fd, 1, size - 1) != b"\n":
        line = b"\n" + line
    if os.write(fd, line) != len(line):
        raise OSError(errno.ENOSPC, "only a part of the line could be written")


def _move_across(path: str, kept: str) -> None:
    """Move to another file system. The name is freed first, so that nothing new is removed."""
    aside = os.path.join(folder_of(path), os.path.basename(kept) + ".aside")
    os.rename(path, aside)
    try:
        os.rename(_write_temporary(kept, read_chunks(aside, follow=False), 0o600), kept)
        sync_folder(folder_of(kept))  # the copy must be certain before the original goes
    except BaseException:
        _give_back(aside, path)
        raise
    os.unlink(aside)


def _give_back(aside: str, path: str) -> None:
    try:
        os.link(aside, path)
        os.unlink(aside)
    except OSError:
        # The name is taken again, or there are no links here: the bytes stay beside it, none is
        # lost, and the error that is told is the one that kept them from being moved.
        pass


def _mode_of_plain(path: str) -> int | None:
    """The mode of the regular file under a name; None if nothing has it."""
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
    # A name may fill the 255 bytes a file system allows; ours is longer than the target's.
    return os.fsdecode(os.fsencode(name)[:200])


def folder_of(path: str) -> str:
    return os.path.dirname(path) or "."


def unfinished(path: str) -> list[str]:
    """Temporaries for `path` that nobody finished; for whoever holds the lock of the folder."""
    return beside(path, TEMPORARY)


def beside(path: str, ending: str) -> list[str]:
    """What was made under names for `path` with some ending."""
    folder, name = folder_of(path), f".{_cut(os.path.basename(path))}."
    found = (n for n in listed(folder) if n.startswith(name) and n.endswith(ending))
    return [os.path.join(folder, n) for n in found]


def remove(path: str) -> None:
    """Remove a temporary of ours, if it is still there."""
    try:
        os.unlink(path)
    except OSError:
        # Already gone, or the disk fails as a whole: the first error is the one to tell, and a
        # temporary that stays is found by the doctor.
        pass


# --- reading ---------------------------------------------------------------------------------


def read_bounded(path: str, limit: int, *, follow: bool = True, private: bool = False) -> bytes:
    """The bytes of a regular file of at most `limit` bytes; InvalidInput otherwise.

    Never waits on a fifo or a device and never reads more than the limit, even from a file
    that grows. With `private`, a file that another user could have written is refused.
    """
    return read_stamped(path, limit, follow=follow, private=private)[0]


def read_stamped(
    path: str, limit: int, *, follow: bool = True, private: bool = False
) -> tuple[bytes, str]:
    """Like read_bounded, with the stamp that the file had before."""
    fd = _open(path, os.O_RDONLY | (0 if follow else os.O_NOFOLLOW), "read")
    try:
        facts = os.fstat(fd)
        _require_regular(path, facts)
        if private:
            _require_private(path, facts)
        # To read a part of what is too large anyway would take seconds.
        is_larger = facts.st_size > limit
        data = b"" if is_larger else read_up_to(fd, limit + 1, facts.st_size)
    except OSError as error:
        raise failure(error, "read", path) from error
    finally:
        os.close(fd)
    if is_larger or len(data) > limit:
        raise InvalidInput(f"{path} is too large", why=f"over {limit} bytes", file=path)
    return data, stamp_of(facts)


def stamp(path: str) -> str:
    """The stamp of what has a name, which may be a link; empty if nothing has it."""
    try:
        return stamp_of(os.lstat(path))
    except OSError:
        return ""


def stamp_of(facts: os.stat_result) -> str:
    """What a change of the file changes: the last of these whatever a program restores."""
    return f"{facts.st_size}.{facts.st_ino}.{facts.st_mtime_ns}.{facts.st_ctime_ns}"


def read_optional(
    path: str, limit: int, *, follow: bool = True, private: bool = False
) -> bytes | None:
    """Like read_bounded, but None when there is no such file."""
    try:
        return read_bounded(path, limit, follow=follow, private=private)
    except InvalidInput as error:
        if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
            return None
        raise


def read_text(path: str, limit: int = 4096) -> str | None:
    """A small file of someone else's, stripped; None if it is missing, strange or too large."""
    try:
        data = read_optional(path, limit)
    except HoldfastError:
        return None
    return None if data is None else data.decode("utf-8", "replace").strip()


def read_chunks(path: str, *, follow: bool = True) -> Iterator[bytes]:
    """The bytes of a regular file of any size, a piece at a time."""
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
    # Where 0664 is the custom, a closed folder keeps the others out all the same.
    open_to_others = facts.st_mode & 0o022 and os.stat(folder_of(path)).st_mode & 0o011
    if facts.st_uid not in (0, os.geteuid()) or open_to_others:
        raise Refused(f"others may write to {path}", hint=f"chmod 600 {quoted(path)}", file=path)


def read_up_to(fd: int, most: int, likely: int) -> bytes:
    """At most so many bytes of a file that says how many it `likely` has, which may be wrong."""
    data = os.read(fd, min(most, max(likely, 0) + 1, _CHUNK))
    if len(data) == likely:
        return data  # one more was asked for
    parts, most = [data], most - len(data)
    while data and most > 0 and (data := os.read(fd, min(most, _CHUNK))):
        parts.append(data)
        most -= len(data)
    return b"".join(parts)


def entries(folder: str) -> list[str]:
    """The paths of all that is in a folder, by name; nothing where there is no such folder."""
    try:
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, ValueError) as error:
        raise failure(error, "read", folder) from error


def listed(folder: str) -> list[str]:
    """The names of all that is in a folder, in order; none where it cannot be listed."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def is_odd(path: str) -> bool:
    """Whether something that is no regular file (a link, a folder, a pipe) has this name."""
    try:
        return not stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def size(path: str) -> int:
    """How many bytes a file has; 0 for one that is not there or cannot be looked at."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def is_writable(folder: str) -> bool:
    """Whether this process may change what is in a folder; nothing is tried."""
    try:
        return may(folder, os.W_OK) and not os.statvfs(folder).f_flag & os.ST_RDONLY
    except OSError:
        return False


def may(path: str, what: int) -> bool:
    """Whether this process may do that (`os.W_OK`, say): as whom we act, which need not be who
    started us."""
    return os.access(path, what, effective_ids=os.access in os.supports_effective_ids)
