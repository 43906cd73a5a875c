"""The rules of the `orchestrator` format: its words, its limits, and what it requires.

`RULES` is checked by `check_value`. `find_oddities` reports values that contradict each other
though each is allowed, and text that another program decoded wrongly; those are never errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from typing import Any

from msgspec import Struct

from forestay.base.findings import Finding
from forestay.formats.coerce import Node, mapping, sequence, text
from forestay.formats.fields import COUNT
from forestay.formats.port import INFO, WARNING, Where
from forestay.formats.schema import (
    END,
    EXTRA_RULE,
    SECOND,
    Rule,
    check_time_order,
    check_unique_agents,
    count_rule,
    list_rule,
    nodes,
    object_rule,
    stamp_rule,
    text_rule,
    warn,
)
from forestay.formats.status_words import ALSO_SESSION, ALSO_UNIT, unit_status

ID = "orchestrator"
VERSION = "1.0"

STATUSES = ("created", "in_progress", "paused", "complete", "aborted")
AGENT_STATUSES = ("in_progress", "complete", "failure")
LIFECYCLE: dict[str, tuple[str, ...]] = {
    "created": ("in_progress", "aborted"),
    "in_progress": ("paused", "complete", "aborted"),
    "paused": ("in_progress", "aborted"),
    "complete": (),
    "aborted": (),
}
"""Status → the statuses that may follow it. A complete or aborted session is archived."""


class Mode(Struct, frozen=True):
    """The number of agents that run at once, and the percentage at which context is compressed."""

    agents: int
    compress_at: int


MODES = {
    "default": Mode(2, 70),
    "debug": Mode(1, 90),
    "optimize": Mode(4, 60),
    "release": Mode(4, 85),
}
WARN_ABOVE, COMPRESS_ABOVE = 70_000, 100_000


def percentage(tokens: int, window: int) -> int:
    """Return how much of the context window is used, in whole percents."""
    return round(100 * tokens / window) if window > 0 else 0


def pressure(tokens: int) -> str:
    """Return what to do at this number of tokens: "" (nothing), `warn` or `compress`."""
    if tokens > COMPRESS_ABOVE:
        return "compress"
    return "warn" if tokens > WARN_ABOVE else ""


def may_become(word: str, next_word: str) -> bool:
    """Return whether the specification allows one status after another."""
    return next_word in LIFECYCLE.get(word, ())


# --- text decoded wrongly ----------------------------------------------------------------------

SIGNS = ("└──", "🔄", "✅", "⚠️")
_OLDER_ENCODINGS = ("cp1254", "cp1252")


def misread(words: str) -> list[str]:
    """Return the signs (`SIGNS`) in a text whose UTF-8 was decoded as Windows-1254 or 1252."""
    original = [words.encode(each, "replace").decode(errors="ignore") for each in _OLDER_ENCODINGS]
    return [sign for sign in SIGNS if any(sign[0] in text for text in original)]


# --- rules of values ---------------------------------------------------------------------------


def _stamp(req: str, **more: Any) -> Rule:
    return stamp_rule(req, SECOND, "a time, YYYY-MM-DDTHH:MM:SSZ", **more)


_SESSION_ID = rf"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}-[0-9A-Za-z]{{1,32}}{END}"
_AGENT = object_rule(
    "S4-17",
    {
        "id": text_rule("S4-17", shape=r"\S", code="empty-text", says="an agent's id"),
        "type": text_rule("S4-18"),
        "task": text_rule("S4-19"),
        "status": text_rule("S4-20", words=AGENT_STATUSES, also=tuple(ALSO_UNIT)),
        "started": _stamp("S4-21"),
        # Only finished agents have these; many programs write null for others.
        "completed": _stamp("S4-22", null=True),
        "result_summary": text_rule("S4-23", null=True),
        "progress": count_rule("S4-25", 100),
        "context_tokens": count_rule("S4-24"),
    },
    "id status",
    optional=("completed", "result_summary", "progress", "context_tokens"),
)
_DONE = object_rule(
    "S4-26",
    {
        "task": text_rule("S4-26"),
        "outcome": text_rule("S4-27"),
        "files": list_rule("S4-28", text_rule("S4-28")),
    },
    "task",
    optional=("outcome", "files"),
    bare="bare-text",
)
_DECISION = object_rule(
    "S4-30",
    {
        "decision": text_rule("S4-30"),
        "rationale": text_rule("S4-31"),
        "timestamp": _stamp("S4-32"),
    },
    "decision",
    bare="bare-text",
)
_ERROR = object_rule(
    "S4-36",
    {
        "message": text_rule("S4-36"),
        "category": text_rule("S4-36"),
        "agent": text_rule("S4-36"),
        "timestamp": _stamp("S4-36"),
    },
    "",
    mild=True,
    free=True,
    optional=("message", "category", "agent", "timestamp"),
)
_USAGE_RULE = object_rule(
    "S4-33",
    {
        "estimated_tokens": count_rule("S4-33"),
        "percentage": count_rule("S4-34"),
        "last_compression": _stamp("S4-35", null=True),
    },
    "",
)
_PROJECT_RULE = object_rule(
    "S4-11",
    {
        "name": text_rule("S4-11"),
        "path": text_rule("S4-12"),
        "git_branch": text_rule("S4-13", null=True),
    },
    "",
)
RULES = object_rule(
    "S4-7",
    {
        "schema_version": text_rule(
            "S4-7",
            shape=rf"^1\.0{END}",
            code="unknown-version",
            says='the known version, "1.0"',
        ),
        "session_id": text_rule(
            "S4-8",
            shape=r"\S",
            code="empty-text",
            fine=_SESSION_ID,
            style="odd-session-id",
            says="YYYY-MM-DD-xxxxxx",
        ),
        "created": _stamp("S4-9"),
        "updated": _stamp("S4-10"),
        "project": _PROJECT_RULE,
        "goal": text_rule("S4-14"),
        "mode": text_rule(
            "S4-15",
            # The specification has one example; its companion has the other modes.
            fine=rf"^({'|'.join(MODES)}){END}",
            style="unknown-word",
            says=f"one of {', '.join(MODES)}",
        ),
        "status": text_rule("S4-16", words=STATUSES, also=tuple(ALSO_SESSION)),
        "agents": list_rule("S4-17", _AGENT),
        "completed_work": list_rule("S4-26", _DONE),
        "pending_tasks": list_rule("S4-29", text_rule("S4-29")),
        "decisions_made": list_rule("S4-30", _DECISION),
        "context_usage": _USAGE_RULE,
        "errors": list_rule("S4-36", _ERROR),
        **EXTRA_RULE,
    },
    "schema_version session_id created goal status",
    optional=tuple(EXTRA_RULE),
)
ROOT, AGENT_ORDER = tuple(RULES.keys), tuple(_AGENT.keys)
WORK_ORDER, DECISION_ORDER = tuple(_DONE.keys), tuple(_DECISION.keys)
ERROR_ORDER, USAGE_ORDER = tuple(_ERROR.keys), tuple(_USAGE_RULE.keys)
PROJECT_ORDER = tuple(_PROJECT_RULE.keys)

_ALIASES = {
    "created_at": "created",
    "started_at": "created",
    "updated_at": "updated",
    "completed_at": "the time it was completed",
    "paused_at": "the time it was paused",
    "resumed_at": "the time it was resumed",
    "project_path": "project.path",
    "files_modified": "changed files",
}
"""Key in real files that the specification does not have → what it is read as."""


def wrong_id(native_id: str) -> str:
    """Return why a session cannot have this id, or an empty string."""
    if re.search(_SESSION_ID, native_id) is None:
        return "a day and a short suffix are needed: YYYY-MM-DD-xxxxxx"
    try:
        date.fromisoformat(native_id[:10])
    except ValueError:
        return f"{native_id[:10]} is not a day of the calendar"
    return ""


# --- checks across values ----------------------------------------------------------------------


def as_alias(finding: Finding) -> Finding:
    """Return the finding of an unknown key that we read anyway as an `alias-key`."""
    if finding.code != "unknown-key" or finding.where not in _ALIASES:
        return finding
    read_as = _ALIASES[finding.where]
    message = f"{finding.where} is not a key of the specification; it is read as {read_as}"
    severity = WARNING if finding.severity == INFO else finding.severity
    return finding._replace(code="alias-key", severity=severity, what=message, requirement="S4-7")


def find_oddities(root: Node, where: Where) -> Iterator[Finding]:
    """Yield findings that no rule for a single value can express; never errors."""
    yield from _check_id(text(root.get("session_id")))
    yield from check_time_order(root, ("created", "updated"), "", "S4-10", where)
    agents = nodes(root, "agents")
    for at, agent in agents:
        yield from _check_agent(agent, at, where)
    yield from check_unique_agents(agents, "S4-17")
    yield from _check_usage(root, where)
    yield from _check_mode(root, where)
    for at, words in _texts(root):
        if signs := misread(words):
            message = f"{at} holds UTF-8 that was misread as Windows-1254: {' '.join(signs[:5])}"
            yield warn("misread-text", message, at, "S4-92")


def _check_id(id: str) -> Iterator[Finding]:
    """Check that the date in an id is a real day; ids of another form already break a rule."""
    if re.search(_SESSION_ID, id) and (why := wrong_id(id)):
        yield warn("odd-session-id", f"session_id: {why}", "session_id", "S4-8")


def _check_agent(agent: Node, at: str, where: Where) -> Iterator[Finding]:
    yield from check_time_order(agent, ("started", "completed"), at, "S4-22", where)
    status = unit_status(ID, text(agent.get("status")))
    ends = {"completed": "S4-22", "result_summary": "S4-23"}
    for key, req in ends.items():
        if status == "running" and agent.get(key) is not None:
            yield warn("running-has-end", f"{at} is running, but has {key}", f"{at}.{key}", req)
        elif status == "done" and agent.get(key) is None:
            yield warn("missing-key", f"{at}.{key} is missing", f"{at}.{key}", req)


def _check_usage(root: Node, where: Where) -> Iterator[Finding]:
    usage = mapping(root.get("context_usage"))
    tokens = COUNT.read(usage.get("estimated_tokens"), where)
    stated = COUNT.read(usage.get("percentage"), where)
    share = percentage(tokens or 0, where.window)
    if tokens is not None and stated is not None and stated != share:
        message = f"{tokens} tokens are {share} % of {where.window}, not {stated} %"
        yield warn("percentage-differs", message, "context_usage.percentage", "X4-3", INFO)
    if word := pressure(tokens or 0):
        limit = COMPRESS_ABOVE if word == "compress" else WARN_ABOVE
        advice = "compress it" if word == "compress" else "it is getting full"
        message = f"the context has {tokens} tokens, more than {limit}: {advice}"
        yield warn(f"tokens-{word}", message, "context_usage.estimated_tokens", "X4-3", INFO)


def _check_mode(root: Node, where: Where) -> Iterator[Finding]:
    """Report more agents or tokens than the mode is meant for."""
    name = text(root.get("mode"))
    if name not in MODES:
        return
    mode, agents = MODES[name], map(mapping, sequence(root.get("agents")))
    running = sum(unit_status(ID, text(one.get("status"))) == "running" for one in agents)
    if running > mode.agents:
        message = f"{running} agents are running; {name} mode is for {mode.agents}"
        yield warn("many-agents", message, "agents", "X4-2", INFO)
    tokens = COUNT.read(mapping(root.get("context_usage")).get("estimated_tokens"), where) or 0
    share = percentage(tokens, where.window)
    if share > mode.compress_at:
        message = (
            f"{share} % of the context is used; {name} mode compresses at {mode.compress_at} %"
        )
        yield warn("compress-due", message, "context_usage.estimated_tokens", "X4-2", INFO)


def _texts(value: Any, at: str = "") -> Iterator[tuple[str, str]]:
    """Yield every text in a value with its path."""
    if isinstance(value, str):
        yield at, value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _texts(each, f"{at}.{key}" if at else key)
    elif isinstance(value, list):
        for place, each in enumerate(value):
            yield from _texts(each, f"{at}[{place}]")
