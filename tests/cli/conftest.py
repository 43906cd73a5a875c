"""A folder to work in, a home of its own, and the command line."""

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
    """A remote in a folder, and a key of this device."""
    cli.ok("device", "key", "init")
    cli.ok("remote", "add", "usb", f"folder:{tmp_path / 'usb'}")
    return tmp_path / "usb"


@pytest.fixture
def quick_passphrase(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passphrases that take no time."""
    import pyrage

    monkeypatch.setattr(pyrage.passphrase, "encrypt", seal_quickly)
