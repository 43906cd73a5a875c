"""Convert a session into another format and back; in between another program edits it.

A walk converts a random session (`pair_sessions`) through one or two formats and back: the files
must hold equal values. Then it does so again with one or two native edits in the last format
(`pair_edits`), by a program that writes the whole file in its own style.

The result is checked by *views*: the values of the native fields of a file, read by a few lines
that share nothing with the tested code. Where both ends had equal values before, they have equal
values after; what no edit touched is unchanged; and no value or key of the first files has changed
except where the edit may reach (`REACH`). Of files in which something is missing or of the wrong
type only the values and the facts are checked. A seed always gives the same walk.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

from forestay.formats import diff
from forestay.formats.port import REGISTRY, Tree, Where
from tests.formats.pair_edits import EDITS, UPDATED, opened, title
from tests.formats.pair_sessions import spelled, written
from tests.formats.test_pairs import (
    ELSEWHERE,
    HERE,
    STORIES,
    Files,
    all_leaves,
    changed_places,
    converted,
    facts_of,
    keys_of,
    read,
    without_extra,
)

View = dict[str, Any]


class Broken(AssertionError):
    """Something that must be true is not; the message has all steps that led to it."""


# -- views -------------------------------------------------------------------------------------

MEANS = {
    "created": "active",
    "in_progress": "active",
    "error": "failed",
    "complete": "completed",
    "abandoned": "aborted",
}
LESS = {
    "ai-session": {"failed": "paused", "aborted": "paused"},
    "praxis": {"failed": "paused", "aborted": "paused"},
    "essay": {"failed": "paused"},
    "orchestrator": {"failed": "paused"},
}
"""What is left of a status in a format that has fewer words."""


def status_of(word: str) -> str:
    return MEANS.get(word, word)


def second(stamp: Any) -> str:
    return stamp[:19] if isinstance(stamp, str) else ""


def tasks_of(doc: Any) -> Counter[tuple[str, bool]]:
    listed = (("completed_work", True), ("pending_tasks", False))
    return Counter((title(entry), is_done) for key, is_done in listed for entry in doc[key])


def view_craft(doc: Any) -> View:
    usage = doc["context_usage"]
    carried = doc.get("forestay", {}).get("facts", {}).get("in", {})
    # A sum that is not stated is that of the agents.
    tokens = {} if "tokens" in carried else {"tokens": usage["estimated_tokens"]}
    return {
        **tokens,
        "status": status_of(doc["status"]),
        "goal": doc["goal"],
        "mode": doc["mode"],
        "began": second(doc["created_at"]),
        "updated": second(doc["updated_at"]),
        "branch": doc.get("metadata", {}).get("git_branch"),
        "spent": usage["by_agent"],
        "tasks": tasks_of(doc),
        "order": [title(entry) for entry in doc["pending_tasks"]],
        "agents": {agent["id"]: craft_agent(agent) for agent in doc["agents"]},
        "decisions": Counter(craft_choice(choice) for choice in doc["decisions_made"]),
    }


def craft_choice(choice: Any) -> tuple[str, str, str]:
    what, chosen = choice["context"], choice["chosen"]
    text = what if chosen in ("", what) else f"{what}: {chosen}"
    return text, choice["reasoning"] or "", second(choice["timestamp"])


def craft_agent(agent: Any) -> View:
    words = {"pending": "running", "error": "failed", "timeout": "failed", "completed": "done"}
    return {
        "type": agent["type"],
        "status": words.get(agent["status"], agent["status"]),
        "began": second(agent.get("started_at")),
        "ended": second(agent.get("completed_at")),
        "progress": round(100 * (agent.get("progress") or 0)),
        "result": agent.get("output_summary") or "",
        "error": (agent.get("error") or {}).get("message") or "",
    }


def view_orchestrator(doc: Any) -> View:
    project, agents = doc.get("project", {}), doc["agents"]
    spent = {agent["id"]: agent.get("context_tokens") for agent in agents}
    choices = (
        (choice["decision"], choice["rationale"], second(choice["timestamp"]))
        for choice in doc["decisions_made"]
    )
    return {
        "status": status_of(doc["status"]),
        "goal": doc["goal"],
        "mode": doc.get("mode"),
        "began": second(doc.get("created")),
        "updated": second(doc.get("updated")),
        "branch": project.get("git_branch"),
        "tokens": doc.get("context_usage", {}).get("estimated_tokens", 0),
        "spent": {id: count for id, count in spent.items() if count is not None},
        "tasks": tasks_of(doc),
        "order": [title(entry) for entry in doc["pending_tasks"]],
        "agents": {agent["id"]: orchestrator_agent(agent, doc["errors"]) for agent in agents},
        "decisions": Counter(choices),
    }


def orchestrator_agent(agent: Any, errors: list[Any]) -> View:
    words = {"in_progress": "running", "failure": "failed", "complete": "done"}
    status = words[agent["status"]]
    own = [error["message"] for error in errors if error.get("agent") == agent["id"]]
    return {
        "type": agent["type"],
        "status": status,
        "began": second(agent.get("started")),
        "ended": second(agent.get("completed")),
        "progress": agent.get("progress") or (100 if status == "done" else 0),
        "result": agent.get("result_summary") or "",
        "error": own[-1] if own and status == "failed" else "",
    }


def view_ai_session(doc: Any) -> View:
    return {
        "status": doc["entry"]["status"],
        "goal": doc["feature"]["name"],
        "began": second(doc["state"]["started_at"]),
        "updated": second(doc["state"]["last_updated"]),
        "tasks": Counter((t["description"], t["status"] == "completed") for t in doc["tasks"]),
    }


def view_praxis(doc: Any) -> View:
    view = {"began": second(doc["created_at"]), "updated": second(doc["updated_at"])}
    life = doc.get("lifecycle")
    if life is None or life["last_error"]:
        return view  # older files have no word for it, and an error may be the end or not
    flags = [word for word in ("completed", "paused") if life[word]]
    return {**view, "status": flags[0] if flags else "active"}


def view_essay(doc: Any) -> View:
    return {
        "status": status_of(doc["status"]),
        "began": second(doc["started_at"]),
        "updated": second(doc["last_activity"]),
    }


VIEWS: dict[str, Callable[[Any], View]] = {
    "ai-session": view_ai_session,
    "praxis": view_praxis,
    "craft": view_craft,
    "essay": view_essay,
    "orchestrator": view_orchestrator,
}


# -- where an edit may reach -------------------------------------------------------------------

TOUCHES: dict[str, tuple[str, ...]] = {
    "task": ("tasks", "order"),
    "phase": ("tasks", "order"),
    "stage": ("tasks", "order"),
    "section": ("tasks", "order"),
    "decision": ("decisions",),
    "agent": ("agents", "order"),
    "agent error": ("agents", "order"),
    "agent taken": ("agents", "order", "spent", "tokens"),
    "waiting taken": ("agents", "order", "spent", "tokens", "tasks"),
    "error status": ("status",),
}
"""Kind of edit → the parts of a view that it may change, unless it is just the one of its name."""

FOLLOWS = {"order": {"tasks", "agents"}, "spent": {"tasks", "agents"}}
"""Parts that may differ after a change of something else: a task that is done or resumed has
another place in each file, and the tokens of a removed agent may be in one of them only."""
_LISTS = r"json:(completed_work|pending_tasks)\b"
_PHASES = (
    r"json:(completed_phases|checkpoints|phase_timings?|phase_attempts|phase_artifacts"
    r"|current_phase|workflow_structure)\b"
)
REACH: dict[str, dict[str, str]] = {
    "ai-session": {
        "status": r"features\.yaml:.*\.status$",
        "task": r"plan\.yaml:phases",
        "order": r"plan\.yaml:phases",
        "updated": "last_updated|last_active",
        "began": "started_at|created_at",
        "goal": r"feature\.name",
        "position": "active_task",
        "command": r"history\.jsonl",
        "model": "model_in_use",
        "outcome": "artifacts",
    },
    "praxis": {
        "status": r"json:(lifecycle\.\w+|status|completed_at)$",
        "task": _PHASES,
        "updated": "updated_at",
        "began": "created_at|started_at|duration",
        "error": r"lifecycle\.|error_reason",
        "position": "current_phase|checkpoints",
        "attribute": "metadata",
        "target": "target_file",
        "command": "commands_executed",
    },
    "craft": {
        "status": "json:status$",
        "progress": "json:progress",
        "task": _LISTS,
        "order": _LISTS,
        "decision": "decisions_made",
        "agent": r"agents\b|by_agent|tokens",
        "spent": "by_agent|tokens",
        "tokens": "tokens",
        "compressed": "compression",
        "updated": "updated_at",
        "began": "created_at",
        "place": "json:project|devices",
        "branch": "metadata",
        "goal": "goal",
        "mode": "json:mode",
        "file": "files_modified",
    },
    "essay": {
        "status": r"yaml:status$|output\.completed_at",
        "task": r"yaml:stages\.",
        "updated": "last_activity",
        "began": "started_at",
        "claim": "deferred|overrides",
        "position": "current_",
        "attribute": "voice",
    },
    "orchestrator": {
        "status": "json:status$|completed_at",
        "task": _LISTS,
        "order": _LISTS,
        "outcome": "completed_work",
        "decision": "decisions_made",
        "agent": r"agents\b|pending_tasks",
        "spent": "context_tokens",
        "tokens": "context_usage",
        "compressed": "context_usage",
        "updated": "json:updated",
        "began": "json:created|json:started_at",
        "place": r"project\.|project_path",
        "branch": r"project\.",
        "goal": "goal",
        "mode": "json:mode",
        "error": "errors",
        "file": "files_modified",
    },
}
"""Format → kind of edit → the places it may reach, as a pattern over `file:path`."""
ALSO = {
    "phase": ("task", "position"),
    "stage": ("task",),
    "section": ("task", "position"),
    "outcome": ("outcome", "task"),
    "agent error": ("agent", "error"),
    "agent taken": ("agent", "spent", "error"),
    "waiting taken": ("agent", "spent", "error"),
    "error status": ("error", "status"),
}


UNSAID = {
    "craft": {"": "json:progress$"},
    "praxis": {"order": _PHASES},
    "essay": {"": "yaml:current_stage"},
}
"""Format → kind of edit, or any → what may change in files with carried values: the figure or the
position was not stated, and tasks are phases by their order."""


def may_reach(a: str, edit_kinds: list[str], files: Files) -> str:
    kinds = [each for one in edit_kinds for each in ALSO.get(one, (one,))]
    reach = [REACH[a].get(each, "nowhere") for each in kinds]
    if _travels(files):
        reach += [where for kind, where in UNSAID.get(a, {}).items() if kind in ("", *kinds)]
    if a == "orchestrator" and "status" in kinds and b'"because"' in b"".join(files.values()):
        reach.append("errors")  # why a session failed that has not failed any more
    return "|".join(reach)


def _travels(files: Files) -> bool:
    return b"forestay" in b"".join(files.values())


# -- walks -------------------------------------------------------------------------------------


def walk(seed: int) -> None:
    """There and back, unedited and edited; raises `Broken` where something is not true."""
    chance = Random(seed)
    way = chance.sample(list(REGISTRY), chance.choice((2, 2, 2, 3)))
    trail = [f"seed {seed}: {' → '.join(way)}"]
    is_hurt = False
    if chance.random() < 0.15:
        story = chance.choice([story for story in STORIES if story.startswith(f"{way[0]}/")])
        files = STORIES[story]
        trail.append(story)
        # An edited file of an older generation comes back in today's form.
        is_hurt = story in ("praxis/legacy", "praxis/second")
    else:
        is_hurt = chance.random() < 0.2
        files = written(chance, way[0], is_hurt)
    try:
        there = go(files, way, HERE)
        require_equal(files, go(there, way[::-1], ELSEWHERE))
        after, edit_kinds = edited(chance, way[-1], there, trail)
        back = go(after, way[::-1], ELSEWHERE)
        hold_facts(facts_of(after, way[-1]), facts_of(back, way[0]))
        if edit_kinds and not is_hurt:
            hold_views(
                way[0], way[-1], edit_kinds, *(read(of) for of in (files, back, there, after))
            )
            hold_frame(files, back, may_reach(way[0], edit_kinds, files))
    except Exception as error:
        raise Broken("\n".join([*trail, str(error)])) from error


def go(files: Files, way: list[str], where: Where) -> Files:
    for one, other in pairwise(way):
        files = converted(files, one, other, where)
    return files


def edited(chance: Random, b: str, files: Files, trail: list[str]) -> tuple[Files, list[str]]:
    """The files as another program leaves them, and what kinds of things it touched."""
    values = read(files)
    edits = chance.sample(EDITS[b], chance.choice((1, 1, 2)))
    edits += [UPDATED[b]] if chance.random() < 0.5 else []
    edit_kinds = [(edit.__name__, edit(chance, opened(b, values))) for edit in edits]
    trail += [name for name, touched in edit_kinds if touched]
    made = {name: spelled(chance, name, value) for name, value in values.items()}
    return made, [touched for _, touched in edit_kinds if touched]


def require_equal(one: Files, other: Files) -> None:
    if not diff.identical(read(one), read(other)):
        raise Broken(f"not the same values:\n{difference(one, other)}")


def hold_facts(want: View, have: View) -> None:
    unlike = [name for name in {**want, **have} if want.get(name) != have.get(name)]
    if unlike:
        raise Broken(f"not said: { {n: (want.get(n), have.get(n)) for n in unlike} }")


def hold_views(
    a: str, b: str, edit_kinds: list[str], before: Tree, after: Tree, there: Tree, edited: Tree
) -> None:
    was, now = (VIEWS[a](opened(a, values)) for values in (before, after))
    other, wanted = (VIEWS[b](opened(b, values)) for values in (there, edited))
    touched = {part for one in edit_kinds for part in TOUCHES.get(one, (one,))}
    for name in was.keys() & now.keys():
        if name not in touched and was[name] != now[name]:
            raise Broken(f"{name} was {was[name]}, is {now[name]}; {edit_kinds} touched")
        if not touched & FOLLOWS.get(name, set()) and name in other and name in wanted:
            old, new = (_as_in(a, name, view[name]) for view in (other, wanted))
            if was[name] == old and now[name] != new:
                raise Broken(f"{name} is {now[name]}, and {new} there")


def _as_in(a: str, name: str, value: Any) -> Any:
    return LESS.get(a, {}).get(value, value) if name == "status" else value


def hold_frame(files: Files, back: Files, may: str) -> None:
    """Nothing of the first files has changed but where it may."""
    before, after = (
        {name: without_extra(value) for name, value in read(of).items()} for of in (files, back)
    )
    places = changed_places(before, after)
    stray = [place for place in places if not re.search(may, place)]
    if stray:
        raise Broken(f"{stray} changed:\n{difference(files, back)}")
    if set(places) - all_leaves(after).keys():
        return  # where something went, keys and lines around it may have gone too
    if keys_of(before, after) != keys_of(before, before):
        raise Broken(f"keys changed places:\n{difference(files, back)}")


def difference(one: Files, other: Files) -> str:
    found: list[str] = []
    for name in {**one, **other}:
        old, new = (files.get(name, b"").decode().splitlines() for files in (one, other))
        found += list(difflib.unified_diff(old, new, name, name, n=1, lineterm=""))[:40]
    return "\n".join(line[:300] for line in found)
