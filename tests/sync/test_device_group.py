"""Device groups: a set of statements means the same in any order, and nothing forged counts.

A *history* is a random sequence of changes by some devices, each with its own knowledge. A revoked
device that does not know of its revocation continues to make statements, as a stolen one would.
"""

from __future__ import annotations

import random
import time
from itertools import permutations
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from forestay.errors import (
    Downgraded,
    Locked,
    NotEntitled,
    Outdated,
    Refused,
    Swapped,
    Tampered,
)
from forestay.sync.crypto import device_group, key_text, keys, signed_log
from forestay.sync.crypto.device_group import DeviceGroup, Statement, union
from forestay.sync.crypto.keys import Key
from forestay.sync.crypto.signed_log import MOST, SPARE, SignedStatement

RECOVERY = keys.recovery_key(keys.new_recovery_code())


def code_of(key: Key, name: str = "other") -> key_text.DeviceCode:
    return key_text.DeviceCode(name, key.recipient, key.verify)


def two() -> tuple[Key, Key, DeviceGroup]:
    """Return the keys of a laptop and a desk, and their device group."""
    laptop, desk = keys.new_key(), keys.new_key()
    group = device_group.found(laptop, "laptop", RECOVERY, made=1)
    return laptop, desk, device_group.approve(group, laptop, code_of(desk, "desk"), made=2)


def meaning(group: DeviceGroup) -> object:
    return group.devices(), group.recoveries(), group.epoch, group.stale


# --- what devices do --------------------------------------------------------------------------


def test_founder_is_active_and_has_the_first_epoch() -> None:
    key = keys.new_key()
    group = device_group.found(key, "laptop", RECOVERY, made=1)
    (device,) = group.devices()
    assert (device.key_id, device.name, device.active) == (key.id, "laptop", True)
    assert group.epoch.number == 1 and group.current.recipient == group.epoch.recipient
    assert not group.stale
    assert len(group.name_key) == 32 and len(group.id) == 32


def test_approved_device_and_recovery_key_read_the_group_with_every_epoch() -> None:
    laptop, desk, group = two()
    group = device_group.rotate(group, laptop, made=3)
    seen = device_group.decode(device_group.encode(group, laptop), desk)
    assert seen == group and len(seen.epochs) == 2 and seen.name_key == group.name_key
    assert device_group.decode(device_group.encode(group, desk), RECOVERY) == group


def test_revoked_device_does_not_open_later_objects() -> None:
    laptop, desk, group = two()
    before = group.current
    group = device_group.revoke(group, laptop, desk.id, made=3)
    with pytest.raises(Locked, match="encrypted to the devices") as caught:
        device_group.decode(device_group.encode(group, laptop), desk)
    assert desk.id in caught.value.why and "approve" in caught.value.hint
    assert group.current != before and group.epoch.number == 2 and not group.stale
    with pytest.raises(Locked):
        before.open(keys.seal(b"later", [group.current.recipient]))


def test_revoked_device_may_not_sign_and_gets_an_error() -> None:
    laptop, desk, group = two()
    group = device_group.revoke(group, laptop, desk.id, made=3)
    with pytest.raises(NotEntitled, match="was revoked"):
        device_group.rotate(group, desk, made=4)
    with pytest.raises(NotEntitled, match="was revoked"):
        device_group.encode(group, desk)


def test_revoked_device_cannot_be_approved_again() -> None:
    laptop, desk, group = two()
    group = device_group.revoke(group, laptop, desk.id, made=3)
    with pytest.raises(Refused, match="revoked permanently"):
        device_group.approve(group, laptop, code_of(desk), made=4)


def test_device_is_not_added_twice_and_does_not_revoke_itself() -> None:
    laptop, desk, group = two()
    with pytest.raises(Refused, match="already"):
        device_group.approve(group, laptop, code_of(desk), made=3)
    with pytest.raises(Refused, match="itself"):
        device_group.revoke(group, laptop, laptop.id, made=3)
    with pytest.raises(Refused, match="not an active device"):
        device_group.revoke(group, laptop, "0" * 16, made=3)


def test_two_devices_never_have_the_same_name() -> None:
    laptop, _, group = two()
    group = device_group.approve(group, laptop, code_of(keys.new_key(), "desk"), made=3)
    group = device_group.rename(group, laptop, laptop.id, "desk", made=4)
    assert sorted(each.name for each in group.devices()) == ["desk", "desk 2", "desk 3"]


def test_recovery_key_adds_a_device_when_all_others_are_lost() -> None:
    laptop, desk, group = two()
    blank = keys.new_key()
    found = device_group.decode(device_group.encode(group, laptop), RECOVERY)
    found = device_group.approve(found, RECOVERY, code_of(blank, "new"), made=5)
    for lost in (laptop, desk):
        found = device_group.revoke(found, blank, lost.id, made=6)
    seen = device_group.decode(device_group.encode(found, RECOVERY), blank)
    assert [each.name for each in seen.devices() if each.active] == ["new"]
    assert seen.epochs[0] == group.current


def test_replaced_recovery_code_opens_nothing_new_and_may_not_sign() -> None:
    laptop, _, group = two()
    old, new = RECOVERY, keys.recovery_key(keys.new_recovery_code())
    after = device_group.replace_recovery(group, laptop, new, made=3)
    with pytest.raises(Locked):
        device_group.decode(device_group.encode(after, laptop), old)
    assert device_group.decode(device_group.encode(after, laptop), new) == after
    # The finder of the old code signs as if it had not been replaced.
    late = device_group.approve(group, old, code_of(keys.new_key(), "thief"), made=2)
    assert meaning(union(after, late)) == meaning(after)


# --- union ------------------------------------------------------------------------------------


def history(chance: random.Random) -> list[DeviceGroup]:
    """Return the group as each device knows it at the end, without a last sync."""
    founder = keys.new_key()
    start = device_group.found(founder, "d0", RECOVERY, made=0)
    known: dict[str, tuple[Key, DeviceGroup]] = {founder.id: (founder, start)}
    for moment in range(1, chance.randint(4, 14)):
        id = chance.choice(list(known))
        key, group = known[id]
        _, other = known[chance.choice(list(known))]
        known[id] = key, act(chance, key, union(group, other), known, moment)
    return [group for _, group in known.values()]


def act(
    chance: random.Random,
    key: Key,
    group: DeviceGroup,
    known: dict[str, tuple[Key, DeviceGroup]],
    at: int,
) -> DeviceGroup:
    if not group.may_sign(key.id):
        return group
    active = [each.key_id for each in group.devices() if each.active]
    what = chance.choice("add add revoke rotate rename recovery rescue".split())
    if what == "add":
        new = keys.new_key()
        group = device_group.approve(group, key, code_of(new, f"d{at}"), made=at)
        known[new.id] = new, group
    elif what == "revoke" and len(active) > 1:
        target = chance.choice([each for each in active if each != key.id])
        return device_group.revoke(group, key, target, made=at)
    elif what == "rename":
        return device_group.rename(group, key, chance.choice(active), f"n{at}", made=at)
    elif what == "recovery" and chance.random() < 0.3:
        return device_group.replace_recovery(
            group, key, keys.key_of_seed(bytes([at]) * 16), made=at
        )
    elif what == "rescue" and group.may_sign(RECOVERY.id) and len(active) > 1:
        return device_group.revoke(group, RECOVERY, chance.choice(active), made=at)
    return device_group.rotate(group, key, made=at)


@pytest.mark.parametrize("seed", range(15))
def test_union_is_commutative_associative_idempotent_and_independent_of_order(seed: int) -> None:
    chance = random.Random(seed)
    parts = history(chance)
    whole = parts[0]
    for each in parts:
        whole = union(whole, each)
    assert union(whole, whole) == whole
    for _ in range(4):
        chance.shuffle(parts)
        left, right = parts[0], parts[-1]
        for each in parts:
            left = union(left, each)
        for each in reversed(parts):
            right = union(each, right)
        assert left == right == whole
        assert meaning(left) == meaning(right) == meaning(whole)
    for a, b in permutations(parts[:3], 2):
        assert union(a, b) == union(b, a)
    shuffled = list(whole.log.values())
    chance.shuffle(shuffled)
    again = DeviceGroup(shuffled, recoveries=whole._seals.values())
    assert meaning(again) == meaning(whole)


@pytest.mark.parametrize("seed", range(40, 70))
def test_later_statements_of_a_revoked_signer_do_not_count(seed: int) -> None:
    parts = history(random.Random(seed))
    whole = parts[0]
    for each in parts:
        whole = union(whole, each)
    counted = whole._counted
    for ending in counted & whole._revokes.keys():
        for later in counted - {ending} - whole._past[ending]:
            assert whole.log[later].content.by not in whole._revokes[ending]
    if not whole.stale:
        endings = counted & whole._revokes.keys()
        assert endings <= whole._past[whole.epoch.hash] | {whole.epoch.hash}


def test_device_added_by_a_revoked_device_is_not_active() -> None:
    laptop, thief, group = two()
    revoked = device_group.revoke(group, laptop, thief.id, made=3)
    accomplice = keys.new_key()
    forged = device_group.approve(group, thief, code_of(accomplice, "more"), made=4)
    forged = device_group.revoke(forged, accomplice, laptop.id, made=5)
    both = union(revoked, forged)
    assert [each.name for each in both.devices() if each.active] == ["laptop"]
    assert meaning(both) == meaning(revoked)


def test_older_of_two_that_revoke_each_other_stays_unless_recovery_revokes_it() -> None:
    laptop, desk, group = two()
    one = device_group.revoke(group, laptop, desk.id, made=3)
    other = device_group.revoke(group, desk, laptop.id, made=3)
    both = union(one, other)
    assert [each.name for each in both.devices() if each.active] == ["laptop"]
    rescue = device_group.revoke(group, RECOVERY, laptop.id, made=9)
    assert [e.name for e in union(both, rescue).devices() if e.active] == ["desk"]


def test_two_revocations_at_once_leave_no_clean_epoch_until_it_is_refreshed() -> None:
    laptop, desk, group = two()
    third, fourth = keys.new_key(), keys.new_key()
    group = device_group.approve(group, laptop, code_of(third, "c"), made=3)
    group = device_group.approve(group, laptop, code_of(fourth, "d"), made=4)
    one = device_group.revoke(group, laptop, third.id, made=5)
    other = device_group.revoke(group, desk, fourth.id, made=5)
    both = union(one, other)
    assert both.stale
    fresh = device_group.with_clean_epoch(both, laptop, made=6)
    assert not fresh.stale and fresh.epoch.number == 3
    assert device_group.with_clean_epoch(fresh, laptop, made=7) is fresh


def test_device_groups_of_two_persons_do_not_merge() -> None:
    with pytest.raises(Swapped, match="two persons"):
        union(two()[2], two()[2])


# --- forgery ----------------------------------------------------------------------------------


def signed_by(key: Key, among: DeviceGroup, **fields: object) -> SignedStatement[Statement]:
    seen = tuple(among.log)
    given = {"kind": "rotated", "by": key.id, "made": 9, "circle": among.id, "seen": seen}
    return device_group.STATEMENTS.sign(Statement(**{**given, **fields}), key)  # type: ignore[arg-type]


def test_forged_unsigned_and_foreign_statements_are_refused() -> None:
    laptop, desk, group = two()
    good, stranger = list(group.log.values()), keys.new_key()
    unsigned = signed_by(laptop, group)
    unsigned.signature = bytes(64)
    with pytest.raises(Tampered, match="signature"):
        DeviceGroup([*good, unsigned])
    with pytest.raises(Tampered, match="signature"):
        DeviceGroup([*good, signed_by(stranger, group, by=laptop.id)])
    with pytest.raises(NotEntitled, match="outside"):
        DeviceGroup([*good, signed_by(stranger, group)])
    publics = {"recipient": stranger.recipient, "verify": stranger.verify.hex()}
    with pytest.raises(NotEntitled, match="outside"):
        DeviceGroup([*good, signed_by(stranger, group, kind="added", name="me", **publics)])
    with pytest.raises(Tampered, match="another group"):
        DeviceGroup([*good, signed_by(laptop, group, circle="0" * 32)])
    with pytest.raises(Tampered, match="incomplete"):
        DeviceGroup([*good, signed_by(laptop, group, seen=("0" * 64,))])
    with pytest.raises(Tampered, match="incomplete"):
        DeviceGroup(good[1:])
    with pytest.raises(Tampered, match="one founding"):
        DeviceGroup([*good, *two()[2].log.values()])
    with pytest.raises(NotEntitled, match="outside"):
        # The desk may not sign what precedes its approval.
        DeviceGroup([*good, signed_by(desk, group, seen=(good[0].hash,))])


def test_statement_of_an_unknown_kind_is_stored_and_changes_nothing() -> None:
    laptop, _, group = two()
    text, seals = [*group.log.values()], group._seals.values()
    newer = DeviceGroup([*text, signed_by(laptop, group, kind="blessed")], recoveries=seals)
    assert meaning(newer) == meaning(group) and len(newer.log) == 3
    assert union(newer, group) == union(group, newer)


def test_every_bit_flip_of_a_group_object_is_noticed() -> None:
    laptop, _, group = two()
    data = device_group.encode(group, laptop)
    for at in range(0, len(data), 11):
        spoiled = bytearray(data)
        spoiled[at] ^= 1 << at % 8
        with pytest.raises((Locked, Tampered, Outdated, Downgraded)):
            device_group.decode(bytes(spoiled), laptop)


def test_group_object_that_a_revoked_device_signed_is_refused() -> None:
    laptop, desk, group = two()
    after = device_group.revoke(group, laptop, desk.id, made=3)
    forged = device_group._packed(after, desk, after.recipients())
    with pytest.raises(NotEntitled, match="not in it"):
        device_group.decode(forged, laptop)


def test_invented_secrets_in_an_object_are_dropped() -> None:
    laptop, desk, group = two()
    invented = DeviceGroup(group.log.values(), [], group.name_key)
    invented._secrets = {"x": keys.Secret.new()}
    invented.name_key = b"n" * 32
    seen = device_group.decode(device_group._packed(invented, laptop, [desk.recipient]), desk)
    assert not seen.epochs and seen.name_key == b""
    with pytest.raises(Locked, match="epoch 1"):
        _ = seen.current


def test_public_group_has_statements_and_no_secret() -> None:
    _, _, group = two()
    data = device_group.public(group)
    assert b"SECRET" not in data and group.name_key.hex().encode() not in data
    seen = device_group.read_public(data)
    assert seen.devices() == group.devices() and seen.epoch == group.epoch
    assert seen.verify_key(RECOVERY.id) == RECOVERY.verify
    assert [each.recipient for each in seen.recoveries()] == [""]
    assert RECOVERY.recipient.encode() not in data
    assert union(seen, group) == union(group, seen) == group


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"said":[["{}",""]]}', b"\xff"])
def test_invalid_group_object_is_refused(data: bytes) -> None:
    with pytest.raises(Tampered):
        device_group.read_public(data)


def test_stored_group_opens_even_on_a_revoked_device(tmp_path: Path) -> None:
    laptop, desk, group = two()
    folder = str(tmp_path / "keys")
    assert device_group.load_group(folder, desk) is None and device_group.kept_id(folder) == ""
    group = device_group.revoke(group, laptop, desk.id, made=3)
    device_group.keep(folder, group, desk)
    assert device_group.load_group(folder, desk) == group
    assert device_group.kept_id(folder) == group.id
    assert (tmp_path / "keys" / device_group.FILE).stat().st_mode & 0o777 == 0o600


def test_statement_is_written_without_unused_fields() -> None:
    laptop, _, group = two()
    raw = device_group.rotate(group, laptop, made=3).log
    newest = max(raw.values(), key=lambda each: each.content.made)
    assert set(msgspec.json.decode(newest.raw)) == {
        *("kind", "by", "made", "circle", "seen", "epoch", "epoch_key")
    }


# --- recovery keys of others ------------------------------------------------------------------


def test_group_cannot_be_founded_with_the_recovery_key_of_another_person() -> None:
    laptop, _, group = two()
    theirs, evil = next(iter(group.log.values())), keys.new_key()
    named = {
        "recovery_check": theirs.content.recovery_check,
        "recovery_verify": RECOVERY.verify.hex(),
    }
    fields = {"recipient": evil.recipient, "verify": evil.verify.hex(), "by": evil.id, **named}
    founded = structs.replace(theirs.content, **fields)
    lie = device_group.STATEMENTS.sign(founded, evil)
    stolen = SignedStatement(lie.raw, lie.signature + theirs.signature[64:], founded)
    doubled = device_group.STATEMENTS.sign(founded, evil, (device_group._RECOVERY_TAG, evil))
    for text in (lie, stolen, doubled):
        with pytest.raises(Tampered, match="did not sign"):
            DeviceGroup([text])
    named["kind"] = "recovery"
    with pytest.raises(Tampered, match="did not sign"):
        DeviceGroup([*group.log.values(), signed_by(laptop, group, **named)])


# --- limits -----------------------------------------------------------------------------------


def chained(count: int) -> tuple[Key, list[SignedStatement[Statement]]]:
    """Return this many statements, each of which has seen the previous one."""
    laptop, _, group = two()
    text = list(group.log.values())
    while len(text) < count:
        reported = Statement("renamed", laptop.id, 3, group.id, (text[-1].hash,), target=laptop.id)
        text.append(device_group.STATEMENTS.sign(reported, laptop))
    return laptop, text


def test_too_many_statements_are_refused_before_any_signature_is_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, text = chained(MOST + 1)
    monkeypatch.setattr(device_group.STATEMENTS, "has_valid_signature", None)
    monkeypatch.setattr(device_group.STATEMENTS, "sort_by_past", None)
    data = msgspec.json.encode({"said": signed_log.texts(text)})
    with pytest.raises(Tampered, match="too many statements in a device group") as caught:
        device_group.read_public(data)
    assert "501" in caught.value.why and "500" in caught.value.why
    with pytest.raises(Tampered, match="too many"):
        DeviceGroup(text)
    long = msgspec.json.encode({"said": [("x" * (1 << 17), "")]})
    with pytest.raises(Tampered, match="too long"):
        device_group.read_public(long)


def test_last_places_of_a_log_are_reserved_for_revocations() -> None:
    laptop, text = chained(MOST - SPARE)
    group = DeviceGroup(text)
    with pytest.raises(Refused, match="no room"):
        device_group.rotate(group, laptop, made=4)
    desk = next(each for each in group.devices() if each.key_id != laptop.id)
    assert not device_group.revoke(group, laptop, desk.key_id, made=4).is_active(desk.key_id)


def hostile(count: int) -> list[SignedStatement[Statement]]:
    """Return statements of devices that each revoke the next, unaware of each other."""
    laptop, _, group = two()
    (first, *_) = group.log.values()
    every = [keys.new_key() for _ in range(count)]
    added = [
        signed_by(laptop, group, kind="added", seen=(first.hash,), **_public(each))
        for each in every
    ]
    out = [
        signed_by(key, group, kind="revoked", seen=(added[at].hash,), target=every[at - 1].id)
        for at, key in enumerate(every)
    ]
    return [first, *added, *out]


def _public(key: Key) -> dict[str, str]:
    return {"name": "d", "recipient": key.recipient, "verify": key.verify.hex()}


def test_state_of_a_full_log_is_computed_quickly() -> None:
    text = hostile((MOST - 1) // 2)
    began = time.process_time()
    assert len(DeviceGroup(text).devices()) == (MOST - 1) // 2 + 1
    assert time.process_time() - began < 60  # half a second here, most of it for signatures
