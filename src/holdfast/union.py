"""The union of chains: what becomes of a session when events of other devices come into it.

The secret is which of them are taken, and as what. `continued` is the short way, for events that
simply go on from all that is held. Otherwise an `Arrival` meets what is held: only whole, causally
closed histories are taken, and in the `Meeting` the tombstones of both sides are weighed, by who
said them, against the content of both. Either ends in one batch; the journal writes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set
from functools import cache

import msgspec

from holdfast.clock import Clock, short_id
from holdfast.derived import StoredRows, all_rows, as_sealed, encode, listing, read, rebuilt
from holdfast.errors import Damaged, Refused
from holdfast.model import event as ev
from holdfast.model.chain import check_link
from holdfast.model.event import Event, Header, Sealed
from holdfast.model.fold import FOLD_VERSION, comes_after, extend, fold
from holdfast.model.merge import in_order
from holdfast.model.state import Core, State
from holdfast.model.tombstone import Entitled, Tombstones, anyone
from holdfast.sha import digest_of
from holdfast.soundness import require_intact
from holdfast.store import Batch, Entry, Store, Stored, View

Arrived = tuple[Sealed, Header, str]
"""An event from elsewhere that was checked by itself, its header, and its hash."""


def hear(
    store: Store,
    incoming: Iterable[Sealed],
    entitled: Entitled | None = None,
    *,
    fresh: Sequence[Sealed] = (),
) -> None:
    """Before events come from elsewhere: which of those that are `fresh` are hearsay.

    Anyone can write any id into a file: so tombstones are, and the first event under each id
    of ours. Where whoever sent one is `entitled` to speak for the device that it names, it is
    not, even if it came in a file before.
    """
    remotes = store.remotes
    if entitled is None:
        stones = [sealed.hash for sealed in filter(is_stone, fresh)]
        remotes.heard([*stones, *_first_under(store.devices(), fresh)], vouched=False)
        return
    known, new = remotes.hearsay(), {sealed.hash for sealed in filter(is_stone, fresh)}
    for sealed in incoming if known or new else ():
        if sealed.hash in known | new:
            device = ev.parse_header(sealed.header).device
            remotes.heard([sealed.hash], vouched=entitled(device, device))


def _first_under(devices: Set[str], events: Iterable[Sealed]) -> list[str]:
    """Of each of these devices the hash of the first event."""
    found: dict[str, tuple[int, str]] = {}
    for sealed in events:
        head = ev.parse_header(sealed.header)
        if head.device in devices:
            found[head.device] = min(
                found.get(head.device, (head.n, sealed.hash)), (head.n, sealed.hash)
            )
    return [hash for _, hash in found.values()]


def is_stone(one: Stored | Sealed) -> bool:
    """Whether an event may be a tombstone; few are, and only these are read."""
    return b".forgotten" in one.header


def continued(view: View, state: State, arrived: Sequence[Arrived], *, fresh: bool) -> Batch | None:
    """The batch of events that go on from a state, which they extend; None if they do not."""
    if not _goes_on(view, state.core, arrived):
        return None
    for sealed, head, hash in arrived:
        extend(state, Event(head, hash, ev.decode_body(head.kind, sealed.data)))
    shown, rows = listing(state), state.rows
    changed = rows.take_changes() if isinstance(rows, StoredRows) else all_rows(state)
    return Batch(
        entries=[_entry(sealed, head) for sealed, head, _ in arrived],
        core=encode(state.core),
        fold=FOLD_VERSION,
        rows=changed,
        listing=shown,
        fresh_rows=fresh,
    )


def _entry(sealed: Sealed, head: Header) -> Entry:
    # Found by id too: whoever repeats a keyed call after a restore must not do it twice.
    return Entry(sealed.header, sealed.salt, sealed.data, head.id)


def _goes_on(view: View, core: Core, arrived: Sequence[Arrived]) -> bool:
    """Whether events are all new and simply go on: each from everything before it.

    Their links lead only to heads that are held and to each other.
    """
    if core.forgotten or (arrived and arrived[0][1].session != (core.session or view.session)):
        return False
    known = {
        head[1]: _head_of(arrived[0][1], device, head)
        for device, chain in core.chains.items()
        for head in chain.heads
    }
    own, get = view.device, known.get
    tips, clock = core.tips, core.clock
    for _, head, hash in arrived:
        if head.device == own or check_link(head, get) or not comes_after(tips, clock, head):
            return False
        known[hash] = head
        tips, clock = [hash], head.clock
    ids = [head.id for _, head, _ in arrived]
    return len(set(ids)) == len(ids) and not (view.exists and _holds_any(view, ids))


def _head_of(like: Header, device: str, head: tuple[int, str, int]) -> Header:
    """As much of the header of a chain's last event as a link is checked against."""
    return msgspec.structs.replace(like, device=device, n=head[0], clock=head[2])


_ID = re.compile(rb'\{"v":[0-9]+,"id":"([^"\\]+)",')


def _holds_any(view: View, ids: Sequence[str]) -> bool:
    """Whether an event is held under one of these ids; only those without a key must be read."""
    return view.has_any(ids) or not set(ids).isdisjoint(map(_id_of, view.keyless()))


def _id_of(stored: Stored) -> str:
    found = _ID.match(stored.header)
    return found[1].decode() if found else ev.parse_header(stored.header).id


class Arrival:
    """Events that come into a session, and in whose name.

    Who is `entitled` to speak for others says it of a device; without that they come in a file,
    and `is_the_end` of the session if anyone says so: where nothing is held of it, a file that has
    its end has nothing else.
    """

    def __init__(
        self,
        session: str,
        events: Sequence[Sealed],
        entitled: Entitled | None,
        gone: Set[str],
        *,
        fills: bool,
    ) -> None:
        self._session, self._events, self._entitled = session, events, entitled
        self._gone, self._fills = gone, fills
        stones = Tombstones(map(ev.read, filter(is_stone, events)))
        self.is_the_end = stones.erase_all(entitled or anyone)

    def meet(self, view: View, core: Core, may: Entitled, hearsay: Set[str]) -> Meeting:
        """What becomes of these and of what is held, where those erase who `may`."""
        if core.forgotten and self._entitled is None:
            raise _forgotten_here(self._session)
        # What was forgotten here stays so, whoever writes on elsewhere.
        is_over = core.forgotten or self.is_the_end
        held = list(view.events())
        fresh = _new_events(self._session, held, self._events)
        meeting = Meeting(held, fresh, anyone if is_over else may, self._gone, hearsay)
        if self._fills:
            meeting.fill(self._events)
        if self._entitled is None:
            meeting.spare_what_is_held()
        elif meeting.is_ended_by_others:
            raise _forgotten_by_others(self._session)
        return meeting

    def end(self, view: View) -> Meeting:
        """The whole session's tombstone is taken, of one who may say so: all content goes."""
        held = list(map(_blank, view.events()))
        return Meeting(held, _new_events(self._session, held, self._events), anyone)


class Meeting:
    """Events that are held and others that come: what becomes of both by the tombstones of all.

    `held` and `fresh` are those events as they are from now on, `erased` the arrival numbers of
    held ones that lose their content.
    """

    def __init__(
        self,
        held: Sequence[Stored],
        fresh: Sequence[Sealed],
        entitled: Entitled,
        gone: Set[str] = frozenset(),
        hearsay: Set[str] = frozenset(),
    ) -> None:
        """`gone` events were erased here before; what is `hearsay` erases nothing."""
        said = [*map(read, filter(is_stone, held)), *map(ev.read, filter(is_stone, fresh))]
        self._stones = Tombstones(said)
        self._vouched = Tombstones(event for event in said if event.hash not in hearsay)
        self._entitled, self._gone, self._all_held = cache(entitled), gone, list(held)
        self.erased = [s.seq for s in held if s.data is not None and self._goes(s)]
        self.filled: list[tuple[int, bytes, bytes]] = []
        lost = set(self.erased)
        self.held = [_blank(s) if s.seq in lost else s for s in held]
        self.fresh = [Sealed(s.header, None, None) if self._goes(s) else s for s in fresh]

    def spare_what_is_held(self) -> None:
        """Nothing that is held is erased, whoever said so."""
        self.held, self.erased = self._all_held, []

    def fill(self, incoming: Iterable[Sealed]) -> None:
        """Give what is held without its content, though nobody entitled had it erased, that.

        It came in a file, perhaps, from someone who had forgotten their copy.
        """
        if all(one.data is not None or is_stone(one) for one in self.held):
            return
        known = {one.hash: one for one in incoming if one.data is not None}
        for at, one in enumerate(self.held):
            new = known.get(digest_of(one.header)) if one.data is None else None
            if new is not None and new.salt and new.data is not None and not self._goes(one):
                self.filled.append((one.seq, new.salt, new.data))
                self.held[at] = Stored(one.seq, one.header, new.salt, new.data)

    def _goes(self, one: Stored | Sealed) -> bool:
        if not self._stones:
            return False
        head, hash = ev.parse_header(one.header), digest_of(one.header)
        if hash in self._gone and self._stones.name(head, hash):
            return True
        return self._vouched.erase(head, hash, self._entitled)

    @property
    def is_ended_by_others(self) -> bool:
        """Whether somebody forgot the session who may not have its content erased."""
        return bool(self._stones.whole) and not self._stones.erase_all(self._entitled)

    def changes(self, blobs: Sequence[tuple[str, bytes]]) -> bool:
        """Whether anything has to be written, for these or for content that comes with them."""
        return bool(self.fresh or self.erased or self.filled or (blobs and self.held))

    def batch(self, view: View, blobs: Sequence[tuple[str, bytes]], clock: Clock) -> Batch:
        """What has to be kept of both, and of content that comes with them."""
        headers = [ev.parse_header(sealed.header) for sealed in self.fresh]
        state = fold([*map(read, self.held), *map(ev.read, self.fresh)])
        batch = rebuilt(state, list(map(_entry, self.fresh, headers)))
        batch.erased, batch.filled = self.erased or None, self.filled
        if batch.erased or batch.filled:
            require_intact(view)
        if batch.filled or not self._names_all(digest for digest, _ in blobs):
            batch.erased = self.erased
        if any(header.device == view.device for header in headers):
            # Events under our own id that we did not write: a copy of this home wrote them.
            batch.device = short_id(clock, 12)
        return batch

    def _names_all(self, digests: Iterable[str]) -> bool:
        """Whether each of these contents may stay: some event names it, or none is erased."""
        from holdfast.model.content import blob_names, may_name

        wanted = set(digests)
        every: list[Stored | Sealed] = [*self.held, *self.fresh]
        if all(one.data is not None for one in every):
            return True
        for one in every:
            if wanted and one.data is not None and may_name(one.data):
                wanted -= set(blob_names(Sealed(one.header, one.salt, one.data)))
        return not wanted


def _new_events(session: str, held: Sequence[Stored], incoming: Sequence[Sealed]) -> list[Sealed]:
    """The events not held yet, in an order in which each follows its parents; all are checked."""
    headers = {as_sealed(stored).hash: ev.parse_header(stored.header) for stored in held}
    fresh = {s.hash: s for s in incoming if s.hash not in headers}
    ordered = in_order(map(ev.read, fresh.values()))
    for event in ordered:
        sealed = fresh[event.hash]
        wrong = ev.check(sealed, event.head)
        if event.head.session.lower() != session.lower():
            wrong = f"it belongs to session {event.head.session}"
        wrong = wrong or check_link(event.head, headers.get)
        if wrong:
            raise Damaged(f"event {event.address} cannot be taken", why=wrong, session=session)
        headers[event.hash] = event.head
    return [fresh[event.hash] for event in ordered]


def _blank(stored: Stored) -> Stored:
    return Stored(stored.seq, stored.header, None, None)


def _forgotten_here(session: str) -> Refused:
    return Refused(
        f"session {session} was forgotten here",
        why="its content must not come back",
        hint="import it under another home if you want it again",
    )


def _forgotten_by_others(session: str) -> Refused:
    return Refused(
        f"session {session} was forgotten by someone else",
        why="it is not theirs to forget, and is kept here",
        session=session,
    )
