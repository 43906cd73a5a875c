"""Old copies written back over what old copies brought; within one second no time tells which
version of a file somebody read."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from tests.mirror.conftest import Make
from tests.mirror.support import Project, Ticking, swap_in


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
def test_a_decision_of_another_copy_is_not_taken_for_a_rewording(make: Make) -> None:
    project = make("craft")
    stale = project.read()
    project.session.rename("Add logout page")
    for text in ("Paint it blue", "Paint two walls"):
        copy = deepcopy(stale)
        copy["decisions_made"].append(decided(text))
        write_back(project, copy)
    texts = {entry["context"] for entry in project.read()["decisions_made"]}
    assert texts == {"Paint it blue", "Paint two walls"}
    assert project.read()["goal"] == "Add logout page"


@pytest.mark.parametrize("layout", ["craft", "orchestrator"])
def test_who_pauses_in_an_old_copy_as_we_did_takes_nothing_back(make: Make, layout: str) -> None:
    project = make(layout)
    stale = project.read()
    project.session.pause()
    write_back(project, {**stale, "goal": "Add logout page"})
    write_back(project, {**stale, "status": "paused"})
    assert project.read()["goal"] == "Add logout page"
    assert project.session.status()["status"] == "paused"
