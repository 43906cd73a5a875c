"""Parcels: the events of a session that are to travel, cut so that none is too large.

Events are read in the order of their arrival, a little at a time, and laid with those of their
chain; a row that is long enough becomes a parcel, with the content that its events name. What
is held in memory is one row for each chain, however long the journal is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from holdfast import __version__, pack
from holdfast.derived import as_sealed
from holdfast.errors import Damaged
from holdfast.model import event as ev
from holdfast.model.content import blob_names, may_name
from holdfast.model.event import Sealed
from holdfast.model.travel import MOST_BYTES, MOST_EVENTS, Coverage, Link, Stretch
from holdfast.pack import Blob, Item, Range
from holdfast.store import Store, Stored, View

_TOOL = f"holdfast {__version__}"


class Parcel(NamedTuple):
    """What one pack is to hold."""

    row: Range
    blobs: list[Blob]

    @property
    def stretch(self) -> Stretch:
        row = self.row
        return Stretch(row.device, row.first, row.last, row.before, row.after)

    @property
    def is_erased(self) -> bool:
        """Whether the content of any event in it is gone."""
        return any(sealed.data is None for sealed in self.row.events)

    def packed(self, created: int) -> bytes:
        items: list[Item] = [self.row, *self.blobs]
        return pack.dump(items, created=created, tool=_TOOL, what="sync")


class _Row:
    """Events of one chain that follow each other, and what they weigh."""

    def __init__(self, first: Range) -> None:
        self.range = first
        self.blobs: list[Blob] = []
        self.size = 0

    def is_full_with(self, more: int) -> bool:
        count = len(self.range.events)
        return count >= MOST_EVENTS or bool(count and self.size + more > MOST_BYTES)


class Cutting:
    """Lays events into rows, and rows into parcels."""

    def __init__(self, store: Store, session: str) -> None:
        self._store, self._session = store, session
        self._rows: dict[tuple[str, str], _Row] = {}
        self._carried: set[str] = set()

    def add(self, sealed: Sealed, header: ev.Header, hash: str) -> Iterator[Parcel]:
        """Take the next event; yields the parcel that it completes, if any."""
        blobs = list(self._content(sealed))
        weight = len(sealed.header) + len(sealed.data or b"") + sum(len(b.data) for b in blobs)
        row = self._rows.pop((header.device, header.prev), None)
        if row is not None and row.is_full_with(weight):
            yield Parcel(row.range, row.blobs)
            row = None
        if row is None:
            row = _Row(Range(self._session, header.device, header.n, header.prev, []))
        row.range.events.append(sealed)
        row.blobs += blobs
        row.size += weight
        self._rows[header.device, hash] = row

    def rest(self) -> Iterator[Parcel]:
        """What is left when no more events come."""
        for row in self._rows.values():
            yield Parcel(row.range, row.blobs)
        self._rows = {}

    def _content(self, sealed: Sealed) -> Iterator[Blob]:
        if sealed.data is None or not may_name(sealed.data):
            return
        for digest in blob_names(sealed):
            if digest not in self._carried and (data := self._kept(digest)) is not None:
                self._carried.add(digest)
                yield Blob(self._session, digest, data)

    def _kept(self, digest: str) -> bytes | None:
        try:
            data = self._store.blob(digest)
        except Damaged:
            return None  # the event is worth more than what is damaged beside it
        return data if data is not None and len(data) <= pack.MAX_BLOB else None


def parcels(store: Store, view: View, there: Coverage, *, after: int) -> Iterator[Parcel]:
    """The events that arrived after a number and are not covered, as parcels."""
    cutting = Cutting(store, view.session)
    for stored in view.events(after=after):
        sealed, header = as_sealed(stored), ev.parse_header(stored.header)
        hash = sealed.hash
        if not there.has(header.device, header.n, hash):
            yield from cutting.add(sealed, header, hash)
    yield from cutting.rest()


def stretch_of(store: Store, view: View, wanted: Stretch) -> Iterator[Parcel]:
    """The events of a stretch that is held, as parcels: what several packs there cover."""
    cutting = Cutting(store, view.session)
    for stored, header, hash in _chain(view, wanted):
        yield from cutting.add(as_sealed(stored), header, hash)
    yield from cutting.rest()


def _chain(view: View, wanted: Stretch) -> list[tuple[Stored, ev.Header, str]]:
    """The events of one branch, found from its end backwards."""
    found: list[tuple[Stored, ev.Header, str]] = []
    next_hash = wanted.after
    for stored in view.events(newest=True):
        header = ev.parse_header(stored.header)
        if header.device == wanted.device and (hash := as_sealed(stored).hash) == next_hash:
            found.append((stored, header, hash))
            next_hash = header.prev
            if header.n <= wanted.first:
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
