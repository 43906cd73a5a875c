"""Circles: a set of statements means the same however it came together, and nothing forged counts.

A *history* here is what some devices did, each with what it knew at that moment; a device that
was put out and does not know it goes on making statements, as a stolen one would.
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
    RolledBack,
    Swapped,
    Tampered,
)
from forestay.sync.crypto import device_group as circles
from forestay.sync.crypto import key_text, keys
from forestay.sync.crypto import signed_log as speech
from forestay.sync.crypto.device_group import Circle, Statement, union
from forestay.sync.crypto.keys import Key
from forestay.sync.crypto.signed_log import MOST, SPARE, Said

RECOVERY = keys.recovery_key(keys.new_recovery_code())


def code_of(key: Key, name: str = "other") -> key_text.DeviceCode:
    return key_text.DeviceCode(name, key.recipient, key.verify)


def two() -> tuple[Key, Key, Circle]:
    """A circle of a laptop and a desk."""
    laptop, desk = keys.new_key(), keys.new_key()
    circle = circles.found(laptop, "laptop", RECOVERY, made=1)
    return laptop, desk, circles.approve(circle, laptop, code_of(desk, "desk"), made=2)


def meaning(circle: Circle) -> object:
    return circle.devices(), circle.recoveries(), circle.epoch, circle.stale


# --- what devices do --------------------------------------------------------------------------


def test_founder_is_in_and_holds_the_first_epoch() -> None:
    key = keys.new_key()
    circle = circles.found(key, "laptop", RECOVERY, made=1)
    (device,) = circle.devices()
    assert (device.key_id, device.name, device.active) == (key.id, "laptop", True)
    assert circle.epoch.number == 1 and circle.current.recipient == circle.epoch.recipient
    assert not circle.stale
    assert len(circle.name_key) == 32 and len(circle.id) == 32


def test_approved_device_reads_the_circle_with_every_epoch() -> None:
    laptop, desk, circle = two()
    circle = circles.rotate(circle, laptop, made=3)
    seen = circles.decode(circles.encode(circle, laptop), desk)
    assert seen == circle and len(seen.epochs) == 2 and seen.name_key == circle.name_key
    assert circles.decode(circles.encode(circle, desk), RECOVERY) == circle


def test_revoked_device_does_not_open_what_was_written_afterwards() -> None:
    laptop, desk, circle = two()
    before = circle.current
    circle = circles.revoke(circle, laptop, desk.id, made=3)
    with pytest.raises(Locked, match="sealed to the devices of the circle") as caught:
        circles.decode(circles.encode(circle, laptop), desk)
    assert desk.id in caught.value.why and "approve" in caught.value.hint
    assert circle.current != before and circle.epoch.number == 2 and not circle.stale
    with pytest.raises(Locked):
        before.open(keys.seal(b"later", [circle.current.recipient]))


def test_revoked_device_may_not_speak_and_is_told_so() -> None:
    laptop, desk, circle = two()
    circle = circles.revoke(circle, laptop, desk.id, made=3)
    with pytest.raises(NotEntitled, match="was revoked"):
        circles.rotate(circle, desk, made=4)
    with pytest.raises(NotEntitled, match="was revoked"):
        circles.encode(circle, desk)


def test_revoked_stays_revoked() -> None:
    laptop, desk, circle = two()
    circle = circles.revoke(circle, laptop, desk.id, made=3)
    with pytest.raises(Refused, match="stays so"):
        circles.approve(circle, laptop, code_of(desk), made=4)


def test_device_is_not_added_twice_and_does_not_revoke_itself() -> None:
    laptop, desk, circle = two()
    with pytest.raises(Refused, match="already"):
        circles.approve(circle, laptop, code_of(desk), made=3)
    with pytest.raises(Refused, match="itself"):
        circles.revoke(circle, laptop, laptop.id, made=3)
    with pytest.raises(Refused, match="no device"):
        circles.revoke(circle, laptop, "0" * 16, made=3)


def test_two_devices_never_have_one_name() -> None:
    laptop, _, circle = two()
    circle = circles.approve(circle, laptop, code_of(keys.new_key(), "desk"), made=3)
    circle = circles.rename(circle, laptop, laptop.id, "desk", made=4)
    assert sorted(each.name for each in circle.devices()) == ["desk", "desk 2", "desk 3"]


def test_recovery_key_adds_a_device_when_all_others_are_lost() -> None:
    laptop, desk, circle = two()
    blank = keys.new_key()
    found = circles.decode(circles.encode(circle, laptop), RECOVERY)
    found = circles.approve(found, RECOVERY, code_of(blank, "new"), made=5)
    for lost in (laptop, desk):
        found = circles.revoke(found, blank, lost.id, made=6)
    seen = circles.decode(circles.encode(found, RECOVERY), blank)
    assert [each.name for each in seen.devices() if each.active] == ["new"]
    assert seen.epochs[0] == circle.current


def test_replaced_recovery_code_opens_nothing_new_and_may_not_speak() -> None:
    laptop, _, circle = two()
    old, new = RECOVERY, keys.recovery_key(keys.new_recovery_code())
    after = circles.replace_recovery(circle, laptop, new, made=3)
    with pytest.raises(Locked):
        circles.decode(circles.encode(after, laptop), old)
    assert circles.decode(circles.encode(after, laptop), new) == after
    # Whoever found the old paper says something as if it had not been replaced.
    late = circles.approve(circle, old, code_of(keys.new_key(), "thief"), made=2)
    assert meaning(union(after, late)) == meaning(after)


# --- union ------------------------------------------------------------------------------------


def history(chance: random.Random) -> list[Circle]:
    """What each of some devices knows at the end, without having met again."""
    founder = keys.new_key()
    start = circles.found(founder, "d0", RECOVERY, made=0)
    known: dict[str, tuple[Key, Circle]] = {founder.id: (founder, start)}
    for moment in range(1, chance.randint(4, 14)):
        id = chance.choice(list(known))
        key, circle = known[id]
        _, other = known[chance.choice(list(known))]
        known[id] = key, act(chance, key, union(circle, other), known, moment)
    return [circle for _, circle in known.values()]


def act(
    chance: random.Random, key: Key, circle: Circle, known: dict[str, tuple[Key, Circle]], at: int
) -> Circle:
    if not circle.may_speak(key.id):
        return circle
    active = [each.key_id for each in circle.devices() if each.active]
    what = chance.choice("add add revoke rotate rename recovery rescue".split())
    if what == "add":
        new = keys.new_key()
        circle = circles.approve(circle, key, code_of(new, f"d{at}"), made=at)
        known[new.id] = new, circle
    elif what == "revoke" and len(active) > 1:
        target = chance.choice([each for each in active if each != key.id])
        return circles.revoke(circle, key, target, made=at)
    elif what == "rename":
        return circles.rename(circle, key, chance.choice(active), f"n{at}", made=at)
    elif what == "recovery" and chance.random() < 0.3:
        return circles.replace_recovery(circle, key, keys.key_of_seed(bytes([at]) * 16), made=at)
    elif what == "rescue" and circle.may_speak(RECOVERY.id) and len(active) > 1:
        return circles.revoke(circle, RECOVERY, chance.choice(active), made=at)
    return circles.rotate(circle, key, made=at)


@pytest.mark.parametrize("seed", range(15))
def test_union_is_commutative_associative_idempotent_and_blind_to_order(seed: int) -> None:
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
    shuffled = list(whole.said.values())
    chance.shuffle(shuffled)
    again = Circle(shuffled, recoveries=whole._seals.values())
    assert meaning(again) == meaning(whole)


@pytest.mark.parametrize("seed", range(40, 70))
def test_nothing_that_an_ended_signer_said_later_counts(seed: int) -> None:
    parts = history(random.Random(seed))
    whole = parts[0]
    for each in parts:
        whole = union(whole, each)
    counted = whole._counted
    for ending in counted & whole._ends.keys():
        for later in counted - {ending} - whole._past[ending]:
            assert whole.said[later].told.by not in whole._ends[ending]
    if not whole.stale:
        endings = counted & whole._ends.keys()
        assert endings <= whole._past[whole.epoch.hash] | {whole.epoch.hash}


def test_devices_that_a_stolen_one_added_after_its_revocation_are_not_in() -> None:
    laptop, thief, circle = two()
    revoked = circles.revoke(circle, laptop, thief.id, made=3)
    accomplice = keys.new_key()
    forged = circles.approve(circle, thief, code_of(accomplice, "more"), made=4)
    forged = circles.revoke(forged, accomplice, laptop.id, made=5)
    both = union(revoked, forged)
    assert [each.name for each in both.devices() if each.active] == ["laptop"]
    assert meaning(both) == meaning(revoked)


def test_of_two_that_revoke_each_other_the_older_stays_and_recovery_outranks_both() -> None:
    laptop, desk, circle = two()
    one = circles.revoke(circle, laptop, desk.id, made=3)
    other = circles.revoke(circle, desk, laptop.id, made=3)
    both = union(one, other)
    assert [each.name for each in both.devices() if each.active] == ["laptop"]
    rescue = circles.revoke(circle, RECOVERY, laptop.id, made=9)
    assert [e.name for e in union(both, rescue).devices() if e.active] == ["desk"]


def test_two_revocations_at_once_leave_no_clean_epoch_until_it_is_refreshed() -> None:
    laptop, desk, circle = two()
    third, fourth = keys.new_key(), keys.new_key()
    circle = circles.approve(circle, laptop, code_of(third, "c"), made=3)
    circle = circles.approve(circle, laptop, code_of(fourth, "d"), made=4)
    one = circles.revoke(circle, laptop, third.id, made=5)
    other = circles.revoke(circle, desk, fourth.id, made=5)
    both = union(one, other)
    assert both.stale
    fresh = circles.refreshed(both, laptop, made=6)
    assert not fresh.stale and fresh.epoch.number == 3
    assert circles.refreshed(fresh, laptop, made=7) is fresh


def test_circles_of_two_persons_do_not_merge() -> None:
    with pytest.raises(Swapped, match="two persons"):
        union(two()[2], two()[2])


def test_fewer_statements_than_remembered_is_a_rollback() -> None:
    laptop, desk, circle = two()
    old = circles.encode(circle, laptop)
    after = circles.revoke(circle, laptop, desk.id, made=3)
    assert circles.decode(old, laptop, remembered=circle.hashes) == circle
    with pytest.raises(RolledBack, match="older state"):
        circles.decode(old, laptop, remembered=after.hashes)


# --- forgery ----------------------------------------------------------------------------------


def said_by(key: Key, among: Circle, **fields: object) -> Said[Statement]:
    seen = tuple(among.said)
    given = {"kind": "rotated", "by": key.id, "made": 9, "circle": among.id, "seen": seen}
    return circles.LANGUAGE.sign(Statement(**{**given, **fields}), key)  # type: ignore[arg-type]


def test_forged_unsigned_and_foreign_statements_are_refused() -> None:
    laptop, desk, circle = two()
    good, stranger = list(circle.said.values()), keys.new_key()
    unsigned = said_by(laptop, circle)
    unsigned.signature = bytes(64)
    with pytest.raises(Tampered, match="signature"):
        Circle([*good, unsigned])
    with pytest.raises(Tampered, match="signature"):
        Circle([*good, said_by(stranger, circle, by=laptop.id)])
    with pytest.raises(NotEntitled, match="outside"):
        Circle([*good, said_by(stranger, circle)])
    publics = {"recipient": stranger.recipient, "verify": stranger.verify.hex()}
    with pytest.raises(NotEntitled, match="outside"):
        Circle([*good, said_by(stranger, circle, kind="added", name="me", **publics)])
    with pytest.raises(Tampered, match="another circle"):
        Circle([*good, said_by(laptop, circle, circle="0" * 32)])
    with pytest.raises(Tampered, match="incomplete"):
        Circle([*good, said_by(laptop, circle, seen=("0" * 64,))])
    with pytest.raises(Tampered, match="incomplete"):
        Circle(good[1:])
    with pytest.raises(Tampered, match="one founding"):
        Circle([*good, *two()[2].said.values()])
    with pytest.raises(NotEntitled, match="outside"):
        # Before it was let in, the desk had no voice.
        Circle([*good, said_by(desk, circle, seen=(good[0].hash,))])


def test_statement_of_an_unknown_kind_is_kept_and_changes_nothing() -> None:
    laptop, _, circle = two()
    said, seals = [*circle.said.values()], circle._seals.values()
    newer = Circle([*said, said_by(laptop, circle, kind="blessed")], recoveries=seals)
    assert meaning(newer) == meaning(circle) and len(newer.said) == 3
    assert union(newer, circle) == union(circle, newer)


def test_every_bit_flip_of_a_circle_object_is_noticed() -> None:
    laptop, _, circle = two()
    data = circles.encode(circle, laptop)
    for at in range(0, len(data), 11):
        spoiled = bytearray(data)
        spoiled[at] ^= 1 << at % 8
        with pytest.raises((Locked, Tampered, Outdated, Downgraded)):
            circles.decode(bytes(spoiled), laptop)


def test_object_that_a_revoked_device_made_later_is_refused() -> None:
    laptop, desk, circle = two()
    after = circles.revoke(circle, laptop, desk.id, made=3)
    forged = circles._packed(after, desk, after.recipients())
    with pytest.raises(NotEntitled, match="not in it"):
        circles.decode(forged, laptop)


def test_object_with_invented_secrets_brings_none_of_them() -> None:
    laptop, desk, circle = two()
    invented = Circle(circle.said.values(), [], circle.name_key)
    invented._secrets = {"x": keys.Secret.new()}
    invented.name_key = b"n" * 32
    seen = circles.decode(circles._packed(invented, laptop, [desk.recipient]), desk)
    assert not seen.epochs and seen.name_key == b""
    with pytest.raises(Locked, match="epoch 1"):
        _ = seen.current


def test_circle_of_others_brings_statements_and_no_secret() -> None:
    _, _, circle = two()
    data = circles.public(circle)
    assert b"SECRET" not in data and circle.name_key.hex().encode() not in data
    seen = circles.read_public(data)
    assert seen.devices() == circle.devices() and seen.epoch == circle.epoch
    assert seen.verify_key(RECOVERY.id) == RECOVERY.verify
    assert [each.recipient for each in seen.recoveries()] == [""]
    assert RECOVERY.recipient.encode() not in data
    assert union(seen, circle) == union(circle, seen) == circle


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"said":[["{}",""]]}', b"\xff"])
def test_what_is_no_circle_is_refused(data: bytes) -> None:
    with pytest.raises(Tampered):
        circles.read_public(data)


def test_kept_circle_comes_back_even_to_a_device_that_was_put_out(tmp_path: Path) -> None:
    laptop, desk, circle = two()
    folder = str(tmp_path / "keys")
    assert circles.load_circle(folder, desk) is None and circles.kept_id(folder) == ""
    circle = circles.revoke(circle, laptop, desk.id, made=3)
    circles.keep(folder, circle, desk)
    assert circles.load_circle(folder, desk) == circle
    assert circles.kept_id(folder) == circle.id
    assert (tmp_path / "keys" / circles.FILE).stat().st_mode & 0o777 == 0o600


def test_statement_is_written_without_what_its_kind_does_not_have() -> None:
    laptop, _, circle = two()
    raw = circles.rotate(circle, laptop, made=3).said
    newest = max(raw.values(), key=lambda each: each.told.made)
    assert set(msgspec.json.decode(newest.raw)) == {
        *("kind", "by", "made", "circle", "seen", "epoch", "epoch_key")
    }


# --- recovery keys of others ------------------------------------------------------------------


def test_nobody_founds_a_circle_around_the_recovery_key_of_someone_else() -> None:
    laptop, _, circle = two()
    theirs, evil = next(iter(circle.said.values())), keys.new_key()
    named = {"recovery_check": theirs.told.recovery_check, "recovery_verify": RECOVERY.verify.hex()}
    fields = {"recipient": evil.recipient, "verify": evil.verify.hex(), "by": evil.id, **named}
    founded = structs.replace(theirs.told, **fields)
    lie = circles.LANGUAGE.sign(founded, evil)
    stolen = Said(lie.raw, lie.signature + theirs.signature[64:], founded)
    doubled = circles.LANGUAGE.sign(founded, evil, (circles._RECOVERY_TAG, evil))
    for said in (lie, stolen, doubled):
        with pytest.raises(Tampered, match="did not agree"):
            Circle([said])
    named["kind"] = "recovery"
    with pytest.raises(Tampered, match="did not agree"):
        Circle([*circle.said.values(), said_by(laptop, circle, **named)])


# --- limits -----------------------------------------------------------------------------------


def chained(count: int) -> tuple[Key, list[Said[Statement]]]:
    """So many statements, each of which has seen the one before."""
    laptop, _, circle = two()
    said = list(circle.said.values())
    while len(said) < count:
        told = Statement("renamed", laptop.id, 3, circle.id, (said[-1].hash,), target=laptop.id)
        said.append(circles.LANGUAGE.sign(told, laptop))
    return laptop, said


def test_too_many_statements_are_refused_before_any_signature_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, said = chained(MOST + 1)
    monkeypatch.setattr(circles.LANGUAGE, "holds", None)
    monkeypatch.setattr(circles.LANGUAGE, "ordered", None)
    data = msgspec.json.encode({"said": speech.texts(said)})
    with pytest.raises(Tampered, match="too many statements in a circle") as caught:
        circles.read_public(data)
    assert "501" in caught.value.why and "500" in caught.value.why
    with pytest.raises(Tampered, match="too many"):
        Circle(said)
    long = msgspec.json.encode({"said": [("x" * (1 << 17), "")]})
    with pytest.raises(Tampered, match="too long"):
        circles.read_public(long)


def test_the_last_places_in_a_circle_are_left_for_putting_someone_out() -> None:
    laptop, said = chained(MOST - SPARE)
    circle = Circle(said)
    with pytest.raises(Refused, match="no room"):
        circles.rotate(circle, laptop, made=4)
    desk = next(each for each in circle.devices() if each.key_id != laptop.id)
    assert not circles.revoke(circle, laptop, desk.key_id, made=4).is_active(desk.key_id)


def hostile(count: int) -> list[Said[Statement]]:
    """Devices that all put out the next one, none of which knows of the others."""
    laptop, _, circle = two()
    (first, *_) = circle.said.values()
    every = [keys.new_key() for _ in range(count)]
    added = [
        said_by(laptop, circle, kind="added", seen=(first.hash,), **_public(each)) for each in every
    ]
    out = [
        said_by(key, circle, kind="revoked", seen=(added[at].hash,), target=every[at - 1].id)
        for at, key in enumerate(every)
    ]
    return [first, *added, *out]


def _public(key: Key) -> dict[str, str]:
    return {"name": "d", "recipient": key.recipient, "verify": key.verify.hex()}


def test_what_a_full_circle_means_is_found_in_a_moment() -> None:
    said = hostile((MOST - 1) // 2)
    began = time.process_time()
    assert len(Circle(said).devices()) == (MOST - 1) // 2 + 1
    assert time.process_time() - began < 60  # half a second here, most of it for signatures
