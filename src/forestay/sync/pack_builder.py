"""Build packs from the events of a session, none of them too large.

Events are read in the order of their arrival, in small groups. Each is added to the *row* of its
chain: consecutive events of one device. A full row becomes a pack, together with the blobs that its
events name. Memory holds one row per chain, however long the journal is.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import islice
from typing import NamedTuple

import msgspec
from msgspec import Struct

from forestay.base.version import __version__
from forestay.errors import Damaged
from forestay.journal import pack
from forestay.journal.pack import Blob
from forestay.journal.projections import as_sealed
from forestay.model import event as ev
from forestay.model.blob_refs import blob_names, may_be_named
from forestay.store.port import Store, Stored, View
from forestay.sync import pack_codec
from forestay.sync.plan import MOST_BYTES, MOST_EVENTS, Coverage, Link, Stretch

_LOT = 500
"""How many events are read together."""
_TOOL = f"forestay {__version__}"


class PendingPack(NamedTuple):
    """The content of one pack before it is encoded."""

    session: str
    stretch: Stretch
    events: list[Stored]
    blobs: list[Blob]

    def ready(self) -> EncodedPack:
        """Encode the records; another thread can compress them without Python's lock."""
        is_erased = any(stored.data is None for stored in self.events)
        return EncodedPack(self.stretch, is_erased, pack_codec.make(*self))


class EncodedPack(NamedTuple):
    """A pack whose records are encoded."""

    stretch: Stretch
    is_erased: bool
    made: pack_codec.Made

    def packed(self, created: int) -> bytes:
        return self.made.finish(created=created, tool=_TOOL, what="sync")


class _Row:
    """Consecutive events of one chain, and their size."""

    __slots__ = ("before", "blobs", "carried", "device", "events", "first", "size")

    def __init__(self, first: _Head) -> None:
        self.device, self.first, self.before = first.device, first.n, first.prev
        self.events: list[Stored] = []
        self.blobs: list[Blob] = []
        self.carried: set[str] = set()
        self.size = 0

    def lacks(self, content: Iterable[Blob]) -> list[Blob]:
        """Return those of the blobs that are not in this row yet.

        A pack has all blobs that its events name, even if another pack has them too: the other one
        may be replaced without them after an erasure.
        """
        return [blob for blob in content if blob.digest not in self.carried]

    def has_room(self, more: int, content: Sequence[Blob]) -> bool:
        if content:
            more += sum(len(blob.data) for blob in self.lacks(content))
        return self.size + more <= MOST_BYTES and len(self.events) < MOST_EVENTS

    def carry(self, content: Iterable[Blob]) -> None:
        for blob in self.lacks(content):
            self.blobs.append(blob)
            self.carried.add(blob.digest)
            self.size += len(blob.data)

    def parcel(self, session: str, after: str) -> PendingPack:
        last = self.first + len(self.events) - 1
        stretch = Stretch(self.device, self.first, last, self.before, after)
        return PendingPack(session, stretch, self.events, self.blobs)


class PackBuilder:
    """Collect events into rows, and rows into packs."""

    def __init__(self, store: Store, session: str) -> None:
        self._store, self._session = store, session
        self._rows: dict[tuple[str, str], _Row] = {}

    def add(self, events: Iterable[tuple[Stored, _Head, str]]) -> Iterator[PendingPack]:
        """Add the next events; yield packs that are full."""
        row: _Row | None = None
        end = ""
        for stored, head, hash in events:
            if row is None or head.prev != end or head.device != row.device:
                self._lay_aside(row, end)
                row = self._rows.pop((head.device, head.prev), None) or _Row(head)
            data = stored.data
            weight = len(stored.header) + len(data or b"")
            named = data is not None and may_be_named(head.kind, data)
            content = list(self._content(stored)) if named else []
            if row.events and not row.has_room(weight, content):
                yield row.parcel(self._session, head.prev)
                row = _Row(head)
            row.events.append(stored)
            row.size += weight
            if content:
                row.carry(content)
            end = hash
        self._lay_aside(row, end)

    def _lay_aside(self, row: _Row | None, end: str) -> None:
        if row is not None:
            self._rows[row.device, end] = row

    def rest(self) -> Iterator[PendingPack]:
        """Yield the packs that are left after the last event."""
        for (_, after), row in self._rows.items():
            yield row.parcel(self._session, after)
        self._rows = {}

    def _content(self, stored: Stored) -> Iterator[Blob]:
        room = pack.MAX_BLOB  # an event of a newer version may name more than fits in a pack
        for digest in dict.fromkeys(blob_names(as_sealed(stored))):
            data = self._kept(digest)
            if data is not None and len(data) <= room:
                room -= len(data)
                yield Blob(self._session, digest, data)

    def _kept(self, digest: str) -> bytes | None:
        try:
            data = self._store.blob(digest)
        except Damaged:
            return None  # push the event without its damaged content
        return data if data is not None and len(data) <= pack.MAX_BLOB else None


def build_packs(store: Store, view: View, held: Coverage, *, after: int) -> Iterator[PendingPack]:
    """Yield packs of the events with an arrival number above `after` that the remote lacks."""
    cutting = PackBuilder(store, view.session)
    events, has = view.events(after=after), held.has
    while lot := list(islice(events, _LOT)):
        checked: Iterable[tuple[Stored, _Head, str]] = _checked(lot, view.session)
        if not held.is_empty:
            checked = [one for one in checked if not has(one[1].device, one[1].n, one[2])]
        yield from cutting.add(checked)
    yield from cutting.rest()


class _Head(Struct, gc=False):
    """The fields of a header that are needed to put an event into a row."""

    session: str
    device: str
    n: int
    kind: str
    digest: str
    prev: str


_decode = msgspec.json.Decoder(_Head).decode
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError)


def _checked(lot: Sequence[Stored], session: str) -> Iterator[tuple[Stored, _Head, str]]:
    """Yield events with parsed headers and hashes; raise `Damaged` if one is damaged.

    That each follows its predecessor is checked later, when it is added to a row.
    """
    try:
        heads = [_decode(stored.header) for stored in lot]
    except _UNREADABLE:
        heads = [_head(stored, session) for stored in lot]  # raises with the damaged event
    hashes = [sha256(stored.header).hexdigest() for stored in lot]
    for stored, head in zip(lot, heads, strict=True):
        salt, data = stored.salt, stored.data
        whole = (salt or b"") + data if data else salt
        if head.session != session or (whole and sha256(whole).hexdigest() != head.digest):
            raise _damaged(stored, session, "its content does not match its hash")
    return zip(lot, heads, hashes, strict=True)


def _head(stored: Stored, session: str) -> _Head:
    try:
        return _decode(stored.header)
    except _UNREADABLE as error:
        raise _damaged(stored, session, str(error)) from error


def _damaged(stored: Stored, session: str, why: str) -> Damaged:
    what = f"event {stored.seq} of session {session} is damaged and was not pushed"
    return Damaged(what, why=why, hint="forestay doctor --fix", session=session)


def stretch_of(store: Store, view: View, wanted: Stretch) -> Iterator[PendingPack]:
    """Yield packs of the events of a stretch that is in the journal."""
    cutting = PackBuilder(store, view.session)
    found: list[tuple[Stored, _Head, str]] = []
    next_hash = wanted.after
    for stored in view.events(newest=True):
        ((_, head, hash),) = _checked([stored], view.session)
        if hash == next_hash:
            found.append((stored, head, hash))
            next_hash = head.prev
            if head.n <= wanted.first:
                break
    if not found or found[-1][1].n != wanted.first or found[-1][1].prev != wanted.before:
        raise Damaged(
            f"session {view.session} lacks events that this device pushed earlier",
            hint="forestay verify",
        )
    yield from cutting.add(found[::-1])
    yield from cutting.rest()


def coverage(view: View, stretches: Sequence[Stretch], forked: Iterable[str]) -> Coverage:
    """Return which events the stretches cover; `forked` chains are compared event by event."""
    branching = set(forked) & {one.device for one in stretches}
    return Coverage(stretches, links_of(view, branching) if branching else {})


def links_of(view: View, devices: Container[str]) -> dict[str, Link]:
    """Return the number and predecessor of each event of these chains, by hash."""
    links: dict[str, Link] = {}
    for stored in view.events():
        header = ev.parse_header(stored.header)
        if header.device in devices:
            links[as_sealed(stored).hash] = (header.device, header.n, header.prev)
    return links
