"""Write facts into a praxis session file in the redesigned form.

A fact is compared with the one read from the old file, and the file is changed only where the two
differ; so a file that contains the facts already is left alone, in whatever spelling.

Phases are numbered. Steps that came from such a file carry their number in their id (`phase-3`);
other steps are numbered in their order (`number_phases`). Only the outermost steps are phases, and
where some of them have the unit `phase`, only those.

A verdict that is replaced moves to `phase_attempts` with its evidence and its times. `upgrade`
returns the redesigned form of a file of an older generation; `legacy` writes those in their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from forestay.formats import status_words, timestamps
from forestay.formats.coerce import copied
from forestay.formats.facts import CheckpointFact, ErrorFact, Facts, StepFact
from forestay.formats.port import Where
from forestay.formats.praxis.read import (
    NO_TARGET,
    NO_WORKFLOW,
    PREFIX,
    REDESIGNED,
    View,
    evidence_of,
    is_count,
    is_phase,
    last_phase,
    phase_id,
    phase_of,
    read_facts,
    seconds,
    verdict_of,
)

LIFECYCLE: dict[str, Any] = {
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
STRUCTURE: dict[str, Any] = {
    "total_phases": None,
    "starting_phase": 0,
    "indexing_scheme": "zero_based",
    "workflow_version": "",
}
PAUSE_REASONS = ("user_request", "checkpoint_failed", "system_error")
_OURS = (*PAUSE_REASONS, "inactivity")
ATTEMPTS = "phase_attempts"
_WHOLE = {"lifecycle": LIFECYCLE, "workflow_structure": STRUCTURE}
"""Sections that are created with all their keys, which other readers rely on."""

_PAUSED = ("paused", "failed", "aborted", "abandoned")
_STOPPED = ("failed", "aborted", "abandoned")
_OPEN = ("running", "blocked", "needs_review")
_CLOSED = ("done", "skipped")
_TRANSLATED = (*REDESIGNED, "status", "completed_at", "evidence_submitted", "phase_timings")


# -- the whole file ------------------------------------------------------------------------------


def create_file(wanted: Facts, session_id: str, where: Where) -> dict[str, Any]:
    """Return a new file with every key of the document, in its order."""
    base = _base(wanted)
    total = wanted.plan_total if is_count(wanted.plan_total) else where.total
    doc = _blank(session_id, base, total)
    doc["created_at"] = doc["updated_at"] = timestamps.write(first_moment(wanted, where))
    return write_document(doc, wanted, where)


def first_moment(wanted: Facts, where: Where) -> int:
    return timestamps.first(wanted.began_at, wanted.updated_at, where.now)


def _base(wanted: Facts) -> int:
    if is_phase(wanted.plan_base):
        return wanted.plan_base
    # A step whose id is no phase may come before the first one that is.
    numbers = [phase_of(step.id) or 0 for step in wanted.steps if not step.parent]
    return 1 if min(numbers, default=0) == 1 else 0


def _blank(session_id: str, base: int, total: int | None) -> dict[str, Any]:
    return {
        "session_id": session_id,
        "workflow_type": NO_WORKFLOW,
        "target_file": NO_TARGET,
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


def write_document(
    doc: dict[str, Any], wanted: Facts, where: Where, status: str = ""
) -> dict[str, Any]:
    """Change the document in place where the facts differ from it, and return it.

    `status` is the exact status, where our own key has a finer word than the file.
    """
    view = View({"": doc}, where)
    was = read_facts(view)
    was.status = status or was.status
    Edit(doc, view, was, wanted, where).apply()
    return doc


def upgrade(view: View, where: Where) -> dict[str, Any]:
    """Return a file of an older generation in the redesigned form, with its unknown keys."""
    said = read_facts(view)
    doc = _blank(said.native_id, view.first, view.total)
    old = {key: value for key, value in copied(view.doc).items() if key not in _TRANSLATED}
    fitting = {key: value for key, value in old.items() if _fits(doc, key, value)}
    # A missing time is replaced by the other one, else by now.
    times = [time for key in ("created_at", "updated_at") if timestamps.read(time := old.get(key))]
    moment = [*times, timestamps.write(where.now)][0]
    doc.update({"created_at": moment, "updated_at": moment} | fitting)
    for phase in view.submitted:
        if phase not in view.artifacts:
            doc["phase_artifacts"][str(phase)] = _handed_in(view, phase)
    if view.position is not None:
        doc["current_phase"] = view.position
    if view.complete:
        doc["lifecycle"]["completed"] = True
    return write_document(doc, said, where)


def _fits(doc: dict[str, Any], key: str, value: object) -> bool:
    return key not in doc or type(doc[key]) is type(value)


def _handed_in(view: View, phase: int) -> dict[str, Any]:
    stamp = view.timing.get(phase, {}).get("completed_at") or view.doc.get("updated_at")
    return artifact(phase, copied(evidence_of(view, phase)), stamp)


def artifact(phase: int, evidence: dict[str, Any], stamp: object) -> dict[str, Any]:
    return {
        "phase_number": phase,
        "evidence": evidence,
        "outputs": {},
        "commands_executed": [],
        "timestamp": stamp,
    }


def number_phases(wanted: Facts) -> dict[int, int]:
    """Return the steps that are phases of the file: number → index of the step."""
    outer = [place for place, step in enumerate(wanted.steps) if not step.parent]
    named = [place for place in outer if wanted.steps[place].unit == "phase"]
    found: dict[int, int] = {}
    rest: list[int] = []
    for place in named or outer:
        number = phase_of(wanted.steps[place].id)
        if number is None or number in found:
            rest.append(place)
        else:
            found[number] = place
    free = _free(found, _base(wanted))
    found.update({next(free): place for place in rest})
    return dict(sorted(found.items()))


def _free(taken: dict[int, int], base: int) -> Iterator[int]:
    used = set(taken)
    number = base
    while True:
        if number not in used:
            yield number
        number += 1


def _by_number(said: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Return both maps as one, in the order of phases if the first one is ordered."""
    made, is_in_order = said | more, sorted(said, key=_number) == list(said)
    return {key: made[key] for key in sorted(made, key=_number)} if is_in_order else made


def _number(key: str) -> tuple[int, str]:
    """Return a sort key that orders numeric texts as numbers, and works for other texts."""
    return len(key), key


# -- one edit --------------------------------------------------------------------------------------


class Edit:
    """One pass over a document: `was` are the facts in it, `want` those it is to contain."""

    def __init__(
        self, doc: dict[str, Any], view: View, was: Facts, want: Facts, where: Where
    ) -> None:
        self.doc, self.view, self.was, self.want, self.where = doc, view, was, want, where
        self.steps = {number: want.steps[place] for number, place in number_phases(want).items()}
        self.had = {n: s for s in was.steps if (n := phase_of(s.id)) is not None}
        numbers = {step.id: number for number, step in self.steps.items() if step.id}
        self.numbers = self._with_nested(numbers)
        self.checks = self._by_number(want)
        self.judged = {phase_of(c.step): c for c in was.checkpoints}
        self.listed = _Listed(doc.get("completed_phases"))
        self.begun = _begun(self.steps, want.began_at)

    def _with_nested(self, numbers: dict[str, int]) -> dict[str, int]:
        """Give steps inside a phase the number of the phase."""
        for step in self.want.steps:
            if step.id and step.parent in numbers:
                numbers.setdefault(step.id, numbers[step.parent])
        return numbers

    def _by_number(self, want: Facts) -> dict[int, CheckpointFact]:
        found: dict[int, CheckpointFact] = {}
        for check in want.checkpoints:
            number = self.numbers.get(check.step, phase_of(check.step))
            if number is not None:
                found[number] = check
        return found

    def apply(self) -> None:
        self._write_identity()
        self._write_structure()
        self.view = View({"": self.doc}, self.where)
        self._remove_gone_phases()
        for phase in sorted({*self.steps, *self.checks}):
            self._write_phase(phase)
        if self.listed.is_changed:
            self.doc["completed_phases"] = self.listed.now()
        self._write_position()
        self._list_pending_phases()
        self._write_completion()
        self._write_pauses()
        self._write_error()
        self._write_pause_flag()
        self._write_metadata()
        self._write_times()

    def part(self, key: str) -> dict[str, Any]:
        """Return a section to write into; one of a wrong type is replaced."""
        if not isinstance(self.doc.get(key), dict):
            self.doc[key] = dict(_WHOLE.get(key, {}))
        made: dict[str, Any] = self.doc[key]
        return made

    def entry(self, key: str, phase: int) -> Any:
        """Return the entry of a phase in one of the maps of phases."""
        part = self.doc.get(key)
        return part.get(str(phase)) if isinstance(part, dict) else None

    def set(self, part: dict[str, Any], key: str, value: object) -> None:
        """Write a value, unless it is empty and the key is absent."""
        is_empty = value is None or value is False or value == 0
        if key in part or not is_empty:
            part[key] = value

    def stamp(self, part: dict[str, Any], key: str, moment: int) -> None:
        """Write a time in the style of the stamp it replaces, unless that is the same time.

        A new stamp has the style of `created_at`: a program that subtracts one time from another
        fails when only one of them has a zone.
        """
        naive = self.where.naive
        old = timestamps.read(part.get(key), naive)
        style = self.doc.get("created_at") if old is None else part[key]
        text = timestamps.write(moment, style, naive=naive)
        if timestamps.read(text, naive) != old:
            part[key] = text

    # -- identity and structure --------------------------------------------------------------------

    def _write_identity(self) -> None:
        if not self.was.native_id and self.want.native_id:
            self.set(self.doc, "session_id", self.want.native_id)
        for key, old, new in (
            ("workflow_type", self.was.workflow, self.want.workflow),
            ("target_file", self.was.target, self.want.target),
        ):
            if new and new != old:
                self.doc[key] = new

    def _write_structure(self) -> None:
        was, want = self.was, self.want
        if want.workflow_version and want.workflow_version != was.workflow_version:
            self.part("workflow_structure")["workflow_version"] = want.workflow_version
        if want.plan_total != was.plan_total and is_count(want.plan_total):
            self.part("workflow_structure")["total_phases"] = want.plan_total
        if is_phase(want.plan_base) and want.plan_base != was.plan_base:
            part = self.part("workflow_structure")
            part["starting_phase"] = want.plan_base
            part["indexing_scheme"] = scheme(want.plan_base)

    def _write_metadata(self) -> None:
        for name, value in self.want.attributes.items():
            key = name.removeprefix(PREFIX)
            if key == name or key == "total_phases":
                continue
            old = self.was.attributes.get(name)
            if type(old) is not type(value) or old != value:
                self.part("metadata")[key] = value

    def _write_times(self) -> None:
        """Write the start and the time of the last change, which never goes back."""
        was, want = self.was, self.want
        if want.began_at is not None and want.began_at != was.began_at:
            self.stamp(self.doc, "created_at", want.began_at)
        if _after(want.updated_at, was.updated_at):
            self.stamp(self.doc, "updated_at", want.updated_at or 0)

    # -- phases ------------------------------------------------------------------------------------

    def _remove_gone_phases(self) -> None:
        kept = {*self.steps, *self.checks, *self.view.implied(), *self._indirect_phases()}
        for phase in self.had:
            if phase not in kept and phase_id(phase) != self.want.position:
                self._archive_attempt(phase)
                for key in (self.view.timing_key, "checkpoints"):
                    if isinstance(self.doc.get(key), dict):
                        self.doc[key].pop(str(phase), None)

    def _write_phase(self, phase: int) -> None:
        step, check = self.steps.get(phase), self.checks.get(phase)
        had, judged = self.had.get(phase), self.judged.get(phase)
        status = step.status if step else None
        verdict = check.verdict if check else ""
        moved = (had.status if had else None) != status
        if moved or (check and verdict != (judged.verdict if judged else "pending")):
            self._write_verdict(phase, _word(status, verdict), status)
        if check is not None:
            self._write_evidence(phase, check, judged)
        if step is not None:
            self._write_timing(phase, step, had)

    def _write_verdict(self, phase: int, word: str, status: str | None) -> None:
        if word != verdict_of(self.entry("checkpoints", phase)):
            self._archive_attempt(phase)
            self.part("checkpoints")[str(phase)] = word
        if status == "done" or (status is None and word == "passed"):
            self.listed.add(phase)
        else:
            self.listed.remove(phase)

    def _list_pending_phases(self) -> None:
        """List phases that the file does not mention otherwise as pending.

        A new phase is listed even if it is the current one: it remains when the work returns to
        another phase.
        """
        view = View({"": self.doc}, self.where)
        mentioned = {*view.done, *view.checkpoints, *view.timing, *view.implied()}
        mentioned |= {*self._indirect_phases()} | ({*view.phases()} & self.had.keys())
        if rest := {str(phase): "pending" for phase in self.steps if phase not in mentioned}:
            self.doc["checkpoints"] = _by_number(self.part("checkpoints"), rest)

    def _indirect_phases(self) -> list[int]:
        """Return phases that the file mentions only indirectly."""
        return []

    def _archive_attempt(self, phase: int) -> None:
        """Move a verdict with its evidence and its times to the former attempts."""
        said = self.view.verdict(phase)
        handed = self.entry("phase_artifacts", phase)
        self.listed.remove(phase)
        if said == "pending" and not evidence_of(self.view, phase):
            return
        attempt: dict[str, Any] = {"checkpoint": said}
        if isinstance(handed, dict):
            attempt.update(self.doc["phase_artifacts"].pop(str(phase)))
        timing = self.entry(self.view.timing_key, phase)
        if timing is not None:
            attempt["timing"] = copied(timing)
        kept = self.part(ATTEMPTS)
        before = kept.get(str(phase))
        kept[str(phase)] = [*(before if isinstance(before, list) else []), attempt]

    def _write_evidence(
        self, phase: int, check: CheckpointFact, judged: CheckpointFact | None
    ) -> None:
        now = verdict_of(self.entry("checkpoints", phase))
        if check.verdict != now or (judged and _same(check, judged)):
            return
        handed = self.entry("phase_artifacts", phase)
        if not isinstance(handed, dict):
            if not check.evidence and (check.at is None or now == "pending"):
                return
            handed = artifact(phase, {}, "")
            self.part("phase_artifacts")[str(phase)] = handed
        if evidence_of(self.view, phase) != check.evidence or not handed.get("evidence"):
            handed["evidence"] = copied(check.evidence)
        self._stamp_evidence(handed, phase, check)

    def _stamp_evidence(self, handed: dict[str, Any], phase: int, check: CheckpointFact) -> None:
        step = self.steps.get(phase)
        ended = step.ended_at if step else None
        known = timestamps.first(ended, self.want.updated_at, self.where.now)
        if check.at is not None:
            self.stamp(handed, "timestamp", check.at)
        elif not handed.get("timestamp"):
            # A reader of these files refuses evidence without a time.
            self.stamp(handed, "timestamp", known)

    def _write_timing(self, phase: int, step: StepFact, had: StepFact | None) -> None:
        had = had or StepFact("")
        # Times that the file already has, an odd start too, are not written again.
        if _clock(had) in (_clock(step), _clock(step := self._with_start(phase, step))):
            return
        entry = self.entry(self.view.timing_key, phase)
        if step.status == "pending":
            if entry is not None:
                del self.doc[self.view.timing_key][str(phase)]
            return
        if not isinstance(entry, dict):
            if step.status not in _OPEN and step.started_at is None:
                return  # other readers fail on an entry without a start
            entry = self.part(self.view.timing_key)[str(phase)] = self._new_timing(phase)
        self._write_clock(phase, entry, step, had)

    def _with_start(self, phase: int, step: StepFact) -> StepFact:
        """Let a completed phase without a start begin when the phase before it ended."""
        if step.started_at is not None or step.status != "done" or step.ended_at is None:
            return step
        began = self.begun[phase]
        known = began is not None and began <= step.ended_at
        return replace(step, started_at=began if known else None)

    def _new_timing(self, phase: int) -> dict[str, Any]:
        return {}

    def _write_clock(
        self, phase: int, entry: dict[str, Any], step: StepFact, had: StepFact
    ) -> None:
        if step.started_at is not None and step.started_at != had.started_at:
            self._write_start(phase, entry, step)
        elif not entry.get("started_at"):
            known = timestamps.first(self.want.updated_at, self.was.updated_at, self.where.now)
            self.stamp(entry, "started_at", known)
        if step.paused_ms is not None and step.paused_ms != had.paused_ms:
            entry["paused_duration_seconds"] = step.paused_ms / 1000
        if step.status != "done":
            # A program that reopened the phase may have left its end time.
            for key in ("completed_at", "duration_seconds"):
                self._clear(entry, key)
        elif step.ended_at is not None:
            if step.ended_at != had.ended_at:
                # The start may come from a clock ahead of ours: times never go back.
                began = timestamps.read(entry.get("started_at"), self.where.naive)
                self.stamp(entry, "completed_at", max(step.ended_at, began or step.ended_at))
            self._write_duration(entry)

    def _write_start(self, phase: int, entry: dict[str, Any], step: StepFact) -> None:
        """Write another start of a phase; earlier pauses no longer count."""
        before = entry.get("started_at")
        self.stamp(entry, "started_at", self._start_in_file(phase, step.started_at or 0))
        if step.paused_ms is None and entry["started_at"] != before:
            entry.pop("paused_duration_seconds", None)

    def _start_in_file(self, phase: int, began: int) -> int:
        """Return a start that is not before the end of the former phase in the file."""
        former, entry = self.steps.get(phase - 1), self.entry(self.view.timing_key, phase - 1)
        ended = former.ended_at if former else None
        if ended is None or ended > began or not isinstance(entry, dict):
            return began
        return max(began, timestamps.read(entry.get("completed_at"), self.where.naive) or began)

    def _clear(self, entry: dict[str, Any], key: str) -> None:
        entry.pop(key, None)

    def _write_duration(self, entry: dict[str, Any]) -> None:
        """Write the active time, without the pauses."""
        naive = self.where.naive
        started, ended = (
            timestamps.read(entry.get(k), naive) for k in ("started_at", "completed_at")
        )
        paused = seconds(entry.get("paused_duration_seconds"))
        if started is not None and ended is not None:
            entry["duration_seconds"] = max(0.0, round((ended - started) / 1000 - paused, 3))

    def _write_position(self) -> None:
        view = self.view
        here = "" if view.position is None else phase_id(view.position)
        if self.want.position == self.was.position == here:
            return
        wanted = self.numbers.get(self.want.position, phase_of(self.want.position))
        if wanted is None:
            wanted = self._first_open_phase()
        if wanted is None:
            return
        if view.total is not None:
            wanted = max(view.first, min(wanted, last_phase(view.total, view.first)))
        if wanted != view.current:
            self.doc["current_phase"] = wanted

    def _first_open_phase(self) -> int | None:
        """Return the first phase that is not over, or the last phase."""
        phases = sorted({*self.steps, *self.view.implied()})
        still = (p for p in phases if p not in self.steps or self.steps[p].status not in _CLOSED)
        return next(still, phases[-1] if phases else None)

    # -- lifecycle ---------------------------------------------------------------------------------

    def _write_completion(self) -> None:
        want, over = self.want, self.want.status == "completed"
        ended = over and want.ended_at is not None and want.ended_at != self.was.ended_at
        news = ended or (over and self.was.status != "completed")
        # Read again: the file may have been complete by its phases, which have changed.
        if news or over != (View({"": self.doc}, self.where).status == "completed"):
            flags = self.part("lifecycle")
            self.set(flags, "completed", over)
            if not over:
                self.set(flags, "completed_at", None)
                flags.pop("total_duration_seconds", None)
        if ended:
            self._write_end(want.ended_at or 0)

    def _write_end(self, moment: int) -> None:
        flags = self.part("lifecycle")
        self.stamp(flags, "completed_at", moment)
        began = self.want.began_at if self.want.began_at is not None else self.was.began_at
        if began is not None:
            flags["total_duration_seconds"] = max(0, moment - began) / 1000

    def _write_pauses(self) -> None:
        was, want = self.was, self.want
        stopped = not {was.status, want.status}.isdisjoint(_STOPPED)
        said = want.pause_reason != was.pause_reason and not self._has_foreign_reason()
        if said or (want.status != was.status and stopped):
            self.set(self.part("lifecycle"), "paused_reason", _reason(want))
        if want.pause_context != was.pause_context:
            self.set(self.part("lifecycle"), "paused_context", want.pause_context or None)
        since = self._paused_since()
        if since is None and was.paused_at is not None:
            self.set(self.part("lifecycle"), "paused_at", None)
            self.set(self.part("lifecycle"), "paused", want.status in _PAUSED)
        elif since is not None and since != was.paused_at:
            self.stamp(self.part("lifecycle"), "paused_at", since)
        if _after(want.resumed_at, was.resumed_at):
            self.stamp(self.part("lifecycle"), "resumed_at", want.resumed_at or 0)
        if want.resumes > was.resumes:
            self.set(self.part("lifecycle"), "resume_count", want.resumes)

    def _has_foreign_reason(self) -> bool:
        """Return whether the file has a pause reason of another program, which is more precise."""
        was, want = self.was, self.want
        same = was.status == want.status == "paused" and bool(was.pause_reason)
        return same and was.pause_reason not in _OURS and want.pause_reason == _OURS[0]

    def _paused_since(self) -> int | None:
        """Return since when the session is paused; in the file a stopped session is paused too."""
        was, want = self.was, self.want
        if want.paused_at is not None or want.status not in _STOPPED:
            return want.paused_at
        # A file that shows a failure only by its error is not marked as paused.
        is_said = was.paused_at is not None or was.status == want.status
        return was.paused_at if is_said else want.ended_at

    def _write_pause_flag(self) -> None:
        # An error, or a resume after it, may have changed the status without the flag.
        now = View({"": self.doc}, self.where).status
        if not now == self.was.status == self.want.status:
            flags = self.part("lifecycle")
            self.set(flags, "paused", self.want.status in _PAUSED)
            if self.want.status == "failed":
                self.set(flags, "paused_reason", "system_error")

    def _write_error(self) -> None:
        """Write the last error; a file has room for one."""
        was = self._without_withdrawn()
        error = last_error(was, self.want)
        old = self.was.errors[-1] if self.was.errors else None
        if error is None and was is self.was:
            return
        if error and old and (old.message, old.at) == (error.message, error.at):
            return
        flags = self.part("lifecycle")
        if error is None or old is None or old.message != error.message:
            flags["last_error"] = error.message if error else None
        if error is None or error.at is None:
            self.set(flags, "last_error_at", None)
        else:
            self.stamp(flags, "last_error_at", error.at)

    def _without_withdrawn(self) -> Facts:
        """Return the facts of the file without errors that were withdrawn."""
        taken = {e.message for e in self.where.withdrawn.errors} if self.where.withdrawn else set()
        taken -= {error.message for error in self.want.errors}
        left = [error for error in self.was.errors if error.message not in taken]
        return self.was if left == self.was.errors else replace(self.was, errors=left)


class _Listed:
    """The list of completed phases, with lookups in constant time.

    Elements that are no phase stay; 1.0 or true counts as the number that it equals.
    """

    def __init__(self, listed: object) -> None:
        self._before: list[Any] = listed if isinstance(listed, list) else []
        self._counted = {each for each in self._before if isinstance(each, int | float)}
        self._fixed = {each for each in self._counted if not is_phase(each)}
        self._gone: set[int] = set()
        self._new: dict[int, None] = {}

    @property
    def is_changed(self) -> bool:
        return bool(self._gone or self._new)

    def add(self, phase: int) -> None:
        if phase not in self._counted:
            self._counted.add(phase)
            self._new[phase] = None

    def remove(self, phase: int) -> None:
        if phase in self._counted and phase not in self._fixed:
            self._counted.remove(phase)
            self._gone.add(phase)
            self._new.pop(phase, None)

    def now(self) -> list[Any]:
        kept = [p for p in self._before if not is_phase(p) or p not in self._gone]
        return [*kept, *self._new]


def _begun(steps: dict[int, StepFact], first: int | None) -> dict[int, int | None]:
    """Return when each phase began if only ends are known: when the one before ended."""
    made, before = {}, first
    for number, step in steps.items():
        made[number] = before
        before = step.ended_at or before
    return made


# -- what a fact becomes ---------------------------------------------------------------------------


def _word(status: str | None, verdict: str) -> str:
    """Return the word in `checkpoints` for a step's status and its last verdict."""
    if status is None:
        return verdict_of(verdict)
    word = status_words.unit_word("praxis", status)
    return "failed" if status in _OPEN and verdict == "failed" else word


def _reason(want: Facts) -> str | None:
    if want.status == "failed":
        return "system_error"
    if want.pause_reason in PAUSE_REASONS:
        return want.pause_reason
    stopped = want.status in ("aborted", "abandoned")
    return "user_request" if stopped or want.pause_reason else None


def last_error(was: Facts, want: Facts) -> ErrorFact | None:
    known = [*was.errors, *want.errors]
    if want.status == "failed" and want.because:
        same = [error for error in known if error.message == want.because]
        at = want.updated_at if want.ended_at is None else want.ended_at
        return same[-1] if same else ErrorFact(want.because, at=at)
    ordered = sorted(known, key=lambda error: error.at or 0)
    return ordered[-1] if ordered else None


def _same(check: CheckpointFact, judged: CheckpointFact) -> bool:
    return replace(check, step=judged.step, issue=judged.issue) == judged


def _after(new: int | None, old: int | None) -> bool:
    return new is not None and (old is None or new > old)


def _clock(step: StepFact) -> tuple[object, ...]:
    return step.status, step.started_at, step.ended_at, step.paused_ms
