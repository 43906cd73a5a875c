"""Phases in any journal of any devices: one state whatever the order, and a phase that exists."""

from __future__ import annotations

from random import Random

from hypothesis import example, given
from hypothesis import strategies as st

from forestay.model import event as ev
from forestay.model.event import Body
from forestay.model.fold import extend, fold, follows
from forestay.model.state import State, Step, last_number, number_of
from tests import histories
from tests.histories import World, image

STEPS = ("phase-0", "phase-1", "phase-2", "phase-3", "phase-9", "stage-1", "2.1")


def plan_body(random: Random) -> Body:
    step = random.choice(STEPS)
    made: list[Body] = [
        ev.PlanSet(workflow="w", base=random.choice((0, 1)), total=random.choice((None, 0, 1, 3))),
        ev.PlanSet(workflow="e", total=3, unit="stage"),
        ev.PlanResolved(total=random.choice((1, 2, 4))),
        ev.StepAdded(step=step, title="t", parent=random.choice(("", "phase-1"))),
        *(ev.StepStarted(step=step), ev.StepStarted(step=step), ev.StepStarted(step=step)),
        *(ev.StepCompleted(step=step), ev.StepCompleted(step=step), ev.StepReset(step=step)),
        *(ev.StepFailed(step=step), ev.StepNeedsReview(step=step)),
        *(ev.CheckpointPassed(step=step), ev.CheckpointFailed(step=step, issue="no")),
        *(ev.CheckpointRolledBack(step=step), ev.CheckpointOverridden(step=step)),
        *(ev.SessionPaused(), ev.SessionResumed(), ev.SessionCompleted()),
        *(ev.SessionReopened(because="b"), ev.AttributeSet(key="position", value=step)),
    ]
    return random.choice(made)


def live(random: Random, steps: int) -> World:
    world = World(random)
    world.write(world.machines[0], ev.SessionStarted(goal="g"))
    world.write(world.machines[0], ev.PlanSet(workflow="w", base=random.choice((0, 1)), total=3))
    for _ in range(steps):
        chance = random.random()
        if chance < 0.75:
            world.write(random.choice(world.machines), plan_body(random))
        elif chance < 0.9:
            histories._exchange(world)
        elif chance < 0.95:
            histories._join(world)
        else:
            histories._retract(world)
    return world


@given(st.integers(0, 10**6))
def test_the_order_in_which_events_arrive_does_not_change_the_folded_phases(seed: int) -> None:
    random = Random(seed)
    events = live(random, 40).events
    whole = image(fold(events))
    random.shuffle(events)
    assert image(fold(events)) == whole


@given(st.integers(0, 10**6))
def test_adding_one_event_equals_folding_all(seed: int) -> None:
    random = Random(seed)
    world = World(random)
    state, done = State(), []
    bodies = [ev.SessionStarted(goal="g"), *(plan_body(random) for _ in range(30))]
    for body in bodies:
        event = world.write(world.machines[0], body)
        done.append(event)
        assert follows(state, event)
        extend(state, event)
    assert image(state) == image(fold(done))


@given(st.integers(0, 10**6))
def test_the_current_phase_is_always_one_that_exists(seed: int) -> None:
    core = fold(live(Random(seed), 40).events).core
    if core.phase is None:
        return
    last = last_number(core.plan_base, core.plan_total)
    assert core.plan_base <= core.phase
    assert last is None or core.phase <= last


@example(5475)
@given(st.integers(0, 10**6))
def test_phases_in_the_core_agree_with_their_steps(seed: int) -> None:
    state = fold(live(Random(seed), 40).events)
    core = state.core
    steps = [row for row in state.rows.select("step") if isinstance(row, Step)]
    done = {n for s in steps if (n := core.phase_of(s.id)) is not None and s.status == "done"}
    assert set(core.phases_done) == done


def test_ids_of_phases_are_numbers_as_they_are_written() -> None:
    good = {"phase-0": 0, "phase-12": 12, "stage-4": 4}
    bad = ("phase-", "phase-01", "phase--1", "phase-1234567", "phase-٣", "task-1", "phase", "1")
    assert {name: number_of(name) for name in good} == good
    assert [number_of(name) for name in bad] == [None] * len(bad)
