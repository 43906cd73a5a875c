"""The sync of one session with one remote: what the remote has, and who owns each chain.

An `Exchange` starts with the facts stored by earlier syncs, and adds each pack that was checked or
uploaded. It stores them at the end in one transaction, and pack by pack during a push.
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
"""The shown writer of a chain that was imported from a file."""
DISPUTED = "unknown (id used by two)"
"""The shown writer of a chain whose id two persons used."""
_ENDED = "no longer shared with you"

T = TypeVar("T")


class SessionOutcome:
    """The result of a sync for one session."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.up = self.down = 0
        self.packs_up = self.packs_down = 0
        self.bytes_up = self.bytes_down = 0
        self.disputes = self.loose = 0
        self.new = False
        self.stay = 0
        """The number of events that stay here because this user is not allowed to push them."""
        self.over = self.ended = False
        """Whether the session is no longer shared with this user; `ended` is set once only."""
        self.aside: list[ForestayError] = []
        """The errors of packs that were refused and skipped; reported once."""
        self.noticed: list[ForestayError] = []
        """Other problems that do not stop the sync; reported once."""
        self.error: ForestayError | None = None
        self.after: list[Callable[[], Sequence[str]]] = []
        """What to erase on this device because of pulled tombstones; called after the pull."""


class Exchange:
    """The sync of one session with one remote."""

    def __init__(
        self, transfer: Transfer, session: str, place: str, listed: Iterable[Object]
    ) -> None:
        self.transfer, self.session, self.place = transfer, session, place
        self.remotes = remotes = transfer.remotes
        self.outcome = SessionOutcome(session)
        self.last_mark = remotes.session(transfer.known, session) or There(session, place)
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
            owner=self.last_mark.owner or remotes.owner(session),
            turns=self.noted.get(KEY_CHANGE, {}),
            sound=lambda: self.known.keys(),
            doubted=self.noted.get(DOUBT, ()),
        )
        self.owners = {one.device: one.circle for one in self.reaches if one.circle}
        self.names = {one.device: one.name for one in self.reaches if one.name}
        self.doubted = set(self.noted.get(DOUBT, ()))
        self.doubted_now = False
        """Whether the user gave `--doubt` for this visit; then ignored reports are not shown."""
        self._elsewhere = remotes.owners(session)
        self.parallel = remotes.notes_at_home(session, PARALLEL)
        self.foreign = remotes.notes_at_home(session, FOREIGN)
        self._not_signed: set[str] = set()
        self._own, self._mine = transfer.own, transfer.identity.group.id
        self.holds_erased: dict[str, bool] = {}
        """Pack name → whether the pack holds content that is erased here."""
        self.sent: list[Packed] = []
        self.gone: list[str] = []
        self.keys.require_epoch(self.last_mark.epoch)

    # -- the remote ----------------------------------------------------------------------------

    @property
    def packs(self) -> dict[str, PackName]:
        """The listed packs, without those that an earlier sync refused for the same reasons."""
        found = map(object_names.as_pack, self.listed)
        if not (refused := self.noted.get(REFUSED)):
            return {one.name: one for one in found if one is not None}
        by = self.keys.judged_by
        return {one.name: one for one in found if one and refused.get(one.name) != by}

    def skip_packs(self, refused: Mapping[str, ForestayError]) -> None:
        """Skip refused packs that no other pack needs, now and in later syncs."""
        self.outcome.aside += refused.values()
        if refused:
            before = self.noted.get(REFUSED, {}).items()
            kept = {name: by for name, by in before if name in self.listed}
            self._note(REFUSED, kept | dict.fromkeys(refused, self.keys.judged_by))

    def _note(self, kind: str, notes: dict[str, str]) -> None:
        """Store the notes of one kind about the session on this remote."""
        self.noted[kind] = notes
        self.remotes.note(self.transfer.known, self.session, kind, notes)

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
        """Encrypt and upload a pack; all packs of one push have the same time."""
        tombstone, device = stone if one.is_erased else "", one.stretch.device
        author = self.names.get(device) or self.remotes.names().get(device, "")
        if device == self.transfer.store.machine.device or self.is_parallel(device):
            author = self.transfer.identity.name
        is_unsigned = self.is_imported(device) or self.is_parallel(device)
        name, data = self.keys.seal(
            one.stretch,
            one.packed(now),
            heads=heads,
            now=now,
            tombstone=tombstone,
            name=author,
            imported=is_unsigned or one.stretch.after in self._not_signed,
        )
        self.transfer.put(name, data)
        self.transfer.done("up", one.stretch.last - one.stretch.first + 1)
        return Packed(name, *one.stretch, len(data), tombstone)

    def note(self, done: Packed, *, again: bool = False) -> None:
        """Record an uploaded pack, so that it is not uploaded or read again."""
        self.known[done.name] = done
        self.listed[done.name] = done.size
        self.sent.append(done)
        self.remotes.record_packs(self.transfer.known, self.session, [done])
        self.outcome.up += 0 if again else done.last - done.first + 1
        self.outcome.packs_up += 1
        self.outcome.bytes_up += done.size

    def delete(self, pack: Packed) -> None:
        self.transfer.remote.delete(pack.name)
        del self.known[pack.name]
        self.listed.pop(pack.name, None)
        self.gone.append(pack.name)

    # -- the journal ----------------------------------------------------------------------------

    def here(self, read: Callable[[View], T], otherwise: T) -> T:
        """Call `read` with the local session; return `otherwise` if there is no such session."""
        try:
            with self.transfer.store.view(self.session) as view:
                return read(view)
        except NoSession:
            return otherwise

    @property
    def ends(self) -> dict[str, list[tuple[int, str, int]]]:
        """The heads of each local chain; a forked chain has several."""

        def read(view: View) -> dict[str, list[tuple[int, str, int]]]:
            core = self.transfer.journal.state(view).core
            return {device: chain.heads for device, chain in core.chains.items()}

        return self.here(read, {})

    def is_forked(self, device: str) -> bool:
        return len(self.ends.get(device, ())) > 1

    def is_erased(self, view: View) -> bool:
        """Return whether the content of any event is erased here."""
        return bool(self.transfer.journal.state(view).core.erased)

    def erased_in(self, view: View) -> dict[str, set[int]]:
        """Return the numbers of the erased events of each chain."""
        found: dict[str, set[int]] = {}
        for stored in view.events():
            if stored.data is None:
                header = ev.parse_header(stored.header)
                if header.kind not in STONES:
                    found.setdefault(header.device, set()).add(header.n)
        return found

    # -- owners of chains----------------------------------------------------------------------

    def whose(self, device: str) -> str:
        """Return the id of the device group that owns a chain, "" if unknown."""
        if device in self._own:
            return self._mine
        return self.owners.get(device) or self._elsewhere.get(device) or ""

    def is_imported(self, device: str) -> bool:
        """Return whether the chain was imported into a session that the user owns and pushes."""
        return not self.whose(device) and self.is_own_session

    def unsigned(self) -> set[str]:
        """Return chains of the user that only another person has pushed, as imported.

        They are pushed again, signed by the user: otherwise the importer could append to them.
        """
        persons = self.remotes.persons().items()
        unknown = {device for device, person in persons if person.startswith(IMPORTED)}
        unknown |= self.noted.get(UNSIGNED, {}).keys()
        return {device for device in unknown if self.whose(device) == self._mine}

    def record_unsigned(self, new: Set[str], signed: Set[str]) -> None:
        """Record which chains are on the remote only as imports.

        Per session: a device can be known from another session before this one is pushed.
        """
        before = self.noted.get(UNSIGNED, {}).keys()
        if (now := (before | new) - signed) != before:
            self._note(UNSIGNED, dict.fromkeys(sorted(now), ""))

    def is_ours(self, device: str) -> bool:
        """Return whether the user can push a chain: own, or imported into an own session."""
        if self.owners.get(device, self._mine) != self._mine:
            return self.is_parallel(device)
        return self.whose(device) == self._mine or self.is_imported(device)

    def is_parallel(self, device: str) -> bool:
        """Return whether another person pushed, in a session of the user, under an id of this home.

        The events recorded here under that id are pushed as a separate, imported branch.
        """
        is_held = self.owners.get(device, self._mine) != self._mine
        return is_held and device in self._own and self.keys.owner == self._mine

    def may_replace(self, device: str) -> bool:
        """Return whether the user can replace packs of a chain by packs without erased content."""
        is_disputed = device in self.parallel.values()
        return self.is_ours(device) and (not is_disputed or self.keys.owner == self._mine)

    def record_parallel(self, branches: Mapping[str, str]) -> None:
        """Record branches, by the hash of their first event, whose device id is used twice."""
        if branches.keys() - self.parallel.keys():
            self.parallel |= branches
            self.remotes.note_at_home(self.session, PARALLEL, self.parallel)
            self.remotes.record_writers(dict.fromkeys(branches.values(), DISPUTED))

    def record_foreign(self, new: Mapping[str, str]) -> None:
        """Record the first events that another person signed under a device id of this home."""
        if new.keys() - self.foreign.keys():
            self.foreign |= new
            self.remotes.note_at_home(self.session, FOREIGN, self.foreign)

    def is_foreign(self, stretch: Stretch, view: View) -> bool:
        """Return whether a stretch of an own chain has, or follows, events another person signed.

        This device never signs such a stretch; in an own session it is pushed as imported.
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
        """Return whether `device` can erase events of device `of`: same person, or session owner.

        Anyone can write under any device id, so the signer of the packs decides who a device is.
        """
        disputed = self.parallel.values()
        whose = "" if device in disputed else self.owners.get(device) or self.whose(device)
        owner = self.keys.ring.owner.id if self.keys.ring else self.transfer.identity.group.id
        of_one = "" if not of or of in disputed else self.whose(of)
        return bool(whose) and whose in (owner, of_one)

    def record_people(self, claims: Sequence[Claim]) -> None:
        """Record which device group wrote each chain of events, and who shares the session."""
        mine, ring = self.transfer.identity.group.id, self.keys.ring
        people = {one.circle: one.email or one.name for one in (ring.members if ring else ())}
        signed = {one.device: _writer(one, mine, people) for one in claims if not one.imported}
        imported = {one.device: _writer(one, mine, people) for one in claims if one.imported}
        self.record_unsigned(imported.keys(), signed.keys())
        writers = {**imported, **signed}
        disputed = writers.keys() & set(self.parallel.values())
        self.remotes.record_writers({**writers, **dict.fromkeys(disputed, DISPUTED)})
        shared = [one for one in (ring.newest.shared if ring else ()) if one.circle != mine]
        addresses = {one.circle: one.email for one in shared}
        persons = [_person(one.circle, addresses) for one in shared]
        self.remotes.record_shared(self.session, persons)

    def end(self) -> None:
        """Record that the session is no longer shared with this user."""
        self.outcome.over = True
        self.outcome.stay = self.remotes.waiting(self.session) or 0
        self.outcome.ended = self.last_mark.error != _ENDED
        # A background sync shows nothing to the user, so a later sync has to report it.
        if self.outcome.ended and not self.transfer.is_unattended:
            self.last_mark.error = _ENDED
            self.remotes.record_session(self.transfer.known, self.last_mark)

    def doubt(self, who: Iterable[str], *, believe: Iterable[str] = ()) -> None:
        """Record persons whose reported heads are ignored from now on, or (`believe`) no longer.

        Both also accept the object names of keys that no device of the owner made.
        """
        found = {self._doubtful(one) for one in who}
        self.doubted |= found
        self.doubted_now = bool(found)
        self.doubted -= {self._doubtful(one) for one in believe}
        self.keys.doubt(self.doubted)
        self._note(DOUBT, dict.fromkeys(sorted(self.doubted), ""))

    def _doubtful(self, who: str) -> str:
        if not object_names.epoch_of(who):
            return self._participant(who)
        if who in self.doubted or (who in self.listed and not self.keys.opens(who)):
            return who
        known = "this device can decrypt these keys, so they cannot be ignored"
        what = known if who in self.listed else "there are no such keys on the remote"
        raise InvalidInput(f"{what}: {who}", session=self.session)

    def _participant(self, who: str) -> str:
        """Return the device group id of the participant with this address or fingerprint."""
        ring = self.keys.ring
        others = {one.circle: one.email for one in ring.members} if ring else {}
        others |= {self.keys.owner: ""} if self.keys.owner else {}
        others.pop(self._mine, None)
        for group, email in others.items():
            if key_text.same_fingerprint(who, key_text.grouped(group)) or (email and email == who):
                return group
        raise InvalidInput(
            f"session {self.session} has no other participant {who}",
            why=", ".join(key_text.grouped(one) for one in others)
            or "there are no other participants",
            hint=f"forestay --session {self.session} share list",
            session=self.session,
        )

    # -- stored facts --------------------------------------------------------------------------

    def mark(self, pushed: int = 0, hash: str = "", beyond: int = 0) -> There:
        """Return the mark to store: up to which event the remote has the session."""
        return There(self.session, self.place, self.keys.epoch, pushed, hash, beyond)

    def remember(
        self, mark: There, *, found: Sequence[Packed] = (), gone: Sequence[str] = ()
    ) -> None:
        """Store what the remote has now, in one transaction."""
        if self.doubted & self.keys.cleared:
            # Before the epoch is stored: keys that are ignored later would look like a rollback.
            self.doubted -= self.keys.cleared
            self._note(DOUBT, dict.fromkeys(sorted(self.doubted), ""))
        mark.owner = self.keys.owner
        mark.epoch = self.keys.epoch if self.keys.is_read else self.last_mark.epoch
        self.last_mark = mark
        self.reaches = self._reaches()
        turns = self.keys.turns if self.keys.is_read else None
        self.remotes.record_session(
            self.transfer.known, mark, chains=self.reaches, found=found, gone=gone, turns=turns
        )

    def _reaches(self) -> list[Reach]:
        """Return the last event of each chain on the remote before its first gap."""
        found = []
        for device, chain in by_chain(self.stretches).items():
            reach = whole(chain)
            begins = {one.before for one in chain}
            ends = {(s.last, s.after) for s in chain if s.last <= reach and s.after not in begins}
            # A pack inside a larger one is on the same branch, unless the chain is forked.
            if not self.is_forked(device):
                ends = {end for end in ends if end[0] == reach}
            owner = self.owners.get(device) or self.whose(device)
            name = self.names.get(device, "")
            found += [Reach(device, n, hash, owner, name) for n, hash in sorted(ends)]
        return found


def _writer(claim: Claim, mine: str, people: dict[str, str]) -> str:
    """Return the writer of a chain for display; "" if it is the user."""
    person = "" if claim.circle == mine else _person(claim.circle, people)
    if not claim.imported:
        return person
    return f"unknown, imported by {person}" if person else IMPORTED


def _person(group_id: str, people: dict[str, str]) -> str:
    """Return the name of a person: the address given by the owner, else the fingerprint."""
    name = coerce_input(people.get(group_id, ""), limit=MOST_NAME, lines=False)
    return name or key_text.grouped(group_id)
