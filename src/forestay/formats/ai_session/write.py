"""Write facts into the `ai-session` files.

A value is written only where the facts differ from the old files, so everything else retains its
spelling, order and place. Three things are never changed: ids (a file with another id belongs to
another session), lines of the log, and other sessions' entries in the index. A session without
files gets all of them; a missing file of an existing session is created when a value must be
written into it. A model that the contract does not allow is not written.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from msgspec.structs import replace

from forestay.formats import timestamps
from forestay.formats.ai_session import read
from forestay.formats.ai_session.history_log import missing_lines
from forestay.formats.ai_session.read import (
    DEFAULT_DESCRIPTION,
    DEFAULT_MODEL,
    DESCRIPTION,
    ID,
    INDEX,
    LOG,
    LOOSE,
    MODELS,
    PLAN,
    STATE,
    TASK_FIELDS,
    VERSION,
    Node,
    Placed,
    read_facts,
)
from forestay.formats.coerce import copied, mapping, sequence, text
from forestay.formats.diff import Key, Pass, both, pair
from forestay.formats.facts import Facts, StepFact, with_stated_times
from forestay.formats.fields import SECONDS, Field, put_field, put_fields, put_latest
from forestay.formats.port import Tree, Where, unsafe_id
from forestay.formats.status_words import SESSION_WORDS, UNIT_WORDS, session_status, unit_status

_STARTED = Field("began_at", ("started_at",), SECONDS, sticky=True)
_UPDATED = Field("updated_at", ("last_updated",), SECONDS, sticky=True)
_LAST_ACTIVE = Field("updated_at", ("last_active",), SECONDS)


def list_files(native_id: str) -> list[str]:
    """Return the files of one session, relative to the format's root folder."""
    return [f"{native_id}/{STATE}", f"{native_id}/{PLAN}", f"{native_id}/{LOG}", INDEX]


def write_facts(old: Tree | None, facts: Facts, where: Where) -> Tree:
    """Return the old tree, changed to contain the facts; a new tree if `old` is None."""
    tree = dict(old or {})
    for file, levels in _CHANGED_LEVELS.items():
        if key := read.key_of(tree, file):
            tree[key] = copied(tree[key], levels)
    was = read_facts(tree, where)
    if not read.writable(tree) or (old is not None and was == facts):
        return tree
    if not read.has_session(tree):
        native_id = facts.native_id
        if unsafe_id(native_id):
            taken = frozenset(text(entry.get("feature_id")) for entry in read.entries_of(tree))
            native_id = read.new_id(facts.goal, timestamps.first(facts.began_at, where.now), taken)
        tree = _create_files(tree, native_id, facts, where)
        was, facts = read_facts(tree, where), replace(facts, updates=[])
    _write_changes(tree, was, facts, where)
    return tree


_CHANGED_LEVELS = {STATE: 2, INDEX: 3, PLAN: -1, LOG: 1}
"""File → the number of nested levels that writing can change, so they are copied first."""


def _write_changes(tree: Tree, was: Facts, facts: Facts, where: Where) -> None:
    _write_state(tree, was, facts, where)
    _write_plan(tree, was, facts, where)
    if lines := missing_lines(tree, was, facts, where):
        _ensure_file(tree, LOG, was.native_id, facts, where).extend(lines)
    _write_index(tree, was, facts, where)


def recreate(tree: Tree, where: Where) -> tuple[Tree, list[str]]:
    """Return the tree with its missing files created, and a note about the source of each."""
    facts = read_facts(tree, where)
    if not facts.native_id or not read.writable(tree):
        return copied(tree), []
    whole = _create_files({}, facts.native_id, facts, where)
    _write_changes(whole, read_facts(whole, where), facts, where)
    made, notes = copied(tree), []
    for file, source in _SOURCES.items():
        key = read.key_of(made, file) or _new_key(made, file, facts.native_id)
        if made.get(key) is None:
            made[key] = whole[read.key_of(whole, file)]
            notes.append(f"{file}: created again from {source}")
    entry, full = (read.entry_of(each, facts.native_id) for each in (made, whole))
    if entry and (missing := [key for key in full if key not in entry]):
        entry.update({key: full[key] for key in missing})
        notes.append(f"{INDEX}: {', '.join(missing)} of {facts.native_id}, from the other files")
    return made, notes


_SOURCES = {
    STATE: "the index, the plan and the specification",
    PLAN: "the state and the specification; phases and tasks are unknown",
    LOG: "nothing: it is empty, its earlier lines are lost",
    INDEX: "the sessions next to it; which of them are finished is unknown",
}


def refuses(model: str) -> str:
    """Return why the contract does not allow a model, or an empty string."""
    return "" if model in MODELS else f"model must be one of {', '.join(MODELS)}, not {model!r}"


# --- new files ---------------------------------------------------------------------------------


def _create_files(tree: Tree, native_id: str, facts: Facts, where: Where) -> Tree:
    """Return all files of a session; an existing index retains the other sessions."""
    new = _new_files(native_id, facts, where)
    made: Tree = {f"{native_id}/{file}": new[file] for file in read.OWN}
    if isinstance(old := tree.get(read.key_of(tree, INDEX)), dict):
        made[INDEX] = old
    ensured_entry(made, native_id, facts, where)
    return made


def _new_files(native_id: str, facts: Facts, where: Where) -> Tree:
    """Return the values of the files of a new session, by file name."""
    start = timestamps.first(facts.began_at, where.now)
    began = timestamps.write(start)
    updated = timestamps.write(max(start, timestamps.first(facts.updated_at, start)))
    models = [facts.model, *(command.model for command in reversed(facts.commands))]
    current = {
        "active_task": None,
        "model_in_use": next((model for model in models if model in MODELS), DEFAULT_MODEL),
        "started_at": began,
        "last_updated": updated,
    }
    feature = {
        "id": native_id,
        "name": facts.goal or native_id[:-11].replace("-", " ").capitalize(),
        "description": DEFAULT_DESCRIPTION,
        "created_at": began,
    }
    entry = {
        "feature_id": native_id,
        "started_at": began,
        "last_active": updated,
        "status": SESSION_WORDS[ID].get(facts.status, "active"),
    }
    return {
        STATE: {"version": VERSION, "feature_id": native_id, "current_state": current},
        PLAN: {"feature": feature, "phases": []},
        LOG: [],
        INDEX: {"active_features": [entry]},
    }


def ensured_entry(tree: Tree, native_id: str, facts: Facts, where: Where) -> Node:
    """Return the session's entry in the index, appended if it has none."""
    index = _ensure_file(tree, INDEX, native_id, facts, where)
    entries = _ensure_part(index, "active_features", list)
    if not read.entry_of(tree, native_id):
        entries += _new_files(native_id, facts, where)[INDEX]["active_features"]
    return read.entry_of(tree, native_id) or entries[-1]


def _new_key(tree: Tree, file: str, native_id: str) -> str:
    """Return the key for a file that the tree lacks: in the folder of the session's other files."""
    if file == INDEX:
        return INDEX
    has_bare_names = any(read.key_of(tree, own) == own for own in read.OWN)
    return file if has_bare_names else f"{read.folder(tree) or native_id}/{file}"


def _ensure_file(tree: Tree, file: str, native_id: str, facts: Facts, where: Where) -> Any:
    """Return the value of a file; create the file if it is missing or has another type."""
    key = read.key_of(tree, file) or _new_key(tree, file, native_id)
    if not isinstance(tree.get(key), list if file == LOG else dict):
        tree[key] = _new_files(native_id, facts, where)[file]
    return tree[key]


def _ensure_part(node: Node, key: str, kind: type) -> Any:
    """Return the list or mapping under a key; create it if missing or of another type."""
    if not isinstance(node.get(key), kind):
        node[key] = kind()
    return node[key]


# --- state and index ---------------------------------------------------------------------------


def _write_state(tree: Tree, was: Facts, facts: Facts, where: Where) -> None:
    changes: Node = {}
    if facts.position != was.position:
        task = _active_task(facts, read.part(tree, PLAN), where)
        if task != (was.position or None):
            changes["active_task"] = task
    if facts.model != was.model and facts.model in MODELS:
        changes["model_in_use"] = facts.model
    places = (read.current_of(tree), read.part(tree, STATE)) if _is_moved(was, facts) else ()
    stray = [place for place in places if session_status(ID, text(place.get("status")))]
    began, updated = _new_times(was, facts)
    if not (changes or stray) and (began, updated) == (None, None):
        return
    state = _ensure_file(tree, STATE, was.native_id, facts, where)
    current = _ensure_part(state, "current_state", dict)
    current.update(changes)
    put_field(current, _STARTED, began, where, ())
    put_field(current, _UPDATED, updated, where, ())
    for place in stray:
        place["status"] = SESSION_WORDS[ID][facts.status]


def _active_task(facts: Facts, plan: Node, where: Where) -> str | None:
    """Return the plan's id of the current task; None if the position is known to be no task.

    The task is found by its id, or by its title if the plan has no id for it.
    """
    steps = _with_own_tasks(native(facts.steps), plan)
    tasks = {step.id for step in steps if step.unit == "task"}
    others = {step.id for step in facts.steps} | {agent.id for agent in facts.agents}
    if not facts.position or facts.position in others - tasks:
        return None
    placed = list(read.walk(plan, where))
    titles = {(s.parent, s.title) for s in facts.steps if s.id == facts.position}
    if any(each.step.id == facts.position for each in placed):
        return facts.position
    same = (each for each in placed if (each.step.parent, each.step.title) in titles)
    return next((read.name(each.node.get("task_id")) for each in same), "") or facts.position


def _new_times(was: Facts, facts: Facts) -> tuple[int | None, int | None]:
    """Return the times of the start and last change to write; None for one that stays."""
    began = facts.began_at if facts.began_at != was.began_at else None
    is_later = was.updated_at is None or (facts.updated_at or 0) > was.updated_at
    return began, facts.updated_at if is_later else None


def _is_moved(was: Facts, facts: Facts) -> bool:
    """Return whether the word in the file stands for another status, so it must be replaced."""
    word = SESSION_WORDS[ID].get(facts.status)
    return bool(word) and was.status not in (facts.status, session_status(ID, word or ""))


def _write_index(tree: Tree, was: Facts, facts: Facts, where: Where) -> None:
    is_moved, (began, updated) = _is_moved(was, facts), _new_times(was, facts)
    has_time = (began, updated) != (None, None) and bool(read.key_of(tree, INDEX))
    if was.native_id and (is_moved or has_time):
        entry = ensured_entry(tree, was.native_id, facts, where)
        if is_moved:
            entry["status"] = SESSION_WORDS[ID][facts.status]
        put_field(entry, _STARTED, began, where, ())
        if updated is not None:
            put_latest(entry, _LAST_ACTIVE, updated, where, ())


# --- the plan ----------------------------------------------------------------------------------


def _write_plan(tree: Tree, was: Facts, facts: Facts, where: Where) -> None:
    changes: Node = {}
    if facts.goal and facts.goal != was.goal:
        changes["name"] = facts.goal
    description = facts.attributes.get(DESCRIPTION)
    if isinstance(description, str) and description not in ("", was.attributes.get(DESCRIPTION)):
        changes["description"] = description
    if not changes and facts.steps == was.steps:
        return
    plan = _ensure_file(tree, PLAN, was.native_id, facts, where)
    if changes:
        _ensure_part(plan, "feature", dict).update(changes)
    if facts.steps != was.steps:
        _write_steps(plan, _with_own_tasks(native(facts.steps), plan), where)


def native(steps: list[StepFact]) -> list[StepFact]:
    """Return the steps on two levels, phases and tasks; a step that contains steps is a phase."""
    top = {step.id for step in steps if not step.parent and step.unit != "task"}
    around = {step.parent for step in steps} - top - {""}
    parents = {step.id: step.parent for step in steps if step.id} | dict.fromkeys(top, "")
    made = []
    for step in steps:
        if not step.parent and (step.unit != "task" or step.id in around):
            id = step.id or read.slug(step.title) or "phase"
            made.append(replace(step, unit="phase", id=id))
        else:
            made.append(replace(step, unit="task", parent=_outermost(step.parent, parents)))
    return made


def _outermost(parent: str, parents: dict[str, str]) -> str:
    seen = {parent}
    while (above := parents.get(parent)) and above not in seen:
        seen.add(above)
        parent = above
    return parent


def _with_own_tasks(steps: list[StepFact], plan: Node) -> list[StepFact]:
    """Return the steps, with a task of the same name in each phase without tasks (see `read`).

    No task is added if the phases of the file have a status, nor to a phase that has no tasks in
    the file and whose status, times and files are still empty.
    """
    listed = dict(read.phases_of(sequence(plan.get("phases"))))
    unfit = {step.parent for step in steps}
    unfit |= {id for id, phase in listed.items() if "status" in phase}
    bare = {id for id, phase in listed.items() if not read.has_own_task(phase, id)}
    made: list[StepFact] = []
    for step in steps:
        times = (step.started_at, step.ended_at)
        is_begun = step.status != "pending" or step.agent or step.files or times != (None, None)
        if step.unit != "phase" or step.id in unfit or (step.id in bare and not is_begun):
            made.append(step)
        else:
            own = replace(step, unit="task", parent=step.id)
            made += [StepFact(step.title, step.id, "phase"), own]
    return made


def _write_steps(plan: Node, steps: list[StepFact], where: Where) -> None:
    placed = list(read.walk(plan, where))
    pairs = pair([each.step for each in placed], steps, _SAME_STEP)
    phases, known = _ensure_part(plan, "phases", list), set(pairs.values())
    added = [step for new, step in enumerate(steps) if new not in known]
    phases += [_new_phase(step.id, step.title) for step in added if step.unit == "phase"]
    moved: list[tuple[Placed, StepFact]] = []
    for old, new in pairs.items():
        each, step = placed[old], steps[new]
        _update_step(each, step, where)
        if step.unit == "task" and step.parent != each.step.parent:
            moved.append((each, step))
    if moved:
        _remove_steps(phases, [each for each, _ in moved])
        plan_index = _PlanIndex(phases)
        for each, step in moved:
            plan_index.add(each.node, step.parent)
    around = {step.parent for step in steps if step.parent}
    gone = [each for old, each in enumerate(placed) if old not in pairs]
    # A removed phase stays in the file while it has other tasks.
    _remove_steps(phases, [each for each in gone if each.step.id not in around])
    plan_index = _PlanIndex(phases)
    for step in (step for step in added if step.unit == "task"):
        plan_index.add(_new_task(plan_index.free_id(step), step, where), step.parent)


def _remove_steps(phases: list[Any], gone: list[Placed]) -> None:
    nodes = {id(each.node) for each in gone}
    lists = {id(each.phase): each.phase["tasks"] for each in gone if each.step.unit == "task"}
    for listed in (*lists.values(), phases):
        listed[:] = [each for each in listed if id(each) not in nodes]


class _PlanIndex:
    """The phases of a plan by id, and the ids of its tasks: an index, because plans can be long."""

    def __init__(self, phases: list[Any]) -> None:
        self._phases = phases
        self._known: dict[str, Node] = {}
        for id, phase in read.phases_of(phases):
            self._known.setdefault(id, phase)
        tasks = (task for phase in phases for task in sequence(mapping(phase).get("tasks")))
        self._taken = {read.name(mapping(task).get("task_id")) for task in tasks}
        self._latest: dict[str, int] = {}

    def add(self, task: Node, parent: str) -> None:
        """Append a task to its phase, which is created if it does not exist."""
        id = parent or LOOSE
        if id not in self._known:
            self._known[id] = _new_phase(id, "Tasks" if id == LOOSE else id)
            self._phases.append(self._known[id])
        _ensure_part(self._known[id], "tasks", list).append(task)

    def free_id(self, step: StepFact) -> str:
        """Return the step's id, or an unused one for a task that has only a title."""
        stem = step.id or read.slug(step.title) or "task"
        id = stem
        while id in self._taken and not step.id:
            self._latest[stem] = self._latest.get(stem, 1) + 1
            id = f"{stem}-{self._latest[stem]}"
        self._taken.add(id)
        return id


def _new_phase(id: str, name: str) -> Node:
    return {"phase_id": id, "name": name, "tasks": []}


def _new_task(id: str, step: StepFact, where: Where) -> Node:
    task: Node = {
        "task_id": id,
        "description": step.title,
        "agent": "",
        "status": UNIT_WORDS[ID].get(step.status, "pending"),
        "started_at": None,
        "completed_at": None,
        "artifacts": [],
    }
    put_fields(task, step, TASK_FIELDS, where, ())
    return task


def _update_step(placed: Placed, step: StepFact, where: Where) -> None:
    was, node = placed.step, placed.node
    word = UNIT_WORDS[ID].get(step.status)
    has_status = step.unit == "task" or "status" in node
    if word and has_status and was.status not in (step.status, unit_status(ID, word)):
        node["status"] = word
    if step.title != was.title:
        node["name" if step.unit == "phase" else "description"] = step.title
    if step.unit == "task":
        put_fields(node, with_stated_times(step, was), TASK_FIELDS, where, ())


# --- matching ----------------------------------------------------------------------------------


def _by_title(key: Key) -> list[Pass]:
    """Pair steps by title where at least one of the two has no id."""

    def without_id(step: StepFact) -> Hashable:
        return None if step.id else key(step)

    return [(key, without_id), (without_id, key)]


_SAME_STEP = [
    *both(
        lambda step: (step.unit, step.parent, step.id, step.title),
        lambda step: (step.unit, step.parent, step.id) if step.id else None,
        lambda step: (step.unit, step.id) if step.id else None,
    ),
    *_by_title(lambda step: (step.unit, step.parent, step.title)),
    *_by_title(lambda step: (step.unit, step.title)),
]
