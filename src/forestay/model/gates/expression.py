"""Expressions: the small language of rules over several fields. It reads only fields.

    coverage >= 80 and tests_failed == 0
    0 < passed <= total
    status in ["green", "yellow"] or waiver != null
    len(files) > 0 and matches(version, "\\d+\\.\\d+")
    report.unit.failed + report.e2e.failed == 0

The grammar is a part of Python's, so Python's own parser gives the structure. It only sees the
operators: names and numbers are replaced by a name `x…` of the same length, texts by `'x…'`, and
are read from their columns afterwards. So keywords can be names, and no literal is read by Python.
The tree is evaluated here, over plain values; nothing is ever evaluated by Python. Everything is
limited: the length of a text, the depth of the tree, the steps of one evaluation, the size of
numbers and texts. `and`, `or` and `not` take true and false only; a number is never true;
comparing values of different types is an error. Every error names its column, counted from 1.
"""

from __future__ import annotations

import ast
import operator
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


class _Node(NamedTuple):
    """A part of the tree; the method of `_Evaluation` called after its `kind` evaluates it."""

    kind: str
    column: int
    parts: tuple[_Node, ...] = ()
    value: Any = None


# -- parsing -----------------------------------------------------------------------------------

_TEXT = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""", re.DOTALL)
_TOKEN = re.compile(
    rf"""(?P<blank>\s+)
    |(?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{{1,3}})?)(?![A-Za-z0-9_.])
    |(?P<text>{_TEXT.pattern})
    |(?P<sign>(?:and|or|not|in)\b|==|!=|<=|>=|[-<>+*/%().,\[\]])
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)""",
    re.VERBOSE | re.DOTALL,
)
_PATH = re.compile(r"[A-Za-z_]\w*(\s*\.\s*[A-Za-z_]\w*)*", re.ASCII)
_LITERALS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_ESCAPES = {"n": "\n", "t": "\t"}
_REPLACEMENTS = {"=": "==", "&": "and", "&&": "and", "|": "or", "||": "or", "!": "not"}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.In: "in",
    ast.NotIn: "not in",
}
_ORDER = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
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
    def __init__(self, text: str) -> None:
        self.text = text

    def parse(self) -> _Node:
        try:
            tree = ast.parse(self._masked(), mode="eval")
        except SyntaxError as error:
            # The interpreter's own words differ from version to version.
            if not error.offset or error.offset > len(self.text):
                raise _bad("the rule ends too early", len(self.text) + 1) from None
            rest = self.text[error.offset - 1 :]
            raise _bad(f"cannot read `{rest[:20]}`", error.offset) from None
        except (RecursionError, MemoryError):
            raise _bad(f"more than {DEEPEST} levels deep", 1) from None
        return self._node(tree.body, 1)

    def _masked(self) -> str:
        """Return the text with `x` in place of the characters of names and literals."""
        made = ""
        while (at := len(made)) < len(self.text):
            match = _TOKEN.match(self.text, at)
            if match is None:
                raise _unexpected_character(self.text, at)
            word, size = match.group(), len(match.group())
            masks = {"blank": " " * size, "sign": word, "text": f"'{'x' * (size - 2)}'"}
            made += masks.get(str(match.lastgroup), "x" * size)
        return made

    def _node(self, node: ast.expr, depth: int) -> _Node:
        if depth > DEEPEST:
            raise _bad(f"more than {DEEPEST} levels deep", node.col_offset + 1)

        def make(kind: str, parts: Sequence[ast.expr], value: Any = None) -> _Node:
            inner = tuple(self._node(part, depth + 1) for part in parts)
            return _Node(kind, node.col_offset + 1, inner, value)

        source = self.text[node.col_offset : node.end_col_offset]
        match node:
            case ast.Name() if source in _LITERALS:
                return make("value", (), _LITERALS[source])
            case ast.Name() if source[0].isdigit():
                number = _require_size(float(source), node.col_offset + 1)
                return make("value", (), int(source) if source.isdigit() else number)
            case ast.Constant() if _TEXT.fullmatch(source):
                return make("value", (), _unquoted(source))
            case ast.Name() | ast.Attribute() if _PATH.fullmatch(source):
                return make("field", (), tuple(map(str.strip, source.split("."))))
            case ast.BoolOp():
                return make("logic", node.values, any if isinstance(node.op, ast.Or) else all)
            case ast.UnaryOp(ast.Not()):
                return make("not", [node.operand])
            case ast.UnaryOp(ast.USub()):
                return make("minus", [node.operand])
            case ast.BinOp() if type(node.op) in _ARITHMETIC:
                return make("arithmetic", [node.left, node.right], _ARITHMETIC[type(node.op)])
            case ast.Compare() if all(type(op) in _COMPARISONS for op in node.ops):
                signs = [_COMPARISONS[type(op)] for op in node.ops]
                return make("compare", [node.left, *node.comparators], signs)
            case ast.List():
                return make("list", node.elts)
            case ast.Call(ast.Name() as name, keywords=[]):
                called = self.text[name.col_offset : name.end_col_offset]
                made = make("call", node.args, called)
                _require_function(made)
                return made
        raise _bad(f"unexpected {source!r}", node.col_offset + 1)


def _unexpected_character(text: str, at: int) -> BadExpression:
    if text[at] in "\"'":
        return _bad("a text without its closing quote", at + 1)
    if text[at].isdigit():
        return _bad("not a number", at + 1)
    meant = _REPLACEMENTS.get(text[at : at + 2]) or _REPLACEMENTS.get(text[at])
    return _bad(f"unexpected {text[at]!r}" + (f"; write {meant}" if meant else ""), at + 1)


def _unquoted(word: str) -> str:
    # Only quotes, backslash, \n and \t are escapes: patterns keep their backslashes.
    return re.sub(
        r"\\(.)",
        lambda m: _ESCAPES.get(m[1], m[1] if m[1] in "\"'\\" else m[0]),
        word[1:-1],
        flags=re.DOTALL,
    )


def _require_function(call: _Node) -> None:
    if call.value not in _ARITY:
        known = ", ".join(FUNCTIONS)
        raise _bad(f"there is no function {call.value}; there are {known}", call.column)
    least, most = _ARITY[call.value]
    if not least <= len(call.parts) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise _bad(f"{call.value} takes {wanted} values, not {len(call.parts)}", call.column)
    if call.value in ("matches", "finds"):
        pattern = call.parts[1]
        if pattern.kind != "value" or not isinstance(pattern.value, str):
            raise _bad("the pattern must be a text in quotes", pattern.column)
        try:
            compile_pattern(pattern.value)
        except BadPattern as error:
            raise _bad(error.what, pattern.column) from None


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
        return getattr(self, f"_{node.kind}")(node)

    def _value(self, node: _Node) -> Any:
        return node.value

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
        return bool(node.value(self.truth(part) for part in node.parts))

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
        try:
            return _require_size(node.value(left, right), node.column)
        except ZeroDivisionError:
            raise _bad("a division by zero", node.column) from None
        except OverflowError:  # a whole number of a list that no float can hold
            raise _bad("a number is too large", node.column) from None

    def _compare(self, node: _Node) -> bool:
        left = self.of(node.parts[0])
        for part, sign in zip(node.parts[1:], node.value, strict=True):
            right = self.of(part)
            if not self._holds(left, sign, right, node.column):
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


class Expression:
    """A parsed rule. `parse_rule` makes one, or raises `BadExpression`."""

    def __init__(self, text: str) -> None:
        self._tree = _Parser(text).parse()
        self.fields = frozenset(_fields(self._tree))
        """The names of the fields that the expression reads."""

    def value(self, values: Values) -> Any:
        """Return the value of the expression; raise `BadExpression` if these fields give none."""
        return _Evaluation(values).of(self._tree)

    def holds(self, values: Values, effort: Effort | None = None) -> bool:
        """Return whether the expression is true; any value but true or false is an error."""
        return _Evaluation(values, effort).truth(self._tree)


def _fields(node: _Node) -> list[str]:
    mine = [node.value[0]] if node.kind == "field" else []
    return mine + [name for part in node.parts for name in _fields(part)]


@lru_cache(maxsize=256)
def parse_rule(text: str) -> Expression:
    """Parse a rule; `BadExpression` names what is wrong with it, and where."""
    if len(text) > LONGEST:
        raise BadExpression(f"a rule of more than {LONGEST} characters")
    return Expression(text.strip())
