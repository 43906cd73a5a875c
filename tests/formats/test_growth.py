"""Files of thousands of elements take a time that grows with their number, not with its square."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from forestay.formats import carry_over
from forestay.formats.ai_session import contract
from forestay.formats.coerce import copied
from forestay.formats.facts import AgentFact, Facts, StepFact
from forestay.formats.port import Tree, Where, load_format
from forestay.formats.text import safe_parse
from forestay.formats.text.document import Document
from forestay.formats.three_way import choose_base
from tests.format_helpers import IDS, NOW

MANY = 8_000
LIMIT = 60.0
"""Seconds of CPU time: what grows with the square takes longer, a busy machine does not."""
WHERE = Where(now=NOW, naive="utc")


def phases() -> list[StepFact]:
    return [
        StepFact(f"Phase {n}", f"phase-{n}", "phase", status="done", ended_at=NOW + n)
        for n in range(MANY)
    ]


def seconds(work: Callable[[], Any]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def made(kind: str, steps: list[StepFact]) -> tuple[Facts, Tree]:
    facts = Facts(native_id=IDS[kind], goal="g", began_at=NOW, updated_at=NOW, steps=steps)
    return facts, load_format(kind).put(None, facts, WHERE)


def refused(text: str) -> str:
    with pytest.raises(safe_parse.Unreadable) as caught:
        safe_parse.read_yaml(text)
    return caught.value.code


def keys(count: int) -> str:
    return "".join(f"k{n}: 1\n" for n in range(count))


def test_keys_beyond_the_limit_are_refused() -> None:
    most = keys(safe_parse.YAML_NODES // 2 - 1)
    assert len(safe_parse.read_yaml(most)[0].keys) == safe_parse.YAML_NODES // 2 - 1
    many = keys(300_000)
    assert refused(many) == "too-many-nodes"
    assert seconds(lambda: refused(many)) < LIMIT


def test_anchors_beyond_the_limit_are_refused() -> None:
    text = "".join(f"- &a{n} 1\n" for n in range(50_000))
    assert refused(text) == "alias-bomb"
    few = "".join(f"- &a{n} 1\n" for n in range(safe_parse.ALIASES))
    assert len(safe_parse.read_yaml(few)[0].items) == safe_parse.ALIASES


def test_line_of_a_finding_in_millions_of_lines_is_found_in_a_moment() -> None:
    document = Document.parse(b"a:\n" + b" \n" * 1_500_000 + b"b: 1\n", "yaml")
    lines: list[int] = []
    assert seconds(lambda: lines.append(document.line("b"))) < LIMIT
    assert lines == [1_500_002]


STEPS: dict[str, Callable[[], list[StepFact]]] = {
    "phases": phases,
    "nameless": lambda: [StepFact("Do it") for _ in range(MANY)],
}


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("kind", ["ai-session", "praxis"])
def test_thousands_of_steps_are_written_in_a_moment(kind: str, steps: str) -> None:
    listed = STEPS[steps]()
    assert seconds(lambda: made(kind, listed)) < LIMIT


def test_essay_of_thousands_of_sections_is_checked_in_a_moment() -> None:
    section = {"status": "completed", "argument_map_file": "map.md"}
    sections = [{"section_index": n + 1, **section} for n in range(MANY)]
    tree = {"session-state.yaml": {"stages": {"stage_3": {"sections": sections}}}}
    assert seconds(lambda: load_format("essay").check(tree, WHERE)) < LIMIT


def test_index_that_lists_thousands_twice_is_checked_in_a_moment() -> None:
    listed = [{"feature_id": f"add-login{n % MANY}-2026-01-01"} for n in range(2 * MANY)]
    tree = {"active-features.yaml": {"active_features": listed}}
    assert seconds(lambda: load_format("ai-session").check(tree, WHERE)) < LIMIT


def test_index_of_a_folder_is_checked_once_for_all_its_sessions() -> None:
    _, tree = made("ai-session", [])
    (entry,) = tree["active-features.yaml"]["active_features"]
    listed = [{**entry, "feature_id": f"add-login{n}-2026-01-01"} for n in range(MANY // 4)]
    trees = [{**tree, "active-features.yaml": {"active_features": listed}} for _ in range(200)]

    def judged() -> list[set[str]]:
        return [{f.code for f in load_format("ai-session").check(each, WHERE)} for each in trees]

    assert seconds(judged) < LIMIT
    assert "unknown-word" not in set().union(*judged())
    listed[7]["status"] = "gone"
    assert all("unknown-word" in codes for codes in judged())


def test_acknowledgments_of_thousands_of_agents_are_checked_in_a_moment() -> None:
    text = "\n".join(contract.block(f"agent-{n}", NOW, contract.shipped()) for n in range(3_000))
    assert seconds(lambda: contract.summary(text, contract.shipped())) < LIMIT
    assert seconds(lambda: contract.verify_all(text, contract.shipped())) < LIMIT


@pytest.mark.parametrize("kind", ["craft", "orchestrator"])
def test_thousands_of_agents_are_checked_in_a_moment(kind: str) -> None:
    facts, _ = made(kind, [])
    facts.agents = [AgentFact(f"a{n}", "dev", f"Do {n}") for n in range(4 * MANY)]
    tree = load_format(kind).put(None, facts, WHERE)
    assert seconds(lambda: load_format(kind).check(tree, WHERE)) < LIMIT


def test_thousands_of_withdrawn_phases_take_a_moment() -> None:
    facts, tree = made("praxis", phases())
    open_again = replace(facts, steps=[replace(step, status="pending") for step in facts.steps])
    assert seconds(lambda: load_format("praxis").put(tree, open_again, WHERE)) < LIMIT
    (doc,) = load_format("praxis").put(tree, open_again, WHERE).values()
    assert doc["completed_phases"] == []


def test_thousands_of_tasks_that_change_phases_take_a_moment() -> None:
    names = [f"P{n}" for n in range(MANY // 2)]
    tasks = [StepFact(f"Do {n}", f"T{n}") for n in range(MANY // 2)]
    facts, tree = made("ai-session", [StepFact(name, name, "phase") for name in names] + tasks)
    moved = [replace(task, parent=name) for task, name in zip(tasks, names, strict=True)]
    wanted = replace(facts, steps=[*facts.steps[: len(names)], *moved])
    format = load_format("ai-session")
    assert seconds(lambda: format.put(tree, wanted, WHERE)) < LIMIT
    found = format.get(format.put(tree, wanted, WHERE), WHERE)
    assert {step.parent for step in found.steps if step.unit == "task"} == set(names)


@pytest.mark.parametrize("kind", ["craft", "orchestrator"])
def test_task_of_thousands_of_words_is_compared_in_a_moment(kind: str) -> None:
    facts, _ = made(kind, [StepFact("Plan", "p", "phase"), StepFact("one", "t1", parent="p")])
    base = carry_over.write(load_format(kind), None, facts, WHERE, full=True)
    edit = copied(base)
    next(iter(edit.values()))["pending_tasks"] = ["word " * 12_000]
    assert seconds(lambda: carry_over.read(load_format(kind), edit, WHERE)) < LIMIT


def test_unknown_key_in_800_converted_agents_is_carried_back_in_a_moment() -> None:
    craft, orchestrator = load_format("craft"), load_format("orchestrator")
    facts, _ = made("craft", [])
    facts.agents = [AgentFact(f"a{n}", "dev", f"Do {n}", started_at=NOW) for n in range(800)]
    there, _ = carry_over.convert(craft, craft.put(None, facts, WHERE), orchestrator, WHERE)
    (name,) = there
    edited = copied(there)
    for agent in edited[name]["agents"]:
        agent["colour"] = "red"
    back: list[Tree] = []
    took = seconds(lambda: back.append(carry_over.convert(orchestrator, edited, craft, WHERE)[0]))
    assert took < LIMIT
    again, _ = carry_over.convert(craft, back[0], orchestrator, WHERE)
    assert [agent["colour"] for agent in again[name]["agents"]] == ["red"] * 800


SPELLED: dict[str, Callable[[list[Any]], bytes]] = {
    "json": lambda listed: json.dumps({"tasks": listed}, indent=2).encode(),
    "yaml": lambda listed: b"tasks:\n" + b"".join(f'- "{each}"\n'.encode() for each in listed),
}


@pytest.mark.parametrize("kind", SPELLED)
def test_thousands_of_elements_are_inserted_in_a_moment(kind: str) -> None:
    every = [f"Task number {n}" for n in range(2 * MANY)]
    document = Document.parse(SPELLED[kind](every[::2]), kind)
    back: list[Document] = []
    assert seconds(lambda: back.append(document.rewritten({"tasks": every}))) < LIMIT
    assert back[0].data == SPELLED[kind](every)


def test_base_of_an_edit_with_thousands_of_fields_is_found_in_a_moment() -> None:
    every = [f"Task number {n}" for n in range(3 * MANY)]
    kept = [json.dumps({"at": at, "tasks": every[at:]}).encode() for at in range(3)]
    edit = {"at": 4, "tasks": [*every[2:], "new"]}
    bases: list[Any] = []
    assert seconds(lambda: bases.append(choose_base("", edit, kept, json.loads))) < LIMIT
    assert bases[0]["at"] == 0, "the newest is compared, however long it is"
