"""Check arguments against a JSON Schema, without side effects.

Only the keywords that `tool_schemas` uses are supported, and a test compares the results with a
full implementation. An error names the place and the rule, never the value, which can be large or
a secret.
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
"""The most characters of one text: a little more than the longest note can have."""


def find_problem(value: Any, schema: Schema, where: str = "") -> str:
    """Return a description of the first problem of a value; "" if it is valid."""
    kind = schema["type"]
    if not isinstance(value, _KINDS[kind]) or (kind == "integer" and isinstance(value, bool)):
        return f"{where or 'the value'} must be of type {kind}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where} must be one of {', '.join(schema['enum'])}"
    return _CHECKS[kind](value, schema, where) if kind in _CHECKS else ""


def has_huge_text(value: Any) -> bool:
    """Return whether any text in a value is longer than anything that can be stored."""
    if isinstance(value, dict):
        return any(has_huge_text(name) or has_huge_text(one) for name, one in value.items())
    if isinstance(value, list):
        return any(map(has_huge_text, value))
    return isinstance(value, str) and len(value) > MOST


def _check_number(value: int, schema: Schema, where: str) -> str:
    if value < schema.get("minimum", value):
        return f"{where} must be at least {schema['minimum']}"
    if value > schema.get("maximum", value):
        return f"{where} must be at most {schema['maximum']}"
    return ""


def _check_list(value: list[Any], schema: Schema, where: str) -> str:
    if len(value) < schema.get("minItems", 0):
        return f"{where} must have at least {schema['minItems']} items"
    if len(value) > schema.get("maxItems", len(value)):
        return f"{where} must have at most {schema['maxItems']} items"
    found = (find_problem(one, schema["items"], f"{where}[{at}]") for at, one in enumerate(value))
    return next(filter(None, found), "")


def _check_object(value: dict[str, Any], schema: Schema, where: str) -> str:
    known, lead = schema.get("properties", {}), f"{where}." if where else ""
    missing = [name for name in schema.get("required", []) if name not in value]
    if missing:
        return f"{lead}{missing[0]} is missing"
    unknown = [name for name in value if name not in known]
    if unknown and schema.get("additionalProperties") is False:
        return f"{lead}{unknown[0][:_LONGEST]} is unknown; known are {', '.join(known)}"
    found = (
        find_problem(value[name], known[name], f"{lead}{name}") for name in value if name in known
    )
    return next(filter(None, found), "")


_CHECKS: dict[str, Callable[[Any, Schema, str], str]] = {
    "integer": _check_number,
    "array": _check_list,
    "object": _check_object,
}
