"""Exit codes from transcripts and digests from files, where payloads lack them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from forestay.base.hashing import digest_of
from forestay.model import event as ev
from tests.agents.spooling import Hooks


@pytest.fixture
def hooks(tmp_path: Path) -> Hooks:
    return Hooks(tmp_path, agent="codex")


def bodies(hooks: Hooks) -> list[ev.Body]:
    with hooks.open() as home:
        home.agents.ingest()
        (row,) = home.list(all=True)
        return [line.event.body for line in home.session(str(row.session)).log()]


def ran(hooks: Hooks, id: str, **more: Any) -> None:
    call = {"tool_name": "Bash", "tool_input": {"command": f"make {id}"}, "tool_use_id": id}
    hooks.send("PostToolUse", **call, tool_response="no rule\n", **more)


def test_exit_code_of_a_codex_command_is_read_from_its_rollout(
    hooks: Hooks, tmp_path: Path
) -> None:
    rollout = tmp_path / "rollout-1.jsonl"
    ends = {"c1": 2, "c2": 0}
    lines = (
        {"payload": {"type": "item_completed", "item": {"id": id, "exit_code": code}}}
        for id, code in ends.items()
    )
    rollout.write_text("".join(json.dumps(line) + "\n" for line in lines))
    hooks.send("UserPromptSubmit", prompt="Go", transcript_path=str(rollout))
    for id in ("c1", "c2", "c3"):
        ran(hooks, id, transcript_path=str(rollout))
    found = [body for body in bodies(hooks) if isinstance(body, ev.CommandRan)]
    assert [(one.arguments, one.status, one.error) for one in found] == [
        ("c1", "failure", "exit 2"),
        ("c2", "success", ""),
        ("c3", "unknown", ""),
    ]


def test_digest_reported_with_other_line_ends_is_that_of_the_file(hooks: Hooks) -> None:
    path, data = hooks.project / "a.txt", b"one\r\nzwei\r\n"
    path.write_bytes(data)
    claude = hooks.another("n2", "claude-code")
    claude.send("UserPromptSubmit", prompt="Go")
    given = {"file_path": str(path), "old_string": "two", "new_string": "zwei"}
    payload = {"filePath": str(path), "originalFile": "one\ntwo\n", "oldString": "two"}
    claude.send(
        "PostToolUse",
        tool_name="Edit",
        tool_input=given,
        tool_response={**payload, "newString": "zwei"},
        tool_use_id="t1",
    )
    (change,) = (body for body in bodies(claude) if isinstance(body, ev.FileChanged))
    assert (change.before, change.after) == ("", digest_of(data))
