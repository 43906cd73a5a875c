"""Every recording command records, confirms it, and the log shows it."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Cli

# Commands for a session that has tasks t1, t2 and agent a1, and the event kind they record.
RECORDS: dict[str, tuple[list[str], str, dict[str, Any]]] = {
    "note": (["note", "a remark"], "note.added", {"text": "a remark"}),
    "note for next": (["note", "--for-next", "x"], "note.added", {"text": "x", "for_next": True}),
    "decide": (
        ["decide", "db", "--because", "small", "--option", "A", "--option", "B", "--chosen", "A"],
        "decision.made",
        {"what": "db", "because": "small", "options": ["A", "B"], "chosen": "A"},
    ),
    "error": (
        ["record", "error", "503", "--category", "transient", "--agent", "a1"],
        "error.raised",
        {"message": "503", "category": "transient", "agent": "a1"},
    ),
    "command": (
        "record command pytest --arguments -q --status failure --duration-ms 12 --error failed"
        " --agent a1 --task t1 --model m".split(),
        "command.ran",
        {"name": "pytest", "arguments": "-q", "status": "failure", "duration_ms": 12}
        | {"error": "failed", "agent": "a1", "task": "t1", "model": "m"},
    ),
    "file with all": (
        f"record file a.py --action created --agent a1 --added 3 --removed 1"
        f" --before {'b' * 64} --after {'c' * 64}".split(),
        "file.changed",
        {"path": "a.py", "action": "created", "agent": "a1", "added": 3, "removed": 1}
        | {"before": "b" * 64, "after": "c" * 64},
    ),
    "tokens": (["record", "tokens", "2500"], "context.measured", {"tokens": 2500}),
    "tokens of an agent": (
        ["record", "tokens", "9", "--agent", "a1"],
        "context.measured",
        {"agent": "a1"},
    ),
    "compressed": (
        ["record", "compaction", "--summary", "s"],
        "context.compressed",
        {"summary": "s"},
    ),
    "rename": (["record", "rename", "New goal"], "session.renamed", {"goal": "New goal"}),
    "model": (["record", "model", "opus"], "attribute.set", {"key": "model", "value": "opus"}),
    "attr": (
        ["record", "attribute", "ticket", "P-1"],
        "attribute.set",
        {"key": "ticket", "value": "P-1"},
    ),
    "task add": (
        ["task", "add", "c", "--id", "t9", "--phase", "t1", "--agent", "a1"],
        "step.added",
        {"step": "t9", "title": "c", "parent": "t1", "agent": "a1"},
    ),
    "task start": (["task", "start", "t1"], "step.started", {"step": "t1"}),
    "task done": (
        ["task", "done", "t1", "--outcome", "ok", "--file", "x.py"],
        "step.completed",
        {"step": "t1", "outcome": "ok", "files": ["x.py"]},
    ),
    "task block": (["task", "block", "t1", "--because", "r"], "step.blocked", {"because": "r"}),
    "task skip": (["task", "skip", "t1", "--because", "r"], "step.skipped", {"because": "r"}),
    "agent start": (
        ["agent", "start", "a2", "--type", "dev", "--task", "x y", "--blocking-on", "a1"],
        "agent.started",
        {"agent": "a2", "type": "dev", "task": "x y", "blocking_on": "a1"},
    ),
    "agent progress": (["agent", "progress", "a1", "0.6"], "agent.progressed", {"fraction": 0.6}),
    "agent percent": (["agent", "progress", "a1", "60%"], "agent.progressed", {"fraction": 0.6}),
    "agent done": (
        "agent done a1 --result r --created c --modified m --deleted d".split(),
        "agent.finished",
        {"agent": "a1", "result": "r", "created": ["c"], "modified": ["m"], "deleted": ["d"]},
    ),
    "agent fail": (
        ["agent", "fail", "a1", "--error", "e", "--category", "resource"],
        "agent.failed",
        {"agent": "a1", "error": "e", "category": "resource"},
    ),
    "agent timeout": (["agent", "timeout", "a1"], "agent.timed_out", {"agent": "a1"}),
    "pause": (
        ["pause", "--reason", "system_error", "--context", "c"],
        "session.paused",
        {"reason": "system_error", "context": "c"},
    ),
    "complete": (["complete"], "session.completed", {}),
    "fail": (["session", "fail", "--because", "r"], "session.failed", {"because": "r"}),
    "abort": (["session", "abort"], "session.aborted", {}),
    "abandon": (["session", "abandon"], "session.abandoned", {}),
}


@pytest.fixture
def busy(cli: Cli) -> Cli:
    """Return the command line in a session with two tasks and a running agent."""
    cli.start("Add login")
    for line in ("task add one", "task add two", "agent start a1"):
        cli.ok(*line.split())
    return cli


@pytest.mark.parametrize("case", RECORDS)
def test_recording_command_stores_the_typed_values(busy: Cli, case: str) -> None:
    argv, kind, data = RECORDS[case]
    answer = busy.json(*argv)
    assert answer["event"]["kind"] == kind
    assert answer["seq"] == answer["event"]["seq"]
    last = busy.ok("log", "--json", "-n", "1").lines[-1]
    assert last["id"] == answer["event"]["id"]
    assert data.items() <= last["data"].items()
    assert last["actor"] == "cli"


@pytest.mark.parametrize("case", RECORDS)
def test_confirmation_has_the_number_of_the_event(busy: Cli, case: str) -> None:
    argv = RECORDS[case][0]
    answer = busy.ok(*argv)
    seq = busy.json("status")["seq"]
    assert answer.out.startswith(f"#{seq} ")
    assert answer.err == ""


@pytest.mark.parametrize("case", RECORDS)
def test_quiet_prints_no_confirmation(busy: Cli, case: str) -> None:
    answer = busy.ok(*RECORDS[case][0], "--quiet")
    assert (answer.out, answer.err) == ("", "")


@pytest.mark.parametrize("case", RECORDS)
def test_command_repeated_with_the_same_key_records_one_event(busy: Cli, case: str) -> None:
    first = busy.json(*RECORDS[case][0], "--key", "k1")
    again = busy.json(*RECORDS[case][0], "--key", "k1", "--session", first["session"])
    assert again["event"] == first["event"]
    assert again["seq"] == first["seq"]


def test_start_repeated_with_the_same_key_creates_one_session(cli: Cli) -> None:
    assert cli.start("x", "--key", "k") == cli.start("x", "--key", "k")
    assert len(cli.json("list")["sessions"]) == 1
    assert cli.start("x", "--key", "other") != cli.start("x", "--key", "k")


def test_task_can_be_blocked_and_unblocked_and_a_new_one_gets_the_next_free_id(busy: Cli) -> None:
    busy.ok("task", "block", "t1", "--because", "no data")
    assert "blocked" in busy.json("status")["attention"]
    busy.ok("task", "unblock", "t1")
    assert "blocked" not in busy.json("status")["attention"]
    busy.ok("task", "add", "mine", "--id", "t4")
    assert "task t5" in busy.ok("task", "add", "the next").out


def test_a_failed_agent_runs_again(busy: Cli) -> None:
    busy.ok("agent", "fail", "a1", "--error", "e")
    answer = busy.json("agent", "retry", "a1")
    assert answer["event"]["kind"] == "agent.retried"
    assert answer["running"] == ["a1"]


def test_agent_of_a_missing_process_is_not_recorded(busy: Cli) -> None:
    before = busy.json("status")["seq"]
    answer = busy("agent", "start", "a9", "--pid", "4194000")
    assert answer.code == 2
    assert busy.json("status")["seq"] == before


def test_record_file_determines_the_change(busy: Cli, project: Path) -> None:
    (project / "new.py").write_text("print()\n")
    assert "created new.py" in busy.ok("record", "file", "new.py").out
    (project / "new.py").write_text("print(1)\n")
    assert "modified new.py" in busy.ok("record", "file", str(project / "new.py")).out
    (project / "new.py").unlink()
    assert "deleted new.py" in busy.ok("record", "file", "new.py").out


def test_artifact_is_stored_unless_it_contains_a_secret(busy: Cli, project: Path) -> None:
    (project / "report.txt").write_text("all is well\n")
    assert "saved report.txt (12 bytes)" in busy.ok("record", "artifact", "report.txt").out
    (project / "keys.txt").write_text("password = correct-horse-battery\n")
    assert "only the digest" in busy.ok("record", "artifact", "keys.txt").out


def test_secret_is_removed_and_that_is_reported(busy: Cli) -> None:
    answer = busy.ok("note", "token ghp_" + "a1B2" * 9)
    assert "– removed" in answer.out
    assert "ghp_" not in busy.ok("log").out


SECRET = "ghp_" + "a1B2" * 9
ECHOES = {
    "attr": ["record", "attribute", "remark", SECRET],
    "attr by its name": ["record", "attribute", "api_token", "hunter2hunter2"],
    "model": ["record", "model", SECRET],
    "rename": ["record", "rename", f"use {SECRET} now"],
    "task add": ["task", "add", f"use {SECRET}"],
    "agent start": ["agent", "start", "a7", "--task", f"use {SECRET}"],
    "agent done": ["agent", "done", "a1", "--result", SECRET],
    "decide": ["decide", "key", "--option", SECRET, "--option", "B", "--chosen", "B"],
    "command": ["record", "command", SECRET],
    "pause": ["pause", "--context", SECRET],
    "start": ["start", f"use {SECRET}"],
}


@pytest.mark.parametrize("case", ECHOES)
def test_a_secret_is_never_printed_back(busy: Cli, case: str) -> None:
    answer = busy.ok(*ECHOES[case], terminal=True)
    assert "hunter2" not in answer.out and SECRET[4:] not in answer.out + answer.err
    assert "– removed" in answer.out
    assert busy.ok("undo" if case != "start" else "pause").code == 0
    assert busy.json(*ECHOES[case])["event"]["redacted"]


def test_repeated_key_is_reported_as_already_recorded(busy: Cli) -> None:
    assert busy.ok("note", "x", "--key", "k").out == "#5 noted\n"
    assert busy.ok("note", "x", "--key", "k").out == "#5 already recorded: noted\n"
    assert busy.json("note", "x", "--key", "k")["repeated"] is True
    assert busy.json("note", "y", "--key", "l")["repeated"] is False
    busy.ok("start", "Another", "--key", "s")
    assert busy.ok("start", "Another", "--key", "s").out.startswith("Already started: session ")


def test_recording_in_a_damaged_session_warns(busy: Cli, home: Path) -> None:
    connection = sqlite3.connect(home / "forestay.db")
    with connection:
        connection.execute("UPDATE event SET data = CAST(replace(data, 'o', '0') AS BLOB)")
    connection.close()
    answer = busy.ok("note", "x")
    assert "is damaged; see what is wrong: forestay verify" in answer.err
    assert busy.json("note", "y")["damaged"] is True
    assert busy.ok("note", "z", "--quiet").err == ""


def test_complete_names_open_tasks_and_agents(busy: Cli) -> None:
    busy.ok("task", "done", "t1")
    answer = busy.ok("complete")
    assert "completed; left open: 1 task (t2), 1 agent (a1)" in answer.out
    busy.ok("session", "reopen", "--because", "more")
    assert busy.json("complete")["left_open"] == {"tasks": ["t2"], "agents": ["a1"]}
    busy.start("Nothing to do")
    assert busy.ok("complete").out == "#2 completed\n"


def test_huge_file_is_not_hashed_and_that_is_reported(busy: Cli, project: Path) -> None:
    with open(project / "huge.bin", "wb") as file:
        file.truncate(30 * 10**9)
    answer = busy.ok("record", "file", "huge.bin")
    assert "created huge.bin (30,000,000,000 bytes, not hashed" in answer.out
    assert "modified huge.bin" in busy.ok("record", "file", "huge.bin").out
    assert "after" not in busy.ok("log", "--json", "-n", "1").lines[0]["data"]
    assert "huge.bin changed" not in busy.ok("brief").out


def test_a_dash_reads_the_text_from_standard_input(busy: Cli) -> None:
    busy.ok("note", "-", source="from a pipe\n")
    assert busy.ok("log", "--json", "-n", "1").lines[0]["data"]["text"] == "from a pipe"


@pytest.mark.parametrize("word", ["--help", "-h", "--version", "--json", "-q"])
def test_arguments_of_a_recorded_command_are_not_our_options(busy: Cli, word: str) -> None:
    assert busy.ok("record", "command", "tool", "--arguments", word).out == "#5 tool: success\n"
    assert busy.ok("log", "--json", "-n", "1").lines[0]["data"]["arguments"] == word


def test_undo_shows_what_was_withdrawn_and_how_to_restore_it(busy: Cli) -> None:
    busy.ok("note", "by mistake")
    answer = busy.ok("undo")
    assert "withdrawn: #5 note by mistake" in answer.out
    assert "forestay undo 6" in answer.out
    assert "~~note        by mistake~~ (withdrawn)" in busy.ok("log").out
    assert [line["retracted"] for line in busy.ok("log", "--json", "-n", "2").lines] == [
        True,
        False,
    ]
    busy.ok("undo", "6")
    assert "withdrawn)" not in busy.ok("log").out.splitlines()[4]


def test_undo_withdraws_the_event_that_is_named(busy: Cli) -> None:
    first = busy.json("note", "one")["event"]
    busy.ok("note", "two")
    assert "#5 note one" in busy.ok("undo", first["id"], "--because", "wrong").out


ATTRIBUTES: dict[str, Any] = {
    "42": 42,
    "0.5": 0.5,
    "true": True,
    "null": None,
    "1.10": "1.10",
    "007": "007",
    "nan": "nan",
    "1e400": "1e400",
    "text": "text",
}


@pytest.mark.parametrize("word", ATTRIBUTES)
def test_attribute_is_a_number_only_if_it_is_written_back_unchanged(busy: Cli, word: str) -> None:
    busy.ok("record", "attribute", "x", word)
    value = busy.ok("log", "--json", "-n", "1").lines[0]["data"]["value"]
    assert value == ATTRIBUTES[word] and type(value) is type(ATTRIBUTES[word])
    busy.ok("record", "attribute", "x", word, "--text")
    assert busy.ok("log", "--json", "-n", "1").lines[0]["data"]["value"] == word


def test_progress_attribute_sets_the_progress(busy: Cli) -> None:
    assert busy.json("record", "attribute", "progress", "0.4")["progress"] == 0.4


def test_other_working_processes_are_named_on_the_error_stream(busy: Cli) -> None:
    # Another process, alive until the end of the test.
    busy.ok("agent", "start", "a2", "--pid", str(_some_other_process()))
    answer = busy.ok("note", "x")
    assert "also working on this session: agent a2" in answer.err
    assert answer.out == "#6 noted\n"
    assert busy.json("note", "y")["others"][0]["agent"] == "a2"
    assert busy.ok("note", "z", "--quiet").err == ""


def _some_other_process() -> int:
    import subprocess
    import sys

    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    _children.append(child)
    return child.pid


_children: list[Any] = []


@pytest.fixture(autouse=True)
def _end_children() -> Any:
    yield
    while _children:
        child = _children.pop()
        child.kill()
        child.wait()
        child.stdin.close()


def test_parent_process_is_not_reported_as_another_one(busy: Cli) -> None:
    busy.ok("agent", "start", "a2", "--pid", str(os.getpid()))
    assert busy.ok("note", "x").err == ""


def test_chosen_option_holds_until_another_is_recorded(busy: Cli) -> None:
    busy.ok("decide", "database", "--option", "SQLite", "--option", "Postgres", "--chosen=SQLite")
    busy.ok("decide", "database", "--because", "one file")
    (row,) = busy.json("show")["rows"]["decision"]
    assert (row["chosen"], row["rejected"]) == ("SQLite", ["Postgres"])
    assert (row["options"], row["because"]) == (["SQLite", "Postgres"], "one file")
    assert "database: SQLite (rejected: Postgres), because one file" in busy.ok("brief").out
    busy.ok("decide", "database", "--chosen", "Postgres")
    (row,) = busy.json("show")["rows"]["decision"]
    assert (row["chosen"], row["rejected"]) == ("Postgres", ["SQLite"])


def test_options_without_a_choice_are_shown_as_open(busy: Cli) -> None:
    kept = busy.ok("decide", "queue", "--option", "Redis", "--option", "Rabbit")
    assert "still open: Redis, Rabbit" in kept.out
    assert "queue (still open: Redis; Rabbit)" in busy.ok("brief").out
    assert "queue – still open: Redis, Rabbit" in busy.ok("show").out
    assert "queue – still open: Redis, Rabbit" in busy.ok("log").out


def test_file_that_never_existed_is_not_recorded_as_deleted(busy: Cli, project: Path) -> None:
    answer = busy("record", "file", "nope.py")
    assert (answer.code, "there is no such file: nope.py" in answer.err) == (2, True)
    assert "forestay record file nope.py --action deleted" in answer.err
    assert busy.json("status")["seq"] == 4
    busy.ok("record", "file", "nope.py", "--action", "deleted")
    (project / "here.py").write_text("x")
    busy.ok("record", "file", "here.py")
    (project / "here.py").unlink()
    assert busy.ok("record", "file", "here.py").out == "#7 deleted here.py\n"


def test_newly_registered_process_is_not_reported_as_another_one(cli: Cli) -> None:
    cli.start("Add login")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        started = cli.ok("agent", "start", "a1", "--pid", str(child.pid))
        assert "also working" not in started.err
        assert cli.json("agent", "start", "a2", "--pid", str(child.pid))["others"] == []
        assert "also working" in cli.ok("note", "from elsewhere").err
        child.communicate(b"\n")


def test_session_tokens_are_those_of_its_agents_until_measured(cli: Cli) -> None:
    cli.start("Add login")
    for line in ("agent start a1", "agent start a2", "record tokens 100 --agent a1"):
        cli.ok(*line.split())
    cli.ok("record", "tokens", "900", "--agent", "a1")
    cli.ok("record", "tokens", "12000", "--agent", "a2")
    assert cli.json("status")["tokens"] == 12_900
    assert "12,900 tokens" in cli.ok("status").out
    assert "12,900 tokens used (10%)" in cli.ok("brief").out
    assert "tokens   12,900" in cli.ok("show").out
    cli.ok("undo", "5")
    assert cli.json("status")["tokens"] == 12_100
    cli.ok("record", "tokens", "20000")
    assert cli.json("status")["tokens"] == 20_000
    assert cli.ok("verify").code == 0


def test_task_with_later_events_is_undone_only_after_them(cli: Cli) -> None:
    cli.start("Add login")
    cli.ok("task", "add", "write it")
    cli.ok("task", "start", "t1")
    cli.ok("task", "add", "a part of it", "--phase", "t1")
    refused = cli("undo", "2")
    assert refused.code == 4
    assert "#3, #4 refer to it" in refused.err
    assert "forestay task skip t1 --because" in refused.err
    cli.ok("undo", "4")
    cli.ok("undo", "3")
    cli.ok("undo", "2")
    assert cli.json("task")["tasks"] == []


def test_undo_withdraws_everything_that_a_command_recorded(cli: Cli) -> None:
    cli.start("Add login")
    cli.ok("task", "add", "write it")
    cli.ok("task", "block", "t1", "--because", "no design")
    printed = cli.ok("undo").out
    assert "withdrawn: #3 task start t1, #4 blocked t1 – no design" in printed
    assert cli.json("task")["tasks"][0]["status"] == "pending"
    assert "forestay undo 6" in printed
    cli.ok("undo", "6")
    assert cli.json("task")["tasks"][0]["status"] == "blocked"
    assert cli.ok("verify").code == 0


def test_undoing_a_completion_restores_the_paused_status(cli: Cli) -> None:
    cli.start("Add login")
    cli.ok("pause")
    cli.ok("complete")
    cli.ok("undo")
    assert cli.json("status")["status"] == "paused"
