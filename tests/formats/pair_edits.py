"""What other programs do to the native fields of a session's files, one thing at a time.

An edit changes a document and returns which kind of thing it touched, or nothing where there was
nothing to touch. Of the files of `ai-session` the document is their parts by name (`opened`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

Edit = Callable[[Random, Any], str]
EARLY = "2025-12-01T01:02:03Z"
_MODES = ("debug", "default", "optimize", "release")


def opened(of: str, values: Any) -> Any:
    """The main document, or the parts of an `ai-session`."""
    if of != "ai-session":
        return next(iter(values.values()))
    ends = {name.rpartition("/")[2]: value for name, value in values.items()}
    state, plan = ends["state.yaml"], ends["implementation-plan.yaml"]
    entries = ends["active-features.yaml"]["active_features"]
    return {
        "state": state["current_state"],
        "feature": plan["feature"],
        "phases": plan["phases"],
        "tasks": [task for phase in plan["phases"] for task in phase["tasks"]],
        "entry": next(e for e in entries if e["feature_id"] == state["feature_id"]),
        "log": ends.get("history.jsonl"),
    }


def stamp(chance: Random) -> str:
    day, hour, minute = chance.randrange(10, 28), chance.randrange(10, 20), chance.randrange(10, 60)
    return f"2027-03-{day}T{hour}:{minute}:00Z"


def new(chance: Random, text: str) -> str:
    return f"{text} {chance.randrange(1000)}"


def title(entry: Any) -> str:
    found = entry if isinstance(entry, str) else entry["task"]
    assert isinstance(found, str)
    return found


# -- ways to edit ------------------------------------------------------------------------------


def put(touched: str, *places: str, to: Any) -> Edit:
    """Puts one value, or what is made of chance, into some places."""

    def edit(chance: Random, doc: Any) -> str:
        value = to(chance) if callable(to) else to
        for place in places:
            *way, last = place.split(".")
            node = doc
            for key in way:
                node = node[key]
            node[last] = value
        return touched

    return _named(edit, f"put {places[0]}")


def another(touched: str, place: str, *words: str) -> Edit:
    """Puts another one of some words into a place."""

    def edit(chance: Random, doc: Any) -> str:
        *way, last = place.split(".")
        node = doc[way[0]] if way else doc
        node[last] = chance.choice([word for word in words if word != node[last]])
        return touched

    return _named(edit, f"another {place}")


def change(
    touched: str, key: str, act: Callable[[Random, Any], None], where: str = "", *words: str
) -> Edit:
    """Changes one element of a list, perhaps one that has one of some words in a place."""

    def edit(chance: Random, doc: Any) -> str:
        able = [e for e in doc[key] if isinstance(e, dict) and (not where or e[where] in words)]
        if not able:
            return ""
        act(chance, chance.choice(able))
        return touched

    return _named(edit, f"change {key}")


def add(touched: str, key: str, make: Callable[[Random], Any]) -> Edit:
    def edit(chance: Random, doc: Any) -> str:
        doc[key].insert(chance.choice((0, 99)), make(chance))
        return touched

    return _named(edit, f"add {key}")


def take(touched: str, *keys: str) -> Edit:
    def edit(chance: Random, doc: Any) -> str:
        of = doc[chance.choice(keys)]
        if not of:
            return ""
        of.pop(chance.randrange(len(of)))
        return touched

    return _named(edit, f"take {keys}")


def _named(edit: Edit, name: str) -> Edit:
    edit.__name__ = name
    return edit


# -- tasks in two lists ------------------------------------------------------------------------


def work(chance: Random, text: str, doc: Any) -> Any:
    """An entry of `completed_work`: a sentence, or in a file that has `errors` an object."""
    if "errors" not in doc:
        return text
    return {"task": text, "outcome": chance.choice(("", "fine")), "files": []}


def done(chance: Random, doc: Any) -> str:
    waiting = doc["pending_tasks"]
    if not waiting:
        return ""
    text = title(waiting.pop(chance.randrange(len(waiting))))
    doc["completed_work"].append(work(chance, text, doc))
    return "task"


def undone(chance: Random, doc: Any) -> str:
    if not doc["completed_work"]:
        return ""
    one = doc["completed_work"].pop(chance.randrange(len(doc["completed_work"])))
    doc["pending_tasks"].insert(chance.choice((0, 99)), title(one))
    return "task"


def done_at_once(chance: Random, doc: Any) -> str:
    doc["completed_work"].append(work(chance, new(chance, "Fed the dog"), doc))
    return "task"


def reworded(chance: Random, doc: Any) -> str:
    waiting = doc["pending_tasks"]
    if not waiting:
        return ""
    place = chance.randrange(len(waiting))
    waiting[place] = new(chance, f"{title(waiting[place])} and more")
    return "task"


def turned(chance: Random, doc: Any) -> str:
    doc["pending_tasks"].reverse()
    return "order" if len(doc["pending_tasks"]) > 1 else ""


def strange(chance: Random, doc: Any) -> str:
    """Add a key that no format knows."""
    doc[f"y_{chance.randrange(99)}"] = {"any": [1, 2.5, None]}
    return "strange"


def agent_taken(chance: Random, doc: Any) -> str:
    """One that waits may be listed as a task elsewhere."""
    if not doc["agents"]:
        return ""
    agent = doc["agents"].pop(chance.randrange(len(doc["agents"])))
    return "waiting taken" if agent["status"] == "pending" else "agent taken"


IN_LISTS: list[Edit] = [
    *(done, undone, done_at_once, reworded, turned, strange),
    add("task", "pending_tasks", lambda chance: new(chance, "Feed the cat")),
    take("task", "pending_tasks", "completed_work"),
    agent_taken,
    put("goal", "goal", to=partial(new, text="Another goal")),
    another("mode", "mode", *_MODES),
]


# -- craft -------------------------------------------------------------------------------------


def _fails(chance: Random, agent: Any) -> None:
    error = {"category": "permanent", "message": new(chance, "no disk"), "retry_count": 0}
    agent.update(status="error", completed_at=stamp(chance), error={**error, "last_retry_at": None})


def _ends(chance: Random, agent: Any) -> None:
    agent.update(status="completed", result="success", completed_at=stamp(chance))
    agent.update(progress=1.0, output_summary="all well")


def _context(chance: Random, choice: Any) -> None:
    was, choice["context"] = choice["context"], new(chance, choice["context"])
    if choice["chosen"] == was:  # a bare statement
        choice.update(chosen=choice["context"], options=[choice["context"]])


def _spent(chance: Random, doc: Any) -> str:
    begun = [agent["id"] for agent in doc["agents"] if agent["status"] != "pending"]
    if not begun:
        return ""  # a waiting agent has spent nothing, and is listed nowhere else
    doc["context_usage"]["by_agent"][chance.choice(begun)] = chance.randrange(10_000, 20_000)
    return "spent"


def _compressed(chance: Random, doc: Any) -> str:
    usage = doc["context_usage"]
    count = (usage["compression_count"] or 0) + 1
    usage.update(compression_count=count, last_compression=stamp(chance))
    return "compressed"


CRAFT: list[Edit] = [
    *IN_LISTS,
    another("status", "status", "in_progress", "paused", "completed", "error", "aborted"),
    put("progress", "progress", to=lambda chance: chance.choice((0.11, 0.77))),
    put("tokens", "context_usage.estimated_tokens", to=lambda chance: chance.randrange(90_000)),
    put("began", "created_at", to=EARLY),
    put("updated", "updated_at", to=stamp),
    put("place", "project", to="/srv/other"),
    put("branch", "metadata.git_branch", to="topic"),
    _spent,
    _compressed,
    change("decision", "decisions_made", _context),
    change("decision", "decisions_made", lambda chance, c: c.update(reasoning=new(chance, "so"))),
    change("decision", "decisions_made", lambda _, c: c.update(options=["x", "zz"], chosen="zz")),
    add(
        "decision",
        "decisions_made",
        lambda chance: {
            "timestamp": stamp(chance),
            "context": new(chance, "Which store"),
            "options": ["a", "b"],
            "chosen": "b",
            "reasoning": "fast",
        },
    ),
    change("agent", "agents", _ends, "status", "running"),
    change("agent error", "agents", _fails, "status", "running"),
    change("agent", "agents", lambda _, a: a.update(progress=0.61), "status", "running"),
    add(
        "agent",
        "agents",
        lambda chance: {
            "id": f"new-{chance.randrange(99)}",
            "type": "code",
            "status": "running",
            "progress": 0.2,
            "started_at": stamp(chance),
        },
    ),
    add(
        "file",
        "files_modified",
        lambda chance: {"path": "new.py", "action": "created", "timestamp": stamp(chance)},
    ),
]


# -- orchestrator ------------------------------------------------------------------------------


def _failure(chance: Random, doc: Any) -> str:
    able = [agent for agent in doc["agents"] if agent["status"] == "in_progress"]
    if not able:
        return ""
    agent = chance.choice(able)
    agent.update(status="failure", completed=stamp(chance))
    error = {"message": new(chance, "no disk"), "category": "permanent", "agent": agent["id"]}
    doc["errors"].append({**error, "timestamp": agent["completed"]})
    return "agent error"


def _complete(chance: Random, agent: Any) -> None:
    agent.pop("progress", None)
    agent.update(status="complete", completed=stamp(chance), result_summary="all well")


def _restated(chance: Random, choice: Any) -> None:
    choice["decision"] = f"{new(chance, 'So')} {choice['decision']}"


ORCHESTRATOR: list[Edit] = [
    *IN_LISTS,
    another("status", "status", "created", "in_progress", "paused", "complete", "aborted"),
    put("tokens", "context_usage.estimated_tokens", to=lambda chance: chance.randrange(90_000)),
    put("compressed", "context_usage.last_compression", to=stamp),
    put("began", "created", to=EARLY),
    put("updated", "updated", to=stamp),
    put("branch", "project.git_branch", to="topic"),
    change("outcome", "completed_work", lambda chance, w: w.update(outcome=new(chance, "ok"))),
    change("decision", "decisions_made", _restated),
    change("decision", "decisions_made", lambda chance, c: c.update(rationale=new(chance, "so"))),
    add(
        "decision",
        "decisions_made",
        lambda chance: {
            "decision": new(chance, "Use it"),
            "rationale": "known",
            "timestamp": stamp(chance),
        },
    ),
    _failure,
    change("agent", "agents", _complete, "status", "in_progress"),
    change("agent", "agents", lambda _, a: a.update(progress=61), "status", "in_progress"),
    change("spent", "agents", lambda chance, a: a.update(context_tokens=chance.randrange(9999))),
    add(
        "agent",
        "agents",
        lambda chance: {
            "id": f"new-{chance.randrange(99)}",
            "type": "code",
            "task": "do it",
            "status": "in_progress",
            "started": stamp(chance),
        },
    ),
    add(
        "error",
        "errors",
        lambda chance: {
            "message": new(chance, "no net"),
            "category": "transient",
            "timestamp": stamp(chance),
        },
    ),
]


# -- ai-session --------------------------------------------------------------------------------

_TASK_WORDS = ("pending", "in_progress", "completed", "blocked")


def _turned_task(chance: Random, task: Any) -> None:
    task["status"] = chance.choice([word for word in _TASK_WORDS if word != task["status"]])


def _reworded(chance: Random, doc: Any) -> str:
    """A task that only repeats its phase is reworded with it: else the phase is still there."""
    if not doc["tasks"]:
        return ""
    task = chance.choice(doc["tasks"])
    task["description"] = new(chance, task["description"])
    for phase in doc["phases"]:
        if phase["phase_id"] == task["task_id"]:
            phase["name"] = task["description"]
    return "task"


def _in_a_phase(act: Callable[[Random, list[Any]], str]) -> Edit:
    def edit(chance: Random, doc: Any) -> str:
        return act(chance, chance.choice(doc["phases"])["tasks"]) if doc["phases"] else ""

    return _named(edit, act.__name__)


def task_added(chance: Random, tasks: list[Any]) -> str:
    task = {"task_id": f"cat{chance.randrange(99)}", "description": "Feed the cat", "agent": ""}
    more: Any = {"status": "pending", "started_at": None, "completed_at": None, "artifacts": []}
    tasks.insert(chance.choice((0, 99)), {**task, **more})
    return "task"


def task_taken(chance: Random, tasks: list[Any]) -> str:
    if len(tasks) < 2:
        return ""  # a phase without tasks may be one itself
    tasks.pop(chance.randrange(len(tasks)))
    return "task"


def tasks_turned(chance: Random, tasks: list[Any]) -> str:
    tasks.reverse()
    return "order" if len(tasks) > 1 else ""


def _active(chance: Random, doc: Any) -> str:
    if not doc["tasks"]:
        return ""
    doc["state"]["active_task"] = chance.choice(doc["tasks"])["task_id"]
    return "position"


def _logged(chance: Random, doc: Any) -> str:
    if not doc["log"]:
        return ""
    line = {"timestamp": stamp(chance), "command": "lint", "arguments": "", "model": "opus"}
    more = {"agent": "x", "task_id": None, "status": "success", "duration_ms": 7}
    doc["log"].append({**line, **more})
    return "command"


AI_SESSION: list[Edit] = [
    another("status", "entry.status", "active", "paused", "completed"),
    change("task", "tasks", _turned_task),
    change(
        "task",
        "tasks",
        lambda chance, t: t.update(status="completed", completed_at=stamp(chance)),
        "status",
        *_TASK_WORDS[:2],
    ),
    _reworded,
    *(_in_a_phase(act) for act in (task_added, task_taken, tasks_turned)),
    put("updated", "state.last_updated", "entry.last_active", to=stamp),
    put("began", "state.started_at", to=EARLY),
    put("model", "state.model_in_use", to="gemini"),
    put("goal", "feature.name", to=partial(new, text="Another goal")),
    put("strange", "state.y_mine", to=[1, {"a": None}]),
    _active,
    _logged,
]


# -- praxis ------------------------------------------------------------------------------------


def _paused(chance: Random, doc: Any) -> str:
    life = doc["lifecycle"]
    if life["completed"]:
        return ""
    life["paused"] = not life["paused"]
    if life["paused"] and chance.random() < 0.5:
        life.update(paused_at=stamp(chance), paused_reason="user_request")
    return "status"


def _passed(chance: Random, doc: Any) -> str:
    known = {int(phase) for phase in doc["checkpoints"]} | {doc["current_phase"]}
    left = sorted(known - set(doc["completed_phases"]))
    if doc["lifecycle"]["completed"] or not left:
        return ""
    phase = chance.choice(left)
    doc["checkpoints"][str(phase)] = "passed"
    doc["completed_phases"].append(phase)
    return "task"


def _gone_back(chance: Random, doc: Any) -> str:
    done = [phase for phase in doc["completed_phases"] if str(phase) in doc["checkpoints"]]
    if doc["lifecycle"]["completed"] or not done:
        return ""
    phase = chance.choice(done)
    doc["completed_phases"].remove(phase)
    doc["checkpoints"][str(phase)], doc["current_phase"] = "pending", phase
    return "phase"


def _failed(chance: Random, doc: Any) -> str:
    doc["checkpoints"][str(doc["current_phase"])] = "failed"
    return "task"


def _last_error(chance: Random, doc: Any) -> str:
    doc["lifecycle"].update(last_error=new(chance, "no net"), last_error_at=stamp(chance))
    return "error status"


PRAXIS: list[Edit] = [
    *(_paused, _passed, _failed, _gone_back, _last_error, strange),
    put("status", "lifecycle.completed", to=True),
    put("updated", "updated_at", to=stamp),
    put("began", "created_at", to=EARLY),
    put("target", "target_file", to="other/file.md"),
    put("attribute", "metadata.mood", to="fine"),
]


# -- essay -------------------------------------------------------------------------------------


def _stage(chance: Random, doc: Any) -> str:
    stage = doc["stages"][f"stage_{chance.randrange(1, 5)}"]
    words = ("not_started", "in_progress", "completed", "needs_review")
    stage["status"] = chance.choice([word for word in words if word != stage["status"]])
    if stage["status"] == "completed" and chance.random() < 0.5:
        stage["completed_at"] = stamp(chance)
    return "stage"


def _section(chance: Random, doc: Any) -> str:
    stage = doc["stages"]["stage_3"]
    known = stage["sections"] or []
    stage["sections"] = [*known, {"section_index": 7 + len(known), "status": "in_progress"}]
    return "section"


def _ended(chance: Random, doc: Any) -> str:
    doc["status"], doc["output"]["completed_at"] = "completed", stamp(chance)
    return "status"


def _next_stage(chance: Random, doc: Any) -> str:
    if doc["current_stage"] == 3:
        return ""
    doc["current_stage"], doc["current_stage_name"] = 3, "argument_development"
    return "position"


ESSAY: list[Edit] = [
    *(_stage, _stage, _section, _ended, _next_stage, strange),
    another("status", "status", "in_progress", "paused", "completed", "abandoned"),
    put("updated", "last_activity", to=stamp),
    put("began", "started_at", to=EARLY),
    put("attribute", "voice_calibration.calibration_notes", to="calm"),
    add(
        "claim",
        "deferred_verifications",
        lambda chance: {
            "claim_text": new(chance, "It is so"),
            "section": 1,
            "paragraph": None,
            "reason": "timeout",
            "added_at": stamp(chance),
            "resolved": False,
        },
    ),
]

EDITS: dict[str, list[Edit]] = {
    "ai-session": AI_SESSION,
    "praxis": PRAXIS,
    "craft": CRAFT,
    "essay": ESSAY,
    "orchestrator": ORCHESTRATOR,
}
UPDATED = {
    of: next(edit for edit in edits if "update" in edit.__name__ or "activity" in edit.__name__)
    for of, edits in EDITS.items()
}
"""What every program does besides."""
