"""When a phase of a workflow ends, and when the whole is complete.

Completion is a flag that is set once. Without the flag, a session is complete when every phase it
began with is among the completed ones (more than those is an overrun, complete all the same), and
a session whose number of phases nobody knows is not complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

LARGEST_PHASE = 999_999
LEGACY_WARNING = "Legacy session format, limited resumption context"


def is_count(value: object) -> TypeGuard[int]:
    """Whether a value can be the number of phases of a workflow."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def is_phase(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_PHASE


def seconds(value: object) -> float:
    """A duration as a file tells it; 0 where it is none that anybody could wait for."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if 0 <= value < 1e12 else 0.0


def known_total(
    structure: Mapping[str, Any], metadata: Mapping[str, Any], given: object = None
) -> int | None:
    """The number of phases: as captured at creation, else as noted later, else as handed in."""
    candidates = (structure.get("total_phases"), metadata.get("total_phases"), given)
    return next((value for value in candidates if is_count(value)), None)


def first_phase(structure: Mapping[str, Any]) -> int:
    """0, or 1 for every workflow that begins later; absent is 0."""
    start = structure.get("starting_phase", 0)
    return 1 if is_phase(start) and start != 0 else 0


def last_phase(total: int, first: int) -> int:
    return total - 1 + first


def is_finished(flag: object, completed: Iterable[int], total: int | None, first: int) -> bool:
    """Whether a session is complete: by its flag, else because it completed all its phases."""
    if flag:
        return True
    return total is not None and len(within(completed, total, first)) == total


def within(completed: Iterable[int], total: int, first: int) -> set[int]:
    """The completed phases that the workflow has; others are an overrun."""
    return {phase for phase in completed if first <= phase <= last_phase(total, first)}
