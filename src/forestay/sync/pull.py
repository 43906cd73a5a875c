"""Pull a session: fetch its new packs, check all of them, then append their events.

`PackReader` checks each pack against its name, its seal and its claim. `PackCheck` compares all new
packs with what was on the remote before: the packs that this device saw, and the heads that claims
report. If the remote has less, or something else, an error is raised: no event of the session is
appended, nothing stored about the remote changes, and other sessions are synced. A pack that is
refused and that no other pack needs is skipped and reported.
`SessionPull` appends the events through the journal. An event whose predecessor is still missing
waits for the next pull. Tombstones of other devices are applied here too.

The contents of packs stay in memory until all packs are checked: the first ones parsed, further
ones as encrypted bytes, which need a tenth of the memory; the rest is fetched a second time.
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

_CHECK_STORAGE = "nothing of the session was pulled; check the storage"
_UPLOAD_AGAIN = (
    "nothing of the session was pulled; to upload the pack again, run on a device that has its"
    " events: forestay sync --push {remote} --again"
)


READY, MEMORY = 16 << 20, 64 << 20
"""How many bytes of packs stay in memory until they are appended: parsed, and encrypted."""

Content = tuple[Row, list[Blob]]


class Opened(NamedTuple):
    """A pack that was decrypted and passed all checks."""

    name: str
    size: int
    weight: int
    """The size of its content in bytes."""
    claim: Claim
    stones: list[Sealed]
    erased: list[tuple[Header, str]]

    @property
    def packed(self) -> Packed:
        return Packed(self.name, *Stretch.of(self.claim), self.size, self.claim.tombstone)


class Refusal(NamedTuple):
    """A pack that is intact, but whose signer was not allowed to push it."""

    name: str
    error: ForestayError


class PackReader:
    """Decrypt and check the packs of one session."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange, self._session = exchange, exchange.session
        self._ready: dict[str, Content] = {}
        self._sealed: dict[str, bytes] = {}
        self._room = [READY, MEMORY]
        self._last: dict[str, Content] = {}
        """The last pack that was parsed again; several heads can be in the same pack."""

    def read(self, name: PackName) -> Opened:
        """Fetch and open the pack of a name."""
        return self.opened(name, self._exchange.transfer.get(name.name))

    def judged(self, name: PackName, data: bytes) -> Opened | Refusal:
        """Decrypt and check a pack, or return why it is refused; raise if its bytes changed."""
        try:
            return self.opened(name, data)
        except (Tampered, NotEntitled) as error:
            if not object_names.is_of(name.name, data):
                raise
            return Refusal(name.name, error)

    def content(self, one: Opened) -> Content:
        """Return the content of a pack: from memory, or fetched again."""
        if kept := self._ready.get(one.name) or self._last.get(one.name):
            return kept
        name = object_names.as_pack(one.name)
        if name is None:
            raise Tampered("a pack has an invalid name", why=one.name)
        data = self._sealed.get(one.name)
        data = self._exchange.transfer.get(one.name) if data is None else data
        self._last = {one.name: self._read(name, data)[1]}
        return self._last[one.name]

    def release(self, one: Opened) -> None:
        """Drop the content of a pack that was appended."""
        self._ready.pop(one.name, None)
        self._sealed.pop(one.name, None)
        self._last.pop(one.name, None)

    def opened(self, name: PackName, data: bytes) -> Opened:
        one, content = self._read(name, data)
        if one.weight <= self._room[0]:
            self._ready[one.name] = content
            self._room[0] -= one.weight
        elif one.size <= self._room[1]:
            self._sealed[one.name] = data
            self._room[1] -= one.size
        return one

    def _read(self, name: PackName, data: bytes) -> tuple[Opened, Content]:
        is_kept = object_names.hash_of(data) == name.hash
        claim, body = self._unsealed(name, data, is_kept)
        if claim.session != self._session:
            raise self._swapped(f"{name.name} belongs to another session", is_kept)
        if self._exchange.keys.chain(claim.device) != name.chain:
            raise self._swapped(f"{name.name} is a pack of device {claim.device}", is_kept)
        if (claim.first, claim.last) != (name.first, name.last):
            why = f"{name.name} has the events {claim.first} to {claim.last}"
            raise self._replayed(why, is_kept)
        if not is_kept:
            raise self._replayed(name.name, is_kept)
        row, blobs = self._loaded(claim, body)
        stones, erased = [], []
        if not STONES.isdisjoint(row.kinds) or any(one.data is None for one in row.range.events):
            for sealed, header, hash in row.events():
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
            why = f"{name.name} is encrypted to the key of another session"
            raise self._swapped(why, is_kept) from None
        except Tampered as error:
            if type(error) is Tampered and not is_kept:
                raise Tampered(
                    "a pack was changed on the remote",
                    why=f"the bytes of {name.name} do not match its name; {error}",
                    hint=self._hint(is_kept),
                    session=self._session,
                ) from error
            raise

    def _swapped(self, why: str, is_kept: bool) -> Swapped:
        what = "a pack is stored under the name of another pack"
        return Swapped(what, why=why, hint=self._hint(is_kept), session=self._session)

    def _replayed(self, why: str, is_kept: bool) -> Replayed:
        what = "an old pack is stored under a new name"
        return Replayed(what, why=why, hint=self._hint(is_kept), session=self._session)

    def _hint(self, is_kept: bool) -> str:
        """Return the hint: how to upload a pack again if its bytes changed, else to check."""
        return (
            _CHECK_STORAGE
            if is_kept
            else _UPLOAD_AGAIN.format(remote=self._exchange.transfer.known.name)
        )

    def _loaded(self, claim: Claim, body: bytes) -> tuple[Row, list[Blob]]:
        try:
            row, blobs = load(body, name=f"a pack of {self._session}")
        except (Damaged, InvalidInput) as error:
            raise Tampered("a pack is invalid", why=str(error), session=self._session) from error
        claimed = (claim.session, claim.device, claim.first, claim.last, claim.before, claim.after)
        held = row.range
        if claimed != (
            held.session,
            held.device,
            held.first,
            held.last,
            held.before,
            row.hashes[-1],
        ):
            why = "its content does not match its claim"
            raise Tampered("a pack is invalid", why=why, session=self._session)
        return row, blobs


_LATE = "if the storage shows new files late, try again after a while"


class PackCheck:
    """Fetch the new packs of one session and check all of them together."""

    def __init__(self, exchange: Exchange, reader: PackReader) -> None:
        self._exchange, self._reader = exchange, reader
        self._transfer, self._session = exchange.transfer, exchange.session
        self._owners = dict(exchange.owners)
        self._refused: dict[str, ForestayError] = {}
        """Packs that are refused, whatever packs arrive later."""
        self._for_now: dict[str, ForestayError] = {}
        """Packs that cannot be judged before packs that are still missing arrive."""
        self._of_removed: set[str] = set()
        """Packs of revoked devices; the heads that their claims report are ignored."""
        self._doubtful: list[Missing] = []
        """Missing heads that were reported only by persons whose reports the user ignores."""

    def fetch_and_check(self) -> list[Opened]:
        """Return the new packs that are valid; raise if the remote hid or changed any pack."""
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
        known = self._exchange.noted.get(REFUSED, {})
        skipped = self._exchange.keys.skipped_objects().items()
        new = {name: error for name, error in skipped if name not in known}
        self._exchange.skip_packs({**self._refused, **new})
        self._exchange.outcome.aside += self._for_now.values()
        if self._doubtful and not self._exchange.doubted_now:
            claims = [one.claim for one in opened.values()]
            error = self._mismatch_error(self._doubtful, claims, doubted=True)
            self._exchange.outcome.noticed.append(error)
        return sound

    def _require_not_refused(self, lacking: Iterable[Missing]) -> None:
        """If a reported head is missing because its pack was refused, raise that refusal."""
        refused = {**self._for_now, **self._refused}
        chains = {self._exchange.keys.chain(one.head.device) for one in lacking} if refused else ()
        for name, error in refused.items():
            pack = object_names.as_pack(name)
            if pack is not None and pack.chain in chains:
                raise error

    def _open(self, found: Plan, opened: dict[str, Opened]) -> bool:
        """Decrypt the packs that were not decrypted yet; return True if a listed one is gone."""
        packs, late = self._exchange.packs, False
        new = [name for name in found.fetch if name not in opened and name not in self._refused]
        order = sorted((packs[name].first, name) for name in new)
        if order:
            self._exchange.keys.ready()
            self._transfer.expect("down", sum(packs[name].events for _, name in order))
        wanted = [packs[name] for _, name in order]
        for name, data in self._transfer.run_parallel(self._got, wanted):
            if data is None:
                late = True
                continue
            # Decrypt outside of the threads that fetch: they would all wait for Python's lock.
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
            return name, None  # its device merged several packs in the meantime

    def _judge(self, opened: dict[str, Opened]) -> None:
        """Refuse packs that contradict the others."""
        self._for_now = {}
        for act in (self._wrong_owners, self._wrongly_erased):
            found = act(list(opened.values()))
            self._for_now |= found
            for name in found:
                del opened[name]

    def _is_allowed_to_erase(self, one: Opened, name: PackName) -> bool:
        """Return False and refuse a pack in which a revoked device erased events.

        A thief may have the device.
        """
        if not self._exchange.keys.is_of_removed(one.claim, name):
            return True
        self._of_removed.add(one.name)
        is_met = bool(self._exchange.noted.get(KEY_CHANGE))
        if not (one.stones or one.erased) or not is_met:
            return True
        self._refused[one.name] = NotEntitled(
            "a revoked device erased events of the session on the remote",
            why=f"device {one.claim.signer}; nothing was erased on this device",
            hint="to erase these events, run on an active device: forestay session forget",
            session=self._session,
        )
        return False

    # -- reported heads ------------------------------------------------------------------------

    def _lacking(self, found: Plan, opened: Iterable[Opened]) -> list[Missing]:
        opened, reaches = list(opened), self._exchange.reaches
        reported = [ReportedHead(one.device, one.n, one.hash, here=True) for one in reaches]
        doubtful: list[ReportedHead] = []
        for one in opened:
            if one.name not in self._of_removed:
                is_doubted = one.claim.circle in self._exchange.doubted
                heads = [ReportedHead(device, *head) for device, head in one.claim.heads.items()]
                (doubtful if is_doubted else reported).extend(heads)
        new = {Stretch.of(one.claim): one for one in opened}
        shown = [*found.listed, *new]

        def on(stretch: Stretch, n: int) -> set[str]:
            """Return the hashes of the event with number `n`, from the pack or the journal."""
            if one := new.get(stretch):
                return {self._reader.content(one)[0].hashes[n - stretch.first]}
            held = self._hashes.get((stretch.device, n), set())
            return held if len(held) < 2 else held & set(back(stretch, self._links))

        # Sorted, so that each pack is parsed again at most once for all heads in it.
        self._doubtful = missing(shown, sorted(set(doubtful)), on)
        return missing(shown, sorted(set(reported)), on)

    @cached_property
    def _hashes(self) -> dict[tuple[str, int], set[str]]:
        """The hashes of local events, by device and number."""
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
        heads = (one.head for one in lacking)
        return all(head.hash in self._hashes.get((head.device, head.n), ()) for head in heads)

    def _mismatch_error(
        self, lacking: Sequence[Missing], claims: Sequence[Claim], *, doubted: bool = False
    ) -> Tampered:
        first = min(lacking, key=lambda one: (not one.instead, not one.head.here))
        head = first.head
        kind = Forked if first.instead else RolledBack if head.here else Truncated
        what = {
            Forked: "the remote has a different history of the session than at the last sync",
            RolledBack: "the remote has an older state of the session than at the last sync",
            Truncated: "the remote does not show all events of the session that it has",
        }[kind]
        others: list[str] = []
        if not head.here:  # only other persons reported the head, and their report may be false
            every = {one.circle for one in claims if one.heads.get(head.device) == head[1:3]}
            every.discard(self._transfer.identity.group.id)
            others = [key_text.grouped(one) for one in sorted(every)]
        device = coerce_input(head.device, limit=MOST_NAME, lines=False)
        why = f"it has the events of device {device} up to {first.whole}, not up to {head.n}"
        if first.instead:
            why = f"event {head.n} of device {device} is not the one that was there"
        why += f", as {', '.join(others)} reports" if others else ""
        remote = self._transfer.known.name
        pull = f"forestay sync --pull {remote} --session {self._session}"
        if doubted:
            hint = "you ignore these reports, so the rest was synced"
            hint += f"; to trust them again: {pull} --believe {others[0]}" if others else ""
        else:
            again = f"; to upload the missing events: forestay sync --push {remote} --again"
            hint = _LATE + (again if self._have(lacking) else "")
            hint += f"; to ignore these reports: {pull} --doubt {others[0]}" if others else ""
        return kind(what, why=why, hint=hint, session=self._session)

    # -- permissions ---------------------------------------------------------------------------

    def _wrong_owners(self, opened: Sequence[Opened]) -> dict[str, ForestayError]:
        """Return an error for each pack whose signer does not own its chain.

        The person who signed the first pack of a chain owns it.
        """
        refused: dict[str, ForestayError] = {}
        owners = dict(self._exchange.owners)
        for one in sorted(opened, key=lambda one: (one.claim.device, one.claim.first)):
            if one.claim.imported and one.claim.circle == self._exchange.keys.owner:
                continue  # an imported pack names no author; only the session's owner can push it
            owner = owners.setdefault(one.claim.device, one.claim.circle)
            if owner != one.claim.circle or one.claim.imported:
                if one.claim.device not in self._owners:
                    raise self._foreign(one, owner)  # which of the two owns the chain is unknown
                refused[one.name] = self._foreign(one, owner)
        self._exchange.owners = owners
        named = [one.claim for one in opened if one.claim.name and one.name not in refused]
        for claim in named:
            name = coerce_input(claim.name, limit=MOST_NAME, lines=False)
            self._exchange.names[claim.device] = name
        return refused

    def _vouched(self, opened: Iterable[Opened]) -> list[Opened]:
        """Return the packs, without imported ones whose chain lacks its first events.

        If a chain has an owner, that person must have signed its imported events too, or they must
        form a separate branch from the first event on: two devices used the same id.
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
        # Other persons signed events under an id of this home: this device must never sign them.
        mine, found = self._transfer.identity.group.id, dict[str, str]()
        for one in sound:
            if one.claim.device in self._transfer.own and one.claim.circle != mine:
                hashes = self._reader.content(one)[0].hashes
                new = [hash for hash in hashes if hash not in self._links]
                found |= dict.fromkeys(new[:1], one.claim.device)
        self._exchange.record_foreign(found)
        return sound

    def _is_parallel(
        self, one: Opened, every: Sequence[Opened], signed: set[str], owner: str
    ) -> bool:
        """Return whether an imported branch can be accepted; False while its beginning is missing.

        Raise if another person appended it to signed events.
        """
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
                # Only the author may append to signed events.
                raise self._foreign(one, owner)
            return True
        self._exchange.record_parallel({first: one.claim.device})
        return True

    def _foreign(self, one: Opened, owner: str) -> Tampered:
        return Tampered(
            f"another person appended to the chain of device {one.claim.device}",
            why=f"the chain belongs to {owner[:20]}, the pack to {one.claim.circle[:20]}",
            session=self._session,
        )

    def _wrongly_erased(self, opened: Sequence[Opened]) -> dict[str, ForestayError]:
        """Return an error for each pack with erased content that no valid tombstone covers."""
        refused: dict[str, ForestayError] = {}
        if not any(one.erased for one in opened):
            return refused
        stones = self._stones(sealed for one in opened for sealed in one.stones)
        for one in opened:
            for header, hash in one.erased:
                known = stones.erase(header, hash, self._exchange.may_erase)
                if not one.claim.tombstone or not known:
                    refused[one.name] = Tampered(
                        f"the content of event {header.device}:{header.n} is missing in its pack",
                        why="no device that is allowed to erase it has recorded an erasure",
                        hint=_CHECK_STORAGE,
                        session=self._session,
                    )
        return refused

    def _stones(self, more: Iterable[Sealed]) -> Tombstones:
        """Return the tombstones in the journal and in the packs."""

        def read(view: View) -> list[Sealed]:
            return [as_sealed(one) for one in view.events() if b".forgotten" in one.header]

        held = self._exchange.here(read, list[Sealed]())
        return Tombstones(map(ev.read, (*held, *more)))


AT_ONCE = 20_000
"""About how many events are appended in one transaction."""


class SessionPull:
    """Pull one session."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange, self._transfer = exchange, exchange.transfer
        self._session, self._outcome = exchange.session, exchange.outcome
        self._reader = PackReader(exchange)
        self._check = PackCheck(exchange, self._reader)
        self._heeds = False

    def pull(self) -> None:
        """Fetch, check and append new packs, and store what the remote has now."""
        opened = self._check.fetch_and_check()
        gone = self._exchange.plan().gone
        seq = self._exchange.here(lambda view: view.seq, 0)
        self._outcome.new = self._outcome.new or not seq
        disputes = self._disputes()
        left = self._append_packs(sorted(opened, key=lambda one: (one.claim.made, one.claim.first)))
        where = {"id": self._session, "forgotten": 1}
        if self._outcome.new and self._transfer.store.catalogue(where=where, limit=1):
            self._outcome.new = False  # the session has no events, so there is nothing to resume
        taken = [one for one in opened if one.name not in left]
        self._outcome.packs_down = len(taken)
        self._outcome.bytes_down = sum(one.size for one in taken)
        self._outcome.loose = len(left)
        self._outcome.disputes = max(self._disputes() - disputes, 0)
        for one in taken:
            self._exchange.known[one.name] = one.packed
        for name in gone:
            del self._exchange.known[name]
        self._find_erased(taken)
        if opened or gone or self._exchange.keys.epoch != self._exchange.last_mark.epoch:
            self._exchange.record_people([one.claim for one in taken])
            found = [one.packed for one in taken]
            self._exchange.remember(self._mark_after(seq), found=found, gone=gone)

    def _disputes(self) -> int:
        state = self._transfer.journal.state
        return self._exchange.here(lambda view: state(view).count("dispute.open"), 0)

    def _append_packs(self, opened: Sequence[Opened]) -> set[str]:
        """Append packs to the journal; return the names of those whose predecessors are missing."""
        late = [one for lot in _groups(opened) for one in self._append_group(lot)]
        before = -1
        while late and before != self._outcome.down:
            before = self._outcome.down
            late = [one for lot in _groups(late) for one in self._append_group(lot)]
        return {one.name for one in late}

    def _append_group(self, opened: Sequence[Opened]) -> list[Opened]:
        """Append the events of these packs; return the packs whose predecessors are missing."""
        if not opened:
            return []
        whole = [self._reader.content(one) for one in opened]
        late = self._merge([row for row, _ in whole], [blob for _, some in whole for blob in some])
        pairs = zip(opened, whole, strict=True)
        left = [one for one, (row, _) in pairs if not late.isdisjoint(row.hashes)]
        done = [one for one in opened if one not in left]
        for one in done:
            self._reader.release(one)
        packed = [one.packed for one in done]
        self._transfer.remotes.record_packs(self._transfer.known, self._session, packed)
        return left

    def _merge(self, rows: Sequence[Row], blobs: Sequence[Blob]) -> set[str]:
        """Append events to the journal; return the hashes of those without their predecessor."""
        content = list({blob.digest: blob.data for blob in blobs}.items())
        arrived = [one for row in rows for one in row.events()]
        kinds = set[str]().union(*(row.kinds for row in rows))
        if WHOLE in kinds:
            # If another person has forgotten the session, that concerns only their own copy. The
            # tombstone is the last event of its chain, so skipping it skips nothing else.
            may_erase = self._exchange.may_erase
            arrived = [
                one for one in arrived if one[1].kind != WHOLE or may_erase(one[1].device, "")
            ]
            kinds = {head.kind for _, head, _ in arrived}
        if not STONES.isdisjoint(kinds):
            self._heeds = True
            if self._transfer.before_erasure is not None:
                self._outcome.after.append(self._transfer.before_erasure(self._session))
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

    def _find_erased(self, taken: Sequence[Opened]) -> None:
        """Record which packs have erased content: their device did not know of the erasure."""
        exchange = self._exchange

        def read(view: View) -> None:
            gone = exchange.erased_in(view) if taken and exchange.is_erased(view) else {}
            for one in taken:
                erased = {header.n for header, _ in one.erased}
                if exchange.may_replace(one.claim.device):
                    held = Stretch.of(one.claim).covered(gone) - erased
                    exchange.holds_erased[one.name] = bool(held)

        exchange.here(read, None)

    def _mark_after(self, seq: int) -> There:
        """Return how far the session and the remote are equal after a pull."""
        exchange, mark = self._exchange, self._exchange.last_mark
        beyond = mark.beyond + self._outcome.down
        if any(exchange.holds_erased.values()):
            # The remote is not up to date until these packs are replaced.
            return exchange.mark(beyond=mark.pushed + beyond)
        if not self._heeds and mark.pushed + mark.beyond == seq and self._outcome.down:
            all_of_it = exchange.here(lambda view: self._end(view, seq + self._outcome.down), None)
            if all_of_it is not None:
                return exchange.mark(*all_of_it)
        return exchange.mark(mark.pushed, mark.hash, beyond)

    def _end(self, view: View, seq: int) -> tuple[int, str] | None:
        """Return the last arrival number and its hash, if no event was recorded during the pull."""
        if view.seq != seq:
            return None
        (last,) = view.events(after=view.seq - 1, limit=1)
        return view.seq, as_sealed(last).hash


def _groups(opened: Sequence[Opened]) -> Iterator[list[Opened]]:
    """Group packs, each group for one append: large enough to be fast, small enough for memory."""
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
