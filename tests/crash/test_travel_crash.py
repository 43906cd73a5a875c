"""Push and pull under faults: nothing is lost, nobody is lied to, the next sync makes all equal."""

import os
from pathlib import Path

import pytest

from tests.crash.sweep import sweep
from tests.crash.test_mirror_crash import assert_sound

SCENARIOS = ["FIRST", "PUSH", "PULL", "BOTH"]
SEED = int(os.environ.get("HOLDFAST_CRASH_SEED", "20"))
SAMPLE = 10


def test_devices_are_equal_after_sampled_faults(shim: Path) -> None:
    assert_sound(sweep(shim, "tests.crash.travel:BOTH", limit=SAMPLE, seed=SEED))


@pytest.mark.soak
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_devices_are_equal_after_every_fault(
    shim: Path, scenario: str, soak_seconds: float
) -> None:
    seed = int.from_bytes(os.urandom(4))
    assert_sound(sweep(shim, f"tests.crash.travel:{scenario}", seconds=soak_seconds, seed=seed))
