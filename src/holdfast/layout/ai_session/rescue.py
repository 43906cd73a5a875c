"""Saving what damaged `ai-session` files still say.

A file that is whole is read as ever. Others are read line by line, without regard for
indentation, because that is what gets damaged: lines put into the middle of others,
`active_features: []` with entries after it, an entry whose first line was cut out, a record of the
log broken by a raw newline, a torn end, git's conflict markers. What can be read becomes a tree
again, and facts are got from it as from any other.

What the state no longer says is inferred: when it began from the index, else the plan, else the
first line of the log; task and model from the log's last line. Each inference is told. Where two
sides of a merge conflict disagree neither is taken, and both are told.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from msgspec import Struct

from holdfast.layout import ERROR, Bundle, Finding, Salvaged, Tree, Where, conflict, stamps
from holdfast.layout.ai_session import read
from holdfast.layout.ai_session.read import INDEX, LOG, PLAN, STATE, Node
from holdfast.layout.document import Document
from holdfast.layout.facts import Facts
from holdfast.layout.guarded import Unreadable
from holdfast.layout.value import mapping, text

_MOST = 16 * 1024 * 1024
_MOST_YAML = 4 * 1024 * 1024
_MOST_LINES = 200_000
_LONGEST = 1024 * 1024
_FEW = 20
_PIECES = 10_000
"""How many lines of a log that are no JSON are looked into: that takes long."""


class Report(Struct):
    inferred: list[str] = []
    lost: list[str] = []


def salvage(bundle: Bundle, where: Where) -> Salvaged | None:
    """What the bytes still say, and what was inferred and lost; None when they say nothing."""
    report = Report()
    tree = scan(bundle, report)
    facts = read.get(tree, where)
    told = [file for file in (STATE, LOG, INDEX, PLAN) if _tells(tree, file)]
    if not told:
        return None
    facts.native_id = facts.native_id or _id_in_log(tree)
    _infer(tree, facts, report, where)
    message = f"Restored from {', '.join(told)}"
    return Salvaged(facts, told[0], message, report.inferred, report.lost)


def scan(bundle: Bundle, report: Report) -> Tree:
    """The tree that the bytes of some files come to; damaged ones as far as lines can be read."""
    tree: Tree = {}
    for file, of in _SCANS.items():
        if key := read.key_of(dict(bundle), file):
            tree[key] = _sound(file, bundle[key]) or _scanned(file, of, bundle[key], report)
    return tree


def _sound(file: str, data: bytes) -> Any:
    """What a file says that is not damaged itself; None for any other, and for a log."""
    try:
        value = None if file == LOG else Document.parse(data, "yaml").value
    except Unreadable:
        return None
    return value if isinstance(value, dict) and not read.torn(data, value) else None


def _scanned(file: str, of: Callable[[str, Report], Any], data: bytes, report: Report) -> Any:
    if file == LOG:
        return of(_decoded(data), report)
    content = _decoded(data[:_MOST_YAML])
    lines = content.split("\n", _MOST_LINES)
    if len(data) > _MOST_YAML or len(lines) > _MOST_LINES:
        # Nobody waits for one of millions of lines.
        report.lost.append(f"{file}: only its beginning was read")
        content = "\n".join(lines[:_MOST_LINES])
    return of(content, report)


def _tells(tree: Tree, file: str) -> bool:
    if file == LOG:
        return bool(read.log_of(tree))
    if file == INDEX and not read.has_session(tree):
        return any(read.entries_of(tree))
    if file == INDEX:
        return bool(read.entry_of(tree, read.identity(tree)))
    return bool(read.part(tree, file))


def _id_in_log(tree: Tree) -> str:
    said = (text(mapping(line).get("feature_id")) for line in read.log_of(tree))
    return next((id for id in said if id), "")


def _decoded(data: bytes) -> str:
    """Text, whatever its encoding and damage; NUL bytes come from lost disk blocks."""
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
    """Whether it starts an element of a list."""
    key: str
    value: Any


def _lines(content: str, file: str, report: Report) -> Iterator[Line]:
    """The lines that hold a key, or (with an empty key) an element of a list; others are told."""
    *whole, last = content.split("\n")
    unread: list[int] = []
    for number, raw in enumerate(whole, 1):
        line = _line(raw)
        if line is not None:
            yield line
        if _is_lost(line, raw):
            unread.append(number)
    line = _torn_line(last)
    if line is not None:
        yield line
    if _is_lost(line, last):
        unread.append(len(whole) + 1)
    report.lost += _unread(file, unread)
    if last.strip():
        end = f"it breaks off in line {len(whole) + 1}; what followed, if anything did"
        report.lost.append(f"{file}: {end}")


def _is_lost(line: Line | None, raw: str) -> bool:
    if line is not None:
        return line.value is _TORN
    return bool(raw.strip()) and not raw.lstrip().startswith(("#", "---"))


def _unread(file: str, lines: list[int]) -> Iterator[str]:
    for number in lines[:_FEW]:
        yield f"{file}: line {number} cannot be read"
    if len(lines) > _FEW:
        yield f"{file}: {len(lines) - _FEW} more lines cannot be read"


def _line(raw: str) -> Line | None:
    raw = raw[:_LONGEST].rstrip()
    if match := _LINE.match(raw):
        return Line(bool(match[1]), match[2], _scalar(match[3] or ""))
    match = _ITEM.match(raw)
    return Line(True, "", _scalar(match[1])) if match else None


def _torn_line(raw: str) -> Line | None:
    """What has no newline may be torn: only a closing quote shows that it is whole."""
    match = _LINE.match(raw[:_LONGEST].rstrip())
    return Line(bool(match[1]), match[2], _unquoted((match[3] or "").strip())) if match else None


def _kept(node: Node, line: Line) -> None:
    """The first value of a key counts; a torn one counts as none at all."""
    if line.key and line.value is not _TORN:
        node.setdefault(line.key, line.value)


def _scalar(raw: str) -> Any:
    raw = raw.strip()
    if raw[:1] in ('"', "'"):
        return _unquoted(raw)
    if raw[:1] == "[":
        return _parsed(raw, None)
    plain = raw.partition(" #")[0].rstrip(" ,")
    return None if plain in ("", "~", "null") else plain


def _unquoted(raw: str) -> Any:
    match = _QUOTED.match(raw)
    if match is None:
        return _TORN
    inner = match[0][1:-1]
    return inner.replace("''", "'") if raw[0] == "'" else _parsed(match[0], inner)


def _parsed(raw: str, otherwise: Any) -> Any:
    try:
        return _clean(json.loads(raw))
    except (ValueError, RecursionError):
        return otherwise


def _clean(value: Any) -> Any:
    """Half a surrogate pair is text that nobody can store."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


_STATE_KEYS = ("version", "feature_id")
_CURRENT_KEYS = ("active_task", "model_in_use", "started_at", "last_updated", "status")


def _state(content: str, report: Report) -> Node:
    """A state from keys wherever they stand; conflicting sides count where they agree."""
    both = [_flat(side, told) for side, told in _told(content, report)]
    found = _agreed(both, STATE, report)
    state = {key: found[key] for key in _STATE_KEYS if key in found}
    current = {key: found[key] for key in _CURRENT_KEYS if key in found}
    lost = [key for key in ("feature_id", *_CURRENT_KEYS[:4]) if key not in found]
    if lost:
        report.lost.append(f"{STATE}: {', '.join(lost)}")
    return state | ({"current_state": current} if current else {})


def _flat(content: str, report: Report) -> Node:
    found: Node = {}
    for line in _lines(content, STATE, report):
        if line.key in (*_STATE_KEYS, *_CURRENT_KEYS):
            _kept(found, line)
    return found


def _agreed(sides: list[Node], what: str, report: Report) -> Node:
    """What all sides say alike; where they differ, all are told and none is taken."""
    first, last = sides[0], sides[-1]
    for key in [key for key in first | last if first.get(key) != last.get(key)]:
        both = f"{first.get(key)!r} on one side, {last.get(key)!r} on the other"
        report.lost.append(f"{what}: {key} is in conflict: {both}"[:500])
    return {key: value for key, value in first.items() if last.get(key) == value}


def _index(content: str, report: Report) -> Node:
    """An index; what it says several times of one session counts where it agrees."""
    entries = [each for side, told in _told(content, report) for each in _entries(side, told)]
    said: dict[str, list[Node]] = {}
    for entry in entries:
        said.setdefault(text(entry.get("feature_id")), []).append(entry)
    for entry in said.pop("", []):
        told = ", ".join(f"{key} {value}" for key, value in entry.items())
        report.lost.append(f"{INDEX}: an entry without feature_id: {told}"[:500])
    found = [_agreed(sides, f"{INDEX}: {id}", report) for id, sides in said.items()]
    return {"active_features": found}


def _entries(content: str, report: Report) -> list[Node]:
    entries: list[Node] = [{}]
    for line in _lines(content, INDEX, report):
        if line.starts:
            entries.append({})
        if line.key != "active_features":
            _kept(entries[-1], line)
    return [entry for entry in entries if entry]


def salvage_index(data: bytes) -> tuple[Node, list[str]]:
    """The value that a damaged index comes to, and what of it is lost or in conflict."""
    report = Report()
    return _index(_decoded(data), report), report.lost


_FEATURE_KEYS = ("id", "name", "description", "created_at")


def _plan(content: str, report: Report) -> Node:
    """A plan: the elements before the first phase's belong to the feature."""
    first, *others = _told(content, report)
    if others:
        report.lost.append(f"{PLAN}: the second side of a merge conflict")
    feature, *items = _elements(*first)
    phases: list[Node] = []
    for item in items:
        if "phase_id" in item or "tasks" in item:
            phases.append(item | {"tasks": []})
        elif "task_id" in item or "description" in item:
            phases = phases or [{"phase_id": read.LOOSE, "tasks": []}]
            phases[-1]["tasks"].append(item)
    known = {key: feature[key] for key in _FEATURE_KEYS if text(feature.get(key))}
    return ({"feature": known} if known else {}) | ({"phases": phases} if phases else {})


def _elements(content: str, report: Report) -> list[Node]:
    elements: list[Node] = [{}]
    for line in _lines(content, PLAN, report):
        if line.key and line.starts:
            elements.append({})
        if line.key:
            _kept(elements[-1], line)
        elif isinstance(line.value, str):
            # A plain element can only be one of a task's artifacts.
            if not isinstance(elements[-1].get("artifacts"), list):
                elements[-1]["artifacts"] = []
            elements[-1]["artifacts"].append(line.value)
    return elements


# --- merge conflicts ---------------------------------------------------------------------------


def _told(content: str, report: Report) -> list[tuple[str, Report]]:
    """The text or its sides, and where to tell what is lost of each: lines have no numbers in a
    side, and what differs is told otherwise."""
    both = conflict.sides(content)
    return [(side, report if len(both) == 1 else Report()) for side in both]


def conflicts(file: str, data: bytes) -> list[Finding]:
    """What git left in a file for people to settle: one finding that tells both sides."""
    both = conflict.sides(_decoded(data))
    if len(both) == 1:
        return []
    ours, theirs = (side.split("\n") for side in both)
    only = (_only(ours, theirs), _only(theirs, ours))
    message = f"merge conflict, to be settled by hand: one side says {only[0]}; the other {only[1]}"
    return [Finding("conflict-markers", ERROR, message, file, "", "S0-69")]


def _only(these: list[str], those: list[str]) -> str:
    known = set(those)
    told = " / ".join(line.strip() for line in these if line not in known)
    return repr(told[:300]) if told else "nothing of its own"


# --- lines of the log --------------------------------------------------------------------------

_TEXTS = "timestamp event command arguments model agent task_id status error feature_id".split()
_OPEN = {key: re.compile(rf'"{key}"\s*:\s*"') for key in _TEXTS}
_CLOSE = re.compile(r'"\s*(?:,\s*"\w+"\s*:|\}\s*\Z|\Z)')
"""The quote that ends a text: those within it were not escaped, so only what follows tells."""
_DURATION = re.compile(r'"duration_ms"\s*:\s*(\d{1,18})\b')


def _log(content: str, report: Report) -> list[Any]:
    made, torn = [], 0
    for number, record in _records(content):
        if torn == _PIECES:
            report.lost.append(f"{LOG}: from line {number} on, after {torn} that are no JSON")
            break
        value, whole = _record(record)
        torn += not whole
        if value and not whole:
            report.inferred.append(f"{LOG}: line {number} is no JSON; read piece by piece")
        if value:
            made.append(value)
        else:
            report.lost.append(f"{LOG}: line {number} cannot be read")
    return made


def _records(content: str) -> Iterator[tuple[int, str]]:
    """Records with their line; a line that does not begin one continues the one above."""
    number, held = 0, list[str]()
    for at, line in enumerate(content.split("\n"), 1):
        if conflict.mark_of(line):
            continue
        if held and line.lstrip().startswith("{"):
            yield number, "\n".join(held)
            held = []
        if held or line.strip():
            number = number if held else at
            held.append(line)
    if held:
        yield number, "\n".join(held)


def _record(raw: str) -> tuple[Node, bool]:
    """A record, and whether it was whole."""
    raw = raw[:_LONGEST]
    try:
        value = json.loads(raw)
        return ({key: _clean(each) for key, each in mapping(value).items()}, True)
    except (ValueError, RecursionError):
        pass  # it is not whole: what follows looks for the parts
    found: Node = {key: value for key in _TEXTS if (value := _text_of(raw, key)) is not None}
    if match := _DURATION.search(raw):
        found["duration_ms"] = int(match[1])
    return found if "command" in found or "event" in found else {}, False


def _text_of(raw: str, key: str) -> str | None:
    begin = _OPEN[key].search(raw)
    end = _CLOSE.search(raw, begin.end()) if begin else None
    return raw[begin.end() : end.start()] if begin and end else None


_SCANS = {STATE: _state, PLAN: _plan, LOG: _log, INDEX: _index}


# --- inference ---------------------------------------------------------------------------------


def _infer(tree: Tree, facts: Facts, report: Report, where: Where) -> None:
    """Fill what the state no longer says from the other files, and tell it."""
    current = read.current_of(tree)
    seen = _moments(tree, where)
    tasks = [line["task_id"] for line in _commands(tree) if "task_id" in line]
    models = [text(line.get("model")) for line in _commands(tree) if text(line.get("model"))]
    source = INDEX if read.entry_of(tree, facts.native_id) else PLAN
    told = {"began_at": source, "updated_at": source}
    if facts.began_at is None and seen:
        facts.began_at, told["began_at"] = min(seen), LOG
    if "last_updated" not in current and seen and max(seen) > stamps.first(facts.updated_at, 0):
        facts.updated_at, told["updated_at"] = max(seen), LOG
    if "active_task" not in current and tasks:
        facts.position, told["position"] = read.name(tasks[-1]), LOG
    if not facts.model and models:
        facts.model, told["model"] = models[-1], LOG
    report.inferred += [
        f"{field}: from {file}"
        for field, file in told.items()
        if _NATIVE[field] not in current and getattr(facts, field) not in (None, "")
    ]
    report.inferred += _assumed(tree, facts)


_NATIVE = {
    "began_at": "started_at",
    "updated_at": "last_updated",
    "position": "active_task",
    "model": "model_in_use",
}


def _commands(tree: Tree) -> list[Node]:
    lines = (mapping(line) for line in read.log_of(tree))
    return [line for line in lines if text(line.get("command"))]


def _moments(tree: Tree, where: Where) -> list[int]:
    lines = (mapping(line) for line in read.log_of(tree))
    moments = (stamps.read(line.get("timestamp"), where.naive) for line in lines)
    return [moment for moment in moments if moment is not None]


def _assumed(tree: Tree, facts: Facts) -> Iterator[str]:
    listed = [text(entry.get("feature_id")) for entry in read.entries_of(tree)]
    if not facts.native_id and listed:
        yield f"{INDEX}: lists {', '.join(listed)}"
        return
    if facts.native_id and "feature_id" not in read.part(tree, STATE):
        yield "native_id: from the folder's name or another file"
    if not read.status_of(tree, facts.native_id):
        yield "status: assumed to be active, no file tells it"
