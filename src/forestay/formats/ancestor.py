"""Ancestor: which rendering somebody's edit was made from.

Whoever edits a file read one of our renderings of it, perhaps an old one. What they changed is told
by that one, so it has to be found among those that are kept: by what is near, and by times.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from forestay.formats import diff as trees
from forestay.formats import timestamps
from forestay.formats.facts import alike
from forestay.formats.port import EXTRA

Plain = dict[str, Any]
Way = tuple[str, ...]
Inside = dict[Way, Any]

_SOON_READ = 256_000
"""How many bytes are read to compare renderings by what they say."""
_DATES = ("updated_at", "updated", "last_activity")
"""The keys under which files say when they were last written."""
_CLEAR = 0.5
"""How much texts have in common that are one in other words."""
_FEW = 16
"""How many things are compared by their words with all others."""
_DEVICE = "device"
"""The key under which a craft file says where it was last written: of no copy does that tell when
it was read, and whoever goes on elsewhere has another name."""
_ENDED = ("agents", "stages")
"""Where a time in place of null ends a member. A session's own times, as that of a pause, are taken
out by whoever goes on with it."""
_NAMES = ("message", *trees.STRONG)
"""The keys by which members of lists are told apart: what an error says is never another one's."""
_CHANCE = 8
"""As how many differences it counts that an edit has a text by chance: as those of a decision."""


def nearest(
    data: bytes, kept: Sequence[bytes], read: Callable[[bytes], Any] | None = None
) -> bytes | None:
    """The rendering that some bytes were most likely made from; `kept` begins with the newest.

    Programs that rewrite a file do so in their own style, so only what the lines say counts. Where
    the bytes can be `read`, of those that are nearest by that the one that says most of the same in
    the same places: a task may have gone from one list to another, a text be folded. Bytes that
    say what stood there just before, but for their time, were not made from that: whoever wrote
    them took the last change back. If they lack what came with it, things, words or times, their
    author did not know of it, and only saved the same once more.
    """
    lines = frozenset(_lines(data))
    near = sorted(kept, key=lambda each: len(lines ^ frozenset(_lines(each))))
    lacks = False
    said: Callable[[bytes], Any] = _untimed
    if read is not None and (few := _few(near, len(data))):
        newest_first, found = sorted(few, key=kept.index), _anywhere(read(data))
        near = _by_what_they_say(found, {each: _anywhere(read(each)) for each in newest_first})
        lacks = _lacks(read(kept[0]), read(near[0]), found)
        # Line by line, a task that went from one list to another is where it was.
        said = partial(_parts_without_times, read)
    if not near:
        return None
    return near[0] if lacks else _nearest_of(data, near, kept, said)


def _anywhere(value: Any) -> Any:
    """What a file says, without the device that it was written on."""
    is_named = isinstance(value, dict) and _DEVICE in value
    return {key: each for key, each in value.items() if key != _DEVICE} if is_named else value


def _lacks(newest: Any, older: Any, found: Any) -> bool:
    """Whether a file is without what our newest rendering has: things where they stand there, words
    in place of older ones, or times, if only an end."""
    if _things(newest).items() - _things(found).items():
        return True
    last, was, now = map(_inside, (newest, older, found))
    if _has_old_words(was, last, now):
        return True
    times = (way for way, each in last.items() if _is_time(each))
    return any(way not in now or (now[way] is None and way[0] in _ENDED) for way in times)


def _few(near: Sequence[bytes], size: int) -> list[bytes]:
    """As many of the first as can be read in no time, beside some bytes of that size."""
    few: list[bytes] = []
    for each in near:
        size += len(each)
        if size > _SOON_READ:
            break
        few.append(each)
    return few


def _nearest_of(
    data: bytes, near: Sequence[bytes], kept: Sequence[bytes], said: Callable[[bytes], Any]
) -> bytes:
    if near[0] != kept[0] and (says := said(data)) == said(near[0]):
        newest = said(kept[0])
        before = next((told for each in kept[1:] if (told := said(each)) != newest), newest)
        is_old = (times := _times(data)) != _times(kept[0]) and times in map(_times, kept[1:])
        return kept[0] if says == before and not is_old else near[0]
    return near[0]


def _by_what_they_say(found: Any, renderings: dict[bytes, Any]) -> list[bytes]:
    """Renderings, those first that say most of the same in the same places.

    What an edit says and its base did not is its author's own. That it is just what another
    rendering says would be chance, if it is more than a word.
    """
    named = frozenset(_named_lists(found))
    said, things = _parts(found, named), _things(found)
    parts = {data: _parts(value, named) for data, value in renderings.items()}
    texts = {data: {text for _, text in each} for data, each in parts.items()}
    known = {text for _, text in said if _is_prose(text)} & set().union(*texts.values())

    def distance(data: bytes) -> int:
        odd = len(known - texts[data]) + _exchanged(_things(renderings[data]), things, texts[data])
        return _apart(said, parts[data]) + _CHANCE * odd

    return sorted(renderings, key=distance)


def _exchanged(was: dict[str, str], is_: dict[str, str], said: set[str]) -> int:
    """In place of how many things an edit would have put others in a list that are unlike them, and
    that were not `said` before: one without its id is still the same."""
    gone, new = was.keys() - is_.keys(), is_.keys() - was.keys() - said
    few = sorted(gone)[:_FEW]
    unlike = [each for each in few if not any(alike(each, one) > _CLEAR for one in new)]
    return (Counter(map(was.get, unlike)) & Counter(map(is_.get, new))).total()


def _is_prose(text: str) -> bool:
    return " " in text and timestamps.read(text) is None


def _apart(one: Counter[tuple[str, str]], other: Counter[tuple[str, str]]) -> int:
    return (one - other).total() + (other - one).total()


def _parts(value: Any, named: frozenset[str]) -> Counter[tuple[str, str]]:
    """What a value says and how often, each with the keys that lead there, and in lists that are
    `named` with the id of the member: two agents that are alike are not one."""

    def inside(each: Any, way: str) -> Iterator[tuple[str, str]]:
        if isinstance(each, dict):
            for key, member in each.items():
                yield from inside(member, f"{way}\0{key}")
        elif isinstance(each, list):
            for member in each:
                yield from inside(member, f"{way}\0{_id_of(member)}" if way in named else way)
        else:
            yield way, str(each)

    return Counter(inside(value, ""))


def _parts_without_times(read: Callable[[bytes], Any], data: bytes) -> Counter[tuple[str, str]]:
    parts = _parts(_anywhere(read(data)), frozenset())
    return Counter({part: n for part, n in parts.items() if timestamps.read(part[1]) is None})


def _named_lists(value: Any, way: str = "") -> Iterator[str]:
    """The ways to lists in which every member has an id: nobody took one out."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _named_lists(member, f"{way}\0{key}")
    elif isinstance(value, list):
        is_named = all(map(_id_of, value))
        if is_named:
            yield way
        for member in value:
            yield from _named_lists(member, f"{way}\0{_id_of(member)}" if is_named else way)


def _id_of(member: Any) -> str:
    keys = _NAMES if isinstance(member, dict) else ()
    return next((str(member[key]) for key in keys if member.get(key)), "")


def nearest_in_part(found: Plain, kept: Sequence[Any]) -> Any:
    """The same, by the keys that the edit has: those that its program does not know tell nothing
    of what it read, and the longer they were, the nearer would be what was before them."""

    def lines(value: Plain) -> frozenset[bytes]:
        part = {key: value[key] for key in found if key in value}
        return frozenset(_lines(json.dumps(part, indent=0, default=str).encode()))

    said, maps = lines(found), [each for each in kept if isinstance(each, dict)]
    return min(maps, key=lambda each: len(said ^ lines(each)), default=None)


def has_what_came(
    older: Any,
    edit: Any,
    newest: Any,
    found: Any,
    anew: Callable[[Any], Any],
    *,
    is_dated: bool = False,
) -> bool:
    """Whether whoever wrote a file knew what an edit brought since an older rendering of it.

    Who alone writes a file, and tells when, knows all that it said; whatever is as it was before
    the edit was taken back. A copy from before the edit has a time from then, or lacks what came by
    the edit: things in lists, wherever they stand now, and keys of somebody, which the file has not
    if it is written `anew`; or it has the very words that the edit put others in place of. A file
    may be `is_dated` by another that was written with it.
    """
    was, is_, last, now = map(_inside, (older, edit, newest, found))
    if not _is_of_its_own_time(was, is_, last, now, is_dated=is_dated):
        return False
    lacks = _things(edit).keys() - _things(older).keys() - _things(found).keys()
    if lacks or _has_old_words(was, is_, now):
        return False
    lost = {way for way in is_.keys() - was.keys() if _is_out(now, way)}
    return not lost or lost <= _inside(anew(edit)).keys()


def _has_old_words(was: Inside, is_: Inside, now: Inside) -> bool:
    same = [each for way, each in now.items() if was.get(way) == each != is_.get(way, each)]
    return any(isinstance(each, str) and _is_prose(each) for each in same)


def _inside(value: Any) -> Inside:
    """All that a value holds, by the ways there; of lists the members that have an id."""
    found: Inside = {}
    todo: list[tuple[Way, Any]] = [((), value)]
    while todo:
        way, each = todo.pop()
        if isinstance(each, dict):
            inside = [((*way, str(key)), one) for key, one in each.items() if key != EXTRA]
        elif isinstance(each, list):
            inside = [((*way, id), one) for one in each if (id := _id_of(one))]
        else:
            continue
        found.update(inside)
        todo += inside
    return found


def _is_of_its_own_time(
    was: Inside, is_: Inside, last: Inside, now: Inside, *, is_dated: bool
) -> bool:
    """Whether what was found has a time since where the edit had one, and none from before it: that
    of an edit which was a stale copy itself is one."""
    apart = ((each, was.get(way), is_.get(way), last.get(way)) for way, each in now.items())
    times = [four for four in apart if four.count(four[0]) < 4 and _is_time(four[0])]
    own = (four for four in times if not (four[0] == four[2] and _is_after(four[1], four[2])))
    is_told = is_dated or any(_is_time(new) and one != old for one, old, new, _ in own)
    return is_told and not any(one == old and one not in more for one, old, *more in times)


def is_later(newest: Any, found: Any) -> bool:
    """Whether a file has a later time than ours somewhere."""
    was, now = _inside(newest), _inside(found)
    return any(_is_after(each, was.get(way)) for way, each in now.items())


def _is_after(new: Any, old: Any) -> bool:
    later, earlier = timestamps.read(new), timestamps.read(old)
    return later is not None and earlier is not None and later > earlier


def _is_time(value: Any) -> bool:
    return isinstance(value, str) and timestamps.read(value) is not None


def _things(value: Any, way: str = "") -> dict[str, str]:
    """What the members of lists in a value are known by: an id, or a text that is no time; each
    with the keys that lead to its list."""
    found: dict[str, str] = {}
    for key, each in value.items() if isinstance(value, dict) else ():
        found |= _things(each, f"{way}\0{key}")
    for member in value if isinstance(value, list) else ():
        found |= {_known_by(member): way} | _things(member, way)
    found.pop("", None)
    return found


def _known_by(member: Any) -> str:
    if not isinstance(member, dict):
        return member if isinstance(member, str) else ""
    texts = (each for each in member.values() if isinstance(each, str) and each)
    return _id_of(member) or next((each for each in texts if not _is_time(each)), "")


def _is_out(now: Inside, way: Way) -> bool:
    """Whether a key is missing from a map that is there; a number is the name of a phase."""
    return (
        way not in now
        and not way[-1].isdigit()
        and (len(way) == 1 or isinstance(now.get(way[:-1]), dict))
    )


def was_read(newest: Any, older: Any, found: Any) -> bool:
    """Whether an edit was made from our newest rendering although an older one is nearer to it.

    Whoever takes a long key out of a file, or puts it there again, leaves bytes that are nearer to
    those from before. But they have a time that only the newest rendering has, and no value that
    only the older one has. A stale copy that is written back has no such time, or such values. Nor
    has it ever a time where the older one has none: whoever has that took the last change back.
    Whoever gives other times where only the older one has any says anew what was taken back. Where
    no value tells, whoever has every key that is new in the newest one knew of them. And who says
    just what the older one says, but has the time of the newest one, took back all since.
    """
    newest, older, found = map(_anywhere, (newest, older, found))
    if _is_as_dated(newest, older, found):
        return True
    if _holds_news(newest, older, found) or set(_said_anew(newest, older, found)) == {True}:
        return True
    told = set(_news(newest, older, found))
    return told == {True} or (not told and set(_new_keys(newest, older, found)) == {True})


def _is_as_dated(newest: Any, older: Any, found: Any) -> bool:
    """Whether a file has the time of the newest rendering, and says what the older one does."""
    if not all(isinstance(each, dict) for each in (newest, older, found)):
        return False
    dated = [key for key in _DATES if _is_time(newest.get(key))]
    is_dated = any(found.get(key) == newest[key] != older.get(key) for key in dated)
    return is_dated and _timeless(found) == _timeless(older)


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(each) for key, each in value.items() if key not in _DATES}
    return [_timeless(each) for each in value] if isinstance(value, list) else value


def _said_anew(newest: Any, older: Any, found: Any) -> Iterator[bool]:
    """For each time that only the older rendering has, and an edit has a time: whether another."""
    if isinstance(older, dict) and isinstance(found, dict):
        inside = newest if isinstance(newest, dict) else {}
        for key in older.keys() & found.keys():
            yield from _said_anew(inside.get(key), older[key], found[key])
    elif isinstance(newest, list) and isinstance(older, list) and isinstance(found, list):
        for three in zip(newest, older, found, strict=False):
            yield from _said_anew(*three)
    elif newest is None and None not in (
        told := [timestamps.read(each) for each in (older, found)]
    ):
        yield told[0] != told[1]


def _new_keys(newest: Any, older: Any, found: Any) -> Iterator[bool]:
    """For each key that only the newest rendering has, whether an edit has it too."""
    if not (isinstance(newest, dict) and isinstance(older, dict)):
        return
    inside = found if isinstance(found, dict) else {}
    for key, value in newest.items():
        if key not in older:
            yield key in inside
        else:
            yield from _new_keys(value, older[key], inside.get(key))


def _holds_news(newest: Any, older: Any, found: Any) -> bool:
    if isinstance(newest, dict) and isinstance(found, dict):
        inside = older if isinstance(older, dict) else {}
        both = newest.keys() & found.keys()
        return any(_holds_news(newest[key], inside.get(key), found[key]) for key in both)
    if isinstance(newest, list) and isinstance(found, list):
        known = len(older) if isinstance(older, list) else 0
        pairs = zip(newest[known:], found[known:], strict=False)
        return any(new == each and _holds_news(new, None, each) for new, each in pairs)
    return older is None and newest == found and timestamps.read(found) is not None


def _news(newest: Any, older: Any, found: Any) -> Iterator[bool]:
    """For what differs between two renderings and is in an edit: True for a time of the newest,
    False for anything of the older one."""
    if isinstance(newest, dict) and isinstance(older, dict) and isinstance(found, dict):
        for key in found.keys() & newest.keys() & older.keys():
            yield from _news(newest[key], older[key], found[key])
    elif isinstance(found, list):
        ours, theirs = (each if isinstance(each, list) else [] for each in (newest, older))
        if len(ours) == len(theirs) == len(found):
            for three in zip(ours, theirs, found, strict=True):
                yield from _news(*three)
        elif (
            set(map(trees.text_of, theirs))
            .difference(map(trees.text_of, ours))
            .intersection(map(trees.text_of, found))
        ):
            yield False
    elif newest != older and found == older:
        yield False
    elif newest != older and found == newest and timestamps.read(found) is not None:
        yield True


_STAMP = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d([.,]\d+)?)?(Z|[+-]\d\d:?\d\d)?")


_NAMED_DEVICE = re.compile(rb'"device"\s*:\s*"(?:[^"\\]|\\.)*"')
_ESCAPES = re.compile(rb"(?:\\(?:u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}))+")
_BREAKS = bytes.maketrans(b",{}[]", b"\n\n\n\n\n")


def _lines(data: bytes) -> list[bytes]:
    """What a file says, part by part, also where all of it stands in one line."""
    # All at once: line by line, a file of millions of lines takes seconds.
    if b'"device"' in data:
        data = _NAMED_DEVICE.sub(b"", data)
    if b"\\" in data:
        data = _ESCAPES.sub(_unescaped, data)
    return data.translate(_BREAKS, b" \t\"'-").splitlines()


def _unescaped(found: re.Match[bytes]) -> bytes:
    codes = re.split(rb"\\[uUx]", found[0])[1:]
    # Two halves of a sign are one.
    halves = "".join(chr(int(code, 16)) for code in codes if int(code, 16) < 0x110000)
    return halves.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _times(data: bytes) -> list[bytes]:
    return sorted(found[0] for found in _STAMP.finditer(data))


def _untimed(data: bytes) -> list[bytes]:
    return sorted(filter(None, _lines(_STAMP.sub(b"", data))))
