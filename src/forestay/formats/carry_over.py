"""Carrying: what a layout has no field for travels under the one key `forestay` in its main file.

    forestay:
      v: 1
      facts: delta        from what the layout's own fields say to what the facts are
      from:               per layout that these facts came from by conversion
        craft: {id: native id, rest: delta, full, no_goal, now, began_at, updated_at, generation,
                from}

Both are deltas (see `tree`): they remember what they were made from, so a carried word counts only
while the layout's own word is what it was, and a change that another program made wins.

`rest` leads from the files that the facts alone would make to the files as they were: values that
the facts do not know, never a copy. Going back, the facts of the day make files again, `rest` is
applied, and what was changed meanwhile is changed there too. `full` says that the files carried all
that they could not say, `no_goal` that they said there is none, `now` the moment they were made at
when nothing in the facts tells it, `began_at` and `updated_at` what they told of the session (every
writer renews the latter, and some stamps are made of both), `generation` their shape when it is not
the one we write today, `from` the layouts that they had come from themselves: they go back with
what they knew of those.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from forestay.formats import diff
from forestay.formats.coerce import mapping, sequence, text
from forestay.formats.facts import (
    SESSION,
    UNIT,
    DecisionFact,
    Facts,
    StepFact,
    beginnings,
    in_parts,
    plain,
)
from forestay.formats.fields import DONE
from forestay.formats.port import EXTRA, Format, Reading, Tree, Where

VERSION = 1
Pairs = list[tuple[int, int]]
"""Elements of two lists that are one, as their places."""
Way = tuple[str | int, ...]
Ways = list[Way]
"""Keys and places that lead to a value."""

# The id in the files is each layout's own affair.
_OWN = ("native_id",)
_MAPS: dict[str, Any] = {"tokens_by_agent": {}, "attributes": {}}
_NAME = "title"
"""What a step keeps when it is done, also where several have the same."""
_DAY = 86_400_000
_TRIES = 40
_TIMES = ("began_at", "updated_at")
_MALFORMED = (TypeError, ValueError, KeyError, IndexError, AttributeError)
_SAID_BY_SILENCE = ("status", "unit", "action")


class Loss(Struct):
    """What a conversion could not say natively. `carried` is kept beside, `lost` is not."""

    carried: list[str] = []
    lost: list[str] = []


def write(
    format: Format,
    old: Tree | None,
    facts: Facts,
    where: Where,
    *,
    full: bool = False,
) -> Tree:
    """The files for some facts, with what they cannot say beside it: all of it, or (for mirrors)
    only statuses whose word in this layout says less."""
    made = format.put(old, facts, where)
    return _complete(format, old, made, facts, where, full=full)


def _complete(
    format: Format, old: Tree | None, made: Tree, facts: Facts, where: Where, *, full: bool
) -> Tree:
    """The files as the layout made them, with what they cannot say."""
    told = format.get(made, where)
    change: diff.Delta = {}
    if full or not _same_statuses(format, told, facts):
        seen = plain(told)
        wanted = plain(facts)
        pairs = _same_steps(format, facts, seen, wanted)
        if full:
            change = _change(_shared(seen), _shared(wanted), pairs)
            _remember_order(change, seen)
        else:
            wanted = _statuses(seen, wanted, pairs)
            same = [(place, place) for place in range(len(seen.get("steps", [])))]
            change = _change(_shared(seen), _shared(wanted), same)
    kept = _extra(format, old, facts.native_id).get("from") if old else None
    return _with(format, made, facts.native_id, change, kept)


def _same_steps(
    format: Format, facts: Facts, seen: dict[str, Any], wanted: dict[str, Any]
) -> Pairs:
    """Which step that was seen is which of the facts: as the layout calls it, or by id or title.

    Where a step stands says nothing: the four stages of an essay are not somebody's four tasks.
    """
    old, new = seen.get("steps", []), wanted.get("steps", [])
    places = {step.get("id"): place for place, step in enumerate(old)}
    names = format.known_as(facts).items()
    known = {places[name]: at for at, name in names if name in places}
    taken = set(known.values())
    here = [place for place in range(len(old)) if place not in known]
    there = [place for place in range(len(new)) if place not in taken]
    rest = diff.pair([old[place] for place in here], [new[place] for place in there], _ALIKE)
    pairs = [*known.items(), *((here[one], there[two]) for one, two in rest.items())]
    return sorted(pairs, key=lambda places: places[1])


_ALIKE = diff.both(
    lambda step: step.get("id"),
    lambda step: (step["title"], step.get("status")),
    # Where the words say less, what is over is still apart from what is not.
    lambda step: (step["title"], step.get("status") in DONE),
    lambda step: step["title"],
)


def _change(seen: dict[str, Any], wanted: dict[str, Any], pairs: Pairs) -> diff.Delta:
    """The delta between facts, of which it is known which steps are the same."""
    lists = {name: value for name, value in seen.items() if isinstance(value, list)}
    made = diff.delta(*({**side, **dict.fromkeys(lists)} for side in (seen, wanted)), ordered=False)
    inner = dict(made.get("in", {}))
    for name, old in lists.items():
        # A list of which nothing is to be left goes element by element: one may have been added.
        new = wanted.get(name, [])
        if diff.identical(old, new):
            continue
        paired = pairs if name == "steps" else diff.align(old, new)
        by = _NAME if name == "steps" else ""
        if change := diff.list_delta(old, new, paired, ordered=False, by=by):
            inner[name] = change
    return {**made, "in": inner} if inner else made


def _remember_order(change: diff.Delta, seen: dict[str, Any]) -> None:
    """Adds the order of the steps, and which were over: a layout that sorts them by status would
    forget it later."""
    steps = change.get("in", {}).get("steps", {})
    if "n" not in steps:
        return
    if "order" not in steps:
        gone = {index for index, _, inner in steps.get("at", []) if diff.is_removal(inner)}
        marks = diff.marks(seen["steps"], _NAME)
        steps["order"] = [[i, mark] for i, mark in enumerate(marks) if i not in gone]
    for entry in steps["order"]:
        entry += [True] if _is_over(seen["steps"][entry[0]]) else []


def _is_over(step: Any) -> bool:
    return mapping(step).get("status") in DONE


def _moved(change: diff.Delta, steps: list[Any]) -> diff.Delta:
    """The change with the order of the steps as somebody has made it since.

    A step that is over now, or no longer, stands elsewhere by that alone: only those that stayed
    in their list can have been moved.
    """
    within = mapping(mapping(change.get("in")).get("steps"))
    if "order" not in within:
        return change
    found, order = diff.found(within, steps), [*within["order"]]
    for is_over in (False, True):
        stayed = [
            entry
            for entry in order
            if entry[0] in found and is_over == (len(entry) > 2) == _is_over(steps[found[entry[0]]])
        ]
        now = sorted(stayed, key=lambda entry: found[entry[0]])
        if now != sorted(stayed):
            places = dict(zip(map(tuple, stayed), now, strict=True))
            order = [places.get(tuple(entry), entry) for entry in order]
    return {**change, "in": {**change["in"], "steps": {**within, "order": order}}}


def _reopened(change: diff.Delta, steps: list[Any]) -> diff.Delta:
    """The change without the ends of steps that were over, and are not any more."""
    within = mapping(mapping(change.get("in")).get("steps"))
    over = {entry[0] for entry in within.get("order", []) if len(entry) > 2}
    places = diff.found(within, steps) if over and "at" in within else {}
    again = {index for index in over & places.keys() if not _is_over(steps[places[index]])}
    if not again:
        return change
    at = [[i, mark, _endless(inner) if i in again else inner] for i, mark, inner in within["at"]]
    return {**change, "in": {**change["in"], "steps": {**within, "at": at}}}


def _endless(change: diff.Delta) -> diff.Delta:
    left = {key: value for key, value in change.get("add", {}).items() if key != "ended_at"}
    return {**change, "add": left}


def travels(files: Tree) -> bool:
    """Whether anything may travel with the files."""
    extras = (mapping(mapping(value).get(EXTRA)) for value in files.values())
    return any(extra.keys() - {"v", "id"} for extra in extras)


def origins(files: Tree) -> dict[str, str]:
    """The ids that a session has in the layouts from which its files were converted."""
    told = (mapping(mapping(mapping(value).get(EXTRA)).get("from")) for value in files.values())
    return {kind: text(mapping(entry).get("id")) for each in told for kind, entry in each.items()}


def carried(format: Format, files: Tree, native_id: str) -> int:
    """Of how many steps something travels with the files."""
    change: Any = _extra(format, files, native_id)
    for key in ("facts", "in", "steps"):
        change = mapping(change.get(key))
    return len(sequence(change.get("at")))


def read(format: Format, files: Tree, where: Where, base: Tree | None = None) -> Facts:
    """What the files say, in the finer words that travelled with them; of those that travelled
    with the `base` that the files were made from, it is known what they were said of."""
    facts = format.get(files, where)
    change = _extra(format, files, _called(format, files, facts.native_id)).get("facts")
    if not isinstance(change, dict) or not change:
        return facts
    patched = _patched(format, facts, change, where, base)
    if not format.has_goal and isinstance(patched, dict):
        # Made of other fields, it changes with them: nobody said that the goal is another.
        patched = {**patched, **_goal_in(change)}
    try:
        told = _facts(patched, facts)
        told.decisions = _in_parts(told.decisions, facts.decisions)
        told.steps = _without_bare(told.steps, change)
    except (msgspec.ValidationError, RecursionError, *_MALFORMED):
        return facts
    if _is_stopped(facts) and told.status == "active":
        told.status = facts.status
    return told if _is_sound(told) else facts


def _patched(
    format: Format, facts: Facts, change: diff.Delta, where: Where, base: Tree | None
) -> Any:
    said = {**_lists_in(change), **_shared(plain(facts))}
    if not base or _extra(format, base, facts.native_id).get("facts") != change:
        try:
            change = _moved(_reopened(change, said.get("steps", [])), said.get("steps", []))
        except _MALFORMED:
            pass  # it changes nothing
        return diff.patch(change, said)
    before = {**_lists_in(change), **_shared(plain(format.get(base, where)))}
    before = _less_gone(before, said)
    # By its place alone a delta may find what came where something was taken out.
    return diff.merge(*map(_in_full, (before, said, diff.patch(change, before))))[0]


def _less_gone(before: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
    """Facts without the steps whose names are gone and do not go on: none in their place is one of
    them in other words."""
    old = before.get("steps", [])
    was, there = ({step["title"] for step in side} for side in (old, said.get("steps", [])))
    there = there.union(*beginnings(there - was, was).values())
    return {**before, "steps": [s for s in old if "id" in s or s["title"] in there]}


def _in_full(facts: Any) -> Any:
    """Facts with the statuses that go without saying: whoever goes back to one of them says it."""
    if not isinstance(facts, dict):
        return facts
    made = {"status": "active", **facts}
    for name, usual in (("steps", "pending"), ("agents", "running")):
        if isinstance(units := facts.get(name), list):
            made[name] = [{"status": usual, **u} if isinstance(u, dict) else u for u in units]
    return made


def _lists_in(change: diff.Delta) -> dict[str, Any]:
    """Those of which elements travelled, empty: of the others none may be left in the files."""
    return {name: [] for name, inner in mapping(change.get("in")).items() if "n" in mapping(inner)}


def _is_stopped(native: Facts) -> bool:
    """Whether a file that had an error before was stopped for one: while the work goes on we write
    no pause, so somebody noted it since."""
    known = [error.at or 0 for error in native.errors]
    paused = native.paused_at is not None and native.paused_at >= max(known, default=0)
    return native.status == "failed" and paused


def _without_bare(steps: list[StepFact], change: diff.Delta) -> list[StepFact]:
    """Steps without the headings whose tasks somebody has taken out: each would be a task now."""
    within = mapping(mapping(change.get("in")).get("steps"))
    travelled = [inner.get("add") for *_, inner in within.get("at", [])]
    travelled += [value for _, _, value, *_ in within.get("new", [])]
    bare = {mapping(step).get("parent") for step in travelled} - {step.parent for step in steps}
    return [step for step in steps if step.unit != "phase" or step.id not in bare]


def _in_parts(decisions: list[DecisionFact], said: list[DecisionFact]) -> list[DecisionFact]:
    """Decisions of which what was chosen travelled: where the text has changed, by what it says."""
    texts = {decision.what for decision in said if not decision.chosen}
    return [in_parts(each) if each.chosen and each.what in texts else each for each in decisions]


def _called(format: Format, files: Tree, native_id: str) -> str:
    """The id that a session's files are named by, or its own: they may name another inside."""
    stems = (stem for name in files for stem in (name.partition("/")[0], name.rpartition(".")[0]))
    ids = (id for id in (native_id, *stems) if id and format.files(id)[0] in files)
    return next(ids, native_id)


def _goal_in(change: diff.Delta) -> dict[str, Any]:
    said = mapping(mapping(change.get("in")).get("goal")).get("now")
    said = mapping(change.get("add")).get("goal", said)
    return {"goal": said} if isinstance(said, str) else {}


def _is_sound(facts: Facts) -> bool:
    """Whether every status is one that there is: anybody may have written what was carried."""
    units = {*(step.status for step in facts.steps), *(agent.status for agent in facts.agents)}
    return facts.status in SESSION and units <= set(UNIT)


def convert(
    a: Format,
    files: Tree,
    b: Format,
    where: Where,
    *,
    native_id: str = "",
) -> tuple[Tree, Loss]:
    """Return the files of format `b` for the session in the files of format `a`, and the loss."""
    if a.id == b.id and not native_id:
        made = a.renewed(files, where)
        return made, Loss(lost=_other_version(a, files, made, where))
    facts = read(a, files, where)
    facts.native_id = _called(a, files, facts.native_id)
    origin = _origins(a, files, facts.native_id)
    back = origin.pop(b.id, None) if isinstance(origin.get(b.id), dict) else None
    if back is None:
        origin |= {a.id: _entry(a, files, facts, where)}
    else:
        origin |= {a.id: _strange(a, files, facts, where)}
        known = sequence(back.get("from"))
        origin = {n: each for n, each in origin.items() if n in known or _says_more(each)}
    made, loss = _arrive(b, facts, where, origin, back, native_id)
    rest = mapping(origin.get(a.id)).get("rest", {})
    strange = (_travels(b, "no field", name) for name in _strangers(a, files, rest, where))
    loss.carried = [*dict.fromkeys([*loss.carried, *strange])]
    loss.lost += _news_in(a.reading(files, where))
    return made, loss


def _strangers(a: Format, files: Tree, rest: diff.Delta, where: Where) -> Iterator[str]:
    """The names of keys in the files that their layout does not know: it reads nothing there."""
    said = a.get(files, where)

    def is_silent(ways: Ways) -> bool:
        return a.get(_without(files, frozenset(ways)), where) == said

    for _, *keys in diff.by_halves([list(_ways(rest))], is_silent, _TRIES):
        names = [key for key in keys if isinstance(key, str) and key != EXTRA]
        # A phase, whose number is a key, is one of the steps.
        if names and not any(map(str.isdigit, names)):
            yield ".".join(names)


def _without(value: Any, ways: frozenset[Way], way: Way = ()) -> Any:
    if not isinstance(value, dict):
        return value
    left = {key: each for key, each in value.items() if (*way, key) not in ways}
    return {key: _without(each, ways, (*way, key)) for key, each in left.items()}


def _news_in(reading: Reading) -> list[str]:
    known = reading.writable or not reading.version
    news = f"what is new in version {reading.version} of {reading.layout}, which we do not know"
    return [] if known else [news]


def _other_version(a: Format, files: Tree, made: Tree, where: Where) -> list[str]:
    was, now = (a.reading(each, where).version for each in (files, made))
    return [f"that it was of version {was}, which may mean more than {now}"] if was != now else []


def _entry(a: Format, files: Tree, facts: Facts, where: Where) -> dict[str, Any]:
    """What has to be known of the files to make them again from the facts."""
    carried = _extra(a, files, facts.native_id).get("facts")
    settled = _settled(facts)
    base, still = _bare(a, files, settled, where)
    native, whole = (_with(a, files, facts.native_id, change, None) for change in (None, carried))
    no_goal = mapping(mapping(carried).get("add")).get("goal") == ""
    again = _complete(a, None, native, settled, still, full=True)
    again = _with_no_goal(a, again, facts.native_id) if no_goal else again
    full = bool(carried) and diff.identical(again, whole)
    parts = {
        "full": full,
        "no_goal": full and no_goal,
        "now": still.now,
        "generation": still.generation,
        "rest": diff.delta(base, native if full else whole),
        "from": list(_origins(a, files, facts.native_id)),
    }
    told = {name: part for name, part in parts.items() if part}
    times = {name: getattr(facts, name) for name in _TIMES}
    return {"id": facts.native_id} | times | told


def _bare(a: Format, files: Tree, facts: Facts, where: Where) -> tuple[Tree, Where]:
    """The files that the facts alone make of the same shape and moment as some are, and in which
    surroundings."""
    still, shape = _still(where, 0), a.reading(files, where).generation
    made = a.put(None, facts, still)
    if shape != a.reading(made, where).generation:
        still = _still(where, 0, shape)
        made = a.put(None, facts, still)
    if diff.same(made, a.put(None, facts, _still(still, _DAY, still.generation))):
        return made, still
    # The facts alone do not tell all stamps.
    said = a.get(files, where)
    still = _still(still, said.began_at or said.updated_at or 0, still.generation)
    return a.put(None, facts, still), still


def _strange(a: Format, files: Tree, facts: Facts, where: Where) -> dict[str, Any]:
    """What someone put into the files that came from here and that the layout does not know.

    All else in them is told by the facts, or follows from them and goes back with them.
    """
    base = _with(a, a.put(None, _settled(facts), _still(where, 0)), facts.native_id, None, None)
    said = a.get(base, where)
    change = diff.delta(base, _with(a, files, facts.native_id, None, None))

    def is_silent(ways: Ways) -> bool:
        return a.get(diff.patch(_adding(change, frozenset(ways)), base), where) == said

    # The rest too, where that takes long: nothing is lost by a word that is carried and said.
    silent = diff.by_halves([list(_ways(change))], is_silent, _TRIES)
    rest = diff.delta(base, diff.patch(_adding(change, frozenset(silent)), base))
    return {"id": facts.native_id, "rest": rest} if rest else {}


def _ways(change: Any, way: Way = ()) -> Iterator[Way]:
    """The ways to the keys that a delta adds."""
    yield from ((*way, key) for key in change.get("add", {}))
    for key, inner in change.get("in", {}).items():
        yield from _ways(inner, (*way, key))
    for index, _, inner in change.get("at", []):
        yield from _ways(inner, (*way, index))


def _adding(change: Any, wanted: frozenset[Way], way: Way = ()) -> diff.Delta:
    """What a delta adds, of that what is wanted, and nothing else."""
    add = {key: new for key, new in change.get("add", {}).items() if (*way, key) in wanted}
    into = {key: _adding(each, wanted, (*way, key)) for key, each in change.get("in", {}).items()}
    at = [[i, mark, _adding(each, wanted, (*way, i))] for i, mark, each in change.get("at", [])]
    parts = {
        "add": add,
        "in": {key: inner for key, inner in into.items() if inner},
        "at": [each for each in at if each[2]],
    }
    made = {name: part for name, part in parts.items() if part}
    return made | {name: change[name] for name in ("by", "n") if "at" in made and name in change}


def _says_more(entry: Any) -> bool:
    return isinstance(entry, dict) and "rest" in entry


def _arrive(
    b: Format,
    facts: Facts,
    where: Where,
    origin: dict[str, Any],
    back: dict[str, Any] | None,
    native_id: str,
) -> tuple[Tree, Loss]:
    """The files of a session that comes to a layout, or `back` to it, under an id that is given."""
    known, another = mapping(back).get("id"), b.new_id(facts, where, frozenset())
    id = native_id or (known if isinstance(known, str) else another)
    here = msgspec.structs.replace(facts, native_id=id)
    if back is None:
        made = write(b, None, _settled(here), where, full=True)
    else:
        made = _return(b, here, where, back)
    if not here.goal and (back.get("no_goal") if back else not b.has_goal):
        made = _with_no_goal(b, made, id)
    change = mapping(_extra(b, made, id).get("facts"))
    made = _with(b, made, id, change, origin)
    loss = _loss(b, made, here, where)
    if not native_id and any(map(leads_out, made)):
        names = dict(zip(b.files(id), b.files(another), strict=True))
        made = {names.get(name, name): value for name, value in made.items()}
    return made, loss


def _with_no_goal(format: Format, files: Tree, native_id: str) -> Tree:
    """Files that say that there is no goal: made of other fields, one may be read there later."""
    change = mapping(_extra(format, files, native_id).get("facts"))
    said = {**change, "add": {"goal": "", **mapping(change.get("add"))}}
    return _with(format, files, native_id, said, None)


def leads_out(name: str) -> bool:
    """Whether a file of that name would be outside of the folder it is to be in."""
    return name.startswith("/") or ".." in name.split("/") or "\0" in name


def _return(b: Format, facts: Facts, where: Where, back: dict[str, Any]) -> Tree:
    """The files as they were, with what the facts say since."""
    now, settled = back.get("now"), _settled(facts)
    still = _still(where, now if isinstance(now, int) else 0, text(back.get("generation")))
    for name in _TIMES:
        if name in back:
            setattr(settled, name, back[name] if isinstance(back[name], int) else None)
    base = b.put(None, settled, still)
    patched: Tree = diff.patch(back.get("rest", {}), base)
    names = {*base, *b.files(facts.native_id)}
    made = {name: value for name, value in patched.items() if name in names}
    if back.get("full"):
        made = _complete(b, None, made, settled, still, full=True)
    said = _shared(plain(read(b, made, where)))
    wanted = _in_order_of(said, _shared(plain(facts)))
    if diff.same(said, wanted):
        return made
    # They were of another machine perhaps, and what they say of it stays.
    away = msgspec.structs.replace(where, project_path="", device="")
    news = _facts(wanted, facts)
    told = msgspec.structs.replace(news, native_id=b.get(made, where).native_id)
    return _complete(b, made, b.put(made, told, away), news, away, full=True)


def _in_order_of(said: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """The same facts, listed as the files list them: where a thing stands is no news."""
    made = dict(wanted)
    for name, new in wanted.items():
        old = said.get(name)
        if isinstance(new, list) and isinstance(old, list):
            pairs = sorted(diff.align(old, new))
            placed = dict.fromkeys(place for _, place in pairs)
            rest = [place for place in range(len(new)) if place not in placed]
            made[name] = [new[place] for place in [*placed, *rest]]
    return made


def _facts(told: dict[str, Any], like: Facts) -> Facts:
    return msgspec.structs.replace(msgspec.convert(told, Facts), native_id=like.native_id)


def _settled(facts: Facts) -> Facts:
    """The same facts, with the keys of their maps in one order."""
    return msgspec.json.decode(diff.text_of(plain(facts)), type=Facts)


def _still(where: Where, now: int, shape: str = "") -> Where:
    """Surroundings that are the same at every time, so that a delta made here fits there."""
    return Where(naive=where.naive, now=now, generation=shape)


def _same_statuses(format: Format, told: Facts, facts: Facts) -> bool:
    """Whether a glance shows that the files say every status as it is."""
    agents = {agent.id: agent.status for agent in facts.agents}
    return (
        told.status == facts.status
        and all(agents.get(agent.id) == agent.status for agent in told.agents)
        and _say_the_same(told.steps, facts.steps, by_name=not format.known_as(facts))
    )


def _say_the_same(told: list[StepFact], wanted: list[StepFact], *, by_name: bool) -> bool:
    """Whether steps have the same statuses; some may be missing where names tell which is which."""
    known: dict[str, str] = {}
    agree = all(known.setdefault(step.title, step.status) == step.status for step in wanted)
    if by_name and agree:
        return all(known.get(step.title) == step.status for step in told)
    said, want = (sorted((step.title, step.status) for step in of) for of in (told, wanted))
    return said == want


def _statuses(seen: dict[str, Any], facts: dict[str, Any], steps: Pairs) -> dict[str, Any]:
    """What was seen, with the statuses of the facts."""
    made = dict(seen)
    _take_status(made, facts)
    agents = diff.align(seen.get("agents", []), facts.get("agents", []))
    for name, pairs in (("steps", steps), ("agents", agents)):
        units = [dict(unit) for unit in seen.get(name, [])]
        for old, new in pairs:
            _take_status(units[old], facts[name][new])
        if units:
            made[name] = units
    return made


def _take_status(unit: dict[str, Any], of: dict[str, Any]) -> None:
    unit.pop("status", None)
    if "status" in of:
        unit["status"] = of["status"]


def _shared(facts: dict[str, Any]) -> dict[str, Any]:
    """Facts that files share. Maps are there also when they are empty: what one layout says in
    them goes key by key beside what another does."""
    return {**_MAPS, **_told(facts)}


def _told(facts: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in facts.items() if key not in _OWN}


def _main(format: Format, native_id: str) -> str:
    return format.files(native_id)[0]


def _extra(format: Format, files: Tree, native_id: str) -> dict[str, Any]:
    main = files.get(_main(format, native_id))
    extra = main.get(EXTRA) if isinstance(main, dict) else None
    return extra if isinstance(extra, dict) and extra.get("v") == VERSION else {}


def _origins(format: Format, files: Tree, native_id: str) -> dict[str, Any]:
    origin = _extra(format, files, native_id).get("from")
    return dict(origin) if isinstance(origin, dict) else {}


def _set(format: Format, files: Tree, native_id: str, extra: dict[str, Any] | None) -> Tree:
    """The files with this under the extra key of the main one, or without the key."""
    name = _main(format, native_id)
    main = files.get(name)
    if not isinstance(main, dict) or _is_newer(main):
        return files
    if extra is None:
        main = {key: value for key, value in main.items() if key != EXTRA}
    else:
        main = {**main, EXTRA: extra}
    return {**files, name: main}


def _is_newer(main: dict[str, Any]) -> bool:
    """Whether what stands under the key is not in this form: never written over."""
    extra = main.get(EXTRA, {"v": VERSION})
    return not isinstance(extra, dict) or extra.get("v") != VERSION


def _with(
    format: Format, files: Tree, native_id: str, change: diff.Delta | None, origin: Any
) -> Tree:
    extra: dict[str, Any] = {"v": VERSION}
    if change:
        extra["facts"] = change
    if origin:
        extra["from"] = origin
    return _set(format, files, native_id, extra if len(extra) > 1 else None)


def _loss(b: Format, files: Tree, facts: Facts, where: Where) -> Loss:
    """In sentences: what travels beside, and what does not arrive at all."""
    wanted = _told(plain(facts))
    native = _told(plain(b.get(files, where)))
    arrived = _told(plain(read(b, files, where)))
    lost = _differences(arrived, wanted)
    steps = _same_steps(b, facts, native, wanted)
    carried = [what for what in _differences(native, wanted, steps) if what not in lost]
    return Loss(
        [_travels(b, _room(native, what), what) for what in carried],
        [f"{b.id} cannot keep {what}" for what in lost],
    )


def _travels(b: Format, room: str, what: str) -> str:
    return f"{b.id} has {room} for {what}: it travels under `{EXTRA}`"


def _room(native: dict[str, Any], what: str) -> str:
    """Whether a layout says nothing of a field, or only less: a time without its milliseconds."""
    key, _, name = what.partition(".")
    said = native.get(key)
    if said and name == "status":
        return "a coarser field"  # to be pending is said by standing there
    values = [one.get(name) for one in said if isinstance(one, dict)] if name and said else [said]
    return (
        "a coarser field"
        if any(value not in (None, "", [], {}) for value in values)
        else "no field"
    )


def _differences(
    have: dict[str, Any], want: dict[str, Any], steps: Pairs | None = None
) -> list[str]:
    """The fields that are not had as they are wanted, those of list elements by a dotted name."""
    found: list[str] = []
    for key in _unlike(have, want):
        old, new = have.get(key), want.get(key)
        if isinstance(old, list) and isinstance(new, list):
            # Where a thing stands is no loss.
            if sorted(map(diff.text_of, old)) == sorted(map(diff.text_of, new)):
                continue
            paired = steps if key == "steps" else None
            found += _inner(key, old, new, diff.align(old, new) if paired is None else paired)
        else:
            found.append(key)
    return found


def _unlike(have: dict[str, Any], want: dict[str, Any]) -> list[str]:
    """Keys that differ. What a layout says where nothing is known is no loss, unless the unsaid
    is a word too."""
    keys = [*want, *(key for key in _SAID_BY_SILENCE if key in have and key not in want)]
    return [key for key in keys if not diff.same(have.get(key), want.get(key))]


def _inner(key: str, have: list[Any], want: list[Any], pairs: Pairs) -> list[str]:
    """The fields in which elements differ; the name itself when elements are missing."""
    maps = [(have[old], want[new]) for old, new in pairs if isinstance(want[new], dict)]
    if len(pairs) < len(want) or len(maps) < len(pairs):
        return [key]
    fields = dict.fromkeys(name for one, two in maps for name in _unlike(one, two))
    return [f"{key}.{name}" for name in fields]
