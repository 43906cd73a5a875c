"""An error as values: what every surface tells of it, without the secrets it may repeat.

Each surface adds its own words for what to do next; what went wrong is said here.
"""

from __future__ import annotations

from forestay.errors import ForestayError, NoSession, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

OPERATIONS = ("create", "read", "update", "delete")


def values(error: ForestayError, operation: str, now: str) -> dict[str, Any]:
    """An error as JSON values, with the context that document 0 asks for.

    `operation` is what was about to be done, for an error that does not say it itself.
    """
    told: dict[str, Any] = {
        "code": error.exit_code,
        "kind": type(error).__name__,
        "what": error.what,
        "why": error.why,
        "hint": error.hint,
        "retryable": error.retryable,
    }
    if isinstance(error, Refused):
        told["legal"] = list(error.legal)
    if isinstance(error, NoSession):
        told["choices"] = choices(error)
    told["error_context"] = context(error, operation, now)
    return told


def choices(error: NoSession) -> list[dict[str, str]]:
    """The sessions that may have been meant."""
    names = ("session", "status", "goal")
    return [dict(zip(names, one, strict=True)) for one in error.choices]


def context(error: ForestayError, operation: str, now: str) -> dict[str, str | None]:
    """The five fields that document 0 asks of every error report (S0-80 to S0-84)."""
    return {
        "operation": error.operation if error.operation in OPERATIONS else operation,
        "file": error.file or None,
        "feature_id": error.session or None,
        "timestamp": now,
        "details": str(error),
    }


def take_secrets_out(error: ForestayError, patterns: Sequence[str]) -> None:
    """An error repeats what was given, and that may hold a secret."""
    from forestay.base.redact import Redactor

    try:
        redactor = Redactor(patterns)
    except ForestayError:  # perhaps the very error that is told
        redactor = Redactor()
    for name in ("what", "why", "hint", "file", "session"):
        setattr(error, name, redactor.text(getattr(error, name))[0])
    if isinstance(error, Refused):
        error.legal = [redactor.text(move)[0] for move in error.legal]


def bug(error: Exception, hint: str) -> ForestayError:
    """An error that nobody meant to happen, with the place where it did."""
    trace, place = error.__traceback__, ""
    while trace is not None:
        code = trace.tb_frame.f_code
        if "forestay" in code.co_filename:
            place = f"{'/'.join(code.co_filename.split('/')[-2:])}, line {trace.tb_lineno}"
        trace = trace.tb_next
    said = " ".join(str(error).split())[:300]
    return ForestayError(
        f"this is a bug: {type(error).__name__}{f': {said}' if said else ''}",
        why=f"{place}; what was acknowledged before is not affected",
        hint=hint,
    )
