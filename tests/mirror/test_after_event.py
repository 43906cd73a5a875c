"""Files are written after the event, and the next command writes them after a crash."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forestay.base import files
from forestay.journal.journal import Journal
from forestay.mirror.mirror import Mirror
from forestay.mirror.read_files import FileReader
from forestay.mirror.render import Renderer
from forestay.mirror.session_files import mirror_of
from tests.mirror.conftest import Make
from tests.mirror.support import AI_SESSION, ID, Project, leftovers

NAMES = ("state.yaml", "implementation-plan.yaml", "history.jsonl")
UUID = "0b0a7a7e-94c1-4b13-a5ee-6ad2b0a7c001"


def ready(make: Make, *formats: str) -> Project:
    """Return a project whose process has written its files once."""
    project = make(*(formats or (AI_SESSION, "orchestrator")))
    project.session.tasks.add("First", id="t1")
    return project


def test_process_that_dies_after_the_event_leaves_files_that_the_next_command_writes(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = ready(make, "orchestrator")
    with monkeypatch.context() as patch:
        patch.setattr(Mirror, "write", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            project.session.tasks.add("Second", id="t2")
    assert "Second" not in project.place.read_text()
    project.again().note("on")
    assert "Second" in project.place.read_text()
    assert project.edits() == [] and leftovers(project.folder) == []


def test_failure_before_staging_leaves_files_that_the_next_command_writes(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = ready(make, "orchestrator")
    with monkeypatch.context() as patch:
        patch.setattr(Renderer, "stage", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            project.session.tasks.add("Second", id="t2")
    assert project.titles() == ["First", "Second"]
    assert "Second" not in project.place.read_text()
    project.session.note("on")
    assert "Second" in project.place.read_text() and project.edits() == []


def test_event_is_recorded_while_another_process_locks_the_folder(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = ready(make, "orchestrator")
    recorded: list[list[str]] = []
    write = Mirror.write

    def release_and_write(self: Mirror, session: str, **how: Any) -> list[str]:
        recorded.append(project.titles())
        held.__exit__()
        return write(self, session, **how)

    monkeypatch.setattr(Mirror, "write", release_and_write)
    held = files.locked(str(project.place.parent))
    held.__enter__()
    project.session.tasks.add("Second", id="t2")
    assert recorded == [["First", "Second"]]
    assert "Second" in project.place.read_text() and project.notices == []


def test_format_that_another_process_binds_during_an_event_is_written_too(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = ready(make, "orchestrator")
    append = Journal.append

    def bind_first(self: Journal, session: str, *args: Any, **how: Any) -> object:
        monkeypatch.undo()
        with project.opened() as other:
            other.session(session).files.bind(f"craft:{UUID}")
        return append(self, session, *args, **how)

    monkeypatch.setattr(Journal, "append", bind_first)
    project.session.tasks.add("Second", id="t2")
    places = [binding.place for binding in project.session.files.list()]
    assert len(places) == 2
    for place in places:
        with open(place, encoding="utf-8") as file:
            assert "Second" in file.read()
    assert project.edits() == []


def _begin_merge(project: Project) -> None:
    (project.folder / ".git" / "MERGE_HEAD").write_text("0" * 40)


def _replace_root_by_link(project: Project) -> None:
    _replace_by_link(project.folder / ".ai-session", project.base / "outside")


def _replace_folder_by_link(project: Project) -> None:
    _replace_by_link(project.folder / ".ai-session" / ID, project.base / "outside")


def _replace_by_link(path: Path, to: Path) -> None:
    path.rename(to)
    path.symlink_to(to)


@pytest.mark.parametrize("begins", [_begin_merge, _replace_root_by_link, _replace_folder_by_link])
def test_git_or_a_link_that_appears_during_an_event_suspends_the_files(
    make: Make, monkeypatch: pytest.MonkeyPatch, begins: Callable[[Project], None]
) -> None:
    project = make(AI_SESSION, git=True)
    project.session.tasks.add("First", id="t1")
    before = {path: path.read_bytes() for path in map(project.ai, NAMES)}
    append = Journal.append

    def begin_first(self: Journal, *args: Any, **how: Any) -> object:
        monkeypatch.undo()
        begins(project)
        return append(self, *args, **how)

    monkeypatch.setattr(Journal, "append", begin_first)
    project.session.tasks.add("Second", id="t2")
    assert project.titles() == ["First", "Second"]
    assert {path: path.read_bytes() for path in before} == before
    assert project.suspended and leftovers(project.base) == []


def test_interrupted_process_releases_its_file_locks(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = ready(make, "orchestrator")
    with monkeypatch.context() as patch:
        patch.setattr(FileReader, "read_all", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            project.session.note("never")
    with files.locked(str(project.place.parent), timeout=0.0):
        pass


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_sync_status_in_files_counts_the_event_itself(make: Make) -> None:
    project = ready(make, f"craft:{UUID}")
    assert project.read()["teleportation"].get("sync_status") != "pending"
    project.home.context.store.machine.remotes.add("box", f"folder:{project.base / 'box'}", "", 1)
    for _ in range(2):
        project.session.note("on")
        assert project.read()["teleportation"]["sync_status"] == "pending"
    before = project.place.read_bytes()
    project.again()
    mirror_of(project.home.context).write(project.session.id, force=True)
    assert project.place.read_bytes() == before
