"""Whether arguments have the shape that a schema says; pure.

Only the words that the catalogue uses are known here, and a test holds their meaning against a
full implementation. What is told is the place and the rule, never the value: that may be large,
or a secret.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Schema = dict[str, Any]

_KINDS: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "boolean": bool,
    "array": list,
    "object": dict,
}
_LONGEST = 60
MOST = 1_100_000
"""Characters of one text: what the longest note has, and a little."""


def wrong(value: Any, schema: Schema, where: str = "") -> str:
    """The first thing that is wrong with a value, in words; "" if nothing is."""
    kind = schema["type"]
    if not isinstance(value, _KINDS[kind]) or (kind == "integer" and isinstance(value, bool)):
        return f"{where or 'what is given'} must be of type {kind}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where} must be one of {', '.join(schema['enum'])}"
    return _MORE[kind](value, schema, where) if kind in _MORE else ""


def is_huge(value: Any) -> bool:
    """Whether any text in a value is longer than anything that can be kept."""
    if isinstance(value, dict):
        return any(is_huge(name) or is_huge(one) for name, one in value.items())
    if isinstance(value, list):
        return any(map(is_huge, value))
    return isinstance(value, str) and len(value) > MOST


def _number(value: int, schema: Schema, where: str) -> str:
    if value < schema.get("minimum", value):
        return f"{where} must be at least {schema['minimum']}"
    if value > schema.get("maximum", value):
        return f"{where} must be at most {schema['maximum']}"
    return ""


def _list(value: list[Any], schema: Schema, where: str) -> str:
    if len(value) < schema.get("minItems", 0):
        return f"{where} must have at least {schema['minItems']}"
    if len(value) > schema.get("maxItems", len(value)):
        return f"{where} must have at most {schema['maxItems']}"
    found = (wrong(one, schema["items"], f"{where}[{at}]") for at, one in enumerate(value))
    return next(filter(None, found), "")


def _object(value: dict[str, Any], schema: Schema, where: str) -> str:
    known, lead = schema.get("properties", {}), f"{where}." if where else ""
    lacking = [name for name in schema.get("required", []) if name not in value]
    if lacking:
        return f"{lead}{lacking[0]} is missing"
    strange = [name for name in value if name not in known]
    if strange and schema.get("additionalProperties") is False:
        return f"{lead}{strange[0][:_LONGEST]} is not known; there are {', '.join(known)}"
    found = (wrong(value[name], known[name], f"{lead}{name}") for name in value if name in known)
    return next(filter(None, found), "")


_MORE: dict[str, Callable[[Any, Schema, str], str]] = {
    "integer": _number,
    "array": _list,
    "object": _object,
}
