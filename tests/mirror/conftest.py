"""Projects for tests, closed when the test is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from forestay.formats import three_way
from tests.mirror.support import Project

Make = Callable[..., Project]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Project] = []

    def project(*formats: str, git: bool = False) -> Project:
        made.append(Project(tmp_path, *formats, git=git))
        return made[-1]

    yield project
    for each in made:
        each.home.close()


@pytest.fixture
def tries(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list of the comparisons that edits cause."""
    found: list[object] = []
    between = three_way._between

    def counted(*sides: Any) -> Any:
        found.append(sides)
        return between(*sides)

    monkeypatch.setattr(three_way, "_between", counted)
    return found
