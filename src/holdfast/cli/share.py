"""Sharing a session with a person, and with whom it is shared."""

from __future__ import annotations

from holdfast.cli.arguments import Command, Parser
from holdfast.cli.key import agreed
from holdfast.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from holdfast.cli.screen import Screen
    from holdfast.home import Holdfast
    from holdfast.sharing import Shared

_WOULD = {"read": "read all of", "continue": "read and continue"}
_MODES = {"read": "may read it", "continue": "may continue it"}


def _share_arguments(parser: Parser) -> None:
    parser.add_argument(
        "which", nargs="?", default="", metavar="SESSION", help="else the current one"
    )
    parser.add_argument("--with", dest="person", default="", metavar="KEY", help="hfp1…, theirs")
    parser.add_argument("--email", default="", metavar="ADDRESS", help="what to call them")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--read", action="store_true", help="they may read it; the default at first")
    modes.add_argument("--continue", action="store_true", help="they may add to it, too")
    parser.add_argument("--yes", action="store_true", help="the fingerprint was compared")
    parser.add_argument("--list", action="store_true", help="with whom it is shared")


def run_share(options: Namespace, hf: Holdfast, screen: Screen) -> int:
    if not options.person:
        return _tell_list(options, hf, screen)
    if options.list:
        raise InvalidInput("--list only looks; leave --with out")
    from holdfast.remote.code import read_person_key

    session = _session(options, hf)
    person = read_person_key(options.person)
    who = options.email or "the person of this key"
    mode = "continue" if getattr(options, "continue") else "read" if options.read else ""
    asked = f"{who} would {_WOULD[mode or 'read']} session {session}, from its beginning"
    same = "they see the same with `holdfast key show`"
    if not options.yes and not agreed(asked, same, screen, fingerprint=person.fingerprint):
        screen.line("it was not shared")
        return 1
    shared = hf.share(session, options.person, mode=mode, email=options.email)
    screen.answer(_values(shared))
    screen.done(("shared ", "green"), session, f": {options.email or person.fingerprint}")
    _tell_members(shared, screen)
    _tell_spread(shared, screen)
    screen.hint("they type: ", "holdfast remote add NAME ADDRESS && holdfast pull")
    return 0


def _session(options: Namespace, hf: Holdfast) -> str:
    return hf.session(options.which).id if options.which else hf.current().id


def _tell_list(options: Namespace, hf: Holdfast, screen: Screen) -> int:
    shared = hf.shares(_session(options, hf))
    screen.answer(_values(shared))
    if owner := hf.owner(shared.owner):
        screen.line("  it is shared with you by ", owner)
    _tell_members(shared, screen)
    if not shared.members:
        screen.line("shared with nobody")
        screen.hint("share it: ", "holdfast share --with hfp1…")
    _tell_spread(shared, screen)
    return 0


def _tell_members(shared: Shared, screen: Screen) -> None:
    from holdfast.sharing import title

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


def _unshare_arguments(parser: Parser) -> None:
    parser.add_argument("which", metavar="SESSION", help="the session")
    parser.add_argument("who", metavar="WHO", help="their address, key, or fingerprint")


def run_unshare(options: Namespace, hf: Holdfast, screen: Screen) -> None:
    session = hf.session(options.which).id
    shared = hf.unshare(session, options.who)
    screen.answer(_values(shared))
    screen.done(("not shared any more ", "green"), f"with {options.who}: {session}")
    screen.done("They read nothing that is written from now on. What they have read they")
    screen.done("still have, and copies of it stay readable; nobody can take that back.")
    _tell_spread(shared, screen)


COMMANDS = {
    "share": Command(
        _share_arguments,
        run_share,
        "holdfast share fix-login --with hfp1q2w3e4r5 --email bob@example.org --continue",
        "holdfast share --list",
    ),
    "unshare": Command(
        _unshare_arguments, run_unshare, "holdfast unshare fix-login bob@example.org"
    ),
}
