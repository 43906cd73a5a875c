"""Transcripts of Claude Code: one JSON object per line, sub-agents in separate files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from forestay.agents.hook_event import (
    HookEvent,
    first_text,
    name_in,
    object_in,
    objects_in,
    parse_count,
    parse_time,
    path_in,
    text_in,
)
from forestay.agents.payloads import parse_prompt, plain_summary
from forestay.agents.tool_calls import SENDS, Call, Effects, assignment, failure, parse_call, words
from forestay.agents.transcripts.reader import Reader, Record, texts
from forestay.model import event as ev

_LONG = 64 * 1024 * 1024
_QUIET = frozenset(
    """
    agent-name agent-setting ai-title api-request api-request-blob api-request-shape atis-latch
    attribution-snapshot cost-state custom-title file-history-snapshot last-prompt mode pr-link
    progress queue-operation speculation-accept summary system tag task-summary tools-used
    worktree-state marble-origami-commit permission-mode content-replacement
    """.split()
)
"""Types of records that are skipped: about the program itself, or repeating other records."""


class ClaudeReader(Reader):
    """Parses transcripts of Claude Code.

    `agents` maps calls to the sub-agents they started, as small files next to a transcript record.
    """

    agent = "claude-code"

    def __init__(self, *, agents: Mapping[str, str] | None = None, **known: str) -> None:
        super().__init__(**known)
        self._agents = agents or {}

    def parse_record(self, record: Record) -> Iterator[HookEvent]:
        kind = name_in(record, "type")
        self.native = self.native or name_in(record, "sessionId")
        self.cwd = self.cwd or path_in(record, "cwd")
        self.branch = name_in(record, "gitBranch") or self.branch
        at = parse_time(record.get("timestamp"))
        if kind == "user":
            yield from self._user(record, at)
        elif kind == "assistant":
            yield from self._assistant(record, at)
        elif kind == "attachment":
            yield from self._attached(object_in(record, "attachment"), record, at)
        elif kind not in _QUIET:
            self.count_unknown(kind or "no type")

    def _who(self, record: Record) -> str:
        """Return the sub-agent of a record; older versions wrote them into the main transcript."""
        return self.by or (name_in(record, "agentId") if record.get("isSidechain") is True else "")

    # -- input ---------------------------------------------------------------------------------

    def _user(self, record: Record, at: int) -> Iterator[HookEvent]:
        content, key = object_in(record, "message").get("content"), name_in(record, "uuid")
        for part in objects_in({"parts": content}, "parts"):
            if part.get("type") == "tool_result":
                yield from self._result(part, record, at)
        content = "\n".join(texts(content)).strip()
        if record.get("isCompactSummary") is True:
            body = ev.ContextCompressed(summary=plain_summary(content))
            yield self.make_event("compacted", at, key=key, bodies=(body,))
        elif content and not (
            record.get("isMeta") is True
            or self._who(record)
            or content.startswith("[Request interrupted")
        ):
            yield self.make_event("prompt", at, key=key, bodies=parse_prompt(content))

    def _attached(self, attached: Record, record: Record, at: int) -> Iterator[HookEvent]:
        """Yield a prompt that was queued while the agent was working."""
        content = text_in(attached, "prompt", _LONG)
        if attached.get("type") == "queued_command" and content.strip() and not self._who(record):
            yield self.make_event(
                "prompt", at, key=name_in(record, "uuid"), bodies=parse_prompt(content)
            )

    def _result(self, part: Record, record: Record, at: int) -> Iterator[HookEvent]:
        reported, content = record.get("toolUseResult"), "\n".join(texts(part.get("content")))
        error = content if part.get("is_error") is True else None
        response = reported if isinstance(reported, dict) else content
        more: dict[str, Any] = {"response": response, "error": error, "by": self._who(record)}
        yield from self.answer(name_in(part, "tool_use_id"), at, **more)

    # -- output --------------------------------------------------------------------------------

    def _assistant(self, record: Record, at: int) -> Iterator[HookEvent]:
        message, by = object_in(record, "message"), self._who(record)
        for part in objects_in(message, "content"):
            if part.get("type") == "tool_use" and name_in(part, "id"):
                self.call(name_in(part, "id"), name_in(part, "name"), part.get("input"), at)
        content = "\n".join(texts(message.get("content"))).strip()
        key = name_in(record, "uuid")
        if by:
            return  # a sub-agent's last message is also the answer to the call that started it
        if record.get("isApiErrorMessage") is True:
            raised = ev.ErrorRaised(message=content or "the model did not answer")
            yield self.make_event("failure", at, key=key, bodies=(raised,))
        else:
            model = name_in(message, "model")
            self.model = model if model and not model.startswith("<") else self.model
            ends = message.get("stop_reason") in ("end_turn", "stop_sequence", "refusal")
            if ends and content:
                yield self.make_turn_end(at, key, content, used(object_in(message, "usage")))

    def effects_of(self, id: str, call: Call) -> Effects:
        """Return the effects of a call; sub-agents are known only from their calls."""
        if call.tool not in SENDS:
            return parse_call(call)
        return Effects(bodies=_sent(self._agents.get(id, id), call))


def _sent(id: str, call: Call) -> tuple[ev.Body, ...]:
    reported = call.response if isinstance(call.response, dict) else {}
    given = call.input if isinstance(call.input, dict) else {}
    agent = name_in(reported, "agentId") or id
    kind = first_text((name_in(reported, "agentType"), name_in(given, "subagent_type")))
    began = ev.AgentStarted(agent=agent, type=kind, task=assignment(call.tool, call.input))
    wrong = failure(call)
    if wrong is not None:
        return (began, ev.AgentFailed(agent=agent, error=wrong))
    if reported.get("status") == "async_launched" or not call.tells_end:
        return (began,)
    tokens = parse_count(reported.get("totalTokens"))
    cost = (ev.ContextMeasured(tokens=tokens, agent=agent),) if tokens else ()
    return (began, *cost, ev.AgentFinished(agent=agent, result=words(call.response)))


def used(usage: Record) -> int:
    """Return how many tokens of context an answer of the model used."""
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return sum(parse_count(usage.get(name)) or 0 for name in (*names, "output_tokens"))
