"""Read the `ai-session` files: their names, their ids, and the facts in them.

The keys of a tree are paths relative to the format's root folder, `.ai-session/`:

    {id}/state.yaml                 where the session stands; the main file
    {id}/implementation-plan.yaml   the feature, its phases and their tasks
    {id}/history.jsonl              one value per line: commands, updates, other programs' events
    active-features.yaml            the *index*, shared by all sessions of the folder

Any key may be missing; the value None is a file without content. A single file may have its bare
name (`state.yaml`). Some values are in several files; the first file that has the value is used.
The id comes from the state, the folder's name, the plan; the times come from the state, the index,
the plan. The status comes from the index; if that has "active", a `status` in the state is used,
because some programs write it into the state and never change the index.

Tasks that belong to no phase are in a phase of their own, `LOOSE`, which is not a step.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

from msgspec.structs import replace

from forestay.formats import timestamps
from forestay.formats.coerce import mapping, sequence, text
from forestay.formats.facts import CommandFact, Facts, StepFact
from forestay.formats.fields import NAMES, SECONDS, TEXT, Field, Text, get_fields, number
from forestay.formats.port import Tree, Where
from forestay.formats.salvage import ends_within_a_line
from forestay.formats.status_words import session_status, unit_status

ID = "ai-session"
ROOT = ".ai-session"
ARCHIVE = ".ai-session-archive"
"""Where other programs move sessions that have ended."""
ARTIFACTS = "artifacts"
STATE, PLAN = "state.yaml", "implementation-plan.yaml"
LOG, INDEX = "history.jsonl", "active-features.yaml"
OWN = (STATE, PLAN, LOG)
"""The files in a session's own folder."""
VERSION = "1.0"
MODELS = ("gemini", "opus", "sonnet")
DEFAULT_MODEL = "sonnet"
DEFAULT_DESCRIPTION = "AI Orchestrator Feature"
DESCRIPTION = f"{ID}.description"
"""The attribute for the description of a plan; absent for the default description."""
LOOSE = "unphased"
NOBODY = "unknown"
"""The name that the log has for an unknown agent."""

Node = dict[Any, Any]


# --- ids ---------------------------------------------------------------------------------------

_SHAPE = re.compile(r"([a-z0-9]+(?:-[a-z0-9]+)*)-(\d{4}-\d\d-\d\d)", re.ASCII)
_DATED = re.compile(r"-\d{4}-\d\d-\d\d\Z", re.ASCII)
_LONGEST_SLUG, _LONGEST_ID = 40, 200
_UNFOLDED = str.maketrans(
    {"æ": "ae", "ø": "o", "œ": "oe", "đ": "d", "ð": "d", "ł": "l", "þ": "th", "ı": "i", "'": None}
    | {"’": None, "ħ": "h"}
)


def slug(words: str) -> str:
    """Return words in lowercase ASCII, joined by hyphens: as many as fit into 40 characters."""
    folded = unicodedata.normalize("NFKD", words.casefold().translate(_UNFOLDED))
    plain = folded.encode("ascii", "ignore").decode()
    joined = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    if len(joined) <= _LONGEST_SLUG:
        return joined
    cut = joined.rfind("-", 1, _LONGEST_SLUG + 1)
    return joined[: cut if cut > 0 else _LONGEST_SLUG]


def new_id(goal: str, moment: int, taken: frozenset[str]) -> str:
    """Return a feature id that is not in use: the goal's slug, a number if needed, and the day."""
    stem, number = slug(goal) or "session", 1
    day = datetime.fromtimestamp(max(0, min(moment, 253_402_300_799_999)) / 1000, UTC).date()
    made = f"{stem}-{day}"
    while made in taken:
        number += 1
        made = f"{stem}-{number}-{day}"
    return made


def why_not_id(native_id: str) -> str:
    """Return why a feature id is invalid, or an empty string."""
    return fault_of_id(native_id)[0]


def fault_of_id(native_id: str) -> tuple[str, str]:
    """Return why a feature id is invalid and the requirement it breaks; both empty if valid."""
    match = _SHAPE.fullmatch(native_id)
    if match is None:
        why = "a lowercase, hyphen-separated slug and a date are needed: {slug}-{YYYY-MM-DD}"
        return why, "S0-20" if _DATED.search(native_id) else "S0-18"
    if len(native_id) > _LONGEST_ID:
        return f"the id is longer than {_LONGEST_ID} characters", "S0-18"
    try:
        date.fromisoformat(match[2])
    except ValueError:
        return f"{match[2]} is not a day of the calendar", "S0-21"
    return "", ""


# --- parts of a tree ---------------------------------------------------------------------------


def name(value: Any) -> str:
    """Return an id as text; YAML without quotes turns ids such as 7 and 1.2 into numbers."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 10**15:
        return str(value)
    return text(value)


def key_of(tree: Tree, file: str) -> str:
    """Return the key of one of the format's files in a tree, or an empty string."""
    return next((key for key in tree if key.rpartition("/")[2] == file), "")


def part(tree: Tree, file: str) -> Node:
    return mapping(tree.get(key_of(tree, file)))


def log_of(tree: Tree) -> list[Any]:
    return sequence(tree.get(key_of(tree, LOG)))


def has_session(tree: Tree) -> bool:
    """Return whether a tree contains a file of the session itself, not only the index."""
    return any(key_of(tree, file) for file in OWN)


def folder(tree: Tree) -> str:
    """Return the name of the session's folder, from the keys of the tree."""
    paths = (key_of(tree, file).split("/") for file in OWN)
    return next((path[-2] for path in paths if len(path) > 1), "")


def identity(tree: Tree) -> str:
    """Return the feature id from the state, else the folder, the plan, or the only index entry."""
    if id := text(part(tree, STATE).get("feature_id")) or folder(tree):
        return id
    id = text(mapping(part(tree, PLAN).get("feature")).get("id"))
    entries = list(entries_of(tree))
    if id or has_session(tree) or len(entries) != 1:
        return id
    return text(entries[0].get("feature_id"))


def entries_of(tree: Tree) -> Iterator[Node]:
    """Yield the entries of the index that are mappings."""
    listed = sequence(part(tree, INDEX).get("active_features"))
    return (entry for entry in listed if isinstance(entry, dict))


def entry_of(tree: Tree, native_id: str) -> Node:
    """Return the index's first entry of a session, or an empty mapping."""
    own = (entry for entry in entries_of(tree) if entry.get("feature_id") == native_id != "")
    return next(own, {})


def current_of(tree: Tree) -> Node:
    return mapping(part(tree, STATE).get("current_state"))


def version_of(tree: Tree) -> str:
    """Return the version of the state file; the contract defines a missing one as 1.0."""
    version = part(tree, STATE).get("version", VERSION)
    if isinstance(version, str):
        return version
    if isinstance(version, bool) or not isinstance(version, int | float):
        return "?"
    return VERSION if version == 1 else str(version) if abs(version) < 10**6 else "?"


def writable(tree: Tree) -> bool:
    """Return whether Forestay may write the files: only those of a known version."""
    return version_of(tree) in (VERSION, "1")


_KEYS = ("feature_id", "current_state")
_CURRENT_KEYS = ("active_task", "model_in_use", "started_at", "last_updated")


def torn(data: bytes, state: Node) -> str:
    """Return why a state file is incomplete, or an empty string.

    An incomplete file ends inside a line and lacks the last keys of the contract. Its last value
    cannot be trusted: `t1` may have been `t12`.
    """
    if not ends_within_a_line(data) or not state.keys() & set(_KEYS):
        return ""
    current = mapping(state.get("current_state"))
    there = [key in state for key in _KEYS] + [key in current for key in _CURRENT_KEYS]
    lacks_end = not all(there) and there == sorted(there, reverse=True)
    lacking = (*_KEYS, *_CURRENT_KEYS)[there.index(False)] if lacks_end else ""
    return f"it breaks off before `{lacking}`" if lacking else ""


# --- the plan ----------------------------------------------------------------------------------


class Placed(NamedTuple):
    """A step with its own mapping and that of the phase around it."""

    step: StepFact
    node: Node
    phase: Node


def walk(plan: Node, where: Where) -> Iterator[Placed]:
    """Yield the steps of a plan in order: each phase, then its tasks.

    A task whose id another step has too is identified by its title alone.
    """
    phases = list(phases_of(sequence(plan.get("phases"))))
    taken = {"", *(id for id, _ in phases)}
    for id, phase in phases:
        parent = own = "" if id == LOOSE else id
        title = text(phase.get("name")) or id
        if own:
            status = unit_status(ID, text(phase.get("status"))) or "pending"
            yield Placed(StepFact(title, id, "phase", status=status), phase, {})
        for task in _tasks_in(phase):
            step = _task_fact(task, parent, where)
            if (step.id, step.title) == (own, title):
                own = ""  # the task stands for the phase itself, see `_merged`
            elif step.id in taken:
                step.id = ""
            taken.add(step.id)
            yield Placed(step, task, phase)


def phases_of(listed: list[Any]) -> Iterator[tuple[str, Node]]:
    """Yield the phases of a list, each with a unique id: its own, else its name or its index."""
    taken: set[str] = set()
    for place, phase in enumerate(listed, 1):
        if isinstance(phase, dict):
            id = name(phase.get("phase_id")) or slug(text(phase.get("name"))) or f"phase-{place}"
            while id in taken and id != LOOSE:
                id = f"{id}-{place}"
            taken.add(id)
            yield id, phase


def tasks_of(plan: Node) -> Iterator[Node]:
    """Yield the mappings of all tasks in a plan file."""
    for phase in sequence(plan.get("phases")):
        yield from _tasks_in(mapping(phase))


def _tasks_in(phase: Node) -> Iterator[Node]:
    for task in sequence(phase.get("tasks")):
        if isinstance(task, dict) and (name(task.get("task_id")) or _title(task)):
            yield task


def has_own_task(phase: Node, id: str) -> bool:
    """Return whether a phase has a task that stands for the phase itself, see `_merged`."""
    return any(name(task.get("task_id")) == id for task in _tasks_in(phase))


def _title(task: Node) -> str:
    return text(task.get("description")) or text(task.get("name"))


TASK_FIELDS = (
    Field("agent", ("agent",), TEXT, ""),
    Field("started_at", ("started_at",), SECONDS),
    Field("ended_at", ("completed_at",), SECONDS),
    Field("files", ("artifacts",), NAMES, []),
)


def _task_fact(task: Node, parent: str, where: Where) -> StepFact:
    id = name(task.get("task_id"))
    return StepFact(
        title=_title(task) or id,
        id=id,
        parent=parent,
        status=unit_status(ID, text(task.get("status"))) or "pending",
        **get_fields(task, TASK_FIELDS, where),
    )


def _merged(placed: list[Placed]) -> list[StepFact]:
    """Return the steps; a phase and the task that only repeats its name become one step.

    In the contract a phase has no status and no times, so a phase without tasks gets a task of the
    same name, which has them. They still count as the phase's if that task is renamed.
    """
    own = {each.step.parent: each.step for each in placed if _is_own(each)}
    return [
        replace(own[step.id], id=step.id, title=step.title, unit="phase", parent="")
        if step.unit == "phase" and step.id in own
        else step
        for step in (each.step for each in placed)
        if step.unit == "phase" or not step.id or own.get(step.id) is not step
    ]


def _is_own(placed: Placed) -> bool:
    """Return whether a task stands for its phase: it has the phase's id (see `_merged`)."""
    step = placed.step
    if step.id:
        return step.id == step.parent
    is_named_so = name(placed.node.get("task_id")) == step.parent != ""
    return is_named_so and len(placed.phase["tasks"]) == 1


# --- the log -----------------------------------------------------------------------------------

_FAILURE = ("failure", "failed", "error")
_COMMAND_FIELDS = (
    Field("arguments", ("arguments",), TEXT),
    Field("error", ("error",), TEXT),
    Field("agent", ("agent",), Text(NOBODY)),
    Field("model", ("model",), TEXT),
    Field("at", ("timestamp",), SECONDS),
)


def command_of(line: Any, where: Where) -> CommandFact | None:
    """Return the command in a line of the log; None if the line has no command."""
    line = mapping(line)
    if not text(line.get("command")) or is_update(line):
        return None
    command = CommandFact(
        name=line["command"],
        duration_ms=milliseconds(line.get("duration_ms")),
        task=name(line.get("task_id")),
        **get_fields(line, _COMMAND_FIELDS, where),
    )
    failed = text(line.get("status")) in _FAILURE or ("status" not in line and bool(command.error))
    command.status = "failure" if failed else "success"
    return command


def is_update(line: Any) -> bool:
    """Return whether a line is an update: its command is the kind of the recorded event."""
    line = mapping(line)
    return bool(text(line.get("event"))) and line["event"] == line.get("command")


def milliseconds(value: Any) -> int | None:
    """Return a value as a whole number of milliseconds; None if it is not a duration."""
    found = number(value)
    return None if found is None or found < 0 else round(found)


# --- facts ------------------------------------------------------------------------------------


def read_facts(tree: Tree, where: Where) -> Facts:
    """Return the facts in the files; values of a wrong type are ignored, nothing raises."""
    plan, native_id = part(tree, PLAN), identity(tree)
    current, feature = current_of(tree), mapping(plan.get("feature"))
    description = text(feature.get("description"))
    if description == DEFAULT_DESCRIPTION:
        description = ""
    began, updated = times_of(tree, native_id, where)
    commands = (command_of(line, where) for line in log_of(tree))
    return Facts(
        native_id=native_id,
        goal=text(feature.get("name")) or description,
        status=status_of(tree, native_id) or "active",
        model=text(current.get("model_in_use")),
        began_at=began,
        updated_at=updated,
        position=name(current.get("active_task")),
        steps=_merged(list(walk(plan, where))),
        commands=[command for command in commands if command],
        artifacts=sorted(path for path in where.names if path.startswith("artifacts/")),
        attributes={DESCRIPTION: description} if description else {},
    )


def status_places(tree: Tree, native_id: str) -> tuple[Node, Node, Node]:
    """Return the mappings that can have a status, the most reliable one first."""
    return entry_of(tree, native_id), current_of(tree), part(tree, STATE)


def status_words(tree: Tree, native_id: str) -> list[str]:
    return [text(place.get("status")) for place in status_places(tree, native_id)]


def status_of(tree: Tree, native_id: str) -> str:
    """Return the canonical status, or an empty string when no file has one."""
    words = (session_status(ID, word) for word in status_words(tree, native_id) if word)
    read = [status for status in words if status]
    return next((status for status in read if status != "active"), "active" if read else "")


def times_of(tree: Tree, native_id: str, where: Where) -> tuple[int | None, int | None]:
    """Return when the session began and when it last changed; None if no file has the time."""
    current, entry = current_of(tree), entry_of(tree, native_id)
    feature = mapping(part(tree, PLAN).get("feature"))
    began = (current.get("started_at"), entry.get("started_at"), feature.get("created_at"))
    updated = (current.get("last_updated"), entry.get("last_active"))

    def first_time(values: tuple[Any, ...]) -> int | None:
        read = (timestamps.read(value, where.naive) for value in values)
        return next((moment for moment in read if moment is not None), None)

    return first_time(began), first_time(updated)
