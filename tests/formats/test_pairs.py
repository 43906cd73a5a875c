"""From each format into each other and back: equal values, and every change that was made there.

The documents in `stories/` are written by hand, in styles of their own (odd indents, comments,
keys that no format knows, older generations), because that is what has to survive. Each format has
at least two.

An edit is what another program does to the file it got: `EDITS` has, for each format, one function
per kind, which changes native fields only and says what must then be true of the facts. `MAY` says
which places of the file that came first such an edit may reach; every other value and every key's
place must be as it was.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from forestay.formats import carry_over, diff
from forestay.formats.facts import Facts, plain
from forestay.formats.port import EXTRA, REGISTRY, Tree, Where, load_format
from forestay.formats.text.document import Document, fresh

HERE = Where(now=1_794_790_140_085, project_path="/home/me/app", device="desk")
ELSEWHERE = Where(now=1_894_790_140_085, project_path="/srv/app", device="server")

Files = dict[str, bytes]
FOLDER = Path(__file__).parent / "stories"


def _main_first(path: Path) -> tuple[bool, str]:
    return path.name != "state.yaml", str(path)


def _story(folder: Path) -> Files:
    paths = sorted((path for path in folder.rglob("*") if path.is_file()), key=_main_first)
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


STORIES: dict[str, Files] = {
    f"{a}/{folder.name}": _story(folder)
    for a in REGISTRY
    for folder in sorted((FOLDER / a).iterdir())
}


def _format_of(story: str) -> str:
    return story.partition("/")[0]


PAIRS = [(story, b) for story in STORIES for b in REGISTRY if b != _format_of(story)]


def kind(name: str) -> str:
    return name.rsplit(".", 1)[-1]


def read(files: Files) -> Tree:
    return {name: Document.parse(data, kind(name)).value for name, data in files.items()}


def converted(files: Files, a: str, b: str, where: Where) -> Files:
    values = read(files)
    made, loss = carry_over.convert(load_format(a), values, load_format(b), where)
    assert loss.lost == [] or not load_format(a).reading(values, where).writable
    return {n: fresh(kind(n), value) for n, value in made.items() if value is not None}


@cache
def there_of(story: str, b: str) -> Files:
    return converted(STORIES[story], _format_of(story), b, HERE)


def test_every_format_has_at_least_two_example_sessions() -> None:
    for a in REGISTRY:
        assert sum(_format_of(story) == a for story in STORIES) >= 2


@pytest.mark.parametrize(("story", "b"), PAIRS)
def test_conversion_to_another_format_and_back_gives_identical_values(story: str, b: str) -> None:
    back = converted(there_of(story, b), b, _format_of(story), ELSEWHERE)
    assert diff.identical(read(back), read(STORIES[story]))


@pytest.mark.parametrize(("story", "b"), PAIRS)
def test_sorting_all_keys_of_the_converted_file_changes_nothing_after_converting_back(
    story: str, b: str
) -> None:
    values = read(there_of(story, b))
    there = {name: _dumped(name, value, sort_keys=True) for name, value in values.items()}
    back = converted(there, b, _format_of(story), ELSEWHERE)
    assert diff.same(read(back), read(STORIES[story]))


@pytest.mark.parametrize(("story", "b"), PAIRS)
def test_converted_file_never_contains_a_copy_of_the_original_file(story: str, b: str) -> None:
    there = b"".join(there_of(story, b).values())
    for data in STORIES[story].values():
        assert data not in there
        assert json.dumps(data.decode()).encode() not in there


@pytest.mark.parametrize("story", STORIES)
def test_conversion_through_all_five_formats_loses_nothing(story: str) -> None:
    first = _format_of(story)
    files, way = STORIES[story], [name for name in REGISTRY if name != first]
    for a, b in zip([first, *way], [*way, first], strict=True):
        files = converted(files, a, b, HERE)
    values = read(files)
    want = read(STORIES[story])
    for name, value in want.items():
        assert without_extra(values[name]) == value


@pytest.mark.req("S1-127")
@pytest.mark.parametrize("story", STORIES)
def test_session_converted_to_its_own_format_is_the_same_or_in_the_current_form(story: str) -> None:
    a = _format_of(story)
    made = converted(STORIES[story], a, a, HERE)
    values = read(made)
    if story in ("praxis/legacy", "praxis/second"):
        assert _generation(a, values) == "redesign"
        assert facts_of(made, a) == facts_of(STORIES[story], a)
        assert load_format(a).get(values, HERE).native_id in next(iter(STORIES[story]))
    else:
        assert diff.identical(values, read(STORIES[story]))


def without_extra(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: each for key, each in value.items() if key != EXTRA}
    return value


# -- changes made by another program -----------------------------------------------------------

Claim = Callable[[Facts], bool]
Edit = Callable[[Tree], Claim]
"""Changes native fields and says what the facts must be then."""


def _main(values: Tree) -> Any:
    return next(value for name, value in values.items() if not name.endswith("features.yaml"))


def _status(word: str, means: str) -> Edit:
    def edit(values: Tree) -> Claim:
        _main(values)["status"] = word
        return lambda facts: facts.status == means

    return edit


def _entry_status(word: str, means: str) -> Edit:
    def edit(values: Tree) -> Claim:
        feature = _main(values)["feature_id"]
        for entry in values["active-features.yaml"]["active_features"]:
            if entry["feature_id"] == feature:
                entry["status"] = word
        return lambda facts: facts.status == means

    return edit


def _flag(name: str, means: str) -> Edit:
    def edit(values: Tree) -> Claim:
        _main(values)["lifecycle"][name] = True
        return lambda facts: facts.status == means

    return edit


def _progress(values: Tree) -> Claim:
    _main(values)["progress"] = 0.42
    return lambda facts: facts.progress == 0.42


def _agent_progress(values: Tree) -> Claim:
    running = (agent for agent in _main(values)["agents"] if agent["status"] == "in_progress")
    agent = next(running)
    agent["progress"] = 85
    id = agent["id"]
    return lambda facts: [a.fraction for a in facts.agents if a.id == id] == [0.85]


def _is(title: str, status: str) -> Claim:
    return lambda facts: [s.status for s in facts.steps if s.title == title] == [status]


def _sentence_done(values: Tree) -> Claim:
    title = _main(values)["pending_tasks"].pop(0)
    _main(values)["completed_work"].append(title)
    return _is(title, "done")


def _work_done(values: Tree) -> Claim:
    title = _main(values)["pending_tasks"].pop(0)
    _main(values)["completed_work"].append({"task": title, "outcome": "", "files": []})
    return _is(title, "done")


def _sentence_added(values: Tree) -> Claim:
    _main(values)["pending_tasks"].append("Feed the cat")
    return _is("Feed the cat", "pending")


def _tasks(values: Tree) -> list[Any]:
    plan = next(value for name, value in values.items() if name.endswith("plan.yaml"))
    return [task for phase in plan["phases"] for task in phase["tasks"]]


def _task_done(values: Tree) -> Claim:
    task = next(task for task in _tasks(values) if task["status"] != "completed")
    task["status"] = "completed"
    return _is(task["description"], "done")


def _task_added(values: Tree) -> Claim:
    plan = next(value for name, value in values.items() if name.endswith("plan.yaml"))
    task = {"task_id": "cat", "description": "Feed the cat", "agent": "", "status": "pending"}
    rest: dict[str, Any] = {"started_at": None, "completed_at": None, "artifacts": []}
    plan["phases"].append({"phase_id": "home", "name": "Home", "tasks": [{**task, **rest}]})
    return _is("Feed the cat", "pending")


def _phase_passed(values: Tree) -> Claim:
    doc = _main(values)
    phases = sorted({int(p) for p in doc["checkpoints"]} | {doc["current_phase"]})
    phase = next(phase for phase in phases if phase not in doc["completed_phases"])
    doc["checkpoints"][str(phase)] = "passed"
    doc["completed_phases"].append(phase)
    count = len(doc["completed_phases"])
    return lambda facts: sum(step.status == "done" for step in facts.steps) >= count


def _stage_turned(values: Tree) -> Claim:
    stage = _main(values)["stages"]["stage_1"]
    done = stage["status"] == "completed"
    stage["status"] = "needs_review" if done else "completed"
    return _is("Thesis development", "needs_review" if done else "done")


def _choice(values: Tree) -> Claim:
    stated = {"timestamp": "2026-02-01T10:00:00.000Z", "context": "Which store?"}
    more = {"options": ["a", "b"], "chosen": "b", "reasoning": "faster"}
    _main(values)["decisions_made"].append({**stated, **more})
    return lambda facts: "Which store?" in [decision.what for decision in facts.decisions]


def _decision(values: Tree) -> Claim:
    stated = {"decision": "Use Postgres", "rationale": "known", "timestamp": "2026-02-01T10:00:00Z"}
    _main(values)["decisions_made"].append(stated)
    return lambda facts: "Use Postgres" in [decision.what for decision in facts.decisions]


EDITS: dict[str, dict[str, Edit]] = {
    "ai-session": {
        "pause": _entry_status("paused", "paused"),
        "finish": _entry_status("completed", "completed"),
        "task": _task_done,
        "new task": _task_added,
    },
    "praxis": {
        "pause": _flag("paused", "paused"),
        "finish": _flag("completed", "completed"),
        "task": _phase_passed,
    },
    "craft": {
        "pause": _status("paused", "paused"),
        "finish": _status("completed", "completed"),
        "progress": _progress,
        "task": _sentence_done,
        "new task": _sentence_added,
        "decision": _choice,
    },
    "essay": {
        "pause": _status("paused", "paused"),
        "finish": _status("completed", "completed"),
        "task": _stage_turned,
    },
    "orchestrator": {
        "pause": _status("paused", "paused"),
        "finish": _status("complete", "completed"),
        "progress": _agent_progress,
        "task": _work_done,
        "new task": _sentence_added,
        "decision": _decision,
    },
}


def _has(story: str, b: str, what: str) -> bool:
    """Only one story has an agent at work."""
    return (b, what) != ("orchestrator", "progress") or story == "craft/first"


CASES = [(story, b, what) for story, b in PAIRS for what in EDITS[b] if _has(story, b, what)]

_TASKS = r"completed_work|pending_tasks"
_PLAN = r"implementation-plan\.yaml:phases"
_PHASES = r"completed_phases|checkpoints|phase_timing\.\d+|phase_attempts|phase_artifacts"
MAY: dict[str, dict[str, str]] = {
    "ai-session": {
        "pause": r"active-features\.yaml:active_features\.\d+\.status$",
        "finish": r"active-features\.yaml:active_features\.\d+\.status$",
        "task": rf"{_PLAN}\.\d+\.tasks\.\d+\.status$",
        "new task": _PLAN,
    },
    "praxis": {
        "pause": r"json:(lifecycle\.paused|status)$",
        "finish": r"json:(lifecycle\.completed|status)$",
        "task": rf"json:({_PHASES})\b",
        "new task": rf"json:({_PHASES})\b",
    },
    "craft": {
        "pause": r"json:status$",
        "finish": r"json:status$",
        "progress": r"json:(progress|agents\.\d+\.progress)$",
        "task": rf"json:({_TASKS})\b",
        "new task": rf"json:({_TASKS})\b",
        "decision": r"json:decisions_made",
    },
    "essay": {
        "pause": r"yaml:status$",
        "finish": r"yaml:status$",
        "task": r"yaml:stages\.stage_\d\.(status|sections\.\d+\.status)$",
    },
    "orchestrator": {
        "pause": r"json:status$",
        "finish": r"json:status$",
        "progress": r"json:agents\.\d+\.progress$",
        "task": rf"json:({_TASKS})\b",
        "new task": rf"json:({_TASKS})\b",
        "decision": r"json:decisions_made",
    },
}
"""Format → kind of edit → the places it may reach, as a pattern over `file:path`."""


def may_reach(a: str, b: str, what: str) -> str:
    # A stage of an essay is none of the tasks of another format: there it is one more.
    added = b == "essay" and what == "task"
    return MAY[a].get("new task" if added else what, "nowhere")


def edited(files: Files, edit: Edit) -> tuple[Files, Claim]:
    """The files as another program would leave them: parsed, changed, written in its own way."""
    values = read(files)
    claim = edit(values)
    return {name: _dumped(name, value) for name, value in values.items()}, claim


def _dumped(name: str, value: Any, *, sort_keys: bool = False) -> bytes:
    if kind(name) == "jsonl":
        return b"".join(json.dumps(line).encode() + b"\n" for line in value)
    return json.dumps(value, indent=1, sort_keys=sort_keys).encode()  # JSON is YAML too


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        sign = "" if path.endswith(":") else "."
        for key, each in value.items():
            yield from _leaves(each, f"{path}{sign}{key}")
    elif isinstance(value, list) and value:
        for place, each in enumerate(value):
            yield from _leaves(each, f"{path}.{place}")
    else:
        yield path, value


def all_leaves(values: Tree) -> dict[str, Any]:
    return {
        path: leaf
        for name, value in values.items()
        for path, leaf in _leaves(without_extra(value), f"{name}:")
    }


def changed_places(before: Tree, after: Tree) -> list[str]:
    old, new = all_leaves(before), all_leaves(after)
    gone = object()
    return [
        path
        for path in {**old, **new}
        if path not in old or path not in new or not diff.same(old[path], new.get(path, gone))
    ]


def keys_of(values: Tree, among: Tree) -> list[list[str]]:
    """The keys of every mapping of the first files, as they stand in the others."""
    found = []
    for name, value in values.items():
        todo = [(value, among[name])]
        while todo:
            one, other = todo.pop()
            if isinstance(one, dict) and isinstance(other, dict):
                found.append([key for key in other if key in one])
                todo += [(one[key], other[key]) for key in one if key in other]
    return found


def facts_of(files: Files, a: str) -> dict[str, Any]:
    values = read(files)
    made: dict[str, Any] = plain(carry_over.read(load_format(a), values, HERE))
    made.pop("native_id", None)
    for name, value in made.items():
        if isinstance(value, list):
            made[name] = sorted(value, key=diff.text_of)
    return made


@pytest.mark.parametrize(("story", "b", "what"), CASES)
def test_edit_of_the_converted_file_is_the_only_change_after_converting_back(
    story: str, b: str, what: str
) -> None:
    a = _format_of(story)
    there, claim = edited(there_of(story, b), EDITS[b][what])
    back = converted(there, b, a, ELSEWHERE)
    before, after = read(STORIES[story]), read(back)
    assert claim(carry_over.read(load_format(a), after, HERE)), "the change arrives"
    assert facts_of(back, a) == facts_of(there, b), "and everything else is still stated"
    if story in ("praxis/legacy", "praxis/second"):
        assert _generation(a, after) == "redesign", "an older form is only changed by renewing it"
        return
    places, may = changed_places(before, after), may_reach(a, b, what)
    assert [at for at in places if not re.search(may, at)] == [], "no other value changes"
    assert keys_of(before, after) == keys_of(before, before), "nor the place of a key"
    assert _generation(a, after) == _generation(a, before)


def _generation(a: str, values: Tree) -> str:
    return load_format(a).reading(values, HERE).generation


def test_example_sessions_cover_the_generations_of_praxis_files() -> None:
    stories = [story for story in STORIES if _format_of(story) == "praxis"]
    seen = {_generation("praxis", read(STORIES[story])) for story in stories}
    assert {"legacy", "ouroboros-timed", "redesign"} <= seen
