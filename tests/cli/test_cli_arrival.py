"""resume on another device, and the errors when a session or a remote cannot be found."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from forestay.sync import background
from tests.cli.support import Answer, Cli
from tests.format_helpers import fill


@pytest.fixture(autouse=True)
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORESTAY_AUTO_SYNC", "off")


@pytest.mark.req("X2-9")
def test_missing_session_is_reported_with_cause_and_remedy(cli: Cli, usb: Path) -> None:
    cli.start()
    cli.ok("sync", "--push")
    answer = cli("resume", "elsewhere")
    assert answer.code == 3
    assert "there is no session elsewhere" in answer.err
    assert "usb has no session that this device can read" in answer.err
    assert "on the device where it is: forestay sync --push" in answer.err
    assert "no remote was asked" in cli("resume", "elsewhere", "--no-sync").err
    usb.rename(usb.with_name("unplugged"))
    answer = cli("resume", "elsewhere")
    assert "not every remote could be asked: usb" in answer.err
    assert "plug in the stick" in answer.err


def test_device_without_access_learns_how_to_join(cli: Cli, usb: Path, tmp_path: Path) -> None:
    id = cli.start()
    cli.ok("sync", "--push")
    stranger = ("--home", str(tmp_path / "stranger"))
    cli.ok(*stranger, "device", "key", "init")
    cli.ok(*stranger, "remote", "add", "usb", f"folder:{usb}")
    for named in ((), (id,)):
        answer = cli(*stranger, "resume", *named)
        assert answer.code == 3
        assert "1 session there is encrypted for other devices" in answer.err
        assert "yours, from another device: " in answer.err
        assert "device add --new-key; shared with you: " in answer.err


@pytest.mark.usefixtures("usb")
def test_files_of_other_programs_are_mentioned_when_no_session_is_received(
    cli: Cli, project: Path
) -> None:
    fill(project, kinds=["craft"])
    answer = cli("resume")
    assert "usb has no session of this folder either; session files of other" in answer.err
    assert "  → turn them into sessions: forestay adopt" in answer.err


class Desk:
    """Another device of the same person, with a separate home."""

    def __init__(self, cli: Cli, usb: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cli, self.given = cli, ("--home", str(folder / "desk"))
        self._folder, self._patch = folder, monkeypatch
        cli.ok(*self.given, "remote", "add", "usb", f"folder:{usb}")
        code = str(cli.json(*self.given, "device", "add")["code"])
        confirm = str(cli.json("device", "approve", code, "--yes")["confirm"])
        cli.ok(*self.given, *confirm.split()[1:])

    def within(self, name: str, *argv: str, terminal: bool = False) -> Answer:
        """Run a command in the folder of this name."""
        place = self._folder / "elsewhere" / name
        place.mkdir(parents=True, exist_ok=True)
        self._patch.chdir(place)
        return self.cli(*self.given, *argv, terminal=terminal)


@pytest.fixture
def desk(cli: Cli, usb: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(cli, usb, tmp_path, monkeypatch)


def test_resume_names_four_other_new_sessions_and_counts_the_rest(cli: Cli, desk: Desk) -> None:
    ids = [cli.start(f"Goal {n}", "--id", f"goal-{n}") for n in range(6)]
    for id in ids:
        cli.ok("--session", id, "task", "add", "roof", "--id", "roof")
        cli.ok("--session", id, "task", "done", "roof")
    cli.ok("sync", "--push")
    answer = desk.within("other", "resume", ids[0])
    assert answer.err.count("also new here: ") == 4
    assert "also new here: 2 more: forestay --home " in answer.err and "list --all" in answer.err
    assert "- roof: (on " in answer.out, "a title that is the id is printed once"


@pytest.mark.req("S2-2", "X2-8")
def test_resume_selects_the_only_session_received_for_this_project(
    cli: Cli, desk: Desk, project: Path
) -> None:
    id = cli.start("Add login")
    cli.ok("sync", "--push")
    lost = desk.within("other", "resume")
    assert lost.code == 3 and "none of them was started in a project of this name" in lost.err
    assert f"resume {id}" in lost.err and "Add login" in lost.err
    assert f"{project.name}  Add login" in desk.within("other", "list", "--all").out
    found = desk.within(project.name, "--json", "resume")
    assert found.code == 0 and found.json["session"] == id
    assert desk.within(project.name, "--json", "status").json["session"] == id, "it is current now"


def test_several_received_sessions_are_suggested_and_none_is_resumed(
    cli: Cli, desk: Desk, project: Path
) -> None:
    ids = [cli.start("Add login"), cli.start("Mend the roof")]
    cli.ok("sync", "--push")
    asked = desk.within(project.name, "resume")
    assert asked.code == 3 and "these sessions are from other devices" in asked.err
    assert all(f"resume {id}" in asked.err for id in ids)
    named = desk.within(project.name, "resume", ids[0])
    assert named.code == 0 and "Goal: " in named.out


def test_session_shared_by_another_person_is_suggested_and_not_resumed(
    cli: Cli, usb: Path, project: Path, tmp_path: Path
) -> None:
    friend = ("--home", str(tmp_path / "friend"))
    cli.ok(*friend, "device", "key", "init")
    cli.ok(*friend, "remote", "add", "usb", f"folder:{usb}")
    person = str(cli.json(*friend, "device", "key", "show")["person"])
    id = cli.start("Add login")
    cli.ok("share", "add", id, "--with", person, "--yes")
    answer = cli(*friend, "resume")
    assert answer.code == 3 and f"resume {id}" in answer.err


def test_resume_waits_for_remotes_no_longer_than_the_setting(
    cli: Cli, usb: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent: list[int] = []
    monkeypatch.setattr(
        background, "_detach", lambda home, out, *argv, **more: silent.append(os.dup(out))
    )
    monkeypatch.setenv("FORESTAY_PULL_SECONDS", "1")
    id = cli.start()
    cli.ok("sync", "--push")
    began = time.monotonic()
    answer = cli.ok("resume")
    assert time.monotonic() - began < 60 and "Goal: " in answer.out
    assert "still waiting for remotes: no answer within 1 second; usb last read" in answer.err
    assert "forestay sync --pull" in answer.err
    arrival = cli.json("resume", id)["arrival"]
    assert not arrival["synced"] and "no answer" in arrival["problem"]
    monkeypatch.setenv("FORESTAY_PULL_SECONDS", "0")
    assert cli.ok("resume").err == "" and len(silent) == 2, "no remote was asked"
    for out in silent:
        os.close(out)


def test_pull_that_ends_without_an_answer_is_reported(
    cli: Cli, usb: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "_detach", lambda *given, **more: None)
    cli.start()
    assert "remotes not reached: the pull ended without an answer" in cli.ok("resume").err


@pytest.mark.req("X2-8", "X2-9")
def test_failed_sync_reports_the_reason_the_waiting_events_and_a_remedy(
    cli: Cli, usb: Path
) -> None:
    id = cli.start()
    cli.ok("sync", "--push")
    cli.ok("note", "one more")
    usb.rename(usb.with_name("unplugged"))
    answer = cli("sync")
    assert answer.code == 8
    assert "usb" in answer.err and "1 event" in answer.out + answer.err
    resumed = cli("--json", "resume", id)
    assert resumed.code == 0, "work continues without the remote"
    arrival = resumed.json["arrival"]
    assert not arrival["synced"] and "usb" in arrival["problem"]
    assert "arrival" not in cli("--json", "resume", id, "--sync", "false").json


@pytest.mark.req("X2-9")
def test_list_has_sizes_and_totals_on_request(cli: Cli, project: Path) -> None:
    cli.start("One")
    (project / "big.txt").write_text("x" * 5000)
    cli.ok("record", "artifact", "big.txt")
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
