"""Fold a journal into a state, in merge order; the effect of each event is in `handlers`.

`fold` is total: it accepts any set of events, in any order of arrival, and never raises.

`extend` is the fast way for an event that has seen everything folded so far (every local append,
and the work of another device that continues it). Anything that reaches back (a concurrent event,
a retraction, a tombstone) needs the whole fold again; `follows` decides that. So does an event
whose id occurred before: only the caller can know that, because the core stores no ids.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from forestay.model import event as ev
from forestay.model.event import Event, Header
from forestay.model.handlers import HANDLERS
from forestay.model.merge import (
    Past,
    Side,
    Statements,
    in_order,
    parents,
    retracted,
    stances,
)
from forestay.model.state import Chain, Core, Dispute, State


def fold(events: Iterable[Event]) -> State:
    """Return the state of a journal: the same for the same events, in any order of arrival."""
    ordered = in_order(events)
    state = State()
    past = Past(ordered)
    statements = None if past.linear else Statements(past)
    gone = retracted(ordered)
    met: set[str] = set()
    for event in ordered:
        advance(state.core, event)
        is_new = event.id not in met
        met.add(event.id)
        if event.id in gone:
            state.core.retracted += is_new
            continue
        if is_new:
            apply(state, event, statements.outlasting(event) if statements is not None else None)
        if statements is not None:
            _note_disputes(state, event, statements.add(event))
    return state


def follows(state: State, event: Event) -> bool:
    """Return whether `extend` may be used: the event has seen every head and undoes nothing."""
    return comes_after(state.core.tips, state.core.clock, event.head)


def comes_after(tips: list[str], clock: int, head: Header) -> bool:
    """Return what `follows` returns, given only the tips and the clock of a state."""
    if head.kind in _REACHING_BACK or head.clock <= clock:
        return False
    if not head.seen:
        return not tips or tips == [head.prev]
    return set(tips) <= {head.prev, *(digest for _, _, digest in head.seen_heads())}


_REACHING_BACK = frozenset({ev.KIND_OF[ev.EventRetracted], ev.KIND_OF[ev.EventForgotten]})


def extend(state: State, event: Event) -> None:
    """Add one event with a new id that follows everything folded so far, in place."""
    advance(state.core, event)
    apply(state, event)
    if "dispute.open" in state.core.counts:
        # The event has seen all sides, so every subject it states an outcome for is settled.
        _note_disputes(state, event, [(stance.subject, []) for stance in stances(event)])


def advance(core: Core, event: Event) -> None:
    """Count the event and update chains and tips, also for events without an effect."""
    head = event.head
    core.session = core.session or head.session
    core.events += 1
    if head.clock > core.clock:
        core.clock = head.clock
    core.updated_at = head.at
    chain = core.chains.get(head.device)
    if chain is None:
        chain = core.chains[head.device] = Chain([], {})
    end, heads = (head.n, event.hash, head.clock), chain.heads
    if len(heads) == 1 and heads[0][1] == head.prev:
        chain.heads = [end]
    else:
        chain.heads = [*(other for other in heads if other[1] != head.prev), end]
    if head.seen:
        chain.seen = {**chain.seen, **head.seen}
        known = parents(event)
        core.tips = [*(tip for tip in core.tips if tip not in known), event.hash]
    elif core.tips == [head.prev]:
        core.tips = [event.hash]
    else:
        core.tips = [*(tip for tip in core.tips if tip != head.prev), event.hash]


def apply(state: State, event: Event, outlasting: Event | None = None) -> None:
    """Apply the effect of one event. Total: unknown and erased events are only counted.

    `outlasting` is the outcome that stands although this event continued the work unaware of it.
    """
    body, core = event.body, state.core
    state.writer = event.head.device if len(core.chains) > 1 else ""
    if core.held:
        _restore_held(core)
    for name in body.redacted:
        core.redacted[name] = core.redacted.get(name, 0) + 1
    handler = HANDLERS.get(type(body))
    if outlasting is not None:
        _restate(state, outlasting)
    elif handler is not None:
        handler(state, event, body)
    if core.forgotten:
        core.status = "abandoned"
    if "dispute.open" in core.counts:
        _keep_active_while_disputed(state)


def _restate(state: State, event: Event) -> None:
    """Apply an outcome again if another, retracted since, had replaced it."""
    for subject, outcome in stances(event):
        table, _, key = subject.partition(":")
        unit = state.rows.get(table, key)
        if unit is None or unit.word != outcome:
            state.writer = event.head.device
            HANDLERS[type(event.body)](state, event, event.body)


def _note_disputes(state: State, event: Event, changed: list[tuple[str, list[Side]]]) -> None:
    """Store the disputes that this event changed; a dispute without sides is settled."""
    state.writer = event.head.device if len(state.core.chains) > 1 else ""
    _restore_held(state.core)
    for subject, sides in changed:
        old = state.rows.get("dispute", subject)
        if sides:
            stated = [(s.hash, s.device, s.n, s.outcome) for s in sides]
            rank, at = state.core.events, event.head.at
            state.put("dispute", Dispute(rank=rank, at=at, subject=subject, sides=stated))
        elif isinstance(old, Dispute) and old.is_open:
            state.put("dispute", replace(old, settled_by=event.hash))
    _keep_active_while_disputed(state)


def _keep_active_while_disputed(state: State) -> None:
    core = state.core
    if not core.forgotten and state.open_dispute():
        # Until it is settled the session must not be archived nor its files removed.
        core.held = {name: getattr(core, name) for name in _ACTIVE}
        for name, value in _ACTIVE.items():
            setattr(core, name, value)


def _restore_held(core: Core) -> None:
    for name, value in core.held.items():
        setattr(core, name, value)
    core.held = {}


_ACTIVE: dict[str, str | int | bool] = {
    "status": "active",
    "archived": False,
    "ended_at": 0,
    "because": "",
    "paused_at": 0,
    "pause_reason": "",
    "pause_context": "",
}
