"""A process killed while it ingests hook payloads loses and doubles nothing."""

from pathlib import Path
from typing import Any

import pytest

from tests.chance import new_seed
from tests.crash.sweep import SweepResult, sweep
from tests.crash.test_mirror_crash import SAMPLE, SEED

SCENARIO = "tests.crash.ingest:INGESTED"


def run_sweep(shim: Path, **limits: Any) -> SweepResult:
    """Sweep again if the calls differ: now and then the database needs one page more."""
    for _ in range(9):
        try:
            return sweep(shim, SCENARIO, **limits)
        except AssertionError as error:
            if "the same calls" not in str(error):
                raise
    pytest.fail("the scenario never makes the same calls twice")


def assert_sound(result: SweepResult) -> None:
    """Require no violations; a run with fewer calls may miss a few faults at the end."""
    print(result)
    assert len(result.unfired) * 10 <= len(result.points), str(result)
    assert not result.violations, str(result)


def test_payloads_are_events_once_after_sampled_faults(shim: Path) -> None:
    assert_sound(run_sweep(shim, limit=SAMPLE, seed=SEED))


@pytest.mark.soak
def test_payloads_are_events_once_after_every_fault(shim: Path, soak_seconds: float) -> None:
    seed = new_seed()
    assert_sound(run_sweep(shim, seconds=soak_seconds, seed=seed))
