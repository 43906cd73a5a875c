"""Numbers of phases: the id of a step that is a phase, and which number is the last.

A phase has the number that its workflow gives it, counted from 0 or 1; the step that it is has an
id of its unit and that number: `phase-3`.
"""

from __future__ import annotations

UNITS = ("phase", "stage")
"""What the steps of a plan are called."""

_MOST_DIGITS = 6


def number_of(step_id: str) -> int | None:
    """The phase that a step's id names."""
    unit, _, digits = step_id.partition("-")
    if unit not in UNITS or not 0 < len(digits) <= _MOST_DIGITS or not digits.isascii():
        return None
    return int(digits) if digits.isdecimal() and str(int(digits)) == digits else None


def last_number(base: int, total: int | None) -> int | None:
    """The number of the last phase, or None while the total is not known."""
    return None if total is None else base + total - 1
