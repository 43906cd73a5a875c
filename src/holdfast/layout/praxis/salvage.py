"""What a damaged praxis session file still says.

Two ways, tried in order. `prefix`: the text up to the last place where a value was whole, closed
with the brackets that are missing, is a document again; this is a file whose end was torn off, or
replaced by zeros. `fields`: values of the topmost keys found one by one, where even the beginning
cannot be read. Both see at most the first megabytes, and take time in proportion to them.
"""

from __future__ import annotations

import json
import re
from typing import Any

from holdfast.layout import Bundle, Salvaged, Where
from holdfast.layout.praxis.read import SIGNATURE, View, facts, likeness

LIMIT = 4 * 1024 * 1024
DEEPEST = 100

_TOKEN = re.compile(r'"(?:[^"\\]++|\\.|\\\Z)*+("|\Z)|[{}\[\],]', re.DOTALL)
_CLOSE = {"{": "}", "[": "]"}
_EXPECTED = ("session_id", *SIGNATURE, "created_at", "updated_at", "metadata")
_TEXTS = ("session_id", "workflow_type", "target_file", "created_at", "updated_at", "status")
_TEXT = r'"{}"\s{{0,9}}:\s{{0,9}}"((?:[^"\\]|\\.){{0,4000}}+)"'
_NUMBER = re.compile(r'"current_phase"\s{0,9}:\s{0,9}(\d{1,6})\b')
_LISTED = re.compile(r'"completed_phases"\s{0,9}:\s{0,9}\[([\d\s,]{0,9000})')


def salvage(bundle: Bundle, where: Where) -> Salvaged | None:
    """Facts from the session file that holds most, or None when nothing can be made of it."""
    names = sorted(bundle, key=lambda name: (not name.endswith(".json"), -len(bundle[name])))
    found = (_of(name, bundle[name], where) for name in names)
    return next((made for made in found if made is not None), None)


def _of(name: str, data: bytes, where: Where) -> Salvaged | None:
    text, inferred = _decoded(data)
    whole = _whole(text)
    doc, level = (whole, "prefix") if likeness(whole) else (_single(text), "fields")
    if not likeness(doc):
        return None
    return Salvaged(
        facts=facts(View({name: doc}, where)),
        level=level,
        message=_MESSAGES[level],
        inferred=[*inferred, *_INFERRED[level]],
        lost=_lost(doc, data),
    )


_MESSAGES = {
    "prefix": "The file ends too early; what stands before the break was read.",
    "fields": "The file cannot be read as a whole; single fields were found in it.",
}
_INFERRED = {
    "prefix": ["the missing end of the file: brackets were closed where the text breaks off"],
    "fields": ["which values belong to the session: the first of each name was taken"],
}


def _lost(doc: dict[str, Any], data: bytes) -> list[str]:
    lost = [key for key in _EXPECTED if key not in doc]
    return [*lost, "everything after the first megabytes"] if len(data) > LIMIT else lost


def _decoded(data: bytes) -> tuple[str, list[str]]:
    """Text up to the first zero byte; of a conflict between two versions, the first."""
    data = data[:LIMIT]
    wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    text = data.decode("utf-16" if wide else "utf-8-sig", "replace").partition("\0")[0]
    if "<<<<<<<" not in text:
        return text, []
    chosen = _first_sides(text)
    return chosen, ["of two versions in conflict, the first was taken"]


def _first_sides(text: str) -> str:
    kept, side = [], ""
    for line in text.splitlines(keepends=True):
        side = _SIDES.get(line[:7], side)
        if line[:7] not in _SIDES and side != "theirs":
            kept.append(line)
    return "".join(kept)


_SIDES = {"<<<<<<<": "ours", "|||||||": "theirs", "=======": "theirs", ">>>>>>>": ""}


def _whole(text: str) -> dict[str, Any]:
    """The text as an object, closed where it breaks off; empty when that is not enough."""
    try:
        value = json.loads(_closed(text), parse_constant=lambda name: None)
    except (ValueError, RecursionError):
        return {}
    return _clean(value) if isinstance(value, dict) else {}


def _closed(text: str) -> str:
    open_ones: list[str] = []
    end = depth = 0
    for token in _TOKEN.finditer(text):
        sign = text[token.start()]
        if sign == '"':
            if not token[1]:
                break
            continue
        if sign in "{[":
            open_ones.append(sign)
        elif sign != "," and open_ones:
            open_ones.pop()
        end, depth = token.start() if sign == "," else token.end(), len(open_ones)
        if not depth or depth > DEEPEST:
            break
    return text[:end] + "".join(_CLOSE[sign] for sign in reversed(open_ones[:depth]))


def _single(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key in _TEXTS:
        match = re.search(_TEXT.format(key), text)
        if match:
            found[key] = _clean(_unescaped(match[1]))
    if number := _NUMBER.search(text):
        found["current_phase"] = int(number[1])
    if listed := _LISTED.search(text):
        numbers = re.findall(r"\d+", listed[1])
        found["completed_phases"] = [int(n) for n in numbers if len(n) <= 6]
    return found


def _unescaped(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"', strict=False))
    except ValueError:
        return text


def _clean(value: Any) -> Any:
    """Without the halves of characters that escapes can spell and no file can hold."""
    if isinstance(value, dict):
        return {_clean(key): _clean(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_clean(inner) for inner in value]
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
