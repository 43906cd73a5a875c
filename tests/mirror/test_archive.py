"""The orchestrator's one current session, and the archive where ended ones go."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forestay import compat
from forestay.api.session import Session
from forestay.base import files
from forestay.errors import ForestayError, NoSession, Refused
from forestay.health import format_checks
from forestay.mirror.session_files import mirror_of, write_files
from tests.mirror.conftest import Make
from tests.mirror.support import AI_SESSION, ID, Project, everything

CURRENT = ".claude/orchestrator-session.json"
HISTORY = ".claude/orchestrator-history"


def current(project: Project) -> Path:
    return project.folder / CURRENT


def archived(project: Project) -> list[Path]:
    return sorted((project.folder / HISTORY).glob("*"))


@pytest.mark.req("S4-42", "S4-43")
def test_save_creates_the_folder_and_writes_indented_json(make: Make) -> None:
    project = make("orchestrator")
    text = current(project).read_text()
    assert text == json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n"
    assert project.place == current(project)


@pytest.mark.req("S4-37", "S4-41", "S4-72", "S4-73", "S4-74", "S4-75")
def test_every_step_of_an_agent_is_saved_at_once(make: Make) -> None:
    project = make("orchestrator")
    seen: list[str] = []

    def read_current() -> dict[str, Any]:
        value: dict[str, Any] = json.loads(current(project).read_text())
        seen.append(value["updated"])
        return value

    project.session.agents.start("a1", type="code", task="Work")
    assert [agent["status"] for agent in read_current()["agents"]] == ["in_progress"]
    project.session.agents.done("a1", result="fine")
    assert read_current()["agents"][0]["result_summary"] == "fine"
    project.session.agents.start("a2", type="test", task="Try")
    project.session.agents.fail("a2", "it broke")
    after = read_current()
    assert after["agents"][1]["status"] == "failure"
    assert after["errors"][0]["message"] == "it broke"
    project.session.decide("Use JWT", because="simple")
    assert read_current()["decisions_made"][0]["decision"] == "Use JWT"
    assert seen == sorted(set(seen)) and len(seen) == 4


@pytest.mark.req("S4-38", "S4-76")
def test_forced_write_restores_a_missing_file(make: Make) -> None:
    project = make("orchestrator")
    current(project).unlink()
    write_files(project.home.context, project.session.id, force=True)
    assert current(project).exists()


@pytest.mark.req(
    *("S4-40", "S4-48", "S4-50", "S4-51", "S4-52", "S4-53", "S4-68", "S4-71", "S4-78", "S4-89")
)
@pytest.mark.req("S4-5", "S4-6")
@pytest.mark.parametrize(
    "end, word",
    [(Session.complete, "complete"), (lambda session: session.lifecycle.abort(), "aborted")],
)
def test_ended_session_is_archived(make: Make, end: Callable[[Session], object], word: str) -> None:
    project = make("orchestrator")
    native = project.read()["session_id"]
    end(project.session)
    assert not current(project).exists()
    (kept,) = archived(project)
    assert kept.name == f"{native}.json" and project.place == kept
    text = kept.read_text()
    assert json.loads(text)["status"] == word and re.search(r'^  "goal"', text, re.M)


@pytest.mark.req("S4-70", "S4-90")
def test_open_session_is_not_archived(make: Make) -> None:
    project = make("orchestrator")
    project.session.pause()
    assert project.read()["status"] == "paused"
    project.home.close()
    assert current(project).exists() and archived(project) == []
    project.again().resume()
    assert project.read()["status"] == "in_progress"


@pytest.mark.req("S4-49")
def test_new_session_archives_the_current_one(make: Make) -> None:
    project = make("orchestrator")
    first = project.read()["session_id"]
    project.edit(lambda v: v["pending_tasks"].append("Theirs"))
    second = project.home.start("another", formats=["orchestrator"])
    assert json.loads(current(project).read_text())["goal"] == "another"
    assert [path.name for path in archived(project)] == [f"{first}.json"]
    assert "Theirs" in project.titles(), "the last edit is absorbed before archiving"
    project.session.tasks.add("still mine")
    assert "still mine" in project.place.read_text() and project.place in archived(project)
    assert second.files.list()[0].place == str(current(project))


def test_reopened_session_returns_from_the_archive(make: Make) -> None:
    project = make("orchestrator")
    project.session.complete()
    project.session.lifecycle.reopen("more to do")
    assert project.place == current(project) and current(project).exists()
    assert archived(project) == [] and project.read()["status"] == "in_progress"


def test_reopened_session_does_not_displace_another(make: Make) -> None:
    project = make("orchestrator")
    project.session.complete()
    project.home.start("another", formats=["orchestrator"])
    project.session.lifecycle.reopen("more to do")
    assert json.loads(current(project).read_text())["goal"] == "another"
    assert project.read()["status"] == "in_progress" and project.place in archived(project)


def test_archive_of_another_program_is_not_overwritten(make: Make) -> None:
    project = make("orchestrator")
    target = project.folder / HISTORY / f"{project.read()['session_id']}.json"
    target.parent.mkdir()
    target.write_text("theirs")
    project.session.complete()
    assert target.read_text() == "theirs" and current(project).exists()
    assert "already exists in the archive" in project.suspended
    target.unlink()
    project.session.note("go on")
    assert archived(project) == [target] and not current(project).exists()


def test_damaged_current_file_blocks_a_new_session(make: Make) -> None:
    project = make("orchestrator")
    current(project).write_text("{ half")
    with pytest.raises(ForestayError, match="another session is here"):
        project.home.start("another", formats=["orchestrator"])
    assert current(project).read_text() == "{ half"
    assert [row.goal for row in project.home.list()] == ["Add login page"], "no session was started"


@pytest.mark.parametrize("way", ["into", "out of"])
def test_next_command_finishes_an_interrupted_archiving(
    make: Make, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    project = make("orchestrator")
    if way == "out of":
        project.session.complete()
    real = files.move

    def dies(path: str, target: str) -> None:
        real(path, target)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(files, "move", dies)
        with pytest.raises(KeyboardInterrupt):
            project.session.complete() if way == "into" else project.session.lifecycle.reopen(
                "more"
            )
    project.again().note("go on")
    there, gone = (archived(project), current(project))
    if way == "into":
        assert len(there) == 1 and not gone.exists()
    else:
        assert there == [] and gone.exists()
    assert project.suspended == "" and project.edits() == []


# -- another program starts a session ----------------------------------------------------------

THEIRS = "2026-01-31-theirs"


def begin_theirs(project: Project) -> bytes:
    """Write a session of another program over the current one; return its file."""

    def change(value: dict[str, Any]) -> None:
        value |= {"session_id": THEIRS, "goal": "Theirs", "status": "in_progress"}

    return project.edit(change, current(project))


def archive_ours(project: Project) -> Path:
    """Archive the current session as completed, as another program does; return the file."""
    value = project.read(current(project)) | {"status": "complete"}
    kept = project.folder / HISTORY / f"{value['session_id']}.json"
    kept.parent.mkdir(exist_ok=True)
    kept.write_text(json.dumps(value, indent=2))
    return kept


@pytest.mark.req("S4-49", "S4-51")
def test_session_archived_by_another_program_is_found_in_the_archive(make: Make) -> None:
    project = make("orchestrator")
    kept = archive_ours(project)
    theirs = begin_theirs(project)
    project.session.note("seen")
    assert project.place == kept and project.suspended == ""
    assert project.session.status().status == "completed", "the edit in the archive is absorbed"
    assert current(project).read_bytes() == theirs


@pytest.mark.parametrize("begins_another", [False, True])
def test_edit_of_a_file_archived_by_another_program_is_shown(
    make: Make, begins_another: bool
) -> None:
    project = make("orchestrator")
    kept = archive_ours(project)
    if begins_another:
        begin_theirs(project)
    else:
        current(project).unlink()
    assert project.session.status().status == "completed"
    assert project.place == kept and project.suspended == ""
    (binding,) = mirror_of(project.home.context).bindings()
    assert binding.place == str(current(project)), "reading records nothing"
    format_checks.fix(project.home.context)
    assert (
        format_checks.examine(project.home.context) == []
        and current(project).exists() is begins_another
    )
    assert project.session.status().status == "completed"


def test_doctor_suggests_adopt_where_another_program_overwrote_our_file(make: Make) -> None:
    project = make("orchestrator")
    begin_theirs(project)
    project.session.note("seen")
    (reported,) = format_checks.examine(project.home.context)
    assert reported.fix == f"import it: forestay adopt {current(project)}"
    project.home.files.adopt(str(current(project)))
    assert format_checks.examine(project.home.context) == [] and len(archived(project)) == 1


def test_archiving_a_session_for_another_is_reported(make: Make) -> None:
    project = make("orchestrator")
    project.home.start("another", formats=["orchestrator"])
    (kept,) = archived(project)
    assert project.notices == [f"the previous session is archived: {kept}"]
    begin_theirs(project)
    project.notices.clear()
    project.home.files.adopt()
    assert [line for line in project.notices if "is archived" in line]


def test_start_is_refused_while_the_current_file_is_of_another_program(make: Make) -> None:
    project = make("orchestrator")
    theirs = begin_theirs(project)
    with pytest.raises(Refused, match="already exists"):
        project.home.start("another", formats=["orchestrator"])
    assert [row.goal for row in project.home.list()] == ["Add login page"]
    assert current(project).read_bytes() == theirs and archived(project) == []


def test_session_with_a_deleted_folder_blocks_no_new_session(make: Make) -> None:
    project = make("orchestrator")
    project.session.tasks.add("still known")
    shutil.rmtree(current(project).parent)
    project.home.start("another", formats=["orchestrator"])
    assert json.loads(current(project).read_text())["goal"] == "another"
    assert [path == project.place for path in archived(project)] == [True]
    assert project.read()["pending_tasks"] == ["still known"]


def test_session_that_cannot_be_archived_blocks_a_new_one(make: Make) -> None:
    project = make("orchestrator")
    target = project.folder / HISTORY / f"{project.read()['session_id']}.json"
    target.parent.mkdir()
    target.write_text("theirs")
    with pytest.raises(ForestayError, match="already exists in the archive"):
        project.home.start("another", formats=["orchestrator"])
    assert [row.goal for row in project.home.list()] == ["Add login page"]
    assert target.read_text() == "theirs" and project.place == current(project)


@pytest.mark.req("S4-5", "S4-49")
def test_adopting_a_session_in_our_place_archives_ours(make: Make) -> None:
    project = make("orchestrator")
    ours = project.read()["session_id"]
    theirs = begin_theirs(project)
    (dry,) = project.home.files.adopt(str(current(project)), dry_run=True)
    assert (dry.outcome, dry.native, archived(project)) == ("adopted", THEIRS, [])
    (adopted,) = project.home.files.adopt(str(current(project)))
    assert (adopted.outcome, adopted.session, adopted.bound) == ("adopted", THEIRS, True)
    assert current(project).read_bytes() == theirs
    assert [path.name for path in archived(project)] == [f"{ours}.json"]
    assert project.read()["goal"] == "Add login page", "ours is archived as it was"
    project.session.tasks.add("still mine")
    assert "still mine" in project.place.read_text() and project.suspended == ""


def remove_id(project: Project) -> None:
    def change(value: dict[str, Any]) -> None:
        del value["session_id"]
        value["pending_tasks"].append("Theirs")

    project.edit(change)


def test_our_file_without_its_id_counts_as_edited(make: Make) -> None:
    project = make("orchestrator")
    remove_id(project)
    (adopted,) = project.home.files.adopt(str(current(project)))
    assert (adopted.outcome, adopted.session) == ("edited", project.session.id)
    assert "Theirs" in project.titles() and len(project.home.list()) == 1


def test_our_file_without_its_id_is_archived_under_its_id(make: Make) -> None:
    project = make("orchestrator")
    ours = project.read()["session_id"]
    remove_id(project)
    project.home.files.orchestrator.new("another")
    assert [path.name for path in archived(project)] == [f"{ours}.json"]
    assert "Theirs" in project.titles() and "Theirs" in project.place.read_text()


@pytest.mark.req("X4-1")
def test_session_moved_out_of_the_archive_becomes_the_current_one(
    make: Make,
) -> None:
    project = make("orchestrator")
    project.home.start("another", formats=["orchestrator"]).complete()
    stale = project.place
    value = project.read() | {"status": "in_progress", "pending_tasks": ["Theirs"]}
    current(project).write_text(json.dumps(value, indent=2))
    assert project.home.files.orchestrator.current().id == project.session.id
    assert project.place == current(project) and "Theirs" in project.titles()
    project.session.complete()
    assert (
        project.place == stale and "Theirs" in stale.read_text() and not current(project).exists()
    )


@pytest.mark.req("X4-1")
def test_session_moved_out_of_the_archive_over_ours_archives_ours(make: Make) -> None:
    project = make("orchestrator")
    ours = project.home.start("another", formats=["orchestrator"])
    ours.tasks.add("of the other")
    value = project.read() | {"pending_tasks": ["Theirs"]}
    current(project).write_text(json.dumps(value, indent=2))
    (dry,) = project.home.files.adopt(str(current(project)), dry_run=True)
    assert (dry.session, project.place == current(project)) == (project.session.id, False)
    (adopted,) = project.home.files.adopt(str(current(project)))
    assert (adopted.outcome, adopted.session) == ("edited", project.session.id)
    assert project.place == current(project) and "Theirs" in project.titles()
    (kept,) = archived(project)
    assert str(kept) == ours.files.list()[0].place
    assert json.loads(kept.read_text())["pending_tasks"] == ["of the other"]
    ours.tasks.add("goes on")
    project.session.tasks.add("goes on, too")
    assert "goes on" in kept.read_text() and "goes on, too" in current(project).read_text()


@pytest.mark.req("X4-1")
def test_adopted_archive_of_an_open_session_becomes_current_at_its_next_event(make: Make) -> None:
    project = make("orchestrator")
    project.session.pause()
    kept = project.folder / HISTORY / f"{THEIRS}.json"
    kept.parent.mkdir()
    begin_theirs(project)
    current(project).rename(kept)
    project.session.files.unbind("orchestrator")
    (adopted,) = project.home.files.adopt(str(kept))
    assert adopted.bound and kept.exists(), "it stays in the archive until the next event"
    project.home.session(THEIRS).tasks.add("go on")
    assert not kept.exists() and "go on" in current(project).read_text()
    project.home.session(THEIRS).complete()
    assert json.loads(kept.read_text())["status"] == "complete" and not current(project).exists()


# -- an archive folder that cannot be created --------------------------------------------------

OBSTACLES: dict[str, Callable[[Path], object]] = {
    "a file": lambda path: path.write_text("theirs"),
    "a pipe": lambda path: os.mkfifo(path),
    "a link": lambda path: path.symlink_to("..", target_is_directory=True),
    "a dead link": lambda path: path.symlink_to("nowhere"),
}


@pytest.mark.parametrize("kind", OBSTACLES)
def test_archive_that_is_not_a_folder_is_reported_until_doctor_archives_the_session(
    make: Make, kind: str
) -> None:
    project = make("orchestrator")
    before = project.session
    history = project.folder / HISTORY
    OBSTACLES[kind](history)
    project.session.complete()
    assert json.loads(current(project).read_text())["status"] == "complete"
    assert str(history) in project.suspended
    assert [a.code for a in format_checks.examine(project.home.context)] == ["files-suspended"]
    started = len(project.home.list(all=True))
    with pytest.raises(Refused, match=str(history) if "link" in kind else "is here"):
        project.home.start("Another", formats=["orchestrator"])
    assert len(project.home.list(all=True)) == started, "no session was started"
    history.unlink()
    assert format_checks.fix(project.home.context) == [
        f"brought the orchestrator files of session {before.id} up to date"
    ]
    assert not current(project).exists() and len(archived(project)) == 1
    assert before.files.list()[0].suspended == ""


# -- interrupted at the end of a session -------------------------------------------------------


@pytest.mark.parametrize("format_id", ["ai-session", "praxis", "craft", "orchestrator", "essay"])
def test_doctor_reports_and_finishes_files_of_an_interrupted_end(
    make: Make, format_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make()
    root = str(project.folder / "essay") if format_id == "essay" else ""
    place = Path(project.session.files.bind(format_id, root=root).place)
    before = place.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("forestay.mirror.mirror.Mirror.write", lambda *_, **__: [])
        project.session.complete()
    project.again()
    assert place.read_bytes() == before and "not written completely" in project.suspended
    assert [a.code for a in format_checks.examine(project.home.context)] == ["files-suspended"]
    format_checks.fix(project.home.context)
    assert not project.suspended and format_checks.examine(project.home.context) == []
    (binding,) = project.session.files.list()
    parts = [Path(binding.place), *place.parent.parent.glob("active-features.yaml")]
    assert any("complete" in path.read_text() for path in parts)
    assert place.exists() == (format_id != "orchestrator")


def test_session_edited_after_an_interrupted_end_is_archived_with_the_edit(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make("orchestrator")
    with monkeypatch.context() as patch:
        patch.setattr("forestay.mirror.mirror.Mirror.write", lambda *_, **__: [])
        project.session.complete()
    project.edit(lambda value: value.update(theirs="kept", status="complete"))
    assert "not written completely" in project.suspended
    format_checks.fix(project.home.context)
    assert not current(project).exists() and "theirs" in archived(project)[0].read_text()


def test_process_that_absorbs_the_end_of_a_session_writes_its_files(
    make: Make,
) -> None:
    project = make("craft", "orchestrator")
    craft, theirs = (Path(bound.place) for bound in project.session.files.list())
    project.edit(lambda value: value.update(status="complete"), theirs)
    with pytest.raises(Refused):
        project.session.pause()
    assert format_checks.examine(project.home.context) == []
    assert project.read(craft)["status"] == "completed"
    assert not theirs.exists() and len(archived(project)) == 1


@pytest.mark.parametrize("key", ["theirs", "target_file"])
def test_edit_after_the_end_stays_and_suspends_nothing(make: Make, key: str) -> None:
    project = make("praxis")
    project.session.complete()
    project.edit(lambda value: value.update({key: "specs/login"}))
    with pytest.raises(Refused):
        project.session.complete()
    assert not project.suspended and project.read()[key] == "specs/login"


def test_next_command_archives_a_session_whose_abort_was_interrupted(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make("orchestrator")
    with monkeypatch.context() as patch:
        patch.setattr("forestay.mirror.mirror.Mirror.write", lambda *_, **__: [])
        project.home.files.orchestrator.abort()
    project.again()
    with pytest.raises(NoSession):
        project.home.files.orchestrator.abort()
    assert not current(project).exists()
    assert json.loads(archived(project)[0].read_text())["status"] == "aborted"


@pytest.mark.req("S4-67", "S4-68")
@pytest.mark.parametrize("word, status", [("in_progress", "active"), ("complete", "completed")])
def test_status_that_another_program_saves_for_a_created_session_is_recorded(
    make: Make, word: str, status: str
) -> None:
    project = make()
    state = compat.create_new_session("Theirs", root=project.folder)
    compat.save_session(state, project.folder, home=project.home)
    project.home.files.adopt()
    session = project.home.session(state["session_id"])
    assert session.status().status == "created"
    compat.save_session(state | {"status": word}, project.folder, home=project.home)
    assert session.status().status == status
    assert word == "complete" or session.pause().kind == "session.paused"


def test_new_file_of_an_ended_session_is_reported_with_the_command_to_reopen_it(make: Make) -> None:
    project = make("orchestrator")
    held = project.read()
    project.session.complete()
    current(project).write_text(json.dumps(held | {"pending_tasks": ["Theirs"]}))
    rivals = [one for one in project.home.files.adopt() if one.outcome == "rival"]
    assert (
        f'forestay session reopen --because "…" --session {project.session.id}'
        in rivals[0].problems[-1]
    )
    project.session.lifecycle.reopen(because="it goes on there")
    assert "rival" not in [one.outcome for one in project.home.files.adopt()]
    assert project.place == current(project) and project.titles() == ["Theirs"]


# -- archived by programs of the ai-session format ---------------------------------------------


@pytest.mark.req("S0-63", "X0-7")
def test_ended_session_archived_by_another_program_is_left_alone(make: Make) -> None:
    project = make(AI_SESSION)
    project.session.complete()
    away = _archive_folder(project)
    before = everything(project.folder)
    assert project.suspended == "" and format_checks.examine(project.home.context) == []
    assert format_checks.fix(project.home.context) == [] and everything(project.folder) == before
    assert mirror_of(project.home.context).absorb(project.session.id) == [] and away.is_dir()


@pytest.mark.req("S0-64", "X0-7")
def test_open_session_archived_by_another_program_is_reported(
    make: Make,
) -> None:
    project = make(AI_SESSION)
    away = _archive_folder(project)
    project.session.note("meanwhile")
    assert project.suspended == f"they were archived: to continue with them, move {away} back"
    assert not project.ai("").exists() and "meanwhile" not in _log(away)
    away.rename(project.ai(""))
    project.session.note("and on")
    assert project.suspended == "" and _log(project.ai("")).count('"event":"note.added"') == 2


def test_files_removed_after_the_end_are_reported_as_missing_and_restored(
    make: Make,
) -> None:
    project = make(AI_SESSION)
    project.session.complete()
    shutil.rmtree(project.ai(""))
    assert project.suspended.startswith("they are missing, or older than what we wrote")
    format_checks.fix(project.home.context)
    assert project.suspended == "" and project.ai("state.yaml").is_file()


def _archive_folder(project: Project) -> Path:
    away = project.folder / ".ai-session-archive" / ID
    away.parent.mkdir()
    project.ai("").rename(away)
    return away


def _log(folder: Path) -> str:
    return (folder / "history.jsonl").read_text()
