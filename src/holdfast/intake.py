"""What may enter an event: values that can be kept, within limits, and no secrets.

Every text of a body is looked at, whatever its field is called; digests alone are exempt, and by
their type. What cannot be kept is refused before anything is written, what is secret is taken
out, and `redacted` then names its kind.
"""

from __future__ import annotations

from functools import cache
from typing import Any, get_type_hints

import msgspec

from holdfast.model import event as ev
from holdfast.model.event import Body
from holdfast.model.rules import validate
from holdfast.redact import Redactor
from holdfast.text import clean_id, clean_input

_MAX_TEXT = 4000
_LIMITS = {"goal": 2000, "text": 10_000, "arguments": 8000, "summary": 8000, "snapshot": 15_000}
_ONE_LINE = frozenset({"goal", "what", "title", "name", "type", "reason", "key", "path", "model"})
_IDS = frozenset({"step", "agent", "claim", "parent", "blocking_on"})


def admit(body: Body, redactor: Redactor) -> Body:
    """The body as it may be kept; refuses what cannot be, takes secrets out of the rest."""
    changes: dict[str, Any] = {}
    names: list[str] = []
    for field in _texts(type(body)):
        value = getattr(body, field)
        if not value and field not in _required(type(body)):
            continue
        clean, found = _redact(redactor, body, field, _checked(field, value))
        if clean != value:
            changes[field] = clean
        names += found
    if names:
        changes["redacted"] = sorted({*body.redacted, *names})
    return validate(msgspec.structs.replace(body, **changes) if changes else body)


def _redact(redactor: Redactor, body: Body, field: str, value: Any) -> tuple[object, list[str]]:
    if isinstance(body, ev.AttributeSet) and field == "value" and isinstance(value, str):
        # What stands under API_TOKEN is a secret whatever it looks like.
        return redactor.pair(body.key, value)
    return redactor.value(value)


def _checked(field: str, value: Any) -> Any:
    if isinstance(value, str):
        return _checked_text(field, value)
    if isinstance(value, list):
        return [_checked(field, item) for item in value]
    if isinstance(value, dict):
        return {_checked("key", k): _checked(field, v) for k, v in value.items()}
    return value


@cache
def _texts(kind: type[Body]) -> list[str]:
    """Fields of a body that may hold words of people: all but numbers, flags and digests."""
    hints = get_type_hints(kind)
    return [
        name
        for name in kind.__struct_fields__
        if name not in ev.DIGESTS | {"redacted"} and hints[name] not in (int, bool, float)
    ]


@cache
def _required(kind: type[Body]) -> frozenset[str]:
    return frozenset(field.name for field in msgspec.structs.fields(kind) if field.required)


def _checked_text(field: str, value: str) -> str:
    if field in _IDS:
        return clean_id(value, field.replace("_", " "))
    limit = _LIMITS.get(field, _MAX_TEXT)
    return clean_input(value, field.replace("_", " "), limit=limit, lines=field not in _ONE_LINE)
