"""Checking the `ai-session` files: what departs from the contract, number by number.

A *rule* looks at one value and gives a fault or nothing; a *field* says where a rule applies and
how grave it is that the key is missing. Faults of the log are told once per kind, with their
count: a log is long, and nobody may change it.

A value that is still the placeholder of the document's template is called that, and nothing worse.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from msgspec.structs import replace

from holdfast.layout import ERROR, INFO, WARNING, Finding, Tree, Where, stamps
from holdfast.layout.ai_session import read
from holdfast.layout.ai_session.read import (
    ID,
    INDEX,
    LOG,
    MODELS,
    OWN,
    PLAN,
    STATE,
    VERSION,
    Node,
    name,
)
from holdfast.layout.tree import spelled
from holdfast.layout.value import mapping, sequence, text
from holdfast.layout.words import session_status, unit_status

SESSION_STATUSES = ("active", "paused", "completed")
TASK_STATUSES = ("pending", "in_progress", "completed", "blocked")
COMMAND_STATUSES = ("success", "failure")

_PLACEHOLDERS = (
    "feature-id",
    "ISO 8601 timestamp",
    "ISO 8601 timestamp or null",
    "task ID or null",
    "current task ID or null",
    "|".join(MODELS),
    "|".join(SESSION_STATUSES),
    "|".join(TASK_STATUSES),
    "|".join(COMMAND_STATUSES),
)


def findings(tree: Tree, where: Where, *, strict: bool = False) -> list[Finding]:
    """Every deviation of a session's files; `strict` adds what we demand of our own."""
    found = [*_missing_files(tree, where)]
    for file, look in _LOOKS.items():
        if key := read.key_of(tree, file):
            found += [replace(finding, file=key) for finding in look(tree, where)]
    return [_stricter(finding) for finding in found] if strict else _tolerant(found)


_STRICT_ONLY = ("stamp-style",)
_GRAVER = ("missing-key", "naive-timestamp", "odd-word", "version-missing", "version-not-text")


def _tolerant(found: list[Finding]) -> list[Finding]:
    return [finding for finding in found if finding.code not in _STRICT_ONLY]


def _stricter(finding: Finding) -> Finding:
    grave = finding.code in (*_STRICT_ONLY, *_GRAVER)
    return replace(finding, severity=ERROR) if grave else finding


# --- rules -------------------------------------------------------------------------------------


class Fault(NamedTuple):
    code: str
    severity: str
    message: str
    requirement: str = ""
    """The one that was broken, where it is not simply that of the field."""


Rule = Callable[[Any, Where], Fault | None]


def _kind(value: Any) -> str:
    kinds = {dict: "a mapping", list: "a list", str: "text", bool: "true or false"}
    return "null" if value is None else kinds.get(type(value), "a number")


def _wrong(value: Any, wanted: str) -> Fault:
    return Fault("wrong-type", ERROR, f"is {_kind(value)}, should be {wanted}")


def _is_text(value: Any, _: Where) -> Fault | None:
    return None if isinstance(value, str) else _wrong(value, "text")


def _is_named(value: Any, _: Where) -> Fault | None:
    if isinstance(value, str):
        return None if value.strip() else Fault("empty-value", WARNING, "is empty")
    if name(value):
        return Fault("wrong-type", WARNING, "is a number, should be text")
    return _wrong(value, "text")


def _is_list(value: Any, _: Where) -> Fault | None:
    if value is None:
        return Fault("null-list", WARNING, "is null, read as an empty list")
    return None if isinstance(value, list) else _wrong(value, "a list")


def _is_mapping(value: Any, _: Where) -> Fault | None:
    return None if isinstance(value, dict) else _wrong(value, "a mapping")


def _is_id(value: Any, _: Where) -> Fault | None:
    if not isinstance(value, str):
        return _wrong(value, "text")
    why, rule = read.fault_of_id(value)
    return Fault("bad-feature-id", ERROR, f"is {_short(value)!r}: {why}", rule) if why else None


def _is_stamp(value: Any, where: Where) -> Fault | None:
    if not isinstance(value, str):
        return _wrong(value, "an ISO 8601 timestamp")
    if (moment := stamps.read(value, where.naive)) is None:
        return Fault("bad-timestamp", ERROR, f"is {_short(value)!r}, not an ISO 8601 timestamp")
    if stamps.is_naive(value):
        return Fault("naive-timestamp", WARNING, f"has no zone; read as {where.naive} time")
    plain = value == stamps.write(moment)
    return None if plain else Fault("stamp-style", INFO, "is not of the form 2025-01-09T10:00:00Z")


def _is_duration(value: Any, _: Where) -> Fault | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _wrong(value, "a number of milliseconds")
    plausible = read.milliseconds(value) is not None
    return None if plausible else Fault("bad-duration", ERROR, "is not a possible duration")


def _or_null(rule: Rule) -> Rule:
    return lambda value, where: None if value is None else rule(value, where)


def _one_of(words: tuple[str, ...], also: Callable[[str], str | None], code: str) -> Rule:
    def rule(value: Any, _: Where) -> Fault | None:
        if not isinstance(value, str):
            return _wrong(value, f"one of {', '.join(words)}")
        if value in words:
            return None
        if meaning := also(value):
            return Fault("odd-word", WARNING, f"is {_short(value)!r}, read as {meaning}")
        return Fault(code, ERROR, f"is {_short(value)!r}, not one of {', '.join(words)}")

    return rule


def _short(value: str) -> str:
    return value if len(value) <= 60 else value[:59] + "…"


_MODEL = _one_of(MODELS, lambda _: None, "model-not-allowed")
_SESSION = _one_of(SESSION_STATUSES, lambda word: session_status(ID, word), "bad-status")
_TASK = _one_of(TASK_STATUSES, lambda word: unit_status(ID, word), "bad-status")
_COMMAND = _one_of(COMMAND_STATUSES, {"failed": "failure", "error": "failure"}.get, "bad-status")


class Field(NamedTuple):
    key: str
    requirement: str
    rule: Rule
    missing: str
    """How grave a missing key is; empty if it may be missing."""


def _fields(node: Node, fields: Iterable[Field], at: str, where: Where) -> Iterator[Finding]:
    for key, requirement, rule, missing in fields:
        place = f"{at}.{key}" if at else key
        if key in node:
            fault = _judged(rule, node[key], where)
        else:
            fault = Fault("missing-key", missing, "is missing") if missing else None
        if fault:
            message, broken = f"{place} {fault.message}", fault.requirement or requirement
            yield Finding(fault.code, fault.severity, message, "", place, broken)


def _judged(rule: Rule, value: Any, where: Where) -> Fault | None:
    fault = rule(value, where)
    if fault and isinstance(value, str) and value in _PLACEHOLDERS:
        return Fault("placeholder", WARNING, f"is {value!r}: a template that is not filled in")
    return fault


def _no_mapping(value: Any, at: str, requirement: str) -> Finding:
    message = f"{at} {_wrong(value, 'a mapping').message}"
    return Finding("wrong-type", ERROR, message, "", at, requirement)


_STATE = (
    Field("feature_id", "S0-3", _is_id, ERROR),
    Field("implementation_plan", "S0-4", _is_text, ""),
    Field("history_log", "S0-5", _is_text, ""),
    Field("current_state", "S0-6", _is_mapping, ERROR),
    Field("status", "S0-51", _SESSION, ""),
)
_CURRENT = (
    Field("active_task", "S0-6", _or_null(_is_named), WARNING),
    Field("model_in_use", "S0-7", _MODEL, ERROR),
    Field("started_at", "S0-8", _is_stamp, ERROR),
    Field("last_updated", "S0-9", _is_stamp, ERROR),
    Field("status", "S0-51", _SESSION, ""),
)
_PLAN = (
    Field("feature", "S0-22", _is_mapping, ERROR),
    Field("phases", "S0-26", _is_list, ERROR),
)
_FEATURE = (
    Field("id", "S0-22", _is_id, WARNING),
    Field("name", "S0-23", _is_named, WARNING),
    Field("description", "S0-24", _is_text, WARNING),
    Field("created_at", "S0-25", _is_stamp, WARNING),
)
_PHASE = (
    Field("phase_id", "S0-27", _is_named, WARNING),
    Field("name", "S0-28", _is_named, WARNING),
    Field("tasks", "S0-29", _is_list, WARNING),
)
_TASKS = (
    Field("task_id", "S0-30", _is_named, ERROR),
    Field("description", "S0-31", _is_named, WARNING),
    Field("agent", "S0-32", _or_null(_is_text), WARNING),
    Field("status", "S0-33", _TASK, WARNING),
    Field("started_at", "S0-34", _or_null(_is_stamp), WARNING),
    Field("completed_at", "S0-35", _or_null(_is_stamp), WARNING),
    Field("artifacts", "S0-36", _is_list, WARNING),
)
_STAMPED = Field("timestamp", "S0-38", _is_stamp, WARNING)
_LINE = (
    _STAMPED,
    Field("command", "S0-39", _is_named, WARNING),
    Field("arguments", "S0-40", _is_text, WARNING),
    Field("model", "S0-41", _MODEL, WARNING),
    Field("agent", "S0-42", _is_text, WARNING),
    Field("task_id", "S0-43", _or_null(_is_named), WARNING),
    Field("status", "S0-44", _COMMAND, WARNING),
    Field("duration_ms", "S0-45", _is_duration, WARNING),
)
LINE_KEYS = frozenset(field.key for field in _LINE)
_ENTRY = (
    Field("feature_id", "S0-48", _is_id, ERROR),
    Field("started_at", "S0-49", _is_stamp, WARNING),
    Field("last_active", "S0-50", _is_stamp, WARNING),
    Field("status", "S0-51", _SESSION, ERROR),
)


# --- files -------------------------------------------------------------------------------------


def _missing_files(tree: Tree, where: Where) -> Iterator[Finding]:
    # A log alone does not say whose it is, and so nothing of what should be beside it; its folder
    # may.
    by_file = read.key_of(tree, STATE) or read.key_of(tree, PLAN)
    is_known = by_file or not read.why_not_id(read.folder(tree))
    held = {path.rpartition("/")[2] for path in where.names}
    # A file that lies alone somewhere is of no folder that has an index.
    wanted = (*OWN, INDEX) if read.folder(tree) else OWN
    for file in wanted if where.names and is_known else ():
        if file not in held and not read.key_of(tree, file):
            message = f"{file} is missing; it can be made anew from the other files"
            yield Finding("missing-file", WARNING, message, file, "", "S0-77")


def _unusable(value: Any, wanted: type, requirement: str) -> Iterator[Finding]:
    if value is None:
        yield Finding("empty-file", ERROR, "the file is empty", "", "", "S0-79")
    elif not isinstance(value, wanted):
        message = f"the file is {_kind(value)}, should be {_kind(wanted())}"
        yield Finding("wrong-type", ERROR, message, "", "", requirement)


def _look_at_state(tree: Tree, where: Where) -> Iterator[Finding]:
    value = tree[read.key_of(tree, STATE)]
    yield from _unusable(value, dict, "S0-78")
    if not isinstance(value, dict):
        return
    yield from _version(tree)
    yield from _fields(value, _STATE, "", where)
    if isinstance(value.get("current_state"), dict):
        yield from _fields(value["current_state"], _CURRENT, "current_state", where)
        at = "current_state.last_updated"
        yield from _order(value["current_state"], "started_at", "last_updated", at, where)
    yield from _foreign_id(tree, value.get("feature_id"), "feature_id", "S0-12")
    yield from _stray_status(value)
    yield from _active_task(tree)


def _version(tree: Tree) -> Iterator[Finding]:
    state, version = read.part(tree, STATE), read.version_of(tree)
    major = version.partition(".")[0]
    if "version" not in state:
        message = "version is missing; 1.0 is assumed"
        yield Finding("version-missing", INFO, message, "", "version", "S0-89")
    elif major != "1" or not (version == "1" or version.partition(".")[2].isdecimal()):
        message = f"version {_short(version)!r} is not known; shown, never written"
        yield Finding("version-unknown", ERROR, message, "", "version", "S0-90")
    elif version not in (VERSION, "1"):
        message = f"version {_short(version)} is newer than {VERSION}; shown, never written"
        yield Finding("version-newer", WARNING, message, "", "version", "S0-88")
    elif state["version"] != VERSION:
        message = f'version should be the text "{VERSION}"'
        yield Finding("version-not-text", WARNING, message, "", "version", "S0-88")


def _order(node: Node, early: str, late: str, at: str, where: Where) -> Iterator[Finding]:
    began, ended = (stamps.read(node.get(key), where.naive) for key in (early, late))
    if began is not None and ended is not None and ended < began:
        yield Finding("time-goes-back", ERROR, f"{at} is before {early}", "", at, "S0-75")


def _foreign_id(tree: Tree, id: Any, at: str, requirement: str) -> Iterator[Finding]:
    """An id that is not the session's: the folder's name decides, else the state's word."""
    ours = read.folder(tree) or text(read.part(tree, STATE).get("feature_id"))
    if isinstance(id, str) and ours and id != ours and id not in _PLACEHOLDERS:
        message = f"{at} is {_short(id)!r}, but the session is {_short(ours)!r}"
        yield Finding("id-mismatch", ERROR, message, "", at, requirement)


def _stray_status(state: Node) -> Iterator[Finding]:
    places = (("status", state), ("current_state.status", mapping(state.get("current_state"))))
    for at, node in places:
        if "status" in node:
            message = f"{at} is no field of this file; the status belongs into {INDEX}"
            yield Finding("status-in-state", INFO, message, "", at, "S0-51")


def _active_task(tree: Tree) -> Iterator[Finding]:
    active, at = name(read.current_of(tree).get("active_task")), "current_state.active_task"
    tasks = [name(task.get("task_id")) for task in read.tasks_of(read.part(tree, PLAN))]
    if active and active not in _PLACEHOLDERS and tasks and active not in tasks:
        message = f"{at} is {_short(active)!r}, which is no task of the plan"
        yield Finding("unknown-task", WARNING, message, "", at, "S0-6")
    if active and read.status_of(tree, read.identity(tree)) == "completed":
        message = f"{at} is {_short(active)!r} although the session is completed"
        yield Finding("task-in-completed", INFO, message, "", at, "S0-79")


def _look_at_plan(tree: Tree, where: Where) -> Iterator[Finding]:
    value = tree[read.key_of(tree, PLAN)]
    yield from _unusable(value, dict, "S0-78")
    if not isinstance(value, dict):
        return
    yield from _fields(value, _PLAN, "", where)
    if isinstance(value.get("feature"), dict):
        yield from _fields(value["feature"], _FEATURE, "feature", where)
        yield from _foreign_id(tree, value["feature"].get("id"), "feature.id", "S0-22")
    for number, phase in enumerate(sequence(value.get("phases"))):
        yield from _phase(phase, f"phases[{number}]", where)
    yield from _repeated_steps(value)


def _phase(phase: Any, at: str, where: Where) -> Iterator[Finding]:
    if not isinstance(phase, dict):
        yield _no_mapping(phase, at, "S0-26")
        return
    yield from _fields(phase, _PHASE, at, where)
    for number, task in enumerate(sequence(phase.get("tasks"))):
        yield from _task(task, f"{at}.tasks[{number}]", where)


def _task(task: Any, at: str, where: Where) -> Iterator[Finding]:
    if not isinstance(task, dict):
        yield _no_mapping(task, at, "S0-29")
        return
    yield from _fields(task, _TASKS, at, where)
    yield from _order(task, "started_at", "completed_at", f"{at}.completed_at", where)
    ended = stamps.read(task.get("completed_at"), where.naive) is not None
    status = unit_status(ID, text(task.get("status")))
    if ended and status and status != "done":
        message = f"{at} has a time of completion but is {_short(text(task.get('status')))!r}"
        yield Finding("ended-but-open", WARNING, message, "", f"{at}.completed_at", "S0-35")
    yield from _artifacts(task, f"{at}.artifacts", where)


def _artifacts(task: Node, at: str, where: Where) -> Iterator[Finding]:
    for number, path in enumerate(sequence(task.get("artifacts"))):
        place = f"{at}[{number}]"
        if not isinstance(path, str):
            yield Finding("wrong-type", ERROR, f"{place} is not a file name", "", place, "S0-36")
        elif path.startswith("artifacts/") and where.names and path not in where.names:
            message = f"{place}: {_short(path)} is not there"
            yield Finding("artifact-missing", WARNING, message, "", place, "S0-36")


def _repeated_steps(plan: Node) -> Iterator[Finding]:
    phases = [
        (f"phases[{n}]", mapping(each)) for n, each in enumerate(sequence(plan.get("phases")))
    ]
    tasks = [
        (f"{at}.tasks[{n}]", mapping(each))
        for at, phase in phases
        for n, each in enumerate(sequence(phase.get("tasks")))
    ]
    yield from _repeated("phase_id", phases, WARNING, "S0-27")
    yield from _repeated("task_id", tasks, ERROR, "S0-30")


def _repeated(
    key: str, nodes: list[tuple[str, Node]], severity: str, requirement: str
) -> Iterator[Finding]:
    """An id that was met before, told once, where it comes again."""
    met: dict[str, int] = defaultdict(int)
    for at, node in nodes:
        id = name(node.get(key))
        met[id] += 1
        if id and met[id] == 2:
            code = "duplicate-" + key.replace("_", "-")
            message = f"{key} {_short(id)!r} stands for several"
            yield Finding(code, severity, message, "", f"{at}.{key}", requirement)


# --- the log -----------------------------------------------------------------------------------


def _look_at_log(tree: Tree, where: Where) -> Iterator[Finding]:
    value = tree[read.key_of(tree, LOG)]
    if value is not None:
        yield from _unusable(value, list, "S0-37")
    lines = sequence(value)
    found = [fault for at, line in enumerate(lines) for fault in _line(tree, at, line, where)]
    yield from _told_once([*found, *_backwards(lines, where), *_too_long(tree, lines, where)])


def _line(tree: Tree, number: int, line: Any, where: Where) -> Iterator[Finding]:
    at = f"[{number}]"
    if not isinstance(line, dict):
        message = f"{at} is {_kind(line)}, should be an object"
        yield Finding("line-not-object", ERROR, message, "", at, "S0-37")
    elif isinstance(line.get("event"), str) and "command" not in line:
        yield from _fields(line, (_STAMPED,), at, where)
    else:
        yield from _fields(line, _LINE, at, where)
        yield from _failure(line, at)
        if "feature_id" in line:
            yield from _foreign_id(tree, line["feature_id"], f"{at}.feature_id", "S0-14")


def _failure(line: Node, at: str) -> Iterator[Finding]:
    failed = line.get("status") == "failure"
    if failed and not text(line.get("error")):
        message = f"{at} failed, but has no error message"
        yield Finding("failure-without-error", WARNING, message, "", f"{at}.error", "S0-46")
    if line.get("status") == "success" and line.get("error"):
        message = f"{at} succeeded, but has an error message"
        yield Finding("error-without-failure", WARNING, message, "", f"{at}.error", "S0-46")


def _backwards(lines: list[Any], where: Where) -> Iterator[Finding]:
    latest = None
    for number, line in enumerate(lines):
        moment = stamps.read(mapping(line).get("timestamp"), where.naive)
        if moment is not None and latest is not None and moment < latest:
            at = f"[{number}].timestamp"
            yield Finding(
                "time-goes-back", WARNING, f"{at} is before a line above", "", at, "S0-75"
            )
        latest = max(filter(None, (latest, moment)), default=None)


_HOUR = 3_600_000


def _too_long(tree: Tree, lines: list[Any], where: Where) -> Iterator[Finding]:
    """A command cannot last longer than the whole session; nanoseconds were met here."""
    began = read.times_of(tree, read.identity(tree), where)[0]
    seen = [stamps.read(mapping(line).get("timestamp"), where.naive) for line in lines]
    moments = [moment for moment in (began, *seen) if moment is not None]
    limit = max(_HOUR, max(moments) - min(moments)) if moments else None
    for number, line in enumerate(lines):
        lasted = read.milliseconds(mapping(line).get("duration_ms"))
        if limit is not None and lasted is not None and lasted > limit:
            at = f"[{number}].duration_ms"
            message = f"{at} is longer than the session; perhaps not in milliseconds"
            yield Finding("duration-implausible", WARNING, message, "", at, "S0-45")


def _told_once(found: list[Finding]) -> Iterator[Finding]:
    """The first finding of each kind and key, with the number of those like it."""
    kinds: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for finding in found:
        kinds[finding.code, finding.where.partition("]")[2]].append(finding)
    for first, *others in kinds.values():
        more = f" (and {len(others)} more such)" if others else ""
        yield replace(first, message=first.message + more)


# --- the index ---------------------------------------------------------------------------------


def _look_at_index(tree: Tree, where: Where) -> Iterator[Finding]:
    value = tree[read.key_of(tree, INDEX)]
    yield from _unusable(value, dict, "S0-47")
    if not isinstance(value, dict):
        return
    yield from _fields(value, (Field("active_features", "S0-47", _is_list, ERROR),), "", where)
    yield from _of_entries(spelled(sequence(value.get("active_features"))), where.naive)
    yield from _listing(tree, where)


@lru_cache(maxsize=1)
def _of_entries(listed: bytes, naive: str) -> tuple[Finding, ...]:
    """What is wrong with the entries of an index: all sessions of a folder have the same."""
    found, where, entries = list[Finding](), Where(naive=naive), json.loads(listed)
    for number, entry in enumerate(entries):
        at = f"active_features[{number}]"
        if isinstance(entry, dict):
            found += _fields(entry, _ENTRY, at, where)
            found += _order(entry, "started_at", "last_active", f"{at}.last_active", where)
        else:
            found.append(_no_mapping(entry, at, "S0-47"))
    return *found, *_diverged(entries)


def _diverged(entries: list[Any]) -> Iterator[Finding]:
    """Entries of one id, all of them told: which one holds is for people to say."""
    listed: dict[str, list[int]] = defaultdict(list)
    for number, entry in enumerate(map(mapping, entries)):
        listed[text(entry.get("feature_id"))].append(number)
    for id, places in listed.items():
        if id and len(places) > 1:
            told, at = "; ".join(_told(entries[n]) for n in places), f"active_features[{places[1]}]"
            message = f"{_short(id)!r} is listed {len(places)} times: {told}"
            yield Finding("duplicate-entry", ERROR, message, "", at, "S0-69")


def _place(listed: list[Any], entry: Node) -> str:
    return next(f"active_features[{n}]" for n, each in enumerate(listed) if each is entry)


def _told(entry: Node) -> str:
    keys = ("status", "started_at", "last_active")
    said = (f"{key} {_short(text(entry.get(key)))}" for key in keys if text(entry.get(key)))
    return ", ".join(said) or "nothing"


def _listing(tree: Tree, where: Where) -> Iterator[Finding]:
    id = read.folder(tree) or read.identity(tree)
    if not read.has_session(tree) or not id:
        return
    entry = read.entry_of(tree, id)
    if not entry:
        message = f"{_short(id)!r} is not listed"
        yield Finding("not-listed", WARNING, message, "", "active_features", "S0-57")
        return
    listed = sequence(read.part(tree, INDEX).get("active_features"))
    places, at = (entry, read.current_of(tree)), _place(listed, entry)
    began = [stamps.read(place.get("started_at"), where.naive) for place in places]
    if None not in began and began[0] != began[1]:
        message = f"started_at of {_short(id)!r} differs from {STATE}"
        yield Finding("start-differs", WARNING, message, "", f"{at}.started_at", "S0-79")
    words = [word for word in read.status_words(tree, id) if word]
    if len({session_status(ID, word) for word in words}) > 1:
        message = f"status of {_short(id)!r} is {words[0]!r} here, {words[1]!r} in {STATE}"
        yield Finding("status-differs", WARNING, message, "", f"{at}.status", "S0-79")


_LOOKS: dict[str, Callable[[Tree, Where], Iterator[Finding]]] = {
    STATE: _look_at_state,
    PLAN: _look_at_plan,
    LOG: _look_at_log,
    INDEX: _look_at_index,
}
