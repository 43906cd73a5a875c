"""Check that docs/requirements.md and the tests agree (a pytest plugin).

A *number* names one requirement, such as S0-12; its *document* is the part before the hyphen.
Each number has one line of the list, with exactly one *class*:

    - S0-12 [tested] …                        a test marked req("S0-12") ran and passed
    - S0-12 [documented: docs/x.md#anchor] …  about people or process; the place names the number
    - S0-12 [refused: reason] …               not done, on purpose
    - S0-12 [later: feature] …                comes with a feature that does not exist yet

With `--conformance` a run fails when list, marks and outcomes disagree, and prints one line per
document. Reading, judging and counting are plain functions; the hooks below only feed them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

LIST = Path("docs/requirements.md")
CLASSES = ("tested", "documented", "refused", "later")
FEATURES = ("formats", "plans", "agents", "teleport", "server")

_HEADING = re.compile(r"^## (?P<document>[SX]\d) .*\((?P<total>\d+)\)$")
_LINE = re.compile(
    r"^- (?P<number>(?P<document>[SX]\d)-(?P<n>\d+)) "
    r"(?:\[(?P<kind>\w+)(?:: (?P<detail>[^\]]+))?\] )?(?P<text>\S.*)$"
)


@dataclass(frozen=True)
class Requirement:
    number: str
    document: str
    kind: str
    detail: str
    text: str


@dataclass
class Requirements:
    """Hold the parsed list: totals from the headings, and one entry per number."""

    totals: dict[str, int] = field(default_factory=dict)
    entries: dict[str, Requirement] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Outcome:
    """Hold the result of one marked test: passed, failed or skipped."""

    test: str
    number: str
    result: str


# --- marking -----------------------------------------------------------------------------------


def marked(rows: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Return the rows of a table of cases, each marked with the number in its last column."""
    return [pytest.param(*row, marks=pytest.mark.req(row[-1]) if row[-1] else ()) for row in rows]


# --- reading -----------------------------------------------------------------------------------


def read(text: str) -> Requirements:
    """Parse the list in `text`; errors in its form are added to `problems`."""
    found = Requirements()
    for line in text.splitlines():
        if heading := _HEADING.match(line):
            found.totals[heading["document"]] = int(heading["total"])
        elif re.match(r"^- [SX]\d", line):
            _read_line(line, found)
    found.problems += _gaps(found)
    return found


def _read_line(line: str, found: Requirements) -> None:
    match = _LINE.match(line)
    if match is None:
        found.problems.append(f"cannot be read: {line}")
        return
    number, kind, detail = match["number"], match["kind"] or "", match["detail"] or ""
    if number in found.entries:
        found.problems.append(f"{number} is listed twice")
    found.entries[number] = Requirement(number, match["document"], kind, detail, match["text"])


def _gaps(found: Requirements) -> Iterator[str]:
    """Yield missing numbers: the totals in headings reveal a lost line, even the last one."""
    for document, total in found.totals.items():
        for n in range(1, total + 1):
            if f"{document}-{n}" not in found.entries:
                yield f"{document}-{n} is in no class: it is not in the list"
    for entry in found.entries.values():
        total = found.totals.get(entry.document, 0)
        if not 1 <= int(entry.number.partition("-")[2]) <= total:
            yield f"{entry.number} is beyond the {total} its document's heading announces"


# --- judging -----------------------------------------------------------------------------------


def judge(found: Requirements, outcomes: Sequence[Outcome], root: Path) -> list[str]:
    """Return every disagreement between the list, the marks and the results of the tests."""
    problems = list(found.problems)
    for entry in found.entries.values():
        problems += _judge_class(entry, root)
    problems += _judge_marks(found, outcomes)
    passed = {outcome.number for outcome in outcomes if outcome.result == "passed"}
    for entry in found.entries.values():
        if entry.kind == "tested" and entry.number not in passed:
            problems.append(f"{entry.number} is [tested], but no test marked with it has passed")
    return problems


def _judge_class(entry: Requirement, root: Path) -> Iterator[str]:
    number, kind, detail = entry.number, entry.kind, entry.detail
    if kind not in CLASSES:
        yield f"{number} is in no class: begin with one of [{'], ['.join(CLASSES)}]"
    elif kind == "tested" and detail:
        yield f"{number}: [tested] has no detail; the marks name the tests"
    elif kind != "tested" and not detail:
        yield f"{number}: [{kind}: …] must name {_DETAILS[kind]}"
    elif kind == "later" and detail not in FEATURES:
        yield f"{number}: [later: {detail}] names no feature; they are {', '.join(FEATURES)}"
    elif kind == "documented":
        yield from _judge_place(number, detail, root)


_DETAILS = {"documented": "a place (file#heading)", "refused": "a reason", "later": "a feature"}


def _judge_marks(found: Requirements, outcomes: Sequence[Outcome]) -> Iterator[str]:
    for outcome in outcomes:
        entry = found.entries.get(outcome.number)
        if entry is None:
            yield f"{outcome.test} is marked with {outcome.number}, which is in no list"
        elif entry.kind != "tested":
            yield f"{outcome.test} is marked with {outcome.number}, which is [{entry.kind}]"
        if outcome.result == "skipped":
            yield f"{outcome.test}, marked with {outcome.number}, was skipped"


def _judge_place(number: str, place: str, root: Path) -> Iterator[str]:
    text = section(place, root)
    if text is None:
        yield f"{number}: [documented: {place}] is a place that does not exist"
    elif number not in re.findall(r"[SX]\d-\d+", text):
        yield f"{number}: [documented: {place}] is a place that does not name it"


def section(place: str, root: Path) -> str | None:
    """Return the text under the heading named by `file#heading`, or None."""
    name, _, anchor = place.partition("#")
    path = root / name
    if not anchor or not path.is_file():
        return None
    for part in re.split(r"^#+ ", path.read_text(encoding="utf-8"), flags=re.M)[1:]:
        heading, _, text = part.partition("\n")
        if slug(heading) == anchor:
            return text
    return None


def slug(heading: str) -> str:
    """Return the anchor of a heading in the rendered page."""
    letters = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return letters.replace(" ", "-")


# --- counting ----------------------------------------------------------------------------------


def summary(found: Requirements) -> list[str]:
    """Return one line per document, then the total."""
    rows = [
        (document, [e.kind for e in found.entries.values() if e.document == document], total)
        for document, total in found.totals.items()
    ]
    everything = [entry.kind for entry in found.entries.values()]
    rows.append(("total", everything, sum(found.totals.values())))
    return [_row(name, kinds, total) for name, kinds, total in rows]


def _row(name: str, kinds: Sequence[str], total: int) -> str:
    counts = " ".join(f"{kind} {kinds.count(kind)}" for kind in CLASSES)
    return f"{name} {counts} of {total}"


# --- the plugin --------------------------------------------------------------------------------


class Conformance:
    """Collect the outcomes of marked tests, also from worker processes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.results: dict[tuple[str, str], str] = {}
        self.problems: list[str] = []
        self.lines: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == "req":
                key = (report.nodeid, str(value))
                self.results[key] = _worse(self.results.get(key, "passed"), report.outcome)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        found = read((self.root / LIST).read_text(encoding="utf-8"))
        outcomes = [
            Outcome(test, number, result) for (test, number), result in self.results.items()
        ]
        self.problems = judge(found, outcomes, self.root)
        self.lines = summary(found)
        if self.problems:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        elif session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("conformance")
        for line in self.lines:
            terminalreporter.line(line)
        for problem in self.problems:
            terminalreporter.line(f"PROBLEM {problem}", red=True)


def _worse(one: str, other: str) -> str:
    """Return the worse outcome: set-up, call and tear-down must all pass."""
    return max(one, other, key=("passed", "skipped", "failed").index)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--conformance",
        action="store_true",
        help="fail when docs/requirements.md and the marked tests disagree; print the counts",
    )


def pytest_configure(config: pytest.Config) -> None:
    is_worker = hasattr(config, "workerinput")
    if config.getoption("--conformance") and not is_worker:
        config.pluginmanager.register(Conformance(config.rootpath), "forestay-conformance")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark in item.iter_markers("req"):
            item.user_properties += [("req", str(number)) for number in mark.args]
