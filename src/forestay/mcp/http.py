"""The server over HTTP, for programs of one user on one machine.

It listens only on the loopback address. Any web page can send requests there, and any host name can
be made to resolve to that address. So a request must have our exact `Host`, no `Origin` or our own,
and the home's *token*, which only its owner can read. A request is cancelled when its client
disconnects before the answer, because nothing else would stop the work for it.
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
"""The default port: the word HOLD on a telephone keypad."""
PATH = "/mcp"
TOKEN_FILE = "mcp-token"
_TOKEN_BYTES = 32
_LARGEST = 4 << 20


def load_token(home: str, clock: Clock, *, renew: bool = False) -> tuple[str, str]:
    """Return the home's token and its file; create a token if there is none, or with `renew`."""
    path = os.path.join(home, TOKEN_FILE)
    stored = None if renew else files.read_optional(path, 1024, private=True)
    if stored is not None and os.stat(path).st_mode & 0o077:
        why, hint = "they could know the token", "create a new one: forestay mcp --http --new-token"
        raise InvalidInput(
            f"not serving: other users can read {path}", why=why, hint=hint, file=path
        )
    if stored is None or not stored.strip():
        files.make_private_dir(home)
        stored = clock.random(_TOKEN_BYTES).hex().encode()
        files.replace(path, stored + b"\n", mode=0o600)
    return stored.decode().strip(), path


def listen(port: int) -> socket.socket:
    """Return a socket on the loopback address; port 0 means any free port."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((ADDRESS, port))
        made.listen()  # before the address is printed, because a client can connect at once
    except (OSError, OverflowError) as error:
        made.close()
        reason = getattr(error, "strerror", "") or str(error)
        raise InvalidInput(
            f"port {port} cannot be used", why=reason.lower(), hint="forestay mcp --http --port 0"
        ) from None
    return made


def make_app(server: Server[Any], port: int, secret: str) -> ASGIApp:
    """Return the server as an ASGI application that requires the host, origin and token."""
    hosts = [f"{ADDRESS}:{port}", f"localhost:{port}"]
    origins = [f"http://{host}" for host in hosts]
    inner = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=_LARGEST,
        transport_security=TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins),
    )
    return _AccessCheck(inner, hosts, origins, secret)


class _AccessCheck:
    """Refuses a request with a wrong host, origin or token; the answer names which one it is."""

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
            await _serve_while_connected(self._inner, scope, receive, send)

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


async def _serve_while_connected(
    inner: ASGIApp, scope: Scope, receive: Receive, send: Send
) -> None:
    """Serve a request; cancel it if the client disconnects before the answer.

    With the older protocol version the SDK does not check for that: a proof would continue, and
    others would wait for it.
    """
    passed_on, incoming = anyio.create_memory_object_stream[Message](0)
    answered = anyio.Event()

    async def send_response(message: Message) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body"):
            answered.set()
        await send(message)

    async def receive_messages() -> None:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect" and not answered.is_set():
                group.cancel_scope.cancel()
            await passed_on.send(message)

    async with passed_on, incoming, anyio.create_task_group() as group:
        group.start_soon(receive_messages)
        await inner(scope, incoming.receive, send_response)
        group.cancel_scope.cancel()


def run(
    server: Server[Any], listening: socket.socket, secret: str, on_exit: Callable[[], None]
) -> None:
    """Serve until the process gets a signal to end; call `on_exit` before connections close."""
    import uvicorn

    class Listener(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            on_exit()
            super().handle_exit(sig, frame)

    port = listening.getsockname()[1]
    config = uvicorn.Config(
        make_app(server, port, secret),
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=5,
    )
    Listener(config).run(sockets=[listening])
