"""Looking: status, list, log, search, show and diff."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.surface.support import Cli


def test_alone_on_a_fresh_machine_it_says_how_to_begin_and_makes_nothing(
    cli: Cli, home: Path
) -> None:
    answer = cli.ok()
    assert 'holdfast start "what you want to get done"' in answer.out
    assert not home.exists()
    assert cli.json()["session"] is None


def test_alone_it_shows_the_status_and_the_next_command(cli: Cli) -> None:
    cli.start("Add login")
    cli.ok("pause")
    answer = cli.ok()
    assert answer.out.startswith("Add login\n")
    assert answer.out.endswith("→ holdfast resume\n")
    assert cli.json()["status"] == "paused"


def test_alone_in_a_folder_without_a_current_session_it_lists_the_open_ones(cli: Cli) -> None:
    cli.start("First", "--id", "first")
    cli.start("Second", "--id", "second")
    cli.ok("forget", "second", "--yes")
    answer = cli.ok()
    assert "none of them current" in answer.out
    assert "→ holdfast resume first" in answer.out
    assert [one["session"] for one in cli.json()["sessions"]] == ["first"]


READS = ["", "status", "list", "list --all", "log", "search x", "show", "diff 1 2", "verify"]
READS += ["doctor", "config", "brief", "completion bash", "help", "--help", "--version"]


@pytest.mark.parametrize("line", READS)
def test_looking_into_a_fresh_home_makes_nothing(cli: Cli, home: Path, line: str) -> None:
    assert cli(*line.split()).code in (0, 3)
    assert not home.exists()


def test_status_says_where_it_stands(cli: Cli) -> None:
    cli.start("Add login", "--id", "login")
    for line in ("task add one", "task add two", "task done t1", "agent start a1", "tokens 2500"):
        cli.ok(*line.split())
    lines = cli.ok("status").out.splitlines()
    assert lines[0] == "Add login"
    shown = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines[1:]}
    assert shown["session"] == "login in project"
    assert shown["status"] == "active · 1 of 2 tasks done"
    assert shown["next"] == "start t2: two"
    assert shown["agents"] == "1 running (a1)"
    assert shown["context"] == "2,500 tokens"
    assert shown["last"].startswith("#7, ")


def test_list_shows_the_project_and_marks_the_current(cli: Cli) -> None:
    cli.start("First", "--id", "first")
    cli.start("Second", "--id", "second")
    head, second, first = cli.ok("list").out.splitlines()
    assert head.split() == ["SESSION", "STATUS", "DONE", "LAST", "EVENT", "GOAL"]
    assert second.split()[:3] == ["*", "second", "active"]
    assert first.split()[0] == "first"
    answer = cli.json("list")
    assert answer["current"] == "second" and not answer["more"]


def test_list_filters_and_stops_where_it_is_told(cli: Cli) -> None:
    for number in range(3):
        cli.start(f"goal {number}", "--id", f"s{number}")
    cli.ok("pause")
    assert [one["session"] for one in cli.json("list", "--status", "paused")["sessions"]] == ["s2"]
    few = cli.json("list", "-n", "2")
    assert len(few["sessions"]) == 2 and few["more"]
    assert "holdfast list -n 0" in cli.ok("list", "-n", "1").out
    assert len(cli.json("list", "-n", "0")["sessions"]) == 3
    assert "There are no failed sessions" in cli.ok("list", "--status", "failed").out


def test_another_folder_has_its_own_list_and_all_shows_both(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.start("First", "--id", "first")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert cli.json("list")["sessions"] == []
    assert "holdfast list --all" in cli.ok("list").out
    everywhere = cli.json("list", "--all")["sessions"]
    assert [(one["session"], one["project"]) for one in everywhere] == [("first", "project")]
    assert "project" in cli.ok("list", "--all").out


def test_log_shows_every_event_in_order(cli: Cli) -> None:
    cli.start("Add login")
    cli.ok("note", "one")
    cli.ok("decide", "db", "--option", "A", "--option", "B", "--chosen", "A", "--because", "x")
    lines = cli.ok("log").out.splitlines()
    assert [line.split()[0] for line in lines] == ["#1", "#2", "#3"]
    assert lines[1].endswith("cli        note        one")
    assert lines[2].endswith("decision    db – A – not B – because x")
    assert [line["seq"] for line in cli.ok("log", "--json", "-n", "2").lines] == [2, 3]
    assert cli.ok("log", "-n", "1").out.startswith("#3")


def test_every_kind_of_event_has_words(cli: Cli) -> None:
    from holdfast.cli.words import _SAID, about
    from holdfast.model.event import KINDS, Erased, Event, Header, Unknown

    assert set(_SAID) == set(KINDS)
    head = Header(
        v=1, id="i", session="s", device="d", n=1, clock=1, at=0, actor="cli",
        kind="future.kind", digest="", prev="",
    )  # fmt: skip
    assert about(Event(head, "", Unknown(raw='{"a": 1}'))) == ("future.kind", '{"a": 1}')
    assert about(Event(head, "", Erased())) == ("future.kind", "(erased)")


def test_search_finds_words_and_says_where(cli: Cli) -> None:
    cli.start("Add login", "--id", "login")
    cli.ok("note", "the bootstrap method")
    (found,) = cli.json("search", "boots", "meth")["results"]
    assert (found["session"], found["seq"], found["kind"]) == ("login", 2, "note.added")
    assert "login  #2  note  the [bootstrap] [method]" in cli.ok("search", "boots meth").out
    assert cli.ok("search", "nowhere").out == "Nothing found.\n"
    assert cli("search", " ").code == 2


def test_show_goes_back_to_any_point(cli: Cli) -> None:
    cli.start("Add login")
    for line in ("task add one", "agent start a1 --type dev", "error boom", "attr k v"):
        cli.ok(*line.split())
    cli.ok("note", "--for-next", "mind the gap")
    text = cli.ok("show").out
    for part in ("Tasks (1)", "t1  pending  one", "Agents (1)", "Errors (1)", "mind the gap"):
        assert part in text
    earlier = cli.json("show", "--at", "2")
    assert earlier["seq"] == 2 and set(earlier["rows"]) == {"step"}
    assert "as it was at 2" in cli.ok("show", "--at", "2").out
    assert cli.json("show", "--at", "now")["seq"] == 6
    assert cli("show", "--at", "99").code == 2
    assert cli("show", "--at", "some day").code == 2


def test_diff_tells_what_came_and_what_changed(cli: Cli) -> None:
    cli.start("Add login")
    cli.ok("task", "add", "one")
    cli.ok("task", "start", "t1")
    cli.ok("rename", "Add logout")
    text = cli.ok("diff", "1", "4").out
    assert "~ session\n    goal Add login → Add logout" in text
    assert "+ step t1  status running" in text
    assert "~ step t1\n    status pending → running" in cli.ok("diff", "2", "3").out
    assert cli.ok("diff", "4", "now").out == "No difference.\n"
    wheres = [one["where"] for one in cli.json("diff", "1")["changes"]]
    assert "goal" in wheres and "step t1: title" in wheres
