"""Provide two devices with separate homes, and one session that both of them work on."""

from __future__ import annotations

from pathlib import Path

import forestay
from forestay import Forestay, Session
from forestay.base.clock import FakeClock


class Device:
    """Open a home in a separate folder, with a clock that a test may change."""

    def __init__(self, path: Path, name: str, seed: int) -> None:
        self.folder = path / name / "project"
        self.folder.mkdir(parents=True)
        self.clock = FakeClock(seed=seed)
        home = path / name / "home"
        home.mkdir()
        (home / "config.toml").write_text(f'device_name = "{name}"\n')
        self.stay: Forestay = forestay.open(
            str(home), cwd=str(self.folder), clock=self.clock, trust_env=False
        )
        self.name = name
        self.exports = path / f"{name}.fspack"

    @property
    def id(self) -> str:
        return self.stay.context.store.machine.device

    def session(self, id: str = "s-1") -> Session:
        return self.stay.session(id)

    def receive(self, other: Device, session: str = "s-1") -> None:
        """Import all events that another device has of a session."""
        other.session(session).export(str(other.exports), overwrite=True)
        self.stay.backups.import_(str(other.exports))


class Pair:
    """Start a session on a laptop and copy it to a desktop; then each works separately."""

    def __init__(self, path: Path) -> None:
        self.laptop, self.desktop = Device(path, "laptop", 1), Device(path, "desktop", 2)
        session = self.laptop.stay.start("hold fast", id="s-1")
        session.tasks.add("one", id="t1")
        session.tasks.start("t1")
        session.agents.start("a1", task="write it")
        self.desktop.receive(self.laptop)
        self.a, self.b = self.laptop.session(), self.desktop.session()

    def exchange(self) -> None:
        """Exchange all events between both devices."""
        self.laptop.receive(self.desktop)
        self.desktop.receive(self.laptop)

    def close(self) -> None:
        for device in (self.laptop, self.desktop):
            device.stay.close()
