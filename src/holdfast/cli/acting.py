"""What recording commands have in common: which session is meant, and how the answer is said."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.cli.screen import Part, Screen
    from holdfast.home import Holdfast
    from holdfast.model.event import Event
    from holdfast.session import Session


def meant(hf: Holdfast, *, finished: bool = False) -> Session:
    """The session a recording command means; a finished one only if that makes sense."""
    return hf.current(open_only=not finished)


def confirm(session: Session, event: Event, screen: Screen, *said: Part, then: str = "") -> None:
    """Say that an event was recorded, and who else is at work on the session."""
    others = at_work(session)
    if screen.json:
        recorded = {"seq": event.seq, "id": event.id, "kind": event.kind}
        screen.answer({**session.status(), "event": recorded, "others": others})
        return
    screen.done((f"#{event.seq} ", "dim"), *said)
    screen.hint("next: ", then)
    tell_others(others, screen)


def tell_others(others: list[dict[str, Any]], screen: Screen) -> None:
    if others:
        names = ", ".join(f"{one['name']} (pid {one['pid']})" for one in others)
        screen.aside(("also at work on this session: ", "yellow"), names)


def at_work(session: Session) -> list[dict[str, Any]]:
    """Others who work on the session, as far as can be known."""
    from holdfast.view import holder_view

    held = session.home.others(session.id)
    return [holder_view(holder, word) for holder, word in held if word != "dead"]
