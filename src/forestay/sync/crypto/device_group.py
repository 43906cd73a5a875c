"""A circle: the devices of one person, as a set of signed statements that only grows.

Words. A *statement* says one thing (founded, added, revoked, renamed, rotated, recovery), names
those before it that its maker had *seen*, and is signed by a device or by the recovery key. Its
*past* is what it has seen, and what that had seen. The hash of the founding one is the circle's
id, and so the person's. An *epoch* is an age identity that all active devices hold; everything a
circle may read is sealed to the newest one. `name_key` makes names on a remote; it never changes.

Two sets merge by union, so the order of arrival means nothing; what a set *means* is computed
from the set alone:

- a statement *counts* if the one that brought in its signer counts and is in its past, and no
  statement that counts has ended its signer without having seen it;
- to end a signer is to revoke the device, or to replace the recovery key;
- where endings contradict each other (two devices revoke each other), a new recovery key wins,
  then the recovery key, then the device that is longer in the circle;
- revoked stays revoked: a key is never added twice;
- a recovery key signs the statement that brings it in, so nobody can found a circle around that
  of someone else; to whom it seals is in circle objects alone, statements have a hash of it;
- an epoch is *clean* if its maker had seen every ending that counts. Without a clean one the
  circle is *stale*: someone who was put out may hold the newest, so another is due (`refreshed`).

    object    = envelope of kind CIRCLE, word: id of the circle; sealed to active devices and
                recovery keys; claim {"circle", "signer", "made"}
    body      = JSON {"said": [[statement, signature (hex)], …], "secrets": [age identity, …],
                "name_key": hex, "recoveries": [age recipient, …]}
    statement = JSON, see `Statement`; signed with "forestay statement 1" LF before it, and by the
                recovery key that it brings in with "forestay recovery 1" LF before it
"""

from __future__ import annotations

import os
from functools import cached_property
from hashlib import sha256
from typing import NamedTuple

import msgspec
from msgspec import Struct

from forestay.base import files
from forestay.errors import (
    Damaged,
    ForestayError,
    InvalidInput,
    Locked,
    NotEntitled,
    Refused,
    RolledBack,
    Swapped,
    Tampered,
)
from forestay.sync.crypto import key_text, keys, signed_log
from forestay.sync.crypto.envelope import UNREADABLE, disclose, enclose, word_of
from forestay.sync.crypto.keys import Key, Secret
from forestay.sync.crypto.signed_log import SignedStatement, ends

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from typing import TypeVar

    T = TypeVar("T")

FILE = "circle"
KIND = "CIRCLE"
ID = 32
_LIMIT = 8 << 20
_LONGEST = 64 << 10
_TAG = b"forestay statement 1\n"
_RECOVERY_TAG = b"forestay recovery 1\n"
_CHECK_TAG = b"forestay recovery recipient\n"
_NAME_TAG = b"forestay name\n"
FOUNDED, ADDED, REVOKED, RENAMED = "founded", "added", "revoked", "renamed"
ROTATED, RECOVERY = "rotated", "recovery"


class Statement(Struct, frozen=True, omit_defaults=True):
    """One thing that a device said. Fields that a kind does not have are left out.

    !! Hashed and signed as it was written. Fields may be added, never changed.
    """

    kind: str
    by: str
    made: int
    circle: str = ""
    seen: tuple[str, ...] = ()
    name: str = ""
    recipient: str = ""
    verify: str = ""
    target: str = ""
    epoch: int = 0
    epoch_key: str = ""
    recovery_check: str = ""
    recovery_verify: str = ""
    name_check: str = ""


STATEMENTS = signed_log.StatementKind(Statement, tag=_TAG, whole="a circle", longest=_LONGEST)


class Public(NamedTuple):
    """The public half of a key; others are not told to whom a recovery key seals."""

    recipient: str
    verify: bytes


class Device(NamedTuple):
    """A device of a circle, as it stands now."""

    key_id: str
    name: str
    recipient: str
    verify: bytes
    active: bool
    added_at: int
    revoked_at: int
    by: str


class Epoch(NamedTuple):
    """One epoch as its statement tells; the secret may or may not be here."""

    number: int
    recipient: str
    hash: str
    clean: bool

    @property
    def id(self) -> str:
        return keys.recipient_id(self.recipient)


class DeviceGroup:
    """The devices of one person. A value: what changes it returns another.

    Making one checks everything that does not depend on time: one founding statement, each past
    complete, each signature right. Secrets that no statement speaks of are dropped.
    """

    def __init__(
        self,
        statement: Iterable[SignedStatement[Statement]],
        secrets: Iterable[Secret] = (),
        name_key: bytes = b"",
        recoveries: Iterable[str] = (),
        *,
        most: int = signed_log.MOST,
    ) -> None:
        self.log = STATEMENTS.collect(statement, most)
        self._order, self._past = STATEMENTS.sort_by_past(self.log)
        self.id = _founding(self.log)[:ID]
        self._introduced_by = _introductions(self)
        _require_signatures(self)
        founded = self.log[_founding(self.log)].content
        self.name_key = name_key if _checks(name_key, founded.name_check) else b""
        told = [each.content for each in self.log.values()]
        named = {each.epoch_key for each in told}
        self._secrets = {each.recipient: each for each in secrets if each.recipient in named}
        checks = {each.recovery_check for each in told}
        given = {_check(each): each for each in recoveries}
        self._seals = {check: each for check, each in given.items() if check in checks}

    def __repr__(self) -> str:
        return f"<Circle {self.id}, {len(self.log)} statements>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeviceGroup):
            return NotImplemented
        ours = (self.log.keys(), self._secrets, self.name_key, self._seals)
        return ours == (other.log.keys(), other._secrets, other.name_key, other._seals)

    def __hash__(self) -> int:
        return hash(self.id)

    # -- what it means -------------------------------------------------------------------------

    @property
    def fingerprint(self) -> str:
        """What people compare to know that two devices speak of the same circle."""
        return key_text.grouped(self.id)

    @property
    def statements(self) -> list[Statement]:
        """Those that count, each after what it has seen."""
        return [self.log[each].content for each in self._order if each in self._counted]

    def devices(self) -> list[Device]:
        """Every device that was ever in it, in the order in which they came."""
        return list(self._devices.values())

    def device(self, key_id: str) -> Device | None:
        return self._devices.get(key_id)

    def is_active(self, key_id: str) -> bool:
        """Whether this is a device that is in the circle now."""
        return key_id in self._devices and self._devices[key_id].active

    def recoveries(self) -> list[Public]:
        """The recovery keys that hold now: nearly always one."""
        ended = {key for each in self._counted for key in self._ends.get(each, ())}
        return [public for id, public in self._recovery_keys.items() if id not in ended]

    def may_sign(self, key_id: str) -> bool:
        """Whether a statement of this key, made now, would count."""
        recovery = [keys.key_id(each.verify) for each in self.recoveries()]
        return self.is_active(key_id) or key_id in recovery

    def verify_key(self, key_id: str) -> bytes | None:
        """With what a signature of this signer is checked, if it was ever brought in."""
        brought = [each for each in self._introduced_by.get(key_id, ()) if each in self._counted]
        return _publics(self.log[brought[0]].content)[key_id] if brought else None

    def recipients(self) -> list[str]:
        """To whom a circle object is sealed."""
        active = [each.recipient for each in self.devices() if each.active]
        return [*active, *(each.recipient for each in self.recoveries() if each.recipient)]

    @cached_property
    def epoch_list(self) -> list[Epoch]:
        """Every epoch that counts, the current one last."""
        endings = {each for each in self._counted if each in self._ends}
        found = []
        for each in self._order:
            statement = self.log[each].content
            if each in self._counted and statement.epoch_key:
                clean = endings <= self._past[each] | {each}
                found.append(Epoch(statement.epoch, statement.epoch_key, each, clean))
        return sorted(found, key=lambda each: (each.clean, each.number, each.hash))

    @property
    def stale(self) -> bool:
        """Whether someone who was put out may hold the newest epoch; then another is due."""
        return not self.epoch_list[-1].clean

    @property
    def epoch(self) -> Epoch:
        return self.epoch_list[-1]

    @property
    def epochs(self) -> list[Secret]:
        """The secrets of epochs that are here, the current one last."""
        here = [self._secrets.get(each.recipient) for each in self.epoch_list]
        return [each for each in here if each is not None]

    @property
    def current(self) -> Secret:
        """The secret of the current epoch; `Locked` where it is not here."""
        found = self._secrets.get(self.epoch.recipient)
        if found is None:
            raise Locked(
                f"the key of epoch {self.epoch.number} of this circle is not here",
                why=f"key {self.epoch.id} of {self.fingerprint}",
                hint="on a device that is in the circle: forestay sync; then here: forestay sync",
            )
        return found

    def knew_revocation_of(self, key_id: str, recipient: str) -> bool:
        """Whether who began the epoch of this recipient knew that a signer is put out."""
        ended = self._ended.get(key_id, set())
        began = [each for each in self.epoch_list if each.recipient == recipient] if ended else []
        return any(ended & (self._past[each.hash] | {each.hash}) for each in began)

    @cached_property
    def _ended(self) -> dict[str, set[str]]:
        """The statements that count by which a signer was put out."""
        found: dict[str, set[str]] = {}
        for each in self._counted & self._ends.keys():
            for signer in self._ends[each]:
                found.setdefault(signer, set()).add(each)
        return found

    @property
    def person(self) -> key_text.PersonKey:
        """What this person gives to others."""
        return key_text.PersonKey(self.id, self.epoch.recipient)

    @property
    def _held(self) -> set[str]:
        """All that is here: what was said, and keys."""
        return {*self.log, *self._secrets, *self._seals}

    @property
    def hashes(self) -> frozenset[str]:
        """What to remember of it, so that a rollback is noticed."""
        return frozenset(self.log)

    # -- how that is computed ------------------------------------------------------------------

    @cached_property
    def _ends(self) -> dict[str, frozenset[str]]:
        """Which signers a statement ends, if it counts."""
        found = {}
        for each in self._order:
            statement = self.log[each].content
            if statement.kind == REVOKED:
                found[each] = frozenset([statement.target])
            elif statement.kind == RECOVERY:
                before = {id for one in self._past[each] for id in self._recoveries_in(one)}
                found[each] = frozenset(before)
        return found

    def _recoveries_in(self, hash: str) -> list[str]:
        statement = self.log[hash].content
        return (
            [keys.key_id(bytes.fromhex(statement.recovery_verify))]
            if statement.recovery_verify
            else []
        )

    @cached_property
    def _recovery_keys(self) -> dict[str, Public]:
        found = {}
        for each in self._order:
            if each in self._counted:
                statement = self.log[each].content
                for id in self._recoveries_in(each):
                    seals = self._seals.get(statement.recovery_check, "")
                    found[id] = Public(seals, bytes.fromhex(statement.recovery_verify))
        return found

    @cached_property
    def _counted(self) -> set[str]:
        """The statements that count.

        Endings depend on each other, so those that nothing contradicts are found first, then
        what they leave possible, until both agree. What is left contradicts itself in a circle:
        the first by rank is taken, whatever would have ended its maker is not.
        """
        taken: set[str] = set()
        banned: set[str] = set()
        while True:
            certain, possible = self._agreed(taken, banned)
            if possible <= certain:
                return self._standing(certain, banned)
            first = min(possible - certain, key=self._rank)
            taken = certain | {first}
            banned.update(self._against[first])

    def _agreed(self, taken: set[str], banned: set[str]) -> tuple[set[str], set[str]]:
        certain = set(taken)
        while True:
            possible = self._endings(certain, banned)
            next = self._endings(possible, banned) | taken
            if next == certain:
                return certain, possible
            certain = next

    def _endings(self, given: set[str], banned: set[str]) -> set[str]:
        return {each for each in self._standing(given, banned) if each in self._ends}

    def _standing(self, endings: set[str], banned: set[str]) -> set[str]:
        """The statements that count if just these endings do, and those banned do not."""
        standing: set[str] = set()
        founding = self._order[0]
        for each in (each for each in self._order if each not in banned):
            brought = self._introduced_by[self.log[each].content.by]
            known = any(one in standing and one in self._past[each] for one in brought)
            if (known or each == founding) and endings.isdisjoint(self._against[each]):
                standing.add(each)
        return standing

    @cached_property
    def _against(self) -> dict[str, list[str]]:
        """The endings that each statement would not count by."""
        ending: dict[str, list[str]] = {}
        for end, signers in self._ends.items():
            for signer in signers:
                ending.setdefault(signer, []).append(end)
        return {
            each: [
                end
                for end in ending.get(statement.content.by, ())
                if each != end and each not in self._past[end]
            ]
            for each, statement in self.log.items()
        }

    def _rank(self, each: str) -> tuple[bool, int, int]:
        statement = self.log[each].content
        by_recovery = any(
            statement.by in self._recoveries_in(one) for one in self._introduced_by[statement.by]
        )
        came = min(self._order.index(one) for one in self._introduced_by[statement.by])
        return statement.kind != RECOVERY, -1 if by_recovery else came, self._order.index(each)

    @cached_property
    def _devices(self) -> dict[str, Device]:
        found: dict[str, Device] = {}
        for statement in self.statements:
            if statement.kind in (FOUNDED, ADDED):
                found.setdefault(_target(statement), _device(statement))
            elif statement.kind == RENAMED and statement.target in found:
                found[statement.target] = found[statement.target]._replace(name=statement.name)
        for statement in self.statements:
            if statement.kind == REVOKED and statement.target in found:
                first = found[statement.target].revoked_at or statement.made
                found[statement.target] = found[statement.target]._replace(
                    active=False, revoked_at=first
                )
        return found


# --- checks that hold for ever ----------------------------------------------------------------


def _founding(statement: Mapping[str, SignedStatement[Statement]]) -> str:
    found = [hash for hash, each in statement.items() if each.content.kind == FOUNDED]
    if len(found) != 1:
        raise Tampered("a circle has one founding statement", why=f"this has {len(found)}")
    return found[0]


def _publics(statement: Statement) -> dict[str, bytes]:
    """The verify keys that a statement brings in, by id."""
    try:
        found = [
            bytes.fromhex(each) for each in (statement.verify, statement.recovery_verify) if each
        ]
        if statement.verify:
            key_text.recipient_bytes(statement.recipient)
        return {keys.key_id(each): each for each in found}
    except (ValueError, InvalidInput):
        raise Tampered("a statement brings in a key that is none") from None


def _introductions(group: DeviceGroup) -> dict[str, list[str]]:
    """The statements that bring in a signer, by the signer's id."""
    found: dict[str, list[str]] = {}
    publics: dict[str, tuple[bytes, str]] = {}
    for hash in group._order:
        statement = group.log[hash].content
        for id, verify in _publics(statement).items():
            public = (
                verify,
                statement.recipient
                if verify.hex() == statement.verify
                else statement.recovery_check,
            )
            if publics.setdefault(id, public) != public:
                raise Tampered("two keys of a circle have the same id", why=id)
            found.setdefault(id, []).append(hash)
    return found


def _require_signatures(group: DeviceGroup) -> None:
    founding = _founding(group.log)
    for hash in group._order:
        each = group.log[hash]
        statement = each.content
        own = statement.kind == FOUNDED and not statement.seen
        if not own and (statement.circle != group.id or founding not in group._past[hash]):
            raise Tampered("a statement of another circle is among these", why=hash[:16])
        brought = [
            b for b in group._introduced_by.get(statement.by, ()) if own or b in group._past[hash]
        ]
        if not brought:
            raise NotEntitled(
                "a statement is signed by someone outside the circle", why=statement.by
            )
        verify = _publics(group.log[brought[0]].content)[statement.by]
        if not STATEMENTS.has_valid_signature(each, verify):
            raise Tampered("the signature of a statement is wrong", why=hash[:16])
        _require_consent(each)


def _require_consent(statement: SignedStatement[Statement]) -> None:
    """A recovery key belongs to a circle only if whoever had it in hand said so."""
    own = statement.content.recovery_verify
    if own and not STATEMENTS.has_valid_signature(
        statement, bytes.fromhex(own), part=1, tag=_RECOVERY_TAG
    ):
        why = f"statement {statement.hash[:16]}"
        raise Tampered("a circle names a recovery key that did not agree to it", why=why)


def _check(recipient: str) -> str:
    return sha256(_CHECK_TAG + recipient.encode()).hexdigest()


def _checks(name_key: bytes, check: str) -> bool:
    return sha256(_NAME_TAG + name_key).hexdigest() == check


def _target(statement: Statement) -> str:
    return keys.key_id(bytes.fromhex(statement.verify))


def _device(statement: Statement) -> Device:
    verify = bytes.fromhex(statement.verify)
    return Device(
        _target(statement),
        statement.name,
        statement.recipient,
        verify,
        True,
        statement.made,
        0,
        statement.by,
    )


# --- what can be said -------------------------------------------------------------------------


def found(key: Key, name: str, recovery: Key, *, made: int) -> DeviceGroup:
    """A circle of one device and a recovery key."""
    epoch, name_key = Secret.new(), os.urandom(32)
    statement = Statement(
        FOUNDED,
        key.id,
        made,
        name=key_text.device_name(name),
        recipient=key.recipient,
        verify=key.verify.hex(),
        epoch=1,
        epoch_key=epoch.recipient,
        recovery_check=_check(recovery.recipient),
        recovery_verify=recovery.verify.hex(),
        name_check=sha256(_NAME_TAG + name_key).hexdigest(),
    )
    signed = STATEMENTS.sign(statement, key, (_RECOVERY_TAG, recovery))
    return DeviceGroup([signed], [epoch], name_key, [recovery.recipient])


def approve(group: DeviceGroup, key: Key, device: key_text.DeviceCode, *, made: int) -> DeviceGroup:
    """Let a device in; it can then read everything."""
    id = keys.key_id(device.verify)
    if known := group.device(id):
        how = "is in the circle already" if known.active else "was revoked, and stays so"
        hint = "" if known.active else "make a new key there: forestay device add --new-key"
        raise Refused(f"the device {known.name} {how}", hint=hint)
    return _add_statement(
        group,
        key,
        made,
        kind=ADDED,
        name=free_name(group, device.name),
        recipient=device.recipient,
        verify=device.verify.hex(),
    )


def revoke(group: DeviceGroup, key: Key, key_id: str, *, made: int) -> DeviceGroup:
    """Put a device out, and begin an epoch that it does not know."""
    if not group.is_active(key_id):
        raise Refused("this is no device of the circle, or not any more", why=key_id)
    if key_id == key.id:
        raise Refused("a device cannot revoke itself", hint="do it on another device")
    return _add_statement_with_epoch(group, key, made, kind=REVOKED, target=key_id)


def rename(group: DeviceGroup, key: Key, key_id: str, name: str, *, made: int) -> DeviceGroup:
    """Call a device by another name."""
    if group.device(key_id) is None:
        raise InvalidInput("there is no such device in the circle", why=key_id)
    name = free_name(group, key_text.device_name(name), but=key_id)
    return _add_statement(group, key, made, kind=RENAMED, target=key_id, name=name)


def rotate(group: DeviceGroup, key: Key, *, made: int) -> DeviceGroup:
    """Begin a new epoch."""
    return _add_statement_with_epoch(group, key, made, kind=ROTATED)


def replace_recovery(group: DeviceGroup, key: Key, recovery: Key, *, made: int) -> DeviceGroup:
    """Put another recovery key in the place of the old one, which then opens nothing new."""
    return _add_statement_with_epoch(
        group,
        key,
        made,
        kind=RECOVERY,
        recovery=recovery,
        recovery_check=_check(recovery.recipient),
        recovery_verify=recovery.verify.hex(),
    )


def with_clean_epoch(group: DeviceGroup, key: Key, *, made: int) -> DeviceGroup:
    """The circle with a clean epoch: itself, or with a new one if this key may make it."""
    return rotate(group, key, made=made) if group.stale and group.may_sign(key.id) else group


def free_name(group: DeviceGroup, name: str, but: str = "") -> str:
    """The name, or with a number behind it if another device has it."""
    taken = {each.name for each in group.devices() if each.active and each.key_id != but}
    numbered = (f"{name} {number}" for number in range(2, len(taken) + 3))
    return name if name not in taken else next(each for each in numbered if each not in taken)


def union(one: DeviceGroup, other: DeviceGroup) -> DeviceGroup:
    """What two devices know together."""
    if one.id != other.id:
        why = f"{one.fingerprint} and {other.fingerprint}"
        raise Swapped("these are the circles of two persons", why=why)
    name_key = one.name_key or other.name_key
    if one.name_key == name_key and other._held <= one._held:
        return one
    secrets = {**one._secrets, **other._secrets}
    statement, seals = {**one.log, **other.log}, {**one._seals, **other._seals}
    return _within_limits(statement.values(), secrets.values(), name_key, seals.values())


def _within_limits(
    statement: Iterable[SignedStatement[Statement]],
    secrets: Iterable[Secret],
    name_key: bytes,
    seals: Iterable[str],
) -> DeviceGroup:
    """A circle of all this; where it is too much, without what does not count.

    A device that is put out could else have filled the circle before, so that nobody hears of it.
    """
    whole = DeviceGroup(statement, secrets, name_key, seals, most=2 * signed_log.MOST)
    if len(whole.log) <= signed_log.MOST:
        return whole
    counts = whole._counted.union(*(whole._past[each] for each in whole._counted))
    kept = [each for hash, each in whole.log.items() if hash in counts]
    return DeviceGroup(kept, whole._secrets.values(), name_key, whole._seals.values())


def with_recovery(group: DeviceGroup, recovery: Key) -> DeviceGroup:
    """The circle, knowing to whom its recovery key seals, whether or not it was told."""
    seals = [*group._seals.values(), recovery.recipient]
    return DeviceGroup(group.log.values(), group._secrets.values(), group.name_key, seals)


def require_remembered(group: DeviceGroup, remembered: Collection[str]) -> None:
    """`RolledBack` if what was shown before is missing now."""
    missing = set(remembered) - group.log.keys()
    if missing:
        raise RolledBack(
            "the remote shows an older state of your devices than before",
            why=f"{len(missing)} of {len(remembered)} statements are missing",
            hint="what is here is kept; look at the storage, then: forestay sync",
        )


def _add_statement_with_epoch(
    group: DeviceGroup,
    key: Key,
    made: int,
    *,
    kind: str,
    recovery: Key | None = None,
    **fields: str,
) -> DeviceGroup:
    number = max(each.number for each in group.epoch_list) + 1
    epoch = Secret.new()
    told = _new_statement(
        group, key, made, epoch=number, epoch_key=epoch.recipient, kind=kind, **fields
    )
    also = [(_RECOVERY_TAG, recovery)] if recovery else []
    statement = [*group.log.values(), STATEMENTS.sign(told, key, *also)]
    seals = [*group._seals.values(), *([recovery.recipient] if recovery else [])]
    secrets = [*group._secrets.values(), epoch]
    return _within_limits(statement, secrets, group.name_key, seals)


def _add_statement(
    group: DeviceGroup, key: Key, made: int, *, kind: str, **fields: str
) -> DeviceGroup:
    told = _new_statement(group, key, made, kind=kind, epoch=0, **fields)
    statement = [*group.log.values(), STATEMENTS.sign(told, key)]
    return DeviceGroup(statement, group._secrets.values(), group.name_key, group._seals.values())


def _new_statement(
    group: DeviceGroup, key: Key, made: int, *, kind: str, epoch: int, **fields: str
) -> Statement:
    _require_may_sign(group, key)
    if kind not in (REVOKED, RECOVERY):
        STATEMENTS.require_room(group.log, spare=signed_log.SPARE)
    seen = ends(group.log)
    if len(group.log) >= signed_log.MOST:
        # Full of what the one said who is put out: of that only what others went on from counts.
        others = [hash for hash, e in group.log.items() if e.content.by != fields.get("target")]
        seen = ends(group.log, others)
    return Statement(kind, key.id, made, group.id, seen, epoch=epoch, **fields)


def _require_may_sign(group: DeviceGroup, key: Key) -> None:
    if group.may_sign(key.id):
        return
    known = group.device(key.id)
    if known and known.revoked_at:
        who = f"this device ({known.name}, {key.id}) was revoked"
        raise NotEntitled(who, hint="on an active device: forestay device list")
    hint = "forestay device add, then approve it on a device that is in the circle"
    raise NotEntitled(f"the key {key.id} is not in this circle", hint=hint)


# --- objects ----------------------------------------------------------------------------------


class _Claim(Struct, frozen=True):
    circle: str
    signer: str
    made: int = 0


class _Body(Struct, frozen=True):
    said: list[tuple[str, str]]
    secrets: list[str] = []
    name_key: str = ""
    recoveries: list[str] = []


def encode(group: DeviceGroup, key: Key) -> bytes:
    """The circle object: sealed to every active device and to the recovery key."""
    _require_may_sign(group, key)
    return _packed(group, key, group.recipients())


def decode(data: bytes, key: Key, *, remembered: Collection[str] = ()) -> DeviceGroup:
    """The circle in an object, everything verified.

    `Locked` if it is not sealed to this key, `NotEntitled` if its maker is not in the circle,
    `Tampered` for all that is not as it was made, `RolledBack` if it lacks what is remembered.
    """
    group, signer = _unpacked(data, key)
    if not group.may_sign(signer):
        raise NotEntitled("a circle was written by someone who is not in it", why=signer)
    require_remembered(group, remembered)
    return group


def public(group: DeviceGroup) -> bytes:
    """The statements alone, for others who must know whose signature is whose."""
    return msgspec.json.encode(_Body(_texts(group)))


def read_public(data: bytes) -> DeviceGroup:
    """A circle of someone else: no secret is in it."""
    return _of_body(data)


def keep(folder: str, group: DeviceGroup, key: Key) -> DeviceGroup:
    """Keep what this device knows of its circle, durably, sealed to this device alone.

    Another process may have learnt something meanwhile: what comes back, and is kept, is both.
    """
    files.make_private_dir(folder)
    with files.locked(folder):
        known = load_circle(folder, key) if kept_id(folder) == group.id else None
        whole = union(group, known) if known is not None else group
        files.replace(os.path.join(folder, FILE), sealed_to(whole, key))
    return whole


def sealed_to(group: DeviceGroup, key: Key) -> bytes:
    """The circle for one key alone, to travel beside it."""
    return _packed(group, key, [key.recipient])


def opened(data: bytes, key: Key) -> DeviceGroup:
    """What such an object holds, from someone whose word is taken for it: this device itself."""
    return _unpacked(data, key)[0]


def is_kept(folder: str) -> bool:
    return os.path.lexists(os.path.join(folder, FILE))


def kept_id(folder: str) -> str:
    """The id of the circle that this device is in, without opening anything; "" for none."""
    return _read_kept(folder, lambda data: word_of(data, KIND)) or ""


def load_circle(folder: str, key: Key) -> DeviceGroup | None:
    """What this device knows of its circle; None before there is one."""
    return _read_kept(folder, lambda data: opened(data, key))


def _read_kept(folder: str, read: Callable[[bytes], T]) -> T | None:
    path = os.path.join(folder, FILE)
    data = files.read_optional(path, _LIMIT, follow=False, private=True)
    try:
        return read(data) if data else None
    except Tampered as error:
        raise Damaged(
            f"{path} is damaged",
            why=str(error),
            hint="the remotes have what it held: move it away, then forestay device add --confirm"
            " CIRCLE, with the fingerprint that stands beside the recovery code",
            file=path,
        ) from error


def _packed(group: DeviceGroup, key: Key, recipients: list[str]) -> bytes:
    secrets = [each.text for each in group._secrets.values()]
    name_key, seals = group.name_key.hex(), list(group._seals.values())
    body = msgspec.json.encode(_Body(_texts(group), secrets, name_key, seals))
    newest = max(each.content.made for each in group.log.values())
    claim = msgspec.json.encode(_Claim(group.id, key.id, newest))
    return enclose(KIND, claim, body, key, recipients, group.id)


def _texts(group: DeviceGroup) -> list[tuple[str, str]]:
    return signed_log.texts(group.log[hash] for hash in group._order)


def _unpacked(data: bytes, key: Key) -> tuple[DeviceGroup, str]:
    if len(data) > _LIMIT:
        raise Tampered("a circle object is too large", why=f"over {_LIMIT} bytes")
    try:
        inside = disclose(data, KIND, [key])
    except Locked:
        raise _not_for(data, key) from None
    try:
        claim = msgspec.json.decode(inside.claim, type=_Claim)
    except UNREADABLE as error:
        raise Tampered("a circle object cannot be read", why=str(error)) from None
    group = _of_body(inside.body)
    if not group.id == claim.circle == word_of(data, KIND):
        raise Swapped("a circle object has the content of another circle")
    verify = group.verify_key(claim.signer)
    if verify is None:
        raise NotEntitled("a circle was written by someone who is not in it", why=claim.signer)
    if not inside.is_signed_by(verify):
        raise Tampered("the signature of a circle object is wrong")
    return group, claim.signer


def _of_body(data: bytes) -> DeviceGroup:
    try:
        body = msgspec.json.decode(data, type=_Body)
        statement = STATEMENTS.read(body.said)
        secrets = [Secret(text) for text in body.secrets[: signed_log.MOST]]
        name_key = bytes.fromhex(body.name_key)
        return DeviceGroup(statement, secrets, name_key, body.recoveries[: signed_log.MOST])
    except (*UNREADABLE, InvalidInput):
        # The cause might quote a secret.
        raise Tampered("a circle object cannot be read") from None


def _not_for(data: bytes, key: Key) -> ForestayError:
    whose = key_text.grouped(word_of(data, KIND))
    return Locked(
        f"this is sealed to the devices of the circle {whose}, and to its recovery code",
        why=f"this device, {key.id}, is not one of them",
        hint="here: forestay device add; there: forestay device approve CODE",
    )
