"""Sessions in the files of aiterm are listed with their conflicts; dead ones are archived."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import forestay
from forestay.base.clock import FakeClock
from forestay.mirror import aiterm

TOKEN = f"ghp_{'a1B2' * 9}"
STARTED = "2025-12-27T10:00:00Z"


@pytest.fixture
def dead() -> int:
    """Return the id of a process that has ended."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def write_live(folder: Path, id: str, pid: object, path: str = "/work", **more: Any) -> Path:
    file = folder / "active" / f"{id}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    known = {"session_id": id, "project": "p", "path": path, "git_branch": "main"}
    rest = {"git_dirty": False, "started": STARTED, "pid": pid, "task": "Fix it"}
    file.write_text(json.dumps({**known, **rest, **more}, indent=2))
    return file


@pytest.mark.req("X4-8")
def test_live_sessions_show_whether_their_process_runs(tmp_path: Path, dead: int) -> None:
    write_live(tmp_path, "a", os.getpid())
    write_live(tmp_path, "b", dead)
    one, two = aiterm.list_live(str(tmp_path))
    assert (one.session_id, one.task, one.git_branch, one.alive) == ("a", "Fix it", "main", True)
    assert (two.session_id, two.alive) == ("b", False)


@pytest.mark.req("X4-8")
def test_two_live_sessions_on_one_path_conflict(tmp_path: Path, dead: int) -> None:
    write_live(tmp_path, "a", os.getpid(), str(tmp_path))
    write_live(tmp_path, "b", os.getppid(), f"{tmp_path}/.")
    write_live(tmp_path, "c", dead, str(tmp_path))
    write_live(tmp_path, "d", os.getpid(), "/elsewhere")
    conflicts = {one.session_id: one.conflicts for one in aiterm.list_live(str(tmp_path))}
    assert conflicts == {"a": ["b"], "b": ["a"], "c": [], "d": []}


@pytest.mark.req("X4-8")
def test_prune_moves_dead_sessions_into_the_history_of_the_day(tmp_path: Path, dead: int) -> None:
    alive, gone = (
        write_live(tmp_path, "a", os.getpid()),
        write_live(tmp_path, "b", dead, mine={"kept": 1}),
    )
    before = json.loads(gone.read_text())
    aiterm.prune(str(tmp_path), FakeClock(1_766_834_400_000))
    kept = tmp_path / "history" / "2025-12-27" / "b.json"
    assert json.loads(kept.read_text()) == {
        **before,
        "ended": "2025-12-27T11:20:00Z",
        "status": "pruned",
    }
    assert alive.is_file() and not gone.exists()


def test_prune_overwrites_nothing_in_the_history(tmp_path: Path, dead: int) -> None:
    file = write_live(tmp_path, "b", dead)
    kept = tmp_path / "history" / "2025-12-27" / "b.json"
    kept.parent.mkdir(parents=True)
    kept.write_text("older")
    (one,) = aiterm.prune(str(tmp_path), FakeClock(1_766_834_400_000))
    assert kept.read_text() == "older" and file.is_file() and not one.pruned


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b"\xff", b'{"session_id": 3}'])
def test_unreadable_file_is_reported_and_unchanged(tmp_path: Path, data: bytes) -> None:
    file = write_live(tmp_path, "odd", 1)
    file.write_bytes(data)
    (one,) = aiterm.prune(str(tmp_path), FakeClock())
    assert one.session_id == "odd" and one.problem and file.read_bytes() == data


@pytest.mark.parametrize("pid", [None, True, "12", -1, 0, 2**70])
def test_invalid_pid_is_not_alive(tmp_path: Path, pid: object) -> None:
    write_live(tmp_path, "a", pid)
    (one,) = aiterm.list_live(str(tmp_path))
    assert not one.alive


@pytest.mark.req("X4-8")
def test_default_folder_is_below_the_users_home(tmp_path: Path) -> None:
    write_live(Path(os.environ["HOME"]) / ".claude" / "sessions", "a", os.getpid())
    with forestay.open(str(tmp_path / "hold")) as stay:
        assert [one.session_id for one in stay.files.live()] == ["a"]


@pytest.mark.parametrize("prune", [False, True])
def test_secrets_of_live_sessions_are_redacted_and_stay_in_the_file(
    tmp_path: Path, dead: int, prune: bool
) -> None:
    file = write_live(tmp_path / "live", "a", dead, task=f"use {TOKEN}", git_branch=TOKEN)
    before = json.loads(file.read_text())
    with forestay.open(str(tmp_path / "hold")) as stay:
        (one,) = stay.files.live(str(tmp_path / "live"), prune=prune)
    assert TOKEN not in repr(one) and one.task.startswith("use ")
    kept = json.loads(Path(one.pruned or file).read_text())
    assert kept["task"] == before["task"]
