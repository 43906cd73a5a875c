"""Push and pull under faults lose nothing, and the next sync makes the devices equal."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chance import new_seed
from tests.crash.forkserver import Fault
from tests.crash.sweep import ALL_FAULTS, SweepResult, steps, sweep
from tests.crash.test_mirror_crash import assert_sound

SCENARIOS = ["FIRST", "PUSH", "PULL", "BOTH"]
SEED = int(os.environ.get("FORESTAY_CRASH_SEED", "20"))
SAMPLE = 10
KILLS = [fault for fault in ALL_FAULTS if fault.kills]
FAILURES = [fault for fault in ALL_FAULTS if not fault.kills]


def test_devices_are_equal_after_sampled_faults(shim: Path) -> None:
    assert_sound(sweep(shim, "tests.crash.sync_folder:BOTH", limit=SAMPLE, seed=SEED))


@pytest.mark.usefixtures("postgres_environment")
def test_devices_on_postgres_are_equal_after_sampled_kills(shim: Path) -> None:
    scenario = "tests.crash.sync_servers:POSTGRES_PUSH"
    assert_sound(sweep(shim, scenario, faults=KILLS, limit=SAMPLE // 2, seed=SEED))


def assert_all_sound(result: SweepResult, report_figure: Callable[[str], None]) -> None:
    """Require a kill at every step, and at least as many steps as such work has."""
    report_figure(str(result))
    assert_sound(result)
    assert len(result.points) == result.planned
    faults = [point.fault for point in result.points]
    assert faults.count(Fault.KILL_AFTER) > 40 and faults.count(Fault.TORN_WRITE) > 20


@pytest.mark.soak
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_devices_are_equal_after_a_kill_at_every_step(
    shim: Path, scenario: str, report_figure: Callable[[str], None]
) -> None:
    assert_all_sound(steps(shim, f"tests.crash.sync_folder:{scenario}"), report_figure)


@pytest.mark.soak
@pytest.mark.usefixtures("bucket_environment")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_devices_with_a_bucket_are_equal_after_a_kill_at_every_step(
    shim: Path, scenario: str, report_figure: Callable[[str], None]
) -> None:
    result = steps(shim, f"tests.crash.sync_servers:BUCKET_{scenario}")
    assert_all_sound(result, report_figure)
    assert {point.run.call for point in result.points} >= {"put" if scenario != "PULL" else "get"}


@pytest.mark.soak
@pytest.mark.usefixtures("postgres_environment")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_devices_on_postgres_are_equal_after_a_kill_at_every_step(
    shim: Path, scenario: str, report_figure: Callable[[str], None]
) -> None:
    result = steps(shim, f"tests.crash.sync_servers:POSTGRES_{scenario}")
    assert_all_sound(result, report_figure)
    assert sum(point.run.call == "send" for point in result.points) > 100


@pytest.mark.soak
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_devices_are_equal_after_every_failure(
    shim: Path, scenario: str, soak_seconds: float
) -> None:
    seed, name = new_seed(), f"tests.crash.sync_folder:{scenario}"
    assert_sound(sweep(shim, name, faults=FAILURES, seconds=soak_seconds, seed=seed))
