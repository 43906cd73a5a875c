"""Output on a terminal: color, width, the pager, and no control sequences."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from forestay.cli.main import main
from forestay.cli.terminal import Screen
from tests.cli.support import Cli, Terminal

NASTY = "evil \u202egoal\u202c \u200bzero \u2066x\u2069"


def test_color_is_used_on_a_terminal_and_not_in_a_pipe(cli: Cli) -> None:
    cli.start()
    for argv in ([], ["status"], ["list"], ["log"], ["show"], ["note"], ["--help"]):
        answer = cli(*argv)
        assert "\x1b" not in answer.out + answer.err
        shown = cli(*argv, terminal=True)
        assert "\x1b[" in shown.out + shown.err
        plain = re.sub(r"\x1b\[[0-9;]*m", "", shown.out + shown.err)
        assert "\x1b" not in plain


@pytest.mark.parametrize("how", ["NO_COLOR", "TERM", "setting", "option"])
def test_color_can_be_switched_off(cli: Cli, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.start()
    argv = ["--no-color"] if how == "option" else []
    if how == "setting":
        cli.ok("config", "color", "never")
    elif how != "option":
        monkeypatch.setenv(how, "dumb")
    for line in ("status", "session use nowhere", "task --help", "--help", "nonsense"):
        answer = cli(*line.split(), *argv, terminal=True)
        assert "\x1b" not in answer.out + answer.err


def test_color_can_be_forced(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.start()
    monkeypatch.setenv("FORESTAY_COLOR", "always")
    assert "\x1b[" in cli.ok("status").out
    assert "\x1b" not in cli.ok("status", "--json").out


def test_tables_fit_a_terminal_and_are_complete_in_a_pipe(cli: Cli) -> None:
    goal = "a very long goal " * 20
    cli.start(goal, "--id", "long")
    cli.ok("note", "a very long remark " * 20)
    for line in ("list", "log", "show", "search remark"):
        shown = re.sub(r"\x1b\[[0-9;]*m", "", cli.ok(*line.split(), terminal=True).out)
        wide = [row for row in shown.splitlines()[1:] if len(row) > 80]
        assert not wide, line
    assert goal.strip() in cli.ok("list").out


def test_a_table_with_long_ids_fits_a_terminal_too(cli: Cli) -> None:
    cli.start("Add login " * 4, "--id", "workflow_default_005f838e-62a2-4922-a05f-3962698e3a06")
    lines = cli.ok("list", "--no-color", terminal=True).out.splitlines()
    assert all(len(line) <= 80 for line in lines), lines
    assert "workflow_default_005f838e-" in lines[1] and "Add login" in lines[1]


def test_remedies_that_do_not_fit_one_line_get_separate_lines(cli: Cli) -> None:
    cli.start()
    cli.ok("agent", "start", "code-1")
    lines = cli("agent", "start", "code-1", "--no-color", terminal=True).err.splitlines()
    assert "  → forestay agent done code-1" in lines
    assert all(len(line) <= 80 for line in lines), lines
    assert " · forestay agent done code-1 · " in cli("agent", "start", "code-1").err


def test_prose_is_indented_by_the_width_of_its_lead(home: Path) -> None:
    out = Terminal()
    Screen(out, out, None).prose("lead  ", "word " * 20)
    assert [line[:10] for line in out.getvalue().splitlines()] == ["lead  word", "      word"]
    assert all(len(line) <= 80 for line in out.getvalue().splitlines())


def test_word_longer_than_a_line_is_not_moved() -> None:
    out = Terminal()
    Screen(out, out, None).line("kept in ", "x" * 90)
    assert out.getvalue() == f"kept in {'x' * 90}\n"


def test_recorded_control_sequences_do_not_reach_the_terminal(cli: Cli) -> None:
    cli.start(NASTY, "--id", "nasty")
    cli.ok("note", NASTY, "--for-next")
    cli.ok("decide", NASTY, "--option", NASTY)
    cli.ok("record", "attribute", "k", NASTY)
    cli.ok("agent", "start", "a", "--task", NASTY)
    for line in ("", "status", "list", "log", "show", "diff 1 3", "brief", "search evil", "undo"):
        for terminal in (False, True):
            out = cli(*line.split(), terminal=terminal).out
            assert not set(out) & set("\u202e\u202c\u200b\u2066\u2069\x9b"), line


def test_withdrawn_events_are_struck_out_if_the_terminal_can_show_it(cli: Cli) -> None:
    cli.start()
    cli.ok("note", "wrong")
    cli.ok("undo")
    assert "\x1b[2;9mnote        wrong\x1b[0m" in cli.ok("log", terminal=True).out
    assert "~~note        wrong~~ (withdrawn)" in cli.ok("log").out
    assert "~~note        wrong~~" in cli.ok("log", "--no-color", terminal=True).out


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_terminal_of_any_encoding_gets_the_answer(cli: Cli, encoding: str) -> None:
    cli.start("Grüße – 漢字")
    for argv in (["list"], ["log"], []):
        data = io.BytesIO()
        out = io.TextIOWrapper(data, encoding=encoding)
        assert main(argv, out, io.StringIO()) == 0
        out.flush()
        text = data.getvalue().decode(encoding)
        assert "Gr" in text
        if encoding == "ascii":
            assert "\\u6f22" in text and "\\u2013" not in text


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-16"])
def test_json_is_utf_8_whatever_the_locale(cli: Cli, encoding: str) -> None:
    cli.start("Grüße 漢字")
    data = io.BytesIO()
    out = io.TextIOWrapper(data, encoding=encoding)
    assert main(["--json", "status"], out, io.StringIO()) == 0
    out.flush()
    assert "Grüße 漢字" in data.getvalue().decode("utf-8")


# -- the pager ---------------------------------------------------------------------------------


def test_long_output_goes_to_the_pager_and_short_output_does_not(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.start()
    monkeypatch.setenv("PAGER", f"cat > {tmp_path / 'paged'}")
    assert cli.ok("log", terminal=True).out
    assert not (tmp_path / "paged").exists()
    for number in range(30):
        cli.ok("note", str(number))
    assert cli.ok("log", terminal=True).out == ""
    assert (tmp_path / "paged").read_text().count("\n") == 31
    (tmp_path / "paged").unlink()
    assert cli.ok("log").out.count("\n") == 31
    assert not (tmp_path / "paged").exists()


def test_missing_pager_does_not_lose_the_answer(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORESTAY_PAGER", "no-such-program 2> /dev/null")
    assert "Exit codes" in cli.ok("help", "--all", terminal=True).out


def test_closed_stream_is_not_a_terminal() -> None:
    out = Terminal()
    screen = Screen(out, out, io.StringIO())
    assert screen.is_terminal
    closed = io.StringIO()
    closed.close()
    assert not Screen(closed, out, io.StringIO()).is_terminal
