"""A consistent orchestrator session, and what the contract suite is to find in it."""

from __future__ import annotations

from typing import Any

from forestay.formats.coerce import copied
from forestay.formats.orchestrator.format import CURRENT, FORMAT
from forestay.formats.port import Tree
from tests.formats.sample import Fault, Sample, rows

DONE: dict[str, Any] = {
    "id": "plan-1",
    "type": "plan",
    "task": "Design the queue",
    "status": "complete",
    "started": "2026-02-01T09:00:00Z",
    "completed": "2026-02-01T09:02:00Z",
    "result_summary": "two files",
    "context_tokens": 1500,
}
RUNNING: dict[str, Any] = {
    "id": "code-1",
    "type": "code",
    "task": "Write the queue",
    "status": "in_progress",
    "started": "2026-02-01T09:02:00Z",
    "progress": 60,
    "context_tokens": 3200,
}
FAILED: dict[str, Any] = {
    "id": "test-1",
    "type": "test",
    "task": "Try it",
    "status": "failure",
    "started": "2026-02-01T09:03:00Z",
    "completed": "2026-02-01T09:04:00Z",
}
DOCUMENT: dict[str, Any] = {
    "schema_version": "1.0",
    "session_id": "2026-02-01-a1b2c3",
    "created": "2026-02-01T09:00:00Z",
    "updated": "2026-02-01T09:30:00Z",
    "project": {"name": "queue", "path": "/home/me/queue", "git_branch": "durable"},
    "goal": "Make the queue durable",
    "mode": "default",
    "status": "in_progress",
    "agents": [DONE, RUNNING, FAILED],
    "completed_work": [{"task": "Design", "outcome": "two files", "files": ["docs/q.md"]}],
    "pending_tasks": ["Finish it", "Test it"],
    "decisions_made": [
        {
            "decision": "Sync at once",
            "rationale": "slow is fine",
            "timestamp": "2026-02-01T09:01:00Z",
        }
    ],
    "context_usage": {"estimated_tokens": 25000, "percentage": 20, "last_compression": None},
    "errors": [
        {
            "message": "no compiler",
            "category": "configuration",
            "agent": "test-1",
            "timestamp": "2026-02-01T09:04:00Z",
        }
    ],
}

FIELDS = rows("""
schema_version                 text     S4-7
session_id                     text     S4-8
created                        stamp    S4-9
updated                        stamp    S4-10
project.name                   text     S4-11
project.path                   text     S4-12
project.git_branch             text?    S4-13
goal                           text     S4-14
mode                           text     S4-15
status                         text     S4-16
agents[0].id                   text     S4-17
agents[0].type                 text     S4-18
agents[0].task                 text     S4-19
agents[0].status               text     S4-20
agents[0].started              stamp    S4-21
agents[0].completed            stamp?   S4-22
agents[0].result_summary       text?    S4-23
agents[0].context_tokens       number   S4-24
agents[1].progress             number   S4-25
completed_work[0].task         text     S4-26
completed_work[0].outcome      text     S4-27
completed_work[0].files        list     S4-28
pending_tasks                  list     S4-29
decisions_made[0].decision     text     S4-30
decisions_made[0].rationale    text     S4-31
decisions_made[0].timestamp    stamp    S4-32
context_usage.estimated_tokens number   S4-33
context_usage.percentage       number   S4-34
context_usage.last_compression stamp?   S4-35
errors                         list     S4-36
agents[0]                      object   S4-17
completed_work[0].files[0]     text     S4-28
pending_tasks[0]               text     S4-29
""")
WORDS = [
    ("status", "created in_progress paused complete aborted", "S4-65"),
    ("mode", "default debug optimize release", "S4-15"),
    ("agents[1].status", "in_progress complete failure", "S4-20"),
]
FAULTS: list[Fault] = [
    *((key, ..., "missing-key", "") for key in DOCUMENT),
    ("project", "/home/me/queue", "wrong-type", "S4-11"),
    ("session_id", "mine", "odd-session-id", "S4-8"),
    ("updated", "2026-02-01T08:00:00Z", "time-runs-back", "S4-10"),
    ("updated", "2026-02-01T09:30:00.123456", "naive-stamp", "S4-10"),
    ("created_at", "2026-02-01T08:00:00Z", "alias-key", "S4-7"),
    ("mine", 1, "unknown-key", "S4-7"),
    ("agents[1].progress", 160, "out-of-range", "S4-25"),
    ("agents[1].progress", 0.6, "wrong-type", "S4-25"),
    ("agents[1].completed", "2026-02-01T09:03:00Z", "running-has-end", "S4-22"),
    ("agents[1].completed", "2026-02-01T08:00:00Z", "time-runs-back", "S4-22"),
    ("agents[1].status", "complete", "missing-key", "S4-23"),
    ("agents[0].completed", ..., "missing-key", "S4-22"),
    ("agents[0].result_summary", ..., "missing-key", "S4-23"),
    ("agents[1]", DONE, "duplicate-agent", "S4-17"),
    ("completed_work[0]", "Design", "bare-text", "S4-26"),
    ("decisions_made[0]", "x", "bare-text", "S4-30"),
    ("context_usage.percentage", 21, "percentage-differs", "X4-3"),
    ("goal", "ğŸ”„ resume", "misread-text", "S4-92"),
]


def full(place: str) -> Tree:
    document = copied(DOCUMENT)
    document["context_usage"]["last_compression"] = "2026-02-01T09:10:00Z"
    return {CURRENT: document}


SAMPLE = Sample(
    FORMAT,
    {CURRENT: DOCUMENT},
    fields=FIELDS,
    optional=(
        *("agents[0].completed", "agents[0].result_summary"),
        *("agents[0].context_tokens", "agents[1].progress"),
        *("completed_work[0].outcome", "completed_work[0].files"),
    ),
    full=full,
    faults=FAULTS,
    words=WORDS,
    statuses={
        "created": "created",
        "in_progress": "active",
        "paused": "paused",
        "complete": "completed",
        "completed": "completed",
        "aborted": "aborted",
    },
    status=("status", "S4-16"),
    updated=("updated", "S4-10"),
    version=("schema_version", "S4-46"),
    versions={"1.0": True, "0.9": False, "1.1": False, "2.0": False, "99": False, 1.0: False},
    others=[{}, {"schema_version": "1.0"}, {"session_id": "x", "goal": "y"}],
)
