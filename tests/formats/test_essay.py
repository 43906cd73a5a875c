"""The `essay` format: fields and words, reading and writing, checks, recovery, messages."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from forestay.base import vocabulary
from forestay.base.findings import Finding
from forestay.formats import timestamps as clock
from forestay.formats.essay import display, fields, salvage, stage_files
from forestay.formats.essay.format import FORMAT, defer_reason
from forestay.formats.facts import UNIT, ClaimFact, Facts, RevisitFact, StepFact
from forestay.formats.port import ERROR, INFO, Where
from forestay.formats.text.document import fresh
from tests.formats import json_stories as stories
from tests.formats.samples.essay import (
    BEGAN,
    HERE,
    NAMES,
    NOW,
    OUTPUT,
    ROOT,
    STATE,
    argued,
    session,
)

HOUR, DAY = 3_600_000, 86_400_000
ALONE = Where(now=NOW, naive="utc")


def get(doc: Any, where: Where = HERE) -> Facts:
    return FORMAT.get({STATE: doc}, where)


def put(doc: Any, facts: Facts, where: Where = HERE) -> dict[str, Any]:
    made: dict[str, Any] = FORMAT.put({STATE: doc}, facts, where)[STATE]
    return made


def check(doc: Any, where: Where = HERE, *, strict: bool = False) -> list[Finding]:
    return FORMAT.check({STATE: doc}, where, strict=strict)


def found(doc: Any, where: Where = HERE, *, strict: bool = False) -> set[tuple[str, str, str]]:
    return {(f.code, f.where, f.requirement) for f in check(doc, where, strict=strict)}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The session with one value changed; `-` as the value removes the key."""
    doc = session()
    node: Any = doc
    *keys, last = (int(key) if key.isdigit() else key for key in path.split("."))
    for key in keys:
        node = node[key]
    node[last] = value
    if value == "-":
        del node[last]
    return doc


def steps(doc: dict[str, Any]) -> dict[str, StepFact]:
    return {step.id: step for step in get(doc).steps}


def value_at(doc: Any, path: str) -> Any:
    for key in path.split("."):
        doc = doc[int(key) if key.isdigit() else key]
    return doc


# Each key of the document, and its requirement.


# -- names and ids --------------------------------------------------------------------------------


@pytest.mark.req("S3-1", "S3-74", "S3-75", "S3-76")
def test_state_its_backup_and_its_temporary_file_have_the_documents_names() -> None:
    assert FORMAT.files("essay-x") == ["session-state.yaml"]
    assert fields.BACKUP == "session-state.yaml.bak"
    assert fields.TEMPORARY == "session-state.yaml.tmp"


@pytest.mark.req("S3-77", "S3-78", "S3-79", "S3-80", "S3-81", "S3-82", "S3-83", "S3-84", "S3-85")
def test_files_next_to_the_state_are_recognised_by_name() -> None:
    names = [
        "stage-1-thesis.md",
        "stage-1-development-log.md",
        "stage-2-outline.md",
        "stage-3-section-2-arguments.md",
        "stage-3-section-10-arguments.md",
        "stage-4-draft.md",
        "stage-4-paragraph-log.md",
        "fact-check-log.md",
        "final-essay.md",
        "voice-check-log.md",
    ]
    others = ["notes.md", "stage-1-thesis.v1.md", "stage-3-section-0-arguments.md", STATE]
    facts = get(session(), replace(HERE, names=frozenset(names + others)))
    in_order = [*names[1::-1], *names[2:]]
    assert facts.artifacts == in_order
    assert all(stage_files.is_current(name) for name in names)
    patterns = [name.replace("-2-", "-{}-") if "section" in name else name for name in names]
    assert set(fields.STAGE_FILES) == set(patterns) - {"stage-3-section-10-arguments.md"}


@pytest.mark.req("S3-2")
@pytest.mark.parametrize(
    "native_id, possible",
    [
        ("essay-0f8b2c1e-5a7d-4c3b-9e21-6d4f8a90b1c2", True),
        ("0f8b2c1e-5a7d-4c3b-9e21-6d4f8a90b1c2", False),
        ("essay-{uuid}", False),
        ("essay-1", False),
        ("essay-0f8b2c1e-5a7d-4c3b-9e21-6d4f8a90b1c2/..", False),
        ("", False),
    ],
)
def test_id_is_essay_and_a_uuid(native_id: str, possible: bool) -> None:
    assert (FORMAT.why_invalid_id(native_id) == "") is possible
    codes = {finding.code for finding in check(changed("pipeline_id", native_id))}
    assert bool(codes & {"odd-id", "placeholder"}) is not possible


@pytest.mark.req("S3-122", "X3-1")
def test_folder_is_named_after_the_second_of_its_creation() -> None:
    assert stage_files.folder_name(BEGAN, "utc") == "essay-pipeline-20260214-143022"
    assert stage_files.folder_moment("essay-pipeline-20260214-143022", "utc") == BEGAN
    for other in ("essay-pipeline-20261314-143022", "essay-pipeline-2026", "x", "essay-pipeline-"):
        assert stage_files.folder_moment(other) is None


@pytest.mark.req("S3-130", "S3-131")
@pytest.mark.parametrize(
    "name, names, made",
    [
        ("stage-1-thesis.md", [], "stage-1-thesis.v1.md"),
        ("stage-1-thesis.md", ["stage-1-thesis.v1.md"], "stage-1-thesis.v2.md"),
        ("a.md", ["a.v9.md", "b.v12.md"], "a.v10.md"),
        ("stage-3-1.md", ["stage-3-10.v4.md"], "stage-3-1.v1.md"),
    ],
)
def test_archived_version_gets_the_next_number_before_its_ending(
    name: str, names: list[str], made: str
) -> None:
    assert stage_files.version_name(name, names) == made


@pytest.mark.req("S3-132", "S3-133")
def test_only_the_unversioned_file_is_current() -> None:
    assert not stage_files.is_current("stage-1-thesis.v1.md")
    doc = changed("stages.stage_2.outline_file", f"{ROOT}/stage-2-outline.v1.md")
    assert found(doc) == {("archived-as-current", "stages.stage_2.outline_file", "S3-133")}


# -- reading --------------------------------------------------------------------------------------


@pytest.mark.req("S3-2", "S3-3", "S3-4", "S3-5")
def test_identity_times_and_status_are_read() -> None:
    facts = get(session())
    assert facts.native_id == "essay-0f8b2c1e-5a7d-4c3b-9e21-6d4f8a90b1c2"
    assert (facts.began_at, facts.updated_at) == (BEGAN, clock.read("2026-02-14T17:00:00Z"))
    assert facts.status == "active"
    assert facts.goal == ""  # the file has none


@pytest.mark.req("S3-12", "S3-17", "S3-23", "S3-28", "S3-35", "S3-44")
@pytest.mark.parametrize(
    "word, status",
    [
        ("not_started", "pending"),
        ("in_progress", "running"),
        ("completed", "done"),
        ("needs_review", "needs_review"),
    ],
)
def test_words_for_stages_and_sections_have_their_statuses(word: str, status: str) -> None:
    for number in (1, 2, 3, 4):
        read = steps(changed(f"stages.stage_{number}.status", word))
        assert read[f"stage-{number}"].status == status
    for number in (3, 4):
        read = steps(changed(f"stages.stage_{number}.sections.1.status", word))
        assert read[f"stage-{number}/section-2"].status == status


@pytest.mark.req("S3-16", "S3-22", "S3-27", "S3-32", "S3-34", "S3-41")
def test_stages_and_sections_are_steps_in_their_order() -> None:
    read = [(s.id, s.title, s.unit, s.parent, s.status) for s in get(session()).steps]
    assert read == [
        ("stage-1", "Thesis development", "stage", "", "done"),
        ("stage-2", "Essay structuring", "stage", "", "done"),
        ("stage-3", "Argument development", "stage", "", "done"),
        ("stage-3/section-1", "Section 1", "section", "stage-3", "done"),
        ("stage-3/section-2", "Section 2", "section", "stage-3", "done"),
        ("stage-4", "Paragraph writing", "stage", "", "running"),
        ("stage-4/section-1", "Section 1", "section", "stage-4", "done"),
        ("stage-4/section-2", "Section 2", "section", "stage-4", "running"),
    ]
    ends = {id: step.ended_at for id, step in steps(session()).items()}
    assert ends["stage-1"] == clock.read("2026-02-14T15:00:00Z")
    assert ends["stage-2"] == clock.read("2026-02-14T15:30:00Z")
    assert ends["stage-3"] == clock.read("2026-02-14T16:20:00Z")
    assert ends["stage-3/section-2"] == clock.read("2026-02-14T16:00:00Z")
    assert ends["stage-4"] is ends["stage-4/section-1"] is None


@pytest.mark.req("S3-26", "S3-40")
def test_null_sections_are_no_sections() -> None:
    for number in (3, 4):
        doc = changed(f"stages.stage_{number}.sections", None)
        assert not [id for id in steps(doc) if id.startswith(f"stage-{number}/")]
        assert not [f for f in check(doc) if f.where.endswith("sections")]


ATTRIBUTES = {
    "essay.style_profile_path": ("essays/style.md", "S3-6"),
    "essay.samples_dir_path": ("essays/samples", "S3-7"),
    "essay.pushback_level": ("light", "S3-8"),
    "essay.stage_1.thesis_file": ("stage-1-thesis.md", "S3-13"),
    "essay.stage_1.development_log": ("stage-1-development-log.md", "S3-14"),
    "essay.stage_1.claim_type": ("argument", "S3-15"),
    "essay.stage_2.outline_file": ("stage-2-outline.md", "S3-18"),
    "essay.stage_2.total_sections": (2, "S3-19"),
    "essay.stage_2.target_word_count": (1800, "S3-20"),
    "essay.stage_2.audience": ("semi-technical", "S3-21"),
    "essay.stage_3.total_sections": (2, "S3-24"),
    "essay.stage_3.birds_eye_approved": (True, "S3-33"),
    "essay.stage_3.section_1.argument_map_file": ("stage-3-section-1-arguments.md", "S3-29"),
    "essay.stage_3.section_1.verified_claims": (5, "S3-30"),
    "essay.stage_3.section_1.deferred_claims": (1, "S3-31"),
    "essay.stage_3.section_2.argument_map_file": ("stage-3-section-2-arguments.md", "S3-29"),
    "essay.stage_3.section_2.verified_claims": (5, "S3-30"),
    "essay.stage_3.section_2.deferred_claims": (1, "S3-31"),
    "essay.stage_4.current_paragraph": (3, "S3-37"),
    "essay.stage_4.draft_file": ("stage-4-draft.md", "S3-38"),
    "essay.stage_4.section_1.total_paragraphs": (3, "S3-42"),
    "essay.stage_4.section_1.completed_paragraphs": (3, "S3-43"),
    "essay.stage_4.section_1.voice_check_score": (4, "S3-45"),
    "essay.stage_4.section_2.total_paragraphs": (4, "S3-42"),
    "essay.stage_4.section_2.completed_paragraphs": (2, "S3-43"),
    "essay.voice_calibration.first_assessment_user_rating": (4, "S3-47"),
    "essay.voice_calibration.calibration_notes": ("drier", "S3-48"),
}


@pytest.mark.req(*dict.fromkeys(number for _, number in ATTRIBUTES.values()))
def test_single_values_other_than_the_default_are_attributes() -> None:
    assert get(session()).attributes == {name: value for name, (value, _) in ATTRIBUTES.items()}
    assert get(fields.blank()).attributes == {}


@pytest.mark.req("S3-39", "S3-49", "S3-69", "S3-70", "S3-71", "S3-72", "S3-73")
def test_output_and_remaining_fields_are_read() -> None:
    doc = session()
    doc["stages"]["stage_4"]["paragraph_log"] = f"{ROOT}/stage-4-paragraph-log.md"
    doc["voice_calibration"]["voice_reference_mode"] = "sample"
    doc["output"] = dict(OUTPUT)
    facts = get(doc)
    assert facts.ended_at == clock.read("2026-02-14T19:00:00Z")
    assert facts.attributes["essay.stage_4.paragraph_log"] == "stage-4-paragraph-log.md"
    assert facts.attributes["essay.voice_calibration.voice_reference_mode"] == "sample"
    assert facts.attributes["essay.output.final_essay_file"] == "final-essay.md"
    assert facts.attributes["essay.output.sources_verified"] == 9
    assert facts.attributes["essay.output.voice_consistency_score"] == 4.5
    assert facts.attributes["essay.output.total_word_count"] == 1811


@pytest.mark.req("S3-10", "S3-11", "S3-25", "S3-36")
@pytest.mark.parametrize(
    "stage, three, four, position",
    [
        (1, None, None, "stage-1"),
        (2, 1, 1, "stage-2"),
        (3, None, None, "stage-3"),
        (3, 2, 1, "stage-3/section-2"),
        (4, 2, 1, "stage-4/section-1"),
        (7, 2, 1, "stage-4/section-1"),
        ("3", 2, 1, "stage-4/section-1"),
    ],
)
def test_position_is_the_current_stage_or_section(
    stage: Any, three: int | None, four: int | None, position: str
) -> None:
    doc = session()
    doc["current_stage"] = stage
    doc["stages"]["stage_3"]["current_section"] = three
    doc["stages"]["stage_4"]["current_section"] = four
    assert get(doc).position == position  # without a valid number, the name is used


@pytest.mark.req("S3-50", "S3-51", "S3-52", "S3-53", "S3-54", "S3-55", "S3-56")
def test_deferred_verification_is_an_open_claim() -> None:
    doc = changed("deferred_verifications.0.paragraph", 4)
    claim = ClaimFact("Tides are late", "timeout", 2, 4, at=clock.read("2026-02-14T16:10:00Z"))
    assert get(doc).claims[0] == claim
    assert get(changed("deferred_verifications.0.resolved", True)).claims[0].resolved


@pytest.mark.req("S3-57", "S3-58", "S3-59", "S3-61", "S3-62")
def test_user_override_is_a_claim_with_a_result() -> None:
    at = clock.read("2026-02-14T16:15:00Z")
    assert get(session()).claims[1] == ClaimFact(
        "Boats float", resolved=True, result="unverified", because="I saw one", at=at
    )


def test_claim_deferred_and_then_accepted_is_one_claim() -> None:
    doc = changed("user_overrides.0.claim_text", "Tides are late")
    (claim,) = get(doc).claims
    assert (claim.reason, claim.result, claim.because) == ("timeout", "unverified", "I saw one")


def test_placeholders_give_no_facts() -> None:
    doc = fields.blank()
    doc.update(pipeline_id="essay-{uuid}", started_at="{ISO8601}", session_dir="{path}")
    doc.update(style_profile_path="{path}")
    facts = get(doc, ALONE)
    assert (facts.native_id, facts.began_at, facts.attributes) == ("", None, {})


def test_reading_reports_status_and_share_of_done_steps() -> None:
    reading = FORMAT.reading({STATE: session()}, HERE)
    assert (reading.format, reading.complete, reading.status) == ("essay", False, "active")
    assert reading.progress == 6 / 8 and reading.writable
    whole = FORMAT.reading({STATE: changed("status", "completed")}, HERE)
    assert (whole.complete, whole.progress) == (True, 1.0)
    assert FORMAT.reading({STATE: None}, HERE).complete is None


# -- writing --------------------------------------------------------------------------------------


TEMPLATE: dict[str, Any] = {
    "pipeline_id": "essay-0f8b2c1e-5a7d-4c3b-9e21-6d4f8a90b1c2",
    "started_at": "2026-02-14T14:30:22Z",
    "last_activity": "2026-02-14T14:30:22Z",
    "status": "in_progress",
    "style_profile_path": "",
    "samples_dir_path": "",
    "pushback_level": "full",
    "session_dir": ROOT,
    "current_stage": 1,
    "current_stage_name": "thesis_development",
    "stages": {
        "stage_1": {
            "status": "not_started",
            "thesis_file": None,
            "development_log": None,
            "claim_type": None,
            "completed_at": None,
        },
        "stage_2": {
            "status": "not_started",
            "outline_file": None,
            "total_sections": None,
            "target_word_count": None,
            "audience": None,
            "completed_at": None,
        },
        "stage_3": {
            "status": "not_started",
            "total_sections": None,
            "current_section": None,
            "sections": [],
            "birds_eye_approved": False,
            "completed_at": None,
        },
        "stage_4": {
            "status": "not_started",
            "current_section": None,
            "current_paragraph": None,
            "draft_file": None,
            "paragraph_log": None,
            "sections": [],
            "completed_at": None,
        },
    },
    "voice_calibration": {
        "first_assessment_user_rating": None,
        "calibration_notes": None,
        "voice_reference_mode": "profile",
    },
    "deferred_verifications": [],
    "user_overrides": [],
    "revision_history": [],
    "output": {
        "final_essay_file": None,
        "sources_verified": None,
        "voice_consistency_score": None,
        "total_word_count": None,
        "completed_at": None,
    },
}


@pytest.mark.req("S3-2", "S3-3", "S3-4")
def test_new_file_is_the_template_with_its_initial_values() -> None:
    where = Where(now=NOW, root=ROOT)
    made = FORMAT.put(None, Facts(native_id=TEMPLATE["pipeline_id"], began_at=BEGAN), where)
    assert list(made) == [STATE]
    assert json.dumps(made[STATE]) == json.dumps(TEMPLATE)
    assert {f.code for f in FORMAT.check(made, where, strict=True)} == {"not-set"}
    undated = FORMAT.put(None, Facts(), where)[STATE]
    assert FORMAT.why_invalid_id(undated["pipeline_id"]) == ""
    assert undated["started_at"] == undated["last_activity"] == "2026-02-14T19:30:22Z"
    earlier = put(session(), replace(get(session()), began_at=BEGAN - 2000))
    assert earlier == changed("started_at", "2026-02-14T14:30:20Z")


@pytest.mark.req("S3-27", "S3-28", "S3-29", "S3-30", "S3-31", "S3-32")
@pytest.mark.req("S3-41", "S3-42", "S3-43", "S3-44", "S3-45")
def test_new_sections_begin_with_their_initial_values_and_are_counted() -> None:
    new = [StepFact("x", f"stage-{n}/section-1", "section", f"stage-{n}") for n in (3, 4)]
    doc = FORMAT.put(None, Facts(steps=new), ALONE)[STATE]
    assert list(doc["stages"]["stage_3"]["sections"][0].items()) == [
        ("section_index", 1),
        ("status", "not_started"),
        ("argument_map_file", None),
        ("verified_claims", 0),
        ("deferred_claims", 0),
        ("completed_at", None),
    ]
    assert list(doc["stages"]["stage_4"]["sections"][0].items()) == [
        ("section_index", 1),
        ("total_paragraphs", None),
        ("completed_paragraphs", 0),
        ("status", "not_started"),
        ("voice_check_score", None),
    ]
    assert doc["stages"]["stage_3"]["total_sections"] == 1


@pytest.mark.req("S3-12", "S3-17", "S3-23", "S3-28", "S3-35", "S3-44")
@pytest.mark.parametrize("status", UNIT)
def test_status_of_stages_and_sections_is_written_in_the_words_of_the_document(status: str) -> None:
    words = {"pending": "not_started", "done": "completed", "needs_review": "needs_review"}
    words["skipped"] = "not_started"
    facts = get(session())
    facts.steps = [replace(step, status=status) for step in facts.steps]
    stages = put(session(), facts)["stages"]
    listed = [section for n in (3, 4) for section in stages[f"stage_{n}"]["sections"]]
    assert len(listed) == (0 if status == "skipped" else 4)
    written = {node["status"] for node in (*stages.values(), *listed)}
    assert written == {words.get(status, "in_progress")}


def test_status_words_and_timestamps_with_the_same_meaning_are_not_rewritten() -> None:
    doc = changed("status", "complete")
    doc["stages"]["stage_1"]["status"] = "done"
    doc["last_activity"] = "2026-02-14 18:00:00.5+01:00"
    assert put(doc, get(doc)) == doc
    later = put(doc, replace(get(doc), updated_at=NOW))
    assert later == {**doc, "last_activity": "2026-02-14 20:30:22.0+01:00"}


@pytest.mark.req("S3-10", "S3-11", "S3-25", "S3-117")
def test_position_is_written_with_the_stages_name() -> None:
    doc = put(session(), replace(get(session()), position="stage-3/section-1"))
    assert (doc["current_stage"], doc["current_stage_name"]) == (3, "argument_development")
    assert doc["stages"]["stage_3"]["current_section"] == 1
    assert doc["stages"]["stage_4"]["current_section"] == 2
    elsewhere = put(session(), replace(get(session()), position="T7"))
    assert elsewhere == session()


def test_removed_attribute_gets_the_value_of_the_template() -> None:
    facts = get(session())
    facts.attributes = {
        "essay.pushback_level": None,
        "essay.stage_1.claim_type": None,
        "essay.stage_3.section_1.verified_claims": None,
    }
    doc = put(session(), facts)
    expected = changed("pushback_level", "full")
    expected["stages"]["stage_1"]["claim_type"] = None
    expected["stages"]["stage_3"]["sections"][0]["verified_claims"] = 0
    assert doc == expected


def test_attributes_missing_from_the_facts_stay() -> None:
    assert put(session(), replace(get(session()), attributes={})) == session()


def test_attribute_that_the_field_cannot_hold_is_not_written() -> None:
    facts = get(session())
    facts.attributes = {"essay.stage_2.total_sections": "two", "essay.pushback_level": 3}
    assert put(session(), facts) == session()


@pytest.mark.req("S3-13", "S3-18", "S3-38", "S3-29", "S3-69")
def test_result_that_exists_is_named_when_its_stage_is_completed() -> None:
    where = replace(HERE, names=NAMES | {"final-essay.md"})
    ids = [f"stage-{n}" for n in (1, 2, 3, 4)] + ["stage-3/section-1"]
    done = [StepFact("x", id, status="done", parent=id.partition("/")[0]) for id in ids]
    doc = FORMAT.put(None, Facts(status="completed", steps=done), where)[STATE]
    stages = doc["stages"]
    assert stages["stage_1"]["thesis_file"] == f"{ROOT}/stage-1-thesis.md"
    assert stages["stage_2"]["outline_file"] == f"{ROOT}/stage-2-outline.md"
    assert stages["stage_4"]["draft_file"] == f"{ROOT}/stage-4-draft.md"
    map_file = stages["stage_3"]["sections"][0]["argument_map_file"]
    assert map_file == f"{ROOT}/stage-3-section-1-arguments.md"
    assert doc["output"]["final_essay_file"] == f"{ROOT}/final-essay.md"
    unknown = FORMAT.put(None, Facts(steps=done), replace(HERE, names=frozenset()))[STATE]
    assert unknown["stages"]["stage_1"]["thesis_file"] is None


@pytest.mark.req("S3-73")
def test_only_a_completed_session_gets_an_end_time() -> None:
    ended = replace(get(session()), ended_at=NOW)
    assert put(session(), ended)["output"]["completed_at"] is None
    doc = put(session(), replace(ended, status="completed"))
    assert doc["output"]["completed_at"] == "2026-02-14T19:30:22Z"
    again = put(doc, replace(get(doc), status="active", ended_at=None))
    assert again["output"]["completed_at"] is None


def test_missing_sections_are_removed_and_stages_never() -> None:
    facts = get(session())
    facts.steps = [step for step in facts.steps if step.id in ("stage-4", "stage-4/section-1")]
    doc = put(session(), facts)
    assert [s["section_index"] for s in doc["stages"]["stage_4"]["sections"]] == [1]
    assert doc["stages"]["stage_3"]["sections"] == []
    assert doc["stages"]["stage_1"] == session()["stages"]["stage_1"]


def test_unreadable_entries_among_the_sections_stay() -> None:
    doc = changed("stages.stage_3.sections", [None, "x", {"a": 1}, argued(1), argued(2)])
    facts = get(doc)
    facts.steps = [step for step in facts.steps if step.id != "stage-3/section-1"]
    assert put(doc, facts)["stages"]["stage_3"]["sections"] == [None, "x", {"a": 1}, argued(2)]


@pytest.mark.req("S3-51", "S3-52", "S3-53", "S3-54", "S3-55", "S3-56")
@pytest.mark.req("S3-58", "S3-59", "S3-60", "S3-61", "S3-62")
def test_new_claims_are_added_to_their_logs() -> None:
    facts = get(session())
    facts.claims += [
        ClaimFact("New", "no_results", 1, 2, at=NOW),
        ClaimFact("Old saw", result="contested", because="my call", resolved=True, at=NOW),
        ClaimFact(" "),
    ]
    doc = put(session(), facts)
    assert doc["deferred_verifications"][0] == session()["deferred_verifications"][0]
    assert doc["user_overrides"][0] == session()["user_overrides"][0]
    assert doc["deferred_verifications"][1:] == [
        {
            "claim_text": "New",
            "section": 1,
            "paragraph": 2,
            "reason": "no_results",
            "added_at": "2026-02-14T19:30:22Z",
            "resolved": False,
        }
    ]
    assert doc["user_overrides"][1:] == [
        {
            "claim_text": "Old saw",
            "fact_checker_result": "contested",
            "user_action": "override",
            "user_rationale": "my call",
            "logged_at": "2026-02-14T19:30:22Z",
        }
    ]


@pytest.mark.req("S3-56", "S3-57")
def test_resolved_claim_retains_its_entry() -> None:
    facts = get(session())
    facts.claims[0] = replace(facts.claims[0], resolved=True, result="partial", because="so be it")
    doc = put(session(), facts)
    first = session()["deferred_verifications"][0]
    assert doc["deferred_verifications"] == [{**first, "resolved": True}]
    assert [entry["claim_text"] for entry in doc["user_overrides"]] == [
        "Boats float",
        "Tides are late",
    ]
    assert get(doc).claims[0].result == "partial"


def test_claims_missing_from_the_facts_stay_in_the_logs() -> None:
    assert put(session(), replace(get(session()), claims=[])) == session()


@pytest.mark.req("S3-54")
@pytest.mark.parametrize(
    "reason, word",
    [
        ("timeout", "timeout"),
        ("fact-checker timed out", "timeout"),
        ("the search service is unavailable", "service_unavailable"),
        ("no_results", "no_results"),
        ("unknown", "no_results"),
    ],
)
def test_reason_becomes_the_nearest_of_the_documents_words(reason: str, word: str) -> None:
    assert defer_reason(reason) == word
    assert word in vocabulary.DEFER_REASONS


@pytest.mark.req("S3-63", "S3-64", "S3-65", "S3-66", "S3-67", "S3-68")
def test_revisits_are_added_to_the_revision_history_and_never_removed() -> None:
    revisit = RevisitFact("stage-2", "turned around", "major", ["stage-4-draft.v1.md"], NOW + 7)
    elsewhere = RevisitFact("phase-2", "no stage of an essay")
    doc = put(session(), Facts(revisits=[revisit, elsewhere]))
    assert doc["revision_history"] == [
        *session()["revision_history"],
        {
            "stage_revisited": 2,
            "impact": "major",
            "reason": "turned around",
            "downstream_archived": ["stage-4-draft.v1.md"],
            "timestamp": "2026-02-14T19:30:22Z",
        },
    ]
    assert get(doc).revisits[1] == replace(revisit, at=NOW)
    again = Facts(status="paused", revisits=[revisit, *get(session()).revisits])
    for facts in (again, Facts(status="paused")):
        assert put(doc, facts)["revision_history"] == doc["revision_history"]
    where = replace(HERE, names=NAMES | {"stage-4-draft.v1.md"})
    assert check(doc, where, strict=True) == []


# -- laws -----------------------------------------------------------------------------------------

wheres = st.sampled_from([ALONE, HERE, Where(naive="local"), Where(root=ROOT)])
names = [spot.name for spot in fields.spots(session()) if spot.field.attribute]
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**60), 2**60),
    st.floats(allow_nan=True),
    st.text(max_size=6),
    st.sampled_from(["full", "a/b.md", f"{ROOT}/x.md", "/else/x.md", "{path}"]),
)


@given(st.sampled_from(names), scalars)
def test_one_changed_attribute_changes_one_value(name: str, value: Any) -> None:
    facts = get(session())
    facts.attributes = {name: value}
    before, after = session(), put(session(), facts)
    differ = [path for path in _leaves(before) if _at(before, path) != _at(after, path)]
    assert len(differ) <= 1
    assert len(list(_leaves(before))) == len(list(_leaves(after)))


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Any:
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, below in inner:
        yield from _leaves(below, (*path, key))
    if not isinstance(value, dict | list):
        yield path


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


# -- checking -------------------------------------------------------------------------------------


@pytest.mark.req("S3-1")
@pytest.mark.parametrize("value", [None, [], "text", 7, {}])
def test_file_without_state_is_reported(value: Any) -> None:
    assert [(f.code, f.severity, f.file) for f in check(value)] == [("no-state", ERROR, STATE)]


@pytest.mark.req("S3-10", "S3-11")
def test_each_stage_has_the_documents_name() -> None:
    names = "thesis_development essay_structuring argument_development paragraph_writing"
    for number, name in enumerate(names.split(), 1):
        doc = changed("current_stage", number) | {"current_stage_name": name}
        assert check(doc, strict=True) == []
        made = put(session(), replace(get(session()), position=f"stage-{number}"))
        assert (made["current_stage"], made["current_stage_name"]) == (number, name)


def test_missing_part_is_reported_once() -> None:
    assert ("missing-key", "output", "S3-69") in found(changed("output", "-"))
    assert len(check(changed("voice_calibration", "-"))) == 1
    assert found(changed("voice_calibration", 3)) == {("wrong-type", "voice_calibration", "S3-47")}


def test_strict_check_requires_our_style_of_timestamps() -> None:
    doc = changed("started_at", "2026-02-14T15:30:22.000+01:00")
    assert check(doc) == []
    findings = check(doc, strict=True)
    assert [(f.code, f.severity, f.where) for f in findings] == [
        ("stamp-style", ERROR, "started_at")
    ]


def test_placeholders_are_reported_as_information_only() -> None:
    findings = check(changed("style_profile_path", "{path}"))
    assert [(f.code, f.severity) for f in findings] == [("placeholder", INFO)]


@pytest.mark.req("S3-109")
@pytest.mark.parametrize(
    "path, name",
    [
        ("stages.stage_1.thesis_file", "stage-1-thesis.md"),
        ("stages.stage_2.outline_file", "stage-2-outline.md"),
        ("stages.stage_4.draft_file", "stage-4-draft.md"),
    ],
)
def test_completed_stage_needs_its_file(path: str, name: str) -> None:
    doc = changed(path.rpartition(".")[0] + ".status", "completed")
    assert not {code for code, *_ in found(doc)} & {"file-missing", "completed-without-file"}
    gone = replace(HERE, names=NAMES - {name})
    assert ("file-missing", path, "S3-109") in found(doc, gone)
    unnamed = changed(path, None)
    unnamed["stages"][path.split(".")[1]]["status"] = "completed"
    assert ("completed-without-file", path, "S3-109") in found(unnamed)


@pytest.mark.req("S3-110")
def test_completed_section_needs_its_argument_map() -> None:
    path = "stages.stage_3.sections[1].argument_map_file"
    gone = replace(HERE, names=NAMES - {"stage-3-section-2-arguments.md"})
    assert found(session(), gone) == {("file-missing", path, "S3-110")}
    doc = changed("stages.stage_3.sections.1.argument_map_file", None)
    assert found(doc) == {("completed-without-file", path, "S3-110")}


@pytest.mark.req("S3-111")
@pytest.mark.parametrize("stage", [3, 4])
@pytest.mark.parametrize("section, fits", [(1, True), (2, True), (3, False), (0, False)])
def test_current_section_must_be_one_of_the_sections(stage: int, section: int, fits: bool) -> None:
    codes = {code for code, *_ in found(changed(f"stages.stage_{stage}.current_section", section))}
    assert codes == (set() if fits else {"section-out-of-range" if section else "out-of-range"})


@pytest.mark.req("S3-112")
@pytest.mark.parametrize(
    "paragraph, total, fits",
    [(1, 4, True), (5, 4, True), (6, 4, False), (0, 4, False), (99, None, True), (0, None, False)],
)
def test_current_paragraph_must_be_at_most_the_one_after_the_last(
    paragraph: int, total: int | None, fits: bool
) -> None:
    doc = changed("stages.stage_4.current_paragraph", paragraph)
    doc["stages"]["stage_4"]["sections"][1]["total_paragraphs"] = total
    assert (
        ("paragraph-out-of-range", "stages.stage_4.current_paragraph", "S3-112") in found(doc)
    ) is not fits


@pytest.mark.req("S3-24", "S3-43")
@pytest.mark.parametrize(
    "path, number",
    [
        ("stages.stage_3.total_sections", "S3-24"),
        ("stages.stage_4.sections.0.completed_paragraphs", "S3-43"),
    ],
)
def test_contradicting_numbers_are_reported(path: str, number: str) -> None:
    where = path.replace(".0.", "[0].")
    assert found(changed(path, 99)) == {("count-differs", where, number)}


@pytest.mark.req("S3-113")
def test_every_file_that_is_named_must_exist() -> None:
    gone = replace(HERE, names=NAMES - {"stage-1-development-log.md", "stage-2-outline.v1.md"})
    assert found(session(), gone) == {
        ("file-missing", "stages.stage_1.development_log", "S3-113"),
        ("archived-file-missing", "revision_history[0].downstream_archived", "S3-113"),
    }
    final = changed("output.final_essay_file", "final-essay.md")
    assert found(final) == {("file-missing", "output.final_essay_file", "S3-113")}
    assert found(changed("output.final_essay_file", "/elsewhere/essay.md")) == set()
    assert found(final, replace(HERE, names=frozenset())) == set()


def test_moved_folder_is_reported_and_its_files_are_found() -> None:
    moved = replace(HERE, root="/home/ann/moved")
    assert found(session(), moved) == {("folder-differs", "session_dir", "S3-9")}


@pytest.mark.req("S3-114")
@pytest.mark.parametrize(
    "statuses, faults",
    [
        ("done none none none", []),
        ("none done none none", ["stages.stage_2.status"]),
        ("review done none none", []),
        ("done done running running", []),
        ("done done running done", []),
        ("done none done done", ["stages.stage_3.status", "stages.stage_4.status"]),
        ("none running none none", []),
    ],
)
def test_completed_stage_after_one_not_started_is_reported(
    statuses: str, faults: list[str]
) -> None:
    words = {"done": "completed", "none": "not_started", "review": "needs_review"}
    doc = session()
    for number, word in enumerate(statuses.split(), 1):
        doc["stages"][f"stage_{number}"]["status"] = words.get(word, "in_progress")
    findings = check(doc)
    assert [f.where for f in findings if f.code == "prerequisite-not-started"] == faults
    assert all(f.requirement == "S3-114" for f in findings if f.code == "prerequisite-not-started")


def test_session_completed_before_its_stages_is_reported() -> None:
    assert ("completed-too-early", "status", "S3-5") in found(changed("status", "completed"))


def test_last_activity_before_the_start_is_reported() -> None:
    doc = changed("last_activity", "2026-02-14T14:30:21Z")
    assert found(doc) == {("time-runs-back", "last_activity", "S3-4")}


@pytest.mark.req("S3-76")
def test_files_left_by_an_unfinished_write_are_reported() -> None:
    where = replace(HERE, names=NAMES | {fields.TEMPORARY})
    assert [(f.code, f.severity) for f in check(session(), where)] == [("write-unfinished", INFO)]


def test_session_in_tmp_gives_a_warning() -> None:
    where = replace(HERE, root="/tmp/essay-pipeline-20260214-143022")
    codes = {finding.code for finding in check(changed("session_dir", where.root), where)}
    assert codes == {"folder-is-temporary"}


# -- recovery -------------------------------------------------------------------------------------

THESIS = b"""# Approved Thesis

## Thesis Statement
Tides decide
when boats leave.

## Claim Type
explainer

## Approved By User
Yes -- 2026-02-14T15:00:00Z
"""
OUTLINE = b"""# Essay Outline: Tides

## Parameters
- **Target length**: 1,800 words
- **Audience**: expert -- sailors
- **Sections**: [3]

### Section 1: The Moon (~600 words)
### Section 2: The Harbour (~700 words)
### Section 3: The Boat (~500 words)

## Approved By User
Yes -- 2026-02-14 15:30:00Z
"""
MAP = b"""# Section 1 Argument Map: The Moon

### Point 1: pull
**Verified**: YES
### Point 2: spring
**Verified**: DEFERRED
### Point 3: neap
- **Verified**: YES
### Point 4: salt
**Verified**: COMMON_KNOWLEDGE
### Point 5: wind
**Verified**: PARTIAL
### Point 6: fog
**Verified**: NO
"""
APPROVED = b"\n## Approved By User\nYes -- 2026-02-14T16:00:00Z\n"
DRAFT = b"""# Tides

## The Moon

It pulls.

It pulls
again.

---

## The Harbour

It waits.
"""
BROKEN = b'pipeline_id: "essay-old"\npushback_level: "minimal"\nstages: [\n'
WHOLE = json.dumps(session()).encode()
EVIDENCE = {
    STATE: BROKEN,
    "stage-1-thesis.md": THESIS,
    "stage-1-development-log.md": b"log",
    "stage-2-outline.md": OUTLINE,
    "stage-3-section-1-arguments.md": MAP + APPROVED,
    "stage-3-section-2-arguments.md": MAP,
    "stage-4-draft.md": DRAFT,
}


def recovered(bundle: dict[str, bytes], where: Where = HERE) -> salvage.Recovery:
    made = salvage.recover(bundle, where)
    assert made is not None
    return made


def stages(bundle: dict[str, bytes]) -> dict[str, Any]:
    made: dict[str, Any] = recovered(bundle).state["stages"]
    return made


@pytest.mark.req("S3-94", "S3-95", "S3-96", "S3-97")
@pytest.mark.parametrize("broken", [BROKEN, b"", b"\0" * 50, b"a: b: c", b"\xff\xfe", WHOLE[:200]])
def test_unreadable_state_is_restored_from_the_backup(broken: bytes) -> None:
    made = recovered({STATE: broken, fields.BACKUP: WHOLE, "stage-1-thesis.md": THESIS})
    assert made.level == "backup"
    assert made.message == "Session state recovered from backup. Last state update may be lost."
    assert (made.state, made.data) == (session(), WHOLE)
    saved = FORMAT.salvage({STATE: broken, fields.BACKUP: WHOLE}, HERE)
    assert saved is not None and saved.facts.steps == get(session()).steps
    assert saved.message == made.message and saved.lost


@pytest.mark.req("S3-94")
@pytest.mark.parametrize(
    "odd", [b"\xef\xbb\xbf" + WHOLE, WHOLE + b"\0" * 50, WHOLE.decode().encode("utf-16")]
)
def test_state_with_wrong_bytes_only_loses_nothing(odd: bytes) -> None:
    made = recovered({STATE: odd, fields.BACKUP: BROKEN, "stage-1-thesis.md": THESIS})
    assert (made.level, made.state, made.data) == ("whole", session(), WHOLE)
    saved = FORMAT.salvage({STATE: odd}, HERE)
    assert saved is not None and (saved.inferred, saved.lost) == ([], [])
    assert saved.facts.steps == get(session()).steps


@pytest.mark.req("S3-94")
def test_state_torn_within_a_line_is_never_read_as_complete() -> None:
    data = fresh("yaml", session())
    by_name = yaml.safe_dump(session(), sort_keys=True).encode()
    # Whether the very last value is complete cannot be known: nothing follows it.
    for text in (data[:-1], by_name.rpartition(b"  voice_reference_mode")[0]):
        ends = [n for n in range(600, len(text), 7) if text[n - 1 : n] != b"\n"]
        assert {recovered({STATE: text[:n], fields.BACKUP: WHOLE}).level for n in ends} == {
            "backup"
        }
    assert recovered({STATE: WHOLE, fields.BACKUP: data[:-20]}).level == "none"
    assert recovered(
        {STATE: b"", fields.BACKUP: data[:-20], "stage-1-thesis.md": THESIS}
    ).level == ("artifacts")


def test_state_without_a_final_newline_is_complete_whatever_keys_are_missing() -> None:
    data = fresh("yaml", session()).rstrip()
    assert recovered({STATE: data, fields.BACKUP: BROKEN}).level == "none"
    less = {key: value for key, value in session().items() if key != "voice_calibration"}
    assert recovered({STATE: fresh("yaml", less).rstrip(), fields.BACKUP: WHOLE}).level == "none"
    first = {key: value for key, value in session().items() if key != "output"}
    assert recovered({STATE: json.dumps(first).encode(), fields.BACKUP: WHOLE}).level == "none"


def test_complete_state_needs_no_recovery() -> None:
    assert recovered({STATE: WHOLE, fields.BACKUP: BROKEN}).level == "none"


@pytest.mark.req("S3-98", "S3-103", "S3-104")
@pytest.mark.parametrize("backup", [BROKEN, b"", None, b"just: text", b"[1, 2]"])
def test_state_without_a_backup_is_derived_from_the_artifacts(backup: bytes | None) -> None:
    bundle = dict(EVIDENCE) if backup is None else {**EVIDENCE, fields.BACKUP: backup}
    made = recovered(bundle)
    assert made.level == "artifacts"
    assert made.message == (
        "Session state reconstructed from artifact files. Some metadata may be approximate."
    )
    assert list(made.state) == list(fields.blank())
    where = replace(HERE, names=frozenset(bundle))
    assert [f for f in check(made.state, where) if f.severity == ERROR and f.code != "odd-id"] == []


@pytest.mark.req("S3-99", "S3-93", "X3-5")
def test_thesis_means_that_stage_1_is_completed() -> None:
    made = stages({STATE: b"", "stage-1-thesis.md": THESIS})["stage_1"]
    assert made["status"] == "completed"
    assert made["thesis_file"] == f"{ROOT}/stage-1-thesis.md"
    assert made["claim_type"] == "explainer"
    assert made["completed_at"] == "2026-02-14T15:00:00Z"
    bare = recovered({STATE: b"", "stage-1-thesis.md": b""})
    assert bare.state["stages"]["stage_1"]["status"] == "completed"
    assert any("the user has not approved it" in line for line in bare.inferred)
    assert stages({STATE: b"", "stage-2-outline.v1.md": b""})["stage_1"]["status"] == "not_started"


@pytest.mark.req("S3-100", "S3-93", "X3-5")
def test_outline_means_that_stage_2_is_completed() -> None:
    made = recovered({STATE: b"", "stage-1-thesis.md": THESIS, "stage-2-outline.md": OUTLINE})
    two = made.state["stages"]["stage_2"]
    assert (two["status"], two["completed_at"]) == ("completed", "2026-02-14T15:30:00Z")
    assert (two["total_sections"], two["target_word_count"]) == (3, 1800)
    assert two["audience"] == "expert"
    three = made.state["stages"]["stage_3"]
    assert (three["status"], three["total_sections"], three["current_section"]) == (
        "in_progress",
        3,
        1,
    )
    assert made.state["current_stage_name"] == "argument_development"
    counted = OUTLINE.replace(b"- **Sections**: [3]\n", b"").replace(b"- **Target length**", b"x")
    outline = stage_files.outline(counted)
    assert (outline.total, outline.words) == (3, 1800)


@pytest.mark.req("S3-101", "X3-5")
def test_argument_maps_give_the_sections_of_stage_3() -> None:
    three = stages(EVIDENCE)["stage_3"]
    assert [(s["section_index"], s["status"]) for s in three["sections"]] == [
        (1, "completed"),
        (2, "in_progress"),
        (3, "not_started"),
    ]
    first = three["sections"][0]
    assert (first["verified_claims"], first["deferred_claims"]) == (2, 1)
    assert first["argument_map_file"] == f"{ROOT}/stage-3-section-1-arguments.md"
    assert first["completed_at"] == "2026-02-14T16:00:00Z"
    assert (three["status"], three["current_section"]) == ("in_progress", 2)
    alone = stages({STATE: b"", "stage-3-section-2-arguments.md": MAP + APPROVED})
    assert [s["section_index"] for s in alone["stage_3"]["sections"]] == [2]
    assert alone["stage_1"]["status"] == alone["stage_2"]["status"] == "needs_review"


@pytest.mark.req("S3-101")
def test_stage_3_is_completed_only_when_the_writing_has_begun() -> None:
    maps = {f"stage-3-section-{n}-arguments.md": MAP + APPROVED for n in (1, 2, 3)}
    bundle = {STATE: b"", "stage-2-outline.md": OUTLINE, **maps}
    made = recovered(bundle)  # the last approval, of all sections together, leaves no trace
    assert made.state["stages"]["stage_3"]["status"] == "in_progress"
    assert made.state["current_stage"] == 3
    assert "stages.stage_3.birds_eye_approved" in made.lost
    assert stages({**bundle, "stage-4-draft.md": DRAFT})["stage_3"]["status"] == "completed"


@pytest.mark.req("X3-5")
@pytest.mark.parametrize("answer", [b"No", b"Pending", b"[date/time]", b"not yet"])
def test_map_not_approved_by_the_user_is_in_progress(answer: bytes) -> None:
    assert not stage_files.arguments(MAP + b"\n## Approved By User\n" + answer).approval.given


@pytest.mark.req("S3-102", "X3-5")
def test_progress_of_the_writing_is_read_from_the_draft() -> None:
    four = stages(EVIDENCE)["stage_4"]
    assert [
        (s["section_index"], s["completed_paragraphs"], s["status"]) for s in four["sections"]
    ] == [
        (1, 2, "completed"),
        (2, 1, "in_progress"),
        (3, 0, "not_started"),
    ]
    assert (four["status"], four["current_section"], four["current_paragraph"]) == (
        "in_progress",
        2,
        2,
    )
    assert four["draft_file"] == f"{ROOT}/stage-4-draft.md"
    assert recovered(EVIDENCE).state["current_stage"] == 4
    closed = stages({**EVIDENCE, "stage-4-draft.md": DRAFT + b"\n---\n"})["stage_4"]
    assert (closed["current_section"], closed["current_paragraph"]) == (3, 1)


@pytest.mark.req("S3-102", "X3-5")
@pytest.mark.parametrize(
    "text, expected",
    [
        (b"", []),
        (b"# Title\n\nno section\n", []),
        (b"## A\n\n## B\n\nx\n", [("A", 0, True), ("B", 1, False)]),
        (b"## A\r\n\r\nx\r\n\r\ny\r\n", [("A", 2, False)]),
        (b"---\n\n## A\n### sub\nx\n", [("A", 1, False)]),
        (b"## A\n\n### sub\n\nx\n", [("A", 1, False)]),
        (b"## A\n\nx\n\n* * *\n\n## B\n\ny\n\n_____\n", [("A", 1, True), ("B", 1, True)]),
    ],
)
def test_paragraphs_are_counted_between_blank_lines(
    text: bytes, expected: list[tuple[str, int, bool]]
) -> None:
    assert [(s.title, s.paragraphs, s.closed) for s in stage_files.draft(text)] == expected


@pytest.mark.req("S3-102", "X3-5")
@pytest.mark.parametrize(
    "draft, expected",
    [
        ("---\nlayout: post\n---\n\n## A\n\nx\n\ny\n\n---\n\n## B\n\nz\n", {1: 2, 2: 1}),
        ("# Tides\n\n*as of today*\n\n## A\n\nx\n\n---\n\n## B\n\ny\n", {1: 1, 2: 1}),
        ("It begins.\n\n---\n\n## B\n\nx\n\ny\n", {2: 2}),
        ("## A\n\nx\n\n---\n\ny\n\n---\n\n## B\n\nz\n", {1: 2, 2: 1}),
        ("## A as it is now\n\nx\n\n---\n\n## B\n\ny\n\nz\n", {1: 1, 2: 2}),
        ("## Prologue\n\nx\n\n---\n\n## A\n\ny\n\nz\n", {1: 2}),
        ("## B\n\nx\n\ny\n\n---\n\n## A\n\nz\n", {1: 1, 2: 2}),
    ],
)
def test_paragraphs_are_counted_for_the_section_that_the_outline_names(
    draft: str, expected: dict[int, int]
) -> None:
    outline = b"- **Sections**: 3\n### Section 1: A\n### Section 2: B\n### Section 3: C\n"
    bundle = {"stage-2-outline.md": outline, "stage-4-draft.md": draft.encode()}
    counts = {s["section_index"]: s["completed_paragraphs"] for s in sections_of(bundle)}
    assert {index: count for index, count in counts.items() if count} == expected


def sections_of(bundle: dict[str, bytes]) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = stages(bundle)["stage_4"]["sections"]
    return listed


def test_draft_is_counted_in_words() -> None:
    inferred = recovered({"stage-4-draft.md": b"## A\n\nOne.\n"}).inferred
    assert "stage 4: 1 paragraph in 1 section" in inferred


def test_final_essay_means_that_everything_is_done() -> None:
    made = recovered({**EVIDENCE, "final-essay.md": b"# Tides"}).state
    assert (made["status"], made["stages"]["stage_4"]["status"]) == ("completed", "completed")
    assert made["output"]["final_essay_file"] == f"{ROOT}/final-essay.md"


@pytest.mark.req("S3-69", "S3-72", "S3-103")
def test_only_output_fields_not_in_the_final_essay_are_lost() -> None:
    made = recovered({**EVIDENCE, "final-essay.md": b"# Tides\n\nThey come and go."})
    assert made.state["output"]["total_word_count"] == 5
    lost = {line for line in made.lost if "output" in line}
    assert lost == {
        "output.sources_verified",
        "output.voice_consistency_score",
        "output.completed_at",
    }
    assert not any("total_paragraphs" in line for line in made.lost)
    written = made.state["stages"]["stage_4"]["sections"]
    assert all(part["total_paragraphs"] == part["completed_paragraphs"] for part in written[:2])
    assert not any("output" in line for line in recovered(dict(EVIDENCE)).lost)


@pytest.mark.req("S3-103", "S3-113")
def test_rebuilt_state_does_not_name_a_missing_final_essay() -> None:
    left = f"output:\n  final_essay_file: {ROOT}/final-essay.md\n  total_word_count: 9\nstages: ["
    made = recovered({**EVIDENCE, STATE: left.encode()})
    assert made.state["output"]["final_essay_file"] is None
    assert made.state["output"]["total_word_count"] == 9


def test_salvaged_facts_name_the_sections_and_the_thesis() -> None:
    saved = FORMAT.salvage(dict(EVIDENCE), HERE)
    assert saved is not None
    titles = {step.id: step.title for step in saved.facts.steps}
    assert titles["stage-3/section-2"] == titles["stage-4/section-2"] == "The Harbour"
    assert saved.facts.goal == "Tides decide when boats leave."
    assert saved.facts.position == "stage-4/section-2"
    assert saved.facts.native_id == "essay-old"
    assert saved.facts.attributes["essay.pushback_level"] == "minimal"
    assert saved.inferred and "voice_calibration" in saved.lost


def test_readable_part_of_the_damaged_file_is_preserved() -> None:
    lines = [f"{key}: {json.dumps(value)}" for key, value in session().items()]
    text = "\n".join(lines).encode()
    torn, rest = text.index(b"stages:") + 40, text.index(b"voice_calibration")
    damaged = text[:torn] + b"\n" + text[rest:]
    state = recovered({**EVIDENCE, STATE: damaged}).state
    for key in ("pipeline_id", "started_at", "last_activity", "deferred_verifications"):
        assert state[key] == session()[key]
    for key in ("user_overrides", "revision_history", "voice_calibration", "pushback_level"):
        assert state[key] == session()[key]


def test_start_is_read_from_the_name_of_the_folder() -> None:
    made = recovered({STATE: b"", "stage-1-thesis.md": THESIS})
    assert made.state["started_at"] == "2026-02-14T14:30:22Z"
    assert made.state["last_activity"] == "2026-02-14T19:30:22Z"
    assert FORMAT.why_invalid_id(made.state["pipeline_id"]) == ""


@pytest.mark.req("S3-105", "S3-106", "S3-107")
def test_user_is_asked_where_to_resume_if_nothing_is_readable() -> None:
    bundle = {STATE: BROKEN, "fact-check-log.md": b"", "stage-1-thesis.v1.md": b""}
    made = recovered(bundle)
    assert (made.level, made.message) == (
        "manual",
        "Session state could not be automatically recovered.",
    )
    question = made.question
    assert question is not None
    assert question.files == ("fact-check-log.md", "stage-1-thesis.v1.md")
    assert [choice.id for choice in question.choices] == [
        "stage-1",
        "stage-2",
        "stage-3",
        "stage-4",
    ]
    assert question.recommended == "stage-1"
    saved = FORMAT.salvage(bundle, HERE)
    assert saved is not None and saved.level == "manual"


@pytest.mark.req("S3-108")
@pytest.mark.parametrize("stage", [1, 2, 3, 4])
def test_answer_of_the_user_creates_a_new_state(stage: int) -> None:
    bundle = {STATE: BROKEN, "stage-1-thesis.md": THESIS}
    made = salvage.begin_at(stage, bundle, HERE)
    assert get(made).position == f"stage-{stage}"
    statuses = [made["stages"][f"stage_{n}"]["status"] for n in (1, 2, 3, 4)]
    before = ["completed", "needs_review", "needs_review"][: stage - 1]
    assert statuses == [*before, "in_progress", *["not_started"] * (4 - stage)]
    where = replace(HERE, names=frozenset(bundle))
    assert [f.code for f in check(made, where) if f.severity == ERROR] == []


@pytest.mark.parametrize("data", [b"", b"\0" * 99, b"- a\n", b"{{{"])
def test_empty_session_file_gives_nothing_to_salvage(data: bytes) -> None:
    assert FORMAT.salvage({STATE: data, fields.BACKUP: data}, HERE) is None
    assert recovered({STATE: data}).level == "manual"
    assert FORMAT.salvage({STATE: data, "fact-check-log.md": b"x"}, HERE) is not None
    assert (
        FORMAT.salvage({STATE: data, fields.BACKUP: b"pipeline_id: e-1\nx: [\n"}, HERE) is not None
    )


pieces = st.one_of(st.binary(max_size=60), st.sampled_from(list(EVIDENCE.values())))


@given(
    st.dictionaries(st.sampled_from([*EVIDENCE, fields.BACKUP, "final-essay.md"]), pieces), wheres
)
def test_essay_with_any_damage_can_be_salvaged_and_resumed_at_any_stage(
    bundle: dict[str, bytes], where: Where
) -> None:
    saved = FORMAT.salvage(bundle, where)
    assert saved is not None or bundle.keys() <= {STATE, fields.BACKUP}
    if saved is not None:
        made = recovered(bundle, where)
        assert FORMAT.get({STATE: made.state}, where).status == saved.facts.status
        for stage in (1, 2, 3, 4):
            assert FORMAT.recognise(STATE, salvage.begin_at(stage, bundle, where)) == 1


@given(st.integers(0, 3000), st.integers(0, 3000), st.binary(max_size=30))
def test_state_damaged_anywhere_retains_the_facts_of_the_artifacts(
    start: int, end: int, noise: bytes
) -> None:
    text = "\n".join(f"{key}: {json.dumps(value)}" for key, value in session().items()).encode()
    made = recovered({**EVIDENCE, STATE: text[:start] + noise + text[end:] + b"\n]"})
    assert made.level == "artifacts"
    assert made.state["stages"] == {**made.state["stages"], **stages(EVIDENCE)}


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 2_000_000,
        b"a:\n" * 500_000,
        b"pipeline_id: x\n" * 200_000,
        b"output:\n" + b" - [" * 300_000,
        b"## A\n\nx\n" * 300_000,
        b"**Verified**: YES\n" * 200_000,
        b"### Section 1: " + b" " * 2_000_000,
        b"### Section 1: " + b"(~1 words) " * 200_000,
        b"\n" * 3_000_000,
        b"## Approved By User\n" * 100_000,
    ],
)
@pytest.mark.parametrize(
    "name",
    [STATE, "stage-2-outline.md", "stage-3-section-1-arguments.md", "stage-4-draft.md"],
)
def test_hostile_files_take_no_longer_than_their_length(name: str, data: bytes) -> None:
    began = time.process_time()
    salvage.recover({name: data}, HERE)
    assert time.process_time() - began < 60


# -- what is shown --------------------------------------------------------------------------------


@pytest.mark.req("S3-119")
@pytest.mark.parametrize(
    "stage, section, paragraph, place",
    [
        (1, None, None, "Stage 1"),
        (2, 3, 4, "Stage 2"),
        (3, 2, None, "Stage 3, Section 2"),
        (4, 2, 3, "Stage 4, Section 2, Paragraph 3"),
        (4, None, None, "Stage 4"),
    ],
)
def test_pause_message_names_the_position_and_only_what_applies(
    stage: int, section: int | None, paragraph: int | None, place: str
) -> None:
    doc = fields.blank()
    doc["current_stage"] = stage
    for number in (3, 4):
        doc["stages"][f"stage_{number}"]["current_section"] = section
    doc["stages"]["stage_4"]["current_paragraph"] = paragraph
    assert display.pause_message(doc) == (
        f"Session paused at {place}. To resume, invoke essay-pipeline and select this session."
    )


@pytest.mark.req("S3-121", "S3-122")
def test_sessions_are_listed_as_the_document_does() -> None:
    now = clock.read("2026-02-14T19:00:00Z")
    assert now is not None
    third, fourth = session(), session()
    third.update(current_stage=3, last_activity="2026-02-14T17:00:00Z")
    fourth.update(last_activity="2026-02-12T09:15:00Z")
    fourth["stages"]["stage_4"]["current_section"] = 1
    found = [
        ("essay-pipeline-20260214-143022", third),
        ("essay-pipeline-20260212-091500", fourth),
        ("essay-pipeline-20260101-000000", None),
        ("essay-pipeline-20251231-000000", {**fourth, "status": "completed"}),
        ("essay-pipeline-20251230-000000", {**fourth, "status": "abandoned"}),
    ]
    assert display.session_list(found, replace(HERE, now=now)).split("\n") == [
        "Sessions found:",
        "1. essay-pipeline-20260214-143022 -- Stage 3, Section 2 -- Last active: 2 hours ago",
        "2. essay-pipeline-20260212-091500 -- Stage 4, Section 1 -- Last active: 2 days ago",
        "3. essay-pipeline-20260101-000000 -- State unreadable -- Last active: unknown",
        "4. essay-pipeline-20251231-000000 -- Completed -- Last active: 2 days ago",
        "5. essay-pipeline-20251230-000000 -- Abandoned -- Last active: 2 days ago",
    ]
    assert display.session_list([], HERE) == "No sessions found."


@pytest.mark.req("S3-121")
@pytest.mark.parametrize(
    "idle, shown",
    [
        (-HOUR, "just now"),
        (59_999, "just now"),
        (60_000, "1 minute ago"),
        (HOUR - 1, "59 minutes ago"),
        (HOUR, "1 hour ago"),
        (DAY - 1, "23 hours ago"),
        (DAY, "1 day ago"),
        (40 * DAY, "40 days ago"),
    ],
)
def test_elapsed_time_is_shown_in_the_largest_fitting_unit(idle: int, shown: str) -> None:
    assert display.session_list([("x", session())], replace(HERE, now=_last() + idle)).endswith(
        f"Last active: {shown}"
    )


def _last() -> int:
    moment = clock.read("2026-02-14T17:00:00Z")
    assert moment is not None
    return moment


@pytest.mark.req("S3-125")
def test_summary_names_the_position() -> None:
    assert display.resume_summary(session()) == (
        "Resuming at Stage 4. Here's where you left off: Paragraph writing in progress, "
        "Section 2 of 2, Paragraph 3, 1 section completed, 1 claim to verify."
    )
    assert display.resume_summary(fields.blank()) == (
        "Resuming at Stage 1. Here's where you left off: Thesis development not started."
    )


@given(stories.mutants(session()))
def test_any_state_document_can_be_displayed_without_leftover_placeholders(doc: Any) -> None:
    doc = doc if isinstance(doc, dict) else {}
    shown = (
        display.pause_message(doc),
        display.resume_summary(doc),
        display.session_list([("x", doc)], HERE),
    )
    assert not any(sign in line for line in shown for sign in "[]")


@pytest.mark.req("S3-128")
@pytest.mark.parametrize(
    "idle, days", [(-5, 0), (0, 0), (7 * DAY - 1, 0), (7 * DAY, 7), (999 * DAY + 5, 999)]
)
def test_essay_without_activity_for_a_week_is_abandoned(idle: int, days: int) -> None:
    late = replace(HERE, now=BEGAN + idle)
    doc = changed("last_activity", clock.write(BEGAN))
    assert display.abandoned_for(doc, late) == days
    assert display.abandoned_for({**doc, "status": "completed"}, late) == 0
    assert display.abandoned_for(None, late) == display.abandoned_for({}, late) == 0


@pytest.mark.req("S3-128")
def test_reading_an_old_session_does_not_change_its_status() -> None:
    late = replace(HERE, now=BEGAN + 30 * DAY)
    assert get(session(), late).status == "active"
    assert put(session(), get(session(), late), late) == session()


def test_each_choice_of_where_to_resume_names_the_results_of_its_stage() -> None:
    question = salvage.ask(dict(EVIDENCE))
    assert question.recommended == "stage-4"
    assert [len(choice.detail.split(", ")) for choice in question.choices] == [1, 1, 2, 1]
