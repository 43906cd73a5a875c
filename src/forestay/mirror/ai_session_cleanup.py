"""Cleanup: sessions of the `ai-session` layout that are over are put away, never deleted.

What is put away is moved, whole, into `.ai-session-archive/` beside the folder, after its entry in
the index says `completed`; moving it back undoes it. A session is *wanted* by what the caller asked
for and *kept* for a reason that nothing overrides: a file says that it is active, it belongs to a
session of this home that is still open, someone holds its lock, or its files cannot be read.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatchcase
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from forestay.base import files, swap_file, walk
from forestay.base.lockfile import ScriptLock
from forestay.base.vocabulary import FINISHED
from forestay.errors import ForestayError, InvalidInput, NoSession, ReadOnly, Refused
from forestay.formats.ai_session import format as form
from forestay.formats.ai_session.read import INDEX, entries_of, entry_of, status_words
from forestay.formats.coerce import copied
from forestay.formats.conventions import custom
from forestay.formats.facts import Facts
from forestay.formats.port import ERROR, Where
from forestay.formats.status_words import session_status
from forestay.formats.text.document import Document
from forestay.journal.context import Context
from forestay.mirror import discover
from forestay.mirror.discover import ARCHIVE, ARTIFACTS, Find
from forestay.mirror.edit_shared_file import amend
from forestay.mirror.session_files import mirror_of, read_state

_DAY = 86_400_000
_MOST_ARTIFACTS = 10_000
_OVER = FINISHED | {"paused"}
"""How a session stands that may be put away."""


class Wanted(Struct, frozen=True):
    """Which sessions are to be put away: any of these kinds, and of those the matching ones."""

    completed: bool = False
    stale: bool = False
    days: int = 7
    empty: bool = False
    pattern: str = "*"
    keep_artifacts: bool = False

    @property
    def any_kind(self) -> bool:
        return not (self.completed or self.stale or self.empty)


class Put(Struct):
    """What became of one wanted session: where it is now, or why it stays."""

    feature: str
    path: str
    status: str = ""
    because: str = ""
    archived: str = ""
    kept: str = ""


def require_folder(given: str) -> None:
    """Refuse a path that somebody gave and that is no folder."""
    if given and not os.path.isdir(given):
        raise InvalidInput(f"{given[:200]} is not a folder", hint="check the path", file=given)


def reports(context: Context, root: str, feature: str = "") -> list[form.Report]:
    """The status report of one session below a root, or of all that can be read."""
    finds = [one for one in _finds(root) if one.native and feature in ("", one.native)]
    if feature and not finds:
        there = f"what is there: forestay files report --root {shlex.quote(root)}"
        hint = there if os.path.isdir(root) else ""
        raise NoSession(f"no session {feature} is in {root}", hint=hint)
    clean = context.journal.redact
    return [
        form.report(one.tree, _with_artifacts(context, one), clean)
        for one in finds
        if one.documents
    ]


def _with_artifacts(context: Context, one: Find) -> Where:
    """The surroundings of a session's files, with what is in its own folder by name."""
    folder = os.path.join(one.root, _folder_name(one))
    walked = walk.walk(os.path.join(folder, ARTIFACTS)) if _folder_name(one) else ()
    paths = (os.path.join(here, name) for here, _, names in walked for name in names)
    names = (os.path.relpath(path, folder) for path in paths)
    return replace(_where(context, one), names=frozenset(islice(names, _MOST_ARTIFACTS)))


def cleanup(context: Context, path: str, wanted: Wanted, *, dry_run: bool = False) -> list[Put]:
    """Put the wanted sessions at a path away; one that is kept does not stop the others."""
    finds = _finds(path)
    there = [one for one in finds if one.native]
    put = [_put(context, one, why, wanted, dry_run) for one, why in _wanted(context, there, wanted)]
    return [*put, *(_closed(one) for one in finds if _is_closed(one, wanted))]


def _finds(path: str) -> list[Find]:
    """The sessions at a path, and folders there that may not be looked into."""
    if not os.path.isdir(path) or not files.list_paths(path):
        return []
    return [one for one in discover.find(path) if one.layout == form.FORMAT.id]


def _is_closed(one: Find, wanted: Wanted) -> bool:
    is_it = any(fault.code == discover.NO_ACCESS for fault in one.faults) and not one.native
    return is_it and fnmatchcase(os.path.basename(one.path), wanted.pattern)


def _closed(one: Find) -> Put:
    """Nobody knows how it stands: whoever asks for those that are over is told."""
    why = f"{one.faults[0].what}: ls -ld {shlex.quote(one.path)}"
    return Put(os.path.basename(one.path), one.path, kept=why)


def _where(context: Context, one: Find) -> Where:
    return mirror_of(context).where(one.root, names=False)


# -- which -------------------------------------------------------------------------------------


def _wanted(context: Context, there: list[Find], wanted: Wanted) -> Iterator[tuple[Find, str]]:
    for one in there:
        name = _folder_name(one)
        where = _where(context, one)
        facts = one.facts(where)
        if name and fnmatchcase(name, wanted.pattern):
            whys = _whys(facts, wanted, where.now, _has_artifacts(one, name))
            if whys or wanted.any_kind or _is_index_unread(one):
                yield one, ", ".join(whys) or f"matches {wanted.pattern}"


def _folder_name(one: Find) -> str:
    """The folder of the session below its root; empty for a lone index."""
    names = (name.split("/") for name in one.paths)
    return next((parts[0] for parts in names if len(parts) == 2), "")


def _is_index_unread(one: Find) -> bool:
    """Whether nobody knows how a session stands: whoever asks for those that are over is told."""
    return INDEX in one.paths and not isinstance(one.tree.get(INDEX), dict)


def _whys(facts: Facts, wanted: Wanted, now: int, artifacts: bool) -> list[str]:
    idle = (now - facts.updated_at) // _DAY if facts.updated_at is not None else None
    bare = not facts.commands and not facts.steps and not artifacts
    kinds = (
        (wanted.completed and facts.status == "completed", "completed"),
        (wanted.stale and idle is not None and idle >= wanted.days, f"idle for {idle} days"),
        (wanted.empty and bare, "empty"),
    )
    return [why for holds, why in kinds if holds]


def _has_artifacts(one: Find, name: str) -> bool:
    return bool(files.list_paths(os.path.join(one.root, name, ARTIFACTS)))


# -- what keeps it -----------------------------------------------------------------------------


def _reason_to_keep(context: Context, one: Find, facts: Facts) -> str:
    folder = os.path.join(one.root, _folder_name(one))
    check = f"forestay files check {shlex.quote(folder)}"
    if os.path.islink(folder):
        return "its folder is a link"
    if _is_index_unread(one) or any(fault.severity == ERROR for fault in one.faults):
        return f"it cannot be read: {check}"
    if INDEX not in one.documents:
        return f"{INDEX} is missing: {check}"
    if not one.format.reading(one.tree, _where(context, one)).writable:
        return "its version is not known"
    if len([e for e in entries_of(one.tree) if e.get("feature_id") == one.native]) > 1:
        return f"{INDEX} lists it several times: {check}"
    if said := next((each for each in _statuses(one, facts) if each not in _OVER), ""):
        return f"it is {said}: complete or pause it first"
    return _open_here(context, one)


def _statuses(one: Find, facts: Facts) -> list[str]:
    """How the session stands, and what files say that are not believed first: one that is said to
    be active is not over."""
    words = status_words(one.tree, one.native)
    return [facts.status, *filter(None, (session_status(one.layout, word) for word in words))]


def _open_here(context: Context, one: Find) -> str:
    for path in one.paths.values():
        owner = context.store.machine.bindings.owner(os.path.realpath(path))
        if owner is not None:
            with context.store.view(owner.session) as view:
                status = read_state(context, owner.session, view).core.status
            if status not in FINISHED:
                end = f"forestay complete --session {owner.session}"
                return f"session {owner.session} is {status}: {end}"
    return ""


# -- putting away ------------------------------------------------------------------------------


def _put(context: Context, one: Find, because: str, wanted: Wanted, dry_run: bool) -> Put:
    name, facts = _folder_name(one), one.facts(_where(context, one))
    told = Put(name, os.path.join(one.root, name), facts.status, because)
    told.kept = _reason_to_keep(context, one, facts)
    if told.kept or dry_run:
        return told
    try:
        told.archived = _archive(context, one, name, wanted)
    except ForestayError as error:
        told.kept = str(error)
    return told


def _archive(context: Context, one: Find, name: str, wanted: Wanted) -> str:
    """Move a session away: first its entry says it is over, then nobody of ours writes it."""
    _require_movable(one.root, name)
    with _locked(context, one.root, name):
        files.require_no_link(os.path.join(os.path.dirname(one.root), ARCHIVE))
        _require_unchanged(one)
        archive = os.path.join(os.path.realpath(os.path.dirname(one.root)), ARCHIVE)
        mirror_of(context).keep_private(archive, one.paths.values())
        # Before anything says that it is over: what cannot be put away stays as it is.
        files.make_folder(archive)
        swap_file.clear_up(os.path.join(one.root, INDEX))
        _mark_completed(os.path.join(one.root, INDEX), name)
        _let_go(context, one)
        return _move(one.root, name, keep_artifacts=wanted.keep_artifacts)


@contextmanager
def _locked(context: Context, root: str, name: str) -> Iterator[None]:
    lock = os.path.join(root, custom(form.FORMAT.id).lock.format(id=name))
    with ExitStack() as stack:
        stack.enter_context(files.locked(root, clock=context.clock))
        files.require_no_link(os.path.dirname(lock))
        stack.enter_context(ScriptLock(lock, clock=context.clock, timeout=5.0))
        yield


def _require_movable(root: str, name: str) -> None:
    """Before anything says that it is over: what may not be changed cannot be moved."""
    folder = os.path.join(root, name)
    for why in (*map(files.why_not_writable, (root, folder)), files.why_not_replaceable(folder)):
        if why:
            raise ReadOnly(f"{name} cannot be moved", why=why, file=folder)


def _require_unchanged(one: Find) -> None:
    """The decision was made on what was read; what is there now must be that."""
    for name, path in one.paths.items():
        data = files.read_optional(path, discover.MAX_BYTES, follow=False)
        if name == INDEX and data is not None:
            # Others' entries may change; ours, on which the decision stands, may not.
            now = entry_of({INDEX: Document.parse(data, "yaml").value}, one.native)
            same = now == entry_of(one.tree, one.native)
        else:
            same = data == one.bundle[name]
        if not same:
            raise Refused(f"{path} was changed meanwhile", hint="look again", file=path)


def _mark_completed(path: str, feature: str) -> None:
    """Say in the index that a session is over; what others write there meanwhile stays."""
    amend(path, lambda data: _marked(data, feature))


def _marked(data: bytes, feature: str) -> bytes:
    document = Document.parse(data, "yaml")
    value = copied(document.value)
    entry = entry_of({INDEX: value}, feature)
    if not entry or entry.get("status") == "completed":
        return data
    entry["status"] = "completed"
    return document.rewrite(value)


def _let_go(context: Context, one: Find) -> None:
    """A session of ours that is over does not write these files again."""
    for path in one.paths.values():
        owner = context.store.machine.bindings.owner(os.path.realpath(path))
        if owner is not None:
            mirror_of(context).unbind(owner)


def _move(root: str, name: str, *, keep_artifacts: bool) -> str:
    archive = os.path.join(os.path.dirname(root), ARCHIVE)
    source, target = os.path.join(root, name), _free(os.path.join(archive, name))
    files.move(source, target)
    files.remove(os.path.join(target, os.path.basename(custom(form.FORMAT.id).lock)))
    kept = os.path.join(target, ARTIFACTS)
    if keep_artifacts and files.list_paths(kept):
        files.make_folder(source)
        files.move(kept, os.path.join(source, ARTIFACTS))
    return target


def _free(path: str) -> str:
    names = (path if n == 1 else f"{path}-{n}" for n in range(1, 10_000))
    return next(name for name in names if not os.path.lexists(name))
