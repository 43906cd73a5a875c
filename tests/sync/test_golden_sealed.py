"""Sealed objects open forever: the stored samples, and the bytes inside them.

What age writes differs each time, so the stored files are only read; the content is made with
fixed keys here, and its hash is pinned. `python -m tests.sync.test_golden_sealed` writes the files
again, which is right only when a new version of the format is added to the old one.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from forestay.sync.crypto import device_group, envelope, key_ring, key_text, keys, sealed_pack
from forestay.sync.crypto.sealed_pack import Claim

FOLDER = Path(__file__).parent.parent / "golden" / "teleport"
KEY = keys.key_of_seed(b"golden device 01")
RECOVERY = keys.key_of_seed(b"golden recovery1")
PACK = b"FORESTAY PACK 1\nas it was in version 1"
HASH = "0123456789abcdef" * 4


def claim(group_id: str) -> Claim:
    return Claim(
        session="fix-login",
        device="laptop1",
        first=1,
        last=3,
        before="",
        after=HASH,
        epoch=2,
        circle=group_id,
        signer=KEY.id,
        made=1_700_000_000_000,
        heads={"laptop1": (3, HASH)},
        name="ann's laptop",
    )


def test_stored_group_ring_and_pack_open() -> None:
    group = device_group.decode((FOLDER / "circle").read_bytes(), KEY)
    assert device_group.decode((FOLDER / "circle").read_bytes(), RECOVERY) == group
    assert [each.name for each in group.devices()] == ["ann's laptop", "desk"]
    ring = key_ring.judged(key_ring.opened((FOLDER / "ring").read_bytes(), group), group)
    assert (ring.session, ring.epoch, len(ring._secrets)) == ("fix-login", 2, 2)
    assert [(each.email, each.mode) for each in ring.members] == [("bob@example.org", "read")]
    data = (FOLDER / "pack").read_bytes()
    reported, pack = sealed_pack.open_pack(data, ring, lambda _, signer: group.verify_key(signer))
    assert (reported, pack) == (claim(group.id), PACK)
    who = key_ring.decode_participant((FOLDER / "who").read_bytes(), ring)
    assert who.id == group.id


def test_stored_key_file_opens() -> None:
    data = (FOLDER / "device.key").read_bytes()
    assert keys.imported(data, "device.key", None)[0].id == KEY.id


def test_bytes_inside_a_sealed_pack_have_not_changed() -> None:
    secret = keys.Secret(key_text.secret_of(bytes(range(32))))
    data = sealed_pack.seal_pack(claim("c" * 32), PACK, KEY, secret)
    line, _, age = data.partition(b"\n")
    assert line == b"FORESTAY SEALED 1 eedd883da0a94515"
    assert (
        sha256(secret.open(age)).hexdigest()
        == "994a122929e49e808814e043a17b892a6c04cd76078004f1f65a0f3d926b360f"
    )


def test_bytes_and_signature_of_a_statement_have_not_changed() -> None:
    statement = device_group.Statement("rotated", KEY.id, 5, circle="c" * 32, seen=(HASH,), epoch=2)
    text = device_group.STATEMENTS.sign(statement, KEY)
    assert (
        sha256(text.raw + text.signature).hexdigest()
        == "803e72d2f33cc576965b283ba04ca21651e1e9f0f59e74a4b977c24448d298c7"
    )


def test_content_of_an_object_is_length_claim_signature_and_body() -> None:
    inside = envelope.parted("SEALED", b"\0\0\0\x02{}" + b"s" * 64 + b"body")
    assert inside == envelope.Inside("SEALED", b"{}", b"s" * 64, b"body")


def make() -> None:
    desk, bob = keys.new_key(), keys.key_of_seed(b"golden person 02")
    group = device_group.found(KEY, "ann's laptop", RECOVERY, made=1_700_000_000_000)
    reported = key_text.DeviceCode("desk", desk.recipient, desk.verify)
    group = device_group.approve(group, KEY, reported, made=1_700_000_001_000)
    ring = key_ring.new_ring(group, KEY, "fix-login", made=1_700_000_002_000)
    person = key_text.PersonKey("b" * 32, bob.recipient)
    change = key_ring.share(ring, person, mode="read", made=7, email="bob@example.org")
    ring = key_ring.rotated(ring, KEY, made=1_700_000_003_000, packs=["a" * 32], change=change)
    head = keys._head(KEY, keys.IN_FILE, 1_700_000_000_000)
    files = {
        "circle": device_group.encode(group, KEY),
        "ring": key_ring.encode(ring, KEY),
        "pack": sealed_pack.seal_pack(claim(group.id), PACK, KEY, ring.current),
        "who": key_ring.encode_participant(group, KEY, ring),
        "device.key": head + keys._secrets(KEY),
    }
    for name, data in files.items():
        (FOLDER / name).write_bytes(data)


if __name__ == "__main__":
    make()
