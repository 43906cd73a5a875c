"""Parse the text of a file, and rewrite it so that only changed values change.

JSON has no comments, so it is written again as a whole, with the indentation, separators, escapes
and line ends of the file. In YAML, the new value is compared with the nodes of the old text
(`edits`), and the rest stays the same, byte for byte: comments, quotes, line ends, order of keys.
New entries get the style of their neighbours; a removed entry is removed with its lines and the
comment at their end.

Edited YAML is parsed again before it is returned. If the parsed value is not the wanted one
(which unusual YAML can cause: aliases, removed anchors), the whole file is written as a new file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from forestay.formats import diff
from forestay.formats.coerce import copied
from forestay.formats.text import safe_parse
from forestay.formats.text.edits import edit
from forestay.formats.text.safe_parse import (
    LIST,
    MAP,
    BadLine,
    Line,
    Node,
    Remark,
    Unreadable,
)
from forestay.formats.text.style import (
    COMPACT,
    JSON,
    JSON_BREAK,
    JSONL,
    YAML,
    Clash,
    Lines,
    fresh,
    json_style,
    json_text,
    line_end,
    require_plain,
    yaml_style,
)

__all__ = ["Document", "fresh", "kind_of"]

_ANY = 1 << 62
_WHERE = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
_MOST = {JSON: safe_parse.LARGEST, YAML: safe_parse.LARGEST_YAML, JSONL: safe_parse.LONGEST}


def kind_of(name: str) -> str:
    """Return `json`, `yaml` or `jsonl` by the name of a file or of its backup."""
    return name.removesuffix(".bak").rsplit(".", 1)[-1]


class Document:
    """The text of one file, and the plain value that is parsed from it."""

    def __init__(self, kind: str, written: str | bytes, parsed: Any) -> None:
        """Store the `written` text or bytes and their `parsed` value, which must not be changed."""
        self.kind = kind
        self._written = written
        self.parsed = parsed
        self.remarks: list[Remark] = []
        self.bad: list[BadLine] = []

    @classmethod
    def parse(cls, data: bytes, kind: str, *, limit: int = 0) -> Document:
        """Return the document of a file's bytes; raise `Unreadable` if parsing them is unsafe."""
        text = safe_parse.decode(data, limit or _MOST[kind])
        if kind == JSON:
            return cls(kind, text, safe_parse.json_value(text))
        if kind == YAML:
            root, remarks = safe_parse.read_yaml(text)
            document = cls(kind, text, root.value)
            document.root, document.remarks = root, remarks
            return document
        lines = safe_parse.read_lines(text)
        document = cls(kind, text, [line.node.value for line in lines if line.node])
        document.lines = lines
        document.bad = [line.bad for line in lines if line.bad]
        return document

    @cached_property
    def value(self) -> Any:
        """Return a copy of the parsed value, which the caller may change."""
        return copied(self.parsed)

    @cached_property
    def text(self) -> str:
        return self._written if isinstance(self._written, str) else self._written.decode()

    @property
    def data(self) -> bytes:
        return self._written if isinstance(self._written, bytes) else self._written.encode()

    @cached_property
    def root(self) -> Node:
        if self.kind == YAML:
            return safe_parse.read_yaml(self.text)[0]
        return safe_parse.json_root(self.text, self.parsed)

    @cached_property
    def lines(self) -> list[Line]:
        return safe_parse.read_lines(self.text)

    @cached_property
    def _lines(self) -> Lines:
        return Lines(self.text, JSON_BREAK) if self.kind == JSON else Lines(self.text)

    def line(self, path: str | Sequence[str | int]) -> int:
        """Return the line number, from 1, of the value at a path such as `agents[2].status`.

        If no value has this path, return the line of the nearest map or list on the path.
        """
        keys = list(keys_in(path)) if isinstance(path, str) else list(path)
        if self.kind == JSONL:
            lines = [at for at, line in enumerate(self.lines, 1) if line.node]
            first = keys[0] if keys else 0
            return lines[first] if isinstance(first, int) and 0 <= first < len(lines) else 1
        return self._lines.number(_start_of(self.root, keys))

    def rewrite(self, value: Any) -> bytes:
        """Return the file's bytes with a new value; the old bytes if the value did not change."""
        return self.rewritten(value).data

    def rewritten(self, value: Any) -> Document:
        """Return a new document with another value; `rewrite` returns only the bytes of it."""
        require_plain(value)
        if diff.same(self.parsed, value):
            return self
        if self.kind == JSONL:
            return Document.parse(_rewrite_lines(self, value).encode(), JSONL, limit=_ANY)
        if self.kind == JSON:
            return Document(JSON, fresh(JSON, value, json_style(self.text)), value)
        for data in self._write_yaml(value):
            try:
                made = Document.parse(data, YAML, limit=_ANY)
            except Unreadable:
                continue
            if diff.same(made.parsed, value):
                return made
        return Document.parse(fresh(YAML, value), YAML, limit=_ANY)

    def _write_yaml(self, value: Any) -> Iterator[bytes]:
        """Yield YAML texts with the new value; each one preserves less of the old text."""
        if self.text.startswith("{"):
            # Some programs write JSON into their YAML files.
            yield fresh(JSON, value, json_style(self.text))
        style = yaml_style(self.text, self.root, self._lines)
        try:
            yield edit(self._lines, self.root, style, value).encode()
        except (Clash, ValueError, IndexError):
            pass  # this text cannot be edited in place: write the whole file again
        yield fresh(YAML, value, style)


def keys_in(where: str) -> Iterator[str | int]:
    """Yield the keys of a path such as `agents[2].status`."""
    for index, name in _WHERE.findall(where):
        yield int(index) if index else name


def _start_of(node: Node, keys: list[str | int]) -> int:
    start = node.start
    for key in keys:
        if node.kind == MAP and key in node.value:
            at = [each.value for each in node.keys].index(key)
            start, node = node.keys[at].start, node.items[at]
        elif node.kind == LIST and isinstance(key, int) and key < len(node.items):
            node = node.items[key]
            start = node.start
        else:
            break
    return start


# JSON Lines


def _rewrite_lines(document: Document, new: list[Any]) -> str:
    """Return a JSON Lines text with the new values.

    Unchanged lines and lines that are not JSON stay. A line for a new value is inserted after the
    line of the value before it in `new`, or at the end of the file.
    """
    lines, eol = document.lines, line_end(document.text)
    numbers = [at for at, line in enumerate(lines) if line.node]
    pairs = diff.rising(sorted(diff.align(document.parsed, new)))
    stay = {to: numbers[old] for old, to in pairs}
    last = max(stay, default=-1)
    made: dict[int, list[str]] = {}
    behind = -1
    for place, value in enumerate(new):
        behind = stay.get(place, len(lines) - 1 if place > last else behind)
        node = lines[behind].node if place in stay else None
        if node is not None and diff.same(node.value, value):
            text = document.text[lines[behind].start : lines[behind].end]
        else:
            text = json_text(value, COMPACT) + eol
        made.setdefault(behind, []).append(text)
    parts: list[str] = []
    for at in range(-1, len(lines)):
        if at >= 0 and lines[at].node is None:
            parts.append(document.text[lines[at].start : lines[at].end])
        parts += made.get(at, [])
    # Only the last line may have no line end.
    return "".join(
        [part if part.endswith("\n") else part + eol for part in parts[:-1]] + parts[-1:]
    )
