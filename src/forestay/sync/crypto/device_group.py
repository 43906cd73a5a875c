"""A device group: the devices of one person, as a log of signed statements that only grows.

A *statement* records one change (founded, added, revoked, renamed, rotated, recovery), names the
earlier statements that its signer had *seen*, and is signed by a device or by the recovery key.
Its *past* is every statement that it has seen, directly or through others. The hash of the founding
statement is the id of the group, and so of the person. An *epoch* is a key (an age identity) that
all active devices hold; everything that the group is allowed to read is encrypted to the newest
one. `name_key` makes the names of objects on a remote; it never changes. In stored formats the
group is called `circle`.

Two logs merge by union, so the order of arrival does not matter; who is in the group is computed
from the log alone:

- a statement *counts* if the one that introduced its signer counts and is in its past, and no
  statement that counts has revoked its signer without having seen it;
- to revoke a signer is to revoke the device, or to replace the recovery key;
- where revocations contradict each other (two devices revoke each other), a new recovery key wins,
  then the recovery key, then the device that is longer in the group;
- revoked stays revoked: a key is never added twice;
- a recovery key signs the statement that introduces it, so a group cannot be founded with the
  recovery key of another person; its recipient is only in group objects, statements have its hash;
- an epoch is *clean* if its signer had seen every revocation that counts. Without a clean one the
  group is *stale*: a revoked device may hold the newest, so another is due (`with_clean_epoch`).

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
    InvalidInput,
    Locked,
    NotEntitled,
    Refused,
    Swapped,
    Tampered,
)
from forestay.sync.crypto import key_text, keys, signed_log
from forestay.sync.crypto.envelope import UNREADABLE, disclose, enclose, word_of
from forestay.sync.crypto.keys import Key, Secret
from forestay.sync.crypto.signed_log import SignedStatement, ends

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
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
    """One change to the device group. Fields that a kind does not have are left out.

    !! The bytes are hashed and signed. Fields can be added, never changed.
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


STATEMENTS = signed_log.StatementKind(Statement, tag=_TAG, name="a device group", longest=_LONGEST)


class Public(NamedTuple):
    """The public half of a key. The recipient of a recovery key is not shown to other persons."""

    recipient: str
    verify: bytes


class Device(NamedTuple):
    """A device of a group, with its present name and state."""

    key_id: str
    name: str
    recipient: str
    verify: bytes
    active: bool
    added_at: int
    revoked_at: int
    by: str


class Epoch(NamedTuple):
    """One epoch as its statement describes it; this device does not always have its secret."""

    number: int
    recipient: str
    hash: str
    clean: bool

    @property
    def id(self) -> str:
        return keys.recipient_id(self.recipient)


class DeviceGroup:
    """The devices of one person. Immutable: functions that change it return another.

    The constructor checks that there is one founding statement, that each past is complete, and
    that each signature is valid. Secrets that no statement names are dropped.
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
        is_name_key = sha256(_NAME_TAG + name_key).hexdigest() == founded.name_check
        self.name_key = name_key if is_name_key else b""
        contents = [each.content for each in self.log.values()]
        named = {each.epoch_key for each in contents}
        self._secrets = {each.recipient: each for each in secrets if each.recipient in named}
        checks = {each.recovery_check for each in contents}
        given = {_check(each): each for each in recoveries}
        self._seals = {check: each for check, each in given.items() if check in checks}

    def __repr__(self) -> str:
        return f"<DeviceGroup {self.id}, {len(self.log)} statements>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeviceGroup):
            return NotImplemented
        ours = (self.log.keys(), self._secrets, self.name_key, self._seals)
        return ours == (other.log.keys(), other._secrets, other.name_key, other._seals)

    def __hash__(self) -> int:
        return hash(self.id)

    # -- members, keys ------------------------------------------------------------------------

    @property
    def fingerprint(self) -> str:
        """The digits that users compare to check that two devices are in the same group."""
        return key_text.grouped(self.id)

    @property
    def statements(self) -> list[Statement]:
        """The statements that count, each after those it has seen."""
        return [self.log[each].content for each in self._order if each in self._counted]

    def devices(self) -> list[Device]:
        """Return every device that was ever in the group, in the order of joining."""
        return list(self._devices.values())

    def device(self, key_id: str) -> Device | None:
        return self._devices.get(key_id)

    def is_active(self, key_id: str) -> bool:
        """Return whether this is an active device of the group."""
        return key_id in self._devices and self._devices[key_id].active

    def recoveries(self) -> list[Public]:
        """Return the valid recovery keys: nearly always one."""
        ended = {key for each in self._counted for key in self._revokes.get(each, ())}
        return [public for id, public in self._recovery_keys.items() if id not in ended]

    def may_sign(self, key_id: str) -> bool:
        """Return whether a statement signed by this key now would count."""
        recovery = [keys.key_id(each.verify) for each in self.recoveries()]
        return self.is_active(key_id) or key_id in recovery

    def verify_key(self, key_id: str) -> bytes | None:
        """Return the verify key of a signer, None if it was never in the group."""
        brought = [each for each in self._introduced_by.get(key_id, ()) if each in self._counted]
        return _publics(self.log[brought[0]].content)[key_id] if brought else None

    def recipients(self) -> list[str]:
        """Return the age recipients to which a group object is encrypted."""
        active = [each.recipient for each in self.devices() if each.active]
        return [*active, *(each.recipient for each in self.recoveries() if each.recipient)]

    @cached_property
    def epoch_list(self) -> list[Epoch]:
        """Every epoch that counts, the current one last."""
        endings = {each for each in self._counted if each in self._revokes}
        found = []
        for each in self._order:
            statement = self.log[each].content
            if each in self._counted and statement.epoch_key:
                clean = endings <= self._past[each] | {each}
                found.append(Epoch(statement.epoch, statement.epoch_key, each, clean))
        return sorted(found, key=lambda each: (each.clean, each.number, each.hash))

    @property
    def stale(self) -> bool:
        """Whether a revoked device may hold the newest epoch, so that a new one is due."""
        return not self.epoch_list[-1].clean

    @property
    def epoch(self) -> Epoch:
        return self.epoch_list[-1]

    @property
    def epochs(self) -> list[Secret]:
        """The known secrets of epochs, the current one last."""
        here = [self._secrets.get(each.recipient) for each in self.epoch_list]
        return [each for each in here if each is not None]

    @property
    def current(self) -> Secret:
        """The secret of the current epoch; raise `Locked` if this device lacks it."""
        found = self._secrets.get(self.epoch.recipient)
        if found is None:
            raise Locked(
                f"this device lacks the key of epoch {self.epoch.number} of its device group",
                why=f"key {self.epoch.id} of {self.fingerprint}",
                hint="on an active device of the group: forestay sync; then here: forestay sync",
            )
        return found

    def knew_revocation_of(self, key_id: str, recipient: str) -> bool:
        """Return whether the signer of this recipient's epoch knew that a device is revoked."""
        ended = self._revoked_by.get(key_id, set())
        began = [each for each in self.epoch_list if each.recipient == recipient] if ended else []
        return any(ended & (self._past[each.hash] | {each.hash}) for each in began)

    @cached_property
    def _revoked_by(self) -> dict[str, set[str]]:
        """The statements that count and revoke a signer, by signer."""
        found: dict[str, set[str]] = {}
        for each in self._counted & self._revokes.keys():
            for signer in self._revokes[each]:
                found.setdefault(signer, set()).add(each)
        return found

    @property
    def person(self) -> key_text.PersonKey:
        """The key that the user gives to other persons, so that they can share sessions."""
        return key_text.PersonKey(self.id, self.epoch.recipient)

    @property
    def _held(self) -> set[str]:
        """The hashes of all statements and the ids of all keys that this device has."""
        return {*self.log, *self._secrets, *self._seals}

    # -- which statements count---------------------------------------------------------------

    @cached_property
    def _revokes(self) -> dict[str, frozenset[str]]:
        """For each statement, the signers that it revokes if it counts."""
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
        verify = self.log[hash].content.recovery_verify
        return [keys.key_id(bytes.fromhex(verify))] if verify else []

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

        Whether a revocation counts depends on other revocations. First find those that no other
        contradicts, then those that remain possible, until both sets are equal. The rest
        contradict each other in a cycle: the first by rank counts, and those that would revoke its
        signer do not.
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
            possible = self._revocations(certain, banned)
            next = self._revocations(possible, banned) | taken
            if next == certain:
                return certain, possible
            certain = next

    def _revocations(self, given: set[str], banned: set[str]) -> set[str]:
        return {each for each in self._standing(given, banned) if each in self._revokes}

    def _standing(self, endings: set[str], banned: set[str]) -> set[str]:
        """Return the statements that count if exactly these revocations do, without `banned`."""
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
        """The revocations that would invalidate each statement."""
        ending: dict[str, list[str]] = {}
        for end, signers in self._revokes.items():
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
                verify = bytes.fromhex(statement.verify)
                id, recipient = keys.key_id(verify), statement.recipient
                added = (True, statement.made, 0, statement.by)
                found.setdefault(id, Device(id, statement.name, recipient, verify, *added))
            elif statement.kind == RENAMED and statement.target in found:
                found[statement.target] = found[statement.target]._replace(name=statement.name)
        for statement in self.statements:
            if statement.kind == REVOKED and statement.target in found:
                known = found[statement.target]
                first = known.revoked_at or statement.made
                found[statement.target] = known._replace(active=False, revoked_at=first)
        return found


# --- checks independent of time ---------------------------------------------------------------


def _founding(statement: Mapping[str, SignedStatement[Statement]]) -> str:
    found = [hash for hash, each in statement.items() if each.content.kind == FOUNDED]
    if len(found) != 1:
        why = f"it has {len(found)} of them"
        raise Tampered("a device group does not have exactly one founding statement", why=why)
    return found[0]


def _publics(statement: Statement) -> dict[str, bytes]:
    """Return the verify keys that a statement introduces, by id."""
    try:
        both = (statement.verify, statement.recovery_verify)
        found = [bytes.fromhex(each) for each in both if each]
        if statement.verify:
            key_text.recipient_bytes(statement.recipient)
        return {keys.key_id(each): each for each in found}
    except (ValueError, InvalidInput):
        raise Tampered("a statement of a device group adds an invalid key") from None


def _introductions(group: DeviceGroup) -> dict[str, list[str]]:
    """Return the statements that introduce a signer, by the signer's id."""
    found: dict[str, list[str]] = {}
    publics: dict[str, tuple[bytes, str]] = {}
    for hash in group._order:
        statement = group.log[hash].content
        for id, verify in _publics(statement).items():
            is_device = verify.hex() == statement.verify
            public = (verify, statement.recipient if is_device else statement.recovery_check)
            if publics.setdefault(id, public) != public:
                raise Tampered("two keys of a device group have the same id", why=f"id {id}")
            found.setdefault(id, []).append(hash)
    return found


def _require_signatures(group: DeviceGroup) -> None:
    founding = _founding(group.log)
    for hash in group._order:
        each = group.log[hash]
        statement = each.content
        own = statement.kind == FOUNDED and not statement.seen
        if not own and (statement.circle != group.id or founding not in group._past[hash]):
            raise Tampered(f"statement {hash[:16]} of a device group belongs to another group")
        brought = [
            b for b in group._introduced_by.get(statement.by, ()) if own or b in group._past[hash]
        ]
        if not brought:
            what = "a statement of a device group is signed by a key outside the group"
            raise NotEntitled(what, why=statement.by)
        verify = _publics(group.log[brought[0]].content)[statement.by]
        if not STATEMENTS.has_valid_signature(each, verify):
            what = "the signature of a statement of a device group is wrong"
            raise Tampered(what, why=hash[:16])
        recovery = bytes.fromhex(statement.recovery_verify)
        if recovery and not STATEMENTS.has_valid_signature(
            each, recovery, part=1, tag=_RECOVERY_TAG
        ):
            why = f"statement {hash[:16]}"
            raise Tampered("a device group names a recovery key that did not sign it", why=why)


def _check(recipient: str) -> str:
    return sha256(_CHECK_TAG + recipient.encode()).hexdigest()


# --- changes ----------------------------------------------------------------------------------


def found(key: Key, name: str, recovery: Key, *, made: int) -> DeviceGroup:
    """Return a new group of one device and a recovery key."""
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
    """Return the group with one more device, which can then read all sessions of the user."""
    id = keys.key_id(device.verify)
    if known := group.device(id):
        how = "is already in the device group" if known.active else "was revoked permanently"
        hint = "" if known.active else "on that device: forestay device add --new-key"
        raise Refused(f"the device {known.name} {how}", hint=hint)
    name, verify = free_name(group, device.name), device.verify.hex()
    return _add_statement(
        group, key, made, ADDED, name=name, recipient=device.recipient, verify=verify
    )


def revoke(group: DeviceGroup, key: Key, key_id: str, *, made: int) -> DeviceGroup:
    """Return the group with a device revoked, in a new epoch whose key it does not get."""
    if not group.is_active(key_id):
        hint = "forestay device list"
        raise Refused(f"{key_id} is not an active device of the group", hint=hint)
    if key_id == key.id:
        raise Refused("a device cannot revoke itself", hint="revoke it on another device")
    return _add_statement(group, key, made, REVOKED, target=key_id)


def rename(group: DeviceGroup, key: Key, key_id: str, name: str, *, made: int) -> DeviceGroup:
    """Return the group with a device renamed."""
    if group.device(key_id) is None:
        what = f"there is no device {key_id} in the group"
        raise InvalidInput(what, hint="forestay device list")
    name = free_name(group, key_text.device_name(name), but=key_id)
    return _add_statement(group, key, made, RENAMED, target=key_id, name=name)


def rotate(group: DeviceGroup, key: Key, *, made: int) -> DeviceGroup:
    """Return the group in a new epoch."""
    return _add_statement(group, key, made, ROTATED)


def replace_recovery(group: DeviceGroup, key: Key, recovery: Key, *, made: int) -> DeviceGroup:
    """Return the group with another recovery key.

    The old one does not decrypt anything that is written from now on.
    """
    check, verify = _check(recovery.recipient), recovery.verify.hex()
    return _add_statement(
        group, key, made, RECOVERY, recovery, recovery_check=check, recovery_verify=verify
    )


def with_clean_epoch(group: DeviceGroup, key: Key, *, made: int) -> DeviceGroup:
    """Return the group with a new epoch if it is stale and this key may sign, else unchanged."""
    return rotate(group, key, made=made) if group.stale and group.may_sign(key.id) else group


def free_name(group: DeviceGroup, name: str, but: str = "") -> str:
    """Return the name, with a number appended if another device has it."""
    taken = {each.name for each in group.devices() if each.active and each.key_id != but}
    numbered = (f"{name} {number}" for number in range(2, len(taken) + 3))
    return name if name not in taken else next(each for each in numbered if each not in taken)


def union(one: DeviceGroup, other: DeviceGroup) -> DeviceGroup:
    """Merge two versions of one device group."""
    if one.id != other.id:
        why = f"{one.fingerprint} and {other.fingerprint}"
        raise Swapped("the device groups of two persons cannot be merged", why=why)
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
    """Return a group of these parts; above the size limit drop statements that do not count.

    Otherwise a revoked device could fill the log so that no room is left for its revocation.
    """
    whole = DeviceGroup(statement, secrets, name_key, seals, most=2 * signed_log.MOST)
    if len(whole.log) <= signed_log.MOST:
        return whole
    counts = whole._counted.union(*(whole._past[each] for each in whole._counted))
    kept = [each for hash, each in whole.log.items() if hash in counts]
    return DeviceGroup(kept, whole._secrets.values(), name_key, whole._seals.values())


def with_recovery(group: DeviceGroup, recovery: Key) -> DeviceGroup:
    """Return the group with the recipient of its recovery key added, in case it was unknown."""
    seals = [*group._seals.values(), recovery.recipient]
    return DeviceGroup(group.log.values(), group._secrets.values(), group.name_key, seals)


def _add_statement(
    group: DeviceGroup, key: Key, made: int, kind: str, recovery: Key | None = None, **fields: str
) -> DeviceGroup:
    """Return the group with one more statement; most kinds begin an epoch with it."""
    _require_may_sign(group, key)
    if kind not in (REVOKED, RECOVERY):
        STATEMENTS.require_room(group.log, spare=signed_log.SPARE)
    seen = ends(group.log)
    if len(group.log) >= signed_log.MOST:
        # The log is full, of statements by the signer that is being revoked: of these only those
        # that other statements have seen count, so the others are dropped.
        others = [hash for hash, e in group.log.items() if e.content.by != fields.get("target")]
        seen = ends(group.log, others)
    secrets, number = list(group._secrets.values()), 0
    if kind in (REVOKED, ROTATED, RECOVERY):
        secrets.append(Secret.new())
        fields["epoch_key"] = secrets[-1].recipient
        number = max(each.number for each in group.epoch_list) + 1
    content = Statement(kind, key.id, made, group.id, seen, epoch=number, **fields)
    also = [(_RECOVERY_TAG, recovery)] if recovery else []
    log = [*group.log.values(), STATEMENTS.sign(content, key, *also)]
    seals = [*group._seals.values(), *([recovery.recipient] if recovery else [])]
    return _within_limits(log, secrets, group.name_key, seals)


def _require_may_sign(group: DeviceGroup, key: Key) -> None:
    if group.may_sign(key.id):
        return
    known = group.device(key.id)
    if known and known.revoked_at:
        who = f"this device ({known.name}, {key.id}) was revoked"
        raise NotEntitled(who, hint="on an active device: forestay device list")
    hint = "forestay device add, then approve it on a device of the group"
    raise NotEntitled(f"the key {key.id} is not in this device group", hint=hint)


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
    """Return the group object, sealed to every active device and to the recovery key."""
    _require_may_sign(group, key)
    return _packed(group, key, group.recipients())


def decode(data: bytes, key: Key) -> DeviceGroup:
    """Decrypt a group object, verify it, and return its group.

    Raise `Locked` if it is not sealed to this key, `NotEntitled` if its signer is not in the group,
    `Tampered` for any other defect.
    """
    group, signer = _unpacked(data, key)
    if not group.may_sign(signer):
        raise NotEntitled(f"a device group was written by the key {signer}, which is not in it")
    return group


def public(group: DeviceGroup) -> bytes:
    """Return the statements without secrets, so that other persons can check signatures."""
    return msgspec.json.encode(_Body(_texts(group)))


def keep(folder: str, group: DeviceGroup, key: Key) -> DeviceGroup:
    """Store the group durably on this device, encrypted to this device alone.

    Another process may have stored a newer version in the meantime: store and return the union.
    """
    files.make_private_dir(folder)
    with files.locked(folder):
        known = load_group(folder, key) if kept_id(folder) == group.id else None
        whole = union(group, known) if known is not None else group
        files.replace(os.path.join(folder, FILE), sealed_to(whole, key))
    return whole


def sealed_to(group: DeviceGroup, key: Key) -> bytes:
    """Return the group encrypted to one key alone, to be exported with that key."""
    return _packed(group, key, [key.recipient])


def opened(data: bytes, key: Key) -> DeviceGroup:
    """Decrypt a group object that this device wrote; its signer need not be active."""
    return _unpacked(data, key)[0]


def is_kept(folder: str) -> bool:
    return os.path.lexists(os.path.join(folder, FILE))


def kept_id(folder: str) -> str:
    """Return the id of the stored group without decrypting it; "" if there is none."""
    return _read_kept(folder, lambda data: word_of(data, KIND)) or ""


def load_group(folder: str, key: Key) -> DeviceGroup | None:
    """Return the stored device group; None before there is one."""
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
            hint="the remotes have its content: move the file away, then run: forestay device add"
            " --confirm FINGERPRINT (it is written next to the recovery code)",
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
        raise Tampered("a group object is too large", why=f"it has over {_LIMIT} bytes")
    try:
        inside = disclose(data, KIND, [key])
    except Locked:
        whose = key_text.grouped(word_of(data, KIND))
        raise Locked(
            f"an object is encrypted to the devices and the recovery code of group {whose}",
            why=f"this device, {key.id}, is not in that group",
            hint="here: forestay device add; on one of those devices: forestay device approve CODE",
        ) from None
    try:
        claim = msgspec.json.decode(inside.claim, type=_Claim)
    except UNREADABLE as error:
        raise Tampered("a group object cannot be read", why=str(error)) from None
    group = read_public(inside.body)
    if not group.id == claim.circle == word_of(data, KIND):
        raise Swapped("a group object has the content of another group")
    verify = group.verify_key(claim.signer)
    if verify is None:
        what = f"a device group was written by the key {claim.signer}, which is not in it"
        raise NotEntitled(what)
    if not inside.is_signed_by(verify):
        raise Tampered("the signature of a group object is wrong")
    return group, claim.signer


def read_public(data: bytes) -> DeviceGroup:
    """Parse the body of a group object; the body for other persons has no secrets."""
    try:
        body = msgspec.json.decode(data, type=_Body)
        statement = STATEMENTS.read(body.said)
        secrets = [Secret(text) for text in body.secrets[: signed_log.MOST]]
        name_key = bytes.fromhex(body.name_key)
        return DeviceGroup(statement, secrets, name_key, body.recoveries[: signed_log.MOST])
    except (*UNREADABLE, InvalidInput):
        # The cause might quote a secret.
        raise Tampered("a group object cannot be read") from None
