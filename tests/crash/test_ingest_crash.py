"""Whoever dies while taking payloads of hooks up loses nothing, and nothing is doubled."""

from pathlib import Path
from typing import Any

import pytest

from tests.chance import new_seed
from tests.crash.sweep import Swept, sweep
from tests.crash.test_mirror_crash import SAMPLE, SEED

SCENARIO = "tests.crash.ingest:TAKEN_UP"


def swept(shim: Path, **limits: Any) -> Swept:
    """A sweep wants the same calls every time; now and then the database needs one page more."""
    for _ in range(9):
        try:
            return sweep(shim, SCENARIO, **limits)
        except AssertionError as error:
            if "the same calls" not in str(error):
                raise
    pytest.fail("it never makes the same calls twice")


def assert_sound(result: Swept) -> None:
    """The same holds for single runs: where a call is missing, a fault at the last ones is, too."""
    print(result)
    assert len(result.unfired) * 10 <= len(result.points), str(result)
    assert not result.violations, str(result)


def test_payloads_are_events_once_after_sampled_faults(shim: Path) -> None:
    assert_sound(swept(shim, limit=SAMPLE, seed=SEED))


@pytest.mark.soak
def test_payloads_are_events_once_after_every_fault(shim: Path, soak_seconds: float) -> None:
    seed = new_seed()
    assert_sound(swept(shim, seconds=soak_seconds, seed=seed))
