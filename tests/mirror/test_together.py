"""Many sessions start in one project at the same moment: each successful start has its files, and a
refused one leaves nothing."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import forestay
from forestay.api.forestay import Forestay
from forestay.base import files
from forestay.errors import Refused
from forestay.store.machine.bindings import Binding

MANY = 4
SECONDS = 60
UUID = "0b0a7a7e-94c1-4b13-a5ee-6ad2b0a7c001"
DAY_ID = "2026-01-31-abcdef"

# Each process loads its modules, reports that it is ready, and waits for a line of input.
PROCESS = """
import sys, forestay, forestay.api.start, forestay.mirror.mirror, forestay.mirror.adopt
import forestay.mirror.orchestrator_session
from forestay.errors import ForestayError
act = eval(sys.argv[3])
with forestay.open(sys.argv[1], cwd=sys.argv[2], trust_env=False) as home:
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        print("did", act(home))
    except ForestayError as error:
        print("refused", error)
"""


def run_at_once(folder: Path, acts: list[tuple[str, str]]) -> list[str]:
    """Run acts (home and code) at once, each in its own process; return the results in order."""
    with ExitStack() as all_of_them:
        running = [
            all_of_them.enter_context(_process(str(folder.parent / home), folder, act))
            for home, act in acts
        ]
        for each in running:
            assert each.stdout is not None and each.stdout.readline() == "ready\n"
        for each in running:
            assert each.stdin is not None
            each.stdin.write("go\n")
            each.stdin.flush()
        return [each.communicate(timeout=SECONDS)[0].strip() for each in running]


@contextmanager
def _process(home: str, folder: Path, act: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", PROCESS, home, str(folder), act]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def start_acts(*formats: str, home: str = "home") -> list[tuple[str, str]]:
    """Return acts that start several sessions of a home in the same formats."""
    act = f"lambda home: home.start('Add login page', formats={list(formats)}).id"
    return [(home, act)] * MANY


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


@pytest.fixture
def seen(folder: Path) -> Iterator[Callable[[str], Forestay]]:
    with ExitStack() as opened:

        def open_home(home: str = "home") -> Forestay:
            path, cwd = str(folder.parent / home), str(folder)
            return opened.enter_context(forestay.open(path, cwd=cwd, trust_env=False))

        yield open_home


def has_its_file(binding: Binding) -> bool:
    """Return whether the file of a binding exists and belongs to its session."""
    text = Path(binding.place).read_text()
    return binding.native in text or binding.native in binding.place


FIVE = ("ai-session", "praxis", "craft", "essay", "orchestrator")


@pytest.mark.parametrize("formats", [("orchestrator",), FIVE])
def test_sessions_started_at_the_same_time_all_have_files(
    folder: Path, seen: Callable[..., Forestay], formats: tuple[str, ...]
) -> None:
    stated = run_at_once(folder, start_acts(*formats))
    home = seen()
    assert Counter(stated) == Counter(f"did {line.session}" for line in home.list())
    assert len(stated) == MANY
    bound = [home.session(line.session).files.list() for line in home.list()]
    assert all(sorted(b.format for b in each) == sorted(formats) for each in bound)
    assert all(has_its_file(binding) and not binding.suspended for e in bound for binding in e)
    assert len({binding.place for each in bound for binding in each}) == MANY * len(formats)


ESSAY = f"essay:essay-{UUID}"
NAMED = [f"craft:{UUID}", ESSAY, f"orchestrator:{DAY_ID}"]


@pytest.mark.parametrize("format_id", NAMED)
def test_one_of_several_starts_with_the_same_id_succeeds_and_the_others_leave_nothing(
    folder: Path, seen: Callable[..., Forestay], format_id: str
) -> None:
    stated = run_at_once(folder, start_acts("praxis", format_id))
    home = seen()
    (begun,) = home.list()
    reported = Counter(line.split()[0] for line in stated)
    assert reported == {"did": 1, "refused": MANY - 1} and f"did {begun.session}" in stated
    assert len(list(folder.glob(".praxis-os/.cache/state/*"))) == 1


def test_one_of_two_homes_gets_the_only_place_and_the_other_records_nothing(
    folder: Path, seen: Callable[..., Forestay]
) -> None:
    both = [*start_acts("orchestrator", home="one"), *start_acts("orchestrator", home="other")]
    stated = run_at_once(folder, both)
    had = {home: seen(home).list() for home in ("one", "other")}
    assert sorted(map(len, had.values())) == [0, MANY]
    assert Counter(line.split()[0] for line in stated) == {"did": MANY, "refused": MANY}
    assert all("already exists" in line for line in stated if line.startswith("refused"))


def test_sessions_bound_to_the_only_place_at_the_same_time_all_have_a_file(
    folder: Path, seen: Callable[..., Forestay]
) -> None:
    home = seen()
    ids = [home.start(f"goal {number}").id for number in range(MANY)]
    act = "lambda home: home.session('{}').files.bind('orchestrator').session"
    stated = run_at_once(folder, [("home", act.format(id)) for id in ids])
    assert stated == [f"did {id}" for id in ids]
    bound = [binding for id in ids for binding in home.session(id).files.list()]
    assert len(bound) == MANY and all(map(has_its_file, bound))


def test_concurrent_starts_lose_no_session_of_another_program(
    folder: Path, seen: Callable[..., Forestay]
) -> None:
    theirs: dict[str, Any] = {"schema_version": "1.0", "session_id": DAY_ID, "status": "paused"}
    (folder / ".claude").mkdir()
    (folder / ".claude/orchestrator-session.json").write_text(json.dumps(theirs))
    act = "lambda home: home.files.orchestrator.new('Add login page')[0].id"
    stated = run_at_once(folder, [("home", act)] * MANY)
    assert all(line.startswith("did ") for line in stated)
    kept = folder / f".claude/orchestrator-history/{DAY_ID}.json"
    assert json.loads(kept.read_text()) == theirs
    bound = [b for line in seen().list() for b in seen().session(line.session).files.list()]
    assert len(bound) == MANY and all(map(has_its_file, bound))


@pytest.mark.parametrize(
    "act", ["start('the next', formats=['orchestrator'])", "files.orchestrator.current()"]
)
def test_start_waits_for_the_lock_of_the_project(
    folder: Path, seen: Callable[..., Forestay], act: str
) -> None:
    (binding,) = seen().start("the first", formats=["orchestrator"]).files.list()
    place = Path(binding.place)
    whole = place.read_bytes()
    with _process(str(folder.parent / "home"), folder, f"lambda home: home.{act}.id") as other:
        assert other.stdin is not None and other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        with files.locked(str(folder)):
            place.write_text(json.dumps({"schema_version": "1.0", "session_id": DAY_ID}))
            other.stdin.write("go\n")
            other.stdin.flush()
            time.sleep(0.5)
            place.write_bytes(whole)
        assert other.communicate(timeout=SECONDS)[0].startswith("did ")
    assert DAY_ID not in {line.session for line in seen().list()}


# -- after a crash -----------------------------------------------------------------------------


def test_files_of_an_interrupted_start_are_written_to_its_project_by_the_next_command(
    folder: Path, seen: Callable[..., Forestay], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as killed:
        killed.setattr("forestay.plans.pending_file_ops.finish", lambda home, session: None)
        begun = seen().start("Add login page", formats=["craft", ESSAY]).id
    assert seen().session(begun).files.list() == []
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir()
    with forestay.open(str(folder.parent / "home"), cwd=str(elsewhere), trust_env=False) as home:
        home.session(begun).note("go on")
    bound = {binding.format: binding for binding in seen().session(begun).files.list()}
    assert bound.keys() == {"craft", "essay"} and all(map(has_its_file, bound.values()))
    assert bound["craft"].root.startswith(str(folder)) and not list(elsewhere.iterdir())


def test_interrupted_start_whose_place_another_session_has_is_reported_once(
    folder: Path, seen: Callable[..., Forestay], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as killed:
        killed.setattr("forestay.plans.pending_file_ops.finish", lambda home, session: None)
        begun = seen().start("Add login page", formats=[f"craft:{UUID}"]).id
    other = seen().start("another", formats=[f"craft:{UUID}"])
    reported: list[str] = []
    for _ in range(2):
        path, cwd = str(folder.parent / "home"), str(folder)
        with forestay.open(path, cwd=cwd, trust_env=False, on_notice=reported.append) as home:
            home.session(begun).note("go on")
    (line,) = (line for line in reported if "no craft:" in line)
    assert other.id in line and seen().session(begun).files.list() == []


def test_start_is_refused_if_the_open_session_cannot_have_the_files(
    folder: Path, seen: Callable[..., Forestay]
) -> None:
    home = seen()
    begun = home.start("Add login page", workflow="feature", target="a.py")
    begun.pause()
    home.start("another", formats=[f"craft:{UUID}"])
    with pytest.raises(Refused, match="already exists"):
        home.start("again", workflow="feature", target="a.py", formats=[f"craft:{UUID}"])
    assert begun.status().status == "paused"


def test_repeated_start_with_the_same_key_binds_the_given_files(
    seen: Callable[..., Forestay],
) -> None:
    seen().start("Add login page", key="k")
    for _ in range(2):
        again = seen().start("Add login page", key="k", formats=["craft", "orchestrator"])
        bound = again.files.list()
        assert again.repeated and [each.format for each in bound] == ["craft", "orchestrator"]
        assert all(map(has_its_file, bound))
