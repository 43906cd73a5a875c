"""The praxis format: reading, writing, checks and salvage, on sample documents."""

from __future__ import annotations

import copy
import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from forestay.base.findings import Finding
from forestay.formats import timestamps
from forestay.formats.facts import CheckpointFact, ErrorFact, Facts, StepFact
from forestay.formats.port import Tree, Where, unsafe_id
from forestay.formats.praxis.api_types import (
    CheckpointStatus,
    PhaseArtifact,
    WorkflowState,
    resumption_context,
)
from forestay.formats.praxis.format import FORMAT, file_name
from forestay.formats.praxis.read import LEGACY_WARNING
from forestay.formats.praxis.write import STRUCTURE, number_phases
from tests.formats.samples.praxis import HERE, ID, LIFECYCLE, NAME, NOON, at, change, ms, session


def legacy(**changes: Any) -> dict[str, Any]:
    doc = session(created_at="2025-10-09T09:00:00.123456", updated_at="2025-10-09T09:31:00.123456")
    for key in ("workflow_structure", "lifecycle", "phase_timing"):
        del doc[key]
    doc["phase_artifacts"]["1"] = {
        **doc["phase_artifacts"]["0"],
        "phase_number": 1,
        "timestamp": at(30),
    }
    return change(doc, changes)


def second(**changes: Any) -> dict[str, Any]:
    doc = legacy(phase_artifacts={}, completed_at=None, status="active")
    doc["evidence_submitted"] = {"0": {"files": 3}}
    ends = (at(10), at(20), None)
    doc["phase_timings"] = {
        str(n): {"phase": n, "started_at": at(10 * n), "completed_at": end}
        for n, end in enumerate(ends)
    }
    return change(doc, changes)


EMPTY: dict[str, Any] = {"workflow_structure": {}, "lifecycle": {}, "phase_timing": {}}


def tree(doc: Any) -> Tree:
    return {NAME: doc}


def get(doc: Any, where: Where = HERE) -> Facts:
    return FORMAT.get(tree(doc), where)


def put(doc: Any, facts: Facts, where: Where = HERE) -> dict[str, Any]:
    (made,) = FORMAT.put(None if doc is None else tree(doc), facts, where).values()
    assert isinstance(made, dict)
    return made


def found(doc: Any, *, strict: bool = False, where: Where = HERE) -> dict[str, Finding]:
    return {f.code: f for f in FORMAT.check(tree(doc), where, strict=strict)}


def step(facts: Facts, number: int) -> StepFact:
    return next(s for s in facts.steps if s.id == f"phase-{number}")


# -- recognising ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("doc", "generation"),
    [
        (session(), "redesign"),
        (session(workflow_structure=..., phase_timing=...), "redesign"),
        (legacy(), "legacy"),
        (legacy(metadata={"total_phases": 3}), "legacy-total"),
        (legacy(metadata={"total_phases": "dynamic"}), "legacy"),
        (second(), "ouroboros-timed"),
        (second(phase_timings=...), "ouroboros"),
        (legacy() | EMPTY, "legacy"),
        (second() | EMPTY, "ouroboros-timed"),
    ],
)
def test_generation_is_recognised_by_shape(doc: dict[str, Any], generation: str) -> None:
    assert FORMAT.recognise("any name", doc) > 0.9
    reading = FORMAT.reading(tree(doc), HERE)
    assert reading.generation == generation
    assert reading.writable == (generation == "redesign")


@pytest.mark.req("X1-1")
def test_file_is_named_after_its_session_in_every_generation() -> None:
    assert FORMAT.files(ID) == [NAME] == [file_name(ID)]
    assert FORMAT.why_invalid_id(ID) == FORMAT.why_invalid_id(f"workflow_default_{ID}") == ""


@pytest.mark.parametrize("bad", ["", "..", "../x", "a/b", "a\\b", "a\0b", ".hidden", "x" * 300])
def test_id_that_leaves_the_folder_is_unsafe(bad: str) -> None:
    assert unsafe_id(bad) and FORMAT.why_invalid_id(bad)
    assert "unsafe-id" in found(session(session_id=bad))


def test_id_that_is_no_uuid_is_read_but_never_created() -> None:
    assert get(session(session_id="abc-123")).native_id == "abc-123"
    assert unsafe_id("abc-123") == "" and FORMAT.why_invalid_id("abc-123")
    (name,) = FORMAT.put(None, Facts(native_id="../abc"), HERE)
    assert FORMAT.why_invalid_id(name.removesuffix(".json")) == ""
    assert list(FORMAT.put(None, Facts(native_id="abc-123"), HERE)) == ["abc-123.json"]
    doc = session(session_id="abc-123")
    assert "id-not-uuid" not in found(doc)
    assert found(doc, strict=True)["id-not-uuid"].requirement == "X1-10"


@pytest.mark.req("S1-32")
def test_older_form_is_an_error_in_strict_checks() -> None:
    finding = found(legacy(), strict=True)["not-redesigned"]
    assert (finding.severity, finding.requirement) == ("error", "S1-32")


# -- reading -------------------------------------------------------------------------------------


@pytest.mark.req("S1-25", "S1-26", "S1-27", "S1-31", "S1-60", "S1-61")
def test_identity_and_times_are_read() -> None:
    facts = get(session())
    assert facts.native_id == ID
    assert (facts.workflow, facts.workflow_version) == ("review_v1", "v2")
    assert facts.target == "docs/plan.md"
    assert (facts.began_at, facts.updated_at) == (ms(), ms(31))


@pytest.mark.req("S1-28", "S1-29", "S1-33", "S1-34", "S1-36", "S1-37", "S1-38", "S1-58")
def test_phases_become_steps() -> None:
    facts = get(session())
    assert facts.plan_total == 3 and facts.plan_base == 0
    assert facts.position == "phase-2"
    assert facts.steps == [
        StepFact("Phase 0", "phase-0", "phase", "", "done", started_at=ms(), ended_at=ms(10)),
        StepFact("Phase 1", "phase-1", "phase", "", "done", started_at=ms(10), ended_at=ms(30)),
        StepFact("Phase 2", "phase-2", "phase", "", "running", started_at=ms(30)),
    ]


def test_pending_phases_are_steps_up_to_a_limit() -> None:
    facts = get(session(workflow_structure__total_phases=5))
    assert [s.status for s in facts.steps] == ["done", "done", "running", "pending", "pending"]
    assert len(get(session(workflow_structure__total_phases=10**18)).steps) == 3


@pytest.mark.req("S1-52", "S1-53", "S1-54", "S1-57")
def test_evidence_belongs_to_the_checkpoint_of_its_phase() -> None:
    assert get(session()).checkpoints == [
        CheckpointFact("phase-0", "passed", {"files": 3}, at=ms(10)),
        CheckpointFact("phase-1", "passed"),
    ]


@pytest.mark.req("S1-58", "X1-2")
@pytest.mark.parametrize(
    ("word", "status"),
    [("passed", "done"), ("failed", "failed"), ("pending", "running"), ("skipped", "skipped")],
)
def test_each_checkpoint_word_has_its_status(word: str, status: str) -> None:
    doc = session(checkpoints__2=word, an_unknown_field=1)
    assert step(get(doc), 2).status == status
    assert found(doc).keys() <= {"passed-not-completed", "complete-not-flagged"}
    facts = get(session())
    facts.steps[2].status = "pending" if word == "pending" else status
    assert put(session(), facts)["checkpoints"].get("2", "pending") == word


def test_completed_session_is_flagged_even_if_all_phases_are_completed() -> None:
    done = [StepFact("", f"phase-{n}", "phase", status="done") for n in range(2)]
    facts = Facts(status="completed", steps=done, plan_total=2, plan_base=0)
    assert put(None, facts)["lifecycle"]["completed"] is True
    facts.status = "active"
    unflagged = put(None, facts)
    assert unflagged["lifecycle"]["completed"] is False
    assert put(unflagged, get(unflagged)) == unflagged


def test_pending_phase_is_listed_in_order_if_the_others_are() -> None:
    words = ("pending", "done", "failed")
    steps = [StepFact("", f"phase-{n}", "phase", status=word) for n, word in enumerate(words)]
    new = put(None, Facts(steps=steps, position="phase-2"))
    assert list(new["checkpoints"]) == ["0", "1", "2"]
    odd = new | {"checkpoints": {"2": "failed", "1": "passed"}}
    assert list(put(odd, Facts(steps=steps, position="phase-2"))["checkpoints"]) == ["2", "1", "0"]


@pytest.mark.req("S1-75", "S1-38")
def test_phase_with_an_end_that_is_not_completed_is_in_progress() -> None:
    doc = session(phase_timing__2={"started_at": at(30), "completed_at": at(40)})
    assert step(get(doc), 2).status == "running" and step(get(doc), 2).ended_at is None
    assert "ended-not-completed" in found(doc)
    failed = get(change(doc, {"checkpoints__2": "failed"}))
    assert step(failed, 2).status == "failed" and step(failed, 2).ended_at is None


@pytest.mark.req("S1-40", "S1-41", "S1-51", "S1-84")
def test_session_with_the_completed_flag_is_completed() -> None:
    doc = session(lifecycle__completed=True, lifecycle__completed_at=at(60))
    facts = get(doc)
    assert facts.status == "completed" and facts.ended_at == ms(60)
    assert FORMAT.reading(tree(doc), HERE).progress == 1.0
    assert get(change(doc, {"completed_phases": [], "checkpoints": {}})).status == "completed"


@pytest.mark.req("S1-42", "S1-43", "S1-44", "S1-45", "S1-46", "S1-47")
def test_pause_and_resume_fields_are_read() -> None:
    flags = {
        "paused": True,
        "paused_at": at(40),
        "paused_reason": "user_request",
        "paused_context": "halfway through the table",
        "resumed_at": at(20),
        "resume_count": 2,
    }
    facts = get(session(lifecycle=flags))
    assert facts.status == "paused" and facts.paused_at == ms(40)
    assert facts.pause_reason == "user_request"
    assert facts.pause_context == "halfway through the table"
    assert (facts.resumed_at, facts.resumes) == (ms(20), 2)


@pytest.mark.req("S1-48", "S1-49")
@pytest.mark.parametrize(
    ("value", "message"),
    [("disk full", "disk full"), ({"message": "no", "code": 3}, "no"), ([1], "[1]")],
)
def test_error_without_a_later_success_fails_the_session(value: Any, message: str) -> None:
    doc = session(lifecycle__last_error=value, lifecycle__last_error_at=at(35))
    assert get(doc).status == "failed"
    assert get(doc).errors == [ErrorFact(message, at=ms(35))]
    assert get(doc).because == message
    assert get(change(doc, {"lifecycle__resumed_at": at(36)})).status == "active"
    lifted = {"lifecycle__resumed_at": None, "lifecycle__paused_at": at(36)}
    assert get(change(doc, lifted)).status == "active"
    later = {"lifecycle__paused_at": at(34), "phase_timing__1__completed_at": at(50)}
    assert get(change(doc, later)).status == "active"
    assert get(change(doc, {"phase_timing__1__completed_at": at(30)})).status == "failed"


def test_pause_by_a_system_error_is_a_failed_session() -> None:
    flags = {"paused": True, "paused_reason": "system_error", "last_error": "boom"}
    assert get(session(lifecycle=flags)).status == "failed"
    assert get(session(lifecycle={**flags, "last_error": None})).status == "paused"


@pytest.mark.req("S1-62", "S1-63", "S1-64")
def test_single_values_of_the_metadata_are_attributes() -> None:
    assert get(session()).attributes == {
        "praxis.spec_path": "specs/plan",
        "praxis.agent_version": "1.0",
    }
    found_there = found(session(metadata={"spec_path": 3, "user_options": [], "agent_version": 1}))
    assert found_there["wrong-type"].severity == "error"
    listed = FORMAT.check(tree(session(metadata={"spec_path": 3, "user_options": []})), HERE)
    assert {f.requirement for f in listed} == {"S1-62", "S1-63"}


@pytest.mark.parametrize(
    ("metadata", "target", "goal"),
    [
        ({"feature_name": "fast search"}, "x.py", "review_v1: fast search"),
        ({"spec_name": "names"}, "x.py", "review_v1: names"),
        ({"spec_path": "specs/2025-plan/"}, "x.py", "review_v1: 2025-plan"),
        ({"spec_path": "..."}, "docs/x.py", "review_v1: x.py"),
        ({}, ".", "review_v1"),
    ],
)
def test_goal_is_made_of_workflow_and_target(metadata: Any, target: str, goal: str) -> None:
    assert get(session(metadata=metadata, target_file=target)).goal == goal


def test_goal_is_never_written() -> None:
    facts = get(session())
    facts.goal = "something else"
    assert put(session(), facts) == session()
    assert "something else" not in json.dumps(put(None, facts))


@pytest.mark.req("S1-55", "S1-56")
def test_outputs_are_preserved_and_commands_are_read() -> None:
    ran = {"command": "make", "output": "no", "exit_code": 2, "executed_at": at(5)}
    doc = session(phase_artifacts__0__commands_executed=[ran, "ls", 7])
    first, other = get(doc).commands
    assert (first.name, first.status, first.error, first.at) == ("make", "failure", "no", ms(5))
    assert (other.name, other.status, other.task) == ("ls", "success", "phase-0")
    facts = get(doc)
    facts.updated_at = ms(99)
    assert put(doc, facts)["phase_artifacts"] == doc["phase_artifacts"]
    wrong = session(phase_artifacts__0__outputs=[], phase_artifacts__0__commands_executed={})
    assert {f.requirement for f in FORMAT.check(tree(wrong), HERE)} == {"S1-55", "S1-56"}


# -- field by field -------------------------------------------------------------------------------

# Place, what it is (with a question mark: or null), requirement.


@pytest.mark.req("S1-29", "S1-30", "S1-31", "S1-40", "S1-42", "S1-47", "S1-69")
def test_missing_keys_of_a_section_are_warnings() -> None:
    for key, names in (("workflow_structure", STRUCTURE), ("lifecycle", LIFECYCLE)):
        findings = [
            f for f in FORMAT.check(tree(session(**{key: {}})), HERE) if f.code == "missing-key"
        ]
        assert {f.where for f in findings} == {f"{key}.{name}" for name in names}
        assert {f.severity for f in findings} == {"warning"}
        strict = FORMAT.check(tree(session(**{key: {}})), HERE, strict=True)
        assert len({(f.code, f.where) for f in strict}) == len(strict)


@pytest.mark.req("S1-125")
def test_number_of_phases_as_text_is_an_error() -> None:
    finding = found(legacy(metadata={"total_phases": "6"}))["wrong-type"]
    assert (finding.where, finding.severity) == ("metadata.total_phases", "error")


@pytest.mark.req("S1-52", "S1-58")
@pytest.mark.parametrize("key, number", [("phase_artifacts", "S1-52"), ("checkpoints", "S1-58")])
def test_key_that_is_no_phase_is_reported_with_the_requirement_of_its_map(
    key: str, number: str
) -> None:
    assert found(session(**{f"{key}__x": {}}))["bad-phase-key"].requirement == number


# -- complete or not ------------------------------------------------------------------------------


def complete(completed: list[int], total: Any, start: int = 0, where: Where = HERE) -> bool:
    doc = session(completed_phases=completed, workflow_structure__total_phases=total)
    doc["workflow_structure"]["starting_phase"] = start
    by_class = WorkflowState.from_dict(doc).is_complete(where.total)
    assert FORMAT.reading(tree(doc), where).complete == by_class
    return by_class


@pytest.mark.req("S1-85", "S1-86", "S1-87", "S1-88")
def test_session_that_completed_all_its_phases_is_complete() -> None:
    assert complete([0, 1, 2], 3)
    assert not complete([0, 1], 3)
    assert not complete([0, 2, 2], 3)
    assert not complete([0, 1, 3], 3)
    assert complete([1, 2, 3], 3, start=1)
    assert not complete([1, 2, 4], 3, start=1)
    assert not complete([0, 1, 2], 3, start=1)
    assert not complete([], 3)
    assert not complete([], 0)


@pytest.mark.req("S1-85")
def test_more_phases_than_expected_are_complete_and_an_overrun() -> None:
    assert complete([0, 1, 2, 3, 4], 3)
    doc = legacy(completed_phases=[0, 1, 2, 3], current_phase=4, metadata={"total_phases": 3})
    assert found(doc)["overrun"].severity == "warning"
    assert FORMAT.reading(tree(doc), HERE).progress == 1.0


@pytest.mark.req("S1-89")
def test_session_without_a_number_of_phases_is_complete_only_by_its_flag() -> None:
    assert not complete([0, 1, 2, 3], None)
    assert not complete([0, 1, 2, 3], "dynamic")
    assert not FORMAT.reading(tree(legacy()), HERE).complete
    assert found(legacy())["total-unknown"].severity == "info"


@pytest.mark.req("S1-125", "S1-137")
def test_number_of_phases_at_the_start_outweighs_a_later_one() -> None:
    three = Where(total=3)
    assert complete([0, 1, 2], None, where=three)
    assert not complete([0, 1, 2], 4, where=three)
    assert FORMAT.reading(tree(legacy(completed_phases=[0, 1, 2])), three).complete
    noted = legacy(completed_phases=[0, 1, 2], metadata={"total_phases": 4})
    assert not FORMAT.reading(tree(noted), three).complete
    assert "total-changed" in found(session(metadata={"total_phases": 9}))


@pytest.mark.req("S1-84")
@pytest.mark.parametrize(
    ("status", "canonical", "is_complete"),
    [
        ("completed", "completed", True),
        ("active", "active", False),
        ("paused", "paused", False),
        ("error", "failed", False),
    ],
)
def test_second_generation_has_a_status(status: str, canonical: str, is_complete: bool) -> None:
    reading = FORMAT.reading(tree(second(status=status)), HERE)
    assert (reading.status, reading.complete) == (canonical, is_complete)
    assert WorkflowState.from_dict(second(status=status)).is_complete() is is_complete


@pytest.mark.req("X1-13")
def test_session_deleted_by_hand_is_reported() -> None:
    doc = second(status="error", error_reason="manually_deleted", completed_at=at(50))
    assert get(doc).status == "failed" and get(doc).because == "manually_deleted"
    assert found(doc)["deleted-by-hand"].requirement == "X1-13"


@pytest.mark.req("S1-136")
def test_current_phase_after_the_last_phase_is_never_used() -> None:
    doc = legacy(completed_phases=[0, 1, 2], current_phase=3, metadata={"total_phases": 3})
    facts = get(doc)
    assert facts.position == "phase-2" and len(facts.steps) == 3
    assert found(doc)["current-out-of-range"].severity == "warning"
    assert found(session(current_phase=3))["current-out-of-range"].severity == "error"
    over = second(status="completed", completed_phases=[0, 1], current_phase=2)
    assert get(over).position == "phase-1" and len(get(over).steps) == 2
    facts.position = "phase-9"
    facts.updated_at = ms(90)
    assert put(doc, facts)["current_phase"] == 2
    assert FORMAT.in_current_form(tree(doc), HERE)[NAME]["current_phase"] == 2


# -- older generations ----------------------------------------------------------------------------


@pytest.mark.req("S1-126")
@pytest.mark.parametrize("doc", [legacy(), legacy(metadata={"total_phases": 3}), second()])
def test_older_forms_are_read_with_the_warning_of_the_document(doc: dict[str, Any]) -> None:
    warning = found(doc)["legacy-format"]
    assert warning.what == LEGACY_WARNING == "Legacy session format, limited resumption context"
    assert warning.severity == "warning"
    assert "legacy-format" not in found(session())


@pytest.mark.req("S1-138", "S1-142")
@pytest.mark.parametrize("doc", [legacy(), second()])
def test_older_forms_are_read_and_not_migrated(doc: dict[str, Any]) -> None:
    before = copy.deepcopy(doc)
    facts = get(doc)
    assert [s.status for s in facts.steps] == ["done", "done", "running"]
    assert facts.position == "phase-2" and facts.status == "active"
    assert not FORMAT.reading(tree(doc), HERE).writable
    assert put(doc, facts) == before == doc


def test_changed_file_of_an_older_generation_gets_the_redesigned_form() -> None:
    for doc in (
        legacy(mystery=1),
        legacy(metadata={"total_phases": 3}, mystery=1),
        second(mystery=1),
    ):
        facts = get(doc)
        facts.status, facts.paused_at, facts.workflow_version = "paused", ms(60), "v2"
        step(facts, 2).status = "done"
        changed = put(doc, facts)
        assert FORMAT.reading(tree(changed), HERE).generation == "redesign"
        assert changed["completed_phases"] == [0, 1, 2] and changed["mystery"] == 1
        assert changed["checkpoints"]["2"] == "passed"
        assert get(changed).status == "paused" and get(changed).workflow_version == "v2"


def test_phase_of_an_old_file_lasts_from_one_evidence_to_the_next() -> None:
    facts = get(legacy())
    assert step(facts, 0).started_at == facts.began_at
    assert step(facts, 0).ended_at == step(facts, 1).started_at == ms(10)


@pytest.mark.req("S1-127", "S1-32")
def test_redesigned_form_of_an_old_file_has_the_same_facts_and_unknown_keys() -> None:
    for doc in (legacy(mystery=[1]), second(mystery=[1]), second(mystery=[1]) | EMPTY):
        (new,) = FORMAT.in_current_form(tree(doc), Where(total=3)).values()
        assert get(new) == get(doc, Where(total=3))
        assert new["mystery"] == [1] and new["workflow_structure"]["total_phases"] == 3
        assert set(LIFECYCLE) <= set(new["lifecycle"])
        assert not any(f.severity == "error" for f in found(new, strict=True).values())


@pytest.mark.parametrize("key", ["created_at", "updated_at"])
def test_redesigned_form_of_a_file_without_a_time_has_both_times(key: str) -> None:
    doc = {name: value for name, value in legacy().items() if name != key}
    (new,) = FORMAT.in_current_form(tree(doc), HERE).values()
    assert not any(f.severity == "error" for f in found(new, strict=True).values())
    assert new["created_at"] <= new["updated_at"] and timestamps.is_naive(new[key])


def test_new_stamps_in_a_file_without_zones_have_none() -> None:
    (new,) = FORMAT.in_current_form(tree(legacy()), HERE).values()
    assert timestamps.is_naive(new["phase_timing"]["2"]["started_at"])


# -- writing --------------------------------------------------------------------------------------

DOCUMENT_ORDER = [
    "session_id",
    "workflow_type",
    "target_file",
    "workflow_structure",
    "current_phase",
    "completed_phases",
    "phase_timing",
    "lifecycle",
    "phase_artifacts",
    "checkpoints",
    "created_at",
    "updated_at",
    "metadata",
]


@pytest.mark.req("S1-60", "S1-61", "S1-28", "S1-29", "S1-30", "S1-32", "S1-47")
def test_new_file_has_every_key_in_the_order_of_the_document() -> None:
    facts = Facts(native_id=ID, workflow="w", plan_total=4, plan_base=1, began_at=NOON)
    doc = put(None, facts)
    assert list(doc) == DOCUMENT_ORDER
    assert doc["workflow_structure"] == {
        "total_phases": 4,
        "starting_phase": 1,
        "indexing_scheme": "one_based",
        "workflow_version": "",
    }
    assert doc["lifecycle"] == LIFECYCLE and len(LIFECYCLE) == 10
    assert doc["current_phase"] == 1
    assert doc["created_at"] == doc["updated_at"] == at()
    assert found(doc, strict=True) == {}
    undated = put(None, Facts(native_id=ID), Where(now=NOON))
    assert undated["created_at"] == undated["updated_at"] == at()
    from_zero = put(None, Facts(native_id=ID, workflow="w", plan_total=4, plan_base=0))
    assert from_zero["workflow_structure"]["indexing_scheme"] == "zero_based"


@pytest.mark.req("S1-28")
def test_unknown_number_of_phases_is_null_until_it_is_resolved() -> None:
    doc = put(None, Facts(native_id=ID))
    assert doc["workflow_structure"]["total_phases"] is None
    assert found(doc)["total-unknown"].severity == "info"
    facts = get(doc)
    facts.plan_total = 7
    assert put(doc, facts)["workflow_structure"]["total_phases"] == 7
    assert put(None, Facts(), Where(total=5))["workflow_structure"]["total_phases"] == 5


@pytest.mark.req("S1-33", "S1-34", "S1-35", "S1-37", "S1-39", "S1-40", "S1-41", "S1-50", "S1-51")
def test_finishing_the_last_phase_writes_flag_times_and_durations() -> None:
    facts = get(session())
    facts.steps[2].status, facts.steps[2].ended_at = "done", ms(50)
    facts.steps[2].paused_ms = 300_000
    facts.status, facts.ended_at, facts.position = "completed", ms(60), ""
    doc = put(session(), facts)
    assert doc["completed_phases"] == [0, 1, 2] and doc["current_phase"] == 2
    assert doc["phase_timing"]["2"] == {
        "started_at": at(30),
        "paused_duration_seconds": 300.0,
        "completed_at": at(50),
        "duration_seconds": 900.0,
    }
    assert doc["lifecycle"]["completed"] is True
    assert doc["lifecycle"]["completed_at"] == at(60)
    assert doc["lifecycle"]["total_duration_seconds"] == 3600.0
    assert get(doc) == get(put(doc, get(doc)))
    assert found(doc) == {}


@pytest.mark.req("S1-36", "S1-39", "S1-59")
def test_phase_that_restarts_does_not_count_earlier_pauses() -> None:
    doc = session()
    doc["phase_timing"]["1"]["paused_duration_seconds"] = 600
    facts = get(doc)
    again = facts.steps[1]
    again.status, again.started_at, again.ended_at, again.paused_ms = "running", ms(40), None, None
    begun = put(doc, facts)
    assert begun["phase_timing"]["1"] == {"started_at": at(40)}
    facts = get(begun)
    facts.steps[1].status, facts.steps[1].ended_at = "done", ms(45)
    assert put(begun, facts)["phase_timing"]["1"]["duration_seconds"] == 300.0


@pytest.mark.req("S1-39")
def test_boolean_is_not_a_pause_duration() -> None:
    doc = session()
    doc["phase_timing"]["2"]["paused_duration_seconds"] = True
    facts = get(doc)
    facts.steps[2].status, facts.steps[2].ended_at = "done", ms(50)
    assert put(doc, facts)["phase_timing"]["2"]["duration_seconds"] == 1200.0


@pytest.mark.req("S1-51")
def test_reopened_session_has_no_total_duration() -> None:
    facts = get(session())
    facts.status, facts.ended_at = "completed", ms(60)
    over = put(session(), facts)
    assert over["lifecycle"]["total_duration_seconds"] == 3600.0
    facts.status, facts.ended_at = "active", None
    assert "total_duration_seconds" not in put(over, facts)["lifecycle"]


def test_next_phase_is_the_first_open_one() -> None:
    facts = get(session(workflow_structure__total_phases=5))
    facts.steps[2].status, facts.position = "done", ""
    assert put(session(workflow_structure__total_phases=5), facts)["current_phase"] == 3


@pytest.mark.req("S1-42", "S1-43", "S1-44", "S1-45", "S1-46", "S1-47", "S1-50")
def test_pause_and_resume_are_written() -> None:
    facts = get(session())
    facts.status, facts.paused_at = "paused", ms(40)
    facts.pause_reason, facts.pause_context = "gone fishing", "the second table"
    paused = put(session(), facts)
    flags = paused["lifecycle"]
    assert flags["paused"] is True and flags["paused_at"] == at(40)
    assert flags["paused_reason"] == "user_request"
    assert flags["paused_context"] == "the second table"
    facts = get(paused)
    facts.status, facts.resumed_at, facts.resumes = "active", ms(55), 1
    facts.paused_at, facts.pause_reason, facts.pause_context = None, "", ""
    flags = put(paused, facts)["lifecycle"]
    assert flags == {**LIFECYCLE, "resumed_at": at(55), "resume_count": 1}


@pytest.mark.req("S1-44", "S1-48", "S1-49")
def test_failed_session_is_paused_by_a_system_error_with_its_reason() -> None:
    facts = get(session())
    facts.status, facts.because, facts.ended_at = "failed", "disk full", ms(45)
    doc = put(session(), facts)
    flags = doc["lifecycle"]
    assert flags["paused"] is True and flags["paused_reason"] == "system_error"
    assert (flags["last_error"], flags["last_error_at"]) == ("disk full", at(45))
    assert get(doc).status == "failed" and get(doc).because == "disk full"


@pytest.mark.req("S1-42", "S1-43")
@pytest.mark.parametrize("status", ["failed", "aborted", "abandoned"])
def test_stopped_session_is_paused_since_its_end(status: str) -> None:
    facts = get(session())
    facts.status, facts.ended_at = status, ms(45)
    doc = put(session(), facts)
    assert doc["lifecycle"]["paused_at"] == at(45)
    facts.status, facts.ended_at = "active", None
    assert put(doc, facts)["lifecycle"]["paused_at"] is None


@pytest.mark.req("S1-43")
def test_time_of_a_failure_by_another_program_is_preserved() -> None:
    doc = session(lifecycle__paused=True, lifecycle__paused_at=at(40))
    doc["lifecycle"] |= {"paused_reason": "system_error", "last_error": "boom"}
    facts = get(doc)
    facts.paused_at, facts.ended_at = None, ms(45)
    assert put(doc, facts)["lifecycle"]["paused_at"] == at(40)


def test_file_that_failed_by_its_error_alone_gets_no_pause_time() -> None:
    doc = session(lifecycle__last_error="boom", lifecycle__last_error_at=at(55))
    facts = get(doc)
    assert facts.status == "failed"
    facts.ended_at = ms(56)
    assert put(doc, facts)["lifecycle"] == doc["lifecycle"]


@pytest.mark.req("S1-28", "S1-29", "S1-30", "S1-31")
def test_removed_structure_is_restored_with_all_keys() -> None:
    doc = session()
    whole = doc.pop("workflow_structure")
    facts = get(session())
    assert put(doc, facts)["workflow_structure"] == whole


def test_sections_emptied_by_a_program_are_restored() -> None:
    made, notes = FORMAT.restore_required({NAME: session() | EMPTY}, {NAME: session()}, HERE)
    assert made[NAME] == session()
    assert sorted(notes) == sorted(f"{key} was removed" for key in EMPTY)


@pytest.mark.parametrize("timing", [None, [], 5, {"2": None}])
def test_invalid_times_stay_when_a_program_without_times_passes_a_phase(
    timing: object,
) -> None:
    before = session() | {"phase_timing": timing}
    doc = session(completed_phases=[0, 1, 2], current_phase=3, phase_timing=...)
    doc["phase_artifacts"]["2"] = doc["phase_artifacts"]["0"] | {"phase_number": 2}
    made, notes = FORMAT.restore_required({NAME: doc}, {NAME: before}, HERE)
    assert notes == ["phase_timing was removed"]
    assert made[NAME]["completed_phases"] == [0, 1, 2]


@pytest.mark.parametrize("status", ["aborted", "abandoned"])
def test_abandoned_session_is_paused_on_request(status: str) -> None:
    facts = get(session())
    facts.status = status
    flags = put(session(), facts)["lifecycle"]
    assert flags["paused"] is True and flags["paused_reason"] == "user_request"


def test_file_contains_the_latest_error_only() -> None:
    facts = get(session())
    facts.errors = [ErrorFact("new", at=ms(9)), ErrorFact("old", at=ms(3))]
    doc = put(session(), facts)
    assert doc["lifecycle"]["last_error"] == "new"
    facts.errors = []
    assert put(doc, facts)["lifecycle"]["last_error"] == "new"


@pytest.mark.req("S1-59")
def test_failed_checkpoint_can_be_retried_and_the_attempt_is_archived() -> None:
    facts = get(session())
    facts.steps[2].status = "failed"
    facts.checkpoints.append(CheckpointFact("phase-2", "failed", {"tests": 1}, at=ms(40)))
    failed = put(session(), facts)
    assert failed["checkpoints"]["2"] == "failed" and 2 not in failed["completed_phases"]
    assert "completed_at" not in failed["phase_timing"]["2"]
    facts.steps[2].status, facts.steps[2].ended_at = "done", ms(50)
    facts.checkpoints[-1] = CheckpointFact("phase-2", "passed", {"tests": 9}, at=ms(50))
    passed = put(failed, facts)
    assert passed["checkpoints"]["2"] == "passed"
    assert passed["phase_artifacts"]["2"]["evidence"] == {"tests": 9}
    (attempt,) = passed["phase_attempts"]["2"]
    assert attempt["checkpoint"] == "failed" and attempt["evidence"] == {"tests": 1}
    assert attempt["timestamp"] == at(40)


@pytest.mark.req("S1-59")
def test_rolled_back_phase_is_archived_in_the_file() -> None:
    facts = get(session())
    facts.steps[0] = StepFact("Phase 0", "phase-0", "phase")
    facts.checkpoints = [facts.checkpoints[1]]
    doc = put(session(), facts)
    assert doc["completed_phases"] == [1] and "0" not in doc["phase_timing"]
    assert doc["checkpoints"]["0"] == "pending" and "0" not in doc["phase_artifacts"]
    (attempt,) = doc["phase_attempts"]["0"]
    assert attempt["outputs"] == {"list": ["a"]} and attempt["timing"]["completed_at"] == at(10)


@pytest.mark.req("S1-53", "S1-54", "S1-55", "S1-56", "S1-57")
def test_evidence_is_written_with_all_keys_and_a_time() -> None:
    steps = [StepFact("Phase 0", "phase-0", "phase", "", "done", ended_at=ms(5))]
    check = CheckpointFact("phase-0", "passed", {"a": [1]})
    doc = put(None, Facts(native_id=ID, steps=steps, checkpoints=[check], began_at=NOON))
    assert doc["phase_artifacts"]["0"] == {
        "phase_number": 0,
        "evidence": {"a": [1]},
        "outputs": {},
        "commands_executed": [],
        "timestamp": at(5),
    }


def test_steps_without_a_phase_number_are_numbered_in_order() -> None:
    steps = [
        StepFact("design", "t-1", status="done"),
        StepFact("part", "t-1a", parent="t-2"),
        StepFact("build", "t-2", status="running"),
        StepFact("test"),
    ]
    doc = put(None, Facts(steps=steps, position="t-1a"))
    assert number_phases(Facts(steps=steps)) == {0: 0, 1: 2, 2: 3}
    assert FORMAT.assigned_step_ids(Facts(steps=steps)) == {
        0: "phase-0",
        2: "phase-1",
        3: "phase-2",
    }
    assert doc["completed_phases"] == [0] and doc["current_phase"] == 1
    assert [s.status for s in get(doc).steps] == ["done", "running", "pending"]


def test_tasks_next_to_phases_are_no_phases() -> None:
    facts = get(session())
    facts.steps.append(StepFact("mow the lawn", "t-1"))
    assert put(session(), facts) == session()


def test_stamps_retain_their_style_and_never_go_back() -> None:
    doc = session(updated_at="2025-10-09T11:31:00.000+02:00")
    facts = get(doc)
    facts.updated_at = ms(90)
    assert put(doc, facts)["updated_at"] == "2025-10-09T12:30:00.000+02:00"
    facts.updated_at = ms(1)
    assert put(doc, facts) == doc


def test_removed_step_is_removed_from_the_file() -> None:
    doc = session(workflow_structure__total_phases=None)
    facts = get(doc)
    del facts.steps[1], facts.checkpoints[1]
    new = put(doc, facts)
    assert new["completed_phases"] == [0] and "1" not in new["checkpoints"]
    assert [s.id for s in get(new).steps] == ["phase-0", "phase-2"]


# -- laws -----------------------------------------------------------------------------------------


# The status that is read after writing; one without a word in the format depends on its time.


# -- checking -------------------------------------------------------------------------------------


@pytest.mark.req("S1-39")
def test_phase_paused_for_longer_than_it_lasted_has_no_duration() -> None:
    paused = {"paused_duration_seconds": 7200, "duration_seconds": 0.0}
    changes = {f"phase_timing__1__{key}": value for key, value in paused.items()}
    assert "duration-mismatch" not in found(session(**changes))


HUGE = 10**400
"""More than any float."""


@pytest.mark.req("S1-39")
@pytest.mark.parametrize("key", ["duration_seconds", "paused_duration_seconds"])
def test_implausible_duration_is_checked(key: str) -> None:
    assert "duration-mismatch" in found(session(phase_timing__1__duration_seconds=3))
    findings = found(session(**{f"phase_timing__1__{key}": HUGE}))
    assert ("duration-mismatch" in findings) == (key == "duration_seconds")


@pytest.mark.req("S1-39")
def test_implausible_pause_is_ignored_when_its_phase_ends() -> None:
    doc = session(phase_timing__2={"started_at": at(30), "paused_duration_seconds": HUGE})
    facts = get(doc)
    facts.steps[2].status, facts.steps[2].ended_at = "done", ms(45)
    assert put(doc, facts)["phase_timing"]["2"]["duration_seconds"] == 900.0


@pytest.mark.req("S1-40", "S1-45", "S1-48")
def test_strict_check_requires_all_ten_flags() -> None:
    for key in LIFECYCLE:
        doc = session(**{f"lifecycle__{key}": ...})
        assert found(doc)["missing-key"].severity == "warning"
        assert found(doc, strict=True)["missing-key"].where == f"lifecycle.{key}"


# -- salvage --------------------------------------------------------------------------------------


def salvage(data: bytes) -> Any:
    return FORMAT.salvage({NAME: data}, HERE)


def test_single_fields_are_found_in_a_file_without_a_beginning() -> None:
    text = "}} " + json.dumps(session()) + " garbage \xff"
    assert salvage(text.encode("latin-1")).facts == get(session())
    saved = salvage(text.replace("{", "", 1).encode("latin-1"))
    assert saved.level == "fields" and saved.facts.native_id == ID
    assert saved.facts.position == "phase-2" and "phase_artifacts" in saved.lost


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 3_000_000,
        b'{"a":' * 500_000,
        b'"\\' * 1_500_000,
        b'{"workflow_type": "x", "current_phase": 1, "a": "' + b'\\"' * 1_500_000,
        b'"session_id":"' * 200_000,
        b"{" + b'"k":[],' * 400_000,
        b'{"workflow_type":"x","current_phase":' + b"9" * 100_000,
    ],
)
def test_hostile_files_take_no_longer_than_their_length(data: bytes) -> None:
    began = time.process_time()
    salvage(data)
    assert time.process_time() - began < 60


def test_halves_of_surrogate_pairs_are_replaced() -> None:
    text = json.dumps(session(target_file="x")).replace('"x"', '"\\ud800"')
    assert salvage(text.encode()).facts.target == "\ufffd"


# -- the class of the document --------------------------------------------------------------------

START = datetime(2025, 10, 9, 9, tzinfo=UTC)


def state(**changes: Any) -> WorkflowState:
    fields: dict[str, Any] = {
        "session_id": ID,
        "workflow_type": "review_v1",
        "target_file": "x",
        "current_phase": 0,
        "completed_phases": [],
        "phase_artifacts": {},
        "checkpoints": {},
        "created_at": START,
        "updated_at": START,
        "workflow_structure": {"total_phases": 2, "starting_phase": 0},
        "phase_timing": {0: {"started_at": "2025-10-09T09:00:00Z"}},
    }
    return WorkflowState(**{**fields, **changes})


def handed(phase: int, **evidence: Any) -> PhaseArtifact:
    return PhaseArtifact(phase, evidence, timestamp=START)


def later(minutes: int) -> datetime:
    return START + timedelta(minutes=minutes)


@pytest.mark.req("S1-71", "S1-73", "S1-74", "S1-75", "S1-76", "S1-80", "S1-83")
def test_phase_that_passed_is_recorded_and_the_next_begins() -> None:
    made = state()
    made.complete_phase(0, handed(0, ok=True), now=later(10))
    assert made.phase_artifacts[0].evidence == {"ok": True}
    assert made.checkpoints == {0: CheckpointStatus.PASSED}
    assert made.completed_phases == [0] and made.current_phase == 1
    assert made.phase_timing == {
        0: {
            "started_at": "2025-10-09T09:00:00Z",
            "completed_at": "2025-10-09T09:10:00Z",
            "duration_seconds": 600.0,
        },
        1: {"started_at": "2025-10-09T09:10:00Z"},
    }
    assert made.updated_at == later(10) and not made.is_complete()


@pytest.mark.req("S1-72")
def test_only_the_current_phase_can_be_completed() -> None:
    with pytest.raises(ValueError, match=r"\ACannot complete phase 1, current phase is 0\Z"):
        state().complete_phase(1, handed(1), now=later(1))


@pytest.mark.req("S1-77", "S1-78", "S1-79")
@pytest.mark.parametrize(("start", "last"), [(0, 1), (1, 2)])
def test_last_phase_completes_the_session(start: int, last: int) -> None:
    made = state(
        current_phase=last, workflow_structure={"total_phases": 2, "starting_phase": start}
    )
    made.complete_phase(last, handed(last), now=later(60))
    assert made.lifecycle == {
        "completed": True,
        "completed_at": "2025-10-09T10:00:00Z",
        "total_duration_seconds": 3600.0,
    }
    assert made.current_phase == last and made.is_complete()


@pytest.mark.req("S1-50")
def test_repeated_completion_of_the_last_phase_does_not_change_the_flags() -> None:
    made = state(current_phase=1, workflow_structure={"total_phases": 2})
    made.complete_phase(1, handed(1), now=later(60))
    flags = dict(made.lifecycle)
    made.complete_phase(1, handed(1), now=later(90))
    assert made.lifecycle == flags and made.completed_phases == [1]


@pytest.mark.req("S1-81")
def test_without_a_number_of_phases_only_the_current_phase_moves() -> None:
    made = state(workflow_structure={}, phase_timing={})
    made.complete_phase(0, handed(0), now=later(1))
    assert made.current_phase == 1 and made.phase_timing == {} and made.lifecycle == {}


@pytest.mark.req("S1-74", "S1-75", "S1-76", "S1-82", "S1-83")
def test_failed_phase_does_not_advance_and_its_attempt_is_stored() -> None:
    made = state()
    made.complete_phase(0, handed(0, n=1), checkpoint_passed=False, now=later(5))
    assert made.checkpoints == {0: CheckpointStatus.FAILED}
    assert made.completed_phases == [] and made.current_phase == 0
    assert "completed_at" not in made.phase_timing[0] and made.updated_at == later(5)
    made.complete_phase(0, handed(0, n=2), checkpoint_passed=False, now=later(7))
    made.complete_phase(0, handed(0, n=3), now=later(9))
    assert made.completed_phases == [0] and made.phase_artifacts[0].evidence == {"n": 3}
    attempts = made.to_dict()["phase_attempts"]["0"]
    assert [(a["checkpoint"], a["evidence"]) for a in attempts] == [
        ("failed", {"n": 1}),
        ("failed", {"n": 2}),
    ]


@pytest.mark.req("S1-76")
def test_phase_is_listed_once() -> None:
    made = state(completed_phases=[0])
    made.complete_phase(0, handed(0), now=later(1))
    assert made.completed_phases == [0]


@pytest.mark.req("S1-75")
def test_duration_of_a_phase_excludes_its_pauses() -> None:
    timing = {0: {"started_at": "2025-10-09T09:00:00Z", "paused_duration_seconds": 100}}
    made = state(phase_timing=timing)
    made.complete_phase(0, handed(0), now=later(10))
    assert made.phase_timing[0]["duration_seconds"] == 500.0


def test_invalid_pause_does_not_count() -> None:
    for none in (HUGE, "long", -1):
        timing = {0: {"started_at": "2025-10-09T09:00:00Z", "paused_duration_seconds": none}}
        made = state(phase_timing=timing)
        assert resumption_context(made, later(10)).time_in_phase == 600.0
        made.complete_phase(0, handed(0), now=later(10))
        assert made.phase_timing[0]["duration_seconds"] == 600.0


def test_times_without_a_zone_are_local() -> None:
    made = state(
        created_at=datetime(2025, 10, 9, 9),
        phase_timing={0: {"started_at": "2025-10-09T09:00:00"}},
    )
    made.complete_phase(0, handed(0), now=datetime(2025, 10, 9, 9, 1))
    assert made.phase_timing[0]["completed_at"] == "2025-10-09T09:01:00"
    assert made.phase_timing[0]["duration_seconds"] == 60.0


@pytest.mark.req("S1-75", "S1-79", "S1-83")
def test_stamps_never_go_back_when_another_clock_is_ahead() -> None:
    made = state(phase_timing={1: {"started_at": at(50)}}, current_phase=1, completed_phases=[0])
    made.complete_phase(1, handed(1), now=later(-30))
    assert made.phase_timing[1]["completed_at"] == at(50)
    assert made.phase_timing[1]["duration_seconds"] == 0
    assert made.lifecycle["total_duration_seconds"] == 50 * 60
    assert made.updated_at == later(50)


def test_phase_with_an_invalid_start_can_be_completed() -> None:
    made = state(phase_timing={0: {"started_at": "yesterday"}})
    made.complete_phase(0, handed(0), now=later(5))
    assert made.phase_timing[0] == {"started_at": "yesterday"} and made.current_phase == 1


def test_dict_from_to_dict_is_not_changed_by_later_changes_of_the_state() -> None:
    made = state()
    given = made.to_dict()
    before = json.dumps(given)
    made.complete_phase(0, handed(0), now=later(5))
    assert json.dumps(given) == before


def test_wrong_artifact_is_refused_before_anything_changes() -> None:
    made = state()
    made.complete_phase(0, handed(0), False, now=later(5))
    before = made.to_dict()
    with pytest.raises((TypeError, AttributeError)):
        made.complete_phase(0, {"evidence": {}}, now=later(6))  # type: ignore[arg-type]
    assert made.to_dict() == before


def test_state_without_a_clock_raises() -> None:
    with pytest.raises(RuntimeError, match="clock"):
        state().complete_phase(0, handed(0))


@pytest.mark.req("S1-117", "S1-118")
def test_workflow_state_class_has_the_fields_of_the_document() -> None:
    made = WorkflowState(ID, "w", "t", 0, [], {}, {}, START, START)
    assert made.metadata == made.workflow_structure == made.lifecycle == {}
    assert made.phase_timing == {}
    read = WorkflowState.from_dict(session())
    assert isinstance(read.created_at, datetime) and isinstance(read.updated_at, datetime)
    assert list(read.phase_timing) == [0, 1, 2] and list(read.phase_artifacts) == [0]
    assert isinstance(read.phase_artifacts[0], PhaseArtifact)
    assert read.checkpoints == {0: CheckpointStatus.PASSED, 1: CheckpointStatus.PASSED}


@pytest.mark.req("S1-119")
def test_workflow_state_class_writes_the_values_it_read() -> None:
    doc = session(mystery={"a": 1}, phase_artifacts__0__more=2)
    made = WorkflowState.from_dict(doc)
    assert made.to_dict() == doc
    assert WorkflowState.from_dict(made.to_dict()) == made
    assert list(WorkflowState.from_dict(session()).to_dict()) == DOCUMENT_ORDER


@pytest.mark.req("S1-119", "S1-126")
def test_older_session_saved_by_the_workflow_state_class_has_the_same_facts() -> None:
    for doc in (legacy(), second(status="completed"), second(status="error", error_reason="no")):
        saved = WorkflowState.from_dict(doc).to_dict()
        assert get(saved) == get(doc)
        assert "legacy-format" in found(saved)


@pytest.mark.req("S1-120")
def test_workflow_state_knows_without_arguments_whether_it_is_complete() -> None:
    assert state(completed_phases=[0, 1]).is_complete() is True
    assert state(completed_phases=[0]).is_complete() is False
    assert WorkflowState.from_dict(legacy(completed_phases=[0, 1, 2])).is_complete() is False


def test_session_written_by_the_workflow_state_class_has_no_findings() -> None:
    made = WorkflowState.from_dict(session())
    made.complete_phase(2, handed(2), now=later(60))
    doc = made.to_dict()
    assert found(doc, strict=True) == {}
    assert get(doc).status == "completed"
