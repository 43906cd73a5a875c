"""Erase sessions and events permanently, in every place where this home stores them.

The journal comes first: it appends the tombstone (the record of the erasure) and erases events,
content and the search index. Then the other places are cleaned: our own backups, the quarantine,
payloads of hooks, and the files that the session is bound to. Cleaning them again does no harm. A
place that cannot be searched is reported.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from forestay.agents import spool
from forestay.base import files
from forestay.base.process import machine_id
from forestay.base.redact import Redactor
from forestay.base.vocabulary import (
    ACTIONS,
    CATEGORIES,
    COMMAND_STATUSES,
    MODES,
    PAUSE_REASONS,
    ROLES,
    STATUSES,
)
from forestay.errors import Busy, ForestayError, InvalidInput, NoSession, Refused
from forestay.formats.registry import REGISTRY
from forestay.journal import backup, pack
from forestay.journal.context import Context
from forestay.journal.history import find_event
from forestay.journal.journal import Journal
from forestay.mirror.erase import Owned, split_by_edits
from forestay.mirror.session_files import mirror_of
from forestay.model import erasure
from forestay.model.event import DIGESTS, Erased, Event, EventRetracted
from forestay.store.open import open_store

_OURS = frozenset({"step", "agent", "unit", "type", "format", "redacted", "ids", *DIGESTS})
_CHOICES = (
    *(MODES + STATUSES + CATEGORIES + COMMAND_STATUSES),
    *(ACTIONS + ROLES + PAUSE_REASONS),
)
_DATABASE = b"SQLite format 3\0"
_KNOWN = (files.HEADS, files.BACKUP_STATE)
"""Files of a database in the quarantine that contain only ids and hashes."""


class Forgotten(NamedTuple):
    """What was erased: events, removed files, and packs and databases that were cleaned.

    `left` are files that can still contain some of it.
    """

    events: list[Event]
    removed: list[str]
    cleaned: list[str]
    left: list[str]


class Reach(NamedTuple):
    """Where a session is stored besides the journal.

    That is: files that would be removed, files that would stay because others edited them, backup
    packs, files in the quarantine, and payloads in the spool.
    """

    files: list[str]
    edited: list[str]
    backups: list[str]
    aside: list[str]
    spooled: list[str]


# -- a whole session -----------------------------------------------------------------------------


def forget(context: Context, session: str, *, actor: str, force: bool = False) -> Forgotten:
    """Erase a session; if it is erased already, clean the places outside the journal again."""
    known = _known(context, session)
    late = None
    try:
        if not _is_forgotten(context, session):
            context.journal.forget(session, actor=actor)
    except Busy as error:
        if error.operation != "delete":
            raise
        late = error
    done = _sweep(context, session, known, force=force)
    if late is not None:
        raise late
    return done._replace(events=known.events)


def prepare(context: Context, session: str) -> Callable[[], Forgotten | None]:
    """Return a function to call after tombstones of other devices were recorded.

    It erases what they name from the places outside the journal, and returns what could not be
    searched; None if nothing was erased. Until it is called, the store notes that this is still to
    be done: after a crash these tombstones are not delivered again.
    """
    known = _known(context, session)
    before = [event for event in known.events if not isinstance(event.body, Erased)]
    if known.events:
        context.store.machine.remotes.record_pending_search(session)

    def follow() -> Forgotten | None:
        now = {event.hash: event for event in _events(context, session)}
        gone = [event for event in before if isinstance(now[event.hash].body, Erased)]
        done = _follow(context, session, known, gone, gone) if gone else None
        context.store.machine.remotes.record_search_done(session)
        return done

    return follow


def catch_up(context: Context, session: str) -> Forgotten | None:
    """Finish an erasure that a killed process began, though the erased text is unknown by now."""
    known = _known(context, session)
    gone = [event for event in known.events if isinstance(event.body, Erased)]
    done = _follow(context, session, known, gone, ()) if gone else None
    context.store.machine.remotes.record_search_done(session)
    return done


def _follow(
    context: Context, session: str, known: _Known, gone: Sequence[Event], erased: Sequence[Event]
) -> Forgotten:
    if _is_forgotten(context, session):
        return _sweep(context, session, known, force=False)._replace(events=list(gone))
    return _cleanse(context, session, erased, [event.hash for event in gone])


class _Known(NamedTuple):
    """What must be read before a session is erased: its files, its agents, its events."""

    owned: list[Owned]
    natives: list[str]
    events: list[Event]
    at: int


def _known(context: Context, session: str) -> _Known:
    owned = mirror_of(context).owned(session) if context.store.machine.is_bound(session) else []
    natives = [run.native for run in context.store.machine.agent_runs.of(session) if run.native]
    return _Known(owned, natives, _events(context, session), context.clock.now())


def _events(context: Context, session: str) -> list[Event]:
    try:
        with context.store.view(session) as view:
            return list(context.journal.events(view))
    except NoSession:
        return []


def _is_forgotten(context: Context, session: str) -> bool:
    with context.store.view(session) as view:
        return context.journal.state(view).core.forgotten


def _sweep(context: Context, session: str, known: _Known, *, force: bool) -> Forgotten:
    purged = backup.purge(
        os.path.join(context.store.home, files.BACKUPS), session, clock=context.clock
    )
    cleaned, left = _purge_aside(context, session, None)
    removed, stayed = mirror_of(context).remove(known.owned, force=force)
    for path in _spooled(context, known):
        files.remove(path)
        removed.append(path)
    left = [*purged.unreadable, *left, *stayed, *_files_in_own_folders(known)]
    return Forgotten([], removed, [*purged.rewritten, *cleaned], left)


def _files_in_own_folders(known: _Known) -> list[str]:
    """Return the files in folders that only this session has, such as an essay's texts."""
    roots = [one.binding.root for one in known.owned if not REGISTRY[one.binding.format][1]]
    found = [path for root in roots for path in files.list_paths(root)]
    return [path for path in found if os.path.isfile(path) and not path.endswith(".lock")]


# -- some events ---------------------------------------------------------------------------------


def chosen(context: Context, session: str, names: Sequence[str]) -> list[Event]:
    """Return the events that the user named, each once, in order; refuse those that must stay."""
    events = _events(context, session)
    found = {event.hash: event for event in (find_event(events, name) for name in names)}
    for event in found.values():
        if event.kind in erasure.KINDS:
            raise Refused(
                f"event {event.seq} cannot be forgotten",
                why="it records that other events were forgotten, and prevents their return",
            )
    _require_undone(events, found)
    return sorted(found.values(), key=lambda event: event.seq)


def _require_undone(events: Sequence[Event], found: dict[str, Event]) -> None:
    """Refuse to erase a retraction without the event that it retracts, which would count again."""
    ids = {event.id for event in found.values()}
    by_id = {event.id: event for event in events}
    for event in found.values():
        if not isinstance(event.body, EventRetracted):
            continue
        target = by_id.get(event.body.event)
        if target is not None and target.id not in ids and not isinstance(target.body, Erased):
            raise Refused(
                f"event {event.seq} withdraws event {target.seq}, which would count again",
                hint=f"forget both: forestay session forget {target.seq} {event.seq}",
            )


def forget_events(
    context: Context, session: str, names: Sequence[str], *, actor: str, because: str = ""
) -> Forgotten:
    """Erase the content of some events; the session continues without it."""
    found = chosen(context, session, names)
    hashes = [event.hash for event in found]
    late, done = None, found
    try:
        done = context.journal.forget_events(session, hashes, actor=actor, because=because)
    except Busy as error:
        if error.operation != "delete":
            raise
        late = error
    # Repeat this even if they were forgotten before: more places may be accessible now.
    copies = {event.hash for event in done} | set(hashes)
    cleaned = _cleanse(context, session, done, sorted(copies))
    if late is not None:
        raise late
    return cleaned


def _cleanse(
    context: Context, session: str, erased: Sequence[Event], hashes: Sequence[str]
) -> Forgotten:
    purged = backup.purge(
        os.path.join(context.store.home, files.BACKUPS), session, set(hashes), clock=context.clock
    )
    cleaned, left = _purge_aside(context, session, hashes)
    begun: list[str] = []
    if context.store.machine.is_bound(session):
        words = [_words(event) for event in erased]
        begun, stayed = mirror_of(context).cleanse(session, [event.body for event in erased], words)
        left += stayed
    cleaned = [*purged.rewritten, *cleaned, *begun]
    places = (spool.TMP, spool.NEW, spool.BAD)
    removed = list(_payloads(context, places, _spelled(erased), context.clock.now()))
    for path in removed:
        files.remove(path)
    return Forgotten(list(erased), removed, cleaned, [*purged.unreadable, *left])


def _words(event: Event) -> list[object]:
    """Return the free texts of an event, without ids and fixed words such as statuses."""
    body = msgspec.to_builtins(event.body)
    return [value for key, value in body.items() if key not in _OURS and value not in _CHOICES]


# -- the places ----------------------------------------------------------------------------------


def reach(context: Context, session: str, *, force: bool = False) -> Reach:
    """Return where a session is stored besides the journal; change nothing."""
    known = _known(context, session)
    ours: list[str] = []
    edited: list[str] = []
    for one in known.owned:
        some, others = split_by_edits(one, force=force)
        ours += some
        edited += others
    held = [path for path in backup.own_backups(context.store.home) if _names(path, session)]
    return Reach(ours, edited, held, list(_aside(context)), list(_spooled(context, known)))


def _names(path: str, session: str) -> bool:
    """Return whether a pack lists a session, or cannot be read."""
    try:
        manifest = pack.read_manifest(files.read_chunks(path), name=path)
    except ForestayError:
        return True
    return session.lower() in {id.lower() for id, _ in manifest.sessions}


def _spooled(context: Context, known: _Known) -> Iterator[str]:
    """Yield hook payloads from before the erasure that name a run of the session.

    Rejected payloads can be too damaged to name a run: search them for the session's texts.
    """
    wanted = [native.encode("utf-8", "replace") for native in known.natives]
    yield from _payloads(context, (spool.TMP, spool.NEW), wanted, known.at)
    wanted += _spelled(known.events)
    yield from _payloads(context, (spool.BAD,), wanted, known.at)


def _spelled(events: Sequence[Event]) -> list[bytes]:
    """Return the texts of events that hooks can have delivered: goals, texts and commands."""
    names = ("goal", "text", "arguments")
    values = (getattr(event.body, name, "") for event in events for name in names)
    texts = {value for value in values if isinstance(value, str)}
    return [form for text in texts for form in spool.spellings(text)]


def _payloads(
    context: Context, places: Sequence[str], wanted: Sequence[bytes], at: int
) -> Iterator[str]:
    """Yield payloads that are older than a time and contain one of the given byte strings."""
    for where in places if wanted else ():
        for path in files.list_paths(os.path.join(context.store.home, spool.FOLDER, where)):
            try:
                is_older = os.stat(path).st_mtime_ns // 1_000_000 <= at
                data = files.read_bounded(path, 2 * spool.LIMIT, follow=False)
            except (OSError, ForestayError):
                continue
            if is_older and any(form in data for form in wanted):
                yield path


def _aside(context: Context) -> Iterator[str]:
    """Yield files in the quarantine; parts of a database are cleaned with it."""
    for folder, _, names in os.walk(os.path.join(context.settings.home, files.QUARANTINE)):
        for name in sorted(names):
            is_part = name.endswith(("-wal", "-shm")) or name.startswith(_KNOWN)
            if not is_part and not name.endswith(".lock"):
                yield os.path.join(folder, name)


def _purge_aside(
    context: Context, session: str, hashes: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """Clean files in the quarantine; return the cleaned ones, and those that cannot be cleaned."""
    done = backup.PurgeResult([], [])
    for path in list(_aside(context)):
        start = _start(path)
        if start.startswith(pack.MAGIC):
            backup.purge_pack(path, session, None if hashes is None else set(hashes), done)
        elif start.startswith(_DATABASE) and os.path.basename(path) == files.DATABASE:
            is_clean = _purge_database(context, os.path.dirname(path), session, hashes)
            (done.rewritten if is_clean else done.unreadable).append(path)
        elif start:
            done.unreadable.append(path)
    return done.rewritten, done.unreadable


def _start(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(64)
    except OSError:
        return b"?"


def _purge_database(
    context: Context, folder: str, session: str, hashes: Sequence[str] | None
) -> bool:
    """Clean a database in the quarantine; return False if it is too damaged for that."""
    settings = context.settings
    store = open_store(
        "", folder, clock=context.clock, busy_timeout=settings.busy_timeout, machine=machine_id()
    )
    journal = Journal(store, context.clock, Redactor())
    try:
        if store.maintenance.check():
            return False
        if hashes is not None:
            journal.forget_events(session, hashes, actor="user")
        else:
            with store.view(session) as view:
                has_content = any(event.data is not None for event in view.events())
            if has_content:
                journal.forget(session, actor="user")
    except NoSession:
        return True
    except ForestayError:
        return False
    finally:
        store.close()
    return True


def require_names(names: Sequence[str]) -> None:
    if not names or not all(name.strip() for name in names):
        hint = "name events by number: forestay session forget NUMBER"
        raise InvalidInput("no event to forget was given", why="every name is empty", hint=hint)
