"""The tools of MCP work the same with sessions on a PostgreSQL server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mcp.test_tools import test_fourteen_specified_actions_are_possible

SAMPLE = [test_fourteen_specified_actions_are_possible]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pg_store: str) -> Path:
    path = tmp_path / "home"
    monkeypatch.setenv("FORESTAY_HOME", str(path))
    monkeypatch.setenv("FORESTAY_STORE", pg_store)
    return path
