"""Backups, exports and restores: packs made from the store, and taken back through the journal.

Words. A *generation* is one full pack and the packs of what was new since, its *parts*; part 0 is
the full one. Every pack is named `GENERATION-PART-TIME.hfpack`, so that names sort as the packs
were made even when the clock did not. `state.json` beside them remembers how far each session
has been saved, as the arrival number and hash of its last event; when it is lost or cannot be
read, the next backup is a full one. Its modification time is when backups were last looked
after: whether one is due costs a single stat.

To *absorb* a pack is to merge it, never to replace anything: twice is once. The whole pack is
read and judged before the first event is taken. What is missing from the store is never
rotated away: while a session that was saved is gone or cut short, old generations stay.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from holdfast import __version__, files, pack
from holdfast.clock import Clock, iso
from holdfast.errors import (
    Busy,
    Damaged,
    HoldfastError,
    InvalidInput,
    NoSession,
    Outdated,
    Refused,
)
from holdfast.journal import Journal
from holdfast.model import event as ev
from holdfast.model.chain import check_link
from holdfast.model.event import Header, Sealed
from holdfast.model.merge import in_order
from holdfast.pack import Blob, Item, Limits, Range
from holdfast.store import Store, Stored, View
from holdfast.text import clean_id

SUFFIX = ".hfpack"
FOLDER = "backups"
STATE = "state.json"
TEMPORARY = ".holdfast-tmp"
OWN = Limits(total=1 << 50)
"""For packs that this home made itself: they may be as large as the store is."""

_NAME = re.compile(r"([0-9]{6,12})-([0-9]{3,6})-[^/]*\.hfpack")
_MAX_PARTS = 24
_WEEK = 7 * 24 * 3600 * 1000
_STATE_LIMIT = 64 << 20
_BLOBS_AT_ONCE = 64 << 20
_TOOL = f"holdfast {__version__}"

Mark = tuple[int, str]
_ALL = 1 << 62


# --- export -----------------------------------------------------------------------------------


def export(journal: Journal, session: str, *, clock: Clock | None = None) -> Iterator[bytes]:
    """One pack with all chains of a session and the content it keeps, a piece at a time."""
    with journal.store.view(session) as view:
        events = list(map(_sealed, view.events()))
        id = view.session
    for sealed in events:
        wrong = fault(sealed, id)
        if wrong:
            raise Damaged(
                f"session {id} is damaged", why=wrong, hint=f"holdfast verify {id}", session=id
            )
    found = pack.ranges(id, events)
    digests = _named(events)

    def items() -> Iterator[Item]:
        yield from found
        yield from _blobs(journal.store, id, digests)

    return pack.write(items, created=(clock or Clock()).now(), tool=_TOOL, what="export")


def write_pack(path: str, chunks: Iterable[bytes], *, overwrite: bool = False) -> None:
    """Put a pack under a name, durably, without holding it in memory.

    Without `overwrite` the name must be free: `InvalidInput` if anything has it.
    """
    if overwrite:
        files.replace(path, chunks)
    else:
        files.create(path, chunks)


def _sealed(stored: Stored) -> Sealed:
    return Sealed(stored.header, stored.salt, stored.data)


def fault(sealed: Sealed, session: str) -> str:
    """What keeps an event, taken alone, from going into a pack; or an empty string."""
    try:
        header = ev.parse_header(sealed.header)
        clean_id(header.device, "device id")
    except (Damaged, InvalidInput) as error:
        return str(error)
    if header.session != session:
        return f"it belongs to session {header.session}"
    return ev.check(sealed, header)


def _named(events: Iterable[Sealed]) -> list[str]:
    return list(dict.fromkeys(name for sealed in events for name in pack.blob_names(sealed)))


def _blobs(store: Store, session: str, digests: Iterable[str]) -> Iterator[Blob]:
    for digest in digests:
        data = store.blob(digest)
        if data is not None:
            yield Blob(session, digest, data)


# --- import and restore -----------------------------------------------------------------------


class Taken(NamedTuple):
    """What became of one session of a pack: events added, and those that were there before.

    `left_out` events were not taken because what they follow is missing, or because the whole
    session was skipped, and then `why` says for what reason.
    """

    session: str
    new: int
    held: int
    left_out: int = 0
    why: str = ""


class Outcome(NamedTuple):
    """What absorbing a pack did."""

    sessions: list[Taken]
    blobs: int

    @property
    def new(self) -> int:
        return sum(taken.new for taken in self.sessions)


def together(outcomes: Iterable[Outcome]) -> Outcome:
    """What several packs of one backup did, each session told once."""
    told: dict[str, Taken] = {}
    blobs = 0
    for outcome in outcomes:
        blobs += outcome.blobs
        for taken in outcome.sessions:
            old = told.get(taken.session, Taken(taken.session, 0, 0))
            new, held = old.new + taken.new, old.held + taken.held
            left_out, why = old.left_out + taken.left_out, taken.why or old.why
            told[taken.session] = Taken(taken.session, new, held, left_out, why)
    return Outcome(list(told.values()), blobs)


def absorb(
    journal: Journal, source: str | bytes, *, limits: Limits | None = None, partial: bool = False
) -> Outcome:
    """Merge a pack, given as a path or as its bytes, into the store. Twice is once.

    A pack that is damaged, foreign or contradicts what is held is refused before anything is
    written, and so is one whose events follow others that are neither held nor in it; with
    `partial` those are left out and counted instead. A session that was forgotten here is
    skipped and reported.
    """
    name = source if isinstance(source, str) else "the pack"

    def reader() -> pack.Reader:
        chunks = files.read_chunks(source) if isinstance(source, str) else (source,)
        return pack.Reader(chunks, name=name, limits=limits)

    for session, events in _histories(reader()):
        _judge(journal, session, events, name=name, partial=partial)
    merging = _Merging(journal, name, partial=partial)
    for item in reader():
        merging.take(item)
    merging.finish()
    return Outcome(merging.sessions, merging.blobs)


def _histories(items: Iterable[Item]) -> Iterator[tuple[str, list[Sealed]]]:
    """Each session of a pack with all its events, once the pack proved sound.

    Blobs pass by: reading them checks them.
    """
    session, events = "", list[Sealed]()
    for item in items:
        if item.session != session:
            if events:
                yield session, events
            session, events = item.session, []
        if isinstance(item, Range):
            events += item.events
    if events:
        yield session, events


class _Verdict(NamedTuple):
    fresh: list[Sealed]
    held: int
    left_out: int = 0
    why: str = ""


def _judge(
    journal: Journal, session: str, events: Sequence[Sealed], *, name: str, partial: bool
) -> _Verdict:
    """Which events of a pack's session to take; raises when the pack must be refused."""
    try:
        with journal.store.view(session) as view:
            gone = journal.state(view).core.forgotten
            here = list(map(_sealed, view.events()))
            headers = {sealed.hash: ev.parse_header(sealed.header) for sealed in here}
    except NoSession:
        gone, here, headers = False, [], {}
    except Damaged as error:
        return _Verdict([], 0, len(events), f"the session is damaged here: {error}")
    fresh = [sealed for sealed in events if sealed.hash not in headers]
    held = len(events) - len(fresh)
    why = _reason_to_skip(session, here, fresh, gone=gone)
    if why:
        return _Verdict([], held, len(fresh), why)
    taken = _closed(session, fresh, headers, name=name, partial=partial)
    return _Verdict(taken, held, len(fresh) - len(taken))


def _reason_to_skip(
    session: str, here: Sequence[Sealed], fresh: Sequence[Sealed], *, gone: bool
) -> str:
    if gone:
        return "it was forgotten here and must not come back"
    if any(ev.parse_header(sealed.header).session != session for sealed in here[:1]):
        return "another session here has its id in other letters"
    # A pack never makes anything be forgotten: that takes a word of the user.
    if any(map(_is_tombstone, fresh)) and any(sealed.data is not None for sealed in here):
        return "it was forgotten where the pack was made, but is kept here"
    return ""


def _is_tombstone(sealed: Sealed) -> bool:
    return ev.parse_header(sealed.header).kind == "session.forgotten"


def _closed(
    session: str, fresh: list[Sealed], headers: dict[str, Header], *, name: str, partial: bool
) -> list[Sealed]:
    """The events whose whole past is held or among them."""
    found: list[Sealed] = []
    by_hash = {sealed.hash: sealed for sealed in fresh}
    for event in in_order(map(ev.read, fresh)):
        wrong = check_link(event.head, headers.get)
        if not wrong:
            headers[event.hash] = event.head
            found.append(by_hash[event.hash])
        elif not partial:
            raise Damaged(
                f"{name} cannot be taken",
                why=f"event {event.address} of {session}: {wrong}",
                hint="take the packs before it first, oldest first",
                session=session,
                file=name,
            )
    return found


def whole_part(session: str, events: Iterable[Sealed]) -> list[Sealed]:
    """The events, of any that were gathered, whose whole past is among them."""
    return _closed(session, list(events), {}, name="", partial=True)


class _Merging:
    """Takes the items of a sound pack one after the other into the journal."""

    def __init__(self, journal: Journal, name: str, *, partial: bool) -> None:
        self._journal = journal
        self._name = name
        self._partial = partial
        self._begin("")
        self.sessions: list[Taken] = []
        self.blobs = 0

    def _begin(self, session: str) -> None:
        self._session = session
        self._events: list[Sealed] = []
        self._waiting: list[tuple[str, bytes]] = []
        self._verdict: _Verdict | None = None
        self._added: int | None = None

    def take(self, item: Item) -> None:
        if item.session != self._session:
            self.finish()
            self._begin(item.session)
        if isinstance(item, Range):
            self._events += item.events
        elif self._is_wanted(item):
            self._waiting.append((item.digest, item.data))
            if sum(len(data) for _, data in self._waiting) > _BLOBS_AT_ONCE:
                self._merge()

    def finish(self) -> None:
        """The session is complete: merge what is still waiting, and report."""
        if not self._session:
            return
        self._merge()
        verdict = self._judged()
        self.sessions.append(
            Taken(self._session, self._added or 0, verdict.held, verdict.left_out, verdict.why)
        )

    def _merge(self) -> None:
        fresh = self._judged().fresh if self._added is None else []
        if not fresh and not self._waiting:
            return
        try:
            added = self._journal.absorb(self._session, fresh, self._waiting)
        except Refused as error:
            # Forgotten between the judgement and now.
            self._verdict = _Verdict([], 0, len(self._events), str(error))
        else:
            self._added = (self._added or 0) + added
            self.blobs += len(self._waiting)
        self._waiting = []

    def _judged(self) -> _Verdict:
        if self._verdict is None:
            self._verdict = _judge(
                self._journal, self._session, self._events, name=self._name, partial=self._partial
            )
        return self._verdict

    def _is_wanted(self, blob: Blob) -> bool:
        """New events bring all their content, so that the store knows whose it is."""
        verdict = self._judged()
        if verdict.why:
            return False
        return bool(verdict.fresh) or _lacks(self._journal.store, blob.digest)


def _lacks(store: Store, digest: str) -> bool:
    try:
        return store.blob(digest) is None
    except Damaged:
        return False  # merging adds, it replaces nothing: only a rebuild helps here


# --- backups ----------------------------------------------------------------------------------


class Saved(NamedTuple):
    """A backup that was made. `left_out` says what could not be read, as (session, why)."""

    path: str
    full: bool
    sessions: int
    events: int
    left_out: list[tuple[str, str]]


class _State(NamedTuple):
    """What the backup folder remembers between two backups."""

    generation: int
    parts: int
    began: int
    saved: dict[str, Mark]
    missing: dict[str, Mark]


def save(
    store: Store, journal: Journal, folder: str, *, clock: Clock, keep: int | None = None
) -> Saved:
    """A full pack of every session, durable when this returns.

    With `keep` it begins a new generation in a private folder of ours, and only that many
    generations stay. Without, the folder is the user's: nothing is remembered or removed.
    """
    if keep is not None or not os.path.isdir(folder):
        files.make_private_dir(folder)
    with files.locked(folder, clock=clock):
        return _full(store, folder, clock, keep=keep)


def backup_if_due(
    store: Store, journal: Journal, folder: str, *, clock: Clock, keep: int
) -> Saved | None:
    """Save what is new since the last backup; the caller found it due.

    None when nothing is new, or when another process is at it. When it fails, the next one is
    due a whole period later all the same, so that a full disk does not slow every command.
    """
    before = _looked_after(folder)
    files.make_private_dir(folder)
    try:
        with files.locked(folder, timeout=0, clock=clock):
            if _looked_after(folder) != before:
                return None
            return _save_new(store, folder, clock, keep=keep)
    except Busy:
        return None
    except BaseException:
        _look_again_at(folder, clock.now())
        raise


def _looked_after(folder: str) -> int:
    try:
        return os.stat(os.path.join(folder, STATE)).st_mtime_ns
    except OSError:
        return 0


def is_behind(store: Store, folder: str) -> bool:
    """Whether the store holds anything that was not saved in this folder yet."""
    state = _recall(folder)
    return state is None or bool(_news(store, state, listed(store)))


def generations(folder: str) -> list[list[str]]:
    """The packs of each generation that has its full one, oldest first, in order."""
    found: dict[int, dict[int, str]] = {}
    for name, generation, part in _packs(folder):
        found.setdefault(generation, {})[part] = os.path.join(folder, name)
    return [
        [parts[number] for number in sorted(parts)]
        for _, parts in sorted(found.items())
        if 0 in parts
    ]


def saved_items(folder: str, session: str) -> Iterator[Item]:
    """All that the readable packs in a folder hold of a session; the same may come again."""
    for path in [path for packs in generations(folder) for path in packs]:
        try:
            for item in pack.Reader(files.read_chunks(path), name=path, limits=OWN):
                if item.session.lower() == session.lower():
                    yield item
        except HoldfastError:
            continue  # whoever asks for the rest is not helped by the reason


def salvage(store: Store, sessions: Iterable[str], path: str, *, clock: Clock) -> Saved:
    """A pack of everything that can still be read of these sessions, however damaged."""
    return _write_gathered(store, path, dict.fromkeys(sessions, 0), clock).saved(path, full=True)


def _packs(folder: str) -> list[tuple[str, int, int]]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    found = [(name, _NAME.fullmatch(name)) for name in names]
    return [(name, int(match[1]), int(match[2])) for name, match in found if match]


def _save_new(store: Store, folder: str, clock: Clock, *, keep: int) -> Saved | None:
    state = _recall(folder)
    there = listed(store)
    if state is None or _is_over(state, folder, clock.now()):
        return _full(store, folder, clock, keep=keep) if there else None
    after = _news(store, state, there)
    state = state._replace(missing=_missing(store, state, there))
    if not after:
        _remember(folder, state, clock.now())
        return None
    return _part(store, folder, clock, state, after)


def _full(store: Store, folder: str, clock: Clock, *, keep: int | None) -> Saved:
    old = _recall(folder)
    there = listed(store)
    generation = max((number for _, number, _ in _packs(folder)), default=0) + 1
    path = _path(folder, generation, 0, clock)
    gathering = _write_gathered(store, path, dict.fromkeys(there, 0), clock)
    if keep is not None:
        missing = _missing(store, old, there) if old else {}
        state = _State(generation, 0, clock.now(), gathering.marks, missing)
        _remember(folder, state, clock.now())
        if not missing and not gathering.left_out:
            _rotate(folder, keep)
    return gathering.saved(path, full=True)


def _part(store: Store, folder: str, clock: Clock, state: _State, after: dict[str, int]) -> Saved:
    path = _path(folder, state.generation, state.parts + 1, clock)
    gathering = _write_gathered(store, path, after, clock)
    saved = {**state.saved, **gathering.marks}
    _remember(folder, state._replace(parts=state.parts + 1, saved=saved), clock.now())
    return gathering.saved(path, full=False)


def _path(folder: str, generation: int, part: int, clock: Clock) -> str:
    stamp = re.sub("[^0-9A-Za-z+-]", "", iso(clock.now()))
    return os.path.join(folder, f"{generation:06d}-{part:03d}-{stamp}{SUFFIX}")


def _is_over(state: _State, folder: str, now: int) -> bool:
    """Whether a new generation must begin: this one is old, long, or no longer whole."""
    there = [part for _, number, part in _packs(folder) if number == state.generation]
    whole = there == list(range(state.parts + 1))
    return not whole or state.parts >= _MAX_PARTS or not 0 <= now - state.began < _WEEK


def _rotate(folder: str, keep: int) -> None:
    packs = _packs(folder)
    staying = sorted({generation for _, generation, part in packs if part == 0})[-keep:]
    # The last part goes first: what a crash leaves behind can still be restored.
    for name, generation, _ in reversed(packs):
        if generation not in staying:
            _remove(os.path.join(folder, name))


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return  # one pack more than was asked for does no harm


# -- what is new -------------------------------------------------------------------------------


def listed(store: Store) -> dict[str, int]:
    """Every session with its last arrival number. Forgotten ones too: their end must be kept."""
    rows = [*store.catalogue(), *store.catalogue(where={"forgotten": 1})]
    return dict(sorted((str(row["id"]), int(str(row["seq"]))) for row in rows))


def _news(store: Store, state: _State, there: dict[str, int]) -> dict[str, int]:
    """Sessions with events that were not saved yet, and after which number those begin."""
    changed = {id: seq for id, seq in there.items() if seq != state.saved.get(id, (0, ""))[0]}
    return {id: _start(store, id, state.saved.get(id, (0, "")), seq) for id, seq in changed.items()}


def _start(store: Store, session: str, saved: Mark, seq: int) -> int:
    return saved[0] if saved[0] <= seq and _has(store, session, saved) else 0


def _has(store: Store, session: str, mark: Mark) -> bool:
    """Whether the event of this number is still the one that was saved."""
    try:
        with store.view(session) as view:
            found = list(view.events(after=mark[0] - 1, limit=1)) if mark[0] else []
    except HoldfastError:
        return False
    return not mark[0] or [_sealed(stored).hash for stored in found] == [mark[1]]


def _missing(store: Store, state: _State, there: dict[str, int]) -> dict[str, Mark]:
    """What was saved once and is not in the store any more."""
    cut = {id: m for id, m in state.saved.items() if there.get(id, 0) < m[0]}
    return {
        id: mark for id, mark in {**state.missing, **cut}.items() if not _holds(store, id, mark)
    }


def _holds(store: Store, session: str, mark: Mark) -> bool:
    try:
        with store.view(session) as view:
            return any(_sealed(stored).hash == mark[1] for stored in view.events())
    except HoldfastError:
        return False


# -- gathering ---------------------------------------------------------------------------------


def _write_gathered(store: Store, path: str, after: dict[str, int], clock: Clock) -> _Gathering:
    tries = 3
    while True:
        tries -= 1
        gathering = _Gathering(store, after)
        chunks = pack.write(gathering.items, created=clock.now(), tool=_TOOL, what="backup")
        try:
            write_pack(path, chunks)
        except Busy:
            # A session was forgotten meanwhile: what goes into the pack must be measured again.
            if not tries:
                raise
        else:
            return gathering


class _Gathering:
    """The items of one backup. The first pass decides how far each session goes."""

    def __init__(self, store: Store, after: dict[str, int]) -> None:
        self._store = store
        self._after = after
        self._events: dict[str, int] = {}
        self.marks: dict[str, Mark] = {}
        self.left_out: dict[str, str] = {}

    def items(self) -> Iterator[Item]:
        for session, after in self._after.items():
            events = self._read(session, after)
            yield from pack.ranges(session, events)
            yield from self._content(session, _named(events))

    def saved(self, path: str, *, full: bool) -> Saved:
        events = sum(self._events.values())
        return Saved(path, full, len(self._events), events, sorted(self.left_out.items()))

    def _read(self, session: str, after: int) -> list[Sealed]:
        """The sound events of a session; on the second pass none that came meanwhile."""
        until = self.marks[session][0] if session in self.marks else _ALL
        try:
            clean_id(session, "session id")
            with self._store.view(session) as view:
                found, trouble = readable(view, after=after, until=until)
        except HoldfastError as error:
            found, trouble = [], str(error)
        faults = [(stored, fault(_sealed(stored), session)) for stored in found]
        good = [stored for stored, wrong in faults if not wrong]
        trouble = trouble or next((f"event {s.seq}: {wrong}" for s, wrong in faults if wrong), "")
        if trouble:
            self.left_out[session] = trouble
        if found:
            # Of the last one met, sound or not: what is damaged is not new every time.
            self.marks[session] = (found[-1].seq, _sealed(found[-1]).hash)
        self._events[session] = len(good)
        return list(map(_sealed, good))

    def _content(self, session: str, digests: Iterable[str]) -> Iterator[Blob]:
        for digest in digests:
            try:
                data = self._store.blob(digest)
            except Damaged as error:
                self.left_out[session] = str(error)
                continue
            if data is not None and len(data) > pack.MAX_BLOB:
                self.left_out[session] = f"the content {digest[:12]} is too large for a pack"
            elif data is not None:
                yield Blob(session, digest, data)


def readable(view: View, *, after: int = 0, until: int = _ALL) -> tuple[list[Stored], str]:
    """The events of a view that can be read, in order, and what kept the others from it.

    Where a page of the database is broken, those behind it are read from the other end.
    """
    ahead, trouble = _read_on(view, after, until, newest=False)
    if not trouble:
        gone = min(until, view.seq) - after - len(ahead)
        return ahead, f"{gone} event(s) are missing" if gone > 0 else ""
    reached = ahead[-1].seq if ahead else after
    behind, _ = _read_on(view, reached, until, newest=True)
    return [*ahead, *reversed(behind)], trouble


def _read_on(view: View, after: int, until: int, *, newest: bool) -> tuple[list[Stored], str]:
    found: list[Stored] = []
    try:
        for stored in view.events(after=after, newest=newest):
            if stored.seq <= until:
                found.append(stored)
            elif not newest:
                break
    except HoldfastError as error:
        return found, str(error)
    return found, ""


# -- what is remembered ------------------------------------------------------------------------


def _recall(folder: str) -> _State | None:
    """What was remembered; None when it is lost or makes no sense, which costs a full backup."""
    try:
        raw = files.read_optional(os.path.join(folder, STATE), _STATE_LIMIT, private=True)
        kept = json.loads(raw or b"")
        generation, parts, began = (int(kept[name]) for name in ("generation", "parts", "began"))
        return _State(generation, parts, began, _marks(kept["saved"]), _marks(kept["missing"]))
    except (HoldfastError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _marks(kept: dict[str, list[object]]) -> dict[str, Mark]:
    return {id: (int(str(seq)), str(hash)) for id, (seq, hash) in kept.items()}


def _remember(folder: str, state: _State, now: int) -> None:
    kept = {"holdfast": 1, **state._asdict()}
    files.replace(os.path.join(folder, STATE), json.dumps(kept).encode() + b"\n")
    _look_again_at(folder, now)


def _look_again_at(folder: str, ms: int) -> None:
    """Set the time from which the next backup is counted. Best effort: it is a convenience."""
    path = os.path.join(folder, STATE)
    try:
        if not os.path.exists(path):
            files.create(path, b"")
        os.utime(path, ns=(ms * 1_000_000, ms * 1_000_000))
    except (HoldfastError, OSError, OverflowError):
        return


# --- forgetting -------------------------------------------------------------------------------


class Purged(NamedTuple):
    """The packs that were rewritten, and those that could not be read and may hold anything."""

    rewritten: list[str]
    unreadable: list[str]


def purge(folder: str, session: str, *, clock: Clock | None = None) -> Purged:
    """Replace every pack in the folder that holds the session by its erased twin, durably.

    Headers stay, so that chains verify; content, salts and blobs of the session go. Leftover
    temporaries go too, because a pack that was being written may be one of them.
    """
    done = Purged([], [])
    if not os.path.isdir(folder):
        return done
    with files.locked(folder, clock=clock):
        if os.path.exists(os.path.join(folder, STATE)):
            _look_again_at(folder, 0)  # the next backup, with the tombstone in it, is due now
        for path in [os.path.join(folder, name) for name in sorted(os.listdir(folder))]:
            if path.endswith(SUFFIX):
                _purge_pack(path, session, done)
            elif path.endswith(TEMPORARY):
                # Emptied before it goes, durably, so that it cannot come back with its content.
                files.replace(path, b"")
                _remove(path)
    return done


def _purge_pack(path: str, session: str, done: Purged) -> None:
    def items() -> Iterator[Item]:
        for item in pack.Reader(files.read_chunks(path), name=path, limits=OWN):
            if item.session.lower() != session.lower():
                yield item
            elif isinstance(item, Range):
                yield pack.erased(item)

    try:
        manifest = pack.read_manifest(files.read_chunks(path), name=path)
        if session.lower() not in {id.lower() for id, _ in manifest.sessions}:
            return
        again = pack.write(items, created=manifest.created, tool=manifest.tool, what=manifest.what)
        write_pack(path, again, overwrite=True)
    except (Damaged, InvalidInput, Outdated):
        done.unreadable.append(path)
    else:
        done.rewritten.append(path)
