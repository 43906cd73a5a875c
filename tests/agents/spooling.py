"""Handmade payloads in the form of real agents, and a spool for them."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import forestay
from forestay.agents.spool import Spool
from forestay.base.process import identity

BEGAN = 1_700_000_000_000
"""When the first payload of a test was written, in milliseconds; they are a second apart."""


class Hooks:
    """The hooks of an agent in a project: their payloads wait in the spool until `ingest`."""

    def __init__(self, folder: Path, *, native: str = "n1", agent: str = "claude-code") -> None:
        self.home, self.project = folder / "home", folder / "project"
        self.home.mkdir(mode=0o700, exist_ok=True)
        (self.project / ".git").mkdir(parents=True, exist_ok=True)
        self.spool = Spool(str(self.home))
        self.spool.prepare()
        self.native, self.agent, self.pid = native, agent, os.getpid()
        self.clock = itertools.count(BEGAN // 1000)
        self.names = itertools.count()

    def another(self, native: str, agent: str = "") -> Hooks:
        """Return the hooks of another conversation in the same project."""
        other = Hooks.__new__(Hooks)
        other.__dict__.update(self.__dict__, native=native, agent=agent or self.agent)
        return other

    def send(self, event: str, **more: Any) -> str:
        """Write one payload; return its name in the spool."""
        common = {"session_id": self.native, "cwd": str(self.project), "hook_event_name": event}
        return self.put(json.dumps({**common, **more}).encode(), event)

    def put(self, payload: bytes, event: str = "-", *, at: float | None = None) -> str:
        name = f"p{next(self.names):05d}"
        path = self.spool.path("new", name)
        line = f"forestay-spool 1 {self.agent} {event} {self._process()}\n".encode()
        Path(path).write_bytes(line + payload)
        moment = next(self.clock) if at is None else at
        os.utime(path, (moment, moment))
        return name

    def _process(self) -> str:
        me = identity(self.pid)
        init = Path("/proc/1/stat").read_text().rpartition(")")[2].split()[19]
        return f"{me.pid} {me.start} {me.boot} {init}" if me else f"{self.pid} 1 - -"

    # -- payloads of agents --------------------------------------------------------------------

    def start(self, source: str = "startup", **more: Any) -> str:
        return self.send("SessionStart", source=source, **more)

    def ask(self, prompt: str, id: str = "") -> str:
        return self.send("UserPromptSubmit", prompt=prompt, prompt_id=id or f"p{next(self.names)}")

    def begin(self, id: str, command: str = "make", **more: Any) -> str:
        use = {"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": id}
        return self.send("PreToolUse", **use, **more)

    def answer(self, id: str, command: str = "make", **more: Any) -> str:
        use = {"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": id}
        payload = {"stdout": "ok", "stderr": "", "interrupted": False}
        return self.send("PostToolUse", **use, tool_response=payload, duration_ms=12, **more)

    def write(self, path: str, content: str = "text\n", id: str = "") -> str:
        full = str(self.project / path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        Path(full).write_text(content)
        return self.send(
            "PostToolUse",
            tool_name="Write",
            tool_input={"file_path": full, "content": content},
            tool_use_id=id or f"w{next(self.names)}",
            tool_response={"type": "create", "filePath": full, "content": content},
        )

    def stop(self, last: str = "done", **more: Any) -> str:
        return self.send("Stop", last_assistant_message=last, **more)

    def end(self, reason: str = "other") -> str:
        return self.send("SessionEnd", reason=reason)

    # -- recorded events -----------------------------------------------------------------------

    def open(self) -> forestay.Forestay:
        return forestay.open(str(self.home), cwd=str(self.project), trust_env=False)

    def events(self, session: str = "") -> list[tuple[str, str]]:
        """Return kind and main text of every event in a session, the only one by default."""
        with self.open() as home:
            chosen = session or self.sessions()[0]
            return [(one.event.kind, _gist(one.event.body)) for one in home.session(chosen).log()]

    def sessions(self) -> list[str]:
        with self.open() as home:
            return [row.session for row in home.list(all=True)]


def _gist(body: object) -> str:
    names = ("goal", "arguments", "path", "text", "doing", "agent", "context", "value", "message")
    words = (getattr(body, name, "") for name in names)
    return str(next(filter(None, words), ""))
