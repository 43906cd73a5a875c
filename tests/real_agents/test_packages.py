"""The packages, held against the programs that take them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.real_agents.clients import CLAUDE, CODEX, FORESTAY, ROOT, TOOLS, Client, Place
from tests.real_agents.model import Model, Step
from tests.real_agents.recorded_prompts import briefing, section

pytestmark = pytest.mark.agents

PLUGIN = ROOT / "packages" / "claude-code"


def _need(client: Client) -> Client:
    if client.executable() is None:
        pytest.skip(f"not run: {client.name}")
    return client


@pytest.mark.parametrize("folder", [PLUGIN, ROOT], ids=["plugin", "marketplace"])
def test_claude_code_finds_nothing_wrong(folder: Path, place: Place) -> None:
    said = _need(CLAUDE).call(place, "plugin", "validate", str(folder), "--strict")
    assert "Validation passed" in said, said


def test_claude_code_installs_the_plugin_from_the_marketplace(place: Place) -> None:
    claude = _need(CLAUDE)
    claude.settings(place)
    said = claude.call(place, "plugin", "marketplace", "add", str(ROOT))
    said += claude.call(place, "plugin", "install", "forestay@forestay")
    assert "enabled" in claude.call(place, "plugin", "list"), said
    details = claude.call(place, "plugin", "details", "forestay")
    assert "Skills (1)" in details and "Hooks (12)" in details and "MCP servers (1)" in details


@pytest.mark.parametrize(
    ("client", "install"), [(CLAUDE, "install"), (CODEX, "add")], ids=["claude-code", "codex"]
)
def test_a_session_is_recorded_and_briefed_by_the_plugin_alone(
    client: Client, install: str, place: Place, model: Model
) -> None:
    _need(client).settings(place)
    (place.home / "bin" / "forestay").symlink_to(FORESTAY)
    client.call(place, "plugin", "marketplace", "add", str(ROOT))
    client.call(place, "plugin", install, "forestay@forestay")
    model.scripts = {"work": [client.tools.shell("echo bonjour > heard.txt"), Step(say="Done.")]}
    client.start(place, "Greet in French too. [[script:work]]").wait()
    model.scripts = {"after": [Step(say="I know.")]}
    said = client.start(place, "Go on. [[script:after]]").wait()
    told = briefing(model, "after", said)
    assert "Goal: Greet in French too\n" in told
    assert "echo bonjour" in section(told, "Commands")


def test_codex_lists_the_same_marketplace(place: Place) -> None:
    codex = _need(CODEX)
    codex.settings(place)
    codex.call(place, "plugin", "marketplace", "add", str(ROOT))
    assert "forestay@forestay" in codex.call(place, "plugin", "list")


def test_the_desktop_extension_has_a_valid_manifest(place: Place) -> None:
    mcpb = TOOLS / "mcpb" / "node_modules" / ".bin" / "mcpb"
    if not mcpb.exists():
        pytest.skip("not run: mcpb")
    done = subprocess.run(
        [mcpb, "validate", ROOT / "packages" / "desktop" / "manifest.json"],
        env=place.environment({}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
