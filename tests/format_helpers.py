"""Write a project with a session in each of the five formats, for tests that read such files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from forestay.formats.facts import AgentFact, CommandFact, DecisionFact, Facts, StepFact
from forestay.formats.port import REGISTRY, Where, load_format
from forestay.formats.text.document import fresh

NOW = 1_771_079_422_000
IDS = {
    "ai-session": "add-login-2026-02-14",
    "praxis": "9f356145-6e76-4dfe-a9b7-b301068d5dee",
    "craft": "7e57d004-2b97-4e7a-b45f-5387367791cd",
    "essay": "essay-7e57d004-2b97-4e7a-b45f-5387367791cd",
    "orchestrator": "2026-02-14-abc123",
}
ESSAY_FOLDER = "essay-pipeline-20260214-143022"
STATE = f".ai-session/{IDS['ai-session']}/state.yaml"
LOG = f".ai-session/{IDS['ai-session']}/history.jsonl"
INDEX = ".ai-session/active-features.yaml"
PRAXIS = f".praxis-os/.cache/state/{IDS['praxis']}.json"
CRAFT = f".craft/cache/orchestration-sessions/{IDS['craft']}.json"
ESSAY = f"{ESSAY_FOLDER}/session-state.yaml"
ORCHESTRATOR = ".claude/orchestrator-session.json"
MAIN = {
    "ai-session": STATE,
    "praxis": PRAXIS,
    "craft": CRAFT,
    "essay": ESSAY,
    "orchestrator": ORCHESTRATOR,
}


def facts(kind: str) -> Facts:
    return Facts(
        native_id=IDS[kind],
        goal="Add login",
        status="active",
        began_at=NOW,
        updated_at=NOW + 60_000,
        steps=_steps(kind),
        agents=[AgentFact("code-1", "feature-dev", "Implement", "running", NOW, fraction=0.5)],
        decisions=[DecisionFact("Use JWT", "simple", ["JWT", "cookies"], "JWT", NOW)],
        commands=[CommandFact("plan", "", "success", 1200, model="opus", at=NOW)],
    )


def _steps(kind: str) -> list[StepFact]:
    if kind in ("praxis", "essay"):
        return []
    phase = [StepFact("Build", "P1", "phase")] if kind == "ai-session" else []
    parent = "P1" if phase else ""
    return [
        *phase,
        StepFact("Write tests", "T1", parent=parent, status="done", outcome="ok"),
        StepFact("Write docs", "T2", parent=parent),
    ]


def bundle(kind: str) -> dict[str, bytes]:
    """Return the files of one session, as Forestay would write them."""
    tree = load_format(kind).put(None, facts(kind), Where(now=NOW, project_path="/p", naive="utc"))
    return {name: fresh(name.rsplit(".", 1)[-1], v) for name, v in tree.items() if v is not None}


def root_of(kind: str) -> str:
    return REGISTRY[kind][1] or ESSAY_FOLDER


def fill(project: Path, kinds: Iterable[str] = tuple(REGISTRY)) -> None:
    """Write the files of a session of each kind into a project."""
    for kind in kinds:
        for name, data in bundle(kind).items():
            path = project / root_of(kind) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def snapshot(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder with its bytes; for a link, the word link."""
    return dict(_entries(folder))


def _entries(folder: Path) -> Iterator[tuple[str, bytes]]:
    for here, below, names in os.walk(folder):
        for name in [*below, *names]:
            path = Path(here, name)
            if path.is_symlink():
                yield str(path), b"link"
            elif path.is_file():
                yield str(path), path.read_bytes()
