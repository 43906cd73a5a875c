"""Replacing: packs on a remote give way to others that cover the same range.

Those that hold what was forgotten become their *erased twins*, which name a tombstone; many
small ones become few. What is new is put there before the old is taken away.
"""

from __future__ import annotations

from collections.abc import Sequence

from forestay.store.machine.remotes import Packed
from forestay.store.port import View
from forestay.sync import parcels
from forestay.sync.opening import Opening
from forestay.sync.plan import Pack, Stretch, crowded, heads_of
from forestay.sync.remotes import object_names
from forestay.sync.session import Exchange


class Replacing:
    """Packs of one exchange, made anew from a view; `stone` is the hash of its last tombstone."""

    def __init__(self, exchange: Exchange, view: View, stone: str) -> None:
        self._exchange, self._view, self._stone = exchange, view, stone

    def replace_erased(self) -> None:
        """Packs that hold what was forgotten become their erased twins."""
        exchange = self._exchange
        gone = exchange.erased_in(self._view)
        sent = {one.name for one in exchange.sent}
        for one in list(exchange.known.values()):
            inside = Stretch.of(one).covered(gone) if exchange.may_replace(one.device) else set()
            if inside and one.name not in sent and self._holds_any(one, inside):
                self._replace([one])

    def _holds_any(self, one: Packed, numbers: set[int]) -> bool:
        """Whether a pack holds the content of any of these events."""
        looked = self._exchange.holds_erased
        if one.name not in looked:
            found = object_names.as_pack(one.name)
            if not one.tombstone or found is None:
                return True  # without a tombstone nothing may be erased in it
            self._exchange.keys.ready()
            there = Opening(self._exchange).read(found).erased
            looked[one.name] = bool(numbers - {header.n for header, _ in there})
        return looked[one.name]

    def put_together(self) -> None:
        """Many small packs of this device's chain become few; a sync now and then leaves many."""
        known, device = self._exchange.known, self._view.device
        mine = [one for one in known.values() if one.device == device]
        if self._exchange.is_forked(device):
            return
        for one in [one for one in mine if any(self._gives_way(one, other) for other in mine)]:
            self._exchange.delete(one)
        left = [Pack(one.name, one.size, Stretch.of(one)) for one in mine if one.name in known]
        for row in crowded(left):
            self._replace([known[pack.name] for pack in row])

    def _gives_way(self, one: Packed, other: Packed) -> bool:
        """Whether one pack is left over, of a replacement that was interrupted, beside another.

        What was imported of this chain tells nobody whose it is, so it gives way to what is signed.
        """
        if not _is_inside(one, other):
            return False
        is_signed, is_other = self._is_signed(one), self._is_signed(other)
        if is_signed != is_other:
            return is_other
        return (one.first, one.last) != (other.first, other.last) or other.name > one.name

    def _is_signed(self, one: Packed) -> bool:
        found = object_names.as_pack(one.name)
        self._exchange.keys.ready()
        return found is not None and not Opening(self._exchange).read(found).claim.imported

    def _replace(self, old: Sequence[Packed]) -> None:
        """Put what some packs cover there once more, then take the old ones away."""
        exchange, (first, last) = self._exchange, (old[0], old[-1])
        covered = Stretch(first.device, first.first, last.last, first.before, last.after)
        now = exchange.trip.clock.now()
        exchange.keys.prepare(exchange.trip.put, now)
        heads = heads_of(exchange.stretches)
        for one in list(parcels.stretch_of(exchange.trip.store, self._view, covered)):
            exchange.is_foreign(one.stretch, self._view)
            exchange.note(exchange.put(one.ready(), heads, self._stone, now), again=True)
        for pack in old:
            exchange.delete(pack)


def _is_inside(one: Packed, other: Packed) -> bool:
    """Whether another pack covers all of it."""
    is_other = other.name != one.name and other.tombstone == one.tombstone
    return is_other and other.first <= one.first and one.last <= other.last
