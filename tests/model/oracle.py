"""What the model must answer, worked out the slow and obvious way.

Nothing here uses the code under test beyond reading events: the past by following links, disputes
by comparing every pair of statements. The words are those of the design: two outcomes for a step
or an agent, an ending against work that went on, two choices for one decision, one file with two
last digests.
"""

from __future__ import annotations

from collections.abc import Sequence

from forestay.model import event as ev
from forestay.model.event import Event
from tests.histories import erased

ENDS = {
    "session.completed": "completed",
    "session.failed": "failed",
    "session.aborted": "aborted",
    "session.abandoned": "abandoned",
}
STATUS = {
    **ENDS,
    "session.started": "active",
    "session.paused": "paused",
    "session.resumed": "active",
    "session.reopened": "active",
}
OUTCOMES = {
    "step.completed": "done",
    "step.failed": "failed",
    "step.blocked": "blocked",
    "step.skipped": "skipped",
    "step.reset": "to be done again",
    "step.needs_review": "to be done again",
    "agent.finished": "done",
    "agent.failed": "failed",
    "agent.timed_out": "timed_out",
}
SAYS_NOTHING = ("step.added", "step.progressed", "step.revisited", "agent.progressed")
PUT_BACK = ("step.reset", "step.needs_review")
WORK_FAMILIES = (
    "plan",
    "step",
    "checkpoint",
    "agent",
    "decision",
    "file",
    "artifact",
    "command",
    "evidence",
)
BEGINNINGS = ("session.started", "session.adopted")
UNDENIABLE = (*BEGINNINGS, "session.forgotten", "event.forgotten")
WORK_KINDS = ("session.resumed", "session.reopened")


def in_merge_order(events: Sequence[Event]) -> list[Event]:
    unique = {e.hash: e for e in events}.values()
    counted = [e if not is_forgotten(e, events) else erased(e) for e in unique]
    return sorted(counted, key=lambda e: (e.head.clock, e.head.device, e.head.n, e.hash))


def is_forgotten(event: Event, events: Sequence[Event]) -> bool:
    """Return whether any tombstone names it, in any order; none names another tombstone."""
    stones = [e.body for e in events if isinstance(e.body, ev.EventForgotten)]
    named = any(event.hash in stone.hashes or event.id in stone.ids for stone in stones)
    return named and event.kind not in ("event.forgotten", "session.forgotten")


def pasts(ordered: Sequence[Event]) -> dict[str, set[str]]:
    """Return for every event itself and all it can reach by links back in merge order."""
    past: dict[str, set[str]] = {}
    for event in ordered:
        links = {event.head.prev, *(link for flat in event.head.seen.values() for link in flat)}
        past[event.hash] = {event.hash}.union(*(past[link] for link in links if link in past))
    return past


def first_copies(ordered: Sequence[Event]) -> list[Event]:
    """Return one event per id: the first in merge order."""
    found: dict[str, Event] = {}
    for event in ordered:
        found.setdefault(event.id, event)
    return list(found.values())


def withdrawn(ordered: Sequence[Event]) -> set[str]:
    """Return the ids with a later retraction that is not retracted itself."""
    firsts = first_copies(ordered)

    def is_gone(i: int) -> bool:
        if firsts[i].kind in UNDENIABLE:
            return False
        return any(
            isinstance(body := firsts[j].body, ev.EventRetracted)
            and body.event == firsts[i].id
            and not is_gone(j)
            for j in range(i + 1, len(firsts))
        )

    return {firsts[i].id for i in range(len(firsts)) if is_gone(i)}


def says(event: Event) -> tuple[str, str] | None:
    """Return the subject and the outcome that an event states, if any."""
    body, kind = event.body, event.kind
    if isinstance(body, ev.Unknown | ev.Erased):
        return None
    if isinstance(body, ev.SessionAdopted):
        return "session", body.status if body.status in ENDS.values() else ""
    if kind in STATUS:
        return "session", ENDS.get(kind, "")
    if isinstance(body, ev.DecisionMade):
        return f"decision:{body.decision}", body.chosen or body.what
    if isinstance(body, ev.FileChanged):
        return f"file:{body.path}", body.after or ("deleted" if body.action == "deleted" else "")
    family = kind.partition(".")[0]
    if family in ("step", "agent") and kind not in SAYS_NOTHING:
        return f"{family}:{getattr(body, family)}", OUTCOMES.get(kind, "")
    return None


def is_work(event: Event) -> bool:
    if isinstance(event.body, ev.Unknown | ev.Erased):
        return False
    family = event.kind.partition(".")[0]
    return family in (*WORK_FAMILIES, "claim") or event.kind in WORK_KINDS


class Disputes:
    """Open disputes of a whole history, by comparing everything with everything."""

    def __init__(self, ordered: Sequence[Event]) -> None:
        self.past = pasts(ordered)
        self.gone = withdrawn(ordered)
        self.stances = {event.hash: says(event) for event in ordered}
        firsts = {event.id: event for event in first_copies(ordered)}
        self.copies: dict[str, set[str]] = {}
        for event in ordered:
            if self.stances[event.hash] == self.stances[firsts[event.id].hash]:
                self.copies.setdefault(event.id, set()).add(event.hash)
        self.valid = [event for event in firsts.values() if event.id not in self.gone]

    def knows(self, later: Event, earlier: Event) -> bool:
        """Return whether the writer of any copy of `later` had any copy of `earlier`."""
        return any(
            self.past[a] & self.copies[earlier.id]
            for a in self.copies[later.id]
            if a not in self.copies[earlier.id]
        )

    def standing(self, subject: str) -> list[Event]:
        spoken = [
            e for e in self.valid if (stance := self.stances[e.hash]) and stance[0] == subject
        ]
        return [e for e in spoken if not any(self.knows(o, e) for o in spoken if o is not e)]

    def sides(self, subject: str) -> set[str]:
        """Return the hashes of disputed statements and work; empty if there is no dispute."""
        stated = [
            e for e in self.standing(subject) if (stance := self.stances[e.hash]) and stance[1]
        ]
        outcomes = {stance[1] for e in stated if (stance := self.stances[e.hash])}
        unaware = set()
        if subject == "session":
            unaware = {w.hash for w in self.valid for e in stated if self.went_on(w, e)}
        if len(outcomes) + bool(unaware) < 2:
            return set()
        return {e.hash for e in stated} | unaware

    def went_on(self, work: Event, ending: Event) -> bool:
        """Return whether this is work that is concurrent with the ending."""
        copies = self.copies[ending.id]
        knows = self.past[work.hash] & copies
        known = any(work.hash in self.past[copy] for copy in copies)
        return is_work(work) and not knows and not known

    def outcomes(self) -> dict[str, set[str]]:
        """Of each step and agent the outcomes that stand.

        Not of those that were put back on purpose, or of which an id is on two chains.
        """
        spoken = [(e, stance[0]) for e in self.valid if (stance := self.stances[e.hash])]
        units = {s for _, s in spoken if s.startswith(("step:", "agent:"))}
        units -= {s for e, s in spoken if e.kind in PUT_BACK or len(self.copies[e.id]) > 1}
        found = {unit: {OUTCOMES.get(e.kind) for e in self.standing(unit)} for unit in units}
        stated = {unit: {word for word in words if word} for unit, words in found.items()}
        return {unit: words for unit, words in stated.items() if words}

    def open(self) -> dict[str, set[str]]:
        subjects = {stance[0] for e in self.valid if (stance := self.stances[e.hash])}
        return {subject: sides for subject in subjects if (sides := self.sides(subject))}


def status(disputes: Disputes) -> str:
    """Return the last status, unless the session was forgotten or its end is disputed."""
    word = ""
    for event in disputes.valid:
        if event.kind == "session.forgotten" and not isinstance(event.body, ev.Unknown):
            return "abandoned"
        if isinstance(event.body, ev.Erased) and event.kind in BEGINNINGS:
            word = word or "active"
        if isinstance(event.body, ev.Unknown | ev.Erased):
            continue
        if isinstance(event.body, ev.SessionAdopted):
            legal = ("created", "active", "paused", *ENDS.values())
            word = event.body.status if event.body.status in legal else "active"
        word = STATUS.get(event.kind, word)
    return "active" if disputes.sides("session") else word
