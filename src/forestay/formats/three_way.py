"""Merge an edit of a session's files with the session's current facts, field by field.

*Base* is the rendering that the edit was made from (`choose_base`), *theirs* is the content of the
files now. All sides are compared in the form in which the format can express them; otherwise a time
that a file rounds would look like a change. A field that changed on one side gets that value. A
field that changed on both sides is *contested*: the file was written later, so its value wins, and
the journal has both values. There is one exception: if the edit ends a session that was continued
meanwhile, the session stays open.

A change that no event can record (a task was removed, the project's folder was changed) is not
absorbed, and the next rendering undoes it. Such changes are the *residue*, which is reported and
recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from forestay.formats import carry_over, timestamps
from forestay.formats import diff as trees
from forestay.formats.coerce import mapping, with_texts
from forestay.formats.facts import (
    AgentFact,
    CheckpointFact,
    DecisionFact,
    Facts,
    StepFact,
    alike,
    plain,
)
from forestay.formats.fields import tasks_in
from forestay.formats.port import Format, Tree, Where
from forestay.formats.to_events import (
    Move,
    category_of,
    is_resumed,
    match_steps,
    moves,
    reworded,
)

Plain = dict[str, Any]
Clean = Callable[[Any], Any]
"""A function that cleans plain facts as the journal does before it stores their texts."""
_Unit = TypeVar("_Unit", StepFact, AgentFact)
_TIMES = ("started_at", "ended_at")
_CLOSED = ("done", "skipped")
_OVER = ("completed", "failed", "aborted", "abandoned")
LONGEST = 2000
_CLEAR = 0.5
"""The share of common words above which an edited decision counts as the same decision."""
_NAMED = {
    "steps": ("id", "title"),
    "agents": ("id",),
    "decisions": ("what",),
    "checkpoints": ("step",),
}
"""Lists whose elements are identified by name, and the field that has the name."""
_DERIVED = frozenset(("native_id", "device", "updated_at", "position", "tokens_by_agent"))
"""Fields that follow from other fields, or that no user sets."""
_OF_PAUSE = ("paused_at", "pause_reason", "pause_context")
_RESUMED = ("resumed_at", "resumes")
_WITH_STATUS = frozenset((*_OF_PAUSE, *_RESUMED, "ended_at", "because"))
"""Fields that change together with the status."""


class Changes(Struct):
    """The moves that follow from an edit, the fields changed on both sides, and the residue."""

    moves: list[Move]
    contested: list[str]
    residue: str = ""


def changes(
    format: Format, base: Tree, theirs: Tree, now: Facts, where: Where, clean: Clean
) -> Changes:
    """Return the changes from `base` to `theirs` as moves that apply to the current facts."""
    ours = write_facts(format, base, now, where, clean)
    names = {name: now.steps[place] for place, name in format.assigned_step_ids(now).items()}

    def read(side: Tree) -> Plain:
        facts = carry_over.read(format, side, where)
        facts = msgspec.convert(clean(plain(facts)), Facts)
        return as_recorded(_as_ours(facts, names))

    before, today, after = map(read, (base, ours, theirs))
    if not format.has_goal and today.get("goal") != now.goal:
        # These files have no field for the goal; the one read from them is derived.
        before, today, after = (_less(each, "goal") for each in (before, today, after))
    merged, contested, residue = merge_facts(before, after, today)
    # If a list has room for one element only, writing another one does not remove the first.
    lasting = {key: each for key, each in before.items() if key not in format.latest & after.keys()}
    edit = _Edit(lasting, after, today, merged, now, _between(today, merged, now))
    residue += _unrecorded(edit)
    return Changes(edit.made, contested, "; ".join(filter(None, residue))[:LONGEST])


def merge_facts(before: Plain, after: Plain, today: Plain) -> tuple[Plain, list[str], list[str]]:
    """Merge base, edit and current facts; return the result, contested fields and the residue."""
    _drop_derived_failure(before, after)
    merged, conflicts = trees.merge(*_filled(before, after, today))
    merged = {key: each for key, each in merged.items() if each not in ([], {})}
    residue = [_stay_open(merged, today)] if ("status",) in conflicts else []
    residue.append(_restore_open_position(before, after, today, merged))
    in_file = [path for path in conflicts if not _is_compatible(path, after, today)]
    contested = [".".join(map(str, path)) for path in in_file]
    return merged, contested, residue


def _filled(*sides: Plain) -> list[Plain]:
    """Return each side with an empty list or map for each list or map that only another side has.

    Plain facts leave out empty lists, and a missing list would be contested as a whole.
    """
    kinds = {key: type(each) for side in sides for key, each in side.items()}
    empty: Plain = {key: kind() for key, kind in kinds.items() if kind in (list, dict)}
    return [empty | side for side in sides]


def _is_compatible(path: trees.Path, after: Plain, today: Plain) -> bool:
    """Return whether the two new values of a field do not contradict each other.

    Different times and counters never do, because each side records its own. Different reasons for
    a pause contradict each other only if both sides are paused, different reasons for the end only
    if both sides have ended.
    """
    if path == ("status",):
        return _is_reached(after.get("status"), today.get("status"))
    words = {side.get("status", "active") for side in (after, today)}
    if path[0] in ("pause_reason", "pause_context"):
        return words != {"paused"}
    if path[0] == "because":
        return not words <= set(_OVER)
    when = ("started_at", "ended_at", "at", "paused_ms")
    return path[-1] in when or path[0] in ("device", "updated_at", "paused_at", *_RESUMED)


def _is_reached(theirs: object, ours: object) -> bool:
    """Return whether the edit completes a session that is only paused in the journal."""
    return (theirs, ours) == ("completed", "paused")


def _between(had: Plain, wanted: Plain, now: Facts) -> list[Move]:
    old, new = (_named(msgspec.convert(side, Facts), now) for side in (had, wanted))
    if had.get("steps") != wanted.get("steps"):
        # A file can have phases and stages that the journal does not have yet.
        known = {step.id for step in now.steps}
        old.steps = [step for step in old.steps if step.id in known]
    return moves(old, new)


def _as_ours(facts: Facts, names: dict[str, StepFact]) -> Facts:
    """Return facts with the journal's ids of steps, because some formats number their steps."""

    def called(name: str) -> str:
        return names[name].id if name in names else name

    def known(step: StepFact) -> StepFact:
        ours = names.get(step.id, step)
        return replace(step, id=ours.id, title=ours.title, unit=ours.unit, parent=ours.parent)

    steps = [known(step) for step in facts.steps]
    checks = [replace(check, step=called(check.step)) for check in facts.checkpoints]
    return replace(facts, steps=steps, checkpoints=checks, position=called(facts.position))


def as_recorded(facts: Facts) -> Plain:
    """Return facts as plain values, in the form in which the journal would record them.

    Errors get their recorded categories. A reason is dropped unless the session has ended: some
    formats derive one from an error that ended nothing.
    """
    values: Plain = plain(facts)
    if facts.status not in _OVER:
        values.pop("because", None)
    for error in values.get("errors", []):
        error["category"] = category_of(error.get("category", ""))
    return values


# -- writing facts into existing files -------------------------------------


def write_facts(
    format: Format,
    old: Tree | None,
    facts: Facts,
    where: Where,
    clean: Clean,
    *,
    is_clean: bool = False,
) -> Tree:
    """Return the files for some facts; a value with the same meaning retains its form in `old`.

    The journal shortens long texts, removes secrets and control characters, and gives everything a
    time. `clean` does the same to plain facts; `is_clean` means that it changes nothing in the
    facts of `old`.
    """
    if not old:
        return carry_over.write(format, None, facts, where)
    in_file = format.get(old, where)
    facts = _without_unstated_times(facts, in_file)
    if not is_clean:
        raw = plain(in_file)
        facts = msgspec.convert(restore_texts(raw, clean(raw), plain(facts)), Facts)
    return carry_over.write(format, old, facts, where)


def is_stored_whole(format: Format, tree: Tree, where: Where, clean: Clean) -> bool:
    """Return whether the journal would store all texts of the files unchanged."""
    facts = plain(format.get(tree, where))
    return bool(clean(facts) == facts)


def restore_texts(original: Any, cleaned: Any, new: Any) -> Any:
    """Return the new value with each text that equals a cleaned text replaced by its original."""
    if isinstance(cleaned, str):
        return original if cleaned == new else new
    if isinstance(cleaned, dict) and isinstance(new, dict):
        keys = dict(zip(cleaned, original, strict=True))
        return {
            keys.get(key, key): restore_texts(original[keys[key]], cleaned[key], value)
            if key in cleaned
            else value
            for key, value in new.items()
        }
    if isinstance(cleaned, list) and isinstance(new, list):
        places = {to: at for at, to in trees.align(cleaned, new)}
        # Elements that moved within the list are identified by their texts alone.
        words = _originals(original, cleaned)
        return [
            restore_texts(original[places[to]], cleaned[places[to]], value)
            if to in places
            else with_texts(value, lambda text: words.get(text, text))
            for to, value in enumerate(new)
        ]
    return new


def _originals(original: Any, cleaned: Any) -> dict[str, str]:
    """Return the original of each cleaned text."""
    if isinstance(cleaned, str):
        return {cleaned: original}
    sides = (original, cleaned)
    if isinstance(cleaned, dict):
        sides = (original.values(), cleaned.values())
    elif not isinstance(cleaned, list):
        return {}
    pairs = zip(*sides, strict=True)
    return {text: raw for each in pairs for text, raw in _originals(*each).items()}


def _without_unstated_times(facts: Facts, in_file: Facts) -> Facts:
    """Return the facts without times that the files do not have for elements they already list.

    In the journal everything has a time, even if the file gave none.
    """
    steps, agents = {s.id: s for s in in_file.steps if s.id}, {a.id: a for a in in_file.agents}
    judged = {check.step: check for check in in_file.checkpoints}
    return replace(
        facts,
        steps=[_with_files(_bare(s, steps.get(s.id)), steps.get(s.id)) for s in facts.steps],
        agents=[
            _with_error(_bare(agent, in_file), in_file)
            for agent, in_file in ((a, agents.get(a.id)) for a in facts.agents)
        ],
        checkpoints=[_as_judged(check, judged.get(check.step)) for check in facts.checkpoints],
    )


def _bare(fact: _Unit, in_file: _Unit | None) -> _Unit:
    if in_file is None or in_file.status != fact.status:
        return fact
    gone = [name for name in _TIMES if getattr(in_file, name) is None and getattr(fact, name)]
    return replace(fact, **dict.fromkeys(gone)) if gone else fact


def _with_files(fact: StepFact, in_file: StepFact | None) -> StepFact:
    """Return a step with the output files that its entry lists; no event records them earlier."""
    new = [] if in_file is None else [file for file in fact.files if file not in in_file.files]
    if in_file is None or len(in_file.files) + len(new) == len(fact.files):
        return fact
    return replace(fact, files=[*in_file.files, *new])


def _with_error(fact: AgentFact, in_file: AgentFact | None) -> AgentFact:
    """Return an agent with values that only its entry in the file has, for the same run.

    They are the number of attempts, and the error of the previous run if the agent runs again.
    """
    if in_file is None or _run(in_file) != _run(fact):
        return fact
    fact = replace(fact, retries=in_file.retries, retried_at=in_file.retried_at)
    is_again = fact.status == "running" and not fact.error
    return replace(fact, error=in_file.error, category=in_file.category) if is_again else fact


def _run(agent: AgentFact) -> object:
    """Return a value that identifies a run of an agent: its status and its times in seconds."""
    return agent.status, *((getattr(agent, name) or 0) // 1000 for name in _TIMES)


def _as_judged(fact: CheckpointFact, in_file: CheckpointFact | None) -> CheckpointFact:
    """Return a verdict with the word of the file, as the journal stores `skipped` as passed."""
    if in_file is None or in_file.at is not None or in_file.evidence != fact.evidence:
        return fact
    same = in_file.verdict in (fact.verdict, "skipped" if fact.verdict == "passed" else "")
    return replace(fact, verdict=in_file.verdict, at=None) if same else fact


# -- the base of an edit --------------------------------------------------------------------

_COMPARED = 256_000
"""The most bytes of stored renderings that are read to find the nearest one."""


_MEMBER_NAMES = (*trees.STRONG, *trees.WEAK, "message", "context")
"""The keys that identify elements of lists."""


def choose_base(id: str, found: Any, kept: Sequence[bytes], read: Callable[[bytes], Any]) -> Any:
    """Return the value of the rendering that an edit was made from; None if none is stored.

    It is the rendering whose id the edit still has. If several have this id (because an absorbed
    edit did not change it), or the id is unknown, it is the one with the fewest different fields,
    the newest of equals. `kept` are the renderings, newest first; `read` parses one.
    """
    chosen = [each for each in kept if id and id.encode() in each] or list(kept)
    sizes = accumulate(map(len, chosen))
    few = [each for each, size in zip(chosen, sizes, strict=True) if size <= _COMPARED]
    fields = Counter(_fields(found))

    def count_differences(value: Any) -> int:
        others = Counter(_fields(value))
        return (fields - others).total() + (others - fields).total()

    return min(map(read, few or chosen[:1]), key=count_differences, default=None)


def _fields(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield each field of a value with its path; elements of lists are identified by name."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _fields(each, f"{path}.{key}")
    elif isinstance(value, list):
        for each in value:
            names = (mapping(each).get(key) for key in _MEMBER_NAMES)
            yield from _fields(each, f"{path}[{next(filter(None, names), '')}]")
    else:
        yield path, str(value)


# -- what no event records ------------------------------------------------------------------------


class _Edit(Struct):
    """The sides of an edit, their merge, and the moves that follow from it."""

    before: Plain
    after: Plain
    today: Plain
    merged: Plain
    now: Facts
    made: list[Move]

    def moves_with(self, key: str, value: Any) -> list[Move]:
        """Return the moves if the field `key` had another value; None removes the field."""
        rest = _less(self.merged, key)
        return _between(self.today, rest if value is None else rest | {key: value}, self.now)

    def named(self, key: str) -> list[dict[str, Plain]]:
        """Return the elements of a list by name: before, after, today and merged."""
        sides = (self.before, self.after, self.today, self.merged)
        return [{_name(key, each): each for each in side.get(key, [])} for side in sides]


def _unrecorded(edit: _Edit) -> list[str]:
    """Return a line for each change of the edit that no move records."""
    before, after, today, merged = edit.before, edit.after, edit.today, edit.merged
    moved = merged.get("status") != today.get("status") or is_resumed(edit.made)
    silent = _DERIVED | _WITH_STATUS if moved else _DERIVED
    found: list[str] = []
    for key in (merged.keys() | today.keys()) - silent:
        ours, all_ = today.get(key), merged.get(key)
        if after.get(key) == before.get(key):
            continue
        if key in _NAMED:
            found += _unrecorded_elements(edit, key)
        elif key == "errors" or isinstance(before.get(key), list):
            found += _removed(edit, key)
        elif all_ != ours and edit.moves_with(key, ours) == edit.made:
            is_time = key.endswith("_at")
            shown = timestamps.write(all_) if is_time and isinstance(all_, int) else all_
            is_gone = all_ in ("", None, [], {})
            found.append(f"{key} was removed" if is_gone else f"{key}: {shown}")
    return sorted(found)


def _removed(edit: _Edit, key: str) -> Iterator[str]:
    """Yield a line for each element removed from a list; the next rendering restores it."""
    left, ours = edit.after.get(key, []), edit.today.get(key, [])
    # If an agent fails again, its earlier error is the agent's again and leaves the list.
    held = {(a["id"], a.get("error")) for a in edit.after.get("agents", []) if key == "errors"}
    # A claim that only got more fields was not removed.
    claims = {_label(claim) for claim in left if key == "claims"}
    for element in edit.before.get(key, []):
        is_held = (element.get("agent"), element.get("message")) in held if held else False
        if element in left or element not in ours or is_held or _label(element) in claims:
            continue
        yield f"{key}: {_label(element)} was removed"


def _label(element: Any) -> str:
    texts = element.values() if isinstance(element, dict) else [element]
    return next((text for text in texts if isinstance(text, str) and text), "")


def _unrecorded_elements(edit: _Edit, key: str) -> Iterator[str]:
    """Yield the changes to a list of named elements that no move records, and removed elements."""
    was, is_, ours, all_ = edit.named(key)
    recorded = _recorded_names(edit, key)
    for name, element in is_.items():
        is_new = element != was.get(name) and name in all_ and all_[name] != ours.get(name)
        if is_new and name not in recorded:
            yield f"{key}: {name}"
    if key != "checkpoints":  # a removed verdict is withdrawn
        yield from _removed_elements(edit, key)


def _removed_elements(edit: _Edit, key: str) -> Iterator[str]:
    was, is_, ours, _ = edit.named(key)
    sides = (edit.today, edit.merged) if key == "decisions" else ({}, {})
    decisions = (msgspec.convert(side.get(key, []), list[DecisionFact]) for side in sides)
    became = reworded(*decisions)
    for name in was:
        if name not in is_ and name in ours and name not in became:
            yield f"{key}: {name} was removed"
        elif name in became and alike(name, became[name]) <= _CLEAR:
            yield f"{key}: {name} was removed (it counts as {became[name]} now)"


def _recorded_names(edit: _Edit, key: str) -> set[str]:
    """Return the names of the elements that the moves of an edit mention."""
    bodies = [move.body for move in edit.made]
    texts = {
        getattr(body, field)
        for body in bodies
        for field in ("step", "agent", "what", "title")
        if isinstance(getattr(body, field, None), str)
    }
    if key != "steps":
        return texts
    # Some files identify steps by their titles only.
    steps = _named(msgspec.convert(edit.merged, Facts), edit.now).steps
    names = (_name("steps", element) for element in edit.merged.get("steps", []))
    return texts | {name for name, step in zip(names, steps, strict=True) if step.id in texts}


def _less(all: Plain, key: str) -> Plain:
    return {name: value for name, value in all.items() if name != key}


def _name(key: str, element: Plain) -> str:
    return next((str(element[field]) for field in _NAMED[key] if element.get(field)), "")


def _stay_open(merged: dict[str, Any], today: dict[str, Any]) -> str:
    theirs, ours = merged.get("status", "active"), today.get("status", "active")
    if theirs not in _OVER or ours in _OVER or _is_reached(theirs, ours):
        return ""
    del merged["status"]
    merged.update({"status": ours} if "status" in today else {})
    return f"status: {theirs}"


def _restore_open_position(before: Plain, after: Plain, today: Plain, merged: Plain) -> str:
    """Restore the current position if an edit sets it to a closed step; return the residue."""
    place, was = after.get("position", ""), before.get("position", "")
    steps = {s.get("id"): s.get("status", "pending") for s in merged.get("steps", [])}
    if place == was or steps.get(place or was) not in _CLOSED:
        return ""
    merged["position"] = today.get("position", "")
    # All steps of a completed session are closed, and the last one is current.
    return f"position: {place}" if place and merged.get("status") != "completed" else ""


def _drop_derived_failure(before: Plain, after: Plain) -> None:
    """Remove a failed status from the edited facts if the edit did not cause it.

    Formats without a word for failure derive it from an error, even from one that is not new.
    """
    if before.get("status") == "failed" or after.get("status") != "failed":
        return
    known = {error.get("message") for error in before.get("errors", [])} - {None}
    paused = after.get("paused_at") not in (None, before.get("paused_at"))
    if after.get("because") in known and not paused:
        del after["status"], after["because"]


def _named(facts: Facts, now: Facts) -> Facts:
    """Return facts in which steps without an id get the id that the journal has for the title."""
    facts.steps = [step for _, step in match_steps(now.steps, facts.steps, tasks_in(now))]
    return facts
