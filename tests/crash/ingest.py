"""Scenario of ingesting hook payloads under faults: nothing is lost, nothing doubled.

Two conversations wait, in two batches: one that ends, one with a tool in flight.
"""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import forestay
from forestay.agents import ingest
from forestay.agents.spool import Spool
from forestay.base.clock import FakeClock
from forestay.errors import Busy, ReadOnly, StoreFailed
from tests.crash.scenario import Ack, Scenario

_BEGAN = 1_600_000_000
_LOT = 5
FIRST = ["started", "sent", "ran one", "sent", "interrupted", "paused"]
SECOND = ["started", "sent", "ran two"]


def _open(home: str, seed: int = 0) -> forestay.Forestay:
    """Open with the same random bytes every time, because other bytes may be stored longer."""
    return forestay.open(home, cwd="/", trust_env=False, clock=FakeClock(seed=seed))


def _payloads(folder: str) -> Iterator[tuple[str, dict[str, object]]]:
    def payload_of(native: str, event: str, **more: object) -> tuple[str, dict[str, object]]:
        common = {"session_id": native, "cwd": folder, "hook_event_name": event}
        return event, {**common, **more}

    def tool(native: str, event: str, id: str, command: str) -> tuple[str, dict[str, object]]:
        use = {"tool_name": "mcp__x__y", "tool_input": {"a": command}, "tool_use_id": id}
        return payload_of(native, event, **use, tool_response={"stdout": ""})

    yield payload_of("a", "UserPromptSubmit", prompt="First", prompt_id="1")
    yield payload_of("b", "UserPromptSubmit", prompt="Second", prompt_id="2")
    for native, id in (("a", "one"), ("b", "two")):
        yield tool(native, "PreToolUse", id, id)
        yield tool(native, "PostToolUse", id, id)
    yield payload_of("a", "Stop", last_assistant_message="Done.")
    yield tool("b", "PreToolUse", "flies", "three")
    yield tool("a", "PreToolUse", "dies", "four")
    yield payload_of("a", "SessionEnd", reason="other")


def _prepare(home: str) -> None:
    with _open(home) as opened:
        opened.start("Before", id="s1").complete()
    spool = Spool(home)
    spool.prepare()
    for number, (event, payload) in enumerate(_payloads("/")):
        path = Path(spool.path("new", f"{number:02d}"))
        line = f"forestay-spool 1 claude-code {event} {os.getpid()} 1 boot 1\n"
        path.write_bytes(line.encode() + json.dumps(payload).encode())
        _date(str(path))


def _date(path: str) -> None:
    at = _BEGAN + int(os.path.basename(path))
    os.utime(path, (at, at))


def _run(home: str, ack: Ack) -> None:
    vars(ingest)["_LOT"] = _LOT
    with _open(home, seed=1) as opened:
        opened.agents.ingest()
        ack("after")


def _check(home: str, acked: Sequence[str]) -> list[str]:
    for name in os.listdir(Spool(home).path("new")):
        _date(Spool(home).path("new", name))  # the shim does not restore times
    with _open(home, seed=2) as opened:
        opened.agents.ingest()
        goals = {row.goal: row.session for row in opened.list(all=True)}
        problems = [f"left waiting: {opened.agents.waiting()}"] if opened.agents.waiting() else []
        for goal, intended in (("First", FIRST), ("Second", SECOND)):
            found = [_word(line.event.body) for line in opened.session(goals[goal]).log()]
            if found != intended:
                problems.append(f"{goal}: {found}")
        flying = [
            f.doing
            for f in opened.context.store.machine.agent_runs.of(goals["Second"])[0].flights.values()
        ]
        if len(goals) != 3 or flying != ["mcp__x__y"]:
            problems.append(f"{sorted(goals)}, in flight: {flying}")
        problems += [f"does not verify: {r.findings}" for r in opened.verify() if not r.ok]
    return problems


def _word(body: object) -> str:
    name = type(body).__name__
    word = "".join(" " + c.lower() if c.isupper() else c for c in name).split()[-1]
    arguments = getattr(body, "arguments", "")
    return f"{word} {arguments.removeprefix('a=')}" if arguments else word


INGESTED = Scenario(
    prepare=_prepare, run=_run, check=_check, refusals=(StoreFailed, Busy, ReadOnly)
)
