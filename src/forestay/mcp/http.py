"""The server over HTTP, for programs of one user on one machine.

It listens on the loopback address alone. Any web page can send requests there, and any name can be
made to mean that address; so a request must name us exactly (`Host`), come from no page or from
our own (`Origin`), and carry the home's *token*, which only its owner can read. A request is given
up when its caller goes away before the answer: nobody else could end what it waits for.
"""

from __future__ import annotations

import hmac
import os
import socket
from collections.abc import Callable
from types import FrameType
from typing import Any

import anyio
from mcp.server.lowlevel.server import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from forestay.base import files
from forestay.base.clock import Clock
from forestay.errors import InvalidInput

ADDRESS = "127.0.0.1"
PORT = 4653
"""The word HOLD on a telephone."""
PATH = "/mcp"
TOKEN_FILE = "mcp-token"
_TOKEN_BYTES = 32
_LARGEST = 4 << 20


def token(home: str, clock: Clock, *, anew: bool = False) -> tuple[str, str]:
    """The home's token and the file it is in; made when there is none."""
    path = os.path.join(home, TOKEN_FILE)
    kept = None if anew else files.read_optional(path, 1024, private=True)
    if kept is not None and os.stat(path).st_mode & 0o077:
        why, hint = "whoever could read it may have it", "forestay mcp --http --new-token"
        raise InvalidInput(f"others can read {path}", why=why, hint=hint, file=path)
    if kept is None or not kept.strip():
        files.make_private_dir(home)
        kept = clock.random(_TOKEN_BYTES).hex().encode()
        files.replace(path, kept + b"\n", mode=0o600)
    return kept.decode().strip(), path


def listen(port: int) -> socket.socket:
    """A socket on the loopback address; with port 0 on any that is free."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((ADDRESS, port))
        made.listen()  # before the address is told: whoever reads it may come at once
    except (OSError, OverflowError) as error:
        made.close()
        said = getattr(error, "strerror", "") or str(error)
        raise InvalidInput(
            f"port {port} cannot be used", why=said.lower(), hint="forestay mcp --http --port 0"
        ) from None
    return made


def app(server: Server[Any], port: int, secret: str) -> ASGIApp:
    """The server as an ASGI application that lets nobody in but who may."""
    hosts = [f"{ADDRESS}:{port}", f"localhost:{port}"]
    origins = [f"http://{host}" for host in hosts]
    inner = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=_LARGEST,
        transport_security=TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins),
    )
    return _Door(inner, hosts, origins, secret)


class _Door:
    """Whoever is not let in learns which of the three is wrong, and nothing else."""

    def __init__(self, inner: ASGIApp, hosts: list[str], origins: list[str], secret: str) -> None:
        self._inner = inner
        self._hosts, self._origins = hosts, origins
        self._secret = secret

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
        elif refusal := self._refusal(Headers(scope=scope)):
            await refusal(scope, receive, send)
        else:
            await _while_there(self._inner, scope, receive, send)

    def _refusal(self, headers: Headers) -> PlainTextResponse | None:
        if headers.getlist("host") not in [[host] for host in self._hosts]:
            return PlainTextResponse("wrong Host", 421)
        if headers.getlist("origin") not in [[], *([origin] for origin in self._origins)]:
            return PlainTextResponse("wrong Origin", 403)
        if not self._is_known(headers.getlist("authorization")):
            return PlainTextResponse("wrong token", 401, {"WWW-Authenticate": "Bearer"})
        return None

    def _is_known(self, given: list[str]) -> bool:
        wanted = f"Bearer {self._secret}"
        return len(given) == 1 and hmac.compare_digest(given[0].encode(), wanted.encode())


async def _while_there(inner: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Serve a request, or give it up when its caller goes away unanswered.

    The SDK does not look, in the older era, and a proof would run on, with others behind it.
    """
    feed, fed = anyio.create_memory_object_stream[Message](0)
    answered = anyio.Event()

    async def tell(message: Message) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body"):
            answered.set()
        await send(message)

    async def listen() -> None:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect" and not answered.is_set():
                group.cancel_scope.cancel()
            await feed.send(message)

    async with feed, fed, anyio.create_task_group() as group:
        group.start_soon(listen)
        await inner(scope, fed.receive, tell)
        group.cancel_scope.cancel()


def run(
    server: Server[Any], listening: socket.socket, secret: str, told_to_end: Callable[[], None]
) -> None:
    """Serve until the process is told to end; what is told of it then can still be answered."""
    import uvicorn

    class Listener(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            told_to_end()
            super().handle_exit(sig, frame)

    port = listening.getsockname()[1]
    config = uvicorn.Config(
        app(server, port, secret),
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=5,
    )
    Listener(config).run(sockets=[listening])
