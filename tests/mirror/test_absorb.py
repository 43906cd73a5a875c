"""Edits that other programs make in bound files are recorded once, and nothing else is."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import yaml

from forestay.api.values import AgentInfo
from forestay.base import swap_file
from forestay.formats import timestamps
from forestay.mirror.session_files import absorb_file_edits, mirror_of, write_files
from forestay.model import event as ev
from tests.homes import state_of
from tests.mirror.conftest import Make
from tests.mirror.support import AI_SESSION, Project, Ticking, everything, leftovers, ran, swap_in

ALL = [AI_SESSION, "praxis", "craft", "orchestrator"]


def with_tasks(make: Make, format_id: str = "orchestrator") -> Project:
    project = make(format_id)
    for id in ("t1", "t2"):
        project.session.tasks.add(f"Task {id}", id=id)
    return project


# -- base, file and journal are compared -------------------------------------------------------


def test_edit_is_recorded_as_events_of_the_file(make: Make) -> None:
    project = with_tasks(make)
    project.edit(lambda v: v["pending_tasks"].append("Write docs"))
    project.session.note("next")
    edited, added = project.edits()
    assert isinstance(edited, ev.ForeignEdited) and isinstance(added, ev.StepAdded)
    assert edited.path == ".claude/orchestrator-session.json" and added.title == "Write docs"
    assert project.kinds("user")[-1] == "note.added", "the command follows the edit"


def test_edit_is_absorbed_before_the_command_is_decided(make: Make) -> None:
    project = with_tasks(make)
    project.edit(lambda v: v["pending_tasks"].append("Write docs"))
    project.session.tasks.start("write-docs")
    assert project.suspended == "" and project.kinds("user")[-1] == "step.started"


def test_active_task_of_a_file_is_next_until_another_starts(make: Make) -> None:
    project = with_tasks(make, AI_SESSION)
    project.session.tasks.start("t1")
    project.edit(lambda v: v["current_state"].update(active_task="t2"))
    assert project.session.status().next.startswith("start t2")
    project.session.note("next")
    assert project.session.status().next.startswith("start t2")
    assert project.read()["current_state"]["active_task"] == "t2"
    project.clock.sleep(1)
    project.session.tasks.start("t2")
    project.session.tasks.add("Task t3", id="t3")
    project.clock.sleep(1)
    project.session.tasks.start("t3")
    assert project.read()["current_state"]["active_task"] == "t3"


def test_only_the_change_in_a_stale_copy_is_recorded(make: Make) -> None:
    project = with_tasks(make)
    stale = project.read()
    project.session.tasks.done("t1", outcome="fine")
    project.session.decide("Use JWT", because="simple")
    for number in range(6):
        project.session.tasks.add(f"More {number}")
    stale["pending_tasks"].append("Their task")
    swap_in(project.place, json.dumps(stale, indent=2).encode())
    project.session.note("next")
    assert project.kinds() == ["foreign.edited", "step.added"]
    now = project.read()
    assert "Their task" in now["pending_tasks"] and "More 5" in now["pending_tasks"]
    assert [work["task"] for work in now["completed_work"]] == ["Task t1"]
    assert [each["decision"] for each in now["decisions_made"]] == ["Use JWT"]
    assert project.disputes() == []


def test_stale_copy_without_line_breaks_is_recognized(make: Make) -> None:
    project = with_tasks(make)
    project.session.record.rename("First")
    stale = project.read()
    project.session.record.rename("Ours")
    project.session.pause()
    stale["pending_tasks"].append("Their task")
    swap_in(project.place, json.dumps(stale).encode())
    project.session.note("next")
    assert project.kinds() == ["foreign.edited", "step.added"] and project.disputes() == []
    now = project.read()
    assert (now["goal"], now["status"]) == ("Ours", "paused")


def test_stale_file_does_not_remove_a_key_of_another_program(make: Make) -> None:
    project = with_tasks(make)
    stale = project.read()
    project.edit(lambda value: value.update(x_hers={"deep": ["kept"]}))
    project.session.tasks.add("More")
    stale["x_his"] = "kept too"
    swap_in(project.place, json.dumps(stale, indent=2).encode())
    mirror_of(project.again().context).absorb(project.session.id)
    project.again().note("next")
    now = project.read()
    assert (now["x_hers"], now["x_his"]) == ({"deep": ["kept"]}, "kept too")
    before = everything(project.folder)
    write_files(project.again().context, project.session.id, force=True)
    assert everything(project.folder) == before


def test_removed_key_does_not_return_with_a_stale_copy(make: Make) -> None:
    project = make("praxis")
    project.edit(lambda doc: doc["metadata"].update(x_hers="first"))
    project.session.note("taken up")
    stale = project.read()
    project.edit(lambda doc: doc["metadata"].pop("x_hers"))
    project.session.note("gone")
    stale["metadata"]["x_his"] = 1
    swap_in(project.place, json.dumps(stale, indent=2).encode())
    project.session.note("next")
    reported = {key: value for key, value in project.read()["metadata"].items() if key[:2] == "x_"}
    assert reported == {"x_his": 1} and project.disputes() == []


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("format_id", ["craft", "orchestrator", "praxis"])
def test_key_removed_again_by_its_owner_stays_removed(
    make: Make, format_id: str, times: int
) -> None:
    project = make(format_id)
    project.session.tasks.add("First")
    long = {f"line {number}": ["kept"] for number in range(9)}
    for _ in range(times):
        project.edit(lambda value: value.update(x_hers=long))
        project.again().note("taken up")
        assert project.read()["x_hers"] == long
        project.edit(lambda value: value.pop("x_hers"))
        for text in ("gone", "and stays so"):
            project.again().note(text)
            assert "x_hers" not in project.read()


@pytest.mark.parametrize("format_id", ALL)
def test_file_restored_to_an_old_version_is_no_edit_and_is_written_again(
    make: Make, format_id: str
) -> None:
    project = make(format_id)
    project.session.tasks.add("First", id="t1")
    project.session.record.command("pytest", arguments="-q")
    old = {Path(b.place): Path(b.place).read_bytes() for b in project.session.files.list()}
    project.session.tasks.done("t1", outcome="fine")
    (project.folder / "x.py").write_text("x")
    project.session.record.file(str(project.folder / "x.py"))
    project.session.record.command("ruff")
    newest = everything(project.folder)
    for path, data in old.items():
        path.write_bytes(data)
    project.again().note("next")
    assert project.edits() == [], "an old version is no edit"
    assert stable_lines(everything(project.folder)) == stable_lines(newest)


def test_edit_of_a_restored_file_that_needs_no_write_is_recorded(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is not written, and another process must still recognize it as our rendering."""
    project = make("essay")
    now = project.clock.now()
    monkeypatch.setattr(
        Ticking, "now", lambda clock: now
    )  # an essay contains the time of the last event
    project.session.note("one")
    old = project.place.read_bytes()
    project.edit(lambda value: value.update(x_hers=1))
    project.session.note("two")
    swap_in(project.place, old)
    for note in ("three", "four"):
        project.again().note(note)
    assert project.place.read_bytes() == old
    session = project.session
    project.edit(lambda value: value.update(status="paused"))
    session.note("five")
    assert session.status().status == "paused"


def test_stale_copy_with_a_resume_in_the_same_second_ends_no_pause(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make("praxis")
    now = project.clock.now()
    monkeypatch.setattr(Ticking, "now", lambda clock: now)
    project.session.pause()
    project.session.resume()
    stale = project.read()
    project.session.pause()
    stale["metadata"]["x_his"] = 1
    swap_in(project.place, json.dumps(stale, indent=2).encode())
    project.session.note("next")
    assert project.session.status().status == "paused"
    assert project.read()["metadata"]["x_his"] == 1


def stable_lines(found: dict[str, tuple[bytes, int, int]]) -> dict[str, list[str]]:
    """Return the lines of files without those that every write changes."""
    moving = ("updated", "last_active", "last_updated", "# forestay: ", '"id": "')
    return {
        name: [line for line in data.decode().splitlines() if not any(m in line for m in moving)]
        for name, (data, *_) in found.items()
        if not name.endswith((".lock", ".jsonl"))
    }


def test_file_restored_by_git_is_written_again(make: Make) -> None:
    project = make(git=True)
    (project.folder / ".claude").mkdir()
    project.session.files.bind("orchestrator")
    project.git("add", "-A")
    project.git("commit", "-qm", "one")
    project.session.tasks.add("First", id="t1")
    project.session.pause()
    project.git("checkout", "-q", "--", ".claude")
    project.session.resume()
    project.session.pause()
    assert project.edits() == [] and project.read()["pending_tasks"] == ["First"]


def test_restored_backup_of_a_log_gets_its_missing_lines(make: Make) -> None:
    project = make(AI_SESSION)
    log = project.ai("history.jsonl")
    project.session.record.command("one")
    old = log.read_bytes()
    project.session.record.command("two")
    project.session.record.command("three")
    whole = log.read_bytes()
    log.write_bytes(old)
    project.session.record.command("four")
    assert log.read_bytes().startswith(whole) and project.edits() == []
    assert [json.loads(line)["command"] for line in log.read_text().splitlines()] == [
        *("one", "two", "three", "four")
    ]


def test_change_on_both_sides_is_a_dispute_with_both_values(make: Make) -> None:
    project = with_tasks(make, "craft")
    stale = project.read()
    project.session.record.rename("Ours")
    stale["goal"] = "Theirs"
    swap_in(project.place, json.dumps(stale, indent=2).encode())
    project.session.note("next")
    goals = [e.body.goal for e in project.events() if isinstance(e.body, ev.SessionRenamed)]
    assert goals == ["Ours", "Theirs"] and project.read()["goal"] == "Theirs"
    assert len(project.disputes()) == 1
    assert any("also changed in Forestay: goal" in line for line in project.notices)
    assert "goal" in project.session.brief().text


def test_file_passed_from_one_device_to_another_needs_no_attention(make: Make) -> None:
    project = make("craft")
    home = project.opened("another")
    project.edit(lambda v: v.update(device="MacBook Pro"))
    (adopted,) = home.files.adopt(str(project.place))
    project.edit(lambda v: v.update(device="iMac"))
    session = home.session(adopted.session)
    session.note("next")
    assert session.status().attention == []


def with_disputed_end(make: Make) -> Project:
    project = with_tasks(make)
    project.session.pause()
    stale = project.read()
    project.session.decide("Go on", because="it pays")
    project.session.resume()
    stale["status"] = "complete"
    swap_in(project.place, json.dumps(stale, indent=2).encode())
    project.session.note("next")
    return project


def test_disputed_end_ends_the_session_only_when_settled_for_the_file(make: Make) -> None:
    project = with_disputed_end(make)
    assert project.session.status().status == "active" and len(project.disputes()) == 1
    assert project.place.name == "orchestrator-session.json" and project.place.exists()
    (edited,) = [b for b in project.edits() if isinstance(b, ev.ForeignEdited)]
    assert edited.residue == "status: completed", "the status in the file is in the journal"
    (case,) = project.session.disputes.list()
    assert case.sides[0].said == "session completed"
    project.session.disputes.settle(prefer="file")
    assert project.session.status().status == "completed" and not project.session.disputes.list()


@pytest.mark.parametrize("end", ["complete", "lifecycle.abandon"])
def test_settling_a_disputed_end_does_not_reopen_an_ended_session(make: Make, end: str) -> None:
    project = with_disputed_end(make)
    attrgetter(end)(project.session)()
    ended = project.session.status().status
    project.session.disputes.settle(prefer="file")
    assert project.session.status().status == ended and not project.session.disputes.list()


def test_completion_by_a_stale_file_is_not_disputed_by_our_pause(make: Make) -> None:
    project = with_tasks(make)
    stale = project.read()
    project.session.decide("Rest", because="it is late")
    project.session.pause()
    stale["status"] = "complete"
    swap_in(project.place, json.dumps(stale, indent=2).encode())
    project.session.note("next")
    assert project.session.status().status == "completed" and not project.disputes()


def test_undisputed_end_is_recorded(make: Make) -> None:
    project = with_tasks(make)
    project.edit(lambda v: v.update(status="complete"))
    project.again().note("next")
    assert project.session.status().status == "completed"


WITHOUT_EVENT: dict[str, tuple[str, Callable[[Any], object]]] = {
    "project: theirs": ("orchestrator", lambda v: v["project"].update(name="theirs")),
    "project_path: /theirs": ("craft", lambda v: v.update(project="/theirs")),
    "pause_context: theirs": ("praxis", lambda v: v["lifecycle"].update(paused_context="theirs")),
    "decisions: Use JWT was removed": ("craft", lambda v: v["decisions_made"].clear()),
    "agents: code-1": ("craft", lambda v: v["agents"][0].update(type="doc-writer")),
}


@pytest.mark.parametrize("stated", WITHOUT_EVENT)
def test_edit_without_an_event_is_reported_in_journal_notice_and_briefing(
    make: Make, stated: str
) -> None:
    format_id, change = WITHOUT_EVENT[stated]
    project = make(format_id)
    project.session.decide("Use JWT")
    project.session.agents.start("code-1")
    for n in range(20):  # until no stored rendering is similar to the edited one
        project.session.tasks.add(f"Task {n}")
    project.edit(change)
    project.session.tasks.add("Ours")
    (edited,) = [body for body in project.edits() if isinstance(body, ev.ForeignEdited)]
    assert edited.residue == stated
    assert any(f"not recorded: {stated}" in line for line in project.notices)
    assert f"not imported: {stated}" in project.session.brief(budget=2000).text


def test_briefing_shows_an_edit_with_its_file_before_and_after_it_is_absorbed(make: Make) -> None:
    project = make("orchestrator")
    project.edit(lambda v: v["decisions_made"].append({"decision": "Use JWT"}))
    reported = '"Use JWT" (from file:orchestrator, unconfirmed)'
    assert reported in project.session.brief(budget=2000).text
    project.session.note("next")
    assert reported in project.session.brief(budget=2000).text


def test_changed_start_time_does_not_reset_the_progress_of_an_agent(make: Make) -> None:
    project = make("orchestrator")
    project.session.agents.start("code-1", task="Write")
    project.session.agents.progress("code-1", 0.6)
    project.edit(lambda v: v["agents"][0].update(started="2027-01-01T00:00:00Z"))
    project.session.note("next")
    (agent,) = project.read()["agents"]
    assert (agent["started"], agent["progress"]) == ("2027-01-01T00:00:00Z", 60)


def stamped(project: Project) -> str:
    """Return the time of the project's clock in the spelling of its file."""
    moment = datetime.fromtimestamp(project.clock.now() / 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}{'.000' * (project.place.parent.name != '.claude')}Z"


def early(project: Project) -> str:
    return stamped(project).replace("T08", "T07")


def keys_of(format_id: str) -> tuple[str, str]:
    return ("started_at", "completed_at") if format_id == "craft" else ("started", "completed")


def agent_in(project: Project) -> AgentInfo:
    (agent,) = project.session.agents.list()
    return agent


def end(project: Project, how: str) -> None:
    if how == "done":
        project.session.agents.done("code-1", result="the same")
    else:
        project.session.agents.fail("code-1", "the same")


@pytest.mark.req("S2-24", "S4-21")
@pytest.mark.parametrize("format_id", ["craft", "orchestrator"])
@pytest.mark.parametrize("how", ["done", "failed"])
def test_second_run_of_an_agent_with_the_same_result_has_its_own_times(
    make: Make, format_id: str, how: str
) -> None:
    """No event was recorded while it ran: only the times in the file differ."""
    project = make(format_id)
    project.session.agents.start("code-1")
    end(project, how)
    before = agent_in(project)
    began, ended = stamped(project), stamped(project)
    times = dict(zip(keys_of(format_id), (began, ended), strict=True))
    project.edit(lambda v: v["agents"][0].update(times))
    project.session.note("next")
    after = agent_in(project)
    assert after.status == before.status == how and set(residues(project)) == {""}
    assert after.started_at and before.started_at and after.started_at > before.started_at
    assert after.ended_at and before.ended_at and after.ended_at > before.ended_at
    assert project.read()["agents"][0] | times == project.read()["agents"][0]


@pytest.mark.req("S2-25", "S4-22")
@pytest.mark.parametrize("format_id", ["craft", "orchestrator"])
def test_corrected_times_of_an_agent_stay_in_the_file(make: Make, format_id: str) -> None:
    project = make(format_id)
    project.session.agents.start("code-1")
    project.session.agents.done("code-1", result="fine")
    began, ended = keys_of(format_id)
    for key, moment in ((ended, stamped(project)), (began, early(project))):
        project.edit(lambda v: v["agents"][0].update({key: moment}))  # noqa: B023
        project.session.note("next")
        assert project.read()["agents"][0][key] == moment and set(residues(project)) == {""}
    assert (agent_in(project).status, agent_in(project).result) == ("done", "fine")


@pytest.mark.parametrize("format_id", ["craft", "orchestrator"])
def test_done_agent_with_a_start_after_its_end_stays_done(make: Make, format_id: str) -> None:
    project = make(format_id)
    project.session.agents.start("code-1")
    project.session.agents.done("code-1", result="fine")
    project.edit(lambda v: v["agents"][0].update({keys_of(format_id)[0]: stamped(project)}))
    project.session.note("next")
    assert (agent_in(project).status, agent_in(project).result) == ("done", "fine")


@pytest.mark.req("S2-31", "S2-32", "S2-33", "S2-34")
def test_agent_that_failed_again_has_the_new_error(make: Make) -> None:
    project = make("craft")
    project.session.agents.start("code-1")
    project.session.agents.fail("code-1", "no answer", category="transient")
    error = {"category": "permanent", "message": "gone", "retry_count": 2}
    error |= {"last_retry_at": stamped(project)}
    project.edit(lambda v: v["agents"][0].update(error=error))
    project.session.note("next")
    assert project.read()["agents"][0]["error"] == error and set(residues(project)) == {""}
    assert agent_in(project).error == "gone"


@pytest.mark.parametrize(
    "format_id, over",
    [
        *(("craft", word) for word in ("completed", "error", "timeout")),
        *(("orchestrator", word) for word in ("complete", "failure")),
    ],
)
def test_restarted_agent_that_ends_as_before_has_ended(
    make: Make, format_id: str, over: str
) -> None:
    """The file is then more similar to the rendering of the first end than to the last one."""
    project = make(format_id)
    running = "running" if format_id == "craft" else "in_progress"
    project.session.agents.start("code-1", type="code")
    for word in (over, "", running, over):
        project.edit(partial(_change_agent, project, format_id, word))
        project.session.note("next")
    assert agent_in(project).status == _ENDED[over]
    assert project.session.status().attention == [] and set(residues(project)) == {""}


def test_newest_of_equally_similar_renderings_is_the_base(make: Make) -> None:
    """The repeated end differs from the last rendering as much as from that of the earlier run."""
    project = make("orchestrator")
    project.session.agents.start("code-1", type="code")
    results = iter(["one", "two", "three"])

    def edit(word: str, value: dict[str, Any]) -> None:
        _change_agent(project, "orchestrator", word, value)
        value["agents"][0].pop("result_summary", None)
        if word == "complete":
            value["agents"][0]["result_summary"] = next(results)

    for word in ("complete", "in_progress", "complete", "complete"):
        project.edit(partial(edit, word))
        project.session.record.tokens(1000)
    assert agent_in(project).result == "three"
    assert project.session.status().attention == []


_ENDED = {"complete": "done", "completed": "done", "timeout": "timed_out"}
_ENDED |= dict.fromkeys(("error", "failure"), "failed")


def _change_agent(project: Project, format_id: str, word: str, value: dict[str, Any]) -> None:
    """Give the agent another status, or add a task for an empty word, as a program does."""
    (agent,), ended = value["agents"], keys_of(format_id)[1]
    value["updated_at" if format_id == "craft" else "updated"] = stamped(project)
    if not word:
        value["pending_tasks"].append("Something else")
    elif word in ("running", "in_progress"):
        agent["status"] = word
        agent.pop(ended) if format_id == "orchestrator" else agent.update({ended: None})
    else:
        agent |= {"status": word, ended: stamped(project)}


def test_file_that_reverts_our_pause_with_a_newer_time_resumes_the_session(make: Make) -> None:
    project = with_tasks(make)
    project.session.pause()
    project.edit(lambda v: v.update(status="in_progress", updated="2099-01-01T00:00:00Z"))
    project.session.note("on")
    assert project.kinds() == ["foreign.edited", "session.resumed"]
    assert project.session.status().status == "active" and project.disputes() == []


def test_reformatted_stale_copy_rewords_a_task_and_changes_nothing_else(make: Make) -> None:
    project = make(AI_SESSION)
    project.session.tasks.add("First", id="t1")
    plan = project.ai("implementation-plan.yaml")
    stale = project.read(plan)
    project.session.tasks.done("t1")
    for number in range(4):
        project.session.tasks.add(f"More {number}")
    stale["phases"][0]["tasks"][0]["description"] = "Theirs"
    swap_in(plan, yaml.safe_dump(stale).encode())
    project.session.note("next")
    assert project.kinds() == ["foreign.edited", "step.added"] and project.disputes() == []
    assert project.titles() == ["Theirs", *(f"More {number}" for number in range(4))]


@pytest.mark.parametrize(
    ("format_id", "index"), [("craft", False), ("orchestrator", False), (AI_SESSION, True)]
)
def test_reformatted_stale_copy_with_its_old_time_ends_no_pause(
    make: Make, format_id: str, index: bool
) -> None:
    project = make(format_id)
    project.session.note("one")
    place = project.index if index else project.place
    stale = project.read(place)
    project.session.pause()
    swap_in(place, (yaml.safe_dump if index else json.dumps)(stale).encode())
    project.session.note("two")
    assert project.session.status().status == "paused" and project.kinds() == []


@pytest.mark.parametrize(
    ("format_id", "verb"),
    [
        *((format_id, "fail") for format_id in ("craft", "orchestrator", "essay", AI_SESSION)),
        *((format_id, "abandon") for format_id in ("craft", "essay", AI_SESSION)),
    ],
)
def test_file_can_resume_a_session_that_ended_without_success(
    make: Make, format_id: str, verb: str
) -> None:
    project = make(format_id)
    getattr(project.session.lifecycle, verb)(because="no way")

    def go_on(doc: Any) -> None:
        entry = doc["active_features"][0] if format_id == AI_SESSION else doc
        entry["status"] = "active" if format_id == AI_SESSION else "in_progress"

    project.edit(go_on, project.index if format_id == AI_SESSION else None)
    project.session.note("on")
    assert project.session.status().status == "active"


def test_agent_that_a_file_restarts_after_its_timeout_is_running(make: Make) -> None:
    project = make("orchestrator")
    project.session.agents.start("a-1", type="code", task="Part")
    project.session.agents.timeout("a-1")
    project.edit(lambda doc: doc["agents"][0].update(status="in_progress"))
    project.session.note("on")
    assert project.read()["agents"][0]["status"] == "in_progress"


@pytest.mark.parametrize(
    ("format_id", "stamp", "start"),
    [("craft", "updated_at", "started_at"), ("orchestrator", "updated", "started")],
)
def test_agent_that_a_file_restarts_after_its_end_is_running(
    make: Make, format_id: str, stamp: str, start: str
) -> None:
    project = make(format_id)
    project.session.agents.start("a-1", type="code", task="Part")
    project.session.agents.progress("a-1", 0.5)
    before = project.read()["agents"][0]
    project.session.agents.done("a-1")
    doc, now = project.read(), timestamps.write(project.clock.now())
    restarted = doc | {"agents": [before | {start: now}], stamp: now}
    swap_in(project.place, json.dumps(restarted).encode())
    project.session.note("on")
    after = project.read()["agents"][0]
    assert [after[key] == before[key] for key in ("status", "progress", start)] == [
        True,
        True,
        False,
    ]
    assert project.disputes() == []


@pytest.mark.parametrize(
    ("format_id", "stamp"), [("craft", "updated_at"), ("orchestrator", "updated")]
)
def test_program_that_saves_its_old_copy_removes_no_task(
    make: Make, format_id: str, stamp: str
) -> None:
    project = make(format_id)
    held = project.read() | {"pending_tasks": ["Theirs"]}

    def save() -> None:
        held[stamp] = timestamps.write(project.clock.now())
        swap_in(project.place, json.dumps(held, indent=2).encode())

    save()
    project.session.tasks.add("Ours")
    known = project.kinds()
    save()
    project.session.note("next")
    assert project.kinds() == known == ["foreign.edited", "step.added"]


@pytest.mark.parametrize("format_id, stamp", [("craft", "updated_at"), ("orchestrator", "updated")])
@pytest.mark.parametrize("change", ["tasks.done", "record.rename"])
def test_program_that_saves_its_old_copy_undoes_no_change_of_ours(
    make: Make, format_id: str, stamp: str, change: str
) -> None:
    project = with_tasks(make, format_id)
    held = project.read()
    attrgetter(change)(project.session)("t1")
    held[stamp] = timestamps.write(project.clock.now())
    swap_in(project.place, json.dumps(held, indent=2).encode())
    before = project.session.status()
    project.session.note("next")
    after = project.session.status()
    assert [after.as_json()[key] for key in ("goal", "steps")] == [
        before.as_json()[key] for key in ("goal", "steps")
    ]
    assert (after.as_json()["steps"]["done"], after.goal == "t1") == (
        (1, False) if change == "tasks.done" else (0, True)
    )


@pytest.mark.parametrize(
    ("format_id", "stamp", "change", "subject", "word"),
    [
        ("craft", "updated_at", "agents.done", ("agent", "t2"), "done"),
        ("orchestrator", "updated", "agents.done", ("agent", "t2"), "done"),
        ("praxis", "updated_at", "tasks.start", ("step", "t2"), "running"),
        ("essay", "last_activity", "tasks.done", ("step", "stage-1"), "done"),
    ],
)
def test_program_that_saves_its_old_copy_reverts_no_status(
    make: Make, format_id: str, stamp: str, change: str, subject: tuple[str, str], word: str
) -> None:
    project = with_tasks(make, format_id)
    project.session.tasks.start("stage-1" if format_id == "essay" else "t1")
    project.session.agents.start("t2", type="code")
    held = project.read()
    attrgetter(change)(project.session)(subject[1])
    held[stamp] = timestamps.write(project.clock.now())
    swap_in(project.place, json.dumps(held, indent=2).encode())
    project.session.note("next")
    assert getattr(state_of(project.session).rows.get(*subject), "status", "") == word


@pytest.mark.parametrize("format_id, stamp", [("craft", "updated_at"), ("orchestrator", "updated")])
def test_program_that_ends_a_task_in_its_old_copy_reopens_no_other(
    make: Make, format_id: str, stamp: str
) -> None:
    project = with_tasks(make, format_id)
    held = project.read()
    project.session.tasks.done("t1")

    def save() -> None:
        held[stamp] = timestamps.write(project.clock.now())
        swap_in(project.place, json.dumps(held, indent=2).encode())
        project.session.note("next")

    held["pending_tasks"].append("Theirs")
    save()
    held["pending_tasks"].remove("Task t2")
    held["completed_work"].append("Task t2")
    save()
    rows: list[Any] = list(state_of(project.session).rows.select("step"))
    assert [row.status for row in rows] == ["done", "done", "pending"]


@pytest.mark.parametrize("format_id, stamp", [("craft", "updated_at"), ("orchestrator", "updated")])
def test_old_goal_in_a_stale_copy_does_not_replace_a_newer_one(
    make: Make, format_id: str, stamp: str
) -> None:
    project = make(format_id)
    one, other = project.read(), project.read()
    for held, change in (
        (one, {"goal": "Add a logout page"}),
        (other, {"pending_tasks": ["Test"]}),
    ):
        held |= {**change, stamp: timestamps.write(project.clock.now())}
        swap_in(project.place, json.dumps(held, indent=2).encode())
        project.session.note("next")
    assert project.session.status().goal == project.read()["goal"] == "Add a logout page"
    assert project.titles() == ["Test"] and project.disputes() == []


def test_recorded_edit_is_not_reported_as_residue(make: Make) -> None:
    project = with_tasks(make)
    project.edit(lambda v: v.update(pending_tasks=[*v["pending_tasks"], "Theirs"], mode="debug"))
    project.session.note("on")
    (edited,) = [body for body in project.edits() if isinstance(body, ev.ForeignEdited)]
    assert edited.residue == "" and "Theirs" in project.titles()


def test_many_tasks_completed_at_once_need_few_comparisons(make: Make, tries: list[object]) -> None:
    project = make("craft")
    for n in range(60):
        project.session.tasks.add(f"Task {n}", id=f"t{n}")

    def finish(value: Any) -> None:
        tasks = value["pending_tasks"]
        value.update(pending_tasks=tasks[40:], completed_work=tasks[:40])

    tries.clear()
    project.edit(finish)
    project.session.note("seen")
    edited, *done = project.edits()
    assert len(done) == 40 and edited.residue == ""  # type: ignore[attr-defined]
    assert len(tries) < 10


def test_removed_task_passes_its_status_to_no_other(make: Make) -> None:
    project = make("orchestrator")
    for name in ("one", "two", "three"):
        project.session.tasks.add(f"Task {name}", id=name)
    project.session.tasks.start("two")

    def change(value: Any) -> None:
        value["pending_tasks"].remove("Task two")
        value["completed_work"].append({"task": "Another", "outcome": "", "files": []})

    project.edit(change)
    project.session.note("next")
    rows = state_of(project.session).rows.select("step")
    found = {getattr(row, "title", ""): getattr(row, "status", "") for row in rows}
    assert found["Task one"] == found["Task three"] == "pending"
    assert (found["Task two"], found["Another"]) == ("running", "done")


@pytest.mark.parametrize("format_id", ["craft", "orchestrator"])
def test_task_that_replaces_a_running_one_is_not_running(make: Make, format_id: str) -> None:
    project = make(format_id)
    project.session.tasks.add("Task", id="t")
    project.session.tasks.start("t")
    project.edit(lambda value: value.update(pending_tasks=["Sweep"]))
    project.session.note("next")
    rows: list[Any] = list(state_of(project.session).rows.select("step"))
    assert {row.title: row.status for row in rows} == {"Task": "running", "Sweep": "pending"}


def test_same_edit_twice_is_recorded_once(make: Make) -> None:
    project = with_tasks(make)
    data = project.edit(lambda v: v["pending_tasks"].append("Write docs"))
    project.session.note("one")
    swap_in(project.place, data)
    project.session.note("two")
    assert project.titles().count("Write docs") == 1 and len(project.edits()) == 2


def test_same_bytes_after_many_events_are_an_edit_again(make: Make) -> None:
    project = with_tasks(make)
    data = project.edit(lambda v: v.update(goal="Theirs"))
    project.session.note("one")
    project.session.record.rename("Ours")
    for number in range(20):
        project.session.note(f"and {number}")
    swap_in(project.place, data)
    project.session.note("two")
    assert state_of(project.session).core.goal == "Theirs"


def test_absorbing_alone_writes_no_file(make: Make) -> None:
    project = with_tasks(make)
    project.edit(lambda v: v["pending_tasks"].append("Write docs"))
    before = everything(project.folder)
    absorb_file_edits(project.home.context, project.session.id)
    assert "Write docs" in project.titles() and everything(project.folder) == before


def test_edit_is_written_to_the_other_formats_of_the_session(make: Make) -> None:
    project = make("craft", "orchestrator", AI_SESSION)
    path = project.folder / ".claude/orchestrator-session.json"
    project.edit(lambda v: v["pending_tasks"].append("Write docs"), path)
    project.session.note("next")
    (craft,) = (project.folder / ".craft/cache/orchestration-sessions").glob("*.json")
    assert project.read(craft)["pending_tasks"] == ["Write docs"]
    assert "Write docs" in project.ai("implementation-plan.yaml").read_text()


def test_log_line_of_another_program_is_recorded_and_not_repeated(make: Make) -> None:
    project = make(AI_SESSION)
    log = project.ai("history.jsonl")
    project.session.record.command("ours")
    line = json.loads(log.read_text().splitlines()[0]) | {"command": "theirs", "mine": 1}
    with log.open("a") as file:
        file.write(json.dumps(line) + "\n")
    project.session.record.command("later")
    assert ran(log) == ["ours", "theirs", "later"]
    assert [b.name for b in project.edits() if isinstance(b, ev.CommandRan)] == ["theirs"]
    assert '"mine": 1' in log.read_text()


def test_other_sessions_in_the_index_are_no_edit_of_ours(make: Make) -> None:
    project = make(AI_SESSION)
    project.edit(
        lambda v: v["active_features"].append(
            {"feature_id": "other-2026-01-01", "status": "active"}
        ),
        project.index,
    )
    project.session.note("next")
    assert project.edits() == []
    ids = [entry["feature_id"] for entry in project.read(project.index)["active_features"]]
    assert ids == ["login-2026-01-31", "other-2026-01-01"]


# -- decisions ---------------------------------------------------------------------------------


def decided(project: Project) -> list[tuple[str, str]]:
    rows: list[Any] = list(state_of(project.session).rows.select("decision"))
    return sorted((row.what, row.because) for row in rows)


def _add(key: str, element: Any, value: Any) -> None:
    value[key].append(element)


def _reword(words: dict[str, str], value: Any) -> None:
    value["decisions_made"][0].update(words)


def in_file(project: Project) -> list[tuple[str, str]]:
    is_craft = project.place.parent.name != ".claude"
    what, because = ("context", "reasoning") if is_craft else ("decision", "rationale")
    return sorted((d[what], d[because]) for d in project.read()["decisions_made"])


@pytest.mark.parametrize("format_id", ["craft", "orchestrator"])
def test_decisions_of_one_moment_are_not_recorded_again(
    make: Make, format_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ticking, "now", lambda clock: 1_800_000_000_000)
    project = make(format_id)
    for number in range(3):
        project.session.decide(f"Ours {number}", because="so")
    for number in range(3):
        copy = project.read()["decisions_made"][0]
        theirs = {k: f"Theirs {number}" if k in ("context", "decision") else copy[k] for k in copy}
        project.edit(partial(_add, "decisions_made", theirs))
        project.session.note("next")
    both = [(f"{who} {number}", "so") for who in ("Ours", "Theirs") for number in range(3)]
    assert decided(project) == in_file(project) == both
    assert project.kinds().count("decision.made") == 3


def test_second_decision_of_one_moment_is_not_a_rewording_of_the_first(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ticking, "now", lambda clock: 1_800_000_000_000)
    project = make("craft")
    for what in ("Keep sessions in a store", "Redis"):
        project.session.decide(what, because="so", options=["a", "b"], chosen="b")

    def remove_first(value: Any) -> None:
        del value["decisions_made"][0]
        value["pending_tasks"].append("Write it")

    project.edit(remove_first)
    project.session.note("next")
    both = [("Keep sessions in a store", "so"), ("Redis", "so")]
    assert decided(project) == in_file(project) == both
    assert "decision.made" not in project.kinds()
    assert residues(project) == ["decisions: Keep sessions in a store was removed"]


@pytest.mark.parametrize("format_id", ["craft", "orchestrator"])
def test_changed_decision_stays_the_same_decision(make: Make, format_id: str) -> None:
    project = make(format_id)
    project.session.decide("Use a file", because="it is simple")
    project.session.decide("Use it for all of them", because="one is enough")
    for what, because in (("Use a file", "fast"), ("Use a table", "fast"), ("Use two", "safe")):
        words = {"context": what, "reasoning": because}
        words = words if format_id == "craft" else {"decision": what, "rationale": because}
        project.edit(partial(_reword, words))
        project.session.note("next")
        assert decided(project) == in_file(project)
        assert (what, because) in decided(project) and len(decided(project)) == 2


def test_changed_choice_stays_the_same_choice(make: Make) -> None:
    """This format has one text for the question and the chosen option."""
    project = make("orchestrator")
    project.session.decide("Which store", because="so", options=["a", "b"], chosen="b")
    for text, what, chosen in (
        ("Which store for all: b", "Which store for all", "b"),
        ("Which store for all: a", "Which store for all", "a"),
    ):
        project.edit(partial(_reword, {"decision": text}))
        project.session.note("next")
        rows: list[Any] = list(state_of(project.session).rows.select("decision"))
        assert [(r.what, r.chosen, r.options) for r in rows] == [(what, chosen, ["a", "b"])]
        assert in_file(project) == [(text, "so")]


def residues(project: Project) -> list[str]:
    return [body.residue for body in project.edits() if isinstance(body, ev.ForeignEdited)]


def replace_first_decision(format_id: str, what: str) -> Callable[[Any], None]:
    """Remove the first decision and add another one with the same time."""

    def act(value: Any) -> None:
        gone = value["decisions_made"].pop(0)
        key = "context" if format_id == "craft" else "decision"
        value["decisions_made"].append({**gone, key: what})

    return act


@pytest.mark.parametrize("format_id", ["orchestrator", "craft"])
@pytest.mark.parametrize("chosen", ["", "b"])
def test_decision_reworded_in_one_file_is_reworded_in_the_other(
    make: Make, format_id: str, chosen: str
) -> None:
    """One of the formats stores whole seconds only."""
    project = make("orchestrator", "craft")
    assert isinstance(project.clock, Ticking)
    project.clock.turn(345)
    options = ["a", "b"] if chosen else []
    project.session.decide("Use this store", because="fast", options=options, chosen=chosen)
    places = {b.format: Path(b.place) for b in project.session.files.list()}
    (entry,) = project.read(places["craft"])["decisions_made"]

    def reword(doc: Any) -> None:
        doc["decisions_made"] = json.loads(
            json.dumps(doc["decisions_made"]).replace("this", "that")
        )

    project.edit(reword, places[format_id])
    project.session.note("next")
    (one,) = project.read(places["orchestrator"])["decisions_made"]
    (other,) = project.read(places["craft"])["decisions_made"]
    assert one["decision"] == f"Use that store{': b' * bool(chosen)}"
    assert (other["context"], other["timestamp"]) == ("Use that store", entry["timestamp"])
    assert other["chosen"] == (chosen or "Use that store")


@pytest.mark.parametrize("format_id", ["craft", "orchestrator"])
def test_new_decision_with_the_time_of_a_removed_one_is_another_decision(
    make: Make, format_id: str
) -> None:
    project = make(format_id)
    project.session.decide("Keep the session in a cookie", because="so")
    project.edit(replace_first_decision(format_id, "Deploy on Friday"))
    project.session.note("next")
    both = [("Deploy on Friday", "so"), ("Keep the session in a cookie", "so")]
    assert decided(project) == in_file(project) == both
    assert residues(project) == ["decisions: Keep the session in a cookie was removed"]


def test_two_decisions_with_redacted_secrets_stay_two_decisions(make: Make) -> None:
    project = make("craft")
    project.session.decide("Log in with PASSWORD=hunter2hunter2", because="so")
    project.edit(
        replace_first_decision("craft", "Deploy by ghp_abcdefghijklmnopqrstuvwxyz0123456789")
    )
    project.session.note("next")
    both = ["Deploy by [redacted:github-token]", "Log in with PASSWORD=[redacted:secret]"]
    assert [what for what, _ in decided(project)] == both


@pytest.mark.parametrize("format_id", ["craft", "orchestrator"])
def test_only_an_uncertain_rewording_of_a_decision_is_reported(make: Make, format_id: str) -> None:
    project = make(format_id)
    project.session.decide("Keep the session in a cookie", because="so")
    project.edit(replace_first_decision(format_id, "Keep the session in a signed cookie"))
    project.session.note("next")
    assert residues(project) == [""]
    project.edit(replace_first_decision(format_id, "Keep tokens"))
    project.session.note("next")
    assert decided(project) == in_file(project) == [("Keep tokens", "so")]
    was = "Keep the session in a signed cookie"
    assert residues(project)[1:] == [f"decisions: {was} was removed (it counts as Keep tokens now)"]


def test_resolving_a_claim_does_not_resolve_a_similar_one(make: Make) -> None:
    project = make("essay")
    claims = [f"The population of the city was {n} in that year" for n in (1, 2)]
    for text in claims:
        entry = {"claim_text": text, "section": 1, "paragraph": None, "reason": "timeout"}
        more = {"added_at": "2027-01-15T07:00:00Z", "resolved": False}
        project.edit(partial(_add, "deferred_verifications", {**entry, **more}))
        project.session.note("next")
    project.edit(lambda v: v["deferred_verifications"][1].update(resolved=True))
    project.session.note("last")
    rows: list[Any] = list(state_of(project.session).rows.select("claim"))
    assert [(row.text, row.resolved) for row in rows] == [(claims[0], False), (claims[1], True)]
    assert not any("not recorded" in line for line in project.notices)


def test_starting_one_stage_in_an_essay_file_records_all_stages(make: Make) -> None:
    project = make()
    project.session.files.bind("essay")
    project.edit(lambda v: v["stages"]["stage_1"].update(status="in_progress"))
    project.session.note("next")
    stages = ["Thesis development", "Essay structuring", "Argument development"]
    assert project.titles() == [*stages, "Paragraph writing"]


# -- what stays in the file --------------------------------------------------------------------


def test_yaml_retains_keys_comments_and_spacing_of_others(make: Make) -> None:
    project = make(AI_SESSION)
    state = project.ai("state.yaml")
    text = "# kept by hand\n" + state.read_text() + "mine:   {a: 1}   # odd\n"
    state.write_text(text)
    project.session.tasks.add("Next", id="t1")
    project.session.tasks.start("t1")
    after = state.read_text()
    assert after.startswith("# kept by hand\n") and "mine:   {a: 1}   # odd\n" in after
    assert project.read(state)["current_state"]["active_task"] == "t1"


def test_json_retains_its_indentation_and_unknown_keys(make: Make) -> None:
    project = make("orchestrator")
    project.place.write_text(json.dumps(project.read() | {"mine": [1, {"x": None}]}, indent=4))
    project.session.tasks.add("Next")
    assert '\n    "goal"' in project.place.read_text()
    assert project.read()["mine"] == [1, {"x": None}] and project.read()["pending_tasks"] == [
        "Next"
    ]


@pytest.mark.parametrize(
    ("format_id", "stamp"),
    [
        ("craft", "updated_at"),
        ("praxis", "updated_at"),
        ("orchestrator", "updated"),
    ],
)
def test_key_can_be_added_and_removed_repeatedly_by_its_owner(
    make: Make, format_id: str, stamp: str
) -> None:
    project = make(format_id)

    def add(doc: Any) -> None:
        doc["mine"] = "waits for the review"

    def remove(doc: Any) -> None:
        del doc["mine"]

    for change in (add, remove, add, remove):
        project.edit(partial(_add_stamp, stamp, project.clock.now()))
        project.edit(change)
        project.session.note("next")
        assert ("mine" in project.read()) == (change is add)


def _add_stamp(key: str, at: int, doc: Any) -> None:
    doc[key] = timestamps.write(at)


@pytest.mark.parametrize("title", ["Designer chairs", "Paint", "Build (fast)"])
def test_completed_task_with_a_similar_title_is_another_task(make: Make, title: str) -> None:
    project = make("craft")
    for each in ("Design", "Build"):
        project.session.tasks.add(each)

    def end(doc: Any) -> None:
        doc["pending_tasks"].remove("Design")
        doc["completed_work"].append(title)

    project.edit(end)
    project.session.note("next")
    assert sorted(project.titles()) == sorted(["Design", "Build", title])


SECRET = "ghp_" + "a1B2c3D4e5" * 4


@pytest.mark.parametrize("format_id", ["craft", "orchestrator"])
def test_secret_in_a_file_stays_there_and_is_stored_nowhere_else(
    make: Make, format_id: str
) -> None:
    project = make(format_id)
    title = f"Rotate {SECRET} today"
    project.edit(lambda v: v["pending_tasks"].append(title))
    for number in range(3):
        project.session.tasks.add(f"Next {number}")
    project.edit(lambda v: v["pending_tasks"].append("Theirs"))
    project.again().note("last")
    assert project.read()["pending_tasks"].count(title) == 1
    assert len(project.titles()) == 5 and not any(SECRET in t for t in project.titles())
    assert project.suspended == "" and project.disputes() == []
    with project.home.context.store.view(project.session.id) as view:
        assert SECRET not in str([e.body for e in project.home.context.journal.events(view)])
    (binding,) = project.session.files.list()
    kept = project.home.context.store.machine.bindings.contents(binding, project.place.name)
    assert kept and not any(SECRET.encode() in data for data in kept)


CLEANED = {
    "control": "ring \x07 the \x1b[31mbell",
    "long": "very " * 3000 + "long",
    "separators": "one\u2028two\u2029three",
}


@pytest.mark.parametrize("text", CLEANED.values(), ids=list(CLEANED))
def test_text_that_the_journal_cleans_is_not_rewritten_in_the_file(make: Make, text: str) -> None:
    project = make("orchestrator")
    project.edit(lambda v: v["pending_tasks"].append(text))
    project.session.note("one")
    project.session.tasks.add("Ours")
    assert text in project.read()["pending_tasks"] and "Ours" in project.read()["pending_tasks"]
    (title,) = [t for t in project.titles() if t != "Ours"]
    assert "\x1b" not in title and len(title) <= 4000
    project.edit(lambda v: v.update(goal="Theirs"))
    project.session.note("two")
    assert project.disputes() == [] and text in project.read()["pending_tasks"]
    assert len(project.titles()) == 2


ODD = {**CLEANED, "secret": f"with {SECRET} in it", "spaces": "  both sides \n", "crlf": "a\r\nb"}
LISTS: dict[str, tuple[str, dict[str, Any]]] = {
    "choice": (
        "craft",
        {"decisions_made": {"context": ..., "timestamp": "2027-01-15T07:00:00.000Z"}},
    ),
    "file": (
        "craft",
        {
            "files_modified": {
                "path": ...,
                "action": "modified",
                "timestamp": "2027-01-15T07:00:00.000Z",
            }
        },
    ),
    "decision": (
        "orchestrator",
        {"decisions_made": {"decision": ..., "timestamp": "2027-01-15T07:00:00Z"}},
    ),
    "error": ("orchestrator", {"errors": {"message": ..., "timestamp": "2027-01-15T07:00:00Z"}}),
    "claim": (
        "essay",
        {"deferred_verifications": {"claim_text": ..., "section": 1, "reason": "timeout"}},
    ),
}


@pytest.mark.parametrize("text", ODD.values(), ids=list(ODD))
@pytest.mark.parametrize("what", LISTS)
def test_text_that_the_journal_cleans_is_in_its_list_once(make: Make, what: str, text: str) -> None:
    format_id, ((key, element),) = LISTS[what][0], LISTS[what][1].items()
    project = make(format_id)
    theirs = {name: text if each is ... else each for name, each in element.items()}
    project.edit(lambda v: v[key].append(theirs))
    project.session.note("one")
    project.session.decide("Ours")
    project.again().record.error("Ours")
    now = project.read()[key]
    assert now[0] == theirs
    assert [each for each in now[1:] if "Ours" not in str(each)] == []


@pytest.mark.parametrize("text", ODD.values(), ids=list(ODD))
def test_log_line_that_the_journal_cleans_is_not_added_again(make: Make, text: str) -> None:
    project = make(AI_SESSION)
    log = project.ai("history.jsonl")
    line = {"timestamp": "2027-01-15T07:00:00Z", "command": "plan", "arguments": text}
    failed = line | {"arguments": "", "status": "failure", "error": f"!{text}"}
    log.write_text("".join(json.dumps(each) + "\n" for each in (line, failed)))
    before = log.read_bytes()
    project.session.note("one")
    project.again().note("two")
    assert log.read_bytes().startswith(before) and ran(log) == ["plan", "plan"]
    assert project.kinds().count("command.ran") == 2


def test_log_line_without_a_valid_time_is_not_added_again(make: Make) -> None:
    project = make(AI_SESSION)
    log = project.ai("history.jsonl")
    log.write_text(
        '{"timestamp": "yesterday", "command": "plan", "arguments": "", "status": "success"}\n'
    )
    before = log.read_bytes()
    project.session.note("one")
    project.again().note("two")
    assert log.read_bytes().startswith(before) and ran(log) == ["plan"]


@pytest.mark.parametrize(
    "text",
    [
        f"long {SECRET} " + "text " * 3000,
        "a \x07 bell " * 1000,
        "one\r\ntwo",
        "long " * 1000,
        "long" * 1000,
    ],
    ids=["secret", "control", "lines", "long", "plain"],
)
def test_text_that_the_journal_cleans_stays_in_every_place_of_the_file(
    make: Make, text: str
) -> None:
    project = make("orchestrator")
    decision = {"decision": text, "rationale": text, "timestamp": "2027-01-15T07:00:00Z"}

    def everywhere(value: Any) -> None:
        value.update(goal=text)
        value["decisions_made"].append(decision)
        value["errors"].append({"message": text, "timestamp": "2027-01-15T07:00:00Z"})
        value["pending_tasks"].append(text)

    project.edit(everywhere)
    project.session.note("one")
    project.session.note("two")  # the process compares only what changed since its own write
    project.session.decide("Ours")
    project.again().tasks.add("Ours")
    now = project.read()
    assert now["goal"] == text and now["pending_tasks"] == [text, "Ours"]
    assert now["decisions_made"][0] == decision and len(now["decisions_made"]) == 2
    assert [each["message"] for each in now["errors"]] == [text]


@pytest.mark.parametrize("text", ODD.values(), ids=list(ODD))
def test_task_with_cleaned_text_is_recognized_when_others_change_it(make: Make, text: str) -> None:
    project = make("orchestrator")
    work = {"task": text, "outcome": "fine", "files": []}
    project.edit(lambda v: v["pending_tasks"].append(text))
    project.session.note("one")
    project.edit(lambda v: v.update(pending_tasks=[], completed_work=[work]))
    project.session.note("two")
    project.edit(lambda v: v["completed_work"][0].update(outcome="better"))
    project.again().note("three")
    now = project.read()
    assert now["pending_tasks"] == [] and now["completed_work"] == [work | {"outcome": "better"}]
    (step,) = project.session.tasks.list()
    assert (step.status, step.outcome) == ("done", "better")


@pytest.mark.parametrize("format_id", ["craft", "orchestrator"])
@pytest.mark.parametrize("text", ODD.values(), ids=list(ODD))
def test_task_with_cleaned_text_stays_running_after_other_events(
    make: Make, text: str, format_id: str
) -> None:
    project = make(format_id)
    project.edit(lambda v: v["pending_tasks"].append(text))
    project.session.note("one")
    project.session.tasks.start(project.session.tasks.list()[0].id)
    session = project.session
    for act in (
        partial(session.tasks.add, "Ours"),
        partial(session.record.command, "ls"),
        session.pause,
    ):
        act()
        before = project.place.read_bytes()
        assert b'"running"' in before
    write_files(project.again().context, project.session.id, force=True)
    assert project.place.read_bytes() == before


@pytest.mark.parametrize("text", ["Plain", *ODD.values()], ids=["plain", *ODD])
def test_error_in_an_old_copy_is_not_recorded_again(make: Make, text: str) -> None:
    project = make("orchestrator")
    error = {"message": text, "timestamp": "2027-01-15T07:00:00Z"}
    project.edit(lambda v: v["errors"].append(error))
    theirs = project.read()
    more = [f"what is nearest to the copy is from before the error {n}" for n in range(9)]
    project.edit(lambda v: v["pending_tasks"].extend(more))
    project.session.note("zero")
    theirs["pending_tasks"].append("Theirs")
    swap_in(project.place, json.dumps(theirs, indent=2).encode())
    project.session.note("one")
    project.again().note("two")
    assert project.read()["errors"] == [error] and project.kinds().count("error.raised") == 1
    assert project.titles() == [*more, "Theirs"]


def test_error_that_lost_its_time_is_not_recorded_again(make: Make) -> None:
    project = make("orchestrator")
    project.session.record.error("Broke")
    project.session.record.error("Broke")
    project.edit(lambda v: v["errors"][1].pop("timestamp"))
    project.session.note("one")
    project.edit(lambda v: v["errors"].append({"message": "Broke"}))
    project.again().note("two")
    assert project.kinds().count("error.raised") == 1 and len(project.read()["errors"]) == 3


def test_error_of_an_agent_that_succeeded_later_is_not_recorded_again(make: Make) -> None:
    project = make("orchestrator")
    project.session.agents.start("code-1", task="build")
    project.session.agents.fail("code-1", "Broke")
    (error,) = project.read()["errors"]

    def end(v: Any) -> None:
        v["agents"][0] |= {"status": "complete", "completed": "2027-01-15T09:00:00Z"}

    project.edit(end)
    project.session.note("one")
    assert project.kinds().count("agent.finished") == 1
    assert project.kinds().count("error.raised") == 0 and project.read()["errors"] == [error]


def test_secret_in_two_places_of_a_file_stays_in_both(make: Make) -> None:
    project = make("praxis")
    artifact = {"phase_number": 0, "evidence": {"k": SECRET}, "outputs": {"o": SECRET}}

    def passed(v: Any) -> None:
        v["phase_artifacts"]["0"] = {**artifact, "timestamp": "2027-01-15T07:00:00Z"}
        v["checkpoints"]["0"], v["completed_phases"], v["current_phase"] = "passed", [0], 1

    project.edit(passed)
    project.session.note("one")
    project.again().note("two")
    found = project.read()["phase_artifacts"]["0"]
    assert found["evidence"] == {"k": SECRET} and found["outputs"] == {"o": SECRET}


def test_goal_stays_when_a_file_without_goals_names_another_target(make: Make) -> None:
    project = make("praxis")
    goal = project.session.status().goal
    project.edit(lambda v: v["metadata"].update(spec_path="specs/other"))
    project.edit(lambda v: v.update(target_file="specs/other", workflow_type="other_v1"))
    project.session.note("one")
    assert project.session.status().goal == goal
    assert project.read()["target_file"] == "specs/other"


def test_phases_continue_when_a_file_names_another_workflow(make: Make) -> None:
    session = make().home.start("Ship it", workflow="spec-execution", formats=["praxis"])
    session.phases.done(0, override=True, because="seen to")
    path = Path(session.files.list()[0].place)
    stated = json.loads(path.read_text())
    path.write_text(json.dumps({**stated, "workflow_type": "other_v2"}))
    session.phases.done(1, override=True, because="seen to")
    assert json.loads(path.read_text())["current_phase"] == 2


def test_praxis_file_with_an_error_records_that_its_session_did_not_fail(
    make: Make,
) -> None:
    project = make("praxis")
    project.session.record.error("no network")
    assert project.read()["lifecycle"]["last_error"] == "no network"
    assert project.read()["forestay"]["facts"] == {"was": {"status": "failed"}}


def test_empty_text_stays_empty(make: Make) -> None:
    project = make("craft")
    project.edit(lambda v: v["metadata"].update(notes="", mine=""))
    choice = {"timestamp": "2027-01-15T07:00:00.000Z", "context": "db", "options": ["", "b"]}
    project.edit(lambda v: v["decisions_made"].append(choice))
    project.session.note("one")
    project.again().decide("Ours")
    assert project.read()["metadata"]["notes"] == project.read()["metadata"]["mine"] == ""
    assert project.read()["decisions_made"][0] == choice


@pytest.mark.parametrize("text", ODD.values(), ids=list(ODD))
def test_name_and_description_of_a_plan_stay_when_tasks_are_added(make: Make, text: str) -> None:
    project = make(AI_SESSION)
    plan = project.ai("implementation-plan.yaml")
    project.edit(lambda v: v["feature"].update(name=text, description=f"!{text}"), plan)
    project.session.note("one")
    project.session.tasks.add("Ours")
    project.session.tasks.add("Ours too")
    feature = project.read(plan)["feature"]
    assert (feature["name"], feature["description"]) == (text, f"!{text}")


def test_artifacts_in_a_plan_stay_until_the_file_removes_them(make: Make) -> None:
    project = make(AI_SESSION)
    plan = project.ai("implementation-plan.yaml")
    first = {"task_id": "t1", "description": "First", "status": "pending", "artifacts": ["a.md"]}
    second = {**first, "task_id": "t2", "description": "Second", "status": "in_progress"}
    third = {**first, "task_id": "t3", "description": "Third", "status": "blocked"}
    phase = {"phase_id": "p", "name": "P", "tasks": [first, second, third]}
    project.edit(lambda v: v["phases"].append(phase), plan)
    project.session.note("one")
    project.session.tasks.start("t1")
    project.session.record.rename("Another goal")
    project.again().tasks.add("Ours")
    project.session.tasks.done("t1", files=[str(project.folder / "b.md")])
    project.session.tasks.done("t2")
    tasks = project.read(plan)["phases"][0]["tasks"]
    assert [task["artifacts"] for task in tasks] == [["a.md", "b.md"], ["a.md"], ["a.md"]]
    project.edit(lambda v: v["phases"][0]["tasks"][0].update(artifacts=["b.md"]), plan)
    project.session.note("two")
    assert project.read(plan)["phases"][0]["tasks"][0]["artifacts"] == ["b.md"]


@pytest.mark.parametrize("format_id", ALL)
def test_second_write_without_a_change_writes_no_file(make: Make, format_id: str) -> None:
    project = make(format_id)
    project.session.tasks.add("First", id="t1")
    project.session.record.command("pytest")
    before = everything(project.folder)
    write_files(project.home.context, project.session.id, force=True)
    project.again()
    write_files(project.home.context, project.session.id, force=True)
    assert everything(project.folder) == before


def test_plan_is_not_written_when_only_the_state_changes(make: Make) -> None:
    project = make(AI_SESSION)
    before = everything(project.folder)
    project.session.note("no word of a plan")
    after = everything(project.folder)
    folder = f".ai-session/{project.ai('implementation-plan.yaml').parent.name}"
    plan, state = f"{folder}/implementation-plan.yaml", f"{folder}/state.yaml"
    assert after[plan] == before[plan] and after[state] != before[state]


# -- edits during a write ----------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["before", "after"])
def test_edit_during_a_write_is_not_lost(
    make: Make, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    project = with_tasks(make)
    done = _exchange_with(project, monkeypatch, moment)
    project.session.note("next")
    project.session.note("after that")
    assert done and "Theirs" in project.titles()
    assert "Theirs" in project.read()["pending_tasks"] and leftovers(project.folder) == []


def _exchange_with(project: Project, patch: pytest.MonkeyPatch, moment: str) -> list[int]:
    done: list[int] = []
    real = swap_file._swap

    def swap(aside: str, path: str) -> bool:
        if done:
            return real(aside, path)
        done.append(1)
        if moment == "before":
            project.edit(lambda v: v["pending_tasks"].append("Theirs"))
            return real(aside, path)
        made = real(aside, path)
        project.edit(lambda v: v["pending_tasks"].append("Theirs"))
        return made

    patch.setattr(swap_file, "_swap", swap)
    return done


@pytest.mark.parametrize("dies", [False, True], ids=["goes on", "dies"])
@pytest.mark.parametrize("format_id", ["orchestrator", "craft", "essay"])
def test_unknown_key_added_during_a_write_is_not_lost(
    make: Make, monkeypatch: pytest.MonkeyPatch, format_id: str, dies: bool
) -> None:
    project = make(format_id)
    real = swap_file._swap
    done: list[int] = []

    def swap(aside: str, path: str) -> bool:
        if done:
            return real(aside, path)
        done.append(1)
        project.edit(lambda value: value.update(x_theirs="kept"))
        was_there = real(aside, path)
        if dies:
            raise KeyboardInterrupt
        return was_there

    monkeypatch.setattr(swap_file, "_swap", swap)
    with suppress(KeyboardInterrupt):
        project.session.tasks.add("Ours")
    project.again().note("next")
    assert done and project.read()["x_theirs"] == "kept"
    assert leftovers(project.folder) == []


def test_invalid_file_written_during_a_write_stays_and_suspends_the_binding(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = with_tasks(make)
    real = swap_file._swap
    done: list[int] = []

    def swap(aside: str, path: str) -> bool:
        if not done:
            done.append(1)
            swap_in(project.place, b"{ half a fi")
        return real(aside, path)

    monkeypatch.setattr(swap_file, "_swap", swap)
    project.session.note("next")
    assert project.place.read_bytes() == b"{ half a fi" and project.suspended
    project.session.note("after that")
    assert project.place.read_bytes() == b"{ half a fi" and leftovers(project.folder) == []


def test_edit_survives_on_a_system_without_atomic_exchange(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(swap_file, "_swap_names", lambda a, b: False)
    project = with_tasks(make)
    project.edit(lambda v: v["pending_tasks"].append("Theirs"))
    project.session.note("next")
    assert "Theirs" in project.titles() and leftovers(project.folder) == []


# -- reading -----------------------------------------------------------------------------------


def test_reading_writes_nothing(make: Make) -> None:
    project = make(AI_SESSION, "craft", "orchestrator")
    project.session.tasks.add("First")
    path = project.folder / ".claude/orchestrator-session.json"
    project.edit(lambda v: v["pending_tasks"].append("Theirs"), path)
    session = project.again()
    tree, rows = everything(project.folder), home_rows(project)
    session.status()
    session.brief()
    state_of(session)
    list(session.log())
    project.home.list()
    mirror_of(project.home.context).pending(session.id)
    assert everything(project.folder) == tree and home_rows(project) == rows


def home_rows(project: Project) -> dict[str, list[Any]]:
    tables = ("session", "event", "row", "binding", "rendering", "holder")
    return {t: project.home.context.store.database.read(f"SELECT * FROM {t}", ()) for t in tables}  # type: ignore[attr-defined]


def test_pending_edits_are_listed_before_they_are_absorbed(make: Make) -> None:
    project = with_tasks(make)
    assert mirror_of(project.home.context).pending(project.session.id) == []
    project.edit(lambda v: v["pending_tasks"].append("Theirs"))
    (move,) = mirror_of(project.home.context).pending(project.session.id)
    assert isinstance(move.body, ev.StepAdded) and move.body.title == "Theirs"


def test_edit_with_unchanged_file_time_and_size_is_recorded(make: Make) -> None:
    project = with_tasks(make)
    before = project.place.stat()
    text = project.place.read_text().replace("Add login page", "Ada login page")
    project.place.write_text(text)
    os.utime(project.place, ns=(before.st_atime_ns, before.st_mtime_ns))
    project.session.note("next")
    assert state_of(project.session).core.goal == "Ada login page"


def _task(id: str, status: str) -> dict[str, object]:
    return {"task_id": id, "description": f"Do {id}", "agent": "code", "status": status}


@pytest.mark.req("S0-29", "S0-33")
def test_phases_of_a_plan_are_headings_and_only_its_tasks_are_counted(make: Make) -> None:
    project = make(AI_SESSION)
    phases = [
        {"phase_id": "p1", "name": "Design", "tasks": [_task("t1", "completed")]},
        {"phase_id": "p2", "name": "Build", "tasks": [_task("t2", "pending")]},
    ]
    plan = project.ai("implementation-plan.yaml")
    project.edit(lambda value: value.update(phases=phases), plan)
    project.session.note("taken up")
    reported = project.session.status()
    assert (reported.as_json()["steps"], reported.progress) == (
        {"done": 1, "skipped": 0, "total": 2},
        0.5,
    )
    assert reported.next == "start t2: Do t2"
    project.session.tasks.done("t2")
    reported = project.session.status()
    assert (
        reported.as_json()["steps"]["done"] == reported.as_json()["steps"]["total"] == 2
        and "p1" not in reported.next
    )
    briefing = project.session.brief().text
    assert "2 of 2 tasks" in briefing and "Design" not in briefing


@pytest.mark.req("S0-51", "X0-6")
def test_status_changed_in_the_state_or_the_index_is_recorded(make: Make) -> None:
    project = make(AI_SESSION)
    state, index = project.ai("state.yaml"), project.ai("../active-features.yaml")

    def status() -> str:
        return str(project.session.status().status)

    with state.open("a") as file:
        file.write('  status: "paused"\n')
    assert status() == "paused", "status() shows it before it is absorbed"
    project.session.note("taken up")
    state.write_text(state.read_text().replace('status: "paused"', 'status: "active"'))
    project.session.note("and again")
    assert status() == "active"
    project.session.pause()
    assert 'status: "paused"' in state.read_text() and 'status: "paused"' in index.read_text()
    index.write_text(index.read_text().replace('status: "paused"', 'status: "active"'))
    project.session.note("the other way")
    assert status() == "active" and project.disputes() == []


def test_status_changed_on_another_device_is_recorded(make: Make) -> None:
    project = make("craft")

    def write(status: str) -> None:
        moment = timestamps.write(project.clock.now(), milliseconds=True)
        project.edit(lambda v: v.update(device="MacBook Pro", status=status, updated_at=moment))
        project.notices.clear()
        project.session.note("heard")

    write("in_progress")
    project.session.decide("Use cookies", because="simple")
    project.session.pause()
    write("in_progress")
    assert state_of(project.session).core.status == "active"
    write("completed")
    assert state_of(project.session).core.status == project.read()["status"] == "completed"
    assert not any("not recorded" in line for line in project.notices)


@pytest.mark.parametrize("format_id", ["craft", "orchestrator"])
def test_heading_is_no_task_but_a_task_can_have_its_text(make: Make, format_id: str) -> None:
    project = make(AI_SESSION, format_id)
    (place,) = project.folder.glob(".c*/**/*.json")
    phases = [{"phase_id": "p1", "name": "Build", "tasks": [_task("t1", "pending")]}]
    plan = project.ai("implementation-plan.yaml")
    project.edit(lambda value: value.update(phases=phases), plan)
    project.session.note("taken up")
    assert project.read(place)["pending_tasks"] == ["Do t1"]
    project.edit(lambda value: value["pending_tasks"].append("Build"), place)
    project.session.note("and that")
    assert project.read(place)["pending_tasks"] == ["Do t1", "Build"]
    assert project.session.status().as_json()["steps"]["total"] == 2
