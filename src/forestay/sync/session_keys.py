"""The keys of one session on one remote: read the rings there, open and seal packs with them.

An *identity* is the key and the device group of this device. Listed rings are read when they are
first needed; one of the newest epoch holds the keys of all earlier ones. The device groups of the
participants, which prove themselves, give the keys that verify signatures.

Key changes that were seen before must be seen again. A key change made here lists only the packs
that were checked and found intact, so a removed member or device cannot add packs through it.

An *unknown signer* is not a device of the owner, although its signatures are valid: for example a
device that was recovered by a code which had been replaced. Its keys, and all that is sealed to
them, are skipped and reported; otherwise it could block the session for everyone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from forestay.base.hashing import digest_of
from forestay.errors import Downgraded, Locked, NotEntitled, RemoteFailed, Replayed, Swapped
from forestay.sync.crypto import device_group, key_ring, sealed_pack
from forestay.sync.crypto.device_group import DeviceGroup
from forestay.sync.crypto.envelope import word_of
from forestay.sync.crypto.key_ring import KeyRing, Member, Opened, UnknownSigner
from forestay.sync.crypto.keys import Key
from forestay.sync.crypto.sealed_pack import Claim
from forestay.sync.plan import Stretch
from forestay.sync.remotes import object_names
from forestay.sync.remotes.object_names import PackName

ELSEWHERE = (
    "nothing is lost here; repair the storage, or move all devices to an empty place:"
    " forestay remote add NEW ADDRESS, forestay sync"
)

Get = Callable[[str], bytes]
Put = Callable[[str, bytes], object]


class Identity(NamedTuple):
    """The key, device group and name of this device."""

    key: Key
    group: DeviceGroup
    name: str = ""


class SessionKeys:
    """The keys of one session on one remote."""

    def __init__(
        self,
        me: Identity,
        session: str,
        listed: Mapping[str, int],
        *,
        get: Get,
        place: str = "",
        owner: str = "",
        turns: Collection[str] = (),
        sound: Callable[[], Collection[str]] = tuple,
        doubted: Iterable[str] = (),
    ) -> None:
        """`owner` and `turns` (key changes) are remembered from earlier syncs, if known.

        `sound` returns the names of packs that were found intact. Keys among `doubted` are ignored
        because the user asked for it.
        """
        self.me, self.session, self._get = me, session, get
        self._owner, self._turns, self._sound = owner, turns, sound
        self.place = place or object_names.place(me.group.name_key, session)
        self._people: dict[str, DeviceGroup] = {me.group.id: me.group}
        self._participants_by_name: dict[str, DeviceGroup] = {}
        """The device groups of participants, by the names of their objects there."""
        self._ring: KeyRing | None = None
        self._locked: Locked | None = None
        self.unknown_signers: dict[str, UnknownSigner] = {}
        """Why objects are skipped, by name: they are not from a device of the owner."""
        self.is_removed = False
        """Whether the owner ended the share with this person."""
        self._doubted = frozenset(filter(object_names.epoch_of, doubted))
        self.cleared: set[str] = set()
        """Doubted keys that open by now, because their device became known."""
        self._closed = ""
        """The name of the newest keys that do not open, if any."""
        self.shown(listed)

    def shown(self, listed: Mapping[str, int]) -> None:
        """Use a new listing of the remote."""
        self._listed = listed
        self._every_ring = sorted(filter(object_names.epoch_of, listed), key=object_names.epoch_of)
        passed = {*self.unknown_signers, *(self._doubted - self.cleared)}
        self._rings = [one for one in self._every_ring if one not in passed]
        self._participants = sorted(filter(object_names.is_participant, listed))
        self._packs = [one for one in map(object_names.as_pack, listed) if one is not None]
        self._locked = None

    @property
    def epoch(self) -> int:
        """The newest epoch, by the listed names."""
        return object_names.epoch_of(self._rings[-1]) if self._rings else 0

    def require_epoch(self, remembered: int) -> None:
        """Refuse older keys than were seen before: a removed member could read what follows."""
        if self.epoch < remembered:
            raise Downgraded(
                f"the remote shows older keys of session {self.session} than before",
                why=f"epoch {self.epoch}, not {remembered}",
                hint=ELSEWHERE,
                session=self.session,
            )

    @property
    def ring(self) -> KeyRing | None:
        """All keys on the remote, merged; None before there are any.

        No keys there may be newer than those that open. The newest alone are not enough: a removed
        device can still upload some, and only the others show that these do not count.
        """
        if self._locked is not None:
            raise self._locked
        if self._ring is None and self._rings:
            try:
                self._ring = self._merged()
            except Locked as error:
                self._locked = error
                raise
        return self._ring

    def _merged(self) -> KeyRing:
        self._clear()
        held: KeyRing | None = None
        locked, newest = None, ""
        data = {name: self._read(name) for name in reversed(self._rings)}
        read = self._meet_owner(data)
        for name, each in data.items():
            try:
                found = self._judged(name, read.get(name) or key_ring.opened(each, self.me.group))
            except Locked as error:
                locked, newest = locked or error, newest or name
                continue
            except UnknownSigner as error:
                # Keys that cannot be parsed are not skipped: they may be newer and remove a member.
                self.unknown_signers[name] = error
                continue
            held = found if held is None else key_ring.union(held, found)
        if held is not None:
            held = held.knowing(self._turns)
            self.is_removed = self.me.group.id in {each.circle for each in held.removed}
        if held is None and self.unknown_signers and locked is None:
            raise next(iter(self.unknown_signers.values()))
        if held is None or self.is_removed:
            raise locked or Locked(
                f"session {self.session} is no longer shared with you",
                why="its owner removed you from its keys",
                hint="your copy stays here; ask the owner to share it again",
                session=self.session,
            )
        self._rings = [one for one in self._rings if one not in self.unknown_signers]
        self._closed = newest
        # Other keys that do not open are from before the share with this person, or of known
        # changes that do not count.
        known = max(each.content.epoch for each in held.log.values())
        if locked is not None and object_names.epoch_of(newest) > known:
            raise locked if held.owner.id != self.me.group.id else self._newer(newest)
        return held

    def _clear(self) -> None:
        """End the doubt about keys that open: it would hide all later work of others."""
        for name in self._doubted.intersection(self._listed):
            with suppress(RemoteFailed):
                if self.opens(name):
                    self.cleared.add(name)
        self.shown(self._listed)

    def _newer(self, name: str) -> Locked:
        """Return the error for newer keys that do not open; they may remove a member."""
        return Locked(
            f"keys of session {self.session} do not open here",
            why="this device was revoked, or a device made them that is unknown "
            f"here or was revoked: {name}",
            hint="on another device of yours: forestay device list, forestay sync. If this one is "
            "revoked there, rejoin by: forestay device add --new-key. If not, sync here; "
            "if they open on no device, ignore them: "
            "forestay sync --pull REMOTE --session "
            f"{self.session} --doubt {name}; or delete that object from the storage",
            session=self.session,
        )

    def _meet_owner(self, data: Mapping[str, bytes]) -> dict[str, Opened]:
        """Collect what all rings say of the owner's devices before any ring is checked.

        Return the opened objects, so that each is opened once; the others fail in the check.
        """
        read: dict[str, Opened] = {}
        for name, each in data.items():
            with suppress(RemoteFailed):
                found = read[name] = key_ring.opened(each, self.me.group)
                owner = found.owner
                # Of the user's own devices more is known here than keys contain.
                if owner.id != self.me.group.id and owner.id == (self._owner or owner.id):
                    self._meet(owner)
        return read

    def _judged(self, name: str, read: Opened) -> KeyRing:
        """Return the keys in one object, if they match its name and what is remembered."""
        found = key_ring.judged(read, self.me.group, place=self.place, people=self._people.get)
        epoch = object_names.epoch_of(name)
        # The operator of the remote can rename older keys. Key changes that do not count are
        # included: the writer of the name may not have known.
        if epoch not in {each.content.epoch for each in found.log.values()}:
            raise Replayed(
                f"older keys of session {found.session} are stored under a newer name",
                why=f"epoch {found.epoch}, not {epoch}",
                hint=ELSEWHERE,
                session=found.session,
            )
        # Require the known owner: otherwise any reader could take the session over.
        key = self.me.group.name_key
        is_own = bool(key) and object_names.place(key, found.session) == self.place
        owner = self.me.group.id if is_own else self._owner
        if owner and found.owner.id != owner:
            raise Swapped(
                f"the keys of session {found.session} are not from its owner",
                why=f"they are of {found.owner.fingerprint}",
                hint=ELSEWHERE,
                session=found.session,
            )
        return found

    @property
    def turns(self) -> dict[str, str]:
        """What to remember of the keys: the newest changes, each with the owner's group key."""
        held = self._ring
        return {each: held.log[each].content.circle_key for each in held.ends} if held else {}

    @property
    def is_read(self) -> bool:
        """Whether keys were opened, so that their names are confirmed."""
        return self._ring is not None

    @property
    def owner(self) -> str:
        """The device group that owns the session, "" if unknown."""
        return self._ring.owner.id if self._ring else self._owner

    def _read(self, name: str) -> bytes:
        data = self._get(name)
        if not object_names.is_of(name, data):
            raise Downgraded(
                f"the keys of session {self.session} do not match their name",
                why=f"an older or damaged object is at {name}",
                hint=ELSEWHERE,
                session=self.session,
            )
        return data

    def chain(self, device: str) -> str:
        """Return the name of a device's chain on the remote."""
        held = self.ring
        if held is not None:
            return held.chain(device)
        place_key = object_names.place_key(self.me.group.name_key, self.session)
        return object_names.chain(place_key, device)

    # -- opening -------------------------------------------------------------------------------

    def ready(self) -> KeyRing:
        """Read all keys that opening packs needs, before several threads do."""
        held = self.ring
        if held is None:
            raise Locked(
                f"there are packs of session {self.session}, but no keys to them",
                hint="on the device that pushed them: forestay sync --push; "
                f"if that fails, {ELSEWHERE}",
                session=self.session,
            )
        for name in self._participants:
            if name not in self._participants_by_name:
                self._read_participant(name, held)
        owner = self._people.get(held.owner.id)
        if owner is not None:
            # The owner's devices added since the last key change are only in that object.
            held = self._ring = held.seen_by(owner)
        return held

    def _read_participant(self, name: str, held: KeyRing) -> None:
        data = self._read(name)
        try:
            found = self._participants_by_name[name] = key_ring.decode_participant(data, held)
        except Locked as error:
            if (of := self._unknown_signer(word_of(data, key_ring.WHO), error)) is None:
                raise
            self.unknown_signers[name] = of
            return
        self._meet(found)

    def _meet(self, group: DeviceGroup) -> None:
        """Merge what is known of a person's devices."""
        before = self._people.get(group.id)
        self._people[group.id] = device_group.union(before, group) if before else group

    def _unknown_signer(self, key: str, error: Locked) -> UnknownSigner | None:
        """Return why an object sealed to a key is skipped, None if it is not.

        Doubted keys do not open, so any unknown key may be among them.
        """
        found = next((each for each in self.unknown_signers.values() if key in each.keys), None)
        if found is None and self._doubted - self.cleared:
            hint = "it is ignored, and can be deleted from the storage"
            what = "it is sealed to keys that are not here"
            return UnknownSigner(what, why=error.what, hint=hint)
        return found

    def opens(self, name: str) -> bool:
        """Return whether this device can open the keys in an object."""
        try:
            key_ring.opened(self._read(name), self.me.group)
        except Locked:
            return False
        return True

    def doubt(self, doubted: Iterable[str]) -> None:
        """Ignore the keys among these from now on, and objects sealed to unknown keys."""
        self._doubted = frozenset(filter(object_names.epoch_of, doubted))
        self.shown(self._listed)

    def skipped_objects(self) -> dict[str, NotEntitled]:
        """Return the error to report for each skipped object, except packs."""
        return {name: self._skip_error(name, of) for name, of in self.unknown_signers.items()}

    def _skip_error(self, name: str, of: UnknownSigner) -> NotEntitled:
        # The operator of the storage should delete it: it blocks persons added from now on.
        return NotEntitled(of.what, why=f"{of.why}: {name}", hint=of.hint, session=self.session)

    def open(self, name: PackName, data: bytes) -> tuple[Claim, bytes]:
        """Open a pack and require that its signer was allowed to push it."""
        held = self.ready() if self._ring is None else self._ring
        try:
            claim, body = sealed_pack.open_pack(data, held, self._verify)
        except Locked as error:
            if of := self._unknown_signer(sealed_pack.key_of(data), error):
                raise self._skip_error(name.name, of) from None
            if self._closed and held.owner.id == self.me.group.id:
                raise self._newer(self._closed) from error
            raise
        held.require_entitled(claim, name.hash, self._people.get)
        return claim, body

    def is_of_removed(self, claim: Claim, name: PackName) -> bool:
        """Return whether a pack is of a revoked device, which may have pushed it since."""
        return self.ready().is_of_removed(claim, name.hash, self._people.get)

    @property
    def judged_by(self) -> str:
        """A digest of all keys and statements that decide on packs, without reading them."""
        objects = (*self._every_ring, *self._participants)
        names = (*objects, *sorted(self.me.group.log), *sorted(self._doubted))
        return digest_of("\n".join(names).encode())[:32]

    def _verify(self, group_id: str, signer: str) -> bytes | None:
        known = self._people.get(group_id)
        if known is None and self._ring is not None and self._ring.owner.id == group_id:
            known = self._ring.owner
        return known.verify_key(signer) if known else None

    # -- sealing -------------------------------------------------------------------------------

    @property
    def is_to_read(self) -> bool:
        """Whether another person shares the session for reading only."""
        return self.ring is not None and not self.ring.may_write(self.me.group.id)

    def prepare(self, put: Put, now: int) -> KeyRing:
        """Return the keys to seal with: new if there are none, changed if they are stale."""
        held = self.ring
        if held is None:
            if not self.me.group.is_active(self.me.key.id):
                raise NotEntitled(
                    "this device is not an active device of the group",
                    why=self.me.key.id,
                    hint="forestay device list",
                )
            held = key_ring.new_ring(self.me.group, self.me.key, self.session, made=now)
            self._put_ring(held, put)
        held = held.seen_by(self.me.group) if held.owner.id == self.me.group.id else held
        if not held.may_write(self.me.group.id):
            raise NotEntitled(
                "it is shared with you to read",
                why=f"session {self.session} belongs to {held.owner.fingerprint}",
                hint="your events stay here; ask its owner to share it with --continue",
                session=self.session,
            )
        if held.stale(self._people.get) and held.owner.is_active(self.me.key.id):
            held = self._rotated(held, put, now)
        self._ring = held
        if held.members:
            self._upload_participant(held, put)
        return held

    def _rotated(self, held: KeyRing, put: Put, now: int, change: Member | None = None) -> KeyRing:
        sound = self._sound()
        packs = [one.hash for one in self._packs if one.name in sound]
        held = key_ring.rotated(
            held, self.me.key, made=now, packs=packs, people=self._people.get, change=change
        )
        self._put_ring(held, put)
        if change is not None and change.mode == key_ring.NONE:
            # Last: alone there, it would be newer keys that do not open for the owner.
            self._put_ring(held, put, key_ring.encode_end(held, self.me.key, change))
        return held

    def turn(self, put: Put, now: int, change: Callable[[KeyRing], Member]) -> KeyRing:
        """Upload new keys with one member changed; call `prepare` first."""
        held, mine = self.ready(), self.me.group
        held = held.seen_by(mine) if held.owner.id == mine.id else held
        held = self._ring = self._rotated(held, put, now, change(held))
        if held.members:
            self._upload_participant(held, put)
        return held

    def report_removal(self, put: Put, group_id: str) -> None:
        """Upload once more the notice that a member was removed."""
        held = self.ready()
        for each in held.removed:
            if each.circle == group_id:
                self._put_ring(held, put, key_ring.encode_end(held, self.me.key, each))

    def _put_ring(self, held: KeyRing, put: Put, data: bytes = b"") -> None:
        data = data or key_ring.encode(held, self.me.key)
        name = object_names.ring_name(self.place, held.epoch, data)
        put(name, data)
        self._ring = held  # already known, so a later listing does not fetch it
        self._rings.append(name)

    def _upload_participant(self, held: KeyRing, put: Put) -> None:
        """Upload the user's device statements, so that members can check signatures."""
        self.ready()
        mine = self.me.group
        there = (one.log.keys() for one in self._participants_by_name.values() if one.id == mine.id)
        if not mine.log.keys() <= set().union(*there):
            data = key_ring.encode_participant(mine, self.me.key, held)
            name = object_names.participant_name(self.place, data)
            put(name, data)
            self._participants_by_name[name] = mine

    def seal(
        self,
        stretch: Stretch,
        pack: bytes,
        *,
        heads: Mapping[str, tuple[int, str]],
        now: int,
        tombstone: str = "",
        name: str = "",
        imported: bool = False,
    ) -> tuple[str, bytes]:
        """Return the name and bytes of a sealed pack; call `prepare` first.

        `name` is that of the device that wrote the events, if known.
        """
        held = self._ring
        if held is None:
            raise RemoteFailed("there is no key to seal with", session=self.session)
        claim = Claim(
            self.session,
            *stretch,
            epoch=held.epoch,
            circle=self.me.group.id,
            signer=self.me.key.id,
            made=now,
            heads=dict(heads),
            tombstone=tombstone,
            name=name,
            imported=imported or sealed_pack.UNSET,
        )
        data = sealed_pack.seal_pack(claim, pack, self.me.key, held.current)
        chain = held.chain(stretch.device)
        return object_names.pack_name(self.place, chain, stretch.first, stretch.last, data), data
