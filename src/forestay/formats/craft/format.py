"""The `craft` format: one JSON file per session, `{session_id}.json`, with its whole history.

    agents            every agent spawned, with status, times, error and the files it touched
    completed_work    sentences: steps that are done
    pending_tasks     sentences: all other steps
    decisions_made, files_modified      logs: entries are added and completed, removed if withdrawn
    context_usage     tokens, the total and by agent
    teleportation     the state of sync; we write it if this machine has remotes, else it is read
                      as attributes `craft.teleportation.*`
    metadata          free; attributes `craft.craft_version`, `craft.tags`, `craft.notes`

An attribute that stands for a list holds its elements as lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec.structs import replace

from forestay.base.findings import Finding
from forestay.formats import fields as form
from forestay.formats import timestamps
from forestay.formats.coerce import Node, mapping, sequence, text
from forestay.formats.craft import schema
from forestay.formats.facts import AgentFact, DecisionFact, Facts, FileFact, Scalar
from forestay.formats.fields import COUNT, FRACTION, MILLISECONDS, NAMES, TEXT, Field, Text
from forestay.formats.port import (
    Bundle,
    Conventions,
    Format,
    Reading,
    Salvaged,
    Signs,
    Travel,
    Tree,
    Where,
)
from forestay.formats.required_keys import restore_required
from forestay.formats.salvage import salvage_json
from forestay.formats.schema import check_value
from forestay.formats.status_words import session_status, session_word, unit_status, unit_word

REGISTRY_FILE = "index.json"
ORDINARY = "logical"
"""The category of an error that was recorded without one."""


# --- fields ------------------------------------------------------------------------------------

_GOAL = Field("goal", ("goal",), Text("No goal given"), sticky=True)
_CREATED = Field("began_at", ("created_at",), MILLISECONDS, sticky=True)
_UPDATED = Field("updated_at", ("updated_at",), MILLISECONDS, sticky=True)
_DEVICE = Field("device", ("device",), Text("unknown"), sticky=True)
_PROJECT = Field("project_path", ("project",), Text("/"), sticky=True)
_MODE = Field("mode", ("mode",), TEXT, sticky=True)
_PROGRESS = Field("progress", ("progress",), FRACTION, sticky=True)
_SESSION = (_GOAL, _CREATED, _UPDATED, _DEVICE, _PROJECT, _MODE, _PROGRESS)
_USAGE = (
    Field("tokens", ("estimated_tokens",), COUNT, sticky=True),
    Field("compressions", ("compression_count",), COUNT, sticky=True),
    Field("compressed_at", ("last_compression",), MILLISECONDS, sticky=True),
)
_GIT = (
    Field("git_branch", ("git_branch",), TEXT, sticky=True),
    Field("git_commit", ("git_commit",), TEXT, sticky=True),
)
_RUN = (
    Field("type", ("type",), Text("custom"), "custom"),
    Field("started_at", ("started_at",), MILLISECONDS),
    Field("ended_at", ("completed_at",), MILLISECONDS),
    Field("fraction", ("progress",), FRACTION),
    Field("blocking_on", ("blocking_on",), TEXT),
    Field("result", ("output_summary",), TEXT),
)
_MADE = (
    Field("created", ("files_created",), NAMES, []),
    Field("modified", ("files_modified",), NAMES, []),
    Field("deleted", ("files_deleted",), NAMES, []),
)
_PROBLEM = (
    Field("error", ("message",), TEXT, ""),
    Field("retries", ("retry_count",), COUNT, 0),
    Field("retried_at", ("last_retry_at",), MILLISECONDS),
)
_CHANGE = (
    Field("at", ("timestamp",), MILLISECONDS, sticky=True),
    Field("added", ("lines_added",), COUNT, sticky=True),
    Field("removed", ("lines_removed",), COUNT, sticky=True),
    Field("before", ("hash_before",), TEXT, sticky=True),
    Field("after", ("hash_after",), TEXT, sticky=True),
    Field("agent", ("agent_id",), Text(schema.UNKNOWN_AGENT), schema.UNKNOWN_AGENT, sticky=True),
)
_CHOICE = (
    Field("at", ("timestamp",), MILLISECONDS, sticky=True),
    Field("because", ("reasoning",), TEXT),
)


_ATTRIBUTES = {
    "teleportation": {f"craft.teleportation.{key}": key for key in schema.TELEPORTATION.keys},
    "metadata": {f"craft.{key}": key for key in ("craft_version", "tags", "notes")},
}
"""Section → attribute → its key in the section."""
_PLAIN: dict[str, type[bool | str]] = {"boolean": bool, "string": str}


def _get_attribute(value: Any, kind: str) -> Scalar:
    if kind == "array":
        return "\n".join(NAMES.read(value, Where())) if isinstance(value, list) else None
    return value if isinstance(value, _PLAIN[kind]) else None


def _native(fact: Scalar, kind: str) -> Any:
    """Return the value to write for an attribute; None if the attribute has another type."""
    if kind == "array":
        return [line for line in fact.split("\n") if line] if isinstance(fact, str) else None
    return fact if isinstance(fact, _PLAIN[kind]) else None


# --- reading -----------------------------------------------------------------------------------


def _agent_status(of: Node) -> str:
    """Return an agent's status: blocked if pending and waiting for another, skipped if aborted."""
    status = unit_status(schema.ID, text(of.get("status"))) or "pending"
    if status == "pending" and text(of.get("blocking_on")):
        return "blocked"
    return "skipped" if status == "done" and of.get("result") == "aborted" else status


def _category(of: Node) -> str:
    return text(of.get("category")) if of.get("category") in schema.CATEGORIES else ""


def _get_agent(value: Any, where: Where) -> AgentFact | None:
    of = mapping(value)
    if not text(of.get("id")):
        return None
    error = mapping(of.get("error"))
    agent = AgentFact(
        id=of["id"],
        status=_agent_status(of),
        category=_category(error),
        **form.get_fields(of, _RUN, where),
        **form.get_fields(mapping(of.get("artifacts")), _MADE, where),
        **form.get_fields(error, _PROBLEM, where),
    )
    agent.retries = agent.retries or 0
    return agent


def _get_decision(value: Any, where: Where) -> DecisionFact | None:
    of = mapping(value) if isinstance(value, dict) else {"context": value}
    what, chosen = text(of.get("context")), text(of.get("chosen"))
    options = NAMES.read(of.get("options"), where)
    if chosen == what and options in ([], [what]):
        chosen, options = "", []  # a decision without options, as other formats have
    elif chosen and options and chosen not in options:
        options = [*options, chosen]  # the choice must be one of the options
    if not what and not chosen:
        return None
    known = form.get_fields(of, _CHOICE, where)
    return DecisionFact(what or chosen, options=options, chosen=chosen, **known)


def _get_file(value: Any, where: Where) -> FileFact | None:
    of = mapping(value) if isinstance(value, dict) else {"path": value}
    if not text(of.get("path")):
        return None
    action = of.get("action") if of.get("action") in schema.ACTIONS else "modified"
    return FileFact(of["path"], text(action), **form.get_fields(of, _CHANGE, where))


def _get_attributes(root: Node, where: Where) -> dict[str, Scalar]:
    # Values that depend on the machine are not part of the session.
    sections = ("metadata",) if where.travel else ("teleportation", "metadata")
    return {
        name: known
        for section in sections
        for name, key in _ATTRIBUTES[section].items()
        for kind in [schema.RULES.keys[section].keys[key].type]
        if (known := _get_attribute(mapping(root.get(section)).get(key), kind)) is not None
    }


def _get(name: str, root: Node, where: Where) -> Facts:
    spent = schema.by_agent(root)
    listed = root.get("agents")
    agents = form.read_elements(listed, form.latest_runs(listed, partial(_get_agent, where=where)))
    return Facts(
        native_id=text(root.get("session_id")) or name.removesuffix(".json"),
        status=session_status(schema.ID, text(root.get("status"))) or "active",
        steps=[
            *form.read_elements(root.get("completed_work"), partial(form.get_task, status="done")),
            *form.read_elements(root.get("pending_tasks"), form.get_task),
        ],
        agents=[replace(agent, tokens=spent.get(agent.id)) for agent in agents],
        decisions=form.read_elements(
            root.get("decisions_made"), partial(_get_decision, where=where)
        ),
        files=form.read_elements(root.get("files_modified"), partial(_get_file, where=where)),
        tokens_by_agent=spent,
        attributes=_get_attributes(root, where),
        **form.get_fields(root, _SESSION, where),
        **form.get_fields(mapping(root.get("context_usage")), _USAGE, where),
        **form.get_fields(mapping(root.get("metadata")), _GIT, where),
    )


# --- writing -----------------------------------------------------------------------------------


def _fresh(facts: Facts, where: Where, native_id: str) -> Node:
    """Return a new file with every key of the specification, in its order."""
    now = facts.updated_at or facts.began_at or where.now
    device = facts.device or where.device or _DEVICE.kind.write("", None, where)
    spent = sum(_spent(facts).values())
    return {
        "$schema": schema.SCHEMA,
        "schema_version": schema.VERSION,
        "session_id": native_id,
        "created_at": timestamps.write(facts.began_at or now, milliseconds=True),
        "updated_at": timestamps.write(now, milliseconds=True),
        "device": device,
        "project": facts.project_path or where.project_path or _PROJECT.kind.write("", None, where),
        "goal": _GOAL.kind.write(facts.goal if facts.goal.strip() else "", None, where),
        "mode": facts.mode if facts.mode in schema.MODES else "default",
        "status": session_word(schema.ID, facts.status),
        "progress": FRACTION.write(form.progress_of(facts), None, where),
        "agents": [],
        "completed_work": [],
        "pending_tasks": [],
        "decisions_made": [],
        "files_modified": [],
        "context_usage": {
            "estimated_tokens": spent,
            "compression_count": 0,
            "last_compression": None,
            "by_agent": {},
        },
        "teleportation": _section_of(Travel(devices=(device,))),
        "metadata": {"git_branch": None, "git_commit": None, "tags": [], "notes": None},
    }


def _put_root(root: Node, facts: Facts, where: Where) -> None:
    device = root.get("device")
    _put_session(root, facts, where)
    steps = form.titled(form.tasks_in(facts))
    for key, are_done in (("completed_work", True), ("pending_tasks", False)):
        listed = [step for step in steps if (step.status in form.DONE) is are_done]
        form.put_list(root, key, schema.ROOT, listed, form.TASK)
    read, write = partial(_get_agent, where=where), partial(_put_agent, where=where)
    last = form.latest_runs(root.get("agents"), read, facts.agents)
    entry = form.Entry(last, write, form.by_name("id"))
    form.put_list(root, "agents", schema.ROOT, facts.agents, entry)
    _put_logs(root, facts, where)
    sections: dict[str, Callable[[Node], None]] = {
        "context_usage": partial(_put_usage, facts=facts, where=where),
        "teleportation": partial(_put_attributes, of="teleportation", facts=facts),
        "metadata": partial(_put_metadata, facts=facts, where=where),
    }
    if where.travel is not None:
        sections["teleportation"] = partial(_put_travel, travel=where.travel)
    for section, put in sections.items():
        form.put_section(root, section, put, schema.ROOT)
    sync = mapping(root.get("teleportation"))
    devices = sync.get("devices") if where.travel is None else None
    # A device that writes the file is added to the devices that know the session.
    if root.get("device") not in (device, *sequence(devices)) and isinstance(devices, list):
        root["teleportation"] = {**sync, "devices": [*devices, root["device"]]}


def _put_session(root: Node, facts: Facts, where: Where) -> None:
    form.put_field(root, _GOAL, facts.goal if facts.goal.strip() else "", where, schema.ROOT)
    form.put_field(root, _CREATED, facts.began_at, where, schema.ROOT)
    form.put_machine_value(root, _DEVICE, facts.device, where.device, where, schema.ROOT)
    form.put_machine_value(
        root, _PROJECT, facts.project_path, where.project_path, where, schema.ROOT
    )
    if facts.mode in schema.MODES:
        form.put_field(root, _MODE, facts.mode, where, schema.ROOT)
    form.put_status(root, schema.ID, facts.status, schema.ROOT)
    form.put_latest(root, _UPDATED, facts.updated_at, where, schema.ROOT)
    known = FRACTION.read(root.get("progress"), where)
    figure = facts.progress if known is None else form.progress_of(facts)
    form.put_field(root, _PROGRESS, figure, where, schema.ROOT)


def _put_logs(root: Node, facts: Facts, where: Where) -> None:
    moment = facts.updated_at or facts.began_at or where.now
    withdrawn = where.withdrawn or Facts()
    passes = [*form.match_by_time(lambda each: each.what), *form.reworded()]
    entry: form.Entry[Any] = form.log(_get_decision, _put_decision, passes, where, moment)
    gone: list[Any] = withdrawn.decisions
    form.put_list(root, "decisions_made", schema.ROOT, facts.decisions, entry, gone=gone)
    passes = form.match_by_time(lambda each: (each.path, each.action))
    entry, gone = form.log(_get_file, _put_change, passes, where, moment), withdrawn.files
    files = [change for change in facts.files if change.path]
    form.put_list(root, "files_modified", schema.ROOT, files, entry, gone=gone)


def _put_decision(old: Any, fact: DecisionFact, where: Where, moment: int) -> Any:
    if old is not None and _get_decision(old, where) == fact:
        return old
    chosen = fact.chosen or fact.what
    if old is None:
        stamp = timestamps.write(moment if fact.at is None else fact.at, milliseconds=True)
        made: Node = {"timestamp": stamp, "context": fact.what}
        made |= {"options": fact.options or [chosen], "chosen": chosen, "reasoning": None}
    else:
        made = dict(old) if isinstance(old, dict) else {"context": fact.what}
        known = _get_decision(old, where) or fact
        if is_reworded := known.what != fact.what:
            made["context"] = fact.what
        is_bare = is_reworded and not known.chosen and "chosen" in made
        if is_bare or (known.options, known.chosen) != (fact.options, fact.chosen):
            form.insert(made, "options", fact.options or [chosen], schema.DECISION_ORDER)
            form.insert(made, "chosen", chosen, schema.DECISION_ORDER)
    form.put_fields(made, fact, _CHOICE, where, schema.DECISION_ORDER)
    return made


def _put_change(old: Any, fact: FileFact, where: Where, moment: int) -> Any:
    if old is not None and not isinstance(old, dict):
        return old  # the entry is a path without an object: its program expects that form
    if old is None:
        made: Node = dict.fromkeys(schema.FILE_ORDER)
        made |= {"path": fact.path, "action": fact.action, "agent_id": schema.UNKNOWN_AGENT}
        made["timestamp"] = timestamps.write(moment, milliseconds=True)
    else:
        made = dict(old)
    fact = replace(fact, before=_sha256(fact.before), after=_sha256(fact.after))
    form.put_fields(made, fact, _CHANGE, where, schema.FILE_ORDER)
    return made


def _sha256(digest: str) -> str:
    return digest if re.fullmatch(r"[0-9a-f]{64}", digest) else ""


def _put_agent(old: Any, fact: AgentFact, where: Where) -> Node:
    made = dict(old) if old is not None else _fresh_agent(fact)
    before = schema.times(made, where)
    fact = form.with_stated_progress(fact, _get_agent(old, where))
    form.put_fields(made, fact, _RUN, where, schema.AGENT_ORDER)
    if _agent_status(made) not in (fact.status, _written_status(fact)):
        form.insert(made, "status", unit_word(schema.ID, fact.status), schema.AGENT_ORDER)
        form.insert(made, "result", schema.RESULT_OF.get(fact.status), schema.AGENT_ORDER)
    if schema.times(made, where) != before:
        form.insert(
            made, "duration_seconds", schema.duration(schema.times(made, where)), schema.AGENT_ORDER
        )
    artifacts = dict(mapping(made.get("artifacts")))
    form.put_fields(artifacts, fact, _MADE, where, tuple(schema.ARTIFACTS))
    if artifacts != mapping(made.get("artifacts")):
        form.insert(made, "artifacts", artifacts, schema.AGENT_ORDER)
    _put_error(made, fact, where)
    return made


def _fresh_agent(fact: AgentFact) -> Node:
    made: Node = dict.fromkeys(schema.AGENT_ORDER)
    made |= {"id": fact.id, "type": "custom", "status": unit_word(schema.ID, fact.status)}
    made |= {"result": schema.RESULT_OF.get(fact.status)}
    return made | {"artifacts": {key: [] for key in schema.ARTIFACTS}}


def _written_status(fact: AgentFact) -> str:
    """Return the status that a reader finds in the entry that is written for an agent."""
    word = {
        "status": unit_word(schema.ID, fact.status),
        "result": schema.RESULT_OF.get(fact.status),
    }
    return _agent_status({**word, "blocking_on": fact.blocking_on})


def _put_error(made: Node, fact: AgentFact, where: Where) -> None:
    error = mapping(made.get("error"))
    known = form.get_fields(error, _PROBLEM, where) | {"category": _category(error)}
    known["retries"] = known["retries"] or 0
    if known == {name: getattr(fact, name) for name in known}:
        return
    new: Node | None = None
    if fact.error:
        blank = {"category": ORDINARY, "message": "", "retry_count": 0, "last_retry_at": None}
        new = dict(error or blank)
        form.put_fields(new, fact, _PROBLEM, where, schema.ERROR_ORDER)
        if fact.category in schema.CATEGORIES:
            form.insert(new, "category", fact.category, schema.ERROR_ORDER)
    if error or new:
        form.insert(made, "error", new, schema.AGENT_ORDER)


def _spent(facts: Facts) -> dict[str, int]:
    own = {agent.id: agent.tokens for agent in facts.agents if agent.tokens is not None}
    return own | facts.tokens_by_agent


def _put_usage(usage: Node, facts: Facts, where: Where) -> None:
    form.put_fields(usage, facts, _USAGE, where, tuple(schema.CONTEXT.keys))
    form.put_no_compression(usage, facts, where)
    spent = dict(mapping(usage.get("by_agent")))
    for agent, tokens in _spent(facts).items():
        if COUNT.read(spent.get(agent), where) != tokens:
            spent[agent] = tokens
    if spent:
        form.insert(usage, "by_agent", spent, tuple(schema.CONTEXT.keys))


def _put_metadata(metadata: Node, facts: Facts, where: Where) -> None:
    form.put_fields(metadata, facts, _GIT, where, tuple(schema.METADATA.keys))
    _put_attributes(metadata, "metadata", facts)


def _put_attributes(section: Node, of: str, facts: Facts) -> None:
    rules = schema.RULES.keys[of].keys
    for name, key in _ATTRIBUTES[of].items():
        rule, fact = rules[key], facts.attributes.get(name)
        if name not in facts.attributes or _get_attribute(section.get(key), rule.type) == fact:
            continue
        new = _native(fact, rule.type)
        # Attributes can have any value; write only values that the specification allows.
        if (new is not None or fact is None) and not any(check_value(rule, new, strict=True)):
            form.insert(section, key, new, tuple(rules))


def _put_travel(section: Node, travel: Travel) -> None:
    """Write the state of sync from `travel`; the attributes about it are out of date."""
    for key, value in _section_of(travel).items():
        if key not in section or not form.alike(section[key], value):
            form.insert(section, key, value, tuple(schema.TELEPORTATION.keys))


def _section_of(travel: Travel) -> Node:
    synced = timestamps.write(travel.last_sync, milliseconds=True) if travel.last_sync else None
    return {
        "enabled": travel.enabled,
        "last_sync": synced,
        "sync_status": travel.status or None,
        "sync_error": travel.error or None,
        "devices": list(travel.devices),
        "storage_backend": travel.backend,
        "encrypted": travel.encrypted,
        "shared_with": list(travel.shared_with) or None,
    }


# --- the format --------------------------------------------------------------------------------


def _signs(value: Node) -> int:
    """Return the number of keys that suggest this format, minus those that suggest another."""
    version = text(value.get("schema_version"))
    three = re.match(r"[0-9]+\.[0-9]+\.[0-9]+", version) is not None
    ours = (
        "session-state" in text(value.get("$schema")),
        three,
        three and all(key in value for key in ("session_id", "goal", "status")),
        isinstance(value.get("project"), str),
        "created_at" in value and "updated_at" in value,
        isinstance(value.get("device"), str),
        form.number(value.get("progress")) is not None,
        isinstance(value.get("teleportation"), dict),
        "by_agent" in mapping(value.get("context_usage")),
    )
    theirs = (
        re.fullmatch(r"[0-9]+\.[0-9]+", version) is not None,
        isinstance(value.get("project"), dict),
        "created" in value and "created_at" not in value,
        "updated" in value and "updated_at" not in value,
        "percentage" in mapping(value.get("context_usage")),
        isinstance(value.get("errors"), list),
    )
    return sum(ours) - sum(theirs)


class Craft(Format):
    id = schema.ID
    document = "S2"
    conventions = Conventions(
        logs=("files_modified",),
        travels=True,
        named_after=(".craft/cache/orchestration-sessions", "X2-1"),
        unreadable="S2-85",
    )
    signs = Signs(
        words=rb"session_id|schema_version",
        damaged=rb'"teleportation"|session-state-v1\.json',
        names_in_place=rf"(?!{re.escape(REGISTRY_FILE)}$).*\.json",
    )

    def recognise(self, name: str, value: Any) -> float:
        of = mapping(value)
        if "workflow_type" in of or "current_phase" in of or len(of.keys() & {*form.COMMON}) < 2:
            return 0.0
        signs = _signs(of)
        return min(1.0, 0.3 + 0.1 * signs) if signs >= 2 else 0.0

    def files(self, native_id: str) -> list[str]:
        return [f"{native_id}.json"]

    def new_id(self, facts: Facts, where: Where, taken: frozenset[str]) -> str:
        made = map(_uuid, form.digests(facts, where))
        return next(id for id in made if id not in taken)

    def why_invalid_id(self, native_id: str) -> str:
        if re.search(schema.UUID4, native_id):
            return ""
        return "a UUID of version 4 is needed: xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx"

    def get(self, tree: Tree, where: Where) -> Facts:
        name, value = self._main(tree)
        return _get(name, mapping(value), where)

    def put(self, old: Tree | None, facts: Facts, where: Where) -> Tree:
        made: Tree = dict(old or {})
        name, value = self._main(made)
        if not isinstance(value, dict):
            native_id = facts.native_id or self.new_id(facts, where, frozenset())
            name = name or f"{native_id}.json"
            value = _fresh(facts, where, native_id)
        made[name] = value = dict(value)
        _put_root(value, facts, where)
        return made

    def restore_required(self, tree: Tree, before: Tree, where: Where) -> tuple[Tree, list[str]]:
        return restore_required(self, tree, before, where, lambda _: True)

    def reading(self, tree: Tree, where: Where) -> Reading:
        root = mapping(self._main(tree)[1])
        facts = self.get(tree, where)
        version = text(root.get("schema_version"))
        known = "schema_version" not in root or re.fullmatch(r"1\.0\.[0-9]{1,9}", version)
        return Reading(
            format=schema.ID,
            generation="document" if version else "companion",
            version=version,
            complete=facts.status == "completed",
            status=facts.status,
            progress=facts.progress,
            writable=bool(known),
        )

    def check(self, tree: Tree, where: Where, *, strict: bool = False) -> list[Finding]:
        name, value = self._main(tree)
        found = list(check_value(schema.RULES, value, strict=strict))
        if isinstance(value, dict):
            found += schema.find_oddities(value, where)
        return [finding._replace(file=name) for finding in found]

    def salvage(self, bundle: Bundle, where: Where) -> Salvaged | None:
        name, data = self._main(bundle)
        read = partial(_get, name, where=where)
        return salvage_json(data, read, is_session=form.is_session, wanted=schema.RULES.need)

    def _main(self, tree: Any) -> tuple[str, Any]:
        wanted = [name for name in tree if name != REGISTRY_FILE and "/" not in name]
        return form.main(tree, *wanted)


def _uuid(digits: str) -> str:
    """Return a UUID of version 4 from the digits of a digest."""
    variant = "89ab"[int(digits[16], 16) % 4]
    parts = (digits[:8], digits[8:12], f"4{digits[13:16]}", f"{variant}{digits[17:20]}")
    return "-".join((*parts, digits[20:32]))


FORMAT = Craft()
