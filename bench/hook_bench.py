"""Measure hooks: one event (whole process), ingesting ten thousand, and the start of a session.

The payloads have the form and about the sizes of those of a day of work: commands with a page of
output, files of three hundred lines that are read or edited, prompts.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import forestay
from forestay.agents import spool_script
from forestay.agents.spool import Spool
from forestay.base.process import identity

Payload = tuple[str, dict[str, Any]]
Timed = Callable[[], None]

WORDS = """
    the session stores what was said and done until another agent resumes it def return import self
    value = None for name in names: if not found: raise assert test passed failed warning 0x1f
""".split()


def conversation(native: str, cwd: str, steps: int, seed: int = 1) -> Iterator[Payload]:
    """Yield the payloads of one conversation of Claude Code, about two for each step."""
    chance = random.Random(seed)
    common = {
        "session_id": native,
        "transcript_path": f"/home/dev/.claude/projects/-work/{native}.jsonl",
        "cwd": cwd,
        "permission_mode": "default",
    }

    def payload(event: str, **more: Any) -> Payload:
        return event, {**common, "hook_event_name": event, **more}

    yield payload("SessionStart", source="startup", model="claude-opus-5-5")
    for step in range(steps):
        if step % 20 == 0:
            prompt = f"Please look at part {step}. {text(chance, 300)}"
            yield payload("UserPromptSubmit", prompt=prompt, prompt_id=f"p{step}")
        yield from tool(payload, chance, f"toolu_{seed}_{step}", step, cwd)
        if step % 20 == 19:
            last = text(chance, 500)
            yield payload("Stop", last_assistant_message=last, prompt_id=f"p{step - 19}")


def tool(
    payload: Callable[..., Payload], chance: random.Random, id: str, step: int, cwd: str
) -> Iterator[Payload]:
    path = f"{cwd}/src/module{step % 40}.py"
    given: dict[str, Any]
    answer: object
    if step % 3 == 0:
        name, given = "Bash", {"command": f"pytest -q tests/test_{step}.py -k 'part {step}'"}
        answer = {"stdout": text(chance, 3000), "stderr": "", "interrupted": False}
    elif step % 3 == 1:
        name, given = "Read", {"file_path": path}
        answer = {"type": "text", "file": {"filePath": path, "content": text(chance, 12_000)}}
    else:
        name = "Edit"
        given = {"file_path": path, "old_string": "value = 1", "new_string": f"value = {step}"}
        before = f"value = 1\n{text(chance, 12_000)}"
        answer = {"filePath": path, "originalFile": before, **camel(given), "structuredPatch": []}
    use = {"tool_name": name, "tool_input": given, "tool_use_id": id}
    yield payload("PreToolUse", **use)
    yield payload("PostToolUse", **use, tool_response=answer, duration_ms=chance.randrange(5000))


def camel(given: dict[str, Any]) -> dict[str, Any]:
    return {"oldString": given["old_string"], "newString": given["new_string"]}


def text(chance: random.Random, size: int) -> str:
    """Return lines of words with about `size` characters, sometimes half or twice as many."""
    count = max(1, int(size * chance.choice((0.3, 0.6, 1, 2)) / 6))
    words = (chance.choice(WORDS) + ("\n" if n % 12 == 11 else " ") for n in range(count))
    return "".join(words)


def spool(home: str, payloads: list[Payload]) -> list[str]:
    """Write waiting payloads to a home, a millisecond apart; return the files."""
    at, me = Spool(home), identity()
    at.prepare()
    with open("/proc/1/stat", encoding="ascii") as file:
        init = file.read().rpartition(")")[2].split()[19]
    paths = []
    began = 1_700_000_000_000_000_000
    for number, (event, payload) in enumerate(payloads):
        process = f"{me.pid} {me.start} {me.boot} {init}" if me else "- - - -"
        path = at.path("new", f"{number:06d}")
        with open(path, "wb") as file:
            file.write(f"forestay-spool 1 claude-code {event} {process}\n".encode())
            file.write(json.dumps(payload).encode())
        os.utime(path, ns=(began + number * 1_000_000,) * 2)
        paths.append(path)
    return paths


def read_and_parse(paths: list[str]) -> None:
    for path in paths:
        with open(path, "rb") as file:
            file.readline()
            json.loads(file.read())


# -- figures -----------------------------------------------------------------------------------


def one_hook(folder: str) -> dict[str, Timed]:
    """Return a run of one event as a whole process, for each way to sync the payload."""
    home = os.path.join(folder, "home")
    os.makedirs(home, mode=0o700)
    Spool(home).prepare()
    (_, payload), *_ = conversation("n", folder, 1)
    data = json.dumps(payload).encode()

    def runner(sync: str) -> Timed:
        script = os.path.join(folder, f"spool-{sync}.sh")
        with open(script, "wb") as file:
            file.write(spool_script.spool_script(home, ["/bin/true"], sync=sync))
        return lambda: run("/bin/sh", script, "claude-code", "PostToolUse", given=data)

    return {sync: runner(sync) for sync in dict.fromkeys((spool_script.probe_sync(), ""))}


def run(*command: str, given: bytes = b"") -> None:
    subprocess.run(command, input=given, stdout=subprocess.DEVNULL, check=True)


def make_spooled_home(folder: str, project: str, count: int) -> tuple[str, list[str]]:
    """Make a home with `count` waiting payloads; return it and their files."""
    os.makedirs(folder, mode=0o700)
    return folder, spool(folder, list(conversation("n", project, count))[:count])


def make_session_start(folder: str, project: str, program: str) -> Timed:
    """Return a start of a conversation, each time with two payloads not yet ingested."""
    home, _ = make_spooled_home(folder, project, 400)
    with forestay.open(home, cwd=project, trust_env=False) as stay:
        stay.agents.ingest()
    rounds = iter(range(10_000))

    def start() -> None:
        turn = next(rounds)
        more = list(conversation("n", project, 1, seed=turn + 2))
        waiting = spool(home, [*more[2:4], ("SessionStart", {**more[0][1], "source": "resume"})])
        for path in waiting:
            os.utime(path)
        name = os.path.basename(waiting[-1])
        run(program, "--home", home, "hook", "claude-code", "--payload", name)

    return start
