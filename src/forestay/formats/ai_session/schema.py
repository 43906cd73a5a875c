"""Check the `ai-session` files: one table of rules per file, and checks across values.

Deviations in the log are reported once per kind, with their count: a log is long, and its lines
are never changed. A value that is still a placeholder of the contract's template is reported only
as that, not also as invalid.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

from forestay.base.findings import Finding
from forestay.formats import timestamps
from forestay.formats.ai_session import read
from forestay.formats.ai_session.read import (
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
from forestay.formats.coerce import mapping, sequence, text
from forestay.formats.diff import quick_json
from forestay.formats.port import ERROR, INFO, WARNING, Tree, Where
from forestay.formats.schema import (
    SECOND,
    Rule,
    check_time_order,
    check_value,
    list_rule,
    nodes,
    object_rule,
    short,
    stamp_rule,
    text_rule,
    warn,
)
from forestay.formats.status_words import ALSO_SESSION, ALSO_UNIT, session_status, unit_status

_ID_TEMPLATE = "feature-id"
_TASK_TEMPLATES = ("task ID or null", "current task ID or null")


# --- rules -------------------------------------------------------------------------------------

# A wrong name causes only a warning: numbers are read as names, and unknown keys are ignored.
_object = partial(object_rule, free=True)
_name = partial(text_rule, shape=r"\S", code="empty-value", says="filled in", mild=True)
_id = partial(text_rule, templates=(_ID_TEMPLATE,))
_list = partial(list_rule, empty="null-list")
_stamp = partial(
    stamp_rule,
    fine=SECOND,
    says="an ISO 8601 timestamp such as 2025-01-09T10:00:00Z",
    templates=("ISO 8601 timestamp", "ISO 8601 timestamp or null"),
)

_SESSION = text_rule("S0-51", words=("active", "paused", "completed"), also=tuple(ALSO_SESSION))
_CURRENT = _object(
    "S0-6",
    {
        "active_task": _name("S0-6", null=True),
        "model_in_use": text_rule("S0-7", words=MODELS),
        "started_at": _stamp("S0-8"),
        "last_updated": _stamp("S0-9"),
        "status": _SESSION,
    },
    need="model_in_use started_at last_updated",
    optional=("status",),
)
_STATE = _object(
    "S0-78",
    {
        "feature_id": _id("S0-3"),
        "current_state": _CURRENT,
        "implementation_plan": text_rule("S0-4"),
        "history_log": text_rule("S0-5"),
        "status": _SESSION,
    },
    need="feature_id current_state",
    optional=("implementation_plan", "history_log", "status"),
)
_TASK = _object(
    "S0-29",
    {
        "task_id": _name("S0-30"),
        "description": _name("S0-31"),
        "agent": text_rule("S0-32", null=True),
        "status": text_rule(
            "S0-33",
            words=("pending", "in_progress", "completed", "blocked"),
            also=tuple(ALSO_UNIT),
        ),
        "started_at": _stamp("S0-34", null=True),
        "completed_at": _stamp("S0-35", null=True),
        "artifacts": _list("S0-36", text_rule("S0-36")),
    },
    need="task_id",
)
_PHASE = _object(
    "S0-26",
    {"phase_id": _name("S0-27"), "name": _name("S0-28"), "tasks": _list("S0-29", _TASK)},
)
_FEATURE = _object(
    "S0-22",
    {
        "id": _id("S0-22"),
        "name": _name("S0-23"),
        "description": text_rule("S0-24"),
        "created_at": _stamp("S0-25"),
    },
)
_PLAN = _object(
    "S0-78", {"feature": _FEATURE, "phases": _list("S0-26", _PHASE)}, need="feature phases"
)
_EVENT = _object("S0-37", {"timestamp": _stamp("S0-38")})
_COMMAND = _object(
    "S0-37",
    {
        "timestamp": _stamp("S0-38"),
        "command": _name("S0-39"),
        "arguments": text_rule("S0-40"),
        "model": text_rule("S0-41", words=MODELS),
        "agent": text_rule("S0-42"),
        "task_id": _name("S0-43", null=True),
        "status": text_rule("S0-44", words=("success", "failure"), also=("failed", "error")),
        "duration_ms": Rule(type="number", req="S0-45", low=0, high=2**63 - 1),
    },
)
LINE_KEYS = frozenset(_COMMAND.keys)
_ENTRY = _object(
    "S0-47",
    {
        "feature_id": _id("S0-48"),
        "started_at": _stamp("S0-49"),
        "last_active": _stamp("S0-50"),
        "status": _SESSION,
    },
    need="feature_id status",
)
_INDEX = _object("S0-47", {"active_features": _list("S0-47", Rule())}, need="active_features")
_LOG = Rule(type="array", req="S0-37")


# --- files -------------------------------------------------------------------------------------


def check_files(tree: Tree, where: Where, *, strict: bool = False) -> list[Finding]:
    """Return every deviation of the files from the contract; with `strict`, from our rules, too."""
    found = [*_check_presence(tree, where)]
    for file, (rule, check) in _CHECKS.items():
        if key := read.key_of(tree, file):
            value = tree[key]
            if value is None and file != LOG:
                findings = [warn("empty-file", "the file is empty", "", "S0-79", ERROR)]
            else:
                findings = [*check_value(rule, value, strict=strict), *check(tree, where, strict)]
            found += [finding._replace(file=key) for finding in findings]
    return found if strict else [each for each in found if each.code != "stamp-style"]


def _check_presence(tree: Tree, where: Where) -> Iterator[Finding]:
    # A log alone does not name its session, so nothing can be missing next to it, unless its
    # folder names the session.
    by_file = read.key_of(tree, STATE) or read.key_of(tree, PLAN)
    is_known = by_file or not read.why_not_id(read.folder(tree))
    present = {path.rpartition("/")[2] for path in where.names}
    # A file outside a session's folder has no index.
    wanted = (*OWN, INDEX) if read.folder(tree) else OWN
    for file in wanted if where.names and is_known else ():
        if file not in present and not read.key_of(tree, file):
            message = f"{file} is missing; it can be restored from the other files"
            yield Finding("missing-file", WARNING, message, file=file, requirement="S0-77")


def _check_state(tree: Tree, where: Where, strict: bool) -> Iterator[Finding]:
    state = read.part(tree, STATE)
    if not state:
        return
    yield from _check_version(tree, strict)
    yield from _check_order(read.current_of(tree), "last_updated", "current_state", where)
    yield from _check_id(state, "feature_id")
    yield from _check_same_id(tree, state.get("feature_id"), "feature_id", "S0-12")
    for at, node in (("status", state), ("current_state.status", read.current_of(tree))):
        if "status" in node:
            message = f"{at} is not a field of this file; the status belongs in {INDEX}"
            yield warn("status-in-state", message, at, "S0-51", INFO)
    yield from _check_active_task(tree)


def _check_version(tree: Tree, strict: bool) -> Iterator[Finding]:
    state, version = read.part(tree, STATE), read.version_of(tree)
    major, _, minor = version.partition(".")
    severity = ERROR if strict else WARNING
    if "version" not in state:
        severity = ERROR if strict else INFO
        fault = ("version-missing", f"is missing; {VERSION} is assumed", "S0-89")
    elif major != "1" or not (version == "1" or minor.isdecimal()):
        severity, why = ERROR, "is unknown; such a file is shown, never written"
        fault = ("version-unknown", f"{short(version)} {why}", "S0-90")
    elif version not in (VERSION, "1"):
        severity, why = WARNING, f"is newer than {VERSION}; the file is shown, never written"
        fault = ("version-newer", f"{short(version)} {why}", "S0-88")
    elif state["version"] != VERSION:
        fault = ("version-not-text", f'should be the text "{VERSION}"', "S0-88")
    else:
        return
    code, message, req = fault
    yield warn(code, f"version {message}", "version", req, severity)


def _check_order(node: Node, late: str, at: str, where: Where) -> Iterator[Finding]:
    yield from check_time_order(node, ("started_at", late), at, "S0-75", where, ERROR)


def _check_id(node: Node, key: str, at: str = "") -> Iterator[Finding]:
    id = node.get(key)
    if isinstance(id, str) and id != _ID_TEMPLATE:
        problem, req = read.fault_of_id(id)
        if problem:
            message = f"{at}{key} is {short(id)}: {problem}"
            yield warn("bad-feature-id", message, f"{at}{key}", req, ERROR)


def _check_same_id(tree: Tree, id: Any, at: str, req: str) -> Iterator[Finding]:
    """Yield a finding if an id is not the session's, which the folder's name or the state has."""
    ours = read.folder(tree) or text(read.part(tree, STATE).get("feature_id"))
    if isinstance(id, str) and ours and id != ours and id != _ID_TEMPLATE:
        message = f"{at} is {short(id)}, but the session is {short(ours)}"
        yield warn("id-mismatch", message, at, req, ERROR)


def _check_active_task(tree: Tree) -> Iterator[Finding]:
    active, at = name(read.current_of(tree).get("active_task")), "current_state.active_task"
    tasks = [name(task.get("task_id")) for task in read.tasks_of(read.part(tree, PLAN))]
    if active and active not in _TASK_TEMPLATES and tasks and active not in tasks:
        message = f"{at} is {short(active)}, which is not a task of the plan"
        yield warn("unknown-task", message, at, "S0-6")
    if active and read.status_of(tree, read.identity(tree)) == "completed":
        message = f"{at} is {short(active)} although the session is completed"
        yield warn("task-in-completed", message, at, "S0-79", INFO)


def _check_plan(tree: Tree, where: Where, strict: bool) -> Iterator[Finding]:
    plan = read.part(tree, PLAN)
    feature = mapping(plan.get("feature"))
    yield from _check_id(feature, "id", "feature.")
    yield from _check_same_id(tree, feature.get("id"), "feature.id", "S0-22")
    phases = nodes(plan, "phases")
    tasks = [
        (f"{at}.{place}", task) for at, phase in phases for place, task in nodes(phase, "tasks")
    ]
    for at, task in tasks:
        yield from _check_task(task, at, where)
    yield from _check_unique("phase_id", phases, WARNING, "S0-27")
    yield from _check_unique("task_id", tasks, ERROR, "S0-30")


def _check_task(task: Node, at: str, where: Where) -> Iterator[Finding]:
    yield from _check_order(task, "completed_at", at, where)
    ended = timestamps.read(task.get("completed_at"), where.naive) is not None
    status = unit_status(ID, text(task.get("status")))
    if ended and status and status != "done":
        message = f"{at} has a completion time but is {short(text(task.get('status')))}"
        yield warn("ended-but-open", message, f"{at}.completed_at", "S0-35")
    for number, path in enumerate(sequence(task.get("artifacts"))):
        is_own = isinstance(path, str) and path.startswith("artifacts/")
        if is_own and where.names and path not in where.names:
            place = f"{at}.artifacts[{number}]"
            message = f"{place}: {short(path)} does not exist"
            yield warn("artifact-missing", message, place, "S0-36")


def _check_unique(
    key: str, steps: list[tuple[str, Node]], severity: str, req: str
) -> Iterator[Finding]:
    """Yield a finding for each id that is used more than once, at its second use."""
    uses: dict[str, int] = defaultdict(int)
    for at, node in steps:
        id = name(node.get(key))
        uses[id] += 1
        if id and uses[id] == 2:
            code, message = f"duplicate-{key.replace('_', '-')}", f"{key} {short(id)} is used"
            yield warn(code, f"{message} more than once", f"{at}.{key}", req, severity)


# --- the log -----------------------------------------------------------------------------------


_HOUR = 3_600_000


def _check_log(tree: Tree, where: Where, strict: bool) -> Iterator[Finding]:
    lines = read.log_of(tree)
    moments = [timestamps.read(mapping(line).get("timestamp"), where.naive) for line in lines]
    began = read.times_of(tree, read.identity(tree), where)[0]
    known = [moment for moment in (began, *moments) if moment is not None]
    longest = max(_HOUR, max(known) - min(known)) if known else None
    found, latest = list[Finding](), 0
    for number, (line, moment) in enumerate(zip(lines, moments, strict=True)):
        at, node = f"[{number}]", mapping(line)
        found += _check_line(tree, node, line, at, strict)
        if moment is not None and moment < latest:
            message = f"{at}.timestamp is earlier than that of a line above"
            found.append(warn("time-runs-back", message, f"{at}.timestamp", "S0-75"))
        latest = max(latest, moment or 0)
        lasted = read.milliseconds(node.get("duration_ms"))
        if longest is not None and lasted is not None and lasted > longest:
            # Some programs write nanoseconds.
            message = f"{at}.duration_ms is longer than the session; perhaps not in milliseconds"
            found.append(warn("duration-implausible", message, f"{at}.duration_ms", "S0-45"))
    kinds: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for finding in found:
        kinds[finding.code, finding.where.partition("]")[2]].append(finding)
    for first, *others in kinds.values():
        more = f" (and {len(others)} more such)" if others else ""
        yield first._replace(what=first.what + more)


def _check_line(tree: Tree, node: Node, line: Any, at: str, strict: bool) -> Iterator[Finding]:
    is_event = isinstance(node.get("event"), str) and "command" not in node
    yield from check_value(_EVENT if is_event else _COMMAND, line, strict=strict, at=at)
    if is_event:
        return
    if node.get("status") == "failure" and not text(node.get("error")):
        message = f"{at} failed, but has no error message"
        yield warn("failure-without-error", message, f"{at}.error", "S0-46")
    if node.get("status") == "success" and node.get("error"):
        message = f"{at} succeeded, but has an error message"
        yield warn("error-without-failure", message, f"{at}.error", "S0-46")
    if "feature_id" in node:
        yield from _check_same_id(tree, node["feature_id"], f"{at}.feature_id", "S0-14")


# --- the index ---------------------------------------------------------------------------------


def _check_index(tree: Tree, where: Where, strict: bool) -> Iterator[Finding]:
    listed = sequence(read.part(tree, INDEX).get("active_features"))
    yield from _check_entries(quick_json(listed), where.naive, strict)
    id = read.folder(tree) or read.identity(tree)
    if not read.has_session(tree) or not id or not isinstance(tree[read.key_of(tree, INDEX)], dict):
        return
    entry = read.entry_of(tree, id)
    if not entry:
        message = f"{short(id)} is not listed in {INDEX}"
        yield warn("not-listed", message, "active_features", "S0-57")
        return
    at = next(f"active_features[{n}]" for n, each in enumerate(listed) if each is entry)
    places = (entry, read.current_of(tree))
    began = [timestamps.read(place.get("started_at"), where.naive) for place in places]
    if None not in began and began[0] != began[1]:
        message = f"started_at of {short(id)} differs from {STATE}"
        yield warn("start-differs", message, f"{at}.started_at", "S0-79")
    words = [word for word in read.status_words(tree, id) if word]
    if len({session_status(ID, word) for word in words}) > 1:
        message = f"status of {short(id)} is {words[0]!r} here, {words[1]!r} in {STATE}"
        yield warn("status-differs", message, f"{at}.status", "S0-79")


@lru_cache(maxsize=1)
def _check_entries(listed: bytes, naive: str, strict: bool) -> tuple[Finding, ...]:
    """Return the deviations of the index's entries; cached, because all sessions share them."""
    found, entries = list[Finding](), json.loads(listed)
    by_id: dict[str, list[int]] = defaultdict(list)
    for number, entry in enumerate(entries):
        at = f"active_features[{number}]"
        found += check_value(_ENTRY, entry, strict=strict, at=at)
        found += _check_id(mapping(entry), "feature_id", f"{at}.")
        found += _check_order(mapping(entry), "last_active", at, Where(naive=naive))
        by_id[text(mapping(entry).get("feature_id"))].append(number)
    for id, places in by_id.items():
        if id and len(places) > 1:
            # Show all entries: only the user can decide which one is right.
            shown = "; ".join(_describe_entry(entries[n]) for n in places)
            message = f"{short(id)} is listed {len(places)} times: {shown}"
            at = f"active_features[{places[1]}]"
            found.append(warn("duplicate-entry", message, at, "S0-69", ERROR))
    return tuple(found)


def _describe_entry(entry: Node) -> str:
    values = ((key, text(entry.get(key))) for key in ("status", "started_at", "last_active"))
    return ", ".join(f"{key} {value[:60]}" for key, value in values if value) or "empty"


_CHECKS: dict[str, tuple[Rule, Callable[[Tree, Where, bool], Iterator[Finding]]]] = {
    STATE: (_STATE, _check_state),
    PLAN: (_PLAN, _check_plan),
    LOG: (_LOG, _check_log),
    INDEX: (_INDEX, _check_index),
}
