"""Wire: what agents send to their hooks, and what each event of theirs means. Pure tables.

`KNOWN` has a row for every event of every agent that we know: a function, or `IGNORED` for those
that say nothing new. An event without a row is of a version that we do not know, and is ignored
too. Claude Code set the form: Codex and Qwen speak it with additions, Gemini has other names for
it, opencode its own (`wire_opencode`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from forestay.agents import payloads_opencode
from forestay.agents.hook_event import (
    Heard,
    Todo,
    WrongShape,
    count,
    fields,
    first,
    inside,
    moment,
    name_in,
    needed,
    one_line,
    path_in,
    text,
)
from forestay.agents.tool_calls import (
    SENDS,
    SHELLS,
    Call,
    assignment,
    doing,
    meaning,
    sent_and_back,
)
from forestay.model.event import (
    AgentFailed,
    AgentFinished,
    AgentStarted,
    Body,
    ContextCompressed,
    ContextMeasured,
    ErrorRaised,
    MessageSent,
)

__all__ = ["IGNORED", "KNOWN", "Heard", "Todo", "WrongShape", "hear"]

Row = Callable[[str, dict[str, Any]], Heard | None]

IGNORED: Row | None = None
_ALL = 64 * 1024 * 1024


def hear(agent: str, payload: object, event: str = "") -> Heard | None:
    """What a payload means; None if nothing, WrongShape if it is not what its event is made of.

    `event` is what the hook was registered for, for agents that do not say it in the payload.
    """
    told = fields(payload)
    name = name_in(told, "hook_event_name") or name_in(told, "type") or event[:100]
    row = KNOWN.get((agent, name or payloads_opencode.event_of(told)))
    heard = row(agent, told) if row else None
    return _handed_on(heard) if heard and heard.by and heard.what == "prompt" else heard


def _handed_on(heard: Heard) -> Heard:
    """A prompt for a sub-agent: an agent wrote it, and its user asked for something else."""
    texts = [each.text for each in heard.moves if isinstance(each, MessageSent)]
    return heard.but(what="other", moves=(MessageSent(role="machine", text="\n".join(texts)),))


def _heard(agent: str, told: dict[str, Any], what: str, **more: Any) -> Heard:
    return Heard(
        agent=agent,
        native=needed(told, "session_id"),
        what=what,
        cwd=path_in(told, "cwd"),
        transcript=path_in(told, "transcript_path"),
        by=name_in(told, "agent_id"),
        by_type=name_in(told, "agent_type"),
        at=moment(told.get("timestamp")),
        dated=bool(told.get("prompt_id") or told.get("turn_id") or told.get("timestamp")),
        model=name_in(told, "model"),
        **more,
    )


# -- a session, its prompts and turns ----------------------------------------------------------

_SOURCES = ("startup", "resume", "clear", "compact", "fork")


def _start(agent: str, told: dict[str, Any]) -> Heard:
    source = name_in(told, "source")
    return _heard(agent, told, "start", source=source if source in _SOURCES else "startup")


def _prompt(agent: str, told: dict[str, Any]) -> Heard | None:
    """What was asked; nothing for the empty prompts with which Qwen goes on by itself."""
    if not isinstance(told.get("prompt"), str):
        raise WrongShape("it has no prompt")
    # Of a sub-agent that failed, Claude Code has told by then; of one that was killed it has not.
    deaths = ("killed",) if agent == "claude-code" else _DEATHS
    moves = asked(told["prompt"], deaths)
    return _heard(agent, told, "prompt", moves=moves) if moves else None


_DEATHS = ("failed", "killed")


def asked(prompt: str, deaths: Sequence[str] = _DEATHS) -> tuple[Body, ...]:
    """The messages of a prompt: what a machine put there, and what a user wrote.

    A notice about a sub-agent tells of its death, if it came to an end of that kind.
    """
    machine, own = split(prompt)
    own = own or _typed(machine)
    moves: list[Body] = []
    if machine:
        moves += [MessageSent(role="machine", text=machine), *_noticed(machine, deaths)]
    if own:
        moves.append(MessageSent(role="user", text=own))
    return tuple(moves)


_MACHINES = (
    *("task-notification", "system-reminder", "hook_context", "session_context", "user-prompt-"),
    *("environment_context", "user_instructions", "permissions instructions", "skills_"),
    *("local-command-", "command-", "bash-", "turn_aborted", "user_shell_command"),
    *("subagent_notification", "cross-session-message", "teammate-message"),
)
_BLOCK = re.compile(r"\s*<([a-z][a-z_-]*)(?: [^<>]{0,200})?>.*?</\1>\s*", re.S)


def split(prompt: str) -> tuple[str, str]:
    """Machine text at the beginning of a prompt, and the rest."""
    end = 0
    while (found := _BLOCK.match(prompt, end)) and found[1].startswith(_MACHINES):
        end = found.end()
    return prompt[:end].strip(), prompt[end:].strip()


_COMMAND = re.compile(r"<command-(name|args)>([^<]*)</command-\1>")


def _typed(machine: str) -> str:
    """A command of a user's own as it was typed; one without words is about the agent itself."""
    told = dict(_COMMAND.findall(machine)) if machine.startswith("<command-") else {}
    name, words = told.get("name", "").strip(), told.get("args", "").strip()
    return f"{name} {words}" if words else ""


_NOTICE = re.compile(r"<(task-id|status|summary|subagent_tokens)>([^<]{0,4000})</\1>")


def _noticed(machine: str, deaths: Sequence[str]) -> list[Body]:
    """What a notification about a sub-agent in the background tells of it."""
    if not machine.startswith("<task-notification"):
        return []
    told = dict(reversed(_NOTICE.findall(machine[:8000])))
    agent, tokens = told.get("task-id", "")[:200], told.get("subagent_tokens", "")
    if not agent or not (tokens or told.get("summary", "").startswith("Agent ")):
        return []
    died = told.get("status") in deaths
    failed = [AgentFailed(agent=agent, error=one_line(told.get("summary", "")))] if died else []
    size = count(int(tokens)) if tokens.isdecimal() and len(tokens) < 16 else None
    return [*failed, ContextMeasured(tokens=size, agent=agent)] if size else [*failed]


def _turn_end(agent: str, told: dict[str, Any]) -> Heard:
    last = first(text(told, name, _ALL) for name in ("last_assistant_message", "prompt_response"))
    said = (MessageSent(role="agent", text=last),) if last.strip() else ()
    used = count(told.get("input_tokens")) or 0
    return _heard(agent, told, "turn_end", moves=said, tokens=used)


def _interrupted(agent: str, told: dict[str, Any]) -> Heard:
    return _heard(agent, told, "turn_end", source="interrupt")


_CATEGORIES = {
    "rate_limit": "transient",
    "overloaded": "transient",
    "server_error": "transient",
    "max_output_tokens": "resource",
    "authentication_failed": "configuration",
    "billing_error": "configuration",
    "oauth_org_not_allowed": "configuration",
}


def _failure(agent: str, told: dict[str, Any]) -> Heard:
    """The model could not be asked, or did not answer; a sub-agent dies of it."""
    kind, by = name_in(told, "error"), name_in(told, "agent_id")
    message = first((text(told, "last_assistant_message"), text(told, "error_details"), kind))
    message, category = message or "the model did not answer", _CATEGORIES.get(kind, "logical")
    if by:
        died = AgentFailed(agent=by, error=message, category=category)
        return _heard(agent, told, "agent_stop", moves=(died,), source=kind)
    raised = ErrorRaised(message=message, category=category)
    return _heard(agent, told, "failure", moves=(raised,), source=kind)


def _end(agent: str, told: dict[str, Any]) -> Heard:
    return _heard(agent, told, "end", source=name_in(told, "reason"))


# -- tools -------------------------------------------------------------------------------------


def _before(agent: str, told: dict[str, Any]) -> Heard:
    tool, given = _tool(told), told.get("tool_input")
    return _heard(
        agent,
        told,
        "before",
        key=name_in(told, "tool_use_id"),
        pair=_pair(told),
        doing=doing(tool, given),
        tool=tool,
        task=assignment(tool, given),
    )


def _after(agent: str, told: dict[str, Any]) -> Heard:
    return _answered(agent, told, None)


def _after_failure(agent: str, told: dict[str, Any]) -> Heard:
    wrong = "interrupted" if told.get("is_interrupt") is True else text(told, "error")
    return _answered(agent, told, wrong)


def _answered(agent: str, told: dict[str, Any], error: str | None) -> Heard:
    tool = _tool(told)
    call = Call(
        tool=tool,
        input=told.get("tool_input"),
        response=told.get("tool_response"),
        error=error,
        duration=count(told.get("duration_ms")),
        by=name_in(told, "agent_id"),
        cwd=path_in(told, "cwd"),
        native=needed(told, "session_id"),
        # Codex hands a command's output on, and nothing about how it ended.
        tells_end=agent != "codex" or tool not in SHELLS,
    )
    meant, keys = meaning(call), {"key": name_in(told, "tool_use_id"), "pair": _pair(told)}
    moves = meant.moves or _only_told_here(agent, told, call)
    more: dict[str, Any] = {**keys, "moves": moves, "shell": meant.shell, "todo": meant.todo}
    return _heard(agent, told, "after", tool=call.tool, **more)


def _only_told_here(agent: str, told: dict[str, Any], call: Call) -> tuple[Body, ...]:
    """Gemini has no events for sub-agents: the answer of the call is all there is."""
    if agent != "gemini" or call.tool not in SENDS:
        return ()
    kind = name_in(inside(told, "tool_input"), "agent_name")
    return sent_and_back(call, f"{kind}-{_pair(told)[:6]}-{moment(told.get('timestamp'))}", kind)


def _tool(told: dict[str, Any]) -> str:
    tool, served = needed(told, "tool_name"), told.get("mcp_context")
    if not isinstance(served, dict):
        return tool
    server, name = name_in(served, "server_name"), name_in(served, "tool_name")
    return f"mcp__{server}__{name}" if server and name else tool


def _pair(told: dict[str, Any]) -> str:
    """The id of a call; without one, what was called, and with what."""
    return name_in(told, "tool_use_id") or payloads_opencode.mark(
        needed(told, "tool_name"), told.get("tool_input")
    )


# -- sub-agents and compaction -----------------------------------------------------------------


def _agent_start(agent: str, told: dict[str, Any]) -> Heard:
    began = AgentStarted(agent=needed(told, "agent_id"), type=name_in(told, "agent_type"))
    return _heard(agent, told, "agent_start", moves=(began,))


def _agent_stop(agent: str, told: dict[str, Any]) -> Heard | None:
    """A sub-agent is done; one without a type is the agent's own, that writes a summary."""
    if not name_in(told, "agent_type"):
        return None
    result = text(told, "last_assistant_message")
    done = AgentFinished(agent=needed(told, "agent_id"), result=result)
    return _heard(agent, told, "agent_stop", moves=(done,))


def _compacting(agent: str, told: dict[str, Any]) -> Heard:
    return _heard(agent, told, "compacting", source=name_in(told, "trigger"))


def _compacted(agent: str, told: dict[str, Any]) -> Heard:
    summary = plain_summary(text(told, "compact_summary", _ALL))
    body = ContextCompressed(summary=summary)
    return _heard(agent, told, "compacted", source=name_in(told, "trigger"), moves=(body,))


_THOUGHTS = re.compile(r"\A\s*<analysis>.*?</analysis>\s*", re.S)
_SUMMARY = re.compile(r"\A\s*<summary>(.*?)(?:</summary>.*)?\Z", re.S)


def plain_summary(told: str) -> str:
    """A summary without the thoughts before it and the tags around it."""
    rest = _THOUGHTS.sub("", told)
    found = _SUMMARY.match(rest)
    return (found[1] if found else rest).strip()


# -- the tables --------------------------------------------------------------------------------

_CLAUDE: dict[str, Row | None] = {
    "SessionStart": _start,
    "UserPromptSubmit": _prompt,
    "PreToolUse": _before,
    "PostToolUse": _after,
    "PostToolUseFailure": _after_failure,
    "SubagentStart": _agent_start,
    "SubagentStop": _agent_stop,
    "PreCompact": _compacting,
    "PostCompact": _compacted,
    "Stop": _turn_end,
    "StopFailure": _failure,
    "SessionEnd": _end,
    # Say again what PostToolUse said.
    "PostToolBatch": IGNORED,
    "TaskCreated": IGNORED,
    "TaskCompleted": IGNORED,
    # Whether a tool may run: that it ran, or did not, is told by others.
    "PermissionRequest": IGNORED,
    "PermissionDenied": IGNORED,
    # For people who look away, and about settings.
    "Notification": IGNORED,
    "InstructionsLoaded": IGNORED,
    "ConfigChange": IGNORED,
    "CwdChanged": IGNORED,
}
_CODEX: dict[str, Row | None] = {
    **_CLAUDE,
    "Interrupt": _interrupted,
    "PreModelRequest": IGNORED,
    # Of its older `notify`: Stop says the same.
    "agent-turn-complete": IGNORED,
}
_GEMINI: dict[str, Row | None] = {
    "SessionStart": _start,
    "BeforeAgent": _prompt,
    "BeforeTool": _before,
    "AfterTool": _after,
    "AfterAgent": _turn_end,
    "SessionEnd": _end,
    # Comes with every request, whether anything is compressed or not.
    "PreCompress": IGNORED,
    "BeforeModel": IGNORED,
    "AfterModel": IGNORED,
    "BeforeToolSelection": IGNORED,
    "Notification": IGNORED,
}

KNOWN: dict[tuple[str, str], Row | None] = {
    (agent, event): row
    for agent, rows in (
        ("claude-code", _CLAUDE),
        ("codex", _CODEX),
        ("gemini", _GEMINI),
        ("qwen", _CLAUDE),
        ("opencode", payloads_opencode.ROWS),
    )
    for event, row in rows.items()
}
"""What every event of every agent that we know means."""
