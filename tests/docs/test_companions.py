"""docs/companions.md answers every line X of the requirements, and agrees with them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from forestay.cli.table import COMMANDS
from tests.conformance import read, section

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (X\d-\d+) \| (\w+) \| (\S.*) \|$", re.M)

# The classes that an answer may have in the list of requirements.
CLASSES = {
    "adopted": {"tested"},
    "adapted": {"tested", "documented"},
    "refused": {"refused"},
    "later": {"later"},
}


def answers() -> list[tuple[str, str, str]]:
    found = ROW.findall((ROOT / "docs/companions.md").read_text(encoding="utf-8"))
    return [(number, word, how) for number, word, how in found]


def requirements() -> dict[str, tuple[str, str]]:
    listed = read((ROOT / "docs/requirements.md").read_text(encoding="utf-8"))
    return {n: (e.kind, e.detail) for n, e in listed.entries.items() if n.startswith("X")}


def test_every_companion_requirement_has_exactly_one_answer() -> None:
    assert sorted(number for number, _, _ in answers()) == sorted(requirements())


def test_answer_to_each_companion_requirement_agrees_with_its_class() -> None:
    listed = requirements()
    for number, word, how in answers():
        kind, detail = listed[number]
        assert kind in CLASSES[word], f"{number} is {word} here and [{kind}] there"
        if word == "later":
            assert how.startswith(f"{detail}: "), f"{number} comes with {detail}"


def test_every_adopted_companion_has_a_test() -> None:
    marks = re.compile(r"mark\.req\(([^)]*)\)")
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    marked = {
        n for text in texts for mark in marks.findall(text) for n in re.findall(r"X\d-\d+", mark)
    }
    assert {number for number, word, _ in answers() if word == "adopted"} <= marked


@pytest.mark.req("S2-94")
def test_references_in_source_document_2_are_answered() -> None:
    """Check the answers to a resume command, an agent and a guide that was never written."""
    text = section("docs/process.md#where-the-requirements-come-from", ROOT) or ""
    (row,) = [line for line in text.splitlines() if line.startswith("| S2-94 |")]
    assert "resume" in COMMANDS and "the guide was never written" in row
    answered = {number.partition("-")[0] for number, _, _ in answers()}
    assert set(re.findall(r"\bX\d\b", row)) == {"X2", "X4"} <= answered
