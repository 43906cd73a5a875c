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
from collections.abc import Callable, Iterator
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
    facts.native_id = facts.native_id or _id_in_log(tree)
    _infer(tree, facts, report, where)
    message = f"Restored from {', '.join(sources)}"
    return Salvaged(facts, sources[0], message, report.inferred, report.lost)


def scan(bundle: Bundle, report: Report) -> Tree:
    """Return the tree in the bytes; damaged files as far as their lines can be read."""
    tree: Tree = {}
    for file, of in _SCANS.items():
        if key := read.key_of(dict(bundle), file):
            intact = None if file == LOG else parse_intact_yaml(bundle[key], read.torn)
            tree[key] = intact or _scan_file(file, of, bundle[key], report)
    return tree


def _scan_file(file: str, of: Callable[[str, Report], Any], data: bytes, report: Report) -> Any:
    if file == LOG:
        return of(_decode(data), report)
    content = _decode(data[:_MOST_YAML])
    lines = content.split("\n", _MOST_LINES)
    if len(data) > _MOST_YAML or len(lines) > _MOST_LINES:
        # Millions of lines would take too long.
        report.lost.append(f"{file}: only its beginning was read")
        content = "\n".join(lines[:_MOST_LINES])
    return of(content, report)


def _has_content(tree: Tree, file: str) -> bool:
    if file == LOG:
        return bool(read.log_of(tree))
    if file == INDEX and not read.has_session(tree):
        return any(read.entries_of(tree))
    if file == INDEX:
        return bool(read.entry_of(tree, read.identity(tree)))
    return bool(read.part(tree, file))


def _id_in_log(tree: Tree) -> str:
    ids = (text(mapping(line).get("feature_id")) for line in read.log_of(tree))
    return next((id for id in ids if id), "")


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


def _lines(content: str, file: str, report: Report) -> Iterator[Line]:
    """Yield lines with a key, or (with an empty key) a list element; report the others."""
    *whole, last = content.split("\n")
    unread: list[int] = []
    for number, raw in enumerate(whole, 1):
        line = _parse_line(raw)
        if line is not None:
            yield line
        if _is_unreadable(line, raw):
            unread.append(number)
    line = _parse_last_line(last)
    if line is not None:
        yield line
    if _is_unreadable(line, last):
        unread.append(len(whole) + 1)
    report.lost += _report_unread(file, unread)
    if last.strip():
        end = f"it breaks off in line {len(whole) + 1}; what followed, if anything did"
        report.lost.append(f"{file}: {end}")


def _is_unreadable(line: Line | None, raw: str) -> bool:
    if line is not None:
        return line.value is _TORN
    return bool(raw.strip()) and not raw.lstrip().startswith(("#", "---"))


def _report_unread(file: str, lines: list[int]) -> Iterator[str]:
    for number in lines[:_MOST_REPORTED]:
        yield f"{file}: line {number} cannot be read"
    if len(lines) > _MOST_REPORTED:
        yield f"{file}: {len(lines) - _MOST_REPORTED} more lines cannot be read"


def _parse_line(raw: str) -> Line | None:
    raw = raw[:_LONGEST].rstrip()
    if match := _LINE.match(raw):
        return Line(bool(match[1]), match[2], _parse_scalar(match[3] or ""))
    match = _ITEM.match(raw)
    return Line(True, "", _parse_scalar(match[1])) if match else None


def _parse_last_line(raw: str) -> Line | None:
    """Read the last line, which may be torn: only a closing quote shows that it is complete."""
    match = _LINE.match(raw[:_LONGEST].rstrip())
    return Line(bool(match[1]), match[2], _unquote((match[3] or "").strip())) if match else None


def _store_first(node: Node, line: Line) -> None:
    """Store the first value of a key; a torn value is ignored."""
    if line.key and line.value is not _TORN:
        node.setdefault(line.key, line.value)


def _parse_scalar(raw: str) -> Any:
    raw = raw.strip()
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
    both = [_collect_keys(side, losses) for side, losses in _split_sides(content, report)]
    found = _merge_sides(both, STATE, report)
    state = {key: found[key] for key in _STATE_KEYS if key in found}
    current = {key: found[key] for key in _CURRENT_KEYS if key in found}
    lost = [key for key in ("feature_id", *_CURRENT_KEYS[:4]) if key not in found]
    if lost:
        report.lost.append(f"{STATE}: {', '.join(lost)}")
    return state | ({"current_state": current} if current else {})


def _collect_keys(content: str, report: Report) -> Node:
    found: Node = {}
    for line in _lines(content, STATE, report):
        if line.key in (*_STATE_KEYS, *_CURRENT_KEYS):
            _store_first(found, line)
    return found


def _merge_sides(sides: list[Node], what: str, report: Report) -> Node:
    """Return the values that the sides share; report those in which they differ."""
    first, last = sides[0], sides[-1]
    for key in [key for key in first | last if first.get(key) != last.get(key)]:
        both = f"{first.get(key)!r} on one side, {last.get(key)!r} on the other"
        report.lost.append(f"{what}: {key} is in conflict: {both}"[:500])
    return {key: value for key, value in first.items() if last.get(key) == value}


def _scan_index(content: str, report: Report) -> Node:
    """Read an index; several entries of one session count where they agree."""
    entries = [
        each
        for side, losses in _split_sides(content, report)
        for each in _collect_entries(side, losses)
    ]
    by_id: dict[str, list[Node]] = {}
    for entry in entries:
        by_id.setdefault(text(entry.get("feature_id")), []).append(entry)
    for entry in by_id.pop("", []):
        shown = ", ".join(f"{key} {value}" for key, value in entry.items())
        report.lost.append(f"{INDEX}: an entry without feature_id: {shown}"[:500])
    found = [_merge_sides(sides, f"{INDEX}: {id}", report) for id, sides in by_id.items()]
    return {"active_features": found}


def _collect_entries(content: str, report: Report) -> list[Node]:
    entries: list[Node] = [{}]
    for line in _lines(content, INDEX, report):
        if line.starts:
            entries.append({})
        if line.key != "active_features":
            _store_first(entries[-1], line)
    return [entry for entry in entries if entry]


def salvage_index(data: bytes) -> tuple[Node, list[str]]:
    """Return the value of a damaged index, and what of it is lost or in conflict."""
    report = Report()
    return _scan_index(_decode(data), report), report.lost


_FEATURE_KEYS = ("id", "name", "description", "created_at")


def _scan_plan(content: str, report: Report) -> Node:
    """Read a plan: the keys before the first list element belong to the feature."""
    first, *others = _split_sides(content, report)
    if others:
        report.lost.append(f"{PLAN}: the second side of a merge conflict")
    feature, *items = _collect_elements(*first)
    phases: list[Node] = []
    for item in items:
        if "phase_id" in item or "tasks" in item:
            phases.append(item | {"tasks": []})
        elif "task_id" in item or "description" in item:
            phases = phases or [{"phase_id": read.LOOSE, "tasks": []}]
            phases[-1]["tasks"].append(item)
    known = {key: feature[key] for key in _FEATURE_KEYS if text(feature.get(key))}
    return ({"feature": known} if known else {}) | ({"phases": phases} if phases else {})


def _collect_elements(content: str, report: Report) -> list[Node]:
    elements: list[Node] = [{}]
    for line in _lines(content, PLAN, report):
        if line.key and line.starts:
            elements.append({})
        if line.key:
            _store_first(elements[-1], line)
        elif isinstance(line.value, str):
            # A plain element can only be one of a task's artifacts.
            if not isinstance(elements[-1].get("artifacts"), list):
                elements[-1]["artifacts"] = []
            elements[-1]["artifacts"].append(line.value)
    return elements


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
    message = f"merge conflict, to be settled by hand: one side says {only[0]}; the other {only[1]}"
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
        if git_conflict.mark_of(line):
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
    current = read.current_of(tree)
    seen = _log_times(tree, where)
    tasks = [line["task_id"] for line in _commands(tree) if "task_id" in line]
    models = [text(line.get("model")) for line in _commands(tree) if text(line.get("model"))]
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
    report.inferred += _report_assumed(tree, facts)


_NATIVE = {
    "began_at": "started_at",
    "updated_at": "last_updated",
    "position": "active_task",
    "model": "model_in_use",
}


def _commands(tree: Tree) -> list[Node]:
    lines = (mapping(line) for line in read.log_of(tree))
    return [line for line in lines if text(line.get("command"))]


def _log_times(tree: Tree, where: Where) -> list[int]:
    lines = (mapping(line) for line in read.log_of(tree))
    moments = (timestamps.read(line.get("timestamp"), where.naive) for line in lines)
    return [moment for moment in moments if moment is not None]


def _report_assumed(tree: Tree, facts: Facts) -> Iterator[str]:
    listed = [text(entry.get("feature_id")) for entry in read.entries_of(tree)]
    if not facts.native_id and listed:
        yield f"{INDEX}: lists {', '.join(listed)}"
        return
    if facts.native_id and "feature_id" not in read.part(tree, STATE):
        yield "native_id: from the folder's name or another file"
    if not read.status_of(tree, facts.native_id):
        yield "status: assumed to be active, no file contains it"
