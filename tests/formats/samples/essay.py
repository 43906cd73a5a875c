"""A consistent essay session, and what the contract suite is to find in it."""

from __future__ import annotations

from typing import Any

from forestay.formats.essay import fields
from forestay.formats.essay.format import FORMAT
from forestay.formats.port import Tree, Where
from tests.formats.sample import Fault, Sample, rows

ROOT = "/home/ann/essays/essay-pipeline-20260214-143022"
STATE = "session-state.yaml"
BEGAN = 1_771_079_422_000  # 2026-02-14T14:30:22Z
HOUR, DAY = 3_600_000, 86_400_000
NOW = BEGAN + 5 * HOUR
NAMES = frozenset(
    [
        STATE,
        "stage-1-thesis.md",
        "stage-1-development-log.md",
        "stage-2-outline.md",
        "stage-3-section-1-arguments.md",
        "stage-3-section-2-arguments.md",
        "stage-4-draft.md",
        "stage-2-outline.v1.md",
    ]
)
HERE = Where(now=NOW, root=ROOT, names=NAMES, naive="utc")
ALONE = Where(now=NOW, naive="utc")
OUTPUT = {
    "final_essay_file": f"{ROOT}/final-essay.md",
    "sources_verified": 9,
    "voice_consistency_score": 4.5,
    "total_word_count": 1811,
    "completed_at": "2026-02-14T19:00:00Z",
}


def session() -> dict[str, Any]:
    """An essay of our own making, in its fourth stage, without fault."""
    doc = fields.blank()
    doc.update(
        pipeline_id="essay-0f8b2c1e-5a7d-4c3b-9e21-6d4f8a90b1c2",
        started_at="2026-02-14T14:30:22Z",
        last_activity="2026-02-14T17:00:00Z",
        style_profile_path="essays/style.md",
        samples_dir_path="essays/samples",
        pushback_level="light",
        session_dir=ROOT,
        current_stage=4,
        current_stage_name="paragraph_writing",
    )
    stages = doc["stages"]
    stages["stage_1"].update(
        status="completed",
        thesis_file=f"{ROOT}/stage-1-thesis.md",
        development_log=f"{ROOT}/stage-1-development-log.md",
        claim_type="argument",
        completed_at="2026-02-14T15:00:00Z",
    )
    stages["stage_2"].update(
        status="completed",
        outline_file=f"{ROOT}/stage-2-outline.md",
        total_sections=2,
        target_word_count=1800,
        audience="semi-technical",
        completed_at="2026-02-14T15:30:00Z",
    )
    stages["stage_3"].update(
        status="completed",
        total_sections=2,
        current_section=2,
        sections=[argued(1), argued(2)],
        birds_eye_approved=True,
        completed_at="2026-02-14T16:20:00Z",
    )
    stages["stage_4"].update(
        status="in_progress",
        current_section=2,
        current_paragraph=3,
        draft_file=f"{ROOT}/stage-4-draft.md",
        sections=[
            written(1, 3, 3, "completed", voice_check_score=4),
            written(2, 4, 2, "in_progress"),
        ],
    )
    doc["voice_calibration"].update(first_assessment_user_rating=4, calibration_notes="drier")
    doc["deferred_verifications"] = [
        {
            "claim_text": "Tides are late",
            "section": 2,
            "paragraph": None,
            "reason": "timeout",
            "added_at": "2026-02-14T16:10:00Z",
            "resolved": False,
        }
    ]
    doc["user_overrides"] = [
        {
            "claim_text": "Boats float",
            "fact_checker_result": "unverified",
            "user_action": "override",
            "user_rationale": "I saw one",
            "logged_at": "2026-02-14T16:15:00Z",
        }
    ]
    doc["revision_history"] = [
        {
            "stage_revisited": 1,
            "impact": "moderate",
            "reason": "narrower",
            "downstream_archived": ["stage-2-outline.v1.md"],
            "timestamp": "2026-02-14T15:10:00Z",
        }
    ]
    return doc


def argued(index: int) -> dict[str, Any]:
    return {
        "section_index": index,
        "status": "completed",
        "argument_map_file": f"{ROOT}/stage-3-section-{index}-arguments.md",
        "verified_claims": 5,
        "deferred_claims": 1,
        "completed_at": "2026-02-14T16:00:00Z",
    }


def written(index: int, total: int, done: int, status: str, **more: Any) -> dict[str, Any]:
    return {
        "section_index": index,
        "total_paragraphs": total,
        "completed_paragraphs": done,
        "status": status,
        "voice_check_score": None,
    } | more


FIELDS = rows("""
pipeline_id                                        text      S3-2
started_at                                         stamp     S3-3
last_activity                                      stamp     S3-4
status                                             text      S3-5
style_profile_path                                 text      S3-6
samples_dir_path                                   text      S3-7
pushback_level                                     text      S3-8
session_dir                                        text      S3-9
current_stage                                      number    S3-10
current_stage_name                                 text      S3-11
stages.stage_1.status                              text      S3-12
stages.stage_1.thesis_file                         -         S3-13
stages.stage_1.development_log                     text?     S3-14
stages.stage_1.claim_type                          text?     S3-15
stages.stage_1.completed_at                        stamp?    S3-16
stages.stage_2.status                              text      S3-17
stages.stage_2.outline_file                        -         S3-18
stages.stage_2.total_sections                      number?   S3-19
stages.stage_2.target_word_count                   number?   S3-20
stages.stage_2.audience                            text?     S3-21
stages.stage_2.completed_at                        stamp?    S3-22
stages.stage_3.status                              text      S3-23
stages.stage_3.total_sections                      number?   S3-24
stages.stage_3.current_section                     number?   S3-25
stages.stage_3.sections                            list?     S3-26
stages.stage_3.sections[0].section_index           number    S3-27
stages.stage_3.sections[0].status                  text      S3-28
stages.stage_3.sections[0].argument_map_file       -         S3-29
stages.stage_3.sections[0].verified_claims         number    S3-30
stages.stage_3.sections[0].deferred_claims         number    S3-31
stages.stage_3.sections[0].completed_at            stamp?    S3-32
stages.stage_3.birds_eye_approved                  boolean   S3-33
stages.stage_3.completed_at                        stamp?    S3-34
stages.stage_4.status                              text      S3-35
stages.stage_4.current_section                     number?   S3-36
stages.stage_4.current_paragraph                   number?   S3-37
stages.stage_4.draft_file                          text?     S3-38
stages.stage_4.paragraph_log                       text?     S3-39
stages.stage_4.sections                            list?     S3-40
stages.stage_4.sections[0].section_index           number    S3-41
stages.stage_4.sections[0].total_paragraphs        number?   S3-42
stages.stage_4.sections[0].completed_paragraphs    number    S3-43
stages.stage_4.sections[0].status                  text      S3-44
stages.stage_4.sections[0].voice_check_score       number?   S3-45
stages.stage_4.completed_at                        stamp?    S3-46
voice_calibration.first_assessment_user_rating     number?   S3-47
voice_calibration.calibration_notes                text?     S3-48
voice_calibration.voice_reference_mode             text      S3-49
deferred_verifications                             list?     S3-50
deferred_verifications[0].claim_text               text      S3-51
deferred_verifications[0].section                  number?   S3-52
deferred_verifications[0].paragraph                number?   S3-53
deferred_verifications[0].reason                   text      S3-54
deferred_verifications[0].added_at                 stamp     S3-55
deferred_verifications[0].resolved                 boolean   S3-56
user_overrides                                     list?     S3-57
user_overrides[0].claim_text                       text      S3-58
user_overrides[0].fact_checker_result              text      S3-59
user_overrides[0].user_action                      text      S3-60
user_overrides[0].user_rationale                   text      S3-61
user_overrides[0].logged_at                        stamp     S3-62
revision_history                                   list?     S3-63
revision_history[0].stage_revisited                number    S3-64
revision_history[0].impact                         text      S3-65
revision_history[0].reason                         text      S3-66
revision_history[0].downstream_archived            list?     S3-67
revision_history[0].timestamp                      stamp     S3-68
output.final_essay_file                            text?     S3-69
output.sources_verified                            number?   S3-70
output.voice_consistency_score                     number?   S3-71
output.total_word_count                            number?   S3-72
output.completed_at                                stamp?    S3-73
""")
FAULTS: list[Fault] = [
    ("last_activity", "2026-02-14T17:00:00", "naive-stamp", "S3-4"),
    ("status", "asleep", "unknown-word", "S3-5"),
    ("status", "active", "foreign-word", "S3-5"),
    ("style_profile_path", ["x"], "wrong-type", "S3-6"),
    ("pushback_level", "some", "unknown-word", "S3-8"),
    ("pushback_level", ..., "missing-key", "S3-8"),
    ("current_stage", 5, "out-of-range", "S3-10"),
    ("current_stage", 0, "out-of-range", "S3-10"),
    ("current_stage", True, "wrong-type", "S3-10"),
    ("current_stage_name", "essay_structuring", "stage-name-differs", "S3-11"),
    ("current_stage_name", "resting", "unknown-word", "S3-11"),
    ("stages.stage_1.status", "begun", "unknown-word", "S3-12"),
    ("stages.stage_1.thesis_file", 5, "wrong-type", "S3-13"),
    ("stages.stage_1.claim_type", "joke", "unknown-word", "S3-15"),
    ("stages.stage_1.completed_at", None, "completed-without-time", "S3-16"),
    ("stages.stage_2.status", "done", "foreign-word", "S3-17"),
    ("stages.stage_2.outline_file", 1.5, "wrong-type", "S3-18"),
    ("stages.stage_2.target_word_count", -1, "out-of-range", "S3-20"),
    ("stages.stage_2.audience", "children", "unknown-word", "S3-21"),
    ("stages.stage_3.total_sections", 2.5, "wrong-type", "S3-24"),
    ("stages.stage_3.current_section", 0, "out-of-range", "S3-25"),
    ("stages.stage_3.sections[0].section_index", 0, "out-of-range", "S3-27"),
    ("stages.stage_3.sections[0].section_index", 2, "duplicate-section", "S3-27"),
    ("stages.stage_3.sections[0].status", "odd", "unknown-word", "S3-28"),
    ("stages.stage_3.sections[0].argument_map_file", 1, "wrong-type", "S3-29"),
    ("stages.stage_3.sections[0].deferred_claims", -2, "out-of-range", "S3-31"),
    ("stages.stage_3.sections[0].completed_at", None, "completed-without-time", "S3-32"),
    ("stages.stage_4.sections[1].section_index", 1, "duplicate-section", "S3-41"),
    ("stages.stage_4.sections[1].section_index", None, "wrong-type", "S3-41"),
    ("stages.stage_4.sections[0].completed_paragraphs", -3, "out-of-range", "S3-43"),
    ("stages.stage_4.sections[0].status", "x", "unknown-word", "S3-44"),
    ("voice_calibration.first_assessment_user_rating", 6, "out-of-range", "S3-47"),
    ("voice_calibration.voice_reference_mode", "ear", "unknown-word", "S3-49"),
    ("deferred_verifications[0]", "a claim", "wrong-type", "S3-51"),
    ("deferred_verifications[0].paragraph", 0, "out-of-range", "S3-53"),
    ("deferred_verifications[0].reason", "fact-checker timeout", "odd-word", "S3-54"),
    ("user_overrides[0].fact_checker_result", "??", "odd-word", "S3-59"),
    ("user_overrides[0].user_action", "shrug", "unknown-word", "S3-60"),
    ("revision_history[0].stage_revisited", 5, "out-of-range", "S3-64"),
    ("revision_history[0].impact", "huge", "unknown-word", "S3-65"),
    ("revision_history[0].downstream_archived[0]", 1, "wrong-type", "S3-67"),
    ("output.total_word_count", -9, "out-of-range", "S3-72"),
]
WORDS = [
    ("status", "in_progress paused completed abandoned", "S3-5"),
    ("pushback_level", "full light minimal", "S3-8"),
    *(
        (f"stages.{place}.status", "not_started in_progress completed needs_review", number)
        for place, number in (
            ("stage_1", "S3-12"),
            ("stage_2", "S3-17"),
            ("stage_3", "S3-23"),
            ("stage_3.sections[0]", "S3-28"),
            ("stage_4", "S3-35"),
            ("stage_4.sections[0]", "S3-44"),
        )
    ),
    ("stages.stage_1.claim_type", "argument explainer prediction hybrid", "S3-15"),
    ("stages.stage_2.audience", "general semi-technical expert", "S3-21"),
    ("voice_calibration.voice_reference_mode", "profile sample hybrid", "S3-49"),
    ("deferred_verifications[0].reason", "timeout service_unavailable no_results", "S3-54"),
    (
        "user_overrides[0].fact_checker_result",
        "verified partial contested unverified deferred common_knowledge personal",
        "S3-59",
    ),
    ("user_overrides[0].user_action", "override", "S3-60"),
    ("revision_history[0].impact", "minor moderate major", "S3-65"),
]


def full(place: str) -> Tree:
    doc = session() | {"status": "completed", "output": dict(OUTPUT)}
    doc["stages"]["stage_4"].update(
        completed_at="2026-02-14T18:00:00Z", paragraph_log=f"{ROOT}/stage-4-paragraph-log.md"
    )
    doc["voice_calibration"]["voice_reference_mode"] = "sample"
    return {STATE: doc}


SAMPLE = Sample(
    FORMAT,
    {STATE: session()},
    HERE,
    fields=FIELDS,
    full=full,
    # A session that is written into another folder is in stage 4; no fact holds revisions.
    unwritten=("stages.stage_3.current_section", "revision_history"),
    faults=FAULTS,
    words=WORDS,
    statuses={
        "in_progress": "active",
        "paused": "paused",
        "completed": "completed",
        "complete": "completed",
        "abandoned": "abandoned",
    },
    status=("status", "S3-5"),
    updated=("last_activity", "S3-4"),
    others=[{}, {"status": "paused"}, {"session_id": "x", "agents": []}],
)
