"""A folder to work in, a home of its own, and the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.remote.quick import seal_quickly
from tests.surface.support import Cli


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home that commands use; it does not exist yet."""
    path = tmp_path / "home"
    monkeypatch.setenv("HOLDFAST_HOME", str(path))
    return path


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that commands are run in."""
    path = tmp_path / "project"
    path.mkdir()
    monkeypatch.chdir(path)
    return path


@pytest.fixture
def cli(home: Path, project: Path) -> Cli:
    return Cli()


@pytest.fixture
def quick_passphrase(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passphrases that take no time."""
    import pyrage

    monkeypatch.setattr(pyrage.passphrase, "encrypt", seal_quickly)
