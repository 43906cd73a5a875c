"""An exchange: one session and one remote, as far as it is known what is there and whose it is.

What is known begins with what is remembered, and grows with each pack that was found sound or
put there. It is remembered again all at once, or pack by pack as they arrive there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import TypeVar

from forestay.base.text import coerce_input
from forestay.errors import ForestayError, InvalidInput, NoSession
from forestay.model import event as ev
from forestay.model.erasure import KINDS as STONES
from forestay.store.machine.remotes import (
    DOUBT,
    FOREIGN,
    KEY_CHANGE,
    PARALLEL,
    REFUSED,
    UNSIGNED,
    Packed,
    Reach,
    There,
)
from forestay.store.port import View
from forestay.sync.crypto import key_text
from forestay.sync.crypto.sealed_pack import Claim
from forestay.sync.pack_builder import EncodedPack, links_of
from forestay.sync.plan import Plan, Stretch, back, by_chain, plan, whole
from forestay.sync.remotes import object_names
from forestay.sync.remotes.object_names import PackName
from forestay.sync.remotes.port import Object
from forestay.sync.session_keys import SessionKeys
from forestay.sync.transfer import Transfer

MOST_NAME = 60
IMPORTED = "unknown, imported"
"""Who wrote a chain that came in a file."""
DISPUTED = "unknown (id used by two)"
"""Who wrote a chain that has a branch beside that of whoever holds its id."""
_ENDED = "no longer shared with you"

T = TypeVar("T")


class SessionOutcome:
    """What became of one session."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.up = self.down = 0
        self.packs_up = self.packs_down = 0
        self.bytes_up = self.bytes_down = 0
        self.disputes = self.loose = 0
        self.new = False
        self.stay = 0
        """Events of this person that stay here, because they may not add to it, or no longer."""
        self.over = self.ended = False
        """Whether it is no longer shared with this person; that it `ended` is told once."""
        self.aside: list[ForestayError] = []
        """Why packs were refused that nothing else needs; told once, and the rest goes on."""
        self.noticed: list[ForestayError] = []
        """What else is wrong there and stops nothing; told once."""
        self.error: ForestayError | None = None
        self.after: list[Callable[[], Sequence[str]]] = []
        """What is to be done in this home because of tombstones that were taken."""


class Exchange:
    """One session and one remote."""

    def __init__(
        self, transfer: Transfer, session: str, place: str, listed: Iterable[Object]
    ) -> None:
        self.transfer, self.session, self.place = transfer, session, place
        self.outcome = SessionOutcome(session)
        remotes = transfer.store.machine.remotes
        self.there = remotes.session(transfer.known, session) or There(session, place)
        self.known = {one.name: one for one in remotes.objects(transfer.known, session)}
        self.reaches = remotes.chains(transfer.known, session)
        self.listed = {one.name: one.size for one in listed}
        self.noted = remotes.notes(transfer.known, session)
        self.keys = SessionKeys(
            transfer.identity,
            session,
            self.listed,
            get=transfer.get,
            place=place,
            owner=self.there.owner or remotes.owner(session),
            turns=self.noted.get(KEY_CHANGE, {}),
            sound=lambda: self.known.keys(),
            doubted=self.noted.get(DOUBT, ()),
        )
        self.owners = {one.device: one.circle for one in self.reaches if one.circle}
        self.names = {one.device: one.name for one in self.reaches if one.name}
        self.doubted = set(self.noted.get(DOUBT, ()))
        self.doubted_now = False
        """Whether the user said so in this visit, and need not be told why."""
        self._elsewhere = remotes.owners(session)
        self.parallel = remotes.notes_at_home(session, PARALLEL)
        self.foreign = remotes.notes_at_home(session, FOREIGN)
        self._not_signed: set[str] = set()
        self._own, self._mine = transfer.own, transfer.identity.circle.id
        self.holds_erased: dict[str, bool] = {}
        """Of packs that were read: whether they hold what is erased here."""
        self.sent: list[Packed] = []
        self.gone: list[str] = []
        self.keys.require_epoch(self.there.epoch)

    # -- what is there -------------------------------------------------------------------------

    @property
    def packs(self) -> dict[str, PackName]:
        """The packs that are listed, without those that were refused before and would be again."""
        found = map(object_names.as_pack, self.listed)
        if not (refused := self.noted.get(REFUSED)):
            return {one.name: one for one in found if one is not None}
        by = self.keys.judged_by
        return {one.name: one for one in found if one and refused.get(one.name) != by}

    def skip_packs(self, refused: Mapping[str, ForestayError]) -> None:
        """Let packs be that were refused, though nothing that is trusted needs them."""
        self.outcome.aside += refused.values()
        if refused:
            told = dict.fromkeys(refused, self.keys.judged_by)
            before = self.noted.get(REFUSED, {}).items()
            told |= {name: by for name, by in before if name in self.listed and name not in told}
            self.noted[REFUSED] = told
            self.transfer.store.machine.remotes.note(
                self.transfer.known, self.session, REFUSED, told
            )

    @property
    def stretches(self) -> list[Stretch]:
        return [Stretch.of(one) for one in self.known.values()]

    def plan(self) -> Plan:
        return plan(self.packs, {one.name: Stretch.of(one) for one in self.known.values()})

    def list_again(self) -> None:
        found = self.transfer.remote.list(object_names.within(self.place))
        self.listed = {one.name: one.size for one in found}
        self.keys.shown(self.listed)

    def put(
        self, one: EncodedPack, heads: dict[str, tuple[int, str]], stone: str, now: int
    ) -> Packed:
        """Seal a parcel and put it there; those that are put at once tell one time."""
        tombstone = stone if one.is_erased else ""
        told = self._author(one.stretch.device)
        name, data = self.keys.seal(
            one.stretch,
            one.packed(now),
            heads=heads,
            now=now,
            tombstone=tombstone,
            name=told,
            imported=self._is_unsigned(one.stretch),
        )
        self.transfer.put(name, data)
        self.transfer.done("up", one.stretch.last - one.stretch.first + 1)
        return Packed(name, *one.stretch, len(data), tombstone)

    def _is_unsigned(self, stretch: Stretch) -> bool:
        """Whether a pack goes there without a word of whose it is."""
        device = stretch.device
        if self.is_imported(device) or self.is_parallel(device):
            return True
        return stretch.after in self._not_signed

    def _author(self, device: str) -> str:
        """The name of the device that wrote a chain: a carried one is not written by this."""
        if device == self.transfer.store.machine.device or self.is_parallel(device):
            return self.transfer.identity.name
        return self.names.get(device) or self.transfer.store.machine.remotes.names().get(device, "")

    def note(self, done: Packed, *, again: bool = False) -> None:
        """A pack is there: known from now on, so that it is not sent, nor read, again."""
        self.known[done.name] = done
        self.listed[done.name] = done.size
        self.sent.append(done)
        self.transfer.store.machine.remotes.record_packs(self.transfer.known, self.session, [done])
        self.outcome.up += 0 if again else done.last - done.first + 1
        self.outcome.packs_up += 1
        self.outcome.bytes_up += done.size

    def delete(self, pack: Packed) -> None:
        self.transfer.remote.delete(pack.name)
        del self.known[pack.name]
        self.listed.pop(pack.name, None)
        self.gone.append(pack.name)

    # -- what is here --------------------------------------------------------------------------

    def here(self, read: Callable[[View], T], otherwise: T) -> T:
        """What is read of the session as it is here; something else where it is not."""
        try:
            with self.transfer.store.view(self.session) as view:
                return read(view)
        except NoSession:
            return otherwise

    @property
    def ends(self) -> dict[str, list[tuple[int, str, int]]]:
        """The ends of each chain here: a forked one has several."""

        def read(view: View) -> dict[str, list[tuple[int, str, int]]]:
            core = self.transfer.journal.state(view).core
            return {device: chain.heads for device, chain in core.chains.items()}

        return self.here(read, {})

    def is_forked(self, device: str) -> bool:
        return len(self.ends.get(device, ())) > 1

    def is_erased(self, view: View) -> bool:
        """Whether the content of any event is gone here."""
        return bool(self.transfer.journal.state(view).core.erased)

    def erased_in(self, view: View) -> dict[str, set[int]]:
        """The numbers of the events of each chain whose content is gone here."""
        found: dict[str, set[int]] = {}
        for stored in view.events():
            if stored.data is None:
                header = ev.parse_header(stored.header)
                if header.kind not in STONES:
                    found.setdefault(header.device, set()).add(header.n)
        return found

    # -- whose it is ---------------------------------------------------------------------------

    def whose(self, device: str) -> str:
        """The circle a chain belongs to, "" if nobody showed that it is theirs."""
        if device in self._own:
            return self._mine
        return self.owners.get(device) or self._elsewhere.get(device) or ""

    def is_imported(self, device: str) -> bool:
        """Whether a chain came in a file, and it is on us to carry it: the session is ours."""
        return not self.whose(device) and self.is_own_session

    def unsigned(self) -> set[str]:
        """Chains of this person that are there only as someone else imported them.

        They go there again, signed: else whoever imported them could go on with them.
        """
        told = self.transfer.store.machine.remotes.persons()
        unknown = {device for device, person in told.items() if person.startswith(IMPORTED)}
        unknown |= self.noted.get(UNSIGNED, {}).keys()
        return {device for device in unknown if self.whose(device) == self._mine}

    def record_unsigned(self, new: Set[str], signed: Set[str]) -> None:
        """Keep which chains are there without a word of whose they are.

        Of each session: a device may have been known by another one before this was pushed.
        """
        before = self.noted.get(UNSIGNED, {}).keys()
        if (now := (before | new) - signed) != before:
            self.noted[UNSIGNED] = dict.fromkeys(sorted(now), "")
            remotes = self.transfer.store.machine.remotes
            remotes.note(self.transfer.known, self.session, UNSIGNED, self.noted[UNSIGNED])

    def is_ours(self, device: str) -> bool:
        """Whether a chain is for this person to push: their own, or imported into their session."""
        if self.owners.get(device, self._mine) != self._mine:
            return self.is_parallel(device)
        return self.whose(device) == self._mine or self.is_imported(device)

    def is_parallel(self, device: str) -> bool:
        """Whether someone else holds the place of an id of ours there, in a session that we own.

        What was recorded here under it goes there beside theirs, and says nothing of whose it is.
        """
        is_held = self.owners.get(device, self._mine) != self._mine
        return is_held and device in self._own and self.keys.owner == self._mine

    def may_replace(self, device: str) -> bool:
        """Whether packs of a chain may give way to erased ones that this person puts there."""
        is_disputed = device in self.parallel.values()
        return self.is_ours(device) and (not is_disputed or self.keys.owner == self._mine)

    def record_parallel(self, branches: Mapping[str, str]) -> None:
        """Keep branches, by their first events, that lie beside others under the same ids."""
        if branches.keys() - self.parallel.keys():
            self.parallel |= branches
            self.transfer.store.machine.remotes.note_at_home(self.session, PARALLEL, self.parallel)
            self.transfer.store.machine.remotes.record_writers(
                dict.fromkeys(branches.values(), DISPUTED)
            )

    def record_foreign(self, new: Mapping[str, str]) -> None:
        """Keep events that someone else signed under ids of ours, where each row of them begins."""
        if new.keys() - self.foreign.keys():
            self.foreign |= new
            self.transfer.store.machine.remotes.note_at_home(self.session, FOREIGN, self.foreign)

    def is_foreign(self, stretch: Stretch, view: View) -> bool:
        """Whether a stretch of a chain of ours has, or follows, what someone else signed.

        Such a one is never signed by us; where the session is ours it travels as imported.
        """
        if stretch.device not in self.foreign.values() or stretch.device not in self._own:
            return False
        links = links_of(view, {stretch.device})
        is_it = not self.foreign.keys().isdisjoint(back(stretch._replace(first=1), links))
        self._not_signed |= {stretch.after} if is_it else set()
        return is_it

    @property
    def is_own_session(self) -> bool:
        return self.keys.owner in ("", self._mine)

    def may_erase(self, device: str, of: str) -> bool:
        """Whether a device may have events of another erased: of its own person, or its session.

        Anyone can write under an id of ours, but only we sign as ourselves: who signed counts.
        """
        disputed = self.parallel.values()
        whose = "" if device in disputed else self.owners.get(device) or self.whose(device)
        owner = self.keys.ring.owner.id if self.keys.ring else self.transfer.identity.circle.id
        of_one = "" if not of or of in disputed else self.whose(of)
        return bool(whose) and whose in (owner, of_one)

    def meet(self, claims: Sequence[Claim]) -> None:
        """Keep whose chains these are, and whom the session is shared with."""
        mine, ring = self.transfer.identity.circle.id, self.keys.ring
        people = {one.circle: one.email or one.name for one in (ring.members if ring else ())}
        remotes = self.transfer.store.machine.remotes
        signed = {one.device: _writer(one, mine, people) for one in claims if not one.imported}
        imported = {one.device: _writer(one, mine, people) for one in claims if one.imported}
        self.record_unsigned(imported.keys(), signed.keys())
        writers = {**imported, **signed}
        disputed = writers.keys() & set(self.parallel.values())
        remotes.record_writers({**writers, **dict.fromkeys(disputed, DISPUTED)})
        shared = [one for one in (ring.newest.shared if ring else ()) if one.circle != mine]
        addresses = {one.circle: one.email for one in shared}
        remotes.record_shared(self.session, [_person(one.circle, addresses) for one in shared])

    def has_ended(self) -> bool:
        """Whether its owner said that it is no longer shared with us.

        Keys that do not open would not do: anyone who can write there makes such.
        """
        return self.keys.is_removed

    def end(self) -> None:
        """Remember that it is no longer shared with us."""
        self.outcome.over = True
        self.outcome.stay = self.transfer.store.machine.remotes.waiting(self.session) or 0
        self.outcome.ended = self.there.error != _ENDED
        # A background sync shows nothing to the user, so the notice stays due.
        if self.outcome.ended and not self.transfer.is_unattended:
            self.there.error = _ENDED
            self.transfer.store.machine.remotes.record_session(self.transfer.known, self.there)

    def doubt(self, who: Iterable[str], *, believe: Iterable[str] = ()) -> None:
        """Remember whose word of what is there does not count any more, and whose does again.

        So it is with keys, by the names of their objects, that no device of the owner made.
        """
        found = {self._doubtful(one) for one in who}
        self.doubted |= found
        self.doubted_now = bool(found)
        self.doubted -= {self._doubtful(one) for one in believe}
        self.keys.doubt(self.doubted)
        self._note_doubt()

    def _note_doubt(self) -> None:
        told = dict.fromkeys(sorted(self.doubted), "")
        self.transfer.store.machine.remotes.note(self.transfer.known, self.session, DOUBT, told)

    def _doubtful(self, who: str) -> str:
        if not object_names.epoch_of(who):
            return self._circle_of(who)
        if who in self.doubted or (who in self.listed and not self.keys.opens(who)):
            return who
        what = "these keys open here, so they count" if who in self.listed else "no such keys there"
        raise InvalidInput(f"{what}: {who}", session=self.session)

    def _circle_of(self, who: str) -> str:
        """The one of those who take part that an address or a fingerprint means."""
        ring = self.keys.ring
        others = {one.circle: one.email for one in ring.members} if ring else {}
        others |= {self.keys.owner: ""} if self.keys.owner else {}
        others.pop(self._mine, None)
        for group, email in others.items():
            if key_text.same_fingerprint(who, key_text.grouped(group)) or (email and email == who):
                return group
        raise InvalidInput(
            f"nobody else who takes part in session {self.session} is called {who}",
            why=", ".join(key_text.grouped(one) for one in others) or "nobody else takes part",
            hint=f"forestay --session {self.session} share list",
            session=self.session,
        )

    # -- remembering ---------------------------------------------------------------------------

    def mark(self, pushed: int = 0, hash: str = "", beyond: int = 0) -> There:
        """How far the session is there, as it is to be remembered."""
        return There(self.session, self.place, self.keys.epoch, pushed, hash, beyond)

    def remember(
        self, there: There, *, found: Sequence[Packed] = (), gone: Sequence[str] = ()
    ) -> None:
        """Keep what is there now, all of it or nothing."""
        if self.doubted & self.keys.cleared:
            # Before their epoch is: keys that do not count would be older ones than before.
            self.doubted -= self.keys.cleared
            self._note_doubt()
        there.owner = self.keys.owner
        there.epoch = self.keys.epoch if self.keys.is_read else self.there.epoch
        self.there = there
        self.reaches = self._reaches()
        turns = self.keys.turns if self.keys.is_read else None
        self.transfer.store.machine.remotes.record_session(
            self.transfer.known, there, chains=self.reaches, found=found, gone=gone, turns=turns
        )

    def _reaches(self) -> list[Reach]:
        """The ends of what is there of each chain, as far as it is whole."""
        found = []
        for device, chain in by_chain(self.stretches).items():
            reach = whole(chain)
            begins = {one.before for one in chain}
            ends = {(s.last, s.after) for s in chain if s.last <= reach and s.after not in begins}
            # What lies inside a larger pack is on its branch, unless the chain has several.
            if not self.is_forked(device):
                ends = {end for end in ends if end[0] == reach}
            owner = self.owners.get(device) or self.whose(device)
            name = self.names.get(device, "")
            found += [Reach(device, n, hash, owner, name) for n, hash in sorted(ends)]
        return found


def _writer(claim: Claim, mine: str, people: dict[str, str]) -> str:
    """Who wrote a chain, for people; "" if it was this person."""
    person = "" if claim.circle == mine else _person(claim.circle, people)
    if not claim.imported:
        return person
    return f"unknown, imported by {person}" if person else IMPORTED


def _person(group_id: str, people: dict[str, str]) -> str:
    """Who a circle is: what its owner wrote down, else the fingerprint of its key."""
    return coerce_input(people.get(group_id, ""), limit=MOST_NAME, lines=False) or key_text.grouped(
        group_id
    )
