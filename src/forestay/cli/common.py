"""What recording commands have in common: which session is meant, and how the answer is said.

What is said is what was stored: the words of the event, never the words that were typed, which
may hold a secret that was taken out.
"""

from __future__ import annotations

from forestay.api.status import looks_damaged, recorded
from forestay.base.vocabulary import FINISHED
from forestay.errors import ForestayError

__all__ = [
    "at_work",
    "confirm",
    "is_essay",
    "left_out",
    "meant",
    "recorded",
    "tell_damage",
    "tell_finished",
    "tell_others",
    "tell_outvoted",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from forestay.api.forestay import Forestay
    from forestay.api.session import Session
    from forestay.cli.terminal import Part, Screen
    from forestay.model.event import Event


def meant(stay: Forestay, *, finished: bool = False) -> Session:
    """The session a recording command means; a finished one only if that makes sense.

    What hooks said before is recorded first, as far as that is quick.
    """
    stay.agents.catch_up()
    return stay.current(open_only=not finished)


def is_essay(session: Session) -> bool:
    """Whether a session has an essay's files, or its workflow."""
    if any(binding.layout == "essay" for binding in session.files.list()):
        return True
    try:
        return bool(session.status()["workflow"] == "essay")
    except ForestayError:
        return False


def confirm(
    session: Session,
    event: Event,
    screen: Screen,
    *said: Part,
    then: str = "",
    **more: object,
) -> None:
    """Say that an event was recorded, and what whoever recorded it should know besides.

    `more` are further fields of the JSON answer.
    """
    others, damaged = at_work(session), looks_damaged(session.context, session.id)
    if screen.json:
        known = {"repeated": session.repeated, "others": others, "damaged": damaged, **more}
        screen.answer({**session.status(), "event": recorded(event), **known})
        return
    again: list[Part] = [("already recorded: ", "yellow")] if session.repeated else []
    screen.done((f"#{event.seq} ", "dim"), *again, *said, *left_out(event), *_where(session))
    screen.hint("next: ", then)
    tell_others(others, screen)
    if damaged:
        tell_damage(session, screen)


def _where(session: Session) -> list[Part]:
    """The session, when it is not the one that this folder would lead one to expect."""
    context = session.context
    elsewhere = not context.settings.session and context.workspace.is_overridden()
    return [(f" – in session {session.id}", "dim")] if elsewhere else []


def left_out(event: Event) -> list[Part]:
    """Say when a secret was taken out before anything was stored."""
    names = ", ".join(event.body.redacted)
    return [(f" – left out, it looked secret: {names}", "yellow")] if names else []


def tell_damage(session: Session, screen: Screen) -> None:
    said = f"session {session.id} is damaged; see what is wrong: "
    line = screen.as_typed(f"forestay verify {session.id}")
    screen.aside(("attention: ", "yellow"), said, (line, "cyan"))


def tell_outvoted(session: Session, screen: Screen) -> None:
    """Say when choosing a session for this folder does not decide where commands go."""
    context, named = session.context, session.context.settings.session
    meant = named or context.workspace.current()
    if not meant or meant == session.id:
        return
    if not named and not context.workspace.is_overridden():
        return  # it was not taken up, so what was current in this folder still is
    origin = context.settings.origin("session")
    who = f"{origin} names" if named else "a process above this one works on"
    how = (f"forestay … --session {session.id}", "cyan")
    screen.aside(("but ", "yellow"), f"{who} {meant}, so commands go there; to mean it: ", how)


def tell_finished(session: Session, screen: Screen) -> None:
    """Say that what was described is over; only a session that was named can be."""
    if session.context.settings.session and not screen.json:
        status = session.status()["status"]
        if status in FINISHED:
            screen.aside(("attention: ", "yellow"), f"session {session.id} is {status}")


def tell_others(others: list[dict[str, Any]], screen: Screen) -> None:
    if others:
        names = ", ".join(f"{one['name']} (pid {one['pid']})" for one in others)
        screen.aside(("also at work on this session: ", "yellow"), names)


def at_work(session: Session) -> list[dict[str, Any]]:
    """Others who work on the session, as far as can be known."""
    from forestay.api.status import holder_view

    held = session.agents.others()
    return [holder_view(holder, word) for holder, word in held if word != "dead"]
