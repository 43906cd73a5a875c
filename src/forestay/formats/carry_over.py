"""Carry facts that a format has no field for, as values under the key `forestay` of its main file.

    forestay:
      v: 1
      facts:
        was: {field: value}     single values and maps as the format's own fields have them
        now: {field: value}     the exact values of the same fields
        lists: {field: [{at, was, now}]}      the same for elements of lists, `at` their index
      from:                     for each format from which the session was converted
        craft: {id, files, unknown, from}     its id, its files as values, the keys in them that
                                              the format does not know, and its own `from`

A carried value counts only while the format's own field still holds `was`: if another program
changed the field, its change wins. When a session returns to a format, the facts are written into
`files`, so keys that no format knows are preserved. Values are carried over; spelling, comments and
order of keys are not.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from forestay.formats import diff
from forestay.formats.coerce import mapping, sequence, text
from forestay.formats.facts import SESSION, UNIT, Facts, find_known_prefixes, plain
from forestay.formats.fields import DONE
from forestay.formats.port import EXTRA, Format, Tree, Where

VERSION = 1
Plain = dict[str, Any]
"""Facts, or one element of a list in facts, as plain values without defaults."""
Pairs = list[tuple[int, int]]
"""Pairs of indexes in two lists whose elements describe the same thing."""

_MAPS: Plain = {"tokens_by_agent": {}, "attributes": {}}
_NAMES = ("title", "what", "text", "message", "path", "name", "step", "id")
_STATUS = ("id", "title", "status")
_HAVE_DEFAULTS = ("status", "unit", "action")
_MISSING: Any = object()
_MALFORMED = (
    *(TypeError, ValueError, KeyError, IndexError, AttributeError, RecursionError),
    msgspec.ValidationError,
)


class Loss(Struct):
    """Sentences about facts without a field in a format: `carried` under our key, or `lost`."""

    carried: list[str] = []
    lost: list[str] = []


# Writing


def write(
    format: Format, old: Tree | None, facts: Facts, where: Where, *, full: bool = False
) -> Tree:
    """Return the files for some facts; facts without a field in the format are under our key.

    Without `full`, only statuses for which the format has no exact word are carried.
    """
    made = format.put(old, facts, where)
    native = format.get(made, where)
    change: Plain = {}
    if full:
        change = _full_change(format, facts, plain(native), plain(facts))
    elif not _has_every_status(format, native, facts):
        change = _status_change(format, facts, plain(native), plain(facts))
    return _with(format, made, _named_by_files(format, made, facts.native_id), facts=change)


def _has_every_status(format: Format, native: Facts, facts: Facts) -> bool:
    """Return whether a quick check shows that the files express every status exactly."""
    steps = {step.title: step.status for step in facts.steps}
    agents = {agent.id: agent.status for agent in facts.agents}
    return (
        native.status == facts.status
        and len(steps) == len(facts.steps)
        and not format.assigned_step_ids(facts)
        and all(steps.get(step.title) == step.status for step in native.steps)
        and all(agents.get(agent.id) == agent.status for agent in native.agents)
    )


def _full_change(format: Format, facts: Facts, native: Plain, wanted: Plain) -> Plain:
    """Return the difference between the facts in the format's own fields and all facts."""
    lists: Plain = {}
    was, now = dict(_MAPS), dict(_MAPS)
    for name in Facts.__struct_fields__[1:]:
        if isinstance(getattr(facts, name), list):
            old, new = native.get(name, []), wanted.get(name, [])
            if not diff.same(old, new):
                lists[name] = _entries(old, new, _pairs(format, facts, name, old, new))
        else:
            was |= {name: native[name]} if name in native else {}
            now |= {name: wanted[name]} if name in wanted else {}
    for name in [n for n in was if n in now and diff.same(was[n], now[n])]:
        # A goal that the format derives from other fields changes when those fields change.
        if name != "goal" or format.has_goal:
            del was[name], now[name]
    if not format.has_goal and "goal" not in now:
        now["goal"] = ""
    return _without_empty({"was": was, "now": now, "lists": lists})


def _without_empty(parts: Plain) -> Plain:
    return {name: part for name, part in parts.items() if part}


def _entries(old: list[Any], new: list[Any], pairs: Pairs) -> list[Plain]:
    """Return an entry (`at`, `was`, `now`) per element of either list, in the new order."""
    places = {there: here for here, there in pairs}
    entries: list[Plain] = []
    for there, element in enumerate(new):
        here = places.get(there)
        if here is None:
            entries.append({"now": element})
        elif diff.same(old[here], element):
            entries.append({"at": here, "was": element})
        else:
            entries.append({"at": here, "was": old[here], "now": element})
    gone = set(range(len(old))).difference(places.values())
    return entries + [{"at": here, "was": old[here], "now": None} for here in sorted(gone)]


def _status_change(format: Format, facts: Facts, native: Plain, wanted: Plain) -> Plain:
    """Return the difference between the statuses in the format's own fields and the exact ones."""
    lists: Plain = {}
    for name in ("steps", "agents"):
        old, new = native.get(name, []), wanted.get(name, [])
        for here, there in sorted(_pairs(format, facts, name, old, new)):
            if old[here].get("status") != new[there].get("status"):
                was = {key: old[here][key] for key in _STATUS if key in old[here]}
                entry = {"at": here, "was": was, "now": _with_status(was, new[there])}
                lists.setdefault(name, []).append(entry)
    was, now = (_with_status({}, side) for side in (native, wanted))
    sides = {"was": was, "now": now} if was != now else {}
    return _without_empty({**sides, "lists": lists})


def _with_status(unit: Plain, of: Plain) -> Plain:
    """Return the unit with the status of the unit `of`; the default status is left out."""
    status = {"status": of["status"]} if "status" in of else {}
    return {key: value for key, value in unit.items() if key != "status"} | status


# Which element is which


def _pairs(format: Format, facts: Facts, name: str, old: list[Any], new: list[Any]) -> Pairs:
    """Pair the elements of a list read from the format's fields with those of the facts."""
    known: dict[int, int] = {}
    if name == "steps":
        places = {step.get("id"): place for place, step in enumerate(old)}
        names = format.assigned_step_ids(facts).items()
        known = {places[id]: there for there, id in names if id in places}
    here = [place for place in range(len(old)) if place not in known]
    taken = set(known.values())
    there = [place for place in range(len(new)) if place not in taken]
    found = _match([old[place] for place in here], [new[place] for place in there])
    return [*known.items(), *((here[one], there[two]) for one, two in found.items())]


def _match(old: list[Any], new: list[Any], places: list[int] | None = None) -> dict[int, int]:
    """Return the index in `new` of each element of `old` that `new` still has.

    Elements are matched by their id, then by their name, which can have become longer; equal
    elements by their index. If `old` is a part of a list, `places` are the indexes in that list.
    """
    found = diff.pair(
        list(zip(places or range(len(old)), old, strict=True)),
        list(enumerate(new)),
        diff.both(
            lambda each: (each[0], diff.text_of(each[1])),
            lambda each: diff.text_of(each[1]),
            lambda each: text(mapping(each[1]).get("id")) or None,
            lambda each: _named(each, each[0], _status(each[1])),
            lambda each: _named(each, _status(each[1])),
            # Even a less exact status shows whether an element is done.
            lambda each: _named(each, _status(each[1]) in DONE),
            lambda each: _named(each),
        ),
    )
    here = {_name(old[place]): place for place in range(len(old)) if place not in found}
    taken = set(found.values())
    there = {_name(new[place]): place for place in range(len(new)) if place not in taken}
    for name, starts in find_known_prefixes(there, here.keys() - {""}).items():
        found.setdefault(here[starts[-1]], there[name])
    return found


def _status(element: Any) -> str:
    return text(mapping(element).get("status")) or "pending"


def _name(element: Any) -> str:
    names = (mapping(element).get(key) for key in _NAMES)
    return next((name for name in names if isinstance(name, str)), "")


def _named(each: tuple[int, Any], *more: Hashable) -> Hashable:
    return (_name(each[1]), *more) if isinstance(each[1], dict) else None


# Reading


def read(format: Format, files: Tree, where: Where) -> Facts:
    """Return the facts in some files, including those that are carried under our key."""
    facts = format.get(files, where)
    change = _extra(format, files, _named_by_files(format, files, facts.native_id)).get("facts")
    if not isinstance(change, dict) or not change:
        return facts
    try:
        merged = _merged(change, plain(facts), has_goal=format.has_goal)
        full = replace(msgspec.convert(merged, Facts), native_id=facts.native_id)
    except _MALFORMED:
        return facts
    if facts.status == "failed" and facts.paused_at is not None and full.status == "active":
        # The carried facts are from when the session was active; another program paused it later.
        full.status = facts.status
    # Any program can have changed what was carried, so check that every status exists.
    units = {*(step.status for step in full.steps), *(agent.status for agent in full.agents)}
    return full if full.status in SESSION and units <= set(UNIT) else facts


def _merged(change: Plain, native: Plain, *, has_goal: bool) -> Plain:
    was, now = (dict(mapping(change.get(side))) for side in ("was", "now"))
    if not has_goal and "goal" in now:
        was["goal"] = native.get("goal", _MISSING)
    made: Plain = _merge(was, {**_MAPS, **native}, now)
    for name, entries in mapping(change.get("lists")).items():
        made[name] = _merge_list(native.get(name, []), entries)
        if name == "steps":
            made[name] = _without_bare(made[name], entries)
    return made


def _merge(was: Any, current: Any, now: Any) -> Any:
    """Return `now`, but `current` wherever `current` differs from `was`."""
    if isinstance(was, dict) and isinstance(current, dict) and isinstance(now, dict):
        sides = ({**was, **now}, current)
        keys = dict.fromkeys(key for side in sides for key in side)
        made = {
            key: _merge(*(side.get(key, _MISSING) for side in (was, current, now))) for key in keys
        }
        return {key: value for key, value in made.items() if value is not _MISSING}
    return now if _is_unchanged(was, current) else current


def _is_unchanged(was: Any, current: Any) -> bool:
    if was is _MISSING or current is _MISSING:
        return was is current
    # Many programs write 1 for 1.0.
    is_number = {type(current), type(was)} == {int, float}
    return bool(current == was) if is_number else diff.same(current, was)


def _merge_list(current: list[Any], entries: list[Plain]) -> list[Any]:
    """Return the current list with the carried changes to those elements that it still has.

    The carried order counts; an element that another program added stays behind its predecessor.
    """
    known = sorted((each for each in entries if "was" in each), key=lambda each: each["at"])
    found = _match([each["was"] for each in known], current, [each["at"] for each in known])
    places = {id(known[here]): there for here, there in found.items()}
    there, last = set(found.values()), -1
    added: dict[int, list[Any]] = {-1: []}
    for place, element in enumerate(current):
        if place in there:
            last = place
        else:
            added.setdefault(last, []).append(element)
    texts = {diff.text_of(element) for elements in added.values() for element in elements}
    made = added[-1]
    for each in entries:
        if (place := places.get(id(each), -1)) >= 0:
            made += [_merge_element(current[place], each), *added.get(place, [])]
        elif "was" not in each and diff.text_of(each["now"]) not in texts:
            made.append(each["now"])
    return [value for value in made if value is not None]


def _merge_element(element: Any, entry: Plain) -> Any:
    was, now = entry["was"], entry.get("now", entry["was"])
    if now is None or not isinstance(element, dict):
        return now if _is_unchanged(was, element) else element
    made = _merge(was, element, now)
    if _status(was) in DONE and _status(element) not in DONE:
        made.pop("ended_at", None)
    return made


def _without_bare(steps: list[Any], entries: list[Plain]) -> list[Any]:
    """Return the steps without carried headings whose tasks another program removed.

    A heading without tasks would be read as a task.
    """
    parents = {mapping(each.get("now")).get("parent") for each in entries}
    bare = parents - {mapping(step).get("parent") for step in steps}
    return [step for step in steps if step.get("unit") != "phase" or step.get("id") not in bare]


# Converting


def convert(
    a: Format, files: Tree, b: Format, where: Where, *, native_id: str = ""
) -> tuple[Tree, Loss]:
    """Return the files of format `b` for the session in the files of format `a`, and the loss."""
    if a.id == b.id and not native_id:
        made = a.in_current_form(files, where)
        was, now = (a.reading(each, where).version for each in (files, made))
        lost = [f"the version {was}, which may have features that {now} lacks"]
        return made, Loss(lost=lost if was != now else [])
    facts = read(a, files, where)
    facts.native_id = _named_by_files(a, files, facts.native_id)
    origins = dict(mapping(_extra(a, files, facts.native_id).get("from")))
    back = mapping(origins.pop(b.id, None))
    unknown = _unknown_keys(a, files, facts, where)
    entry = {
        "id": facts.native_id,
        "files": _with(a, files, facts.native_id, origins={}),
        "unknown": unknown,
        "from": [*origins],
    }
    origins[a.id] = _without_empty(entry)
    if back:
        # Drop the files of a format that the session only passed through, unless another program
        # added something to them.
        known = sequence(back.get("from"))
        origins = {
            n: each for n, each in origins.items() if n in known or "unknown" in mapping(each)
        }
    made, loss = _arrive(b, facts, where, origins, back, native_id)
    loss.carried += [_carried(b, name) for name in unknown]
    reading = a.reading(files, where)
    if reading.version and not reading.writable:
        news = f"new features of version {reading.version} of {reading.format}"
        loss.lost.append(f"{news}, which we do not know")
    return made, loss


def _arrive(
    b: Format, facts: Facts, where: Where, origins: Plain, back: Plain, native_id: str
) -> tuple[Tree, Loss]:
    """Return the files of a converted session; `back` has those it had in the format before."""
    fresh_id = b.new_id(facts, where, frozenset())
    came_as = text(back.get("id"))
    # Another program can have changed the carried files: use only names that the format has.
    carried, names = mapping(back.get("files")), [*b.files(came_as), *b.conventions.shared]
    old = {
        name: value
        for name, value in carried.items()
        if name in names and isinstance(value, list if name.endswith(".jsonl") else dict)
    }
    id = native_id or (came_as if old else fresh_id)
    here = replace(facts, native_id=id)
    if old:
        made = _return(b, old, here, where, native_id)
    else:
        made = write(b, None, here, where, full=True)
    made = _with(b, made, id, origins=origins)
    loss = _loss(b, made, here, where)
    if not native_id and any(map(leads_out, made)):
        renamed = dict(zip(b.files(id), b.files(fresh_id), strict=True))
        made = {renamed.get(name, name): value for name, value in made.items()}
    return made, loss


def _return(b: Format, old: Tree, facts: Facts, where: Where, native_id: str) -> Tree:
    """Return the files that a session had in a format, updated to the current facts."""
    known = read(b, old, where)
    if not native_id:
        facts = replace(facts, native_id=known.native_id)
        if diff.same(_shared(known), _shared(facts)):
            return old
    else:
        names = dict(
            zip(b.files(_named_by_files(b, old, known.native_id)), b.files(native_id), strict=True)
        )
        old = {names.get(name, name): value for name, value in old.items()}
    # The files can come from another machine: paths and names of that machine stay unchanged.
    return write(b, old, facts, replace(where, project_path="", device=""), full=True)


def _shared(facts: Facts) -> Plain:
    """Return facts as plain values without the id, because each format has its own."""
    return {name: value for name, value in plain(facts).items() if name != "native_id"}


def _unknown_keys(a: Format, files: Tree, facts: Facts, where: Where) -> list[str]:
    """Return the keys in the files that the format does not write for these facts."""
    generation = a.reading(files, where).generation
    made = a.put(None, facts, replace(where, generation=generation))
    known = {path for value in made.values() for path in _paths(value)}
    found = (path for value in files.values() for path in _paths(value) if path not in known)
    return [
        *dict.fromkeys(".".join(path) for path in found if path[:-1] in known or len(path) == 1)
    ]


def _paths(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of each key in a value; all elements of a list have the same path."""
    if isinstance(value, dict):
        for key, each in value.items():
            # A number as a key stands for a phase, which is an element of the steps.
            if key != EXTRA and not key.isdigit():
                yield (*path, key)
                yield from _paths(each, (*path, key))
    elif isinstance(value, list):
        for each in value:
            yield from _paths(each, path)


def leads_out(name: str) -> bool:
    """Return whether a file name leads out of the folder in which the file is to be written."""
    return name.startswith("/") or ".." in name.split("/") or "\0" in name


def _loss(b: Format, files: Tree, facts: Facts, where: Where) -> Loss:
    native, arrived = _shared(b.get(files, where)), _shared(read(b, files, where))
    wanted = _shared(facts)
    lost = [*_differences(arrived, wanted)]
    carried = [name for name in _differences(native, wanted) if name not in lost]
    return Loss(
        [_carried(b, name) for name in carried],
        [f"{b.id} cannot store {name}" for name in lost],
    )


def _carried(b: Format, name: str) -> str:
    return f"{b.id} has no exact field for {name}: it is stored under `{EXTRA}`"


def _differences(have: Plain, want: Plain) -> Iterator[str]:
    """Yield the names of fields that differ; those of list elements as LIST.FIELD."""
    for name in _unlike(have, want):
        old, new = have.get(name), want.get(name)
        if not isinstance(old, list) or not isinstance(new, list):
            yield name
        elif sorted(map(diff.text_of, old)) != sorted(map(diff.text_of, new)):
            pairs = _match(old, new)
            maps = [(old[i], new[j]) for i, j in pairs.items() if isinstance(new[j], dict)]
            if len(maps) < len(new):
                yield name
            else:
                yield from dict.fromkeys(f"{name}.{n}" for each in maps for n in _unlike(*each))


def _unlike(have: Plain, want: Plain) -> list[str]:
    """Return the keys that differ.

    If the wanted fact is unknown, any value is accepted, unless the default is a word too.
    """
    keys = [*want, *(key for key in _HAVE_DEFAULTS if key in have and key not in want)]
    return [key for key in keys if not diff.same(have.get(key), want.get(key))]


# Our key


def has_carried(files: Tree) -> bool:
    """Return whether our key `forestay` has anything besides the id of a rendering."""
    extras = (mapping(mapping(value).get(EXTRA)) for value in files.values())
    return any(extra.keys() - {"v", "id"} for extra in extras)


def origins(files: Tree) -> dict[str, str]:
    """Return the ids that a session has in the formats from which its files were converted."""
    entries = (mapping(mapping(mapping(value).get(EXTRA)).get("from")) for value in files.values())
    return {
        kind: text(mapping(entry).get("id")) for each in entries for kind, entry in each.items()
    }


def _named_by_files(format: Format, files: Tree, native_id: str) -> str:
    """Return the id in the file names, else the given one; the id inside the files can differ."""
    stems = (stem for name in files for stem in (name.partition("/")[0], name.rpartition(".")[0]))
    ids = (id for id in (native_id, *stems) if id and format.files(id)[0] in files)
    return next(ids, native_id)


def _extra(format: Format, files: Tree, native_id: str) -> Plain:
    extra = mapping(mapping(files.get(format.files(native_id)[0])).get(EXTRA))
    return extra if extra.get("v") == VERSION else {}


def _with(format: Format, files: Tree, native_id: str, **parts: Plain) -> Tree:
    """Return the files with these parts under our key; an empty part is removed."""
    name = format.files(native_id)[0]
    main = files.get(name)
    if not isinstance(main, dict) or (EXTRA in main and not _extra(format, files, native_id)):
        return files  # a newer version of Forestay wrote this: do not change it
    named = {"from" if part == "origins" else part: value for part, value in parts.items()}
    extra = _without_empty({**main.get(EXTRA, {"v": VERSION}), **named})
    if len(extra) > 1:
        return {**files, name: {**main, EXTRA: extra}}
    return {**files, name: {key: value for key, value in main.items() if key != EXTRA}}
