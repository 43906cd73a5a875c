"""Base class of the transcript readers, one per agent.

Every agent has its own records; in all of them a tool call and its answer are two records. Records
are written by another program: irrelevant ones are skipped, unknown ones are counted, and
no record raises an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from forestay.agents.hook_event import HookEvent, WrongShape
from forestay.agents.tool_calls import SENDS, SHELLS, Call, Effects, parse_call
from forestay.model.event import MessageSent

_MOST_CALLS = 2000
_MOST_KINDS = 50

Record = dict[str, Any]


class Pending(Struct, frozen=True):
    """A call whose answer has not been read yet."""

    tool: str
    input: object
    at: int


class Reader:
    """Parses the records of one transcript into events.

    For the transcript of a sub-agent `by` names it, and `native` is its parent conversation.
    `unknown` counts the records that could not be parsed, by kind.
    """

    agent = ""

    def __init__(self, *, native: str = "", cwd: str = "", by: str = "") -> None:
        self.native, self.cwd, self.by = native, cwd, by
        self.branch = self.commit = self.model = ""
        self.unknown: dict[str, int] = {}
        self._calls: dict[str, Pending] = {}

    def feed(self, record: object) -> list[HookEvent]:
        """Return the events of a record. Never raises."""
        if not isinstance(record, dict):
            self.count_unknown("not an object")
            return []
        try:
            return list(self.parse_record(record))
        except WrongShape as error:
            self.count_unknown(str(error))
        except RecursionError:
            self.count_unknown("too deep")
        return []

    def parse_record(self, record: Record) -> Iterator[HookEvent]:
        raise NotImplementedError

    def count_unknown(self, kind: str) -> None:
        kind = kind[:60] if len(self.unknown) < _MOST_KINDS else "others"
        self.unknown[kind] = self.unknown.get(kind, 0) + 1

    def make_event(self, what: str, at: int, **more: Any) -> HookEvent:
        by = more.pop("by", self.by)
        return HookEvent(agent=self.agent, native=self.native, what=what, at=at, by=by, **more)

    def make_turn_end(self, at: int, key: str, text: str, tokens: int) -> HookEvent:
        """Return the last message of the model in a turn, and the tokens of its context."""
        bodies = (MessageSent(role="agent", text=text),)
        more: dict[str, Any] = {"tokens": tokens, "model": self.model, "bodies": bodies}
        return self.make_event("turn_end", at, key=key, **more)

    # -- calls ---------------------------------------------------------------------------------

    def call(self, id: str, tool: str, given: object, at: int) -> None:
        """Store a call until its answer is read; if there are very many, drop the oldest."""
        if len(self._calls) >= _MOST_CALLS:
            del self._calls[next(iter(self._calls))]
        self._calls[id] = Pending(tool, given, at)

    def answer(self, id: str, at: int, **reported: Any) -> Iterator[HookEvent]:
        """Yield the event of an answer, unless its call is unknown."""
        if made := self._calls.pop(id, None):
            yield self.ended(id, made, at, **reported)

    def ended(self, id: str, made: Pending, at: int, **reported: Any) -> HookEvent:
        duration, by = reported.pop("duration", None), reported.pop("by", self.by)
        if duration is None and at and made.at:
            duration = max(0, at - made.at)
        call = Call(
            tool=made.tool,
            input=made.input,
            duration=duration,
            by=by,
            cwd=self.cwd,
            native=self.native,
            **reported,
        )
        effects = self.effects_of(id, call)
        more: dict[str, Any] = {"bodies": effects.bodies, "todo": effects.todo}
        return self.make_event("after", at, key=id, by=by, tool=made.tool, **more)

    def effects_of(self, id: str, call: Call) -> Effects:
        return parse_call(call)

    def end(self) -> Iterator[HookEvent]:
        """Yield commands and sub-agents that were unfinished when the transcript ended."""
        for id, made in self._calls.items():
            if made.tool in SHELLS | SENDS:
                try:
                    yield self.ended(id, made, made.at, response="", tells_end=False)
                except WrongShape as error:
                    self.count_unknown(str(error))
        self._calls.clear()


def texts(content: object, kinds: Iterable[str] = ("text",)) -> Iterator[str]:
    """Yield the texts of a message, which is a text or a list of parts."""
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        is_part = isinstance(part, dict) and part.get("type", "text") in kinds
        if is_part and isinstance(text := part.get("text"), str):
            yield text
