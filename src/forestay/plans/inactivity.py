"""Expiry: what becomes of a session that nobody works on. It is looked up, and deletes nothing.

After `pause_hours` without an event, and with no live process on it, a session counts as paused
from that moment on; whoever next records something, or resumes, records that first. After
`abandon_hours` it counts as abandoned: who looks is told so and offered the choices, and nothing
happens by itself. The limits are those of the session's workflow, else the settings of the same
names, else, for an essay, a day and a week; else there are none.
"""

from __future__ import annotations

from msgspec import Struct

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


class Idle(Struct, frozen=True):
    """How long nobody worked on a session, and what that means: `active`, `pause`, `abandoned`."""

    word: str
    idle_ms: int
    since: int
    limits: Expiry
    choices: list[Choice] = []


def look(session: Recorder) -> Idle:
    """What inactivity means for a session now. Changes nothing."""
    context = session.context
    with context.store.view(session.id) as view:
        state = context.journal.state(view)
        limits = _limits(session, state)
    core = state.core
    idle = max(0, context.clock.now() - core.updated_at)
    word = _judged(idle, limits) if is_open(core.status) and not _is_held(session) else "active"
    choices = _choices(session.id) if word == "abandoned" else []
    return Idle(word, idle, core.updated_at, limits, choices)


def _judged(idle: int, limits: Expiry) -> str:
    for word, hours in (("abandoned", limits.abandon_hours), ("pause", limits.pause_hours)):
        if hours and idle >= hours * HOUR:
            return word
    return "active"


def _is_held(session: Recorder) -> bool:
    """Whether some process works on it: then silence is no inactivity."""
    held = session.context.workspace.holders(session.id)
    mine = Presence.of(session.context).own_processes()
    return any(word == "alive" and holder.process not in mine for holder, word in held)


def _choices(session: str) -> list[Choice]:
    return [
        Choice("resume", "resume it", command=f"forestay resume {session}"),
        Choice(
            "abandon",
            "give it up; it stays readable",
            command=f"forestay session abandon --session {session}",
        ),
        Choice("stop", "leave it as it is"),
    ]


def _limits(session: Recorder, state: State) -> Expiry:
    context = session.context
    own = _of_workflow(session, state)
    bound = context.store.machine.bindings.bindings(session.id)
    usual = _ESSAY if any(one.layout == "essay" for one in bound) else Expiry()
    settings = context.settings
    return Expiry(
        _first(own.pause_hours, settings.pause_hours, usual.pause_hours),
        _first(own.abandon_hours, settings.abandon_hours, usual.abandon_hours),
    )


def _first(own: float | None, setting: float, usual: float | None) -> float | None:
    """The workflow says first, and may say 0 for never."""
    return own if own is not None else setting or usual


def _of_workflow(session: Recorder, state: State) -> Expiry:
    try:
        plan = session.context.journal.plan(state)
    except ForestayError:
        return Expiry()  # it is damaged, which others tell
    return plan.expiry if plan else Expiry()


def enforce(session: Recorder) -> None:
    """Record that a session was paused by inactivity, as of the moment it was."""
    found = look(session)
    hours = found.limits.pause_hours
    if found.word == "active" or not hours:
        return
    context = session.context
    with context.store.view(session.id) as view:
        if context.journal.state(view).core.status != "active":
            return
    at = found.since + int(hours * HOUR)
    why = f"no activity for {hours:g} hours"
    body = SessionPaused(reason="inactivity", context=why)
    context.journal.append(session.id, body, actor=session.actor, options=AppendOptions(at=at))
    context.notify(f"session {session.id} was paused: {why}")
