"""Files of other programs under faults: the same command once more, and all is as it should be."""

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
def test_what_was_interrupted_is_done_when_it_is_asked_for_again(shim: Path, scenario: str) -> None:
    assert_sound(sweep(shim, f"tests.crash.taken:{scenario}", limit=SAMPLE, seed=SEED))


@pytest.mark.soak
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_what_was_interrupted_anywhere_is_done_when_it_is_asked_for_again(
    shim: Path, scenario: str, soak_seconds: float
) -> None:
    seed = new_seed()
    assert_sound(sweep(shim, f"tests.crash.taken:{scenario}", seconds=soak_seconds, seed=seed))
