"""Report from a test run (a pytest plugin) which tests have marks, and which one caught a mutant.

A failure counts when the test itself reports that something is wrong: an assertion, an error that
was not raised, or an unexpected error of Forestay. A failure of a program that no longer loads does
not show that the test protects anything. The first failure that counts ends the run.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import msgspec
import pytest

from forestay.errors import ForestayError

_COUNTING = (AssertionError, pytest.fail.Exception, ForestayError)


class WitnessReport(msgspec.Struct):
    marks: dict[str, list[str]] = {}
    caught: str = ""
    other: list[str] = []
    """Failures that do not count."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--witness", metavar="FILE", help="where to write the report")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Witness(Path(config.getoption("--witness"))))


class Witness:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.report = WitnessReport()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.report.marks = {
            item.nodeid: [str(n) for mark in item.iter_markers("req") for n in mark.args]
            for item in session.items
        }

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.failed and call.excinfo is not None:
            self._record(item, call.excinfo)
        return report

    def _record(self, item: pytest.Item, error: pytest.ExceptionInfo[BaseException]) -> None:
        if counts_as_caught(error.value):
            self.report.caught = item.nodeid
            item.session.shouldstop = "caught"
        else:
            self.report.other.append(f"{item.nodeid}: {error.exconly()[:200]}")

    def pytest_sessionfinish(self) -> None:
        self.path.write_bytes(msgspec.json.encode(self.report))


def counts_as_caught(error: BaseException) -> bool:
    """Return whether a failure is about the behaviour under test."""
    if isinstance(error, BaseExceptionGroup):
        return any(counts_as_caught(each) for each in error.exceptions)
    return isinstance(error, _COUNTING)
