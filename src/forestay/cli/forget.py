"""The command session forget: erase a session, or some of its events, permanently.

It first shows what would be erased. It always names the places that it cannot erase, so that the
user knows where copies can remain.
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
    from collections.abc import Sequence

    from forestay.cli.types import Any, Event, Forestay, Namespace, Screen, Session
    from forestay.health.forget import Forgotten

_NOT_TOUCHED = "exports, backups that were written or copied elsewhere, remotes that were removed"
_STAYS = "events of other people stay with them: only they, or the owner, can have them erased"
_SHOWN, _WIDTH = 20, 60


def run_forget(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session, names = _resolve(stay, options.names)
    if names:
        _forget_events(session, names, options, screen)
    else:
        _forget_session(session, options, screen)


def _resolve(stay: Forestay, names: list[str]) -> tuple[Session, list[str]]:
    """Return the session to erase, or the session and the names of its events to erase."""
    first = names[0]
    if len(names) > 1 or first.startswith("#") or ":" in first:
        return stay.current(), names

    def is_event() -> bool:
        try:
            return bool(stay.current().lifecycle.forgettable(first))
        except (InvalidInput, NoSession):
            return False

    try:
        session = stay.session(first)
    except NoSession:
        if gone := stay.context.store.catalogue(where={"id": first, "forgotten": 1}):
            from forestay.api.session import Session  # start-up

            return Session(stay.context, str(gone[0]["id"])), []
        if first.isdigit() or is_event():
            return stay.current(), names
        raise
    if first.isdigit() and session.id != first and is_event():
        raise InvalidInput(
            f"{first} is ambiguous: it could be an event, or session {session.id}",
            hint=f"the event: forestay session forget '#{first}'; the session: its whole id",
        )
    return session, []


# -- remotes -----------------------------------------------------------------------------------


class _Remotes:
    """The remotes where the next sync erases a session, or some of its `events`.

    `not_yet` are those where it is not erased yet. `has_foreign` is True if something belongs
    to other people, so that this user cannot erase it on remotes.
    """

    def __init__(self, session: Session, events: Sequence[Event] = ()) -> None:
        store = session.context.store
        remotes = store.machine.remotes
        foreign = 0
        if owner_name(session.context, remotes.owner(session.id)):
            others = remotes.persons()
            foreign = sum(one.head.device in others for one in events) if events else 1
        self.has_foreign = foreign > 0
        # A session of another person, and events of others, can be erased only on this device.
        reached = [] if foreign == max(len(events), 1) else list(remotes.all())
        self.names = [one.name for one in reached]
        with store.view(session.id) as view:
            seq = view.seq
        # Sync sets `pushed` to the last event only after replacing every pack with erased content.
        pushed = {one.name: remotes.session(one, session.id) for one in reached}
        self.not_yet = [n for n, there in pushed.items() if there is None or there.pushed < seq]

    def print_planned(self, screen: Screen) -> None:
        for name in self.names:
            screen.line(f"  remote    {name}: replaced there by the next sync")
        if self.has_foreign:
            screen.line(_STAYS)
        others = "what others have read, an agent's own transcripts"
        screen.prose("", f"out of reach: {_NOT_TOUCHED}, {others}")

    def print_result(self, done: Forgotten, screen: Screen) -> None:
        for path in done.removed:
            screen.line(f"removed: {path}")
        screen.prose("", f"not touched: {_NOT_TOUCHED}")
        for path in done.left:
            screen.line(f"could still contain parts of it; please check: {path}")
        if self.not_yet:
            screen.line(f"still on {', '.join(self.not_yet)}: the next sync erases it there")
            screen.hint("on your other devices, when they sync too: ", "forestay sync")
        if self.has_foreign:
            screen.line(_STAYS)


# -- a session ---------------------------------------------------------------------------------


def _forget_session(session: Session, options: Namespace, screen: Screen) -> None:
    if session.show().forgotten:
        # Search again: a file that could not be read at the first erasure can be readable now.
        status: dict[str, Any] = {"session": session.id, "status": "forgotten"}
    else:
        erased_counts = count_erased(session)
        if options.dry_run:
            _print_reach(session, erased_counts, options, screen)
            return
        status = session.status().as_json()
        if not options.yes:
            _require_yes(session, status["goal"], erased_counts, screen)
        status |= {"status": "forgotten", "forgotten": erased_counts}
    done = session.lifecycle.forget(force=options.force)
    remotes = _Remotes(session)
    known = {"remotes": remotes.not_yet, "not_touched": _NOT_TOUCHED}
    screen.answer(status, pick(done, "removed cleaned left"), known)
    if "forgotten" in status:
        screen.done(("Erased: ", "green"), session.id, ". Its content is gone from the store.")
        backups = status["forgotten"]["backups"]
        screen.line(f"backups of this home searched, and cleaned if they had it: {backups}")
    else:
        screen.done(f"Session {session.id} was erased before; the rest was searched again.")
        for path in done.cleaned:
            screen.line(f"cleaned: {path}")
    remotes.print_result(done, screen)


def count_erased(session: Session) -> dict[str, int]:
    """Return how much erasing a session removes."""
    state = session.show()
    lines = list(session.log())
    return {
        "events": state.seq,
        "notes": sum(1 for line in lines if line.event.kind == "note.added"),
        "decisions": len(state.decisions),
        "artifacts": len(state.artifacts),
        "contents": len({one.digest for one in state.artifacts if one.kept and one.digest})
        + sum(1 for line in lines if getattr(line.event.body, "blob", "")),
        "backups": len(own_backups(session.context.store.home)),
    }


def _describe(erased_counts: dict[str, int]) -> str:
    erased = [(word, n) for word, n in erased_counts.items() if n and word != "backups"]
    return ", ".join(plural(number, word.removesuffix("s")) for word, number in erased)


def _print_reach(
    session: Session, erased_counts: dict[str, int], options: Namespace, screen: Screen
) -> None:
    found, remotes = session.lifecycle.reach(force=options.force), _Remotes(session)
    known = {"session": session.id, "dry_run": True, "forgotten": erased_counts, **found._asdict()}
    screen.answer(known, remotes=remotes.names, not_touched=_NOT_TOUCHED)
    screen.line(("Nothing was erased. This would be erased permanently:", "bold"))
    screen.line(("  session   ", "dim"), session.id)
    screen.line(("  content   ", "dim"), _describe(erased_counts))
    places = {"file": found.files, "backup": found.backups}
    places |= {"set aside": found.aside, "payload": found.spooled}
    for word, paths in places.items():
        for path in paths:
            screen.line(f"  {word:<9} {path}")
    for path in found.edited:
        screen.line(
            ("  stays     ", "yellow"),
            f"{path} (other programs changed it; to erase it too: --force)",
        )
    remotes.print_planned(screen)


def _require_yes(
    session: Session, goal: str, erased_counts: dict[str, int], screen: Screen
) -> None:
    content = _describe(erased_counts)
    refusal = Refused(
        f"nothing was erased: session {session.id} would be erased permanently",
        why=content,
        hint=f"to do it: forestay session forget {session.id} --yes",
        session=session.id,
    )
    lines = ["This erases a session permanently:", f"  session  {session.id}", f"  goal     {goal}"]
    lines += [f"  content  {content}"]
    if erased_counts["backups"]:
        lines += [f"  backups  {erased_counts['backups']} of this home, cleaned of it"]
    screen.require_yes("to erase it", refusal, *([line] for line in lines))


# -- events ------------------------------------------------------------------------------------


def _forget_events(session: Session, names: list[str], options: Namespace, screen: Screen) -> None:
    found = session.lifecycle.forgettable(*names)
    lines = []
    for event in found:
        word, text = describe_event(LogLine(event))
        lines.append(f"  #{event.seq} {word}  {shorten(one_line(text), _WIDTH)}".rstrip())
    if options.dry_run:
        reach, remotes = session.lifecycle.reach(), _Remotes(session, found)
        known = {"session": session.id, "dry_run": True, "events": _event_values(found)}
        places = {**pick(reach, "backups aside"), "remotes": remotes.names}
        screen.answer(known, places, not_touched=_NOT_TOUCHED)
        screen.line(("Nothing was erased. These would be erased permanently:", "bold"))
        for line in lines + [f"  searched: {path}" for path in (*reach.backups, *reach.aside)]:
            screen.line(line)
        remotes.print_planned(screen)
        return
    if not options.yes:
        numbers = " ".join(f"'#{event.seq}'" for event in found)
        refusal = Refused(
            f"not erased: the content of {plural(len(found), 'event')} of session {session.id}",
            why="erasing cannot be undone, so it needs a confirmation",
            hint=f"to do it: forestay session forget {numbers} --yes",
            session=session.id,
        )
        head = f"This erases permanently, in session {session.id}:"
        more = [f"  and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
        shown = [head, *lines[:_SHOWN], *more]
        screen.require_yes("to erase it", refusal, *([line] for line in shown))
    done = session.lifecycle.forget(*[event.hash for event in found], because=options.because)
    remotes = _Remotes(session, found)
    backups = len(own_backups(session.context.store.home))
    known = {
        "forgotten": {"events": len(done.events), "backups": backups},
        "events": _event_values(done.events),
        "remotes": remotes.not_yet,
        "not_touched": _NOT_TOUCHED,
    }
    screen.answer(session.status, known, pick(done, "left removed cleaned"))
    if not done.events:
        screen.done("These were erased before; backups and files were searched again.")
    else:
        numbers = " ".join(f"#{event.seq}" for event in done.events)
        screen.done(("Erased: ", "green"), numbers, ". Their content is gone permanently.")
    for path in done.cleaned:
        screen.line(f"cleaned: {path}")
    remotes.print_result(done, screen)


def _event_values(events: list[Event]) -> list[dict[str, object]]:
    return [pick(one, "seq id kind address") for one in events]


COMMANDS = {
    "session forget": Command(
        run_forget,
        arg("names+", "SESSION|EVENT", "a session, or events of the current one: #12, an id"),
        arg("--because", "TEXT", "why events are erased"),
        flag("--force", "also erase files that other programs changed"),
        flag("--dry-run", "only show what would be erased"),
        flag("--yes", "do not ask"),
        "forestay session forget fix-login",
        "forestay session forget '#12' '#14' --because \"a password\"",
        "forestay session forget k3 --dry-run",
    )
}
