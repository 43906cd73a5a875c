"""The official SDK on top of `tools`: both protocol versions, over any of its transports.

The engine is synchronous, so calls run in a thread, one at a time. Only a proof, which runs as long
as its command, does not block other calls; it is ended when its client disconnects or cancels the
call. While the server runs it ingests what hooks of agents reported, and it is a holder of the
sessions it works on until it ends.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, TypeVar

import anyio
import mcp_types as types
from anyio.to_thread import run_sync
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError

from forestay.api import error_values
from forestay.base.version import __version__
from forestay.errors import ForestayError
from forestay.mcp import resources, responses
from forestay.mcp.tool_schemas import (
    CURRENT,
    INSTRUCTIONS,
    PROMPT_ARGUMENT,
    PROMPTS,
    TEMPLATES,
    Tool,
)
from forestay.mcp.tools import ToolRunner

T = TypeVar("T")
Context: TypeAlias = "ServerRequestContext[Any]"
Page: TypeAlias = "types.PaginatedRequestParams | None"

_INGEST_INTERVAL = 5.0
"""Seconds between two checks for reports of hooks."""
_LONGEST_URI = 1000
_HOUR = CacheHint(ttl_ms=3_600_000, scope="public")


def make_server(runner: ToolRunner) -> Server[Any]:
    """Return a server of one home, ready to run on a transport."""
    service = _Service(runner)
    return Server(
        "forestay",
        version=__version__,
        title="Forestay",
        description="Keeps the work of AI agents from getting lost.",
        instructions=INSTRUCTIONS,
        cache_hints={"tools/list": _HOUR, "prompts/list": _HOUR, "resources/templates/list": _HOUR},
        lifespan=service.running,
        on_list_tools=service.list_tools,
        on_call_tool=service.call_tool,
        on_list_resources=service.list_resources,
        on_list_resource_templates=service.list_templates,
        on_read_resource=service.read_resource,
        on_list_prompts=service.list_prompts,
        on_get_prompt=service.get_prompt,
        on_completion=service.complete,
    )


class _Service:
    """The handlers of all requests."""

    def __init__(self, runner: ToolRunner) -> None:
        self._runner = runner
        self._one_call = anyio.CapacityLimiter(1)
        self._one_proof = anyio.CapacityLimiter(1)

    @asynccontextmanager
    async def running(self, server: Server[Any]) -> AsyncIterator[None]:
        """Ingest reports of hooks while the server runs; then end a proof that still runs."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._ingest)
            try:
                yield
            finally:
                group.cancel_scope.cancel()
                self._runner.end()

    async def _ingest(self) -> None:
        while True:
            await self._run(self._runner.ingest)
            await anyio.sleep(_INGEST_INTERVAL)

    async def _run(self, act: Callable[[], T]) -> T:
        """Run a call of the façade in a thread, one at a time; return its result."""
        result: T = await run_sync(act, limiter=self._one_call)
        return result

    # -- tools ---------------------------------------------------------------------------------

    async def list_tools(self, context: Context, params: Page) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_tool(each) for each in self._runner.tools.values()])

    async def call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        name, arguments = params.name, params.arguments or {}
        if name not in self._runner.tools:
            raise MCPError(types.INVALID_PARAMS, f"there is no tool {name[:100]}")
        if name == "prove":
            return _result(await self._prove(arguments))
        return _result(await self._run(lambda: self._runner.call(name, arguments)))

    async def _prove(self, arguments: dict[str, Any]) -> responses.Answer:
        is_cancelled = threading.Event()

        def act() -> responses.Answer:
            return self._runner.call("prove", arguments, is_cancelled.is_set)

        try:
            answer: responses.Answer
            answer = await run_sync(act, limiter=self._one_proof, abandon_on_cancel=True)
        finally:
            is_cancelled.set()
        return answer

    # -- resources -----------------------------------------------------------------------------

    async def list_resources(self, context: Context, params: Page) -> types.ListResourcesResult:
        always = [_resource(uri, *about) for uri, about in CURRENT.items()]
        mine = await self._read_or_refuse(lambda: resources.list_resources(self._runner.home))
        return types.ListResourcesResult(
            resources=[*always, *(_resource(*each, "application/json") for each in mine)]
        )

    async def list_templates(
        self, context: Context, params: Page
    ) -> types.ListResourceTemplatesResult:
        made = [
            types.ResourceTemplate(
                uri_template=uri, name=title, title=title, description=about, mime_type=kind
            )
            for uri, (title, about, kind) in TEMPLATES.items()
        ]
        return types.ListResourceTemplatesResult(resource_templates=made)

    async def read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri, shown = params.uri, params.uri[:_LONGEST_URI]
        kind, text = await self._read_or_refuse(
            lambda: resources.read_resource(self._runner.home, uri), uri=shown
        )
        content = types.TextResourceContents(uri=params.uri, mime_type=kind, text=text)
        return types.ReadResourceResult(contents=[content])

    async def _read_or_refuse(self, act: Callable[[], T], **request: str) -> T:
        try:
            return await self._run(act)
        except ForestayError as error:
            raise self._protocol_error(error, types.INVALID_PARAMS, request) from None
        except Exception as error:
            raise self._protocol_error(
                error_values.report_bug(error, "report it"), types.INTERNAL_ERROR, request
            ) from None

    def _protocol_error(self, error: ForestayError, code: int, request: dict[str, str]) -> MCPError:
        values = responses.report_error("read", error, self._runner.home, reads=True).values
        about = values.get("error") or values["question"]
        return MCPError(code, about["what"], {**values, **request})

    # -- prompts -------------------------------------------------------------------------------

    async def list_prompts(self, context: Context, params: Page) -> types.ListPromptsResult:
        argument = types.PromptArgument(name="session", description=PROMPT_ARGUMENT)
        made = [
            types.Prompt(
                name=each.name, title=each.title, description=each.about, arguments=[argument]
            )
            for each in PROMPTS.values()
        ]
        return types.ListPromptsResult(prompts=made)

    async def get_prompt(
        self, context: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        prompt = PROMPTS.get(params.name)
        if prompt is None:
            raise MCPError(types.INVALID_PARAMS, f"there is no prompt {params.name[:100]}")
        session = (params.arguments or {}).get("session", "")
        text = await self._read_or_refuse(
            lambda: resources.render_prompt(self._runner.home, prompt, session)
        )
        message = types.PromptMessage(role="user", content=types.TextContent(text=text))
        return types.GetPromptResult(description=prompt.about, messages=[message])

    async def complete(
        self, context: Context, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        """Complete the ids of sessions, in every argument that is a session."""
        found: list[str] = []
        if params.argument.name == "session":
            prefix = params.argument.value
            found = await self._read_or_refuse(
                lambda: resources.complete_id(self._runner.home, prefix)
            )
        return types.CompleteResult(completion=types.Completion(values=found))


def _tool(tool: Tool) -> types.Tool:
    reads, destroys, again, outside = tool.hints
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=types.ToolAnnotations(
            read_only_hint=reads,
            destructive_hint=destroys,
            idempotent_hint=again,
            open_world_hint=outside,
        ),
    )


def _result(answer: responses.Answer) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(text=text) for text in answer.texts],
        structured_content=answer.values,
        is_error=answer.is_error,
    )


def _resource(uri: str, title: str, about: str, kind: str) -> types.Resource:
    return types.Resource(uri=uri, name=title, title=title, description=about, mime_type=kind)
