"""The keys of a session and packs sealed to them: readers, writers, and detected attacks."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec
import pytest
from msgspec import structs

from forestay.errors import (
    Downgraded,
    ForestayError,
    InvalidInput,
    Locked,
    NotEntitled,
    Outdated,
    Refused,
    RolledBack,
    Swapped,
    Tampered,
)
from forestay.sync.crypto import device_group, key_ring, key_text, keys, sealed_pack
from forestay.sync.crypto.device_group import DeviceGroup
from forestay.sync.crypto.envelope import enclose
from forestay.sync.crypto.key_ring import KeyRing
from forestay.sync.crypto.keys import Key
from forestay.sync.crypto.sealed_pack import Claim
from forestay.sync.crypto.signed_log import MOST, SPARE

PACK = b"FORESTAY PACK 1\nnot really"


class Person(NamedTuple):
    key: Key
    group: DeviceGroup

    @property
    def person(self) -> key_text.PersonKey:
        return self.group.person


def person(name: str) -> Person:
    key = keys.new_key()
    recovery = keys.recovery_key(keys.new_recovery_code())
    return Person(key, device_group.found(key, name, recovery, made=1))


def with_device(who: Person) -> tuple[Person, Key]:
    desk = keys.new_key()
    reported = key_text.DeviceCode("desk", desk.recipient, desk.verify)
    return Person(who.key, device_group.approve(who.group, who.key, reported, made=2)), desk


ANN, BOB = person("ann"), person("bob")
RING = key_ring.new_ring(ANN.group, ANN.key, "s1", made=5)


def decode_ring(data: bytes, group: DeviceGroup, place: str = "") -> KeyRing:
    return key_ring.judged(key_ring.opened(data, group), group, place=place)


def known(*people: Person) -> Callable[[str], DeviceGroup | None]:
    device_group = {each.group.id: each.group for each in people}
    return device_group.get


def devices(*people: Person) -> sealed_pack.Devices:
    def find(group_id: str, signer: str) -> bytes | None:
        found = known(*people)(group_id)
        return found.verify_key(signer) if found else None

    return find


def claim(ring: KeyRing, who: Person, signer: Key | None = None, **changes: object) -> Claim:
    made = Claim(
        session=ring.session,
        device="dev1",
        first=1,
        last=3,
        before="",
        after="f" * 64,
        epoch=ring.epoch,
        circle=who.group.id,
        signer=(signer or who.key).id,
        made=7,
    )
    return structs.replace(made, **changes)


def shared(ring: KeyRing, who: Person, mode: str = "continue") -> KeyRing:
    change = key_ring.share(ring, who.person, mode=mode, made=6)
    return key_ring.rotated(ring, ANN.key, made=6, change=change)


# --- packs ------------------------------------------------------------------------------------


def test_sealed_pack_opens_and_shows_nothing_in_clear_text() -> None:
    text = claim(RING, ANN, heads={"dev1": (3, "f" * 64)}, name="ann's laptop")
    data = sealed_pack.seal_pack(text, PACK, ANN.key, RING.current)
    assert sealed_pack.open_pack(data, RING, devices(ANN)) == (text, PACK)
    assert data.startswith(f"FORESTAY SEALED 1 {RING.current.id}\nage-".encode())
    assert not any(word in data for word in (b"laptop", b"dev1", b"PACK", b'"s1"'))


def test_every_bit_flip_of_a_sealed_pack_is_noticed() -> None:
    data = sealed_pack.seal_pack(claim(RING, ANN), PACK, ANN.key, RING.current)
    for at in range(len(data)):
        spoiled = bytearray(data)
        spoiled[at] ^= 1 << random.Random(at).randrange(8)
        with pytest.raises((Tampered, Locked, Outdated)) as caught:
            sealed_pack.open_pack(bytes(spoiled), RING, devices(ANN))
        in_line = at < data.index(b"\n") + 1
        assert in_line or isinstance(caught.value, Tampered)


@pytest.mark.parametrize("cut", [0, 1, 20, 36, 100, -1])
def test_pack_that_was_cut_short_is_noticed(cut: int) -> None:
    data = sealed_pack.seal_pack(claim(RING, ANN), PACK, ANN.key, RING.current)
    with pytest.raises(Tampered):
        sealed_pack.open_pack(data[:cut], RING, devices(ANN))


def line(data: bytes, version: bytes) -> bytes:
    return data.replace(b"SEALED 1 ", b"SEALED %s " % version, 1)


@pytest.mark.parametrize(
    "change, error",
    [
        (lambda data: line(data, b"0"), Downgraded),
        (lambda data: line(data, b"01"), Downgraded),
        (lambda data: line(data, b"2"), Outdated),
        (lambda data: PACK, Downgraded),
        (lambda data: data.replace(b"SEALED", b"CIRCLE", 1), Tampered),
        (lambda data: b"", Tampered),
    ],
)
def test_object_of_another_version_or_kind_has_a_specific_error(
    change: Callable[[bytes], bytes], error: type[ForestayError]
) -> None:
    data = sealed_pack.seal_pack(claim(RING, ANN), PACK, ANN.key, RING.current)
    with pytest.raises(error):
        sealed_pack.open_pack(change(data), RING, devices(ANN))


def test_error_for_a_wrong_key_names_the_right_one() -> None:
    later = key_ring.rotated(RING, ANN.key, made=6)
    data = sealed_pack.seal_pack(claim(later, ANN), PACK, ANN.key, later.current)
    with pytest.raises(Locked) as caught:
        sealed_pack.open_pack(data, RING, devices(ANN))
    text = f"{caught.value} {caught.value.hint}"
    assert later.current.id in text and ANN.group.fingerprint in text and "epoch 1" in text
    assert "sync" in text
    without = KeyRing(later.log.values(), RING._secrets.values(), RING.place_key, ANN.group)
    with pytest.raises(Locked, match="epoch 2 of this session"):
        sealed_pack.open_pack(data, without, devices(ANN))


def test_pack_of_another_session_or_epoch_is_swapped() -> None:
    other = claim(RING, ANN, session="s2")
    data = sealed_pack.seal_pack(other, PACK, ANN.key, RING.current)
    with pytest.raises(Swapped, match="s2"):
        sealed_pack.open_pack(data, RING, devices(ANN))
    data = sealed_pack.seal_pack(claim(RING, ANN, epoch=9), PACK, ANN.key, RING.current)
    with pytest.raises(Swapped, match="epoch"):
        sealed_pack.open_pack(data, RING, devices(ANN))


def test_unsigned_and_wrongly_signed_packs_are_noticed() -> None:
    text = msgspec.json.encode(claim(RING, ANN))

    class Mute:
        id = ANN.key.id

        def sign(self, data: bytes) -> bytes:
            return bytes(64)

    for signer in (Mute(), keys.new_key()):
        to, word = [RING.current.recipient], RING.current.id
        data = enclose("SEALED", text, PACK, signer, to, word)  # type: ignore[arg-type]
        with pytest.raises(Tampered, match="signature"):
            sealed_pack.open_pack(data, RING, devices(ANN))


def test_pack_of_an_unknown_signer_is_refused() -> None:
    data = sealed_pack.seal_pack(claim(RING, BOB), PACK, BOB.key, RING.current)
    with pytest.raises(NotEntitled, match="an unknown device"):
        sealed_pack.open_pack(data, RING, devices(ANN))
    with pytest.raises(ValueError, match="key that it names"):
        sealed_pack.seal_pack(claim(RING, ANN), PACK, BOB.key, RING.current)


def test_signature_of_one_kind_of_object_is_invalid_for_another() -> None:
    text = msgspec.json.encode(claim(RING, ANN))
    data = enclose("WHO", text, PACK, ANN.key, [RING.current.recipient], RING.current.id)
    with pytest.raises(Tampered, match="signature"):
        sealed_pack.open_pack(data.replace(b"WHO", b"SEALED", 1), RING, devices(ANN))


# --- rings ------------------------------------------------------------------------------------


def test_ring_opens_for_every_device_of_the_group_through_its_epoch() -> None:
    ann, desk = with_device(ANN)
    data = key_ring.encode(RING, ANN.key)
    seen = device_group.decode(device_group.encode(ann.group, ANN.key), desk)
    assert decode_ring(data, seen, place=RING.place) == RING
    with pytest.raises(Locked) as caught:
        decode_ring(data, BOB.group)
    assert str(BOB.group.person) in caught.value.hint


def test_every_bit_flip_of_a_ring_is_noticed() -> None:
    data = key_ring.encode(RING, ANN.key)
    for at in range(0, len(data), 13):
        spoiled = bytearray(data)
        spoiled[at] ^= 1 << at % 8
        with pytest.raises((Locked, Tampered, Outdated)):
            decode_ring(bytes(spoiled), ANN.group)


def test_ring_in_the_place_of_another_session_is_swapped() -> None:
    data = key_ring.encode(RING, ANN.key)
    other = key_ring.new_ring(ANN.group, ANN.key, "s2", made=5)
    with pytest.raises(Swapped, match="s1"):
        decode_ring(data, ANN.group, place=other.place)
    assert (other.place, other.chain("d")) != (RING.place, RING.chain("d"))
    assert RING.chain("a") != RING.chain("b")


def test_older_keys_than_remembered_are_a_rollback() -> None:
    later = key_ring.rotated(RING, ANN.key, made=6)
    seen = decode_ring(key_ring.encode(RING, ANN.key), ANN.group)
    with pytest.raises(RolledBack, match="older keys"):
        seen.knowing(later.ends)


def test_rotation_adds_a_key_and_retains_the_old_ones() -> None:
    later = key_ring.rotated(RING, ANN.key, made=6)
    assert (later.epoch, len(later._secrets)) == (2, 2)
    data = sealed_pack.seal_pack(claim(RING, ANN), PACK, ANN.key, RING.current)
    assert sealed_pack.open_pack(data, later, devices(ANN))[1] == PACK
    assert key_ring.union(RING, later) == key_ring.union(later, RING) == later


def test_rings_rotated_at_the_same_time_merge_equally_in_any_order() -> None:
    one, other = shared(RING, BOB, "read"), key_ring.rotated(RING, ANN.key, made=8)
    both = key_ring.union(one, other)
    assert both == key_ring.union(other, one)
    assert both.newest == key_ring.union(other, one).newest
    assert both.member(BOB.group.id) is not None
    assert both.stale() or both.newest == one.newest
    assert not key_ring.rotated(both, ANN.key, made=9).stale()


def test_unsharing_and_sharing_at_once_leaves_it_unshared() -> None:
    ring = shared(RING, BOB)
    out = key_ring.unshare(ring, BOB.group.id, made=8)
    again = key_ring.share(ring, BOB.person, mode="read", made=8)
    one = key_ring.rotated(ring, ANN.key, made=8, change=out)
    other = key_ring.rotated(ring, ANN.key, made=8, change=again)
    for both in (key_ring.union(one, other), key_ring.union(other, one)):
        assert both.member(BOB.group.id) is None
        assert both.newest == one.newest or both.stale()


def test_ring_is_stale_after_a_revocation_or_rotation_by_owner_or_member() -> None:
    ann, desk = with_device(ANN)
    assert not RING.seen_by(ann.group).stale()
    revoked = device_group.revoke(ann.group, ANN.key, desk.id, made=6)
    old = RING.seen_by(revoked)
    assert "owner" in old.stale()
    fresh = key_ring.rotated(old, ANN.key, made=7)
    assert not fresh.stale() and fresh.newest.circle_key == revoked.current.recipient
    bob = Person(BOB.key, device_group.rotate(BOB.group, BOB.key, made=7))
    both = shared(RING, BOB)
    assert not both.stale(known(BOB)) and "have changed" in both.stale(known(bob))
    turned = key_ring.rotated(both, ANN.key, made=8, people=known(bob))
    assert not turned.stale(known(bob)) and turned.members[0].key == bob.group.epoch.recipient


def test_revoked_device_opens_no_ring_and_no_pack_made_afterwards() -> None:
    ann, desk = with_device(ANN)
    held = device_group.decode(device_group.encode(ann.group, ANN.key), desk)
    revoked = device_group.revoke(ann.group, ANN.key, desk.id, made=6)
    ring = key_ring.rotated(RING.seen_by(revoked), ANN.key, made=7)
    with pytest.raises(Locked):
        decode_ring(key_ring.encode(ring, ANN.key), held)
    data = sealed_pack.seal_pack(claim(ring, ANN), PACK, ANN.key, ring.current)
    with pytest.raises(Locked):
        sealed_pack.open_pack(data, RING, devices(ann))


# --- who may write ----------------------------------------------------------------------------


def test_owner_and_continuing_members_may_write_and_readers_may_not() -> None:
    people = known(ANN, BOB)
    writing, reading = shared(RING, BOB), shared(RING, BOB, "read")
    assert writing.may_write(BOB.group.id) and not reading.may_write(BOB.group.id)
    assert reading.member(BOB.group.id) and not RING.member(BOB.group.id)
    for ring in (RING, writing, reading):
        ring.require_entitled(claim(ring, ANN), "d", people)
    writing.require_entitled(claim(writing, BOB), "d", people)
    with pytest.raises(NotEntitled, match="only read"):
        reading.require_entitled(claim(reading, BOB), "d", people)
    with pytest.raises(NotEntitled, match="an unknown device"):
        writing.require_entitled(claim(writing, BOB), "d", known(ANN))


def test_removed_member_retains_old_packs_and_adds_none() -> None:
    ring = shared(RING, BOB)
    out = key_ring.unshare(ring, BOB.group.id, made=8)
    after = key_ring.rotated(ring, ANN.key, made=8, packs=["before"], change=out)
    text = claim(ring, BOB)
    after.require_entitled(text, "before", known(ANN, BOB))
    with pytest.raises(NotEntitled, match="no longer allowed"):
        after.require_entitled(text, "later", known(ANN, BOB))
    with pytest.raises(Locked):
        decode_ring(key_ring.encode(after, ANN.key), BOB.group)


def test_only_packs_listed_by_the_new_keys_count_after_a_revocation() -> None:
    ann, desk = with_device(ANN)
    revoked = Person(ANN.key, device_group.revoke(ann.group, ANN.key, desk.id, made=6))
    text = claim(RING, ann, desk)
    RING.seen_by(revoked.group).require_entitled(text, "old", known(revoked))
    fresh = key_ring.rotated(RING.seen_by(revoked.group), ANN.key, made=7, packs=["old"])
    fresh.require_entitled(text, "old", known(revoked))
    with pytest.raises(NotEntitled, match="had been revoked"):
        fresh.require_entitled(text, "new", known(revoked))


def test_key_change_that_a_revoked_device_makes_later_does_not_count() -> None:
    ann, desk = with_device(ANN)
    ring = key_ring.new_ring(ann.group, desk, "s3", made=3)
    revoked = device_group.revoke(ann.group, ANN.key, desk.id, made=6)
    fresh = key_ring.rotated(ring.seen_by(revoked).knowing(ring.ends), ANN.key, made=7)
    change = key_ring.share(ring, BOB.person, mode="continue", made=8)
    forged = key_ring.rotated(ring, desk, made=8, change=change)
    forged = key_ring.rotated(forged, desk, made=9)
    both = key_ring.union(fresh, forged)
    assert both.member(BOB.group.id) is None and both.epoch == fresh.epoch
    assert fresh.epoch == 2 and forged.epoch == 3


def test_only_the_owner_rotates_and_writes_a_ring() -> None:
    ring = shared(RING, BOB)
    seen = decode_ring(key_ring.encode(ring, ANN.key), BOB.group)
    assert seen == ring and seen.owner.id == ANN.group.id
    with pytest.raises(NotEntitled, match="another person"):
        key_ring.rotated(seen, BOB.key, made=9)
    with pytest.raises(NotEntitled, match="only devices of its owner"):
        key_ring.encode(seen, BOB.key)
    turn = structs.replace(seen.newest, by=BOB.key.id, epoch=9)
    with pytest.raises(NotEntitled, match="an unknown device"):
        KeyRing(
            [*ring.log.values(), key_ring.STATEMENTS.sign(turn, BOB.key)],
            [],
            ring.place_key,
            ANN.group,
        )
    lie = key_ring.STATEMENTS.sign(structs.replace(turn, by=ANN.key.id), BOB.key)
    with pytest.raises(Tampered, match="signature"):
        KeyRing([*ring.log.values(), lie], [], ring.place_key, ANN.group)


def test_ring_that_names_another_owner_than_it_proves_is_swapped() -> None:
    with pytest.raises(Swapped, match="owner they name"):
        KeyRing(RING.log.values(), RING._secrets.values(), RING.place_key, BOB.group)
    with pytest.raises(Tampered, match="names"):
        KeyRing(RING.log.values(), RING._secrets.values(), b"x" * 32, ANN.group)


def test_invalid_shares_are_refused() -> None:
    with pytest.raises(Refused, match="shared with its owner"):
        key_ring.share(RING, ANN.person, mode="read", made=1)
    with pytest.raises(InvalidInput, match="read or to continue"):
        key_ring.share(RING, BOB.person, mode="own", made=1)
    with pytest.raises(Refused, match="not shared"):
        key_ring.unshare(RING, BOB.group.id, made=1)


def test_too_many_key_changes_are_refused_before_any_signature_is_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = list(RING.log.values())
    while len(text) <= MOST:
        turn = structs.replace(RING.newest, epoch=len(text) + 1, seen=(text[-1].hash,))
        text.append(key_ring.STATEMENTS.sign(turn, ANN.key))
    full = KeyRing(text[: MOST - SPARE], RING._secrets.values(), RING.place_key, ANN.group)
    with pytest.raises(Refused, match="no room"):
        key_ring.rotated(full, ANN.key, made=9)
    monkeypatch.setattr(key_ring.STATEMENTS, "has_valid_signature", None)
    monkeypatch.setattr(key_ring.STATEMENTS, "sort_by_past", None)
    with pytest.raises(Tampered, match="too many statements in the keys of a session"):
        KeyRing(text, [], RING.place_key, ANN.group)


def test_key_change_with_a_wrong_epoch_number_is_refused() -> None:
    for epoch in (0, 1, 3, 999_999):
        turn = structs.replace(RING.newest, epoch=epoch, seen=tuple(RING.log))
        text = [*RING.log.values(), key_ring.STATEMENTS.sign(turn, ANN.key)]
        with pytest.raises(Tampered, match="out of order"):
            KeyRing(text, RING._secrets.values(), RING.place_key, ANN.group)


def test_key_changes_of_a_revoked_device_leave_room_for_others() -> None:
    ann, desk = with_device(ANN)
    forged = ring = key_ring.new_ring(ann.group, ANN.key, "s3", made=3)
    text = list(ring.log.values())
    while len(text) < MOST:
        turn = structs.replace(ring.newest, by=desk.id, epoch=len(text) + 1, seen=(text[-1].hash,))
        text.append(key_ring.STATEMENTS.sign(turn, desk))
    forged = KeyRing(text, ring._secrets.values(), ring.place_key, ann.group)
    revoked = device_group.revoke(ann.group, ANN.key, desk.id, made=6)
    fresh = key_ring.rotated(ring.seen_by(revoked), ANN.key, made=7)
    for both in (key_ring.union(fresh, forged), key_ring.union(forged, fresh)):
        assert both.ends == fresh.ends and len(both.log) == 2
        assert key_ring.rotated(both, ANN.key, made=8).epoch == 3
    began = time.process_time()
    assert forged.seen_by(revoked).epoch == MOST and forged.seen_by(revoked).stale()
    assert time.process_time() - began < 60


# --- participants -----------------------------------------------------------------------------


def test_participant_object_proves_the_signatures_of_a_person() -> None:
    ring = shared(RING, BOB)
    data = key_ring.encode_participant(BOB.group, BOB.key, ring)
    seen = key_ring.decode_participant(data, ring)
    assert seen.verify_key(BOB.key.id) == BOB.key.verify and not seen.epochs
    assert BOB.group.id.encode() not in data
    with pytest.raises(Locked):
        key_ring.decode_participant(data, RING)
    other = key_ring.new_ring(ANN.group, ANN.key, "s2", made=5)
    outcome = KeyRing(other.log.values(), other._secrets.values(), other.place_key, ANN.group)
    outcome._secrets = {other.newest.key: ring.current}
    with pytest.raises(Swapped, match="another session"):
        key_ring.decode_participant(data, outcome)


def test_objects_reveal_no_member_in_clear_text() -> None:
    data = key_ring.encode(shared(RING, BOB), ANN.key)
    assert data.startswith(b"FORESTAY RING 1\nage-")
    assert not any(id.encode() in data for id in (ANN.group.id, BOB.group.id, 's1"'))
