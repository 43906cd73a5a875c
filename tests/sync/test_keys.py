"""The device key, recovery codes and sealing: what opens, what does not, and the errors."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forestay.errors import ForestayError, InvalidInput, Locked, Outdated, Refused, Tampered
from forestay.sync.crypto import key_text, keys

SEEDS = st.binary(min_size=16, max_size=16)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "keys")


# --- codes ------------------------------------------------------------------------------------


@given(SEEDS)
def test_recovery_code_may_be_typed_with_other_case_and_similar_characters(seed: bytes) -> None:
    shown = key_text.spaced(key_text.encode(seed))
    careless = shown.lower().replace(" ", "-", 3).replace("0", "O").replace("1", "l")
    assert key_text.seed_of(shown) == key_text.seed_of(careless) == seed
    assert len(shown.split()) == 8


@given(SEEDS, st.integers(0, 31), st.sampled_from("0123456789abcdefghjkmnpqrstvwxyz"))
@settings(max_examples=200)
def test_mistyped_character_of_a_code_is_noticed(seed: bytes, at: int, instead: str) -> None:
    right = key_text.encode(seed)
    wrong = right[:at] + instead + right[at + 1 :]
    if wrong != right:
        with pytest.raises(InvalidInput, match="mistyped"):
            key_text.seed_of(wrong)


@pytest.mark.parametrize("typed", ["", "ABCD", "u" * 32, "é" * 32, "0" * 32, "fsd1", "x" * 10_000])
def test_invalid_recovery_code_is_refused(typed: str) -> None:
    with pytest.raises(InvalidInput):
        keys.recovery_key(typed)


def test_keys_of_a_recovery_code_never_change() -> None:
    key = keys.recovery_key("000G 40R4 0M30 E209 185G R38E 1XHF VKRB")
    assert key.id == "acad2cb0b3abed3e"
    assert key.recipient == "age1f79dfxsgyhzy2vwj4wk4vfd8am3r3h4t2d8dtlg3pcypvp5ahe7qeplral"


def test_recovery_codes_differ_and_open_objects_sealed_to_them() -> None:
    codes = {keys.new_recovery_code() for _ in range(50)}
    assert len(codes) == 50
    one = codes.pop()
    sealed = keys.seal(b"kept", [keys.recovery_key(one).recipient])
    assert keys.recovery_key(one).open(sealed) == b"kept"


@given(st.text(min_size=1, max_size=40))
@settings(max_examples=20)
def test_device_code_contains_the_keys(name: str) -> None:
    key = keys.key_of_seed(b"0" * 16)
    try:
        text = key_text.device_code(name, key.recipient, key.verify)
    except InvalidInput:
        return  # no name for a device
    assert key_text.read_device_code(f" {text}\n")[1:] == (key.recipient, key.verify)


def test_person_key_contains_group_and_recipient_and_its_fingerprint_covers_both() -> None:
    one, two = (keys.key_of_seed(bytes([n]) * 16).recipient for n in (1, 2))
    person = key_text.PersonKey("ab" * 16, one)
    assert key_text.read_person_key(str(person).upper().replace("FSP1", "fsp1")) == person
    others = {person, key_text.PersonKey("ac" * 16, one), key_text.PersonKey("ab" * 16, two)}
    assert len({each.fingerprint for each in others}) == 3


@pytest.mark.parametrize("text", ["fsp1", "fsp1abc", "fsd1abcd", "age1abc", ""])
def test_invalid_person_key_or_device_code_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        key_text.read_person_key(text)
    with pytest.raises(InvalidInput):
        key_text.read_device_code(text)


# --- sealing and signing ----------------------------------------------------------------------


def test_sealed_object_opens_only_for_its_recipients() -> None:
    one, two, other = keys.new_key(), keys.new_key(), keys.new_key()
    sealed = keys.seal(b"canary", [one.recipient, two.recipient])
    assert one.open(sealed) == two.open(sealed) == b"canary"
    assert b"canary" not in sealed
    with pytest.raises(Locked):
        other.open(sealed)


def test_every_bit_flip_of_a_sealed_object_is_noticed() -> None:
    key = keys.new_key()
    sealed = keys.seal(b"x", [key.recipient])
    for at in range(len(sealed)):
        spoiled = bytearray(sealed)
        spoiled[at] ^= 1 << at % 8
        with pytest.raises((Locked, Tampered)):
            key.open(bytes(spoiled))


def test_signature_holds_for_these_bytes_and_this_key_only() -> None:
    one, other = keys.new_key(), keys.new_key()
    signature = one.sign(b"said")
    assert keys.verify(one.verify, signature, b"said")
    assert not keys.verify(one.verify, signature, b"sai")
    assert not keys.verify(other.verify, signature, b"said")
    assert not keys.verify(one.verify, bytes(64), b"said")
    assert not keys.verify(b"short", signature[:5], b"said")


def test_no_repr_shows_a_secret() -> None:
    secret, key = keys.Secret.new(), keys.new_key()
    assert secret.text not in repr(secret)
    assert "SECRET" not in repr(key) + repr(secret)


def test_passphrase_is_slow_to_try() -> None:
    sealed = keys.seal_with_passphrase(b"x", "pass")
    work = int(sealed.split(b"\n")[1].split()[-1])
    assert work >= 15  # 2 ** 15 rounds of scrypt over 32 MB


# --- the file ---------------------------------------------------------------------------------


def test_key_is_created_once_private_and_loaded_again(folder: str) -> None:
    made = keys.create(folder, made=5)
    path = keys.path_of(folder)
    assert os.stat(folder).st_mode & 0o777 == 0o700
    assert os.stat(path).st_mode & 0o777 == 0o600
    keys._opened.clear()
    assert keys.load(folder).id == made.id == keys.about(folder).id
    with pytest.raises(Refused, match="already"):
        keys.create(folder)
    assert keys.load(folder).open(keys.seal(b"x", [made.recipient])) == b"x"


def test_error_without_a_key_has_the_commands_to_make_one(folder: str) -> None:
    with pytest.raises(Locked) as caught:
        keys.load(folder)
    for way in ("device key init", "device add", "device key recover"):
        assert f"forestay {way}" in caught.value.hint


@pytest.mark.usefixtures("quick_passphrase")
def test_passphrase_wraps_the_key_and_is_asked_for_once(folder: str) -> None:
    made = keys.create(folder, passphrase="correct horse")
    assert b"SECRET" not in Path(keys.path_of(folder)).read_bytes()
    assert keys.load(folder, ask=None).id == made.id  # this process made it
    keys._opened.clear()
    with pytest.raises(Locked, match="needs its passphrase"):
        keys.load(folder)
    with pytest.raises(Locked, match=f"does not decrypt the key {made.id}"):
        keys.load(folder, ask=lambda: "wrong")
    answers = iter(["correct horse"])
    for _ in range(3):
        assert keys.load(folder, ask=lambda: next(answers)).id == made.id


def test_copied_key_file_that_others_can_read_is_refused(folder: str) -> None:
    keys.create(folder)
    os.chmod(keys.path_of(folder), 0o644)
    with pytest.raises(Refused, match="other users of this computer can read") as caught:
        keys.load(folder)
    assert "chmod 600" in caught.value.hint


@pytest.mark.parametrize(
    "data, error",
    [
        (b"", InvalidInput),
        (b"FORESTAY KEY 2\n{}\n", Outdated),
        (b"FORESTAY KEY 1\nnot json\n", InvalidInput),
        (b"-----BEGIN OPENSSH PRIVATE KEY-----", InvalidInput),
    ],
)
def test_invalid_key_file_is_refused(folder: str, data: bytes, error: type[ForestayError]) -> None:
    keys.create(folder)
    Path(keys.path_of(folder)).write_bytes(data)
    with pytest.raises(error):
        keys.load(folder)


def test_damaged_key_file_is_reported_without_a_secret(folder: str) -> None:
    keys.create(folder)
    path = Path(keys.path_of(folder))
    right = path.read_bytes()
    start = right.index(b'{"age"')
    for at in range(start, right.index(b',"circle"'), 7):
        path.write_bytes(right[:at] + b"#" + right[at + 1 :])
        keys._opened.clear()
        with pytest.raises(InvalidInput, match="damaged") as caught:
            keys.load(folder)
        assert "SECRET" not in str(caught.value) and caught.value.__cause__ is None


@pytest.mark.usefixtures("quick_passphrase")
def test_exported_key_is_wrapped_in_a_passphrase_with_the_group() -> None:
    key = keys.new_key()
    data = keys.exported(key, "pass", circle=b"circle")
    assert b"SECRET" not in data
    found, group = keys.imported(data, "file", lambda: "pass")
    assert (found.id, group) == (key.id, b"circle")


@pytest.fixture
def system_keyring(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], str]:
    kept: dict[tuple[str, str], str] = {}
    fake = types.ModuleType("keyring")
    fake.set_password = lambda service, name, value: kept.update({(service, name): value})  # type: ignore[attr-defined]
    fake.get_password = lambda service, name: kept.get((service, name))  # type: ignore[attr-defined]
    fake.delete_password = lambda service, name: kept.pop((service, name))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keyring", fake)
    return kept


def test_keyring_has_the_secrets_instead_of_the_file(
    folder: str, system_keyring: dict[tuple[str, str], str]
) -> None:
    made = keys.create(folder, keyring=True)
    assert b"SECRET" not in Path(keys.path_of(folder)).read_bytes()
    keys._opened.clear()
    assert keys.load(folder).id == made.id
    keys.rewrap(folder, made)
    assert not system_keyring and b"SECRET" in Path(keys.path_of(folder)).read_bytes()
    keys.rewrap(folder, made, keyring=True)
    system_keyring.clear()
    keys._opened.clear()
    with pytest.raises(Locked, match=f"does not have the key {made.id}"):
        keys.load(folder)


@pytest.mark.parametrize("name, call", [("pyrage", keys.Secret.new), ("keyring", keys._keyring)])
def test_missing_package_is_reported_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, name: str, call: object
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InvalidInput, match=f"needs the package {name}") as caught:
        call()  # type: ignore[operator]
    assert "pip install" in caught.value.hint
