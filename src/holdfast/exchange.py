"""An exchange: one session and one remote, made equal as far as keys and honesty allow.

Words. To *look* is to read every pack that is new there, to check each against its name, its
seal and its claim, and all of them against what is known to be there; only then is anything
*taken*, through the journal and never around it. To *push* is to seal what the remote lacks and
put it there: all packs but the last at once, and the last one when they are there. It tells what
is now there, so a push that dies halfway is no lie of the storage: nobody was told of it.

Nothing here trusts the remote. What cannot be true is an error of its own; then nothing of the
session is taken, nothing that is remembered changes, and other sessions are not touched by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from functools import cached_property
from typing import NamedTuple, TypeVar

from holdfast import parcel, restore
from holdfast.bunch import Bunch, Identity, heads_of
from holdfast.clock import Clock
from holdfast.derived import as_sealed
from holdfast.errors import (
    Damaged,
    Forked,
    HoldfastError,
    InvalidInput,
    Locked,
    NoSession,
    NotThere,
    RemoteFailed,
    Replayed,
    RolledBack,
    Swapped,
    Tampered,
    Truncated,
)
from holdfast.journal import Journal
from holdfast.model import event as ev
from holdfast.model.event import Event, Sealed
from holdfast.model.merge import position
from holdfast.model.tombstone import KINDS as STONES
from holdfast.model.tombstone import WHOLE, Tombstones
from holdfast.model.travel import (
    Link,
    Missing,
    Pack,
    Plan,
    Stretch,
    Told,
    back,
    by_chain,
    crowded,
    missing,
    plan,
    whole,
)
from holdfast.pack import Blob
from holdfast.packed import Row, load
from holdfast.parcel import Parcel, Ready
from holdfast.remote import Object, Remote, code, names
from holdfast.remote.names import PackName
from holdfast.remote.sealed import Claim
from holdfast.store import View
from holdfast.store.remotes import Known, Packed, Reach, There
from holdfast.text import tame

MEMORY = 64 << 20
"""How many bytes of packs that were looked at are kept until they are taken."""
AT_ONCE = 20_000
"""How many events are taken in one go, about."""
PATIENCE = (0.2, 0.5, 1.0, 2.0)
"""How long to wait, each time, for a listing that is late."""
_AHEAD = 8
_NAME = 60
_LOOK_THERE = "nothing of it was taken; look at the storage"
_ENDED = "no longer shared with you"
_LATE = "a storage that lists late shows it after a while: try again"

Obey = Callable[[str], Callable[[], object]]

G = TypeVar("G")
T = TypeVar("T")


class Trip:
    """What all exchanges of one visit to a remote have in common."""

    def __init__(
        self,
        journal: Journal,
        known: Known,
        remote: Remote,
        identity: Identity,
        *,
        clock: Clock,
        pool: Executor,
        again: bool = False,
        patience: Sequence[float] = PATIENCE,
        tell: Callable[[str, int], None] | None = None,
        obey: Obey | None = None,
    ) -> None:
        """`again` puts there what the remote should have and lost; `tell` hears of bytes moved.

        `obey` is asked before tombstones are taken, and answers what is to be done when they were.
        """
        self.journal, self.store = journal, journal.store
        self.known, self.remote, self.identity = known, remote, identity
        self.clock, self.pool = clock, pool
        self.again, self.patience = again, patience
        self._tell = tell
        self.obey = obey
        self.stopped = False
        self._hashes: dict[str, set[str]] = {}

    def get(self, name: str) -> bytes:
        self.go_on()
        data = self.remote.get(name)
        self.told("down", len(data))
        return data

    def put(self, name: str, data: bytes) -> None:
        """Put an object there; one that lies under its name already must be the same."""
        self.go_on()
        if not self.remote.put(name, data) and self.remote.get(name) != data:
            raise RemoteFailed(
                "the remote does not keep what is put there",
                why=f"{name} holds other bytes than were written",
                hint=f"holdfast remote check {self.known.name}",
            )
        self.told("up", len(data))

    def shown(self, listed: Iterable[Object]) -> None:
        """What the remote lists, of all sessions: the same bytes belong to one place only."""
        for one in map(names.as_pack, (each.name for each in listed)):
            if one is not None:
                self._hashes.setdefault(one.hash, set()).add(one.place)

    def is_elsewhere(self, name: PackName) -> bool:
        """Whether the same bytes were seen in the place of another session."""
        same = self._hashes.get(name.hash, set()) | self.store.remotes.places(self.known, name.hash)
        return bool(same - {name.place})

    def told(self, way: str, size: int) -> None:
        if self._tell is not None:
            self._tell(way, size)

    def go_on(self) -> None:
        """Nothing new is begun once the user said stop."""
        if self.stopped:
            raise KeyboardInterrupt

    def side_by_side(self, act: Callable[[G], T], given: Iterable[G]) -> Iterator[T]:
        """The results of calls that wait for the remote, in their order, a few at a time."""
        waiting: list[Future[T]] = []
        for one in given:
            waiting.append(self.pool.submit(act, one))
            if len(waiting) >= _AHEAD:
                yield waiting.pop(0).result()
        for left in waiting:
            yield left.result()


class Opened(NamedTuple):
    """A pack that was found sound. Its content is kept while there is room, else read again."""

    name: str
    size: int
    claim: Claim
    row: Row | None
    blobs: list[Blob]
    stones: list[Sealed]
    erased: list[tuple[ev.Header, str]]

    @property
    def stretch(self) -> Stretch:
        claim = self.claim
        return Stretch(claim.device, claim.first, claim.last, claim.before, claim.after)

    @property
    def packed(self) -> Packed:
        return Packed(self.name, *self.stretch, self.size, self.claim.tombstone)


class Moved:
    """What became of one session."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.up = self.down = 0
        self.packs_up = self.packs_down = 0
        self.bytes_up = self.bytes_down = 0
        self.disputes = self.loose = self.replaced = 0
        self.new = False
        self.stay = 0
        """Events of this person that stay here, because it is shared with them to read."""
        self.ended = False
        """Whether it is no longer shared with this person; told once."""
        self.error: HoldfastError | None = None
        self.after: list[Callable[[], object]] = []
        """What is to be done in this home because of tombstones that were taken."""


class Exchange:
    """One session and one remote."""

    def __init__(self, trip: Trip, session: str, place: str, listed: Iterable[Object]) -> None:
        self.trip, self.session, self.place = trip, session, place
        self._device = trip.store.device
        self._sent: list[Packed] = []
        self._gone: list[str] = []
        self._heeds = False
        self._looked: dict[str, bool] = {}
        """Of packs that were read: whether they hold what is erased here."""
        remotes = trip.store.remotes
        self.there = remotes.session(trip.known, session) or There(session, place)
        self.known = {one.name: one for one in remotes.objects(trip.known, session)}
        self.reaches = remotes.chains(trip.known, session)
        self._listed = {one.name: one.size for one in listed}
        self.keys = Bunch(
            trip.identity,
            session,
            self._listed,
            get=trip.get,
            place=place,
            owner=self.there.owner,
        )
        self.moved = Moved(session)
        self._held: dict[tuple[str, int], set[str]] | None = None
        self._room = MEMORY
        self._owners = {one.device: one.circle for one in self.reaches if one.circle}
        self._elsewhere = remotes.owners(session)
        self._left = 0
        """How many events were not pushed, because they are not this person's to push."""
        self._names = {one.device: one.name for one in self.reaches if one.name}
        self.keys.require_epoch(self.there.epoch)

    # -- looking -------------------------------------------------------------------------------

    @property
    def _packs(self) -> dict[str, PackName]:
        found = map(names.as_pack, self._listed)
        return {one.name: one for one in found if one is not None}

    def look(self) -> list[Opened]:
        """Read what is new there and judge it; raises when the remote cannot be believed."""
        opened: dict[str, Opened] = {}
        for pause in (*self.trip.patience, None):
            found = self._plan()
            late = self._open(found, opened)
            lacking = self._lacking(found, opened.values())
            if not lacking and not late:
                return list(opened.values())
            if pause is None or (lacking and self.trip.again and self._have(lacking)):
                break
            self.trip.clock.sleep(pause)
            self._list_again()
        if lacking and not (self.trip.again and self._have(lacking)):
            raise self._lie(lacking)
        return list(opened.values())

    def _plan(self) -> Plan:
        known = {one.name: _stretch(one) for one in self.known.values()}
        return plan(self._packs, known)

    def _open(self, found: Plan, opened: dict[str, Opened]) -> bool:
        """Open what was not opened yet; True if something listed is not there after all."""
        packs, late = self._packs, False
        order = sorted((packs[name].first, name) for name in found.fetch if name not in opened)
        if order:
            self.keys.ready()

        def act(name: str) -> Opened | NotThere:
            try:
                return self._opened(packs[name], self.trip.get(name))
            except NotThere as gone:
                return gone  # whoever made it put several together meanwhile

        for one in self.trip.side_by_side(act, [name for _, name in order]):
            if isinstance(one, NotThere):
                late = True
            else:
                opened[one.name] = self._kept(one)
        for name in opened.keys() - set(found.fetch):
            del opened[name]
        self._require_owners(opened.values())
        self._require_tombstones(opened.values())
        return late

    def _opened(self, name: PackName, data: bytes) -> Opened:
        """A pack, checked against its name, its seal and its claim."""
        claim, body = self._unsealed(name, data)
        self._require_place(name, claim)
        if names.hash_of(data) != name.hash:
            raise Replayed("an old pack lies under a new name", why=name.name, session=self.session)
        row, blobs = self._read(claim, body)
        stones, erased = [], []
        for sealed, header, hash in zip(row.range.events, row.headers, row.hashes, strict=True):
            if header.kind in STONES:
                stones.append(sealed)
            elif sealed.data is None:
                erased.append((header, hash))
        return Opened(name.name, len(data), claim, row, blobs, stones, erased)

    def _unsealed(self, name: PackName, data: bytes) -> tuple[Claim, bytes]:
        try:
            return self.keys.open(name.name, data)
        except Locked:
            if names.hash_of(data) == name.hash and not self.trip.is_elsewhere(name):
                raise
            why = f"{name.name} is sealed to the key of another session"
            what = "a pack lies where another belongs"
            raise Swapped(what, why=why, hint=_LOOK_THERE, session=self.session) from None
        except Tampered as error:
            if type(error) is Tampered and names.hash_of(data) != name.hash:
                raise Tampered(
                    "a pack is not as it was put there",
                    why=f"its bytes changed; {error}",
                    hint=_LOOK_THERE,
                    session=self.session,
                ) from error
            raise

    def _require_place(self, name: PackName, claim: Claim) -> None:
        if claim.session != self.session:
            why = "it belongs to another session"
            raise Swapped("a pack lies where another belongs", why=why, session=self.session)
        if self.keys.chain(claim.device) != name.chain:
            why = f"it is of device {claim.device}"
            raise Swapped("a pack lies in another chain's place", why=why, session=self.session)
        if (claim.first, claim.last) != (name.first, name.last):
            why = f"events {claim.first} to {claim.last} under the name of others"
            raise Replayed("an old pack lies under a new name", why=why, session=self.session)

    def _read(self, claim: Claim, body: bytes) -> tuple[Row, list[Blob]]:
        try:
            row, blobs = load(body, name=f"a pack of {self.session}")
        except (Damaged, InvalidInput) as error:
            raise Tampered("a pack is not sound", why=str(error), session=self.session) from error
        told = (claim.session, claim.device, claim.first, claim.last, claim.before, claim.after)
        held = row.range
        if told != (held.session, held.device, held.first, held.last, held.before, row.hashes[-1]):
            why = "it holds something else than it claims"
            raise Tampered("a pack is not sound", why=why, session=self.session)
        return row, blobs

    def _kept(self, one: Opened) -> Opened:
        """As long as there is room what was read stays at hand."""
        self._room -= 2 * one.size
        return one if self._room > 0 else one._replace(row=None, blobs=[])

    def _lacking(self, found: Plan, opened: Iterable[Opened]) -> list[Missing]:
        opened = list(opened)
        told = [Told(one.device, one.n, one.hash, here=True) for one in self.reaches]
        for one in opened:
            told += [Told(device, *head) for device, head in one.claim.heads.items()]
        new = {one.stretch: one for one in opened}
        shown = [*found.there, *new]
        return missing(shown, dict.fromkeys(told), lambda on, n: self._on(on, n, new.get(on)))

    def _on(self, stretch: Stretch, n: int, opened: Opened | None) -> set[str]:
        """The hash of an event on a stretch: as the pack has it, or as what was taken of it has."""
        if opened is not None:
            row, _ = self._at_hand(opened)
            return {row.hashes[n - stretch.first]}
        held = self._hashes(stretch.device, n)
        return held if len(held) < 2 else held & set(back(stretch, self._links))

    def _hashes(self, device: str, n: int) -> set[str]:
        """The hashes of the events held here under a number; looked up only where it matters."""
        if self._held is None:
            self._held = {}
            for hash, (of, number, _) in self._links.items():
                self._held.setdefault((of, number), set()).add(hash)
        return self._held.get((device, n), set())

    @cached_property
    def _links(self) -> dict[str, Link]:
        return {hash: (one.device, one.n, one.prev) for one, hash in self._headers()}

    def _headers(self) -> list[tuple[ev.Header, str]]:
        try:
            with self.trip.store.view(self.session) as view:
                every = [as_sealed(stored) for stored in view.events()]
        except NoSession:
            return []
        return [(ev.parse_header(sealed.header), sealed.hash) for sealed in every]

    def _have(self, lacking: Sequence[Missing]) -> bool:
        return all(one.told.hash in self._hashes(one.told.device, one.told.n) for one in lacking)

    def _lie(self, lacking: Sequence[Missing]) -> Tampered:
        first = min(lacking, key=lambda one: (not one.instead, not one.told.here))
        told = first.told
        kind = Forked if first.instead else RolledBack if told.here else Truncated
        what = {
            Forked: "the remote shows another history than before",
            RolledBack: "the remote shows an older state than before",
            Truncated: "the remote does not show all that is there",
        }[kind]
        again = f"; to put it there again: holdfast push {self.trip.known.name} --again"
        return kind(
            what,
            why=f"of device {told.device} it has events up to {first.whole}, not {told.n}"
            if not first.instead
            else f"event {told.n} of device {told.device} is another one",
            hint=_LATE + (again if self._have(lacking) else ""),
            session=self.session,
        )

    def _require_owners(self, opened: Iterable[Opened]) -> None:
        """A chain belongs to whoever put its first pack there."""
        opened = list(opened)
        owners = dict(self._owners)
        for one in sorted(opened, key=lambda one: (one.claim.device, one.claim.first)):
            owner = owners.setdefault(one.claim.device, one.claim.circle)
            if owner != one.claim.circle:
                raise Tampered(
                    f"someone else wrote on with the chain of device {one.claim.device}",
                    why=f"it belongs to {owner[:20]}, this pack is of {one.claim.circle[:20]}",
                    session=self.session,
                )
        self._owners = owners
        told = ((one.claim.device, one.claim.name) for one in opened if one.claim.name)
        self._names |= {device: tame(name, limit=_NAME, lines=False) for device, name in told}

    def _require_tombstones(self, opened: Iterable[Opened]) -> None:
        """What is erased in a pack must have been forgotten by someone who may."""
        opened = list(opened)
        if not any(one.erased for one in opened):
            return
        stones = self._stones(sealed for one in opened for sealed in one.stones)
        for one in opened:
            for header, hash in one.erased:
                known = stones.erase(header, hash, self._may_erase)
                if not one.claim.tombstone or not known:
                    raise Tampered(
                        f"the content of event {header.device}:{header.n} is gone from its pack",
                        why="nobody who may forget it did",
                        hint=_LOOK_THERE,
                        session=self.session,
                    )

    def _stones(self, more: Iterable[Sealed]) -> Tombstones:
        """The tombstones that are held here or come with the packs."""
        try:
            with self.trip.store.view(self.session) as view:
                held = [as_sealed(one) for one in view.events() if b".forgotten" in one.header]
        except NoSession:
            held = []
        return Tombstones(map(ev.read, (*held, *more)))

    def _may_erase(self, device: str, of: str) -> bool:
        """Whether a device may have events of another erased: of its own person, or its session."""
        whose = self._whose(device)
        owner = self.keys.ring.owner.id if self.keys.ring else self.trip.identity.circle.id
        return bool(whose) and (whose == owner or (bool(of) and whose == self._whose(of)))

    def _whose(self, device: str) -> str:
        """The circle a chain belongs to, "" if nobody showed that it is theirs."""
        mine = self.trip.identity.circle.id if device == self._device else ""
        return self._owners.get(device) or self._elsewhere.get(device) or mine

    def _list_again(self) -> None:
        found = self.trip.remote.list(f"s/{self.place}/")
        self._listed = {one.name: one.size for one in found}
        self.keys.shown(self._listed)

    # -- taking --------------------------------------------------------------------------------

    def pull(self) -> None:
        """Look, and take what is new."""
        opened = self.look()
        gone = self._plan().gone
        seq = self._seq()
        disputes = self._disputes()
        left = self._take(sorted(opened, key=lambda one: (one.claim.made, one.claim.first)))
        taken = [one for one in opened if one.name not in left]
        self.moved.packs_down = len(taken)
        self.moved.bytes_down = sum(one.size for one in taken)
        self.moved.loose = len(left)
        self.moved.disputes = max(self._disputes() - disputes, 0)
        for one in taken:
            self.known[one.name] = one.packed
        for name in gone:
            del self.known[name]
        self._look_for_erased(taken)
        if opened or gone or self.keys.epoch != self.there.epoch:
            self._meet([one.claim for one in taken])
            self._remember(self._mark_after(seq), found=[one.packed for one in taken], gone=gone)

    def _meet(self, claims: Iterable[Claim]) -> None:
        """Keep whose chains these are, and whom the session is shared with."""
        mine, ring = self.trip.identity.circle.id, self.keys.ring
        people = {one.circle: one.email or one.name for one in (ring.members if ring else ())}
        others = {one.device: one.circle for one in claims if one.circle != mine}
        remotes = self.trip.store.remotes
        remotes.met({device: _person(circle, people) for device, circle in others.items()})
        shared = [one for one in (ring.newest.shared if ring else ()) if one.circle != mine]
        addresses = {one.circle: one.email for one in shared}
        remotes.share(self.session, [_person(one.circle, addresses) for one in shared])

    def _look_for_erased(self, taken: Sequence[Opened]) -> None:
        """Whether packs still hold what was forgotten: whoever put them there did not know."""
        try:
            with self.trip.store.view(self.session) as view:
                gone = self._erased_in(view) if taken and self._is_erased(view) else {}
        except NoSession:
            return
        for one in taken:
            there = {header.n for header, _ in one.erased}
            if self._is_mine(one.claim.device):
                self._looked[one.name] = bool(_within(gone, one.stretch) - there)

    def _erased_in(self, view: View) -> dict[str, set[int]]:
        """The numbers of the events of each chain whose content is gone here."""
        found: dict[str, set[int]] = {}
        for stored in view.events():
            if stored.data is None:
                header = ev.parse_header(stored.header)
                if header.kind not in STONES:
                    found.setdefault(header.device, set()).add(header.n)
        return found

    def _take(self, opened: Sequence[Opened]) -> set[str]:
        """Take packs through the journal; returns the names of those that wait for others."""
        waiting: list[Opened] = []
        count = 0
        for one in opened:
            waiting.append(one)
            count += one.claim.last - one.claim.first + 1
            if count >= AT_ONCE:
                waiting = self._absorb(waiting)
                count = 0
        return {one.name for one in self._absorb(waiting)}

    def _absorb(self, opened: Sequence[Opened]) -> list[Opened]:
        """Take what can be taken of these packs; returns those that are not wholly taken."""
        if not opened:
            return []
        whole = [self._at_hand(one) for one in opened]
        late = self._merge([row for row, _ in whole], [blob for _, some in whole for blob in some])
        left = [
            one
            for one, (row, _) in zip(opened, whole, strict=True)
            if late and not late.isdisjoint(row.hashes)
        ]
        done = [one.packed for one in opened if one not in left]
        self.trip.store.remotes.pushed(self.trip.known, self.session, done)
        return left

    def _merge(self, rows: Sequence[Row], blobs: Sequence[Blob]) -> set[str]:
        """Give events to the journal; returns the hashes of those that wait for others."""
        content = list({blob.digest: blob.data for blob in blobs}.items())
        every = ((one, event) for row in rows for one, event in _pairs(row))
        arrived = [pair for pair in every if not self._is_foreign_end(pair[1])]
        sealed = [one for one, _ in arrived]
        self._heed(event.kind for _, event in arrived)
        if len({row.range.device for row in rows}) > 1:
            arrived.sort(key=lambda pair: position(pair[1]))
        if self.trip.journal.go_on(self.session, arrived, content):
            self.moved.down += len(arrived)
            return set()
        taken = restore.take(
            self.trip.journal, self.session, sealed, content, entitled=self._may_erase
        )
        self.moved.down += taken.new
        return {one.hash for one in taken.left}

    def _heed(self, kinds: Iterable[str]) -> None:
        if any(kind in STONES for kind in kinds):
            self._heeds = True
            if self.trip.obey is not None:
                self.moved.after.append(self.trip.obey(self.session))

    def _is_foreign_end(self, event: Event) -> bool:
        """Whether someone forgot their copy of a session of others: for these it goes on.

        Nothing comes after it in its chain, so nothing else is left out with it.
        """
        return event.kind == WHOLE and not self._may_erase(event.head.device, "")

    def _at_hand(self, one: Opened) -> tuple[Row, list[Blob]]:
        if one.row is not None:
            return one.row, one.blobs
        found = names.as_pack(one.name)
        if found is None:
            raise Tampered("a pack has no name", why=one.name)
        again = self._opened(found, self.trip.get(one.name))
        if again.row is None:
            raise Tampered("a pack is empty", why=one.name)
        return again.row, again.blobs

    def _seq(self) -> int:
        try:
            with self.trip.store.view(self.session) as view:
                return view.seq
        except NoSession:
            self.moved.new = True
            return 0

    def _disputes(self) -> int:
        try:
            with self.trip.store.view(self.session) as view:
                return self.trip.journal.state(view).count("dispute.open")
        except NoSession:
            return 0

    def _mark_after(self, seq: int) -> There:
        """How far the session is there after events were taken from there."""
        there = self.there
        pushed, hash, beyond = there.pushed, there.hash, there.beyond + self.moved.down
        if any(self._looked.values()):
            # Nothing counts as done before these packs are replaced.
            return There(self.session, self.place, self.keys.epoch, 0, "", pushed + beyond)
        if self._heeds:
            return There(self.session, self.place, self.keys.epoch, pushed, hash, beyond)
        if there.pushed + there.beyond == seq and self.moved.down:
            try:
                with self.trip.store.view(self.session) as view:
                    if view.seq == seq + self.moved.down:
                        (last,) = view.events(after=view.seq - 1, limit=1)
                        pushed, hash, beyond = view.seq, as_sealed(last).hash, 0
            except NoSession:
                pass
        return There(self.session, self.place, self.keys.epoch, pushed, hash, beyond)

    def _remember(
        self, there: There, *, found: Sequence[Packed] = (), gone: Sequence[str] = ()
    ) -> None:
        """Keep what is there now, all of it or nothing."""
        there.owner = self.keys.owner
        there.epoch = self.keys.epoch if self.keys.is_read else self.there.epoch
        self.there = there
        self.reaches = self._reaches()
        self.trip.store.remotes.saw(
            self.trip.known, there, chains=self.reaches, found=found, gone=gone
        )

    def _reaches(self) -> list[Reach]:
        """The ends of what is there of each chain, as far as it is whole."""
        found = []
        for device, chain in by_chain(map(_stretch, self.known.values())).items():
            reach = whole(chain)
            begins = {one.before for one in chain}
            ends = {(s.last, s.after) for s in chain if s.last <= reach and s.after not in begins}
            # What lies inside a larger pack is on its branch, unless the chain has several.
            if not self._is_forked(device):
                ends = {end for end in ends if end[0] == reach}
            owner = self._owners.get(device, self.trip.identity.circle.id)
            name = self._names.get(device, "")
            found += [Reach(device, n, hash, owner, name) for n, hash in sorted(ends)]
        return found

    def _is_forked(self, device: str) -> bool:
        return len(self._ends.get(device, ())) > 1

    @property
    def _ends(self) -> dict[str, list[tuple[int, str, int]]]:
        try:
            with self.trip.store.view(self.session) as view:
                core = self.trip.journal.state(view).core
                return {device: chain.heads for device, chain in core.chains.items()}
        except NoSession:
            return {}

    # -- pushing -------------------------------------------------------------------------------

    def push(self) -> None:
        """Put there what the remote lacks. What it has of the same chains is taken first."""
        if self._has_more_of_ours() or self._plan().gone:
            self.pull()
        with self.trip.store.view(self.session) as view:
            there = [_stretch(one) for one in self.known.values()]
            forked = [device for device, heads in self._ends.items() if len(heads) > 1]
            after = self._mark(view)
            met = self.moved.packs_down > 0 and self._is_erased(view)
            if after == view.seq and not self.trip.again and not met:
                return
            coverage = parcel.coverage(view, there, forked)
            after = 0 if self.trip.again else after
            found = parcel.parcels(self.trip.store, view, coverage, after=after)
            stone = self._newest_stone(view)
            self._send(self._ours(found), stone)
            if self.moved.stay:
                return
            if stone and self._has_news_of_stones(view, after):
                self._replace_erased(view, stone)
            self._put_together(view, stone)
            (last,) = view.events(after=view.seq - 1, limit=1)
            mark = There(self.session, self.place, self.keys.epoch, view.seq, as_sealed(last).hash)
            if self._left:
                # They wait for whoever wrote them, or until it shows that they are ours.
                beyond = view.seq - self._left
                mark = There(self.session, self.place, self.keys.epoch, beyond=beyond)
        there_now = self.known.keys()
        sent = [one for one in self._sent if one.name in there_now]
        self._remember(mark, found=sent, gone=self._gone)

    def _has_more_of_ours(self) -> bool:
        """Whether the remote has packs of chains that are held here, and nobody looked at them.

        Then a copy of this home went on elsewhere, or another device carried them there.
        """
        unknown = [one for name, one in self._packs.items() if name not in self.known]
        chains = {self.keys.chain(device) for device in self._ends} if unknown else set()
        return any(one.chain in chains for one in unknown)

    def _mark(self, view: View) -> int:
        """Up to which arrival number all is there, if the journal is still the one it was."""
        there = self.there
        if not 0 < there.pushed <= view.seq:
            return 0
        found = list(view.events(after=there.pushed - 1, limit=1))
        return there.pushed if [as_sealed(one).hash for one in found] == [there.hash] else 0

    def _is_mine(self, device: str) -> bool:
        mine = self.trip.identity.circle.id
        whose = self._whose(device)
        # In a session of others a chain that came in a file may be anyone's.
        return whose == mine or (not whose and self.keys.owner in ("", mine))

    def _ours(self, parcels: Iterable[Parcel]) -> Iterator[Parcel]:
        for one in parcels:
            if self._is_mine(one.row.device):
                yield one
            else:
                self._left += len(one.row.events)

    def _newest_stone(self, view: View) -> str:
        """The hash of the last tombstone: what is erased was forgotten by it, or before."""
        for stored in view.events(newest=True) if self._is_erased(view) else ():
            if b".forgotten" in stored.header:
                return as_sealed(stored).hash
        return ""

    def _is_erased(self, view: View) -> bool:
        return bool(self.trip.journal.state(view).core.erased)

    def _send(self, parcels: Iterator[Parcel], stone: str) -> None:
        """All but the last side by side; the last one, which tells of all, when they are there."""
        before: Parcel | None = None
        sending = _Sending(self, stone)
        for one in parcels:
            if before is None:
                if self.keys.is_to_read:
                    self.moved.stay = len(one.row.events) + sum(len(p.row.events) for p in parcels)
                    return
                self.keys.prepare(self.trip.put, self.trip.clock.now())
            else:
                sending.begin(before)
            before = one
        if before is not None:
            sending.finish(before)
            self._meet(())

    # -- ending --------------------------------------------------------------------------------

    def has_ended(self) -> bool:
        """Whether keys that are not for us mean that someone no longer shares it with us."""
        # The same keys as before, or older ones, would not: then the storage lies.
        if self.keys.epoch <= self.there.epoch or not self._is_of_another():
            return False
        try:
            return self.keys.ring is None
        except Locked:
            return True

    def end(self) -> None:
        """Remember that it is no longer shared with us."""
        self.moved.ended = self.there.error != _ENDED
        if self.moved.ended:
            self.there.error = _ENDED
            self.trip.store.remotes.saw(self.trip.known, self.there)

    def _is_of_another(self) -> bool:
        """Whether another person's device began it."""
        try:
            with self.trip.store.view(self.session) as view:
                begun = [as_sealed(one) for one in view.events(limit=1)]
        except NoSession:
            return False
        return not all(self._is_mine(ev.parse_header(one.header).device) for one in begun)

    # -- replacing -----------------------------------------------------------------------------

    def _replace_erased(self, view: View, stone: str) -> None:
        """Packs that hold what was forgotten become their erased twins, which name a tombstone."""
        gone = self._erased_in(view)
        sent = {one.name for one in self._sent}
        for one in list(self.known.values()):
            inside = _within(gone, _stretch(one)) if self._is_mine(one.device) else set()
            if inside and one.name not in sent and self._holds_any(one, inside):
                self._replace(view, [one], stone)
                self.moved.replaced += 1

    def _has_news_of_stones(self, view: View, after: int) -> bool:
        """Whether a tombstone came after what is known to be there, and was heeded there."""
        return any(b".forgotten" in stored.header for stored in view.events(after=after))

    def _holds_any(self, one: Packed, numbers: set[int]) -> bool:
        """Whether a pack holds the content of any of these events."""
        if one.name not in self._looked:
            found = names.as_pack(one.name)
            if not one.tombstone or found is None:
                return True  # without a tombstone nothing may be erased in it
            self.keys.ready()
            there = self._opened(found, self.trip.get(one.name)).erased
            self._looked[one.name] = bool(numbers - {header.n for header, _ in there})
        return self._looked[one.name]

    def _put_together(self, view: View, stone: str) -> None:
        """Many small packs of this device's chain become few; a sync now and then leaves many."""
        mine = [one for one in self.known.values() if one.device == view.device]
        if self._is_forked(view.device):
            return
        for one in [one for one in mine if _is_inside(one, mine)]:
            self._delete(one)  # left over from a replacement that was interrupted
        left = [Pack(one.name, one.size, _stretch(one)) for one in mine if one.name in self.known]
        for row in crowded(left):
            self._replace(view, [self.known[pack.name] for pack in row], stone)

    def _replace(self, view: View, old: Sequence[Packed], stone: str) -> None:
        """Put what some packs cover there once more, then take the old ones away."""
        first, last = old[0], old[-1]
        covered = Stretch(first.device, first.first, last.last, first.before, last.after)
        self.keys.prepare(self.trip.put, self.trip.clock.now())
        heads = heads_of([_stretch(one) for one in self.known.values()])
        for one in list(parcel.stretch_of(self.trip.store, view, covered)):
            self.note(self.put(one.ready(), heads, stone), again=True)
        for pack in old:
            self._delete(pack)

    def _delete(self, pack: Packed) -> None:
        self.trip.remote.delete(pack.name)
        del self.known[pack.name]
        self._listed.pop(pack.name, None)
        self._gone.append(pack.name)

    def put(self, one: Ready, heads: dict[str, tuple[int, str]], stone: str) -> Packed:
        """Seal a parcel and put it there."""
        now = self.trip.clock.now()
        tombstone = stone if one.is_erased else ""
        told = self._author(one.stretch.device)
        name, data = self.keys.seal(
            one.stretch, one.packed(now), heads=heads, now=now, tombstone=tombstone, name=told
        )
        self.trip.put(name, data)
        return Packed(name, *one.stretch, len(data), tombstone)

    def _author(self, device: str) -> str:
        """The name of the device that wrote a chain: a carried one is not written by this."""
        if device == self._device:
            return self.trip.identity.name
        return self._names.get(device) or self.trip.store.remotes.names().get(device, "")

    def note(self, done: Packed, *, again: bool = False) -> None:
        """A pack is there: known from now on, so that it is not sent, nor read, again."""
        self.known[done.name] = done
        self._listed[done.name] = done.size
        self._sent.append(done)
        self.trip.store.remotes.pushed(self.trip.known, self.session, [done])
        self.moved.up += 0 if again else done.last - done.first + 1
        self.moved.packs_up += 1
        self.moved.bytes_up += done.size


def _person(circle: str, people: dict[str, str]) -> str:
    """Who a circle is: what its owner wrote down, else the fingerprint of its key."""
    return tame(people.get(circle, ""), limit=_NAME, lines=False) or code.grouped(circle)


class _Sending:
    """Parcels on their way, a few at a time."""

    def __init__(self, exchange: Exchange, stone: str) -> None:
        self._exchange, self._stone = exchange, stone
        self._waiting: list[Future[Packed]] = []
        # Only what was there before: whoever reads these may not see the others yet.
        self._heads = heads_of([_stretch(one) for one in exchange.known.values()])

    def begin(self, one: Parcel) -> None:
        pool = self._exchange.trip.pool
        ready = one.ready()
        self._waiting.append(pool.submit(self._exchange.put, ready, self._heads, self._stone))
        while len(self._waiting) >= _AHEAD:
            self._exchange.note(self._waiting.pop(0).result())

    def finish(self, last: Parcel) -> None:
        while self._waiting:
            self._exchange.note(self._waiting.pop(0).result())
        there = [_stretch(one) for one in self._exchange.known.values()]
        heads = heads_of([*there, last.stretch])
        self._exchange.note(self._exchange.put(last.ready(), heads, self._stone))


def _pairs(row: Row) -> Iterator[tuple[Sealed, Event]]:
    return zip(row.range.events, row.events(), strict=True)


def _within(numbers: dict[str, set[int]], stretch: Stretch) -> set[int]:
    return {n for n in numbers.get(stretch.device, ()) if stretch.first <= n <= stretch.last}


def _is_inside(one: Packed, others: Iterable[Packed]) -> bool:
    """Whether a larger pack, or the same one put there later, covers all of it."""
    span = (one.first, one.last)
    return any(
        other.first <= one.first
        and one.last <= other.last
        and ((other.first, other.last) != span or other.name > one.name)
        for other in others
        if other.name != one.name and other.tombstone == one.tombstone
    )


def _stretch(one: Packed) -> Stretch:
    return Stretch(one.device, one.first, one.last, one.before, one.after)
