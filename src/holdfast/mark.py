"""Marks: files that are there while somebody changes a session, as shell programs lock.

`set -C; echo $$ > .state.lock`: who can make the file has the lock, and takes it away afterwards;
the number of the process is in it. An empty one that stays is of a program that locks it in the
manner of `files.locked`. Both are waited for and neither is stolen. Whoever marks holds our own
lock on the folder: a mark of ours that is found then is of a process that died.
"""

from __future__ import annotations

import os

from holdfast import files, process
from holdfast.clock import Clock
from holdfast.errors import Busy

_OURS = b"holdfast "
_MOST, _SOON, _LONG = 4096, 0.005, 3_600_000


class marked:
    """Hold a file in both manners for one short change; Busy after `timeout` seconds."""

    _is_made = False

    def __init__(self, path: str, *, clock: Clock, timeout: float) -> None:
        self._path, self._clock, self._timeout = path, clock, timeout
        self._lock = files.locked(path, clock=clock, timeout=timeout)

    def __enter__(self) -> None:
        self._is_made = self._is_ours()
        try:
            self._lock.__enter__()
        except BaseException:
            self._take_away()
            raise

    def __exit__(self, *_: object) -> None:
        self._take_away()
        self._lock.__exit__()

    def _take_away(self) -> None:
        # Who opens it to lock it in the other manner empties it, and waits for this very file.
        if self._is_made and files.read_text(self._path):
            files.remove(self._path)

    def _is_ours(self) -> bool:
        """Whether the file is a mark of ours now; False for one that stays."""
        for _ in files.tries(self._timeout, self._clock):
            if _is_made_now(self._path) or _is_of_ours(self._said()):
                return True
            if self._is_empty():
                return False
            if gone := left(self._path):
                raise Busy(gone)
        raise Busy(f"another process is changing {self._path}")

    def _is_empty(self) -> bool:
        """Who marks makes an empty file and writes into it at once: it is looked at twice."""
        if not self._said():
            self._clock.sleep(_SOON)
        return not self._said() and os.path.lexists(self._path)

    def _said(self) -> bytes:
        return files.read_optional(self._path, _MOST, follow=False) or b""


def _is_of_ours(said: bytes) -> bool:
    """Whether a mark is one of ours, if only its beginning: its writer may have died there."""
    return bool(said) and (said.startswith(_OURS) or _OURS.startswith(said))


def _is_made_now(path: str) -> bool:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileExistsError:
        return False
    except OSError as error:
        raise files.failure(error, "lock", path) from error
    try:
        os.write(fd, b"%b%d\n" % (_OURS, os.getpid()))
    except OSError as error:
        files.remove(path)
        raise files.failure(error, "lock", path) from error
    finally:
        os.close(fd)
    return True


def left(path: str) -> str:
    """That a mark was left, by a process that does not run here, or long ago; empty if not."""
    said = files.read_text(path) or ""
    number = int(said) if said.isdecimal() and len(said) < 20 else 0
    # Who takes its mark away may end at once: what it left is still there afterwards.
    if number and not process.is_there(number) and files.read_text(path) == said:
        return f"{path} is the lock of process {number}, which does not run here: delete it"
    # Another process may have the number by now, or the file say something else.
    if not said or _is_of_ours(said.encode()) or _age(path) < _LONG:
        return ""
    return f"{path} is a lock of more than an hour: delete it, unless someone holds it"


def _age(path: str) -> int:
    try:
        return Clock().now() - os.stat(path).st_mtime_ns // 1_000_000
    except OSError:
        return 0
