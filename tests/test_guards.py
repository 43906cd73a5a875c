"""Guards against rare faults. Each test fails when its guard is removed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import forestay
from forestay import Forestay, Refused
from forestay.base import files
from forestay.base.clock import Clock
from forestay.briefing.brief import brief
from forestay.briefing.sections import Surroundings
from forestay.briefing.token_estimate import estimate
from forestay.model import event as ev
from forestay.store.machine.remotes import PARALLEL
from forestay.workspace import tree
from tests.agents.spooling import Hooks
from tests.model.stories import Journal


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


@pytest.fixture
def home(tmp_path: Path, project: Path) -> Iterator[Forestay]:
    with forestay.open(str(tmp_path / "home"), cwd=str(project)) as opened:
        yield opened


def test_device_with_a_disputed_id_may_not_erase(home: Forestay) -> None:
    session = home.start("Fix login", id="login")
    assert home.context.journal.rights(session.id).may_erase("laptop", "laptop")
    home.context.store.machine.remotes.note_at_home(session.id, PARALLEL, {"somewhere": "laptop"})
    assert not home.context.journal.rights(session.id).may_erase("laptop", "laptop")


@pytest.mark.parametrize("context", ["writing the tests", ""])
def test_key_of_a_pause_is_refused_with_another_context(home: Forestay, context: str) -> None:
    session = home.start("Fix login")
    first = session.pause(context="reading the code", key="k")
    assert session.pause(context="reading the code", key="k").seq == first.seq
    with pytest.raises(Refused, match="the key k"):
        session.pause(context=context, key="k")


@pytest.mark.parametrize("seconds, recorded", [(1, 1), (11, 2), (99, 2)])
def test_equal_prompts_count_as_one_only_within_ten_seconds(
    tmp_path: Path, seconds: int, recorded: int
) -> None:
    hooks = Hooks(tmp_path)
    prompt = b'{"session_id":"n1","hook_event_name":"UserPromptSubmit","prompt":"Carry on"}'
    for at in (1000, 1000 + seconds):
        hooks.put(prompt, "UserPromptSubmit", at=at)
    with hooks.open() as opened:
        opened.agents.ingest()
    # The first prompt is also the goal of the session that it starts.
    assert [text for kind, text in hooks.events() if kind == "message.sent"] == [
        "Carry on"
    ] * recorded


def commit(folder: Path) -> str:
    folder.mkdir(exist_ok=True)
    author = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for words in (["init", "-q"], [*author, "commit", "-q", "--allow-empty", "-m", str(folder)]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_checkout_of_another_folder_is_not_recorded(
    tmp_path: Path, home: Forestay, project: Path
) -> None:
    ours, theirs = commit(project), commit(tmp_path / "elsewhere")
    session = home.start("Fix login", id="login")
    with forestay.open(str(tmp_path / "home"), cwd=str(tmp_path / "elsewhere")) as elsewhere:
        elsewhere.session("login").pause()
    assert ours != theirs
    paused = [line.event.body for line in session.log()][-1]
    assert isinstance(paused, ev.SessionPaused) and paused.git_commit == ""
    session.resume()
    here = session.pause().body
    assert isinstance(here, ev.SessionPaused) and here.git_commit == ours


def test_no_section_of_a_briefing_takes_half_of_the_budget() -> None:
    journal = Journal().add(ev.SessionStarted(goal="Fix login"))
    for n in range(60):
        journal.add(ev.DecisionMade(decision=f"d{n}", what=f"decision {n} " * 8))
        journal.add(ev.NoteAdded(text=f"remark {n} " + "about something else " * 4))
        journal.add(ev.ErrorRaised(message=f"error {n} " + "in some place " * 6))
    made = brief(journal.state(), Surroundings(), budget=1000)
    sections = made.text.split("\n\n")[1:]
    assert len(sections) >= 3
    assert max(estimate(section) for section in sections) < 1000 * 0.5


@pytest.mark.parametrize("milliseconds, found", [(5, "merge"), (5_000, "")])
def test_git_is_cached_as_idle_only_after_the_tick_of_its_last_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, milliseconds: int, found: str
) -> None:
    commit(tmp_path)
    where = tree.find_tree(str(tmp_path))
    changed = os.stat(tmp_path / ".git").st_ctime_ns // 1_000_000

    class Frozen(Clock):
        def now(self) -> int:
            return changed + milliseconds

    monkeypatch.setattr(tree, "Clock", Frozen)
    # Simulate a disk on which two changes within one tick leave the same stamp.
    monkeypatch.setattr(files, "stamp_of", lambda facts: "the same")
    assert tree.git_operation(where) == ""
    (tmp_path / ".git" / "MERGE_HEAD").touch()
    assert tree.git_operation(where) == found
