"""Inject every fault at every call: plan a scenario's points, run them, report what went wrong.

To add a scenario: write `prepare`, `run` and `check` over a home (see `scenario.py`), bind them to
a module-level `Scenario`, and sweep it by its name, `"tests.crash.my_module:NAME"`.
"""

import math
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from tests.crash.forkserver import KINDS_WITH_FAULT, Fault, ForkServer, Kind, Point
from tests.memory import memory_folder

ALL_FAULTS = tuple(KINDS_WITH_FAULT)

# A folder in memory suffices, because the shim records what was synced. (Read at import, because
# tests clean their environment.)
GROUND = os.environ.get("FORESTAY_CRASH_DIR", memory_folder())


@dataclass(frozen=True)
class SweepResult:
    """Hold the result of a sweep."""

    scenario: str
    points: list[Point]
    calls: int
    planned: int
    seconds: float
    seed: int

    @property
    def violations(self) -> list[Point]:
        return [point for point in self.points if point.problems]

    @property
    def unfired(self) -> list[Point]:
        return [point for point in self.points if not point.fired]

    def __str__(self) -> str:
        pace = 1000 * self.seconds / max(1, len(self.points))
        head = (
            f"{self.scenario}: {len(self.points)} of {self.planned} points over {self.calls} calls,"
            f" {len(self.violations)} violations, {len(self.unfired)} not fired,"
            f" {self.seconds:.1f} s, {pace:.1f} ms a point, seed {self.seed}"
        )
        wrong = [point for point in self.points if point.problems or not point.fired]
        return "\n  ".join([head, *map(str, wrong[:20])])


def sweep(
    shim: Path,
    scenario: str,
    *,
    faults: Sequence[Fault] = ALL_FAULTS,
    limit: int | None = None,
    seconds: float = math.inf,
    seed: int = 0,
) -> SweepResult:
    """Run every point of the scenario, or as many as the limits allow, chosen by `seed`.

    With a `limit`, points are chosen at equal distances, so that each fault meets calls from all
    parts of the work.
    """
    began = time.monotonic()
    with _temporary_folder() as ground, _servers(shim, ground) as servers:
        for server in servers:
            server.prepare(scenario)
        quiet = _run_without_faults(servers, scenario)
        plan = _plan(quiet.run.kinds, faults)
        chosen = _choose_points(plan, limit, random.Random(seed))
        points = _run_all(servers, scenario, chosen, began + seconds)
    seconds_taken = time.monotonic() - began
    return SweepResult(
        scenario, [quiet, *points], quiet.run.calls, len(plan) + 1, seconds_taken, seed
    )


def steps(shim: Path, scenario: str, *, limit: int | None = None, seed: int = 0) -> SweepResult:
    """Kill at every **step**: once for each state of the disk that the work passes through.

    A watched run records what the disk holds before and after each call. A call that left the
    disk unchanged needs no separate kill, because the next process finds the same bytes; every
    other state is reached again and the work is killed there. A torn write is also a step, and so
    is every request to a server, because whether it changed anything cannot be observed.
    """
    began = time.monotonic()
    with _temporary_folder() as ground, _servers(shim, ground) as servers:
        for server in servers:
            server.prepare(scenario)
        quiet = _run_without_faults(servers, scenario)
        plan = _plan_steps(servers[0].states(scenario), quiet.run.kinds)
        plan += _plan(quiet.run.kinds, [Fault.TORN_WRITE])
        chosen = _choose_points(plan, limit, random.Random(seed))
        points = _run_all(servers, scenario, chosen, math.inf)
    seconds_taken = time.monotonic() - began
    return SweepResult(
        scenario, [quiet, *points], quiet.run.calls, len(plan) + 1, seconds_taken, seed
    )


def _plan_steps(states: Sequence[str], kinds: Sequence[int]) -> list[tuple[Fault, int]]:
    """Return a kill for the first occurrence of each state (two per call: before and after it)."""
    first: dict[tuple[int, str], tuple[Fault, int]] = {}
    far = 0
    for number, state in enumerate(states):
        when = Fault.KILL_AFTER if number % 2 else Fault.KILL_BEFORE
        if when is Fault.KILL_AFTER and kinds[number // 2] & Kind.FAR:
            far += 1
        first.setdefault((far, state), (when, number // 2 + 1))
    return list(first.values())


def _run_without_faults(servers: Sequence[ForkServer], scenario: str) -> Point:
    """Run without faults twice on each server; require the same calls every time.

    It counts as a point, because the power may fail when all work is done.
    """
    quiet = [server.point(scenario, Fault.NOTHING, 0) for server in servers for _ in range(2)]
    for point in quiet:
        if point.run.end != "returned" or point.left:
            raise AssertionError(f"{scenario} fails without any fault: {point.run.end} {point}")
        if point.run.kinds != quiet[0].run.kinds:
            raise AssertionError(f"{scenario} does not make the same calls twice")
    if not 0 < quiet[0].run.calls == len(quiet[0].run.kinds):
        raise AssertionError(f"{scenario} makes {quiet[0].run.calls} calls: too few or too many")
    return quiet[0]


def _plan(kinds: Sequence[int], faults: Sequence[Fault]) -> list[tuple[Fault, int]]:
    return [
        (fault, at)
        for fault in faults
        for at, kind in enumerate(kinds, start=1)
        if kind & KINDS_WITH_FAULT[fault]
    ]


def _choose_points(
    plan: list[tuple[Fault, int]], limit: int | None, chance: random.Random
) -> list[tuple[Fault, int]]:
    if limit is None or limit >= len(plan):
        return chance.sample(plan, len(plan))
    first, step = chance.random(), len(plan) / limit
    return [plan[int((first + number) * step)] for number in range(limit)]


def _run_all(
    servers: Sequence[ForkServer], scenario: str, plan: list[tuple[Fault, int]], deadline: float
) -> list[Point]:
    idle: SimpleQueue[ForkServer] = SimpleQueue()
    for server in servers:
        idle.put(server)

    def run(step: tuple[Fault, int]) -> Point | None:
        server = idle.get()
        try:
            return server.point(scenario, *step) if time.monotonic() < deadline else None
        finally:
            idle.put(server)

    with ThreadPoolExecutor(len(servers)) as pool:
        points = [point for point in pool.map(run, plan) if point is not None]
    return sorted(points, key=lambda point: (point.fault, point.at))


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    ground = Path(tempfile.mkdtemp(prefix="forestay-crash.", dir=GROUND)).resolve()
    try:
        yield ground
    finally:
        shutil.rmtree(ground)


@contextmanager
def _servers(shim: Path, ground: Path) -> Iterator[list[ForkServer]]:
    """Start one server per core, or only one if the tests already run in parallel."""
    count = 1 if "PYTEST_XDIST_WORKER" in os.environ else os.cpu_count() or 1
    servers = [ForkServer(shim, ground / f"{number:03}") for number in range(count)]
    try:
        yield servers
    finally:
        for server in servers:
            server.close()
