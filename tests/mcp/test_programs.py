"""The server checked by other programs: the inspector, and the suite of the protocol.

Features that are not offered are listed, with the reason, in conformance.yml: a check that fails
and is not listed fails the test, and so does one that is listed and passes.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from forestay.mcp import http
from forestay.mcp.server import make_server
from forestay.mcp.tool_schemas import TOOLS
from forestay.mcp.tools import ToolRunner
from tests.mcp.conftest import Ask

pytestmark = pytest.mark.mcp

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / ".tools" / "agents"
BASELINE = Path(__file__).parent / "conformance.yml"
FORESTAY = ROOT / ".venv" / "bin" / "forestay"


def program(name: str, file: str) -> list[str]:
    """Return the command of an npm program; `make test-mcp` fetches them."""
    (node,) = PROGRAMS.glob("node/node_modules/node-*/bin/node")
    found = PROGRAMS / name / "node_modules" / ".bin" / file
    assert found.exists(), f"{name} is not installed: see {PROGRAMS / name}/setup.log"
    return [str(node), str(found.resolve())]


def run(argv: list[str], seconds: int = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds
    )


# -- the inspector ---------------------------------------------------------------------------------


@pytest.fixture
def inspect(home: Path, project: Path) -> Any:
    def inspect(era: str, method: str, *more: str) -> tuple[dict[str, Any], str]:
        lead = program("inspector", "mcp-inspector")
        argv = [*lead, "--cli", str(FORESTAY), "mcp", "--protocol-era", era, "--method", method]
        done = run([*argv, *more])
        assert done.returncode == 0, done.stdout + done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer, done.stderr

    return inspect


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_inspector_finds_no_problem_in_the_tools(inspect: Any, era: str) -> None:
    answer, complaints = inspect(era, "tools/list", "--strict")
    assert [tool["name"] for tool in answer["tools"]] == list(TOOLS)
    assert "Warning" not in complaints and "Error" not in complaints, complaints


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_inspector_starts_a_session_and_reads_it(inspect: Any, era: str) -> None:
    arguments = ("--tool-name", "start", "--tool-arg", "goal=Add login")
    answer, _ = inspect(era, "tools/call", *arguments)
    assert answer["structuredContent"]["ok"]
    read, _ = inspect(era, "resources/read", "--uri", "forestay://current/briefing")
    assert "Goal: Add login" in read["contents"][0]["text"]
    asked, _ = inspect(era, "prompts/get", "--prompt-name", "continue")
    assert "Goal: Add login" in asked["messages"][0]["content"]["text"]


# -- the conformance suite -------------------------------------------------------------------------


class _WithToken:
    """An application that adds the token, which the suite cannot send."""

    def __init__(self, inner: ASGIApp, token: str) -> None:
        self._inner = inner
        self._header = (b"authorization", f"Bearer {token}".encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "headers": [*scope["headers"], self._header]}
        await self._inner(scope, receive, send)


@pytest.fixture
def url(runner: ToolRunner, ask: Ask) -> Iterator[str]:
    ask("start", goal="Conform")
    listening = http.listen(0)
    port = listening.getsockname()[1]
    inner = http.make_app(make_server(runner), port, "token")
    server = uvicorn.Server(uvicorn.Config(_WithToken(inner, "token"), log_level="warning"))
    thread = threading.Thread(target=lambda: server.run(sockets=[listening]))
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://{http.ADDRESS}:{port}{http.PATH}"
    server.should_exit = True
    thread.join(20)


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
def test_suite_fails_only_for_features_that_are_not_offered(url: str, revision: str) -> None:
    argv = [*program("conformance", "conformance"), "server", "--url", url]
    done = run([*argv, "--requirements", revision, "--expected-failures", str(BASELINE)])
    answer = done.stdout + done.stderr
    assert done.returncode == 0, answer[-6000:]
    assert "✓ dns-rebinding-protection" in answer and "✓ tools-list" in answer


def test_both_lists_name_the_same_versions_of_programs() -> None:
    lists = [ROOT / "tests" / where / "versions.txt" for where in ("mcp", "real_agents")]
    mine, theirs = (
        dict(line.split()[::2] for line in file.read_text().splitlines() if line[:1] not in "#")
        for file in lists
    )
    assert {name: theirs.get(name, version) for name, version in mine.items()} == mine
