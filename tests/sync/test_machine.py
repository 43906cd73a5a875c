"""Homes that work apart, and all that can go wrong between them: they converge, nothing is lost.

A *walk* lets some devices record, push, pull, die halfway, go back to an old copy of their home
and work with wrong clocks, in an order that a seed chooses. In the end everyone syncs, and all
homes must hold the same events and the same state, with every event that was ever pushed.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from forestay.api.forestay import Forestay
from forestay.api.session import Session
from forestay.base.hashing import digest_of
from forestay.errors import Refused, Unreachable
from forestay.journal.stored_state import encode
from forestay.sync import pack_builder
from tests.faulty_remotes import MemoryRemote
from tests.sync.travelling import Travellers, hashes, keep_place, opened, travel

DAY = 24 * 3_600_000


class Dying(MemoryRemote):
    """A remote that stops answering after some calls."""

    def __init__(self, objects: dict[str, bytes], left: int) -> None:
        super().__init__(objects)
        self._left = left

    def _answer(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Unreachable("it went away")

    def put(self, name: str, data: bytes) -> bool:
        self._answer()
        return super().put(name, data)

    def get(self, name: str) -> bytes:
        self._answer()
        return super().get(name)

    def delete(self, name: str) -> None:
        self._answer()
        super().delete(name)


class Walk:
    """One random history of some devices, chosen by `chance`."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.remote = MemoryRemote()
        self.folder = folder
        folder.mkdir()
        self.travellers = Travellers(folder)
        self.skews = [self.chance.choice((0, DAY, -3 * DAY)) for _ in range(self._pick(2, 4))]
        self.homes = [self.travellers.make(f"d{n}", skew=skew) for n, skew in enumerate(self.skews)]
        self.session = self.homes[0].start("converge").id
        self.pushed: set[str] = set()
        self.copies = 0
        for home in self.homes:
            self._sync(home)

    def _pick(self, low: int, high: int) -> int:
        return self.chance.randint(low, high)

    def step(self) -> None:
        act = self.chance.choice(
            [
                self.work,
                self.work,
                self.work,
                self.sync,
                self.sync,
                self.half,
                self.die,
                self.put_back,
            ]
        )
        act(self._pick(0, len(self.homes) - 1))

    def work(self, n: int) -> None:
        session = self.homes[n].session(self.session)
        for _ in range(self._pick(1, 6)):
            try:
                self._one(session, str(self.chance.random()))
            except Refused:
                continue  # not a move that is open to it now

    def _one(self, session: Session, word: str) -> None:
        acts: list[Callable[[], object]] = [
            lambda: session.note(word),
            lambda: session.decide("which", chosen=word[-1]),
            lambda: session.tasks.add(word, id=f"t{word[-3:]}"),
            lambda: session.pause(),
            lambda: session.resume(),
            lambda: session.record.error(word),
            lambda: session.note("the same call on two devices", key=f"k{word[-1]}"),
        ]
        self.chance.choice(acts)()

    def sync(self, n: int) -> None:
        self._sync(self.homes[n])

    def _sync(self, home: Forestay, *, push: bool = True, pull: bool = True) -> None:
        report = travel(home, remote=self.remote, push=push, pull=pull)
        assert not report.problems, [str(one.error) for one in report.problems]
        if push:
            self.pushed |= hashes(home, self.session)

    def half(self, n: int) -> None:
        push = self.chance.random() < 0.5
        self._sync(self.homes[n], push=push, pull=not push)

    def die(self, n: int) -> None:
        """Make the remote fail after some calls and open the home again, as after a crash."""
        try:
            travel(self.homes[n], remote=Dying(self.remote.objects, self._pick(0, 9)))
        except Unreachable:
            self._reopen(n)

    def put_back(self, n: int) -> None:
        """Go back to a copy of the home, made now or some time ago."""
        home, place, copy = self.homes[n], self.folder / f"d{n}", self.folder / f"copy-d{n}"
        home.close()
        if not copy.exists():
            shutil.copytree(place, copy)
        else:
            shutil.rmtree(place)
            shutil.copytree(copy, place)
            shutil.rmtree(copy)
            if self.chance.random() < 0.5:
                keep_place(place)
            self.copies += 1
        self._reopen(n)

    def _reopen(self, n: int) -> None:
        self.homes[n].close()
        self.homes[n] = opened(str(self.folder / f"d{n}"), skew=self.skews[n])

    def finish(self) -> None:
        for _ in range(3):
            for home in self.homes:
                self._sync(home)
        held = [hashes(home, self.session) for home in self.homes]
        assert all(one == held[0] for one in held)
        assert self.pushed <= held[0]
        assert len({_state(home, self.session) for home in self.homes}) == 1
        for home in self.homes:
            report = home.session(self.session).verify()
            lost = [one for one in report.findings if one.code != "lost"]
            assert not lost, lost
            home.close()


def _state(home: Forestay, session: str) -> str:
    """One digest of all that the journal adds up to."""
    with home.context.store.view(session) as view:
        state = home.context.journal.state(view)
        rows = sorted((table, key, encode(row)) for table, key, row in state.rows.items())
        return digest_of(encode(state.core) + repr(rows).encode())


def walk(folder: Path, seed: int, steps: int) -> None:
    story = Walk(folder, seed)
    for _ in range(steps):
        story.step()
    story.finish()


@pytest.fixture(autouse=True)
def small_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack_builder, "MOST_EVENTS", 5)


@pytest.mark.parametrize("seed", range(6))
def test_separated_homes_converge_and_no_pushed_event_is_lost(tmp_path: Path, seed: int) -> None:
    walk(tmp_path / "walk", seed, 25)


@pytest.mark.soak
def test_homes_converge_on_long_walks(
    tmp_path: Path, soak_seconds: float, report_figure: Callable[[str], None]
) -> None:
    ends, seed = time.monotonic() + soak_seconds, 1000
    while time.monotonic() < ends:
        walk(tmp_path / str(seed), seed, 80)
        shutil.rmtree(tmp_path / str(seed))
        seed += 1
    report_figure(f"{seed - 1000} walks of several homes converged")
