"""Transcripts of agents are parsed, and nothing is invented."""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random
from typing import Any

import pytest

from forestay.agents.hook_event import HookEvent, Todo
from forestay.agents.transcripts import find as transcripts_find
from forestay.agents.transcripts.claude import ClaudeReader
from forestay.agents.transcripts.codex import CodexReader
from forestay.agents.transcripts.find import Transcript, find, folder, lines, read_events
from forestay.agents.transcripts.gemini import GeminiReader
from forestay.agents.transcripts.reader import Reader
from forestay.base.hashing import digest_of
from forestay.errors import InvalidInput
from forestay.model import event as ev
from forestay.model.event import Body


def stamp(second: int) -> str:
    return f"2026-01-02T03:04:{second:02}.000Z"


def events_of(reader: Reader, *records: object) -> list[HookEvent]:
    found = [parsed for record in records for parsed in reader.feed(record)]
    return [parsed for parsed in [*found, *reader.end()] if parsed.bodies or parsed.todo]


def bodies(reader: Reader, *records: object) -> list[Body]:
    return [move for parsed in events_of(reader, *records) for move in parsed.bodies]


def sha(text: str) -> str:
    return digest_of(text.encode())


# -- Claude Code -------------------------------------------------------------------------------


def line(type: str, second: int = 0, **more: Any) -> dict[str, Any]:
    common = {"sessionId": "n1", "cwd": "/w", "gitBranch": "main", "uuid": f"u{second}"}
    return {"type": type, "timestamp": stamp(second), **common, **more}


def user(content: object, second: int = 0, **more: Any) -> dict[str, Any]:
    return line("user", second, message={"role": "user", "content": content}, **more)


def uses(tool: str, given: object, second: int = 0, **more: Any) -> dict[str, Any]:
    part = {"type": "tool_use", "id": f"t{second}", "name": tool, "input": given}
    return line("assistant", second, message={"content": [part], "stop_reason": "tool_use"}, **more)


def result(of: int, second: int, payload: object, content: str = "", **more: Any) -> dict[str, Any]:
    part = {"type": "tool_result", "tool_use_id": f"t{of}", "content": content, **more}
    return user([part], second, toolUseResult=payload)


def test_prompts_and_answers_of_claude_are_parsed() -> None:
    reader = ClaudeReader()
    usage = {"input_tokens": 5, "cache_read_input_tokens": 90, "output_tokens": 5}
    message = {"model": "opus", "content": [{"type": "text", "text": "Done."}], "usage": usage}
    prompt, answer = events_of(
        reader,
        user("fix it", 1),
        user("a note of the program", 2, isMeta=True),
        user("[Request interrupted by user]", 3),
        line("assistant", 4, message={**message, "stop_reason": "end_turn"}),
    )
    assert (prompt.what, prompt.key, prompt.at) == ("prompt", "u1", 1767323041000)
    assert prompt.bodies == (ev.MessageSent(role="user", text="fix it"),)
    assert (answer.what, answer.tokens, answer.model) == ("turn_end", 100, "opus")
    assert answer.bodies == (ev.MessageSent(role="agent", text="Done."),)
    assert (reader.native, reader.cwd, reader.branch) == ("n1", "/w", "main")


def test_commands_and_file_changes_of_claude_are_parsed() -> None:
    payload = {"type": "create", "filePath": "/w/a.py", "content": "x\n", "originalFile": None}
    assert bodies(
        ClaudeReader(),
        uses("Bash", {"command": "make all"}, 1),
        result(1, 3, {"stdout": "ok", "interrupted": False}),
        uses("Bash", {"command": "make test"}, 4),
        result(4, 5, "Error: Exit code 2", "Exit code 2\nno rule", is_error=True),
        uses("Write", {"file_path": "/w/a.py", "content": "x\n"}, 6),
        result(6, 7, payload),
        uses("Bash", {"command": "sleep 9"}, 8),
    ) == [
        ev.CommandRan(name="make", arguments="all", duration_ms=2000),
        ev.CommandRan(
            name="make",
            arguments="test",
            status="failure",
            error="exit 2\nno rule",
            duration_ms=1000,
        ),
        ev.FileChanged(path="/w/a.py", action="created", added=1, removed=0, after=sha("x\n")),
        ev.CommandRan(name="sleep", arguments="9", status="unknown", duration_ms=0),
    ]


def test_sub_agents_of_claude_are_parsed() -> None:
    sent = {"description": "look", "subagent_type": "Explore", "prompt": "p"}
    done = {"status": "completed", "agentId": "a7", "totalTokens": 9, "content": "found"}
    reader = ClaudeReader(agents={"t5": "a9"})
    assert bodies(
        reader,
        uses("Agent", sent, 1),
        result(1, 2, done),
        uses("Task", sent, 3),
        result(3, 4, {"status": "async_launched", "agentId": "a8"}),
        uses("Agent", sent, 5),
        result(5, 6, "Error: died", "died", is_error=True),
    ) == [
        ev.AgentStarted(agent="a7", type="Explore", task="look"),
        ev.ContextMeasured(tokens=9, agent="a7"),
        ev.AgentFinished(agent="a7", result="found"),
        ev.AgentStarted(agent="a8", type="Explore", task="look"),
        ev.AgentStarted(agent="a9", type="Explore", task="look"),
        ev.AgentFailed(agent="a9", error="died"),
    ]


def test_work_of_a_claude_sub_agent_has_its_name() -> None:
    inside = {"isSidechain": True, "agentId": "a7"}
    parsed = events_of(
        ClaudeReader(),
        user("look around", 1, **inside),
        uses("Bash", {"command": "ls"}, 2, **inside),
        {**result(2, 3, {"stdout": ""}), **inside},
    )
    assert [(one.by, one.bodies) for one in parsed] == [
        ("a7", (ev.CommandRan(name="ls", agent="a7", duration_ms=1000),))
    ]


def test_claude_compactions_and_errors_and_queued_prompts_are_parsed() -> None:
    failed = {"content": [{"type": "text", "text": "API Error: 529"}]}
    assert bodies(
        ClaudeReader(),
        user("<summary>keel laid</summary>", 1, isCompactSummary=True),
        line("assistant", 2, message=failed, isApiErrorMessage=True),
        line("attachment", 3, attachment={"type": "queued_command", "prompt": "and the mast"}),
    ) == [
        ev.ContextCompressed(summary="keel laid"),
        ev.ErrorRaised(message="API Error: 529"),
        ev.MessageSent(role="user", text="and the mast"),
    ]


# -- Codex -------------------------------------------------------------------------------------


def item(type: str, second: int = 0, outer: str = "response_item", **more: Any) -> dict[str, Any]:
    return {"type": outer, "timestamp": stamp(second), "payload": {"type": type, **more}}


META = {
    "type": "session_meta",
    "payload": {"id": "n1", "cwd": "/w", "git": {"branch": "main", "commit_hash": "c0"}},
}


def calls(tool: str, given: object, second: int) -> dict[str, Any]:
    more = {"name": tool, "arguments": json.dumps(given), "call_id": f"t{second}"}
    return item("function_call", second, **more)


def output(of: int, second: int, payload: object) -> dict[str, Any]:
    return item("function_call_output", second, call_id=f"t{of}", output=payload)


def test_prompts_and_answers_of_codex_are_parsed() -> None:
    reader = CodexReader()
    context = "<environment_context><cwd>/w</cwd></environment_context>"
    parts = [[{"type": "input_text", "text": text}] for text in ("fix it", "# AGENTS.md instru")]
    marked: dict[str, Any] = {
        "internal_chat_message_metadata_passthrough": {"content_item_kinds": ["hook"]}
    }
    usage: dict[str, Any] = {"info": {"last_token_usage": {"total_tokens": 920}}}
    parsed = events_of(
        reader,
        META,
        {"type": "turn_context", "payload": {"model": "gpt"}},
        item("message", 1, role="user", content=[{"type": "input_text", "text": context}]),
        item("message", 2, role="user", id="m2", content=parts[0]),
        item("message", 3, role="user", content=[{"type": "input_text", "text": "x"}], **marked),
        item("message", 3, role="developer", content=parts[0]),
        item("token_count", 4, "event_msg", **usage),
        item("task_complete", 5, "event_msg", turn_id="u5", last_agent_message="Done."),
    )
    users = [one for one in parsed if one.what == "prompt" and len(one.bodies) == 1]
    assert [(one.key, one.bodies[0]) for one in users][-1] == (
        "m2",
        ev.MessageSent(role="user", text="fix it"),
    )
    assert not any(
        isinstance(m, ev.MessageSent) and m.role == "user" and "environment" in m.text
        for one in parsed
        for m in one.bodies
    )
    last = parsed[-1]
    assert (last.tokens, last.model, last.bodies) == (
        920,
        "gpt",
        (ev.MessageSent(role="agent", text="Done."),),
    )
    assert (reader.native, reader.cwd, reader.branch, reader.commit) == ("n1", "/w", "main", "c0")


COMMANDS: dict[str, tuple[dict[str, Any], object, ev.CommandRan]] = {
    "well": (
        {"cmd": "make all"},
        "Chunk ID: 1\nWall time: 0.25 seconds\nProcess exited with code 0\nOutput:\nok",
        ev.CommandRan(name="make", arguments="all", duration_ms=250),
    ),
    "well, whatever it printed": (
        {"cmd": "make all"},
        "Process exited with code 0\nOutput:\nExit code: 7\n",
        ev.CommandRan(name="make", arguments="all", duration_ms=1000),
    ),
    "failed": (
        {"command": ["bash", "-lc", "make all"]},
        "Exit code: 2\nWall time: 1 seconds\nOutput:\nno rule",
        ev.CommandRan(
            name="make",
            arguments="all",
            status="failure",
            error="exit 2\nno rule",
            duration_ms=1000,
        ),
    ),
    "failed, in the older form": (
        {"command": ["make", "all"]},
        '{"output": "no", "metadata": {"exit_code": 2, "duration_seconds": 0.5}}',
        ev.CommandRan(
            name="make", arguments="all", status="failure", error="exit 2\nno", duration_ms=500
        ),
    ),
    "still running": (
        {"cmd": "make all"},
        "Wall time: 1.0 seconds\nProcess running with session ID 7\nOutput:\n",
        ev.CommandRan(name="make", arguments="all", status="unknown", duration_ms=1000),
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_codex_reports_the_result_of_a_command(name: str) -> None:
    given, payload, expected = COMMANDS[name]
    assert bodies(CodexReader(), META, calls("shell", given, 1), output(1, 2, payload)) == [
        expected
    ]


def test_exit_code_and_duration_come_from_the_end_record_of_codex() -> None:
    ended = {"type": "CommandExecution", "id": "t1", "exit_code": 3, "duration": {"secs": 2}}
    ended["duration"] = {"secs": 2, "nanos": 5_000_000}
    [ran] = bodies(
        CodexReader(),
        META,
        calls("exec_command", {"cmd": "x"}, 1),
        item("item_completed", 1, "event_msg", item=ended),
        output(1, 2, "no"),
    )
    assert ran == ev.CommandRan(name="x", status="failure", error="exit 3\nno", duration_ms=2005)


def test_patches_plans_and_mcp_calls_of_codex_are_parsed() -> None:
    patch = "*** Begin Patch\n*** Add File: a.py\n+x\n*** End Patch"
    made = item("custom_tool_call", 1, name="apply_patch", input=patch, call_id="t1")
    done = item("custom_tool_call_output", 2, call_id="t1", output="Exit code: 0\nOutput:\nok")
    plan = {"plan": [{"step": "caulk", "status": "in_progress"}]}
    served = calls("echo", {"text": "x"}, 5)
    served["payload"]["namespace"] = "mcp__toy"
    parsed = events_of(
        CodexReader(),
        META,
        made,
        done,
        calls("update_plan", plan, 3),
        output(3, 4, "Plan updated"),
        served,
        output(5, 6, "{}"),
        calls("update_plan", plan, 7),
        output(7, 8, "unsupported call: update_plan"),
        {"type": "compacted", "timestamp": stamp(9), "payload": {"message": "keel laid"}},
    )
    assert [move for one in parsed for move in one.bodies] == [
        ev.FileChanged(path="/w/a.py", action="created", added=1, removed=0, after=sha("x\n")),
        ev.CommandRan(name="mcp__toy__echo", arguments="text=x", duration_ms=1000),
        ev.ContextCompressed(summary="keel laid"),
    ]
    assert [one.todo for one in parsed if one.todo] == [
        (Todo("todo-" + sha("caulk")[:8], "caulk", "running"),)
    ]


def test_rollout_of_a_sub_agent_belongs_to_its_parent() -> None:
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": "n0"}}}
    reader = CodexReader()
    [ran] = events_of(
        reader,
        {"type": "session_meta", "payload": {"id": "n1", "source": spawned}},
        item("message", 1, role="user", content=[{"type": "input_text", "text": "look"}]),
        calls("shell", {"command": "ls"}, 2),
        output(2, 3, "Exit code: 0\nOutput:\n"),
    )
    assert (reader.native, ran.by) == ("n0", "n1")


# -- Gemini ------------------------------------------------------------------------------------


def chat(type: str, second: int, content: object, **more: Any) -> dict[str, Any]:
    return {"id": f"m{second}", "type": type, "timestamp": stamp(second), "content": content} | more


def gemini_call(name: str, args: object, status: str = "success", **more: Any) -> dict[str, Any]:
    return {"id": f"c-{name}", "name": name, "args": args, "status": status, **more}


def test_gemini_message_is_parsed_once_even_if_its_record_grows() -> None:
    output = "Output: no\nExit Code: 3\nPGID: 7"
    answer = [{"functionResponse": {"response": {"output": output}}}]
    call = gemini_call("run_shell_command", {"command": "make all"}, result=answer)
    shown = {"filePath": "/w/a.py", "originalContent": "", "newContent": "x\n", "isNewFile": True}
    written = gemini_call("write_file", {"file_path": "/w/a.py"}, resultDisplay=shown)
    context = [{"text": "<session_context>rules</session_context>"}]
    reader = GeminiReader()
    grown = chat("gemini", 2, "", toolCalls=[call])
    parsed = events_of(
        reader,
        {"sessionId": "n1", "kind": "main", "directories": ["/w"]},
        {"$set": {"messages": [chat("user", 0, context)]}},
        chat("user", 1, [{"text": "fix it"}]),
        chat("gemini", 2, ""),
        grown,
        {"$set": {"lastUpdated": stamp(2)}},
        {**grown, "toolCalls": [call, written]},
        chat("gemini", 3, "Done.", model="flash", tokens={"total": 920}),
        chat("gemini", 3, "Done.", model="flash"),
        chat("error", 4, "quota"),
    )
    assert [move for one in parsed for move in one.bodies] == [
        ev.MessageSent(role="user", text="fix it"),
        ev.CommandRan(name="make", arguments="all", status="failure", error="exit 3\nno"),
        ev.FileChanged(path="/w/a.py", action="created", added=1, removed=0, after=sha("x\n")),
        ev.MessageSent(role="agent", text="Done."),
        ev.ErrorRaised(message="quota"),
    ]
    assert (reader.native, reader.cwd, parsed[3].tokens, parsed[3].model) == (
        "n1",
        "/w",
        920,
        "flash",
    )


def test_gemini_reports_refused_calls_and_sub_agents() -> None:
    refused = gemini_call("run_shell_command", {"command": "rm x"}, "cancelled")
    sent = gemini_call("invoke_agent", {"agent_name": "scout", "prompt": "look"}, agentId="a7")
    assert bodies(GeminiReader(), chat("gemini", 1, "", toolCalls=[refused, sent])) == [
        ev.CommandRan(name="rm", arguments="x", status="failure", error="cancelled by the user"),
        ev.AgentStarted(agent="a7", type="scout", task="look"),
        ev.AgentFinished(agent="a7"),
    ]


# -- files -------------------------------------------------------------------------------------


def write(path: Path, *records: object, end: str = "\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(record) for record in records) + end)
    return path


def parsed_bodies(one: Transcript) -> tuple[list[Body], dict[str, int]]:
    unknown: dict[str, int] = {}
    return [move for parsed in read_events(one, unknown) for move in parsed.bodies], unknown


def test_claude_conversation_is_parsed_together_with_its_sub_agents(tmp_path: Path) -> None:
    main = write(tmp_path / "-w" / "n1.jsonl", user("fix it", 1), user("and that", 5))
    inside = {"isSidechain": True, "agentId": "a7"}
    below = tmp_path / "-w" / "n1" / "subagents" / "agent-a7.jsonl"
    write(below, uses("Bash", {"command": "ls"}, 2, **inside), {**result(2, 3, {}), **inside})
    [one] = find("claude-code", str(tmp_path))
    assert (one.native, one.cwd, one.path) == ("n1", "/w", str(main))
    assert one.paths[1] == (str(below), "a7") and one.size > 500
    assert parsed_bodies(one)[0] == [
        ev.MessageSent(role="user", text="fix it"),
        ev.CommandRan(name="ls", agent="a7", duration_ms=1000),
        ev.MessageSent(role="user", text="and that"),
    ]
    assert [each.native for each in find("claude-code", str(main))] == ["n1"]


def test_conversations_of_codex_and_gemini_are_found_in_their_folders(tmp_path: Path) -> None:
    write(tmp_path / "2026" / "01" / "rollout-x.jsonl", META)
    write(tmp_path / "2026" / "history.jsonl", META)
    assert [one.native for one in find("codex", str(tmp_path))] == ["n1"]
    project = tmp_path / "tmp" / "proj"
    head = {"sessionId": "n1", "kind": "main"}
    write(project / "chats" / "session-1.jsonl", head, chat("user", 1, "fix it"))
    write(project / "chats" / "n1" / "a7.jsonl", {"sessionId": "a7", "kind": "subagent"})
    (project / ".project_root").write_text("/w\n")
    old = {"sessionId": "n2", "messages": [chat("user", 1, "an older one")]}
    write(project / "chats" / "session-0.json", old)
    first, second = sorted(find("gemini", str(tmp_path)), key=lambda one: one.native)
    assert (first.native, first.cwd, len(first.paths)) == ("n1", "/w", 2)
    assert parsed_bodies(second)[0] == [ev.MessageSent(role="user", text="an older one")]


def test_unknown_entries_are_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "n1.jsonl", user("fix it", 1), line("teleport"), [1], line("summary"))
    with path.open("ab") as file:
        file.write(b"{torn\n\xff\xfe\n" + b"[" * 5000 + b"\n\n")
        file.write(json.dumps(user("second", 2)).encode()[:-9])
    [one] = find("claude-code", str(tmp_path))
    found, unknown = parsed_bodies(one)
    assert found == [ev.MessageSent(role="user", text="fix it")]
    assert unknown == {"teleport": 1, "not an object": 1, "not JSON": 3}


def test_a_line_that_is_too_long_costs_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcripts_find, "MOST_LINE", 1000)
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"{}\n" + b"x" * 900_000 + b"\n[]\n" + b"y" * 900_000)
    unknown: list[str] = []
    assert list(lines(str(path), unknown.append)) == [(b"{}", True), (b"[]", True)]
    assert unknown == ["too long", "too long"]


def test_only_transcripts_are_recognized_as_transcripts(tmp_path: Path) -> None:
    (tmp_path / "fifo.jsonl").parent.mkdir(exist_ok=True)
    os.mkfifo(tmp_path / "fifo.jsonl")
    (tmp_path / "link.jsonl").symlink_to("/etc/passwd")
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "other.jsonl").write_text('{"a": 1}\n')
    assert find("claude-code", str(tmp_path)) == []
    assert find("codex", str(tmp_path / "not there")) == []


def test_transcripts_are_found_in_the_folder_of_each_agent() -> None:
    assert folder("claude-code", "/home/u", {}) == "/home/u/.claude/projects"
    assert folder("codex", "/home/u", {"CODEX_HOME": "/c"}) == "/c/sessions"
    assert folder("gemini", "/home/u", {}) == "/home/u/.gemini/tmp"
    with pytest.raises(InvalidInput, match="are not supported"):
        folder("cursor", "/home/u", {})


def test_outcomes_of_the_last_commands_are_read_from_the_end_of_a_rollout(tmp_path: Path) -> None:
    payload = {"type": "CommandExecution", "id": "t1", "exit_code": 3}
    payload["duration"] = {"secs": 2, "nanos": 5_000_000}
    path = write(
        tmp_path / "rollout-1.jsonl",
        META,
        item("item_completed", 1, "event_msg", item=payload),
        output(1, 2, "Process exited with code 3\nOutput:\n"),
        output(4, 5, "Wall time: 0.5 seconds\nProcess exited with code 0\nOutput:\n"),
        item("item_completed", 6, "event_msg", item={"id": "t6", "exit_code": "odd"}),
        output(7, 8, "Process running with session ID 7"),
        end='\n{"exit',
    )
    assert transcripts_find.outcomes(str(path)) == {"t1": (3, 2005), "t4": (0, 500)}
    assert transcripts_find.outcomes(str(tmp_path / "none")) == {}
    assert transcripts_find.outcomes(str(tmp_path)) == {}


# -- invalid records ---------------------------------------------------------------------------

ODDS: tuple[Any, ...] = (None, True, -1, 2**70, 1e400, "", "x", "\ud800", [], {}, [{}], [[]])
KNOWN: list[tuple[type[Reader], dict[str, Any]]] = [
    (ClaudeReader, user("fix it", 1)),
    (ClaudeReader, uses("Bash", {"command": "ls"}, 1)),
    (ClaudeReader, result(1, 2, {"stdout": ""}, "x")),
    (CodexReader, META),
    (CodexReader, calls("shell", {"command": ["bash", "-lc", "ls"]}, 1)),
    (CodexReader, output(1, 2, '{"output": "x", "metadata": {"exit_code": 1}}')),
    (CodexReader, item("item_completed", 1, "event_msg", item={"id": "t1", "exit_code": 3})),
    (GeminiReader, chat("gemini", 1, "x", toolCalls=[gemini_call("write_file", {})])),
    (GeminiReader, {"$set": {"messages": [chat("user", 0, "x")]}}),
]


def twisted(random: Random, value: Any) -> Any:
    if isinstance(value, dict) and value and random.random() < 0.85:
        key = random.choice(list(value))
        return {**value, key: twisted(random, value[key])}
    if isinstance(value, list) and value and random.random() < 0.85:
        return [twisted(random, value[0]), *value[1:]]
    return random.choice(ODDS)


def test_no_twisted_record_raises_anything() -> None:
    random = Random(7)
    for _ in range(2000):
        kind, _ = random.choice(KNOWN)
        reader = kind()
        for _ in range(4):
            record = random.choice([one for made, one in KNOWN if made is kind])
            for parsed in reader.feed(twisted(random, record)):
                assert parsed.what
        assert all(parsed.what for parsed in reader.end())
