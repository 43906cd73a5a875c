"""Other programs, among them ones that know only the first generation, edit a praxis file."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from forestay.formats import timestamps
from forestay.formats.port import Where
from forestay.formats.rendering_id import without_id
from forestay.mirror import check_files, discover
from tests.homes import state_of
from tests.mirror.conftest import Make
from tests.mirror.support import Project

THEIRS = "0b6f7a52-6ff1-4a0b-9d5c-0c5a3b1f2e11"
FIRST_GENERATION = (
    "session_id",
    "workflow_type",
    "target_file",
    "current_phase",
    "completed_phases",
    "phase_artifacts",
    "checkpoints",
    "created_at",
    "updated_at",
    "metadata",
)
REQUIRED = (
    *FIRST_GENERATION,
    "workflow_structure",
    "workflow_structure.starting_phase",
    "phase_timing",
    "phase_timing.0.started_at",
    "phase_timing.0.completed_at",
    "lifecycle",
    "lifecycle.paused",
    "lifecycle.last_error_at",
    "phase_artifacts.0.outputs",
)


def in_phases(make: Make, done: int = 1) -> Project:
    """Return a project whose session has six phases, some of them done."""
    project = make()
    project.session = project.home.start("Ship it", workflow="spec-execution", formats=["praxis"])
    for number in range(done):
        project.session.phases.done(number, override=True, because="seen to")
    return project


def codes(project: Project) -> list[str]:
    (one,) = discover.find(str(project.place))
    return [finding.code for finding in check_files.check(one, Where(), strict=True).findings]


def part_of(doc: Any, path: str) -> tuple[Any, str]:
    *way, key = path.split(".")
    for name in way:
        doc = doc[name]
    return doc, key


@pytest.mark.req("S1-25", "S1-28", "S1-40", "S1-53", "S1-60")
@pytest.mark.parametrize("path", REQUIRED)
@pytest.mark.parametrize("how", ["without", "null", "wrong"])
def test_required_key_is_restored_and_reported_once(make: Make, path: str, how: str) -> None:
    project = in_phases(make)
    before = without_id(project.read())

    def damage(doc: Any) -> None:
        part, key = part_of(doc, path)
        is_section = isinstance(part[key], dict | list)
        part[key] = "no section" if how == "wrong" and is_section else None
        if how == "without" or path == "lifecycle.last_error_at":
            del part[key]

    project.edit(damage)
    project.session.note("one")
    project.again().note("two")
    now = without_id(project.read())
    assert {**now, "updated_at": ""} == {**before, "updated_at": ""} and list(now) == list(before)
    sentences = (f"{path} was removed", f"{path} was given an invalid value")
    reported = [body for body in project.edits() if any(each in str(body) for each in sentences)]
    assert len(reported) == len(project.edits()) == 1 and codes(project) == []


def test_removed_metadata_stays_removed(make: Make) -> None:
    project = in_phases(make)
    project.edit(lambda v: v["metadata"].clear())
    project.session.note("one")
    assert project.read()["metadata"] == {}


def test_replaced_artifact_contains_nothing_of_the_earlier_one(make: Make) -> None:
    project = in_phases(make)
    project.edit(lambda v: v["phase_artifacts"].update({"0": {"evidence": {"new": 1}}}))
    project.session.note("one")
    assert project.read()["phase_artifacts"]["0"]["evidence"] == {"new": 1}
    assert "outputs" not in project.read()["phase_artifacts"]["0"]


# -- a program that knows the first generation only ------------------------------------------------


def as_first_generation(doc: Any) -> None:
    """Pass the current phase, and remove every key that the first generation does not have."""
    for key in [key for key in doc if key not in FIRST_GENERATION]:
        del doc[key]
    phase = doc["current_phase"]
    handed = {"phase_number": phase, "evidence": {"ok": True}, "outputs": {}}
    handed |= {"commands_executed": [], "timestamp": doc["updated_at"]}
    doc["phase_artifacts"][str(phase)] = handed
    doc["checkpoints"][str(phase)] = "passed"
    doc["completed_phases"].append(phase)
    doc["current_phase"] = phase + 1


@pytest.mark.req("S1-138")
def test_phases_passed_by_a_legacy_program_are_recorded(
    make: Make,
) -> None:
    project = in_phases(make, done=3)
    for number in (3, 4, 5):
        project.edit(as_first_generation)
        assert project.session.status().as_json()["phase"]["current"] == min(number + 1, 5)
        project.session.note("seen")
    assert project.suspended == "" and state_of(project.session).core.status == "completed"
    assert project.disputes() == [] and codes(project) == []
    now = project.read()
    assert now["lifecycle"]["completed"] is True and now["current_phase"] == 5
    assert now["workflow_structure"]["total_phases"] == 6 and "5" in now["phase_artifacts"]


@pytest.mark.req("S1-37", "S1-80")
def test_phase_passed_without_times_ends_at_the_time_of_its_evidence(
    make: Make,
) -> None:
    project = in_phases(make)

    def pass_two(doc: Any) -> None:
        as_first_generation(doc)
        doc["phase_artifacts"]["1"]["timestamp"] = at = "2027-01-15T09:00:00Z"
        as_first_generation(doc | {"updated_at": at})
        doc.update(current_phase=3)

    project.edit(pass_two)
    project.session.note("seen")
    timing = project.read()["phase_timing"]
    at = "2027-01-15T09:00:00Z"
    assert timing["1"]["completed_at"] == timing["2"]["started_at"] == at
    assert timing["2"]["completed_at"] == at and timing["3"] == {"started_at": at}
    assert codes(project) == []


@pytest.mark.req("S1-14", "S1-138")
def test_attempts_removed_by_a_legacy_program_are_restored(make: Make) -> None:
    project = in_phases(make)
    project.session.phases.fail(1, {"coverage": 65}, issue="red")
    project.session.phases.retry()
    project.edit(as_first_generation)
    project.session.note("seen")
    (attempt,) = project.read()["phase_attempts"]["1"]
    assert attempt["evidence"] == {"coverage": 65} and project.read()["completed_phases"] == [0, 1]


@pytest.mark.req("S1-16")
def test_legacy_program_does_not_end_a_reopened_session(make: Make) -> None:
    project = in_phases(make, done=6)
    project.session.lifecycle.reopen(because="one more look")

    def write_all_again(doc: Any) -> None:
        for key in [key for key in doc if key not in FIRST_GENERATION]:
            del doc[key]
        doc["metadata"]["seen"] = True

    project.edit(write_all_again)
    project.session.note("seen")
    assert project.session.status().status == "active" and codes(project) == []


# -- one phase, judged by us and by another program ------------------------------------------------


def judged(verdict: str, *, knows_times: bool) -> Callable[[Any], None]:
    """Return the edit of a program of today or of the first generation that judges a phase."""

    def change(doc: Any) -> None:
        phase = doc["current_phase"]
        at = f"{doc['updated_at'][:-3]}59Z"
        handed = {"phase_number": phase, "evidence": {"by": at}, "outputs": {"of": "theirs"}}
        doc["phase_artifacts"][str(phase)] = handed | {"commands_executed": [], "timestamp": at}
        doc["checkpoints"][str(phase)] = verdict
        doc["updated_at"] = at
        if verdict == "passed":
            doc["completed_phases"].append(phase)
            doc["current_phase"] = phase + 1
        for key in [key for key in doc if not knows_times and key not in FIRST_GENERATION]:
            del doc[key]
        if knows_times:
            doc["phase_timing"][str(phase)]["completed_at"] = at
        if knows_times and verdict == "passed":
            doc["phase_timing"][str(phase + 1)] = {"started_at": at}

    return change


def ours(project: Project, verb: str) -> None:
    session = project.session
    current = session.status().as_json()["phase"]["current"]
    if verb == "fail":
        session.phases.fail(current, {"coverage": 65}, issue="red")
    elif verb == "retry":
        session.phases.retry()
    else:
        session.phases.rollback(current - 1, because="wrong turn")


WAYS = [
    ("fail", "passed"),
    ("failed", "retry", "failed"),
    ("failed", "retry", "passed"),
    ("rollback", "passed"),
    ("rollback", "failed"),
    ("passed", "rollback", "passed"),
    ("passed", "rollback", "failed"),
]


@pytest.mark.req("S1-59")
@pytest.mark.parametrize(
    "way, knows_times",
    [*product(WAYS, (True, False)), (("failed", "passed"), True)],
)
def test_later_verdict_of_another_program_is_not_a_dispute(
    make: Make, way: tuple[str, ...], knows_times: bool
) -> None:
    project = in_phases(make, done=2)
    for verb in way[:-1]:
        if verb in ("passed", "failed"):
            project.edit(judged(verb, knows_times=knows_times))
            project.session.note("seen")
        else:
            ours(project, verb)
    project.edit(judged(way[-1], knows_times=knows_times))
    stated = project.read()
    project.session.note("seen")
    now = project.read()
    for key in ("current_phase", "completed_phases", "phase_artifacts"):
        assert now[key] == stated[key]
    assert project.session.status().as_json()["phase"]["completed"] == stated["completed_phases"]
    assert project.disputes() == []


# -- a number of phases that is not known at the start ---------------------------------------------

DYNAMIC = {
    "workflow_type": "dyn",
    "version": "1",
    "total_phases": "dynamic",
    "phases": [
        {"phase_number": 0, "phase_name": "Analyse"},
        {"phase_number": "1-N", "phase_name": "Build", "tasks": [{"name": "Compile"}]},
    ],
}


@pytest.mark.req("S1-28")
def test_phases_added_by_a_file_have_the_names_of_the_workflow(
    make: Make,
) -> None:
    project = make()
    folder = project.folder / ".praxis-os" / "workflows" / "dyn" / "phases" / "0"
    folder.mkdir(parents=True)
    (folder.parents[1] / "metadata.json").write_text(json.dumps(DYNAMIC))
    project.session = project.home.start("Ship it", workflow="dyn", formats=["praxis"])
    assert project.read()["workflow_structure"]["total_phases"] is None
    project.edit(lambda v: v["workflow_structure"].update(total_phases=3))
    project.session.note("seen")
    assert project.titles() == ["Analyse", "Build 1", "Compile", "Build 2", "Compile"]
    steps = {step.id: step.phase for step in project.session.tasks.list()}
    assert steps["1.1"] == "phase-1" and steps["2.1"] == "phase-2"
    for number in range(3):
        project.session.phases.done(number)
    assert project.read()["lifecycle"]["completed"] is True and codes(project) == []


# -- after the end ---------------------------------------------------------------------------------


@pytest.mark.req("S1-16")
def test_file_of_a_reopened_session_is_not_read_as_completed(
    make: Make,
) -> None:
    project = in_phases(make, done=6)
    project.session.lifecycle.reopen(because="one more look")
    (one,) = discover.find(str(project.place))
    report = check_files.check(one, Where(), strict=True)
    assert report.findings == []
    assert (report.reading.status, report.reading.complete) == ("active", False)
    project.edit(lambda v: v.pop("forestay"))
    assert codes(project) == ["complete-not-flagged"]


# -- back to an earlier phase ----------------------------------------------------------------------


def go_back_to(phase: int, word: str) -> Callable[[Any], None]:
    """Return the edit of another program that goes back to a phase and drops the later ones."""

    def change(doc: Any) -> None:
        doc["checkpoints"].update({str(n): word for n in doc["completed_phases"] if n >= phase})
        doc["completed_phases"] = [n for n in doc["completed_phases"] if n < phase]
        doc["current_phase"] = phase

    return change


@pytest.mark.req("S1-59")
@pytest.mark.parametrize("word", ["failed", "pending"])
def test_phase_that_a_file_returns_to_can_be_passed_again(make: Make, word: str) -> None:
    project = in_phases(make, done=3)
    project.edit(go_back_to(1, word))
    project.session.phases.done(1, override=True, because="now it is")
    plan = project.session.status().as_json()["phase"]
    assert plan["current"] == 2 and plan["completed"] == [0, 1]
    now = project.read()
    assert now["completed_phases"] == [0, 1] and now["current_phase"] == 2
    assert "completed_at" not in now["phase_timing"]["2"] and codes(project) == []


@pytest.mark.req("S1-59")
def test_verdicts_withdrawn_in_a_file_are_pending_and_can_be_passed_again(make: Make) -> None:
    project = in_phases(make, done=2)
    project.edit(lambda v: v["phase_artifacts"].clear())
    project.session.note("without evidence")
    project.edit(go_back_to(0, "pending"))
    project.session.note("seen")
    assert set(project.session.status().as_json()["phase"]["checkpoints"].values()) == {"pending"}
    project.session.phases.done(0, override=True, because="again")
    assert project.read()["completed_phases"] == [0]


def test_rolled_back_attempt_is_not_shown_as_running(make: Make) -> None:
    project = in_phases(make, done=2)
    project.session.phases.fail(2, issue="red")
    project.session.phases.retry()
    project.session.phases.rollback(1, because="wrong turn")
    assert "under way" not in project.session.brief().text


@pytest.mark.req("S1-83")
def test_failed_phase_is_completely_written_at_once(make: Make) -> None:
    project = in_phases(make)
    project.session.phases.fail(1, {"coverage": 65}, issue="red")
    before = without_id(project.read())
    project.again().note("later")
    assert {**without_id(project.read()), "updated_at": ""} == {**before, "updated_at": ""}


@pytest.mark.req("S1-73")
def test_retried_phase_has_no_evidence_yet(make: Make) -> None:
    project = in_phases(make)
    project.session.phases.fail(1, {"coverage": 65}, issue="red")
    project.session.phases.retry()
    assert list(project.read()["phase_artifacts"]) == ["0"]


# -- pauses, errors and the end --------------------------------------------------------------------


def flags(**values: Any) -> Callable[[Any], None]:
    return lambda doc: doc["lifecycle"].update(**values)


@pytest.mark.req("S1-43", "S1-46")
def test_pauses_start_and_end_at_the_times_in_the_file(make: Make) -> None:
    project = in_phases(make)
    project.edit(flags(paused=True, paused_at="2027-01-15T09:00:00Z"))
    project.session.note("paused")
    project.edit(flags(paused=False, resumed_at="2027-01-15T09:30:00Z", resume_count=1))
    project.session.note("resumed")
    at = {event.kind: event.head.at for event in project.events("file:")}
    assert at["session.resumed"] - at["session.paused"] == 30 * 60_000


@pytest.mark.req("S1-43", "S1-46", "S1-47")
def test_pause_that_started_and_ended_unobserved_is_recorded(make: Make) -> None:
    project = in_phases(make)
    project.edit(flags(paused=True, paused_at="2027-01-15T09:00:00Z", paused_context="lunch"))
    project.edit(flags(paused=False, resumed_at="2027-01-15T09:30:00Z", resume_count=1))
    project.session.note("seen")
    at = {event.kind: event.head.at for event in project.events("file:")}
    assert at["session.resumed"] - at["session.paused"] == 30 * 60_000
    assert (
        state_of(project.session).core.resumes == 1 == project.read()["lifecycle"]["resume_count"]
    )
    assert not any("not recorded" in line for line in project.notices)


def test_pause_without_a_time_starts_when_it_is_absorbed(make: Make) -> None:
    project = in_phases(make)
    before = project.clock.now()
    project.edit(flags(paused=True))
    project.session.note("seen")
    assert state_of(project.session).core.paused_at > before


@pytest.mark.req("S1-42")
def test_paused_session_that_a_file_completes_is_not_left_paused(make: Make) -> None:
    project = in_phases(make)
    project.session.pause()
    project.edit(flags(completed=True, completed_at="2027-01-15T09:00:00Z"))
    project.session.note("seen")
    assert project.read()["lifecycle"]["paused"] is False
    assert codes(project) == ["flagged-early"]


@pytest.mark.req("S1-44")
def test_session_that_fails_after_an_error_is_written_as_paused(make: Make) -> None:
    project = in_phases(make)
    project.session.record.error("no network")
    project.session.lifecycle.fail(because="no network")
    now = project.read()["lifecycle"]
    assert now["paused"] is True and now["paused_reason"] == "system_error" and now["paused_at"]


LIFTED = flags(paused=False)
TIDY = flags(paused=False, paused_at=None, paused_reason=None)


@pytest.mark.req("S1-42", "S1-98")
@pytest.mark.parametrize("lift", [LIFTED, TIDY], ids=["flag alone", "all of it"])
def test_lifting_a_pause_after_an_error_resumes_the_session(
    make: Make, lift: Callable[[Any], None]
) -> None:
    project = make()
    project.session.record.error("no network")
    project.session.pause()
    project.session.files.bind("praxis")
    project.edit(lift)
    project.session.note("seen")
    assert project.session.status().status == "active"
    assert project.kinds() == ["foreign.edited", "session.resumed"]
    assert project.read()["lifecycle"]["paused"] is False


def test_removing_pause_and_error_by_hand_resumes_the_session(make: Make) -> None:
    """The file then has its content from before both, with the time of the pause."""
    project = in_phases(make)
    before = project.read()["lifecycle"]
    project.session.record.error("no network")
    project.session.pause()
    project.edit(lambda doc: doc["lifecycle"].update(before))
    project.session.note("on")
    assert state_of(project.session).core.status == "active" and project.disputes() == []
    assert not project.read()["lifecycle"]["paused"]


def test_file_can_pause_and_resume_a_reopened_session_with_all_phases_passed(make: Make) -> None:
    project = in_phases(make, done=6)
    project.session.lifecycle.reopen("more to do")
    project.edit(flags(paused=True, paused_at="2027-01-15T09:00:00Z"))
    project.session.note("seen")
    assert state_of(project.session).core.status == "paused"
    project.edit(flags(paused=False, resumed_at="2027-01-15T09:00:01Z"))
    project.session.note("on")
    assert state_of(project.session).core.status == "active" and project.disputes() == []


@pytest.mark.req("S1-42", "S1-98")
def test_lifting_the_pause_of_a_failed_session_resumes_it(make: Make) -> None:
    project = in_phases(make)
    project.session.lifecycle.fail(because="no network")
    project.edit(LIFTED)
    project.session.note("seen")
    assert project.session.status().status == "active"


@pytest.mark.req("S1-33", "S1-79")
def test_current_phase_of_a_completed_session_leaves_no_residue(
    make: Make,
) -> None:
    project = in_phases(make)

    def finish(doc: Any) -> None:
        doc["completed_phases"], doc["current_phase"] = list(range(6)), 5
        doc["checkpoints"] = {str(phase): "passed" for phase in range(6)}
        doc["lifecycle"].update(completed=True, completed_at="2027-01-15T09:00:00Z")

    project.edit(finish)
    project.session.note("seen")
    assert project.session.status().status == "completed"
    assert project.edits()[0].residue == ""  # type: ignore[attr-defined]
    assert project.read()["current_phase"] == 5


@pytest.mark.req("S1-48")
def test_error_replaced_by_another_is_not_reported_as_removed(make: Make) -> None:
    project = in_phases(make)
    project.session.record.error("no network")
    project.edit(flags(last_error="disk full", last_error_at="2027-01-15T09:00:00Z"))
    project.session.note("seen")
    assert project.kinds() == ["foreign.edited", "error.raised"]
    assert project.edits()[0].residue == ""  # type: ignore[attr-defined]


@pytest.mark.req("S1-48")
def test_passing_a_phase_does_not_report_an_earlier_error_as_removed(make: Make) -> None:
    project = in_phases(make)
    project.session.record.error("no network")

    def passed(doc: Any) -> None:
        doc["completed_phases"], doc["current_phase"] = [0, 1], 2
        doc["phase_timing"]["1"]["completed_at"] = "2027-01-15T09:00:00Z"

    project.edit(passed)
    project.session.note("seen")
    assert project.edits()[0].residue == ""  # type: ignore[attr-defined]


@pytest.mark.req("S1-59", "S1-74")
def test_same_failure_at_another_time_is_another_attempt(make: Make) -> None:
    project = in_phases(make)
    handed = {"phase_number": 1, "evidence": {"tests": 3}, "outputs": {}, "commands_executed": []}

    def fail(at: str) -> None:
        artifacts = {"1": {**handed, "timestamp": at}}
        project.edit(lambda doc: doc.update(phase_artifacts=artifacts, checkpoints={"1": "failed"}))
        project.session.note("seen")

    fail("2027-01-15T09:00:00Z")
    fail("2027-01-15T09:05:00Z")
    assert project.kinds().count("checkpoint.failed") == 2
    assert project.read()["phase_artifacts"]["1"]["timestamp"] == "2027-01-15T09:05:00Z"


@pytest.mark.req("S1-20", "S1-21")
def test_unknown_phase_number_does_not_move_the_session(make: Make) -> None:
    project = in_phases(make)
    project.edit(lambda doc: doc.update(current_phase=77))
    project.session.note("seen")
    assert project.read()["current_phase"] == state_of(project.session).core.phase == 1
    assert "current_phase: 77 is not a phase" in str(project.edits())


@pytest.mark.req("S1-59")
def test_phase_rolled_back_after_an_error_is_not_failed(make: Make) -> None:
    project = in_phases(make)
    project.session.record.error("no network")
    project.session.phases.done(1, override=True, because="seen to")
    again = {"1": {"started_at": "2027-01-15T09:00:00Z"}}

    def roll_back(doc: Any) -> None:
        doc["completed_phases"], doc["current_phase"] = [0], 1
        for key in ("checkpoints", "phase_artifacts", "phase_timing"):
            doc[key] = {"0": doc[key]["0"]}
        doc["phase_timing"] |= again

    project.edit(roll_back)
    project.session.note("seen")
    assert project.session.status().status == "active"


def test_many_changes_without_an_event_need_few_comparisons(
    make: Make, tries: list[object]
) -> None:
    project = in_phases(make)
    tries.clear()
    handed = {"outputs": {}, "commands_executed": [], "timestamp": "2027-01-15T09:00:00Z"}
    many = {str(n): {"phase_number": n, "evidence": {"n": n}, **handed} for n in range(2, 600)}
    project.edit(lambda doc: doc["phase_artifacts"].update(many))
    project.session.note("seen")
    assert "checkpoints: phase-10;" in project.edits()[0].residue  # type: ignore[attr-defined]
    assert len(tries) < 20


@pytest.mark.req("S1-44", "S1-48")
def test_pause_for_a_new_error_in_a_file_fails_the_session(make: Make) -> None:
    project = in_phases(make)
    project.session.record.error("no network")
    at = "2027-01-15T09:00:00Z"
    stop = {"paused": True, "paused_at": at, "paused_reason": "system_error"}
    project.edit(flags(**stop, last_error="disk full", last_error_at=at))
    project.session.note("seen")
    assert project.session.status().status == "failed"
    assert state_of(project.session).core.because == "disk full"
    assert stop.items() <= project.read()["lifecycle"].items()


def test_error_and_pause_context_removed_from_a_file_are_reported(make: Make) -> None:
    project = in_phases(make)
    project.session.record.error("no network")
    project.session.pause(context="half of it")
    project.edit(flags(last_error=None, last_error_at=None, paused_context=None))
    project.session.note("seen")
    assert project.read()["lifecycle"]["last_error"] == "no network"
    (edited,) = project.edits()
    assert "errors: no network was removed" in str(edited)
    assert "pause_context was removed" in str(edited)


def test_unrecorded_time_is_reported_as_the_file_spells_it(make: Make) -> None:
    project = in_phases(make)
    project.session.lifecycle.fail(because="no network")
    project.edit(flags(paused_at="2027-01-15T09:00:00Z"))
    project.session.resume()
    (edited,) = project.edits()
    assert "paused_at: 2027-01-15T09:00:00Z" in str(edited)


@pytest.mark.parametrize("verb", ["fail", "abort", "abandon"])
def test_praxis_briefing_shows_a_stopped_session_as_paused(make: Make, verb: str) -> None:
    project = in_phases(make)
    getattr(project.session.lifecycle, verb)(because="no more")
    assert "Current Status: paused" in project.session.brief(style="praxis").text


# -- the structure that it started with ------------------------------------------------------------


@pytest.mark.req("S1-19", "S1-32", "S1-137")
@pytest.mark.parametrize(
    "change", [{"total_phases": 1}, {"total_phases": 9}, {"starting_phase": 1}]
)
def test_file_cannot_change_the_workflow_structure_of_a_session(make: Make, change: Any) -> None:
    project = in_phases(make)
    before = project.read()["workflow_structure"]
    project.edit(lambda v: v["workflow_structure"].update(change))
    project.session.note("seen")
    assert project.read()["workflow_structure"] == before
    assert project.session.status().as_json()["phase"]["total"] == 6
    (edited,) = project.edits()
    assert f"workflow_structure.{next(iter(change))} was changed" in str(edited)


def test_changed_verdict_and_evidence_are_not_reported_as_lost(make: Make) -> None:
    project = in_phases(make, done=2)
    project.edit(lambda v: v["phase_artifacts"]["0"].update(evidence={"coverage": 80}))
    project.session.note("seen")
    project.edit(go_back_to(1, "pending"))
    project.session.note("seen")
    assert [getattr(body, "residue", "") for body in project.edits() if "residue" in str(body)] == [
        "",
        "",
    ]


@pytest.mark.req("S1-59")
def test_withdrawing_the_last_phase_in_a_file_reopens_the_session(make: Make) -> None:
    project = in_phases(make, done=6)

    def open_again(doc: Any) -> None:
        go_back_to(5, "pending")(doc)
        doc["lifecycle"].update(completed=False, completed_at=None)

    project.edit(open_again)
    assert project.session.status().status == "active"
    project.session.phases.done(5, override=True, because="now it is")
    assert "session.reopened" in project.kinds()
    assert project.read()["lifecycle"]["completed"] is True


def test_unknown_reason_for_a_pause_stays_in_the_file(make: Make) -> None:
    project = in_phases(make)
    project.edit(lambda doc: doc["lifecycle"].update(paused=True, paused_reason="lunch"))
    project.session.note("meanwhile")
    assert project.session.status().status == "paused"
    assert project.read()["lifecycle"]["paused_reason"] == "lunch"
    project.session.resume()
    project.session.pause(reason="system_error")
    assert project.read()["lifecycle"]["paused_reason"] == "system_error"


def test_phase_started_by_a_fast_clock_does_not_end_before_its_start(
    make: Make,
) -> None:
    project = in_phases(make)
    ahead = "2099-01-01T00:00:00Z"
    project.edit(lambda doc: doc["phase_timing"]["1"].update(started_at=ahead))
    project.session.phases.done(1, override=True, because="seen to")
    timing = project.read()["phase_timing"]["1"]
    assert (timing["completed_at"], timing["duration_seconds"]) == (ahead, 0.0)
    assert "time-runs-back" not in codes(project)
    before = project.place.read_bytes()
    project.again().note("later")
    assert project.read()["phase_timing"] == json.loads(before)["phase_timing"]


def pass_phase(project: Project, number: int, at: str) -> None:
    """Pass a phase in the file as another program does."""

    def change(doc: Any) -> None:
        doc["phase_timing"][str(number)] = {"started_at": at, "completed_at": at}
        doc["checkpoints"][str(number)] = "passed"
        doc["completed_phases"].append(number)

    project.edit(change)
    project.session.note("seen")


@pytest.mark.req("S1-20", "S1-33")
def test_session_completes_when_a_file_has_passed_all_phases_it_declares(make: Make) -> None:
    project = make("praxis")
    project.edit(lambda doc: doc["workflow_structure"].update(total_phases=3))
    project.session.note("seen")
    assert project.titles() == ["Phase 0", "Phase 1", "Phase 2"]
    for number, current in enumerate((1, 2, 2)):
        pass_phase(project, number, f"2027-01-15T09:0{number}:00Z")
        assert project.read()["current_phase"] == current
    assert project.session.status().status == "completed"


def test_phase_passed_in_a_file_is_the_task_with_its_number(make: Make) -> None:
    project = make("praxis")
    for title in ("Write it", "Test it"):
        project.session.tasks.add(title)
    pass_phase(project, 1, "2027-01-15T09:00:00Z")
    assert project.titles() == ["Write it", "Test it"]
    assert [row.status for row in project.session.tasks.list()] == ["pending", "done"]


def test_stale_file_does_not_remove_metadata_of_another_program(make: Make) -> None:
    project = make("praxis")
    stale = project.read()
    project.edit(lambda doc: doc["metadata"].update(one="by the first"))
    project.session.note("seen")
    stale["metadata"]["two"], stale["updated_at"] = "by the second", "2027-01-15T09:00:00Z"
    project.edit(lambda doc: doc.update(stale))
    project.session.note("seen")
    assert project.read()["metadata"].keys() >= {"one", "two"}


def test_pause_in_a_stale_file_without_our_error_is_not_a_dispute(make: Make) -> None:
    project = make("praxis")
    stale = project.read()
    project.session.record.error("boom")
    flags = {"paused": True, "paused_at": "2027-01-15T09:00:00Z", "paused_reason": "user_request"}
    stale["lifecycle"] |= flags
    project.edit(lambda doc: doc.update(stale))
    project.session.note("seen")
    assert project.session.status().status == "paused" and project.disputes() == []


@pytest.mark.parametrize("tasks", [1, 2])
def test_tasks_keep_their_phase_numbers_when_another_program_adds_phases(
    make: Make, tasks: int
) -> None:
    project = make("praxis")
    for number in range(tasks):
        project.session.tasks.add(f"Task {number}")
    project.edit(lambda doc: doc["workflow_structure"].update(total_phases=tasks + 1))
    project.session.tasks.start("t1")
    project.session.tasks.done("t1")
    assert project.read()["completed_phases"] == [0]
    assert project.read()["workflow_structure"]["starting_phase"] == 0
    assert project.session.status().progress == pytest.approx(1 / (tasks + 1), abs=0.001)
    project.edit(lambda doc: doc.update(completed_phases=[*range(tasks + 1)], current_phase=tasks))
    project.session.note("look")
    steps = state_of(project.session).rows.select("step")
    assert [getattr(step, "status", "") for step in steps] == ["done"] * (tasks + 1)


def test_program_that_saves_its_old_copy_removes_no_newer_error(
    make: Make,
) -> None:
    project = make("praxis")
    held = project.read() | {"session_id": THEIRS}
    held["lifecycle"] = {"completed": False, "paused": False, "resume_count": 0}
    place = project.place.with_name(f"{THEIRS}.json")
    place.write_text(json.dumps(held))
    project.home.files.adopt()
    session = project.home.session(THEIRS)
    for words in ("It broke", "It broke again"):
        session.note("before")
        session.record.error(words)
        project.notices.clear()
        held["updated_at"] = timestamps.write(project.clock.now())
        place.write_text(json.dumps(held))
        session.note("heard")
        assert not project.notices and not state_of(session).core.because
        assert json.loads(place.read_text())["lifecycle"]["last_error"] == words


def test_phase_ended_in_a_file_is_shown_with_its_time_before_it_is_absorbed(make: Make) -> None:
    project = in_phases(make, done=0)
    before = state_of(project.session).core.events
    began = timestamps.read(project.read()["created_at"]) or 0

    def passed(doc: Any) -> None:
        ended = timestamps.write(began + 60_000)
        doc.update(completed_phases=[0], current_phase=1, checkpoints={"0": "passed"})
        doc["phase_timing"]["0"]["completed_at"] = ended
        doc["phase_timing"]["1"] = {"started_at": ended}

    project.edit(passed)
    shown = state_of(project.session)
    steps = {getattr(row, "id", ""): row for row in shown.rows.select("step")}
    assert getattr(steps["phase-0"], "ended_at", 0) == began + 60_000
    assert getattr(steps["phase-1"], "status", "") == "running"
    assert shown.core.phase == project.session.status().as_json()["phase"]["current"] == 1
    context = project.home.context
    with context.store.view(project.session.id) as view:
        assert (shown.core.events, context.journal.state(view).core.phase) == (before, 0)


def test_phase_ended_as_a_task_moves_the_session_to_the_next_one(make: Make) -> None:
    project = make()
    doc = make("praxis").read() | {"session_id": THEIRS, "workflow_type": "spec"}
    doc["workflow_structure"]["total_phases"] = 3
    place = project.folder / f".praxis-os/.cache/state/{THEIRS}.json"
    place.write_text(json.dumps(doc))
    project.home.files.adopt()
    session = project.home.session(THEIRS)
    session.tasks.done("phase-0")
    craft = session.files.bind("craft").place
    project.edit(lambda v: v.update(completed_work=v["pending_tasks"][:1]), Path(craft))
    assert session.status().as_json()["phase"]["current"] == 2 == state_of(session).core.phase
    session.phases.done(2)
    assert json.loads(place.read_text())["completed_phases"] == [0, 1, 2]
    assert session.status().status == "completed"


def test_phase_ended_here_and_in_a_file_at_different_times_is_not_disputed(make: Make) -> None:
    project = in_phases(make, done=0)
    held = project.read()
    project.session.phases.done(0, override=True, because="seen to")
    ended = timestamps.write(project.clock.now() + 5_000)
    held.update(completed_phases=[0], current_phase=1, checkpoints={"0": "passed"})
    held["phase_timing"]["0"]["completed_at"] = held["updated_at"] = ended
    held["phase_timing"]["1"] = {"started_at": ended}
    project.edit(lambda doc: (doc.clear(), doc.update(held)))
    project.session.note("heard")
    assert project.disputes() == [] and project.read()["completed_phases"] == [0]
