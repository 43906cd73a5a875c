"""Writing the `ai-session` files: the way from facts back to a tree.

A value is written only where the facts differ from what the old tree says, so everything else
keeps its spelling, order and place. Three things are never touched: ids (a file with another id
is another session's), lines of the log, and what belongs to other sessions in the index. A session
without files of its own gets all of them; a missing file of an existing session is made when there
is something to write into it. A model that the contract does not allow is not written.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from holdfast.layout import Tree, Where, stamps
from holdfast.layout.ai_session import read
from holdfast.layout.ai_session.log import lacking
from holdfast.layout.ai_session.read import (
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
    VERSION,
    Node,
    Placed,
    get,
)
from holdfast.layout.facts import Facts, StepFact, with_told_times
from holdfast.layout.tree import Key, both, pair
from holdfast.layout.value import copied, mapping, sequence, text
from holdfast.layout.words import SESSION_WORDS, UNIT_WORDS, session_status, unit_status


def files(native_id: str) -> list[str]:
    """The files of one session, relative to the layout's root folder."""
    return [f"{native_id}/{STATE}", f"{native_id}/{PLAN}", f"{native_id}/{LOG}", INDEX]


def put(old: Tree | None, facts: Facts, where: Where, put_last: Facts | None = None) -> Tree:
    """The old tree, changed to say what the facts say; a new one where there is none."""
    added = _added_tasks(put_last, facts) if isinstance(_plan_in(old or {}), dict) else None
    planned = added is None
    tree = _own(old or {}, planned, facts)
    was = _said(tree, where, facts, None if planned else put_last)
    if not read.writable(tree) or (old is not None and was == facts):
        return tree
    if not read.has_session(tree):
        tree = _created(tree, _fitting_id(tree, facts, where), facts, where)
        was, facts = get(tree, where), replace(facts, updates=[])
    _put_all(tree, was, facts, where, planned=planned)
    if added:
        _add_tasks(tree, added)
    return tree


def _said(tree: Tree, where: Where, facts: Facts, put_last: Facts | None) -> Facts:
    """What the files say; where the plan need not be looked at, of the rest what moves on."""
    if put_last is None:
        return get(tree, where)
    if _STILL(put_last) != _STILL(facts):
        return get(tree, where, steps=facts.steps)
    current, id = read.current_of(tree), read.identity(tree)
    updated = (current.get("last_updated"), read.entry_of(tree, id).get("last_active"))
    return replace(
        put_last,
        native_id=id,
        updated_at=read.first_moment(updated, where),
        position=read.name(current.get("active_task")),
        commands=read.commands_of(tree, where),
    )


_STILL = attrgetter("status", "model", "began_at")


def _plan_in(tree: Tree) -> Any:
    return tree.get(read.key_of(tree, PLAN))


def _added_tasks(was: Facts | None, facts: Facts) -> list[StepFact] | None:
    """The tasks behind those that the plan says already; None if more of it is to be looked at."""
    if was is None or was.steps != facts.steps[: len(was.steps)]:
        return None
    new = facts.steps[len(was.steps) :]
    parents = {step.parent for step in facts.steps} if new else ()
    plain = all(s.unit == "task" and s.id and not s.parent and s.id not in parents for s in new)
    return new if plain and _TOLD(was) == _TOLD(facts) else None


_TOLD = attrgetter("goal", "attributes", "native_id")


def _add_tasks(tree: Tree, new: list[StepFact]) -> None:
    """Add tasks to the phase for those that are in none, on a plan that is not ours to change."""
    key = read.key_of(tree, PLAN)
    plan = tree[key] = dict(tree[key])
    phases = plan["phases"] = list(sequence(plan.get("phases")))
    at = next((at for at, each in enumerate(phases) if _is_loose(each, at + 1)), len(phases))
    if at == len(phases):
        phases.append(_new_phase(LOOSE, "Tasks"))
    made = [_new_task(step.id, step) for step in new]
    phases[at] = {**phases[at], "tasks": [*sequence(phases[at].get("tasks")), *made]}


def _is_loose(phase: Any, number: int) -> bool:
    return isinstance(phase, dict) and read.phase_id(phase, number) == LOOSE


def _own(old: Tree, planned: bool, facts: Facts) -> Tree:
    """The files to be changed: copies, but of those that nothing will be written into."""
    tree = dict(old)
    for file, levels in _CHANGED.items():
        if (planned or file != PLAN) and (key := read.key_of(tree, file)):
            tree[key] = copied(tree[key], levels)
    log = tree.get(read.key_of(tree, LOG))
    if isinstance(log, list) and (facts.commands or facts.updates):
        tree[read.key_of(tree, LOG)] = list(log)
    return tree


_CHANGED = {STATE: 2, INDEX: 3, PLAN: -1}
"""Of each file how deep it may be changed."""


def _put_all(tree: Tree, was: Facts, facts: Facts, where: Where, *, planned: bool = True) -> None:
    _put_state(tree, was, facts, where)
    if planned:
        _put_plan(tree, was, facts, where)
    if lines := lacking(tree, was, facts, where):
        _file(tree, LOG, was.native_id, list, list).extend(lines)
    _put_index(tree, was, facts, where)


def recreate(tree: Tree, where: Where) -> tuple[Tree, list[str]]:
    """The tree with what is missing of its files made anew, and what had to be inferred for it."""
    facts = get(tree, where)
    if not facts.native_id or not read.writable(tree):
        return copied(tree), []
    whole = _created({}, facts.native_id, facts, where)
    _put_all(whole, get(whole, where), facts, where)
    made, notes = copied(tree), []
    for file, source in _SOURCES.items():
        key = read.key_of(made, file) or _key(made, file, facts.native_id)
        if made.get(key) is None:
            made[key] = whole[read.key_of(whole, file)]
            notes.append(f"{file}: made anew from {source}")
    return made, [*notes, *_completed_entry(made, whole, facts.native_id)]


def _completed_entry(tree: Tree, whole: Tree, native_id: str) -> Iterator[str]:
    """Give the session's entry in the index what it lacks; says so."""
    entry, full = (read.entry_of(each, native_id) for each in (tree, whole))
    if entry and (lacking := [key for key in full if key not in entry]):
        entry.update({key: full[key] for key in lacking})
        yield f"{INDEX}: {', '.join(lacking)} of {native_id}, from the other files"


_SOURCES = {
    STATE: "the index, the plan and the specification",
    PLAN: "the state and the specification; phases and tasks are not known",
    LOG: "nothing: it is empty, what it held is lost",
    INDEX: "the sessions beside it; which of them are over is not known",
}


def refuses(model: str) -> str:
    """Why a model may not be set, or an empty string."""
    return "" if model in MODELS else f"model must be one of {', '.join(MODELS)}, not {model!r}"


# --- new files ---------------------------------------------------------------------------------


def _fitting_id(tree: Tree, facts: Facts, where: Where) -> str:
    if read.is_safe(facts.native_id):
        return facts.native_id
    taken = frozenset(text(entry.get("feature_id")) for entry in read.entries_of(tree))
    return read.new_id(facts.goal, stamps.first(facts.began_at, where.now), taken)


def _created(tree: Tree, native_id: str, facts: Facts, where: Where) -> Tree:
    """All files of a session; other sessions of an index that is there stay in it."""
    made = dict(zip(files(native_id), _skeletons(native_id, facts, where), strict=True))
    index = read.key_of(tree, INDEX)
    if isinstance(tree.get(index), dict):
        made[INDEX] = tree[index]
    ensured_entry(made, native_id, facts, where)
    return made


def _skeletons(native_id: str, facts: Facts, where: Where) -> list[Any]:
    return [
        _new_state(native_id, facts, where),
        _new_plan(native_id, facts, where),
        [],
        {"active_features": []},
    ]


def _born(facts: Facts, where: Where) -> tuple[str, str]:
    """The stamps of a new file: when the session began, and when it last changed."""
    began = stamps.first(facts.began_at, where.now)
    updated = max(began, stamps.first(facts.updated_at, began))
    return stamps.write(began), stamps.write(updated)


def _new_state(native_id: str, facts: Facts, where: Where) -> Node:
    began, updated = _born(facts, where)
    current = {
        "active_task": None,
        "model_in_use": _allowed_model(facts),
        "started_at": began,
        "last_updated": updated,
    }
    return {"version": VERSION, "feature_id": native_id, "current_state": current}


def _allowed_model(facts: Facts) -> str:
    models = [facts.model, *(command.model for command in reversed(facts.commands))]
    return next((model for model in models if model in MODELS), DEFAULT_MODEL)


def _new_plan(native_id: str, facts: Facts, where: Where) -> Node:
    title = facts.goal or native_id[:-11].replace("-", " ").capitalize()
    feature = {
        "id": native_id,
        "name": title,
        "description": DEFAULT_DESCRIPTION,
        "created_at": _born(facts, where)[0],
    }
    return {"feature": feature, "phases": []}


def ensured_entry(tree: Tree, native_id: str, facts: Facts, where: Where) -> Node:
    """The session's entry in the index, appended if it has none."""
    index = _file(tree, INDEX, native_id, lambda: {"active_features": []})
    entries = _inner(index, "active_features", list)
    if not (entry := read.entry_of(tree, native_id)):
        began, updated = _born(facts, where)
        entry = {"feature_id": native_id, "started_at": began, "last_active": updated}
        entry["status"] = SESSION_WORDS[ID].get(facts.status, "active")
        entries.append(entry)
    return entry


def _key(tree: Tree, file: str, native_id: str) -> str:
    """The key for a file that the tree lacks: beside the others of the session."""
    if file == INDEX:
        return INDEX
    bare = any(read.key_of(tree, own) == own for own in read.OWN)
    return file if bare else f"{read.folder(tree) or native_id}/{file}"


def _file(
    tree: Tree, file: str, native_id: str, fresh: Callable[[], Any], kind: type = dict
) -> Any:
    """A file's value; one that is missing, or not of its kind, is replaced by a fresh one."""
    key = read.key_of(tree, file) or _key(tree, file, native_id)
    if not isinstance(tree.get(key), kind):
        tree[key] = fresh()
    return tree[key]


def _inner(node: Node, key: str, kind: type) -> Any:
    """The list or mapping under a key; one that is missing, or of another kind, is begun anew."""
    if not isinstance(node.get(key), kind):
        node[key] = kind()
    return node[key]


def _restamped(old: Any, moment: int | None, where: Where) -> Any:
    """A stamp in the style of the old one; the old one itself if it tells the same moment."""
    if moment is None:
        return None
    new = stamps.write(moment, old, naive=where.naive)
    same = stamps.read(new, where.naive) == stamps.read(old, where.naive)
    return old if same else new


# --- the state ---------------------------------------------------------------------------------


def _put_state(tree: Tree, was: Facts, facts: Facts, where: Where) -> None:
    new = dict(_state_changes(tree, was, facts, where))
    if not new and not (_moved(was, facts) and _stray_statuses(tree)):
        return
    state = _file(tree, STATE, was.native_id, lambda: _new_state(was.native_id, facts, where))
    _inner(state, "current_state", dict).update(new)
    if _moved(was, facts):
        for place in _stray_statuses(tree):
            place["status"] = SESSION_WORDS[ID][facts.status]


def _state_changes(tree: Tree, was: Facts, facts: Facts, where: Where) -> Iterator[tuple[str, Any]]:
    current = read.current_of(tree)
    if facts.position != was.position:
        plan = read.part(tree, PLAN)
        task = _id_in_plan(plan, _active_task(facts, plan), facts, where)
        if task != (was.position or None):
            yield "active_task", task
    if facts.model != was.model and facts.model in MODELS:
        yield "model_in_use", facts.model
    if facts.began_at is not None and facts.began_at != was.began_at:
        yield "started_at", _restamped(current.get("started_at"), facts.began_at, where)
    if _later(facts, was):
        yield "last_updated", _restamped(current.get("last_updated"), facts.updated_at, where)


def _active_task(facts: Facts, plan: Node) -> str | None:
    """The position, unless it is known to be something else than a task."""
    steps = _told_by_tasks(native(facts.steps), plan)
    tasks = {step.id for step in steps if step.unit == "task"}
    others = {step.id for step in facts.steps} | {agent.id for agent in facts.agents}
    known_other = facts.position in others - tasks
    return None if known_other else facts.position or None


def _id_in_plan(plan: Node, task: str | None, facts: Facts, where: Where) -> str | None:
    """The id that a task has there; it may be known by its title alone (see `read.walk`)."""
    placed = list(read.walk(plan, where))
    if not any(each.step.id == task for each in placed):
        called = {(step.parent, step.title) for step in facts.steps if step.id == task}
        same = (each for each in placed if (each.step.parent, each.step.title) in called)
        task = next((read.name(each.node.get("task_id")) for each in same), "") or task
    return task


def _later(facts: Facts, was: Facts) -> bool:
    """Stamps never go back: an earlier moment than the one written is not written."""
    if facts.updated_at is None or facts.updated_at == was.updated_at:
        return False
    return was.updated_at is None or facts.updated_at > was.updated_at


def _moved(was: Facts, facts: Facts) -> bool:
    """Whether the status must be written: its word would read as something else than before."""
    word = SESSION_WORDS[ID].get(facts.status)
    if word is None or facts.status == was.status:
        return False
    return session_status(ID, word) != was.status


def _stray_statuses(tree: Tree) -> list[Node]:
    places = (read.current_of(tree), read.part(tree, STATE))
    return [place for place in places if session_status(ID, text(place.get("status")))]


# --- the index ---------------------------------------------------------------------------------


def _put_index(tree: Tree, was: Facts, facts: Facts, where: Where) -> None:
    moved, later = _moved(was, facts), _later(facts, was)
    began = facts.began_at is not None and facts.began_at != was.began_at
    if not was.native_id or not (moved or ((later or began) and read.key_of(tree, INDEX))):
        return
    entry = ensured_entry(tree, was.native_id, facts, where)
    if moved:
        entry["status"] = SESSION_WORDS[ID][facts.status]
    if began:
        entry["started_at"] = _restamped(entry.get("started_at"), facts.began_at, where)
    if later:
        entry["last_active"] = _latest(entry.get("last_active"), facts.updated_at, where)


def _latest(old: Any, moment: int | None, where: Where) -> Any:
    before = stamps.read(old, where.naive)
    keep = before is not None and moment is not None and before >= moment
    return old if keep else _restamped(old, moment, where)


# --- the plan ----------------------------------------------------------------------------------


def _put_plan(tree: Tree, was: Facts, facts: Facts, where: Where) -> None:
    named = facts.goal and facts.goal != was.goal
    description = facts.attributes.get(DESCRIPTION)
    told = isinstance(description, str) and description != was.attributes.get(DESCRIPTION)
    if not (named or (told and description) or facts.steps != was.steps):
        return
    plan = _file(tree, PLAN, was.native_id, lambda: _new_plan(was.native_id, facts, where))
    if named:
        _inner(plan, "feature", dict)["name"] = facts.goal
    if told and description:
        _inner(plan, "feature", dict)["description"] = description
    if facts.steps != was.steps:
        _put_steps(plan, _told_by_tasks(native(facts.steps), plan), where)


def native(steps: list[StepFact]) -> list[StepFact]:
    """The steps on the two levels that a plan has; a step with steps within it is a phase."""
    top = {step.id for step in steps if not step.parent and step.unit != "task"}
    around = {step.parent for step in steps} - top - {""}
    parents = {step.id: step.parent for step in steps if step.id} | dict.fromkeys(top, "")
    made = []
    for step in steps:
        if not step.parent and (step.unit != "task" or step.id in around):
            id = step.id or read.slug(step.title) or "phase"
            made.append(replace(step, unit="phase", id=id))
        else:
            made.append(replace(step, unit="task", parent=_root(step.parent, parents)))
    return made


def _told_by_tasks(steps: list[StepFact], plan: Node) -> list[StepFact]:
    """The steps, with a task of its own name for each phase that has no tasks (see `read`).

    Not where a file has a status for its phases, nor for one that it has without any and that has
    nothing to tell.
    """
    around = {step.parent for step in steps}
    listed = dict(read.phases_of(sequence(plan.get("phases"))))
    told = {id for id, phase in listed.items() if "status" in phase}
    mute = {id for id, phase in listed.items() if not read.has_own_task(phase, id)}
    alone = {s.id for s in steps if s.unit == "phase" and (s.id not in mute or _has_news(s))}
    alone -= around | told
    made: list[StepFact] = []
    for step in steps:
        if step.unit == "phase" and step.id in alone:
            made += [StepFact(step.title, step.id, "phase"), _own_task(step)]
        else:
            made.append(step)
    return made


def _has_news(step: StepFact) -> bool:
    times = (step.started_at, step.ended_at)
    return bool(step.status != "pending" or step.agent or step.files or times != (None, None))


def _own_task(step: StepFact) -> StepFact:
    return replace(step, unit="task", parent=step.id)


def _root(parent: str, parents: dict[str, str]) -> str:
    seen = {parent}
    while (above := parents.get(parent)) and above not in seen:
        seen.add(above)
        parent = above
    return parent


def _put_steps(plan: Node, steps: list[StepFact], where: Where) -> None:
    placed = list(read.walk(plan, where))
    pairs = pair([each.step for each in placed], steps, _SAME_STEP)
    phases, known = _inner(plan, "phases", list), set(pairs.values())
    added = [step for new, step in enumerate(steps) if new not in known]
    for step in (step for step in added if step.unit == "phase"):
        phases.append(_new_phase(step.id, step.title))
    stay = [(placed[old], steps[new]) for old, new in pairs.items()]
    for each, step in stay:
        _update(each, step, where)
    _move(phases, [(each, step) for each, step in stay if _is_elsewhere(each, step)])
    around = {step.parent for step in steps if step.parent}
    gone = [each for old, each in enumerate(placed) if old not in pairs]
    # A phase stays for the tasks that are left in it.
    _take_out(phases, [each for each in gone if each.step.id not in around])
    shelf = _Shelf(phases)
    for step in (step for step in added if step.unit == "task"):
        shelf.put(_new_task(shelf.free_id(step), step), step.parent)


def _take_out(phases: list[Any], gone: list[Placed]) -> None:
    nodes = {id(each.node) for each in gone}
    lists = {id(each.phase): each.phase["tasks"] for each in gone if each.step.unit == "task"}
    for listed in (*lists.values(), phases):
        listed[:] = [each for each in listed if id(each) not in nodes]


def _is_elsewhere(placed: Placed, step: StepFact) -> bool:
    return step.unit == "task" and step.parent != placed.step.parent


def _move(phases: list[Any], moved: list[tuple[Placed, StepFact]]) -> None:
    """Bring tasks to the phases that they are of now."""
    if moved:
        _take_out(phases, [placed for placed, _ in moved])
        shelf = _Shelf(phases)
        for placed, step in moved:
            shelf.put(placed.node, step.parent)


class _Shelf:
    """The phases of a plan, and the ids of its tasks: found at once, however many there are."""

    def __init__(self, phases: list[Any]) -> None:
        self._phases = phases
        self._known: dict[str, Node] = {}
        for id, phase in read.phases_of(phases):
            self._known.setdefault(id, phase)
        tasks = (task for phase in phases for task in sequence(mapping(phase).get("tasks")))
        self._taken = {read.name(mapping(task).get("task_id")) for task in tasks}
        self._latest: dict[str, int] = {}

    def put(self, task: Node, parent: str) -> None:
        _inner(self._phase(parent or LOOSE), "tasks", list).append(task)

    def _phase(self, id: str) -> Node:
        """The first phase of an id, made if there is none."""
        if id not in self._known:
            self._known[id] = _new_phase(id, "Tasks" if id == LOOSE else id)
            self._phases.append(self._known[id])
        return self._known[id]

    def free_id(self, step: StepFact) -> str:
        """Its id, or one for a task that is known by its title alone: other readers ask for one."""
        stem = step.id or read.slug(step.title) or "task"
        id = stem
        while id in self._taken and not step.id:
            self._latest[stem] = self._latest.get(stem, 1) + 1
            id = f"{stem}-{self._latest[stem]}"
        self._taken.add(id)
        return id


def _new_phase(id: str, name: str) -> Node:
    return {"phase_id": id, "name": name, "tasks": []}


def _new_task(id: str, step: StepFact) -> Node:
    return {
        "task_id": id,
        "description": step.title,
        "agent": step.agent,
        "status": UNIT_WORDS[ID].get(step.status, "pending"),
        "started_at": _restamped(None, step.started_at, Where()),
        "completed_at": _restamped(None, step.ended_at, Where()),
        "artifacts": list(step.files),
    }


def _update(placed: Placed, step: StepFact, where: Where) -> None:
    was, node = placed.step, placed.node
    word = UNIT_WORDS[ID].get(step.status)
    has_field = step.unit == "task" or "status" in node
    if word and has_field and was.status not in (step.status, unit_status(ID, word)):
        node["status"] = word
    if step.title != was.title:
        node["name" if step.unit == "phase" else "description"] = step.title
    if step.unit == "task":
        _update_task(node, was, step, where)


def _update_task(node: Node, was: StepFact, step: StepFact, where: Where) -> None:
    step = with_told_times(step, was)
    if step.agent != was.agent:
        node["agent"] = step.agent
    if step.files != was.files:
        node["artifacts"] = list(step.files)
    if step.started_at != was.started_at:
        node["started_at"] = _restamped(node.get("started_at"), step.started_at, where)
    if step.ended_at != was.ended_at:
        node["completed_at"] = _restamped(node.get("completed_at"), step.ended_at, where)


# --- matching ----------------------------------------------------------------------------------


def _titled(step: StepFact) -> Hashable:
    return step.unit, step.parent, step.title


def _titled_anywhere(step: StepFact) -> Hashable:
    return step.unit, step.title


def _nameless(key: Key) -> Key:
    return lambda step: None if step.id else key(step)


_SAME_STEP = [
    *both(
        lambda step: (step.unit, step.parent, step.id, step.title),
        lambda step: (step.unit, step.parent, step.id) if step.id else None,
        lambda step: (step.unit, step.id) if step.id else None,
    ),
    (_titled, _nameless(_titled)),
    (_nameless(_titled), _titled),
    (_titled_anywhere, _nameless(_titled_anywhere)),
    (_nameless(_titled_anywhere), _titled_anywhere),
]
