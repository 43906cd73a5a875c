"""Push: seal the events that a remote lacks into packs and upload them.

All packs but the last are uploaded at the same time, and the last one after them. Only the last one
reports the new heads, so an interrupted push does not look like a loss of data on the remote.

`PackReplacement` replaces packs by others that cover the same range: packs that hold forgotten
content by *erased twins*, which name a tombstone, and many small packs by few. The new packs are
uploaded before the old ones are deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from forestay.errors import NotEntitled, Tampered
from forestay.journal.projections import as_sealed
from forestay.model import event as ev
from forestay.model.erasure import KINDS as STONES
from forestay.model.erasure import Tombstones
from forestay.store.machine.remotes import Packed
from forestay.store.port import Stored, View
from forestay.sync import pack_builder
from forestay.sync.crypto import key_text
from forestay.sync.pack_builder import EncodedPack, PendingPack
from forestay.sync.plan import Pack, Stretch, crowded, heads_of, root
from forestay.sync.pull import PackReader, SessionPull
from forestay.sync.remotes import object_names
from forestay.sync.session import IMPORTED, Exchange

_UNSHARE = (
    "the log calls the writer of both unknown; to put them out: forestay share remove {session} WHO"
)
_EXPORT = (
    "it stays here and goes to other remotes; to give the others all of it:"
    " forestay --session {session} backup export FILE, and each of them:"
    " forestay backup import FILE"
)


class SessionPush:
    """What is here of one exchange, pushed."""

    def __init__(self, exchange: Exchange, pull: SessionPull) -> None:
        self._exchange, self._pull = exchange, pull
        self._transfer, self._outcome = exchange.transfer, exchange.outcome
        self._last: PendingPack | None = None
        self._left = 0
        """How many events were not pushed, because they are not this person's to push."""
        self._stay: set[str] = set()
        self._unconfirmed = self._transfer.store.machine.remotes.unconfirmed()
        self._doubtful = 0
        self._imported: set[str] = set()
        self._unsigned: set[str] = set()
        self._is_of_others = not exchange.is_own_session

    def push(self) -> None:
        """Put there what the remote lacks. What it has of the same chains is taken first."""
        exchange = self._exchange
        if self._transfer.again:
            self._drop_changed()
        if self._has_more_of_ours() or exchange.plan().gone:
            self._pull.pull()
        self._unsigned = exchange.unsigned()
        with self._transfer.store.view(exchange.session) as view:
            after = self._mark(view)
            met = self._outcome.packs_down > 0 and exchange.is_erased(view)
            anew = self._transfer.again or bool(self._unsigned)
            if after == view.seq and not anew and not met:
                return
            after = 0 if anew else after
            stone = self._newest_stone(view)
            self._transfer.expect("up", view.seq - after)
            self._send(self._ours(view, self._lacking(view, after)), stone)
            if self._outcome.stay:
                return
            replacing = PackReplacement(exchange, view, stone)
            if stone and _has_stones(view, after):
                replacing.replace_erased()
            replacing.merge_small_packs()
            (last,) = view.events(after=view.seq - 1, limit=1)
            mark = exchange.mark(view.seq, as_sealed(last).hash)
            if self._left:
                # They wait for whoever wrote them, or until it shows that they are ours.
                mark = exchange.mark(beyond=view.seq - self._left)
        sent = [one for one in exchange.sent if one.name in exchange.known]
        exchange.remember(mark, found=sent, gone=exchange.gone)
        self._require_own_place()

    def _drop_changed(self) -> None:
        """Packs of ours that are not as they were put there go: what they held goes there anew."""
        exchange = self._exchange
        known = [exchange.known[name] for name in exchange.packs if name in exchange.known]

        def changed(one: Packed) -> Packed | None:
            return None if object_names.is_of(one.name, self._transfer.get(one.name)) else one

        ours = [one for one in known if exchange.is_ours(one.device)]
        for bad in self._transfer.run_parallel(changed, ours):
            if bad is not None:
                exchange.delete(bad)

    def _require_own_place(self) -> None:
        """What this device wrote and cannot push must not wait in silence."""
        if self._doubtful:
            raise NotEntitled(
                f"what came in a file of session {self._exchange.session}, under an id of yours,"
                " is not pushed in your name",
                why="anyone can write that into a file",
                hint="if the file is yours: forestay backup restore FILE",
                session=self._exchange.session,
            )
        exchange = self._exchange
        mine = self._transfer.identity.circle.id
        for device in self._stay & self._transfer.own:
            if exchange.owners.get(device, mine) != mine:
                raise self._taken(device, "cannot follow", _EXPORT)

    def _taken(self, device: str, what: str, hint: str) -> Tampered:
        session, holder = self._exchange.session, self._exchange.owners[device]
        return Tampered(
            "someone else put events under an id of this device there",
            why=f"they are signed by {key_text.grouped(holder)}, and what was recorded here"
            f" under it {what}",
            hint=hint.format(session=session),
            session=session,
        )

    def _has_more_of_ours(self) -> bool:
        """Whether the remote has packs of chains that are held here, and nobody looked at them.

        Then a copy of this home went on elsewhere, or another device carried them there.
        """
        exchange = self._exchange
        unknown = [one for name, one in exchange.packs.items() if name not in exchange.known]
        chains = {exchange.keys.chain(device) for device in exchange.ends} if unknown else set()
        return any(one.chain in chains for one in unknown)

    def _mark(self, view: View) -> int:
        """Up to which arrival number all is there, if the journal is still the one it was."""
        there = self._exchange.there
        if not 0 < there.pushed <= view.seq:
            return 0
        found = list(view.events(after=there.pushed - 1, limit=1))
        return there.pushed if [as_sealed(one).hash for one in found] == [there.hash] else 0

    def _newest_stone(self, view: View) -> str:
        """The hash of the last tombstone: what is erased was forgotten by it, or before."""
        for stored in view.events(newest=True) if self._exchange.is_erased(view) else ():
            if _is_stone(stored):
                return as_sealed(stored).hash
        return ""

    def _lacking(self, view: View, after: int) -> Iterator[PendingPack]:
        forked = [device for device, heads in self._exchange.ends.items() if len(heads) > 1]
        there = [one for one in self._exchange.stretches if one.device not in self._unsigned]
        covered = pack_builder.coverage(view, there, forked)
        return pack_builder.build_packs(self._transfer.store, view, covered, after=after)

    def _ours(self, view: View, found: Iterable[PendingPack]) -> Iterator[PendingPack]:
        stay = self._stay
        for one in found:
            device = one.stretch.device
            is_foreign = self._exchange.is_foreign(one.stretch, view)
            if is_foreign and self._is_of_others:
                self._left += len(one.events)
                continue
            if device in stay or not self._exchange.is_ours(device) or self._is_cut(view, one):
                stay.add(device)
            elif self._is_unconfirmed(one):
                self._doubtful += 1
                stay.add(device)
            elif self._exchange.is_parallel(device) and not self._is_apart(view, one):
                stay.add(device)
            if device in stay:
                self._left += len(one.events)
                continue
            if self._exchange.is_imported(device):
                self._imported.add(device)
            yield one

    def _is_apart(self, view: View, parcel: PendingPack) -> bool:
        """Whether it is of a branch that shares no event with what someone else holds there.

        Nobody goes on with what someone else signed; such a branch others take beside theirs.
        """
        exchange, device = self._exchange, parcel.stretch.device
        links = pack_builder.links_of(view, {device})
        there = {root(one.after, links) for one in exchange.stretches if one.device == device}
        first = root(parcel.stretch.after, links)
        if first in there - exchange.parallel.keys():
            return False
        if first not in exchange.parallel:
            exchange.record_parallel({first: device})
            self._outcome.noticed.append(self._taken(device, "was put there beside it", _UNSHARE))
        return True

    def _is_unconfirmed(self, parcel: PendingPack) -> bool:
        """Whether it would become our word what only a file says."""
        if not self._unconfirmed or self._exchange.is_imported(parcel.stretch.device):
            return False
        return not self._unconfirmed.isdisjoint(as_sealed(one).hash for one in parcel.events)

    def _is_cut(self, view: View, parcel: PendingPack) -> bool:
        """Whether content is missing that nobody may have erased: a file can come without it.

        Whoever looked at it there would call it tampering.
        """
        blank = [as_sealed(one) for one in parcel.events if one.data is None]
        if not blank:
            return False
        stones = Tombstones(ev.read(as_sealed(one)) for one in view.events() if _is_stone(one))
        heads = [(ev.parse_header(one.header), one.hash) for one in blank]
        said = [(head, hash) for head, hash in heads if head.kind not in STONES]
        return not all(stones.erase(*one, self._exchange.may_erase) for one in said)

    def _send(self, found: Iterator[PendingPack], stone: str) -> None:
        """All but the last side by side; the last one, which tells of all, when they are there."""
        exchange, self._last = self._exchange, next(found, None)
        if self._last is None:
            return
        if exchange.keys.is_to_read:
            self._outcome.stay = sum(len(one.events) for one in (self._last, *found))
            return
        # Events are read on while the keys are put there; no pack is before them.
        now = self._transfer.clock.now()
        keys = self._transfer.pool.submit(exchange.keys.prepare, self._transfer.put, now)
        # Only what was there before: whoever reads these may not see the others yet.
        before = heads_of(exchange.stretches)

        def put(one: EncodedPack) -> Packed:
            keys.result()
            return exchange.put(one, before, stone, now)

        for done in self._transfer.run_parallel(put, self._all_but_the_last(found)):
            exchange.note(done)
        keys.result()
        heads = heads_of([*exchange.stretches, self._last.stretch])
        exchange.note(exchange.put(self._last.ready(), heads, stone, now))
        exchange.meet(())
        self._transfer.store.machine.remotes.record_writers(dict.fromkeys(self._unsigned, ""))
        exchange.record_unsigned(set(), self._unsigned - self._stay)
        self._transfer.store.machine.remotes.record_writers(dict.fromkeys(self._imported, IMPORTED))

    def _all_but_the_last(self, found: Iterable[PendingPack]) -> Iterator[EncodedPack]:
        for one in found:
            before, self._last = self._last, one
            if before is not None:
                yield before.ready()


def _has_stones(view: View, after: int) -> bool:
    """Whether a tombstone came after what is known to be there, and was heeded there."""
    return any(map(_is_stone, view.events(after=after)))


def _is_stone(stored: Stored) -> bool:
    return b".forgotten" in stored.header


class PackReplacement:
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
            there = PackReader(self._exchange).read(found).erased
            looked[one.name] = bool(numbers - {header.n for header, _ in there})
        return looked[one.name]

    def merge_small_packs(self) -> None:
        """Many small packs of this device's chain become few; a sync now and then leaves many."""
        known, device = self._exchange.known, self._view.device
        mine = [one for one in known.values() if one.device == device]
        if self._exchange.is_forked(device):
            return
        for one in [one for one in mine if any(self._is_superseded(one, other) for other in mine)]:
            self._exchange.delete(one)
        left = [Pack(one.name, one.size, Stretch.of(one)) for one in mine if one.name in known]
        for row in crowded(left):
            self._replace([known[pack.name] for pack in row])

    def _is_superseded(self, one: Packed, other: Packed) -> bool:
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
        return found is not None and not PackReader(self._exchange).read(found).claim.imported

    def _replace(self, old: Sequence[Packed]) -> None:
        """Put what some packs cover there once more, then take the old ones away."""
        exchange, (first, last) = self._exchange, (old[0], old[-1])
        covered = Stretch(first.device, first.first, last.last, first.before, last.after)
        now = exchange.transfer.clock.now()
        exchange.keys.prepare(exchange.transfer.put, now)
        heads = heads_of(exchange.stretches)
        for one in list(pack_builder.stretch_of(exchange.transfer.store, self._view, covered)):
            exchange.is_foreign(one.stretch, self._view)
            exchange.note(exchange.put(one.ready(), heads, self._stone, now), again=True)
        for pack in old:
            exchange.delete(pack)


def _is_inside(one: Packed, other: Packed) -> bool:
    """Whether another pack covers all of it."""
    is_other = other.name != one.name and other.tombstone == one.tombstone
    return is_other and other.first <= one.first and one.last <= other.last
