"""Time in phases: how far a plan is, how long its phases take, and what that lets one expect.

Durations are of active time, whatever their unit: what was spent paused is apart. What cannot be
known is None: without a total there is no percentage, without a finished phase that was timed no
average, and so on. Nothing heavy is imported here: `status` answers with these figures too.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

STALLED = 2
"""A phase that takes longer than so many times the average may be stalled."""

_MINUTE, _HOUR = 60, 3600


class Timing:
    """Where a plan stands in time. Durations have the unit that they were given in."""

    __slots__ = ("average", "estimate", "inside", "percent", "remaining", "stalled")

    def __init__(
        self, spent: Sequence[float], *, done: int, total: int | None, inside: float | None
    ) -> None:
        """From what finished phases took, how many there are, and the time in the current one."""
        left = None if total is None else max(0, total - done)
        average = sum(spent) / len(spent) if spent else None
        self.percent = min(100, round(100 * done / total)) if total else None
        self.remaining = left
        self.average = average
        self.estimate = None if average is None or left is None else average * left
        self.inside = inside
        self.stalled = average is not None and inside is not None and inside > STALLED * average


def active(started: float | None, ended: float | None, paused: float) -> float | None:
    """The time worked between two moments; None when one of them is not known."""
    return None if started is None or ended is None else max(0, ended - started - paused)


def standing(*, completed: bool, paused: bool, failed: bool, stalled: bool) -> str:
    """The one word for where a workflow stands: the first of these that holds."""
    words = (
        ("completed", completed),
        ("paused", paused),
        ("checkpoint_failed", failed),
        ("possibly_stalled", stalled),
    )
    return next((word for word, holds in words if holds), "active")


# -- in words, from seconds --------------------------------------------------------------------


def _tenth(seconds: float, unit: int) -> str:
    text = f"{seconds / unit:.1f}"
    return text.removesuffix(".0")


def short(seconds: float) -> str:
    """`30m`, from an hour `1.2h`."""
    return f"{_tenth(seconds, _HOUR)}h" if _is_hours(seconds) else f"{_minutes(seconds)}m"


def brief(seconds: float) -> str:
    """`30 min`, from an hour `1.2 hr`."""
    return f"{_tenth(seconds, _HOUR)} hr" if _is_hours(seconds) else f"{_minutes(seconds)} min"


def long(seconds: float) -> str:
    """`49 minutes`, from an hour `1.2 hours`."""
    if _is_hours(seconds):
        hours = _tenth(seconds, _HOUR)
        return f"{hours} hour" if hours == "1" else f"{hours} hours"
    minutes = _minutes(seconds)
    return f"{minutes} minute" if minutes == 1 else f"{minutes} minutes"


def ago(seconds: float) -> str:
    """`5 minutes ago`, from an hour `3.5 hours ago`, from two days `3 days ago`."""
    if seconds >= 48 * _HOUR:
        return f"{int(seconds // (24 * _HOUR))} days ago"
    return "just now" if seconds < _MINUTE else f"{long(seconds)} ago"


def _is_hours(seconds: float) -> bool:
    # What would be rounded up to sixty minutes is an hour.
    return _minutes(seconds) >= 60


def _minutes(seconds: float) -> int:
    return round(max(0.0, seconds) / _MINUTE)


def sentences(
    timing: Timing,
    *,
    unit: str,
    current: int,
    total: int | None,
    since: float | None,
    started: str,
    took: Sequence[float],
    pauses: str,
) -> list[str]:
    """What whoever picks the work up is told of its phases; durations are in seconds."""
    name = f"{unit.capitalize()} {current}"
    share = "" if timing.percent is None else f" ({timing.percent}% complete)"
    said = [f"You are on {name}" + ("" if total is None else f" of {total}") + share]
    if since is not None:
        said.append(f"This {unit} started {ago(since)}")
        said.append(f"Last working on {name} (started {started})")
    if timing.average is not None:
        left = timing.estimate
        rest = "" if left is None else f", estimated remaining: ~{long(left)}"
        said.append(f"Average {unit} time: {long(timing.average)}{rest}")
        said.append(f"Previous {unit}s took: {', '.join(short(each) for each in took)}")
    return [*said, pauses]
