"""The plugin, the desktop extension and the registry entry are complete and of one version."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import forestay
from forestay.agents.registry import AGENTS

ROOT = Path(__file__).parent.parent
PACKAGES = ROOT / "packages"
PLUGIN = PACKAGES / "claude-code"


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import packages

    return packages


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def test_every_package_has_the_programs_version(scripts: Any) -> None:
    stated = scripts.stated_versions()
    assert len(stated) == 4
    for name, versions in stated.items():
        assert versions, name
        assert set(versions) == {forestay.__version__}, name


def test_an_outdated_version_is_refused(
    scripts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scripts, "version", lambda: "9.9.9")
    with pytest.raises(SystemExit, match=r"9\.9\.9"):
        scripts.build(tmp_path)


def test_the_same_input_builds_the_same_bytes(scripts: Any, tmp_path: Path) -> None:
    made = []
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / f"forestay-{forestay.__version__}-py3-none-any.whl").write_bytes(b"wheel")
        made.append([path.read_bytes() for path in scripts.build(folder)])
    assert made[0] == made[1]


def test_the_extension_holds_its_server_and_the_wheel(scripts: Any, tmp_path: Path) -> None:
    wheel = f"forestay-{forestay.__version__}-py3-none-any.whl"
    (tmp_path / wheel).write_bytes(b"wheel")
    _, bundle, _ = scripts.build(tmp_path)
    names = zipfile.ZipFile(bundle).namelist()
    manifest = _read_json(PACKAGES / "desktop" / "manifest.json")
    assert {"manifest.json", manifest["server"]["entry_point"], wheel, "LICENSE"} <= set(names)
    assert wheel in (PACKAGES / "desktop" / "pyproject.toml").read_text("utf-8")


@pytest.mark.req("S2-3")
def test_the_extension_starts_the_server_over_the_local_journal() -> None:
    manifest = _read_json(PACKAGES / "desktop" / "manifest.json")
    assert manifest["server"]["type"] == "uv"
    assert manifest["server"]["mcp_config"]["env"] == {"FORESTAY_HOME": "${user_config.home}"}
    assert manifest["user_config"]["home"]["default"] == "", "empty is the default home"
    server = (PACKAGES / "desktop" / "server.py").read_text("utf-8")
    done = subprocess.run(
        [sys.executable, "-c", server.replace("entry()", "print(sys.argv[1:])")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "['mcp', '--desktop']"


def test_the_plugin_has_the_same_hooks_as_install() -> None:
    hooks = _read_json(PLUGIN / "hooks" / "hooks.json")["hooks"]
    agent = AGENTS["claude-code"]
    assert tuple(hooks) == agent.events
    for event, [group] in hooks.items():
        [hook] = group["hooks"]
        assert hook["args"] == ["claude-code", event]
        assert hook["timeout"] == agent.seconds(event)
        assert hook["command"] == "${CLAUDE_PLUGIN_ROOT}/hooks/run.sh"
    assert os.access(PLUGIN / "hooks" / "run.sh", os.X_OK)


def _run(
    home: Path, *arguments: str, path: str = "/usr/bin:/bin", payload: str = '{"a": 1}'
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(PLUGIN / "hooks" / "run.sh"), *arguments],
        input=payload,
        env={"FORESTAY_HOME": str(home), "HOME": str(home), "PATH": path},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


def test_the_plugins_script_prints_nothing_without_forestay(tmp_path: Path) -> None:
    for event in ("SessionStart", "Stop"):
        done = _run(tmp_path, "claude-code", event)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_plugins_script_runs_the_one_in_the_home(tmp_path: Path) -> None:
    script = tmp_path / "hooks" / "forestay-hook"
    script.parent.mkdir()
    script.write_text('#!/bin/sh\necho "$@"; cat\n')
    script.chmod(0o700)
    assert _run(tmp_path, "claude-code", "Stop").stdout == 'claude-code Stop\n{"a": 1}'


def test_the_plugins_script_without_arguments_serves_codex(tmp_path: Path) -> None:
    script = tmp_path / "hooks" / "forestay-hook"
    script.parent.mkdir()
    script.write_text('#!/bin/sh\necho "$@"; cat\n')
    script.chmod(0o700)
    payload = (
        '{"cwd":"/`date`/$HOME","hook_event_name":"Stop","prompt":"\\"hook_event_name\\":\\"X"}'
    )
    assert _run(tmp_path, payload=payload).stdout == f"codex Stop\n{payload}\n"
    assert _run(tmp_path, payload="").stdout == "codex \n"


@pytest.mark.req("S4-2")
def test_the_skill_is_triggered_by_the_documents_words() -> None:
    text = (PLUGIN / "skills" / "forestay" / "SKILL.md").read_text("utf-8")
    found = re.match(r"---\nname: forestay\ndescription: (.+)\n---\n", text)
    assert found, "the skill has a name and a description"
    for arguments in (
        "session state",
        "save session",
        "load session",
        "resume session",
        "session history",
    ):
        assert f'"{arguments}"' in found.group(1)


def test_the_marketplace_names_the_existing_plugin() -> None:
    [entry] = _read_json(ROOT / ".claude-plugin" / "marketplace.json")["plugins"]
    plugin = _read_json(ROOT / entry["source"] / ".claude-plugin" / "plugin.json")
    assert plugin["name"] == entry["name"]
    assert (ROOT / "LICENSE").read_bytes() == (PLUGIN / "LICENSE").read_bytes()


def test_the_registry_entry_starts_the_server_of_the_package() -> None:
    entry = _read_json(PACKAGES / "server.json")
    [package] = entry["packages"]
    assert package["identifier"] == "forestay"
    assert package["transport"] == {"type": "stdio"}
    assert [one["value"] for one in package["packageArguments"]] == ["mcp"]
    assert re.fullmatch(r"[a-z0-9.-]+/[a-z0-9.-]+", entry["name"])
    assert len(entry["description"]) <= 100


def test_the_plugin_makes_its_script_when_a_session_starts(tmp_path: Path) -> None:
    folder = os.path.dirname(sys.executable)
    done = _run(tmp_path / "home", "claude-code", "SessionStart", path=f"{folder}:/usr/bin:/bin")
    assert done.returncode == 0
    assert os.access(tmp_path / "home" / "hooks" / "forestay-hook", os.X_OK)
