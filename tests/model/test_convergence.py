"""However events travel between devices, all of them end with one state, and nothing is lost.

A history has 2 to 5 devices that work offline, are copied, set back to old backups, and whose
clocks are days apart. Then packs travel: twice, in any order, cut off in the middle (only a part
that is closed under causes arrives), over devices that pass on what they were given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from hashlib import sha256
from itertools import pairwise
from multiprocessing import get_context
from random import Random

import pytest

from forestay.model.event import Event
from forestay.model.fold import extend, fold, follows
from forestay.model.merge import in_order
from forestay.model.state import State
from tests import histories
from tests.histories import SimulatedMachine, World, image, with_ancestors

FEW, MANY, PART = 400, 100_000, 2_500

Held = dict[str, Event]


def world_of(seed: int) -> World:
    """Return a history of at least two devices, each of which may hold unique events."""
    random = Random(f"devices {seed}")
    world = World(random)
    world.run(random.randrange(3, 14))
    while len(world.machines) < 2:
        histories._join(world)
    for machine in world.machines:
        if random.random() < 0.7:
            world.write(machine, histories.random_body(random))
    return world


def state_hash(events: Iterable[Event]) -> str:
    return hash_of(fold(events))


def hash_of(state: State) -> str:
    return sha256(repr(sorted(image(state).items())).encode()).hexdigest()


def kept(machine: SimulatedMachine) -> Held:
    """Return everything that a device holds or could restore from its backups."""
    found = dict(machine.held)
    for backup in machine.backups:
        found |= {event.hash: event for event in backup}
    return found


def deliver(random: Random, source: Held, target: Held) -> None:
    """Deliver a push: all of it, or the part before it broke off; some of it twice."""
    parts = list(source.values())
    if random.random() < 0.4:
        wanted = random.sample(list(source), random.randrange(1, len(source) + 1))
        parts = with_ancestors(source, wanted)
    parts += random.sample(parts, random.randrange(len(parts) + 1))
    random.shuffle(parts)
    target |= {event.hash: event for event in parts}


def travel(random: Random, homes: list[Held]) -> None:
    """Sync some devices in some order, until every device has everything."""
    for _ in range(random.randrange(6)):
        deliver(random, random.choice(homes), random.choice(homes))
    order = random.sample(homes, len(homes))
    for one in (*order, *order):  # once to collect, once to hand out
        deliver_all(one, order)


def deliver_all(one: Held, others: list[Held]) -> None:
    for other in others:
        other |= one


def taken_as_it_comes(random: Random, events: list[Event]) -> State:
    """Return the state of a home that folds again only if an event reaches back."""
    held: list[Event] = []
    state = State()
    while events:
        cut = random.randrange(1, len(events) + 1)
        part, events = events[:cut], events[cut:]
        known = {event.id for event in held}
        held += part
        for event in in_order(part):
            if event.id in known or not follows(state, event):
                state = fold(held)
                break
            known.add(event.id)
            extend(state, event)
    return state


def check(seed: int) -> None:
    """Check all laws of one history, and name it if one fails."""
    try:
        converges(seed)
    except AssertionError as error:
        raise AssertionError(f"history {seed}: {error}") from error


def converges(seed: int) -> None:
    world = world_of(seed)
    random = world.random
    homes = [kept(machine) for machine in world.machines]
    everything = {hash for home in homes for hash in home}
    a, b, c = ([*random.choice(homes).values()] for _ in range(3))
    first, other = state_hash([*a, *b, *c]), [*b, *c, *b, *a]
    random.shuffle(other)
    assert first == state_hash(other), "neither order, grouping nor second copies may matter"
    travel(random, homes)
    assert all(set(home) == everything for home in homes), "an event was lost"
    one, two = random.sample(homes, 2)
    assert (last := state_hash(one.values())) == state_hash(two.values()), "two devices differ"
    shuffled = random.sample(list(two.values()), len(everything))
    assert last == hash_of(taken_as_it_comes(random, shuffled)), "what is taken as it comes"


def test_histories_of_several_devices_converge() -> None:
    for seed in range(FEW):
        check(seed)


def test_generated_histories_contain_every_case() -> None:
    worlds = [world_of(seed) for seed in range(FEW)]
    machines = {len(world.machines) for world in worlds}
    assert {2, 3, 4, 5} <= machines
    forked = twice = skewed = 0
    for world in worlds:
        places = [(e.head.device, e.head.n) for e in world.events]
        forked += len(places) > len(set(places))
        ids = [event.id for event in world.events]
        twice += len(ids) > len(set(ids))
        order = [event.head.at for event in in_order(world.events)]
        skewed += any(a > b + 86_400_000 for a, b in pairwise(order))
    assert forked > 20 and twice and skewed > 20


def check_some(seeds: range) -> None:
    for seed in seeds:
        check(seed)


@pytest.mark.soak
def test_a_hundred_thousand_histories_converge(report_figure: Callable[[str], None]) -> None:
    parts = [range(first, first + PART) for first in range(0, MANY, PART)]
    # Not by forks: threads that earlier tests left running would be forked too.
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        assert len([*pool.map(check_some, parts)]) * PART == MANY
    report_figure(f"histories of several devices: seeds 0 to {MANY - 1}")
