"""Push a session: encrypt the events that a remote lacks into packs and upload them.

All packs but the last are uploaded in parallel, and the last one after them. Only the last one
reports the new heads, so an interrupted push does not look like a loss of data on the remote.

`PackReplacement` replaces packs by others that cover the same range: packs with forgotten content
by *erased twins*, which name a tombstone instead, and many small packs by few. The new packs are
uploaded before the old ones are deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from forestay.errors import NotEntitled, Tampered
from forestay.journal.projections import as_sealed
from forestay.model import event as ev
from forestay.model.erasure import KINDS as STONES
from forestay.model.erasure import Tombstones
from forestay.store.machine.remotes import KEY_CHANGE, UNSHARE, Packed
from forestay.store.port import Stored, View
from forestay.sync import pack_builder
from forestay.sync.crypto import key_ring, key_text
from forestay.sync.pack_builder import EncodedPack, PendingPack
from forestay.sync.plan import Pack, Stretch, crowded, heads_of, root
from forestay.sync.pull import PackReader, SessionPull
from forestay.sync.remotes import object_names
from forestay.sync.session import IMPORTED, Exchange

_UNSHARE = (
    "`forestay log` shows the writer of both branches as unknown; to remove the other person:"
    " forestay share remove {session} WHO"
)
_EXPORT = (
    "the session stays here and is pushed to other remotes; to give the other members all of it:"
    " forestay --session {session} backup export FILE; then each of them runs:"
    " forestay backup import FILE"
)


class SessionPush:
    """Push one session."""

    def __init__(self, exchange: Exchange, pull: SessionPull) -> None:
        self._exchange, self._pull = exchange, pull
        self._transfer, self._outcome = exchange.transfer, exchange.outcome
        self._last: PendingPack | None = None
        self._left = 0
        """The number of events that were not pushed because this user is not allowed to."""
        self._stay: set[str] = set()
        self._unconfirmed = self._transfer.remotes.unconfirmed()
        self._doubtful = 0
        self._imported: set[str] = set()
        self._unsigned: set[str] = set()
        self._is_of_others = not exchange.is_own_session

    def push(self) -> None:
        """Upload the events that the remote lacks; first pull new packs of local chains."""
        exchange = self._exchange
        if self._transfer.again:
            self._drop_changed()
        if self._has_more_of_ours() or exchange.plan().gone:
            self._pull.pull()
        self._unsigned = exchange.unsigned()
        with self._transfer.store.view(exchange.session) as view:
            after = self._mark(view)
            met = self._outcome.packs_down > 0 and exchange.is_erased(view)
            is_all = self._transfer.again or bool(self._unsigned)
            if after == view.seq and not is_all and not met:
                return
            after = 0 if is_all else after
            stone = self._newest_stone(view)
            self._transfer.expect("up", view.seq - after)
            forked = [device for device, heads in exchange.ends.items() if len(heads) > 1]
            pushed = [one for one in exchange.stretches if one.device not in self._unsigned]
            covered = pack_builder.coverage(view, pushed, forked)
            lacking = pack_builder.build_packs(self._transfer.store, view, covered, after=after)
            self._send(self._ours(view, lacking), stone)
            if self._outcome.stay:
                return
            replacing = PackReplacement(exchange, view, stone)
            if stone and any(map(_is_stone, view.events(after=after))):
                replacing.replace_erased()
            replacing.merge_small_packs()
            (last,) = view.events(after=view.seq - 1, limit=1)
            mark = exchange.mark(view.seq, as_sealed(last).hash)
            if self._left:
                # These events stay here until their author pushes them, or the user proves that
                # they are the user's own.
                mark = exchange.mark(beyond=view.seq - self._left)
        sent = [one for one in exchange.sent if one.name in exchange.known]
        exchange.remember(mark, found=sent, gone=exchange.gone)
        self._require_own_place()

    def _drop_changed(self) -> None:
        """Delete own packs whose bytes changed on the remote; their events are pushed again."""
        exchange = self._exchange
        known = [exchange.known[name] for name in exchange.packs if name in exchange.known]

        def changed(one: Packed) -> Packed | None:
            return None if object_names.is_of(one.name, self._transfer.get(one.name)) else one

        ours = [one for one in known if exchange.is_ours(one.device)]
        for bad in self._transfer.run_parallel(changed, ours):
            if bad is not None:
                exchange.delete(bad)

    def _require_own_place(self) -> None:
        """Raise if events under an id of this device cannot be pushed as the user's own."""
        if self._doubtful:
            raise NotEntitled(
                f"imported events of session {self._exchange.session} with the id of one of your"
                " devices were not pushed",
                why="a file does not prove who wrote them",
                hint="if the file is yours: forestay backup restore FILE",
                session=self._exchange.session,
            )
        exchange, mine = self._exchange, self._transfer.identity.group.id
        for device in self._stay & self._transfer.own:
            if exchange.owners.get(device, mine) != mine:
                raise self._taken(device, "cannot be pushed", _EXPORT)

    def _taken(self, device: str, what: str, hint: str) -> Tampered:
        session, holder = self._exchange.session, self._exchange.owners[device]
        return Tampered(
            "another person pushed events under the id of this device",
            why=f"they are signed by {key_text.grouped(holder)}; the events recorded here under"
            f" this id {what}",
            hint=hint.format(session=session),
            session=session,
        )

    def _has_more_of_ours(self) -> bool:
        """Return whether the remote has unread packs of local chains.

        If so, a copy of this home is in use elsewhere, or another device pushed them.
        """
        exchange = self._exchange
        unknown = [one for name, one in exchange.packs.items() if name not in exchange.known]
        chains = {exchange.keys.chain(device) for device in exchange.ends} if unknown else set()
        return any(one.chain in chains for one in unknown)

    def _mark(self, view: View) -> int:
        """Return the arrival number up to which the remote has all events; 0 if unknown."""
        mark = self._exchange.last_mark
        if not 0 < mark.pushed <= view.seq:
            return 0
        found = list(view.events(after=mark.pushed - 1, limit=1))
        return mark.pushed if [as_sealed(one).hash for one in found] == [mark.hash] else 0

    def _newest_stone(self, view: View) -> str:
        """Return the hash of the last tombstone: all erasures are at or before it."""
        for stored in view.events(newest=True) if self._exchange.is_erased(view) else ():
            if _is_stone(stored):
                return as_sealed(stored).hash
        return ""

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
        """Return whether a pack's branch shares no event with another person's branch.

        A person cannot append to events that another person signed, but can push a separate branch.
        """
        exchange, device = self._exchange, parcel.stretch.device
        links = pack_builder.links_of(view, {device})
        roots = {root(one.after, links) for one in exchange.stretches if one.device == device}
        first = root(parcel.stretch.after, links)
        if first in roots - exchange.parallel.keys():
            return False
        if first not in exchange.parallel:
            exchange.record_parallel({first: device})
            self._outcome.noticed.append(
                self._taken(device, "were pushed as a separate branch", _UNSHARE)
            )
        return True

    def _is_unconfirmed(self, parcel: PendingPack) -> bool:
        """Return whether a pack has events from a file that the user has not confirmed as own."""
        if not self._unconfirmed or self._exchange.is_imported(parcel.stretch.device):
            return False
        return not self._unconfirmed.isdisjoint(as_sealed(one).hash for one in parcel.events)

    def _is_cut(self, view: View, parcel: PendingPack) -> bool:
        """Return whether a pack lacks content that no tombstone covers, as in an incomplete file.

        Other devices would report such a pack as tampering.
        """
        blank = [as_sealed(one) for one in parcel.events if one.data is None]
        if not blank:
            return False
        stones = Tombstones(ev.read(as_sealed(one)) for one in view.events() if _is_stone(one))
        heads = [(ev.parse_header(one.header), one.hash) for one in blank]
        content = [(head, hash) for head, hash in heads if head.kind not in STONES]
        return not all(stones.erase(*one, self._exchange.may_erase) for one in content)

    def _send(self, found: Iterator[PendingPack], stone: str) -> None:
        """Upload all packs but the last in parallel, then the last one, which reports the heads."""
        exchange, self._last = self._exchange, next(found, None)
        if self._last is None:
            return
        if exchange.keys.is_to_read:
            self._outcome.stay = sum(len(one.events) for one in (self._last, *found))
            return
        # Read events while the keys are uploaded; upload no pack before its keys are on the remote.
        now = self._transfer.clock.now()
        keys = self._transfer.pool.submit(exchange.keys.prepare, self._transfer.put, now)
        # Report only the earlier heads: a reader of these packs may not see the other packs yet.
        before = heads_of(exchange.stretches)

        def put(one: EncodedPack) -> Packed:
            keys.result()
            return exchange.put(one, before, stone, now)

        for done in self._transfer.run_parallel(put, self._all_but_the_last(found)):
            exchange.note(done)
        keys.result()
        heads = heads_of([*exchange.stretches, self._last.stretch])
        exchange.note(exchange.put(self._last.ready(), heads, stone, now))
        exchange.record_people(())
        self._transfer.remotes.record_writers(dict.fromkeys(self._unsigned, ""))
        exchange.record_unsigned(set(), self._unsigned - self._stay)
        self._transfer.remotes.record_writers(dict.fromkeys(self._imported, IMPORTED))

    def _all_but_the_last(self, found: Iterable[PendingPack]) -> Iterator[EncodedPack]:
        for one in found:
            before, self._last = self._last, one
            if before is not None:
                yield before.ready()


def rotate_keys_if_due(exchange: Exchange, pull: SessionPull) -> None:
    """Replace the keys of a session if a removed member or device may have them; push nothing.

    Decide from stored facts whether it is due, without any request. First pull new packs: the key
    change lists all packs on the remote, and packs of a lost device that are not listed would be
    ignored.
    """
    me, keys, transfer = exchange.transfer.identity, exchange.keys, exchange.transfer
    if not keys.epoch or keys.owner != me.group.id or not me.group.is_active(me.key.id):
        return
    # Members whose removal the user asked for while this remote was unreachable.
    owed = exchange.noted.get(UNSHARE, {})
    # The keys may be sealed to an older epoch of the user's devices.
    sealed_to = set(exchange.noted.get(KEY_CHANGE, {}).values())
    if not owed and sealed_to == {me.group.epoch.recipient}:
        return
    if exchange.plan().fetch:
        pull.pull()
    now = transfer.clock.now()
    keys.prepare(transfer.put, now)
    for group_id in owed:
        if keys.ready().member(group_id) is not None:
            keys.change_member(
                transfer.put, now, partial(key_ring.unshare, group_id=group_id, made=now)
            )
        else:  # an earlier attempt may have been interrupted
            keys.report_removal(transfer.put, group_id)
    mark = exchange.last_mark
    exchange.remember(exchange.mark(mark.pushed, mark.hash, mark.beyond))
    if owed:
        exchange.remotes.note(transfer.known, exchange.session, UNSHARE, {})


def _is_stone(stored: Stored) -> bool:
    return b".forgotten" in stored.header


class PackReplacement:
    """Replace packs of one session; `stone` is the hash of its last tombstone."""

    def __init__(self, exchange: Exchange, view: View, stone: str) -> None:
        self._exchange, self._view, self._stone = exchange, view, stone

    def replace_erased(self) -> None:
        """Replace each pack that has erased content by one without that content."""
        exchange = self._exchange
        gone = exchange.erased_in(self._view)
        sent = {one.name for one in exchange.sent}
        for one in list(exchange.known.values()):
            inside = Stretch.of(one).covered(gone) if exchange.may_replace(one.device) else set()
            if inside and one.name not in sent and self._holds_any(one, inside):
                self._replace([one])

    def _holds_any(self, one: Packed, numbers: set[int]) -> bool:
        """Return whether a pack has the content of any of these events."""
        known = self._exchange.holds_erased
        if one.name not in known:
            found = object_names.as_pack(one.name)
            if not one.tombstone or found is None:
                return True  # a pack that names no tombstone has the content of all its events
            self._exchange.keys.ready()
            erased = PackReader(self._exchange).read(found).erased
            known[one.name] = bool(numbers - {header.n for header, _ in erased})
        return known[one.name]

    def merge_small_packs(self) -> None:
        """Merge small packs of this device's chain: frequent syncs leave many."""
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
        """Return whether `other` replaces a pack that an interrupted replacement left behind.

        An imported pack names no author, so a signed pack replaces it.
        """
        is_other = other.name != one.name and other.tombstone == one.tombstone
        if not (is_other and other.first <= one.first and one.last <= other.last):
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
        """Upload the events of some packs again, then delete the old packs."""
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
