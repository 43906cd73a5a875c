"""The random id that a file carries, which identifies the rendering that an edit was made from.

In JSON it is `id` under our key `forestay`; in YAML it is a comment line, so that no program finds
an unknown key. A rendering gets a new id whenever anything else in it changes.
"""

from __future__ import annotations

import re
from typing import Any

from forestay.formats.coerce import mapping, text
from forestay.formats.port import EXTRA
from forestay.formats.text.document import Document
from forestay.formats.text.safe_parse import Unreadable

_ID = re.compile("[0-9a-f]{12}")
_LINE = re.compile(rb"(?m)^# forestay: ([0-9a-f]{12})\r?\n")
_COMMENTS = re.compile(rb"(?:(?:[ \t\r]*(?:#[^\n]*)?|%[^\n]*|---[ \t\r]*)\n)*")
_VERSION = {"v": 1}


def rendering_id(document: Document) -> str:
    """Return the rendering id in a document, or an empty string."""
    if document.kind == "yaml":
        found = _id_line(document.data)
        return found[1].decode() if found else ""
    id = text(_extra(document.parsed).get("id"))
    return id if _ID.fullmatch(id) else ""


def _id_line(data: bytes) -> re.Match[bytes] | None:
    """Return the comment line with the rendering id; None if the file has no such line."""
    found = _LINE.search(data)
    if found is None or _COMMENTS.fullmatch(data, 0, found.start()):
        return found
    try:
        # After other lines, such a line can be part of a text value, which must not change.
        rest = data[: found.start()] + data[found.end() :]
        is_comment = Document.parse(data, "yaml").value == Document.parse(rest, "yaml").value
    except Unreadable:
        return None
    return found if is_comment else None


def _extra(value: Any) -> dict[str, Any]:
    """Return the mapping under our key; empty if a newer version or another program wrote it."""
    extra = mapping(mapping(value).get(EXTRA))
    return extra if extra.get("v") == _VERSION["v"] else {}


def without_id(value: Any) -> Any:
    """Return the value of a document without the rendering id."""
    extra = _extra(value)
    if "id" not in extra:
        return value
    rest = {key: each for key, each in extra.items() if key != "id"}
    if rest != _VERSION:
        return {**value, EXTRA: rest}
    return {key: each for key, each in value.items() if key != EXTRA}


def with_id(value: Any, id: str) -> Any:
    """Return the value of a JSON document with the id; unchanged if our key has another use."""
    extra = _extra({EXTRA: _VERSION, **value})
    return {**value, EXTRA: {**extra, "id": id}} if extra else value


def without_id_line(data: bytes) -> bytes:
    """Return the bytes of a YAML document without the line that holds its id."""
    found = _id_line(data)
    return data[: found.start()] + data[found.end() :] if found else data


def with_id_line(document: Document, id: str) -> Document:
    """Return a YAML document that carries an id in a comment, its first line if it had none."""
    line, data = f"# forestay: {id}\n".encode(), document.data
    found = _id_line(data)
    new = data[: found.start()] + line + data[found.end() :] if found else line + data
    made = Document(document.kind, new, document.parsed)
    if len(new) == len(data) and "root" in vars(document):
        made.root = document.root  # no span has moved, so the text need not be parsed again
    return made
