"""Start each real agent in isolation, connected to its scripted model.

A client holds four things that differ between agents: the program, the environment and settings
with which it uses a scripted model, the arguments of one session, and the names of its tools.
Each runs with only the environment variables listed here, in a new home; requests to other hosts
fail.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.real_agents.model import Step

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".tools" / "agents"
FORESTAY = ROOT / ".venv" / "bin" / "forestay"
KEY = "sk-ant-scripted-0000"

# Nothing listens there: a request that is not for the loopback fails at once.
FENCE = {
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "NO_PROXY": "127.0.0.1,localhost",
    "npm_config_offline": "true",
    "npm_config_fetch_retries": "0",
}


@dataclass(frozen=True)
class Place:
    """Hold where a session runs: a home, a project in it, and the model's address."""

    home: Path
    project: Path
    model: str

    def write(self, name: str, text: str) -> None:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        places = [self.home / "bin", _node().parent, "/usr/local/bin", "/usr/bin", "/bin"]
        path = os.pathsep.join(str(each) for each in places)
        return {"PATH": path, "HOME": str(self.home), "TERM": "xterm-256color", **FENCE, **extra}

    def forestay(self, *arguments: str) -> str:
        """Run `forestay` as this home's user would in the project, and return its output."""
        done = subprocess.run(
            [str(FORESTAY), *arguments],
            cwd=self.project,
            env=self.environment({}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, f"forestay {arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def ignored_payloads(self) -> list[str]:
        """Return why payloads were ignored, and the names of files that are not payloads."""
        home = self.home / ".local" / "share" / "forestay"
        with closing(sqlite3.connect(home / "forestay.db")) as database:
            reasons = [row[0] for row in database.execute("SELECT what FROM tally")]
        why = [each for each in reasons if "of no interest" not in each]
        return why + [each.name for each in (home / "spool" / "bad").glob("*")]


@dataclass(frozen=True)
class Tools:
    """Build the agent's tool calls for the steps of a script."""

    shell: Callable[[str], Step]
    write: Callable[[Path, str], Step]
    edit: Callable[[Path, str, str], Step]
    mcp: Callable[[str, dict[str, Any]], Step]
    delegate: Callable[[str], Step]
    report: Callable[[str], Step] = lambda text: Step(text=text)
    """The last step of a sub-agent."""


@dataclass(frozen=True)
class Client:
    """Describe an agent: `name` as in `forestay install`, `program` a pattern in .tools/agents."""

    name: str
    program: str
    tools: Tools
    variables: Callable[[Place], dict[str, str]]
    settings: Callable[[Place], None]
    arguments: Callable[[str], list[str]]

    def executable(self) -> Path | None:
        return next(iter(sorted((TOOLS / self.name).glob(self.program))), None)

    def command(self, *arguments: str) -> list[str]:
        path = self.executable()
        assert path is not None
        return [str(path), *arguments]

    def call(self, place: Place, *arguments: str, seconds: float = 60) -> str:
        """Run one of the agent's commands, such as `mcp list`, and return its output."""
        done = subprocess.run(
            self.command(*arguments),
            cwd=place.project,
            env=place.environment(self.variables(place)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
        )
        return done.stdout

    def start(self, place: Place, prompt: str) -> Run:
        output = place.home / f"output-{time.monotonic_ns()}.txt"
        with output.open("wb") as out:
            process = subprocess.Popen(
                self.command(*self.arguments(prompt)),
                cwd=place.project,
                env=place.environment(self.variables(place)),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return Run(process, output)


@dataclass(frozen=True)
class Run:
    """Control a running session, which is the leader of a new process group."""

    process: subprocess.Popen[bytes]
    output: Path

    def read_output(self) -> str:
        return self.output.read_text(errors="replace")

    def wait(self, seconds: float = 120) -> str:
        """Wait until it ends, and return its output."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(
                f"still running after {seconds} s:\n{self.read_output()[-4000:]}"
            ) from None
        return self.read_output()

    def wait_for(self, path: Path, seconds: float = 120) -> None:
        """Wait until `path` exists, which one of the scripted commands makes."""
        end = time.monotonic() + seconds
        while not path.exists():
            if self.process.poll() is not None or time.monotonic() > end:
                self.kill()
                raise AssertionError(f"{path.name} was never made:\n{self.read_output()[-4000:]}")
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill the group without warning, as the kernel does when memory is short."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(10)


def _node() -> Path:
    return next(iter(sorted((TOOLS / "node").glob("node_modules/node-*/bin/node"))), Path("node"))


def _write_no_settings(_: Place) -> None:
    """Write no settings: the environment suffices."""


# --- Claude Code -----------------------------------------------------------------------------

_CLAUDE_TOOLS = Tools(
    shell=lambda command: Step(tool="Bash", args={"command": command, "description": "run it"}),
    write=lambda path, text: Step(tool="Write", args={"file_path": str(path), "content": text}),
    edit=lambda path, old, new: Step(
        tool="Edit", args={"file_path": str(path), "old_string": old, "new_string": new}
    ),
    mcp=lambda name, args: Step(tool=f"mcp__forestay__{name}", args=args),
    delegate=lambda prompt: Step(
        tool="Agent",
        args={"description": "a part", "subagent_type": "general-purpose", "prompt": prompt},
    ),
)


def _claude_variables(place: Place) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": place.model,
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


def _claude_settings(place: Place) -> None:
    """Store the answers to the questions of a first start."""
    trust = {str(place.project): {"hasTrustDialogAccepted": True}}
    answers = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
        "projects": trust,
    }
    place.write(".claude.json", json.dumps(answers))


def _claude_arguments(prompt: str) -> list[str]:
    allowed = ["Bash", "Write", "Edit", "Agent", "mcp__forestay"]
    form = ["--output-format", "stream-json", "--verbose", "--include-hook-events"]
    return ["-p", prompt, *form, "--allowedTools", *allowed]


CLAUDE = Client(
    name="claude-code",
    program="node_modules/@anthropic-ai/claude-code-*/claude",
    tools=_CLAUDE_TOOLS,
    variables=_claude_variables,
    settings=_claude_settings,
    arguments=_claude_arguments,
)


# --- Codex -----------------------------------------------------------------------------------


def _patch(path: Path, lines: Sequence[str], verb: str) -> Step:
    text = "\n".join(["*** Begin Patch", f"*** {verb} File: {path}", *lines, "*** End Patch"])
    return Step(tool="apply_patch", args=text + "\n")


def _codex_shell(command: str) -> Step:
    return Step(tool="exec_command", args={"cmd": command, "yield_time_ms": 30_000})


_CODEX_TOOLS = Tools(
    shell=_codex_shell,
    write=lambda path, text: _patch(path, ["+" + line for line in text.splitlines()], "Add"),
    edit=lambda path, old, new: _patch(path, ["@@", f"-{old}", f"+{new}"], "Update"),
    mcp=lambda name, args: Step(tool=name, namespace="mcp__forestay", args=args),
    delegate=lambda prompt: Step(
        tool="spawn_agent", namespace="multi_agent_v1", args={"message": prompt}
    ),
)


# Codex offers its tool for patches to models it knows by name.
_KNOWN_TO_CODEX = "gpt-5.5"


def _codex_settings(place: Place) -> None:
    """Allow servers time to start: a turn begins without the tools of a server that is late."""
    place.write(
        ".codex/config.toml",
        f"""# kept by hand
model = "{_KNOWN_TO_CODEX}"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"
mcp_optional_startup_grace_ms = 20000

[model_providers.scripted]
name = "scripted"
base_url = "{place.model}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
""",
    )


# The user's answer to "Hooks need review", for this one session: an agent without a terminal
# does not ask, and the tests must not write its record of trust.
_CODEX_TRUST = "--dangerously-bypass-hook-trust"

CODEX = Client(
    name="codex",
    program="node_modules/@openai/codex-*/vendor/*/bin/codex",
    tools=_CODEX_TOOLS,
    variables=lambda place: {"SCRIPTED_KEY": "scripted"},
    settings=_codex_settings,
    arguments=lambda prompt: ["exec", _CODEX_TRUST, "--skip-git-repo-check", "--json", prompt],
)


# --- Gemini CLI ------------------------------------------------------------------------------

_GEMINI_TOOLS = Tools(
    shell=lambda command: Step(
        tool="run_shell_command", args={"command": command, "description": "run it"}
    ),
    write=lambda path, text: Step(
        tool="write_file", args={"file_path": str(path), "content": text}
    ),
    edit=lambda path, old, new: Step(
        tool="replace",
        args={
            "file_path": str(path),
            "instruction": "change it",
            "old_string": old,
            "new_string": new,
        },
    ),
    mcp=lambda name, args: Step(tool=f"mcp_forestay_{name}", args=args),
    delegate=lambda prompt: Step(
        tool="invoke_agent", args={"agent_name": "generalist", "prompt": prompt}
    ),
    report=lambda text: Step(tool="complete_task", args={"result": {"response": text}}),
)


def _gemini_settings(place: Place) -> None:
    auth = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    place.write(".gemini/settings.json", json.dumps(auth, indent=2) + "\n")
    place.write(".gemini/trustedFolders.json", json.dumps({str(place.project): "TRUST_FOLDER"}))


GEMINI = Client(
    name="gemini",
    program="node_modules/.bin/gemini",
    tools=_GEMINI_TOOLS,
    variables=lambda place: {
        "GEMINI_API_KEY": "scripted",
        "GOOGLE_GEMINI_BASE_URL": place.model,
    },
    settings=_gemini_settings,
    arguments=lambda prompt: ["-p", prompt, "--yolo", "-o", "stream-json"],
)


# --- opencode --------------------------------------------------------------------------------

_OPENCODE_TOOLS = Tools(
    shell=lambda command: Step(tool="bash", args={"command": command, "description": "run it"}),
    write=lambda path, text: Step(tool="write", args={"filePath": str(path), "content": text}),
    edit=lambda path, old, new: Step(
        tool="edit", args={"filePath": str(path), "oldString": old, "newString": new}
    ),
    mcp=lambda name, args: Step(tool=f"forestay_{name}", args=args),
    delegate=lambda prompt: Step(
        tool="task",
        args={"description": "a part", "subagent_type": "general", "prompt": prompt},
    ),
)


def _opencode_settings(place: Place) -> None:
    limits = {"context": 100_000, "output": 8_000}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Scripted",
        "options": {"baseURL": f"{place.model}/v1", "apiKey": "scripted"},
        "models": {"scripted": {"name": "Scripted", "limit": limits}},
    }
    settings = {
        "model": "scripted/scripted",
        "small_model": "scripted/scripted",
        "autoupdate": False,
        "provider": {"scripted": provider},
    }
    place.write(".config/opencode/opencode.json", json.dumps(settings, indent=2) + "\n")


OPENCODE = Client(
    name="opencode",
    program="node_modules/opencode-*-*/bin/opencode",
    tools=_OPENCODE_TOOLS,
    variables=lambda place: {
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
    },
    settings=_opencode_settings,
    arguments=lambda prompt: ["run", prompt, "--format", "json"],
)


# --- Qwen Code -------------------------------------------------------------------------------

_QWEN_TOOLS = Tools(
    shell=lambda command: Step(
        tool="run_shell_command",
        args={"command": command, "description": "run it", "is_background": False},
    ),
    write=lambda path, text: Step(
        tool="write_file", args={"file_path": str(path), "content": text}
    ),
    edit=lambda path, old, new: Step(
        tool="edit", args={"file_path": str(path), "old_string": old, "new_string": new}
    ),
    mcp=lambda name, args: Step(tool=f"mcp__forestay__{name}", args=args),
    delegate=lambda prompt: Step(
        tool="agent",
        args={"description": "a part", "subagent_type": "general-purpose", "prompt": prompt},
    ),
)


def _qwen_settings(place: Place) -> None:
    auth = {"security": {"auth": {"selectedType": "openai"}}}
    place.write(".qwen/settings.json", json.dumps(auth, indent=2) + "\n")


QWEN = Client(
    name="qwen",
    program="node_modules/.bin/qwen",
    tools=_QWEN_TOOLS,
    variables=lambda place: {
        "OPENAI_API_KEY": "scripted",
        "OPENAI_BASE_URL": f"{place.model}/v1",
        "OPENAI_MODEL": "scripted",
    },
    settings=_qwen_settings,
    arguments=lambda prompt: ["-p", prompt, "--yolo", "-o", "stream-json"],
)

CLIENTS = (CLAUDE, CODEX, GEMINI, OPENCODE, QWEN)
