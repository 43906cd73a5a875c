"""The supported agents: where each has its settings, and which of its events we record.

Facts only, one row per agent. A *place* is a file in one *scope*: of the user (all projects) or of
one project. `events` are the registered ones, no more: each costs the agent a few milliseconds. An
agent without hooks of a known form gets the MCP server and a block in AGENTS.md instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

USER, PROJECT = "user", "project"
SCOPES = (USER, PROJECT)
SCRIPT = "forestay-hook"
"""Name of the script that hooks run. Our entries in a settings file are found by it."""
SERVER = "forestay"
"""Name of our MCP server in every agent's settings."""

_CLAUDE = (
    *("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure"),
    *("SubagentStart", "SubagentStop", "PreCompact", "PostCompact"),
    *("Stop", "StopFailure", "SessionEnd"),
)
_CODEX = tuple(event for event in _CLAUDE if not event.endswith("Failure"))
_GEMINI = ("SessionStart", "BeforeAgent", "BeforeTool", "AfterTool", "AfterAgent", "SessionEnd")
_QWEN = tuple(event for event in _CLAUDE if event not in ("PostCompact", "StopFailure"))


class Place(NamedTuple):
    """A file of an agent: its path below the user's home folder, and below a project."""

    user: str
    project: str
    variable: str = ""
    """The variable that replaces the first part of `user`, if it is set."""

    def path(self, scope: str, environ: Mapping[str, str], user_home: str, root: str) -> str:
        if scope == PROJECT:
            return f"{root}/{self.project}"
        _, _, rest = self.user.partition("/")
        moved = environ.get(self.variable, "") if self.variable else ""
        return f"{moved}/{rest}" if moved.startswith("/") else f"{user_home}/{self.user}"


class Agent(NamedTuple):
    title: str
    events: tuple[str, ...] = ()
    hooks: Place | None = None
    exec_form: bool = False
    """Whether a hook can be a program with arguments; else it is a shell command."""
    named: bool = False
    """Whether a hook can have a name; other agents refuse unknown keys."""
    second: int = 1
    """Units of a timeout per second: 1, or 1,000 for milliseconds."""
    servers: Place | None = None
    """Where MCP servers are listed, under `servers_key`."""
    servers_key: str = "mcpServers"
    plugin: Place | None = None
    """Where our plugin goes, for agents that load plugins instead of hooks."""
    reads_agents_md: bool = False
    """Whether it uses AGENTS.md only, without hooks."""
    trust: str = ""
    """What the user must do before the agent runs the hooks of Forestay."""

    def seconds(self, event: str) -> int:
        """Return the time limit of a hook; at the start the agent waits for a briefing."""
        if event == "SessionStart":
            return 30
        # Codex allows no more, and warns at every start if a hook asks for more.
        return 3 if event == "SessionEnd" else 10


AGENTS = {
    "claude-code": Agent(
        "Claude Code",
        _CLAUDE,
        # Not the shared settings.json of a project: the script exists on this machine only.
        Place(".claude/settings.json", ".claude/settings.local.json", "CLAUDE_CONFIG_DIR"),
        exec_form=True,
        servers=Place(".claude.json", ".mcp.json"),
        trust="it asks once whether you trust a new folder; hooks run after that",
    ),
    "codex": Agent(
        "Codex",
        _CODEX,
        Place(".codex/hooks.json", ".codex/hooks.json", "CODEX_HOME"),
        servers=Place(".codex/config.toml", ".codex/config.toml", "CODEX_HOME"),
        servers_key="mcp_servers",
        trust="open codex, type /hooks and trust the hooks of forestay; until then none runs",
    ),
    "gemini": Agent(
        "Gemini CLI",
        _GEMINI,
        Place(".gemini/settings.json", ".gemini/settings.json"),
        named=True,
        second=1000,
        servers=Place(".gemini/settings.json", ".gemini/settings.json"),
        trust="it asks once whether you trust a new folder; hooks run after that",
    ),
    "opencode": Agent(
        "opencode",
        plugin=Place(".config/opencode/plugin/forestay.js", ".opencode/plugin/forestay.js"),
        servers=Place(".config/opencode/opencode.json", "opencode.json"),
        servers_key="mcp",
    ),
    "qwen": Agent(
        "Qwen Code",
        _QWEN,
        Place(".qwen/settings.json", ".qwen/settings.json"),
        named=True,
        second=1000,
        servers=Place(".qwen/settings.json", ".qwen/settings.json"),
        trust="it asks once whether you trust a new folder; hooks run after that",
    ),
    "cursor": Agent(
        "Cursor", servers=Place(".cursor/mcp.json", ".cursor/mcp.json"), reads_agents_md=True
    ),
    "agents-md": Agent("agents that read AGENTS.md", reads_agents_md=True),
}
