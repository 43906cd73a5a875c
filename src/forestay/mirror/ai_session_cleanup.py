"""Archive finished sessions of the `ai-session` format; nothing is deleted.

First the session's entry in the index is set to `completed`, then its folder is moved into
`.ai-session-archive/` next to `.ai-session/`. Moving the folder back undoes that. The caller
chooses which sessions are *wanted*. A wanted session is still *kept* (not archived) if a file gives
its status as active, if it belongs to an open session of this home, if its lock is held, or if its
files cannot be read. No option overrides that.
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
from forestay.formats.ai_session.read import (
    ARCHIVE,
    ARTIFACTS,
    INDEX,
    entries_of,
    entry_of,
    status_words,
)
from forestay.formats.coerce import copied
from forestay.formats.facts import Facts
from forestay.formats.port import ERROR, Where, conventions_of
from forestay.formats.status_words import session_status
from forestay.formats.text.document import Document
from forestay.journal.context import Context
from forestay.mirror import discover
from forestay.mirror.discover import Find
from forestay.mirror.edit_shared_file import amend
from forestay.mirror.session_files import mirror_of, read_state
from forestay.store.machine.bindings import Binding

_DAY = 86_400_000
_MOST_ARTIFACTS = 10_000
_OVER = FINISHED | {"paused"}
"""The statuses in which a session can be archived."""


class Wanted(Struct, frozen=True):
    """Which sessions to archive: those of any of these kinds whose name matches the pattern."""

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
    """The result for one wanted session: where it is now, or why it is kept."""

    feature: str
    path: str
    status: str = ""
    because: str = ""
    archived: str = ""
    kept: str = ""


def require_folder(given: str) -> None:
    """Raise InvalidInput if the given path is not a folder."""
    if given and not os.path.isdir(given):
        raise InvalidInput(f"{given[:200]} is not a folder", hint="check the path", file=given)


def list_reports(context: Context, root: str, feature: str = "") -> list[form.Report]:
    """Return the status report of one session below a root, or of all that are readable."""
    finds = [one for one in _finds(root) if one.native and feature in ("", one.native)]
    if feature and not finds:
        command = f"list all: forestay files report --root {shlex.quote(root)}"
        hint = command if os.path.isdir(root) else ""
        raise NoSession(f"there is no session {feature} in {root}", hint=hint)
    made = []
    for one in filter(lambda find: find.documents, finds):
        folder = os.path.join(one.root, _folder_name(one))
        walked = walk.walk(os.path.join(folder, ARTIFACTS)) if _folder_name(one) else ()
        paths = (os.path.join(here, name) for here, _, names in walked for name in names)
        names = (os.path.relpath(path, folder) for path in islice(paths, _MOST_ARTIFACTS))
        where = replace(_where(context, one), names=frozenset(names))
        made.append(form.report(one.tree, where, context.journal.redact))
    return made


def cleanup(context: Context, path: str, wanted: Wanted, *, dry_run: bool = False) -> list[Put]:
    """Archive the wanted sessions at a path; one that is kept does not stop the others."""
    made, finds = [], _finds(path)
    for one in (find for find in finds if find.native):
        if because := _why_wanted(context, one, wanted):
            made.append(_try_to_archive(context, one, because, wanted, dry_run))
    for one in (find for find in finds if not find.native):
        # Report a folder without access: it is unknown whether its session has ended.
        is_closed = any(fault.code == discover.NO_ACCESS for fault in one.faults)
        if is_closed and fnmatchcase(os.path.basename(one.path), wanted.pattern):
            why = f"{one.faults[0].what}: ls -ld {shlex.quote(one.path)}"
            made.append(Put(os.path.basename(one.path), one.path, kept=why))
    return made


def _finds(path: str) -> list[Find]:
    """Return the sessions at a path, and a find for each folder that may not be entered."""
    if not os.path.isdir(path) or not files.list_paths(path):
        return []
    return [one for one in discover.find(path) if one.format_id == form.FORMAT.id]


def _where(context: Context, one: Find) -> Where:
    return mirror_of(context).where(one.root, names=False)


def _folder_name(one: Find) -> str:
    """Return the name of the session's folder; an empty string for a lone index."""
    names = (name.split("/") for name in one.paths)
    return next((parts[0] for parts in names if len(parts) == 2), "")


def _why_wanted(context: Context, one: Find, wanted: Wanted) -> str:
    """Return why a session is wanted; an empty string if it is not."""
    name, where = _folder_name(one), _where(context, one)
    if not name or not fnmatchcase(name, wanted.pattern):
        return ""
    facts, artifacts = one.facts(where), os.path.join(one.root, name, ARTIFACTS)
    idle = (where.now - facts.updated_at) // _DAY if facts.updated_at is not None else None
    is_empty = not (facts.commands or facts.steps or files.list_paths(artifacts))
    kinds = (
        (wanted.completed and facts.status == "completed", "completed"),
        (wanted.stale and idle is not None and idle >= wanted.days, f"idle for {idle} days"),
        (wanted.empty and is_empty, "empty"),
    )
    if whys := [why for holds, why in kinds if holds]:
        return ", ".join(whys)
    # Report an unreadable index: it is unknown whether the session has ended.
    is_wanted = wanted.any_kind or _is_index_unread(one)
    return f"matches {wanted.pattern}" if is_wanted else ""


def _is_index_unread(one: Find) -> bool:
    return INDEX in one.paths and not isinstance(one.tree.get(INDEX), dict)


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
        return "its version is unknown"
    if len([e for e in entries_of(one.tree) if e.get("feature_id") == one.native]) > 1:
        return f"{INDEX} lists it several times: {check}"
    # One file with the status `active` is enough to keep a session, whichever file it is.
    words = status_words(one.tree, one.native)
    statuses = [facts.status, *(session_status(one.format_id, word) for word in words)]
    if status := next((each for each in statuses if each and each not in _OVER), ""):
        return f"it is {status}: complete or pause it first"
    for owner in _owners(context, one):
        with context.store.view(owner.session) as view:
            status = read_state(context, owner.session, view).core.status
        if status not in FINISHED:
            end = f"forestay complete --session {owner.session}"
            return f"session {owner.session} is {status}: {end}"
    return ""


def _owners(context: Context, one: Find) -> Iterator[Binding]:
    """Yield the bindings of the session's files."""
    for path in one.paths.values():
        owner = context.store.machine.bindings.owner(os.path.realpath(path))
        if owner is not None:
            yield owner


# -- archiving --------------------------------------------------------------------------------


def _try_to_archive(
    context: Context, one: Find, because: str, wanted: Wanted, dry_run: bool
) -> Put:
    name, facts = _folder_name(one), one.facts(_where(context, one))
    made = Put(name, os.path.join(one.root, name), facts.status, because)
    made.kept = _reason_to_keep(context, one, facts)
    if made.kept or dry_run:
        return made
    try:
        made.archived = _archive(context, one, name, wanted)
    except ForestayError as error:
        made.kept = str(error)
    return made


def _archive(context: Context, one: Find, name: str, wanted: Wanted) -> str:
    """Move a session into the archive, after its entry is completed and its bindings are gone."""
    folder = os.path.join(one.root, name)
    for why in (
        *map(files.why_not_writable, (one.root, folder)),
        files.why_not_replaceable(folder),
    ):
        if why:
            raise ReadOnly(f"{name} cannot be moved", why=why, file=folder)
    with _locked(context, one.root, name):
        files.require_no_link(os.path.join(os.path.dirname(one.root), ARCHIVE))
        _require_unchanged(one)
        archive = os.path.join(os.path.realpath(os.path.dirname(one.root)), ARCHIVE)
        mirror_of(context).exclude_from_git(archive, one.paths.values())
        # Check this before the entry changes: a session that cannot be archived stays unchanged.
        files.make_folder(archive)
        swap_file.remove_leftovers(os.path.join(one.root, INDEX))
        _mark_completed(os.path.join(one.root, INDEX), name)
        for owner in _owners(context, one):
            mirror_of(context).unbind(owner)
        return _move(one.root, name, keep_artifacts=wanted.keep_artifacts)


@contextmanager
def _locked(context: Context, root: str, name: str) -> Iterator[None]:
    lock = os.path.join(root, conventions_of(form.FORMAT.id).lock.format(id=name))
    with ExitStack() as stack:
        stack.enter_context(files.locked(root, clock=context.clock))
        files.require_no_link(os.path.dirname(lock))
        stack.enter_context(ScriptLock(lock, clock=context.clock, timeout=5.0))
        yield


def _require_unchanged(one: Find) -> None:
    """Refuse to archive files that changed since the decision to archive them."""
    for name, path in one.paths.items():
        data = files.read_optional(path, discover.MAX_BYTES, follow=False)
        if name == INDEX and data is not None:
            # Entries of other sessions may change; the entry of this session may not.
            now = entry_of({INDEX: Document.parse(data, "yaml").value}, one.native)
            same = now == entry_of(one.tree, one.native)
        else:
            same = data == one.bundle[name]
        if not same:
            raise Refused(f"{path} was changed in the meantime", hint="try again", file=path)


def _mark_completed(path: str, feature: str) -> None:
    """Set a session's status in the index to completed; keep entries that others add meanwhile."""

    def mark(data: bytes) -> bytes:
        document = Document.parse(data, "yaml")
        value = copied(document.value)
        entry = entry_of({INDEX: value}, feature)
        if not entry or entry.get("status") == "completed":
            return data
        entry["status"] = "completed"
        return document.rewrite(value)

    amend(path, mark)


def _move(root: str, name: str, *, keep_artifacts: bool) -> str:
    archive = os.path.join(os.path.dirname(root), ARCHIVE)
    names = (name if n == 1 else f"{name}-{n}" for n in range(1, 10_000))
    targets = (os.path.join(archive, each) for each in names)
    source, target = os.path.join(root, name), next(t for t in targets if not os.path.lexists(t))
    files.move(source, target)
    files.remove(os.path.join(target, os.path.basename(conventions_of(form.FORMAT.id).lock)))
    kept = os.path.join(target, ARTIFACTS)
    if keep_artifacts and files.list_paths(kept):
        files.make_folder(source)
        files.move(kept, os.path.join(source, ARTIFACTS))
    return target
