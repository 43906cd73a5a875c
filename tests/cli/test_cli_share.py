"""Sharing on the command line: questions, messages and refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

import forestay
from tests.cli.support import Cli


@pytest.fixture
def bob(cli: Cli, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return another person's key; the current session is on a remote that both can reach."""
    monkeypatch.setenv("NO_COLOR", "1")
    cli.ok("device", "key", "init")
    cli.start("Add login", "--id", "login")
    cli.ok("--home", str(tmp_path / "bob"), "device", "key", "init")
    with forestay.open(str(home)) as stay:
        stay.context.store.machine.remotes.add("usb", f"folder:{tmp_path / 'remote'}", "", 1)
    return str(cli.json("--home", str(tmp_path / "bob"), "device", "key", "show")["person"])


def test_fingerprint_is_shown_before_anything_is_shared(cli: Cli, bob: str, tmp_path: Path) -> None:
    shown = cli.json("--home", str(tmp_path / "bob"), "device", "key", "show")["person_fingerprint"]
    unasked = cli("share", "add", "login", "--with", bob)
    assert unasked.code == 4 and shown in unasked.err and "--yes" in unasked.err
    no = cli("share", "add", "login", "--with", bob, source="no\n", terminal=True)
    assert no.code == 1 and shown in " ".join(no.out.split()) and "nothing was changed" in no.out
    assert "not shared" in cli.ok("share", "list").out


def test_sharing_and_its_end_are_reported_with_their_limits(cli: Cli, bob: str) -> None:
    address = "bob@example.org"
    done = cli.ok("share", "add", "login", "--with", bob, "--email", address, "--continue", "--yes")
    assert address in done.out and "can read and continue it" in done.out
    assert address in cli.ok("share", "list", "login").out
    gone = cli.ok("share", "remove", "login", address)
    assert "cannot read what is written from now on" in gone.out
    assert "copies of it stay readable" in gone.out
    assert cli.json("share", "list", "login")["members"] == []


def test_sharing_again_without_a_mode_does_not_change_the_mode(cli: Cli, bob: str) -> None:
    cli.ok("share", "add", "login", "--with", bob, "--continue", "--yes")
    again = cli.ok("share", "add", "login", "--with", bob, "--email", "bob@example.org", "--yes")
    assert "can read and continue it" in again.out and "bob@example.org" in again.out
    assert "can read it" in cli.ok("share", "add", "login", "--with", bob, "--read", "--yes").out


def test_reader_learns_what_stays_here_and_once_that_sharing_ended(
    cli: Cli, bob: str, tmp_path: Path
) -> None:
    there = ("--home", str(tmp_path / "bob"))
    cli.ok("share", "add", "login", "--with", bob, "--yes")
    cli.ok(*there, "remote", "add", "usb", f"folder:{tmp_path / 'remote'}")
    cli.ok(*there, "sync")
    cli.ok(*there, "note", "mine", "--session", "login")
    printed = cli.ok(*there, "sync").out
    assert "login: 1 event stays on this device: it is shared with you for reading only" in printed
    assert "not pushed" not in printed
    cli.ok("share", "remove", "login", bob)
    cli.ok(*there, "sync", "--soon", "--quiet")
    assert "login: no longer shared with you; what you have stays" in cli.ok(*there, "sync").out
    later = cli.ok(*there, "sync").out
    assert "what you have stays" not in later and "not pushed" not in later
    assert "login: 1 event stays on this device: it is no longer shared with you" in later


def test_guest_who_erases_learns_that_others_still_have_their_events(
    cli: Cli, bob: str, tmp_path: Path
) -> None:
    there = ("--home", str(tmp_path / "bob"))
    # A sync in the background would read the pages that are to be erased.
    cli.ok("config", "auto_sync", "off")
    cli.ok(*there, "config", "auto_sync", "off")
    cli.ok("note", "by the owner")
    cli.ok("share", "add", "login", "--with", bob, "--continue", "--yes")
    cli.ok(*there, "remote", "add", "usb", f"folder:{tmp_path / 'remote'}")
    cli.ok(*there, "sync")
    cli.ok(*there, "note", "mine", "--session", "login")
    cli.ok(*there, "session", "use", "login")
    own = cli.ok(*there, "session", "forget", "#3", "--dry-run").out
    assert "usb: replaced there" in own and "stay with them" not in own
    both = cli.ok(*there, "session", "forget", "#2", "#3", "--dry-run").out
    assert "usb: replaced there" in both and "stay with them" in both
    for which in ("#2", "login"):
        foreign = cli.ok(*there, "session", "forget", which, "--yes").out
        assert "stay with them" in foreign and "erases it there" not in foreign
    kept = cli.ok("session", "forget", "login", "--yes").out
    assert "usb: the next sync erases it there" in kept and "stay with them" not in kept


@pytest.mark.parametrize(
    "line, reported",
    [
        ("share add login --with fsp1abc --yes", "mistyped"),
        ("share add login --with age1abc --yes", "not a person key"),
        ("share remove login nobody@example.org", "not shared with"),
    ],
)
def test_invalid_person_key_or_unknown_member_is_refused(
    cli: Cli, bob: str, line: str, reported: str
) -> None:
    answer = cli(*line.split())
    assert answer.code == 2 and reported in answer.err, answer


def test_sharing_without_a_remote_suggests_adding_one(cli: Cli, bob: str, home: Path) -> None:
    with forestay.open(str(home)) as stay:
        stay.context.store.machine.remotes.remove(stay.context.store.machine.remotes.all()[0])
    answer = cli("share", "add", "login", "--with", bob, "--yes")
    assert answer.code == 4 and "forestay remote add" in answer.err
