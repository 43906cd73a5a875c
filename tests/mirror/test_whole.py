"""Required keys that a program removes from a file are restored and reported."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forestay.formats.port import ERROR, Where
from forestay.formats.rendering_id import without_id
from forestay.mirror import check_files, discover
from tests.homes import state_of
from tests.mirror.conftest import Make
from tests.mirror.support import AI_SESSION, ID, Project

INDEX, STATE, PLAN = "active-features.yaml", "state.yaml", "implementation-plan.yaml"
CRAFT = """schema_version session_id created_at updated_at device project goal mode status progress
    agents completed_work pending_tasks files_modified context_usage teleportation"""
ORCHESTRATOR = """schema_version session_id created updated project goal mode status agents
    completed_work pending_tasks decisions_made context_usage errors"""
OF_FILES = [
    *(("craft", "", (key,)) for key in CRAFT.split()),
    ("craft", "", ("agents", 0, "status")),
    ("craft", "", ("teleportation", "devices")),
    *(("orchestrator", "", (key,)) for key in ORCHESTRATOR.split()),
    *((AI_SESSION, STATE, (key,)) for key in ("version", "feature_id", "current_state")),
    *((AI_SESSION, STATE, ("current_state", key)) for key in ("model_in_use", "last_updated")),
    *((AI_SESSION, PLAN, (key,)) for key in ("feature", "phases")),
    *((AI_SESSION, PLAN, ("feature", key)) for key in ("id", "name", "created_at")),
    *((AI_SESSION, PLAN, ("phases", 0, "tasks", 1, key)) for key in ("task_id", "status")),
    *((AI_SESSION, INDEX, ("active_features", 0, key)) for key in ("started_at", "status")),
]
# A null version is an unknown one, and null phases are no phases.
MAY_BE_NULL = (("version",), ("phases",))
CASES = [
    *((*each, False) for each in OF_FILES),
    *((*each, True) for each in OF_FILES if each[2] not in MAY_BE_NULL),
]
TIMES = ("updated", "updated_at", "last_updated", "last_active")


def worked_on(make: Make, format_id: str) -> Project:
    project = make(format_id)
    project.session.tasks.add("One", id="t1")
    project.session.tasks.add("Two", id="t2")
    project.session.agents.start("bob")
    project.session.pause()
    return project


def path_of(project: Project, file: str) -> Path:
    return {"": project.place, INDEX: project.index}.get(file, project.ai(file))


def without(way: tuple[str | int, ...], *, null: bool = False) -> Callable[[Any], None]:
    def change(value: Any) -> None:
        for key in way[:-1]:
            value = value[key]
        if null:
            value[way[-1]] = None
        else:
            del value[way[-1]]

    return change


def timeless(value: Any) -> Any:
    if isinstance(value, dict):
        kept = without_id(value).items()
        return {key: "" if key in TIMES else timeless(each) for key, each in kept}
    return [timeless(each) for each in value] if isinstance(value, list) else value


@pytest.mark.req("S0-77", "S2-8", "S2-10", "S2-14", "S2-18", "S4-8")
@pytest.mark.parametrize("format_id, file, way, null", CASES)
def test_required_key_is_restored_in_its_position_and_reported_once(
    make: Make, format_id: str, file: str, way: tuple[str | int, ...], null: bool
) -> None:
    project = worked_on(make, format_id)
    path = path_of(project, file)
    before = project.read(path)
    project.edit(without(way, null=null), path)
    project.session.note("one")
    project.again().note("two")
    assert timeless(project.read(path)) == timeless(before)
    assert [body for body in project.edits() if "was removed" in str(body)] == project.edits()
    assert len(project.edits()) == 1 and state_of(project.session).core.status == "paused"
    (one,) = discover.find(str(project.place.parent if file else project.place))
    findings = check_files.check(one, Where()).findings
    assert [finding for finding in findings if finding.severity == ERROR] == []


@pytest.mark.parametrize("key", ["$schema", "decisions_made", "mine"])
def test_removed_key_is_restored_unless_it_is_unknown(make: Make, key: str) -> None:
    project = worked_on(make, "craft")
    project.edit(lambda value: value.update(mine=1))
    project.session.note("one")
    project.edit(lambda value: value.pop(key, None))
    project.session.note("two")
    assert (key in project.read()) == (key != "mine")


def test_only_our_own_removed_entry_of_the_index_is_restored(
    make: Make,
) -> None:
    project = worked_on(make, AI_SESSION)
    other = {"feature_id": "other-2026-01-01", "status": "active"}
    project.edit(lambda value: value["active_features"].append(dict(other)), project.index)
    project.session.note("one")
    project.edit(lambda value: value["active_features"][1].pop("status"), project.index)
    project.edit(lambda value: value["active_features"].pop(0), project.index)
    project.session.note("two")
    first, second = project.read(project.index)["active_features"]
    assert first == {"feature_id": "other-2026-01-01"}
    assert (second["feature_id"], second["status"]) == (ID, "paused")
    assert state_of(project.session).core.status == "paused"
    assert f"{ID} in {INDEX} was removed" in str(project.edits())


@pytest.mark.parametrize("status", ["completed", "paused"])
def test_own_entry_is_restored_to_an_index_that_lists_only_another_session(
    make: Make, status: str
) -> None:
    project = make(AI_SESSION)
    entry = {"feature_id": "other-2026-01-01", "started_at": "2026-01-01T00:00:00Z"}
    alone = [{**entry, "status": status}]
    project.edit(lambda value: value["active_features"].extend(alone), project.index)
    project.session.note("zero")
    shutil.rmtree(project.ai(""))
    project.edit(lambda value: value.update(active_features=alone), project.index)
    edits = project.edits()
    assert project.again().status().status == "active"
    project.again().note("one")
    reported = project.session.status()
    assert (reported.status, reported.attention) == ("active", [])
    assert project.edits() == edits and not project.notices
    other, own = project.read(project.index)["active_features"]
    assert (other["status"], own["feature_id"], own["status"]) == (status, ID, "active")


@pytest.mark.parametrize("left", [0, 1])
def test_removed_entries_of_modified_files_are_restored_and_reported(make: Make, left: int) -> None:
    project = make("craft")
    for name in ("a.py", "b.py"):
        (project.folder / name).write_text("x")
        project.session.record.file(str(project.folder / name))
    project.session.note("one")
    project.edit(lambda value: value["files_modified"].__delitem__(slice(left, None)))
    project.session.note("two")
    assert sorted(each["path"] for each in project.read()["files_modified"]) == ["a.py", "b.py"]
    (reported,) = project.edits()
    assert ("files: a.py was removed" in str(reported)) == (left == 0)
    assert "files: b.py was removed" in str(reported) and "'path'" not in str(reported)


@pytest.mark.parametrize("format_id", ["craft", "orchestrator"])
def test_removed_decision_is_restored_and_reported(make: Make, format_id: str) -> None:
    project = make(format_id)
    project.session.note("one")
    project.session.decide("Use x")
    project.session.note("two")
    project.edit(lambda value: value["decisions_made"].clear())
    project.session.note("three")
    assert "decisions: Use x was removed" in str(project.edits())
    assert "Use x" in str(project.read()["decisions_made"])
