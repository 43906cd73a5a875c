"""Moving everything into another store: how far it is, and what to do then."""

from __future__ import annotations

from holdfast.cli.arguments import Command
from holdfast.errors import InvalidInput
from holdfast.text import plural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments import Parser
    from holdfast.cli.screen import Screen
    from holdfast.home import Holdfast
    from holdfast.move import Moved


def _arguments(parser: Parser) -> None:
    parser.add_argument("--to", default="", metavar="URL", help="postgresql://… or sqlite:PATH")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be copied")
    parser.add_argument("--unseal", action="store_true", help="work here again after a move")


def run_move(options: Namespace, hf: Holdfast, screen: Screen) -> None:
    if bool(options.to) == options.unseal:
        raise InvalidInput("where to is not said", hint="holdfast move --to URL, or --unseal")

    def part(what: str, done: int, of: int) -> None:
        screen.progress(f"{done * 100 // max(of, 1)}% {what}")

    moved = hf.move(options.to, dry_run=options.dry_run, unseal=options.unseal, on_part=part)
    screen.progress()
    screen.answer({**moved._asdict(), "dry_run": options.dry_run})
    _tell(moved, screen)


def _tell(moved: Moved, screen: Screen) -> None:
    what = f"{plural(moved.sessions, 'session')}, {plural(moved.events, 'event')}"
    if moved.state == "unsealed":
        screen.done(("Unsealed ", "green"), moved.source, ": ", what)
        screen.line("  what was copied to ", moved.target, " stays there and is not followed")
    elif moved.state == "would move":
        screen.line("Would move ", what, " from ", moved.source, " to ", moved.target)
    else:
        screen.done(("Moved ", "green"), what, " to ", moved.target)
        screen.line("  compared byte for byte; ", moved.source, " is sealed")
        screen.line("  use it: holdfast config store ", f"'{moved.target}'")
        screen.line("  or go back: holdfast move --unseal")
    for left in moved.left_out:
        screen.line(("  left ", "yellow"), left)


COMMANDS = {
    "move": Command(
        _arguments,
        run_move,
        "holdfast move --to postgresql://db.example.org/holdfast",
        "holdfast move --to sqlite: --dry-run",
        "holdfast move --unseal",
    ),
}
