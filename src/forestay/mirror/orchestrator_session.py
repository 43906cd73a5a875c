"""The one current session of a project in the `orchestrator` format, and its archive.

The kind of the current file is `none` (missing), `incompatible` (of an unknown version), `corrupt`
or `ok`. A file that another program wrote is adopted when its session is resumed or aborted. When a
new session begins, the file is moved into the archive, byte for byte.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from itertools import count
from typing import Any

from msgspec import Struct

from forestay.base import files
from forestay.base.text import clean_id
from forestay.base.vocabulary import FINISHED
from forestay.errors import ForestayError, InvalidInput, NoSession, Outdated, Refused
from forestay.formats.orchestrator import format as orchestrator_format
from forestay.formats.orchestrator.format import SHOW_HISTORY
from forestay.formats.orchestrator.schema import ID, VERSION
from forestay.formats.port import REGISTRY
from forestay.formats.text.document import Document
from forestay.journal.context import Context
from forestay.mirror import adopt, discover, recover
from forestay.mirror.discover import MAX_BYTES, Find
from forestay.mirror.recover import Case, Unusable
from forestay.mirror.session_files import mirror_of, read_state, write_files

NOTHING = "No session to resume"
NONE, INCOMPATIBLE, CORRUPT, OK = "none", "incompatible", "corrupt", "ok"


class Loaded(Struct):
    """The current file of a project and its kind: none, incompatible, corrupt or ok."""

    kind: str
    path: str
    find: Find | None = None
    version: str = ""
    case: Case | None = None


def folder(context: Context) -> str:
    return os.path.join(context.workspace.tree.root, REGISTRY[ID][1])


def load(context: Context) -> Loaded:
    """Read the current file and return its kind, without writing anything."""
    path = os.path.join(folder(context), orchestrator_format.CURRENT)
    if not os.path.lexists(path):
        return Loaded(NONE, path)
    case = recover.examine(context, path)
    if case is not None:
        return Loaded(CORRUPT, path, case=case)
    (find,) = discover.find(path)
    reading = find.format.reading(find.tree, mirror_of(context).where(find.root))
    if not reading.writable:
        return Loaded(INCOMPATIBLE, path, find, reading.version)
    return Loaded(OK, path, find, reading.version)


def adopt_current(context: Context) -> str:
    """Adopt the session of the current file if needed, make it current, and return its id."""
    _archive_finished(context)
    with mirror_of(context).hold_projects(folder(context)):
        loaded = load(context)
        if loaded.kind == NONE:
            raise NoSession(NOTHING, hint='forestay files orchestrator new "GOAL"')
        _require_usable(loaded)
        (adopted,) = adopt.adopt(context, loaded.path)
    if not adopted.session:
        raise Refused(f"{loaded.path} could not be adopted", why="; ".join(adopted.problems))
    context.workspace.choose(adopted.session)
    return adopted.session


def session_with_file(context: Context, selected: Callable[[], str]) -> str:
    """Return the selected session, else the session that is bound to the current file.

    `selected` returns the selected session or raises `NoSession`. A session without files of this
    format is refused.
    """
    path = os.path.join(folder(context), orchestrator_format.CURRENT)
    owner = (
        None
        if context.settings.session
        else context.store.machine.bindings.owner(os.path.realpath(path))
    )
    try:
        session = selected()
    except NoSession:
        if owner is None:
            raise
        return owner.session
    if any(binding.format == ID for binding in context.store.machine.bindings.bindings(session)):
        return session
    if owner is None:
        what = f"session {session} has no files of {ID}"
        raise NoSession(what, hint="to add some: forestay files bind orchestrator")
    return owner.session


def _archive_finished(context: Context) -> None:
    """Archive the current file if its session has ended, but a process died before it did so."""
    path = os.path.realpath(os.path.join(folder(context), orchestrator_format.CURRENT))
    owner = context.store.machine.bindings.owner(path)
    if owner is None:
        return
    with context.store.view(owner.session) as view:
        status = read_state(context, owner.session, view).core.status
    if status in FINISHED:
        write_files(context, owner.session, force=True)


def _require_usable(loaded: Loaded) -> None:
    if loaded.kind == INCOMPATIBLE:
        raise Outdated(
            f"{loaded.path} is of version {loaded.version or 'unknown'}",
            why=f"Forestay can resume version {VERSION} only; the file was not changed",
            hint=f"forestay files check {shlex.quote(loaded.path)}",
            file=loaded.path,
        )
    if loaded.case is not None:
        raise Unusable(loaded.case)


def make_room(context: Context) -> str:
    """Archive the current file if another program wrote it, so that a new session can begin.

    Return the archive path of the previous session, which may be archived later; empty if there is
    none. Call it under `Mirror.hold_projects`.
    """
    loaded = load(context)
    if loaded.kind == CORRUPT:
        _require_usable(loaded)
    owner = context.store.machine.bindings.owner(os.path.realpath(loaded.path))
    if loaded.find is not None and (owner is None or loaded.find.native not in ("", owner.native)):
        mirror_of(context).require_root(ID)
        archived = archive_file(loaded.path, loaded.find.native)
        context.notify(f"the previous session is archived: {archived}")
        return archived
    return os.path.join(owner.root, orchestrator_format.archive_name(owner.native)) if owner else ""


def archive_file(path: str, native: object) -> str:
    """Move a file of another program into the archive, byte for byte, without replacing a file
    there; return its new path."""
    if os.path.islink(path):
        raise Refused(f"{path} is a symbolic link", why="its session cannot be archived", file=path)
    folder = os.path.join(os.path.dirname(path), orchestrator_format.HISTORY)
    files.require_no_link(folder)
    files.make_folder(folder)
    name = _free_name(folder, native, path)
    target = os.path.join(os.path.dirname(path), orchestrator_format.archive_name(name))
    files.move(path, target)
    return target


def _free_name(folder: str, native: object, path: str) -> str:
    """Return a file name for an archived session: its id if possible.

    A number is added if a file of that name has other bytes. A file with the same bytes is left
    from a move that a power cut interrupted, and is replaced.
    """
    try:
        id = clean_id(str(native or ""), "session_id")
    except InvalidInput:
        id = "unnamed"
    names = (id if n == 1 else f"{id}-{n}" for n in count(1))
    return next(name for name in names if _is_free(f"{folder}/{name}.json", path))


def _is_free(target: str, path: str) -> bool:
    if not os.path.lexists(target):
        return True
    try:
        now, then = (files.read_bounded(each, MAX_BYTES, follow=False) for each in (path, target))
    except ForestayError:
        return False
    return now == then


# -- the archive -------------------------------------------------------------------------------


def history(context: Context, limit: int = 10) -> list[dict[str, str]]:
    """Return a row per archived session, newest first: id, goal, status, created, path."""
    return list_archived(folder(context), limit)


def list_archived(folder: str, limit: int) -> list[dict[str, str]]:
    """Return the rows of `history` for the folder that contains the current file."""
    there = files.list_paths(os.path.join(folder, orchestrator_format.HISTORY))
    plain = (path for path in there if path.endswith(".json") and not files.is_irregular(path))
    newest = sorted(plain, reverse=True)[: max(0, limit)]
    rows = orchestrator_format.list_history({path: _value(path) for path in newest}, limit)
    return [{**row, "path": path} for row, path in zip(rows, newest, strict=True)]


def _value(path: str) -> Any:
    try:
        data = files.read_bounded(path, MAX_BYTES, follow=False)
        return Document.parse(data, "json").value
    except ForestayError:
        return {}


def find_archived(context: Context, text: str) -> dict[str, str]:
    """Return the row of `history` with this number, id, or part of an id."""
    rows = history(context, limit=10_000)
    if text.isascii() and text.isdigit() and len(text) < 7:
        if 0 < int(text) <= len(rows):
            return rows[int(text) - 1]
        why = f"the list has {len(rows)} rows"
        raise NoSession(f"no archived session is number {text}", why=why, hint=SHOW_HISTORY)
    near = [row for row in rows if row["id"] == text] or [
        row for row in rows if text and text in row["id"]
    ]
    if len(near) != 1:
        what = f"several archived sessions are {text}" if near else f"no archived session is {text}"
        raise NoSession(what, hint=SHOW_HISTORY)
    return near[0]
