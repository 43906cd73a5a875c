"""The fold of a journal: the effect of every kind, and laws over random histories."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forestay.model import event as ev
from forestay.model.event import Body, Event
from forestay.model.fold import extend, fold, follows
from forestay.model.handlers import RECENT
from forestay.model.merge import in_order
from forestay.model.state import TABLES, State
from tests.chance import new_seed
from tests.histories import (
    SimulatedMachine,
    World,
    erased,
    image,
    lies,
    next_event,
    random_body,
    simulate,
)
from tests.model import laws

START = 1_700_000_000_000
HISTORIES, BLOCKS = 20_000, 20


class Journal:
    """A journal of one device that records one event per second."""

    def __init__(self, *bodies: Body) -> None:
        self.state = State()
        self.events: list[Event] = []
        for body in (ev.SessionStarted(goal="hold fast"), *bodies):
            self.record(body)

    def make(self, body: Body, at: int | None = None, must: str = "") -> Event:
        number = len(self.events)
        return next_event(
            self.state.core,
            body,
            session="s-1",
            device="d1",
            id=f"e{number}",
            at=START + 1000 * number if at is None else at,
            actor="user",
            salt=bytes(16),
            must=must,
        )[1]

    def record(self, body: Body, at: int | None = None, must: str = "") -> None:
        event = self.make(body, at, must)
        self.events.append(event)
        if isinstance(body, ev.EventRetracted):
            self.state = fold(self.events)
        else:
            assert follows(self.state, event)
            extend(self.state, event)


def folded(*bodies: Body) -> State:
    """Return the state after these events, recorded one by one, and check that one fold agrees."""
    journal = Journal(*bodies)
    assert image(journal.state) == image(fold(journal.events))
    return journal.state


# -- sessions ----------------------------------------------------------------------------------

ENDINGS: list[tuple[Body, str]] = [
    (ev.SessionCompleted(because="why"), "completed"),
    (ev.SessionFailed(because="why"), "failed"),
    (ev.SessionAborted(because="why"), "aborted"),
    (ev.SessionAbandoned(because="why"), "abandoned"),
]


def test_no_events_are_an_empty_state() -> None:
    state = fold([])
    assert (state.core.status, state.core.events, list(state.rows.items())) == ("", 0, [])


def test_a_started_session_is_active_and_has_its_goal() -> None:
    start = ev.SessionStarted(
        goal="fly", mode="debug", project="p", git_branch="b", git_commit="c", from_session="old"
    )
    core = folded(start).core
    assert (core.status, core.goal, core.goal_by, core.mode) == ("active", "fly", "user", "debug")
    assert (core.project, core.git_branch, core.git_commit) == ("p", "b", "c")
    assert (core.from_session, core.session, core.began_at) == ("old", "s-1", START + 1000)


@pytest.mark.parametrize("status", ["created", "active", "paused", "completed", "abandoned"])
def test_an_adopted_session_has_the_status_it_was_found_in(status: str) -> None:
    found = ev.SessionAdopted(goal="g", origin="file:craft", status=status, began_at=7)
    core = folded(found).core
    assert (core.status, core.began_at) == (status, 7)


def test_an_adopted_session_of_unknown_status_is_active() -> None:
    found = ev.SessionAdopted(goal="g", origin="file:craft", status="on fire")
    core = folded(found).core
    assert (core.status, core.began_at) == ("active", START + 1000)


def test_renaming_changes_the_goal_and_its_author() -> None:
    assert folded(ev.SessionRenamed(goal="swim")).core.goal == "swim"


@pytest.mark.parametrize("body, status", ENDINGS, ids=[status for _, status in ENDINGS])
def test_an_ending_has_its_word_time_and_reason(body: Body, status: str) -> None:
    core = folded(body).core
    assert (core.status, core.ended_at, core.because) == (status, START + 1000, "why")


@pytest.mark.parametrize("kind", [ev.SessionPaused, *(type(body) for body, _ in ENDINGS)])
def test_an_ending_records_the_checkout(kind: type[ev.Ending]) -> None:
    begun = ev.SessionStarted(goal="fly", git_branch="main", git_commit="a")
    core = folded(begun, kind(git_branch="fix", git_commit="b")).core
    assert (core.git_first, core.git_branch, core.git_commit) == ("a", "fix", "b")
    core = folded(begun, kind()).core
    assert (core.git_branch, core.git_commit) == ("main", "a"), "no event names another"
    core = folded(begun, kind(git_commit="b")).core
    assert (core.git_branch, core.git_commit) == ("", "b"), "a detached head"


@pytest.mark.parametrize(
    "value, branch, commit",
    [
        (f"fix {'b' * 40}", "fix", "b" * 40),
        ("b" * 64, "", "b" * 64),
        ("fix", "main", "a"),
        ("", "main", "a"),
        (7, "main", "a"),
        (None, "main", "a"),
    ],
)
def test_a_valid_checkout_attribute_sets_branch_and_commit(
    value: str | int | None, branch: str, commit: str
) -> None:
    begun = ev.SessionStarted(goal="fly", git_branch="main", git_commit="a")
    core = folded(begun, ev.AttributeSet(key="checkout", value=value)).core
    assert (core.git_branch, core.git_commit) == (branch, commit)


@pytest.mark.parametrize("body, status", ENDINGS, ids=[status for _, status in ENDINGS])
@pytest.mark.parametrize("again", [ev.SessionResumed(), ev.SessionReopened(because="more")])
def test_continuing_reverts_ending_and_archive(body: Body, status: str, again: Body) -> None:
    core = folded(body, ev.SessionArchived(), again).core
    assert (core.status, core.ended_at, core.because, core.archived) == ("active", 0, "", False)


def test_pauses_are_counted_in_time_and_the_last_ones_remembered() -> None:
    pauses = [ev.SessionPaused(context=f"pause {i}") for i in range(7)]
    bodies = [body for pause in pauses for body in (pause, ev.SessionResumed())]
    core = folded(*bodies).core
    assert (core.status, core.paused_ms, core.paused_at, core.resumes) == ("active", 7000, 0, 7)
    assert [line.text for line in core.pauses] == [f"pause {i}" for i in range(2, 7)]


def test_a_paused_session_has_time_and_reason_of_the_pause() -> None:
    core = folded(ev.SessionPaused(reason="system_error", context="power")).core
    assert (core.status, core.paused_at) == ("paused", START + 1000)
    assert (core.pause_reason, core.pause_context) == ("system_error", "power")


def test_a_pause_ends_with_the_session() -> None:
    core = folded(ev.SessionPaused(), ev.SessionAborted(), ev.NoteAdded(text="x")).core
    assert (core.paused_ms, core.paused_at, core.pause_reason) == (1000, 0, "")


def test_a_clock_that_went_back_makes_no_negative_pause() -> None:
    journal = Journal(ev.SessionPaused())
    journal.record(ev.SessionResumed(), at=START - 10**12)
    assert journal.state.core.paused_ms == 0


def test_interruption_is_a_flag_and_ends_the_agents_that_died() -> None:
    running = ev.AgentStarted(agent="a1"), ev.AgentStarted(agent="a2")
    done = ev.AgentFinished(agent="a2")
    crash = ev.SessionInterrupted(doing="pytest", agents=["a1", "a2", "a3"])
    state = folded(*running, done, crash)
    assert (state.core.status, state.core.interrupted) == ("active", "pytest")
    one, two = state.agent("a1"), state.agent("a2")
    assert one and (one.status, one.category) == ("failed", "interrupted")
    assert two and two.status == "done"
    assert state.agent("a3") is None


@pytest.mark.parametrize("then", [ev.SessionResumed(), ev.SessionCompleted()])
def test_an_interruption_is_over_when_the_session_continues_or_ends(then: Body) -> None:
    assert folded(ev.SessionInterrupted(), then).core.interrupted == ""
    assert folded(ev.SessionInterrupted()).core.interrupted == "unknown"


def test_archiving_is_no_status() -> None:
    core = folded(ev.SessionCompleted(), ev.SessionArchived()).core
    assert (core.status, core.archived) == ("completed", True)
    assert not folded(ev.SessionArchived(), ev.SessionArchived(archived=False)).core.archived


def test_forgotten_session_stays_forgotten_after_any_event() -> None:
    core = folded(ev.SessionForgotten(), ev.SessionResumed()).core
    assert (core.forgotten, core.status) == (True, "abandoned")


def test_an_erased_tombstone_still_marks_the_session_as_forgotten() -> None:
    journal = Journal(ev.NoteAdded(text="x"), ev.SessionForgotten())
    core = fold([erased(event) for event in journal.events]).core
    assert (core.forgotten, core.erased, core.events) == (True, 3, 3)


def test_a_plan_is_set_and_its_total_resolved_later() -> None:
    core = folded(ev.PlanSet(workflow="w", base=0)).core
    assert (core.workflow, core.plan_base, core.plan_total) == ("w", 0, None)
    assert folded(ev.PlanSet(workflow="w"), ev.PlanResolved(total=8)).core.plan_total == 8


# -- steps and agents --------------------------------------------------------------------------

STEP = ev.StepAdded(step="t", title="a task", parent="p", agent="a1")
STEP_MOVES: list[tuple[Body, str]] = [
    (STEP, "pending"),
    (ev.StepStarted(step="t"), "running"),
    (ev.StepProgressed(step="t", fraction=0.5), "pending"),
    (ev.StepCompleted(step="t"), "done"),
    (ev.StepFailed(step="t"), "failed"),
    (ev.StepBlocked(step="t", because="x"), "blocked"),
    (ev.StepUnblocked(step="t"), "pending"),
    (ev.StepSkipped(step="t"), "skipped"),
    (ev.StepNeedsReview(step="t"), "needs_review"),
    (ev.StepRevisited(step="t"), "pending"),
    (ev.StepReset(step="t"), "pending"),
]


@pytest.mark.parametrize("body, status", STEP_MOVES, ids=lambda x: getattr(x, "__name__", ""))
def test_an_event_about_a_step_that_was_not_added_creates_the_step(body: Body, status: str) -> None:
    state = folded(body)
    step = state.step("t")
    assert step and step.status == status
    assert state.core.counts == {"step": 1, f"step.{status}": 1}
    assert step.title == ("a task" if body is STEP else "t")


def test_a_step_has_its_whole_history() -> None:
    done = ev.StepCompleted(step="t", outcome="it works", files=["x.py"])
    failed = ev.StepFailed(step="t", because="it broke")
    start = ev.StepStarted(step="t", agent="a2")
    step = folded(STEP, ev.StepStarted(step="t"), failed, start, done).step("t")
    assert step and (step.title, step.parent, step.agent) == ("a task", "p", "a2")
    assert (step.attempts, step.started_at, step.ended_at) == (2, START + 4000, START + 5000)
    assert (step.outcome, step.files, step.because) == ("it works", ["x.py"], "")
    assert (step.rank, step.at) == (2, START + 1000)
    again = folded(STEP, done, ev.StepReset(step="t", because="new facts")).step("t")
    assert again and (again.status, again.ended_at, again.because) == ("pending", 0, "new facts")


def test_an_agent_has_its_whole_history() -> None:
    start = ev.AgentStarted(agent="a", type="dev", task="build", blocking_on="b")
    tokens = ev.ContextMeasured(tokens=5, agent="a")
    failed = ev.AgentFailed(agent="a", error="lost", category="transient")
    done = ev.AgentFinished(agent="a", result="ok", created=["x"], modified=["y"], deleted=["z"])
    agent = folded(start, tokens, failed).agent("a")
    assert agent and (agent.status, agent.error, agent.category) == ("failed", "lost", "transient")
    agent = folded(start, tokens, failed, ev.AgentRetried(agent="a")).agent("a")
    assert agent and (agent.status, agent.error, agent.attempts) == ("running", "", 2)
    assert (agent.retried_at, agent.started_at, agent.ended_at) == (START + 4000, START + 4000, 0)
    state = folded(start, tokens, failed, ev.AgentRetried(agent="a"), done)
    agent = state.agent("a")
    assert agent and (agent.status, agent.fraction, agent.result) == ("done", 1.0, "ok")
    assert (agent.created, agent.modified, agent.deleted) == (["x"], ["y"], ["z"])
    assert (agent.type, agent.task, agent.blocking_on, agent.tokens) == ("dev", "build", "b", 5)
    assert state.core.counts == {"agent": 1, "agent.done": 1, "error": 1}


def test_a_failed_or_timed_out_agent_is_listed_among_the_errors() -> None:
    state = folded(ev.AgentFailed(agent="a", error="lost"), ev.AgentTimedOut(agent="b"))
    messages = [getattr(row, "message", "") for row in state.rows.select("error")]
    assert messages == ["lost", "agent b timed out"]


def test_progress_is_stored_with_its_step_or_agent() -> None:
    step = folded(ev.StepProgressed(step="t", fraction=0.5)).step("t")
    agent = folded(ev.AgentProgressed(agent="a", fraction=0.25)).agent("a")
    assert step and agent and (step.fraction, agent.fraction) == (0.5, 0.25)


# -- facts -------------------------------------------------------------------------------------


def test_rejected_options_are_stored_with_the_decision() -> None:
    first = ev.DecisionMade(decision="d", what="db", options=["a", "b", "c"], chosen="a")
    second = ev.DecisionMade(decision="d", what="db", options=["b", "e"], chosen="b")
    row = folded(first, second).rows.get("decision", "d")
    assert row and getattr(row, "rejected", None) == ["e", "c", "a"]


@pytest.mark.parametrize(
    "chosen, what, rejected",
    [("", "colour", []), ("", "red", ["blue"]), ("red", "colour", ["blue"])],
)
def test_options_are_rejected_only_by_a_choice(chosen: str, what: str, rejected: list[str]) -> None:
    body = ev.DecisionMade(decision="d", what=what, options=["red", "blue"], chosen=chosen)
    row = folded(body).rows.get("decision", "d")
    assert row and getattr(row, "rejected", None) == rejected


def test_a_file_has_its_first_digest_and_its_last() -> None:
    changes = [
        ev.FileChanged(path="x", before="0", after="1", action="created"),
        ev.FileChanged(path="x", before="1", after="2", agent="a"),
    ]
    row = folded(*changes).rows.get("file", "x")
    assert row and (getattr(row, "before", ""), getattr(row, "after", "")) == ("0", "2")
    assert (getattr(row, "changes", 0), getattr(row, "action", "")) == (2, "modified")


def test_artifacts_count_their_versions() -> None:
    saved = ev.ArtifactSaved(path="x", digest="1", size=5)
    row = folded(saved, ev.ArtifactVersioned(path="x", version=2, digest="2")).rows.get(
        "artifact", "x"
    )
    assert row and (getattr(row, "versions", 0), getattr(row, "digest", "")) == (2, "2")


def test_commands_are_counted_and_the_last_ones_remembered() -> None:
    runs: list[Body] = [ev.CommandRan(name="make", arguments=f"{i}") for i in range(7)]
    failure = ev.CommandRan(name="pytest", status="failure", error="2 failed", model="opus")
    core = folded(*runs, failure).core
    assert core.counts == {"command.success": 7, "command.failure": 1}
    assert [line.text for line in core.commands][-2:] == ["make 6", "pytest [failure] 2 failed"]
    assert (len(core.commands), core.model) == (RECENT, "opus")


def test_tokens_and_compressions_are_known() -> None:
    compressed = ev.ContextCompressed(summary="half way")
    core = folded(ev.ContextMeasured(tokens=9), compressed, ev.ContextCompressed()).core
    assert (core.tokens, core.compressions, core.summary) == (9, 2, "half way")
    assert core.compressed_at == START + 3000


def test_notes_are_counted_and_those_for_the_next_reader_stored_in_full() -> None:
    notes = [ev.NoteAdded(text=f"note {i} " + "x" * 200) for i in range(7)]
    state = folded(*notes, ev.NoteAdded(text="y" * 500, for_next=True))
    assert state.core.counts == {"notes": 8, "note": 1}
    assert [line.text[:6] for line in state.core.notes] == [f"note {i}" for i in range(2, 7)]
    assert [len(getattr(row, "text", "")) for row in state.rows.select("note")] == [500]


def test_the_last_messages_of_user_and_agent_are_stored_but_not_of_a_machine() -> None:
    messages = [
        ("user", "first"),
        ("agent", "done"),
        ("user", "x" * 900),
        ("machine", "a task ended"),
    ]
    core = folded(*(ev.MessageSent(role=role, text=text) for role, text in messages)).core
    assert core.asked and core.asked.text == "x" * 800
    assert core.said and core.said.text == "done"
    assert core.counts == {"message.user": 2, "message.agent": 1, "message.machine": 1}
    assert folded(ev.MessageSent(role="oracle", text="?")).core.counts == {}


def test_claims_are_deferred_until_resolved_or_overridden() -> None:
    defer = ev.ClaimDeferred(claim="c", text="t", reason="r", section=1, paragraph=2)
    assert len(folded(defer).rows.select("claim", open_only=True)) == 1
    for closed in (
        ev.ClaimResolved(claim="c"),
        ev.ClaimOverridden(claim="c", result="kept", because="b"),
    ):
        assert folded(defer, closed).rows.select("claim", open_only=True) == []
        assert len(folded(closed).rows.select("claim")) == 1


PROGRESS: list[tuple[object, float | None]] = [
    (0.5, 0.5),
    (0, 0.0),
    (1, 1.0),
    (7, 1.0),
    (-3, 0.0),
    (10**400, 1.0),
    (True, None),
    ("half", None),
    (None, None),
]


@pytest.mark.parametrize("value, fraction", PROGRESS)
def test_a_progress_attribute_is_read_as_a_fraction_or_ignored(
    value: object, fraction: float | None
) -> None:
    body = ev.AttributeSet(key="progress", value=value)  # type: ignore[arg-type]
    assert folded(body).core.progress == fraction


def test_attributes_are_stored_and_set_the_model() -> None:
    state = folded(ev.AttributeSet(key="model", value="a"), ev.AttributeSet(key="model", value="b"))
    row = state.rows.get("attribute", "model")
    assert (state.core.model, getattr(row, "value", "")) == ("b", "b")


def test_verdicts_count_their_attempts_and_the_last_one_stands() -> None:
    failed = ev.CheckpointFailed(step="p", issue="red")
    passed = ev.CheckpointPassed(step="p", evidence={"n": 1}, observed=True)
    state = folded(failed, failed, passed)
    row = state.rows.get("checkpoint", "p")
    assert (getattr(row, "verdict", ""), getattr(row, "attempts", 0)) == ("passed", 3)
    assert state.core.counts == {"checkpoint": 1, "checkpoint.passed": 1}


def test_acknowledgments_edits_and_redactions_are_stored() -> None:
    ack = ev.ContractAcknowledged(agent="a", version="1", checksum="c")
    edit = ev.ForeignEdited(format="craft", path="s", digest="d", redacted=["jwt"])
    state = folded(ack, edit, ev.NoteAdded(text="x", redacted=["jwt", "aws"]))
    assert state.core.counts == {"contract": 1, "edit": 1, "notes": 1}
    assert state.core.redacted == {"jwt": 2, "aws": 1}


def test_every_table_has_a_kind_that_fills_it() -> None:
    random = Random(0)
    filled = {
        table for _ in range(2000) for table, _, _ in folded(random_body(random)).rows.items()
    }
    assert filled == TABLES.keys() - {"dispute"}


# -- what this version does not know -----------------------------------------------------------


def raw(kind: str, must: str = "", data: bytes = b"{}") -> State:
    world = World(Random(0))
    world.write(world.machines[0], ev.SessionStarted(goal="g"))
    world.write_raw(world.machines[0], kind, data, must)
    return fold(world.events)


def test_unknown_kinds_are_counted_and_shown() -> None:
    core = raw("note.sung").core
    assert (core.unknown, core.needs, core.events) == ({"note.sung": 1}, "", 2)


def test_a_known_kind_with_unfit_data_is_counted_as_unknown() -> None:
    state = raw("step.completed", data=b'{"step":7}')
    assert (state.core.unknown, state.count("step")) == ({"step.completed": 1}, 0)


def test_an_unknown_kind_that_must_be_known_names_the_version_it_needs() -> None:
    assert raw("session.cloned", must="2.1").core.needs == "2.1"


def test_a_known_kind_marked_as_required_needs_no_newer_version() -> None:
    journal = Journal()
    journal.record(ev.NoteAdded(text="x"), must="9")
    assert fold(journal.events).core.needs == ""


def test_versions_are_compared_as_numbers() -> None:
    world = World(Random(0))
    for must in ("9", "10", "2.10", "9.9.9", "10.0", "10.0-rc", "x"):
        world.write_raw(world.machines[0], "future.thing", b"{}", must)
    assert fold(world.events).core.needs == "10.0-rc"


def test_an_erased_unknown_kind_that_must_be_known_still_binds() -> None:
    world = World(Random(0))
    event = world.write_raw(world.machines[0], "future.thing", b"{}", "3")
    core = fold([erased(event)]).core
    assert (core.needs, core.erased) == ("3", 1)


# -- retractions, copies, disputes -------------------------------------------------------------


def test_a_retracted_event_has_no_effect_and_is_counted() -> None:
    state = folded(ev.StepCompleted(step="t"), ev.EventRetracted(event="e1"))
    assert (state.count("step"), state.core.events, state.core.retracted) == (0, 3, 1)
    state = folded(
        ev.StepCompleted(step="t"), ev.EventRetracted(event="e1"), ev.EventRetracted(event="e2")
    )
    assert (state.count("step"), state.core.events, state.core.retracted) == (1, 4, 1)


def test_a_retraction_is_never_folded_incrementally() -> None:
    journal = Journal(ev.NoteAdded(text="x"))
    body = ev.EventRetracted(event="e1")
    assert not follows(journal.state, journal.make(body))


def test_an_event_that_has_not_seen_every_head_is_not_folded_incrementally() -> None:
    world = World(Random(0))
    a = world.machines[0]
    start = world.write(a, ev.SessionStarted(goal="g"))
    b = SimulatedMachine("b")
    b.receive([start])
    world.write(a, ev.NoteAdded(text="a"))
    late = world.write(b, ev.NoteAdded(text="b"))
    assert not follows(fold(world.events[:2]), late)
    assert follows(fold([start]), late)


def test_an_event_with_a_forged_clock_is_not_folded_incrementally() -> None:
    journal = Journal(ev.NoteAdded(text="x"))
    event = journal.make(ev.NoteAdded(text="y"))
    assert follows(journal.state, event)
    for clock in (1, 2):
        fields = {name: getattr(event.head, name) for name in ev.Header.__struct_fields__}
        forged = Event(ev.Header(**{**fields, "clock": clock}), event.hash, event.body)
        assert not follows(journal.state, forged)


def test_a_repeated_id_takes_effect_once_and_is_counted_twice() -> None:
    world = World(Random(0))
    a = world.machines[0]
    start = world.write(a, ev.SessionStarted(goal="g"))
    b = SimulatedMachine("b")
    b.receive([start])
    for machine in (a, b):
        world.write(machine, ev.CommandRan(name="make"), "same")
    core = fold(world.events).core
    assert (core.counts, core.events) == ({"command.success": 1}, 3)


class Disputed:
    """A session that one machine completed and archived while another worked on."""

    def __init__(self) -> None:
        self.world = World(Random(3))
        self.a, self.b = self.world.machines[0], SimulatedMachine("zz")
        self.b.receive([self.world.write(self.a, ev.SessionStarted(goal="g"))])
        self.world.write(self.a, ev.SessionCompleted(because="done"))
        self.world.write(self.a, ev.SessionArchived())
        self.world.write(self.b, ev.StepCompleted(step="t"))

    def state(self) -> State:
        state = fold(self.world.events)
        assert image(fold(in_order(self.world.events)[::-1])) == image(state)
        return state

    def then(self, *bodies: Body) -> State:
        """Return the state after both have everything and one records these."""
        self.a.receive(self.world.events)
        state = self.state()
        for body in bodies:
            event = self.world.write(self.a, body)
            assert follows(state, event)
            extend(state, event)
        assert image(state) == image(self.state())
        return state


def test_while_its_end_is_disputed_a_session_is_active_and_not_archived() -> None:
    core = Disputed().state().core
    assert (core.status, core.archived, core.ended_at, core.because) == ("active", False, 0, "")


@pytest.mark.parametrize(
    "body", [ev.SessionPaused(), ev.SessionArchived(), ev.SessionFailed(), ev.SessionAborted()]
)
def test_device_unaware_of_a_dispute_cannot_end_the_session(body: Body) -> None:
    disputed = Disputed()
    third = SimulatedMachine("cc")
    third.receive(disputed.world.events[:1])
    disputed.world.write(third, body)
    core = disputed.state().core
    assert (core.status, core.archived, core.paused_at, core.pause_reason) == (
        "active",
        False,
        0,
        "",
    )


def test_facts_and_an_archive_leave_the_dispute_open() -> None:
    state = Disputed().then(
        ev.NoteAdded(text="x"), ev.SessionArchived(), ev.StepCompleted(step="u")
    )
    assert (state.core.status, state.core.archived) == ("active", False)
    assert state.count("dispute.open") == 1


@pytest.mark.parametrize(
    "body, status",
    [
        (ev.SessionCompleted(), "completed"),
        (ev.SessionResumed(), "active"),
        (ev.SessionPaused(), "paused"),
        (ev.SessionAbandoned(), "abandoned"),
        (ev.SessionReopened(because="more"), "active"),
    ],
)
def test_the_next_status_event_settles_how_the_session_ended(body: Body, status: str) -> None:
    state = Disputed().then(body)
    assert (state.core.status, state.core.held) == (status, {})
    assert state.core.counts["dispute.settled"] == 1
    assert "dispute.open" not in state.core.counts


def test_a_forgotten_session_is_not_held_active_by_a_dispute() -> None:
    core = Disputed().then(ev.SessionForgotten()).core
    assert (core.status, core.forgotten) == ("abandoned", True)


# -- laws over random histories ----------------------------------------------------------------


@pytest.mark.parametrize("law", laws.FOLD_LAWS, ids=lambda law: law.__name__)
def test_fold_law_holds_in_random_histories(law: Callable[[laws.Case], None]) -> None:
    for seed in range(300):
        law(laws.case(seed))


@pytest.mark.parametrize("law", laws.SLOW_LAWS, ids=lambda law: law.__name__)
def test_slow_fold_law_holds_in_random_histories(law: Callable[[laws.Case], None]) -> None:
    for seed in range(200):
        law(laws.case(seed))


@pytest.mark.parametrize("law", laws.LIE_LAWS, ids=lambda law: law.__name__)
def test_fold_law_holds_in_histories_with_forged_events(law: Callable[[laws.Case], None]) -> None:
    for seed in range(300):
        law(laws.case_with_lies(seed))


@pytest.mark.parametrize("block", range(BLOCKS))
def test_twenty_thousand_histories_satisfy_every_law(block: int) -> None:
    size = HISTORIES // BLOCKS
    for seed in range(block * size, (block + 1) * size):
        laws.check_all(seed)


@given(st.randoms(use_true_random=False), st.integers(0, 15))
def test_every_fold_law_holds_in_histories_generated_by_hypothesis(
    random: Random, steps: int
) -> None:
    case = laws.Case(random, simulate(random, steps))
    for law in (*laws.SLOW_LAWS, *laws.FOLD_LAWS):
        law(case)


@given(st.randoms(use_true_random=False), st.integers(0, 8), st.integers(0, 8))
def test_fold_never_raises_whatever_it_is_given(random: Random, steps: int, forged: int) -> None:
    events = simulate(random, steps).events
    events += lies(random, events, forged)
    kept = [event for event in events if random.random() < 0.8]
    assert image(fold(kept)) == image(fold(kept[::-1]))


def test_incremental_state_of_one_device_equals_the_fold_of_all_its_events() -> None:
    for seed in range(100):
        random = Random(seed)
        journal = Journal(*(random_body(random) for _ in range(30)))
        assert image(journal.state) == image(fold(journal.events))


def test_appending_costs_the_same_however_long_the_journal_is() -> None:
    """An append reads the core, which must not grow with the number of events."""
    journal = Journal()
    sizes = []
    for i in range(3000):
        journal.record(ev.StepCompleted(step=f"t{i}"))
        journal.record(ev.NoteAdded(text="n" * 50))
        sizes.append(len(image(State(journal.state.core))["core", ""]))
    assert sizes[-1] < sizes[100] + 50


@pytest.mark.soak
def test_histories_satisfy_every_law_for_the_given_time(soak_seconds: float) -> None:
    end = time.monotonic() + soak_seconds
    seed = HISTORIES + new_seed()
    while time.monotonic() < end:
        seed += 1
        laws.check_all(seed)
        one = laws.case_with_lies(seed)
        for law in (*laws.LIE_LAWS, *laws.SLOW_LAWS[:1]):
            law(one)
        laws.events_taken_as_they_come_give_the_whole(laws.case(seed))


def test_a_command_without_a_known_end_is_counted_and_marked() -> None:
    core = folded(ev.CommandRan(name="make", status="unknown")).core
    assert core.counts == {"command.unknown": 1}
    assert core.commands[0].text == "make [unknown]"
