"""The classes that the praxis document names: `WorkflowState` and the resumption context.

`WorkflowState` has no clock: a subclass overrides `moment`. The rules of phases are in `read`.

A failed attempt does not end a phase: it is stored in `phase_attempts`, and `completed_at` is set
only when the checkpoint passed.

Durations in a `ResumptionContext` are active time in seconds. Unknown values are None: there is no
percentage without a total, no average without a completed phase with times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from msgspec import Struct

from forestay.formats.coerce import copied
from forestay.formats.praxis.read import (
    LEGACY_WARNING,
    first_phase,
    is_finished,
    known_total,
    last_phase,
    seconds,
    within,
)
from forestay.model.timing import Timing, active, standing

_ALSO_COMPLETED = ("completed", "complete")


class CheckpointStatus(StrEnum):
    PENDING = "pending"
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass
class PhaseArtifact:
    """The results of a phase. Unknown keys are in `extra`."""

    phase_number: int
    evidence: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    commands_executed: list[Any] = field(default_factory=list)
    timestamp: datetime | None = None
    extra: dict[str, Any] = field(default_factory=dict, repr=False)

    def to_dict(self) -> dict[str, Any]:
        return {
            "phase_number": self.phase_number,
            "evidence": self.evidence,
            "outputs": self.outputs,
            "commands_executed": self.commands_executed,
            "timestamp": stamp(self.timestamp) if self.timestamp else None,
            **self.extra,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PhaseArtifact:
        known = ("phase_number", "evidence", "outputs", "commands_executed", "timestamp")
        stamp = data.get("timestamp")
        return cls(
            phase_number=data["phase_number"],
            evidence=data.get("evidence") or {},
            outputs=data.get("outputs") or {},
            commands_executed=data.get("commands_executed") or [],
            timestamp=datetime.fromisoformat(stamp) if stamp else None,
            extra={key: value for key, value in data.items() if key not in known},
        )


@dataclass
class WorkflowState:
    """The state of one workflow session, as a value."""

    session_id: str
    workflow_type: str
    target_file: str
    current_phase: int
    completed_phases: list[int]
    phase_artifacts: dict[int, PhaseArtifact]
    checkpoints: dict[int, CheckpointStatus]
    created_at: datetime
    updated_at: datetime
    metadata: dict[str, Any] = field(default_factory=dict)
    workflow_structure: dict[str, Any] = field(default_factory=dict)
    lifecycle: dict[str, Any] = field(default_factory=dict)
    phase_timing: dict[int, dict[str, Any]] = field(default_factory=dict)
    phase_attempts: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict, repr=False)

    def moment(self) -> datetime:
        """Return the current time."""
        raise RuntimeError("this state has no clock: give `now`, or override `moment`")

    def complete_phase(
        self,
        phase: int,
        artifact: PhaseArtifact,
        checkpoint_passed: bool = True,
        *,
        now: datetime | None = None,
    ) -> None:
        """Record the result of the current phase, and move to the next one if it passed."""
        if phase != self.current_phase:
            raise ValueError(
                f"Cannot complete phase {phase}, current phase is {self.current_phase}"
            )
        now = self._present(phase, now or self.moment())
        handed_in = replace(artifact, timestamp=artifact.timestamp or now)
        self._keep_attempt(phase)
        self.phase_artifacts[phase] = handed_in
        if checkpoint_passed:
            self._pass(phase, now)
        else:
            self.checkpoints[phase] = CheckpointStatus.FAILED
        self.updated_at = now

    def is_complete(self, total: int | None = None) -> bool:
        """Return whether the workflow is complete; `total` is the number of phases if known."""
        flag = self.lifecycle.get("completed") or self.extra.get("status") in _ALSO_COMPLETED
        known = known_total(self.workflow_structure, self.metadata, total)
        return is_finished(flag, self.completed_phases, known, first_phase(self.workflow_structure))

    def to_dict(self) -> dict[str, Any]:
        artifacts = {str(p): artifact.to_dict() for p, artifact in self.phase_artifacts.items()}
        parts: dict[str, Any] = {
            "session_id": self.session_id,
            "workflow_type": self.workflow_type,
            "target_file": self.target_file,
            "workflow_structure": self.workflow_structure,
            "current_phase": self.current_phase,
            "completed_phases": self.completed_phases,
            "phase_timing": {str(p): timing for p, timing in self.phase_timing.items()},
            "lifecycle": self.lifecycle,
            "phase_artifacts": artifacts,
            "checkpoints": {str(p): status.value for p, status in self.checkpoints.items()},
            "created_at": stamp(self.created_at),
            "updated_at": stamp(self.updated_at),
            "metadata": self.metadata,
        }
        if self.phase_attempts:
            parts["phase_attempts"] = {str(p): a for p, a in self.phase_attempts.items()}
        made: dict[str, Any] = copied({**parts, **self.extra})
        return made

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> WorkflowState:
        artifacts = data.get("phase_artifacts") or {}
        return cls(
            session_id=data["session_id"],
            workflow_type=data["workflow_type"],
            target_file=data["target_file"],
            current_phase=data["current_phase"],
            completed_phases=list(data["completed_phases"]),
            phase_artifacts={int(p): PhaseArtifact.from_dict(a) for p, a in artifacts.items()},
            checkpoints={
                int(p): CheckpointStatus(s) for p, s in (data.get("checkpoints") or {}).items()
            },
            created_at=datetime.fromisoformat(data["created_at"]),
            updated_at=datetime.fromisoformat(data["updated_at"]),
            metadata=dict(data.get("metadata") or {}),
            workflow_structure=dict(data.get("workflow_structure") or {}),
            lifecycle=dict(data.get("lifecycle") or {}),
            phase_timing={int(p): dict(t) for p, t in (data.get("phase_timing") or {}).items()},
            phase_attempts={int(p): list(a) for p, a in (data.get("phase_attempts") or {}).items()},
            extra={key: value for key, value in data.items() if key not in _KNOWN},
        )

    # -- the steps of completing a phase -----------------------------------------------------------

    def _present(self, phase: int, now: datetime) -> datetime:
        """Return a time that is not before any in the state: another clock may be ahead."""
        started = moment_of(self.phase_timing.get(phase, {}).get("started_at")) or now
        return max(now, started, self.created_at, self.updated_at, key=datetime.timestamp)

    def _keep_attempt(self, phase: int) -> None:
        """Store a failed verdict, which is about to be replaced, as an attempt."""
        verdict, artifact = self.checkpoints.get(phase), self.phase_artifacts.get(phase)
        if verdict is CheckpointStatus.FAILED and artifact is not None:
            attempt = {"checkpoint": verdict.value, **artifact.to_dict()}
            self.phase_attempts.setdefault(phase, []).append(attempt)

    def _pass(self, phase: int, now: datetime) -> None:
        self.checkpoints[phase] = CheckpointStatus.PASSED
        self._end_timing(phase, now)
        if phase not in self.completed_phases:
            self.completed_phases.append(phase)
        total = known_total(self.workflow_structure, self.metadata)
        if total is None:
            self.current_phase = phase + 1
        elif phase == last_phase(total, first_phase(self.workflow_structure)):
            self._finish(now)
        else:
            self.current_phase = phase + 1
            self.phase_timing[phase + 1] = {"started_at": stamp(now)}

    def _end_timing(self, phase: int, now: datetime) -> None:
        timing = self.phase_timing.get(phase, {})
        started = moment_of(timing.get("started_at"))
        if started is not None:
            paused = seconds(timing.get("paused_duration_seconds"))
            timing["completed_at"] = stamp(now)
            timing["duration_seconds"] = max(0.0, seconds_between(started, now) - paused)

    def _finish(self, now: datetime) -> None:
        if self.lifecycle.get("completed"):
            return  # flags are set once
        self.lifecycle["completed"] = True
        self.lifecycle["completed_at"] = stamp(now)
        self.lifecycle["total_duration_seconds"] = seconds_between(self.created_at, now)


_KNOWN = frozenset(WorkflowState.__dataclass_fields__) - {"extra"}


def moment_of(value: object) -> datetime | None:
    """Parse an ISO 8601 text; return None for anything else."""
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def stamp(moment: datetime) -> str:
    """Return a time in ISO 8601, with `Z` for UTC."""
    text = moment.isoformat()
    return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text


def seconds_between(start: datetime, end: datetime) -> float:
    # Times without a zone are local; `timestamp` reads them so.
    return round(end.timestamp() - start.timestamp(), 6)


# -- the resumption context ------------------------------------------------------------------------


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
    """Compute the resumption context at a time; `total` is the number of phases if known.

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
    """Yield the durations of completed phases that have a start and an end."""
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
    """Return the start of the current pause, which is added to its phase only at its end."""
    return moment_of(state.lifecycle.get("paused_at")) if state.lifecycle.get("paused") else None


def _seconds(moment: datetime | None) -> float | None:
    # Times without a zone are local; `timestamp` reads them so.
    return None if moment is None else moment.timestamp()


def _paused(timing: Mapping[str, Any]) -> float:
    return seconds(timing.get("paused_duration_seconds"))
