"""Whatever session goes into another format, and whatever is changed there, comes back as it is."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.chance import new_seed
from tests.formats.pair_walk import walk


@pytest.mark.parametrize("first", range(0, 60, 12))
def test_random_edits_are_the_only_changes_after_conversion_and_back(first: int) -> None:
    for seed in range(first, first + 12):
        walk(seed)


@pytest.mark.soak
def test_very_many_random_sessions_survive_conversion_and_back(
    soak_seconds: float, report_figure: Callable[[str], None]
) -> None:
    first = seed = new_seed()
    ends = time.monotonic() + soak_seconds
    while time.monotonic() < ends:
        walk(seed)
        seed += 1
    report_figure(f"{seed - first} sessions through other formats and back, from seed {first}")
