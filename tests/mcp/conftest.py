"""A home, a folder to work in, and the desk that serves them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import forestay
from forestay.mcp.responses import Answer
from forestay.mcp.tools import Desk

Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def desk(home: Path, project: Path) -> Iterator[Desk]:
    notices: list[str] = []
    with forestay.open(actor="mcp", on_notice=notices.append) as stay:
        yield Desk(stay, notices)


@pytest.fixture
def call(desk: Desk) -> Callable[..., Answer]:
    """`call("start", goal="x")`: what the tool answers, whatever that is."""
    return lambda tool, **arguments: desk.call(tool, arguments)


@pytest.fixture
def ask(desk: Desk) -> Ask:
    """The same, expected to go well."""

    def ask(tool: str, **arguments: Any) -> dict[str, Any]:
        told = desk.call(tool, arguments)
        assert told.values["ok"] and not told.is_error, told.values
        return told.values

    return ask
