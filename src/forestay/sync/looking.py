"""Looking: every pack that is new on a remote is read, and all are judged together.

They are held against what is known to be there: what this device was shown before, and what the
claims tell. Less than that, or something else, is the storage's lie, and each has an error of its
own; then nothing of the session is taken, nothing that is remembered changes, and other sessions
are not touched by it. A pack that is refused, and that nothing else needs, is no lie of the
storage but someone's try: it is set aside and told, and the rest goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from forestay.base.text import coerce_input
from forestay.errors import (
    ForestayError,
    Forked,
    NotEntitled,
    NotThere,
    RolledBack,
    Tampered,
    Truncated,
)
from forestay.journal.projections import as_sealed
from forestay.model import event as ev
from forestay.model.erasure import Tombstones
from forestay.model.event import Sealed
from forestay.store.machine.remotes import REFUSED, TURN
from forestay.store.port import View
from forestay.sync.crypto import key_text
from forestay.sync.crypto.sealed_pack import Claim
from forestay.sync.opening import LOOK_THERE, Opened, Opening, Refusal
from forestay.sync.plan import Link, Missing, Plan, Stretch, Told, back, missing, root
from forestay.sync.remotes import object_names
from forestay.sync.remotes.object_names import PackName
from forestay.sync.session import MOST_NAME, Exchange

_LATE = "a storage that lists late shows it after a while: try again"


class Looking:
    """What is new on the remote of one exchange."""

    def __init__(self, exchange: Exchange, opening: Opening) -> None:
        self._exchange, self._opening = exchange, opening
        self._trip, self._session = exchange.trip, exchange.session
        self._owners = dict(exchange.owners)
        self._refused: dict[str, ForestayError] = {}
        """Packs that are refused as they are."""
        self._for_now: dict[str, ForestayError] = {}
        """Packs that may be sound with others that are yet to come."""
        self._of_ended: set[str] = set()
        """Packs of devices that were put out: nobody has to believe what these tell of others."""
        self._doubtful: list[Missing] = []
        """What is not there, and only someone told whom the user doubts."""

    def look(self) -> list[Opened]:
        """Read what is new there and judge it; raises when the remote cannot be believed."""
        opened: dict[str, Opened] = {}
        for pause in (*self._trip.patience, None):
            found = self._exchange.plan()
            late = self._open(found, opened)
            lacking = self._lacking(found, opened.values())
            if not lacking and not late:
                return self._done(opened)
            if lacking:
                self._require_not_refused(lacking)
            if pause is None or (lacking and self._trip.again and self._have(lacking)):
                break
            self._trip.clock.sleep(pause)
            self._exchange.list_again()
        if lacking and not (self._trip.again and self._have(lacking)):
            raise self._lie(lacking, [one.claim for one in opened.values()])
        return self._done(opened)

    def _done(self, opened: dict[str, Opened]) -> list[Opened]:
        sound = self._vouched(opened.values())
        told = self._exchange.noted.get(REFUSED, {})
        let_be = self._exchange.keys.let_be().items()
        self._exchange.set_aside({**self._refused, **{k: v for k, v in let_be if k not in told}})
        self._exchange.moved.aside += self._for_now.values()
        if self._doubtful and not self._exchange.doubted_now:
            claims = [one.claim for one in opened.values()]
            self._exchange.moved.noticed.append(self._lie(self._doubtful, claims, doubted=True))
        return sound

    def _require_not_refused(self, lacking: Iterable[Missing]) -> None:
        """What is told to be there, and is, and was refused, is not missing."""
        refused = {**self._for_now, **self._refused}
        chains = {self._exchange.keys.chain(one.told.device) for one in lacking} if refused else ()
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
            self._trip.expect("down", sum(packs[name].events for _, name in order))
        for name, data in self._trip.side_by_side(self._got, [packs[name] for _, name in order]):
            if data is None:
                late = True
                continue
            # Not in the threads that get it: all of them would wait for Python's lock.
            one = self._opening.judged(name, data)
            self._trip.done("down", name.events)
            if isinstance(one, Refusal):
                self._refused[one.name] = one.error
            elif self._is_to_be_heeded(one, name):
                opened[one.name] = one
        for gone in opened.keys() - set(found.fetch):
            del opened[gone]
        self._judge(opened)
        return late

    def _got(self, name: PackName) -> tuple[PackName, bytes | None]:
        try:
            return name, self._trip.get(name.name)
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

    def _is_to_be_heeded(self, one: Opened, name: PackName) -> bool:
        """What a device forgets that was put out is not: it may have been made to, since."""
        if not self._exchange.keys.is_of_ended(one.claim, name):
            return True
        self._of_ended.add(one.name)
        is_met = bool(self._exchange.noted.get(TURN))
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
        told = [Told(one.device, one.n, one.hash, here=True) for one in self._exchange.reaches]
        doubtful: list[Told] = []
        for one in opened:
            if one.name not in self._of_ended:
                heads = [Told(device, *head) for device, head in one.claim.heads.items()]
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
            row, _ = self._opening.content(opened)
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
        every = (one.told for one in lacking)
        return all(told.hash in self._hashes.get((told.device, told.n), ()) for told in every)

    def _lie(
        self, lacking: Sequence[Missing], claims: Sequence[Claim], *, doubted: bool = False
    ) -> Tampered:
        first = min(lacking, key=lambda one: (not one.instead, not one.told.here))
        told = first.told
        kind = Forked if first.instead else RolledBack if told.here else Truncated
        what = {
            Forked: "the remote shows another history than before",
            RolledBack: "the remote shows an older state than before",
            Truncated: "the remote does not show all that is there",
        }[kind]
        others = [] if told.here else self._tellers(told, claims)
        hint = self._believe(others) if doubted else self._way_on(lacking, others)
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

    def _way_on(self, lacking: Sequence[Missing], others: Sequence[str]) -> str:
        name, hint = self._trip.known.name, _LATE
        if self._have(lacking):
            hint += f"; to put it there again: forestay sync --push {name} --again"
        for one in others[:1]:
            doubt = f"forestay sync --pull {name} --session {self._session} --doubt {one}"
            hint += f"; to go on without what they tell: {doubt}"
        return hint

    def _believe(self, others: Sequence[str]) -> str:
        said = f"forestay sync --pull {self._trip.known.name} --session {self._session} --believe"
        ends = "".join(f"; to end that: {said} {one}" for one in others[:1])
        return f"you doubt them, so the rest went on{ends}"

    def _tellers(self, told: Told, claims: Sequence[Claim]) -> list[str]:
        """Who else tells it: they may be the ones who lie."""
        every = {one.circle for one in claims if one.heads.get(told.device) == told[1:3]}
        return [key_text.grouped(one) for one in sorted(every - {self._trip.identity.circle.id})]

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
                known = {hash for p in signed for hash in self._opening.content(p)[0].hashes}
                if set(self._opening.content(one)[0].hashes) <= known | self._links.keys():
                    continue
                if not self._stands_beside(one, every, known, owner):
                    late.add(one.name)
        sound = [one for one in every if one.name not in late]
        self._find_foreign(sound)
        return sound

    def _find_foreign(self, sound: Iterable[Opened]) -> None:
        """What others put under an id of this home is not for it to sign, on any remote."""
        mine, found = self._trip.identity.circle.id, dict[str, str]()
        for one in sound:
            if one.claim.device in self._trip.own and one.claim.circle != mine:
                hashes = self._opening.content(one)[0].hashes
                new = [hash for hash in hashes if hash not in self._links]
                found |= dict.fromkeys(new[:1], one.claim.device)
        self._exchange.find_foreign(found)

    def _stands_beside(
        self, one: Opened, every: Sequence[Opened], signed: set[str], owner: str
    ) -> bool:
        """Take a branch as one beside its chain; False if its beginning is yet to come."""
        links = dict(self._links)
        for pack in every:
            if pack.claim.imported and pack.claim.device == one.claim.device:
                row = self._opening.content(pack)[0]
                pairs = zip(row.headers, row.hashes, strict=True)
                links |= {hash: (head.device, head.n, head.prev) for head, hash in pairs}
        first = root(one.claim.after, links)
        if links[first][2] and links[first][2] not in signed:
            return False
        is_held = first in self._links and first not in self._exchange.beside
        if is_held or first in signed or links[first][2]:
            if owner != one.claim.circle:
                raise self._foreign(one, owner)  # nobody goes on with what someone else signed
            return True
        self._exchange.stand_beside({first: one.claim.device})
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
