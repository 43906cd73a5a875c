"""Causal past, the order of events, and what counts as a contradiction.

A session's events form a graph: every event names its predecessor in its chain (`prev`) and the
heads of other chains that its writer had `seen`. The past of an event is everything reachable
that way. Two events are concurrent when neither is in the other's past, and only concurrent
events can contradict each other.

Merge order (clock, device, n, hash) respects the graph, because a clock is larger than the
clocks of all its parents; a link to an event that sorts later is false and does not count. A
copied home can give one chain two continuations; each is a branch here, so the past stays exact.

A statement is what an event states on a subject: how a step ended, what was chosen, a file's
digest. It stands until a later statement on that subject has seen it. A subject is disputed
exactly while statements with different outcomes stand; the session also while an ending stands
together with work that is concurrent with it. So whether there is a dispute follows from the
graph alone, never from device names or the moment of a merge. Work that only continues on a unit
states no outcome: it neither disputes nor undoes one that it had not seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from forestay.model import event as ev
from forestay.model.erasure import Tombstones
from forestay.model.event import Body, Event, Header

Position = tuple[int, str, int, str]


def position(event: Event) -> Position:
    """Return the position of an event in merge order, the order of every fold."""
    return place(event.head, event.hash)


def place(head: Header, hash: str) -> Position:
    """Return the position of an event of which only header and hash are known."""
    return (head.clock, head.device, head.n, hash)


def in_order(events: Iterable[Event]) -> list[Event]:
    """Return the events once each (by hash), in merge order, whatever the order of arrival.

    Those that a tombstone names become `Erased`, whether or not their content is still stored.
    """
    once: dict[str, Event] = {}
    for event in events:
        # Of two copies the erased one counts: a stale copy must not bring back what was forgotten.
        if event.hash not in once or isinstance(event.body, ev.Erased):
            once[event.hash] = event
    ordered = sorted(once.values(), key=position)
    forgotten = [event for event in ordered if type(event.body) is ev.EventForgotten]
    if not forgotten:
        return ordered
    stones = Tombstones(forgotten)
    return [
        replace(event, body=ev.Erased()) if stones.name(event.head, event.hash) else event
        for event in ordered
    ]


def parents(event: Event) -> list[str]:
    """Return the hashes of the events that this one directly follows."""
    seen = [digest for _, _, digest in event.head.seen_heads()]
    return [event.head.prev, *seen] if event.head.prev else seen


class _Place(NamedTuple):
    branch: int
    depth: int
    past: dict[int, int]


class Past:
    """Answers `covers(later, earlier)` for a whole history, given in merge order."""

    def __init__(self, ordered: Sequence[Event]) -> None:
        self._places: dict[str, _Place] = {}
        self._tips: list[int] = []
        for event in ordered:
            self._places[event.hash] = self._place(event)

    def covers(self, later: str, earlier: str) -> bool:
        """Return whether `earlier` is `later` itself or in its past."""
        a, b = self._places.get(later), self._places.get(earlier)
        if a is None or b is None:
            return False
        return a.depth >= b.depth if a.branch == b.branch else a.past.get(b.branch, 0) >= b.depth

    @property
    def linear(self) -> bool:
        """Return whether every event has all earlier ones in its past: there is one branch."""
        return len(self._tips) <= 1

    def _place(self, event: Event) -> _Place:
        branch, past = self._continue_branch(event)
        self._tips[branch] += 1
        if event.head.seen:
            past = dict(past)
            for _, _, digest in event.head.seen_heads():
                _include(past, self._places.get(digest))
        return _Place(branch, self._tips[branch], past)

    def _continue_branch(self, event: Event) -> tuple[int, dict[int, int]]:
        before = self._places.get(event.head.prev)
        if before is not None and self._tips[before.branch] == before.depth:
            return before.branch, before.past
        past: dict[int, int] = {}
        _include(past, before)
        self._tips.append(0)
        return len(self._tips) - 1, past


def _include(past: dict[int, int], place: _Place | None) -> None:
    if place is None:
        return
    for branch, depth in (*place.past.items(), (place.branch, place.depth)):
        if depth > past.get(branch, 0):
            past[branch] = depth


KEPT = frozenset({"session.started", "session.adopted", "session.forgotten", "event.forgotten"})
"""Kinds that cannot be retracted: without a beginning there is no session, and what was
forgotten stays forgotten."""


def retracted(ordered: Sequence[Event]) -> set[str]:
    """Return the ids of the retracted events. A retraction can itself be retracted.

    Only a retraction that comes after its target counts, so no two can retract each other.
    An id that occurs twice is one event: its first copy is the one that acts.
    """
    rank = {e.id: i for i, e in reversed(list(enumerate(ordered)))}
    gone: set[str] = set()
    for i in range(len(ordered) - 1, -1, -1):
        body, own = ordered[i].body, ordered[i].id
        if isinstance(body, ev.EventRetracted) and rank[own] == i and own not in gone:
            target = rank.get(body.event)
            if target is not None and target < i and ordered[target].kind not in KEPT:
                gone.add(body.event)
    return gone


# -- contradictions ----------------------------------------------------------------------------

ENDINGS = {
    "session.completed": "completed",
    "session.failed": "failed",
    "session.aborted": "aborted",
    "session.abandoned": "abandoned",
}
AGAIN = "to be done again"
"""The outcome of a step that was reset or sent to review; it may dispute a concurrent outcome."""
_STEP_OUTCOMES = {
    "step.completed": "done",
    "step.failed": "failed",
    "step.blocked": "blocked",
    "step.skipped": "skipped",
    "step.needs_review": AGAIN,
    "step.reset": AGAIN,
}
_AGENT_OUTCOMES = {
    "agent.finished": "done",
    "agent.failed": "failed",
    "agent.timed_out": "timed_out",
}
_WITHOUT_STATUS = ("step.added", "step.progressed", "step.revisited")
"""Kinds that do not change the status of a step; a revisit records other events that do."""
_BEGINNINGS = "session.started session.adopted session.resumed session.reopened".split()
_STATUS = frozenset({*ENDINGS, *_BEGINNINGS, "session.paused"})
_WORK_TOPICS = "plan step checkpoint agent decision file artifact command evidence claim".split()
WORK = frozenset(kind for kind in ev.KINDS if kind.partition(".")[0] in _WORK_TOPICS)
WORK |= {"session.resumed", "session.reopened"}
"""Kinds that are work; a concurrent ending of the session is a dispute."""

GOING_ON = {
    "step.started": "step",
    "step.progressed": "step",
    "step.unblocked": "step",
    "agent.started": "agent",
    "agent.progressed": "agent",
    "agent.retried": "agent",
}
"""Kinds by which work on a unit continues, and the table of the unit."""

SESSION = "session"
"""The subject of statements about the end of the session."""
WENT_ON = "work went on"
"""The outcome that work states against an ending that had not seen it."""


class Stance(NamedTuple):
    """What an event states about a subject on which two devices may disagree."""

    subject: str
    outcome: str  # "" replaces earlier outcomes without stating one


def stances(event: Event) -> list[Stance]:
    """Return what an event states. Equal outcomes, or none, never contradict each other."""
    return stances_of(event.body, event.kind) if _is_readable(event) else []


def stances_of(body: Body, kind: str) -> list[Stance]:
    """Return what an event with this body would state."""
    if kind in _STATUS:
        return [Stance(SESSION, _ending(body, kind))]
    if isinstance(body, ev.DecisionMade):
        return [Stance(f"decision:{body.decision}", body.chosen or body.what)]
    if isinstance(body, ev.FileChanged):
        gone = "deleted" if body.action == "deleted" else ""
        return [Stance(f"file:{body.path}", body.after or gone)]
    if kind.startswith("step.") and kind not in _WITHOUT_STATUS:
        return [Stance(f"step:{getattr(body, 'step', '')}", _STEP_OUTCOMES.get(kind, ""))]
    if kind.startswith("agent.") and kind != "agent.progressed":
        return [Stance(f"agent:{getattr(body, 'agent', '')}", _AGENT_OUTCOMES.get(kind, ""))]
    return []


def _is_readable(event: Event) -> bool:
    """Return whether the event can be read: it is neither erased nor of a newer version."""
    return type(event.body) is ev.KINDS.get(event.kind)


def _ending(body: Body, kind: str) -> str:
    if isinstance(body, ev.SessionAdopted):
        return body.status if body.status in ENDINGS.values() else ""
    return ENDINGS.get(kind, "")


class Side(NamedTuple):
    """One of the statements in a dispute."""

    hash: str
    device: str
    n: int
    outcome: str


class _Statement:
    """A side that stands, with all its copies and, for an ending, the work it has not seen."""

    __slots__ = ("against", "copies", "event", "side")

    def __init__(self, event: Event, outcome: str, against: list[Side]) -> None:
        self.event = event
        self.side = Side(event.hash, event.head.device, event.head.n, outcome)
        self.copies = [event.hash]
        self.against = against


class Statements:
    """Holds, per subject, the statements that stand, and reports when they contradict each other.

    An event whose id occurs on two chains is one statement: an event that has seen one copy has
    seen it, and it has seen what either copy had seen. A copy with other content under the same
    id is ignored, as it is not folded.
    """

    def __init__(self, past: Past) -> None:
        self._covers = past.covers
        self._stated: dict[str, list[Stance]] = {}
        self._standing: dict[str, list[_Statement]] = {}
        self._work: list[Side] = []
        self._open: dict[str, list[Side]] = {}

    def add(self, event: Event) -> list[tuple[str, list[Side]]]:
        """Add an event in merge order; return the disputes that it opens, changes or settles.

        Each is (subject, sides); no sides means settled.
        """
        again = event.id in self._stated
        stated = self._stated.setdefault(event.id, stances(event))
        if again and stated != stances(event):
            return []
        for subject, outcome in stated:
            self._state(event, subject, outcome, again)
        subjects = [stance.subject for stance in stated]
        if event.kind in WORK and _is_readable(event) and not again:
            self._add_work(event)
            subjects.append(SESSION)
        changed: list[tuple[str, list[Side]]] = []
        for subject in dict.fromkeys(subjects):
            sides = self._sides(subject)
            if sides != self._open.get(subject, []):
                self._open[subject] = sides
                changed.append((subject, sides))
        return changed

    def outlasting(self, event: Event) -> Event | None:
        """Return the outcome that stands although the event, not added yet, continues the work.

        None if the event had seen every outcome that stands: then the work begins again.
        """
        table = GOING_ON.get(event.kind)
        if table is None or not _is_readable(event):
            return None
        standing = self._standing.get(f"{table}:{getattr(event.body, table)}", [])
        # Work on a step that was reset is no contradiction: the reset asked for it.
        stated = [s for s in standing if s.side.outcome not in ("", AGAIN)]
        unseen = [s for s in stated if not self._knows(event, s)]
        if not unseen:
            return None
        # A start replaces the outcomes it has seen; progress replaces none.
        return (unseen if stances(event) else stated)[-1].event

    def _knows(self, event: Event, statement: _Statement) -> bool:
        return any(self._covers(event.hash, copy) for copy in statement.copies)

    def _state(self, event: Event, subject: str, outcome: str, again: bool) -> None:
        standing = []
        for statement in self._standing.get(subject, []):
            if again and statement.event.id == event.id:
                statement.copies.append(event.hash)
                statement.against = self._unseen(event, statement.against)
            elif self._knows(event, statement):
                continue
            standing.append(statement)
        if not again:
            is_ending = subject == SESSION and outcome
            against = self._unseen(event, self._work) if is_ending else []
            standing.append(_Statement(event, outcome, against))
        self._standing[subject] = standing

    def _add_work(self, event: Event) -> None:
        work = Side(event.hash, event.head.device, event.head.n, WENT_ON)
        self._work = [*self._unseen(event, self._work), work]
        for ending in self._standing.get(SESSION, []):
            if ending.side.outcome and not self._knows(event, ending):
                ending.against = [*self._unseen(event, ending.against), work]

    def _unseen(self, event: Event, sides: list[Side]) -> list[Side]:
        return [side for side in sides if not self._covers(event.hash, side.hash)]

    def _sides(self, subject: str) -> list[Side]:
        stated = [s for s in self._standing.get(subject, []) if s.side.outcome]
        work = dict.fromkeys(side for s in stated for side in s.against)
        sides = [*(s.side for s in stated), *work]
        return sides if len({side.outcome for side in sides}) > 1 else []
