"""The keys of one session on one remote: read its key rings, decrypt and encrypt packs with them.

An *identity* is the key and the device group of this device. Rings are read when they are first
needed; one of the newest epoch has the keys of all earlier ones. The device groups of the
participants, verified by their own signatures, have the keys that verify packs.

Key changes that were on the remote in an earlier sync must still be there. A key change made by
this device lists only packs that passed all checks, so a removed member or device cannot add packs.

An *unknown signer* is not a device of the owner, although its signatures are valid: for example a
device that was recovered by a code which had been replaced. Its keys, and all objects encrypted to
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
    "nothing is lost on this device; repair the storage, or use an empty one on all devices:"
    " forestay remote add NEW ADDRESS, then forestay sync"
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

        `sound` returns the names of packs that passed all checks. Keys among `doubted` are ignored
        because the user asked for it.
        """
        self.me, self.session, self._get = me, session, get
        self._owner, self._turns, self._sound = owner, turns, sound
        self.place = place or object_names.place(me.group.name_key, session)
        self._people: dict[str, DeviceGroup] = {me.group.id: me.group}
        self._participants_by_name: dict[str, DeviceGroup] = {}
        """The device groups of participants, by the names of their objects on the remote."""
        self._ring: KeyRing | None = None
        self._locked: Locked | None = None
        self.unknown_signers: dict[str, UnknownSigner] = {}
        """Errors by object name: of objects that no device of the owner made, and are skipped."""
        self.is_removed = False
        """Whether the owner ended the share with this person."""
        self._doubted = frozenset(filter(object_names.epoch_of, doubted))
        self.cleared: set[str] = set()
        """Ignored keys that can be decrypted now, because their device became known."""
        self._closed = ""
        """The object name of the newest keys that cannot be decrypted, if any."""
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
        """Refuse older keys than in an earlier sync: a removed member could read new events."""
        if self.epoch < remembered:
            raise Downgraded(
                f"the remote has older keys of session {self.session} than at the last sync",
                why=f"they are of epoch {self.epoch}; the last sync found epoch {remembered}",
                hint=ELSEWHERE,
                session=self.session,
            )

    @property
    def ring(self) -> KeyRing | None:
        """All keys on the remote, merged; None if there are none yet.

        Raise `Locked` if there are newer keys than those that can be decrypted. All keys are read,
        not only the newest: a removed device can still upload keys, and only the others show that
        these do not count.
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
                # Do not skip keys that cannot be parsed: they may be newer and remove a member.
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
                hint="your copy stays on this device; ask the owner to share it again",
                session=self.session,
            )
        self._rings = [one for one in self._rings if one not in self.unknown_signers]
        self._closed = newest
        # Other keys that cannot be decrypted are from before the session was shared with this user,
        # or belong to key changes that do not count.
        known = max(each.content.epoch for each in held.log.values())
        if locked is not None and object_names.epoch_of(newest) > known:
            raise locked if held.owner.id != self.me.group.id else self._newer(newest)
        return held

    def _clear(self) -> None:
        """Stop ignoring keys that can be decrypted: that would hide all later work of others."""
        for name in self._doubted.intersection(self._listed):
            with suppress(RemoteFailed):
                if self.opens(name):
                    self.cleared.add(name)
        self.shown(self._listed)

    def _newer(self, name: str) -> Locked:
        """Return the error for newer keys that cannot be decrypted; they may remove a member."""
        return Locked(
            f"this device cannot decrypt the newest keys of session {self.session}",
            why="this device was revoked, or the keys were made by a device that is unknown "
            f"or was revoked: {name}",
            hint="on another device of yours: forestay device list, forestay sync. If this one is "
            "revoked there, rejoin: forestay device add --new-key. If not, sync here again; "
            "if no device can decrypt the keys, ignore them: "
            "forestay sync --pull REMOTE --session "
            f"{self.session} --doubt {name}; or delete that object from the storage",
            session=self.session,
        )

    def _meet_owner(self, data: Mapping[str, bytes]) -> dict[str, Opened]:
        """Merge the owner's devices from all rings before any ring is checked.

        Return the objects that could be decrypted, so that none is decrypted twice; the check
        reports the others.
        """
        read: dict[str, Opened] = {}
        for name, each in data.items():
            with suppress(RemoteFailed):
                found = read[name] = key_ring.opened(each, self.me.group)
                owner = found.owner
                # The local device group of the user is at least as new as the one in the keys.
                if owner.id != self.me.group.id and owner.id == (self._owner or owner.id):
                    self._meet(owner)
        return read

    def _judged(self, name: str, read: Opened) -> KeyRing:
        """Return the keys in one object; raise if they do not match its name or earlier syncs."""
        found = key_ring.judged(read, self.me.group, place=self.place, people=self._people.get)
        epoch = object_names.epoch_of(name)
        # The operator of the remote can rename older keys. Compare with all key changes, even those
        # that do not count: the device that made the name may not have known that.
        if epoch not in {each.content.epoch for each in found.log.values()}:
            raise Replayed(
                f"older keys of session {found.session} are stored under a newer name",
                why=f"they are of epoch {found.epoch}; the name is of epoch {epoch}",
                hint=ELSEWHERE,
                session=found.session,
            )
        # Require the known owner: otherwise any reader could become the owner of the session.
        key = self.me.group.name_key
        is_own = bool(key) and object_names.place(key, found.session) == self.place
        owner = self.me.group.id if is_own else self._owner
        if owner and found.owner.id != owner:
            raise Swapped(
                f"the keys of session {found.session} are not from its owner",
                why=f"they are from the device group {found.owner.fingerprint}",
                hint=ELSEWHERE,
                session=found.session,
            )
        return found

    @property
    def turns(self) -> dict[str, str]:
        """The facts to store for the next sync: the newest changes, with the owner's group key."""
        held = self._ring
        return {each: held.log[each].content.circle_key for each in held.ends} if held else {}

    @property
    def is_read(self) -> bool:
        """Whether keys were decrypted, so that the epochs in their names are confirmed."""
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
        """Return the name that the chain of a device has on the remote."""
        held = self.ring
        if held is not None:
            return held.chain(device)
        place_key = object_names.place_key(self.me.group.name_key, self.session)
        return object_names.chain(place_key, device)

    # -- opening -------------------------------------------------------------------------------

    def ready(self) -> KeyRing:
        """Read all keys that are needed to decrypt packs, before several threads use them."""
        held = self.ring
        if held is None:
            raise Locked(
                f"the remote has packs of session {self.session}, but not their keys",
                hint="on the device that pushed the packs: forestay sync --push; "
                f"if that fails, {ELSEWHERE}",
                session=self.session,
            )
        for name in self._participants:
            if name not in self._participants_by_name:
                self._read_participant(name, held)
        owner = self._people.get(held.owner.id)
        if owner is not None:
            # Devices that the owner added since the last key change are only in that object.
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
        """Add a person's device group, or merge it with the known version."""
        before = self._people.get(group.id)
        self._people[group.id] = device_group.union(before, group) if before else group

    def _unknown_signer(self, key: str, error: Locked) -> UnknownSigner | None:
        """Return why an object encrypted to a key is skipped, None if it is not.

        Ignored keys are not decrypted, so an unknown key may be one of them.
        """
        found = next((each for each in self.unknown_signers.values() if key in each.keys), None)
        if found is None and self._doubted - self.cleared:
            hint = "the object is ignored; you can delete it from the storage"
            what = "an object is encrypted to keys that this device does not have"
            return UnknownSigner(what, why=error.what, hint=hint)
        return found

    def opens(self, name: str) -> bool:
        """Return whether this device can decrypt the keys in an object."""
        try:
            key_ring.opened(self._read(name), self.me.group)
        except Locked:
            return False
        return True

    def doubt(self, doubted: Iterable[str]) -> None:
        """Ignore the keys in these objects from now on, and objects encrypted to unknown keys."""
        self._doubted = frozenset(filter(object_names.epoch_of, doubted))
        self.shown(self._listed)

    def skipped_objects(self) -> dict[str, NotEntitled]:
        """Return the error to report for each skipped object, except packs."""
        return {name: self._skip_error(name, of) for name, of in self.unknown_signers.items()}

    def _skip_error(self, name: str, of: UnknownSigner) -> NotEntitled:
        # Report it: the object blocks persons added from now on, until it is deleted.
        return NotEntitled(of.what, why=f"{of.why}: {name}", hint=of.hint, session=self.session)

    def open(self, name: PackName, data: bytes) -> tuple[Claim, bytes]:
        """Decrypt a pack and require that its signer was allowed to push it."""
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
        """Return whether a revoked device may have pushed a pack after it was revoked."""
        return self.ready().is_of_removed(claim, name.hash, self._people.get)

    @property
    def judged_by(self) -> str:
        """A digest of the names of all keys and device groups, which decide on packs."""
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
        """Return the keys to encrypt with; create them if there are none, change stale ones."""
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
                f"session {self.session} is shared with you to read only",
                why=f"it belongs to {held.owner.fingerprint}",
                hint="your events stay on this device; ask its owner to share it with --continue",
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
            # Last: if only this notice were there, the owner could not decrypt the newest keys.
            self._put_ring(held, put, key_ring.encode_end(held, self.me.key, change))
        return held

    def change_member(self, put: Put, now: int, change: Callable[[KeyRing], Member]) -> KeyRing:
        """Add, change or remove a member: upload new keys of the session for its members.

        Call `prepare` first.
        """
        held, mine = self.ready(), self.me.group
        held = held.seen_by(mine) if held.owner.id == mine.id else held
        held = self._ring = self._rotated(held, put, now, change(held))
        if held.members:
            self._upload_participant(held, put)
        return held

    def report_removal(self, put: Put, group_id: str) -> None:
        """Upload the notice for a removed member again."""
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
        """Upload the statements on the user's devices, so that members can check signatures."""
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
        """Encrypt a pack; return its object name and bytes. Call `prepare` first.

        `name` is the name of the device that wrote the events, if known.
        """
        held = self._ring
        if held is None:
            what = f"there is no key to encrypt session {self.session} with"
            raise RemoteFailed(what, session=self.session)
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
