"""Bind sessions to places: the path of a session's main file in one format.

Only one session can be bound to a place, even if several paths lead to it. A file that exists in
the place belongs to another program, unless the caller found it to be the session's own. If the
format has an archive, the session that had the place before is moved there.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from contextlib import suppress

from forestay.base import files
from forestay.base.text import is_text
from forestay.errors import ForestayError, InvalidInput, ReadOnly, Refused
from forestay.formats.port import REGISTRY, Format, Where, conventions_of, load_format, require_id
from forestay.mirror.archive import archived_place, has_session_id, is_taken
from forestay.mirror.context import MirrorContext, parse_file, read
from forestay.store.machine.bindings import Binding

Retire = Callable[[Binding], list[str]]
"""Move a session's file into its format's archive; return a message for each problem."""


def bind(
    context: MirrorContext,
    session: str,
    kind: str,
    native: str,
    root: str,
    *,
    found: bool,
    away: bool,
    retire: Retire,
) -> Binding:
    """Bind a session to a place of a format.

    Without an id (`native`) it gets the one that it has or had in this folder, else a new one.
    `found` is true if existing files are the session's own, `away` if they are in the archive.
    """
    format = load_format(kind)
    root = os.path.realpath(root) if root else _usual_root(context, kind)
    bound = [b for b in context.bindings.bindings(session) if (b.format, b.root) == (kind, root)]
    if bound and not native:
        return bound[0]
    require_one_id(format, *(b.native for b in bound), native)
    had = [id for id, there in context.bindings.released_ids(session, kind) if there == root]
    still_free = (id for id in had if _is_still_free(context, format, id, root))
    again = next((id for id in still_free if native in ("", id)), "")
    native = native or again or _free_id(context, format, session, root)
    is_its = found or bool(again)
    place = _place(format, native, root, found=is_its)
    place = archived_place(kind, native, root) if away else place
    _require_text(kind, root)
    owner = context.bindings.owner(place)
    if owner is not None and (owner.session, owner.place) != (session, place):
        if owner.place != place:
            raise _place_taken(context, place)
        _require_archivable(context, owner, native)
        archive_owner(context, owner, retire)
    if not (is_its or context.bindings.owner(place)):
        _require_free(kind, native, place, root)
    exclude_from_git(context, root, conventions_of(kind).unshared)
    files.make_folder(root)
    # A power cut may undo this: files that were found are found again.
    if not context.bindings.bind(session, kind, native, root, place, soon=found):
        raise _place_taken(context, place)
    return next(b for b in context.bindings.bindings(session) if b.place == place)


def require_one_id(format: Format, *ids: str) -> None:
    """Refuse a second id for a session in a format that has one place for all sessions."""
    first, *others = dict.fromkeys(filter(None, ids)) or ("",)
    if others and not _is_named_by_id(format):
        raise Refused(
            f"a session has one id in {format.id}: {first} or {others[0]}",
            hint=f"choose one; to remove one that it has: forestay files unbind {format.id}",
        )


def _is_named_by_id(format: Format) -> bool:
    """Return whether the format names files by session id, instead of having one place for all."""
    return format.files("a") != format.files("b")


def _is_still_free(context: MirrorContext, format: Format, native: str, root: str) -> bool:
    """Return whether the place that a session was unbound from is free, or still has its file."""
    place = os.path.join(root, format.files(native)[0])
    if context.bindings.owner(place) is not None:
        return False
    return not os.path.lexists(place) or has_session_id(context, format.id, native, root, place)


def _require_text(kind: str, root: str) -> None:
    if not is_text(root):
        raise InvalidInput(
            f"the files of {kind} cannot be stored in {root}",
            why="the name of the folder is not UTF-8",
            hint=f"store them elsewhere: forestay files bind {kind} --root DIR",
        )


def _usual_root(context: MirrorContext, kind: str) -> str:
    """Return the folder of a format in this project; refuse a link that leads out of it."""
    root, top = context.root_of(kind), f"{context.tree.root}/"
    real = os.path.realpath(root)
    if f"{root}/".startswith(top) and not f"{real}/".startswith(f"{os.path.realpath(top)}/"):
        raise Refused(
            f"{root} leads out of the project",
            why=f"by a symbolic link, to {real}",
            hint=f"if that is intended: forestay files bind {kind} --root {shlex.quote(real)}",
            file=root,
        )
    return real


def require_place(context: MirrorContext, session: str, kind: str, native: str) -> Binding | None:
    """Refuse what `bind` would refuse; return the binding that it would archive, if any."""
    format = load_format(kind)
    _require_text(kind, context.root_of(kind))
    root = _usual_root(context, kind)
    place = _place(format, native, root) if native else os.path.join(root, format.files("")[0])
    if not REGISTRY[kind][1]:
        return None  # it has its own folder, in the home
    _require_folder(root)
    if not native and _is_named_by_id(format):
        return None  # a free id is chosen for it
    owner = context.bindings.owner(place)
    if owner is None:
        _require_free(kind, native, place, root)
    elif owner.session != session:
        _require_archivable(context, owner, native)
        if is_taken(context, owner):
            raise _already_exists(place, _hint_for(kind, place), native)
    return owner if owner and owner.session != session else None


def require_root(context: MirrorContext, kind: str) -> None:
    """Refuse if no file can be created in the folder that a format has in this project."""
    _require_folder(_usual_root(context, kind))


def _place(format: Format, native: str, root: str, *, found: bool = False) -> str:
    """Return the path of a session's main file; refuse an id that the format does not allow."""
    if not found or format.why_unusable_id(native):
        require_id(format, native)
    return os.path.join(root, format.files(native)[0])


def archive_owner(context: MirrorContext, owner: Binding, retire: Retire) -> None:
    """Archive the session that is bound to a place; if that fails, refuse with the reason."""
    problems = retire(owner)
    if context.bindings.owner(owner.place) is not None:
        raise cannot_archive(owner, "; ".join(problems))


def cannot_archive(owner: Binding, why: str) -> Refused:
    """Return the error for a session that cannot be archived now."""
    what, hint = f"another session is here: {owner.place}", "to fix it: forestay doctor"
    error = Refused(what, why=why, hint=hint, file=owner.place, session=owner.native)
    error.retryable = True  # the reason is temporary
    return error


def _require_archivable(context: MirrorContext, owner: Binding, native: str) -> None:
    """Refuse a place whose session cannot be archived to make room for the session with this id.

    That is so if the archive already has a file of the same name, or would get two.
    """
    if not conventions_of(owner.format).archive or owner.native == native:
        raise _place_taken(context, owner.place)
    _require_not_archived(owner.format, native, owner.root)


def _require_free(kind: str, native: str, place: str, root: str) -> None:
    """Refuse a place with a file, folder, entry or archived file of another session."""
    backup = conventions_of(kind).backup
    if os.path.lexists(place):
        raise _already_exists(place, _hint_for(kind, place), native)
    if backup and os.path.lexists(f"{place}{backup}"):
        raise _already_exists(f"{place}{backup}", "move it away", native)
    _require_not_archived(kind, native, root)
    if conventions_of(kind).shared:
        _require_free_folder(kind, native, os.path.dirname(place), root)


def _require_not_archived(kind: str, native: str, root: str) -> None:
    archived = archived_place(kind, native, root) if native else ""
    if archived and os.path.lexists(archived):
        raise _already_exists(archived, "move it away", native)


def _require_free_folder(kind: str, native: str, folder: str, root: str) -> None:
    """Refuse an id that already has a folder, or an entry in the shared index."""
    if os.path.lexists(folder):
        has_files = any(not os.path.isdir(path) for path in files.list_paths(folder))
        adopt = f"import it: forestay adopt {shlex.quote(folder)}"
        hint = adopt if has_files else "move it away, or choose another id"
        raise _already_exists(folder, hint, native)
    for name, ids in _ids_in_indexes(kind, root).items():
        if native in ids:
            raise Refused(
                f"session {native} already exists in the index of {root}",
                why=f"it belongs to another session, whose files are not in {root}",
                hint=f"choose another id, or remove its entry from {name}",
                file=os.path.join(root, name),
                session=native,
            )


def _already_exists(path: str, hint: str, native: str) -> Refused:
    why = "it belongs to another session, which Forestay must not change"
    return Refused(f"{path} already exists", why=why, hint=hint, file=path, session=native)


def _hint_for(kind: str, place: str) -> str:
    try:
        value = parse_file(place, read(place)).value
    except ForestayError:
        return f"see what can be recovered from it: forestay doctor {shlex.quote(place)}"
    reading = load_format(kind).reading({os.path.basename(place): value}, Where())
    if not reading.writable:
        return f"{reading.read_only_reason}: move it away"
    return f"import it: forestay adopt {shlex.quote(place)}"


def _require_folder(path: str) -> None:
    """Refuse a folder that cannot be created or written to."""
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    if not os.path.isdir(path):
        raise InvalidInput(f"{path} is not a folder", why="the format stores its files in it")
    if not files.is_writable(path):
        hint = f"check owner and permissions: ls -ld {shlex.quote(path)}"
        why = "the format stores its files in it"
        raise ReadOnly(f"{path} may not be written to", why=why, hint=hint, file=path)


def _place_taken(context: MirrorContext, place: str) -> Refused:
    owner = context.bindings.owner(place)
    why = f"another session is here: {owner.session}" if owner else "another session is here"
    what, native = f"{place} already exists", owner.native if owner else ""
    onward = f", or resume that session: forestay resume {owner.session}" if owner else ""
    hint = f"choose another id{onward}"
    return Refused(what, why=why, hint=hint, file=place, session=native)


def exclude_from_git(context: MirrorContext, root: str, names: tuple[str, ...]) -> None:
    """Exclude files in a folder that we create from git: they are true of this machine only."""
    tree = context.tree_of(root)
    inside = os.path.relpath(root, tree.root)
    if tree.common_dir is None or os.path.lexists(root) or inside.startswith(".."):
        return
    path = os.path.join(tree.common_dir, "info", "exclude")
    try:
        files.make_folder(os.path.dirname(path))
        for name in names:
            line = os.fsencode(f"/{inside}/{name}")
            if b"\n" not in line:
                files.append_once(path, line, mode=0o644)
    except ForestayError:
        # If that fails, git lists the folder as untracked, which does no harm.
        return


def _free_id(context: MirrorContext, format: Format, session: str, root: str) -> str:
    """Return a new id that no file, index or archive in the folder has."""
    facts = context.read_facts(session).facts
    # A session that was just started has a place, but no file there yet.
    owned = {place[len(root) + 1 :].partition("/")[0] for place in context.bindings.places(root)}
    names = [*owned, *files.list_names(root)]
    if archived := archived_place(format.id, "", root):
        names += map(os.path.basename, files.list_paths(os.path.dirname(archived)))
        # The session that is bound to the place now would be archived under its id.
        current = context.bindings.owner(os.path.join(root, format.files("")[0]))
        names += [current.native] if current else []
    taken = {name.removesuffix(".json") for name in names}
    listed = _ids_in_indexes(format.id, root).values()
    return format.new_id(facts, context.where(root), frozenset(taken.union(*listed)))


def _ids_in_indexes(kind: str, root: str) -> dict[str, set[str]]:
    """Return the session ids in each readable file that the sessions of a folder share."""
    found: dict[str, set[str]] = {}
    for name in conventions_of(kind).shared:
        with suppress(ForestayError):
            value = parse_file(name, read(os.path.join(root, name))).value
            found[name] = {entry.id for entry in load_format(kind).listed(value)}
    return found
