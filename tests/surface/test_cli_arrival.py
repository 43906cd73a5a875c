"""resume on another device, and what is said when a session or a remote cannot be found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.surface.support import Cli


@pytest.fixture(autouse=True)
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_AUTO_SYNC", "off")


@pytest.fixture
def usb(cli: Cli, tmp_path: Path) -> Path:
    cli.ok("key", "init")
    cli.ok("remote", "add", "usb", f"folder:{tmp_path / 'usb'}")
    return tmp_path / "usb"


@pytest.mark.req("X2-9")
def test_a_session_that_is_not_here_is_told_with_the_cause_and_the_remedy(
    cli: Cli, usb: Path
) -> None:
    cli.start()
    cli.ok("push")
    answer = cli("resume", "elsewhere")
    assert answer.code == 3
    assert "there is no session elsewhere" in answer.err
    assert "usb has none that this device may read" in answer.err
    assert "on the device where it is: holdfast push" in answer.err
    assert "no remote was asked" in cli("resume", "elsewhere", "--no-sync").err
    usb.rename(usb.with_name("unplugged"))
    answer = cli("resume", "elsewhere")
    assert "not every remote could be asked: usb" in answer.err
    assert "holdfast remote check" in answer.err


@pytest.mark.req("X2-8", "X2-9")
def test_a_sync_that_fails_says_why_what_waits_and_what_helps(cli: Cli, usb: Path) -> None:
    id = cli.start()
    cli.ok("push")
    cli.ok("note", "one more")
    usb.rename(usb.with_name("unplugged"))
    answer = cli("sync")
    assert answer.code == 8
    assert "usb" in answer.err and "1 event" in answer.out + answer.err
    resumed = cli("--json", "resume", id)
    assert resumed.code == 0, "work goes on"
    arrival = resumed.json["arrival"]
    assert not arrival["synced"] and "usb" in arrival["problem"]
    assert "arrival" not in cli("--json", "resume", id, "--sync", "false").json


@pytest.mark.req("X2-9")
def test_the_list_has_sizes_and_totals_where_they_are_asked_for(cli: Cli, project: Path) -> None:
    cli.start("One")
    (project / "big.txt").write_text("x" * 5000)
    cli.ok("artifact", "big.txt")
    cli.start("Two")
    cli.ok("complete")
    answer = cli.ok("list", "--size")
    assert "SIZE" in answer.out and "2 sessions (" in answer.out and "in all" in answer.out
    shown = cli.json("list", "--size")
    totals = shown["totals"]
    assert totals["sessions"] == 2 and totals["by_status"] == {"active": 1, "completed": 1}
    assert totals["size"] == sum(one["size"] for one in shown["sessions"]) > 5000
    assert totals["events"] == sum(one["seq"] for one in shown["sessions"])
    assert "totals" not in cli.json("list")
