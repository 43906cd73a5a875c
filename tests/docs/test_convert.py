"""docs/convert.md lists which fields each format has. To update its tables:

python -m tests.docs.test_convert

A *probe* is a fact in one or more *shapes* (a step may be a task, a phase or a stage). A format
stores it *natively* if reading its fields returns the fact; it is converted natively from one
format into another if it survives both, one after the other.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from forestay.formats import carry_over
from forestay.formats.facts import (
    AgentFact,
    CheckpointFact,
    ClaimFact,
    CommandFact,
    DecisionFact,
    ErrorFact,
    Facts,
    FileFact,
    NoteFact,
    RevisitFact,
    StepFact,
)
from forestay.formats.port import REGISTRY, Where, load_format

PAGE = Path(__file__).parents[2] / "docs" / "convert.md"
NOW = 1_769_853_600_000
HERE = Where(now=NOW + 9_000_000, project_path="/elsewhere", device="here")
T = [NOW + 60_000 * n for n in range(10)]
SUM = "d" * 64

BASE = Facts(goal="Add the login page", began_at=T[0], updated_at=T[5])
SESSION: dict[str, list[dict[str, Any]]] = {
    "goal": [{"goal": "Another goal"}],
    "status": [{"status": "paused", "paused_at": T[4], "pause_reason": "user_request"}],
    "mode": [{"mode": "debug"}],
    "model": [{"model": "opus"}],
    "progress": [{"progress": 0.42}],
    "began_at": [{"began_at": T[1]}],
    "updated_at": [{"updated_at": T[6]}],
    "ended_at": [{"status": "completed", "ended_at": T[5]}],
    "paused_at": [{"status": "paused", "paused_at": T[4]}],
    "pause_reason": [{"status": "paused", "paused_at": T[4], "pause_reason": "checkpoint_failed"}],
    "pause_context": [{"status": "paused", "paused_at": T[4], "pause_context": "lunch"}],
    "resumes": [{"resumes": 3, "resumed_at": T[3]}],
    "resumed_at": [{"resumes": 3, "resumed_at": T[3]}],
    "because": [{"status": "failed", "because": "no disk"}],
    "device": [{"device": "desk"}],
    "project": [{"project": "app", "project_path": "/home/me/app"}],
    "project_path": [{"project_path": "/home/me/app"}],
    "git_branch": [{"git_branch": "main"}],
    "git_commit": [{"git_commit": "a" * 40}],
    "workflow": [{"workflow": "spec", "target": "a.md", "plan_total": 3, "plan_base": 0}],
    "workflow_version": [{"workflow": "spec", "workflow_version": "v2", "plan_total": 3}],
    "target": [{"workflow": "spec", "target": "a.md", "plan_total": 3, "plan_base": 0}],
    "plan_total": [{"workflow": "spec", "plan_total": 3, "plan_base": 0}],
    "plan_base": [{"workflow": "spec", "plan_total": 3, "plan_base": 1}],
    "position": [
        {"position": "T1", "steps": [StepFact("Write it", id="T1", status="running")]},
        {"position": "phase-1", "plan_total": 3, "plan_base": 0},
        {"position": "stage-2"},
    ],
    "tokens": [{"tokens": 25_000}],
    "compressions": [{"compressions": 2, "compressed_at": T[3]}],
    "compressed_at": [{"compressions": 1, "compressed_at": T[3]}],
    "tokens_by_agent": [
        {
            "tokens": 3200,
            "tokens_by_agent": {"code-1": 3200},
            "agents": [AgentFact("code-1", started_at=T[1], tokens=3200)],
        }
    ],
}
SHAPES: list[tuple[StepFact, ...]] = [
    (StepFact("Core", id="P1", unit="phase"), StepFact("Write it", id="T1", parent="P1")),
    (StepFact("Write it"),),
    (StepFact("Phase 0", id="phase-0", unit="phase"),),
    (StepFact("Thesis development", id="stage-1", unit="stage"),),
]
PARTS: dict[str, tuple[type[Struct], dict[str, dict[str, Any]]]] = {
    "steps": (
        StepFact,
        {
            "title": {"title": "Another title"},
            "status": {"status": "done", "started_at": T[1], "ended_at": T[2]},
            "agent": {"agent": "code-1"},
            "outcome": {"status": "done", "outcome": "two pages"},
            "because": {"status": "blocked", "because": "no network"},
            "files": {"status": "done", "files": ["a.py"]},
            "started_at": {"status": "running", "started_at": T[1]},
            "ended_at": {"status": "done", "started_at": T[1], "ended_at": T[2]},
            "fraction": {"status": "running", "started_at": T[1], "fraction": 0.5},
            "paused_ms": {
                "status": "done",
                "started_at": T[1],
                "ended_at": T[2],
                "paused_ms": 5_000,
            },
        },
    ),
    "agents": (
        AgentFact,
        {
            "id": {},
            "type": {"type": "feature-dev"},
            "task": {"task": "Write it"},
            "status": {"status": "done", "ended_at": T[2], "result": "ok"},
            "started_at": {},
            "ended_at": {"status": "done", "ended_at": T[2], "result": "ok"},
            "fraction": {"fraction": 0.6},
            "result": {"status": "done", "ended_at": T[2], "result": "ok"},
            "error": {"status": "failed", "ended_at": T[2], "error": "no", "category": "permanent"},
            "category": {
                "status": "failed",
                "ended_at": T[2],
                "error": "no",
                "category": "permanent",
            },
            "retries": {"retries": 2, "error": "no", "status": "failed", "ended_at": T[2]},
            "retried_at": {
                "retries": 2,
                "retried_at": T[2],
                "error": "no",
                "status": "failed",
                "ended_at": T[3],
            },
            "blocking_on": {"status": "blocked", "blocking_on": "code-0"},
            "tokens": {"tokens": 3200},
            "created": {"created": ["a.py"]},
            "modified": {"modified": ["a.py"]},
            "deleted": {"deleted": ["a.py"]},
        },
    ),
    "decisions": (
        DecisionFact,
        {
            "what": {},
            "because": {"because": "simple"},
            "options": {"options": ["JWT", "cookies"], "chosen": "JWT"},
            "chosen": {"options": ["JWT", "cookies"], "chosen": "JWT"},
            "at": {},
        },
    ),
    "files": (
        FileFact,
        {
            "path": {},
            "action": {"action": "created"},
            "agent": {"agent": "code-1"},
            "at": {},
            "added": {"added": 3, "removed": 1},
            "removed": {"added": 3, "removed": 1},
            "before": {"before": SUM},
            "after": {"after": SUM},
        },
    ),
    "commands": (
        CommandFact,
        {
            "name": {},
            "arguments": {"arguments": "-v"},
            "status": {"status": "failure", "error": "no"},
            "duration_ms": {"duration_ms": 12},
            "error": {"status": "failure", "error": "no"},
            "agent": {"agent": "code-1"},
            "task": {"task": "T1"},
            "model": {"model": "opus"},
            "at": {},
        },
    ),
    "errors": (
        ErrorFact,
        {
            "message": {},
            "category": {"category": "permanent"},
            "agent": {"agent": "code-1"},
            "at": {},
        },
    ),
    "checkpoints": (
        CheckpointFact,
        {
            "step": {},
            "verdict": {},
            "evidence": {"evidence": {"tests": 3}},
            "issue": {"verdict": "failed", "issue": "2 tests failed"},
            "at": {},
        },
    ),
    "claims": (
        ClaimFact,
        {
            "text": {},
            "reason": {"reason": "timeout"},
            "section": {"section": 1},
            "paragraph": {"section": 1, "paragraph": 2},
            "resolved": {"reason": "timeout", "resolved": True},
            "result": {"result": "disputed", "because": "he said so", "resolved": True},
            "because": {"result": "disputed", "because": "he said so", "resolved": True},
            "at": {},
        },
    ),
    "revisits": (
        RevisitFact,
        {
            "step": {},
            "because": {"because": "another thesis"},
            "impact": {"impact": "major"},
            "archived": {"archived": ["stage-2-outline.v1.md"]},
            "at": {},
        },
    ),
    "notes": (NoteFact, {"text": {}, "at": {}}),
}
LEAST: dict[str, dict[str, Any]] = {
    "agents": {"id": "code-1", "started_at": T[1]},
    "decisions": {"what": "How to sign in", "at": T[2]},
    "files": {"path": "a.py", "at": T[2]},
    "commands": {"name": "test", "at": T[2]},
    "errors": {"message": "no network", "at": T[2]},
    "checkpoints": {"step": "phase-0", "verdict": "passed", "at": T[2]},
    "claims": {"text": "The sky is blue", "at": T[2]},
    "revisits": {"step": "stage-1", "at": T[2]},
    "notes": {"text": "remember", "at": T[2]},
}
SURROUNDED: dict[str, dict[str, Any]] = {
    "checkpoints": {
        "workflow": "spec",
        "plan_total": 3,
        "plan_base": 0,
        "steps": [StepFact("Phase 0", id="phase-0", unit="phase", status="done")],
    }
}


# -- probing -----------------------------------------------------------------------------------


def probes() -> dict[str, list[Facts]]:
    """Return every fact by name, in all its shapes."""
    found = {name: [replace(BASE, **each) for each in shapes] for name, shapes in SESSION.items()}
    for part, (kind, fields) in PARTS.items():
        for field, more in fields.items():
            found[f"{part}.{field}"] = _shapes(part, kind, more)
    return found


def _shapes(part: str, kind: type[Struct], more: dict[str, Any]) -> list[Facts]:
    if part == "steps":
        return [replace(BASE, steps=[*s[:-1], replace(s[-1], **more)]) for s in SHAPES]
    around = SURROUNDED.get(part, {})
    return [replace(BASE, **around, **{part: [kind(**{**LEAST[part], **more})]})]


def probe_value(name: str, facts: Facts) -> Any:
    """Return the value of a probe in some facts."""
    part, _, field = name.partition(".")
    value = getattr(facts, part)
    if not field:
        return value
    want = [step for step in value if getattr(step, "title", "") != "Core"]
    return getattr(want[0], field) if want else None


def survives(name: str, *formats: str) -> bool:
    """Return whether a probe, in any shape, survives the formats in their native fields alone."""
    for facts in probes()[name]:
        seen, is_equal = facts, True
        for id in formats:
            seen = convert_through(id, seen)
            is_equal = is_equal and probe_value(name, seen) == probe_value(name, facts)
        if is_equal:
            return True
    return False


def convert_through(id: str, facts: Facts) -> Facts:
    format = load_format(id)
    return format.get(format.put(None, _with_native_id(id, facts), HERE), HERE)


def _with_native_id(id: str, facts: Facts) -> Facts:
    return replace(facts, native_id=load_format(id).new_id(facts, HERE, frozenset()))


# -- the page ----------------------------------------------------------------------------------


def formats_table() -> str:
    head = ["fact", *REGISTRY]
    lines = [_row(head), _row(["---"] * len(head))]
    for name in probes():
        lines.append(_row([f"`{name}`", *("●" if survives(name, id) else "" for id in REGISTRY)]))
    return "\n".join(lines)


def pairs_table() -> str:
    lines = [_row(["from", "to", "goes natively"]), _row(["---"] * 3)]
    for a in REGISTRY:
        for b in REGISTRY:
            if a != b:
                lines.append(_row([a, b, _join_names([n for n in probes() if survives(n, a, b)])]))
    return "\n".join(lines)


def _join_names(names: list[str]) -> str:
    parts: dict[str, list[str]] = {}
    for name in names:
        part, _, field = name.partition(".")
        parts.setdefault(part, []).extend([field] if field else [])
    return ", ".join(f"{p} ({', '.join(fields)})" if fields else p for p, fields in parts.items())


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


GENERATED = {"formats": formats_table, "pairs": pairs_table}


def update_page(page: str) -> str:
    for name, make in GENERATED.items():
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
        head, rest = page.split(begin)
        page = head + begin + make() + "\n" + end + rest.split(end)[1]
    return page


def test_the_convert_page_agrees_with_the_formats() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == update_page(page)


@pytest.mark.parametrize("id", REGISTRY)
def test_facts_without_a_field_are_stored_separately_and_restored(id: str) -> None:
    for name, shapes in probes().items():
        for facts in shapes:
            tree = carry_over.write(
                load_format(id), None, _with_native_id(id, facts), HERE, full=True
            )
            assert probe_value(name, carry_over.read(load_format(id), tree, HERE)) == probe_value(
                name, facts
            ), name


def test_every_field_of_the_facts_is_probed() -> None:
    # Ids and attributes belong to a format; artifacts are listed by the folder, and updates are
    # not read from files.
    left_out = {"native_id", "attributes", "artifacts", "updates"}
    known = {name.partition(".")[0] for name in probes()}
    assert known | left_out == set(Facts.__struct_fields__) and not known & left_out
    for part, (kind, _) in PARTS.items():
        fields = {name.partition(".")[2] for name in probes() if name.startswith(f"{part}.")}
        assert set(kind.__struct_fields__) - fields <= {"id", "unit", "parent"}, part


if __name__ == "__main__":
    PAGE.write_text(update_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
