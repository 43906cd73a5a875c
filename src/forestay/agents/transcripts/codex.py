"""Rollouts of Codex: one JSON object per line, each with a type, a time and a payload."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

from forestay.agents.hook_event import (
    HookEvent,
    first_text,
    name_in,
    object_in,
    parse_count,
    parse_time,
    path_in,
    text_in,
)
from forestay.agents.payloads import parse_prompt
from forestay.agents.tool_calls import SENDS, Call, Effects, parse_call, words
from forestay.agents.transcripts.reader import Reader, Record, texts
from forestay.model.event import AgentStarted, ContextCompressed, ErrorRaised

_LONG = 64 * 1024 * 1024
_CALLS = ("function_call", "custom_tool_call", "local_shell_call")
_ANSWERS = ("function_call_output", "custom_tool_call_output", "mcp_tool_call_output")
_QUIET = frozenset(
    """
    agent_message agent_message_delta agent_reasoning agent_reasoning_delta
    agent_reasoning_raw_content agent_reasoning_section_break background_event compaction
    context_compacted entered_review_mode exec_command_begin exec_command_output_delta
    exited_review_mode ghost_snapshot image_generation_call item_completed item_started
    mcp_startup_complete mcp_startup_update mcp_tool_call_begin mcp_tool_call_end message
    patch_apply_begin plan_update raw_response_item reasoning session_configured
    shutdown_complete task_started thread_name_updated thread_rolled_back
    thread_settings_applied patch_apply_end turn_aborted token_usage_record tool_search_call
    tool_search_output turn_context turn_diff user_message view_image_tool_call warning
    web_search_begin web_search_call web_search_end world_state
    """.split()
)
_WALL = re.compile(r"^Wall time: (\d{1,9}(?:\.\d{1,9})?) seconds?$", re.M)
_EXITED = re.compile(r"^(?:Exit code|Process exited with code):? (-?\d{1,9})$", re.M)
_SHELL = re.compile(r"\A\S*/?(?:ba|z|da|)sh\Z")
_MACHINE = ("# AGENTS.md instructions", "<INSTRUCTIONS>", "<user_instructions>")


class CodexReader(Reader):
    agent = "codex"

    def __init__(self, **known: str) -> None:
        super().__init__(**known)
        self._tokens = 0
        self._ends: dict[str, tuple[int, int | None]] = {}

    def parse_record(self, record: Record) -> Iterator[HookEvent]:
        kind, payload = name_in(record, "type"), object_in(record, "payload")
        at, inner = parse_time(record.get("timestamp")), name_in(payload, "type")
        if kind == "session_meta":
            own, git = name_in(payload, "id"), object_in(payload, "git")
            parent = _parent(payload)
            if not self.native:
                self.native, self.by = (parent, own) if parent else (own, "")
            self.cwd = self.cwd or path_in(payload, "cwd")
            self.branch = self.branch or name_in(git, "branch")
            self.commit = self.commit or name_in(git, "commit_hash")
        elif kind == "turn_context":
            self.model = name_in(payload, "model") or self.model
        elif kind == "compacted":
            body = ContextCompressed(summary=text_in(payload, "message"))
            yield self.make_event("compacted", at, key=f"compacted {at}", bodies=(body,))
        elif kind in ("response_item", "event_msg"):
            if kind == "response_item" and inner == "message":
                yield from self._message(payload, at)
            elif act := self._ACTS.get(inner):
                yield from act(self, payload, at)
            elif inner not in _QUIET:
                self.count_unknown(f"{kind} {inner}")
        elif kind not in _QUIET:
            self.count_unknown(kind or "no type")

    # -- messages ------------------------------------------------------------------------------

    def _message(self, payload: Record, at: int) -> Iterator[HookEvent]:
        if payload.get("role") != "user" or self.by:
            return
        text = "\n".join(texts(payload.get("content"), ("input_text", "text"))).strip()
        if not text or text.startswith(_MACHINE) or not _is_of_user(payload):
            return
        key = name_in(payload, "id") or f"prompt {at}"
        yield self.make_event("prompt", at, key=key, bodies=parse_prompt(text), model=self.model)

    def _done(self, payload: Record, at: int) -> Iterator[HookEvent]:
        last = text_in(payload, "last_agent_message", _LONG)
        if last.strip() and not self.by:
            key = name_in(payload, "turn_id") or f"turn {at}"
            yield self.make_turn_end(at, key, last, self._tokens)

    def _counted(self, payload: Record, at: int) -> Iterator[HookEvent]:
        last = object_in(object_in(payload, "info"), "last_token_usage")
        self._tokens = parse_count(last.get("total_tokens")) or self._tokens
        yield from ()

    def _failed(self, payload: Record, at: int) -> Iterator[HookEvent]:
        message = text_in(payload, "message") or "the model did not answer"
        raised = ErrorRaised(message=message, agent=self.by)
        yield self.make_event("failure", at, key=f"error {at}", bodies=(raised,))

    # -- tool calls ----------------------------------------------------------------------------

    def _called(self, payload: Record, at: int) -> Iterator[HookEvent]:
        space, name = name_in(payload, "namespace"), name_in(payload, "name") or "local_shell"
        tool = f"{space}__{name}" if space.startswith("mcp__") else name
        given: object = payload.get("input", payload.get("action"))
        if isinstance(payload.get("arguments"), str):
            given = _parsed(payload["arguments"])
        self.call(name_in(payload, "call_id"), tool, _plain(given), at)
        yield from ()

    def _answered(self, payload: Record, at: int) -> Iterator[HookEvent]:
        id, output = name_in(payload, "call_id"), payload.get("output")
        reported = _parsed(output) if isinstance(output, str) and output[:1] == "{" else output
        code, duration = self._ends.pop(id, (None, None))
        yield from self.answer(id, at, **_outcome(reported, code, duration))

    def _ran(self, payload: Record, at: int) -> Iterator[HookEvent]:
        """Yield the end of a command; the answer to its call is another record."""
        if len(self._ends) < _MOST_ENDS and (end := _end(payload)) is not None:
            self._ends[end[0]] = end[1:]
        yield from ()

    def effects_of(self, id: str, call: Call) -> Effects:
        """Return the effects of a call; a sub-agent that it starts has its own rollout."""
        if call.tool not in SENDS or call.error is not None:
            return parse_call(call)
        reported = _parsed(words(call.response))
        answer = reported if isinstance(reported, dict) else {}
        agent = first_text((name_in(answer, "agent_id"), name_in(answer, "new_thread_id"), id))
        given = call.input if isinstance(call.input, dict) else {}
        kind, task = name_in(given, "agent_type"), text_in(given, "message", 400)
        return Effects(bodies=(AgentStarted(agent=agent, type=kind, task=task),))

    _ACTS: ClassVar[dict[str, Callable[[CodexReader, Record, int], Iterator[HookEvent]]]] = {
        **dict.fromkeys(_CALLS, _called),
        **dict.fromkeys(_ANSWERS, _answered),
        "task_complete": _done,
        "token_count": _counted,
        "item_completed": _ran,
        "exec_command_end": _ran,
        "error": _failed,
    }


def ends(records: Iterable[object]) -> dict[str, tuple[int, int | None]]:
    """Return exit code and milliseconds of commands by call id; hooks do not report them."""
    found: dict[str, tuple[int, int | None]] = {}
    for record in records:
        payload = object_in(record, "payload") if isinstance(record, dict) else {}
        end = _end(payload) if name_in(payload, "type") in _ENDS else None
        if end is None and name_in(payload, "type") in _ANSWERS:
            end = _end_in(payload)
        if end is not None:
            found.setdefault(end[0], end[1:])
    return found


_MOST_ENDS = 1000
_ENDS = ("item_completed", "exec_command_end")


def _end(payload: Record) -> tuple[str, int, int | None] | None:
    """Return call, exit code and milliseconds from an end record."""
    item = object_in(payload, "item") or payload
    id, code = first_text((name_in(item, "call_id"), name_in(item, "id"))), item.get("exit_code")
    if not id or not isinstance(code, int) or isinstance(code, bool):
        return None
    return id, code, _milliseconds(item.get("duration"))


def _end_in(payload: Record) -> tuple[str, int, int | None] | None:
    """Return call, exit code and milliseconds from the text of an answer."""
    output = payload.get("output")
    exited = _EXITED.search(output[:500]) if isinstance(output, str) else None
    if exited is None:
        return None
    wall = _WALL.search(payload["output"][:500])
    return name_in(payload, "call_id"), int(exited[1]), _seconds(wall and float(wall[1]))


def _parent(meta: Record) -> str:
    """Return the parent conversation of a sub-agent, else ""."""
    sent = object_in(object_in(meta, "source"), "subagent")
    spawned = object_in(sent, "thread_spawn")
    return first_text((name_in(spawned, "parent_thread_id"), name_in(meta, "parent_thread_id")))


def _is_of_user(payload: Record) -> bool:
    """Return whether the user wrote a text; older versions of Codex mark only machine text."""
    about = object_in(payload, "internal_chat_message_metadata_passthrough")
    kinds = about.get("content_item_kinds")
    if not isinstance(kinds, list):
        return True
    return any(isinstance(kind, str) and kind.startswith("user") for kind in kinds)


def _parsed(reported: str) -> object:
    try:
        return json.loads(reported)
    except (ValueError, RecursionError):
        return reported


def _plain(given: object) -> object:
    """Return a command without the shell around it: `pytest -q` for `bash -lc "pytest -q"`."""
    if isinstance(given, dict) and isinstance(given.get("command"), list):
        words = [word for word in given["command"] if isinstance(word, str)]
        if len(words) == 3 and _SHELL.match(words[0]) and words[1] in ("-lc", "-c"):
            return {**given, "command": words[2]}
        return {**given, "command": words}
    return given


def _outcome(reported: object, code: int | None, duration: int | None) -> dict[str, Any]:
    """Return how a call ended, from its end record or else from its answer."""
    answer = reported if isinstance(reported, dict) else {}
    shown = answer.get("output", reported)
    if not isinstance(shown, str):
        return {"response": shown, "duration": duration}
    if shown.startswith("unsupported call"):
        return {"error": shown}
    about, head = object_in(answer, "metadata"), shown[:500]
    exited, wall = _EXITED.search(head), _WALL.search(head)
    codes = (code, about.get("exit_code"), exited and int(exited[1]))
    code = next((one for one in codes if isinstance(one, int)), None)
    spans = (wall and float(wall[1]), about.get("duration_seconds"))
    duration = next((ms for ms in map(_seconds, spans) if ms is not None), duration)
    printed = shown.partition("\nOutput:\n")[2] if "\nOutput:\n" in shown[:1000] else shown
    more = {"duration": duration, "tells_end": code is not None}
    error = f"exit {code}\n{printed}" if code else None
    return {**more, "error": error, "response": printed if code is None else {"output": printed}}


def _seconds(reported: object) -> int | None:
    is_number = isinstance(reported, int | float) and not isinstance(reported, bool)
    return int(reported * 1000) if is_number and 0 <= reported < 10**9 else None  # type: ignore[operator]


def _milliseconds(reported: object) -> int | None:
    if not isinstance(reported, dict):
        return None
    seconds, rest = parse_count(reported.get("secs")), parse_count(reported.get("nanos"))
    return None if seconds is None or rest is None else seconds * 1000 + rest // 1_000_000
