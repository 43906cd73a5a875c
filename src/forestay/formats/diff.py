"""Compare plain values: pair the elements of two lists, and merge two changes of one value.

All functions are pure, never change their arguments, and treat `1`, `1.0` and `True` as different.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import msgspec

Path = tuple[str | int, ...]

STRONG = (
    "id",
    "task_id",
    "phase_id",
    "feature_id",
    "session_id",
    "section_index",
    "phase_number",
    "agent",
)
WEAK = ("title", "task", "what", "decision", "path", "name")
"""Keys that identify elements of a list, the best first; an edit can change a weak key."""

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def text_of(value: Any) -> str:
    """Return a text that is equal for two values if and only if they are the same."""
    return _ENCODER.encode(value)


def quick_json(value: Any) -> bytes:
    """Return JSON that is equal only for values that are the same; faster than `text_of`.

    The same values with another order of keys give different JSON.
    """
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):  # unusual keys and numbers
        return text_of(value).encode()


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal, types included; the order of keys does not matter."""
    if one is other or one != other:
        return one is other
    # Most values have their keys in the same order, so the fast comparison comes first.
    return quick_json(one) == quick_json(other) or text_of(one) == text_of(other)


def identical(one: Any, other: Any) -> bool:
    """Return whether two values are equal, the order of keys included."""
    return one is other or (bool(one == other) and json.dumps(one) == json.dumps(other))


def identity(*lists: Sequence[Any]) -> str:
    """Return the first key that identifies the maps in each of the lists, or an empty string."""
    maps = [[each for each in elements if isinstance(each, dict)] for elements in lists]
    for key in STRONG + WEAK if all(maps) else ():
        if all(_is_unique(key, each) for each in maps):
            return key
    return ""


def _is_unique(key: str, maps: Sequence[dict[str, Any]]) -> bool:
    values = [each.get(key) for each in maps]
    has_names = all(isinstance(value, (str, int)) and value != "" for value in values)
    return has_names and len(set(values)) == len(values)


Key = Callable[[Any], Hashable]
"""A function that returns the identity of an element, or None if it has none."""
Pass = tuple[Key, Key]
"""One way to pair elements: the key of an old element, and the key of a new one."""


def pair(old: Sequence[Any], new: Sequence[Any], passes: Iterable[Pass]) -> dict[int, int]:
    """Return index in `old` → index in `new` of elements with equal keys, pass after pass.

    Several elements with the same key are paired in their order.
    """
    found: dict[int, int] = {}
    for of_old, of_new in passes:
        taken, free = set(found.values()), defaultdict[Hashable, deque[int]](deque)
        if len(taken) == len(new):
            break
        for at, element in enumerate(old):
            if at not in found and element is not None:
                free[of_old(element)].append(at)
        for at, element in enumerate(new):
            key = None if at in taken else of_new(element)
            if key is not None and free[key]:
                found[free[key].popleft()] = at
    return found


def both(*keys: Key) -> list[Pass]:
    """Return passes with the same key for both lists."""
    return [(key, key) for key in keys]


def align(old: Sequence[Any], new: Sequence[Any]) -> list[tuple[int, int]]:
    """Return pairs of indexes (old, new) of the same elements, in the order of the new list.

    Maps are paired by their identity key, even if their order changed; everything else by equality.
    Elements left between two pairs are paired by position if one looks like an edit of the other.
    """
    key = identity(old, new)
    here, there = [_name(each, key) for each in old], [_name(each, key) for each in new]
    pairs = _by_name(here, there) if key else _in_order(here, there)
    return sorted(pairs + _edits(old, new, pairs, key), key=lambda places: places[1])


def _name(element: Any, key: str) -> Hashable:
    if key and isinstance(element, dict):
        return (key, element[key])
    return text_of(element)


def _by_name(old: list[Hashable], new: list[Hashable]) -> list[tuple[int, int]]:
    return [*pair(old, new, both(lambda name: name)).items()]


def _in_order(old: list[Hashable], new: list[Hashable]) -> list[tuple[int, int]]:
    """Return pairs of indexes of equal names; the indexes rise in both lists.

    Equal names at the beginning and the end of both lists are paired first.
    """
    shorter = min(len(old), len(new))
    head = next((n for n in range(shorter) if old[n] != new[n]), shorter)
    rest = shorter - head
    tail = next((n for n in range(rest) if old[-1 - n] != new[-1 - n]), rest)
    inner = _by_name(old[head : len(old) - tail], new[head : len(new) - tail])
    ends = [*zip(range(head), range(head), strict=True)]
    ends += [(len(old) - 1 - n, len(new) - 1 - n) for n in range(tail)]
    return ends + [(head + i, head + j) for i, j in rising(sorted(inner))]


def rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence of the pairs in which both numbers rise."""
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for at, (_, new) in enumerate(pairs):
        length = bisect_left(tails, new)
        before.append(ends[length - 1] if length else -1)
        tails[length : length + 1] = [new]
        ends[length : length + 1] = [at]
    chosen, at = [], ends[-1] if ends else -1
    while at >= 0:
        chosen.append(pairs[at])
        at = before[at]
    return chosen[::-1]


def _edits(
    old: Sequence[Any], new: Sequence[Any], pairs: list[tuple[int, int]], key: str
) -> list[tuple[int, int]]:
    """Pair the elements left between two pairs by position.

    If one side has more elements there, pair each element with the next similar one.
    """
    fences = sorted([(-1, -1), *pairs, (len(old), len(new))], key=lambda places: places[1])
    if any(one[0] >= two[0] for one, two in pairwise(fences)):
        return []
    found: list[tuple[int, int]] = []
    for (i, j), (k, m) in pairwise(fences):
        place = j + 1
        for index in range(i + 1, k):
            if k - i == m - j or (place < m and _shares(old[index], new[place])):
                found.append((index, place))
                place += 1
    return [(i, j) for i, j in found if is_edit(old[i], new[j], key)]


def _shares(one: Any, other: Any) -> bool:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return False
    alike = sum(1 for key in one if key in other and same(one[key], other[key]))
    return alike * 2 >= max(len(one), len(other)) > 0


def is_edit(one: Any, other: Any, key: str) -> bool:
    """Return whether one element can be an edited form of the other."""
    if isinstance(one, dict) and isinstance(other, dict):
        return _shares(one, other) if key in STRONG else bool(one.keys() & other.keys())
    if isinstance(one, (dict, list)) or isinstance(other, (dict, list)):
        return type(one) is type(other)
    return True


# Merging


class _Missing:
    """Stands for a missing value."""


_MISSING = _Missing()


def merge(base: Any, ours: Any, theirs: Any) -> tuple[Any, list[Path]]:
    """Merge two changes of a base; return the merged value and the paths of conflicts.

    In a conflict the value of `ours` is used.
    """
    conflicts: list[Path] = []
    value = _merge(base, ours, theirs, (), conflicts)
    return value, conflicts


def _alike_or_missing(one: Any, other: Any) -> bool:
    if one is _MISSING or other is _MISSING:
        return one is other
    return same(one, other)


def _merge(base: Any, ours: Any, theirs: Any, path: Path, conflicts: list[Path]) -> Any:
    if _alike_or_missing(ours, theirs) or _alike_or_missing(base, theirs):
        return ours
    if _alike_or_missing(base, ours):
        return theirs
    if isinstance(ours, dict) and isinstance(theirs, dict):
        before = base if isinstance(base, dict) else {}
        made = {}
        for key in {**ours, **theirs}:
            old, mine, other = (side.get(key, _MISSING) for side in (before, ours, theirs))
            made[key] = _merge(old, mine, other, (*path, key), conflicts)
        return {key: value for key, value in made.items() if value is not _MISSING}
    if isinstance(ours, list) and isinstance(theirs, list):
        return _merge_lists(base if isinstance(base, list) else [], ours, theirs, path, conflicts)
    conflicts.append(path)
    return theirs if ours is _MISSING else ours


def _merge_lists(
    base: list[Any], ours: list[Any], theirs: list[Any], path: Path, conflicts: list[Path]
) -> list[Any]:
    """Return our list with their changes; each new element of theirs follows its neighbour."""
    to_ours, to_theirs = (dict(align(base, side)) for side in (ours, theirs))
    to_ours, to_theirs = (
        _without_common_additions(base, ours, to_ours, theirs, to_theirs),
        _without_common_additions(base, theirs, to_theirs, ours, to_ours),
    )
    of_theirs = {new: old for old, new in to_theirs.items()}
    partner = _partners(ours, theirs, to_ours, of_theirs)
    origin = {new: old for old, new in to_ours.items()}
    back = {mine: other for other, mine in partner.items()}
    slots: list[list[Any]] = []
    for place, element in enumerate(ours):
        old = base[origin[place]] if place in origin else _MISSING
        other = theirs[back[place]] if place in back else _MISSING
        value = _merge(old, element, other, (*path, place), conflicts)
        slots.append([] if value is _MISSING else [value])
    head: list[Any] = []
    last = head
    for place, element in enumerate(theirs):
        if place in partner:
            last = slots[partner[place]]
            continue
        old = base[of_theirs[place]] if place in of_theirs else _MISSING
        value = _merge(old, _MISSING, element, (*path, len(ours)), conflicts)
        last += [] if value is _MISSING else [value]
    return head + [element for slot in slots for element in slot]


def _without_common_additions(
    base: list[Any], side: list[Any], known: dict[int, int], other: list[Any], there: dict[int, int]
) -> dict[int, int]:
    """Return the pairs of base and one side, without those whose element the other side added, too.

    Such an element was added on both sides, and the base element at its position was removed.
    """
    added = {text_of(other[i]) for i in set(range(len(other))).difference(there.values())}
    return {
        old: new
        for old, new in known.items()
        if same(base[old], side[new]) or text_of(side[new]) not in added
    }


def _partners(
    ours: list[Any], theirs: list[Any], to_ours: dict[int, int], of_theirs: dict[int, int]
) -> dict[int, int]:
    """Return our index for each of their elements: paired through the base, or added by both."""
    partner = {place: to_ours[old] for place, old in of_theirs.items() if old in to_ours}
    mine = [i for i in range(len(ours)) if i not in set(to_ours.values())]
    other = [i for i in range(len(theirs)) if i not in of_theirs]
    key = identity(ours, theirs)
    here, there = [_name(ours[i], key) for i in mine], [_name(theirs[i], key) for i in other]
    partner |= {other[b]: mine[a] for a, b in _by_name(here, there)}
    return partner
