"""Commands that only read: status, list, log, search, show and diff."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.cli.support import Cli


def test_forestay_without_command_explains_the_first_steps_and_creates_nothing(
    cli: Cli, home: Path
) -> None:
    answer = cli.ok()
    assert 'forestay start "what you want to get done"' in answer.out
    assert not home.exists()
    assert cli.json()["session"] is None


def test_forestay_without_command_shows_the_status_and_the_next_command(cli: Cli) -> None:
    cli.start("Add login")
    cli.ok("pause")
    answer = cli.ok()
    assert answer.out.startswith("Add login\n")
    assert answer.out.endswith("→ forestay resume\n")
    assert cli.json()["status"] == "paused"


def test_forestay_without_command_and_current_session_lists_open_ones(cli: Cli) -> None:
    cli.start("First", "--id", "first")
    cli.start("Second", "--id", "second")
    cli.ok("session", "forget", "second", "--yes")
    answer = cli.ok()
    assert "none of them current" in answer.out
    assert "→ forestay resume first" in answer.out
    assert [one["session"] for one in cli.json()["sessions"]] == ["first"]


def test_forestay_without_command_lists_ten_sessions_and_counts_the_rest(cli: Cli) -> None:
    for n in range(13):
        cli.start("Add login", "--id", f"s{n}")
    cli.start("Gone", "--id", "gone")
    cli.ok("session", "forget", "gone", "--yes")
    answer = cli.ok()
    assert answer.out.count("Add login") == 10
    assert "\n… and 3 more: forestay list\n" in answer.out
    assert len(cli.json()["sessions"]) == 13


READS = ["", "status", "list", "list --all", "log", "search x", "show", "diff 1 2", "verify"]
READS += ["doctor", "config", "brief", "config completion bash", "help", "--help", "--version"]


@pytest.mark.parametrize("line", READS)
def test_read_only_commands_create_nothing_in_a_fresh_home(cli: Cli, home: Path, line: str) -> None:
    assert cli(*line.split()).code in (0, 3)
    assert not home.exists()


def test_status_shows_the_state_of_the_session(cli: Cli) -> None:
    cli.start("Add login", "--id", "login")
    for line in (
        "task add one",
        "task add two",
        "task done t1",
        "agent start a1",
        "record tokens 2500",
    ):
        cli.ok(*line.split())
    lines = cli.ok("status").out.splitlines()
    assert lines[0] == "Add login"
    shown = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines[1:]}
    assert shown["session"] == "login in project"
    assert shown["status"] == "active · 1 of 2 tasks done"
    assert shown["next"] == "start t2: two"
    assert shown["agents"] == "1 running (a1; process not tracked)"
    assert shown["context"] == "2,500 tokens"
    assert shown["last"].startswith("#7, ")


def test_skipped_task_is_not_counted_as_done(cli: Cli) -> None:
    cli.start()
    for line in ("task add one", "task add two", "task add three", "task done t1"):
        cli.ok(*line.split())
    assert "1 of 3 tasks done\n" in cli.ok("status").out
    cli.ok("task", "skip", "t2", "--because", "no need")
    assert "1 of 3 tasks done, 1 skipped\n" in cli.ok("status").out
    assert cli.json("status")["steps"] == {"done": 1, "skipped": 1, "total": 3}


def test_folder_name_that_is_not_utf_8_is_shown_with_a_replacement(
    cli: Cli, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = os.path.join(os.fsencode(project), b"n\xff")
    os.mkdir(folder)
    monkeypatch.chdir(os.fsdecode(folder))
    cli.start()
    assert " in n\ufffd\n" in cli.ok("status").out
    assert cli.json("list", "--all")["sessions"][0]["project"] == "n\ufffd"


def test_log_shows_the_full_name_of_the_writer_of_a_file(cli: Cli, project: Path) -> None:
    cli.start("Add login", "--bind", "orchestrator")
    file = project / ".claude/orchestrator-session.json"
    file.write_text(file.read_text().replace('"Add login"', '"Add logout"'))
    cli.ok("note", "taken up")
    assert re.search(r" orchestrator +renamed +Add logout", cli.ok("log").out)


def test_list_has_the_newest_session_first_and_marks_the_current_one(cli: Cli) -> None:
    cli.start("First", "--id", "first")
    cli.start("Second", "--id", "second")
    head, second, first = cli.ok("list").out.splitlines()
    assert head.split() == ["SESSION", "STATUS", "DONE", "LAST", "EVENT", "GOAL"]
    assert second.split()[:3] == ["*", "second", "active"]
    assert first.split()[0] == "first"
    answer = cli.json("list")
    assert answer["current"] == "second" and not answer["more"]


def test_list_filters_and_respects_the_limit(cli: Cli) -> None:
    for number in range(3):
        cli.start(f"goal {number}", "--id", f"s{number}")
    cli.ok("pause")
    assert [one["session"] for one in cli.json("list", "--status", "paused")["sessions"]] == ["s2"]
    few = cli.json("list", "-n", "2")
    assert len(few["sessions"]) == 2 and few["more"]
    assert "forestay list -n 0" in cli.ok("list", "-n", "1").out
    assert len(cli.json("list", "-n", "0")["sessions"]) == 3
    assert "There are no failed sessions" in cli.ok("list", "--status", "failed").out


def test_another_folder_has_its_own_list_and_all_shows_both(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.start("First", "--id", "first")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert cli.json("list")["sessions"] == []
    assert "forestay list --all" in cli.ok("list").out
    everywhere = cli.json("list", "--all")["sessions"]
    assert [(one["session"], one["project"]) for one in everywhere] == [("first", "project")]
    assert "project" in cli.ok("list", "--all").out


def test_log_shows_every_event_in_order(cli: Cli) -> None:
    cli.start("Add login")
    cli.ok("note", "one")
    cli.ok("decide", "db", "--option", "A", "--option", "B", "--chosen", "A", "--because", "x")
    lines = cli.ok("log").out.splitlines()
    assert [line.split()[0] for line in lines] == ["#1", "#2", "#3"]
    assert lines[1].endswith("cli          note        one")
    assert lines[2].endswith("decision    db – A – not B – because x")
    assert [line["seq"] for line in cli.ok("log", "--json", "-n", "2").lines] == [2, 3]
    assert cli.ok("log", "-n", "1").out.startswith("#3")


def test_log_is_complete_in_a_pipe_and_with_full_on_a_terminal(cli: Cli) -> None:
    cli.start("Add login")
    text = " ".join(f"word{n}" for n in range(30))
    cli.ok("note", text)
    assert text in cli.ok("log").out
    cut = cli.ok("log", terminal=True).out
    assert "word29" not in cut and "…" in cut
    shown = cli.ok("log", "--full", terminal=True).out
    assert text in " ".join(re.sub(r"\x1b\[[0-9;]*m", "", shown).split())
    cli.ok("undo", "2")
    struck = cli.ok("log", "--full", "--no-color", terminal=True).out
    assert f"~~note {text}~~ (withdrawn)" in " ".join(struck.split())


def test_long_note_is_shortened_in_the_log_and_complete_with_full(cli: Cli) -> None:
    cli.start("Add login")
    text = " ".join(f"word{n}" for n in range(2000))
    cli.ok("note", "-", source=text)
    short = cli.ok("log", "-n", "1").out
    assert f"… ({len(text):,} bytes; all of it: forestay log --full)" in short
    assert text in cli.ok("log", "-n", "1", "--full").out
    assert cli.ok("log", "--json", "-n", "1", "--full").lines[0]["data"]["text"] == text


def test_log_shows_unarchived_for_a_session_returned_to_the_list(cli: Cli) -> None:
    cli.start("Add login")
    cli.ok("complete")
    cli.ok("session", "archive")
    assert cli.ok("log", "-n", "1").out.rstrip().endswith("cli          archived")
    cli.ok("session", "unarchive")
    assert cli.ok("log", "-n", "1").out.rstrip().endswith("cli          unarchived")


def test_log_names_devices_if_there_are_several(cli: Cli, home: Path, tmp_path: Path) -> None:
    cli.start("Add login", "--id", "login")
    cli.ok("note", "one")
    assert "here" not in cli.ok("log").out
    cli.ok("backup", "export", "there.fspack")
    elsewhere = ("--home", str(tmp_path / "elsewhere"))
    cli.ok("backup", "import", "there.fspack", *elsewhere)
    cli.ok("note", "two", "--session", "login", *elsewhere)
    cli.ok("backup", "export", "back.fspack", "--session", "login", *elsewhere)
    cli.ok("backup", "import", "back.fspack")
    other = cli.ok("log", "--json").lines[-1]["device"]
    columns = [line.split()[2:5] for line in cli.ok("log").out.splitlines()]
    assert columns == [
        ["here", "cli", "started"], ["here", "cli", "note"], [other, "cli", "note"]
    ]  # fmt: skip


def test_an_undo_is_shown_with_the_number_of_what_it_withdraws(cli: Cli) -> None:
    cli.start("Add login")
    cli.ok("note", "one")
    cli.ok("undo")
    assert cli.ok("log", "-n", "1").out.rstrip().endswith("undo        #2")
    assert "withdrawn: #3 undo #2" in cli.ok("undo", "3").out
    assert cli.ok("log", "-n", "1").out.rstrip().endswith("undo        #3")


def test_tasks_and_agents_are_listed(cli: Cli) -> None:
    cli.start("Add login")
    assert "There are no tasks yet" in cli.ok("task").out
    assert "There are no agents yet" in cli.ok("agent").out
    cli.ok("task", "add", "send it", "--id", "mail")
    cli.ok("task", "block", "mail", "--because", "no server")
    cli.ok("agent", "start", "a1", "--type", "dev", "--task", "write it")
    head, mail = cli.ok("task").out.splitlines()
    assert head.split() == ["TASK", "STATUS", "AGENT", "WHAT"]
    assert mail.split() == ["mail", "blocked", *"send it – no server".split()]
    assert cli.ok("task").out == cli.ok("task", "list").out
    _, agent = cli.ok("agent", "list").out.splitlines()
    assert "not tracked  dev – write it" in agent
    (task,) = cli.json("task")["tasks"]
    assert (task["id"], task["status"], task["because"]) == ("mail", "blocked", "no server")
    assert cli.json("agent")["agents"][0]["process"] is None


def test_archived_sessions_are_mentioned_if_there_are_no_others(cli: Cli) -> None:
    cli.start("Add login", "--id", "login")
    cli.ok("complete")
    cli.ok("session", "archive")
    assert "1 archived: forestay list --archived" in cli.ok("list").out
    assert "login" in cli.ok("list", "--archived").out
    assert "forestay session unarchive" in cli.ok().out
    cli.ok("session", "unarchive")
    assert "There are no archived sessions" in cli.ok("list", "--archived").out


FIELD = r"\b(?:user_request|timed_out|started_at|git_branch|pause_reason|blocking_on|step)\b"


def test_output_for_people_has_no_internal_field_names(cli: Cli, project: Path) -> None:
    cli.start("Add login")
    (project / "a.py").write_text("x")
    for line in (
        "task add one",
        "task start t1",
        "agent start a1",
        "agent start a2",
        "record file a.py",
    ):
        cli.ok(*line.split())
    for line in (
        "agent timeout a1",
        "agent fail a2 --error boom",
        "record tokens 5",
        "pause",
        "undo",
    ):
        cli.ok(*line.split())
    cli.ok("pause", "--reason", "user_request")
    for line in ("", "status", "log", "show", "diff 1", "task", "agent", "brief", "search one"):
        found = re.findall(FIELD, cli.ok(*line.split(), terminal=True).out)
        assert not found, (line, found)


def test_every_kind_of_event_has_a_description(cli: Cli) -> None:
    from forestay.cli.event_lines import _LINES, describe_event
    from forestay.journal.history import LogLine
    from forestay.model.event import KINDS, Erased, Event, Header, Unknown

    assert set(_LINES) == set(KINDS)
    head = Header(
        v=1, id="i", session="s", device="d", n=1, clock=1, at=0, actor="cli",
        kind="future.kind", digest="", prev="",
    )  # fmt: skip
    unknown, erased = Event(head, "", Unknown(raw='{"a": 1}')), Event(head, "", Erased())
    assert describe_event(LogLine(unknown)) == ("future.kind", '{"a": 1}')
    assert describe_event(LogLine(erased)) == ("future.kind", "(erased)")


def test_search_shows_where_words_occur(cli: Cli) -> None:
    cli.start("Add login", "--id", "login")
    cli.ok("note", "the bootstrap method")
    (found,) = cli.json("search", "boots", "meth")["results"]
    assert (found["session"], found["seq"], found["kind"]) == ("login", 2, "note.added")
    assert (found["goal"], found["project"]) == ("Add login", "project")
    assert cli.ok("search", "boots meth").out == (
        "login in project – Add login\n  #2  note  the [bootstrap] [method]\n"
    )
    assert cli.ok("search", "nowhere").out == "Nothing found.\n"
    assert cli("search", " ").code == 2


def test_diff_shows_notes_decisions_and_commands_between_two_points(cli: Cli) -> None:
    cli.start("Add login")
    cli.ok("note", "before")
    cli.ok("note", "the primary method is bootstrap")
    cli.ok("decide", "keep it in SQLite")
    cli.ok("record", "error", "the API answers 503")
    cli.ok("record", "command", "pytest", "--arguments", "-q")
    reported = cli.ok("diff", "2").out.splitlines()
    assert "+ note  the primary method is bootstrap" in reported
    assert "+ command  pytest -q" in reported
    assert any(line.startswith("+ decision  keep it in SQLite") for line in reported)
    assert any(line.startswith("+ error  the API answers 503") for line in reported)
    assert not any("before" in line for line in reported)
    assert "- note  the primary method is bootstrap" in cli.ok("diff", "6", "2").out
    cli.ok("undo", "3")
    assert "+ note" not in cli.ok("diff", "2").out
    assert "- note  the primary" in cli.ok("diff", "6").out


def test_show_displays_any_earlier_point(cli: Cli) -> None:
    cli.start("Add login")
    for line in (
        "task add one",
        "agent start a1 --type dev",
        "record error boom",
        "record attribute k v",
    ):
        cli.ok(*line.split())
    cli.ok("note", "--for-next", "mind the gap")
    text = cli.ok("show").out
    for part in ("Tasks (1)", "t1  pending  one", "Agents (1)", "Errors (1)", "mind the gap"):
        assert part in text
    earlier = cli.json("show", "--at", "2")
    assert earlier["seq"] == 2 and set(earlier["rows"]) == {"step"}
    assert "  at       2\n" in cli.ok("show", "--at", "2").out
    assert cli.json("show", "--at", "now")["seq"] == 6
    assert cli("show", "--at", "99").code == 2
    assert cli("show", "--at", "some day").code == 2


def test_show_includes_notes_commands_and_file_changes(cli: Cli, project: Path) -> None:
    cli.start("Add login")
    (project / "a.txt").write_text("x")
    for line in ("note plain", "note --for-next gap", "record command pytest"):
        cli.ok(*line.split())
    cli.ok("record", "file", "a.txt", "--action", "modified")
    cli.ok("pause")
    text = cli.ok("show").out
    assert "\nNotes (1)\n  plain\n" in text
    assert "\nCommands (1)\n  pytest\n" in text
    assert "\nPauses (1)\n  user request\n" in text
    assert "\nFiles (1)\n  modified  a.txt\n" in text


def test_show_counts_the_notes_that_are_only_in_the_log(cli: Cli) -> None:
    cli.start("Add login")
    for n in range(40):
        cli.ok("note", f"note {n}")
    text = cli.ok("show").out
    kept = text.partition("Notes (40)\n")[2].splitlines()
    assert kept[-1] == f"  {40 - (len(kept) - 1)} older: forestay log"
    assert kept[-2] == "  note 39"


def test_diff_names_a_row_with_a_long_text_once(cli: Cli, project: Path) -> None:
    cli.start("Add login")
    name = "x" * 90
    (project / name).write_text("x")
    cli.ok("record", "file", name)
    assert cli.ok("diff", "1", terminal=True).out.count(name) == 1
    assert "\x1b[32m+ file" in cli.ok("diff", "1", terminal=True).out


def test_diff_shows_added_and_changed_rows(cli: Cli) -> None:
    cli.start("Add login")
    cli.ok("task", "add", "one")
    cli.ok("task", "start", "t1")
    cli.ok("record", "rename", "Add logout")
    text = cli.ok("diff", "1", "4").out
    assert "~ session\n    goal Add login → Add logout" in text
    assert "+ task t1  one · status running · started 20" in text
    assert "~ task t1\n    status pending → running" in cli.ok("diff", "2", "3").out
    assert cli.ok("diff", "4", "now").out == "No difference.\n"
    wheres = [one["where"] for one in cli.json("diff", "1")["changes"]]
    assert "goal" in wheres and "step t1: title" in wheres


def test_a_time_before_the_session_began_is_refused(cli: Cli) -> None:
    cli.start()
    answer = cli("show", "--at", "2 hours ago")
    assert (answer.code, "it began at 20" in answer.err) == (2, True)


def test_show_has_progress_only_if_it_is_known(cli: Cli) -> None:
    cli.ok("start", "Add login")
    assert "status   active\n" in cli.ok("show").out
    assert cli.json("show")["progress_from"] == "none"
    cli.ok("task", "add", "Write it")
    assert "status   active · 0% done\n" in cli.ok("show").out
