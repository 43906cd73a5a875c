"""Edit a text with as few changes as possible so that it has another value.

The new value is compared with the nodes of the old text. JSON and flow collections are rebuilt from
their items and the gaps between them; in block collections, whole lines are added and removed.
Nothing is checked here: the caller parses the result and compares.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from forestay.formats import diff
from forestay.formats.text.safe_parse import LEAF, LIST, MAP, Node
from forestay.formats.text.style import (
    BREAK,
    JSON_BREAK,
    TRIVIA,
    Clash,
    Lines,
    Style,
    block_start,
    is_full,
    is_stamp,
    json_scalar,
    json_text,
    nodes_of,
    yaml_block,
    yaml_flow,
    yaml_item,
    yaml_key,
    yaml_pair,
    yaml_scalar,
    yaml_value,
)

_SEPARATOR = re.compile(r"\s*,\s*\Z")


class _Entry(Struct):
    """One entry of a block collection: from its key or dash to the end of its value."""

    start: int
    lead: int
    end: int
    node: Node


Plan = list[tuple[int | None, Any, str]]
"""The new entries of a collection: the place of the old entry (if any), value and key of each."""


def edit(
    text: str,
    root: Node,
    style: Style,
    value: Any,
    *,
    is_json: bool,
    expand: bool = False,
    fresh_keys: frozenset[str] = frozenset(),
) -> str:
    """Return the text with a new value.

    `expand` replaces aliases by their values; the top-level keys in `fresh_keys` are written
    as in a new file.
    """
    editor = _Editor(
        Lines(text, JSON_BREAK if is_json else BREAK), style, is_json, expand, fresh_keys
    )
    editor.change(root, value, None)
    return apply(text, editor.edits)


def apply(text: str, edits: list[tuple[int, int, str]], start: int = 0, end: int = -1) -> str:
    end = len(text) if end < 0 else end
    made, at = [], start
    for first, last, new in sorted(edits, key=lambda edit: edit[0]):
        if first < at or last > end:
            raise Clash
        made += [text[at:first], new]
        at = last
    return "".join([*made, text[at:end]])


class _Editor:
    """Collects the edits that give a text another value."""

    def __init__(
        self, at: Lines, style: Style, is_json: bool, expand: bool, fresh_keys: frozenset[str]
    ) -> None:
        self.at = at
        self.text = at.text
        self.style = style
        self.is_json = is_json
        self.expand = expand
        self.fresh_keys = fresh_keys
        self.edits: list[tuple[int, int, str]] = []

    def _new_editor(self) -> _Editor:
        return _Editor(self.at, self.style, self.is_json, self.expand, self.fresh_keys)

    def change(self, node: Node, new: Any, lead: int | None, *, flow: bool = False) -> None:
        """Add the edits of one value; `lead` is the end of its colon or dash, None at the root."""
        if diff.same(node.value, new) and not (self.expand and _has_alias(node)):
            return
        if node.kind != LEAF and node.items and new and isinstance(new, type(node.value)):
            plan = self._plan(node, new)
            if node.style == "flow":
                self._flow(node, new, plan)
            elif any(old is not None for old, _, _ in plan):
                self._block(node, plan, is_root=lead is None)
            else:
                self._replace(node, new, lead)
        elif flow or self.is_json:
            self._put(node, self._inline(node, new))
        else:
            self._replace(node, new, lead)

    def _put(self, node: Node, text: str) -> None:
        if node.start == node.end:
            raise Clash
        self.edits.append((node.start, node.end, text))

    def _plan(self, node: Node, new: Any) -> Plan:
        if isinstance(new, list):
            old_of = {to: old for old, to in diff.align(node.value, new)}
            return [(old_of.get(place), value, "") for place, value in enumerate(new)]
        return _map_plan([key.value for key in node.keys], new)

    # flow: braces, brackets, commas

    def _inline(self, node: Node, new: Any) -> str:
        if not self.is_json:
            return yaml_flow(new, self.style, _quote(node))
        if not is_full(new) or self._begins_line(node.start):
            return json_text(new, self.style, self._indent(node.start))
        return json_text(new, _on_one_line(self.style))

    def _begins_line(self, at: int) -> bool:
        """Return whether the value at a place is the first on its line, apart from its key."""
        return self.style.unit is not None and bool(
            re.match(r'[ \t]*(?:"(?:[^"\\]|\\.)*"\s*:\s*)?\Z', self.text[self.at.start(at) : at])
        )

    def _indent(self, at: int) -> str:
        match = re.match(r"[ \t]*", self.text[self.at.start(at) : at])
        return match.group() if match else ""

    def _flow(self, node: Node, new: Any, plan: Plan) -> None:
        if [old for old, _, _ in plan] == list(range(len(node.items))):
            for item, (_, value, _) in zip(node.items, plan, strict=True):
                self.change(item, value, -1, flow=True)
            return
        gaps = self._gaps(node)
        if gaps is None:
            self._put(node, self._inline(node, new))
            return
        self._put(node, self._rebuild(node, plan, gaps))

    def _gaps(self, node: Node) -> list[str] | None:
        """Return the text before, between and after the items; None if it is more than space."""
        sign = "{" if node.kind == MAP else "["
        if self.text[node.start] != sign or _has_bare_key(node):
            return None
        starts = [each.start for each in (node.keys or node.items)]
        ends = [item.end for item in node.items]
        gaps = [
            self.text[a:b]
            for a, b in zip([node.start + 1, *ends], [*starts, node.end - 1], strict=True)
        ]
        clean = not gaps[0].strip() and not gaps[-1].strip()
        return gaps if clean and all(_SEPARATOR.match(gap) for gap in gaps[1:-1]) else None

    def _rebuild(self, node: Node, plan: Plan, gaps: list[str]) -> str:
        parts = [self.text[node.start]]
        usual = self._usual_gap(gaps)
        likes = {
            kind: _last_of_kind(node, kind)
            for kind in {type(new) for old, new, _ in plan if old is None}
        }
        before: int | None = None
        for place, (old, value, key) in enumerate(plan):
            # The gap before an item stays as long as its neighbour is the same.
            is_same = old is not None and old > 0 and before == old - 1
            parts.append(gaps[0] if place == 0 else gaps[old or 0] if is_same else usual)
            if old is None:
                parts.append(self._new_item(node, value, key, gaps, likes[type(value)]))
            else:
                parts.append(self._old_item(node, old, value))
            before = old
        return "".join([*parts, gaps[-1], self.text[node.end - 1]])

    def _usual_gap(self, gaps: list[str]) -> str:
        """Return the text between most items."""
        inner = gaps[1:-1]
        if inner:
            return Counter(inner).most_common(1)[0][0]
        return "," + gaps[0] if JSON_BREAK.search(gaps[0]) else self.style.comma

    def _old_item(self, node: Node, old: int, value: Any) -> str:
        item, start = node.items[old], (node.keys or node.items)[old].start
        if item.value == value and type(item.value) is type(value) and not item.items:
            return self.text[start : item.end]  # unchanged: its parts need no visit
        sub = self._new_editor()
        sub.change(item, value, -1, flow=True)
        return apply(self.text, sub.edits, start, item.end)

    def _new_item(
        self, node: Node, value: Any, key: str, gaps: list[str], like: Node | None
    ) -> str:
        if not self.is_json:
            body = yaml_flow(value, self.style, _quote(node.items[-1]))
            return f"{yaml_key(key, self.style)} {body}" if node.kind == MAP else body
        own_line = JSON_BREAK.search(gaps[0]) is not None
        lined = own_line and (like is None or JSON_BREAK.search(self.text, like.start, like.end))
        style = self.style if lined else _on_one_line(self.style)
        body = json_text(value, style, JSON_BREAK.split(gaps[0])[-1])
        if node.kind == LIST:
            return body
        colon = self.text[node.keys[-1].end : node.items[-1].start]
        return json_scalar(key, self.style) + colon + body

    # block: lines and columns

    def _entries(self, node: Node) -> list[_Entry]:
        """Return where each entry begins and ends; only the first may share a line."""
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
            made.append(_Entry(start, lead, at, item))
        return made

    def _skip(self, at: int) -> int:
        match = TRIVIA.match(self.text, at)
        return match.end() if match else at

    def _sign(self, sign: str, at: int) -> int:
        if self.text[at : at + 1] != sign:
            raise Clash
        return at + 1

    def _block(self, node: Node, plan: Plan, *, is_root: bool) -> None:
        entries = self._entries(node)
        column = self.at.column(entries[0].start)
        stay = _unmoved(plan)
        kept = {plan[place][0] or 0: plan[place][1] for place in stay}
        new = self._new_entries(node, plan, stay, entries)
        self._insert(entries, column, -1, new.get(-1, []))
        self._remove_first(entries, min(kept))
        for index, entry in enumerate(entries):
            if index in kept:
                self._keep(node, entry, kept[index], index, is_root)
                self._insert(entries, column, index, new.get(index, []))
            elif index > 0:
                self._remove(entry)

    def _keep(self, node: Node, entry: _Entry, value: Any, index: int, is_root: bool) -> None:
        if is_root and node.kind == MAP and node.keys[index].value in self.fresh_keys:
            self._replace(entry.node, value, entry.lead)
        else:
            self.change(entry.node, value, entry.lead)

    def _new_entries(
        self, node: Node, plan: Plan, stay: set[int], entries: list[_Entry]
    ) -> dict[int, list[str]]:
        """Return the texts of new and moved entries by the entry that they follow (-1: none)."""
        column = self.at.column(entries[0].start)
        texts: dict[int, list[str]] = {}
        behind = -1
        for place, (old, value, key) in enumerate(plan):
            if place in stay:
                behind = old if old is not None else -1
            elif old is not None:
                texts.setdefault(behind, []).append(self._moved(entries[old], value))
            else:
                text = (
                    yaml_pair(key, value, self.style, column)
                    if node.kind == MAP
                    else yaml_item(value, self.style, column)
                )
                texts.setdefault(behind, []).append(text)
        return texts

    def _moved(self, entry: _Entry, value: Any) -> str:
        if not self._is_alone(entry.start):
            raise Clash
        sub = self._new_editor()
        sub.change(entry.node, value, entry.lead)
        end = self.at.next(entry.end)
        text = apply(self.text, sub.edits, entry.start, end)
        return text[: len(text) - _tail(text)]

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
        """Remove the first entries; after a dash on their line, the next one moves up to it."""
        if kept == 0:
            return
        if self._is_alone(entries[0].start):
            self._remove(entries[0])
            return
        start = entries[0].start
        end = self.at.rest(entries[0].end)
        if kept == 1 and self._is_next(entries[0], entries[1]):
            end = entries[1].start
        self.edits.append((start, end, ""))

    def _is_next(self, one: _Entry, two: _Entry) -> bool:
        return self.at.next(one.end) == self.at.start(two.start)

    def _replace(self, node: Node, new: Any, lead: int | None) -> None:
        """Replace a value by one of another kind, on the same line or on separate lines."""
        is_block = node.kind != LEAF and node.style == "block"
        if lead is None or lead < 0:
            self._put(node, yaml_block(new, self.style, self.at.column(node.start)))
        elif self.text[lead - 1] == "-":
            self._replace_item(node, new, lead, is_block)
        elif is_block:
            self._replace_block(node, new, lead)
        elif is_full(new):
            self._begin_block(node, new, lead)
        else:
            self._respell(node, new, lead)

    def _replace_item(self, node: Node, new: Any, lead: int, is_block: bool) -> None:
        if is_block or is_full(new):
            column = max(self.at.column(node.start), 0)
            is_below = self.at.start(node.start) != self.at.start(lead - 1)
            # Comments between the dash and a block below it stay.
            if is_below and not (is_block and "#" in self.text[lead : node.start]):
                column = self.at.column(lead - 1) + 2
                self.edits.append((lead, node.end, " " + yaml_block(new, self.style, column)))
            else:
                self._put(node, yaml_block(new, self.style, column))
        else:
            self._respell(node, new, lead)

    def _replace_block(self, node: Node, new: Any, lead: int) -> None:
        entries = self._entries(node)
        begin, stop = self.at.next(lead), self.at.next(entries[-1].end)
        fences = [begin]
        for entry in entries:
            fences += [self.at.start(entry.start), self.at.next(entry.end)]
        comments = "".join(
            self.text[a:b] for a, b in zip(fences[0:-1:2], fences[1::2], strict=True)
        )
        if is_full(new):
            column = self._key_column(lead)
            comments += yaml_value(new, self.style, column).removeprefix(self.style.eol)
            comments += self.style.eol
        else:
            self.edits.append((lead, lead, " " + yaml_scalar(new, self.style)))
        self.edits.append((begin, stop, comments))

    def _key_column(self, lead: int) -> int:
        """Return the column of the key before a colon, after any dashes on its line."""
        line = self.text[self.at.start(lead) : lead]
        match = re.match(r"[ ]*(?:[-?][ ]+)*", line)
        return match.end() if match else 0

    def _begin_block(self, node: Node, new: Any, lead: int) -> None:
        text = yaml_value(new, self.style, self._key_column(lead))
        end = max(node.end, lead)
        if end > lead:
            self.edits.append((lead, end, ""))
        at, last = self.at.next(end), self.at.is_last(end)
        lines = text.removeprefix(self.style.eol) + self.style.eol
        self.edits.append((at, at, text if last else lines))

    def _respell(self, node: Node, new: Any, lead: int) -> None:
        if is_full(new):
            text = yaml_flow(new, self.style)
        else:
            text = _scalar_like(node, new, self.style)
        if node.anchor:
            text = f"&{node.anchor} {text}"
        if node.start == node.end:
            self.edits.append((lead, lead, " " + text))
        else:
            self.edits.append((node.start, node.end, text))


def _has_alias(node: Node) -> bool:
    return any(each.style == "*" for each in nodes_of(node))


def _has_bare_key(node: Node) -> bool:
    return any(item.start == item.end for item in node.items)


def _last_of_kind(node: Node, kind: type) -> Node | None:
    """Return the last non-empty item of a kind."""
    alike = (each for each in reversed(node.items) if type(each.value) is kind)
    return next((each for each in alike if each.items), None)


def _on_one_line(style: Style) -> Style:
    return replace(style, unit=None)


def _map_plan(old: list[str], new: dict[str, Any]) -> Plan:
    """Return old keys in the order of the file, each new one after the key before it."""
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


def _unmoved(plan: Plan) -> set[int]:
    """Return the places of the plan whose old entries need not move, as many as possible."""
    pairs = sorted((old, place) for place, (old, _, _) in enumerate(plan) if old is not None)
    return {place for _, place in diff.rising(pairs)}


def _tail(text: str) -> int:
    """Return the length of the line break at the end of a text."""
    matches = list(BREAK.finditer(text[-2:]))
    return len(matches[-1].group()) if matches and matches[-1].end() == len(text[-2:]) else 0


def _quote(node: Node) -> str:
    return "'" if isinstance(node.value, str) and node.style == "'" else '"'


def _scalar_like(node: Node, new: Any, style: Style) -> str:
    """Return a scalar in the style of the one it replaces."""
    if not isinstance(new, str) or not isinstance(node.value, str) or node.style == "*":
        return yaml_scalar(new, style)
    if node.style == "" and is_stamp(new) and is_stamp(node.value):
        return new
    return yaml_scalar(new, style, node.style if node.style in ("", "'") else '"')
