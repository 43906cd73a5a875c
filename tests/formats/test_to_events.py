"""Facts become events and events become facts: what files tell is what the journal then says."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import forestay
from forestay.api.forestay import Forestay
from forestay.formats import carry_over
from forestay.formats.facts import DecisionFact, Facts, FileFact, StepFact, plain
from forestay.formats.from_state import facts_of
from forestay.formats.port import Where, load_format
from forestay.formats.to_events import adoption_moves, match_steps, moves
from forestay.journal.journal import AppendOptions
from tests.formats.test_pairs import STORIES, read

NOW = Where(now=1_794_790_140_085, naive="utc")

# True of one machine, or of the files alone: the journal does not tell these.
APART = {"native_id", "device", "project_path", "resumed_at", "updated_at", "position"}
# An event has one time; formats that round it, or have none, tell less.
BY_NAME = {"steps": "title", "agents": "id", "decisions": "what", "claims": "text"}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Forestay]:
    with forestay.open(str(tmp_path / "home"), cwd=str(tmp_path), trust_env=False) as opened:
        yield opened


def reported(story: str) -> Facts:
    tree = read(STORIES[story])
    return carry_over.read(load_format(_format_of(story)), tree, NOW)


def _format_of(story: str) -> str:
    return story.partition("/")[0]


def recorded(home: Forestay, facts: Facts, name: str) -> Facts:
    made = adoption_moves(facts, name)
    home.context.journal.append(
        "s1",
        *(move.body for move in made),
        actor=f"file:{name}",
        create=True,
        options=AppendOptions(at=[move.at or facts.began_at or 0 for move in made], foreign=True),
    )
    return stored(home)


def stored(home: Forestay) -> Facts:
    with home.context.store.view("s1") as view:
        return facts_of(home.context.journal.state(view), list(home.context.journal.events(view)))


@pytest.mark.parametrize("story", STORIES)
def test_adopted_journal_has_the_facts_of_the_file(home: Forestay, story: str) -> None:
    facts = reported(story)
    again = plain(recorded(home, facts, _format_of(story)))
    for field, value in plain(facts).items():
        if field in APART:
            continue
        if field in BY_NAME:
            assert _by(BY_NAME[field], again[field]) == _by(BY_NAME[field], value)
        elif not (field == "tokens_by_agent" and not value):
            assert _as_told(again[field], value) == value, field
    assert home.context.journal.verify("s1").ok


def _as_told(again: Any, value: Any) -> Any:
    """Without the times that a file does not tell: every event has one."""
    if not isinstance(value, list) or len(again) != len(value):
        return again
    pairs = zip(again, value, strict=True)
    return [{key: new[key] for key in new if key != "at" or key in old} for new, old in pairs]


def _by(key: str, entries: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Names and statuses; in the journal no agent waits, it was started or is not there."""
    waiting = {"pending": "running", "blocked": "running"} if key == "id" else {}
    default = "running" if key == "id" else "pending"
    reported = [(entry[key], entry.get("status", default)) for entry in entries]
    return sorted((name, waiting.get(status, status)) for name, status in reported)


@pytest.mark.parametrize("story", STORIES)
def test_equal_readings_of_a_file_give_no_events(story: str) -> None:
    assert moves(reported(story), reported(story)) == []


def test_recorded_events_lead_from_one_reading_of_a_file_to_the_next(home: Forestay) -> None:
    before = reported("craft/first")
    recorded(home, before, "craft")
    after = replace(
        before,
        status="completed",
        progress=0.9,
        steps=[replace(step, status="done") for step in before.steps],
        decisions=[*before.decisions, DecisionFact("Use Postgres", at=1_770_000_000_000)],
        files=[*before.files, FileFact("b.py", "created", at=1_770_000_000_000)],
        attributes={**before.attributes, "craft.mood": "good"},
    )
    made = moves(before, after)
    bodies, times = [move.body for move in made], [move.at for move in made]
    home.context.journal.append(
        "s1", *bodies, actor="file:craft", options=AppendOptions(at=times, foreign=True)
    )
    now = stored(home)
    assert (now.status, now.progress) == ("completed", 0.9)
    assert {step.status for step in now.steps} == {"done"}
    assert [d.what for d in now.decisions] == [d.what for d in after.decisions]
    assert [f.path for f in now.files] == [f.path for f in after.files]
    assert now.attributes["craft.mood"] == "good"
    assert home.context.journal.verify("s1").ok


def test_steps_are_paired_by_id_then_by_title_and_get_an_unused_id() -> None:
    base = [StepFact("Write", id="t1"), StepFact("Test", id="t2")]
    new = [
        StepFact("Test"),
        StepFact("Rewrite", id="t1"),
        StepFact("Ship it!"),
        StepFact("Ship it?"),
    ]
    pairs = [(old and old.id, step.id) for old, step in match_steps(base, new)]
    assert pairs == [("t2", "t2"), ("t1", "t1"), (None, "ship-it"), (None, "ship-it-2")]


def test_texts_not_allowed_in_events_are_cleaned_and_not_refused(home: Forestay) -> None:
    facts = Facts(
        goal="two\nlines \x1b[31m" + "x" * 5000,
        steps=[StepFact("a\x00b" * 900, id="../../etc/passwd"), StepFact("\u202eevil", id="CON")],
        decisions=[DecisionFact("", options=["a"], chosen="b")],
        attributes={"essay.x": "y" * 20_000},
    )
    again = recorded(home, facts, "essay")
    assert again.goal.startswith("two lines ") and len(again.goal) <= 2000
    assert [step.id for step in again.steps] == ["../../etc/passwd", "CON"]
    assert home.context.journal.verify("s1").ok


@pytest.mark.parametrize("titles", [["Same"] * 20_000, [f"Task {n}" for n in range(20_000)]])
def test_thousands_of_tasks_get_unique_ids_in_bounded_time(titles: list[str]) -> None:
    began = time.process_time()
    ids = [step.id for _, step in match_steps([], [StepFact(title=title) for title in titles])]
    assert len(set(ids)) == len(ids) and time.process_time() - began < 60


def test_session_without_a_goal_is_named_after_its_id_once() -> None:
    ids = ("essay-1b2c", "2026-01-31-abc123")
    goals = [
        getattr(adoption_moves(Facts(native_id=id), "essay")[0].body, "goal", "") for id in ids
    ]
    assert goals == ["essay 1b2c", "essay 2026-01-31-abc123"]
