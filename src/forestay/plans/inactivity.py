"""Decide when an inactive session counts as paused or abandoned. Nothing is deleted.

After `pause_hours` without an event or a live process, a session counts as paused from that moment;
the next command that records or resumes records the pause first. After `abandon_hours` it counts
as abandoned: readers see that and the choices, and nothing happens automatically. The limits come
from the session's workflow, else from the settings of the same names, else, for an essay, they are
a day and a week; otherwise there are none.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct

from forestay.base.clock import to_datetime, to_ms
from forestay.base.findings import Choice
from forestay.errors import ForestayError
from forestay.formats.essay.display import ABANDONED_AFTER, HOUR, PAUSE_AFTER
from forestay.journal.journal import AppendOptions
from forestay.journal.presence import Presence
from forestay.journal.recorder import Recorder
from forestay.model.event import SessionPaused
from forestay.model.plan import Expiry
from forestay.model.state import State
from forestay.workspace.current_session import is_open

_ESSAY = Expiry(PAUSE_AFTER / HOUR, ABANDONED_AFTER / HOUR)


Word = Literal["active", "pause", "abandoned"]


class Idle(Struct, frozen=True):
    """How long a session was inactive, and the result: `active`, `pause` or `abandoned`."""

    word: Word
    idle_ms: int
    since: datetime
    limits: Expiry
    choices: list[Choice] = []


def look(session: Recorder) -> Idle:
    """Return the inactivity of a session now. Changes nothing."""
    context = session.context
    with context.store.view(session.id) as view:
        state = context.journal.state(view)
        limits = _limits(session, state)
    idle = max(0, context.clock.now() - state.core.updated_at)
    # A session on which a live process works is not inactive.
    mine = Presence.of(context).own_processes()
    is_held = any(
        word == "alive" and holder.process not in mine
        for holder, word in context.workspace.holders(session.id)
    )
    word: Word = "active"
    if is_open(state.core.status) and not is_held:
        if limits.abandon_hours and idle >= limits.abandon_hours * HOUR:
            word = "abandoned"
        elif limits.pause_hours and idle >= limits.pause_hours * HOUR:
            word = "pause"
    choices = []
    if word == "abandoned":
        abandon = f"forestay session abandon --session {session.id}"
        choices = [
            Choice("resume", "resume it", command=f"forestay resume {session.id}"),
            Choice("abandon", "abandon it; it stays readable", command=abandon),
            Choice("stop", "do nothing"),
        ]
    return Idle(word, idle, to_datetime(state.core.updated_at), limits, choices)


def _limits(session: Recorder, state: State) -> Expiry:
    context, settings = session.context, session.context.settings
    try:
        plan = context.journal.plan(state)
    except ForestayError:
        plan = None  # the stored plan is damaged, which other checks report
    own = plan.expiry if plan else Expiry()
    bound = context.store.machine.bindings.bindings(session.id)
    usual = _ESSAY if any(one.format == "essay" for one in bound) else Expiry()
    return Expiry(
        _first(own.pause_hours, settings.pause_hours, usual.pause_hours),
        _first(own.abandon_hours, settings.abandon_hours, usual.abandon_hours),
    )


def _first(own: float | None, setting: float, usual: float | None) -> float | None:
    """Return the limit of the workflow, else of the settings, else the usual one.

    A 0 in a workflow means that there is no limit.
    """
    return own if own is not None else setting or usual


def enforce(session: Recorder) -> None:
    """Record that a session was paused by inactivity, with the time when that happened."""
    found = look(session)
    hours = found.limits.pause_hours
    if found.word == "active" or not hours:
        return
    context = session.context
    with context.store.view(session.id) as view:
        if context.journal.state(view).core.status != "active":
            return
    at = to_ms(found.since) + int(hours * HOUR)
    why = f"no activity for {hours:g} hours"
    body = SessionPaused(reason="inactivity", context=why)
    context.journal.append(session.id, body, actor=session.actor, options=AppendOptions(at=at))
    context.notify(f"session {session.id} was paused: {why}")
