"""Every remote there is, held against the contract."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from holdfast.remote import Remote, open_remote
from holdfast.testing.contracts.remote import RemoteContract
from holdfast.testing.storage import MemoryRemote


class TestFolder(RemoteContract):
    @pytest.fixture
    def opener(self, tmp_path: Path) -> Callable[[], Remote]:
        return partial(open_remote, f"folder:{tmp_path}/remote")


class TestMemory(RemoteContract):
    @pytest.fixture
    def opener(self) -> Callable[[], Remote]:
        return partial(MemoryRemote, {})
