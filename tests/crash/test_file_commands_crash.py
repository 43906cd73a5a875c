"""Commands on files of other programs complete when repeated after a kill at any call."""

from pathlib import Path

import pytest

from tests.chance import new_seed
from tests.crash.sweep import sweep
from tests.crash.test_mirror_crash import SAMPLE, SEED, assert_sound

RECOVERED = ["AI_SESSION", "PRAXIS_FILE", "CRAFT_FILE", "ESSAY_FILE", "ORCHESTRATOR_FILE"]
CONVERTED = ["TO_AI_SESSION", "TO_ESSAY", "TO_ORCHESTRATOR"]
SCENARIOS = [*RECOVERED, *CONVERTED, "ACKNOWLEDGED", "NEW", "CONTINUED", "ABORTED", "UNBOUND"]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_an_interrupted_command_leaves_nothing_half_done(shim: Path, scenario: str) -> None:
    assert_sound(sweep(shim, f"tests.crash.file_commands:{scenario}", limit=SAMPLE, seed=SEED))


@pytest.mark.soak
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_command_interrupted_at_any_call_leaves_nothing_half_done(
    shim: Path, scenario: str, soak_seconds: float
) -> None:
    seed = new_seed()
    assert_sound(
        sweep(shim, f"tests.crash.file_commands:{scenario}", seconds=soak_seconds, seed=seed)
    )
