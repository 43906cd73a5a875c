"""The writer lock: one writer at a time, over a file that is never removed.

It is held around SQLite's own locks, because a commit that races a checkpoint or the close of
another connection can be lost in SQLite before 3.51.3, and because waiting here is fair and can
name the process that holds it.

The kernel grants the lock to a process, so threads of one process first take *turns*. Then they
*queue*: the next process holds the lock of a second, empty file, so that a process which keeps
writing cannot write again before the next one has. After a while a process tries without the
queue, because the next one may have been stopped.

The file has one line about the last holder. It is for messages only: whether the lock is held is
known to the kernel alone.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
from _thread import RLock

from forestay.base import files
from forestay.base.files import failure
from forestay.errors import Busy, StoreFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from forestay.base.clock import Clock

    T = TypeVar("T")

_LINE = 160
# The first pause in seconds and its growth: the next in the queue tries more often.
_QUEUING, _NEXT = (0.0005, 2.0), (0.0001, 1.2)
_LONGEST_PAUSE = 0.01
_PATIENCE = 0.25
_CHECK_EVERY = 1.0


class WriterLock:
    """`with lock:` — waits with growing, jittered pauses, then raises `Busy` naming the holder.

    `left` is the remaining time for waiting. The turn of a thread is a lock that knows its owner,
    because an interrupt may come between acquiring the lock and recording who has it.
    """

    def __init__(self, path: str, *, clock: Clock, timeout: float) -> None:
        self.path = path
        self._clock = clock
        self._timeout = timeout
        self._fd = self._queue = -1
        self._inode = 0
        self._checked_at = 0.0
        self._name = b""
        self._turn = RLock()
        self._deadline = 0.0

    def hold(self, act: Callable[[], T]) -> T:
        """Run `act` alone, and release the lock whatever interrupts it.

        A `with` would not release it if the interrupt came just before its end.
        """
        self._require_outside()
        try:
            with self:
                return act()
        finally:
            self._free()

    def __enter__(self) -> None:
        deadline = self._clock.monotonic() + self._timeout
        self._require_outside()
        try:
            if not self._turn.acquire(timeout=self._timeout):
                raise self._busy("another thread of this process")
            self._acquire(deadline)
            self._deadline = deadline
            self._write_our_name()
        except BaseException:
            if self.is_mine:
                self._unlock(self._queue)  # in case an interrupt came first
            self._free()
            raise

    def _require_outside(self) -> None:
        if self.is_mine:
            raise RuntimeError("this thread is in the middle of a write; it cannot begin another")

    @property
    def is_mine(self) -> bool:
        """Return whether this thread has the turn."""
        return bool(self._turn._is_owned())  # type: ignore[attr-defined]

    @property
    def left(self) -> float:
        return max(0.0, self._deadline - self._clock.monotonic())

    def __exit__(self, *_: object) -> None:
        self._free()

    def _free(self) -> None:
        """Release what this thread holds, and nothing that another thread holds."""
        if self.is_mine:
            self._unlock(self._fd)
            self._turn.release()  # last: another thread can begin now

    def in_turn(self, act: Callable[[], object], timeout: float) -> None:
        """Run `act` while no other thread writes; skip it if one writes longer than the timeout."""
        if self.is_mine:
            return
        try:
            try:
                if self.begin_turn(timeout):
                    act()
            finally:
                self.end_turn()
        finally:
            self.end_turn()  # an interrupt may have prevented the first call

    def begin_turn(self, timeout: float) -> bool:
        """Prevent other threads from writing; return False if one writes past the timeout."""
        return self._turn.acquire(timeout=timeout)

    def end_turn(self) -> None:
        if self.is_mine:
            self._turn.release()

    def reset_after_fork(self) -> None:
        """Reset the lock in a forked child: no thread has a turn.

        The inherited descriptor is closed: the parent's lock is held until both have closed it.
        """
        self._turn = RLock()
        self.close()

    def close(self) -> None:
        opened, self._fd, self._queue = (self._fd, self._queue), -1, -1
        for fd in opened:
            if fd >= 0:
                os.close(fd)

    def recheck_file(self) -> None:
        """Check at the next lock that the file is still the one under this name."""
        self._checked_at = -_CHECK_EVERY

    def holder(self) -> str:
        """Return the name of the last process that had the lock, for messages."""
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return "unknown"
        try:
            line = os.read(fd, _LINE).decode("utf-8", "replace").strip(" \n\0")
        finally:
            os.close(fd)
        return line or "unknown"

    def _acquire(self, deadline: float) -> None:
        """Wait for the lock."""
        while True:
            if self._fd < 0:
                self._open()
            now = self._wait(deadline)
            if now - self._checked_at < _CHECK_EVERY:
                return
            self._checked_at = now
            if self._inode == _inode(self.path):
                return
            # The file or the whole home was removed: a lock on it excludes no other process.
            self.close()

    def _open(self) -> None:
        try:
            self._fd = _opened(self.path)
            self._inode = os.fstat(self._fd).st_ino
            self._queue = _opened(os.path.join(os.path.dirname(self.path), files.QUEUE))
            self._name = _our_name()
        except BaseException:
            self.close()  # the next attempt must not use only one of the two files
            raise

    def _wait(self, deadline: float) -> float:
        began, next_in_line = self._clock.monotonic(), False
        pause, growth = _QUEUING
        try:
            while True:
                if not next_in_line and self._try_lock(self._queue):
                    next_in_line, (pause, growth) = True, _NEXT
                now = self._clock.monotonic()
                if (next_in_line or now - began > _PATIENCE) and self._try_lock(self._fd):
                    return now
                if now >= deadline:
                    raise self._busy(self.holder())
                jitter = 0.5 + self._clock.random(1)[0] / 255
                self._clock.sleep(min(pause * jitter, deadline - now))
                pause = min(pause * growth, _LONGEST_PAUSE)
        finally:
            self._unlock(self._queue)

    def _try_lock(self, fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise failure(error, "write", self.path) from error
        return True

    def _unlock(self, fd: int) -> None:
        try:
            if fd >= 0:
                fcntl.flock(fd, fcntl.LOCK_UN)
        except OSError:
            self.close()  # closing the file releases the lock as well

    def _busy(self, holder: str) -> Busy:
        return Busy(
            f"another process is writing: {holder}",
            why=f"it held the writer lock for {self._timeout:g} s",
            hint="try again, or wait longer: forestay config busy_timeout SECONDS",
            file=self.path,
            operation="update",
        )

    def _write_our_name(self) -> None:
        try:
            os.pwrite(self._fd, self._name, 0)
        except OSError:
            return  # on a full disk the name is missing in messages; writing may still succeed


def _opened(path: str) -> int:
    try:
        return open_private(path)
    except OSError as error:
        if files.is_irregular(path):
            raise StoreFailed(
                f"{path} is not a file",
                why="something else has the name of a file that is locked around every write",
                hint="move it aside: forestay doctor --fix",
                file=path,
            ) from error
        raise failure(error, "write", path) from error


def open_private(path: str, flags: int = 0) -> int:
    """Open a file that only this user can read; create it so, whatever the umask is."""
    flags |= os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    fd = os.open(path, flags, 0o600)
    try:
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        if mode & 0o777 != 0o600:
            os.fchmod(fd, 0o600)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _our_name() -> bytes:
    name = os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "python"
    line = f"pid {os.getpid()} ({name})".encode("utf-8", "replace")[: _LINE - 1]
    return line.ljust(_LINE - 1) + b"\n"


def _inode(path: str) -> int:
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0
