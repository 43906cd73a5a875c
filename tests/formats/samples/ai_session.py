"""A consistent ai-session session, and what the contract suite is to find in it."""

from __future__ import annotations

from typing import Any

from forestay.formats.ai_session.format import FORMAT
from forestay.formats.port import Tree, Where
from tests.formats.sample import Fault, Sample, rows

FEATURE = "river-crossing-2025-03-04"
STATE, PLAN, LOG, INDEX = FORMAT.files(FEATURE)
BEGAN = 1_741_082_400_000  # 2025-03-04T10:00:00Z
NOW = BEGAN + 5 * 3_600_000
WHERE = Where(now=NOW, naive="utc")


def tree() -> Tree:
    """A session of our own making, whole and without fault."""
    return {
        STATE: {
            "version": "1.0",
            "feature_id": FEATURE,
            "current_state": {
                "active_task": "T2",
                "model_in_use": "opus",
                "started_at": "2025-03-04T10:00:00Z",
                "last_updated": "2025-03-04T11:00:00Z",
            },
        },
        PLAN: {
            "feature": {
                "id": FEATURE,
                "name": "Cross the river",
                "description": "AI Orchestrator Feature",
                "created_at": "2025-03-04T10:00:00Z",
            },
            "phases": [
                {
                    "phase_id": "P1",
                    "name": "Bank",
                    "tasks": [
                        task("T1", "Find a boat", "completed", "2025-03-04T10:05:00Z", True),
                        task("T2", "Load the goat", "in_progress", "2025-03-04T10:30:00Z"),
                    ],
                },
            ],
        },
        LOG: [line(), line(command="row", status="failure", error='leak "again"\n')],
        INDEX: {"active_features": [entry(), entry(feature_id="other-2025-01-01")]},
    }


def task(id: str, text: str, status: str, began: str | None, ended: bool = False) -> dict[str, Any]:
    return {
        "task_id": id,
        "description": text,
        "agent": "a-1",
        "status": status,
        "started_at": began,
        "completed_at": "2025-03-04T10:20:00Z" if ended else None,
        "artifacts": ["artifacts/boat.md"] if ended else [],
    }


def line(**changes: Any) -> dict[str, Any]:
    return {
        "timestamp": "2025-03-04T10:10:00Z",
        "command": "plan",
        "arguments": "",
        "model": "gemini",
        "agent": "a-1",
        "task_id": None,
        "status": "success",
        "duration_ms": 1200,
    } | changes


def entry(**changes: Any) -> dict[str, Any]:
    return {
        "feature_id": FEATURE,
        "started_at": "2025-03-04T10:00:00Z",
        "last_active": "2025-03-04T11:00:00Z",
        "status": "active",
    } | changes


FIELDS = rows("""
state:feature_id                                   text      S0-3
state:current_state                                object    S0-6
state:current_state.active_task                    -         S0-6
state:current_state.model_in_use                   text      S0-7
state:current_state.started_at                     stamp     S0-8
state:current_state.last_updated                   stamp     S0-9
plan:feature                                       object    S0-22
plan:feature.id                                    text      S0-22
plan:feature.name                                  -         S0-23
plan:feature.description                           text      S0-24
plan:feature.created_at                            stamp     S0-25
plan:phases                                        list?     S0-26
plan:phases[0].phase_id                            -         S0-27
plan:phases[0].name                                -         S0-28
plan:phases[0].tasks                               list?     S0-29
plan:phases[0].tasks[0].task_id                    -         S0-30
plan:phases[0].tasks[0].description                -         S0-31
plan:phases[0].tasks[0].agent                      text?     S0-32
plan:phases[0].tasks[0].status                     text      S0-33
plan:phases[0].tasks[0].started_at                 stamp?    S0-34
plan:phases[0].tasks[0].completed_at               stamp?    S0-35
plan:phases[0].tasks[0].artifacts                  list?     S0-36
log:[0].timestamp                                  stamp     S0-38
log:[0].command                                    -         S0-39
log:[0].arguments                                  text      S0-40
log:[0].model                                      text      S0-41
log:[0].agent                                      text      S0-42
log:[0].task_id                                    -         S0-43
log:[0].status                                     text      S0-44
log:[0].duration_ms                                number    S0-45
index:active_features                              list?     S0-47
index:active_features[1].feature_id                text      S0-48
index:active_features[1].started_at                stamp     S0-49
index:active_features[1].last_active               stamp     S0-50
index:active_features[1].status                    text      S0-51
""")
FAULTS: list[Fault] = [
    # place, value, code, requirement
    ("state:", None, "empty-file", "S0-79"),
    ("state:", [], "wrong-type", "S0-78"),
    ("state:feature_id", "river", "bad-feature-id", "S0-18"),
    ("state:feature_id", "River-2025-03-04", "bad-feature-id", "S0-20"),
    ("state:feature_id", "river-2025-02-30", "bad-feature-id", "S0-21"),
    ("state:feature_id", "other-2025-03-04", "id-mismatch", "S0-12"),
    ("state:current_state.active_task", ["T1"], "wrong-type", "S0-6"),
    ("state:current_state.active_task", "T9", "unknown-task", "S0-6"),
    ("state:current_state.model_in_use", "gpt-9", "unknown-word", "S0-7"),
    ("state:current_state.last_updated", "2025-03-04T12:00:00", "naive-stamp", "S0-9"),
    ("state:current_state.last_updated", "2025-03-04T09:00:00Z", "time-runs-back", "S0-75"),
    ("state:current_state.status", "active", "status-in-state", "S0-51"),
    ("state:status", "active", "status-in-state", "S0-51"),
    ("plan:", "x", "wrong-type", "S0-78"),
    ("plan:feature.id", "other-2025-03-04", "id-mismatch", "S0-22"),
    ("plan:feature.name", "", "empty-value", "S0-23"),
    ("plan:feature.created_at", "2025-99-99T00:00:00Z", "bad-stamp", "S0-25"),
    ("plan:phases[0]", "Bank", "wrong-type", "S0-26"),
    ("plan:phases[0].phase_id", 1, "wrong-type", "S0-27"),
    ("plan:phases[0].name", None, "wrong-type", "S0-28"),
    ("plan:phases[0].tasks[0]", "T1", "wrong-type", "S0-29"),
    ("plan:phases[0].tasks[0].task_id", "T2", "duplicate-task-id", "S0-30"),
    ("plan:phases[0].tasks[0].description", 1.5, "wrong-type", "S0-31"),
    ("plan:phases[0].tasks[0].status", "finito", "unknown-word", "S0-33"),
    ("plan:phases[0].tasks[0].status", "complete", "foreign-word", "S0-33"),
    ("plan:phases[0].tasks[0].status", "pending", "ended-but-open", "S0-35"),
    ("plan:phases[0].tasks[0].started_at", "2025-03-04T10:50:00Z", "time-runs-back", "S0-75"),
    ("plan:phases[0].tasks[0].artifacts", None, "null-list", "S0-36"),
    ("plan:phases[0].tasks[0].artifacts", [7], "wrong-type", "S0-36"),
    ("log:", {}, "wrong-type", "S0-37"),
    ("log:[0]", "plan", "wrong-type", "S0-37"),
    ("log:[1].timestamp", "2025-03-04T10:09:00Z", "time-runs-back", "S0-75"),
    ("log:[0].command", "", "empty-value", "S0-39"),
    ("log:[0].arguments", ["a"], "wrong-type", "S0-40"),
    ("log:[0].model", "haiku", "unknown-word", "S0-41"),
    ("log:[0].task_id", 1.5, "wrong-type", "S0-43"),
    ("log:[0].status", "meh", "unknown-word", "S0-44"),
    ("log:[0].status", "failed", "foreign-word", "S0-44"),
    ("log:[0].duration_ms", -1, "out-of-range", "S0-45"),
    ("log:[0].duration_ms", 83_984_362, "duration-implausible", "S0-45"),
    ("log:[0].error", "x", "error-without-failure", "S0-46"),
    ("log:[1].error", "", "failure-without-error", "S0-46"),
    ("log:[0].feature_id", "other-2025-03-04", "id-mismatch", "S0-14"),
    ("index:", None, "empty-file", "S0-79"),
    ("index:", [], "wrong-type", "S0-47"),
    ("index:active_features[1]", "x", "wrong-type", "S0-47"),
    ("index:active_features[1].feature_id", "Other", "bad-feature-id", "S0-18"),
    ("index:active_features[1].last_active", "2025-03-04T09:00:00Z", "time-runs-back", "S0-75"),
    ("index:active_features[1].status", "sleeping", "unknown-word", "S0-51"),
    ("index:active_features[1].feature_id", FEATURE, "duplicate-entry", "S0-69"),
    ("index:active_features[0].feature_id", "other-2025-03-03", "not-listed", "S0-57"),
    ("index:active_features[0].started_at", "2025-03-04T10:00:01Z", "start-differs", "S0-79"),
]

SAMPLE = Sample(
    FORMAT,
    tree(),
    WHERE,
    files={"state": STATE, "plan": PLAN, "log": LOG, "index": INDEX},
    fields=FIELDS,
    faults=FAULTS,
    statuses={"active": "active", "paused": "paused", "completed": "completed"},
    status=("index:active_features[0].status", "S0-51"),
    updated=("state:current_state.last_updated", "S0-75"),
    version=("state:version", "S0-90"),
    versions={"1.0": True, 1.0: True, "1": True, "1.4": False, "2.0": False, 99: False},
    others=[
        [1, "x"],
        {},
        {"session_id": "x", "current_phase": 2, "completed_phases": []},
        {"schema_version": "1.0.0", "session_id": "x", "agents": []},
        {"session": {"id": "essay-1"}, "stages": {}},
        {"phases": []},
    ],
)
