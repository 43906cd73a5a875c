"""Transcripts become sessions, once, and their events are unconfirmed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import forestay
from forestay.agents.import_transcripts import parse_since
from forestay.api.forestay import Forestay
from forestay.api.values import TranscriptInfo
from forestay.errors import InvalidInput
from forestay.model import event as ev
from tests.agents.test_transcripts import META, calls, chat, line, output, result, user, uses, write

DAY = 24 * 3600 * 1000


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "proj"
    folder.mkdir()
    return folder


@pytest.fixture
def stay(tmp_path: Path, project: Path) -> Iterator[Forestay]:
    with forestay.open(home=str(tmp_path / "home"), cwd=str(project)) as home:
        yield home


def conversation(project: Path) -> list[dict[str, Any]]:
    payload = {"type": "create", "filePath": f"{project}/a.py", "content": "x\n"}
    done = [{"type": "text", "text": "Done."}]
    records = [
        user("Mend the sail. It has a hole.", 1),
        uses("Bash", {"command": "make sail"}, 2),
        result(2, 3, "Error", "Exit code 2\nno thread", is_error=True),
        uses("Write", {"file_path": f"{project}/a.py", "content": "x\n"}, 4),
        result(4, 5, payload),
        uses("Write", {"file_path": "/elsewhere/b.py", "content": "x\n"}, 6),
        result(6, 7, {"type": "create", "filePath": "/elsewhere/b.py", "content": "x\n"}),
        uses("TodoWrite", {"todos": [{"content": "sew", "status": "in_progress"}]}, 8),
        result(8, 9, {}),
        line(
            "assistant", 10, message={"model": "opus", "content": done, "stop_reason": "end_turn"}
        ),
    ]
    return [{**record, "cwd": str(project)} for record in records]


@pytest.fixture
def transcripts(tmp_path: Path, project: Path) -> Path:
    write(tmp_path / "agents" / "-proj" / "n1.jsonl", *conversation(project))
    return tmp_path / "agents"


def import_from(
    stay: Forestay, place: Path, agent: str = "claude-code", **more: Any
) -> list[TranscriptInfo]:
    return stay.agents.adopt_transcripts(agent, str(place), **more)


def bodies(stay: Forestay, session: str) -> list[ev.Body]:
    return [line.event.body for line in stay.session(session).log()]


def test_a_conversation_becomes_a_paused_session_of_its_project(
    stay: Forestay, transcripts: Path
) -> None:
    [one] = import_from(stay, transcripts)
    assert (one.outcome, one.goal, one.native) == ("adopted", "Mend the sail", "n1")
    assert one.missed == {"a file outside of the project": 1}
    [row] = stay.list()
    assert (row.session, row.status, row.project) == (one.session, "paused", "proj")
    first, *rest = bodies(stay, one.session)
    assert isinstance(first, ev.SessionAdopted)
    assert (first.origin, first.native_id, first.git_branch) == (
        "transcript:claude-code",
        "n1",
        "main",
    )
    assert [type(body).__name__ for body in rest] == [
        *("MessageSent", "CommandRan", "FileChanged", "StepAdded", "StepStarted"),
        *("MessageSent", "AttributeSet"),
    ]
    assert len(rest) + 1 == one.events
    times = [event.event.head.at for event in stay.session(one.session).log()]
    assert times[0] == times[1] == 1767323041000 and times == sorted(times)


def test_imported_content_is_unconfirmed(stay: Forestay, transcripts: Path) -> None:
    [one] = import_from(stay, transcripts)
    text = stay.session(one.session).brief().text
    assert 'Goal: "Mend the sail" (from transcript:claude-code, unconfirmed)' in text
    assert "the goal is not confirmed; it came from transcript:claude-code" in text
    assert '"Mend the sail. It has a hole." (from transcript:claude-code, unconfirmed)' in text
    assert "make sail [failure]" in text and "a.py: created" in text


def test_importing_twice_adds_no_event(stay: Forestay, transcripts: Path) -> None:
    [first] = import_from(stay, transcripts)
    [again] = import_from(stay, transcripts)
    assert (again.outcome, again.events, again.session) == ("known", 0, first.session)
    os.utime(first.path)
    [touched] = import_from(stay, transcripts)
    assert (touched.outcome, touched.events) == ("known", 0)
    assert len(bodies(stay, first.session)) == first.events


def test_grown_transcript_adds_only_new_events(stay: Forestay, transcripts: Path) -> None:
    [first] = import_from(stay, transcripts)
    with open(first.path, "a") as file:
        file.write(json.dumps(user("and the mast", 20)) + "\n")
    [grown] = import_from(stay, transcripts)
    assert (grown.outcome, grown.events, grown.session) == ("grown", 1, first.session)
    assert bodies(stay, first.session)[-1] == ev.MessageSent(role="user", text="and the mast")


def test_dry_run_records_nothing_and_reports_what_would_be_imported(
    stay: Forestay, transcripts: Path
) -> None:
    [dry] = import_from(stay, transcripts, dry_run=True)
    assert stay.list() == []
    [real] = import_from(stay, transcripts)
    assert (dry.events, dry.goal, dry.outcome) == (real.events, real.goal, "adopted")


def test_conversation_recorded_by_hooks_is_not_imported_again(
    stay: Forestay, transcripts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from forestay.store.machine.agent_runs import AgentRuns, Run

    parsed = Run("claude-code", "n1", session="h1")
    monkeypatch.setattr(AgentRuns, "find", lambda self, agent, native: parsed)
    [one] = import_from(stay, transcripts)
    assert (one.outcome, one.session, one.events) == ("recorded", "h1", 0)
    assert stay.list() == []


def test_forgotten_transcript_is_not_imported_again(stay: Forestay, transcripts: Path) -> None:
    [one] = import_from(stay, transcripts)
    stay.session(one.session).lifecycle.forget()
    [again] = import_from(stay, transcripts)
    assert again.outcome == "forgotten"
    assert stay.list() == []


def test_imported_secrets_are_removed_and_long_messages_stored_completely(
    stay: Forestay, tmp_path: Path, project: Path
) -> None:
    secret = "ghp_" + "a1B2" * 9
    long = f"Look at this: {secret} " + "line of a log\n" * 2000
    write(tmp_path / "agents" / "n2.jsonl", {**user(long, 1), "cwd": str(project)})
    [one] = import_from(stay, tmp_path / "agents")
    body = bodies(stay, one.session)[1]
    assert isinstance(body, ev.MessageSent) and body.blob and body.size > 20_000
    whole = [line.event.body for line in stay.session(one.session).log(full=True)][1]
    assert isinstance(whole, ev.MessageSent) and whole.text.count("line of a log") == 2000
    assert secret not in whole.text and secret not in one.goal


def test_conversation_of_a_deleted_folder_is_imported(stay: Forestay, tmp_path: Path) -> None:
    payload = {"type": "create", "filePath": "/w/a.py", "content": "x\n"}
    records = (
        user("go on", 1),
        uses("Write", {"file_path": "/w/a.py"}, 2),
        result(2, 3, payload),
    )
    write(tmp_path / "agents" / "n1.jsonl", *records)
    [one] = import_from(stay, tmp_path / "agents")
    paths = [body.path for body in bodies(stay, one.session) if isinstance(body, ev.FileChanged)]
    assert (one.outcome, one.folder, paths) == ("adopted", "/w", ["a.py"])


def test_transcripts_of_codex_and_gemini_are_imported(
    stay: Forestay, tmp_path: Path, project: Path
) -> None:
    rollout = tmp_path / "codex" / "rollout-1.jsonl"
    prompt = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]}
    prompt_record = {"type": "response_item", "timestamp": META.get("timestamp"), "payload": prompt}
    write(rollout, META, prompt_record, calls("shell", {"command": "ls"}, 1), output(1, 2, "x"))
    [one] = import_from(stay, tmp_path / "codex", "codex")
    assert (one.outcome, one.goal, one.events) == ("adopted", "go", 3)
    chats = tmp_path / "gemini" / "p" / "chats" / "session-1.jsonl"
    write(chats, {"sessionId": "n9"}, chat("user", 1, "row"), chat("gemini", 2, "Rowed."))
    [two] = import_from(stay, tmp_path / "gemini", "gemini")
    assert (two.goal, two.events) == ("row", 3)


def test_empty_conversation_creates_no_session(stay: Forestay, tmp_path: Path) -> None:
    write(tmp_path / "agents" / "n1.jsonl", line("summary"), user("x", 1, isMeta=True))
    [one] = import_from(stay, tmp_path / "agents")
    assert (one.outcome, one.session) == ("empty", "")
    assert stay.list() == []


def test_unreadable_transcript_does_not_stop_the_others(
    stay: Forestay, transcripts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from forestay.agents.transcripts import find

    write(transcripts / "n0.jsonl", user("other", 1, sessionId="n0"))
    real = find.records

    def failing(path: str, miss: Any) -> Iterator[object]:
        for number, record in enumerate(real(path, miss)):
            if number and path.endswith("n1.jsonl"):
                raise InvalidInput("the disk is gone")
            yield record

    monkeypatch.setattr(find, "records", failing)
    outcomes = {one.native: one.outcome for one in import_from(stay, transcripts)}
    assert outcomes == {"n0": "adopted", "n1": "unreadable"}


def test_only_transcripts_changed_since_then_are_imported(
    stay: Forestay, transcripts: Path
) -> None:
    path = transcripts / "-proj" / "n1.jsonl"
    os.utime(path, (10**9, 10**9))
    assert import_from(stay, transcripts, since="30d") == []
    assert len(import_from(stay, transcripts, since="2001-01-01")) == 1


@pytest.mark.parametrize(
    ("since", "ms"), [("", 0), ("36h", 1.5 * DAY), ("2d", 2 * DAY), ("3w", 21 * DAY)]
)
def test_since_is_a_span_or_a_day(since: str, ms: float) -> None:
    now = 100 * DAY
    assert parse_since(since, now) == (now - int(ms) if since else 0)
    assert parse_since("1970-01-03", now) == 2 * DAY


@pytest.mark.parametrize("since", ["yesterday", "-3d", "3", "d", "1970-13-01", "9999999999d"])
def test_invalid_since_is_refused(since: str) -> None:
    with pytest.raises(InvalidInput, match="30d"):
        parse_since(since, 100 * DAY)


def test_missing_folder_and_agent_without_transcripts_are_refused(
    stay: Forestay, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match="no file or folder"):
        import_from(stay, tmp_path / "nowhere")
    with pytest.raises(InvalidInput, match="are not supported"):
        import_from(stay, tmp_path, "cursor")
