"""The `ai-session` format: its fields and words, its laws, its checks, what it saves of damage."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from forestay.formats import salvage, timestamps
from forestay.formats.ai_session import format as subject
from forestay.formats.ai_session.format import FORMAT
from forestay.formats.ai_session.read import MODELS, ROOT, slug
from forestay.formats.ai_session.salvage import salvage_index
from forestay.formats.ai_session.write import native, recreate, refuses
from forestay.formats.facts import SESSION, UNIT, CommandFact, Facts, StepFact
from forestay.formats.port import ERROR, WARNING, Tree, Where
from forestay.formats.text.document import Document, fresh
from forestay.formats.text.safe_parse import Unreadable
from forestay.mirror.discover import SURE
from tests.formats import json_stories as stories
from tests.formats.samples.ai_session import (
    BEGAN,
    FEATURE,
    INDEX,
    LOG,
    NOW,
    PLAN,
    SAMPLE,
    STATE,
    WHERE,
    entry,
    line,
    tree,
)


def get(of: Tree) -> Facts:
    return FORMAT.get(of, WHERE)


def codes(of: Tree, where: Where = WHERE, *, strict: bool = False) -> list[str]:
    return [finding.code for finding in FORMAT.check(of, where, strict=strict)]


def at(of: Any, path: str) -> tuple[Any, Any]:
    """The container and the last key of a path such as `state/current_state/status`."""
    first, *rest = path.split("/")
    names = {"state": STATE, "plan": PLAN, "log": LOG, "index": INDEX}
    keys: list[Any] = [names[first], *(int(key) if key.isdigit() else key for key in rest)]
    for key in keys[:-1]:
        of = of[key]
    return of, keys[-1]


def changed(path: str, value: Any) -> Tree:
    made = tree()
    node, key = at(made, path)
    node[key] = value
    return made


def without(path: str) -> Tree:
    made = tree()
    node, key = at(made, path)
    del node[key]
    return made


# --- ids ---------------------------------------------------------------------------------------


@pytest.mark.req("S0-3", "S0-18", "S0-19", "S0-20", "S0-21", "S0-71")
@pytest.mark.parametrize(
    "native_id, possible",
    [
        ("ai-orchestrator-2025-01-09", True),
        ("a-2024-02-29", True),
        ("v2-of-it-2025-12-31", True),
        ("ai-orchestrator-2025-13-09", False),
        ("ai-orchestrator-2025-01-45", False),
        ("a-2025-02-29", False),
        ("2025-01-09", False),
        ("-a-2025-01-09", False),
        ("a--2025-01-09", False),
        ("a-2025-01-09-", False),
        ("Ai-2025-01-09", False),
        ("a_b-2025-01-09", False),
        ("a b-2025-01-09", False),
        ("é-2025-01-09", False),
        ("../a-2025-01-09", False),
        ("a-2025-01-09\n", False),
        ("a-٢٠٢٥-01-09", False),
        ("x" * 300 + "-2025-01-09", False),
        ("", False),
    ],
)
def test_feature_id_is_a_lowercase_slug_and_a_day_that_exists(
    native_id: str, possible: bool
) -> None:
    assert (FORMAT.why_invalid_id(native_id) == "") is possible


@pytest.mark.req("S0-18", "S0-20")
@pytest.mark.parametrize(
    "goal, made",
    [
        ("Cross the river", "cross-the-river"),
        ("  Über-Größe: Çedilla! ", "uber-grosse-cedilla"),
        ("Don't stop", "dont-stop"),
        ("日本語", "session"),
        ("", "session"),
        ("word " * 20, "word-word-word-word-word-word-word-word"),
        ("exactly forty characters are in this one", "exactly-forty-characters-are-in-this-one"),
        ("exactly forty characters are in this onex", "exactly-forty-characters-are-in-this"),
        ("x" * 60, "x" * 40),
    ],
)
def test_new_id_is_the_folded_goal_cut_at_a_word_end(goal: str, made: str) -> None:
    facts = Facts(goal=goal, began_at=BEGAN)
    assert FORMAT.new_id(facts, WHERE, frozenset()) == f"{made}-2025-03-04"


@pytest.mark.req("S0-52", "S0-72")
def test_taken_id_gets_a_number_before_the_date() -> None:
    facts, taken = Facts(goal="Row"), set[str]()
    for made in ("row-2025-03-04", "row-2-2025-03-04", "row-3-2025-03-04"):
        assert FORMAT.new_id(facts, WHERE, frozenset(taken)) == made
        taken.add(made)


@given(st.text(max_size=200), st.integers(-(2**70), 2**70))
def test_new_id_for_any_goal_and_time_is_valid(goal: str, moment: int) -> None:
    made = FORMAT.new_id(Facts(goal=goal, began_at=moment), WHERE, frozenset())
    assert FORMAT.why_invalid_id(made) == ""
    assert len(slug(goal)) <= 40


@pytest.mark.parametrize("id", ["../x-2025-01-01", "a/b", "..", "a\nb", " ", "x" * 300])
def test_id_that_cannot_be_a_folder_name_is_replaced_by_a_new_one(id: str) -> None:
    made = FORMAT.put(None, Facts(native_id=id, goal="Row"), WHERE)
    assert list(made) == FORMAT.files("row-2025-03-04")


def test_invalid_id_of_another_program_is_preserved_and_reported() -> None:
    made = FORMAT.put(None, Facts(native_id="Payment_API", goal="Pay"), WHERE)
    assert list(made) == FORMAT.files("Payment_API")
    assert set(codes(made)) == {"bad-feature-id"}


# --- files and fields --------------------------------------------------------------------------


@pytest.mark.req("S0-10", "S0-11", "S0-12", "S0-13", "S0-14", "S0-15")
def test_files_are_those_of_the_contract_with_the_state_first() -> None:
    assert ROOT == ".ai-session"
    assert FORMAT.files("a-2025-01-09") == [
        "a-2025-01-09/state.yaml",
        "a-2025-01-09/implementation-plan.yaml",
        "a-2025-01-09/history.jsonl",
        "active-features.yaml",
    ]


@pytest.mark.req("S0-17")
def test_readme_names_every_file_of_the_folder() -> None:
    names = [file.replace(FEATURE, "{feature-id}") for file in FORMAT.files(FEATURE)]
    for name in (*names, "{feature-id}/artifacts/", "contract-acknowledgment.md"):
        assert f"`{name}`" in subject.README


@pytest.mark.req("S0-3", "S0-6", "S0-7", "S0-8", "S0-9", "S0-22", "S0-23", "S0-24", "S0-25")
@pytest.mark.req("S0-47", "S0-48", "S0-49", "S0-50", "S0-51")
def test_new_session_has_every_field_of_the_contract_in_its_order() -> None:
    facts = Facts(native_id=FEATURE, goal="Cross", model="opus", position="T9", began_at=BEGAN)
    made = FORMAT.put(None, replace(facts, updated_at=BEGAN + 3_600_000), WHERE)
    assert list(made) == FORMAT.files(FEATURE)
    assert json.dumps(made[STATE]) == json.dumps(
        {
            "version": "1.0",
            "feature_id": FEATURE,
            "current_state": {
                "active_task": "T9",
                "model_in_use": "opus",
                "started_at": "2025-03-04T10:00:00Z",
                "last_updated": "2025-03-04T11:00:00Z",
            },
        }
    )
    feature = {"id": FEATURE, "name": "Cross", "description": "AI Orchestrator Feature"}
    feature["created_at"] = "2025-03-04T10:00:00Z"
    assert json.dumps(made[PLAN]) == json.dumps({"feature": feature, "phases": []})
    assert made[LOG] == []
    assert json.dumps(made[INDEX]) == json.dumps({"active_features": [entry()]})


@pytest.mark.req("X0-1")
def test_new_session_has_the_defaults_of_the_companion_program() -> None:
    made = FORMAT.put(None, Facts(goal="Row"), WHERE)
    folder = "row-2025-03-04"
    assert made[f"{folder}/state.yaml"]["current_state"]["model_in_use"] == "sonnet"
    plan = made[f"{folder}/implementation-plan.yaml"]
    assert plan["feature"]["description"] == "AI Orchestrator Feature"
    assert plan["phases"] == []


@pytest.mark.req("S0-108")
def test_written_state_equals_the_example_in_the_contract() -> None:
    text = """{"version": "1.0", "feature_id": "ai-orchestrator-2025-01-09", "current_state":
    {"active_task": "impl-core-commands", "model_in_use": "opus",
     "started_at": "2025-01-09T10:00:00Z", "last_updated": "2025-01-09T15:30:45Z"}}"""
    key = "ai-orchestrator-2025-01-09/state.yaml"
    example: Tree = {key: json.loads(text)}
    assert codes(example) == []
    made = FORMAT.put(None, get(example), WHERE)
    assert json.dumps(made[key]) == json.dumps(example[key])


@pytest.mark.req("S0-109", "S0-43", "S0-38", "S0-39", "S0-40", "S0-41", "S0-42", "S0-44", "S0-45")
def test_written_log_line_equals_the_example_in_the_contract() -> None:
    example = (
        '{"timestamp":"2025-01-09T10:00:00Z","command":"plan","arguments":"Create AI orchestrator",'
        '"model":"gemini","agent":"agent-1","task_id":null,"status":"success","duration_ms":5234}'
    )
    facts = get({LOG: [json.loads(example)]})
    assert codes({LOG: [json.loads(example)]}) == []
    made = FORMAT.put(None, replace(facts, native_id=FEATURE), WHERE)
    assert json.dumps(made[LOG][0], separators=(",", ":")) == example


@pytest.mark.req("S0-44", "S0-46", "S0-40", "S0-45")
def test_failure_has_its_error_and_any_content_survives() -> None:
    nasty = 'say "no"\n\tback\\slash \u2028 ∅'
    command = CommandFact("run", nasty, "failure", 7, nasty, "a-1", "T1", "opus", BEGAN)
    made = FORMAT.put(tree(), replace(get(tree()), commands=[command]), WHERE)
    written = json.loads(json.dumps(made[LOG][-1]))
    assert list(written) == [*line(), "error"]
    assert (written["arguments"], written["error"]) == (nasty, nasty)
    assert written["status"] == "failure"
    assert type(written["duration_ms"]) is int and written["duration_ms"] == 7
    fine = FORMAT.put(None, Facts(native_id=FEATURE, commands=[CommandFact("x")]), WHERE)
    assert "error" not in fine[LOG][0]


@pytest.mark.req("S0-26", "S0-27", "S0-28", "S0-29", "S0-30", "S0-31", "S0-32")
@pytest.mark.req("S0-33", "S0-34", "S0-35", "S0-36")
def test_phases_and_tasks_are_read_as_steps() -> None:
    phase, first, second = get(tree()).steps
    assert (phase.id, phase.title, phase.unit) == ("P1", "Bank", "phase")
    assert first == StepFact(
        title="Find a boat",
        id="T1",
        parent="P1",
        status="done",
        agent="a-1",
        files=["artifacts/boat.md"],
        started_at=BEGAN + 5 * 60_000,
        ended_at=BEGAN + 20 * 60_000,
    )
    assert (second.status, second.ended_at, second.files) == ("running", None, [])


@pytest.mark.req("S0-26", "S0-27", "S0-28", "S0-29", "S0-30", "S0-31", "S0-32")
@pytest.mark.req("S0-33", "S0-34", "S0-35", "S0-36")
def test_new_task_has_every_field_in_the_contracts_order() -> None:
    new = StepFact("Look", "T7", parent="P2", status="running", started_at=BEGAN)
    done = replace(get(tree()).steps[1], parent="P2")
    made = FORMAT.put(None, Facts(native_id=FEATURE, steps=[_phase("P2"), new, done]), WHERE)
    assert json.dumps(made[PLAN]["phases"]) == json.dumps(
        [
            {
                "phase_id": "P2",
                "name": "Part P2",
                "tasks": [
                    {
                        "task_id": "T7",
                        "description": "Look",
                        "agent": "",
                        "status": "in_progress",
                        "started_at": "2025-03-04T10:00:00Z",
                        "completed_at": None,
                        "artifacts": [],
                    },
                    tree()[PLAN]["phases"][0]["tasks"][0],
                ],
            }
        ]
    )


@pytest.mark.req("S0-28", "S0-31")
def test_phase_stays_done_when_the_task_of_its_name_is_renamed() -> None:
    done = StepFact("Bank", "P1", unit="phase", status="done", started_at=BEGAN, ended_at=NOW)
    made = FORMAT.put(None, Facts(native_id=FEATURE, steps=[done]), WHERE)
    made[PLAN]["phases"][0]["tasks"][0]["description"] = "Find the bank"
    phase, renamed = get(made).steps
    assert phase == done
    assert (renamed.title, renamed.parent, renamed.status) == ("Find the bank", "P1", "done")


def _phase(id: str) -> StepFact:
    return StepFact(f"Part {id}", id, unit="phase")


TASK_WORDS = {
    "pending": "pending",
    "running": "in_progress",
    "done": "completed",
    "failed": "blocked",
    "blocked": "blocked",
    "timed_out": "blocked",
    "needs_review": "in_progress",
    "skipped": "completed",
}


@pytest.mark.req("S0-33")
@pytest.mark.parametrize("status", UNIT)
def test_every_step_status_has_a_word_of_the_contract(status: str) -> None:
    steps = [_phase("P"), StepFact("t", "T", parent="P", status=status)]
    made = FORMAT.put(None, Facts(native_id=FEATURE, steps=steps), WHERE)
    assert made[PLAN]["phases"][0]["tasks"][0]["status"] == TASK_WORDS[status]
    assert codes(made, strict=True) == []


@pytest.mark.req("S0-51", "S0-62")
@pytest.mark.parametrize("status", SESSION)
def test_every_session_status_has_a_word_in_the_index(status: str) -> None:
    made = FORMAT.put(tree(), replace(get(tree()), status=status), WHERE)
    ours, other = made[INDEX]["active_features"]
    words = {"created": "active", "active": "active", "completed": "completed"}
    assert ours["status"] == words.get(status, "paused")
    assert other == entry(feature_id="other-2025-01-01")


@pytest.mark.req("S0-4", "S0-5")
def test_paths_of_plan_and_log_in_the_state_are_preserved() -> None:
    made = tree()
    made[STATE] |= {"implementation_plan": "implementation-plan.yaml", "history_log": "h.jsonl"}
    assert codes(made) == []
    kept = FORMAT.put(made, replace(get(made), position=""), WHERE)
    assert kept[STATE] == made[STATE] | {"current_state": kept[STATE]["current_state"]}
    for key, number in (("implementation_plan", "S0-4"), ("history_log", "S0-5")):
        (found,) = FORMAT.check(changed(f"state/{key}", 7), WHERE)
        assert (found.code, found.requirement) == ("wrong-type", number)


@pytest.mark.req("S0-6", "S0-7", "S0-8", "S0-9", "S0-49", "S0-50")
def test_state_file_gives_id_goal_model_position_status_and_times() -> None:
    facts = get(tree())
    assert (facts.native_id, facts.goal, facts.model) == (FEATURE, "Cross the river", "opus")
    assert (facts.position, facts.status) == ("T2", "active")
    assert (facts.began_at, facts.updated_at) == (BEGAN, BEGAN + 3_600_000)
    later = get(changed("state/current_state/last_updated", "2025-03-04T12:00:00Z"))
    assert later.updated_at == BEGAN + 7_200_000
    assert get(without("state/current_state")).began_at == BEGAN
    assert get(without("state/current_state")).updated_at == BEGAN + 3_600_000
    assert get(changed("state/current_state/active_task", None)).position == ""


@pytest.mark.req("S0-16", "S0-36")
def test_generated_files_are_those_under_artifacts() -> None:
    names = frozenset(["state.yaml", "artifacts/b.md", "artifacts/deep/a.py"])
    facts = FORMAT.get(tree(), Where(names=names))
    assert facts.artifacts == ["artifacts/b.md", "artifacts/deep/a.py"]


@pytest.mark.req("S0-24")
def test_custom_description_is_an_attribute() -> None:
    made = changed("plan/feature/description", "With a goat")
    facts = get(made)
    assert facts.attributes == {"ai-session.description": "With a goat"}
    fresh = FORMAT.put(None, facts, WHERE)
    assert fresh[PLAN]["feature"]["description"] == "With a goat"
    assert get(without("plan/feature/name")).goal == ""
    del made[PLAN]["feature"]["name"]
    assert get(made).goal == "With a goat"


@pytest.mark.req("S0-51")
def test_status_in_the_state_is_read_and_updated() -> None:
    made: Tree = {STATE: changed("state/current_state/status", "completed")[STATE]}
    assert get(made).status == "completed"
    assert FORMAT.reading(made, WHERE).complete is True
    again = FORMAT.put(made, replace(get(made), status="active"), WHERE)
    assert again[STATE]["current_state"]["status"] == "active"
    assert get(again).status == "active"


@pytest.mark.req("S0-51", "X0-6")
@pytest.mark.parametrize(
    ("index", "state", "read"),
    [
        ("active", "completed", "completed"),
        ("active", "paused", "paused"),
        ("completed", "active", "completed"),
        ("paused", "completed", "paused"),
        ("active", "whatever", "active"),
    ],
)
def test_status_in_the_state_outweighs_an_active_index(index: str, state: str, read: str) -> None:
    made = changed("state/current_state/status", state)
    made[INDEX]["active_features"][0]["status"] = index
    assert get(made).status == read and FORMAT.reading(made, WHERE).status == read


@pytest.mark.req("X0-10")
def test_events_and_extra_keys_in_the_log_are_preserved() -> None:
    event = {"timestamp": "2025-03-04T10:00:00Z", "event": "session_start", "session_name": "x"}
    extra = {"feature_id": FEATURE, "task_status": "completed", "session_state": {"a": 1}}
    late = event | {"event": "session_end", "timestamp": "2025-03-04T10:20:00Z"}
    made = changed("log", [event, line(**extra, atdd_enforced=True, phase="green"), late])
    assert [command.name for command in get(made).commands] == ["plan"]
    assert codes(made) == []
    assert FORMAT.reading(made, WHERE).generation == "companion"
    more = replace(get(made), commands=[*get(made).commands, CommandFact("row", at=NOW)])
    assert FORMAT.put(made, more, WHERE)[LOG][:3] == made[LOG]


# --- recognising and reading -------------------------------------------------------------------


@pytest.mark.parametrize("name", [STATE, PLAN, LOG, INDEX])
def test_each_file_is_recognised_by_its_shape_whatever_its_name(name: str) -> None:
    assert FORMAT.recognise("anything.bin", tree()[name]) >= 0.8


@pytest.mark.req("S0-88", "S0-89", "S0-90")
@pytest.mark.parametrize(
    "version, read, writable, code",
    [
        ("1.0", "1.0", True, None),
        (..., "1.0", True, "version-missing"),
        (1.0, "1.0", True, "version-not-text"),
        ("1", "1", True, "version-not-text"),
        ("1.4", "1.4", False, "version-newer"),
        ("2.0", "2.0", False, "version-unknown"),
        (99, "99", False, "version-unknown"),
        ("1.x", "1.x", False, "version-unknown"),
        (["1.0"], "?", False, "version-unknown"),
        (10**400, "?", False, "version-unknown"),
    ],
)
def test_version_in_the_state_decides_whether_the_session_is_writable(
    version: Any, read: str, writable: bool, code: str | None
) -> None:
    made = without("state/version") if version is ... else changed("state/version", version)
    reading = FORMAT.reading(made, WHERE)
    assert (reading.version, reading.writable) == (read, writable)
    assert codes(made) == ([code] if code else [])


@pytest.mark.req("S0-90", "S0-91")
def test_unknown_version_is_never_written() -> None:
    made = changed("state/version", "99")
    facts = replace(get(made), goal="other", status="completed", commands=[CommandFact("x")])
    assert FORMAT.put(made, facts, WHERE) == made


def test_progress_is_done_tasks_by_all_tasks() -> None:
    assert FORMAT.reading(tree(), WHERE).progress == 0.5
    assert FORMAT.reading(changed("plan/phases", []), WHERE).progress is None


# --- laws --------------------------------------------------------------------------------------


@given(st.data())
def test_session_files_with_any_mutation_can_be_reported_and_recreated(data: st.DataObject) -> None:
    made = {name: data.draw(stories.mutants(value)) for name, value in tree().items()}
    assert subject.display(subject.report(made, WHERE))
    recreate(made, WHERE)


def test_command_without_a_task_is_not_assigned_to_the_current_task() -> None:
    facts = Facts(goal="Add login", position="t1", commands=[CommandFact("pytest", at=NOW)])
    (command,) = FORMAT.get(FORMAT.put(None, facts, WHERE), WHERE).commands
    assert command.task == ""


# --- writing -----------------------------------------------------------------------------------


def difference(old: Any, new: Any, path: str = "") -> list[str]:
    """The places at which two values differ."""
    if isinstance(old, dict) and isinstance(new, dict) and list(old) == list(new):
        return [d for key in old for d in difference(old[key], new[key], f"{path}.{key}")]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [d for n, pair in enumerate(zip(old, new, strict=True)) for d in
                difference(*pair, f"{path}[{n}]")]  # fmt: skip
    return [] if old == new else [path]


def differences(**facts: Any) -> list[str]:
    made = FORMAT.put(tree(), replace(get(tree()), **facts), WHERE)
    return [d for name in made for d in difference(tree()[name], made[name], name)]


@pytest.mark.req("S0-59", "S0-62")
@pytest.mark.parametrize(
    "facts, places",
    [
        ({"goal": "Swim"}, [f"{PLAN}.feature.name"]),
        ({"goal": ""}, []),
        ({"native_id": "another-2025-01-01"}, []),
        ({"position": ""}, [f"{STATE}.current_state.active_task"]),
        ({"position": "P1"}, [f"{STATE}.current_state.active_task"]),
        ({"model": "gemini"}, [f"{STATE}.current_state.model_in_use"]),
        ({"model": "haiku"}, []),
        ({"model": ""}, []),
        ({"status": "completed"}, [f"{INDEX}.active_features[0].status"]),
        ({"status": "created"}, []),
        (
            {"updated_at": NOW},
            [f"{STATE}.current_state.last_updated", f"{INDEX}.active_features[0].last_active"],
        ),
        ({"updated_at": BEGAN}, []),
        ({"updated_at": BEGAN + 3_600_900}, []),
        (
            {"began_at": BEGAN - 5000},
            [f"{STATE}.current_state.started_at", f"{INDEX}.active_features[0].started_at"],
        ),
        ({"commands": []}, []),
        ({"artifacts": ["x"]}, []),
    ],
)
def test_only_places_whose_facts_changed_are_rewritten(
    facts: dict[str, Any], places: list[str]
) -> None:
    assert differences(**facts) == places


@pytest.mark.req("S0-76", "S0-7")
def test_model_that_the_contract_does_not_allow_is_not_written() -> None:
    facts = replace(get(tree()), model="gpt-9", commands=[CommandFact("x", model="llama", at=NOW)])
    made = FORMAT.put(tree(), facts, WHERE)
    assert made[STATE]["current_state"]["model_in_use"] == "opus"
    assert made[LOG][-1]["model"] == "opus"
    assert "gemini, opus, sonnet" in refuses("gpt-9")
    assert [refuses(model) for model in MODELS] == ["", "", ""]


@pytest.mark.req("S0-60", "S0-70")
def test_existing_log_lines_are_never_removed() -> None:
    old = tree()
    facts = replace(get(old), commands=[CommandFact("swim", at=BEGAN)])
    made = FORMAT.put(old, facts, WHERE)
    assert made[LOG][:2] == old[LOG]
    assert [each["command"] for each in made[LOG]] == ["plan", "row", "swim"]
    # Recorded late, so its line has the time of the one before it.
    assert made[LOG][2]["timestamp"] == "2025-03-04T10:10:00Z"
    assert FORMAT.put(made, facts, WHERE) == made


@pytest.mark.req("S0-60")
def test_command_that_ran_twice_is_two_lines() -> None:
    twice = [CommandFact("test", at=NOW, duration_ms=3), CommandFact("test", at=NOW, duration_ms=3)]
    made = FORMAT.put(tree(), replace(get(tree()), commands=twice), WHERE)
    assert [each["command"] for each in made[LOG]] == ["plan", "row", "test", "test"]


def test_milliseconds_of_the_journal_do_not_make_a_line_new() -> None:
    facts = replace(get(tree()), commands=[CommandFact("test", at=NOW + 123)])
    made = FORMAT.put(tree(), facts, WHERE)
    assert FORMAT.put(made, facts, WHERE) == made
    assert len(made[LOG]) == 3


def step_facts(**changes: Any) -> list[StepFact]:
    phase, first, second = get(tree()).steps
    return [phase, first, replace(second, **changes)]


@pytest.mark.req("S0-31", "S0-32", "S0-33", "S0-34", "S0-35", "S0-36")
def test_changed_task_is_the_only_part_that_is_written() -> None:
    files = ["artifacts/goat.md"]
    ended = {"title": "Load it", "agent": "a-2", "status": "done", "started_at": BEGAN}
    steps = step_facts(**ended, ended_at=NOW, files=files)
    made = FORMAT.put(tree(), replace(get(tree()), steps=steps), WHERE)
    wanted = tree()
    wanted[PLAN]["phases"][0]["tasks"][1] = {
        "task_id": "T2",
        "description": "Load it",
        "agent": "a-2",
        "status": "completed",
        "started_at": "2025-03-04T10:00:00Z",
        "completed_at": "2025-03-04T15:00:00Z",
        "artifacts": files,
    }
    assert made == wanted


@pytest.mark.req("S0-28")
def test_renamed_phase_has_its_new_name() -> None:
    phase, *tasks = get(tree()).steps
    made = FORMAT.put(
        tree(), replace(get(tree()), steps=[replace(phase, title="B"), *tasks]), WHERE
    )
    assert made == changed("plan/phases/0/name", "B")


def test_task_that_starts_over_loses_its_times() -> None:
    made = FORMAT.put(
        tree(),
        replace(get(tree()), steps=step_facts(status="pending", started_at=None)),
        WHERE,
    )
    assert made[PLAN]["phases"][0]["tasks"][1]["started_at"] is None


def test_task_moves_with_all_its_keys_and_an_empty_plan_loses_it() -> None:
    old = changed("plan/phases/0/tasks/1/secret", 42)
    moved = [*step_facts(parent="P2"), _phase("P2")]
    made = FORMAT.put(old, replace(get(old), steps=moved), WHERE)
    assert [phase["phase_id"] for phase in made[PLAN]["phases"]] == ["P1", "P2"]
    assert [t["task_id"] for t in made[PLAN]["phases"][0]["tasks"]] == ["T1"]
    assert made[PLAN]["phases"][1]["tasks"][0]["secret"] == 42
    assert FORMAT.put(old, replace(get(old), steps=[]), WHERE)[PLAN]["phases"] == []


def test_phase_retains_the_task_of_its_name_when_another_is_removed() -> None:
    """A step that is removed from a plan removes nothing else."""
    done, pending = (StepFact(id, id, unit="phase", status=id) for id in ("done", "pending"))
    old = FORMAT.put(None, Facts(native_id=FEATURE, steps=[done, pending]), WHERE)
    kept = old[PLAN]["phases"][1]
    assert [task["task_id"] for task in kept["tasks"]] == ["pending"]
    made = FORMAT.put(old, replace(get(old), steps=get(old).steps[1:]), WHERE)
    assert made[PLAN]["phases"] == [kept]


def test_tasks_without_a_phase_are_in_a_phase_that_is_not_a_step() -> None:
    loose = [StepFact("Sing"), StepFact("Sing"), StepFact("Dance", "D")]
    made = FORMAT.put(None, Facts(native_id=FEATURE, steps=loose), WHERE)
    (phase,) = made[PLAN]["phases"]
    assert phase["phase_id"] == "unphased"
    assert [t["task_id"] for t in phase["tasks"]] == ["sing", "sing-2", "D"]
    assert [(s.title, s.parent) for s in get(made).steps] == [
        ("Sing", ""),
        ("Sing", ""),
        ("Dance", ""),
    ]
    assert FORMAT.put(made, Facts(native_id=FEATURE, steps=loose), WHERE)[PLAN] == made[PLAN]


def test_steps_nested_deeper_than_two_levels_are_written_as_phases_and_tasks() -> None:
    deep = [
        StepFact("Write", "S1", unit="stage"),
        StepFact("Intro", "S1.1", unit="section", parent="S1"),
        StepFact("First", "S1.1.1", unit="paragraph", parent="S1.1"),
        StepFact("Group", "G"),
        StepFact("Member", "G1", parent="G"),
    ]
    assert [(step.unit, step.id, step.parent) for step in native(deep)] == [
        ("phase", "S1", ""),
        ("task", "S1.1", "S1"),
        ("task", "S1.1.1", "S1"),
        ("phase", "G", ""),
        ("task", "G1", "G"),
    ]
    circle = [StepFact("a", "A", parent="B"), StepFact("b", "B", parent="A")]
    assert len(native(circle)) == 2


@pytest.mark.req("S0-57", "S0-48")
def test_new_session_is_added_to_the_index_without_other_changes() -> None:
    old: Tree = {INDEX: {"active_features": [entry(feature_id="a-2025-01-01", x=1)], "y": 2}}
    made = FORMAT.put(old, Facts(native_id=FEATURE, goal="Row"), WHERE)
    assert made[INDEX]["active_features"][0] == entry(feature_id="a-2025-01-01", x=1)
    assert made[INDEX]["active_features"][1]["feature_id"] == FEATURE
    assert made[INDEX]["y"] == 2
    assert set(made) == set(FORMAT.files(FEATURE))


def test_session_missing_from_the_index_is_listed_there_at_its_next_change() -> None:
    old = changed("index/active_features", [])
    made = FORMAT.put(old, replace(get(old), updated_at=NOW), WHERE)
    (mine,) = made[INDEX]["active_features"]
    assert (mine["feature_id"], mine["last_active"]) == (FEATURE, "2025-03-04T15:00:00Z")


@pytest.mark.req("S0-86", "S0-77")
@pytest.mark.parametrize("missing", [STATE, PLAN, LOG, INDEX])
def test_missing_file_is_created_from_the_others(missing: str) -> None:
    for lacking in ({k: v for k, v in tree().items() if k != missing}, tree() | {missing: None}):
        made, notes = recreate(lacking, WHERE)
        assert set(made) == set(tree())
        assert [note.partition(":")[0] for note in notes] == [missing.rpartition("/")[2]]
        assert all(made[name] == tree()[name] for name in tree() if name != missing)
        assert get(made).native_id == FEATURE
        assert [f for f in FORMAT.check(made, WHERE, strict=True) if f.severity == ERROR] == []


@pytest.mark.req("S0-86")
@pytest.mark.parametrize("lacking", ["started_at", "last_active", "status"])
def test_missing_keys_of_an_index_entry_are_restored(lacking: str) -> None:
    torn = tree()
    del torn[INDEX]["active_features"][0][lacking]
    made, notes = recreate(torn, WHERE)
    assert FORMAT.check(made, WHERE, strict=True) == []
    assert notes == [f"active-features.yaml: {lacking} of {FEATURE}, from the other files"]


def test_no_file_is_created_without_an_id_or_for_another_version() -> None:
    assert recreate({}, WHERE) == ({}, [])
    newer: Tree = {STATE: changed("state/version", "3.0")[STATE]}
    assert recreate(newer, WHERE) == (newer, [])


# --- checking ----------------------------------------------------------------------------------


@pytest.mark.req("S0-74", "S0-78")
def test_complete_session_has_no_finding() -> None:
    names = frozenset([f"{name}" for name in tree()] + ["artifacts/boat.md"])
    assert codes(tree(), replace_where(names), strict=True) == []


def replace_where(names: frozenset[str]) -> Where:
    return Where(now=NOW, naive="utc", names=names)


@pytest.mark.parametrize(
    "path, value, code, where",
    [
        ("plan/phases/0/tasks/0/task_id", "T2", "duplicate-task-id", "phases[0].tasks[1].task_id"),
        ("index/active_features/1/feature_id", FEATURE, "duplicate-entry", "active_features[1]"),
        (
            "index/active_features/0/started_at",
            "2025-03-04T10:00:01Z",
            "start-differs",
            "active_features[0].started_at",
        ),
        ("state/status", "paused", "status-differs", "active_features[0].status"),
    ],
)
def test_contradiction_is_reported_with_its_place_in_the_file(
    path: str, value: Any, code: str, where: str
) -> None:
    found = FORMAT.check(changed(path, value), WHERE)
    assert where in [finding.where for finding in found if finding.code == code]


@pytest.mark.parametrize("place", [row[0] for row in SAMPLE.fields if "." in row[0]])
def test_file_that_lacks_a_key_is_recognised(place: str) -> None:
    first = place.partition(":")[0]
    value = SAMPLE.changed(place, ...)[SAMPLE.files[first]]
    assert FORMAT.recognise("anything.bin", value[:1] if first == "log" else value) >= SURE


@pytest.mark.req("S0-34", "S0-35", "S0-36")
def test_strict_check_requires_our_style_of_timestamps() -> None:
    made = changed("plan/phases/0/tasks/0/started_at", "2025-03-04T11:05:00+01:00")
    assert codes(made) == []
    assert codes(made, strict=True) == ["stamp-style"]


@pytest.mark.req("S0-77")
def test_missing_files_are_reported() -> None:
    lone = {STATE: tree()[STATE]}
    found = FORMAT.check(lone, replace_where(frozenset(["state.yaml"])))
    assert [(f.code, f.file) for f in found] == [
        ("missing-file", "implementation-plan.yaml"),
        ("missing-file", "history.jsonl"),
        ("missing-file", "active-features.yaml"),
    ]
    assert codes(lone) == []
    log = {LOG: tree()[LOG]}
    assert codes(log, replace_where(frozenset([LOG]))) == ["missing-file"] * 3
    lost = {f"elsewhere/{LOG.rpartition('/')[2]}": tree()[LOG]}
    assert "missing-file" not in codes(lost, replace_where(frozenset(lost)))


@pytest.mark.req("S0-6", "S0-30")
@pytest.mark.parametrize("number", [7, 1.2])
def test_numeric_task_id_is_read_as_written(number: float) -> None:
    made = changed("plan/phases/0/tasks/0/task_id", number)
    made[STATE] = changed("state/current_state/active_task", number)[STATE]
    facts = get(made)
    assert facts.position == str(number) and str(number) in [step.id for step in facts.steps]
    assert {(f.code, f.severity) for f in FORMAT.check(made, WHERE)} == {("wrong-type", WARNING)}
    assert FORMAT.put(made, facts, WHERE) == made


@pytest.mark.req("S0-36")
def test_missing_artifact_is_reported() -> None:
    names = frozenset([STATE, PLAN, LOG])
    assert codes(tree(), replace_where(names)) == ["artifact-missing"]


@pytest.mark.req("S0-37")
def test_log_faults_are_reported_once_with_their_count() -> None:
    made = changed("log", [line(status="x")] * 3 + [7] * 2)
    found = FORMAT.check(made, WHERE)
    assert [(f.code, "more such" in f.what) for f in found] == [
        ("unknown-word", True),
        ("wrong-type", True),
    ]
    assert "2 more" in found[0].what


@pytest.mark.req("S0-69", "S0-72")
def test_duplicate_index_entries_are_reported_and_unchanged() -> None:
    made = changed("index/active_features/1", entry(status="paused"))
    (found,) = [f for f in FORMAT.check(made, WHERE) if f.code == "duplicate-entry"]
    assert "status active" in found.what and "status paused" in found.what
    kept = FORMAT.put(made, replace(get(made), goal="x"), WHERE)
    assert kept[INDEX] == made[INDEX]


@pytest.mark.req("S0-79")
def test_contradictions_between_files_are_reported() -> None:
    made = changed("state/current_state/status", "completed")
    assert "status-differs" in codes(made)
    done = changed("index/active_features/0/status", "completed")
    assert codes(done) == ["task-in-completed"]


# --- damage ------------------------------------------------------------------------------------

STATE_TEXT = f"""version: "1.0"
feature_id: "{FEATURE}"
current_state:
  active_task: "T2"
  model_in_use: "opus"
  started_at: "2025-03-04T10:00:00Z"
  last_updated: "2025-03-04T11:00:00Z"
"""
PLAN_TEXT = f"""feature:
  id: "{FEATURE}"
  name: 'It''s a river'
  created_at: "2025-03-04T09:00:00Z"

phases:
  - phase_id: P1
    name: Bank   # the near one
    tasks:
      - task_id: "T1"
        description: "Find a boat"
        status: completed
        artifacts:
          - artifacts/boat.md
          - artifacts/oar.md
      - task_id: "T2"
        description: "Load the goat"
        agent: "a-1"
        artifacts: ["x", "y"]
"""
LOG_TEXT = "".join(
    json.dumps(line(timestamp=f"2025-03-04T10:{minute}:00Z", task_id="T1", model="gemini")) + "\n"
    for minute in (10, 20)
)
INDEX_TEXT = f"""active_features: []
  - feature_id: "{FEATURE}"
    started_at: "2025-03-04T08:00:00Z"
    last_active: "2025-03-04T12:00:00Z"
    status: "paused"
  - feature_id: other-2025-01-01
    status: active
"""


def salvaged(**texts: str | bytes) -> Any:
    names = {"state": STATE, "plan": PLAN, "log": LOG, "index": INDEX}
    bundle = {names[k]: t if isinstance(t, bytes) else t.encode() for k, t in texts.items()}
    return FORMAT.salvage(bundle, WHERE)


@pytest.mark.req("S0-85")
def test_empty_state_is_restored_from_log_index_and_plan() -> None:
    found = salvaged(state="", plan=PLAN_TEXT, log=LOG_TEXT, index=INDEX_TEXT)
    facts = found.facts
    assert (facts.native_id, facts.status, facts.goal) == (FEATURE, "paused", "It's a river")
    assert facts.began_at == BEGAN - 2 * 3_600_000
    assert (facts.position, facts.model) == ("T1", "gemini")
    assert len(facts.commands) == 2
    assert [(s.id, s.status, s.files) for s in facts.steps] == [
        ("P1", "pending", []),
        ("T1", "done", ["artifacts/boat.md", "artifacts/oar.md"]),
        ("T2", "pending", ["x", "y"]),
    ]
    assert found.inferred == [
        "began_at: from active-features.yaml",
        "updated_at: from active-features.yaml",
        "position: from history.jsonl",
        "model: from history.jsonl",
        "native_id: from the folder's name or another file",
    ]
    assert found.lost == [
        "state.yaml: feature_id, active_task, model_in_use, started_at, last_updated"
    ]


@pytest.mark.req("S0-85")
def test_start_comes_from_the_index_else_the_plan_else_the_first_line() -> None:
    by_plan = salvaged(state="", plan=PLAN_TEXT, log=LOG_TEXT)
    assert by_plan.facts.began_at == BEGAN - 3_600_000
    assert "began_at: from implementation-plan.yaml" in by_plan.inferred
    by_log = salvaged(state="", log=LOG_TEXT)
    assert by_log.facts.began_at == BEGAN + 600_000
    assert by_log.facts.updated_at == BEGAN + 1_200_000
    assert "began_at: from history.jsonl" in by_log.inferred
    assert "status: assumed to be active, no file contains it" in by_log.inferred


@pytest.mark.req("S0-85", "S0-75")
def test_restored_state_is_not_older_than_the_last_log_line() -> None:
    later = LOG_TEXT + json.dumps(line(timestamp="2026-01-01T00:00:00Z")) + "\n"
    found = salvaged(state="", log=later, index=INDEX_TEXT)
    assert found.facts.updated_at == timestamps.read("2026-01-01T00:00:00Z")
    assert "updated_at: from history.jsonl" in found.inferred


@pytest.mark.req("S0-85", "S0-79")
def test_inserted_line_does_not_hide_the_rest_of_a_damaged_file() -> None:
    broken = STATE_TEXT.replace("current_state:", '  status: "completed"\ncurrent_state:')
    found = salvaged(state=broken)
    assert found.facts.status == "completed"
    assert found.facts.position == "T2"
    assert (found.inferred, found.lost) == ([], [])


@pytest.mark.req("S0-85")
@pytest.mark.parametrize("cut", range(0, len(STATE_TEXT), 7))
def test_torn_state_is_trusted_up_to_its_last_complete_line(cut: int) -> None:
    found = salvaged(state=STATE_TEXT[:cut].encode() + b"\0" * 40, log=LOG_TEXT)
    assert found.facts.native_id == FEATURE
    assert found.facts.position in ("T1", "T2")
    assert found.facts.model in ("opus", "gemini")
    assert found.facts.began_at in (BEGAN, BEGAN + 600_000)


@pytest.mark.req("S0-79")
def test_state_torn_within_a_line_is_not_read_as_complete() -> None:
    text = fresh("yaml", tree()[STATE]).decode().replace('"', "").encode()
    last, seen = text.index(b"  last_updated:"), 0
    for cut in range(text.index(b"current_state:"), last):
        with suppress(Unreadable):
            value = Document.parse(text[:cut], "yaml").value
            assert bool(FORMAT.why_incomplete(text[:cut], value)) == (
                text[cut - 1 : cut] != b"\n"
            ), cut
            seen += 1
    assert seen > 50 and FORMAT.why_incomplete(text[:-1], Document.parse(text, "yaml").value) == ""
    saved = FORMAT.salvage({STATE: text[: text.index(b"model_in_use: opus") + 16]}, WHERE)
    assert saved is not None and saved.facts.model == ""
    short = without("state/current_state/last_updated")[STATE]
    assert FORMAT.why_incomplete(json.dumps(short).encode(), short) == ""


@pytest.mark.req("S0-47", "S0-69", "S0-79")
def test_entries_of_a_broken_index_are_extracted() -> None:
    index, lost = salvage_index(INDEX_TEXT.encode())
    assert [each["feature_id"] for each in index["active_features"]] == [
        FEATURE,
        "other-2025-01-01",
    ]
    assert index["active_features"][0]["status"] == "paused"
    assert lost == []
    orphan = "active_features: []\n    status: active\n" + INDEX_TEXT.partition("\n")[2]
    assert salvage_index(orphan.encode())[1] == [
        "active-features.yaml: an entry without feature_id: status active"
    ]
    assert salvaged(index=INDEX_TEXT).inferred == [
        f"active-features.yaml: lists {FEATURE}, other-2025-01-01"
    ]


CONFLICT = INDEX_TEXT.replace(
    '    status: "paused"\n',
    '<<<<<<< HEAD\n    status: "paused"\n=======\n    status: "completed"\n>>>>>>> theirs\n',
).replace(" []", "")


@pytest.mark.req("S0-69")
def test_merge_conflict_is_reported_and_neither_side_is_used() -> None:
    ours, theirs = salvage.differences(CONFLICT.encode())
    assert "paused" in ours and "completed" in theirs
    index, lost = salvage_index(CONFLICT.encode())
    assert "status" not in index["active_features"][0]
    assert index["active_features"][0]["started_at"] == "2025-03-04T08:00:00Z"
    assert lost == [
        f"active-features.yaml: {FEATURE}: status is in conflict: "
        "'paused' on one side, 'completed' on the other"
    ]
    assert salvaged(state=STATE_TEXT, index=CONFLICT).facts.status == "active"


@pytest.mark.req("S0-69")
def test_conflict_with_a_base_or_in_another_file_is_found() -> None:
    text = STATE_TEXT.replace(
        '  active_task: "T2"\n',
        '<<<<<<< a\n  active_task: "T2"\n||||||| b\n  active_task: "T0"\n'
        '=======\n  active_task: "T3"\n>>>>>>> c\n',
    )
    found = salvaged(state=text)
    assert found.facts.position == ""
    assert "'T2' on one side, 'T3' on the other" in found.lost[0]
    both = salvaged(log=f"<<<<<<< a\n{LOG_TEXT}=======\n{LOG_TEXT}>>>>>>> b\n")
    assert len(both.facts.commands) == 4
    assert "second side" in salvaged(plan=f"<<<<<<< a\n=======\n>>>>>>> b\n{PLAN_TEXT}").lost[0]


@pytest.mark.req("S0-85", "S0-37")
def test_record_broken_by_quotes_and_newlines_is_read_piece_by_piece() -> None:
    broken = (
        LOG_TEXT
        + '{"timestamp":"2025-03-04T10:30:00Z","command":"row","arguments":"say "no" twice",'
        '"model":"opus","status":"failure","duration_ms":12,"error":"a\n"b"\nc"}\n'
        + '{"timestamp":"2025-03-04T10:31:00Z","comm'
    )
    found = salvaged(log=broken)
    assert found.facts.commands[2] == CommandFact(
        "row", 'say "no" twice', "failure", 12, 'a\n"b', "", "", "opus", BEGAN + 1_800_000
    )
    assert found.inferred[0] == "history.jsonl: line 3 is not JSON; single fields were read"
    assert found.lost == ["history.jsonl: line 6 cannot be read"]


@pytest.mark.req("S0-85")
def test_many_unreadable_lines_are_reported_together() -> None:
    broken = STATE_TEXT.replace("current_state:", "{[\n" * 22 + "current_state:")
    found = salvaged(state=broken)
    shown = ", ".join(map(str, range(3, 23)))
    assert found.lost[0] == f"state.yaml: line {shown} and 2 more cannot be read"
    assert found.facts.position


def test_log_names_its_session_when_nothing_else_does() -> None:
    text = json.dumps(line(feature_id=FEATURE))
    found = FORMAT.salvage({"history.jsonl": text.encode()}, WHERE)
    assert found is not None and found.facts.native_id == FEATURE


def test_state_in_utf_16_is_read() -> None:
    found = FORMAT.salvage({"state.yaml": STATE_TEXT.encode("utf-16")}, WHERE)
    assert found is not None and found.facts.native_id == FEATURE


@given(st.data())
def test_salvaged_facts_can_be_written(data: st.DataObject) -> None:
    texts = {STATE: STATE_TEXT, PLAN: PLAN_TEXT, LOG: LOG_TEXT, INDEX: INDEX_TEXT}
    bundle = {}
    for name, text in texts.items():
        raw = bytearray(text.encode())
        for _ in range(data.draw(st.integers(0, 3))):
            where = data.draw(st.integers(0, len(raw)))
            raw[where : where + data.draw(st.integers(0, 30))] = data.draw(st.binary(max_size=9))
        bundle[name] = bytes(raw)
    found = FORMAT.salvage(bundle, WHERE)
    assert found is not None
    again = get(FORMAT.put(None, found.facts, WHERE))
    assert again.native_id
    assert len(again.commands) == len(found.facts.commands)


@pytest.mark.parametrize(
    "text",
    [
        '{"timestamp":"' * 60_000,
        '"timestamp":"x" ' + " " * 500_000,
        "- " * 300_000,
        ('a: "' + "\\" * 300_000),
        "<<<<<<< \n=======\n" * 40_000,
        "[" * 200_000,
    ],
)
def test_salvage_takes_bounded_time(text: str) -> None:
    names = ("state.yaml", "implementation-plan.yaml", "history.jsonl", "active-features.yaml")
    began = time.process_time()
    FORMAT.salvage(dict.fromkeys(names, text.encode()), WHERE)
    FORMAT.salvage(dict.fromkeys(names, ("x: " + text).encode()), WHERE)
    assert time.process_time() - began < 60


# --- the status report -------------------------------------------------------------------------


@pytest.mark.req("X0-8")
@pytest.mark.parametrize(
    "idle, word",
    [
        (0, "Active"),
        (3_599_999, "Active"),
        (3_600_000, "Idle"),
        (86_399_999, "Idle"),
        (86_400_000, "Stale"),
        (-5, "Active"),
    ],
)
def test_health_of_a_session_depends_on_the_time_since_its_last_change(
    idle: int, word: str
) -> None:
    assert subject.health(BEGAN, BEGAN + idle) == word


@pytest.mark.req("X0-8")
def test_report_counts_the_contents_of_the_files() -> None:
    made = changed("log", [line(duration_ms=n, command=f"c{n % 2}") for n in range(1, 8)])
    made[LOG][0] |= {"status": "failure", "error": "x", "model": "opus"}
    names = frozenset(["artifacts/a.md", "artifacts/b.MD", "artifacts/.hidden", "artifacts/x/c.py"])
    report = subject.report(made, replace_where(names))
    assert (report.feature_id, report.status, report.health) == (FEATURE, "active", "Idle")
    assert (report.tasks_done, report.tasks_total, report.percent) == (1, 2, 50)
    assert report.commands == {"c1": 4, "c0": 3}
    assert report.models == {"gemini": 6, "opus": 1}
    assert (report.failures, report.average_ms, report.total_ms) == (1, 4, 28)
    assert [command.duration_ms for command in report.last] == [3, 4, 5, 6, 7]
    assert report.artifacts == {"md": 2, "none": 1, "py": 1}


@pytest.mark.req("X0-8")
def test_report_of_a_session_without_a_task_shows_no_task() -> None:
    made = changed("state/current_state/active_task", None)
    report = subject.report(made, WHERE)
    assert report.active_task == "none"
    shown = subject.display(report)
    assert "Active task: none" in shown
    assert "Tasks:       1/2 (50%)" in shown
    empty = subject.report({}, WHERE)
    assert (empty.percent, empty.average_ms, empty.health) == (0, 0, "Stale")


DAMAGED = {
    "implementation-plan.yaml": "phases:\n- tasks:\n  - task_id: t1\n" + "    - a\n" * 200_000,
    "state.yaml": "feature_id: login-2026-01-31\n" + "".join(f"k{i}: 1\n" for i in range(900_000)),
    "history.jsonl": '{"command": "a", "arguments": "b\nc"}\n' * 300_000,
    "active-features.yaml": "active_features:\n- feature_id: login-2026-01-31\n" + "\n" * 5_000_000,
}


@pytest.mark.parametrize(("name", "content"), DAMAGED.items(), ids=list(DAMAGED))
def test_large_damaged_file_is_read_in_bounded_time_and_the_rest_is_reported(
    name: str, content: str
) -> None:
    began = time.process_time()
    found = FORMAT.salvage({f"login-2026-01-31/{name}": content.encode()}, WHERE)
    assert time.process_time() - began < 60
    assert found is not None
    assert name == "implementation-plan.yaml" or any(name in line for line in found.lost)
