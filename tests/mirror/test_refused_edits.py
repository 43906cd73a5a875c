"""An edit that cannot be recorded is reported, and the session stays readable."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.mirror.conftest import Make
from tests.mirror.support import AI_SESSION


def _add_agent(value: dict[str, Any]) -> None:
    value["forestay"] = {"v": 1, "facts": {"lists": {"agents": [{"now": {"id": "a1"}}]}}}


def _set_negative_total(value: dict[str, Any]) -> None:
    value["forestay"] = {"v": 1, "facts": {"now": {"plan_total": -3}}}


@pytest.mark.parametrize("edit, over", [(_add_agent, True), (_set_negative_total, False)])
def test_session_with_an_impossible_edit_can_be_read(make: Make, edit: Any, over: bool) -> None:
    project = make("craft")
    project.session.tasks.add("write tests")
    if over:
        project.session.lifecycle.abort(because="no use")
    data = project.edit(edit)
    session = project.again()
    assert session.status().status == ("aborted" if over else "active")
    assert session.brief() and project.home.list()
    session.note("still here")
    assert project.place.read_bytes() == data, "an edit that is not recorded stays in the file"
    (reported,) = {notice for notice in project.notices if "not up to date" in notice}
    assert f"the edit of {project.place.name} cannot be recorded" in reported
    assert not over or "it is aborted" in reported


def test_many_tasks_in_one_edit_are_absorbed_quickly(make: Make) -> None:
    project = make("orchestrator")
    project.session.tasks.add("Ours")
    project.edit(lambda value: value["pending_tasks"].extend(f"task {n}" for n in range(400)))
    began = time.process_time()
    project.again().note("next")
    assert time.process_time() - began < 60
    assert len(project.titles()) == 401


@pytest.mark.req("S0-6")
@pytest.mark.parametrize(
    "task, is_recorded", [("t0", False), ("t9", True), (None, True), ("t2", True)]
)
def test_only_a_completed_task_is_refused_as_the_active_one(
    make: Make, task: str | None, is_recorded: bool
) -> None:
    project = make(AI_SESSION)
    for name in ("t0", "t1", "t2"):
        project.session.tasks.add(name, id=name)
    project.session.tasks.start("t0")
    project.session.tasks.done("t0")
    project.session.tasks.start("t1")
    state = project.ai("state.yaml")
    project.edit(lambda value: value["current_state"].update(active_task=task), state)
    project.session.note("next")
    reported = [line for line in project.notices if f"not recorded: position: {task}" in line]
    assert bool(reported) is not is_recorded
    assert project.read(state)["current_state"]["active_task"] == (task if is_recorded else "t1")


@pytest.mark.req("S0-6", "X0-1")
def test_active_task_that_is_not_in_the_plan_stays_active(make: Make) -> None:
    project = make(AI_SESSION)
    project.session.files.unbind("ai-session")
    state = project.ai("state.yaml")
    project.edit(lambda value: value["current_state"].update(active_task="task-1"), state)
    home = project.opened("another")
    (one,) = home.files.adopt()
    home.session(one.session).note("nothing to do with it")
    assert project.read(state)["current_state"]["active_task"] == "task-1"
    project.edit(lambda value: value["current_state"].update(active_task="task-2"), state)
    home.session(one.session).note("nor has this")
    assert project.read(state)["current_state"]["active_task"] == "task-2"


@pytest.mark.req("S0-6")
def test_file_without_an_active_task_stays_without_one(make: Make) -> None:
    project = make(AI_SESSION)
    project.session.tasks.add("One", id="t1")
    project.session.tasks.start("t1")
    project.session.files.unbind("ai-session")
    state = project.ai("state.yaml")
    project.edit(lambda value: value["current_state"].update(active_task=None), state)
    home = project.opened("another")
    (one,) = home.files.adopt()
    session = home.session(one.session)
    session.note("nothing to do with it")
    assert project.read(state)["current_state"]["active_task"] is None
    session.tasks.add("Two", id="t2")
    session.tasks.start("t2")
    assert project.read(state)["current_state"]["active_task"] == "t2"
