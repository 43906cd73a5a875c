"""Errors as answers: what is wrong, why, and the command that helps.

People read them on the error stream. With --json they are the answer, on standard output, so
that whoever parses the answer need not look elsewhere; the exit code is the same.
"""

from __future__ import annotations

from holdfast.cli.screen import VERSION, Screen
from holdfast.errors import HoldfastError, NoSession, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_MANY = 10


def tell(error: HoldfastError, screen: Screen) -> int:
    """Say what went wrong; returns the exit code."""
    _settle(screen)
    _take_secrets_out(error, screen.patterns)
    if screen.json:
        values = as_values(error, screen.command)
        values["hint"] = screen.as_typed(values["hint"])
        screen.object({"holdfast": VERSION, "error": values})
    else:
        _tell_people(error, screen)
    return error.exit_code


def _take_secrets_out(error: HoldfastError, patterns: Sequence[str]) -> None:
    """An error repeats what was typed, and that may hold a secret."""
    from holdfast.redact import Redactor

    try:
        redactor = Redactor(patterns)
    except HoldfastError:  # perhaps the very error that is told
        redactor = Redactor()
    for name in ("what", "why", "hint", "file", "session"):
        setattr(error, name, redactor.text(getattr(error, name))[0])
    if isinstance(error, Refused):
        error.legal = [redactor.text(move)[0] for move in error.legal]


def tell_bug(error: Exception, screen: Screen) -> int:
    """An error that nobody meant to happen: one line, and the traceback only when asked for."""
    from holdfast.config import child_environment

    if child_environment().get("HOLDFAST_DEBUG"):
        import traceback

        screen.err.write("".join(traceback.format_exception(error)))
    return tell(_bug(error), screen)


def _bug(error: Exception) -> HoldfastError:
    trace, place = error.__traceback__, ""
    while trace is not None:
        code = trace.tb_frame.f_code
        if "holdfast" in code.co_filename:
            place = f"{'/'.join(code.co_filename.split('/')[-2:])}, line {trace.tb_lineno}"
        trace = trace.tb_next
    said = " ".join(str(error).split())[:300]
    return HoldfastError(
        f"this is a bug: {type(error).__name__}{f': {said}' if said else ''}",
        why=f"{place}; what was acknowledged before is not affected",
        hint="look closer with HOLDFAST_DEBUG=1 before the command, and check: holdfast verify",
    )


def as_values(error: HoldfastError, command: str) -> dict[str, Any]:
    """An error as JSON values, with the context that document 0 asks for."""
    from holdfast.clock import Clock, iso

    values: dict[str, Any] = {
        "code": error.exit_code,
        "kind": type(error).__name__,
        "what": error.what,
        "why": error.why,
        "hint": _hint(error),
        "retryable": error.retryable,
    }
    if isinstance(error, Refused):
        values["legal"] = typable(error.legal)
    if isinstance(error, NoSession):
        names = ("session", "status", "goal")
        values["choices"] = [dict(zip(names, one, strict=True)) for one in error.choices]
    values["error_context"] = error_context(error, command, iso(Clock().now()))
    return values


def _hint(error: HoldfastError) -> str:
    """The command that helps: the error's own, or the legal moves as one types them."""
    legal = typable(error.legal) if isinstance(error, Refused) else []
    return error.hint or " · ".join(f"holdfast {move}" for move in legal)


def typable(moves: list[str]) -> list[str]:
    """The moves that this command line has a command for; the model knows more of them."""
    from holdfast.cli.dispatch import split
    from holdfast.cli.table import COMMANDS

    return [move for move in moves if split(move.split())[0] in COMMANDS]


def error_context(error: HoldfastError, command: str, now: str) -> dict[str, str | None]:
    """The five fields that document 0 asks of every error report (S0-80 to S0-84)."""
    known = error.operation in OPERATIONS
    return {
        "operation": error.operation if known else _operation(command),
        "file": error.file or None,
        "feature_id": error.session or None,
        "timestamp": now,
        "details": str(error),
    }


OPERATIONS = ("create", "read", "update", "delete")


def _operation(command: str) -> str:
    """What a command was about to do, in the four words of document 0."""
    if command in ("start", "forget"):
        return "create" if command == "start" else "delete"
    from holdfast.cli.table import GROUPS

    reads = (*GROUPS["Look"], "", "brief", "verify", "doctor", "completion", "help")
    return "read" if command in reads else "update"


def _settle(screen: Screen) -> None:
    """Colours follow the settings also when the error came before they were read."""
    from holdfast.config import load

    if not screen.settled:
        try:
            screen.settle(load(), colour=True)
        except HoldfastError:
            return


def _tell_people(error: HoldfastError, screen: Screen) -> None:
    screen.complain(("error: ", "red"), error.what)
    if error.why:
        screen.complain("  ", (error.why, "dim"))
    choices = error.choices if isinstance(error, NoSession) else []
    if choices:
        _tell_choices(choices, screen)
    elif hint := _hint(error):
        screen.complain("  → ", screen.as_typed(hint))


def _tell_choices(choices: list[tuple[str, str, str]], screen: Screen) -> None:
    from holdfast.text import fit, shorten

    verb = screen.command if screen.command in ("resume", "brief") else "use"
    lines = [screen.as_typed(f"holdfast {verb} {id}") for id, _, _ in choices[:_MANY]]
    screen.complain("  open sessions, and the line to type:")
    for typed, (_, status, goal) in zip(lines, choices, strict=False):
        line = fit(typed, max(map(len, lines)))
        screen.complain("  → ", line, "  ", (fit(status, 6), "dim"), "  ", shorten(goal, 40))
    if len(choices) > _MANY:
        screen.complain(
            f"    … and {len(choices) - _MANY} more; see: {screen.as_typed('holdfast list')}"
        )
