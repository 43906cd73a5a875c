"""Phases through the library: judged, recorded, stored, timed, and displayed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import forestay
from forestay import Forestay, InvalidInput, Refused, Session
from forestay.base.clock import FakeClock
from forestay.errors import Damaged
from forestay.formats.port import Where
from forestay.mirror import check_files, discover
from forestay.model import event as ev
from forestay.model.gates.gate import MOST_BYTES
from forestay.model.plan import Field, Gate, Phase, Task, Workflow
from forestay.model.state import Checkpoint, Step
from forestay.plans.yaml_definition import write
from forestay.store.sqlite.store import SqliteStore
from tests.homes import state_of

MINUTE = 60
START_MS = 1_761_202_800_000  # 2025-10-23T07:00:00Z
NAMES = ("Planning", "Setup", "Implementation", "Testing", "Review", "Delivery")
COVERED = Gate(fields=[Field(name="coverage", type="number", min=80)], override=False)


def spec_execution(**gates: Gate) -> Workflow:
    phases = [
        Phase(
            number=n,
            name=name,
            gate=gates.get(f"phase_{n}"),
            tasks=[Task(name=f"Do {name.lower()}"), Task(name="Look at it", id=f"look-{n}")],
        )
        for n, name in enumerate(NAMES)
    ]
    return Workflow(name="spec_execution_v1", version="v1", base=0, total=6, phases=phases)


class Place:
    """A project with a clock that moves only on request, and a definition in a file."""

    def __init__(self, folder: Path, made: Workflow) -> None:
        self.folder, self.clock = folder, FakeClock(START_MS)
        self.project = folder / "project"
        (self.project / "specs").mkdir(parents=True)
        self.file = self.project / f"{made.name}.yaml"
        self.file.write_bytes(write(made))
        self.stay = self.opened()

    def opened(self) -> Forestay:
        return forestay.open(
            str(self.folder / "home"), cwd=str(self.project), clock=self.clock, trust_env=False
        )

    def start(self, **more: Any) -> Session:
        return self.stay.start("Build the login", workflow=str(self.file), **more)

    def wait(self, minutes: float) -> None:
        self.clock.sleep(minutes * MINUTE)

    def again(self, session: Session) -> Session:
        """Return the session as a new process sees it."""
        self.stay.close()
        self.stay = self.opened()
        return self.stay.session(session.id)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path, spec_execution(phase_2=COVERED))
    yield made
    made.stay.close()


def kinds(session: Session) -> list[str]:
    return [line.event.kind for line in session.log()]


def through(session: Session, place: Place, *minutes: float) -> None:
    """Pass the first phases, each after so many minutes."""
    for number, spent in enumerate(minutes):
        place.wait(spent)
        assert session.phases.done(number, {"coverage": 90}).passed


# -- the beginning -----------------------------------------------------------------------------


@pytest.mark.req("S1-18", "S1-4")
def test_start_with_a_workflow_records_the_plan_and_its_phases(place: Place) -> None:
    session = place.start(target="specs/login.md")
    found = kinds(session)
    assert found[:2] == ["session.started", "plan.set"]
    assert found[2:-1] == ["step.added"] * 18 and found[-1] == "step.started"
    core = state_of(session).core
    assert (core.plan_total, core.plan_base, core.phase) == (6, 0, 0)
    assert (core.workflow, core.plan_version) == ("spec_execution_v1", "v1")
    assert core.plan_target == "specs/login.md"
    steps = {step.id: step for step in session.tasks.list()}
    assert steps["2.1"].phase == steps["look-2"].phase == "phase-2"
    assert steps["phase-0"].status == "running"


@pytest.mark.req("S1-19")
def test_changed_or_deleted_definition_does_not_affect_a_running_session(place: Place) -> None:
    session = place.start()
    place.file.write_bytes(write(Workflow(name="spec_execution_v1", total=1, base=0)))
    through(session, place, 1, 1)
    assert not place.again(session).phases.done(2, {"coverage": 60}).passed
    place.file.unlink()
    session = place.again(session)
    assert session.phases.gate(2).gate.fields[0].min == 80
    through_rest = [session.phases.done(n, {"coverage": 91}) for n in range(2, 6)]
    assert [one.passed for one in through_rest] == [True] * 4
    assert session.status().status == "completed"


def test_exported_session_includes_its_plan_and_evidence(place: Place, tmp_path: Path) -> None:
    session = place.start()
    session.phases.done(0, {"log": "x" * 20_000, "short": 1})
    session.export(str(tmp_path / "it.fspack"))
    other = forestay.open(str(tmp_path / "other"), cwd=str(place.project), trust_env=False)
    other.backups.import_(str(tmp_path / "it.fspack"))
    taken = other.session(session.id)
    assert taken.phases.gate(1).name == "Setup"
    row = state_of(taken).rows.get("checkpoint", "phase-0")
    assert isinstance(row, Checkpoint) and row.evidence == {"short": 1}
    kept = other.context.store.blob(row.blob)
    assert kept is not None and json.loads(kept)["log"] == "x" * 20_000
    assert taken.verify().ok
    other.close()


def test_plan_without_content_is_reported_and_no_phase_is_judged(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = place.start()
    monkeypatch.setattr(place.stay.context.store, "blob", lambda digest: None)
    with pytest.raises(Damaged, match="is missing"):
        session.phases.done(0)
    assert kinds(session)[-1] == "step.started"


def test_a_lost_plan_is_found_by_verify_and_doctor(place: Place) -> None:
    session = place.start()
    store = place.stay.context.store
    assert isinstance(store, SqliteStore)
    store.database.write(lambda connection: connection.execute("DELETE FROM blob"))
    assert [finding.code for finding in session.verify().findings] == ["content"]
    assert any("content" in advice.what for advice in place.stay.doctor().left)


@pytest.mark.req("X1-7")
def test_the_same_workflow_on_the_same_target_is_resumed(place: Place) -> None:
    first = place.start(target="specs/login.md")
    through(first, place, 5)
    again = place.start(target="./specs/../specs/login.md")
    assert (again.id, again.was_open) == (first.id, True)
    assert kinds(again)[-1] == "session.resumed"
    other = place.start(target="specs/other.md")
    assert other.id != first.id and not other.was_open
    assert place.start().id not in (first.id, other.id)
    first.lifecycle.abandon()
    assert place.start(target="specs/login.md").id != first.id


_START = """
import pathlib, sys, time
import forestay
home, project, gun = sys.argv[1:]
with forestay.open(home, cwd=project, trust_env=False) as stay:
    workflow = "spec_execution_v1.yaml"
    stay.start("so that everything is loaded", workflow=workflow)
    print("ready", flush=True)
    while not pathlib.Path(gun).exists():
        time.sleep(0.0005)
    for target in range(8):
        session = stay.start("Build it", workflow=workflow, target=f"specs/{target}.md")
        print(target, session.id, session.was_open)
"""


@pytest.mark.req("X1-7")
def test_processes_that_start_the_same_workflow_at_once_get_one_session(
    place: Place, tmp_path: Path
) -> None:
    gun = tmp_path / "gun"
    words = [sys.executable, "-c", _START, *map(str, (tmp_path / "home", place.project, gun))]
    runs = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert all(run.stdout and run.stdout.readline() == "ready\n" for run in runs)
    gun.touch()
    reported = [
        line.split() for run in runs for line in run.communicate(timeout=60)[0].splitlines()
    ]
    assert len(reported) == 32
    for target in range(8):
        mine = [(id, taken) for number, id, taken in reported if number == str(target)]
        assert len({id for id, _ in mine}) == 1
        assert sorted(taken for _, taken in mine) == ["False", "True", "True", "True"]


def test_a_start_repeated_with_its_key_is_one_session(place: Place) -> None:
    first = place.start(target="specs/login.md", key="k")
    again = place.start(target="specs/login.md", key="k")
    assert first.id == again.id and again.repeated and not again.was_open
    assert kinds(first).count("plan.set") == 1


@pytest.mark.req("X1-10")
@pytest.mark.parametrize("target", ["../outside.md", "/etc/passwd", "specs/../../x", "out/x"])
def test_a_target_outside_the_project_is_refused(place: Place, target: str) -> None:
    (place.project / "out").symlink_to(place.folder)
    with pytest.raises(InvalidInput):
        place.start(target=target)
    assert place.stay.list(all=True) == []


def test_a_target_without_a_workflow_is_refused(place: Place) -> None:
    with pytest.raises(InvalidInput, match="a target requires a workflow"):
        place.stay.start("x", target="specs")


# -- judged ------------------------------------------------------------------------------------


def test_passed_phase_and_the_start_of_the_next_are_recorded_together(place: Place) -> None:
    session = place.start()
    outcome = session.phases.done(0, {"files": 3})
    assert outcome.passed and not outcome.complete
    assert kinds(session)[-3:] == ["checkpoint.passed", "step.completed", "step.started"]
    assert state_of(session).core.phase == 1


@pytest.mark.req("S1-3", "S1-10", "S1-16", "S1-131")
def test_the_last_phase_completes_the_session_and_stays_the_current_one(place: Place) -> None:
    session = place.start()
    through(session, place, 1, 1, 1, 1, 1)
    outcome = session.phases.done(5)
    assert outcome.complete
    shown = session.status()
    assert shown.status == "completed"
    assert shown.as_json()["phase"]["current"] == 5
    assert shown.as_json()["phase"]["completed"] == [0, 1, 2, 3, 4, 5]
    assert shown.as_json()["timing"]["status"] == "completed"
    assert kinds(session)[-1] == "session.completed"


@pytest.mark.req("X1-9")
def test_refusal_by_the_gate_is_recorded_as_an_attempt_and_explained(place: Place) -> None:
    session = place.start()
    through(session, place, 1, 1)
    outcome = session.phases.done(2, {"coverage": 65})
    assert not outcome.passed and kinds(session)[-1] == "checkpoint.failed"
    assert outcome.judgment is not None
    reported = outcome.judgment.as_values()
    assert set(reported) == {
        "checkpoint_passed",
        "errors",
        "warnings",
        "diagnostics",
        "remediation",
        "next_steps",
    }
    assert reported["checkpoint_passed"] is False
    assert reported["diagnostics"]["fields_failed"] == ["coverage"]
    assert "forestay phase done 2 --evidence coverage=VALUE" in reported["next_steps"]
    state = state_of(session)
    assert state.core.phase == 2
    step = state.step("phase-2")
    assert step is not None and step.status == "running"


def test_an_override_needs_a_reason_and_a_gate_that_allows_it(tmp_path: Path) -> None:
    strict = Gate(fields=[Field(name="ok")])
    place = Place(tmp_path, spec_execution(phase_0=strict, phase_1=COVERED))
    session = place.start()
    with pytest.raises(InvalidInput, match="needs a reason"):
        session.phases.done(0, override=True)
    outcome = session.phases.done(0, override=True, because="seen by eye")
    assert outcome.passed and outcome.overridden
    with pytest.raises(Refused, match="cannot be overridden"):
        session.phases.done(1, override=True, because="please")
    assert session.status().as_json()["phase"]["checkpoints"] == {"0": "overridden", "1": "pending"}
    place.stay.close()


def test_override_of_a_passing_gate_is_not_recorded_as_an_override(place: Place) -> None:
    session = place.start()
    assert not session.phases.done(0, override=True, because="to be sure").overridden


@pytest.mark.req("X1-6")
def test_phases_are_completed_in_order(place: Place) -> None:
    session = place.start()
    through(session, place, 1)
    assert session.phases.gate(0).name == "Planning"
    assert session.phases.gate(1).name == "Setup"
    with pytest.raises(Refused, match="You must complete Phase 1 before accessing Phase 4"):
        session.phases.gate(4)
    with pytest.raises(Refused, match="You must complete Phase 1 before accessing Phase 3"):
        session.tasks.start("phase-3")
    with pytest.raises(Refused, match="Cannot complete phase 0, current phase is 1"):
        session.phases.done(0)
    with pytest.raises(Refused, match="Cannot complete phase 9, current phase is 1"):
        session.phases.done(9)
    with pytest.raises(Refused, match="cannot be skipped"):
        session.tasks.skip("phase-1", "no time")
    with pytest.raises(Refused, match="completed by passing its checkpoint"):
        session.tasks.done("phase-1")
    with pytest.raises(Refused, match="the plan is at phase 1 of 6"):
        session.complete()


def test_a_session_without_a_plan_has_no_phases(place: Place) -> None:
    plain = place.stay.start("no plan")
    for act in (plain.phases.list, plain.phases.retry, lambda: plain.phases.done(1)):
        with pytest.raises(Refused, match="no plan with phases"):
            act()
    assert plain.status().as_json()["phase"] is None
    free = place.stay.start("at will", workflow="free")
    assert free.status().as_json()["phase"] is None
    with pytest.raises(Refused, match="no plan with phases"):
        free.phases.gate(1)
    free.complete()


def test_a_repeated_call_with_its_key_judges_nothing_again(place: Place) -> None:
    session = place.start()
    first = session.phases.done(0, key="k")
    again = session.phases.done(0, key="k")
    assert session.repeated and (again.event.id, again.passed) == (first.event.id, True)
    assert state_of(session).core.phase == 1
    with pytest.raises(Refused, match="already used for another call"):
        session.phases.done(1, key="k")
    failed = session.phases.fail(1, issue="red", key="f")
    assert session.phases.fail(1, issue="red", key="f").event.id == failed.event.id
    assert session.phases.retry(key="r").id == session.phases.retry(key="r").id
    assert session.phases.rollback(0, key="b").id == session.phases.rollback(0, key="b").id
    assert state_of(session).core.phase == 0


def test_two_processes_cannot_both_pass_a_phase(place: Place) -> None:
    session = place.start()
    other = place.opened()
    rival = other.session(session.id)
    stale = rival.context.journal  # read before the other process wrote
    assert stale is not None
    before = ev.CheckpointPassed(step="phase-0")
    session.phases.done(0)
    with pytest.raises(Refused, match="Cannot complete phase 0, current phase is 1"):
        rival._recorder.record(
            before, ev.StepCompleted(step="phase-0"), ev.StepStarted(step="phase-1")
        )
    assert kinds(session).count("checkpoint.passed") == 1
    other.close()


# -- retry, rollback and undo ------------------------------------------------------------------


@pytest.mark.req("S1-14", "S1-139")
def test_attempts_stay_when_a_phase_is_retried(place: Place) -> None:
    session = place.start()
    through(session, place, 1, 1)
    session.phases.done(2, {"coverage": 65})
    place.wait(5)
    session.phases.retry()
    assert session.status().as_json()["phase"]["checkpoints"]["2"] == "pending"
    session.phases.fail(2, {"coverage": 70}, issue="still too little")
    session.phases.done(2, {"coverage": 81})
    row = state_of(session).rows.get("checkpoint", "phase-2")
    assert isinstance(row, Checkpoint)
    assert [(word, issue) for word, _, issue in row.tries] == [
        ("failed", "coverage is 65, at least 80 is wanted"),
        ("failed", "still too little"),
        ("passed", ""),
    ]
    assert (row.attempts, row.evidence) == (3, {"coverage": 81})


def test_phase_that_has_not_failed_cannot_be_retried(place: Place) -> None:
    session = place.start()
    with pytest.raises(Refused, match="phase 0 has not failed"):
        session.phases.retry()


def test_a_rollback_resets_later_phases_and_reopens_a_completed_session(place: Place) -> None:
    session = place.start()
    session.tasks.done("look-3")
    through(session, place, 1, 1, 1, 1, 1, 1)
    session.phases.rollback(2, because="the specification changed")
    shown = session.status()
    assert (shown.status, shown.as_json()["phase"]["current"]) == ("active", 2)
    assert shown.as_json()["phase"]["completed"] == [0, 1]
    assert shown.as_json()["phase"]["checkpoints"]["3"] == "pending"
    steps = {step.id: step.status for step in session.tasks.list()}
    assert steps["phase-2"] == "running" and steps["phase-4"] == steps["look-3"] == "pending"
    through_again = [session.phases.done(n, {"coverage": 99}).passed for n in range(2, 6)]
    assert through_again == [True] * 4 and session.status().status == "completed"


def test_undo_of_a_passed_phase_makes_it_current_again(place: Place) -> None:
    session = place.start()
    session.phases.done(0)
    session.undo()
    shown = session.status()
    assert (shown.as_json()["phase"]["current"], shown.as_json()["phase"]["completed"]) == (0, [])
    assert session.phases.done(0).passed


# -- totals that are not known at first ---------------------------------------------------------


DYNAMIC = Workflow(
    name="dynamic",
    base=1,
    phases=[Phase(number=1, name="Look")],
    pattern=Phase(number=1, name="Part", tasks=[Task(name="Do the part")]),
)


def test_total_may_exclude_a_phase_that_has_only_started(tmp_path: Path) -> None:
    place = Place(tmp_path, DYNAMIC)
    session = place.start(formats=["praxis"])
    session.phases.done(1)
    session.phases.done(2)
    with pytest.raises(Refused) as refused:
        session.complete()
    assert refused.value.legal[:2] == ["phase done 3", "phase total 2"]
    with pytest.raises(Refused, match="cannot have 1 phases") as refused:
        session.phases.total(1)
    assert refused.value.legal == ["phase total 2"]
    session.phases.total(2)
    shown = session.status()
    assert (shown.status, shown.as_json()["phase"]["completed"]) == ("completed", [1, 2])
    assert [one.name for one in session.phases.list()] == ["Look", "Part 2"]
    (binding,) = session.files.list()
    doc = json.loads(Path(binding.place).read_text())
    assert (doc["current_phase"], doc["completed_phases"]) == (2, [1, 2])
    assert doc["checkpoints"] == {"1": "passed", "2": "passed", "3": "skipped"}
    (one,) = discover.find(binding.place)
    report = check_files.check(one, Where(), strict=True)
    assert not report.findings and report.reading.complete
    place.stay.close()


def test_total_cannot_exclude_a_phase_with_finished_work(tmp_path: Path) -> None:
    place = Place(tmp_path, DYNAMIC)
    session = place.start()
    session.phases.done(1)
    session.tasks.done("2.1")
    with pytest.raises(Refused, match="cannot have 1 phases"):
        session.phases.total(1)
    place.stay.close()


def test_dynamic_total_is_set_once_and_not_below_the_reached_phase(tmp_path: Path) -> None:
    place = Place(tmp_path, DYNAMIC)
    session = place.start()
    session.phases.done(1)
    shown = session.status()
    assert (shown.as_json()["phase"]["current"], shown.as_json()["phase"]["total"]) == (2, None)
    assert shown.as_json()["timing"]["percent_complete"] is None
    assert (shown.progress, shown.progress_from) == (0.0, "none")
    session.phases.done(2)
    with pytest.raises(Refused, match="the plan is at phase 3"):
        session.complete()
    with pytest.raises(Refused, match="cannot have 1 phases"):
        session.phases.total(1)
    session.phases.total(4, names=["The end"])
    with pytest.raises(Refused, match="set only once"):
        session.phases.total(5)
    assert [one.name for one in session.phases.list()] == ["Look", "Part 2", "Part 3", "The end"]
    assert [step.phase for step in session.tasks.list() if step.phase] == [
        "phase-2",
        "phase-3",
        "phase-4",
    ]
    session.phases.done(3)
    assert session.phases.done(4).complete
    place.stay.close()


# -- bad evidence ------------------------------------------------------------------------------


@pytest.mark.req("X1-10")
def test_evidence_that_is_too_large_or_deep_is_refused_and_nothing_recorded(place: Place) -> None:
    session = place.start()
    before = kinds(session)
    deep: Any = []
    for _ in range(80):
        deep = [deep]
    for bad in ({"x": "y" * (MOST_BYTES + 1)}, {"x": deep}, {"x": float("nan")}, {"": 1}):
        with pytest.raises(InvalidInput):
            session.phases.done(0, bad)
    assert kinds(session) == before


def test_secrets_in_evidence_are_judged_but_not_stored(tmp_path: Path) -> None:
    secret = "AKIA" + "IOSFODNN7EXAMPLE"
    gate = Gate(fields=[Field(name="key", matches="AKIA.*")])
    place = Place(tmp_path, spec_execution(phase_0=gate, phase_1=gate))
    session = place.start()
    assert session.phases.done(0, {"key": secret}).passed
    assert session.phases.done(1, {"key": secret, "log": f"{secret} " * 2000}).passed
    for name in ("phase-0", "phase-1"):
        row = state_of(session).rows.get("checkpoint", name)
        assert isinstance(row, Checkpoint) and secret not in str(row.evidence)
    assert isinstance(row, Checkpoint)
    kept = place.stay.context.store.blob(row.blob)
    assert kept is not None and secret.encode() not in kept
    place.stay.close()


# -- time --------------------------------------------------------------------------------------


@pytest.mark.req("S1-6", "S1-22", "S1-139")
def test_pauses_do_not_count_as_time_of_their_phase(place: Place) -> None:
    session = place.start()
    place.wait(10)
    session.pause()
    place.wait(1000)
    session.resume()
    place.wait(20)
    session.phases.done(0)
    place.wait(7)
    session.pause()
    place.wait(500)
    shown = session.status().as_json()["timing"]
    assert shown["avg_phase_duration"] == 30 * MINUTE
    assert shown["time_in_phase"] == 7 * MINUTE
    step = state_of(session).step("phase-0")
    assert isinstance(step, Step) and step.paused_ms == 1000 * MINUTE * 1000
    session.resume()
    session.lifecycle.abandon()
    place.wait(300)
    session.lifecycle.reopen("on with it")
    place.wait(3)
    assert session.status().as_json()["timing"]["time_in_phase"] == 10 * MINUTE


def test_retry_does_not_restart_the_time_of_a_phase(place: Place) -> None:
    session = place.start()
    place.wait(40)
    session.phases.fail(0, issue="no")
    session.phases.retry()
    place.wait(5)
    session.phases.done(0)
    assert session.status().as_json()["timing"]["previous"] == [45 * MINUTE]


@pytest.mark.req(
    "S1-90",
    "S1-124",
    "S1-128",
    "S1-129",
    "S1-130",
    "S1-132",
    "S1-133",
    "S1-134",
    "S1-143",
)
def test_status_in_a_new_process_includes_the_context(place: Place) -> None:
    session = place.start()
    through(session, place, 30, 45, 72)
    place.wait(45)
    session = place.again(session)
    assert session.status().context == [
        "You are on Phase 3 of 6 (50% complete)",
        "This phase started 45 minutes ago",
        "Last working on Phase 3 (started 2025-10-23T09:27:00)",
        "Average phase time: 49 minutes, estimated remaining: ~2.5 hours",
        "Previous phases took: 30m, 45m, 1.2h",
        "No pauses or interruptions",
    ]
    session.pause()
    place.wait(90)
    assert session.status().context[-1] == "1 pause; paused now"
    session.resume()
    assert session.status().context[-1] == "1 pause (1.5 hours in all)"


# -- displays and briefings --------------------------------------------------------------------

ACTIVE = """\
📋 Session it: spec_execution_v1
   Target: specs/my-spec

🎯 Progress: Phase 3 of 6 (50% complete)
   Current: Phase 3 (started 2 hours ago)
   Average phase time: 49 minutes
   ⚠️  Current phase taking longer than average

✅ Completed Phases:
   Phase 0: Planning (30 min) ✅ Checkpoint PASSED
   Phase 1: Setup (45 min) ✅ Checkpoint PASSED
   Phase 2: Implementation (1.2 hr) ✅ Checkpoint PASSED

🔄 Current Status: possibly_stalled
   Next step: start 3.1: Do testing

⏰ Timing:
   Started: 4.5 hours ago
   Last updated: 2 hours ago
   Estimated remaining: ~2.5 hours
"""

FAILED = """\
📋 Session it: spec_execution_v1
   Target: specs/my-spec

🎯 Progress: Phase 2 of 6 (33% complete)
   Current: Phase 2 (started 1.3 hours ago)
   Average phase time: 38 minutes
   ⚠️  Current phase taking longer than average

✅ Completed Phases:
   Phase 0: Planning (30 min) ✅ Checkpoint PASSED
   Phase 1: Setup (45 min) ✅ Checkpoint PASSED

🔄 Current Status: checkpoint_failed
   Phase 2: Implementation (1.3 hr) ❌ Checkpoint FAILED
      Evidence: tests_passing=42/45, coverage=65%
      Issue: Coverage requirement is 80%
   Next step: fix the failed checkpoint of phase-2: Coverage requirement is 80%; then: \
forestay phase done 2

⏰ Timing:
   Started: 2.5 hours ago
   Last updated: 5 minutes ago
   Estimated remaining: ~2.5 hours
"""


def display(session: Session) -> str:
    return session.brief(style="praxis", fenced=False).text


@pytest.mark.req(
    *(f"S1-{n}" for n in (*range(99, 108), 111, 112, 113, 114, 115, 116)),
)
def test_display_equals_the_specified_text(place: Place) -> None:
    session = place.start(target="specs/my-spec", id="it")
    through(session, place, 30, 45, 72)
    place.wait(120)
    assert display(place.again(session)) == ACTIVE


@pytest.mark.req("S1-108", "S1-109", "S1-110")
def test_failed_phase_is_displayed_with_evidence_and_issue(place: Place) -> None:
    session = place.start(target="specs/my-spec", id="it")
    through(session, place, 30, 45)
    place.wait(72)
    evidence = {"tests_passing": "42/45", "coverage": "65%"}
    session.phases.fail(2, evidence, issue="Coverage requirement is 80%")
    place.wait(5)
    assert display(session) == FAILED
    assert not any(line != line.rstrip() for line in FAILED.splitlines())


@pytest.mark.req("S1-99", "S1-100")
def test_the_heading_of_the_display_has_the_whole_id_and_target(place: Place) -> None:
    id = "workflow_default_062f24e7-6fdc-40b3-a2d8-7ffaea6351b6"
    target = "services/accounts/github.com/a-company/a-project/.praxis-os/specs/2025-10-22-a-tool"
    session = place.start(target=target, id=id)
    heading = f"📋 Session {id}: spec_execution_v1\n   Target: {target}\n"
    assert display(session).startswith(heading)
    assert session.brief(style="praxis", budget=500, fenced=False).text.startswith(heading)


@pytest.mark.parametrize("budget", [150, 300, 1500])
def test_very_long_target_leaves_room_for_the_rest(place: Place, budget: int) -> None:
    session = place.start(target="a/" * 1900, id="it" * 32)
    made = session.brief(style="praxis", budget=budget, fenced=False)
    assert made.tokens <= budget and len(made.text) < 4 * budget
    assert "Phase 0 of 6" in made.text and "Next step: start 0.1: Do planning" in made.text


@pytest.mark.parametrize("budget", [150, 200, 300, 600])
def test_the_display_stays_within_its_budget(place: Place, budget: int) -> None:
    session = place.start(target="specs/my-spec", id="it")
    through(session, place, 30, 45, 72, 10, 10)
    made = session.brief(style="praxis", budget=budget, fenced=False)
    assert made.tokens <= budget
    assert "Phase 5 of 6" in made.text and "Next step:" in made.text


@pytest.mark.req("S1-11")
def test_a_new_process_sees_where_the_work_was(place: Place) -> None:
    session = place.start()
    through(session, place, 10)
    session.tasks.start("1.1")
    (place.project / "app.py").write_text("x = 1\n", encoding="utf-8")
    session.record.file(str(place.project / "app.py"))
    reported = place.again(session).resume(fenced=False).text
    assert "Where: phase 1 of 6: Setup (17%); 1.1 is running" in reported
    assert "Next: continue 1.1: Do setup" in reported
    assert "app.py: created" in reported or "app.py: modified" in reported


def test_the_briefing_lists_failed_attempts_with_evidence_and_issue(place: Place) -> None:
    session = place.start()
    session.phases.fail(0, {"tasks": 0}, issue="too vague")
    reported = session.brief(fenced=False).text
    assert "Failed checkpoints:\n- phase-0: too vague; evidence: tasks=0" in reported
    session.phases.retry()
    reported = session.brief(fenced=False).text
    assert "- phase-0: attempt 2 is under way; before: too vague" in reported
    session.phases.done(0)
    reported = session.brief(fenced=False).text
    assert "Failed checkpoints" not in reported
    assert "phase-0: checkpoint was reported as passed but not observed" in reported


@pytest.mark.req("S1-135")
def test_next_step_follows_from_the_state_of_phases_and_tasks(place: Place) -> None:
    session = place.start()

    def following() -> str:
        return str(session.status().next)

    assert following() == "start 0.1: Do planning"
    session.tasks.start("0.1")
    assert following() == "continue 0.1: Do planning"
    session.tasks.done("0.1")
    session.tasks.done("look-0")
    assert following() == "finish phase-0: Planning, then: forestay phase done 0"
    session.phases.fail(0, issue="too vague")
    assert following() == (
        "fix the failed checkpoint of phase-0: too vague; then: forestay phase done 0"
    )
    session.phases.retry()
    assert following() == "finish phase-0: Planning, then: forestay phase done 0"
    session.tasks.block("phase-0", "waiting for an answer")
    assert following() == "unblock phase-0: Planning (waiting for an answer)"
    session.phases.done(0)
    assert following() == "start 1.1: Do setup"
    through_all = [session.phases.done(n, {"coverage": 90}).passed for n in range(1, 6)]
    assert all(through_all) and following().startswith("nothing: it is completed")
    session.lifecycle.reopen("look again")
    assert following() == "all phases are done: forestay complete, or forestay phase rollback 5"


@pytest.mark.req("X1-14")
def test_status_has_the_failed_phase_its_issue_and_the_next_command(place: Place) -> None:
    session = place.start()
    session.phases.fail(0, issue="too vague")
    shown = session.status()
    assert (shown.as_json()["phase"]["failed"], shown.as_json()["phase"]["issue"]) == (
        0,
        "too vague",
    )
    assert shown.next.endswith("then: forestay phase done 0")
    judged = [line.event for line in session.log() if line.event.kind.startswith("checkpoint.")]
    assert [event.kind for event in judged] == ["checkpoint.failed"]


# -- files of the document ---------------------------------------------------------------------


def praxis_file(place: Place) -> dict[str, Any]:
    (path,) = (place.project / ".praxis-os/.cache/state").glob("*.json")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


@pytest.mark.req("S1-4", "S1-6", "S1-14", "S1-15", "S1-16", "S1-18")
def test_the_session_file_equals_the_session(place: Place) -> None:
    session = place.start(target="specs/my-spec", formats=["praxis"])
    first = praxis_file(place)
    assert first["workflow_structure"] == {
        "total_phases": 6,
        "starting_phase": 0,
        "indexing_scheme": "zero_based",
        "workflow_version": "v1",
    }
    assert first["workflow_type"] == "spec_execution_v1"
    assert first["target_file"] == "specs/my-spec"
    assert first["phase_timing"] == {"0": {"started_at": "2025-10-23T07:00:00Z"}}
    through(session, place, 30)
    place.wait(5)
    session.pause()
    place.wait(60)
    session.resume()
    place.wait(40)
    session.phases.done(1)
    session.phases.done(2, {"coverage": 65})
    failed = praxis_file(place)
    assert failed["checkpoints"] == {"0": "passed", "1": "passed", "2": "failed"}
    assert failed["phase_timing"]["1"] == {
        "started_at": "2025-10-23T07:30:00Z",
        "paused_duration_seconds": 3600.0,
        "completed_at": "2025-10-23T09:15:00Z",
        "duration_seconds": 2700.0,
    }
    session.phases.retry()
    session.phases.done(2, {"coverage": 85})
    tried = praxis_file(place)["phase_attempts"]["2"]
    assert [(one["checkpoint"], one["evidence"]) for one in tried] == [("failed", {"coverage": 65})]
    for number in (3, 4, 5):
        session.phases.done(number)
    done = praxis_file(place)
    assert done["lifecycle"]["completed"] is True
    assert (done["current_phase"], done["completed_phases"]) == (5, [0, 1, 2, 3, 4, 5])
    assert place.stay.files.check(str(place.project / ".praxis-os/.cache/state"), strict=True)[0].ok
    assert "foreign.edited" not in kinds(session)


def test_other_formats_get_the_plan_too(place: Place) -> None:
    session = place.start(formats=["ai-session", "craft", "orchestrator"])
    through(session, place, 10)
    (path,) = (place.project / ".ai-session").glob("*/implementation-plan.yaml")
    plan = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert [phase["name"] for phase in plan["phases"]] == list(NAMES)
    assert [task["task_id"] for task in plan["phases"][1]["tasks"]] == ["1.1", "look-1"]
    for root in (".ai-session", ".craft", ".claude"):
        assert all(r.ok for r in place.stay.files.check(str(place.project / root), strict=True))
    assert "foreign.edited" not in kinds(place.again(session))


def test_a_session_adopted_from_a_file_has_a_permissive_gate(place: Place, tmp_path: Path) -> None:
    session = place.start(target="specs/my-spec", formats=["praxis"])
    through(session, place, 30, 45)
    other = tmp_path / "elsewhere"
    (other / ".praxis-os/.cache/state").mkdir(parents=True)
    (source,) = (place.project / ".praxis-os/.cache/state").glob("*.json")
    (other / ".praxis-os/.cache/state" / source.name).write_bytes(source.read_bytes())
    stay = forestay.open(str(tmp_path / "h2"), cwd=str(other), trust_env=False, clock=place.clock)
    (adopted,) = list(stay.files.adopt())
    taken = stay.session(adopted.session)
    assert taken.status().as_json()["phase"]["current"] == 2
    assert taken.phases.gate(2).judgment.checkpoint_passed
    taken.phases.fail(2, issue="red")
    taken.phases.retry()
    for number in range(2, 6):
        assert taken.phases.done(number).passed
    assert taken.status().status == "completed"
    done = json.loads((other / ".praxis-os/.cache/state" / source.name).read_text())
    assert done["lifecycle"]["completed"] is True and done["current_phase"] == 5
    stay.close()
