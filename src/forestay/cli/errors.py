"""Print errors: what is wrong, why, and the command that helps.

People read them on the error stream. With --json they are the answer, on standard output, so
that a program finds them where it expects the answer; the exit code is the same.
"""

from __future__ import annotations

from forestay.api import error_values
from forestay.base.text import fit, shorten
from forestay.cli.suggestions import shorten_paths
from forestay.cli.table import COMMANDS, split
from forestay.cli.terminal import Screen
from forestay.errors import ForestayError, NoSession, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CAPITAL_LEAD = "Error: "
_MANY = 10
_WIDE, _LEAST = 90, 20
_DEBUG_HINT = "for details put FORESTAY_DEBUG=1 before the command; check: forestay verify"


def report_error(error: ForestayError, screen: Screen) -> int:
    """Print an error, as text or JSON; return the exit code."""
    apply_settings(screen)
    error_values.redact_error(error, screen.patterns)
    if screen.chosen and isinstance(error, Refused):
        # The command failed, so its session is not current: suggested commands must name it.
        screen.given.setdefault("--session", screen.chosen)
    if screen.json:
        values = as_values(error, screen.command)
        screen.answer(error={**values, "hint": screen.as_typed(values["hint"])})
    else:
        print_error(error, screen)
    return error.exit_code


def report_bug(error: Exception, screen: Screen) -> int:
    """Report a bug in one line; the traceback is shown only when FORESTAY_DEBUG is set."""
    from forestay.base.config import child_environment

    if child_environment().get("FORESTAY_DEBUG"):
        import traceback

        screen.err.write("".join(traceback.format_exception(error)))
    return report_error(error_values.report_bug(error, _DEBUG_HINT), screen)


def as_values(error: ForestayError, command: str) -> dict[str, Any]:
    """Return an error as JSON values, with the hint as commands of this program."""
    from forestay.base.clock import Clock, iso

    values = error_values.error_to_json(error, _operation(command), iso(Clock().now()))
    values["hint"] = _hint(error)
    if isinstance(error, Refused):
        values["legal"] = typable_moves(error.legal)
    return values


def _hint(error: ForestayError) -> str:
    """Return the command that helps: the error's hint, or else the legal moves as commands."""
    legal = typable_moves(error.legal) if isinstance(error, Refused) else []
    return error.hint or " · ".join(f"forestay {move}" for move in legal)


def typable_moves(moves: list[str]) -> list[str]:
    """Return the legal moves that are commands of this program; the model has more of them."""
    return [move for move in moves if split(move.split())[0] in COMMANDS]


_CREATES = ("start", "adopt", "files bind", "files orchestrator new", "workflow new")
_READS = (
    *("", "status", "list", "log", "search", "show", "diff", "brief", "verify", "doctor"),
    *("check", "gate", "report", "live", "history", "completion", "help"),
)


def _operation(command: str) -> str:
    """Return what a command does: create, read, update or delete, as errors report it."""
    if command == "session forget":
        return "delete"
    if command in _CREATES:
        return "create"
    return "read" if command.rpartition(" ")[2] in _READS else "update"


def apply_settings(screen: Screen) -> None:
    """Apply the settings for colors and the pager where the command did not load them."""
    from forestay.base.config import load

    if not screen.has_settings:
        try:
            screen.apply_settings(load())
        except ForestayError:
            return


def print_error(error: ForestayError, screen: Screen, *, where: str = "") -> None:
    """Print what is wrong, why, and what helps, on the error stream."""
    # The specification prescribes the exact words of some errors, with a capital.
    message = shorten_paths(f"{where}{error.what}")
    lead = _CAPITAL_LEAD if message.startswith(_CAPITAL_LEAD) else "error: "
    screen.explain((lead, "red"), message.removeprefix(_CAPITAL_LEAD))
    if error.why:
        screen.explain("  ", shorten_paths(error.why), "dim")
    if isinstance(error, NoSession) and error.choices:
        _print_choices(error.choices, screen)
    elif hint := _hint(error):
        screen.advise(shorten_paths(hint))


def _print_choices(choices: list[tuple[str, str, str]], screen: Screen) -> None:
    verb = screen.command if screen.command in ("resume", "brief") else "session use"
    lines = [screen.as_typed(f"forestay {verb} {id}") for id, _, _ in choices[:_MANY]]
    screen.write_error("  sessions to choose from, with the command for each:")
    for typed, (_, status, goal) in zip(lines, choices, strict=False):
        lead = f"  → {fit(typed, max(map(len, lines)))}  "
        shown = shorten(goal, max((screen.error_columns or _WIDE) - len(lead) - 9, _LEAST))
        screen.write_error(lead, (fit(status, 6), "dim"), "  ", shown)
    if len(choices) > _MANY:
        see = screen.as_typed("forestay list")
        screen.write_error(f"    … and {len(choices) - _MANY} more; see: {see}")
