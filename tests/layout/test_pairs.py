"""From each layout into each other and back: the same bytes, and every change that was made there.

The documents in `stories/` are written by hand, in manners of their own (odd indents, comments,
keys that no layout knows), because that is what has to survive.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.layout import EXTRA, REGISTRY, Tree, Where, carry, layout
from holdfast.layout.document import Document
from holdfast.layout.manner import dress

HERE = Where(now=1_794_790_140_085, project_path="/home/me/app", device="desk")
ELSEWHERE = Where(now=1_894_790_140_085, project_path="/srv/app", device="server")

Files = dict[str, bytes]
FOLDER = Path(__file__).parent / "stories"


def _main_first(path: Path) -> tuple[bool, str]:
    return path.name != "state.yaml", str(path)


STORIES: dict[str, Files] = {
    name: {
        str(path.relative_to(FOLDER / name)): path.read_bytes()
        for path in sorted((FOLDER / name).rglob("*"), key=_main_first)
        if path.is_file()
    }
    for name in REGISTRY
}
PAIRS = [(a, b) for a in REGISTRY for b in REGISTRY if a != b]


def kind(name: str) -> str:
    return name.rsplit(".", 1)[-1]


def read(files: Files) -> tuple[Tree, dict[str, Any]]:
    documents = {name: Document.parse(data, kind(name)) for name, data in files.items()}
    tree = {name: document.value for name, document in documents.items()}
    return tree, {name: document.manner() for name, document in documents.items()}


def converted(files: Files, a: str, b: str, where: Where) -> Files:
    tree, manners = read(files)
    made, back, loss = carry.convert(layout(a), tree, manners, layout(b), where)
    assert loss.lost == []
    told = {name: value for name, value in made.items() if value is not None}
    return {n: dress(kind(n), value, (back or {}).get(n)) for n, value in told.items()}


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_there_and_back_gives_the_same_bytes(a: str, b: str) -> None:
    there = converted(STORIES[a], a, b, HERE)
    assert converted(there, b, a, ELSEWHERE) == STORIES[a]


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_what_travels_is_values_and_never_the_file(a: str, b: str) -> None:
    there = b"".join(converted(STORIES[a], a, b, HERE).values())
    for data in STORIES[a].values():
        assert data not in there
        assert json.dumps(data.decode()).encode() not in there


def test_a_walk_through_all_five_loses_nothing() -> None:
    for first in REGISTRY:
        files, way = STORIES[first], [name for name in REGISTRY if name != first]
        for a, b in zip([first, *way], [*way, first], strict=True):
            files = converted(files, a, b, HERE)
        tree, _ = read(files)
        want, _ = read(STORIES[first])
        for name, value in want.items():
            assert _without_extra(tree[name]) == value


def _without_extra(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: each for key, each in value.items() if key != EXTRA}
    return value


# -- changes made by another program -----------------------------------------------------------

Change = Callable[[Tree], None]


def _main(tree: Tree) -> Any:
    return tree[next(iter(tree))]


def _entry(tree: Tree) -> Any:
    return tree["active-features.yaml"]["active_features"][0]


def _set(*keys: str, to: Any) -> Change:
    def change(tree: Tree) -> None:
        place = _main(tree)
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = to

    return change


PAUSE: dict[str, Change] = {
    "ai-session": lambda tree: _entry(tree).update(status="paused"),
    "praxis": _set("lifecycle", "paused", to=True),
    "craft": _set("status", to="paused"),
    "essay": _set("status", to="paused"),
    "orchestrator": _set("status", to="paused"),
}


def edited(files: Files, change: Change) -> Files:
    """The files as another program would leave them: parsed, changed, written in its own way."""
    tree, _ = read(files)
    change(tree)
    return {name: _dumped(name, value) for name, value in tree.items()}


def _dumped(name: str, value: Any) -> bytes:
    if kind(name) == "jsonl":
        return b"".join(json.dumps(line).encode() + b"\n" for line in value)
    return json.dumps(value, indent=1).encode()  # JSON is YAML too


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_a_status_changed_there_arrives_and_nothing_else_changes(a: str, b: str) -> None:
    there = edited(converted(STORIES[a], a, b, HERE), PAUSE[b])
    back, _ = read(converted(there, b, a, ELSEWHERE))
    want, _ = read(STORIES[a])
    assert carry.read(layout(a), back, HERE).status == "paused"
    assert carry.read(layout(a), want, HERE).status == "active"
    PAUSE[a](want)
    assert {name: _without_extra(value) for name, value in back.items()} == want


DONE = {
    "craft": lambda tree: (
        _main(tree)["pending_tasks"].remove("Write the form"),
        _main(tree)["completed_work"].append("Write the form"),
    ),
    "orchestrator": lambda tree: (
        _main(tree)["pending_tasks"].remove("Write the form"),
        _main(tree)["completed_work"].append(
            {"task": "Write the form", "outcome": "", "files": []}
        ),
    ),
}


@pytest.mark.parametrize(("a", "b"), [("craft", "orchestrator"), ("orchestrator", "craft")])
def test_a_task_done_there_is_done_here(a: str, b: str) -> None:
    there = edited(converted(STORIES[a], a, b, HERE), lambda tree: DONE[b](tree) and None)
    back, _ = read(converted(there, b, a, ELSEWHERE))
    want, _ = read(STORIES[a])
    DONE[a](want)
    assert {name: _without_extra(value) for name, value in back.items()} == want


def test_a_task_of_a_plan_that_is_done_in_a_list_is_done_in_the_plan() -> None:
    there = converted(STORIES["ai-session"], "ai-session", "craft", HERE)

    def finish(tree: Tree) -> None:
        _main(tree)["pending_tasks"].remove("Check the password")
        _main(tree)["completed_work"].append("Check the password")

    back, _ = read(converted(edited(there, finish), "craft", "ai-session", ELSEWHERE))
    tasks = back["login-2026-01-31/implementation-plan.yaml"]["phases"][0]["tasks"]
    want, _ = read(STORIES["ai-session"])
    before = want["login-2026-01-31/implementation-plan.yaml"]["phases"][0]["tasks"]
    assert tasks[0] == before[0]
    assert tasks[1] == {**before[1], "status": "completed"}


def test_a_decision_made_there_is_kept_here() -> None:
    decision = {"decision": "Use Postgres", "rationale": "", "timestamp": "2026-02-01T10:00:00Z"}
    there = converted(STORIES["craft"], "craft", "orchestrator", HERE)
    more = edited(there, lambda tree: _main(tree)["decisions_made"].append(decision))
    back, _ = read(converted(more, "orchestrator", "craft", ELSEWHERE))
    want = copy.deepcopy(_main(read(STORIES["craft"])[0]))
    made = _main(back)["decisions_made"]
    assert made[:-1] == want["decisions_made"]
    assert (made[-1]["context"], made[-1]["timestamp"]) == (
        "Use Postgres",
        "2026-02-01T10:00:00.000Z",
    )
    assert {**_without_extra(_main(back)), "decisions_made": want["decisions_made"]} == want


@pytest.mark.parametrize("a", [name for name in REGISTRY if name != "craft"])
def test_progress_told_there_arrives_here(a: str) -> None:
    there = converted(STORIES[a], a, "craft", HERE)
    back, _ = read(converted(edited(there, _set("progress", to=0.42)), "craft", a, ELSEWHERE))
    assert carry.read(layout(a), back, HERE).progress == 0.42
