"""Erasure: forgetting in every place where this home keeps what a session says.

The journal comes first: it appends the tombstone and erases events, content, words and whatever
lies beside them in the store. Then follow the places around it, each of which may be looked
through again at any time: our own backups, what was set aside as damaged, payloads of hooks, and
the files that the session is bound to. What cannot be looked into is named, never ignored.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from holdfast import backup, files, pack
from holdfast.choice import (
    ACTIONS,
    CATEGORIES,
    COMMAND_STATUSES,
    MODES,
    PAUSE_REASONS,
    ROLES,
    STATUSES,
)
from holdfast.errors import Busy, HoldfastError, InvalidInput, NoSession, Refused
from holdfast.home import Holdfast
from holdfast.hooks import spool
from holdfast.journal import Journal
from holdfast.mirror.erase import Owned, holding
from holdfast.model import tombstone
from holdfast.model.event import DIGESTS, Erased, Event, EventRetracted
from holdfast.process import machine_id
from holdfast.redact import Redactor
from holdfast.store import Stored, open_store
from holdfast.timeline import find_event

_OURS = frozenset({"step", "agent", "unit", "type", "layout", "redacted", "ids", *DIGESTS})
_CHOICES = (
    *(MODES + STATUSES + CATEGORIES + COMMAND_STATUSES),
    *(ACTIONS + ROLES + PAUSE_REASONS),
)
_DATABASE = b"SQLite format 3\0"
_KNOWN = (files.HEADS, files.BACKUP_STATE)
"""What is set aside with a database and says nothing but ids and hashes."""


class Forgotten(NamedTuple):
    """What was erased: events, files that are gone, packs and databases that were cleaned.

    `left` are files that may still hold some of it.
    """

    events: list[Event]
    removed: list[str]
    cleaned: list[str]
    left: list[str]


class Reach(NamedTuple):
    """Where something of what is to be forgotten lies: in files that would go, that others wrote
    into and would stay, in packs of backups, among what was set aside, and in the spool."""

    files: list[str]
    edited: list[str]
    backups: list[str]
    aside: list[str]
    spooled: list[str]


# -- a whole session -----------------------------------------------------------------------------


def forget(home: Holdfast, session: str, *, actor: str, force: bool = False) -> Forgotten:
    """Erase everything that a session says; once it is forgotten, look through the rest again."""
    known = _known(home, session)
    late = None
    try:
        if not _is_forgotten(home, session):
            home.journal.forget(session, actor=actor)
    except Busy as error:
        if error.operation != "delete":
            raise
        late = error
    done = _sweep(home, session, known, force=force)
    if late is not None:
        raise late
    return done._replace(events=known.events)


def prepare(home: Holdfast, session: str) -> Callable[[], Forgotten | None]:
    """Before tombstones of other devices are taken: what has to be done when they were.

    What they made the journal erase goes from the places around it too; the answer says what
    could not be looked into. None if nothing was erased. That it is to be done is kept until it
    was: after who dies in between nobody takes these tombstones again.
    """
    known = _known(home, session)
    before = [event for event in known.events if not isinstance(event.body, Erased)]
    if known.events:
        home.store.remotes.owe(session)

    def follow() -> Forgotten | None:
        now = {event.hash: event for event in _events(home, session)}
        gone = [event for event in before if isinstance(now[event.hash].body, Erased)]
        done = _follow(home, session, known, gone, gone) if gone else None
        home.store.remotes.paid(session)
        return done

    return follow


def catch_up(home: Holdfast, session: str) -> Forgotten | None:
    """Do what a process that died left to be done. Which words went is not known any more."""
    known = _known(home, session)
    gone = [event for event in known.events if isinstance(event.body, Erased)]
    done = _follow(home, session, known, gone, ()) if gone else None
    home.store.remotes.paid(session)
    return done


def _follow(
    home: Holdfast, session: str, known: _Known, gone: Sequence[Event], said: Sequence[Event]
) -> Forgotten:
    if _is_forgotten(home, session):
        return _sweep(home, session, known, force=False)._replace(events=list(gone))
    return _cleanse(home, session, said, [event.hash for event in gone])


class _Known(NamedTuple):
    """What has to be asked before a session is forgotten: its files, its agents, its events."""

    owned: list[Owned]
    natives: list[str]
    events: list[Event]
    at: int


def _known(home: Holdfast, session: str) -> _Known:
    owned = home.mirror.owned(session) if home.store.local.is_bound(session) else []
    natives = [run.native for run in home.store.runs.of(session) if run.native]
    return _Known(owned, natives, _events(home, session), home.clock.now())


def _events(home: Holdfast, session: str) -> list[Event]:
    try:
        with home.store.view(session) as view:
            return list(home.journal.events(view))
    except NoSession:
        return []


def _is_forgotten(home: Holdfast, session: str) -> bool:
    with home.store.view(session) as view:
        return home.journal.state(view).core.forgotten


def _sweep(home: Holdfast, session: str, known: _Known, *, force: bool) -> Forgotten:
    purged = backup.purge(home.backup_folder, session, clock=home.clock)
    cleaned, left = _purge_aside(home, session, None)
    removed, stayed = home.mirror.remove(known.owned, force=force)
    for path in _spooled(home, known):
        files.remove(path)
        removed.append(path)
    left = [*purged.unreadable, *left, *stayed, *_beside_essays(known)]
    return Forgotten([], removed, [*purged.rewritten, *cleaned], left)


def _beside_essays(known: _Known) -> list[str]:
    """What lies in an essay's own folder: written by its author, and about nothing else."""
    roots = [one.binding.root for one in known.owned if one.binding.layout == "essay"]
    found = [path for root in roots for path in files.entries(root)]
    return [path for path in found if os.path.isfile(path) and not path.endswith(".lock")]


# -- some events ---------------------------------------------------------------------------------


def chosen(home: Holdfast, session: str, names: Sequence[str]) -> list[Event]:
    """The events that a user's texts name, if they can be forgotten; each once, in order."""
    events = _events(home, session)
    found = {event.hash: event for event in (find_event(events, name) for name in names)}
    for event in found.values():
        if event.kind in tombstone.KINDS:
            raise Refused(
                f"event {event.seq} cannot be forgotten",
                why="it says that others are, and keeps them from coming back",
            )
    _require_undone(events, found)
    return sorted(found.values(), key=lambda event: event.seq)


def _require_undone(events: Sequence[Event], found: dict[str, Event]) -> None:
    """Without its withdrawal, what was withdrawn would count again."""
    ids = {event.id for event in found.values()}
    by_id = {event.id: event for event in events}
    for event in found.values():
        if not isinstance(event.body, EventRetracted):
            continue
        target = by_id.get(event.body.event)
        if target is not None and target.id not in ids and not isinstance(target.body, Erased):
            raise Refused(
                f"event {event.seq} withdraws event {target.seq}, which would count again",
                hint=f"forget both: holdfast forget {target.seq} {event.seq}",
            )


def forget_events(
    home: Holdfast, session: str, names: Sequence[str], *, actor: str, because: str = ""
) -> Forgotten:
    """Erase what some events say; the session goes on without it."""
    found = chosen(home, session, names)
    hashes = [event.hash for event in found]
    late, done = None, found
    try:
        done = home.journal.forget_events(session, hashes, actor=actor, because=because)
    except Busy as error:
        if error.operation != "delete":
            raise
        late = error
    # Again even if they were forgotten before: what could not be cleaned then may be now.
    copies = {event.hash for event in done} | set(hashes)
    told = _cleanse(home, session, done, sorted(copies))
    if late is not None:
        raise late
    return told


def _cleanse(
    home: Holdfast, session: str, said: Sequence[Event], hashes: Sequence[str]
) -> Forgotten:
    purged = backup.purge(home.backup_folder, session, set(hashes), clock=home.clock)
    cleaned, left = _purge_aside(home, session, hashes)
    begun: list[str] = []
    if home.store.local.is_bound(session):
        words = [_words(event) for event in said]
        begun, stayed = home.mirror.cleanse(session, [event.body for event in said], words)
        left += stayed
    cleaned = [*purged.rewritten, *cleaned, *begun]
    removed = list(_told(home, said, home.clock.now()))
    for path in removed:
        files.remove(path)
    return Forgotten(list(said), removed, cleaned, [*purged.unreadable, *left])


def _words(event: Event) -> list[object]:
    """What an event says in words of people; ids and words of ours are in files anyway."""
    said = msgspec.to_builtins(event.body)
    return [value for key, value in said.items() if key not in _OURS and value not in _CHOICES]


# -- the places ----------------------------------------------------------------------------------


def reach(home: Holdfast, session: str, *, force: bool = False) -> Reach:
    """Where a session lies beside the store; changes nothing."""
    known = _known(home, session)
    ours: list[str] = []
    edited: list[str] = []
    for one in known.owned:
        some, others = holding(one, force=force)
        ours += some
        edited += others
    held = [path for path in home.backups() if _names(path, session)]
    return Reach(ours, edited, held, list(_aside(home)), list(_spooled(home, known)))


def _names(path: str, session: str) -> bool:
    """Whether a pack says that it has something of a session, or cannot be read."""
    try:
        manifest = pack.read_manifest(files.read_chunks(path), name=path)
    except HoldfastError:
        return True
    return session.lower() in {id.lower() for id, _ in manifest.sessions}


def _spooled(home: Holdfast, known: _Known) -> Iterator[str]:
    """Payloads that name a conversation of the session, from before it was forgotten.

    What was set aside may be torn before it names any: what it says is enough.
    """
    wanted = [native.encode("utf-8", "replace") for native in known.natives]
    yield from _payloads(home, (spool.TMP, spool.NEW), wanted, known.at)
    wanted += _spelled(known.events)
    yield from _payloads(home, (spool.BAD,), wanted, known.at)


def _told(home: Holdfast, said: Sequence[Event], at: int) -> Iterator[str]:
    """Payloads that say what some events said."""
    return _payloads(home, (spool.TMP, spool.NEW, spool.BAD), _spelled(said), at)


def _spelled(events: Sequence[Event]) -> list[bytes]:
    said = {text for event in events for text in _texts(event)}
    return [form for text in said for form in spool.spellings(text)]


def _payloads(
    home: Holdfast, places: Sequence[str], wanted: Sequence[bytes], at: int
) -> Iterator[str]:
    """Payloads from before a moment that hold any of some bytes."""
    for where in places if wanted else ():
        for path in files.entries(os.path.join(home.store.home, spool.FOLDER, where)):
            try:
                is_older = os.stat(path).st_mtime_ns // 1_000_000 <= at
                data = files.read_bounded(path, 2 * spool.LIMIT, follow=False)
            except (OSError, HoldfastError):
                continue
            if is_older and any(form in data for form in wanted):
                yield path


def _texts(event: Event) -> Iterator[str]:
    """What a hook may have told of an event: what was asked, said or run."""
    for name in ("goal", "text", "arguments"):
        text = getattr(event.body, name, "")
        if isinstance(text, str):
            yield text


def _aside(home: Holdfast) -> Iterator[str]:
    """Files that were set aside; what belongs to a database goes with it."""
    for folder, _, names in os.walk(os.path.join(home.settings.home, files.QUARANTINE)):
        for name in sorted(names):
            is_part = name.endswith(("-wal", "-shm")) or name.startswith(_KNOWN)
            if not is_part and not name.endswith(".lock"):
                yield os.path.join(folder, name)


def _purge_aside(
    home: Holdfast, session: str, hashes: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """Clean what was set aside, as far as it can be read: what was cleaned, and what was not."""
    done = backup.Purged([], [])
    for path in list(_aside(home)):
        start = _start(path)
        if start.startswith(pack.MAGIC):
            backup.purge_pack(path, session, None if hashes is None else set(hashes), done)
        elif start.startswith(_DATABASE) and os.path.basename(path) == files.DATABASE:
            is_clean = _purge_database(home, os.path.dirname(path), session, hashes)
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
    home: Holdfast, folder: str, session: str, hashes: Sequence[str] | None
) -> bool:
    """Whether a database that was set aside is sound enough to be cleaned, and is clean now."""
    settings = home.settings
    store = open_store(
        "", folder, clock=home.clock, busy_timeout=settings.busy_timeout, machine=machine_id()
    )
    journal = Journal(store, home.clock, Redactor())
    try:
        if store.check():
            return False
        if hashes is not None:
            journal.forget_events(session, hashes, actor="user")
        elif any(event.data is not None for event in _stored(journal, session)):
            journal.forget(session, actor="user")
    except NoSession:
        return True
    except HoldfastError:
        return False
    finally:
        store.close()
    return True


def _stored(journal: Journal, session: str) -> list[Stored]:
    with journal.store.view(session) as view:
        return list(view.events())


def require_names(names: Sequence[str]) -> None:
    if not names or not all(name.strip() for name in names):
        raise InvalidInput("no event is named", why="an empty variable, perhaps")
