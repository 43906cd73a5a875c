"""Whatever others do to the files of a session between our verbs, nothing is lost or doubled.

A walk (see `driver`) goes on as long as all of this is true after each turn: what somebody put into
a file arrives in the journal, once, and stays in that file in the words that it has there; every
file has each task, decision, error, agent and command once, with the word that its status has in
the layout; nothing that nobody touched has changed; keys that nobody knows stay until their owner
takes them out; a damaged file is left alone; who only looks writes nothing, and neither does who
writes again; files pass `check`; the journal is sound.
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
def test_nothing_is_lost_or_doubled_on_a_walk(tmp_path: Path, seed: int) -> None:
    walk(tmp_path, seed, 30)


@pytest.mark.soak
def test_nothing_is_lost_or_doubled_on_many_walks(
    tmp_path: Path, soak_seconds: float, tell: Callable[[str], None]
) -> None:
    first = seed = new_seed()
    ends = time.monotonic() + soak_seconds
    while time.monotonic() < ends:
        walk(tmp_path / str(seed), seed, 40)
        shutil.rmtree(tmp_path / str(seed))
        seed += 1
    tell(f"{seed - first} walks over the files of a session, from seed {first}")
