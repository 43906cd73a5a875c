"""Running someone's command: started, watched, ended with all it started, and what it printed.

The command runs without a shell, in a process group of its own, with nothing to read. What it
prints, on both streams, is passed on as it comes; of that the beginning (`HEAD`) and the end
(`TAIL`) are held, so that gigabytes cost no more memory than a page. What runs out of time is
asked to end (TERM) and, after a grace, made to (KILL): the whole group, which is what we started
and nothing else. Ctrl-C and an order to end are passed on in the same way, so that what came of
the command is known even then.

A process that the command left behind keeps nobody waiting: what it prints later is not heard.
Should this process be killed itself, a *guard* ends the group: a shell that waits for a pipe of
ours to close.
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
"""How long a process that the command left behind is listened to at most, in seconds."""
_LOOK = 0.25
_GLANCE = 0.01

Sink = Callable[[bytes], None]
Stop = Callable[[], bool]


class Ended(Struct, frozen=True):
    """How a command ended. `exit` is what a shell would say: 128 + N for one that died of N."""

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
    """Run a command to its end, whichever that is; `InvalidInput` if it cannot be started.

    `stop` is asked now and then whether it is to end early, as by an order to this process.
    """
    began = clock.monotonic()
    # Before it is started: an order to end that comes in between must not leave it behind.
    with _Orders(stop) as orders:
        child = _start(argv, folder, environ)
        watch = _Watch(child, clock, orders, sink, began, timeout, grace)
        guard = _guard(child.pid, grace)
        try:
            watch.hear()
        finally:
            watch.close()
            _dismiss(guard)
    code = child.returncode
    return Ended(
        exit=128 - code if code < 0 else code,
        duration_ms=int((clock.monotonic() - began) * 1000),
        printed=watch.printed,
        head=bytes(watch.head),
        tail=bytes(watch.tail),
        timed_out=watch.timed_out,
        interrupted=bool(orders.heard),
    )


def _start(argv: Sequence[str], folder: str, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            list(argv),
            cwd=folder,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            # Also without a terminal: who cannot ask a person fails, instead of waiting for ever.
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise _not_started(argv, folder, error) from error


_GUARD = 'read -r _; kill -s TERM -- "-$1" || exit; sleep "$2"; kill -s KILL -- "-$1"'


def _guard(group: int, grace: float) -> subprocess.Popen[bytes] | None:
    """Someone who outlives this process; where nobody can, the command is run all the same."""
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


def _dismiss(guard: subprocess.Popen[bytes] | None) -> None:
    if guard is not None and guard.stdin is not None:
        # Before the pipe closes: it must not take this for our death.
        guard.kill()
        guard.wait()
        guard.stdin.close()


def _not_started(argv: Sequence[str], folder: str, error: OSError | ValueError) -> InvalidInput:
    if isinstance(error, FileNotFoundError) and error.filename == folder:
        return InvalidInput(f"there is no folder {folder}", why="nothing was run")
    what = f"{argv[0]} cannot be run"
    if isinstance(error, FileNotFoundError):
        what = f"there is no command {argv[0]}"
    said = (getattr(error, "strerror", "") or str(error)).lower()
    hint = "it is run without a shell; for pipes and the like: forestay prove -- sh -c '…'"
    return InvalidInput(what, why=f"{said}; nothing was run or recorded", hint=hint)


class _Orders:
    """Signals that ask this process to end, held back until the command has ended.

    Only the main thread can hear them; elsewhere they do what they always do, and `stop` is asked
    instead.
    """

    def __init__(self, stop: Stop | None) -> None:
        self._stop = stop
        self.heard: list[int] = []
        self._before: dict[int, object] = {}

    def __enter__(self) -> _Orders:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                # What is ignored (nohup, a background job) stays so.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.heard.append(number)

    def look(self) -> None:
        """Whether there is an order that comes without a signal."""
        if self._stop is not None and not self.heard and self._stop():
            self.heard.append(signal.SIGTERM)


class _Watch:
    """A command that runs: what it prints, and when it must end."""

    def __init__(
        self,
        child: subprocess.Popen[bytes],
        clock: Clock,
        orders: _Orders,
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

    def hear(self) -> None:
        """Until it has ended and what it printed is read."""
        assert self._child.stdout is not None
        fd = self._child.stdout.fileno()
        os.set_blocking(fd, False)
        with selectors.DefaultSelector() as selector:
            selector.register(fd, selectors.EVENT_READ)
            silent = False
            while self._child.poll() is None:
                self._obey()
                if selector.select(self._patience(silent)) and not self._read(fd):
                    # Nothing will be printed any more; it may run on all the same.
                    selector.unregister(fd)
                    silent = True
            ends = self._clock.monotonic() + _HEARD
            while not silent and selector.select(_LINGER) and self._clock.monotonic() < ends:
                silent = not self._read(fd)
        if self.timed_out or self._orders.heard:
            self._end_the_rest()

    def _end_the_rest(self) -> None:
        """See to it that nobody of a group that had to end is left."""
        ends = self._clock.monotonic() + self._grace
        while self._signal(0) and self._clock.monotonic() < ends:
            self._clock.sleep(_GLANCE)
        self._signal(signal.SIGKILL)

    def _patience(self, silent: bool) -> float:
        """How long to wait before looking at the time and the orders again."""
        marks = [mark for mark in (self._ends, self._kills) if mark is not None]
        left = min((mark - self._clock.monotonic() for mark in marks), default=_LOOK)
        return min(_GLANCE if silent else _LOOK, max(0.0, left))

    def _read(self, fd: int) -> bool:
        """Take what is there; False at the end."""
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

    def _obey(self) -> None:
        self._orders.look()
        now = self._clock.monotonic()
        if self._ends is not None and now >= self._ends:
            self._ends, self.timed_out, self._kills = None, True, now + self._grace
            self._signal(signal.SIGTERM)
        while self._obeyed < len(self._orders.heard):
            # Whoever asks twice does not want to wait.
            number = signal.SIGKILL if self._obeyed else self._orders.heard[0]
            self._obeyed += 1
            self._kills = now + self._grace
            self._signal(number)
        if self._kills is not None and now >= self._kills:
            self._kills = None
            self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> bool:
        """Tell the whole group; False if nobody is left of it."""
        try:
            # The number of a group is not given away while anyone is in it.
            os.killpg(self._child.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def close(self) -> None:
        """Leave nothing behind of a command that did not come to its end."""
        if self._child.poll() is None:
            self._signal(signal.SIGKILL)
            self._child.wait()
        if self._child.stdout is not None:
            self._child.stdout.close()
