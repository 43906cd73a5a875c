"""The log of an ai-session: whole lines, added one at a time, never changed."""

from __future__ import annotations

import json
import os

import pytest

from holdfast import files
from tests.mirror.conftest import Make
from tests.mirror.support import AI_SESSION

ODD = {
    "quotes": "say \"hello\" \\ and 'bye'",
    "emoji": "done ✅ 👩‍👩‍👧 ok",
    "separators": "one\u2028two\u2029three",
    "lines": "first line\nsecond\tline",
}


@pytest.mark.req("S0-60", "S0-70")
def test_every_command_adds_one_line_and_changes_none(make: Make) -> None:
    project = make(AI_SESSION)
    log, before = project.ai("history.jsonl"), b""
    inode = log.stat().st_ino
    for number in range(5):
        project.session.command(f"run {number}", duration_ms=number)
        after = log.read_bytes()
        assert after.startswith(before) and after.count(b"\n") == number + 1
        before = after
    assert log.stat().st_ino == inode


@pytest.mark.parametrize("text", ODD.values(), ids=list(ODD))
def test_a_line_holds_any_text(make: Make, text: str) -> None:
    project = make(AI_SESSION)
    project.session.command("run", arguments=text, status="failure", error=text)
    (line,) = project.ai("history.jsonl").read_bytes().split(b"\n")[:-1]
    value = json.loads(line)
    assert value["arguments"] == value["error"] == text


def test_a_duration_is_in_milliseconds(make: Make) -> None:
    project = make(AI_SESSION)
    project.session.command("run", duration_ms=1_234)
    assert json.loads(project.ai("history.jsonl").read_text())["duration_ms"] == 1_234


@pytest.mark.req("S0-66")
def test_a_line_is_one_write_and_synced(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make(AI_SESSION)
    log = project.ai("history.jsonl")
    calls: list[tuple[str, bytes]] = []
    write, sync = os.write, os.fsync

    def is_log(fd: int) -> bool:
        return os.fstat(fd).st_ino == log.stat().st_ino

    def written(fd: int, data: bytes) -> int:
        if is_log(fd):
            calls.append(("write", bytes(data)))
        return write(fd, data)

    def synced(fd: int) -> None:
        if is_log(fd):
            calls.append(("sync", b""))
        sync(fd)

    monkeypatch.setattr(os, "write", written)
    monkeypatch.setattr(os, "fsync", synced)
    project.session.command("run")
    assert [name for name, _ in calls] == ["write", "sync"]
    assert calls[0][1] == log.read_bytes()


TORN = {
    "half": b'{"timestamp": "2026-01-31T10:00:00Z", "comm',
    "in a character": '{"command": "grün'.encode()[:-2],
    "nothing but a brace": b"{",
}


@pytest.mark.parametrize("torn", TORN.values(), ids=list(TORN))
def test_a_torn_last_line_stays_and_is_closed(make: Make, torn: bytes) -> None:
    project = make(AI_SESSION)
    log = project.ai("history.jsonl")
    project.session.command("one")
    whole = log.read_bytes()
    log.write_bytes(whole + torn)
    project.session.command("two")
    project.session.command("three")
    after = log.read_bytes()
    assert after.startswith(whole + torn + b"\n") and project.suspended == ""
    names = [json.loads(line)["command"] for line in after.splitlines() if line != torn]
    assert names == ["one", "two", "three"]


def test_a_line_that_another_program_adds_in_between_is_kept(make: Make) -> None:
    project = make(AI_SESSION)
    log = project.ai("history.jsonl")
    real = files.append_lines

    def append(path: str, data: bytes, mode: int = 0o600, *, soon: bool = False) -> None:
        if not done:
            done.append(1)
            with log.open("ab") as file:
                file.write(b'{"timestamp":"2026-01-31T10:00:00Z","command":"theirs"}\n')
        real(path, data, mode, soon=soon)

    done: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "append_lines", append)
        project.session.command("one")
    project.session.command("two")
    names = [json.loads(line)["command"] for line in log.read_text().splitlines()]
    assert names == ["theirs", "one", "two"] and "command.ran" in project.kinds()


def test_the_same_command_twice_is_two_lines(make: Make) -> None:
    project = make(AI_SESSION)
    log = project.ai("history.jsonl")
    for _ in range(3):
        project.session.command("pytest")
    project.again()
    log.unlink()
    project.session.command("pytest")
    assert log.read_text().count('"pytest"') == 4


def test_a_log_rewritten_by_someone_is_read_again_and_not_doubled(make: Make) -> None:
    project = make(AI_SESSION)
    log = project.ai("history.jsonl")
    for name in ("one", "two"):
        project.session.command(name)
    lines = log.read_text().splitlines()
    theirs = json.dumps(json.loads(lines[0]) | {"command": "theirs"})
    log.write_text("\n".join([theirs, *reversed(lines)]) + "\n")
    project.session.command("three")
    names = [json.loads(line)["command"] for line in log.read_text().splitlines()]
    assert names == ["theirs", "two", "one", "three"]
    assert project.kinds() == ["foreign.edited", "command.ran"]
