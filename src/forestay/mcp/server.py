"""The official SDK on top of the desk: both protocol eras, over any of its transports.

The engine is synchronous, so calls go to a thread, one at a time; only a proof, which runs as long
as its command, does not keep the others waiting. It is ended when its caller goes away or takes
the call back. While the server runs it takes in what agents' hooks left, and it is a holder of the
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
from forestay.mcp.tools import Desk

T = TypeVar("T")
Context: TypeAlias = "ServerRequestContext[Any]"
Page: TypeAlias = "types.PaginatedRequestParams | None"

_EVERY = 5.0
"""Seconds between two looks at what agents' hooks left."""
_LONGEST = 1000
_HOUR = CacheHint(ttl_ms=3_600_000, scope="public")


def make(at: Desk) -> Server[Any]:
    """A server of one home, ready to run on a transport."""
    service = _Service(at)
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
    def __init__(self, at: Desk) -> None:
        self._desk = at
        self._turn = anyio.CapacityLimiter(1)
        self._proving = anyio.CapacityLimiter(1)

    @asynccontextmanager
    async def running(self, server: Server[Any]) -> AsyncIterator[None]:
        """Take in what hooks left while the server runs; end a proof that still does."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._ingest)
            try:
                yield
            finally:
                group.cancel_scope.cancel()
                self._desk.end()

    async def _ingest(self) -> None:
        while True:
            await self._asked(self._desk.ingest)
            await anyio.sleep(_EVERY)

    async def _asked(self, act: Callable[[], T]) -> T:
        """The answer of the façade, in a thread; calls take turns."""
        told: T = await run_sync(act, limiter=self._turn)
        return told

    # -- tools ---------------------------------------------------------------------------------

    async def list_tools(self, context: Context, params: Page) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_tool(each) for each in self._desk.tools.values()])

    async def call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        name, arguments = params.name, params.arguments or {}
        if name not in self._desk.tools:
            raise MCPError(types.INVALID_PARAMS, f"there is no tool {name[:100]}")
        if name == "prove":
            return _result(await self._proved(arguments))
        return _result(await self._asked(lambda: self._desk.call(name, arguments)))

    async def _proved(self, arguments: dict[str, Any]) -> responses.Answer:
        gone = threading.Event()

        def act() -> responses.Answer:
            return self._desk.call("prove", arguments, gone.is_set)

        try:
            told: responses.Answer
            told = await run_sync(act, limiter=self._proving, abandon_on_cancel=True)
        finally:
            gone.set()
        return told

    # -- resources -----------------------------------------------------------------------------

    async def list_resources(self, context: Context, params: Page) -> types.ListResourcesResult:
        always = [_resource(uri, *told) for uri, told in CURRENT.items()]
        mine = await self._read(lambda: resources.listed(self._desk.home))
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
        uri, said = params.uri, params.uri[:_LONGEST]
        kind, text = await self._read(lambda: resources.read(self._desk.home, uri), uri=said)
        told = types.TextResourceContents(uri=params.uri, mime_type=kind, text=text)
        return types.ReadResourceResult(contents=[told])

    async def _read(self, act: Callable[[], T], **asked: str) -> T:
        try:
            return await self._asked(act)
        except ForestayError as error:
            raise self._refusal(error, types.INVALID_PARAMS, asked) from None
        except Exception as error:
            raise self._refusal(
                error_values.bug(error, "report it"), types.INTERNAL_ERROR, asked
            ) from None

    def _refusal(self, error: ForestayError, code: int, asked: dict[str, str]) -> MCPError:
        told = responses.failed("read", error, self._desk.home, reads=True).values
        about = told.get("error") or told["question"]
        return MCPError(code, about["what"], {**told, **asked})

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
        text = await self._read(lambda: resources.prompt(self._desk.home, prompt, session))
        said = types.PromptMessage(role="user", content=types.TextContent(text=text))
        return types.GetPromptResult(description=prompt.about, messages=[said])

    async def complete(
        self, context: Context, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        """Ids of sessions, wherever a session is asked for."""
        found: list[str] = []
        if params.argument.name == "session":
            begun = params.argument.value
            found = await self._read(lambda: resources.ids(self._desk.home, begun))
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


def _result(told: responses.Answer) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(text=text) for text in told.texts],
        structured_content=told.values,
        is_error=told.is_error,
    )


def _resource(uri: str, title: str, about: str, kind: str) -> types.Resource:
    return types.Resource(uri=uri, name=title, title=title, description=about, mime_type=kind)
