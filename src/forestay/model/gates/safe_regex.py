"""Patterns: the subset of regular expressions that can be matched in linear time.

Gates come from untrusted files, and with backtracking six characters can keep a machine busy for
years. A pattern is parsed to a tree, the tree becomes states (Thompson), and a text is read once
with the set of all possible states. What cannot be done that way is refused by name:
backreferences and lookaround. Everything is limited: the length of a pattern, how deep its groups
are, the states that its repeats expand to, and the steps of one match.

    abc  .  [a-z_]  [^0-9]  \\d \\w \\s \\D \\W \\S  \\n \\t \\.  (…)  (?:…)  a|b
    ?  *  +  {m}  {m,}  {m,n}
    ^  $    the beginning and the very end of the text

Characters have the meaning they have in Python, with all of Unicode in \\d, \\w and \\s: each
single one is compared by Python's `re`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

from forestay.errors import InvalidInput

LONGEST = 500
DEEPEST = 20
MOST_STATES = 2_000
MOST_REPEATS = 1_000
MOST_STEPS = 2_000_000

Accepts = Callable[[str], object]
Flags = tuple[bool, bool]
"""Whether the position is the beginning, and the end, of the text."""


class BadPattern(InvalidInput):
    """A pattern that cannot be used; `column` counts from 1."""

    column = 0


def _bad(why: str, at: int) -> BadPattern:
    error = BadPattern(f"{why} (column {at + 1} of the pattern)")
    error.column = at + 1
    return error


class _Node(NamedTuple):
    """A part of the tree: `char`, `begin`, `end`, `sequence`, `either` or `repeat`."""

    kind: str
    accepts: Accepts | None = None
    parts: tuple[_Node, ...] = ()
    least: int = 0
    most: int | None = 0


class _State(NamedTuple):
    """A state: `to` is reached by reading a character, or without one if `accepts` is None."""

    accepts: Accepts | None
    when: str
    to: tuple[int, ...]


# -- reading -----------------------------------------------------------------------------------

_CHARACTER = r"\\[dDwWsSntrfv]|\\\W"
_ATOM = re.compile(
    rf"""{_CHARACTER}                                      # a kind of characters, or one escaped
    |\[\^?(?:{_CHARACTER}|(?!--|&&|~~|\|\|)[^]\\[])+\]     # a class of characters
    |[^\\[()|{{*+?]                                        # a character, . or ^ or $
    """,
    re.VERBOSE,
)
_TIMES = re.compile(r"[?*+]|\{([0-9]{1,6})(?:(,)([0-9]{0,6}))?\}")
_GROUPS = {
    "=": "lookahead",
    "!": "lookahead",
    "<": "lookbehind",
    "P": "a named group",
    "#": "a comment",
}


class _Reader:
    """Parses a pattern from left to right; `at` is the position."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0

    def read(self) -> _Node:
        node = self._alternatives()
        if self.at < len(self.text):
            raise _bad("')' without '('", self.at)
        return node

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _alternatives(self) -> _Node:
        rows = [self._sequence()]
        while self._peek() == "|":
            self.at += 1
            rows.append(self._sequence())
        return rows[0] if len(rows) == 1 else _Node("either", parts=tuple(rows))

    def _sequence(self) -> _Node:
        parts = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeated(self._group() if self._peek() == "(" else self._atom()))
        return _Node("sequence", parts=tuple(parts))

    def _atom(self) -> _Node:
        match = _ATOM.match(self.text, self.at)
        if match is None:
            raise self._unsupported()
        if match[0] not in "^$":
            try:
                # A pattern of one character cannot backtrack.
                node = _Node("char", re.compile(match[0]).fullmatch)
            except re.error as error:
                raise _bad(error.msg, self.at) from None
        else:
            node = _Node("begin" if match[0] == "^" else "end")
        self.at = match.end()
        return node

    def _unsupported(self) -> BadPattern:
        char, after = self._peek(), self.text[self.at + 1 : self.at + 2]
        if char == "[":
            why = "not a class of characters, such as [a-z_]; write '\\' before other signs"
            return _bad(why, self.at)
        if char != "\\":
            return _bad(f"nothing is before '{char}'; write \\{char} for the character", self.at)
        if not after:
            return _bad("'\\' at the end", self.at)
        reference = "a backreference " if after.isdecimal() else ""
        return _bad(f"{reference}\\{after} is not supported", self.at)

    def _group(self) -> _Node:
        at = self.at
        self.at += 1
        self.depth += 1
        if self.depth > DEEPEST:
            raise _bad(f"groups are more than {DEEPEST} levels deep", at)
        if self._peek() == "?":
            word = self.text[self.at + 1 : self.at + 2]
            if word != ":":
                raise _bad(f"{_GROUPS.get(word, 'this kind of group')} is not supported", at)
            self.at += 2
        node = self._alternatives()
        if self._peek() != ")":
            raise _bad("'(' without ')'", at)
        self.at += 1
        self.depth -= 1
        return node

    def _repeated(self, part: _Node) -> _Node:
        at, char = self.at, self._peek()
        if char not in ("?", "*", "+", "{"):
            return part
        match = _TIMES.match(self.text, at)
        if match is None:
            raise _bad("a repeat is {m}, {m,} or {m,n}; write \\{ for the character", at)
        self.at = match.end()
        least, most = int(match[1] or char == "+"), 1 if char == "?" else None
        if char == "{" and not match[2]:
            most = least
        elif char == "{":
            most = int(match[3]) if match[3] else None
        if part.kind in ("begin", "end"):
            raise _bad("the beginning or the end cannot be repeated", at)
        if self._peek() in ("?", "*", "+", "{"):
            raise _bad("a repeat after a repeat is not supported; use a group", self.at)
        if max(least, most or 0) > MOST_REPEATS:
            raise _bad(f"more than {MOST_REPEATS} repeats", at)
        if most is not None and most < least:
            raise _bad(f"{match[0]} ends before it begins", at)
        return _Node("repeat", parts=(part,), least=least, most=most)


# -- states ------------------------------------------------------------------------------------


class _Builder:
    """Makes states from the tree, from the end to the beginning, so that each knows the next."""

    def __init__(self) -> None:
        self.states: list[_State] = [_State(None, "match", ())]
        self.work = 0

    def build(self, node: _Node, to: int) -> int:
        """Return the state to begin in, so that `to` is reached after the node."""
        # A repeat of nothing makes no states, so the work itself is counted too.
        self.work += 1
        if max(self.work, len(self.states)) > MOST_STATES:
            raise BadPattern("the repeats of the pattern expand to too many states")
        if node.kind == "sequence":
            for part in reversed(node.parts):
                to = self.build(part, to)
            return to
        if node.kind == "either":
            return self._add(_State(None, "", tuple(self.build(part, to) for part in node.parts)))
        if node.kind == "repeat":
            return self._repeat(node, to)
        when = "" if node.kind == "char" else node.kind
        return self._add(_State(node.accepts, when, (to,)))

    def _add(self, state: _State) -> int:
        self.states.append(state)
        return len(self.states) - 1

    def _repeat(self, node: _Node, to: int) -> int:
        part, after = node.parts[0], to
        if node.most is None:
            loop = self._add(_State(None, "", (to,)))
            self.states[loop] = _State(None, "", (self.build(part, loop), to))
            to = loop
        for _ in range((node.most or node.least) - node.least):
            to = self._add(_State(None, "", (self.build(part, to), after)))
        for _ in range(node.least):
            to = self.build(part, to)
        return to


# -- matching ----------------------------------------------------------------------------------


class Effort:
    """The number of states that may still be visited, by all matches that share it."""

    def __init__(self, steps: int = MOST_STEPS) -> None:
        self._left = steps

    def spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise BadPattern("the text is too long for this pattern")


class Pattern:
    """A compiled pattern. `compile_pattern` makes one, or raises `BadPattern`."""

    def __init__(self, text: str) -> None:
        builder = _Builder()
        self._first = builder.build(_Reader(text).read(), 0)
        self._states = builder.states

    def matches(self, text: str, effort: Effort | None = None) -> bool:
        """Return whether the pattern matches the whole text."""
        return self._walk(text, effort or Effort(), anywhere=False)

    def finds(self, text: str, effort: Effort | None = None) -> bool:
        """Return whether the pattern matches some part of the text."""
        return self._walk(text, effort or Effort(), anywhere=True)

    def _walk(self, text: str, effort: Effort, *, anywhere: bool) -> bool:
        first = (self._first,) if anywhere else ()
        here, steps = self._closure([self._first], (True, not text))
        for at, char in enumerate(text, 1):
            if (anywhere and 0 in here) or not (anywhere or here):
                break
            effort.spend(steps)
            starts = [*self._after(here, char), *first]
            here, steps = self._closure(starts, (False, at == len(text)))
        return 0 in here

    def _after(self, here: list[int], char: str) -> Iterable[int]:
        for number in here:
            state = self._states[number]
            if state.accepts is not None and state.accepts(char):
                yield state.to[0]

    def _closure(self, todo: list[int], flags: Flags) -> tuple[list[int], int]:
        """Return the states that can be reached without reading and either read or are the end.

        Each state is visited once; the second value is how many were visited.
        """
        seen, found = set(todo), []
        todo = list(seen)
        while todo:
            at = todo.pop()
            state = self._states[at]
            if state.accepts is not None or state.when == "match":
                found.append(at)
            elif not state.when or flags[state.when == "end"]:
                new = set(state.to) - seen  # empty alternatives lead to the same state
                todo += new
                seen |= new
        return found, len(seen)


@lru_cache(maxsize=64)
def compile_pattern(text: str) -> Pattern:
    """Compile a pattern; `BadPattern` names what is wrong with it, and where."""
    if len(text) > LONGEST:
        raise BadPattern(f"a pattern of more than {LONGEST} characters")
    return Pattern(text)
