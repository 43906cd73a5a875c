"""Change one place of another program's settings file and leave every other byte alone.

The file is JSON, perhaps with comments and trailing commas, which some agents allow. It is never
parsed and rewritten: a scan finds the *spans* of its values, a change inserts text between them,
and undoing it cuts that text out. Our entries are found by their content, so a file that the user
has reformatted can be cleaned too. Only the containers that were *made* for our entries have to be
remembered, so that an empty list of the user's stays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

Path = Sequence[str]
_STEP = "  "
_BLANK = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)+", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_SCALAR = re.compile(r"-?\d[\d.eE+-]*|true|false|null")
_DEEPEST = 200


class Unsplicable(ValueError):
    """The text is not JSON, or another kind of value is where our entry belongs."""


class Part(NamedTuple):
    """One value inside a container: where its key begins, where it begins and ends."""

    key: str
    begin: int
    start: int
    end: int


def inserted(text: str, path: Path, item: object, key: str = "") -> tuple[str, list[list[str]]]:
    """Return the text with `item` added to the container at `path`, and the containers created.

    With a `key` the container is an object, without one a list.
    """
    made: list[list[str]] = []
    value: Any = {key: item} if key else [item]
    for depth in range(len(path), -1, -1):
        at = _find(text, path[:depth])
        if at is not None:
            break
        made.insert(0, list(path[:depth]))
        if depth > 0:
            value = {path[depth - 1]: value}
    else:
        raise Unsplicable("it contains no value")
    return _put(text, at, value), made


def removed(
    text: str,
    path: Path,
    is_ours: Callable[[str, object], bool],
    made: Sequence[Sequence[str]] | None = None,
) -> str:
    """Return the text without our entries below `path` and the containers they leave empty.

    If `made` is known, only those containers are removed.
    """
    at = _find(text, path)
    if at is None:
        return text
    parts = _parts(text, at)
    ours = [n for n, part in enumerate(parts) if is_ours(part.key, _value(text, part))]
    for number in reversed(ours):
        text = _cut(text, at, number)
    empty = bool(ours) and len(ours) == len(parts)
    if empty and path and (made is None or list(path) in [list(each) for each in made]):
        above = list(path[:-1])
        return removed(text, above, lambda key, value: key == path[-1] and not value, made)
    return text


def check(text: str) -> None:
    """Refuse a text that the agent's parser would read differently, or not at all."""
    start = _find(text, [])
    assert start is not None
    end = _end(text, start, 0)
    _value(text, Part("", start, start, end))
    if _skip(text, end) < len(text):
        raise Unsplicable(_where(text, end))


def shared(text: str, path: Path, inside: str, is_ours: Callable[[str, object], bool]) -> str:
    """Return the text without our items in entries at `path` that also have items of others.

    `inside` names the list of an entry. Entries that are entirely ours are left to `removed`.
    """
    at = _find(text, path)
    for entry in reversed(_parts(text, at) if at is not None else []):
        lists = _parts(text, entry.start) if text.startswith("{", entry.start) else []
        for start in (part.start for part in lists if part.key == inside):
            parts = _parts(text, start) if text.startswith("[", start) else []
            ours = [n for n, part in enumerate(parts) if is_ours(part.key, _value(text, part))]
            for number in reversed(ours if len(ours) < len(parts) else []):
                text = _cut(text, start, number)
    return text


def value_at(text: str, path: Path) -> Any:
    """Return the value at a path; None if there is none."""
    start = _find(text, path)
    return None if start is None else _value(text, Part("", start, start, _end(text, start, 0)))


def entries(text: str, path: Path) -> list[tuple[str, Any]]:
    """Return the keys and values of the container at a path; keys are empty in a list."""
    at = _find(text, path)
    return [] if at is None else [(part.key, _value(text, part)) for part in _parts(text, at)]


# -- finding -----------------------------------------------------------------------------------


def _find(text: str, path: Path) -> int | None:
    """Return where the value at `path` begins."""
    at = _skip(text, 1 if text.startswith("\ufeff") else 0)
    for key in path:
        if not text.startswith("{", at):
            raise Unsplicable(f"there is no object that could hold {key!r}")
        # As in parsers, the last of two entries with the same key counts.
        found = [part for part in _parts(text, at) if part.key == key]
        if not found:
            return None
        at = found[-1].start
    if at >= len(text):
        raise Unsplicable("it contains no value")
    return at


def _parts(text: str, at: int) -> list[Part]:
    """Return the parts of the object or list that begins at `at`."""
    if text[at : at + 1] not in ("{", "["):
        raise Unsplicable("a single value is where a list or an object is expected")
    return _inside(text, at, 0)[0]


def _inside(text: str, at: int, depth: int) -> tuple[list[Part], int]:
    """Return the parts of a container and where it ends."""
    if depth > _DEEPEST:
        raise Unsplicable("it is nested too deeply")
    is_object, closing = text[at] == "{", "}" if text[at] == "{" else "]"
    parts: list[Part] = []
    at = _skip(text, at + 1)
    while not text.startswith(closing, at):
        begin, key = at, ""
        if is_object:
            match = _STRING.match(text, at)
            colon = _skip(text, match.end()) if match else at
            if match is None or not text.startswith(":", colon):
                raise Unsplicable(_where(text, at))
            key, at = str(_parse_json(match.group(), text, at)), _skip(text, colon + 1)
        end = _end(text, at, depth + 1)
        parts.append(Part(key, begin, at, end))
        at = _skip(text, end)
        if text.startswith(",", at):
            at = _skip(text, at + 1)
        elif not text.startswith(closing, at):
            raise Unsplicable(_where(text, at))
    return parts, at + 1


def _end(text: str, at: int, depth: int) -> int:
    """Return where the value that begins at `at` ends."""
    if text[at : at + 1] in ("{", "["):
        return _inside(text, at, depth)[1]
    match = _STRING.match(text, at) or _SCALAR.match(text, at)
    if match is None:
        raise Unsplicable(_where(text, at))
    return match.end()


def _skip(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _where(text: str, at: int) -> str:
    return f"line {text.count(chr(10), 0, at) + 1} is not JSON"


def _value(text: str, part: Part) -> Any:
    """Parse a span after removing its comments and trailing commas."""
    plain: list[str] = []
    at = part.start
    while at < part.end:
        match = _STRING.match(text, at) or _BLANK.match(text, at)
        piece = match.group() if match else text[at]
        if not (match and piece[0] in "/ \t\r\n"):
            plain.append(piece)
        at += len(piece)
    whole = re.sub(r'("(?:[^"\\]|\\.)*")|,(?=[}\]])', r"\1", "".join(plain))
    return _parse_json(whole, text, part.start)


def _parse_json(piece: str, text: str, at: int) -> Any:
    try:
        return json.loads(piece)
    except ValueError:
        raise Unsplicable(_where(text, at)) from None


# -- changing ----------------------------------------------------------------------------------


def _put(text: str, at: int, value: Any) -> str:
    """Insert the items of a new object or list at the end of the container at `at`.

    An empty container on one line stays on one line, so that cutting restores the original.
    """
    if isinstance(value, dict) != (text[at] == "{"):
        raise Unsplicable("a list is where an object is expected, or the other way round")
    parts = _parts(text, at)
    line_end = "\r\n" if "\r\n" in text else "\n"
    margin = _margin(text, at) + _STEP
    if parts:
        begin = parts[0].begin
        line = text[text.rfind("\n", 0, begin) + 1 : begin]
        margin = line if "\n" in text[:begin] and not line.strip() else margin
        end = parts[-1].end
        return f"{text[:end]},{line_end}{margin}{_shown(value, margin, line_end)}{text[end:]}"
    rest = text[at + 1 :]
    if "\n" in rest[: _skip(rest, 0)]:
        piece = f"{line_end}{margin}{_shown(value, margin, line_end)}"
    else:
        piece = _shown(value, _margin(text, at), line_end)
    return f"{text[: at + 1]}{piece}{rest}"


def _shown(value: Any, margin: str, line_end: str) -> str:
    step = _STEP if not margin or "\t" not in margin else "\t"
    (key, item), *_ = value.items() if isinstance(value, dict) else [("", value[0])]
    lines = json.dumps(item, indent=step, ensure_ascii=False).split("\n")
    head = f"{json.dumps(key)}: " if isinstance(value, dict) else ""
    return head + f"{line_end}{margin}".join(lines)


def _margin(text: str, at: int) -> str:
    """Return the white space at the beginning of the line of `at`."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _cut(text: str, at: int, number: int) -> str:
    """Remove one part from a container, with its comma."""
    parts = _parts(text, at)
    part = parts[number]
    if number > 0:
        return text[: parts[number - 1].end] + text[part.end :]
    if len(parts) > 1:
        return text[: part.begin] + text[parts[1].begin :]
    after = _skip(text, part.end)
    end = after + 1 if text.startswith(",", after) else part.end
    return text[: at + 1] + text[end:]
