"""Format files and the journal agree after a fault and the next command."""

import os
from pathlib import Path

import pytest

from tests.chance import new_seed
from tests.crash.sweep import SweepResult, sweep

SCENARIOS = ["BOUND", "ENDED", "CREATED", "BACKED", "STARTED"]
SEED = int(os.environ.get("FORESTAY_CRASH_SEED", "20"))
SAMPLE = 12


def assert_sound(result: SweepResult) -> None:
    print(result)
    assert not result.unfired, str(result)
    assert not result.violations, str(result)


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.req("S0-58", "S3-86")
def test_files_and_journal_agree_after_sampled_faults(shim: Path, scenario: str) -> None:
    assert_sound(sweep(shim, f"tests.crash.mirror:{scenario}", limit=SAMPLE, seed=SEED))


@pytest.mark.soak
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_files_and_journal_agree_after_every_fault(
    shim: Path, scenario: str, soak_seconds: float
) -> None:
    seed = new_seed()
    assert_sound(sweep(shim, f"tests.crash.mirror:{scenario}", seconds=soak_seconds, seed=seed))
