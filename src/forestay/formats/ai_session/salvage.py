"""Read what damaged `ai-session` files still contain.

An intact YAML file is parsed as usual. Others are read line by line, ignoring indentation, because
that is what gets damaged: lines inserted into others, `active_features: []` followed by entries, an
entry without its first line, a torn end, git's conflict markers. The readable lines become a tree,
from which facts are read as from intact files.

Values that the state no longer contains are inferred: the start from the index, else the plan, else
the first line of the log; task and model from the last line of the log. Each inference is reported.
If the two sides of a merge conflict have different values, neither is used, and both are reported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from forestay.formats import timestamps
from forestay.formats.ai_session import read
from forestay.formats.ai_session.read import INDEX, LOG, PLAN, STATE, Node
from forestay.formats.coerce import mapping, text
from forestay.formats.facts import Facts
from forestay.formats.port import Bundle, Salvaged, Tree, Where
from forestay.formats.salvage import (
    decode_damaged,
    marker_in,
    pick_fields,
    read_damaged,
    sides,
    without_surrogates,
)

_MOST = 1024 * 1024
_MOST_OF_LOG = 16 * 1024 * 1024
_MOST_REPORTED = 20
_MOST_TORN_RECORDS = 10_000
"""The most records of a log that are searched for fields if they are not JSON: it is slow."""


class Report(Struct):
    inferred: list[str] = []
    lost: list[str] = []


def salvage(bundle: Bundle, where: Where) -> Salvaged | None:
    """Return the facts in damaged files, and what was inferred and lost; None if all is lost."""
    report = Report()
    tree: Tree = {}
    for file in (STATE, PLAN, LOG, INDEX):
        if key := read.key_of(dict(bundle), file):
            is_log = file == LOG
            tree[key] = (_read_log if is_log else _read_yaml)(bundle[key], file, report)
    facts = read.read_facts(tree, where)
    sources = [file for file in (STATE, LOG, INDEX, PLAN) if _has_content(tree, file)]
    if not sources:
        return None
    ids = (text(mapping(line).get("feature_id")) for line in read.log_of(tree))
    facts.native_id = facts.native_id or next(filter(None, ids), "")
    _infer(tree, facts, report, where)
    message = f"Restored from {', '.join(sources)}"
    return Salvaged(facts, sources[0], message, report.inferred, report.lost)


def _has_content(tree: Tree, file: str) -> bool:
    if file == LOG:
        return bool(read.log_of(tree))
    if file == INDEX and not read.has_session(tree):
        return any(read.entries_of(tree))
    if file == INDEX:
        return bool(read.entry_of(tree, read.identity(tree)))
    return bool(read.part(tree, file))


# --- lines of YAML -----------------------------------------------------------------------------

_LINE = re.compile(r"""[ \t]*(- +)?["']?([A-Za-z_]\w*)["']?:(?: +(.*))?\Z""")
_ITEM = re.compile(r"[ \t]*- +(.*)\Z")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\']|\'\')*\'')
_TORN = object()


def _read_yaml(data: bytes, file: str, report: Report) -> Node:
    found = read_damaged(data, "yaml", is_torn=read.torn)
    if found is not None and found.rung == "whole" and not found.remarks:
        return found.value
    scan = {STATE: _scan_state, PLAN: _scan_plan, INDEX: _scan_index}[file]
    return scan(_read_sides(data, file, report), report)


def _read_sides(data: bytes, file: str, report: Report) -> list[list[Node]]:
    """Return the elements in the lines of a text, or in each side if it has a merge conflict.

    Unreadable lines inside the sides of a conflict are not reported: they have no line numbers.
    Values in which the sides differ are reported by the caller.
    """
    content = decode_damaged(data)[0]
    if len(content) > _MOST:
        report.lost.append(f"{file}: only its beginning was read")
    both = sides(content[:_MOST])
    return [_read_elements(side, file, report if len(both) == 1 else Report()) for side in both]


def _read_elements(content: str, file: str, report: Report) -> list[Node]:
    """Return the elements of a file's lists, each with the first value of each key.

    The first element has the keys before any list. Lines that cannot be read are reported.
    """
    elements: list[Node] = [{}]
    unread: list[int] = []
    lines = content.split("\n")
    for number, raw in enumerate(lines, 1):
        is_last = number == len(lines)
        if match := _LINE.match(raw.rstrip()):
            elements += [{}] if match[1] else []
            value = _parse_scalar(match[3] or "", is_last=is_last)
            if value is not _TORN:
                elements[-1].setdefault(match[2], value)
        elif not is_last and (match := _ITEM.match(raw.rstrip())):
            value = _parse_scalar(match[1])
            if isinstance(value, str):
                # A plain element can only be one of a task's artifacts.
                if not isinstance(elements[-1].get("artifacts"), list):
                    elements[-1]["artifacts"] = []
                elements[-1]["artifacts"].append(value)
        else:
            is_empty = not raw.strip() or raw.lstrip().startswith(("#", "---"))
            value = None if is_empty else _TORN
        unread += [number] if value is _TORN else []
    if unread:
        shown = ", ".join(map(str, unread[:_MOST_REPORTED]))
        more = f" and {len(unread) - _MOST_REPORTED} more" if len(unread) > _MOST_REPORTED else ""
        report.lost.append(f"{file}: line {shown}{more} cannot be read")
    if lines[-1].strip():
        end = f"the file breaks off in line {len(lines)}; any later lines are lost"
        report.lost.append(f"{file}: {end}")
    return elements


def _parse_scalar(raw: str, *, is_last: bool = False) -> Any:
    """Return the value of a YAML scalar, or `_TORN` if it may have been cut off.

    In the last line of a file, only a closing quote shows that the value is complete.
    """
    raw = raw.strip()
    if match := _QUOTED.match(raw):
        inner = match[0][1:-1]
        return inner.replace("''", "'") if raw[0] == "'" else _parse_json(match[0], inner)
    if is_last or raw[:1] in ('"', "'"):
        return _TORN
    if raw[:1] == "[":
        return _parse_json(raw, None)
    plain = raw.partition(" #")[0].rstrip(" ,")
    return None if plain in ("", "~", "null") else plain


def _parse_json(raw: str, otherwise: Any) -> Any:
    try:
        return without_surrogates(json.loads(raw))
    except (ValueError, RecursionError):
        return otherwise


# --- files from their lines --------------------------------------------------------------------

_STATE_KEYS = ("version", "feature_id")
_CURRENT_KEYS = ("active_task", "model_in_use", "started_at", "last_updated", "status")
_FEATURE_KEYS = ("id", "name", "description", "created_at")


def _scan_state(both: list[list[Node]], report: Report) -> Node:
    """Return a state from its known keys, at whatever level of the file they are."""
    known = (*_STATE_KEYS, *_CURRENT_KEYS)
    flat = [
        {key: each[key] for each in reversed(side) for key in known if key in each} for side in both
    ]
    found = _merge_sides(flat, STATE, report)
    state = {key: found[key] for key in _STATE_KEYS if key in found}
    current = {key: found[key] for key in _CURRENT_KEYS if key in found}
    lost = [key for key in ("feature_id", *_CURRENT_KEYS[:4]) if key not in found]
    if lost:
        report.lost.append(f"{STATE}: {', '.join(lost)}")
    return state | ({"current_state": current} if current else {})


def _merge_sides(both: list[Node], what: str, report: Report) -> Node:
    """Return the values that the sides share; report those in which they differ."""
    first, last = both[0], both[-1]
    for key in [key for key in first | last if first.get(key) != last.get(key)]:
        values = f"{first.get(key)!r} on one side, {last.get(key)!r} on the other"
        report.lost.append(f"{what}: {key} is in conflict: {values}"[:500])
    return {key: value for key, value in first.items() if last.get(key) == value}


def _scan_index(both: list[list[Node]], report: Report) -> Node:
    """Return an index; of several entries for one session, use the values that all share."""
    by_id: dict[str, list[Node]] = {}
    for element in (element for side in both for element in side):
        others = ("active_features", "artifacts")
        if entry := {key: value for key, value in element.items() if key not in others}:
            by_id.setdefault(text(entry.get("feature_id")), []).append(entry)
    for entry in by_id.pop("", []):
        shown = ", ".join(f"{key} {value}" for key, value in entry.items())
        report.lost.append(f"{INDEX}: an entry without feature_id: {shown}"[:500])
    found = [_merge_sides(same, f"{INDEX}: {id}", report) for id, same in by_id.items()]
    return {"active_features": found}


def salvage_index(data: bytes) -> tuple[Node, list[str]]:
    """Return the value of a damaged index, and what of it is lost or in conflict."""
    report = Report()
    return _scan_index(_read_sides(data, INDEX, report), report), report.lost


def _scan_plan(both: list[list[Node]], report: Report) -> Node:
    """Return a plan: the keys before the first list element belong to the feature."""
    if len(both) > 1:
        report.lost.append(f"{PLAN}: the second side of a merge conflict")
    feature, *items = both[0]
    phases: list[Node] = []
    for item in items:
        if "phase_id" in item or "tasks" in item:
            phases.append(item | {"tasks": []})
        elif "task_id" in item or "description" in item:
            phases = phases or [{"phase_id": read.LOOSE, "tasks": []}]
            phases[-1]["tasks"].append(item)
    known = {key: feature[key] for key in _FEATURE_KEYS if text(feature.get(key))}
    return ({"feature": known} if known else {}) | ({"phases": phases} if phases else {})


# --- the log -----------------------------------------------------------------------------------

_LOG_KEYS = (
    *("timestamp", "event", "command", "arguments", "model", "agent", "task_id", "status"),
    *("duration_ms", "error", "feature_id"),
)


def _read_log(data: bytes, file: str, report: Report) -> list[Any]:
    """Return the records of a log; of a record that is not JSON, the fields that can be found."""
    made, torn = [], 0
    for number, record in _split_records(decode_damaged(data, _MOST_OF_LOG)[0]):
        value = mapping(_parse_json(record, None))
        if not value:
            torn += 1
            if torn > _MOST_TORN_RECORDS:
                report.lost.append(f"{file}: everything from line {number} on")
                break
            value = pick_fields(record, _LOG_KEYS)
            if not value.keys() & {"command", "event"}:
                report.lost.append(f"{file}: line {number} cannot be read")
                continue
            report.inferred.append(f"{file}: line {number} is not JSON; single fields were read")
        made.append(value)
    return made


def _split_records(content: str) -> Iterator[tuple[int, str]]:
    """Yield each record with its line number; a line that begins no record continues the last."""
    number, held = 0, list[str]()
    for at, line in enumerate(content.split("\n"), 1):
        if marker_in(line):
            continue
        if held and line.lstrip().startswith("{"):
            yield number, "\n".join(held)
            held = []
        if held or line.strip():
            number = number if held else at
            held.append(line)
    if held:
        yield number, "\n".join(held)


# --- inference ---------------------------------------------------------------------------------


def _infer(tree: Tree, facts: Facts, report: Report, where: Where) -> None:
    """Set facts that the state lacks from the other files, and report each as inferred."""
    current, lines = read.current_of(tree), [mapping(line) for line in read.log_of(tree)]
    moments = (timestamps.read(line.get("timestamp"), where.naive) for line in lines)
    seen = [moment for moment in moments if moment is not None]
    commands = [line for line in lines if text(line.get("command"))]
    tasks = [line["task_id"] for line in commands if "task_id" in line]
    models = [line["model"] for line in commands if text(line.get("model"))]
    source = INDEX if read.entry_of(tree, facts.native_id) else PLAN
    sources = {"began_at": source, "updated_at": source}
    if facts.began_at is None and seen:
        facts.began_at, sources["began_at"] = min(seen), LOG
    if "last_updated" not in current and seen and max(seen) > timestamps.first(facts.updated_at, 0):
        facts.updated_at, sources["updated_at"] = max(seen), LOG
    if "active_task" not in current and tasks:
        facts.position, sources["position"] = read.name(tasks[-1]), LOG
    if not facts.model and models:
        facts.model, sources["model"] = models[-1], LOG
    report.inferred += [
        f"{field}: from {file}"
        for field, file in sources.items()
        if _NATIVE[field] not in current and getattr(facts, field) not in (None, "")
    ]
    listed = [text(entry.get("feature_id")) for entry in read.entries_of(tree)]
    if not facts.native_id and listed:
        report.inferred.append(f"{INDEX}: lists {', '.join(listed)}")
        return
    if facts.native_id and "feature_id" not in read.part(tree, STATE):
        report.inferred.append("native_id: from the folder's name or another file")
    if not read.status_of(tree, facts.native_id):
        report.inferred.append("status: assumed to be active, no file contains it")


_NATIVE = {
    "began_at": "started_at",
    "updated_at": "last_updated",
    "position": "active_task",
    "model": "model_in_use",
}
