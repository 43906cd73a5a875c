"""Heard: what one payload of an agent means, in our words; and reading payloads safely.

A payload is whatever another program wrote. A field that we cannot do without and that is not
there, or of another kind, is a *wrong shape*; any other odd field is as if it were not there.
Sizes are bounded here, but generously: what is kept is cut where secrets are taken out, because
half a secret is not recognized as one. Text of messages stays whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from forestay.base.hashing import digest_of
from forestay.base.text import shorten, terminal
from forestay.model.event import Body, MessageSent

MOST = 200
"""How many of anything a payload may list: tasks, files of a patch, edits of a file."""
WIDE = 64 * 1024
"""How long a text is looked at that is no message. Far more than is kept of it."""
_NAME, _PATH, _LINE = 200, 4096, 160
_MAX_NUMBER = 2**53
GOAL = 200
"""How long the goal of a session may be that begins with what was asked."""


class WrongShape(Exception):
    """A payload of a known event lacks what makes it one."""


class Todo(Struct, frozen=True):
    """A line of an agent's own list of tasks: pending, running, done or skipped."""

    id: str
    title: str
    status: str = "pending"


class Heard(Struct, frozen=True, kw_only=True):
    """One thing an agent told.

    `what` is start, prompt, before, after, agent_start, agent_stop, compacting, compacted,
    turn_end, failure, end or other. `native` is the agent's own id of its session, `source` how
    it began or why it ended. `key` makes it one thing however often it is told; without one it
    is the payload's own bytes. `pair` is what a `before` has in common with its `after`.
    `doing` is what a `before` begins.
    `by` and `by_type` name the sub-agent that acted. `moves` are what it means; paths and ids in
    them are as they were sent. `todo` is the whole list of tasks as it is now. `shell` says that
    files may have changed of which nothing is told. `task` is, before a sub-agent starts, what it
    is to do. `at` and `tokens` are 0 where nothing is told. `dated` says that nothing else said can
    be the same to the byte, because an id or a time is in it.
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
    moves: tuple[Body, ...] = ()
    doing: str = ""
    tool: str = ""
    shell: bool = False
    model: str = ""
    tokens: int = 0
    task: str = ""
    todo: tuple[Todo, ...] | None = None

    def but(self, **changes: Any) -> Heard:
        """The same, with some of it changed."""
        return replace(self, **changes)


# -- reading -----------------------------------------------------------------------------------


def fields(value: object, what: str = "the payload") -> dict[str, Any]:
    if not isinstance(value, dict):
        raise WrongShape(f"{what} is no object")
    return value


def needed(payload: dict[str, Any], name: str, most: int = _NAME) -> str:
    """A text that must be there."""
    value = payload.get(name)
    if not isinstance(value, str) or not value.strip():
        raise WrongShape(f"it has no {name}")
    return value[:most]


def text(payload: dict[str, Any], name: str, most: int = WIDE) -> str:
    value = payload.get(name)
    return value[:most] if isinstance(value, str) else ""


def name_in(payload: dict[str, Any], name: str) -> str:
    value = payload.get(name)
    return value[:_NAME] if isinstance(value, str) else ""


def path_in(payload: dict[str, Any], name: str) -> str:
    value = payload.get(name)
    return value[:_PATH] if isinstance(value, str) else ""


def inside(payload: dict[str, Any], name: str) -> dict[str, Any]:
    """An object within, empty if there is none."""
    value = payload.get(name)
    return value if isinstance(value, dict) else {}


def listed(payload: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The objects of a list within, no more than `MOST`."""
    value = payload.get(name)
    found = value[:MOST] if isinstance(value, list) else []
    return [one for one in found if isinstance(one, dict)]


def count(value: object) -> int | None:
    """A whole number that can be kept; None for anything else."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return value if is_count and 0 <= value < _MAX_NUMBER else None  # type: ignore[operator,return-value]


def moment(value: object) -> int:
    """Milliseconds of a time written as ISO 8601 or as a number of them; 0 for anything else."""
    if isinstance(value, str):
        try:
            told = datetime.fromisoformat(value[:40])
            # Without a zone it is UTC: nothing depends on where it is read.
            return max(
                0, int((told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp() * 1000)
            )
        except (ValueError, OverflowError):
            return 0
    return count(value) or 0


def first(texts: Iterable[str]) -> str:
    return next(filter(None, texts), "")


def one_line(words: str, most: int = _LINE) -> str:
    """The beginning of a text on one line."""
    line = " ".join(words[: 4 * most].split())
    return line if len(line) <= most and len(words) <= 4 * most else _begun(line[: most - 1]) + "…"


def shortened(words: str, most: int) -> str:
    return words if len(words) <= most else _begun(words[: most - 1]) + "…"


_PIECE = re.compile(r"""[^\s/:=?&"',;]*\Z""")


def _begun(words: str) -> str:
    """Without its last word, of which there may be half: half a secret is not recognized as one."""
    return _PIECE.sub("", words, count=1)


def digest(content: object) -> str:
    """The SHA-256 of a file with this text; empty if there is none that it can be."""
    if not isinstance(content, str):
        return ""
    try:
        return digest_of(content.encode())
    except UnicodeEncodeError:
        return ""


# -- what was asked ----------------------------------------------------------------------------


def prompt_of(heard: Heard) -> str:
    """What a user asked; nothing if a machine spoke in a user's place."""
    texts = (m.text for m in heard.moves if isinstance(m, MessageSent) and m.role == "user")
    return next(texts, "")


def goal_of(prompt: str) -> str:
    """The first sentence of what was asked, as the goal of a session."""
    line = " ".join(terminal(prompt[: 20 * GOAL], newlines=True).split())
    found = re.match(r".{8,}?[.!?](?=\s|$)", line)
    return shorten(found[0].rstrip(".") if found else line, GOAL)
