"""Every heading has a kept mutant, and each mutant still applies to the source."""

from __future__ import annotations

from pathlib import Path

import pytest

from forestay.errors import Refused
from tests.mutants import kept
from tests.mutants.kept import Mutant
from tests.mutants.run import run
from tests.mutants.witness import counts_as_caught

LISTED = """
## S0 a document (3)

### One (with a remark)

- S0-1 [tested] A.
- S0-2 [later: plans] B.

### Two

- S0-3 [refused: no] C.

## X0 its companion (1)

- X0-1 [tested] D.
"""
ONE = Mutant("S0 One", "b becomes c", "b", "c")


def test_every_heading_with_a_tested_number_has_an_applicable_mutant() -> None:
    mutants = kept.load_mutants(kept.KEPT.read_text(encoding="utf-8"))
    wanted = kept.headings(kept.LIST.read_text(encoding="utf-8"))
    assert list(kept.problems(mutants, wanted)) == []


def test_headings_include_only_those_with_a_tested_number() -> None:
    found = kept.headings(LISTED)
    assert found == {"S0 One": frozenset({"S0-1"}), "X0": frozenset({"X0-1"})}


@pytest.mark.parametrize("text, times", [("a", "nowhere"), ("b b", "2 times"), ("bb", "2 times")])
def test_a_text_that_does_not_occur_exactly_once_is_an_error(
    tmp_path: Path, text: str, times: str
) -> None:
    (tmp_path / "m.py").write_text(text)
    with pytest.raises(ValueError, match=times):
        kept.find_file(ONE, tmp_path)


def test_a_mutant_changes_only_the_copy(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("a = b\n")
    kept.apply(ONE, tmp_path)
    assert (tmp_path / "m.py").read_text() == "a = c\n"


def test_missing_unknown_and_inapplicable_mutants_are_problems() -> None:
    other = Mutant("S9 Nowhere", "it", "no such text in the source", "x")
    found = list(kept.problems([other], {"S0 One": frozenset({"S0-1"})}))
    assert [line.partition(":")[0] for line in found] == [
        "no mutant is kept for",
        "no such heading, or nothing tested",
        "S9 Nowhere",
    ]


def test_only_a_failure_of_the_test_itself_counts() -> None:
    assert counts_as_caught(AssertionError()) and counts_as_caught(Refused("no"))
    assert counts_as_caught(ExceptionGroup("several", [ValueError(), AssertionError()]))
    assert not any(map(counts_as_caught, (ImportError(), SyntaxError(), NameError(), KeyError())))


# -- running one ---------------------------------------------------------------------------------

TEST = "tests/formats/test_ai_session.py::test_feature_id_is_a_lowercase_slug_and_a_day_that_exists"
SHAPE = "    match = _SHAPE.fullmatch(native_id)\n"
CAUGHT = Mutant("S0 Feature ID", "every text is an id", SHAPE, f"    return '', ''\n{SHAPE}")
BROKEN = Mutant("S0 Feature ID", "nothing loads", SHAPE, "    import no_such_module\n")


def test_a_mutant_is_caught_by_a_test_and_the_source_stays_unchanged() -> None:
    before = kept.find_file(CAUGHT).read_bytes()
    assert run(CAUGHT, [TEST]).caught.startswith(TEST)
    assert kept.find_file(CAUGHT).read_bytes() == before


def test_a_mutant_that_does_not_load_is_not_caught() -> None:
    verdict = run(BROKEN, [TEST])
    assert verdict.caught == "" and "no_such_module" in verdict.why
