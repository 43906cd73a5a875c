"""Texts that the journal cannot store unchanged (too long, with control characters or secrets) stay
unchanged in the files of other programs, and each is recorded once."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from forestay.mirror.session_files import write_files
from tests.homes import state_of
from tests.mirror.conftest import Make
from tests.mirror.support import AI_SESSION, Project, ran, swap_in

LONG = "the same beginning " * 300
SECRET = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
ODD = ["one\u2028end", "a\tbell\x07", f"use {SECRET} there", LONG]
LISTS = pytest.mark.parametrize("format_id", ["craft", "orchestrator"])
WORDS = pytest.mark.parametrize("words", ODD, ids=["line", "signs", "secret", "long"])


def finish(format_id: str, value: Any, title: str) -> None:
    """Complete a task as another program does."""
    value["pending_tasks"].remove(title)
    done = title if format_id == "craft" else {"task": title, "outcome": "", "files": []}
    value["completed_work"].append(done)


def work(value: Any) -> list[str]:
    return [each if isinstance(each, str) else each["task"] for each in value["completed_work"]]


def statuses(project: Project) -> list[str]:
    return [task.status for task in project.session.tasks.list()]


# -- three dots, the mark of shortened text --------------------------------------------------------


@LISTS
def test_goal_of_three_dots_is_written_unchanged(make: Make, format_id: str) -> None:
    project = make(format_id)
    project.session.record.rename("…")
    assert project.read()["goal"] == "…"


def test_long_text_of_others_is_not_matched_with_a_note_of_three_dots(make: Make) -> None:
    project = make("orchestrator")
    project.session.note("…")
    project.edit(lambda value: value["errors"].append({"message": LONG}))
    project.session.note("next")
    (error,) = state_of(project.session).rows.select("error")
    assert getattr(error, "message", "").startswith(LONG[:1000])


# -- tasks -----------------------------------------------------------------------------------------


@LISTS
@WORDS
@pytest.mark.parametrize("whose", ["ours", "theirs"])
def test_text_of_a_completed_task_stays_unchanged(
    make: Make, format_id: str, words: str, whose: str
) -> None:
    project = make(format_id)
    project.edit(lambda value: value["pending_tasks"].append(words))
    project.session.note("taken up")
    if whose == "ours":
        (task,) = project.session.tasks.list()
        project.session.tasks.done(task.id)
    else:
        project.edit(lambda value: finish(format_id, value, words))
        project.again().note("next")
    value = project.read()
    assert (value["pending_tasks"], work(value)) == ([], [words])
    assert statuses(project) == ["done"]


@LISTS
@WORDS
def test_running_task_stays_running_when_another_is_completed(
    make: Make, format_id: str, words: str
) -> None:
    project = make(format_id)
    project.edit(lambda value: value["pending_tasks"].append(words))
    project.session.tasks.add("two")
    project.session.tasks.start(project.session.tasks.list()[0].id)
    project.edit(lambda value: finish(format_id, value, "two"))
    project.again().note("next")
    assert statuses(project) == ["running", "done"]
    assert project.read()["pending_tasks"] == [words]


@LISTS
def test_removing_a_running_task_does_not_start_the_next_one(make: Make, format_id: str) -> None:
    project = make(format_id)
    for id in ("t1", "t2"):
        project.session.tasks.add(f"Task {id}", id=id)
    project.session.tasks.start("t1")
    project.edit(lambda value: value["pending_tasks"].remove("Task t1"))
    project.again().note("next")
    assert statuses(project) == ["running", "pending"]


@LISTS
def test_two_long_tasks_with_the_same_start_are_two_tasks(make: Make, format_id: str) -> None:
    project = make(format_id)
    one, two = f"{LONG}{SECRET} 1", f"{LONG}2"
    project.edit(lambda value: value["pending_tasks"].append(one))
    project.session.note("taken up")
    project.edit(lambda value: finish(format_id, value, one))
    project.session.note("done")
    project.edit(lambda value: value["pending_tasks"].append(two))
    project.again().note("next")
    value = project.read()
    assert (value["pending_tasks"], work(value)) == ([two], [one])
    project.edit(lambda value: finish(format_id, value, two))
    project.again().note("after that")
    value = project.read()
    assert (value["pending_tasks"], work(value)) == ([], [one, two])
    assert statuses(project) == ["done", "done"]


@LISTS
def test_forced_write_changes_no_file_with_long_tasks_that_start_the_same(
    make: Make, format_id: str
) -> None:
    project = make(format_id)
    project.session.tasks.add("Ours", id="t1")
    for title in (f"{LONG}1", f"{LONG}2"):

        def add_done(value: Any, title: str = title) -> None:
            value["pending_tasks"].append(title)
            finish(format_id, value, title)

        project.edit(add_done)
        project.session.note("taken up")
    project.session.tasks.start("t1")
    before = project.place.read_bytes()
    project.again()
    write_files(project.home.context, project.session.id, force=True)
    assert project.place.read_bytes() == before


@LISTS
def test_long_text_under_an_unknown_key_is_not_a_task(make: Make, format_id: str) -> None:
    project = make(format_id)
    title = f"{LONG}1"
    project.edit(lambda value: value.update(x_hers={"deep": f"{LONG}2"}))
    project.session.note("taken up")
    project.edit(lambda value: value["pending_tasks"].append(title))
    project.session.note("taken up, too")
    project.edit(lambda value: finish(format_id, value, title))
    project.again().note("next")
    assert statuses(project) == ["done"] and work(project.read()) == [title]


@WORDS
def test_error_with_unusual_text_stays_one_when_another_is_retracted(
    make: Make, words: str
) -> None:
    project = make("orchestrator")
    project.edit(lambda value: value["errors"].append({"message": words}))
    project.session.note("taken up")
    project.session.record.error("Ours")
    project.again().undo()
    assert [error["message"] for error in project.read()["errors"]] == [words]


# -- logs ------------------------------------------------------------------------------------------


@WORDS
def test_line_of_others_is_one_command_in_any_spelling(make: Make, words: str) -> None:
    project = make(AI_SESSION)
    log = project.ai("history.jsonl")
    project.session.record.command("ours")
    lines = [json.loads(log.read_text()) | {"command": words}]
    for text in ("first", "second"):
        lines = [*map(json.loads, log.read_text().splitlines()), *lines]
        in_order = text == "second"
        log.write_text("".join(f"{json.dumps(line, sort_keys=in_order)}\n" for line in lines))
        project.again().record.command(text)
        lines = [json.loads(log.read_text().splitlines()[0]) | {"command": "theirs"}]
    assert Counter(ran(log)) == Counter(["ours", words, "first", "theirs", "second"])
    assert len([event for event in project.events() if event.kind == "command.ran"]) == 5


# -- files that hold secrets -----------------------------------------------------------------------


def with_secret(make: Make, format_id: str = "craft") -> Project:
    project = make(format_id)
    project.session.tasks.add("Ours")
    project.edit(lambda value: value.update(x_hers={"token": SECRET, "more": [1, 2]}))
    project.session.note("taken up")
    return project


def test_restored_file_has_everything_but_its_secrets(make: Make) -> None:
    project = with_secret(make)
    project.edit(lambda value: value["pending_tasks"].append("Theirs\tand\x07"))
    project.session.note("taken up, too")
    project.place.unlink()
    project.again().note("next")
    value = project.read()
    assert value["x_hers"]["more"] == [1, 2] and SECRET not in project.place.read_text()
    assert value["pending_tasks"] == ["Ours", "Theirs\tand\x07"]


def test_old_copy_of_a_file_with_secrets_removes_no_key_of_others(make: Make) -> None:
    project = with_secret(make)
    stale = project.read()
    project.edit(lambda value: value.update(x_his="kept"))
    project.session.tasks.add("More")
    project.session.tasks.add("And more")
    stale["x_its"] = "kept, too"
    swap_in(project.place, json.dumps(stale, indent=2).encode())
    project.again().note("next")
    value = project.read()
    assert (value["x_his"], value["x_its"]) == ("kept", "kept, too")
    assert value["x_hers"] == {"token": SECRET, "more": [1, 2]}
    assert value["pending_tasks"] == ["Ours", "More", "And more"]


def test_key_removed_next_to_secrets_stays_removed(make: Make) -> None:
    project = with_secret(make)
    project.edit(lambda value: value.update(x_his="for a while"))
    project.session.tasks.add("More")
    stale = project.read()
    project.edit(lambda value: value.pop("x_his"))
    project.session.tasks.add("And more")
    stale["x_its"] = "kept"
    swap_in(project.place, json.dumps(stale, indent=2).encode())
    project.again().note("next")
    value = project.read()
    assert "x_his" not in value and value["x_its"] == "kept"
    assert value["x_hers"]["token"] == SECRET


def test_removed_key_with_a_secret_stays_removed(make: Make) -> None:
    project = with_secret(make)
    project.edit(lambda value: value.pop("x_hers"))
    project.session.note("gone")
    project.again().note("and stays so")
    assert "x_hers" not in project.read()
