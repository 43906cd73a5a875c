"""Phase moves: the events that a move through the phases of a plan consists of.

A session has the workflow it started with. Its phases are steps, its tasks steps inside them.
These functions return the events that belong together when a plan begins, or a phase is passed,
rolled back or added; `rules` decides on each of these events, when it is recorded, whether it is
allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from forestay.base.text import clean_id
from forestay.errors import InvalidInput, Refused
from forestay.model import event as ev
from forestay.model.event import Body
from forestay.model.plan import Phase, Workflow
from forestay.model.rules import check_reach
from forestay.model.state import Checkpoint, State, Step, last_number

MOST = 1_000
"""The largest number of phases of a plan."""


# -- the beginning -----------------------------------------------------------------------------


def begin_plan(workflow: Workflow, *, target: str, snapshot: str) -> list[Body]:
    """Return the events that begin a plan: its phases with their tasks, the first one started."""
    total = workflow.total if workflow.phases or workflow.pattern else 0
    plan = ev.PlanSet(
        workflow=workflow.name,
        version=workflow.version,
        base=workflow.base,
        total=total,
        target=target,
        snapshot=snapshot,
        unit=workflow.unit,
    )
    numbers = _numbers(workflow)
    taken: set[str] = {workflow.step_id(number) for number in numbers}
    steps = [body for number in numbers for body in add_phase(workflow, number, taken)]
    first: list[Body] = [ev.StepStarted(step=workflow.step_id(workflow.base))] if numbers else []
    return [plan, *steps, *first]


def _numbers(workflow: Workflow) -> Iterable[int]:
    last = last_number(workflow.base, workflow.total)
    if last is None:
        last = max((phase.number for phase in workflow.phases), default=workflow.base - 1)
        last = max(last, workflow.base) if workflow.pattern else last
    if last - workflow.base >= MOST:
        raise InvalidInput(f"a plan has at most {MOST} {workflow.unit}s")
    return range(workflow.base, last + 1)


def add_phase(workflow: Workflow, number: int, taken: set[str], name: str = "") -> Iterator[Body]:
    """Yield the events that add a phase with its tasks; `taken` are the ids in use."""
    id, phase = workflow.step_id(number), workflow.phase(number)
    yield ev.StepAdded(step=id, title=name or phase_title(workflow, number), unit=workflow.unit)
    for place, task in enumerate(phase.tasks if phase else (), 1):
        own = task.id if _is_valid_id(task.id) and task.id not in taken else f"{number}.{place}"
        taken.add(own)
        yield ev.StepAdded(step=own, title=task.name, parent=id)


def phase_title(workflow: Workflow | None, number: int) -> str:
    """Return the title of a phase; one made from the pattern gets its number too."""
    unit = workflow.unit if workflow else "phase"
    phase: Phase | None = workflow.phase(number) if workflow else None
    if workflow is None or phase is None or not phase.name:
        return f"{unit.capitalize()} {number}"
    is_named = any(each.number == number for each in workflow.phases)
    return phase.name if is_named else f"{phase.name} {number}"


def _is_valid_id(id: str) -> bool:
    try:
        return bool(clean_id(id, "task"))
    except InvalidInput:
        return False


# -- on the way --------------------------------------------------------------------------------


def require_plan(state: State) -> int:
    """Return the current phase; refuse a session without phases."""
    if state.core.phase is None:
        hint = 'forestay start "GOAL" --workflow NAME'
        raise Refused("the session has no plan with phases", hint=hint, session=state.core.session)
    return state.core.phase


def start_phase(state: State, workflow: Workflow | None, number: int) -> list[Body]:
    """Return the events that start a phase if it does not run: it is new, blocked or failed."""
    if number != state.core.phase:
        return []
    id = state.core.phase_step(number)
    step = state.step(id)
    made = _reset_others(state, number)
    if step is None:
        new = ev.StepAdded(step=id, title=phase_title(workflow, number), unit=state.core.plan_unit)
        return [*made, new, ev.StepStarted(step=id)]
    if step.status != "running" and step.is_open:
        made.append(ev.StepStarted(step=id))
    return made


def _reset_others(state: State, number: int) -> list[Body]:
    """Return the events that reset other running phases: a file may not have ended them."""
    rows = (row for row in state.rows.select("step") if isinstance(row, Step))
    running = (row for row in rows if row.status == "running")
    return [
        ev.StepReset(step=r.id) for r in running if state.core.phase_of(r.id) not in (None, number)
    ]


def complete_phase(state: State, workflow: Workflow | None, number: int) -> list[Body]:
    """Return the events that complete a phase, then start the next one or complete the session."""
    core = state.core
    done: list[Body] = [ev.StepCompleted(step=core.phase_step(number))]
    following = next_number(state, number)
    if following is None:
        return [*done, ev.SessionCompleted()]
    id = core.phase_step(following)
    if state.step(id) is None:
        title = phase_title(workflow, following)
        done.append(ev.StepAdded(step=id, title=title, unit=core.plan_unit))
        if workflow is not None:
            taken = {row.name for row in state.rows.select("step")}
            done += list(add_phase(workflow, following, taken))[1:]
    return [*done, ev.StepStarted(step=id)]


def next_number(state: State, number: int) -> int | None:
    """Return the phase after one that has passed; None if no other is left."""
    core = state.core
    last = last_number(core.plan_base, core.plan_total or None)
    done = {*core.phases_done, number}
    if last is None:
        return next(n for n in range(number + 1, number + len(done) + 2) if n not in done)
    left = [n for n in range(core.plan_base, last + 1) if n not in done]
    return next((n for n in left if n > number), left[0] if left else None)


def retry_phase(state: State) -> list[Body]:
    """Return the events of another attempt at the current phase, after a failed one."""
    number = require_plan(state)
    id = state.core.phase_step(number)
    step = state.step(id)
    verdict = state.core.phase_verdicts.get(number)
    if verdict != "failed" and (step is None or step.status not in ("failed", "timed_out")):
        raise Refused(
            f"phase {number} has not failed", legal=[f"phase done {number}"], operation="update"
        )
    return [*_reset_others(state, number), ev.StepStarted(step=id)]


def roll_back_to(state: State, number: int, because: str = "") -> list[Body]:
    """Return the events that roll back every phase from a number on, and start that one again."""
    core = state.core
    check_reach(core, number)
    made: list[Body] = []
    if core.status in ("completed", "abandoned"):
        made.append(ev.SessionReopened(because=because or f"rollback to phase {number}"))
    for each in sorted(core.phase_verdicts):
        if each >= number and core.phase_verdicts[each] != "rolled_back":
            made.append(ev.CheckpointRolledBack(step=core.phase_step(each), because=because))
    made += [ev.StepReset(step=step.id, because=because) for step in _steps_from(state, number)]
    return [*made, ev.StepStarted(step=core.phase_step(number))]


def _steps_from(state: State, number: int) -> Iterator[Step]:
    core = state.core
    for row in state.rows.select("step"):
        if isinstance(row, Step) and row.status not in ("pending", "skipped"):
            own, around = core.phase_of(row.id), core.phase_of(row.parent)
            if max(-1 if own is None else own, -1 if around is None else around) >= number:
                yield row


def resolve_total(
    state: State, workflow: Workflow | None, total: int, names: Sequence[str] = ()
) -> list[Body]:
    """Return the events that set the number of phases; `names` are for those without a name."""
    require_plan(state)
    core = state.core
    if total > MOST:
        raise InvalidInput(f"a plan has at most {MOST} {core.plan_unit}s")
    numbers = range(core.plan_base, core.plan_base + total)
    missing = [n for n in numbers if state.step(core.phase_step(n)) is None]
    if len(names) > len(missing):
        why = f"{len(missing)} phases are without a name"
        raise InvalidInput(f"{len(names)} names are too many", why=why)
    made: list[Body] = [ev.PlanResolved(total=total), *_skip_beyond(state, total)]
    taken = {row.name for row in state.rows.select("step")}
    for place, number in enumerate(missing):
        name = names[place] if place < len(names) else ""
        if workflow is None:
            title = name or phase_title(None, number)
            made.append(ev.StepAdded(step=core.phase_step(number), title=title, unit="phase"))
        else:
            made += add_phase(workflow, number, taken, name)
    is_over = core.phases_done.keys() >= set(numbers)
    return [*made, ev.SessionCompleted()] if is_over else made


def _skip_beyond(state: State, total: int) -> Iterator[Body]:
    """Yield the events that skip the phase after the last, started before the total was known."""
    beyond = state.core.phase_step(state.core.plan_base + total)
    for row in state.rows.select("step"):
        if isinstance(row, Step) and beyond in (row.id, row.parent) and row.is_open:
            if row.status == "running":
                yield ev.StepReset(step=row.id)
            yield ev.StepSkipped(step=row.id, because="the plan ends before it")


def submitted_evidence(state: State, number: int) -> dict[str, object]:
    """Return the evidence last submitted for a phase, as far as its event holds it."""
    row = state.rows.get("checkpoint", state.core.phase_step(number))
    return dict(row.evidence) if isinstance(row, Checkpoint) else {}
