"""forget: erasing for good what a session says, or some of its events, and saying where it goes.

What would go is shown before it goes. What is out of reach is said every time, because nobody
should believe a thing gone that is not.
"""

from __future__ import annotations

from forestay.base.text import one_line, plural
from forestay.cli.arguments import Command, Parser
from forestay.cli.event_lines import about
from forestay.errors import InvalidInput, NoSession, Refused
from forestay.journal.backup import own_backups
from forestay.sync.keychain import owner_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence
    from typing import Any

    from forestay.api.forestay import Forestay
    from forestay.api.session import Session
    from forestay.cli.terminal import Screen
    from forestay.model.event import Event

_NOT_TOUCHED = "exports, backups that were written or copied elsewhere, remotes that were removed"
_STAYS = "what others wrote stays with them: only they, or who owns the session, can have it erased"
_SHOWN = 20
_TEXT = 60


def _forget_arguments(parser: Parser) -> None:
    parser.add_argument(
        "names",
        metavar="SESSION|EVENT",
        nargs="+",
        help="a session's id, or events of the current one: #12, an id, device:n",
    )
    parser.add_argument("--because", metavar="TEXT", default="", help="why events are forgotten")
    parser.add_argument("--force", action="store_true", help="files that others changed, too")
    parser.add_argument("--dry-run", action="store_true", help="only say what would go")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def run_forget(options: Namespace, stay: Forestay, screen: Screen) -> int:
    session, names = _meant(stay, options.names)
    if names:
        return _forget_events(session, names, options, screen)
    return _forget_session(session, options, screen)


def _meant(stay: Forestay, names: list[str]) -> tuple[Session, list[str]]:
    """The session that is to be forgotten, or the one of which these events are."""
    first = names[0]
    if len(names) > 1 or first.startswith("#") or ":" in first:
        return stay.current(), names
    try:
        session = _session(stay, first)
    except NoSession:
        if first.isdigit() or _has_event(stay, first):
            return stay.current(), names
        raise
    if first.isdigit() and session.id != first and _has_event(stay, first):
        raise InvalidInput(
            f"{first} could be an event, or session {session.id}",
            hint=f"the event: forestay session forget '#{first}'; the session: its whole id",
        )
    return session, []


def _session(stay: Forestay, text: str) -> Session:
    """A session; one that was forgotten before by its whole id, to look through the rest again."""
    try:
        return stay.session(text)
    except NoSession:
        gone = stay.context.store.catalogue(where={"id": text, "forgotten": 1})
        if not gone:
            raise
        from forestay.api.session import Session

        return Session(stay.context, str(gone[0]["id"]))


def _has_event(stay: Forestay, text: str) -> bool:
    try:
        stay.current().lifecycle.forgettable(text)
    except (InvalidInput, NoSession):
        return False
    return True


# -- a session -----------------------------------------------------------------------------------


def _forget_session(session: Session, options: Namespace, screen: Screen) -> int:
    if session.show().core.forgotten:
        return _forget_again(session, options, screen)
    shown, going = session.status(), what_goes(session)
    if options.dry_run:
        _tell_reach(session, going, options, screen)
        return 0
    if not options.yes and not _agreed(session, shown, going, screen):
        screen.line("nothing was erased")
        return 1
    done = session.lifecycle.forget(force=options.force)
    told = {"status": "forgotten", "forgotten": going, "left": done.left}
    places = {"removed": done.removed, "cleaned": done.cleaned, **_elsewhere(_still_on(session))}
    screen.answer({**shown, **told, **places})
    screen.done(("Forgotten: ", "green"), session.id, ". Its content is gone from the store.")
    screen.line(
        f"backups of this home looked through, and cleaned if they had it: {going['backups']}"
    )
    _tell_rest(session, done.removed, done.left, screen)
    return 0


def _forget_again(session: Session, options: Namespace, screen: Screen) -> int:
    """What could not be looked into when it was forgotten may have become readable since."""
    done = session.lifecycle.forget(force=options.force)
    places = {"removed": done.removed, "cleaned": done.cleaned, "left": done.left}
    screen.answer(
        {"session": session.id, "status": "forgotten", **places, **_elsewhere(_still_on(session))}
    )
    screen.done(f"Session {session.id} was forgotten before; the rest was looked through again.")
    for path in done.cleaned:
        screen.line(f"cleaned: {path}")
    _tell_rest(session, done.removed, done.left, screen)
    return 0


def _tell_rest(
    session: Session,
    removed: list[str],
    left: list[str],
    screen: Screen,
    events: Sequence[Event] = (),
) -> None:
    for path in removed:
        screen.line(f"removed: {path}")
    screen.line(f"not touched: {_NOT_TOUCHED}")
    for path in left:
        screen.line(f"may still hold some of it, look yourself: {path}")
    if there := _still_on(session, events):
        screen.line(f"still on {', '.join(there)}: the next sync erases it there")
        screen.hint("on your other devices, when they sync too: ", "forestay sync")
    if _of_others(session, events):
        screen.line(_STAYS)


def _elsewhere(remotes: list[str]) -> dict[str, Any]:
    """Where the next sync erases it, and what nobody can reach."""
    return {"remotes": remotes, "not_touched": _NOT_TOUCHED}


def _still_on(session: Session, events: Sequence[Event] = ()) -> list[str]:
    """Where it is not erased yet, after it was forgotten here.

    A session counts as pushed to its end only when every pack that held such a thing is replaced.
    """
    store = session.context.store
    with store.view(session.id) as view:
        seq = view.seq
    found = {
        one.name: store.machine.remotes.session(one, session.id)
        for one in store.machine.remotes.all()
    }
    done = {name for name, there in found.items() if there is not None and there.pushed >= seq}
    return [name for name in _remotes(session, events) if name not in done]


def _remotes(session: Session, events: Sequence[Event] = ()) -> list[str]:
    """Where the next sync erases something of it."""
    if len(_of_others(session, events)) == max(len(events), 1):
        return []  # a guest forgets a session, and what others said, alone
    return [one.name for one in session.context.store.machine.remotes.all()]


def _of_others(session: Session, events: Sequence[Event]) -> Sequence[Event | Session]:
    """What of it is not this person's to have erased elsewhere: others keep it."""
    remotes = session.context.store.machine.remotes
    if not owner_name(session.context, remotes.owner(session.id)):
        return []
    others = remotes.persons()
    return [one for one in events if one.head.device in others] if events else [session]


def what_goes(session: Session) -> dict[str, int]:
    """How much forgetting erases."""
    state = session.show()
    counts = state.core.counts
    kept = {_digest(row) for row in state.rows.select("artifact")} - {""}
    long_notes = sum(1 for line in session.log() if getattr(line.event.body, "blob", ""))
    return {
        "events": state.core.events,
        "notes": sum(1 for line in session.log() if line.event.kind == "note.added"),
        "decisions": counts.get("decision", 0),
        "artifacts": counts.get("artifact", 0),
        "contents": len(kept) + long_notes,
        "backups": len(own_backups(session.context.store.home)),
    }


def _digest(row: Any) -> str:
    return str(row.digest) if row.kept else ""


def _in_words(going: dict[str, int]) -> str:
    erased = [(word, n) for word, n in going.items() if n and word != "backups"]
    return ", ".join(plural(number, word.removesuffix("s")) for word, number in erased)


def _tell_reach(
    session: Session, going: dict[str, int], options: Namespace, screen: Screen
) -> None:
    found = session.lifecycle.reach(force=options.force)
    screen.answer(
        {
            "session": session.id,
            "dry_run": True,
            "forgotten": going,
            **found._asdict(),
            **_elsewhere(_remotes(session)),
        }
    )
    screen.line(("Nothing was erased. This would go for good:", "bold"))
    screen.line(("  session   ", "dim"), session.id)
    screen.line(("  content   ", "dim"), _in_words(going))
    for path in found.files:
        screen.line(f"  file      {path}")
    for path in found.backups:
        screen.line(f"  backup    {path}")
    for path in found.aside:
        screen.line(f"  set aside {path}")
    for path in found.spooled:
        screen.line(f"  payload   {path}")
    for path in found.edited:
        screen.line(("  stays     ", "yellow"), f"{path} (others wrote into it; --force)")
    _tell_out_of_reach(session, screen)


def _tell_out_of_reach(session: Session, screen: Screen, events: Sequence[Event] = ()) -> None:
    for name in _remotes(session, events):
        screen.line(f"  remote    {name}: replaced there by the next sync")
    if _of_others(session, events):
        screen.line(_STAYS)
    screen.line(f"out of reach: {_NOT_TOUCHED}, what others have read, an agent's own transcripts")


def _agreed(session: Session, shown: dict[str, Any], going: dict[str, int], screen: Screen) -> bool:
    parts = _in_words(going)
    if not screen.can_ask:
        raise Refused(
            f"session {session.id} would be erased for good",
            why=parts,
            hint=f"if that is meant: forestay session forget {session.id} --yes",
            session=session.id,
        )
    screen.line(("This erases a session for good:", "bold"))
    screen.fields(
        [
            ("session", session.id),
            ("goal", shown["goal"]),
            ("content", parts),
            ("backups", f"{going['backups']} here, cleaned of it" if going["backups"] else ""),
        ]
    )
    return screen.says_yes("to erase it")


# -- events --------------------------------------------------------------------------------------


def _forget_events(session: Session, names: list[str], options: Namespace, screen: Screen) -> int:
    found = session.lifecycle.forgettable(*names)
    if options.dry_run:
        _tell_events(session, found, screen)
        return 0
    if not options.yes and not _agreed_to_events(session, found, screen):
        screen.line("nothing was erased")
        return 1
    done = session.lifecycle.forget(*[event.hash for event in found], because=options.because)
    screen.answer(
        {
            **session.status(),
            "forgotten": {
                "events": len(done.events),
                "backups": len(own_backups(session.context.store.home)),
            },
            "events": _plain(done.events),
            "left": done.left,
            "removed": done.removed,
            "cleaned": done.cleaned,
            **_elsewhere(_still_on(session, found)),
        }
    )
    if not done.events:
        screen.done("It was forgotten before; backups and files were looked through again.")
    else:
        numbers = " ".join(f"#{event.seq}" for event in done.events)
        screen.done(("Forgotten: ", "green"), numbers, ". What was said there is gone for good.")
    for path in done.cleaned:
        screen.line(f"cleaned: {path}")
    _tell_rest(session, done.removed, done.left, screen, found)
    return 0


def _plain(events: list[Event]) -> list[dict[str, object]]:
    return [
        {"seq": one.seq, "id": one.id, "kind": one.kind, "address": one.address} for one in events
    ]


def _line(event: Event) -> str:
    from forestay.journal.history import LogLine

    word, text = about(LogLine(event))
    text = one_line(text)
    return f"  #{event.seq} {word}  {text[:_TEXT]}{'…' if len(text) > _TEXT else ''}".rstrip()


def _tell_events(session: Session, found: list[Event], screen: Screen) -> None:
    reach = session.lifecycle.reach()
    screen.answer(
        {
            "session": session.id,
            "dry_run": True,
            "events": _plain(found),
            "backups": reach.backups,
            "aside": reach.aside,
            **_elsewhere(_remotes(session, found)),
        }
    )
    screen.line(("Nothing was erased. What these say would go for good:", "bold"))
    for event in found:
        screen.line(_line(event))
    for path in (*reach.backups, *reach.aside):
        screen.line(f"  looked through: {path}")
    _tell_out_of_reach(session, screen, found)


def _agreed_to_events(session: Session, found: list[Event], screen: Screen) -> bool:
    if not screen.can_ask:
        numbers = " ".join(f"'#{event.seq}'" for event in found)
        raise Refused(
            f"the content of {plural(len(found), 'event')} of session {session.id} would be erased",
            why="for good: forgetting cannot be undone",
            hint=f"if that is meant: forestay session forget {numbers} --yes",
            session=session.id,
        )
    screen.line((f"This erases for good what was said in session {session.id}:", "bold"))
    for event in found[:_SHOWN]:
        screen.line(_line(event))
    if len(found) > _SHOWN:
        screen.line(f"  and {len(found) - _SHOWN} more")
    return screen.says_yes("to erase it")


COMMANDS = {
    "session forget": Command(
        _forget_arguments,
        run_forget,
        "forestay session forget fix-login",
        "forestay session forget '#12' '#14' --because \"a password\"",
        "forestay session forget k3 --dry-run",
    ),
}
