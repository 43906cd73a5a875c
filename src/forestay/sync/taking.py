"""Taking: packs that were found sound go into the journal, and never around it.

What waits for an event that is not there yet is left for the next time. What another device
forgot is heeded here too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from forestay.journal import restore
from forestay.journal.pack import Blob
from forestay.journal.projections import as_sealed
from forestay.model.erasure import KINDS as STONES
from forestay.model.erasure import WHOLE
from forestay.model.event import Header
from forestay.model.merge import place
from forestay.store.machine.remotes import There
from forestay.store.port import View
from forestay.sync.looking import Looking
from forestay.sync.opening import MEMORY, Opened, Opening
from forestay.sync.pack_codec import Row
from forestay.sync.plan import Stretch
from forestay.sync.session import Exchange

AT_ONCE = 20_000
"""How many events are taken in one go, about."""


class Taking:
    """What the remote of one exchange has, taken."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange, self._trip = exchange, exchange.trip
        self._session, self._moved = exchange.session, exchange.moved
        self._opening = Opening(exchange)
        self._looking = Looking(exchange, self._opening)
        self._heeds = False

    def pull(self) -> None:
        """Look, and take what is new."""
        opened = self._looking.look()
        gone = self._exchange.plan().gone
        seq = self._seq()
        disputes = self._disputes()
        left = self._take(sorted(opened, key=lambda one: (one.claim.made, one.claim.first)))
        if self._moved.new and self._is_forgotten():
            self._moved.new = False  # there is nothing that could be taken up
        taken = [one for one in opened if one.name not in left]
        self._moved.packs_down = len(taken)
        self._moved.bytes_down = sum(one.size for one in taken)
        self._moved.loose = len(left)
        self._moved.disputes = max(self._disputes() - disputes, 0)
        for one in taken:
            self._exchange.known[one.name] = one.packed
        for name in gone:
            del self._exchange.known[name]
        self._look_for_erased(taken)
        if opened or gone or self._exchange.keys.epoch != self._exchange.there.epoch:
            self._exchange.meet([one.claim for one in taken])
            found = [one.packed for one in taken]
            self._exchange.remember(self._mark_after(seq), found=found, gone=gone)

    def _seq(self) -> int:
        seq = self._exchange.here(lambda view: view.seq, 0)
        self._moved.new = self._moved.new or not seq
        return seq

    def _is_forgotten(self) -> bool:
        where = {"id": self._session, "forgotten": 1}
        return bool(self._trip.store.catalogue(where=where, limit=1))

    def _disputes(self) -> int:
        state = self._trip.journal.state
        return self._exchange.here(lambda view: state(view).count("dispute.open"), 0)

    def _take(self, opened: Sequence[Opened]) -> set[str]:
        """Take packs through the journal; returns the names of those that wait for others."""
        late = [one for lot in _lots(opened) for one in self._absorb(lot)]
        before = -1
        while late and before != self._moved.down:
            before = self._moved.down
            late = [one for lot in _lots(late) for one in self._absorb(lot)]
        return {one.name for one in late}

    def _absorb(self, opened: Sequence[Opened]) -> list[Opened]:
        """Take what can be taken of these packs; returns those that are not wholly taken."""
        if not opened:
            return []
        whole = [self._opening.content(one) for one in opened]
        late = self._merge([row for row, _ in whole], [blob for _, some in whole for blob in some])
        left = [
            one
            for one, (row, _) in zip(opened, whole, strict=True)
            if late and not late.isdisjoint(row.hashes)
        ]
        done = [one for one in opened if one not in left]
        for one in done:
            self._opening.let_go(one)
        packed = [one.packed for one in done]
        self._trip.store.machine.remotes.pushed(self._trip.known, self._session, packed)
        return left

    def _merge(self, rows: Sequence[Row], blobs: Sequence[Blob]) -> set[str]:
        """Give events to the journal; returns the hashes of those that wait for others."""
        content = list({blob.digest: blob.data for blob in blobs}.items())
        arrived = [one for row in rows for one in row.events()]
        kinds = set[str]().union(*(row.kinds for row in rows))
        if WHOLE in kinds:
            arrived = [one for one in arrived if not self._is_foreign_end(one[1])]
            kinds = {head.kind for _, head, _ in arrived}
        self._heed(kinds)
        if len({row.range.device for row in rows}) > 1:
            arrived.sort(key=lambda one: place(*one[1:]))
        journal = self._trip.journal
        if journal.append_in_order(self._session, arrived, content):
            self._moved.down += len(arrived)
            return set()
        entitled, sealed = self._exchange.may_erase, [one for one, _, _ in arrived]
        taken = restore.merge_events(journal, self._session, sealed, content, entitled=entitled)
        self._moved.down += taken.new
        return {one.hash for one in taken.left}

    def _is_foreign_end(self, head: Header) -> bool:
        """Whether someone forgot their copy of a session of others: for these it goes on.

        Nothing comes after it in its chain, so nothing else is left out with it.
        """
        return head.kind == WHOLE and not self._exchange.may_erase(head.device, "")

    def _heed(self, kinds: set[str]) -> None:
        if not STONES.isdisjoint(kinds):
            self._heeds = True
            if self._trip.obey is not None:
                self._moved.after.append(self._trip.obey(self._session))

    def _look_for_erased(self, taken: Sequence[Opened]) -> None:
        """Whether packs still hold what was forgotten: whoever put them there did not know."""
        exchange = self._exchange

        def read(view: View) -> None:
            gone = exchange.erased_in(view) if taken and exchange.is_erased(view) else {}
            for one in taken:
                there = {header.n for header, _ in one.erased}
                if exchange.may_replace(one.claim.device):
                    held = Stretch.of(one.claim).covered(gone) - there
                    exchange.holds_erased[one.name] = bool(held)

        exchange.here(read, None)

    def _mark_after(self, seq: int) -> There:
        """How far the session is there after events were taken from there."""
        exchange, there = self._exchange, self._exchange.there
        beyond = there.beyond + self._moved.down
        if any(exchange.holds_erased.values()):
            # Nothing counts as done before these packs are replaced.
            return exchange.mark(beyond=there.pushed + beyond)
        if not self._heeds and there.pushed + there.beyond == seq and self._moved.down:
            all_of_it = exchange.here(lambda view: self._end(view, seq + self._moved.down), None)
            if all_of_it is not None:
                return exchange.mark(*all_of_it)
        return exchange.mark(there.pushed, there.hash, beyond)

    def _end(self, view: View, seq: int) -> tuple[int, str] | None:
        """The last number and its hash, if nothing was written here meanwhile."""
        if view.seq != seq:
            return None
        (last,) = view.events(after=view.seq - 1, limit=1)
        return view.seq, as_sealed(last).hash


def _lots(opened: Sequence[Opened]) -> Iterator[list[Opened]]:
    """Packs that are taken together: so many that it is worth it, so few that there is room."""
    lot: list[Opened] = []
    count = weight = 0
    for one in opened:
        if lot and (count >= AT_ONCE or weight + one.weight > MEMORY):
            yield lot
            lot, count, weight = [], 0, 0
        lot.append(one)
        count += one.claim.last - one.claim.first + 1
        weight += one.weight
    yield lot
