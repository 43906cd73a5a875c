"""Two devices and a real storage between them: SeaweedFS, and a folder. Some syncs are killed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forestay.api.forestay import Forestay
from forestay.sync import pack_builder
from forestay.sync.remotes.open import open_remote
from forestay.sync.remotes.port import Remote
from tests.servers import Server
from tests.sync.killed import AFTER, BEFORE, KILLED, Killer, Step
from tests.sync.travelling import Travellers, hashes, opened, travel

Addresses = Callable[[], str]


@pytest.fixture(params=["folder", "bucket"])
def address(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Addresses:
    """Return a function that gives the address of a new, empty remote."""
    if request.param == "folder":
        return lambda: f"folder:{tmp_path}/{os.urandom(4).hex()}"
    server: Server = request.getfixturevalue("seaweedfs")
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    return lambda: server.address(os.urandom(8).hex())


@pytest.fixture
def killer(address: Addresses) -> Iterator[Killer]:
    killer = Killer()
    yield killer
    killer.close()


@pytest.fixture
def small_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack_builder, "MOST_EVENTS", 2)


class Pair:
    """Two devices that synced, then worked separately; each attempt begins with copies."""

    def __init__(self, folder: Path, remote: Remote) -> None:
        self.folder = folder
        folder.mkdir()
        travellers = Travellers(folder)
        homes = [travellers.make("a"), travellers.make("b")]
        self.session = homes[0].start("travel").id
        for home in (*homes, homes[0]):
            assert not travel(home, remote=remote).problems
        for home in homes:
            for n in range(6):
                home.session(self.session).note(f"{home.context.store.machine.device} {n}")
        assert not travel(homes[1], remote=remote).problems
        self.events = hashes(homes[0], self.session) | hashes(homes[1], self.session)
        for home in homes:
            home.close()
        self.objects = {one.name: remote.get(one.name) for one in remote.list("")}

    def attempt(self, killer: Killer, address: str, at: int, how: str) -> str:
        """Kill a sync of the first device, then sync both: they must be equal."""
        place = self.folder / os.urandom(4).hex()
        for name in "ab":
            shutil.copytree(self.folder / name, place / name)
        remote = open_remote(address)
        for name, data in self.objects.items():
            remote.put(name, data)
        ended = killer.sync(Step(str(place / "a"), address, at, how))
        homes = [opened(str(place / name)) for name in "ba"]
        self._require_equal(homes, remote)
        for home in homes:
            home.close()
        remote.close()
        return ended

    def _require_equal(self, homes: list[Forestay], remote: Remote) -> None:
        for home in (*homes, homes[0]):
            report = travel(home, remote=remote)
            assert not report.problems, [str(one.error) for one in report.problems]
        assert [hashes(home, self.session) for home in homes] == [self.events] * 2
        assert all(home.session(self.session).verify().ok for home in homes)


@pytest.mark.usefixtures("small_packs")
def test_killed_sync_is_completed_by_the_next(
    tmp_path: Path, address: Addresses, killer: Killer
) -> None:
    pair = Pair(tmp_path / "pair", open_remote(address()))
    ends = [
        pair.attempt(killer, address(), at, how)
        for at, how in ((1, AFTER), (3, BEFORE), (5, AFTER), (7, BEFORE), (9, AFTER))
    ]
    assert ends == [KILLED] * 5


@pytest.mark.usefixtures("small_packs")
def test_two_devices_that_sync_in_turns_have_the_same_events(
    tmp_path: Path, address: Addresses
) -> None:
    travellers, there = Travellers(tmp_path / "homes"), address()
    (tmp_path / "homes").mkdir()
    a, b = travellers.make("a"), travellers.make("b")
    session = a.start("travel")
    for round in range(3):
        for home in (a, b):
            remote = open_remote(there, known=round > 0)
            assert not travel(home, remote=remote).problems
            home.session(session.id).note(f"{home.context.store.machine.device} {round}")
            remote.close()
    for home in (a, b, a):
        assert not travel(home, remote=open_remote(there)).problems
    assert hashes(a, session.id) == hashes(b, session.id) and len(hashes(a, session.id)) == 7
    a.close()
    b.close()
