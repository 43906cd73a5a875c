"""Writing facts into a praxis session file of an older generation, in its own form.

Such a file has no `workflow_structure`, `lifecycle` and `phase_timing`. What they say is said as
the generation could say it: the second one by `status`, `completed_at`, `error_reason`,
`evidence_submitted` and, if it keeps times, `phase_timings`; the first one by its phases alone. All
else is left to travel beside, so that a file stays of its generation whatever is changed in it.
"""

from __future__ import annotations

from typing import Any

from holdfast.layout import Where, stamps
from holdfast.layout.facts import CheckpointFact, Facts, StepFact
from holdfast.layout.praxis.phases import is_count
from holdfast.layout.praxis.read import (
    LEGACY,
    LEGACY_TOTAL,
    NO_TARGET,
    NO_WORKFLOW,
    OUROBOROS,
    OUROBOROS_TIMED,
    View,
    evidence_of,
    facts,
    phase_id,
)
from holdfast.layout.praxis.write import Edit, first_moment, last_error
from holdfast.layout.value import copied

GENERATIONS = (LEGACY, LEGACY_TOTAL, OUROBOROS, OUROBOROS_TIMED)

_SECOND = (OUROBOROS, OUROBOROS_TIMED)
_WORDS = {
    "created": "active",
    "active": "active",
    "paused": "paused",
    "completed": "completed",
    "failed": "error",
    "aborted": "error",
    "abandoned": "error",
}


def fresh(wanted: Facts, session_id: str, where: Where) -> dict[str, Any]:
    """A new file of the generation that the surroundings ask for, with every key of it."""
    doc = _blank(session_id, where.generation)
    doc["created_at"] = doc["updated_at"] = stamps.write(first_moment(wanted, where))
    if where.generation == LEGACY_TOTAL:
        doc["metadata"]["total_phases"] = wanted.plan_total
    return written(doc, wanted, where)


def _blank(session_id: str, generation: str) -> dict[str, Any]:
    second: dict[str, Any] = {"evidence_submitted": {}} if generation in _SECOND else {}
    timed: dict[str, Any] = {"phase_timings": {}} if generation == OUROBOROS_TIMED else {}
    ending = {"completed_at": None} if generation == OUROBOROS_TIMED else {}
    return {
        "session_id": session_id,
        "workflow_type": NO_WORKFLOW,
        "target_file": NO_TARGET,
        "current_phase": 0,
        "completed_phases": [],
        "phase_artifacts": {},
        "checkpoints": {},
        **second,
        **timed,
        "created_at": "",
        "updated_at": "",
        **ending,
        "metadata": {},
        **({"status": "active"} if second else {}),
    }


def written(doc: dict[str, Any], wanted: Facts, where: Where) -> dict[str, Any]:
    """The document, changed in place where the facts say something else than it does."""
    view = View({"": doc}, where)
    OlderEdit(doc, view, facts(view), wanted, where).apply()
    return doc


class OlderEdit(Edit):
    @property
    def second(self) -> bool:
        return self.view.generation in _SECOND

    def _structure(self) -> None:
        """Where the number of phases was never noted, it is not: that is another generation."""
        total, noted = self.want.plan_total, self.view.metadata.get("total_phases")
        if total != self.was.plan_total and is_count(total) and is_count(noted):
            self.part("metadata")["total_phases"] = total

    def _understood(self) -> list[int]:
        """The current phase, which the file cannot be without, even if it is one past the end."""
        return [self.view.current] if self.view.current is not None else []

    def _current(self) -> None:
        """A number past the end stays: that it means the last phase is said beside, if need be."""
        before = None if self.view.current is None else self.view.current - 1
        if before not in self.view.done or self.want.position != phase_id(before):
            super()._current()

    def _evidence(self, phase: int, check: CheckpointFact, judged: CheckpointFact | None) -> None:
        if not self.second or phase in self.view.artifacts:
            super()._evidence(phase, check, judged)
        elif check.evidence and evidence_of(self.view, phase) != check.evidence:
            self.part("evidence_submitted")[str(phase)] = copied(check.evidence)

    def _timing(self, phase: int, step: StepFact, had: StepFact | None) -> None:
        if self.view.generation == OUROBOROS_TIMED:
            super()._timing(phase, step, had)

    def _new_timing(self, phase: int) -> dict[str, Any]:
        return {"phase": phase, "started_at": None, "completed_at": None, "duration_seconds": None}

    def _unset(self, entry: dict[str, Any], key: str) -> None:
        entry[key] = None

    # -- the end and what comes before it: there are no flags ------------------------------------

    def _completion(self) -> None:
        if not self.second:
            return
        if self._says_other(self.want.status):
            self.doc["status"] = _WORDS[self.want.status]
        ended = self.want.ended_at
        if ended is not None and ended != self.was.ended_at:
            self.stamp(self.doc, "completed_at", ended)

    def _says_other(self, status: str) -> bool:
        now = View({"": self.doc}, self.where).status
        return status not in (now, self.was.status) and _WORDS[status] != self.doc.get("status")

    def _pauses(self) -> None:
        pass

    def _error(self) -> None:
        error = last_error(self.was, self.want)
        if self.second and error and error.message != self.view.text("error_reason"):
            self.doc["error_reason"] = error.message

    def _pause_flag(self) -> None:
        pass
