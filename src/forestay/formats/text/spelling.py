"""How plain values are spelled in JSON and YAML, in the habits (`Style`) of a file.

The defaults are the spelling of files that we begin ourselves: JSON with two spaces, as it is
without escapes; YAML in block style, sequences indented under their key, strings in double quotes.
"""

from __future__ import annotations

import json
import math
import re
from functools import lru_cache
from itertools import chain, repeat
from json.encoder import encode_basestring as quoted
from json.encoder import encode_basestring_ascii as quoted_ascii
from operator import is_
from typing import Any

import msgspec
from msgspec import Struct

from forestay.errors import InvalidInput
from forestay.formats.text import safe_parse

JSON, YAML, JSONL = "json", "yaml", "jsonl"


class Style(Struct, omit_defaults=True):
    """How one file is written. `unit` None writes JSON on one line; `flat` writes lists of scalars
    on one line; `quote` is the quote of YAML strings, `key` that of its keys, empty for none."""

    unit: str | None = "  "
    comma: str = ", "
    colon: str = ": "
    ascii: bool = False
    flat: bool = False
    eol: str = "\n"
    final: bool = True
    step: int = 2
    dash: int = 2
    quote: str = '"'
    key: str = ""


_USUAL = 1 << 63


COMPACT = Style(unit=None, comma=",", colon=":")


Known = dict[int, tuple[Any, int, str]]
"""Identity of a collection → itself, a column, and how it is spelled there in YAML."""


def demand_plain(value: Any, said: Any = None, known: Known | None = None) -> None:
    """Refuses what has no spelling: other types, other keys, NaN, lone surrogates, too deep.

    What is the very part of what was `said` there, or is `known`, is not looked at again.
    """
    level, seen = [(value, said)], known or {}
    for _ in range(safe_parse.DEPTH + 1):
        inside: list[tuple[Any, Any]] = []
        for new, old in level:
            if not _is_usual(new):
                inside += _demand(new, old) if id(new) not in seen else ()
        if not inside:
            return
        level = inside
    raise InvalidInput("The value is too deep", why=f"more than {safe_parse.DEPTH} levels")


def _is_usual(value: Any) -> bool:
    """Whether it is a plain word or number, as most values are."""
    if type(value) is int:
        return -_USUAL < value < _USUAL
    return type(value) is str and value.isascii()


def _demand(value: Any, said: Any) -> list[tuple[Any, Any]]:
    """What is to be looked at of a value in turn, each beside what stood there."""
    if isinstance(value, dict):
        was = said if isinstance(said, dict) else {}
        new = (key for key in value if key not in was)
        keys = [(key if isinstance(key, str) else _refuse(key), None) for key in new]
        parts = ((each, was.get(key)) for key, each in value.items())
        return keys + [(each, old) for each, old in parts if each is not old]
    if isinstance(value, list):
        known = said if isinstance(said, list) else []
        pairs = zip(value, chain(known, repeat(None)), strict=False)
        return [(each, old) for each, old in pairs if each is not old]
    if isinstance(value, str):
        if safe_parse.SURROGATE.search(value):
            _refuse(value)
    elif isinstance(value, float):
        if not math.isfinite(value):
            _refuse(value)
    elif isinstance(value, int):
        if safe_parse.is_huge(value):
            _refuse("a number")
    elif value is not None:
        _refuse(value)
    return []


def _refuse(value: Any) -> Any:
    raise InvalidInput("The value cannot be written", why=f"{ascii(value)[:80]} has no spelling")


def is_full(value: Any) -> bool:
    """Whether a value is a map or list that holds something."""
    return isinstance(value, (dict, list)) and bool(value)


def is_flat(value: Any) -> bool:
    """Whether a value is a list of nothing but scalars and empty collections."""
    return isinstance(value, list) and not any(is_full(each) for each in value)


def is_one_line(value: Any, style: Style) -> bool:
    """Whether a collection stands on one line by the habits of its file."""
    return style.unit is None or (style.flat and is_flat(value))


def changed(style: Style, **changes: Any) -> Style:
    """The same habits but for some."""
    fields = {name: getattr(style, name) for name in style.__struct_fields__}
    return Style(**(fields | changes))


# JSON


def json_scalar(value: Any, style: Style) -> str:
    if isinstance(value, str):
        return quoted_ascii(value) if style.ascii else quoted(value)
    return repr(value) if type(value) is int else json.dumps(value, allow_nan=False)


def json_text(value: Any, style: Style, prefix: str = "") -> str:
    """A value as JSON; `prefix` is the indentation of the line on which it begins."""
    if not is_full(value):
        return json_scalar(value, style)
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    if is_one_line(value, style):
        flat = changed(style, unit=None)
        return opening + style.comma.join(_members(value, flat, prefix)) + closing
    unit = style.unit or ""
    inner = style.eol + prefix + unit
    members = ("," + inner).join(_members(value, style, prefix + unit))
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
_SAID = set("y n yes no on off true false null".split())
_HIDDEN = (*range(0x7F, 0xA0), 0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF)
_LONG_KEY = 1000


class _Escapes(dict[int, str]):
    """Code of a character → how it is spelled where only ASCII may stand."""

    def __missing__(self, code: int) -> str:
        if code < _HIDDEN[0]:
            raise LookupError
        self[code] = _escaped(code)
        return self[code]


def _escaped(code: int) -> str:
    return f"\\U{code:08X}" if code > 0xFFFF else f"\\u{code:04X}"


# Tables, because a text may be nothing but such characters, millions of them.
_ASCII = _Escapes()
_SHOWN = {code: _escaped(code) for code in _HIDDEN}


def yaml_double(value: str, style: Style) -> str:
    text = quoted(value)
    if style.ascii:
        return text.translate(_ASCII)
    return text if value.isprintable() else text.translate(_SHOWN)


def is_plain(value: str) -> bool:
    """Whether a string may stand unquoted and every reader, old or new, takes it as a string."""
    return bool(_WORDS.match(value)) and value.lower() not in _SAID


def is_stamp(value: Any) -> bool:
    return isinstance(value, str) and bool(_STAMP.match(value))


def yaml_scalar(value: Any, style: Style, quote: str | None = None) -> str:
    """A scalar or empty collection; `quote` is the manner of the string that it replaces."""
    if isinstance(value, str):
        return yaml_string(value, style, style.quote if quote is None else quote)
    if isinstance(value, float):
        text = repr(value)
        return text.replace("e", ".0e") if "e" in text and "." not in text else text
    return json.dumps(value)


def yaml_string(value: str, style: Style, quote: str) -> str:
    if quote == "" and is_plain(value):
        return value
    if quote == "'" and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    return yaml_double(value, style)


def yaml_key(key: str, style: Style, quote: str | None = None) -> str:
    """A key with its colon."""
    quote = style.key if quote is None else quote
    spelled = key if not quote and _is_plain_key(key) else yaml_string(key, style, quote or '"')
    return spelled + ":" if len(spelled) < _LONG_KEY else f"? {spelled}\n:"


# A file has the same keys again and again.
@lru_cache(maxsize=512)
def _is_plain_key(key: str) -> bool:
    return _KEY.match(key) is not None and key.lower() not in _SAID


def yaml_flow(value: Any, style: Style, quote: str | None = None) -> str:
    """A value on one line."""
    if not is_full(value):
        return yaml_scalar(value, style, quote or '"')
    if isinstance(value, list):
        return "[" + style.comma.join(yaml_flow(each, style, quote) for each in value) + "]"
    pairs = (_flow_pair(key, each, style, quote) for key, each in value.items())
    return "{" + ", ".join(pairs) + "}"


def _flow_pair(key: str, value: Any, style: Style, quote: str | None) -> str:
    spelled = yaml_key(key, style).replace("\n", " ")
    return f"{spelled} {yaml_flow(value, style, quote)}"


def yaml_block(value: Any, style: Style, column: int, known: Known | None = None) -> str:
    """A value in block style whose first line stands at a column already.

    What is `known` was spelled in this style before; what is spelled now is added to it.
    """
    if not is_full(value):
        return yaml_scalar(value, style)
    if is_one_line(value, style):
        return yaml_flow(value, style)
    if known is not None and (found := known.get(id(value))) and found[1] == column:
        return found[2]
    between = style.eol + " " * column
    if isinstance(value, list):
        text = _items(value, style, column, between, known)
    else:
        pairs = (yaml_pair(key, each, style, column, known) for key, each in value.items())
        text = between.join(pairs)
    if known is not None:
        known[id(value)] = (value, column, text)
    return text


def _items(value: list[Any], style: Style, column: int, between: str, known: Known | None) -> str:
    """The items of a list; of one that only grew, those behind the ones that are known."""
    if known is None:
        return between.join([yaml_item(each, style, column) for each in value])
    start: list[str] = []
    first = ~id(value[0])  # no identity of anything
    old, at, text = known.get(first, ((), column, ""))
    if old and at == column and len(old) <= len(value) and all(map(is_, old, value)):
        start = [text]
    rest = value[len(old) :] if start else value
    text = between.join(start + [yaml_item(each, style, column, known) for each in rest])
    known[first] = (value, column, text)
    return text


def yaml_item(value: Any, style: Style, column: int, known: Known | None = None) -> str:
    return "- " + yaml_block(value, style, column + 2, known)


def yaml_pair(key: str, value: Any, style: Style, column: int, known: Known | None = None) -> str:
    spelled = yaml_key(key, style).replace("\n", style.eol + " " * column)
    return spelled + yaml_value(value, style, column, known)


def yaml_value(value: Any, style: Style, column: int, known: Known | None = None) -> str:
    """What follows the colon of a key at a column."""
    if type(value) is str and style.quote == '"':
        return " " + yaml_double(value, style)
    if not is_full(value):
        return " " + yaml_scalar(value, style)
    if is_one_line(value, style):
        return " " + yaml_flow(value, style)
    inner = column + (style.dash if isinstance(value, list) else style.step)
    return style.eol + " " * inner + yaml_block(value, style, inner, known)


def fresh(kind: str, value: Any, style: Style | None = None) -> bytes:
    """The bytes of a new file, in the given habits or ours."""
    if kind == JSONL and style is None and all(lines := list(map(_log_line, value))):
        return b"".join(lines)
    demand_plain(value)
    style = style or (COMPACT if kind == JSONL else Style())
    if kind == JSONL:
        return "".join(json_text(each, style) + style.eol for each in value).encode()
    text = json_text(value, style) if kind == JSON else yaml_block(value, style, 0)
    return (text + (style.eol if style.final else "")).encode()


class Speller:
    """Spells one file in our habits again and again, whose values share what did not change.

    The values that it is given must not be changed.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._known: Known = {}
        self._members: dict[str, tuple[Any, bytes]] = {}

    def spelled(self, value: Any) -> bytes | None:
        """The bytes that `fresh` gives; None where this shorter way may not give them."""
        if self._kind == JSON:
            return self._json(value)
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        demand_plain(value, known=self._known)
        return (yaml_block(value, Style(), 0, self._known) + "\n").encode()

    def _json(self, value: Any) -> bytes | None:
        if not isinstance(value, dict) or not value:
            return None
        known, self._members = self._members, {}
        for key, each in value.items():
            old, member = known.get(key, (None, b""))
            if old is not each or not member:
                member = _json_member(key, each)
            if not member:
                return None
            self._members[key] = (each, member)
        return b"{\n%b\n}\n" % b",\n".join(member for _, member in self._members.values())


_MOST_KNOWN = 20_000


_UNUSUAL = (OverflowError, TypeError, ValueError, RecursionError, msgspec.MsgspecError)


def _json_member(key: str, value: Any) -> bytes:
    """A key with its value as it stands in a file of ours; empty if the quick way changes it."""
    data = _json_compact({key: value})
    return msgspec.json.format(data, indent=2)[2:-2] if data else b""


def _log_line(value: Any) -> bytes:
    """A line of a log; empty if it has more than words and whole numbers, see `_json_compact`."""
    is_simple = isinstance(value, dict) and _SIMPLE.issuperset(map(type, value.values()))
    data = _json_compact(value) if is_simple else b""
    return data and data + b"\n"


_SIMPLE = frozenset((str, int, type(None)))


def _json_compact(value: Any) -> bytes:
    """A value on one line, with numbers as they come; empty if the quick way changes it."""
    try:
        data = msgspec.json.encode(value)
        return data if msgspec.json.decode(data) == value else b""
    except _UNUSUAL:
        return b""
