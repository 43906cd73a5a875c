"""Files and folders without permission are reported, and updated once permission is given."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from forestay.errors import ForestayError
from forestay.health import format_checks
from tests.conftest import NOBODY
from tests.mirror.support import AI_SESSION, Project, as_nobody, everything, leftovers


@pytest.mark.req("S0-73")
def test_folder_that_cannot_be_created_is_named_in_the_error(open_folder: Path) -> None:
    with as_nobody(open_folder):
        project = Project(open_folder)
        os.chmod(project.folder, 0o555)
        with pytest.raises(ForestayError, match="permission denied") as caught:
            project.session.files.bind(AI_SESSION)
        assert str(project.folder) in caught.value.file and "ls -ld" in caught.value.hint
        assert project.session.files.list() == [] and os.listdir(project.folder) == []
        os.chmod(project.folder, 0o755)
        project.session.files.bind(AI_SESSION)
        assert project.ai("state.yaml").exists()
        project.home.close()


def test_read_only_folder_is_reported_and_updated_later(open_folder: Path) -> None:
    with as_nobody(open_folder):
        project = Project(open_folder, "orchestrator", "craft")
        os.chmod(project.folder / ".claude", 0o555)
        before = (project.folder / ".claude/orchestrator-session.json").read_bytes()
        project.session.tasks.add("Meanwhile")
        assert (project.folder / ".claude/orchestrator-session.json").read_bytes() == before
        assert any("orchestrator files are not up to date" in line for line in project.notices)
        (craft,) = (project.folder / ".craft").rglob("*.json")
        assert "Meanwhile" in craft.read_text(), "a format that fails does not block the others"
        os.chmod(project.folder / ".claude", 0o755)
        project.session.note("go on")
        assert "Meanwhile" in (project.folder / ".claude/orchestrator-session.json").read_text()
        project.home.close()


# -- what is reported --------------------------------------------------------------------------

FORMATS = (AI_SESSION, "praxis", "craft", "orchestrator", "essay")


def _bound_project(base: Path, format_id: str) -> tuple[Project, Path]:
    """Return a project with files in one format, and the main file."""
    project = Project(base)
    root = str(project.folder / "essay") if format_id == "essay" else ""
    project.session.files.bind(format_id, root=root)
    project.session.note("so that there is a backup")
    return project, project.place


def _are_files_updated(project: Project) -> bool:
    """Return whether the next event updates the files."""
    project.session.decide("Use cookies", because="simple")
    project.session.pause()
    return not project.suspended and "paused" in _texts(project.place)


def _texts(place: Path) -> str:
    index = place.parent.parent / "active-features.yaml"
    return "".join(path.read_text() for path in (place, index) if path.is_file())


def _doctor_reasons(project: Project) -> list[str]:
    """Return why doctor reports files as suspended."""
    return [
        a.why for a in format_checks.examine(project.home.context) if a.code == "files-suspended"
    ]


SHUT, CLOSED = "may not be entered", "may not be read, and cannot be locked"
MODES = {0o000: SHUT, 0o444: SHUT, 0o311: CLOSED, 0o555: "may not be written to"}


@pytest.mark.parametrize("mode", MODES, ids=oct)
@pytest.mark.parametrize("format_id", FORMATS)
def test_inaccessible_folder_is_reported_until_it_is_accessible(
    open_folder: Path, format_id: str, mode: int
) -> None:
    with as_nobody(open_folder):
        project, place = _bound_project(open_folder, format_id)
        root = project.folder / ".ai-session" if format_id == AI_SESSION else place.parent
        before = everything(root)
        root.chmod(mode)
        project.session.complete()
        assert project.suspended == f"{root} {MODES[mode]}" == _doctor_reasons(project)[0]
        assert project.notices[-1].partition(" files are ")[2].startswith(("not up", "not written"))
        assert format_checks.fix(project.home.context) == []
        root.chmod(0o755)
        assert mode == 0o555 or everything(root) == before
        project.session.lifecycle.reopen(because="it goes on")
        assert _are_files_updated(project) and leftovers(project.folder) == []
        project.home.close()


@pytest.mark.parametrize("format_id", FORMATS)
def test_file_without_read_permission_is_not_reported_as_damaged(
    open_folder: Path, format_id: str
) -> None:
    with as_nobody(open_folder):
        project, place = _bound_project(open_folder, format_id)
        before = place.read_bytes()
        place.chmod(0)
        project.session.complete()
        assert project.suspended == f"{place} cannot be used: cannot read it (permission denied)"
        assert _doctor_reasons(project) == [project.suspended]
        assert format_checks.fix(project.home.context) == []
        place.chmod(0o644)
        assert place.read_bytes() == before, "its bytes may be an edit"
        project.session.lifecycle.reopen(because="it goes on")
        assert _are_files_updated(project)
        assert not [path for path in project.folder.rglob("*") if "corrupt" in path.name]
        project.home.close()


@pytest.mark.parametrize("format_id", FORMATS)
def test_file_of_another_user_in_a_sticky_folder_is_reported(
    open_folder: Path, format_id: str
) -> None:
    if os.geteuid():
        pytest.skip("only root can change the owner of files")
    with as_nobody(open_folder):
        project, place = _bound_project(open_folder, format_id)
        before = place.read_bytes()
    _give(place.parent, 0, 0o1777)
    with as_nobody(open_folder, own=False):
        project.session.complete()
        assert place.read_bytes() == before and _doctor_reasons(project) == [project.suspended]
        assert str(place.parent) in project.suspended, project.suspended
    _give(place.parent, NOBODY, 0o755)
    with as_nobody(open_folder):
        project.session.lifecycle.reopen(because="it goes on")
        assert _are_files_updated(project) and leftovers(project.folder) == []
        project.home.close()


def _give(folder: Path, user: int, mode: int) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user, -1)
    folder.chmod(mode)


def test_inaccessible_folder_does_not_block_other_formats(
    open_folder: Path,
) -> None:
    with as_nobody(open_folder):
        project = Project(open_folder, "craft")
        craft, elsewhere = project.place, open_folder / "essay"
        project.session.files.bind("essay", root=str(elsewhere))
        elsewhere.chmod(0)
        project.again().tasks.add("Meanwhile")
        elsewhere.chmod(0o755)
        assert "Meanwhile" in craft.read_text()
        why = f"cannot read {elsewhere} (permission denied)"
        assert set(project.notices) == {f"essay files are not up to date: {why}"}
        project.home.close()


# -- the lock and the log ----------------------------------------------------------------------


@pytest.mark.req("S0-65")
def test_read_only_lock_file_can_be_locked_and_an_unreadable_one_is_reported(
    open_folder: Path,
) -> None:
    with as_nobody(open_folder):
        project, place = _bound_project(open_folder, AI_SESSION)
        project.ai(".state.lock").touch(0o444)
        assert _are_files_updated(project) and project.notices == []
        project.ai(".state.lock").chmod(0)
        project.session.resume()
        reported = f"{project.ai('.state.lock')} may not be read, and cannot be locked"
        assert project.suspended == reported and "paused" in _texts(place)
        project.ai(".state.lock").chmod(0o644)
        project.session.note("it goes on")
        assert "paused" not in _texts(place) and not project.suspended
        project.home.close()


def test_log_without_write_permission_is_reported_and_completed_later(open_folder: Path) -> None:
    with as_nobody(open_folder):
        project, _ = _bound_project(open_folder, AI_SESSION)
        log = project.ai("history.jsonl")
        log.chmod(0o444)
        for _ in range(3):
            project.session.record.command("pytest")
            assert project.suspended == f"{log} may not be written to"
        log.chmod(0o644)
        assert _are_files_updated(project) and log.read_text().count("pytest") == 3
        assert project.edits() == [] and leftovers(project.folder) == []
        project.home.close()


def test_backup_that_is_not_a_file_is_reported_while_the_essay_is_outdated(
    open_folder: Path,
) -> None:
    project, place = _bound_project(open_folder, "essay")
    backup = place.with_name(f"{place.name}.bak")
    backup.unlink()
    backup.mkdir()
    project.session.complete()
    assert project.suspended == f"{backup} is not a file"
    backup.rmdir()
    project.session.lifecycle.reopen(because="it goes on")
    assert _are_files_updated(project) and backup.is_file()
    project.home.close()
