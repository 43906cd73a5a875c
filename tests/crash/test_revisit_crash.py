"""A revisit killed at any point is complete with all its files, or has not happened."""

from pathlib import Path

import pytest

from tests.chance import new_seed
from tests.crash.forkserver import Fault
from tests.crash.sweep import sweep
from tests.crash.test_mirror_crash import SAMPLE, SEED, assert_sound

SCENARIOS = ["APPLIED", "UNDONE"]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_revisit_is_complete_or_absent_after_sampled_faults(shim: Path, scenario: str) -> None:
    assert_sound(sweep(shim, f"tests.crash.revisit:{scenario}", limit=SAMPLE, seed=SEED))


@pytest.mark.soak
def test_own_files_are_recognized_after_a_failed_disk_and_a_power_cut(shim: Path) -> None:
    sticky = [Fault.EIO_STICKY, Fault.ENOSPC_STICKY]
    assert_sound(sweep(shim, "tests.crash.revisit:UNDONE", faults=sticky))


@pytest.mark.soak
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_revisit_is_complete_or_absent_after_every_fault(
    shim: Path, scenario: str, soak_seconds: float
) -> None:
    seed = new_seed()
    assert_sound(sweep(shim, f"tests.crash.revisit:{scenario}", seconds=soak_seconds, seed=seed))


@pytest.mark.soak
def test_an_essay_has_both_event_and_log_line_or_neither_after_every_fault(
    shim: Path, soak_seconds: float
) -> None:
    seed = new_seed()
    assert_sound(sweep(shim, "tests.crash.essay_log:DEFERRED", seconds=soak_seconds, seed=seed))
