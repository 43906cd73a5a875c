"""A device key in the system's keyring: the real package, with a backend that stores a file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from forestay.api.forestay import Forestay
from forestay.errors import Locked
from forestay.sync.crypto import keys
from tests.sync.people import World, notes, synced

_WHY = "a development package: make venv"
keyring = pytest.importorskip("keyring", reason=_WHY)
fail = pytest.importorskip("keyring.backends.fail", reason=_WHY)
null = pytest.importorskip("keyring.backends.null", reason=_WHY)
alt = pytest.importorskip("keyrings.alt.file", reason=_WHY)

BACKEND = "keyrings.alt.file.PlaintextKeyring"


class Ring:
    """The system's keyring of the user of this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.backend = folder, alt.PlaintextKeyring()
        self.open()

    def open(self) -> None:
        keyring.set_keyring(self.backend)
        keys._opened.clear()  # as another process has it

    def replace(self, backend: Any) -> None:
        keyring.set_keyring(backend)
        keys._opened.clear()

    @property
    def text(self) -> str:
        return "".join(path.read_text() for path in self.folder.rglob("*.cfg"))


@pytest.fixture
def ring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    before = keyring.get_keyring()
    yield Ring(tmp_path / "data")
    keyring.set_keyring(before)
    keys._opened.clear()


class Closed(keyring.backend.KeyringBackend):  # type: ignore[misc, name-defined]
    """A keyring whose user does not unlock it."""

    priority = 1

    def _refuse(self, *_: str) -> str:
        raise keyring.errors.KeyringLocked("not unlocked")

    get_password = set_password = delete_password = _refuse


UNUSABLE = [fail.Keyring, Closed]


def test_a_key_in_the_keyring_opens_what_it_sealed_after_a_restart(
    world: World, ring: Ring
) -> None:
    ann = world.home("ann")
    ann.devices.keys.init(keyring=True)
    path = Path(keys.path_of(str(world.folder / "ann" / "keys")))
    assert b"SECRET" not in path.read_bytes() and "forestay" in ring.text
    assert ann.devices.keys.show().kept == "keyring"
    ann.start("Add login", id="login").note("precious")
    assert synced(ann).up == 2
    ring.open()
    desk = world.device("desk", by=ann)
    synced(desk)
    assert notes(desk, "login") == ["precious"]


def test_another_process_reads_the_key_from_the_keyring(world: World, ring: Ring) -> None:
    ann = world.home("ann")
    ann.devices.keys.init(keyring=True)
    ann.start("Add login", id="login").note("precious")
    code = "from forestay.cli.main import entry; entry()"
    program = [sys.executable, "-c", code, "--home", ann.context.settings.home, "sync"]
    env = {**os.environ, "PYTHON_KEYRING_BACKEND": BACKEND}
    done = subprocess.run(program, env=env, capture_output=True, text=True, timeout=60, check=True)
    assert "2 events pushed" in done.stdout


@pytest.mark.parametrize("unusable", UNUSABLE)
def test_keyring_that_does_not_answer_leaves_no_partial_key(
    world: World, ring: Ring, unusable: Any
) -> None:
    ann = world.home("ann")
    ring.replace(unusable())
    with pytest.raises(Locked, match="does not answer") as caught:
        ann.devices.keys.init(keyring=True)
    assert "without --keyring" in caught.value.hint
    assert not ann.devices.has_keys() and not keys.exists(str(world.folder / "ann" / "keys"))
    ann.devices.keys.init()
    assert ann.devices.keys.show().kept == "file"


def test_keyring_that_stores_nothing_is_refused(world: World, ring: Ring) -> None:
    """A keyring that is switched off answers and stores nothing."""
    ann = world.person("ann")
    ring.replace(null.Keyring())
    with pytest.raises(Locked, match="does not store"):
        ann.devices.keys.init(keyring=True)
    assert ann.devices.keys.show().kept == "file"
    keys._opened.clear()
    assert _is_whole(ann)


@pytest.mark.parametrize("unusable", UNUSABLE)
def test_locked_keyring_is_reported_and_events_wait(
    world: World, ring: Ring, unusable: Any
) -> None:
    ann = world.home("ann")
    ann.devices.keys.init(keyring=True)
    ann.start("Add login", id="login")
    synced(ann)
    ring.replace(unusable())
    ann.session("login").note("while it was locked")
    with pytest.raises(Locked, match="does not answer") as caught:
        synced(ann)
    assert "unlock" in caught.value.hint and "key recover" in caught.value.hint
    assert ann.remotes.unpushed() == 1
    ring.open()
    assert synced(ann).up == 1 and ann.remotes.unpushed() == 0


def test_a_key_moves_from_its_file_into_the_keyring_and_out_again(
    world: World, ring: Ring, quick_passphrase: None
) -> None:
    ann = world.person("ann")
    ann.context.ask_passphrase = lambda: "words"
    for kept in ("keyring", "passphrase", "keyring"):
        given: Any = {"keyring": True} if kept == "keyring" else {"passphrase": "words"}
        ann.devices.keys.init(**given)
        there = keyring.get_password("forestay", str(ann.devices.keys.show().id)) or ""
        assert (ann.devices.keys.show().kept, "SECRET" in there) == (kept, kept == "keyring")
        ring.open()
        assert _is_whole(ann)


def _is_whole(stay: Forestay) -> bool:
    if not stay.context.store.catalogue():
        stay.start("Add login", id="login")
    stay.session("login").note("x")
    return synced(stay).problems == [] and stay.remotes.unpushed() == 0
