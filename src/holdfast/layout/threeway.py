"""Three-way: what someone's edit of a layout's files comes to, against the facts of today.

*Base* is what we once wrote, *theirs* what stands in the files now. All sides are compared as the
layout can tell them: else a time that a file rounds would look like a change. What both sides
changed is *contested*; the file was written later, so it wins, and both statements are in the
journal. Only an ending never wins a contest: a session that somebody goes on with is not over.

What no event can say (that a task was never there, where a project lies) is not taken up, and the
file will say again what the journal says: that is the *residue*, told and kept, never passed over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.layout import Layout, Tree, Where, carry, stamps
from holdfast.layout import tree as trees
from holdfast.layout.facts import (
    AgentFact,
    CheckpointFact,
    DecisionFact,
    Facts,
    StepFact,
    alike,
    plain,
)
from holdfast.layout.translate import (
    Move,
    begun_by,
    category_of,
    match_steps,
    moves,
    reworded,
)

Plain = dict[str, Any]
_Any = TypeVar("_Any")
_Unit = TypeVar("_Unit", StepFact, AgentFact)
Kept = Callable[[str], Sequence[str]]
"""What may have been kept of a text, in one way or another."""

_CLOSED = ("done", "skipped")
_OVER = ("completed", "failed", "aborted", "abandoned")
LONGEST = 2000
_TIMES = ("started_at", "ended_at")
_FEW = 16
_SOON_TRIED = 1000
"""How many elements are gone through to see what an edit comes to without each of its changes."""
_CLEAR = 0.5
"""Of how many of its words a decision must keep more to be the same one without doubt."""
_CUT = "…"
_NAMED = {
    "steps": ("id", "title"),
    "agents": ("id",),
    "decisions": ("what",),
    "checkpoints": ("step",),
}
"""Lists whose elements are known by name, and what names them."""
_DERIVED = frozenset(("native_id", "updated_at", "position", "tokens_by_agent"))
"""What follows from the rest, or is no part of what a user says."""
_WITH_STATUS = frozenset(
    ("paused_at", "pause_reason", "pause_context", "resumed_at", "resumes", "ended_at", "because")
)
"""What a change of the status says along with it."""


class Changes(Struct):
    """The moves that follow from an edit, what was changed on both sides, and what lost there."""

    moves: list[Move]
    contested: list[str]
    residue: str = ""


def changes(
    lens: Layout, base: Tree, theirs: Tree, now: Facts, where: Where, kept: Kept
) -> Changes:
    """Apply what changed from `base` to `theirs` to the facts of today."""
    ours = written(lens, base, now, where, kept)
    sides = [base, ours, theirs]
    sides = in_words_of(now, sides, kept, told=[plain(lens.get(side, where)) for side in sides])
    before, today, after = (as_recorded(carry.read(lens, side, where, sides[0])) for side in sides)
    if not lens.has_goal and today.get("goal") != now.goal:
        # Its files have no goal; the one that is read there is no other than what the user gave.
        before, today, after = (_less(each, "goal") for each in (before, today, after))
    merged, contested, residue = in_one(before, after, today)
    made = _between(today, merged, now)
    # Where there is room for one only, whoever writes another takes nothing out.
    lasting = {key: each for key, each in before.items() if key not in lens.latest & after.keys()}
    residue += _unsaid(lasting, after, today, merged, now, made)
    return Changes(made, contested, "; ".join(filter(None, residue))[:LONGEST])


def in_one(before: Plain, after: Plain, today: Plain) -> tuple[Plain, list[str], list[str]]:
    """What an edit changed and what changed here in one, what is contested, and what lost there."""
    _lift(before, after)
    merged, conflicts = trees.merge(before, after, today)
    residue = [_stay_open(merged, today)] if ("status",) in conflicts else []
    _go_on(merged, after, today)
    _begin_again(before, after, merged)
    residue += [_astray(before, after, today, merged)]
    # Whoever writes a file notes when; that two did is no contradiction.
    contested = [".".join(map(str, path)) for path in conflicts if path != ("updated_at",)]
    return merged, contested, residue


def _between(had: Plain, wanted: Plain, now: Facts) -> list[Move]:
    old, new = (_named(msgspec.convert(side, Facts), now) for side in (had, wanted))
    return moves(old, new)


def in_words_of(
    facts: Facts, values: list[_Any], kept: Kept, told: Sequence[Any] = ()
) -> list[_Any]:
    """What files say, in the words that the journal has for it: by them steps are known, also by
    what travels with a file, and what is there already. The values are a base, what it would be
    today, and what somebody made of it. Of several long texts with one beginning as many are known
    as the journal has; those that are `told` in the values come first, then those of the first
    values, and who edited an old file knew none that came since."""
    said = Counter(_all_texts(plain(facts)))
    counts = [Counter(_all_texts(value)) for value in values]
    since = counts[-2] - counts[0] if values[1:] else Counter[str]()
    texts: list[dict[str, Any]] = [*map(texts_in, told), *counts]
    others = {text: None for each in texts for text in each if text not in said}
    words: dict[str, str] = {}
    for text, ways in _substitutes(others, dict.fromkeys(said), kept).items():
        way = ways[-1]
        if said[way] > max(counts[-1][way], since[way]):
            words[text] = way
            said[way] -= 1
    return [_said_in(value, words) for value in values] if words else values


def as_recorded(facts: Facts) -> Plain:
    """Facts as plain values, with the categories that errors are recorded with, and a reason only
    for an end: a file may let read one from an error that ended nothing."""
    told: Plain = plain(facts)
    if facts.status not in _OVER:
        told.pop("because", None)
    for error in told.get("errors", []):
        error["category"] = category_of(error.get("category", ""))
    return told


# -- what no event can say -------------------------------------------------------------------------


def _unsaid(
    before: Plain, after: Plain, today: Plain, merged: Plain, now: Facts, made: list[Move]
) -> list[str]:
    """What the edit changed and what would be recorded just so without that change."""
    moved = merged.get("status") != today.get("status")
    silent = _DERIVED | _WITH_STATUS if moved else _DERIVED
    found: list[str] = []
    for key in merged.keys() | today.keys():
        if key in silent or after.get(key) == before.get(key):
            continue
        if key in _NAMED:
            found += _unsaid_of(key, before, after, today, merged, now, made)
        elif key == "errors" or isinstance(before.get(key), list):
            found += _gone(key, before, after, today)
        elif merged.get(key) != today.get(key):
            without = merged | {key: today[key]} if key in today else _less(merged, key)
            if _between(today, without, now) == made:
                found.append(_as_told(key, merged.get(key)))
    return sorted(found)


def _gone(key: str, before: Plain, after: Plain, today: Plain) -> Iterator[str]:
    """What was taken out of a list: the journal knows that it happened, so it comes back."""
    left, ours = after.get(key, []), today.get(key, [])
    # An agent that fails again has an error once more that it had let go of.
    held = {(a["id"], a.get("error")) for a in after.get("agents", []) if key == "errors"}
    for element in before.get(key, []):
        is_held = (element.get("agent"), element.get("message")) in held if held else False
        if element not in left and element in ours and not is_held:
            yield f"{key}: {_label(element)} was taken out"


def _label(element: Any) -> str:
    texts = element.values() if isinstance(element, dict) else [element]
    return next((text for text in texts if isinstance(text, str) and text), "")


def _as_told(key: str, theirs: Any) -> str:
    """What was not taken up, in words."""
    if theirs in ("", None, [], {}):
        return f"{key} was taken out"
    is_time = key.endswith("_at") and isinstance(theirs, int)
    return f"{key}: {stamps.write(theirs) if is_time else theirs}"


def _unsaid_of(
    key: str,
    before: Plain,
    after: Plain,
    today: Plain,
    merged: Plain,
    now: Facts,
    made: list[Move],
) -> Iterator[str]:
    """The same of a list, element by element; those that were taken out are among it."""
    sides = (before, after, today, merged)
    was, is_, ours, all_ = ({_name(key, e): e for e in side.get(key, [])} for side in sides)
    changed = [
        name
        for name, element in is_.items()
        if element != was.get(name) and name in all_ and all_[name] != ours.get(name)
    ]
    many = len(changed) > _FEW or len(changed) * len(all_) > _SOON_TRIED
    told = _told(key, changed, ours, all_, today, merged, now, made) if many else set()
    left = [name for name in changed if name not in told]

    def is_silent(names: Sequence[str]) -> bool:
        mine = set(names)
        rest = (ours.get(n) if n in mine else e for n, e in all_.items())
        return _between(today, merged | {key: [e for e in rest if e is not None]}, now) == made

    silent = _silent_of([left] if many else [[name] for name in left], is_silent)
    for name in left:
        if name in silent:
            yield f"{key}: {name}"
        elif key == "agents" and name in ours:
            yield from _unsaid_words(was.get(name, {}), is_[name], ours[name], made)
    became = _became(today, merged) if key == "decisions" else {}
    # A verdict that is taken out is taken back.
    for name in was if key != "checkpoints" else ():
        if name not in is_ and name in ours and name not in became:
            yield f"{key}: {name} was taken out"
        elif name in became and alike(name, became[name]) <= _CLEAR:
            yield f"{key}: {name} was taken out (it counts as {became[name]} now)"


def _silent_of(groups: list[list[str]], is_silent: Callable[[Sequence[str]], bool]) -> set[str]:
    """The elements without which the same happens: of many, whole groups are tried first."""
    found: set[str] = set()
    while groups:
        group = groups.pop()
        if is_silent(group):
            found.update(group)
        elif len(group) > 1:
            half = len(group) // 2
            groups += [group[:half], group[half:]]
    return found


def _unsaid_words(was: Plain, is_: Plain, ours: Plain, made: list[Move]) -> Iterator[str]:
    """What an edit calls an agent and its work: only its start says that, if it is told anew."""
    names = ("type", "task") if is_["id"] not in begun_by(made) else ()
    words = [name for name in names if is_.get(name) not in (was.get(name), ours.get(name))]
    if words:
        yield f"agents: {is_['id']} ({', '.join(words)})"


def _became(today: Plain, merged: Plain) -> dict[str, str]:
    """The decisions that were taken for reworded, and what they say now."""
    sides = (side.get("decisions", []) for side in (today, merged))
    return reworded(*(msgspec.convert(side, list[DecisionFact]) for side in sides))


def _told(
    key: str,
    changed: list[str],
    ours: Plain,
    all_: Plain,
    today: Plain,
    merged: Plain,
    now: Facts,
    made: list[Move],
) -> set[str]:
    """The names in moves that are made because of some elements: to try each takes long."""
    news = set(changed)
    rest = {n: ours.get(n, e) for n, e in all_.items() if n not in news or n in ours}
    without = {repr(move) for move in _between(today, merged | {key: list(rest.values())}, now)}
    moves = (move.body for move in made if repr(move) not in without)
    texts = (getattr(body, field) for body in moves for field in body.__struct_fields__)
    told = {text for text in texts if isinstance(text, str)}
    return told | _titles_of(told, merged, now) if key == "steps" else told


def _titles_of(ids: set[str], merged: Plain, now: Facts) -> set[str]:
    """What steps with these ids are known by, where files tell their titles only."""
    steps = _named(msgspec.convert(merged, Facts), now).steps
    names = (_name("steps", element) for element in merged.get("steps", []))
    return {name for name, step in zip(names, steps, strict=True) if step.id in ids}


def _less(all: Plain, key: str) -> Plain:
    return {name: value for name, value in all.items() if name != key}


def _name(key: str, element: Plain) -> str:
    return next((str(element[field]) for field in _NAMED[key] if element.get(field)), "")


def _stay_open(merged: dict[str, Any], today: dict[str, Any]) -> str:
    theirs, ours = merged.get("status", "active"), today.get("status", "active")
    if theirs not in _OVER or ours in _OVER:
        return ""
    merged["status"] = ours
    return f"status: {theirs}"


def _astray(before: Plain, after: Plain, today: Plain, merged: Plain) -> str:
    """Where an edit says the work is, if no step is open there: the file will not say it again."""
    place, was = after.get("position", ""), before.get("position", "")
    steps = {s.get("id"): s.get("status", "pending") for s in merged.get("steps", [])}
    if place == was or (place and steps.get(place, "done") not in _CLOSED):
        return ""
    merged["position"] = today.get("position", "")
    # Of what is completed all steps are closed, and the work is in the last one.
    still = merged.get("status") != "completed" and (place or steps.get(was) == "running")
    return f"position: {place or 'none'}" if still else ""


def _lift(before: Plain, after: Plain) -> None:
    """Who notes no error and no pause has not failed of what was known before: files without a
    word for it let read that from an error alone, also when what followed it is taken back."""
    if before.get("status") == "failed" or after.get("status") != "failed":
        return
    known = {error.get("message") for error in before.get("errors", [])} - {None}
    paused = after.get("paused_at") not in (None, before.get("paused_at"))
    if after.get("because") in known and not paused:
        del after["status"], after["because"]


def _go_on(merged: Plain, after: Plain, today: Plain) -> None:
    """Who resumed after we paused has read that it was paused, whatever the file looks like."""
    paused = today.get("paused_at") if today.get("status") == "paused" else None
    if paused is not None and after.get("resumed_at", 0) >= paused and "status" not in after:
        merged.pop("status", None)


def _begin_again(before: Plain, after: Plain, merged: Plain) -> None:
    """Who began a step after its end runs it, also if the file that was read knew of no end."""
    sides = (side.get("steps", []) for side in (before, after))
    was, is_ = ({step["id"]: step for step in steps if "id" in step} for steps in sides)
    for step in merged.get("steps", []):
        edited, began = is_.get(step.get("id"), {}), was.get(step.get("id"), {}).get("started_at")
        news = edited.get("started_at") if edited.get("status") == "running" else None
        if news not in (None, began) and step.get("ended_at", news) < news:
            step["status"] = "running"
            merged["position"] = after.get("position", "")


def _named(facts: Facts, now: Facts) -> Facts:
    """Steps that the layout knows by their titles only get the ids they have with us."""
    facts.steps = [step for _, step in match_steps(now.steps, facts.steps)]
    return facts


# -- texts that could not be kept whole --------------------------------------------------------


def written(
    lens: Layout,
    old: Tree | None,
    facts: Facts,
    where: Where,
    kept: Kept,
    was: Facts | None = None,
    *,
    odd: bool = True,
) -> Tree:
    """The files for some facts; but where we only could not keep a text whole, what the user wrote.

    The layout knows elements by such texts, so it is shown the files in the words that were kept.
    `was` is what was written last, if the files say just that; `odd` is whether they may have odd
    texts (see `has_odd`). What stays is the very part of `old`.
    """
    given = facts
    # Praxis looks at all of them each time.
    if old and (was is None or lens.id == "praxis" or not _only_grew(was, facts)):
        facts = _untold(facts, lens.get(old, where))
    made = carry.write(lens, old or None, facts, where, full=False, was=was)
    if not old:
        return made
    if was is not None and _carries_less(lens, old, made, facts.native_id):
        # What is known by a text that could not be kept whole was not found by it.
        return written(lens, old, given, where, kept)
    made = _sharing(old, made)
    gone, came = _strings_apart(old, made)
    # Most texts that change are stamps and statuses: a quick look at both sides first.
    if not odd and not any(map(_is_cut, came)):
        return made
    words = _substitutes(gone | _strings_of_lists(old, made), came, kept)
    if not words:
        return made
    if was is not None:
        # A text may be kept in other ways where nothing changed, and nobody looked.
        return written(lens, old, given, where, kept)
    return _sharing(old, _with_originals(lens, old, facts, where, words))


def _carries_less(lens: Layout, old: Tree, made: Tree, id: str) -> bool:
    return carry.carried(lens, made, id) < carry.carried(lens, old, id)


def _with_originals(
    lens: Layout, old: Tree, facts: Facts, where: Where, words: dict[str, list[str]]
) -> Tree:
    """The files, with the original text wherever it stood.

    One text may be kept in several ways, in fields of other lengths, or whole where there is room:
    of the tries, the one counts after which the fewest of them are left.
    """
    words = {text: [text, *ways] for text, ways in words.items()}
    kept = {text for ways in words.values() for text in ways}
    tries = max(map(len, words.values())) + 1
    shown = _said_in(old, {text: ways[-1] for text, ways in words.items()})
    found: list[tuple[int, Tree]] = []
    while len(found) < tries:
        new = carry.write(lens, shown, facts, where, full=False)
        made = {n: restored(old.get(n), shown.get(n), value) for n, value in new.items()}
        made = {n: _moved_on(old.get(n), value, words) for n, value in made.items()}
        found.append((len(kept & _strings_apart(old, made)[1].keys()), made))
        if not found[-1][0]:
            break
        shown = {n: _otherwise(old[n], value, new.get(n), words) for n, value in shown.items()}
    return min(found, key=lambda each: each[0])[1]


def _moved_on(old: Any, made: Any, words: dict[str, list[str]]) -> Any:
    """A file in which a text that went from one place is whole where it came in another."""
    gone = Counter(_all_texts(old)) - Counter(_all_texts(made))
    lost: dict[str, list[str]] = {}
    for text in gone:
        for way in words.get(text, ()):
            lost.setdefault(way, []).append(text)
    return _with_lost(old, made, lost, gone) if lost else made


def _with_lost(old: Any, made: Any, lost: dict[str, list[str]], gone: Counter[str]) -> Any:
    if isinstance(made, dict):
        known = old if isinstance(old, dict) else {}
        return {key: _with_lost(known.get(key), each, lost, gone) for key, each in made.items()}
    if isinstance(made, list):
        listed = old if isinstance(old, list) else []
        was = {to: listed[at] for at, to in trees.align(listed, made)}
        return [_with_lost(was.get(to), each, lost, gone) for to, each in enumerate(made)]
    if not isinstance(made, str) or made == old:
        return made
    text = next((text for text in lost.get(made, ()) if gone[text] > 0 and text != made), made)
    gone[text] -= 1
    return text


def _sharing(old: Tree, new: Tree) -> Tree:
    return {name: trees.shared(old.get(name), value) for name, value in new.items()}


def _only_grew(was: Facts, facts: Facts) -> bool:
    """Whether nothing but tasks came to what was there: no layout looks at the others then."""
    known, new = facts.steps[: len(was.steps)], facts.steps[len(was.steps) :]
    same = (known, facts.agents, facts.goal, facts.attributes)
    grew = (was.steps, was.agents, was.goal, was.attributes) == same
    return grew and all(step.unit == "task" and not step.parent for step in new)


def _untold(facts: Facts, said: Facts) -> Facts:
    """The facts without times that the files leave out of what they say already.

    In the journal everything has a time, also what nobody told one of.
    """
    steps, agents = {s.id: s for s in said.steps if s.id}, {a.id: a for a in said.agents}
    judged = {check.step: check for check in said.checkpoints}
    return replace(
        facts,
        steps=[_with_files(_bare(s, steps.get(s.id)), steps.get(s.id)) for s in facts.steps],
        agents=[_bare(agent, agents.get(agent.id)) for agent in facts.agents],
        checkpoints=[_as_judged(check, judged.get(check.step)) for check in facts.checkpoints],
    )


def _bare(fact: _Unit, said: _Unit | None) -> _Unit:
    if said is None or said.status != fact.status:
        return fact
    gone = [name for name in _TIMES if getattr(said, name) is None and getattr(fact, name)]
    return replace(fact, **dict.fromkeys(gone)) if gone else fact


def _with_files(fact: StepFact, said: StepFact | None) -> StepFact:
    """With the files that it made before it was done, which the journal does not hear of."""
    new = [] if said is None else [file for file in fact.files if file not in said.files]
    if said is None or len(said.files) + len(new) == len(fact.files):
        return fact
    return replace(fact, files=[*said.files, *new])


def _as_judged(fact: CheckpointFact, said: CheckpointFact | None) -> CheckpointFact:
    """A verdict that the file gives already, in its word; ours for one left out is passed."""
    if said is None or said.at is not None or said.evidence != fact.evidence:
        return fact
    same = said.verdict in (fact.verdict, "skipped" if fact.verdict == "passed" else "")
    return replace(fact, verdict=said.verdict, at=None) if same else fact


def texts_in(value: Any) -> dict[str, None]:
    """All texts in a value, each once."""
    return dict.fromkeys(_all_texts(value))


def _all_texts(value: Any) -> list[str]:
    found: list[str] = []
    todo = [value]
    while todo:
        each = todo.pop()
        if isinstance(each, str):
            found.append(each)
        elif isinstance(each, dict):
            todo += each.values()
        elif isinstance(each, list):
            todo += each
    return found


def has_odd(value: Any) -> bool:
    """Whether some text in a value is one of which we may keep only a part without marking it."""
    return any(map(_is_odd, texts_in(value)))


def _is_odd(text: str) -> bool:
    return not text.isprintable() or text != text.strip()


def _is_cut(text: str) -> bool:
    return text.endswith(_CUT) or "[redacted:" in text


def _strings_of_lists(old: Any, new: Any) -> dict[str, None]:
    """The texts of lists that changed: none has to be gone, but one may be what came once more."""
    found: dict[str, None] = {}
    todo = [(old, new)]
    while todo:
        one, other = todo.pop()
        if isinstance(one, dict) and isinstance(other, dict):
            todo += [(one.get(k), each) for k, each in other.items() if one.get(k) is not each]
        elif isinstance(one, list) and isinstance(other, list):
            found |= texts_in(one)
    return found


def _strings_apart(old: Any, new: Any) -> tuple[dict[str, None], dict[str, None]]:
    """The texts in those parts of two values that are not one and the same."""
    gone: dict[str, None] = {}
    came: dict[str, None] = {}
    todo = [(old, new)]
    while todo:
        one, other = todo.pop()
        if one is other:
            continue
        if isinstance(one, dict) and isinstance(other, dict):
            todo += [(one.get(k), each) for k, each in other.items() if one.get(k) is not each]
            if one.keys() != other.keys():
                todo += [(one[key], None) for key in one.keys() - other.keys()]
        elif isinstance(one, list) and isinstance(other, list):
            todo += [(a, b) for a, b in zip_longest(one, other) if a is not b]
        else:
            gone |= texts_in(one)
            came |= texts_in(other)
    return gone, came


def _substitutes(gone: dict[str, None], came: dict[str, None], kept: Kept) -> dict[str, list[str]]:
    """Text that went, or stays in a list → texts that came and are all that could be kept of it."""
    marked, odd = list(filter(_is_cut, came)), frozenset(filter(_is_odd, gone))
    if not marked and not odd:
        return {}
    all_, those = _places(came), _places(marked)
    asked = ((text, all_ if text in odd else those) for text in gone if marked or text in odd)
    pairs = ((text, _left_of(text, kept(text), among)) for text, among in asked)
    return {text: left for text, left in pairs if left}


def _places(texts: Iterable[str]) -> dict[str, int]:
    return {text: place for place, text in enumerate(texts)}


def _left_of(original: str, ways: Sequence[str], among: dict[str, int]) -> list[str]:
    """Those of some texts which are a way to keep the original; the last of them last."""
    found = {text for text in ways if text in among and text != original}
    return sorted(found, key=among.__getitem__)


def _said_in(value: Any, words: dict[str, str]) -> Any:
    if isinstance(value, str):
        return words.get(value, value)
    if isinstance(value, dict):
        return {key: _said_in(each, words) for key, each in value.items()}
    return [_said_in(each, words) for each in value] if isinstance(value, list) else value


def restored(original: Any, shown: Any, new: Any) -> Any:
    """The new value, with the original text wherever it still is the one shown for it."""
    if isinstance(shown, str):
        return original if shown == new else new
    if isinstance(shown, dict) and isinstance(new, dict):
        return {
            key: restored(original[key], shown[key], value) if key in shown else value
            for key, value in new.items()
        }
    if isinstance(shown, list) and isinstance(new, list):
        places = {to: at for at, to in trees.align(shown, new)}
        return [
            restored(original[places[to]], shown[places[to]], value) if to in places else value
            for to, value in enumerate(new)
        ]
    return new


def _otherwise(original: Any, shown: Any, new: Any, words: dict[str, list[str]]) -> Any:
    """What was shown, with another of the ways to keep a text wherever that one was not it."""
    if isinstance(shown, str):
        ways = words.get(original, []) if shown != new else []
        return new if new in ways else ways[ways.index(shown) - 1] if shown in ways else shown
    if isinstance(shown, dict):
        inside = new if isinstance(new, dict) else {}
        return {k: _otherwise(original[k], v, inside.get(k), words) for k, v in shown.items()}
    if isinstance(shown, list):
        inner = _counterparts(original, shown, new, words) if isinstance(new, list) else {}
        return [
            _otherwise(original[at], value, inner.get(at), words) for at, value in enumerate(shown)
        ]
    return shown


def _counterparts(
    original: list[Any], shown: list[Any], new: list[Any], words: dict[str, list[str]]
) -> dict[int, Any]:
    """Place of what was shown → what it is in a new list. A log keeps what it does not know again
    and says it once more: that is it, then."""
    places = dict(trees.align(shown, new))
    waiting: dict[str, list[int]] = {}
    for at in reversed(range(len(original))):
        for way in {way for text in texts_in(original[at]) for way in words.get(text, ())}:
            waiting.setdefault(way, []).append(at)
    found: dict[int, Any] = {}
    for to in sorted(set(range(len(new))) - set(places.values())):
        for places_of in (waiting[text] for text in texts_in(new[to]) if text in waiting):
            while places_of and places_of[-1] in found:
                places_of.pop()
            if places_of:
                found[places_of[-1]] = new[to]
                break
    return {at: new[to] for at, to in places.items()} | found
