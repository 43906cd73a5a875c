"""History: the log, the state at an earlier point, differences, and what can be undone.

A *point* is an arrival number (`12`), an event (its id, whole or shortened, or `device:n`), or a
time. The state at a point is computed from the events that had arrived by then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from forestay.base.clock import iso, parse_time
from forestay.errors import InvalidInput, Refused
from forestay.journal.journal import Journal
from forestay.model import erasure, merge
from forestay.model.event import (
    Body,
    CommandRan,
    Erased,
    Event,
    EventForgotten,
    EventRetracted,
    MessageSent,
    NoteAdded,
    StepAdded,
    Unknown,
)
from forestay.model.fold import fold
from forestay.model.handlers import command_text
from forestay.model.merge import KEPT
from forestay.model.rules import check_undo, check_undo_of_task
from forestay.model.state import Line, State
from forestay.model.summary import progress
from forestay.store.port import View

_UNSTABLE = frozenset({"chains", "tips", "events", "updated_at", "counts", "notes", "commands"})
_COMMAND, _AROUND = 1000, 60
"""Longest command shown, and the characters added to each line."""
_NOT_UNDONE = frozenset({"event.retracted", "session.resumed", "session.interrupted"})


class LogLine(Struct, frozen=True):
    """An event as the log shows it; a retracted one is struck out.

    `target` is the number of the event that an undo withdraws, 0 for all other events. `device` is
    the writer if there is more than one, `name` its name, and `person` its owner if not the user.
    `forgotten` is the tombstone that names the event, and `targets` are the numbers of the events
    that a tombstone names.
    """

    event: Event
    retracted: bool = False
    target: int = 0
    device: str = ""
    forgotten: Event | None = None
    targets: list[int] = []
    name: str = ""
    person: str = ""


class Change(Struct, frozen=True):
    """One difference between two states: where, the old value, the new value."""

    where: str
    before: object
    after: object


def log(
    journal: Journal,
    view: View,
    *,
    limit: int,
    after: int,
    full: bool,
    whose: Callable[[str], tuple[str, str]],
) -> Iterator[LogLine]:
    """Yield events as the log shows them; with `full`, long text is read from its blob.

    `whose` gets a device id and returns the name of the device and its owner.
    """
    gone, several = _retracted(journal, view), len(journal.state(view).core.chains) > 1
    events = journal.events(view, after=after, limit=limit, newest=limit >= 0)
    selected = reversed(list(events)) if limit >= 0 else events
    numbers: dict[str, int] = {}
    stones, by_hash = _tombstones(journal, view)
    for event in selected:
        numbers[event.id] = event.seq
        body, target = event.body, 0
        if isinstance(body, EventRetracted):
            if body.event not in numbers:
                numbers.update({event.id: event.seq for event in journal.events(view)})
            target = numbers.get(body.event, 0)
        named = body.hashes if isinstance(body, EventForgotten) else []
        stone = stones.get(event.hash) or stones.get(event.id)
        device, (name, person) = event.head.device, whose(event.head.device)
        yield LogLine(
            _whole(event, journal) if full else event,
            event.id in gone,
            target,
            device if several else "",
            stone if event.kind not in erasure.KINDS else None,
            [by_hash[hash] for hash in named if hash in by_hash],
            name,
            person,
        )


def _tombstones(journal: Journal, view: View) -> tuple[dict[str, Event], dict[str, int]]:
    """Return name → tombstone of each forgotten event, and hash → number of every event.

    The events are read only if one of them is erased; otherwise both are empty.
    """
    stones: dict[str, Event] = {}
    numbers: dict[str, int] = {}
    for event in journal.events(view) if journal.state(view).core.erased else ():
        numbers[event.hash] = event.seq
        if isinstance(event.body, EventForgotten):
            for name in (*event.body.hashes, *event.body.ids):
                stones.setdefault(name, event)
    return stones, numbers


def _whole(event: Event, journal: Journal) -> Event:
    body = event.body
    if not isinstance(body, NoteAdded | MessageSent) or not body.blob:
        return event
    data = journal.store.blob(body.blob)
    return event if data is None else replace(event, body=replace(body, text=data.decode()))


def _retracted(journal: Journal, view: View) -> set[str]:
    state = journal.state(view)
    if not state.core.retracted:
        return set()
    return merge.retracted(merge.in_order(journal.events(view)))


def recent_lines(journal: Journal, view: View, most: int) -> tuple[list[Line], list[Line]]:
    """Return the newest notes and commands, oldest first, at most `most` characters of each."""
    gone = _retracted(journal, view)
    room = {"note.added": most, "command.ran": most}
    found: dict[str, list[Event]] = {kind: [] for kind in room}
    for event in journal.events(view, newest=True):
        if room.get(event.kind, 0) > 0 and event.id not in gone and (text := _text_of(event.body)):
            room[event.kind] -= len(text) + _AROUND
            found[event.kind].append(event)
        elif max(room.values()) <= 0:
            break
    notes, commands = (
        [
            Line(event.id, event.head.at, event.head.actor, _text_of(event.body), event.head.device)
            for event in merge.in_order(events)
        ]
        for events in found.values()
    )
    return notes, commands


def _text_of(body: Body) -> str:
    """Return the text of a note or a command; "" for notes that a briefing shows elsewhere."""
    if isinstance(body, NoteAdded):
        return "" if body.for_next else body.text
    return command_text(body, _COMMAND) if isinstance(body, CommandRan) else ""


def event_to_json(line: LogLine) -> dict[str, Any]:
    """Return an event as JSON values: what `log --json` prints."""
    event, head, stone = line.event, line.event.head, line.forgotten
    return {
        "seq": event.seq,
        "id": event.id,
        "session": head.session,
        "kind": event.kind,
        "at": iso(head.at, millis=True),
        "at_ms": head.at,
        "actor": head.actor,
        "device": head.device,
        "device_name": line.name,
        "person": line.person or None,
        "n": head.n,
        "address": event.address,
        "hash": event.hash,
        "data": _body_to_json(event.body),
        "retracted": line.retracted,
        "forgotten": stone
        and {
            "at": iso(stone.head.at, millis=True),
            "by": stone.head.actor,
            "because": getattr(stone.body, "because", ""),
            "seq": stone.seq,
        },
    }


def _body_to_json(body: Body) -> Any:
    if not isinstance(body, Unknown):
        return msgspec.to_builtins(body)
    try:
        return msgspec.json.decode(body.raw)
    except (msgspec.MsgspecError, RecursionError):
        return {"raw": body.raw}


def state_to_json(state: State) -> dict[str, Any]:
    """Return a state as JSON values: what `show --json` prints."""
    core = state.core
    done, source = progress(state)
    rows: dict[str, list[Any]] = {}
    for table, _, row in sorted(state.rows.items(), key=lambda item: item[2].rank):
        rows.setdefault(table, []).append(msgspec.to_builtins(row))
    return {
        "session": core.session,
        "status": core.status,
        "goal": core.goal,
        "progress": round(done, 4),
        "progress_from": source,
        "seq": core.events,
        "core": msgspec.to_builtins(core),
        "rows": rows,
    }


def find_event(events: Sequence[Event], text: str) -> Event:
    """Return the event that a text of the user names: by number, id, or `device:n`.

    Raise `InvalidInput` if the text names no event, or several.
    """
    name = text.removeprefix("#")
    if name.isascii() and name.isdigit():
        found = [e for e in events if e.seq == int(name)]
    else:
        found = [e for e in events if text in (e.address, e.id, e.hash)]
        found = found or [e for e in events if e.id.startswith(text.lower())]
    if len(found) == 1:
        return found[0]
    several = f"{text} could be any of {len(found)} events"
    raise InvalidInput(several if found else f"there is no event {text}", hint="forestay log")


def undo_targets(events: Sequence[Event], text: str) -> list[Event]:
    """Return the events that an undo withdraws: one event and those recorded together with it.

    `text` names the event; if it is empty, the last event that can be undone is chosen.
    """
    gone = merge.retracted(merge.in_order(events))
    last = find_event(events, text) if text else _last_done(events, gone)
    if last.id in gone:
        raise Refused(f"event {last.seq} was already undone", hint="forestay log")
    if isinstance(last.body, Erased):
        why = "its content is erased, so it has no effect any more"
        what = f"event {last.seq} was forgotten and cannot be undone"
        raise Refused(what, why=why, hint="forestay log")
    targets = [
        event
        for event in _together(events, last)
        if event.id not in gone and not isinstance(event.body, Erased)
    ]
    others = [event for event in events if event not in targets and event.id not in gone]
    for event in targets:
        check_undo(event.kind, is_read=event.is_read)
        if isinstance(event.body, StepAdded):
            check_undo_of_task(event.body.step, others)
    return targets


def _last_done(events: Sequence[Event], gone: Collection[str]) -> Event:
    # Resuming a session is not undone.
    done = (e for e in reversed(events) if e.kind not in _NOT_UNDONE and e.id not in gone)
    last = next((e for e in done if not isinstance(e.body, Erased)), None)
    if last is not None and last.kind in erasure.KINDS:
        return last  # the caller refuses it; an older event must not be undone instead
    if last is None or any(event.kind in KEPT for event in _together(events, last)):
        raise Refused("there is nothing to undo", hint="forestay log")
    return last


def _together(events: Sequence[Event], last: Event) -> list[Event]:
    """Return the events that one call recorded; `last` is the last of them (see `journal`)."""
    device, part = last.head.device, f"{last.id}-"
    return [
        event
        for event in events
        if event is last or (event.id.startswith(part) and event.head.device == device)
    ]


def events_until(events: Sequence[Event], point: str, now: int, naive: str) -> Sequence[Event]:
    """Return the events that had arrived by a point; an empty point means now."""
    if not point:
        return events
    try:
        return events[: find_event(events, point).seq]
    except InvalidInput:
        if point.removeprefix("#").isdigit():
            raise
    try:
        moment = parse_time(point, now, naive=naive)
    except InvalidInput:
        what = f"{point} is not a number in the log, an event or a time"
        raise InvalidInput(what, hint="forestay log") from None
    reached = sum(1 for event in events if event.head.at <= moment)
    if events and not reached:
        began = iso(min(event.head.at for event in events))
        what = f"there was no session yet at {iso(moment)}"
        raise InvalidInput(what, why=f"it began at {began}", hint="forestay log")
    return events[:reached]


def diff_states(a: Sequence[Event], b: Sequence[Event]) -> list[Change]:
    """Return the differences between the states after the events `a` and after the events `b`.

    Differences of the core come first, then those of rows, notes and commands.
    """
    before, after = ({**_flat(fold(events)), **_lines(events)} for events in (a, b))
    names = [*before, *(name for name in after if name not in before)]
    return [
        Change(name, before.get(name), after.get(name))
        for name in names
        # Of a new or removed row, empty fields are not listed.
        if before.get(name) != after.get(name)
        and (before.get(name) or after.get(name) or (name in before and name in after))
    ]


def _flat(state: State) -> dict[str, Any]:
    core = _fields(state.core)
    flat = {name: value for name, value in core.items() if name not in _UNSTABLE}
    for table, key, row in sorted(state.rows.items(), key=lambda item: (item[0], item[2].rank)):
        for name, value in _fields(row).items():
            if name not in ("rank", "at"):
                flat[f"{table} {key}: {name}"] = value
    return flat


def _lines(events: Sequence[Event]) -> dict[str, Any]:
    """Return notes and commands, which have no rows, in the form of rows."""
    gone = merge.retracted(merge.in_order(events))
    texts = [(e.kind.partition(".")[0], e.id, _text_of(e.body)) for e in events if e.id not in gone]
    return {
        f"{table} {id}: {name}": value
        for table, id, text in texts
        for name, value in (("event", id), ("text", text))
        if text
    }


def _fields(value: Struct) -> dict[str, Any]:
    """Return field name → value for all fields, also those that JSON omits as defaults."""
    return {n: msgspec.to_builtins(getattr(value, n)) for n in value.__struct_fields__}
