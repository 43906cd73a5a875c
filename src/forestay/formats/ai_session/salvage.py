"""Read what damaged `ai-session` files still contain.

An intact file is parsed as usual. Others are read line by line, ignoring indentation, because that
is what gets damaged: lines inserted into others, `active_features: []` followed by entries, an
entry without its first line, a record of the log broken by a raw newline, a torn end, git's
conflict markers. The readable lines become a tree, and facts are read from it as from any other.

What the state no longer contains is inferred: the start from the index, else the plan, else the
first line of the log; task and model from the log's last line. Each inference is reported. Where
the two sides of a merge conflict disagree neither is used, and both are reported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec import Struct

from forestay.base.findings import Finding
from forestay.formats import timestamps
from forestay.formats.ai_session import read
from forestay.formats.ai_session.read import INDEX, LOG, PLAN, STATE, Node
from forestay.formats.coerce import mapping, text
from forestay.formats.facts import Facts
from forestay.formats.port import ERROR, Bundle, Salvaged, Tree, Where
from forestay.formats.salvage import parse_intact_yaml
from forestay.formats.text import git_conflict

_MOST = 16 * 1024 * 1024
_MOST_YAML = 4 * 1024 * 1024
_MOST_LINES = 200_000
_LONGEST = 1024 * 1024
_MOST_REPORTED = 20
_MOST_TORN_LINES = 10_000
"""How many lines of a log that are not JSON are searched for fields, which is slow."""


class Report(Struct):
    inferred: list[str] = []
    lost: list[str] = []


def salvage(bundle: Bundle, where: Where) -> Salvaged | None:
    """Return the facts that are left, and what was inferred and lost; None when nothing is."""
    report = Report()
    tree = scan(bundle, report)
    facts = read.read_facts(tree, where)
    sources = [file for file in (STATE, LOG, INDEX, PLAN) if _has_content(tree, file)]
    if not sources:
        return None
    ids = (text(mapping(line).get("feature_id")) for line in read.log_of(tree))
    facts.native_id = facts.native_id or next(filter(None, ids), "")
    _infer(tree, facts, report, where)
    message = f"Restored from {', '.join(sources)}"
    return Salvaged(facts, sources[0], message, report.inferred, report.lost)


def scan(bundle: Bundle, report: Report) -> Tree:
    """Return the tree in the bytes; damaged files as far as their lines can be read."""
    tree: Tree = {}
    for file, scan_file in _SCANS.items():
        key = read.key_of(dict(bundle), file)
        if not key:
            continue
        data, limit = bundle[key], _MOST if file == LOG else _MOST_YAML
        intact = None if file == LOG else parse_intact_yaml(data, read.torn)
        content = _decode(data[:limit])
        lines = content.split("\n", _MOST_LINES)
        if not intact and file != LOG and (len(data) > limit or len(lines) > _MOST_LINES):
            # Millions of lines would take too long.
            report.lost.append(f"{file}: only its beginning was read")
            content = "\n".join(lines[:_MOST_LINES])
        tree[key] = intact or scan_file(content, report)
    return tree


def _has_content(tree: Tree, file: str) -> bool:
    if file == LOG:
        return bool(read.log_of(tree))
    if file == INDEX and not read.has_session(tree):
        return any(read.entries_of(tree))
    if file == INDEX:
        return bool(read.entry_of(tree, read.identity(tree)))
    return bool(read.part(tree, file))


def _decode(data: bytes) -> str:
    """Decode text of any encoding and damage; NUL bytes come from lost disk blocks."""
    data = data[:_MOST]
    wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    return data.decode("utf-16" if wide else "utf-8-sig", "replace").replace("\0", "")


# --- lines of YAML -----------------------------------------------------------------------------

_LINE = re.compile(r"""[ \t]*(- +)?["']?([A-Za-z_]\w*)["']?:(?: +(.*))?\Z""")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\']|\'\')*\'')
_TORN = object()
_ITEM = re.compile(r"[ \t]*- +(.*)\Z")


class Line(NamedTuple):
    starts: bool
    """Whether the line starts an element of a list."""
    key: str
    value: Any


def _collect_elements(content: str, file: str, report: Report) -> list[Node]:
    """Return the elements of a file's lists, each with the first value of each key.

    The first element is what comes before any list. Lines that cannot be read are reported.
    """
    elements: list[Node] = [{}]
    unread: list[int] = []
    lines = content.split("\n")
    for number, raw in enumerate(lines, 1):
        line = _parse_line(raw, is_last=number == len(lines))
        is_empty = not raw.strip() or raw.lstrip().startswith(("#", "---"))
        if line is None or line.value is _TORN:
            unread += [number] if line or not is_empty else []
        if line is None:
            continue
        if line.key and line.starts:
            elements.append({})
        if line.key and line.value is not _TORN:
            elements[-1].setdefault(line.key, line.value)
        elif not line.key and isinstance(line.value, str):
            # A plain element can only be one of a task's artifacts.
            if not isinstance(elements[-1].get("artifacts"), list):
                elements[-1]["artifacts"] = []
            elements[-1]["artifacts"].append(line.value)
    report.lost += [f"{file}: line {number} cannot be read" for number in unread[:_MOST_REPORTED]]
    if (more := len(unread) - _MOST_REPORTED) > 0:
        report.lost.append(f"{file}: {more} more lines cannot be read")
    if lines[-1].strip():
        end = f"it breaks off in line {len(lines)}; what followed, if anything did"
        report.lost.append(f"{file}: {end}")
    return elements


def _parse_line(raw: str, *, is_last: bool) -> Line | None:
    """Return a line with a key, or (with an empty key) a plain list element, or None.

    The last line may be torn: only a closing quote shows that it is complete.
    """
    raw = raw[:_LONGEST].rstrip()
    if match := _LINE.match(raw):
        value = (match[3] or "").strip()
        parsed = _unquote(value) if is_last else _parse_scalar(value)
        return Line(bool(match[1]), match[2], parsed)
    item = None if is_last else _ITEM.match(raw)
    return Line(True, "", _parse_scalar(item[1].strip())) if item else None


def _parse_scalar(raw: str) -> Any:
    if raw[:1] in ('"', "'"):
        return _unquote(raw)
    if raw[:1] == "[":
        return _parse_json(raw, None)
    plain = raw.partition(" #")[0].rstrip(" ,")
    return None if plain in ("", "~", "null") else plain


def _unquote(raw: str) -> Any:
    match = _QUOTED.match(raw)
    if match is None:
        return _TORN
    inner = match[0][1:-1]
    return inner.replace("''", "'") if raw[0] == "'" else _parse_json(match[0], inner)


def _parse_json(raw: str, otherwise: Any) -> Any:
    try:
        return _clean(json.loads(raw))
    except (ValueError, RecursionError):
        return otherwise


def _clean(value: Any) -> Any:
    """Replace halves of surrogate pairs, which cannot be encoded."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


_STATE_KEYS = ("version", "feature_id")
_CURRENT_KEYS = ("active_task", "model_in_use", "started_at", "last_updated", "status")


def _scan_state(content: str, report: Report) -> Node:
    """Read a state from its keys, wherever they are; sides of a conflict count where they agree."""
    sides = [
        {key: e[key] for e in reversed(_collect_elements(side, STATE, losses)) for key in e}
        for side, losses in _split_sides(content, report)
    ]
    known = (*_STATE_KEYS, *_CURRENT_KEYS)
    sides = [{key: side[key] for key in known if key in side} for side in sides]
    found = _merge_sides(sides, STATE, report)
    state = {key: found[key] for key in _STATE_KEYS if key in found}
    current = {key: found[key] for key in _CURRENT_KEYS if key in found}
    lost = [key for key in ("feature_id", *_CURRENT_KEYS[:4]) if key not in found]
    if lost:
        report.lost.append(f"{STATE}: {', '.join(lost)}")
    return state | ({"current_state": current} if current else {})


def _merge_sides(sides: list[Node], what: str, report: Report) -> Node:
    """Return the values that the sides share; report those in which they differ."""
    first, last = sides[0], sides[-1]
    for key in [key for key in first | last if first.get(key) != last.get(key)]:
        both = f"{first.get(key)!r} on one side, {last.get(key)!r} on the other"
        report.lost.append(f"{what}: {key} is in conflict: {both}"[:500])
    return {key: value for key, value in first.items() if last.get(key) == value}


def _scan_index(content: str, report: Report) -> Node:
    """Read an index; several entries of one session count where they agree."""
    by_id: dict[str, list[Node]] = {}
    for side, losses in _split_sides(content, report):
        for element in _collect_elements(side, INDEX, losses):
            others = ("active_features", "artifacts")
            entry = {key: value for key, value in element.items() if key not in others}
            if entry:
                by_id.setdefault(text(entry.get("feature_id")), []).append(entry)
    for entry in by_id.pop("", []):
        shown = ", ".join(f"{key} {value}" for key, value in entry.items())
        report.lost.append(f"{INDEX}: an entry without feature_id: {shown}"[:500])
    found = [_merge_sides(sides, f"{INDEX}: {id}", report) for id, sides in by_id.items()]
    return {"active_features": found}


def salvage_index(data: bytes) -> tuple[Node, list[str]]:
    """Return the value of a damaged index, and what of it is lost or in conflict."""
    report = Report()
    return _scan_index(_decode(data), report), report.lost


_FEATURE_KEYS = ("id", "name", "description", "created_at")


def _scan_plan(content: str, report: Report) -> Node:
    """Read a plan: the keys before the first list element belong to the feature."""
    (first, losses), *others = _split_sides(content, report)
    if others:
        report.lost.append(f"{PLAN}: the second side of a merge conflict")
    feature, *items = _collect_elements(first, PLAN, losses)
    phases: list[Node] = []
    for item in items:
        if "phase_id" in item or "tasks" in item:
            phases.append(item | {"tasks": []})
        elif "task_id" in item or "description" in item:
            phases = phases or [{"phase_id": read.LOOSE, "tasks": []}]
            phases[-1]["tasks"].append(item)
    known = {key: feature[key] for key in _FEATURE_KEYS if text(feature.get(key))}
    return ({"feature": known} if known else {}) | ({"phases": phases} if phases else {})


# --- merge conflicts ---------------------------------------------------------------------------


def _split_sides(content: str, report: Report) -> list[tuple[str, Report]]:
    """Return the text or its sides, each with the report of what is lost in it.

    The losses of sides are not reported: their lines have no numbers, and differences are
    reported anyway.
    """
    both = git_conflict.sides(content)
    return [(side, report if len(both) == 1 else Report()) for side in both]


def conflicts(file: str, data: bytes) -> list[Finding]:
    """Return one finding with both sides if git left a merge conflict in a file."""
    both = git_conflict.sides(_decode(data))
    if len(both) == 1:
        return []
    ours, theirs = (side.split("\n") for side in both)
    only = (_only_in(ours, theirs), _only_in(theirs, ours))
    message = f"merge conflict, to be settled by hand: one side has {only[0]}; the other {only[1]}"
    return [Finding("conflict-markers", ERROR, message, file=file, requirement="S0-69")]


def _only_in(these: list[str], those: list[str]) -> str:
    known = set(those)
    lines = " / ".join(line.strip() for line in these if line not in known)
    return repr(lines[:300]) if lines else "nothing of its own"


# --- lines of the log --------------------------------------------------------------------------

_TEXTS = "timestamp event command arguments model agent task_id status error feature_id".split()
_OPEN = {key: re.compile(rf'"{key}"\s*:\s*"') for key in _TEXTS}
_CLOSE = re.compile(r'"\s*(?:,\s*"\w+"\s*:|\}\s*\Z|\Z)')
"""The quote that ends a text: quotes within it were not escaped, so what follows decides."""
_DURATION = re.compile(r'"duration_ms"\s*:\s*(\d{1,18})\b')


def _scan_log(content: str, report: Report) -> list[Any]:
    made, torn = [], 0
    for number, record in _split_records(content):
        if torn == _MOST_TORN_LINES:
            report.lost.append(f"{LOG}: from line {number} on, after {torn} that are no JSON")
            break
        value, whole = _parse_record(record)
        torn += not whole
        if value and not whole:
            report.inferred.append(f"{LOG}: line {number} is no JSON; read piece by piece")
        if value:
            made.append(value)
        else:
            report.lost.append(f"{LOG}: line {number} cannot be read")
    return made


def _split_records(content: str) -> Iterator[tuple[int, str]]:
    """Yield records with their line number; a line that starts none continues the one above."""
    number, held = 0, list[str]()
    for at, line in enumerate(content.split("\n"), 1):
        if git_conflict.marker_in(line):
            continue
        if held and line.lstrip().startswith("{"):
            yield number, "\n".join(held)
            held = []
        if held or line.strip():
            number = number if held else at
            held.append(line)
    if held:
        yield number, "\n".join(held)


def _parse_record(raw: str) -> tuple[Node, bool]:
    """Return a record, and whether it was intact."""
    raw = raw[:_LONGEST]
    try:
        value = json.loads(raw)
        return ({key: _clean(each) for key, each in mapping(value).items()}, True)
    except (ValueError, RecursionError):
        pass  # it is damaged: its fields are searched for below
    found: Node = {key: value for key in _TEXTS if (value := _find_text(raw, key)) is not None}
    if match := _DURATION.search(raw):
        found["duration_ms"] = int(match[1])
    return found if "command" in found or "event" in found else {}, False


def _find_text(raw: str, key: str) -> str | None:
    begin = _OPEN[key].search(raw)
    end = _CLOSE.search(raw, begin.end()) if begin else None
    return raw[begin.end() : end.start()] if begin and end else None


_SCANS = {STATE: _scan_state, PLAN: _scan_plan, LOG: _scan_log, INDEX: _scan_index}


# --- inference ---------------------------------------------------------------------------------


def _infer(tree: Tree, facts: Facts, report: Report, where: Where) -> None:
    """Fill what the state lacks from the other files, and report it."""
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
