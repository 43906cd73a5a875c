"""Results of the façade as JSON values, the same in every surface. Their fields are stable.

`api.status` has those made from the catalogue alone, `journal.history` those of events and states.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import asdict

from forestay.base.clock import iso
from forestay.plans.phases import Asked
from forestay.plans.prove import Standing
from forestay.plans.workflows import Listed as ListedWorkflow


def gate(asked: Asked) -> dict[str, Any]:
    """Return what a gate requires, the evidence for it, and the judgment."""
    return {
        "gate": {
            "phase": asked.phase,
            "name": asked.name,
            "passed": asked.done,
            "strict": asked.gate.strict,
            "override": asked.gate.override,
            "fields": [asdict(field) for field in asked.gate.fields],
            "rules": [{"check": r.check, "message": r.message} for r in asked.gate.rules],
            "not_checked": list(asked.gate.opaque),
        },
        "evidence": asked.evidence,
        "observed": asked.observed,
        "stale": asked.stale,
        "result": asked.judgment.as_values(),
    }


def observed(body: Any) -> dict[str, Any]:
    """Return the result of a command that was run as proof, from its event or its row."""
    names = ("argv", "exit", "duration_ms", "timed_out", "interrupted", "changed", "tail")
    return {
        "proof": body.proof,
        "phase": body.step,
        "passed": not (body.exit or body.timed_out or body.interrupted),
        **{name: getattr(body, name) for name in names},
        "inputs": list(body.globs),
        "files": body.files,
        "output": body.output,
    }


def proof(one: Standing) -> dict[str, Any]:
    """Return a proof, and whether it still holds."""
    why = [{"path": path, "what": word} for path, word in one.why]
    known = {"state": one.word, "stale": one.stale, "because": why, "at": iso(one.row.at)}
    return {**observed(one.row), **known}


def workflow(each: ListedWorkflow) -> dict[str, Any]:
    """Return a workflow as lists show it."""
    return {
        "name": each.name,
        "title": each.title,
        "version": each.version,
        "base": each.base,
        "phases": each.phases,
        "unit": each.unit,
        "source": each.source,
        "built_in": each.built_in,
        "error": each.error,
    }
