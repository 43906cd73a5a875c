"""What may not be taken out of files: keys that a document requires.

Somebody's edit that lacks one, or has null where that is not allowed, is read as if it said what
stood there; the file that is written next has it again, in the place that it had. What else an
owner takes out stays out. An element of a list is known by what it says, so one that is new gets
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from forestay.base.findings import Finding
from forestay.formats.coerce import put_back
from forestay.formats.diff import align
from forestay.formats.port import INFO, Format, Tree, Where
from forestay.formats.text.document import keys_in

Places = dict[str | int, "Places"]
"""Keys under keys, down to those that are missing."""


def whole(
    format: Format,
    tree: Tree,
    before: Tree,
    where: Where,
    concerns: Callable[[Finding], bool],
    wrong: Callable[[Finding], bool] = lambda _: False,
) -> tuple[Tree, list[str]]:
    """Files with the required keys that they had before, of those found missing that concern the
    session; and a sentence for each. Values that are `wrong` are replaced by those before, too."""

    def find(file: str, value: Any) -> list[Finding]:
        found = format.check({file: value}, where)
        return [f for f in found if concerns(f) and (_is_lack(f) or wrong(f))]

    made, told = dict(tree), list[str]()
    for file, value in tree.items():
        if before.get(file) is None or value is before[file]:
            continue  # nothing stood there that it lacks
        if lacks := find(file, value):
            bad = [finding for finding in lacks if wrong(finding)]
            # Null may be no value of a key that nobody requires: that is taken out, too.
            places = _places([*find(file, _without_nulls(value, _places(lacks))), *bad])
            made[file] = _filled(value, before[file], places, "", told, {f.where for f in bad})
    return (made, told) if told else (tree, [])


def _without_nulls(value: Any, places: Places) -> Any:
    if isinstance(value, list):
        return [_without_nulls(each, places.get(n, {})) for n, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    kept = {key: each for key, each in value.items() if each is not None or key not in places}
    return {key: _without_nulls(each, places.get(key, {})) for key, each in kept.items()}


def _is_lack(finding: Finding) -> bool:
    missing = finding.code == "missing-key" and finding.severity != INFO
    return missing or finding.code in ("version-missing", "wrong-type")


def _places(lacks: list[Finding]) -> Places:
    root: Places = {}
    for finding in lacks:
        places = root
        for key in keys_in(finding.where):
            places = places.setdefault(key, {})
    return root


def _filled(now: Any, before: Any, places: Places, at: str, told: list[str], bad: set[str]) -> Any:
    """A value with what stood before in those places that are missing or bad, which are told."""
    if isinstance(now, list) and isinstance(before, list):
        known = {to: before[old] for old, to in align(before, now) if to in places}
        return [
            _filled(each, known[n], places[n], f"{at}[{n}]", told, bad) if n in known else each
            for n, each in enumerate(now)
        ]
    if not (isinstance(now, dict) and isinstance(before, dict)):
        return now
    made = dict(now)
    for key, inner in places.items():
        place = f"{at}.{key}" if at else str(key)
        is_bad = place in bad and now.get(key) is not None and key in before
        if is_bad and before[key] != now[key]:
            put_back(made, before, key)
            told.append(f"{place} was given a value it cannot have")
        elif now.get(key) is not None:
            made[key] = _filled(now[key], before.get(key), inner, place, told, bad)
        elif key in before and (key not in now or before[key] is not None):
            put_back(made, before, key)
            told.append(f"{place} was taken out")
    return made
