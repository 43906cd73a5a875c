"""Into an agent's settings and out again, byte for byte around our entries.

A *plan* says which files become what, which of the agent's own commands are to be run, and what
only its user can do; it changes nothing, so `--dry-run` is the plan alone. `carry_out` does it.
Our entries are found by the name of our script and of our server, so that a newer version replaces
those of an older one. What was made for them (files, folders, empty lists) is kept in the home, to
take away no more than was brought; the settings themselves are never copied there, because they may
hold secrets.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
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
_TOML = "# of forestay: forestay uninstall takes it out\n"
_MARKDOWN = ("<!-- >>> forestay -->\n", "<!-- <<< forestay -->\n")


class Ground(Struct, frozen=True):
    """Where all this happens: our home and program, the user's folder and the project."""

    home: str
    program: list[str]
    user_home: str
    root: str
    variables: Mapping[str, str]

    moved: bool = False
    """Whether the home is not where it would be looked for by itself."""

    @property
    def server(self) -> list[str]:
        """How the MCP server is started; without the home, where it can be, to be stable."""
        return [*self.program, *(["--home", self.home] if self.moved else []), "mcp"]

    @property
    def script(self) -> str:
        return os.path.join(self.home, "hooks", SCRIPT)


class Made(Struct):
    """What was made for our entries in one file, and goes when they go."""

    path: str
    created: bool = False
    folders: list[str] = []
    containers: list[list[str]] = []


class Record(Struct):
    """All that is installed from this home, by `agent/scope/root`."""

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
    """Commands of the agent itself, for settings that it writes all the time."""
    says: list[str] = []
    events: int = 0
    tools: str = ""
    """Where the MCP server is listed."""

    @property
    def title(self) -> str:
        return AGENTS[self.agent].title


Texts = dict[str, tuple[str | None, str | None, Made]]


def agent_named(name: str) -> Agent:
    if name not in AGENTS:
        raise InvalidInput(
            f"{name!r} is no agent that is known here",
            why=f"known are {', '.join(AGENTS)}",
            hint="for any other: forestay install agents-md, and add `forestay mcp` as MCP server",
        )
    return AGENTS[name]


def install(
    name: str, scope: str, ground: Ground, *, tools: bool = True, dry_run: bool = False
) -> Plan:
    scope = _possible(name, scope)
    plan = to_install(name, scope, ground, tools=tools and _has_tools())
    if tools and not _has_tools() and AGENTS[name].servers:
        plan.says.append("its tools are left out: pip install 'forestay[mcp]', then install again")
    if not dry_run:
        carry_out(plan, ground)
        plan.runs = _run(plan)
    return plan


def uninstall(name: str, scope: str, ground: Ground, *, dry_run: bool = False) -> Plan:
    plan = to_uninstall(name, _possible(name, scope), ground)
    if not dry_run:
        carry_out(plan, ground, out=True)
        plan.runs = _run(plan)
    return plan


def _possible(name: str, scope: str) -> str:
    """What is only told in AGENTS.md is told in a project."""
    agent = agent_named(name)
    return scope if agent.hooks or agent.plugin or agent.servers else PROJECT


def _has_tools() -> bool:
    from importlib.util import find_spec

    return find_spec("mcp") is not None


def _run(plan: Plan) -> list[list[str]]:
    """Run the agent's own commands; those that cannot be run here are left to the user."""
    done = []
    for command in plan.runs:
        problem = _why_not_run(command)
        if problem:
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


def to_install(name: str, scope: str, ground: Ground, *, tools: bool = True) -> Plan:
    """What installing means now; without a change if all is there already."""
    agent = agent_named(name)
    plan = Plan(name, scope, _root(scope, ground))
    texts = _without(name, scope, ground)
    if agent.hooks:
        _add_hooks(name, agent, _place(agent.hooks, scope, ground), ground, texts)
        plan.events = len(agent.events)
    if agent.plugin:
        path = _place(agent.plugin, scope, ground)
        if texts[path][1] is not None:
            raise _unreadable(path, "it is not of forestay")
        _put(texts, path, _plugin(ground))
    if agent.told and scope == PROJECT:
        path = _behind(os.path.join(ground.root, "AGENTS.md"), scope, ground)
        _put(texts, path, _block(_guide(), _MARKDOWN))
    if tools and agent.servers:
        _add_server(name, agent, scope, ground, texts, plan)
    if agent.trust:
        plan.says.append(agent.trust)
    plan.changes = _changes(texts)
    return plan


def to_uninstall(name: str, scope: str, ground: Ground) -> Plan:
    """What taking our entries out means now."""
    agent = agent_named(name)
    plan = Plan(name, scope, _root(scope, ground))
    plan.changes = _changes(_without(name, scope, ground))
    if agent.servers and _is_run(name, scope):
        found = _claude_server(_place(agent.servers, scope, ground))
        if found is not None:
            plan.runs = [["claude", "mcp", "remove", "--scope", scope, SERVER]]
    return plan


def carry_out(plan: Plan, ground: Ground, *, out: bool = False) -> None:
    """Do what a plan says; the files first, what was made for them right after."""
    key = f"{plan.agent}/{plan.scope}/{plan.root}"
    record = recorded(ground.home)
    if not out:
        if AGENTS[plan.agent].hooks or AGENTS[plan.agent].plugin:
            write_script(ground)
        known = {made.path: made for made in record.installed.get(key, [])}
        known.update({change.path: change.made for change in plan.changes})
        record.installed[key] = list(known.values())
        _write_record(ground.home, record)
    for change in plan.changes:
        _write(change)
    if out and record.installed.pop(key, None) is not None:
        _write_record(ground.home, record)


def script_of(ground: Ground) -> bytes:
    """The script that hooks run, made for this machine."""
    return spool_script.spool_script(
        ground.home, [*ground.program, "--home", ground.home], sync=spool_script.probe_sync()
    )


def write_script(ground: Ground) -> None:
    """Put the script into the home; whoever runs it now still runs the whole old one."""
    files.make_private_dir(os.path.dirname(ground.script))
    data = script_of(ground)
    if files.read_optional(ground.script, _LARGEST) != data:
        files.replace(ground.script, data, mode=0o700)


def ground_here(home: str, root: str) -> Ground:
    """This machine, this user and this program."""
    variables = config.user_environment()
    plain = {name: value for name, value in variables.items() if name != "FORESTAY_HOME"}
    moved = config.load(environ=plain, read_file=False).home != home
    return Ground(home, own_program(), config.user_home(), root, variables, moved)


def own_program() -> list[str]:
    """How to run this very installation again, from anywhere."""
    import sys

    beside = os.path.join(os.path.dirname(sys.executable), SERVER)
    if os.access(beside, os.X_OK):
        return [beside]
    return [sys.executable, "-c", "from forestay.cli.main import entry; entry()"]


def recorded(home: str) -> Record:
    """What this home remembers of its installations."""
    data = files.read_optional(os.path.join(home, "hooks", _RECORD), _LARGEST)
    try:
        return msgspec.json.decode(data, type=Record) if data else Record()
    except msgspec.DecodeError:
        return Record()


def installed(ground: Ground, scopes: Sequence[str] = (USER, PROJECT)) -> list[Plan]:
    """Where our entries are now, found by looking; each as the plan that takes them out."""
    found = []
    for name in AGENTS:
        for scope in scopes:
            if name == "agents-md" and scope == USER:
                continue
            try:
                plan = to_uninstall(name, scope, ground)
            except ForestayError:
                continue
            if plan.runs or any(_is_of(name, change.path) for change in plan.changes):
                found.append(plan)
    return found


def _is_of(name: str, path: str) -> bool:
    """Whether a file of ours says that this agent has us: AGENTS.md is read by many."""
    return name == "agents-md" or os.path.basename(path) != "AGENTS.md"


# -- the entries -------------------------------------------------------------------------------


def _add_hooks(name: str, agent: Agent, path: str, ground: Ground, texts: Texts) -> None:
    for event in agent.events:
        item = {"hooks": [_hook(name, agent, event, ground.script)]}
        _splice(texts, path, ["hooks", event], item)


def _hook(name: str, agent: Agent, event: str, script: str) -> dict[str, object]:
    hook: dict[str, object] = {"type": "command"}
    if agent.named:
        hook["name"] = SERVER
    if agent.exec_form:
        hook |= {"command": script, "args": [name, event]}
    else:
        # Without `exec` a shell may stay in between, and the script would take it for the agent.
        hook |= {"command": f"exec {shlex.join([script, name, event])}"}
    return hook | {"timeout": agent.seconds(event) * agent.second}


def _add_server(
    name: str, agent: Agent, scope: str, ground: Ground, texts: Texts, plan: Plan
) -> None:
    assert agent.servers is not None
    path = _place(agent.servers, scope, ground)
    plan.tools = path
    command, *arguments = ground.server
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
        plan.says.append(f"{path} has a server {SERVER!r} of its own; it is left as it is")
        return
    _splice(texts, path, [agent.servers_key], item, SERVER)


def _add_toml(
    path: str, key: str, command: str, arguments: list[str], texts: Texts, plan: Plan
) -> None:
    before = texts[path][1] if path in texts else _read(path)
    try:
        known = tomllib.loads(before or "").get(key, {})
    except tomllib.TOMLDecodeError as error:
        raise _unreadable(path, str(error)) from None
    if SERVER in known:
        plan.says.append(f"{path} has a server {SERVER!r} of its own; it is left as it is")
        return
    lines = f"[{key}.{SERVER}]\ncommand = {json.dumps(command)}\nargs = {json.dumps(arguments)}\n"
    was = texts[path][0] if path in texts else None
    if was and _TOML + lines in was:
        texts[path] = (was, was, texts[path][2])
    else:
        _put(texts, path, _TOML + lines)


def _is_run(name: str, scope: str) -> bool:
    """Claude Code writes its list of the user's servers all the time, so it has to do it itself."""
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
    """Whether an entry of a settings file is one of ours."""
    return f"/{SCRIPT}" in json.dumps(value, ensure_ascii=False)


def _is_our_server(key: str, value: object) -> bool:
    """By its command: a server of that name may be somebody's own."""
    return key == SERVER and '"mcp"]' in json.dumps(value) and "forestay" in json.dumps(value)


def _block(text: str, marks: tuple[str, str]) -> str:
    return f"{marks[0]}{text}{marks[1]}"


def _guide() -> str:
    return resources.files("forestay.agents").joinpath("guide.md").read_text("utf-8")


def _plugin(ground: Ground) -> str:
    text = resources.files("forestay.agents").joinpath("opencode.js").read_text("utf-8")
    return text.replace('"@SCRIPT@"', json.dumps(ground.script))


# -- texts, before and after -------------------------------------------------------------------


def _without(name: str, scope: str, ground: Ground) -> Texts:
    """Every file that could hold entries of ours, as it was and as it is without them."""
    agent = AGENTS[name]
    texts: Texts = {}
    made = _made(name, scope, ground)
    for place in (agent.hooks, agent.servers):
        if place and not (place is agent.servers and _is_run(name, scope)):
            path = _place(place, scope, ground)
            _take_out(path, agent, made.get(path), texts)
    if agent.plugin:
        path = _place(agent.plugin, scope, ground)
        before = _read(path)
        ours = before is None or f"/{SCRIPT}" in before
        texts[path] = (before, None if ours else before, made.get(path) or Made(path))
    if agent.told and scope == PROJECT:
        path = _behind(os.path.join(ground.root, "AGENTS.md"), scope, ground)
        _take_out(path, agent, made.get(path), texts)
    return texts


def _take_out(path: str, agent: Agent, made: Made | None, texts: Texts) -> None:
    before = _read(path)
    if path in texts or before is None:
        texts.setdefault(path, (None, None, made or Made(path)))
        return
    after = before
    if path.endswith(".toml"):
        after = _cut_toml(before, agent.servers_key)
    elif path.endswith(".md"):
        after = _cut_block(before, _MARKDOWN)
    elif before.strip():
        _checked(path, before)
        containers = made.containers if made else None
        for event in _events(path, after):
            # Its owner may have put a hook of his own beside ours.
            after = settings_file.shared(after, ["hooks", event], "hooks", is_ours)
            after = _cut(path, after, ["hooks", event], is_ours, containers)
        after = _cut(path, after, [agent.servers_key], _is_our_server, containers)
    gone = made is not None and made.created and "".join(after.split()) in ("", "{}")
    texts[path] = (before, None if gone else after, made or Made(path))


def _checked(path: str, text: str) -> None:
    try:
        settings_file.check(text)
    except Unsplicable as error:
        raise _unreadable(path, str(error)) from None


def _events(path: str, text: str) -> list[str]:
    """All that have hooks in a file, whoever they belong to: an older version heard others."""
    try:
        found = settings_file.entries(text, ["hooks"])
    except Unsplicable as error:
        raise _unreadable(path, str(error)) from None
    return [key for key, value in found if isinstance(value, list)]


def _cut(
    path: str,
    text: str,
    place: list[str],
    ours: Callable[[str, object], bool],
    made: list[list[str]] | None,
) -> str:
    try:
        return settings_file.removed(text, place, ours, made)
    except Unsplicable as error:
        raise _unreadable(path, str(error)) from None


def _cut_block(text: str, marks: tuple[str, str]) -> str:
    first, last = map(re.escape, marks)
    return re.sub(rf"\n?{first}.*?{last}", "", text, count=1, flags=re.DOTALL)


def _cut_toml(text: str, key: str) -> str:
    """Without our server and all that the agent came to know of it; its own tables follow ours."""
    mark = text.find(_TOML)
    if mark < 0:
        return text
    ours = rf"^\[{key}\.{SERVER}[].][^\n]*\n(?:(?!\[)[^\n]+\n)*"
    rest = re.sub(ours, "", text[mark + len(_TOML) :], flags=re.MULTILINE)
    before = text[:mark].removesuffix("\n")
    between = "\n" if rest and before and not before.endswith("\n") else ""
    return before + between + rest


def _splice(texts: Texts, path: str, place: list[str], item: object, key: str = "") -> None:
    before, now, made = _known(texts, path)
    text = now if now and now.strip() else "{\n}\n"
    try:
        after, containers = settings_file.inserted(text, place, item, key)
    except Unsplicable as error:
        raise _unreadable(path, str(error)) from None
    kept = [each for each in made.containers if each not in containers]
    texts[path] = (before, after, msgspec.structs.replace(made, containers=kept + containers))


def _put(texts: Texts, path: str, text: str) -> None:
    """Add a text at the end of a file, behind an empty line."""
    before, now, made = _known(texts, path)
    texts[path] = (before, f"{now}\n{text}" if now else text, made)


def _known(texts: Texts, path: str) -> tuple[str | None, str | None, Made]:
    if path not in texts:
        before = _read(path)
        texts[path] = (before, before, Made(path))
    before, now, made = texts[path]
    if before is None and not made.created:
        made = Made(path, created=True, folders=_missing_folders(path), containers=made.containers)
    return before, now, made


def _missing_folders(path: str) -> list[str]:
    missing, folder = [], os.path.dirname(path)
    while folder and not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    return missing


def _changes(texts: Texts) -> list[Change]:
    return [
        Change(
            path,
            None if before is None else before.encode("utf-8", "surrogateescape"),
            None if after is None else after.encode("utf-8", "surrogateescape"),
            made,
        )
        for path, (before, after, made) in texts.items()
        if before != after
    ]


# -- files -------------------------------------------------------------------------------------


def _place(place: Place, scope: str, ground: Ground) -> str:
    """Behind links: people keep their settings in a repository of their own and link to them."""
    path = place.path(scope, ground.variables, ground.user_home, ground.root)
    return _behind(path, scope, ground)


def _behind(path: str, scope: str, ground: Ground) -> str:
    """Not out of a project: its links were made by whoever wrote it."""
    real, root = os.path.realpath(path), os.path.realpath(ground.root)
    if scope == PROJECT and os.path.commonpath([real, root]) != root:
        raise InvalidInput(
            f"{path} leads out of the project, to {real}",
            why="what is installed in a project changes nothing outside of it",
            hint="replace the link, or install it for all your projects",
        )
    return real


def _root(scope: str, ground: Ground) -> str:
    return ground.root if scope == PROJECT else ""


def _read(path: str) -> str | None:
    if not os.path.lexists(path):
        return None
    return files.read_bounded(path, _LARGEST).decode("utf-8", "surrogateescape")


def _write(change: Change) -> None:
    now = files.read_bounded(change.path, _LARGEST) if os.path.lexists(change.path) else None
    if now != change.before:
        raise ForestayError(
            f"{change.path} was changed by someone else just now", hint="run the command again"
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
            return  # others use it by now


def _made(name: str, scope: str, ground: Ground) -> dict[str, Made]:
    known = recorded(ground.home).installed.get(f"{name}/{scope}/{_root(scope, ground)}", [])
    return {made.path: made for made in known}


def _write_record(home: str, record: Record) -> None:
    path = os.path.join(home, "hooks", _RECORD)
    files.make_private_dir(os.path.dirname(path))
    files.replace(path, msgspec.json.format(msgspec.json.encode(record), indent=1))


def _unreadable(path: str, why: str) -> ForestayError:
    return InvalidInput(
        f"{path} cannot be changed safely", why=why, hint="mend it, then run the command again"
    )
