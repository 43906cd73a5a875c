"""Expressions: the small language of rules over several fields. It cannot loop, call or reach out.

    coverage >= 80 and tests_failed == 0
    0 < passed <= total
    status in ["green", "yellow"] or waiver != null
    len(files) > 0 and matches(version, "\\d+\\.\\d+")
    report.unit.failed + report.e2e.failed == 0

A text is cut into tokens, a Pratt parser makes a tree, the tree is evaluated over plain values.
Nothing of Python is ever evaluated. Everything is limited: the length of a text, the depth of the
tree, the steps of one evaluation, the size of numbers and texts. `and`, `or` and `not` take
true and false only; a number is never true; comparing values of different types is an error.
Every error names its column, counted from 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeGuard

from forestay.errors import InvalidInput
from forestay.model.gates.safe_regex import BadPattern, Effort, compile_pattern

LONGEST = 1_000
DEEPEST = 32
MOST_STEPS = 10_000
LARGEST = 10**15
"""Beyond this, numbers are no longer exact everywhere."""
LONGEST_TEXT = 100_000

Values = Mapping[str, Any]


class BadExpression(InvalidInput):
    """A rule that cannot be parsed or evaluated; `column` counts from 1."""

    column = 0


def _bad(why: str, column: int) -> BadExpression:
    error = BadExpression(f"{why} (column {column})")
    error.column = column
    return error


class _Token(NamedTuple):
    kind: str
    """`number`, `text`, `name`, `end`, or the sign or word itself."""
    value: Any
    column: int


class _Node(NamedTuple):
    """A part of the tree: `value`, `field`, `list`, `call`, `compare`, or an operator."""

    kind: str
    column: int
    parts: tuple[_Node, ...] = ()
    value: Any = None
    depth: int = 1


# -- tokens ------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"""(?P<blank>\s+)
    |(?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,3})?)(?![A-Za-z0-9_.])
    |(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign>==|!=|<=|>=|[-<>+*/%().,\[\]])""",
    re.VERBOSE | re.DOTALL,
)
_WORDS = frozenset({"and", "or", "not", "in"})
_LITERALS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_ESCAPES = {"n": "\n", "t": "\t"}
_REPLACEMENTS = {"=": "==", "&": "and", "&&": "and", "|": "or", "||": "or", "!": "not"}


def _tokens(text: str) -> list[_Token]:
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _unexpected_character(text, at)
        if match.lastgroup != "blank":
            found.append(_token(str(match.lastgroup), match.group(), at + 1))
        at = match.end()
    return [*found, _Token("end", None, len(text) + 1)]


def _unexpected_character(text: str, at: int) -> BadExpression:
    if text[at] in "\"'":
        return _bad("a text without its closing quote", at + 1)
    if text[at].isdigit():
        return _bad("not a number", at + 1)
    meant = _REPLACEMENTS.get(text[at : at + 2]) or _REPLACEMENTS.get(text[at])
    return _bad(f"unexpected {text[at]!r}" + (f"; write {meant}" if meant else ""), at + 1)


def _token(kind: str, word: str, column: int) -> _Token:
    if kind == "number":
        return _Token(kind, _number(word, column), column)
    if kind == "text":
        return _Token(kind, _unquoted(word), column)
    if kind == "sign" or word in _WORDS:
        return _Token(word, word, column)
    if word in _LITERALS:
        return _Token("value", _LITERALS[word], column)
    return _Token(kind, word, column)


def _number(word: str, column: int) -> int | float:
    value = float(word)
    _require_size(value, column)
    return int(word) if word.isdigit() else value


def _unquoted(word: str) -> str:
    # Only quotes, backslash, \n and \t are escapes: patterns keep their backslashes.
    return re.sub(
        r"\\(.)",
        lambda m: _ESCAPES.get(m[1], m[1] if m[1] in "\"'\\" else m[0]),
        word[1:-1],
        flags=re.DOTALL,
    )


# -- parsing -----------------------------------------------------------------------------------

_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">=", "in", "not in"})
_POWERS = {
    "or": 1,
    "and": 2,
    **dict.fromkeys(_COMPARISONS, 4),
    "+": 5,
    "-": 5,
    "*": 6,
    "/": 6,
    "%": 6,
}
_NOT, _MINUS = 3, 7
_ARITY = {
    "len": (1, 1),
    "abs": (1, 1),
    "min": (1, 20),
    "max": (1, 20),
    "matches": (2, 2),
    "finds": (2, 2),
}
FUNCTIONS = tuple(_ARITY)


class _Parser:
    """Parses by top-down operator precedence: `_POWERS` is how tightly an operator binds."""

    def __init__(self, text: str) -> None:
        self.tokens = _tokens(text)
        self.at = 0
        self.open = 0

    def parse(self) -> _Node:
        made = self._expression(0)
        if self._next.kind != "end":
            raise self._unexpected(self._next)
        return made

    @property
    def _next(self) -> _Token:
        return self.tokens[self.at]

    def _advance(self) -> _Token:
        self.at += 1
        return self.tokens[self.at - 1]

    def _expect(self, kind: str, what: str) -> _Token:
        if self._next.kind != kind:
            raise _bad(f"{what} is expected", self._next.column)
        return self._advance()

    def _unexpected(self, token: _Token) -> BadExpression:
        if token.kind == "end":
            return _bad("the rule ends too early", token.column)
        return _bad(f"unexpected {token.value!r}", token.column)

    def _expression(self, power: int) -> _Node:
        self.open += 1
        if self.open > DEEPEST:
            raise _bad(f"more than {DEEPEST} levels deep", self._next.column)
        left = self._prefix(self._advance())
        while (sign := self._operator()) and _POWERS[sign] > power:
            left = self._infix(left, sign)
        self.open -= 1
        return left

    def _operator(self) -> str:
        kind = self._next.kind
        if kind == "not" and self.tokens[self.at + 1].kind == "in":
            return "not in"
        return kind if kind in _POWERS else ""

    def _infix(self, left: _Node, sign: str) -> _Node:
        column = self._advance().column
        if sign == "not in":
            self._advance()
        right = self._expression(_POWERS[sign])
        if sign in _COMPARISONS:
            return self._compared(left, sign, right, column)
        if sign in ("and", "or") and left.kind == sign:
            return _make_node(sign, left.column, (*left.parts, right))
        return _make_node(sign, column, (left, right))

    def _compared(self, left: _Node, sign: str, right: _Node, column: int) -> _Node:
        # a < b < c is one comparison of three values; parentheses make a group.
        if left.kind == "compare":
            return _make_node(
                "compare", left.column, (*left.parts, right), (*left.value, (sign, column))
            )
        return _make_node("compare", left.column, (left, right), ((sign, column),))

    def _prefix(self, token: _Token) -> _Node:
        if token.kind in ("number", "text", "value"):
            return _Node("value", token.column, value=token.value)
        if token.kind == "name":
            return self._named(token)
        if token.kind == "not":
            return _make_node("not", token.column, (self._expression(_NOT),))
        if token.kind == "-":
            return _make_node("minus", token.column, (self._expression(_MINUS),))
        if token.kind == "[":
            return _make_node("list", token.column, self._several("]"))
        if token.kind == "(":
            return self._group()
        raise self._unexpected(token)

    def _group(self) -> _Node:
        made = self._expression(0)
        self._expect(")", "')'")
        return _make_node("group", made.column, (made,))

    def _named(self, token: _Token) -> _Node:
        if self._next.kind == "(":
            return self._call(token)
        names = [token.value]
        while self._next.kind == ".":
            self._advance()
            names.append(self._expect("name", "a name after '.'").value)
        return _Node("field", token.column, value=tuple(names))

    def _call(self, token: _Token) -> _Node:
        least, most = _ARITY.get(token.value, (0, 0))
        if not most:
            known = ", ".join(FUNCTIONS)
            raise _bad(f"there is no function {token.value}; there are {known}", token.column)
        self._advance()
        parts = self._several(")")
        if not least <= len(parts) <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            raise _bad(f"{token.value} takes {wanted} values, not {len(parts)}", token.column)
        if token.value in ("matches", "finds"):
            _require_pattern(parts[1])
        return _make_node("call", token.column, parts, token.value)

    def _several(self, end: str) -> tuple[_Node, ...]:
        parts: list[_Node] = []
        while self._next.kind != end:
            if parts:
                self._expect(",", f"',' or '{end}'")
            parts.append(self._expression(0))
        self._advance()
        return tuple(parts)


def _make_node(kind: str, column: int, parts: tuple[_Node, ...], value: Any = None) -> _Node:
    depth = 1 + max((part.depth for part in parts), default=0)
    if depth > DEEPEST:
        raise _bad(f"more than {DEEPEST} levels deep", column)
    return _Node(kind, column, parts, value, depth)


def _require_pattern(node: _Node) -> None:
    if node.kind != "value" or not isinstance(node.value, str):
        raise _bad("the pattern must be a text in quotes", node.column)
    try:
        compile_pattern(node.value)
    except BadPattern as error:
        raise _bad(error.what, node.column) from None


# -- evaluating --------------------------------------------------------------------------------


def kind_of(value: object) -> str:
    """Return the type of a value, in the words of gates."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else "true or false"
    kinds = ((int, "a number"), (float, "a number"), (str, "text"), (Mapping, "an object"))
    return next((word for kind, word in kinds if isinstance(value, kind)), "a list")


def is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _require_size(value: Any, column: int) -> Any:
    if isinstance(value, (int, float)) and not -LARGEST <= value <= LARGEST:
        raise _bad("a number is too large", column)
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        raise _bad(f"a text of more than {LONGEST_TEXT} characters", column)
    return value


class _Evaluation:
    """Evaluates a tree; the steps are counted so that it ends."""

    def __init__(self, values: Values, effort: Effort | None = None) -> None:
        self.values = values
        self.effort = effort or Effort()
        self.steps = 0

    def _spend(self, steps: int, column: int) -> None:
        self.steps += steps
        if self.steps > MOST_STEPS:
            raise _bad(f"the rule takes more than {MOST_STEPS} steps", column)

    def of(self, node: _Node) -> Any:
        self._spend(1, node.column)
        return _EVALUATORS.get(node.kind, _Evaluation._arithmetic)(self, node)

    def _value(self, node: _Node) -> Any:
        return node.value

    def _group(self, node: _Node) -> Any:
        return self.of(node.parts[0])

    def _list(self, node: _Node) -> list[Any]:
        return [self.of(part) for part in node.parts]

    def _field(self, node: _Node) -> Any:
        found: Any = self.values
        for at, name in enumerate(node.value):
            if not isinstance(found, Mapping):
                raise _bad(f"{'.'.join(node.value[:at])} is {kind_of(found)}", node.column)
            if name not in found:
                *parents, last = node.value[: at + 1]
                missing = f"{'.'.join(parents)} has no {last}"
                raise _bad(missing if parents else f"there is no field {last}", node.column)
            found = found[name]
        return _require_size(found, node.column)

    def _logic(self, node: _Node) -> bool:
        found = (self.truth(part) for part in node.parts)
        return any(found) if node.kind == "or" else all(found)

    def _not(self, node: _Node) -> bool:
        return not self.truth(node.parts[0])

    def truth(self, node: _Node) -> bool:
        value = self.of(node)
        if not isinstance(value, bool):
            raise _bad(f"{_name_of(node)} is {kind_of(value)}, not true or false", node.column)
        return value

    def _number_of(self, node: _Node) -> Any:
        value = self.of(node)
        if not is_number(value):
            raise _bad(f"{_name_of(node)} is {kind_of(value)}, not a number", node.column)
        return value

    def _minus(self, node: _Node) -> Any:
        return -self._number_of(node.parts[0])

    def _arithmetic(self, node: _Node) -> Any:
        left, right = (self._number_of(part) for part in node.parts)
        if node.kind in "/%" and right == 0:
            raise _bad("a division by zero", node.column)
        return _require_size(_ARITHMETIC[node.kind](left, right), node.column)

    def _compare(self, node: _Node) -> bool:
        left = self.of(node.parts[0])
        for part, (sign, column) in zip(node.parts[1:], node.value, strict=True):
            right = self.of(part)
            if not self._holds(left, sign, right, column):
                return False
            left = right
        return True

    def _holds(self, left: Any, sign: str, right: Any, column: int) -> bool:
        if sign in ("in", "not in"):
            return self._is_in(left, right, column) == (sign == "in")
        if sign in ("==", "!="):
            return self._same(left, right, column) == (sign == "==")
        is_like = is_number(left) and is_number(right)
        if not is_like and not (isinstance(left, str) and isinstance(right, str)):
            raise _bad(f"{kind_of(left)} {sign} {kind_of(right)} cannot be compared", column)
        return bool(_ORDER[sign](left, right))

    def _same(self, left: Any, right: Any, column: int) -> bool:
        self._spend(_weight(left, MOST_STEPS), column)
        return are_equal(left, right)

    def _is_in(self, wanted: Any, among: Any, column: int) -> bool:
        if isinstance(among, str) and isinstance(wanted, str):
            return wanted in among
        if isinstance(among, Mapping):
            return isinstance(wanted, str) and wanted in among
        if not isinstance(among, (list, tuple)):
            raise _bad(f"{kind_of(wanted)} in {kind_of(among)} cannot be compared", column)
        return any(self._same(each, wanted, column) for each in among)

    def _call(self, node: _Node) -> Any:
        return getattr(self, f"_{node.value}")(node)

    def _len(self, node: _Node) -> int:
        value = self.of(node.parts[0])
        if not isinstance(value, (str, list, tuple, Mapping)):
            raise _bad(f"{kind_of(value)} has no length", node.column)
        return len(value)

    def _abs(self, node: _Node) -> Any:
        return abs(self._number_of(node.parts[0]))

    def _min(self, node: _Node) -> Any:
        return (min if node.value == "min" else max)(self._numbers(node))

    _max = _min

    def _numbers(self, node: _Node) -> Sequence[Any]:
        if len(node.parts) > 1:
            return [self._number_of(part) for part in node.parts]
        found = self.of(node.parts[0])
        if not isinstance(found, (list, tuple)) or not found:
            raise _bad(f"{node.value} takes numbers, or a list that has some", node.column)
        self._spend(len(found), node.column)
        if not all(is_number(each) for each in found):
            raise _bad(f"not everything in the list of {node.value} is a number", node.column)
        return found

    def _matches(self, node: _Node) -> bool:
        text = self.of(node.parts[0])
        if not isinstance(text, str):
            raise _bad(f"{_name_of(node.parts[0])} is {kind_of(text)}, not text", node.column)
        pattern = compile_pattern(node.parts[1].value)
        try:
            test = pattern.matches if node.value == "matches" else pattern.finds
            return test(text, self.effort)
        except BadPattern as error:
            raise _bad(error.what, node.column) from None

    _finds = _matches


def _name_of(node: _Node) -> str:
    return ".".join(node.value) if node.kind == "field" else "this"


def _weight(value: Any, most: int) -> int:
    """Return how many values are in a value, counted up to `most`."""
    todo, count = [value], 0
    while todo and count <= most:
        each = todo.pop()
        count += 1
        if isinstance(each, (list, tuple)):
            todo += each[:most]
        elif isinstance(each, Mapping):
            todo += list(each.values())[:most]
    return count


def are_equal(left: Any, right: Any) -> bool:
    """Return whether two plain values are equal; true is not 1, but 1 is 1.0."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "%": lambda a, b: a % b,
}
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_EVALUATORS: dict[str, Callable[[_Evaluation, _Node], Any]] = {
    "value": _Evaluation._value,
    "group": _Evaluation._group,
    "list": _Evaluation._list,
    "field": _Evaluation._field,
    "and": _Evaluation._logic,
    "or": _Evaluation._logic,
    "not": _Evaluation._not,
    "minus": _Evaluation._minus,
    "compare": _Evaluation._compare,
    "call": _Evaluation._call,
}


class Expression:
    """A parsed rule. `parse_rule` makes one, or raises `BadExpression`."""

    def __init__(self, text: str) -> None:
        self._tree = _Parser(text).parse()
        self.fields = frozenset(_fields(self._tree))
        """The names of the fields that it reads."""

    def value(self, values: Values) -> Any:
        """Return its value for these fields; raise `BadExpression` if it has none."""
        return _Evaluation(values).of(self._tree)

    def holds(self, values: Values, effort: Effort | None = None) -> bool:
        """Return whether it is true; anything but true or false is an error."""
        return _Evaluation(values, effort).truth(self._tree)


def _fields(node: _Node) -> list[str]:
    mine = [node.value[0]] if node.kind == "field" else []
    return mine + [name for part in node.parts for name in _fields(part)]


@lru_cache(maxsize=256)
def parse_rule(text: str) -> Expression:
    """Parse a rule; `BadExpression` names what is wrong with it, and where."""
    if len(text) > LONGEST:
        raise BadExpression(f"a rule of more than {LONGEST} characters")
    return Expression(text)
