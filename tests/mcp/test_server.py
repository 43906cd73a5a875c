"""The server with the SDK's client, in one process: both protocol versions, parallel calls."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from forestay.briefing.token_estimate import estimate
from forestay.mcp.server import make_server
from forestay.mcp.tool_schemas import CURRENT, PROMPTS, TEMPLATES, TOOLS
from forestay.mcp.tools import ToolRunner
from tests.mcp.conftest import Ask

Draft202012Validator: Any = import_module("jsonschema").Draft202012Validator
ERAS = {"auto": "2026-07-28", "legacy": "2025-11-25"}
MOST_TOKENS = 6500
"""Most tokens that the list of tools may cost, schemas of answers included."""


def run_client(
    runner: ToolRunner, act: Callable[[Client], Awaitable[None]], mode: str = "auto"
) -> None:
    """Run a client against a server of these tools."""

    async def run() -> None:
        async with Client(make_server(runner), mode=mode) as client:
            await act(client)

    anyio.run(run)


def text_of(content: Any) -> str:
    """Return the text of a part of an answer."""
    return str(content.text)


@pytest.mark.parametrize("mode", ERAS)
def test_session_is_started_recorded_and_resumed_with_both_protocol_versions(
    runner: ToolRunner, mode: str
) -> None:
    async def act(client: Client) -> None:
        assert client.session.protocol_version == ERAS[mode]
        assert "never an instruction" in (client.instructions or "")
        began = await client.call_tool("start", {"goal": "Add login", "key": "k"})
        assert not began.is_error
        event = {"do": "decide", "what": "tokens expire", "because": "mails leak"}
        await client.call_tool("record", {"events": [event]})
        answer = await client.call_tool("resume", {"budget": 300})
        assert "tokens expire" in answer.structured_content["briefing"]
        assert text_of(answer.content[0]).startswith("<<<data ")
        left = await client.call_tool("finish", {"how": "pause"})
        assert left.structured_content["status"] == "paused"

    run_client(runner, act, mode)


@pytest.mark.parametrize("mode", ERAS)
def test_every_tool_has_a_title_schemas_and_hints(runner: ToolRunner, mode: str) -> None:
    async def act(client: Client) -> None:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == list(TOOLS) and len(tools) <= 7
        for tool in tools:
            assert tool.title and tool.description and "Examples: {" in tool.description
            hints = tool.annotations
            assert hints and None not in (
                hints.read_only_hint,
                hints.destructive_hint,
                hints.idempotent_hint,
                hints.open_world_hint,
            )
            assert tool.output_schema and tool.input_schema["additionalProperties"] is False
            takes = tool.input_schema["properties"]
            assert ("key" in takes) != hints.read_only_hint
            assert "session" in takes or tool.name == "start"

    run_client(runner, act, mode)


def test_list_of_tools_costs_few_tokens(runner: ToolRunner) -> None:
    async def act(client: Client) -> None:
        listed = await client.list_tools()
        answer = [each.model_dump(by_alias=True, exclude_none=True) for each in listed.tools]
        assert estimate(json.dumps(answer, separators=(",", ":"))) <= MOST_TOKENS

    run_client(runner, act)


def test_answers_fit_the_schema_of_their_tool(runner: ToolRunner) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("resume", {}),
        ("start", {"goal": "x", "workflow": "feature"}),
        ("resume", {}),
        ("record", {"events": [{"do": "note", "text": "x"}]}),
        ("record", {"events": [{"do": "task_done", "id": "x"}]}),
        ("checkpoint", {"action": "done", "phase": 1}),
        ("checkpoint", {"action": "retry"}),
        ("prove", {"command": ["true"]}),
        ("find", {"what": "log"}),
        ("find", {"what": "nothing"}),
        ("find", {"what": "gate"}),
        ("finish", {"how": "complete"}),
        ("resume", {"session": "nope"}),
    ]

    async def act(client: Client) -> None:
        for name, arguments in calls:
            answer = await client.call_tool(name, arguments)
            Draft202012Validator(TOOLS[name].output_schema).validate(answer.structured_content)
            assert answer.is_error == ("error" in answer.structured_content)

    run_client(runner, act)


# -- parallel calls --------------------------------------------------------------------------------


def test_parallel_calls_with_one_key_are_one_event(runner: ToolRunner, ask: Ask) -> None:
    session = ask("start", goal="x")["session"]
    events = [{"do": "note", "text": "a"}, {"do": "note", "text": "b"}]
    seen: list[Any] = []

    async def act(client: Client) -> None:
        async def once() -> None:
            answer = await client.call_tool("record", {"events": events, "key": "k"})
            seen.append([one["seq"] for one in answer.structured_content["recorded"]])

        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(once)

    run_client(runner, act)
    assert seen == [[2, 3]] * 10
    assert runner.home.session(session).status().seq == 3


def test_parallel_starts_with_one_key_are_one_session(runner: ToolRunner) -> None:
    async def act(client: Client) -> None:
        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(client.call_tool, "start", {"goal": "x", "key": "k"})

    run_client(runner, act)
    assert len(runner.home.list()) == 1


def test_parallel_proofs_with_one_key_run_once(runner: ToolRunner, ask: Ask) -> None:
    ask("start", goal="x")
    command = ["sh", "-c", "echo run >> ran; sleep 0.2"]

    async def act(client: Client) -> None:
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(client.call_tool, "prove", {"command": command, "key": "k"})

    run_client(runner, act)
    with open("ran", encoding="utf-8") as ran:
        assert ran.read() == "run\n"


def test_long_proof_does_not_block_other_calls(runner: ToolRunner, ask: Ask) -> None:
    ask("start", goal="x")

    async def act(client: Client) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "prove", {"command": ["sleep", "30"]})
            await anyio.sleep(0.2)
            with anyio.fail_after(10):
                await client.call_tool("find", {"what": "status"})
            group.cancel_scope.cancel()

    run_client(runner, act)
    assert ask("find", what="proofs")["found"][0]["interrupted"]


# -- resources and prompts -------------------------------------------------------------------------


def test_resources_are_listed_and_read(runner: ToolRunner, ask: Ask) -> None:
    session = ask("start", goal="Add login")["session"]
    ask("record", events=[{"do": "note", "text": str(n)} for n in range(60)])

    async def act(client: Client) -> None:
        listed = [str(each.uri) for each in (await client.list_resources()).resources]
        assert listed == [*CURRENT, f"forestay://session/{session}"]
        templates = (await client.list_resource_templates()).resource_templates
        assert [each.uri_template for each in templates] == list(TEMPLATES)
        assert "Goal: Add login" in await _text(client, "forestay://current/briefing")
        state = json.loads(await _text(client, "forestay://current/state"))
        assert state["thing"]["goal"] == "Add login" and state["status"]["session"] == session
        assert json.loads(await _text(client, f"forestay://session/{session}")) == state
        briefing = await _text(client, f"forestay://session/{session}/briefing")
        assert briefing.startswith("<<<data ")
        page = json.loads(await _text(client, f"forestay://session/{session}/journal/0"))
        assert len(page["found"]) == 50 and page["more"] == 11
        rest = json.loads(await _text(client, f"forestay://session/{session}/journal/50"))
        assert rest["more"] == 0 and rest["found"][-1]["seq"] == 61

    run_client(runner, act)


async def _text(client: Client, uri: str) -> str:
    read = await client.read_resource(uri)
    return text_of(read.contents[0])


@pytest.mark.parametrize(
    "uri",
    [
        "forestay://nothing",
        "forestay://session/",
        "forestay://session/nope",
        "forestay://session/x/y/z/0",
        "forestay://session/x/journal/-1",
        "forestay://session/x/journal/" + "9" * 700,
        "forestay://current/../../etc/passwd",
        "file:///etc/passwd",
        "",
    ],
)
def test_unknown_resource_is_refused_with_the_reason(
    runner: ToolRunner, ask: Ask, uri: str
) -> None:
    ask("start", goal="x", id="x")

    async def act(client: Client) -> None:
        with pytest.raises(MCPError) as caught:
            await client.read_resource(uri)
        assert caught.value.error.code == -32602
        assert "there is no" in caught.value.error.message
        assert caught.value.error.data["uri"] == uri

    run_client(runner, act)


def test_bug_while_reading_is_an_answer_without_a_traceback(
    runner: ToolRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ValueError("unforeseen")

    monkeypatch.setattr("forestay.mcp.resources.list_resources", broken)

    async def act(client: Client) -> None:
        with pytest.raises(MCPError) as caught:
            await client.list_resources()
        assert caught.value.error.code == -32603
        assert "this is a bug: ValueError: unforeseen" in caught.value.error.message

    run_client(runner, act)


def test_prompts_contain_the_briefing_and_change_nothing(runner: ToolRunner, ask: Ask) -> None:
    session = ask("start", goal="Add login")["session"]

    async def act(client: Client) -> None:
        assert [each.name for each in (await client.list_prompts()).prompts] == list(PROMPTS)
        for name in PROMPTS:
            answer = await client.get_prompt(name, {"session": session})
            text = text_of(answer.messages[0].content)
            assert PROMPTS[name].asks in text and "Goal: Add login" in text
        with pytest.raises(MCPError):
            await client.get_prompt("nothing")

    run_client(runner, act)
    assert runner.home.session(session).status().seq == 1


def test_prompt_without_a_session_asks_the_user_to_choose(runner: ToolRunner, ask: Ask) -> None:
    ask("start", goal="one", id="one")
    ask("start", goal="two", id="two")
    ask("finish", how="complete")
    ask("start", goal="three", id="three")
    ask("finish", how="complete")
    ask("start", goal="four", id="four", key="k")
    ask("finish", how="abandon")
    ask("resume", session="two", reopen="again")
    ask("finish", how="complete")

    async def act(client: Client) -> None:
        answer = await client.get_prompt("continue")
        assert "Goal: one" in text_of(answer.messages[0].content)
        await client.call_tool("start", {"goal": "five", "id": "five"})
        await client.call_tool("start", {"goal": "six", "id": "six"})
        await client.call_tool("finish", {"how": "complete"})
        answer = await client.get_prompt("continue")
        assert "Ask the user" in text_of(answer.messages[0].content)

    run_client(runner, act)


def test_ids_of_sessions_are_completed(runner: ToolRunner, ask: Ask) -> None:
    ask("start", goal="x", id="login")
    ask("start", goal="x", id="logout")
    ask("start", goal="x", id="other")

    async def act(client: Client) -> None:
        from mcp_types import PromptReference

        answer = await client.complete(
            PromptReference(name="continue"), {"name": "session", "value": "log"}
        )
        assert sorted(answer.completion.values) == ["login", "logout"]

    run_client(runner, act)


def test_unknown_tool_is_an_error_of_the_protocol(runner: ToolRunner) -> None:
    async def act(client: Client) -> None:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("x" * 10_000, {})
        assert len(caught.value.error.message) < 200

    run_client(runner, act)


def test_without_prove_there_is_no_tool_that_runs_commands(runner: ToolRunner) -> None:
    tools = {name: tool for name, tool in TOOLS.items() if name != "prove"}

    async def act(client: Client) -> None:
        assert "prove" not in [tool.name for tool in (await client.list_tools()).tools]
        with pytest.raises(MCPError):
            await client.call_tool("prove", {"command": ["true"]})

    run_client(ToolRunner(runner.home, [], tools=tools), act)
