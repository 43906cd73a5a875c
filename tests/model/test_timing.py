"""Time in words and figures, as document S1 writes it."""

from __future__ import annotations

import pytest

from forestay.model.summary import runs
from forestay.model.timing import Timing, active, ago, brief, long, numbers, short, standing

MINUTE, HOUR = 60, 3600


@pytest.mark.req("S1-103", "S1-107", "S1-133")
@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, ("0m", "0 min", "0 minutes")),
        (MINUTE, ("1m", "1 min", "1 minute")),
        (30 * MINUTE, ("30m", "30 min", "30 minutes")),
        (59.4 * MINUTE, ("59m", "59 min", "59 minutes")),
        (59.6 * MINUTE, ("1h", "1 hr", "1 hour")),
        (HOUR, ("1h", "1 hr", "1 hour")),
        (1.2 * HOUR, ("1.2h", "1.2 hr", "1.2 hours")),
        (30 * HOUR, ("30h", "30 hr", "30 hours")),
    ],
)
def test_durations_are_minutes_and_from_an_hour_hours(
    seconds: float, words: tuple[str, str, str]
) -> None:
    assert (short(seconds), brief(seconds), long(seconds)) == words


@pytest.mark.req("S1-114", "S1-115")
@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "just now"),
        (59, "just now"),
        (5 * MINUTE, "5 minutes ago"),
        (3.5 * HOUR, "3.5 hours ago"),
        (72 * HOUR, "3 days ago"),
    ],
)
def test_how_long_ago_is_shown_in_a_fitting_unit(seconds: float, words: str) -> None:
    assert ago(seconds) == words


def test_without_a_total_or_a_timed_phase_no_progress_or_time_is_estimated() -> None:
    timing = Timing([], done=2, total=None, inside=50)
    assert (timing.percent, timing.remaining, timing.average, timing.estimate) == (None,) * 4
    assert timing.stalled is False


def test_more_completed_phases_than_the_total_count_as_complete() -> None:
    timing = Timing([60, 120], done=8, total=6, inside=None)
    assert (timing.percent, timing.remaining, timing.average, timing.estimate) == (100, 0, 90, 0)


def test_a_phase_is_stalled_beyond_twice_the_average() -> None:
    assert not Timing([10], done=1, total=2, inside=20).stalled
    assert Timing([10], done=1, total=2, inside=20.1).stalled


def test_a_clock_that_went_back_makes_no_negative_time() -> None:
    assert active(100, 50, 0) == 0
    assert active(None, 50, 0) is active(50, None, 0) is None


def test_status_word_of_a_workflow_is_the_first_that_applies() -> None:
    names = ("completed", "paused", "failed", "stalled")
    words = ("completed", "paused", "checkpoint_failed", "possibly_stalled", "active")
    for first, word in enumerate(words):
        flags = {name: place >= first for place, name in enumerate(names)}
        assert standing(**flags) == word


@pytest.mark.parametrize("found", [[], [0], [0, 1, 2], [0, 2, 3, 9], list(range(300))])
def test_numbers_written_as_runs_are_read_back_equal(found: list[int]) -> None:
    assert numbers(runs(found)) == found
    assert len(runs(range(300))) < 10
