"""Read a praxis session file of any generation.

The generations differ in shape: `redesign` has values in `lifecycle`, `workflow_structure` or
`phase_timing` (the specified class adds them, empty, to an older file that it loads and saves);
the second generation (`ouroboros`, with times `ouroboros-timed`) has a `status` and related keys;
`legacy` has neither, and `legacy-total` has its number of phases in `metadata`. A `View` is one
file without the values of a wrong type, so that reading never fails; `read_facts` turns a view into
facts.

Older programs marked the end of a session by a `current_phase` after the last phase. Such a session
is read as being at its last phase.

Before the redesign phases had no times. A completed phase is read as ended at the
time of its evidence, when the next phase began; the first phase began with the session.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeGuard

from forestay.formats import status_words
from forestay.formats.coerce import Node, copied, mapping, sequence, text
from forestay.formats.facts import CheckpointFact, CommandFact, ErrorFact, Facts, Scalar, StepFact
from forestay.formats.fields import COUNT, SECONDS, TEXT, Field, Text, get_fields, number
from forestay.formats.port import Tree, Where

REDESIGN, LEGACY, LEGACY_TOTAL = "redesign", "legacy", "legacy-total"
OUROBOROS, OUROBOROS_TIMED = "ouroboros", "ouroboros-timed"

ATTRIBUTE_PREFIX = "praxis."
"""The prefix of attributes that are stored as single values in `metadata`."""
NO_WORKFLOW, NO_TARGET = "forestay", "."
"""The values of two required fields for a session without a workflow and target."""
MOST_PHASES = 1_000
"""The most phases that are listed as steps although no work was done in them yet."""

SIGNATURE = (
    "workflow_type",
    "target_file",
    "current_phase",
    "completed_phases",
    "phase_artifacts",
    "checkpoints",
)
REDESIGNED = ("workflow_structure", "lifecycle", "phase_timing")
_SECOND = ("status", "evidence_submitted", "phase_timings")
_KEY = re.compile(r"(?:0|[1-9]\d{0,5})\Z", re.ASCII)
_ID = re.compile(r"phase-(0|[1-9]\d{0,5})\Z")
_VERDICTS = {"done": "passed", "failed": "failed", "timed_out": "failed", "skipped": "skipped"}


# -- the rules of phases --------------------------------------------------------------------------

LARGEST_PHASE = 999_999
LEGACY_WARNING = "Legacy session format, limited resumption context"


def is_count(value: object) -> TypeGuard[int]:
    """Return whether a value can be the number of phases of a workflow."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def is_phase(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_PHASE


def seconds(value: object) -> float:
    """Return a duration in seconds; 0 for a value that cannot be a duration."""
    found = number(value)
    return float(found) if found is not None and 0 <= found < 1e12 else 0.0


def known_total(
    structure: Mapping[str, Any], metadata: Mapping[str, Any], given: object = None
) -> int | None:
    """Return the number of phases recorded at the start, else one recorded later, else `given`."""
    candidates = (structure.get("total_phases"), metadata.get("total_phases"), given)
    return next((value for value in candidates if is_count(value)), None)


def first_phase(structure: Mapping[str, Any]) -> int:
    """Return the number of the first phase: 1 if `starting_phase` is above 0, else 0."""
    start = structure.get("starting_phase", 0)
    return 1 if is_phase(start) and start != 0 else 0


def last_phase(total: int, first: int) -> int:
    return total - 1 + first


def is_finished(flag: object, completed: Iterable[int], total: int | None, first: int) -> bool:
    """Return whether a session is complete: by its flag, else if all its phases are completed.

    A session with more completed phases than its workflow has (an overrun) is complete, too. A
    session without a flag whose number of phases is unknown is not complete.
    """
    if flag:
        return True
    return total is not None and len(within(completed, total, first)) == total


def within(completed: Iterable[int], total: int, first: int) -> set[int]:
    """Return the completed phases whose numbers the workflow has."""
    return {phase for phase in completed if first <= phase <= last_phase(total, first)}


# -- the shape of a file --------------------------------------------------------------------------


class _Duration(NamedTuple):
    """A duration in whole milliseconds; the unit of the file has `unit` milliseconds."""

    unit: int

    def read(self, value: Any, where: Where) -> int | None:
        found = number(value)
        return round(found * self.unit) if found is not None and 0 <= found < 1e12 else None

    def write(self, fact: int, old: Any, where: Where) -> float:
        return fact / self.unit


SESSION_FIELDS = (
    Field("native_id", ("session_id",), TEXT, sticky=True),
    Field("workflow", ("workflow_type",), Text(NO_WORKFLOW), sticky=True),
    Field("target", ("target_file",), Text(NO_TARGET), sticky=True),
    Field("began_at", ("created_at",), SECONDS, sticky=True),
    Field("updated_at", ("updated_at",), SECONDS, sticky=True),
)
STRUCTURE_FIELDS = (
    Field("workflow_version", ("workflow_version",), TEXT, sticky=True),
    Field("plan_total", ("total_phases",), COUNT, sticky=True),
    Field("plan_base", ("starting_phase",), COUNT, sticky=True),
)
PAUSE_FIELDS = (
    Field("paused_at", ("paused_at",), SECONDS),
    Field("pause_context", ("paused_context",), TEXT),
    Field("resumed_at", ("resumed_at",), SECONDS),
    Field("resumes", ("resume_count",), COUNT),
)
TIMING_FIELDS = (
    Field("started_at", ("started_at",), SECONDS),
    Field("ended_at", ("completed_at",), SECONDS),
    Field("paused_ms", ("paused_duration_seconds",), _Duration(1000)),
)
COMPLETED_AT = Field("ended_at", ("completed_at",), SECONDS)
JUDGED_AT = Field("at", ("timestamp",), SECONDS)
ERROR_AT = Field("at", ("last_error_at",), SECONDS)
_COMMAND_FIELDS = (
    Field("name", ("command",), TEXT),
    Field("duration_ms", ("duration_ms",), _Duration(1)),
    Field("at", ("executed_at",), SECONDS),
)


def likeness(value: object) -> float:
    """Return how surely a parsed file is a praxis session, from 0 to 1."""
    node = mapping(value)
    hits = sum(key in node for key in SIGNATURE)
    own = any(key in node for key in ("workflow_type", "current_phase", "completed_phases"))
    return 0.4 + 0.6 * hits / len(SIGNATURE) if hits >= 2 and own else 0.0


def generation(doc: Node) -> str:
    if any(mapping(doc.get(key)) for key in REDESIGNED):
        return REDESIGN
    if any(key in doc for key in _SECOND):
        return OUROBOROS_TIMED if isinstance(doc.get("phase_timings"), dict) else OUROBOROS
    is_noted = known_total({}, mapping(doc.get("metadata"))) is not None
    return LEGACY_TOTAL if is_noted else LEGACY


def main(tree: Tree) -> tuple[str, Node]:
    """Return the name and value of the likeliest session file; {} if no file is one."""
    found = [(name, value) for name, value in tree.items() if isinstance(value, dict)]
    best = max(found, key=lambda item: likeness(item[1]), default=None)
    return best if best is not None else (next(iter(tree), ""), {})


def phase_id(phase: int) -> str:
    return f"phase-{phase}"


def phase_of(id: str) -> int | None:
    """Return the number in an id of the form `phase-N`."""
    match = _ID.match(id)
    return int(match[1]) if match else None


def verdict_of(word: object) -> str:
    """Return the verdict for a word in `checkpoints`; unknown words are pending."""
    status = status_words.unit_status("praxis", word.lower()) if isinstance(word, str) else None
    return _VERDICTS.get(status or "", "pending")


def by_phase(doc: Node, key: str) -> dict[int, Any]:
    """Return phase number → value from the map under a key; ignore keys that are not phases."""
    entries = mapping(doc.get(key)).items()
    return {
        int(name): value for name, value in entries if isinstance(name, str) and _KEY.match(name)
    }


class View:
    """One session file without the values of a wrong type."""

    def __init__(self, tree: Tree, where: Where) -> None:
        self.name, doc = main(tree)
        self.doc, self.where = doc, where
        self.generation = generation(doc)
        self.redesigned = self.generation == REDESIGN
        self.structure = mapping(doc.get("workflow_structure"))
        self.lifecycle = mapping(doc.get("lifecycle"))
        self.metadata = mapping(doc.get("metadata"))
        self.timing_key = "phase_timing" if self.redesigned else "phase_timings"
        self.timing = _objects(by_phase(doc, self.timing_key))
        self.artifacts = _objects(by_phase(doc, "phase_artifacts"))
        self.submitted = _objects(by_phase(doc, "evidence_submitted"))
        self.checkpoints = by_phase(doc, "checkpoints")
        self.completed = [p for p in sequence(doc.get("completed_phases")) if is_phase(p)]
        self.done = set(self.completed)
        self.first = first_phase(self.structure)
        self.total = known_total(self.structure, self.metadata, where.total)
        current = doc.get("current_phase")
        self.current: int | None = current if is_phase(current) else None
        self.complete = is_finished(self._flag(), self.done, self.total, self.first)
        self.position = self._position()
        self.status = self._status()

    def stamp(self, part: Node, key: str) -> int | None:
        return SECONDS.read(part.get(key), self.where)

    def text(self, key: str) -> str:
        return text(self.doc.get(key))

    def _flag(self) -> bool:
        if self.redesigned:
            return self.lifecycle.get("completed") is True
        return self._second_status() == "completed"

    def _second_status(self) -> str:
        return status_words.session_status("praxis", self.text("status").lower()) or ""

    def _position(self) -> int | None:
        """Return the current phase; the last phase if an older program counted beyond it."""
        current = self.current
        if current is None:
            return None
        if self.total is not None:
            return max(self.first, min(current, last_phase(self.total, self.first)))
        past = self.complete and not self.redesigned and current == max(self.done, default=-2) + 1
        return current - 1 if past and current not in self.checkpoints else current

    def _status(self) -> str:
        if self.complete and not self._is_held():
            return "completed"
        if not self.redesigned:
            return self._second_status() or ("failed" if self.error() else "active")
        if self.lifecycle.get("paused") is True:
            error = self.lifecycle.get("paused_reason") == "system_error" and self.error()
            return "failed" if error else "paused"
        return "failed" if self._ended_by_error() else "active"

    def _is_held(self) -> bool:
        """Return whether a session stays open although all phases are completed.

        That is the case if it is paused, or was resumed after the last phase.
        """
        if not self.redesigned or self._flag():
            return False
        ends = (self.stamp(timing, "completed_at") or 0 for timing in self.timing.values())
        resumed = self.stamp(self.lifecycle, "resumed_at") or 0
        return self.lifecycle.get("paused") is True or resumed > max(ends, default=resumed)

    def error(self) -> ErrorFact | None:
        """Return the last error of the session, in any of the forms that files have for it."""
        if not self.redesigned:
            reason = self.text("error_reason")
            return ErrorFact(reason, at=self.stamp(self.doc, "completed_at")) if reason else None
        message, at = self.lifecycle.get("last_error"), self.stamp(self.lifecycle, "last_error_at")
        if isinstance(message, dict):
            message = text(message.get("message")) or text(message.get("error")) or message
        if message not in (None, "") and not isinstance(message, str):
            message = json.dumps(message, ensure_ascii=False, default=str)
        return ErrorFact(message, at=at) if message else None

    def _ended_by_error(self) -> bool:
        """Return whether an error ended the session: no phase passed and no resume followed."""
        error = self.error()
        if error is None or error.at is None:
            return False
        # A pause that is over was followed by a resume, even if the file has no time for it.
        since = [self.stamp(self.lifecycle, key) for key in ("resumed_at", "paused_at")]
        ends = [self.stamp(self.timing.get(p, {}), "completed_at") for p in self.done]
        ends += [self.stamp(self.artifacts.get(p, {}), "timestamp") for p in self.done]
        succeeded = any(end is not None and end > error.at for end in ends)
        return not succeeded and all(at is None or at < error.at for at in since)

    def progress(self) -> float | None:
        if self.complete:
            return 1.0
        if self.total is None:
            return None
        return len(within(self.done, self.total, self.first)) / self.total

    def phases(self) -> list[int]:
        """Return every phase of the workflow that the file mentions, in order."""
        spoken = {*self.done, *self.checkpoints, *self.timing}
        if self.position is not None:
            spoken.add(self.position)
            if self.current != self.position and not self.redesigned:
                spoken -= {self.current} - self.done - self.checkpoints.keys()
        return sorted(spoken | set(self.implied()))

    def implied(self) -> range:
        """Return all phases of the workflow, started or not."""
        if self.total is None or self.total > MOST_PHASES:
            return range(0)
        return range(self.first, last_phase(self.total, self.first) + 1)

    def verdict(self, phase: int) -> str:
        if phase not in self.checkpoints:
            return "passed" if phase in self.done else "pending"
        return verdict_of(self.checkpoints[phase])

    def phase_status(self, phase: int) -> str:
        # A failed verdict of the last attempt overrides the list of completed phases.
        verdict = verdict_of(self.checkpoints.get(phase))
        if verdict == "failed":
            return "failed"
        if phase in self.done or verdict == "passed":
            return "done"
        if verdict == "skipped":
            return "skipped"
        here = phase == self.position and not self.complete and not self.redesigned
        return "running" if here or phase in self.timing else "pending"


# -- facts -------------------------------------------------------------------------------------


def read_facts(view: View) -> Facts:
    """Return the facts in the view of a session file."""
    error, where, base = view.error(), view.where, view.structure.get("starting_phase")
    is_failed = view.status == "failed"
    pauses = get_fields(view.lifecycle, PAUSE_FIELDS, where)
    reason = text(view.lifecycle.get("paused_reason"))
    attributes: dict[str, Scalar] = {
        ATTRIBUTE_PREFIX + key: value
        for key, value in view.metadata.items()
        if isinstance(value, str | int | float) and key != "total_phases"
    }
    made = Facts(
        goal=_goal(view),
        status=view.status,
        ended_at=_ended(view),
        # For a failed session the reason only repeats that it failed.
        pause_reason="" if is_failed and reason == "system_error" else reason,
        because=error.message if error and is_failed else "",
        workflow_version=text(view.structure.get("workflow_version")),
        plan_total=view.total,
        plan_base=None if not view.doc else base if is_phase(base) else 0,
        position="" if view.position is None else phase_id(view.position),
        steps=[_step(view, phase) for phase in view.phases()],
        errors=[error] if error else [],
        checkpoints=list(_checkpoints(view)),
        commands=list(_commands(view)),
        attributes=attributes,
        **get_fields(view.doc, SESSION_FIELDS, where),
        **pauses | {"resumes": pauses["resumes"] or 0},
    )
    return made


def _goal(view: View) -> str:
    """Return a goal made of the target and the workflow, as these files have no goal."""
    found = get_fields(view.doc, SESSION_FIELDS, view.where)
    paths = (text(view.metadata.get("spec_path")), found["target"])
    named = [text(view.metadata.get(key)) for key in ("feature_name", "spec_name")]
    named += [path.rstrip("/").rpartition("/")[2] for path in paths]
    subject = next((name for name in named if any(map(str.isalnum, name))), "")
    workflow: str = found["workflow"]
    return f"{workflow}: {subject}" if workflow and subject else subject or workflow


def _ended(view: View) -> int | None:
    if view.redesigned:
        return view.stamp(view.lifecycle, "completed_at")
    ended = view.stamp(view.doc, "completed_at")
    return view.stamp(view.doc, "updated_at") if ended is None and view.complete else ended


def _step(view: View, phase: int) -> StepFact:
    status = view.phase_status(phase)
    times = get_fields(view.timing.get(phase, {}), TIMING_FIELDS, view.where)
    if not view.redesigned:
        if times["started_at"] is None and phase == view.first:
            times["started_at"] = view.stamp(view.doc, "created_at")
        elif times["started_at"] is None:
            times["started_at"] = view.stamp(view.artifacts.get(phase - 1, {}), "timestamp")
        if times["ended_at"] is None:
            times["ended_at"] = view.stamp(view.artifacts.get(phase, {}), "timestamp")
    if status == "pending":
        times["started_at"] = None
    if status != "done":
        times["ended_at"] = None
    return StepFact(f"Phase {phase}", phase_id(phase), "phase", status=status, **times)


def _checkpoints(view: View) -> Iterator[CheckpointFact]:
    for phase in sorted({*view.checkpoints, *view.artifacts, *view.submitted}):
        verdict, evidence = view.verdict(phase), copied(evidence_of(view, phase))
        at = view.stamp(view.artifacts.get(phase, {}), "timestamp")
        if at is None and not view.redesigned:
            at = view.stamp(view.timing.get(phase, {}), "completed_at")
        if verdict != "pending" or evidence:
            yield CheckpointFact(phase_id(phase), verdict, evidence, at=at)


def evidence_of(view: View, phase: int) -> Node:
    """Return the evidence submitted for a phase."""
    return mapping(view.artifacts.get(phase, {}).get("evidence")) or view.submitted.get(phase, {})


def _commands(view: View) -> Iterator[CommandFact]:
    for phase, artifact in sorted(view.artifacts.items()):
        for entry in sequence(artifact.get("commands_executed")):
            parts = entry if isinstance(entry, dict) else {"command": entry}
            command = CommandFact(
                **get_fields(parts, _COMMAND_FIELDS, view.where), task=phase_id(phase)
            )
            if parts.get("exit_code") not in (None, 0):
                command.status, command.error = "failure", text(parts.get("output"))
            if command.name:
                yield command


def _objects(part: dict[int, Any]) -> dict[int, Node]:
    return {phase: value for phase, value in part.items() if isinstance(value, dict)}
