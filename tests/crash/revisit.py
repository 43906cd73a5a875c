"""Scenarios of a revisit under faults: after the next command it is complete, or has not happened.

The thesis of an essay was replaced by another one: the revisit archives the later stages and adds
an entry to the log of its session file. Undoing it is tested too.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import yaml

import forestay
from forestay.api.session import Session
from forestay.base.hashing import digest_of
from forestay.errors import Busy, ReadOnly, StoreFailed
from forestay.model.event import ArtifactSaved, StepAdded
from tests.crash.mirror import _open
from tests.crash.scenario import Ack, Scenario

SESSION = "s1"
_HOUR = 3_600_000
THESIS = "## Thesis Statement\n\n{}\n\n## Claim Type\n\n{}\n"
OLD, NEW = THESIS.format("Rules cost homes", "argument"), THESIS.format("What it is", "explainer")
FILES = {"stage-1-thesis.md": NEW, "stage-2-outline.md": "# Outline\n", "stage-4-draft.md": "x\n"}
VERSIONS = {
    "stage-1-thesis.md": NEW,
    "stage-1-thesis.v1.md": OLD,
    "stage-2-outline.v1.md": "# Outline\n",
    "stage-4-draft.v1.md": "x\n",
}
BEFORE = ({"stage-1": "done", "stage-2": "done", "stage-4": "running"}, FILES, 0)
AFTER = ({"stage-1": "running", "stage-2": "pending", "stage-4": "pending"}, VERSIONS, 1)

State = tuple[dict[str, str], dict[str, str], int]


def _prepare(home: str, *, applied: bool = False) -> None:
    with _open(home) as opened:
        session = opened.start("An essay", id=SESSION)
        folder = Path(session.files.bind("essay").root)
        session._recorder.record(
            *(StepAdded(step=f"stage-{n}", title=f"{n}", unit="stage") for n in (1, 2, 4))
        )
        session.tasks.done("stage-1")
        session.tasks.done("stage-2")
        session.tasks.start("stage-4")
        saved = ArtifactSaved(
            path="stage-1-thesis.md", digest=digest_of(OLD.encode()), size=len(OLD)
        )
        session._recorder.record(saved, blobs=[(saved.digest, OLD.encode())])
        for name, text in FILES.items():
            (folder / name).write_text(text)
        if applied:
            session.revisit.apply("stage-1")


def _apply(home: str, ack: Ack) -> None:
    with _open(home, later=_HOUR) as opened:
        opened.session(SESSION).revisit.apply("stage-1", because="another direction")
        ack("after")


def _undo(home: str, ack: Ack) -> None:
    with _open(home, later=_HOUR) as opened:
        opened.session(SESSION).revisit.undo()
        ack("after")


def _check(before: State, after: State, home: str, acked: Sequence[str]) -> list[str]:
    with _open(home, later=2 * _HOUR) as opened:
        session = opened.session(SESSION)
        session.note("the next command")
        outcome = _read_outcome(opened, session)
        problems = [] if outcome in (before, after) else [f"in between: {outcome}"]
        if acked and outcome != after:
            problems.append(f"acknowledged, but not done: {outcome}")
        if left := opened.context.store.machine.file_work.pending(SESSION):
            problems.append(f"left to do: {left}")
        if not (report := session.verify()).ok:
            problems.append(f"does not verify: {report.findings}")
        folder = Path(session.files.list()[0].root)
    found = [path.name for path in folder.glob(".*") if path.name.endswith(("-tmp", "-swap"))]
    return [*problems, *(f"left behind: {name}" for name in found)]


def _read_outcome(opened: forestay.Forestay, session: Session) -> State:
    folder = Path(session.files.list()[0].root)
    steps: dict[str, str] = {step.id: step.status for step in session.tasks.list()}
    texts = {path.name: path.read_text() for path in folder.glob("*.md")}
    doc = yaml.safe_load((folder / "session-state.yaml").read_text())
    word = {"done": "completed", "running": "in_progress", "pending": "not_started"}
    for id, status in steps.items():
        assert doc["stages"][id.replace("-", "_")]["status"] == word[status], (id, doc)
    return steps, texts, len(doc["revision_history"])


_REFUSALS = (StoreFailed, Busy, ReadOnly)

APPLIED = Scenario(
    prepare=_prepare, run=_apply, check=partial(_check, BEFORE, AFTER), refusals=_REFUSALS
)
UNDONE = Scenario(
    prepare=partial(_prepare, applied=True),
    run=_undo,
    check=partial(_check, AFTER, BEFORE),
    refusals=_REFUSALS,
)
