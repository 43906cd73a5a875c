"""Acknowledged events exist once after kills, full disks and errors at any call."""

import os
from pathlib import Path

import pytest

from tests.chance import new_seed
from tests.crash.forkserver import Fault
from tests.crash.sweep import ALL_FAULTS, SweepResult, sweep

SCENARIOS = ["FIRST", "APPEND", "TWO_SESSIONS", "LEFT_OPEN", "RETRIED", "CHECKPOINT"]
SEED = int(os.environ.get("FORESTAY_CRASH_SEED", "20"))
SAMPLE = 20
APPEND_SAMPLE = 40


def assert_sound(result: SweepResult) -> None:
    print(result)
    assert not result.unfired, str(result)
    assert not result.violations, str(result)


KILLS = [fault for fault in ALL_FAULTS if fault.kills]
FAILURES = [fault for fault in ALL_FAULTS if not fault.kills]


def assert_append_is_sound(result: SweepResult, faults: list[Fault]) -> None:
    assert_sound(result)
    assert {point.fault for point in result.points} == {Fault.NOTHING, *faults}
    refused = {point.fault for point in result.points if point.run.end == "refused"}
    assert refused == set(faults) - {*KILLS, Fault.SHORT_WRITE}


@pytest.mark.parametrize("faults", [KILLS, FAILURES], ids=["kills", "failures"])
@pytest.mark.req("S0-58")
def test_an_append_is_sound_at_sampled_points(shim: Path, faults: list[Fault]) -> None:
    result = sweep(shim, "tests.crash.store:APPEND", faults=faults, limit=APPEND_SAMPLE, seed=SEED)
    assert_append_is_sound(result, faults)


@pytest.mark.soak
@pytest.mark.parametrize("faults", [KILLS, FAILURES], ids=["kills", "failures"])
def test_an_append_is_sound_at_every_point(shim: Path, faults: list[Fault]) -> None:
    result = sweep(shim, "tests.crash.store:APPEND", faults=faults)
    assert_append_is_sound(result, faults)
    assert len(result.points) == result.planned


@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name != "APPEND"])
def test_other_work_is_sound_at_sampled_points(shim: Path, scenario: str) -> None:
    assert_sound(sweep(shim, f"tests.crash.store:{scenario}", limit=SAMPLE, seed=SEED))


def test_the_checkpoint_scenario_includes_a_checkpoint(shim: Path) -> None:
    scenario = "tests.crash.store:CHECKPOINT"
    points = sweep(shim, scenario, faults=[Fault.TORN_WRITE], limit=30, seed=SEED).points
    assert any(point.run.path.endswith("/forestay.db") for point in points)


@pytest.mark.soak
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_all_work_is_sound_at_every_point(shim: Path, scenario: str, soak_seconds: float) -> None:
    seed = new_seed()
    assert_sound(sweep(shim, f"tests.crash.store:{scenario}", seconds=soak_seconds, seed=seed))
