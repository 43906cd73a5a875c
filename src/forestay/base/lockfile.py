"""Lock files as shell scripts use them: a file that exists while a session is being changed.

A script locks with `set -C; echo $$ > .state.lock` and deletes the file afterwards; the
file holds the process number. An empty file that stays belongs to a program that locks it with
`flock`, as `files.locked` does. We wait for both kinds and steal neither. Callers hold our own lock
on the folder, so a lock file of Forestay that already exists was left by a process that died.
"""

from __future__ import annotations

import os

from forestay.base import files, process
from forestay.base.clock import Clock
from forestay.errors import Busy

_OURS = b"forestay "
_READ_LIMIT, _RECHECK_SECONDS, _STALE_MS = 4096, 0.005, 3_600_000


class ScriptLock:
    """Lock a file for one short change, as scripts do and with flock; Busy after `timeout`."""

    _created = False

    def __init__(self, path: str, *, clock: Clock, timeout: float) -> None:
        self._path, self._clock, self._timeout = path, clock, timeout
        self._lock = files.locked(path, clock=clock, timeout=timeout)

    def __enter__(self) -> None:
        self._created = self._acquire()
        try:
            self._lock.__enter__()
        except BaseException:
            self._delete()
            raise

    def __exit__(self, *_: object) -> None:
        self._delete()
        self._lock.__exit__()

    def _delete(self) -> None:
        # A program that uses flock empties the file when it opens it, and waits for this very file.
        if self._created and files.read_text(self._path):
            files.remove(self._path)

    def _acquire(self) -> bool:
        """Wait for the lock file; True if it is ours to delete, False if it is empty and stays."""
        for _ in files.attempts(self._timeout, self._clock):
            if _create(self._path) or _is_written_by_us(self._content()):
                return True
            if self._is_empty():
                return False
            if stale := describe_stale_lock(self._path):
                raise Busy(stale)
        raise Busy(f"another process is changing {self._path}")

    def _is_empty(self) -> bool:
        """Return whether the lock file stays empty: no script is about to write into it."""
        if not self._content():
            self._clock.sleep(_RECHECK_SECONDS)
        return not self._content() and os.path.lexists(self._path)

    def _content(self) -> bytes:
        return files.read_optional(self._path, _READ_LIMIT, follow=False) or b""


def _is_written_by_us(content: bytes) -> bool:
    """Return whether a lock file is ours, even if its writer died in the middle of writing it."""
    return bool(content) and (content.startswith(_OURS) or _OURS.startswith(content))


def _create(path: str) -> bool:
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


def describe_stale_lock(path: str) -> str:
    """Return a message if the process of a lock file is gone or the file is old; empty if not."""
    content = files.read_text(path) or ""
    pid = int(content) if content.isdecimal() and len(content) < 20 else 0
    # A process may delete its lock and end at once: only a file that still exists is stale.
    if pid and not process.pid_exists(pid) and files.read_text(path) == content:
        return f"{path} is the lock of process {pid}, which does not run on this machine: delete it"
    # Another process may have got the number since, or the file may hold something else.
    if not content or _is_written_by_us(content.encode()) or _age(path) < _STALE_MS:
        return ""
    return f"{path} is a lock older than an hour: delete it, unless a program still uses it"


def _age(path: str) -> int:
    try:
        return Clock().now() - os.stat(path).st_mtime_ns // 1_000_000
    except OSError:
        return 0
