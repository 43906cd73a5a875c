"""Disputes as they are laid before whoever settles them, and what settling one records.

A *case* is an open dispute with its *sides*: who said what, when, and which of them is newer. It
is settled by stating an outcome again, now in the knowledge of all sides; so nothing is taken
out of the journal, and no kind of event of its own is needed. There are three ways:

    prefer      what one side said is said again
    merge       both are put into one statement: the furthest that anyone got, both choices
    keep both   neither is taken: a task is to be reviewed, both choices are made

Clocks of devices cannot be trusted to agree. Which side is newer is told by them only while they
do not contradict what each device had seen; else by who knew more of the session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

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
    """What one device said. `number` counts from 1; `event` is an id, `said` its words."""

    number: int
    outcome: str
    device: str
    at: int
    by: str
    event: str
    said: str = ""


class Case(Struct, frozen=True):
    """An open dispute. `newer` is the number of the side that is newer, `why` how that shows."""

    number: int
    subject: str
    about: str
    sides: list[Side]
    newer: int
    why: str

    @property
    def kind(self) -> str:
        return self.subject.partition(":")[0]


class Seat(Struct, frozen=True):
    """What one device knew of the session when it last wrote."""

    device: str
    last_modified: int
    progress: float
    active_agents: list[str]
    events: int


def cases(events: Sequence[Event], state: State) -> list[Case]:
    """The open disputes, oldest first."""
    if not state.count("dispute.open"):
        return []
    known = {event.hash: event for event in events}
    clocks = _Clocks(known)
    rows = [r for r in state.rows.select("dispute", open_only=True) if isinstance(r, Dispute)]
    return [_case(number, row, known, clocks) for number, row in enumerate(rows, start=1)]


def seats(events: Sequence[Event]) -> list[Seat]:
    """Each device that wrote, as the session looked from there; who wrote last is first."""
    known = {event.hash: event for event in in_order(events)}
    last = {event.head.device: event for event in known.values()}
    found = [_seat(event, _past(event, known)) for event in last.values()]
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


def _seat(event: Event, past: list[Event]) -> Seat:
    state, device = fold(past), event.head.device
    own = sum(1 for one in past if one.head.device == device)
    at_work = list(summary(state)["running"])
    return Seat(device, event.head.at, round(progress(state)[0], 2), at_work, own)


def _case(number: int, row: Dispute, known: Mapping[str, Event], clocks: _Clocks) -> Case:
    sides = _of_edit(row, known) if row.subject.startswith(EDIT) else _of_devices(row, known)
    newer, why = clocks.newer([known.get(hash) for hash, *_ in row.sides])
    if row.subject.startswith(EDIT):
        newer, why = 1, "the file was written later, and it is what counts now"
    return Case(number, row.subject, subject(row), sides, newer, why)


def _of_devices(row: Dispute, known: Mapping[str, Event]) -> list[Side]:
    return [
        _side(number, known.get(hash), device, outcome)
        for number, (hash, device, _, outcome) in enumerate(row.sides, start=1)
    ]


def _side(number: int, event: Event | None, device: str, outcome: str) -> Side:
    if event is None:
        return Side(number, outcome, device, 0, "", "")
    return Side(
        number, outcome, device, event.head.at, event.head.actor, event.id, _words(event, outcome)
    )


def _words(event: Event, outcome: str) -> str:
    if outcome == WENT_ON:
        return " ".join(filter(None, (event.kind, _first(event.body, _NAMES))))
    return _first(event.body, _TEXTS)


def _first(body: Body, names: Sequence[str]) -> str:
    texts = (getattr(body, name, "") for name in names)
    return next((text for text in texts if isinstance(text, str) and text), "")


def _of_edit(row: Dispute, known: Mapping[str, Event]) -> list[Side]:
    hash, device, *_ = row.sides[0]
    told = known.get(hash)
    theirs = _told_with(told, known) if told else []
    ours = filter(None, (_before(event, told, known) for event in theirs))
    file = _side(1, told, device, FILE)
    words = [f"session {status}" for status in _endings(told)] + [_all_words(theirs)]
    return [
        replace(file, said="; ".join(filter(None, words))),
        Side(2, JOURNAL, device, 0, "", "", _all_words(ours)),
    ]


def _before(event: Event, told: Event | None, known: Mapping[str, Event]) -> Event | None:
    """What was last said here of what a file says."""
    same = [e for e in known.values() if _topic(e) == _topic(event)]
    before = [e for e in same if told and position(e) < position(told)]
    return max(before, key=position, default=None)


def _topic(event: Event) -> tuple[str, str]:
    renames = event.kind == "session.renamed"
    return event.kind if renames else event.kind.partition(".")[0], _first(event.body, _NAMES)


def _all_words(events: Iterable[Event]) -> str:
    told = (
        " ".join(filter(None, (e.kind, _first(e.body, _NAMES), _first(e.body, _TEXTS))))
        for e in events
    )
    return "; ".join(dict.fromkeys(told))


class _Clocks:
    """Which of several events is newer, as far as the clocks of their devices can tell."""

    def __init__(self, known: Mapping[str, Event]) -> None:
        self._known = known

    def newer(self, events: Sequence[Event | None]) -> tuple[int, str]:
        """The number of the newest, from 1, and the reason in words."""
        there = [(event, number) for number, event in enumerate(events, start=1) if event]
        if not there:
            return 1, "nothing is known of either side"
        if not any(self._is_off(event) for event, _ in there):
            there.sort(key=lambda one: (one[0].head.at, position(one[0])))
            last, before = there[-1][0].head.at, there[0][0].head.at
            return there[-1][1], f"it was said {_later(last - before)} by the clocks of the devices"
        there.sort(key=lambda one: position(one[0]))
        return there[-1][1], "the clocks disagree; it was said by who knew more of the session"

    def _is_off(self, event: Event) -> bool:
        """Whether its clock is behind something that it had seen when it was written."""
        told = (self._known.get(hash) for hash in parents(event))
        return any(one is not None and one.head.at > event.head.at + _MINUTE for one in told)


def _later(ms: int) -> str:
    for length, word in ((86_400_000, "day"), (3_600_000, "hour"), (_MINUTE, "minute")):
        if ms >= length:
            n = ms // length
            return f"{n} {word}{'' if n == 1 else 's'} later"
    return "less than a minute later"


# -- settling ----------------------------------------------------------------------------------

Named = Callable[[str], str]
"""A device's name for people."""


def settling(
    case: Case, way: str, chosen: int, state: State, events: Mapping[str, Event], named: Named
) -> list[Body]:
    """What to record to settle a case, by the ids of all events. A file that is to be merged is
    only named: whoever records that looks at it."""
    sides = [events[side.event].body for side in case.sides if side.event in events]
    if case.kind == EDIT.rstrip(":"):
        return _edit(case, chosen if way == "prefer" else 1, state, events)
    if way == "prefer":
        side = case.sides[chosen - 1]
        return [_again(case, side.outcome, events[side.event].body)]
    if case.kind == SESSION:
        return [_GO_ON]
    make = _KEPT if way == "keep-both" else _MERGED
    return make[case.kind](case, sides, state, named)


def note_of(case: Case, way: str, chosen: int, because: str, named: Named) -> ev.NoteAdded:
    """A line for the log: what was settled, how, against what, and why."""
    told = {s.number: f"{plain_outcome(s.outcome)} ({named(s.device)})" for s in case.sides}
    if case.kind == EDIT.rstrip(":"):
        told = {side.number: side.outcome for side in case.sides}
    if way == "prefer":
        others = " and ".join(dict.fromkeys(t for n, t in told.items() if n != chosen))
        how = f"{told[chosen]} stands, not {others}"
    else:
        how = f"{way.replace('-', ' ')}: {' and '.join(dict.fromkeys(told.values()))}"
    reason = f", because {because}" if because else ""
    return ev.NoteAdded(text=f"settled {case.about}: {how}{reason}")


_GO_ON = ev.SessionReopened(because="it is not over: work went on elsewhere")
_BODY_OF: dict[str, Callable[..., Body]] = {
    status: ev.KINDS[kind] for kind, status in ENDINGS.items()
}


def _again(case: Case, outcome: str, body: Body) -> Body:
    if case.kind != SESSION:
        return body
    if outcome not in _BODY_OF:
        return _GO_ON
    # An ending that came with an adopted file, too, is said in the words of a session that ends.
    return _BODY_OF[outcome](because=getattr(body, "because", ""))


def _edit(case: Case, chosen: int, state: State, events: Mapping[str, Event]) -> list[Body]:
    edit = state.rows.get("edit", case.subject.removeprefix(EDIT))
    assert isinstance(edit, Edit)  # the fold keeps one beside such a dispute
    back: list[Body] = []
    told = events.get(case.sides[0].event)
    if chosen == 2 and told:
        back = [ev.EventRetracted(event=e.id) for e in _told_with(told, events)]
    close = ev.ForeignEdited(layout=edit.layout, path=edit.path, digest=edit.digest, cause=SETTLED)
    # Whoever ended it here since then knew what the file says.
    ends = chosen == 1 and state.core.status not in FINISHED
    ended = [_BODY_OF[status]() for status in _endings(told)] if ends else []
    return [*back, close, *ended]


def _endings(told: Event | None) -> list[str]:
    """How a file said that its session ended, which is not taken up while it is disputed."""
    left = getattr(told.body, "residue", "").split("; ") if told else []
    words = (each.removeprefix("status: ") for each in left if each.startswith("status: "))
    return [word for word in words if word in _BODY_OF][:1]


def _told_with(told: Event, events: Mapping[str, Event]) -> list[Event]:
    """What was taken out of a file with an edit: what its reader recorded right after it."""
    own = [e for e in events.values() if e.head.device == told.head.device]
    found: list[Event] = []
    for event in sorted(own, key=lambda one: one.head.n):
        if event.head.n <= told.head.n:
            continue
        if event.head.actor != told.head.actor or (found and event.kind == told.kind):
            break
        found += [event] if event.kind != told.kind else []
    return found


def _furthest(case: Case, sides: list[Body]) -> Body:
    order = {word: rank for rank, word in enumerate(_FURTHEST)}
    best = min(case.sides, key=lambda side: order.get(side.outcome, len(order)))
    return sides[best.number - 1]


def _merged_unit(case: Case, sides: list[Body], state: State, named: Named) -> list[Body]:
    best = _furthest(case, sides)
    changed: dict[str, object] = {}
    for name in ("files", "created", "modified", "deleted"):
        if hasattr(best, name):
            all_ = [path for body in sides for path in getattr(body, name, [])]
            changed[name] = list(dict.fromkeys(all_))
    for name in ("outcome", "result", "because", "error"):
        if hasattr(best, name):
            changed[name] = "; ".join(dict.fromkeys(_texts(sides)))
            break
    return [replace(best, **changed)]


def _texts(sides: list[Body]) -> list[str]:
    names = ("outcome", "result", "because", "error")
    return [text for body in sides for name in names if (text := getattr(body, name, ""))]


def _kept_step(case: Case, sides: list[Body], state: State, named: Named) -> list[Body]:
    both = " and ".join(f"{side.outcome} ({named(side.device)})" for side in case.sides)
    return [ev.StepNeedsReview(step=case.subject.partition(":")[2], because=f"both stand: {both}")]


def _kept_agent(case: Case, sides: list[Body], state: State, named: Named) -> list[Body]:
    id = case.subject.partition(":")[2]
    row = state.agent(id) or Agent(id=id)
    return [ev.AgentStarted(agent=id, type=row.type, task=row.task, status="blocked")]


def _merged_decision(case: Case, sides: list[Body], state: State, named: Named) -> list[Body]:
    told = [body for body in sides if isinstance(body, ev.DecisionMade)]
    chosen = BOTH.join(dict.fromkeys(side.outcome for side in case.sides))
    because = "; ".join(dict.fromkeys(body.because for body in told if body.because))
    return [replace(told[0], chosen=chosen, options=[], because=because)]


def _kept_file(case: Case, sides: list[Body], state: State, named: Named) -> list[Body]:
    """Neither content is the last one: what it is now is not known."""
    return [ev.FileChanged(path=case.subject.partition(":")[2])]


Make = Callable[[Case, list[Body], State, Named], list[Body]]
_MERGED: dict[str, Make] = {
    "step": _merged_unit,
    "agent": _merged_unit,
    "decision": _merged_decision,
    "file": _kept_file,
}
_KEPT: dict[str, Make] = {
    "step": _kept_step,
    "agent": _kept_agent,
    "decision": _merged_decision,
    "file": _kept_file,
}
