"""Parcels: the events of a session that are to travel, cut so that none is too large.

Events are read in the order of their arrival, a little at a time, and laid with those of their
chain; a row that is long enough becomes a parcel, with the content that its events name. What
is held in memory is one row for each chain, however long the journal is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

import msgspec
from msgspec import Struct

from holdfast import __version__, pack
from holdfast.derived import as_sealed
from holdfast.errors import Damaged
from holdfast.model import event as ev
from holdfast.model.content import blob_names, may_be_named
from holdfast.model.event import Sealed
from holdfast.model.travel import MOST_BYTES, MOST_EVENTS, Coverage, Link, Stretch
from holdfast.pack import Blob, Range
from holdfast.store import Store, Stored, View
from holdfast.travel import quick_pack

_TOOL = f"holdfast {__version__}"


class Parcel(NamedTuple):
    """What one pack is to hold."""

    row: Range
    blobs: list[Blob]

    @property
    def stretch(self) -> Stretch:
        return Stretch.of(self.row)

    @property
    def is_erased(self) -> bool:
        """Whether the content of any event in it is gone."""
        return any(sealed.data is None for sealed in self.row.events)

    def ready(self) -> Ready:
        """The parcel as it can be finished in another thread, which then waits for nobody."""
        return Ready(self.stretch, self.is_erased, quick_pack.make(self.row, self.blobs))


class Ready(NamedTuple):
    """A parcel whose records are made."""

    stretch: Stretch
    is_erased: bool
    made: quick_pack.Made

    def packed(self, created: int) -> bytes:
        return self.made.finish(created=created, tool=_TOOL, what="sync")


class _Row:
    """Events of one chain that follow each other, and what they weigh."""

    __slots__ = ("blobs", "carried", "events", "range", "size")

    def __init__(self, first: Range) -> None:
        self.range, self.events = first, first.events
        self.blobs: list[Blob] = []
        self.carried: set[str] = set()
        self.size = 0

    def is_full_with(self, more: int) -> bool:
        return self.size + more > MOST_BYTES or len(self.events) >= MOST_EVENTS

    def lacks(self, content: Iterable[Blob]) -> list[Blob]:
        """What it does not carry yet; each row carries all of its own, since one may be replaced.

        Whoever replaces a pack leaves out what only forgotten events of that pack name.
        """
        return [blob for blob in content if blob.digest not in self.carried]

    def carry(self, blobs: Sequence[Blob]) -> None:
        self.blobs += blobs
        self.carried |= {blob.digest for blob in blobs}
        self.size += _weight(blobs)


def _weight(blobs: Iterable[Blob]) -> int:
    return sum(len(blob.data) for blob in blobs)


class Cutting:
    """Lays events into rows, and rows into parcels."""

    def __init__(self, store: Store, session: str) -> None:
        self._store, self._session = store, session
        self._rows: dict[tuple[str, str], _Row] = {}

    def add(self, stored: Stored, head: _Head, hash: str) -> Parcel | None:
        """Take the next event; the answer is the parcel that had no room for it, if any."""
        sealed = Sealed(stored.header, stored.salt, stored.data)
        named = stored.data is not None and may_be_named(head.kind, stored.data)
        content = list(self._content(sealed)) if named else []
        weight = len(stored.header) + len(stored.data or b"")
        full = None
        row = self._rows.pop((head.device, head.prev), None)
        if row is not None and row.is_full_with(weight + _weight(row.lacks(content))):
            full, row = Parcel(row.range, row.blobs), None
        if row is None:
            row = _Row(Range(self._session, head.device, head.n, head.prev, []))
        row.events.append(sealed)
        row.size += weight
        row.carry(row.lacks(content))
        self._rows[head.device, hash] = row
        return full

    def rest(self) -> Iterator[Parcel]:
        """What is left when no more events come."""
        for row in self._rows.values():
            yield Parcel(row.range, row.blobs)
        self._rows = {}

    def _content(self, sealed: Sealed) -> Iterator[Blob]:
        room = pack.MAX_BLOB  # what an event of a newer version names may be much
        for digest in dict.fromkeys(blob_names(sealed)):
            data = self._kept(digest)
            if data is not None and len(data) <= room:
                room -= len(data)
                yield Blob(self._session, digest, data)

    def _kept(self, digest: str) -> bytes | None:
        try:
            data = self._store.blob(digest)
        except Damaged:
            return None  # the event is worth more than what is damaged beside it
        return data if data is not None and len(data) <= pack.MAX_BLOB else None


def parcels(store: Store, view: View, there: Coverage, *, after: int) -> Iterator[Parcel]:
    """The events that arrived after a number and are not covered, as parcels."""
    cutting, here = Cutting(store, view.session), there.is_empty
    for stored in view.events(after=after):
        head, hash = _checked(stored, view.session)
        if here or not there.has(head.device, head.n, hash):
            full = cutting.add(stored, head, hash)
            if full is not None:
                yield full
    yield from cutting.rest()


class _Head(Struct, gc=False):
    """As much of a header as it takes to lay an event into a row."""

    session: str
    device: str
    n: int
    kind: str
    digest: str
    prev: str


_decode = msgspec.json.Decoder(_Head).decode


def _checked(stored: Stored, session: str) -> tuple[_Head, str]:
    """What must be known of an event, and its hash; nothing leaves that is not as it was written.

    That it follows the event before it shows where it is laid.
    """
    try:
        head = _decode(stored.header)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _damaged(stored, session, str(error)) from error
    whole = (stored.salt or b"") + (stored.data or b"")
    if head.session != session or (whole and sha256(whole).hexdigest() != head.digest):
        raise _damaged(stored, session, "it is not what was written")
    return head, sha256(stored.header).hexdigest()


def _damaged(stored: Stored, session: str, why: str) -> Damaged:
    what = f"event {stored.seq} of session {session} is damaged, and does not travel"
    return Damaged(what, why=why, hint="holdfast doctor --fix", session=session)


def stretch_of(store: Store, view: View, wanted: Stretch) -> Iterator[Parcel]:
    """The events of a stretch that is held, as parcels: what several packs there cover."""
    cutting = Cutting(store, view.session)
    for one in _chain(view, wanted):
        full = cutting.add(*one)
        if full is not None:
            yield full
    yield from cutting.rest()


def _chain(view: View, wanted: Stretch) -> list[tuple[Stored, _Head, str]]:
    """The events of one branch, found from its end backwards."""
    found: list[tuple[Stored, _Head, str]] = []
    next_hash = wanted.after
    for stored in view.events(newest=True):
        head, hash = _checked(stored, view.session)
        if hash == next_hash:
            found.append((stored, head, hash))
            next_hash = head.prev
            if head.n <= wanted.first:
                break
    if not found or found[-1][1].n != wanted.first or found[-1][1].prev != wanted.before:
        raise Damaged(
            f"session {view.session} does not hold what it pushed", hint="holdfast verify"
        )
    return found[::-1]


def coverage(view: View, there: Sequence[Stretch], forked: Iterable[str]) -> Coverage:
    """Which events of a view are covered; chains that are `forked` are looked at event by event."""
    branching = set(forked) & {one.device for one in there}
    links: dict[str, Link] = {}
    for stored in view.events() if branching else ():
        header = ev.parse_header(stored.header)
        if header.device in branching:
            links[as_sealed(stored).hash] = (header.device, header.n, header.prev)
    return Coverage(there, links)
