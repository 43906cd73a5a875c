"""Adopting session files: every format, once; edits, rivals, templates, moved and odd files."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import forestay
from forestay.api.forestay import Forestay
from forestay.errors import InvalidInput
from forestay.formats import timestamps
from forestay.formats.essay import salvage
from forestay.mirror import adopt, discover
from forestay.mirror.adopt import Adopted
from forestay.workspace.current_session import Workspace
from tests.format_helpers import (
    CRAFT,
    ESSAY,
    ESSAY_FOLDER,
    IDS,
    INDEX,
    LOG,
    MAIN,
    ORCHESTRATOR,
    PRAXIS,
    STATE,
    fill,
    snapshot,
)
from tests.homes import state_of


@pytest.fixture
def stay(tmp_path: Path, project: Path) -> Forestay:
    return forestay.open(str(tmp_path / "home"), trust_env=False)


def outcomes(adopted: list[Adopted]) -> list[tuple[str, str]]:
    return [(one.format, one.outcome) for one in adopted]


def by_format(adopted: list[Adopted]) -> dict[str, Adopted]:
    return {one.format: one for one in adopted}


ALL = ["ai-session", "orchestrator", "craft", "praxis", "essay"]


def test_adopt_has_recorded_everything_when_it_returns(stay: Forestay, project: Path) -> None:
    fill(project)
    reported: list[Adopted] = []
    assert (
        stay.files.adopt(on_adopted=reported.append) == reported
        and len(stay.list()) == len(reported) == 5
    )


def test_all_five_formats_are_found_adopted_and_bound_without_a_change(
    stay: Forestay, project: Path
) -> None:
    fill(project)
    before = snapshot(project)
    adopted = list(stay.files.adopt())
    assert sorted(outcomes(adopted)) == sorted((kind, "adopted") for kind in ALL)
    assert all(one.events and one.bound and not one.problems for one in adopted), adopted
    assert snapshot(project) == before
    assert {row.session for row in stay.list()} == {one.session for one in adopted}


def elsewhere(stay: Forestay, project: Path) -> Forestay:
    """Return a home on another device with the sessions and a copy of the project."""
    other = shutil.copytree(project, project.with_name("taken"))
    there = forestay.open(str(project.with_name("there")), cwd=str(other), trust_env=False)
    for row in stay.list():
        pack = project.with_name(f"{row.session}.fspack")
        stay.session(str(row.session)).export(str(pack))
        there.backups.import_(str(pack))
    return there


def start_with_files(stay: Forestay, project: Path) -> None:
    """Start a session with files in all formats, and record events of many kinds."""
    session = stay.start("Add login", formats=[kind for kind in ALL if kind != "essay"])
    session.files.bind("essay", root=str(project / ESSAY_FOLDER))
    session.tasks.add("First", id="t1")
    session.tasks.done("t1")
    session.agents.start("code-1")
    session.decide("Use JWT", because="simple")
    session.record.command("pytest")
    session.record.model("opus")
    session.record.tokens(5000)
    session.record.error("it broke")
    session.pause()


def test_files_of_an_imported_session_are_bound_to_it(stay: Forestay, project: Path) -> None:
    start_with_files(stay, project)
    there = elsewhere(stay, project)
    (row,) = there.list()
    before = snapshot(project.with_name("taken"))
    for _ in range(2):
        adopted = there.files.adopt()
        assert {(one.session, one.events) for one in adopted} == {(row.session, 0)}
        assert sorted(by_format(adopted)) == sorted(ALL) and all(one.bound for one in adopted)
    assert snapshot(project.with_name("taken")) == before
    there.session(str(row.session)).resume()
    craft = json.loads(next(project.with_name("taken").glob(".craft/**/*.json")).read_text())
    assert (craft["status"], craft["goal"]) == ("in_progress", "Add login")


def test_session_with_files_is_not_compared_with_other_files(
    stay: Forestay, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(project, kinds=["craft"])
    stay.files.adopt()
    asked: list[object] = []
    monkeypatch.setattr(adopt, "_is_equal", lambda *about: asked.append(about))
    id = IDS["craft"].replace("7e57", "7e58")
    (project / CRAFT).with_name(f"{id}.json").write_text(
        (project / CRAFT).read_text().replace(IDS["craft"], id)
    )
    assert [one.session for one in stay.files.adopt() if one.is_new] == [id] and not asked


@pytest.mark.parametrize("kind", ["craft", "orchestrator"])
def test_files_that_differ_from_an_imported_session_are_another_session(
    stay: Forestay, project: Path, kind: str
) -> None:
    (binding,) = stay.start("Add login", formats=[kind]).files.list()
    there = elsewhere(stay, project)
    path = project.with_name("taken") / os.path.relpath(binding.place, project)
    path.write_text(path.read_text().replace('"pending_tasks": []', '"pending_tasks": ["Two"]'))
    (one,) = there.files.adopt()
    assert (one.session, one.is_new, len(there.list())) == (binding.native, True, 2)


@pytest.mark.parametrize("kind", ALL)
def test_unbound_files_can_be_bound_to_their_session_again(stay: Forestay, kind: str) -> None:
    session = stay.start("Add login", formats=[kind])
    (binding,) = session.files.list()
    session.files.unbind(kind)
    (would,) = [one for one in stay.files.adopt(dry_run=True) if one.format == kind]
    assert (would.session, session.files.list()) == (session.id, [])
    (one,) = [one for one in stay.files.adopt() if one.format == kind]
    assert (one.session, one.outcome, one.bound) == (session.id, "known", True)
    assert [b.place for b in session.files.list()] == [binding.place] and len(stay.list()) == 1


def test_edit_of_unbound_files_is_absorbed_when_they_are_bound_again(stay: Forestay) -> None:
    session = stay.start("Add login", formats=["craft"])
    (binding,) = session.files.list()
    session.files.unbind("craft")
    place = Path(binding.place)
    place.write_text(place.read_text().replace("in_progress", "paused"))
    (one,) = stay.files.adopt()
    assert (one.session, one.outcome) == (session.id, "edited")
    assert session.status().status == "paused"


# -- changes during adoption -------------------------------------------------------------------


def test_file_archived_during_adoption_is_reported_and_adopted_the_next_time(
    stay: Forestay, tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(project, kinds=["orchestrator"])
    record = adopt._Adoption._record

    def archive_first(self: Any, *given: Any) -> None:
        with forestay.open(str(tmp_path / "home"), trust_env=False) as other:
            other.files.orchestrator.new("The next one")
        record(self, *given)

    with monkeypatch.context() as raced:
        raced.setattr(adopt._Adoption, "_record", archive_first)
        (one,) = stay.files.adopt()
    assert one.session == "" and "was changed while it was adopted" in one.problems[-1]
    assert [row.goal for row in stay.list()] == ["The next one"]
    reported = {reported.outcome: reported for reported in stay.files.adopt()}
    assert reported.keys() == {"adopted", "known"} and reported["adopted"].bound
    assert len(stay.list()) == 2


# -- converted files ---------------------------------------------------------------------------


def test_converted_essay_names_its_folder_at_the_next_write(stay: Forestay, project: Path) -> None:
    fill(project, kinds=["craft"])
    place = project / "essay/session-state.yaml"
    stay.files.convert(str(project / CRAFT), "essay", str(place))
    assert yaml.safe_load(place.read_text())["session_dir"] == ""
    (project / CRAFT).unlink()
    (session,) = {one.session for one in stay.files.adopt()}
    stay.session(session).pause()
    assert yaml.safe_load(place.read_text())["session_dir"] == str(place.parent)


def test_file_converted_next_to_its_source_is_a_copy(stay: Forestay, project: Path) -> None:
    fill(project, kinds=["craft"])
    (source,) = stay.files.adopt()
    for to in ALL[:2]:
        stay.files.convert(source.path, to)
    before = snapshot(project)
    reported = by_format(list(stay.files.adopt()))
    assert {reported[to].outcome for to in ALL[:2]} == {"copy"} and reported[
        "craft"
    ].outcome == "known"
    assert {reported[to].session for to in ALL[:2]} == {source.session} and len(stay.list()) == 1
    assert stay.files.unadopted() == [] and snapshot(project) == before


def test_converted_file_is_adopted_only_when_its_source_is_gone(
    stay: Forestay, project: Path
) -> None:
    fill(project, kinds=["craft"])
    (source,) = stay.files.adopt()
    stay.files.convert(source.path, "orchestrator", str(project / ORCHESTRATOR))
    edited = (project / ORCHESTRATOR).read_text().replace('"in_progress"', '"paused"')
    (project / ORCHESTRATOR).write_text(edited)
    made = by_format(list(stay.files.adopt()))["orchestrator"]
    assert (made.session, made.outcome, made.bound) == (source.session, "copy", False)
    assert source.path in made.problems[-1] and len(stay.list()) == 1
    Path(source.path).unlink()
    (alone,) = stay.files.adopt()
    assert alone.outcome == "adopted" and stay.session(alone.session).status().status == "paused"


@pytest.mark.parametrize("kind", ALL[1:])
def test_source_and_its_converted_copies_are_one_session(
    stay: Forestay, project: Path, kind: str
) -> None:
    fill(project, kinds=[kind])
    others = [other for other in ALL if other != kind]
    for other in others:
        stay.files.convert(str(project / MAIN[kind]), other)
    wanted = {kind: "adopted"} | dict.fromkeys(others, "copy")
    assert dict(outcomes(list(stay.files.adopt(dry_run=True)))) == wanted
    assert dict(outcomes(list(stay.files.adopt()))) == wanted and len(stay.list()) == 1


def test_adopted_file_stays_known_next_to_a_copy_and_a_rival(stay: Forestay, project: Path) -> None:
    fill(project, kinds=["orchestrator"])
    mine, other = project / "session.json", project / "back.json"
    (project / ORCHESTRATOR).rename(mine)
    (one,) = stay.files.adopt()
    other.write_text(mine.read_text().replace('"in_progress"', '"paused"', 1))
    same = project / "too.json"
    same.write_bytes(mine.read_bytes())
    reported = {Path(reported.path): reported for reported in stay.files.adopt()}
    outcomes = {path: (reported.outcome, reported.session) for path, reported in reported.items()}
    ours = one.session
    assert outcomes == {mine: ("known", ours), same: ("copy", ours), other: ("rival", "")}


CREATION_ORDER = ["implementation-plan.yaml", "history.jsonl", "state.yaml", "active-features.yaml"]


@pytest.mark.req("S0-53", "S0-54", "S0-55", "S0-56", "S0-57", "S0-86")
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_partly_created_session_is_adopted_and_its_files_are_completed(
    stay: Forestay, project: Path, steps: int
) -> None:
    fill(project, kinds=["ai-session"])
    folder, index = (project / STATE).parent, project / INDEX
    for name in CREATION_ORDER[steps:]:
        (index if name == index.name else folder / name).unlink()
    assert all(one.bound for one in stay.files.adopt()) and all(
        one.bound for one in stay.files.adopt()
    )
    (row,) = stay.list()
    stay.session(row.session).note("goes on")
    (report,) = stay.files.check(str(project))
    assert report.findings == [] and len(list(folder.iterdir())) == 4


@pytest.mark.req("S0-53", "S0-57", "S0-77", "S0-86")
@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("folders", ["", "artifacts"])
def test_session_with_only_a_folder_is_reported_and_can_be_created_again(
    stay: Forestay, project: Path, folders: str, listed: bool
) -> None:
    fill(project, kinds=["ai-session"])
    folder = (project / STATE).parent
    shutil.rmtree(folder)
    (folder / folders).mkdir(parents=True)
    if not listed:
        (project / INDEX).unlink()
    (report,) = stay.files.check(str(project / ".ai-session"))
    assert [(f.code, f.requirement) for f in report.findings] == [("not-created", "S0-77")]
    (one,) = stay.files.adopt()
    assert (one.session, one.outcome) == ("", "unreadable") and one.problems
    assert any(advice.file == str(project / STATE) for advice in stay.doctor().left)
    stay.files.recover(str(project / STATE), fix=True)
    (report,) = stay.files.check(str(project / ".ai-session"))
    assert report.findings == []
    (one,) = stay.files.adopt()
    assert (one.native, one.outcome, one.bound) == (folder.name, "adopted", True)


def test_completed_session_with_only_an_artifacts_folder_is_no_finding(
    stay: Forestay, project: Path
) -> None:
    fill(project, kinds=["ai-session"])
    folder, index = (project / STATE).parent, project / INDEX
    index.write_text(index.read_text().replace('"active"', '"completed"'))
    shutil.rmtree(folder)
    (folder / "artifacts").mkdir(parents=True)
    (report,) = stay.files.check(str(project / ".ai-session"))
    assert report.findings == [] and list(stay.files.adopt()) == []


@pytest.mark.req("S0-79")
def test_index_entry_without_files_is_reported_once_and_affects_no_other(
    stay: Forestay, project: Path
) -> None:
    fill(project, kinds=["ai-session"])
    folder, index = (project / STATE).parent, project / INDEX
    lost = index.read_text().replace(folder.name, "lost-2026-02-14").partition("\n")[2]
    index.write_text(index.read_text() + lost)
    (report,) = stay.files.check(str(project / ".ai-session"))
    assert [(f.code, f.requirement) for f in report.findings] == [("listed-but-gone", "S0-79")]
    (one,) = stay.files.adopt()
    assert (one.native, one.bound) == (folder.name, True)
    assert "lost-2026-02-14 is listed, but its files are missing" in one.problems[0]


def test_index_entry_without_files_is_reported_and_not_adopted(
    stay: Forestay, project: Path
) -> None:
    fill(project, kinds=["ai-session"])
    shutil.rmtree((project / STATE).parent)
    before = snapshot(project)
    (one,) = stay.files.adopt()
    assert (one.session, one.bound) == ("", False) and "files are missing" in one.problems[-1]
    assert stay.list() == [] and snapshot(project) == before


@pytest.mark.req("S0-53", "S0-54", "S0-55", "S0-56", "S0-57", "S0-79")
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_file_created_after_adoption_is_absorbed(stay: Forestay, project: Path, steps: int) -> None:
    fill(project, kinds=["ai-session"])
    folder, index = (project / STATE).parent, project / INDEX
    index.write_text(index.read_text().replace('active"', 'paused"'))
    state = (project / STATE).read_text()
    (project / STATE).write_text(state.replace("opus", "gemini").replace("null", '"T2"'))
    later = {}
    for name in CREATION_ORDER[steps:]:
        path = index if name == index.name else folder / name
        later[path] = path.read_bytes()
        path.write_bytes(b"") if name == "history.jsonl" else path.unlink()
    (one,) = stay.files.adopt()
    for path, data in later.items():
        path.write_bytes(data)
    session = stay.session(one.session)
    assert session.status().status == "paused"
    session.note("goes on")
    reported, entry = (yaml.safe_load(path.read_text()) for path in (project / STATE, index))
    current = reported["current_state"]
    assert (current["active_task"], current["model_in_use"]) == ("T2", "gemini")
    assert entry["active_features"][0]["status"] == "paused"
    kinds = [line.event.kind for line in session.log()]
    assert kinds.count("command.ran") == 1 and not state_of(session).rows.select("dispute")


MOMENT = "2026-02-14T14:00:00Z"
TIMES = ("started", "started_at", "completed", "completed_at")
ENTRIES: dict[str, tuple[str, list[str | int], str]] = {
    "ai-session": ("implementation-plan.yaml", ["phases", 0, "tasks", 1], "pending in-progress"),
    "craft": ("", ["agents", 0], "pending weird"),
    "orchestrator": ("", ["agents", 0], "in_progress weird"),
    "essay": ("", ["stages", "stage_2"], "not_started weird"),
}
ODD = [(kind, word) for kind, (_, _, words) in ENTRIES.items() for word in words.split()]


@pytest.mark.parametrize("kind, word", ODD)
def test_times_without_an_event_stay_in_their_file(
    stay: Forestay, project: Path, kind: str, word: str
) -> None:
    fill(project, kinds=[kind])
    name, way, _ = ENTRIES[kind]
    path = (project / MAIN[kind]).with_name(name) if name else project / MAIN[kind]
    value = yaml.safe_load(path.read_text())
    entry = inside(value, way)
    entry |= {"status": word} | {key: MOMENT for key in TIMES if key in entry}
    entry["completed" if kind == "orchestrator" else "completed_at"] = MOMENT
    path.write_text(json.dumps(value, indent=2))
    (one,) = stay.files.adopt()
    stay.session(one.session).note("nothing to do with it")
    assert inside(yaml.safe_load(path.read_text()), way) == inside(value, way)


@pytest.mark.req("S2-51")
@pytest.mark.parametrize("options", [[], ["JWT", "cookies"]])
def test_chosen_option_need_not_be_among_the_alternatives(
    stay: Forestay, project: Path, options: list[str]
) -> None:
    fill(project, kinds=["craft"])
    path = project / CRAFT
    value = json.loads(path.read_text())
    value["decisions_made"][0] |= {"options": options, "chosen": "both of them"}
    path.write_text(json.dumps(value, indent=2))
    (one,) = stay.files.adopt()
    session = stay.session(one.session)
    session.note("nothing to do with it")
    assert json.loads(path.read_text())["decisions_made"] == value["decisions_made"]
    value = json.loads(path.read_text())
    value["decisions_made"][0]["chosen"] = "neither"
    path.write_text(json.dumps(value, indent=2))
    session.note("another")
    assert json.loads(path.read_text())["decisions_made"] == value["decisions_made"]
    (decision,) = state_of(session).rows.select("decision")
    assert getattr(decision, "chosen", "") == "neither"


def inside(value: Any, way: list[str | int]) -> Any:
    for step in way:
        value = value[step]
    return value


def test_goal_of_an_adopted_essay_is_its_thesis(stay: Forestay, project: Path) -> None:
    fill(project, kinds=["essay"])
    (project / ESSAY).with_name("stage-1-thesis.md").write_text("## Thesis Statement\n\nCats.\n")
    (one,) = stay.files.adopt()
    assert stay.session(one.session).status().goal == "Cats."
    assert outcomes(list(stay.files.adopt())) == [("essay", "known")]


@pytest.mark.req("S3-95", "S3-97", "S3-98", "S3-104")
@pytest.mark.parametrize("harm", ["torn", "gone", "folder"])
@pytest.mark.parametrize("level", ["backup", "artifacts"])
def test_damaged_essay_is_adopted_from_the_files_around_it(
    stay: Forestay, project: Path, level: str, harm: str
) -> None:
    fill(project, kinds=["essay"])
    path = project / ESSAY
    path.with_name("stage-1-thesis.md").write_text("## Thesis Statement\n\nCats.\n")
    whole = yaml.safe_load(path.read_text())
    backup = path.read_text() if level == "backup" else "{"
    path.with_name("session-state.yaml.bak").write_text(backup)
    path.unlink()
    if harm == "torn":
        path.write_text("{")
    elif harm == "folder":
        path.mkdir()
    (one,) = stay.files.adopt()
    messages = {"backup": salvage.FROM_BACKUP, "artifacts": salvage.FROM_ARTIFACTS}
    assert one.outcome == "adopted" and one.problems[0] == messages[level]
    stated = whole["stages"]["stage_1"]["status"] if level == "backup" else "completed"
    thesis = state_of(stay.session(one.session)).step("stage-1")
    assert thesis and thesis.status == {"not_started": "pending", "completed": "done"}[stated]
    assert (one.native == whole["pipeline_id"]) == (level == "backup")
    assert outcomes(list(stay.files.adopt())) == [("essay", "known")]


def test_essay_restored_after_its_state_was_lost_is_the_same_session(
    stay: Forestay, project: Path
) -> None:
    fill(project, kinds=["essay"])
    path = project / ESSAY
    path.with_name("stage-1-thesis.md").write_text("## Thesis Statement\n\nCats.\n")
    path.unlink()
    (lost,) = stay.files.adopt()
    stay.files.recover(str(path), fix=True)
    (back,) = stay.files.adopt()
    assert (lost.outcome, lost.bound) == ("adopted", False)
    assert (back.session, back.bound) == (lost.session, True)


@pytest.mark.req("S3-2")
@pytest.mark.parametrize(
    "id, is_kept",
    [
        ("essay-7E57D004-2B97-4E7A-B45F-5387367791CD", True),
        ("essay-20260214-143022", True),
        ("my essay", True),
        ("../../up", False),
        ("two\nlines", False),
        ("x" * 201, False),
    ],
)
def test_essay_is_bound_only_if_its_id_is_short_and_no_path(
    stay: Forestay, project: Path, id: str, is_kept: bool
) -> None:
    fill(project, kinds=["essay"])
    path = project / ESSAY
    path.write_text(path.read_text().replace(IDS["essay"], json.dumps(id)[1:-1]))
    (one,) = stay.files.adopt()
    assert (one.outcome, one.bound) == ("adopted", is_kept)
    session = stay.session(one.session)
    session.pause()
    reported = yaml.safe_load(path.read_text())
    assert (reported["pipeline_id"], reported["status"] == "paused") == (id, is_kept)
    path.unlink()
    session.resume()
    assert path.exists() == is_kept
    assert not is_kept or yaml.safe_load(path.read_text())["pipeline_id"] == id
    with pytest.raises(InvalidInput, match="Invalid essay session ID"):
        stay.start("On dogs", formats=["essay:my essay"])


@pytest.mark.req("S1-25", "S2-9", "S4-8")
@pytest.mark.parametrize("id, is_kept", [("abc-123", True), ("run 7", True), ("..", False)])
@pytest.mark.parametrize("kind", ["praxis", "craft", "orchestrator"])
def test_files_with_an_unusual_id_are_bound_if_it_is_safe(
    stay: Forestay, project: Path, kind: str, id: str, is_kept: bool
) -> None:
    fill(project, kinds=[kind])
    path = project / MAIN[kind]
    value = json.loads(path.read_text()) | {"session_id": id}
    path.unlink()
    path = path if kind == "orchestrator" or not is_kept else path.with_name(f"{id}.json")
    path.write_text(json.dumps(value))
    (one,) = stay.files.adopt()
    assert (one.outcome, one.bound) == ("adopted", is_kept)
    stay.session(one.session).record.rename("Add logout")
    stay.session(one.session).pause()
    reported = json.loads(path.read_text())
    assert reported["session_id"] == id and (reported != value) is is_kept


@pytest.mark.parametrize("kind", ["essay", "craft"])
def test_rival_in_our_place_is_reported_and_adopted_once_ours_is_unbound(
    stay: Forestay, project: Path, kind: str
) -> None:
    fill(project, kinds=[kind])
    (ours,) = stay.files.adopt()
    path = Path(ours.path)
    path.write_text(path.read_text().replace("7e57d004", "00000000").replace("abc123", "def456"))
    theirs = path.read_bytes()
    (one,) = stay.files.adopt()
    assert (one.outcome, one.session, path.read_bytes()) == ("rival", "", theirs)
    assert f"forestay files unbind {kind} --session {ours.session}" in one.problems[-1]
    stay.session(ours.session).files.unbind(kind)
    (one,) = stay.files.adopt()
    assert one.outcome == "adopted" and one.session not in ("", ours.session)


def test_empty_essay_file_makes_no_session(stay: Forestay, project: Path) -> None:
    (project / ESSAY).parent.mkdir()
    (project / ESSAY).touch()
    (one,) = stay.files.adopt()
    assert (one.outcome, one.session) == ("unreadable", "") and not stay.list(all=True)


def test_adopting_again_records_no_event(stay: Forestay, project: Path) -> None:
    fill(project)
    first = list(stay.files.adopt())
    seqs = {one.session: len(list(stay.session(one.session).log())) for one in first}
    again = list(stay.files.adopt())
    assert [one.outcome for one in again] == ["known"] * 5
    assert {one.session: len(list(stay.session(one.session).log())) for one in again} == seqs


def test_session_in_the_folder_of_another_is_adopted_once_and_not_bound(
    stay: Forestay, project: Path
) -> None:
    fill(project, kinds=["ai-session"])
    path, other = project / STATE, "other-2026-02-14"
    path.write_text(path.read_text().replace(path.parent.name, other))
    (one,) = stay.files.adopt()
    assert (one.outcome, one.native, one.bound, one.errors) == ("adopted", other, False, 1)
    (again,) = stay.files.adopt()
    assert (again.outcome, again.session, again.events) == ("known", one.session, 0)


def test_essay_without_an_id_is_one_session_after_repeated_adoption(
    stay: Forestay, project: Path
) -> None:
    fill(project, kinds=["essay"])
    (project / ESSAY).write_text("{}")
    (project / ESSAY).with_name("stage-1-thesis.md").write_text("## Thesis Statement\n\nCats.\n")
    (first,) = stay.files.adopt()
    stay.context.clock.sleep(0.01)
    (again,) = stay.files.adopt()
    assert (first.outcome, again.outcome) == ("adopted", "known")
    assert first.session == again.session


def test_changed_bound_file_is_an_edit_when_adopted_again(stay: Forestay, project: Path) -> None:
    fill(project)
    list(stay.files.adopt())
    path = project / ORCHESTRATOR
    path.write_text(path.read_text().replace('"in_progress"', '"paused"', 1))
    again = by_format(list(stay.files.adopt()))
    assert again["orchestrator"].outcome == "edited"
    assert stay.session(again["orchestrator"].session).status().status == "paused"
    assert again["craft"].outcome == "known"


def test_unbound_file_is_compared_with_its_last_adopted_content(
    stay: Forestay, tmp_path: Path, project: Path
) -> None:
    other = tmp_path / "elsewhere.json"
    fill(project)
    text = (project / ORCHESTRATOR).read_text()
    other.write_text(text)
    (one,) = stay.files.adopt(str(other))
    assert (one.outcome, one.bound) == ("adopted", False)
    session = stay.session(one.session)
    session.note("work of our own")
    other.write_text(text.replace("Write docs", "Write better docs"))
    (edited,) = stay.files.adopt(str(other))
    assert edited.outcome == "edited"
    titles = [row.title for row in state_of(session).rows.select("step")]  # type: ignore[attr-defined]
    assert "Write better docs" in titles
    other.write_text(text)
    (back,) = stay.files.adopt(str(other))
    assert back.outcome == "edited"
    (known,) = stay.files.adopt(str(other))
    assert known.outcome == "known"


@pytest.mark.parametrize(
    "native",
    ["a\x1b[31mb", "two\nlines", "\u202ea", " a ", "../x", "x" * 3000, f"ghp_{'a1B2' * 9}", "日本"],
    ids=ascii,
)
@pytest.mark.parametrize("kind", ["craft", "orchestrator"])
def test_session_with_an_unusual_id_is_adopted_once(
    stay: Forestay, project: Path, kind: str, native: str
) -> None:
    fill(project, kinds=[kind])
    path = project / MAIN[kind]
    path.write_text(path.read_text().replace(IDS[kind], json.dumps(native)[1:-1]))
    (first,) = stay.files.adopt()
    (again,) = stay.files.adopt()
    assert (first.outcome, again.outcome, again.session) == ("adopted", "known", first.session)


def test_second_file_with_the_same_id_is_reported_and_left_alone(
    stay: Forestay, project: Path
) -> None:
    fill(project)
    text = (project / CRAFT).read_text()
    rival, copy = project / "a-rival.json", project / "b-copy.json"
    rival.write_text(text.replace("Add login", "Something else"))
    copy.write_text(text)
    by_path = {Path(one.path).name: one for one in stay.files.adopt()}
    assert by_path[Path(CRAFT).name].outcome == "adopted"
    assert by_path["a-rival.json"].outcome == "rival"
    assert "has the same id and other content" in by_path["a-rival.json"].problems[-1]
    assert by_path["a-rival.json"].session == ""
    assert by_path["b-copy.json"].outcome == "copy"
    (later,) = stay.files.adopt(str(rival))
    assert later.outcome == "rival"
    goals = {row.goal for row in stay.list()}
    assert "Something else" not in goals


LEGACY = {
    "session_id": "0b5d6c2e-51a7-4b0e-9c39-8a4f1c7d2e60",
    "workflow_type": "review_v1",
    "target_file": "docs/plan.md",
    "current_phase": 0,
    "completed_phases": [],
    "phase_artifacts": {},
    "checkpoints": {},
    "created_at": "2025-10-09T09:00:00.123456",
    "updated_at": "2025-10-09T09:00:00.123456",
    "metadata": {"total_phases": 3},
}
LEGACY_FILE = f".praxis-os/.cache/state/{LEGACY['session_id']}.json"


@pytest.mark.req("S1-138")
def test_phase_passed_in_an_unbound_file_is_not_a_dispute(stay: Forestay, project: Path) -> None:
    path = project / LEGACY_FILE
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(LEGACY))
    (one,) = stay.files.adopt()
    session = stay.session(one.session)
    session.resume()
    session.note("work of our own")
    at = "2027-03-01T10:00:00.123456"
    passed = {"completed_phases": [0], "checkpoints": {"0": "passed"}, "current_phase": 1}
    path.write_text(json.dumps(LEGACY | passed | {"updated_at": at}))
    (edited,) = stay.files.adopt()
    assert edited.outcome == "edited"
    assert state_of(session).core.phase == 1
    assert list(state_of(session).rows.select("dispute")) == []


@pytest.mark.req("S1-138")
def test_phases_withdrawn_in_an_unbound_file_are_recorded(stay: Forestay, project: Path) -> None:
    path = project / LEGACY_FILE
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(LEGACY))
    (one,) = stay.files.adopt()
    session = stay.session(one.session)
    session.note("work of our own")
    passed = {"completed_phases": [0, 1, 2], "current_phase": 3}
    path.write_text(json.dumps(LEGACY | passed))
    (ended,) = stay.files.adopt()
    assert session.status().status == "completed" and ended.problems == []
    path.write_text(json.dumps(LEGACY | {"completed_phases": [0], "current_phase": 1}))
    list(stay.files.adopt())
    assert session.status().status == "active" and state_of(session).core.phase == 1


@pytest.mark.req("S1-138")
def test_unbound_file_does_not_end_a_session_paused_here(stay: Forestay, project: Path) -> None:
    path = project / LEGACY_FILE
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(LEGACY | {"status": "active"}))
    (one,) = stay.files.adopt()
    session = stay.session(one.session)
    session.pause()
    path.write_text(json.dumps(LEGACY | {"status": "error", "error_reason": "manually_deleted"}))
    (edited,) = stay.files.adopt()
    assert session.status().status == "paused"
    assert edited.problems == ["not recorded: status: failed"]


def test_legacy_praxis_file_is_adopted_and_never_bound(stay: Forestay, project: Path) -> None:
    path = project / ".praxis-os/.cache/state/0a1b2c3d-0000-4000-8000-000000000001.json"
    path.parent.mkdir(parents=True)
    path.write_text(
        json.dumps(
            {
                "session_id": path.stem,
                "workflow_type": "spec_creation_v1",
                "target_file": "x",
                "current_phase": 1,
                "completed_phases": [0],
                "phase_artifacts": {},
                "checkpoints": {"0": "passed"},
                "created_at": "2025-10-08T10:00:00",
                "updated_at": "2025-10-08T11:00:00",
                "metadata": {},
            }
        )
    )
    before = path.read_bytes()
    (one,) = stay.files.adopt()
    assert (one.outcome, one.bound) == ("adopted", False)
    stay.session(one.session).note("goes on")
    assert path.read_bytes() == before


def test_template_is_adopted_only_on_request(stay: Forestay, project: Path) -> None:
    fill(project, kinds=["essay"])
    path = project / ESSAY
    path.write_text(path.read_text().replace(_essay_id(path), '"essay-{uuid}"'))
    (one,) = stay.files.adopt(str(path.parent))
    assert (one.outcome, one.session) == ("template", "")
    (one,) = stay.files.adopt(str(path.parent), templates=True)
    assert one.outcome == "adopted" and one.session


def _essay_id(path: Path) -> str:
    line = next(line for line in path.read_text().splitlines() if line.startswith("pipeline_id"))
    return line.partition(": ")[2]


@pytest.mark.req("S0-85")
def test_bad_log_lines_are_reported_and_the_rest_is_adopted(stay: Forestay, project: Path) -> None:
    fill(project, kinds=["ai-session"])
    log = project / STATE.replace("state.yaml", "history.jsonl")
    log.write_bytes(log.read_bytes() + b'{"torn": "li\n' + log.read_bytes())
    (one,) = stay.files.adopt()
    assert one.outcome == "adopted" and one.bound
    assert any("history.jsonl" in problem for problem in one.problems)


TORN = '{"timestamp":"2026-02-14T14:31:00Z","command":"say","arguments":"a "quoted" word"}'


@pytest.mark.req("S0-37", "S0-60")
def test_log_with_a_line_that_is_no_json_is_bound_and_continued(
    stay: Forestay, project: Path
) -> None:
    fill(project, kinds=["ai-session"])
    log = project / LOG
    log.write_text(f"{log.read_text()}{TORN}\n")
    before = log.read_text()
    (one,) = stay.files.adopt()
    assert one.bound and log.read_text() == before
    stay.session(one.session).note("n")
    assert log.read_text().startswith(before)
    assert [
        json.loads(line)["command"] for line in log.read_text()[len(before) :].splitlines()
    ] == ["note.added"]


def test_restored_content_is_reported_only_at_the_first_adoption(
    stay: Forestay, project: Path
) -> None:
    fill(project, kinds=["ai-session"])
    (project / LOG).write_text(f"{TORN}\n")
    (project / INDEX).write_text("active_features:\n- bad: [\n")
    (first,), (again,) = stay.files.adopt(), stay.files.adopt()
    assert not first.bound and (first.outcome, again.outcome) == ("adopted", "known")
    assert first.problems[0].startswith("Restored from")
    assert (
        again.problems
        == first.problems[-2:]
        == [
            line
            for line in first.problems
            if line.startswith(("history.jsonl:", "active-features"))
        ]
    )


def test_text_that_the_journal_cleans_is_no_change_in_an_unbound_file(
    stay: Forestay, project: Path
) -> None:
    fill(project, kinds=["ai-session"])
    line = {"timestamp": "2026-02-14T14:31:00Z", "command": "run", "status": "failure"}
    line["error"] = "\x1b[31mboom\x1b[0m"
    (project / LOG).write_text(json.dumps(line) + "\n")
    (project / INDEX).write_text("active_features:\n- bad: [\n")
    (one,) = stay.files.adopt()
    (project / INDEX).unlink()
    (again,) = stay.files.adopt()
    assert (one.session, again.outcome, again.events) == (again.session, "known", 0)


def test_artifacts_next_to_a_session_are_stored_with_it(stay: Forestay, project: Path) -> None:
    fill(project, kinds=["ai-session", "essay"])
    kept = (project / STATE).parent / "artifacts"
    (kept / "deep").mkdir(parents=True, exist_ok=True)
    (kept / "design.md").write_text("# Design")
    (kept / "deep" / "notes.txt").write_text("notes")
    os.symlink("/etc/passwd", kept / "link.txt")
    (project / ESSAY).parent.joinpath("stage-1-thesis.md").write_text("# Thesis")
    adopted = by_format(list(stay.files.adopt()))
    assert (adopted["ai-session"].artifacts, adopted["essay"].artifacts) == (2, 1)
    rows = state_of(stay.session(adopted["ai-session"].session)).rows.select("artifact")
    assert sorted(row.path for row in rows) == [  # type: ignore[attr-defined]
        "artifacts/deep/notes.txt",
        "artifacts/design.md",
    ]


def test_artifacts_that_are_not_stored_are_reported(
    stay: Forestay, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(project, kinds=["ai-session"])
    kept = (project / STATE).parent / "artifacts"
    kept.mkdir()
    for name in ("a.md", "b.md", "c.md", "d.md"):
        (kept / name).write_text("too long" if name == "b.md" else "fine")
    monkeypatch.setattr(adopt, "MAX_ARTIFACTS", 2)
    monkeypatch.setattr(adopt, "MAX_ARTIFACT", 4)
    (reported,) = stay.files.adopt(str(project))
    assert reported.artifacts == 1
    left = "2 of 4 artifacts were left out, from artifacts/c.md on"
    assert reported.problems == [left, f"{kept / 'b.md'} is too large (it has over 4 bytes)"]


@pytest.mark.req("S3-128")
def test_saving_artifacts_does_not_count_as_work_on_an_essay(stay: Forestay, project: Path) -> None:
    fill(project, kinds=["essay"])
    (project / ESSAY).parent.joinpath("stage-1-thesis.md").write_text("# Thesis")
    (one,) = stay.files.adopt()
    core = state_of(stay.session(one.session)).core
    reported = yaml.safe_load((project / ESSAY).read_text())["last_activity"]
    assert one.artifacts == 1 and core.updated_at == timestamps.read(reported)


def test_adopt_without_a_path_finds_essays_in_the_shared_folder(
    stay: Forestay, project: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "tmp" / "essay-pipeline-20260214-143022"
    fill(project, kinds=["essay"])
    folder.parent.mkdir()
    (project / ESSAY).parent.rename(folder)
    folder.chmod(0o755)
    (one,) = stay.files.adopt()
    assert one.format == "essay" and one.outcome == "adopted"
    assert [one.outcome for one in stay.files.adopt(str(project))] == []


@pytest.mark.req("S3-120")
@pytest.mark.parametrize("why", ["writable", "link", "foreign", "file"])
def test_essay_folder_that_other_users_may_control_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    root = tmp_path / "tmp"
    folder = root / "essay-pipeline-20260214-143022"
    root.mkdir()
    if why == "file":
        folder.write_text("")
    elif why == "link":
        (tmp_path / "real").mkdir()
        folder.symlink_to(tmp_path / "real")
    else:
        folder.mkdir(mode=0o777 if why == "writable" else 0o755)
        folder.chmod(0o777 if why == "writable" else 0o755)
    if why == "foreign":
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert discover.folders_below([str(root)], "essay-pipeline-") == []
    if why == "writable":
        folder.chmod(0o755)
        assert discover.folders_below([str(root)], "essay-pipeline-") == [str(folder)]


def test_dry_run_records_and_binds_nothing(stay: Forestay, project: Path) -> None:
    fill(project)
    reported = list(stay.files.adopt(dry_run=True))
    assert [one.outcome for one in reported] == ["adopted"] * 5
    assert not any(one.events or one.bound for one in reported)
    assert stay.list(all=True) == []


def test_unreadable_files_do_not_stop_the_adoption_of_others(stay: Forestay, project: Path) -> None:
    fill(project)
    (project / CRAFT).write_bytes(b"")
    (project / PRAXIS).write_bytes(b"\0" * 100)
    adopted = by_format(list(stay.files.adopt()))
    assert adopted["craft"].outcome == adopted["praxis"].outcome == "unreadable"
    assert adopted["ai-session"].outcome == adopted["essay"].outcome == "adopted"
    assert adopted["craft"].problems


def test_id_that_is_a_path_names_no_file(stay: Forestay, project: Path, tmp_path: Path) -> None:
    fill(project, kinds=["orchestrator", "craft"])
    for name in (ORCHESTRATOR, CRAFT):
        value = json.loads((project / name).read_text())
        value["session_id"] = "../../../escaped"
        (project / name).write_text(json.dumps(value))
    before = snapshot(tmp_path)
    adopted = list(stay.files.adopt())
    assert [one.bound for one in adopted] == [False, False]
    for one in adopted:
        stay.session(one.session).note("goes on")
    after = snapshot(tmp_path)
    assert {name: data for name, data in after.items() if "home/" not in name} == before


def test_more_events_than_fit_one_append_are_all_recorded(
    stay: Forestay, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from forestay.mirror import adopt

    monkeypatch.setattr(adopt, "_AT_ONCE", 3)
    fill(project, kinds=["craft"])
    (one,) = stay.files.adopt()
    assert one.events > 6 and one.events == len(list(stay.session(one.session).log()))
    (again,) = stay.files.adopt()
    assert again.outcome == "known"


def listed(stay: Forestay, folder: Path) -> set[str]:
    return {row.session for row in stay.seen_from(str(folder), "").list()}


def test_adopted_session_belongs_to_the_project_of_its_files(
    stay: Forestay, project: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    fill(other)
    adopted = {one.format: one.session for one in stay.files.adopt(str(other))}
    essay = adopted.pop("essay")
    assert (listed(stay, project), listed(stay, other)) == ({essay}, set(adopted.values()))


def test_repository_below_a_plain_folder_is_its_own_project(stay: Forestay, project: Path) -> None:
    for name in ("one", "two"):
        fill(project / name, kinds=["craft"] if name == "one" else ["praxis"])
    (project / "one" / ".git").mkdir()
    adopted = {one.format: one.session for one in stay.files.adopt(str(project))}
    assert listed(stay, project / "one") == {adopted["craft"]}
    assert listed(stay, project) == {adopted["praxis"]}


def test_session_in_a_repository_below_this_project_belongs_to_this_project(
    stay: Forestay, project: Path
) -> None:
    (project / ".git").mkdir()
    fill(project / "nested")
    (project / "nested" / ".git").mkdir()
    adopted = {one.session for one in stay.files.adopt(str(project / "nested"))}
    assert listed(stay, project) == adopted and len(adopted) == len(ALL)


def test_adopting_again_after_an_interruption_assigns_the_project(
    stay: Forestay, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(project)
    with monkeypatch.context() as killed:
        killed.setattr(Workspace, "claim", lambda *_: None)
        adopted = {one.session for one in stay.files.adopt()}
        assert listed(stay, project) == set()
    assert {one.outcome for one in stay.files.adopt()} == {"known"}
    assert listed(stay, project) == adopted


PARTS = ["state.yaml", "implementation-plan.yaml", "history.jsonl", "../active-features.yaml"]


@pytest.mark.parametrize("part", PARTS)
def test_adopting_one_file_of_a_session_adopts_the_whole_session(
    stay: Forestay, project: Path, part: str
) -> None:
    fill(project, kinds=["ai-session"])
    (one,) = stay.files.adopt(str((project / STATE).parent / part))
    assert (one.outcome, one.events, one.bound) == ("adopted", 8, True)
    assert outcomes(list(stay.files.adopt())) == [("ai-session", "known")]


def test_adopting_an_index_adopts_all_sessions_in_it(stay: Forestay, project: Path) -> None:
    fill(project, kinds=["ai-session"])
    folder = (project / STATE).parent
    other = folder.with_name("other-2026-02-15")
    shutil.copytree(folder, other)
    state = (other / "state.yaml").read_text()
    (other / "state.yaml").write_text(state.replace(folder.name, other.name))
    assert {one.native for one in stay.files.adopt(str(project / INDEX))} == {
        folder.name,
        other.name,
    }


def test_single_file_elsewhere_is_adopted_by_its_content(stay: Forestay, project: Path) -> None:
    fill(project, kinds=["ai-session"])
    (project / "saved").mkdir()
    shutil.copy(project / STATE, project / "saved" / "state.yaml")
    (one,) = stay.files.adopt(str(project / "saved" / "state.yaml"))
    assert (one.native, one.path) == (
        (project / STATE).parent.name,
        str(project / "saved" / "state.yaml"),
    )


def test_index_alone_is_no_session(stay: Forestay, project: Path) -> None:
    (project / ".ai-session").mkdir()
    over, open = ("{feature_id: over, status: completed}", "{feature_id: open, status: active}")
    for listed, reported in (([], 0), ([over], 0), ([over, open], 1)):
        (project / INDEX).write_text(f"active_features: [{', '.join(listed)}]\n")
        adopted = list(stay.files.adopt())
        assert len(adopted) == reported and not any(one.session for one in adopted)
        assert all("open is listed, but its files" in one.problems[-1] for one in adopted)
        with pytest.raises(InvalidInput, match="there is no session in"):
            stay.files.convert(str(project / INDEX), "craft")


# -- adoption changes nothing in the files -------------------------------------------------------

BEGAN, ENDED = "2026-02-14T14:30:15.000Z", "2026-02-14T14:31:15.000Z"
MADE = {"files_created": ["a.py"], "files_modified": ["b.py"], "files_deleted": ["c.py"]}
CRAFT_AGENTS: list[dict[str, object]] = [
    {"status": "pending"},
    {"status": "pending", "blocking_on": "agent-1"},
    {"status": "running", "started_at": BEGAN, "progress": 0.5, "artifacts": MADE},
    {"status": "completed", "started_at": BEGAN, "completed_at": ENDED, "result": "success"},
    {"status": "completed", "started_at": BEGAN, "completed_at": ENDED, "result": "aborted"},
    {"status": "timeout", "started_at": BEGAN, "completed_at": ENDED, "artifacts": MADE},
    {
        "status": "error",
        "started_at": BEGAN,
        "completed_at": ENDED,
        "progress": 0.4,
        "output_summary": "half of it",
        "artifacts": MADE,
        "error": {
            "category": "transient",
            "message": "no network",
            "retry_count": 2,
            "last_retry_at": BEGAN,
        },
    },
]
ORCHESTRATOR_AGENTS: list[dict[str, object]] = [
    {"status": "complete", "result_summary": "fine", "completed": "2026-02-14T14:31:15Z"},
    {"status": "in_progress", "progress": 60},
    {
        "status": "failure",
        "progress": 30,
        "result_summary": "exit 1",
        "completed": "2026-02-14T14:31:15Z",
    },
]


@pytest.mark.req("S2-23", "S2-27", "S2-29", "S2-33", "S2-34", "S2-36", "S2-39")
def test_no_agent_in_a_craft_file_is_changed_by_adopting_and_writing(
    stay: Forestay, project: Path
) -> None:
    fill(project, ["craft"])

    def agents(value: dict[str, Any]) -> None:
        blank = dict.fromkeys(value["agents"][0]) | {"type": "test-specialist"}
        value["agents"] = [
            {**blank, "id": f"agent-{n}", **agent} for n, agent in enumerate(CRAFT_AGENTS, 1)
        ]
        value["context_usage"]["by_agent"] = {"agent-1": 100, "nobody": 200}

    before, after = adopted_and_written(stay, project / CRAFT, agents)
    assert after["agents"] == before["agents"] and after["context_usage"] == before["context_usage"]


@pytest.mark.req("S4-20", "S4-22", "S4-23", "S4-25", "S4-36")
def test_no_agent_or_error_in_an_orchestrator_file_is_changed_by_adopting_and_writing(
    stay: Forestay, project: Path
) -> None:
    fill(project, ["orchestrator"])

    def agents(value: dict[str, Any]) -> None:
        begun = {"type": "code", "task": "Build", "started": "2026-02-14T14:30:15Z"}
        value["agents"] = [
            {"id": f"code-{n}", **begun, **agent} for n, agent in enumerate(ORCHESTRATOR_AGENTS)
        ]
        value["errors"] = [
            {"message": "no", "agent": "code-2", "timestamp": "2026-02-14T14:31:15Z"},
            "a text",
        ]

    before, after = adopted_and_written(stay, project / ORCHESTRATOR, agents)
    assert (after["agents"], after["errors"]) == (before["agents"], before["errors"])


@pytest.mark.req("S1-38", "S1-39", "S1-52", "S1-57")
def test_no_phase_gets_a_time_or_evidence_that_its_file_did_not_have(
    stay: Forestay, project: Path
) -> None:
    fill(project, ["praxis"])

    def phases(value: dict[str, Any]) -> None:
        value["workflow_structure"]["total_phases"] = 4
        value.update(current_phase=2, completed_phases=[0, 1], phase_artifacts={})
        value["checkpoints"] = {"0": "passed", "1": "skipped", "2": "pending"}
        value["phase_timing"] = {"0": {"started_at": "2026-02-14T14:30:22Z"}}

    before, after = adopted_and_written(stay, project / PRAXIS, phases)
    for key in ("checkpoints", "phase_timing", "phase_artifacts", "completed_phases"):
        assert after[key] == before[key]
    assert "phase_attempts" not in after


@pytest.mark.parametrize("kind, path", [("craft", CRAFT), ("orchestrator", ORCHESTRATOR)])
@pytest.mark.parametrize("status", ["aborted", "paused"])
def test_aborted_or_paused_session_is_adopted_with_its_status(
    stay: Forestay, project: Path, kind: str, path: str, status: str
) -> None:
    fill(project, [kind])
    edited(project / path, lambda value: value.update(status=status))
    (one,) = stay.files.adopt()
    assert (one.outcome, stay.session(one.session).status().status) == ("adopted", status)


@pytest.mark.req("S0-7")
def test_model_in_use_has_priority_over_the_model_of_the_last_command(
    stay: Forestay, project: Path
) -> None:
    fill(project, ["ai-session"])
    state = project / STATE
    state.write_text(state.read_text().replace("opus", "gemini").replace("sonnet", "gemini"))
    assert '"model":"opus"' in (project / LOG).read_text()
    (one,) = stay.files.adopt()
    stay.session(one.session).note("next")
    assert 'model_in_use: "gemini"' in state.read_text()


@pytest.mark.req("S4-16")
def test_created_session_stays_created(stay: Forestay, project: Path) -> None:
    fill(project, ["orchestrator"])
    before, after = adopted_and_written(
        stay, project / ORCHESTRATOR, lambda value: value.update(status="created", agents=[])
    )
    assert after["status"] == before["status"] == "created"


def edited(path: Path, change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value, indent=2))
    return value


@pytest.mark.req("S2-20", "S2-63", "S4-17")
@pytest.mark.parametrize("kind, path", [("craft", CRAFT), ("orchestrator", ORCHESTRATOR)])
def test_agent_that_is_listed_twice_stays_listed_twice(
    stay: Forestay, project: Path, kind: str, path: str
) -> None:
    fill(project, [kind])

    def twice(value: dict[str, Any]) -> None:
        again = {**value["agents"][0], "type": "again"}
        value["agents"].append(again)
        value["context_usage"].setdefault("by_agent", {})[""] = 7

    before, after = adopted_and_written(stay, project / path, twice)
    assert after["agents"] == before["agents"]
    assert after["context_usage"] == before["context_usage"]


@pytest.mark.req("S0-27", "S0-30")
@pytest.mark.parametrize(
    "ids", [("1", "1", "2", "2", "3"), ("p1", "1", "p2", "1", "2"), ("1", "1", "1", "1", "1")]
)
def test_plan_with_repeated_ids_loses_no_task(
    stay: Forestay, project: Path, ids: tuple[str, ...]
) -> None:
    fill(project, ["ai-session"])
    plan = (project / STATE).with_name("implementation-plan.yaml")
    began, ended = "2026-02-14T14:31:00Z", "2026-02-14T14:32:00Z"
    keys = ("task_id", "description", "status", "started_at", "completed_at")
    tasks = [
        dict(zip(keys, values, strict=True))
        for values in (
            (ids[1], "Install", "completed", began, ended),
            (ids[3], "Write", "in_progress", ended, None),
            (ids[4], "Test", "pending", None, None),
        )
    ]
    phases = [
        {"phase_id": ids[0], "name": "Prepare", "tasks": tasks[:1]},
        {"phase_id": ids[2], "name": "Build", "tasks": tasks[1:]},
    ]
    plan.write_text(json.dumps({"feature": {"name": "Pay"}, "phases": phases}))
    (one,) = stay.files.adopt()
    session = stay.session(one.session)
    reported = {row.title: row.id for row in state_of(session).rows.select("step")}  # type: ignore[attr-defined]
    assert sorted(reported) == ["Build", "Install", "Prepare", "Test", "Write"]
    session.note("next")
    assert yaml.safe_load(plan.read_text())["phases"] == phases
    session.tasks.done(reported["Write"])
    written = yaml.safe_load(plan.read_text())["phases"]
    statuses = [[task["status"] for task in phase["tasks"]] for phase in written]
    assert statuses == [["completed"], ["completed", "pending"]]


def adopted_and_written(
    stay: Forestay, path: Path, change: Callable[[dict[str, Any]], object]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the value of a changed file before adoption and after the next event."""
    before = edited(path, change)
    (one,) = stay.files.adopt()
    stay.session(one.session).note("next")
    after: dict[str, Any] = json.loads(path.read_text())
    assert after != before, "the file was written"
    return before, after


def test_yaml_with_merge_keys_is_adopted_without_a_reported_loss(
    stay: Forestay, project: Path
) -> None:
    folder = project / ".ai-session" / "pay-2026-01-31"
    folder.mkdir(parents=True)
    (folder / "state.yaml").write_text(
        "version: '1.0'\nfeature_id: pay-2026-01-31\ncurrent_state: {active_task: T1,"
        " model_in_use: opus, started_at: 2026-01-31T10:00:00Z}\n"
    )
    (folder / "implementation-plan.yaml").write_text(
        "feature: {id: pay-2026-01-31, name: Pay}\nusual: &u {agent: bob}\nphases:\n- phase_id: p\n"
        "  name: P\n  tasks:\n  - {<<: *u, task_id: T1, description: One, status: in_progress}\n"
    )
    (one,) = stay.files.adopt(str(folder))
    assert one.outcome == "adopted" and not any("lost" in problem for problem in one.problems)
    core = state_of(stay.session(one.session)).core
    assert (core.goal, core.model) == ("Pay", "opus")


def test_copy_found_first_does_not_make_the_bound_file_a_rival(
    stay: Forestay, project: Path
) -> None:
    session = stay.start("Add login", formats=["ai-session:login-2026-01-31"])
    folder = project / ".ai-session"
    shutil.copytree(folder / "login-2026-01-31", folder / "LOGIN-2026-01-31")
    copy, own = sorted(stay.files.adopt(), key=lambda one: one.path)
    assert (copy.outcome, own.outcome) == ("copy", "known")
    assert (own.session, own.problems) == (session.id, [])


# -- files that were moved -----------------------------------------------------------------------


def moved_essay(stay: Forestay, tmp_path: Path) -> tuple[Any, Path]:
    """Return the session of an essay with a thesis whose folder was moved, and the new folder."""
    session = stay.start("Why software slows", workflow="essay", formats=["essay"])
    (binding,) = session.files.list()
    Path(binding.root, "stage-1-thesis.md").write_text("# Thesis\n\nNobody measures it.\n")
    session.essay.approve("G1")
    new = tmp_path / "elsewhere" / "essay-pipeline-20260101-000000"
    new.parent.mkdir()
    Path(binding.root).rename(new)
    return session, new


@pytest.mark.req("S3-9", "S3-109")
def test_session_continues_in_its_moved_folder(stay: Forestay, tmp_path: Path) -> None:
    session, new = moved_essay(stay, tmp_path)
    before = snapshot(new)
    (one,) = stay.files.adopt(str(new))
    assert (one.session, one.outcome, one.bound) == (session.id, "moved", True)
    assert snapshot(new) == before and len(stay.list()) == 1
    session.pause()
    (binding,) = session.files.list()
    doc = yaml.safe_load((new / "session-state.yaml").read_text())
    assert (binding.root, doc["session_dir"]) == (str(new), str(new))
    assert doc["stages"]["stage_1"]["thesis_file"] == str(new / "stage-1-thesis.md")
    (again,) = stay.files.adopt(str(new))
    assert (again.outcome, again.events) == ("known", 0)


def test_edit_of_moved_files_is_absorbed(stay: Forestay, tmp_path: Path) -> None:
    session, new = moved_essay(stay, tmp_path)
    state = new / "session-state.yaml"
    state.write_text(state.read_text().replace('status: "in_progress"', 'status: "paused"', 1))
    (planned,) = stay.files.adopt(str(new), dry_run=True)
    assert (planned.outcome, session.status().status) == ("moved", "active")
    (one,) = stay.files.adopt(str(new))
    assert one.outcome == "moved" and one.events and session.status().status == "paused"


def test_moved_project_still_has_one_session(stay: Forestay, tmp_path: Path, project: Path) -> None:
    formats = ["ai-session", "craft", "praxis", "orchestrator"]
    session = stay.start("Move me", formats=formats)
    new = tmp_path / "new-name"
    project.rename(new)
    adopted = list(stay.files.adopt(str(new)))
    assert {one.session for one in adopted} == {session.id} and len(adopted) == 4
    session.note("from here")
    assert all(one.root.startswith(f"{new}/") for one in session.files.list())
    assert not project.exists()


def test_moved_project_still_has_its_current_session(
    stay: Forestay, tmp_path: Path, project: Path
) -> None:
    stay.start("Another", formats=["craft"])
    current = stay.start("Move me", formats=["craft"]).id
    stay.start("In no file")
    stay.use(current)
    new = tmp_path / "new-name"
    project.rename(new)
    with forestay.open(str(tmp_path / "home"), cwd=str(new), trust_env=False) as moved:
        assert moved.context.workspace.chosen_here() == ""
        assert {one.outcome for one in moved.files.adopt()} == {"moved"}
        assert moved.current().id == current


def test_moved_project_keeps_a_session_chosen_after_the_move(
    stay: Forestay, tmp_path: Path, project: Path
) -> None:
    stay.start("Move me", formats=["craft"])
    new = tmp_path / "new-name"
    project.rename(new)
    with forestay.open(str(tmp_path / "home"), cwd=str(new), trust_env=False) as moved:
        other = moved.start("Since then").id
        assert {one.outcome for one in moved.files.adopt()} == {"moved"}
        assert moved.current().id == other


def test_moved_files_are_a_rival_once_their_old_place_is_written_again(
    stay: Forestay, tmp_path: Path
) -> None:
    stated: list[str] = []
    stay.context.on_notice = stated.append
    session, new = moved_essay(stay, tmp_path)
    session.pause()  # writes the file again in its old place
    assert any("if it was moved" in line for line in stated)
    (one,) = stay.files.adopt(str(new))
    assert (one.outcome, one.session) == ("rival", "")
    assert "replace the others with them" in one.problems[-1]


@pytest.mark.req("S3-9", "S3-109")
def test_moved_essay_of_another_program_names_its_folder_at_the_next_write(
    stay: Forestay, project: Path
) -> None:
    fill(project)
    path = project / ESSAY
    folder = path.parent
    (folder / "stage-1-thesis.md").write_text("# Thesis\n")
    doc = yaml.safe_load(path.read_text())
    doc["session_dir"] = "/nowhere/essay-pipeline-20260101-000000"
    doc["stages"]["stage_1"]["thesis_file"] = f"{doc['session_dir']}/stage-1-thesis.md"
    doc["stages"]["stage_1"]["development_log"] = "/another/place.md"
    path.write_text(yaml.safe_dump(doc, sort_keys=False))
    before = path.read_bytes()
    (one,) = stay.files.adopt(str(folder))
    assert (one.bound, path.read_bytes()) == (True, before)
    stay.session(one.session).pause()
    doc = yaml.safe_load(path.read_text())
    assert doc["session_dir"] == str(folder)
    assert doc["stages"]["stage_1"]["thesis_file"] == str(folder / "stage-1-thesis.md")
    assert doc["stages"]["stage_1"]["development_log"] == "/another/place.md"
    stay.session(one.session).note("again")
    assert not [line for line in stay.session(one.session).log() if "edit" in line.event.kind][1:]


def test_folder_named_by_a_link_is_the_same_folder(stay: Forestay, project: Path) -> None:
    fill(project)
    path = project / ESSAY
    (project / "link").symlink_to(path.parent)
    doc = yaml.safe_load(path.read_text())
    doc["session_dir"] = str(project / "link")
    path.write_text(yaml.safe_dump(doc, sort_keys=False))
    (one,) = stay.files.adopt(str(path.parent))
    stay.session(one.session).pause()
    assert yaml.safe_load(path.read_text())["session_dir"] == str(project / "link")
