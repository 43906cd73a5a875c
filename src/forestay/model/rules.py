"""Rules: which moves are allowed, and what each one records.

`decide(state, body)` gets the event that is to be recorded and returns the events to append:
usually just that one, sometimes with an implied one before it (completing a paused session
records the resume first). A move that is not allowed raises `Refused`, naming the legal ones.

Everything that is recorded passes through here, so no acknowledged event can leave a session
stuck; `fold` on the other hand accepts everything, because other devices decide on their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from forestay.base.vocabulary import (
    ACTIONS,
    CATEGORIES,
    COMMAND_STATUSES,
    ESSAY,
    FINISHED,
    MODES,
    PAUSE_REASONS,
    ROLES,
    STATUSES,
)
from forestay.errors import InvalidInput, Outdated, Refused
from forestay.model import erasure
from forestay.model import event as ev
from forestay.model.event import KIND_OF, Body, Event
from forestay.model.handlers import SETTLED
from forestay.model.merge import KEPT, stances_of
from forestay.model.state import (
    EDIT,
    Agent,
    Checkpoint,
    Core,
    State,
    Step,
    Unit,
    last_number,
    number_of,
)

Rule = Callable[[State, Any], "list[Body] | None"]
"""Refuses a move that a state does not allow; may return events that have to be recorded first."""

SESSION_MOVES: dict[str, tuple[str, ...]] = {
    "created": ("active", "aborted", "abandoned"),
    "active": ("paused", "completed", "failed", "aborted", "abandoned"),
    "paused": ("active", "completed", "aborted", "abandoned"),
    "failed": ("active", "aborted", "abandoned"),
    "completed": ("reopened",),
    "abandoned": ("reopened",),
    "aborted": (),
}
UNIT_MOVES: dict[str, tuple[str, ...]] = {
    "pending": ("running", "skipped"),
    "running": ("done", "failed", "blocked", "timed_out"),
    "blocked": ("pending", "running"),
    "failed": ("running",),
    "timed_out": ("running",),
    "done": ("needs_review", "pending"),
    "needs_review": ("running", "done"),
    "skipped": (),
}

_BECAUSE = ' --because "…"'
_VERBS = {
    "active": "resume",
    "paused": "pause",
    "completed": "complete",
    "failed": "session fail",
    "aborted": "session abort",
    "abandoned": "session abandon",
    "reopened": f"session reopen{_BECAUSE}",
}
_ARGUMENTS = {"block": _BECAUSE, "skip": _BECAUSE, "progress": " 0.5", "fail": ' --error "…"'}
_START = "start"
_NAMED = 3
STEP_VERBS: dict[str, tuple[str, ...]] = {
    "pending": (_START, "done", "block", "skip"),
    "running": ("done", "fail", "block"),
    "blocked": ("unblock", _START),
    "failed": (_START,),
    "timed_out": (_START,),
    "done": ("review", "revisit"),
    "needs_review": (_START, "done"),
    "skipped": (),
}
"""The commands that a step allows. Small tasks are often done, or blocked, without a start; the
start is then recorded first. Steps do not time out."""
AGENT_VERBS: dict[str, tuple[str, ...]] = {
    "pending": (_START,),
    "running": ("progress", "done", "fail", "timeout"),
    "failed": ("retry", _START),
    "timed_out": ("retry", _START),
    "blocked": (_START,),
    "needs_review": (_START, "done"),
    "done": (),
    "skipped": (),
}
"""The commands that an agent allows: it is not reviewed or revisited, another one is started."""
_BEGIN = 'start "GOAL"'
_SEARCHED = 200
_AFTER_THE_END = (
    ev.NoteAdded,
    ev.AttributeSet,
    ev.SessionRenamed,
    ev.SessionArchived,
    ev.SessionForgotten,
    ev.EventRetracted,
    ev.EventForgotten,
    ev.SessionInterrupted,
    ev.ContractAcknowledged,
)


def decide(state: State, body: Body) -> list[Body]:
    """Return the events to record for this move in this state; raise `Refused` if not allowed."""
    if type(body) not in KIND_OF:
        raise TypeError(f"{type(body).__name__} is not a kind of event that can be recorded")
    _require_writable(state)
    return decide_validated(state, validate(body))


def decide_validated(state: State, body: Body) -> list[Body]:
    """Do what `decide` does, for a body that `validate` returned."""
    _require_writable(state)
    if _settles(state, body):
        return [body]
    implied = _RULES.get(type(body), _require_open)(state, body)
    return [*(implied or ()), body]


def _settles(state: State, body: Body) -> bool:
    """Return whether a move settles a dispute: that is always allowed, also while the session is
    paused or over."""
    if not state.count("dispute.open") or isinstance(body, ev.SessionAdopted):
        return False
    if isinstance(body, ev.ForeignEdited):
        return body.cause == SETTLED and state.open_dispute(f"{EDIT}{body.path}") is not None
    for subject, outcome in stances_of(body, KIND_OF[type(body)]):
        if dispute := state.open_dispute(subject):
            planned = isinstance(body, ev.AgentStarted) and bool(body.status)
            is_side = outcome in {side[3] for side in dispute.sides}
            return is_side or planned or isinstance(body, _ON_BOTH)
    return False


_ON_BOTH = (ev.StepNeedsReview, ev.DecisionMade, ev.FileChanged, ev.SessionReopened)
"""Events that settle a dispute without choosing a side."""


def allow(state: State, body: Body) -> list[Body]:
    """Do what `decide` does, for events read from a format file that another program wrote.

    They have happened, so the tables of transitions do not apply; only values are checked, and
    an aborted session stays aborted.
    """
    if isinstance(body, ev.SessionAdopted):
        return decide(state, body)
    return [validate(one) for one in report(state, body)]


def report(state: State, body: Body) -> list[Body]:
    """Do what `allow` does, for events that an agent reports; their values have been checked."""
    _require_writable(state)
    _require_started(state)
    if state.core.status == "aborted" and not isinstance(body, (*_AFTER_THE_END, ev.ForeignEdited)):
        raise _illegal(state, "it is aborted; nothing more can be recorded as work")
    return [body]


def _require_writable(state: State) -> None:
    core = state.core
    if core.needs:
        raise Outdated(
            f"nothing can be recorded in session {core.session} on this device",
            why=f"it has events that need Forestay {core.needs} or newer",
            hint="update Forestay on this device, then repeat the command",
            session=core.session,
        )
    if core.forgotten:
        hint = 'an id is used once; choose another: forestay start "GOAL" --id ID'
        raise Refused(f"session {core.session} was forgotten", hint=hint, session=core.session)


# -- values ------------------------------------------------------------------------------------

_CHOICES: dict[type[Body], tuple[str, tuple[str, ...]]] = {
    ev.SessionStarted: ("mode", MODES),
    ev.SessionAdopted: ("status", STATUSES),
    ev.SessionPaused: ("reason", PAUSE_REASONS),
    ev.AgentStarted: ("status", ("", "pending", "blocked")),
    ev.AgentFinished: ("status", ("", "skipped")),
    ev.AgentFailed: ("category", CATEGORIES),
    ev.ErrorRaised: ("category", CATEGORIES),
    ev.FileChanged: ("action", ACTIONS),
    ev.CommandRan: ("status", COMMAND_STATUSES),
    ev.MessageSent: ("role", ROLES),
}


MAX_NUMBER = 2**53
"""Numbers of this size or more lose digits in other readers of JSON."""


def validate(body: Body) -> Body:
    """Refuse values of a wrong type or out of range; the rest can be folded and shown.

    Return the body as its bytes will be read again, so that it is folded the same now and later.
    """
    name, allowed = _CHOICES.get(type(body), ("", ()))
    if name and getattr(body, name) not in allowed:
        why = f"it must be one of {', '.join(allowed)}"
        raise InvalidInput(f"{name} cannot be {getattr(body, name)!r}", why=why)
    if isinstance(body, ev.AttributeSet):
        is_number = isinstance(body.value, int | float)
        if is_number and not -MAX_NUMBER < body.value < MAX_NUMBER:  # type: ignore[operator]
            # NaN is refused, too.
            raise InvalidInput(
                f"the value cannot be {body.value}",
                why=f"it must be between -{MAX_NUMBER} and {MAX_NUMBER}",
            )
        _check_not_blank("key", body.key)
        if body.key == "progress":
            _check_fraction(body.value)
    else:
        _check_fields(body)
    stored = ev.as_stored(body)
    if isinstance(stored, ev.DecisionMade):
        chosen, options = stored.chosen, stored.options
        if chosen and options and chosen not in options:
            why = f"the options are {', '.join(options)}"
            raise InvalidInput(f"{chosen!r} is not among the options", why=why)
    return stored


def _check_fields(body: Body) -> None:
    required = len(body.__struct_fields__) - len(body.__struct_defaults__)
    for i, name in enumerate(body.__struct_fields__):
        value = getattr(body, name)
        if isinstance(value, str):
            if i < required:
                _check_not_blank(name, value)
        elif name == "fraction":
            _check_fraction(value)
        elif isinstance(value, int) and not 0 <= value < MAX_NUMBER:
            raise InvalidInput(
                f"{name.replace('_', ' ')} cannot be {value}",
                why=f"it must be at least 0 and less than {MAX_NUMBER}",
            )


def _check_fraction(value: object) -> None:
    """Refuse progress that is not a fraction from 0 to 1; None clears the progress."""
    why = "it must be a fraction from 0 to 1"
    if isinstance(value, bool | str):
        raise InvalidInput("progress must be a number", why=why)
    if isinstance(value, int | float) and not 0 <= value <= 1:  # also refuses NaN
        why += f": {value:g}% is {value / 100:g}" if 1 < value <= 100 else ""
        raise InvalidInput(f"progress cannot be {value:g}", why=why)


def _check_not_blank(name: str, value: object) -> None:
    if isinstance(value, str) and not value.strip():
        raise InvalidInput(f"{name} is empty", hint=f"give the {name} as text")


# -- sessions ----------------------------------------------------------------------------------


def _require_started(state: State) -> None:
    if not state.core.status:
        raise Refused("the session has not been started", legal=[_BEGIN])


def _require_open(state: State, body: Body) -> None:
    core = state.core
    _require_started(state)
    if core.status in FINISHED and not isinstance(body, _AFTER_THE_END):
        raise _illegal(state, f"it is {core.status}; nothing more can be recorded as work")


def _illegal(state: State, why: str) -> Refused:
    core = state.core
    legal = [_VERBS[to] for to in SESSION_MOVES.get(core.status, ())]
    return Refused(
        f"session {core.session} does not allow that now",
        why=why,
        legal=legal or [f"{_BEGIN} --from {core.session}"],
        session=core.session,
        operation="update",
    )


def _move_session(to: str) -> Rule:
    def rule(state: State, body: Body) -> list[Body]:
        _require_started(state)
        status = state.core.status
        if to not in SESSION_MOVES[status]:
            why = f"it is {status}; it cannot become {to}"
            raise _illegal(state, why if status != to else f"it is {status} already")
        if to == "completed":
            _require_finished_plan(state)
        return [ev.SessionResumed()] if to == "completed" and status == "paused" else []

    return rule


def _start(state: State, body: Body) -> None:
    core = state.core
    if not core.status:
        return
    moves = SESSION_MOVES[core.status]
    continued = f"resume {core.session}" if moves else f"{_BEGIN} --from {core.session}"
    if "reopened" in moves:
        continued = f"{_VERBS['reopened']} --session {core.session}"
    raise Refused(
        f"session {core.session} exists already",
        why=f"it is {core.status}",
        legal=[continued],
        session=core.session,
        operation="create",
    )


def _resume(state: State, body: Body) -> None:
    if state.open_dispute():
        # A resume would settle the dispute without a decision of the user.
        raise Refused(
            f"whether session {state.core.session} is over is disputed",
            legal=["settle"],
            hint="forestay settle",
            session=state.core.session,
        )
    # An active session may be resumed too: another process continues it after a crash.
    if state.core.status != "active":
        _move_session("active")(state, body)


def _archive(state: State, body: ev.SessionArchived) -> None:
    core = state.core
    _require_started(state)
    if body.archived and core.archived:
        hint = "to bring it back: forestay session unarchive"
        raise Refused(f"session {core.session} is archived", legal=["session unarchive"], hint=hint)
    if body.archived and core.status not in FINISHED | {"failed"}:
        refusal = _illegal(state, f"it is {core.status}; only a finished session can be archived")
        ends = [_VERBS[to] for to in SESSION_MOVES[core.status] if to in FINISHED]
        refusal.hint = "first " + " · ".join(f"forestay {verb}" for verb in ends)
        raise refusal
    if not body.archived and not core.archived:
        raise _illegal(state, "it is not archived")


def check_undo(kind: str, *, is_read: bool = False) -> None:
    """Refuse to undo what a session needs; `is_read` is whether it was read from a file."""
    if kind == "session.aborted":
        hint = f"forestay {_BEGIN} --from SESSION"
        raise Refused("aborting a session cannot be undone; start a new one from it", hint=hint)
    if kind in erasure.KINDS:
        why = "its content was erased permanently"
        raise Refused("a forgotten event cannot be restored", why=why)
    if kind in KEPT:
        why = "a session cannot exist without it"
        raise Refused("the start of a session cannot be undone", why=why)
    if kind == "step.revisited" and not is_read:
        hint = "forestay revisit --undo"
        raise Refused("a revisit cannot be undone like this", why="it moved files too", hint=hint)


def check_undo_of_task(task: str, others: Sequence[Event]) -> None:
    """Refuse to undo a task that other events refer to: it would be left without a title.

    `others` are all events that are not retracted, except the one that added the task.
    """
    about = [e for e in others if task in (getattr(e.body, n, "") for n in ("step", "parent"))]
    if not about or any(isinstance(e.body, ev.StepAdded) and e.body.step == task for e in about):
        return
    numbers = ", ".join(f"#{event.seq}" for event in about[:_NAMED])
    more = f" and {len(about) - _NAMED} more" if len(about) > _NAMED else ""
    raise Refused(
        f"task {task} cannot be undone any more",
        why=f"{numbers}{more} {'refers' if len(about) == 1 else 'refer'} to it",
        hint=f'forestay task skip {task} --because "…"; or undo those first',
    )


# -- steps and agents --------------------------------------------------------------------------


def check_working(state: State) -> None:
    """Refuse work in a session that is over or paused."""
    _check_working(state, ev.StepStarted(step=""))


def _check_working(state: State, body: Body) -> None:
    _require_open(state, body)
    if state.core.status not in ("active", "created"):
        raise _illegal(state, f"it is {state.core.status}; resume it before working on it")


def _refuse_unit(unit: Unit, to: str, *, but: str = "") -> Refused:
    """Return a refusal with the commands that are legal instead, as they are typed."""
    what, verbs = ("task", STEP_VERBS) if isinstance(unit, Step) else ("agent", AGENT_VERBS)
    legal = [f"{what} {v} {unit.id}{_ARGUMENTS.get(v, '')}" for v in verbs.get(unit.status, ())]
    cannot = f"; it cannot become {_word(to)}" if unit.status != to else " already"
    return Refused(
        f"{what} {unit.id} is {_word(unit.status)}{but or cannot}",
        legal=legal,
        hint="" if unit.is_open else _STAYS[what],
        operation="update",
    )


def _word(status: str) -> str:
    return status.replace("_", " ")


_STAYS = {
    "task": 'to withdraw that: forestay undo EVENT; to add another: forestay task add "…"',
    "agent": "to withdraw that: forestay undo EVENT; to start another: forestay agent start ID",
}


def _unknown_unit(state: State, what: str, key: str) -> Refused:
    import difflib  # start-up

    rows = list(state.rows.select(_TABLES[what], newest=True, limit=_SEARCHED))
    names = [row.name for row in rows]
    titles = {row.title: row.name for row in reversed(rows) if isinstance(row, Step)}
    known = titles | {name: name for name in names}
    near = difflib.get_close_matches(key, known, 1, 0.6)
    add = f'task add "…" --id {key}' if what == "task" else f"agent start {key}"
    return Refused(
        f"there is no {what} {key}",
        why=f"known: {', '.join(names[:5]) or 'none yet'}",
        legal=[add],
        hint=f"did you mean {known[near[0]]}?" if near else f"forestay {add}",
    )


def _add_step(state: State, body: ev.StepAdded) -> None:
    _require_open(state, body)
    known = state.step(body.step)
    # An outline may give an existing section another title.
    if known is not None and not known.unit == body.unit == "section":
        raise Refused(f"task {body.step} exists already", hint="choose another --id")


_TABLES = {"task": "step", "agent": "agent"}
_OUTCOMES = ("done", "failed", "timed_out", "skipped", "blocked")


def _require_unit(what: str, state: State, body: Any) -> Unit:
    _check_working(state, body)
    key: str = getattr(body, _TABLES[what])
    unit = state.rows.get(_TABLES[what], key)
    if not isinstance(unit, Unit):
        raise _unknown_unit(state, what, key)
    return unit


def _move(what: str, to: str, *, only_from: tuple[str, ...] = ()) -> Rule:
    def rule(state: State, body: Any) -> list[Body]:
        unit = _require_unit(what, state, body)
        if what == "task" and to in ("done", "blocked") and unit.status == "pending":
            return [ev.StepStarted(step=unit.id)]
        # An outcome that is disputed, or unknown because the agent died, may be recorded again.
        disputed = to in _OUTCOMES and state.open_dispute(f"{_TABLES[what]}:{unit.id}")
        lost = isinstance(unit, Agent) and unit.died and to in ("done", "failed", "timed_out")
        allowed = to in UNIT_MOVES.get(unit.status, ())
        allowed = allowed and (not only_from or unit.status in only_from)
        if not (allowed or disputed or lost):
            raise _refuse_unit(unit, to)
        return []

    return rule


def _progress_step(state: State, body: ev.StepProgressed) -> None:
    _require_unit("task", state, body)


def _reopen_first(because: str) -> Rule:
    """Return a rule that reopens a finished session first, for the same reason as the event."""

    def rule(state: State, body: Any) -> list[Body]:
        if "reopened" in SESSION_MOVES.get(state.core.status, ()):
            return [ev.SessionReopened(because=body.because or f"{because} {body.step}")]
        _check_working(state, body)
        return []

    return rule


def _revisit_step(state: State, body: ev.StepRevisited) -> list[Body] | None:
    _require_started(state)
    if state.step(body.step) is None:
        raise _unknown_unit(state, "task", body.step)
    return _reopen_first("revisit of")(state, body)


def _observe(state: State, body: ev.EvidenceObserved) -> None:
    # Also while the session is paused: the command was started before the pause.
    _require_open(state, body)
    if not body.argv:
        raise InvalidInput("no command is named", hint="forestay prove -- COMMAND")
    if body.step and state.step(body.step) is None:
        raise _unknown_unit(state, "task", body.step)


# -- phases of a plan --------------------------------------------------------------------------

ONE_BY_ONE = "phase"
"""The unit of plans whose steps come one after the other; stages may run ahead."""


def _phase_of(state: State, step: str) -> int | None:
    """Return the number of a step whose id is that of a phase, even one beyond the last."""
    core = state.core
    number = number_of(step)
    in_order = core.is_phased and core.plan_unit == ONE_BY_ONE and number is not None
    return number if in_order and step == f"{ONE_BY_ONE}-{number}" else None


def _defined_phase(state: State, step: str) -> int | None:
    """Return the number of a phase if the session has its definition: its gate must be passed.

    A plan that was read from a file has no definition; its program applies its own rules.
    """
    return _phase_of(state, step) if state.core.plan else None


def _set_plan(state: State, body: ev.PlanSet) -> None:
    _require_open(state, body)
    if state.core.workflow:
        why = f"it follows {state.core.workflow} until it ends"
        raise Refused("the session has a plan already", why=why, hint=f"forestay {_BEGIN}")


def _resolve_plan(state: State, body: ev.PlanResolved) -> None:
    """Allow the number of phases to be set once, and not below the phases reached."""
    _require_open(state, body)
    core = state.core
    if core.phase is None:
        return
    if core.plan_total is not None:
        what = f"the plan has {core.plan_total} {core.plan_unit}s"
        raise Refused(what, why="the number is set only once")
    least = _least_total(state)
    if body.total < least:
        raise Refused(
            f"the plan cannot have {body.total} {core.plan_unit}s",
            why=f"{core.plan_unit} {core.phase} is reached",
            legal=[f"phase total {least}"],
        )


def _least_total(state: State) -> int:
    """Return the smallest total that a plan may have: the phases reached, except one that was only
    started, because a phase is started as soon as the one before has passed."""
    core = state.core
    here = core.plan_base if core.phase is None else core.phase
    reached = here - core.plan_base + 1
    return max(1, reached - (here - 1 in core.phases_done and _is_only_started(state, here)))


def _is_only_started(state: State, number: int) -> bool:
    """Return whether nothing was recorded of a phase except its existence and its start."""
    id = state.core.phase_step(number)
    if number in state.core.phase_verdicts or state.rows.get("checkpoint", id) is not None:
        return False
    rows = (row for row in state.rows.select("step") if isinstance(row, Step))
    own = [row for row in rows if id in (row.id, row.parent)]
    return all(row.status in ("pending", "running" if row.id == id else "") for row in own)


def check_reach(core: Core, number: int) -> None:
    """Refuse to show, or go to, a phase that is not reached yet."""
    if core.phase is None:
        raise Refused("the session has no plan", hint=f"forestay {_BEGIN} --workflow NAME")
    if number > core.phase:
        raise Refused(
            f"You must complete Phase {core.phase} before accessing Phase {number}",
            legal=[f"phase done {core.phase}"],
            session=core.session,
        )
    if number < core.plan_base:
        raise Refused(f"there is no phase {number}", why=_range_of_phases(core))


def _range_of_phases(core: Core) -> str:
    last = last_number(core.plan_base, core.plan_total)
    return f"the phases are {core.plan_base} to {'…' if last is None else last}"


def check_current(core: Core, number: int) -> None:
    """Refuse to judge any phase but the current one."""
    if number != core.phase:
        raise Refused(
            f"Cannot complete phase {number}, current phase is {core.phase}",
            legal=[f"phase done {core.phase}"],
            session=core.session,
            operation="update",
        )


def _judge(state: State, body: ev.Verdict) -> None:
    """Allow a verdict on the current phase only, and only while it is not completed."""
    number, core = _phase_of(state, body.step), state.core
    if number is None:
        _require_open(state, body)
        return
    check_current(core, number)
    _check_working(state, body)
    step = state.step(body.step)
    if step is not None and not step.is_open:
        raise _completed_already(number)


def _completed_already(number: int) -> Refused:
    legal = [f"phase rollback {number}"]
    return Refused(f"phase {number} is completed", legal=legal, operation="update")


def _start_step(state: State, body: ev.StepStarted) -> None:
    number = _defined_phase(state, body.step)
    if number is not None:
        _require_startable(state, number)
    step, phase = state.step(body.step), state.core.phase_of(body.step)
    has_failed = phase is not None and state.core.phase_verdicts.get(phase) == "failed"
    if has_failed and step is not None and step.status == "running":
        _check_working(state, body)
    else:
        _move("task", "running")(state, body)


def _require_startable(state: State, number: int) -> None:
    """Refuse to start a phase that is completed, or before the previous one is completed."""
    core = state.core
    current = core.phase or 0
    step = state.step(core.phase_step(current))
    if core.phase_of(core.phase_step(number)) is None:
        raise Refused(f"there is no phase {number}", why=_range_of_phases(core))
    if number == current + 1 and step is not None and not step.is_open:
        return
    check_reach(core, number)
    if number < current and (step is None or step.status != "pending"):
        raise _completed_already(number)


_GATES = {1: "G1", 2: "G2", 3: "G3-Final", 4: "G5"}
"""The gates that end the stages of an essay."""


def _command_to_end_phase(core: Core) -> str:
    """Return the command that ends the current phase."""
    gate = _GATES.get(core.phase or 0) if core.workflow == ESSAY else None
    return f"essay approve {gate}" if gate else f"phase done {core.phase}"


def _complete_step(state: State, body: ev.StepCompleted) -> list[Body] | None:
    number = state.core.phase_of(body.step) if state.core.plan else None
    row = state.rows.get("checkpoint", body.step) if number is not None else None
    passed = isinstance(row, Checkpoint) and row.verdict in ("passed", "overridden")
    if number is not None and not passed:
        raise Refused(
            f"{state.core.plan_unit} {number} can only be completed by passing its checkpoint",
            legal=[_command_to_end_phase(state.core)],
            operation="update",
        )
    return _move("task", "done")(state, body)


def _skip_step(state: State, body: ev.StepSkipped) -> None:
    number = _defined_phase(state, body.step)
    # A phase that began before the total was known may be beyond the last.
    if number is not None and state.core.phase_of(body.step) is not None:
        raise Refused(
            f"phase {number} cannot be skipped",
            why="phases come one after the other",
            legal=[f"phase done {state.core.phase} --override{_BECAUSE}"],
        )
    _move("task", "skipped")(state, body)


def _reset_step(state: State, body: ev.StepReset) -> None:
    """Allow the reset of a step in any status but pending and skipped.

    A rollback also resets phases, and the tasks inside them, in those statuses.
    """
    step = _require_unit("task", state, body)
    parent = getattr(step, "parent", "")
    planned = any(_phase_of(state, id) is not None for id in (step.id, parent))
    # A section that one outline skipped may be in the next one.
    planned = planned or getattr(step, "unit", "") == "section"
    if not planned and step.status in ("pending", "skipped"):
        raise _refuse_unit(step, "pending")


def _require_finished_plan(state: State) -> None:
    """Refuse to complete a session whose plan has a last phase that has not passed."""
    core = state.core
    if not core.plan or core.phase is None:
        return
    last = last_number(core.plan_base, core.plan_total)
    if last is None or last not in core.phases_done:
        of = "" if core.plan_total is None else f" of {core.plan_total}"
        known = [] if last is not None else [f"phase total {_least_total(state)}"]
        raise Refused(
            f"the plan is at {core.plan_unit} {core.phase}{of}",
            why=f"it is complete when its last {core.plan_unit} has passed",
            legal=[_command_to_end_phase(core), *known, f"session abandon{_BECAUSE}"],
            session=core.session,
            operation="update",
        )


def _start_agent(state: State, body: ev.AgentStarted) -> None:
    _check_working(state, body)
    agent = state.agent(body.agent)
    if agent is not None and "running" not in UNIT_MOVES.get(agent.status, ()):
        raise _refuse_unit(agent, "running")


def _progress_agent(state: State, body: ev.AgentProgressed) -> None:
    agent = _require_unit("agent", state, body)
    if agent.status != "running":
        raise _refuse_unit(agent, "", but="; it cannot make progress")


_RULES: dict[type[Body], Rule] = {
    ev.SessionStarted: _start,
    ev.SessionAdopted: _start,
    ev.SessionPaused: _move_session("paused"),
    ev.SessionResumed: _resume,
    ev.SessionCompleted: _move_session("completed"),
    ev.SessionFailed: _move_session("failed"),
    ev.SessionAborted: _move_session("aborted"),
    ev.SessionAbandoned: _move_session("abandoned"),
    ev.SessionReopened: _move_session("reopened"),
    ev.SessionArchived: _archive,
    ev.PlanSet: _set_plan,
    ev.PlanResolved: _resolve_plan,
    ev.StepAdded: _add_step,
    ev.StepStarted: _start_step,
    ev.StepProgressed: _progress_step,
    ev.StepCompleted: _complete_step,
    ev.StepFailed: _move("task", "failed"),
    ev.StepBlocked: _move("task", "blocked"),
    ev.StepUnblocked: _move("task", "pending", only_from=("blocked",)),
    ev.StepSkipped: _skip_step,
    ev.StepNeedsReview: _move("task", "needs_review"),
    ev.StepReset: _reset_step,
    ev.StepRevisited: _revisit_step,
    ev.CheckpointPassed: _judge,
    ev.CheckpointFailed: _judge,
    ev.CheckpointOverridden: _judge,
    ev.CheckpointRolledBack: _reopen_first("rollback of"),
    ev.EvidenceObserved: _observe,
    ev.AgentStarted: _start_agent,
    ev.AgentProgressed: _progress_agent,
    ev.AgentFinished: _move("agent", "done"),
    ev.AgentFailed: _move("agent", "failed"),
    ev.AgentTimedOut: _move("agent", "timed_out"),
    ev.AgentRetried: _move("agent", "running", only_from=("failed", "timed_out")),
}

assert set(_RULES) <= set(KIND_OF)
