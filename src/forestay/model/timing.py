"""Time in phases: how far a plan is, how long its phases take, and an estimate of the rest.

Durations are of active time, whatever their unit; pauses are counted separately. What cannot be
known is None: without a total there is no percentage, without a finished phase that was timed no
average, and so on. Nothing heavy is imported here, because `status` shows these figures too.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

STALLED = 2
"""A phase that takes longer than this many times the average may be stalled."""

_MINUTE, _HOUR = 60, 3600
_PAUSED = ("paused", "failed", "aborted", "abandoned")
"""Statuses without work; a praxis file has one word for all of them."""


class Timing:
    """Progress and estimates of a plan. Durations have the unit that they were given in."""

    __slots__ = ("average", "estimate", "inside", "percent", "remaining", "stalled")

    def __init__(
        self, spent: Sequence[float], *, done: int, total: int | None, inside: float | None
    ) -> None:
        """`spent` are the durations of finished phases, `inside` the time in the current one."""
        left = None if total is None else max(0, total - done)
        average = sum(spent) / len(spent) if spent else None
        self.percent = min(100, round(100 * done / total)) if total else None
        self.remaining = left
        self.average = average
        self.estimate = None if average is None or left is None else average * left
        self.inside = inside
        self.stalled = average is not None and inside is not None and inside > STALLED * average


def active(started: float | None, ended: float | None, paused: float) -> float | None:
    """Return the time worked between two moments; None if one of them is not known."""
    return None if started is None or ended is None else max(0, ended - started - paused)


def standing(*, completed: bool, paused: bool, failed: bool, stalled: bool) -> str:
    """Return the status word of a workflow: of the first argument that is true, else active."""
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
    """Return a duration as `30m`, from an hour on as `1.2h`."""
    return f"{_tenth(seconds, _HOUR)}h" if _is_hours(seconds) else f"{_minutes(seconds)}m"


def brief(seconds: float) -> str:
    """Return a duration as `30 min`, from an hour on as `1.2 hr`."""
    return f"{_tenth(seconds, _HOUR)} hr" if _is_hours(seconds) else f"{_minutes(seconds)} min"


def long(seconds: float) -> str:
    """Return a duration as `49 minutes`, from an hour on as `1.2 hours`."""
    if _is_hours(seconds):
        hours = _tenth(seconds, _HOUR)
        return f"{hours} hour" if hours == "1" else f"{hours} hours"
    minutes = _minutes(seconds)
    return f"{minutes} minute" if minutes == 1 else f"{minutes} minutes"


def ago(seconds: float) -> str:
    """Return a past moment as `5 minutes ago`, `3.5 hours ago` or, from two days, `3 days ago`."""
    if seconds >= 48 * _HOUR:
        return f"{int(seconds // (24 * _HOUR))} days ago"
    return "just now" if seconds < _MINUTE else f"{long(seconds)} ago"


def _is_hours(seconds: float) -> bool:
    # Sixty minutes after rounding are an hour.
    return _minutes(seconds) >= 60


def _minutes(seconds: float) -> int:
    return round(max(0.0, seconds) / _MINUTE)


# -- a plan at a moment ------------------------------------------------------------------------


class Progress:
    """The progress of a plan at a moment, computed from the summary of its session.

    Durations are in seconds. `since` is how long ago the current phase was begun, None when it
    is not running; it includes pauses, `timing.inside` does not.
    """

    def __init__(self, plan: dict[str, Any], now: int, *, status: str) -> None:
        self.plan, self.status = plan, status
        self.done = numbers(plan["done"])
        self.verdicts = _verdicts(plan)
        self.took = [ms / 1000 for ms in plan["took"]]
        self.failed = self.verdicts[plan["current"]] == "failed"
        is_open = plan["started"] and plan["step"] not in ("pending", "done", "skipped")
        self.since = max(0.0, (now - plan["started"]) / 1000) if is_open else None
        until = plan["since"] or now
        inside = active(plan["started"], until, plan["away"]) if is_open else None
        timed, spent = plan["spent"]
        self.timing = Timing(
            [spent / timed / 1000] if timed else [],
            done=len(self.done),
            total=plan["total"],
            inside=None if inside is None else inside / 1000,
        )

    @property
    def standing(self) -> str:
        return standing(
            completed=self.status == "completed",
            paused=self.status in _PAUSED,
            failed=self.failed,
            stalled=self.timing.stalled,
        )

    def sentences(self, started: str) -> list[str]:
        """Return sentences about the phases for the briefing; `started` is when the current one
        began."""
        plan, timing, unit = self.plan, self.timing, self.plan["unit"]
        name = f"{unit.capitalize()} {plan['current']}"
        share = "" if timing.percent is None else f" ({timing.percent}% complete)"
        of = "" if plan["total"] is None else f" of {plan['total']}"
        lines = [f"You are on {name}{of}{share}"]
        if self.since is not None:
            lines.append(f"This {unit} started {ago(self.since)}")
            lines.append(f"Last working on {name} (started {started})")
        if timing.average is not None:
            left = timing.estimate
            rest = "" if left is None else f", estimated remaining: ~{long(left)}"
            lines.append(f"Average {unit} time: {long(timing.average)}{rest}")
            lines.append(f"Previous {unit}s took: {', '.join(map(short, self.took))}")
        return [*lines, self.pauses]

    @property
    def pauses(self) -> str:
        """Return one sentence about pauses and interruptions."""
        plan = self.plan
        if not plan["pauses"] and not plan["interruptions"]:
            return "No pauses or interruptions"
        spent = f" ({long(plan['paused'] / 1000)} in all)" if plan["paused"] else ""
        parts = [f"{_times(plan['pauses'], 'pause')}{spent}"] if plan["pauses"] else []
        parts += [_times(plan["interruptions"], "interruption")] if plan["interruptions"] else []
        return " and ".join(parts) + ("; paused now" if self.status == "paused" else "")


def _times(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _verdicts(plan: dict[str, Any]) -> dict[int, str]:
    """Return the verdict of each judged phase and the current one; rolled back is pending."""
    words = {"rolled_back": "pending"}
    found = {n: words.get(w, w) for w, runs in plan["verdicts"].items() for n in numbers(runs)}
    found.setdefault(plan["current"], "pending")
    return {number: found[number] for number in sorted(found)}


def numbers(runs: str) -> list[int]:
    """Return the numbers in a text of runs: `0-2,5` gives 0, 1, 2 and 5."""
    found: list[int] = []
    for run in filter(None, runs.split(",")):
        first, _, last = run.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found
