"""A consistent craft session, and what the contract suite is to find in it."""

from __future__ import annotations

from typing import Any

from forestay.formats.craft.format import FORMAT
from tests.formats.sample import Fault, Sample, rows

ID = "0b2f9d1e-5a77-4c11-9d2e-8a1f00c0ffee"
NAME = f"{ID}.json"

AGENT: dict[str, Any] = {
    "id": "plan-1",
    "type": "backend-architect",
    "status": "completed",
    "started_at": "2026-02-01T09:00:15.000Z",
    "completed_at": "2026-02-01T09:02:30.000Z",
    "duration_seconds": 135,
    "progress": 1.0,
    "result": "success",
    "blocking_on": None,
    "error": None,
    "output_summary": "Three queues",
    "artifacts": {"files_created": ["docs/q.md"], "files_modified": [], "files_deleted": []},
}
RUNNING: dict[str, Any] = {
    **AGENT,
    "id": "code-1",
    "type": "feature-dev",
    "status": "running",
    "completed_at": None,
    "duration_seconds": None,
    "progress": 0.25,
    "result": None,
    "output_summary": None,
    "artifacts": {"files_created": [], "files_modified": ["q.py"], "files_deleted": ["old.py"]},
}
FAILED: dict[str, Any] = {
    **RUNNING,
    "id": "test-1",
    "type": "my-own-type",
    "status": "error",
    "result": "failure",
    "error": {
        "category": "transient",
        "message": "no network",
        "retry_count": 2,
        "last_retry_at": "2026-02-01T09:10:00.000Z",
    },
}
DOCUMENT: dict[str, Any] = {
    "$schema": "https://data-wise.github.io/craft/schemas/session-state-v1.json",
    "schema_version": "1.0.0",
    "session_id": ID,
    "created_at": "2026-02-01T09:00:00.000Z",
    "updated_at": "2026-02-01T09:30:00.250Z",
    "device": "Workbench",
    "project": "/home/me/queue",
    "goal": "Make the queue durable",
    "mode": "release",
    "status": "in_progress",
    "progress": 0.4,
    "agents": [AGENT, RUNNING, FAILED],
    "completed_work": ["Design"],
    "pending_tasks": ["Code", "Tests"],
    "decisions_made": [
        {
            "timestamp": "2026-02-01T09:05:00.000Z",
            "context": "Where to keep messages",
            "options": ["a file", "a database"],
            "chosen": "a file",
            "reasoning": None,
        }
    ],
    "files_modified": [
        {
            "path": "q.py",
            "action": "modified",
            "agent_id": "code-1",
            "timestamp": "2026-02-01T09:20:00.125Z",
            "lines_added": 10,
            "lines_removed": 0,
            "hash_before": "ab" * 32,
            "hash_after": None,
        }
    ],
    "context_usage": {
        "estimated_tokens": 900,
        "compression_count": 1,
        "last_compression": "2026-02-01T09:15:00.000Z",
        "by_agent": {"plan-1": 400, "code-1": 500},
    },
    "teleportation": {
        "enabled": True,
        "last_sync": "2026-02-01T09:29:00.000Z",
        "sync_status": "error",
        "sync_error": "bucket is full",
        "devices": ["Workbench", "Laptop"],
        "storage_backend": "s3",
        "encrypted": True,
        "shared_with": ["someone@example.org"],
    },
    "metadata": {
        "git_branch": "durable",
        "git_commit": "c" * 40,
        "craft_version": "1.23.0",
        "tags": ["queue", "io"],
        "notes": "Ask about fsync",
        "ours": {"kept": True},
    },
}


FIELDS = rows("""
schema_version                        text     S2-10
session_id                            text     S2-9
created_at                            stamp    S2-12
updated_at                            stamp    S2-13
device                                text     S2-14
project                               text     S2-15
goal                                  text     S2-16
mode                                  text     S2-17
status                                text     S2-18
progress                              number   S2-19
agents                                list     S2-20
agents[0].id                          text     S2-21
agents[0].type                        text     S2-22
agents[0].status                      text     S2-23
agents[0].started_at                  stamp?   S2-24
agents[0].completed_at                stamp?   S2-25
agents[0].duration_seconds            number?  S2-26
agents[0].progress                    number?  S2-27
agents[0].result                      text?    S2-28
agents[0].blocking_on                 text?    S2-29
agents[2].error                       object?  S2-30
agents[2].error.category              text     S2-31
agents[2].error.message               text     S2-32
agents[2].error.retry_count           number   S2-33
agents[2].error.last_retry_at         stamp?   S2-34
agents[0].output_summary              text?    S2-35
agents[0].artifacts.files_created     list     S2-36
agents[1].artifacts.files_modified    list     S2-37
agents[1].artifacts.files_deleted     list     S2-38
completed_work                        list     S2-45
pending_tasks                         list     S2-46
decisions_made                        list     S2-47
decisions_made[0].timestamp           stamp    S2-48
decisions_made[0].context             text     S2-49
decisions_made[0].options             list     S2-50
decisions_made[0].chosen              text     S2-51
decisions_made[0].reasoning           text?    S2-52
files_modified                        list     S2-53
files_modified[0].path                text     S2-54
files_modified[0].action              text     S2-55
files_modified[0].agent_id            text     S2-56
files_modified[0].timestamp           stamp    S2-57
files_modified[0].lines_added         number?  S2-58
files_modified[0].lines_removed       number?  S2-59
files_modified[0].hash_before         text?    S2-60
files_modified[0].hash_after          text?    S2-61
context_usage                         object   S2-62
context_usage.estimated_tokens        number   S2-63
context_usage.compression_count       number   S2-64
context_usage.last_compression        stamp?   S2-65
context_usage.by_agent                object   S2-66
teleportation                         object   S2-67
teleportation.enabled                 boolean  S2-68
teleportation.last_sync               stamp?   S2-69
teleportation.sync_status             text?    S2-70
teleportation.sync_error              text?    S2-71
teleportation.devices                 list     S2-72
teleportation.storage_backend         text     S2-73
teleportation.encrypted               boolean  S2-74
teleportation.shared_with             list?    S2-75
metadata.git_branch                   text?    S2-77
metadata.git_commit                   text?    S2-78
metadata.craft_version                text     S2-79
metadata.tags                         list     S2-80
metadata.notes                        text?    S2-81
agents[0]                             object   S2-20
agents[0].artifacts.files_created[0]  text     S2-36
agents[1].artifacts.files_modified[0] text     S2-37
agents[1].artifacts.files_deleted[0]  text     S2-38
completed_work[0]                     text     S2-45
pending_tasks[0]                      text     S2-46
decisions_made[0].options[0]          text     S2-50
teleportation.devices[0]              text     S2-72
metadata.tags[0]                      text     S2-80
""")
# Keys of the root, and the requirement that each be there: other numbers than those of the fields.
NEEDED = """
schema_version S2-86 session_id S2-87 created_at S2-88 updated_at S2-88 device S2-89 project S2-89
goal S2-89 mode S2-90 status S2-90 progress S2-90 agents S2-91 completed_work S2-91
pending_tasks S2-91 files_modified S2-92 context_usage S2-92 teleportation S2-93
""".split()
WORDS = [
    ("mode", "debug default optimize release", "S2-17"),
    ("status", "in_progress paused completed error aborted", "S2-18"),
    ("agents[1].status", "pending running completed error timeout", "S2-23"),
    ("agents[2].result", "success failure timeout aborted", "S2-28"),
    ("agents[2].error.category", "transient resource configuration logical permanent", "S2-31"),
    ("files_modified[0].action", "created modified deleted", "S2-55"),
    ("teleportation.sync_status", "success pending error", "S2-70"),
    ("teleportation.storage_backend", "claude-desktop local s3", "S2-73"),
]
FAULTS: list[Fault] = [
    *((key, ..., "missing-key", req) for key, req in zip(NEEDED[::2], NEEDED[1::2], strict=True)),
    ("$schema", ..., "missing-key", "S2-6"),
    ("decisions_made", ..., "missing-key", "S2-47"),
    ("progress", 65, "out-of-range", "S2-19"),
    ("progress", True, "wrong-type", "S2-19"),
    ("goal", " ", "empty-text", "S2-16"),
    ("project", "queue", "relative-project", "S2-15"),
    ("session_id", "abc12345-def6-7890-ghij-klmnopqrstuv", "not-uuid", "S2-9"),
    ("session_id", ID.upper(), "not-uuid", "S2-9"),
    ("session_id", "abc123-def456", "bad-session-id", "S2-9"),
    ("schema_version", "2.0.0", "unknown-version", "S2-10"),
    ("schema_version", "1.1.0", "newer-version", "S2-10"),
    ("created_at", "2026-02-30T00:00:00.000Z", "bad-stamp", "S2-12"),
    ("created_at", "2026-02-01T09:00:00", "naive-stamp", "S2-12"),
    ("updated_at", "2026-02-01T09:30:00Z", "stamp-style", "S2-13"),
    ("updated_at", "2026-02-01T08:59:59.999Z", "time-runs-back", "S2-13"),
    ("$schema", "other", "other-schema", "S2-6"),
    ("extra", 1, "unknown-key", "S2-7"),
    ("agents[0].completed_at", "2026-02-01T08:00:00.000Z", "time-runs-back", "S2-25"),
    ("agents[1].result", "success", "running-has-end", "S2-83"),
    ("agents[0].result", "failure", "result-differs", "S2-28"),
    ("agents[0].duration_seconds", 140, "wrong-duration", "S2-44"),
    ("agents[1].id", "plan-1", "duplicate-agent", "S2-21"),
    ("agents[1].blocking_on", "nobody-1", "unknown-agent", "S2-21"),
    ("agents[1].progress", 1.5, "out-of-range", "S2-27"),
    ("agents[1].duration_seconds", 1.5, "wrong-type", "S2-26"),
    ("decisions_made[0]", "x", "bare-decision", "S2-47"),
    ("decisions_made[0].chosen", "paper", "chosen-not-offered", "S2-51"),
    ("files_modified[0]", "a.py", "bare-path", "S2-53"),
    ("files_modified[0].agent_id", "nobody-1", "unknown-agent", "S2-21"),
    ("files_modified[0].path", "/etc/passwd", "absolute-path", "S2-54"),
    ("files_modified[0].lines_added", -1, "out-of-range", "S2-58"),
    ("files_modified[0].hash_after", "ab" * 20, "not-sha256", "S2-61"),
    ("files_modified[0].action", "created", "hash-before-creation", "S2-60"),
    ("context_usage.by_agent.test-1", "5", "wrong-type", "S2-66"),
    ("context_usage.by_agent", {"plan-1": 800}, "tokens-differ", "S2-66"),
    ("teleportation.shared_with", ["age1qqq"], "not-an-address", "S2-75"),
    ("metadata.git_commit", "1a2b3c", "not-a-commit", "S2-78"),
    ("metadata.craft_version", "two", "not-a-version", "S2-79"),
]
OTHERS: list[Any] = [
    {"workflow_type": "w", "current_phase": 1, **DOCUMENT},
    {"session_id": "a", "goal": "b", "project": {"name": "c"}, "created": "", "updated": ""},
    {"sessions": []},
]

SAMPLE = Sample(
    FORMAT,
    {NAME: DOCUMENT},
    fields=FIELDS,
    optional=("metadata.",),
    full=lambda place: {NAME: DOCUMENT},
    faults=FAULTS,
    words=WORDS,
    statuses={
        "in_progress": "active",
        "paused": "paused",
        "completed": "completed",
        "error": "failed",
        "aborted": "aborted",
        "complete": "completed",
    },
    status=("status", "S2-18"),
    updated=("updated_at", "S2-13"),
    version=("schema_version", "S2-11"),
    versions={"1.0.0": True, "1.0.7": True, "1.1.0": False, "99.0.0": False},
    others=OTHERS,
)
