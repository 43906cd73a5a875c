"""A world to be lied to: devices of one person, a friend, two sessions, and all a storage saw.

Made once; each instance of an attack begins with a copy of one device's home. A *stage* is the
storage after some work, whole. Everything that must not be readable there has a canary in it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.home import Holdfast
from holdfast.keychain import folder as keys_folder
from holdfast.remote import circle, keys, names, ring
from holdfast.session import Session
from holdfast.testing.storage import MemoryRemote, snapshot
from holdfast.travel.circling import identity
from holdfast.travel.session_keys import SessionKeys
from tests.remote.travelling import Travellers, hashes, opened, travel

FRESH, KNOWING, FULL, FRIEND = "fresh", "knowing", "full", "friend"
"""Who is lied to: one that never looked, one that saw all but the last stage, one that saw all; and
someone else, with whom one session is shared, who saw all of it but the last stage."""
EMAIL = "canary-friend@example.org"


class World:
    """`stages` of the storage, the truth, and homes to copy."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.remote = folder, MemoryRemote()
        self.stages: list[dict[str, bytes]] = []
        folder.mkdir()
        travellers = Travellers(folder)
        a, b = travellers.make("canary-laptop"), travellers.make("canary-tower")
        lost, fresh = travellers.make("canary-lost"), travellers.make("canary-phone")
        assert travellers.circle is not None
        for home in (a, b):
            circle.keep(keys_folder(home), travellers.circle, keys.load(keys_folder(home)))
        (folder / "others").mkdir()
        others = Travellers(folder / "others")
        self.friend = others.make("canary-friend")
        self._work(a, b, lost, fresh)
        self.events = {one.id: hashes(a, one.id) for one in self.sessions}
        kept = {FULL: a, KNOWING: b, FRESH: fresh, FRIEND: self.friend}
        for name, home in kept.items():
            self._keep(name, home)
        for home in (*travellers.homes, *others.homes):
            home.close()

    def shown_to(self, who: str) -> dict[str, set[str]]:
        """The events that someone may have, by session."""
        mine = [one.id for one in self.sessions[: 1 if who == FRIEND else None]]
        return {id: self.events[id] for id in mine}

    def _work(self, a: Holdfast, b: Holdfast, lost: Holdfast, fresh: Holdfast) -> None:
        self.sessions = [a.start(f"canary goal {n}", id=f"canary-session-{n}") for n in (1, 2)]
        for one in self.sessions:
            _busy(one, 3)
        self._stage(a, b, lost)
        _busy(b.session(self.sessions[0].id), 2)
        _busy(lost.session(self.sessions[1].id), 2)
        self._stage(lost, b, a)
        _busy(self.sessions[0], 2)
        self._revoke(a, lost)
        assert not travel(a, remote=self.remote).problems
        self._share(a, self.sessions[0].id)
        self._stage(a, b, self.friend, fresh=fresh)
        for one in self.sessions:
            _busy(one, 2)
        self._stage(a)

    def _stage(self, *homes: Holdfast, fresh: Holdfast | None = None) -> None:
        for home in homes:
            assert not travel(home, remote=self.remote).problems
        if fresh is not None:  # it learns who its devices are, and nothing of any session
            self._introduce(homes[0], fresh)
        self.stages.append(snapshot(self.remote))

    def _introduce(self, one: Holdfast, other: Holdfast) -> None:
        known = circle.load_circle(keys_folder(one), keys.load(keys_folder(one)))
        assert known is not None
        circle.keep(keys_folder(other), known, keys.load(keys_folder(other)))

    def _revoke(self, a: Holdfast, lost: Holdfast) -> None:
        key = keys.load(keys_folder(a))
        known = circle.load_circle(keys_folder(a), key)
        assert known is not None
        ended = circle.revoke(known, key, keys.load(keys_folder(lost)).id, made=3)
        circle.keep(keys_folder(a), ended, key)

    def _share(self, a: Holdfast, session: str) -> None:
        me, friend = identity(a), identity(self.friend)
        listed = {one.name: one.size for one in self.remote.list("")}
        place = names.place(me.circle.name_key, session)
        of_it = {name: size for name, size in listed.items() if names.place_of(name) == place}
        held = SessionKeys(me, session, of_it, get=self.remote.get).ring
        assert held is not None
        person = friend.circle.person
        change = ring.share(held, person, mode=ring.READ, made=4, email=EMAIL, name="canary")
        packs = [one.hash for one in map(names.as_pack, of_it) if one]
        wider = ring.rotated(held, me.key, made=4, packs=packs, change=change)
        data = ring.encode(wider, me.key)
        assert self.remote.put(names.ring_name(place, wider.epoch, data), data)

    def _keep(self, name: str, home: Holdfast) -> None:
        home.close()
        shutil.copytree(home.store.home, self.folder / name)

    @property
    def truth(self) -> dict[str, bytes]:
        return self.stages[-1]

    @contextmanager
    def victim(self, who: str) -> Iterator[Holdfast]:
        """A copy of the home of one who is to be lied to."""
        place = self.folder / "victim"
        shutil.copytree(self.folder / who, place)
        home = opened(str(place))
        try:
            yield home
        finally:
            home.close()
            shutil.rmtree(place)


def _busy(session: Session, count: int) -> None:
    for n in range(count):
        session.note(f"canary note {n}")
    session.command("cat /canary/path/canary.py")
