"""A store is moved into another: everything is there, and the source says where it went."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import forestay
from forestay.api.forestay import Forestay
from forestay.base.clock import Clock
from forestay.errors import Damaged, ForestayError, InvalidInput, Outdated, Refused
from forestay.journal import move as moving
from forestay.journal.move import MoveResult
from forestay.store.open import open_store
from forestay.store.port import Store

History = dict[str, list[tuple[int, bytes, bytes | None]]]


class Killed(BaseException):
    """In place of a process that dies."""


@pytest.fixture
def home(tmp_path: Path) -> Forestay:
    return filled(tmp_path)


def filled(folder: Path) -> Forestay:
    """Two sessions, one of them with files and content, and a forgotten one."""
    project = folder / "project"
    project.mkdir(parents=True)
    made = forestay.open(str(folder / "home"), cwd=str(project), trust_env=False)
    made.start("gone", id="gone").note("secret")
    made.session("gone").lifecycle.forget()
    (project / "file.txt").write_text("content")
    first = made.start("Fix the login", id="login")
    first.record.artifact(str(project / "file.txt"))
    first.files.bind("craft")
    first.note("once", key="k")
    made.start("Another", id="another").tasks.add("T", id="t1")
    made.use("login")
    return made


def reopened(home: Forestay, url: str) -> Forestay:
    """The same home, with its sessions in another store."""
    place, folder = home.context.settings.home, home.context.folder
    return forestay.open(place, store=url, cwd=folder, trust_env=False)


def elsewhere(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 'elsewhere'}"


def history(home: Forestay) -> History:
    return held(home.context.store)


def held(store: Store) -> History:
    found = {}
    for forgotten in (0, 1):
        for row in store.catalogue(where={"forgotten": forgotten}):
            with store.view(str(row["id"])) as view:
                found[str(row["id"])] = [(e.seq, e.header, e.data) for e in view.events()]
    return found


def assert_all_is_there(home: Forestay, before: History) -> None:
    assert history(home) == before
    assert all(report.ok for report in home.verify())
    assert home.current().id == "login"
    assert [one.format for one in home.session("login").files.list()] == ["craft"]
    assert home.session("login").note("once", key="k").seq == 3
    assert {row["project"] for row in home.context.store.catalogue()} == {1}


@pytest.fixture(params=["sqlite", "postgresql"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return elsewhere(tmp_path)
    return f"{request.getfixturevalue('pg_url')}&schema=moved_{tmp_path.name[-24:].lower()}"


def test_all_sessions_move_to_another_store_and_back(home: Forestay, target: str) -> None:
    before = history(home)
    done = home.backups.move(target)
    assert (done.state, done.sessions, done.events, done.copied) == ("moved", 3, 8, 8)
    there = reopened(home, target)
    assert_all_is_there(there, before)
    there.session("another").note("written there")
    there.session("another").lifecycle.forget()
    after = history(there)
    back = there.backups.move("sqlite:")
    assert back.copied == 2 and back.target == f"sqlite:{home.context.settings.home}"
    assert_all_is_there(home, after)
    with pytest.raises(Refused, match="were moved to sqlite:"):
        reopened(home, target).list()
    home.close()


def test_moved_store_names_its_new_place_and_can_be_unsealed(
    home: Forestay, tmp_path: Path
) -> None:
    running = reopened(home, "")
    assert running.current().id == "login"
    home.backups.move(elsewhere(tmp_path))
    for use in (home.list, home.current, home.doctor, home.verify, lambda: home.start("x")):
        with pytest.raises(Refused, match=r"were moved to sqlite:.*elsewhere") as caught:
            use()
        assert caught.value.exit_code == 4 and "move --unseal" in caught.value.hint
    with pytest.raises(Outdated, match="nothing can be recorded in this store"):
        running.session("login").note("late")
    with pytest.raises(Refused, match="were moved to"):
        home.backups.move(elsewhere(tmp_path))
    assert home.backups.move(unseal=True).state == "unsealed"
    home.session("login").note("here again")
    with pytest.raises(Refused, match="not sealed"):
        home.backups.move(unseal=True)
    running.close()
    home.close()


def test_dry_run_of_a_move_changes_nothing(home: Forestay, tmp_path: Path) -> None:
    done = home.backups.move(elsewhere(tmp_path), dry_run=True)
    assert (done.state, done.sessions, done.events) == ("would move", 3, 8)
    assert not (tmp_path / "elsewhere").exists()
    home.session("login").note("still here")
    home.close()


_STEPS = ("seal of target", "copy", "seal", "copy 2", "compare", "take along", "moved")


@pytest.mark.parametrize("step", range(len(_STEPS)), ids=_STEPS)
def test_a_move_that_was_killed_is_finished_by_the_same_command(
    home: Forestay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    before = history(home)
    left = [step]
    wrapped: list[tuple[object, str]] = [(moving._Move, "copy"), (moving._Move, "compare")]
    maintenance = type(home.context.store.maintenance)
    wrapped += [
        (moving._Move, "copy_machine_facts"),
        (maintenance, "seal"),
        (maintenance, "unseal"),
    ]
    with monkeypatch.context() as patch:
        for owner, name in wrapped:
            patch.setattr(owner, name, _dying(getattr(owner, name), left))
        with pytest.raises(Killed):
            home.backups.move(elsewhere(tmp_path))
    assert home.backups.move(elsewhere(tmp_path)).state == "moved"
    there = reopened(home, elsewhere(tmp_path))
    assert_all_is_there(there, before)
    there.close()


def _dying(act: Callable[..., object], left: list[int]) -> Callable[..., object]:
    """Does it so many times, and is killed right after the last."""

    def once(*given: object, **named: object) -> object:
        done = act(*given, **named)
        left[0] -= 1
        if left[0] < 0:
            raise Killed
        return done

    return once


def test_move_that_needs_a_merge_is_refused_before_anything_is_written(
    home: Forestay, tmp_path: Path
) -> None:
    other = reopened(home, elsewhere(tmp_path))
    other.start("something else", id="login")
    before = history(other)
    with pytest.raises(Refused, match="has other events"):
        home.backups.move(elsewhere(tmp_path))
    assert history(other) == before
    home.session("login").note("still here")
    with pytest.raises(InvalidInput, match="into itself"):
        home.backups.move("sqlite:")
    other.close()
    home.close()


def test_a_damaged_session_is_not_moved_and_nothing_is_sealed(
    home: Forestay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(moving, "_difference", lambda ours, theirs: "event 1 differs")
        with pytest.raises(Damaged, match="differs from the original"):
            home.backups.move(elsewhere(tmp_path))
    home.session("login").note("still here")
    home.context.store.machine.tables.write(
        lambda connection: connection.execute("UPDATE event SET data = CAST(data || 'x' AS BLOB)")
    )
    with pytest.raises(Damaged, match="is damaged"):
        home.backups.move(elsewhere(tmp_path))
    assert home.context.store.maintenance.sealed() is None
    home.close()


def test_long_session_is_copied_in_parts_with_progress(
    home: Forestay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "_CHUNK", 3)
    for number in range(10):
        home.session("another").note(f"note {number}")
    before, reported = history(home), list[str]()
    done: MoveResult = home.backups.move(
        elsewhere(tmp_path), on_part=lambda what, n, of: reported.append(what)
    )
    there = reopened(home, elsewhere(tmp_path))
    assert done.copied == done.events == 18 and history(there) == before
    assert {"copying login", "comparing another"} <= set(reported)
    there.close()


def test_store_that_is_being_filled_cannot_be_used(home: Forestay, tmp_path: Path) -> None:
    target = open_target(tmp_path)
    target.maintenance.seal(home.context.store.shown, "filling")
    with pytest.raises(ForestayError, match="are being moved into"):
        reopened(home, elsewhere(tmp_path)).list()
    target.maintenance.unseal()
    assert reopened(home, elsewhere(tmp_path)).list() == []
    home.close()


def open_target(tmp_path: Path) -> Store:
    return open_store(elsewhere(tmp_path), "", clock=Clock(), machine="m", sealed=True)
