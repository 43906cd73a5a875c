"""The spool: a folder of the home where hook payloads wait until they are ingested.

    tmp/NAME   being written; an old one was left by a script that died
    new/NAME   waiting
    bad/NAME   set aside: not JSON, or of an unknown shape
    lost       one byte for each payload that could not be written
    lock       locked by the process that ingests; contains its pid
    told       the last start of a run for which a briefing was printed, and when

A file begins with a line `forestay-spool 1 AGENT EVENT PID START BOOT INIT`, with `-` for what is
unknown: the agent, the hook, the pid of the agent's process, when that process started (in the
system's own units), the boot id, and when the first process of its pid namespace started, which
identifies the namespace. After it come the bytes that the agent sent. They are as secret as its own
transcripts: only the user can read them, and no backup contains them.

Payloads are ordered by the time they were written, then by name. This module is cheap to load.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from forestay.base import files
from forestay.base.hashing import digest_of
from forestay.errors import ForestayError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = files.SPOOL
TMP, NEW, BAD = "tmp", files.WAITING, "bad"
LOST, LOCK, ANSWERED = "lost", "lock", "told"
OF_NO_INTEREST = "of no interest"
"""Marks counts of payloads that need no attention."""
LIMIT = 16 * 1024 * 1024
"""The most bytes of a payload that are stored."""

_FIRST = b"forestay-spool 1 "
_FIRST_LINE = 1024
_READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_USUAL = 64 * 1024
_MANY = 1000
_ABANDONED_MS = 10 * 60_000
"""The age at which a file in `tmp` must have been left by a script that died."""
_AT_ONCE_MS = 2_000
_ROOM = b"\n"
"""Written to `lost` in advance, so that a loss can be counted on a full disk."""


class Discarded(NamedTuple):
    """Payloads that were deleted: how many, and their bytes."""

    payloads: int
    size: int


class Waiting:
    """A waiting payload: its name, when it was written (`ns`; `at` in ms), its size."""

    __slots__ = ("name", "ns", "size")

    def __init__(self, name: str, ns: int, size: int) -> None:
        self.name, self.ns, self.size = name, ns, size

    @property
    def at(self) -> int:
        return self.ns // 1_000_000


class Sender:
    """The first line of a file; an unknown name is "" and an unknown number 0."""

    __slots__ = ("agent", "boot", "event", "init", "pid", "start")

    def __init__(self, agent: str, event: str, pid: str, start: str, boot: str, init: str) -> None:
        self.agent, self.event = _known(agent), _known(event)
        self.pid, self.start = _number(pid), _number(start)
        self.boot, self.init = boot, init


def _known(word: str) -> str:
    return "" if word == "-" else word


def _number(word: str) -> int:
    return int(word) if word.isascii() and word.isdigit() and len(word) < 20 else 0


class Spooled:
    """A file of the spool: its sender and its bytes."""

    __slots__ = ("data", "is_cut", "sender")

    def __init__(self, sender: Sender, data: bytes, *, is_cut: bool) -> None:
        self.sender, self.data, self.is_cut = sender, data, is_cut


class Spool:
    """The spool of a home. Only `prepare` creates folders."""

    __slots__ = ("_inside", "_new", "_senders", "folder")

    def __init__(self, home: str) -> None:
        self.folder = os.path.join(home, FOLDER)
        self._new = os.path.join(self.folder, NEW, "")
        self._inside: int | None = None
        self._senders: dict[bytes, Sender] = {}

    def path(self, *parts: str) -> str:
        return os.path.join(self.folder, *parts)

    def prepare(self) -> None:
        """Create the folders, private to this user, and the file that counts losses."""
        for name in (TMP, NEW, BAD):
            files.make_private_dir(self.path(name))
        if not os.path.lexists(self.path(LOST)):
            files.replace(self.path(LOST), _ROOM)

    # -- reading -------------------------------------------------------------------------------

    def count(self, where: str = NEW) -> int:
        """Return how many files are waiting, or are in another of the folders."""
        try:
            return len(os.listdir(self.path(where)))
        except OSError:
            return 0

    def waiting(self) -> list[Waiting]:
        """Return all waiting payloads, oldest first."""
        return sorted(self._listed(NEW), key=lambda one: (one.ns, one.name))

    def _listed(self, where: str) -> Iterator[Waiting]:
        try:
            inside = self._inside if where == NEW else None
            with os.scandir(self.path(where) if inside is None else inside) as entries:
                for entry in entries:
                    try:
                        facts = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue  # another process was faster
                    yield Waiting(entry.name, facts.st_mtime_ns, facts.st_size)
        except OSError:
            return

    def oldest(self) -> int | None:
        """Return when the oldest waiting payload was written (ms); None if there is none."""
        return min((one.at for one in self._listed(NEW)), default=None)

    def lost(self) -> tuple[int, int]:
        """Return how many payloads were lost, and when that last happened (ms)."""
        try:
            facts = os.stat(self.path(LOST))
            with open(self.path(LOST), "rb") as file:
                first = file.read(len(_ROOM))
        except OSError:
            return 0, 0
        count = facts.st_size - (len(_ROOM) if first == _ROOM else 0)
        return count, facts.st_mtime_ns // 1_000_000

    def read(self, name: str) -> Spooled | None:
        """Read a waiting file; None if it is gone."""
        try:
            fd = os.open(self._waiting(name), _READING, dir_fd=self._inside)
        except OSError:
            return None
        try:
            return self._parsed(_whole(fd))
        except OSError:  # unreadable: it is set aside like payloads that are not JSON
            return Spooled(_UNKNOWN_SENDER, b"", is_cut=False)
        finally:
            os.close(fd)

    def _waiting(self, name: str) -> str:
        """Return the path of a waiting file, relative to the open folder if there is one."""
        return self._new + name if self._inside is None else name

    def _parsed(self, data: bytes) -> Spooled:
        end = data.find(b"\n", 0, _FIRST_LINE)
        line = data[: end + 1]
        is_cut = len(data) >= LIMIT
        if line not in self._senders:  # few senders send many payloads
            words = line.removeprefix(_FIRST).decode("ascii", "replace").split()
            if not line.startswith(_FIRST) or len(words) != len(Sender.__slots__):
                return Spooled(_UNKNOWN_SENDER, data, is_cut=is_cut)
            if len(self._senders) > _MANY:
                self._senders.clear()
            self._senders[line] = Sender(*words)
        return Spooled(self._senders[line], data[end + 1 :], is_cut=is_cut)

    def set_aside_size(self) -> tuple[int, int]:
        """Return how many files are set aside, and their total bytes."""
        sizes = [one.size for one in self._listed(BAD)]
        return len(sizes), sum(sizes)

    def erase_aside(self) -> Discarded:
        """Delete the files that are set aside.

        Each is emptied first, so that it cannot be recovered.
        """
        count, size = self.set_aside_size()
        for one in list(self._listed(BAD)):
            try:
                _erase(self.path(BAD, one.name))
            except (OSError, ForestayError):
                continue  # the file remains, and later calls count it
        left, rest = self.set_aside_size()
        return Discarded(count - left, size - rest)

    def forget_lost(self) -> None:
        files.replace(self.path(LOST), _ROOM)

    # -- writing -------------------------------------------------------------------------------

    def rescue(self, now: int) -> None:
        """Queue the readable files that scripts left in `tmp` when they died."""
        for one in self._listed(TMP):
            if now - one.at > _ABANDONED_MS:
                self._move(TMP, NEW, one.name)
        try:
            with os.scandir(self._new) as entries:
                odd = [one.name for one in entries if not one.is_file(follow_symlinks=False)]
        except OSError:
            return
        for name in odd:  # folders, links and pipes: no script creates them
            self.set_aside(name)

    def set_aside(self, name: str) -> None:
        """Move a payload that cannot be parsed to `bad`."""
        try:
            if not os.path.isdir(self.path(BAD)):
                files.make_private_dir(self.path(BAD))
            self._move(NEW, BAD, name)
        except (OSError, ForestayError):
            pass  # the payload stays in the queue, and is read again next time

    def _move(self, source: str, target: str, name: str) -> None:
        try:
            os.rename(self.path(source, name), self.path(target, name))
        except OSError:
            pass  # another process moved the file, or it stays in its folder until it can be moved

    def drop(self, name: str) -> bool:
        """Delete a recorded payload; return False if it is still there."""
        try:
            os.unlink(self._waiting(name), dir_fd=self._inside)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def sync(self) -> bool:
        """Make deletions durable; return whether they will survive a power cut."""
        try:
            files.sync_folder(self._new)
        except (OSError, ForestayError):
            return False
        return True

    # -- locking -------------------------------------------------------------------------------

    def lock(self) -> int | None:
        """Lock the spool until `unlock`; return None while another process ingests."""
        import fcntl

        path = self.path(LOCK)
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise files.failure(error, "lock", path) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _write_number(fd, f"{os.getpid()}\n")
        except BlockingIOError:
            os.close(fd)
            return None
        except OSError as error:
            os.close(fd)
            raise files.failure(error, "lock", path) from error
        # Open the folder: thousands of files are opened faster relative to it.
        try:
            self._inside = os.open(self._new, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            self._inside = None
        return fd

    def answers(self, start: Spooled, now: int) -> bool:
        """Return whether the caller, which holds the lock, must print the briefing for this start.

        A plugin and an installed hook can both report the same start; only the first one prints.
        """
        sender = start.sender
        mark = f"{digest_of(start.data)} {sender.pid} {sender.start}"
        try:
            fd = os.open(self.path(ANSWERED), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            with open(fd, "r+", encoding="ascii") as file:
                last, _, at = file.read(1024).rpartition(" ")
                if last == mark and 0 <= now - _number(at) < _AT_ONCE_MS:
                    return False
                file.seek(0)
                file.truncate()
                file.write(f"{mark} {now}")
        except (OSError, ValueError):
            pass  # printing the briefing twice is better than not at all
        return True

    def unlock(self, fd: int) -> None:
        """Unlock. The caller must check the spool again: scripts that saw its pid rely on it."""
        _write_number(fd, "")
        os.close(fd)
        if self._inside is not None:
            os.close(self._inside)
            self._inside = None


_LEAST, _ENOUGH = 16, 200


def spellings(text: str) -> list[bytes]:
    """Return the JSON encodings in which a payload can have the longest line of a text.

    Return none if that line is short.
    """
    import json

    line = max(text.split("\n"), key=len).strip()[:_ENOUGH]
    if len(line) < _LEAST:
        return []
    forms = {json.dumps(line), json.dumps(line, ensure_ascii=False)}
    return [form[1:-1].encode("utf-8", "replace") for form in forms]


def _erase(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        os.rmdir(path)
        return
    if os.path.isfile(path) and not os.path.islink(path):
        files.replace(path, b"")
    os.unlink(path)


def _write_number(fd: int, line: str) -> None:
    """Write this process's pid into the lock: scripts start an ingest if they do not find it."""
    try:
        os.ftruncate(fd, 0)
        os.pwrite(fd, line.encode(), 0)
    except OSError:
        pass  # without the pid, scripts start one needless process


_UNKNOWN_SENDER = Sender("-", "-", "-", "-", "-", "-")


def _whole(fd: int) -> bytes:
    data = os.read(fd, _USUAL)
    if len(data) < _USUAL:
        return data
    parts, left = [data], LIMIT + _FIRST_LINE - len(data)
    while left > 0 and (part := os.read(fd, min(left, 1 << 20))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def closed(data: bytes) -> bytes:
    """Close the strings and brackets of a payload that was cut, so that it can be parsed."""
    import re

    closers: list[bytes] = []
    inside = False
    # Strings are skipped first, so that brackets in them do not count.
    for token in re.finditer(rb'"(?:[^"\\]|\\.)*+"|["{}\[\]]', data, re.DOTALL):
        sign = token[0][:1]
        inside = token[0] == b'"'
        if inside:
            break
        if sign in b"{[":
            closers.append(b"}" if sign == b"{" else b"]")
        elif sign in b"}]" and closers:
            closers.pop()
    whole = data.decode("utf-8", "ignore").encode()
    if inside:
        # An incomplete escape at the end is dropped; two backslashes are complete.
        half = re.search(rb"(\\+)(?:u[0-9a-fA-F]{0,3})?\Z", whole)
        whole = whole[: half.end(1) - 1] if half and len(half[1]) % 2 else whole
    return whole + b'"' * inside + b"".join(reversed(closers))
