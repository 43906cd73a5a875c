"""Several old copies written back; within one second the time does not show which version of a file
a program read."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from forestay.mirror import read_files
from tests.mirror.conftest import Make
from tests.mirror.driver import SECRET
from tests.mirror.support import AI_SESSION, Project, Ticking, swap_in


@pytest.fixture
def one_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ticking, "now", lambda clock: 1_800_000_000_000)


def write_back(project: Project, stale: Any, note: str = "next") -> None:
    swap_in(project.place, json.dumps(stale).encode())
    project.session.note(note)


def decided(text: str) -> dict[str, Any]:
    at = "2027-01-15T08:00:00Z"
    options = {"options": ["a", "b"], "chosen": "a", "reasoning": ""}
    return {"timestamp": at, "context": text, **options}


@pytest.mark.usefixtures("one_second")
def test_decision_in_another_copy_is_not_a_rewording(make: Make) -> None:
    project = make("craft")
    stale = project.read()
    project.session.record.rename("Add logout page")
    for text in ("Paint it blue", "Paint two walls"):
        copy = deepcopy(stale)
        copy["decisions_made"].append(decided(text))
        write_back(project, copy)
    texts = {entry["context"] for entry in project.read()["decisions_made"]}
    assert texts == {"Paint it blue", "Paint two walls"}
    assert project.read()["goal"] == "Add logout page"


@pytest.mark.parametrize("is_newer", [False, True])
@pytest.mark.parametrize("format_id", ["craft", "orchestrator"])
def test_same_pause_in_an_old_copy_undoes_nothing(
    make: Make, format_id: str, is_newer: bool
) -> None:
    project = make(format_id)
    stale = project.read()
    project.session.pause()
    copy = project.read() if is_newer else stale
    write_back(project, {**copy, "goal": "Add logout page"})
    write_back(project, {**stale, "status": "paused"})
    assert project.read()["goal"] == "Add logout page"
    assert project.session.status().status == "paused"


def test_removed_key_with_a_secret_stays_removed_after_many_reads(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries may leave the cache of parsed files before they are needed again."""
    project = make(AI_SESSION)
    state = project.ai("state.yaml")
    project.edit(lambda value: value.update(x_hers={"token": SECRET}), state)
    project.session.note("one")
    monkeypatch.setattr(read_files, "_DOCUMENTS", 18)
    for number in range(8):
        project.session.note(f"more {number}")
    project.edit(lambda value: value.pop("x_hers"), state)
    project.edit(lambda value: value.update(x_his=1), project.index)
    project.session.note("two")
    assert "x_hers" not in project.read(state) and "x_his" in project.read(project.index)
