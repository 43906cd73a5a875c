"""What is wrong with a praxis session file, each fault with the requirement it offends.

An error is what another reader will refuse or misunderstand, a warning what readers live with, an
information what is worth knowing. Files of older generations are measured by what they could know:
their form itself is one warning, with the text that the document gives. `strict` adds what we
demand of files that we write.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeGuard

from msgspec.structs import replace

from holdfast.layout import (
    ERROR,
    EXTRA,
    INFO,
    WARNING,
    Finding,
    Tree,
    Where,
    carry,
    layout,
    stamps,
    unsafe_id,
)
from holdfast.layout.praxis.phases import LEGACY_WARNING, is_count, is_phase, last_phase, seconds
from holdfast.layout.praxis.read import REDESIGNED, View, by_phase, verdict_of
from holdfast.layout.praxis.write import ATTEMPTS, LIFECYCLE, PAUSE_REASONS, scheme
from holdfast.layout.value import copied, mapping, put_back, sequence

_WORDS = ("passed", "failed", "pending", "skipped")
_SCHEMES = ("zero_based", "one_based")
_SECOND_WORDS = ("active", "paused", "completed", "error")
UUID = re.compile(r"(?:workflow_default_)?[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")


def findings(tree: Tree, where: Where, *, strict: bool) -> list[Finding]:
    view = View(tree, where)
    if not isinstance(tree.get(view.name), dict):
        told = Finding("not-an-object", ERROR, "the file holds no object", view.name)
        return [told]
    checks = (*_CHECKS, *(_STRICT if strict else _LENIENT))
    return [replace(found, file=view.name) for check in checks for found in check(view)]


def _tell(code: str, severity: str, where: str, requirement: str, message: str) -> Finding:
    return Finding(code, severity, message, "", where, requirement)


# -- what stays whatever others write --------------------------------------------------------------


def whole(tree: Tree, before: Tree, where: Where) -> tuple[Tree, list[str]]:
    """A session file with the required keys and the structure that it had before.

    What is required is what is found missing. A program that knows only the first generation
    leaves out, or empty, the very sections that show it is of another, so these come first. A
    session is complete by the structure that it started with; another workflow brings another one.
    """
    was, now = View(before, where), View(tree, where)
    if not (was.doc and now.doc and was.redesigned):
        return tree, []
    doc: dict[str, Any] = copied(now.doc)
    if not now.redesigned:
        doc = {key: value for key, value in doc.items() if key not in REDESIGNED}
    gone = [key for key, _, _ in _SECTIONS if _put_back(doc, was.doc, key)]
    if gone:
        # Whoever does not know these does not know either what we keep beside them.
        gone += [key for key in (ATTEMPTS, EXTRA) if _put_back(doc, was.doc, key)]
    if "phase_timing" in gone:
        _time_the_passed(doc, was, where)
    found = findings({now.name: doc}, where, strict=True)
    gone += [f.where for f in found if f.code in _LACKS and _put_back(doc, was.doc, f.where)]
    told = [f"{place} was taken out" for place in gone]
    if was.text("workflow_type") == View({"": doc}, where).text("workflow_type"):
        told += _unchanged(mapping(doc.get("workflow_structure")), was.structure)
    told += _in_range(doc, was, where)
    return ({**tree, now.name: doc}, told) if told else (tree, [])


def _time_the_passed(doc: dict[str, Any], was: View, where: Where) -> None:
    """End what someone passed who knows of no times as its evidence is stamped, and begin the next
    one then."""
    now, timing = View({"": doc}, where), mapping(doc["phase_timing"])
    for phase in now.completed:
        at = now.stamp(now.artifacts.get(phase, {}), "timestamp")
        if at is None or phase in was.done:
            continue
        entry = mapping(timing.get(str(phase)))
        ended = max(at, now.stamp(entry, "started_at") or at)
        text = stamps.write(ended, doc.get("created_at"), naive=where.naive)
        entry.setdefault("completed_at", text)
        if phase + 1 in now.implied():
            timing.setdefault(str(phase + 1), {"started_at": text})


def _unchanged(structure: dict[str, Any], before: dict[str, Any]) -> Iterator[str]:
    for key, fits in _SNAPSHOT.items():
        if fits(before.get(key)) and structure.get(key) != before[key]:
            structure[key] = before[key]
            yield f"workflow_structure.{key} was changed"


def _in_range(doc: dict[str, Any], was: View, where: Where) -> Iterator[str]:
    """A number past the end may say that all is over; else it says of no phase that it is there."""
    now = View({"": doc}, where)
    if now.current != now.position and not now.complete and was.current is not None:
        doc["current_phase"] = was.current
        yield f"current_phase: {now.current} is no phase"


_SNAPSHOT: dict[str, Callable[[Any], bool]] = {
    "total_phases": is_count,
    "starting_phase": is_phase,
    "indexing_scheme": lambda named: named in _SCHEMES,
}


_LACKS = ("missing-field", "wrong-type", "bad-timestamp", "completed-without-end")


def _put_back(doc: dict[str, Any], before: dict[str, Any], path: str) -> bool:
    """Give a key that is not there, or says nothing, the value and the place that it had."""
    *way, key = path.split(".")
    for name in way:
        doc, before = mapping(doc.get(name)), mapping(before.get(name))
    is_there = key in doc and (before.get(key) is None or _is_like(doc[key], before[key]))
    # An entry that says something else now is another one: nothing of the former belongs to it.
    is_other = len(way) > 1 and any(doc[name] != before.get(name) for name in doc if name != key)
    if is_there or key not in before or is_other:
        return False
    put_back(doc, before, key)
    return True


def _is_like(value: object, before: object) -> bool:
    is_section = isinstance(before, dict | list)
    return isinstance(value, type(before)) if is_section else value is not None


# -- fields and their types ------------------------------------------------------------------------

_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "text": (lambda v: isinstance(v, str), "a string"),
    "text?": (lambda v: v is None or isinstance(v, str), "a string or null"),
    "phase": (is_phase, "a phase number"),
    "count?": (lambda v: v is None or v == "dynamic" or is_count(v), "a positive integer or null"),
    "whole": (lambda v: is_phase(v) or is_count(v), "an integer, 0 or more"),
    "number?": (lambda v: v is None or (_is_number(v) and v >= 0), "a number, 0 or more"),
    "flag": (lambda v: isinstance(v, bool), "true or false"),
    "object": (lambda v: isinstance(v, dict), "an object"),
    "list": (lambda v: isinstance(v, list), "a list"),
    "stamp": (lambda v: stamps.read(v) is not None, "an ISO 8601 time stamp"),
    "stamp?": (lambda v: v is None or stamps.read(v) is not None, "an ISO 8601 time stamp or null"),
    "any": (lambda v: True, "a value"),
}
# Key, kind, requirement; the keys before the line are in every generation.
_FIELDS = (
    ("session_id", "text", "S1-25"),
    ("workflow_type", "text", "S1-26"),
    ("target_file", "text", "S1-27"),
    ("current_phase", "phase", "S1-33"),
    ("completed_phases", "list", "S1-34"),
    ("phase_artifacts", "object", "S1-52"),
    ("checkpoints", "object", "S1-58"),
    ("created_at", "stamp", "S1-60"),
    ("updated_at", "stamp", "S1-61"),
)
_SECTIONS = (
    ("workflow_structure", "object", "S1-32"),
    ("phase_timing", "object", "S1-35"),
    ("lifecycle", "object", "S1-40"),
)
_METADATA = (
    ("spec_path", "text?", "S1-62"),
    ("user_options", "object", "S1-63"),
    ("agent_version", "text?", "S1-64"),
    ("total_phases", "count?", "S1-125"),
)
_STRUCTURE = (
    ("total_phases", "count?", "S1-28"),
    ("starting_phase", "phase", "S1-29"),
    ("indexing_scheme", "text", "S1-30"),
    ("workflow_version", "text", "S1-31"),
)
_TIMING = (
    ("started_at", "stamp", "S1-36"),
    ("completed_at", "stamp?", "S1-37"),
    ("duration_seconds", "number?", "S1-39"),
    ("paused_duration_seconds", "number?", "S1-39"),
)
_FLAGS = (
    ("completed", "flag", "S1-40"),
    ("completed_at", "stamp?", "S1-41"),
    ("paused", "flag", "S1-42"),
    ("paused_at", "stamp?", "S1-43"),
    ("paused_reason", "text?", "S1-44"),
    ("paused_context", "text?", "S1-45"),
    ("resumed_at", "stamp?", "S1-46"),
    ("resume_count", "whole", "S1-47"),
    ("last_error", "any", "S1-48"),
    ("last_error_at", "stamp?", "S1-49"),
    ("total_duration_seconds", "number?", "S1-51"),
)
_ARTIFACT = (
    ("phase_number", "phase", "S1-53"),
    ("evidence", "object", "S1-54"),
    ("outputs", "object", "S1-55"),
    ("commands_executed", "list", "S1-56"),
    ("timestamp", "stamp", "S1-57"),
)
_Fields = tuple[tuple[str, str, str], ...]


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _missing(part: dict[str, Any], fields: _Fields, path: str, severity: str) -> Iterator[Finding]:
    for key, _, requirement in fields:
        if key not in part:
            yield _tell("missing-field", severity, path + key, requirement, f"`{key}` is missing")


def _typed(part: dict[str, Any], fields: _Fields, path: str) -> Iterator[Finding]:
    for key, kind, requirement in fields:
        fits, name = _KINDS[kind]
        if key in part and not fits(part[key]):
            code = "bad-timestamp" if kind.startswith("stamp") else "wrong-type"
            yield _tell(code, ERROR, path + key, requirement, f"`{key}` is not {name}")


def _fields(view: View) -> Iterator[Finding]:
    yield from _missing(view.doc, _FIELDS, "", ERROR)
    if "metadata" not in view.doc:
        yield _tell("missing-field", WARNING, "metadata", "S1-117", "`metadata` is missing")
    yield from _typed(view.doc, (*_FIELDS, *_SECTIONS, ("metadata", "object", "S1-117")), "")
    yield from _typed(view.metadata, _METADATA, "metadata.")
    if view.redesigned:
        yield from _missing(view.doc, _SECTIONS, "", WARNING)


def _parts(view: View) -> Iterator[Finding]:
    yield from _typed(view.structure, _STRUCTURE, "workflow_structure.")
    yield from _typed(view.lifecycle, _FLAGS, "lifecycle.")
    maps = {"phase_timing": _TIMING, "phase_artifacts": _ARTIFACT, "phase_timings": _TIMING}
    for key, fields in maps.items():
        for phase, entry in by_phase(view.doc, key).items():
            yield from _entry(f"{key}.{phase}", entry, fields)


def _entry(path: str, entry: object, fields: _Fields) -> Iterator[Finding]:
    if not isinstance(entry, dict):
        yield _tell("wrong-type", ERROR, path, fields[0][2], f"`{path}` is not an object")
        return
    required = fields[:1] if fields is _TIMING else fields
    yield from _missing(entry, required, path + ".", ERROR)
    yield from _typed(entry, fields, path + ".")


_MAPS = {"phase_artifacts": "S1-52", "checkpoints": "S1-58"}
_MAPS |= dict.fromkeys(("phase_timing", "phase_timings", ATTEMPTS, "evidence_submitted"), "S1-35")


def _keys(view: View) -> Iterator[Finding]:
    for key, requirement in _MAPS.items():
        good = {str(phase) for phase in by_phase(view.doc, key)}
        for name in mapping(view.doc.get(key)):
            if name not in good:
                what = f"`{name}` is not the number of a phase"
                yield _tell("bad-phase-key", WARNING, f"{key}.{name}", requirement, what)


def _identity(view: View) -> Iterator[Finding]:
    native_id = view.doc.get("session_id")
    if isinstance(native_id, str) and (why := unsafe_id(native_id)):
        yield _tell("unsafe-id", ERROR, "session_id", "X1-10", why)


# -- words -----------------------------------------------------------------------------------------


def _words(view: View) -> Iterator[Finding]:
    for phase, word in view.checkpoints.items():
        if word not in _WORDS:
            what = f"the checkpoint of phase {phase} is not one of {', '.join(_WORDS)}"
            yield _tell("unknown-checkpoint", ERROR, f"checkpoints.{phase}", "S1-58", what)
    reason = view.lifecycle.get("paused_reason")
    if isinstance(reason, str) and reason not in PAUSE_REASONS:
        what = f"the reason is not one of {', '.join(PAUSE_REASONS)}"
        yield _tell("unknown-pause-reason", WARNING, "lifecycle.paused_reason", "S1-44", what)
    named = view.structure.get("indexing_scheme")
    if isinstance(named, str) and named not in _SCHEMES:
        what = f"the scheme is not one of {', '.join(_SCHEMES)}"
        yield _tell("unknown-scheme", ERROR, "workflow_structure.indexing_scheme", "S1-30", what)
    status = view.doc.get("status")
    if not view.redesigned and "status" in view.doc and status not in _SECOND_WORDS:
        what = f"the status is not one of {', '.join(_SECOND_WORDS)}"
        yield _tell("unknown-status", WARNING, "status", "X1-12", what)


# -- the whole -------------------------------------------------------------------------------------


def _format(view: View) -> Iterator[Finding]:
    if not view.redesigned:
        yield _tell("legacy-format", WARNING, "", "S1-126", LEGACY_WARNING)
    if view.total is None:
        flagged = view.redesigned or "status" in view.doc
        then = "only its flag can say" if flagged else "nothing can say"
        what = f"the number of phases is not known, so {then} it is complete"
        requirement = "S1-28" if view.redesigned else "S1-89"
        yield _tell("total-unknown", INFO, "workflow_structure.total_phases", requirement, what)
    if view.doc.get("error_reason") == "manually_deleted":
        what = "the session was deleted by hand; its program keeps such files"
        yield _tell("deleted-by-hand", INFO, "error_reason", "X1-13", what)


def _naive(view: View) -> Iterator[Finding]:
    at = ((key, view.doc.get(key)) for key in ("created_at", "updated_at"))
    first = next((key for key, text in at if stamps.is_naive(text)), None)
    if first is not None:
        what = "times without a zone are read as local time"
        yield _tell("naive-timestamps", INFO, first, "S1-60", what)


def _numbers(view: View) -> Iterator[Finding]:
    for index, phase in enumerate(sequence(view.doc.get("completed_phases"))):
        if not is_phase(phase):
            what = "a completed phase is not a phase number"
            yield _tell("wrong-type", ERROR, f"completed_phases[{index}]", "S1-34", what)
    if len(view.completed) != len(view.done):
        what = "a phase is listed as completed more than once"
        yield _tell("duplicate-phase", WARNING, "completed_phases", "S1-76", what)
    for phase, artifact in view.artifacts.items():
        number = artifact.get("phase_number")
        if is_phase(number) and number != phase:
            what = f"the artifact of phase {phase} says it is of phase {number}"
            where = f"phase_artifacts.{phase}.phase_number"
            yield _tell("phase-mismatch", WARNING, where, "S1-53", what)


def _structure(view: View) -> Iterator[Finding]:
    named, start = view.structure.get("indexing_scheme"), view.structure.get("starting_phase", 0)
    if named in _SCHEMES and is_phase(start) and named != scheme(start):
        what = f"a workflow that begins with phase {start} is {scheme(start)}"
        where = "workflow_structure.indexing_scheme"
        yield _tell("scheme-mismatch", ERROR, where, "S1-67", what)
    noted = view.metadata.get("total_phases")
    total = view.structure.get("total_phases")
    if is_count(total) and is_count(noted) and noted != total:
        what = f"the number of phases noted later differs from the {total} it began with"
        yield _tell("total-changed", WARNING, "metadata.total_phases", "S1-137", what)


def _range(view: View) -> Iterator[Finding]:
    if view.total is None:
        return
    last = last_phase(view.total, view.first)
    if view.current is not None and view.current != view.position:
        what = f"the current phase is {view.current}, outside {view.first} to {last}"
        severity = ERROR if view.redesigned else WARNING
        yield _tell("current-out-of-range", severity, "current_phase", "S1-20", what)
    over = sorted(phase for phase in view.done if not view.first <= phase <= last)
    if over:
        what = f"phases outside {view.first} to {last} were completed: {_some(over)}"
        yield _tell("overrun", WARNING, "completed_phases", "S1-85", what)


def _some(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:10])) + (" …" if len(numbers) > 10 else "")


def _verdicts(view: View) -> Iterator[Finding]:
    for phase, word in sorted(view.checkpoints.items()):
        verdict, where = verdict_of(word), f"checkpoints.{phase}"
        if phase in view.done and verdict == "failed":
            what = f"phase {phase} is listed as completed, but its checkpoint failed"
            yield _tell("completed-but-failed", ERROR, where, "S1-82", what)
        elif phase in view.done and verdict == "pending":
            what = f"phase {phase} is listed as completed, but its checkpoint is pending"
            yield _tell("completed-but-pending", WARNING, where, "S1-76", what)
        elif phase not in view.done and verdict == "passed":
            what = f"phase {phase} passed, but is not listed as completed"
            yield _tell("passed-not-completed", WARNING, where, "S1-76", what)


def _times(view: View) -> Iterator[Finding]:
    created, updated = (view.stamp(view.doc, key) for key in ("created_at", "updated_at"))
    if created is not None and updated is not None and updated < created:
        what = "it was updated before it was created"
        yield _tell("updated-before-created", WARNING, "updated_at", "S1-61", what)
    for phase, entry in sorted(view.timing.items()):
        yield from _timing(view, phase, entry, f"{view.timing_key}.{phase}.")


def _timing(view: View, phase: int, entry: dict[str, Any], path: str) -> Iterator[Finding]:
    started, ended = view.stamp(entry, "started_at"), view.stamp(entry, "completed_at")
    if ended is None and phase in view.done:
        what = f"phase {phase} is listed as completed, but its time has no end"
        yield _tell("completed-without-end", WARNING, path + "completed_at", "S1-38", what)
    if ended is not None and phase not in view.done:
        what = f"phase {phase} has an end, but is not listed as completed: taken as in progress"
        yield _tell("ended-not-completed", WARNING, path + "completed_at", "S1-75", what)
    if started is not None and ended is not None:
        yield from _duration(entry, ended - started, path)


def _duration(entry: dict[str, Any], spent: int, path: str) -> Iterator[Finding]:
    if spent < 0:
        yield _tell(
            "ends-before-start", WARNING, path + "completed_at", "S1-37", "it ends too early"
        )
        return
    told, paused = entry.get("duration_seconds"), entry.get("paused_duration_seconds")
    rest = max(0.0, spent / 1000 - seconds(paused))
    if _is_number(told) and abs(seconds(told) - rest) > 1:
        what = "the duration is not the time between start and end without the pauses"
        yield _tell("duration-mismatch", INFO, path + "duration_seconds", "S1-39", what)


def _flags(view: View) -> Iterator[Finding]:
    flags = view.lifecycle
    if not view.redesigned or not flags:
        return
    flagged = flags.get("completed") is True
    if view.complete and not flagged and not _goes_on(view):
        what = "all phases are completed, but the flag does not say so"
        yield _tell("complete-not-flagged", WARNING, "lifecycle.completed", "S1-16", what)
    if flagged and view.total is not None and not _all_over(view):
        what = "the flag says completed, but not all phases are"
        yield _tell("flagged-early", WARNING, "lifecycle.completed", "S1-84", what)
    if flagged != (flags.get("completed_at") is not None):
        what = "the flag and the time of completion do not go together"
        yield _tell("completion-time", WARNING, "lifecycle.completed_at", "S1-41", what)
    if flagged and flags.get("paused") is True:
        what = "it is both completed and paused"
        yield _tell("completed-and-paused", WARNING, "lifecycle.paused", "S1-42", what)


def _goes_on(view: View) -> bool:
    """Whether it was taken up again: only the word that travels beside can say so."""
    where = Where(total=view.total, naive=view.naive)
    return carry.read(layout("praxis"), {view.name: view.doc}, where).status != "completed"


def _all_over(view: View) -> bool:
    implied = view.implied()
    return all(view.phase_status(phase) in ("done", "skipped") for phase in implied)


_CHECKS = (
    _fields,
    _parts,
    _keys,
    _identity,
    _words,
    _format,
    _naive,
    _numbers,
    _structure,
    _range,
    _verdicts,
    _times,
    _flags,
)


_INITIAL = {
    "workflow_structure": _STRUCTURE[1:],
    "lifecycle": tuple(f for f in _FLAGS if f[0] in ("completed", "paused", "resume_count")),
}
"""What a session of the redesign has from its start; that its total is not known is told anyway."""


def _from_the_start(view: View) -> Iterator[Finding]:
    for key, fields in _INITIAL.items():
        if view.redesigned and isinstance(view.doc.get(key), dict):
            yield from _missing(view.doc[key], fields, f"{key}.", WARNING)


_LENIENT = (_from_the_start,)


# -- what we demand of ourselves -------------------------------------------------------------------


def _strict_form(view: View) -> Iterator[Finding]:
    if not view.redesigned:
        yield _tell("not-redesigned", ERROR, "", "S1-32", "we write the redesigned form only")
        return
    yield from _missing(view.structure, _STRUCTURE, "workflow_structure.", ERROR)
    demanded = tuple(field for field in _FLAGS if field[0] in LIFECYCLE)
    yield from _missing(view.lifecycle, demanded, "lifecycle.", ERROR)


def _strict_id(view: View) -> Iterator[Finding]:
    if not UUID.match(view.text("session_id")):
        yield _tell("id-not-uuid", ERROR, "session_id", "X1-10", "the id does not look like a UUID")


_STRICT = (_strict_form, _strict_id)
