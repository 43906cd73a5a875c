"""Projects for tests, closed when the test is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.mirror.support import Project

Make = Callable[..., Project]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Project] = []

    def project(*layouts: str, git: bool = False) -> Project:
        made.append(Project(tmp_path, *layouts, git=git))
        return made[-1]

    yield project
    for each in made:
        each.home.close()
