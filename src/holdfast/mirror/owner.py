"""Owner: which session has which place. A place has one owner, whichever way it is spelled.

What stands in a place before a session gets it belongs to somebody else, unless it was found to
be the session's own. Where a layout has an archive, a session in the way is put there.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from holdfast import files
from holdfast.errors import HoldfastError, InvalidInput, Refused
from holdfast.layout import Layout
from holdfast.layout.customs import custom
from holdfast.mirror.archive import says_it_is
from holdfast.mirror.desk import MAX_BYTES, Desk, lens_of
from holdfast.store.bound import Binding
from holdfast.text import is_text

Retire = Callable[[Binding], list[str]]
"""Put a session's file into its layout's archive; says what keeps it from it."""


def bind(
    desk: Desk,
    session: str,
    kind: str,
    native: str,
    root: str,
    *,
    found: bool,
    retire: Retire,
) -> Binding:
    """Give a session a place in a layout; without an id, the one that it has or had there."""
    lens = lens_of(kind)
    root = os.path.realpath(root or desk.root_of(kind))
    kept = [b for b in desk.bound.bindings(session) if (b.layout, b.root) == (kind, root)]
    if kept and not native:
        return kept[0]
    had = [id for id, there in desk.bound.let_go(session, kind) if there == root]
    again = next((id for id in had if native in ("", id) and _is_left(desk, lens, id, root)), "")
    native = native or again or _free_id(desk, lens, session, root)
    place = _place(lens, native, root)
    _require_text(kind, root)
    _make_room(desk, session, kind, place, found=found or bool(again), retire=retire)
    _keep_out_of_git(desk, kind, root)
    files.make_folder(root)
    # Files that were found are found again, should a power cut take this back.
    if not desk.bound.bind(session, kind, native, root, place, soon=found):
        raise _taken(desk, place)
    return next(b for b in desk.bound.bindings(session) if b.place == place)


def _is_left(desk: Desk, lens: Layout, native: str, root: str) -> bool:
    """Whether nobody else has come to a place that a session let go of."""
    place = os.path.join(root, lens.files(native)[0])
    if desk.bound.owner(place) is not None:
        return False
    return not os.path.lexists(place) or says_it_is(desk, lens.id, native, root, place)


def _require_text(kind: str, root: str) -> None:
    if not is_text(root):
        raise InvalidInput(
            f"the files of {kind} cannot be kept in {root}",
            why="the name of the folder is not UTF-8",
            hint=f"keep them elsewhere: holdfast layouts add {kind} --root DIR",
        )


def require_place(desk: Desk, session: str, kind: str, native: str) -> Binding | None:
    """Refuse what `bind` would refuse; returns the session that would have to be put away."""
    lens = lens_of(kind)
    _require_text(kind, desk.root_of(kind))
    root = os.path.realpath(desk.root_of(kind))
    place = _place(lens, native, root) if native else os.path.join(root, lens.files("")[0])
    if kind == "essay" or (not native and lens.files("a") != lens.files("b")):
        # Its folder, or its id, is chosen so that it is free.
        return None
    _require_folder(root)
    owner = desk.bound.owner(place)
    if owner is None:
        _require_free(kind, place)
    elif owner.session != session and not custom(kind).archive:
        raise _taken(desk, place)
    return owner if owner and owner.session != session else None


def _place(lens: Layout, native: str, root: str) -> str:
    """Where the main file of a session is, if its id can be one of the layout."""
    if problem := lens.valid_id(native):
        word = "feature" if lens.id == "ai-session" else f"{lens.id} session"
        raise InvalidInput(f"Invalid {word} ID {native!r}", why=problem)
    return os.path.join(root, lens.files(native)[0])


def _make_room(
    desk: Desk, session: str, kind: str, place: str, *, found: bool, retire: Retire
) -> None:
    owner = desk.bound.owner(place)
    if owner is not None and (owner.session, owner.place) != (session, place):
        if not custom(kind).archive or owner.place != place:
            raise _taken(desk, place)
        if problems := retire(owner):
            raise Refused(f"another session is here: {place}", why="; ".join(problems))
    elif owner is None and not found:
        _require_free(kind, place)


def _require_free(kind: str, place: str) -> None:
    there = place if os.path.lexists(place) else f"{place}{custom(kind).backup}"
    if os.path.lexists(there) or _is_foreign_folder(kind, place):
        raise Refused(
            f"{there} already exists",
            why="another session is here, and it is not ours to change",
            hint=f"make it one of ours: holdfast adopt {place}"
            if there == place
            else "move it away",
            file=there,
        )


def _is_foreign_folder(kind: str, place: str) -> bool:
    """Whether the session would move into a folder that somebody filled already."""
    return kind == "ai-session" and os.path.lexists(os.path.dirname(place))


def _require_folder(path: str) -> None:
    """Refuse a folder that cannot be made, because something else has its name, or one above."""
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    if not os.path.isdir(path):
        raise InvalidInput(f"{path} is not a folder", why="the layout keeps its files in it")


def _taken(desk: Desk, place: str) -> Refused:
    owner = desk.bound.owner(place)
    why = f"it belongs to session {owner.session}" if owner else ""
    return Refused(f"another session is here: {place}", why=why, hint="holdfast layouts")


def _keep_out_of_git(desk: Desk, kind: str, root: str) -> None:
    """Files in a folder that we make are nobody's business but this machine's."""
    tree = desk.tree_of(root)
    inside = os.path.relpath(root, tree.root)
    if tree.common_dir is None or os.path.lexists(root) or inside.startswith(".."):
        return
    path = os.path.join(tree.common_dir, "info", "exclude")
    try:
        known = files.read_optional(path, MAX_BYTES) or b""
        files.make_folder(os.path.dirname(path))
        for name in custom(kind).unshared:
            line = os.fsencode(f"/{inside}/{name}")
            if line not in known.splitlines() and b"\n" not in line:
                files.append_line(path, line, mode=0o644)
    except HoldfastError:
        # The folder then shows as untracked, which is no reason to have no folder.
        return


def _free_id(desk: Desk, lens: Layout, session: str, root: str) -> str:
    facts = desk.told(session).facts
    try:
        taken = frozenset(name.removesuffix(".json") for name in os.listdir(root))
    except OSError:
        taken = frozenset()
    return lens.new_id(facts, desk.where(root), taken)
