"""Wire: what agents send to their hooks, and what each event of theirs means. Pure tables.

`KNOWN` has a row for every event of every agent that we know: a function, or `IGNORED` for those
that say nothing new. An event without a row is of a version that we do not know, and is ignored
too. Claude Code set the form: Codex and Qwen speak it with additions, Gemini has other names for
it, opencode its own (`payloads_opencode`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from forestay.agents import payloads_opencode
from forestay.agents.hook_event import (
    HookEvent,
    Todo,
    WrongShape,
    first_text,
    name_in,
    object_in,
    one_line,
    parse_count,
    parse_time,
    path_in,
    read_object,
    require_text,
    text_in,
)
from forestay.agents.tool_calls import (
    SENDS,
    SHELLS,
    Call,
    assignment,
    doing,
    parse_call,
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

__all__ = ["IGNORED", "KNOWN", "HookEvent", "Todo", "WrongShape", "parse_payload"]

Row = Callable[[str, dict[str, Any]], HookEvent | None]

IGNORED: Row | None = None
_ALL = 64 * 1024 * 1024


def parse_payload(agent: str, payload: object, event: str = "") -> HookEvent | None:
    """What a payload means; None if nothing, WrongShape if it is not what its event is made of.

    `event` is what the hook was registered for, for agents that do not say it in the payload.
    """
    values = read_object(payload)
    name = name_in(values, "hook_event_name") or name_in(values, "type") or event[:100]
    row = KNOWN.get((agent, name or payloads_opencode.event_of(values)))
    found = row(agent, values) if row else None
    is_for_agent = found is not None and found.by and found.what == "prompt"
    return _mark_as_machine_text(found) if found and is_for_agent else found


def _mark_as_machine_text(hook: HookEvent) -> HookEvent:
    """A prompt for a sub-agent: an agent wrote it, and its user asked for something else."""
    texts = [each.text for each in hook.bodies if isinstance(each, MessageSent)]
    return hook.replaced(what="other", bodies=(MessageSent(role="machine", text="\n".join(texts)),))


def _make_event(agent: str, values: dict[str, Any], what: str, **more: Any) -> HookEvent:
    return HookEvent(
        agent=agent,
        native=require_text(values, "session_id"),
        what=what,
        cwd=path_in(values, "cwd"),
        transcript=path_in(values, "transcript_path"),
        by=name_in(values, "agent_id"),
        by_type=name_in(values, "agent_type"),
        at=parse_time(values.get("timestamp")),
        dated=bool(values.get("prompt_id") or values.get("turn_id") or values.get("timestamp")),
        model=name_in(values, "model"),
        **more,
    )


# -- a session, its prompts and turns ----------------------------------------------------------

_SOURCES = ("startup", "resume", "clear", "compact", "fork")


def _start(agent: str, values: dict[str, Any]) -> HookEvent:
    source = name_in(values, "source")
    return _make_event(agent, values, "start", source=source if source in _SOURCES else "startup")


def _prompt(agent: str, values: dict[str, Any]) -> HookEvent | None:
    """What was asked; nothing for the empty prompts with which Qwen goes on by itself."""
    if not isinstance(values.get("prompt"), str):
        raise WrongShape("it has no prompt")
    # Of a sub-agent that failed, Claude Code has told by then; of one that was killed it has not.
    deaths = ("killed",) if agent == "claude-code" else _DEATHS
    bodies = parse_prompt(values["prompt"], deaths)
    return _make_event(agent, values, "prompt", bodies=bodies) if bodies else None


_DEATHS = ("failed", "killed")


def parse_prompt(prompt: str, deaths: Sequence[str] = _DEATHS) -> tuple[Body, ...]:
    """The messages of a prompt: what a machine put there, and what a user wrote.

    A notice about a sub-agent tells of its death, if it came to an end of that kind.
    """
    machine, own = split_machine_text(prompt)
    own = own or _parse_typed_command(machine)
    bodies: list[Body] = []
    if machine:
        bodies += [MessageSent(role="machine", text=machine), *_parse_agent_notice(machine, deaths)]
    if own:
        bodies.append(MessageSent(role="user", text=own))
    return tuple(bodies)


_MACHINES = (
    *("task-notification", "system-reminder", "hook_context", "session_context", "user-prompt-"),
    *("environment_context", "user_instructions", "permissions instructions", "skills_"),
    *("local-command-", "command-", "bash-", "turn_aborted", "user_shell_command"),
    *("subagent_notification", "cross-session-message", "teammate-message"),
)
_BLOCK = re.compile(r"\s*<([a-z][a-z_-]*)(?: [^<>]{0,200})?>.*?</\1>\s*", re.S)


def split_machine_text(prompt: str) -> tuple[str, str]:
    """Machine text at the beginning of a prompt, and the rest."""
    end = 0
    while (found := _BLOCK.match(prompt, end)) and found[1].startswith(_MACHINES):
        end = found.end()
    return prompt[:end].strip(), prompt[end:].strip()


_COMMAND = re.compile(r"<command-(name|args)>([^<]*)</command-\1>")


def _parse_typed_command(machine: str) -> str:
    """A command of a user's own as it was typed; one without words is about the agent itself."""
    values = dict(_COMMAND.findall(machine)) if machine.startswith("<command-") else {}
    name, words = values.get("name", "").strip(), values.get("args", "").strip()
    return f"{name} {words}" if words else ""


_NOTICE = re.compile(r"<(task-id|status|summary|subagent_tokens)>([^<]{0,4000})</\1>")


def _parse_agent_notice(machine: str, deaths: Sequence[str]) -> list[Body]:
    """What a notification about a sub-agent in the background tells of it."""
    if not machine.startswith("<task-notification"):
        return []
    values = dict(reversed(_NOTICE.findall(machine[:8000])))
    agent, tokens = values.get("task-id", "")[:200], values.get("subagent_tokens", "")
    if not agent or not (tokens or values.get("summary", "").startswith("Agent ")):
        return []
    died = values.get("status") in deaths
    failed = [AgentFailed(agent=agent, error=one_line(values.get("summary", "")))] if died else []
    size = parse_count(int(tokens)) if tokens.isdecimal() and len(tokens) < 16 else None
    return [*failed, ContextMeasured(tokens=size, agent=agent)] if size else [*failed]


def _turn_end(agent: str, values: dict[str, Any]) -> HookEvent:
    last = first_text(
        text_in(values, name, _ALL) for name in ("last_assistant_message", "prompt_response")
    )
    said = (MessageSent(role="agent", text=last),) if last.strip() else ()
    used = parse_count(values.get("input_tokens")) or 0
    return _make_event(agent, values, "turn_end", bodies=said, tokens=used)


def _interrupted(agent: str, values: dict[str, Any]) -> HookEvent:
    return _make_event(agent, values, "turn_end", source="interrupt")


_CATEGORIES = {
    "rate_limit": "transient",
    "overloaded": "transient",
    "server_error": "transient",
    "max_output_tokens": "resource",
    "authentication_failed": "configuration",
    "billing_error": "configuration",
    "oauth_org_not_allowed": "configuration",
}


def _failure(agent: str, values: dict[str, Any]) -> HookEvent:
    """The model could not be asked, or did not answer; a sub-agent dies of it."""
    kind, by = name_in(values, "error"), name_in(values, "agent_id")
    message = first_text(
        (text_in(values, "last_assistant_message"), text_in(values, "error_details"), kind)
    )
    message, category = message or "the model did not answer", _CATEGORIES.get(kind, "logical")
    if by:
        died = AgentFailed(agent=by, error=message, category=category)
        return _make_event(agent, values, "agent_stop", bodies=(died,), source=kind)
    raised = ErrorRaised(message=message, category=category)
    return _make_event(agent, values, "failure", bodies=(raised,), source=kind)


def _end(agent: str, values: dict[str, Any]) -> HookEvent:
    return _make_event(agent, values, "end", source=name_in(values, "reason"))


# -- tools -------------------------------------------------------------------------------------


def _before(agent: str, values: dict[str, Any]) -> HookEvent:
    tool, given = _tool(values), values.get("tool_input")
    return _make_event(
        agent,
        values,
        "before",
        key=name_in(values, "tool_use_id"),
        pair=_pair(values),
        doing=doing(tool, given),
        tool=tool,
        task=assignment(tool, given),
    )


def _after(agent: str, values: dict[str, Any]) -> HookEvent:
    return _parse_answer(agent, values, None)


def _after_failure(agent: str, values: dict[str, Any]) -> HookEvent:
    wrong = "interrupted" if values.get("is_interrupt") is True else text_in(values, "error")
    return _parse_answer(agent, values, wrong)


def _parse_answer(agent: str, values: dict[str, Any], error: str | None) -> HookEvent:
    tool = _tool(values)
    call = Call(
        tool=tool,
        input=values.get("tool_input"),
        response=values.get("tool_response"),
        error=error,
        duration=parse_count(values.get("duration_ms")),
        by=name_in(values, "agent_id"),
        cwd=path_in(values, "cwd"),
        native=require_text(values, "session_id"),
        # Codex hands a command's output on, and nothing about how it ended.
        tells_end=agent != "codex" or tool not in SHELLS,
    )
    meant, keys = parse_call(call), {"key": name_in(values, "tool_use_id"), "pair": _pair(values)}
    bodies = meant.bodies or _agent_call_bodies(agent, values, call)
    more: dict[str, Any] = {**keys, "bodies": bodies, "shell": meant.shell, "todo": meant.todo}
    return _make_event(agent, values, "after", tool=call.tool, **more)


def _agent_call_bodies(agent: str, values: dict[str, Any], call: Call) -> tuple[Body, ...]:
    """Gemini has no events for sub-agents: the answer of the call is all there is."""
    if agent != "gemini" or call.tool not in SENDS:
        return ()
    kind = name_in(object_in(values, "tool_input"), "agent_name")
    return sent_and_back(
        call, f"{kind}-{_pair(values)[:6]}-{parse_time(values.get('timestamp'))}", kind
    )


def _tool(values: dict[str, Any]) -> str:
    tool, served = require_text(values, "tool_name"), values.get("mcp_context")
    if not isinstance(served, dict):
        return tool
    server, name = name_in(served, "server_name"), name_in(served, "tool_name")
    return f"mcp__{server}__{name}" if server and name else tool


def _pair(values: dict[str, Any]) -> str:
    """The id of a call; without one, what was called, and with what."""
    return name_in(values, "tool_use_id") or payloads_opencode.mark(
        require_text(values, "tool_name"), values.get("tool_input")
    )


# -- sub-agents and compaction -----------------------------------------------------------------


def _agent_start(agent: str, values: dict[str, Any]) -> HookEvent:
    began = AgentStarted(agent=require_text(values, "agent_id"), type=name_in(values, "agent_type"))
    return _make_event(agent, values, "agent_start", bodies=(began,))


def _agent_stop(agent: str, values: dict[str, Any]) -> HookEvent | None:
    """A sub-agent is done; one without a type is the agent's own, that writes a summary."""
    if not name_in(values, "agent_type"):
        return None
    result = text_in(values, "last_assistant_message")
    done = AgentFinished(agent=require_text(values, "agent_id"), result=result)
    return _make_event(agent, values, "agent_stop", bodies=(done,))


def _compacting(agent: str, values: dict[str, Any]) -> HookEvent:
    return _make_event(agent, values, "compacting", source=name_in(values, "trigger"))


def _compacted(agent: str, values: dict[str, Any]) -> HookEvent:
    summary = plain_summary(text_in(values, "compact_summary", _ALL))
    body = ContextCompressed(summary=summary)
    return _make_event(
        agent, values, "compacted", source=name_in(values, "trigger"), bodies=(body,)
    )


_THOUGHTS = re.compile(r"\A\s*<analysis>.*?</analysis>\s*", re.S)
_SUMMARY = re.compile(r"\A\s*<summary>(.*?)(?:</summary>.*)?\Z", re.S)


def plain_summary(values: str) -> str:
    """A summary without the thoughts before it and the tags around it."""
    rest = _THOUGHTS.sub("", values)
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
