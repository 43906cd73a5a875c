"""Every kind of remote passes the contract tests."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from forestay.sync.remotes.open import open_remote
from forestay.sync.remotes.port import Remote
from forestay.sync.remotes.weak_consistency import ReadBackRemote
from forestay.testing.remote_contract import RemoteContract
from tests.faulty_remotes import MemoryRemote
from tests.servers import Server


class TestFolder(RemoteContract):
    @pytest.fixture
    def opener(self, tmp_path: Path) -> Callable[[], Remote]:
        return partial(open_remote, f"folder:{tmp_path}/remote")


class TestMemory(RemoteContract):
    @pytest.fixture
    def opener(self) -> Callable[[], Remote]:
        return partial(MemoryRemote, {})


class TestBucket(RemoteContract):
    """SeaweedFS."""

    @pytest.fixture
    def opener(self, seaweedfs: Server, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Remote]:
        for name, value in seaweedfs.environment().items():
            monkeypatch.setenv(name, value)
        return partial(open_remote, seaweedfs.address(os.urandom(8).hex()))


class TestReadBack(RemoteContract):
    """rclone, which overwrites existing objects: every write is read back."""

    @pytest.fixture
    def opener(self, rclone: Server, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Remote]:
        for name, value in rclone.environment().items():
            monkeypatch.setenv(name, value)
        address = rclone.address(os.urandom(8).hex())
        return lambda: ReadBackRemote(open_remote(address), late=False)

    def test_probe_leaves_nothing_behind_and_proves_both(self, remote: Remote) -> None:
        probe = remote.probe()
        assert not probe.conditional and "overwrites" in probe.why
        assert [*remote.list("")] == []
