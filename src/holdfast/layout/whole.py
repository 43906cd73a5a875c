"""What may not be taken out of files: keys that a document requires.

Somebody's edit that lacks one, or has null where that is not allowed, is read as if it said what
stood there; the file that is written next has it again, in the place that it had. What else an
owner takes out stays out. An element of a list is known by what it says, so one that is new gets
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.layout import INFO, Finding, Layout, Tree, Where
from holdfast.layout.document import keys_in
from holdfast.layout.tree import align
from holdfast.layout.value import put_back

Places = dict[str | int, "Places"]
"""Keys under keys, down to those that are missing."""


def whole(
    layout: Layout, tree: Tree, before: Tree, where: Where, concerns: Callable[[Finding], bool]
) -> tuple[Tree, list[str]]:
    """Files with the required keys that they had before, of those found missing that concern the
    session; and a sentence for each."""
    made, told = dict(tree), list[str]()
    for file, value in tree.items():
        if before.get(file) is None or value is before[file]:
            continue  # nothing stood there that it lacks
        lacks = _lacks(layout, file, value, where, concerns)
        if lacks:
            # Null may be no value of a key that nobody requires: that is taken out, too.
            lacks = _lacks(layout, file, _without_nulls(value, lacks), where, concerns)
            made[file] = _filled(value, before[file], lacks, "", told)
    return (made, told) if told else (tree, [])


def _lacks(
    layout: Layout, file: str, value: Any, where: Where, concerns: Callable[[Finding], bool]
) -> Places:
    found = layout.check({file: value}, where)
    return _places([finding for finding in found if _is_lack(finding) and concerns(finding)])


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


def _filled(now: Any, before: Any, places: Places, at: str, told: list[str]) -> Any:
    """A value with what stood before in those places that are not there, which are told."""
    if isinstance(now, list) and isinstance(before, list):
        known = {to: before[old] for old, to in align(before, now) if to in places}
        return [
            _filled(each, known[n], places[n], f"{at}[{n}]", told) if n in known else each
            for n, each in enumerate(now)
        ]
    if not (isinstance(now, dict) and isinstance(before, dict)):
        return now
    made = dict(now)
    for key, inner in places.items():
        place = f"{at}.{key}" if at else str(key)
        if now.get(key) is not None:
            made[key] = _filled(now[key], before.get(key), inner, place, told)
        elif key in before and (key not in now or before[key] is not None):
            put_back(made, before, key)
            told.append(f"{place} was taken out")
    return made
