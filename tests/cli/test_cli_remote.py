"""Remotes on the command line: add, list, check, remove and sync."""

from __future__ import annotations

import errno
import os
import shutil
import time
from pathlib import Path

import pytest

from forestay.errors import StoreFailed
from forestay.sync.remotes.folder import FolderRemote
from tests.cli.support import Cli


@pytest.fixture(autouse=True)
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORESTAY_AUTO_SYNC", "off")


def test_first_steps_with_a_remote_are_suggested(cli: Cli, tmp_path: Path) -> None:
    assert "no remote yet" in cli.ok("remote").out
    cli.start()
    answer = cli("sync")
    assert (answer.code, "forestay remote add" in answer.err) == (2, True)
    added = cli.ok("remote", "add", "usb", f"folder:{tmp_path / 'usb'}")
    assert "refuses to overwrite" in added.out
    answer = cli("sync")
    assert "forestay device key init" in answer.err
    assert answer.code


def test_join_of_a_missing_session_is_refused(cli: Cli, usb: Path) -> None:
    reported = cli("sync", "--pull", "--join", "nosuch")
    assert reported.code == 3 and "there is no session nosuch" in reported.err


def test_remote_is_added_once_and_listed_with_its_last_result(cli: Cli, usb: Path) -> None:
    assert "never synced" in cli.ok("remote", "list").out
    assert cli("remote", "add", "usb", "folder:/x").code == 2
    assert cli("remote", "add", "other", f"folder:{usb}").code == 2
    assert cli("remote", "add", "No Name", "folder:/x").code == 2
    assert cli("remote", "add", "odd", "ftp://x").code == 2
    cli.start()
    assert "1 event not pushed" in cli.ok("status").out
    assert "usb: 1 event pushed" in cli.ok("sync").out
    assert "usb: nothing new" in cli.ok("sync").out
    assert "done" in cli.ok("remote", "list").out
    assert "not pushed" not in cli.ok("status").out
    assert cli.json("status")["unpushed"] == 0


def test_device_without_keys_learns_how_to_create_or_join_a_group(
    cli: Cli, usb: Path, tmp_path: Path
) -> None:
    printed = cli.ok("remote", "add", "two", f"folder:{tmp_path / 'two'}", terminal=True).out
    assert "forestay sync two" in printed
    cli.start()
    cli.ok("sync", "--push", "usb")
    other = ("--home", str(tmp_path / "other"), "remote", "add")
    assert " device add" in cli.ok(*other, "usb", f"folder:{usb}", terminal=True).out
    assert " key init" in cli.ok(*other, "new", f"folder:{tmp_path / 'new'}", terminal=True).out


def test_status_reports_a_failed_push_of_waiting_events(cli: Cli, usb: Path) -> None:
    cli.start()
    cli.ok("sync")
    cli.ok("note", "one more")
    usb.rename(usb.with_name("away"))
    assert cli("sync", "--push").code == 8
    reported = cli.ok("status").out
    assert "1 event not pushed; the last sync with usb failed: forestay remote list" in reported


def test_sync_error_names_the_remote_once_and_no_object(
    cli: Cli, usb: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(remote: FolderRemote, name: str, data: bytes) -> None:
        raise remote._failure(OSError(errno.ENOSPC, "No space left"), "write", name)

    session = cli.start()
    monkeypatch.setattr(FolderRemote, "put", full)
    reported = cli("sync", "--push")
    assert reported.code == 8 and f"cannot write in {usb}\n  there is no room left" in reported.err
    assert "s/" not in reported.err.replace(str(usb), ""), "names of objects do not help users"
    listed = cli.ok("remote", "list").out
    assert listed.count("usb") == 1 + listed.count(str(usb)), "the table names it already"
    assert session in listed or "no room left" in listed


def test_long_explanations_wrap_between_words_with_one_remedy_per_line(
    cli: Cli, tmp_path: Path
) -> None:
    cli.ok("remote", "add", "usb", f"folder:{tmp_path / 'usb'}")
    whole = cli("sync").err.splitlines()
    reported = cli("sync", terminal=True).err.splitlines()
    assert [line[:4] for line in reported[1:]] == ["  → "] * 3
    assert "; ".join(line[4:] for line in reported[1:]) == whole[1][4:]
    assert max(map(len, reported)) <= 80 < len(whole[1])


def test_remote_that_was_empty_at_the_first_pull_is_still_new(cli: Cli, usb: Path) -> None:
    cli.start()
    assert "nothing new" in cli.ok("sync", "--pull").out
    assert not usb.exists() and "never synced" in cli.ok("remote", "list").out
    assert "1 event pushed" in cli.ok("sync", "--push").out, "no stick is reported as missing"


def test_foreign_objects_on_a_remote_are_shown(cli: Cli, usb: Path) -> None:
    cli.start()
    cli.ok("sync", "--push")
    (usb / "forestay" / "format (conflicted copy 2026-01-01)").write_text("x")
    answer = cli.ok("remote", "check", "usb")
    assert "1 session there" in answer.out
    assert "conflicted copy" in answer.out


def test_removing_a_remote_deletes_nothing_there(cli: Cli, usb: Path) -> None:
    cli.start()
    cli.ok("sync", "--push")
    before = sorted(str(path) for path in usb.rglob("*"))
    assert "nothing" in cli.ok("remote", "remove", "usb").out
    assert sorted(str(path) for path in usb.rglob("*")) == before
    assert cli("remote", "remove", "usb").code == 2


def test_missing_remote_is_reported_with_the_waiting_events(cli: Cli, usb: Path) -> None:
    cli.start()
    cli.ok("sync")
    cli.ok("note", "offline")
    shutil.move(usb, f"{usb}.away")
    answer = cli("sync")
    assert answer.code == 8
    assert "1 event waits here" in answer.err
    found = cli("sync", "--json")
    assert '"Unreachable"' in found.out
    shutil.move(f"{usb}.away", usb)
    assert "1 event pushed" in cli.ok("sync").out


def test_remote_with_an_older_state_is_reported_with_exit_8(cli: Cli, usb: Path) -> None:
    cli.start()
    cli.ok("sync")
    for path in usb.glob("s/*/p/*/*"):
        path.unlink()
    answer = cli("sync", "--pull")
    assert answer.code == 8
    assert "older state" in answer.err
    assert "--again" in answer.err
    cli.ok("sync", "--push", "--again")
    cli.ok("sync", "--pull")


def test_sessions_of_other_people_are_counted_without_an_error(
    cli: Cli, usb: Path, tmp_path: Path
) -> None:
    cli.start()
    cli.ok("sync")
    other = ("--home", str(tmp_path / "other"))
    cli.ok(*other, "device", "key", "init")
    cli.ok(*other, "remote", "add", "usb", f"folder:{usb}")
    printed = cli.ok(*other, "sync").out
    assert "1 session there is encrypted for other devices\n" in printed
    assert " device key show" in printed and " device add --new-key" in printed
    cli.start("Theirs", *other)
    assert "key show" not in cli.ok(*other, "sync").out, "a device with sessions is not advised"


def test_only_the_named_session_is_synced(
    cli: Cli, usb: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.start("one", "--id", "one")
    cli.start("two", "--id", "two")
    cli.ok("sync", "--push", "usb", "--session", "one")
    assert cli.json("remote", "list")["waiting"] == 1
    # The variable that agents inherit names their session, and must not hide the others.
    monkeypatch.setenv("FORESTAY_SESSION", "one")
    assert cli.json("sync", "--push")["remotes"][0]["pushed"] == 1


def test_sync_with_a_missing_pack_does_not_report_nothing_new(cli: Cli, usb: Path) -> None:
    cli.start()
    cli.ok("sync", "--push")
    (pack,) = usb.glob("s/*/p/*/*")
    pack.unlink()
    reported = cli("sync")
    assert reported.code == 8 and "older state" in reported.err
    assert "usb: nothing was transferred" in reported.out and "nothing new" not in reported.out


def test_watch_continues_until_it_is_stopped(
    cli: Cli, usb: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.start()
    naps: list[float] = []

    def sleep(_: object, seconds: float) -> None:
        naps.append(seconds)
        cli.ok("note", f"after {len(naps)}")
        if len(naps) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("forestay.base.clock.Clock.sleep", sleep)
    assert cli("sync", "--watch", "--every", "7").code == 130
    assert naps == [7, 7, 7]
    assert cli.json("remote", "list")["waiting"] == 1


def test_watch_reports_new_events_and_each_problem_once(
    cli: Cli, usb: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.start()
    away, rounds = usb.with_name("away"), 0

    def sleep(_: object, seconds: float) -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 2:
            usb.rename(away)
        if rounds == 4:
            away.rename(usb)
        if rounds == 6:
            raise KeyboardInterrupt

    monkeypatch.setattr("forestay.base.clock.Clock.sleep", sleep)
    reported = cli("sync", "--watch", "--every", "7", terminal=True)
    assert reported.code == 130 and "Ctrl-C" in reported.out
    lines = [line for line in reported.out.splitlines() if "usb" in line]
    assert lines[0].endswith("1 event pushed") and lines[-1].endswith("nothing new"), "it is back"
    assert len(lines) == 2 and " ".join(reported.err.split()).count("is not available") == 1
    assert reported.err.count("synced; next in 7 seconds") == 6


def test_watch_waits_for_an_unreachable_store(
    cli: Cli, usb: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.start()
    naps: list[float] = []

    def sleep(_: object, seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 4:
            raise KeyboardInterrupt

    def sync(*_: object, **__: object) -> list[object]:
        if len(naps) == 2:
            return []
        away = StoreFailed("the connection to postgresql://db was lost")
        away.retryable = True
        raise away

    monkeypatch.setattr("forestay.base.clock.Clock.sleep", sleep)
    monkeypatch.setattr("forestay.api.remotes.Remotes.sync", sync)
    reported = cli("sync", "--watch", "--every", "7")
    assert reported.code == 130 and naps == [1, 1, 7, 1]
    assert reported.err.count("was lost: waiting for it; Ctrl-C stops this") == 2, "once each time"


def test_progress_bar_shows_planned_and_transferred_events(cli: Cli, usb: Path) -> None:
    cli.start()
    for _ in range(3):
        cli.ok("note", "once more")
    reported = cli.ok("sync", "--push", terminal=True).err
    assert "↑ ···················· 0 of 4 events, 0 bytes" in reported
    assert "↑ ████████████████████ 4 of 4 events, " in reported
    assert reported.endswith("\r\x1b[K\r"), "and is gone at the end"
    cli.ok("remote", "remove", "usb")
    cli.ok("remote", "add", "usb", f"folder:{usb}")
    assert "↓ ████████████████████ 4 of 4 events, " in cli.ok("sync", "--pull", terminal=True).err


def test_remote_inside_the_home_is_refused(cli: Cli, tmp_path: Path) -> None:
    home = tmp_path / "own"
    for path in (home, home / "remote"):
        answer = cli("--home", str(home), "remote", "add", "own", f"folder:{path}")
        assert answer.code == 2 and "are lost together" in answer.err
    assert not (home / "remote").exists()
    cli.ok("--home", str(home), "remote", "add", "own", f"folder:{home}-remote")


def test_important_events_are_synced_in_the_background(
    cli: Cli, usb: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORESTAY_AUTO_SYNC", "on")
    cli.start()
    cli.ok("decide", "use cookies")
    waits_until = time.monotonic() + 30
    while cli.json("remote", "list")["waiting"] and time.monotonic() < waits_until:
        time.sleep(0.1)
    assert cli.json("remote", "list")["waiting"] == 0


def test_no_background_sync_starts_without_a_remote(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORESTAY_AUTO_SYNC", "on")

    started: list[object] = []
    monkeypatch.setattr(os, "posix_spawn", lambda *given: started.append(given))
    cli.start()
    cli.ok("decide", "use cookies")
    assert not started
