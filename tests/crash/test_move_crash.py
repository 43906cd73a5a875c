"""A move killed at any step loses nothing, and the same command completes it."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("psycopg")

from forestay.api.forestay import Forestay
from forestay.base.clock import Clock
from forestay.errors import Refused
from forestay.store.open import open_store
from forestay.store.port import Store
from forestay.store.postgres.protocol import Wired
from forestay.store.sqlite.connection import Database
from tests.journal.test_move import assert_all_is_there, filled, held, history, reopened

SEED = int(os.environ.get("FORESTAY_CRASH_SEED", "20"))
SAMPLE = 4
STEPS = ((Wired, "execute"), (Wired, "ask"), (Database, "write"))
"""The functions that change something, on the server or on this machine."""
_NO_KILL = 1 << 30


def kill_at_step(act: Callable[..., object], remaining: list[int]) -> Callable[..., object]:
    def step(*given: object, **named: object) -> object:
        remaining[0] -= 1
        if remaining[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return act(*given, **named)

    return step


def run_killed_at(point: int, act: Callable[[], object]) -> int:
    """Run `act` in a process that is killed before step `point`; return its steps if it ended."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        remaining = [point]
        for owner, name in STEPS:
            setattr(owner, name, kill_at_step(getattr(owner, name), remaining))
        act()
        os.write(writer, str(point - remaining[0]).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        step_count = int(pipe.read() or -1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return step_count


@contextmanager
def opened(home: Forestay, url: str) -> Iterator[Store]:
    """Open a store even if it is sealed."""
    store = open_store(url, home.context.settings.home, clock=Clock(), machine="m", sealed=True)
    yield store
    store.close()


def assert_survives(folder: Path, target: str, point: int) -> None:
    home = filled(folder)
    before = history(home)
    home.close()
    assert run_killed_at(point, lambda: home.backups.move(target)) < 0
    with opened(home, "") as source, opened(home, target) as copy:
        assert held(source) == before
        seal = source.maintenance.sealed()
        is_done = seal is not None and seal[1] == "moved"
        # A process redirected to the copy finds everything.
        assert held(copy) == before or not is_done
    try:
        assert home.backups.move(target).state == "moved"
    except Refused:
        assert is_done
    with reopened(home, target) as moved:
        assert_all_is_there(moved, before)


@pytest.fixture
def steps(tmp_path: Path, pg_store: str) -> int:
    home = filled(tmp_path / "whole")
    home.close()
    step_count = run_killed_at(_NO_KILL, lambda: home.backups.move(pg_store))
    assert step_count > 30
    return step_count


def test_a_move_survives_being_killed_at_sampled_steps(
    steps: int, tmp_path: Path, pg_store: str
) -> None:
    sample = random.Random(SEED).sample(range(steps - 3), SAMPLE)
    for point in [*sample, steps - 2, steps - 1]:
        assert_survives(tmp_path / f"{point}", f"{pg_store}_{point}", point)


@pytest.mark.soak
def test_a_move_survives_being_killed_at_every_step(
    steps: int, tmp_path: Path, pg_store: str
) -> None:
    for point in range(steps):
        assert_survives(tmp_path / f"{point}", f"{pg_store}_{point}", point)
