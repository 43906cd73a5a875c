"""The log of an ai-session: whole lines are added, and existing lines are not changed."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from forestay.api.session import Session
from forestay.base import files
from forestay.formats.text import safe_parse
from forestay.mirror.context import MAX_BYTES
from forestay.mirror.session_files import absorb_file_edits
from forestay.model.event import CommandRan
from tests.mirror.conftest import Make
from tests.mirror.support import AI_SESSION, ID, Project, Ticking, ran, recorded

ODD = {
    "quotes": "say \"hello\" \\ and 'bye'",
    "emoji": "done ✅ 👩‍👩‍👧 ok",
    "separators": "one\u2028two\u2029three",
    "lines": "first line\nsecond\tline",
}


class Passing(Ticking):
    """A clock that advances a few milliseconds at every reading."""

    def now(self) -> int:
        self._now += 3
        return self._now


def test_events_recorded_together_have_the_same_task_in_their_lines(make: Make) -> None:
    project = make(AI_SESSION)
    project.session.tasks.add("First", id="t1")
    log = project.ai("history.jsonl")
    before = len(log.read_text().splitlines())
    clock = Passing()
    clock.turn(project.clock.now() - clock.now() + 1000)
    with project.opened(clock=clock) as home:
        home.session(project.session.id).files.update(task="t1", model="opus")
    lines = [json.loads(line) for line in log.read_text().splitlines()[before:]]
    assert [line["task_id"] for line in lines] == ["t1"] * 3


@pytest.mark.req("S0-60", "S0-70")
def test_every_command_adds_one_line_and_changes_no_other(make: Make) -> None:
    project = make(AI_SESSION)
    log, before = project.ai("history.jsonl"), b""
    inode = log.stat().st_ino
    for number in range(5):
        project.session.record.command(f"run {number}", duration_ms=number)
        after = log.read_bytes()
        assert after.startswith(before) and after.count(b"\n") == number + 1
        before = after
    assert log.stat().st_ino == inode


@pytest.mark.req("S0-76")
def test_unknown_model_is_reported_and_the_last_valid_one_stays_in_the_file(make: Make) -> None:
    project = make(AI_SESSION)
    project.session.record.model("opus")
    assert project.notices == []
    project.session.record.model("gpt-9")
    project.session.record.command("swim", model="llama")
    assert [line.split()[-1] for line in project.notices] == ["'gpt-9'", "'llama'"]
    assert project.read(project.ai("state.yaml"))["current_state"]["model_in_use"] == "opus"


UPDATES: dict[str, Callable[[Session], object]] = {
    "note.added": lambda session: session.note("seen"),
    "step.added": lambda session: session.tasks.add("First", id="t1"),
    "step.started": lambda session: session.tasks.start("t1"),
    "decision.made": lambda session: session.decide("Use YAML", because="it is asked for"),
    "session.paused": lambda session: session.pause(),
    "session.resumed": lambda session: session.resume(),
}


@pytest.mark.req("S0-60", "S0-55")
def test_every_update_adds_one_line_to_the_log(make: Make) -> None:
    project = make(AI_SESSION)
    log, kinds = project.ai("history.jsonl"), []
    assert log.read_bytes() == b""
    for kind, update in UPDATES.items():
        before = log.read_bytes()
        update(project.session)
        kinds.append(kind)
        assert log.read_bytes().startswith(before) and recorded(log) == kinds
    project.again().note("another process goes on")
    assert recorded(log) == [*kinds, "note.added"] and ran(log) == []


@pytest.mark.req("S0-38", "S0-39", "S0-40", "S0-41", "S0-42", "S0-43", "S0-44", "S0-45")
def test_line_of_an_update_has_all_keys_with_task_and_model(make: Make) -> None:
    project = make(AI_SESSION)
    project.session.tasks.add("First", id="t1")
    project.session.tasks.start("t1")
    line = json.loads(project.ai("history.jsonl").read_text().splitlines()[-1])
    stamp = project.read(project.ai("state.yaml"))["current_state"]["last_updated"]
    assert line == {
        "timestamp": stamp,
        "command": "step.started",
        "arguments": "",
        "model": "sonnet",
        "agent": "unknown",
        "task_id": "t1",
        "status": "success",
        "duration_ms": 0,
        "event": "step.started",
    }
    reports = project.home.files.check(str(project.folder / ".ai-session"))
    assert [report.findings for report in reports] == [[]]


@pytest.mark.req("S0-43", "S0-85")
def test_line_of_a_command_names_the_active_task_and_is_not_added_again(make: Make) -> None:
    project = make(AI_SESSION)
    log = project.ai("history.jsonl")
    project.session.record.command("before")
    project.session.tasks.add("First", id="t1")
    project.session.tasks.start("t1")
    project.session.record.command("during")
    project.session.record.command("for another", task="t9")
    reported = [json.loads(line) for line in log.read_text().splitlines()]
    tasks = {line["command"]: line["task_id"] for line in reported if "event" not in line}
    assert tasks == {"before": None, "during": "t1", "for another": "t9"}
    # No line is added a second time after an edit of another file, or by another process.
    project.edit(lambda v: v["current_state"].update(mine=1), project.ai("state.yaml"))
    project.again().note("go on")
    assert ran(log) == ["before", "during", "for another"]
    absorb_file_edits(project.again().context, project.session.id)
    assert ran(log) == ["before", "during", "for another"]


def test_events_before_binding_are_not_in_the_log(make: Make) -> None:
    project = make("craft")
    project.session.note("before")
    project.session.files.bind(AI_SESSION)
    assert project.ai("history.jsonl").read_bytes() == b""
    project.edit(lambda v: v["current_state"].update(mine=1), project.ai("state.yaml"))
    project.session.note("after")
    assert recorded(project.ai("history.jsonl")) == ["note.added"]


@pytest.mark.parametrize("reached", [0, 1])
def test_interrupted_update_gets_its_line_once(make: Make, reached: int) -> None:
    project = make(AI_SESSION)
    log, state = project.ai("history.jsonl"), project.ai("state.yaml")
    project.session.note("one")
    older = log.read_bytes(), state.read_bytes()
    project.session.tasks.add("Second")
    state.write_bytes(older[1])
    if not reached:
        log.write_bytes(older[0])
    project.again().note("three")
    assert recorded(log) == ["note.added", "step.added", "note.added"] and project.edits() == []


def test_log_is_read_again_only_after_another_program_wrote_to_it(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make(AI_SESSION)
    log = project.ai("history.jsonl")
    project.session.note("one")
    project.session.note("two")
    reads = files.read_stamped

    def read(path: str, *limits: int, **how: bool) -> tuple[bytes, str]:
        assert path != str(log)
        return reads(path, *limits, **how)

    monkeypatch.setattr(files, "read_stamped", read)
    project.session.note("three")
    assert recorded(log) == ["note.added"] * 3
    with log.open("ab") as file:
        file.write(b'{"timestamp":"2026-01-31T10:00:00Z","command":"theirs"}\n')
    with pytest.raises(AssertionError):
        project.session.note("four")


def test_unchanged_log_is_not_parsed(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make(AI_SESSION)
    for number in range(3):
        project.session.note(str(number))

    def fail_to_parse(text: str) -> list[safe_parse.Line]:
        raise AssertionError(text)

    monkeypatch.setattr(safe_parse, "read_lines", fail_to_parse)
    project.again().note("another process")
    assert len(recorded(project.ai("history.jsonl"))) == 4


@pytest.mark.parametrize("text", ODD.values(), ids=list(ODD))
def test_log_line_can_contain_any_text(make: Make, text: str) -> None:
    project = make(AI_SESSION)
    project.session.record.command("run", arguments=text, status="failure", error=text)
    (line,) = project.ai("history.jsonl").read_bytes().split(b"\n")[:-1]
    value = json.loads(line)
    assert value["arguments"] == value["error"] == text


def test_duration_is_in_milliseconds(make: Make) -> None:
    project = make(AI_SESSION)
    project.session.record.command("run", duration_ms=1_234)
    assert json.loads(project.ai("history.jsonl").read_text())["duration_ms"] == 1_234


@pytest.mark.req("S0-66")
def test_log_line_is_one_synced_write(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make(AI_SESSION)
    log = project.ai("history.jsonl")
    calls: list[tuple[str, bytes]] = []
    write, sync = os.write, os.fsync

    def is_log(fd: int) -> bool:
        return os.fstat(fd).st_ino == log.stat().st_ino

    def written(fd: int, data: bytes) -> int:
        if is_log(fd):
            assert fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND
            calls.append(("write", bytes(data)))
        return write(fd, data)

    def synced(fd: int) -> None:
        if is_log(fd):
            calls.append(("sync", b""))
        sync(fd)

    monkeypatch.setattr(os, "write", written)
    monkeypatch.setattr(os, "fsync", synced)
    project.session.record.command("run")
    assert [name for name, _ in calls] == ["write", "sync"]
    assert calls[0][1] == log.read_bytes()


TORN = {
    "half": b'{"timestamp": "2026-01-31T10:00:00Z", "comm',
    "in a character": '{"command": "grün'.encode()[:-2],
    "nothing but a brace": b"{",
}


@pytest.mark.parametrize("torn", TORN.values(), ids=list(TORN))
def test_torn_last_line_stays_and_gets_a_line_end(make: Make, torn: bytes) -> None:
    project = make(AI_SESSION)
    log = project.ai("history.jsonl")
    project.session.record.command("one")
    whole = log.read_bytes()
    log.write_bytes(whole + torn)
    project.session.record.command("two")
    project.session.record.command("three")
    after = log.read_bytes()
    assert after.startswith(whole + torn + b"\n") and project.suspended == ""
    names = [json.loads(line)["command"] for line in after.splitlines() if line != torn]
    assert names == ["one", "two", "three"]


def test_line_added_by_another_program_in_between_stays(make: Make) -> None:
    project = make(AI_SESSION)
    log = project.ai("history.jsonl")
    real = files.append_lines

    def append(path: str, data: bytes, mode: int = 0o600, *, sync: bool = True) -> None:
        if not done:
            done.append(1)
            with log.open("ab") as file:
                file.write(b'{"timestamp":"2026-01-31T10:00:00Z","command":"theirs"}\n')
        real(path, data, mode, sync=sync)

    done: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "append_lines", append)
        project.session.record.command("one")
    project.session.record.command("two")
    assert ran(log) == ["theirs", "one", "two"] and "command.ran" in project.kinds()


def test_restored_log_has_one_line_for_each_run_of_the_same_command(make: Make) -> None:
    project = make(AI_SESSION)
    log = project.ai("history.jsonl")
    for _ in range(3):
        project.session.record.command("pytest")
    project.again()
    log.unlink()
    project.session.record.command("pytest")
    assert log.read_text().count('"pytest"') == 4


def test_rewritten_log_is_read_again_without_duplicates(make: Make) -> None:
    project = make(AI_SESSION)
    log = project.ai("history.jsonl")
    for name in ("one", "two"):
        project.session.record.command(name)
    lines = log.read_text().splitlines()
    theirs = json.dumps(json.loads(lines[0]) | {"command": "theirs"})
    log.write_text("\n".join([theirs, *reversed(lines)]) + "\n")
    project.session.record.command("three")
    assert ran(log) == ["theirs", "two", "one", "three"]
    assert project.kinds() == ["foreign.edited", "command.ran"]


def _set_clock_back(project: Project) -> None:
    assert isinstance(project.clock, Ticking)
    project.clock.turn(-3_600_000)


@pytest.mark.req("S0-38", "S0-75")
@pytest.mark.parametrize("again", [False, True])
def test_state_with_a_future_time_does_not_change_the_time_of_our_lines(
    make: Make, again: bool
) -> None:
    project = make(AI_SESSION)
    project.session.note("one")
    future = "2099-01-01T00:00:00Z"
    project.edit(lambda value: value["current_state"].update(last_updated=future))
    for text in ("two", "three"):
        project.session.note(text)
        if again:
            project.again()
    lines = project.ai("history.jsonl").read_text().splitlines()
    stamps = [json.loads(line)["timestamp"] for line in lines]
    assert stamps == sorted(stamps) and max(stamps) < "2030"
    assert project.read()["current_state"]["last_updated"] == future


def _reformat(log: Path) -> None:
    """Reformat every line, so that the whole log is read again."""
    log.write_text(log.read_text().replace('{"', '{ "'))


def test_reformatted_lines_are_recognized_with_the_active_task(make: Make) -> None:
    project = make(AI_SESSION)
    log = project.ai("history.jsonl")
    project.session.tasks.add("First", id="t1")
    project.session.tasks.start("t1")
    for name in ("one", "two", "three"):
        project.session.record.command(name)
    _reformat(log)
    project.session.record.command("four")
    assert ran(log) == ["one", "two", "three", "four"] and project.kinds() == []


@pytest.mark.req("S0-75")
@pytest.mark.parametrize("edited", [False, True])
def test_lines_stay_in_order_of_time_when_the_clock_is_set_back(make: Make, edited: bool) -> None:
    project = make(AI_SESSION)
    log = project.ai("history.jsonl")
    project.session.note("one")
    project.session.record.command("first")
    _set_clock_back(project)
    if edited:
        _reformat(log)
    project.session.record.command("second")
    project.session.note("two")
    project.again().record.command("third")
    stamps = [json.loads(line)["timestamp"] for line in log.read_text().splitlines()]
    assert len(stamps) == 5 and stamps == sorted(stamps)
    reports = project.home.files.check(str(project.folder / ".ai-session"))
    assert [report.findings for report in reports] == [[]]


def test_events_after_the_clock_was_set_back_have_one_line_each(
    make: Make,
) -> None:
    project = make(AI_SESSION)
    log = project.ai("history.jsonl")
    project.session.tasks.add("First", id="t1")
    project.session.tasks.start("t1")
    _set_clock_back(project)
    for number in range(3):
        project.session.record.command("pytest")
        project.session.note(str(number))
        _reformat(log)
        project.session.note("after an edit")
    assert ran(log) == ["pytest"] * 3
    assert recorded(log) == ["step.added", "step.started", *["note.added"] * 6]


def test_line_with_a_future_time_hides_no_update(make: Make) -> None:
    project = make(AI_SESSION)
    log = project.ai("history.jsonl")
    project.session.note("one")
    theirs = {"timestamp": "2099-01-31T10:00:00Z", "command": "tool.ran", "event": "tool.ran"}
    with log.open("a") as file:
        file.write(json.dumps(theirs) + "\n")
    project.session.note("two")
    assert recorded(log) == ["note.added", "tool.ran", "note.added"]
    assert json.loads(log.read_text().splitlines()[-1])["timestamp"] < "2099"


def test_first_update_after_the_clock_was_set_back_has_its_line(make: Make) -> None:
    project = make(AI_SESSION)
    log = project.ai("history.jsonl")
    _set_clock_back(project)
    with log.open("a") as file:
        file.write("{}\n")
    project.session.note("at once")
    assert recorded(log) == ["note.added"]


def _make_17_mb_log(project: Project) -> Path:
    ran = [CommandRan(name="run", arguments="x" * 7_900, status="success")] * 110
    for _ in range(20):
        project.session._recorder.record(*ran)
    log = project.ai("history.jsonl")
    assert log.stat().st_size > MAX_BYTES
    return log


def test_log_too_long_to_be_read_blocks_nothing(make: Make) -> None:
    project = make(AI_SESSION)
    log = _make_17_mb_log(project)
    project.edit(lambda v: v["current_state"].update(mine=1), project.ai("state.yaml"))
    project.again().note("after an edit")
    assert project.suspended == "" and b'"note.added"' in log.read_bytes().splitlines()[-1]
    assert not [each for each in project.home.doctor().left if each.code.startswith("format")]
    project.ai("state.yaml").unlink()
    project.again().note("without a state")
    assert project.suspended == "" and project.ai("state.yaml").exists()
    log.unlink()
    project.session.note("made anew")
    assert project.suspended == "" and log.stat().st_size > MAX_BYTES


def test_log_is_not_parsed_after_an_edit_of_another_file(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make(AI_SESSION)
    project.session.note("one")
    project.edit(lambda v: v["current_state"].update(mine=1), project.ai("state.yaml"))

    def fail_to_parse(text: str) -> list[safe_parse.Line]:
        raise AssertionError(text)

    monkeypatch.setattr(safe_parse, "read_lines", fail_to_parse)
    project.again().note("two")
    assert len(project.ai("history.jsonl").read_bytes().splitlines()) == 2


def test_log_too_long_to_be_read_is_removed_with_its_session(make: Make) -> None:
    project = make(AI_SESSION)
    log = _make_17_mb_log(project)
    project.session.lifecycle.forget()
    assert not log.exists()


def test_only_log_lines_with_erased_text_are_removed(make: Make) -> None:
    project = make(AI_SESSION)
    log = project.ai("history.jsonl")
    project.session.record.command("a-word-too-many")
    project.session.record.command("ruff")
    theirs = '{"timestamp":"2027-01-15T08:00:00Z","event":"theirs","of":"another program"}'
    with log.open("a") as file:
        file.write(f"{theirs}\n")
    project.session.lifecycle.forget("#2")
    assert "a-word-too-many" not in log.read_text() and theirs in log.read_text().splitlines()
    assert recorded(log) == ["theirs", "event.forgotten"] and ran(log) == ["ruff"]


@pytest.mark.parametrize("way", ["import", "restore"])
def test_imported_and_restored_events_have_their_lines_at_once(make: Make, way: str) -> None:
    project = make(AI_SESSION)
    pack, log = str(project.base / "login.fspack"), project.ai("history.jsonl")
    project.session.export(pack)
    with project.opened("elsewhere") as other:
        other.backups.import_(pack)
        there = other.session(project.session.id)
        there.note("one")
        there.record.command("pytest")
        there.export(pack, overwrite=True)
        other.backups.create(str(project.base / "backups"))
    if way == "import":
        project.home.backups.import_(pack)
    else:
        project.home.backups.restore(str(project.base / "backups"))
    assert recorded(log) == ["note.added"] and ran(log) == ["pytest"]


@pytest.mark.req("S0-43")
def test_lines_before_a_task_started_do_not_name_it(make: Make) -> None:
    project = make(AI_SESSION, git=True)
    log = project.ai("history.jsonl")
    project.session.tasks.add("First", id="t1")
    project.git("add", "-f", ".ai-session")
    project.again().record.command("before")
    project.session.tasks.start("t1")
    project.session.pause()
    reported = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["command"] for line in reported[1:]] == [
        "before",
        "step.started",
        "session.paused",
    ]
    assert [line["task_id"] for line in reported[1:]] == [None, None, "t1"]


def test_adopted_events_add_no_line_to_the_log_they_came_from(make: Make) -> None:
    project = make("craft")
    folder = project.folder / ".ai-session" / ID
    folder.mkdir(parents=True)
    (folder / "state.yaml").write_text(
        f"version: '1.0'\nfeature_id: {ID}\ncurrent_state:\n  active_task: null\n"
        "  model_in_use: opus\n  started_at: '2026-01-31T10:00:00Z'\n"
        "  last_updated: '2026-01-31T10:00:00Z'\n"
    )
    log = folder / "history.jsonl"
    log.write_text("")
    (adopted,) = project.home.files.adopt(str(project.folder / ".ai-session"))
    log.write_text("{}\n")
    project.home.session(adopted.session).note("one")
    assert recorded(log) == ["note.added"]


@pytest.mark.parametrize("ours", ["adopted", "begun"])
def test_lines_of_another_home_add_no_lines_for_our_events_before_binding(
    make: Make, ours: str
) -> None:
    project = make() if ours == "begun" else make(AI_SESSION)
    project.session.tasks.add("First", id="t1")
    project.session.tasks.start("t1")
    if ours == "begun":
        project.session.files.bind(AI_SESSION)
    log, here, there = (project.ai("history.jsonl"), project.session, project.opened("there"))
    log.write_bytes(b"")
    if ours == "adopted":
        here.files.unbind("ai-session")
        here = project.opened("here").session(project.opened("here").files.adopt()[0].session)
    other = there.session(there.files.adopt()[0].session)
    other.note("theirs")
    here.note("ours")
    assert recorded(log) == ["note.added", "note.added"]


def test_line_removed_from_the_log_is_reported_and_restored_once(
    make: Make,
) -> None:
    project = make(AI_SESSION)
    log = project.ai("history.jsonl")
    project.session.note("one")
    project.session.tasks.add("First", id="t1")
    project.session.note("two")
    lines = log.read_text().splitlines(keepends=True)
    log.write_text(lines[0] + lines[2])
    project.session.note("three")
    assert project.notices[-1].endswith("not recorded: 1 line of history.jsonl was removed")
    kinds = ["note.added", "note.added", "step.added", "foreign.edited", "note.added"]
    assert recorded(log) == kinds
    _reformat(log)
    project.session.note("four")
    assert recorded(log) == [*kinds, "note.added"]
