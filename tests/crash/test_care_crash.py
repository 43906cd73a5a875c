"""Commands on files of other programs, killed anywhere: given once more, all is in order."""

from pathlib import Path

import pytest

from tests.chance import new_seed
from tests.crash.sweep import sweep
from tests.crash.test_mirror_crash import SAMPLE, SEED, assert_sound

RECOVERED = ["AI_SESSION", "PRAXIS_FILE", "CRAFT_FILE", "ESSAY_FILE", "ORCHESTRATOR_FILE"]
CONVERTED = ["TO_AI_SESSION", "TO_ESSAY", "TO_ORCHESTRATOR"]
SCENARIOS = [*RECOVERED, *CONVERTED, "ACKNOWLEDGED", "NEW", "CONTINUED", "ABORTED", "LET_GO"]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_command_that_was_interrupted_leaves_nothing_half_done(shim: Path, scenario: str) -> None:
    assert_sound(sweep(shim, f"tests.crash.care:{scenario}", limit=SAMPLE, seed=SEED))


@pytest.mark.soak
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_command_that_was_interrupted_anywhere_leaves_nothing_half_done(
    shim: Path, scenario: str, soak_seconds: float
) -> None:
    seed = new_seed()
    assert_sound(sweep(shim, f"tests.crash.care:{scenario}", seconds=soak_seconds, seed=seed))
