"""Chats of Gemini CLI: one record per line, written again when it grows.

Older versions of Gemini CLI write the whole chat as one JSON document.
"""

from __future__ import annotations

from collections.abc import Iterator

from forestay.agents.hook_event import (
    HookEvent,
    name_in,
    object_in,
    objects_in,
    parse_count,
    parse_time,
    path_in,
    text_in,
)
from forestay.agents.payloads import parse_prompt
from forestay.agents.tool_calls import SENDS, Call, Effects, parse_call, sent_and_back
from forestay.agents.transcripts.reader import Pending, Reader, Record, texts
from forestay.model.event import ErrorRaised, MessageSent

_MOST_MET = 100_000


class GeminiReader(Reader):
    agent = "gemini"

    def __init__(self, **known: str) -> None:
        super().__init__(**known)
        self._met: dict[str, None] = {}
        self._sent = ""

    def parse_record(self, record: Record) -> Iterator[HookEvent]:
        if name_in(record, "sessionId"):
            if not self.native:
                self.native = name_in(record, "sessionId")
            elif record.get("kind") == "subagent":
                self.by = self.by or name_in(record, "sessionId")
            folders = record.get("directories")
            if not self.cwd and isinstance(folders, list) and folders:
                self.cwd = path_in({"folder": folders[0]}, "folder")
        if "$set" in record:
            yield from self._messages(object_in(record, "$set"))
        elif "messages" in record:
            yield from self._messages(record)
        elif name_in(record, "type"):
            yield from self._message(record)
        elif not name_in(record, "sessionId") and "$rewindTo" not in record:
            self.count_unknown("no type")

    def _messages(self, record: Record) -> Iterator[HookEvent]:
        found = record.get("messages")
        for message in found if isinstance(found, list) else ():
            if isinstance(message, dict):
                yield from self._message(message)

    def _message(self, message: Record) -> Iterator[HookEvent]:
        kind, at = name_in(message, "type"), parse_time(message.get("timestamp"))
        content = "\n".join(texts(message.get("content"))).strip()
        if kind == "user":
            yield from self._asked(message, content, at)
        elif kind == "gemini":
            yield from self._answered(message, content, at)
        elif kind == "error" and content and self._is_new(f"error {name_in(message, 'id')}"):
            raised = ErrorRaised(message=content, agent=self.by)
            yield self.make_event("failure", at, key=name_in(message, "id"), bodies=(raised,))
        elif kind not in ("info", "warning", "error"):
            self.count_unknown(kind or "no type")

    def _asked(self, message: Record, content: str, at: int) -> Iterator[HookEvent]:
        key = name_in(message, "id")
        if content and not self.by and self._is_new(key):
            bodies = parse_prompt(content)
            if any(isinstance(m, MessageSent) and m.role == "user" for m in bodies):
                yield self.make_event("prompt", at, key=key, bodies=bodies)

    def _answered(self, message: Record, content: str, at: int) -> Iterator[HookEvent]:
        self.model = name_in(message, "model") or self.model
        for call in objects_in(message, "toolCalls"):
            yield from self._called(call)
        if content and not message.get("toolCalls") and not self.by:
            key = name_in(message, "id")
            if self._is_new(key):
                tokens = parse_count(object_in(message, "tokens").get("total")) or 0
                yield self.make_turn_end(at, key, content, tokens)

    def _called(self, call: Record) -> Iterator[HookEvent]:
        id, status = name_in(call, "id"), name_in(call, "status")
        if status not in ("success", "error", "cancelled") or not self._is_new(id):
            return
        at = parse_time(call.get("timestamp"))
        shown, parts = call.get("resultDisplay"), objects_in(call, "result")[:1]
        answer = object_in(object_in(parts[0], "functionResponse"), "response") if parts else {}
        error = text_in(answer, "error") or "failed" if status == "error" else None
        error = "cancelled by the user" if status == "cancelled" else error
        response = {"llmContent": answer.get("output"), "returnDisplay": shown}
        made = Pending(name_in(call, "name"), call.get("args"), 0)
        self._sent = name_in(call, "agentId") or id
        yield self.ended(id, made, at, response=response, error=error)

    def effects_of(self, id: str, call: Call) -> Effects:
        if call.tool not in SENDS:
            return parse_call(call)
        kind = name_in(call.input if isinstance(call.input, dict) else {}, "agent_name")
        return Effects(bodies=sent_and_back(call, self._sent, kind))

    def _is_new(self, id: str) -> bool:
        """Return whether an id was not read before: Gemini repeats a record when it grows."""
        if id in self._met:
            return False
        if len(self._met) >= _MOST_MET:
            del self._met[next(iter(self._met))]
        self._met[id] = None
        return True
