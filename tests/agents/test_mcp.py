"""The server, held against the programs that judge and use servers."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.agents.clients import CLAUDE, GEMINI, HOLDFAST, TOOLS, Client, Place
from tests.agents.usher import Usher

pytestmark = pytest.mark.agents

# What the suite asks of a server made for it: tools, resources and prompts by its own names.
REVIEWED = Path(__file__).with_name("conformance.yml")
ERAS = ("modern", "legacy")


def _program(name: str, path: str) -> Path:
    found = TOOLS / name / "node_modules" / ".bin" / path
    if not found.exists():
        pytest.skip(f"not run: {name}")
    return found


def _run(place: Place, *command: str | Path, seconds: float = 60) -> tuple[int, str]:
    done = subprocess.run(
        [str(each) for each in command],
        cwd=place.project,
        env=place.environment({}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
    )
    return done.returncode, done.stdout


def _inspect(place: Place, era: str, *arguments: str) -> str:
    inspector = _program("inspector", "mcp-inspector")
    how = ("--protocol-era", era, *arguments)
    code, said = _run(place, inspector, "--cli", HOLDFAST, "mcp", *how)
    assert code == 0, said
    return said


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_finds_no_fault_in_the_schemas(place: Place, era: str) -> None:
    assert "prove" in _inspect(place, era, "--method", "tools/list", "--strict")


@pytest.mark.parametrize("era", ERAS)
def test_a_session_is_started_and_found_again(place: Place, era: str) -> None:
    call = ("--method", "tools/call", "--tool-name")
    _inspect(place, era, *call, "start", "--tool-arg", "goal=Greet in French too")
    said = _inspect(place, era, *call, "find", "--tool-arg", "what=brief")
    assert "Greet in French too" in json.loads(said)["content"][0]["text"]


@pytest.fixture
def address(place: Place) -> Iterator[str]:
    """Our server over HTTP, with a session, behind an usher."""
    place.holdfast("start", "Greet in French too")
    serving = subprocess.Popen(
        [HOLDFAST, "mcp", "--http", "--port", "0"],
        cwd=place.project,
        env=place.environment({}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert serving.stdout is not None
    words = serving.stdout.readline().split()
    port = int(words[1].split(":")[2].split("/")[0])
    usher = Usher(port, Path(words[-1]).read_text().strip())
    time.sleep(0.5)
    yield usher.url + "/mcp"
    usher.close()
    serving.terminate()
    serving.communicate(timeout=20)


def _expected(place: Place, revision: str) -> str:
    reviewed = yaml.safe_load(REVIEWED.read_text())
    place.write("expected.yml", yaml.safe_dump({"server": reviewed["both"] + reviewed[revision]}))
    return str(place.home / "expected.yml")


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_the_conformance_suite_fails_us_only_where_it_was_reviewed(
    place: Place, address: str, revision: str
) -> None:
    suite = _program("conformance", "conformance")
    rules = ("--requirements", revision, "--expected-failures", _expected(place, revision))
    code, said = _run(place, suite, "server", "--url", address, *rules, seconds=150)
    assert code == 0, said[said.find("=== SUMMARY") :]


@pytest.mark.parametrize("client", [CLAUDE, GEMINI], ids=lambda each: each.name)
def test_an_agent_says_that_it_is_connected(client: Client, place: Place) -> None:
    if client.executable() is None:
        pytest.skip(f"not run: {client.name}")
    client.settings(place)
    place.holdfast("install", client.name)
    # An agent gives a server a few seconds only, which a busy machine may not have.
    listed = next((said for said in _lists(client, place) if " Connected" in said), "")
    assert any("holdfast" in line and " Connected" in line for line in listed.splitlines()), listed


def _lists(client: Client, place: Place) -> Iterator[str]:
    for _ in range(3):
        yield client.call(place, "mcp", "list")
