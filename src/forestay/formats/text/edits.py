"""Edit a YAML text so that it has a new value, with as few changes as possible.

The new value is compared with the nodes of the old text. In block collections, whole lines are
added and removed; a flow collection (in brackets) is written again on one line, and an entry whose
value gets another type is written again as a whole. This module does not check its result: the
caller parses the edited text and compares the values.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from forestay.formats import diff
from forestay.formats.text.safe_parse import LEAF, MAP, Node
from forestay.formats.text.style import (
    TRIVIA,
    Clash,
    Lines,
    Style,
    block_start,
    is_full,
    is_stamp,
    yaml_block,
    yaml_flow,
    yaml_item,
    yaml_pair,
    yaml_scalar,
)


class _Entry(Struct):
    """One entry of a block collection: from its key or dash to the end of its value."""

    start: int
    end: int
    node: Node


Plan = list[tuple[int | None, Any, str]]
"""The new entries of a collection: the index of the old entry or None, the value, and the key."""


def edit(at: Lines, root: Node, style: Style, value: Any) -> str:
    """Return the text in `at`, edited so that its value is `value`."""
    editor = _Editor(at, style)
    if not editor.change(root, value):
        text = yaml_block(value, style, at.column(root.start))
        editor.edits.append((root.start, root.end, text))
    made, end = [], 0
    for first, last, new in sorted(editor.edits, key=lambda edit: edit[0]):
        if first < end:
            raise Clash
        made += [at.text[end:first], new]
        end = last
    return "".join([*made, at.text[end:]])


class _Editor:
    """Collects the edits that give a YAML text a new value."""

    def __init__(self, at: Lines, style: Style) -> None:
        self.at = at
        self.text = at.text
        self.style = style
        self.edits: list[tuple[int, int, str]] = []

    def change(self, node: Node, new: Any) -> bool:
        """Add the edits for one node; return False if its key or dash must be rewritten, too."""
        if diff.same(node.value, new):
            return True
        is_same_kind = node.kind != LEAF and node.items and new and type(new) is type(node.value)
        is_block = node.style == "block" and bool(node.items)
        if is_same_kind and is_block:
            plan = self._plan(node, new)
            is_kept = any(old is not None for old, _, _ in plan)
            if is_kept:
                self._block(node, plan)
            return is_kept
        if is_same_kind:
            text = yaml_flow(new, _quote(node.items[-1]))
        elif node.start < node.end and not is_full(new) and not is_block:
            text = _scalar_like(node, new)
        else:
            return False
        anchor = f"&{node.anchor} " if node.anchor else ""
        self.edits.append((node.start, node.end, anchor + text))
        return True

    def _plan(self, node: Node, new: Any) -> Plan:
        if isinstance(new, list):
            old_of = {to: old for old, to in diff.align(node.value, new)}
            return [(old_of.get(place), value, "") for place, value in enumerate(new)]
        return _map_plan([key.value for key in node.keys], new)

    # block: lines and columns

    def _entries(self, node: Node) -> list[_Entry]:
        """Return where each entry begins and ends; only the first can share a line with a dash."""
        made, at = [], block_start(self.text, node)
        for place, item in enumerate(node.items):
            start = self._skip(at)
            if node.kind == MAP:
                key = node.keys[place]
                lead = self._sign(":", self._skip(key.end)) if key.end <= item.start else -1
                start = start if self.text[start] == "?" else key.start
            else:
                lead = self._sign("-", start)
            at = max(item.end, lead)
            made.append(_Entry(start, at, item))
        return made

    def _skip(self, at: int) -> int:
        match = TRIVIA.match(self.text, at)
        return match.end() if match else at

    def _sign(self, sign: str, at: int) -> int:
        if self.text[at : at + 1] != sign:
            raise Clash
        return at + 1

    def _block(self, node: Node, plan: Plan) -> None:
        entries = self._entries(node)
        column = self.at.column(entries[0].start)
        # As many entries as possible stay in place; an entry that moves is written again.
        pairs = sorted((old, place) for place, (old, _, _) in enumerate(plan) if old is not None)
        stay = {place: old for old, place in diff.rising(pairs)}
        new: dict[int, list[str]] = {}
        behind = -1

        def text_of(key: str, value: Any) -> str:
            if node.kind == MAP:
                return yaml_pair(key, value, self.style, column)
            return yaml_item(value, self.style, column)

        for place, (_, value, key) in enumerate(plan):
            if place in stay:
                behind = stay[place]
            else:
                new.setdefault(behind, []).append(text_of(key, value))
        kept = {old: plan[place] for place, old in stay.items()}
        self._insert(entries, column, -1, new.get(-1, []))
        self._remove_first(entries, min(kept))
        for index, entry in enumerate(entries):
            if index in kept:
                _, value, key = kept[index]
                if not self.change(entry.node, value):
                    self.edits.append((entry.start, entry.end, text_of(key, value)))
                self._insert(entries, column, index, new.get(index, []))
            elif index > 0:
                self._remove(entry)

    def _is_alone(self, at: int) -> bool:
        return not self.text[self.at.start(at) : at].strip(" ")

    def _insert(self, entries: list[_Entry], column: int, after: int, texts: list[str]) -> None:
        if not texts:
            return
        eol, pad = self.style.eol, " " * column
        if after >= 0:
            at = self.at.next(entries[after].end)
            last = self.at.is_last(entries[after].end)
            lines = [eol + pad + text if last else pad + text + eol for text in texts]
        elif self._is_alone(entries[0].start):
            at = self.at.start(entries[0].start)
            lines = [pad + text + eol for text in texts]
        else:
            at = entries[0].start
            lines = [text + eol + pad for text in texts]
        self.edits.append((at, at, "".join(lines)))

    def _remove(self, entry: _Entry) -> None:
        if not self._is_alone(entry.start):
            raise Clash
        self.edits.append((self.at.start(entry.start), self.at.next(entry.end), ""))

    def _remove_first(self, entries: list[_Entry], kept: int) -> None:
        """Remove the first entries of a mapping; behind a list dash, the next entry moves up."""
        if kept == 0:
            return
        if self._is_alone(entries[0].start):
            self._remove(entries[0])
            return
        start = entries[0].start
        end = self.at.rest(entries[0].end)
        if kept == 1 and self.at.next(entries[0].end) == self.at.start(entries[1].start):
            end = entries[1].start
        self.edits.append((start, end, ""))


def _map_plan(old: list[str], new: dict[str, Any]) -> Plan:
    """Return the old keys in the order of the file, and each new key after its predecessor."""
    index = {key: place for place, key in enumerate(old)}
    behind: dict[int, Plan] = {}
    last = -1
    for key, value in new.items():
        if key in index:
            last = index[key]
        else:
            behind.setdefault(last, []).append((None, value, key))
    plan = behind.get(-1, [])
    for place, key in enumerate(old):
        plan += [(place, new[key], key)] if key in new else []
        plan += behind.get(place, [])
    return plan


def _quote(node: Node) -> str:
    return "'" if isinstance(node.value, str) and node.style == "'" else '"'


def _scalar_like(node: Node, new: Any) -> str:
    """Return a scalar as YAML, in the style of the scalar that it replaces."""
    if not isinstance(new, str) or not isinstance(node.value, str) or node.style == "*":
        return yaml_scalar(new)
    if node.style == "" and is_stamp(new) and is_stamp(node.value):
        return new
    return yaml_scalar(new, node.style if node.style in ("", "'") else '"')
