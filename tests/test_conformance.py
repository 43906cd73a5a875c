"""The list of requirements is complete, and the conformance plugin reports disagreements."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import conformance
from tests.conformance import Outcome, judge, read, summary

ROOT = Path(__file__).parent.parent

GOOD = """
## S0 a document (4)

- S0-1 [tested] Shown by a test.
- S0-2 [documented: docs/process.md#how-we-change-it] Described in a document.
- S0-3 [refused: it would lose data] Not done.
- S0-4 [later: formats] Comes with a feature.

## X0 its companion (1)

- X0-1 [later: plans] A thing only the companion knows.
"""
PROCESS = """
# Process

## How we change it

By agreement (S0-2).

## How we name it

Shortly (S0-20).
"""
PASSED = Outcome("test_a", "S0-1", "passed")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/process.md").write_text(PROCESS)
    return tmp_path


def test_list_and_tests_that_agree_have_no_problem(root: Path) -> None:
    assert judge(read(GOOD), [PASSED], root) == []


def test_summary_is_one_line_per_document_and_a_total() -> None:
    assert summary(read(GOOD)) == [
        "S0 tested 1 documented 1 refused 1 later 1 of 4",
        "X0 tested 0 documented 0 refused 0 later 1 of 1",
        "total tested 1 documented 1 refused 1 later 2 of 5",
    ]


@pytest.mark.parametrize(
    "old, new, problem",
    [
        ("[tested] Shown", "Shown", "S0-1 is in no class"),
        ("[tested]", "[done]", "S0-1 is in no class"),
        ("- S0-4 [later: formats] Comes with a feature.\n", "", "S0-4 is in no class"),
        ("- X0-1 ", "- X0-2 ", "X0-1 is in no class"),
        ("- X0-1 ", "- X0-2 ", "X0-2 is beyond"),
        ("- S0-4 ", "- S0-3 ", "S0-3 is listed twice"),
        ("- S0-4 [later: formats] Comes with a feature.", "- S0-4: soon", "cannot be read"),
        ("[tested]", "[tested: here]", "[tested] has no detail"),
        ("[refused: it would lose data]", "[refused]", "must name a reason"),
        ("[later: formats]", "[later]", "must name a feature"),
        ("[later: formats]", "[later: someday]", "names no feature"),
        ("docs/process.md#how", "docs/absent.md#how", "a place that does not exist"),
        ("#how-we-change-it", "#how-we-store-it", "a place that does not exist"),
        ("#how-we-change-it", "", "a place that does not exist"),
        ("#how-we-change-it", "#how-we-name-it", "a place that does not name it"),
        ("#how-we-change-it", "#process", "a place that does not name it"),
    ],
)
def test_flaw_in_the_list_is_a_problem(root: Path, old: str, new: str, problem: str) -> None:
    assert old in GOOD
    assert problem in "\n".join(judge(read(GOOD.replace(old, new)), [PASSED], root))


@pytest.mark.parametrize(
    "outcomes, problem",
    [
        ([], "S0-1 is [tested], but no test marked with it has passed"),
        ([Outcome("test_a", "S0-1", "failed")], "no test marked with it has passed"),
        ([PASSED, Outcome("test_b", "S0-1", "skipped")], "test_b, marked with S0-1, was skipped"),
        ([PASSED, Outcome("test_b", "S0-99", "passed")], "S0-99, which is in no list"),
        ([PASSED, Outcome("test_b", "S0-4", "passed")], "S0-4, which is [later]"),
        ([PASSED, Outcome("test_b", "S0-3", "passed")], "S0-3, which is [refused]"),
    ],
)
def test_mark_that_disagrees_with_the_list_is_a_problem(
    root: Path, outcomes: list[Outcome], problem: str
) -> None:
    assert problem in "\n".join(judge(read(GOOD), outcomes, root))


def test_own_list_is_well_formed() -> None:
    found = read((ROOT / conformance.LIST).read_text(encoding="utf-8"))
    marked = [
        Outcome("any", e.number, "passed") for e in found.entries.values() if e.kind == "tested"
    ]
    assert judge(found, marked, ROOT) == []


def test_own_list_has_every_number_of_the_five_documents_and_their_companions() -> None:
    found = read((ROOT / conformance.LIST).read_text(encoding="utf-8"))
    documents = {"S0": 109, "S1": 145, "S2": 94, "S3": 147, "S4": 92}
    companions = {"X0": 12, "X1": 14, "X2": 9, "X3": 10, "X4": 8}
    assert found.totals == documents | companions
    assert len(found.entries) == sum(found.totals.values())


MARKED = """
import pytest

@pytest.mark.req("S0-1")
def test_a():
    {body}

def test_unmarked():
    pass
"""


def _run(
    pytester: pytest.Pytester, body: str, *options: str, listed: str = GOOD
) -> pytest.RunResult:
    docs = pytester.mkdir("docs")
    (docs / "requirements.md").write_text(listed)
    (docs / "process.md").write_text(PROCESS)
    pytester.makeini("[pytest]\nmarkers = req: a requirement\n")
    pytester.makepyfile(MARKED.format(body=body))
    return pytester.runpytest_inprocess("-p", "tests.conformance", "--conformance", *options)


def test_run_without_disagreement_succeeds_and_prints_the_counts(pytester: pytest.Pytester) -> None:
    result = _run(pytester, "pass")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["S0 tested 1 documented 1 refused 1 later 1 of 4", "total *of 5"])


def test_outcomes_of_worker_processes_count(pytester: pytest.Pytester) -> None:
    result = _run(pytester, "pass", "-n1", "-p", "xdist")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["S0 tested 1 documented 1 refused 1 later 1 of 4"])


@pytest.mark.parametrize(
    "body, problem",
    [
        ("pytest.skip('not today')", "PROBLEM *test_a, marked with S0-1, was skipped"),
        ("pytest.xfail('known')", "PROBLEM *test_a, marked with S0-1, was skipped"),
        ("assert False", "PROBLEM S0-1 is [[]tested], but no test marked with it has passed"),
    ],
)
def test_run_fails_if_a_marked_test_did_not_pass(
    pytester: pytest.Pytester, body: str, problem: str
) -> None:
    result = _run(pytester, body)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([problem])


@pytest.mark.parametrize(
    "lost", ["[later: formats] ", "- S0-4 [later: formats] Comes with a feature."]
)
def test_run_with_a_number_in_no_class_fails(pytester: pytest.Pytester, lost: str) -> None:
    result = _run(pytester, "pass", listed=GOOD.replace(lost, ""))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["PROBLEM S0-4 is in no class*"])


def test_run_with_a_mark_for_an_unknown_number_fails(pytester: pytest.Pytester) -> None:
    listed = GOOD.replace("(4)", "(3)").replace("- S0-4 [later: formats] Comes with a feature.", "")
    result = _run(pytester, "pass", listed=listed.replace("S0-", "S1-").replace("## S0", "## S1"))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["PROBLEM *test_a is marked with S0-1, which is in no list"])


def test_run_without_any_marked_test_is_judged_by_the_list(pytester: pytest.Pytester) -> None:
    listed = GOOD.replace("[tested]", "[later: plans]")
    result = _run(pytester, "pass", "-k", "nothing", listed=listed)
    assert result.ret == pytest.ExitCode.OK
