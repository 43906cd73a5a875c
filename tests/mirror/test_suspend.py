"""Files that must not be written stay unchanged, byte for byte, until the reason is gone."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from forestay.base import files
from forestay.mirror import recover
from forestay.mirror.session_files import absorb_file_edits
from tests.mirror.conftest import Make
from tests.mirror.support import AI_SESSION, ID, Project, everything, swap_in

# -- files that were not written to their end --------------------------------------------------


def test_truncated_number_in_an_essay_file_is_not_absorbed(make: Make) -> None:
    project = make("essay")
    project.session.record.attribute("essay.stage_2.target_word_count", 1500)
    before, _, _ = project.place.read_bytes().partition(b"00\n    audience")
    assert before.endswith(b"target_word_count: 15")
    project.place.write_bytes(before)
    project.session.note("goes on")
    assert project.place.read_bytes() == before and project.edits() == []
    assert project.suspended == (
        "session-state.yaml cannot be used: it breaks off before `stages.stage_2.audience`"
    )
    (case,) = recover.cases(project.home.context)
    recover.fix(project.home.context, case)
    assert project.read()["stages"]["stage_2"]["target_word_count"] == 1500


CUTS = {
    "at the end of a line": ("state.yaml", b'  model_in_use: "sonnet"\n'),
    "before all values": ("state.yaml", b"current_state:\n"),
    "within a value": ("state.yaml", b"  active_task: t1"),
    "within a task": ("implementation-plan.yaml", b'description: "Second"\n'),
    "within an entry": ("../active-features.yaml", b"    started_at:"),
}


@pytest.mark.req("S0-79")
@pytest.mark.parametrize("name, end", CUTS.values(), ids=CUTS)
def test_truncated_rendering_is_not_an_edit(make: Make, name: str, end: bytes) -> None:
    project = make(AI_SESSION)
    for title in ("First", "Second"):
        project.session.tasks.add(title, id=f"t1{title}")
    project.session.tasks.start("t1First")
    path = project.ai(name).resolve()
    path.write_bytes(path.read_bytes().replace(b'"t1First"', b"t1First") + b"mine: kept\n")
    project.session.note("seen")
    before, count = path.read_bytes(), len(project.edits())
    data, _, _ = before.partition(end)
    path.write_bytes(data + end)
    project.session.note("goes on")
    assert path.read_bytes() == data + end and len(project.edits()) == count
    known = f"after {len(data + end)} of {len(before)} bytes"
    reported = "before `model_in_use`" if end.endswith(b"t1") else known
    assert f"cannot be used: it breaks off {reported}" in project.suspended
    (case,) = recover.cases(project.home.context)
    recover.fix(project.home.context, case)
    assert path.read_bytes().endswith(b"mine: kept\n") and project.suspended == ""
    assert project.read(project.ai("state.yaml"))["current_state"]["active_task"] == "t1First"


@pytest.mark.parametrize("lost", [b"\n", b"the last task"])
def test_shorter_but_complete_file_suspends_nothing_and_removes_no_task(
    make: Make, lost: bytes
) -> None:
    project = make(AI_SESSION)
    for title in ("First", "Second"):
        project.session.tasks.add(title)
    path = project.ai("implementation-plan.yaml")
    before = path.read_bytes()
    path.write_bytes(before[: -1 if lost == b"\n" else before.rindex(b"      - task_id")])
    project.session.note("goes on")
    assert project.suspended == "" and project.titles() == ["First", "Second"]


# -- during an operation of git ----------------------------------------------------------------


def branch_with(project: Project, text: str) -> None:
    (project.folder / "x.txt").write_text(text)
    project.git("add", "x.txt")
    project.git("commit", "-qm", text)


def in_repository(make: Make) -> Project:
    """Return a project in a repository with two branches that conflict."""
    project = make("orchestrator", git=True)
    branch_with(project, "base")
    project.git("checkout", "-qb", "other")
    branch_with(project, "theirs")
    project.git("checkout", "-q", "main")
    branch_with(project, "ours")
    return project


OPERATIONS = {
    "merge": (["merge", "other"], ["merge", "--abort"]),
    "rebase": (["rebase", "other"], ["rebase", "--abort"]),
    "cherry-pick": (["cherry-pick", "other"], ["cherry-pick", "--abort"]),
    "revert": (["revert", "--no-edit", "HEAD~1"], ["revert", "--abort"]),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_files_are_neither_read_nor_written_during_a_git_operation(make: Make, name: str) -> None:
    project = in_repository(make)
    begin, abort = OPERATIONS[name]
    subprocess.run(["git", *begin], cwd=project.folder, capture_output=True)
    project.edit(lambda v: v["pending_tasks"].append("Theirs"))
    before = project.place.read_bytes()
    project.session.tasks.add("Ours")
    assert project.place.read_bytes() == before and project.edits() == []
    assert f"git is in the middle of a {name}" in project.suspended
    project.git(*abort)
    project.session.note("go on")
    assert project.suspended == "" and set(project.titles()) == {"Ours", "Theirs"}
    assert set(project.read()["pending_tasks"]) == {"Ours", "Theirs"}


def test_git_operation_in_one_worktree_does_not_suspend_another(make: Make) -> None:
    project = in_repository(make)
    project.git("worktree", "add", "-q", str(project.base / "tree"), "other")
    subprocess.run(["git", "merge", "main"], cwd=project.base / "tree", capture_output=True)
    project.session.tasks.add("Ours")
    assert project.suspended == "" and project.read()["pending_tasks"] == ["Ours"]


# -- files that cannot be used -----------------------------------------------------------------

BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "nul": lambda data: data[:-20] + bytes(20),
    "latin": lambda data: data.replace(b"login", "lög".encode("latin-1")),
    "utf16": lambda data: data.decode().encode("utf-16"),
    "conflict": lambda data: b"<<<<<<< HEAD\n" + data + b"=======\n" + data + b">>>>>>> other\n",
    "twice": lambda data: data.replace(b'"goal"', b'"mode": "default", "goal"'),
    "list": lambda data: b"[]\n",
    "deep": lambda data: b"[" * 40_000 + b"]" * 40_000,
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=list(BROKEN))
def test_broken_file_stays_unchanged_and_the_session_continues(
    make: Make, broken: Callable[[bytes], bytes]
) -> None:
    project = make("orchestrator")
    good = project.place.read_bytes()
    bad = broken(good)
    swap_in(project.place, bad)
    began = time.monotonic()
    project.session.tasks.add("Meanwhile")
    project.session.pause()
    project.session.resume()
    project.again().note("again")
    assert time.monotonic() - began < 4
    assert project.place.read_bytes() == bad and project.suspended
    assert any("are not written" in line for line in project.notices)
    swap_in(project.place, good)
    project.session.note("mended")
    assert project.suspended == "" and project.read()["pending_tasks"] == ["Meanwhile"]
    assert project.edits() == []


def test_each_damaged_file_is_reported_under_its_own_name(make: Make) -> None:
    project = make(AI_SESSION)
    state, plan = project.place, project.place.parent / "implementation-plan.yaml"
    good = state.read_bytes()
    for path in (state, plan):
        path.write_bytes(b"a: [1,\n")
    project.session.note("goes on")
    state.write_bytes(good)
    project.session.note("goes on")
    assert project.suspended.startswith(f"{plan.name} cannot be used")


@pytest.mark.req("S0-69")
def test_merge_conflict_in_the_index_is_reported_and_not_resolved(make: Make) -> None:
    project = make(AI_SESSION)
    text = project.index.read_text()
    project.index.write_text(f"<<<<<<< HEAD\n{text}=======\n{text}>>>>>>> other\n")
    before = everything(project.folder)
    project.session.tasks.add("Meanwhile")
    after = everything(project.folder)
    assert {n: after[n] for n in before} == before and project.suspended
    assert any("conflict" in line for line in project.notices)


@pytest.mark.parametrize("format_id", ["craft", "orchestrator"])
@pytest.mark.parametrize("version", ["99", "2.0.0", 99])
def test_file_of_an_unknown_version_is_never_written(
    make: Make, format_id: str, version: object
) -> None:
    project = make(format_id)
    theirs = project.read() | {"schema_version": version, "goal": "Theirs"}
    swap_in(project.place, json.dumps(theirs).encode())
    before = project.place.read_bytes()
    for word in ("one", "two"):
        project.session.note(word)
    project.session.pause()
    project.again().resume()
    project.session.complete()
    assert project.place.read_bytes() == before and project.place.exists()
    assert project.edits() == [] and "is not supported for writing" in project.suspended


def test_state_file_of_an_unknown_version_is_never_written(make: Make) -> None:
    project = make(AI_SESSION)
    state = project.ai("state.yaml")
    state.write_text(state.read_text().replace('"1.0"', '"99.0"'))
    before = everything(project.folder)
    project.session.tasks.add("Meanwhile")
    project.session.complete()
    assert everything(project.folder) == before and "99.0" in project.suspended


# -- paths that are not regular files ----------------------------------------------------------


def a_link(path: Path, outside: Path) -> None:
    path.symlink_to(outside)


def a_folder(path: Path, outside: Path) -> None:
    path.mkdir()
    (path / "kept.txt").write_text("kept")


def a_fifo(path: Path, outside: Path) -> None:
    os.mkfifo(path)


def a_gigabyte(path: Path, outside: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 30)


ODD = [a_link, a_folder, a_fifo, a_gigabyte]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("format_id", ["orchestrator", AI_SESSION])
def test_path_that_is_not_a_regular_file_suspends_at_once(
    make: Make, odd: Callable[[Path, Path], None], format_id: str
) -> None:
    project = make(format_id)
    outside = project.base / "outside.json"
    outside.write_bytes(project.place.read_bytes())
    kept = outside.read_bytes()
    project.place.unlink()
    odd(project.place, outside)
    mode = project.place.lstat().st_mode
    began = time.monotonic()
    project.session.tasks.add("Meanwhile")
    assert time.monotonic() - began < 2
    assert outside.read_bytes() == kept and project.place.lstat().st_mode == mode
    assert str(project.place) in project.suspended
    assert any(str(project.place) in line for line in project.notices)
    assert "Meanwhile" in project.titles()


def test_link_in_place_of_the_lock_file_is_not_followed(make: Make) -> None:
    project = make(AI_SESSION)
    outside = project.base / "outside"
    project.ai(".state.lock").symlink_to(outside)
    project.session.note("go on")
    assert not outside.exists() and any("not written" in line for line in project.notices)


def test_session_folder_replaced_by_a_link_is_not_followed(make: Make) -> None:
    project = make(AI_SESSION)
    outside = project.base / "outside"
    os.rename(project.folder / ".ai-session" / ID, outside)
    (project.folder / ".ai-session" / ID).symlink_to(outside)
    before = everything(outside)
    project.session.tasks.add("Meanwhile")
    assert everything(outside) == before and "symbolic link" in project.suspended
    assert any("symbolic link" in line for line in project.notices)


# -- missing -----------------------------------------------------------------------------------


@pytest.mark.req("S0-86")
@pytest.mark.parametrize(
    "name", ["state.yaml", "implementation-plan.yaml", "history.jsonl", "../active-features.yaml"]
)
def test_missing_file_is_created_again(make: Make, name: str) -> None:
    project = make(AI_SESSION)
    project.session.tasks.add("First", id="t1")
    project.session.record.command("pytest")
    path = project.ai(name)
    stated = path.read_text()
    path.unlink()
    project.session.note("go on")
    assert path.exists() and project.edits() == [] and project.suspended == ""
    if name == "history.jsonl":
        assert set(stated.splitlines()) < set(path.read_text().splitlines())
    assert project.ai("history.jsonl").read_text().count("pytest") == 1


def test_deleted_folder_is_created_again(make: Make) -> None:
    project = make(AI_SESSION, "craft", "orchestrator")
    project.session.tasks.add("First", id="t1")
    names = sorted(everything(project.folder))
    for folder in (".ai-session", ".craft", ".claude"):
        subprocess.run(["rm", "-r", str(project.folder / folder)], check=True)
    project.session.note("go on")
    assert sorted(everything(project.folder)) == names and project.edits() == []


def test_deleted_folder_is_not_created_by_absorbing(make: Make) -> None:
    project = make(AI_SESSION)
    subprocess.run(["rm", "-r", str(project.folder / ".ai-session")], check=True)
    absorb_file_edits(project.home.context, project.session.id)
    assert not (project.folder / ".ai-session").exists()


# -- locks and folders that cannot be used -----------------------------------------------------


@pytest.mark.req("S0-65")
@pytest.mark.parametrize("make_it", [Path.mkdir, lambda path: path.symlink_to("elsewhere")])
def test_lock_that_is_no_file_is_reported_until_fixed(
    make: Make, make_it: Callable[[Path], None]
) -> None:
    project = make(AI_SESSION)
    lock = project.ai(".state.lock")
    make_it(lock)
    before = everything(project.folder / ".ai-session")
    project.session.note("goes on")
    reported = f"{lock} is not a file, and cannot be locked"
    assert project.suspended == reported and any(reported in stated for stated in project.notices)
    assert [a.why for a in project.home.doctor().left if a.code == "files-suspended"] == [reported]
    assert everything(project.folder / ".ai-session") == before
    lock.unlink() if lock.is_symlink() else lock.rmdir()
    assert project.suspended == ""
    project.session.note("and on")
    assert project.ai("history.jsonl").read_text().count('"event":"note.added"') == 2


def test_read_only_folder_is_reported_while_its_files_are_outdated(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make("craft")
    folder = str(project.place.parent)
    reported = f"{folder} may not be written to"
    monkeypatch.setattr(files, "why_not_writable", {folder: reported}.__getitem__)
    assert project.suspended == ""
    with files.locked(folder):
        monkeypatch.setattr("forestay.mirror.mirror._LOCK_SECONDS", 0.0)
        project.session.note("goes on")
    assert project.suspended == reported
