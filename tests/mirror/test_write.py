"""Writing files: order of creation, files that git tracks, locks, a full disk."""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from forestay.base import files, swap_file
from forestay.base.lockfile import ScriptLock
from forestay.formats.ai_session.format import README
from forestay.mirror.session_files import write_files
from forestay.store.machine.bindings import KEPT
from tests.homes import state_of
from tests.mirror.conftest import Make
from tests.mirror.support import AI_SESSION, ID, Project, everything, leftovers

PLACES = ("implementation-plan.yaml", "history.jsonl", "state.yaml", "active-features.yaml")


def test_all_five_formats_of_one_session_are_written(make: Make) -> None:
    project = make(AI_SESSION, "craft", "orchestrator", "praxis")
    project.session.files.bind("essay", root=str(project.folder / "essay"))
    project.session.tasks.add("First", id="t1")
    assert project.suspended.strip("; ") == "" and project.notices == []
    places = {binding.format: Path(binding.place) for binding in project.session.files.list()}
    assert places.keys() == {"ai-session", "craft", "orchestrator", "praxis", "essay"}
    for format_id in ("craft", "orchestrator"):
        assert "First" in places[format_id].read_text()
    assert "First" in project.ai("implementation-plan.yaml").read_text()
    assert all(place.stat().st_size for place in places.values())
    assert {stat.S_IMODE(p.stat().st_mode) for p in project.folder.rglob("*.json")} == {0o644}


# -- creation ----------------------------------------------------------------------------------


@pytest.mark.req("S0-52", "S0-53", "S0-54", "S0-55", "S0-56", "S0-57")
def test_files_of_a_new_session_are_written_in_the_specified_order(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    swap, folder = swap_file.swap, files.make_folder

    def swapped(aside: str, path: str, **more: Any) -> bool:
        made.append(os.path.basename(path))
        return swap(aside, path, **more)

    def foldered(path: str) -> None:
        if path.endswith(ID) and not os.path.isdir(path):
            made.append("folder")
        folder(path)

    monkeypatch.setattr(swap_file, "swap", swapped)
    monkeypatch.setattr(files, "make_folder", foldered)
    project = make(AI_SESSION)
    assert made == ["folder", *PLACES]
    assert project.ai("history.jsonl").read_bytes() == b""
    assert project.ai("artifacts").is_dir()
    others = [project.home.start("Add login page", formats=["ai-session"]) for _ in range(2)]
    natives = [binding.native for other in others for binding in other.files.list()]
    assert len(set(natives)) == 2 and ID not in natives
    assert all(re.fullmatch(r"[a-z0-9-]+-\d{4}-\d\d-\d\d(-\d+)?", native) for native in natives)


@pytest.mark.req("S0-10", "S0-11", "S0-12", "S0-13", "S0-14", "S0-15", "S0-16", "S0-17")
def test_new_session_has_the_folders_and_files_of_the_contract(make: Make) -> None:
    project = make(AI_SESSION)
    root, own = project.folder / ".ai-session", project.folder / ".ai-session" / ID
    assert {path.name for path in root.iterdir()} == {ID, "active-features.yaml", "README.md"}
    assert (own / "artifacts").is_dir()
    assert {path.name for path in own.iterdir() if path.is_file() and path.name[0] != "."} == {
        *("implementation-plan.yaml", "history.jsonl", "state.yaml")
    }
    assert (root / "README.md").read_text() == README


@pytest.mark.parametrize(
    "format_id, folder, name",
    [
        pytest.param(*row, marks=pytest.mark.req(number))
        for *row, number in (
            ("praxis", ".praxis-os/.cache/state", "{}.json", "X1-1"),
            ("craft", ".craft/cache/orchestration-sessions", "{}.json", "X2-1"),
            ("orchestrator", ".claude", "orchestrator-session.json", "S4-4"),
        )
    ],
)
def test_new_session_is_in_the_place_of_its_format(
    make: Make, format_id: str, folder: str, name: str
) -> None:
    project = make(format_id)
    text = project.place.read_text()
    assert project.place == project.folder / folder / name.format(json.loads(text)["session_id"])
    assert re.search(r'^  "session_id"', text, re.M)


@pytest.mark.parametrize("last", ["folder", *PLACES[:-1]])
def test_interrupted_creation_is_finished(make: Make, last: str) -> None:
    project = make(AI_SESSION)
    project.session.tasks.add("First", id="t1")
    whole = everything(project.folder)
    for name in ["folder", *PLACES][["folder", *PLACES].index(last) + 1 :]:
        (project.index if name == project.index.name else project.ai(name)).unlink()
    project.again().note("go on")
    assert everything(project.folder).keys() == whole.keys()
    assert project.suspended == "" and project.edits() == []
    assert "t1" in project.ai("implementation-plan.yaml").read_text()


def test_second_session_in_the_folder_is_listed_after_the_first(make: Make) -> None:
    project = make(AI_SESSION)
    project.home.start("Other work", formats=["ai-session:other-2026-02-01"])
    project.session.tasks.add("First")
    ids = [e["feature_id"] for e in project.read(project.index)["active_features"]]
    assert ids == [ID, "other-2026-02-01"] and project.notices == []


@pytest.mark.req("S0-50", "S0-59")
def test_every_event_updates_the_time_of_the_last_change(make: Make) -> None:
    project = make(AI_SESSION)
    moments = []
    for _ in range(3):
        project.session.note("on")
        moments.append(project.read(project.ai("state.yaml"))["current_state"]["last_updated"])
    assert moments == sorted(set(moments)) and len(moments) == 3
    (entry,) = project.read(project.index)["active_features"]
    assert entry["last_active"] == moments[-1]


@pytest.mark.req("S0-62", "S0-63", "S0-64")
def test_completed_session_is_marked_in_the_index_and_all_its_files_stay(make: Make) -> None:
    project = make(AI_SESSION)
    project.session.record.command("pytest")
    before = everything(project.folder)
    project.session.complete()
    (entry,) = project.read(project.index)["active_features"]
    assert entry["status"] == "completed"
    assert everything(project.folder).keys() == before.keys()
    assert "pytest" in project.ai("history.jsonl").read_text()


@pytest.mark.req("S0-68")
def test_last_of_two_writers_wins(make: Make) -> None:
    project = make(AI_SESSION)
    project.session.record.model("opus")
    project.edit(
        lambda v: v["current_state"].update(model_in_use="gemini"), project.ai("state.yaml")
    )
    project.session.note("theirs was last")
    assert project.read(project.ai("state.yaml"))["current_state"]["model_in_use"] == "gemini"
    project.session.record.model("sonnet")
    assert project.read(project.ai("state.yaml"))["current_state"]["model_in_use"] == "sonnet"
    assert state_of(project.session).core.model == "sonnet"


# -- a full disk -------------------------------------------------------------------------------


def test_full_disk_loses_no_event_and_files_are_updated_later(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make(AI_SESSION, "craft", "orchestrator")
    before = everything(project.folder)
    with monkeypatch.context() as patch:
        patch.setattr(files, "_write_all", _full)
        patch.setattr(files, "_append_whole", _full)
        event = project.session.tasks.add("Meanwhile", id="t1")
        project.session.record.command("pytest")
    assert event.kind == "step.added" and "Meanwhile" in project.titles()
    assert everything(project.folder) == before and leftovers(project.folder) == []
    assert sum("no space left" in line for line in project.notices) >= 3
    project.session.note("there is room again")
    for binding in project.session.files.list():
        folder = Path(binding.place).parent
        assert any("Meanwhile" in p.read_text() for p in folder.iterdir() if p.is_file())
    assert project.ai("history.jsonl").read_text().count("pytest") == 1
    assert project.edits() == []


def test_rendering_that_could_not_be_replaced_for_long_is_still_recognized_as_ours(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make("orchestrator")
    project.session.tasks.add("First", id="t1")
    with monkeypatch.context() as patch:
        patch.setattr(files, "_write_all", _full)
        project.session.tasks.done("t1")
        for number in range(2 * KEPT):
            project.session.tasks.add(f"Meanwhile {number}")
    project.session.note("there is room again")
    assert project.edits() == [] and len(project.read()["pending_tasks"]) == 2 * KEPT


def _full(fd: int, data: bytes) -> None:
    raise OSError(28, "No space left on device")


# -- locks -------------------------------------------------------------------------------------

HOLD = """
import fcntl, sys, time
file = open(sys.argv[1], "rb")  # for reading: we wait for open writers even without a lock
fcntl.flock(file, getattr(fcntl, sys.argv[2]))
print("held", flush=True)
time.sleep(float(sys.argv[3]))
"""


@contextmanager
def held(path: Path, seconds: float, how: str = "LOCK_EX") -> Iterator[None]:
    """Lock a file in another process."""
    command = [sys.executable, "-c", HOLD, str(path), how, str(seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    try:
        yield
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.req("S0-65", "S0-67", "X0-5")
@pytest.mark.parametrize("name", [".state.lock", "implementation-plan.yaml"])
def test_write_waits_for_the_lock_of_another_program(make: Make, name: str) -> None:
    project = make(AI_SESSION)
    project.ai(name).touch()
    with held(project.ai(name), 0.6):
        began = time.monotonic()
        project.session.tasks.add("First", id="t1")
        took = time.monotonic() - began
    assert 0.3 < took < 3 and project.notices == []
    assert "t1" in project.ai("implementation-plan.yaml").read_text()


@pytest.mark.req("S0-67")
def test_reader_of_the_plan_does_not_block_a_write(make: Make) -> None:
    project = make(AI_SESSION)
    plan = project.ai("implementation-plan.yaml")
    with held(plan, 60, "LOCK_SH"):
        project.session.tasks.add("First", id="t1")
    assert project.notices == [] and "t1" in plan.read_text()


@pytest.mark.req("S0-65", "S0-87", "X0-5")
def test_lock_that_is_never_released_is_reported_and_the_event_is_stored(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make(AI_SESSION)
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        time.sleep(seconds)

    monkeypatch.setattr(project.clock, "sleep", sleep)
    before = project.ai("state.yaml").read_bytes()
    project.ai(".state.lock").touch()
    with held(project.ai(".state.lock"), 60):
        began = time.monotonic()
        project.session.note("kept")
        took = time.monotonic() - began
    assert 4.5 < took < 7, "five seconds, once"
    assert waits[0] < 0.02 and max(waits) > 8 * waits[0], "longer each time"
    assert project.ai("state.yaml").read_bytes() == before
    assert any(".state.lock" in line for line in project.notices)
    assert project.kinds("user")[-1] == "note.added"
    project.session.note("let go")
    assert project.ai("state.yaml").read_bytes() != before


MARK = 'set -C; (echo $$ > "$0") 2>/dev/null || exit 1; sleep "$1"; rm "$0"'


@pytest.mark.req("S0-65", "X0-5")
def test_other_program_can_create_its_lock_file_between_our_writes(make: Make) -> None:
    project = make(AI_SESSION)
    lock = project.ai(".state.lock")
    for _ in range(2):
        subprocess.run(["sh", "-c", MARK, str(lock), "0"], check=True)
        project.session.note("on")
    assert project.notices == [] and not lock.exists()


@pytest.mark.req("S0-65", "X0-5")
def test_lock_by_creating_the_file_is_respected(make: Make) -> None:
    project = make(AI_SESSION)
    lock = project.ai(".state.lock")
    with subprocess.Popen(["sh", "-c", MARK, str(lock), "0.6"]):
        while not lock.exists() or not lock.read_text():
            time.sleep(0.01)
        project.session.tasks.add("First", id="t1")
        assert not lock.exists(), "both locks are removed"
    assert project.notices == [] and "t1" in project.ai("implementation-plan.yaml").read_text()


@pytest.mark.req("S0-65", "X0-5")
def test_lock_of_a_dead_process_is_reported_at_once_and_not_removed(make: Make) -> None:
    project = make(AI_SESSION)
    lock, before = project.ai(".state.lock"), project.ai("state.yaml").read_bytes()
    subprocess.run(["sh", "-c", 'echo $$ > "$0"', str(lock)], check=True)
    began, stated = time.monotonic(), lock.read_text()
    project.session.note("kept")
    assert time.monotonic() - began < 3 and lock.read_text() == stated
    process = f"process {stated.strip()}, which does not run on this machine"
    reported = f"{lock} is the lock of {process}: delete it"
    assert project.suspended == reported and reported in " ".join(project.notices)
    assert project.ai("state.yaml").read_bytes() == before
    lock.unlink()
    project.session.note("on")
    assert project.suspended == "" and project.ai("state.yaml").read_bytes() != before


@pytest.mark.req("S0-65", "X0-5")
@pytest.mark.parametrize("stated", [f"{os.getpid()}\n", "host-7:4711\n"], ids=["a number", "words"])
def test_old_lock_is_reported_at_once_and_not_removed(make: Make, stated: str) -> None:
    """After a crash another process may have the id of the process that made the lock."""
    project = make(AI_SESSION)
    lock, before = project.ai(".state.lock"), project.ai("state.yaml").read_bytes()
    lock.write_text(stated)
    os.utime(lock, (time.time() - 7200,) * 2)
    began = time.monotonic()
    project.session.note("kept")
    assert time.monotonic() - began < 3 and lock.read_text() == stated
    assert project.suspended.startswith(f"{lock} is a lock older than an hour: delete it")
    assert project.ai("state.yaml").read_bytes() == before


@pytest.mark.req("S0-65")
@pytest.mark.parametrize("stated", ["forestay 4194303\n", "forestay 1", "fore"])
def test_stale_or_torn_lock_of_ours_is_removed(make: Make, stated: str) -> None:
    project = make(AI_SESSION)
    lock = project.ai(".state.lock")
    lock.write_text(stated)
    project.session.tasks.add("First", id="t1")
    assert project.notices == [] and not lock.exists()
    assert "t1" in project.ai("implementation-plan.yaml").read_text()


@pytest.mark.req("S0-65", "X0-5")
def test_process_that_waited_for_our_lock_locks_the_current_file(make: Make) -> None:
    project = make(AI_SESSION)
    lock = project.ai(".state.lock")
    with ScriptLock(str(lock), clock=project.clock, timeout=1.0):
        waiting = lock.open("w")  # as `exec 9> .state.lock; flock 9` does
    with waiting:
        assert os.path.samestat(os.fstat(waiting.fileno()), lock.stat())
        fcntl.flock(waiting, fcntl.LOCK_EX | fcntl.LOCK_NB)
    project.session.note("on")
    assert project.notices == []


def test_our_lock_is_held_while_files_change(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make(AI_SESSION)
    swap, seen = swap_file.swap, []

    def swapped(aside: str, path: str, **more: Any) -> bool:
        for each in (project.ai(".state.lock"), project.folder / ".ai-session"):
            fd = os.open(each, os.O_RDONLY)
            with pytest.raises(BlockingIOError):
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.close(fd)
        seen.append(path)
        return swap(aside, path, **more)

    monkeypatch.setattr(swap_file, "swap", swapped)
    project.session.note("on")
    assert seen


# -- git ---------------------------------------------------------------------------------------


def test_new_folder_is_excluded_from_git(make: Make) -> None:
    project = make(AI_SESSION, "craft", "orchestrator", git=True)
    project.session.tasks.add("First")
    assert project.git("status", "--porcelain", "--untracked-files=all") == ""
    (project.folder / ".claude/settings.json").write_text("{}")
    assert "settings.json" in project.git("status", "--porcelain", "--untracked-files=all")


def test_existing_folder_is_not_excluded_from_git(make: Make) -> None:
    project = make(git=True)
    (project.folder / ".claude").mkdir()
    project.session.files.bind("orchestrator")
    assert "orchestrator-session.json" in project.git("status", "--porcelain", "-uall")


def test_folder_in_a_linked_worktree_is_excluded_from_git_too(make: Make) -> None:
    project = make(git=True)
    project.git("commit", "-q", "--allow-empty", "-m", "base")
    tree = project.base / "tree"
    project.git("worktree", "add", "-q", str(tree))
    with project.opened(cwd=tree) as home:
        home.start("there", formats=["craft"])
    done = subprocess.run(
        ["git", "status", "--porcelain"], cwd=tree, capture_output=True, check=True
    )
    assert (tree / ".craft").is_dir() and done.stdout == b""


@pytest.mark.parametrize("version", ["2", "4"])
def test_files_that_git_tracks_are_written_only_at_pauses(make: Make, version: str) -> None:
    project = make("orchestrator", git=True)
    project.git("config", "index.version", version)
    project.git("add", "-f", ".claude")
    project.git("commit", "-qm", "tracked")
    session = project.again()
    before = project.place.read_bytes()
    session.tasks.add("First")
    session.note("on")
    assert project.place.read_bytes() == before and project.git("status", "--porcelain") == ""
    session.pause()
    assert project.read()["pending_tasks"] == ["First"] and project.read()["status"] == "paused"
    session.resume()
    session.tasks.add("Second")
    assert project.read()["pending_tasks"] == ["First"]
    write_files(project.home.context, session.id, force=True)
    assert project.read()["pending_tasks"] == ["First", "Second"]
    assert [binding.quiet for binding in session.files.list()] == [True]


def test_edits_of_a_tracked_file_are_absorbed_without_writing_it(make: Make) -> None:
    project = make("orchestrator", git=True)
    project.git("add", "-f", ".claude")
    session = project.again()
    data = project.edit(lambda v: v["pending_tasks"].append("Theirs"))
    session.note("on")
    assert "Theirs" in project.titles() and project.place.read_bytes() == data


def test_tracked_file_of_the_same_name_elsewhere_delays_no_write(make: Make) -> None:
    project = make("orchestrator", git=True)
    other = project.folder / "example/.claude/orchestrator-session.json"
    other.parent.mkdir(parents=True)
    other.write_text("{}")
    project.git("add", "-f", "example")
    project.again().tasks.add("First")
    assert project.read()["pending_tasks"] == ["First"]


def test_branch_switch_is_not_an_edit(make: Make) -> None:
    project = make(git=True)
    (project.folder / ".claude").mkdir()
    project.session.files.bind("orchestrator")
    project.git("add", "-A")
    project.git("commit", "-qm", "one")
    project.git("checkout", "-qb", "feature")
    project.session.tasks.add("First")
    project.session.pause()
    project.git("commit", "-qam", "two")
    project.git("checkout", "-q", "main")
    project.session.resume()
    project.session.tasks.add("Second")
    project.session.pause()
    assert project.edits() == [] and project.read()["pending_tasks"] == ["First", "Second"]


# -- backups -----------------------------------------------------------------------------------


@pytest.fixture
def essay(make: Make) -> tuple[Project, Path, Path]:
    """Return a project with an essay, the essay's state file and its backup."""
    project = make()
    root = project.folder / "essay"
    project.session.files.bind("essay", root=str(root))
    project.session.note("on")
    return project, root / "session-state.yaml", root / "session-state.yaml.bak"


Essay = tuple[Project, Path, Path]


@pytest.mark.req("S3-86", "S3-87", "S3-88", "S3-89", "S3-90", "S3-118")
def test_state_of_an_essay_is_written_in_three_steps(
    essay: Essay, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, state, backup = essay
    before, steps = state.read_bytes(), list[tuple[str, bytes, bytes]]()
    replace, swap = files.replace, swap_file._swap

    def replaced(path: str, data: bytes, mode: int = 0o600) -> None:
        steps.append(("backup", _staged(state), state.read_bytes()))
        replace(path, data, mode)

    def swapped(aside: str, path: str) -> bool:
        steps.append(("rename", backup.read_bytes(), state.read_bytes()))
        assert Path(aside).parent == state.parent and path == str(state)
        return swap(aside, path)

    monkeypatch.setattr(files, "replace", replaced)
    monkeypatch.setattr(swap_file, "_swap", swapped)
    project.session.pause()
    after = state.read_bytes()
    assert steps == [("backup", after, before), ("rename", before, before)]
    assert after != before and leftovers(project.folder) == []


def _staged(state: Path) -> bytes:
    """Return the content of the staged file next to the state."""
    (ready,) = [path for path in state.parent.iterdir() if path.name.endswith("-swap")]
    return ready.read_bytes()


@pytest.mark.req("S3-75", "S3-91")
def test_previous_version_of_an_essay_is_its_backup(essay: Essay) -> None:
    project, state, backup = essay
    for word in ("one", "two", "three"):
        before = state.read_bytes()
        project.session.note(word)
        assert backup.name in os.listdir(state.parent)
        assert backup.read_bytes() == before and state.read_bytes() != before


@pytest.mark.req("S3-92")
@pytest.mark.parametrize("broken", [b"a: [b\n", b"", b"\0" * 99, b"- 1\n", b"<<<<<<< HEAD\n"])
def test_backup_of_an_essay_is_never_made_from_a_damaged_file(essay: Essay, broken: bytes) -> None:
    project, state, backup = essay
    kept = backup.read_bytes()
    state.write_bytes(broken)
    project.session.note("and on")
    project.session.pause()
    assert backup.read_bytes() == kept and state.read_bytes() == broken


@pytest.mark.req("S3-92")
def test_edit_of_another_program_becomes_the_backup_of_an_essay(essay: Essay) -> None:
    project, _, backup = essay
    theirs = project.edit(lambda value: value.update(theirs="kept"))
    project.session.note("and on")
    assert backup.read_bytes() == theirs


@pytest.mark.req("S3-88", "S3-92")
def test_full_disk_leaves_state_and_backup_of_an_essay_unchanged(
    essay: Essay, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, state, backup = essay
    before = state.read_bytes(), backup.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(files, "_write_all", _full)
        project.session.note("no room")
    assert (state.read_bytes(), backup.read_bytes()) == before
    assert leftovers(project.folder) == []


def test_staged_file_that_was_never_exchanged_is_removed_and_no_edit(make: Make) -> None:
    project = make("craft")
    ours = b'{"forgotten": true,' + project.place.read_bytes()[1:]
    aside = swap_file.stage(str(project.place), ours)
    project.session.note("next")
    assert not os.path.exists(aside) and project.kinds() == []
    assert b"forgotten" not in project.place.read_bytes()


@pytest.mark.parametrize("kind", ["craft", "praxis", "orchestrator", "essay"])
def test_restored_file_has_the_unknown_keys_of_others(make: Make, kind: str) -> None:
    project = make(kind)
    place = project.place
    text, key = place.read_text(), "team: blue  # ours\n" if kind == "essay" else '{"team": "blue",'
    place.write_text(key + text.removeprefix("" if kind == "essay" else "{"))
    project.session.note("taken up")
    place.unlink()
    project.again().pause()
    assert place.read_text().startswith(key) and project.session.status().status == "paused"
    assert "paused" in place.read_text()


def test_restored_file_has_the_key_that_was_absorbed_last(make: Make) -> None:
    project = make(AI_SESSION)
    project.session.note("first")
    plan = project.ai("implementation-plan.yaml")
    project.edit(lambda value: value.update(team="blue"), plan)
    project.session.note("the plan is not written for this")
    plan.unlink()
    project.session.note("next")
    assert project.read(plan)["team"] == "blue"


def test_retracted_event_is_removed_from_files_until_the_retraction_is_undone(make: Make) -> None:
    project = make("craft", "orchestrator", "praxis")
    craft, orchestrator, praxis = (Path(b.place) for b in project.session.files.list())
    project.edit(lambda value: value["errors"].append("Theirs"), orchestrator)
    project.edit(lambda value: value.update(files_modified=["theirs.py"]), orchestrator)
    session = project.session
    events = [
        session.decide("Use a queue", because="fast", chosen="redis"),
        session.record.error("Disk is full"),
        session.record.file(str(project.folder / "gone.py"), action="deleted"),
    ]
    stated = ("Use a queue", "Disk is full", "gone.py")
    before = [place.read_text() for place in (craft, orchestrator, praxis)]
    assert all(any(word in text for text in before) for word in stated)
    for event in events:
        session = project.again()
        session.undo(event.id)
    for place in (craft, orchestrator, praxis):
        assert not any(word in place.read_text() for word in stated)
    assert project.read(orchestrator)["errors"] == ["Theirs"]
    assert project.read(orchestrator)["files_modified"] == ["theirs.py"]
    assert project.read(praxis)["lifecycle"]["last_error"] == "Theirs"
    for event in project.events():
        if event.kind == "event.retracted":
            session.undo(event.id)
    for place, text in zip((craft, orchestrator, praxis), before, strict=True):
        assert all(word in place.read_text() for word in stated if word in text)


@pytest.mark.req("S3-146")
def test_revision_log_is_restored_with_its_lost_file(make: Make) -> None:
    project = make("essay")
    place = project.place
    text = place.read_text()
    entry = '\n  - {stage_revisited: 1, impact: "minor", reason: "reworded"}'
    place.write_text(text.replace("revision_history: []", f"revision_history:{entry}"))
    project.session.note("taken up")
    place.unlink()
    project.again().pause()
    (entry,) = yaml.safe_load(place.read_text())["revision_history"]
    assert entry["reason"] == "reworded"


@pytest.mark.req("S3-146")
def test_revisions_logged_by_others_are_written_elsewhere_without_their_secret(
    make: Make, tmp_path: Path
) -> None:
    project = make("essay")
    secret = "ghp_" + "a1B2" * 9
    project.edit(lambda doc: doc["revision_history"].extend(_revisions(secret)))
    written = project.place.read_bytes()
    project.session.note("taken up")
    assert project.read()["revision_history"] == _revisions(secret), "values of other programs stay"
    pack = str(tmp_path / "all.fspack")
    project.session.export(pack)
    with project.opened("elsewhere", cwd=tmp_path) as elsewhere:
        elsewhere.backups.import_(pack)
        session = elsewhere.session(project.session.id)
        place = Path(session.files.bind("essay").place)
        found = yaml.safe_load(place.read_text())["revision_history"]
    assert secret in written.decode() and secret not in str(found)
    assert [(e["stage_revisited"], e["impact"], e["downstream_archived"]) for e in found] == [
        (2, "major", ["stage-4-draft.v1.md"]),
        (1, "", []),
    ]
    assert found[0]["timestamp"] == "2026-02-14T17:30:22Z"


def _revisions(secret: str) -> list[dict[str, Any]]:
    return [
        {
            "stage_revisited": 2,
            "impact": "major",
            "reason": f"turned around with {secret}",
            "downstream_archived": ["stage-4-draft.v1.md"],
            "timestamp": "2026-02-14T19:30:22+02:00",
            "who": "somebody",
        },
        {"stage_revisited": 1, "impact": "huge", "reason": "undated"},
    ]


@pytest.mark.parametrize("key, value", [("impact", "minor"), ("reason", "other words")])
def test_reworded_revision_is_not_recorded_again(make: Make, key: str, value: str) -> None:
    project = make("essay")
    project.edit(lambda doc: doc["revision_history"].extend(_revisions("nothing")))
    project.session.note("taken up")
    project.edit(lambda doc: doc["revision_history"][0].update({key: value}))
    project.session.pause()
    assert project.kinds().count("step.revisited") == 2
    assert project.read()["revision_history"] == [
        _revisions("nothing")[0] | {key: value},
        _revisions("nothing")[1],
    ]


@pytest.mark.req("S0-76", "S0-86")
def test_restored_file_does_not_contain_an_invalid_model(make: Make) -> None:
    project = make(AI_SESSION)
    state = project.ai("state.yaml")
    state.write_text(state.read_text().replace('"sonnet"', '"another"'))
    project.session.note("taken up")
    assert "another" in state.read_text()
    state.unlink()
    project.session.pause()
    assert "sonnet" in state.read_text()


@pytest.mark.parametrize("format_id", ["craft", "orchestrator"])
def test_retracted_token_count_is_removed_from_the_file(make: Make, format_id: str) -> None:
    project = make(format_id)
    project.session.agents.start("code-1", type="code")
    before = project.read()
    project.session.record.tokens(64_000)
    project.session.undo()
    project.session.record.compaction()
    project.session.undo()
    project.session.record.tokens(500, agent="code-1")
    project.session.undo()
    project.again().note("next")
    now = project.read()
    assert now["context_usage"] | {"by_agent": {}} == before["context_usage"] | {"by_agent": {}}
    spent = [
        *now["context_usage"].get("by_agent", {}).values(),
        now["agents"][0].get("context_tokens"),
    ]
    assert not any(spent)
    project.session.record.tokens(1000)
    project.session.record.tokens(2000)
    project.session.undo()
    assert project.read()["context_usage"]["estimated_tokens"] == 1000
