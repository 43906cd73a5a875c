"""What a damaged praxis session file still says.

Two ways, tried in order: what stands before the damage (see `torn`), which may be all of it, and
`fields`: values of the topmost keys found one by one, where even the beginning cannot be read.
"""

from __future__ import annotations

import json
import re
from typing import Any

from holdfast.layout import Bundle, Salvaged, Where
from holdfast.layout.praxis.read import SIGNATURE, View, facts, likeness
from holdfast.layout.torn import LIMIT, clean, decoded, recover

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
    text, remarks = decoded(data)
    torn = recover(data)
    doc, level = (torn.value, "whole" if torn.whole else "prefix") if torn else ({}, "")
    if not likeness(doc):
        doc, level = _single(text), "fields"
    if not likeness(doc):
        return None
    return Salvaged(
        facts=facts(View({name: doc}, where)),
        level=level,
        message=_MESSAGES[level],
        inferred=[*remarks, *_INFERRED[level]],
        lost=_lost(doc, data),
    )


_MESSAGES = {
    "whole": "The file was read in spite of its faults.",
    "prefix": "The file breaks off or is damaged; what stands before the damage was read.",
    "fields": "The file cannot be read as a whole; single fields were found in it.",
}
_INFERRED = {
    "whole": [],
    "prefix": ["the missing end of the file: brackets were closed where the text breaks off"],
    "fields": ["which values belong to the session: the first of each name was taken"],
}


def _lost(doc: dict[str, Any], data: bytes) -> list[str]:
    lost = [key for key in _EXPECTED if key not in doc]
    return [*lost, "everything after the first megabytes"] if len(data) > LIMIT else lost


def _single(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key in _TEXTS:
        match = re.search(_TEXT.format(key), text)
        if match:
            found[key] = clean(_unescaped(match[1]))
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
