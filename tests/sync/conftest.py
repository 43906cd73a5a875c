"""What tests of remotes share: servers, each started once for a whole run, devices, quick keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forestay.api.forestay import Forestay
from tests import servers
from tests.faulty_remotes import MemoryRemote
from tests.servers import Server
from tests.sync.people import World
from tests.sync.quick import seal_quickly
from tests.sync.travelling import Travellers


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return servers.folder_of_run(tmp_path_factory)


@pytest.fixture(scope="session")
def seaweedfs(shared_folder: Path) -> Iterator[Server]:
    with servers.bucket(shared_folder) as server:
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


@pytest.fixture
def travellers(tmp_path: Path) -> Iterator[Travellers]:
    """Devices of one person, as many as are made."""
    made = Travellers(tmp_path)
    yield made
    for home in made.homes:
        home.close()


@pytest.fixture
def remote() -> MemoryRemote:
    return MemoryRemote()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Persons and their devices, as many as are made."""
    made = World(tmp_path)
    yield made
    for stay in made.homes:
        stay.close()


@pytest.fixture
def ann(world: World) -> Forestay:
    """A person with a session that others would like to have."""
    stay = world.person("ann")
    stay.start("Add login", id="login").note("precious")
    return stay
