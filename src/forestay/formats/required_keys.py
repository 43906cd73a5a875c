"""Restore keys that a specification requires and an edit removed.

An edit without a required key, or with a null that is not allowed, is read as if it still had the
earlier value, and the next rendering has the key again at its earlier position. Other keys that an
edit removes stay removed. Nothing is added to new elements of lists.
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
"""Nested mappings of keys; the innermost keys are those that are missing."""


def restore_required(
    format: Format,
    tree: Tree,
    before: Tree,
    where: Where,
    concerns: Callable[[Finding], bool],
    wrong: Callable[[Finding], bool] = lambda _: False,
) -> tuple[Tree, list[str]]:
    """Return files with the required keys that they had `before`, and a sentence for each restored.

    Only findings that `concerns` accepts count. Values with a finding that `wrong` accepts are
    replaced by the earlier ones, too.
    """

    def find(file: str, value: Any) -> list[Finding]:
        found = format.check({file: value}, where)
        return [f for f in found if concerns(f) and (_is_missing(f) or wrong(f))]

    made, restored = dict(tree), list[str]()
    for file, value in tree.items():
        if before.get(file) is None or value is before[file]:
            continue  # a new or unchanged file
        if missing := find(file, value):
            bad = [finding for finding in missing if wrong(finding)]
            # Ignore a wrong null of an optional key: if it is removed, no key is missing.
            places = _places([*find(file, _without_nulls(value, _places(missing))), *bad])
            made[file] = _restore(value, before[file], places, "", restored, {f.where for f in bad})
    return (made, restored) if restored else (tree, [])


def _without_nulls(value: Any, places: Places) -> Any:
    if isinstance(value, list):
        return [_without_nulls(each, places.get(n, {})) for n, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    present = {key: each for key, each in value.items() if each is not None or key not in places}
    return {key: _without_nulls(each, places.get(key, {})) for key, each in present.items()}


def _is_missing(finding: Finding) -> bool:
    is_missing_key = finding.code == "missing-key" and finding.severity != INFO
    return is_missing_key or finding.code in ("version-missing", "wrong-type")


def _places(missing: list[Finding]) -> Places:
    root: Places = {}
    for finding in missing:
        places = root
        for key in keys_in(finding.where):
            places = places.setdefault(key, {})
    return root


def _restore(
    now: Any, before: Any, places: Places, at: str, restored: list[str], bad: set[str]
) -> Any:
    """Return a value with the earlier one at each missing or bad place, listed in `restored`."""
    if isinstance(now, list) and isinstance(before, list):
        known = {to: before[old] for old, to in align(before, now) if to in places}
        return [
            _restore(each, known[n], places[n], f"{at}[{n}]", restored, bad) if n in known else each
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
            restored.append(f"{place} was given an invalid value")
        elif now.get(key) is not None:
            made[key] = _restore(now[key], before.get(key), inner, place, restored, bad)
        elif key in before and (key not in now or before[key] is not None):
            put_back(made, before, key)
            restored.append(f"{place} was removed")
    return made
