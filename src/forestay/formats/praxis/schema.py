"""Check praxis session files: one table of rules per generation, and checks across values.

A finding is an error if another reader refuses or misunderstands the value, a warning if readers
tolerate it, and an info if it is only a useful remark. Files of older generations are checked by
the rules of their generation, and get one warning for the old form. `strict` adds the rules for
files that we write.

`restore_required` restores the keys that no edit may remove.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from msgspec.structs import replace

from forestay.base.findings import Finding
from forestay.formats import carry_over, required_keys, timestamps
from forestay.formats.coerce import copied, mapping, put_back
from forestay.formats.port import (
    ERROR,
    EXTRA,
    INFO,
    WARNING,
    Tree,
    Where,
    load_format,
    unsafe_id,
)
from forestay.formats.praxis import read
from forestay.formats.praxis.write import ATTEMPTS, PAUSE_REASONS, scheme
from forestay.formats.schema import (
    END,
    Rule,
    check_time_order,
    check_value,
    count_rule,
    list_rule,
    object_rule,
    stamp_rule,
    text_rule,
    warn,
)

_VERDICTS = ("passed", "failed", "pending", "skipped")
_SCHEMES = ("zero_based", "one_based")
UUID = re.compile(r"(?:workflow_default_)?[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")


# -- rules -----------------------------------------------------------------------------------------

_stamp = partial(stamp_rule, fine="", says="an ISO 8601 timestamp")
_FREE = Rule(type="object", req="", free=True)


def _number(req: str) -> Rule:
    return Rule(type="number", req=req, low=0, null=True)


def _by_phase(req: str, each: Rule) -> Rule:
    return Rule(type="object", req=req, each=each)


def _phase(req: str) -> Rule:
    return count_rule(req, read.LARGEST_PHASE)


# The rules do not limit totals: `_check_totals` checks them.
_STRUCTURE = object_rule(
    "S1-32",
    {
        "total_phases": Rule(req="S1-28"),
        "starting_phase": _phase("S1-29"),
        "indexing_scheme": text_rule("S1-30", words=_SCHEMES),
        "workflow_version": text_rule("S1-31"),
    },
    free=True,
)
_LIFECYCLE = object_rule(
    "S1-40",
    {
        "completed": Rule(type="boolean", req="S1-40"),
        "completed_at": _stamp("S1-41", null=True),
        "paused": Rule(type="boolean", req="S1-42"),
        "paused_at": _stamp("S1-43", null=True),
        "paused_reason": text_rule(
            "S1-44",
            null=True,
            fine=f"^({'|'.join(PAUSE_REASONS)}){END}",
            style="unknown-pause-reason",
            says=f"one of {', '.join(PAUSE_REASONS)}",
        ),
        "paused_context": text_rule("S1-45", null=True),
        "resumed_at": _stamp("S1-46", null=True),
        "resume_count": count_rule("S1-47"),
        "last_error": Rule(req="S1-48"),
        "last_error_at": _stamp("S1-49", null=True),
        "total_duration_seconds": _number("S1-51"),
    },
    optional=("total_duration_seconds",),
    free=True,
)
_TIMES = {
    "started_at": _stamp("S1-36"),
    "completed_at": _stamp("S1-37", null=True),
    "duration_seconds": _number("S1-39"),
    "paused_duration_seconds": _number("S1-39"),
}
_TIMING = object_rule("S1-36", _TIMES, "started_at", optional=_TIMES, free=True)
_ARTIFACT = object_rule(
    "S1-53",
    {
        "phase_number": _phase("S1-53"),
        "evidence": replace(_FREE, req="S1-54"),
        "outputs": replace(_FREE, req="S1-55"),
        "commands_executed": Rule(type="array", req="S1-56"),
        "timestamp": _stamp("S1-57"),
    },
    "phase_number evidence outputs commands_executed timestamp",
    free=True,
)
_METADATA_KEYS = {
    "spec_path": text_rule("S1-62", null=True),
    "user_options": replace(_FREE, req="S1-63"),
    "agent_version": text_rule("S1-64", null=True),
}
_METADATA = object_rule("S1-117", _METADATA_KEYS, optional=_METADATA_KEYS, free=True)
_FIELDS = {
    "session_id": text_rule("S1-25"),
    "workflow_type": text_rule("S1-26"),
    "target_file": text_rule("S1-27"),
    "current_phase": _phase("S1-33"),
    "completed_phases": list_rule("S1-34", _phase("S1-34")),
    "phase_artifacts": _by_phase("S1-52", _ARTIFACT),
    "checkpoints": _by_phase("S1-58", text_rule("S1-58", words=_VERDICTS)),
    "created_at": _stamp("S1-60"),
    "updated_at": _stamp("S1-61"),
}
_SECTIONS = {
    "workflow_structure": _STRUCTURE,
    "phase_timing": _by_phase("S1-35", _TIMING),
    "lifecycle": _LIFECYCLE,
}
_REDESIGN = object_rule(
    "S1-25", _FIELDS | _SECTIONS | {"metadata": _METADATA}, " ".join(_FIELDS), free=True
)
_STATUSES = ("active", "paused", "completed", "error")
_SECOND = {
    "phase_timings": _by_phase("S1-35", _TIMING),
    "status": text_rule("X1-12", words=_STATUSES, mild=True),
}
_OLDER = object_rule(
    "S1-25",
    _REDESIGN.keys | _SECOND,
    " ".join(_FIELDS),
    optional=(*_SECTIONS, *_SECOND),
    free=True,
)
_MAPS = {"phase_artifacts": "S1-52", "checkpoints": "S1-58"} | dict.fromkeys(
    ("phase_timing", "phase_timings", ATTEMPTS, "evidence_submitted"), "S1-35"
)


# -- checking --------------------------------------------------------------------------------------


def check_file(tree: Tree, where: Where, *, strict: bool) -> list[Finding]:
    """Return every deviation of a session file."""
    view = read.View(tree, where)
    if not isinstance(tree.get(view.name), dict):
        return [Finding("not-an-object", ERROR, "the file is not a JSON object", file=view.name)]
    found = [each for check in _CHECKS for each in check(view, where, strict)]
    return [finding._replace(file=view.name) for finding in found]


def _check_rules(view: read.View, where: Where, strict: bool) -> Iterator[Finding]:
    doc = view.doc
    for key, req in _MAPS.items():
        entries, good = doc.get(key), read.by_phase(doc, key)
        if isinstance(entries, dict) and len(good) != len(entries):
            doc = {**doc, key: {str(phase): entry for phase, entry in good.items()}}
            for name in entries.keys() - doc[key].keys():
                message = f"{name!r} is not the number of a phase"
                yield warn("bad-phase-key", message, f"{key}.{name}", req)
    if strict and not view.redesigned:
        yield warn("not-redesigned", "Forestay writes only the redesigned form", "", "S1-32", ERROR)
    yield from check_value(_REDESIGN if view.redesigned else _OLDER, doc, strict=strict)


def _check_totals(view: read.View, where: Where, strict: bool) -> Iterator[Finding]:
    for path, node, req in (
        ("workflow_structure", view.structure, "S1-28"),
        ("metadata", view.metadata, "S1-125"),
    ):
        total = node.get("total_phases")
        if not (total is None or total == "dynamic" or read.is_count(total)):
            message = f"{path}.total_phases is not a positive integer or null"
            yield warn("wrong-type", message, f"{path}.total_phases", req, ERROR)


def _check_id(view: read.View, where: Where, strict: bool) -> Iterator[Finding]:
    id = view.doc.get("session_id")
    if isinstance(id, str) and (problem := unsafe_id(id)):
        yield warn("unsafe-id", problem, "session_id", "X1-10", ERROR)
    if strict and not UUID.match(view.text("session_id")):
        yield warn("id-not-uuid", "session_id is not a UUID", "session_id", "X1-10", ERROR)


def _check_form(view: read.View, where: Where, strict: bool) -> Iterator[Finding]:
    if not view.redesigned:
        yield warn("legacy-format", read.LEGACY_WARNING, "", "S1-126")
    if view.total is None:
        has_flag = view.redesigned or "status" in view.doc
        then = "only its flag shows" if has_flag else "nothing shows"
        message = f"the number of phases is unknown, so {then} whether the session is complete"
        req = "S1-28" if view.redesigned else "S1-89"
        yield warn("total-unknown", message, "workflow_structure.total_phases", req, INFO)
    if view.doc.get("error_reason") == "manually_deleted":
        message = "the session was deleted by hand; its program leaves such files in place"
        yield warn("deleted-by-hand", message, "error_reason", "X1-13", INFO)
    naive = [key for key in ("created_at", "updated_at") if timestamps.is_naive(view.doc.get(key))]
    if naive:
        message = "times without a zone are read as local time"
        yield warn("naive-stamp", message, naive[0], "S1-60", INFO)


def _check_structure(view: read.View, where: Where, strict: bool) -> Iterator[Finding]:
    named, start = view.structure.get("indexing_scheme"), view.structure.get("starting_phase", 0)
    if named in _SCHEMES and read.is_phase(start) and named != scheme(start):
        message = f"a workflow that starts with phase {start} is {scheme(start)}"
        at = "workflow_structure.indexing_scheme"
        yield warn("scheme-mismatch", message, at, "S1-67", ERROR)
    total, noted = view.structure.get("total_phases"), view.metadata.get("total_phases")
    if read.is_count(total) and read.is_count(noted) and noted != total:
        message = f"metadata.total_phases is {noted}, but the session started with {total} phases"
        yield warn("total-changed", message, "metadata.total_phases", "S1-137")


def _check_range(view: read.View, where: Where, strict: bool) -> Iterator[Finding]:
    if len(view.completed) != len(view.done):
        message = "a phase is listed as completed more than once"
        yield warn("duplicate-phase", message, "completed_phases", "S1-76")
    if view.total is None:
        return
    last = read.last_phase(view.total, view.first)
    if view.current is not None and view.current != view.position:
        message = f"current_phase is {view.current}, outside {view.first} to {last}"
        severity = ERROR if view.redesigned else WARNING
        yield warn("current-out-of-range", message, "current_phase", "S1-20", severity)
    if over := sorted(phase for phase in view.done if not view.first <= phase <= last):
        some = ", ".join(map(str, over[:10])) + (" …" if len(over) > 10 else "")
        message = f"phases outside {view.first} to {last} are listed as completed: {some}"
        yield warn("overrun", message, "completed_phases", "S1-85")


_VERDICT_FAULTS = {
    (True, "failed"): ("completed-but-failed", "S1-82", ERROR),
    (True, "pending"): ("completed-but-pending", "S1-76", WARNING),
    (False, "passed"): ("passed-not-completed", "S1-76", WARNING),
}
"""Whether a phase is listed as completed, and its verdict → the code of the contradiction."""


def _check_verdicts(view: read.View, where: Where, strict: bool) -> Iterator[Finding]:
    for phase, artifact in view.artifacts.items():
        number = artifact.get("phase_number")
        if read.is_phase(number) and number != phase:
            message = f"the artifact of phase {phase} names phase {number}"
            at = f"phase_artifacts.{phase}.phase_number"
            yield warn("phase-mismatch", message, at, "S1-53")
    for phase, word in sorted(view.checkpoints.items()):
        is_done, verdict = phase in view.done, read.verdict_of(word)
        if (is_done, verdict) in _VERDICT_FAULTS:
            code, req, severity = _VERDICT_FAULTS[is_done, verdict]
            listed = "listed as completed" if is_done else "not listed as completed"
            message = f"phase {phase} is {listed}, but its checkpoint is {verdict}"
            yield warn(code, message, f"checkpoints.{phase}", req, severity)


def _check_times(view: read.View, where: Where, strict: bool) -> Iterator[Finding]:
    yield from check_time_order(view.doc, ("created_at", "updated_at"), "", "S1-61", where)
    for phase, entry in sorted(view.timing.items()):
        at = f"{view.timing_key}.{phase}"
        started, ended = view.stamp(entry, "started_at"), view.stamp(entry, "completed_at")
        if ended is None and phase in view.done:
            message = f"phase {phase} is listed as completed, but has no end time"
            yield warn("completed-without-end", message, f"{at}.completed_at", "S1-38")
        if ended is not None and phase not in view.done:
            message = f"phase {phase} has an end time, but is not completed: read as in progress"
            yield warn("ended-not-completed", message, f"{at}.completed_at", "S1-75")
        yield from check_time_order(entry, ("started_at", "completed_at"), at, "S1-37", where)
        written = entry.get("duration_seconds")
        is_number = isinstance(written, int | float) and not isinstance(written, bool)
        if started is not None and ended is not None and started <= ended and is_number:
            active = (ended - started) / 1000 - read.seconds(entry.get("paused_duration_seconds"))
            if abs(read.seconds(written) - max(0.0, active)) > 1:
                message = "the duration is not the time from start to end without the pauses"
                yield warn("duration-mismatch", message, f"{at}.duration_seconds", "S1-39", INFO)


def _check_flags(view: read.View, where: Where, strict: bool) -> Iterator[Finding]:
    flags = view.lifecycle
    if not view.redesigned or not flags:
        return
    is_flagged = flags.get("completed") is True
    if view.complete and not is_flagged and not _was_resumed(view):
        message = "all phases are completed, but lifecycle.completed is not true"
        yield warn("complete-not-flagged", message, "lifecycle.completed", "S1-16")
    is_over = all(view.phase_status(phase) in ("done", "skipped") for phase in view.implied())
    if is_flagged and view.total is not None and not is_over:
        message = "lifecycle.completed is true, but not all phases are completed"
        yield warn("flagged-early", message, "lifecycle.completed", "S1-84")
    if is_flagged != (flags.get("completed_at") is not None):
        message = "completed and completed_at contradict each other"
        yield warn("completion-time", message, "lifecycle.completed_at", "S1-41")
    if is_flagged and flags.get("paused") is True:
        message = "the session is both completed and paused"
        yield warn("completed-and-paused", message, "lifecycle.paused", "S1-42")


def _was_resumed(view: read.View) -> bool:
    """Return whether a completed session was resumed, which only our key `forestay` shows."""
    tree = {view.name: view.doc}
    return carry_over.read(load_format("praxis"), tree, view.where).status != "completed"


_CHECKS: tuple[Callable[[read.View, Where, bool], Iterator[Finding]], ...] = (
    _check_rules,
    _check_totals,
    _check_id,
    _check_form,
    _check_structure,
    _check_range,
    _check_verdicts,
    _check_times,
    _check_flags,
)


# -- what no edit may remove -----------------------------------------------------------------------


def restore_required(tree: Tree, before: Tree, where: Where) -> tuple[Tree, list[str]]:
    """Return a session file with the required keys and the structure that it had before.

    The required keys are those that `check_file` reports as missing. A program that knows only the
    first generation removes or empties the sections that show the generation, so these are restored
    first. The structure that the session started with is restored unless the workflow changed.
    """
    was, now = read.View(before, where), read.View(tree, where)
    if not (was.doc and now.doc and was.redesigned):
        return tree, []
    name, doc = now.name, copied(now.doc)
    if not now.redesigned:
        doc = {key: value for key, value in doc.items() if key not in read.REDESIGNED}
    lost = [k for k in _SECTIONS if k in was.doc and not isinstance(doc.get(k), dict)]
    if lost:
        # A program that removed these sections does not know our own keys either.
        lost += [key for key in (ATTEMPTS, EXTRA) if key in was.doc and key not in doc]
    for key in lost:
        put_back(doc, was.doc, key)
    if "phase_timing" in lost:
        _end_passed_phases(doc, was, where)

    def concerns(finding: Finding) -> bool:
        # If the other values of an entry changed, it is a new entry: restore nothing in it.
        *parents, key = finding.where.split(".")
        entry, former = doc, was.doc
        for parent in parents:
            entry, former = mapping(entry.get(parent)), mapping(former.get(parent))
        return len(parents) < 2 or all(entry[n] == former.get(n) for n in entry if n != key)

    made, restored = required_keys.restore_required(
        load_format("praxis"), {name: doc}, {name: was.doc}, where, concerns, _is_lacking
    )
    doc = made[name]
    notes = [*(f"{place} was removed" for place in lost), *restored]
    if was.text("workflow_type") == read.View({"": doc}, where).text("workflow_type"):
        structure = mapping(doc.get("workflow_structure"))
        for key, is_valid in _SNAPSHOT.items():
            if is_valid(was.structure.get(key)) and structure.get(key) != was.structure[key]:
                structure[key] = was.structure[key]
                notes.append(f"workflow_structure.{key} was changed")
    now = read.View({"": doc}, where)
    # A number after the last phase can mean that all phases are over; others are invalid.
    if now.current != now.position and not now.complete and was.current is not None:
        doc["current_phase"] = was.current
        notes.append(f"current_phase: {now.current} is not a phase")
    return ({**tree, name: doc}, notes) if notes else (tree, [])


_SNAPSHOT: dict[str, Callable[[Any], bool]] = {
    "total_phases": read.is_count,
    "starting_phase": read.is_phase,
    "indexing_scheme": lambda named: named in _SCHEMES,
}


def _is_lacking(finding: Finding) -> bool:
    return finding.code in ("wrong-type", "bad-stamp", "completed-without-end")


def _end_passed_phases(doc: dict[str, Any], was: read.View, where: Where) -> None:
    """Set the missing times of phases that a program without times marked as passed.

    Such a phase ends at the time of its evidence, and the next phase starts then.
    """
    now, timing = read.View({"": doc}, where), mapping(doc["phase_timing"])
    for phase in now.completed:
        at = now.stamp(now.artifacts.get(phase, {}), "timestamp")
        if at is None or phase in was.done:
            continue
        entry = mapping(timing.get(str(phase)))
        ended = max(at, now.stamp(entry, "started_at") or at)
        stamp = timestamps.write(ended, doc.get("created_at"), naive=where.naive)
        entry.setdefault("completed_at", stamp)
        if phase + 1 in now.implied():
            timing.setdefault(str(phase + 1), {"started_at": stamp})
