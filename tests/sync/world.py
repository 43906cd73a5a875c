"""A world to be lied to: devices of one person, a friend, two sessions, and all a storage saw.

Made once; each instance of an attack begins with a copy of one device's home. A *stage* is the
storage after some work, whole. Everything that must not be readable there has a canary in it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from forestay.api.forestay import Forestay
from forestay.api.session import Session
from forestay.sync.crypto import device_group, key_ring, keys
from forestay.sync.device_list import identity
from forestay.sync.keychain import folder as keys_folder
from forestay.sync.remotes import object_names
from forestay.sync.session_keys import SessionKeys
from tests.faulty_remotes import MemoryRemote, snapshot
from tests.sync.travelling import Travellers, hashes, opened, travel

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
        assert travellers.group is not None
        for home in (a, b):
            device_group.keep(
                keys_folder(home.context), travellers.group, keys.load(keys_folder(home.context))
            )
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

    def _work(self, a: Forestay, b: Forestay, lost: Forestay, fresh: Forestay) -> None:
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

    def _stage(self, *homes: Forestay, fresh: Forestay | None = None) -> None:
        for home in homes:
            assert not travel(home, remote=self.remote).problems
        if fresh is not None:  # it learns who its devices are, and nothing of any session
            self._introduce(homes[0], fresh)
        self.stages.append(snapshot(self.remote))

    def _introduce(self, one: Forestay, other: Forestay) -> None:
        known = device_group.load_group(
            keys_folder(one.context), keys.load(keys_folder(one.context))
        )
        assert known is not None
        device_group.keep(keys_folder(other.context), known, keys.load(keys_folder(other.context)))

    def _revoke(self, a: Forestay, lost: Forestay) -> None:
        key = keys.load(keys_folder(a.context))
        known = device_group.load_group(keys_folder(a.context), key)
        assert known is not None
        ended = device_group.revoke(known, key, keys.load(keys_folder(lost.context)).id, made=3)
        device_group.keep(keys_folder(a.context), ended, key)

    def _share(self, a: Forestay, session: str) -> None:
        me, friend = identity(a.context), identity(self.friend.context)
        listed = {one.name: one.size for one in self.remote.list("")}
        place = object_names.place(me.group.name_key, session)
        of_it = {
            name: size for name, size in listed.items() if object_names.place_of(name) == place
        }
        held = SessionKeys(me, session, of_it, get=self.remote.get).ring
        assert held is not None
        person = friend.group.person
        change = key_ring.share(
            held, person, mode=key_ring.READ, made=4, email=EMAIL, name="canary"
        )
        packs = [one.hash for one in map(object_names.as_pack, of_it) if one]
        wider = key_ring.rotated(held, me.key, made=4, packs=packs, change=change)
        data = key_ring.encode(wider, me.key)
        assert self.remote.put(object_names.ring_name(place, wider.epoch, data), data)

    def _keep(self, name: str, home: Forestay) -> None:
        home.close()
        shutil.copytree(home.context.store.home, self.folder / name)

    @property
    def truth(self) -> dict[str, bytes]:
        return self.stages[-1]

    @contextmanager
    def victim(self, who: str) -> Iterator[Forestay]:
        """Return a copy of the home that the storage lies to."""
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
    session.record.command("cat /canary/path/canary.py")
