"""Parse what our opencode plugin sends: events of its bus and calls of its hooks.

A hook call has an input and an output, sent as `i` and `o`; bus events are objects with a `type`.
In opencode a sub-agent is a session with a parent: the plugin sends the parent's id as `parent`,
and the event then belongs to the parent's conversation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from forestay.agents.hook_event import (
    HookEvent,
    WrongShape,
    first_text,
    name_in,
    object_in,
    objects_in,
    one_line,
    parse_count,
    parse_time,
    path_in,
    read_object,
    require_text,
    text_in,
)
from forestay.agents.tool_calls import SENDS, Call, assignment, doing, parse_call
from forestay.base.hashing import digest_of
from forestay.model import event as ev

Row = Callable[[str, dict[str, Any]], HookEvent | None]


def mark(tool: str, given: object) -> str:
    """Return an id for a call that has none; the same tool and input give the same id."""
    try:
        values = json.dumps([tool, given], sort_keys=True, default=str)
    except (ValueError, RecursionError):
        values = tool
    return digest_of(values.encode("utf-8", "replace"))[:32]


def event_of(values: dict[str, Any]) -> str:
    """Return which hook a payload of `i` and `o` comes from, if it does not name it."""
    given, out = object_in(values, "i"), object_in(values, "o")
    if "message" in out and "parts" in out:
        return "chat.message"
    if not name_in(given, "tool"):
        return ""
    return "tool.execute.before" if "args" in out else "tool.execute.after"


def _make_event(
    agent: str, values: dict[str, Any], native: str, what: str, **more: Any
) -> HookEvent:
    parent = name_in(values, "parent")
    return HookEvent(
        agent=agent,
        native=parent or native,
        what=what,
        cwd=path_in(values, "directory"),
        by=native if parent else "",
        **more,
    )


def _start(agent: str, values: dict[str, Any]) -> HookEvent:
    source = first_text((name_in(values, "source"), "startup"))
    return _make_event(agent, values, require_text(values, "sessionID"), "start", source=source)


def _created(agent: str, values: dict[str, Any]) -> HookEvent | None:
    """Return the start of a sub-agent; `SessionStart` reports other sessions."""
    info = read_object(object_in(values, "properties").get("info"), "info")
    native, parent = require_text(info, "id"), name_in(info, "parentID")
    if not parent:
        return None
    kind, task = name_in(info, "agent"), one_line(text_in(info, "title"))
    return HookEvent(
        agent=agent,
        native=parent,
        what="agent_start",
        cwd=first_text((path_in(values, "directory"), path_in(info, "directory"))),
        by=native,
        by_type=kind,
        at=parse_time(object_in(info, "time").get("created")),
        bodies=(ev.AgentStarted(agent=native, type=kind, task=task),),
    )


def _prompt(agent: str, values: dict[str, Any]) -> HookEvent | None:
    given, out = object_in(values, "i"), read_object(values.get("o"), "o")
    message = read_object(out.get("message"), "message")
    native = first_text((name_in(given, "sessionID"), name_in(message, "sessionID")))
    if not native:
        raise WrongShape("there is no sessionID")
    # Text that opencode added itself is marked as synthetic.
    bodies = tuple(
        ev.MessageSent(
            role="machine" if part.get("synthetic") is True else "user",
            text=_unquoted(part["text"]),
        )
        for part in objects_in(out, "parts")
        if _is_text(part)
    )
    if not bodies or name_in(values, "parent"):
        return None  # a sub-agent's prompt: its parent has already reported the task
    at, model = parse_time(object_in(message, "time").get("created")), object_in(message, "model")
    more: dict[str, Any] = {"at": at, "model": name_in(model, "modelID"), "bodies": bodies}
    return _make_event(agent, values, native, "prompt", key=name_in(message, "id"), **more)


def _is_text(part: dict[str, Any]) -> bool:
    return part.get("type") == "text" and bool(text_in(part, "text").strip())


def _unquoted(words: str) -> str:
    """Remove the quotation marks that `opencode run WORDS` puts around words with spaces."""
    bare = words.strip()
    quoted = len(bare) > 1 and bare[0] == bare[-1] == '"' and '"' not in bare[1:-1]
    return bare[1:-1] if quoted else words


def _before(agent: str, values: dict[str, Any]) -> HookEvent:
    given = read_object(values.get("i"), "i")
    tool, args = require_text(given, "tool"), object_in(values, "o").get("args")
    more: dict[str, Any] = {"doing": doing(tool, args), "task": assignment(tool, args)}
    key = name_in(given, "callID")
    native = require_text(given, "sessionID")
    return _make_event(agent, values, native, "before", key=key, pair=key, tool=tool, **more)


def _after(agent: str, values: dict[str, Any]) -> HookEvent:
    given = read_object(values.get("i"), "i")
    tool, key = require_text(given, "tool"), name_in(given, "callID")
    native, cwd, out = (
        require_text(given, "sessionID"),
        path_in(values, "directory"),
        values.get("o"),
    )
    by = native if name_in(values, "parent") else ""
    call = Call(tool=tool, input=given.get("args"), response=out, by=by, cwd=cwd, native=native)
    effects = parse_call(call)
    more: dict[str, Any] = {"shell": effects.shell, "todo": effects.todo, "bodies": effects.bodies}
    if tool in SENDS:
        # A sub-agent is a child session; this answer reports that it ended.
        child = name_in(object_in(object_in(values, "o"), "metadata"), "sessionId")
        result = _TAGS.sub("", text_in(object_in(values, "o"), "output")).strip()
        more["bodies"] = (ev.AgentFinished(agent=child, result=result),) if child else ()
    return _make_event(agent, values, native, "after", key=key, pair=key, tool=tool, **more)


_TAGS = re.compile(r"\A<task [^<>]*>\s*<task_result>|</task_result>\s*</task>\s*\Z")


def _message(agent: str, values: dict[str, Any]) -> HookEvent | None:
    """Return the tokens of a finished answer of the model."""
    info = read_object(object_in(values, "properties").get("info"), "info")
    at = parse_time(object_in(info, "time").get("completed"))
    if info.get("role") != "assistant" or not at or name_in(values, "parent"):
        return None
    used = object_in(info, "tokens")
    cache = object_in(used, "cache")
    parts = (used.get("input"), used.get("output"), cache.get("read"), cache.get("write"))
    tokens = sum(parse_count(part) or 0 for part in parts)
    cost: dict[str, Any] = {"tokens": tokens, "model": name_in(info, "modelID"), "at": at}
    key = name_in(info, "id")
    return _make_event(agent, values, require_text(info, "sessionID"), "other", key=key, **cost)


def _part(agent: str, values: dict[str, Any]) -> HookEvent | None:
    """Return a text of the model once it is complete; a text of the user has no end time."""
    part = read_object(object_in(values, "properties").get("part"), "part")
    at = parse_time(object_in(part, "time").get("end"))
    if not at or not _is_text(part) or name_in(values, "parent"):
        return None
    message, key = ev.MessageSent(role="agent", text=part["text"]), name_in(part, "id")
    native = require_text(part, "sessionID")
    return _make_event(agent, values, native, "other", key=key, at=at, bodies=(message,))


def _idle(agent: str, values: dict[str, Any]) -> HookEvent | None:
    native = require_text(object_in(values, "properties"), "sessionID")
    return None if name_in(values, "parent") else _make_event(agent, values, native, "turn_end")


def _compacted(agent: str, values: dict[str, Any]) -> HookEvent:
    native = require_text(object_in(values, "properties"), "sessionID")
    return _make_event(agent, values, native, "compacted", bodies=(ev.ContextCompressed(),))


def _error(agent: str, values: dict[str, Any]) -> HookEvent | None:
    about = object_in(values, "properties")
    error, native = object_in(about, "error"), name_in(about, "sessionID")
    if not native:
        return None
    kind = name_in(error, "name")
    if kind == "MessageAbortedError":
        return _make_event(agent, values, native, "turn_end", source="interrupt")
    message = first_text(
        (text_in(object_in(error, "data"), "message"), kind, "the model did not answer")
    )
    category = "configuration" if kind == "ProviderAuthError" else "logical"
    raised = ev.ErrorRaised(message=message, category=category)
    return _make_event(agent, values, native, "failure", source=kind, bodies=(raised,))


_IGNORED = """
    message.part.delta message.part.removed message.removed session.updated session.status
    session.diff session.deleted file.edited file.watcher.updated todo.updated catalog.updated
    reference.updated integration.updated plugin.added server.connected installation.updated
    permission.asked permission.updated permission.replied lsp.updated lsp.client.diagnostics
    vcs.branch.updated
""".split()
"""Ignored: parts that are reported complete later, repeats of tool events, opencode's own news."""

ROWS: dict[str, Row | None] = {
    "SessionStart": _start,
    "session.created": _created,
    "chat.message": _prompt,
    "tool.execute.before": _before,
    "tool.execute.after": _after,
    "message.updated": _message,
    "message.part.updated": _part,
    "session.idle": _idle,
    "session.compacted": _compacted,
    "session.error": _error,
    **dict.fromkeys(_IGNORED),
}
