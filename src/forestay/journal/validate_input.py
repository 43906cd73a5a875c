"""Validate what enters an event: storable values, within limits, without secrets.

Every text of a body is checked, in any field; only digests are exempt, by their type. A text that
cannot be stored is refused before anything is written. Secrets are removed, and the field
`redacted` then names their kinds.

A text that another program wrote is not refused, because it is in that program's file anyway: it is
*coerced*, that is, cut to the limits and stripped of control characters.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, get_type_hints

import msgspec

from forestay.base.redact import Redactor
from forestay.base.text import ID_LIMIT, clean_id, clean_input, coerce_input
from forestay.model import event as ev
from forestay.model.event import Body
from forestay.model.rules import validate

_MAX_TEXT = 4000
_MAX_ACTOR = 200
_AGENT = "agent:"
_LIMITS = {"goal": 2000, "text": 10_000, "arguments": 8000, "summary": 8000, "snapshot": 15_000}
_ONE_LINE = frozenset({"goal", "what", "title", "name", "type", "reason", "key", "path", "model"})
_IDS = frozenset({"step", "agent", "claim", "parent", "blocking_on", "proof"})
_IN_LINE = _ONE_LINE | _IDS
_VERBATIM = frozenset({"argv"})
"""Fields with command arguments that are run again: spaces at their ends matter."""
_NOTHING = "?"
"""The text that replaces one of which nothing can be stored."""
_FACT_FIELDS = {
    "id": "step",
    "position": "step",
    "pause_reason": "reason",
    "artifacts": "path",
    "command": "name",
}
"""Fields of facts → the name of the same field in events, where the two differ."""
_FREE_KEYS = ("attributes", "evidence", "tokens_by_agent")
"""Fields of facts that hold maps whose keys are names that the user chose."""
_NUMBERS = (int, bool, float, int | None, float | None)
_NAMING = frozenset({ev.StepAdded, ev.AgentStarted, ev.ClaimDeferred})


def admit(body: Body, redactor: Redactor, *, foreign: bool = False) -> Body:
    """Return the body in the form that is stored: refuse invalid values, remove secrets.

    A `foreign` body comes from another program's file: its texts are coerced instead of refused.
    """
    if foreign and _is_already_clean(body, redactor):
        return validate(body)
    check = _whole_text if foreign else _checker(body)
    changes: dict[str, Any] = {}
    names: list[str] = []
    required = _required(type(body))
    for field in _texts(type(body)):
        value = getattr(body, field)
        if not value and (field not in required or (foreign and field == "value")):
            continue
        clean, found = _redact(redactor, body, field, _check(field, value, check))
        if foreign:
            # Cut after redacting: half a secret is not recognized.
            clean = _check(field, clean, _cut_text)
        if clean != value:
            changes[field] = clean
        names += found
    if names:
        changes["redacted"] = sorted({*body.redacted, *names})
    return validate(msgspec.structs.replace(body, **changes) if changes else body)


def _is_already_clean(body: Body, redactor: Redactor) -> bool:
    """Return whether all texts are plain and cannot hold a secret, the usual case."""
    if isinstance(body, ev.AttributeSet):
        return False  # a value may be a secret because of the name of its key
    texts: list[str] = []
    for field in _texts(type(body)):
        value = getattr(body, field)
        if value and (type(value) is not str or not _is_plain(field, value)):
            return False
        if value or field in _required(type(body)):
            texts.append(value)
    return all(texts) and redactor.is_surely_clean("\n".join(texts))


def _is_plain(field: str, text: str) -> bool:
    """Return whether coercing would not change the text."""
    if not 0 < len(text) <= _limit(field) or text[0] in " \n" or text[-1] in " \n":
        return False
    if not text.isascii():
        return False
    return (text if field in _IN_LINE else text.replace("\n", "")).isprintable()


def admit_actor(actor: str, redactor: Redactor) -> str:
    """Return the actor in the form that is stored: one short line without secrets.

    The name of an agent is redacted separately, so that it is the same here and in event bodies.
    """
    whole = coerce_input(actor, limit=len(actor) + 1, lines=False)
    prefix = _AGENT if whole.startswith(_AGENT) else ""
    clean, _ = redactor.text(whole.removeprefix(prefix))
    return coerce_input(prefix + clean, limit=_MAX_ACTOR, lines=False)


def _redact(redactor: Redactor, body: Body, field: str, value: Any) -> tuple[object, list[str]]:
    if not isinstance(body, ev.AttributeSet) or field != "value":
        return redactor.text(value) if type(value) is str else redactor.value(value)
    # The value of API_TOKEN is a secret whatever it looks like.
    clean, names = redactor.value({body.key: value})
    return next(iter(clean.values())) if isinstance(clean, dict) else clean, names


def _check(field: str, value: Any, check: Callable[[str, str], str]) -> Any:
    if isinstance(value, str):
        return check(field, value)
    if isinstance(value, list):
        return [_check_inner(field, item, check) for item in value]
    if isinstance(value, dict):
        return {check("key", k): _check_inner(field, v, check) for k, v in value.items()}
    return value


def _check_inner(field: str, value: Any, check: Callable[[str, str], str]) -> Any:
    """Check a nested value; an empty one is allowed if another program wrote it."""
    is_blank = value == "" and check in (_whole_text, _cut_text)
    return value if is_blank else _check(field, value, check)


@cache
def _texts(kind: type[Body]) -> list[str]:
    """Return the fields of a body that can contain text: all but numbers, flags and digests."""
    hints = get_type_hints(kind)
    return [
        name
        for name in kind.__struct_fields__
        if name not in ev.DIGESTS | {"redacted"} and hints[name] not in _NUMBERS
    ]


@cache
def _required(kind: type[Body]) -> frozenset[str]:
    return frozenset(field.name for field in msgspec.structs.fields(kind) if field.required)


def _checker(body: Body) -> Callable[[str, str], str]:
    if isinstance(body, ev.StepAdded) and body.unit == "section":
        return _section_text
    return _named_text if type(body) in _NAMING else _checked_text


def _section_text(field: str, value: str) -> str:
    """Check a section's id, which begins with the id of its stage: `stage-3/section-2`."""
    if field != "step":
        return _named_text(field, value)
    return "/".join(clean_id(part, field) for part in value.split("/"))


def _named_text(field: str, value: str) -> str:
    """Return a checked name: a new one must be easy to type, an imported one must be one line."""
    if field in _IDS:
        return clean_id(value, field.replace("_", " "))
    return _checked_text(field, value)


def _checked_text(field: str, value: str) -> str:
    if field in _VERBATIM and len(value) <= _MAX_TEXT:
        return value
    lines = field not in _IN_LINE
    return clean_input(value, field.replace("_", " "), limit=_limit(field), lines=lines)


def _limit(field: str) -> int:
    return ID_LIMIT if field in _IDS else _LIMITS.get(field, _MAX_TEXT)


def _whole_text(field: str, value: str) -> str:
    return coerce_input(value, limit=len(value) + 1, lines=field not in _IN_LINE) or _NOTHING


def _cut_text(field: str, value: str) -> str:
    return coerce_input(value, limit=_limit(field), lines=field not in _IN_LINE) or _NOTHING


def clean_facts(value: Any, redactor: Redactor, field: str = "text") -> Any:
    """Return plain facts of another program in the form in which the journal would store them.

    Most fields of facts have the name of the event field that stores them; `field` is that name.
    """
    if isinstance(value, str) and value:
        clean, _ = redactor.text(_whole_text(field, value))
        return _cut_text(field, clean)
    if isinstance(value, list):
        return [clean_facts(each, redactor, field) for each in value]
    if not isinstance(value, dict):
        return value
    if field == "attributes":
        # The value of API_TOKEN is a secret whatever it looks like.
        value, _ = redactor.value(value)
    names = {key: _FACT_FIELDS.get(key, key) for key in value}
    if field in _FREE_KEYS:
        names = dict.fromkeys(value, "value")
    return {key: clean_facts(each, redactor, names[key]) for key, each in value.items()}
