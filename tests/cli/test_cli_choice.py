"""Which session a command uses: named, chosen, or none. Commands that write never guess."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.support import Cli, process

WRITES = [
    "note x",
    "decide x",
    "record error x",
    "task add x",
    "agent start a",
    "record command x",
    "record tokens 1",
]
WRITES += [
    "record file x",
    "record artifact x",
    "record compaction",
    "record rename x",
    "record model x",
    "record attribute k v",
    "undo",
]
WRITES += [
    "pause",
    "complete",
    "session fail",
    "session abort",
    "session abandon",
    "session reopen --because r",
    "session archive",
]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "elsewhere"
    path.mkdir()
    monkeypatch.chdir(path)
    return path


@pytest.mark.parametrize("line", WRITES)
def test_recording_without_a_session_creates_nothing(cli: Cli, home: Path, line: str) -> None:
    answer = cli(*line.split())
    assert answer.code == 3
    assert 'start one: forestay start "GOAL"' in answer.err
    assert not home.exists()


@pytest.mark.parametrize("line", WRITES)
def test_recording_does_not_guess_the_session_of_another_folder(
    cli: Cli, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = cli.start()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert cli(*line.split()).code == 3
    assert cli.json("status", "--session", session)["seq"] == 1


def test_error_lists_open_sessions_with_a_command_for_each(cli: Cli) -> None:
    cli.start("First", "--id", "first")
    cli.start("Second", "--id", "second")
    cli.ok("complete")
    answer = cli("record", "error", "x")
    assert answer.code == 3
    assert "the current session second is completed" in answer.err
    assert "→ forestay session use first  active  First" in answer.err
    cli.start("Third", "--id", "third")
    cli.ok("session", "use", "second")
    answer = cli("resume")
    assert answer.code == 3
    assert "→ forestay resume first  active  First" in answer.err


def test_choices_are_in_the_json_error(cli: Cli) -> None:
    cli.start("First", "--id", "first")
    cli.start("Second", "--id", "second")
    cli.ok("complete")
    error = cli("--json", "record", "tokens", "1").json["error"]
    assert error["choices"] == [{"session": "first", "status": "active", "goal": "First"}]


def test_shared_options_are_accepted_before_and_after_the_command(cli: Cli) -> None:
    cli.start("First", "--id", "first")
    cli.start("Second", "--id", "second")
    for argv in (
        ["--session", "first", "note", "x"],
        ["note", "--session", "first", "x"],
        ["note", "x", "--session=first"],
        ["--session", "first", "task", "--quiet", "add", "x"],
        ["task", "--session", "first", "add", "x"],
    ):
        cli.ok(*argv)
    assert cli.json("--session", "fir", "status")["seq"] == 6
    assert cli.json("status")["seq"] == 1


def test_home_and_store_options_select_another_home(cli: Cli, tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    cli.ok("--home", other, "start", "There")
    assert cli("status").code == 3
    assert cli.json("status", "--home", other)["goal"] == "There"
    cli.ok("--store", f"sqlite:{tmp_path / 'third'}", "start", "Elsewhere")
    assert (tmp_path / "third").exists()
    assert cli("--store", "mysql://x", "status").code == 2


def test_environment_variable_selects_the_session(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.start("First", "--id", "first")
    cli.start("Second", "--id", "second")
    monkeypatch.setenv("FORESTAY_SESSION", "first")
    assert cli.json("note", "x")["session"] == "first"
    assert cli.json("note", "x", "--session", "second")["session"] == "second"
    monkeypatch.setenv("FORESTAY_SESSION", "gone")
    assert cli("note", "x").code == 3
    assert cli("resume").code == 3


def test_empty_session_option_is_refused(cli: Cli) -> None:
    cli.start()
    assert cli("note", "x", "--session", "").code == 2
    assert cli.json("status")["seq"] == 1


def test_ambiguous_id_is_refused_with_choices(cli: Cli) -> None:
    cli.start("First", "--id", "login-1")
    cli.start("Second", "--id", "login-2")
    answer = cli("session", "use", "login")
    assert answer.code == 3
    assert "could be any of 2 sessions" in answer.err


def test_resume_selects_the_only_open_session(cli: Cli) -> None:
    cli.start("First", "--id", "first")
    cli.start("Second", "--id", "second")
    cli.ok("complete")
    assert cli.json("resume")["session"] == "first"
    assert cli.json("status")["session"] == "first"


def test_resume_accepts_the_beginning_of_a_session_id(cli: Cli, elsewhere: Path) -> None:
    cli.start("Here", "--id", "here")
    assert cli.json("resume", "he")["session"] == "here"
    assert cli("resume", "nowhere").code == 3


def test_resume_without_a_session_exits_3(cli: Cli) -> None:
    assert cli("resume").code == 3
    cli.start()
    cli.ok("complete")
    answer = cli("resume")
    assert answer.code == 3
    assert "forestay session reopen" in answer.err


def test_brief_shows_a_finished_current_session(cli: Cli) -> None:
    cli.start("Add login")
    cli.ok("complete")
    assert "Add login" in cli.ok("brief").out


@pytest.mark.parametrize("line", ["session use second", "resume second", "start Third"])
def test_choice_overridden_by_a_parent_process_is_reported(cli: Cli, line: str) -> None:
    cli.start("Second", "--id", "second")
    cli.start("First", "--id", "first")
    cli.ok("agent", "start", "a", "--pid", str(os.getpid()))
    reported = process(*line.split()).stderr.decode()
    assert "but a parent process uses first, so commands use that one" in reported
    assert process("note", "x").stdout.decode() == "#3 noted – in session first\n"


def test_choosing_the_session_that_a_parent_process_uses_prints_no_warning(cli: Cli) -> None:
    cli.start("First", "--id", "first")
    cli.ok("agent", "start", "a", "--pid", str(os.getpid()))
    assert "but" not in process("session", "use", "first").stderr.decode()
    assert process("note", "x").stdout.decode() == "#3 noted\n"


@pytest.mark.parametrize("pid", ["0", "1", "-1"])
def test_process_number_below_2_is_refused_for_an_agent(cli: Cli, pid: str) -> None:
    cli.start()
    assert cli("agent", "start", "a", "--pid", pid).code == 2
    assert cli.json("status")["seq"] == 1


@pytest.mark.parametrize(
    "line", ["note x", "record attribute k v", "record rename x", "record model x"]
)
def test_recording_in_a_finished_session_needs_its_name_and_warns(cli: Cli, line: str) -> None:
    cli.start("First", "--id", "first")
    cli.start("Second", "--id", "second")
    cli.ok("complete")
    answer = cli(*line.split())
    assert (answer.code, "→ forestay session use first" in answer.err) == (3, True)
    named = cli.ok(*line.split(), "--session", "second")
    assert "session second is completed" in named.err
    assert cli.ok(*line.split(), "--session", "first").err == ""
