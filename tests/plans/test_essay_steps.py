"""The methods of an essay, through the library: gates, sections, claims, voice, the end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

import forestay
from forestay import Forestay, InvalidInput, Refused, Session
from forestay.base import vocabulary
from forestay.base.clock import FakeClock
from forestay.base.hashing import derive_uuid
from forestay.formats.essay import fields
from forestay.formats.essay.format import FORMAT
from forestay.formats.port import ERROR, Where
from forestay.formats.text.document import Document, fresh
from forestay.mirror.session_files import absorb_file_edits, write_files
from forestay.model import event as ev
from forestay.model.essay import rules as model
from forestay.model.essay.moves import Moves
from forestay.model.essay.rules import Gate, parse_gate
from forestay.model.state import Artifact, Attribute, State, Step
from forestay.plans import essay_sessions as essays
from forestay.plans import essay_steps
from tests.homes import state_of

THESIS = "## Thesis Statement\nSlow software is a choice.\n\n## Claim Type\nargument\n"
OUTLINE = """# Outline
- **Target length**: 900
- **Audience**: semi-technical

### Section 1: Waste (~500 words)
### Section 2: Care (~400 words)
"""
MAP = "- **Verified**: YES\n- **Verified**: DEFERRED\n- **Verified**: YES\n"
DRAFT = "## Waste\n\nOne.\n\nTwo.\n\n---\n\n## Care\n\nThree.\n"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def stay(tmp_path: Path, clock: FakeClock) -> Iterator[Forestay]:
    (tmp_path / "project").mkdir()
    where = str(tmp_path / "project")
    with forestay.open(str(tmp_path / "home"), cwd=where, clock=clock) as opened:
        yield opened


class Essay:
    """An essay in a separate folder, with methods that bring it to a stage."""

    def __init__(self, session: Session) -> None:
        self.session = session
        (binding,) = session.files.list()
        self.folder = Path(binding.root)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    @property
    def file(self) -> dict[str, Any]:
        data = (self.folder / fields.STATE).read_bytes()
        found: dict[str, Any] = Document.parse(data, "yaml").value
        return found

    def at_sections(self) -> Session:
        self.write(fields.THESIS, THESIS)
        self.write(fields.OUTLINE, OUTLINE)
        for number in (1, 2):
            self.write(fields.ARGUMENTS.format(number), MAP)
        self.write(fields.DRAFT, DRAFT)
        self.session.essay.approve("G1")
        self.session.essay.approve("G2")
        return self.session

    def argued(self, *numbers: int) -> Session:
        for number in numbers:
            self.session.essay.sections.done(number)
            self.session.essay.approve("G3", section=number)
        return self.session

    def at_paragraphs(self) -> Session:
        self.at_sections()
        self.argued(1, 2).essay.approve("G3-Final")
        return self.session

    def written(self) -> Session:
        session = self.at_paragraphs()
        for section, paragraphs in ((1, 2), (2, 1)):
            for number in range(1, paragraphs + 1):
                session.essay.paragraph_done(number, last=number == paragraphs)
            session.essay.approve("G4-Section", section=section)
        self.write(fields.FINAL, "# Slow\n\nFive words are in here.\n")
        return session


@pytest.fixture
def essay(stay: Forestay) -> Essay:
    return Essay(stay.start("On slow software", workflow="essay", formats=["essay"], id="it"))


def seq(session: Session) -> int:
    return int(session.status().seq)


def refused(session: Session, act: Callable[[], object], expected_text: str) -> Refused:
    """Require that a call is refused with this text and records nothing; return the error."""
    before = seq(session)
    with pytest.raises(Refused, match=expected_text) as caught:
        act()
    assert seq(session) == before
    return caught.value


# -- gates -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "gate"),
    [
        ("G1", Gate("G1")),
        ("g2", Gate("G2")),
        ("G3.2", Gate("G3", 2)),
        ("g3-final", Gate("G3-Final")),
        ("G3 Final", Gate("G3-Final")),
        ("G4.2.3", Gate("G4", 2, 3)),
        ("g4_section", Gate("G4-Section")),
        ("G4-Section.2", Gate("G4-Section", 2)),
        (" G5 ", Gate("G5")),
    ],
)
def test_gates_are_known_in_any_spelling(text: str, gate: Gate) -> None:
    assert parse_gate(text) == gate


@pytest.mark.parametrize("text", ["", "G6", "G1-Final", "G3-Section", "G1.2", "G3.1.2", "thesis"])
def test_unknown_gate_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_gate(text)


def test_gate_that_contradicts_the_given_section_is_refused() -> None:
    with pytest.raises(InvalidInput, match="the gate names 2, the option 3"):
        parse_gate("G3.2", 3)


@pytest.mark.req("X3-2", "X3-3")
def test_an_approved_thesis_is_stored_and_stage_2_begins(essay: Essay) -> None:
    session = essay.session
    essay.write(fields.THESIS, THESIS)
    done = session.essay.approve("G1")
    assert done.message == "the thesis is approved; stage 2 begins: the outline"
    stages = essay.file["stages"]
    assert stages["stage_1"]["status"] == "completed"
    assert stages["stage_1"]["claim_type"] == "argument"
    assert stages["stage_1"]["thesis_file"].endswith(f"/{fields.THESIS}")
    assert (essay.file["current_stage"], stages["stage_2"]["status"]) == (2, "in_progress")
    (kept,) = state_of(session).rows.select("artifact")
    assert isinstance(kept, Artifact) and kept.path == fields.THESIS
    essay.write(fields.THESIS, "another one")
    assert session.context.store.blob(kept.digest) == THESIS.encode()
    refused(session, lambda: session.essay.approve("G1"), "approved already")


def test_a_missing_file_is_named_and_nothing_is_recorded(essay: Essay) -> None:
    session = essay.session
    error = refused(session, lambda: session.essay.approve("G1"), "there is no stage-1-thesis.md")
    assert error.hint.endswith("forestay essay approve G1")
    essay.write(fields.THESIS, THESIS)
    session.essay.approve("G1")
    refused(session, lambda: session.essay.approve("G2"), "there is no stage-2-outline.md")
    essay.write(fields.OUTLINE, OUTLINE)
    session.essay.approve("G2")
    refused(session, lambda: session.essay.sections.done(1), "argument map of section 1 is missing")


@pytest.mark.req("X3-3")
def test_approved_outline_creates_the_sections_and_starts_the_first(essay: Essay) -> None:
    session = essay.at_sections()
    stages = essay.file["stages"]
    assert stages["stage_2"]["total_sections"] == stages["stage_3"]["total_sections"] == 2
    assert (stages["stage_2"]["target_word_count"], stages["stage_2"]["audience"]) == (
        900,
        "semi-technical",
    )
    assert (stages["stage_3"]["status"], stages["stage_3"]["current_section"]) == ("in_progress", 1)
    assert [s["status"] for s in stages["stage_3"]["sections"]] == ["in_progress", "not_started"]
    assert [one.title for one in session.essay.sections.list()] == ["Waste", "Care"]


@pytest.mark.parametrize(
    ("text", "expected_text"),
    [
        ("- **Sections**: 3\n### Section 1: A\n### Section 3: C\n", "lost section 2"),
        ("- **Sections**: 1\n### Section 1: A\n### Section 2: B\n", "section 2 too many"),
        ("no sections here\n", "names no sections"),
    ],
)
def test_outline_with_inconsistent_sections_is_refused(
    essay: Essay, text: str, expected_text: str
) -> None:
    essay.write(fields.THESIS, THESIS)
    essay.session.essay.approve("G1")
    essay.write(fields.OUTLINE, text)
    refused(essay.session, lambda: essay.session.essay.approve("G2"), expected_text)


def test_outline_drops_sections_without_work_and_they_can_be_added_again(essay: Essay) -> None:
    session = essay.session
    for number in (1, 2, 3):
        session.essay.sections.add(number, title=f"By hand {number}")
    essay.write(fields.THESIS, THESIS)
    essay.write(fields.OUTLINE, OUTLINE)
    session.essay.approve("G1")
    session.essay.approve("G2")
    assert [one.number for one in session.essay.sections.list()] == [1, 2]
    assert len(essay.file["stages"]["stage_3"]["sections"]) == 2
    assert essay.file["stages"]["stage_3"]["total_sections"] == 2
    session.essay.sections.add(3, title="Back")
    assert [one.number for one in session.essay.sections.list()] == [1, 2, 3]
    assert len(essay.file["stages"]["stage_4"]["sections"]) == 3


def test_outline_never_drops_a_section_with_work() -> None:
    state = State()
    state.core.status, state.core.session = "active", "it"
    for stage, status in ((1, "done"), (2, "needs_review"), (3, "running"), (4, "pending")):
        state.put("step", Step(id=f"stage-{stage}", status=status))
        for section in (1, 2) if stage > 2 else ():
            state.put("step", Step(id=f"stage-{stage}/section-{section}", unit="section"))
    name = "essay.stage_3.section_2.argument_map_file"
    state.put("attribute", Attribute(key=name, value="map.md"))
    shorter = model.Outline(total=1, titles={1: "A"})
    with pytest.raises(Refused, match="lost section 2"):
        model.approve_outline(
            model.begin(state), ev.ArtifactSaved(path="o.md", digest="0", size=1), shorter
        )


# -- arguments ---------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["map", "approval"])
def test_section_is_completed_by_map_and_approval_in_any_order(essay: Essay, first: str) -> None:
    session = essay.at_sections()
    acts: list[Callable[[], Any]] = [
        lambda: session.essay.sections.done(1, map=fields.ARGUMENTS.format(1)),
        lambda: session.essay.approve("G3.1"),
    ]
    one, two = acts if first == "map" else reversed(acts)
    owed = one().missing
    expected = (
        "essay approve G3 --section 1"
        if first == "map"
        else ("essay section done 1 --map stage-3-section-1-arguments.md")
    )
    assert owed == [expected]
    assert essay.file["stages"]["stage_3"]["sections"][0]["status"] == "in_progress"
    assert two().missing == []
    third = essay.file["stages"]["stage_3"]
    assert third["sections"][0]["status"] == "completed" and third["current_section"] == 2
    assert third["sections"][0]["verified_claims"] == 2
    assert third["sections"][0]["deferred_claims"] == 1


def test_arguments_are_not_approved_as_a_whole_while_a_section_is_open(essay: Essay) -> None:
    session = essay.at_sections()
    essay.argued(1)
    error = refused(session, lambda: session.essay.approve("G3-Final"), "as a whole yet")
    assert error.why == "section 2 is not completed"
    assert error.legal[0] == "essay section done 2 --map stage-3-section-2-arguments.md"


@pytest.mark.req("X3-3")
def test_approved_arguments_start_the_first_paragraph(essay: Essay) -> None:
    essay.at_paragraphs()
    third, fourth = (essay.file["stages"][f"stage_{n}"] for n in (3, 4))
    assert third["birds_eye_approved"] is True and third["status"] == "completed"
    assert (fourth["status"], fourth["current_section"], fourth["current_paragraph"]) == (
        "in_progress",
        1,
        1,
    )


@pytest.mark.req("X3-3")
def test_a_finished_section_may_be_written_while_others_are_argued(essay: Essay) -> None:
    session = essay.at_sections()
    refused(session, lambda: session.essay.sections.start(1, stage=4), "cannot be written yet")
    essay.argued(1)
    session.essay.sections.start(1)
    session.essay.paragraph_done(1)
    stages = essay.file["stages"]
    assert stages["stage_3"]["status"] == stages["stage_4"]["status"] == "in_progress"
    assert essay.file["current_stage"] == 4
    session.essay.sections.start(2)
    assert essay.file["current_stage"] == 3 and session.status().as_json()["phase"]["current"] == 3
    refused(session, lambda: session.essay.paragraph_done(1, section=2), "cannot be written yet")


# -- paragraphs --------------------------------------------------------------------------------


def test_paragraphs_are_approved_in_their_order(essay: Essay) -> None:
    session = essay.at_paragraphs()
    refused(session, lambda: session.essay.paragraph_done(2), "paragraph 2 of section 1 cannot")
    session.essay.approve("G4")
    refused(session, lambda: session.essay.paragraph_done(1), "approved already")
    session.essay.approve("G4", paragraph=2, last=True)
    refused(session, lambda: session.essay.paragraph_done(3), "paragraph 3 of section 1 cannot")
    fourth = essay.file["stages"]["stage_4"]
    assert (fourth["sections"][0]["completed_paragraphs"], fourth["current_paragraph"]) == (2, 3)
    assert fourth["sections"][0]["total_paragraphs"] == 2
    session.essay.approve("G4-Section")
    assert essay.file["stages"]["stage_4"]["current_section"] == 2


def test_section_is_not_approved_before_its_last_paragraph(essay: Essay) -> None:
    session = essay.at_paragraphs()
    refused(session, lambda: session.essay.approve("G4-Section", last=True), "not written yet")
    session.essay.paragraph_done(1)
    error = refused(session, lambda: session.essay.approve("G4-Section"), "is not known")
    assert error.legal == ["essay approve G4-Section --section 1 --last"]
    session.essay.approve("G4-Section", last=True)


def test_a_missing_or_short_draft_is_reported(essay: Essay) -> None:
    session = essay.at_paragraphs()
    (essay.folder / fields.DRAFT).unlink()
    refused(session, lambda: session.essay.paragraph_done(1), "there is no stage-4-draft.md")
    essay.write(fields.DRAFT, "## Waste\n\nOne.\n")
    assert session.essay.paragraph_done(1).warnings == []
    assert session.essay.paragraph_done(2).warnings == [
        "the draft has 1 paragraph in section 1, not 2"
    ]


# -- claims ------------------------------------------------------------------------------------


@pytest.mark.req("X3-6")
def test_claims_are_deferred_resolved_and_overridden_with_their_counts(
    essay: Essay, clock: FakeClock
) -> None:
    session = essay.at_sections()
    first = session.essay.claims.defer("It is slower", reason="timeout")
    second = session.essay.claims.defer("It is bigger", reason="no_results", section=2, paragraph=3)
    assert (first.claim, second.claim) == ("c1", "c2")
    refused(session, lambda: session.essay.claims.defer("It is slower", reason="timeout"), "as c1")
    sections = {one.number: one for one in session.essay.sections.list()}
    assert (sections[1].deferred, sections[2].deferred) == (1, 1)
    clock.sleep(60)
    session.essay.claims.resolve("c1", sources=["a book", "a book", "a paper"])
    session.essay.claims.override("c2", result="contested", because="I measured it")
    sections = {one.number: one for one in session.essay.sections.list()}
    assert (sections[1].deferred, sections[1].verified, sections[2].deferred) == (0, 1, 0)
    deferred, stood = essay.file["deferred_verifications"], essay.file["user_overrides"]
    assert [entry["resolved"] for entry in deferred] == [True, True]
    assert [entry["section"] for entry in deferred] == [1, 2]
    assert (stood[0]["fact_checker_result"], stood[0]["user_rationale"]) == (
        "contested",
        "I measured it",
    )
    assert stood[0]["logged_at"] > deferred[1]["added_at"]


@pytest.mark.req("X3-6")
def test_every_fact_check_status_settles_a_claim_or_needs_an_override(essay: Essay) -> None:
    session = essay.at_sections()
    for number, word in enumerate(vocabulary.FACT_CHECKS, 1):
        session.essay.claims.defer(word, reason="no_results")
        id = f"c{number}"
        if word in vocabulary.SETTLING:
            session.essay.claims.resolve(id, result=word)  # type: ignore[arg-type]
            continue
        error = refused(session, partial(session.essay.claims.resolve, id, result=word), word)  # type: ignore[arg-type]
        assert error.legal == [f'claim override {id} --result {word} --because "…"']
        session.essay.claims.override(id, result=word, because="it stands")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="one of verified, partial, contested, unverified"):
        session.essay.claims.resolve("c1", result="true")  # type: ignore[arg-type]


def test_claims_that_do_not_exist_or_are_settled_are_refused(essay: Essay) -> None:
    session = essay.at_sections()
    refused(session, lambda: session.essay.claims.resolve("c9"), "no claim c9")
    refused(
        session,
        lambda: session.essay.claims.defer("x", reason="timeout", section=9),
        "no section 9",
    )
    session.essay.claims.defer("x", reason="timeout")
    session.essay.claims.resolve("c1")
    refused(session, lambda: session.essay.claims.resolve("c1"), "resolved already")
    refused(
        session,
        lambda: session.essay.claims.override("c1", result="partial", because="y"),
        "already",
    )
    with pytest.raises(InvalidInput):
        session.essay.claims.defer("y", reason="no time")  # type: ignore[arg-type]


@pytest.mark.req("X3-9")
def test_claim_whose_check_timed_out_is_deferred_and_a_voice_check_skipped(
    essay: Essay,
) -> None:
    session = essay.at_paragraphs()
    session.agents.start("check", type="fact-checker", task="It is slower")
    session.agents.timeout("check", error="3 minutes")
    session.agents.retry("check")
    session.agents.timeout("check", error="3 minutes")
    session.essay.claims.defer("It is slower", reason="timeout", section=1)
    assert essay.file["deferred_verifications"][0]["reason"] == "timeout"
    done = session.essay.voice(None, because="timeout")
    assert done.message == "the voice check of section 1 was skipped: timeout"
    assert essay.file["stages"]["stage_4"]["sections"][0]["voice_check_score"] is None
    assert done.message in (essay.folder / "voice-check-log.md").read_text()


# -- voice, calibration, pushback --------------------------------------------------------------


@pytest.mark.req("X3-7")
def test_every_voice_score_has_a_different_action(essay: Essay) -> None:
    session = essay.at_paragraphs()
    actions = [session.essay.voice(score).action for score in (1, 2, 3, 4, 5)]
    assert len(set(actions)) == 5 and all(actions)
    assert session.essay.voice(4.5).action == actions[3]
    assert essay.file["stages"]["stage_4"]["sections"][0]["voice_check_score"] == 4.5


@pytest.mark.req("X3-7")
def test_calibration_is_requested_only_after_the_first_voice_score(essay: Essay) -> None:
    session = essay.at_paragraphs()
    assert "forestay essay calibrate" in session.essay.voice(3).ask
    assert session.essay.voice(4).ask == ""
    session.essay.calibrate(4, notes="shorter sentences", reference="hybrid")
    assert essay.file["voice_calibration"] == {
        "first_assessment_user_rating": 4,
        "calibration_notes": "shorter sentences",
        "voice_reference_mode": "hybrid",
    }
    refused(session, lambda: session.essay.calibrate(2), "is calibrated")
    session.essay.calibrate(2, again=True)
    assert essay.file["voice_calibration"]["first_assessment_user_rating"] == 2


def test_ratings_out_of_range_are_refused(essay: Essay) -> None:
    session = essay.at_paragraphs()
    acts: list[Callable[[], object]] = [
        lambda: session.essay.calibrate(0),
        lambda: session.essay.calibrate(6),
        lambda: session.essay.voice(0.5),
        lambda: session.essay.voice(float("nan")),
        lambda: session.essay.voice(5.1),
        lambda: session.essay.pushback("none"),  # type: ignore[arg-type]
        lambda: session.essay.sections.done(1, verified=-1),
        lambda: session.essay.output(fields.FINAL, voice=9),
    ]
    for act in acts:
        before = seq(session)
        with pytest.raises(InvalidInput):
            act()
        assert seq(session) == before


@pytest.mark.req("X3-1", "X3-8")
def test_pushback_is_chosen_at_the_start_and_can_be_changed_later(stay: Forestay) -> None:
    essay = Essay(
        stay.start("E", workflow="essay", formats=["essay"], pushback="minimal", id="other")
    )
    assert essay.folder.name.startswith("essay-pipeline-")
    assert essay.file["pushback_level"] == "minimal"
    essay.session.essay.pushback("light")
    assert essay.file["pushback_level"] == "light"
    with pytest.raises(InvalidInput, match="requires an essay"):
        stay.start("F", workflow="feature", pushback="light")


# -- the end -----------------------------------------------------------------------------------


@pytest.mark.req("X3-2")
def test_essay_is_not_approved_before_claims_and_overrides_are_settled(essay: Essay) -> None:
    session = essay.written()
    session.essay.claims.defer("It is slower", reason="timeout", section=1)
    session.essay.claims.defer("It is bigger", reason="timeout", section=1)
    error = refused(
        session, lambda: session.essay.approve("G5"), "2 deferred claims are not resolved"
    )
    assert "c1: It is slower (timeout)" in error.why and "c2" in error.why
    session.essay.claims.resolve("c1")
    session.essay.claims.override("c2", result="contested", because="I know")
    error = refused(session, lambda: session.essay.approve("G5"), "1 override is not confirmed")
    assert error.legal == ["essay approve G5 --confirm"]
    session.essay.approve("G5", confirm=True)
    assert essay.file["status"] == "completed"
    assert essay.file["output"]["final_essay_file"].endswith(fields.FINAL)


@pytest.mark.req("X3-10")
def test_approval_of_the_essay_returns_a_summary(essay: Essay, clock: FakeClock) -> None:
    session = essay.written()
    session.essay.claims.defer("It is slower", reason="timeout", section=1)
    session.essay.claims.resolve("c1", sources=["a book", "a paper"])
    session.essay.claims.defer("It is bigger", reason="timeout", section=2)
    session.essay.claims.override("c2", result="contested", because="I know")
    for section, score in ((1, 4), (2, 5)):
        session.essay.voice(score, section=section)
    began = state_of(session).core.began_at
    session.pause()
    clock.sleep(7200)
    session.resume()
    clock.sleep(600)
    done = session.essay.approve("G5", confirm=True)
    reported = done.summary
    assert reported is not None
    assert (reported.words, reported.target_words, reported.sections) == (6, 900, 2)
    assert (reported.claims_verified, reported.sources, reported.voice) == (5, 2, 4.5)
    assert (reported.overrides, reported.deferred, reported.resolved) == (1, 2, 2)
    active = (state_of(session).core.ended_at - began) / 1000 - 7200
    assert reported.seconds == pytest.approx(active, abs=1)
    output = essay.file["output"]
    assert (output["total_word_count"], output["sources_verified"]) == (6, 2)
    assert output["voice_consistency_score"] == 4.5


def test_given_figures_override_counted_ones(essay: Essay) -> None:
    session = essay.written()
    session.essay.output(fields.FINAL, words=1000, sources=7, voice=3.5)
    reported = session.essay.approve("G5").summary
    assert reported is not None and (reported.words, reported.sources, reported.voice) == (
        1000,
        7,
        3.5,
    )


def test_a_missing_final_essay_is_reported(essay: Essay) -> None:
    session = essay.written()
    session.essay.output(fields.FINAL)
    (essay.folder / fields.FINAL).unlink()
    refused(session, lambda: session.essay.approve("G5"), "the final essay is missing")
    refused(session, lambda: session.essay.output("elsewhere.md"), "there is no elsewhere.md")
    with pytest.raises(InvalidInput, match="outside"):
        session.essay.output("../other.md")


@pytest.mark.req("X3-2")
def test_no_other_method_passes_a_gate(essay: Essay) -> None:
    session = essay.session
    refused(
        session, lambda: session.phases.done(1, {"approved": True}), "the user approves its stages"
    )
    refused(session, lambda: session.tasks.done("stage-1"), "by passing its checkpoint")
    error = refused(session, lambda: session.complete(), "the plan is at stage 1 of 4")
    assert error.legal[0] == "essay approve G1"


def test_essay_methods_are_refused_without_an_essay_or_while_paused(stay: Forestay) -> None:
    plain = stay.start("plain", id="plain")
    refused(plain, lambda: plain.essay.approve("G1"), "is not an essay")
    session = stay.start("E", workflow="essay", id="e")
    session.pause()
    refused(session, lambda: session.essay.approve("G1"), "does not allow that now")
    refused(session, lambda: session.essay.pushback("light"), "does not allow that now")


def test_session_started_with_essay_files_is_an_essay(stay: Forestay) -> None:
    essay = Essay(stay.start("E", formats=["essay"], pushback="light"))
    assert essay.file["pushback_level"] == "light" and essay.file["current_stage"] == 1
    assert {s["status"] for s in essay.file["stages"].values()} == {"not_started"}
    assert essay.session.status().next.endswith("forestay essay approve G1")
    session = essay.written()
    assert session.essay.approve("G5").summary is not None
    assert essay.file["status"] == "completed"


def test_two_starts_with_essay_files_are_two_essays(stay: Forestay) -> None:
    first, second = (stay.start("E", formats=["essay"]) for _ in range(2))
    assert first.id != second.id and not second.was_open


def test_stage_completed_in_the_file_is_completed_in_the_session(stay: Forestay) -> None:
    essay = Essay(stay.start("E", formats=["essay"]))
    doc = essay.file
    doc["stages"]["stage_1"]["status"] = "completed"
    doc |= {"current_stage": 2, "current_stage_name": "essay_structuring"}
    essay.write(fields.STATE, yaml.safe_dump(doc))
    essay.session.note("taken up")
    stages = [row for row in state_of(essay.session).rows.select("step") if isinstance(row, Step)]
    assert [(row.unit, row.status) for row in stages[:2]] == [
        ("stage", "done"),
        ("stage", "pending"),
    ]
    assert [row.title for row in stages] == [stage.title for stage in fields.STAGES.values()]
    assert essay.session.status().next.endswith("forestay essay approve G2")


@pytest.mark.req("S3-6", "S3-7")
def test_paths_of_the_style_profile_and_samples_are_in_the_file(essay: Essay) -> None:
    for field in ("style_profile_path", "samples_dir_path"):
        essay.session.record.attribute(f"essay.{field}", f"/mine/{field}")
        assert essay.file[field] == f"/mine/{field}"


# -- one append, once per key -----------------------------------------------------------------


def test_every_method_appends_once_and_not_again_with_the_same_key(
    essay: Essay, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = essay.session
    essay.write(fields.THESIS, THESIS)
    essay.write(fields.OUTLINE, OUTLINE)
    for number in (1, 2):
        essay.write(fields.ARGUMENTS.format(number), MAP)
    essay.write(fields.DRAFT, DRAFT)
    essay.write(fields.FINAL, "words")
    verbs: list[Callable[[str], Any]] = [
        lambda k: session.essay.pushback("light", key=k),
        lambda k: session.essay.approve("G1", key=k),
        lambda k: session.essay.approve("G2", key=k),
        lambda k: session.essay.sections.done(1, key=k),
        lambda k: session.essay.approve("G3.1", key=k),
        lambda k: session.essay.sections.add(3, key=k),
        lambda k: session.essay.sections.start(2, key=k),
        lambda k: session.essay.claims.defer("x", reason="timeout", key=k),
        lambda k: session.essay.claims.resolve("c1", key=k),
        lambda k: session.essay.sections.start(1, stage=4, key=k),
        lambda k: session.essay.paragraph_done(1, section=1, key=k),
        lambda k: session.essay.voice(4, section=1, key=k),
        lambda k: session.essay.voice(None, section=1, key=k),
        lambda k: session.essay.calibrate(4, key=k),
        lambda k: session.essay.output(fields.FINAL, key=k),
    ]
    store, appends = session.context.store, list[str]()
    append = store.append

    def counted(name: str, *rest: Any, **more: Any) -> None:
        appends.append(name)
        append(name, *rest, **more)

    monkeypatch.setattr(store, "append", counted)
    for number, verb in enumerate(verbs):
        before = len(appends)
        first = verb(f"k{number}")
        assert len(appends) == before + 1
        again = verb(f"k{number}")
        assert session.repeated and again.event.id == first.event.id
    used = seq(session)
    with pytest.raises(Refused, match="was already used for another call"):
        session.essay.approve("G2", key="k0")
    assert seq(session) == used


def test_two_processes_cannot_both_pass_a_gate_or_use_one_claim_id(
    essay: Essay, clock: FakeClock, tmp_path: Path
) -> None:
    where = str(tmp_path / "project")
    with forestay.open(str(tmp_path / "home"), cwd=where, clock=clock) as other:
        essay.write(fields.THESIS, THESIS)
        second = other.session("it")
        essay.session.essay.claims.defer("one", reason="timeout")
        assert second.essay.claims.defer("two", reason="timeout").claim == "c2"
        second.essay.approve("G1")
        refused(essay.session, lambda: essay.session.essay.approve("G1"), "approved already")


def test_stored_fields_have_the_names_of_the_format(essay: Essay) -> None:
    session = essay.written()
    session.essay.claims.defer("x", reason="timeout", section=1)
    session.essay.claims.resolve("c1", sources=["a book"])
    session.essay.voice(5, section=1)
    session.essay.calibrate(5, notes="n", reference="sample")
    session.essay.pushback("light")
    session.essay.approve("G5")
    known = {spot.name for spot in fields.spots(essay.file)}
    rows: list[Any] = list(state_of(session).rows.select("attribute"))
    ours = {row.key for row in rows if row.key.startswith("essay.")}
    ours = {k for k in ours if not k.startswith(("essay.source.", "essay.claim."))}
    assert ours <= known and len(ours) > 15


# -- logs and reading -------------------------------------------------------------------------


@pytest.mark.req("S3-14", "S3-39", "S3-78", "S3-82", "S3-84", "S3-85")
def test_the_logs_list_what_was_recorded(essay: Essay, stay: Forestay) -> None:
    session = essay.written()
    session.essay.claims.defer("It is slower", reason="timeout", section=1)
    session.essay.claims.override("c1", result="contested", because="I know")
    session.essay.voice(4, section=1)
    session.essay.calibrate(4)
    logs = {
        "stage-1-development-log.md": ["the thesis is approved"],
        "stage-4-paragraph-log.md": [
            "paragraph 2 of section 1 is approved",
            "section 2 is written",
        ],
        "fact-check-log.md": ["It is slower", "although it is contested, because I know"],
        "voice-check-log.md": ["voice of section 1: 4/5", "rates the voice 4/5"],
    }
    for name, parts in logs.items():
        text = (essay.folder / name).read_text()
        assert text.startswith("# ") and all(part in text for part in parts)
        assert all(line.startswith("- 2") for line in text.splitlines()[1:])
    assert essay.file["stages"]["stage_1"]["development_log"].endswith("development-log.md")
    assert essay.file["stages"]["stage_4"]["paragraph_log"].endswith("paragraph-log.md")
    (report,) = stay.files.check(str(essay.folder))
    assert not [f for f in report.findings if f.severity == ERROR]


def test_a_log_holds_no_secret(essay: Essay) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    essay.session.essay.claims.defer(f"The token is {secret}", reason="timeout")
    assert secret not in (essay.folder / "fact-check-log.md").read_text()
    assert secret not in (essay.folder / fields.STATE).read_text()


@pytest.mark.req("X3-8")
def test_show_returns_the_text_of_the_latest_stage(essay: Essay) -> None:
    session = essay.session
    refused(session, lambda: session.essay.show(), "there is no text of the essay yet")
    essay.write(fields.THESIS, THESIS)
    assert session.essay.show()[1] == THESIS
    essay.at_sections()
    assert session.essay.show() == (str(essay.folder / fields.DRAFT), DRAFT)


def in_the_project(stay: Forestay, folder: Path) -> Session:
    """Return an essay with sections whose files are in a folder of the project."""
    folder.mkdir()
    session = stay.start("E", workflow="essay", target=folder.name, id="e")
    (folder / fields.THESIS).write_text(THESIS)
    (folder / fields.OUTLINE).write_text(OUTLINE)
    session.essay.approve("G1")
    session.essay.approve("G2")
    return session


@pytest.mark.req("X3-8", "S3-119", "S3-125")
def test_an_essay_in_the_project_needs_no_separate_folder(stay: Forestay, tmp_path: Path) -> None:
    folder = tmp_path / "project" / "essay"
    in_the_project(stay, folder)
    assert essays.pause_message(stay.context, "e") == (
        "Session paused at Stage 3, Section 1. "
        "To resume, invoke essay-pipeline and select this session."
    )
    assert essays.resume_summary(stay.context, "e").startswith("Resuming at Stage 3.")
    assert sorted(path.name for path in folder.iterdir()) == [fields.THESIS, fields.OUTLINE]
    assert essays.discrepancies(stay.context, "e") == []
    (folder / fields.THESIS).unlink()
    (reported,) = essays.discrepancies(stay.context, "e")
    assert fields.THESIS in reported


@pytest.mark.req("S3-109", "S3-113", "S3-115", "S3-124")
def test_a_state_that_contradicts_its_files_is_reported_when_loaded(essay: Essay) -> None:
    session = essay.at_sections()
    assert essays.discrepancies(session.context, session.id) == []
    (essay.folder / fields.OUTLINE).unlink()
    (reported,) = essays.discrepancies(session.context, session.id)
    assert reported == f"{fields.OUTLINE} does not exist in the session's folder"


def test_an_adopted_essay_continues_with_the_same_methods(essay: Essay, tmp_path: Path) -> None:
    essay.at_sections()
    write_files(essay.session.context, "it", force=True)
    with forestay.open(str(tmp_path / "elsewhere"), cwd=str(tmp_path / "project")) as other:
        (taken,) = other.files.adopt(str(essay.folder))
        session = other.session(taken.session)
        session.resume()  # by the real clock it was idle for years
        session.essay.sections.done(1)
        session.essay.approve("G3.1")
        assert [one.arguments for one in session.essay.sections.list()] == ["done", "running"]
    assert essay.file["stages"]["stage_3"]["sections"][0]["status"] == "completed"


# -- going back --------------------------------------------------------------------------------


@pytest.mark.req("X3-8")
def test_a_major_revisit_restarts_the_essay_and_loses_nothing(essay: Essay, stay: Forestay) -> None:
    session = essay.at_paragraphs()
    session.essay.paragraph_done(1)
    session.essay.sections.start(2)
    essay.write(fields.THESIS, THESIS.replace("argument", "explainer"))
    session.revisit.apply("stage-1", because="it explains more than it argues")
    stages = essay.file["stages"]
    assert essay.file["current_stage"] == 1 and session.status().as_json()["phase"]["current"] == 1
    assert [stages[f"stage_{n}"]["status"] for n in (1, 2, 3, 4)] == [
        "in_progress",
        *["not_started"] * 3,
    ]
    assert stages["stage_4"]["current_section"] is None
    assert (essay.folder / "stage-4-draft.v1.md").read_text() == DRAFT
    session.essay.approve("G1")
    essay.write(fields.OUTLINE, "### Section 1: Then (~300 words)\n")
    session.essay.approve("G2")
    assert [(one.number, one.title) for one in session.essay.sections.list()] == [(1, "Then")]
    essay.write(fields.ARGUMENTS.format(1), MAP)
    session.essay.sections.done(1)
    assert session.essay.approve("G3.1").missing == []
    session.essay.approve("G3-Final")
    essay.write(fields.DRAFT, DRAFT)
    session.essay.paragraph_done(1, last=True)
    session.essay.approve("G4-Section")
    essay.write(fields.FINAL, "Words.")
    assert session.essay.approve("G5").summary is not None
    (report,) = stay.files.check(str(essay.folder))
    assert not [f for f in report.findings if f.severity == ERROR]


@pytest.mark.req("X3-8")
def test_everything_is_approved_again_after_a_minor_revisit(essay: Essay) -> None:
    session = essay.written()
    essay.write(fields.THESIS, THESIS.replace("a choice", "our choice"))
    session.revisit.apply("stage-1", impact="minor", because="reworded")
    assert essay.file["stages"]["stage_2"]["status"] == "needs_review"
    refused(session, lambda: session.essay.approve("G5"), "cannot be approved yet")
    session.essay.approve("G1")
    session.essay.approve("G2")
    for section in (1, 2):
        session.essay.approve("G3", section=section)
    session.essay.approve("G3-Final")
    for section in (1, 2):
        session.essay.approve("G4-Section", section=section)
    session.essay.approve("G5")
    assert essay.file["status"] == "completed"


@pytest.mark.req("X3-8")
def test_an_essay_in_the_project_can_be_revisited_too(stay: Forestay, tmp_path: Path) -> None:
    folder = tmp_path / "project" / "essay"
    session = in_the_project(stay, folder)
    (folder / fields.THESIS).write_text(THESIS.replace("argument", "explainer"))
    session.revisit.apply("stage-1", because="another direction")
    assert sorted(path.name for path in folder.iterdir()) == [
        fields.THESIS,
        "stage-1-thesis.v1.md",
        "stage-2-outline.v1.md",
    ]
    assert (folder / "stage-1-thesis.v1.md").read_text() == THESIS


# -- after going back --------------------------------------------------------------------------


def finished(essay: Essay) -> Session:
    session = essay.written()
    essay.write(fields.FINAL, "The end.\n")
    session.essay.approve("G5")
    return session


def test_next_steps_after_a_minor_revisit_lead_to_the_end(
    essay: Essay,
) -> None:
    session = finished(essay)
    session.revisit.apply("1", impact="minor")
    asked, stages = [], []
    while (shown := session.status()).status == "active":
        words, _, command = shown.next.partition("; then: forestay essay ")
        asked.append(words)
        stages.append(shown.as_json()["phase"]["current"])
        _, gate, *option = command.split()
        done = session.essay.approve(gate, section=int(option[1]) if option else None)
        assert done.next in (session.status().next.rpartition("forestay ")[2], "")
    assert asked == [
        "develop the thesis",
        "review the outline again",
        "review the arguments of section 1 again",
        "review the arguments of section 2 again",
        "review all arguments together",
        "review section 1 as a whole",
        "review section 2 as a whole",
        "review the whole essay",
    ]
    assert stages == [1, 2, 3, 3, 3, 4, 4, 4], "the current stage is the one that is next"


def test_undoing_a_revisit_completes_a_finished_essay_again(essay: Essay) -> None:
    session = finished(essay)
    before = essay.file
    session.revisit.apply("1", impact="major")
    assert essay.file["current_stage"] == 1
    session.revisit.undo()
    after = essay.file
    assert {**after, "last_activity": before["last_activity"]} == before
    assert session.status().as_json()["phase"]["current"] == 4
    absorb_file_edits(session.context, session.id)
    assert session.status().as_json()["phase"]["current"] == 4, (
        "our own writing is not absorbed as an edit"
    )


def test_log_line_left_by_a_dead_process_is_written_by_the_next(
    essay: Essay, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = essay.at_sections()
    log = essay.folder / essay_steps.FACTS
    with monkeypatch.context() as dying:
        dying.setattr(essay_steps, "finish", lambda home, session: None)
        session.essay.claims.defer("It rains", reason="timeout")
    assert "It rains" not in log.read_text()
    with forestay.open(session.context.settings.home, cwd=str(essay.folder.parent)) as after:
        after.session(session.id).note("somebody goes on")
        after.session(session.id).note("and on")
        assert not after.context.store.machine.file_work.pending(session.id)
    assert log.read_text().count("claim c1 in section 1 is deferred: timeout – It rains") == 1


def test_a_late_line_recreates_a_deleted_log(essay: Essay, monkeypatch: pytest.MonkeyPatch) -> None:
    session = essay.at_sections()
    log = essay.folder / essay_steps.FACTS
    with monkeypatch.context() as dying:
        dying.setattr(essay_steps, "finish", lambda home, session: None)
        session.essay.claims.defer("It rains", reason="timeout")
    log.unlink()
    session.essay.claims.defer("It snows", reason="timeout")
    title, *lines = log.read_text().splitlines()
    assert title == "# Fact checks"
    assert [line[-8:] for line in lines] == ["It rains", "It snows"]


def test_repeated_method_writes_no_second_log_line(essay: Essay) -> None:
    session = essay.at_sections()
    for _ in range(2):
        session.essay.claims.defer("It rains", reason="timeout", key="once")
    assert (essay.folder / essay_steps.FACTS).read_text().count("It rains") == 1


def test_refusal_without_a_current_section_names_the_next_step(essay: Essay) -> None:
    session = essay.session
    for act in (lambda: session.essay.paragraph_done(1), lambda: session.essay.sections.done(1)):
        assert refused(session, act, "section").legal == ["essay approve G1"]
    session = essay.at_sections()
    found = refused(
        session, lambda: session.essay.paragraph_done(1), "no section of stage 4 is current"
    )
    assert found.legal == model.missing_steps(Moves(essays.state_of(session._recorder)), 1)
    essay.argued(1)
    found = refused(session, lambda: session.essay.voice(4), "no section of stage 4 is current")
    assert found.legal == ["essay section start 1 --stage 4"]


def test_gate_of_a_stage_suggests_the_commands_of_an_essay(essay: Essay) -> None:
    session = essay.session
    assert session.phases.gate(1).judgment.next_steps == ["forestay essay approve G1"]
    essay.at_sections()
    assert session.phases.gate(1).judgment.next_steps == ["forestay revisit 1"]
    owed = model.missing_steps(Moves(essays.state_of(session._recorder)), 1)[0]
    assert session.phases.gate(3).judgment.next_steps == [f"forestay {owed}"]


def test_outline_with_a_section_number_above_the_limit_is_refused(
    essay: Essay,
) -> None:
    essay.write(fields.THESIS, THESIS)
    essay.session.essay.approve("G1")
    essay.write(fields.OUTLINE, OUTLINE + "\n### Section 1000: One too many (~300 words)\n")
    refused(
        essay.session, lambda: essay.session.essay.approve("G2"), "the outline has a section 1000"
    )


def test_work_in_a_section_removed_from_the_outline_can_be_set_aside_by_the_suggested_command(
    essay: Essay,
) -> None:
    session = essay.at_sections()
    session.essay.sections.done(2)
    session.revisit.apply("2", impact="minor")
    essay.write(fields.OUTLINE, OUTLINE.partition("### Section 2")[0])
    lost = refused(session, lambda: session.essay.approve("G2"), "lost section 2")
    assert "forestay revisit 2 --impact major --apply" in lost.hint
    session.revisit.apply("2", impact="major")
    session.essay.approve("G2")
    assert [one.number for one in session.essay.sections.list()] == [1]


# -- what others write into the file -----------------------------------------------------------


def edited(essay: Essay, clock: FakeClock, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the file like another program, and absorb the edit."""
    path = essay.folder / fields.STATE
    value = essay.file
    change(value)
    path.write_bytes(Document.parse(path.read_bytes(), "yaml").rewritten(value).data)
    clock.jump(2000)
    essay.session.note("going on")


PARTS = ("stages", *dict.fromkeys(p for f in fields.FIELDS if (p := f.path.rpartition(".")[0])))


def faults(essay: Essay) -> list[str]:
    where = Where(root=str(essay.folder), names=frozenset(os.listdir(essay.folder)))
    found = FORMAT.check({fields.STATE: essay.file}, where)
    return [f.what for f in found if f.severity == ERROR or f.code == "missing-key"]


@pytest.mark.req("S3-10", "S3-25", "S3-114")
def test_section_that_another_program_starts_does_not_move_the_stage(
    essay: Essay, clock: FakeClock
) -> None:
    essay.write(fields.THESIS, THESIS)
    essay.session.essay.approve("G1")
    begun = {**fields.blank_section(3, 1), "status": "in_progress"}
    clock.jump(2000)
    edited(essay, clock, lambda doc: doc["stages"]["stage_3"].update(sections=[begun]))
    third = essay.file["stages"]["stage_3"]
    assert (essay.file["current_stage"], third["current_section"]) == (2, None)
    assert third["sections"] == [begun]
    assert essay.session.status().next.startswith("structure the essay")


@pytest.mark.req("S3-10", "S3-11")
def test_the_name_of_the_stage_follows_a_number_that_another_program_wrote(
    essay: Essay, clock: FakeClock
) -> None:
    essay.at_sections()
    edited(essay, clock, lambda doc: doc.update(current_stage=4))
    assert essay.file["current_stage_name"] == "paragraph_writing"
    assert faults(essay) == []


@pytest.mark.parametrize(
    "path, value",
    [("current_stage", "4"), ("status", "gone fishing"), ("stages.stage_3.sections", {"1": {}})],
)
def test_an_invalid_value_is_reported_and_removed(
    essay: Essay, clock: FakeClock, path: str, value: object
) -> None:
    notices: list[str] = []
    essay.session.context.on_notice = notices.append
    essay.at_sections()
    above, _, key = path.rpartition(".")
    edited(
        essay,
        clock,
        lambda doc: fields.value_at(doc, above).update({key: value}),
    )
    assert f"{path} was given an invalid value" in notices[-1] and faults(essay) == []


@pytest.mark.req("S3-94")
@pytest.mark.parametrize("key", ["output", "voice_calibration", "revision_history"])
def test_file_that_ends_before_a_template_key_is_damaged_and_repaired(
    stay: Forestay, essay: Essay, clock: FakeClock, key: str
) -> None:
    essay.at_sections()
    path = essay.folder / fields.STATE
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.index(f"\n{key}:".encode()) + 1])
    clock.jump(2000)
    essay.session.note("going on")
    assert "it breaks off" in essay.session.files.list()[0].suspended
    stay.doctor(fix=True)
    assert faults(essay) == [] and key in essay.file


@pytest.mark.parametrize("path", [*PARTS, *(field.path for field in fields.FIELDS)])
def test_a_removed_template_key_is_restored_and_reported(
    essay: Essay, clock: FakeClock, path: str
) -> None:
    notices: list[str] = []
    essay.session.context.on_notice = notices.append
    essay.at_sections()
    clock.jump(2000)
    essay.session.note("later")
    above, _, key = path.rpartition(".")
    before = essay.file

    def take_out(doc: dict[str, Any]) -> None:
        fields.value_at(doc, above).pop(key)
        others = dict(doc)
        doc.clear()
        doc.update({"theirs": 1, **others})  # otherwise a file without its last key counts as torn

    edited(essay, clock, take_out)
    assert faults(essay) == []
    assert f"{path} was removed" in notices[-1]
    assert list(essay.file) == ["theirs", *before]
    assert (
        fields.value_at(essay.file, path) == fields.value_at(before, path)
        or path == "last_activity"
    )
    count = len(notices)
    clock.jump(2000)
    essay.session.note("going on")
    assert len(notices) == count


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("status", 5),
        ("status", "resting"),
        ("pushback_level", 7),
        ("current_stage", 9),
        ("current_stage_name", "writing"),
        ("stages", None),
        ("stages.stage_1.status", None),
        ("stages.stage_1.thesis_file", ["a"]),
        ("stages.stage_2", "done"),
        ("stages.stage_2.total_sections", "two"),
        ("stages.stage_3.sections", "two"),
        ("stages.stage_4.sections", 2),
        ("stages.stage_4.completed_at", "soon"),
        ("voice_calibration", []),
        ("deferred_verifications", "none"),
    ],
)
def test_a_meaningless_value_is_corrected_and_reported(
    essay: Essay, clock: FakeClock, path: str, value: object
) -> None:
    notices: list[str] = []
    essay.session.context.on_notice = notices.append
    essay.at_sections()
    above, _, key = path.rpartition(".")
    edited(
        essay,
        clock,
        lambda doc: fields.value_at(doc, above).update({key: value}),
    )
    assert faults(essay) == []
    assert f"not recorded: {path}" in notices[-1]


def test_removed_unknown_key_is_not_restored(essay: Essay, clock: FakeClock) -> None:
    edited(essay, clock, lambda doc: doc.update(mood="calm"))
    edited(essay, clock, lambda doc: doc.pop("mood"))
    assert "mood" not in essay.file


def test_gaps_in_an_unchanged_file_stay(essay: Essay) -> None:
    tree = {fields.STATE: {key: v for key, v in essay.file.items() if key != "output"}}
    assert FORMAT.put(tree, FORMAT.get(tree, Where()), Where()) == tree


# -- essays that another program began ---------------------------------------------------------


def foreign(folder: Path, stage: int) -> None:
    """Write an essay like another program: stage 4 has no sections before they are written."""
    doc = fields.blank()
    doc.update(pipeline_id=f"essay-{derive_uuid('it')}", started_at=AT, last_activity=AT)
    doc.update(session_dir=str(folder), current_stage=stage)
    doc["current_stage_name"] = fields.STAGES[stage].name
    for number in range(1, stage):
        doc["stages"][f"stage_{number}"].update(status="completed", completed_at=AT)
    doc["stages"][f"stage_{stage}"].update(status="in_progress", current_section=1)
    names = [fields.ARGUMENTS.format(n) for n in (1, 2)]
    doc["stages"]["stage_1"]["thesis_file"] = f"{folder}/{fields.THESIS}"
    doc["stages"]["stage_2"].update(outline_file=f"{folder}/{fields.OUTLINE}", total_sections=2)
    done = {"status": "completed", "completed_at": AT} if stage > 3 else {"status": "in_progress"}
    doc["stages"]["stage_3"].update(
        total_sections=2,
        sections=[
            {**fields.blank_section(3, n), **done, "argument_map_file": f"{folder}/{names[n - 1]}"}
            for n in (1, 2)
        ],
    )
    doc["stages"]["stage_4"]["sections"] = None
    folder.mkdir()
    texts = [(fields.THESIS, THESIS), (fields.OUTLINE, OUTLINE), (fields.DRAFT, DRAFT)]
    for name, text in (*texts, *((name, MAP) for name in names)):
        (folder / name).write_text(text)
    (folder / fields.STATE).write_bytes(fresh("yaml", doc))


AT = "2023-11-14T20:00:00Z"


@pytest.mark.req("S3-40", "S3-126", "X3-3")
@pytest.mark.parametrize("stage", [3, 4])
def test_essay_of_another_program_can_be_completed(
    stay: Forestay, tmp_path: Path, stage: int
) -> None:
    foreign(tmp_path / "essay", stage)
    (adopted,) = stay.files.adopt(str(tmp_path / "essay"))
    session = stay.use(adopted.session)
    if stage == 3:
        assert session.status().next.startswith("argue section 1; then: forestay essay approve G3")
        session.essay.approve("G3", section=1)
        session.essay.approve("G3", section=2)
        session.essay.approve("G3-Final")
    assert session.status().next.startswith("write paragraph 1 of section 1")
    assert [one.paragraphs for one in session.essay.sections.list()][1] == "pending"
    for section, paragraphs in ((1, 2), (2, 1)):
        for number in range(1, paragraphs + 1):
            last = number == paragraphs
            session.essay.approve("G4", section=section, paragraph=number, last=last)
        session.essay.approve("G4-Section", section=section)
    (tmp_path / "essay" / fields.FINAL).write_text(DRAFT)
    session.essay.approve("G5")
    assert faults(Essay(session)) == []
    assert session.status().status == "completed"


@pytest.mark.req("S3-36", "S3-37", "S3-126")
def test_current_section_of_another_program_stays_in_its_file(
    stay: Forestay, tmp_path: Path
) -> None:
    foreign(tmp_path / "essay", 4)
    (adopted,) = stay.files.adopt(str(tmp_path / "essay"))
    session = stay.use(adopted.session)
    session.note("looked at")
    assert Essay(session).file["stages"]["stage_4"]["current_section"] == 1
    assert "Section 1 of 2" in essays.resume_summary(stay.context, session.id)


@pytest.mark.req("S3-40", "X3-2")
def test_a_section_that_another_program_adds_has_to_be_written_too(
    essay: Essay, clock: FakeClock
) -> None:
    session = essay.at_sections()
    added = fields.blank_section(3, 3)
    essay.write(fields.ARGUMENTS.format(3), MAP)
    edited(
        essay,
        clock,
        lambda doc: doc["stages"]["stage_3"].update(
            total_sections=3, sections=[*doc["stages"]["stage_3"]["sections"], added]
        ),
    )
    essay.argued(1, 2, 3).essay.approve("G3-Final")
    assert len(essay.file["stages"]["stage_4"]["sections"]) == 3
    essay.write(fields.FINAL, DRAFT)
    for section in (1, 2):
        session.essay.approve("G4", section=section, last=True)
        session.essay.approve("G4-Section", section=section)
    refused(session, lambda: session.essay.approve("G5"), "section 3 is not completed")


@pytest.mark.req("S3-111")
def test_a_section_removed_by_another_program_is_restored(essay: Essay, clock: FakeClock) -> None:
    essay.at_sections()
    essay.argued(1)
    listed = essay.file["stages"]["stage_3"]["sections"]
    kept = listed[1:]
    edited(
        essay,
        clock,
        lambda doc: doc["stages"]["stage_3"].update(
            total_sections=1, sections=kept, current_section=2
        ),
    )
    assert faults(essay) == []
    third = essay.file["stages"]["stage_3"]
    assert (third["total_sections"], third["sections"]) == (2, listed)


@pytest.mark.req("S3-50", "S3-56", "X3-2")
def test_the_same_words_claimed_in_two_places_are_two_claims(
    essay: Essay, clock: FakeClock
) -> None:
    session = essay.at_sections()
    entries = [
        {"claim_text": "Nine in ten", "section": n, "paragraph": None, "reason": "timeout"}
        | {"added_at": AT, "resolved": False}
        for n in (1, 2)
    ]
    edited(essay, clock, lambda doc: doc.update(deferred_verifications=entries))
    assert [claim.section for claim in session.essay.claims.list()] == [1, 2]
    edited(essay, clock, lambda doc: doc["deferred_verifications"][1].update(resolved=True))
    assert [claim.is_open for claim in session.essay.claims.list()] == [True, False]
    assert [one["resolved"] for one in essay.file["deferred_verifications"]] == [False, True]
    edited(essay, clock, lambda doc: doc["deferred_verifications"].pop(1))
    assert [claim.is_open for claim in session.essay.claims.list()] == [True, False]


def test_right_one_of_two_own_claims_with_the_same_words_is_resolved(
    essay: Essay, clock: FakeClock
) -> None:
    session = essay.at_sections()
    for section in (1, 2):
        session.essay.claims.defer("Nine in ten", reason="timeout", section=section)
    edited(essay, clock, lambda doc: doc["deferred_verifications"][0].update(resolved=True))
    assert [(c.id, c.is_open) for c in session.essay.claims.list()] == [("c1", False), ("c2", True)]
    assert [one["resolved"] for one in essay.file["deferred_verifications"]] == [True, False]


def test_section_found_only_in_stage_4_is_argued_before_it_is_written(
    essay: Essay,
) -> None:
    session = essay.at_sections()
    essay.argued(1, 2)
    path, doc = essay.folder / fields.STATE, essay.file
    stage = doc["stages"]["stage_4"]
    stage["sections"].append({**stage["sections"][1], "section_index": 3})
    path.write_text(yaml.safe_dump(doc, sort_keys=False))
    session.note("taken up")
    for act in (lambda: session.essay.sections.start(3), lambda: session.essay.sections.done(3)):
        assert refused(session, act, "there is no section 3").legal == ["essay section add 3"]
    final = refused(session, lambda: session.essay.approve("G3-Final"), "as a whole yet")
    assert final.legal == ["essay section add 3"]
    session.essay.sections.add(3)
    essay.write(fields.ARGUMENTS.format(3), MAP)
    essay.argued(3).essay.approve("G3-Final")
    assert [s["section_index"] for s in essay.file["stages"]["stage_4"]["sections"]] == [1, 2, 3]
