"""Write facts into a praxis session file of an older generation, in its own form.

Such a file has no `workflow_structure`, `lifecycle` and `phase_timing`. Their values are written as
the generation can express them: the second one by `status`, `completed_at`, `error_reason`,
`evidence_submitted` and, if it has times, `phase_timings`; the first one by its phases alone. All
else goes under our own key, so that a file remains of its generation whatever is changed in it.
"""

from __future__ import annotations

from typing import Any

from forestay.formats import timestamps
from forestay.formats.coerce import copied
from forestay.formats.facts import CheckpointFact, Facts, StepFact
from forestay.formats.port import Where
from forestay.formats.praxis.read import (
    LEGACY,
    LEGACY_TOTAL,
    NO_TARGET,
    NO_WORKFLOW,
    OUROBOROS,
    OUROBOROS_TIMED,
    View,
    evidence_of,
    is_count,
    phase_id,
    read_facts,
)
from forestay.formats.praxis.write import Edit, first_moment, last_error

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


def create_file(wanted: Facts, session_id: str, where: Where) -> dict[str, Any]:
    """Return a new file of the generation `where.generation`, with all its keys."""
    doc = _blank(session_id, where.generation)
    doc["created_at"] = doc["updated_at"] = timestamps.write(first_moment(wanted, where))
    if where.generation == LEGACY_TOTAL:
        doc["metadata"]["total_phases"] = wanted.plan_total
    return write_document(doc, wanted, where)


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


def write_document(doc: dict[str, Any], wanted: Facts, where: Where) -> dict[str, Any]:
    """Change the document in place where the facts differ from it, and return it."""
    view = View({"": doc}, where)
    OlderEdit(doc, view, read_facts(view), wanted, where).apply()
    return doc


class OlderEdit(Edit):
    @property
    def second(self) -> bool:
        return self.view.generation in _SECOND

    def _write_structure(self) -> None:
        """Write the number of phases only where the file has one: it marks a generation."""
        total, noted = self.want.plan_total, self.view.metadata.get("total_phases")
        if total != self.was.plan_total and is_count(total) and is_count(noted):
            self.part("metadata")["total_phases"] = total

    def _indirect_phases(self) -> list[int]:
        """Return the current phase, which every file has, even one past the end."""
        return [self.view.current] if self.view.current is not None else []

    def _write_position(self) -> None:
        """Leave a number past the end, which is read as the last phase."""
        before = None if self.view.current is None else self.view.current - 1
        if before not in self.view.done or self.want.position != phase_id(before):
            super()._write_position()

    def _write_evidence(
        self, phase: int, check: CheckpointFact, judged: CheckpointFact | None
    ) -> None:
        if not self.second or phase in self.view.artifacts:
            super()._write_evidence(phase, check, judged)
        elif check.evidence and evidence_of(self.view, phase) != check.evidence:
            self.part("evidence_submitted")[str(phase)] = copied(check.evidence)

    def _write_timing(self, phase: int, step: StepFact, had: StepFact | None) -> None:
        if self.view.generation == OUROBOROS_TIMED:
            super()._write_timing(phase, step, had)

    def _new_timing(self, phase: int) -> dict[str, Any]:
        return {"phase": phase, "started_at": None, "completed_at": None, "duration_seconds": None}

    def _clear(self, entry: dict[str, Any], key: str) -> None:
        entry[key] = None

    # -- the end and what comes before it: there are no flags ------------------------------------

    def _write_completion(self) -> None:
        if not self.second:
            return
        if self._has_other_status(self.want.status):
            self.doc["status"] = _WORDS[self.want.status]
        ended = self.want.ended_at
        if ended is not None and ended != self.was.ended_at:
            self.stamp(self.doc, "completed_at", ended)

    def _has_other_status(self, status: str) -> bool:
        now = View({"": self.doc}, self.where).status
        return status not in (now, self.was.status) and _WORDS[status] != self.doc.get("status")

    def _write_pauses(self) -> None:
        pass

    def _write_error(self) -> None:
        error = last_error(self.was, self.want)
        if self.second and error and error.message != self.view.text("error_reason"):
            self.doc["error_reason"] = error.message

    def _write_pause_flag(self) -> None:
        pass
