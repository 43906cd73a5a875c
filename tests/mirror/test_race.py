"""Other programs write while we write: every edit is recorded, and no process waits forever."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement
from pathlib import Path

import pytest

from forestay.base.clock import Clock
from forestay.mirror.session_files import mirror_of
from tests.homes import state_of
from tests.mirror.conftest import Make
from tests.mirror.support import (
    AI_SESSION,
    Project,
    Ticking,
    around_exchanges,
    leftovers,
    ran,
    recorded,
    swap_in,
)

EDITS = 150
SECONDS = 90

# Read, add one value, replace the file in one step: the best that a program without our
# locks can do. It may overwrite what we wrote since it read the file, but never an edit of
# its own that it did not find in the file.
EDITOR = """
import json, os, random, sys, time
path, key, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
chance = random.Random(7)
for number in range(count):
    for _ in range(1000):
        try:
            value = json.loads(open(path, "rb").read())
            break
        except (FileNotFoundError, ValueError):
            time.sleep(0.001)
    if key == "decisions_made":
        stamp = f"2026-01-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z"
        new = {"decision": f"edit {number}", "rationale": "", "timestamp": stamp}
    else:
        new = f"edit {number}"
    if key:
        value[key].append(new)
    else:
        value[new] = "theirs"
    time.sleep(chance.random() * 0.004)
    with open(path + ".theirs", "w") as file:
        json.dump(value, file, indent=2)
    os.replace(path + ".theirs", path)
    time.sleep(chance.random() * 0.02)
"""


def editor(path: Path, key: str, count: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", EDITOR, str(path), key, str(count)])


def write_until_over(project: Project, other: subprocess.Popen[bytes]) -> int:
    """Record one event after the other while the other program works."""
    ends, number = time.monotonic() + SECONDS, 0
    while other.poll() is None:
        project.session.tasks.add(f"ours {number}")
        number += 1
        assert time.monotonic() < ends, "too slow, or stuck"
    project.session.note("the last look")
    return number


def expected(number: int) -> set[str]:
    return {f"edit {n}" for n in range(EDITS)} | {f"ours {n}" for n in range(number)}


@pytest.mark.parametrize("format_id", ["orchestrator", "craft"])
def test_edits_during_our_writes_are_all_recorded(make: Make, format_id: str) -> None:
    project = make(format_id)
    project.clock = Clock()
    project.again()
    other = editor(project.place, "pending_tasks", EDITS)
    number = write_until_over(project, other)
    titles = project.titles()
    lost = expected(number) - set(titles)
    assert lost == set() and len(titles) == len(set(titles)) == EDITS + number
    assert set(project.read()["pending_tasks"]) == expected(number)
    assert leftovers(project.folder) == [] and project.suspended == ""


def test_decisions_added_during_our_writes_are_all_recorded(make: Make) -> None:
    project = make("orchestrator")
    project.clock = Clock()
    project.again()
    other = editor(project.place, "decisions_made", EDITS)
    write_until_over(project, other)
    rows = state_of(project.session).rows.select("decision")
    assert {getattr(row, "what", "") for row in rows} == {f"edit {n}" for n in range(EDITS)}


def test_unknown_keys_survive_concurrent_writes(make: Make) -> None:
    project = make("craft")
    project.clock = Clock()
    project.again()
    write_until_over(project, editor(project.place, "", EDITS // 3))
    assert {f"edit {n}" for n in range(EDITS // 3)} <= project.read().keys()


WRITER = """
import sys, forestay
with forestay.open(sys.argv[1], cwd=sys.argv[2], trust_env=False) as home:
    session = home.session(sys.argv[3])
    for number in range(int(sys.argv[5])):
        session.tasks.add(f"{sys.argv[4]} {number}")
        session.record.command(f"{sys.argv[4]} {number}")
"""


def test_concurrent_writers_of_one_session_record_no_foreign_edit(make: Make) -> None:
    project = make("ai-session:login-2026-01-31", "orchestrator")
    arguments = [str(project.base / "home"), str(project.folder), project.session.id]
    names = ("a", "b", "c")
    running = [
        subprocess.Popen([sys.executable, "-c", WRITER, *arguments, name, "12"]) for name in names
    ]
    assert [each.wait(timeout=SECONDS) for each in running] == [0, 0, 0]
    project.session.note("the last look")
    wanted = {f"{name} {number}" for name in names for number in range(12)}
    assert project.edits() == [] and set(project.titles()) == wanted
    log = project.ai("history.jsonl")
    assert sorted(ran(log)) == sorted(wanted)
    assert sorted(recorded(log)) == ["note.added"] + ["step.added"] * len(wanted)
    current = project.folder / ".claude/orchestrator-session.json"
    assert set(project.read(current)["pending_tasks"]) == wanted
    assert leftovers(project.folder) == []


# -- step by step ------------------------------------------------------------------------------


class Stepwise:
    """An editor that acts right before and right after each of our exchanges."""

    def __init__(self, project: Project, patch: pytest.MonkeyPatch, turns: Sequence[int]) -> None:
        self._project, self._turns = project, list(turns)
        self._step, self._number, self._read = 0, 0, b""
        around_exchanges(patch, self._turn)

    def _turn(self) -> None:
        """Read the file at one turn; at the next one write that content with a new key."""
        place = self._project.place
        while self._turns and self._turns[0] == self._step:
            self._turns.pop(0)
            if len(self._turns) % 2:
                self._read = place.read_bytes()
                continue
            self._number += 1
            key = b"x%d" % self._number
            swap_in(place, self._read.replace(b"{", b'{\n  "%s": "theirs",' % key, 1))
        self._step += 1

    @property
    def made(self) -> set[str]:
        return {f"x{number + 1}" for number in range(self._number)}


@pytest.mark.parametrize(
    "turns",
    [*combinations_with_replacement(range(3), 4), (0, 2, 3, 3), (1, 2, 4, 4), (2, 2, 3, 4)],
    ids=str,
)
def test_unknown_key_survives_an_editor_at_any_step(
    make: Make, monkeypatch: pytest.MonkeyPatch, turns: tuple[int, ...]
) -> None:
    project = make("craft")
    editor = Stepwise(project, monkeypatch, turns)
    project.session.tasks.add("Ours")
    project.session.note("next")
    project.session.note("after that")
    assert editor.made <= project.read().keys() and "Ours" in project.read()["pending_tasks"]
    assert (
        leftovers(project.folder) == []
        and mirror_of(project.home.context).pending(project.session.id) == []
    )


# -- files that another program writes in place ------------------------------------------------

reported = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux reports which process writes a file"
)

SECOND = """\
      - task_id: second
        description: Second task
        agent: ''
        status: pending
        started_at: null
        completed_at: null
        artifacts: []
"""


@reported
def test_half_written_plan_is_not_absorbed(make: Make) -> None:
    project = make(AI_SESSION)
    project.session.tasks.add("First task")
    plan = project.ai("implementation-plan.yaml")
    whole = plan.read_text() + SECOND
    half = whole[: whole.index("Second") + len("Sec")]
    with plan.open("w") as file:
        file.write(half)
        file.flush()
        project.session.note("meanwhile")
        assert plan.read_text() == half and project.titles() == ["First task"]
        assert project.suspended == "implementation-plan.yaml is being written by another program"
        file.write(whole[len(half) :])
    project.session.note("next")
    assert project.titles() == ["First task", "Second task"] and project.suspended == ""


class Finishing(Ticking):
    """A clock that lets the other writer finish while we wait."""

    def __init__(self) -> None:
        super().__init__()
        self.others: list[Callable[[], None]] = []

    def sleep(self, seconds: float) -> None:
        while self.others:
            self.others.pop()()


@reported
def test_write_to_a_file_that_was_open_during_the_exchange_is_recorded(make: Make) -> None:
    project = make("craft")
    project.clock = clock = Finishing()
    project.again()
    opened = project.place.open("r+")
    edit = project.place.read_text().replace('"pending_tasks": []', '"pending_tasks": ["Theirs"]')

    def finish() -> None:
        with opened:
            opened.write(edit)
            opened.truncate()

    clock.others.append(finish)
    project.session.tasks.add("Ours")
    project.session.note("next")
    assert sorted(project.titles()) == ["Ours", "Theirs"] and leftovers(project.folder) == []


@reported
def test_file_that_stays_open_in_another_program_is_reported(make: Make) -> None:
    project = make("craft")
    with project.place.open("r+") as file:
        before = project.place.read_bytes()
        project.session.tasks.add("Ours")
        assert project.place.read_bytes() == before
        assert any("is being written by another program" in notice for notice in project.notices)
        file.seek(0)
        file.write(before.decode().replace('"pending_tasks": []', '"pending_tasks": ["Theirs"]'))
        file.truncate()
    project.session.note("next")
    assert sorted(project.titles()) == ["Ours", "Theirs"] and project.suspended == ""
    assert sorted(project.read()["pending_tasks"]) == ["Ours", "Theirs"]
