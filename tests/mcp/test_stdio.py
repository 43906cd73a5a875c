"""`forestay mcp` as agents run it: another process, used over its standard streams."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import forestay
from tests.cli.support import Cli, command


class Line:
    """A client that writes and reads lines, so that nothing is hidden by an SDK."""

    def __init__(self, *argv: str, **more: str) -> None:
        self.process = subprocess.Popen(
            [*command(), "mcp", *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **more},
        )
        self._id = 0

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data + b"\n")
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._id += 1
        answer = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        self.write(json.dumps(answer).encode())
        return self.read()

    def handshake(self, version: str) -> dict[str, Any]:
        client = {"name": "test", "version": "1"}
        answer = self.ask("initialize", protocolVersion=version, capabilities={}, clientInfo=client)
        self.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        found: dict[str, Any] = answer["result"]
        return found

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        answer = self.ask("tools/call", name=tool, arguments=arguments)
        found: dict[str, Any] = answer["result"]["structuredContent"]
        return found

    def end(self) -> tuple[int, bytes]:
        """Close its input, as a client does at the end; return its exit code and its stderr."""
        _, complaint = self.process.communicate(timeout=30)
        return self.process.returncode, complaint


@pytest.fixture
def cli(home: Path, project: Path) -> Cli:
    return Cli()


@pytest.fixture
def line(cli: Cli) -> Iterator[Line]:
    made = Line()
    yield made
    if made.process.poll() is None:
        made.process.kill()
        made.end()


def test_older_client_records_and_releases_the_session(line: Line, cli: Cli) -> None:
    hello = line.handshake("2025-06-18")
    assert hello["protocolVersion"] == "2025-06-18"
    assert hello["serverInfo"]["name"] == "forestay" and hello["instructions"]
    session = line.call("start", goal="Add login")["session"]
    assert cli.json("status")["holders"][0]["name"] == "mcp"
    for garbage in (b"not json", b"\xff\xfe\x00", b"[1,2", b'{"jsonrpc":"2.0"}', b""):
        line.write(garbage)
    huge = "x" * 10_000_000
    answer = line.call("record", events=[{"do": "note", "text": huge}])
    assert answer["error"]["what"] == "a text is too long"
    deep = b'{"jsonrpc":"2.0","id":99,"method":"tools/call","params":' + b"[" * 5000
    line.write(deep + b"]" * 5000 + b"}")
    assert line.call("record", events=[{"do": "note", "text": "on it goes"}])["ok"]
    code, complaint = line.end()
    assert code == 0 and b"Traceback" not in complaint, complaint
    shown = cli.json("status")
    assert shown["session"] == session and shown["seq"] == 2
    assert shown["holders"] == [] and "interrupted" not in shown["attention"]


def test_stateless_client_needs_no_handshake_and_uses_the_project_of_the_agent(
    cli: Cli, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    line = Line(CLAUDE_PROJECT_DIR=str(elsewhere))
    result = line.ask("server/discover", _meta=meta)["result"]
    assert result["supportedVersions"] == ["2026-07-28"]
    answer = line.ask("tools/call", name="start", arguments={"goal": "x"}, _meta=meta)["result"]
    assert answer["structuredContent"]["ok"] and answer["resultType"] == "complete"
    assert line.end()[0] == 0
    with forestay.open(cwd=str(elsewhere)) as stay:
        assert len(stay.list()) == 1
    assert cli.json("list")["sessions"] == []


def test_signal_to_end_ends_the_proof_and_releases_the_session(
    line: Line, cli: Cli, project: Path
) -> None:
    line.handshake("2025-11-25")
    line.call("start", goal="Add login")
    script = "echo $$ > pid; exec sleep 300"
    params = {"name": "prove", "arguments": {"command": ["sh", "-c", script]}}
    answer = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    line.write(json.dumps(answer).encode())
    pid = project / "pid"
    while not (pid.exists() and pid.read_text().strip()):
        time.sleep(0.02)
    line.process.send_signal(signal.SIGTERM)
    assert line.end()[0] == 128 + signal.SIGTERM
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()
    shown = cli.json("status")
    assert shown["holders"] == [] and "interrupted" not in shown["attention"]
    assert cli.json("prove", "--list")["proofs"][0]["interrupted"]


def test_killed_server_leaves_the_session_interrupted(line: Line, cli: Cli) -> None:
    line.handshake("2025-11-25")
    line.call("start", goal="Add login")
    line.process.kill()
    line.end()
    assert "interrupted" in cli.json("status")["attention"]


def test_missing_sdk_is_reported_with_the_install_command(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forestay.cli.mcp.find_spec", lambda name: None)
    answer = cli("mcp")
    assert answer.code == 1 and "pip install 'forestay[mcp]'" in answer.err


def test_options_that_exclude_each_other_are_refused(cli: Cli) -> None:
    assert cli("mcp", "--port", "1").code == 2
    assert cli("mcp", "--project", "nowhere").code == 2
