"""The functions that the documents name behave as specified, and lose nothing."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import forestay
from forestay import compat
from forestay.api.forestay import Forestay
from forestay.base.clock import FakeClock
from forestay.compat import WorkflowState
from forestay.errors import InvalidInput, NoSession, Refused
from forestay.formats.port import Where, load_format
from forestay.formats.praxis.api_types import PhaseArtifact
from tests.homes import state_of

CURRENT = Path(".claude/orchestrator-session.json")
HISTORY = Path(".claude/orchestrator-history")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    monkeypatch.chdir(path)
    monkeypatch.setenv("FORESTAY_HOME", str(tmp_path / "hold"))
    return path


def new(goal: str = "Add login", id: str = "") -> dict[str, Any]:
    state = compat.create_new_session(goal)
    return {**state, "session_id": id} if id else state


def on_disk(path: Path = CURRENT) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


# -- save and load ---------------------------------------------------------------------------------


@pytest.mark.req("S4-41", "S4-42", "S4-43", "S4-4", "S4-91")
def test_save_makes_the_folder_stamps_the_state_and_returns_the_path() -> None:
    state = new()
    state["updated"] = "2020-01-01T00:00:00Z"
    path = compat.save_session(state)
    assert path == CURRENT and on_disk() == state
    assert path.read_text().startswith('{\n  "schema_version": "1.0",\n  "session_id"')
    assert state["updated"].endswith("Z") and state["updated"] >= state["created"]


def test_save_works_on_another_root(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    path = compat.save_session(new(), other)
    assert path == other / CURRENT and path.is_file() and not CURRENT.exists()
    assert compat.load_session(other) == on_disk(path)


@pytest.mark.req("S4-45", "S4-91")
def test_load_without_a_file_returns_none() -> None:
    assert compat.load_session() is None


@pytest.mark.req("S4-47")
def test_load_returns_the_saved_state() -> None:
    state = new()
    state["mine"] = {"kept": ["ä", 1, None]}
    compat.save_session(state)
    assert compat.load_session() == state


@pytest.mark.req("S4-46")
@pytest.mark.parametrize("version", ["99", "1.0.0", None, 1.0])
def test_other_version_is_not_loaded_and_not_overwritten(version: object) -> None:
    compat.save_session(new())
    CURRENT.write_text(json.dumps({**on_disk(), "schema_version": version}))
    before = CURRENT.read_bytes()
    assert compat.load_session() is None
    assert compat.look().kind == "incompatible" and compat.look().state is not None
    with pytest.raises(Refused):
        compat.save_session(new())
    assert CURRENT.read_bytes() == before


@pytest.mark.req("S4-79", "S4-80", "S4-81", "S4-82", "S4-83", "S4-84")
@pytest.mark.parametrize("data", [b"", b'{"schema_version": "1.0", "go', b"[]", b"\xff", b"\0\0"])
def test_corrupt_file_raises_with_the_choices_and_start_fresh_preserves_it(data: bytes) -> None:
    CURRENT.parent.mkdir()
    CURRENT.write_bytes(data)
    with pytest.raises(compat.CorruptSession) as caught:
        compat.load_session()
    assert [choice.id for choice in caught.value.choices] == ["fresh", "history", "manual"]
    assert caught.value.menu == (
        "## ⚠️ SESSION RECOVERY\n\n"
        "The previous session file appears corrupted.\n\n"
        "**Options**:\n"
        "1. **Start fresh**: Begin new session "
        "(old file kept as orchestrator-session.json.corrupt)\n"
        "2. **View history**: Check archived sessions\n"
        "3. **Manual recovery**: I'll try to extract what I can\n\n"
        "Which would you prefer?\n"
    )
    compat.save_session(new())
    assert Path(f"{CURRENT}.corrupt").read_bytes() == data
    assert compat.load_session() == on_disk()


def test_second_corrupt_file_does_not_replace_the_first() -> None:
    for data in (b"one", b"two"):
        CURRENT.parent.mkdir(exist_ok=True)
        CURRENT.write_bytes(data)
        compat.save_session(new())
    kept = [Path(f"{CURRENT}.corrupt{n}").read_bytes() for n in ("", "-2")]
    assert kept == [b"one", b"two"]


def test_corrupt_session_survives_pickling() -> None:
    CURRENT.parent.mkdir()
    CURRENT.write_bytes(b"{")
    with pytest.raises(compat.CorruptSession) as caught:
        compat.load_session()
    copy = pickle.loads(pickle.dumps(caught.value))
    assert copy.menu == caught.value.menu and copy.choices == caught.value.choices


@pytest.mark.parametrize("bad", [{}, {"schema_version": "2.0"}, {"schema_version": 1.0}])
def test_save_refuses_what_is_not_a_state(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        compat.save_session(bad)
    assert not CURRENT.exists()


@pytest.mark.parametrize("value", [float("nan"), object(), {1: 2}, "\ud800"])
def test_save_refuses_values_that_are_not_json_and_leaves_the_file(value: object) -> None:
    compat.save_session(new())
    before = CURRENT.read_bytes()
    with pytest.raises(InvalidInput):
        compat.save_session({**on_disk(), "odd": value})
    assert CURRENT.read_bytes() == before


# -- archive and history ---------------------------------------------------------------------------


@pytest.mark.req("S4-50", "S4-51", "S4-52", "S4-53", "S4-5", "S4-6", "S4-48", "S4-91")
def test_archive_stores_the_session_under_its_id_and_frees_the_file() -> None:
    state = new()
    compat.save_session(state)
    path = compat.archive_session(state)
    assert path == HISTORY / f"{state['session_id']}.json"
    assert on_disk(path) == state and path.read_text().startswith('{\n  "schema_version"')
    assert not CURRENT.exists()


@pytest.mark.req("S4-52")
def test_archive_works_without_a_current_file() -> None:
    state = new()
    assert on_disk(compat.archive_session(state)) == state


def test_archive_leaves_the_file_of_another_session() -> None:
    compat.save_session(new("the other"))
    compat.archive_session(new("this one", "2020-01-01-abc"))
    assert on_disk()["goal"] == "the other"


@pytest.mark.req("S4-49")
def test_saving_a_new_session_archives_the_previous_one() -> None:
    compat.save_session(new("old", "2025-12-27-abc123"))
    before = CURRENT.read_bytes()
    compat.save_session(new("new"))
    assert (HISTORY / "2025-12-27-abc123.json").read_bytes() == before
    assert on_disk()["goal"] == "new"


@pytest.mark.parametrize("id", ["../../x", "a/b", "", ".hidden", 5, None])
def test_session_with_an_invalid_id_is_not_archived(id: object, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidInput):
        compat.archive_session({**new(), "session_id": id})
    assert sorted(tmp_path.rglob("*")) == before


def test_file_whose_id_is_a_path_is_archived_without_a_name(tmp_path: Path) -> None:
    CURRENT.parent.mkdir()
    CURRENT.write_text('{"schema_version": "1.0", "session_id": "../../evil"}')
    compat.save_session(new())
    assert "evil" in (HISTORY / "unnamed.json").read_text()
    assert not (tmp_path / "evil.json").exists()


@pytest.mark.req("S4-49")
@pytest.mark.parametrize("id", [{}, {"session_id": None}, {"session_id": ""}])
def test_file_that_names_no_session_is_archived_without_a_name(id: dict[str, None]) -> None:
    theirs = json.dumps({"schema_version": "1.0", **id, "goal": "theirs"})
    CURRENT.parent.mkdir()
    CURRENT.write_text(theirs)
    compat.save_session(new())
    assert [path.name for path in HISTORY.iterdir()] == ["unnamed.json"]
    assert (HISTORY / "unnamed.json").read_text() == theirs


@pytest.mark.req("S4-49")
def test_session_that_was_archived_before_is_archived_under_another_name() -> None:
    first = new()
    compat.archive_session(first)
    compat.resume_from_state(first)
    compat.save_session(new("another", "2026-01-02-other"))
    kept = sorted(path.name for path in HISTORY.iterdir())
    assert kept == [f"{first['session_id']}-2.json", f"{first['session_id']}.json"]
    assert sorted(path.name for path in CURRENT.parent.iterdir()) == [HISTORY.name, CURRENT.name]


def test_state_that_cannot_be_written_moves_nothing() -> None:
    compat.save_session(new())
    with pytest.raises(InvalidInput):
        compat.save_session(new("another", "2026-01-02-other") | {"x": object()})
    assert CURRENT.exists() and not HISTORY.exists()


def test_link_instead_of_the_file_is_not_archived(tmp_path: Path) -> None:
    CURRENT.parent.mkdir()
    (tmp_path / "theirs.json").write_text(json.dumps(new()))
    CURRENT.symlink_to(tmp_path / "theirs.json")
    with pytest.raises(Refused, match="symbolic link"):
        compat.save_session(new("another", "2026-01-02-other"))
    assert CURRENT.is_symlink() and not HISTORY.exists()


@pytest.mark.req("S4-55", "S4-91")
def test_history_without_a_folder_is_empty() -> None:
    assert compat.list_history() == []


@pytest.mark.req("S4-54", "S4-56", "S4-57")
def test_history_is_newest_first_by_name_and_cut_to_ten() -> None:
    for day in range(1, 15):
        compat.archive_session(new(f"goal {day}", f"2025-12-{day:02d}-abc"))
    rows = compat.list_history()
    assert [row["id"] for row in rows] == [f"2025-12-{day:02d}-abc" for day in range(14, 4, -1)]
    assert rows[0].keys() == {"id", "goal", "status", "created"}
    assert rows[0]["goal"] == "goal 14" and rows[0]["status"] == "created"
    assert len(compat.list_history(3)) == 3 and compat.list_history(0) == []


def test_unreadable_archive_is_listed_by_its_name() -> None:
    compat.archive_session(new("good", "2025-12-01-abc"))
    (HISTORY / "2025-12-02-bad.json").write_text("{")
    (HISTORY / "2025-12-03-folder.json").mkdir()
    (HISTORY / "2025-12-04-link.json").symlink_to("2025-12-01-abc.json")
    assert [row["id"] for row in compat.list_history()] == ["2025-12-02-bad", "2025-12-01-abc"]


# -- the session's life ----------------------------------------------------------------------------


@pytest.mark.req("S4-66", "S4-87", "S4-91")
def test_new_session_has_every_key_and_is_created() -> None:
    clock = FakeClock(1_766_834_400_000)
    state = compat.create_new_session("Add login", "debug", clock=clock)
    assert list(state)[:8] == [
        *("schema_version", "session_id", "created", "updated", "project", "goal", "mode", "status")
    ]
    assert list(state)[8:] == [
        *("agents", "completed_work", "pending_tasks", "decisions_made", "context_usage", "errors")
    ]
    assert (state["goal"], state["mode"], state["status"]) == ("Add login", "debug", "created")
    assert state["session_id"].startswith("2025-12-27-")
    assert state["created"] == "2025-12-27T11:20:00Z"
    assert state["project"]["path"] == str(Path.cwd())


@pytest.mark.req("S4-15", "S4-87")
@pytest.mark.parametrize("goal, mode", [("Add login", "swift"), (" ", "default")])
def test_new_session_refuses_an_invalid_goal_or_mode(goal: str, mode: str) -> None:
    with pytest.raises(InvalidInput):
        compat.create_new_session(goal, mode)


@pytest.mark.req("S4-88", "S4-91")
def test_finished_agent_has_its_result_and_time() -> None:
    state = new()
    compat.update_agent_status(state, "code-1", "in_progress")
    (agent,) = state["agents"]
    assert agent["type"] == "code" and "completed" not in agent
    agent["progress"] = 60
    compat.update_agent_status(state, "code-1", "complete", "3 methods")
    assert agent["status"] == "complete" and agent["result_summary"] == "3 methods"
    assert agent["completed"].endswith("Z") and "progress" not in agent
    assert len(state["agents"]) == 1


def test_completed_is_written_as_complete() -> None:
    state = compat.update_agent_status(new(), "code-1", "completed", "x")
    assert state["agents"][0]["status"] == "complete"


@pytest.mark.req("S4-74")
def test_failure_of_an_agent_is_logged() -> None:
    state = compat.update_agent_status(new(), "code-1", "failure", "no network")
    assert state["agents"][0]["status"] == "failure"
    assert state["errors"][0]["message"] == "no network"
    assert state["errors"][0]["agent"] == "code-1"


def test_agent_without_a_result_has_an_empty_one() -> None:
    state = compat.update_agent_status(new(), "code-1", "complete", None)
    assert state["agents"][0]["result_summary"] == ""


@pytest.mark.parametrize("agent, result", [("", "fine"), (5, "fine"), ("code-1", {"a": 1})])
def test_invalid_agent_or_result_is_refused(agent: Any, result: Any) -> None:
    state = new()
    with pytest.raises(InvalidInput):
        compat.update_agent_status(state, agent, "complete", result)
    assert state["agents"] == []


def test_unspecified_status_of_an_agent_is_refused() -> None:
    state = new()
    with pytest.raises(InvalidInput):
        compat.update_agent_status(state, "code-1", "dancing")
    assert state["agents"] == []


@pytest.mark.req("S4-44", "S4-67", "S4-70", "S4-85", "S4-91")
@pytest.mark.parametrize("status", ["created", "paused", "in_progress"])
def test_open_session_is_resumed(status: str) -> None:
    compat.save_session({**new(), "status": status})
    state = compat.resume_from_state(compat.load_session())
    assert state["status"] == "in_progress" and on_disk() == state


@pytest.mark.parametrize("status", ["complete", "aborted"])
def test_finished_session_is_not_resumed(status: str) -> None:
    compat.save_session({**new(), "status": status})
    with pytest.raises(Refused):
        compat.resume_from_state(compat.load_session())
    assert on_disk()["status"] == status


@pytest.mark.req("S4-86")
def test_resuming_without_a_session_is_reported() -> None:
    with pytest.raises(NoSession, match=r"^No session to resume$"):
        compat.resume_from_state(compat.load_session())


# -- files that belong to a session of a home ------------------------------------------------------


@pytest.fixture
def stay() -> Forestay:
    return forestay.open(clock=FakeClock())


def test_saving_a_bound_session_is_recorded_in_the_journal(stay: Forestay) -> None:
    with stay:
        session = stay.start("Add login", formats=["orchestrator"])
        state = compat.load_session()
        assert state is not None
        state["pending_tasks"].append("Write docs")
        compat.save_session(state, home=stay)
        steps = [getattr(row, "title", "") for row in state_of(session).rows.select("step")]
        assert steps == ["Write docs"]
        assert [line.event.head.actor for line in session.log()][-1] == "file:orchestrator"


def test_saving_a_stale_state_does_not_undo_later_changes(stay: Forestay) -> None:
    with stay:
        session = stay.start("Add login", formats=["orchestrator"])
        state = compat.load_session()
        assert state is not None
        session.tasks.add("Ours", id="t1")
        state["pending_tasks"].append("Theirs")
        compat.save_session(state, home=stay)
        titles = {getattr(row, "title", "") for row in state_of(session).rows.select("step")}
        assert titles == {"Ours", "Theirs"}


@pytest.mark.req("S4-89", "S4-78")
def test_completed_bound_session_is_archived_and_completed_in_the_journal(stay: Forestay) -> None:
    with stay:
        session = stay.start("Add login", formats=["orchestrator"])
        state = compat.load_session()
        assert state is not None
        path = compat.archive_session({**state, "status": "complete"}, home=stay)
        assert session.status().status == "completed"
        assert on_disk(path)["status"] == "complete" and not CURRENT.exists()


@pytest.mark.req("S4-90")
def test_open_bound_session_is_saved_and_stays_current(stay: Forestay) -> None:
    with stay:
        session = stay.start("Add login", formats=["orchestrator"])
        state = compat.load_session()
        assert state is not None
        compat.save_session({**state, "status": "paused"}, home=stay)
        assert session.status().status == "paused" and CURRENT.exists()


def test_new_session_archives_a_bound_one_which_stays_open(stay: Forestay) -> None:
    with stay:
        session = stay.start("Old", formats=["orchestrator"])
        native = session.files.list()[0].native
        compat.save_session(new("New"), home=stay)
        assert on_disk()["goal"] == "New"
        session.tasks.add("Still mirrored")
        archived = on_disk(HISTORY / f"{native}.json")
        assert archived["pending_tasks"] == ["Still mirrored"]
        assert on_disk()["goal"] == "New"


def test_saving_an_open_archived_session_makes_it_the_current_one_again(
    stay: Forestay,
) -> None:
    with stay:
        session = stay.start("Old", formats=["orchestrator"])
        state = compat.load_session()
        assert state is not None
        compat.archive_session(state, home=stay)
        other = stay.start("In between", formats=["orchestrator"])
        compat.save_session({**state, "pending_tasks": ["More"]}, home=stay)
        (binding,), (moved,) = session.files.list(), other.files.list()
        assert binding.place == str(CURRENT.resolve()) and len(list(HISTORY.iterdir())) == 1
        assert [task.title for task in session.tasks.list()] == ["More"]
        session.tasks.add("Ours")
        assert on_disk()["pending_tasks"] == ["More", "Ours"]
        assert on_disk(Path(moved.place))["goal"] == "In between"


def begin_theirs() -> bytes:
    """Replace the current session by one of another program."""
    CURRENT.write_text(json.dumps(new("Theirs", "2026-01-02-theirs")))
    return CURRENT.read_bytes()


def test_saving_archives_a_session_that_another_program_wrote_over_a_bound_one(
    stay: Forestay,
) -> None:
    with stay:
        native = stay.start("Old", formats=["orchestrator"]).files.list()[0].native
        theirs = begin_theirs()
        compat.save_session(new("New"), home=stay)
        assert on_disk()["goal"] == "New"
        assert (HISTORY / "2026-01-02-theirs.json").read_bytes() == theirs
        assert on_disk(HISTORY / f"{native}.json")["goal"] == "Old"


def test_saving_a_bound_session_over_that_of_another_program_archives_the_other(
    stay: Forestay,
) -> None:
    with stay:
        session = stay.start("Old", formats=["orchestrator"])
        state = compat.load_session()
        theirs = begin_theirs()
        compat.save_session({**(state or {}), "pending_tasks": ["More"]}, home=stay)
        assert (HISTORY / "2026-01-02-theirs.json").read_bytes() == theirs
        assert [task.title for task in session.tasks.list()] == ["More"]
        assert on_disk()["pending_tasks"] == ["More"]


@pytest.mark.parametrize("there", ["theirs", "corrupt"])
def test_archiving_a_bound_session_leaves_the_file_that_replaced_it(
    stay: Forestay, there: str
) -> None:
    with stay:
        session = stay.start("Old", formats=["orchestrator"])
        state = compat.load_session() or {}
        if there == "corrupt":
            CURRENT.write_text("{ half")
        data = begin_theirs() if there == "theirs" else CURRENT.read_bytes()
        kept = compat.archive_session(state | {"status": "complete"}, home=stay)
        assert on_disk(kept)["status"] == "complete"
        assert session.status().status == "completed"
        aside = CURRENT if there == "theirs" else Path(f"{CURRENT}.corrupt")
        assert aside.read_bytes() == data


# -- phased workflows ------------------------------------------------------------------------------

START = datetime(2025, 10, 23, 10, 0, tzinfo=UTC)
SIX = {"version": "v1", "total_phases": 6, "phases": [{"phase_number": 0, "unknown": 1}]}


def workflow(metadata: dict[str, Any] = SIX, **more: Any) -> WorkflowState:
    return compat.start_workflow("spec", "a.md", metadata, now=START, **more)


@pytest.mark.req("S1-65", "S1-66", "S1-67", "S1-68", "S1-69", "S1-70", "S1-121", "S1-122", "S1-140")
def test_new_workflow_captures_the_given_structure() -> None:
    state = workflow()
    assert state.workflow_structure == {
        "total_phases": 6,
        "starting_phase": 0,
        "indexing_scheme": "zero_based",
        "workflow_version": "v1",
    }
    flags = {"completed": False, "paused": False, "resume_count": 0}
    assert len(state.lifecycle) == 10 and flags.items() <= state.lifecycle.items()
    assert state.phase_timing == {0: {"started_at": "2025-10-23T10:00:00Z"}}
    assert state.current_phase == 0 and state.completed_phases == []


@pytest.mark.req("S1-137")
def test_later_change_of_the_definition_does_not_change_the_session() -> None:
    metadata = dict(SIX)
    state = workflow(metadata)
    metadata["total_phases"] = 9
    assert state.workflow_structure["total_phases"] == 6


@pytest.mark.req("X1-4")
@pytest.mark.parametrize(("folder", "first"), [("phases/0", 0), ("phases/1", 1), ("", 1)])
def test_starting_phase_is_zero_if_its_folder_exists(
    tmp_path: Path, folder: str, first: int
) -> None:
    (tmp_path / "flow" / folder).mkdir(parents=True)
    state = workflow(workflow_dir=tmp_path / "flow")
    assert state.current_phase == first and list(state.phase_timing) == [first]
    scheme = "zero_based" if first == 0 else "one_based"
    assert state.workflow_structure["indexing_scheme"] == scheme


@pytest.mark.parametrize(
    ("metadata", "first"),
    [({"start_phase": 0}, 0), ({"phases": [{"phase_number": 1}]}, 1), ({}, 1), ({"phases": 3}, 1)],
)
def test_starting_phase_without_a_folder_is_that_of_the_definition(
    metadata: dict[str, Any], first: int
) -> None:
    assert compat.starting_phase(metadata) == first


@pytest.mark.parametrize("total", ["dynamic", None, 0, True, -1])
def test_total_that_is_not_a_number_is_unknown(total: object) -> None:
    state = compat.create_session("test_generation", "a.py", {"total_phases": total}, now=START)
    assert state.workflow_structure["total_phases"] is None
    assert compat.resumption_context(state, START).percent_complete is None


@pytest.mark.req("S1-117", "S1-118", "S1-119", "S1-120")
def test_state_has_a_real_clock_and_round_trips() -> None:
    state = compat.create_session("spec", "a.md", {"total_phases": 1, "start_phase": 0})
    state.complete_phase(0, PhaseArtifact(0, evidence={"tests": 3}))
    assert state.is_complete() and state.updated_at.tzinfo is UTC
    assert abs(state.updated_at - datetime.now(UTC)) < timedelta(minutes=5)
    copy = WorkflowState.from_dict(json.loads(json.dumps(state.to_dict())))
    assert type(copy) is WorkflowState and copy == state


def test_state_of_a_new_workflow_passes_the_strict_check(tmp_path: Path) -> None:
    state = compat.create_session("spec", "a.md", {"total_phases": 2, "start_phase": 0})
    state.complete_phase(0, PhaseArtifact(0, evidence={"tests": 3}))
    tree = {f"{state.session_id}.json": json.loads(json.dumps(state.to_dict()))}
    assert load_format("praxis").check(tree, Where(), strict=True) == []


def test_a_state_without_zones_gets_times_without_zones() -> None:
    state = compat.create_session("spec", "a.md", SIX, now=datetime(2025, 10, 23, 10))
    state.complete_phase(0, PhaseArtifact(0))
    assert state.updated_at.tzinfo is None
    assert datetime.fromisoformat(state.phase_timing[1]["started_at"]).tzinfo is None


def _after_three(**lifecycle: Any) -> WorkflowState:
    state = workflow()
    for phase, minutes in ((0, 30), (1, 30), (2, 60)):
        began = START if phase == 0 else state.updated_at
        state.complete_phase(phase, PhaseArtifact(phase), now=began + timedelta(minutes=minutes))
    state.lifecycle |= lifecycle
    return state


@pytest.mark.req("S1-123", "S1-91", "S1-92", "S1-93", "S1-94", "S1-95", "S1-96", "S1-97", "S1-7")
def test_resumption_context_counts_and_estimates() -> None:
    state = _after_three()
    context = compat.resumption_context(state, state.updated_at + timedelta(minutes=45))
    assert context.percent_complete == 50 and context.phases_remaining == 3
    assert context.avg_phase_duration == 2400 and context.estimated_remaining == 7200
    assert context.time_in_phase == 2700 and context.is_stalled is False
    assert compat.resumption_context(state, START + timedelta(days=1)).is_stalled is True
    assert compat.resumption_context(state).is_stalled is True, "by the current time"


@pytest.mark.req("S1-93", "S1-94", "S1-95", "S1-97")
def test_resumption_context_without_a_finished_phase_estimates_nothing() -> None:
    context = compat.resumption_context(workflow(), START + timedelta(days=9))
    assert context.avg_phase_duration is None and context.estimated_remaining is None
    assert context.is_stalled is False and context.status == "active"


@pytest.mark.req("S1-141")
def test_paused_time_does_not_count() -> None:
    state = _after_three()
    state.phase_timing[2]["paused_duration_seconds"] = 1800
    state.phase_timing[3]["paused_duration_seconds"] = 600
    context = compat.resumption_context(state, state.updated_at + timedelta(minutes=45))
    assert context.avg_phase_duration == 1800 and context.time_in_phase == 2100


@pytest.mark.req("S1-141")
def test_current_pause_does_not_count() -> None:
    state = _after_three()
    at = state.updated_at + timedelta(minutes=5)
    state.lifecycle.update(paused=True, paused_at=at.isoformat())
    context = compat.resumption_context(state, at + timedelta(days=9))
    assert context.time_in_phase == 300 and context.is_stalled is False
    state.lifecycle["paused"] = False
    assert compat.resumption_context(state, at + timedelta(days=9)).is_stalled is True


@pytest.mark.req("S1-98")
def test_status_prefers_completed_then_paused_then_failed_then_stalled() -> None:
    late = START + timedelta(days=9)
    state = _after_three()
    assert compat.resumption_context(state, late).status == "possibly_stalled"
    state.complete_phase(3, PhaseArtifact(3), checkpoint_passed=False, now=late)
    assert compat.resumption_context(state, late).status == "checkpoint_failed"
    state.lifecycle["paused"] = True
    assert compat.resumption_context(state, late).status == "paused"
    state.lifecycle["completed"] = True
    assert compat.resumption_context(state, late).status == "completed"


@pytest.mark.req("S1-126", "S1-142")
def test_legacy_state_gives_a_warning_and_uses_the_given_total() -> None:
    state = _after_three()
    state.workflow_structure = {}
    context = compat.resumption_context(state, START, total=3)
    assert context.warnings == ("Legacy session format, limited resumption context",)
    assert context.status == "completed" and context.phases_remaining == 0
    assert compat.resumption_context(state, START).phases_remaining is None


def test_overrun_counts_as_complete_with_nothing_remaining() -> None:
    state = _after_three()
    state.workflow_structure["total_phases"] = 2
    context = compat.resumption_context(state, START)
    assert context.percent_complete == 100 and context.phases_remaining == 0
