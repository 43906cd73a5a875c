"""The command session forget: erase a session, or some of its events, permanently.

It first shows what would be erased. It always names the places that it cannot erase, so that the
user knows where copies may remain.
"""

from __future__ import annotations

from forestay.base.text import one_line, plural, shorten
from forestay.cli.arguments import Command, arg, flag
from forestay.cli.event_lines import describe_event
from forestay.cli.terminal import pick
from forestay.errors import InvalidInput, NoSession, Refused
from forestay.journal.backup import own_backups
from forestay.journal.history import LogLine
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
_STAYS = "events of other people stay with them: only they, or the owner, can have them erased"
_SHOWN, _WIDTH = 20, 60


def run_forget(options: Namespace, stay: Forestay, screen: Screen) -> int:
    session, names = _resolve(stay, options.names)
    if names:
        return _forget_events(session, names, options, screen)
    return _forget_session(session, options, screen)


def _resolve(stay: Forestay, names: list[str]) -> tuple[Session, list[str]]:
    """Return the session to erase, or the session and the names of its events to erase."""
    first = names[0]
    if len(names) > 1 or first.startswith("#") or ":" in first:
        return stay.current(), names
    try:
        session = _find_session(stay, first)
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


def _find_session(stay: Forestay, text: str) -> Session:
    """Return a session; one that was erased before is found by its whole id."""
    try:
        return stay.session(text)
    except NoSession:
        gone = stay.context.store.catalogue(where={"id": text, "forgotten": 1})
        if not gone:
            raise
        from forestay.api.session import Session  # start-up

        return Session(stay.context, str(gone[0]["id"]))


def _has_event(stay: Forestay, text: str) -> bool:
    try:
        stay.current().lifecycle.forgettable(text)
    except (InvalidInput, NoSession):
        return False
    return True


# -- what it reaches ---------------------------------------------------------------------------


def _print_result(
    session: Session, done: Any, screen: Screen, events: Sequence[Event] = ()
) -> None:
    for path in done.removed:
        screen.line(f"removed: {path}")
    screen.line(f"not touched: {_NOT_TOUCHED}")
    for path in done.left:
        screen.line(f"may still contain parts of it; please check: {path}")
    if there := _still_on(session, events):
        screen.line(f"still on {', '.join(there)}: the next sync erases it there")
        screen.hint("on your other devices, when they sync too: ", "forestay sync")
    if _belonging_to_others(session, events):
        screen.line(_STAYS)


def _remote_values(remotes: list[str]) -> dict[str, Any]:
    return {"remotes": remotes, "not_touched": _NOT_TOUCHED}


def _still_on(session: Session, events: Sequence[Event] = ()) -> list[str]:
    """Return the remotes where it is not erased yet.

    A session counts as pushed to its end only when every pack with erased content is replaced.
    """
    store = session.context.store
    with store.view(session.id) as view:
        seq = view.seq
    remotes = store.machine.remotes
    found = {one.name: remotes.session(one, session.id) for one in remotes.all()}
    done = {name for name, there in found.items() if there is not None and there.pushed >= seq}
    return [name for name in _remotes(session, events) if name not in done]


def _remotes(session: Session, events: Sequence[Event] = ()) -> list[str]:
    """Return the remotes where the next sync erases something of it."""
    if len(_belonging_to_others(session, events)) == max(len(events), 1):
        return []  # a guest erases a session, and events of others, only here
    return [one.name for one in session.context.store.machine.remotes.all()]


def _belonging_to_others(session: Session, events: Sequence[Event]) -> Sequence[Event | Session]:
    """Return what this user cannot have erased elsewhere, because it belongs to others."""
    remotes = session.context.store.machine.remotes
    if not owner_name(session.context, remotes.owner(session.id)):
        return []
    others = remotes.persons()
    return [one for one in events if one.head.device in others] if events else [session]


def _print_out_of_reach(session: Session, screen: Screen, events: Sequence[Event] = ()) -> None:
    for name in _remotes(session, events):
        screen.line(f"  remote    {name}: replaced there by the next sync")
    if _belonging_to_others(session, events):
        screen.line(_STAYS)
    screen.line(f"out of reach: {_NOT_TOUCHED}, what others have read, an agent's own transcripts")


# -- a session ---------------------------------------------------------------------------------


def _forget_session(session: Session, options: Namespace, screen: Screen) -> int:
    if session.show().core.forgotten:
        # What could not be read when it was erased may be readable now.
        status: dict[str, Any] = {"session": session.id, "status": "forgotten"}
    else:
        erased_counts = count_erased(session)
        if options.dry_run:
            _print_reach(session, erased_counts, options, screen)
            return 0
        status = session.status().as_json()
        if not options.yes and not _confirm_session(session, status["goal"], erased_counts, screen):
            screen.line("nothing was erased")
            return 1
        status |= {"status": "forgotten", "forgotten": erased_counts}
    done = session.lifecycle.forget(force=options.force)
    places = pick(done, "removed cleaned left")
    screen.answer({**status, **places, **_remote_values(_still_on(session))})
    if "forgotten" in status:
        screen.done(("Erased: ", "green"), session.id, ". Its content is gone from the store.")
        backups = status["forgotten"]["backups"]
        screen.line(f"backups of this home searched, and cleaned if they had it: {backups}")
    else:
        screen.done(f"Session {session.id} was erased before; the rest was searched again.")
        for path in done.cleaned:
            screen.line(f"cleaned: {path}")
    _print_result(session, done, screen)
    return 0


def count_erased(session: Session) -> dict[str, int]:
    """Return how much erasing a session removes."""
    state = session.show()
    rows: list[Any] = state.rows.select("artifact")
    counts = state.core.counts
    lines = list(session.log())
    return {
        "events": state.core.events,
        "notes": sum(1 for line in lines if line.event.kind == "note.added"),
        "decisions": counts.get("decision", 0),
        "artifacts": counts.get("artifact", 0),
        "contents": len({row.digest for row in rows if row.kept and row.digest})
        + sum(1 for line in lines if getattr(line.event.body, "blob", "")),
        "backups": len(own_backups(session.context.store.home)),
    }


def _describe(erased_counts: dict[str, int]) -> str:
    erased = [(word, n) for word, n in erased_counts.items() if n and word != "backups"]
    return ", ".join(plural(number, word.removesuffix("s")) for word, number in erased)


def _print_reach(
    session: Session, erased_counts: dict[str, int], options: Namespace, screen: Screen
) -> None:
    found = session.lifecycle.reach(force=options.force)
    known = {"session": session.id, "dry_run": True, "forgotten": erased_counts, **found._asdict()}
    screen.answer({**known, **_remote_values(_remotes(session))})
    screen.line(("Nothing was erased. This would be erased permanently:", "bold"))
    screen.line(("  session   ", "dim"), session.id)
    screen.line(("  content   ", "dim"), _describe(erased_counts))
    places = {"file": found.files, "backup": found.backups}
    places |= {"set aside": found.aside, "payload": found.spooled}
    for word, paths in places.items():
        for path in paths:
            screen.line(f"  {word:<9} {path}")
    for path in found.edited:
        screen.line(("  stays     ", "yellow"), f"{path} (others wrote into it; --force)")
    _print_out_of_reach(session, screen)


def _confirm_session(
    session: Session, goal: str, erased_counts: dict[str, int], screen: Screen
) -> bool:
    if not screen.can_ask:
        raise Refused(
            f"session {session.id} would be erased permanently",
            why=_describe(erased_counts),
            hint=f"to do it: forestay session forget {session.id} --yes",
            session=session.id,
        )
    screen.line(("This erases a session permanently:", "bold"))
    backups = f"{erased_counts['backups']} here, cleaned of it" if erased_counts["backups"] else ""
    known = [("session", session.id), ("goal", goal), ("content", _describe(erased_counts))]
    screen.fields([*known, ("backups", backups)])
    return screen.ask_yes("to erase it")


# -- events ------------------------------------------------------------------------------------


def _forget_events(session: Session, names: list[str], options: Namespace, screen: Screen) -> int:
    found = session.lifecycle.forgettable(*names)
    if options.dry_run:
        reach = session.lifecycle.reach()
        known = {"session": session.id, "dry_run": True, "events": _event_values(found)}
        places = pick(reach, "backups aside")
        screen.answer({**known, **places, **_remote_values(_remotes(session, found))})
        screen.line(("Nothing was erased. These would be erased permanently:", "bold"))
        for event in found:
            screen.line(_line(event))
        for path in (*reach.backups, *reach.aside):
            screen.line(f"  searched: {path}")
        _print_out_of_reach(session, screen, found)
        return 0
    if not options.yes and not _confirm_events(session, found, screen):
        screen.line("nothing was erased")
        return 1
    done = session.lifecycle.forget(*[event.hash for event in found], because=options.because)
    backups = len(own_backups(session.context.store.home))
    known = {
        **session.status().as_json(),
        "forgotten": {"events": len(done.events), "backups": backups},
    }
    places = {"events": _event_values(done.events), **pick(done, "left removed cleaned")}
    screen.answer({**known, **places, **_remote_values(_still_on(session, found))})
    if not done.events:
        screen.done("These were erased before; backups and files were searched again.")
    else:
        numbers = " ".join(f"#{event.seq}" for event in done.events)
        screen.done(("Erased: ", "green"), numbers, ". Their content is gone permanently.")
    for path in done.cleaned:
        screen.line(f"cleaned: {path}")
    _print_result(session, done, screen, found)
    return 0


def _event_values(events: list[Event]) -> list[dict[str, object]]:
    return [pick(one, "seq id kind address") for one in events]


def _line(event: Event) -> str:
    word, text = describe_event(LogLine(event))
    return f"  #{event.seq} {word}  {shorten(one_line(text), _WIDTH)}".rstrip()


def _confirm_events(session: Session, found: list[Event], screen: Screen) -> bool:
    if not screen.can_ask:
        numbers = " ".join(f"'#{event.seq}'" for event in found)
        raise Refused(
            f"the content of {plural(len(found), 'event')} of session {session.id} would be erased",
            why="permanently: it cannot be undone",
            hint=f"to do it: forestay session forget {numbers} --yes",
            session=session.id,
        )
    screen.line((f"This erases permanently, in session {session.id}:", "bold"))
    for event in found[:_SHOWN]:
        screen.line(_line(event))
    if len(found) > _SHOWN:
        screen.line(f"  and {len(found) - _SHOWN} more")
    return screen.ask_yes("to erase it")


COMMANDS = {
    "session forget": Command(
        run_forget,
        arg("names+", "SESSION|EVENT", "a session, or events of the current one: #12, an id"),
        arg("--because", "TEXT", "why events are erased"),
        flag("--force", "also files that others changed"),
        flag("--dry-run", "only show what would be erased"),
        flag("--yes", "do not ask"),
        "forestay session forget fix-login",
        "forestay session forget '#12' '#14' --because \"a password\"",
        "forestay session forget k3 --dry-run",
    )
}
