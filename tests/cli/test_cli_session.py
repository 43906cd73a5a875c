"""Start, choose, finish and erase sessions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Cli


def test_start_makes_the_session_current(cli: Cli) -> None:
    answer = cli.ok("start", "Add login", "--id", "login", "--mode", "debug")
    assert answer.out == "Started session login – Add login\n"
    assert cli.json("status")["session"] == "login"
    assert cli.json("show")["core"]["mode"] == "debug"


def test_start_with_an_open_session_shows_how_to_return_to_it(cli: Cli) -> None:
    cli.start("First", "--id", "first")
    answer = cli.ok("start", "Second", "--id", "second")
    assert "to return to it: forestay session use first" in answer.out
    assert cli.json("status")["session"] == "second"
    assert cli.json("start", "Third")["before"] == "second"


def test_start_after_a_finished_session_mentions_none(cli: Cli) -> None:
    cli.start("First")
    cli.ok("complete")
    assert "to return to it" not in cli.ok("start", "Second").out


def test_start_can_continue_another_session(cli: Cli) -> None:
    cli.start("First", "--id", "first")
    cli.ok("session", "abort")
    cli.ok("start", "Again", "--from", "fir")
    assert cli.json("show")["core"]["from_session"] == "first"


def test_start_warns_that_a_variable_still_selects_another_session(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.start("First", "--id", "first")
    monkeypatch.setenv("FORESTAY_SESSION", "first")
    assert "FORESTAY_SESSION names first" in cli.ok("start", "Second").err


def test_use_accepts_a_shortened_id_and_shows_the_session(cli: Cli) -> None:
    cli.start("First", "--id", "first")
    cli.start("Second", "--id", "second")
    answer = cli.ok("session", "use", "fi")
    assert answer.out.startswith("First\n")
    assert cli.json("status")["session"] == "first"
    assert cli.json("session", "use", "second")["session"] == "second"


@pytest.mark.parametrize("end", ["complete", "session abort", "session abandon"])
def test_after_the_end_work_exits_3_and_notes_are_accepted(cli: Cli, end: str) -> None:
    session = cli.start()
    cli.ok(*end.split())
    for line in (
        "record error x",
        "record command x",
        "record tokens 1",
        "pause",
        "task add x",
        end,
    ):
        assert cli(*line.split()).code == 3, line
    for line in ("note x", "record attribute k v", "record rename y", "record model m"):
        cli.ok(*line.split(), "--session", session)
    for line in ("undo", "session archive", "session unarchive"):
        cli.ok(*line.split())
    for line in ("status", "log", "show", "brief", "verify", "backup export x.fspack", "diff 1 2"):
        cli.ok(*line.split())


def test_a_failed_session_is_open_and_can_be_resumed(cli: Cli) -> None:
    cli.start()
    cli.ok("session", "fail", "--because", "no access")
    assert cli.json("resume")["status"] == "active"


def test_reopen_needs_a_reason_and_works_after_the_end(cli: Cli) -> None:
    cli.start()
    cli.ok("complete")
    assert cli("session", "reopen").code == 2
    assert cli("session", "reopen", "--because", " ").code == 2
    assert cli.json("session", "reopen", "--because", "a case is left")["status"] == "active"


@pytest.mark.req("S0-61", "X4-7")
def test_an_aborted_session_stays_aborted(cli: Cli) -> None:
    cli.start()
    cli.ok("session", "abort")
    answer = cli("--json", "session", "reopen", "--because", "x")
    assert answer.code == 4
    assert answer.json["error"]["legal"] == [f'start "GOAL" --from {cli.json("status")["session"]}']


@pytest.mark.req("S0-63", "X2-7")
def test_archive_hides_a_session_and_unarchive_shows_it_again(cli: Cli) -> None:
    session = cli.start()
    cli.ok("complete")
    cli.ok("session", "archive")
    assert cli.json("list")["sessions"] == []
    assert [one["session"] for one in cli.json("list", "--all")["sessions"]] == [session]
    cli.ok("session", "unarchive")
    assert len(cli.json("list")["sessions"]) == 1


# -- forget ------------------------------------------------------------------------------------


@pytest.mark.req("S0-64", "X2-7")
def test_forget_without_yes_refuses_and_names_what_would_be_erased(cli: Cli) -> None:
    cli.start("Secret plan", "--id", "plan")
    cli.ok("note", "x")
    answer = cli("session", "forget", "plan")
    assert answer.code == 4
    assert "2 events, 1 note" in answer.err
    assert "forestay session forget plan --yes" in answer.err
    assert cli.json("status")["session"] == "plan"
    assert cli("--json", "session", "forget", "plan").code == 4


def test_forget_names_what_it_cannot_reach_and_that_the_id_is_used_up(cli: Cli) -> None:
    cli.ok("start", "a plan", "--id", "plan")
    reported = cli.ok("session", "forget", "plan", "--yes")
    assert "not touched: exports" in reported.out + reported.err
    again = cli("start", "a plan", "--id", "plan")
    assert again.code != 0 and "choose another" in again.err


def test_forget_asks_on_a_terminal(cli: Cli) -> None:
    cli.start("Secret plan", "--id", "plan")
    answer = cli("session", "forget", "plan", source="no\n", terminal=True)
    assert answer.code == 1
    assert "This erases a session permanently" in answer.out
    assert cli.json("status")["session"] == "plan"
    cli.ok("session", "forget", "plan", source="yes\n", terminal=True)
    assert cli("status").code == 3


def test_forget_erases_the_text_from_every_file_of_the_home(
    cli: Cli, home: Path, project: Path
) -> None:
    cli.start("Unusualword plan", "--id", "plan")
    (project / "a.txt").write_text("unusualword " * 1000)
    cli.ok("record", "artifact", "a.txt")
    cli.ok("note", "unusualword " * 1000)
    cli.ok("backup", "create")
    going = cli.json("session", "forget", "plan", "--yes")
    assert going["forgotten"]["events"] == 3
    assert going["forgotten"]["contents"] == 2
    assert going["status"] == "forgotten"
    for path in home.rglob("*"):
        if path.is_file():
            assert b"nusualword" not in path.read_bytes(), path
    assert cli("session", "use", "plan").code == 3
    assert cli.json("search", "unusualword")["results"] == []


def test_list_and_status_show_a_dead_process(cli: Cli) -> None:
    import subprocess
    import sys

    cli.ok("start", "a plan", "--id", "plan")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        cli.ok("agent", "start", "a1", "--pid", str(child.pid))
    assert '"attention": ["interrupted"]' in cli.ok("--json", "list").out
    assert '"attention": ["interrupted"]' in cli.ok("--json", "status").out
    assert "! needs attention" in cli.ok("list").out
