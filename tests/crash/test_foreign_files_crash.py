"""Adopt, recover and cleanup complete when the same command is given again after a fault."""

import os
from pathlib import Path

import pytest

from tests.chance import new_seed
from tests.crash.sweep import sweep
from tests.crash.test_mirror_crash import assert_sound

SCENARIOS = ["ADOPTED", "RECOVERED", "CLEANED"]
SEED = int(os.environ.get("FORESTAY_CRASH_SEED", "20"))
SAMPLE = 12


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_an_interrupted_command_completes_when_repeated(shim: Path, scenario: str) -> None:
    assert_sound(sweep(shim, f"tests.crash.foreign_files:{scenario}", limit=SAMPLE, seed=SEED))


@pytest.mark.soak
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_command_interrupted_at_any_call_completes_when_repeated(
    shim: Path, scenario: str, soak_seconds: float
) -> None:
    seed = new_seed()
    assert_sound(
        sweep(shim, f"tests.crash.foreign_files:{scenario}", seconds=soak_seconds, seed=seed)
    )
