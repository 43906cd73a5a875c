"""Cleanup, report and update, as programs of the ai-session format expect them."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import time
from datetime import UTC, datetime, timedelta
from itertools import combinations_with_replacement
from pathlib import Path

import pytest
import yaml

from forestay.base import swap_file
from forestay.errors import ForestayError
from forestay.mirror.ai_session_cleanup import _mark_completed
from tests.cli.support import Cli
from tests.mirror.support import around_exchanges, as_nobody, swap_in

ROOT = Path(".ai-session")
ARCHIVE = Path(".ai-session-archive")
OLD = "2025-01-09T10:00:00Z"


def feature(name: str, status: str, *, stamp: str = OLD, full: bool = True) -> Path:
    """Write the files of a session of another program."""
    id = f"{name}-2025-01-09"
    folder = ROOT / id
    (folder / "artifacts").mkdir(parents=True)
    current = {
        "active_task": None,
        "model_in_use": "opus",
        "started_at": OLD,
        "last_updated": stamp,
    }
    _dump(folder / "state.yaml", {"version": "1.0", "feature_id": id, "current_state": current})
    tasks = [{"task_id": "t1", "description": "x", "status": "completed"}] if full else []
    phases = [{"phase_id": "p1", "name": "P", "tasks": tasks}] if full else []
    head = {"id": id, "name": name, "description": "d", "created_at": OLD}
    _dump(folder / "implementation-plan.yaml", {"feature": head, "phases": phases})
    line = {"timestamp": OLD, "command": "run", "model": "opus", "status": "success"}
    log = json.dumps({**line, "duration_ms": 5, "task_id": None, "arguments": ""}) + "\n"
    (folder / "history.jsonl").write_text(log if full else "")
    index = ROOT / "active-features.yaml"
    rows = yaml.safe_load(index.read_text())["active_features"] if index.exists() else []
    rows.append({"feature_id": id, "started_at": OLD, "last_active": stamp, "status": status})
    _dump(index, {"active_features": rows})
    return folder


def _dump(path: Path, value: object) -> None:
    path.write_text(yaml.safe_dump(value, sort_keys=False))


def ours(cli: Cli) -> None:
    """Start a session of this home with ai-session files."""
    cli.start("Add login")
    cli.ok("files", "bind", "ai-session:login-2026-01-31")


def statuses() -> dict[str, str]:
    rows = yaml.safe_load((ROOT / "active-features.yaml").read_text())["active_features"]
    return {row["feature_id"]: row["status"] for row in rows}


def tree() -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(Path().rglob("*")) if p.is_file()}


@pytest.mark.req("X0-7", "S0-62", "S0-63", "S0-64")
def test_completed_sessions_are_moved_to_the_archive_and_active_ones_stay(cli: Cli) -> None:
    over, active = feature("over", "completed"), feature("live", "active")
    (over / "artifacts" / "a.txt").write_text("kept")
    before = {name: data for name, data in tree().items() if "over" in name}
    cli.ok("files", "cleanup", "--completed", "--yes")
    assert not over.exists() and active.is_dir()
    moved = {name.replace("-session-archive", "-session"): d for name, d in tree().items()}
    assert {name: moved[name] for name in before} == before
    assert statuses() == {over.name: "completed", active.name: "active"}


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout


def test_archive_is_ignored_by_git(cli: Cli) -> None:
    _git("init", "-q")
    ours(cli)
    cli.ok("complete")
    cli.ok("files", "cleanup", "--completed", "--yes")
    assert os.listdir(ARCHIVE) and _git("status", "--short") == ""
    lines = Path(".git/info/exclude").read_text().splitlines()
    assert lines.count("/.ai-session-archive/") == 1


def test_archived_files_that_git_tracked_stay_visible_to_git(cli: Cli) -> None:
    _git("init", "-q")
    feature("login", "completed")
    _git("add", "-A")
    cli.ok("files", "cleanup", "--completed", "--yes")
    assert "?? .ai-session-archive/" in _git("status", "--short")


@pytest.mark.req("X0-7")
def test_dry_run_of_cleanup_names_the_sessions_and_changes_nothing(cli: Cli) -> None:
    feature("over", "completed")
    before = tree()
    answer = cli.ok("files", "cleanup", "--completed", "--dry-run")
    assert answer.out.startswith("Would remove: over-2025-01-09")
    assert tree() == before and not ARCHIVE.exists()


@pytest.mark.req("X0-7", "S0-62")
def test_stale_archives_paused_sessions_after_seven_days_as_completed(cli: Cli) -> None:
    week, now = timedelta(days=7), datetime.now(UTC)
    feature("old", "paused", stamp=(now - week - timedelta(hours=1)).isoformat())
    feature("young", "paused", stamp=(now - week + timedelta(hours=1)).isoformat())
    cli.ok("files", "cleanup", "--stale", "--yes")
    assert ARCHIVE.is_dir()
    assert [path.name for path in ARCHIVE.iterdir()] == ["old-2025-01-09"]
    assert statuses() == {"old-2025-01-09": "completed", "young-2025-01-09": "paused"}


@pytest.mark.req("X0-7")
def test_days_sets_the_age_of_stale_sessions(cli: Cli) -> None:
    feature("old", "paused")
    assert (
        "nothing to clean up"
        in cli.ok("files", "cleanup", "--stale", "--days", "99999", "--yes").out
    )
    cli.ok("files", "cleanup", "--stale", "--days", "0", "--yes")
    assert (ARCHIVE / "old-2025-01-09").is_dir()
    assert cli("files", "cleanup", "--stale", "--days=-1").code == 2
    feature("over", "completed")
    refused = cli("files", "cleanup", "--days", "30", "--yes")
    assert refused.code == 2 and "--stale" in refused.err, "completed ones stay, too"


@pytest.mark.req("X0-7", "S0-64")
@pytest.mark.parametrize("asked", [("--stale",), ("--empty",), ("--pattern", "*")])
def test_cleanup_never_moves_an_active_session(cli: Cli, asked: tuple[str]) -> None:
    feature("live", "active", full=False)
    before = tree()
    answer = cli("files", "cleanup", *asked, "--yes")
    assert tree() == before
    if asked[0] != "--pattern":
        assert answer.code == 4 and "it is active" in answer.out


@pytest.mark.req("X0-7")
def test_empty_and_pattern_select_sessions(cli: Cli) -> None:
    feature("empty-a", "paused", full=False)
    feature("empty-b", "paused", full=False)
    feature("full", "paused")
    cli.ok("files", "cleanup", "--empty", "--pattern", "*-b-*", "--yes")
    assert [path.name for path in ARCHIVE.iterdir()] == ["empty-b-2025-01-09"]
    cli.ok("files", "cleanup", "--empty", "--yes")
    assert len(list(ARCHIVE.iterdir())) == 2 and (ROOT / "full-2025-01-09").is_dir()


@pytest.mark.req("X0-7")
def test_preserve_artifacts_does_not_move_artifacts(cli: Cli) -> None:
    folder = feature("over", "completed")
    (folder / "artifacts" / "a.txt").write_text("kept")
    cli.ok("files", "cleanup", "--completed", "--preserve-artifacts", "--archive", "--yes")
    assert [p.name for p in folder.iterdir()] == ["artifacts"]
    assert (folder / "artifacts" / "a.txt").read_text() == "kept"
    assert (ARCHIVE / folder.name / "state.yaml").is_file()


def test_moving_archived_files_back_undoes_a_cleanup(cli: Cli) -> None:
    folder = feature("over", "completed")
    before = tree()
    cli.ok("files", "cleanup", "--yes")
    os.rename(ARCHIVE / folder.name, folder)
    assert tree() == before


def test_cleanup_needs_yes_as_an_option_or_on_a_terminal(cli: Cli) -> None:
    feature("over", "completed")
    before = tree()
    answer = cli("files", "cleanup")
    assert answer.code == 4 and "--yes" in answer.err and tree() == before
    assert cli("files", "cleanup", source="no\n", terminal=True).code == 1 and tree() == before
    cli.ok("files", "cleanup", source="yes\n", terminal=True)
    assert (ARCHIVE / "over-2025-01-09").is_dir()


def test_second_archived_session_of_a_name_does_not_replace_the_first(cli: Cli) -> None:
    for text in ("one", "two"):
        folder = feature("over", "completed")
        (folder / "artifacts" / "a.txt").write_text(text)
        cli.ok("files", "cleanup", "--yes")
        (ROOT / "active-features.yaml").unlink()
    kept = [(ARCHIVE / f"over-2025-01-09{n}/artifacts/a.txt").read_text() for n in ("", "-2")]
    assert kept == ["one", "two"]


def test_entries_and_comments_of_others_in_the_index_stay(cli: Cli) -> None:
    feature("over", "paused")
    feature("live", "active")
    index = ROOT / "active-features.yaml"
    index.write_text("# ours\n" + index.read_text() + "mine: 1  # kept\n")
    before = index.read_text()
    cli.ok("files", "cleanup", "--stale", "--pattern", "over*", "--yes")
    assert index.read_text() == before.replace("status: paused", "status: completed")


@pytest.mark.parametrize(
    "break_it",
    [
        lambda folder: (folder / "state.yaml").write_text("a: [\n"),
        lambda folder: (folder / "state.yaml").write_text("version: '99'\nfeature_id: x\n"),
        lambda folder: (ROOT / "active-features.yaml").write_text("<<<<<<< a\n"),
        lambda folder: (ROOT / "active-features.yaml").unlink(),
        lambda folder: (folder / "history.jsonl").write_text('{"torn'),
    ],
)
def test_unreadable_session_is_not_cleaned_up(cli: Cli, break_it: object) -> None:
    folder = feature("over", "completed")
    assert callable(break_it)
    break_it(folder)
    before = tree()
    cli("files", "cleanup", "--pattern", "over*", "--yes")
    assert tree() == before


@pytest.mark.parametrize("text", ["<<<<<<< a\n", "a: [\n", ""])
def test_sessions_of_an_unreadable_index_are_reported_as_kept(cli: Cli, text: str) -> None:
    feature("over", "completed")
    (ROOT / "active-features.yaml").write_text(text)
    answer = cli("files", "cleanup", "--completed", "--yes")
    assert answer.code == 4 and "Kept: over-2025-01-09 (it cannot be read" in answer.out


@pytest.mark.req("S0-64", "S0-69")
@pytest.mark.parametrize("where", ["a second entry", "the state", "its current_state"])
def test_session_that_any_file_calls_active_is_not_cleaned_up(cli: Cli, where: str) -> None:
    folder, index = feature("over", "completed"), ROOT / "active-features.yaml"
    if where == "a second entry":
        rows = yaml.safe_load(index.read_text())["active_features"]
        _dump(index, {"active_features": [*rows, {**rows[0], "status": "active"}]})
    else:
        state = yaml.safe_load((folder / "state.yaml").read_text())
        (state if where == "the state" else state["current_state"])["status"] = "active"
        _dump(folder / "state.yaml", state)
    before = tree()
    assert cli("files", "cleanup", "--completed", "--yes").code == 4 and tree() == before


def test_session_that_cannot_be_moved_is_not_marked_completed(cli: Cli) -> None:
    feature("over", "paused")
    ARCHIVE.write_text("a file")
    assert cli("files", "cleanup", "--stale", "--yes").code == 4
    assert statuses() == {"over-2025-01-09": "paused"}


def test_folder_without_access_is_reported_as_kept(cli: Cli, tmp_path: Path) -> None:
    closed = feature("closed", "completed")
    feature("open", "completed")
    with as_nobody(tmp_path):
        closed.chmod(0)
        answer = cli("files", "cleanup", "--completed", "--yes")
        assert answer.code == 0 and "Archived: open" in answer.out, answer
        assert f"({closed} cannot be opened" in answer.out
        Path(".ai-session").chmod(0)
        for words in (("files", "cleanup", "--completed"), ("files", "report")):
            answer = cli(*words)
            assert answer.code == 1 and "ls -ld" in answer.err, answer
        Path(".ai-session").chmod(0o755)
        closed.chmod(0o755)
        assert "Archived: closed" in cli.ok("files", "cleanup", "--completed", "--yes").out


CLOSED = "closed-2026-01-31"


@pytest.mark.parametrize("place", ["", CLOSED])
def test_session_that_cannot_be_archived_stays_bound(cli: Cli, tmp_path: Path, place: str) -> None:
    session = cli.json("start", "A goal", "--bind", f"ai-session:{CLOSED}")["session"]
    cli.ok("complete")
    with as_nobody(tmp_path):
        Path(".ai-session", place).chmod(0o555)
        answer = cli("files", "cleanup", "--completed", "--yes")
        assert answer.code == 4 and "may not be written to" in answer.out, answer
        Path(".ai-session", place).chmod(0o755)
        assert cli.json("files", "--session", session)["formats"], "it is still bound"
        assert "Archived: closed" in cli.ok("files", "cleanup", "--completed", "--yes").out


def test_locked_session_is_not_cleaned_up(cli: Cli) -> None:
    folder = feature("over", "completed")
    with open(folder / ".state.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        answer = cli("files", "cleanup", "--yes")
    assert answer.code == 4 and folder.is_dir() and "another process" in answer.out


def test_session_with_the_lock_of_a_dead_process_is_not_cleaned_up(cli: Cli) -> None:
    folder = feature("over", "completed")
    (folder / ".state.lock").write_text("4194303\n")
    began = time.monotonic()
    answer = cli("files", "cleanup", "--yes")
    assert answer.code == 4 and folder.is_dir() and time.monotonic() - began < 4
    assert (
        "is the lock of process 4194303, which does not run on this machine: delete it"
        in answer.out
    )


def test_linked_folder_is_not_cleaned_up(cli: Cli, tmp_path: Path) -> None:
    folder = feature("over", "completed")
    os.rename(folder, tmp_path / "real")
    folder.symlink_to(tmp_path / "real")
    cli("files", "cleanup", "--yes")
    assert folder.is_symlink() and (tmp_path / "real" / "state.yaml").is_file()


def test_files_of_an_open_session_are_not_cleaned_up(cli: Cli) -> None:
    ours(cli)
    cli.ok("pause")
    answer = cli("files", "cleanup", "--stale", "--days", "0", "--yes")
    assert answer.code == 4 and "is paused" in answer.out
    assert (ROOT / "login-2026-01-31").is_dir()


def test_advice_for_kept_files_names_their_session(cli: Cli) -> None:
    ours(cli)
    cli.ok("pause")
    paused = cli.json("status")["session"]
    cli.ok("start", "another")
    answer = cli("files", "cleanup", "--stale", "--days", "0", "--yes")
    assert f"forestay complete --session {paused})" in answer.out


def test_note_in_a_cleaned_up_session_does_not_write_its_files_again(cli: Cli) -> None:
    ours(cli)
    cli.ok("complete")
    cli.ok("files", "cleanup", "--completed", "--yes")
    cli.ok("note", "later", "--session", cli.json("status")["session"])
    assert not (ROOT / "login-2026-01-31").exists()
    assert (ARCHIVE / "login-2026-01-31" / "state.yaml").is_file()


# -- report and update -----------------------------------------------------------------------------


@pytest.mark.req("X0-8")
def test_report_has_status_progress_and_command_figures(cli: Cli) -> None:
    feature("one", "active")
    feature("two", "paused", full=False)
    text = cli.ok("files", "report", "one-2025-01-09").out
    assert "Status:      active (Stale)" in text and "Active task: none" in text
    assert "Tasks:       1/1 (100%)" in text and "run (success)" in text
    feature("over", "completed")
    assert "Status:      completed\n" in cli.ok("files", "report", "over-2025-01-09").out
    reports = cli.json("files", "report")["reports"]
    assert [one["feature_id"] for one in reports][::2] == ["one-2025-01-09", "two-2025-01-09"]
    assert reports[0]["commands"] == {"run": 1} and reports[0]["models"] == {"opus": 1}
    assert (reports[0]["failures"], reports[0]["average_ms"], reports[0]["total_ms"]) == (0, 5, 5)
    assert reports[0]["active_task"] == "none" and reports[0]["health"] == "Stale"


@pytest.mark.req("X0-8")
def test_report_counts_the_artifacts_in_the_folder_by_their_kind(cli: Cli) -> None:
    feature("one", "active")
    feature("two", "paused", full=False)
    folder = ROOT / "one-2025-01-09" / "artifacts"
    (folder / "deep" / "er").mkdir(parents=True, exist_ok=True)
    for name in ("a.md", "deep/b.md", "deep/er/c.py", "LICENSE"):
        (folder / name).write_text("x")
    assert "Artifacts:   md 2, none 1, py 1\n" in cli.ok("files", "report", "one-2025-01-09").out
    (report,) = cli.json("files", "report", "two-2025-01-09")["reports"]
    assert report["artifacts"] == {}


def test_report_of_a_missing_feature_is_an_error(cli: Cli) -> None:
    assert cli("files", "report", "nothing-2025-01-09").code == 3
    assert cli.json("files", "report")["reports"] == []
    assert cli("files", "report", "--root", "nowhere").code == 2


@pytest.mark.parametrize("path", ["nowhere", ".ai-session/active-features.yaml"])
def test_cleanup_of_a_path_that_is_no_folder_is_an_error(cli: Cli, path: str) -> None:
    feature("done", "completed")
    before = tree()
    refused = cli("files", "cleanup", path, "--yes")
    assert refused.code == 2 and f"{path} is not a folder" in refused.err
    assert tree() == before


@pytest.mark.req("X0-6")
def test_update_sets_task_model_and_status_in_the_files(cli: Cli) -> None:
    ours(cli)
    cli.ok("task", "add", "Write it", "--id", "t1")
    before = _entry()["last_active"]
    cli.ok("files", "update", "login-2026-01-31", "--task=t1", "--model=opus", "--status=paused")
    state = yaml.safe_load((ROOT / "login-2026-01-31" / "state.yaml").read_text())
    assert state["current_state"]["active_task"] == "t1"
    assert state["current_state"]["model_in_use"] == "opus"
    assert _entry()["status"] == "paused" and _entry()["last_active"] >= before
    cli.ok("files", "update", "--status=active", "--task=none")
    state = yaml.safe_load((ROOT / "login-2026-01-31" / "state.yaml").read_text())
    assert _entry()["status"] == "active" and state["current_state"]["active_task"] is None


UPDATES = {
    "--task=t1 --model=opus": ["step.started", "attribute.set", "attribute.set"],
    "--status=paused": ["session.paused"],
    "--status=active": ["session.resumed"],
}


@pytest.mark.req("S0-60")
def test_every_update_adds_a_line_to_the_log(cli: Cli) -> None:
    ours(cli)
    cli.ok("task", "add", "Write it", "--id", "t1")
    log = ROOT / "login-2026-01-31" / "history.jsonl"
    for words, kinds in UPDATES.items():
        before = log.read_bytes()
        cli.ok("files", "update", *words.split())
        assert log.read_bytes().startswith(before)
        lines = [json.loads(line) for line in log.read_bytes()[len(before) :].splitlines()]
        assert [line["event"] for line in lines] == kinds
        assert {(line["model"], line["task_id"]) for line in lines} == {("opus", "t1")}


def _entry() -> dict[str, str]:
    rows = yaml.safe_load((ROOT / "active-features.yaml").read_text())["active_features"]
    return dict(rows[0])


@pytest.mark.req("S0-76", "S0-61")
@pytest.mark.parametrize(
    "wrong", ["--model=gpt", "--status=gone", "--task=nothing", "--status=completed --task=x"]
)
def test_update_refuses_values_unknown_to_the_format_and_records_nothing(
    cli: Cli, wrong: str
) -> None:
    ours(cli)
    before = tree()
    assert cli("files", "update", *wrong.split()).code == 2
    assert tree() == before


def test_update_without_values_or_of_an_unknown_feature_is_refused(cli: Cli) -> None:
    feature("one", "active")
    assert cli("files", "update", "one-2025-01-09", "--status=paused").code == 3
    cli.start()
    assert cli("files", "update").code == 2


@pytest.mark.req("X0-2")
@pytest.mark.parametrize("root", ["sessions", "{tmp}/sessions"])
def test_session_root_sets_the_folder_of_session_files(
    cli: Cli, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SESSION_ROOT", root.format(tmp=tmp_path))
    ours(cli)
    assert Path(root.format(tmp=tmp_path), "login-2026-01-31", "state.yaml").is_file()
    assert not ROOT.exists()
    assert len(cli.json("files", "report")["reports"]) == 1


# -- an editor at the same moment --------------------------------------------------------------


class Editor:
    """Add a session to the index during some steps of a file exchange."""

    def __init__(self, index: Path, patch: pytest.MonkeyPatch, turns: tuple[int, ...]) -> None:
        self._index, self._turns, self._step = index, list(turns), 0
        self.added: list[str] = []
        around_exchanges(patch, self._turn)

    def _turn(self) -> None:
        while self._turns and self._turns[0] == self._step:
            self._turns.pop(0)
            self.added.append(f"theirs{len(self.added)}-2025-01-09")
            value = yaml.safe_load(self._index.read_text())
            value["active_features"].append({"feature_id": self.added[-1], "status": "active"})
            swap_in(self._index, yaml.safe_dump(value, sort_keys=False).encode())
        self._step += 1


@pytest.mark.req("S0-63")
@pytest.mark.parametrize("turns", [*combinations_with_replacement(range(4), 3)], ids=str)
def test_entry_added_during_a_cleanup_is_preserved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turns: tuple[int, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    over = feature("over", "paused")
    editor = Editor(ROOT / "active-features.yaml", monkeypatch, turns)
    _mark_completed(str(ROOT / "active-features.yaml"), over.name)
    assert statuses() == {over.name: "completed", **dict.fromkeys(editor.added, "active")}
    assert not [name for name in os.listdir(ROOT) if name.startswith(".")]


def test_unreadable_index_written_during_a_cleanup_is_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    index, over = ROOT / "active-features.yaml", feature("over", "paused")
    real = swap_file._swap

    def swap(aside: str, path: str) -> bool:
        monkeypatch.setattr(swap_file, "_swap", real)
        swap_in(index, b"active_features: [\n")
        return real(aside, path)

    monkeypatch.setattr(swap_file, "_swap", swap)
    with pytest.raises(ForestayError):
        _mark_completed(str(index), over.name)
    assert index.read_text() == "active_features: [\n"
    assert not [name for name in os.listdir(ROOT) if name.startswith(".")]


def test_cleanup_checks_hundreds_of_sessions_within_a_minute(cli: Cli) -> None:
    feature("one", "completed")
    state = (ROOT / "one-2025-01-09" / "state.yaml").read_text()
    for number in range(400):
        folder = ROOT / f"s{number}-2025-01-09"
        folder.mkdir()
        (folder / "state.yaml").write_text(state.replace("one-2025-01-09", folder.name))
    began = time.process_time()
    assert len(cli.json("files", "cleanup", "--stale", "--dry-run")["sessions"]) == 401
    assert time.process_time() - began < 60
