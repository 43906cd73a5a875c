"""Read a praxis session file of any generation.

The generations differ in shape: `redesign` has values in `lifecycle`, `workflow_structure` or
`phase_timing` (the document's class adds them, empty, to an older file that it loads and saves);
the second generation (`ouroboros`, with times `ouroboros-timed`) has a `status` and related keys;
`legacy` has neither, and `legacy-total` has its number of phases in `metadata`. A `View` is one
file without the values of a wrong type, so that reading never fails; `read_facts` turns it into
facts.

Older programs marked the end by a `current_phase` that no workflow has. Such a value is not used:
the position is then the last phase.

Before the redesign phases had no times. A completed phase ended when its evidence was stamped, and
the next one began then; the first one began with the session.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

from forestay.formats import status_words, timestamps
from forestay.formats.coerce import copied, mapping, sequence, text
from forestay.formats.facts import CheckpointFact, CommandFact, ErrorFact, Facts, Scalar, StepFact
from forestay.formats.port import Tree, Where

REDESIGN, LEGACY, LEGACY_TOTAL = "redesign", "legacy", "legacy-total"
OUROBOROS, OUROBOROS_TIMED = "ouroboros", "ouroboros-timed"

PREFIX = "praxis."
"""The prefix of an attribute that is a single value of `metadata`."""
NO_WORKFLOW, NO_TARGET = "forestay", "."
"""The values of two fields that may not be empty, for a session without either."""
MOST_PHASES = 1_000
"""How many phases are listed as steps before any work was done in them."""

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
_KEY = re.compile(r"(?:0|[1-9]\d{0,5})\Z")
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
    """Return a duration in seconds; 0 for a value that is no plausible duration."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if 0 <= value < 1e12 else 0.0


def known_total(
    structure: Mapping[str, Any], metadata: Mapping[str, Any], given: object = None
) -> int | None:
    """Return the number of phases: as recorded at the start, else later, else as `given`."""
    candidates = (structure.get("total_phases"), metadata.get("total_phases"), given)
    return next((value for value in candidates if is_count(value)), None)


def first_phase(structure: Mapping[str, Any]) -> int:
    """Return the number of the first phase: 0, or 1 for a workflow that starts later."""
    start = structure.get("starting_phase", 0)
    return 1 if is_phase(start) and start != 0 else 0


def last_phase(total: int, first: int) -> int:
    return total - 1 + first


def is_finished(flag: object, completed: Iterable[int], total: int | None, first: int) -> bool:
    """Return whether a session is complete: by its flag, else because all its phases are.

    More completed phases than the workflow has is an overrun, and complete all the same. Without
    a flag and without a known number of phases a session is not complete.
    """
    if flag:
        return True
    return total is not None and len(within(completed, total, first)) == total


def within(completed: Iterable[int], total: int, first: int) -> set[int]:
    """Return the completed phases that the workflow has; others are an overrun."""
    return {phase for phase in completed if first <= phase <= last_phase(total, first)}


# -- the shape of a file --------------------------------------------------------------------------


def likeness(value: object) -> float:
    """Return how surely a parsed file is a praxis session, from 0 to 1."""
    if not isinstance(value, dict):
        return 0.0
    hits = sum(key in value for key in SIGNATURE)
    own = any(key in value for key in ("workflow_type", "current_phase", "completed_phases"))
    return 0.4 + 0.6 * hits / len(SIGNATURE) if hits >= 2 and own else 0.0


def generation(doc: dict[str, Any]) -> str:
    if any(mapping(doc.get(key)) for key in REDESIGNED):
        return REDESIGN
    if any(key in doc for key in _SECOND):
        return OUROBOROS_TIMED if isinstance(doc.get("phase_timings"), dict) else OUROBOROS
    metadata = doc.get("metadata")
    noted = isinstance(metadata, dict) and known_total({}, metadata) is not None
    return LEGACY_TOTAL if noted else LEGACY


def main(tree: Tree) -> tuple[str, dict[str, Any]]:
    """Return the name and value of the likeliest session file; an empty object if there is none."""
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


class View:
    """One session file without the values of a wrong type."""

    def __init__(self, tree: Tree, where: Where) -> None:
        self.name, doc = main(tree)
        self.doc, self.naive = doc, where.naive
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

    def stamp(self, part: dict[str, Any], key: str) -> int | None:
        return timestamps.read(part.get(key), self.naive)

    def text(self, key: str) -> str:
        return text(self.doc.get(key))

    def _flag(self) -> bool:
        if self.redesigned:
            return self.lifecycle.get("completed") is True
        return self._second_status() == "completed"

    def _second_status(self) -> str:
        return status_words.session_status("praxis", self.text("status").lower()) or ""

    def _position(self) -> int | None:
        """Return the current phase; the last one where an older program counted past the end."""
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
        """Return whether a session with all phases completed is paused, or was resumed since."""
        if not self.redesigned or self._flag():
            return False
        ends = (self.stamp(timing, "completed_at") or 0 for timing in self.timing.values())
        resumed = self.stamp(self.lifecycle, "resumed_at") or 0
        return self.lifecycle.get("paused") is True or resumed > max(ends, default=resumed)

    def error(self) -> ErrorFact | None:
        """Return the last error, in whatever form the file has it."""
        if not self.redesigned:
            reason = self.text("error_reason")
            return ErrorFact(reason, at=self.stamp(self.doc, "completed_at")) if reason else None
        message = _message(self.lifecycle.get("last_error"))
        return (
            ErrorFact(message, at=self.stamp(self.lifecycle, "last_error_at")) if message else None
        )

    def _ended_by_error(self) -> bool:
        """Return whether no phase succeeded after the last error and no resume came."""
        error = self.error()
        if error is None or error.at is None:
            return False
        # A pause that is over was lifted, even if the file has no time for that.
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
        """Return every phase that the file mentions, in order; never a number past the end."""
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
        # The verdict is of the last attempt, so a failed one outweighs the list.
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
    """Return the facts in a session file."""
    error = view.error()
    made = Facts(
        native_id=view.text("session_id"),
        goal=_goal(view),
        status=view.status,
        began_at=view.stamp(view.doc, "created_at"),
        updated_at=view.stamp(view.doc, "updated_at"),
        ended_at=_ended(view),
        workflow=_unless(view.text("workflow_type"), NO_WORKFLOW),
        workflow_version=text(view.structure.get("workflow_version")),
        target=_unless(view.text("target_file"), NO_TARGET),
        plan_total=view.total,
        plan_base=_base(view),
        position="" if view.position is None else phase_id(view.position),
        steps=[_step(view, phase) for phase in view.phases()],
        errors=[error] if error else [],
        checkpoints=_checkpoints(view),
        commands=_commands(view),
        attributes=_attributes(view.metadata),
    )
    _add_pauses(made, view)
    if error and made.status == "failed":
        made.because = error.message
    return made


def _base(view: View) -> int | None:
    if not view.doc:
        return None
    start = view.structure.get("starting_phase")
    return start if is_phase(start) else 0


def _goal(view: View) -> str:
    """Return a goal made of the target and the workflow, as these files have no goal."""
    spec = _last_part(text(view.metadata.get("spec_path")))
    named = [text(view.metadata.get(key)) for key in ("feature_name", "spec_name")]
    target = _last_part(_unless(view.text("target_file"), NO_TARGET))
    subject = next((s for s in (*named, spec, target) if any(map(str.isalnum, s))), "")
    workflow = _unless(view.text("workflow_type"), NO_WORKFLOW)
    return f"{workflow}: {subject}" if workflow and subject else subject or workflow


def _last_part(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _ended(view: View) -> int | None:
    if view.redesigned:
        return view.stamp(view.lifecycle, "completed_at")
    ended = view.stamp(view.doc, "completed_at")
    return view.stamp(view.doc, "updated_at") if ended is None and view.complete else ended


def _add_pauses(made: Facts, view: View) -> None:
    flags = view.lifecycle
    made.paused_at = view.stamp(flags, "paused_at")
    reason = text(flags.get("paused_reason"))
    # For a failed session the reason only repeats that it failed.
    made.pause_reason = "" if made.status == "failed" and reason == "system_error" else reason
    made.pause_context = text(flags.get("paused_context"))
    made.resumed_at = view.stamp(flags, "resumed_at")
    count = flags.get("resume_count")
    made.resumes = count if isinstance(count, int) and not isinstance(count, bool) else 0


def _step(view: View, phase: int) -> StepFact:
    status = view.phase_status(phase)
    timing = view.timing.get(phase, {})
    started, ended = view.stamp(timing, "started_at"), view.stamp(timing, "completed_at")
    if not view.redesigned:
        started, ended = _told_by_evidence(view, phase, started, ended)
    return StepFact(
        title=f"Phase {phase}",
        id=phase_id(phase),
        unit="phase",
        status=status,
        started_at=None if status == "pending" else started,
        ended_at=ended if status == "done" else None,
        paused_ms=_whole(timing.get("paused_duration_seconds"), 1000),
    )


def _told_by_evidence(
    view: View, phase: int, started: int | None, ended: int | None
) -> tuple[int | None, int | None]:
    if started is None and phase == view.first:
        started = view.stamp(view.doc, "created_at")
    elif started is None:
        started = view.stamp(view.artifacts.get(phase - 1, {}), "timestamp")
    if ended is None:
        ended = view.stamp(view.artifacts.get(phase, {}), "timestamp")
    return started, ended


def _checkpoints(view: View) -> list[CheckpointFact]:
    made = (
        CheckpointFact(
            step=phase_id(phase),
            verdict=view.verdict(phase),
            evidence=copied(evidence_of(view, phase)),
            at=_judged_at(view, phase),
        )
        for phase in sorted({*view.checkpoints, *view.artifacts, *view.submitted})
    )
    return [check for check in made if check.verdict != "pending" or check.evidence]


def evidence_of(view: View, phase: int) -> dict[str, Any]:
    """Return the evidence submitted for a phase."""
    return mapping(view.artifacts.get(phase, {}).get("evidence")) or view.submitted.get(phase, {})


def _judged_at(view: View, phase: int) -> int | None:
    at = view.stamp(view.artifacts.get(phase, {}), "timestamp")
    if at is None and not view.redesigned:
        return view.stamp(view.timing.get(phase, {}), "completed_at")
    return at


def _commands(view: View) -> list[CommandFact]:
    made: list[CommandFact] = []
    for phase, artifact in sorted(view.artifacts.items()):
        ran = sequence(artifact.get("commands_executed"))
        made += [_command(view, phase, entry) for entry in ran]
    return [command for command in made if command.name]


def _command(view: View, phase: int, entry: object) -> CommandFact:
    parts = entry if isinstance(entry, dict) else {"command": entry}
    failed = parts.get("exit_code") not in (None, 0)
    spent = parts.get("duration_ms")
    return CommandFact(
        name=text(parts.get("command")),
        status="failure" if failed else "success",
        duration_ms=_whole(spent),
        error=text(parts.get("output")) if failed else "",
        task=phase_id(phase),
        at=view.stamp(parts, "executed_at"),
    )


def _attributes(metadata: dict[str, Any]) -> dict[str, Scalar]:
    return {
        PREFIX + key: value
        for key, value in metadata.items()
        if isinstance(value, str | int | float) and key != "total_phases"
    }


# -- plain values --------------------------------------------------------------------------------


def by_phase(doc: dict[str, Any], key: str) -> dict[int, Any]:
    """Return a map of phases by number, without the keys that are no phase."""
    return {int(name): value for name, value in mapping(doc.get(key)).items() if _is_key(name)}


def _is_key(key: object) -> bool:
    return isinstance(key, str) and key.isascii() and _KEY.match(key) is not None


def _objects(part: dict[int, Any]) -> dict[int, dict[str, Any]]:
    return {phase: value for phase, value in part.items() if isinstance(value, dict)}


def _unless(text: str, placeholder: str) -> str:
    return "" if text == placeholder else text


def _message(value: object) -> str:
    if isinstance(value, dict):
        named: Iterable[object] = (value.get("message"), value.get("error"))
        return next((n for n in named if isinstance(n, str) and n), "") or _plain(value)
    return value if isinstance(value, str) else "" if value is None else _plain(value)


def _plain(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _whole(value: object, factor: int = 1) -> int | None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e12:
        return None
    return round(value * factor)
