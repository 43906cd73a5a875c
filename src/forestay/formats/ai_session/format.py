"""The `ai-session` format: a folder `.ai-session/` as the session-state contract describes it.

    read      files → facts, and the names of the files     write     facts → files
    schema    deviations from the contract                  salvage   facts in damaged files
    history_log    which lines the log lacks

This module combines these modules into a `Format`, and adds the status report and the README of the
folder, which other formats do not have.

The index, `active-features.yaml`, lists all sessions of the folder. If the index cannot be parsed,
the tree that `put` returns must not be written: its new index would hide the other sessions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Set
from typing import Any

from msgspec import Struct

from forestay.base.findings import Finding
from forestay.formats.ai_session import read
from forestay.formats.ai_session.history_log import without_new_commands
from forestay.formats.ai_session.read import ARCHIVE, ARTIFACTS, INDEX, LOG, PLAN, STATE
from forestay.formats.ai_session.salvage import salvage, salvage_index
from forestay.formats.ai_session.schema import LINE_KEYS, check_files
from forestay.formats.ai_session.write import (
    ensured_entry,
    list_files,
    recreate,
    refuses,
    write_facts,
)
from forestay.formats.coerce import copied, mapping, sequence, text
from forestay.formats.facts import CommandFact, Facts
from forestay.formats.port import (
    Bundle,
    Conventions,
    Format,
    Listed,
    Reading,
    Salvaged,
    Signs,
    Tree,
    Where,
)
from forestay.formats.required_keys import restore_required
from forestay.formats.status_words import session_status, session_word, unit_status

README = f"""# Sessions of AI agents

This folder holds the state of the sessions in this project, one folder per session. Agents and
programs that follow the session-state contract read and write it.

| file | what it holds |
|---|---|
| `{INDEX}` | all sessions: when each began and was last active, and its status |
| `{{feature-id}}/{STATE}` | where the session stands: active task, model, times |
| `{{feature-id}}/{PLAN}` | the feature, its phases and their tasks |
| `{{feature-id}}/{LOG}` | what ran and what was recorded, one JSON object per line |
| `{{feature-id}}/artifacts/` | what the session generated |
| `contract-acknowledgment.md` | who has read the contract, and which version of it |

A feature id is a slug and a date: `ai-orchestrator-2025-01-09`.

Lines of `{LOG}` are only ever added. Merge conflicts in `{INDEX}` are settled by hand.
`forestay files check .ai-session` reports what is wrong here, and `forestay doctor` what can be
restored.
"""


class AiSession(Format):
    """The format of specification S0. Keys of its trees are paths relative to `.ai-session/`."""

    id = read.ID
    document = "S0"
    conventions = Conventions(
        order=("implementation-plan.yaml", "history.jsonl", "state.yaml", "active-features.yaml"),
        lock="{id}/.state.lock",
        read_lock="{id}/implementation-plan.yaml",
        put_away=f"../{ARCHIVE}/{{id}}",
        folders=(f"{{id}}/{ARTIFACTS}",),
        shared=(INDEX,),
        artifacts=f"{{id}}/{ARTIFACTS}",
        root_setting="session_root",
        readme=README,
        unreadable="S0-78",
    )
    signs = Signs(
        words=rb"active_features|current_state",
        damaged=rb"(?m)active_features:|^[ \t]*current_state:|model_in_use:|^feature:"
        rb'|^\{.*"duration_ms"',
        names=r"state\..*ya?ml|active-features\..*|implementation-plan\..*|history\.jsonl",
    )
    id_error = "Error: Invalid feature ID"

    def recognise(self, name: str, value: Any) -> float:
        """Return how certainly a file has this format, by its keys: its name can have changed."""
        if isinstance(value, list):
            lines = [mapping(line) for line in value[:20]]
            if not lines:  # a session in which nothing has happened yet
                return 0.3 if name.rpartition("/")[2] == LOG else 0.0
            return 0.8 * sum(map(_is_line, lines)) / len(lines)
        node = mapping(value)
        current = mapping(node.get("current_state"))
        if "active_features" in node:
            return 1.0
        if current:
            return 1.0 if "feature_id" in node or "model_in_use" in current else 0.3
        if "feature_id" in node and ("version" in node or "current_state" in node):
            return 0.5  # the file has only the beginning of a state
        feature, phases = mapping(node.get("feature")), sequence(node.get("phases"))
        by_feature = feature and ("phases" in node or {"id", "created_at"} <= feature.keys())
        is_plan = by_feature or any("phase_id" in mapping(phase) for phase in phases)
        return 0.9 if is_plan else 0.0

    def files(self, native_id: str) -> list[str]:
        return list_files(native_id)

    def file_of(self, name: str, value: Any) -> tuple[str, str]:
        if isinstance(value, list):
            return f"{{id}}/{LOG}", ""
        keys = mapping(value)
        if "active_features" in keys:
            return INDEX, ""
        is_plan = "current_state" not in keys and bool(keys.keys() & {"feature", "phases"})
        id = text(keys.get("feature_id")) or text(mapping(keys.get("feature")).get("id"))
        return f"{{id}}/{PLAN if is_plan else STATE}", id

    def damaged_file_of(self, name: str, data: bytes) -> str:
        if b"active_features" in data or name.startswith("active-features"):
            return INDEX
        is_log = name.endswith(".jsonl")
        return f"{{id}}/{PLAN if b'phases:' in data else LOG if is_log else STATE}"

    def new_id(self, facts: Facts, where: Where, taken: frozenset[str]) -> str:
        began = where.now if facts.began_at is None else facts.began_at
        return read.new_id(facts.goal, began, taken)

    def why_invalid_id(self, native_id: str) -> str:
        return read.why_not_id(native_id)

    why_unusable_id = why_invalid_id

    def get(self, tree: Tree, where: Where) -> Facts:
        return read.read_facts(tree, where)

    def put(self, old: Tree | None, facts: Facts, where: Where) -> Tree:
        return write_facts(old, facts, where)

    def in_current_form(self, tree: Tree, where: Where) -> Tree:
        """Return a session of any version in version `VERSION`, to write next to the original."""
        key, state = read.key_of(tree, STATE), read.part(tree, STATE)
        first = {} if "version" in state else {"version": read.VERSION}
        return {**tree, key: first | state | {"version": read.VERSION}} if state else tree

    def restore_required(self, tree: Tree, before: Tree, where: Where) -> tuple[Tree, list[str]]:
        """Restore required keys, but change no line of the log and no entry of another session."""
        tree, notes = _restore_entry(_spread_status(tree, before), before)
        mine = {f"active_features[{at}]" for at, _ in _own_entries(tree, read.identity(before))}

        def is_of_session(lack: Finding) -> bool:
            file = lack.file.rpartition("/")[2]
            in_entry = file == INDEX and lack.where.rpartition(".")[0] in mine
            return file in (STATE, PLAN) or in_entry

        made, more = restore_required(self, tree, before, where, is_of_session)
        return made, notes + more

    def why_incomplete(self, data: bytes, value: Any) -> str:
        return read.torn(data, mapping(value))

    def why_unknown_model(self, name: str) -> str:
        return refuses(name)

    def lines_before(self, lines: list[Any], known: int, now: Facts, where: Where) -> list[Any]:
        return without_new_commands(lines, known, now.commands, where)

    def reading(self, tree: Tree, where: Where) -> Reading:
        has_own = any(tree.get(read.key_of(tree, file)) for file in read.OWN)
        status = read.status_of(tree, read.identity(tree)) or "active" if has_own else ""
        words = [text(task.get("status")) for task in read.tasks_of(read.part(tree, PLAN))]
        done = sum(unit_status(self.id, word) == "done" for word in words)
        return Reading(
            format=self.id,
            generation=_generation(tree),
            version=read.version_of(tree) if has_own else "",
            complete=status == "completed" if status else None,
            status=status,
            progress=done / len(words) if words else None,
            writable=read.writable(tree),
        )

    def check(self, tree: Tree, where: Where, *, strict: bool = False) -> list[Finding]:
        return check_files(tree, where, strict=strict)

    def salvage(self, bundle: Bundle, where: Where) -> Salvaged | None:
        return salvage(bundle, where)

    def recreate(self, tree: Tree, where: Where) -> tuple[Tree, list[str]]:
        return recreate(tree, where)

    def listed(self, value: Any) -> list[Listed]:
        entries = [mapping(entry) for entry in sequence(mapping(value).get("active_features"))]
        return [
            Listed(id, _status_of(entry), f"active_features[{at}]")
            for at, entry in enumerate(entries)
            if (id := text(entry.get("feature_id")))
        ]

    def with_entries(self, value: Any, other: Any, ids: Set[str]) -> Any:
        if "active_features" not in mapping(value):
            return value
        there = {text(entry.get("feature_id")): entry for entry in read.entries_of({INDEX: other})}
        entries = []
        for entry in sequence(value["active_features"]):
            id = text(mapping(entry).get("feature_id"))
            if id not in ids:
                entries.append(entry)
            elif id in there:
                entries.append(there[id])
        return {**value, "active_features": entries}

    def salvage_shared(self, data: bytes) -> Any:
        return salvage_index(data)[0]

    def add_entry(self, value: Any, facts: Facts, where: Where, *, is_current: bool) -> Any:
        tree = {INDEX: copied(value)}
        entry = ensured_entry(tree, facts.native_id, facts, where)
        if is_current:
            # Restore the status: without it an ended session would be read as resumed.
            entry.setdefault("status", session_word(self.id, facts.status))
        return tree[INDEX]


def _status_of(entry: dict[str, Any]) -> str:
    return session_status(read.ID, text(entry.get("status"))) or ""


def _own_entries(tree: Tree, id: str) -> list[tuple[int, Any]]:
    entries = enumerate(sequence(read.part(tree, INDEX).get("active_features")))
    return [(at, entry) for at, entry in entries if mapping(entry).get("feature_id") == id]


def _restore_entry(tree: Tree, before: Tree) -> tuple[Tree, list[str]]:
    """Restore the session's entry in the index, or only the id if the entry lost only that."""
    id = read.identity(before)
    key, was = read.key_of(tree, INDEX), read.entry_of(before, id)
    if not was or not isinstance(tree.get(key), dict) or _own_entries(tree, id):
        return tree, []
    entries = sequence(tree[key].get("active_features"))
    rest = {name: value for name, value in was.items() if name != "feature_id"}
    others = [entry for entry in entries if entry != rest]
    index = {**tree[key], "active_features": [*others, was]}
    return {**tree, key: index}, [f"{id} in {INDEX} was removed"]


def _spread_status(tree: Tree, before: Tree) -> Tree:
    """Copy a status that was edited in one file to the other files that have a status."""
    id = read.identity(before)
    words, were = read.status_words(tree, id), read.status_words(before, id)
    new = [word for word, was in zip(words, were, strict=True) if word not in ("", was)]
    if not new or not session_status(read.ID, new[0]) or words.count("") > 1:
        return tree
    tree = copied(tree)
    for place in filter(lambda place: "status" in place, read.status_places(tree, id)):
        place["status"] = new[0]
    return tree


def _is_line(node: dict[Any, Any]) -> bool:
    """Return whether a mapping has the keys of a line of the log."""
    most = len(node.keys() & LINE_KEYS) > len(LINE_KEYS) - 3
    return most or ("timestamp" in node and bool({"command", "event"} & node.keys()))


def _generation(tree: Tree) -> str:
    """Return `contract`, or `companion` for files with keys that only companion programs write."""
    stray = "status" in read.current_of(tree) or "status" in read.part(tree, STATE)
    lines = (mapping(line) for line in read.log_of(tree))
    events = any("event" in line and not read.is_update(line) for line in lines)
    return "companion" if stray or events else "contract"


# --- the status report -------------------------------------------------------------------------

_HOUR = 3_600_000
_HEALTH = ((_HOUR, "Active"), (24 * _HOUR, "Idle"))
_LAST = 5


class Report(Struct):
    """The status of a session and the figures of its tasks and commands."""

    feature_id: str
    status: str
    health: str
    active_task: str
    model: str
    started_at: int | None
    last_updated: int | None
    tasks_done: int
    tasks_total: int
    percent: int
    commands: dict[str, int]
    models: dict[str, int]
    failures: int
    average_ms: int
    total_ms: int
    last: list[CommandFact]
    artifacts: dict[str, int]

    def __str__(self) -> str:
        return display(self)


def report(tree: Tree, where: Where, clean: Callable[[str], str] = str) -> Report:
    """Return the status report of a session at `where.now`.

    `clean` removes secrets from the texts of the report.
    """
    facts = read.read_facts(tree, where)
    for command in facts.commands:
        command.name = clean(command.name)
    tasks = [step for step in facts.steps if step.unit == "task"]
    done = sum(task.status == "done" for task in tasks)
    lasted = [command.duration_ms for command in facts.commands if command.duration_ms is not None]
    return Report(
        feature_id=facts.native_id,
        status=facts.status,
        health=health(facts.updated_at, where.now),
        active_task=clean(facts.position) or "none",
        model=facts.model,
        started_at=facts.began_at,
        last_updated=facts.updated_at,
        tasks_done=done,
        tasks_total=len(tasks),
        percent=100 * done // len(tasks) if tasks else 0,
        commands=_count(command.name for command in facts.commands),
        models=_count(command.model or "none" for command in facts.commands),
        failures=sum(command.status == "failure" for command in facts.commands),
        average_ms=round(sum(lasted) / len(lasted)) if lasted else 0,
        total_ms=sum(lasted),
        last=facts.commands[-_LAST:],
        artifacts=_count(_extension(path) for path in facts.artifacts),
    )


def _count(names: Any) -> dict[str, int]:
    return dict(sorted(Counter(names).items(), key=lambda item: (-item[1], item[0])))


def _extension(path: str) -> str:
    stem, dot, extension = path.rpartition("/")[2].rpartition(".")
    return extension.lower() if stem and dot and extension else "none"


def health(last_updated: int | None, now: int) -> str:
    """Return `Active` within an hour of the last change, `Idle` within a day, then `Stale`."""
    if last_updated is None:
        return "Stale"
    return next((word for limit, word in _HEALTH if now - last_updated < limit), "Stale")


def display(shown: Report) -> str:
    """Return a report as text for the terminal."""
    is_over = shown.status == "completed"
    status = shown.status if is_over else f"{shown.status} ({shown.health})"
    rows = [
        ("Feature", shown.feature_id),
        ("Status", status),
        ("Active task", shown.active_task),
        ("Model", shown.model or "none"),
        ("Tasks", f"{shown.tasks_done}/{shown.tasks_total} ({shown.percent}%)"),
        ("Commands", _format_counts(shown.commands)),
        ("Models", _format_counts(shown.models)),
        ("Failures", str(shown.failures)),
        ("Duration", f"{shown.average_ms} ms on average, {shown.total_ms} ms in total"),
        ("Artifacts", _format_counts(shown.artifacts)),
    ]
    lines = [f"{label + ':':<13}{value}" for label, value in rows]
    lines += ["Last commands:"] if shown.last else []
    lines += [f"  {command.name} ({command.status})" for command in shown.last]
    return "\n".join(lines) + "\n"


def _format_counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"


# --- the folder's README -----------------------------------------------------------------------


FORMAT = AiSession()
