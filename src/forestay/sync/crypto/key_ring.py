"""A key ring: the keys of one session, who holds them, and what each holder may do.

An *epoch* of a session is an age identity; packs are sealed to the newest. A *key change* is one
signed statement: a new epoch, with the members from now on (`turn` in stored formats). The *owner*
is the device group that pushed the session first; only its devices change the keys. A *member* is
a person the session is shared with, to `read` or to `continue` it; a removed member has the mode
`none`. The *place* is the part of the remote with the objects of the session; a *chain* is the
events that one device wrote in the session.

Key changes are a signed log, as the statements of a device group are: rings merge by union, and
the members are computed. Of two changes of a member the later one holds, and of two at once the one
that allows less. The ring is *stale*, so that a key change is due before the next push, if someone
removed may know its newest epoch: a device group in it has begun an epoch since, or the newest
change does not list the members that all changes together give.

A revoked device may still hold old keys of a session, and have access to the storage. A key change
is *fresh* if its signer knew of the revocation. Every key change lists the packs that were on the
remote when it was made. Of the packs and key changes that the revoked device signed, only those
count that a fresh change has seen. While there is no fresh change, all packs of the revoked device
count, so that nothing that a lost device pushed is lost; of its key changes, those count that other
changes have seen or that this device *remembered* from earlier syncs. If nothing is remembered, all
of them count, or the session would be lost. But such a change alone adds no member, and no later
change builds on it.

A removed member cannot decrypt later rings, and anyone could upload an object that cannot be
decrypted. So the same key change is uploaded a second time, *without its secret* and encrypted to
the removed member: only that notice ends a share.

    object = envelope of kind RING, sealed to the owner's epoch and recovery key and to members;
             claim {"session", "owner", "signer", "made"}
    body   = JSON {"turns": [[turn, signature (hex)], …], "secrets": [age identity, …],
             "place_key": hex, "who": the owner's statements}
    turn   = JSON, see `KeyChange`; signed with "forestay turn 1" LF before it
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from hashlib import sha256
from typing import Final, NamedTuple, Protocol

import msgspec
from msgspec import Struct, structs

from forestay.errors import (
    ForestayError,
    InvalidInput,
    Locked,
    NotEntitled,
    Refused,
    RolledBack,
    Swapped,
    Tampered,
)
from forestay.sync.crypto import device_group, key_text, keys, signed_log
from forestay.sync.crypto.device_group import DeviceGroup
from forestay.sync.crypto.envelope import UNREADABLE, disclose, enclose, word_of
from forestay.sync.crypto.keys import Key, Secret
from forestay.sync.crypto.signed_log import SignedStatement, ends
from forestay.sync.remotes import object_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

KIND = "RING"
READ: Final = "read"
CONTINUE: Final = "continue"
NONE: Final = "none"
_MODES = (NONE, READ, CONTINUE)
_TAG = b"forestay turn 1\n"
_PLACE_TAG = b"forestay place\n"
_LIMIT = 64 << 20
_LONGEST = 8 << 20


class Signed(Protocol):
    """The fields of a claim (see `sealed_pack.Claim`) that name its signer."""

    @property
    def circle(self) -> str: ...

    @property
    def signer(self) -> str: ...


People = Callable[[str], DeviceGroup | None]
"""Look up a known device group by id."""


class Member(Struct, frozen=True, omit_defaults=True):
    """A person that a session is shared with; `change` counts how often this entry was changed."""

    circle: str
    key: str
    mode: str
    change: int = 1
    since: int = 0
    email: str = ""
    name: str = ""

    @property
    def _weight(self) -> tuple[int, int, str, str]:
        less = -_MODES.index(self.mode) if self.mode in _MODES else 1
        return self.change, less, self.key, self.email + "\0" + self.name


class KeyChange(Struct, frozen=True, omit_defaults=True):
    """One change of the keys of a session.

    !! The bytes are hashed and signed. Fields can be added, never changed.
    """

    session: str
    place: str
    place_check: str
    owner: str
    by: str
    made: int
    epoch: int
    key: str
    circle_key: str
    seen: tuple[str, ...] = ()
    members: tuple[Member, ...] = ()
    packs: tuple[str, ...] = ()

    @property
    def shared(self) -> list[Member]:
        """The members who get the key of this change."""
        return [each for each in self.members if each.mode != NONE]


STATEMENTS = signed_log.StatementKind(
    KeyChange, tag=_TAG, name="the keys of a session", longest=_LONGEST
)


class KeyRing:
    """The keys of one session. Immutable: functions that change it return another."""

    def __init__(
        self,
        signed: Iterable[SignedStatement[KeyChange]],
        secrets: Iterable[Secret],
        place_key: bytes,
        owner: DeviceGroup,
        remembered: Collection[str] = (),
        *,
        most: int = signed_log.MOST,
    ) -> None:
        """`remembered` are key changes that this device saw in earlier syncs, with their pasts."""
        self.log = STATEMENTS.collect(signed, most)
        self.owner = owner
        of = {
            (each.content.session, each.content.place, each.content.place_check, each.content.owner)
            for each in self.log.values()
        }
        if len(of) != 1:
            raise Swapped(f"the keys of {len(of)} sessions are mixed in one object")
        if next(iter(of))[3] != self.owner.id:
            raise Swapped("the keys of a session do not belong to the owner they name")
        _, self._past = STATEMENTS.sort_by_past(self.log)
        _require_signatures(self)
        # Require that each epoch is one above those it has seen: names have six digits for it.
        for each in self.log.values():
            seen = [self.log[hash].content.epoch for hash in each.content.seen]
            if each.content.epoch != 1 + max(seen, default=0):
                why = f"epoch {each.content.epoch} after {max(seen, default=0)}"
                raise Tampered("a change of a session's keys is out of order", why=why)
        first = next(iter(self.log.values())).content
        self.session, self.place = first.session, first.place
        self.place_key = place_key
        if sha256(_PLACE_TAG + place_key).hexdigest() != first.place_check:
            what = f"the object names of session {self.session} are not made by its owner's key"
            raise Tampered(what)
        made = {each.content.key for each in self.log.values()}
        self._secrets = {each.recipient: each for each in secrets if each.recipient in made}
        self.remembered = frozenset(remembered)
        self._freshness: dict[str, list[str]] = {}

    def __repr__(self) -> str:
        return f"<Ring of {self.session}, epoch {self.epoch}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KeyRing):
            return NotImplemented
        return (self.log.keys(), self._secrets) == (other.log.keys(), other._secrets)

    def __hash__(self) -> int:
        return hash(self.session)

    # -- keys, members ------------------------------------------------------------------------

    @cached_property
    def turns(self) -> list[KeyChange]:
        """The key changes that count, the newest last."""
        return [self.log[each].content for each in self._counted]

    @property
    def newest(self) -> KeyChange:
        return self.turns[-1]

    @property
    def epoch(self) -> int:
        return self.newest.epoch

    @property
    def current(self) -> Secret:
        """The secret to which new packs are encrypted; raise `Locked` if this device lacks it."""
        found = self._secrets.get(self.newest.key)
        if found is None:
            raise self.locked(keys.recipient_id(self.newest.key))
        return found

    def secret(self, id: str) -> tuple[Secret, int]:
        """Return the secret with this id, and its epoch; raise `Locked` if this device lacks it."""
        for each in self.log.values():
            found = self._secrets.get(each.content.key)
            if found is not None and found.id == id:
                return found, each.content.epoch
        raise self.locked(id)

    def locked(self, id: str) -> ForestayError:
        """Return the error for a missing key: which one it is, and what to do."""
        every = [each.content for each in self.log.values()]
        known = [each for each in every if keys.recipient_id(each.key) == id]
        whose = key_text.grouped(self.owner.id)
        which = f"epoch {known[0].epoch}" if known else f"after epoch {self.epoch}"
        return Locked(
            f"a pack of session {self.session} needs the key {id}, which this device lacks",
            why=f"{which} of this session, which belongs to {whose}",
            hint="to fetch newer keys: forestay sync; if you were removed, ask its owner",
            session=self.session,
        )

    @cached_property
    def members(self) -> list[Member]:
        """The persons that the session is shared with now."""
        return [each for each in self._member_entries.values() if each.mode != NONE]

    def member(self, group_id: str) -> Member | None:
        return next((each for each in self.members if each.circle == group_id), None)

    def may_write(self, group_id: str) -> bool:
        """Return whether this person is allowed to add events to the session now."""
        member = self.member(group_id)
        return group_id == self.owner.id or (member is not None and member.mode == CONTINUE)

    def recipients(self) -> list[str]:
        """Return the age recipients to which the ring object is encrypted."""
        recovery = [each.recipient for each in self.owner.recoveries() if each.recipient]
        return [self.newest.circle_key, *recovery, *(each.key for each in self.newest.shared)]

    def chain(self, device: str) -> str:
        """Return the name that the chain of a device has on the remote."""
        return object_names.chain(self.place_key, device)

    def stale(self, people: People | None = None) -> str:
        """Return why a key change is due before the next push; "" if none is."""
        sealed_to = {self.log[each].content.circle_key for each in self.ends}
        if sealed_to != {self.owner.epoch.recipient} or self.owner.stale:
            return "the owner's devices have changed"
        if len(self._counted) > len(self._vouched):
            return "a revoked device changed the keys last"
        signed = {each.circle: each for each in self.newest.members}
        if signed != self._member_entries:
            return "two devices changed the members at the same time"
        for each in self.members:
            known = people(each.circle) if people else None
            if known is not None and known.epoch.recipient != each.key and _knows(known, each.key):
                return f"the devices of {each.name or key_text.grouped(each.circle)} have changed"
        return ""

    @property
    def removed(self) -> list[Member]:
        """The removed members, who could read the session before."""
        return [each for each in self._member_entries.values() if each.mode == NONE]

    def seen_by(self, owner: DeviceGroup) -> KeyRing:
        """Return the ring with the same keys and newer statements about the owner's devices."""
        merged = device_group.union(self.owner, owner)
        return self if merged is self.owner else self._with(merged, self.remembered)

    def knowing(self, remembered: Collection[str]) -> KeyRing:
        """Return the ring with remembered changes; raise `RolledBack` if one of them is missing."""
        if missing := set(remembered) - self.log.keys():
            raise RolledBack(
                f"the remote has older keys of session {self.session} than at the last sync",
                why=f"{len(missing)} of {len(remembered)} key changes are missing",
                hint="nothing was changed on this device; check the storage, then: forestay sync",
                session=self.session,
            )
        return self._with(self.owner, frozenset(remembered)) if remembered else self

    def _with(self, owner: DeviceGroup, remembered: frozenset[str]) -> KeyRing:
        return KeyRing(self.log.values(), self._secrets.values(), self.place_key, owner, remembered)

    @property
    def ends(self) -> tuple[str, ...]:
        """The key changes to remember: those that no other has seen."""
        return ends(self.log, self._vouched)

    # -- whose signature counts ----------------------------------------------------------------

    def require_entitled(self, claim: Signed, digest: str, people: People) -> None:
        """Raise `NotEntitled` unless this signer was allowed to push this pack.

        `digest` is the hash in the pack's name. The signature is checked by `sealed_pack`.
        """
        whose = self.owner if claim.circle == self.owner.id else people(claim.circle)
        if whose is None or whose.verify_key(claim.signer) is None:
            raise self._refusal(claim, "an unknown device")
        listed = any(digest in change.packs for change in self.turns)
        if not listed and not any(_allows(one, claim.circle, CONTINUE) for one in self.turns):
            raise self._refusal(claim, "a person who can only read it")
        if not self.may_write(claim.circle) and not self._wrote(claim.circle):
            after = [t for t in self.turns if not _allows(t, claim.circle, CONTINUE)]
            if not any(digest in change.packs for change in after):
                raise self._refusal(claim, "a person who is no longer allowed to continue it")
        if not whose.is_active(claim.signer):
            fresh = [one for one in self.turns if self._is_fresh(one, whose, claim.signer)]
            if fresh and not any(digest in change.packs for change in fresh):
                raise self._refusal(claim, "a device that had been revoked")

    def is_of_removed(self, claim: Signed, digest: str, people: People) -> bool:
        """Return whether a revoked device signed a pack that no fresh key change lists."""
        whose = self.owner if claim.circle == self.owner.id else people(claim.circle)
        if whose is None or whose.is_active(claim.signer):
            return False
        fresh = [one for one in self.turns if self._is_fresh(one, whose, claim.signer)]
        return not any(digest in change.packs for change in fresh)

    def _wrote(self, group_id: str) -> bool:
        """Return whether a change by a revoked device, which no other device has seen, allows a
        person to continue the session."""
        late = [self.log[each].content for each in self._counted if each not in self._vouched]
        return any(_allows(change, group_id, CONTINUE) for change in late)

    def _refusal(self, claim: Signed, who: str) -> ForestayError:
        return NotEntitled(
            f"a pack of session {self.session} was written by {who}",
            why=f"device {claim.signer} of {key_text.grouped(claim.circle)}",
            hint="the pack was skipped; see: forestay device list, forestay share list",
            session=self.session,
        )

    @cached_property
    def _counted(self) -> list[str]:
        def is_only_known(each: str) -> bool:
            """Return whether a key change counts because nothing else is known about its signer."""
            return not self.remembered and not self._fresh(self.log[each].content.by)

        order = sorted(self.log, key=lambda hash: (self.log[hash].content.epoch, hash))
        return [each for each in order if each in self._vouched or is_only_known(each)]

    @cached_property
    def _vouched(self) -> set[str]:
        """The key changes that an active device of the owner signed or has seen."""
        active = {h for h, each in self.log.items() if self.owner.is_active(each.content.by)}
        known = set[str]().union(*({each} | self._past[each] for each in self.remembered))
        known = known.union(*(self._past[each] for each in active))
        others = self.log.keys() - active
        return active | {each for each in others if self._is_seen(each, known)}

    def _is_seen(self, each: str, known: set[str]) -> bool:
        """Return whether a key change by a revoked device was seen by others, so that it counts."""
        fresh = self._fresh(self.log[each].content.by)
        return any(each in self._past[one] for one in fresh) if fresh else each in known

    def _fresh(self, signer: str) -> list[str]:
        """Return the key changes made with knowledge that a device of the owner is revoked."""
        if signer not in self._freshness:
            every = ((hash, each.content) for hash, each in self.log.items())
            found = [hash for hash, one in every if self._is_fresh(one, self.owner, signer)]
            self._freshness[signer] = found
        return self._freshness[signer]

    def _is_fresh(self, change: KeyChange, group: DeviceGroup, signer: str) -> bool:
        """Return whether a key change was made with knowledge that this signer is revoked."""
        member = (each.key for each in change.members if each.circle == group.id)
        key = change.circle_key if group.id == self.owner.id else next(member, "")
        return self.owner.is_active(change.by) and group.knew_revocation_of(signer, key)

    @cached_property
    def _member_entries(self) -> dict[str, Member]:
        """The present entry of every person who is or was a member."""
        found: dict[str, Member] = {}
        for hash in self._vouched:
            for each in self.log[hash].content.members:
                before = found.get(each.circle, each)
                found[each.circle] = max(before, each, key=lambda one: one._weight)
        return dict(sorted(found.items()))


# --- checks independent of time ---------------------------------------------------------------


def _require_signatures(ring: KeyRing) -> None:
    for each in ring.log.values():
        verify = ring.owner.verify_key(each.content.by)
        if verify is None:
            why = f"device {each.content.by} of {ring.owner.fingerprint}"
            raise NotEntitled("an unknown device changed the keys of a session", why=why)
        if not STATEMENTS.has_valid_signature(each, verify):
            session = each.content.session
            raise Tampered("the signature of a key change is wrong", session=session)


def _allows(change: KeyChange, group_id: str, mode: str) -> bool:
    if group_id == change.owner:
        return True
    return any(each.circle == group_id and each.mode == mode for each in change.members)


def _knows(group: DeviceGroup, recipient: str) -> bool:
    return any(each.recipient == recipient for each in group.epoch_list)


# --- key changes ------------------------------------------------------------------------------


def new_ring(group: DeviceGroup, key: Key, session: str, *, made: int) -> KeyRing:
    """Return the first keys of a session, for the user's own devices alone."""
    place_key = object_names.place_key(group.name_key, session)
    key_change = KeyChange(
        session=session,
        place=object_names.place(group.name_key, session),
        place_check=sha256(_PLACE_TAG + place_key).hexdigest(),
        owner=group.id,
        by=key.id,
        made=made,
        epoch=1,
        key="",
        circle_key=group.current.recipient,
    )
    secret = Secret.new()
    signed = STATEMENTS.sign(structs.replace(key_change, key=secret.recipient), key)
    return KeyRing([signed], [secret], place_key, group)


def rotated(
    ring: KeyRing,
    key: Key,
    *,
    made: int,
    packs: Iterable[str] = (),
    people: People | None = None,
    change: Member | None = None,
) -> KeyRing:
    """Return the ring with one more key change, which begins a new epoch.

    `change` is the new entry of one member, from `share` or `unshare`; all others stay the same.
    `packs` are the hashes in the names of all packs on the remote now; packs that a revoked device
    adds later do not count.
    """
    if not ring.owner.is_active(key.id):
        raise NotEntitled(
            f"session {ring.session} belongs to another person",
            why=f"its owner is {ring.owner.fingerprint}",
            hint="only the owner can change its keys; ask that person",
            session=ring.session,
        )
    members = {id: _updated(each, people) for id, each in ring._member_entries.items()}
    if change is not None:
        members[change.circle] = change
    ending = change is not None and change.mode == NONE
    STATEMENTS.require_room(ring.log, spare=0 if ending else signed_log.SPARE)
    secret = Secret.new()
    key_change = structs.replace(
        ring.newest,
        by=key.id,
        made=made,
        epoch=1 + max((ring.log[each].content.epoch for each in ring.ends), default=0),
        key=secret.recipient,
        circle_key=ring.owner.current.recipient,
        seen=ring.ends,
        members=tuple(members[id] for id in sorted(members)),
        packs=tuple(sorted(set(packs))),
    )
    signed, secrets = [*ring.log.values(), STATEMENTS.sign(key_change, key)], ring._secrets.values()
    return KeyRing(signed, [*secrets, secret], ring.place_key, ring.owner, ring.remembered)


def _updated(member: Member, people: People | None) -> Member:
    known = people(member.circle) if people and member.mode != NONE else None
    if known is None or known.epoch.recipient == member.key or not _knows(known, member.key):
        return member
    return structs.replace(member, key=known.epoch.recipient, change=member.change + 1)


def share(
    ring: KeyRing,
    person: key_text.PersonKey,
    *,
    mode: str,
    made: int,
    email: str = "",
    name: str = "",
) -> Member:
    """Return the member entry that shares the session with a person, for `rotated`.

    Without a mode the person has the same mode as before; a new member can read.
    """
    if mode not in ("", READ, CONTINUE):
        raise InvalidInput(f"a session can be shared to {READ} or to {CONTINUE}, not to {mode!r}")
    if person.circle == ring.owner.id:
        raise Refused("a session cannot be shared with its owner", session=ring.session)
    before = ring._member_entries.get(person.circle)
    member = ring.member(person.circle)
    mode = mode or (member.mode if member else READ)
    count = before.change + 1 if before else 1
    email = email or (before.email if before else "")
    return Member(person.circle, person.recipient, mode, count, made, email, name)


def unshare(ring: KeyRing, group_id: str, *, made: int) -> Member:
    """Return the member entry that removes a person."""
    before = ring.member(group_id)
    if before is None:
        hint = "forestay share list"
        what = "the session is not shared with this person"
        raise Refused(what, hint=hint, session=ring.session)
    return structs.replace(before, mode=NONE, change=before.change + 1, since=made)


def union(one: KeyRing, other: KeyRing) -> KeyRing:
    """Merge two versions of the keys of one session."""
    if other.log.keys() <= one.log.keys() and other._secrets.keys() <= one._secrets.keys():
        return one.seen_by(other.owner)
    secrets = {**one._secrets, **other._secrets}
    signed = {**one.log, **other.log}
    owner = device_group.union(one.owner, other.owner)
    rest = (secrets.values(), one.place_key, owner, one.remembered | other.remembered)
    whole = KeyRing(signed.values(), *rest, most=2 * signed_log.MOST)
    if len(signed) <= signed_log.MOST:
        return whole
    # Drop changes that no active device signed or has seen, so that they cannot fill the log.
    kept = whole._vouched.union(*(whole._past[each] for each in whole._vouched))
    return KeyRing([each for hash, each in signed.items() if hash in kept], *rest)


# --- objects ----------------------------------------------------------------------------------


class _Claim(Struct, frozen=True):
    session: str
    owner: str
    signer: str
    made: int


class _Body(Struct, frozen=True):
    turns: list[tuple[str, str]]
    secrets: list[str]
    place_key: str
    who: msgspec.Raw


def encode(ring: KeyRing, key: Key) -> bytes:
    """Return the ring object, encrypted to the owner's devices, recovery key and all members."""
    secrets = [each.text for each in ring._secrets.values()]
    return _packed(ring, key, secrets, ring.recipients())


def encode_end(ring: KeyRing, key: Key, member: Member) -> bytes:
    """Return the ring object that notifies a removed member; it has no secret."""
    return _packed(ring, key, [], [member.key])


def _packed(ring: KeyRing, key: Key, secrets: list[str], recipients: list[str]) -> bytes:
    if not ring.owner.is_active(key.id):
        what = "only devices of its owner can write the keys of a session"
        raise NotEntitled(what, why=key.id)
    turns = signed_log.texts(ring.log[each] for each in sorted(ring.log))
    who = msgspec.Raw(device_group.public(ring.owner))
    body = msgspec.json.encode(_Body(turns, secrets, ring.place_key.hex(), who))
    claim = _Claim(ring.session, ring.owner.id, key.id, ring.newest.made)
    return enclose(KIND, msgspec.json.encode(claim), body, key, recipients)


class UnknownSigner(NotEntitled):
    """A ring object was not written by any device of the owner that it names."""

    keys: frozenset[str] = frozenset()
    """The ids of all keys in the object."""


def _unknown_signer(claim: _Claim, secrets: Sequence[Secret]) -> UnknownSigner:
    error = UnknownSigner(
        "an object of the session, or its keys, was not written by a device of the owner",
        why=f"device {claim.signer}",
        hint="the object is ignored; you can delete it from the storage. If that device is yours "
        "and was recovered by an old code, run on it: forestay device add --new-key, then "
        "remove the remote and add it again",
        session=claim.session,
    )
    error.keys = frozenset(each.id for each in secrets)
    return error


class Opened(NamedTuple):
    """A decrypted ring object; its signer is not checked yet."""

    claim: _Claim
    body: _Body
    is_signed_by: Callable[[bytes], bool]
    owner: DeviceGroup
    """The owner's devices, as the object describes them."""


def judged(
    found: Opened, group: DeviceGroup, *, place: str = "", people: People | None = None
) -> KeyRing:
    """Verify a decrypted ring object and return its ring.

    `place` is where the object was found. Raise `Swapped` if it belongs to another session,
    `NotEntitled` if its signer is not allowed to change the keys, `Tampered` for other defects.
    """
    claim = found.claim
    # The object contains the statements on the owner's devices: nothing else is needed.
    if found.owner.id != claim.owner:
        raise Swapped("the keys of a session name one owner and contain the devices of another")
    known = group if group.id == claim.owner else people(claim.owner) if people else None
    owner = device_group.union(known, found.owner) if known is not None else found.owner
    verify = owner.verify_key(claim.signer)
    if verify is None:
        raise _unknown_signer(claim, _secrets(found.body))
    if not found.is_signed_by(verify):
        raise Tampered("the signature of a session's keys is wrong", session=claim.session)
    try:
        signed = STATEMENTS.read(found.body.turns)
        place_key = bytes.fromhex(found.body.place_key)
    except (ValueError, InvalidInput):
        raise Tampered("the keys of a session cannot be read") from None
    if not signed:
        raise Tampered("the keys of a session are empty")
    ring = KeyRing(signed, _secrets(found.body), place_key, owner)
    if ring.session != claim.session or (place and ring.place != place):
        raise Swapped(f"the keys of session {ring.session} are in the place of another session")
    return ring


def opened(data: bytes, group: DeviceGroup) -> Opened:
    """Decrypt a ring object with the keys of the user's devices; raise `Locked` if none fits."""
    if len(data) > _LIMIT:
        raise Tampered("the keys of a session are too large", why=f"they have over {_LIMIT} bytes")
    try:
        inside = disclose(data, KIND, group.epochs)
    except Locked:
        held = ", ".join(str(each.number) for each in group.epoch_list)
        raise Locked(
            "the keys of a session cannot be decrypted: they are for others, or you were removed",
            why=f"tried: epochs {held} of {group.fingerprint}",
            hint="check on another device that this one is active: forestay device list; if a "
            f"person wants to share it with you, give them: {group.person}",
        ) from None
    try:
        claim = msgspec.json.decode(inside.claim, type=_Claim)
        body = msgspec.json.decode(inside.body, type=_Body)
    except UNREADABLE:
        # The cause might quote a secret.
        raise Tampered("the keys of a session cannot be read") from None
    return Opened(claim, body, inside.is_signed_by, device_group.read_public(bytes(body.who)))


def _secrets(body: _Body) -> list[Secret]:
    try:
        return [Secret(text) for text in body.secrets[: signed_log.MOST]]
    except (ValueError, InvalidInput):
        raise Tampered("the keys of a session cannot be read") from None


# --- the devices of participants -------------------------------------------------------------

WHO = "WHO"


class _ParticipantClaim(Struct, frozen=True):
    session: str
    circle: str
    signer: str


def encode_participant(group: DeviceGroup, key: Key, ring: KeyRing) -> bytes:
    """Return the statements on the user's devices, so that other members can check signatures."""
    claim = msgspec.json.encode(_ParticipantClaim(ring.session, group.id, key.id))
    secret = ring.current
    return enclose(WHO, claim, device_group.public(group), key, [secret.recipient], secret.id)


def decode_participant(data: bytes, ring: KeyRing) -> DeviceGroup:
    """Return the device group in a participant object; its own signatures prove it."""
    secret, _ = ring.secret(word_of(data, WHO))
    inside = disclose(data, WHO, [secret])
    try:
        claim = msgspec.json.decode(inside.claim, type=_ParticipantClaim)
    except UNREADABLE as error:
        raise Tampered("the devices of a participant cannot be read", why=str(error)) from None
    group = device_group.read_public(inside.body)
    verify = group.verify_key(claim.signer)
    if verify is None or not inside.is_signed_by(verify):
        what = "the signature of a participant's devices is wrong"
        raise Tampered(what, session=ring.session)
    if (claim.session, claim.circle) != (ring.session, group.id):
        raise Swapped("a participant object of another session is in the place of this session")
    return group
