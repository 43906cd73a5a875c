"""Import and restore packs through the journal.

To *absorb* a pack is to merge its events without replacing any; absorbing it twice has the same
result as once. The whole pack is read and checked before the first event is merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import NamedTuple

from forestay.base import files
from forestay.errors import Damaged, InvalidInput, NoSession, Outdated, Refused
from forestay.journal import pack
from forestay.journal.journal import Journal
from forestay.journal.merge_incoming import is_tombstone, record_hearsay
from forestay.journal.pack import Blob, Item, Limits, Range
from forestay.journal.projections import as_sealed
from forestay.model import event as ev
from forestay.model.erasure import Entitled, Tombstones, anyone
from forestay.model.event import Header, Sealed
from forestay.model.hash_chain import check_link
from forestay.model.merge import in_order

_BLOBS_AT_ONCE = 64 << 20
UNREADABLE = (Damaged, InvalidInput, Outdated)
"""The errors that reading a pack raises if the pack is damaged or unsuitable."""


class SessionResult(NamedTuple):
    """The result for one session of a pack: how many events were new, and how many were known.

    `left_out` events were not merged because their predecessors are missing, or because the whole
    session was skipped for the reason `why`. `kept` counts events that were forgotten
    elsewhere, by the pack, and whose content stays in this home.
    """

    session: str
    new: int
    held: int
    left_out: int = 0
    why: str = ""
    kept: int = 0


class ImportResult(NamedTuple):
    """The result of importing a pack."""

    sessions: list[SessionResult]
    blobs: int

    @property
    def new(self) -> int:
        return sum(one.new for one in self.sessions)


def combine_results(outcomes: Iterable[ImportResult]) -> ImportResult:
    """Return the results of several packs of one backup as one, each session once."""
    combined: dict[str, SessionResult] = {}
    blobs = 0
    for outcome in outcomes:
        blobs += outcome.blobs
        for one in outcome.sessions:
            old = combined.get(one.session, SessionResult(one.session, 0, 0))
            combined[one.session] = SessionResult(
                one.session,
                old.new + one.new,
                old.held + one.held,
                old.left_out + one.left_out,
                one.why or old.why,
                old.kept + one.kept,
            )
    return ImportResult(list(combined.values()), blobs)


def absorb(
    journal: Journal,
    source: str | bytes,
    *,
    limits: Limits | None = None,
    partial: bool = False,
    entitled: Entitled | None = None,
    gone: Set[str] | None = None,
    foreign: bool = False,
) -> ImportResult:
    """Merge a pack, given as a path or as its bytes, into the store.

    Merging it a second time changes nothing. A pack is refused before anything is written if it is
    damaged, is no pack, contradicts events of this home, or has events whose predecessors are
    neither in this home nor in the pack; with `partial` such events are left out and counted
    instead. A session that was forgotten in this home is skipped and reported. A pack erases
    nothing, unless the author of a tombstone in it is `entitled` to erase (see `Journal.absorb`).
    With `gone` it is a pack of this home: events that this home erased, and those in `gone`, stay
    erased. The tombstone of a session that this home does not have is not accepted from a `foreign`
    pack: it would exclude the session for ever.
    """
    name = source if isinstance(source, str) else "the pack"

    def reader() -> pack.Reader:
        chunks = files.read_chunks(source) if isinstance(source, str) else (source,)
        return pack.Reader(chunks, name=name, limits=limits)

    def options(session: str) -> _ImportOptions:
        may = _as_here(journal, session) if gone is not None else entitled
        return _ImportOptions(name, partial, may, gone, foreign)

    for session, events in _histories(reader()):
        _judge(journal, session, events, options(session))
    merging = _Merging(journal, options)
    for item in reader():
        merging.add(item)
    merging.finish()
    return ImportResult(merging.sessions, merging.blobs)


def absorb_all(journal: Journal, packs: Iterable[str]) -> tuple[int, list[str]]:
    """Merge packs of this home, repeatedly, because one pack may hold what another one lacks.

    Events that were erased in this home are erased again, but no others: the packs also hold
    tombstones of other people. Return how many events were new, and why packs could not be read.
    """
    total, unread, packs = 0, set[str](), list(packs)
    gone = _blank_in(packs)
    while True:
        new = 0
        for path in packs:
            try:
                new += absorb(journal, path, limits=pack.OWN, partial=True, gone=gone).new
            except UNREADABLE as error:
                unread.add(str(error))
        total += new
        if not new:
            return total, sorted(unread)


def _blank_in(packs: Iterable[str]) -> set[str]:
    """Return the hashes of events that any of these packs has without content: they were erased.

    Errors are ignored here; merging reports them.
    """
    found: set[str] = set()
    for path in packs:
        try:
            for item in pack.Reader(files.read_chunks(path), name=path, limits=pack.OWN):
                if isinstance(item, Range):
                    found.update(sealed.hash for sealed in item.events if sealed.data is None)
        except UNREADABLE:
            continue
    return found


def _as_here(journal: Journal, session: str) -> Entitled:
    """Return the rule for who may erase when packs of this home are merged again.

    This home has accepted the tombstone of a session only from devices that are entitled to it.
    """
    rights = journal.rights(session)
    return lambda device, of: not of or rights.may_erase(device, of)


class _ImportOptions(NamedTuple):
    """How a session of a pack is imported."""

    name: str
    partial: bool
    entitled: Entitled | None = None
    gone: Set[str] | None = None
    foreign: bool = False


class MergeResult(NamedTuple):
    """The result for events of a remote: how many were new, and which must wait for others."""

    new: int
    left: list[Sealed]


def merge_events(
    journal: Journal,
    session: str,
    events: Sequence[Sealed],
    blobs: Sequence[tuple[str, bytes]] = (),
    *,
    entitled: Entitled | None = None,
) -> MergeResult:
    """Merge events of a remote into the store, except those whose predecessors are missing.

    `entitled` decides who may erase, as in `Journal.absorb`.
    """
    verdict = _judge(journal, session, events, _ImportOptions("the remote", True, entitled))
    if verdict.why:
        raise Refused(f"session {session} was not merged", why=verdict.why, session=session)
    fresh = verdict.fresh
    record_hearsay(journal.store, events, entitled, fresh=fresh)
    # A tombstone that came in a file before is applied now that a sender vouches for it, and
    # content that a file lacked is added.
    has_tombstone = any(map(is_tombstone, events))
    filled = [sealed for sealed in events if sealed.hash in verdict.blank]
    new = 0
    if fresh or has_tombstone or filled:
        given = [*fresh, *filled]
        new = journal.absorb(session, given, blobs, entitled=entitled, fills=True)
    if not verdict.left_out:
        return MergeResult(new, [])
    merged = {sealed.hash for sealed in verdict.fresh}
    try:
        with journal.store.view(session) as view:
            merged |= {as_sealed(stored).hash for stored in view.events()}
    except NoSession:
        pass  # the first events of the session have not arrived yet
    return MergeResult(new, [sealed for sealed in events if sealed.hash not in merged])


def _histories(items: Iterable[Item]) -> Iterator[tuple[str, list[Sealed]]]:
    """Yield each session of a pack with all its events.

    Blobs are skipped: reading them checks them.
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
    kept: int = 0
    blank: Set[str] = frozenset()
    """Events held here without the content that the pack has."""


def _judge(
    journal: Journal, session: str, events: Sequence[Sealed], options: _ImportOptions
) -> _Verdict:
    """Decide which events of a pack's session to merge; raise if the pack must be refused."""
    try:
        with journal.store.view(session) as view:
            gone = journal.state(view).core.forgotten
            here = list(map(as_sealed, view.events()))
            headers = {sealed.hash: ev.parse_header(sealed.header) for sealed in here}
    except NoSession:
        gone, here, headers = False, [], {}
    except Damaged as error:
        return _Verdict([], 0, len(events), f"the local copy of the session is damaged: {error}")
    fresh = [sealed for sealed in events if sealed.hash not in headers]
    held = len(events) - len(fresh)
    if options.foreign:
        _require_no_own_ids(journal, session, fresh, options.name)
    why = _reason_to_skip(session, here, fresh, gone=gone, entitled=options.entitled)
    if options.foreign and not here and Tombstones(map(ev.read, fresh)).whole:
        why = "it was forgotten where the pack was written"
    if why:
        return _Verdict([], held, len(fresh), why)
    accepted = _select_closed(session, fresh, headers, name=options.name, partial=options.partial)
    kept = 0
    if not options.entitled and (tombstones := Tombstones(map(ev.read, accepted))):
        with_content = [s for s in here if s.data is not None]
        kept = sum(tombstones.name(ev.parse_header(s.header), s.hash) for s in with_content)
    lack = {sealed.hash for sealed in here if sealed.data is None}
    blank = {sealed.hash for sealed in events if sealed.data is not None and sealed.hash in lack}
    return _Verdict(accepted, held, len(fresh) - len(accepted), kept=kept, blank=blank)


def _require_no_own_ids(journal: Journal, session: str, fresh: Iterable[Sealed], name: str) -> None:
    """Refuse unknown events under an id of this device: its next events could not be pushed."""
    ours = journal.store.machine.devices()
    if any(ev.parse_header(sealed.header).device in ours for sealed in fresh):
        raise Refused(
            f"{name} has events with the id of this device that this device does not have",
            why="a file does not prove who wrote them",
            hint="if the file is your own backup or export: forestay backup restore FILE",
            session=session,
            file=name,
        )


def _reason_to_skip(
    session: str,
    here: Sequence[Sealed],
    fresh: Sequence[Sealed],
    *,
    gone: bool,
    entitled: Entitled | None,
) -> str:
    if gone and entitled is None:
        return "it was forgotten on this device, and a forgotten session is not restored"
    if any(ev.parse_header(sealed.header).session != session for sealed in here[:1]):
        return "this home has another session whose id differs only in upper and lower case"
    # A pack alone never erases content: only the user decides that.
    tombstones = Tombstones(map(ev.read, fresh))
    is_entitled = entitled is not None and tombstones.erase_all(entitled)
    if tombstones.whole and not is_entitled and any(sealed.data is not None for sealed in here):
        return "it was forgotten where the pack was written, but stays on this device"
    return ""


def _select_closed(
    session: str, fresh: list[Sealed], headers: dict[str, Header], *, name: str, partial: bool
) -> list[Sealed]:
    """Return the new events whose predecessors are all in this home or among the new events.

    `headers` are those of the events in this home. Unless `partial`, refuse any other event.
    """
    found: list[Sealed] = []
    by_hash = {sealed.hash: sealed for sealed in fresh}
    for event in in_order(map(ev.read, fresh)):
        wrong = check_link(event.head, headers.get)
        if not wrong:
            headers[event.hash] = event.head
            found.append(by_hash[event.hash])
        elif not partial:
            raise Damaged(
                f"{name} cannot be imported",
                why=f"event {event.address} of {session}: {wrong}",
                hint="import the older packs of this backup first, the oldest first",
                session=session,
                file=name,
            )
    return found


def select_with_complete_past(session: str, events: Iterable[Sealed]) -> list[Sealed]:
    """Return the events whose predecessors are all among these events."""
    return _select_closed(session, list(events), {}, name="", partial=True)


class _Merging:
    """Merge the items of an intact pack into the journal one by one."""

    def __init__(self, journal: Journal, options: Callable[[str], _ImportOptions]) -> None:
        self._journal = journal
        self._options_of = options
        self._begin("")
        self.sessions: list[SessionResult] = []
        self.blobs = 0

    def _begin(self, session: str) -> None:
        self._session = session
        self._options = self._options_of(session)
        self._events: list[Sealed] = []
        self._waiting: list[tuple[str, bytes]] = []
        self._verdict: _Verdict | None = None
        self._added: int | None = None

    def add(self, item: Item) -> None:
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
        """Complete the current session: merge the items that still wait, and add its result."""
        if not self._session:
            return
        self._merge()
        found = self._judge_once()
        counts = (self._added or 0, found.held, found.left_out)
        self.sessions.append(SessionResult(self._session, *counts, found.why, found.kept))

    def _merge(self) -> None:
        fresh = self._judge_once().fresh if self._added is None else []
        if self._added is None and self._options.gone is None:
            self._record_hearsay(self._options.entitled)
        if not fresh and not self._waiting:
            return
        try:
            may, gone = self._options.entitled, self._options.gone
            added = self._journal.absorb(
                self._session, fresh, self._waiting, entitled=may, gone=gone or frozenset()
            )
        except Refused as error:
            # The session was forgotten after it was checked.
            self._verdict = _Verdict([], 0, len(self._events), str(error))
        else:
            self._added = (self._added or 0) + added
            self.blobs += len(self._waiting)
        self._waiting = []

    def _record_hearsay(self, may: Entitled | None) -> None:
        """Record which events of the pack are hearsay.

        A backup counts as the user's own unless events of this home contradict it.
        """
        verdict = self._judge_once()
        if not verdict.why:
            is_trusted = not self._options.foreign and not verdict.kept
            speaks = may or (anyone if is_trusted else None)
            record_hearsay(self._journal.store, self._events, speaks, fresh=verdict.fresh)

    def _judge_once(self) -> _Verdict:
        if self._verdict is None:
            self._verdict = _judge(self._journal, self._session, self._events, self._options)
        return self._verdict

    def _is_wanted(self, blob: Blob) -> bool:
        """Return whether to store a blob: it belongs to new events, or is missing in this home."""
        verdict = self._judge_once()
        if verdict.why or verdict.fresh:
            return not verdict.why
        try:
            return self._journal.store.blob(blob.digest) is None
        except Damaged:
            return False  # merging replaces nothing: only a rebuild repairs this blob
