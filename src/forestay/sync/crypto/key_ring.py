"""A ring: the keys of one session, who holds them, and what each holder may do.

Words. An *epoch* of a session is an age identity; its packs are sealed to the newest. A *turn*
is one signed change: a new epoch, with the members as they are from now on. The *owner* is the
circle that made the session travel first; only its devices turn the ring. A *member* is a person
it is shared with, to `read` or to `continue` it; one who is put out keeps the mode `none`.

Turns are a set, as statements of a circle are: rings merge by union, and what they mean is
computed. Of two things said about a member the later change holds, and of two changes at once
the one that allows less. The ring is *stale*, so that a turn is due before anything is pushed,
when its newest epoch may be known to someone who is put out: a circle in it has begun an epoch
since, or the newest turn does not say of the members what all turns together say.

A device that was put out of its circle may still hold old keys of a session, and access to the
storage. A turn made with knowledge of that (*fresh*) lists the packs that were there; of what
that device signed, packs and turns, only what a fresh turn has seen counts. Before there is one
its packs count, for what a lost device had pushed is not lost, and of its turns those that others
went on from or that were *remembered* from before. Where nothing is remembered they must do: the
session would be lost else. But nobody is a member by such a turn alone, and none goes on from it.

Who is put out opens no later ring, and anyone could make something that does not open. So the
same turn goes there once more, *without its secret* and sealed to them: only that ends a share.

    object = envelope of kind RING, sealed to the owner's epoch and recovery key and to members;
             claim {"session", "owner", "signer", "made"}
    body   = JSON {"turns": [[turn, signature (hex)], …], "secrets": [age identity, …],
             "place_key": hex, "who": the owner's statements}
    turn   = JSON, see `Turn`; signed with "forestay turn 1" LF before it
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
    """What of a claim says who made it; `sealed.Claim` has these."""

    @property
    def circle(self) -> str: ...

    @property
    def signer(self) -> str: ...


People = Callable[[str], DeviceGroup | None]
"""Circles that are known, by id."""


class Member(Struct, frozen=True, omit_defaults=True):
    """A person that a session is shared with; `change` counts what was said about them."""

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
    """One change of a ring.

    !! Hashed and signed as it was written. Fields may be added, never changed.
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
        """The members who hold its key."""
        return [each for each in self.members if each.mode != NONE]


STATEMENTS = signed_log.StatementKind(
    KeyChange, tag=_TAG, whole="the keys of a session", longest=_LONGEST
)


class KeyRing:
    """The keys of one session. A value: what changes it returns another."""

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
        """`remembered` are turns that this device was shown before, with all that they had seen."""
        self.log = STATEMENTS.collect(signed, most)
        self.owner = owner
        _require_one_session(self)
        self._past = STATEMENTS.sort_by_past(self.log).past
        _require_signatures(self)
        _require_epochs(self)
        first = next(iter(self.log.values())).content
        self.session, self.place = first.session, first.place
        self.place_key = place_key
        if sha256(_PLACE_TAG + place_key).hexdigest() != first.place_check:
            raise Tampered(f"the names of session {self.session} are not those of its owner")
        made = {each.content.key for each in self.log.values()}
        self._secrets = {each.recipient: each for each in secrets if each.recipient in made}
        self.remembered = frozenset(remembered)

    def __repr__(self) -> str:
        return f"<Ring of {self.session}, epoch {self.epoch}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KeyRing):
            return NotImplemented
        return (self.log.keys(), self._secrets) == (other.log.keys(), other._secrets)

    def __hash__(self) -> int:
        return hash(self.session)

    # -- what it means -------------------------------------------------------------------------

    @cached_property
    def turns(self) -> list[KeyChange]:
        """Those that count, the newest last."""
        return [self.log[each].content for each in self._counted]

    @property
    def newest(self) -> KeyChange:
        return self.turns[-1]

    @property
    def epoch(self) -> int:
        return self.newest.epoch

    @property
    def current(self) -> Secret:
        """The secret that new packs are sealed to; `Locked` where it is not here."""
        found = self._secrets.get(self.newest.key)
        if found is None:
            raise self.locked(keys.recipient_id(self.newest.key))
        return found

    def secret(self, id: str) -> tuple[Secret, int]:
        """The secret with this id, and its epoch; `Locked` says whose it is and what to do."""
        for each in self.log.values():
            found = self._secrets.get(each.content.key)
            if found is not None and found.id == id:
                return found, each.content.epoch
        raise self.locked(id)

    def locked(self, id: str) -> ForestayError:
        """The error that names the key which would open something."""
        known = [each.content for each in self.log.values() if _id(each.content) == id]
        whose = key_text.grouped(self.owner.id)
        which = f"epoch {known[0].epoch}" if known else f"after epoch {self.epoch}"
        return Locked(
            f"a pack of session {self.session} is sealed to the key {id}, which is not here",
            why=f"{which} of this session, which belongs to {whose}",
            hint="forestay sync brings newer keys; if you were put out, ask them to share it again",
            session=self.session,
        )

    @cached_property
    def members(self) -> list[Member]:
        """Who it is shared with now."""
        return [each for each in self._said_of.values() if each.mode != NONE]

    def member(self, group_id: str) -> Member | None:
        return next((each for each in self.members if each.circle == group_id), None)

    def may_write(self, group_id: str) -> bool:
        """Whether this person may add to the session now."""
        member = self.member(group_id)
        return group_id == self.owner.id or (member is not None and member.mode == CONTINUE)

    def recipients(self) -> list[str]:
        """To whom the ring itself is sealed."""
        recovery = [each.recipient for each in self.owner.recoveries() if each.recipient]
        return [self.newest.circle_key, *recovery, *(each.key for each in self.newest.shared)]

    def chain(self, device: str) -> str:
        """What the packs of a device are called there."""
        return object_names.chain(self.place_key, device)

    def stale(self, people: People | None = None) -> str:
        """Why a turn is due before anything is pushed; "" if none is."""
        sealed_to = {self.log[each].content.circle_key for each in self.ends}
        if sealed_to != {self.owner.epoch.recipient} or self.owner.stale:
            return "the owner's devices have changed"
        if len(self._counted) > len(self._vouched):
            return "a device that was put out changed it last"
        signed = {each.circle: each for each in self.newest.members}
        if signed != self._said_of:
            return "two devices changed at once with whom it is shared"
        for each in self.members:
            known = people(each.circle) if people else None
            if known is not None and known.epoch.recipient != each.key and _knows(known, each.key):
                return f"the devices of {each.name or key_text.grouped(each.circle)} have changed"
        return ""

    @property
    def removed(self) -> list[Member]:
        """Those who might read it and may no longer."""
        return [each for each in self._said_of.values() if each.mode == NONE]

    def seen_by(self, owner: DeviceGroup) -> KeyRing:
        """The same keys, with what is known of the owner's devices by now."""
        merged = device_group.union(self.owner, owner)
        return self if merged is self.owner else self._with(merged, self.remembered)

    def knowing(self, remembered: Collection[str]) -> KeyRing:
        """The same keys, judged by who remembers these turns; `RolledBack` if one is missing."""
        require_remembered(self, remembered)
        return self._with(self.owner, frozenset(remembered)) if remembered else self

    def _with(self, owner: DeviceGroup, remembered: frozenset[str]) -> KeyRing:
        return KeyRing(self.log.values(), self._secrets.values(), self.place_key, owner, remembered)

    @property
    def ends(self) -> tuple[str, ...]:
        """What to remember of it; each stands for all that it has seen."""
        return ends(self.log, self._vouched)

    # -- whose signature counts ----------------------------------------------------------------

    def require_entitled(self, claim: Signed, digest: str, people: People) -> None:
        """`NotEntitled` unless this signer might put this pack there.

        `digest` is the hash in the pack's name. The signature itself is checked by `sealed`.
        """
        whose = self.owner if claim.circle == self.owner.id else people(claim.circle)
        if whose is None or whose.verify_key(claim.signer) is None:
            raise self._refusal(claim, "a device that is not known here")
        if not self._might_write(claim.circle, digest):
            raise self._refusal(claim, "someone who may only read it")
        if not self.may_write(claim.circle) and not self._wrote(claim.circle):
            after = [t for t in self.turns if not _allows(t, claim.circle, CONTINUE)]
            if not any(digest in turn.packs for turn in after):
                raise self._refusal(claim, "someone who may not continue it any more")
        if not whose.is_active(claim.signer):
            fresh = [turn for turn in self.turns if self._is_fresh(turn, whose, claim.signer)]
            if fresh and not any(digest in turn.packs for turn in fresh):
                raise self._refusal(claim, "a device that was revoked before")

    def is_of_removed(self, claim: Signed, digest: str, people: People) -> bool:
        """Whether a pack is of a device that is put out, and nobody who knew that lists it."""
        whose = self.owner if claim.circle == self.owner.id else people(claim.circle)
        if whose is None or whose.is_active(claim.signer):
            return False
        fresh = [turn for turn in self.turns if self._is_fresh(turn, whose, claim.signer)]
        return not any(digest in turn.packs for turn in fresh)

    def _might_write(self, group_id: str, digest: str) -> bool:
        """Whether someone ever might; by a turn that counts no more, only what was listed then."""
        return any(_allows(turn, group_id, CONTINUE) or digest in turn.packs for turn in self.turns)

    def _wrote(self, group_id: str) -> bool:
        """Whether someone might until now, by turns of a lost device that nobody went on from."""
        late = [self.log[each].content for each in self._counted if each not in self._vouched]
        return any(_allows(turn, group_id, CONTINUE) for turn in late)

    def _refusal(self, claim: Signed, who: str) -> ForestayError:
        return NotEntitled(
            f"a pack of session {self.session} was written by {who}",
            why=f"device {claim.signer} of {key_text.grouped(claim.circle)}",
            hint="it was not taken; forestay device list, forestay share list",
            session=self.session,
        )

    @cached_property
    def _counted(self) -> list[str]:
        order = sorted(self.log, key=lambda hash: (self.log[hash].content.epoch, hash))
        return [each for each in order if each in self._vouched or self._is_all_there_is(each)]

    @cached_property
    def _vouched(self) -> set[str]:
        """The turns that someone answers for who is in the owner's circle now."""
        active = {h for h, each in self.log.items() if self.owner.is_active(each.content.by)}
        known = set[str]().union(*({each} | self._past[each] for each in self.remembered))
        known = known.union(*(self._past[each] for each in active))
        others = self.log.keys() - active
        return active | {each for each in others if self._is_seen(each, known)}

    def _is_seen(self, each: str, known: set[str]) -> bool:
        """Whether a turn by a device that is not active any more counts."""
        fresh = self._fresh(self.log[each].content.by)
        return any(each in self._past[one] for one in fresh) if fresh else each in known

    def _is_all_there_is(self, each: str) -> bool:
        """Whether a turn is of a lost device, in a session that is met here for the first time."""
        return not self.remembered and not self._fresh(self.log[each].content.by)

    def _fresh(self, signer: str) -> list[str]:
        """The turns made with knowledge that a device of the owner is put out."""
        if signer not in self._freshness:
            every = ((hash, each.content) for hash, each in self.log.items())
            found = [hash for hash, turn in every if self._is_fresh(turn, self.owner, signer)]
            self._freshness[signer] = found
        return self._freshness[signer]

    @cached_property
    def _freshness(self) -> dict[str, list[str]]:
        return {}

    def _is_fresh(self, turn: KeyChange, group: DeviceGroup, signer: str) -> bool:
        """Whether a turn was made with knowledge that this signer is put out."""
        key = turn.circle_key if group.id == self.owner.id else _key_in(turn, group.id)
        return self.owner.is_active(turn.by) and group.knew_revocation_of(signer, key)

    @cached_property
    def _said_of(self) -> dict[str, Member]:
        """What holds of each person of whom anything was said."""
        found: dict[str, Member] = {}
        for hash in self._vouched:
            for each in self.log[hash].content.members:
                found[each.circle] = max(
                    found.get(each.circle, each), each, key=lambda one: one._weight
                )
        return dict(sorted(found.items()))


# --- checks that hold for ever ----------------------------------------------------------------


def _require_one_session(ring: KeyRing) -> None:
    of = {
        (each.content.session, each.content.place, each.content.place_check, each.content.owner)
        for each in ring.log.values()
    }
    if len(of) != 1:
        raise Swapped("the keys of several sessions are mixed", why=f"{len(of)} of them")
    if next(iter(of))[3] != ring.owner.id:
        raise Swapped("the keys of a session belong to another person than they say")


def _require_signatures(ring: KeyRing) -> None:
    for each in ring.log.values():
        verify = ring.owner.verify_key(each.content.by)
        if verify is None:
            why = f"device {each.content.by} of {ring.owner.fingerprint}"
            raise NotEntitled("the keys of a session were changed by someone unknown", why=why)
        if not STATEMENTS.has_valid_signature(each, verify):
            raise Tampered("the signature of a turn is wrong", why=each.content.session)


def _require_epochs(ring: KeyRing) -> None:
    """Each turn counts on from those it has seen: names have room for so many, and no more."""
    for each in ring.log.values():
        seen = [ring.log[hash].content.epoch for hash in each.content.seen]
        if each.content.epoch != 1 + max(seen, default=0):
            why = f"epoch {each.content.epoch} after {max(seen, default=0)}"
            raise Tampered("a turn of a session's keys is out of order", why=why)


def _id(turn: KeyChange) -> str:
    return keys.recipient_id(turn.key)


def _key_in(turn: KeyChange, group_id: str) -> str:
    return next((each.key for each in turn.members if each.circle == group_id), "")


def _allows(turn: KeyChange, group_id: str, mode: str) -> bool:
    if group_id == turn.owner:
        return True
    return any(each.circle == group_id and each.mode == mode for each in turn.members)


def _knows(group: DeviceGroup, recipient: str) -> bool:
    return any(each.recipient == recipient for each in group.epoch_list)


# --- turning ----------------------------------------------------------------------------------


def new_ring(group: DeviceGroup, key: Key, session: str, *, made: int) -> KeyRing:
    """The first keys of a session, held by one's own circle alone."""
    place_key = object_names.place_key(group.name_key, session)
    turn = KeyChange(
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
    signed = STATEMENTS.sign(structs.replace(turn, key=secret.recipient), key)
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
    """The next epoch: members as they stand (with the newest keys known), or with one change.

    `packs` are the hashes in the names of all packs that are there now; what a device that was
    put out adds later does not count.
    """
    if not ring.owner.is_active(key.id):
        raise NotEntitled(
            f"session {ring.session} belongs to another person",
            why=ring.owner.fingerprint,
            hint="only its owner changes its keys; ask them",
            session=ring.session,
        )
    said_of = {id: _updated(each, people) for id, each in ring._said_of.items()}
    if change is not None:
        said_of[change.circle] = change
    ending = change is not None and change.mode == NONE
    STATEMENTS.require_room(ring.log, spare=0 if ending else signed_log.SPARE)
    secret = Secret.new()
    turn = structs.replace(
        ring.newest,
        by=key.id,
        made=made,
        epoch=1 + max((ring.log[each].content.epoch for each in ring.ends), default=0),
        key=secret.recipient,
        circle_key=ring.owner.current.recipient,
        seen=ring.ends,
        members=tuple(said_of[id] for id in sorted(said_of)),
        packs=tuple(sorted(set(packs))),
    )
    signed, secrets = [*ring.log.values(), STATEMENTS.sign(turn, key)], ring._secrets.values()
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
    """The change that shares it with someone, for `rotated` or `widened`.

    Without a mode they may do what they might before, or read it.
    """
    if mode not in ("", READ, CONTINUE):
        raise InvalidInput(f"a session is shared to {READ} or to {CONTINUE}", why=mode)
    if person.circle == ring.owner.id:
        raise Refused("this is the owner of the session already", session=ring.session)
    before = ring._said_of.get(person.circle)
    member = ring.member(person.circle)
    mode = mode or (member.mode if member else READ)
    count = before.change + 1 if before else 1
    email = email or (before.email if before else "")
    return Member(person.circle, person.recipient, mode, count, made, email, name)


def unshare(ring: KeyRing, group_id: str, *, made: int) -> Member:
    """The change that puts someone out."""
    before = ring.member(group_id)
    if before is None:
        hint = "forestay share list"
        raise Refused("it is not shared with them", hint=hint, session=ring.session)
    return structs.replace(before, mode=NONE, change=before.change + 1, since=made)


def union(one: KeyRing, other: KeyRing) -> KeyRing:
    """What two devices know together."""
    if other.log.keys() <= one.log.keys() and other._secrets.keys() <= one._secrets.keys():
        return one.seen_by(other.owner)
    secrets = {**one._secrets, **other._secrets}
    signed = {**one.log, **other.log}
    owner, remembered = (
        device_group.union(one.owner, other.owner),
        one.remembered | other.remembered,
    )
    most = 2 * signed_log.MOST
    whole = KeyRing(signed.values(), secrets.values(), one.place_key, owner, remembered, most=most)
    return whole if len(signed) <= signed_log.MOST else _within_limits(whole)


def _within_limits(ring: KeyRing) -> KeyRing:
    """The same without turns that nobody answers for: else these could leave no room."""
    kept = ring._vouched.union(*(ring._past[each] for each in ring._vouched))
    signed = [each for hash, each in ring.log.items() if hash in kept]
    return KeyRing(signed, ring._secrets.values(), ring.place_key, ring.owner, ring.remembered)


def require_remembered(ring: KeyRing, remembered: Collection[str]) -> None:
    """`RolledBack` if a turn that was shown before is missing now."""
    missing = set(remembered) - ring.log.keys()
    if missing:
        raise RolledBack(
            f"the remote shows older keys of session {ring.session} than before",
            why=f"{len(missing)} of {len(remembered)} turns are missing",
            hint="what is here is kept; look at the storage, then: forestay sync",
            session=ring.session,
        )


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
    """The ring object: sealed to the owner's devices, their recovery key and all members."""
    secrets = [each.text for each in ring._secrets.values()]
    return _packed(ring, key, secrets, ring.recipients())


def encode_end(ring: KeyRing, key: Key, member: Member) -> bytes:
    """The same for someone who was put out by its newest turn: that it is so, and no secret."""
    return _packed(ring, key, [], [member.key])


def _packed(ring: KeyRing, key: Key, secrets: list[str], recipients: list[str]) -> bytes:
    if not ring.owner.is_active(key.id):
        raise NotEntitled("only devices of its owner write the keys of a session", why=key.id)
    turns = signed_log.texts(ring.log[each] for each in sorted(ring.log))
    who = msgspec.Raw(device_group.public(ring.owner))
    body = msgspec.json.encode(_Body(turns, secrets, ring.place_key.hex(), who))
    claim = _Claim(ring.session, ring.owner.id, key.id, ring.newest.made)
    return enclose(KIND, msgspec.json.encode(claim), body, key, recipients)


class UnknownSigner(NotEntitled):
    """Keys that no device of their owner wrote, by all that they tell of these themselves."""

    keys: frozenset[str] = frozenset()
    """The ids of all keys that are told there."""


def _unknown_signer(claim: _Claim, secrets: Sequence[Secret]) -> UnknownSigner:
    error = UnknownSigner(
        "someone who is no device of the owner put keys of the session there, or something by them",
        why=f"device {claim.signer}",
        hint="it is let be, and can be deleted from the storage; if that device is yours, and came "
        "back by a recovery code that was replaced: there forestay device add --new-key, then "
        "remove the remote and add it again",
        session=claim.session,
    )
    error.keys = frozenset(each.id for each in secrets)
    return error


def decode(
    data: bytes,
    group: DeviceGroup,
    *,
    place: str = "",
    people: People | None = None,
) -> KeyRing:
    """The ring in an object, opened by one's own circle, everything verified.

    `place` is where it was found: the keys of another session are `Swapped`. `Locked` if this
    circle holds no key of it, `NotEntitled` if its maker may not turn it, else `Tampered`.
    """
    return judged(opened(data, group), group, place=place, people=people)


class Opened(NamedTuple):
    """Keys that could be read, before anyone judged who wrote them."""

    claim: _Claim
    body: _Body
    is_signed_by: Callable[[bytes], bool]
    owner: DeviceGroup
    """What they tell of their owner's devices."""


def judged(
    found: Opened, group: DeviceGroup, *, place: str = "", people: People | None = None
) -> KeyRing:
    """The ring in an object that was opened; refuses as `decode` does."""
    claim = found.claim
    # They bring along what their maker knows of the owner's devices, so nothing else is needed.
    owner = _owner(claim.owner, found.owner, group, people)
    verify = owner.verify_key(claim.signer)
    if verify is None:
        raise _unknown_signer(claim, _secrets(found.body))
    if not found.is_signed_by(verify):
        raise Tampered("the signature of a session's keys is wrong", session=claim.session)
    ring = _of_body(found.body, owner)
    if ring.session != claim.session or (place and ring.place != place):
        raise Swapped(f"the keys of session {ring.session} are in the place of another")
    return ring


def opened(data: bytes, group: DeviceGroup) -> Opened:
    """What is in an object, by the keys of one's own circle; `Locked` if it holds none of it."""
    if len(data) > _LIMIT:
        raise Tampered("the keys of a session are too large", why=f"over {_LIMIT} bytes")
    try:
        inside = disclose(data, KIND, group.epochs)
    except Locked:
        held = ", ".join(str(each.number) for each in group.epoch_list)
        raise Locked(
            "the keys of a session are sealed to others, or to keys made after you were put out",
            why=f"tried: epochs {held} of {group.fingerprint}",
            hint="is this device still in the circle? on another one: forestay device list; if "
            f"someone shares it with you, give them: {group.person}",
        ) from None
    try:
        claim = msgspec.json.decode(inside.claim, type=_Claim)
        body = msgspec.json.decode(inside.body, type=_Body)
    except UNREADABLE:
        # The cause might quote a secret.
        raise Tampered("the keys of a session cannot be read") from None
    return Opened(claim, body, inside.is_signed_by, device_group.read_public(bytes(body.who)))


def _owner(id: str, told: DeviceGroup, own: DeviceGroup, people: People | None) -> DeviceGroup:
    if told.id != id:
        raise Swapped("the keys of a session name another owner than they prove")
    known = own if own.id == id else people(id) if people else None
    return device_group.union(known, told) if known is not None else told


def _of_body(body: _Body, owner: DeviceGroup) -> KeyRing:
    try:
        signed = STATEMENTS.read(body.turns)
        place_key = bytes.fromhex(body.place_key)
    except (ValueError, InvalidInput):
        raise Tampered("the keys of a session cannot be read") from None
    if not signed:
        raise Tampered("the keys of a session are empty")
    return KeyRing(signed, _secrets(body), place_key, owner)


def _secrets(body: _Body) -> list[Secret]:
    try:
        return [Secret(text) for text in body.secrets[: signed_log.MOST]]
    except (ValueError, InvalidInput):
        raise Tampered("the keys of a session cannot be read") from None


# --- who: the devices of those who take part --------------------------------------------------

WHO = "WHO"


class _ParticipantClaim(Struct, frozen=True):
    session: str
    circle: str
    signer: str


def encode_participant(group: DeviceGroup, key: Key, ring: KeyRing) -> bytes:
    """The statements of one's own circle for all who hold the ring: whose signature is whose."""
    claim = msgspec.json.encode(_ParticipantClaim(ring.session, group.id, key.id))
    secret = ring.current
    return enclose(WHO, claim, device_group.public(group), key, [secret.recipient], secret.id)


def decode_participant(data: bytes, ring: KeyRing) -> DeviceGroup:
    """The circle that such an object speaks of; it proves itself."""
    secret, _ = ring.secret(word_of(data, WHO))
    inside = disclose(data, WHO, [secret])
    try:
        claim = msgspec.json.decode(inside.claim, type=_ParticipantClaim)
    except UNREADABLE as error:
        raise Tampered("it cannot be read who takes part", why=str(error)) from None
    group = device_group.read_public(inside.body)
    verify = group.verify_key(claim.signer)
    if verify is None or not inside.is_signed_by(verify):
        raise Tampered("the signature under who takes part is wrong", session=ring.session)
    if (claim.session, claim.circle) != (ring.session, group.id):
        raise Swapped("who takes part in another session is shown for this one")
    return group
