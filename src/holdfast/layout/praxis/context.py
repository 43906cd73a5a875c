"""The resumption context: what a workflow's state lets one compute for whoever picks it up.

Durations are of active time, in seconds. What cannot be known is None: without a total there is no
percentage, without a finished phase that was timed no average, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from holdfast.layout.praxis.phases import LEGACY_WARNING, first_phase, known_total, seconds, within
from holdfast.layout.praxis.state import CheckpointStatus, WorkflowState, moment_of
from holdfast.timing import Timing, active, standing


class ResumptionContext(Struct, frozen=True):
    status: str
    percent_complete: int | None = None
    phases_remaining: int | None = None
    avg_phase_duration: float | None = None
    estimated_remaining: float | None = None
    time_in_phase: float | None = None
    is_stalled: bool = False
    warnings: tuple[str, ...] = ()


def resumption_context(
    state: WorkflowState, now: datetime, total: int | None = None
) -> ResumptionContext:
    """What the state says at a moment; `total` is what the workflow's definition says, if at hand.

    More phases completed than there are is an overrun: 100 percent, none remaining.
    """
    known = known_total(state.workflow_structure, state.metadata, total)
    first = first_phase(state.workflow_structure)
    done = len(within(state.completed_phases, known, first)) if known else 0
    told = Timing(
        list(_durations(state)), done=done, total=known, inside=_time_in_phase(state, now)
    )
    return ResumptionContext(
        status=_status(state, told.stalled, known),
        percent_complete=told.percent,
        phases_remaining=told.remaining,
        avg_phase_duration=told.average,
        estimated_remaining=told.estimate,
        time_in_phase=told.inside,
        is_stalled=told.stalled,
        warnings=() if state.workflow_structure else (LEGACY_WARNING,),
    )


def _status(state: WorkflowState, stalled: bool, total: int | None) -> str:
    return standing(
        completed=state.is_complete(total),
        paused=bool(state.lifecycle.get("paused")),
        failed=state.checkpoints.get(state.current_phase) is CheckpointStatus.FAILED,
        stalled=stalled,
    )


def _durations(state: WorkflowState) -> Iterator[float]:
    """How long each completed phase took that was timed from beginning to end."""
    for phase in state.completed_phases:
        timing = state.phase_timing.get(phase) or {}
        started, ended = (moment_of(timing.get(key)) for key in ("started_at", "completed_at"))
        spent = active(_seconds(started), _seconds(ended), _paused(timing))
        if spent is not None:
            yield spent


def _time_in_phase(state: WorkflowState, now: datetime) -> float | None:
    timing = state.phase_timing.get(state.current_phase) or {}
    started = moment_of(timing.get("started_at"))
    over = timing.get("completed_at") and state.current_phase in state.completed_phases
    until = _paused_at(state) or now
    return None if over else active(_seconds(started), _seconds(until), _paused(timing))


def _paused_at(state: WorkflowState) -> datetime | None:
    """Since when nobody works; a pause is added to its phase only once it is over."""
    return moment_of(state.lifecycle.get("paused_at")) if state.lifecycle.get("paused") else None


def _seconds(moment: datetime | None) -> float | None:
    # Times without a zone are local; `timestamp` reads them so.
    return None if moment is None else moment.timestamp()


def _paused(timing: Mapping[str, Any]) -> float:
    return seconds(timing.get("paused_duration_seconds"))
