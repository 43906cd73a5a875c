"""Revisits with files: versions, statuses and the log change together or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import forestay
from forestay.api.forestay import Forestay
from forestay.api.session import Session
from forestay.base.clock import FakeClock
from forestay.errors import InvalidInput, Refused
from forestay.formats.essay.stage_files import assess_change
from forestay.journal.journal import AppendOptions
from forestay.model.event import AttributeSet, CheckpointPassed, StepAdded
from forestay.model.gates.revisit_impact import likeness
from tests import homes

THESIS = (
    "# Thesis\n\n## Thesis Statement\n\n{}\n\n## Claim Type\n\n{}\n\n## Approved By User\n\nyes\n"
)
OUTLINE = "# Outline\n\n" + "".join(
    f"### Section {n}: Part {n} (~300 words)\n\nWhat part {n} says.\n\n" for n in (1, 2, 3)
)
ARGUED = "**Verified**: YES\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def stay(tmp_path: Path, project: Path) -> Iterator[Forestay]:
    with forestay.open(str(tmp_path / "home"), cwd=str(project), clock=FakeClock()) as home:
        yield home


@pytest.fixture
def plain(stay: Forestay, project: Path) -> Session:
    """Return a session with three done tasks, each with a file; the first file is stored."""
    session = stay.start("write it down")
    for number in (1, 2, 3):
        (project / f"{number}.md").write_text(f"what task {number} made\n")
        session.tasks.add(f"Task {number}", id=f"t{number}")
        session.tasks.done(f"t{number}", files=[str(project / f"{number}.md")])
    session.record.artifact(str(project / "1.md"))
    return session


@pytest.fixture
def essay(stay: Forestay) -> tuple[Session, Path]:
    """Return an essay in stage 4 with its first section drafted, and its folder."""
    session = stay.start("an essay")
    folder = Path(session.files.bind("essay").root)
    write = {
        "stage-1-thesis.md": THESIS.format("Parking rules cost homes", "argument"),
        "stage-2-outline.md": OUTLINE,
        **{f"stage-3-section-{n}-arguments.md": f"for part {n}\n{ARGUED}" for n in (1, 2, 3)},
        "stage-4-draft.md": "## Part 1\n\nA paragraph.\n",
    }
    for name, text in write.items():
        (folder / name).write_text(text)
    session._recorder.record(
        *[StepAdded(step=f"stage-{n}", title=f"Stage {n}", unit="stage") for n in (1, 2, 3, 4)]
    )
    for stage in (1, 2):
        session.tasks.done(f"stage-{stage}")
    for stage in (3, 4):
        sections = [
            StepAdded(step=f"stage-{stage}/section-{n}", title=f"{n}", parent=f"stage-{stage}")
            for n in (1, 2, 3)
        ]
        stay.context.journal.append(
            session.id, *sections, actor="file:essay", options=AppendOptions(foreign=True)
        )
    for n in (1, 2, 3):
        session.tasks.done(f"stage-3/section-{n}")
    session.tasks.done("stage-3")
    session.tasks.start("stage-4")
    session.tasks.done("stage-4/section-1")
    session._recorder.record(
        AttributeSet(key="essay.stage_1.thesis_file", value="stage-1-thesis.md"),
        AttributeSet(key="essay.stage_2.outline_file", value="stage-2-outline.md"),
        AttributeSet(key="essay.stage_2.total_sections", value=3),
    )
    _keep(session, folder, "stage-1-thesis.md", "stage-2-outline.md")
    return session, folder


def _keep(session: Session, folder: Path, *names: str) -> None:
    from forestay.base.hashing import digest_of
    from forestay.model.event import ArtifactSaved

    for name in names:
        data = (folder / name).read_bytes()
        body = ArtifactSaved(path=name, digest=digest_of(data), size=len(data))
        session._recorder.record(body, blobs=[(body.digest, data)])


def statuses(session: Session) -> dict[str, str]:
    return {step.id: step.status for step in session.tasks.list()}


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.suffix == ".md"}


def state_of(folder: Path) -> Any:
    return yaml.safe_load((folder / "session-state.yaml").read_text())


def kinds(session: Session) -> list[str]:
    return [line.event.kind for line in session.log()]


# -- any workflow ------------------------------------------------------------------------------


@pytest.mark.req("S3-147")
def test_a_preview_changes_nothing(plain: Session, project: Path) -> None:
    (project / "1.md").write_text("something else altogether, all of it\n")
    before = (kinds(plain), names(project), statuses(plain))
    found = plain.revisit.preview("t1").assessment
    assert found.impact == "major" and found.reset == ["t2", "t3"]
    assert "-what task 1 made" in found.diff
    assert (kinds(plain), names(project), statuses(plain)) == before


def test_a_major_revisit_archives_later_work_and_restarts_it(plain: Session, project: Path) -> None:
    (project / "1.md").write_text("something else altogether, all of it\n")
    _, event = plain.revisit.apply("t1", because="it was wrong")
    assert (getattr(event.body, "impact", ""), getattr(event.body, "because", "")) == (
        "major",
        "it was wrong",
    )
    assert statuses(plain) == {"t1": "running", "t2": "pending", "t3": "pending"}
    assert names(project) == {"1.md", "1.v1.md", "2.v1.md", "3.v1.md"}
    assert (project / "1.v1.md").read_text() == "what task 1 made\n"
    assert (project / "2.v1.md").read_text() == "what task 2 made\n"
    assert plain.verify().ok and not plain.context.store.machine.file_work.pending(plain.id)


@pytest.mark.req("S3-129")
def test_each_revisit_stores_the_old_output_as_the_next_version(
    plain: Session, project: Path
) -> None:
    for number, text in enumerate(("second", "third"), 1):
        (project / "1.md").write_text(f"what task 1 made, {text} time\n")
        plain.revisit.apply("t1", impact="minor")
        plain.tasks.done("t1", files=[str(project / "1.md")])
        assert (project / f"1.v{number}.md").exists()
    assert (project / "1.v1.md").read_text() == "what task 1 made\n"
    assert (project / "1.v2.md").read_text() == "what task 1 made, second time\n"


def test_minor_revisit_only_flags_later_tasks(plain: Session, project: Path) -> None:
    plain.revisit.apply("t1", impact="minor")
    assert statuses(plain) == {"t1": "running", "t2": "needs_review", "t3": "needs_review"}
    assert names(project) == {"1.md", "2.md", "3.md"}


def test_revisit_reopens_a_completed_session(plain: Session) -> None:
    plain.complete()
    plain.revisit.apply("t1", because="a test was missing")
    assert plain.status().status == "active" and "session.reopened" in kinds(plain)


@pytest.mark.req("S3-144")
@pytest.mark.parametrize(
    ("impact", "later"),
    [("minor", "passed"), ("moderate", "rolled_back"), ("major", "rolled_back")],
)
def test_affected_checkpoints_must_be_passed_again(plain: Session, impact: str, later: str) -> None:
    plain._recorder.record(CheckpointPassed(step="t1"), CheckpointPassed(step="t2"))
    plain.revisit.apply("t1", impact=impact)  # type: ignore[arg-type]
    found = homes.state_of(plain).rows.select("checkpoint")
    rows = {row.name: getattr(row, "verdict", "") for row in found}
    assert rows == {"t1": "rolled_back", "t2": later}


def test_existing_file_with_the_name_of_a_version_is_not_overwritten(
    plain: Session, project: Path
) -> None:
    (project / "2.v1.md").write_text("mine\n")
    plain.revisit.apply("t1", impact="major")
    assert (project / "2.v1.md").read_text() == "mine\n"
    assert (project / "2.v2.md").read_text() == "what task 2 made\n"


@pytest.mark.parametrize("step", ["t9", "9", "../x"])
def test_revisit_of_a_missing_step_is_refused(plain: Session, step: str) -> None:
    with pytest.raises(Refused, match="no step"):
        plain.revisit.preview(step)


def test_a_wrong_impact_is_refused(plain: Session) -> None:
    with pytest.raises(InvalidInput, match="the impact cannot be huge"):
        plain.revisit.preview("t1", impact="huge")  # type: ignore[arg-type]


def test_revisit_of_a_paused_session_is_refused(plain: Session, project: Path) -> None:
    plain.pause()
    with pytest.raises(Refused):
        plain.revisit.apply("t1", impact="major")
    assert names(project) == {
        "1.md",
        "2.md",
        "3.md",
    } and not plain.context.store.machine.file_work.pending(plain.id)


def test_missing_file_does_not_stop_a_revisit(plain: Session, project: Path) -> None:
    (project / "2.md").unlink()
    plain.revisit.apply("t1", impact="major")
    assert names(project) == {"1.md", "3.v1.md"}


def test_revisit_repeated_with_the_same_key_is_done_once(plain: Session, project: Path) -> None:
    plain.revisit.apply("t1", impact="major", key="k")
    seq = plain.status().seq
    plain.revisit.apply("t1", impact="major", key="k")
    assert plain.status().seq == seq


# -- undo --------------------------------------------------------------------------------------


def test_undo_restores_steps_and_files(plain: Session, project: Path) -> None:
    (project / "1.md").write_text("something else altogether, all of it\n")
    before = statuses(plain)
    plain.revisit.apply("t1", because="a mistake")
    plain.revisit.undo()
    assert statuses(plain) == before and names(project) == {"1.md", "2.md", "3.md"}
    assert (project / "1.md").read_text().startswith("something else"), "own work stays"
    assert (project / "2.md").read_text() == "what task 2 made\n" and plain.verify().ok
    with pytest.raises(Refused, match="there is no revisit to undo"):
        plain.revisit.undo()


def test_undo_of_a_reopened_session_completes_it_again(plain: Session) -> None:
    plain.complete()
    plain.revisit.apply("t1", because="a mistake")
    plain.revisit.undo()
    assert plain.status().status == "completed"


def test_undo_does_not_overwrite_new_work(plain: Session, project: Path) -> None:
    plain.revisit.apply("t1", impact="major")
    (project / "2.md").write_text("new work\n")
    plain.revisit.undo()
    assert (project / "2.md").read_text() == "new work\n"
    assert (project / "2.v1.md").read_text() == "what task 2 made\n"


def test_undo_with_the_same_key_is_done_once(plain: Session) -> None:
    plain.revisit.apply("t1", impact="minor", key="there")
    back = plain.revisit.undo(key="back")
    assert plain.revisit.undo(key="back").id == back.id and plain.repeated
    with pytest.raises(Refused, match="already used for another call"):
        plain.revisit.undo(key="there")


def test_undo_is_refused_after_work_continued(plain: Session) -> None:
    plain.revisit.apply("t1", impact="minor")
    plain.tasks.done("t1")
    with pytest.raises(Refused, match="work continued"):
        plain.revisit.undo()


# -- pending file work -------------------------------------------------------------------------


def test_file_work_left_by_a_dead_process_is_done_by_the_next_writer(
    plain: Session, tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forestay.plans.pending_file_ops.finish", lambda context, session: None)
    plain.revisit.apply("t1", impact="major")
    monkeypatch.undo()
    assert names(project) == {"1.md", "2.md", "3.md"}
    with forestay.open(str(tmp_path / "home"), cwd=str(project)) as other:
        session = other.session(plain.id)
        assert session.revisit.preview("t1").pending == [
            "move 2.md → 2.v1.md",
            "move 3.md → 3.v1.md",
        ]
        assert names(project) == {"1.md", "2.md", "3.md"}, "reading changes nothing"
        session.note("anything")
        assert names(project) == {"1.md", "2.v1.md", "3.v1.md"}
        assert session.revisit.preview("t1").pending == []


def test_late_file_work_does_not_overwrite_new_work(
    plain: Session, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from forestay.plans.pending_file_ops import finish

    monkeypatch.setattr("forestay.plans.pending_file_ops.finish", lambda context, session: None)
    plain.revisit.apply("t1", impact="major")
    (project / "2.md").write_text("written in between\n")
    finish(plain.context, plain.id)
    finish(plain.context, plain.id)
    assert (project / "2.md").read_text() == "written in between\n"
    assert (project / "2.v1.md").read_text() == "what task 2 made\n"


def test_file_work_that_fails_is_reported_and_retried(
    plain: Session, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from forestay.base import files
    from forestay.errors import StoreFailed
    from forestay.plans import pending_file_ops

    notices: list[str] = []
    monkeypatch.setattr(plain.context, "on_notice", notices.append)

    def full(path: str, target: str) -> None:
        raise StoreFailed("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(files, "move", full)
        plain.revisit.apply("t1", impact="major")
    assert any("still to do: move 2.md" in line for line in notices)
    pending_file_ops.finish(plain.context, plain.id)
    assert names(project) == {"1.md", "2.v1.md", "3.v1.md"}


def test_forgetting_a_session_removes_its_pending_file_work(
    plain: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forestay.plans.pending_file_ops.finish", lambda context, session: None)
    plain.revisit.apply("t1", impact="major")
    plain.lifecycle.forget()
    assert plain.context.store.database.read("SELECT * FROM chore") == []  # type: ignore[attr-defined]


# -- essays ------------------------------------------------------------------------------------


@pytest.mark.req("S3-139", "S3-140", "S3-145", "S3-146")
def test_another_claim_type_restarts_an_essay(essay: tuple[Session, Path]) -> None:
    session, folder = essay
    (folder / "stage-1-thesis.md").write_text(
        THESIS.format("How parking rules cost homes", "explainer")
    )
    found = session.revisit.preview("1")
    assert (
        found.assessment.impact == "major" and "argument → explainer" in found.assessment.reasons[0]
    )
    session.revisit.apply("1", because="the user wants to explain")
    assert names(folder) == {
        "stage-1-thesis.md",
        "stage-1-thesis.v1.md",
        "stage-2-outline.v1.md",
        *(f"stage-3-section-{n}-arguments.v1.md" for n in (1, 2, 3)),
        "stage-4-draft.v1.md",
    }
    doc = state_of(folder)
    assert [doc["stages"][f"stage_{n}"]["status"] for n in (1, 2, 3, 4)] == [
        "in_progress",
        *["not_started"] * 3,
    ]
    assert doc["stages"]["stage_2"]["outline_file"] is None
    (entry,) = doc["revision_history"]
    assert (entry["stage_revisited"], entry["impact"]) == (1, "major")
    assert entry["reason"] == "the user wants to explain"
    assert set(entry["downstream_archived"]) == names(folder) - {
        "stage-1-thesis.md",
        "stage-1-thesis.v1.md",
    }
    assert isinstance(entry["timestamp"], str) and entry["timestamp"].endswith("Z")
    assert doc["current_stage"] == 1


@pytest.mark.req("S3-137", "S3-138", "S3-144")
def test_one_changed_section_of_the_outline_affects_only_that_section(
    essay: tuple[Session, Path],
) -> None:
    session, folder = essay
    text = OUTLINE.replace("Part 2", "Another matter").replace("What part 2 says.", "Quite new.")
    (folder / "stage-2-outline.md").write_text(text)
    session.revisit.apply("2", because="section 2 was thin")
    now = statuses(session)
    assert now["stage-2"] == "running" and now["stage-3/section-2"] == "needs_review"
    assert now["stage-3"] == "needs_review" and now["stage-3/section-1"] == "done"
    assert "stage-3-section-2-arguments.v1.md" in names(folder)
    assert {"stage-3-section-1-arguments.md", "stage-4-draft.md"} <= names(folder)
    (entry,) = state_of(folder)["revision_history"]
    assert entry["downstream_archived"] == ["stage-3-section-2-arguments.v1.md"]


@pytest.mark.req("S3-136", "S3-143")
def test_a_reworded_thesis_only_flags_later_stages(essay: tuple[Session, Path]) -> None:
    session, folder = essay
    before = names(folder)
    (folder / "stage-1-thesis.md").write_text(
        THESIS.format("Parking rules cost many homes", "argument")
    )
    session.revisit.apply("stage-1")
    doc = state_of(folder)
    assert (
        doc["stages"]["stage_2"]["status"] == doc["stages"]["stage_3"]["status"] == "needs_review"
    )
    assert names(folder) == before | {"stage-1-thesis.v1.md"}


def test_undo_removes_the_log_entry(essay: tuple[Session, Path]) -> None:
    session, folder = essay
    before = names(folder)
    session.revisit.apply("1", impact="major")
    assert len(state_of(folder)["revision_history"]) == 1
    session.revisit.undo()
    doc = state_of(folder)
    assert doc["revision_history"] == [] and names(folder) == before
    assert doc["stages"]["stage_2"]["status"] == "completed"
    assert doc["stages"]["stage_2"]["outline_file"].endswith("stage-2-outline.md")
    session.note("and nobody takes our own writing for an edit")
    assert "foreign.edited" not in kinds(session)


def test_an_edit_of_a_file_with_pending_work_is_absorbed(
    essay: tuple[Session, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    session, folder = essay
    with monkeypatch.context() as dying:
        dying.setattr("forestay.plans.pending_file_ops.finish", lambda context, session: None)
        session.revisit.apply("1", impact="minor")
    path = folder / "session-state.yaml"
    text = path.read_text()
    path.write_text(text.replace('pushback_level: "full"', 'pushback_level: "light"'))
    assert path.read_text() != text
    with forestay.open(
        session.context.settings.home, cwd=str(folder.parent), clock=FakeClock()
    ) as after:
        after.session(session.id).note("somebody goes on")
    doc = state_of(folder)
    assert len(doc["revision_history"]) == 1 and doc["pushback_level"] == "light"
    assert "foreign.edited" in kinds(session)


def test_later_revisit_absorbed_from_a_file_must_be_undone_first(
    essay: tuple[Session, Path],
) -> None:
    session, folder = essay
    session.revisit.apply("1", impact="minor")
    _write_revisit(folder, "theirs")
    session.note("taken up")
    assert [kind for kind in kinds(session) if kind == "step.revisited"] == ["step.revisited"] * 2
    with pytest.raises(Refused, match="work continued") as error:
        session.revisit.undo()
    assert error.value.why.endswith("step.revisited is about stage-1")
    session.undo(error.value.hint.rpartition(" ")[2])
    session.revisit.undo()
    assert [entry["reason"] for entry in state_of(folder)["revision_history"]] == ["theirs"]


def test_a_revisit_absorbed_from_a_file_cannot_be_undone(
    essay: tuple[Session, Path],
) -> None:
    session, folder = essay
    _write_revisit(folder, "theirs")
    with pytest.raises(Refused, match="there is no revisit to undo"):
        session.revisit.undo()
    assert "step.revisited" in kinds(session)


def _write_revisit(folder: Path, reason: str) -> None:
    """Write a revisit of the thesis into the file like another program."""
    path = folder / "session-state.yaml"
    doc = state_of(folder)
    entry = {"stage_revisited": 1, "impact": "minor", "reason": reason}
    doc["revision_history"].append(entry | {"timestamp": "2023-11-14T22:00:00Z"})
    path.write_text(yaml.safe_dump(doc, sort_keys=False))


def test_a_secret_in_the_reason_reaches_no_file(essay: tuple[Session, Path]) -> None:
    session, folder = essay
    secret = "ghp_" + "a1B2" * 9
    session.revisit.apply("1", impact="minor", because=f"the token {secret} leaked")
    assert secret not in (folder / "session-state.yaml").read_text()
    assert "[redacted:" in state_of(folder)["revision_history"][0]["reason"]


def test_pending_file_work_is_plain_data(
    essay: tuple[Session, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    session, _ = essay
    monkeypatch.setattr("forestay.plans.pending_file_ops.finish", lambda context, session: None)
    session.revisit.apply("1", impact="major")
    chores = [
        json.loads(what) for _, what in session.context.store.machine.file_work.pending(session.id)
    ]
    assert {chore["op"] for chore in chores} == {"move"}
    assert all(os.path.isabs(chore["to"]) for chore in chores)


# -- the outputs of a plan ---------------------------------------------------------------------

REPORT = """
workflow: report
phases:
  - {name: Gather, outputs: [notes/sources.md]}
  - {name: Write, outputs: [report.md, notes/absent.md]}
  - {name: Print}
"""
SOURCES = "# Sources\n\n" + "".join(f"{n}. a book about parking, page {n}\n" for n in range(20))


@pytest.fixture
def report(stay: Forestay, project: Path) -> Session:
    """A plan whose first two phases have passed, each with what it made."""
    (project / "report.yaml").write_text(REPORT)
    (project / "notes").mkdir()
    (project / "notes/sources.md").write_text(SOURCES)
    (project / "report.md").write_text("# Report\n\nParking costs homes.\n")
    session = stay.start("Write the report", workflow="./report.yaml")
    assert session.phases.done(1).outputs == {"notes/sources.md": "kept"}
    made = session.phases.done(2).outputs
    assert made == {"report.md": "kept", "notes/absent.md": "missing"}
    return session


@pytest.mark.req("S3-134", "S3-141", "S3-142")
def test_outputs_of_a_passed_phase_are_stored_and_compared_on_a_revisit(
    report: Session, project: Path
) -> None:
    assert report.revisit.preview("1").assessment.reasons == ["notes/sources.md is as it was"]
    (project / "notes/sources.md").write_text(SOURCES.replace("page 3", "page 33"))
    found = report.revisit.preview("1").assessment
    assert found.impact == "minor" and "reworded" in found.reasons[0]
    assert "+3. a book about parking, page 33" in found.diff
    (project / "notes/sources.md").write_text("# Bridges\n\nNothing of it was about parking.\n")
    look, _ = report.revisit.apply("1", because="the sources were wrong")
    assert look.assessment.impact == "major" and look.assessment.reset == ["phase-2", "phase-3"]
    assert (project / "notes/sources.v1.md").read_text() == SOURCES
    assert not (project / "report.md").exists() and (project / "report.v1.md").exists()


def test_an_unchanged_output_is_not_stored_twice(report: Session) -> None:
    report.phases.rollback(1)
    before = [line.event.kind for line in report.log()].count("artifact.saved")
    assert report.phases.done(1).outputs == {"notes/sources.md": "as it was"}
    assert [line.event.kind for line in report.log()].count("artifact.saved") == before == 2


def test_a_failed_attempt_stores_no_output(stay: Forestay, project: Path) -> None:
    (project / "w.yaml").write_text(
        "workflow: w\nphases: [{name: A, outputs: [a.md], evidence: {ok: true}}]\n"
    )
    (project / "a.md").write_text("a\n")
    session = stay.start("try", workflow="./w.yaml")
    assert session.phases.done(1).outputs == {}
    assert session.phases.done(1, {"ok": True}).outputs == {"a.md": "kept"}


def test_outputs_that_cannot_be_stored_are_reported_and_block_nothing(
    stay: Forestay, project: Path
) -> None:
    names = ["secret.md", "folder", "link.md"]
    (project / "w.yaml").write_text(
        f"workflow: w\nphases: [{{name: A, outputs: [{', '.join(names)}]}}]\n"
    )
    (project / "secret.md").write_text("token ghp_" + "Ab1" * 12 + "\n")
    (project / "folder").mkdir()
    (project.parent / "elsewhere.md").write_text("not of this project\n")
    (project / "link.md").symlink_to(project.parent / "elsewhere.md")
    done = stay.start("try", workflow="./w.yaml").phases.done(1)
    assert done.complete and list(done.outputs) == names
    assert done.outputs["secret.md"] == "only its digest is kept, it holds a secret"
    assert "is not a regular file" in done.outputs["folder"]
    assert "leads out of" in done.outputs["link.md"]


EACH = """
workflow: parts
unit: stage
phases: [{name: First, outputs: [1.md]}]
each: {name: Part, outputs: [part.md]}
"""


@pytest.fixture
def parts(stay: Forestay, project: Path) -> Session:
    """Stages whose number was not known at the start; the first two have passed."""
    (project / "parts.yaml").write_text(EACH)
    (project / "part.md").write_text("one part of it\n")
    session = stay.start("Write all parts", workflow="./parts.yaml")
    session.phases.total(3)
    session.phases.done(1)
    assert session.phases.done(2).outputs == {"part.md": "kept"}
    return session


def test_outputs_of_phases_made_from_the_pattern_are_compared_too(
    parts: Session, project: Path
) -> None:
    assert parts.revisit.preview("2").assessment.reasons == ["part.md is as it was"]
    (project / "part.md").unlink()
    found = parts.revisit.preview("2").assessment
    assert found.impact == "major" and found.reasons == ["part.md is gone"]


def test_revisit_of_a_stage_makes_it_current_and_flags_later_ones(parts: Session) -> None:
    parts.revisit.apply("1", impact="minor", because="look again")
    assert parts.status().as_json()["phase"]["current"] == 1
    words = [one.status for one in parts.phases.list()]
    assert words == ["running", "needs_review", "pending"]


@pytest.mark.parametrize("name", ["stage-1-thesis.md", "stage-2-outline.md"])
def test_thesis_or_outline_without_its_usual_parts_is_not_assessed_by_them(name: str) -> None:
    old, new = "Parking rules cost homes.\n", "Of bees and what they dance about.\n"
    assert assess_change(name, old, new, likeness) is None


def test_a_preview_does_not_read_the_events(
    report: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> Iterator[object]:
        raise AssertionError("the events were read")

    monkeypatch.setattr(report.context.journal, "events", never)
    assert report.revisit.preview("1").assessment.reasons == ["notes/sources.md is as it was"]
    assert report.lifecycle.inactivity().word == "active"
