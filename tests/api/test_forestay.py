"""The current session, the project of a folder, and other processes, through the library."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import forestay
from forestay import Forestay, NoSession, Session
from forestay.base.clock import FakeClock
from forestay.journal.presence import Presence
from forestay.store.sqlite.store import SqliteStore
from tests.homes import state_of

TEN_YEARS = 10 * 365 * 24 * 3600 * 1000


@pytest.fixture
def home(tmp_path: Path) -> str:
    return str(tmp_path / "home")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


@pytest.fixture
def stay(home: str, folder: Path) -> Iterator[Forestay]:
    with forestay.open(home, cwd=str(folder)) as opened:
        yield opened


def at(home: str, folder: Path) -> Forestay:
    return forestay.open(home, cwd=str(folder))


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=T", "-c", "user.email=t@example.org"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    subprocess.run(command, check=True, capture_output=True)


def repository(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("a\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


# -- which session -----------------------------------------------------------------------------


def test_reading_a_fresh_home_creates_nothing(stay: Forestay, home: str) -> None:
    assert stay.list() == []
    with pytest.raises(NoSession):
        stay.current()
    assert not os.path.exists(home)


def test_the_session_started_last_is_current(stay: Forestay) -> None:
    first = stay.start("one")
    second = stay.start("two")
    assert stay.current().id == second.id
    assert stay.use(first.id).id == stay.current().id == first.id


def test_finished_current_session_is_refused_and_open_ones_are_offered(stay: Forestay) -> None:
    other = stay.start("still open")
    stay.start("finished").complete()
    with pytest.raises(NoSession) as caught:
        stay.current(open_only=True)
    assert [choice[0] for choice in caught.value.choices] == [other.id]


def test_session_to_resume_is_named_current_or_the_only_open_one(stay: Forestay) -> None:
    stay.start("one", id="one")
    stay.start("two", id="two")
    assert stay.to_resume("one").id == "one" and stay.to_resume().id == "two"
    stay.current().complete()
    assert stay.to_resume().id == "one" and stay.to_resume(open_only=False).id == "two"
    stay.session("one").complete()
    with pytest.raises(NoSession):
        stay.to_resume()


def test_helper_processes_of_one_agent_are_not_listed_as_others(
    stay: Forestay, home: str, folder: Path
) -> None:
    session = stay.start("one").id
    with subprocess.Popen(["sleep", "60"]) as server:
        stay.context.workspace.hold(session, "mcp", pid=server.pid)
        with Forestay(stay.context.settings, cwd=str(folder), is_helper=True) as hand:
            assert hand.session(session).agents.others() == []
        with at(home, folder) as stranger:
            assert [one.name for one in stranger.session(session).agents.others()] == [
                "user",
                "mcp",
            ]
        server.kill()


def test_another_folder_has_no_current_session(stay: Forestay, home: str, tmp_path: Path) -> None:
    stay.start("here")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with at(home, elsewhere) as there, pytest.raises(NoSession):
        there.current()


def test_an_id_may_be_shortened_while_it_is_unique(stay: Forestay) -> None:
    stay.start("one", id="alpha-1")
    stay.start("two", id="alpha-2")
    stay.start("three", id="beta")
    assert stay.session("b").id == "beta"
    assert stay.session("ALPHA-1").id == "alpha-1"
    with pytest.raises(NoSession, match="could be any of 2"):
        stay.session("alpha")


def test_session_of_the_settings_is_current(stay: Forestay, home: str, folder: Path) -> None:
    first = stay.start("one")
    stay.start("two")
    with forestay.open(home, cwd=str(folder), session=first.id) as asked:
        assert asked.current().id == first.id


def test_child_process_uses_the_session_of_its_parent(stay: Forestay, tmp_path: Path) -> None:
    session = stay.start("one")
    session.note("this process is at work now")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    code = f"import forestay; print(forestay.open({stay.context.settings.home!r}).current().id)"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=elsewhere, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == session.id


# -- projects ----------------------------------------------------------------------------------


def test_each_worktree_has_its_own_current_session(home: str, tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    git(main, "worktree", "add", "-q", str(tmp_path / "side"))
    with at(home, main) as a, at(home, tmp_path / "side") as b:
        ours = a.start("in main")
        theirs = b.start("in side")
        assert (a.current().id, b.current().id) == (ours.id, theirs.id)
        assert {row.session for row in a.list()} == {ours.id, theirs.id}


def test_a_moved_repository_still_has_its_current_session(home: str, tmp_path: Path) -> None:
    old = repository(tmp_path / "old")
    with at(home, old) as stay:
        session = stay.start("before the move")
    new = old.rename(tmp_path / "new")
    with at(home, new) as stay:
        assert stay.current().id == session.id
        assert [row.session for row in stay.list()] == [session.id]


def test_moved_folder_without_git_lists_its_sessions_but_none_is_current(
    home: str, tmp_path: Path
) -> None:
    old = tmp_path / "old"
    old.mkdir()
    with at(home, old) as stay:
        session = stay.start("before the move")
    new = old.rename(tmp_path / "new")
    with at(home, new) as stay:
        assert [row.session for row in stay.list()] == [session.id]
        assert stay.context.workspace.only_open() == session.id
        with pytest.raises(NoSession):
            stay.current()


def test_a_second_clone_finds_the_sessions_of_the_first(home: str, tmp_path: Path) -> None:
    first = repository(tmp_path / "first")
    with at(home, first) as stay:
        session = stay.start("in the first clone")
    git(tmp_path, "clone", "-q", str(first), "second")
    with at(home, tmp_path / "second") as stay:
        assert [row.session for row in stay.list()] == [session.id]


def test_another_repository_at_the_same_path_is_another_project(home: str, tmp_path: Path) -> None:
    place = repository(tmp_path / "place")
    git(place, "remote", "add", "origin", "https://example.org/one.git")
    with at(home, place) as stay:
        stay.start("of the first repository")
    place.rename(tmp_path / "aside")
    place.mkdir()
    git(place, "init", "-q")
    git(place, "remote", "add", "origin", "https://example.org/two.git")
    with at(home, place) as stay, pytest.raises(NoSession):
        stay.current()


def test_init_makes_a_folder_recognizable_after_a_move(home: str, tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.mkdir()
    with at(home, old) as stay:
        session = stay.start("marked")
        assert Path(stay.init()).read_text().strip()
    copied = tmp_path / "copied"
    subprocess.run(["cp", "-r", str(old), str(copied)], check=True)
    with at(home, copied) as stay:
        assert [row.session for row in stay.list()] == [session.id]


# -- liveness ----------------------------------------------------------------------------------

WORKER = """
import sys, time
import forestay
stay = forestay.open(sys.argv[1], cwd=sys.argv[2])
s = stay.session(sys.argv[3])
with s.agents.run("code-1", type="dev", task="the parser") as agent:
    agent.note("at work")
    print("working", flush=True)
    time.sleep(60)
"""


def working(stay: Forestay, session: Session, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WORKER, stay.context.settings.home, str(folder), session.id]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "working\n"
    return process


def killed(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


@pytest.mark.req("S4-3")
def test_death_of_the_last_holder_is_found_and_recorded(home: str, folder: Path) -> None:
    with at(home, folder) as stay:
        session = stay.start("survive")
        process = working(stay, session, folder)
    killed(process)
    with at(home, folder) as stay:
        session = stay.current()
        assert "interrupted" in session.status().attention
        briefing = session.resume()
        kinds = [line.event.kind for line in session.log(limit=2)]
        agent = state_of(session).agent("code-1")
    assert kinds == ["session.interrupted", "session.resumed"]
    assert agent is not None
    assert (agent.status, agent.category) == ("failed", "interrupted")
    assert briefing.unknown_outcomes == 1
    assert "code-1" in briefing.text


def test_resuming_clears_the_interruption_and_is_counted(home: str, folder: Path) -> None:
    with at(home, folder) as stay:
        session = stay.start("survive")
        process = working(stay, session, folder)
    killed(process)
    with at(home, folder) as stay:
        stay.current().resume()
        status = stay.current().status()
    assert "interrupted" not in status.attention
    assert status.resumes == 1


def test_releasing_a_session_is_not_an_interruption(home: str, folder: Path) -> None:
    with at(home, folder) as stay:
        stay.start("in order").note("done for today")
    with at(home, folder) as stay:
        status = stay.current().status()
    assert status.attention == []
    assert status.as_json()["holders"] == []


def test_two_processes_on_one_session_get_a_notice_of_each_other(home: str, folder: Path) -> None:
    notices: list[str] = []
    with forestay.open(home, cwd=str(folder), on_notice=notices.append) as stay:
        session = stay.start("shared")
        process = working(stay, session, folder)
        Presence.of(stay.context)._check_again = 0.0
        session.note("who is there?")
        others = [(one.agent, one.state) for one in session.agents.others()]
        killed(process)
    assert len(notices) == 1
    assert str(process.pid) in notices[0]
    assert ("code-1", "alive") in others


def test_parent_and_forked_child_can_both_record(stay: Forestay) -> None:
    session = stay.start("forking")
    session.note("parent")
    child = os.fork()
    if child == 0:
        try:
            session.note("child")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    session.note("parent again")
    texts = [line.event.body.text for line in session.log() if hasattr(line.event.body, "text")]
    assert texts == ["parent", "child", "parent again"]
    assert session.verify().ok


# -- time --------------------------------------------------------------------------------------


def test_a_clock_that_jumps_ten_years_changes_no_order(home: str, folder: Path) -> None:
    clock = FakeClock()
    with forestay.open(home, cwd=str(folder), clock=clock) as stay:
        session = stay.start("time")
        clock.jump(TEN_YEARS)
        session.note("in the future")
        clock.jump(-2 * TEN_YEARS)
        session.note("in the past")
        events = [line.event for line in session.log()]
        briefing = session.brief()
    assert [event.head.n for event in events] == [1, 2, 3]
    assert [event.head.clock for event in events] == [1, 2, 3]
    assert events[1].head.at > events[0].head.at > events[2].head.at
    assert "time" in briefing.text


def test_a_secret_in_the_name_of_a_branch_is_neither_shown_nor_drift(
    home: str, tmp_path: Path
) -> None:
    token = "ghp_" + "Ab1" * 12
    folder = repository(tmp_path / "repo")
    with at(home, folder) as stay:
        session = stay.start("branches")
        git(folder, "switch", "-q", "-c", f"fix-{token}")
        first, second = session.resume(), session.brief()
    assert "drifted" in first.attention and token not in first.text
    assert "drifted" not in second.attention and token not in second.text


def test_session_started_during_a_verification_is_not_damage(
    home: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with at(home, folder) as stay, at(home, folder) as other:
        stay.start("first")
        catalogue = stay.context.store.catalogue

        def listed(where: dict[str, object] | None = None) -> list[dict[str, object]]:
            found = catalogue(where=where)
            other.start("meanwhile")
            return found

        monkeypatch.setattr(stay.context.store, "catalogue", listed)
        assert all(report.ok for report in stay.verify())


def test_resuming_on_another_branch_is_reported_once(home: str, tmp_path: Path) -> None:
    folder = repository(tmp_path / "repo")
    with at(home, folder) as stay:
        stay.start("branches")
    git(folder, "switch", "-q", "-c", "other")
    with at(home, folder) as stay:
        first = stay.current().resume()
        second = stay.current().brief()
    assert "other" in first.text
    assert "drifted" in first.attention
    assert "drifted" not in second.attention


def test_resume_with_an_invalid_budget_records_nothing(stay: Forestay) -> None:
    session = stay.start("no")
    session.pause()
    with pytest.raises(forestay.InvalidInput):
        session.resume(budget=149)
    assert session.status().status == "paused"


def test_subfolder_of_a_plain_folder_belongs_to_its_project(home: str, folder: Path) -> None:
    deep = folder / "a" / "b"
    deep.mkdir(parents=True)
    with at(home, folder) as stay:
        session = stay.start("here")
    with at(home, deep) as stay:
        assert stay.current().id == session.id
        (deep / "x.txt").write_text("x")
        changed = stay.current().record.file(str(deep / "x.txt")).body
    assert getattr(changed, "path", "") == "a/b/x.txt"


def test_a_session_started_above_does_not_replace_that_of_a_folder(home: str, folder: Path) -> None:
    below = folder / "a"
    (below / "b").mkdir(parents=True)
    with at(home, below) as stay:
        own = stay.start("below").id
    with at(home, folder) as stay:
        above = stay.start("above").id
    for place, meant in ((below, own), (below / "b", own), (folder, above)):
        with at(home, place) as stay:
            assert stay.current().id == meant


@pytest.mark.parametrize("is_link", [True, False])
def test_subfolder_of_the_home_folder_is_another_project(
    home: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_link: bool
) -> None:
    (folder / "a").mkdir()
    link = tmp_path / "link"
    link.symlink_to(folder)
    monkeypatch.setenv("HOME", str(link if is_link else folder))
    with at(home, folder) as stay:
        session = stay.start("everything")
        assert stay.current().id == session.id
    with at(home, folder / "a") as stay, pytest.raises(forestay.NoSession):
        stay.current()


def test_subfolder_of_the_root_is_another_project(home: str, folder: Path) -> None:
    with at(home, Path("/")) as stay:
        session = stay.start("everything")
        assert stay.current().id == session.id
    with at(home, folder) as stay, pytest.raises(forestay.NoSession):
        stay.current()


def test_a_dead_agent_is_not_shown_as_running(home: str, folder: Path) -> None:
    with at(home, folder) as stay:
        session = stay.start("survive")
        process = working(stay, session, folder)
    killed(process)
    with at(home, folder) as stay:
        status = stay.current().status()
    assert status.running == []
    assert status.as_json()["agents"]["died"] == 1
    assert "code-1" in status.next
    assert len(status.as_json()["holders"]) == 1


def test_verify_checks_the_store_too(tmp_path: Path) -> None:
    with forestay.open(str(tmp_path / "home"), cwd=str(tmp_path)) as stay:
        stay.start("one", id="one")
        stay.start("two", id="two")
        assert [(report.session, report.ok) for report in stay.verify()] == [
            ("two", True),
            ("one", True),
        ]
        store = stay.context.store
        assert isinstance(store, SqliteStore)
        store.database.write(
            lambda connection: connection.execute("DELETE FROM session WHERE id = 'one'")
        )
        whole, session = stay.verify()
    assert (whole.session, whole.ok, session.session, session.ok) == ("", False, "two", True)
    findings = "; ".join(finding.what for finding in whole.findings)
    assert "not listed" in findings and "session one is missing, although" in findings


def test_a_start_that_is_refused_writes_nothing(home: str, folder: Path) -> None:
    with at(home, folder) as stay:
        with pytest.raises(forestay.ForestayError):
            stay.start("goal", mode="nonsense")  # type: ignore[arg-type]
        with pytest.raises(forestay.ForestayError):
            stay.start("")
    assert not os.path.exists(os.path.join(home, "forestay.db")) or not stay.list(all=True)


def test_a_repeated_start_is_current_again(home: str, folder: Path) -> None:
    with at(home, folder) as stay:
        first = stay.start("goal", key="once").id
        stay.start("another")
        assert stay.start("goal", key="once").id == first == stay.current().id


def test_imported_session_belongs_to_the_folder_of_the_import(home: str, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("mine", "third", "fourth")]
    for one in folders:
        one.mkdir()
    with forestay.open(str(tmp_path / "elsewhere"), cwd=str(tmp_path)) as stay:
        stay.start("goal", id="travels").export(str(tmp_path / "x.fspack"))
    with at(home, folders[0]) as stay:
        stay.backups.import_(str(tmp_path / "x.fspack"))
        assert [one.session for one in stay.list()] == ["travels"]
        assert stay.session("travels").status().project == "mine"
        with pytest.raises(NoSession):
            stay.current()
    for other in folders[1:]:
        with at(home, other) as stay:
            assert stay.list() == []
            assert [one.session for one in stay.list(all=True)] == ["travels"]
            stay.backups.import_(str(tmp_path / "x.fspack"))
            assert stay.list() == []


def test_restored_session_is_not_listed_until_it_is_resumed(home: str, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("mine", "third")]
    for one in folders:
        one.mkdir()
    with forestay.open(str(tmp_path / "elsewhere"), cwd=str(tmp_path)) as stay:
        stay.start("goal", id="saved")
        saved = stay.backups.create(str(tmp_path / "usb")).path
    with at(home, folders[0]) as stay:
        stay.backups.restore(saved)
        assert stay.list() == [] and [one.session for one in stay.list(all=True)] == ["saved"]
        with pytest.raises(NoSession) as none:
            stay.current()
        assert "for imported sessions: forestay resume" in none.value.hint
        stay.session("saved").resume()
        assert [one.session for one in stay.list()] == ["saved"]
    with at(home, folders[1]) as stay:
        assert stay.list() == []


@pytest.mark.parametrize("name", [b"\xff\xfe", b"a\nb", b"\x1b[31m", b"\xe9t\xe9", "ü✓".encode()])
def test_work_in_a_folder_of_any_name_is_recorded_and_found(tmp_path: Path, name: bytes) -> None:
    folder = os.path.join(str(tmp_path), os.fsdecode(name))
    os.mkdir(folder)
    subprocess.run(["git", "init", "-q", folder], check=True)
    with forestay.open(str(tmp_path / "home"), cwd=folder) as stay:
        session = stay.start("goal", id="work")
        session.note("one")
        assert stay.current().id == "work" and [one.session for one in stay.list()] == ["work"]
        stay.init()
        assert session.verify().ok and session.resume().text
        session.export(str(tmp_path / "x.fspack"))
    with forestay.open(str(tmp_path / "other"), cwd=folder) as stay:
        stay.backups.import_(str(tmp_path / "x.fspack"))
        assert [one.session for one in stay.list()] == ["work"]
