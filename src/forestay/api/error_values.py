"""Errors as JSON values, the same in every surface, without secrets.

Each surface adds its own text for the next step.
"""

from __future__ import annotations

from forestay.errors import ForestayError, NoSession, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

OPERATIONS = ("create", "read", "update", "delete")


def error_to_json(error: ForestayError, operation: str, now: str) -> dict[str, Any]:
    """Return an error as JSON values, with the context that the specification S0 requires.

    `operation` is the attempted operation, used if the error does not name one.
    """
    fields: dict[str, Any] = {
        "code": error.exit_code,
        "kind": type(error).__name__,
        "what": error.what,
        "why": error.why,
        "hint": error.hint,
        "retryable": error.retryable,
    }
    if isinstance(error, Refused):
        fields["legal"] = list(error.legal)
    if isinstance(error, NoSession):
        fields["choices"] = choices_to_json(error)
    fields["error_context"] = error_context(error, operation, now)
    return fields


def choices_to_json(error: NoSession) -> list[dict[str, str]]:
    """Return the sessions that the user can choose from."""
    names = ("session", "status", "goal")
    return [dict(zip(names, one, strict=True)) for one in error.choices]


def error_context(error: ForestayError, operation: str, now: str) -> dict[str, str | None]:
    """Return the five fields that every error report must have (S0-80 to S0-84)."""
    return {
        "operation": error.operation if error.operation in OPERATIONS else operation,
        "file": error.file or None,
        "feature_id": error.session or None,
        "timestamp": now,
        "details": str(error),
    }


def redact_error(error: ForestayError, patterns: Sequence[str]) -> None:
    """Remove secrets from an error, because it can repeat what the user typed."""
    from forestay.base.redact import Redactor

    try:
        redactor = Redactor(patterns)
    except ForestayError:  # a pattern is invalid; that can be the very error to redact
        redactor = Redactor()
    for name in ("what", "why", "hint", "file", "session"):
        setattr(error, name, redactor.text(getattr(error, name))[0])
    if isinstance(error, Refused):
        error.legal = [redactor.text(move)[0] for move in error.legal]


def report_bug(error: Exception, hint: str) -> ForestayError:
    """Return the error for an unexpected exception, with the place in the code."""
    trace, place = error.__traceback__, ""
    while trace is not None:
        code = trace.tb_frame.f_code
        if "forestay" in code.co_filename:
            place = f"{'/'.join(code.co_filename.split('/')[-2:])}, line {trace.tb_lineno}"
        trace = trace.tb_next
    message = " ".join(str(error).split())[:300]
    return ForestayError(
        f"this is a bug: {type(error).__name__}{f': {message}' if message else ''}",
        why=f"{place}; what was acknowledged before is not affected",
        hint=hint,
    )
