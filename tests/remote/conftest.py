"""What tests of remotes share: real servers, each started once for a whole run, and quick keys."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import servers
from tests.remote.quick import seal_quickly
from tests.servers import Server


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of this run have."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def seaweedfs(shared_folder: Path) -> Iterator[Server]:
    with servers.shared("seaweedfs", servers.seaweedfs, shared_folder) as server:
        servers.make_bucket((shared_folder / "seaweedfs" / "filer").read_text())
        yield server


@pytest.fixture(scope="session")
def rclone(shared_folder: Path) -> Iterator[Server]:
    with servers.shared("rclone", servers.rclone, shared_folder) as server:
        yield server


@pytest.fixture
def quick_passphrase(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passphrases that take no time: the same format of age, the least work it allows."""
    import pyrage

    monkeypatch.setattr(pyrage.passphrase, "encrypt", seal_quickly)
