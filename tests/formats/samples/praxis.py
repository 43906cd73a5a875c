"""A consistent praxis session, and what the contract suite is to find in it."""

from __future__ import annotations

from typing import Any

from forestay.formats import timestamps
from forestay.formats.port import Tree, Where
from forestay.formats.praxis.format import FORMAT
from tests.formats.sample import Fault, Sample, rows

ID = "0b5d6c2e-51a7-4b0e-9c39-8a4f1c7d2e60"
NAME = f"{ID}.json"
HERE = Where(now=1_760_000_000_000)
NOON = 1_760_000_400_000
"""2025-10-09T09:00:00Z"""


def at(minutes: float = 0) -> str:
    return timestamps.write(NOON + round(minutes * 60_000))


def ms(minutes: float = 0) -> int:
    return NOON + round(minutes * 60_000)


LIFECYCLE: dict[str, Any] = {
    "completed": False,
    "completed_at": None,
    "paused": False,
    "paused_at": None,
    "paused_reason": None,
    "paused_context": None,
    "resumed_at": None,
    "resume_count": 0,
    "last_error": None,
    "last_error_at": None,
}


def session(**changes: Any) -> dict[str, Any]:
    """A consistent session in the redesigned form: two of three phases done, in the third."""
    doc: dict[str, Any] = {
        "session_id": ID,
        "workflow_type": "review_v1",
        "target_file": "docs/plan.md",
        "workflow_structure": {
            "total_phases": 3,
            "starting_phase": 0,
            "indexing_scheme": "zero_based",
            "workflow_version": "v2",
        },
        "current_phase": 2,
        "completed_phases": [0, 1],
        "phase_timing": {
            "0": {"started_at": at(), "completed_at": at(10), "duration_seconds": 600.0},
            "1": {"started_at": at(10), "completed_at": at(30), "duration_seconds": 1200.0},
            "2": {"started_at": at(30)},
        },
        "lifecycle": dict(LIFECYCLE),
        "phase_artifacts": {
            "0": {
                "phase_number": 0,
                "evidence": {"files": 3},
                "outputs": {"list": ["a"]},
                "commands_executed": [],
                "timestamp": at(10),
            },
        },
        "checkpoints": {"0": "passed", "1": "passed"},
        "created_at": at(),
        "updated_at": at(31),
        "metadata": {"spec_path": "specs/plan", "user_options": {"x": 1}, "agent_version": "1.0"},
    }
    return change(doc, changes)


def change(doc: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`part__key=value` changes a part; a value of `...` removes the key."""
    for name, value in changes.items():
        *path, key = name.split("__")
        part = doc
        for step in path:
            part = part[step]
        if value is ...:
            del part[key]
        else:
            part[key] = value
    return doc


FIELDS = rows("""
session_id                          text     S1-25
workflow_type                       text     S1-26
target_file                         text     S1-27
workflow_structure.total_phases     number?  S1-28
workflow_structure.starting_phase   number   S1-29
workflow_structure.indexing_scheme  text     S1-30
workflow_structure.workflow_version text     S1-31
workflow_structure                  object   S1-32
current_phase                       number   S1-33
completed_phases                    list     S1-34
phase_timing                        object   S1-35
phase_timing.0.started_at           stamp    S1-36
phase_timing.0.completed_at         stamp?   S1-37
phase_timing.0.duration_seconds     number?  S1-39
lifecycle.completed                 boolean  S1-40
lifecycle.completed_at              stamp?   S1-41
lifecycle.paused                    boolean  S1-42
lifecycle.paused_at                 stamp?   S1-43
lifecycle.paused_reason             text?    S1-44
lifecycle.paused_context            text?    S1-45
lifecycle.resumed_at                stamp?   S1-46
lifecycle.resume_count              number   S1-47
lifecycle.last_error_at             stamp?   S1-49
lifecycle.total_duration_seconds    number?  S1-51
phase_artifacts                     object   S1-52
phase_artifacts.0.phase_number      number   S1-53
phase_artifacts.0.evidence          object   S1-54
phase_artifacts.0.outputs           object   S1-55
phase_artifacts.0.commands_executed list     S1-56
phase_artifacts.0.timestamp         stamp    S1-57
checkpoints                         object   S1-58
created_at                          stamp    S1-60
updated_at                          stamp    S1-61
metadata.spec_path                  text?    S1-62
metadata.user_options               object   S1-63
metadata.agent_version              text?    S1-64
metadata                            object   S1-117
""")
PAUSED = {
    "paused": True,
    "paused_at": at(40),
    "paused_reason": "checkpoint_failed",
    "paused_context": "halfway through the table",
    "resumed_at": at(20),
    "resume_count": 2,
    "last_error": "disk full",
    "last_error_at": at(15),
}
COMPLETED = {"completed": True, "completed_at": at(60), "total_duration_seconds": 3600.0}
FAULTS: list[Fault] = [
    ("workflow_structure.total_phases", -1, "wrong-type", "S1-28"),
    ("current_phase", True, "wrong-type", "S1-33"),
    ("completed_phases", ["0"], "wrong-type", "S1-34"),
    ("lifecycle.resume_count", -1, "out-of-range", "S1-47"),
    ("created_at", "2025-13-01T00:00:00Z", "bad-stamp", "S1-60"),
    ("checkpoints.1", "maybe", "unknown-word", "S1-58"),
    ("completed_phases", [0, 1, 1], "duplicate-phase", ""),
    ("checkpoints.1", "failed", "completed-but-failed", ""),
    ("checkpoints.1", "pending", "completed-but-pending", ""),
    ("checkpoints.2", "passed", "passed-not-completed", ""),
    ("phase_timing.1.completed_at", ..., "completed-without-end", ""),
    ("phase_timing.1.completed_at", at(5), "time-runs-back", ""),
    ("phase_timing.1.duration_seconds", 3, "duration-mismatch", ""),
    ("phase_artifacts.0.phase_number", 1, "phase-mismatch", ""),
    ("checkpoints.x", "passed", "bad-phase-key", ""),
    ("workflow_structure.starting_phase", 1, "scheme-mismatch", ""),
    ("workflow_structure.indexing_scheme", "two_based", "unknown-word", ""),
    ("lifecycle.paused_reason", "lunch", "unknown-pause-reason", ""),
    ("lifecycle.completed", True, "flagged-early", ""),
    ("lifecycle.completed_at", at(), "completion-time", ""),
    ("lifecycle", {**LIFECYCLE, "completed": True, "paused": True}, "completed-and-paused", ""),
    ("updated_at", at(-1), "time-runs-back", ""),
    ("created_at", "2025-10-09T09:00:00", "naive-stamp", ""),
    ("completed_phases", [0, 1, 2], "complete-not-flagged", ""),
    ("completed_phases", [0, 1, 9], "overrun", ""),
    ("current_phase", 7, "current-out-of-range", ""),
]
OTHERS: list[Any] = [
    {},
    {"session_id": "x", "browser_type": "chromium", "status": "completed"},
    {"workflow_type": "x", "total_phases": 3, "phases": []},
    {"session_id": "x", "schema_version": "1.0", "agents": [], "checkpoints": []},
]


def full(place: str) -> Tree:
    is_end = "completed" in place or "total_duration" in place
    doc = session(lifecycle={**LIFECYCLE, **(COMPLETED if is_end else PAUSED)})
    doc["phase_artifacts"]["0"]["outputs"] = doc["metadata"]["user_options"] = {}
    return {NAME: doc}


SAMPLE = Sample(
    FORMAT,
    {NAME: session()},
    HERE,
    fields=FIELDS,
    optional=(
        *("metadata.", "lifecycle.total", "phase_timing.0.completed_at"),
        "phase_timing.0.duration",
    ),
    full=full,
    faults=FAULTS,
    updated=("updated_at", "S1-61"),
    others=OTHERS,
)
