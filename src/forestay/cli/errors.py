"""Print errors: what is wrong, why, and the command that helps.

People read them on the error stream. With --json they are the answer, on standard output, so
that a program finds them where it expects the answer; the exit code is the same.
"""

from __future__ import annotations

from forestay.api import error_values
from forestay.cli.suggestions import shorten_paths
from forestay.cli.terminal import VERSION, Screen
from forestay.errors import ForestayError, NoSession, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CAPITAL = "Error: "
_MANY = 10
_WIDE, _LEAST = 90, 20
_LOOK_CLOSER = "for details put FORESTAY_DEBUG=1 before the command; check: forestay verify"


def tell(error: ForestayError, screen: Screen) -> int:
    """Say what went wrong; returns the exit code."""
    settle(screen)
    error_values.take_secrets_out(error, screen.patterns)
    if screen.chosen and isinstance(error, Refused):
        # It was refused, so another one is current, if any: what is legal is so for this one.
        screen.given.setdefault("--session", screen.chosen)
    if screen.json:
        values = as_values(error, screen.command)
        values["hint"] = screen.as_typed(values["hint"])
        screen.object({"forestay": VERSION, "error": values})
    else:
        print_error(error, screen)
    return error.exit_code


def report_bug(error: Exception, screen: Screen) -> int:
    """Report a bug in one line; the traceback is shown only when FORESTAY_DEBUG is set."""
    from forestay.base.config import child_environment

    if child_environment().get("FORESTAY_DEBUG"):
        import traceback

        screen.err.write("".join(traceback.format_exception(error)))
    return tell(error_values.bug(error, _LOOK_CLOSER), screen)


def as_values(error: ForestayError, command: str) -> dict[str, Any]:
    """An error as JSON values, with moves and hints as one types them here."""
    from forestay.base.clock import Clock, iso

    values = error_values.values(error, _operation(command), iso(Clock().now()))
    values["hint"] = _hint(error)
    if isinstance(error, Refused):
        values["legal"] = typable(error.legal)
    return values


def _hint(error: ForestayError) -> str:
    """The command that helps: the error's own, or the legal moves as one types them."""
    legal = typable(error.legal) if isinstance(error, Refused) else []
    return error.hint or " · ".join(f"forestay {move}" for move in legal)


def typable(moves: list[str]) -> list[str]:
    """The moves that this command line has a command for; the model knows more of them."""
    from forestay.cli.table import COMMANDS, split

    return [move for move in moves if split(move.split())[0] in COMMANDS]


_CREATES = ("start", "adopt", "files bind", "files orchestrator new", "workflow new")
_READS = (
    *("", "status", "list", "log", "search", "show", "diff", "brief", "verify", "doctor"),
    *("check", "gate", "report", "live", "history", "completion", "help"),
)


def _operation(command: str) -> str:
    """What a command was about to do, in the four words of document 0."""
    if command == "session forget":
        return "delete"
    if command in _CREATES:
        return "create"
    return "read" if command.rpartition(" ")[2] in _READS else "update"


def settle(screen: Screen) -> None:
    """Apply the settings for colors and the pager where the command did not load them."""
    from forestay.base.config import load

    if not screen.settled:
        try:
            screen.settle(load())
        except ForestayError:
            return


def print_error(error: ForestayError, screen: Screen, *, where: str = "") -> None:
    """What is wrong, why, and what helps, on the error stream."""
    # Document 0's companions give some refusals word by word, with the capital.
    said = shorten_paths(f"{where}{error.what}")
    lead = _CAPITAL if said.startswith(_CAPITAL) else "error: "
    screen.explain((lead, "red"), said.removeprefix(_CAPITAL))
    if error.why:
        screen.explain("  ", shorten_paths(error.why), "dim")
    choices = error.choices if isinstance(error, NoSession) else []
    if choices:
        _print_choices(choices, screen)
    elif hint := _hint(error):
        screen.advise(shorten_paths(hint))


def _print_choices(choices: list[tuple[str, str, str]], screen: Screen) -> None:
    from forestay.base.text import fit, shorten

    verb = screen.command if screen.command in ("resume", "brief") else "session use"
    lines = [screen.as_typed(f"forestay {verb} {id}") for id, _, _ in choices[:_MANY]]
    screen.complain("  sessions, and the line to type:")
    for typed, (_, status, goal) in zip(lines, choices, strict=False):
        lead = f"  → {fit(typed, max(map(len, lines)))}  "
        shown = shorten(goal, max((screen.beside or _WIDE) - len(lead) - 9, _LEAST))
        screen.complain(lead, (fit(status, 6), "dim"), "  ", shown)
    if len(choices) > _MANY:
        screen.complain(
            f"    … and {len(choices) - _MANY} more; see: {screen.as_typed('forestay list')}"
        )
