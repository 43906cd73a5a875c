"""Rules for JSON session files: one table that checks values and is published as a JSON Schema.

A `Rule` states which values a reader accepts, and the stricter form in which we write them.
`check_value` applies it and yields a finding with a code for each fault; `schema` returns it as
JSON Schema 2020-12, once for readers and once, stricter, for what we write. Both use the same
table, so they agree: the schema refuses what is an *error* in `check_value`.

Patterns use only syntax that Python and ECMAScript share.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import Struct

from forestay.base.findings import Finding
from forestay.formats import timestamps
from forestay.formats.coerce import LARGEST, Node, sequence, text
from forestay.formats.port import ERROR, EXTRA, INFO, WARNING, Where

DIALECT = "https://json-schema.org/draft/2020-12/schema"

# `$` alone would allow a line feed at the end in Python.
END = r"$(?!\n)"
# Every day of the calendar: a schema has no other way to refuse 30 February.
_LONG = r"(0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])"
_SHORT = r"(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8])"
_LEAP = r"([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29"
_DAY = rf"(?!0000)([0-9]{{4}}-({_LONG}|{_SHORT})|{_LEAP})"
_TIME = r"([01][0-9]|2[0-3]):[0-5][0-9]"
MOMENT = (
    rf"^{_DAY}[T ]{_TIME}(:[0-5][0-9]([.,][0-9]{{1,9}})?)?"
    rf"([Zz]|[+-]([01][0-9]|2[0-3]):?[0-5][0-9])?{END}"
)
SECOND = rf"^{_DAY}T{_TIME}:[0-5][0-9]Z{END}"
MILLISECOND = rf"^{_DAY}T{_TIME}:[0-5][0-9]\.[0-9]{{3}}Z{END}"


class Rule(Struct, frozen=True, kw_only=True):
    """What a value must be. `shape` and `words` limit what we read, `fine` what we write."""

    type: str = "any"
    req: str = ""
    says: str = ""
    null: bool = False
    empty: str = ""
    """The code of the warning for a null that is read as an empty value."""
    templates: tuple[str, ...] = ()
    """Placeholders in the specification's template, which stand for a value never filled in."""
    words: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    """Words of other specifications that are accepted, too."""
    shape: str = ""
    code: str = ""
    """The code of the finding for a value that does not match `shape`."""
    fine: str = ""
    style: str = ""
    """The code of the finding for a value that does not match `fine`."""
    low: int | None = None
    high: int | None = None
    need: dict[str, str] = {}
    """Keys that a reader needs → the requirement for that."""
    want: dict[str, str] = {}
    """Keys that we always write → the requirement for that."""
    keys: dict[str, Rule] = {}
    free: bool = False
    """Whether unknown keys are allowed."""
    each: Rule | None = None
    bare: str = ""
    """The code of the finding for a text in the place of an object."""
    moment: bool = False
    blank: str = ""
    """A pattern of the placeholders in a template."""
    mild: bool = False
    """Whether a fault is only a warning."""


# --- making rules ------------------------------------------------------------------------------


def text_rule(req: str, **more: Any) -> Rule:
    return Rule(type="string", req=req, **more)


def list_rule(req: str, each: Rule, **more: Any) -> Rule:
    return Rule(type="array", req=req, each=each, **more)


def count_rule(req: str, high: int = LARGEST, **more: Any) -> Rule:
    """Return the rule for a whole number from 0 to `high`."""
    return Rule(type="integer", req=req, low=0, high=high, **more)


def stamp_rule(req: str, fine: str, says: str, **more: Any) -> Rule:
    """Return the rule for a time; `fine` is the pattern that our own times match."""
    more |= {"code": "bad-stamp", "style": "stamp-style", "moment": True, "says": says}
    return text_rule(req, shape=MOMENT, fine=fine, **more)


def object_rule(
    req: str, keys: dict[str, Rule], need: str = "", optional: Iterable[str] = (), **more: Any
) -> Rule:
    """Return the rule for an object.

    Keys in `need`, separated by spaces, are required for reading. All others except the optional
    ones are required only in what we write.
    """
    needed = {key: keys[key].req for key in need.split()}
    want = {k: rule.req for k, rule in keys.items() if k not in needed and k not in optional}
    return Rule(type="object", req=req, keys=keys, need=needed, want=want, **more)


# --- checking ----------------------------------------------------------------------------------


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_IS: dict[str, Callable[[Any], bool]] = {
    "any": lambda value: True,
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "number": _is_number,
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or not value % 1),
}
_NAMES = {"object": "an object", "array": "a list", "string": "text", "boolean": "true or false"}
_NAMES |= {"number": "a number", "integer": "a whole number"}


def check_value(rule: Rule, value: Any, *, strict: bool = False, at: str = "") -> Iterator[Finding]:
    """Yield a finding for each way in which a value breaks a rule; `at` is the value's path."""
    if value is None and rule.null:
        return
    if value is None and rule.empty:
        message = f"{at} is null, which is read as an empty value"
        yield Finding(rule.empty, WARNING, message, where=at, requirement=rule.req)
        return
    if not _IS[rule.type](value):
        yield _wrong_type(rule, value, at)
        return
    if check := _CHECKS_BY_TYPE.get(rule.type):
        yield from check(rule, value, strict, at)


def _fault(rule: Rule, code: str, message: str, at: str) -> Finding:
    severity = WARNING if rule.mild else ERROR
    return Finding(code, severity, message, where=at, requirement=rule.req)


def warn(code: str, message: str, at: str, req: str, severity: str = WARNING) -> Finding:
    """Return a finding that does not come from a `Rule`, such as a contradiction of two values."""
    return Finding(code, severity, message, where=at, requirement=req)


def nodes(root: Node, key: str) -> list[tuple[str, Node]]:
    """Return the objects in the list under a key, each with its path."""
    listed = enumerate(sequence(root.get(key)))
    return [(f"{key}[{place}]", each) for place, each in listed if isinstance(each, dict)]


def check_time_order(
    of: Node, keys: tuple[str, str], at: str, req: str, where: Where, severity: str = WARNING
) -> Iterator[Finding]:
    """Yield a finding if the second of two times is before the first."""
    first, last = (timestamps.read(of.get(key), where.naive) for key in keys)
    if first is not None and last is not None and last < first:
        path = _join(at, keys[1])
        yield warn("time-runs-back", f"{path} is before {keys[0]}", path, req, severity)


def check_unique_agents(agents: Iterable[tuple[str, Node]], req: str) -> Iterator[Finding]:
    """Yield a finding for each agent that has the same id as an earlier agent."""
    met: set[str] = set()
    for at, agent in agents:
        id = text(agent.get("id"))
        if id and id in met:
            yield warn("duplicate-agent", f"two agents are called {id[:60]!r}", f"{at}.id", req)
        met.add(id)


def _mild(strict: bool) -> str:
    return ERROR if strict else WARNING


def _wrong_type(rule: Rule, value: Any, at: str) -> Finding:
    code = rule.bare if rule.bare and isinstance(value, str) else "wrong-type"
    needed = f"{_NAMES[rule.type]}{' or null' if rule.null else ''}"
    return _fault(rule, code, f"{at or 'the file'} must be {needed}, not {_named(value)}", at)


def _named(value: Any) -> str:
    if value is None:
        return "null"
    kinds = ("boolean", "integer", "number", "string", "array", "object")
    return next((_NAMES[kind] for kind in kinds if _IS[kind](value)), "something else")


def _check_text(rule: Rule, value: str, strict: bool, at: str) -> Iterator[Finding]:
    if rule.blank and re.search(rule.blank, value):
        message = f"{at} is still the template's placeholder: {short(value)}"
        severity = ERROR if strict else INFO
        yield Finding("placeholder", severity, message, where=at, requirement=rule.req)
        return
    if value in rule.templates or (len(rule.words) > 1 and value == "|".join(rule.words)):
        message = f"{at} is {value!r}: a template that is not filled in"
        yield Finding("placeholder", WARNING, message, where=at, requirement=rule.req)
        return
    known = value in rule.words or not rule.words
    if not known and value in rule.also:
        message = f"{at} is {short(value)}; the specification's words are {', '.join(rule.words)}"
        yield Finding("foreign-word", _mild(strict), message, where=at, requirement=rule.req)
    elif not known:
        message = f"{at} is {short(value)}, which is none of {', '.join(rule.words)}"
        yield _fault(rule, "unknown-word", message, at)
    if rule.shape and not re.search(rule.shape, value):
        yield _fault(rule, rule.code, f"{at} is not {rule.says}: {short(value)}", at)
    elif rule.fine and not re.search(rule.fine, value):
        code = "naive-stamp" if rule.moment and timestamps.is_naive(value) else rule.style
        message = f"{at} is not spelled as {rule.says}: {short(value)}"
        yield Finding(code, _mild(strict), message, where=at, requirement=rule.req)


def _check_number(rule: Rule, value: float, strict: bool, at: str) -> Iterator[Finding]:
    low = rule.low if rule.low is not None else value
    high = rule.high if rule.high is not None else value
    if not low <= value <= high:  # NaN is never between them
        message = f"{at} must be between {rule.low} and {rule.high}"
        yield _fault(rule, "out-of-range", message, at)


def _check_list(rule: Rule, value: list[Any], strict: bool, at: str) -> Iterator[Finding]:
    if rule.each is not None:
        for place, element in enumerate(value):
            yield from check_value(rule.each, element, strict=strict, at=f"{at}[{place}]")


def _check_object(rule: Rule, value: dict[str, Any], strict: bool, at: str) -> Iterator[Finding]:
    for key, req in rule.need.items():
        if key not in value:
            yield _missing(key, ERROR, at, req)
    for key, req in rule.want.items():
        if key not in value:
            yield _missing(key, _mild(strict), at, req)
    for key, inner in value.items():
        if (known := rule.keys.get(key, rule.each)) is not None:
            yield from check_value(known, inner, strict=strict, at=_join(at, key))
        elif not rule.free:
            severity = ERROR if strict else INFO
            message = f"the specification has no key {short(key)} here; it is preserved"
            yield Finding(
                "unknown-key", severity, message, where=_join(at, key), requirement=rule.req
            )


def _missing(key: str, severity: str, at: str, req: str) -> Finding:
    message = f"{_join(at, key)} is missing"
    return Finding("missing-key", severity, message, where=_join(at, key), requirement=req)


def _join(at: str, key: str) -> str:
    return f"{at}.{key}" if at else key


def short(value: str) -> str:
    """Return a text in quotes, cut after 60 characters."""
    return repr(value if len(value) <= 60 else f"{value[:59]}…")


_CHECKS_BY_TYPE: dict[str, Callable[[Rule, Any, bool, str], Iterator[Finding]]] = {
    "string": _check_text,
    "number": _check_number,
    "integer": _check_number,
    "array": _check_list,
    "object": _check_object,
}


# --- publishing --------------------------------------------------------------------------------


def schema(rule: Rule, *, strict: bool = False) -> dict[str, Any]:
    """Return the rule as a JSON Schema; `strict` for what we write."""
    made: dict[str, Any] = {"description": f"{rule.says} ({rule.req})"} if rule.says else {}
    if rule.type != "any":
        made["type"] = [rule.type, "null"] if rule.null else rule.type
    if words := [*rule.words, *(() if strict else rule.also)]:
        made["enum"] = [*words, None] if rule.null else words
    if pattern := (rule.fine if strict else "") or rule.shape:
        made["pattern"] = pattern
    limits = {"minimum": rule.low, "maximum": rule.high}
    made |= {name: limit for name, limit in limits.items() if limit is not None}
    return made | _inside(rule, strict)


def _inside(rule: Rule, strict: bool) -> dict[str, Any]:
    if rule.type == "array" and rule.each is not None:
        return {"items": schema(rule.each, strict=strict)}
    if rule.type != "object":
        return {}
    made: dict[str, Any] = {}
    if needed := [*rule.need, *(rule.want if strict else ())]:
        made["required"] = [key for key in rule.keys if key in needed]
    if rule.keys:
        made["properties"] = {key: schema(r, strict=strict) for key, r in rule.keys.items()}
    if rule.each is not None:
        made["additionalProperties"] = schema(rule.each, strict=strict)
    elif strict and not rule.free:
        made["additionalProperties"] = False
    return made


EXTRA_RULE = {EXTRA: Rule(says="What this document has no field for", req="added by Forestay")}
