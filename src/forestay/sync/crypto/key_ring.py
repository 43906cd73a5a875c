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
from forestay.sync.crypto import device_group as circles
from forestay.sync.crypto import key_text, keys
from forestay.sync.crypto import signed_log as speech
from forestay.sync.crypto.device_group import Circle
from forestay.sync.crypto.envelope import UNREADABLE, disclose, enclose, word_of
from forestay.sync.crypto.keys import Key, Secret
from forestay.sync.crypto.signed_log import Said, ends
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


People = Callable[[str], Circle | None]
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


class Turn(Struct, frozen=True, omit_defaults=True):
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


LANGUAGE = speech.Language(Turn, tag=_TAG, whole="the keys of a session", longest=_LONGEST)


class Ring:
    """The keys of one session. A value: what changes it returns another."""

    def __init__(
        self,
        said: Iterable[Said[Turn]],
        secrets: Iterable[Secret],
        place_key: bytes,
        owner: Circle,
        remembered: Collection[str] = (),
        *,
        most: int = speech.MOST,
    ) -> None:
        """`remembered` are turns that this device was shown before, with all that they had seen."""
        self.said = LANGUAGE.gathered(said, most)
        self.owner = owner
        _require_one_session(self)
        self._past = LANGUAGE.ordered(self.said).past
        _require_signatures(self)
        _require_epochs(self)
        first = next(iter(self.said.values())).told
        self.session, self.place = first.session, first.place
        self.place_key = place_key
        if sha256(_PLACE_TAG + place_key).hexdigest() != first.place_check:
            raise Tampered(f"the names of session {self.session} are not those of its owner")
        made = {each.told.key for each in self.said.values()}
        self._secrets = {each.recipient: each for each in secrets if each.recipient in made}
        self.remembered = frozenset(remembered)

    def __repr__(self) -> str:
        return f"<Ring of {self.session}, epoch {self.epoch}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ring):
            return NotImplemented
        return (self.said.keys(), self._secrets) == (other.said.keys(), other._secrets)

    def __hash__(self) -> int:
        return hash(self.session)

    # -- what it means -------------------------------------------------------------------------

    @cached_property
    def turns(self) -> list[Turn]:
        """Those that count, the newest last."""
        return [self.said[each].told for each in self._counted]

    @property
    def newest(self) -> Turn:
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
        for each in self.said.values():
            found = self._secrets.get(each.told.key)
            if found is not None and found.id == id:
                return found, each.told.epoch
        raise self.locked(id)

    def locked(self, id: str) -> ForestayError:
        """The error that names the key which would open something."""
        known = [each.told for each in self.said.values() if _id(each.told) == id]
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

    def member(self, circle: str) -> Member | None:
        return next((each for each in self.members if each.circle == circle), None)

    def may_write(self, circle: str) -> bool:
        """Whether this person may add to the session now."""
        member = self.member(circle)
        return circle == self.owner.id or (member is not None and member.mode == CONTINUE)

    def recipients(self) -> list[str]:
        """To whom the ring itself is sealed."""
        recovery = [each.recipient for each in self.owner.recoveries() if each.recipient]
        return [self.newest.circle_key, *recovery, *(each.key for each in self.newest.shared)]

    def chain(self, device: str) -> str:
        """What the packs of a device are called there."""
        return object_names.chain(self.place_key, device)

    def stale(self, people: People | None = None) -> str:
        """Why a turn is due before anything is pushed; "" if none is."""
        sealed_to = {self.said[each].told.circle_key for each in self.ends}
        if sealed_to != {self.owner.epoch.recipient} or self.owner.stale:
            return "the owner's devices have changed"
        if len(self._counted) > len(self._vouched):
            return "a device that was put out changed it last"
        said = {each.circle: each for each in self.newest.members}
        if said != self._said_of:
            return "two devices changed at once with whom it is shared"
        for each in self.members:
            known = people(each.circle) if people else None
            if known is not None and known.epoch.recipient != each.key and _knows(known, each.key):
                return f"the devices of {each.name or key_text.grouped(each.circle)} have changed"
        return ""

    @property
    def put_out(self) -> list[Member]:
        """Those who might read it and may no longer."""
        return [each for each in self._said_of.values() if each.mode == NONE]

    def seen_by(self, owner: Circle) -> Ring:
        """The same keys, with what is known of the owner's devices by now."""
        merged = circles.union(self.owner, owner)
        return self if merged is self.owner else self._with(merged, self.remembered)

    def knowing(self, remembered: Collection[str]) -> Ring:
        """The same keys, judged by who remembers these turns; `RolledBack` if one is missing."""
        require_remembered(self, remembered)
        return self._with(self.owner, frozenset(remembered)) if remembered else self

    def _with(self, owner: Circle, remembered: frozenset[str]) -> Ring:
        return Ring(self.said.values(), self._secrets.values(), self.place_key, owner, remembered)

    @property
    def ends(self) -> tuple[str, ...]:
        """What to remember of it; each stands for all that it has seen."""
        return ends(self.said, self._vouched)

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

    def is_of_ended(self, claim: Signed, digest: str, people: People) -> bool:
        """Whether a pack is of a device that is put out, and nobody who knew that lists it."""
        whose = self.owner if claim.circle == self.owner.id else people(claim.circle)
        if whose is None or whose.is_active(claim.signer):
            return False
        fresh = [turn for turn in self.turns if self._is_fresh(turn, whose, claim.signer)]
        return not any(digest in turn.packs for turn in fresh)

    def _might_write(self, circle: str, digest: str) -> bool:
        """Whether someone ever might; by a turn that counts no more, only what was listed then."""
        return any(_allows(turn, circle, CONTINUE) or digest in turn.packs for turn in self.turns)

    def _wrote(self, circle: str) -> bool:
        """Whether someone might until now, by turns of a lost device that nobody went on from."""
        late = [self.said[each].told for each in self._counted if each not in self._vouched]
        return any(_allows(turn, circle, CONTINUE) for turn in late)

    def _refusal(self, claim: Signed, who: str) -> ForestayError:
        return NotEntitled(
            f"a pack of session {self.session} was written by {who}",
            why=f"device {claim.signer} of {key_text.grouped(claim.circle)}",
            hint="it was not taken; forestay device list, forestay share list",
            session=self.session,
        )

    @cached_property
    def _counted(self) -> list[str]:
        order = sorted(self.said, key=lambda hash: (self.said[hash].told.epoch, hash))
        return [each for each in order if each in self._vouched or self._is_all_there_is(each)]

    @cached_property
    def _vouched(self) -> set[str]:
        """The turns that someone answers for who is in the owner's circle now."""
        active = {h for h, each in self.said.items() if self.owner.is_active(each.told.by)}
        known = set[str]().union(*({each} | self._past[each] for each in self.remembered))
        known = known.union(*(self._past[each] for each in active))
        others = self.said.keys() - active
        return active | {each for each in others if self._is_seen(each, known)}

    def _is_seen(self, each: str, known: set[str]) -> bool:
        """Whether a turn by a device that is not active any more counts."""
        fresh = self._fresh(self.said[each].told.by)
        return any(each in self._past[one] for one in fresh) if fresh else each in known

    def _is_all_there_is(self, each: str) -> bool:
        """Whether a turn is of a lost device, in a session that is met here for the first time."""
        return not self.remembered and not self._fresh(self.said[each].told.by)

    def _fresh(self, signer: str) -> list[str]:
        """The turns made with knowledge that a device of the owner is put out."""
        if signer not in self._freshness:
            every = ((hash, each.told) for hash, each in self.said.items())
            found = [hash for hash, turn in every if self._is_fresh(turn, self.owner, signer)]
            self._freshness[signer] = found
        return self._freshness[signer]

    @cached_property
    def _freshness(self) -> dict[str, list[str]]:
        return {}

    def _is_fresh(self, turn: Turn, circle: Circle, signer: str) -> bool:
        """Whether a turn was made with knowledge that this signer is put out."""
        key = turn.circle_key if circle.id == self.owner.id else _key_in(turn, circle.id)
        return self.owner.is_active(turn.by) and circle.knew_the_end_of(signer, key)

    @cached_property
    def _said_of(self) -> dict[str, Member]:
        """What holds of each person of whom anything was said."""
        found: dict[str, Member] = {}
        for hash in self._vouched:
            for each in self.said[hash].told.members:
                found[each.circle] = max(
                    found.get(each.circle, each), each, key=lambda one: one._weight
                )
        return dict(sorted(found.items()))


# --- checks that hold for ever ----------------------------------------------------------------


def _require_one_session(ring: Ring) -> None:
    of = {
        (each.told.session, each.told.place, each.told.place_check, each.told.owner)
        for each in ring.said.values()
    }
    if len(of) != 1:
        raise Swapped("the keys of several sessions are mixed", why=f"{len(of)} of them")
    if next(iter(of))[3] != ring.owner.id:
        raise Swapped("the keys of a session belong to another person than they say")


def _require_signatures(ring: Ring) -> None:
    for each in ring.said.values():
        verify = ring.owner.verify_key(each.told.by)
        if verify is None:
            why = f"device {each.told.by} of {ring.owner.fingerprint}"
            raise NotEntitled("the keys of a session were changed by someone unknown", why=why)
        if not LANGUAGE.holds(each, verify):
            raise Tampered("the signature of a turn is wrong", why=each.told.session)


def _require_epochs(ring: Ring) -> None:
    """Each turn counts on from those it has seen: names have room for so many, and no more."""
    for each in ring.said.values():
        seen = [ring.said[hash].told.epoch for hash in each.told.seen]
        if each.told.epoch != 1 + max(seen, default=0):
            why = f"epoch {each.told.epoch} after {max(seen, default=0)}"
            raise Tampered("a turn of a session's keys is out of order", why=why)


def _id(turn: Turn) -> str:
    return keys.recipient_id(turn.key)


def _key_in(turn: Turn, circle: str) -> str:
    return next((each.key for each in turn.members if each.circle == circle), "")


def _allows(turn: Turn, circle: str, mode: str) -> bool:
    if circle == turn.owner:
        return True
    return any(each.circle == circle and each.mode == mode for each in turn.members)


def _knows(circle: Circle, recipient: str) -> bool:
    return any(each.recipient == recipient for each in circle.epoch_list)


# --- turning ----------------------------------------------------------------------------------


def new_ring(circle: Circle, key: Key, session: str, *, made: int) -> Ring:
    """The first keys of a session, held by one's own circle alone."""
    place_key = object_names.place_key(circle.name_key, session)
    turn = Turn(
        session=session,
        place=object_names.place(circle.name_key, session),
        place_check=sha256(_PLACE_TAG + place_key).hexdigest(),
        owner=circle.id,
        by=key.id,
        made=made,
        epoch=1,
        key="",
        circle_key=circle.current.recipient,
    )
    secret = Secret.new()
    said = LANGUAGE.sign(structs.replace(turn, key=secret.recipient), key)
    return Ring([said], [secret], place_key, circle)


def rotated(
    ring: Ring,
    key: Key,
    *,
    made: int,
    packs: Iterable[str] = (),
    people: People | None = None,
    change: Member | None = None,
) -> Ring:
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
    LANGUAGE.require_room(ring.said, spare=0 if ending else speech.SPARE)
    secret = Secret.new()
    turn = structs.replace(
        ring.newest,
        by=key.id,
        made=made,
        epoch=1 + max((ring.said[each].told.epoch for each in ring.ends), default=0),
        key=secret.recipient,
        circle_key=ring.owner.current.recipient,
        seen=ring.ends,
        members=tuple(said_of[id] for id in sorted(said_of)),
        packs=tuple(sorted(set(packs))),
    )
    said, secrets = [*ring.said.values(), LANGUAGE.sign(turn, key)], ring._secrets.values()
    return Ring(said, [*secrets, secret], ring.place_key, ring.owner, ring.remembered)


def _updated(member: Member, people: People | None) -> Member:
    known = people(member.circle) if people and member.mode != NONE else None
    if known is None or known.epoch.recipient == member.key or not _knows(known, member.key):
        return member
    return structs.replace(member, key=known.epoch.recipient, change=member.change + 1)


def share(
    ring: Ring,
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


def unshare(ring: Ring, circle: str, *, made: int) -> Member:
    """The change that puts someone out."""
    before = ring.member(circle)
    if before is None:
        hint = "forestay share list"
        raise Refused("it is not shared with them", hint=hint, session=ring.session)
    return structs.replace(before, mode=NONE, change=before.change + 1, since=made)


def union(one: Ring, other: Ring) -> Ring:
    """What two devices know together."""
    if other.said.keys() <= one.said.keys() and other._secrets.keys() <= one._secrets.keys():
        return one.seen_by(other.owner)
    secrets = {**one._secrets, **other._secrets}
    said = {**one.said, **other.said}
    owner, remembered = circles.union(one.owner, other.owner), one.remembered | other.remembered
    most = 2 * speech.MOST
    whole = Ring(said.values(), secrets.values(), one.place_key, owner, remembered, most=most)
    return whole if len(said) <= speech.MOST else _within_limits(whole)


def _within_limits(ring: Ring) -> Ring:
    """The same without turns that nobody answers for: else these could leave no room."""
    kept = ring._vouched.union(*(ring._past[each] for each in ring._vouched))
    said = [each for hash, each in ring.said.items() if hash in kept]
    return Ring(said, ring._secrets.values(), ring.place_key, ring.owner, ring.remembered)


def require_remembered(ring: Ring, remembered: Collection[str]) -> None:
    """`RolledBack` if a turn that was shown before is missing now."""
    missing = set(remembered) - ring.said.keys()
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


def encode(ring: Ring, key: Key) -> bytes:
    """The ring object: sealed to the owner's devices, their recovery key and all members."""
    secrets = [each.text for each in ring._secrets.values()]
    return _packed(ring, key, secrets, ring.recipients())


def encode_end(ring: Ring, key: Key, member: Member) -> bytes:
    """The same for someone who was put out by its newest turn: that it is so, and no secret."""
    return _packed(ring, key, [], [member.key])


def _packed(ring: Ring, key: Key, secrets: list[str], recipients: list[str]) -> bytes:
    if not ring.owner.is_active(key.id):
        raise NotEntitled("only devices of its owner write the keys of a session", why=key.id)
    turns = speech.texts(ring.said[each] for each in sorted(ring.said))
    who = msgspec.Raw(circles.public(ring.owner))
    body = msgspec.json.encode(_Body(turns, secrets, ring.place_key.hex(), who))
    claim = _Claim(ring.session, ring.owner.id, key.id, ring.newest.made)
    return enclose(KIND, msgspec.json.encode(claim), body, key, recipients)


class Stranger(NotEntitled):
    """Keys that no device of their owner wrote, by all that they tell of these themselves."""

    keys: frozenset[str] = frozenset()
    """The ids of all keys that are told there."""


def _stranger(claim: _Claim, secrets: Sequence[Secret]) -> Stranger:
    error = Stranger(
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
    circle: Circle,
    *,
    place: str = "",
    people: People | None = None,
) -> Ring:
    """The ring in an object, opened by one's own circle, everything verified.

    `place` is where it was found: the keys of another session are `Swapped`. `Locked` if this
    circle holds no key of it, `NotEntitled` if its maker may not turn it, else `Tampered`.
    """
    return judged(opened(data, circle), circle, place=place, people=people)


class Opened(NamedTuple):
    """Keys that could be read, before anyone judged who wrote them."""

    claim: _Claim
    body: _Body
    is_signed_by: Callable[[bytes], bool]
    owner: Circle
    """What they tell of their owner's devices."""


def judged(found: Opened, circle: Circle, *, place: str = "", people: People | None = None) -> Ring:
    """The ring in an object that was opened; refuses as `decode` does."""
    claim = found.claim
    # They bring along what their maker knows of the owner's devices, so nothing else is needed.
    owner = _owner(claim.owner, found.owner, circle, people)
    verify = owner.verify_key(claim.signer)
    if verify is None:
        raise _stranger(claim, _secrets(found.body))
    if not found.is_signed_by(verify):
        raise Tampered("the signature of a session's keys is wrong", session=claim.session)
    ring = _of_body(found.body, owner)
    if ring.session != claim.session or (place and ring.place != place):
        raise Swapped(f"the keys of session {ring.session} are in the place of another")
    return ring


def opened(data: bytes, circle: Circle) -> Opened:
    """What is in an object, by the keys of one's own circle; `Locked` if it holds none of it."""
    if len(data) > _LIMIT:
        raise Tampered("the keys of a session are too large", why=f"over {_LIMIT} bytes")
    try:
        inside = disclose(data, KIND, circle.epochs)
    except Locked:
        held = ", ".join(str(each.number) for each in circle.epoch_list)
        raise Locked(
            "the keys of a session are sealed to others, or to keys made after you were put out",
            why=f"tried: epochs {held} of {circle.fingerprint}",
            hint="is this device still in the circle? on another one: forestay device list; if "
            f"someone shares it with you, give them: {circle.person}",
        ) from None
    try:
        claim = msgspec.json.decode(inside.claim, type=_Claim)
        body = msgspec.json.decode(inside.body, type=_Body)
    except UNREADABLE:
        # The cause might quote a secret.
        raise Tampered("the keys of a session cannot be read") from None
    return Opened(claim, body, inside.is_signed_by, circles.read_public(bytes(body.who)))


def _owner(id: str, told: Circle, own: Circle, people: People | None) -> Circle:
    if told.id != id:
        raise Swapped("the keys of a session name another owner than they prove")
    known = own if own.id == id else people(id) if people else None
    return circles.union(known, told) if known is not None else told


def _of_body(body: _Body, owner: Circle) -> Ring:
    try:
        said = LANGUAGE.read(body.turns)
        place_key = bytes.fromhex(body.place_key)
    except (ValueError, InvalidInput):
        raise Tampered("the keys of a session cannot be read") from None
    if not said:
        raise Tampered("the keys of a session are empty")
    return Ring(said, _secrets(body), place_key, owner)


def _secrets(body: _Body) -> list[Secret]:
    try:
        return [Secret(text) for text in body.secrets[: speech.MOST]]
    except (ValueError, InvalidInput):
        raise Tampered("the keys of a session cannot be read") from None


# --- who: the devices of those who take part --------------------------------------------------

WHO = "WHO"


class _Who(Struct, frozen=True):
    session: str
    circle: str
    signer: str


def encode_who(circle: Circle, key: Key, ring: Ring) -> bytes:
    """The statements of one's own circle for all who hold the ring: whose signature is whose."""
    claim = msgspec.json.encode(_Who(ring.session, circle.id, key.id))
    secret = ring.current
    return enclose(WHO, claim, circles.public(circle), key, [secret.recipient], secret.id)


def decode_who(data: bytes, ring: Ring) -> Circle:
    """The circle that such an object speaks of; it proves itself."""
    secret, _ = ring.secret(word_of(data, WHO))
    inside = disclose(data, WHO, [secret])
    try:
        claim = msgspec.json.decode(inside.claim, type=_Who)
    except UNREADABLE as error:
        raise Tampered("it cannot be read who takes part", why=str(error)) from None
    circle = circles.read_public(inside.body)
    verify = circle.verify_key(claim.signer)
    if verify is None or not inside.is_signed_by(verify):
        raise Tampered("the signature under who takes part is wrong", session=ring.session)
    if (claim.session, claim.circle) != (ring.session, circle.id):
        raise Swapped("who takes part in another session is shown for this one")
    return circle
