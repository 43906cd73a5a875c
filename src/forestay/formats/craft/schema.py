"""The rules of the `craft` format: its words, its schema, and checks beyond a schema.

`check_value` checks `RULES`, which are also published as JSON Schema: `session-state-v1.json` for
what a reader can expect, `session-state-v1.strict.json` for what we write. `find_oddities` reports
values that contradict each other though each is allowed; those are never errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from forestay.base.findings import Finding
from forestay.formats import timestamps
from forestay.formats.coerce import Node, mapping, sequence, text
from forestay.formats.fields import COUNT, NAMES
from forestay.formats.port import INFO, Where
from forestay.formats.schema import (
    DIALECT,
    END,
    EXTRA_RULE,
    MILLISECOND,
    Rule,
    check_time_order,
    check_unique_agents,
    count_rule,
    list_rule,
    nodes,
    object_rule,
    schema,
    stamp_rule,
    text_rule,
    warn,
)
from forestay.formats.status_words import unit_status

ID = "craft"
SCHEMA = "https://data-wise.github.io/craft/schemas/session-state-v1.json"
STRICT_SCHEMA = "urn:forestay:session-state-v1.strict"
VERSIONS = (("1.0.0", "2026-01-17", "Initial schema definition"),)
"""The versions of the specification: number, day, what changed."""
VERSION = VERSIONS[-1][0]

MODES = ("debug", "default", "optimize", "release")
STATUSES = ("in_progress", "paused", "completed", "error", "aborted")
AGENT_STATUSES = ("pending", "running", "completed", "error", "timeout")
RESULTS = ("success", "failure", "timeout", "aborted")
CATEGORIES = ("transient", "resource", "configuration", "logical", "permanent")
ACTIONS = ("created", "modified", "deleted")
SYNC_STATUSES = ("success", "pending", "error")
BACKENDS = ("claude-desktop", "local", "s3")

UNKNOWN_AGENT = "unknown"
"""The name of an unknown agent in a file change."""


_SAYS = "a time, YYYY-MM-DDTHH:mm:ss.sssZ"


def _stamp(req: str, **more: Any) -> Rule:
    return stamp_rule(req, MILLISECOND, _SAYS, **more)


def _share(req: str, **more: Any) -> Rule:
    return Rule(type="number", req=req, low=0, high=1, **more)


def _filled(req: str, says: str, **more: Any) -> Rule:
    return text_rule(req, shape=r"\S", code="empty-text", says=says, **more)


def _hash(req: str) -> Rule:
    sha256 = rf"^[0-9a-f]{{64}}{END}"
    return text_rule(req, null=True, fine=sha256, style="not-sha256", says="SHA-256, 64 digits")


_GROUPS = "-".join(f"[0-9A-Za-z]{{{n}}}" for n in (8, 4, 4, 4, 12))
UUID4 = rf"^[0-9a-f]{{8}}-[0-9a-f]{{4}}-4[0-9a-f]{{3}}-[89ab][0-9a-f]{{3}}-[0-9a-f]{{12}}{END}"
_ABSOLUTE = r"^(/|\\\\|[A-Za-z]:[\\/])"

_ERROR = object_rule(
    "S2-30",
    {
        "category": text_rule("S2-31", words=CATEGORIES),
        "message": text_rule("S2-32"),
        "retry_count": count_rule("S2-33"),
        "last_retry_at": _stamp("S2-34", null=True),
    },
    "message",
    null=True,
)
ARTIFACTS = {"files_created": "S2-36", "files_modified": "S2-37", "files_deleted": "S2-38"}
_AGENT = object_rule(
    "S2-20",
    {
        "id": _filled("S2-21", "an agent's id"),
        "type": _filled("S2-22", "an agent's type"),
        "status": text_rule("S2-23", words=AGENT_STATUSES),
        "started_at": _stamp("S2-24", null=True),
        "completed_at": _stamp("S2-25", null=True),
        "duration_seconds": count_rule("S2-26", null=True),
        "progress": _share("S2-27", null=True),
        "result": text_rule("S2-28", words=RESULTS, null=True),
        "blocking_on": text_rule("S2-29", null=True),
        "error": _ERROR,
        "output_summary": text_rule("S2-35", null=True),
        "artifacts": object_rule(
            "S2-36", {key: list_rule(req, text_rule(req)) for key, req in ARTIFACTS.items()}
        ),
    },
    "id type status",
)
_DECISION = object_rule(
    "S2-47",
    {
        "timestamp": _stamp("S2-48"),
        "context": text_rule("S2-49"),
        "options": list_rule("S2-50", text_rule("S2-50")),
        "chosen": text_rule("S2-51"),
        "reasoning": text_rule("S2-52", null=True),
    },
    "context chosen",
    bare="bare-decision",
)
_FILE = object_rule(
    "S2-53",
    {
        "path": _filled("S2-54", "a path in the project"),
        "action": text_rule("S2-55", words=ACTIONS),
        "agent_id": text_rule("S2-56"),
        "timestamp": _stamp("S2-57"),
        "lines_added": count_rule("S2-58", null=True),
        "lines_removed": count_rule("S2-59", null=True),
        "hash_before": _hash("S2-60"),
        "hash_after": _hash("S2-61"),
    },
    "path action",
    bare="bare-path",
)
CONTEXT = object_rule(
    "S2-62",
    {
        "estimated_tokens": count_rule("S2-63"),
        "compression_count": count_rule("S2-64"),
        "last_compression": _stamp("S2-65", null=True),
        "by_agent": Rule(type="object", req="S2-66", each=count_rule("S2-66")),
    },
    "estimated_tokens",
)
TELEPORTATION = object_rule(
    "S2-67",
    {
        "enabled": Rule(type="boolean", req="S2-68"),
        "last_sync": _stamp("S2-69", null=True),
        "sync_status": text_rule("S2-70", words=SYNC_STATUSES, null=True),
        "sync_error": text_rule("S2-71", null=True),
        "devices": list_rule("S2-72", text_rule("S2-72")),
        "storage_backend": text_rule("S2-73", words=BACKENDS),
        "encrypted": Rule(type="boolean", req="S2-74"),
        "shared_with": list_rule("S2-75", text_rule("S2-75"), null=True),
    },
    "enabled",
)
METADATA = Rule(
    type="object",
    req="S2-76",
    free=True,
    keys={
        "git_branch": text_rule("S2-77", null=True),
        "git_commit": text_rule("S2-78", null=True),
        "craft_version": text_rule("S2-79"),
        "tags": list_rule("S2-80", text_rule("S2-80")),
        "notes": text_rule("S2-81", null=True),
    },
)
_NEEDED = {
    "S2-86": "schema_version",
    "S2-87": "session_id",
    "S2-88": "created_at updated_at",
    "S2-89": "device project goal",
    "S2-90": "mode status progress",
    "S2-91": "agents completed_work pending_tasks",
    "S2-92": "files_modified context_usage",
    "S2-93": "teleportation",
}
"""Requirement → the keys that it demands in every file."""
RULES = Rule(
    type="object",
    req="S2-7",
    need={key: req for req, keys in _NEEDED.items() for key in keys.split()},
    want={"$schema": "S2-6", "decisions_made": "S2-47"},
    keys={
        "$schema": text_rule(
            "S2-6",
            fine=rf"^{SCHEMA.replace('.', '[.]')}{END}",
            style="other-schema",
            says="the address of the schema",
        ),
        "schema_version": text_rule(
            "S2-10",
            shape=rf"^1\.(0|[1-9][0-9]{{0,8}})\.(0|[1-9][0-9]{{0,8}}){END}",
            code="unknown-version",
            fine=rf"^1\.0\.0{END}",
            style="newer-version",
            says="version 1.0.0 of the schema",
        ),
        "session_id": text_rule(
            "S2-9",
            shape=f"^{_GROUPS}{END}",
            code="bad-session-id",
            fine=UUID4,
            style="not-uuid",
            says="a UUID of version 4",
        ),
        "created_at": _stamp("S2-12"),
        "updated_at": _stamp("S2-13"),
        "device": _filled("S2-14", "the name of a device"),
        "project": _filled(
            "S2-15", "the absolute path of the project", fine=_ABSOLUTE, style="relative-project"
        ),
        "goal": _filled("S2-16", "what is to be done"),
        "mode": text_rule("S2-17", words=MODES),
        "status": text_rule("S2-18", words=STATUSES),
        "progress": _share("S2-19"),
        "agents": list_rule("S2-20", _AGENT),
        "completed_work": list_rule("S2-45", text_rule("S2-45")),
        "pending_tasks": list_rule("S2-46", text_rule("S2-46")),
        "decisions_made": list_rule("S2-47", _DECISION),
        "files_modified": list_rule("S2-53", _FILE),
        "context_usage": CONTEXT,
        "teleportation": TELEPORTATION,
        "metadata": METADATA,
        **EXTRA_RULE,
    },
)
ROOT = tuple(RULES.keys)
AGENT_ORDER, FILE_ORDER = tuple(_AGENT.keys), tuple(_FILE.keys)
DECISION_ORDER, ERROR_ORDER = tuple(_DECISION.keys), tuple(_ERROR.keys)


def published(*, strict: bool = False) -> dict[str, Any]:
    """Return the JSON Schema 2020-12 of craft files; `strict` for files that we write."""
    history = "; ".join(" ".join(version) for version in VERSIONS)
    return {
        "$schema": DIALECT,
        "$id": STRICT_SCHEMA if strict else SCHEMA,
        "title": f"Session state, version {VERSION}{', as written by Forestay' if strict else ''}",
        "$comment": f"Versions: {history}",
        **schema(RULES, strict=strict),
    }


# --- values computed from others ------------------------------------------------------------------

RESULT_OF = {"done": "success", "failed": "failure", "timed_out": "timeout", "skipped": "aborted"}


def by_agent(root: Node) -> dict[str, int]:
    found = mapping(mapping(root.get("context_usage")).get("by_agent"))
    read = {agent: COUNT.read(tokens, Where()) for agent, tokens in found.items()}
    return {agent: tokens for agent, tokens in read.items() if agent and tokens is not None}


def times(of: Node, where: Where) -> tuple[int | None, int | None]:
    read = partial(timestamps.read, naive=where.naive)
    return read(of.get("started_at")), read(of.get("completed_at"))


def duration(times: tuple[int | None, int | None]) -> int | None:
    start, end = times
    return None if start is None or end is None else max(0, round((end - start) / 1000))


# --- checking ----------------------------------------------------------------------------------


def find_oddities(root: Node, where: Where) -> Iterator[Finding]:
    """Yield findings that no schema can express; never errors, because readers tolerate them."""
    yield from check_time_order(root, ("created_at", "updated_at"), "", "S2-13", where)
    for at, agent in nodes(root, "agents"):
        yield from _check_agent(agent, at, where)
    yield from _check_ids(root)
    for at, choice in nodes(root, "decisions_made"):
        offered = NAMES.read(choice.get("options"), where)
        if text(choice.get("chosen")) and offered and choice["chosen"] not in offered:
            message = f"{at}.chosen is none of the options"
            yield warn("chosen-not-offered", message, f"{at}.chosen", "S2-51")
    for at, change in nodes(root, "files_modified"):
        yield from _check_change(change, at)
    yield from _check_tokens(root)
    yield from _check_metadata(root)


def _check_agent(agent: Node, at: str, where: Where) -> Iterator[Finding]:
    yield from check_time_order(agent, ("started_at", "completed_at"), at, "S2-25", where)
    lasted, stated = duration(times(agent, where)), COUNT.read(agent.get("duration_seconds"), where)
    if lasted is not None and stated is not None and abs(lasted - stated) > 1:
        message = f"{at}.duration_seconds is {stated}, but completed − started is {lasted}"
        yield warn("wrong-duration", message, f"{at}.duration_seconds", "S2-44")
    if unit_status(ID, text(agent.get("status"))) == "running":
        ends = ("completed_at", "duration_seconds", "result", "output_summary")
        for key in ends:
            if agent.get(key) is not None:
                message = f"{at} is running, but has {key} already"
                yield warn("running-has-end", message, f"{at}.{key}", "S2-83")
    expected = RESULT_OF.get(unit_status(ID, text(agent.get("status"))) or "")
    if expected and agent.get("result") not in (expected, None, "aborted"):
        message = f"{at}.result does not fit the status {agent['status']}"
        yield warn("result-differs", message, f"{at}.result", "S2-28")


def _check_ids(root: Node) -> Iterator[Finding]:
    agents = nodes(root, "agents")
    yield from check_unique_agents(agents, "S2-21")
    known = {*(text(agent.get("id")) for _, agent in agents), "", UNKNOWN_AGENT}
    for at, id in _named_agents(root):
        if id not in known:
            yield warn(
                "unknown-agent", f"{at} names {id[:60]!r}, which is not an agent", at, "S2-21"
            )


def _named_agents(root: Node) -> Iterator[tuple[str, str]]:
    for at, agent in nodes(root, "agents"):
        yield f"{at}.blocking_on", text(agent.get("blocking_on"))
    for at, change in nodes(root, "files_modified"):
        yield f"{at}.agent_id", text(change.get("agent_id"))
    for id in mapping(mapping(root.get("context_usage")).get("by_agent")):
        yield f"context_usage.by_agent.{id}", id


def _check_change(change: Node, at: str) -> Iterator[Finding]:
    if re.match(_ABSOLUTE, text(change.get("path"))):
        message = f"{at}.path is not relative to the project"
        yield warn("absolute-path", message, f"{at}.path", "S2-54")
    if change.get("action") == "created" and isinstance(change.get("hash_before"), str):
        message = f"{at} was created, but has a hash of an earlier content"
        yield warn("hash-before-creation", message, f"{at}.hash_before", "S2-60")


def _check_tokens(root: Node) -> Iterator[Finding]:
    total = COUNT.read(mapping(root.get("context_usage")).get("estimated_tokens"), Where())
    spent = sum(by_agent(root).values())
    if spent and total is not None and spent != total:
        message = f"the agents' tokens add up to {spent}, not to {total}"
        yield warn("tokens-differ", message, "context_usage.by_agent", "S2-66", INFO)


def _check_metadata(root: Node) -> Iterator[Finding]:
    shared = sequence(mapping(root.get("teleportation")).get("shared_with"))
    for place, each in enumerate(shared):
        if isinstance(each, str) and not re.fullmatch(r"[^@\s]+@[^@\s]+", each):
            at = f"teleportation.shared_with[{place}]"
            yield warn("not-an-address", f"{at} is not an e-mail address", at, "S2-75")
    metadata = mapping(root.get("metadata"))
    for key, (shape, code, req) in _METADATA_SHAPES.items():
        if isinstance(metadata.get(key), str) and not re.fullmatch(shape, metadata[key]):
            at = f"metadata.{key}"
            yield warn(code, f"{at} has an unusual form: {metadata[key][:60]!r}", at, req)


_METADATA_SHAPES = {
    "git_commit": (r"[0-9a-f]{40}|[0-9a-f]{64}", "not-a-commit", "S2-78"),
    "craft_version": (r"[0-9]+\.[0-9]+\.[0-9]+([-+].*)?", "not-a-version", "S2-79"),
}
