"""Imports and restores: packs taken back through the journal.

To *absorb* a pack is to merge it, never to replace anything: twice is once. The whole pack is
read and judged before the first event is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import NamedTuple

from holdfast import files, pack
from holdfast.derived import as_sealed
from holdfast.errors import Damaged, InvalidInput, NoSession, Outdated, Refused
from holdfast.journal import Journal
from holdfast.model import event as ev
from holdfast.model.chain import check_link
from holdfast.model.event import Header, Sealed
from holdfast.model.merge import in_order
from holdfast.model.tombstone import Entitled, Tombstones, anyone
from holdfast.pack import Blob, Item, Limits, Range
from holdfast.store import Store
from holdfast.union import hear, is_stone

_BLOBS_AT_ONCE = 64 << 20
UNREADABLE = (Damaged, InvalidInput, Outdated)
"""What reading a pack raises when the fault is the pack's."""


class Taken(NamedTuple):
    """What became of one session of a pack: events added, and those that were there before.

    `left_out` events were not taken because what they follow is missing, or because the whole
    session was skipped, and then `why` says for what reason. `kept` is how many events were
    forgotten elsewhere, by the pack, and keep their content here.
    """

    session: str
    new: int
    held: int
    left_out: int = 0
    why: str = ""
    kept: int = 0


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
            kept = old.kept + taken.kept
            told[taken.session] = Taken(taken.session, new, held, left_out, why, kept)
    return Outcome(list(told.values()), blobs)


def absorb(
    journal: Journal,
    source: str | bytes,
    *,
    limits: Limits | None = None,
    partial: bool = False,
    entitled: Entitled | None = None,
    gone: Set[str] | None = None,
    foreign: bool = False,
) -> Outcome:
    """Merge a pack, given as a path or as its bytes, into the store. Twice is once.

    A pack that is damaged, foreign or contradicts what is held is refused before anything is
    written, and so is one whose events follow others that are neither held nor in it; with
    `partial` those are left out and counted instead. A session that was forgotten here is
    skipped and reported. A pack erases nothing, unless whoever forgot something in it is
    `entitled` to that (see `Journal.absorb`). With `gone` it is a pack that this home made: what
    was erased here stays so, and these events were, whoever forgot them. Of a `foreign` pack the
    end of a session that is not here is not taken: it would keep the session out for ever.
    """
    name = source if isinstance(source, str) else "the pack"

    def reader() -> pack.Reader:
        chunks = files.read_chunks(source) if isinstance(source, str) else (source,)
        return pack.Reader(chunks, name=name, limits=limits)

    def manner(session: str) -> _Manner:
        may = _as_here(journal, session) if gone is not None else entitled
        return _Manner(name, partial, may, gone, foreign)

    for session, events in _histories(reader()):
        _judge(journal, session, events, manner(session))
    merging = _Merging(journal, manner)
    for item in reader():
        merging.take(item)
    merging.finish()
    return Outcome(merging.sessions, merging.blobs)


def absorb_all(journal: Journal, packs: Iterable[str]) -> tuple[int, list[str]]:
    """Merge packs of ours until nothing more comes: one may hold what another lacks.

    What was erased in this home is erased again, and nothing else: other people's tombstones lie
    there too. Returns how many events were new, and what kept packs from being read.
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
    """The events that any of these packs has without content: once written so, they were erased.

    What cannot be read is told by whoever takes it.
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
    """Who may erase when this home's own packs are taken again.

    The end of a session was only ever taken from those who might say it.
    """
    rights = journal.rights(session)
    return lambda device, of: not of or rights.may_erase(device, of)


class _Manner(NamedTuple):
    """How a session of a pack is taken."""

    name: str
    partial: bool
    entitled: Entitled | None = None
    gone: Set[str] | None = None
    foreign: bool = False


class Merged(NamedTuple):
    """What became of events that came together: how many were new, and which must wait."""

    new: int
    left: list[Sealed]


def take(
    journal: Journal,
    session: str,
    events: Sequence[Sealed],
    blobs: Sequence[tuple[str, bytes]] = (),
    *,
    entitled: Entitled | None = None,
) -> Merged:
    """Merge events that travelled into the store; those whose past is not here yet are left.

    `entitled` as in `Journal.absorb`.
    """
    verdict = _judge(journal, session, events, _Manner("what came", True, entitled))
    if verdict.why:
        raise Refused(f"session {session} was not taken", why=verdict.why, session=session)
    fresh = verdict.fresh
    hear(journal.store, events, entitled, fresh=fresh)
    # A tombstone that came in a file before is obeyed now that someone vouches for it, and what
    # a file came without is taken.
    has_stone = any(map(is_stone, events))
    more = [sealed for sealed in events if sealed.hash in verdict.blank]
    new = 0
    if fresh or has_stone or more:
        given = [*fresh, *more]
        new = journal.absorb(session, given, blobs, entitled=entitled, fills=True)
    if not verdict.left_out:
        return Merged(new, [])
    taken = {sealed.hash for sealed in verdict.fresh}
    try:
        with journal.store.view(session) as view:
            taken |= {as_sealed(stored).hash for stored in view.events()}
    except NoSession:
        pass  # its beginning has not come yet
    return Merged(new, [sealed for sealed in events if sealed.hash not in taken])


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
    kept: int = 0
    blank: Set[str] = frozenset()
    """What is held without its content, of what comes with it."""


def _judge(journal: Journal, session: str, events: Sequence[Sealed], manner: _Manner) -> _Verdict:
    """Which events of a pack's session to take; raises when the pack must be refused."""
    try:
        with journal.store.view(session) as view:
            gone = journal.state(view).core.forgotten
            here = list(map(as_sealed, view.events()))
            headers = {sealed.hash: ev.parse_header(sealed.header) for sealed in here}
    except NoSession:
        gone, here, headers = False, [], {}
    except Damaged as error:
        return _Verdict([], 0, len(events), f"the session is damaged here: {error}")
    fresh = [sealed for sealed in events if sealed.hash not in headers]
    held = len(events) - len(fresh)
    if manner.foreign:
        _require_not_in_our_name(journal, session, fresh, manner.name)
    why = _reason_to_skip(session, here, fresh, gone=gone, entitled=manner.entitled)
    if manner.foreign and not here and Tombstones(map(ev.read, fresh)).whole:
        why = "it was forgotten where the pack was made"
    if why:
        return _Verdict([], held, len(fresh), why)
    taken = _closed(session, fresh, headers, name=manner.name, partial=manner.partial)
    kept = 0 if manner.entitled else _kept(here, taken)
    lack = {sealed.hash for sealed in here if sealed.data is None}
    blank = {sealed.hash for sealed in events if sealed.data is not None and sealed.hash in lack}
    return _Verdict(taken, held, len(fresh) - len(taken), kept=kept, blank=blank)


def _require_not_in_our_name(
    journal: Journal, session: str, fresh: Iterable[Sealed], name: str
) -> None:
    """Anyone can write an id into a file, and what we say next would follow what we never said:
    it could be pushed no more."""
    ours = journal.store.devices()
    if any(ev.parse_header(sealed.header).device in ours for sealed in fresh):
        raise Refused(
            f"{name} has events under an id of this device that are not here",
            why="anyone can write that into a file",
            hint="if it is a backup or an export of yours: holdfast restore FILE",
            session=session,
            file=name,
        )


def _kept(here: Sequence[Sealed], fresh: Sequence[Sealed]) -> int:
    """How many events of ours the tombstones among others name."""
    stones = Tombstones(map(ev.read, fresh))
    if not stones:
        return 0
    said = [s for s in here if s.data is not None]
    return sum(stones.name(ev.parse_header(s.header), s.hash) for s in said)


def _reason_to_skip(
    session: str,
    here: Sequence[Sealed],
    fresh: Sequence[Sealed],
    *,
    gone: bool,
    entitled: Entitled | None,
) -> str:
    if gone and entitled is None:
        return "it was forgotten here and must not come back"
    if any(ev.parse_header(sealed.header).session != session for sealed in here[:1]):
        return "another session here has its id in other letters"
    # A pack never makes anything be forgotten: that takes a word of the user.
    stones = Tombstones(map(ev.read, fresh))
    obeyed = entitled is not None and stones.erase_all(entitled)
    if stones.whole and not obeyed and any(sealed.data is not None for sealed in here):
        return "it was forgotten where the pack was made, but is kept here"
    return ""


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

    def __init__(self, journal: Journal, manner: Callable[[str], _Manner]) -> None:
        self._journal = journal
        self._manners = manner
        self._begin("")
        self.sessions: list[Taken] = []
        self.blobs = 0

    def _begin(self, session: str) -> None:
        self._session = session
        self._manner = self._manners(session)
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
            Taken(
                self._session,
                self._added or 0,
                verdict.held,
                verdict.left_out,
                verdict.why,
                verdict.kept,
            )
        )

    def _merge(self) -> None:
        fresh = self._judged().fresh if self._added is None else []
        if self._added is None and self._manner.gone is None:
            self._hear(self._manner.entitled)
        if not fresh and not self._waiting:
            return
        try:
            may, gone = self._manner.entitled, self._manner.gone
            added = self._journal.absorb(
                self._session, fresh, self._waiting, entitled=may, gone=gone or frozenset()
            )
        except Refused as error:
            # Forgotten between the judgement and now.
            self._verdict = _Verdict([], 0, len(self._events), str(error))
        else:
            self._added = (self._added or 0) + added
            self.blobs += len(self._waiting)
        self._waiting = []

    def _hear(self, may: Entitled | None) -> None:
        """A backup is the word of who restores it, unless something is kept against it."""
        verdict = self._judged()
        if not verdict.why:
            is_word = not self._manner.foreign and not verdict.kept
            speaks = may or (anyone if is_word else None)
            hear(self._journal.store, self._events, speaks, fresh=verdict.fresh)

    def _judged(self) -> _Verdict:
        if self._verdict is None:
            self._verdict = _judge(self._journal, self._session, self._events, self._manner)
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
