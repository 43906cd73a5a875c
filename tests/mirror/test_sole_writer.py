"""Every edit of a program that is the only writer of a file is recorded without a dispute.

The author of a file knows what was absorbed from it. An older copy that another program writes back
is recognized by its time, or by what it lacks.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from forestay.plans import yaml_definition
from tests.chance import new_seed
from tests.homes import state_of
from tests.mirror.conftest import Make
from tests.mirror.driver import workflow
from tests.mirror.sole_writer import MOVES, walk
from tests.mirror.support import Project, swap_in

UPDATED = {"craft": "updated_at", "orchestrator": "updated", "praxis": "updated_at"}
LISTS = ("craft", "orchestrator")


@pytest.mark.parametrize("format_id", MOVES)
@pytest.mark.parametrize("seed", range(6))
def test_edits_of_a_sole_writer_are_never_lost_or_disputed(
    tmp_path: Path, format_id: str, seed: int
) -> None:
    walk(tmp_path, format_id, seed, 20)


@pytest.mark.soak
def test_many_edits_of_a_sole_writer_are_never_lost_or_disputed(
    tmp_path: Path, soak_seconds: float, report_figure: Callable[[str], None]
) -> None:
    first = seed = new_seed()
    ends = time.monotonic() + soak_seconds
    while time.monotonic() < ends:
        for format_id in MOVES:
            walk(tmp_path / str(seed), format_id, seed, 40)
            shutil.rmtree(tmp_path / str(seed))
        seed += 1
    report_figure(
        f"{seed - first} histories of sole writers, {len(MOVES)} formats, from seed {first}"
    )


def stamp(project: Project) -> str:
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(project.clock.now() // 1000))
    return f"{moment}{'.000' * (project.place.parent.name == 'orchestration-sessions')}Z"


def write_as_program(project: Project, format_id: str, change: Callable[[Any], object]) -> None:
    """Change the file as another program does, with the time of the change."""
    project.edit(lambda doc: (change(doc), doc.update({UPDATED[format_id]: stamp(project)})))
    project.session.note("seen")


@pytest.mark.parametrize("format_id", LISTS)
def test_pause_and_resume_with_another_task_are_recorded(make: Make, format_id: str) -> None:
    project = make(format_id)
    write_as_program(project, format_id, lambda doc: doc["pending_tasks"].append("First"))
    write_as_program(project, format_id, lambda doc: doc.update(status="paused"))

    def resume(doc: Any) -> None:
        doc["status"] = "in_progress"
        doc["pending_tasks"].append("Second")

    write_as_program(project, format_id, resume)
    assert state_of(project.session).core.status == "active"
    assert project.read()["status"] == "in_progress" and project.disputes() == []


@pytest.mark.parametrize("format_id", LISTS)
def test_task_reopened_with_other_edits_is_open(make: Make, format_id: str) -> None:
    project = make(format_id)
    write_as_program(project, format_id, lambda doc: doc["pending_tasks"].append("First"))
    write_as_program(project, format_id, end_first)

    def open_again(doc: Any) -> None:
        doc["completed_work"].clear()
        doc["pending_tasks"] += ["First", "Second"]

    write_as_program(project, format_id, open_again)
    (first, _) = project.session.tasks.list()
    assert first.status == "pending" and project.read()["completed_work"] == []


def end_first(doc: Any) -> None:
    text = doc["pending_tasks"].pop(0)
    is_craft = "$schema" in doc
    doc["completed_work"].append(text if is_craft else {"task": text, "outcome": "", "files": []})


@pytest.mark.parametrize("how", ["its time", "a task", "a key"])
def test_copy_from_before_an_edit_of_others_does_not_undo_that_edit(make: Make, how: str) -> None:
    project = make("craft")
    stale = project.read()

    def pause(doc: Any) -> None:
        doc["status"] = "paused"
        if how == "a task":
            doc["pending_tasks"].append("Theirs")
        if how == "a key":
            doc["x_theirs"] = 1

    write_as_program(project, "craft", pause)
    stale["pending_tasks"].append("From memory")
    if how != "its time":
        stale["updated_at"] = stamp(project)
    swap_in(project.place, json.dumps(stale, indent=2).encode())
    project.session.note("seen")
    now = project.read()
    assert now["status"] == "paused" and "From memory" in now["pending_tasks"]
    assert how != "a key" or now["x_theirs"] == 1


# -- agents of a program ---------------------------------------------------------------------------


def fail_agent(doc: Any, at: str, noted: str) -> None:
    doc["agents"][0].update(status="failure", completed=at)
    reported = {"message": "no network", "category": "transient", "agent": "code-1"}
    doc["errors"].append(reported | {"timestamp": noted})


@pytest.mark.req("S4-36")
def test_error_noted_before_its_agent_ended_is_recorded_once(make: Make) -> None:
    project = make("orchestrator")
    project.session.agents.start("code-1", type="code")
    noted, ended = stamp(project), stamp(project)
    write_as_program(project, "orchestrator", lambda doc: fail_agent(doc, ended, noted))
    assert [error["timestamp"] for error in project.read()["errors"]] == [noted]
    project.session.agents.start("code-1", type="code")
    project.session.agents.done("code-1", result="fine")
    assert [error["timestamp"] for error in project.read()["errors"]] == [noted]


def test_agent_that_fails_twice_with_the_same_error_has_two_errors(make: Make) -> None:
    project = make("orchestrator")
    project.session.agents.start("code-1", type="code")
    for _ in range(2):
        at = stamp(project)
        write_as_program(project, "orchestrator", partial(fail_agent, at=at, noted=at))
    assert len(project.read()["errors"]) == 2
    assert len(list(state_of(project.session).rows.select("error"))) == 2


@pytest.mark.req("S2-33", "S2-34")
@pytest.mark.parametrize("count", [0, 3])
def test_retry_count_of_a_failed_agent_stays_in_the_file(make: Make, count: int) -> None:
    project = make("craft")
    project.session.agents.start("code-1", type="code")
    project.session.agents.fail("code-1", "no network", category="transient")
    project.session.agents.start("code-1", type="code")
    error = {"category": "transient", "message": "gone", "retry_count": count}
    error |= {"last_retry_at": stamp(project) if count else None}
    ended = {"status": "error", "completed_at": stamp(project), "result": "failure"}
    write_as_program(project, "craft", lambda doc: doc["agents"][0].update(ended, error=error))
    project.session.note("again")
    assert project.read()["agents"][0]["error"] == error
    assert project.kinds().count("agent.failed") == 1


@pytest.mark.req("S2-30", "S2-33")
def test_earlier_error_of_a_running_agent_stays_in_its_file(make: Make) -> None:
    project = make("craft")
    project.session.agents.start("code-1", type="code")
    project.session.agents.fail("code-1", "no network", category="transient")
    error = project.read()["agents"][0]["error"] | {"retry_count": 1}
    again = {"status": "running", "completed_at": None, "result": None}
    write_as_program(project, "craft", lambda doc: doc["agents"][0].update(again, error=error))
    project.session.note("again")
    assert project.read()["agents"][0]["error"] == error
    project.session.agents.done("code-1", result="fine")
    assert project.read()["agents"][0]["error"] is None


@pytest.mark.req("S4-22")
def test_null_end_time_of_a_restarted_agent_is_no_end(make: Make) -> None:
    project = make("orchestrator")
    project.session.agents.start("code-1", type="code")
    project.session.agents.fail("code-1", "no network")
    again = {"status": "in_progress", "started": stamp(project), "completed": None}
    write_as_program(project, "orchestrator", lambda doc: doc["agents"][0].update(again))
    (agent,) = project.read()["agents"]
    assert agent["status"] == "in_progress" and not agent.get("completed")
    assert [getattr(body, "residue", "") for body in project.edits()] == ["", ""]


# -- phases of a program ---------------------------------------------------------------------------


def in_parts(tmp_path: Path) -> Project:
    return Project(tmp_path, "praxis", workflow=yaml_definition.write(workflow(0, 4)))


def pass_phase(doc: Any, at: str) -> None:
    number = doc["current_phase"]
    doc["phase_timing"].setdefault(str(number), {"started_at": at})["completed_at"] = at
    doc["checkpoints"][str(number)] = "passed"
    doc["phase_artifacts"][str(number)] = artifact(number, at)
    doc["completed_phases"].append(number)
    doc["phase_timing"][str(number + 1)] = {"started_at": at}
    doc["current_phase"] = number + 1


def artifact(number: int, at: str) -> dict[str, Any]:
    rest = {"outputs": {}, "commands_executed": [], "timestamp": at}
    return {"phase_number": number, "evidence": {"ok": True}, **rest}


def roll_back(doc: Any, at: str) -> None:
    for key in ("checkpoints", "phase_artifacts"):
        doc[key].clear()
    doc.update(current_phase=0, completed_phases=[], phase_timing={"0": {"started_at": at}})


@pytest.mark.req("S1-59")
def test_program_can_roll_back_all_phases_that_it_passed(tmp_path: Path) -> None:
    project = in_parts(tmp_path)
    for _ in range(3):
        write_as_program(project, "praxis", partial(pass_phase, at=stamp(project)))
        project.session.note("more")
    at = stamp(project)
    write_as_program(project, "praxis", partial(roll_back, at=at))
    now = project.read()
    assert (now["current_phase"], now["completed_phases"], now["checkpoints"]) == (0, [], {})
    assert now["phase_timing"] == {"0": {"started_at": at}} and project.disputes() == []
    project.home.close()


@pytest.mark.req("S1-36", "S1-59")
def test_restarted_phase_has_its_new_start_time(tmp_path: Path) -> None:
    project = in_parts(tmp_path)
    failure = {
        "checkpoints": {"0": "failed"},
        "phase_artifacts": {"0": artifact(0, stamp(project))},
    }
    write_as_program(project, "praxis", lambda doc: doc.update(failure))
    at = stamp(project)
    write_as_program(project, "praxis", partial(roll_back, at=at))
    assert project.read()["phase_timing"] == {"0": {"started_at": at}}
    project.home.close()


@pytest.mark.req("S1-43", "S1-46")
def test_second_pause_that_started_unobserved_is_recorded(tmp_path: Path) -> None:
    project = in_parts(tmp_path)
    first = {"paused": True, "paused_at": stamp(project), "paused_reason": "user_request"}
    write_as_program(project, "praxis", lambda doc: doc["lifecycle"].update(first))
    second = {"resumed_at": stamp(project), "resume_count": 1, "paused_at": stamp(project)}
    for _ in range(2):
        write_as_program(project, "praxis", lambda doc: doc["lifecycle"].update(second))
    life = project.read()["lifecycle"]
    assert life | first | second == life and project.disputes() == []
    pauses = [kind for kind in project.kinds() if kind.startswith("session.")]
    assert pauses == ["session.paused", "session.resumed", "session.paused"]
    project.home.close()
