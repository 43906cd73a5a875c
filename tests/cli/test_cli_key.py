"""Keys and devices on the command line: every way to lose one, and how to recover."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import forestay
from forestay.sync.crypto import keys
from tests.cli.support import Answer, Cli

PASSPHRASE = "correct horse battery"


class Devices:
    """Several homes that share one remote: `on("desk", "device", "key", "show")`."""

    def __init__(self, cli: Cli, folder: Path) -> None:
        self.cli, self.folder = cli, folder
        self.remote = folder / "remote"

    def __call__(self, name: str, *argv: str, source: str = "", terminal: bool = False) -> Answer:
        os.environ["FORESTAY_HOME"] = str(self.folder / name)
        os.environ["FORESTAY_DEVICE_NAME"] = name
        keys._opened.clear()
        return self.cli(*argv, source=source, terminal=terminal)

    def ok(self, name: str, *argv: str, source: str = "", terminal: bool = False) -> Answer:
        answer = self(name, *argv, source=source, terminal=terminal)
        assert answer.code == 0, answer
        return answer

    def json(self, name: str, *argv: str) -> dict[str, object]:
        return self.ok(name, "--json", *argv).json

    def connect(self, name: str) -> None:
        """Add the remote to a device."""
        with forestay.open(str(self.folder / name)) as stay:
            stay.context.store.machine.remotes.add("usb", f"folder:{self.remote}", "", 1)

    def begin(self, name: str) -> str:
        """Create the first device; return the recovery code."""
        code = str(self.json(name, "device", "key", "init")["recovery"])
        self.connect(name)
        self.ok(name, "device", "rename", name, name)  # write the device group to the remote
        return code

    def approve(self, name: str, by: str) -> None:
        code = str(self.json(name, "device", "add")["code"])
        self.connect(name)
        confirm = str(self.json(by, "device", "approve", code, "--yes")["confirm"])
        self.ok(name, *confirm.split()[1:])

    def names(self, name: str) -> dict[str, bool]:
        found = self.json(name, "device", "list")["devices"]
        assert isinstance(found, list)
        return {each["name"]: each["active"] for each in found}


@pytest.fixture
def on(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Devices:
    monkeypatch.setenv("FORESTAY_DEVICE_NAME", "")
    monkeypatch.setenv("NO_COLOR", "1")
    return Devices(cli, tmp_path)


# --- the first device -------------------------------------------------------------------------


def test_recovery_code_is_shown_once_and_no_secret_ever(on: Devices) -> None:
    printed = on.ok("laptop", "device", "key", "init").out
    (code,) = [line.strip() for line in printed.splitlines() if line.startswith("  ")]
    assert keys.recovery_key(code) and "write it on paper" in printed
    shown = on.ok("laptop", "device", "key", "show")
    listed = on.ok("laptop", "device", "list")
    for answer in (shown, listed):
        assert code.split()[0] not in answer.out and "SECRET" not in answer.out
    assert "fsp1" in shown.out and "laptop" in listed.out and "this device" in listed.out
    assert (on.folder / "laptop" / "keys" / "device.key").stat().st_mode & 0o777 == 0o600
    again = on("laptop", "device", "key", "init")
    assert again.code == 4 and "already" in again.err


def test_every_command_without_a_key_suggests_creating_one(on: Devices) -> None:
    for line in ("device key show", "device list", "device key rotate", "device revoke x"):
        answer = on("laptop", *line.split())
        assert answer.code == 8 and "forestay device key init" in answer.err, line
    assert not (on.folder / "laptop" / "keys").exists()


@pytest.mark.parametrize(
    "line", ["device key recover ABCD", "device key recover - ", "device approve fsd1x"]
)
def test_mistyped_code_exits_2(on: Devices, line: str) -> None:
    answer = on("laptop", *line.split(), source="nonsense!\n")
    assert answer.code == 2, answer


# --- passphrases --------------------------------------------------------------------------------


@pytest.mark.usefixtures("quick_passphrase")
def test_passphrase_is_asked_for_on_a_terminal_and_never_echoed(on: Devices) -> None:
    typed = f"{PASSPHRASE}\n{PASSPHRASE}\n"
    made = on.ok("laptop", "device", "key", "init", "--passphrase", source=typed, terminal=True)
    assert PASSPHRASE not in made.out + made.err and "protected by a passphrase" in made.out
    data = (on.folder / "laptop" / "keys" / "device.key").read_bytes()
    assert b"SECRET" not in data and PASSPHRASE.encode() not in data
    assert (
        "fsp1"
        in on.ok("laptop", "device", "key", "show", source=f"{PASSPHRASE}\n", terminal=True).out
    )
    unasked = on.ok("laptop", "device", "key", "show").out
    assert "fsp1" not in unasked and "with the passphrase" in unasked


@pytest.mark.usefixtures("quick_passphrase")
def test_wrong_passphrase_names_the_key_it_does_not_open(
    on: Devices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORESTAY_PASSPHRASE", PASSPHRASE)
    made = on.json("laptop", "device", "key", "init", "--passphrase")
    assert on.names("laptop") == {"laptop": True}
    monkeypatch.setenv("FORESTAY_PASSPHRASE", "wrong")
    answer = on("laptop", "device", "list")
    id = str(dict(made["device"])["key"])  # type: ignore[call-overload]
    assert answer.code == 8 and id in answer.err and "wrong" not in answer.err
    monkeypatch.delenv("FORESTAY_PASSPHRASE")
    assert "FORESTAY_PASSPHRASE" in on("laptop", "device", "list").err


@pytest.mark.usefixtures("quick_passphrase")
def test_different_or_missing_passphrases_create_no_key(on: Devices) -> None:
    differ = on("laptop", "device", "key", "init", "--passphrase", source="a\nb\n", terminal=True)
    assert differ.code == 2 and "differ" in differ.err
    none = on("laptop", "device", "key", "init", "--passphrase")
    assert none.code == 2 and "FORESTAY_PASSPHRASE" in none.err
    assert not (on.folder / "laptop" / "keys").exists()


@pytest.mark.usefixtures("quick_passphrase")
def test_exported_key_works_on_another_device(on: Devices, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORESTAY_PASSPHRASE", PASSPHRASE)
    on.begin("laptop")
    file = str(on.folder / "laptop.key")
    on.ok("laptop", "device", "key", "export", file)
    assert b"SECRET" not in Path(file).read_bytes()
    assert on("laptop", "device", "key", "export", file).code == 2  # a file of this name exists
    on.ok("other", "device", "key", "import", file)
    assert on.names("other") == {"laptop": True}
    assert on("desk", "device", "key", "init").code == 0
    assert "another key" in on("desk", "device", "key", "import", file).err


def test_passphrase_does_not_reach_programs_that_are_started(
    on: Devices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORESTAY_PASSPHRASE", PASSPHRASE)
    on.cli.start("x")
    printed = on.cli.ok("prove", "--", "env").out
    assert "PATH=" in printed and PASSPHRASE not in printed


# --- devices ------------------------------------------------------------------------------------


def test_device_is_approved_by_code_and_fingerprint(on: Devices) -> None:
    on.begin("laptop")
    asked = on.ok("desk", "device", "add").out
    (line,) = [line.split() for line in asked.splitlines() if "approve fsd1" in line]
    on.connect("desk")
    unasked = on("laptop", *line[1:])
    assert unasked.code == 4 and "--yes" in unasked.err
    seen = on.ok("laptop", *line[1:], source="yes\n", terminal=True).out
    shown = asked.split("must be this: ")[1].split()[0]
    assert f"  fingerprint  {shown}\n" in seen, "complete, on a separate line"
    (confirm,) = [line.split() for line in seen.splitlines() if "--confirm" in line]
    assert on("desk", *confirm[1:-1], "0000-0000-0000-0000-0000").code == 8
    on.ok("desk", *confirm[1:])
    assert on.names("desk") == on.names("laptop") == {"laptop": True, "desk": True}


def test_device_is_not_approved_without_a_yes(on: Devices) -> None:
    on.begin("laptop")
    code = str(on.json("desk", "device", "add")["code"])
    refused = on("laptop", "device", "approve", code, source="no\n", terminal=True)
    assert refused.code == 1 and "nothing was changed" in refused.out
    on.connect("desk")
    short = on("desk", "device", "add", "--confirm", "0000")
    assert short.code == 2 and "twenty digits" in short.err
    before = on("desk", "device", "add", "--confirm", "0000-0000-0000-0000-0000")
    assert before.code == 8 and "has added this device" in before.err
    assert "forestay device add" in before.err


def test_wrong_fingerprint_is_refused_without_showing_the_right_one(
    on: Devices,
) -> None:
    on.begin("laptop")
    code = str(on.json("desk", "device", "add")["code"])
    on.connect("desk")
    right = str(on.json("laptop", "device", "approve", code, "--yes")["confirm"]).split()[-1]
    wrong = on("desk", "device", "add", "--confirm", "0000-0000-0000-0000-0000")
    assert wrong.code == 8 and "belong to another device group" in wrong.err
    assert right not in wrong.err, "the user must read it on the other device"


def test_person_key_is_complete_on_a_narrow_terminal(on: Devices) -> None:
    on.ok("laptop", "device", "key", "init")
    person = str(on.json("laptop", "device", "key", "show")["person"])
    assert (
        len(person) > 80 and person in on.ok("laptop", "device", "key", "show", terminal=True).out
    )


def test_revoked_device_reads_nothing_new_and_rejoins_with_a_new_key(
    on: Devices,
) -> None:
    on.begin("laptop")
    on.approve("desk", by="laptop")
    on.ok("laptop", "device", "revoke", "desk", "--yes")
    assert on.names("laptop") == {"laptop": True, "desk": False}
    fingerprint = str(on.json("laptop", "device", "list")["fingerprint"])
    # New data on the remote is not for this device: it still has the old device group.
    on.ok("desk", "device", "add", "--confirm", fingerprint)
    assert on.names("desk") == {"laptop": True, "desk": True}
    code = str(on.json("desk", "device", "add", "--new-key")["code"])
    confirm = str(on.json("laptop", "device", "approve", code, "--yes")["confirm"])
    on.ok("desk", *confirm.split()[1:])
    assert on.names("desk") == {"laptop": True, "desk": True}
    again = on.json("laptop", "device", "list")["devices"]
    assert isinstance(again, list) and len(again) == 3


def test_missing_device_is_refused_without_a_question(on: Devices) -> None:
    on.begin("laptop")
    unknown = on("laptop", "device", "revoke", "nope", source="yes\n", terminal=True)
    assert unknown.code == 2 and "no device nope" in unknown.err and "Type yes" not in unknown.out


def test_unknown_device_and_this_device_cannot_be_revoked(on: Devices) -> None:
    on.begin("laptop")
    on.approve("desk", by="laptop")
    unknown = on("laptop", "device", "revoke", "phone", "--yes")
    assert unknown.code == 2 and "laptop" in unknown.err and "desk" in unknown.err
    itself = on("laptop", "device", "revoke", "laptop", "--yes")
    assert itself.code == 4 and "another device" in itself.err
    on.ok("laptop", "device", "rename", "desk", "tower")
    assert on.names("laptop") == {"laptop": True, "tower": True}


def test_change_of_keys_names_the_unreachable_remote_that_needs_a_sync(on: Devices) -> None:
    on.begin("laptop")
    on.remote.rename(on.folder / "unplugged")
    on.remote.write_text("not a folder")
    answer = on.ok("laptop", "device", "key", "rotate")
    assert "usb does not have it yet" in answer.err and "forestay sync" in answer.err


# --- recovery -----------------------------------------------------------------------------------


def test_recovery_code_alone_restores_access_to_the_device_group(on: Devices) -> None:
    code = on.begin("laptop")
    on.approve("desk", by="laptop")
    on.connect("blank")
    answer = on.ok("blank", "device", "key", "recover", *code.lower().split(), "--yes")
    assert "forestay device revoke" in answer.out
    assert on.names("blank") == {"laptop": True, "desk": True, "blank": True}
    for lost in ("laptop", "desk"):
        on.ok("blank", "device", "revoke", lost, "--yes")
    assert on.names("blank") == {"laptop": False, "desk": False, "blank": True}
    twice = on("blank", "device", "key", "recover", *code.split())
    assert twice.code == 4 and "already" in twice.err


@pytest.mark.usefixtures("quick_passphrase")
def test_recovery_code_works_without_the_passphrase(
    on: Devices, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = on.begin("laptop")
    monkeypatch.setenv("FORESTAY_PASSPHRASE", PASSPHRASE)
    on.ok("laptop", "device", "key", "init", "--passphrase")
    monkeypatch.setenv("FORESTAY_PASSPHRASE", "wrong")
    wrong = on("laptop", "device", "list")
    assert wrong.code == 8 and "without the passphrase: forestay device key recover" in wrong.err
    monkeypatch.delenv("FORESTAY_PASSPHRASE")
    on.ok("laptop", "device", "key", "recover", *code.split(), "--yes")
    assert on.names("laptop") == {"laptop": True, "laptop 2": True}
    on.ok("laptop", "device", "revoke", "laptop", "--yes")
    kept = {one.name for one in (on.folder / "laptop" / "keys").iterdir()}
    assert len([name for name in kept if name.startswith("device.key.")]) == 1, (
        "the old key file is preserved"
    )
    other = on.begin("stranger")
    again = on("laptop", "device", "key", "recover", *other.split(), "--yes")
    assert again.code == 4 and "already" in again.err and "--new-key" in again.err


def test_damaged_device_group_is_named_and_restored_from_the_remote(on: Devices) -> None:
    on.begin("laptop")
    circle = str(on.json("laptop", "device", "list")["fingerprint"])
    kept = on.folder / "laptop" / "keys" / "circle"
    data = kept.read_bytes()
    for broken in (b"\0" * 50, data[:-1] + bytes([data[-1] ^ 1])):
        kept.write_bytes(broken)
        reported = on("laptop", "device", "list")
        assert (
            reported.code == 5
            and str(kept) in reported.err
            and "device add --confirm" in reported.err
        )
        kept.rename(kept.with_suffix(".damaged"))
        on.ok("laptop", "device", "add", "--confirm", circle)
        assert on.names("laptop") == {"laptop": True}


def test_recovery_code_can_be_read_from_standard_input(on: Devices) -> None:
    code = on.begin("laptop")
    on.connect("blank")
    on.ok("blank", "device", "key", "recover", "-", "--yes", source=code + "\n")
    assert on.names("blank") == {"laptop": True, "blank": True}
    on.connect("other")
    printed = on.ok("other", "device", "key", "recover", source=code + "\nyes\n", terminal=True)
    assert code not in printed.out + printed.err


def test_recovery_shows_the_device_group_and_asks_for_confirmation(on: Devices) -> None:
    code = on.begin("laptop")
    fingerprint = str(on.json("laptop", "device", "list")["fingerprint"])
    on.connect("blank")
    unasked = on("blank", "device", "key", "recover", *code.split())
    assert unasked.code == 4 and fingerprint in unasked.err and "--yes" in unasked.err
    no = on("blank", "device", "key", "recover", *code.split(), source="no\n", terminal=True)
    assert no.code == 1 and fingerprint in no.out and "laptop" in no.out
    other = on(
        "blank", "device", "key", "recover", *code.split(), "--confirm", "ab12-cd34-ef56-7890-ab12"
    )
    assert other.code == 2 and fingerprint in other.err
    assert not (on.folder / "blank" / "keys").exists()
    on.ok("blank", "device", "key", "recover", *code.split(), "--confirm", fingerprint)
    assert on.names("blank") == {"laptop": True, "blank": True}


@pytest.mark.parametrize("line", ["device key recover", "device key recover -"])
def test_missing_recovery_code_is_reported(on: Devices, line: str) -> None:
    answer = on("laptop", *line.split(), source="\n", terminal=True)
    assert answer.code == 2 and "the recovery code is missing" in answer.err


def test_wrong_recovery_code_and_missing_remote_have_different_errors(on: Devices) -> None:
    code = on.begin("laptop")
    without = on("blank", "device", "key", "recover", *code.split())
    assert without.code == 2 and "forestay remote add" in without.err
    on.connect("blank")
    wrong = on("blank", "device", "key", "recover", *keys.new_recovery_code().split())
    assert wrong.code == 8 and "opens no device group" in wrong.err
    assert not (on.folder / "blank" / "keys").exists()


def test_replaced_recovery_code_opens_nothing_new(on: Devices) -> None:
    old = on.begin("laptop")
    new = str(on.json("laptop", "device", "key", "rotate", "--recovery")["recovery"])
    on.connect("blank")
    # The code opens only what was written before it was replaced.
    warned = on.ok("blank", "device", "key", "recover", *old.split(), "--yes")
    assert "use the newer code" in warned.err
    assert on.names("laptop") == {"laptop": True}
    on.connect("other")
    well = on.ok("other", "device", "key", "recover", *new.split(), "--yes")
    assert "newer code" not in well.err
    assert on.names("other") == {"laptop": True, "other": True}


def test_name_selects_the_active_device_over_a_revoked_one(on: Devices) -> None:
    on.begin("laptop")
    on.approve("desk", by="laptop")
    on.ok("laptop", "device", "revoke", "desk", "--yes")
    code = str(on.json("desk", "device", "add", "--new-key")["code"])
    confirm = str(on.json("laptop", "device", "approve", code, "--yes")["confirm"])
    on.ok("desk", *confirm.split()[1:])
    on.ok("laptop", "device", "rename", "desk", "tower")
    assert on.names("laptop") == {"laptop": True, "desk": False, "tower": True}
