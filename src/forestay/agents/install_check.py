"""Check the installation in agents: what is installed, what blocks it, how long a hook takes.

Used by `forestay doctor`. Checking changes nothing; a hook is timed with a copy of the
script and a temporary spool.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from forestay.agents import settings_file, spool_script
from forestay.agents.install import Places, Plan, installed, plan_install, script_of
from forestay.agents.registry import AGENTS, PROJECT, SCOPES, SCRIPT, USER
from forestay.agents.settings_file import Unsplicable
from forestay.base import files
from forestay.base.findings import Finding
from forestay.errors import ForestayError

_LARGEST = 8 << 20
_TRIES = 7


def advice(places: Places) -> list[Finding]:
    """Return findings about our installation in agents."""
    found = list(_about_agents(places))
    return [*found, *_about_script(places)] if found else []


def _about_agents(places: Places) -> Iterator[Finding]:
    cost = ""
    for plan in installed(places):
        if AGENTS[plan.agent].hooks and not cost:
            cost = _cost()
        agent = AGENTS[plan.agent]
        where = "all projects" if plan.scope == USER else "this project"
        what = f"{agent.title}: installed for {where}"
        if agent.hooks:
            what += f", {len(agent.events)} hooks{cost}"
        removal = f"to remove it: forestay uninstall {_words(plan)}"
        yield Finding("agent-installed", "info", what, fix=removal)
        yield from _outdated(plan, places)
        for reason in _reasons(plan.agent, places):
            what = f"{agent.title} will not run the hooks of Forestay"
            yield Finding("hooks-off", "warning", what, reason)


def _words(plan: Plan) -> str:
    return f"{plan.agent} --scope project" if plan.scope == PROJECT else plan.agent


def _outdated(plan: Plan, places: Places) -> Iterator[Finding]:
    try:
        # Whether it was installed with the MCP tools is not recorded: either form is current.
        is_old = all(_differs(plan, places, tools=tools) for tools in (True, False))
    except ForestayError as error:
        yield Finding("agent-settings", "warning", str(error))
        return
    if is_old:
        yield Finding(
            "agent-outdated",
            "warning",
            f"the entries of Forestay in {AGENTS[plan.agent].title} are from another version",
            fix=f"forestay install {_words(plan)}",
        )


def _differs(plan: Plan, places: Places, *, tools: bool) -> bool:
    changes = plan_install(plan.agent, plan.scope, places, tools=tools).changes
    return any(one.before is not None and b"hooks" in (one.after or b"") for one in changes)


def _about_script(places: Places) -> Iterator[Finding]:
    data = files.read_optional(places.script, _LARGEST)
    if data is None:
        yield Finding(
            "hook-script-missing",
            "error",
            f"the script {SCRIPT} is missing from the home",
            "agents run it at each hook; nothing is recorded without it",
            "forestay install AGENT, for each agent named above",
        )
    elif data != script_of(places):
        yield Finding(
            "hook-script-outdated",
            "warning",
            f"the script {SCRIPT} was written for another program or version",
            fix="forestay install AGENT, for each agent named above",
        )
    if data is not None and not spool_script.probe_sync():
        yield Finding(
            "hook-unsynced",
            "warning",
            "hook payloads of the last seconds before a power cut can be lost",
            "no program on this system can sync a single file; to have one, install GNU sync",
        )


# -- why hooks do not run ----------------------------------------------------------------------


def _reasons(name: str, places: Places) -> Iterator[str]:
    if name == "codex":
        yield from _codex_reasons(places)
        return
    for path in _layers(name, places):
        problems = _settings(path)
        if problems.get("disableAllHooks") is True:
            yield f"{path} has disableAllHooks"
        if problems.get("allowManagedHooksOnly") is True:
            yield f"{path} allows managed hooks only"
        config = problems.get("hooksConfig")
        if isinstance(config, dict) and config.get("enabled") is False:
            yield f"{path} has hooksConfig.enabled = false"
        if isinstance(config, dict) and "forestay" in (config.get("disabled") or []):
            yield f"{path} has the hooks of Forestay in hooksConfig.disabled"


def _layers(name: str, places: Places) -> list[str]:
    place = AGENTS[name].hooks
    if place is None:
        return []
    paths = [place.path(s, places.variables, places.user_home, places.root) for s in SCOPES]
    if name == "claude-code":
        paths.append(os.path.join(places.root, ".claude", "settings.json"))
        paths.append("/etc/claude-code/managed-settings.json")
    return paths


def _settings(path: str) -> Mapping[str, Any]:
    data = files.read_optional(path, _LARGEST) or b"{}"
    try:
        problems = settings_file.value_at(data.decode("utf-8", "replace"), [])
    except Unsplicable:
        return {}
    return problems if isinstance(problems, dict) else {}


def _codex_reasons(places: Places) -> Iterator[str]:
    place = AGENTS["codex"].servers
    assert place is not None
    path = place.path(USER, places.variables, places.user_home, places.root)
    data = files.read_optional(path, _LARGEST) or b""
    try:
        config = tomllib.loads(data.decode("utf-8", "replace"))
    except tomllib.TOMLDecodeError:
        return
    if config.get("features", {}).get("hooks") is False:
        yield f"{path} has hooks = false under [features]"
    state = config.get("hooks", {}).get("state", {})
    trusted = " ".join(state) if isinstance(state, dict) else ""
    names = (re.sub(r"(?<!^)(?=[A-Z])", "_", event).lower() for event in AGENTS["codex"].events)
    if missing := sum(f"hooks.json:{name}:" not in trusted for name in names):
        yield f"{missing} hooks are not trusted yet: {AGENTS['codex'].trust}"


# -- cost --------------------------------------------------------------------------------------


def _cost() -> str:
    """Return the time that one hook takes as text; "" if it cannot be measured."""
    import subprocess
    import tempfile
    import time

    times = []
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, SCRIPT)
        files.create(
            script,
            spool_script.spool_script(folder, ["true"], sync=spool_script.probe_sync()),
            0o700,
        )
        for _ in range(_TRIES):
            began = time.perf_counter()
            try:
                subprocess.run([script, "probe", "Probe"], input=b"{}", timeout=5, check=True)
            except (OSError, subprocess.SubprocessError):
                return ""
            times.append(time.perf_counter() - began)
    return f", {sorted(times)[_TRIES // 2] * 1000:.0f} ms each"
