"""The keys of one session as a remote shows them, and what is opened and sealed by them.

An *identity* is who this device is: its key and its circle. Rings that are listed are read when
they are first needed; one of the newest epoch holds the keys of all before it. Whose signature
is whose is told by the circles of those who take part, which prove themselves.

Turns that were shown before must be shown again. A turn that is made here lists only the packs
that were looked at and found sound: whoever was put out adds nothing by the next one.

Keys of a *stranger* were put there by nobody who is a device of the owner, though they prove what
they can: by a device, say, that came back by a recovery code which was replaced. They are let be,
with all that is sealed to them, and told; else whoever does that would stop the session for all.
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
    "what is here is kept; put the storage right, or let all devices use an empty place:"
    " forestay remote add NEW ADDRESS, forestay sync"
)

Get = Callable[[str], bytes]
Put = Callable[[str, bytes], object]


class Identity(NamedTuple):
    """Who this device is."""

    key: Key
    circle: DeviceGroup
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
        """`owner` and `turns` are what was remembered of the keys there, as far as it is known.

        `sound` tells the names of packs that were looked at. What of all that is `doubted` are
        keys does not count because the user said so.
        """
        self.me, self.session, self._get = me, session, get
        self._owner, self._turns, self._sound = owner, turns, sound
        self.place = place or object_names.place(me.circle.name_key, session)
        self._people: dict[str, DeviceGroup] = {me.circle.id: me.circle}
        self._participants_by_name: dict[str, DeviceGroup] = {}
        """What those who take part said of their devices there, by the names of these objects."""
        self._ring: KeyRing | None = None
        self._locked: Locked | None = None
        self.unknown_signers: dict[str, UnknownSigner] = {}
        """Why keys are let be, by their names: no device of the owner put them there."""
        self.is_removed = False
        """Whether the owner's devices say that it is no longer shared with this person."""
        self._doubted = frozenset(filter(object_names.epoch_of, doubted))
        self.cleared: set[str] = set()
        """Keys that are doubted and open: a device is known by now that was not."""
        self._closed = ""
        """The newest keys that do not open, if any."""
        self.shown(listed)

    def shown(self, listed: Mapping[str, int]) -> None:
        """What the remote lists now."""
        self._listed = listed
        self._every_ring = sorted(filter(object_names.epoch_of, listed), key=object_names.epoch_of)
        passed = {*self.unknown_signers, *(self._doubted - self.cleared)}
        self._rings = [one for one in self._every_ring if one not in passed]
        self._participants = sorted(filter(object_names.is_participant, listed))
        self._packs = [one for one in map(object_names.as_pack, listed) if one is not None]
        self._locked = None

    @property
    def epoch(self) -> int:
        """The newest epoch, by what is listed."""
        return object_names.epoch_of(self._rings[-1]) if self._rings else 0

    def require_epoch(self, remembered: int) -> None:
        """Older keys than were shown before would let someone read on who was put out."""
        if self.epoch < remembered:
            raise Downgraded(
                f"the remote shows older keys of session {self.session} than before",
                why=f"epoch {self.epoch}, not {remembered}",
                hint=ELSEWHERE,
                session=self.session,
            )

    @property
    def ring(self) -> KeyRing | None:
        """The keys that are there, all of them merged; None before there are any.

        Nothing may be there that is newer than what opens. The newest alone would not do: whoever
        was put out can still make some, and only the others show that these do not count.
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
                found = self._judged(name, read.get(name) or key_ring.opened(each, self.me.circle))
            except Locked as error:
                locked, newest = locked or error, newest or name
                continue
            except UnknownSigner as error:
                # Not so what is merely not understood: it may be newer, and put someone out.
                self.unknown_signers[name] = error
                continue
            held = found if held is None else key_ring.union(held, found)
        if held is not None:
            held = held.knowing(self._turns)
            self.is_removed = self.me.circle.id in {each.circle for each in held.removed}
        if held is None and self.unknown_signers and locked is None:
            raise next(iter(self.unknown_signers.values()))
        if held is None or self.is_removed:
            raise locked or _no_longer_shared(self.session)
        self._rings = [one for one in self._rings if one not in self.unknown_signers]
        self._closed = newest
        # What else does not open is from before it was shared with this person, or of turns that
        # are known and do not count.
        known = max(each.content.epoch for each in held.log.values())
        if locked is not None and object_names.epoch_of(newest) > known:
            raise locked if held.owner.id != self.me.circle.id else self._newer(newest)
        return held

    def _clear(self) -> None:
        """Doubt is of keys that open nowhere; else it would hide all that others do from now on."""
        for name in self._doubted.intersection(self._listed):
            with suppress(RemoteFailed):
                if self.opens(name):
                    self.cleared.add(name)
        self.shown(self._listed)

    def _newer(self, name: str) -> Locked:
        """They cannot be let be: they may put someone out, who would read on by older ones."""
        return Locked(
            f"keys of session {self.session} do not open here",
            why="this device was put out of your circle, or a device made them that is not known "
            f"here yet or was put out: {name}",
            hint="on another device of yours: forestay device list, forestay sync. If this one is "
            "put out there, it comes back by: forestay device add --new-key. If not, sync here; "
            "if they open on none, they are of no use to you: "
            "forestay sync --pull REMOTE --session "
            f"{self.session} --doubt {name}; or delete that object from the storage",
            session=self.session,
        )

    def _meet_owner(self, data: Mapping[str, bytes]) -> dict[str, Opened]:
        """Know all that any of them tells of someone else's devices before one is judged.

        Returns those that open: each is opened once. What does not is for who judges it.
        """
        read: dict[str, Opened] = {}
        for name, each in data.items():
            with suppress(RemoteFailed):
                found = read[name] = key_ring.opened(each, self.me.circle)
                told = found.owner
                # Of one's own devices more is known than keys tell.
                if told.id != self.me.circle.id and told.id == (self._owner or told.id):
                    before = self._people.get(told.id)
                    self._people[told.id] = device_group.union(before, told) if before else told
        return read

    def _judged(self, name: str, read: Opened) -> KeyRing:
        """The keys in one object, if they are what its name and what is remembered say."""
        found = key_ring.judged(read, self.me.circle, place=self.place, people=self._known)
        self._require_epoch(found, object_names.epoch_of(name))
        self._require_owner(found)
        return found

    def _require_epoch(self, found: KeyRing, told: int) -> None:
        """The name of older keys can be changed by whoever runs the remote; their turns cannot.

        Turns that do not count are looked at too: whoever wrote the name may not have known.
        """
        if told not in {each.content.epoch for each in found.log.values()}:
            raise Replayed(
                f"older keys of session {found.session} lie under a newer name",
                why=f"epoch {found.epoch}, not {told}",
                hint=ELSEWHERE,
                session=found.session,
            )

    @property
    def turns(self) -> dict[str, str]:
        """What to remember of the keys: their newest turns, and the key of the owner's devices."""
        held = self._ring
        return {each: held.log[each].content.circle_key for each in held.ends} if held else {}

    @property
    def is_read(self) -> bool:
        """Whether keys were opened, so that what their names tell is true."""
        return self._ring is not None

    @property
    def owner(self) -> str:
        """The circle that the session belongs to, "" if that is not known."""
        return self._ring.owner.id if self._ring else self._owner

    def _require_owner(self, found: KeyRing) -> None:
        """Whoever may read a session could else make keys of their own for it and lead it on."""
        key = self.me.circle.name_key
        is_own = bool(key) and object_names.place(key, found.session) == self.place
        owner = self.me.circle.id if is_own else self._owner
        if owner and found.owner.id != owner:
            raise Swapped(
                f"the keys of session {found.session} are of someone who does not own it",
                why=f"they are of {found.owner.fingerprint}",
                hint=ELSEWHERE,
                session=found.session,
            )

    def _read(self, name: str) -> bytes:
        data = self._get(name)
        if not object_names.is_of(name, data):
            raise Downgraded(
                f"the keys of session {self.session} are not what their name says",
                why=f"an older object, or a damaged one, lies at {name}",
                hint=ELSEWHERE,
                session=self.session,
            )
        return data

    def _known(self, group_id: str) -> DeviceGroup | None:
        return self._people.get(group_id)

    def chain(self, device: str) -> str:
        """What the packs of a device are called here."""
        held = self.ring
        if held is not None:
            return held.chain(device)
        return object_names.chain(
            object_names.place_key(self.me.circle.name_key, self.session), device
        )

    # -- opening -------------------------------------------------------------------------------

    def ready(self) -> KeyRing:
        """Read all that opening packs takes, before several threads do."""
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
            # The owner's devices that came after the last turn are told of there alone.
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
        before = self._people.get(found.id)
        self._people[found.id] = device_group.union(before, found) if before else found

    def _unknown_signer(self, key: str, error: Locked) -> UnknownSigner | None:
        """Why what is sealed to a key is let be: it is of keys that are.

        What keys are in those that the user doubts nobody knows: they do not open.
        """
        found = next((each for each in self.unknown_signers.values() if key in each.keys), None)
        if found is None and self._doubted - self.cleared:
            hint = "it is let be, and can be deleted from the storage"
            return UnknownSigner(
                "it is sealed to keys that are not here", why=error.what, hint=hint
            )
        return found

    def opens(self, name: str) -> bool:
        """Whether the keys in an object are for this device."""
        try:
            key_ring.opened(self._read(name), self.me.circle)
        except Locked:
            return False
        return True

    def doubt(self, doubted: Iterable[str]) -> None:
        """Keys among these do not count from now on, nor what is sealed to keys not here."""
        self._doubted = frozenset(filter(object_names.epoch_of, doubted))
        self.shown(self._listed)

    def skipped_objects(self) -> dict[str, NotEntitled]:
        """What is told of each object that is let be, but for packs."""
        return {name: self._skip_error(name, of) for name, of in self.unknown_signers.items()}

    def _skip_error(self, name: str, of: UnknownSigner) -> NotEntitled:
        # Whoever has the storage can take it away: it stops those who are shared with from now on.
        return NotEntitled(of.what, why=f"{of.why}: {name}", hint=of.hint, session=self.session)

    def open(self, name: PackName, data: bytes) -> tuple[Claim, bytes]:
        """A pack that someone sealed who might; else the error that says what is wrong."""
        held = self.ready() if self._ring is None else self._ring
        try:
            claim, body = sealed_pack.open_pack(data, held, self._verify)
        except Locked as error:
            if of := self._unknown_signer(sealed_pack.key_of(data), error):
                raise self._skip_error(name.name, of) from None
            if self._closed and held.owner.id == self.me.circle.id:
                raise self._newer(self._closed) from error
            raise
        held.require_entitled(claim, name.hash, self._known)
        return claim, body

    def is_of_removed(self, claim: Claim, name: PackName) -> bool:
        """Whether a pack is of a device that was put out, which might have put it there since."""
        return self.ready().is_of_removed(claim, name.hash, self._known)

    @property
    def judged_by(self) -> str:
        """One digest of all by which a pack is judged, without reading any of it."""
        mine = self.me.circle
        said = "\n".join(
            (*self._every_ring, *self._participants, *sorted(mine.log), *sorted(self._doubted))
        )
        return digest_of(said.encode())[:32]

    def _verify(self, group_id: str, signer: str) -> bytes | None:
        known = self._known(group_id)
        if known is None and self._ring is not None and self._ring.owner.id == group_id:
            known = self._ring.owner
        return known.verify_key(signer) if known else None

    # -- sealing -------------------------------------------------------------------------------

    @property
    def is_to_read(self) -> bool:
        """Whether someone else shares it, and not to be continued."""
        return self.ring is not None and not self.ring.may_write(self.me.circle.id)

    def prepare(self, put: Put, now: int) -> KeyRing:
        """The keys to seal with: made if there are none, turned if someone was put out since."""
        held = self.ring
        if held is None:
            self._require_active()
            held = key_ring.new_ring(self.me.circle, self.me.key, self.session, made=now)
            self._put_ring(held, put)
        held = held.seen_by(self.me.circle) if held.owner.id == self.me.circle.id else held
        if not held.may_write(self.me.circle.id):
            raise NotEntitled(
                "it is shared with you to read",
                why=f"session {self.session} belongs to {held.owner.fingerprint}",
                hint="what you recorded stays here; ask its owner to share it with --continue",
                session=self.session,
            )
        if held.stale(self._known) and held.owner.is_active(self.me.key.id):
            held = self._rotated(held, put, now)
        self._ring = held
        if held.members:
            self._upload_participant(held, put)
        return held

    def _rotated(self, held: KeyRing, put: Put, now: int, change: Member | None = None) -> KeyRing:
        sound = self._sound()
        packs = [one.hash for one in self._packs if one.name in sound]
        held = key_ring.rotated(
            held, self.me.key, made=now, packs=packs, people=self._known, change=change
        )
        self._put_ring(held, put)
        if change is not None and change.mode == key_ring.NONE:
            # Last: were it there alone, it would be newer keys that do not open for the owner.
            self._put_ring(held, put, key_ring.encode_end(held, self.me.key, change))
        return held

    def turn(self, put: Put, now: int, change: Callable[[KeyRing], Member]) -> KeyRing:
        """New keys with one change of whom the session is shared with; `prepare` came before."""
        held = self.ready()
        mine = self.me.circle
        held = held.seen_by(mine) if held.owner.id == mine.id else held
        held = self._ring = self._rotated(held, put, now, change(held))
        if held.members:
            self._upload_participant(held, put)
        return held

    def report_removal(self, put: Put, group_id: str) -> None:
        """Tell someone once more that they were put out."""
        held = self.ready()
        for each in held.removed:
            if each.circle == group_id:
                self._put_ring(held, put, key_ring.encode_end(held, self.me.key, each))

    def _require_active(self) -> None:
        if not self.me.circle.is_active(self.me.key.id):
            raise NotEntitled(
                "this device is not in the circle, or not any more",
                why=self.me.key.id,
                hint="forestay device list",
            )

    def _put_ring(self, held: KeyRing, put: Put, data: bytes = b"") -> None:
        data = data or key_ring.encode(held, self.me.key)
        name = object_names.ring_name(self.place, held.epoch, data)
        put(name, data)
        self._ring = held  # before it is listed: nobody need read it again
        self._rings.append(name)

    def _upload_participant(self, held: KeyRing, put: Put) -> None:
        """Those it is shared with must know this device's signature."""
        self.ready()
        mine = self.me.circle
        told = (one.log.keys() for one in self._participants_by_name.values() if one.id == mine.id)
        if not mine.log.keys() <= set().union(*told):
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
        """A pack as it travels, and what it is called; `prepare` came first.

        `name` is that of the device that wrote the events, as far as it is known.
        """
        held = self._ring
        if held is None:
            raise RemoteFailed("there is no key to seal with", session=self.session)
        claim = Claim(
            self.session,
            *stretch,
            epoch=held.epoch,
            circle=self.me.circle.id,
            signer=self.me.key.id,
            made=now,
            heads=dict(heads),
            tombstone=tombstone,
            name=name,
            imported=imported or sealed_pack.UNSAID,
        )
        data = sealed_pack.seal_pack(claim, pack, self.me.key, held.current)
        chain = held.chain(stretch.device)
        return object_names.pack_name(self.place, chain, stretch.first, stretch.last, data), data


def _no_longer_shared(session: str) -> Locked:
    return Locked(
        f"session {session} is no longer shared with you",
        why="its owner began new keys without you",
        hint="what you have stays here; ask them to share it again",
        session=session,
    )
