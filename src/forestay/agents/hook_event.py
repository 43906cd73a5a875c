"""The parsed form of one hook payload, and functions that read payload fields safely.

Another program writes the payload. A required field that is missing or of another type
makes the payload a *wrong shape*; any other odd field counts as missing. Texts are cut here only
at generous limits: the final cut happens after secrets are removed, because half a secret is not
recognized as one. The text of messages is not cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from forestay.base.hashing import digest_of
from forestay.base.text import shorten, terminal
from forestay.model.event import Body, MessageSent

MOST = 200
"""The most items read from a list in a payload: tasks, files of a patch, edits of a file."""
WIDE = 64 * 1024
"""The most characters read of a text that is not a message; far more than is stored."""
_NAME, _PATH, _LINE = 200, 4096, 160
_MAX_NUMBER = 2**53
GOAL = 200
"""The most characters of a goal that is made from a prompt."""


class WrongShape(Exception):
    """A payload of a known event lacks a required field."""


class Todo(Struct, frozen=True):
    """One line of an agent's own to-do list; `status` is pending, running, done or skipped."""

    id: str
    title: str
    status: str = "pending"


class HookEvent(Struct, frozen=True, kw_only=True):
    """One event reported by an agent's hook.

    `what` is start, prompt, before, after, agent_start, agent_stop, compacting, compacted,
    turn_end, failure, end or other. `native` is the agent's own id of the conversation, `source`
    how it began or why it ended. `key` identifies the event, so that reporting it twice records it
    once; without a key the bytes of the payload identify it. `pair` is shared by a `before` and its
    `after`; `doing` describes what a `before` begins. `by` and `by_type` name the sub-agent that
    acted. `bodies` are the events to record, with paths and ids as they were sent. `todo` is the
    whole current to-do list. `shell` is set when files could have changed without being reported.
    `task` is the task of a sub-agent, known before it starts. `at` and `tokens` are 0 if unknown.
    `dated` is set when the payload contains an id or a time, so that no other payload has the
    same bytes.
    """

    agent: str
    native: str
    what: str
    cwd: str = ""
    transcript: str = ""
    source: str = ""
    key: str = ""
    pair: str = ""
    by: str = ""
    by_type: str = ""
    at: int = 0
    dated: bool = True
    bodies: tuple[Body, ...] = ()
    doing: str = ""
    tool: str = ""
    shell: bool = False
    model: str = ""
    tokens: int = 0
    task: str = ""
    todo: tuple[Todo, ...] | None = None


# -- reading -----------------------------------------------------------------------------------


def read_object(value: object, what: str = "the payload") -> dict[str, Any]:
    if not isinstance(value, dict):
        raise WrongShape(f"{what} is not an object")
    return value


def require_text(payload: dict[str, Any], name: str, most: int = _NAME) -> str:
    """Return a required text, or raise `WrongShape`."""
    value = payload.get(name)
    if not isinstance(value, str) or not value.strip():
        raise WrongShape(f"there is no {name}")
    return value[:most]


def text_in(payload: dict[str, Any], name: str, most: int = WIDE) -> str:
    value = payload.get(name)
    return value[:most] if isinstance(value, str) else ""


def name_in(payload: dict[str, Any], name: str) -> str:
    return text_in(payload, name, _NAME)


def path_in(payload: dict[str, Any], name: str) -> str:
    return text_in(payload, name, _PATH)


def object_in(payload: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a nested object, empty if there is none."""
    value = payload.get(name)
    return value if isinstance(value, dict) else {}


def objects_in(payload: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the objects of a nested list, at most `MOST`."""
    value = payload.get(name)
    found = value[:MOST] if isinstance(value, list) else []
    return [one for one in found if isinstance(one, dict)]


def parse_count(value: object) -> int | None:
    """Return a whole number that can be stored; None for anything else."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return value if is_count and 0 <= value < _MAX_NUMBER else None  # type: ignore[operator,return-value]


def parse_time(value: object) -> int:
    """Return the milliseconds of a time (ISO 8601 or a number); 0 for anything else."""
    if isinstance(value, str):
        try:
            parsed = datetime.fromisoformat(value[:40])
            # A time without a zone is UTC, so that the result is the same on every machine.
            zoned = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
            return max(0, int(zoned.timestamp() * 1000))
        except (ValueError, OverflowError):
            return 0
    return parse_count(value) or 0


def first_text(texts: Iterable[str]) -> str:
    return next(filter(None, texts), "")


def one_line(words: str, most: int = _LINE) -> str:
    """Return the beginning of a text on one line."""
    line = " ".join(words[: 4 * most].split())
    is_cut = len(line) > most or len(words) > 4 * most
    return _drop_last_word(line[: most - 1]) + "…" if is_cut else line


def cut_text(words: str, most: int) -> str:
    return words if len(words) <= most else _drop_last_word(words[: most - 1]) + "…"


_PIECE = re.compile(r"""[^\s/:=?&"',;]*\Z""")


def _drop_last_word(words: str) -> str:
    """Remove the last word, which can be cut: half a secret is not recognized as one."""
    return _PIECE.sub("", words, count=1)


def text_digest(content: object) -> str:
    """Return the SHA-256 of a file with this text; empty if it cannot be a file's text."""
    if not isinstance(content, str):
        return ""
    try:
        return digest_of(content.encode())
    except UnicodeEncodeError:
        return ""


# -- prompts -----------------------------------------------------------------------------------


def user_prompt(hook: HookEvent) -> str:
    """Return what the user asked; empty if the prompt is machine text."""
    texts = (m.text for m in hook.bodies if isinstance(m, MessageSent) and m.role == "user")
    return next(texts, "")


def make_goal(prompt: str) -> str:
    """Return the first sentence of a prompt, as the goal of a session."""
    line = " ".join(terminal(prompt[: 20 * GOAL], newlines=True).split())
    found = re.match(r".{8,}?[.!?](?=\s|$)", line)
    return shorten(found[0].rstrip(".") if found else line, GOAL)
