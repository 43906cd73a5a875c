"""Files are written at most once in 100 ms, at close, and before some calls return."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forestay import compat
from forestay.api.session import Session
from forestay.base.clock import FakeClock
from forestay.cli.main import main
from forestay.formats.orchestrator.format import CURRENT
from forestay.formats.port import REGISTRY
from forestay.mirror.mirror import Mirror
from forestay.mirror.session_files import SessionFiles
from tests.homes import state_of
from tests.mirror.support import Project

PLACE = f"{REGISTRY['orchestrator'][1]}/{CURRENT}"


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Coalesce writes as in production; return a list of the sessions that were written."""
    found: list[str] = []
    write = Mirror.write

    def counted(self: Mirror, session: str, **how: Any) -> list[str]:
        found.append(session)
        return write(self, session, **how)

    monkeypatch.setattr(SessionFiles, "interval", 0.1)
    monkeypatch.setattr(Mirror, "write", counted)
    return found


@pytest.fixture
def project(tmp_path: Path, writes: list[str]) -> Project:
    """Return a project whose files were written long ago, by a clock that does not advance."""
    project = Project(tmp_path, "orchestrator")
    project.clock = FakeClock(1_800_000_100_000)
    project.again()
    project.clock.sleep(1)
    writes.clear()
    return project


def file_of(project: Project) -> str:
    """Return the text of the file; asking the session for its path would write it."""
    return (project.folder / PLACE).read_text()


def test_events_within_100_ms_of_a_write_are_written_together(
    project: Project, writes: list[str]
) -> None:
    project.session.tasks.add("First", id="t1")
    assert len(writes) == 1 and "First" in file_of(project)
    project.session.tasks.add("Second", id="t2")
    project.session.tasks.add("Third", id="t3")
    assert len(writes) == 1 and "Second" not in file_of(project)
    project.clock.sleep(0.1)
    project.session.tasks.add("Fourth", id="t4")
    assert len(writes) == 2
    assert all(title in file_of(project) for title in ("Second", "Third", "Fourth"))
    assert project.edits() == []


def test_close_writes_the_files(project: Project, writes: list[str]) -> None:
    project.session.tasks.add("First", id="t1")
    project.session.tasks.add("Second", id="t2")
    project.home.close()
    assert len(writes) == 2 and "Second" in file_of(project)
    project.again()
    assert project.edits() == []


def test_listing_the_files_writes_pending_changes_first(project: Project) -> None:
    project.session.tasks.add("First", id="t1")
    project.session.tasks.add("Second", id="t2")
    assert project.session.files.list()[0].suspended == ""
    assert "Second" in file_of(project)


def test_edit_of_a_file_that_lags_is_absorbed_and_undoes_nothing(project: Project) -> None:
    project.session.tasks.add("First", id="t1")
    project.session.tasks.add("Second", id="t2")
    project.edit(lambda value: value.update(goal="Add logout page"), project.folder / PLACE)
    project.clock.sleep(0.1)
    project.session.tasks.add("Third", id="t3")
    assert project.titles() == ["First", "Second", "Third"]
    assert state_of(project.session).core.goal == "Add logout page"
    assert all(text in file_of(project) for text in ("Second", "Third", "logout"))


def test_killed_process_leaves_files_that_the_next_one_writes(project: Project) -> None:
    project.session.tasks.add("First", id="t1")
    project.session.tasks.add("Second", id="t2")
    # Killed here: nothing is closed, and only the journal has the second task.
    project.home = project.opened()
    assert "Second" not in file_of(project)
    project.home.session(project.session.id).note("next")
    assert "Second" in file_of(project)


def pause(session: Session) -> object:
    return session.pause()


def complete(session: Session) -> object:
    return session.complete()


def abort(session: Session) -> object:
    return session.lifecycle.abort(because="wrong way")


def compact(session: Session) -> object:
    return session.record.compaction("what was said so far")


@pytest.mark.parametrize("act", [pause, complete, abort, compact])
def test_pause_end_and_compaction_write_the_files_before_they_return(
    act: Callable[[Session], object], project: Project, writes: list[str]
) -> None:
    project.session.note("first")
    project.session.note("second")
    assert len(writes) == 1
    act(project.session)
    assert len(writes) >= 2


def test_save_session_writes_the_files_and_a_stale_copy_undoes_nothing(
    project: Project, writes: list[str]
) -> None:
    project.session.tasks.add("First", id="t1")
    project.session.tasks.add("Second", id="t2")
    state = compat.load_session(project.folder)
    assert state is not None and "Second" not in str(state)
    compat.save_session(state, project.folder, home=project.home)
    assert len(writes) == 2
    assert project.titles() == ["First", "Second"]


def test_command_writes_its_files_once_at_its_end(
    tmp_path: Path, writes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(tmp_path, "orchestrator")
    project.session.tasks.add("First", id="t1")
    project.home.close()
    writes.clear()
    monkeypatch.chdir(project.folder)
    monkeypatch.setenv("FORESTAY_HOME", str(tmp_path / "home"))
    assert main(["task", "done", "t1"]) == 0
    assert len(writes) == 1 and '"complete' in file_of(project)
