"""Devices and persons around one folder remote, for tests of what each can read and write."""

from __future__ import annotations

from pathlib import Path

from forestay.api.forestay import Forestay
from forestay.base.config import load
from forestay.model.event import NoteAdded
from forestay.sync.keychain import Asking
from forestay.sync.run import Report, SyncOptions, visit


class World:
    """Homes of several devices and persons around one remote."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.remote = folder, folder / "remote"
        self.homes: list[Forestay] = []

    def home(self, name: str) -> Forestay:
        settings = load(str(self.folder / name), trust_env=False, overrides={"auto_sync": "off"})
        stay = Forestay(settings, cwd=str(self.folder))
        stay.context.store.machine.remotes.add("usb", f"folder:{self.remote}", "", 1)
        self.homes.append(stay)
        return stay

    def again(self, name: str) -> Forestay:
        """The same home, as another process has it."""
        settings = load(str(self.folder / name), trust_env=False, overrides={"auto_sync": "off"})
        self.homes.append(Forestay(settings, cwd=str(self.folder)))
        return self.homes[-1]

    def person(self, name: str) -> Forestay:
        stay = self.home(name)
        stay.devices.keys.init()
        return stay

    def device(self, name: str, by: Forestay) -> Forestay:
        stay = self.home(name)
        asking = stay.devices.add()
        assert isinstance(asking, Asking)
        changed = by.devices.approve(asking.code)
        stay.devices.add(confirm=changed.fingerprint)
        return stay

    def files(self, part: str) -> dict[str, bytes]:
        found = (path for path in self.remote.rglob("*") if path.is_file())
        return {str(path): path.read_bytes() for path in found if f"/{part}/" in str(path)}


def synced(stay: Forestay) -> Report:
    (known,) = stay.context.store.machine.remotes.all()
    options = SyncOptions(patience=())
    return visit(stay.context, known, options)


def notes(stay: Forestay, session: str) -> list[str]:
    bodies = (line.event.body for line in stay.session(session).log())
    return [body.text for body in bodies if isinstance(body, NoteAdded)]


def person_of(stay: Forestay) -> str:
    return str(stay.devices.keys.show().person)
