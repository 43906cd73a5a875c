"""The classes that the praxis specification names: `WorkflowState` and the resumption context.

`WorkflowState` has no clock: a subclass overrides `moment`. The rules of phases are in `read`.

A failed attempt does not end a phase: it is stored in `phase_attempts`, and `completed_at` is set
only when the checkpoint passed.

Durations in a `ResumptionContext` are active time in seconds. Unknown values are None: there is no
percentage without a total, no average without a completed phase with times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
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
    """The results of a phase; keys that the specification does not define are in `extra`."""

    phase_number: int
    evidence: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    commands_executed: list[Any] = field(default_factory=list)
    timestamp: datetime | None = None
    extra: dict[str, Any] = field(default_factory=dict, repr=False)

    def to_dict(self) -> dict[str, Any]:
        parts = {name: getattr(self, name) for name in _known(PhaseArtifact)}
        return parts | {"timestamp": self.timestamp and stamp(self.timestamp)} | self.extra

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PhaseArtifact:
        known = _known(cls)
        parts = {key: data[key] for key in known if data.get(key)}
        parts |= {"phase_number": data["phase_number"]}
        if "timestamp" in parts:
            parts["timestamp"] = datetime.fromisoformat(parts["timestamp"])
        return cls(**parts, extra={key: data[key] for key in data if key not in known})


def _known(kind: type) -> list[str]:
    """Return the names of the fields of a class that the specification defines: all but `extra`."""
    return [each.name for each in fields(kind) if each.name != "extra"]


@dataclass
class WorkflowState:
    """The state of one workflow session, as the specification defines it."""

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
        self._archive_attempt(phase)
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
        made = {key: getattr(self, key) for key in _FILE_ORDER}
        for key, (_, write) in _BY_PHASE.items():
            made[key] = {str(phase): write(each) for phase, each in made[key].items()}
        made |= {key: stamp(made[key]) for key in ("created_at", "updated_at")}
        if not self.phase_attempts:
            del made["phase_attempts"]
        copy: dict[str, Any] = copied(made | self.extra)
        return copy

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> WorkflowState:
        known = _known(cls)
        parts: dict[str, Any] = {key: data[key] for key in _REQUIRED}
        parts |= {key: datetime.fromisoformat(data[key]) for key in ("created_at", "updated_at")}
        parts |= {"completed_phases": list(data["completed_phases"])}
        for key in ("metadata", "workflow_structure", "lifecycle"):
            parts[key] = dict(data.get(key) or {})
        for key, (read, _) in _BY_PHASE.items():
            parts[key] = {int(phase): read(each) for phase, each in (data.get(key) or {}).items()}
        return cls(**parts, extra={key: data[key] for key in data if key not in known})

    # -- the steps of completing a phase -----------------------------------------------------------

    def _present(self, phase: int, now: datetime) -> datetime:
        """Return `now`, or the latest time in the state if that is later: its clock was ahead."""
        started = moment_of(self.phase_timing.get(phase, {}).get("started_at")) or now
        return max(now, started, self.created_at, self.updated_at, key=datetime.timestamp)

    def _archive_attempt(self, phase: int) -> None:
        """Add a failed verdict to `phase_attempts` before a new verdict replaces it."""
        verdict, artifact = self.checkpoints.get(phase), self.phase_artifacts.get(phase)
        if verdict is CheckpointStatus.FAILED and artifact is not None:
            attempt = {"checkpoint": verdict.value, **artifact.to_dict()}
            self.phase_attempts.setdefault(phase, []).append(attempt)

    def _pass(self, phase: int, now: datetime) -> None:
        self.checkpoints[phase] = CheckpointStatus.PASSED
        timing = self.phase_timing.get(phase, {})
        if started := moment_of(timing.get("started_at")):
            paused = seconds(timing.get("paused_duration_seconds"))
            timing["completed_at"] = stamp(now)
            timing["duration_seconds"] = max(0.0, _seconds_between(started, now) - paused)
        if phase not in self.completed_phases:
            self.completed_phases.append(phase)
        total = known_total(self.workflow_structure, self.metadata)
        if total is None or phase != last_phase(total, first_phase(self.workflow_structure)):
            self.current_phase = phase + 1
            if total is not None:
                self.phase_timing[phase + 1] = {"started_at": stamp(now)}
        elif not self.lifecycle.get("completed"):  # flags are set once
            lasted = _seconds_between(self.created_at, now)
            self.lifecycle |= {"completed": True, "completed_at": stamp(now)}
            self.lifecycle["total_duration_seconds"] = lasted


_BY_PHASE: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "phase_artifacts": (PhaseArtifact.from_dict, PhaseArtifact.to_dict),
    "checkpoints": (CheckpointStatus, lambda status: status.value),
    "phase_timing": (dict, dict),
    "phase_attempts": (list, list),
}
"""Field with one value per phase → how such a value is read and written."""
_REQUIRED = ("session_id", "workflow_type", "target_file", "current_phase")
_FILE_ORDER = (
    *("session_id", "workflow_type", "target_file", "workflow_structure", "current_phase"),
    *("completed_phases", "phase_timing", "lifecycle", "phase_artifacts", "checkpoints"),
    *("created_at", "updated_at", "metadata", "phase_attempts"),
)


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


def _seconds_between(start: datetime, end: datetime) -> float:
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
    """Return the resumption context at the time `now`; `total` is the number of phases if known.

    A session with more completed phases than its workflow has is at 100 percent, with no phase
    remaining.
    """
    known = known_total(state.workflow_structure, state.metadata, total)
    first = first_phase(state.workflow_structure)
    done = len(within(state.completed_phases, known, first)) if known else 0
    spent = [_active_time(state.phase_timing.get(phase) or {}) for phase in state.completed_phases]
    timing = Timing(
        [time for time in spent if time is not None],
        done=done,
        total=known,
        inside=_time_in_phase(state, now),
    )
    status = standing(
        completed=state.is_complete(total),
        paused=bool(state.lifecycle.get("paused")),
        failed=state.checkpoints.get(state.current_phase) is CheckpointStatus.FAILED,
        stalled=timing.stalled,
    )
    return ResumptionContext(
        status=status,
        percent_complete=timing.percent,
        phases_remaining=timing.remaining,
        avg_phase_duration=timing.average,
        estimated_remaining=timing.estimate,
        time_in_phase=timing.inside,
        is_stalled=timing.stalled,
        warnings=() if state.workflow_structure else (LEGACY_WARNING,),
    )


def _time_in_phase(state: WorkflowState, now: datetime) -> float | None:
    timing = state.phase_timing.get(state.current_phase) or {}
    if timing.get("completed_at") and state.current_phase in state.completed_phases:
        return None
    # The state adds a pause to the timing of its phase only when the pause ends.
    is_paused = state.lifecycle.get("paused")
    paused_at = moment_of(state.lifecycle.get("paused_at")) if is_paused else None
    return _active_time(timing, paused_at or now)


def _active_time(timing: Mapping[str, Any], until: datetime | None = None) -> float | None:
    """Return the seconds of a phase from its start to its end, or `until`, without pauses."""
    started, ended = (moment_of(timing.get(key)) for key in ("started_at", "completed_at"))
    # Times without a zone are local; `timestamp` reads them so.
    begin, end = (None if at is None else at.timestamp() for at in (started, until or ended))
    return active(begin, end, seconds(timing.get("paused_duration_seconds")))
