"""Every format into every other and back: equal values, and of edits nothing but the edits."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from forestay.formats import carry_over, diff
from forestay.formats.facts import (
    AgentFact,
    CheckpointFact,
    ClaimFact,
    DecisionFact,
    Facts,
    FileFact,
    StepFact,
)
from forestay.formats.port import EXTRA, REGISTRY, Format, Tree, Where, load_format
from forestay.formats.text.document import Document
from forestay.formats.text.safe_parse import Unreadable
from tests.corpus import CORPUS, needs_corpus

PAIRS = list(permutations(REGISTRY, 2))
HERE = Where(now=1_700_000_000_000)
LATER = Where(now=1_800_000_000_000)
BEGAN = 1_700_000_000_000
FIELDS = set(Facts.__struct_fields__)


def some_facts() -> Facts:
    return Facts(
        goal="Ship the parser",
        mode="default",
        progress=0.5,
        began_at=BEGAN,
        updated_at=BEGAN + 360_000,
        steps=[
            StepFact("Design", id="1", unit="phase", status="done", started_at=BEGAN),
            StepFact("Build", id="2", unit="phase", status="running", started_at=BEGAN + 1000),
            StepFact("write lexer", id="t1", parent="2", status="running", agent="code-1"),
            StepFact("write tests", id="t2", parent="2", status="blocked"),
        ],
        agents=[AgentFact("code-1", type="coder", task="write lexer", started_at=BEGAN + 1000)],
        decisions=[DecisionFact("use re", because="small", at=BEGAN + 50_000)],
        files=[FileFact("src/lex.py", "created", agent="code-1", at=BEGAN + 200_000)],
        tokens=1000,
    )


def files_of(of: Format, goal: str = "Ship the parser") -> Tree:
    facts = replace(some_facts(), goal=goal)
    facts.native_id = of.new_id(facts, HERE, frozenset())
    return carry_over.write(of, None, facts, HERE)


def native(files: Tree) -> Tree:
    """The files without our own key."""
    return {
        name: {key: each for key, each in value.items() if key != EXTRA}
        if isinstance(value, dict)
        else value
        for name, value in files.items()
    }


@pytest.mark.parametrize("one, other", PAIRS)
def test_conversion_to_another_format_and_back_changes_and_loses_nothing(
    one: str, other: str
) -> None:
    a, b = load_format(one), load_format(other)
    files = files_of(a)
    there, loss = carry_over.convert(a, files, b, HERE)
    back, _ = carry_over.convert(b, json.loads(json.dumps(there)), a, LATER)
    assert diff.identical(back, files)
    assert loss.lost == []


@pytest.mark.parametrize("goal", ["", "Ship the parser"])
@pytest.mark.parametrize("one, other", PAIRS)
def test_intermediate_format_leaves_no_copy_of_facts_among_the_carried_values(
    one: str, other: str, goal: str
) -> None:
    desk = Where(now=LATER.now, project_path="/home/me/app", device="desk")
    for third in set(REGISTRY) - {one, other}:
        back = through(files_of(load_format(one), goal), one, other, third, one, where=desk)
        assert "write lexer" not in json.dumps(carried_of(back, other))


def carried_of(files: Tree, origin: str) -> Any:
    """What a session's files know of those in another format."""
    extra = [value[EXTRA] for value in files.values() if EXTRA in value]
    return [each["from"][origin] for each in extra if origin in each.get("from", {})]


@pytest.mark.parametrize("one, other", PAIRS)
def test_unknown_keys_are_reported_by_name(one: str, other: str) -> None:
    a, b = load_format(one), load_format(other)
    files = files_of(a)
    main = next(value for value in files.values() if isinstance(value, dict))
    main |= {"x_mine": 1, "x_empty": None}
    main["inner"] = {"x_mine": {"y": 1}}
    _, plain = carry_over.convert(a, files_of(a), b, HERE)
    _, reported = carry_over.convert(a, files, b, HERE)
    names = ("x_mine", "x_empty", "inner")
    more = [
        f"{other} has no exact field for {name}: it is stored under `forestay`" for name in names
    ]
    assert reported.carried == [*plain.carried, *more]
    assert {line.split(" for ")[1].split(":")[0].split(".")[0] for line in plain.carried} <= FIELDS


@pytest.mark.parametrize("of, key", [("ai-session", "version"), ("craft", "schema_version")])
def test_unknown_version_is_reported_as_possibly_incomplete(of: str, key: str) -> None:
    files = files_of(load_format(of))
    next(iter(files.values()))[key] = "99.0.0"
    _, loss = carry_over.convert(load_format(of), files, load_format("essay"), HERE)
    assert loss.lost == [f"new features of version 99.0.0 of {of}, which we do not know"]


def _completed(facts: Facts) -> None:
    facts.status = "completed"


def _paused(facts: Facts) -> None:
    facts.status = "paused"


def _further(facts: Facts) -> None:
    facts.progress = 0.75


def _decided(facts: Facts) -> None:
    facts.decisions = [*facts.decisions, DecisionFact("use yacc", because="fun", at=BEGAN + 1)]


def _finished(facts: Facts) -> None:
    open_ = [step for step in facts.steps if step.title in ("Build", "write tests")]
    for step in open_[-1:]:
        step.status = "done"


EDITS = [_completed, _paused, _further, _decided, _finished]
# What a format has no field for cannot be changed in its files.
WITHOUT_TASKS = {"essay", "praxis"}
WITHOUT: dict[Any, set[str]] = {
    _completed: set(),
    _paused: set(),
    _further: {"ai-session", "essay", "orchestrator", "praxis"},
    _decided: {"ai-session", "essay", "praxis"},
    _finished: set(),
}


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__.strip("_"))
@pytest.mark.parametrize("one, other", PAIRS)
def test_edit_of_the_converted_file_equals_the_same_edit_of_the_original_file(
    one: str, other: str, edit: Any
) -> None:
    a, b = load_format(one), load_format(other)
    files = files_of(a)
    there = carry_over.convert(a, files, b, HERE)[0]
    stated, wanted = b.get(there, HERE), carry_over.read(a, files, HERE)
    edit(stated)
    edit(wanted)
    edited = b.put(copy.deepcopy(there), stated, HERE)
    if diff.same(edited, there):
        assert (edit is _finished and {one, other} & WITHOUT_TASKS) or other in WITHOUT[edit]
        return
    arrived = carry_over.read(b, edited, HERE)
    if edit is _decided:
        wanted.decisions[-1] = arrived.decisions[-1]
    back = carry_over.convert(b, edited, a, HERE)[0]
    if edit is _completed and "praxis" in (one, other):
        # By its flag a finished praxis session also loses the phase it was in.
        assert carry_over.read(a, back, HERE).status == "completed"
        return
    expected = carry_over.write(a, files, wanted, HERE)
    assert diff.same(native(expected), native(back))


def there_and_back(a: Format, facts: Facts, b: Format, edit: Callable[[Any], object]) -> Any:
    """The main files of `a` before, and after the one of `b` was edited by another program."""
    facts.native_id = a.new_id(facts, HERE, frozenset())
    files = carry_over.write(a, None, facts, HERE)
    there = json.loads(json.dumps(carry_over.convert(a, files, b, HERE)[0]))
    edit(next(iter(there.values())))
    back, loss = carry_over.convert(b, there, a, LATER)
    assert loss.lost == []
    name = next(iter(files))
    return files[name], back[name]


def test_timestamp_changed_in_the_converted_file_changes_no_other_value_of_the_original() -> None:
    facts = Facts(began_at=BEGAN, updated_at=BEGAN + 1000)
    facts.agents = [AgentFact("a-1", status="failed", error="no", started_at=BEGAN)]
    facts.claims = [ClaimFact("it is so", result="contested", because="I say so")]

    def renew(value: Any) -> None:
        value["updated_at"] = "2024-01-01T00:00:00.000Z"

    before, after = there_and_back(load_format("orchestrator"), facts, load_format("craft"), renew)
    assert after["errors"] == before["errors"] != []
    assert after["updated"] == "2024-01-01T00:00:00Z"
    before, after = there_and_back(load_format("essay"), facts, load_format("craft"), renew)
    assert after["user_overrides"] == before["user_overrides"] != []


def test_agent_removed_from_the_converted_file_leaves_no_values_to_the_next_agent() -> None:
    facts = Facts(began_at=BEGAN, updated_at=BEGAN)
    facts.agents = [AgentFact("a-1", task="one"), AgentFact("b-1", task="two"), AgentFact("c-1")]

    def take_out(value: Any) -> None:
        del value["agents"][1]

    before, after = there_and_back(
        load_format("orchestrator"), facts, load_format("craft"), take_out
    )
    assert after["agents"] == [before["agents"][0], before["agents"][2]]


def test_finishing_one_of_two_sections_with_equal_names_finishes_exactly_one() -> None:
    facts = Facts(began_at=BEGAN, updated_at=BEGAN)
    facts.steps = [
        StepFact("Argument development", id="stage-3", unit="stage", status="running"),
        StepFact("Section 1", id="stage-3/section-1", unit="section", parent="stage-3"),
        StepFact("Paragraph writing", id="stage-4", unit="stage"),
        StepFact("Section 1", id="stage-4/section-1", unit="section", parent="stage-4"),
    ]

    def finish(value: Any) -> None:
        value["completed_work"].append(value["pending_tasks"].pop())

    before, after = there_and_back(load_format("essay"), facts, load_format("craft"), finish)
    stages = [[doc["stages"][f"stage_{n}"]["sections"] for n in (3, 4)] for doc in (before, after)]
    done = [[section["status"] for section in sections] for sections in stages[1]]
    assert sorted(done) == [["completed"], ["not_started"]]
    assert [len(sections) for sections in stages[0]] == [1, 1]


@pytest.mark.parametrize("target", ["", "src/parser.py"])
def test_changed_target_in_a_praxis_file_does_not_change_the_goal(target: str) -> None:
    """Its files have no goal: the one that is read is made of the target."""
    facts = Facts(goal="Ship the parser", target=target, began_at=BEGAN, updated_at=BEGAN)

    def aim_elsewhere(value: Any) -> None:
        value["target_file"] = "docs/other.md"

    before, after = there_and_back(
        load_format("craft"), facts, load_format("praxis"), aim_elsewhere
    )
    assert after["goal"] == before["goal"] == "Ship the parser"


def test_keys_added_to_a_map_leave_carried_keys_in_it() -> None:
    facts = Facts(began_at=BEGAN, updated_at=BEGAN, attributes={"craft.notes": "mine"})

    def note(value: Any) -> None:
        value["voice_calibration"]["calibration_notes"] = "calm"

    _, after = there_and_back(load_format("craft"), facts, load_format("essay"), note)
    reported = carry_over.read(load_format("craft"), {f"{after['session_id']}.json": after}, HERE)
    assert reported.attributes["craft.notes"] == "mine"
    assert reported.attributes["essay.voice_calibration.calibration_notes"] == "calm"


def test_order_of_a_list_is_not_a_loss() -> None:
    facts = Facts(began_at=BEGAN, updated_at=BEGAN)
    phases = [StepFact(f"Phase {n}", id=f"phase-{n}", unit="phase", status="done") for n in (0, 1)]
    facts.steps = [*phases, StepFact("Phase 2", id="phase-2", unit="phase", status="running")]
    facts.checkpoints = [CheckpointFact(f"phase-{n}", "passed", at=BEGAN) for n in (0, 1)]

    def reopen(value: Any) -> None:
        value["pending_tasks"].append(value["completed_work"].pop(0))

    there_and_back(load_format("praxis"), facts, load_format("craft"), reopen)


def through(files: Tree, *way: str, where: Where = LATER) -> Tree:
    """The files after having gone from the first format through the others."""
    for one, other in pairwise(way):
        files = json.loads(
            json.dumps(carry_over.convert(load_format(one), files, load_format(other), where)[0])
        )
    return files


@pytest.mark.parametrize("one, other, third", list(permutations(REGISTRY, 3))[::3])
def test_conversion_through_two_formats_and_back_changes_nothing(
    one: str, other: str, third: str
) -> None:
    files = json.loads(json.dumps(files_of(load_format(one))))
    assert diff.identical(through(files, one, other, third, other, one), files)


def test_file_converted_back_on_another_machine_names_its_original_project_and_device() -> None:
    craft, desk = load_format("craft"), Where(now=BEGAN, project_path="/home/me/app", device="desk")
    facts = Facts("11111111-2222-4333-8444-555555555555", began_at=BEGAN, updated_at=BEGAN)
    files = carry_over.write(craft, None, facts, desk, full=True)
    there = through(files, "craft", "essay")
    there["session-state.yaml"]["last_activity"] = "2024-01-01T00:00:00Z"
    server = Where(now=BEGAN, project_path="/srv/app", device="server")
    (back,) = through(there, "essay", "craft", where=server).values()
    assert (back["project"], back["device"]) == ("/home/me/app", "desk")
    assert back["updated_at"] == "2024-01-01T00:00:00.000Z"


@pytest.mark.parametrize("key, began", [("created_at", "began_at"), ("updated_at", "updated_at")])
def test_missing_time_is_not_derived_from_another_time_in_a_conversion(
    key: str, began: str
) -> None:
    """A stamp is never put where none was, nor under another name than it has there."""
    first = {
        "session_id": "bees",
        "goal": "Count the bees",
        "status": "in_progress",
        "started_at": "2026-03-05T09:00:00-06:00",
        "agents": [{"id": "a-1", "status": "failure", "completed_at": "2026-03-05T09:20:00Z"}],
        "completed_work": [],
        "pending_tasks": [],
        "errors": [{"message": "stung", "agent": "a-1", "timestamp": "2026-03-05T09:20:00Z"}],
        "decisions_made": [],
    }
    there = through({"orchestrator-session.json": first}, "orchestrator", "praxis")
    next(iter(there.values()))[key] = "2025-12-01T01:02:03Z"
    (back,) = through(there, "praxis", "orchestrator").values()
    reported = load_format("orchestrator").get({"orchestrator-session.json": back}, HERE)
    assert getattr(reported, began) == 1_764_550_923_000
    assert back["errors"] == first["errors"] and "created" not in back
    assert ("updated" in back) is (key == "updated_at")


def test_skipped_agent_gets_no_progress_when_the_converted_file_is_changed() -> None:
    facts = Facts(began_at=BEGAN, updated_at=BEGAN, agents=[AgentFact("a-1", status="skipped")])

    def renew(value: Any) -> None:
        value["last_activity"] = "2024-01-01T00:00:00Z"

    before, after = there_and_back(load_format("orchestrator"), facts, load_format("essay"), renew)
    assert after["updated"] == "2024-01-01T00:00:00Z"
    assert after["agents"] == before["agents"] and "progress" not in after["agents"][0]


@pytest.mark.parametrize("other", ["orchestrator", "craft"])
def test_phase_removed_from_the_converted_file_leaves_the_tasks_of_the_original(other: str) -> None:
    facts = replace(some_facts(), native_id="dig-2026-01-31", workflow="spec")
    files = carry_over.write(load_format("ai-session"), None, facts, HERE, full=True)
    there = through(files, "ai-session", other)
    (doc,) = there.values()
    doc["pending_tasks"].remove("Build")
    back = through(there, other, "ai-session")
    plan = "dig-2026-01-31/implementation-plan.yaml"
    tasks = [phase["tasks"] for phase in files[plan]["phases"]]
    assert [phase["tasks"] for phase in back[plan]["phases"]] == tasks
    assert (
        through(back, "ai-session", other)[next(iter(there))]["pending_tasks"]
        == (doc["pending_tasks"])
    )


def test_phase_retains_its_task_when_another_phase_is_removed_from_the_converted_file() -> None:
    a, b = load_format("ai-session"), load_format("orchestrator")
    steps = [StepFact("Dig", "dig", "phase", status="blocked"), StepFact("Build", "b", "phase")]
    files = carry_over.write(a, None, Facts(native_id="dig-2026-01-31", steps=steps), HERE)
    there, _ = carry_over.convert(a, files, b, HERE)
    (doc,) = there.values()
    doc["pending_tasks"].remove("Dig")
    back, _ = carry_over.convert(b, there, a, LATER)
    plan = "dig-2026-01-31/implementation-plan.yaml"
    assert back[plan]["phases"] == files[plan]["phases"][1:]
    assert [task["task_id"] for task in back[plan]["phases"][0]["tasks"]] == ["b"]


def test_task_finished_in_the_converted_file_does_not_change_the_order_of_tasks() -> None:
    facts = Facts(began_at=BEGAN, updated_at=BEGAN)
    facts.steps = [StepFact(f"do {n}", id=f"T{n}", status="running") for n in range(4)]

    def finish(value: Any) -> None:
        value["completed_work"].append(value["pending_tasks"].pop(2))

    a = load_format("ai-session")
    facts.native_id = a.new_id(facts, HERE, frozenset())
    there = through(carry_over.write(a, None, facts, HERE), "ai-session", "craft")
    finish(next(iter(there.values())))
    back = through(there, "craft", "ai-session")
    (plan,) = (value for name, value in back.items() if name.endswith("plan.yaml"))
    tasks = [(task["task_id"], task["status"]) for task in plan["phases"][0]["tasks"]]
    assert [id for id, _ in tasks] == ["T0", "T1", "T2", "T3"]
    assert [id for id, status in tasks if status == "completed"] == ["T2"]


@pytest.mark.parametrize("other", ["praxis", "essay"])
def test_session_without_a_goal_gets_none_from_its_position(other: str) -> None:
    facts = Facts(began_at=BEGAN, updated_at=BEGAN)

    def aim(value: Any) -> None:
        value["target_file" if other == "praxis" else "style_profile_path"] = "docs/other.md"

    before, after = there_and_back(load_format("orchestrator"), facts, load_format(other), aim)
    assert after["goal"] == before["goal"] == ""


UNNAMED: dict[str, tuple[str, str, str]] = {
    "without an id": ("praxis", "old.json", ""),
    "with one that its format would not give": ("essay", "session-state.yaml", "essay-7e57"),
    "with one that has parts": ("orchestrator", "orchestrator-session.json", "team/7"),
}


@pytest.mark.parametrize("which", UNNAMED)
def test_session_has_its_own_file_name_and_id_after_conversion_and_back(which: str) -> None:
    of, name, id = UNNAMED[which]
    (value,) = files_of(load_format(of)).values()
    key = "pipeline_id" if of == "essay" else "session_id"
    value = {**value, key: id, "mine": [1]}
    if not id:
        del value[key]
    files = {name: value}
    there = through(files, of, "craft")
    assert diff.identical(through(there, "craft", of), files)
    (doc,) = there.values()
    doc["goal"] = "Another goal"
    (back,) = through(there, "craft", of).values()
    assert back.get(key, "") == id and back["mine"] == [1]


def test_sections_are_ordered_by_number_whatever_the_order_of_tasks() -> None:
    facts = Facts(began_at=BEGAN, updated_at=BEGAN)
    named: Any = {"unit": "section", "parent": "stage-3"}
    ids = [f"stage-3/section-{n}" for n in (1, 2)]
    facts.steps = [StepFact("Argument development", id="stage-3", unit="stage", status="running")]
    facts.steps += [StepFact(f"Section {id[-1]}", id=id, status="blocked", **named) for id in ids]

    def turn(value: Any) -> None:
        value["pending_tasks"].reverse()

    before, after = there_and_back(load_format("essay"), facts, load_format("orchestrator"), turn)
    assert after["stages"] == before["stages"]


@pytest.mark.parametrize("other", ["craft", "orchestrator"])
@pytest.mark.parametrize("was_over", [True, False])
def test_task_resumed_in_the_converted_file_has_no_end_time_after_converting_back(
    other: str, was_over: bool
) -> None:
    status = "done" if was_over else "blocked"
    facts = Facts(began_at=BEGAN, updated_at=BEGAN, goal="Pay by card")
    facts.steps = [StepFact("Sum up", id="T1", status=status, started_at=BEGAN, ended_at=BEGAN)]

    def take_up(value: Any) -> None:
        value.update(completed_work=[], pending_tasks=["Sum up"], goal="Pay")

    a = load_format("ai-session")
    facts.native_id = a.new_id(facts, HERE, frozenset())
    files = carry_over.write(a, None, facts, HERE)
    there = through(files, "ai-session", other)
    take_up(next(iter(there.values())))
    (step,) = a.get(through(there, other, "ai-session"), HERE).steps
    assert (step.status, step.ended_at) == (("pending", None) if was_over else (status, BEGAN))


@pytest.mark.parametrize("other", ["craft", "essay", "orchestrator"])
def test_program_that_writes_whole_floats_as_integers_changes_nothing_in_a_conversion(
    other: str,
) -> None:
    facts = Facts(began_at=BEGAN, updated_at=BEGAN)
    facts.steps = [StepFact("Phase 0", id="phase-0", unit="phase", status="done")]
    facts.steps[0].started_at, facts.steps[0].ended_at = BEGAN, BEGAN + 60_000
    files = carry_over.write(load_format("praxis"), None, replace(facts, native_id="x"), HERE)
    del files["x.json"]["phase_timing"]["0"]["duration_seconds"]

    def in_its_way(value: Any) -> Any:
        if isinstance(value, dict | list):
            each = value.items() if isinstance(value, dict) else enumerate(value)
            made = {key: in_its_way(inner) for key, inner in each}
            return made if isinstance(value, dict) else [*made.values()]
        return int(value) if isinstance(value, float) and value.is_integer() else value

    there = in_its_way(through(files, "praxis", other))
    assert diff.identical(through(there, other, "praxis"), files)


@pytest.mark.parametrize("of", ["craft", "orchestrator"])
def test_revisited_phase_is_still_a_task(of: str) -> None:
    titles = ("Design", "Build", "Test")
    facts = Facts(began_at=BEGAN, updated_at=BEGAN, steps=[StepFact(title) for title in titles])
    facts.steps[0].status = "done"

    def roll_back(value: Any) -> None:
        value.update(current_phase=0, completed_phases=[])
        value["checkpoints"]["0"] = "pending"

    _, after = there_and_back(load_format(of), facts, load_format("praxis"), roll_back)
    assert (after["completed_work"], sorted(after["pending_tasks"])) == ([], sorted(titles))


@pytest.mark.parametrize("of", ["craft", "orchestrator"])
def test_phases_that_are_only_headings_are_not_tasks(of: str) -> None:
    b, facts = load_format(of), Facts(goal="Pay by card", began_at=BEGAN, updated_at=BEGAN)
    facts.steps = [
        StepFact("Build", id="P1", unit="phase"),
        StepFact("Test", id="P2", unit="phase"),
    ]
    bare = carry_over.write(b, None, facts, HERE)
    phased = replace(facts, steps=[*facts.steps, StepFact("Sum up", id="T1", parent="P1")])
    phased.steps[-1].status = "done"
    for files in (
        carry_over.write(b, None, phased, HERE),
        carry_over.write(b, bare, phased, HERE),
    ):
        (doc,) = files.values()
        assert [step.title for step in b.get(files, HERE).steps] == ["Sum up", "Test"]
        assert doc.get("progress", 0.5) == 0.5
    workflow = carry_over.write(b, None, replace(phased, workflow="spec"), HERE)
    assert len(b.get(workflow, HERE).steps) == 3, "there they are done one by one"


@pytest.mark.parametrize("other", ["craft", "orchestrator"])
def test_phase_is_removed_when_its_last_task_is_removed_from_the_converted_file(other: str) -> None:
    facts = Facts(goal="Pay by card", began_at=BEGAN, updated_at=BEGAN)
    facts.steps = [StepFact("Build", id="P1", unit="phase"), StepFact("Sum", id="T1", parent="P1")]
    facts.steps += [StepFact("Test", id="P2", unit="phase"), StepFact("Try", id="T2", parent="P2")]
    facts.native_id = load_format("ai-session").new_id(facts, HERE, frozenset())
    there = through(
        carry_over.write(load_format("ai-session"), None, facts, HERE), "ai-session", other
    )
    next(iter(there.values()))["pending_tasks"].remove("Try")
    back = through(there, other, "ai-session")
    assert load_format("ai-session").get(back, HERE).steps == facts.steps[:2]


@pytest.mark.parametrize("id", ["../../x", "/etc/x", "a/b"])
def test_session_whose_id_is_a_path_is_converted_back_inside_its_folder(id: str) -> None:
    (value,) = files_of(load_format("praxis")).values()
    value = {**value, "session_id": id, "mine": [1]}
    back = through({f"{id}.json": value}, "praxis", "craft", "praxis")
    assert diff.identical(list(back.values()), [value])
    assert not any(carry_over.leads_out(name) for name in back)


def _real_files() -> list[tuple[str, Path]]:
    """Some real files of each kind, with the format that recognises them."""
    found: dict[str, list[Path]] = {}
    for path in sorted(CORPUS.rglob("*.json")) + sorted(CORPUS.rglob("*.yaml")):
        try:
            value = Document.parse(path.read_bytes(), path.suffix[1:]).value
        except Unreadable:
            continue
        sure = {id: load_format(id).recognise(path.name, value) for id in REGISTRY}
        best = max(sure, key=lambda id: sure[id])
        if sure[best] > 0.5 and best != "ai-session" and "workflows" not in path.parts:
            found.setdefault(best, []).append(path)
    return [(id, path) for id, paths in found.items() for path in paths[:: len(paths) // 6 or 1]]


@needs_corpus
def test_corpus_files_have_equal_values_after_conversion_to_each_format_and_back() -> None:
    seen = set()
    for id, path in _real_files():
        a, kind = load_format(id), path.suffix[1:]
        document = Document.parse(path.read_bytes(), kind)
        name = a.files(a.get({a.files("x")[0]: document.value}, HERE).native_id)[0]
        for b in (load_format(other) for other in REGISTRY if other != id):
            there, loss = carry_over.convert(a, {name: document.value}, b, HERE)
            back, _ = carry_over.convert(b, json.loads(json.dumps(there)), a, LATER)
            assert list(back) == [name]
            assert diff.same(back[name], document.value), path
            assert loss.lost == []
        seen.add(id)
    assert len(seen) == 4
