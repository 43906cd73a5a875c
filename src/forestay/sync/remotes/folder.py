"""A folder as a remote: on a USB stick, on a share, or in the folder of a sync tool.

Each object is a file below the folder, under the object's name. Other programs write there too, so
`cloud_folder` interprets unknown file names, and links are not followed (each subfolder is opened
from its open parent). Another disk may be mounted at the path: if the format mark was seen once,
its absence means that the stick is not plugged in, never that everything was deleted.

A *stand-in* is a conflict copy that is read because its original is missing. Objects are written
under a temporary name that is never listed, synced to disk, and renamed if the name is free.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import NamedTuple

from forestay.base import files
from forestay.errors import ForestayError, InvalidInput, NotThere, RemoteFailed, Unreachable
from forestay.sync.remotes.cloud_folder import COPY, OBJECT, PARTIAL, PLACEHOLDER, classify_file
from forestay.sync.remotes.object_names import size_limit
from forestay.sync.remotes.port import (
    FORMAT,
    Object,
    Oddity,
    Probe,
    Remote,
    check_name,
    require_few,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_BELOW = _FOLDER | os.O_NOFOLLOW
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 20
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_LINK = "link"
_ASKED = "is the stick plugged in?"
_PLUG_IN = "plug in the stick, mount the share or start the sync tool, then try again"
_EMPTIED = "; if it was emptied on purpose, on each device: forestay remote remove, then remote add"

_FULL = "there is no room left"
_CLOSED = "it is read-only for this user"
_MOVE_AWAY = "move it away, then try again"
# errno → reason and hint. PATH is the folder.
_MEANING = {
    errno.ENOSPC: (_FULL, "free some space there, then try again: df -h PATH"),
    errno.EDQUOT: (_FULL, "your quota there is used up; free some space"),
    errno.EFBIG: ("the file is too large for this file system", ""),
    errno.EROFS: (_CLOSED, "mount it for writing, or unlock the stick"),
    errno.EACCES: (_CLOSED, "check owner and permissions: ls -ld PATH"),
    errno.EPERM: (_CLOSED, "check owner and permissions: ls -ld PATH"),
    errno.ELOOP: ("a link has this name; links are not followed", "see it: ls -l PATH"),
    errno.ENOTDIR: ("a file or a link is where a folder should be", _MOVE_AWAY),
    errno.EISDIR: ("a folder is where a file should be", _MOVE_AWAY),
    errno.EMFILE: ("too many open files", "raise the limit: ulimit -n"),
}
# The codes of a disk that was removed while in use.
_GONE = (
    *(errno.EIO, errno.ENODEV, errno.ENXIO, errno.ENOTCONN, errno.ESTALE),
    *(errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH),
)


class _Found(NamedTuple):
    """A file: its path below the folder, and its kind."""

    place: str
    kind: str
    name: str
    size: int


class FolderRemote(Remote):
    """A remote that stores each object as a file below a folder."""

    backend = "folder"

    def __init__(self, path: str, *, known: bool = False) -> None:
        if not path or "\0" in path:
            raise InvalidInput("a folder remote needs a path", hint="folder:/path/of/the/folder")
        self.path = os.path.abspath(path)
        self.address = f"folder:{self.path}"
        self._known = known
        self._lasting: set[str] = set()

    # -- the port --------------------------------------------------------------------------------

    def list(self, prefix: str) -> Iterator[Object]:
        best: dict[str, _Found] = {}
        with self._opened("list") as root:
            for found in _scan(root, prefix):
                self.steps += 1
                if found.name and _rank(found) < _rank(best.get(found.name)):
                    best[found.name] = found
                    require_few(len(best), self.address)
        for name in sorted(best):
            yield Object(name, best[name].size)

    def get(self, name: str) -> bytes:
        place = check_name(name)
        with self._opened("read", name) as root:
            try:
                return _read(root, place)
            except FileNotFoundError:
                found = [each for each in _scan(root, name) if each.name == name]
                if not found:
                    raise NotThere(f"no {name} in {self.path}", file=self.path) from None
                best = min(found, key=_rank)
                if best.kind == PLACEHOLDER:
                    raise Unreachable(
                        f"the sync tool has not downloaded {name} to this machine",
                        why=f"only its placeholder {best.place} is here",
                        hint='let it download the folder ("keep on this device"), then try again',
                        file=self.path,
                    ) from None
                return _read(root, best.place)

    def put(self, name: str, data: bytes) -> bool:
        check_name(name)
        with self._opened("write", name, make=True) as root:
            for last in (False, True):
                try:
                    written = self._write(root, name, data)
                    break
                except FileNotFoundError:  # another process just removed its empty folder
                    self._lasting.clear()
                    if last:
                        raise
        self._known = self._known or name == FORMAT
        return written

    def delete(self, name: str) -> None:
        check_name(name)
        with self._opened("remove", name) as root:
            # Delete copies too: a copy that is left would be read as a stand-in for the object.
            for found in list(_scan(root, name)):
                if found.name == name:
                    _unlink(root, found.place)

    def probe(self) -> Probe:
        was_there = os.path.isdir(self.path)
        name = f"probe/{os.urandom(16).hex()}"
        try:
            try:
                self.put(name, b"first")
                conditional = not self.put(name, b"second") and self.get(name) == b"first"
                lists = [Object(name, 5)] == [*self.list(name)]
            finally:
                self.delete(name)
                self._lasting.clear()
                folders = [os.path.join(self.path, "probe"), *([] if was_there else [self.path])]
                for folder in folders:
                    with contextlib.suppress(OSError):
                        os.rmdir(folder)
        except NotThere as error:
            return Probe(False, False, str(error))
        why = "" if conditional and lists else "other programs change files there"
        return Probe(conditional, lists, why)

    def oddities(self) -> Sequence[Oddity]:
        with self._opened("list") as root:
            found = sorted(_scan(root, ""))
            whole = {each.name for each in found if each.kind == OBJECT}
            return [_oddity(root, each, whole) for each in found if each.kind != OBJECT]

    # -- the folder itself -----------------------------------------------------------------------

    @contextlib.contextmanager
    def _opened(self, doing: str, name: str = "", *, make: bool = False) -> Iterator[int]:
        """Yield a descriptor of the folder; -1 if it does not exist yet."""
        root = -1
        try:
            root = self._enter(make=make)
            yield root
        except OSError as error:
            raise self._failure(error, doing, name) from error
        finally:
            if root >= 0:
                os.close(root)

    def _enter(self, *, make: bool) -> int:
        try:
            root = os.open(self.path, _FOLDER)
        except FileNotFoundError:
            if self._known or not os.path.isdir(os.path.dirname(self.path)):
                raise self._gone("no such folder") from None
            if not make:
                return -1
            with contextlib.suppress(FileExistsError):
                os.mkdir(self.path, 0o700)
            files.sync_folder(os.path.dirname(self.path))
            return os.open(self.path, _FOLDER)
        if self._known and not _has_mark(root):
            os.close(root)
            raise self._gone(f"the file {FORMAT}, which was in it, is missing", _EMPTIED)
        return root

    def _gone(self, why: str, more: str = "") -> Unreachable:
        missing = os.path.dirname(self.path)
        is_new = not self._known and not os.path.isdir(missing)
        return Unreachable(
            f"the folder {self.path} is not available",
            why=f"{why}: {_ASKED}",
            hint=f"plug it in, or make the folder: mkdir {missing}" if is_new else _PLUG_IN + more,
            file=self.path,
        )

    def _failure(self, error: OSError, doing: str, name: str) -> ForestayError:
        if isinstance(error, FileNotFoundError):
            return NotThere(f"no {name} in {self.path}", file=self.path)
        what = f"cannot {doing} in {self.path}"
        file, reason = os.path.join(self.path, name), (error.strerror or str(error)).lower()
        if error.errno in _GONE:
            return Unreachable(what, why=reason, hint=_PLUG_IN, file=file)
        why, hint = _MEANING.get(error.errno or 0, (reason, ""))
        return RemoteFailed(what, why=why, hint=hint.replace("PATH", self.path), file=file)

    # -- objects ---------------------------------------------------------------------------------

    def _write(self, root: int, name: str, data: bytes) -> bool:
        folder, _, last = name.rpartition("/")
        here = self._descend(root, folder)
        try:
            if _exists(here, last):
                return False
            temporary = f".{last[:100]}.{os.urandom(6).hex()}{files.TEMPORARY}"
            try:
                fd = os.open(temporary, _NEW, 0o600, dir_fd=here)
                try:
                    rest = memoryview(data)
                    while rest:
                        rest = rest[os.write(fd, rest) :]
                    files.sync_file(fd)
                finally:
                    os.close(fd)
                taken = not _take_name(here, temporary, last)
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=here)
            _sync_folder(here)  # even if another process was faster: it may not have synced yet
            return not taken
        finally:
            os.close(here)

    def _descend(self, root: int, folder: str) -> int:
        """Open a subfolder; create it durably if it is missing."""
        here, path = os.dup(root), ""
        for part in folder.split("/") if folder else ():
            path += f"/{part}"
            try:
                below = self._step(here, part, path)
            finally:
                os.close(here)
            here = below
        return here

    def _step(self, here: int, part: str, path: str) -> int:
        with contextlib.suppress(FileExistsError):
            os.mkdir(part, 0o700, dir_fd=here)
        below = os.open(part, _BELOW, dir_fd=here)
        if path not in self._lasting:  # its creator may have died before it was synced
            _sync_folder(here)
            self._lasting.add(path)
        return below


_RANKS = {OBJECT: 0, COPY: 1, PLACEHOLDER: 2}


def _rank(found: _Found | None) -> tuple[int, str]:
    """Return the sort key of the files that can be read for an object: the object itself first."""
    return (9, "") if found is None else (_RANKS[found.kind], found.place)


# --- files below the folder; each is opened from its open parent, and no link is followed --------


def _scan(root: int, prefix: str) -> Iterator[_Found]:
    """Yield all files that are objects with the prefix, or their copies, placeholders and parts."""
    if root < 0:
        return
    todo = [("", "", False)]
    while todo:
        place, name, copied = todo.pop()
        folder = _open_below(root, place)
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    found = _looked_at(entry, place, name, copied, prefix)
                    if isinstance(found, _Found):
                        yield found
                    elif found is not None:
                        todo.append(found)
        finally:
            os.close(folder)


def _looked_at(
    entry: os.DirEntry[str], place: str, folder: str, copied: bool, prefix: str
) -> _Found | tuple[str, str, bool] | None:
    """Return an entry as a file of interest, a folder to search, or None."""
    kind, of = classify_file(entry.name)
    path, name = place + entry.name, folder + of
    if entry.is_dir(follow_symlinks=False):
        wanted = f"{name}/".startswith(prefix) or prefix.startswith(f"{name}/")
        return (f"{path}/", f"{name}/", copied or kind == COPY) if of and wanted else None
    if prefix and not (of and name.startswith(prefix)):
        return None
    if not entry.is_file(follow_symlinks=False):
        return _Found(path, _LINK, "", 0)
    if kind not in (OBJECT, COPY, PLACEHOLDER, PARTIAL):
        return None
    try:
        size = entry.stat(follow_symlinks=False).st_size
    except FileNotFoundError:
        return None  # it was just removed
    return _Found(path, COPY if copied and kind == OBJECT else kind, name if of else "", size)


def _open_below(root: int, place: str) -> int:
    here = os.dup(root)
    for part in place.split("/")[:-1]:
        try:
            below = os.open(part, _BELOW, dir_fd=here)
        finally:
            os.close(here)
        here = below
    return here


@contextlib.contextmanager
def _open_parent(root: int, place: str) -> Iterator[tuple[int, str]]:
    """Yield an open descriptor of a file's folder, and the file's own name."""
    folder = _open_below(root, place)
    try:
        yield folder, place.rpartition("/")[2]
    finally:
        os.close(folder)


def _has_mark(root: int) -> bool:
    try:
        with _open_parent(root, FORMAT) as (folder, last):
            if _exists(folder, last):
                return True
    except OSError:
        pass  # a conflict copy of the mark may exist
    return any(found.name == FORMAT for found in _scan(root, FORMAT))


def _exists(folder: int, name: str) -> bool:
    try:
        facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    _require_regular(facts)
    return True


def _require_regular(facts: os.stat_result) -> None:
    if stat.S_ISLNK(facts.st_mode):
        raise OSError(errno.ELOOP, "it is a symbolic link")
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(errno.EISDIR, "it is not a regular file")


def _read(root: int, place: str) -> bytes:
    if root < 0:
        raise FileNotFoundError(errno.ENOENT, "the folder does not exist yet")
    with _open_parent(root, place) as (folder, name):
        fd = os.open(name, _READ, dir_fd=folder)
    try:
        facts = os.fstat(fd)
        _require_regular(facts)
        if facts.st_size > size_limit(place):
            why = f"{facts.st_size:,} bytes"
            raise RemoteFailed(f"{place} is too large for an object of Forestay", why=why)
        parts = []
        while part := os.read(fd, _CHUNK):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(fd)


def _take_name(folder: int, temporary: str, name: str) -> bool:
    """Rename a temporary file to its final name; return False if that name exists."""
    try:
        os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # Most USB sticks have no hard links. If another process creates the name between these two
        # lines, it writes the same bytes: a name contains the hash of the content.
        if _exists(folder, name):
            return False
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    return True


def _sync_folder(folder: int) -> None:
    try:
        files.sync_file(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def _unlink(root: int, place: str) -> None:
    with _open_parent(root, place) as (folder, name):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
            _sync_folder(folder)


def _oddity(root: int, found: _Found, whole: set[str]) -> Oddity:
    if found.kind != COPY:
        return Oddity(found.place, found.kind, found.name)
    if found.name not in whole:
        return Oddity(found.place, "stand-in", found.name)
    same = _read(root, found.place) == _read(root, found.name)
    return Oddity(found.place, "copy" if same else "differs", found.name)
