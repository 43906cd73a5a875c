"""The conventions of a format besides its files: existing folders, and its lock."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

import forestay
from forestay.api.forestay import Forestay
from forestay.base.clock import FakeClock
from forestay.errors import InvalidInput, Refused

ID = "login-2026-01-31"


@pytest.fixture
def stated() -> list[str]:
    return []


@pytest.fixture
def stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stated: list[str]) -> Forestay:
    monkeypatch.chdir(tmp_path)
    return forestay.open(str(tmp_path / "hold"), clock=FakeClock(), on_notice=stated.append)


@pytest.mark.req("X0-4", "X0-3", "S0-72")
@pytest.mark.parametrize("inside", ["", "notes.txt", "state.yaml"])
def test_binding_to_an_existing_session_folder_is_refused_and_changes_nothing(
    stay: Forestay, tmp_path: Path, inside: str
) -> None:
    folder = tmp_path / ".ai-session" / ID
    folder.mkdir(parents=True)
    if inside:
        (folder / inside).write_text("someone's")
    with stay:
        session = stay.start("Add login")
        with pytest.raises(Refused, match="already exists"):
            session.files.bind(f"ai-session:{ID}")
        session.note("and nothing comes later")
        assert session.files.list() == []
    assert sorted(p.name for p in folder.iterdir()) == ([inside] if inside else [])
    assert [p.name for p in folder.parent.iterdir()] == [ID]


@pytest.mark.req("X0-3", "S0-72")
def test_session_id_that_the_index_already_lists_is_refused(stay: Forestay, tmp_path: Path) -> None:
    root = tmp_path / ".ai-session"
    root.mkdir()
    listed = f"active_features:\n- feature_id: {ID}\n  status: active\n"
    (root / "active-features.yaml").write_text(listed)
    with stay, pytest.raises(Refused, match="already exists"):
        stay.start("Add login").files.bind(f"ai-session:{ID}")
    assert [path.name for path in root.iterdir()] == ["active-features.yaml"]
    assert (root / "active-features.yaml").read_text() == listed


@pytest.mark.req("X0-3", "S0-71")
@pytest.mark.parametrize(
    "id", ["-login-2026-01-31", "login-", "Login-2026-01-31", "../x-2026-01-31"]
)
def test_invalid_feature_id_is_refused_and_creates_nothing(
    stay: Forestay, tmp_path: Path, id: str
) -> None:
    with stay:
        session = stay.start("Add login")
        with pytest.raises(InvalidInput, match=r"^Error: Invalid feature ID"):
            session.files.bind(f"ai-session:{id}")
    assert not (tmp_path / ".ai-session").exists()


@pytest.mark.req("X0-5", "S0-65", "S0-87")
def test_state_lock_held_by_another_program_is_awaited_for_five_seconds_and_not_broken(
    stay: Forestay, tmp_path: Path, stated: list[str]
) -> None:
    with stay:
        session = stay.start("Add login", formats=[f"ai-session:{ID}"])
        state = tmp_path / ".ai-session" / ID / "state.yaml"
        before, began = state.read_bytes(), stay.context.clock.monotonic()
        with open(state.parent / ".state.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            session.tasks.add("One", id="t1")
        assert 5.0 <= stay.context.clock.monotonic() - began < 60
        assert state.read_bytes() == before and ".state.lock" in " ".join(stated)
        session.tasks.start("t1")
    assert b'active_task: "t1"' in state.read_bytes()
