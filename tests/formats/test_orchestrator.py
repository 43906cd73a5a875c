"""The `orchestrator` format: what is read, what is written, what is reported, how it recovers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from forestay.formats.coerce import copied
from forestay.formats.facts import (
    SESSION,
    AgentFact,
    DecisionFact,
    ErrorFact,
    Facts,
    FileFact,
    StepFact,
)
from forestay.formats.orchestrator.format import (
    CURRENT,
    FORMAT,
    archive_name,
    list_history,
    recovery,
)
from forestay.formats.orchestrator.schema import (
    AGENT_STATUSES,
    LIFECYCLE,
    MODES,
    STATUSES,
    may_become,
    misread,
    percentage,
)
from forestay.formats.port import Format, Where, load_format
from forestay.formats.status_words import SESSION_WORDS, session_status, session_word
from forestay.model.rules import SESSION_MOVES
from tests.formats import json_stories as stories
from tests.formats.samples.orchestrator import DOCUMENT, DONE, FAILED, RUNNING

HERE = Where(now=1_768_700_000_000, naive="utc")


def tree(**changes: Any) -> dict[str, Any]:
    return {CURRENT: {**copied(DOCUMENT), **changes}}


def read(**changes: Any) -> Facts:
    return FORMAT.get(tree(**changes), HERE)


def write(facts: Facts, old: dict[str, Any] | None = None) -> dict[str, Any]:
    made: dict[str, Any] = FORMAT.put(old, facts, HERE)[CURRENT]
    return made


def found(*, strict: bool = False, **changes: Any) -> list[tuple[str, str, str]]:
    findings = FORMAT.check(tree(**changes), HERE, strict=strict)
    return [(f.code, f.severity, f.where) for f in findings]


# --- the document ------------------------------------------------------------------------------


@pytest.mark.req("S4-4", "S4-5", "S4-6")
def test_format_of_document_s4_has_one_current_file_and_an_archive() -> None:
    made: Format = FORMAT
    assert load_format("orchestrator") is made
    assert FORMAT.document == "S4"
    assert FORMAT.files("2025-12-27-abc123") == ["orchestrator-session.json"]
    assert archive_name("2025-12-27-abc123") == "orchestrator-history/2025-12-27-abc123.json"


@pytest.mark.req("S4-7", "S4-9", "S4-10", "S4-15", "S4-16", "S4-36")
def test_new_file_has_every_key_of_the_document_in_its_order() -> None:
    facts = Facts(native_id="2026-02-01-a1b2c3", goal="g", status="created", began_at=1000)
    made = FORMAT.put(None, facts, replace(HERE, project_path="/home/me/queue"))[CURRENT]
    assert list(made) == list(DOCUMENT)
    assert made["schema_version"] == "1.0"
    assert made["created"] == made["updated"] == "1970-01-01T00:00:01Z"
    assert made["project"] == {"name": "queue", "path": "/home/me/queue", "git_branch": None}
    assert (made["mode"], made["status"], made["errors"]) == ("default", "created", [])
    assert FORMAT.check({CURRENT: made}, HERE, strict=True) == []


@pytest.mark.req("S4-8")
def test_new_ids_are_the_day_and_six_digits_and_never_in_use() -> None:
    facts = Facts(goal="g", began_at=1_766_831_400_000)
    first = FORMAT.new_id(facts, HERE, frozenset())
    second = FORMAT.new_id(facts, HERE, frozenset({first}))
    assert first != second
    assert first.startswith("2025-12-27-") and len(first) == len("2025-12-27-abc123")
    assert write(facts)["session_id"] == first
    assert FORMAT.why_invalid_id(first) == FORMAT.why_invalid_id(second) == ""
    for bad in ("", "abc123", "2025-12-27", "2025-02-30-abc123", "../2025-12-27-a", f"{first}\n"):
        assert FORMAT.why_invalid_id(bad)


@pytest.mark.req("S4-8", "S4-56")
@given(st.integers(0, 253_402_300_798_999), st.integers(1000, 10**9), st.text(), st.text())
def test_later_of_two_new_ids_sorts_last(began: int, later: int, goal: str, other: str) -> None:
    moments = (began, min(began + later, 253_402_300_799_999))
    ids = [
        FORMAT.new_id(Facts(goal=g, began_at=at or 1), HERE, frozenset())
        for g, at in zip((goal, other), moments, strict=True)
    ]
    assert ids == sorted(ids) and ids[0] != ids[1]
    assert [FORMAT.why_invalid_id(id) for id in ids] == ["", ""]


@pytest.mark.req("S4-8", "S4-9", "S4-10", "S4-11", "S4-12", "S4-13", "S4-14", "S4-15", "S4-16")
def test_core_fields_are_read_and_written() -> None:
    facts = read()
    assert facts.native_id == "2026-02-01-a1b2c3"
    assert (facts.began_at, facts.updated_at) == (1_769_936_400_000, 1_769_938_200_000)
    assert (facts.project, facts.project_path) == ("queue", "/home/me/queue")
    assert (facts.git_branch, facts.goal) == ("durable", "Make the queue durable")
    assert (facts.mode, facts.status) == ("default", "active")
    new = replace(
        facts,
        project="q",
        project_path="/q",
        git_branch="main",
        goal="g",
        mode="debug",
        status="completed",
        updated_at=1_769_938_260_999,
    )
    made = write(new, tree())
    assert made["project"] == {"name": "q", "path": "/q", "git_branch": "main"}
    assert (made["goal"], made["mode"], made["status"]) == ("g", "debug", "complete")
    assert (made["created"], made["updated"]) == (DOCUMENT["created"], "2026-02-01T09:31:00Z")


# --- agents and work ---------------------------------------------------------------------------


@pytest.mark.req("S4-17", "S4-18", "S4-19", "S4-20", "S4-21", "S4-22", "S4-23", "S4-24", "S4-25")
def test_agents_are_read_and_written() -> None:
    done, running, failed = read().agents
    assert done == AgentFact(
        id="plan-1",
        type="plan",
        task="Design the queue",
        status="done",
        started_at=1_769_936_400_000,
        ended_at=1_769_936_520_000,
        fraction=1.0,
        result="two files",
        tokens=1500,
    )
    assert (running.status, running.fraction, running.ended_at) == ("running", 0.6, None)
    assert failed.status == "failed"
    assert write(Facts(agents=[done, running]))["agents"] == [DONE, RUNNING]


@pytest.mark.req("S4-22", "S4-23", "S4-25")
def test_agent_that_ends_or_starts_again_changes_its_keys() -> None:
    plan, code, failed = read().agents
    ended = replace(code, status="done", ended_at=plan.ended_at, result="ok", fraction=1.0)
    again = replace(failed, status="running", ended_at=None, error="", fraction=0.104)
    made = write(replace(read(), agents=[plan, ended, again]), tree())["agents"]
    assert made[1] == {
        "id": "code-1",
        "type": "code",
        "task": "Write the queue",
        "status": "complete",
        "started": "2026-02-01T09:02:00Z",
        "completed": "2026-02-01T09:02:00Z",
        "result_summary": "ok",
        "context_tokens": 3200,
    }
    assert list(made[1]) == list(DONE)
    assert "completed" not in made[2]
    assert (made[2]["status"], made[2]["progress"]) == ("in_progress", 10)


def test_pending_agent_is_a_pending_task_until_it_runs() -> None:
    agent = AgentFact("doc-1", task="Write the manual", status="pending")
    waiting = FORMAT.put(tree(), replace(read(), agents=[*read().agents, agent]), HERE)
    assert [each["id"] for each in waiting[CURRENT]["agents"]] == ["plan-1", "code-1", "test-1"]
    assert waiting[CURRENT]["pending_tasks"] == ["Finish it", "Test it", "Write the manual"]
    runs = replace(read(), agents=[*read().agents, replace(agent, status="running")])
    started = FORMAT.put(waiting, runs, HERE)[CURRENT]
    assert started["pending_tasks"] == ["Finish it", "Test it"]
    assert started["agents"][-1]["id"] == "doc-1"


def test_pending_agent_of_another_program_stays_an_agent() -> None:
    old = tree(agents=[{"id": "a-1", "status": "pending", "task": "Wait"}])
    assert FORMAT.get(old, HERE).agents[0].status == "pending"
    assert FORMAT.put(old, FORMAT.get(old, HERE), HERE) == old


@pytest.mark.req("S4-26", "S4-27", "S4-28", "S4-29")
def test_completed_and_pending_work_is_read_as_steps_without_ids() -> None:
    design = StepFact("Design", status="done", outcome="two files", files=["docs/q.md"])
    assert read().steps == [design, StepFact("Finish it"), StepFact("Test it")]
    steps = [
        replace(design, outcome="three files"),
        StepFact("Test it", id="t", status="done", files=["t.py"]),
        StepFact("Finish it", status="running"),
        StepFact("Ship it"),
    ]
    made = write(replace(read(), steps=steps), tree())
    assert made["completed_work"] == [
        {"task": "Design", "outcome": "three files", "files": ["docs/q.md"]},
        {"task": "Test it", "outcome": "", "files": ["t.py"]},
    ]
    assert made["pending_tasks"] == ["Finish it", "Ship it"]


def test_sentences_of_work_stay_sentences_until_they_have_more_fields() -> None:
    old = tree(completed_work=["Design", "Try"])
    steps = [
        StepFact("Design", status="done"),
        StepFact("Try", status="done", outcome="it works"),
        *read().steps[1:],
    ]
    assert write(replace(read(), steps=steps), old)["completed_work"] == [
        "Design",
        {"task": "Try", "outcome": "it works", "files": []},
    ]
    assert found(completed_work=["Design"]) == [("bare-text", "error", "completed_work[0]")]


@pytest.mark.parametrize("agent", ["", "a-1"])
def test_error_that_failed_the_session_is_written_once(agent: str) -> None:
    error = ErrorFact("no disk", agent=agent, at=1_769_936_460_000)
    made = write(replace(Facts(), status="failed", because="no disk", errors=[error]))["errors"]
    assert [entry["message"] for entry in made] == ["no disk"]
    made = write(replace(Facts(), status="failed", because="no disk"))["errors"]
    assert [entry["message"] for entry in made] == ["no disk"]


@pytest.mark.req("S4-30", "S4-31", "S4-32")
def test_decisions_are_read_written_and_never_removed() -> None:
    decision = DecisionFact("Sync at once", because="slow is fine", at=1_769_936_460_000)
    assert read().decisions == [decision]
    new = DecisionFact("Where", options=["a", "b"], chosen="b", at=1_769_936_999_500)
    made = write(replace(read(), decisions=[new]), tree())["decisions_made"]
    assert made == [
        DOCUMENT["decisions_made"][0],
        {"decision": "Where: b", "rationale": "", "timestamp": "2026-02-01T09:09:59Z"},
    ]
    again = FORMAT.put(tree(decisions_made=made), replace(read(), decisions=[new]), HERE)
    assert again == tree(decisions_made=made)


@pytest.mark.req("S4-33", "S4-34", "S4-35", "X4-3")
def test_context_usage_is_read_and_written() -> None:
    assert (read().tokens, read().compressed_at, read().compressions) == (25_000, None, None)
    facts = replace(read(), tokens=64_000, compressed_at=1_769_936_460_000)
    assert write(facts, tree())["context_usage"] == {
        "estimated_tokens": 64_000,
        "percentage": 50,
        "last_compression": "2026-02-01T09:01:00Z",
    }
    wide = FORMAT.put({CURRENT: tree()}, facts, replace(HERE, window=640_000))[CURRENT]
    assert wide["context_usage"]["percentage"] == 10
    assert percentage(25_000, HERE.window) == 20
    usage = {**DOCUMENT["context_usage"], "percentage": 21}
    assert found(context_usage=usage) == [
        ("percentage-differs", "info", "context_usage.percentage")
    ]


@pytest.mark.req("X4-3")
@pytest.mark.parametrize(
    ("tokens", "words"),
    [(70_000, []), (70_001, ["warn"]), (100_000, ["warn"]), (100_001, ["compress"])],
)
def test_context_that_grows_too_large_is_reported(tokens: int, words: list[str]) -> None:
    usage = {
        "estimated_tokens": tokens,
        "percentage": percentage(tokens, HERE.window),
        "last_compression": None,
    }
    codes = [code for code, _, _ in found(mode="debug", context_usage=usage)]
    assert codes == [f"tokens-{word}" for word in words]


@pytest.mark.req("X4-2")
@pytest.mark.parametrize(
    ("mode", "agents", "percent"),
    [("default", 2, 70), ("debug", 1, 90), ("optimize", 4, 60), ("release", 4, 85)],
)
def test_work_beyond_the_limits_of_a_mode_is_reported(mode: str, agents: int, percent: int) -> None:
    def reported(running: int, used: int) -> list[str]:
        many = [{**RUNNING, "id": f"agent-{number}"} for number in range(running)]
        usage = {"estimated_tokens": used * 1280, "percentage": used, "last_compression": None}
        codes = [code for code, _, _ in found(mode=mode, agents=many, context_usage=usage)]
        return [code for code in codes if not code.startswith("tokens-")]

    assert reported(agents, percent) == []
    assert reported(agents + 1, percent) == ["many-agents"]
    assert reported(agents, percent + 1) == ["compress-due"]


def test_modes_and_limits_are_those_of_the_companion() -> None:
    assert {name: (mode.agents, mode.compress_at) for name, mode in MODES.items()} == {
        "default": (2, 70),
        "debug": (1, 90),
        "optimize": (4, 60),
        "release": (4, 85),
    }
    assert found(mode="turbo") == [("unknown-word", "warning", "mode")]


@pytest.mark.req("S4-36")
def test_errors_include_ours_and_those_of_failed_agents() -> None:
    facts = read()
    assert facts.errors == []
    assert (facts.agents[2].error, facts.agents[2].category) == ("no compiler", "configuration")
    disk = ErrorFact("disk full", "resource", at=1_769_936_460_000)
    worse = replace(facts.agents[2], error="no disk", category="")
    new = replace(facts, errors=[disk], agents=[*facts.agents[:2], worse], because="gave up")
    made = write(replace(new, status="failed"), tree())
    assert made["status"] == "paused"
    assert [(e["message"], e["category"], e["agent"]) for e in made["errors"]] == [
        ("no compiler", "configuration", "test-1"),
        ("disk full", "resource", ""),
        ("gave up", "", ""),
        ("no disk", "", "test-1"),
    ]
    assert all(e["timestamp"].endswith("Z") for e in made["errors"])
    again = FORMAT.get({CURRENT: made}, HERE)
    assert again.agents[2].error == "no disk"
    assert disk in again.errors
    assert (
        write(replace(new, status="failed", updated_at=2**41), {CURRENT: made})["errors"]
        == (made["errors"])
    )


def test_errors_of_other_programs_are_read_in_any_form() -> None:
    old = tree(errors=["boom", {"error": "bang", "agent_id": "code-1"}, 7, {}])
    assert FORMAT.get(old, HERE).errors == [ErrorFact("boom"), ErrorFact("bang", agent="code-1")]
    assert FORMAT.put(old, FORMAT.get(old, HERE), HERE) == old


def test_reason_of_a_failed_session_is_not_a_second_error() -> None:
    failed = replace(read(), status="failed", because="disk full", errors=[ErrorFact("disk full")])
    assert [each["message"] for each in write(failed)["errors"]].count("disk full") == 1


def test_two_failed_agents_of_one_name_share_its_error() -> None:
    old = tree(agents=[FAILED, FAILED])
    assert FORMAT.put(old, FORMAT.get(old, HERE), HERE) == old


# --- words and states --------------------------------------------------------------------------


@pytest.mark.req("S4-65", "S4-16")
def test_session_status_is_written_in_the_words_of_the_document() -> None:
    words = {"created": "created", "active": "in_progress", "completed": "complete"}
    words |= dict.fromkeys(("aborted", "abandoned"), "aborted")
    written = {status: write(Facts(status=status))["status"] for status in SESSION}
    assert written == {status: words.get(status, "paused") for status in SESSION}


@pytest.mark.req("S4-20")
def test_agent_words_are_those_of_the_document() -> None:
    words = {
        "running": "in_progress",
        "done": "complete",
        "failed": "failure",
        "blocked": "in_progress",
        "timed_out": "failure",
        "needs_review": "in_progress",
        "skipped": "complete",
    }
    for status, word in words.items():
        assert write(Facts(agents=[AgentFact("a", status=status)]))["agents"][0]["status"] == word
    assert set(words.values()) == set(AGENT_STATUSES)
    odd = [{**RUNNING, "status": word} for word in ("running", "dreaming")]
    assert [f[:2] for f in found(agents=odd[:1])] == [("foreign-word", "warning")]
    assert ("unknown-word", "error", "agents[0].status") in found(agents=odd[1:])


@pytest.mark.req("S4-65", "S4-67", "S4-68", "S4-70", "S4-71")
def test_states_follow_each_other_as_in_the_diagram() -> None:
    assert set(LIFECYCLE) == set(STATUSES)
    moves = {(a, b) for a in STATUSES for b in STATUSES if may_become(a, b)}
    assert moves == {
        ("created", "in_progress"),
        ("in_progress", "complete"),
        ("in_progress", "paused"),
        ("paused", "in_progress"),
        ("created", "aborted"),
        ("in_progress", "aborted"),
        ("paused", "aborted"),
    }


@pytest.mark.req("X4-7")
def test_no_transition_leads_back_from_the_end() -> None:
    words = SESSION_WORDS["orchestrator"]
    for status, after in SESSION_MOVES.items():
        steps = {(words[status], words[then]) for then in after if then in words}
        for old, new in steps:
            # A resume is recorded before a paused session is completed.
            through = (old, new) == ("paused", "complete")
            assert old == new or through or may_become(old, new), (old, new)


# --- versions and findings ---------------------------------------------------------------------


@pytest.mark.req("S4-46")
def test_minimal_keys_make_a_session_only_at_its_path() -> None:
    fewest = {"session_id": "t-1", "goal": "Try it", "agents": []}
    assert FORMAT.recognise(f".claude/{CURRENT}", fewest) >= 0.5
    assert FORMAT.recognise("any.json", fewest) == 0.0
    assert not FORMAT.reading({CURRENT: fewest}, HERE).writable


# Place, what it is (with a question mark: or null), requirement.


# --- history, recovery, misread signs ----------------------------------------------------------


@pytest.mark.req("S4-56", "S4-57")
def test_history_is_newest_first_by_name_and_cut_to_the_limit() -> None:
    archived: dict[str, Any] = {
        f"2026-01-{day:02}-aaaaaa.json": {**DOCUMENT, "session_id": f"2026-01-{day:02}-aaaaaa"}
        for day in range(1, 15)
    }
    rows = list_history({**archived, "notes.txt": {}})
    assert [row["id"][8:10] for row in rows] == [f"{day:02}" for day in range(14, 4, -1)]
    assert rows[0] == {
        "id": "2026-01-14-aaaaaa",
        "goal": "Make the queue durable",
        "status": "in_progress",
        "created": "2026-02-01T09:00:00Z",
    }
    assert len(list_history(archived, 3)) == 3
    assert list_history({}) == list_history(archived, 0) == []
    assert list_history({"2026-01-01-x.json": None})[0]["id"] == "2026-01-01-x"


@pytest.mark.req("S4-79", "S4-80", "S4-81", "S4-82", "S4-83", "S4-84")
def test_recovery_menu_has_the_text_of_the_document() -> None:
    menu = recovery("orchestrator-session.json.corrupt-1")
    assert [choice.id for choice in menu.choices] == ["fresh", "history", "manual"]
    assert menu.menu == (
        "## \u26a0\ufe0f SESSION RECOVERY\n"
        "\n"
        "The previous session file appears corrupted.\n"
        "\n"
        "**Options**:\n"
        "1. **Start fresh**: Begin new session"
        " (old file kept as orchestrator-session.json.corrupt-1)\n"
        "2. **View history**: Check archived sessions\n"
        "3. **Manual recovery**: I'll try to extract what I can\n"
        "\n"
        "Which would you prefer?\n"
    )


@pytest.mark.req("S4-92")
@pytest.mark.parametrize("sign", ["└──", "🔄", "✅", "\u26a0\ufe0f"])
def test_characters_misread_as_windows_1254_are_reported(sign: str) -> None:
    bad = b"".join(bytes((byte,)) for byte in sign.encode())
    seen = "".join(bytes((b,)).decode("cp1254", "ignore") or chr(b) for b in bad)
    assert misread(f"## {seen} RESUMING") == [sign]
    assert misread(f"## {sign} RESUMING") == []
    assert found(goal=f"{seen} on") == [("misread-text", "warning", "goal")]


# --- laws --------------------------------------------------------------------------------------


def projected(facts: Facts) -> Facts:
    """Return the facts that the format has fields for."""
    done = [s for s in facts.steps if s.status in ("done", "skipped")]
    rest = [s for s in facts.steps if s.status not in ("done", "skipped")]
    titles = {step.title for step in facts.steps}
    waiting = [a.task or a.id for a in facts.agents if a.status == "pending"]
    plain = {"needs_review": "running", "blocked": "running", "timed_out": "failed"}
    plain |= {"skipped": "done"}
    agents = [
        replace(a, status=plain.get(a.status, a.status), retries=0)
        for a in facts.agents
        if a.status != "pending"
    ]
    agents = [
        replace(a, fraction=1.0) if (a.status, a.fraction) == ("done", None) else a for a in agents
    ]
    return replace(
        facts,
        status=session_status("orchestrator", session_word("orchestrator", facts.status)),
        progress=None,
        device="",
        git_commit="",
        steps=[
            *(StepFact(s.title, status="done") for s in done),
            *(StepFact(s.title) for s in rest),
            *(StepFact(title) for title in waiting if title not in titles),
        ],
        agents=agents,
        files=[],
        compressions=None if facts.compressed_at is None else 1,
        tokens_by_agent={a.id: a.tokens for a in agents if a.tokens is not None},
    )


@given(stories.facts)
def test_reading_written_facts_returns_them(facts: Facts) -> None:
    assert FORMAT.get(FORMAT.put(None, facts, HERE), HERE) == projected(facts)


def test_files_written_by_aiterm_retain_their_style() -> None:
    value = {
        "session_id": "dogfood",
        "goal": "g",
        "status": "paused",
        "started_at": "2026-02-01T03:00:00-06:00",
        "completed_at": None,
        "project_path": "/a",
        "completed_work": ["x"],
        "pending_tasks": [],
        "files_modified": ["a.py"],
    }
    facts = FORMAT.get({CURRENT: value}, HERE)
    assert (facts.began_at, facts.project_path) == (1_769_936_400_000, "/a")
    new = replace(
        facts,
        status="completed",
        ended_at=1_769_936_460_000,
        project_path="/b",
        files=[FileFact("a.py", at=5), FileFact("b.py", at=6), FileFact("b.py", at=7)],
    )
    assert write(new, {CURRENT: value}) == {
        **value,
        "status": "complete",
        "completed_at": "2026-02-01T09:01:00Z",
        "project_path": "/b",
        "files_modified": ["a.py", "b.py"],
    }


# --- recognising and salvaging -----------------------------------------------------------------
