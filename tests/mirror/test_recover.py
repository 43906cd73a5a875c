"""Recovery uses the first source that works, sets damaged bytes aside, and returns questions."""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import forestay
from forestay.api.forestay import Forestay
from forestay.api.session import Session
from forestay.base import files
from forestay.errors import InvalidInput, Refused, StoreFailed
from forestay.formats import salvage
from forestay.health import format_checks
from forestay.mirror import discover, recover
from forestay.mirror.recover import Case
from tests.format_helpers import CRAFT, ESSAY, INDEX, LOG, MAIN, ORCHESTRATOR, STATE, fill, snapshot
from tests.mirror.support import ran, recorded

KINDS = ["ai-session", "praxis", "craft", "essay", "orchestrator"]
PLAN = STATE.replace("state.yaml", "implementation-plan.yaml")
TORN = b'{"torn": "in the mid\0\0\0'


@pytest.fixture
def stay(tmp_path: Path, project: Path) -> Forestay:
    return forestay.open(str(tmp_path / "home"), trust_env=False)


def start_session(stay: Forestay) -> Session:
    session = stay.start("Add login", formats=KINDS)
    session.tasks.add("Write tests", id="t1")
    session.tasks.start("t1")
    session.record.command("pytest", arguments="-q")
    Path("x.py").write_text("1")
    session.record.file("x.py")
    return session


def main_file(session: Session, kind: str) -> Path:
    return Path(next(b.place for b in session.files.list() if b.format == kind))


def damaged_copies(path: Path) -> list[bytes]:
    return [p.read_bytes() for p in path.parent.glob(f"{path.name}.corrupt-*")]


def examine(stay: Forestay, path: Path, choose: str = "") -> Case:
    case = stay.files.recover(str(path), choose=choose)
    assert case is not None
    return case


# -- the journal -------------------------------------------------------------------------------


@pytest.mark.parametrize("is_torn", [True, False])
def test_restored_bound_files_have_the_content_that_only_they_had(
    stay: Forestay, is_torn: bool
) -> None:
    session = stay.start("Ship it", workflow="spec-execution", formats=["praxis"])
    session.phases.fail(0, issue="not yet")
    session.phases.done(0, override=True, because="seen to")
    path = main_file(session, "praxis")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"theirs": [1]}, indent=2))
    session.note("taken up")
    whole = path.read_text()
    assert '"theirs"' in whole and "phase_attempts" in whole
    path.write_bytes(TORN) if is_torn else path.unlink()
    stay.doctor(fix=True)
    assert path.read_text() == whole
    assert damaged_copies(path) == ([TORN] if is_torn else [])


@pytest.mark.req("S0-86")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("harm", ["torn", "gone", "folder"])
def test_bound_files_are_restored_from_the_journal(stay: Forestay, kind: str, harm: str) -> None:
    session = start_session(stay)
    path = main_file(session, kind)
    whole = path.read_bytes()
    path.unlink()
    if harm == "torn":
        path.write_bytes(TORN)
    elif harm == "folder":
        path.mkdir()
        (path / "precious").write_text("kept")
    codes = [advice.code for advice in stay.doctor().left if advice.file == str(path)]
    assert codes == ["files-missing" if harm == "gone" else "files-damaged"]
    mended = stay.doctor(fix=True)
    assert path.read_bytes() == whole
    assert any(line.startswith(f"wrote the {kind} files") for line in mended.done)
    assert not [advice for advice in mended.left if advice.code.startswith("files-")]
    if harm == "torn":
        assert damaged_copies(path) == [TORN]
    if harm == "folder":
        (kept,) = path.parent.glob(f"{path.name}.corrupt-*")
        assert (kept / "precious").read_text() == "kept"


@pytest.mark.req("S0-86")
@pytest.mark.parametrize("kind", KINDS)
def test_missing_bound_file_is_restored_by_its_path(stay: Forestay, kind: str) -> None:
    session = start_session(stay)
    path = main_file(session, kind)
    whole = path.read_bytes()
    path.unlink()
    case = examine(stay, path)
    assert (case.rung, case.session, case.missing) == (recover.JOURNAL, session.id, [str(path)])
    stay.files.recover(str(path), fix=True)
    assert path.read_bytes() == whole


@pytest.mark.req("S0-86")
@pytest.mark.parametrize("kind", ["ai-session", "essay"])
@pytest.mark.parametrize("gone", ["its main file", "all of it", "the folder"])
def test_bound_file_is_restored_by_the_path_of_its_folder(
    stay: Forestay, kind: str, gone: str
) -> None:
    session = start_session(stay)
    path = main_file(session, kind)
    folder, whole = path.parent, path.read_bytes()
    path.unlink()
    if gone != "its main file":
        shutil.rmtree(folder)
    if gone == "all of it":
        folder.mkdir()
    assert examine(stay, folder).rung == recover.JOURNAL
    stay.files.recover(str(folder), fix=True)
    assert path.read_bytes() == whole


def test_any_file_of_a_bound_session_identifies_it_without_the_main_file(
    stay: Forestay,
) -> None:
    session = start_session(stay)
    state = main_file(session, "ai-session")
    state.unlink()
    case = examine(stay, state.with_name("implementation-plan.yaml"))
    assert (case.rung, case.session) == (recover.JOURNAL, session.id)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", ["elsewhere", "nowhere"])
def test_bound_file_replaced_by_a_link_is_restored_from_the_journal(
    stay: Forestay, tmp_path: Path, kind: str, target: str
) -> None:
    session = start_session(stay)
    path = main_file(session, kind)
    whole, elsewhere = path.read_bytes(), tmp_path / "elsewhere"
    elsewhere.write_bytes(whole)
    path.unlink()
    path.symlink_to(tmp_path / target)
    case = stay.files.recover(str(path.parent if target == "nowhere" else path), fix=True)
    assert case is not None and case.rung == recover.JOURNAL
    assert not path.is_symlink() and path.read_bytes() == whole == elsewhere.read_bytes()


@pytest.mark.parametrize("odd", ["folder", "pipe", "link"])
def test_obstacle_in_place_of_an_essay_backup_is_reported_and_moved_away(
    stay: Forestay, tmp_path: Path, odd: str
) -> None:
    session = stay.start("On cats", formats=["essay"])
    path = main_file(session, "essay")
    backup = path.with_name(f"{path.name}.bak")
    makers = {"folder": backup.mkdir, "pipe": lambda: os.mkfifo(backup)}
    makers.get(odd, lambda: backup.symlink_to(tmp_path / "nowhere"))()
    session.pause()
    before = path.read_bytes()
    (advice,) = [a for a in stay.doctor().left if a.code.startswith("files-")]
    assert advice.code == "files-damaged" and f"{backup}: it is not a regular" in advice.what
    assert stay.doctor(fix=True).left == stay.doctor().left
    assert path.read_bytes() != before == backup.read_bytes()
    assert len(list(path.parent.glob(f"{backup.name}.corrupt-*"))) == 1


def test_file_restored_to_the_archive_is_reported_with_its_path(stay: Forestay) -> None:
    session = start_session(stay)
    path = main_file(session, "orchestrator")
    path.write_bytes(TORN)
    session.complete()
    mended = stay.doctor(fix=True)
    archived = main_file(session, "orchestrator")
    assert archived.parent.name == "orchestrator-history" and archived.is_file()
    (kept,) = path.parent.glob(f"{path.name}.corrupt-*")
    assert mended.done[-2:] == [
        f"wrote the orchestrator files of session {session.id} again",
        f"kept the previous bytes as {kept}",
    ]
    archived.write_bytes(TORN)
    (case,) = session.files.restore()
    assert case.written == [str(archived)]


@pytest.mark.parametrize("kind", KINDS)
def test_missing_folders_are_created_again(stay: Forestay, kind: str) -> None:
    session = start_session(stay)
    path = main_file(session, kind)
    whole = path.read_bytes()
    shutil.rmtree(path.parent)
    mended = stay.doctor(fix=True)
    assert path.read_bytes() == whole
    assert mended.done[-1] == f"wrote the {kind} files of session {session.id} again"


def test_file_in_place_of_a_folder_is_reported_as_not_fixable(
    stay: Forestay,
) -> None:
    session = start_session(stay)
    folder = main_file(session, "craft").parent
    shutil.rmtree(folder)
    folder.write_text("theirs")
    (advice,) = [a for a in stay.doctor(fix=True).left if a.code == "files-missing"]
    assert advice.why == f"{folder} is not a folder" and not advice.fixable
    assert advice.fix == "move that away, then: forestay doctor --fix"
    folder.unlink()
    assert not [a for a in stay.doctor(fix=True).left if a.code == "files-missing"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", [b"null", b"[1, 2]", b"7"])
def test_bound_file_without_a_session_in_it_is_written_again(
    stay: Forestay, kind: str, other: bytes
) -> None:
    session = start_session(stay)
    path = main_file(session, kind)
    whole = path.read_bytes()
    path.write_bytes(other)
    codes = [advice.code for advice in stay.doctor().left if advice.file == str(path)]
    assert codes == ["files-damaged"]
    stay.doctor(fix=True)
    assert path.read_bytes() == whole and damaged_copies(path) == [other]


def test_examining_changes_nothing(stay: Forestay, project: Path) -> None:
    session = start_session(stay)
    main_file(session, "craft").write_bytes(TORN)
    before = snapshot(project)
    stay.doctor()
    stay.files.recover(str(main_file(session, "craft")))
    assert snapshot(project) == before


@pytest.mark.req("S0-85")
def test_missing_log_is_restored_with_every_event(stay: Forestay) -> None:
    session = start_session(stay)
    log = main_file(session, "ai-session").parent / "history.jsonl"
    session.record.command("ruff")
    log.unlink()
    session.record.command("mypy")
    assert ran(log) == ["pytest", "ruff", "mypy"]
    kinds = [line.event.kind for line in session.log()]
    assert recorded(log) == [kind for kind in kinds if kind != "command.ran"]
    log.unlink()
    session.note("on")
    # The active task of the older commands is unknown.
    tasks = [json.loads(line)["task_id"] for line in log.read_bytes().splitlines()]
    assert not any(tasks[:-1]) and tasks[-1] == "t1"


def test_restored_index_lists_the_sessions_of_others(stay: Forestay) -> None:
    session = start_session(stay)
    root = main_file(session, "ai-session").parents[1]
    index = root / "active-features.yaml"
    index.write_text(
        "active_features:\n"
        '  - feature_id: "other-2026-01-01"\n'
        '    started_at: "2026-01-01T00:00:00Z"\n'
        '    last_active: "2026-01-01T00:00:00Z"\n'
        '    status: "active"\n'
        '      broken: "indent\n'
    )
    stay.doctor(fix=True)
    assert "other-2026-01-01" in index.read_text()
    assert main_file(session, "ai-session").parent.name in index.read_text()
    reports = [r for r in stay.files.check(str(root)) if r.reading.format == "ai-session"]
    assert all(report.ok for report in reports)


CONFLICT = (
    "active_features:\n"
    "<<<<<<< HEAD\n"
    '  - feature_id: "mine-2026-01-01"\n'
    '    status: "active"\n'
    "=======\n"
    '  - feature_id: "theirs-2026-01-01"\n'
    '    status: "paused"\n'
    ">>>>>>> other\n"
)


@pytest.mark.req("S0-69")
@pytest.mark.parametrize("bound", [True, False])
def test_both_sides_of_a_conflict_in_the_index_are_reported_and_the_user_chooses(
    stay: Forestay, project: Path, bound: bool
) -> None:
    if bound:
        state = main_file(start_session(stay), "ai-session")
    else:
        fill(project, ["ai-session"])
        state = project / STATE
    index = state.parents[1] / "active-features.yaml"
    index.write_text(CONFLICT)
    (fault,) = [f for f in stay.files.check(str(index.parent))[0].findings if f.file == str(index)]
    assert (fault.code, fault.requirement, fault.line) == ("conflict-markers", "S0-69", 2)
    assert "mine-2026-01-01" in fault.what and "theirs-2026-01-01" in fault.what
    where = state if bound else state.parent
    before = snapshot(project)
    stay.doctor(fix=True)
    with pytest.raises(Refused, match="only the user can decide"):
        stay.files.recover(str(where), fix=True)
    assert snapshot(project) == before
    question = examine(stay, where).question
    assert question is not None and question.recommended == "stop"
    assert [c.detail for c in question.choices][:2] == [
        "which lists mine-2026-01-01",
        "which lists theirs-2026-01-01",
    ]
    stay.files.recover(str(where), fix=True, choose="second")
    assert "theirs-2026-01-01" in index.read_text() and "<<<" not in index.read_text()
    assert damaged_copies(index) == [CONFLICT.encode()]


def test_conflict_is_reported_for_any_file_name(stay: Forestay, project: Path) -> None:
    fill(project, ["essay", "craft"])
    for which, name in ((ESSAY, "session-state.yaml.orig"), (CRAFT, "copy")):
        text = (project / which).read_text()
        path = (project / which).with_name(name)
        path.write_text(f"<<<<<<< HEAD\n{text}=======\n{text}>>>>>>> other\n")
        question = examine(stay, path).question
        assert question is not None and question.choices[0].detail.startswith("which has status")


def test_restore_writes_the_files_of_one_format_again(stay: Forestay) -> None:
    session = start_session(stay)
    for kind in ("craft", "praxis"):
        main_file(session, kind).write_bytes(TORN)
    (case,) = session.files.restore("craft")
    assert (case.format, case.rung, len(case.kept)) == ("craft", "journal", 1)
    assert main_file(session, "praxis").read_bytes() == TORN
    assert [c.format for c in session.files.restore()] == ["praxis"]
    assert session.files.restore() == []


def test_files_are_not_restored_during_a_git_operation(stay: Forestay, project: Path) -> None:
    session = start_session(stay)
    (project / ".git").mkdir()
    (project / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (project / ".git" / "MERGE_HEAD").write_text("0" * 40)
    path = main_file(session, "craft")
    path.write_bytes(TORN)
    with pytest.raises(Refused, match="git is in the middle of a merge"):
        session.files.restore()
    assert path.read_bytes() == TORN


def test_file_of_an_unknown_version_is_never_replaced(stay: Forestay) -> None:
    session = start_session(stay)
    path = main_file(session, "orchestrator")
    value = json.loads(path.read_text())
    path.write_text(json.dumps({**value, "schema_version": "99"}))
    bytes_of_99 = path.read_bytes()
    session.note("goes on")
    stay.doctor(fix=True)
    session.files.restore()
    stay.files.recover(str(path))
    assert path.read_bytes() == bytes_of_99
    assert "files-suspended" in [advice.code for advice in stay.doctor().left]


# -- files of other programs -------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ai-session", "praxis", "craft"])
def test_salvaged_file_is_written_only_on_request(stay: Forestay, project: Path, kind: str) -> None:
    fill(project)
    path = project / MAIN[kind]
    torn = path.read_bytes()[:-25]
    path.write_bytes(torn + b"\0\0\0")
    before = snapshot(project)
    case = examine(stay, path.parent if kind == "ai-session" else path)
    assert (case.rung, case.damaged) == ("artifacts", [str(path)])
    assert snapshot(project) == before
    out = project / "out"
    done = stay.files.recover(str(path.parent if kind == "ai-session" else path), out=str(out))
    assert done is not None and done.written == [str(out)]
    assert path.read_bytes() == torn + b"\0\0\0"
    stay.files.recover(str(path.parent if kind == "ai-session" else path), fix=True)
    assert path.read_bytes() == out.read_bytes()
    assert damaged_copies(path) == [torn + b"\0\0\0"]
    (report,) = stay.files.check(str(path.parent if kind == "ai-session" else path))
    assert not [f for f in report.findings if f.code in ("nul", "yaml-syntax")]


@pytest.mark.req("S0-85")
def test_lost_state_is_made_from_the_other_files_and_inferences_are_reported(
    stay: Forestay, project: Path
) -> None:
    fill(project)
    (project / STATE).write_bytes(b"")
    case = examine(stay, (project / STATE).parent)
    assert any("began_at" in line for line in case.inferred)
    assert any("model" in line for line in case.inferred)
    stay.files.recover(str((project / STATE).parent), fix=True)
    made = (project / STATE).read_text()
    assert "started_at: " in made and '"opus"' in made
    assert (project / LOG).exists() and (project / INDEX).exists()


@pytest.mark.parametrize("kind", KINDS)
def test_file_without_read_permission_is_not_recovered(
    stay: Forestay, project: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(project, [kind])
    path, opened = str(project / MAIN[kind]), os.open

    def denied(name: str, *more: Any, **named: Any) -> int:
        if name == path:
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(name, *more, **named)

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(StoreFailed, match="permission denied"):
        stay.files.recover(path, fix=True)


@pytest.mark.parametrize("bound", [True, False])
@pytest.mark.parametrize("damaged", ["state.yaml", "implementation-plan.yaml"])
@pytest.mark.parametrize("named", ["state.yaml", "implementation-plan.yaml", "history.jsonl"])
def test_damaged_session_is_recovered_by_the_path_of_any_of_its_files(
    stay: Forestay, project: Path, named: str, damaged: str, bound: bool
) -> None:
    if bound:
        folder = main_file(start_session(stay), "ai-session").parent
    else:
        fill(project, ["ai-session"])
        folder = (project / STATE).parent
    (folder / damaged).write_bytes(b"")
    case = examine(stay, folder / named)
    assert case.rung == ("journal" if bound else "artifacts")
    stay.files.recover(str(folder / named), fix=True)
    assert damaged_copies(folder / damaged) == [b""]
    assert stay.files.recover(str(folder)) is None


@pytest.mark.parametrize("harm", ["active_features: [", ""])
@pytest.mark.parametrize("bound", [True, False])
def test_damaged_index_is_restored_with_all_sessions_around_it(
    stay: Forestay, project: Path, bound: bool, harm: str
) -> None:
    ids = [_start_ai_session(stay, project, f"Login {number}", bound=bound) for number in (1, 2)]
    index = project / INDEX
    index.write_text(harm)
    case = stay.files.recover(str(index), fix=True)
    assert case is not None and case.written == [str(index)]
    entries = yaml.safe_load(index.read_text())["active_features"]
    assert {(e["feature_id"], e["status"]) for e in entries} == {(id, "active") for id in ids}
    assert damaged_copies(index) == [harm.encode()]
    assert all(not report.findings for report in stay.files.check(str(index.parent)))


@pytest.mark.parametrize(
    "harm", ["", "active_features: [", "active_features:\n- feature_id: {id}\n  s: ["]
)
def test_recreated_index_has_the_status_of_our_sessions(
    stay: Forestay, project: Path, harm: str
) -> None:
    _start_ai_session(stay, project, "Login 1", bound=True)
    over, paused = (stay.start(goal, formats=["ai-session"]) for goal in ("Login 2", "Login 3"))
    over.complete()
    paused.pause()
    (project / INDEX).write_text(harm.format(id=over.files.list()[0].native))
    if not harm:
        (project / INDEX).unlink()
    stay.doctor(fix=True)
    entries = yaml.safe_load((project / INDEX).read_text())["active_features"]
    assert sorted(entry["status"] for entry in entries) == ["active", "completed", "paused"]
    for session, status in ((over, "completed"), (paused, "paused")):
        session.note("seen")
        assert session.status().status == status


def test_missing_index_is_restored_with_the_sessions_of_others(
    stay: Forestay, project: Path
) -> None:
    _start_ai_session(stay, project, "Login 1", bound=True)
    index = yaml.safe_load((project / INDEX).read_text())
    index["active_features"].append({"feature_id": "other-2026-01-01", "status": "completed"})
    (project / INDEX).write_text(yaml.safe_dump(index))
    stay.current().note("seen")
    _start_ai_session(stay, project, "Login 2", bound=True)
    (project / INDEX).unlink()
    stay.doctor(fix=True)
    listed = yaml.safe_load((project / INDEX).read_text())["active_features"]
    reported = {entry["feature_id"][: -len("-2026-01-01")]: entry["status"] for entry in listed}
    assert reported == {"login-1": "active", "login-2": "active", "other": "completed"}


def test_index_repaired_for_one_session_is_not_renamed_for_the_next(
    stay: Forestay, project: Path
) -> None:
    for number in (1, 2):
        _start_ai_session(stay, project, f"Login {number}", bound=True)
    (project / INDEX).write_text("active_features: [")
    stay.doctor(fix=True)
    assert damaged_copies(project / INDEX) == [b"active_features: ["]


def _start_ai_session(stay: Forestay, project: Path, goal: str, *, bound: bool) -> str:
    session = stay.start(goal, formats=["ai-session"])
    (binding,) = session.files.list()
    if not bound:
        session.files.unbind("ai-session")
    return binding.native


@pytest.mark.req("S0-85", "S0-86")
@pytest.mark.parametrize("name", [STATE, STATE.replace("state", "implementation-plan"), INDEX])
@pytest.mark.parametrize("text", ["null\n", "- 1\n", "7\n"])
def test_file_that_is_no_mapping_is_recovered_and_its_bytes_are_set_aside(
    stay: Forestay, project: Path, name: str, text: str
) -> None:
    fill(project, kinds=["ai-session"])
    path = project / name
    path.write_text(text)
    case = stay.files.recover(str(path), fix=True)
    assert (
        case is not None and case.written == [str(path)] and damaged_copies(path) == [text.encode()]
    )
    assert stay.files.recover(str(path)) is None and all(
        report.ok for report in stay.files.check(".ai-session")
    )


@pytest.mark.req("S0-85", "S0-86")
@pytest.mark.parametrize("name", [STATE, STATE.replace("state", "implementation-plan"), INDEX])
@pytest.mark.parametrize(
    "odd",
    [
        lambda path: os.mkfifo(path),
        lambda path: path.mkdir(),
        lambda path: path.symlink_to(path.parents[2] / "precious"),
    ],
)
def test_irregular_file_is_renamed_and_replaced_by_the_recovered_file(
    stay: Forestay, project: Path, name: str, odd: Callable[[Path], object]
) -> None:
    fill(project, kinds=["ai-session"])
    (project / "precious").write_text("mine")
    path = project / name
    path.unlink()
    odd(path)
    was = path.lstat().st_mode
    case = stay.files.recover(str(path), fix=True)
    assert case is not None and case.written == [str(path)] and path.is_file()
    assert [Path(kept).lstat().st_mode for kept in case.kept] == [was]
    assert (
        stay.files.recover(str(path.parent)) is None
        and (project / "precious").read_text() == "mine"
    )


@pytest.mark.req("S0-85", "S0-86")
@pytest.mark.parametrize(
    "gone", ["state.yaml", "implementation-plan.yaml", "history.jsonl", "active-features.yaml"]
)
def test_missing_file_of_another_program_is_created_again(
    stay: Forestay, project: Path, gone: str
) -> None:
    fill(project, ["ai-session"])
    folder = (project / STATE).parent
    (path,) = project.rglob(gone)
    path.unlink()
    before = snapshot(project)
    case = examine(stay, folder)
    assert case.missing == [str(path)] and not case.damaged and case.inferred
    assert snapshot(project) == before
    stay.files.recover(str(folder), fix=True)
    after = snapshot(project)
    assert path.exists() and {name: after[name] for name in before} == before
    assert stay.files.recover(str(folder)) is None
    assert not [f for f in stay.files.check(str(folder))[0].findings if f.severity == "error"]


@pytest.mark.parametrize("which", [INDEX, PLAN])
def test_losses_are_reported_only_for_the_damaged_file(
    stay: Forestay, project: Path, which: str
) -> None:
    fill(project, ["ai-session"])
    path = project / which
    torn = path.read_bytes().rpartition(b'"')[0]
    path.write_bytes(torn)
    case = examine(stay, path)
    name, last = path.name, torn.count(b"\n") + 1
    assert case.lost == [
        f"{name}: line {last} cannot be read",
        f"{name}: the file breaks off in line {last}; any later lines are lost",
    ]
    assert not [line for line in case.inferred if "created again" in line]


@pytest.mark.req("S0-85")
def test_missing_state_is_made_from_the_last_line_of_the_log(stay: Forestay, project: Path) -> None:
    folder = project / ".ai-session" / "pay-2026-03-01"
    folder.mkdir(parents=True)
    (folder / "history.jsonl").write_text(
        '{"timestamp":"2026-03-01T10:00:00Z","command":"plan","arguments":"x","model":"opus",'
        '"agent":"a1","task_id":"t-9","status":"success","duration_ms":10}\n'
    )
    stay.files.recover(str(folder), fix=True)
    assert (folder / "state.yaml").read_text() == (
        'version: "1.0"\n'
        'feature_id: "pay-2026-03-01"\n'
        "current_state:\n"
        '  active_task: "t-9"\n'
        '  model_in_use: "opus"\n'
        '  started_at: "2026-03-01T10:00:00Z"\n'
        '  last_updated: "2026-03-01T10:00:00Z"\n'
    )


def test_unknown_keys_survive_a_recovery(stay: Forestay, project: Path) -> None:
    fill(project)
    path = project / CRAFT
    value = {"mine": {"a": 1}, **json.loads(path.read_text())}
    path.write_text(json.dumps(value, indent=2)[:-2])
    stay.files.recover(str(path), fix=True)
    again = json.loads(path.read_text())
    assert again["mine"] == {"a": 1}
    assert again["session_id"] == value["session_id"]


def test_unreadable_file_leaves_the_choice_to_the_user(stay: Forestay, project: Path) -> None:
    fill(project)
    path = project / CRAFT
    path.write_bytes(b"\0" * 64)
    case = examine(stay, path)
    assert case.question is not None and case.rung == "user"
    assert case.question.recommended == "stop"
    with pytest.raises(Refused):
        stay.files.recover(str(path), fix=True)
    assert path.read_bytes() == b"\0" * 64


def test_conflict_is_never_resolved_without_the_user(stay: Forestay, project: Path) -> None:
    fill(project)
    path = project / CRAFT
    text = path.read_text()
    line = next(line for line in text.splitlines(keepends=True) if '"goal"' in line)
    other = line.replace("Add login", "Add logout")
    path.write_text(
        text.replace(line, f"<<<<<<< HEAD\n{line}=======\n{other}>>>>>>> theirs\n"),
    )
    case = examine(stay, path)
    assert case.question is not None
    assert [choice.id for choice in case.question.choices] == ["first", "second", "stop"]
    with pytest.raises(Refused):
        stay.files.recover(str(path), fix=True)
    conflicted = path.read_bytes()
    stay.files.recover(str(path), fix=True, choose="second")
    assert path.read_text() == text.replace(line, other)
    assert damaged_copies(path) == [conflicted]


def test_chosen_side_of_a_conflict_has_its_original_bytes(stay: Forestay, project: Path) -> None:
    fill(project)
    path = project / CRAFT
    text = path.read_bytes().replace(b"\n", b"\r\n")
    line = next(line for line in text.splitlines(keepends=True) if b'"goal"' in line)
    ours, theirs = (line.replace(b"Add login", word) for word in (b"Ours", b"Theirs"))
    both = b"<<<<<<< HEAD\r\n%b||||||| base\r\n%b=======\r\n%b>>>>>>> b\r\n"
    path.write_bytes(text.replace(line, both % (ours, line, theirs)))
    for choose, mine in (("first", ours), ("second", theirs)):
        assert examine(stay, path, choose).writes == {str(path): text.replace(line, mine)}


def test_large_file_of_backslashes_is_examined_quickly() -> None:
    def cost(sign: bytes) -> float:
        began = time.process_time()
        salvage.read_damaged(b'{\n  "a": 1,\n  "goal": "' + sign * salvage.LIMIT)
        return time.process_time() - began

    letters, backslashes = (min(cost(sign) for _ in range(3)) for sign in (b"x", b"\\"))
    assert backslashes < 4 * letters


def test_question_is_asked_about_an_essay_too_large_to_be_read(
    stay: Forestay, project: Path
) -> None:
    fill(project, kinds=["essay"])
    path = project / ESSAY
    with path.open("wb") as file:
        file.truncate(1 << 30)
    case = examine(stay, path)
    assert (case.rung, case.message) == (
        "user",
        "Session state could not be automatically recovered.",
    )
    stay.files.recover(str(path), fix=True, choose="stage-2")
    assert "current_stage: 2" in path.read_text()
    (kept,) = path.parent.glob(f"{path.name}.corrupt-*")
    assert kept.stat().st_size == 1 << 30


@pytest.mark.parametrize("has_original", [True, False])
def test_damaged_essay_under_another_file_name_is_recovered(
    stay: Forestay, project: Path, has_original: bool
) -> None:
    fill(project, kinds=["essay"])
    path = project / ESSAY
    copy = path.with_name("copy.yaml")
    whole = path.read_text()
    copy.write_text(whole.replace("essay-", "essay-0", 1) + "x: [\n")
    if not has_original:
        path.unlink()
    case = examine(stay, copy, choose="stage-1")
    assert whole.splitlines()[0].replace("essay-", "essay-0") in case.writes[str(copy)].decode()


def test_readable_file_needs_no_recovery(stay: Forestay, project: Path) -> None:
    fill(project)
    assert stay.files.recover(str(project / CRAFT)) is None
    with pytest.raises(InvalidInput, match="is not one session"):
        stay.files.recover(str(project))


# -- essays ------------------------------------------------------------------------------------


@pytest.fixture
def essay(project: Path) -> Path:
    fill(project, kinds=["essay"])
    return project / ESSAY


@pytest.mark.req("S3-94", "S3-95", "S3-96", "S3-97")
def test_level_1_uses_the_backup(stay: Forestay, essay: Path) -> None:
    backup = essay.with_name("session-state.yaml.bak")
    backup.write_bytes(essay.read_bytes())
    essay.write_text("stages: [")
    case = stay.files.recover(str(essay.parent), fix=True)
    assert case is not None and case.rung == "backup"
    message = "Session state recovered from backup. Last state update may be lost."
    assert case.message == message
    assert essay.read_bytes() == backup.read_bytes()
    assert damaged_copies(essay) == [b"stages: ["]


@pytest.mark.req("S3-92")
def test_damaged_backup_is_not_rebuilt_from_other_files(stay: Forestay, essay: Path) -> None:
    backup = essay.with_name("session-state.yaml.bak")
    backup.write_bytes(essay.read_bytes()[:-40])
    essay.with_name("final-essay.md").write_text("Text.\n")
    with pytest.raises(Refused, match="the next write makes a new backup"):
        stay.files.recover(str(backup), fix=True)
    assert backup.read_bytes() == essay.read_bytes()[:-40]


@pytest.mark.req("S3-96")
@pytest.mark.parametrize("is_gone", [True, False])
def test_essay_is_recovered_by_the_path_of_its_backup(
    stay: Forestay, essay: Path, is_gone: bool
) -> None:
    good = essay.read_bytes()
    backup = essay.with_name("session-state.yaml.bak")
    backup.write_bytes(good)
    essay.unlink() if is_gone else essay.write_text("stages: [")
    case = stay.files.recover(str(backup), fix=True)
    assert case is not None and case.rung == "backup"
    assert essay.read_bytes() == backup.read_bytes() == good


@pytest.mark.req("S3-94", "S3-96", "S3-97")
def test_truncated_essay_state_that_can_be_parsed_is_recovered_from_the_backup(
    stay: Forestay, essay: Path
) -> None:
    backup = essay.with_name("session-state.yaml.bak")
    backup.write_bytes(essay.read_bytes())
    torn = essay.read_bytes().partition(b"  stage_3:\n")[0] + b"  stage_3"
    assert yaml.safe_load(torn + b":")["stages"]["stage_1"]
    essay.write_bytes(torn + b":")
    case = stay.files.recover(str(essay.parent), fix=True)
    assert case is not None and case.rung == "backup"
    assert case.what.endswith("it breaks off before `stages.stage_3.status`")
    assert essay.read_bytes() == backup.read_bytes() and damaged_copies(essay) == [torn + b":"]


@pytest.mark.req("S3-94", "S3-96")
def test_missing_session_file_is_recovered_when_its_path_is_given(
    stay: Forestay, essay: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = essay.with_name("session-state.yaml.bak")
    essay.rename(backup)
    monkeypatch.chdir(essay.parent)
    for name in (str(essay), essay.name, "."):
        case = recover.examine(stay.context, name)
        assert case is not None and case.rung == "backup"
    assert case is not None
    recover.fix(stay.context, case)
    assert essay.read_bytes() == backup.read_bytes()


@pytest.mark.req("S3-98", "S3-99", "S3-100", "S3-101", "S3-102", "S3-103", "S3-104")
def test_level_2_uses_the_artifacts(stay: Forestay, essay: Path) -> None:
    essay.write_text("stages: [")
    essay.with_name("session-state.yaml.bak").write_text("also: [broken")
    write = {
        "stage-1-thesis.md": "## Thesis Statement\n\nCats.\n\n## Approved By User\n\nYes\n",
        "stage-2-outline.md": "- **Sections**: 2\n\n### Section 1: One (~100 words)\n\n"
        "### Section 2: Two (~100 words)\n\n## Approved By User\n\nYes\n",
        "stage-3-section-1-arguments.md": "- **Verified**: YES\n\n## Approved By User\n\nYes\n",
        "stage-3-section-2-arguments.md": "- **Verified**: YES\n\n## Approved By User\n\nYes\n",
        "stage-4-draft.md": "## One\n\nFirst.\n\nSecond.\n\n---\n\n## Two\n\nThird.\n",
    }
    for name, text in write.items():
        essay.with_name(name).write_text(text)
    case = stay.files.recover(str(essay.parent), fix=True)
    assert case is not None and case.rung == "artifacts"
    message = "Session state reconstructed from artifact files. Some metadata may be approximate."
    assert case.message == message
    (report,) = stay.files.check(str(essay))
    assert report.reading.format == "essay"
    (one,) = discover.find(str(essay))
    stages = one.tree["session-state.yaml"]["stages"]
    assert stages["stage_1"]["status"] == stages["stage_2"]["status"] == "completed"
    assert [s["status"] for s in stages["stage_3"]["sections"]] == ["completed"] * 2
    drafted = stages["stage_4"]["sections"]
    assert [s["completed_paragraphs"] for s in drafted] == [2, 1]
    assert stages["stage_4"]["status"] == "in_progress"


@pytest.mark.req("S3-105", "S3-106", "S3-107", "S3-108")
def test_level_3_asks_where_to_resume_and_resumes_there(stay: Forestay, essay: Path) -> None:
    essay.write_text("stages: [")
    essay.with_name("notes.md").write_text("some notes")
    case = examine(stay, essay.parent)
    assert case.rung == "user" and case.question is not None
    assert case.message == "Session state could not be automatically recovered."
    assert case.question.text == "Where do you want to resume?"
    assert case.question.files == ("notes.md",)
    assert len(case.question.choices) == 4
    assert case.question.recommended in [choice.id for choice in case.question.choices]
    assert all("--choose" in choice.command for choice in case.question.choices)
    with pytest.raises(Refused):
        stay.files.recover(str(essay.parent), fix=True)
    chosen = case.question.choices[1].id
    stay.files.recover(str(essay.parent), fix=True, choose=chosen)
    (one,) = discover.find(str(essay))
    assert one.tree["session-state.yaml"]["current_stage"] == 2
    essay.write_text("stages: [")
    with pytest.raises(InvalidInput, match="is not a stage"):
        stay.files.recover(str(essay.parent), fix=True, choose="stage-9")


def test_essay_without_a_state_is_found_by_its_stage_files(stay: Forestay, essay: Path) -> None:
    essay.unlink()
    essay.with_name("stage-1-thesis.md").write_text("## Thesis Statement\n\nCats.\n")
    case = examine(stay, essay.parent)
    assert (case.rung, case.format) == ("artifacts", "essay")
    stay.files.recover(str(essay.parent), fix=True)
    assert essay.is_file()


# -- the orchestrator --------------------------------------------------------------------------


@pytest.mark.req("S4-79", "S4-80", "S4-81", "S4-82", "S4-83", "S4-84")
def test_damaged_orchestrator_file_gives_the_menu_as_data_and_as_text(
    stay: Forestay, project: Path
) -> None:
    fill(project, kinds=["orchestrator"])
    path = project / ORCHESTRATOR
    path.write_bytes(path.read_bytes()[:400])
    case = examine(stay, path)
    assert case.question is not None
    assert [choice.id for choice in case.question.choices] == ["fresh", "history", "manual"]
    assert case.question.recommended == "manual"
    lines = case.question.menu.splitlines()
    assert lines[0] == "## ⚠️ SESSION RECOVERY"
    assert "The previous session file appears corrupted." in lines
    at = lines.index("**Options**:")
    prefix = "1. **Start fresh**: Begin new session (old file kept as orchestrator-session.json."
    assert lines[at + 1].startswith(prefix)
    assert lines[at + 2] == "2. **View history**: Check archived sessions"
    assert lines[at + 3] == "3. **Manual recovery**: I'll try to extract what I can"
    assert lines[-1] == "Which would you prefer?"


def test_unknown_choice_is_refused_with_the_valid_ones(stay: Forestay, project: Path) -> None:
    fill(project, kinds=["orchestrator"])
    path = project / ORCHESTRATOR
    path.write_bytes(b"{")
    with pytest.raises(InvalidInput, match="1 is not a choice") as reported:
        stay.files.recover(str(path), fix=True, choose="1")
    assert reported.value.why == "the choices are fresh, history, manual"
    assert path.read_bytes() == b"{" and damaged_copies(path) == []


@pytest.mark.req("S4-81")
def test_starting_fresh_keeps_the_old_file_under_the_announced_name(
    stay: Forestay, project: Path
) -> None:
    fill(project, kinds=["orchestrator"])
    path = project / ORCHESTRATOR
    path.write_bytes(b"{")
    case = stay.files.recover(str(path), fix=True, choose="fresh")
    assert case is not None and not path.exists()
    assert [os.path.basename(kept) for kept in case.kept] == [p.name for p in path.parent.iterdir()]
    assert damaged_copies(path) == [b"{"]
    stay.files.orchestrator.new("Begin again")
    assert json.loads(path.read_text())["goal"] == "Begin again"


def test_file_that_cannot_be_recovered_can_be_moved_away(stay: Forestay, project: Path) -> None:
    path = project / ".craft/cache/orchestration-sessions/6f1c1a8e-0000-4000-8000-000000000000.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(b'\0"teleportation"')
    question = examine(stay, path).question
    assert question is not None and [c.id for c in question.choices] == ["fresh", "stop"]
    case = stay.files.recover(str(path), fix=True, choose="fresh")
    assert case is not None and case.kept and not path.exists()
    assert damaged_copies(path) == [b'\0"teleportation"']


@pytest.mark.req("S4-83")
def test_manual_recovery_extracts_what_it_can(stay: Forestay, project: Path) -> None:
    fill(project, kinds=["orchestrator"])
    path = project / ORCHESTRATOR
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    case = stay.files.recover(str(path), fix=True, choose="manual")
    assert case is not None and case.written == [str(path)]
    assert json.loads(path.read_text())["goal"] == "Add login"
    assert json.loads(path.read_text())["session_id"] == json.loads(whole)["session_id"]
    assert damaged_copies(path) == [whole[:-30]]


def test_file_set_aside_never_gets_a_used_name(stay: Forestay, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    names = set()
    for n in range(3):
        path.write_text(str(n))
        names.add(recover.set_aside(str(path), stay.context.clock))
    assert sorted(Path(name).read_text() for name in names) == ["0", "1", "2"]


def test_doctor_reports_damaged_files_of_other_programs(stay: Forestay, project: Path) -> None:
    session = start_session(stay)
    torn = main_file(session, "craft").parent / "78aa125f-1942-44a3-ac4b-74554722700a.json"
    torn.write_bytes(TORN)
    before = snapshot(project)
    (reported,) = (each for each in stay.doctor(fix=True).left if each.code == "file-damaged")
    assert (reported.severity, reported.file) == ("warning", str(torn)) and str(
        torn
    ) in reported.fix
    assert snapshot(project) == before


@pytest.mark.req("S3-94", "S3-120")
@pytest.mark.parametrize("harm", ["torn", "gone"])
def test_doctor_reports_unreadable_essays_that_are_not_adopted(
    stay: Forestay, tmp_path: Path, project: Path, harm: str
) -> None:
    fill(project, kinds=["essay"])
    lost = tmp_path / "tmp" / "essay-pipeline-20260214-143022"
    lost.parent.mkdir()
    (project / ESSAY).parent.rename(lost)
    shutil.copytree(lost, lost.with_name("essay-pipeline-20260214-143023"))
    (lost / "stage-1-thesis.md").write_text("Cats.")
    state = lost / "session-state.yaml"
    state.write_bytes(TORN) if harm == "torn" else state.unlink()
    (reported,) = (each for each in stay.doctor().left if each.code == "file-damaged")
    assert (reported.severity, reported.file) == ("warning", str(state)) and str(
        state
    ) in reported.fix
    stay.files.recover(str(state), fix=True)
    assert not [each for each in stay.doctor().left if each.code == "file-damaged"]


def test_doctor_reports_faulty_files_with_the_messages_of_check(
    stay: Forestay, project: Path
) -> None:
    fill(project, kinds=["orchestrator", "ai-session"])
    current, log = project / ORCHESTRATOR, project / LOG
    current.write_text(current.read_text().replace('"schema_version"', '"version"'))
    log.write_text(log.read_text() + '{"torn\n')
    bound = {one.format: one.bound for one in stay.files.adopt()}
    assert bound == {"orchestrator": False, "ai-session": True}
    reported = {each.file: each for each in stay.doctor().left if each.code == "file-faulty"}
    assert sorted(reported) == sorted([str(current), str(project / STATE)])
    assert reported[str(current)].fix == f"forestay files check {current}"
    assert reported[str(current)].why == "orchestrator-session.json: schema_version is missing"
    assert "history.jsonl: invalid JSON" in reported[str(project / STATE)].why


def test_faulty_files_in_one_folder_are_one_finding_of_doctor(
    stay: Forestay, project: Path
) -> None:
    fill(project, kinds=["craft"])
    path = project / CRAFT
    text = path.read_text().replace("1.0.0", "one")
    for end in "abc":
        id = path.stem[:-1] + end
        path.with_name(f"{id}.json").write_text(text.replace(path.stem, id))
    path.unlink()
    path.with_name("index.json").write_text('{"sessions": []}')
    (reported,) = (each for each in stay.doctor().left if each.code == "file-faulty")
    assert reported.what == f"3 sessions in {path.parent} do not meet their specification"


@pytest.mark.parametrize("most", [1, 2])
def test_doctor_reports_the_folder_that_it_did_not_search_to_the_end(
    stay: Forestay, project: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(project, kinds=["craft"])
    path = project / CRAFT
    shutil.copy(path, path.with_name(f"{path.stem[:-1]}a.json"))
    monkeypatch.setattr(format_checks, "_MOST_SESSIONS", most)
    unseen = [each for each in stay.doctor().left if each.code == "file-unseen"]
    assert [each.file for each in unseen] == [str(path.parent)] * (most < 2)


FLOW = """version: "1.0"
feature_id: login-2026-01-31
current_state: {active_task: t1, model_in_use: opus, started_at: "2026-01-31T10:00:00Z",
  last_updated: "2026-01-31T10:10:00Z"}
"""
FOLDED = """feature:
  id: login-2026-01-31
  name: >-
    Add
    login
  description: |
    status: prose
phases:
- {phase_id: p1, name: One, tasks: [{task_id: t1, description: Do it, status: in_progress}]}
"""


def test_damaged_index_affects_no_intact_file(stay: Forestay, project: Path) -> None:
    folder = project / ".ai-session" / "login-2026-01-31"
    folder.mkdir(parents=True)
    (folder / "state.yaml").write_text(FLOW)
    (folder / "implementation-plan.yaml").write_text(FOLDED)
    index = project / INDEX
    index.write_text("active_features:\n- feature_id: login-2026-01-31\n  bad: [\n")
    case = examine(stay, folder)
    assert case.what.startswith(str(index)) and case.damaged == [str(index)] and case.lost == []
    (one,) = stay.files.adopt(str(project))
    shown = stay.session(one.session).status()
    assert (shown.goal, shown.as_json()["steps"]["total"]) == ("Add login", 1)


# -- killed during a repair --------------------------------------------------------------------


@pytest.mark.parametrize("kind", MAIN)
def test_damaged_bytes_have_a_visible_name_before_a_repair_replaces_them(
    stay: Forestay, project: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(project)
    path = project / MAIN[kind]
    path.write_bytes(path.read_bytes()[:-20] + b"\0 torn")
    torn = path.read_bytes()

    def killed(*_: object, **__: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(files, "replace", killed)
    choose = {"orchestrator": "manual", "essay": "stage-1"}.get(kind, "")
    case = stay.files.recover(str(path), choose=choose)
    assert case is not None
    with pytest.raises(KeyboardInterrupt):
        recover.fix(stay.context, case)
    (kept,) = path.parent.glob(f"{path.name}.corrupt-*")
    assert kept.read_bytes() == path.read_bytes() == torn


def test_repair_does_not_use_a_name_that_was_taken_in_the_last_moment(
    stay: Forestay, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(project, kinds=["craft"])
    path = project / CRAFT
    torn = path.read_bytes()[:-40]
    path.write_bytes(torn)
    taken = path.with_name(f"{path.name}.corrupt-taken")
    taken.write_bytes(b"of another program")
    monkeypatch.setattr(recover, "aside_name", lambda path, clock: str(taken))
    with pytest.raises(InvalidInput, match="corrupt-taken"):
        stay.files.recover(str(path), fix=True)
    assert (path.read_bytes(), taken.read_bytes()) == (torn, b"of another program")
