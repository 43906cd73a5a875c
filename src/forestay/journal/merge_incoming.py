"""Merge events of other devices into a session.

*Held* events are those that this home has. `build_continuation` is the fast path, for events that
directly continue all held events. Otherwise `IncomingEvents` are compared with the held ones: only
complete histories are accepted, and the `MergePlan` decides which tombstones of both sides erase
content, by their authors. Either way the result is one batch; the journal writes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set
from functools import cache

import msgspec

from forestay.base.clock import Clock, short_id
from forestay.base.hashing import digest_of
from forestay.errors import Damaged, Refused
from forestay.journal.projections import as_sealed, encode_rows, listing, read, rebuild_batch
from forestay.journal.stored_state import StoredRows, encode, require_intact
from forestay.model import event as ev
from forestay.model.blob_refs import blob_names, may_name
from forestay.model.erasure import Entitled, Tombstones, anyone
from forestay.model.event import Event, Header, Sealed
from forestay.model.fold import comes_after, extend, fold
from forestay.model.hash_chain import check_link
from forestay.model.merge import in_order
from forestay.model.state import FOLD_VERSION, Core, State
from forestay.store.port import Batch, Entry, Store, Stored, View

CheckedEvent = tuple[Sealed, Header, str]
"""An event from another device that was checked alone, its header, and its hash."""


def record_hearsay(
    store: Store,
    incoming: Iterable[Sealed],
    entitled: Entitled | None = None,
    *,
    fresh: Sequence[Sealed] = (),
) -> None:
    """Record which `fresh` events are hearsay (their author is not proved), before the merge.

    Anyone can write any device id into a file, so tombstones in it are hearsay, and so is the first
    event under each device id of this home. An event is not hearsay, even if it came in a file
    before, if the sender is `entitled` to speak for the device that the event names.
    """
    remotes = store.machine.remotes
    if entitled is None:
        tombstones = [sealed.hash for sealed in filter(is_tombstone, fresh)]
        remotes.record_unconfirmed(
            [*tombstones, *_first_under(store.machine.devices(), fresh)], vouched=False
        )
        return
    known, new = remotes.unconfirmed(), {sealed.hash for sealed in filter(is_tombstone, fresh)}
    for sealed in incoming if known or new else ():
        if sealed.hash in known | new:
            device = ev.parse_header(sealed.header).device
            remotes.record_unconfirmed([sealed.hash], vouched=entitled(device, device))


def _first_under(devices: Set[str], events: Iterable[Sealed]) -> list[str]:
    """Return the hash of the first event of each of these devices."""
    found: dict[str, tuple[int, str]] = {}
    for sealed in events:
        head = ev.parse_header(sealed.header)
        if head.device in devices:
            found[head.device] = min(
                found.get(head.device, (head.n, sealed.hash)), (head.n, sealed.hash)
            )
    return [hash for _, hash in found.values()]


def is_tombstone(one: Stored | Sealed) -> bool:
    """Return whether an event may be a tombstone, without parsing it: few events are."""
    return b".forgotten" in one.header


def build_continuation(
    view: View, state: State, arrived: Sequence[CheckedEvent], *, fresh: bool
) -> Batch | None:
    """Return the batch of events that directly continue a state; None if they do not."""
    if not _is_continuation(view, state.core, arrived):
        return None
    for sealed, head, hash in arrived:
        extend(state, Event(head, hash, ev.decode_body(head.kind, sealed.data)))
    shown, rows = listing(state), state.rows
    changed = rows.pop_changes() if isinstance(rows, StoredRows) else encode_rows(state)
    return Batch(
        entries=[_entry(sealed, head) for sealed, head, _ in arrived],
        core=encode(state.core),
        fold=FOLD_VERSION,
        rows=changed,
        listing=shown,
        fresh_rows=fresh,
    )


def _entry(sealed: Sealed, head: Header) -> Entry:
    # Stored with its id: a keyed call repeated after a restore must find the event.
    return Entry(sealed.header, sealed.salt, sealed.data, head.id)


def _is_continuation(view: View, core: Core, arrived: Sequence[CheckedEvent]) -> bool:
    """Return whether all events are new and each has seen all events before it.

    Then they name as predecessors only held heads and each other.
    """
    if core.forgotten or (arrived and arrived[0][1].session != (core.session or view.session)):
        return False
    known = {
        # The part of the header of a chain's last event that the check of a link reads.
        head[1]: msgspec.structs.replace(arrived[0][1], device=device, n=head[0], clock=head[2])
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
    if len(set(ids)) < len(ids):
        return False
    # Of events without a key, the id is known only after reading them.
    is_held = view.exists and (
        view.has_any(ids) or not set(ids).isdisjoint(map(_id_of, view.events(keyless_only=True)))
    )
    return not is_held


_ID = re.compile(rb'\{"v":[0-9]+,"id":"([^"\\]+)",')


def _id_of(stored: Stored) -> str:
    found = _ID.match(stored.header)
    return found[1].decode() if found else ev.parse_header(stored.header).id


class IncomingEvents:
    """Events to be merged into a session, and the rule for whose tombstones count.

    `entitled` decides who may speak for a device; without it the events come from a file. Then a
    tombstone of the session by any device counts for `erases_session`: if this home has nothing of
    the session, a file with that tombstone contains no other content.
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
        stones = Tombstones(map(ev.read, filter(is_tombstone, events)))
        self.erases_session = stones.erase_all(entitled or anyone)

    def plan_merge(self, view: View, core: Core, may: Entitled, hearsay: Set[str]) -> MergePlan:
        """Return the plan for these and the held events; `may` decides who can erase them."""
        if core.forgotten and self._entitled is None:
            raise Refused(
                f"session {self._session} was forgotten on this device and is not imported",
                why="a forgotten session must not be restored",
                hint="to read it, import it into another home: forestay --home DIR backup import",
            )
        # A session that was forgotten here stays forgotten, even if another device adds events.
        is_over = core.forgotten or self.erases_session
        held = list(view.events())
        fresh = _new_events(self._session, held, self._events)
        meeting = MergePlan(held, fresh, anyone if is_over else may, self._gone, hearsay)
        if self._fills:
            meeting.fill(self._events)
        if self._entitled is None:
            meeting.preserve_held()
        elif meeting.is_forgotten_by_others:
            raise Refused(
                f"another person has forgotten session {self._session}; it stays on this device",
                why="only its owner can erase it for others",
                session=self._session,
            )
        return meeting

    def plan_erasure(self, view: View) -> MergePlan:
        """Return the plan for an accepted tombstone of the whole session: erase all content."""
        held = list(map(_blank, view.events()))
        return MergePlan(held, _new_events(self._session, held, self._events), anyone)


class MergePlan:
    """The effect of the tombstones of both sides on held and incoming events.

    `held` and `fresh` are the held and the new events as they will be stored; `erased` are the
    arrival numbers of held events that lose their content.
    """

    def __init__(
        self,
        held: Sequence[Stored],
        fresh: Sequence[Sealed],
        entitled: Entitled,
        gone: Set[str] = frozenset(),
        hearsay: Set[str] = frozenset(),
    ) -> None:
        """Apply the tombstones.

        `gone` are events that this home erased before; tombstones in `hearsay` erase nothing.
        """
        tombstones = [
            *map(read, filter(is_tombstone, held)),
            *map(ev.read, filter(is_tombstone, fresh)),
        ]
        self._tombstones = Tombstones(tombstones)
        self._vouched = Tombstones(event for event in tombstones if event.hash not in hearsay)
        self._entitled, self._gone, self._all_held = cache(entitled), gone, list(held)
        self.erased = [s.seq for s in held if s.data is not None and self._is_erased(s)]
        self.filled: list[tuple[int, bytes, bytes]] = []
        lost = set(self.erased)
        self.held = [_blank(s) if s.seq in lost else s for s in held]
        self.fresh = [Sealed(s.header, None, None) if self._is_erased(s) else s for s in fresh]

    def preserve_held(self) -> None:
        """Erase no held event, even if a tombstone names it."""
        self.held, self.erased = self._all_held, []

    def fill(self, incoming: Iterable[Sealed]) -> None:
        """Restore content of held events that no entitled device had erased.

        They may have come in a file of a person who had forgotten them.
        """
        if all(one.data is not None or is_tombstone(one) for one in self.held):
            return
        known = {one.hash: one for one in incoming if one.data is not None}
        for at, one in enumerate(self.held):
            new = known.get(digest_of(one.header)) if one.data is None else None
            if new is not None and new.salt and new.data is not None and not self._is_erased(one):
                self.filled.append((one.seq, new.salt, new.data))
                self.held[at] = Stored(one.seq, one.header, new.salt, new.data)

    def _is_erased(self, one: Stored | Sealed) -> bool:
        if not self._tombstones:
            return False
        head, hash = ev.parse_header(one.header), digest_of(one.header)
        if hash in self._gone and self._tombstones.name(head, hash):
            return True
        return self._vouched.erase(head, hash, self._entitled)

    @property
    def is_forgotten_by_others(self) -> bool:
        """Return whether a device that may not erase the content has forgotten the session."""
        return bool(self._tombstones.whole) and not self._tombstones.erase_all(self._entitled)

    def has_changes(self, blobs: Sequence[tuple[str, bytes]]) -> bool:
        """Return whether the plan or these blobs require a write."""
        return bool(self.fresh or self.erased or self.filled or (blobs and self.held))

    def batch(self, view: View, blobs: Sequence[tuple[str, bytes]], clock: Clock) -> Batch:
        """Return the batch that stores the merged events and what is derived from them."""
        headers = [ev.parse_header(sealed.header) for sealed in self.fresh]
        state = fold([*map(read, self.held), *map(ev.read, self.fresh)])
        batch = rebuild_batch(state, list(map(_entry, self.fresh, headers)))
        batch.erased, batch.filled = self.erased or None, self.filled
        if batch.erased or batch.filled:
            require_intact(view)
        if batch.filled or not self._names_all(digest for digest, _ in blobs):
            batch.erased = self.erased
        if any(header.device == view.device for header in headers):
            # Events under our own device id that we did not write come from a copy of this home.
            batch.device = short_id(clock, 12)
        return batch

    def _names_all(self, digests: Iterable[str]) -> bool:
        """Return whether all blobs may be stored: events name them, or no event is erased."""
        wanted = set(digests)
        every: list[Stored | Sealed] = [*self.held, *self.fresh]
        if all(one.data is not None for one in every):
            return True
        for one in every:
            if wanted and one.data is not None and may_name(one.data):
                wanted -= set(blob_names(Sealed(one.header, one.salt, one.data)))
        return not wanted


def _new_events(session: str, held: Sequence[Stored], incoming: Sequence[Sealed]) -> list[Sealed]:
    """Return the incoming events that are not held yet, checked, each after its predecessors."""
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
            raise Damaged(f"event {event.address} cannot be merged", why=wrong, session=session)
        headers[event.hash] = event.head
    return [fresh[event.hash] for event in ordered]


def _blank(stored: Stored) -> Stored:
    return Stored(stored.seq, stored.header, None, None)
