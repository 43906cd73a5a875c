"""Fixtures: a project folder, a separate home, and the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Cli
from tests.sync.quick import seal_quickly


@pytest.fixture
def cli(home: Path, project: Path) -> Cli:
    return Cli()


@pytest.fixture
def usb(cli: Cli, tmp_path: Path) -> Path:
    """Add a remote in a folder, and create the key of this device."""
    cli.ok("device", "key", "init")
    cli.ok("remote", "add", "usb", f"folder:{tmp_path / 'usb'}")
    return tmp_path / "usb"


@pytest.fixture
def quick_passphrase(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make passphrases cheap to check."""
    import pyrage

    monkeypatch.setattr(pyrage.passphrase, "encrypt", seal_quickly)
