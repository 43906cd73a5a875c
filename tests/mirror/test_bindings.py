"""In a home a place belongs to one session, however its path is spelled."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import yaml

from forestay.base import files
from forestay.base.clock import FakeClock
from forestay.errors import ForestayError, InvalidInput, ReadOnly, Refused
from forestay.formats.port import REGISTRY
from forestay.journal.context import Context
from forestay.mirror.session_files import mirror_of
from forestay.plans import essay_sessions
from tests.homes import state_of
from tests.mirror.conftest import Make
from tests.mirror.support import AI_SESSION, ID, Project, everything

OLD = "2025-01-09T10:00:00Z"
UUID = "0b0a7a7e-94c1-4b13-a5ee-6ad2b0a7c001"


def test_second_session_does_not_get_the_place_of_the_first(make: Make) -> None:
    project = make(f"craft:{UUID}")
    before = everything(project.folder)
    with pytest.raises(Refused, match="another session is here"):
        project.home.start("another", formats=[f"craft:{UUID}"])
    assert everything(project.folder) == before


@pytest.mark.parametrize(
    "format_id",
    ["nonsense", "craft:no-uuid", "ai-session:../up", f"craft:{UUID}", "essay:../up"],
)
def test_start_that_a_format_refuses_records_nothing(make: Make, format_id: str) -> None:
    project = make(f"craft:{UUID}")
    before = everything(project.folder)
    with pytest.raises(ForestayError):
        project.home.start("another", formats=["orchestrator", format_id])
    assert [line.goal for line in project.home.list()] == ["Add login page"]
    assert project.home.current().id == project.session.id
    assert everything(project.folder) == before


@pytest.mark.parametrize("id", ["2026-01-31-abcdef", "2026-01-30-abcdef"])
def test_start_with_a_used_id_is_refused_and_archives_nothing(make: Make, id: str) -> None:
    project = make("orchestrator:2026-01-30-abcdef")
    project.home.start("the next", formats=["orchestrator:2026-01-31-abcdef"])
    before = everything(project.folder)
    with pytest.raises(Refused, match="already exists"):
        project.home.start("another", formats=[f"orchestrator:{id}"])
    other = project.home.start("without files")
    with pytest.raises(Refused, match="already exists"):
        other.files.bind(f"orchestrator:{id}")
    assert everything(project.folder) == before and len(project.home.list()) == 3


def test_hint_for_a_file_of_an_unknown_version_is_to_move_it_away(make: Make) -> None:
    project = make()
    theirs = project.folder / ".claude/orchestrator-session.json"
    theirs.parent.mkdir()
    theirs.write_text('{"schema_version": "2.0", "session_id": "2026-01-30-abcdef", "goal": "x"}')
    assert [reported.outcome for reported in project.home.files.adopt()] == ["adopted"]
    with pytest.raises(Refused) as refused:
        project.home.start("another", formats=["orchestrator"])
    assert refused.value.hint == "version 2.0 is not supported for writing: move it away"


def test_start_is_refused_where_another_program_has_a_file(make: Make) -> None:
    project = make()
    theirs = project.folder / ".claude/orchestrator-session.json"
    theirs.parent.mkdir()
    theirs.write_text("{}")
    with pytest.raises(Refused, match="already exists"):
        project.home.start("another", formats=["orchestrator"])
    (project.folder / ".craft").write_text("no folder")
    with pytest.raises(InvalidInput, match="not a folder"):
        project.home.start("another", formats=[f"craft:{UUID}"])
    assert len(project.home.list()) == 1 and theirs.read_text() == "{}"


@pytest.mark.req("S0-73")
@pytest.mark.parametrize("format_id", ["ai-session", "praxis", "craft", "orchestrator", AI_SESSION])
def test_start_is_refused_where_no_folder_can_be_created(
    make: Make, monkeypatch: pytest.MonkeyPatch, format_id: str
) -> None:
    project = make()
    root = REGISTRY[format_id.partition(":")[0]][1]
    top = project.folder / root.partition("/")[0]
    top.write_text("no folder")
    with pytest.raises(InvalidInput, match="not a folder"):
        project.home.start("another", formats=[format_id])
    top.unlink()
    monkeypatch.setattr(files, "is_writable", lambda path: path != str(project.folder))
    with pytest.raises(ReadOnly, match="may not be written to"):
        project.home.start("another", formats=[format_id])
    assert len(project.home.list()) == 1 and not top.exists()


def test_refused_start_names_the_obstacle_and_gives_a_hint(tmp_path: Path) -> None:
    project = Project(tmp_path)
    folder = project.folder / ".ai-session" / ID
    (folder / "artifacts").mkdir(parents=True)
    _refused(project, AI_SESSION, str(folder), "move it away")
    (folder / "state.yaml").write_text("version: [\n")
    _refused(project, AI_SESSION, str(folder / "state.yaml"), "forestay doctor")
    (folder / "state.yaml").write_text(f'version: "1.0"\nfeature_id: "{ID}"\n')
    _refused(project, AI_SESSION, str(folder / "state.yaml"), "forestay adopt")
    history = project.folder / ".claude/orchestrator-history"
    history.mkdir(parents=True)
    (history / "2026-01-31-abc123.json").write_text("{}")
    _refused(project, "orchestrator:2026-01-31-abc123", "2026-01-31-abc123.json", "move it away")
    assert len(project.home.list()) == 1


def _refused(project: Project, format_id: str, what: str, hint: str) -> None:
    with pytest.raises(Refused) as refused:
        project.home.start("another", formats=[format_id])
    assert what in str(refused.value) and hint in refused.value.hint


def test_index_entry_of_another_session_is_not_reused(make: Make) -> None:
    project = make()
    entry = {"feature_id": "another-2027-01-15", "started_at": OLD, "last_active": OLD}
    project.index.parent.mkdir()
    data = yaml.safe_dump({"active_features": [{**entry, "status": "active"}]})
    project.index.write_text(data)
    with pytest.raises(Refused, match="session another-2027-01-15 already exists"):
        project.home.start("Another", formats=["ai-session:another-2027-01-15"])
    assert project.index.read_text() == data
    session = project.home.start("Another", formats=["ai-session"])
    assert session.files.list()[0].native == "another-2-2027-01-15"
    assert entry.items() <= project.read(project.index)["active_features"][0].items()


def test_link_out_of_the_project_is_followed_only_on_request(make: Make) -> None:
    project = make()
    elsewhere = project.base / "elsewhere"
    elsewhere.mkdir()
    (project.folder / ".claude").symlink_to(elsewhere)
    with pytest.raises(Refused, match="leads out of the project"):
        project.home.start("another", formats=["orchestrator"])
    with pytest.raises(Refused, match="leads out of the project"):
        project.session.files.bind("orchestrator")
    assert len(project.home.list()) == 1 and not os.listdir(elsewhere)
    project.session.files.bind("orchestrator", root=str(elsewhere))
    assert os.listdir(elsewhere) == ["orchestrator-session.json"]


def test_path_through_a_symbolic_link_is_the_same_place(make: Make) -> None:
    project = make(f"craft:{UUID}")
    link = project.base / "link"
    link.symlink_to(project.folder)
    with project.opened(cwd=link) as other, pytest.raises(Refused, match="another session"):
        other.start("another", formats=[f"craft:{UUID}"])


def test_root_folder_through_a_symbolic_link_is_the_same_place(make: Make) -> None:
    project = make(f"craft:{UUID}")
    link = project.base / "sessions"
    link.symlink_to(project.place.parent)
    other = project.home.start("another")
    with pytest.raises(Refused, match="another session"):
        other.files.bind(f"craft:{UUID}", root=str(link))


def test_places_that_differ_only_in_case_are_one_place(make: Make) -> None:
    project = make(f"praxis:{UUID}")
    other = project.home.start("another")
    with pytest.raises(Refused, match="another session"):
        other.files.bind(f"praxis:{UUID.upper()}")


@pytest.mark.req("S0-72", "X0-4")
def test_binding_is_refused_where_files_exist_and_changes_nothing(make: Make) -> None:
    project = make()
    folder = project.folder / ".ai-session" / ID
    folder.mkdir(parents=True)
    (folder / "mine.txt").write_text("mine")
    before = everything(project.folder)
    with pytest.raises(Refused, match="already exists"):
        project.session.files.bind(AI_SESSION)
    assert everything(project.folder) == before and project.session.files.list() == []


@pytest.mark.parametrize("id", ["../x", "a/b-2026-01-31", "/etc/x-2026-01-31", ".", "Ä-2026-01-31"])
def test_invalid_id_is_refused_and_creates_no_file(make: Make, id: str) -> None:
    project = make()
    before = everything(project.base)
    with pytest.raises(InvalidInput, match="Invalid feature ID"):
        project.session.files.bind(f"ai-session:{id}")
    assert [name for name in everything(project.base) if name not in before] == []


def test_two_essays_started_at_the_same_moment_have_separate_folders(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = make(), make()
    new, raced = essay_sessions._new_folder, list[str]()

    def bind_first(context: Context) -> str:
        folder = new(context)
        if not raced:
            raced.append(folder)
            mirror_of(first.home.context).bind(first.session.id, "essay", "", folder)
        return folder

    monkeypatch.setattr(essay_sessions, "_new_folder", bind_first)
    bound = second.session.files.bind("essay")
    assert bound.root not in raced and Path(bound.place).is_file()


def test_name_of_a_deleted_essay_folder_is_not_used_again(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = make(), make()
    moment = first.clock.now()
    monkeypatch.setattr(type(first.clock), "now", lambda self: moment)
    folder = first.session.files.bind("essay").root
    shutil.rmtree(folder)
    assert second.session.files.bind("essay").root != folder


def test_unbound_essay_folder_with_a_new_owner_is_not_bound_again(make: Make) -> None:
    first, second = make(), make()
    folder = first.session.files.bind("essay").root
    first.session.files.unbind("essay")
    Path(folder, "session-state.yaml").unlink()
    second.session.files.bind("essay", root=folder)
    with pytest.raises(Refused, match="already exists"):
        first.session.files.bind("essay")


def test_session_that_cannot_be_archived_during_a_merge_blocks_a_new_one(make: Make) -> None:
    project = make("orchestrator", git=True)
    (project.folder / ".git/MERGE_HEAD").touch()
    with pytest.raises(Refused, match="in the middle of a merge") as refused:
        project.home.start("another", formats=["orchestrator"])
    assert (refused.value.retryable, refused.value.hint) == (True, "to fix it: forestay doctor")
    assert len(project.home.list()) == 1


@pytest.mark.parametrize("format_id", [kind for kind in REGISTRY if kind != "essay"])
def test_sessions_with_one_goal_started_at_the_same_moment_have_different_ids(
    make: Make, format_id: str
) -> None:
    project = make()
    with project.opened("other", clock=FakeClock()) as home:
        begun = [home.start("Add login page", formats=[format_id]) for _ in range(3)]
        bound = [binding for session in begun for binding in session.files.list()]
        assert len({binding.native for binding in bound}) == 3
        assert all(Path(binding.place).is_file() for binding in bound)


@pytest.mark.parametrize("first", ["orchestrator", "orchestrator:2026-01-30-abcdef"])
def test_second_id_is_refused_in_a_format_with_one_place(make: Make, first: str) -> None:
    project = make()
    both = ["orchestrator:2026-01-30-abcdef", "orchestrator:2026-01-31-abcdef"]
    with pytest.raises(Refused, match="one id in orchestrator"):
        project.home.start("another", formats=both)
    assert len(project.home.list()) == 1 and not everything(project.folder)
    begun = project.home.start("another", formats=[first, both[0]])
    with pytest.raises(Refused, match="one id in orchestrator"):
        begun.files.bind(both[1])
    assert [binding.native for binding in begun.files.list()] == ["2026-01-30-abcdef"]
    assert begun.files.bind("orchestrator").native == "2026-01-30-abcdef"


def test_binding_twice_has_the_effect_of_once(make: Make) -> None:
    project = make(f"craft:{UUID}")
    project.session.files.bind(f"craft:{UUID}")
    assert len(project.session.files.list()) == 1


def test_two_homes_on_one_file_absorb_each_others_edits(make: Make) -> None:
    first = make(f"craft:{UUID}")
    other_home = first.opened("other")
    (adopted,) = other_home.files.adopt(str(first.place))
    second = other_home.session(adopted.session)
    for number in range(3):
        first.session.tasks.add(f"ours {number}")
        second.tasks.add(f"theirs {number}")
    first.session.note("look")
    second.note("look")
    expected = {*(f"ours {n}" for n in range(3)), *(f"theirs {n}" for n in range(3))}
    there = {getattr(row, "title", "") for row in state_of(second).rows.select("step")}
    assert set(first.titles()) == there == set(first.read()["pending_tasks"]) == expected
    assert first.suspended == "" and first.disputes() == []
    settled = len(first.events())
    first.session.note("more")
    second.note("more")
    first.session.note("and more")
    assert len(first.events()) - settled == 2, "two homes must not answer each other for ever"
    other_home.close()


def test_file_of_another_session_in_our_place_suspends_the_binding(make: Make) -> None:
    project = make("orchestrator")
    foreign = json.dumps(project.read() | {"session_id": "2026-01-01-abcdef", "goal": "theirs"})
    project.place.write_text(foreign)
    project.session.note("go on")
    assert project.place.read_text() == foreign
    assert project.edits() == [] and "another session is here" in project.suspended
    assert any("another session is here" in line for line in project.notices)


def test_suspension_ends_when_our_file_is_back(make: Make) -> None:
    project = make("orchestrator")
    ours = project.place.read_bytes()
    project.place.write_text(json.dumps(project.read() | {"session_id": "2026-01-01-abcdef"}))
    project.session.tasks.add("meanwhile")
    project.place.write_bytes(ours)
    project.session.note("go on")
    assert project.suspended == "" and project.read()["pending_tasks"] == ["meanwhile"]


def test_unbinding_leaves_the_files_unchanged(make: Make) -> None:
    project = make("craft")
    place, data = project.place, project.place.read_bytes()
    project.session.files.unbind("craft")
    project.session.note("nobody writes this there")
    assert place.read_bytes() == data


@pytest.mark.parametrize("format_id", [AI_SESSION, "praxis", "craft", "orchestrator", "essay"])
def test_files_bound_again_are_recognized_as_ours(make: Make, format_id: str) -> None:
    project = make(format_id)
    kind = format_id.partition(":")[0]
    (before,) = project.session.files.list()
    project.session.note("seen by all")
    project.session.files.unbind(kind)
    project.session.decide("Use JWT", because="it is there")
    binding = project.again().files.bind(kind)
    assert (binding.native, binding.place) == (before.native, before.place)
    assert project.edits() == [], "our own files are no edit"
    assert "Use JWT" in project.place.read_text() or kind in ("ai-session", "praxis", "essay")


def test_edit_of_an_unbound_file_is_absorbed_when_it_is_bound_again(make: Make) -> None:
    project = make("craft")
    project.session.tasks.add("Ours")
    place = project.place
    project.session.files.unbind("craft")
    project.edit(lambda value: value["pending_tasks"].append("Theirs"), place)
    project.session.files.bind("craft")
    assert set(project.titles()) == {"Ours", "Theirs"}
    assert project.place == place


def test_unbound_place_is_free_for_any_session(make: Make) -> None:
    project = make("orchestrator", AI_SESSION)
    first = project.session
    for kind in ("orchestrator", "ai-session"):
        first.files.unbind(kind)
    shutil.rmtree(project.folder / ".ai-session")
    (project.folder / ".claude/orchestrator-session.json").unlink()
    second = project.home.start("Another", formats=[AI_SESSION, "orchestrator"])
    with pytest.raises(Refused):
        first.files.bind(AI_SESSION)
    assert first.files.bind("ai-session").native != ID
    assert {b.session for b in second.files.list()} == {second.id}


def test_renderings_of_an_unbound_place_are_forgotten_with_the_session(
    make: Make,
) -> None:
    project = make("craft")
    project.session.files.unbind("craft")
    project.session.lifecycle.abort(because="no use")
    project.session.lifecycle.forget()
    for table in ("binding", "rendering"):
        assert project.home.context.store.database.read(f"SELECT * FROM {table}") == []  # type: ignore[attr-defined]


def test_binding_is_refused_where_no_folder_can_be_created(make: Make) -> None:
    project = make()
    (project.folder / ".craft").write_text("a file where the folder should be")
    with pytest.raises(ForestayError):
        project.session.files.bind("craft")
    assert project.session.files.list() == []


def test_root_folder_replaced_by_a_link_is_not_followed(make: Make, tmp_path: Path) -> None:
    project = make("orchestrator")
    outside = tmp_path / "outside"
    os.rename(project.folder / ".claude", outside)
    (project.folder / ".claude").symlink_to(outside)
    before = everything(outside)
    project.session.note("go on")
    assert everything(outside) == before and "symbolic link" in project.suspended


def test_command_in_another_folder_writes_to_the_folder_of_the_session(make: Make) -> None:
    project = make("craft")
    elsewhere = project.base / "elsewhere"
    elsewhere.mkdir()
    with project.opened(cwd=elsewhere) as other:
        other.session(project.session.id).tasks.add("from afar")
    assert project.read()["pending_tasks"] == ["from afar"]
    assert project.read()["project"] == str(project.folder) and os.listdir(elsewhere) == []


def test_each_project_has_its_own_place_for_a_format(tmp_path: Path) -> None:
    one = Project(tmp_path, "orchestrator")
    other = tmp_path / "second"
    other.mkdir()
    with one.opened(cwd=other) as home:
        home.start("another", formats=["orchestrator"])
    assert one.place.exists() and (other / ".claude/orchestrator-session.json").exists()
    one.home.close()


def test_deleting_the_index_resumes_no_paused_session(make: Make) -> None:
    project = make(AI_SESSION)
    index = project.folder / ".ai-session" / "active-features.yaml"
    second, third = (project.home.start(goal, formats=["ai-session"]) for goal in ("b", "c"))
    for session in (project.session, second, third):
        session.note("one")
        second.note("two")
    third.pause(context="for today")
    index.unlink()
    for session in (project.session, second):
        project.home.session(session.id).note("three")
    project.again()
    project.home.session(third.id).note("four")
    assert state_of(project.home.session(third.id)).core.status == "paused"
    listed = {e["feature_id"]: e["status"] for e in project.read(index)["active_features"]}
    assert sorted(listed.values()) == ["active", "active", "paused"]
