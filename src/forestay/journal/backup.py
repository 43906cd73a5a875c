"""Backups and exports: packs written from the store.

A *generation* is one full pack and the packs of what was new since, its *parts*; part 0 is the full
one. A pack is named `GENERATION-PART-TIME.fspack`, so that names sort in the order of writing even
if the clock was wrong. `state.json` next to them remembers how far each session was saved, as the
arrival number and hash of its last event; if it is lost or unreadable, the next backup is a full
one. It also counts what each session was *lacking*: events and content that were missing when the
session was saved. If a session lacks less now, it is saved again as a whole. The modification time
of `state.json` is the time of the last run, so one stat shows whether a backup is due.

Old generations stay as long as a saved session is missing from the store or cut short.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from forestay.base import files
from forestay.base.clock import Clock, iso
from forestay.base.text import clean_id
from forestay.base.version import __version__
from forestay.errors import Busy, Damaged, ForestayError, InvalidInput, Outdated
from forestay.journal import pack
from forestay.journal.journal import Journal
from forestay.journal.pack import Blob, Item
from forestay.journal.projections import as_sealed
from forestay.journal.verify import require_sound
from forestay.model import event as ev
from forestay.model.blob_refs import blob_names, is_promise
from forestay.model.event import Sealed
from forestay.store.port import Store, Stored, View

_NAME = re.compile(r"([0-9]{6,12})-([0-9]{3,6})-[^/]*\.fspack")
_MAX_PARTS = 24
_WEEK = 7 * 24 * 3600 * 1000
_STATE_LIMIT = 64 << 20
_TOOL = f"forestay {__version__}"

Mark = tuple[ev.Moment, str]
"""The arrival number and the hash of an event."""
_ALL = 1 << 62


# --- export -----------------------------------------------------------------------------------


class Export(NamedTuple):
    """The bytes of a pack in chunks, and the content that the pack lacks."""

    chunks: Iterator[bytes]
    left_out: list[str]


def own_backups(home: str) -> list[str]:
    """Return the backups that a home makes automatically, oldest first."""
    folder = os.path.join(home, files.BACKUPS)
    return [os.path.join(folder, n) for n in files.list_names(folder) if n.endswith(files.PACK)]


def export(
    journal: Journal, session: str, *, clock: Clock | None = None, partial: bool = False
) -> Export:
    """Return one pack with all chains and content of a session.

    Raise `Damaged` if an event or content is missing or changed; with `partial`, missing content is
    left out of the pack and reported instead.
    """
    with journal.store.view(session) as view:
        events, id = list(map(as_sealed, view.events())), view.session
        require_sound(view, f"forestay verify {id}")
    for wrong in filter(None, (why_not_packable(sealed, id) for sealed in events)):
        hint = f"forestay verify {id}"
        raise Damaged(f"session {id} is damaged", why=wrong, hint=hint, session=id)
    gone = _lacking(journal.store, events)
    if gone and not partial:
        raise Damaged(
            f"content of session {id} is missing",
            why="; ".join(gone.values()),
            hint="recover it: forestay doctor --fix, or leave it out: --partial",
            session=id,
        )
    found = pack.ranges(id, events)
    digests = [digest for digest in _named(events) if digest not in gone]

    def items() -> Iterator[Item]:
        yield from found
        yield from _blobs(journal.store, id, digests)

    chunks = pack.write(items, created=(clock or Clock()).now(), tool=_TOOL, what="export")
    return Export(chunks, list(gone.values()))


def _lacking(store: Store, events: Iterable[Sealed]) -> dict[str, str]:
    """Return digest → reason for the content of these events that is missing or damaged."""
    found: dict[str, str] = {}
    for sealed in events:
        for digest in blob_names(sealed):
            try:
                if store.blob(digest) is None and is_promise(sealed):
                    found[digest] = f"the content {digest[:12]} is missing"
            except Damaged:
                found[digest] = f"the content {digest[:12]} is damaged"
    return found


def write_pack(path: str, chunks: Iterable[bytes], *, overwrite: bool = False) -> None:
    """Write a pack durably, without holding it in memory.

    Without `overwrite`, raise `InvalidInput` if a file with this name exists.
    """
    if overwrite:
        files.replace(path, chunks)
    else:
        files.create(path, chunks)


def why_not_packable(sealed: Sealed, session: str) -> str:
    """Return why a pack cannot contain this event, by the event alone; "" if it can."""
    try:
        header = ev.parse_header(sealed.header)
        clean_id(header.device, "device id")
    except (Damaged, InvalidInput) as error:
        return str(error)
    if header.session != session:
        return f"it belongs to session {header.session}"
    return ev.check(sealed, header)


def _named(events: Iterable[Sealed]) -> list[str]:
    return list(dict.fromkeys(name for sealed in events for name in blob_names(sealed)))


def _blobs(store: Store, session: str, digests: Iterable[str]) -> Iterator[Blob]:
    for digest in digests:
        data = store.blob(digest)
        if data is not None:
            yield Blob(session, digest, data)


# --- backups ----------------------------------------------------------------------------------


class LeftOut(NamedTuple):
    """A session that was not saved completely, and the reason."""

    session: str
    why: str


class BackupResult(NamedTuple):
    """A backup that was written. `left_out` lists the sessions that it has only in part."""

    path: str
    full: bool
    sessions: int
    events: int
    left_out: list[LeftOut]


class _State(Struct, frozen=True):
    """The content of `state.json`: what one backup remembers for the next one."""

    generation: ev.Moment
    parts: ev.Moment
    began: ev.Moment
    saved: dict[str, Mark]
    missing: dict[str, Mark]
    lacking: dict[str, int] = {}


_decode_state = msgspec.json.Decoder(_State).decode


def save(store: Store, folder: str, *, clock: Clock, keep: int | None = None) -> BackupResult:
    """Write a full pack of every session, durable when this returns.

    With `keep` the folder is Forestay's own: the pack begins a new generation, and only the newest
    `keep` generations stay. Without `keep` the folder is the user's: the pack is all that is
    written to it, and nothing is removed.
    """
    if keep is not None or not os.path.isdir(folder):
        files.make_private_dir(folder)
    with files.locked(folder, clock=clock):
        return _full(store, folder, clock, keep=keep)


def backup_if_due(store: Store, folder: str, *, clock: Clock, keep: int) -> BackupResult | None:
    """Save what is new since the last backup; call this only when a backup is due.

    Return None if nothing is new or another process is making the backup. After a failure the next
    backup is due a whole period later, so that a full disk does not slow every command.
    """
    before = _last_run(folder)
    files.make_private_dir(folder)
    try:
        with files.locked(folder, timeout=0, clock=clock):
            if _last_run(folder) != before:
                return None
            return _save_new(store, folder, clock, keep=keep)
    except Busy:
        return None
    except BaseException:
        _set_last_run(folder, clock.now())
        raise


def _last_run(folder: str) -> int:
    try:
        return os.stat(os.path.join(folder, files.BACKUP_STATE)).st_mtime_ns
    except OSError:
        return 0


def is_behind(store: Store, folder: str) -> bool:
    """Return whether the store holds anything that was not saved in this folder yet."""
    state = _recall(folder)
    return state is None or bool(_news(store, state, last_seqs(store)))


def list_generations(folder: str) -> list[list[str]]:
    """Return the packs of each generation, oldest first; skip one without its full pack."""
    found: dict[int, dict[int, str]] = {}
    for name, generation, part in _packs(folder):
        found.setdefault(generation, {})[part] = os.path.join(folder, name)
    return [
        [parts[number] for number in sorted(parts)]
        for _, parts in sorted(found.items())
        if 0 in parts
    ]


def newest_packs(path: str) -> list[str]:
    """Return the packs of the newest generation in a folder; for a file, only that file."""
    if not os.path.isdir(path):
        return [path]
    found = list_generations(path)
    if not found:
        raise InvalidInput(
            f"there is no backup in {path}", hint="forestay backup create", file=path
        )
    return found[-1]


def list_packs(folder: str) -> list[str]:
    """Return the packs of all generations in a folder, oldest first."""
    return [path for parts in list_generations(folder) for path in parts]


def saved_items(folder: str, session: str) -> Iterator[Item]:
    """Yield everything the readable packs in a folder hold of a session, with repetitions."""
    for path in list_packs(folder):
        try:
            for item in pack.Reader(files.read_chunks(path), name=path, limits=pack.OWN):
                if item.session.lower() == session.lower():
                    yield item
        except ForestayError:
            continue  # a damaged pack: the caller can use only what is readable


def salvage(store: Store, sessions: Iterable[str], path: str, *, clock: Clock) -> BackupResult:
    """Write a pack of everything that can still be read of these sessions, however damaged."""
    return _write_gathered(store, path, dict.fromkeys(sessions, 0), clock).saved(path, full=True)


def _packs(folder: str) -> list[tuple[str, int, int]]:
    found = [(name, _NAME.fullmatch(name)) for name in files.list_names(folder)]
    return [(name, int(match[1]), int(match[2])) for name, match in found if match]


def _save_new(store: Store, folder: str, clock: Clock, *, keep: int) -> BackupResult | None:
    state = _recall(folder)
    last = last_seqs(store)
    if state is None or _is_over(state, folder, clock.now()):
        return _full(store, folder, clock, keep=keep) if last else None
    after = _news(store, state, last)
    state = replace(state, missing=_missing(store, state, last))
    if not after:
        _remember(folder, state, clock.now())
        return None
    path = _path(folder, state.generation, state.parts + 1, clock)
    gathering = _write_gathered(store, path, after, clock)
    saved = {**state.saved, **gathering.marks}
    lacking = gathering.lacking(state.lacking)
    state = replace(state, parts=state.parts + 1, saved=saved, lacking=lacking)
    _remember(folder, state, clock.now())
    return gathering.saved(path, full=False)


def _full(store: Store, folder: str, clock: Clock, *, keep: int | None) -> BackupResult:
    old = _recall(folder)
    last = last_seqs(store)
    generation = max((number for _, number, _ in _packs(folder)), default=0) + 1
    path = _path(folder, generation, 0, clock)
    gathering = _write_gathered(store, path, dict.fromkeys(last, 0), clock)
    if keep is not None:
        missing = _missing(store, old, last) if old else {}
        lacking = gathering.lacking({})
        state = _State(generation, 0, clock.now(), gathering.marks, missing, lacking)
        _remember(folder, state, clock.now())
        if not missing and not gathering.left_out:
            _rotate(folder, keep)
    return gathering.saved(path, full=True)


def _path(folder: str, generation: int, part: int, clock: Clock) -> str:
    stamp = re.sub("[^0-9A-Za-z+-]", "", iso(clock.now()))
    return os.path.join(folder, f"{generation:06d}-{part:03d}-{stamp}{files.PACK}")


def _is_over(state: _State, folder: str, now: int) -> bool:
    """Return whether the current generation is too old, too long, or lacks one of its packs."""
    parts = [part for _, number, part in _packs(folder) if number == state.generation]
    whole = parts == list(range(state.parts + 1))
    return not whole or state.parts >= _MAX_PARTS or not 0 <= now - state.began < _WEEK


def _rotate(folder: str, keep: int) -> None:
    packs = _packs(folder)
    staying = sorted({generation for _, generation, part in packs if part == 0})[-keep:]
    # Remove the last part of a generation first: the parts before it can be restored without it.
    for name, generation, _ in reversed(packs):
        if generation not in staying:
            files.remove(os.path.join(folder, name))  # if this fails, an old pack stays


# -- what is new -------------------------------------------------------------------------------


def catalogue_lines(store: Store) -> list[dict[str, object]]:
    """Return the catalogue entries of all sessions, those of forgotten sessions last."""
    return [*store.catalogue(), *store.catalogue(where={"forgotten": 1})]


def last_seqs(store: Store) -> dict[str, int]:
    """Return session id → last arrival number, for all sessions, also forgotten ones."""
    return dict(sorted((str(row["id"]), int(str(row["seq"]))) for row in catalogue_lines(store)))


def _news(store: Store, state: _State, last: dict[str, int]) -> dict[str, int]:
    """Return session id → arrival number after which its events are not saved yet.

    `last` is session id → last arrival number in the store.
    """
    found: dict[str, int] = {}
    for id, seq in last.items():
        mark = state.saved.get(id, (0, ""))
        if seq != mark[0]:
            found[id] = mark[0] if mark[0] <= seq and _holds(store, id, mark, at=mark[0]) else 0
    for id, lacking in state.lacking.items():
        if id in last and _count_lacking(store, id) < lacking:
            found[id] = 0  # something that was missing has arrived: save the whole session
    return found


def _count_lacking(store: Store, session: str) -> int:
    """Return how many events lack their data, plus how many blobs are missing or damaged."""
    try:
        with store.view(session) as view:
            events = [as_sealed(stored) for stored in view.events()]
    except ForestayError:
        return _ALL
    return sum(sealed.data is None for sealed in events) + len(_lacking(store, events))


def _missing(store: Store, state: _State, last: dict[str, int]) -> dict[str, Mark]:
    """Return session id → last saved event, where that event is no longer in the store."""
    cut = {id: m for id, m in state.saved.items() if last.get(id, 0) < m[0]}
    return {
        id: mark for id, mark in {**state.missing, **cut}.items() if not _holds(store, id, mark)
    }


def _holds(store: Store, session: str, mark: Mark, *, at: int | None = None) -> bool:
    """Return whether the session has the event `mark`; with `at`, under this arrival number."""
    if at == 0:
        return True
    try:
        with store.view(session) as view:
            found = view.events() if at is None else view.events(after=at - 1, limit=1)
            return any(as_sealed(stored).hash == mark[1] for stored in found)
    except ForestayError:
        return False


# -- gathering ---------------------------------------------------------------------------------


def _write_gathered(store: Store, path: str, after: dict[str, int], clock: Clock) -> _Gathering:
    for tries_left in (2, 1, 0):
        gathering = _Gathering(store, after)
        chunks = pack.write(gathering.items, created=clock.now(), tool=_TOOL, what="backup")
        try:
            write_pack(path, chunks)
            break
        except Busy:
            # A session was forgotten meanwhile, so the manifest is wrong: write the pack again.
            if not tries_left:
                raise
    return gathering


class _Gathering:
    """The items of one backup.

    They are read twice. The first pass fixes the last event of each session that is saved.
    """

    def __init__(self, store: Store, after: dict[str, int]) -> None:
        self._store = store
        self._after = after
        self._events: dict[str, int] = {}
        self.marks: dict[str, Mark] = {}
        self.left_out: dict[str, str] = {}
        self._lacking: dict[str, int] = {}

    def lacking(self, before: dict[str, int]) -> dict[str, int]:
        """Return session id → how many events and blobs it lacks.

        `before` are the counts of the earlier parts of this generation.
        """
        found = dict(before)
        for id, after in self._after.items():
            found[id] = (found.get(id, 0) if after else 0) + self._lacking.get(id, 0)
        return {id: count for id, count in found.items() if count}

    def items(self) -> Iterator[Item]:
        for session, after in self._after.items():
            events = self._read(session, after)
            yield from pack.ranges(session, events)
            yield from self._content(session, events)

    def saved(self, path: str, *, full: bool) -> BackupResult:
        events = sum(self._events.values())
        left_out = [LeftOut(*one) for one in sorted(self.left_out.items())]
        return BackupResult(path, full, len(self._events), events, left_out)

    def _read(self, session: str, after: int) -> list[Sealed]:
        """Return the intact events of a session; the second pass ignores those added since."""
        until = self.marks[session][0] if session in self.marks else _ALL
        try:
            clean_id(session, "session id")
            with self._store.view(session) as view:
                found, trouble = read_what_is_readable(view, after=after, until=until)
        except ForestayError as error:
            found, trouble = [], str(error)
        good, wrong = select_credible(session, found)
        trouble = trouble or wrong
        if trouble:
            self.left_out[session] = trouble
        if found:
            # The last event read, intact or not: a damaged event must not count as new every time.
            self.marks[session] = (found[-1].seq, as_sealed(found[-1]).hash)
        self._events[session] = len(good)
        return good

    def _content(self, session: str, events: Sequence[Sealed]) -> Iterator[Blob]:
        gone = _lacking(self._store, events)
        self._lacking[session] = len(gone) + sum(sealed.data is None for sealed in events)
        for why in gone.values():
            self.left_out[session] = why
        for blob in _blobs(self._store, session, (d for d in _named(events) if d not in gone)):
            if len(blob.data) > pack.MAX_BLOB:
                self.left_out[session] = f"the content {blob.digest[:12]} is too large for a pack"
            else:
                yield blob


def select_credible(session: str, found: Iterable[Stored]) -> tuple[list[Sealed], str]:
    """Return the events that show no sign of a change, and what is wrong with the first other."""
    events = [(stored.seq, as_sealed(stored)) for stored in found]
    wrong = {seq: why for seq, sealed in events if (why := why_not_packable(sealed, session))}
    altered = _altered([sealed for seq, sealed in events if seq not in wrong])
    wrong |= {seq: "its successor names another event" for seq, s in events if s.hash in altered}
    trouble = next((f"event {seq}: {why}" for seq, why in wrong.items()), "")
    return [sealed for seq, sealed in events if seq not in wrong], trouble


def _altered(events: Sequence[Sealed]) -> set[str]:
    """Return the hashes of events whose header was changed, as far as other events show it.

    Such an event looks intact alone, but no event names its hash, and its successor names an event
    that does not exist. Restored, it would become a fork of its chain next to the true event.
    """
    headers = {sealed.hash: ev.parse_header(sealed.header) for sealed in events}
    named = {header.prev for header in headers.values()}
    for header in headers.values():
        named.update(str(hash) for pairs in header.seen.values() for hash in pairs[1::2])
    orphans = [header for header in headers.values() if header.prev and header.prev not in headers]
    before = {(header.device, header.n - 1) for header in orphans}
    suspects = {hash for hash, header in headers.items() if (header.device, header.n) in before}
    return suspects - named


def read_what_is_readable(
    view: View, *, after: int = 0, until: int = _ALL
) -> tuple[list[Stored], str]:
    """Return the events of a view that can be read, in order, and what prevented the rest.

    Events behind a broken database page are read from the other end.
    """
    ahead, trouble = _read_direction(view, after, until, newest=False)
    if not trouble:
        gone = min(until, view.seq) - after - len(ahead)
        return ahead, f"{gone} event(s) are missing" if gone > 0 else ""
    reached = ahead[-1].seq if ahead else after
    behind, _ = _read_direction(view, reached, until, newest=True)
    return [*ahead, *reversed(behind)], trouble


def _read_direction(
    view: View, after: int, until: int, *, newest: bool
) -> tuple[list[Stored], str]:
    found: list[Stored] = []
    try:
        for stored in view.events(after=after, newest=newest):
            if stored.seq <= until:
                found.append(stored)
            elif not newest:
                break
    except ForestayError as error:
        return found, str(error)
    return found, ""


# -- what is remembered ------------------------------------------------------------------------


def _recall(folder: str) -> _State | None:
    """Return the content of `state.json`; None, for a full backup, if it is lost or invalid."""
    try:
        path = os.path.join(folder, files.BACKUP_STATE)
        return _decode_state(files.read_optional(path, _STATE_LIMIT, private=True) or b"")
    except (ForestayError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _remember(folder: str, state: _State, now: int) -> None:
    path = os.path.join(folder, files.BACKUP_STATE)
    if files.is_irregular(path):
        files.quarantine(path, os.path.join(os.path.dirname(folder), files.QUARANTINE))
    files.replace(path, msgspec.json.encode({"forestay": 1, **asdict(state)}) + b"\n")
    _set_last_run(folder, now)


def _set_last_run(folder: str, ms: int) -> None:
    """Set the time from which the next backup is counted, if possible."""
    path = os.path.join(folder, files.BACKUP_STATE)
    try:
        if not os.path.exists(path):
            files.create(path, b"")
        os.utime(path, ns=(ms * 1_000_000, ms * 1_000_000))
    except (ForestayError, OSError, OverflowError):
        return


# --- forgetting -------------------------------------------------------------------------------


class PurgeResult(NamedTuple):
    """The packs that were rewritten, and unreadable packs, which may still hold the content."""

    rewritten: list[str]
    unreadable: list[str]


def purge(
    folder: str, session: str, hashes: Container[str] | None = None, *, clock: Clock | None = None
) -> PurgeResult:
    """Remove the content of a session from every pack in the folder, durably.

    Headers stay, so that chains verify; content, salts and blobs are removed: of all events of the
    session, or only of those with these hashes. Leftover temporary files are removed too, because
    one of them may be a pack that was being written.
    """
    done = PurgeResult([], [])
    if not os.path.isdir(folder):
        return done
    with files.locked(folder, clock=clock):
        if os.path.exists(os.path.join(folder, files.BACKUP_STATE)):
            _set_last_run(folder, 0)  # the next backup, with the tombstone in it, is due now
        for path in [os.path.join(folder, name) for name in sorted(os.listdir(folder))]:
            if path.endswith(files.PACK):
                purge_pack(path, session, hashes, done)
            elif path.endswith(files.TEMPORARY):
                # Empty the file durably first, so that a power cut cannot restore its content.
                files.replace(path, b"")
                files.remove(path)
    return done


def purge_pack(path: str, session: str, hashes: Container[str] | None, done: PurgeResult) -> None:
    """Rewrite one pack without the content of a session, if it holds any; add it to `done`.

    With `hashes`, only these events lose their content.
    """
    met: list[Sealed] = []

    def gone(id: str, sealed: Sealed) -> bool:
        is_gone = id.lower() == session.lower() and (hashes is None or sealed.hash in hashes)
        if is_gone and sealed.data is not None and not met:
            met.append(sealed)
        return is_gone

    def items() -> Iterator[Item]:
        found = pack.Reader(files.read_chunks(path), name=path, limits=pack.OWN)
        return pack.without_content(found, gone)

    try:
        manifest = pack.read_manifest(files.read_chunks(path), name=path)
        if session.lower() not in {id.lower() for id, _ in manifest.sessions}:
            return
        for _ in items():
            pass
        if not met:
            return
        again = pack.write(items, created=manifest.created, tool=manifest.tool, what=manifest.what)
        write_pack(path, again, overwrite=True)
    except (Damaged, InvalidInput, Outdated):
        done.unreadable.append(path)
    else:
        done.rewritten.append(path)
