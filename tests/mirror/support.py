"""A project with a session that has files, and the ways in which other programs edit them."""

from __future__ import annotations

import json
import os
import pkgutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

import forestay
from forestay.api.session import Session
from forestay.base import swap_file
from forestay.base.clock import Clock
from forestay.model.event import Body, Event
from tests.conftest import NOBODY
from tests.homes import state_of

ID = "login-2026-01-31"
AI_SESSION = f"ai-session:{ID}"


class Ticking(Clock):
    """A clock that advances a second at every reading, so that every event changes the files."""

    def __init__(self) -> None:
        self._now = 1_800_000_000_000

    def now(self) -> int:
        self._now += 1000
        return self._now

    def turn(self, by: int) -> None:
        """Set the clock forward, or back for a negative number of milliseconds."""
        self._now += by


class Project:
    """A folder, a home next to it, and one session that is bound to formats."""

    def __init__(
        self,
        base: Path,
        *formats: str,
        git: bool = False,
        home: str = "home",
        workflow: bytes = b"",
    ) -> None:
        self.base, self.folder = base, base / "project"
        self.folder.mkdir(exist_ok=True)
        if git:
            self.git("init", "-q", "-b", "main")
        self.notices: list[str] = []
        self.clock: Clock = Ticking()
        self.home = self.opened(home)
        if workflow:
            (self.folder / "parts.yaml").write_bytes(workflow)
        plan = "./parts.yaml" if workflow else ""
        self.session = self.home.start("Add login page", formats=list(formats), workflow=plan)

    def opened(self, home: str = "home", **more: Any) -> forestay.Forestay:
        return forestay.open(
            str(self.base / home),
            cwd=str(more.pop("cwd", self.folder)),
            trust_env=False,
            on_notice=self.notices.append,
            **({"clock": self.clock} | more),
        )

    def again(self) -> Session:
        """Close the home and return the session from a new one, as another process does."""
        self.home.close()
        self.home = self.opened()
        self.session = self.home.session(self.session.id)
        return self.session

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=self.folder, capture_output=True, text=True, check=True
        )
        return done.stdout

    # -- files ---------------------------------------------------------------------------------

    @property
    def place(self) -> Path:
        """Return the main file of the only binding."""
        (binding,) = self.session.files.list()
        return Path(binding.place)

    @property
    def suspended(self) -> str:
        return "; ".join(binding.suspended for binding in self.session.files.list())

    def ai(self, name: str) -> Path:
        return self.folder / ".ai-session" / ID / name

    @property
    def index(self) -> Path:
        return self.folder / ".ai-session" / "active-features.yaml"

    def read(self, path: Path | None = None) -> Any:
        path = path or self.place
        text = path.read_text()
        return yaml.safe_load(text) if path.suffix == ".yaml" else json.loads(text)

    def edit(self, change: Callable[[Any], object], path: Path | None = None) -> bytes:
        """Read, change and write a whole file, as another program does; return the bytes."""
        path = path or self.place
        value = self.read(path)
        change(value)
        is_yaml = path.suffix == ".yaml"
        text = yaml.safe_dump(value) if is_yaml else json.dumps(value, indent=2)
        data = str(text).encode()
        swap_in(path, data)
        return data

    # -- the journal ---------------------------------------------------------------------------

    def events(self, actor: str = "") -> list[Event]:
        found = [line.event for line in self.session.log()]
        return [event for event in found if event.head.actor.startswith(actor)]

    def edits(self) -> list[Body]:
        """Return the events that were absorbed from files."""
        return [event.body for event in self.events("file:")]

    def kinds(self, actor: str = "file:") -> list[str]:
        return [event.kind for event in self.events(actor)]

    def titles(self) -> list[str]:
        return [getattr(row, "title", "") for row in state_of(self.session).rows.select("step")]

    def disputes(self) -> list[str]:
        rows = state_of(self.session).rows.select("dispute")
        return [getattr(row, "subject", "") for row in rows]


def swap_in(path: Path, data: bytes) -> None:
    """Replace a file in one step, as careful programs do."""
    aside = path.with_name(f"{path.name}.theirs")
    aside.write_bytes(data)
    os.replace(aside, path)


def around_exchanges(patch: pytest.MonkeyPatch, turn: Callable[[], None]) -> None:
    """Call a function right before and right after each of our exchanges."""
    real = swap_file._swap

    def swap(aside: str, path: str) -> bool:
        turn()
        was_there = real(aside, path)
        turn()
        return was_there

    patch.setattr(swap_file, "_swap", swap)


def everything(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    """Return bytes, time of change and inode of every file below a folder."""
    return {str(p.relative_to(folder)): (p.read_bytes(), *_times(p)) for p in plain_files(folder)}


def _times(path: Path) -> tuple[int, int]:
    facts = path.stat()
    return facts.st_mtime_ns, facts.st_ino


def plain_files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob(".*") if path.name.endswith(("-tmp", "-swap"))]


def ran(log: Path) -> list[str]:
    """Return the commands in a log."""
    lines = map(json.loads, log.read_text().splitlines())
    return [line["command"] for line in lines if "event" not in line]


def recorded(log: Path) -> list[str]:
    """Return the updates in a log."""
    lines = map(json.loads, log.read_text().splitlines())
    return [line["event"] for line in lines if "event" in line]


@contextmanager
def as_nobody(base: Path, *, own: bool = True) -> Iterator[None]:
    """Run as a user without the rights of root, who owns everything below `base`."""
    if os.geteuid() != 0:
        yield
        return
    # If only root may read the program, no module can be loaded later.
    for module in pkgutil.walk_packages(forestay.__path__, "forestay."):
        if not module.name.startswith(("forestay.mcp", "forestay.testing")):
            import_module(module.name)
    import_module("ctypes")
    if own:
        subprocess.run(["chown", "-R", str(NOBODY), str(base)], check=True)
    for folder in list(base.parents)[:-2]:
        folder.chmod(folder.stat().st_mode | 0o011)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
