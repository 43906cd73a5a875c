"""The order of events, their causal past, retractions, and what counts as a dispute."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forestay.errors import InvalidInput
from forestay.model import event as ev
from forestay.model.event import Body, Event, Header, Sealed
from forestay.model.fold import fold
from forestay.model.hash_chain import check_link, continue_chain
from forestay.model.merge import KEPT, Past, in_order, position, retracted
from forestay.model.state import Agent, Core, Dispute, Step
from tests.histories import SimulatedMachine, World, erased, image, next_event, simulate
from tests.model import laws


class Two:
    """Two machines that both hold a started session; `sync` gives each what the other has."""

    def __init__(self) -> None:
        self.world = World(Random(1))
        self.a = self.world.machines[0]
        self.write(self.a, ev.SessionStarted(goal="hold fast"))
        self.b = self.join("zz")

    def join(self, name: str) -> SimulatedMachine:
        machine = SimulatedMachine(name)
        machine.receive(self.a.held.values())
        self.world.machines.append(machine)
        return machine

    def write(self, machine: SimulatedMachine, body: Body, id: str = "") -> Event:
        return self.world.write(machine, body, id)

    def sync(self) -> None:
        for machine in self.world.machines:
            machine.receive(self.world.events)

    def dispute(self, subject: str) -> Dispute | None:
        row = fold(self.world.events).rows.get("dispute", subject)
        return row if isinstance(row, Dispute) else None

    def is_disputed(self, subject: str) -> bool:
        dispute = self.dispute(subject)
        return dispute is not None and dispute.is_open

    def outcomes(self, subject: str) -> set[str]:
        dispute = self.dispute(subject)
        return {side[3] for side in dispute.sides} if dispute else set()


@pytest.fixture
def two() -> Two:
    return Two()


# -- links -------------------------------------------------------------------------------------


def test_a_first_event_has_number_one_and_nothing_before_it() -> None:
    assert continue_chain(Core(), "d") == (1, "", 1, {})


def test_the_seen_field_names_heads_of_other_devices_only_when_they_changed(two: Two) -> None:
    first = two.write(two.b, ev.NoteAdded(text="one"))
    second = two.write(two.b, ev.NoteAdded(text="two"))
    moved = two.write(two.a, ev.NoteAdded(text="three"))
    two.sync()
    third = two.write(two.b, ev.NoteAdded(text="four"))
    assert first.head.seen == {two.a.device: [1, two.world.events[0].hash]}
    assert second.head.seen == {}
    assert third.head.seen == {two.a.device: [2, moved.hash]}


def test_the_clock_of_an_event_is_one_more_than_that_of_all_events_it_follows(two: Two) -> None:
    for _ in range(5):
        two.write(two.a, ev.NoteAdded(text="ahead"))
    two.sync()
    assert two.write(two.b, ev.NoteAdded(text="after")).head.clock == 7
    assert two.write(two.b, ev.NoteAdded(text="next")).head.clock == 8


def test_a_new_device_sees_both_heads_of_a_copied_home(two: Two) -> None:
    twin = two.a.copy("twin")
    here = two.write(two.a, ev.NoteAdded(text="here"))
    there = two.write(twin, ev.NoteAdded(text="there"))
    assert (here.head.device, here.head.n) == (there.head.device, there.head.n)
    two.b.receive([here, there])
    link = continue_chain(two.b.core, two.b.device)
    heads = sorted([here.hash, there.hash])
    assert link.seen == {here.head.device: [2, heads[0], 2, heads[1]]}


def test_a_fork_continued_under_its_own_id_names_its_other_head(two: Two) -> None:
    twin = two.a.copy("twin")
    ends = [two.write(m, ev.NoteAdded(text=m.name)) for m in (two.a, twin)]
    core = fold(two.world.events).core
    link = continue_chain(core, two.a.device)
    last = max(ends, key=position)
    other = next(e for e in ends if e is not last)
    assert (link.n, link.prev, link.clock) == (3, last.hash, 3)
    assert link.seen == {two.a.device: [2, other.hash]}


def test_a_fork_continued_under_its_own_id_names_heads_that_one_branch_had_seen(two: Two) -> None:
    noted = two.write(two.b, ev.NoteAdded(text="seen by the twin alone"))
    twin = two.a.copy("twin")
    twin.receive([noted])
    two.write(twin, ev.NoteAdded(text="there"))
    for _ in range(5):
        two.write(two.a, ev.NoteAdded(text="here"))
    core = fold(two.world.events).core
    link = continue_chain(core, two.a.device)
    assert link.prev == two.world.events[-1].hash, "the branch that has not seen it is continued"
    assert link.seen[two.b.device] == [1, noted.hash]


def test_stored_core_gives_the_same_link_as_the_original(two: Two) -> None:
    import msgspec

    two.write(two.a, ev.NoteAdded(text="one"))
    two.sync()
    two.write(two.b, ev.NoteAdded(text="two"))
    core = fold(two.world.events).core
    again = msgspec.json.decode(msgspec.json.encode(core), type=Core)
    for device in (two.a.device, two.b.device, "new"):
        assert continue_chain(again, device) == continue_chain(core, device)


def test_values_of_the_wrong_type_are_refused_before_they_are_written() -> None:
    with pytest.raises(InvalidInput, match=r"note\.added was given values of the wrong type"):
        next_event(
            Core(),
            ev.NoteAdded(text=7),  # type: ignore[arg-type]
            session="s",
            device="d",
            id="e",
            at=0,
            actor="cli",
            salt=b"",
        )


def test_folded_value_equals_the_stored_bytes() -> None:
    body = ev.StepProgressed(step="t", fraction=1)
    sealed, event = next_event(
        Core(), body, session="s", device="d", id="e", at=0, actor="cli", salt=b""
    )
    assert event == ev.read(sealed)
    assert isinstance(event.body, ev.StepProgressed) and isinstance(event.body.fraction, float)


class Tampered:
    """A valid event of the second machine, and forgeries of its header."""

    def __init__(self) -> None:
        two = Two()
        two.write(two.a, ev.NoteAdded(text="one"))
        two.write(two.b, ev.NoteAdded(text="two"))
        two.b.receive(two.world.events)
        self.header = two.write(two.b, ev.NoteAdded(text="three")).head
        self.held = {e.hash: e.head for e in two.world.events}
        self.a, self.b = two.a.device, two.b.device
        self.heads = {e.head.device: e.hash for e in two.world.events[:3]}

    def check(self, **lies: object) -> str:
        fields = {name: getattr(self.header, name) for name in Header.__struct_fields__}
        return check_link(Header(**{**fields, **lies}), self.held.get)


LIES: dict[str, tuple[Callable[[Tampered], dict[str, object]], str]] = {
    "nothing": (lambda t: {}, ""),
    "a later number": (lambda t: {"n": 3}, "its number is 3, but the event before it has 1"),
    "the same number": (lambda t: {"n": 1}, "its number is 1, but the event before it has 1"),
    "no predecessor": (lambda t: {"prev": ""}, "number 2 names no predecessor"),
    "an unknown predecessor": (lambda t: {"prev": "f" * 64}, "the event before it is missing"),
    "another chain's head": (lambda t: {"prev": t.heads[t.a]}, "is of another chain"),
    "another device": (lambda t: {"device": "other"}, "is of another chain"),
    "another session": (lambda t: {"session": "other"}, "is of another chain"),
    "a clock ahead": (
        lambda t: {"clock": 4},
        "its clock is 4, but after the events it follows it must be 3",
    ),
    "a clock behind": (lambda t: {"clock": 2}, "it must be 3"),
    "a head that no chain has": (lambda t: {"seen": {t.a: [9, "f" * 64]}}, "which is missing"),
    "a head with another number": (lambda t: {"seen": {t.a: [9, t.heads[t.a]]}}, "another event"),
    "a head of another device": (lambda t: {"seen": {"x": [2, t.heads[t.a]]}}, "another event"),
    "half a head": (lambda t: {"seen": {t.a: [2]}}, "cannot be read"),
    "no head": (lambda t: {"seen": {t.a: []}}, "cannot be read"),
    "a head turned round": (lambda t: {"seen": {t.a: [t.heads[t.a], 2]}}, "cannot be read"),
    "a head and a half": (lambda t: {"seen": {t.a: [2, t.heads[t.a], 3]}}, "cannot be read"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_false_link_is_refused(lie: str) -> None:
    tampered = Tampered()
    make_lie, reason = LIES[lie]
    found = tampered.check(**make_lie(tampered))
    assert reason in found and bool(found) == bool(reason)


def test_a_head_of_another_session_is_refused() -> None:
    tampered = Tampered()
    ((device, n, digest),) = tampered.header.seen_heads()
    seen = tampered.held[digest]
    fields = {name: getattr(seen, name) for name in Header.__struct_fields__}
    tampered.held[digest] = Header(**{**fields, "session": "other"})
    assert tampered.check() == f"what it has seen as {device}:{n} is another event"


def test_a_first_event_with_a_later_number_is_refused() -> None:
    header = Tampered().header
    fields = {name: getattr(header, name) for name in Header.__struct_fields__}
    first = Header(**{**fields, "prev": "", "seen": {}, "clock": 1})
    assert check_link(first, lambda _: None) == "number 2 names no predecessor"


# -- order and past ----------------------------------------------------------------------------


def test_merge_order_is_clock_then_device_then_number_then_hash() -> None:
    def event(clock: int, device: str, n: int, hash: str) -> Event:
        head = Header(1, hash, "s", device, n, clock, 0, "cli", "note.added", "", "")
        return Event(head, hash, ev.NoteAdded(text=hash))

    wanted = [
        event(1, "z", 9, "z"),
        event(2, "a", 2, "y"),
        event(2, "b", 1, "x"),
        event(2, "b", 2, "a"),
        event(2, "b", 2, "b"),
        event(10, "a", 1, "c"),
    ]
    for seed in range(20):
        assert in_order(Random(seed).sample(wanted, len(wanted))) == wanted


def test_of_two_copies_of_an_event_the_erased_one_is_used(two: Two) -> None:
    event = two.write(two.a, ev.NoteAdded(text="a secret"))
    for both in ([event, erased(event)], [erased(event), event]):
        assert [e.body for e in in_order(both)] == [ev.Erased()]


def test_events_of_a_copied_home_are_concurrent_though_one_device_wrote_them(two: Two) -> None:
    twin = two.a.copy("twin")
    here = [two.write(two.a, ev.NoteAdded(text=f"{i}")) for i in range(3)]
    there = [two.write(twin, ev.NoteAdded(text=f"{i}")) for i in range(3)]
    past = Past(in_order(two.world.events))
    assert past.covers(here[2].hash, here[0].hash) and past.covers(there[2].hash, there[0].hash)
    for one in here:
        for other in there:
            assert not past.covers(one.hash, other.hash)
            assert not past.covers(other.hash, one.hash)


def test_an_event_with_an_unknown_hash_is_in_the_past_of_no_event(two: Two) -> None:
    past = Past(in_order(two.world.events))
    known = two.world.events[0].hash
    assert not past.covers(known, "f" * 64)
    assert not past.covers("f" * 64, known)


# -- retractions -------------------------------------------------------------------------------


def test_retraction_of_a_retraction_can_be_retracted(two: Two) -> None:
    target = two.write(two.a, ev.NoteAdded(text="oops")).id
    gone = [target]
    for turn in range(4):
        gone.append(two.write(two.a, ev.EventRetracted(event=gone[-1])).id)
        assert (target in retracted(in_order(two.world.events))) == (turn % 2 == 0)


def test_event_retracted_twice_counts_again_only_after_both_are_withdrawn(two: Two) -> None:
    target = two.write(two.a, ev.NoteAdded(text="oops")).id
    undoings = [two.write(m, ev.EventRetracted(event=target)).id for m in (two.a, two.b)]
    two.sync()
    two.write(two.a, ev.EventRetracted(event=undoings[0]))
    assert target in retracted(in_order(two.world.events))
    two.write(two.a, ev.EventRetracted(event=undoings[1]))
    assert target not in retracted(in_order(two.world.events))


def test_a_retraction_that_comes_before_its_target_is_void(two: Two) -> None:
    two.write(two.a, ev.EventRetracted(event="later"), "sooner")
    two.write(two.a, ev.EventRetracted(event="sooner"), "later")
    assert retracted(in_order(two.world.events)) == {"sooner"}


def test_an_event_cannot_retract_itself_or_nothing(two: Two) -> None:
    two.write(two.a, ev.EventRetracted(event="self"), "self")
    two.write(two.a, ev.EventRetracted(event="nowhere"))
    assert retracted(in_order(two.world.events)) == set()


@pytest.mark.parametrize("kind", sorted(KEPT))
def test_starting_adopting_and_forgetting_cannot_be_retracted(kind: str, two: Two) -> None:
    bodies: dict[str, Body] = {
        "session.started": ev.SessionStarted(goal="again"),
        "session.adopted": ev.SessionAdopted(goal="found", origin="file:praxis"),
        "session.forgotten": ev.SessionForgotten(),
        "event.forgotten": ev.EventForgotten(hashes=["f" * 64]),
    }
    kept = two.write(two.a, bodies[kind])
    two.write(two.a, ev.EventRetracted(event=kept.id))
    assert retracted(in_order(two.world.events)) == set()


def test_retracting_an_id_that_two_chains_hold_withdraws_both_copies(two: Two) -> None:
    for machine in (two.a, two.b):
        two.write(machine, ev.ErrorRaised(message="seen by both"), "adopted")
    two.write(two.b, ev.EventRetracted(event="adopted"))
    state = fold(two.world.events)
    assert state.rows.select("error") == []
    assert (state.core.events, state.core.retracted) == (4, 1)


def test_a_retraction_on_two_chains_is_withdrawn_as_one(two: Two) -> None:
    target = two.write(two.a, ev.NoteAdded(text="kept")).id
    two.sync()
    two.write(two.a, ev.EventRetracted(event=target), "undo")
    two.write(two.a, ev.EventRetracted(event="undo"))
    for _ in range(3):
        two.write(two.b, ev.NoteAdded(text="meanwhile"))
    two.write(two.b, ev.EventRetracted(event=target), "undo")
    assert retracted(in_order(two.world.events)) == {"undo"}


# -- disputes ----------------------------------------------------------------------------------

DONE, FAILED = ev.StepCompleted(step="t"), ev.StepFailed(step="t")
RED = ev.DecisionMade(decision="d", what="colour", chosen="red")
BLUE = ev.DecisionMade(decision="d", what="colour", chosen="blue")


def changed(after: str, action: str = "modified") -> Body:
    return ev.FileChanged(path="x", after=after, action=action)


CONTRADICTIONS: dict[str, tuple[Body, Body, str]] = {
    "two outcomes for a step": (DONE, FAILED, "step:t"),
    "done and skipped": (DONE, ev.StepSkipped(step="t"), "step:t"),
    "failed and blocked": (FAILED, ev.StepBlocked(step="t", because="x"), "step:t"),
    "done and put back": (DONE, ev.StepReset(step="t"), "step:t"),
    "failed and to be reviewed": (FAILED, ev.StepNeedsReview(step="t"), "step:t"),
    "two outcomes for an agent": (
        ev.AgentFinished(agent="g"),
        ev.AgentTimedOut(agent="g"),
        "agent:g",
    ),
    "two choices for one decision": (RED, BLUE, "decision:d"),
    "two texts for one decision": (
        ev.DecisionMade(decision="d", what="red"),
        ev.DecisionMade(decision="d", what="blue"),
        "decision:d",
    ),
    "one file with two last digests": (changed("1"), changed("2"), "file:x"),
    "a file changed and deleted": (changed("1"), changed("", "deleted"), "file:x"),
    "two endings": (ev.SessionCompleted(), ev.SessionAborted(), "session"),
    "an ending against a finished step": (ev.SessionCompleted(), DONE, "session"),
    "a failure against a change": (ev.SessionFailed(), changed("1"), "session"),
    "an ending against a resume": (ev.SessionAbandoned(), ev.SessionResumed(), "session"),
    "an ending against a command": (ev.SessionAborted(), ev.CommandRan(name="ls"), "session"),
    "an adopted ending against a decision": (
        ev.SessionAdopted(goal="g", origin="o", status="completed"),
        RED,
        "session",
    ),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_concurrent_contradiction_is_a_dispute(name: str, two: Two) -> None:
    one, other, subject = CONTRADICTIONS[name]
    events = [two.write(two.a, one), two.write(two.b, other)]
    dispute = two.dispute(subject)
    assert dispute is not None and dispute.is_open
    assert {side[0] for side in dispute.sides} == {e.hash for e in events}
    assert fold(two.world.events).count("dispute.open") == 1


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_same_events_one_after_the_other_are_no_dispute(name: str, two: Two) -> None:
    one, other, _ = CONTRADICTIONS[name]
    two.write(two.a, one)
    two.sync()
    two.write(two.b, other)
    assert fold(two.world.events).count("dispute") == 0


@pytest.mark.parametrize("name", [name for name in CONTRADICTIONS if "adopted" not in name])
@pytest.mark.parametrize("withdrawn", [0, 1])
def test_retracting_one_side_ends_the_dispute(name: str, withdrawn: int, two: Two) -> None:
    one, other, _ = CONTRADICTIONS[name]
    sides = [two.write(two.a, one), two.write(two.b, other)]
    two.sync()
    two.write(two.a, ev.EventRetracted(event=sides[withdrawn].id))
    assert fold(two.world.events).count("dispute") == 0


AGREEMENTS: dict[str, tuple[Body, Body]] = {
    "the same outcome": (DONE, ev.StepCompleted(step="t", outcome="in other words")),
    "outcomes of two steps": (DONE, ev.StepFailed(step="u")),
    "put back and to be reviewed": (ev.StepReset(step="t"), ev.StepNeedsReview(step="t")),
    "put back and begun again": (ev.StepReset(step="t"), ev.StepStarted(step="t")),
    "an outcome and a start": (DONE, ev.StepStarted(step="t")),
    "the same choice": (RED, ev.DecisionMade(decision="d", what="paint", chosen="red")),
    "two decisions": (RED, ev.DecisionMade(decision="e", what="colour", chosen="blue")),
    "the same digest": (changed("1"), changed("1", "created")),
    "changes without a digest": (changed("", "created"), changed("", "modified")),
    "the same ending": (ev.SessionCompleted(), ev.SessionCompleted(because="done")),
    "an ending and a note": (ev.SessionCompleted(), ev.NoteAdded(text="by the way")),
    "an ending and a pause": (ev.SessionCompleted(), ev.SessionPaused()),
    "an ending and an error": (ev.SessionCompleted(), ev.ErrorRaised(message="oh")),
    "a pause and work": (ev.SessionPaused(), DONE),
}


@pytest.mark.parametrize("name", AGREEMENTS)
def test_compatible_concurrent_statements_are_no_dispute(name: str, two: Two) -> None:
    for machine, body in zip((two.a, two.b), AGREEMENTS[name], strict=True):
        two.write(machine, body)
    assert fold(two.world.events).count("dispute") == 0


# -- outcomes and work that went on ------------------------------------------------------------

STARTED = ev.StepStarted(step="t")
WENT_ON: dict[str, tuple[Body, list[Body]]] = {
    "done, started": (DONE, [STARTED]),
    "done, started and progressed": (DONE, [STARTED, ev.StepProgressed(step="t", fraction=0.5)]),
    "failed, started": (FAILED, [STARTED]),
    "skipped, unblocked": (ev.StepSkipped(step="t"), [ev.StepUnblocked(step="t")]),
    "blocked, started": (ev.StepBlocked(step="t", because="x"), [STARTED]),
    "done, failed and tried again": (DONE, [STARTED, FAILED, STARTED]),
    "finished, started": (ev.AgentFinished(agent="t", result="r"), [ev.AgentStarted(agent="t")]),
    "finished, progressed": (
        ev.AgentFinished(agent="t", result="r"),
        [ev.AgentProgressed(agent="t", fraction=0.5, result="half")],
    ),
    "finished, retried": (ev.AgentFinished(agent="t", result="r"), [ev.AgentRetried(agent="t")]),
    "timed out, failed and retried": (
        ev.AgentTimedOut(agent="t"),
        [ev.AgentFailed(agent="t"), ev.AgentRetried(agent="t")],
    ),
}


def unit_of(events: list[Event], body: Body) -> Step | Agent:
    state = fold(events)
    assert image(fold(events[::-1])) == image(state)
    assert not state.count("dispute.open")
    unit = state.step("t") if hasattr(body, "step") else state.agent("t")
    assert unit is not None
    return unit


@pytest.mark.parametrize("later", ["outcome", "work"])
@pytest.mark.parametrize("name", WENT_ON)
def test_work_that_did_not_know_of_an_outcome_does_not_undo_it(
    name: str, later: str, two: Two
) -> None:
    outcome, work = WENT_ON[name]
    waits = two.b if later == "work" else two.a
    for _ in range(4):
        two.write(waits, ev.NoteAdded(text="so that its clock is ahead"))
    two.write(two.a, outcome)
    for body in work:
        two.write(two.b, body)
    alone = unit_of([e for e in two.world.events if e.head.device == two.a.device], outcome)
    unit = unit_of(two.world.events, outcome)
    assert (unit.status, unit.ended_at) == (alone.status, alone.ended_at)
    assert getattr(unit, "result", "") == getattr(alone, "result", "")


@pytest.mark.parametrize("again", [STARTED, ev.AgentRetried(agent="t")])
def test_work_started_after_seeing_an_outcome_is_running_again(again: Body, two: Two) -> None:
    ended = DONE if again is STARTED else ev.AgentFailed(agent="t")
    two.write(two.a, ended)
    two.write(two.b, ev.NoteAdded(text="meanwhile"))
    two.sync()
    two.write(two.b, again)
    assert unit_of(two.world.events, again).status == "running"


def test_an_outcome_reverted_by_a_restart_does_not_block_concurrent_work(two: Two) -> None:
    two.write(two.a, DONE)
    two.write(two.a, STARTED)
    for _ in range(4):
        two.write(two.b, ev.NoteAdded(text="so that its clock is ahead"))
    two.write(two.b, STARTED)
    assert unit_of(two.world.events, STARTED).attempts == 2


def test_a_retracted_outcome_does_not_stand_against_work(two: Two) -> None:
    two.write(two.a, ev.EventRetracted(event=two.write(two.a, DONE).id))
    for _ in range(4):
        two.write(two.b, ev.NoteAdded(text="so that its clock is ahead"))
    two.write(two.b, STARTED)
    assert unit_of(two.world.events, STARTED).status == "running"


def test_review_of_a_step_leaves_its_outcomes_in_dispute(two: Two) -> None:
    """A revisit alone changes no status, so it reverts none either."""
    two.write(two.a, ev.StepBlocked(step="t", because="waiting"))
    for body in (DONE, ev.StepRevisited(step="t", because="second thoughts")):
        two.write(two.b, body)
    assert two.is_disputed("step:t")


def test_only_the_last_digests_of_a_file_are_compared_for_a_dispute(two: Two) -> None:
    for machine, digests in ((two.a, "135"), (two.b, "2465")):
        for digest in digests:
            two.write(machine, changed(digest))
    assert not two.is_disputed("file:x")


def test_a_dispute_does_not_depend_on_clocks_or_names(two: Two) -> None:
    """The number of events before the merge must not decide whether there is a dispute."""
    for before in range(4):
        for names in (("a", "z"), ("z", "a")):
            world = World(Random(before))
            one, other = SimulatedMachine(names[0]), SimulatedMachine(names[1])
            start = world.write(one, ev.SessionStarted(goal="g"))
            other.receive([start])
            for _ in range(before):
                world.write(other, ev.NoteAdded(text="waiting"))
            world.write(one, FAILED)
            world.write(one, ev.StepStarted(step="t"))
            world.write(one, DONE)
            world.write(other, DONE)
            assert fold(world.events).count("dispute.open") == 0


def test_an_event_that_has_seen_one_side_settles_nothing(two: Two) -> None:
    c = two.join("cc")
    done, _ = two.write(two.a, DONE), two.write(two.b, FAILED)
    c.receive([done])
    two.write(c, ev.StepSkipped(step="t"))
    assert two.outcomes("step:t") == {"failed", "skipped"}


def test_an_event_that_has_seen_all_sides_settles_the_dispute(two: Two) -> None:
    two.write(two.a, DONE)
    two.write(two.b, FAILED)
    two.sync()
    last = two.write(two.a, ev.StepStarted(step="t"))
    dispute = two.dispute("step:t")
    assert dispute is not None and dispute.settled_by == last.hash
    assert two.outcomes("step:t") == {"done", "failed"}, "the sides are kept"


def test_settling_in_two_ways_at_once_is_a_new_dispute(two: Two) -> None:
    two.write(two.a, DONE)
    two.write(two.b, FAILED)
    two.sync()
    two.write(two.a, DONE)
    two.write(two.b, FAILED)
    assert two.is_disputed("step:t")


def test_work_after_the_merge_does_not_settle_how_the_session_ended(two: Two) -> None:
    two.write(two.a, ev.SessionCompleted())
    two.write(two.b, DONE)
    two.sync()
    two.write(two.b, ev.StepCompleted(step="u"))
    assert two.is_disputed("session")
    assert two.outcomes("session") == {"completed", "work went on"}


def test_retracting_the_ending_settles_the_dispute_even_if_the_work_was_not_seen(two: Two) -> None:
    two.write(two.a, ev.SessionCompleted())
    two.write(two.b, DONE)
    two.write(two.a, ev.SessionReopened(because="not yet"))
    assert not two.is_disputed("session")
    assert fold(two.world.events).core.status == "active"


def test_a_dispute_names_only_the_last_work_of_a_branch(two: Two) -> None:
    two.write(two.a, ev.SessionCompleted())
    for i in range(50):
        last = two.write(two.b, ev.StepCompleted(step=f"t{i}"))
    dispute = two.dispute("session")
    assert dispute is not None and len(dispute.sides) == 2
    assert last.hash in {side[0] for side in dispute.sides}


def test_an_event_with_the_same_id_on_two_chains_is_one_statement(two: Two) -> None:
    """Both absorbed the same edit; the next event of one of them has seen it."""
    two.write(two.a, DONE, "same-edit")
    two.write(two.b, DONE, "same-edit")
    two.write(two.b, FAILED)
    assert fold(two.world.events).count("dispute.open") == 0


def test_an_id_on_two_chains_has_seen_what_either_writer_had_seen(two: Two) -> None:
    two.write(two.a, DONE, "same-edit")
    two.write(two.b, FAILED)
    two.write(two.b, DONE, "same-edit")
    assert fold(two.world.events).count("dispute.open") == 0


def test_an_ending_on_two_chains_is_not_against_the_work_one_writer_knew(two: Two) -> None:
    two.write(two.a, ev.SessionCompleted(), "same-edit")
    two.write(two.b, DONE)
    two.write(two.b, ev.SessionCompleted(), "same-edit")
    state = fold(two.world.events)
    assert state.count("dispute.open") == 0
    assert state.core.status == "completed"


def test_an_event_id_used_again_for_another_kind_of_event_is_ignored(two: Two) -> None:
    two.write(two.a, DONE, "used-twice")
    two.write(two.b, FAILED)
    two.write(two.b, RED, "used-twice")
    assert fold(two.world.events).count("decision") == 0
    assert two.is_disputed("step:t")


def test_erased_and_unknown_events_cause_no_dispute(two: Two) -> None:
    two.write(two.a, DONE)
    unreadable = two.world.write_raw(two.b, "step.failed", b'{"step":7}')
    other = two.write(two.a, RED)
    blue = two.write(two.b, BLUE)
    assert isinstance(unreadable.body, ev.Unknown)
    events = [erased(e) if e in (other, blue) else e for e in two.world.events]
    assert fold(events).count("dispute") == 0


# -- laws over random histories ----------------------------------------------------------------


@pytest.mark.parametrize("law", laws.MERGE_LAWS, ids=lambda law: law.__name__)
def test_merge_law_holds_in_random_histories(law: Callable[[laws.Case], None]) -> None:
    for seed in range(300):
        law(laws.case(seed))


class Watched(World):
    """A world in which every new event must have seen everything its writer holds."""

    def _store(self, machine: SimulatedMachine, sealed: Sealed, event: Event) -> Event:
        super()._store(machine, sealed, event)
        assert machine.core.tips == [event.hash]
        return event


def test_an_event_has_seen_everything_its_writer_holds() -> None:
    for seed in range(500):
        Watched(Random(seed)).run(30)


@given(st.randoms(use_true_random=False), st.integers(0, 15))
def test_every_merge_law_holds_in_histories_generated_by_hypothesis(
    random: Random, steps: int
) -> None:
    case = laws.Case(random, simulate(random, steps))
    for law in laws.MERGE_LAWS:
        law(case)


def test_generated_histories_contain_every_situation() -> None:
    """A generator that stopped making forks would make every law above trivial."""
    met: set[str] = set()
    for seed in range(200):
        case = laws.case(seed)
        ids = [e.id for e in case.events]
        core = case.state.core
        met |= {e.kind for e in case.events}
        met |= {"fork"} if any(len(c.heads) > 1 for c in core.chains.values()) else set()
        met |= {"id twice"} if len(set(ids)) < len(ids) else set()
        met |= {"erased"} if core.erased else set()
        met |= {"needs"} if core.needs else set()
        met |= {"open", "settled"} & {row.word for row in case.state.rows.select("dispute")}
        met |= {"undo undone"} if _undoes_an_undo(case) else set()
        met |= {"own id given up"} if any("-" in m.device for m in case.world.machines) else set()
    wanted = {"fork", "id twice", "erased", "needs", "open", "settled", "undo undone"}
    assert met >= {*wanted, "own id given up", "future.thing", *ev.KINDS}


def _undoes_an_undo(case: laws.Case) -> bool:
    undone = [e.body.event for e in case.events if isinstance(e.body, ev.EventRetracted)]
    return any(e.id in undone for e in case.events if e.kind == "event.retracted")


def test_equal_seeds_generate_equal_histories() -> None:
    assert laws.case(7).events == laws.case(7).events
