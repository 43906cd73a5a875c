"""Parse the text of a file, and rewrite it so that only changed values change.

A rewrite compares the new value with the nodes of the old text and makes *edits*: spans of the old
text with their replacement. Everything outside them stays the same, byte for byte: comments,
quotes, indentation, line ends, the order of keys. New entries get the style of their neighbours;
a removed entry is removed with its lines and the comment at their end.

The result is parsed again before it is returned. If it has another value than wanted (unusual YAML:
aliases, removed anchors), larger parts are written as in a new file, in the end all of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from msgspec.structs import replace

from forestay.formats import diff
from forestay.formats.coerce import copied
from forestay.formats.text import safe_parse
from forestay.formats.text.edits import edit
from forestay.formats.text.safe_parse import (
    BREAKS,
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
    JSON_BREAKS,
    JSONL,
    YAML,
    Breaks,
    Clash,
    Style,
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
    """Return the kind of a file (json, yaml, jsonl) by its name or that of its backup."""
    return name.removesuffix(".bak").rsplit(".", 1)[-1]


class Document:
    """The text of one file and its value."""

    def __init__(self, kind: str, written: str | bytes, parsed: Any) -> None:
        """`parsed` is the value of the `written` text or bytes, and must not be changed."""
        self.kind = kind
        self._written = written
        self.parsed = parsed
        self.remarks: list[Remark] = []
        self.bad: list[BadLine] = []

    @classmethod
    def parse(cls, data: bytes, kind: str, *, limit: int = 0) -> Document:
        """Parse some bytes; raise `Unreadable` when they cannot be read safely."""
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
        """A copy of the value, which the caller may change."""
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
    def style(self) -> Style:
        if self.kind == JSONL:
            return replace(COMPACT, eol=line_end(self.text))
        return (json_style if self.kind == JSON else yaml_style)(self.text, self.root)

    def line(self, path: str | Sequence[str | int]) -> int:
        """Return the line, from 1, of a path such as `agents[2].status`, or of the nearest value
        around it if the path does not exist."""
        keys = list(keys_in(path)) if isinstance(path, str) else list(path)
        if self.kind == JSONL:
            lines = [at for at, line in enumerate(self.lines, 1) if line.node]
            first = keys[0] if keys else 0
            return lines[first] if isinstance(first, int) and 0 <= first < len(lines) else 1
        return self._breaks.before(_start_of(self.root, keys)) + 1

    @cached_property
    def _breaks(self) -> Breaks:
        return Breaks(self.text, JSON_BREAKS if self.kind == JSON else BREAKS)

    def rewrite(self, value: Any) -> bytes:
        """Return the bytes with this value instead; the same bytes if the value is the same."""
        return self.rewritten(value).data

    def rewritten(self, value: Any) -> Document:
        """Return the document that `rewrite` returns the bytes of."""
        require_plain(value)
        if diff.same(self.parsed, value):
            return self
        if self.kind == JSONL:
            return Document.parse(_rewrite_lines(self, value).encode(), JSONL, limit=_ANY)
        for text in self._attempts(value):
            made = _parsed(self.kind, text)
            if made is not None and diff.same(made.parsed, value):
                return made
        return Document.parse(fresh(self.kind, value), self.kind, limit=_ANY)

    def _attempts(self, value: Any) -> Iterator[str]:
        yield from self._try_edit(value)
        if self.kind == YAML:
            yield from self._try_edit(value, expand=True)
            yield from self._try_edit(
                value, expand=True, fresh_keys=_changed_keys(self.parsed, value)
            )
        yield fresh(self.kind, value, self.style).decode()

    def _try_edit(
        self, value: Any, *, expand: bool = False, fresh_keys: frozenset[str] = frozenset()
    ) -> Iterator[str]:
        try:
            yield edit(
                self.text,
                self.root,
                self.style,
                value,
                is_json=self.kind == JSON,
                expand=expand,
                fresh_keys=fresh_keys,
            )
        except (Clash, ValueError, IndexError):
            return


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


def _parsed(kind: str, text: str) -> Document | None:
    try:
        return Document.parse(text.encode(), kind, limit=_ANY)
    except Unreadable:
        return None


def _changed_keys(old: Any, new: Any) -> frozenset[str]:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return frozenset()
    return frozenset(key for key in old if key in new and not diff.same(old[key], new[key]))


# JSON Lines


def _rewrite_lines(document: Document, new: list[Any]) -> str:
    """Return a JSON Lines text with the new values.

    Unchanged and bad lines stay; a new line is inserted after the one that it follows in `new`, or
    at the end of the file.
    """
    lines = document.lines
    numbers = [at for at, line in enumerate(lines) if line.node]
    pairs = diff.rising(sorted(diff.align(document.parsed, new)))
    stay = {to: numbers[old] for old, to in pairs}
    last = max(stay, default=-1)
    made: dict[int, list[str]] = {}
    behind = -1
    for place, value in enumerate(new):
        behind = stay.get(place, len(lines) - 1 if place > last else behind)
        known = lines[behind] if place in stay else None
        made.setdefault(behind, []).append(_line_text(document, known, value))
    parts = [part for at in range(-1, len(lines)) for part in _parts(document, at, made)]
    # Only the last line may have no line end.
    whole = [part if part.endswith("\n") else part + document.style.eol for part in parts[:-1]]
    return "".join(whole + parts[-1:])


def _parts(document: Document, at: int, made: dict[int, list[str]]) -> list[str]:
    line = document.lines[at] if at >= 0 else None
    kept = [document.text[line.start : line.end]] if line and not line.node else []
    return kept + made.get(at, [])


def _line_text(document: Document, line: Line | None, value: Any) -> str:
    if line is None or line.node is None:
        return json_text(value, document.style) + document.style.eol
    raw = document.text[line.start : line.end]
    if diff.same(line.node.value, value):
        return raw
    return edit(raw, line.node, document.style, value, is_json=True)
