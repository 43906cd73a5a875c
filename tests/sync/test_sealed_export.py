"""Sealed export files: who can open them, and which errors the others get."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import forestay
from forestay.api.forestay import Forestay
from forestay.errors import InvalidInput, Locked, Outdated, Tampered
from forestay.sync import sealed_export
from forestay.sync.crypto import keys
from forestay.sync.keychain import Asking
from tests.sync.people import person_of
from tests.sync.quick import seal_quickly

Open = Callable[[str], Forestay]


@pytest.fixture
def homes(tmp_path: Path) -> Iterator[Open]:
    made: list[Forestay] = []

    def make(name: str) -> Forestay:
        made.append(forestay.open(str(tmp_path / name), cwd=str(tmp_path), trust_env=False))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def ann(homes: Open) -> Forestay:
    stay = homes("ann")
    stay.start("Add login", id="login").note("canary")
    return stay


def imported(stay: Forestay, path: str) -> list[str]:
    return [one.session for one in stay.backups.import_(path).sessions if one.new]


def test_file_for_a_person_opens_for_that_person_alone(
    ann: Forestay, homes: Open, tmp_path: Path
) -> None:
    bob, carol = homes("bob"), homes("carol")
    bob.devices.keys.init()
    person = person_of(bob)
    path = str(tmp_path / "login.fspack")
    ann.session("login").export(path, to=[person])
    data = Path(path).read_bytes()
    group = str(bob.devices.keys.show().circle_fingerprint)
    first = f"FORESTAY EXPORT 2 circle:{group.replace('-', '')}\nage-"
    assert data.startswith(first.encode()) and b"canary" not in data
    bob.devices.keys.rotate()  # what was sealed to an earlier epoch still opens
    assert imported(bob, path) == ["login"]
    with pytest.raises(Locked, match="encrypted to keys that this device does not have") as caught:
        carol.backups.import_(path)
    assert f"it is encrypted to the device group {group}; this device has no key" in str(
        caught.value
    )
    assert "forestay device key init" in caught.value.hint
    carol.devices.keys.init()
    with pytest.raises(Locked, match=f"it is encrypted to the device group {group}") as caught:
        carol.backups.import_(path)
    assert str(carol.devices.keys.show().person) in caught.value.hint
    assert carol.list(all=True) == []


def test_file_opens_for_a_device_and_for_an_age_recipient(
    ann: Forestay, homes: Open, tmp_path: Path
) -> None:
    desk = homes("desk")
    asking = desk.devices.add()
    assert isinstance(asking, Asking)
    other = keys.Secret.new()
    path = str(tmp_path / "login.fspack")
    ann.session("login").export(path, to=[asking.code, other.recipient])
    assert imported(desk, path) == ["login"]
    first, _, age = Path(path).read_bytes().partition(b"\n")
    assert other.open(age).startswith(b"FORESTAY PACK 1\n")
    assert f"device:{asking.key_id} age:" in first.decode()
    with pytest.raises(Locked, match=f"the device {asking.key_id}, the age key "):
        homes("bob").backups.import_(path)


def test_only_some_of_very_many_recipients_are_shown(homes: Open, tmp_path: Path) -> None:
    path = tmp_path / "long.fspack"
    path.write_bytes(b"FORESTAY EXPORT 2 " + b"device:1234 " * 20_000 + b"\nage-")
    with pytest.raises(Locked, match="it is encrypted to the device 1234") as caught:
        homes("carol").backups.import_(str(path))
    assert len(str(caught.value)) < 1000


def test_file_without_named_recipients_opens(ann: Forestay, homes: Open, tmp_path: Path) -> None:
    bob, path = homes("bob"), tmp_path / "login.fspack"
    bob.devices.keys.init()
    ann.session("login").export(str(path), to=[person_of(bob)])
    _, _, age = path.read_bytes().partition(b"\n")
    path.write_bytes(sealed_export.MAGIC + age)
    with pytest.raises(Locked, match="this device has no key"):
        homes("carol").backups.import_(str(path))
    assert imported(bob, str(path)) == ["login"]


def test_file_in_a_passphrase_opens_only_with_it(
    ann: Forestay, homes: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyrage

    monkeypatch.setattr(pyrage.passphrase, "encrypt", seal_quickly)
    path, bob = str(tmp_path / "login.fspack"), homes("bob")
    ann.session("login").export(path, passphrase="open sesame")
    with pytest.raises(Locked, match="needs its passphrase"):
        bob.backups.import_(path)
    bob.context.ask_passphrase = lambda: "wrong"
    with pytest.raises(Locked, match=r"does not decrypt .*login\.fspack") as caught:
        bob.backups.import_(path)
    assert caught.value.hint == "try again"  # a recovery code opens no such file
    bob.context.ask_passphrase = lambda: "open sesame"
    assert imported(bob, path) == ["login"]


def test_damaged_or_newer_files_are_refused(ann: Forestay, homes: Open, tmp_path: Path) -> None:
    bob, path = homes("bob"), tmp_path / "login.fspack"
    bob.devices.keys.init()
    ann.session("login").export(str(path), to=[person_of(bob)])
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(Tampered, match=r"login\.fspack is damaged") as caught:
        bob.backups.import_(str(path))
    assert "export it again" in caught.value.hint
    path.write_bytes(data.replace(b"EXPORT 2", b"EXPORT 3", 1))
    with pytest.raises(Outdated):
        bob.backups.import_(str(path))
    path.write_bytes(data.replace(b"EXPORT 2", b"EXPRT 22", 1))
    with pytest.raises(InvalidInput):
        bob.backups.import_(str(path))


def test_damaged_file_is_not_reported_as_a_wrong_passphrase(
    ann: Forestay, homes: Open, tmp_path: Path
) -> None:
    bob, path = homes("bob"), tmp_path / "login.fspack"
    ann.session("login").export(str(path), passphrase="open sesame")
    path.write_bytes(path.read_bytes()[:-1])
    bob.context.ask_passphrase = lambda: "open sesame"
    with pytest.raises(Tampered, match="is damaged"):
        bob.backups.import_(str(path))


@pytest.mark.parametrize("key", ["", "fsp1", "fsd1x", "age1x", "bob@example.org"])
def test_invalid_key_seals_nothing(ann: Forestay, tmp_path: Path, key: str) -> None:
    with pytest.raises(InvalidInput):
        ann.session("login").export(str(tmp_path / "x"), to=[key])
    with pytest.raises(InvalidInput, match="not to both"):
        ann.session("login").export(str(tmp_path / "x"), to=["age1"], passphrase="p")
    assert not (tmp_path / "x").exists()
