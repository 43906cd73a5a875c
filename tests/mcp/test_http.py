"""The server over HTTP: only requests with the right host, origin and token are served."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

import forestay
from forestay.base.clock import Clock
from forestay.errors import InvalidInput
from forestay.mcp import http
from tests.cli.support import command

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
ACCEPT = {"accept": "application/json, text/event-stream"}


class Served:
    """A server in another process, and its address."""

    def __init__(self, process: subprocess.Popen[bytes], text: dict[str, Any]) -> None:
        self.process = process
        self.url: str = text["url"]
        self.host = self.url.removeprefix("http://").removesuffix("/mcp")
        self.token_file = Path(text["token_file"])
        self.token = self.token_file.read_text().strip()

    def post(self, body: object = PING, **headers: str) -> httpx2.Response:
        """Send a valid request with some headers changed; an empty header is left out."""
        known = {"authorization": f"Bearer {self.token}", **ACCEPT, **headers}
        sent = {name: value for name, value in known.items() if value}
        return httpx2.post(self.url, json=body, headers=sent, timeout=20)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    env = {**os.environ, "FORESTAY_HOME": str(folder / "home")}
    process = subprocess.Popen(
        [*command(), "--json", "mcp", "--http", "--port", "0"],
        stdout=subprocess.PIPE,
        cwd=folder,
        env=env,
    )
    assert process.stdout is not None
    yield Served(process, json.loads(process.stdout.readline()))
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) is not None
    process.stdout.close()
    with forestay.open(env["FORESTAY_HOME"], cwd=str(folder)) as stay:
        assert not any(stay.session(row.session).agents.others() for row in stay.list()), (
            "the server still holds a session"
        )


def test_signal_to_end_ends_a_proof_at_once_and_the_call_is_answered(tmp_path: Path) -> None:
    env = {**os.environ, "FORESTAY_HOME": str(tmp_path / "home")}
    argv = [*command(), "--json", "mcp", "--http", "--port", "0"]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, cwd=tmp_path, env=env, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        served = Served(process, json.loads(process.stdout.readline()))
        _call(served, "start", goal="Prove")
        begun = tmp_path / "begun"
        threading.Thread(target=_end_when_file_exists, args=(process, begun)).start()
        answer = _call(served, "prove", command=["sh", "-c", "touch begun; sleep 30"])
        assert answer["interrupted"]
        assert process.communicate(timeout=20) == (b"", b"")


def _end_when_file_exists(process: subprocess.Popen[bytes], file: Path) -> None:
    for _ in range(400):
        if file.exists():
            break
        time.sleep(0.05)
    process.terminate()


def _call(served: Served, tool: str, timeout: float = 20, **arguments: Any) -> dict[str, Any]:
    body = {**PING, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    headers = {"authorization": f"Bearer {served.token}", **ACCEPT}
    answer = httpx2.post(served.url, json=body, headers=headers, timeout=timeout).json()
    found: dict[str, Any] = answer["result"]["structuredContent"]
    return found


def test_request_with_the_token_is_served(served: Served) -> None:
    assert served.post().json() == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert served.post(origin=f"http://{served.host}").status_code == 200
    port = served.host.rpartition(":")[2]
    assert served.post(host=f"localhost:{port}").status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1",
        "127.0.0.1:1",
        "127.0.0.1:{port}.evil.example",
        "127.0.0.1:{port}0",
        "LOCALHOST.:{port}",
        "[::1]:{port}",
    ],
)
def test_wrong_host_is_refused(served: Served, host: str) -> None:
    port = served.host.rpartition(":")[2]
    refused = served.post(host=host.format(port=port))
    assert refused.status_code == 421 and refused.text == "wrong Host"


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "http://evil.example",
        "https://{host}",
        "http://{host}.evil.example",
        "http://{host}/",
    ],
)
def test_origin_of_another_page_is_refused(served: Served, origin: str) -> None:
    refused = served.post(origin=origin.format(host=served.host))
    assert refused.status_code == 403 and refused.text == "wrong Origin"


@pytest.mark.parametrize(
    "token",
    [
        "",
        "Bearer",
        "Bearer x",
        "Basic {token}",
        "bearer {token}",
        "Bearer {token} " + "x",
        "{token}",
    ],
)
def test_wrong_token_is_refused(served: Served, token: str) -> None:
    refused = served.post(authorization=token.format(token=served.token))
    assert refused.status_code == 401 and served.token not in refused.text


def test_every_path_and_method_requires_the_token(served: Served) -> None:
    for method in ("GET", "POST", "DELETE", "OPTIONS", "PUT"):
        for path in ("/", "/mcp", "/mcp/", "/docs", "/.well-known/oauth-protected-resource"):
            refused = httpx2.request(method, f"http://{served.host}{path}", timeout=20)
            assert refused.status_code == 401, (method, path)


def test_request_of_ten_megabytes_is_refused(served: Served) -> None:
    arguments = {"goal": "x" * 10_000_000}
    body = {**PING, "method": "tools/call", "params": {"name": "start", "arguments": arguments}}
    assert served.post(body).status_code == 413


@pytest.mark.parametrize("mode, version", [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
def test_client_of_the_sdk_works_with_both_protocol_versions(
    served: Served, mode: str, version: str
) -> None:
    async def run() -> None:
        headers = {"Authorization": f"Bearer {served.token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=20) as bearer:
            transport = streamable_http_client(served.url, http_client=bearer)
            async with Client(transport, mode=mode) as client:
                assert client.session.protocol_version == version
                answer = await client.call_tool("start", {"goal": "Add login", "key": "k"})
                assert answer.structured_content["ok"]
                found = await client.call_tool("find", {"what": "sessions"})
                assert len(found.structured_content["found"]) == 1

    anyio.run(run)


def test_proof_of_a_disconnected_client_ends_and_the_next_one_runs(served: Served) -> None:
    session = _call(served, "start", goal="Prove")["session"]
    with pytest.raises(httpx2.ReadTimeout):
        _call(served, "prove", 1, session=session, command=["sleep", "30"], **{"as": "left"})
    assert _call(served, "prove", session=session, command=["true"])["passed"]
    kept = _call(served, "find", what="proofs", session=session)["found"]
    assert [one["interrupted"] for one in kept if one["proof"] == "left"] == [True]


# -- the token -------------------------------------------------------------------------------------


def test_only_the_owner_can_read_the_token(served: Served) -> None:
    assert stat.S_IMODE(served.token_file.stat().st_mode) == 0o600
    assert len(served.token) == 64


def test_token_of_a_home_stays_until_it_is_renewed(tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    first, path = http.load_token(home, Clock())
    assert http.load_token(home, Clock()) == (first, path)
    assert http.load_token(home, Clock(), renew=True)[0] != first
    os.chmod(path, 0o644)
    with pytest.raises(InvalidInput, match="other users can read"):
        http.load_token(home, Clock())
    assert len(http.load_token(home, Clock(), renew=True)[0]) == 64


def test_port_in_use_is_reported() -> None:
    with socket.create_server((http.ADDRESS, 0)) as taken:
        with pytest.raises(InvalidInput, match="cannot be used"):
            http.listen(taken.getsockname()[1])
    with pytest.raises(InvalidInput):
        http.listen(70_000)
