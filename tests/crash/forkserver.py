"""Run scenarios under faults, one fork per point, in a process that has imported everything once.

A **point** is one fault at one call. The server, started with the shim preloaded, serves one
request at a time over its standard streams: it restores the prepared home, forks, arms the shim in
the child, and runs the scenario into the fault. Then the home is checked twice, in another fork
without any fault: as the first one left it, and as a power cut would leave it.

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
TIMEOUT_SECONDS = 60


class Fault(IntEnum):
    """List what can happen at a call; the numbers are defined by the shim."""

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
    """List which faults a call can have; the bits are defined by the shim."""

    QUIET = 1
    FAILS = 2
    GROWS = 4
    WRITES = 8
    SYNCS = 16
    FAR = 32


KINDS_WITH_FAULT = {
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
    """Hold how one forked child ended, and what the shim and the child reported."""

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
    """Hold one fault at one call: the run, and what is wrong after it."""

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
    """Compile the shim into `folder`; return None without a compiler or preloading."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or not sys.platform.startswith("linux"):
        return None
    library = folder / "shim.so"
    source = Path(__file__).with_name("shim.c")
    # Some compilers replace our open() by a checked one of their own without this flag.
    flags = ["-shared", "-fPIC", "-O1", "-U_FORTIFY_SOURCE"]
    subprocess.run([compiler, *flags, "-o", library, source, "-ldl"], check=True)
    return library


class ForkServer:
    """Start a server in a new folder and request points from it (the side of the harness)."""

    def __init__(self, shim: Path, room: Path) -> None:
        room.mkdir()
        environment = {name: value for name, value in os.environ.items() if "FORESTAY" not in name}
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from tests.crash.forkserver import serve; serve()", str(room)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment | {"LD_PRELOAD": str(shim), "PYTHONDONTWRITEBYTECODE": "1"},
        )

    def prepare(self, scenario: str) -> None:
        """Make the scenario's home; call it once, before any point."""
        self._request(do="prepare", scenario=scenario)

    def point(self, scenario: str, fault: Fault, at: int) -> Point:
        """Run into one fault (NOTHING counts the calls) and check what is left."""
        answer = self._request(do="point", scenario=scenario, fault=int(fault), at=at)
        return Point(fault, at, Run(**answer["run"]), answer["left"], answer["after_cut"])

    def states(self, scenario: str) -> list[str]:
        """Return hashes of the disk before and after each call of a run without faults."""
        states: list[str] = self._request(do="states", scenario=scenario)["states"]
        return states

    def close(self) -> None:
        self._process.communicate()

    def _request(self, **request: object) -> dict[str, Any]:
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None and answers is not None
        requests.write(json.dumps(request) + "\n")
        requests.flush()
        answer = answers.readline()
        if not answer:
            raise RuntimeError(f"the fork server died of {request}; see its standard error")
        decoded: dict[str, Any] = json.loads(answer)
        return decoded


# The rest runs inside the server.


class _ShimReport(ctypes.Structure):
    _fields_ = (
        ("calls", ctypes.c_int64),
        ("fired", ctypes.c_int64),
        ("call", ctypes.c_char * 32),
        ("path", ctypes.c_char * 256),
        ("kinds", ctypes.c_uint8 * 8192),
    )


def serve() -> None:
    """Answer requests until standard input closes."""
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    _silence_standard_streams()
    del os.environ["LD_PRELOAD"]
    server = _Server(sys.argv[1])
    gc.disable()  # a collection in a child would copy every page it reads
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
        self._shared = mmap.mmap(-1, ctypes.sizeof(_ShimReport))
        self._shim = ctypes.CDLL(None)

    def prepare(self, scenario: str) -> None:
        """Make the scenario's home, and store a copy with which every point begins."""
        os.mkdir(self._place)
        run = self._fork(lambda report: _load(scenario).prepare(self._home), ())
        if run.end != "returned":
            raise RuntimeError(f"{scenario} cannot be prepared: {run.end} {run.why}")
        shutil.copytree(self._place, self._template)
        if _load(scenario).reset is None:  # a client of a server may have threads: do not fork it
            self._warm_up(scenario)

    def _warm_up(self, scenario: str) -> None:
        """Check a copy in this process, to fill its caches (decoders, compiled patterns).

        Otherwise each child would have to fill them, which takes longer than its work.
        """
        os.mkdir(self._scratch)
        shutil.copytree(self._template, os.path.join(self._scratch, "place"))
        _run_check(_load(scenario), os.path.join(self._scratch, "place", "home"), [])
        shutil.rmtree(self._scratch)

    def point(self, scenario: str, fault: int, at: int) -> dict[str, object]:
        loaded = self._restore_home(scenario)
        before = disk.baseline(self._place, self._template)
        os.mkdir(self._stable)
        run = self._fork(lambda report: self._run(loaded, fault, at, report), loaded.refusals)
        disk.after_power_cut(before, self._stable, self._cut)
        checked = self._fork(lambda report: self._check_twice(loaded, run.acked, report), ())
        if checked.end != "returned":
            checked.left.append(f"the check {checked.end} {checked.why}")
        shutil.rmtree(self._cut)
        shutil.rmtree(self._stable)
        return {"run": asdict(run), "left": checked.left, "after_cut": checked.after_cut}

    def _restore_home(self, scenario: str) -> Scenario:
        """Restore the home, and state outside of it, to the beginning; return the scenario."""
        disk.lay_out(self._template, self._place)
        loaded = _load(scenario)
        if (reset := loaded.reset) is not None:
            run = self._fork(lambda report: reset(self._home), ())
            if run.end != "returned":
                raise RuntimeError(f"{scenario} cannot be reset: {run.end} {run.why}")
        return loaded

    def states(self, scenario: str) -> dict[str, object]:
        loaded = self._restore_home(scenario)
        os.mkdir(self._stable)
        watch = _Watch(self._shim)
        states: list[str] = []
        reported = ctypes.c_int64.from_buffer(mmap.mmap(-1, 8))  # shared with the child

        def run(report: "Report") -> None:
            def count(word: str, text: str) -> None:
                report(word, text)
                reported.value += 1

            watch.begin_pausing()
            self._run(loaded, Fault.NOTHING, 0, count)

        def record_states() -> None:
            for _ in watch.pauses():
                # The same bytes are a different state after another acknowledgement.
                states.append(f"{reported.value} {disk.fingerprint(self._place, self._stable)}")

        ended = self._fork(run, (), meanwhile=record_states)
        shutil.rmtree(self._stable)
        if ended.end != "returned" or len(states) != 2 * ended.calls:
            raise RuntimeError(f"{scenario} {ended.end} {ended.why}: {len(states)} states")
        return {"states": states}

    def _run(self, scenario: Scenario, fault: int, at: int, report: "Report") -> None:
        where = (os.fsencode(self._place), os.fsencode(self._stable))
        shim_report = ctypes.byref(_ShimReport.from_buffer(self._shared))
        self._shim.shim_arm(shim_report, *where, ctypes.c_int64(at), fault)
        try:
            scenario.run(self._home, lambda event: report("acked", event))
        finally:
            self._shim.shim_arm(shim_report, b"", b"", ctypes.c_int64(0), 0)

    def _check_twice(self, scenario: Scenario, acked: list[str], report: "Report") -> None:
        for problem in _run_check(scenario, self._home, acked):
            report("left", problem)
        if scenario.reset is not None:
            return
        disk.lay_out(self._cut, self._place)
        for problem in _run_check(scenario, self._home, acked):
            report("after_cut", problem)

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
            run = _parse_reports(lines)
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
            run.end = "hung"
        # The next child needs the same modules: import them here, once for all of them.
        for name in run.imported:
            with contextlib.suppress(ImportError):  # some modules have no file
                importlib.import_module(name)
        return self._with_report(run)

    def _with_report(self, run: Run) -> Run:
        shim_report = _ShimReport.from_buffer_copy(self._shared)
        run.calls, run.fired = shim_report.calls, shim_report.fired
        run.call, run.path = shim_report.call.decode(), shim_report.path.decode()
        run.kinds = list(shim_report.kinds[: shim_report.calls])
        return run


class _Watch:
    """Pause a child before and after each call, by two pipes, until its state was recorded."""

    def __init__(self, shim: ctypes.CDLL) -> None:
        self._shim = shim
        self._paused, self._pause = os.pipe()
        self._continued, self._continue = os.pipe()

    def begin_pausing(self) -> None:
        """Start to pause at calls; runs in the child."""
        os.close(self._paused)
        os.close(self._continue)
        self._shim.shim_watched(self._pause, self._continued)

    def pauses(self) -> Iterator[None]:
        """Yield each time the child pauses, until it ends; runs in the parent."""
        os.close(self._pause)
        os.close(self._continued)
        while os.read(self._paused, 1):
            yield
            os.write(self._continue, b".")
        os.close(self._paused)
        os.close(self._continue)


Report = Callable[[str, str], None]
Work = Callable[[Report], None]


def _load(scenario: str) -> Scenario:
    module, name = scenario.split(":")
    loaded = getattr(importlib.import_module(module), name)
    assert isinstance(loaded, Scenario)
    return loaded


def _run_check(scenario: Scenario, home: str, acked: list[str]) -> list[str]:
    try:
        return scenario.check(home, acked)
    except Exception as error:
        return [f"the check failed with {type(error).__name__}: {error}"[:600]]


def _parse_reports(lines: IO[str]) -> Run:
    """Collect what a child reported through its pipe; lines are always complete."""
    run = Run()
    for line in lines:
        word, text = json.loads(line)
        if word in ("acked", "left", "after_cut", "imported"):
            getattr(run, word).append(text)
        else:
            run.end, run.why = word, text
    return run


def _work_and_exit(work: Work, refusals: tuple[type[Exception], ...], writer: int) -> None:
    def report(word: str, text: str) -> None:
        os.write(writer, json.dumps([word, text]).encode() + b"\n")

    signal.alarm(TIMEOUT_SECONDS)
    known = set(sys.modules)
    try:
        work(report)
        for name in sys.modules.keys() - known:
            report("imported", name)
        report("returned", "")
    except refusals as error:
        report("refused", repr(error)[:300])
    except BaseException as error:
        report("broke", f"{type(error).__name__}: {error}"[:600])
    finally:
        os._exit(0)
