"""Install our hooks and MCP server in an agent's settings, and remove them byte for byte.

A *plan* lists the files to change, the agent's own commands to run, and what only the user can do;
making it changes nothing, so `--dry-run` only prints it. `apply_plan` executes it. Our entries are
found by the names of our script and server, so that a newer version replaces those of an older one.
The home remembers what was created for them (files, folders, empty lists), so that uninstalling
removes no more than that. Settings are never copied into the home: they can contain secrets.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources

import msgspec
from msgspec import Struct

from forestay.agents import settings_file, spool_script
from forestay.agents.registry import AGENTS, PROJECT, SCRIPT, SERVER, USER, Agent, Place
from forestay.agents.settings_file import Unsplicable
from forestay.base import config, files
from forestay.errors import ForestayError, InvalidInput

_LARGEST = 8 << 20
_LONGEST = 60
_RECORD = "installed.json"
_TOML = "# added by forestay; to remove it: forestay uninstall\n"
_MARKDOWN = ("<!-- >>> forestay -->\n", "<!-- <<< forestay -->\n")


class Places(Struct, frozen=True):
    """The places involved: our home and program, the user's home folder, the project."""

    home: str
    program: list[str]
    user_home: str
    root: str
    variables: Mapping[str, str]

    moved: bool = False
    """Whether the home is not the default one, so that commands must name it."""

    @property
    def server(self) -> list[str]:
        """Return the command that starts the MCP server; it names the home only if needed."""
        return [*self.program, *(["--home", self.home] if self.moved else []), "mcp"]

    @property
    def script(self) -> str:
        return os.path.join(self.home, "hooks", SCRIPT)


class Made(Struct):
    """What was created for our entries in one file, and is removed with them."""

    path: str
    created: bool = False
    folders: list[str] = []
    containers: list[list[str]] = []


class Record(Struct):
    """Everything installed from this home, by `agent/scope/root`."""

    installed: dict[str, list[Made]] = {}


class Change(Struct):
    path: str
    before: bytes | None
    after: bytes | None
    made: Made


class Plan(Struct):
    agent: str
    scope: str
    root: str = ""
    changes: list[Change] = []
    runs: list[list[str]] = []
    """Commands of the agent itself, for settings that it rewrites constantly."""
    says: list[str] = []
    events: int = 0
    tools: str = ""
    """The file in which the MCP server is listed."""

    @property
    def title(self) -> str:
        return AGENTS[self.agent].title


Texts = dict[str, tuple[str | None, str | None, Made]]


def find_agent(name: str) -> Agent:
    if name not in AGENTS:
        near = difflib.get_close_matches(name.lower(), AGENTS, 1)
        other = "any other agent: forestay install agents-md; its MCP server: forestay mcp"
        raise InvalidInput(
            f"{name!r} is not a known agent",
            why=f"known agents: {', '.join(AGENTS)}",
            hint=f"did you mean {near[0]}?" if near else other,
        )
    return AGENTS[name]


def install(
    name: str, scope: str, places: Places, *, tools: bool = True, dry_run: bool = False
) -> Plan:
    scope = _usable_scope(name, scope)
    plan = plan_install(name, scope, places, tools=tools and _has_tools())
    if tools and not _has_tools() and AGENTS[name].servers:
        plan.says.append("without MCP tools: run pip install 'forestay[mcp]', then install again")
    if not dry_run:
        apply_plan(plan, places)
        plan.runs = _run(plan)
    return plan


def uninstall(name: str, scope: str, places: Places, *, dry_run: bool = False) -> Plan:
    plan = plan_uninstall(name, _usable_scope(name, scope), places)
    if not dry_run:
        apply_plan(plan, places, out=True)
        plan.runs = _run(plan)
    return plan


@contextmanager
def _editing(path: str) -> Iterator[None]:
    """Refuse a settings file that cannot be changed safely."""
    try:
        yield
    except (Unsplicable, tomllib.TOMLDecodeError) as error:
        raise _unreadable(path, str(error)) from None


def _usable_scope(name: str, scope: str) -> str:
    """Return the scope; AGENTS.md exists in projects only."""
    agent = find_agent(name)
    return scope if agent.hooks or agent.plugin or agent.servers else PROJECT


def _has_tools() -> bool:
    from importlib.util import find_spec

    return find_spec("mcp") is not None


def _run(plan: Plan) -> list[list[str]]:
    """Run the agent's own commands; return those that failed, for the user to run."""
    done = []
    for command in plan.runs:
        if problem := _why_not_run(command):
            plan.says.append(f"{problem}; run it yourself: {shlex.join(command)}")
        else:
            done.append(command)
    return done


def _why_not_run(command: list[str]) -> str:
    import shutil
    import subprocess

    if not shutil.which(command[0]):
        return f"{command[0]} is not on the PATH"
    try:
        subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LONGEST, check=True
        )
    except subprocess.CalledProcessError as error:
        return f"{command[0]} refused ({(error.stderr or b'').decode(errors='replace').strip()})"
    except (OSError, subprocess.SubprocessError) as error:
        return f"{command[0]} could not be run ({error})"
    return ""


def plan_install(name: str, scope: str, places: Places, *, tools: bool = True) -> Plan:
    """Plan an installation; the plan has no changes if everything is installed."""
    agent = find_agent(name)
    plan = Plan(name, scope, _root(scope, places))
    texts = _texts_without_entries(name, scope, places)
    if agent.hooks:
        path = _place(agent.hooks, scope, places)
        for event in agent.events:
            _splice(texts, path, ["hooks", event], {"hooks": [_hook(name, event, places.script)]})
        plan.events = len(agent.events)
    if agent.plugin:
        path = _place(agent.plugin, scope, places)
        if texts[path][1] is not None:
            raise _unreadable(path, "it exists and was not written by Forestay")
        text = resources.files("forestay.agents").joinpath("opencode.js").read_text("utf-8")
        _append_text(texts, path, text.replace('"@SCRIPT@"', json.dumps(places.script)))
    if agent.reads_agents_md and scope == PROJECT:
        path = _real_path(os.path.join(places.root, "AGENTS.md"), scope, places)
        guide = resources.files("forestay.agents").joinpath("guide.md").read_text("utf-8")
        _append_text(texts, path, guide.join(_MARKDOWN))
    if tools and agent.servers:
        _add_server(name, agent, scope, places, texts, plan)
    if agent.trust:
        plan.says.append(agent.trust)
    plan.changes = _changes(texts)
    return plan


def plan_uninstall(name: str, scope: str, places: Places) -> Plan:
    """Plan the removal of our entries."""
    agent = find_agent(name)
    plan = Plan(name, scope, _root(scope, places))
    plan.changes = _changes(_texts_without_entries(name, scope, places))
    found = None
    if agent.servers and _is_run(name, scope):
        found = _claude_server(_place(agent.servers, scope, places))
    if found is not None:
        plan.runs = [["claude", "mcp", "remove", "--scope", scope, SERVER]]
    return plan


def apply_plan(plan: Plan, places: Places, *, out: bool = False) -> None:
    """Execute a plan: first the files, then the record of what was created."""
    key = f"{plan.agent}/{plan.scope}/{plan.root}"
    record = recorded(places.home)
    if not out:
        if AGENTS[plan.agent].hooks or AGENTS[plan.agent].plugin:
            write_script(places)
        known = {made.path: made for made in record.installed.get(key, [])}
        known.update({change.path: change.made for change in plan.changes})
        record.installed[key] = list(known.values())
        _write_record(places.home, record)
    for change in plan.changes:
        _write(change)
    if out and record.installed.pop(key, None) is not None:
        _write_record(places.home, record)


def script_of(places: Places) -> bytes:
    """Return the script that hooks run, made for this machine."""
    return spool_script.spool_script(
        places.home, [*places.program, "--home", places.home], sync=spool_script.probe_sync()
    )


def write_script(places: Places) -> None:
    """Write the script into the home; a hook that is running it still reads the old one."""
    files.make_private_dir(os.path.dirname(places.script))
    data = script_of(places)
    if files.read_optional(places.script, _LARGEST) != data:
        files.replace(places.script, data, mode=0o700)


def places_here(home: str, root: str) -> Places:
    """Return the places for this machine, user and program."""
    variables = config.user_environment()
    plain = {name: value for name, value in variables.items() if name != "FORESTAY_HOME"}
    moved = config.load(environ=plain, read_file=False).home != home
    return Places(home, own_program(), config.user_home(), root, variables, moved)


def own_program() -> list[str]:
    """Return the command that runs this installation from anywhere."""
    import sys

    program = os.path.join(os.path.dirname(sys.executable), SERVER)
    if os.access(program, os.X_OK):
        return [program]
    return [sys.executable, "-c", "from forestay.cli.main import entry; entry()"]


def recorded(home: str) -> Record:
    """Return what was installed from this home."""
    data = files.read_optional(os.path.join(home, "hooks", _RECORD), _LARGEST)
    try:
        return msgspec.json.decode(data, type=Record) if data else Record()
    except msgspec.DecodeError:
        return Record()


def installed(places: Places, scopes: Sequence[str] = (USER, PROJECT)) -> list[Plan]:
    """Find our entries in the settings; return the plans that would remove them."""
    found = []
    for name in AGENTS:
        for scope in scopes:
            if name == "agents-md" and scope == USER:
                continue
            try:
                plan = plan_uninstall(name, scope, places)
            except ForestayError:
                continue
            # Many agents read AGENTS.md, so an entry in it does not belong to one of them.
            paths = [change.path for change in plan.changes]
            own = [path for path in paths if os.path.basename(path) != "AGENTS.md"]
            if plan.runs or (paths if name == "agents-md" else own):
                found.append(plan)
    return found


# -- the entries -------------------------------------------------------------------------------


def _hook(name: str, event: str, script: str) -> dict[str, object]:
    agent = AGENTS[name]
    hook: dict[str, object] = {"type": "command"}
    if agent.named:
        hook["name"] = SERVER
    if agent.exec_form:
        hook |= {"command": script, "args": [name, event]}
    else:
        # Without `exec` a shell could remain, and the script would take it for the agent.
        hook |= {"command": f"exec {shlex.join([script, name, event])}"}
    return hook | {"timeout": agent.seconds(event) * agent.second}


def _add_server(
    name: str, agent: Agent, scope: str, places: Places, texts: Texts, plan: Plan
) -> None:
    assert agent.servers is not None
    path = _place(agent.servers, scope, places)
    plan.tools = path
    command, *arguments = places.server
    if _is_run(name, scope):
        if _claude_server(path) != [command, *arguments]:
            adding = ["claude", "mcp", "add", "--scope", scope, SERVER, "--"]
            plan.runs = [[*adding, command, *arguments]]
        return
    if path.endswith(".toml"):
        _add_toml(path, agent.servers_key, command, arguments, texts, plan)
        return
    item: dict[str, object] = {"command": command, "args": arguments}
    if name == "opencode":
        item = {"type": "local", "command": [command, *arguments], "enabled": True}
    listed = settings_file.value_at(texts[path][1] or "{}", [agent.servers_key])
    if isinstance(listed, dict) and SERVER in listed:
        plan.says.append(f"{path} already has another server named {SERVER!r}; it was not changed")
        return
    _splice(texts, path, [agent.servers_key], item, SERVER)


def _add_toml(
    path: str, key: str, command: str, arguments: list[str], texts: Texts, plan: Plan
) -> None:
    before = texts[path][1] if path in texts else _read(path)
    with _editing(path):
        known = tomllib.loads(before or "").get(key, {})
    if SERVER in known:
        plan.says.append(f"{path} already has another server named {SERVER!r}; it was not changed")
        return
    lines = f"[{key}.{SERVER}]\ncommand = {json.dumps(command)}\nargs = {json.dumps(arguments)}\n"
    was = texts[path][0] if path in texts else None
    if was and _TOML + lines in was:
        texts[path] = (was, was, texts[path][2])
    else:
        _append_text(texts, path, _TOML + lines)


def _is_run(name: str, scope: str) -> bool:
    """Return whether the agent's own command edits its settings, which it rewrites constantly."""
    return name == "claude-code" and scope == USER


def _claude_server(path: str) -> list[str] | None:
    try:
        found = settings_file.value_at(_read(path) or "{}", ["mcpServers", SERVER])
    except (Unsplicable, ForestayError):
        return None
    if not isinstance(found, dict):
        return None
    return [str(found.get("command", "")), *map(str, found.get("args") or [])]


def is_ours(key: str, value: object) -> bool:
    """Return whether Forestay added this entry of a settings file."""
    return f"/{SCRIPT}" in json.dumps(value, ensure_ascii=False)


def _is_our_server(key: str, value: object) -> bool:
    """Return whether a server runs Forestay: the user can have another one of the same name."""
    return key == SERVER and '"mcp"]' in json.dumps(value) and "forestay" in json.dumps(value)


# -- texts before and after --------------------------------------------------------------------


def _texts_without_entries(name: str, scope: str, places: Places) -> Texts:
    """Return every file that could contain our entries, before and after their removal."""
    agent = AGENTS[name]
    texts: Texts = {}
    known = recorded(places.home).installed.get(f"{name}/{scope}/{_root(scope, places)}", [])
    made = {made.path: made for made in known}
    for place in (agent.hooks, agent.servers):
        if place and not (place is agent.servers and _is_run(name, scope)):
            path = _place(place, scope, places)
            _remove_entries(path, agent, made.get(path), texts)
    if agent.plugin:
        path = _place(agent.plugin, scope, places)
        before = _read(path)
        ours = before is None or f"/{SCRIPT}" in before
        texts[path] = (before, None if ours else before, made.get(path) or Made(path))
    if agent.reads_agents_md and scope == PROJECT:
        path = _real_path(os.path.join(places.root, "AGENTS.md"), scope, places)
        _remove_entries(path, agent, made.get(path), texts)
    return texts


def _remove_entries(path: str, agent: Agent, made: Made | None, texts: Texts) -> None:
    before = _read(path)
    if path in texts or before is None:
        texts.setdefault(path, (None, None, made or Made(path)))
        return
    after = before
    if path.endswith(".toml"):
        after = _cut_toml(before, agent.servers_key)
    elif path.endswith(".md"):
        first, last = map(re.escape, _MARKDOWN)
        after = re.sub(rf"\n?{first}.*?{last}", "", before, count=1, flags=re.DOTALL)
    elif before.strip():
        containers = made.containers if made else None
        with _editing(path):
            settings_file.check(before)
            # Search all events, because an older version registered for other ones.
            for event, hooks in settings_file.entries(before, ["hooks"]):
                if isinstance(hooks, list):
                    place = ["hooks", event]
                    # The user can have added a hook to our entry.
                    after = settings_file.shared(after, place, "hooks", is_ours)
                    after = settings_file.removed(after, place, is_ours, containers)
            place = [agent.servers_key]
            after = settings_file.removed(after, place, _is_our_server, containers)
    gone = made is not None and made.created and "".join(after.split()) in ("", "{}")
    texts[path] = (before, None if gone else after, made or Made(path))


def _cut_toml(text: str, key: str) -> str:
    """Remove Forestay's server table and its sub-tables, up to the next table."""
    mark = text.find(_TOML)
    if mark < 0:
        return text
    ours = rf"^\[{key}\.{SERVER}[].][^\n]*\n(?:(?!\[)[^\n]+\n)*"
    rest = re.sub(ours, "", text[mark + len(_TOML) :], flags=re.MULTILINE)
    before = text[:mark].removesuffix("\n")
    between = "\n" if rest and before and not before.endswith("\n") else ""
    return before + between + rest


def _splice(texts: Texts, path: str, place: list[str], item: object, key: str = "") -> None:
    before, now, made = _text_of(texts, path)
    text = now if now and now.strip() else "{\n}\n"
    with _editing(path):
        after, containers = settings_file.inserted(text, place, item, key)
    kept = [each for each in made.containers if each not in containers]
    texts[path] = (before, after, msgspec.structs.replace(made, containers=kept + containers))


def _append_text(texts: Texts, path: str, text: str) -> None:
    """Append a text to the planned content of a file, after an empty line."""
    before, now, made = _text_of(texts, path)
    texts[path] = (before, f"{now}\n{text}" if now else text, made)


def _text_of(texts: Texts, path: str) -> tuple[str | None, str | None, Made]:
    if path not in texts:
        before = _read(path)
        texts[path] = (before, before, Made(path))
    before, now, made = texts[path]
    if before is None and not made.created:
        missing, folder = [], os.path.dirname(path)
        while folder and not os.path.isdir(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        made = Made(path, created=True, folders=missing, containers=made.containers)
    return before, now, made


def _changes(texts: Texts) -> list[Change]:
    def encode(text: str | None) -> bytes | None:
        return None if text is None else text.encode("utf-8", "surrogateescape")

    return [
        Change(path, encode(before), encode(after), made)
        for path, (before, after, made) in texts.items()
        if before != after
    ]


# -- files -------------------------------------------------------------------------------------


def _place(place: Place, scope: str, places: Places) -> str:
    """Return the real path of a settings file: users link to settings in a repository."""
    path = place.path(scope, places.variables, places.user_home, places.root)
    return _real_path(path, scope, places)


def _real_path(path: str, scope: str, places: Places) -> str:
    """Resolve links, but refuse one that leads out of a project."""
    real, root = os.path.realpath(path), os.path.realpath(places.root)
    if scope == PROJECT and os.path.commonpath([real, root]) != root:
        raise InvalidInput(
            f"{path} leads out of the project, to {real}",
            why="installing in a project must not change files outside of it",
            hint="replace the link, or install it for all your projects",
        )
    return real


def _root(scope: str, places: Places) -> str:
    return places.root if scope == PROJECT else ""


def _read(path: str) -> str | None:
    if not os.path.lexists(path):
        return None
    return files.read_bounded(path, _LARGEST).decode("utf-8", "surrogateescape")


def _write(change: Change) -> None:
    now = files.read_bounded(change.path, _LARGEST) if os.path.lexists(change.path) else None
    if now != change.before:
        raise ForestayError(
            f"not written: another program changed {change.path} just now",
            hint="run the command again",
        )
    if change.after is not None:
        files.make_folder(os.path.dirname(change.path))
        files.replace(change.path, change.after, mode=0o644)
        return
    files.remove(change.path)
    for folder in change.made.folders:
        try:
            os.rmdir(folder)
        except OSError:
            return  # the folder is not empty: other programs use it


def _write_record(home: str, record: Record) -> None:
    path = os.path.join(home, "hooks", _RECORD)
    files.make_private_dir(os.path.dirname(path))
    files.replace(path, msgspec.json.format(msgspec.json.encode(record), indent=1))


def _unreadable(path: str, why: str) -> ForestayError:
    return InvalidInput(
        f"{path} cannot be changed safely", why=why, hint="fix it, then run the command again"
    )
