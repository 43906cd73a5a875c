"""Devices and persons around one folder remote, for tests of what each can read and write."""

from __future__ import annotations

from pathlib import Path

from holdfast.config import load
from holdfast.home import Holdfast
from holdfast.keychain import Asking
from holdfast.model.event import NoteAdded
from holdfast.travel.visit import Manner, Report, visit


class World:
    """Homes of several devices and persons around one remote."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.remote = folder, folder / "remote"
        self.homes: list[Holdfast] = []

    def home(self, name: str) -> Holdfast:
        settings = load(str(self.folder / name), trust_env=False, overrides={"auto_sync": "off"})
        hf = Holdfast(settings, cwd=str(self.folder))
        hf.store.remotes.add("usb", f"folder:{self.remote}", "", 1)
        self.homes.append(hf)
        return hf

    def again(self, name: str) -> Holdfast:
        """The same home, as another process has it."""
        settings = load(str(self.folder / name), trust_env=False, overrides={"auto_sync": "off"})
        self.homes.append(Holdfast(settings, cwd=str(self.folder)))
        return self.homes[-1]

    def person(self, name: str) -> Holdfast:
        hf = self.home(name)
        hf.key_init()
        return hf

    def device(self, name: str, by: Holdfast) -> Holdfast:
        hf = self.home(name)
        asking = hf.devices_add()
        assert isinstance(asking, Asking)
        changed = by.devices_approve(asking.code)
        hf.devices_add(confirm=changed.circle.fingerprint)
        return hf

    def files(self, part: str) -> dict[str, bytes]:
        found = (path for path in self.remote.rglob("*") if path.is_file())
        return {str(path): path.read_bytes() for path in found if f"/{part}/" in str(path)}


def synced(hf: Holdfast) -> Report:
    (known,) = hf.store.remotes.all()
    manner = Manner(patience=())
    return visit(hf, known, manner)


def notes(hf: Holdfast, session: str) -> list[str]:
    bodies = (line.event.body for line in hf.session(session).log())
    return [body.text for body in bodies if isinstance(body, NoteAdded)]


def person_of(hf: Holdfast) -> str:
    return str(hf.key_show()["person"])
