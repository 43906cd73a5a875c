"""Two devices with homes of their own, and one session that both of them work on."""

from __future__ import annotations

from pathlib import Path

import forestay
from forestay import Forestay, Session
from forestay.base.clock import FakeClock


class Device:
    """A home in a folder of its own, with a clock that a test may turn."""

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

    def take(self, other: Device, session: str = "s-1") -> None:
        """All that another device knows of a session."""
        other.session(session).export(str(other.exports), overwrite=True)
        self.stay.backups.import_(str(other.exports))


class Pair:
    """A laptop, and a desktop that knows what the laptop began; then each goes its way."""

    def __init__(self, path: Path) -> None:
        self.laptop, self.desktop = Device(path, "laptop", 1), Device(path, "desktop", 2)
        begun = self.laptop.stay.start("hold fast", id="s-1")
        begun.tasks.add("one", id="t1")
        begun.tasks.start("t1")
        begun.agents.start("a1", task="write it")
        self.desktop.take(self.laptop)
        self.a, self.b = self.laptop.session(), self.desktop.session()

    def meet(self) -> None:
        """Both know everything."""
        self.laptop.take(self.desktop)
        self.desktop.take(self.laptop)

    def close(self) -> None:
        for device in (self.laptop, self.desktop):
            device.stay.close()
