"""Sharing a session with a person, and with whom it is shared."""

from __future__ import annotations

from forestay.cli.arguments import Command, Parser
from forestay.cli.key import agreed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from forestay.api.forestay import Forestay
    from forestay.api.words import ShareMode
    from forestay.cli.terminal import Screen
    from forestay.sync.sharing import Shared

_WOULD = {"read": "read all of", "continue": "read and continue"}
_MODES = {"read": "may read it", "continue": "may continue it"}


def _which_argument(parser: Parser) -> None:
    parser.add_argument(
        "which", nargs="?", default="", metavar="SESSION", help="default: the current session"
    )


def _add_arguments(parser: Parser) -> None:
    _which_argument(parser)
    parser.add_argument(
        "--with", dest="person", required=True, metavar="KEY", help="their key, fsp1…"
    )
    parser.add_argument("--email", default="", metavar="ADDRESS", help="what to call them")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--read", action="store_true", help="they may read it; the default at first")
    modes.add_argument("--continue", action="store_true", help="they may add to it, too")
    parser.add_argument("--yes", action="store_true", help="the fingerprint was compared")


def run_add(options: Namespace, stay: Forestay, screen: Screen) -> int:
    from forestay.sync.crypto.key_text import read_person_key

    session = _session(options, stay)
    person = read_person_key(options.person)
    who = options.email or "the person of this key"
    mode: ShareMode | None = "read" if options.read else None
    if getattr(options, "continue"):
        mode = "continue"
    asked = f"{who} would {_WOULD[mode or 'read']} session {session}, from its beginning"
    same = "they see the same with `forestay device key show`"
    if not options.yes and not agreed(asked, same, screen, fingerprint=person.fingerprint):
        screen.line("it was not shared")
        return 1
    shared = stay.shares.add(session, options.person, mode=mode, email=options.email)
    screen.answer(_values(shared))
    screen.done(("shared ", "green"), session, f": {options.email or person.fingerprint}")
    _tell_members(shared, screen)
    _tell_spread(shared, screen)
    screen.hint("they type: ", "forestay remote add NAME ADDRESS && forestay sync --pull")
    return 0


def _session(options: Namespace, stay: Forestay) -> str:
    return stay.session(options.which).id if options.which else stay.current().id


def run_list(options: Namespace, stay: Forestay, screen: Screen) -> None:
    shared = stay.shares.list(_session(options, stay))
    screen.answer(_values(shared))
    if owner := stay.shares.owner(shared.owner):
        screen.line("  it is shared with you by ", owner)
    _tell_members(shared, screen)
    if not shared.members:
        screen.line("shared with nobody")
        screen.hint("share it: ", "forestay share add --with fsp1…")
    _tell_spread(shared, screen)


def _tell_members(shared: Shared, screen: Screen) -> None:
    from forestay.sync.sharing import title

    screen.table(
        [[title(each), _MODES[each.mode], (each.circle[:16], "dim")] for each in shared.members],
        indent=2,
    )


def _tell_spread(shared: Shared, screen: Screen) -> None:
    for each in shared.spread:
        if each.error:
            screen.aside(("but ", "yellow"), f"not on {each.remote}: {each.error}")


def _values(shared: Shared) -> dict[str, Any]:
    members = [
        {
            "circle": each.circle,
            "email": each.email or None,
            "mode": each.mode,
            "since": each.since,
        }
        for each in shared.members
    ]
    return {
        "session": shared.session,
        "owner": shared.owner or None,
        "members": members,
        "remotes": [{"remote": r, "error": error or None} for r, error in shared.spread],
    }


def _remove_arguments(parser: Parser) -> None:
    parser.add_argument("which", metavar="SESSION", help="the session")
    parser.add_argument("who", metavar="WHO", help="their address, key, or fingerprint")


def run_remove(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = stay.session(options.which).id
    shared = stay.shares.remove(session, options.who)
    screen.answer(_values(shared))
    screen.done(("not shared any more ", "green"), f"with {options.who}: {session}")
    screen.done("They read nothing that is written from now on. What they have read they")
    screen.done("still have, and copies of it stay readable; nobody can take that back.")
    _tell_spread(shared, screen)


COMMANDS = {
    "share list": Command(_which_argument, run_list, "forestay share list"),
    "share add": Command(
        _add_arguments,
        run_add,
        "forestay share add fix-login --with fsp1q2w3e4 --email bob@example.org --continue",
    ),
    "share remove": Command(
        _remove_arguments, run_remove, "forestay share remove fix-login bob@example.org"
    ),
}
