"""The command mcp: serve this home over the Model Context Protocol."""

from __future__ import annotations

import gc
import os
import signal
from importlib.util import find_spec

from forestay.base.config import child_environment
from forestay.cli.arguments import Command, arg, count, flag
from forestay.errors import ForestayError, InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp.server.lowlevel.server import Server

    from forestay.cli.types import Any, Forestay, Namespace, Screen
    from forestay.mcp.tools import ToolRunner

_USUALLY = 4653


def run_mcp(options: Namespace, stay: Forestay, screen: Screen) -> None:
    if not options.http and (options.port is not None or options.new_token):
        raise InvalidInput("--port and --new-token need --http", hint="forestay mcp --http")
    if find_spec("mcp") is None:
        raise ForestayError(
            "the MCP server needs a package that is not installed",
            why="it is large, and nothing else needs it",
            hint="pip install 'forestay[mcp]'",
        )
    from forestay.mcp.server import make_server

    runner = _runner(options, stay)
    if options.desktop:
        runner.home.agents.note_desktop()
    # Garbage collection is rare in short commands, but this process runs for long.
    gc.freeze()
    gc.set_threshold(700, 10, 10)
    server = make_server(runner)
    _release_on_signal(runner)
    try:
        if options.http:
            _serve_http(server, runner, options, screen)
        else:
            if screen.source.isatty():
                # Explain why nothing seems to happen.
                message = (
                    "This is for agents, which start it themselves; to add it to Claude Code: "
                )
                screen.warn(message, ("claude mcp add forestay -- forestay mcp", "cyan"))
            _serve_stdio(server)
    finally:
        runner.home.close()


def _runner(options: Namespace, stay: Forestay) -> ToolRunner:
    from forestay.api.argument_check import check_public_classes
    from forestay.api.forestay import Forestay
    from forestay.mcp.tool_schemas import TOOLS
    from forestay.mcp.tools import ToolRunner

    check_public_classes()  # check the types of what a model sends
    if options.project and not os.path.isdir(options.project):
        raise InvalidInput(f"there is no folder {options.project}")
    # By default, the folder of the agent that started this process.
    folder = options.project or child_environment().get("CLAUDE_PROJECT_DIR", "")
    notices: list[str] = []
    home = Forestay(
        stay.context.settings,
        cwd=os.path.abspath(folder) if folder and os.path.isdir(folder) else None,
        actor="mcp",
        on_notice=notices.append,
        # Over standard streams it works for the agent that started it; over HTTP for none.
        is_helper=not options.http,
    )
    left_out = ("prove",) if options.no_prove else ()
    tools = {name: tool for name, tool in TOOLS.items() if name not in left_out}
    return ToolRunner(home, notices, tools=tools)


def _serve_stdio(server: Server[Any]) -> None:
    import anyio
    from mcp.server.stdio import stdio_server

    async def serve() -> None:
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    anyio.run(serve)


def _release_on_signal(runner: ToolRunner) -> None:
    """Release the sessions when a signal ends the process, so that it does not count as a crash."""

    def leave(number: int, frame: object) -> None:
        runner.end()
        runner.home.close()
        os._exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, leave)


def _serve_http(
    server: Server[Any], runner: ToolRunner, options: Namespace, screen: Screen
) -> None:
    from forestay.mcp import http

    home = runner.home
    listening = http.listen(http.PORT if options.port is None else options.port)
    secret, path = http.load_token(
        home.context.settings.home, home.context.clock, renew=options.new_token
    )
    url = f"http://{http.ADDRESS}:{listening.getsockname()[1]}{http.PATH}"
    screen.answer(url=url, token_file=path)
    screen.line("Serving ", (url, "cyan"), "; every request must carry the token in ", path)
    header = f'--header "Authorization: Bearer $(cat {path})"'
    screen.line(f"  for Claude Code: claude mcp add --transport http forestay {url} {header}")
    screen.flush()
    http.run(server, listening, secret, runner.request_end)


COMMANDS = {
    "mcp": Command(
        run_mcp,
        flag("--http", "serve HTTP on 127.0.0.1 instead of stdin and stdout"),
        arg("--port", "N", f"with --http: the port ({_USUALLY}; 0: any free port)", type=count),
        flag("--new-token", "with --http: create a new token; the old one becomes invalid"),
        arg("--project", "DIR", "the project; default: this folder"),
        flag("--no-prove", "without the tool that runs commands"),
        flag("--desktop", "for the Claude Desktop extension"),
        "forestay mcp",
        "forestay mcp --http --port 4653",
        "forestay mcp --project ~/work/site --no-prove",
    )
}
