"""Write facts into a praxis session file in the redesigned form.

A fact is compared with the one read from the old file, and the file is changed only where the two
differ; so a file that already contains the facts is not changed, whatever its spelling.

Phases are numbered. Steps that were read from a praxis file have their number in their id
(`phase-3`); other steps are numbered in their order (`number_phases`). Only the outermost steps are
phases, and if some of these have the unit `phase`, only those.

A verdict that is replaced moves to `phase_attempts` with its evidence and its times. `upgrade`
returns the redesigned form of a file of an older generation.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Any, NamedTuple

from msgspec.structs import replace

from forestay.formats import status_words, timestamps
from forestay.formats.coerce import Node, copied, mapping, sequence
from forestay.formats.facts import CheckpointFact, ErrorFact, Facts, StepFact
from forestay.formats.fields import SECONDS, Field, put_field
from forestay.formats.port import Where
from forestay.formats.praxis import read

LIFECYCLE: Node = {
    "completed": False,
    "completed_at": None,
    "paused": False,
    "paused_at": None,
    "paused_reason": None,
    "paused_context": None,
    "resumed_at": None,
    "resume_count": 0,
    "last_error": None,
    "last_error_at": None,
}
STRUCTURE: Node = {
    "total_phases": None,
    "starting_phase": 0,
    "indexing_scheme": "zero_based",
    "workflow_version": "",
}
PAUSE_REASONS = ("user_request", "checkpoint_failed", "system_error")
_OUR_REASONS = (*PAUSE_REASONS, "inactivity")
ATTEMPTS = "phase_attempts"
_SECTIONS = {"lifecycle": LIFECYCLE, "workflow_structure": STRUCTURE}
"""Sections that are created with all their keys, which other readers rely on."""

_STOPPED = ("failed", "aborted", "abandoned")
_PAUSED = ("paused", *_STOPPED)
_OPEN = ("running", "blocked", "needs_review")
_CLOSED = ("done", "skipped")
_TRANSLATED = (*read.REDESIGNED, "status", "completed_at", "evidence_submitted", "phase_timings")


# -- the whole file ------------------------------------------------------------------------------


def create_file(wanted: Facts, session_id: str, where: Where) -> Node:
    """Return a new file with every key of the specification, in its order."""
    total = wanted.plan_total if read.is_count(wanted.plan_total) else where.total
    doc = _blank(session_id, _base(wanted), total)
    began = timestamps.first(wanted.began_at, wanted.updated_at, where.now)
    doc["created_at"] = doc["updated_at"] = timestamps.write(began)
    return write_document(doc, wanted, where)


def _base(wanted: Facts) -> int:
    if read.is_phase(wanted.plan_base):
        return wanted.plan_base
    # A step without a phase number in its id may come before the first step with one.
    numbers = [read.phase_of(step.id) or 0 for step in wanted.steps if not step.parent]
    return 1 if min(numbers, default=0) == 1 else 0


def _blank(session_id: str, base: int, total: int | None) -> Node:
    return {
        "session_id": session_id,
        "workflow_type": read.NO_WORKFLOW,
        "target_file": read.NO_TARGET,
        "workflow_structure": STRUCTURE
        | {"total_phases": total, "starting_phase": base, "indexing_scheme": scheme(base)},
        "current_phase": base,
        "completed_phases": [],
        "phase_timing": {},
        "lifecycle": dict(LIFECYCLE),
        "phase_artifacts": {},
        "checkpoints": {},
        "created_at": "",
        "updated_at": "",
        "metadata": {"spec_path": None, "user_options": {}, "agent_version": None},
    }


def scheme(base: int) -> str:
    return "zero_based" if base == 0 else "one_based"


def write_document(doc: Node, wanted: Facts, where: Where, status: str = "") -> Node:
    """Change the document in place where it differs from the facts, and return it.

    `status` is the exact status, if our key `forestay` has a more exact one than the file.
    """
    was = read.read_facts(read.View({"": doc}, where))
    was.status = status or was.status
    _Edit(doc, was, wanted, where).apply()
    return doc


def upgrade(view: read.View, where: Where) -> Node:
    """Return a file of an older generation in the redesigned form, with its unknown keys."""
    facts = read.read_facts(view)
    doc = _blank(facts.native_id, view.first, view.total)
    old = {key: value for key, value in copied(view.doc).items() if key not in _TRANSLATED}
    # If one of the two times is missing, use the other one; if both are, use the current time.
    times = [time for key in ("created_at", "updated_at") if timestamps.read(time := old.get(key))]
    moment = [*times, timestamps.write(where.now)][0]
    doc.update({"created_at": moment, "updated_at": moment})
    doc.update({k: v for k, v in old.items() if k not in doc or type(doc[k]) is type(v)})
    for phase in view.submitted.keys() - view.artifacts.keys():
        stamp = view.timing.get(phase, {}).get("completed_at") or view.doc.get("updated_at")
        evidence = copied(read.evidence_of(view, phase))
        doc["phase_artifacts"][str(phase)] = _artifact(phase, evidence, stamp)
    if view.position is not None:
        doc["current_phase"] = view.position
    return write_document(doc, facts, where)


def _artifact(phase: int, evidence: Node, stamp: object) -> Node:
    return {
        "phase_number": phase,
        "evidence": evidence,
        "outputs": {},
        "commands_executed": [],
        "timestamp": stamp,
    }


def number_phases(wanted: Facts) -> dict[int, int]:
    """Return phase number → index of the step, for the steps that become phases of the file."""
    outer = [place for place, step in enumerate(wanted.steps) if not step.parent]
    named = [place for place in outer if wanted.steps[place].unit == "phase"]
    found: dict[int, int] = {}
    rest: list[int] = []
    for place in named or outer:
        number = read.phase_of(wanted.steps[place].id)
        if number is None or number in found:
            rest.append(place)
        else:
            found[number] = place
    free = (number for number in count(_base(wanted)) if number not in found)
    found |= dict(zip(free, rest, strict=False))
    return dict(sorted(found.items()))


# -- one edit --------------------------------------------------------------------------------------


class _StampLike(NamedTuple):
    """Write a time in the style of the timestamp that it replaces, else in that of `style`.

    All times must have the same style: a program that subtracts two times fails if only one of them
    has a zone.
    """

    style: Any

    def read(self, value: Any, where: Where) -> int | None:
        return SECONDS.read(value, where)

    def write(self, fact: int, old: Any, where: Where) -> str:
        style = self.style if SECONDS.read(old, where) is None else old
        return SECONDS.write(fact, style, where)


class _Edit:
    """Writes facts into a document: `was` are the facts in it, `want` the facts to write."""

    def __init__(self, doc: Node, was: Facts, want: Facts, where: Where) -> None:
        self.doc, self.was, self.want, self.where = doc, was, want, where
        self.steps = {number: want.steps[place] for number, place in number_phases(want).items()}
        self.had = {n: step for step in was.steps if (n := read.phase_of(step.id)) is not None}
        self.numbers = {step.id: number for number, step in self.steps.items() if step.id}
        for step in want.steps:  # a step inside a phase has the number of the phase
            if step.id and step.parent in self.numbers:
                self.numbers.setdefault(step.id, self.numbers[step.parent])
        numbered = ((self.numbers.get(c.step, read.phase_of(c.step)), c) for c in want.checkpoints)
        self.checks = {number: check for number, check in numbered if number is not None}
        self.judged = {read.phase_of(check.step): check for check in was.checkpoints}

    def apply(self) -> None:
        self._write_identity()
        self.view = read.View({"": self.doc}, self.where)
        self.done = dict.fromkeys(self.view.completed)
        self._write_phases()
        self._write_position()
        self._list_pending_phases()
        self._write_completion()
        self._write_pauses()
        self._write_error()
        self._write_pause_flag()
        self._write_attributes()

    def part(self, key: str) -> Node:
        """Return a section of the document to write into; replace one that is not an object."""
        if not isinstance(self.doc.get(key), dict):
            self.doc[key] = dict(_SECTIONS.get(key, {}))
        made: Node = self.doc[key]
        return made

    def set(self, part: Node, key: str, value: object) -> None:
        """Write a value, unless it is empty and the key is absent."""
        if key in part or value:
            part[key] = value

    def put(self, part: Node, field: Field, fact: Any) -> None:
        """Write the fact of a field, unless the file has it already."""
        kind = _StampLike(self.doc.get("created_at")) if field.kind is SECONDS else field.kind
        put_field(part, field._replace(kind=kind), fact, self.where, ())

    def put_changes(self, section: str, fields: Iterable[Field], want: Facts) -> None:
        """Write those facts of a section that changed; create the section only if there are any."""
        for field in fields:
            fact = getattr(want, field.fact)
            if fact != getattr(self.was, field.fact):
                self.put(self.part(section) if section else self.doc, field, fact)

    def _write_identity(self) -> None:
        was, want = self.was, self.want
        want = replace(
            want,
            native_id=was.native_id or want.native_id,
            updated_at=_latest(was.updated_at, want.updated_at),
            plan_total=want.plan_total if read.is_count(want.plan_total) else was.plan_total,
            plan_base=want.plan_base if read.is_phase(want.plan_base) else was.plan_base,
        )
        self.put_changes("", read.SESSION_FIELDS, want)
        self.put_changes("workflow_structure", read.STRUCTURE_FIELDS, want)
        if want.plan_base is not None and want.plan_base != was.plan_base:
            self.part("workflow_structure")["indexing_scheme"] = scheme(want.plan_base)

    def _write_attributes(self) -> None:
        for name, value in self.want.attributes.items():
            key = name.removeprefix(read.ATTRIBUTE_PREFIX)
            old = self.was.attributes.get(name)
            if key not in (name, "total_phases") and (type(old) is not type(value) or old != value):
                self.part("metadata")[key] = value

    # -- phases ------------------------------------------------------------------------------------

    def _write_phases(self) -> None:
        wanted = {*self.steps, *self.checks}
        for phase in self.had.keys() - wanted - {*self.view.implied()}:
            if read.phase_id(phase) != self.want.position:
                self._archive_attempt(phase)
                for key in ("phase_timing", "checkpoints"):
                    mapping(self.doc.get(key)).pop(str(phase), None)
        ended = self.want.began_at
        for phase in sorted(wanted):
            step, check = self.steps.get(phase), self.checks.get(phase)
            self._write_verdict(phase, step, check)
            if check is not None:
                self._write_evidence(phase, check)
            if step is not None:
                self._write_timing(phase, step, ended)
                ended = step.ended_at or ended
        listed = sequence(self.doc.get("completed_phases"))
        # Elements that are not phases stay; 1.0 and true count as the phase 1.
        kept = [each for each in listed if not read.is_phase(each) or each in self.done]
        known = {each for each in kept if isinstance(each, int | float)}
        if (now := [*kept, *(phase for phase in self.done if phase not in known)]) != listed:
            self.doc["completed_phases"] = now

    def _write_verdict(
        self, phase: int, step: StepFact | None, check: CheckpointFact | None
    ) -> None:
        had, judged = self.had.get(phase), self.judged.get(phase)
        status, verdict = step.status if step else None, check.verdict if check else ""
        is_moved = (had.status if had else None) != status
        if not is_moved and (not check or verdict == (judged.verdict if judged else "pending")):
            return
        if status is None:
            word = read.verdict_of(verdict)
        elif status in _OPEN and verdict == "failed":
            word = "failed"
        else:
            word = status_words.unit_word("praxis", status)
        if word != read.verdict_of(mapping(self.doc.get("checkpoints")).get(str(phase))):
            self._archive_attempt(phase)
            self.part("checkpoints")[str(phase)] = word
        if status == "done" or (status is None and word == "passed"):
            self.done[phase] = None
        else:
            self.done.pop(phase, None)

    def _archive_attempt(self, phase: int) -> None:
        """Move the verdict on a phase, with its evidence and times, to `phase_attempts`."""
        verdict = self.view.verdict(phase)
        self.done.pop(phase, None)
        if verdict == "pending" and not read.evidence_of(self.view, phase):
            return
        attempt: Node = {"checkpoint": verdict}
        artifacts, times = (mapping(self.doc.get(k)) for k in ("phase_artifacts", "phase_timing"))
        if isinstance(artifacts.get(str(phase)), dict):
            attempt |= artifacts.pop(str(phase))
        if times.get(str(phase)) is not None:
            attempt["timing"] = copied(times[str(phase)])
        attempts = self.part(ATTEMPTS)
        attempts[str(phase)] = [*sequence(attempts.get(str(phase))), attempt]

    def _write_evidence(self, phase: int, check: CheckpointFact) -> None:
        verdict = read.verdict_of(mapping(self.doc.get("checkpoints")).get(str(phase)))
        judged = self.judged.get(phase)
        is_known = judged and replace(check, step=judged.step, issue=judged.issue) == judged
        if check.verdict != verdict or is_known:
            return
        artifact = mapping(self.doc.get("phase_artifacts")).get(str(phase))
        if not isinstance(artifact, dict):
            if not check.evidence and (check.at is None or verdict == "pending"):
                return
            artifact = self.part("phase_artifacts")[str(phase)] = _artifact(phase, {}, "")
        if read.evidence_of(self.view, phase) != check.evidence or not artifact.get("evidence"):
            artifact["evidence"] = copied(check.evidence)
        if check.at is not None:
            self.put(artifact, read.JUDGED_AT, check.at)
        elif not artifact.get("timestamp"):
            # A reader of these files refuses evidence without a time.
            ended = self.steps[phase].ended_at if phase in self.steps else None
            known = timestamps.first(ended, self.want.updated_at, self.where.now)
            self.put(artifact, read.JUDGED_AT, known)

    def _write_timing(self, phase: int, step: StepFact, before: int | None) -> None:
        """Write the times of a phase; `before` is when the phase before it ended."""
        had, given = self.had.get(phase) or StepFact(""), _clock(step)
        if step.started_at is None and step.status == "done" and step.ended_at is not None:
            known = before is not None and before <= step.ended_at
            step = replace(step, started_at=before if known else None)
        # Times that the file already has are not written again, even if the start is odd.
        if _clock(had) in (given, _clock(step)):
            return
        entry = mapping(self.doc.get("phase_timing")).get(str(phase))
        if step.status == "pending":
            if entry is not None:
                del self.doc["phase_timing"][str(phase)]
            return
        if not isinstance(entry, dict):
            if step.status not in _OPEN and step.started_at is None:
                return  # other programs fail on an entry without a start
            entry = self.part("phase_timing")[str(phase)] = {}
        self._write_clock(entry, step, had)

    def _write_clock(self, entry: Node, step: StepFact, had: StepFact) -> None:
        started, completed, paused = read.TIMING_FIELDS
        stamp = entry.get("started_at")
        if step.started_at is not None and step.started_at != had.started_at:
            self.put(entry, started, step.started_at)
            if step.paused_ms is None and entry["started_at"] != stamp:
                entry.pop("paused_duration_seconds", None)  # those pauses were before this start
        elif not stamp:
            times = (self.want.updated_at, self.was.updated_at, self.where.now)
            self.put(entry, started, timestamps.first(*times))
        if step.paused_ms is not None and step.paused_ms != had.paused_ms:
            self.put(entry, paused, step.paused_ms)
        if step.status != "done":
            # A program that reopened the phase may have left its end time.
            for key in ("completed_at", "duration_seconds"):
                entry.pop(key, None)
        elif step.ended_at is not None:
            began = SECONDS.read(entry.get("started_at"), self.where)
            if step.ended_at != had.ended_at:
                # The start may come from a clock ahead of ours: the end must not be before it.
                self.put(entry, completed, max(step.ended_at, began or step.ended_at))
            ended = SECONDS.read(entry.get("completed_at"), self.where)
            if began is not None and ended is not None:
                pauses = read.seconds(entry.get("paused_duration_seconds"))
                entry["duration_seconds"] = max(0.0, round((ended - began) / 1000 - pauses, 3))

    def _write_position(self) -> None:
        view = self.view
        here = "" if view.position is None else read.phase_id(view.position)
        if self.want.position == self.was.position == here:
            return
        wanted = self.numbers.get(self.want.position, read.phase_of(self.want.position))
        if wanted is None:  # use the first phase that is not over, else the last phase
            phases = sorted({*self.steps, *view.implied()})
            is_over = {n for n, step in self.steps.items() if step.status in _CLOSED}
            wanted = next((n for n in phases if n not in is_over), phases[-1] if phases else None)
        if wanted is not None and view.total is not None:
            wanted = max(view.first, min(wanted, read.last_phase(view.total, view.first)))
        if wanted not in (None, view.current):
            self.doc["current_phase"] = wanted

    def _list_pending_phases(self) -> None:
        """Add a pending checkpoint for each phase that the file does not mention elsewhere.

        A new phase gets one even if it is the current phase: otherwise it would disappear from
        the file when the work returns to another phase.
        """
        view = read.View({"": self.doc}, self.where)
        mentioned = {*view.done, *view.checkpoints, *view.timing, *view.implied()}
        mentioned |= {*view.phases()} & self.had.keys()
        if rest := {str(phase): "pending" for phase in self.steps if phase not in mentioned}:
            old = self.part("checkpoints")
            made, is_in_order = old | rest, sorted(old, key=_number) == list(old)
            in_order = sorted(made, key=_number) if is_in_order else made
            self.doc["checkpoints"] = {key: made[key] for key in in_order}

    # -- lifecycle ---------------------------------------------------------------------------------

    def _write_completion(self) -> None:
        was, want, is_over = self.was, self.want, self.want.status == "completed"
        has_end = is_over and want.ended_at not in (None, was.ended_at)
        is_new = has_end or (is_over and was.status != "completed")
        # Read the file again: its phases changed, and they can decide whether it is complete.
        if is_new or is_over != (read.View({"": self.doc}, self.where).status == "completed"):
            flags = self.part("lifecycle")
            self.set(flags, "completed", is_over)
            if not is_over:
                self.set(flags, "completed_at", None)
                flags.pop("total_duration_seconds", None)
        if has_end and want.ended_at is not None:
            self.put(self.part("lifecycle"), read.COMPLETED_AT, want.ended_at)
            began = was.began_at if want.began_at is None else want.began_at
            if began is not None:
                lasted = max(0, want.ended_at - began) / 1000
                self.part("lifecycle")["total_duration_seconds"] = lasted

    def _write_pauses(self) -> None:
        was, want = self.was, self.want
        # The file may have the reason of another program, which is more precise than ours.
        is_foreign = was.pause_reason not in ("", *_OUR_REASONS)
        is_same_pause = was.status == want.status == "paused"
        is_vaguer = is_same_pause and is_foreign and want.pause_reason == _OUR_REASONS[0]
        is_stopped = want.status != was.status and {was.status, want.status} & {*_STOPPED}
        if is_stopped or (want.pause_reason != was.pause_reason and not is_vaguer):
            self.set(self.part("lifecycle"), "paused_reason", _reason(want))
        since = want.paused_at
        if since is None and want.status in _STOPPED:
            # In the file a stopped session is also paused, unless only an error shows the stop.
            is_shown = was.paused_at is not None or was.status == want.status
            since = was.paused_at if is_shown else want.ended_at
        latest = _latest(was.resumed_at, want.resumed_at)
        resumes = max(was.resumes, want.resumes)
        new = replace(want, paused_at=since, resumed_at=latest, resumes=resumes)
        self.put_changes("lifecycle", read.PAUSE_FIELDS, new)
        if since is None and was.paused_at is not None:
            self.set(self.part("lifecycle"), "paused", want.status in _PAUSED)

    def _write_error(self) -> None:
        """Write the last error; a praxis file has room for only one."""
        was, want = self.was, self.want
        withdrawn = self.where.withdrawn.errors if self.where.withdrawn else []
        gone = {e.message for e in withdrawn} - {e.message for e in want.errors}
        left = [error for error in was.errors if error.message not in gone]
        error, old = _last_error(left, want), was.errors[-1] if was.errors else None
        if error is None and left == was.errors:
            return
        if error and old and (old.message, old.at) == (error.message, error.at):
            return
        flags = self.part("lifecycle")
        if error is None or old is None or old.message != error.message:
            flags["last_error"] = error.message if error else None
        self.put(flags, read.ERROR_AT, error.at if error else None)

    def _write_pause_flag(self) -> None:
        # An error, or a resume after an error, may have changed the status but not the flag.
        now = read.View({"": self.doc}, self.where).status
        if not now == self.was.status == self.want.status:
            flags = self.part("lifecycle")
            self.set(flags, "paused", self.want.status in _PAUSED)
            if self.want.status == "failed":
                self.set(flags, "paused_reason", "system_error")


def _reason(want: Facts) -> str | None:
    if want.pause_reason in PAUSE_REASONS:
        return want.pause_reason
    is_stopped = want.status in ("aborted", "abandoned")
    return "user_request" if is_stopped or want.pause_reason else None


def _last_error(left: list[ErrorFact], want: Facts) -> ErrorFact | None:
    known = [*left, *want.errors]
    if want.status == "failed" and want.because:
        same = [error for error in known if error.message == want.because]
        at = want.updated_at if want.ended_at is None else want.ended_at
        return same[-1] if same else ErrorFact(want.because, at=at)
    return max(reversed(known), key=lambda error: error.at or 0, default=None)


def _latest(old: int | None, new: int | None) -> int | None:
    return max((moment for moment in (old, new) if moment is not None), default=None)


def _clock(step: StepFact) -> tuple[object, ...]:
    return step.status, step.started_at, step.ended_at, step.paused_ms


def _number(key: str) -> tuple[int, str]:
    """Return a sort key that orders texts of digits as numbers, and other texts by themselves."""
    return len(key), key
