"""Random edits of others between our commands lose nothing and duplicate nothing.

After each step of a walk (see `driver`) all of this must hold: an edit of a file is in the journal
once, and stays in that file as it was written; every file has each task, decision, error, agent and
command once, with the status word of its format; what was not edited is unchanged; unknown keys
stay until their owner removes them; a damaged file is left alone; reading writes nothing, and
writing twice changes nothing; files pass `check`; the journal can be verified.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chance import new_seed
from tests.mirror.driver import walk


@pytest.mark.parametrize("seed", range(10))
def test_random_edits_lose_and_duplicate_nothing(tmp_path: Path, seed: int) -> None:
    walk(tmp_path, seed, 30)


@pytest.mark.soak
def test_many_random_edits_lose_and_duplicate_nothing(
    tmp_path: Path, soak_seconds: float, report_figure: Callable[[str], None]
) -> None:
    first = seed = new_seed()
    ends = time.monotonic() + soak_seconds
    while time.monotonic() < ends:
        walk(tmp_path / str(seed), seed, 40)
        shutil.rmtree(tmp_path / str(seed))
        seed += 1
    report_figure(f"{seed - first} walks over the files of a session, from seed {first}")
