"""Orchestrator: the one current session of a project, as the `orchestrator` layout knows it.

The project has one current file and an archive. What *continue* means depends on the file: there is
`none`, it is of a version that is `incompatible`, it is `corrupt`, or it is `ok`. A file that
another program wrote becomes a session here when it is continued or aborted; beginning a new one
moves it into the archive, every byte as it was.
"""

from __future__ import annotations

import os
import shlex
from itertools import count
from typing import Any

from msgspec import Struct

from holdfast import adopt, beginning, files, found, recover
from holdfast.choice import FINISHED
from holdfast.errors import HoldfastError, InvalidInput, NoSession, Outdated, Refused
from holdfast.found import MAX_BYTES, Find
from holdfast.home import Holdfast
from holdfast.layout import REGISTRY
from holdfast.layout import orchestrator as layout
from holdfast.layout.document import Document
from holdfast.layout.orchestrator.rules import ID, VERSION
from holdfast.recover import Case, Unusable
from holdfast.session import Session
from holdfast.text import clean_id

NOTHING = "No session to resume"
NONE, INCOMPATIBLE, CORRUPT, OK = "none", "incompatible", "corrupt", "ok"


class Loaded(Struct):
    """What the current file of a project is."""

    kind: str
    path: str
    find: Find | None = None
    version: str = ""
    case: Case | None = None


def folder(home: Holdfast) -> str:
    return os.path.join(home.workspace.tree.root, REGISTRY[ID][1])


def load(home: Holdfast) -> Loaded:
    """Look at the current file; nothing is written, and an unknown version is never \"none\"."""
    path = os.path.join(folder(home), layout.CURRENT)
    if not os.path.lexists(path):
        return Loaded(NONE, path)
    case = recover.examine(home, path)
    if case is not None:
        return Loaded(CORRUPT, path, case=case)
    (find,) = found.find(path)
    reading = find.lens.reading(find.tree, home.mirror.where(find.root))
    if not reading.writable:
        return Loaded(INCOMPATIBLE, path, find, reading.version)
    return Loaded(OK, path, find, reading.version)


def take(home: Holdfast) -> Session:
    """The current session, made one of ours if it is not yet."""
    _end_what_is_over(home)
    with home.mirror.holding(folder(home)):
        loaded = load(home)
        if loaded.kind == NONE:
            raise NoSession(NOTHING, hint='holdfast orchestrator new "GOAL"')
        _require_usable(loaded)
        (taken,) = adopt.adopt(home, loaded.path)
    if not taken.session:
        raise Refused(f"{loaded.path} could not be taken up", why="; ".join(taken.problems))
    return home.use(taken.session)


def kept(home: Holdfast) -> Session:
    """The session of ours that has its file here: the one that is meant, else the current one."""
    path = os.path.join(folder(home), layout.CURRENT)
    owner = None if home.settings.session else home.store.bound.owner(os.path.realpath(path))
    try:
        meant = home.current()
    except NoSession:
        if owner is None:
            raise
        return home.session(owner.session)
    if any(binding.layout == ID for binding in home.store.bound.bindings(meant.id)):
        return meant
    if owner is None:
        what = f"session {meant.id} has no files of {ID}"
        raise NoSession(what, hint="keep some: holdfast layouts add orchestrator")
    return home.session(owner.session)


def _end_what_is_over(home: Holdfast) -> None:
    """Put away what is current only because whoever ended its session died before he did so."""
    owner = home.store.bound.owner(os.path.realpath(os.path.join(folder(home), layout.CURRENT)))
    if owner is not None and home.session(owner.session).status()["status"] in FINISHED:
        home.reflect(owner.session, force=True)


def _require_usable(loaded: Loaded) -> None:
    if loaded.kind == INCOMPATIBLE:
        raise Outdated(
            f"{loaded.path} is of version {loaded.version or 'unknown'}",
            why=f"only version {VERSION} can be resumed; the file stays as it is",
            hint=f"holdfast check {shlex.quote(loaded.path)}",
            file=loaded.path,
        )
    if loaded.case is not None:
        raise Unusable(loaded.case)


def begin(home: Holdfast, goal: str, *, mode: str = "default") -> tuple[Session, str]:
    """Begin a new current session; returns where the one before it is archived, if any was."""
    beginning.require(goal, mode)
    with home.mirror.holding(folder(home)):
        archived = _make_room(home)
        return home.start(goal, mode=mode, layouts=[ID]), archived


def _make_room(home: Holdfast) -> str:
    """Put the file of another program away; where the one before the next is archived, if any."""
    loaded = load(home)
    if loaded.kind == CORRUPT:
        _require_usable(loaded)
    owner = home.store.bound.owner(os.path.realpath(loaded.path))
    if loaded.find is not None and (owner is None or loaded.find.native not in ("", owner.native)):
        home.mirror.require_root(ID)
        archived = put_away(loaded.path, loaded.find.native)
        home.say(f"the session before is archived: {archived}")
        return archived
    return os.path.join(owner.root, layout.archive_name(owner.native)) if owner else ""


def put_away(path: str, native: object) -> str:
    """Move a file of another program into the archive, every byte as it was; nothing there is
    replaced. Returns where it is now."""
    if os.path.islink(path):
        raise Refused(f"{path} is a symbolic link", why="its session cannot be archived", file=path)
    folder = os.path.join(os.path.dirname(path), layout.HISTORY)
    files.require_no_link(folder)
    files.make_folder(folder)
    name = _free_name(folder, native, path)
    target = os.path.join(os.path.dirname(path), layout.archive_name(name))
    files.move(path, target)
    return target


def _free_name(folder: str, native: object, path: str) -> str:
    """The id of a session, if it can be a name; with a number, if another file has it already: one
    with the same bytes is there because the power failed while it was moved."""
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
    except HoldfastError:
        return False
    return now == then


# -- the archive -------------------------------------------------------------------------------


def history(home: Holdfast, limit: int = 10) -> list[dict[str, str]]:
    """A row per archived session, newest first by file name: id, goal, status, created, path."""
    return listed(folder(home), limit)


def listed(folder: str, limit: int) -> list[dict[str, str]]:
    """The same for the folder that the current file is in."""
    there = files.entries(os.path.join(folder, layout.HISTORY))
    plain = (path for path in there if path.endswith(".json") and not files.is_odd(path))
    newest = sorted(plain, reverse=True)[: max(0, limit)]
    rows = layout.list_history({path: _value(path) for path in newest}, limit)
    return [{**row, "path": path} for row, path in zip(rows, newest, strict=True)]


def _value(path: str) -> Any:
    try:
        data = files.read_bounded(path, MAX_BYTES, follow=False)
        return Document.parse(data, "json").value
    except HoldfastError:
        return {}


def archived(home: Holdfast, text: str) -> dict[str, str]:
    """The row that a number of the list, or an id, means."""
    rows = history(home, limit=10_000)
    if text.isascii() and text.isdigit() and len(text) < 7:
        if 0 < int(text) <= len(rows):
            return rows[int(text) - 1]
        why = f"there are {len(rows)} in the list"
        raise NoSession(f"no archived session is number {text}", why=why, hint=_LIST)
    near = [row for row in rows if row["id"] == text] or [
        row for row in rows if text and text in row["id"]
    ]
    if len(near) != 1:
        what = f"several archived sessions are {text}" if near else f"no archived session is {text}"
        raise NoSession(what, hint=_LIST)
    return near[0]


_LIST = "holdfast orchestrator history"
