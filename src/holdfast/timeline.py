"""Looking back: the log, the state at an earlier point, what changed, and what can be undone.

A *point* is an arrival number (`12`), an event (its id, whole or shortened, or `device:n`), or a
time. The state at a point is the fold of what had arrived by then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.clock import iso, parse_time
from holdfast.errors import InvalidInput, Refused
from holdfast.journal import Journal
from holdfast.model import merge, tombstone
from holdfast.model.event import (
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
from holdfast.model.fold import fold
from holdfast.model.meaning import command_text
from holdfast.model.merge import KEPT
from holdfast.model.rules import check_undo, check_undo_of_task
from holdfast.model.state import Line, State
from holdfast.model.summary import progress
from holdfast.store import View

_UNSTABLE = frozenset({"chains", "tips", "events", "updated_at", "counts", "notes", "commands"})
_COMMAND, _AROUND = 1000, 60
"""How long a command may be when it is told again, and how much is said with each line."""
_PASSED_OVER = frozenset({"event.retracted", "session.resumed", "session.interrupted"})


class LogLine(Struct, frozen=True):
    """An event as the log shows it; a retracted one is struck out.

    `target` is the number of the event that an undo withdraws, 0 for everything else. `device`
    is the one that wrote it, where more than one did; `name` what it is called, `person` whose it
    is, if not the user's. `forgotten` is the tombstone that names it, and `targets` are the
    numbers of what a tombstone names.
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
    """One difference between two states: where, what it was, what it is."""

    where: str
    before: Any
    after: Any


def log(
    journal: Journal,
    view: View,
    *,
    limit: int,
    after: int,
    full: bool,
    whose: Callable[[str], tuple[str, str]],
) -> Iterator[LogLine]:
    """Events as the log shows them; with `full`, text that is kept apart is whole.

    `whose` tells the name of a device and the person.
    """
    gone, several = _retracted(journal, view), len(journal.state(view).core.chains) > 1
    events = journal.events(view, after=after, limit=limit, newest=limit >= 0)
    shown = reversed(list(events)) if limit >= 0 else events
    numbers: dict[str, int] = {}
    stones = _Stones(journal, view)
    for event in shown:
        numbers[event.id] = event.seq
        target = _target(event.body, numbers, journal, view)
        told = _whole(event, journal) if full else event
        device, name, person = event.head.device, *whose(event.head.device)
        yield LogLine(
            told,
            event.id in gone,
            target,
            device if several else "",
            stones.of(event),
            stones.targets(event),
            name,
            person,
        )


class _Stones:
    """Who forgot which events; the journal is looked through only where one is erased."""

    def __init__(self, journal: Journal, view: View) -> None:
        self._journal, self._view = journal, view
        self._has_any = bool(journal.state(view).core.erased)
        self._by: dict[str, Event] = {}
        self._numbers: dict[str, int] = {}

    def of(self, event: Event) -> Event | None:
        self._look()
        found = self._by.get(event.hash) or self._by.get(event.id)
        return found if found and event.kind not in tombstone.KINDS else None

    def targets(self, event: Event) -> list[int]:
        if not isinstance(event.body, EventForgotten):
            return []
        self._look()
        return [self._numbers[hash] for hash in event.body.hashes if hash in self._numbers]

    def _look(self) -> None:
        if not self._has_any or self._numbers:
            return
        for event in self._journal.events(self._view):
            self._numbers[event.hash] = event.seq
            if isinstance(event.body, EventForgotten):
                names = (*event.body.hashes, *event.body.ids)
                self._by.update((name, event) for name in names if name not in self._by)


def _whole(event: Event, journal: Journal) -> Event:
    body = event.body
    if not isinstance(body, NoteAdded | MessageSent) or not body.blob:
        return event
    data = journal.store.blob(body.blob)
    return event if data is None else replace(event, body=replace(body, text=data.decode()))


def _target(body: Body, numbers: dict[str, int], journal: Journal, view: View) -> int:
    if not isinstance(body, EventRetracted):
        return 0
    if body.event not in numbers:
        numbers.update({event.id: event.seq for event in journal.events(view)})
    return numbers.get(body.event, 0)


def _retracted(journal: Journal, view: View) -> set[str]:
    state = journal.state(view)
    if not state.core.retracted:
        return set()
    return merge.retracted(merge.in_order(journal.events(view)))


def look_back(journal: Journal, view: View, most: int) -> tuple[list[Line], list[Line]]:
    """The newest notes and commands, oldest first, as much of each as `most` characters hold."""
    gone = _retracted(journal, view)
    room = {"note.added": most, "command.ran": most}
    found: dict[str, list[Event]] = {kind: [] for kind in room}
    for event in journal.events(view, newest=True):
        if room.get(event.kind, 0) > 0 and event.id not in gone and (text := _retold(event.body)):
            room[event.kind] -= len(text) + _AROUND
            found[event.kind].append(event)
        elif max(room.values()) <= 0:
            break
    notes, commands = (_as_lines(events) for events in found.values())
    return notes, commands


def _as_lines(events: Sequence[Event]) -> list[Line]:
    ordered = merge.in_order(events)
    return [Line(e.id, e.head.at, e.head.actor, _retold(e.body), e.head.device) for e in ordered]


def _retold(body: Body) -> str:
    """A note in full, or a command; nothing for notes that a briefing puts elsewhere."""
    if isinstance(body, NoteAdded):
        return "" if body.for_next else body.text
    return command_text(body, _COMMAND) if isinstance(body, CommandRan) else ""


def plain_event(line: LogLine) -> dict[str, Any]:
    """An event as JSON values: what `log --json` prints."""
    event, head = line.event, line.event.head
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
        "data": _plain_body(event.body),
        "retracted": line.retracted,
        "forgotten": _plain_stone(line.forgotten),
    }


def _plain_stone(stone: Event | None) -> dict[str, Any] | None:
    """Who forgot an event, when, and why; None if nobody did."""
    if stone is None:
        return None
    because = getattr(stone.body, "because", "")
    return {
        "at": iso(stone.head.at, millis=True),
        "by": stone.head.actor,
        "because": because,
        "seq": stone.seq,
    }


def _plain_body(body: Body) -> Any:
    if not isinstance(body, Unknown):
        return msgspec.to_builtins(body)
    try:
        return msgspec.json.decode(body.raw)
    except (msgspec.MsgspecError, RecursionError):
        return {"raw": body.raw}


def plain_state(state: State) -> dict[str, Any]:
    """A state as JSON values: what `show --json` prints."""
    core = state.core
    done, told_by = progress(state)
    rows: dict[str, list[Any]] = {}
    for table, _, row in sorted(state.rows.items(), key=lambda item: item[2].rank):
        rows.setdefault(table, []).append(msgspec.to_builtins(row))
    return {
        "session": core.session,
        "status": core.status,
        "goal": core.goal,
        "progress": round(done, 4),
        "progress_from": told_by,
        "seq": core.events,
        "core": msgspec.to_builtins(core),
        "rows": rows,
    }


def find_event(events: Sequence[Event], text: str) -> Event:
    """The event a user's text names."""
    name = text.removeprefix("#")
    if name.isascii() and name.isdigit():
        found = [e for e in events if e.seq == int(name)]
    else:
        found = [e for e in events if text in (e.address, e.id, e.hash)]
        found = found or [e for e in events if e.id.startswith(text.lower())]
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidInput(f"{text} could be any of {len(found)} events", hint="holdfast log")
    raise InvalidInput(f"there is no event {text}", hint="holdfast log")


def undo_targets(events: Sequence[Event], text: str) -> list[Event]:
    """The events to withdraw: those recorded with the one named, else with the last that can be."""
    gone = merge.retracted(merge.in_order(events))
    last = find_event(events, text) if text else _last_done(events, gone)
    if last.id in gone:
        raise Refused(f"event {last.seq} is withdrawn already", hint="holdfast log")
    if isinstance(last.body, Erased):
        why = "what it said is gone, and counts for nothing since"
        raise Refused(f"event {last.seq} was forgotten", why=why, hint="holdfast log")
    taken = [
        event
        for event in _together(events, last)
        if event.id not in gone and not isinstance(event.body, Erased)
    ]
    others = [event for event in events if event not in taken and event.id not in gone]
    for event in taken:
        check_undo(event.kind, is_read=event.is_read)
        if isinstance(event.body, StepAdded):
            check_undo_of_task(event.body.step, others)
    return taken


def _last_done(events: Sequence[Event], gone: Collection[str]) -> Event:
    # Picking a session up is not what people mean to take back.
    done = (e for e in reversed(events) if e.kind not in _PASSED_OVER and e.id not in gone)
    last = next((e for e in done if not isinstance(e.body, Erased)), None)
    if last is not None and last.kind in tombstone.KINDS:
        return last  # nothing leads back from it, and nobody means what was before it
    if last is None or any(event.kind in KEPT for event in _together(events, last)):
        raise Refused("there is nothing to undo", hint="holdfast log")
    return last


def _together(events: Sequence[Event], last: Event) -> list[Event]:
    """What was recorded in one go with its last event; see `journal`."""
    device, part = last.head.device, f"{last.id}-"
    return [
        event
        for event in events
        if event is last or (event.id.startswith(part) and event.head.device == device)
    ]


def until(events: Sequence[Event], point: str, now: int, naive: str) -> Sequence[Event]:
    """What had arrived by a point; an empty one means now."""
    return events if not point else events[: _reach(events, point, now, naive)]


def _reach(events: Sequence[Event], point: str, now: int, naive: str) -> int:
    try:
        return find_event(events, point).seq
    except InvalidInput:
        if point.removeprefix("#").isdigit():
            raise
    try:
        moment = parse_time(point, now, naive=naive)
    except InvalidInput:
        raise InvalidInput(
            f"{point} is neither a number of the log, an event nor a time", hint="holdfast log"
        ) from None
    reached = sum(1 for event in events if event.head.at <= moment)
    if events and not reached:
        began = iso(min(event.head.at for event in events))
        raise InvalidInput(f"there was no session yet at {iso(moment)}", why=f"it began at {began}")
    return reached


def changes(a: Sequence[Event], b: Sequence[Event]) -> list[Change]:
    """What two points of a session differ in: core first, row by row, then notes and commands."""
    before, after = ({**_flat(fold(events)), **_lines(events)} for events in (a, b))
    names = [*before, *(name for name in after if name not in before)]
    return [
        Change(name, before.get(name), after.get(name))
        for name in names
        if before.get(name) != after.get(name) and _says_something(name, before, after)
    ]


def _says_something(name: str, before: dict[str, Any], after: dict[str, Any]) -> bool:
    """A row that came or went need not tell what it left empty."""
    return bool(before.get(name) or after.get(name)) or (name in before and name in after)


def _flat(state: State) -> dict[str, Any]:
    core = _fields(state.core)
    flat = {name: value for name, value in core.items() if name not in _UNSTABLE}
    for table, key, row in sorted(state.rows.items(), key=lambda item: (item[0], item[2].rank)):
        for name, value in _fields(row).items():
            if name not in ("rank", "at"):
                flat[f"{table} {key}: {name}"] = value
    return flat


def _lines(events: Sequence[Event]) -> dict[str, Any]:
    """Notes and commands, which have no rows, in the form of rows."""
    gone = merge.retracted(merge.in_order(events))
    told = [(e.kind.partition(".")[0], e.id, _retold(e.body)) for e in events if e.id not in gone]
    flat: dict[str, Any] = {}
    for table, id, text in told:
        if text:
            flat |= {f"{table} {id}: event": id, f"{table} {id}: text": text}
    return flat


def _fields(value: Struct) -> dict[str, Any]:
    """Every field, also those that JSON leaves out while they have their default."""
    return {n: msgspec.to_builtins(getattr(value, n)) for n in value.__struct_fields__}
