"""Installing into agents: how each file changes, and that uninstalling restores it."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import msgspec
import pytest

from forestay.agents import install, install_check
from forestay.agents.install import Places
from forestay.agents.registry import AGENTS, PROJECT, SCOPES, USER
from forestay.errors import ForestayError, InvalidInput

EVERYWHERE = [
    (name, scope) for name in AGENTS for scope in SCOPES if (name, scope) != ("agents-md", USER)
]
HOOKED = [name for name, agent in AGENTS.items() if agent.hooks]


@pytest.fixture
def places(tmp_path: Path) -> Places:
    for name in ("home", "me", "project"):
        (tmp_path / name).mkdir()
    return Places(
        str(tmp_path / "home"),
        ["/opt/bin/forestay"],
        str(tmp_path / "me"),
        str(tmp_path / "project"),
        {},
    )


def _tree(places: Places) -> dict[str, bytes]:
    """Return every file and folder outside of our own home."""
    found: dict[str, bytes] = {}
    for top in (places.user_home, places.root):
        for folder, _, names in os.walk(top):
            found[folder] = b""
            for name in names:
                path = os.path.join(folder, name)
                found[path] = Path(path).read_bytes()
    return found


def _install(name: str, scope: str, places: Places) -> install.Plan:
    plan = install.plan_install(name, scope, places)
    install.apply_plan(plan, places)
    return plan


def _uninstall(name: str, scope: str, places: Places) -> None:
    install.apply_plan(install.plan_uninstall(name, scope, places), places, out=True)


@pytest.mark.parametrize(("name", "scope"), EVERYWHERE)
def test_uninstalling_leaves_nothing_if_there_were_no_settings(
    name: str, scope: str, places: Places
) -> None:
    before = _tree(places)
    _install(name, scope, places)
    assert _tree(places) != before
    _uninstall(name, scope, places)
    assert _tree(places) == before


@pytest.mark.parametrize("tools", [True, False])
@pytest.mark.parametrize("name", HOOKED)
def test_new_installation_is_not_outdated(name: str, tools: bool, places: Places) -> None:
    plan = install.plan_install(name, USER, places, tools=tools)
    install.apply_plan(plan, places)
    assert "agent-outdated" not in [one.code for one in install_check.advice(places)]
    for change in plan.changes:
        path = Path(change.path)
        path.write_bytes(path.read_bytes().replace(b'"timeout": ', b'"timeout": 1'))
    assert "agent-outdated" in [one.code for one in install_check.advice(places)]


@pytest.mark.parametrize("name", HOOKED)
def test_every_event_runs_our_script_with_agent_and_event(name: str, places: Places) -> None:
    plan = _install(name, USER, places)
    settings = json.loads(Path(_hooks_file(name, places)).read_text())
    assert set(settings["hooks"]) == set(AGENTS[name].events)
    for event, groups in settings["hooks"].items():
        [hook] = groups[0]["hooks"]
        line = [hook["command"], *hook.get("args", [])]
        assert " ".join(line).removeprefix("exec ") == f"{places.script} {name} {event}"
    assert plan.events == len(AGENTS[name].events)


def _hooks_file(name: str, places: Places) -> str:
    place = AGENTS[name].hooks
    assert place is not None
    return place.path(USER, places.variables, places.user_home, places.root)


@pytest.mark.parametrize("name", HOOKED)
def test_other_settings_stay_byte_for_byte(name: str, places: Places) -> None:
    path = Path(_hooks_file(name, places))
    path.parent.mkdir(parents=True, exist_ok=True)
    event = AGENTS[name].events[0]
    mine = f'"hooks": {{ "{event}": [ {{"hooks":[{{"command":"mine"}}]}} ] }}'
    text = f'{{ "model":"x",\r\n {mine} }}\r\n'
    path.write_bytes(text.encode())
    os.chmod(path, 0o640)
    _install(name, USER, places)
    now = path.read_bytes()
    assert now != text.encode()
    assert json.loads(now)["hooks"][event][0] == {"hooks": [{"command": "mine"}]}
    assert path.stat().st_mode & 0o777 == 0o640
    _uninstall(name, USER, places)
    assert path.read_bytes() == text.encode()


@pytest.mark.parametrize(("name", "scope"), EVERYWHERE)
def test_installing_twice_changes_nothing_more(name: str, scope: str, places: Places) -> None:
    _install(name, scope, places)
    assert install.plan_install(name, scope, places).changes == []


def test_a_newer_version_replaces_the_entries_of_an_older_one(places: Places) -> None:
    _install("claude-code", USER, places)
    path = Path(_hooks_file("claude-code", places))
    old = path.read_text().replace('"timeout": 10', '"timeout": 99').replace("PostCompact", "Gone")
    path.write_text(old)
    _install("claude-code", USER, places)
    hooks = json.loads(path.read_text())["hooks"]
    assert '"timeout": 99' not in path.read_text()
    assert len(hooks["Stop"]) == 1


def test_codex_gets_its_server_at_the_end_of_its_toml(places: Places) -> None:
    path = Path(places.user_home, ".codex", "config.toml")
    path.parent.mkdir()
    path.write_text('model = "x"  # mine\n[mcp_servers.other]\ncommand = "o"')
    before = path.read_bytes()
    _install("codex", USER, places)
    assert path.read_bytes().startswith(before)
    server = tomllib.loads(path.read_text())["mcp_servers"]["forestay"]
    assert server == {"command": "/opt/bin/forestay", "args": ["mcp"]}
    _uninstall("codex", USER, places)
    assert path.read_bytes() == before


@pytest.mark.parametrize("mine", ["", 'model = "x"', 'model = "x"\n', "# mine\n\n[a]\nb = 1\n"])
def test_tables_after_our_server_survive_an_uninstall(places: Places, mine: str) -> None:
    path = Path(places.user_home, ".codex", "config.toml")
    path.parent.mkdir()
    path.write_text(mine)
    _install("codex", USER, places)
    added = '\n[projects."/p"]\ntrust_level = "trusted"\n'
    known = '\n[mcp_servers.forestay.tools.find]\napproval_mode = "approve"\n'
    path.write_text(path.read_text() + known + added)
    assert install.plan_install("codex", USER, places).changes == []
    _uninstall("codex", USER, places)
    rest = tomllib.loads(path.read_text())
    assert rest == {**tomllib.loads(mine), "projects": {"/p": {"trust_level": "trusted"}}}
    assert path.read_text().startswith(mine)
    assert path.read_text().endswith(added)


def test_server_of_the_same_name_that_is_not_ours_is_not_changed(places: Places) -> None:
    path = Path(places.user_home, ".gemini", "settings.json")
    path.parent.mkdir()
    path.write_text('{"mcpServers": {"forestay": {"command": "something-else"}}}')
    plan = _install("gemini", USER, places)
    servers = json.loads(path.read_text())["mcpServers"]
    assert servers == {"forestay": {"command": "something-else"}}
    assert any("was not changed" in line for line in plan.says)


def test_server_is_added_by_the_claude_command_unless_it_is_listed(places: Places) -> None:
    plan = install.plan_install("claude-code", USER, places)
    assert plan.runs == [
        ["claude", "mcp", "add", "--scope", "user", "forestay", "--", "/opt/bin/forestay", "mcp"]
    ]
    Path(places.user_home, ".claude.json").write_text(
        '{"mcpServers": {"forestay": {"command": "/opt/bin/forestay", "args": ["mcp"]}}}'
    )
    assert install.plan_install("claude-code", USER, places).runs == []


def test_linked_settings_are_changed_and_stay_linked(places: Places) -> None:
    real = Path(places.user_home, "dotfiles.json")
    real.write_text('{"a": 1}')
    link = Path(_hooks_file("claude-code", places))
    link.parent.mkdir()
    link.symlink_to(real)
    _install("claude-code", USER, places)
    assert link.is_symlink()
    assert "SessionStart" in real.read_text()


@pytest.mark.parametrize(
    ("name", "link"),
    [
        ("claude-code", ".claude"),
        ("gemini", ".gemini/settings.json"),
        ("opencode", ".opencode/plugin/forestay.js"),
        ("agents-md", "AGENTS.md"),
    ],
)
def test_link_out_of_a_project_is_not_followed(name: str, link: str, places: Places) -> None:
    place = Path(places.root, link)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(places.user_home + "/mine")
    for plan in (install.install, install.uninstall):
        with pytest.raises(InvalidInput, match="leads out of the project"):
            plan(name, PROJECT, places)
    assert os.listdir(places.user_home) == []


@pytest.mark.parametrize("name", HOOKED)
@pytest.mark.parametrize("at", [0, 1])
def test_hook_that_the_user_added_next_to_ours_stays(name: str, at: int, places: Places) -> None:
    _install(name, USER, places)
    path = Path(_hooks_file(name, places))
    settings = json.loads(path.read_text())
    settings["hooks"]["SessionStart"][0]["hooks"].insert(at, {"command": "mine"})
    path.write_text(json.dumps(settings))
    _install(name, USER, places)
    _uninstall(name, USER, places)
    left = {"hooks": {"SessionStart": [{"hooks": [{"command": "mine"}]}]}}
    assert json.loads(path.read_text()) == left


def test_plugin_of_the_same_name_that_is_not_ours_is_not_changed(places: Places) -> None:
    path = Path(places.root, ".opencode/plugin/forestay.js")
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    with pytest.raises(InvalidInput, match="not written by Forestay"):
        install.plan_install("opencode", PROJECT, places)
    assert install.plan_uninstall("opencode", PROJECT, places).changes == []


@pytest.mark.parametrize(
    "text",
    [
        *('{"a": 1', "[]", "null", "// only this", '{"a": 1}{"b": 2}', '{"a": 1.2.3}', "{}\0"),
        *('{"hooks": null}', '{"hooks": []}', '{"hooks": {"AfterTool": {}}}'),
        *('{"mcpServers": []}', '{"mcpServers": null}', '{"a": ' + "9" * 5000 + "}"),
    ],
)
def test_unreadable_settings_are_named_and_not_changed(text: str, places: Places) -> None:
    path = Path(_hooks_file("gemini", places))
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(InvalidInput, match=str(path)):
        _install("gemini", USER, places)
    assert path.read_text() == text


@pytest.mark.parametrize("text", ["", " \n"])
def test_empty_settings_file_is_accepted(text: str, places: Places) -> None:
    path = Path(_hooks_file("gemini", places))
    path.parent.mkdir()
    path.write_text(text)
    _install("gemini", USER, places)
    assert "AfterTool" in json.loads(path.read_text())["hooks"]
    _uninstall("gemini", USER, places)
    assert json.loads(path.read_text()) == {}


def test_a_file_changed_since_the_plan_is_not_written(places: Places) -> None:
    plan = install.plan_install("gemini", PROJECT, places)
    path = Path(plan.changes[0].path)
    path.parent.mkdir()
    path.write_text("{}")
    with pytest.raises(ForestayError, match="another program changed"):
        install.apply_plan(plan, places)
    assert path.read_text() == "{}"


def test_folder_of_an_agent_is_read_from_its_variable(places: Places) -> None:
    moved = places.user_home + "/elsewhere"
    there = msgspec.structs.replace(places, variables={"CODEX_HOME": moved})
    assert {c.path for c in install.plan_install("codex", USER, there).changes} == {
        f"{moved}/hooks.json",
        f"{moved}/config.toml",
    }


def test_installation_is_found_in_the_settings(places: Places) -> None:
    _install("qwen", PROJECT, places)
    _install("cursor", USER, places)
    os.remove(os.path.join(places.home, "hooks", "installed.json"))
    found = {(plan.agent, plan.scope) for plan in install.installed(places)}
    assert ("qwen", PROJECT) in found
    assert ("cursor", USER) in found
    assert not {name for name, _ in found} & {"claude-code", "codex", "gemini", "opencode"}


def test_agents_md_does_not_count_as_another_agent(places: Places) -> None:
    _install("agents-md", PROJECT, places)
    found = [(plan.agent, plan.scope) for plan in install.installed(places)]
    assert found == [("agents-md", PROJECT)]
    _install("cursor", PROJECT, places)
    assert ("cursor", PROJECT) in [(plan.agent, plan.scope) for plan in install.installed(places)]


def test_no_settings_are_copied_into_our_home(places: Places) -> None:
    path = Path(_hooks_file("claude-code", places))
    path.parent.mkdir()
    path.write_text('{"env": {"KEY": "canary-9f3"}}')
    _install("claude-code", USER, places)
    for folder, _, names in os.walk(places.home):
        for name in names:
            assert b"canary-9f3" not in Path(folder, name).read_bytes()


def test_script_and_server_get_the_path_of_a_moved_home(places: Places) -> None:
    moved = msgspec.structs.replace(places, moved=True)
    _install("gemini", USER, moved)
    servers = json.loads(Path(_hooks_file("gemini", places)).read_text())["mcpServers"]
    assert servers["forestay"]["args"] == ["--home", places.home, "mcp"]
    assert f"--home {places.home} ingest" in Path(places.script).read_text()
    _uninstall("gemini", USER, moved)
    assert not Path(_hooks_file("gemini", places)).exists()
