"""Fixtures: a home, a project folder, and the tools that serve them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import forestay
from forestay.mcp.responses import Answer
from forestay.mcp.tools import ToolRunner

Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def runner(home: Path, project: Path) -> Iterator[ToolRunner]:
    notices: list[str] = []
    with forestay.open(actor="mcp", on_notice=notices.append) as stay:
        yield ToolRunner(stay, notices)


@pytest.fixture
def call(runner: ToolRunner) -> Callable[..., Answer]:
    """Return a function that calls a tool, `call("start", goal="x")`, and returns its answer."""
    return lambda tool, **arguments: runner.call(tool, arguments)


@pytest.fixture
def ask(runner: ToolRunner) -> Ask:
    """Return a function that calls a tool, requires success, and returns the values."""

    def ask(tool: str, **arguments: Any) -> dict[str, Any]:
        answer = runner.call(tool, arguments)
        assert answer.values["ok"] and not answer.is_error, answer.values
        return answer.values

    return ask
