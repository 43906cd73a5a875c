"""Opening a pack: what is in it, once it was checked against its name, its seal and its claim.

Nothing here trusts the remote. What cannot be true is an error of its own. All packs are judged
before the first is taken, so what is in them is kept until then: of the first as it was read, of
more as it came, which takes a tenth of the memory, and the rest is got again.
"""

from __future__ import annotations

from typing import NamedTuple

from forestay.errors import (
    Damaged,
    ForestayError,
    InvalidInput,
    Locked,
    NotEntitled,
    Replayed,
    Swapped,
    Tampered,
)
from forestay.journal.pack import Blob
from forestay.model.erasure import KINDS as STONES
from forestay.model.event import Header, Sealed
from forestay.store.machine.remotes import Packed
from forestay.sync.crypto.sealed_pack import Claim
from forestay.sync.pack_codec import Row, load
from forestay.sync.plan import Stretch
from forestay.sync.remotes import object_names
from forestay.sync.remotes.object_names import PackName
from forestay.sync.session import Exchange

LOOK_THERE = "nothing of it was taken; look at the storage"
_MEND = (
    "nothing of it was taken; what it held is put there anew, on a device that has it, by:"
    " forestay sync --push {remote} --again"
)


READY, MEMORY = 16 << 20, 64 << 20
"""How many bytes of packs are kept until they are taken: as they were read, and as they came."""

Content = tuple[Row, list[Blob]]


class Opened(NamedTuple):
    """A pack that was found sound."""

    name: str
    size: int
    weight: int
    """How many bytes it holds."""
    claim: Claim
    stones: list[Sealed]
    erased: list[tuple[Header, str]]

    @property
    def packed(self) -> Packed:
        return Packed(self.name, *Stretch.of(self.claim), self.size, self.claim.tombstone)


class Refusal(NamedTuple):
    """A pack that lies there as it was put there, by someone who might not, or not so."""

    name: str
    error: ForestayError


class Opening:
    """Packs of one exchange."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange, self._session = exchange, exchange.session
        self._ready: dict[str, Content] = {}
        self._sealed: dict[str, bytes] = {}
        self._room = [READY, MEMORY]
        self._last: dict[str, Content] = {}
        """The one that was read again last: many may tell of events in the middle of one."""

    def read(self, name: PackName) -> Opened:
        """The pack that lies under a name."""
        return self.opened(name, self._exchange.trip.get(name.name))

    def judged(self, name: PackName, data: bytes) -> Opened | Refusal:
        """What came under it, or why it is refused; raises where the storage did not keep it."""
        try:
            return self.opened(name, data)
        except (Tampered, NotEntitled) as error:
            if not object_names.is_of(name.name, data):
                raise
            return Refusal(name.name, error)

    def content(self, one: Opened) -> Content:
        """What is in a pack: as it was kept, or read again."""
        if kept := self._ready.get(one.name) or self._last.get(one.name):
            return kept
        name = object_names.as_pack(one.name)
        if name is None:
            raise Tampered("a pack has no name", why=one.name)
        data = self._sealed.get(one.name)
        data = self._exchange.trip.get(one.name) if data is None else data
        self._last = {one.name: self._read(name, data)[1]}
        return self._last[one.name]

    def let_go(self, one: Opened) -> None:
        """It was taken, and is not asked for again."""
        self._ready.pop(one.name, None)
        self._sealed.pop(one.name, None)
        self._last.pop(one.name, None)

    def opened(self, name: PackName, data: bytes) -> Opened:
        one, content = self._read(name, data)
        self._keep(one, content, data)
        return one

    def _keep(self, one: Opened, content: Content, data: bytes) -> None:
        if one.weight <= self._room[0]:
            self._ready[one.name] = content
            self._room[0] -= one.weight
        elif one.size <= self._room[1]:
            self._sealed[one.name] = data
            self._room[1] -= one.size

    def _read(self, name: PackName, data: bytes) -> tuple[Opened, Content]:
        is_kept = object_names.hash_of(data) == name.hash
        claim, body = self._unsealed(name, data, is_kept)
        self._require_place(name, claim, is_kept)
        if not is_kept:
            raise self._replayed(name.name, is_kept)
        row, blobs = self._loaded(claim, body)
        stones, erased = [], []
        if not STONES.isdisjoint(row.kinds) or any(one.data is None for one in row.range.events):
            for sealed, header, hash in zip(row.range.events, row.headers, row.hashes, strict=True):
                if header.kind in STONES:
                    stones.append(sealed)
                elif sealed.data is None:
                    erased.append((header, hash))
        weight = sum(len(one.header) + len(one.data or b"") for one in row.range.events)
        weight += sum(len(blob.data) for blob in blobs)
        one = Opened(name.name, len(data), weight, claim, stones, erased)
        return one, (row, blobs)

    def _unsealed(self, name: PackName, data: bytes, is_kept: bool) -> tuple[Claim, bytes]:
        try:
            return self._exchange.keys.open(name, data)
        except Locked:
            if is_kept and not self._exchange.trip.is_elsewhere(name):
                raise
            why = f"{name.name} is sealed to the key of another session"
            raise self._swapped(why, is_kept) from None
        except Tampered as error:
            if type(error) is Tampered and not is_kept:
                raise Tampered(
                    "a pack is not as it was put there",
                    why=f"the bytes of {name.name} changed; {error}",
                    hint=self._hint(is_kept),
                    session=self._session,
                ) from error
            raise

    def _require_place(self, name: PackName, claim: Claim, is_kept: bool) -> None:
        if claim.session != self._session:
            raise self._swapped(f"{name.name} belongs to another session", is_kept)
        if self._exchange.keys.chain(claim.device) != name.chain:
            raise self._swapped(f"{name.name} is of device {claim.device}", is_kept)
        if (claim.first, claim.last) != (name.first, name.last):
            why = f"{name.name} has the events {claim.first} to {claim.last}"
            raise self._replayed(why, is_kept)

    def _swapped(self, why: str, is_kept: bool) -> Swapped:
        what = "a pack lies where another belongs"
        return Swapped(what, why=why, hint=self._hint(is_kept), session=self._session)

    def _replayed(self, why: str, is_kept: bool) -> Replayed:
        what = "an old pack lies under a new name"
        return Replayed(what, why=why, hint=self._hint(is_kept), session=self._session)

    def _hint(self, is_kept: bool) -> str:
        """What helps: whose bytes are not those that got its name, can be put there anew."""
        return LOOK_THERE if is_kept else _MEND.format(remote=self._exchange.trip.known.name)

    def _loaded(self, claim: Claim, body: bytes) -> tuple[Row, list[Blob]]:
        try:
            row, blobs = load(body, name=f"a pack of {self._session}")
        except (Damaged, InvalidInput) as error:
            raise Tampered("a pack is not sound", why=str(error), session=self._session) from error
        told = (claim.session, claim.device, claim.first, claim.last, claim.before, claim.after)
        held = row.range
        if told != (held.session, held.device, held.first, held.last, held.before, row.hashes[-1]):
            why = "it holds something else than it claims"
            raise Tampered("a pack is not sound", why=why, session=self._session)
        return row, blobs
