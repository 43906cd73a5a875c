"""Which moves are allowed, what each records, and what a refusal contains.

The tables are the transitions as they were decided, written out: a pair that is not in them is
refused, and the refusal names exactly what is in them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from random import Random

import pytest

from forestay.base.vocabulary import ACTIONS, CATEGORIES, MODES, STATUSES
from forestay.errors import ForestayError, InvalidInput, Outdated, Refused
from forestay.model import event as ev
from forestay.model.event import Body, Event
from forestay.model.fold import extend, fold, follows
from forestay.model.merge import KEPT
from forestay.model.rules import (
    AGENT_VERBS,
    SESSION_MOVES,
    STEP_VERBS,
    UNIT_MOVES,
    check_undo,
    decide,
    validate,
)
from forestay.model.state import State
from tests.chance import new_seed
from tests.golden import events as golden
from tests.histories import SimulatedMachine, World, image, next_event, random_body

START = ev.SessionStarted(goal="hold fast")


class Session:
    """A session of one device, moved by commands that `decide` allows, or by bare events."""

    def __init__(self, *bodies: Body) -> None:
        self.state = State()
        self.events: list[Event] = []
        for body in bodies:
            self.record(body)

    def do(self, command: Body) -> list[Body]:
        decided = decide(self.state, command)
        for body in decided:
            self.record(body)
        return decided

    def record(self, body: Body) -> None:
        _, event = next_event(
            self.state.core,
            body,
            session="s-1",
            device="d1",
            id=f"e{len(self.events)}",
            at=1_700_000_000_000 + len(self.events),
            actor="user",
            salt=bytes(16),
        )
        self.events.append(event)
        if follows(self.state, event):
            extend(self.state, event)
        else:
            self.state = fold(self.events)

    @property
    def status(self) -> str:
        return self.state.core.status


def refusal(state: State, command: Body) -> Refused:
    with pytest.raises(Refused) as caught:
        decide(state, command)
    return caught.value


# -- sessions ----------------------------------------------------------------------------------

WAYS: dict[str, list[Body]] = {
    "created": [ev.SessionAdopted(goal="g", origin="file:craft", status="created")],
    "active": [START],
    "paused": [START, ev.SessionPaused()],
    "failed": [START, ev.SessionFailed()],
    "completed": [START, ev.SessionCompleted()],
    "abandoned": [START, ev.SessionAbandoned()],
    "aborted": [START, ev.SessionAborted()],
}
COMMANDS: dict[str, Body] = {
    "pause": ev.SessionPaused(),
    "resume": ev.SessionResumed(),
    "complete": ev.SessionCompleted(),
    "fail": ev.SessionFailed(),
    "abort": ev.SessionAborted(),
    "abandon": ev.SessionAbandoned(),
    "reopen": ev.SessionReopened(because="more to do"),
}
BECOMES = {
    "pause": "paused",
    "resume": "active",
    "complete": "completed",
    "fail": "failed",
    "abort": "aborted",
    "abandon": "abandoned",
    "reopen": "active",
}
TRANSITIONS: dict[str, list[str]] = {
    "created": ["resume", "abort", "abandon"],
    "active": ["pause", "complete", "fail", "abort", "abandon"],
    "paused": ["resume", "complete", "abort", "abandon"],
    "failed": ["resume", "abort", "abandon"],
    "completed": ["reopen"],
    "abandoned": ["reopen"],
    "aborted": [],
}
PAIRS = [(status, command) for status in WAYS for command in COMMANDS]


def legal_in(status: str) -> list[str]:
    return TRANSITIONS[status] or ["start"]


def names(refused: Refused) -> list[str]:
    """Return the verbs that a refusal allows, without their arguments."""
    families = ("task ", "agent ", "session ")
    bare = [move.partition(" ")[2] if move.startswith(families) else move for move in refused.legal]
    return [move.split(" ")[0] for move in bare]


@pytest.mark.req("S0-61", "S1-23", "S4-65", "S4-67", "S4-68", "S4-70", "S4-71", "X4-7")
@pytest.mark.parametrize("status, command", PAIRS, ids=["-".join(pair) for pair in PAIRS])
def test_a_session_accepts_exactly_the_commands_allowed_in_its_status(
    status: str, command: str
) -> None:
    session = Session(*WAYS[status])
    assert session.status == status
    taken_up_after_a_crash = (status, command) == ("active", "resume")
    if command in TRANSITIONS[status] or taken_up_after_a_crash:
        session.do(COMMANDS[command])
        assert session.status == BECOMES[command]
        assert image(session.state) == image(fold(session.events))
    else:
        refused = refusal(session.state, COMMANDS[command])
        assert names(refused) == legal_in(status)
        assert status in refused.why
        assert refused.session == session.state.core.session


def test_the_transition_tables_cover_every_status_and_verb() -> None:
    assert set(SESSION_MOVES) == set(STATUSES) == set(TRANSITIONS)
    assert set(UNIT_MOVES) == set(STEP_VERBS) == set(AGENT_VERBS)


def test_completing_a_paused_session_records_the_resume_first() -> None:
    session = Session(*WAYS["paused"])
    kinds = [ev.KIND_OF[type(body)] for body in session.do(ev.SessionCompleted(because="done"))]
    assert kinds == ["session.resumed", "session.completed"]
    assert (session.status, session.state.core.resumes) == ("completed", 1)


def test_an_aborted_session_leads_only_to_a_new_one() -> None:
    refused = refusal(Session(*WAYS["aborted"]).state, ev.SessionResumed())
    assert refused.legal == ['start "GOAL" --from s-1']


def test_reopening_records_a_reason() -> None:
    refused = refusal(Session(*WAYS["completed"]).state, ev.SessionResumed())
    assert refused.legal == ['session reopen --because "…"']


@pytest.mark.parametrize("status", WAYS)
@pytest.mark.parametrize("start", [START, WAYS["created"][0]], ids=["start", "adopt"])
def test_a_session_can_be_started_only_once(status: str, start: Body) -> None:
    refused = refusal(Session(*WAYS[status]).state, start)
    assert refused.what == "session s-1 exists already" and refused.why == f"it is {status}"
    back = {"completed": "reopen", "abandoned": "reopen", "aborted": "start"}
    assert names(refused) == [back.get(status, "resume")] and "s-1" in refused.legal[0]


@pytest.mark.parametrize("body", golden.FULL, ids=lambda body: type(body).__name__)
def test_nothing_is_recorded_before_the_start_of_a_session(body: Body) -> None:
    if isinstance(body, ev.SessionStarted | ev.SessionAdopted):
        assert decide(State(), body) == [body]
    else:
        assert refusal(State(), body).legal == ['start "GOAL"']


# -- archive, forget, undo ---------------------------------------------------------------------


@pytest.mark.req("S0-64", "S4-68", "S4-71")
@pytest.mark.parametrize("status", WAYS)
def test_only_an_ended_session_can_be_archived(status: str) -> None:
    session = Session(*WAYS[status])
    if status in ("failed", "completed", "abandoned", "aborted"):
        session.do(ev.SessionArchived())
        assert session.state.core.archived and session.status == status
    else:
        assert names(refusal(session.state, ev.SessionArchived())) == legal_in(status)


def test_archiving_twice_is_refused_and_so_is_unarchiving_twice() -> None:
    session = Session(*WAYS["completed"], ev.SessionArchived())
    assert refusal(session.state, ev.SessionArchived()).legal == ["session unarchive"]
    session.do(ev.SessionArchived(archived=False))
    assert not session.state.core.archived
    back = refusal(session.state, ev.SessionArchived(archived=False))
    assert back.why == "it is not archived"


@pytest.mark.parametrize("status", ["completed", "abandoned", "failed"])
def test_resuming_a_session_unarchives_it(status: str) -> None:
    session = Session(*WAYS[status], ev.SessionArchived())
    on = ev.SessionResumed() if status == "failed" else ev.SessionReopened(because="more")
    session.do(on)
    assert (session.status, session.state.core.archived) == ("active", False)


@pytest.mark.parametrize("status", WAYS)
def test_a_session_can_always_be_forgotten_once(status: str) -> None:
    session = Session(*WAYS[status])
    session.do(ev.SessionForgotten())
    assert session.state.core.forgotten
    assert "was forgotten" in refusal(session.state, ev.SessionForgotten()).what


@pytest.mark.parametrize("body", [*golden.MINIMAL, *golden.FULL], ids=lambda b: type(b).__name__)
def test_nothing_is_recorded_in_a_forgotten_session(body: Body) -> None:
    assert "was forgotten" in refusal(Session(START, ev.SessionForgotten()).state, body).what


@pytest.mark.parametrize("body", [*golden.MINIMAL, *golden.FULL], ids=lambda b: type(b).__name__)
def test_nothing_is_recorded_where_a_newer_version_is_needed(body: Body) -> None:
    world = World(Random(0))
    world.write(world.machines[0], START)
    world.write_raw(world.machines[0], "session.cloned", b"{}", "2.1")
    with pytest.raises(Outdated, match=r"needs? Forestay 2\.1 or newer"):
        decide(fold(world.events), body)


@pytest.mark.parametrize("status", WAYS)
def test_anything_can_be_undone_in_any_status(status: str) -> None:
    session = Session(*WAYS[status])
    session.do(ev.EventRetracted(event=session.events[-1].id))
    assert session.status == ("created" if status == "created" else "active")


@pytest.mark.parametrize("kind", ev.KINDS)
def test_only_the_beginning_of_a_session_cannot_be_undone(kind: str) -> None:
    if kind in KEPT or kind in ("session.aborted", "step.revisited"):
        with pytest.raises(
            Refused, match=r"cannot be undone|cannot be restored|taken back like this"
        ):
            check_undo(kind)
    else:
        check_undo(kind)


# -- what may be recorded in which status ------------------------------------------------------

ALWAYS = {
    "note.added",
    "attribute.set",
    "session.renamed",
    "session.forgotten",
    "session.interrupted",
    "event.retracted",
    "event.forgotten",
    "contract.acknowledged",
}
FACTS = {
    "plan.set",
    "plan.resolved",
    "step.added",
    "checkpoint.passed",
    "checkpoint.failed",
    "checkpoint.overridden",
    "decision.made",
    "file.changed",
    "artifact.saved",
    "artifact.versioned",
    "command.ran",
    "evidence.observed",
    "message.sent",
    "context.measured",
    "context.compressed",
    "error.raised",
    "claim.deferred",
    "claim.resolved",
    "claim.overridden",
    "foreign.edited",
}
IMPLY_REOPENING = {"step.revisited", "checkpoint.rolled_back"}
WORK = {k for k in ev.KINDS if k.startswith(("step.", "agent."))} - FACTS - IMPLY_REOPENING
OF_STATUS = {kind for kind in ev.KINDS if kind.startswith("session.")} - ALWAYS


def test_every_event_kind_is_in_exactly_one_group_of_this_test() -> None:
    groups = (ALWAYS, FACTS, IMPLY_REOPENING, WORK, OF_STATUS)
    assert sorted(kind for group in groups for kind in group) == sorted(ev.KINDS)


@pytest.mark.parametrize("body", golden.MINIMAL, ids=lambda body: type(body).__name__)
@pytest.mark.parametrize("status", WAYS)
def test_each_event_kind_is_recorded_only_in_the_statuses_that_allow_it(
    status: str, body: Body
) -> None:
    session, kind = Session(*WAYS[status]), ev.KIND_OF[type(body)]
    for needed in (ev.StepAdded(step="t1", title="t"), ev.StepAdded(step="p1", title="p")):
        if kind != "step.added":
            session.record(needed)
    is_over = status in ("completed", "abandoned", "aborted")
    if kind in ALWAYS or (kind in FACTS and not is_over):
        assert session.do(body) == [body]
        assert session.status == ("abandoned" if kind == "session.forgotten" else status)
    elif kind in FACTS or (kind in WORK and status not in ("active", "created")):
        assert names(refusal(session.state, body)) == legal_in(status)


@pytest.mark.parametrize("status", ["completed", "abandoned"])
@pytest.mark.parametrize("because", ["new facts", ""])
def test_going_back_in_a_finished_session_reopens_it_first(status: str, because: str) -> None:
    for body in (
        ev.StepRevisited(step="t", because=because),
        ev.CheckpointRolledBack(step="t", because=because),
    ):
        session = Session(START, ev.StepAdded(step="t", title="t"), *WAYS[status][1:])
        reopened, same = session.do(body)
        assert isinstance(reopened, ev.SessionReopened) and same == body
        assert reopened.because == (because or reopened.because) != ""
        assert session.status == "active"


@pytest.mark.parametrize("status", ["paused", "failed", "aborted"])
def test_going_back_in_an_unfinished_session_requires_an_active_one(status: str) -> None:
    session = Session(START, ev.StepAdded(step="t", title="t"), *WAYS[status][1:])
    for body in (ev.StepRevisited(step="t"), ev.CheckpointRolledBack(step="t")):
        assert names(refusal(session.state, body)) == legal_in(status)


def test_a_body_without_a_kind_cannot_be_decided() -> None:
    for body in (ev.Unknown(raw="{}"), ev.Erased(), Body()):
        with pytest.raises(TypeError, match="not a kind of event"):
            decide(Session(START).state, body)


# -- steps -------------------------------------------------------------------------------------

STEP_WAYS: dict[str, list[Body]] = {
    "pending": [],
    "running": [ev.StepStarted(step="t")],
    "done": [ev.StepStarted(step="t"), ev.StepCompleted(step="t")],
    "failed": [ev.StepStarted(step="t"), ev.StepFailed(step="t")],
    "blocked": [ev.StepStarted(step="t"), ev.StepBlocked(step="t", because="x")],
    "needs_review": [ev.StepCompleted(step="t"), ev.StepNeedsReview(step="t")],
    "skipped": [ev.StepSkipped(step="t")],
}
STEP_COMMANDS: dict[str, tuple[Body, str]] = {
    "start": (ev.StepStarted(step="t"), "running"),
    "done": (ev.StepCompleted(step="t"), "done"),
    "fail": (ev.StepFailed(step="t"), "failed"),
    "block": (ev.StepBlocked(step="t", because="x"), "blocked"),
    "unblock": (ev.StepUnblocked(step="t"), "pending"),
    "skip": (ev.StepSkipped(step="t"), "skipped"),
    "review": (ev.StepNeedsReview(step="t"), "needs_review"),
    "revisit": (ev.StepReset(step="t"), "pending"),
}
STEP_TRANSITIONS: dict[str, list[str]] = {
    "pending": ["start", "done", "block", "skip"],
    "running": ["done", "fail", "block"],
    "done": ["review", "revisit"],
    "failed": ["start"],
    "blocked": ["unblock", "start"],
    "needs_review": ["start", "done"],
    "skipped": [],
}
# A step in any status may begin again when the work before it changed.
ALSO = {(status, "revisit") for status in ("running", "failed", "blocked", "needs_review")}
STEP_PAIRS = [(status, command) for status in STEP_WAYS for command in STEP_COMMANDS]


def step_in(status: str) -> Session:
    session = Session(START, ev.StepAdded(step="t", title="t"), *STEP_WAYS[status])
    step = session.state.step("t")
    assert step and step.status == status
    return session


@pytest.mark.parametrize("status, command", STEP_PAIRS, ids=["-".join(p) for p in STEP_PAIRS])
def test_a_step_accepts_exactly_the_commands_allowed_in_its_status(
    status: str, command: str
) -> None:
    session = step_in(status)
    body, becomes = STEP_COMMANDS[command]
    if command in STEP_TRANSITIONS[status] or (status, command) in ALSO:
        session.do(body)
        step = session.state.step("t")
        assert step and step.status == becomes
    else:
        refused = refusal(session.state, body)
        assert names(refused) == STEP_TRANSITIONS[status]
        cannot = f"; it cannot become {becomes.replace('_', ' ')}"
        already = " already" if status == becomes else cannot
        assert refused.what == f"task t is {status.replace('_', ' ')}{already}"
        assert all(move.split()[2] == "t" for move in refused.legal)


@pytest.mark.parametrize("command", ["done", "block"])
def test_a_step_that_was_never_started_is_started_first(command: str) -> None:
    session = step_in("pending")
    body, _ = STEP_COMMANDS[command]
    assert session.do(body) == [ev.StepStarted(step="t"), body]
    step = session.state.step("t")
    assert step and step.attempts == 1 and step.started_at


@pytest.mark.parametrize("status", STEP_WAYS)
def test_progress_and_revisits_of_a_step_are_facts(status: str) -> None:
    session = step_in(status)
    session.do(ev.StepProgressed(step="t", fraction=0.5))
    session.do(ev.StepRevisited(step="t"))
    step = session.state.step("t")
    assert step and (step.status, step.fraction) == (status, 0.5)


def test_a_step_is_added_once() -> None:
    again = ev.StepAdded(step="t", title="another")
    assert refusal(step_in("done").state, again).what == "task t exists already"


@pytest.mark.parametrize("command", STEP_COMMANDS)
def test_an_unknown_step_is_refused_with_the_known_ones(command: str) -> None:
    session = Session(START, *(ev.StepAdded(step=f"x{i}", title="x") for i in range(7)))
    refused = refusal(session.state, STEP_COMMANDS[command][0])
    assert refused.what == "there is no task t"
    assert refused.why == "known: x6, x5, x4, x3, x2"
    assert refused.legal == ['task add "…" --id t']
    assert "none yet" in refusal(Session(START).state, STEP_COMMANDS[command][0]).why


def test_a_near_miss_of_a_task_or_an_agent_is_suggested() -> None:
    added = ev.StepAdded(step="mail", title="x"), ev.AgentStarted(agent="code-1")
    state = Session(START, *added).state
    assert refusal(state, ev.StepStarted(step="mailx")).hint == "did you mean mail?"
    assert refusal(state, ev.AgentFinished(agent="cod1")).hint == "did you mean code-1?"
    assert refusal(state, ev.StepStarted(step="docs")).hint == 'forestay task add "…" --id docs'


# -- agents ------------------------------------------------------------------------------------

AGENT_WAYS: dict[str, list[Body]] = {
    "pending": [ev.ContextMeasured(tokens=1, agent="a")],
    "running": [ev.AgentStarted(agent="a")],
    "done": [ev.AgentStarted(agent="a"), ev.AgentFinished(agent="a")],
    "failed": [ev.AgentStarted(agent="a"), ev.AgentFailed(agent="a")],
    "timed_out": [ev.AgentStarted(agent="a"), ev.AgentTimedOut(agent="a")],
}
AGENT_COMMANDS: dict[str, tuple[Body, str]] = {
    "start": (ev.AgentStarted(agent="a"), "running"),
    "progress": (ev.AgentProgressed(agent="a", fraction=0.5), "running"),
    "done": (ev.AgentFinished(agent="a"), "done"),
    "fail": (ev.AgentFailed(agent="a"), "failed"),
    "timeout": (ev.AgentTimedOut(agent="a"), "timed_out"),
    "retry": (ev.AgentRetried(agent="a"), "running"),
}
AGENT_TRANSITIONS: dict[str, list[str]] = {
    "pending": ["start"],
    "running": ["progress", "done", "fail", "timeout"],
    "done": [],
    "failed": ["retry", "start"],
    "timed_out": ["retry", "start"],
}
AGENT_PAIRS = [(status, command) for status in AGENT_WAYS for command in AGENT_COMMANDS]


@pytest.mark.parametrize("status, command", AGENT_PAIRS, ids=["-".join(p) for p in AGENT_PAIRS])
def test_an_agent_accepts_exactly_the_commands_allowed_in_its_status(
    status: str, command: str
) -> None:
    session = Session(START, *AGENT_WAYS[status])
    agent = session.state.agent("a")
    assert agent and agent.status == status
    body, becomes = AGENT_COMMANDS[command]
    if command in AGENT_TRANSITIONS[status]:
        session.do(body)
        agent = session.state.agent("a")
        assert agent and agent.status == becomes
    else:
        refused = refusal(session.state, body)
        assert names(refused) == AGENT_TRANSITIONS[status]
        assert refused.what.startswith(f"agent a is {status.replace('_', ' ')}")
        assert bool(refused.hint) == (not refused.legal)


@pytest.mark.parametrize("command", [name for name in AGENT_COMMANDS if name != "start"])
def test_an_unknown_agent_is_refused_with_the_way_to_start_it(command: str) -> None:
    refused = refusal(Session(START).state, AGENT_COMMANDS[command][0])
    assert (refused.what, refused.legal) == ("there is no agent a", ["agent start a"])


def test_a_running_agent_that_died_can_be_retried() -> None:
    session = Session(START, ev.AgentStarted(agent="a"))
    session.do(ev.SessionInterrupted(agents=["a"]))
    session.do(ev.AgentRetried(agent="a"))
    agent = session.state.agent("a")
    assert agent and (agent.status, agent.attempts) == ("running", 2)


# -- values ------------------------------------------------------------------------------------

BIG = 2**53
NAN = float("nan")
REFUSED_VALUES: dict[str, Body] = {
    "a number as text": ev.NoteAdded(text=7),  # type: ignore[arg-type]
    "text as tokens": ev.ContextMeasured(tokens="12"),  # type: ignore[arg-type]
    "text as progress": ev.StepProgressed(step="t", fraction="half"),  # type: ignore[arg-type]
    "yes as progress": ev.StepProgressed(step="t", fraction=True),
    "nothing as a goal": ev.SessionRenamed(goal=None),  # type: ignore[arg-type]
    "a list as a type": ev.AgentStarted(agent="a", type=["x"]),  # type: ignore[arg-type]
    "a text as options": ev.DecisionMade(
        decision="d",
        what="w",
        options="ab",  # type: ignore[arg-type]
        chosen="c",
    ),
    "a set as a value": ev.AttributeSet(key="k", value={1}),  # type: ignore[arg-type]
    "half a surrogate pair": ev.NoteAdded(text="\ud800"),
    "more than one event can hold": ev.NoteAdded(text="x" * 20_000),
    "an unknown mode": ev.SessionStarted(goal="g", mode="turbo"),
    "an unknown status": ev.SessionAdopted(goal="g", origin="o", status="on fire"),
    "an unknown reason for a pause": ev.SessionPaused(reason="lunch"),
    "an unknown category of an agent's failure": ev.AgentFailed(agent="a", category="bad luck"),
    "an unknown category of an error": ev.ErrorRaised(message="m", category=""),
    "an unknown action": ev.FileChanged(path="p", action="moved"),
    "an unknown status of a command": ev.CommandRan(name="n", status="maybe"),
    "a step's progress above one": ev.StepProgressed(step="t", fraction=1.01),
    "a step's progress below zero": ev.StepProgressed(step="t", fraction=-0.01),
    "an agent's progress above one": ev.AgentProgressed(agent="a", fraction=60),
    "progress that is no number": ev.AgentProgressed(agent="a", fraction=NAN),
    "negative tokens": ev.ContextMeasured(tokens=-1),
    "too many tokens": ev.ContextMeasured(tokens=BIG),
    "negative lines added": ev.FileChanged(path="p", added=-1),
    "too many lines removed": ev.FileChanged(path="p", removed=BIG),
    "a negative duration": ev.CommandRan(name="n", duration_ms=-5),
    "a negative size": ev.ArtifactSaved(path="p", digest="d", size=-1),
    "a huge version": ev.ArtifactVersioned(path="p", digest="d", version=10**30),
    "a negative total": ev.PlanSet(workflow="w", total=-1),
    "a negative resolved total": ev.PlanResolved(total=-1),
    "a negative base": ev.PlanSet(workflow="w", base=-1),
    "a negative section": ev.ClaimDeferred(claim="c", text="t", reason="r", section=-1),
    "a beginning before all time": ev.SessionAdopted(goal="g", origin="o", began_at=-1),
    "a choice that is no option": ev.DecisionMade(
        decision="d", what="w", options=["a"], chosen="b"
    ),
    "an endless value": ev.AttributeSet(key="k", value=float("inf")),
    "a value that is no number": ev.AttributeSet(key="k", value=NAN),
    "a huge value": ev.AttributeSet(key="k", value=-BIG),
    "an attribute without a key": ev.AttributeSet(key=" ", value="v"),
}


def _blank() -> Iterator[tuple[str, Body]]:
    """Every required text of every kind, left blank in turn."""
    for body in golden.MINIMAL:
        fields = {name: getattr(body, name) for name in type(body).__struct_fields__}
        required = len(fields) - len(type(body).__struct_defaults__)
        for name in list(fields)[:required]:
            if isinstance(fields[name], str):
                kind = ev.KIND_OF[type(body)]
                yield f"{kind} without {name}", type(body)(**{**fields, name: " \n"})


REFUSED_VALUES.update(_blank())


@pytest.mark.parametrize("name", REFUSED_VALUES)
def test_events_with_invalid_values_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        validate(REFUSED_VALUES[name])
    with pytest.raises(InvalidInput):
        decide(Session(START).state, REFUSED_VALUES[name])


def test_more_than_40_required_texts_are_tested_with_blank_values() -> None:
    assert len(list(_blank())) > 40


ACCEPTED_VALUES: list[Body] = [
    *golden.MINIMAL,
    *golden.FULL,
    *(ev.SessionStarted(goal="g", mode=mode) for mode in MODES),
    *(ev.ErrorRaised(message="m", category=category) for category in CATEGORIES),
    *(ev.FileChanged(path="p", action=action) for action in ACTIONS),
    ev.StepProgressed(step="t", fraction=1.0),
    ev.ContextMeasured(tokens=BIG - 1),
    ev.DecisionMade(decision="d", what="w", options=["a"]),
    ev.DecisionMade(decision="d", what="w", chosen="a"),
    ev.AttributeSet(key="k", value=""),
    ev.AttributeSet(key="k", value=False),
    ev.AttributeSet(key="k", value=-0.5),
    ev.SessionArchived(archived=False),
]


@pytest.mark.parametrize("body", ACCEPTED_VALUES, ids=lambda body: type(body).__name__)
def test_events_with_valid_values_are_accepted(body: Body) -> None:
    validate(body)


def test_an_accepted_event_has_the_same_values_as_its_stored_form() -> None:
    """Else a state folded at once and one folded later from the journal would differ."""
    session = Session(START, ev.StepAdded(step="t", title="t"))
    (body,) = decide(session.state, ev.StepProgressed(step="t", fraction=1))
    assert isinstance(body, ev.StepProgressed) and type(body.fraction) is float
    (verdict,) = decide(
        session.state,
        ev.CheckpointPassed(step="t", evidence={"n": (1, 2)}),
    )
    assert isinstance(verdict, ev.CheckpointPassed) and verdict.evidence == {"n": [1, 2]}


def test_a_refused_value_names_the_allowed_ones() -> None:
    with pytest.raises(InvalidInput) as caught:
        validate(REFUSED_VALUES["an unknown mode"])
    assert str(caught.value) == (
        "mode cannot be 'turbo' (it must be one of default, debug, optimize, release)"
    )


# -- outcomes recorded later -------------------------------------------------------------------


@pytest.mark.parametrize(
    "body", [ev.AgentFinished(agent="a"), ev.AgentFailed(agent="a", error="no space")]
)
def test_the_outcome_of_a_dead_agent_may_be_recorded_later(body: Body) -> None:
    died = ev.SessionInterrupted(doing="a", agents=["a"])
    session = Session(START, ev.AgentStarted(agent="a"), died)
    session.do(body)
    agent = session.state.agent("a")
    assert agent and agent.category != "interrupted"


def test_stating_a_disputed_task_again_settles_the_dispute() -> None:
    world = World(Random(3))
    a, b = world.machines[0], SimulatedMachine("zz")
    b.receive([world.write(a, START), world.write(a, ev.StepAdded(step="t", title="t"))])
    world.write(a, ev.StepCompleted(step="t"))
    world.write(b, ev.StepSkipped(step="t", because="not needed"))
    a.receive(world.events)
    state = fold(world.events)
    assert state.count("dispute.open") == 1
    for body in decide(state, ev.StepCompleted(step="t")):
        world.write(a, body)
    settled = fold(world.events)
    step = settled.step("t")
    assert settled.count("dispute.open") == 0 and step and step.status == "done"


# -- random walks ------------------------------------------------------------------------------

WALKS, STEPS = 20, 500


def walk(random: Random, steps: int) -> Session:
    """Random commands in a row; what is refused changes nothing, what is accepted is folded."""
    session = Session(START)
    for _ in range(steps):
        before, count = image(session.state), len(session.events)
        try:
            session.do(_any_command(random, session))
        except ForestayError:
            assert (image(session.state), len(session.events)) == (before, count)
        _check_way_on(session)
    return session


def _any_command(random: Random, session: Session) -> Body:
    if session.status == "aborted" and random.random() < 0.5:
        aborts = [e for e in session.events if e.kind == "session.aborted"]
        return ev.EventRetracted(event=random.choice(aborts).id)
    if random.random() < 0.04:
        return ev.EventRetracted(event=random.choice(session.events).id)
    body = random_body(random)
    return START if isinstance(body, ev.SessionForgotten) else body


def _accepts(state: State, body: Body) -> bool:
    try:
        decide(state, body)
    except Refused:
        return False
    return True


def _check_way_on(session: Session) -> None:
    """Refusals name exactly the moves that are accepted, and one of them leads to work."""
    state = session.state
    moves = {verb for verb, body in COMMANDS.items() if _accepts(state, body)}
    assert moves - {"resume"} == set(TRANSITIONS[session.status]) - {"resume"}
    if session.status == "aborted":
        assert refusal(state, ev.SessionResumed()).legal == ['start "GOAL" --from s-1']
    else:
        assert moves & {"resume", "reopen"}, "there is always a way back to work"
    for key in ("t1", "t2"):
        _check_unit(state, state.step(key), STEP_COMMANDS, STEP_TRANSITIONS, "step", key)
    for key in ("a1", "a2"):
        _check_unit(state, state.agent(key), AGENT_COMMANDS, AGENT_TRANSITIONS, "agent", key)


def _check_unit(
    state: State,
    unit: object,
    commands: dict[str, tuple[Body, str]],
    transitions: dict[str, list[str]],
    field: str,
    key: str,
) -> None:
    if unit is None or state.core.status not in ("active", "created"):
        return
    status = getattr(unit, "status", "")
    for verb, (body, _) in commands.items():
        fields = {name: getattr(body, name) for name in type(body).__struct_fields__}
        died = status == "failed" and getattr(unit, "category", "") == "interrupted"
        told_later = died and verb in ("done", "fail", "timeout")
        allowed = verb in transitions[status] or (status, verb) in ALSO or told_later
        assert _accepts(state, type(body)(**{**fields, field: key})) == allowed


@pytest.mark.parametrize("seed", range(WALKS))
def test_no_sequence_of_accepted_commands_leaves_a_session_stuck(seed: int) -> None:
    session = walk(Random(seed), STEPS)
    assert image(session.state) == image(fold(session.events))
    assert session.state.core.events == len(session.events) > STEPS / 5


def test_random_walks_reach_every_status() -> None:
    reached: set[str] = set()
    for seed in range(WALKS):
        session = Session(START)
        random = Random(seed)
        for _ in range(STEPS // 2):
            if _accepts_quietly(session, _any_command(random, session)):
                reached |= {session.status}
    assert reached >= set(STATUSES) - {"created"}


def _accepts_quietly(session: Session, body: Body) -> bool:
    try:
        session.do(body)
    except ForestayError:
        return False
    return True


@pytest.mark.soak
def test_state_after_random_walks_equals_the_fold_of_all_events_for_the_given_time(
    soak_seconds: float,
) -> None:
    end = time.monotonic() + soak_seconds
    seed = new_seed()
    while time.monotonic() < end:
        seed += 1
        session = walk(Random(seed), STEPS)
        assert image(session.state) == image(fold(session.events)), seed
