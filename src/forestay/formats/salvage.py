"""Read what damaged session files still contain: one ladder for all formats.

`read_damaged` tries its rungs in order, the most reliable one first, and returns the first
`Remains` that the format recognises as a session:

    whole      the text is complete once odd bytes, a git conflict (its first side is used) and
               common mistakes are repaired
    partial    JSON: everything before the damage, and single fields after it;
               YAML: the topmost keys whose own lines can be parsed
    fields     the values of some keys, found one by one (only if the format names such keys)

A format with one JSON file needs one call, which turns the remains into `Salvaged`:

    def salvage(self, bundle, where):
        return salvage_json(data, read, is_session=..., wanted=..., single=...)

A YAML format calls `read_damaged(data, "yaml", is_session, is_torn=...)`, where `is_torn(data,
value)` returns why a text that can be parsed is only the beginning of a file. `Remains.text` is the
repaired text; `remarks` is empty if nothing was wrong with the bytes. Other helpers, for formats
that need more: `decode_damaged`, `sides` of a conflict, `pick_fields` of a record.

The time is proportional to the file size, and only the first megabytes are read. This module
neither writes files nor asks the user.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from msgspec import Struct

from forestay.formats.coerce import Node
from forestay.formats.facts import Facts
from forestay.formats.port import Salvaged
from forestay.formats.text import safe_parse

LIMIT = 4 * 1024 * 1024
DEEPEST = 64
TOKENS = 200_000
READ_ANYWAY = "the file was read in spite of its faults"
_INCOMPLETE = "the file is incomplete or damaged; everything before the damage was read"


class Remains(Struct):
    """What is left of a damaged file: its rung, value and text, and remarks on the damage."""

    rung: str
    value: Node
    text: str
    remarks: list[str]
    inferred: list[str] = []


def read_damaged(
    data: bytes,
    kind: str = "json",
    is_session: Callable[[Node], object] = bool,
    *,
    is_torn: Callable[[bytes, Node], object] = lambda data, value: False,
    single: Iterable[str] = (),
) -> Remains | None:
    """Return what is left of a file that holds one object of JSON or YAML, or None.

    `is_session` recognises a session by its keys, `is_torn` a YAML text that breaks off; `single`
    has the keys whose values can be searched for one by one.
    """
    text, remarks = decode_damaged(data)
    text, *other = sides(text)
    if other:
        remarks.append("of two versions in conflict, the first was used")
    found = _read_json(text) if kind == "json" else _read_yaml(text, is_torn)
    if found is None or not is_session(found.value):
        found = _read_fields(text, single)
    found.remarks = [*remarks, *found.remarks]
    return found if is_session(found.value) else None


def salvage_json(
    data: bytes | None,
    read: Callable[[Node], Facts],
    *,
    is_session: Callable[[Node], object],
    wanted: Iterable[str],
    single: Iterable[str] = (),
) -> Salvaged | None:
    """Return what a damaged JSON file of a session still contains, or None.

    `read` turns its value into facts; keys in `wanted` are reported as lost if they are missing;
    for the other parameters see `read_damaged`.
    """
    found = read_damaged(data or b"", "json", is_session, single=single)
    if found is None:
        return None
    return Salvaged(
        facts=read(found.value),
        level=found.rung,
        message="; ".join(found.remarks) or READ_ANYWAY,
        inferred=[*found.remarks, *found.inferred],
        lost=[key for key in wanted if key not in found.value],
    )


# --- bytes and conflicts -----------------------------------------------------------------------


def decode_damaged(data: bytes, limit: int = LIMIT) -> tuple[str, list[str]]:
    """Return the text of a damaged file without zeros at its end, and remarks on it."""
    remarks = ["only the first megabytes were read"] if len(data) > limit else []
    data = data[:limit]
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = data.decode("utf-16", "replace")
        remarks.append("the file is UTF-16, not UTF-8")
    else:
        text = data.decode("utf-8-sig", "replace")
    if "\0" in text:
        remarks.append("a part of the file was overwritten with zeros")
    if "\ufffd" in text:
        remarks.append("bytes that are not UTF-8 were replaced")
    return text.rstrip("\0"), remarks


_MARKS: dict[str, tuple[int, ...]] = {
    "<<<<<<<": (0,),
    "|||||||": (),
    "=======": (1,),
    ">>>>>>>": (0, 1),
}
"""Conflict marker → the sides that have the lines after it; none for the common ancestor."""
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def marker_in(line: str) -> str:
    """Return the git conflict marker in a line, or an empty string."""
    mark = line[:7]
    return mark if mark in _MARKS and line[7:8] in ("", " ", "\r", "\n") else ""


def sides(text: str) -> list[str]:
    """Return the text, or its two versions if it has git conflicts; lines outside are in both."""
    if "<<<<<<<" not in text:
        return [text]
    made: tuple[list[str], list[str]] = ([], [])
    into: tuple[int, ...] = (0, 1)
    is_in_two = False
    for line in _LINE.findall(text):
        mark = marker_in(line)
        if mark and (mark == "<<<<<<<" or is_in_two):
            into, is_in_two = _MARKS[mark], True
            continue
        for side in into:
            made[side].append(line)
    return ["".join(lines) for lines in made] if is_in_two else [text]


def differences(data: bytes) -> tuple[str, str]:
    """Return the lines that only the first side of a merge conflict has, and only the second."""
    both = [side.split("\n") for side in sides(decode_damaged(data)[0])]
    return _only_in(both[0], both[-1]), _only_in(both[-1], both[0])


def _only_in(these: list[str], those: list[str]) -> str:
    known = set(those)
    lines = " / ".join(line.strip() for line in these if line not in known)
    return repr(lines[:300]) if lines else "no other lines"


# --- YAML --------------------------------------------------------------------------------------

_MOST_YAML = 256 * 1024
_TOP_KEY = re.compile(r"^([A-Za-z_]{1,40}):", re.MULTILINE)


def ends_within_a_line(data: bytes) -> bool:
    """Return whether a YAML text ends inside a line: without a line break or closing brace."""
    return not data.endswith(b"\n") and not data.lstrip().startswith(b"{")


def _read_yaml(text: str, is_torn: Callable[[bytes, Node], object]) -> Remains | None:
    """Read a YAML text whole, else each of its topmost keys with the lines that belong to it."""
    value = _parse_yaml(text)
    if value is not None and not is_torn(text.encode(), value):
        return Remains("whole", value, text, [])
    found: dict[str, Any] = {}
    text = text[:_MOST_YAML]
    starts = list(_TOP_KEY.finditer(text))
    ends = [*(start.start() for start in starts[1:]), len(text)]
    for start, end in zip(starts, ends, strict=False):
        if start[1] not in found:
            found[start[1]] = (_parse_yaml(text[start.start() : end]) or {}).get(start[1])
    known = {key: value for key, value in found.items() if value is not None}
    return Remains("partial", known, text, [_INCOMPLETE]) if known else None


def _parse_yaml(text: str) -> Node | None:
    try:
        value = safe_parse.read_yaml(text)[0].value
    except safe_parse.Unreadable:
        return None
    return value if isinstance(value, dict) else None


# --- JSON --------------------------------------------------------------------------------------

# A string without an end matches too, so that nothing inside it is repaired.
_MISTAKE = re.compile(
    r'(?P<text>"[^"\\\0]*+(?:\\.[^"\\\0]*+)*+"?)'
    r"|,(?=[ \t\r\n]*+[\]}])"
    r"|//[^\n]*+"
    r'|(?P<gap>(?<=["\]}0-9el])[ \t]*+\r?\n[ \t\r\n]*+(?=["{]))'
    r"|(?P<word>(?<![\w.])(?:-?(?:NaN|Infinity)|None|True|False)(?!\w))"
)
_WORDS = {"True": "true", "False": "false"}
_NO_ESCAPE = re.compile(r'(?<!\\)(?:\\\\)*+\\(?!["/bfnrt]|u[0-9a-fA-F]{4})')


def _read_json(text: str) -> Remains | None:
    """Read a JSON text up to its damage, with common mistakes repaired if that finds more.

    The mistakes are a comma too many or too few, a comment, a backslash that escapes nothing, and
    words such as Python's None.
    """
    found = _read_tokens(text)
    if (found is not None and found.rung == "whole") or len(text) > LIMIT // 4:
        return found  # repairing large texts would take too long
    again = _read_tokens(_MISTAKE.sub(_repair, text))

    def size(each: Remains | None) -> tuple[bool, int]:
        return (each.rung == "whole", len(each.value)) if each else (False, 0)

    return max(found, again, key=size)


def _repair(mistake: re.Match[str]) -> str:
    if mistake["text"]:
        # A backslash that begins no escape is literal, as in C:\Users.
        return _NO_ESCAPE.sub(r"\g<0>\\", mistake[0])
    if mistake["gap"]:
        return f",{mistake[0]}"
    return _WORDS.get(mistake[0], "null") if mistake["word"] else ""


# A number counts only if something follows it: at the end of a file it can be incomplete.
_TOKEN = re.compile(
    r"[ \t\r\n]*+(?:(?P<sign>[\[\]{},:])"
    r'|(?P<string>"[^"\\\0]*+(?:\\.[^"\\\0]*+)*+")'
    r"|(?P<scalar>-?[0-9]{1,300}(?:\.[0-9]{1,300})?(?:[eE][+-]?[0-9]{1,3})?|true|false|null)"
    r"(?=[ \t\r\n,\]}]))"
)
_CLOSER = {"{": "}", "[": "]"}
_INDENT = re.compile(r'\{[ \t]*\r?\n([ \t]{1,8})"')
_FIELD = re.compile(
    r'^([ \t]{1,8})"([A-Za-z_]{1,40})"[ \t]*:[ \t]*'
    r'("[^"\\\r\n]*+(?:\\.[^"\\\r\n]*+)*+"|true|false|null'
    # A 0 at the end of the file may have been 0.4.
    r"|-?[0-9]{1,15}(?:\.[0-9]{1,15})?(?=[\s,]))"
    r"[ \t]*,?[ \t]*\r?$",
    re.MULTILINE,
)


def _read_tokens(text: str) -> Remains | None:
    """Read a JSON text up to its first fault, and top-level fields after it.

    The text is cut at the last place where closing all open brackets gives valid JSON. Top-level
    fields are those indented like the first key of the file.
    """
    start = text.find("{")
    if start < 0:
        return None
    end, closers = _find_cut(text, start)
    value = _load_object(text[start:end] + closers)
    behind: Node = {}
    if closers and (indent := _INDENT.match(text, start)):
        for match in _FIELD.finditer(text, end):
            if match[1] == indent[1] and match[2] not in value:
                behind |= _load_object(f'{{"{match[2]}":{match[3]}}}')
    if not value and not behind:
        return None
    if not closers and not text[end:].strip():
        return Remains("whole", value, text, [])
    inferred = [f"{key}: found behind the damage" for key in behind]
    return Remains("partial", {**value, **behind}, text, [_INCOMPLETE], inferred)


# State → token → next state. After a complete value the state is `after`; the stack of open
# brackets then decides what can follow.
_VALUES = {"{": "first key", "[": "first value", "string": "after", "scalar": "after"}
_NEXT: dict[str, dict[str, str]] = {
    "value": _VALUES,
    "first value": {**_VALUES, "]": "after"},
    "first key": {"string": "colon", "}": "after"},
    "key": {"string": "colon"},
    "colon": {":": "value"},
    "after": {",": "more", "]": "after", "}": "after"},
}


def _find_cut(text: str, start: int) -> tuple[int, str]:
    """Return where to cut the text, and the brackets that close it there."""
    stack: list[str] = []
    state, at, safe = "value", start, start
    for _ in range(TOKENS):
        if (match := _TOKEN.match(text, at)) is None:
            break
        sign = match["sign"] or match.lastgroup or ""
        after = _NEXT[state].get(sign)
        closes = sign in ("]", "}")
        if after is None or (closes and stack[-1:] != [sign]):
            break
        if closes:
            stack.pop()
        elif sign in _CLOSER:
            if len(stack) == DEEPEST:
                break
            stack.append(_CLOSER[sign])
        state, at = after, match.end()
        if state == "more":
            state = "key" if stack and stack[-1] == "}" else "value"
        elif state in ("after", "first key", "first value"):
            safe = at
            if not stack:
                break
    return safe, "".join(reversed(stack))


def _load_object(text: str) -> Node:
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return {}
    return without_surrogates(value) if isinstance(value, dict) else {}


def without_surrogates(value: Any) -> Any:
    """Return the value without lone surrogates, which cannot be written."""
    if isinstance(value, dict):
        return {without_surrogates(key): without_surrogates(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_surrogates(inner) for inner in value]
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value


# --- single fields -----------------------------------------------------------------------------

# An unescaped quote inside a text is part of the text, unless it looks like the end of the text.
_VALUE = re.compile(
    r'"(?:[^"\\]|\\.|"(?![ \t]{0,9}(?:,\s{0,9}"|[\]}\n]|\Z))){0,4000}+"'
    r"|[0-9]{1,15}\b|\[[\d\s,]{0,9000}"
)
_MOST_PLACES = 100
"""The most occurrences of a key at which its value is searched for."""


def _read_fields(text: str, keys: Iterable[str]) -> Remains:
    found = pick_fields(text, keys)
    remarks = ["the file cannot be read as a whole; single fields were found in it"]
    inferred = ["which values belong to the session: the first of each key was used"]
    return Remains("fields", found, text, remarks, inferred)


def pick_fields(text: str, keys: Iterable[str]) -> Node:
    """Return the first text, number or list of numbers that follows each of the keys."""
    found: Node = {}
    for key in keys:
        places = re.finditer(rf'"{key}"\s{{0,9}}:\s{{0,9}}', text)
        values = (_VALUE.match(text, place.end()) for place in islice(places, _MOST_PLACES))
        if match := next(filter(None, values), None):
            found[key] = _parse_field(match[0])
    return found


def _parse_field(raw: str) -> Any:
    if raw.startswith("["):  # a list of numbers, which can break off
        return [int(number) for number in re.findall(r"\d+", raw) if len(number) <= 6]
    try:
        return without_surrogates(json.loads(raw, strict=False))
    except ValueError:
        return raw[1:-1]
