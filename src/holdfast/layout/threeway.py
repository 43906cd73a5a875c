"""Three-way: what someone's edit of a layout's files comes to, against the facts of today.

*Base* is what we once wrote, *theirs* what stands in the files now. All sides are compared as the
layout can tell them: else a time that a file rounds would look like a change. What both sides
changed is *contested*; the file was written later, so it wins, and both statements are in the
journal. Only an ending never wins a contest: a session that somebody goes on with is not over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.layout import Layout, Tree, Where, carry
from holdfast.layout import tree as trees
from holdfast.layout.facts import Facts, plain
from holdfast.layout.translate import Move, match_steps, moves

Kept = Callable[[str, str], bool]
"""Whether the second text is all that could be kept of the first one."""

_OVER = ("completed", "failed", "aborted", "abandoned")


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
    before, today, after = (plain(carry.read(lens, tree, where)) for tree in (base, ours, theirs))
    merged, conflicts = trees.merge(before, after, today)
    residue = _stay_open(merged, today) if ("status",) in conflicts else ""
    wanted, had = (msgspec.convert(side, Facts) for side in (merged, today))
    made = moves(_named(had, now), _named(wanted, now))
    return Changes(made, [".".join(map(str, path)) for path in conflicts], residue)


def _stay_open(merged: dict[str, Any], today: dict[str, Any]) -> str:
    theirs, ours = merged.get("status", "active"), today.get("status", "active")
    if theirs not in _OVER or ours in _OVER:
        return ""
    merged["status"] = ours
    return f"status: {theirs}"


def _named(facts: Facts, now: Facts) -> Facts:
    """Steps that the layout knows by their titles only get the ids they have with us."""
    facts.steps = [step for _, step in match_steps(now.steps, facts.steps)]
    return facts


# -- texts that could not be kept whole --------------------------------------------------------


def written(lens: Layout, old: Tree | None, facts: Facts, where: Where, kept: Kept) -> Tree:
    """The files for some facts; but where we only could not keep a text whole, what the user wrote.

    The layout knows elements by such texts, so it is shown the files in the words that were kept.
    """
    made = carry.write(lens, old or None, facts, where, full=False)
    words = _substitutes(_strings(old or {}), _strings(made), kept)
    if not words or not old:
        return made
    shown = _said_in(old, words)
    return {
        name: _restored(old.get(name), shown.get(name), value)
        for name, value in carry.write(lens, shown, facts, where, full=False).items()
    }


def _strings(value: Any) -> dict[str, None]:
    """All texts in a value, each once."""
    found: dict[str, None] = {}
    todo = [value]
    while todo:
        each = todo.pop()
        if isinstance(each, str):
            found[each] = None
        elif isinstance(each, dict):
            todo += each.values()
        elif isinstance(each, list):
            todo += each
    return found


def _substitutes(old: dict[str, None], new: dict[str, None], kept: Kept) -> dict[str, str]:
    """Text that went → text that came and is all that could be kept of it."""
    gone, came = [text for text in old if text not in new], [t for t in new if t not in old]
    pairs = ((a, b) for a in gone for b in came if _may_be_kept(a, b) and kept(a, b))
    return dict(pairs)


def _may_be_kept(original: str, text: str) -> bool:
    """A quick look first: most texts that change are stamps and statuses."""
    odd = not original.isprintable() or original != original.strip()
    return odd or text.endswith("…") or "[redacted:" in text


def _said_in(value: Any, words: dict[str, str]) -> Any:
    if isinstance(value, str):
        return words.get(value, value)
    if isinstance(value, dict):
        return {key: _said_in(each, words) for key, each in value.items()}
    return [_said_in(each, words) for each in value] if isinstance(value, list) else value


def _restored(original: Any, shown: Any, new: Any) -> Any:
    """The new value, with the original text wherever it still is the one shown for it."""
    if isinstance(shown, str):
        return original if shown == new else new
    if isinstance(shown, dict) and isinstance(new, dict):
        return {
            key: _restored(original[key], shown[key], value) if key in shown else value
            for key, value in new.items()
        }
    if isinstance(shown, list) and isinstance(new, list):
        places = {to: at for at, to in trees.align(shown, new)}
        return [
            _restored(original[places[to]], shown[places[to]], value) if to in places else value
            for to, value in enumerate(new)
        ]
    return new


def nearest(data: bytes, kept: Sequence[bytes]) -> bytes | None:
    """The rendering that some bytes were most likely made from."""
    lines = frozenset(data.splitlines())
    return min(kept, key=lambda each: len(lines ^ frozenset(each.splitlines())), default=None)
