"""Parse evidence from arguments and files, and prepare it for storing.

A gate judges the evidence as given. Before it is stored it is redacted; if it is too large for one
event, the event contains the short values and the digest of a blob with all of them.
"""

from __future__ import annotations

import msgspec

from forestay.base import files
from forestay.base.hashing import digest_of
from forestay.errors import InvalidInput
from forestay.formats.text.document import Document
from forestay.formats.text.safe_parse import Unreadable
from forestay.model.gates.gate import MOST_BYTES, check_evidence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from forestay.journal.journal import Journal

IN_EVENT = 8_000
_LONGEST = 2_000
_SHORT = 200
_KEPT = 4_000
_HOW = "--evidence tests_pass=true, or --evidence-file FILE"


class Kept(msgspec.Struct, frozen=True):
    """Evidence as stored in an event; `data` has all of it if the event has only a part."""

    values: dict[str, object]
    blob: str = ""
    data: bytes = b""
    redacted: list[str] = []


def read(pairs: Sequence[str], path: str = "") -> dict[str, Any]:
    """Return the values of a JSON or YAML file, overridden by `k=v` arguments."""
    values = _from_file(path) if path else {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.strip():
            raise InvalidInput(f"--evidence {pair[:60]} is not NAME=VALUE", hint=_HOW)
        values[name.strip()] = value_of(text)
    return values


def value_of(text: str) -> Any:
    """Parse a value as JSON; return the text itself if it is not JSON."""
    if text[:1] not in '0123456789-"[{tfn':
        return text
    try:
        return Document.parse(text.encode(), "json", limit=MOST_BYTES).value
    except Unreadable:
        return text


def _from_file(path: str) -> dict[str, Any]:
    data = files.read_bounded(path, MOST_BYTES)
    kind = "json" if path.endswith(".json") or data.lstrip()[:1] == b"{" else "yaml"
    try:
        found = Document.parse(data, kind, limit=MOST_BYTES).value
    except Unreadable as error:
        raise InvalidInput(f"{path} cannot be read", why=str(error), file=path) from None
    if not isinstance(found, dict):
        why = "it must contain one object of names and values"
        raise InvalidInput(f"{path} is not evidence", why=why, file=path)
    return found


def kept(evidence: Mapping[str, object], journal: Journal) -> Kept:
    """Return evidence without secrets, shortened if needed to fit into an event."""
    check_evidence(evidence)
    clean, names = journal.redactor.value(dict(evidence))
    values: dict[str, object] = clean if isinstance(clean, dict) else {}
    data = msgspec.json.encode(values)
    if len(data) <= IN_EVENT and not _has_long_text(values):
        return Kept(values, redacted=names)
    return Kept(_short_ones(values), digest_of(data), data, names)


def _has_long_text(value: object) -> bool:
    if isinstance(value, str):
        return len(value) > _LONGEST
    if isinstance(value, dict):
        return any(map(_has_long_text, (*value, *value.values())))
    return isinstance(value, list) and any(map(_has_long_text, value))


def _short_ones(values: dict[str, object]) -> dict[str, object]:
    found: dict[str, object] = {}
    room = _KEPT
    for name, value in values.items():
        size = len(name.encode()) + len(msgspec.json.encode(value))
        if size <= _SHORT and size <= room:
            found[name], room = value, room - size
    return found
