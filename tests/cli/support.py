"""Call the command line in tests: in this process, on separate streams."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from forestay import Forestay, Session
from forestay.cli.main import main
from forestay.journal.topics import HomeTopic, Topic


class Terminal(io.StringIO):
    """A stream that claims to be a terminal; without a file number it has 80 columns."""

    def isatty(self) -> bool:
        return True


class Answer:
    """The output and the exit code of a command."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> dict[str, Any]:
        """The only JSON object of the answer."""
        (line,) = self.out.splitlines()
        found = json.loads(line)
        assert isinstance(found, dict) and found["forestay"] == 1
        return found

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    def __repr__(self) -> str:
        return f"exit {self.code}\n{self.out}{self.err}"


class Cli:
    """`cli("note", "text")` runs the command; `cli.ok(…)` requires that it succeeds."""

    def __call__(self, *argv: str, source: str = "", terminal: bool = False) -> Answer:
        out, err = (Terminal(), Terminal()) if terminal else (io.StringIO(), io.StringIO())
        given = Terminal(source) if terminal else io.StringIO(source)
        code = main(list(argv), out, err, given)
        return Answer(code, out.getvalue(), err.getvalue())

    def ok(self, *argv: str, source: str = "", terminal: bool = False) -> Answer:
        answer = self(*argv, source=source, terminal=terminal)
        assert answer.code == 0, answer
        return answer

    def json(self, *argv: str) -> dict[str, Any]:
        return self.ok("--json", *argv).json

    def start(self, goal: str = "Add login", *argv: str) -> str:
        """Start a session and return its id."""
        return str(self.json("start", goal, *argv)["session"])


def process(*argv: str | bytes, **more: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a separate process, as users do."""
    return subprocess.run(
        [*command(), *argv],
        capture_output=True,
        timeout=60,
        **{"stdin": subprocess.DEVNULL, **more},
    )


def command() -> list[str]:
    return [sys.executable, "-m", "forestay"]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, **more}


_TOPICS = {
    "task": "Session.tasks",
    "agent": "Session.agents",
    "phase": "Session.phases",
    "record": "Session.record",
    "essay section": "Session.essay.sections",
    "essay claim": "Session.essay.claims",
    "essay": "Session.essay",
    "files contract": "Forestay.files.contract",
    "files orchestrator": "Forestay.files.orchestrator",
    "files": "Session.files",
    "session": "Session.lifecycle",
    "workflow": "Forestay.workflows",
    "remote": "Forestay.remotes",
    "device key": "Forestay.devices.keys",
    "device": "Forestay.devices",
    "share": "Forestay.shares",
    "backup": "Forestay.backups",
}
"""The topic of each family of commands; the longest name counts."""
_METHODS = {
    "adopt": "Forestay.files.adopt",
    "backup export": "Session.export",
    "backup import": "Forestay.backups.import_",
    "device key import": "Forestay.devices.keys.import_",
    "essay list": "Forestay.essays.list",
    "essay paragraph done": "Session.essay.paragraph_done",
    "essay resume": "Forestay.essays.resume",
    "files orchestrator continue": "Forestay.files.orchestrator.current",
    "prove": "Session.proofs.run",
    "revisit": "Session.revisit.preview",
    "session use": "Forestay.use",
    "settle": "Session.disputes.settle",
    "sync": "Forestay.remotes.sync",
}
_METHODS |= {
    f"files {word}": f"Forestay.files.{word}"
    for word in ("check", "convert", "report", "live", "cleanup")
}
_METHODS |= {word: f"Forestay.agents.{word}" for word in ("install", "uninstall", "hook", "ingest")}
"""Commands whose method is elsewhere."""


def method_name(command: str) -> str:
    """Return the path of the method behind a command, such as `Session.tasks.add`."""
    if command in _METHODS:
        return _METHODS[command]
    for family, topic in _TOPICS.items():
        if command.startswith(f"{family} "):
            return f"{topic}.{command.removeprefix(f'{family} ')}"
    owner = "Session" if hasattr(Session, command) else "Forestay"
    return f"{owner}.{command.removeprefix('config ')}"


def find_method(path: str) -> Callable[..., Any] | None:
    """Return the function of a path, through the classes of the topics on its way."""
    first, *topics, last = path.split(".")
    owner: type = {"Session": Session, "Forestay": Forestay}[first]
    for name in topics:
        owner = topic_class(owner, name)
    return getattr(owner, last, None)


def topic_class(owner: type, name: str) -> type:
    """Return the class of a topic: what its property is annotated with."""
    found = getattr(owner, name).fget.__annotations__["return"]
    every = [*Topic.__subclasses__(), *HomeTopic.__subclasses__()]
    return next(one for one in every if one.__name__ == found)


def topics_of(owner: type) -> list[str]:
    """Return the names of the topics of a class."""
    every = {one.__name__ for one in [*Topic.__subclasses__(), *HomeTopic.__subclasses__()]}
    return [
        name
        for name, one in vars(owner).items()
        if isinstance(one, property) and one.fget and one.fget.__annotations__["return"] in every
    ]


def command_method(command: str) -> Callable[..., Any]:
    """Return the method behind a command."""
    found = find_method(method_name(command))
    assert found is not None, command
    return found
