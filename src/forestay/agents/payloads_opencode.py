"""What opencode tells: events of its bus, and the calls of its plugin hooks.

A hook hands over two values, its input and its output, which come as `i` and `o`; the events of
the bus are objects with a `type`. A sub-agent is a session of its own that has a parent: whose
plugin knows of it sends that along as `parent`, and then it is the parent that is heard.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from forestay.agents.hook_event import (
    Heard,
    WrongShape,
    count,
    fields,
    first,
    inside,
    listed,
    moment,
    name_in,
    needed,
    one_line,
    path_in,
    text,
)
from forestay.agents.tool_calls import SENDS, Call, assignment, doing, meaning
from forestay.base.hashing import digest_of
from forestay.model.event import (
    AgentFinished,
    AgentStarted,
    Body,
    ContextCompressed,
    ErrorRaised,
    MessageSent,
)

Row = Callable[[str, dict[str, Any]], Heard | None]


def mark(tool: str, given: object) -> str:
    """A name for a call that has none: the same for the same tool and input."""
    try:
        told = json.dumps([tool, given], sort_keys=True, default=str)
    except (ValueError, RecursionError):
        told = tool
    return digest_of(told.encode("utf-8", "replace"))[:32]


def event_of(told: dict[str, Any]) -> str:
    """Which hook a payload of `i` and `o` comes from, if nothing says so."""
    given, out = inside(told, "i"), inside(told, "o")
    if "message" in out and "parts" in out:
        return "chat.message"
    if not name_in(given, "tool"):
        return ""
    return "tool.execute.before" if "args" in out else "tool.execute.after"


def _heard(agent: str, told: dict[str, Any], native: str, what: str, **more: Any) -> Heard:
    parent = name_in(told, "parent")
    return Heard(
        agent=agent,
        native=parent or native,
        what=what,
        cwd=path_in(told, "directory"),
        by=native if parent else "",
        **more,
    )


def _start(agent: str, told: dict[str, Any]) -> Heard:
    source = first((name_in(told, "source"), "startup"))
    return _heard(agent, told, needed(told, "sessionID"), "start", source=source)


def _created(agent: str, told: dict[str, Any]) -> Heard | None:
    """A sub-agent begins; of a session of its own, `SessionStart` tells."""
    info = fields(inside(told, "properties").get("info"), "info")
    native, parent = needed(info, "id"), name_in(info, "parentID")
    if not parent:
        return None
    kind, task = name_in(info, "agent"), one_line(text(info, "title"))
    return Heard(
        agent=agent,
        native=parent,
        what="agent_start",
        cwd=first((path_in(told, "directory"), path_in(info, "directory"))),
        by=native,
        by_type=kind,
        at=moment(inside(info, "time").get("created")),
        moves=(AgentStarted(agent=native, type=kind, task=task),),
    )


def _prompt(agent: str, told: dict[str, Any]) -> Heard | None:
    given, out = inside(told, "i"), fields(told.get("o"), "o")
    message = fields(out.get("message"), "message")
    native = first((name_in(given, "sessionID"), name_in(message, "sessionID")))
    if not native:
        raise WrongShape("it has no sessionID")
    moves = tuple(_said(part) for part in listed(out, "parts") if _is_text(part))
    if not moves or name_in(told, "parent"):
        return None  # a sub-agent is asked by its parent, which has told so
    at, model = moment(inside(message, "time").get("created")), inside(message, "model")
    more: dict[str, Any] = {"at": at, "model": name_in(model, "modelID"), "moves": moves}
    return _heard(agent, told, native, "prompt", key=name_in(message, "id"), **more)


def _is_text(part: dict[str, Any]) -> bool:
    return part.get("type") == "text" and bool(text(part, "text").strip())


def _said(part: dict[str, Any]) -> Body:
    """What opencode writes itself into a prompt is marked."""
    machine = part.get("synthetic") is True
    return MessageSent(role="machine" if machine else "user", text=_unquoted(part["text"]))


def _unquoted(words: str) -> str:
    """`opencode run WORDS` puts quotation marks around what has spaces in it."""
    bare = words.strip()
    quoted = len(bare) > 1 and bare[0] == bare[-1] == '"' and '"' not in bare[1:-1]
    return bare[1:-1] if quoted else words


def _before(agent: str, told: dict[str, Any]) -> Heard:
    given = fields(told.get("i"), "i")
    tool, args = needed(given, "tool"), inside(told, "o").get("args")
    more: dict[str, Any] = {"doing": doing(tool, args), "task": assignment(tool, args)}
    key = name_in(given, "callID")
    native = needed(given, "sessionID")
    return _heard(agent, told, native, "before", key=key, pair=key, tool=tool, **more)


def _after(agent: str, told: dict[str, Any]) -> Heard:
    given = fields(told.get("i"), "i")
    tool, key, native = needed(given, "tool"), name_in(given, "callID"), needed(given, "sessionID")
    args, out = given.get("args"), told.get("o")
    by = native if name_in(told, "parent") else ""
    cwd = path_in(told, "directory")
    call = Call(tool=tool, input=args, response=out, by=by, cwd=cwd, native=native)
    meant = meaning(call)
    more: dict[str, Any] = {"moves": meant.moves, "shell": meant.shell, "todo": meant.todo}
    if tool in SENDS:
        more["moves"] = tuple(_back(out))
    return _heard(agent, told, native, "after", key=key, pair=key, tool=tool, **more)


def _back(out: object) -> list[Body]:
    """A sub-agent came back: its session is the one that began as a child of this one."""
    answer = out if isinstance(out, dict) else {}
    agent = name_in(inside(answer, "metadata"), "sessionId")
    result = _TAGS.sub("", text(answer, "output")).strip()
    return [AgentFinished(agent=agent, result=result)] if agent else []


_TAGS = re.compile(r"\A<task [^<>]*>\s*<task_result>|</task_result>\s*</task>\s*\Z")


def _message(agent: str, told: dict[str, Any]) -> Heard | None:
    """A finished answer of the model: what it cost."""
    info = fields(inside(told, "properties").get("info"), "info")
    at = moment(inside(info, "time").get("completed"))
    if info.get("role") != "assistant" or not at or name_in(told, "parent"):
        return None
    used = inside(info, "tokens")
    cache = inside(used, "cache")
    parts = (used.get("input"), used.get("output"), cache.get("read"), cache.get("write"))
    tokens = sum(count(part) or 0 for part in parts)
    cost: dict[str, Any] = {"tokens": tokens, "model": name_in(info, "modelID"), "at": at}
    key = name_in(info, "id")
    return _heard(agent, told, needed(info, "sessionID"), "other", key=key, **cost)


def _part(agent: str, told: dict[str, Any]) -> Heard | None:
    """Words of the model, once it has said them all; those of a user have no such time."""
    part = fields(inside(told, "properties").get("part"), "part")
    at = moment(inside(part, "time").get("end"))
    if not at or not _is_text(part) or name_in(told, "parent"):
        return None
    said, key = MessageSent(role="agent", text=part["text"]), name_in(part, "id")
    native = needed(part, "sessionID")
    return _heard(agent, told, native, "other", key=key, at=at, moves=(said,))


def _idle(agent: str, told: dict[str, Any]) -> Heard | None:
    native = needed(inside(told, "properties"), "sessionID")
    return None if name_in(told, "parent") else _heard(agent, told, native, "turn_end")


def _compacted(agent: str, told: dict[str, Any]) -> Heard:
    native = needed(inside(told, "properties"), "sessionID")
    return _heard(agent, told, native, "compacted", moves=(ContextCompressed(),))


def _error(agent: str, told: dict[str, Any]) -> Heard | None:
    about = inside(told, "properties")
    error, native = inside(about, "error"), name_in(about, "sessionID")
    if not native:
        return None
    kind = name_in(error, "name")
    if kind == "MessageAbortedError":
        return _heard(agent, told, native, "turn_end", source="interrupt")
    message = first((text(inside(error, "data"), "message"), kind, "the model did not answer"))
    category = "configuration" if kind == "ProviderAuthError" else "logical"
    raised = ErrorRaised(message=message, category=category)
    return _heard(agent, told, native, "failure", source=kind, moves=(raised,))


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
    # Pieces of what is told whole later on.
    "message.part.delta": None,
    "message.part.removed": None,
    "message.removed": None,
    "session.updated": None,
    "session.status": None,
    "session.diff": None,
    "session.deleted": None,
    # Said again by the tools that did it.
    "file.edited": None,
    "file.watcher.updated": None,
    "todo.updated": None,
    # About opencode itself.
    "catalog.updated": None,
    "reference.updated": None,
    "integration.updated": None,
    "plugin.added": None,
    "server.connected": None,
    "installation.updated": None,
    "permission.asked": None,
    "permission.updated": None,
    "permission.replied": None,
    "lsp.updated": None,
    "lsp.client.diagnostics": None,
    "vcs.branch.updated": None,
}
