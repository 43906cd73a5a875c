"""The impact of a changed step on later ones: proposals with reasons."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forestay.formats.essay.stage_files import Impact, assess_change
from forestay.model.gates.revisit_impact import (
    IMPACTS,
    Assessment,
    Later,
    Output,
    Signal,
    assess,
    diff,
    likeness,
)

TEXT = "The parser reads every line once and keeps what it cannot understand for later."
LATER = [
    Later("t2", "done", ["b.md"]),
    Later("t3", "running", ["c.md"]),
    Later("t4", "pending"),
]


def assessed(old: str | None, new: str | None, **how: object) -> Assessment:
    return assess("t1", [Output("a.md", old, new)], LATER, **how)  # type: ignore[arg-type]


CHANGES = {
    "reworded": (TEXT, TEXT.replace("keeps", "holds"), "minor", "reworded"),
    "unchanged": (TEXT, TEXT, "minor", "as it was"),
    "rewritten in part": (
        TEXT,
        TEXT[:40] + " but nothing else is of any use",
        "moderate",
        "in part",
    ),
    "another text": (TEXT, "Something else entirely, with none of it left", "major", "another"),
    "gone": (TEXT, None, "major", "is gone"),
    "never kept": (None, TEXT, "minor", "nothing to compare"),
    "a new heading": ("# A\n" + TEXT, "# A\n## B\n" + TEXT, "moderate", "headings changed"),
    "other headings": (f"# A\n# B\n{TEXT}", f"# C\n# D\n{TEXT}", "major", "headings changed"),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.req("S3-134", "S3-135", "S3-142")
def test_a_change_is_classified_with_its_reason(name: str) -> None:
    old, new, impact, reason = CHANGES[name]
    found = assessed(old, new)
    assert found.proposed == found.impact == impact
    assert any(reason in text for text in found.reasons), found.reasons


@pytest.mark.req("S3-136", "S3-143")
def test_a_minor_change_marks_done_steps_and_archives_nothing() -> None:
    found = assessed(TEXT, TEXT, impact="minor")
    assert (found.review, found.reset, found.archive) == (["t2"], [], [])


@pytest.mark.req("S3-138", "S3-144")
def test_a_moderate_change_archives_and_marks_affected_steps() -> None:
    found = assessed(TEXT, TEXT, impact="moderate")
    assert (found.review, found.reset, found.archive) == (["t2"], [], ["b.md", "c.md"])


@pytest.mark.req("S3-140", "S3-145")
def test_a_major_change_archives_everything_and_begins_again() -> None:
    found = assessed(TEXT, TEXT, impact="major")
    assert (found.review, found.reset) == ([], ["t2", "t3"])
    assert found.archive == ["b.md", "c.md"]


def test_another_impact_can_be_chosen_and_the_proposal_stays_visible() -> None:
    found = assessed(TEXT, "wholly other words", impact="minor")
    assert (found.proposed, found.impact) == ("major", "minor")


@pytest.mark.req("S3-137")
def test_a_change_of_one_section_concerns_that_section() -> None:
    one = Output("outline", "a", "b", [Signal("moderate", "section 2 changed", [2])])
    later = [Later("s1", "done", ["1"], [1]), Later("s2", "done", ["2"], [2])]
    found = assess("o", [one], later)
    assert (found.review, found.archive) == (["s2"], ["2"])


def test_no_later_phase_stays_running_when_a_phase_is_revisited() -> None:
    found = assessed(TEXT, TEXT, in_order=True)
    assert (found.review, found.reset) == (["t2"], ["t3"])
    done = [Later("p2", "done"), Later("p3", "done")]
    found = assess("p1", [], done, in_order=True)
    assert (found.review, found.reset) == (["p2"], ["p3"])


@pytest.mark.req("S3-141")
def test_the_assessment_shows_the_change_line_by_line() -> None:
    found = assessed("one\ntwo\n", "one\nthree\n")
    assert found.diff[-3:] == [" one", "-two", "+three"] and found.changed == ["a.md"]


def test_a_long_change_is_cut_and_the_rest_counted() -> None:
    long = "\n".join(map(str, range(900)))
    assert diff(Output("a", "", long))[-1].startswith("… and ")
    assert "too long" in diff(Output("a", "", "\n" * 10_000))[0]


def test_long_texts_are_compared_in_bounded_time() -> None:
    began = time.monotonic()
    assert likeness("a b " * 300_000, "b a c " * 300_000) < 1
    assert likeness("a " * 1999, "a b " * 999) > 0
    assert time.monotonic() - began < 60


@given(st.text(max_size=200), st.text(max_size=200), st.sampled_from(["", *IMPACTS]))
def test_any_change_is_assessed_with_an_impact_and_reasons(old: str, new: str, impact: str) -> None:
    found = assessed(old, new, impact=impact)
    assert found.impact in IMPACTS and found.reasons
    assert likeness(old, new) == likeness(old, new) and 0 <= likeness(old, new) <= 1


# -- essays ------------------------------------------------------------------------------------

THESIS = "# Thesis\n\n## Thesis Statement\n\n{}\n\n## Claim Type\n\n{}\n"
STATED = "Cities that remove parking minimums build more homes at lower cost"
OUTLINE = "# Outline\n\n" + "".join(
    f"### Section {n}: Part {n} (~300 words)\n\nWhat part {n} says about topic {n * 7}.\n\n"
    for n in (1, 2, 3, 4)
)


def impact_of(name: str, old: str, new: str) -> Impact:
    found = assess_change(name, old, new, likeness)
    assert found is not None
    return found


def of_thesis(statement: str, kind: str = "argument") -> tuple[str, str]:
    old, new = THESIS.format(STATED, "argument"), THESIS.format(statement, kind)
    return impact_of("stage-1-thesis.md", old, new)[:2]


def of_outline(new: str) -> tuple[str, str, list[int]]:
    return impact_of("stage-2-outline.md", OUTLINE, new)


@pytest.mark.req("S3-139")
def test_another_claim_type_changes_the_direction_of_an_essay() -> None:
    impact, reason = of_thesis(STATED, "explainer")
    assert impact == "major" and "argument → explainer" in reason


def test_a_thesis_that_is_reworded_is_minor_and_another_one_major() -> None:
    assert of_thesis(STATED.replace("build", "make"))[0] == "minor"
    assert of_thesis("Whales sing for reasons nobody has found")[0] == "major"


def test_sections_of_an_outline_that_changed_are_named() -> None:
    changed = OUTLINE.replace("What part 2 says about topic 14.", "Nothing of the kind at all now.")
    assert of_outline(changed)[0::2] == ("moderate", [2])
    assert of_outline(OUTLINE.replace("says", "tells"))[0] == "minor"
    lost = OUTLINE.partition("### Section 4")[0]
    assert of_outline(lost) == ("moderate", "the outline changed (without section 4)", [4])
    assert of_outline("# Outline\n\n### Section 9: All new\n")[0] == "major"


def test_arguments_concern_their_own_section() -> None:
    name = "stage-3-section-2-arguments.md"
    impact, _, sections = impact_of(name, "one two three", "four five six")
    assert (impact, sections) == ("moderate", [2])
    assert assess_change("stage-4-draft.md", "a", "b", likeness) is None
