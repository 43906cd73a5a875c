"""Read what damaged session files still contain: one ladder for all formats.

A *rung* reads the bytes in one way and returns what it found, or None. `climb` tries the rungs in
order, the most reliable one first. The JSON formats share a whole ladder, `salvage_json`:

    whole      the text is complete once odd bytes and slips are repaired
    partial    everything before the damage, and single fields behind it
    fields     values of some keys, found one by one (only where a format names such keys)

`parse_intact_yaml` is the first rung of the YAML formats.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from forestay.formats.coerce import Node
from forestay.formats.facts import Facts
from forestay.formats.port import Salvaged
from forestay.formats.text.document import Document
from forestay.formats.text.safe_parse import Unreadable
from forestay.formats.text.salvage_json import decode_damaged, recover, without_surrogates

_T = TypeVar("_T")

READ_ANYWAY = "the file was read in spite of its faults"


class _SalvagedValue(NamedTuple):
    """What one rung found: a value, how it was read and what was inferred."""

    level: str
    value: Node
    remarks: list[str]
    inferred: list[str]


def climb(rungs: Iterable[Callable[[], _T | None]]) -> _T | None:
    """Return what the first rung that finds anything finds."""
    found = (rung() for rung in rungs)
    return next((each for each in found if each is not None), None)


# --- JSON --------------------------------------------------------------------------------------


def salvage_json(
    data: bytes | None,
    read: Callable[[Node], Facts],
    *,
    is_session: Callable[[Node], object],
    wanted: Iterable[str],
    single: Iterable[str] = (),
) -> Salvaged | None:
    """Return what a damaged JSON file of a session still contains, or None.

    `read` turns the value into facts. `is_session` recognises a session by its keys, `wanted` are
    the keys that are reported as lost when they are missing, `single` are those whose values may
    be searched for one by one.
    """
    data = data or b""
    found = climb(
        (partial(_read_prefix, data, is_session), partial(_read_fields, data, is_session, single))
    )
    return found and Salvaged(
        facts=read(found.value),
        level=found.level,
        message="; ".join(found.remarks) or READ_ANYWAY,
        inferred=[*found.remarks, *found.inferred],
        lost=[key for key in wanted if key not in found.value],
    )


def _read_prefix(data: bytes, is_session: Callable[[Node], object]) -> _SalvagedValue | None:
    torn = recover(data)
    if torn is None or not is_session(torn.value):
        return None
    inferred = [f"{key}: found behind the damage" for key in torn.behind]
    return _SalvagedValue("whole" if torn.whole else "partial", torn.value, torn.remarks, inferred)


_VALUE = (
    r'"{}"\s{{0,9}}:\s{{0,9}}'
    r'("(?:[^"\\]|\\.){{0,4000}}+"|[0-9]{{1,6}}\b|\[[\d\s,]{{0,9000}})'
)


def _read_fields(
    data: bytes, is_session: Callable[[Node], object], keys: Iterable[str]
) -> _SalvagedValue | None:
    text, remarks = decode_damaged(data)
    matches = {key: re.search(_VALUE.format(key), text) for key in keys}
    found = {key: _parse_field(match[1]) for key, match in matches.items() if match}
    if not is_session(found):
        return None
    remarks.append("the file cannot be read as a whole; single fields were found in it")
    inferred = ["which values belong to the session: the first of each key was used"]
    return _SalvagedValue("fields", found, remarks, inferred)


def _parse_field(raw: str) -> Any:
    if raw.startswith("["):  # a list of numbers, which may break off
        return [int(number) for number in re.findall(r"\d+", raw) if len(number) <= 6]
    try:
        return without_surrogates(json.loads(raw, strict=False))
    except ValueError:
        return raw.strip('"')


# --- YAML --------------------------------------------------------------------------------------


def parse_intact_yaml(data: bytes, is_torn: Callable[[bytes, Node], object]) -> Node | None:
    """Return the mapping in a YAML file that can be parsed and was written to its end."""
    try:
        value = Document.parse(data, "yaml").value
    except Unreadable:
        return None
    return value if isinstance(value, dict) and not is_torn(data, value) else None
