"""The habits of a text: where its lines begin, and the `Style` in which it is written."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from forestay.formats.text.safe_parse import LEAF, LIST, MAP, Node
from forestay.formats.text.spelling import Style, changed, is_flat, is_full

BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
JSON_BREAK = re.compile("\r\n|[\n\r]")
TRIVIA = re.compile("(?:[ \t\n\r\x85\u2028\u2029]|#[^\n\r\x85\u2028\u2029]*)*")
JSON_BREAKS = ("\n", "\r")
_OURS = Style()
_PIECE = 1 << 16
_ENOUGH = 150
"""So many nodes of a long text tell its habits."""
_MANY = 1000
_REST = re.compile("[ \t]*(?:#[^\n\r\x85\u2028\u2029]*)?")
_PROPERTIES = re.compile(r"(?:[&!]\S*[ \t\r\n]+)*")


class Clash(Exception):
    """A text that is not laid out as it would have to be for an edit."""


class Lines:
    """Line starts of a text, looked for in those pieces of it that someone asks about: an edit of
    a long one is about few."""

    def __init__(self, text: str, breaks: re.Pattern[str] = BREAK) -> None:
        self.text = text
        self.breaks = breaks
        self._pieces: dict[int, list[int]] = {}

    def start(self, at: int) -> int:
        piece = at // _PIECE
        starts = self._starts(piece)
        count = bisect_right(starts, at)
        while not count and piece:
            piece -= 1
            starts = self._starts(piece)
            count = len(starts)
        return starts[count - 1] if count else 0

    def _starts(self, piece: int) -> list[int]:
        """Where lines begin behind the breaks of a piece, and behind the sign before it: one of
        two signs that stand in two pieces is of the later one."""
        if piece not in self._pieces:
            end = (piece + 1) * _PIECE
            found = self.breaks.finditer(self.text, max(piece * _PIECE - 1, 0), end)
            starts = [match.end() for match in found]
            if starts and starts[-1] == end and self.text[end - 1 : end + 1] == "\r\n":
                del starts[-1]
            self._pieces[piece] = starts
        return self._pieces[piece]

    def column(self, at: int) -> int:
        return at - self.start(at)

    def rest(self, at: int) -> int:
        """Where the line ends on which nothing but a comment follows."""
        match = _REST.match(self.text, at)
        return match.end() if match else at

    def next(self, at: int) -> int:
        """Where the next line begins, after such a rest."""
        end = self.rest(at)
        match = BREAK.match(self.text, end)
        if match is None and end < len(self.text):
            raise Clash
        return match.end() if match else end

    def is_last(self, at: int) -> bool:
        return BREAK.match(self.text, self.rest(at)) is None


class Breaks:
    """How many lines end before a place of a text, in its pieces counted once: a long one may have
    many findings, or one only."""

    def __init__(self, text: str, signs: Sequence[str]) -> None:
        self.text = text
        self.signs = [sign for sign in signs if sign in text]
        starts = range(0, len(text), _PIECE)
        self._sums = [0, *accumulate(self._in(start, start + _PIECE) for start in starts)]

    def before(self, at: int) -> int:
        piece = at // _PIECE
        return self._sums[piece] + self._in(piece * _PIECE, at)

    def _in(self, start: int, end: int) -> int:
        signs = sum(self.text.count(sign, start, end) for sign in self.signs)
        # Both are one, and may stand in two pieces.
        return signs - ("\r" in self.signs and self.text.count("\r\n", start, end + 1))


def nodes_of(root: Node) -> Iterator[Node]:
    """All values of a document in order."""
    todo = [root]
    while todo:
        node = todo.pop()
        yield node
        todo.extend(reversed(node.items))


def _some_of(root: Node) -> Iterator[Node]:
    """The first nodes of a document that hold something, but those that hold very much: to unfold
    one of these is to read it once more."""
    todo, left = [root], _ENOUGH
    while todo and left:
        node, left = todo.pop(), left - 1
        if is_full(node.value) and (node is root or len(node.value) <= _MANY):
            yield node
            todo.extend(reversed(node.items))


def line_end(text: str) -> str:
    """How most lines of a text end."""
    return "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"


def json_style(text: str, root: Node, base: Style = _OURS) -> Style:
    """The habits of a JSON text; those that it does not show are as in the base."""
    style = changed(base, eol=line_end(text), final=text.endswith("\n"))
    style.ascii = text.isascii() and bool(re.search(r"\\u(?!00[0-7])[0-9a-fA-F]{4}", text))
    full = list(_some_of(root))
    if full:
        lead = text[full[0].start + 1 : _first(full[0])]
        style.unit = JSON_BREAK.split(lead)[-1] if JSON_BREAK.search(lead) else None
    _separators(style, text, full)
    flat = [node for node in full if is_flat(node.value)]
    lined = [JSON_BREAK.search(text, node.start, node.end) is not None for node in flat]
    style.flat = style.unit is not None and bool(flat) and not any(lined)
    return style


def _first(node: Node) -> int:
    return (node.keys or node.items)[0].start


def _separators(style: Style, text: str, full: list[Node]) -> None:
    for node in full:
        if node.keys:
            colon = text[node.keys[0].end : node.items[0].start]
            style.colon = ": " if JSON_BREAK.search(colon) else colon
            break
    for node in full:
        if len(node.items) > 1 and not JSON_BREAK.search(text, node.start, node.end):
            style.comma = text[node.items[0].end : (node.keys or node.items)[1].start]
            return
    if style.unit is None and style.colon == ":":
        style.comma = ","


def yaml_style(text: str, root: Node) -> Style:
    """The habits of a YAML text."""
    style = Style(eol=line_end(text), final=text.endswith("\n"))
    columns = Lines(text)
    full = [node for node in nodes_of(root) if node.items]
    blocks = [node for node in full if node.kind == MAP and node.style == "block"]
    for kind, name in ((MAP, "step"), (LIST, "dash")):
        offsets = [
            columns.column(block_start(text, inner)) - columns.column(node.keys[0].start)
            for node in blocks
            for inner in node.items
            if inner.kind == kind and inner.style == "block" and inner.items
        ]
        if offsets:
            setattr(style, name, max(offsets[0], 1 if kind == MAP else 0))
    quotes = [key.style for node in full for key in node.keys]
    style.key = next((sign for sign in "\"'" if quotes.count(sign) * 2 > len(quotes)), "")
    strings = [n.style for n in nodes_of(root) if n.kind == LEAF and isinstance(n.value, str)]
    habits = {quote: strings.count(quote) for quote in ('"', "'", "")}
    style.quote = max(habits, key=lambda quote: habits[quote])
    flat = [node.style for node in full if is_flat(node.value)]
    style.flat = bool(flat) and "block" not in flat
    return style


def block_start(text: str, node: Node) -> int:
    """Where the first entry of a block collection begins, behind an anchor or tag."""
    match = _PROPERTIES.match(text, node.start)
    behind = match.end() if match else node.start
    trivia = TRIVIA.match(text, behind) if behind > node.start else None
    return trivia.end() if trivia else behind
