"""A praxis file that others write into as well, whatever they know of its form."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import found
from holdfast.layout import Where
from tests.mirror.conftest import Make
from tests.mirror.support import Project

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
    """A project whose session goes through six phases, some of them done."""
    project = make()
    project.session = project.home.start("Ship it", workflow="spec-execution", layouts=["praxis"])
    for number in range(done):
        project.session.phase_done(number, override=True, because="seen to")
    return project


def codes(project: Project) -> list[str]:
    (one,) = found.find(str(project.place))
    return [finding.code for finding in found.check(one, Where(), strict=True).findings]


def part_of(doc: Any, path: str) -> tuple[Any, str]:
    *way, key = path.split(".")
    for name in way:
        doc = doc[name]
    return doc, key


@pytest.mark.req("S1-25", "S1-28", "S1-40", "S1-53", "S1-60")
@pytest.mark.parametrize("path", REQUIRED)
@pytest.mark.parametrize("how", ["without", "null"])
def test_a_key_that_the_document_requires_comes_back_and_that_is_told_once(
    make: Make, path: str, how: str
) -> None:
    project = in_phases(make)
    before = project.read()

    def take_out(doc: Any) -> None:
        part, key = part_of(doc, path)
        part[key] = None
        if how == "without" or path == "lifecycle.last_error_at":
            del part[key]

    project.edit(take_out)
    project.session.note("one")
    project.again().note("two")
    now = project.read()
    assert {**now, "updated_at": ""} == {**before, "updated_at": ""} and list(now) == list(before)
    told = [body for body in project.edits() if f"{path} was taken out" in str(body)]
    assert len(told) == len(project.edits()) == 1 and codes(project) == []


def test_a_key_that_nobody_requires_stays_out(make: Make) -> None:
    project = in_phases(make)
    project.edit(lambda v: v["metadata"].clear())
    project.session.note("one")
    assert project.read()["metadata"] == {}


def test_what_stood_in_an_artifact_before_is_no_part_of_another_one(make: Make) -> None:
    project = in_phases(make)
    project.edit(lambda v: v["phase_artifacts"].update({"0": {"evidence": {"new": 1}}}))
    project.session.note("one")
    assert project.read()["phase_artifacts"]["0"]["evidence"] == {"new": 1}
    assert "outputs" not in project.read()["phase_artifacts"]["0"]


# -- a program that knows the first generation only ------------------------------------------------


def as_first_generation(doc: Any) -> None:
    """Pass the current phase, and write what the first form of these files has."""
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
def test_phases_that_a_program_of_the_first_generation_passes_in_our_file_count(
    make: Make,
) -> None:
    project = in_phases(make, done=3)
    for number in (3, 4, 5):
        project.edit(as_first_generation)
        assert project.session.status()["phase"]["current"] == min(number + 1, 5)
        project.session.note("seen")
    assert project.suspended == "" and project.session.state().core.status == "completed"
    now = project.read()
    assert now["lifecycle"]["completed"] is True and now["current_phase"] == 5
    assert now["workflow_structure"]["total_phases"] == 6 and "5" in now["phase_artifacts"]


# -- after the end ---------------------------------------------------------------------------------


@pytest.mark.req("S1-16")
def test_a_session_that_was_reopened_after_its_last_phase_is_not_found_to_be_complete(
    make: Make,
) -> None:
    project = in_phases(make, done=6)
    project.session.reopen(because="one more look")
    (one,) = found.find(str(project.place))
    report = found.check(one, Where(), strict=True)
    assert report.findings == []
    assert (report.reading.status, report.reading.complete) == ("active", False)
    project.edit(lambda v: v.pop("holdfast"))
    assert codes(project) == ["complete-not-flagged"]
