"""How tests call the command line: in this process, on streams of their own."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from typing import Any

from forestay.cli.main import main


class Terminal(io.StringIO):
    """A stream that says it is a terminal, of 80 columns because it has no number."""

    def isatty(self) -> bool:
        return True


class Answer:
    """What a command said and how it ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> dict[str, Any]:
        """The one object of the answer."""
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
    """`cli("note", "text")` runs the command; `cli.ok(…)` expects it to go well."""

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
        """Start a session; returns its id."""
        return str(self.json("start", goal, *argv)["session"])


def process(*argv: str | bytes, **more: Any) -> subprocess.CompletedProcess[bytes]:
    """The same in a process of its own, as users run it."""
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


_METHODS = {
    "record compaction": "compressed",
    "record attribute": "attr",
    "files bind": "layouts_add",
    "files unbind": "layouts_remove",
    "share add": "share",
    "share remove": "unshare",
    "share list": "shares",
    "backup create": "backup",
    "backup import": "import_",
}
"""Commands whose method has another name."""
_METHODS |= {f"files {x}": f"layouts_{x}" for x in ("list", "restore", "update", "report", "live")}
_METHODS |= {f"essay {action}": f"essay_{action}" for action in ("list", "show", "resume")}
_METHODS |= {f"device {x}": f"devices_{x}" for x in ("list", "add", "approve", "revoke", "rename")}
_SILENT = ("session ", "record ", "files ", "essay ", "backup ", "device ", "config ")


def method_name(command: str) -> str:
    """Return the name of the method behind a command."""
    if command in _METHODS:
        return _METHODS[command]
    for family in _SILENT:
        command = command.removeprefix(family)
    return command.replace(" ", "_")
