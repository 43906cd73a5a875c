"""Files are planned in the transaction of the event that they show, where all is as we left it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import exchange, files
from holdfast.errors import HoldfastError
from holdfast.journal import Journal
from holdfast.mirror import Ahead, Mirror
from holdfast.mirror.look import Looker
from holdfast.mirror.render import Renderer
from holdfast.store.database import Database
from tests.mirror.conftest import Make
from tests.mirror.support import AI_SESSION, ID, Project, leftovers

NAMES = ("state.yaml", "implementation-plan.yaml", "history.jsonl")
UUID = "0b0a7a7e-94c1-4b13-a5ee-6ad2b0a7c001"


def ready(make: Make, *layouts: str) -> Project:
    """A project whose process has written its files, and so knows all about them."""
    project = make(*(layouts or (AI_SESSION, "orchestrator")))
    project.session.task_add("First", id="t1")
    return project


def transactions(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each write transaction from now on is synced."""
    made: list[bool] = []
    write = Database.write

    def counted(self: Database, *args: object, synced: bool = True, **more: object) -> object:
        made.append(synced)
        return write(self, *args, synced=synced, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Database, "write", counted)
    return made


def test_an_event_and_its_files_are_remembered_in_one_transaction(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = ready(make)
    made = transactions(monkeypatch)
    project.session.task_add("Second", id="t2")
    assert made == [True]
    assert "Second" in project.ai("implementation-plan.yaml").read_text()
    project.again().note("on")
    assert project.edits() == [] and project.notices == []


def test_who_dies_after_the_event_finds_its_files_behind_and_writes_them(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = ready(make, "orchestrator")
    with monkeypatch.context() as patch:
        patch.setattr(Mirror, "_finish", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            project.session.task_add("Second", id="t2")
    assert "Second" not in project.place.read_text()
    project.again().note("on")
    assert "Second" in project.place.read_text()
    assert project.edits() == [] and leftovers(project.folder) == []


@pytest.mark.parametrize("early", [False, True])
def test_an_event_that_fails_leaves_nothing_beside_the_files(
    make: Make, monkeypatch: pytest.MonkeyPatch, early: bool
) -> None:
    project = ready(make)
    before = project.ai("implementation-plan.yaml").read_bytes()
    plan = Mirror._plan_ahead

    def fail(self: Mirror, ahead: Ahead, *args: object) -> None:
        plan(self, ahead, *args)  # type: ignore[arg-type]
        assert ahead.staging is not None
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(exchange, "_QUICK", -1.0 if early else 10.0)
    with monkeypatch.context() as patch:
        patch.setattr(Mirror, "_plan_ahead", fail)
        with pytest.raises(HoldfastError):
            project.session.task_add("Lost", id="t9")
    assert project.ai("implementation-plan.yaml").read_bytes() == before
    assert leftovers(project.folder) == []
    project.session.task_add("Second", id="t2")
    project.session.task_add("Third", id="t3")
    assert project.titles() == ["First", "Second", "Third"]
    plan_now = project.ai("implementation-plan.yaml").read_text()
    assert "Second" in plan_now and "Third" in plan_now and "Lost" not in plan_now
    assert project.edits() == [] and project.notices == []


def test_a_plan_that_fails_keeps_no_event_from_being_recorded(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = ready(make, "orchestrator")
    with monkeypatch.context() as patch:
        patch.setattr(Renderer, "notes", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            project.session.task_add("Second", id="t2")
    assert project.titles() == ["First", "Second"]
    project.session.note("on")
    assert "Second" in project.place.read_text() and project.edits() == []


def test_nobody_waits_for_a_folder_before_an_event_is_recorded(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = ready(make, "orchestrator")
    recorded: list[list[str]] = []
    write = Mirror.write

    def look(self: Mirror, session: str, **how: Any) -> list[str]:
        recorded.append(project.titles())
        held.__exit__()
        return write(self, session, **how)

    monkeypatch.setattr(Mirror, "write", look)
    held = files.locked(str(project.place.parent))
    held.__enter__()
    project.session.task_add("Second", id="t2")
    assert recorded == [["First", "Second"]]
    assert "Second" in project.place.read_text() and project.notices == []


def test_a_place_that_another_process_took_meanwhile_is_written_too(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = ready(make, "orchestrator")
    ahead = Mirror.ahead

    def meanwhile(self: Mirror, session: str) -> object:
        held = ahead(self, session)
        monkeypatch.undo()
        monkeypatch.setattr("holdfast.mirror._SOON", 60.0)
        with monkeypatch.context() as patch, project.opened() as other:
            patch.setattr("holdfast.mirror._PATIENCE", 0.0)
            other.session(session).layouts_add(f"craft:{UUID}")
        return held

    monkeypatch.setattr(Mirror, "ahead", meanwhile)
    project.session.task_add("Second", id="t2")
    places = [binding.place for binding in project.session.layouts_list()]
    assert len(places) == 2
    for place in places:
        with open(place, encoding="utf-8") as file:
            assert "Second" in file.read()
    assert project.edits() == []


def test_threads_of_one_process_let_go_of_their_own_files_only(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = ready(make, "orchestrator")
    other = project.home.start("Another", layouts=[f"craft:{UUID}"])
    other.task_add("Theirs", id="t1")
    project.session.note("on")
    append = Journal.append

    def meanwhile(self: Journal, *args: Any, **how: Any) -> object:
        monkeypatch.undo()
        assert how["along"] is not None
        other.task_add("Meanwhile", id="t2")
        return append(self, *args, **how)

    monkeypatch.setattr(Journal, "append", meanwhile)
    project.session.task_add("Second", id="t2")
    assert "Second" in project.place.read_text() and leftovers(project.folder) == []
    for binding in (*project.session.layouts_list(), *other.layouts_list()):
        with files.locked(binding.root, timeout=0.0):
            pass
    project.session.note("on")
    assert project.edits() == [] and project.notices == []


def _git_begins(project: Project) -> None:
    (project.folder / ".git" / "MERGE_HEAD").write_text("0" * 40)


def _root_is_elsewhere(project: Project) -> None:
    _leads_away(project.folder / ".ai-session", project.base / "outside")


def _folder_is_elsewhere(project: Project) -> None:
    _leads_away(project.folder / ".ai-session" / ID, project.base / "outside")


def _leads_away(path: Path, to: Path) -> None:
    path.rename(to)
    path.symlink_to(to)


@pytest.mark.parametrize("begins", [_git_begins, _root_is_elsewhere, _folder_is_elsewhere])
def test_what_begins_while_an_event_is_recorded_leaves_the_files_alone(
    make: Make, monkeypatch: pytest.MonkeyPatch, begins: Callable[[Project], None]
) -> None:
    project = make(AI_SESSION, git=True)
    project.session.task_add("First", id="t1")
    before = {path: path.read_bytes() for path in map(project.ai, NAMES)}
    append = Journal.append

    def meanwhile(self: Journal, *args: Any, **how: Any) -> object:
        monkeypatch.undo()
        assert how["along"] is not None
        begins(project)
        return append(self, *args, **how)

    monkeypatch.setattr(Journal, "append", meanwhile)
    project.session.task_add("Second", id="t2")
    assert project.titles() == ["First", "Second"]
    assert {path: path.read_bytes() for path in before} == before
    assert project.suspended and leftovers(project.base) == []


def test_what_was_found_long_before_an_event_is_not_relied_on(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = ready(make, "orchestrator")
    made = transactions(monkeypatch)
    monkeypatch.setattr("holdfast.mirror._SOON", -1.0)
    project.session.task_add("Second", id="t2")
    assert made == [True, False]
    assert "Second" in project.place.read_text() and project.edits() == []


def test_who_is_interrupted_before_an_event_holds_no_files(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = ready(make, "orchestrator")
    with monkeypatch.context() as patch:
        patch.setattr(Looker, "looks_again", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            project.session.note("never")
    with files.locked(str(project.place.parent), timeout=0.0):
        pass


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_what_files_tell_of_other_devices_counts_the_event_itself(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = ready(make, f"craft:{UUID}")
    assert project.read()["teleportation"].get("sync_status") != "pending"
    project.home.store.remotes.add("box", f"folder:{project.base / 'box'}", "", 1)
    made = transactions(monkeypatch)
    for _ in range(2):
        project.session.note("on")
        assert project.read()["teleportation"]["sync_status"] == "pending"
    assert made == [True, False] * 2
    before = project.place.read_bytes()
    project.again()
    project.home.mirror.write(project.session.id, force=True)
    assert project.place.read_bytes() == before


def test_an_event_that_takes_a_closer_look_is_written_after_it(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = ready(make, "orchestrator")
    made = transactions(monkeypatch)
    project.session.attr("weather", "fine")
    assert made == [True, False]
    project.session.note("on")
    assert made == [True, False, True] and project.edits() == []
