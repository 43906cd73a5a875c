"""What a call recorded still exists after its process is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import forestay

CHILD = """
import os, signal, sys
import forestay

s = forestay.open(sys.argv[1], cwd=sys.argv[2]).session("work")
exec(sys.argv[3])
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed_after(home: Path, folder: Path, code: str) -> None:
    command = [sys.executable, "-c", CHILD, str(home), str(folder), code]
    assert subprocess.run(command).returncode == -signal.SIGKILL


def begin(home: Path, folder: Path) -> None:
    with forestay.open(str(home), cwd=str(folder)) as stay:
        session = stay.start("port the parser", id="work")
        session.tasks.add("the lexer", id="lexer")
        session.tasks.done("lexer", outcome="all tokens")
        session.tasks.add("the grammar", id="grammar")
        session.agents.start("old", task="the grammar")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        pytest.param(
            's.agents.start("new", task="docs")', "agent.started", marks=pytest.mark.req("S4-72")
        ),
        pytest.param(
            's.agents.done("old", result="ok")', "agent.finished", marks=pytest.mark.req("S4-73")
        ),
        pytest.param(
            's.agents.fail("old", "no memory", category="resource")',
            "agent.failed",
            marks=pytest.mark.req("S4-74"),
        ),
        pytest.param(
            's.decide("LALR", because="fast")', "decision.made", marks=pytest.mark.req("S4-75")
        ),
        ('s.note("save this")', "note.added"),
        ("s.record.compaction()", "context.compressed"),
    ],
)
def test_recorded_event_survives_a_kill(tmp_path: Path, code: str, kind: str) -> None:
    begin(tmp_path / "home", tmp_path)
    killed_after(tmp_path / "home", tmp_path, code)
    with forestay.open(str(tmp_path / "home"), cwd=str(tmp_path)) as stay:
        session = stay.session("work")
        assert [line.event.kind for line in session.log(limit=1)] == [kind]
        assert session.verify().ok


@pytest.mark.req("S1-9", "S1-12")
def test_briefing_after_a_kill_contains_everything(tmp_path: Path) -> None:
    begin(tmp_path / "home", tmp_path)
    code = 's.tasks.block("grammar", "the specification is ambiguous"); s.pause(context="asked")'
    killed_after(tmp_path / "home", tmp_path, code)
    with forestay.open(str(tmp_path / "home"), cwd=str(tmp_path)) as stay:
        text = stay.current().brief(budget=800).text
    for fact in ("port the parser", "lexer", "all tokens", "ambiguous", "asked", "paused"):
        assert fact in text


@pytest.mark.req("S1-13")
def test_state_equals_the_fold_of_the_journal(tmp_path: Path) -> None:
    from forestay.model.fold import fold
    from tests.histories import image

    begin(tmp_path / "home", tmp_path)
    with forestay.open(str(tmp_path / "home"), cwd=str(tmp_path)) as stay:
        session = stay.session("work")
        with stay.context.store.view("work") as view:
            stored = image(stay.context.journal.state(view))
        assert stored == image(fold(line.event for line in session.log()))


STARTING = """
import os, signal, sys
import forestay
from forestay.store.sqlite.store import SqliteStore

plain = SqliteStore.append

def append(*args, **more):
    plain(*args, **more)
    os.kill(os.getpid(), signal.SIGKILL)

SqliteStore.append = append
forestay.open(sys.argv[1], cwd=sys.argv[2]).start("port the parser", id="work")
"""


def test_started_session_is_current_and_listed_after_a_kill(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTING, str(tmp_path / "home"), str(tmp_path)]
    assert subprocess.run(command).returncode == -signal.SIGKILL
    with forestay.open(str(tmp_path / "home"), cwd=str(tmp_path)) as stay:
        assert [one.session for one in stay.list()] == ["work"]
        assert stay.current().id == "work"
        assert stay.current().status().project == tmp_path.name
