"""Run a command with a time limit, end everything it started, and capture its output.

The command runs without a shell, in its own process group, without standard input. Its output, on
both streams, is passed on as it arrives; only the beginning (`HEAD`) and the end (`TAIL`) are held
in memory. At its time limit the whole group gets TERM and, after a grace period, KILL; no other
process is touched. Ctrl-C and TERM are passed on in the same way, so that the outcome of the
command is recorded even then.

A background process that the command leaves running is not waited for, and its later output is not
read. If this process itself is killed, a *guard* ends the group: a shell that waits for one of our
pipes to close.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from types import FrameType

from msgspec import Struct

from forestay.base.clock import Clock
from forestay.errors import InvalidInput

HEAD = 4 << 20
TAIL = 256 << 10
GRACE = 5.0
_CHUNK = 1 << 16
_LINGER = 0.2
_HEARD = 1.0
"""Seconds for which the output of a background process is still read after the command ended."""
_LOOK = 0.25
_GLANCE = 0.01

Sink = Callable[[bytes], None]
Stop = Callable[[], bool]


class Ended(Struct, frozen=True):
    """How a command ended. `exit` is the code a shell would report: 128 + N for signal N."""

    exit: int
    duration_ms: int
    printed: int
    head: bytes
    tail: bytes
    timed_out: bool = False
    interrupted: bool = False


def run(
    argv: Sequence[str],
    folder: str,
    environ: Mapping[str, str],
    *,
    clock: Clock,
    sink: Sink | None = None,
    timeout: float | None = None,
    grace: float = GRACE,
    stop: Stop | None = None,
) -> Ended:
    """Run a command until it ends; raise `InvalidInput` if it cannot be started.

    `stop` is called regularly; when it returns True the command is ended early.
    """
    began = clock.monotonic()
    # Installed before the start, so that a signal in between cannot leave the command running.
    with _Signals(stop) as orders:
        child = _start_process(argv, folder, environ)
        watch = _Watch(child, clock, orders, sink, began, timeout, grace)
        guard = _guard(child.pid, grace)
        try:
            watch.read_output()
        finally:
            watch.close()
            _end_guard(guard)
    code = child.returncode
    return Ended(
        exit=128 - code if code < 0 else code,
        duration_ms=int((clock.monotonic() - began) * 1000),
        printed=watch.printed,
        head=bytes(watch.head),
        tail=bytes(watch.tail),
        timed_out=watch.timed_out,
        interrupted=bool(orders.received),
    )


def _start_process(
    argv: Sequence[str], folder: str, environ: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            list(argv),
            cwd=folder,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            # Without a terminal, a program that would ask a question fails instead of waiting.
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise _not_started(argv, folder, error) from error


_GUARD = 'read -r _; kill -s TERM -- "-$1" || exit; sleep "$2"; kill -s KILL -- "-$1"'


def _guard(group: int, grace: float) -> subprocess.Popen[bytes] | None:
    """Start the guard, a shell that outlives this process; None if it cannot be started."""
    try:
        return subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "sh", str(group), str(max(1, round(grace)))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
    except OSError:
        return None


def _end_guard(guard: subprocess.Popen[bytes] | None) -> None:
    if guard is not None and guard.stdin is not None:
        # Kill the guard before its pipe closes: it would take that for the death of this process.
        guard.kill()
        guard.wait()
        guard.stdin.close()


def _not_started(argv: Sequence[str], folder: str, error: OSError | ValueError) -> InvalidInput:
    if isinstance(error, FileNotFoundError) and error.filename == folder:
        return InvalidInput(f"there is no folder {folder}", why="nothing was run")
    what = f"{argv[0]} cannot be run"
    if isinstance(error, FileNotFoundError):
        what = f"there is no command {argv[0]}"
    reason = (getattr(error, "strerror", "") or str(error)).lower()
    hint = "it is run without a shell; for pipes and the like: forestay prove -- sh -c '…'"
    return InvalidInput(what, why=f"{reason}; nothing was run or recorded", hint=hint)


class _Signals:
    """Holds back signals that ask this process to end until the command has ended.

    Only the main thread can do so; in other threads `stop` is called instead.
    """

    def __init__(self, stop: Stop | None) -> None:
        self._stop = stop
        self.received: list[int] = []
        self._before: dict[int, object] = {}

    def __enter__(self) -> _Signals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                # Ignored signals (nohup, a background job) stay ignored.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.received.append(number)

    def check_stop(self) -> None:
        """Check whether `stop` asks to end the command."""
        if self._stop is not None and not self.received and self._stop():
            self.received.append(signal.SIGTERM)


class _Watch:
    """A running command: its output, and when it must end."""

    def __init__(
        self,
        child: subprocess.Popen[bytes],
        clock: Clock,
        orders: _Signals,
        sink: Sink | None,
        began: float,
        timeout: float | None,
        grace: float,
    ) -> None:
        self._child, self._clock, self._orders, self._sink = child, clock, orders, sink
        self._ends = None if timeout is None else began + timeout
        self._grace = grace
        self._kills: float | None = None
        self._obeyed = 0
        self.timed_out = False
        self.printed = 0
        self.head = bytearray()
        self.tail = bytearray()

    def read_output(self) -> None:
        """Read its output until it has ended."""
        assert self._child.stdout is not None
        fd = self._child.stdout.fileno()
        os.set_blocking(fd, False)
        with selectors.DefaultSelector() as selector:
            selector.register(fd, selectors.EVENT_READ)
            silent = False
            while self._child.poll() is None:
                self._handle_signals()
                if selector.select(self._wait_time(silent)) and not self._read(fd):
                    # The command closed its output but can still be running.
                    selector.unregister(fd)
                    silent = True
            ends = self._clock.monotonic() + _HEARD
            while not silent and selector.select(_LINGER) and self._clock.monotonic() < ends:
                silent = not self._read(fd)
        if self.timed_out or self._orders.received:
            self._kill_the_rest()

    def _kill_the_rest(self) -> None:
        """Kill the remaining processes of a group that was asked to end."""
        ends = self._clock.monotonic() + self._grace
        while self._signal(0) and self._clock.monotonic() < ends:
            self._clock.sleep(_GLANCE)
        self._signal(signal.SIGKILL)

    def _wait_time(self, silent: bool) -> float:
        """Return how long to wait before time and signals are checked again."""
        marks = [mark for mark in (self._ends, self._kills) if mark is not None]
        left = min((mark - self._clock.monotonic() for mark in marks), default=_LOOK)
        return min(_GLANCE if silent else _LOOK, max(0.0, left))

    def _read(self, fd: int) -> bool:
        """Read what is available; return False at the end."""
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return True
        self.printed += len(data)
        self.head += data[: max(0, HEAD - len(self.head))]
        self.tail += data
        if len(self.tail) > 2 * TAIL:
            del self.tail[:-TAIL]
        if data and self._sink is not None:
            self._sink(data)
        return bool(data)

    def _handle_signals(self) -> None:
        self._orders.check_stop()
        now = self._clock.monotonic()
        if self._ends is not None and now >= self._ends:
            self._ends, self.timed_out, self._kills = None, True, now + self._grace
            self._signal(signal.SIGTERM)
        while self._obeyed < len(self._orders.received):
            # A second signal shows that the user does not want to wait.
            number = signal.SIGKILL if self._obeyed else self._orders.received[0]
            self._obeyed += 1
            self._kills = now + self._grace
            self._signal(number)
        if self._kills is not None and now >= self._kills:
            self._kills = None
            self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> bool:
        """Signal the whole group; return False if no process is left in it."""
        try:
            # A group id is not reused while a process is in the group.
            os.killpg(self._child.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def close(self) -> None:
        """Kill a command that has not ended."""
        if self._child.poll() is None:
            self._signal(signal.SIGKILL)
            self._child.wait()
        if self._child.stdout is not None:
            self._child.stdout.close()
