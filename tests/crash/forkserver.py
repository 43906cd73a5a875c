"""Runs scenarios under faults, one fork per point, in a process that has imported everything once.

A **point** is one fault at one call. The server, started with the shim preloaded, serves one
request at a time over its standard streams: it lays out the prepared home afresh, forks,
arms the shim in the child, and lets the scenario run into the fault. Then the home is checked, in
another fork without any fault, twice: as the first one left it, and as a power cut would leave it.

Every path has the same length at every point, so that call number N is always the same call.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import mmap
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from enum import IntEnum, IntFlag
from pathlib import Path
from typing import IO, Any

from tests.crash import disk
from tests.crash.scenario import Scenario

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 60


class Fault(IntEnum):
    """What happens at the call; the numbers are the shim's."""

    NOTHING = 0
    KILL_BEFORE = 1
    KILL_AFTER = 2
    TORN_WRITE = 3
    EIO_ONCE = 4
    EIO_STICKY = 5
    ENOSPC_ONCE = 6
    ENOSPC_STICKY = 7
    SHORT_WRITE = 8

    @property
    def kills(self) -> bool:
        return self in (Fault.KILL_BEFORE, Fault.KILL_AFTER, Fault.TORN_WRITE)


class Kind(IntFlag):
    """What a call can suffer; the bits are the shim's."""

    QUIET = 1
    FAILS = 2
    GROWS = 4
    WRITES = 8
    SYNCS = 16
    FAR = 32


SUFFERED_BY = {
    Fault.KILL_BEFORE: ~Kind(0),
    Fault.KILL_AFTER: ~Kind(0),
    Fault.TORN_WRITE: Kind.WRITES,
    Fault.EIO_ONCE: Kind.FAILS,
    Fault.EIO_STICKY: Kind.FAILS,
    Fault.ENOSPC_ONCE: Kind.GROWS,
    Fault.ENOSPC_STICKY: Kind.GROWS,
    Fault.SHORT_WRITE: Kind.WRITES,
}


@dataclass
class Run:
    """How one forked child ended, and what the shim and the child said of it."""

    end: str = "killed"  # or returned, refused, broke, hung
    why: str = ""
    acked: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    after_cut: list[str] = field(default_factory=list)
    imported: list[str] = field(default_factory=list)
    calls: int = 0
    fired: int = 0
    call: str = ""
    path: str = ""
    kinds: list[int] = field(default_factory=list)


@dataclass
class Point:
    """One fault at one call: the run, and what is wrong after it."""

    fault: Fault
    at: int
    run: Run
    left: list[str]
    after_cut: list[str]

    @property
    def fired(self) -> bool:
        return self.run.fired == self.at and (self.run.end == "killed" or not self.fault.kills)

    @property
    def problems(self) -> list[str]:
        problems = [f"as left: {problem}" for problem in self.left]
        problems += [f"after a power cut: {problem}" for problem in self.after_cut]
        if self.run.end in ("broke", "hung") or (self.run.end == "killed" and not self.fault.kills):
            problems.append(f"{self.run.end} {self.run.why}")
        return problems

    def __str__(self) -> str:
        file = os.path.basename(self.run.path)
        met = f"{self.run.call} {file}" if self.run.fired else "no fault"
        return f"{self.fault.name} at call {self.at} ({met}): {'; '.join(self.problems) or 'good'}"


def build_shim(folder: Path) -> Path | None:
    """Compiles the shim into `folder`; None where there is no compiler or no preloading."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or not sys.platform.startswith("linux"):
        return None
    library = folder / "shim.so"
    source = Path(__file__).with_name("shim.c")
    # Some compilers put their own checked open() in the place of ours unless told not to.
    flags = ["-shared", "-fPIC", "-O1", "-U_FORTIFY_SOURCE"]
    subprocess.run([compiler, *flags, "-o", library, source, "-ldl"], check=True)
    return library


class ForkServer:
    """The harness's end: starts a server in a folder of its own and asks it for points."""

    def __init__(self, shim: Path, room: Path) -> None:
        room.mkdir()
        keep = {name: value for name, value in os.environ.items() if "FORESTAY" not in name}
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from tests.crash.forkserver import serve; serve()", str(room)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=keep | {"LD_PRELOAD": str(shim), "PYTHONDONTWRITEBYTECODE": "1"},
        )

    def prepare(self, scenario: str) -> None:
        """Lets the scenario make its home; asked once, before any point."""
        self._ask(do="prepare", scenario=scenario)

    def point(self, scenario: str, fault: Fault, at: int) -> Point:
        """Runs into one fault (NOTHING counts the calls) and checks what is left."""
        told = self._ask(do="point", scenario=scenario, fault=int(fault), at=at)
        return Point(fault, at, Run(**told["run"]), told["left"], told["after_cut"])

    def states(self, scenario: str) -> list[str]:
        """What the disk holds before and after each call of a run without faults, as hashes."""
        told: list[str] = self._ask(do="states", scenario=scenario)["states"]
        return told

    def close(self) -> None:
        self._process.communicate()

    def _ask(self, **request: object) -> dict[str, Any]:
        ask, tell = self._process.stdin, self._process.stdout
        assert ask is not None and tell is not None
        ask.write(json.dumps(request) + "\n")
        ask.flush()
        answer = tell.readline()
        if not answer:
            raise RuntimeError(f"the fork server died of {request}; see its standard error")
        told: dict[str, Any] = json.loads(answer)
        return told


# From here on: inside the server.


class _Report(ctypes.Structure):
    _fields_ = (
        ("calls", ctypes.c_int64),
        ("fired", ctypes.c_int64),
        ("call", ctypes.c_char * 32),
        ("path", ctypes.c_char * 256),
        ("kinds", ctypes.c_uint8 * 8192),
    )


def serve() -> None:
    """Answers requests until its standard input closes."""
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    _silence_standard_streams()
    del os.environ["LD_PRELOAD"]
    server = _Server(sys.argv[1])
    gc.disable()  # a collection in a child would copy every page it looks at
    for line in requests:
        request = json.loads(line)
        answer = getattr(server, request.pop("do"))(**request) or {}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _silence_standard_streams() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)


class _Server:
    def __init__(self, room: str) -> None:
        self._template = os.path.join(room, "template")
        self._place = os.path.join(room, "place")
        self._stable = os.path.join(room, "stable")
        self._cut = os.path.join(room, "cut")
        self._scratch = os.path.join(room, "scratch")
        self._home = os.path.join(self._place, "home")
        self._shared = mmap.mmap(-1, ctypes.sizeof(_Report))
        self._shim = ctypes.CDLL(None)

    def prepare(self, scenario: str) -> None:
        """Lets the scenario make its home, and keeps a copy to begin every point with."""
        os.mkdir(self._place)
        run = self._fork(lambda tell: _load(scenario).prepare(self._home), ())
        if run.end != "returned":
            raise RuntimeError(f"{scenario} cannot be prepared: {run.end} {run.why}")
        shutil.copytree(self._place, self._template)
        if _load(scenario).afresh is None:  # who spoke to a server may have threads: do not fork it
            self._warm_up(scenario)

    def _warm_up(self, scenario: str) -> None:
        """Lets this process check a copy, for what it then knows (decoders, compiled patterns).

        Each child would have to learn it anew, which takes longer than all it does.
        """
        os.mkdir(self._scratch)
        shutil.copytree(self._template, os.path.join(self._scratch, "place"))
        _checked(_load(scenario), os.path.join(self._scratch, "place", "home"), [])
        shutil.rmtree(self._scratch)

    def point(self, scenario: str, fault: int, at: int) -> dict[str, object]:
        loaded = self._begun(scenario)
        before = disk.baseline(self._place, self._template)
        os.mkdir(self._stable)
        run = self._fork(lambda tell: self._run(loaded, fault, at, tell), loaded.refusals)
        disk.after_power_cut(before, self._stable, self._cut)
        checked = self._fork(lambda tell: self._check_twice(loaded, run.acked, tell), ())
        if checked.end != "returned":
            checked.left.append(f"the check {checked.end} {checked.why}")
        shutil.rmtree(self._cut)
        shutil.rmtree(self._stable)
        return {"run": asdict(run), "left": checked.left, "after_cut": checked.after_cut}

    def _begun(self, scenario: str) -> Scenario:
        """Everything as it was before."""
        disk.lay_out(self._template, self._place)
        loaded = _load(scenario)
        if (afresh := loaded.afresh) is not None:
            run = self._fork(lambda tell: afresh(self._home), ())
            if run.end != "returned":
                raise RuntimeError(f"{scenario} cannot begin afresh: {run.end} {run.why}")
        return loaded

    def states(self, scenario: str) -> dict[str, object]:
        loaded = self._begun(scenario)
        os.mkdir(self._stable)
        watch = _Watch(self._shim)
        states: list[str] = []
        told = ctypes.c_int64.from_buffer(mmap.mmap(-1, 8))  # shared with the child

        def run(tell: "Tell") -> None:
            def count(word: str, text: str) -> None:
                tell(word, text)
                told.value += 1

            watch.begin()
            self._run(loaded, Fault.NOTHING, 0, count)

        def look() -> None:
            for _ in watch.moments():
                # The same bytes are another state once more is promised of them.
                states.append(f"{told.value} {disk.fingerprint(self._place, self._stable)}")

        ended = self._fork(run, (), meanwhile=look)
        shutil.rmtree(self._stable)
        if ended.end != "returned" or len(states) != 2 * ended.calls:
            raise RuntimeError(f"{scenario} {ended.end} {ended.why}: {len(states)} states")
        return {"states": states}

    def _run(self, scenario: Scenario, fault: int, at: int, tell: "Tell") -> None:
        where = (os.fsencode(self._place), os.fsencode(self._stable))
        report = ctypes.byref(_Report.from_buffer(self._shared))
        self._shim.shim_arm(report, *where, ctypes.c_int64(at), fault)
        try:
            scenario.run(self._home, lambda event: tell("acked", event))
        finally:
            self._shim.shim_arm(report, b"", b"", ctypes.c_int64(0), 0)

    def _check_twice(self, scenario: Scenario, acked: list[str], tell: "Tell") -> None:
        for problem in _checked(scenario, self._home, acked):
            tell("left", problem)
        if scenario.afresh is not None:
            return
        disk.lay_out(self._cut, self._place)
        for problem in _checked(scenario, self._home, acked):
            tell("after_cut", problem)

    def _fork(
        self,
        work: "Work",
        refusals: tuple[type[Exception], ...],
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Run:
        self._shared[:] = bytes(len(self._shared))
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            _work_and_exit(work, refusals, writer)
        os.close(writer)
        meanwhile()
        with os.fdopen(reader) as lines:
            run = _heard(lines)
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
            run.end = "hung"
        # What one child needed the next will need too: import it here, once for all.
        for name in run.imported:
            with contextlib.suppress(ImportError):  # some make modules that have no file
                importlib.import_module(name)
        return self._with_report(run)

    def _with_report(self, run: Run) -> Run:
        report = _Report.from_buffer_copy(self._shared)
        run.calls, run.fired = report.calls, report.fired
        run.call, run.path = report.call.decode(), report.path.decode()
        run.kinds = list(report.kinds[: report.calls])
        return run


class _Watch:
    """Two pipes by which a child waits, before and after each call, until it was looked at."""

    def __init__(self, shim: ctypes.CDLL) -> None:
        self._shim = shim
        self._told, self._tell = os.pipe()
        self._heard, self._answer = os.pipe()

    def begin(self) -> None:
        """In the child."""
        os.close(self._told)
        os.close(self._answer)
        self._shim.shim_watched(self._tell, self._heard)

    def moments(self) -> Iterator[None]:
        """In the parent: each time that the child stands still, until it ends."""
        os.close(self._tell)
        os.close(self._heard)
        while os.read(self._told, 1):
            yield
            os.write(self._answer, b".")
        os.close(self._told)
        os.close(self._answer)


Tell = Callable[[str, str], None]
Work = Callable[[Tell], None]


def _load(scenario: str) -> Scenario:
    module, name = scenario.split(":")
    loaded = getattr(importlib.import_module(module), name)
    assert isinstance(loaded, Scenario)
    return loaded


def _checked(scenario: Scenario, home: str, acked: list[str]) -> list[str]:
    try:
        return scenario.check(home, acked)
    except Exception as error:
        return [f"the check failed with {type(error).__name__}: {error}"[:600]]


def _heard(lines: IO[str]) -> Run:
    """Collects what a child told through its pipe; each line is whole, or the child was killed."""
    run = Run()
    for line in lines:
        word, text = json.loads(line)
        if word in ("acked", "left", "after_cut", "imported"):
            getattr(run, word).append(text)
        else:
            run.end, run.why = word, text
    return run


def _work_and_exit(work: Work, refusals: tuple[type[Exception], ...], writer: int) -> None:
    def tell(word: str, text: str) -> None:
        os.write(writer, json.dumps([word, text]).encode() + b"\n")

    signal.alarm(PATIENCE_SECONDS)
    known = set(sys.modules)
    try:
        work(tell)
        for name in sys.modules.keys() - known:
            tell("imported", name)
        tell("returned", "")
    except refusals as error:
        tell("refused", repr(error)[:300])
    except BaseException as error:
        tell("broke", f"{type(error).__name__}: {error}"[:600])
    finally:
        os._exit(0)
