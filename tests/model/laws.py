"""Laws that hold for every history, each a function that fails with an assertion.

A `Case` is one history and what several laws need of it, worked out once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from random import Random

import msgspec

from forestay.model import event as ev
from forestay.model.event import Event
from forestay.model.fold import extend, fold, follows
from forestay.model.hash_chain import check_link
from forestay.model.merge import Past, in_order, parents, retracted
from forestay.model.state import TABLES, Core, Dispute, Rows, State
from tests.histories import World, erased, image, lies, simulate
from tests.model import oracle


class Case:
    def __init__(self, random: Random, world: World) -> None:
        self.random = random
        self.world = world
        self.events = list(world.events)
        if random.random() < 0.15:
            lost = random.sample(self.events, min(3, len(self.events)))
            self.events = [erased(e) if e in lost else e for e in self.events]

    @cached_property
    def ordered(self) -> list[Event]:
        return oracle.in_merge_order(self.events)

    @cached_property
    def state(self) -> State:
        return fold(self.events)

    @cached_property
    def disputes(self) -> oracle.Disputes:
        return oracle.Disputes(self.ordered)

    def shuffled(self) -> list[Event]:
        return self.random.sample(self.events, len(self.events))


def case(seed: int) -> Case:
    """Return a history by its number; every fourth may be a long one."""
    random = Random(seed)
    return Case(random, simulate(random, steps=random.randrange(4, 16 if seed % 4 else 32)))


def case_with_lies(seed: int) -> Case:
    one = case(seed)
    forged = lies(one.random, one.events)
    one.events += [*forged, *lies(one.random, forged)]
    if one.random.random() < 0.3:
        one.events.remove(one.random.choice(one.events))
    return one


# -- order and past ----------------------------------------------------------------------------


def merge_order_puts_every_event_after_its_past(case: Case) -> None:
    place = {event.hash: i for i, event in enumerate(in_order(case.shuffled()))}
    for event in case.events:
        for parent in parents(event):
            assert place[parent] < place[event.hash]


def every_link_passes_its_check(case: Case) -> None:
    held: dict[str, ev.Header] = {}
    for event in case.world.events:
        assert check_link(event.head, held.get) == ""
        held[event.hash] = event.head


def heads_are_named_only_when_they_changed(case: Case) -> None:
    named: dict[str, dict[str, list[int | str]]] = {"": {}}
    for event in case.world.events:
        before = named[event.head.prev]
        assert all(before.get(device) != heads for device, heads in event.head.seen.items())
        named[event.hash] = {**before, **event.head.seen}


def the_past_is_what_links_lead_to(case: Case) -> None:
    past = Past(in_order(case.shuffled()))
    for later in case.events:
        for earlier in case.events:
            known = earlier.hash in case.disputes.past[later.hash]
            assert past.covers(later.hash, earlier.hash) == known


def retractions_are_those_that_stand(case: Case) -> None:
    assert retracted(case.ordered) == case.disputes.gone


# -- disputes ----------------------------------------------------------------------------------


def disputes_are_the_concurrent_contradictions(case: Case) -> None:
    rows = case.state.rows.select("dispute", open_only=True)
    found = {row.name: {side[0] for side in row.sides} for row in rows if isinstance(row, Dispute)}
    wanted = case.disputes.open()
    assert found.keys() == wanted.keys()
    assert case.state.count("dispute.open") == len(wanted)
    for subject, sides in found.items():
        # Of many pieces of work only the last of each branch is named.
        assert sides <= wanted[subject]
        missing = wanted[subject] - sides
        past = case.disputes.past
        assert all(any(gap in past[named] for named in sides) for gap in missing)


def status_is_the_last_word_or_active_while_disputed(case: Case) -> None:
    assert case.state.core.status == oracle.status(case.disputes)


def a_unit_is_in_a_status_that_stands(case: Case) -> None:
    """Work that only continues undoes no outcome that it had not seen."""
    for subject, words in case.disputes.outcomes().items():
        table, _, name = subject.partition(":")
        row = case.state.rows.get(table, name)
        assert row is not None and row.word in words


def speaking_after_all_sides_settles(case: Case) -> None:
    """An event that has seen everything and states a disputed subject ends that dispute."""
    if case.state.core.forgotten:
        return
    machine = case.world.machines[0]
    machine.receive(case.world.events)
    events = list(case.events)
    for subject in case.disputes.open():
        body = _SETTLES[subject.partition(":")[0]](subject.partition(":")[2])
        last = case.world.write(machine, body)
        events.append(last)
        dispute = fold(events).rows.get("dispute", subject)
        assert isinstance(dispute, Dispute) and dispute.settled_by == last.hash


_SETTLES: dict[str, Callable[[str], ev.Body]] = {
    "session": lambda _: ev.SessionCompleted(),
    "step": lambda name: ev.StepCompleted(step=name),
    "agent": lambda name: ev.AgentFinished(agent=name),
    "file": lambda name: ev.FileChanged(path=name, after="d1"),
    "decision": lambda name: ev.DecisionMade(decision=name, what="colour", chosen="red"),
}


# -- fold --------------------------------------------------------------------------------------


def neither_arrival_order_nor_second_copies_matter(case: Case) -> None:
    again = case.random.sample(case.events, len(case.events) // 3)
    assert image(fold([*case.shuffled(), *again])) == image(case.state)


def the_union_of_two_journals_is_one_state(case: Case) -> None:
    """Commutative, associative, idempotent: the order of merges does not matter."""
    mine, yours, theirs = ([e for e in case.events if case.random.random() < 0.6] for _ in "abc")
    union = image(fold([*mine, *yours, *theirs]))
    assert image(fold([*theirs, *yours, *mine])) == union
    assert image(fold([*yours, *in_order([*theirs, *mine]), *yours])) == union


def a_prefix_and_what_follows_give_the_whole(case: Case) -> None:
    """A snapshot of any prefix, extended by the rest, equals the fold of all events."""
    start = case.random.randrange(len(case.ordered))
    taken = case.ordered[:start]
    ids, state = {e.id for e in taken}, _kept_and_read_back(fold(taken))
    for event in case.ordered[start:]:
        if not follows(state, event) or event.id in ids:
            break
        extend(state, event)
        taken.append(event)
        ids.add(event.id)
    assert image(state) == image(fold(taken))


def _kept_and_read_back(state: State) -> State:
    rows = Rows()
    for table, key, row in state.rows.items():
        rows.put(table, key, msgspec.json.decode(msgspec.json.encode(row), type=TABLES[table]))
    return State(msgspec.json.decode(msgspec.json.encode(state.core), type=Core), rows)


def events_taken_as_they_come_give_the_whole(case: Case) -> None:
    """Events one by one in any order, folded again only if `follows` is false, give one state."""
    state, taken, ids = State(), list[Event](), set[str]()
    for event in _any_causal_order(case):
        if follows(state, event) and event.id not in ids:
            extend(state, event)
        else:
            assert image(state) == image(fold(taken))
            state = fold([*taken, event])
        taken.append(event)
        ids.add(event.id)
    assert image(state) == image(case.state)


def every_event_is_counted(case: Case) -> None:
    core = case.state.core
    assert core.events == len({e.hash for e in case.events})
    firsts = case.disputes.valid
    assert core.retracted == len(case.disputes.gone)
    assert core.erased == sum(isinstance(e.body, ev.Erased) for e in firsts)
    assert sum(core.unknown.values()) == sum(isinstance(e.body, ev.Unknown) for e in firsts)
    assert core.clock == max(e.head.clock for e in case.events)


def heads_and_tips_are_the_ends_of_the_graph(case: Case) -> None:
    core = case.state.core
    followed = {hash for e in case.events for hash in parents(e)}
    continued = {e.head.prev for e in case.events}
    assert set(core.tips) == {e.hash for e in case.events} - followed
    heads = {head[1] for chain in core.chains.values() for head in chain.heads}
    assert heads == {e.hash for e in case.events} - continued
    for device, chain in core.chains.items():
        for n, hash, clock in chain.heads:
            head = next(e.head for e in case.events if e.hash == hash)
            assert (device, n, clock) == (head.device, head.n, head.clock)


_OF_EVENTS = ("notes", "pauses", "interruptions")


def counts_agree_with_rows(case: Case) -> None:
    counted: dict[str, int] = {}
    for table, _, row in case.state.rows.items():
        counted[table] = counted.get(table, 0) + 1
        if row.word:
            counted[f"{table}.{row.word}"] = counted.get(f"{table}.{row.word}", 0) + 1
    for name, count in case.state.core.counts.items():
        if name not in _OF_EVENTS and not name.startswith(("command.", "message.")):
            assert counted.pop(name) == count
    assert not counted


def _any_causal_order(case: Case) -> list[Event]:
    """Return the events in a random order in which each comes after its parents."""
    waiting, done, order = case.shuffled(), set[str](), []
    while waiting:
        event = next(e for e in waiting if done.issuperset(parents(e)))
        waiting.remove(event)
        done.add(event.hash)
        order.append(event)
    return order


MERGE_LAWS: list[Callable[[Case], None]] = [
    merge_order_puts_every_event_after_its_past,
    every_link_passes_its_check,
    heads_are_named_only_when_they_changed,
    the_past_is_what_links_lead_to,
    retractions_are_those_that_stand,
    disputes_are_the_concurrent_contradictions,
]
FOLD_LAWS: list[Callable[[Case], None]] = [
    neither_arrival_order_nor_second_copies_matter,
    a_prefix_and_what_follows_give_the_whole,
    every_event_is_counted,
    heads_and_tips_are_the_ends_of_the_graph,
    counts_agree_with_rows,
    status_is_the_last_word_or_active_while_disputed,
    a_unit_is_in_a_status_that_stands,
    speaking_after_all_sides_settles,  # the last: it writes on
]


SLOW_LAWS: list[Callable[[Case], None]] = [
    the_union_of_two_journals_is_one_state,
    events_taken_as_they_come_give_the_whole,
]
"""These fold many times, so they run on fewer histories."""

LIE_LAWS: list[Callable[[Case], None]] = [
    the_past_is_what_links_lead_to,
    retractions_are_those_that_stand,
    disputes_are_the_concurrent_contradictions,
    status_is_the_last_word_or_active_while_disputed,
    every_event_is_counted,
    counts_agree_with_rows,
    neither_arrival_order_nor_second_copies_matter,
    a_prefix_and_what_follows_give_the_whole,
    the_union_of_two_journals_is_one_state,
]
"""These hold even for forged events."""


def check_all(seed: int) -> None:
    one = case(seed)
    for law in (*MERGE_LAWS, *FOLD_LAWS):
        try:
            law(one)
        except AssertionError as error:
            raise AssertionError(f"{law.__name__} fails for case({seed})") from error
