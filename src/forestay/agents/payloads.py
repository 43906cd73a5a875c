"""Parse the payloads that agents send to their hooks. Pure tables and functions.

`KNOWN` has a row for every known event of every agent: a function, or `IGNORED` for events that
add nothing. An event without a row comes from a newer version and is ignored too. Codex and Qwen
use the payloads of Claude Code with additions, Gemini has other names for the same, opencode has
its own form (`payloads_opencode`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

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
from forestay.model import event as ev

__all__ = ["IGNORED", "KNOWN", "HookEvent", "Todo", "WrongShape", "parse_payload"]

Row = Callable[[str, dict[str, Any]], HookEvent | None]

IGNORED: Row | None = None
_ALL = 64 * 1024 * 1024


def parse_payload(agent: str, payload: object, event: str = "") -> HookEvent | None:
    """Return the event of a payload, None if it is ignored; raise `WrongShape` if it lacks a field.

    `event` is the event the hook is registered for, used if the payload does not name it.
    """
    values = read_object(payload)
    name = name_in(values, "hook_event_name") or name_in(values, "type") or event[:100]
    row = KNOWN.get((agent, name or payloads_opencode.event_of(values)))
    found = row(agent, values) if row else None
    if found is None or not found.by or found.what != "prompt":
        return found
    # The prompt of a sub-agent was written by an agent, not by the user.
    texts = [each.text for each in found.bodies if isinstance(each, ev.MessageSent)]
    machine = ev.MessageSent(role="machine", text="\n".join(texts))
    return replace(found, what="other", bodies=(machine,))


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
    """Return the prompt; None for the empty prompts that Qwen sends to continue on its own."""
    if not isinstance(values.get("prompt"), str):
        raise WrongShape("the payload has no prompt")
    # Claude Code has already reported failed sub-agents by another event, but not killed ones.
    deaths = ("killed",) if agent == "claude-code" else _DEATHS
    bodies = parse_prompt(values["prompt"], deaths)
    return _make_event(agent, values, "prompt", bodies=bodies) if bodies else None


_DEATHS = ("failed", "killed")


def parse_prompt(prompt: str, deaths: Sequence[str] = _DEATHS) -> tuple[ev.Body, ...]:
    """Return the messages of a prompt: machine text and what the user wrote.

    A notice about a sub-agent whose status is in `deaths` is recorded as its failure.
    """
    machine, own = split_machine_text(prompt)
    own = own or _parse_typed_command(machine)
    bodies: list[ev.Body] = []
    if machine:
        bodies.append(ev.MessageSent(role="machine", text=machine))
        bodies += _parse_agent_notice(machine, deaths)
    if own:
        bodies.append(ev.MessageSent(role="user", text=own))
    return tuple(bodies)


_MACHINES = (
    *("task-notification", "system-reminder", "hook_context", "session_context", "user-prompt-"),
    *("environment_context", "user_instructions", "permissions instructions", "skills_"),
    *("local-command-", "command-", "bash-", "turn_aborted", "user_shell_command"),
    *("subagent_notification", "cross-session-message", "teammate-message"),
)
_BLOCK = re.compile(r"\s*<([a-z][a-z_-]*)(?: [^<>]{0,200})?>.*?</\1>\s*", re.S)


def split_machine_text(prompt: str) -> tuple[str, str]:
    """Split a prompt into the machine text at its beginning and the rest."""
    end = 0
    while (found := _BLOCK.match(prompt, end)) and found[1].startswith(_MACHINES):
        end = found.end()
    return prompt[:end].strip(), prompt[end:].strip()


_COMMAND = re.compile(r"<command-(name|args)>([^<]*)</command-\1>")


def _parse_typed_command(machine: str) -> str:
    """Return a slash command with its arguments; one without arguments controls the agent."""
    values = dict(_COMMAND.findall(machine)) if machine.startswith("<command-") else {}
    name, words = values.get("name", "").strip(), values.get("args", "").strip()
    return f"{name} {words}" if words else ""


_NOTICE = re.compile(r"<(task-id|status|summary|subagent_tokens)>([^<]{0,4000})</\1>")


def _parse_agent_notice(machine: str, deaths: Sequence[str]) -> list[ev.Body]:
    """Return the events in a notification about a background sub-agent."""
    if not machine.startswith("<task-notification"):
        return []
    values = dict(reversed(_NOTICE.findall(machine[:8000])))
    agent, tokens = values.get("task-id", "")[:200], values.get("subagent_tokens", "")
    if not agent or not (tokens or values.get("summary", "").startswith("Agent ")):
        return []
    found: list[ev.Body] = []
    if values.get("status") in deaths:
        found.append(ev.AgentFailed(agent=agent, error=one_line(values.get("summary", ""))))
    if size := parse_count(int(tokens)) if tokens.isdecimal() and len(tokens) < 16 else None:
        found.append(ev.ContextMeasured(tokens=size, agent=agent))
    return found


def _turn_end(agent: str, values: dict[str, Any]) -> HookEvent:
    names = ("last_assistant_message", "prompt_response")
    last = first_text(text_in(values, name, _ALL) for name in names)
    messages = (ev.MessageSent(role="agent", text=last),) if last.strip() else ()
    used = parse_count(values.get("input_tokens")) or 0
    return _make_event(agent, values, "turn_end", bodies=messages, tokens=used)


def _interrupted(agent: str, values: dict[str, Any]) -> HookEvent:
    return _make_event(agent, values, "turn_end", source="interrupt")


_CATEGORIES = {
    **dict.fromkeys(("rate_limit", "overloaded", "server_error"), "transient"),
    "max_output_tokens": "resource",
    **dict.fromkeys(("authentication_failed", "billing_error"), "configuration"),
    "oauth_org_not_allowed": "configuration",
}


def _failure(agent: str, values: dict[str, Any]) -> HookEvent:
    """Return a failed model request; it ends a sub-agent."""
    kind, by = name_in(values, "error"), name_in(values, "agent_id")
    message = first_text(
        (text_in(values, "last_assistant_message"), text_in(values, "error_details"), kind)
    )
    message, category = message or "the model did not answer", _CATEGORIES.get(kind, "logical")
    if by:
        died = ev.AgentFailed(agent=by, error=message, category=category)
        return _make_event(agent, values, "agent_stop", bodies=(died,), source=kind)
    raised = ev.ErrorRaised(message=message, category=category)
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
        # Codex passes on the output of a command, but not its exit code.
        tells_end=agent != "codex" or tool not in SHELLS,
    )
    effects, pair = parse_call(call), _pair(values)
    bodies = effects.bodies
    if not bodies and agent == "gemini" and tool in SENDS:
        # This agent has no events for sub-agents: only the call reports their start and end.
        kind, at = name_in(object_in(values, "tool_input"), "agent_name"), values.get("timestamp")
        bodies = sent_and_back(call, f"{kind}-{pair[:6]}-{parse_time(at)}", kind)
    more: dict[str, Any] = {"bodies": bodies, "shell": effects.shell, "todo": effects.todo}
    key = name_in(values, "tool_use_id")
    return _make_event(agent, values, "after", key=key, pair=pair, tool=tool, **more)


def _tool(values: dict[str, Any]) -> str:
    tool, served = require_text(values, "tool_name"), values.get("mcp_context")
    if not isinstance(served, dict):
        return tool
    server, name = name_in(served, "server_name"), name_in(served, "tool_name")
    return f"mcp__{server}__{name}" if server and name else tool


def _pair(values: dict[str, Any]) -> str:
    """Return the id of a call, or one made from the tool and its input."""
    return name_in(values, "tool_use_id") or payloads_opencode.mark(
        require_text(values, "tool_name"), values.get("tool_input")
    )


# -- sub-agents and compaction -----------------------------------------------------------------


def _agent_start(agent: str, values: dict[str, Any]) -> HookEvent:
    id, kind = require_text(values, "agent_id"), name_in(values, "agent_type")
    began = ev.AgentStarted(agent=id, type=kind)
    return _make_event(agent, values, "agent_start", bodies=(began,))


def _agent_stop(agent: str, values: dict[str, Any]) -> HookEvent | None:
    """Return the end of a sub-agent; one without a type is the agent writing its own summary."""
    if not name_in(values, "agent_type"):
        return None
    result = text_in(values, "last_assistant_message")
    done = ev.AgentFinished(agent=require_text(values, "agent_id"), result=result)
    return _make_event(agent, values, "agent_stop", bodies=(done,))


def _compacting(agent: str, values: dict[str, Any]) -> HookEvent:
    return _make_event(agent, values, "compacting", source=name_in(values, "trigger"))


def _compacted(agent: str, values: dict[str, Any]) -> HookEvent:
    summary = plain_summary(text_in(values, "compact_summary", _ALL))
    body, source = ev.ContextCompressed(summary=summary), name_in(values, "trigger")
    return _make_event(agent, values, "compacted", source=source, bodies=(body,))


_THOUGHTS = re.compile(r"\A\s*<analysis>.*?</analysis>\s*", re.S)
_SUMMARY = re.compile(r"\A\s*<summary>(.*?)(?:</summary>.*)?\Z", re.S)


def plain_summary(summary: str) -> str:
    """Return a compaction summary without its analysis and its tags."""
    rest = _THOUGHTS.sub("", summary)
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
    # These repeat PostToolUse.
    **dict.fromkeys(("PostToolBatch", "TaskCreated", "TaskCompleted"), IGNORED),
    # Permission requests: other events report whether the tool ran.
    **dict.fromkeys(("PermissionRequest", "PermissionDenied"), IGNORED),
    # Notifications for the user, and changes of settings.
    **dict.fromkeys(("Notification", "InstructionsLoaded"), IGNORED),
    **dict.fromkeys(("ConfigChange", "CwdChanged"), IGNORED),
}
_CODEX: dict[str, Row | None] = {
    **_CLAUDE,
    "Interrupt": _interrupted,
    "PreModelRequest": IGNORED,
    # From the older `notify` setting; Stop reports the same.
    "agent-turn-complete": IGNORED,
}
_GEMINI: dict[str, Row | None] = {
    "SessionStart": _start,
    "BeforeAgent": _prompt,
    "BeforeTool": _before,
    "AfterTool": _after,
    "AfterAgent": _turn_end,
    "SessionEnd": _end,
    # Sent with every request, whether anything is compressed or not.
    "PreCompress": IGNORED,
    **dict.fromkeys(("BeforeModel", "AfterModel", "BeforeToolSelection"), IGNORED),
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
"""How to parse each known event of each agent."""
