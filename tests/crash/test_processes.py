"""Eight processes on one session, some killed and stopped, lose and double nothing."""

import itertools
import os
import shutil
import time
from pathlib import Path

import pytest

import forestay
from forestay.model.event import NoteAdded
from tests.chance import new_seed
from tests.crash.herd import HerdResult, run_herd, writer_module, wrong_numbers
from tests.crash.herd_writers import SESSION, toy_journal

WRITERS = 8
EVENTS = 1000
SEED = int(os.environ.get("FORESTAY_CRASH_SEED", "20"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def run_writers(writer: str, home: Path, *, count: int, calm: int, seed: int = SEED) -> HerdResult:
    result = run_herd(
        writer_module(writer, home), writers=WRITERS, count=count, calm=calm, seed=seed
    )
    print(result)
    return result


def assert_store_is_sound(home: Path, result: HerdResult) -> None:
    with forestay.open(str(home), cwd=str(home), trust_env=False) as opened:
        session = opened.session(SESSION)
        bodies = [line.event.body for line in session.log()]
        found = [body.text for body in bodies if isinstance(body, NoteAdded)]
        assert result.problems(found) == []
        assert session.verify().findings == []


def start(home: Path) -> None:
    with forestay.open(str(home), cwd=str(home), trust_env=False) as opened:
        opened.start("a herd", id=SESSION)


def test_eight_processes_lose_and_double_nothing(home: Path) -> None:
    start(home)
    result = run_writers("store", home, count=EVENTS, calm=80)
    assert_store_is_sound(home, result)
    assert min(result.hits["killed"], result.hits["stopped"]) >= WRITERS


@pytest.mark.soak
def test_repeated_herds_lose_and_double_nothing(home: Path, soak_seconds: float) -> None:
    ends = time.monotonic() + soak_seconds
    first = new_seed()
    for number in itertools.count():
        place = home / str(number)
        place.mkdir(mode=0o700)
        start(place)
        assert_store_is_sound(
            place, run_writers("store", place, count=1000, calm=50, seed=first + number)
        )
        shutil.rmtree(place)
        if time.monotonic() > ends:
            return


def test_a_correct_toy_passes_the_herd(home: Path) -> None:
    result = run_writers("correct", home, count=100, calm=50)
    assert result.problems(toy_journal(str(home))) == []


@pytest.mark.parametrize("writer, mistake", [("keyless", "doubled"), ("early", "lost")])
def test_a_wrong_toy_fails_the_herd(home: Path, writer: str, mistake: str) -> None:
    result = run_writers(writer, home, count=20, calm=5)
    assert mistake in " ".join(result.problems(toy_journal(str(home))))


@pytest.mark.parametrize(
    "numbers, problems",
    [
        ([1, 2, 3], []),
        ([1, 3], ["lost [2]"]),
        ([1, 2, 2, 3], ["doubled [2]"]),
        ([2, 1, 3], ["out of order"]),
        ([1, 2, 3, 2], ["doubled [2]", "out of order"]),
    ],
)
def test_lost_doubled_and_unordered_numbers_are_named(
    numbers: list[int], problems: list[str]
) -> None:
    assert wrong_numbers(numbers, 3) == problems
