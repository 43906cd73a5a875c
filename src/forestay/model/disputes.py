"""Describe open disputes for the user who settles them, and make the events that settle one.

A *case* is an open dispute with its *sides*: which device stated what, when, and which side is
newer. It is settled by stating an outcome again, by an event that has seen all sides; so nothing
is removed from the journal, and no separate kind of event is needed. There are three ways:

    prefer      state the outcome of one side again
    merge       combine both into one statement: the most advanced outcome, both choices
    keep both   choose neither: a task is marked for review, both choices are made

Clocks of devices may disagree. They decide which side is newer only while they do not contradict
what each device had seen; otherwise the side that knew more of the session is the newer one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from forestay.base.text import ago
from forestay.base.vocabulary import FINISHED
from forestay.model import event as ev
from forestay.model.event import Body, Event
from forestay.model.fold import fold
from forestay.model.handlers import BOTH, SETTLED
from forestay.model.merge import ENDINGS, SESSION, WENT_ON, in_order, parents, position
from forestay.model.state import EDIT, Agent, Dispute, Edit, State
from forestay.model.summary import FILE, JOURNAL, plain_outcome, progress, subject, summary

_MINUTE = 60_000
_FURTHEST = ("done", "failed", "timed_out", "blocked", "skipped")
_TEXTS = ("outcome", "result", "error", "because", "chosen", "goal", "title", "reason")
_NAMES = ("what", "name", "path", "step", "agent", "claim", "workflow", "key")


class Side(Struct, frozen=True):
    """The statement of one device. `number` counts from 1; `event` is an id, `said` its text."""

    number: int
    outcome: str
    device: str
    at: int
    by: str
    event: str
    said: str = ""


class Case(Struct, frozen=True):
    """An open dispute. `newer` is the number of the newer side, `why` the reason for that."""

    number: int
    subject: str
    about: str
    sides: list[Side]
    newer: int
    why: str

    @property
    def kind(self) -> str:
        return self.subject.partition(":")[0]


class DeviceView(Struct, frozen=True):
    """What one device knew of the session when it last wrote."""

    device: str
    last_modified: int
    progress: float
    active_agents: list[str]
    events: int


def cases(events: Sequence[Event], state: State) -> list[Case]:
    """Return the open disputes, oldest first."""
    if not state.count("dispute.open"):
        return []
    known = {event.hash: event for event in events}
    rows = [r for r in state.rows.select("dispute", open_only=True) if isinstance(r, Dispute)]
    return [_case(number, row, known) for number, row in enumerate(rows, start=1)]


def device_views(events: Sequence[Event]) -> list[DeviceView]:
    """Return what each device knew when it last wrote; the last writer comes first."""
    known = {event.hash: event for event in in_order(events)}
    last = {event.head.device: event for event in known.values()}
    found = [_device_view(event, _past(event, known)) for event in last.values()]
    return sorted(found, key=lambda seat: (-seat.last_modified, seat.device))


def _past(event: Event, known: Mapping[str, Event]) -> list[Event]:
    found: dict[str, Event] = {}
    todo = [event.hash]
    while todo:
        one = known.get(todo.pop())
        if one is not None and one.hash not in found:
            found[one.hash] = one
            todo += parents(one)
    return list(found.values())


def _device_view(event: Event, past: list[Event]) -> DeviceView:
    state, device = fold(past), event.head.device
    own = sum(1 for one in past if one.head.device == device)
    at_work = list(summary(state)["running"])
    return DeviceView(device, event.head.at, round(progress(state)[0], 2), at_work, own)


def _case(number: int, row: Dispute, known: Mapping[str, Event]) -> Case:
    if row.subject.startswith(EDIT):
        sides = _sides_of_edit(row, known)
        newer, why = 1, "the file was written later, and its content counts now"
    else:
        sides = [
            _side(i, known.get(hash), device, outcome)
            for i, (hash, device, _, outcome) in enumerate(row.sides, start=1)
        ]
        newer, why = _newest([known.get(hash) for hash, *_ in row.sides], known)
    return Case(number, row.subject, subject(row), sides, newer, why)


def _side(number: int, event: Event | None, device: str, outcome: str) -> Side:
    if event is None:
        return Side(number, outcome, device, 0, "", "")
    text = _first(event.body, _TEXTS)
    if outcome == WENT_ON:
        text = " ".join(filter(None, (event.kind, _first(event.body, _NAMES))))
    return Side(number, outcome, device, event.head.at, event.head.actor, event.id, text)


def _first(body: Body, names: Sequence[str]) -> str:
    texts = (getattr(body, name, "") for name in names)
    return next((text for text in texts if isinstance(text, str) and text), "")


def _sides_of_edit(row: Dispute, known: Mapping[str, Event]) -> list[Side]:
    hash, device, *_ = row.sides[0]
    edit = known.get(hash)
    theirs = _read_with(edit, known) if edit else []
    ours = filter(None, (_last_before(edit, event, known) for event in theirs))
    file = _side(1, edit, device, FILE)
    texts = [f"session {status}" for status in _endings(edit)] + [_describe(theirs)]
    return [
        replace(file, said="; ".join(filter(None, texts))),
        Side(2, JOURNAL, device, 0, "", "", _describe(ours)),
    ]


def _last_before(edit: Event | None, event: Event, known: Mapping[str, Event]) -> Event | None:
    """Return the last event on the same topic that came before the edit of the file."""
    same = [e for e in known.values() if _topic(e) == _topic(event)]
    before = [e for e in same if edit and position(e) < position(edit)]
    return max(before, key=position, default=None)


def _topic(event: Event) -> tuple[str, str]:
    renames = event.kind == "session.renamed"
    return event.kind if renames else event.kind.partition(".")[0], _first(event.body, _NAMES)


def _describe(events: Iterable[Event]) -> str:
    texts = (
        " ".join(filter(None, (e.kind, _first(e.body, _NAMES), _first(e.body, _TEXTS))))
        for e in events
    )
    return "; ".join(dict.fromkeys(texts))


def _newest(events: Sequence[Event | None], known: Mapping[str, Event]) -> tuple[int, str]:
    """Return the number of the newest event, counted from 1, and the reason in words.

    The clocks of the devices decide, unless a clock is behind an event that its device had seen.
    """
    present = [(event, number) for number, event in enumerate(events, start=1) if event]
    if not present:
        return 1, "nothing is known of either side"
    seen = [(known.get(hash), event) for event, _ in present for hash in parents(event)]
    if any(past is not None and past.head.at > event.head.at + _MINUTE for past, event in seen):
        present.sort(key=lambda one: position(one[0]))
        return present[-1][1], "the clocks disagree; this side knew more of the session"
    present.sort(key=lambda one: (one[0].head.at, position(one[0])))
    ms = present[-1][0].head.at - present[0][0].head.at
    later = ago(ms).removesuffix(" ago") if ms >= _MINUTE else "less than a minute"
    return present[-1][1], f"it was stated {later} later by the clocks of the devices"


# -- settling ----------------------------------------------------------------------------------

Named = Callable[[str], str]
"""A function that returns the name of a device as users see it."""


def events_to_settle(
    case: Case, way: str, chosen: int, state: State, events: Mapping[str, Event], named: Named
) -> list[Body]:
    """Return the events that settle a case; `events` are all events by id.

    If a file is to be merged, they only close its edit; the caller merges the content.
    """
    sides = [events[side.event].body for side in case.sides if side.event in events]
    if case.kind == EDIT.rstrip(":"):
        return _settle_edit(case, chosen if way == "prefer" else 1, state, events)
    if way == "prefer":
        side = case.sides[chosen - 1]
        return [_restate(case, side.outcome, events[side.event].body)]
    if case.kind == SESSION:
        return [_REOPEN]
    make = _KEPT if way == "keep-both" else _MERGED
    return make[case.kind](case, sides, state, named)


def settlement_note(case: Case, way: str, chosen: int, because: str, named: Named) -> ev.NoteAdded:
    """Return a note for the log: what was settled, how, against what, and why."""
    texts = {s.number: f"{plain_outcome(s.outcome)} ({named(s.device)})" for s in case.sides}
    if case.kind == EDIT.rstrip(":"):
        texts = {side.number: side.outcome for side in case.sides}
    if way == "prefer":
        others = " and ".join(dict.fromkeys(t for n, t in texts.items() if n != chosen))
        how = f"{texts[chosen]} stands, not {others}"
    else:
        how = f"{way.replace('-', ' ')}: {' and '.join(dict.fromkeys(texts.values()))}"
    reason = f", because {because}" if because else ""
    return ev.NoteAdded(text=f"settled {case.about}: {how}{reason}")


_REOPEN = ev.SessionReopened(because="it is not over: work went on elsewhere")
_BODY_OF: dict[str, Callable[..., Body]] = {
    status: ev.KINDS[kind] for kind, status in ENDINGS.items()
}


def _restate(case: Case, outcome: str, body: Body) -> Body:
    if case.kind != SESSION:
        return body
    if outcome not in _BODY_OF:
        return _REOPEN
    # The ending may be part of an adoption, which cannot be recorded twice.
    return _BODY_OF[outcome](because=getattr(body, "because", ""))


def _settle_edit(case: Case, chosen: int, state: State, events: Mapping[str, Event]) -> list[Body]:
    edit = state.rows.get("edit", case.subject.removeprefix(EDIT))
    assert isinstance(edit, Edit)  # the fold stores one with such a dispute
    back: list[Body] = []
    read = events.get(case.sides[0].event)
    if chosen == 2 and read:
        back = [ev.EventRetracted(event=e.id) for e in _read_with(read, events)]
    close = ev.ForeignEdited(format=edit.format, path=edit.path, digest=edit.digest, cause=SETTLED)
    # An end recorded here since then has seen the content of the file.
    ends = chosen == 1 and state.core.status not in FINISHED
    ended = [_BODY_OF[status]() for status in _endings(read)] if ends else []
    return [*back, close, *ended]


def _endings(edit: Event | None) -> list[str]:
    """Return the ends of the session that an edited file states.

    They are not recorded as events while they are disputed.
    """
    left = getattr(edit.body, "residue", "").split("; ") if edit else []
    words = (each.removeprefix("status: ") for each in left if each.startswith("status: "))
    return [word for word in words if word in _BODY_OF][:1]


def _read_with(edit: Event, events: Mapping[str, Event]) -> list[Event]:
    """Return the events read from the edited file: those recorded right after the edit."""
    own = [e for e in events.values() if e.head.device == edit.head.device]
    found: list[Event] = []
    for event in sorted(own, key=lambda one: one.head.n):
        if event.head.n <= edit.head.n:
            continue
        if event.head.actor != edit.head.actor or (found and event.kind == edit.kind):
            break
        found += [event] if event.kind != edit.kind else []
    return found


def _merge_unit(case: Case, sides: list[Body], state: State, named: Named) -> list[Body]:
    order = {word: rank for rank, word in enumerate(_FURTHEST)}
    furthest = min(case.sides, key=lambda side: order.get(side.outcome, len(order)))
    best = sides[furthest.number - 1]
    changed: dict[str, object] = {}
    for name in ("files", "created", "modified", "deleted"):
        if hasattr(best, name):
            all_ = [path for body in sides for path in getattr(body, name, [])]
            changed[name] = list(dict.fromkeys(all_))
    names = ("outcome", "result", "because", "error")
    texts = [text for body in sides for name in names if (text := getattr(body, name, ""))]
    for name in names:
        if hasattr(best, name):
            changed[name] = "; ".join(dict.fromkeys(texts))
            break
    return [replace(best, **changed)]


def _review_step(case: Case, sides: list[Body], state: State, named: Named) -> list[Body]:
    both = " and ".join(f"{side.outcome} ({named(side.device)})" for side in case.sides)
    return [ev.StepNeedsReview(step=case.subject.partition(":")[2], because=f"both stand: {both}")]


def _block_agent(case: Case, sides: list[Body], state: State, named: Named) -> list[Body]:
    id = case.subject.partition(":")[2]
    row = state.agent(id) or Agent(id=id)
    return [ev.AgentStarted(agent=id, type=row.type, task=row.task, status="blocked")]


def _merge_decision(case: Case, sides: list[Body], state: State, named: Named) -> list[Body]:
    made = [body for body in sides if isinstance(body, ev.DecisionMade)]
    chosen = BOTH.join(dict.fromkeys(side.outcome for side in case.sides))
    because = "; ".join(dict.fromkeys(body.because for body in made if body.because))
    return [replace(made[0], chosen=chosen, options=[], because=because)]


def _forget_digest(case: Case, sides: list[Body], state: State, named: Named) -> list[Body]:
    """Record the file without a digest: neither side has its present content."""
    return [ev.FileChanged(path=case.subject.partition(":")[2])]


Make = Callable[[Case, list[Body], State, Named], list[Body]]
_MERGED: dict[str, Make] = {
    "step": _merge_unit,
    "agent": _merge_unit,
    "decision": _merge_decision,
    "file": _forget_digest,
}
_KEPT: dict[str, Make] = {
    "step": _review_step,
    "agent": _block_agent,
    "decision": _merge_decision,
    "file": _forget_digest,
}
