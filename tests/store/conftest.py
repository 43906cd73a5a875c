"""A home, and the SQLite store in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forestay.store.sqlite.store import SqliteStore
from tests.store.support import opened


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def store(home: Path) -> Iterator[SqliteStore]:
    made = opened(home)
    yield made
    made.close()
