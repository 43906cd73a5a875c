"""What a test run saw (a pytest plugin): which tests have marks, and which one failed of its own.

A failure counts when the test itself says that something is wrong: an assertion, an error that was
not raised, or an error of ours that should not have been. One that comes from a program that no
longer loads says nothing of what the test protects. The first that counts ends the run.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import msgspec
import pytest

from forestay.errors import ForestayError

_TELLING = (AssertionError, pytest.fail.Exception, ForestayError)


class Seen(msgspec.Struct):
    marks: dict[str, list[str]] = {}
    caught: str = ""
    other: list[str] = []
    """Failures that do not count."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--witness", metavar="FILE", help="where to write what was seen")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Witness(Path(config.getoption("--witness"))))


class Witness:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.seen = Seen()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.seen.marks = {
            item.nodeid: [str(n) for mark in item.iter_markers("req") for n in mark.args]
            for item in session.items
        }

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.failed and call.excinfo is not None:
            self._note(item, call.excinfo)
        return report

    def _note(self, item: pytest.Item, error: pytest.ExceptionInfo[BaseException]) -> None:
        if tells(error.value):
            self.seen.caught = item.nodeid
            item.session.shouldstop = "caught"
        else:
            self.seen.other.append(f"{item.nodeid}: {error.exconly()[:200]}")

    def pytest_sessionfinish(self) -> None:
        self.path.write_bytes(msgspec.json.encode(self.seen))


def tells(error: BaseException) -> bool:
    """Whether a failure says something of the behaviour that the test is about."""
    if isinstance(error, BaseExceptionGroup):
        return any(tells(each) for each in error.exceptions)
    return isinstance(error, _TELLING)
