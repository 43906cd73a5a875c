"""Several devices of one person, each with its own home, and a folder as their remote."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from forestay.api.forestay import Forestay
from forestay.base.clock import Clock
from forestay.base.config import load
from forestay.errors import NoSession
from forestay.journal.projections import as_sealed
from forestay.store.machine.remotes import Known
from forestay.sync import keychain
from forestay.sync.crypto import device_group, key_text, keys
from forestay.sync.remotes.folder import FolderRemote
from forestay.sync.remotes.port import Remote
from forestay.sync.run import Report, SyncOptions, visit

RECOVERY = keys.new_key()


class Skewed(Clock):
    """A clock that is wrong by so many milliseconds, and never waits."""

    def __init__(self, skew: int = 0) -> None:
        self._skew = skew
        self.slept: list[float] = []

    def now(self) -> int:
        return super().now() + self._skew

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


class Travellers:
    """Devices of one group; `make` adds one, which all others know at once."""

    def __init__(self, folder: Path, name: str = "circle") -> None:
        self.folder, self.name = folder, name
        self.homes: list[Forestay] = []
        self.group: device_group.DeviceGroup | None = None
        self._founder: keys.Key | None = None

    def make(self, name: str, *, skew: int = 0) -> Forestay:
        path = str(self.folder / name)
        home = opened(path, skew=skew)
        os.makedirs(path, mode=0o700, exist_ok=True)
        folder = keychain.folder(home.context)
        key = keys.create(folder)
        if self.group is None or self._founder is None:
            self._founder = key
            self.group = device_group.found(key, name, RECOVERY, made=1)
        else:
            device = key_text.DeviceCode(name, key.recipient, key.verify)
            self.group = device_group.approve(self.group, self._founder, device, made=2)
        device_group.keep(folder, self.group, key)
        add_remote(home, str(self.folder / "remote"))
        self.homes.append(home)
        return home

    def reopen(self, name: str, *, same_place: bool = False) -> Forestay:
        """Open a copied home. `same_place`: its database has the same identity despite the copy."""
        path = self.folder / name
        if same_place:
            keep_place(path)
        home = opened(str(path))
        self.homes.append(home)
        return home


def keep_place(path: Path) -> None:
    """Make a copied database look unmoved, like a copy of disk blocks."""
    import sqlite3
    from contextlib import closing

    from forestay.base.process import machine_id

    with closing(sqlite3.connect(path / "forestay.db", isolation_level=None)) as connection:
        inode = os.stat(path / "forestay.db").st_ino
        here = f"{machine_id()}:{inode}"
        connection.execute("UPDATE meta SET value = ? WHERE key = 'place'", (here,))


def hashes(home: Forestay, id: str) -> set[str]:
    """Return the hashes of all events of a session that a home has."""
    try:
        with home.context.store.view(id) as view:
            return {as_sealed(stored).hash for stored in view.events()}
    except NoSession:
        return set()


def opened(path: str, *, skew: int = 0) -> Forestay:
    settings = load(
        path, trust_env=False, overrides={"backup_every_minutes": 0, "auto_sync": "off"}
    )
    return Forestay(settings, cwd=path if os.path.isdir(path) else None, clock=Skewed(skew))


def add_remote(home: Forestay, path: str, name: str = "usb") -> None:
    home.context.store.machine.remotes.add(name, f"folder:{path}", "", home.context.clock.now())


def known(home: Forestay, name: str = "usb") -> Known:
    found = home.context.store.machine.remotes.find(name)
    assert found is not None
    return found


def travel(
    home: Forestay,
    *,
    name: str = "usb",
    push: bool = True,
    pull: bool = True,
    again: bool = False,
    sessions: Sequence[str] = (),
    remote: Remote | None = None,
) -> Report:
    options = SyncOptions(push=push, pull=pull, again=again, sessions=sessions)
    return visit(home.context, known(home, name), options, remote=remote)


def folder_of(travellers: Travellers) -> FolderRemote:
    return FolderRemote(str(travellers.folder / "remote"))
