"""Payloads of agents are parsed into the expected events; none causes an unexpected error."""

from __future__ import annotations

import time
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forestay.agents.hook_event import parse_time
from forestay.agents.payloads import (
    KNOWN,
    HookEvent,
    Todo,
    WrongShape,
    parse_payload,
    parse_prompt,
    plain_summary,
    split_machine_text,
)
from forestay.agents.tool_calls import (
    EDITS,
    LISTS,
    PATCHES,
    SENDS,
    SHELLS,
    WRITES,
)
from forestay.base.hashing import digest_of
from forestay.model import event as ev
from forestay.model.event import Body

COMMON = {"session_id": "n1", "cwd": "/w", "transcript_path": "/t.jsonl"}
FORMED = ("claude-code", "codex", "qwen")


def payload(event: str, **more: Any) -> dict[str, Any]:
    return {**COMMON, "hook_event_name": event, **more}


def parse_known(agent: str, values: object, event: str = "") -> HookEvent:
    found = parse_payload(agent, values, event)
    assert found is not None
    return found


def bodies(agent: str, values: object, event: str = "") -> list[Body]:
    return list(parse_known(agent, values, event).bodies)


def ran(tool: str, given: object, response: object, **more: Any) -> dict[str, Any]:
    call = {"tool_name": tool, "tool_input": given, "tool_response": response, "tool_use_id": "u1"}
    return payload("PostToolUse", **call, **more)


def sha(text: str) -> str:
    return digest_of(text.encode())


# -- a session ---------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", [*FORMED, "gemini"])
@pytest.mark.parametrize("source", ["startup", "resume", "clear", "compact", "fork"])
def test_start_has_its_source(agent: str, source: str) -> None:
    start = parse_known(agent, payload("SessionStart", source=source, model="m-1"))
    assert (start.what, start.source, start.native, start.model) == ("start", source, "n1", "m-1")
    assert (start.agent, start.cwd, start.transcript, start.bodies) == (agent, "/w", "/t.jsonl", ())


@pytest.mark.parametrize(
    ("values", "ms"),
    [
        ("1970-01-01T00:00:01.5Z", 1500),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:02", 2000),
        (1700000000000, 1700000000000),
        (-5, 0),
        ("9999-99-99", 0),
        (None, 0),
    ],
)
def test_times_are_parsed_to_milliseconds(values: object, ms: int) -> None:
    assert parse_time(values) == ms


def test_start_with_an_unknown_source_is_a_startup() -> None:
    assert parse_known("codex", payload("SessionStart", source="teleport")).source == "startup"


@pytest.mark.parametrize(("agent", "event"), [("codex", "SessionEnd"), ("gemini", "SessionEnd")])
def test_end_has_its_reason(agent: str, event: str) -> None:
    end = parse_known(agent, payload(event, reason="clear", timestamp="2026-01-02T03:04:05.678Z"))
    assert (end.what, end.source, end.at) == ("end", "clear", 1767323045678)


@pytest.mark.parametrize(
    ("agent", "event", "field"),
    [
        ("claude-code", "Stop", "last_assistant_message"),
        ("codex", "Stop", "last_assistant_message"),
        ("gemini", "AfterAgent", "prompt_response"),
    ],
)
def test_end_of_a_turn_has_the_last_message_of_the_agent(
    agent: str, event: str, field: str
) -> None:
    end = parse_known(agent, payload(event, **{field: "done, see a.py"}, input_tokens=900))
    assert end.what == "turn_end" and end.tokens == 900
    assert end.bodies == (ev.MessageSent(role="agent", text="done, see a.py"),)
    assert parse_known(agent, payload(event, **{field: None})).bodies == ()


def test_an_interrupt_ends_a_turn() -> None:
    assert parse_known("codex", payload("Interrupt")).source == "interrupt"


@pytest.mark.parametrize(
    ("kind", "category"),
    [("rate_limit", "transient"), ("billing_error", "configuration"), ("new", "logical")],
)
def test_a_model_that_does_not_answer_is_an_error(kind: str, category: str) -> None:
    failed = parse_known(
        "claude-code", payload("StopFailure", error=kind, last_assistant_message="429")
    )
    assert failed.what == "failure"
    assert failed.bodies == (ev.ErrorRaised(message="429", category=category),)


def test_sub_agent_whose_model_does_not_answer_fails() -> None:
    values = payload("StopFailure", error="rate_limit", last_assistant_message="429", agent_id="a7")
    died = parse_known("claude-code", values)
    assert (died.what, died.by) == ("agent_stop", "a7")
    assert died.bodies == (ev.AgentFailed(agent="a7", error="429", category="transient"),)


# -- prompts -----------------------------------------------------------------------------------

NOTICE = (
    "<task-notification>\n<task-id>a7</task-id>\n<status>{status}</status>\n"
    '<summary>Agent "look" {status}</summary>\n'
    "<usage><subagent_tokens>1225</subagent_tokens></usage>\n</task-notification>"
)


@pytest.mark.parametrize("agent", FORMED)
def test_prompt_has_the_words_of_the_user(agent: str) -> None:
    prompt = parse_known(agent, payload("UserPromptSubmit", prompt="fix <b>bold</b> text"))
    assert prompt.what == "prompt"
    assert prompt.bodies == (ev.MessageSent(role="user", text="fix <b>bold</b> text"),)


@pytest.mark.parametrize("agent", FORMED)
def test_prompt_of_a_sub_agent_is_machine_text(agent: str) -> None:
    values = parse_known(agent, payload("UserPromptSubmit", prompt="look there", agent_id="a7"))
    assert (values.what, values.by) == ("other", "a7")
    assert values.bodies == (ev.MessageSent(role="machine", text="look there"),)


def test_machine_text_and_user_text_are_separate_messages() -> None:
    values = payload("BeforeAgent", prompt="<hook_context>obey</hook_context>\n\nfix it")
    assert bodies("gemini", values) == [
        ev.MessageSent(role="machine", text="<hook_context>obey</hook_context>"),
        ev.MessageSent(role="user", text="fix it"),
    ]


def test_notification_reports_a_sub_agent_and_is_no_prompt() -> None:
    notice = NOTICE.format(status="completed")
    assert bodies("claude-code", payload("UserPromptSubmit", prompt=notice)) == [
        ev.MessageSent(role="machine", text=notice),
        ev.ContextMeasured(tokens=1225, agent="a7"),
    ]


def test_notification_of_a_killed_sub_agent_is_its_failure() -> None:
    died = bodies("claude-code", payload("UserPromptSubmit", prompt=NOTICE.format(status="killed")))
    assert died[1] == ev.AgentFailed(agent="a7", error='Agent "look" killed')


def test_failed_sub_agent_is_recorded_as_failed_once() -> None:
    notice = NOTICE.format(status="failed")
    values = bodies("claude-code", payload("UserPromptSubmit", prompt=notice))
    assert not any(isinstance(move, ev.AgentFailed) for move in values), (
        "StopFailure has reported it"
    )
    assert any(isinstance(move, ev.AgentFailed) for move in parse_prompt(notice))


def test_notification_of_a_background_command_is_not_about_an_agent() -> None:
    notice = "<task-notification><task-id>b1</task-id><status>failed</status></task-notification>"
    assert len(bodies("claude-code", payload("UserPromptSubmit", prompt=notice))) == 1


def test_slash_command_with_arguments_is_a_user_message() -> None:
    typed = "<command-name>/mend</command-name>\n<command-args>the sail</command-args>"
    assert parse_prompt(typed)[1:] == (ev.MessageSent(role="user", text="/mend the sail"),)
    bare = "<command-name>/clear</command-name>\n<command-args></command-args>"
    assert parse_prompt(bare) == (ev.MessageSent(role="machine", text=bare),)


def test_empty_prompt_is_ignored() -> None:
    assert parse_payload("qwen", payload("UserPromptSubmit", prompt="")) is None


def test_many_machine_texts_are_separated_from_the_prompt() -> None:
    machine, own = split_machine_text(
        "<system-reminder>x</system-reminder>\n" * 20_000 + "go <task>"
    )
    assert own == "go <task>" and len(machine) > 600_000
    assert split_machine_text("<task-notification>" + "x" * 1_000_000)[0] == ""


# -- tools -------------------------------------------------------------------------------------

BEFORE = {
    "Bash: pytest -q": ("Bash", {"command": "pytest\n -q"}),
    "Write: /w/a.py": ("Write", {"content": "x", "file_path": "/w/a.py"}),
    "Agent: look around": ("Agent", {"description": "look around", "prompt": "p"}),
    "mcp__toy__echo": ("mcp__toy__echo", {"n": 1}),
}


@pytest.mark.parametrize("doing", BEFORE)
def test_started_call_is_described_in_one_line(doing: str) -> None:
    tool, given = BEFORE[doing]
    values = payload(
        "PreToolUse", tool_name=tool, tool_input=given, tool_use_id="u1", agent_id="a7"
    )
    before = parse_known("claude-code", values)
    assert (before.what, before.doing, before.tool, before.pair) == ("before", doing, tool, "u1")
    assert (before.by, before.bodies) == ("a7", ())
    assert before.task == ("look around" if tool == "Agent" else "")


def test_long_command_is_shortened_in_its_description() -> None:
    values = payload("PreToolUse", tool_name="Bash", tool_input={"command": "x " * 9000})
    assert 150 < len(parse_known("codex", values).doing) <= 160


def test_calls_without_an_id_pair_by_tool_and_input() -> None:
    call = {"tool_name": "run_shell_command", "tool_input": {"command": "ls"}}
    before = parse_known("gemini", payload("BeforeTool", **call))
    after = parse_known("gemini", payload("AfterTool", **call, tool_response={"llmContent": "x"}))
    other = parse_known("gemini", payload("BeforeTool", tool_name="glob", tool_input={}))
    assert before.pair == after.pair != other.pair
    assert (before.key, after.key) == ("", "")


def command(status: str = "success", error: str = "", **more: Any) -> list[Body]:
    return [ev.CommandRan(name="make", arguments="all", status=status, error=error, **more)]


SHELL = {"command": "make all"}
ENDS: dict[str, tuple[str, dict[str, Any], list[Body]]] = {
    "claude, well": (
        "claude-code",
        ran("Bash", SHELL, {"stdout": "ok", "interrupted": False}, duration_ms=83),
        command(duration_ms=83),
    ),
    "claude, interrupted": (
        "claude-code",
        ran("Bash", SHELL, {"stdout": "", "interrupted": True}),
        command("failure", "interrupted"),
    ),
    "claude, by a sub-agent": (
        "claude-code",
        ran("Bash", SHELL, {}, agent_id="a7", agent_type="Explore"),
        command(agent="a7"),
    ),
    "claude, in the background": (
        "claude-code",
        ran("Bash", SHELL, {"backgroundTaskId": "b1"}),
        [ev.CommandRan(name="make", arguments="all  # in the background")],
    ),
    "claude, failed": (
        "claude-code",
        payload(
            "PostToolUseFailure", tool_name="Bash", tool_input=SHELL, error="Exit code 3\noops"
        ),
        command("failure", "exit 3\noops"),
    ),
    "claude, stopped by the user": (
        "claude-code",
        payload("PostToolUseFailure", tool_name="Bash", tool_input=SHELL, is_interrupt=True),
        command("failure", "interrupted"),
    ),
    "codex reports no exit code": (
        "codex",
        ran("Bash", SHELL, "Exit code: 1\n"),
        command("unknown"),
    ),
    "gemini, well": (
        "gemini",
        payload(
            "AfterTool",
            tool_name="run_shell_command",
            tool_input=SHELL,
            tool_response={"llmContent": "Output: Exit Code: 4\nProcess Group PGID: 7"},
        ),
        command(),
    ),
    "gemini, failed": (
        "gemini",
        payload(
            "AfterTool",
            tool_name="run_shell_command",
            tool_input=SHELL,
            tool_response={"llmContent": "<u>\nOutput: no\nway\nExit Code: 3\nPGID: 7\n</u>"},
        ),
        command("failure", "exit 3\nno\nway"),
    ),
    "qwen, failed": (
        "qwen",
        payload(
            "PostToolUseFailure",
            tool_name="run_shell_command",
            tool_input=SHELL,
            error="Command: make\nOutput: no\nError: (none)\nExit Code: 2\nSignal: (none)",
            duration_ms=9,
        ),
        command("failure", "exit 2\nno", duration_ms=9),
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_command_is_recorded_with_its_result(name: str) -> None:
    agent, values, expected = ENDS[name]
    after = parse_known(agent, values)
    assert list(after.bodies) == expected
    assert after.what == "after" and after.shell


def test_long_error_is_stored_with_its_first_line_and_its_end() -> None:
    error = "Exit code 1\n" + "noise\n" * 5000 + "2 failed"
    values = payload("PostToolUseFailure", tool_name="Bash", tool_input=SHELL, error=error)
    [body] = bodies("claude-code", values)
    assert isinstance(body, ev.CommandRan)
    assert body.error.startswith("exit 1\n") and body.error.endswith("2 failed")
    assert len(body.error) < 3100


def test_no_part_of_a_cut_key_is_stored() -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\n" + "c2VjcmV0\n" * 900 + "-----END RSA PRIVATE KEY-----"
    error = "noise\n" * 900 + key + "\nsorry"
    values = payload("PostToolUseFailure", tool_name="Bash", tool_input=SHELL, error=error)
    [body] = bodies("claude-code", values)
    assert isinstance(body, ev.CommandRan)
    assert "c2VjcmV0" not in body.error and "sorry" in body.error


def test_call_of_an_mcp_tool_is_a_command() -> None:
    [echo] = bodies("claude-code", ran("mcp__toy__echo", {"text": "ping", "deep": {"a": 1}}, "{}"))
    assert echo == ev.CommandRan(name="mcp__toy__echo", arguments="text=ping, deep={…}")
    named = {"server_name": "toy", "tool_name": "echo"}
    values = payload("AfterTool", tool_name="mcp_toy_echo", tool_input={}, mcp_context=named)
    assert bodies("gemini", values) == [ev.CommandRan(name="mcp__toy__echo")]
    wrong = {"isError": True, "content": [{"type": "text", "text": "no such thing"}]}
    [failed] = bodies("codex", ran("mcp__toy__echo", {}, wrong))
    assert failed == ev.CommandRan(name="mcp__toy__echo", status="failure", error="no such thing")


@pytest.mark.parametrize("tool", ["Read", "WebSearch", "mcp__forestay__record"])
def test_reading_tools_and_our_own_tools_have_no_events(tool: str) -> None:
    after = parse_known("claude-code", ran(tool, {"file_path": "/w/a"}, "text"))
    assert (after.what, after.bodies, after.pair) == ("after", (), "u1")


# -- files -------------------------------------------------------------------------------------


def changed(path: str = "/w/a.py", **more: Any) -> list[Body]:
    return [ev.FileChanged(path=path, **more)]


PATCH = [{"lines": [" one", "-two", "+zwei", "+drei"]}]
NEW: dict[str, Any] = {"action": "created", "added": 2, "removed": 0, "after": sha("one\ntwo\n")}
EDITED: dict[str, Any] = {
    "added": 2,
    "removed": 1,
    "before": sha("one\ntwo\n"),
    "after": sha("one\nzwei\ndrei\n"),
}
AT, TEXT = {"file_path": "/w/a.py"}, {"content": "one\ntwo\n"}
SWAP = {"old_string": "two", "new_string": "zwei\ndrei"}
SHOWN = {"filePath": "/w/a.py", "originalContent": "", "newContent": "one\ntwo\n"}
FILES: dict[str, tuple[str, dict[str, Any], list[Body]]] = {
    "claude, created": (
        "claude-code",
        ran("Write", {**AT, **TEXT}, {"type": "create", **TEXT, "originalFile": None}),
        changed(**NEW),
    ),
    "claude, written over": (
        "claude-code",
        ran(
            "Write",
            {**AT, "content": "x"},
            {"type": "update", "content": "one\nzwei\ndrei\n", "originalFile": "one\ntwo\n"}
            | {"structuredPatch": PATCH},
        ),
        changed(**EDITED),
    ),
    "claude, edited": (
        "claude-code",
        ran(
            "Edit",
            {**AT, **SWAP},
            {"originalFile": "one\ntwo\n", "oldString": "two", "newString": "zwei\ndrei"}
            | {"structuredPatch": PATCH, "replaceAll": False},
        ),
        changed(**EDITED),
    ),
    "claude, edited in several places": (
        "claude-code",
        ran(
            "MultiEdit",
            {**AT, "edits": [{"old_string": "a", "new_string": "b", "replace_all": True}, SWAP]},
            {"originalFile": "aa two"},
        ),
        changed(before=sha("aa two"), after=sha("bb zwei\ndrei"), added=2, removed=1),
    ),
    "claude, a line taken out": (
        "claude-code",
        ran("Edit", {**AT, "old_string": "two", "new_string": ""}, {"originalFile": "two\nx"}),
        changed(before=sha("two\nx"), after=sha("x"), added=0, removed=1),
    ),
    "claude, a notebook": (
        "claude-code",
        ran(
            "NotebookEdit",
            {"notebook_path": "/w/a.py"},
            {"original_file": "{\n1\n}", "updated_file": "{\n1\n2\n}", "error": ""},
        ),
        changed(before=sha("{\n1\n}"), after=sha("{\n1\n2\n}"), added=1, removed=0),
    ),
    "claude, not telling what was there": (
        "claude-code",
        ran("Write", {**AT, **TEXT}, "File written"),
        changed(after=sha("one\ntwo\n")),
    ),
    "claude, words that are not there": (
        "claude-code",
        ran("Edit", {**AT, **SWAP}, {"originalFile": "other"}),
        changed(before=sha("other")),
    ),
    "claude, by a sub-agent": (
        "claude-code",
        ran("Write", {**AT, **TEXT}, {"type": "create", **TEXT}, agent_id="a7"),
        changed(agent="a7", **NEW),
    ),
    "gemini, created": (
        "gemini",
        payload(
            "AfterTool",
            tool_name="write_file",
            tool_input={**AT, **TEXT},
            tool_response={"returnDisplay": {**SHOWN, "isNewFile": True}},
        ),
        changed(**NEW),
    ),
    "gemini, refused": (
        "gemini",
        payload(
            "AfterTool", tool_name="replace", tool_input=AT, tool_response={"error": {"message": 1}}
        ),
        [],
    ),
    "qwen, created": (
        "qwen",
        ran("write_file", {**AT, **TEXT}, {"returnDisplay": SHOWN}),
        changed(**NEW),
    ),
    "qwen, edited": (
        "qwen",
        ran(
            "edit",
            {**AT, **SWAP},
            {
                "returnDisplay": {
                    "originalContent": "one\ntwo\n",
                    "newContent": "one\nzwei\ndrei\n",
                    "diffStat": {"model_added_lines": 2, "model_removed_lines": 1},
                }
            },
        ),
        changed(**EDITED),
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_file_is_recorded_with_its_digests_before_and_after(name: str) -> None:
    agent, values, expected = FILES[name]
    after = parse_known(agent, values)
    assert list(after.bodies) == expected
    assert not after.shell


APPLIED = """*** Begin Patch
*** Add File: new.py
+one
+two
*** Update File: /w/old.py
*** Move to: moved.py
@@
-a
+b
+c
*** Delete File: gone.py
*** End Patch"""


def test_a_patch_is_a_change_of_each_of_its_files() -> None:
    values = ran("apply_patch", {"command": APPLIED}, "Exit code: 0\nOutput:\nSuccess.")
    assert bodies("codex", values) == [
        *changed("/w/new.py", **NEW),
        *changed("/w/old.py", action="deleted"),
        *changed("/w/moved.py", action="created", added=2, removed=1),
        *changed("/w/gone.py", action="deleted", added=0, removed=0),
    ]


def test_a_patch_that_failed_changed_nothing() -> None:
    assert bodies("codex", ran("apply_patch", {"command": APPLIED}, "Exit code: 1\nno")) == []


# -- tasks -------------------------------------------------------------------------------------

LISTED = {
    "claude-code": ("TodoWrite", "todos", "content", "completed"),
    "codex": ("update_plan", "plan", "step", "completed"),
    "qwen": ("todo_write", "todos", "content", "completed"),
}


@pytest.mark.parametrize("agent", LISTED)
def test_list_of_tasks_is_parsed_completely(agent: str) -> None:
    tool, name, title, done = LISTED[agent]
    lines = [
        {title: "lay keel", "status": done},
        {title: "caulk", "status": "in_progress"},
        {title: "caulk", "status": "pending"},
        {title: "launch", "status": "new word"},
        {title: "scuttle", "status": "cancelled"},
        {"nothing": "here"},
        "odd",
    ]
    todo = parse_known(agent, ran(tool, {name: lines}, "ok")).todo
    assert todo is not None
    assert [(one.title, one.status) for one in todo] == [
        ("lay keel", "done"),
        ("caulk", "pending"),
        ("launch", "pending"),
        ("scuttle", "skipped"),
    ]
    assert todo[0] == Todo("todo-" + sha("lay keel")[:8], "lay keel", "done")


def test_list_of_tasks_is_limited_to_two_hundred() -> None:
    lines = [{"content": f"task {n}"} for n in range(900)]
    todo = parse_known("claude-code", ran("TodoWrite", {"todos": lines}, "")).todo
    assert todo is not None and len(todo) == 200


def test_single_tasks_are_steps_with_ids_of_their_session() -> None:
    made = ran("TaskCreate", {"subject": "caulk the hull"}, {"task": {"id": "3"}})
    assert bodies("claude-code", made) == [ev.StepAdded(step="n1-3", title="caulk the hull")]
    ways = {
        "in_progress": [ev.StepStarted(step="n1-3")],
        "completed": [ev.StepCompleted(step="n1-3")],
        "deleted": [ev.StepSkipped(step="n1-3", because="removed from the list")],
        "pending": [],
    }
    for status, expected in ways.items():
        values = ran("TaskUpdate", {"taskId": "3", "status": status}, {"success": True})
        assert bodies("claude-code", values) == expected


# -- sub-agents and compaction -----------------------------------------------------------------


@pytest.mark.parametrize("agent", FORMED)
def test_a_sub_agent_starts_and_stops(agent: str) -> None:
    who = {"agent_id": "a7", "agent_type": "Explore"}
    start = parse_known(agent, payload("SubagentStart", **who))
    stop = parse_known(agent, payload("SubagentStop", **who, last_assistant_message="found it"))
    assert (start.what, start.by, start.by_type) == ("agent_start", "a7", "Explore")
    assert start.bodies == (ev.AgentStarted(agent="a7", type="Explore"),)
    assert stop.bodies == (ev.AgentFinished(agent="a7", result="found it"),)


def test_agent_writing_its_summary_is_no_sub_agent() -> None:
    assert (
        parse_payload("claude-code", payload("SubagentStop", agent_id="a7", agent_type="")) is None
    )


def test_tokens_of_a_sub_agent_come_from_its_call() -> None:
    values = ran("Agent", {"prompt": "p"}, {"agentId": "a7", "totalTokens": 1225})
    assert bodies("claude-code", values) == [ev.ContextMeasured(tokens=1225, agent="a7")]
    assert bodies("claude-code", ran("Agent", {}, {"status": "async_launched"})) == []


def test_gemini_reports_a_sub_agent_only_after_its_end() -> None:
    values = payload(
        "AfterTool",
        tool_name="invoke_agent",
        tool_input={"agent_name": "scout", "prompt": "look"},
        tool_response={"returnDisplay": {"result": "found it", "terminateReason": "GOAL"}},
    )
    start, stop = bodies("gemini", values)
    assert isinstance(start, ev.AgentStarted) and isinstance(stop, ev.AgentFinished)
    assert (start.type, start.task, stop.result) == ("scout", "look", "found it")
    assert start.agent == stop.agent
    values["tool_response"]["returnDisplay"]["terminateReason"] = "TIMEOUT"
    assert isinstance(bodies("gemini", values)[1], ev.AgentFailed)


def test_compaction_is_recorded_with_its_summary() -> None:
    assert parse_known("codex", payload("PreCompact", trigger="auto")).what == "compacting"
    summary = "<analysis>hm</analysis>\n<summary>\nkeel laid\n</summary>"
    values = parse_known("claude-code", payload("PostCompact", compact_summary=summary))
    assert (values.what, values.bodies) == (
        "compacted",
        (ev.ContextCompressed(summary="keel laid"),),
    )
    assert bodies("codex", payload("PostCompact", trigger="auto")) == [ev.ContextCompressed()]
    assert plain_summary("plain words") == "plain words"


# -- opencode ----------------------------------------------------------------------------------


def called(tool: str, args: object, out: object, **more: Any) -> dict[str, Any]:
    given = {"tool": tool, "sessionID": "s1", "callID": "c1", "args": args}
    return {"i": given, "o": out, "directory": "/w", **more}


def bus(type: str, **properties: Any) -> dict[str, Any]:
    return {"type": type, "properties": {"sessionID": "s1", **properties}, "directory": "/w"}


def test_opencode_starts_and_asks() -> None:
    begun = {"hook_event_name": "SessionStart", "sessionID": "s1", "directory": "/w"}
    start = parse_known("opencode", begun)
    assert (start.what, start.native, start.cwd) == ("start", "s1", "/w")
    assert parse_payload("opencode", bus("session.created", info={"id": "s1"})) is None
    message = {"id": "m1", "model": {"modelID": "big"}, "time": {"created": 7}}
    parts = [
        {"type": "text", "text": '"fix it"'},
        {"type": "text", "text": "Called the Read tool", "synthetic": True},
        {"type": "file", "url": "x"},
    ]
    values = {"i": {"sessionID": "s1"}, "o": {"message": message, "parts": parts}}
    prompt = parse_known("opencode", values)
    assert (prompt.what, prompt.key, prompt.model, prompt.at) == ("prompt", "m1", "big", 7)
    assert prompt.bodies == (
        ev.MessageSent(role="user", text="fix it"),
        ev.MessageSent(role="machine", text="Called the Read tool"),
    )


def test_opencode_calls_tools() -> None:
    given = {"tool": "bash", "sessionID": "s1", "callID": "c1"}
    before = parse_known("opencode", {"i": given, "o": {"args": SHELL}, "directory": "/w"})
    assert (before.what, before.pair, before.doing) == ("before", "c1", "bash: make all")
    well, bad = {"metadata": {"exit": 0}}, {"metadata": {"exit": 3}, "output": "no"}
    assert bodies("opencode", called("bash", SHELL, well)) == command()
    assert bodies("opencode", called("bash", SHELL, bad)) == command("failure", "exit 3\nno")
    assert bodies("opencode", called("toy_echo", {"text": "x"}, {"content": []})) == [
        ev.CommandRan(name="toy_echo", arguments="text=x")
    ]
    written = called("write", {"filePath": "/w/a.py", **TEXT}, {"metadata": {"exists": False}})
    assert bodies("opencode", written) == changed(**NEW)
    diff = {"metadata": {"filediff": {"additions": 2, "deletions": 1}}}
    assert bodies("opencode", called("edit", {"filePath": "/w/a.py"}, diff)) == changed(
        added=2, removed=1
    )
    todo = parse_known("opencode", called("todowrite", {"todos": [{"content": "caulk"}]}, {})).todo
    assert todo is not None and todo[0].title == "caulk"


def test_a_child_of_an_opencode_session_is_a_sub_agent() -> None:
    info = {"id": "s2", "parentID": "s1", "agent": "general", "title": "look"}
    start = parse_known("opencode", bus("session.created", info=info))
    assert (start.what, start.native, start.by) == ("agent_start", "s1", "s2")
    assert start.bodies == (ev.AgentStarted(agent="s2", type="general", task="look"),)
    out = {
        "metadata": {"sessionId": "s2"},
        "output": '<task id="s2">\n<task_result>\nfound it\n</task_result>\n</task>',
    }
    assert bodies("opencode", called("task", {"description": "look"}, out)) == [
        ev.AgentFinished(agent="s2", result="found it")
    ]
    acted = called("bash", SHELL, {}, parent="s0")
    assert (parse_known("opencode", acted).native, parse_known("opencode", acted).by) == (
        "s0",
        "s1",
    )
    assert bodies("opencode", acted) == command(agent="s1")
    for quiet in (bus("session.idle"), bus("message.updated", info={"role": "assistant"})):
        assert parse_payload("opencode", {**quiet, "parent": "s0"}) is None


def test_opencode_reports_tokens_and_the_end_of_a_turn() -> None:
    info = {"id": "m2", "role": "assistant", "sessionID": "s1", "modelID": "big"}
    done = info | {"time": {"completed": 9}, "tokens": {"input": 90, "output": 5, "cache": {}}}
    answer = parse_known("opencode", bus("message.updated", info=done))
    assert (answer.tokens, answer.model, answer.at) == (95, "big", 9)
    assert parse_payload("opencode", bus("message.updated", info=info)) is None
    assert parse_known("opencode", bus("session.idle")).what == "turn_end"
    error = {"name": "APIError", "data": {"message": "429"}}
    assert bodies("opencode", bus("session.error", error=error)) == [ev.ErrorRaised(message="429")]
    aborted = parse_known("opencode", bus("session.error", error={"name": "MessageAbortedError"}))
    assert (aborted.what, aborted.source) == ("turn_end", "interrupt")
    assert parse_known("opencode", bus("session.compacted")).what == "compacted"


# -- unknown and invalid payloads --------------------------------------------------------------


@pytest.mark.parametrize("agent", ["claude-code", "codex", "gemini", "opencode", "qwen", "cursor"])
def test_unknown_event_is_ignored(agent: str) -> None:
    assert parse_payload(agent, {"hook_event_name": "TeleportRequested"}) is None
    assert parse_payload(agent, {"type": "teleport.requested"}) is None


WRONG: dict[str, tuple[str, object]] = {
    "a list": ("codex", []),
    "nothing": ("gemini", None),
    "no session": ("codex", {"hook_event_name": "Stop"}),
    "a session that is a number": ("codex", {"hook_event_name": "Stop", "session_id": 7}),
    "a blank session": ("codex", {"hook_event_name": "Stop", "session_id": " "}),
    "no prompt": ("claude-code", payload("UserPromptSubmit")),
    "a prompt that is a list": ("claude-code", payload("UserPromptSubmit", prompt=["x"])),
    "no tool": ("claude-code", payload("PreToolUse")),
    "a command without words": ("claude-code", ran("Bash", {"command": " "}, {})),
    "an input that is a text": ("claude-code", ran("Bash", "ls", {})),
    "a file without a path": ("claude-code", ran("Write", {"content": "x"}, {})),
    "a patch that is none": ("codex", ran("apply_patch", {"command": "x"}, "")),
    "an agent without an id": ("qwen", payload("SubagentStart")),
    "a call without a session": ("opencode", {"i": {"tool": "bash"}, "o": {"args": {}}}),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_shape_is_refused(name: str) -> None:
    with pytest.raises(WrongShape):
        parse_payload(*WRONG[name])


ODD: dict[str, dict[str, Any]] = {
    "a negative duration": ran("Bash", SHELL, {}, duration_ms=-5),
    "a duration beyond all numbers": ran("Bash", SHELL, {}, duration_ms=2**60),
    "a duration that is true": ran("Bash", SHELL, {}, duration_ms=True),
    "a folder that is a number": {**ran("Bash", SHELL, {}), "cwd": 7},
    "a time that is none": {**ran("Bash", SHELL, {}), "timestamp": "yesterday"},
}


@pytest.mark.parametrize("name", ODD)
def test_invalid_optional_field_is_ignored(name: str) -> None:
    assert bodies("claude-code", ODD[name]) == command()


def test_file_with_half_a_character_is_recorded_without_a_digest() -> None:
    [body] = bodies("claude-code", ran("Write", {**AT, "content": "\ud800"}, {"type": "create"}))
    assert isinstance(body, ev.FileChanged) and body.after == ""


def test_parsed_part_of_huge_payloads_is_limited() -> None:
    huge = "x" * 5_000_000
    values = ran(huge, {huge: huge, "command": huge}, huge, agent_id=huge)
    values |= {"session_id": huge, "cwd": huge, "tool_use_id": huge}
    found = parse_known("claude-code", values)
    [body] = found.bodies
    assert isinstance(body, ev.CommandRan)
    texts = (found.native, found.cwd, found.by, found.key, found.doing, body.name, body.arguments)
    assert max(map(len, texts)) <= 64 * 1024


TOOLS = sorted(SHELLS | WRITES | EDITS | PATCHES | LISTS | SENDS | {"TaskCreate", "Read", "mcp__x"})
EVENTS = sorted({event for _, event in KNOWN} | {"Unheard"})
KEYS = """
    session_id cwd transcript_path prompt prompt_id tool_name tool_input tool_response tool_use_id
    agent_id agent_type source reason error command cmd file_path content todos plan edits input
    old_string new_string oldString newString originalFile structuredPatch lines returnDisplay
    llmContent metadata exit exists filediff i o args parts message properties info part time
    sessionID callID tool id parentID role tokens cache text type subject taskId status
    last_assistant_message compact_summary mcp_context server_name duration_ms timestamp parent
    description step originalContent newContent diffStat isNewFile interrupted isError
""".split()
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(
        [*TOOLS, "completed", "in_progress", "create", "*** Begin Patch\n*** Add File:"]
    ),
    st.sampled_from(["Exit code: 3", "\nExit Code: 99999\nx", "<task-notification>x", "\ud800"]),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), inner, max_size=6)
    ),
    max_leaves=12,
)


@settings(max_examples=40, deadline=None)
@given(
    agent=st.sampled_from(["claude-code", "codex", "gemini", "opencode", "qwen"]),
    event=st.sampled_from(EVENTS),
    tool=st.sampled_from(TOOLS),
    more=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=8),
)
def test_no_random_payload_raises_anything_but_a_wrong_shape(
    agent: str, event: str, tool: str, more: dict[str, Any]
) -> None:
    values = {**COMMON, "hook_event_name": event, "tool_name": tool, "sessionID": "s1", **more}
    require_parsed_or_refused(agent, values)


def require_parsed_or_refused(agent: str, values: object) -> None:
    try:
        found = parse_payload(agent, values)
    except WrongShape:
        return
    assert found is None or (found.native and all(isinstance(b, Body) for b in found.bodies))


ODDS: tuple[Any, ...] = (
    *(None, True, -1, 2**70, 1.5, float("nan"), "", " ", "x", "\ud800", "a\x00b", [], {}, [[]]),
    *([{}], {"x": {}}, ["x", 1], "Exit code: 3", "\nExit Code: 9\nx", "<task-notification>x"),
    *("*** Begin Patch\n*** Add File: x", {"error": []}, {"content": 1}, {"returnDisplay": []}),
)


def twisted(random: Random, value: Any) -> Any:
    """Return the value with a wrong part somewhere in it."""
    if isinstance(value, dict) and value and random.random() < 0.8:
        key = random.choice(list(value))
        if random.random() < 0.15:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: twisted(random, value[key])}
    if isinstance(value, list) and value and random.random() < 0.8:
        return [twisted(random, value[0]), *value[1:]]
    return random.choice(ODDS)


def all_payloads() -> list[tuple[str, dict[str, Any]]]:
    tables = [(agent, values) for table in (ENDS, FILES) for agent, values, _ in table.values()]
    info = {"id": "s2", "parentID": "s1", "role": "assistant", "time": {"completed": 9}}
    tables += [("claude-code", payload("UserPromptSubmit", prompt=NOTICE))]
    tables += [("claude-code", payload(e, agent_id="a", agent_type="b")) for e in EVENTS]
    tables += [("opencode", bus(event, info=info, part=info, error=info)) for event in EVENTS]
    tables += [("opencode", called(tool, {**SHELL, **AT}, {"metadata": {}})) for tool in TOOLS]
    return tables + [("codex", ran(tool, {"command": APPLIED, **SWAP}, info)) for tool in TOOLS]


def twist(rounds: int, seed: int) -> None:
    random = Random(seed)
    known = all_payloads()
    for _ in range(rounds):
        agent, values = random.choice(known)
        for _ in range(random.randrange(1, 4)):
            values = twisted(random, values)
        require_parsed_or_refused(agent, values)


def test_no_twisted_payload_raises_anything_but_a_wrong_shape() -> None:
    twist(3000, seed=5)


@pytest.mark.soak
def test_no_twisted_payload_raises_anything_but_a_wrong_shape_in_a_long_run(
    soak_seconds: float,
) -> None:
    end, seed = time.monotonic() + soak_seconds, 0
    while time.monotonic() < end:
        twist(5000, seed := seed + 1)
