"""Patterns: a part of regular expressions that is matched in time linear in the text.

Gates come from files of strangers, and backtracking lets six signs keep a machine busy for years.
A pattern is parsed to a tree, the tree becomes states (Thompson), and a text is walked once with
the set of all states one may be in. What cannot be done so is refused by name: backreferences and
lookaround. Everything is limited: the length of a pattern, how deep its groups are, the states
that its repeats expand to, and the steps of one match.

    abc  .  [a-z_]  [^0-9]  \\d \\w \\s \\D \\W \\S  \\n \\t \\.  (…)  (?:…)  a|b
    ?  *  +  {m}  {m,}  {m,n}
    ^  $    the beginning and the very end of the text

Signs mean what they mean in Python, with all of Unicode in \\d, \\w and \\s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

from forestay.errors import InvalidInput

LONGEST = 500
DEEPEST = 20
MOST_STATES = 2_000
MOST_REPEATS = 1_000
MOST_STEPS = 2_000_000

Accepts = Callable[[str], bool]
Flags = tuple[bool, bool]
"""Whether one stands at the beginning and at the end of the text."""


class BadPattern(InvalidInput):
    """A pattern that cannot be used; `column` counts from 1."""

    column = 0


def _bad(why: str, at: int) -> BadPattern:
    error = BadPattern(f"{why} (column {at + 1} of the pattern)")
    error.column = at + 1
    return error


class _Node(NamedTuple):
    """A part of the tree: `sign`, `begin`, `end`, `row`, `either` or `repeat`."""

    kind: str
    accepts: Accepts | None = None
    parts: tuple[_Node, ...] = ()
    least: int = 0
    most: int | None = 0


class _State(NamedTuple):
    """What may be done here: read a sign and go on, or go on without one, here or there."""

    accepts: Accepts | None
    when: str
    to: tuple[int, ...]


# -- reading -----------------------------------------------------------------------------------

_KINDS: dict[str, Accepts] = {
    "d": str.isdecimal,
    "w": lambda sign: sign == "_" or sign.isalnum(),
    "s": str.isspace,
}
_SIGNS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}
_GROUPS = {
    "=": "lookahead",
    "!": "lookahead",
    "<": "lookbehind",
    "P": "a named group",
    "#": "a comment",
}


def _no(accepts: Accepts) -> Accepts:
    return lambda sign: not accepts(sign)


def _is(wanted: str) -> Accepts:
    return lambda sign: sign == wanted


def _not_a_break(sign: str) -> bool:
    return sign != "\n"


def _any_of(chosen: Iterable[Accepts]) -> Accepts:
    kinds = tuple(chosen)
    return lambda sign: any(accepts(sign) for accepts in kinds)


def _between(low: str, high: str) -> Accepts:
    return lambda sign: low <= sign <= high


class _Reader:
    """Reads a pattern from left to right; `at` is where it stands."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0

    def read(self) -> _Node:
        made = self._either()
        if self.at < len(self.text):
            raise _bad("')' without '('", self.at)
        return made

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _take(self) -> str:
        sign = self._peek()
        self.at += 1
        return sign

    def _either(self) -> _Node:
        rows = [self._row()]
        while self._peek() == "|":
            self.at += 1
            rows.append(self._row())
        return rows[0] if len(rows) == 1 else _Node("either", parts=tuple(rows))

    def _row(self) -> _Node:
        parts = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeated(self._one()))
        return _Node("row", parts=tuple(parts))

    def _one(self) -> _Node:
        at, sign = self.at, self._take()
        if sign == "(":
            return self._group(at)
        if sign in "*+?":
            raise _bad(f"nothing stands before '{sign}'", at)
        if sign == "{":
            raise _bad("nothing stands before '{'; write \\{ for the sign", at)
        if sign in "^$":
            return _Node("begin" if sign == "^" else "end")
        return _Node("sign", self._sign(sign, at))

    def _sign(self, sign: str, at: int) -> Accepts:
        if sign == ".":
            return _not_a_break
        if sign == "[":
            return self._class(at)
        return self._escape(at) if sign == "\\" else _is(sign)

    def _group(self, at: int) -> _Node:
        self.depth += 1
        if self.depth > DEEPEST:
            raise _bad(f"groups more than {DEEPEST} deep", at)
        if self._peek() == "?":
            self._plain_group(at)
        made = self._either()
        if self._take() != ")":
            raise _bad("'(' without ')'", at)
        self.depth -= 1
        return made

    def _plain_group(self, at: int) -> None:
        word = self.text[self.at + 1 : self.at + 2]
        if word != ":":
            raise _bad(f"{_GROUPS.get(word, 'this kind of group')} is not supported", at)
        self.at += 2

    def _escape(self, at: int) -> Accepts:
        sign = self._take()
        if sign.lower() in _KINDS and sign:
            kind = _KINDS[sign.lower()]
            return kind if sign.islower() else _no(kind)
        return _is(self._escaped(sign, at))

    def _escaped(self, sign: str, at: int) -> str:
        if not sign:
            raise _bad("'\\' at the end", at)
        if sign in _SIGNS:
            return _SIGNS[sign]
        if sign.isdecimal():
            raise _bad(f"a backreference (\\{sign}) is not supported", at)
        if sign.isalnum() or sign == "_":
            raise _bad(f"\\{sign} is not supported", at)
        return sign

    def _class(self, at: int) -> Accepts:
        is_not = self._peek() == "^"
        self.at += is_not
        found: list[Accepts] = []
        while self._peek() != "]":
            if not self._peek():
                raise _bad("'[' without ']'", at)
            found.append(self._member())
        if not found:
            raise _bad("nothing stands between '[' and ']'; write \\] for the sign", at)
        self.at += 1
        return _no(_any_of(found)) if is_not else _any_of(found)

    def _member(self) -> Accepts:
        at, sign = self.at, self._take()
        if sign == "\\" and self._peek().lower() in _KINDS and self._peek():
            return self._escape(at)
        low = self._escaped(self._take(), at) if sign == "\\" else sign
        if self._peek() != "-" or self.text[self.at + 1 : self.at + 2] in ("", "]"):
            return _is(low)
        self.at += 1
        return self._range(low, at)

    def _range(self, low: str, at: int) -> Accepts:
        sign = self._take()
        high = self._escaped(self._take(), at) if sign == "\\" else sign
        if high < low:
            raise _bad(f"the range {low}-{high} goes backwards", at)
        return _between(low, high)

    def _repeated(self, part: _Node) -> _Node:
        at = self.at
        times = self._times()
        if times is None:
            return part
        if part.kind in ("begin", "end"):
            raise _bad("the beginning or the end cannot be repeated", at)
        if self._peek() and self._peek() in "?*+{":
            raise _bad("a repeat after a repeat is not supported; use a group", self.at)
        return _Node("repeat", parts=(part,), least=times[0], most=times[1])

    def _times(self) -> tuple[int, int | None] | None:
        simple: dict[str, tuple[int, int | None]] = {"?": (0, 1), "*": (0, None), "+": (1, None)}
        sign = self._peek()
        if sign in simple:
            self.at += 1
            return simple[sign]
        return self._braces() if sign == "{" else None

    def _braces(self) -> tuple[int, int | None]:
        at = self.at
        inside, closed, _ = self.text[at + 1 :].partition("}")
        low, comma, high = inside.partition(",")
        if not closed or not _is_number(low) or (high and not _is_number(high)):
            raise _bad("a repeat is {m}, {m,} or {m,n}; write \\{ for the sign", at)
        self.at += len(inside) + 2
        least = int(low)
        most = (int(high) if high else None) if comma else least
        if max(least, most or 0) > MOST_REPEATS:
            raise _bad(f"more than {MOST_REPEATS} repeats", at)
        if most is not None and most < least:
            raise _bad(f"{{{inside}}} ends before it begins", at)
        return least, most


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 6


# -- states ------------------------------------------------------------------------------------


class _Builder:
    """Makes states from the tree, from the end to the beginning: each part knows what follows."""

    def __init__(self) -> None:
        self.states: list[_State] = [_State(None, "match", ())]
        self.work = 0

    def build(self, node: _Node, to: int) -> int:
        """The state to begin in, so that after the node one is in `to`."""
        # A repeat of nothing makes no state, so that the work itself is counted.
        self.work += 1
        if max(self.work, len(self.states)) > MOST_STATES:
            raise BadPattern("the repeats of the pattern expand to too much")
        if node.kind == "row":
            return self._row(node.parts, to)
        if node.kind == "either":
            return self._add(_State(None, "", tuple(self.build(part, to) for part in node.parts)))
        if node.kind == "repeat":
            return self._repeat(node, to)
        when = "" if node.kind == "sign" else node.kind
        return self._add(_State(node.accepts, when, (to,)))

    def _add(self, state: _State) -> int:
        self.states.append(state)
        return len(self.states) - 1

    def _row(self, parts: tuple[_Node, ...], to: int) -> int:
        for part in reversed(parts):
            to = self.build(part, to)
        return to

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
    """How many states may still be looked at: one for everything that is compared together."""

    def __init__(self, steps: int = MOST_STEPS) -> None:
        self._left = steps

    def spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise BadPattern("the text is too long for this pattern")


class Pattern:
    """A pattern that is ready to be used. `compiled` makes one, or raises `BadPattern`."""

    def __init__(self, text: str) -> None:
        builder = _Builder()
        self._first = builder.build(_Reader(text).read(), 0)
        self._states = builder.states

    def matches(self, text: str, effort: Effort | None = None) -> bool:
        """Whether the whole text is as the pattern says."""
        return self._walk(text, effort or Effort(), anywhere=False)

    def finds(self, text: str, effort: Effort | None = None) -> bool:
        """Whether some part of the text is as the pattern says."""
        return self._walk(text, effort or Effort(), anywhere=True)

    def _walk(self, text: str, effort: Effort, *, anywhere: bool) -> bool:
        first = (self._first,) if anywhere else ()
        here, steps = self._open([self._first], (True, not text))
        for at, sign in enumerate(text, 1):
            if (anywhere and 0 in here) or not (anywhere or here):
                break
            effort.spend(steps)
            here, steps = self._open([*self._after(here, sign), *first], (False, at == len(text)))
        return 0 in here

    def _after(self, here: list[int], sign: str) -> Iterable[int]:
        for number in here:
            state = self._states[number]
            if state.accepts is not None and state.accepts(sign):
                yield state.to[0]

    def _open(self, todo: list[int], flags: Flags) -> tuple[list[int], int]:
        """The states that read a sign, or are the end, to which one comes without reading.

        Each is looked at once, however many ways lead to it; also how many were looked at.
        """
        seen, found = set(todo), []
        todo = list(seen)
        while todo:
            at = todo.pop()
            state = self._states[at]
            if state.accepts is not None or state.when == "match":
                found.append(at)
            elif not state.when or flags[state.when == "end"]:
                todo += (to for to in state.to if to not in seen)
                seen.update(state.to)
        return found, len(seen)


@lru_cache(maxsize=64)
def compiled(text: str) -> Pattern:
    """The pattern that a text spells; `BadPattern` says what is wrong with it, and where."""
    if len(text) > LONGEST:
        raise BadPattern(f"a pattern of more than {LONGEST} characters")
    return Pattern(text)
