"""The packages install in the programs they are made for."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.real_agents.clients import CLAUDE, CODEX, FORESTAY, ROOT, TOOLS, Client, Place
from tests.real_agents.model import Model, Step
from tests.real_agents.recorded_prompts import briefing, section

pytestmark = pytest.mark.agents

PLUGIN = ROOT / "packages" / "claude-code"


def _require(client: Client) -> Client:
    if client.executable() is None:
        pytest.skip(f"not run: {client.name}")
    return client


@pytest.mark.parametrize("folder", [PLUGIN, ROOT], ids=["plugin", "marketplace"])
def test_claude_code_validates_the_package(folder: Path, place: Place) -> None:
    output = _require(CLAUDE).call(place, "plugin", "validate", str(folder), "--strict")
    assert "Validation passed" in output, output


def test_claude_code_installs_the_plugin_from_the_marketplace(place: Place) -> None:
    claude = _require(CLAUDE)
    claude.settings(place)
    output = claude.call(place, "plugin", "marketplace", "add", str(ROOT))
    output += claude.call(place, "plugin", "install", "forestay@forestay")
    assert "enabled" in claude.call(place, "plugin", "list"), output
    details = claude.call(place, "plugin", "details", "forestay")
    assert "Skills (1)" in details and "Hooks (12)" in details and "MCP servers (1)" in details


@pytest.mark.parametrize(
    ("client", "install"), [(CLAUDE, "install"), (CODEX, "add")], ids=["claude-code", "codex"]
)
def test_a_session_is_recorded_and_briefed_by_the_plugin_alone(
    client: Client, install: str, place: Place, model: Model
) -> None:
    _require(client).settings(place)
    (place.home / "bin" / "forestay").symlink_to(FORESTAY)
    client.call(place, "plugin", "marketplace", "add", str(ROOT))
    client.call(place, "plugin", install, "forestay@forestay")
    model.scripts = {
        "work": [client.tools.shell("echo bonjour > greeting.txt"), Step(text="Done.")]
    }
    client.start(place, "Greet in French too. [[script:work]]").wait()
    model.scripts = {"after": [Step(text="I know.")]}
    output = client.start(place, "Go on. [[script:after]]").wait()
    text = briefing(model, "after", output)
    assert "Goal: Greet in French too\n" in text
    assert "echo bonjour" in section(text, "Commands")


def test_codex_lists_the_plugin_of_the_marketplace(place: Place) -> None:
    codex = _require(CODEX)
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
