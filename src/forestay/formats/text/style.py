"""Write plain values as JSON and YAML, in the indentation and line ends (`Style`) of a file.

New files are written with the defaults: JSON with two spaces and without escapes; YAML in block
style, sequences indented under their key, strings in double quotes. A file that is edited in place
retains its indentation, line ends and escapes; new strings get double quotes, and each element of a
new list gets a line.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from json.encoder import encode_basestring as quoted
from json.encoder import encode_basestring_ascii as quoted_ascii
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from forestay.errors import InvalidInput
from forestay.formats.text import safe_parse
from forestay.formats.text.safe_parse import LIST, MAP, Node

JSON, YAML, JSONL = "json", "yaml", "jsonl"
BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
JSON_BREAK = re.compile("\r\n|[\n\r]")
TRIVIA = re.compile("(?:[ \t\n\r\x85\u2028\u2029]|#[^\n\r\x85\u2028\u2029]*)*")
_REST = re.compile("[ \t]*(?:#[^\n\r\x85\u2028\u2029]*)?")
_PROPERTIES = re.compile(r"(?:[&!]\S*[ \t\r\n]+)*")
_ESCAPE = re.compile(r"\\u(?!00[0-7])[0-9a-fA-F]{4}")


class Clash(Exception):
    """A YAML text has a form that cannot be edited in place."""


class Style(Struct, frozen=True):
    """The style in which one file is written.

    JSON: `unit` is the indentation of one level, None if everything is on one line; `comma` and
    `colon` are the separators on one line. With `ascii`, all other characters are escaped.
    `numbers` has the spelling of each number that is written with more digits than a float has.

    `eol` is the line end; `final` means that the last line has one, too. YAML: `step` and `dash`
    are the columns by which a map and a list are indented under their key.
    """

    unit: str | None = "  "
    comma: str = ", "
    colon: str = ": "
    ascii: bool = False
    numbers: dict[float, str] = {}
    eol: str = "\n"
    final: bool = True
    step: int = 2
    dash: int = 2


COMPACT = Style(unit=None, comma=",", colon=":")


def require_plain(value: Any) -> None:
    """Raise `InvalidInput` for a value that cannot be written as JSON or YAML.

    Such are values that are not plain data, keys that are not texts, NaN, texts with a lone
    surrogate, and values with too many levels.
    """
    level = [value]
    for _ in range(safe_parse.DEPTH + 1):
        inside: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inside += each.values()
                bad = [key for key in each if not isinstance(key, str)]
                if bad:
                    _refuse(bad[0])
                inside += [key for key in each if not key.isascii()]
            elif isinstance(each, list):
                inside += each
            elif isinstance(each, str):
                if not each.isascii() and safe_parse.SURROGATE.search(each):
                    _refuse(each)
            elif isinstance(each, float):
                if not math.isfinite(each):
                    _refuse(each)
            elif isinstance(each, int):
                if safe_parse.is_huge(each):
                    _refuse("a number")
            elif each is not None:
                _refuse(each)
        if not inside:
            return
        level = inside
    raise InvalidInput(
        "The value is nested too deeply", why=f"at most {safe_parse.DEPTH} levels fit"
    )


def _refuse(value: Any) -> None:
    raise InvalidInput("The value cannot be written", why=f"{ascii(value)[:80]} is not plain data")


def is_full(value: Any) -> bool:
    """Return whether a value is a map or list that is not empty."""
    return isinstance(value, (dict, list)) and bool(value)


# JSON


def json_scalar(value: Any, style: Style) -> str:
    if isinstance(value, str):
        return quoted_ascii(value) if style.ascii else quoted(value)
    if isinstance(value, float) and value in style.numbers:
        return style.numbers[value]
    return repr(value) if type(value) is int else json.dumps(value, allow_nan=False)


def json_text(value: Any, style: Style, prefix: str = "") -> str:
    """Return a value as JSON; `prefix` is the indentation of the line on which it begins."""
    if not is_full(value):
        return json_scalar(value, style)
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    if style.unit is None:
        return opening + style.comma.join(_members(value, style, prefix)) + closing
    inner = style.eol + prefix + style.unit
    members = ("," + inner).join(_members(value, style, prefix + style.unit))
    return f"{opening}{inner}{members}{style.eol}{prefix}{closing}"


def _members(value: Any, style: Style, prefix: str) -> list[str]:
    if isinstance(value, list):
        return [json_text(each, style, prefix) for each in value]
    return [
        json_scalar(key, style) + style.colon + json_text(each, style, prefix)
        for key, each in value.items()
    ]


# YAML


_WORDS = re.compile(r"[^\W\d][\w./@+-]*(?: [\w./@+()-]+)*\Z")
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\Z")
_STAMP = re.compile(r"\d{4}-\d\d-\d\d(?:[T ][\d:.]+(?:Z|[+-]\d\d:\d\d)?)?\Z", re.ASCII)
_WORDS_OF_YAML = set("y n yes no on off true false null".split())
_HIDDEN = (*range(0x7F, 0xA0), 0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF)
_LONG_KEY = 1000


_SHOWN = {code: f"\\u{code:04X}" for code in _HIDDEN}


def yaml_double(value: str) -> str:
    return quoted(value) if value.isprintable() else quoted(value).translate(_SHOWN)


def is_plain(value: str) -> bool:
    """Return whether every YAML reader parses the text as a string even without quotes."""
    return bool(_WORDS.match(value)) and value.lower() not in _WORDS_OF_YAML


def is_stamp(value: Any) -> bool:
    return isinstance(value, str) and bool(_STAMP.match(value))


def yaml_scalar(value: Any, quote: str = '"') -> str:
    """Return a scalar or empty collection as YAML.

    A string gets `quote` (`"`, `'` or none) if its characters allow that, else double quotes.
    """
    if isinstance(value, str):
        if quote == "" and is_plain(value):
            return value
        if quote == "'" and value.isprintable():
            return "'" + value.replace("'", "''") + "'"
        return yaml_double(value)
    if isinstance(value, float):
        text = repr(value)
        return text.replace("e", ".0e") if "e" in text and "." not in text else text
    return json.dumps(value)


def yaml_key(key: str) -> str:
    """Return a YAML key with its colon; a very long key gets the form `? key`."""
    spelled = key if _is_plain_key(key) else yaml_double(key)
    return spelled + ":" if len(spelled) < _LONG_KEY else f"? {spelled}\n:"


# Cached, because a file repeats the same keys many times.
@lru_cache(maxsize=512)
def _is_plain_key(key: str) -> bool:
    return _KEY.match(key) is not None and key.lower() not in _WORDS_OF_YAML


def yaml_flow(value: Any, quote: str = '"') -> str:
    """Return a value as YAML in flow style, on one line."""
    if not is_full(value):
        return yaml_scalar(value, quote)
    if isinstance(value, list):
        return "[" + ", ".join(yaml_flow(each, quote) for each in value) + "]"
    pairs = (
        yaml_key(key).replace("\n", " ") + " " + yaml_flow(each, quote)
        for key, each in value.items()
    )
    return "{" + ", ".join(pairs) + "}"


def yaml_block(value: Any, style: Style, column: int) -> str:
    """Return a value as YAML in block style; all lines but the first are indented by `column`."""
    if not is_full(value):
        return yaml_scalar(value)
    if isinstance(value, list):
        parts = [yaml_item(each, style, column) for each in value]
    else:
        parts = [yaml_pair(key, each, style, column) for key, each in value.items()]
    return (style.eol + " " * column).join(parts)


def yaml_item(value: Any, style: Style, column: int) -> str:
    return "- " + yaml_block(value, style, column + 2)


def yaml_pair(key: str, value: Any, style: Style, column: int) -> str:
    spelled = yaml_key(key).replace("\n", style.eol + " " * column)
    return spelled + yaml_value(value, style, column)


def yaml_value(value: Any, style: Style, column: int) -> str:
    """Return a value as YAML, to follow the colon of a key that begins at `column`."""
    if not is_full(value):
        return " " + yaml_scalar(value)
    inner = column + (style.dash if isinstance(value, list) else style.step)
    return style.eol + " " * inner + yaml_block(value, style, inner)


# New files


def fresh(kind: str, value: Any, style: Style | None = None) -> bytes:
    """Return the bytes of a new file with a value, in the given style or the default one."""
    if style is None and kind == JSONL and all(lines := [_quick_json(each) for each in value]):
        return b"".join(line + b"\n" for line in lines)
    if style in (None, Style()) and kind == JSON and (data := _quick_json(value)):
        return msgspec.json.format(data, indent=2) + b"\n"
    require_plain(value)
    style = style or (COMPACT if kind == JSONL else Style())
    if kind == JSONL:
        return "".join(json_text(each, style) + style.eol for each in value).encode()
    text = json_text(value, style) if kind == JSON else yaml_block(value, style, 0)
    return (text + (style.eol if style.final else "")).encode()


_UNUSUAL = (OverflowError, TypeError, ValueError, RecursionError, msgspec.MsgspecError)


def _quick_json(value: Any) -> bytes:
    """Return a map as JSON on one line; "" if the fast encoder could give unusual bytes."""
    try:
        data = msgspec.json.encode(value)
        is_same = isinstance(value, dict) and value and msgspec.json.decode(data) == value
    except _UNUSUAL:
        return b""
    return data if is_same and not _EXPONENT.search(data) else b""


_EXPONENT = re.compile(rb"[:,\[][-0-9.]+e")


# The style of a text


class Lines:
    """Finds the line of each character of a text; `at` is the index of the character."""

    def __init__(self, text: str, breaks: re.Pattern[str] = BREAK) -> None:
        self.text = text
        self._starts = [0, *(match.end() for match in breaks.finditer(text))]

    def number(self, at: int) -> int:
        """Return the number of the line that contains the character, from 1."""
        return bisect_right(self._starts, at)

    def start(self, at: int) -> int:
        return self._starts[self.number(at) - 1]

    def column(self, at: int) -> int:
        return at - self.start(at)

    def rest(self, at: int) -> int:
        """Return the index after the spaces and the comment, if any, that follow at `at`."""
        match = _REST.match(self.text, at)
        return match.end() if match else at

    def next(self, at: int) -> int:
        """Return where the next line begins; raise `Clash` if more than a comment follows."""
        end = self.rest(at)
        match = BREAK.match(self.text, end)
        if match is None and end < len(self.text):
            raise Clash
        return match.end() if match else end

    def is_last(self, at: int) -> bool:
        return BREAK.match(self.text, self.rest(at)) is None


def nodes_of(root: Node) -> Iterator[Node]:
    """Yield the nodes of all values below `root`, in the order of the text."""
    todo = [root]
    while todo:
        node = todo.pop()
        yield node
        todo.extend(reversed(node.items))


def line_end(text: str) -> str:
    """Return the line end that most lines of a text have."""
    return "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"


def json_style(text: str) -> Style:
    """Return the style of a JSON text; its indentation is the space before its first value."""
    lead = _LEAD.match(text)
    unit = JSON_BREAK.split(lead[1])[-1] if lead and JSON_BREAK.search(lead[1]) else None
    has_value = lead is not None and text[lead.end() :][:1] not in ("]", "}")
    if not has_value or len(unit or "") > _WIDEST:
        unit = Style().unit
    return replace(
        COMPACT if unit is None and '": ' not in text else Style(),
        unit=unit,
        eol=line_end(text),
        final=text.endswith("\n"),
        ascii=text.isascii() and bool(_ESCAPE.search(text)),
        numbers={float(word): word for word in _LONG.findall(text) if repr(float(word)) != word},
    )


_LEAD = re.compile(r"\s*[\[{](\s*)")
_WIDEST = 16
_LONG = re.compile(r"(?<![0-9.])-?(?=[0-9.]{18})[0-9]+\.[0-9]+(?:[eE][-+]?[0-9]+)?")


def yaml_style(text: str, root: Node, columns: Lines) -> Style:
    """Return the style of a YAML text; the first indented map and the first list decide."""
    found: dict[str, int] = {}
    for node in nodes_of(root):
        if node.kind == MAP and node.style == "block" and node.items:
            for inner in node.items:
                if inner.style == "block" and inner.items and inner.kind not in found:
                    start = columns.column(block_start(text, inner))
                    found[inner.kind] = start - columns.column(node.keys[0].start)
    return Style(
        eol=line_end(text),
        final=text.endswith("\n"),
        step=max(found.get(MAP, 2), 1),
        dash=max(found.get(LIST, 2), 0),
    )


def block_start(text: str, node: Node) -> int:
    """Return where the first entry of a block collection begins, after an anchor or tag."""
    match = _PROPERTIES.match(text, node.start)
    behind = match.end() if match else node.start
    trivia = TRIVIA.match(text, behind) if behind > node.start else None
    return trivia.end() if trivia else behind
