"""Pull: fetch the new packs of a session, check all of them, then append their events.

`PackReader` checks each pack against its name, its seal and its claim. `PackCheck` compares all new
packs with what is known to be on the remote: the packs that this device saw before, and the heads
that claims report. If the remote shows less, or something else, that is an error of its own class:
nothing of the session is appended, nothing in the local record changes, and other sessions are not
affected. A pack that is refused and that no other pack needs is skipped and reported.
`SessionPull` appends the events through the journal. An event whose predecessor is still missing
waits for the next pull. Tombstones of other devices are applied here too.

The contents of packs stay in memory until all are checked: the first as parsed rows, more as sealed
bytes (a tenth of the memory); the rest is fetched a second time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from forestay.base.text import coerce_input
from forestay.errors import (
    Damaged,
    ForestayError,
    Forked,
    InvalidInput,
    Locked,
    NotEntitled,
    NotThere,
    Replayed,
    RolledBack,
    Swapped,
    Tampered,
    Truncated,
)
from forestay.journal import restore
from forestay.journal.pack import Blob
from forestay.journal.projections import as_sealed
from forestay.model import event as ev
from forestay.model.erasure import KINDS as STONES
from forestay.model.erasure import WHOLE, Tombstones
from forestay.model.event import Header, Sealed
from forestay.model.merge import place
from forestay.store.machine.remotes import KEY_CHANGE, REFUSED, Packed, There
from forestay.store.port import View
from forestay.sync.crypto import key_text
from forestay.sync.crypto.sealed_pack import Claim
from forestay.sync.pack_codec import Row, load
from forestay.sync.plan import Link, Missing, Plan, ReportedHead, Stretch, back, missing, root
from forestay.sync.remotes import object_names
from forestay.sync.remotes.object_names import PackName
from forestay.sync.session import MOST_NAME, Exchange

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


class PackReader:
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
        return self.opened(name, self._exchange.transfer.get(name.name))

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
        data = self._exchange.transfer.get(one.name) if data is None else data
        self._last = {one.name: self._read(name, data)[1]}
        return self._last[one.name]

    def release(self, one: Opened) -> None:
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
            if is_kept and not self._exchange.transfer.is_elsewhere(name):
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
        return LOOK_THERE if is_kept else _MEND.format(remote=self._exchange.transfer.known.name)

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


_LATE = "a storage that lists late shows it after a while: try again"


class PackCheck:
    """What is new on the remote of one exchange."""

    def __init__(self, exchange: Exchange, reader: PackReader) -> None:
        self._exchange, self._reader = exchange, reader
        self._transfer, self._session = exchange.transfer, exchange.session
        self._owners = dict(exchange.owners)
        self._refused: dict[str, ForestayError] = {}
        """Packs that are refused as they are."""
        self._for_now: dict[str, ForestayError] = {}
        """Packs that may be sound with others that are yet to come."""
        self._of_removed: set[str] = set()
        """Packs of devices that were put out: nobody has to believe what these tell of others."""
        self._doubtful: list[Missing] = []
        """What is not there, and only someone told whom the user doubts."""

    def fetch_and_check(self) -> list[Opened]:
        """Read what is new there and judge it; raises when the remote cannot be believed."""
        opened: dict[str, Opened] = {}
        for pause in (*self._transfer.patience, None):
            found = self._exchange.plan()
            late = self._open(found, opened)
            lacking = self._lacking(found, opened.values())
            if not lacking and not late:
                return self._done(opened)
            if lacking:
                self._require_not_refused(lacking)
            if pause is None or (lacking and self._transfer.again and self._have(lacking)):
                break
            self._transfer.clock.sleep(pause)
            self._exchange.list_again()
        if lacking and not (self._transfer.again and self._have(lacking)):
            raise self._mismatch_error(lacking, [one.claim for one in opened.values()])
        return self._done(opened)

    def _done(self, opened: dict[str, Opened]) -> list[Opened]:
        sound = self._vouched(opened.values())
        told = self._exchange.noted.get(REFUSED, {})
        skipped_objects = self._exchange.keys.skipped_objects().items()
        self._exchange.skip_packs(
            {**self._refused, **{k: v for k, v in skipped_objects if k not in told}}
        )
        self._exchange.outcome.aside += self._for_now.values()
        if self._doubtful and not self._exchange.doubted_now:
            claims = [one.claim for one in opened.values()]
            self._exchange.outcome.noticed.append(
                self._mismatch_error(self._doubtful, claims, doubted=True)
            )
        return sound

    def _require_not_refused(self, lacking: Iterable[Missing]) -> None:
        """What is told to be there, and is, and was refused, is not missing."""
        refused = {**self._for_now, **self._refused}
        chains = {self._exchange.keys.chain(one.head.device) for one in lacking} if refused else ()
        for name, error in refused.items():
            pack = object_names.as_pack(name)
            if pack is not None and pack.chain in chains:
                raise error

    def _open(self, found: Plan, opened: dict[str, Opened]) -> bool:
        """Open what was not opened yet; True if something listed is not there after all."""
        packs, late = self._exchange.packs, False
        new = [name for name in found.fetch if name not in opened and name not in self._refused]
        order = sorted((packs[name].first, name) for name in new)
        if order:
            self._exchange.keys.ready()
            self._transfer.expect("down", sum(packs[name].events for _, name in order))
        for name, data in self._transfer.run_parallel(
            self._got, [packs[name] for _, name in order]
        ):
            if data is None:
                late = True
                continue
            # Not in the threads that get it: all of them would wait for Python's lock.
            one = self._reader.judged(name, data)
            self._transfer.done("down", name.events)
            if isinstance(one, Refusal):
                self._refused[one.name] = one.error
            elif self._is_allowed_to_erase(one, name):
                opened[one.name] = one
        for gone in opened.keys() - set(found.fetch):
            del opened[gone]
        self._judge(opened)
        return late

    def _got(self, name: PackName) -> tuple[PackName, bytes | None]:
        try:
            return name, self._transfer.get(name.name)
        except NotThere:
            return name, None  # whoever made it put several together meanwhile

    def _judge(self, opened: dict[str, Opened]) -> None:
        """Refuse what does not go with all the others."""
        self._for_now = {}
        for act in (self._wrong_owners, self._wrongly_erased):
            found = act(list(opened.values()))
            self._for_now |= found
            for name in found:
                del opened[name]

    def _is_allowed_to_erase(self, one: Opened, name: PackName) -> bool:
        """What a device forgets that was put out is not: it may have been made to, since."""
        if not self._exchange.keys.is_of_removed(one.claim, name):
            return True
        self._of_removed.add(one.name)
        is_met = bool(self._exchange.noted.get(KEY_CHANGE))
        if not (one.stones or one.erased) or not is_met:
            return True
        self._refused[one.name] = NotEntitled(
            "a device that was put out has forgotten something there",
            why=f"device {one.claim.signer}; nothing that is here was erased",
            hint="if you want it gone, forget it on a device that is in the circle",
            session=self._session,
        )
        return False

    # -- what is told to be there --------------------------------------------------------------

    def _lacking(self, found: Plan, opened: Iterable[Opened]) -> list[Missing]:
        opened = list(opened)
        told = [
            ReportedHead(one.device, one.n, one.hash, here=True) for one in self._exchange.reaches
        ]
        doubtful: list[ReportedHead] = []
        for one in opened:
            if one.name not in self._of_removed:
                heads = [ReportedHead(device, *head) for device, head in one.claim.heads.items()]
                (doubtful if one.claim.circle in self._exchange.doubted else told).extend(heads)
        new = {Stretch.of(one.claim): one for one in opened}
        shown = [*found.there, *new]

        def on(stretch: Stretch, n: int) -> set[str]:
            return self._on(stretch, n, new.get(stretch))

        # In order, so that a pack which is read again for one serves for all that are in it.
        self._doubtful = missing(shown, sorted(set(doubtful)), on)
        return missing(shown, sorted(set(told)), on)

    def _on(self, stretch: Stretch, n: int, opened: Opened | None) -> set[str]:
        """The hash of an event on a stretch: as the pack has it, or as what was taken of it has."""
        if opened is not None:
            row, _ = self._reader.content(opened)
            return {row.hashes[n - stretch.first]}
        held = self._hashes.get((stretch.device, n), set())
        return held if len(held) < 2 else held & set(back(stretch, self._links))

    @cached_property
    def _hashes(self) -> dict[tuple[str, int], set[str]]:
        """The hashes of the events held here under a number; looked up only where it matters."""
        found: dict[tuple[str, int], set[str]] = {}
        for hash, (device, n, _) in self._links.items():
            found.setdefault((device, n), set()).add(hash)
        return found

    @cached_property
    def _links(self) -> dict[str, Link]:
        def read(view: View) -> dict[str, Link]:
            every = ((ev.parse_header(one.header), as_sealed(one).hash) for one in view.events())
            return {hash: (head.device, head.n, head.prev) for head, hash in every}

        return self._exchange.here(read, {})

    def _have(self, lacking: Sequence[Missing]) -> bool:
        every = (one.head for one in lacking)
        return all(told.hash in self._hashes.get((told.device, told.n), ()) for told in every)

    def _mismatch_error(
        self, lacking: Sequence[Missing], claims: Sequence[Claim], *, doubted: bool = False
    ) -> Tampered:
        first = min(lacking, key=lambda one: (not one.instead, not one.head.here))
        told = first.head
        kind = Forked if first.instead else RolledBack if told.here else Truncated
        what = {
            Forked: "the remote shows another history than before",
            RolledBack: "the remote shows an older state than before",
            Truncated: "the remote does not show all that is there",
        }[kind]
        others = [] if told.here else self._reporters(told, claims)
        hint = self._believe_hint(others) if doubted else self._mismatch_hint(lacking, others)
        device = coerce_input(told.device, limit=MOST_NAME, lines=False)
        why = f"of device {device} it has events up to {first.whole}, not {told.n}"
        if first.instead:
            why = f"event {told.n} of device {device} is another one"
        return kind(
            what,
            why=why + (f", as {', '.join(others)} tells" if others else ""),
            hint=hint,
            session=self._session,
        )

    def _mismatch_hint(self, lacking: Sequence[Missing], others: Sequence[str]) -> str:
        name, hint = self._transfer.known.name, _LATE
        if self._have(lacking):
            hint += f"; to put it there again: forestay sync --push {name} --again"
        for one in others[:1]:
            doubt = f"forestay sync --pull {name} --session {self._session} --doubt {one}"
            hint += f"; to go on without what they tell: {doubt}"
        return hint

    def _believe_hint(self, others: Sequence[str]) -> str:
        said = (
            f"forestay sync --pull {self._transfer.known.name} --session {self._session} --believe"
        )
        ends = "".join(f"; to end that: {said} {one}" for one in others[:1])
        return f"you doubt them, so the rest went on{ends}"

    def _reporters(self, told: ReportedHead, claims: Sequence[Claim]) -> list[str]:
        """Who else tells it: they may be the ones who lie."""
        every = {one.circle for one in claims if one.heads.get(told.device) == told[1:3]}
        return [
            key_text.grouped(one) for one in sorted(every - {self._transfer.identity.circle.id})
        ]

    # -- who may have put it there -------------------------------------------------------------

    def _wrong_owners(self, opened: Sequence[Opened]) -> dict[str, ForestayError]:
        """A chain belongs to whoever put its first pack there."""
        refused: dict[str, ForestayError] = {}
        owners = dict(self._exchange.owners)
        for one in sorted(opened, key=lambda one: (one.claim.device, one.claim.first)):
            if one.claim.imported and one.claim.circle == self._exchange.keys.owner:
                continue  # it says nothing of whose it is, and only the owner may bring it
            owner = owners.setdefault(one.claim.device, one.claim.circle)
            if owner != one.claim.circle or one.claim.imported:
                if one.claim.device not in self._owners:
                    raise self._foreign(one, owner)  # which of the two it is does not show
                refused[one.name] = self._foreign(one, owner)
        self._exchange.owners = owners
        told = [one.claim for one in opened if one.claim.name and one.name not in refused]
        named = {one.device: coerce_input(one.name, limit=MOST_NAME, lines=False) for one in told}
        self._exchange.names |= named
        return refused

    def _vouched(self, opened: Iterable[Opened]) -> list[Opened]:
        """The packs, if what was imported into a chain that has an owner is by its owner.

        Or it is a branch of its own from the first event on, beside that chain: then the owner of
        the session says that its writer found the id taken.
        """
        every, late = list(opened), set[str]()
        for one in every if any(one.claim.imported for one in every) else ():
            device = one.claim.device
            owner = self._exchange.owners.get(device, "")
            if one.claim.imported and owner:
                signed = [p for p in every if p.claim.device == device and not p.claim.imported]
                known = {hash for p in signed for hash in self._reader.content(p)[0].hashes}
                if set(self._reader.content(one)[0].hashes) <= known | self._links.keys():
                    continue
                if not self._is_parallel(one, every, known, owner):
                    late.add(one.name)
        sound = [one for one in every if one.name not in late]
        self._record_foreign(sound)
        return sound

    def _record_foreign(self, sound: Iterable[Opened]) -> None:
        """What others put under an id of this home is not for it to sign, on any remote."""
        mine, found = self._transfer.identity.circle.id, dict[str, str]()
        for one in sound:
            if one.claim.device in self._transfer.own and one.claim.circle != mine:
                hashes = self._reader.content(one)[0].hashes
                new = [hash for hash in hashes if hash not in self._links]
                found |= dict.fromkeys(new[:1], one.claim.device)
        self._exchange.record_foreign(found)

    def _is_parallel(
        self, one: Opened, every: Sequence[Opened], signed: set[str], owner: str
    ) -> bool:
        """Take a branch as one beside its chain; False if its beginning is yet to come."""
        links = dict(self._links)
        for pack in every:
            if pack.claim.imported and pack.claim.device == one.claim.device:
                row = self._reader.content(pack)[0]
                pairs = zip(row.headers, row.hashes, strict=True)
                links |= {hash: (head.device, head.n, head.prev) for head, hash in pairs}
        first = root(one.claim.after, links)
        if links[first][2] and links[first][2] not in signed:
            return False
        is_held = first in self._links and first not in self._exchange.parallel
        if is_held or first in signed or links[first][2]:
            if owner != one.claim.circle:
                raise self._foreign(one, owner)  # nobody goes on with what someone else signed
            return True
        self._exchange.record_parallel({first: one.claim.device})
        return True

    def _foreign(self, one: Opened, owner: str) -> Tampered:
        return Tampered(
            f"someone else wrote on with the chain of device {one.claim.device}",
            why=f"it belongs to {owner[:20]}, this pack is of {one.claim.circle[:20]}",
            session=self._session,
        )

    def _wrongly_erased(self, opened: Sequence[Opened]) -> dict[str, ForestayError]:
        """What is erased in a pack must have been forgotten by someone who may."""
        refused: dict[str, ForestayError] = {}
        if not any(one.erased for one in opened):
            return refused
        stones = self._stones(sealed for one in opened for sealed in one.stones)
        for one in opened:
            for header, hash in one.erased:
                known = stones.erase(header, hash, self._exchange.may_erase)
                if not one.claim.tombstone or not known:
                    refused[one.name] = Tampered(
                        f"the content of event {header.device}:{header.n} is gone from its pack",
                        why="nobody who may forget it did",
                        hint=LOOK_THERE,
                        session=self._session,
                    )
        return refused

    def _stones(self, more: Iterable[Sealed]) -> Tombstones:
        """The tombstones that are held here or come with the packs."""

        def read(view: View) -> list[Sealed]:
            return [as_sealed(one) for one in view.events() if b".forgotten" in one.header]

        held = self._exchange.here(read, list[Sealed]())
        return Tombstones(map(ev.read, (*held, *more)))


AT_ONCE = 20_000
"""How many events are taken in one go, about."""


class SessionPull:
    """What the remote of one exchange has, taken."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange, self._transfer = exchange, exchange.transfer
        self._session, self._outcome = exchange.session, exchange.outcome
        self._reader = PackReader(exchange)
        self._check = PackCheck(exchange, self._reader)
        self._heeds = False

    def pull(self) -> None:
        """Look, and take what is new."""
        opened = self._check.fetch_and_check()
        gone = self._exchange.plan().gone
        seq = self._seq()
        disputes = self._disputes()
        left = self._append_packs(sorted(opened, key=lambda one: (one.claim.made, one.claim.first)))
        if self._outcome.new and self._is_forgotten():
            self._outcome.new = False  # there is nothing that could be taken up
        taken = [one for one in opened if one.name not in left]
        self._outcome.packs_down = len(taken)
        self._outcome.bytes_down = sum(one.size for one in taken)
        self._outcome.loose = len(left)
        self._outcome.disputes = max(self._disputes() - disputes, 0)
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
        self._outcome.new = self._outcome.new or not seq
        return seq

    def _is_forgotten(self) -> bool:
        where = {"id": self._session, "forgotten": 1}
        return bool(self._transfer.store.catalogue(where=where, limit=1))

    def _disputes(self) -> int:
        state = self._transfer.journal.state
        return self._exchange.here(lambda view: state(view).count("dispute.open"), 0)

    def _append_packs(self, opened: Sequence[Opened]) -> set[str]:
        """Take packs through the journal; returns the names of those that wait for others."""
        late = [one for lot in _groups(opened) for one in self._append_group(lot)]
        before = -1
        while late and before != self._outcome.down:
            before = self._outcome.down
            late = [one for lot in _groups(late) for one in self._append_group(lot)]
        return {one.name for one in late}

    def _append_group(self, opened: Sequence[Opened]) -> list[Opened]:
        """Take what can be taken of these packs; returns those that are not wholly taken."""
        if not opened:
            return []
        whole = [self._reader.content(one) for one in opened]
        late = self._merge([row for row, _ in whole], [blob for _, some in whole for blob in some])
        left = [
            one
            for one, (row, _) in zip(opened, whole, strict=True)
            if late and not late.isdisjoint(row.hashes)
        ]
        done = [one for one in opened if one not in left]
        for one in done:
            self._reader.release(one)
        packed = [one.packed for one in done]
        self._transfer.store.machine.remotes.record_packs(
            self._transfer.known, self._session, packed
        )
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
        journal = self._transfer.journal
        if journal.append_in_order(self._session, arrived, content):
            self._outcome.down += len(arrived)
            return set()
        entitled, sealed = self._exchange.may_erase, [one for one, _, _ in arrived]
        taken = restore.merge_events(journal, self._session, sealed, content, entitled=entitled)
        self._outcome.down += taken.new
        return {one.hash for one in taken.left}

    def _is_foreign_end(self, head: Header) -> bool:
        """Whether someone forgot their copy of a session of others: for these it goes on.

        Nothing comes after it in its chain, so nothing else is left out with it.
        """
        return head.kind == WHOLE and not self._exchange.may_erase(head.device, "")

    def _heed(self, kinds: set[str]) -> None:
        if not STONES.isdisjoint(kinds):
            self._heeds = True
            if self._transfer.before_erasure is not None:
                self._outcome.after.append(self._transfer.before_erasure(self._session))

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
        beyond = there.beyond + self._outcome.down
        if any(exchange.holds_erased.values()):
            # Nothing counts as done before these packs are replaced.
            return exchange.mark(beyond=there.pushed + beyond)
        if not self._heeds and there.pushed + there.beyond == seq and self._outcome.down:
            all_of_it = exchange.here(lambda view: self._end(view, seq + self._outcome.down), None)
            if all_of_it is not None:
                return exchange.mark(*all_of_it)
        return exchange.mark(there.pushed, there.hash, beyond)

    def _end(self, view: View, seq: int) -> tuple[int, str] | None:
        """The last number and its hash, if nothing was written here meanwhile."""
        if view.seq != seq:
            return None
        (last,) = view.events(after=view.seq - 1, limit=1)
        return view.seq, as_sealed(last).hash


def _groups(opened: Sequence[Opened]) -> Iterator[list[Opened]]:
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
