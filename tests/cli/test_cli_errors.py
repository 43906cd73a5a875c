"""What goes wrong: exit codes, three-part messages, and nothing written for bad input."""

from __future__ import annotations

import fcntl
import os
import shlex
from pathlib import Path

import pytest

from forestay import errors
from forestay.cli.table import COMMANDS
from tests.cli.support import Answer, Cli

GOALS = {
    "empty": "",
    "blank": " \t\n",
    "invisible": "\u200b\u200e",
    "too long": "x" * 2001,
    "NUL": "a\0b",
    "bell": "a\x07b",
    "escape": "a\x1b[31mb",
    "two lines": "a\nb",
    "half a character": "a\udcffb",
    "half a pair": "a\ud83d",
}
IDS = ["../x", "CON", "x" * 300, "..", ".x", "a/b", "a b", "-x", "é", "a..b", "nul.txt", "a\n"]


@pytest.mark.parametrize("case", GOALS)
def test_goal_that_cannot_be_stored_exits_2_and_creates_nothing(
    cli: Cli, home: Path, case: str
) -> None:
    answer = cli("start", GOALS[case])
    assert answer.code == 2, answer
    assert answer.err.startswith("error: ")
    assert not home.exists()


def test_goal_of_ten_megabytes_exits_2_and_creates_nothing(cli: Cli, home: Path) -> None:
    assert cli("start", "-", source="x" * 10_000_000).code == 2
    assert not home.exists()


@pytest.mark.parametrize("id", IDS)
def test_id_that_is_not_a_file_name_exits_2_and_creates_nothing(
    cli: Cli, home: Path, id: str
) -> None:
    assert cli("start", "goal", f"--id={id}").code == 2
    assert not home.exists()


def test_option_without_its_value_is_refused(cli: Cli) -> None:
    answer = cli("note", "x", "--session")
    assert answer.code == 2
    assert answer.err.startswith("error: --session needs a value\n")


@pytest.mark.parametrize("id", IDS)
def test_ids_of_tasks_and_agents_are_checked(cli: Cli, id: str) -> None:
    cli.start()
    assert cli("task", "add", "x", f"--id={id}").code == 2
    assert cli("agent", "start", "--", id).code == 2
    assert cli.json("status")["seq"] == 1


@pytest.mark.parametrize("id", [*IDS, "no-such", "%", "*", "' OR 1"])
def test_missing_session_or_invalid_session_id_exits_2_or_3(cli: Cli, id: str) -> None:
    cli.start()
    assert cli("session", "use", "--", id).code in (2, 3)
    assert cli("note", "x", f"--session={id}").code in (2, 3)
    assert cli.json("status")["seq"] == 1


TEXTS = ["", " ", "a\0b", "a\x1b[2Jb", "a\udcff", "x" * 2_000_000]


@pytest.mark.parametrize("text", TEXTS)
def test_text_that_cannot_be_stored_exits_2_and_records_nothing(cli: Cli, text: str) -> None:
    cli.start()
    for argv in (
        ["note"],
        ["decide"],
        ["record", "error"],
        ["record", "rename"],
        ["task", "add"],
        ["record", "command"],
    ):
        assert cli(*argv, "--", text).code == 2, argv
    for argv in (
        ["pause", "--context"],
        ["session", "fail", "--because"],
        ["record", "compaction", "--summary"],
    ):
        if text.strip():
            assert cli(*argv, text).code == 2, argv
    assert cli.json("status")["seq"] == 1


USAGE = [
    "nonsense",
    "task nonsense",
    "note",
    "note a b",
    "note x --nonsense",
    "start g --mode nonsense",
    "record error x --category nonsense",
    "record tokens many",
    "record tokens -5",
    "record tokens 1.5",
    "record tokens ٣",
    "log -n x",
    "log -n -1",
    "list -n many",
    "list --status nonsense",
    "agent progress a 1.5",
    "agent progress a nan",
    "agent progress a -0.1",
    "agent progress a x%",
    "agent fail a",
    "task block t",
    "session reopen",
    "record command x --duration-ms soon",
    "record command x --status maybe",
    "record file a --added -1",
    "pause --reason because",
    "brief --format html",
    "brief --budget 1e3",
    "config completion tcsh",
    "--home",
    "--session",
    "search",
    "diff",
    "agent start a --pid 99999999999999999999",
]


@pytest.mark.parametrize("line", USAGE)
def test_wrong_usage_exits_2_with_a_hint(cli: Cli, line: str) -> None:
    cli.start()
    answer = cli(*line.split())
    assert answer.code == 2, answer
    assert answer.out == ""
    first, *_, last = answer.err.splitlines()
    assert first.startswith("error: ") and last.startswith("  → ")
    assert cli.json("status")["seq"] == 1
    assert cli("--json", *line.split()).json["error"]["code"] == 2


NEAR = {
    "statsu": "forestay status",
    "startt x": "forestay start",
    "unblock t1": "forestay task unblock",
    "task startt t1": "forestay task start",
    "note x --for-nxt": "--for-next",
    "config brief_bugdet": "brief_budget",
    "log 3": "forestay log -n 3",
    "show 5": "forestay show --at 5",
    "show #5": "forestay show --at 5",
    "list 5": "forestay list -n 5",
    "session use logn": "login",
    "format add craft": "forestay files?",
    "task done mailx": "mail",
    "agent done cod-1": "code-1",
}


def test_error_for_a_bad_option_value_lists_the_valid_ones(cli: Cli) -> None:
    wrong = cli("start", "x", "--mode", "fast")
    assert (wrong.code, wrong.err.splitlines()[0]) == (2, "error: --mode cannot be fast")
    assert wrong.err.splitlines()[1] == "  it is one of default, debug, optimize, release"
    assert cli("log", "-n", "x").err.startswith("error: -n: 'x' is not a whole number")


@pytest.mark.parametrize("line", NEAR)
def test_misspelt_word_is_answered_with_a_suggestion(cli: Cli, line: str) -> None:
    cli.start("Add login", "--id", "login")
    cli.ok("task", "add", "send it", "--id", "mail")
    cli.ok("agent", "start", "code-1")
    assert f"did you mean{NEAR[line]}" in cli(*line.split()).err.replace(
        "did you mean: ", "did you mean"
    ).replace("did you mean ", "did you mean")


def test_task_named_by_its_title_is_suggested_by_its_id(cli: Cli) -> None:
    cli.start("Add login")
    cli.ok("task", "add", "write the lexer")
    cli.ok("task", "add", "write the grammar")
    assert "did you mean t1?" in cli("task", "done", "write the lexer").err
    assert "did you mean" not in cli("task", "done", "deploy").err


def test_unexpected_word_is_answered_with_the_right_spelling(cli: Cli) -> None:
    cli.start()
    assert "forestay show --session fix-login" in cli("show", "fix-login").err
    assert 'in quotes: forestay note "…"' in cli("note", "two", "words").err
    what, hint = cli("-x").err.splitlines()
    assert (what, hint) == ("error: there is no option -x", "  → see: forestay --help")


def test_refusal_names_the_commands_that_are_possible(cli: Cli) -> None:
    cli.start("Add login", "--id", "login")
    cli.ok("task", "add", "one")
    cli.ok("task", "block", "t1", "--because", "no")
    answer = cli("task", "done", "t1")
    assert answer.code == 4
    assert "→ forestay task unblock t1 · forestay task start t1\n" in answer.err
    refused = cli("--json", "task", "done", "t1").json["error"]
    assert refused["legal"] == ["task unblock t1", "task start t1"]
    assert cli("task", "done", "t7").code == 4


def test_completing_a_task_twice_is_refused_and_only_real_commands_are_suggested(cli: Cli) -> None:
    cli.start()
    cli.ok("task", "add", "one")
    cli.ok("task", "done", "t1")
    what, hint = cli("task", "done", "t1").err.splitlines()
    assert what == "error: task t1 is done already"
    assert "forestay undo" in hint and "forestay task add" in hint
    assert cli("--json", "task", "done", "t1").json["error"]["legal"] == []


def test_pausing_a_paused_session_is_reported(cli: Cli) -> None:
    cli.start("Add login")
    cli.ok("pause")
    assert "  it is paused already\n" in cli("pause").err


def test_starting_an_existing_session_suggests_resuming_it(cli: Cli) -> None:
    cli.start("Add login", "--id", "login")
    assert "→ forestay resume login\n" in cli("start", "again", "--id", "login").err
    cli.ok("complete")
    answer = cli("start", "again", "--id", "login")
    assert answer.code == 4
    assert '→ forestay session reopen --because "…" --session login\n' in answer.err


def test_locked_store_exits_6_and_names_the_holder(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.start()
    monkeypatch.setenv("FORESTAY_BUSY_TIMEOUT", "0")
    lock = os.open(home / "writer.lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        answer = cli("--json", "note", "x")
    finally:
        os.close(lock)
    assert answer.code == 6
    assert answer.json["error"]["retryable"] is True
    assert "pid" in answer.json["error"]["what"]
    assert cli.json("status")["seq"] == 1


@pytest.mark.parametrize("content", [b"", b"garbage" * 1000])
def test_file_that_is_not_a_database_exits_5_and_is_not_changed(
    cli: Cli, home: Path, content: bytes
) -> None:
    cli.start()
    for name in ("forestay.db-wal", "forestay.db-shm"):
        (home / name).unlink(missing_ok=True)
    (home / "forestay.db").write_bytes(content)
    for line in ("status", "list", "note x", "resume", "verify", "doctor", "start again"):
        answer = cli(*line.split())
        assert answer.code == 5, (line, answer)
        assert "forestay doctor" in answer.err + answer.out
    assert (home / "forestay.db").read_bytes() == content


def test_home_that_is_a_file_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    answer = cli("start", "x", "--home", str(tmp_path / "file"))
    assert answer.code in (1, 2, 6), answer
    assert answer.err.count("\n") >= 2


def test_bug_is_reported_in_one_line_and_with_a_traceback_on_request(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    from forestay.api.forestay import Forestay

    def broken(self: Forestay, **_: object) -> None:
        raise KeyError("secret plan")

    monkeypatch.setattr(Forestay, "list", broken)
    answer = cli("list")
    assert answer.code == 1
    assert answer.err.startswith("error: this is a bug: KeyError: 'secret plan'\n")
    assert "Traceback" not in answer.err and ", line " in answer.err
    assert cli("--json", "list").json["error"]["code"] == 1
    monkeypatch.setenv("FORESTAY_DEBUG", "1")
    assert "Traceback" in cli("list").err


def test_every_error_class_has_a_documented_exit_code() -> None:
    codes = {code for code, _ in errors.EXIT_CODES}
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.ForestayError)
    ]
    assert len(kinds) == 21
    assert {kind.exit_code for kind in kinds} <= codes
    assert codes == {0, 1, 2, 3, 4, 5, 6, 7, 8, 130}


def test_error_has_what_why_and_a_helpful_command(cli: Cli) -> None:
    cli.start()
    what, why, hint = cli("start", "g", "--id", "CON").err.splitlines()
    assert what == "error: session id 'CON' cannot be used"
    assert why == "  Windows reserves this name for a device"
    assert hint.startswith("  → use 1 to 64 letters")


def test_hints_suggest_a_remedy(cli: Cli) -> None:
    cli.start("First", "--id", "first")
    cli.ok("backup", "export", "first.fspack")
    assert "--force" in cli("backup", "export", "first.fspack").err
    assert "pause" not in cli("session", "archive").err
    assert "did you mean" not in cli("config", "nope").err
    assert "sqlite:PATH" in cli("--store", "/x.db", "status").err
    cli.ok("session", "abort")
    for line in (["resume"], ["resume", "first"], ["record", "error", "x"]):
        assert 'forestay start "GOAL" --from first' in cli(*line).err


def shown_line(answer: Answer) -> str:
    """Return the first command that an error suggests, as a user would paste it."""
    (arrow,) = [line for line in answer.err.splitlines() if line.startswith("  → ")]
    return arrow.removeprefix("  → ").removeprefix("first ").split(" · ")[0]


def test_suggested_command_repeats_the_named_session_and_home(cli: Cli, tmp_path: Path) -> None:
    elsewhere = ("--home", str(tmp_path / "else where"))
    cli.start("First", "--id", "first", *elsewhere)
    cli.start("Second", "--id", "second", *elsewhere)
    cli.ok("task", "add", "x", "--session", "first", *elsewhere)
    cli.ok("pause", "--session", "first", *elsewhere)
    refused = cli("task", "start", "t1", "--session", "first", *elsewhere)
    assert refused.code == 4
    line = shown_line(refused)
    assert line == f"forestay --home '{tmp_path}/else where' --session first resume"
    cli.ok(*shlex.split(line)[1:])
    assert cli.json("status", "--session", "first", *elsewhere)["status"] == "active"
    assert cli.json("status", "--session", "second", *elsewhere)["resumes"] == 0


@pytest.mark.parametrize(
    "line, typed",
    [
        ("forestay resume · forestay log", "forestay {0} resume · forestay {0} log"),
        ("forestay resume other", "forestay resume other"),
        ("forestay list", "forestay list"),
        ("see: forestay log --help", "see: forestay log --help"),
        ('forestay task add "…" --id t9', 'forestay {0} task add "…" --id t9'),
        ('forestay start "GOAL"', 'forestay start "GOAL"'),
        ("no command in it", "no command in it"),
    ],
)
def test_only_commands_of_one_session_get_a_session_option(line: str, typed: str) -> None:
    from forestay.cli.suggestions import as_typed

    assert as_typed(line, {"--session": "mine"}) == typed.format("--session mine")


def test_json_error_suggests_the_same_command(cli: Cli) -> None:
    cli.start("First", "--id", "first")
    error = cli("--json", "session", "archive", "--session", "first").json["error"]
    assert error["hint"].startswith("first forestay --session first complete · ")
    assert error["legal"][0] == "pause"


TOKEN = "ghp_" + "a1B2" * 9


@pytest.mark.parametrize(
    "line",
    [
        f"{TOKEN}",
        f"note one {TOKEN}",
        f"task done {TOKEN}",
        f"record tokens {TOKEN}",
        f"log -n {TOKEN}",
        f"undo {TOKEN}",
        f"pause --reason {TOKEN}",
        f"config {TOKEN}",
        f"status --session {TOKEN}",
        "note one postgres://bob:s3/cr3t@db",
    ],
)
def test_error_does_not_repeat_a_typed_secret(cli: Cli, line: str) -> None:
    cli.start("Add login")
    for answer in (cli(*line.split()), cli("--json", *line.split())):
        assert answer.code not in (0, 1)
        assert TOKEN not in answer.out + answer.err
        assert "s3/cr3t" not in answer.out + answer.err
        assert "[redacted:" in answer.out + answer.err


def test_error_does_not_repeat_text_that_matches_a_users_secret_pattern(cli: Cli) -> None:
    cli.start("Add login")
    cli.ok("config", "redact_patterns", "acme-[0-9]+")
    assert "acme-4711" not in cli("task", "done", "acme-4711").err


@pytest.mark.parametrize(
    "value, why", [("65", "65% is 0.65"), ("-1", "0 to 1"), ("half", "0 to 1")]
)
def test_invalid_progress_is_refused_with_the_reason(cli: Cli, value: str, why: str) -> None:
    cli.start("Add login")
    answer = cli("record", "attribute", "progress", "--", value)
    assert answer.code == 2 and why in answer.err
    cli.ok("record", "attribute", "progress", "0.65")
    assert cli.json("status")["progress"] == 0.65
    cli.ok("record", "attribute", "progress", "null")
    assert cli.json("status")["progress_from"] == "none"


def test_numeric_password_is_not_stored(cli: Cli) -> None:
    cli.start("Add login")
    answer = cli.ok("record", "attribute", "password", "81726354")
    assert "81726354" not in answer.out and "removed, it looked secret" in answer.out
    assert "81726354" not in cli.ok("log", "--json").out


def test_missing_arguments_are_named(cli: Cli) -> None:
    assert "SESSION and WHO are missing" in cli("share", "remove").err
    assert "WHO is missing" in cli("share", "remove", "login").err


# -- words that no command accepts -------------------------------------------------------------


@pytest.mark.parametrize("word", ["", "x" * 5000, "../x", "a\nb"])
def test_extra_word_after_any_command_does_not_cause_a_bug(cli: Cli, word: str) -> None:
    cli.start("Add login", "--id", "login")
    for name in sorted(COMMANDS.keys() - {""}):
        answer = cli(*name.split(), word)
        assert answer.code in {code for code, _ in errors.EXIT_CODES}, (name, answer)
        assert "this is a bug" not in answer.err and "Traceback" not in answer.err, (name, answer)


def test_very_long_session_id_is_shortened_in_the_error(cli: Cli) -> None:
    cli.start("Add login", "--id", "login")
    answer = cli("session", "use", "x" * 100_000)
    assert answer.code == 3 and len(answer.err) < 300
