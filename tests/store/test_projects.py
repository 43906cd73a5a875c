"""The tables of one machine: trees and projects, holders, files as last seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from forestay.store.machine.holders import Holder
from forestay.store.machine.machine import Machine
from forestay.store.machine.projects import TreeRecord
from forestay.store.sqlite.store import SqliteStore
from forestay.testing.store_contract import batch, put
from tests.store.support import add_project, opened

ME = "m1/b1/ns1/100/555"


@pytest.fixture
def machine(store: SqliteStore) -> Machine:
    put(store, "s1", batch("a", updated=1))
    put(store, "s2", batch("a", updated=2))
    return store.machine


def holder(session: str = "s1", process: str = ME, agent: str = "", since: int = 1) -> Holder:
    return Holder(session, process, "user", agent, "writing", since)


def shown(holders: list[Holder]) -> list[tuple[str, str, str]]:
    return [(h.session, h.process, h.agent) for h in holders]


# --- trees and projects -------------------------------------------------------------------------


def test_reading_projects_of_an_empty_home_finds_nothing(store: SqliteStore, home: Path) -> None:
    machine = store.machine
    assert machine.projects.tree("/x") is None
    assert machine.projects.all() == [] == machine.holders.find()
    assert machine.projects.name_of(1) == ""
    assert machine.seen_files.find("s1", ["/x"]) == {}
    assert not home.exists()


def test_a_tree_knows_its_project_and_its_current_session(machine: Machine) -> None:
    project = add_project(machine, "p1", "Projekt ✓")
    machine.projects.record_tree(
        TreeRecord("/w", "1:2", project, keys=[("path", "/w"), ("inode", "1:2")]), "s1"
    )
    assert machine.projects.tree("/w") == ("1:2", project, "s1")
    assert machine.projects.name_of(project) == "Projekt ✓"
    assert machine.projects.tree("/W") is None


def test_two_processes_in_a_new_tree_create_one_project(machine: Machine) -> None:
    keys = [("path", "/w"), ("inode", "1:2")]
    here = [TreeRecord("/w", "1:2", 0, id=id, name="w", keys=keys) for id in ("p1", "p2")]
    first, second = (
        machine.projects.record_tree(here[0], "s1"),
        machine.projects.record_tree(here[1], None, members=["s2"]),
    )
    assert first == second and [id for _, id, _ in machine.projects.all()] == ["p1"]
    assert machine.projects.tree("/w") == ("1:2", first, "s1")
    other = machine.projects.record_tree(TreeRecord("/w", "1:9", 0, id="p3", name="w"), None)
    assert other != first, "another folder has the name now"


def test_worktrees_recorded_at_the_same_time_share_one_project(machine: Machine) -> None:
    keys = [("path", "/w"), ("gitdir", "/w/.git"), ("root", "abc")]
    one = machine.projects.record_tree(
        TreeRecord("/w1", "1:3", 0, id="p1", name="w", keys=keys), "s1"
    )
    assert (
        machine.projects.record_tree(
            TreeRecord("/w2", "1:4", 0, id="p2", name="w", keys=keys), "s2"
        )
        == one
    )
    clone = [("path", "/v"), ("gitdir", "/v/.git"), ("root", "abc")]
    assert (
        machine.projects.record_tree(
            TreeRecord("/v", "1:5", 0, id="p3", name="v", keys=clone), None
        )
        != one
    )
    assert machine.projects.record_tree(TreeRecord("/u", "1:6", 0, id="p4", name="u"), None) != one


def test_recording_a_tree_again_preserves_omitted_values(machine: Machine) -> None:
    project, other = add_project(machine, "p1", "one"), add_project(machine, "p2", "two")
    machine.projects.record_tree(TreeRecord("/w", "1:2", project, keys=[("path", "/w")]), "s1")
    machine.projects.record_tree(TreeRecord("/w", "1:3", other), None)
    assert machine.projects.tree("/w") == ("1:3", other, "s1")
    machine.projects.record_tree(TreeRecord("/w", "1:3", other), "S2")
    assert machine.projects.tree("/w") == ("1:3", other, "s2")


def test_a_folder_whose_name_is_not_text_is_known_like_any_other(machine: Machine) -> None:
    path = "/w/\udcff"
    project = add_project(machine, "p1", "\udcff")
    machine.projects.record_tree(TreeRecord(path, "1:2", project, keys=[("path", path)]), "s1")
    assert machine.projects.tree(path) == ("1:2", project, "s1")
    assert machine.projects.tree("/w/\udcfe") is None
    assert machine.projects.name_of(project)
    machine.seen_files.record("s1", path, "1.2", "d")
    assert machine.seen_files.find("s1", [path]) == {path: ("1.2", "d")}


def test_missing_session_cannot_become_current(machine: Machine) -> None:
    project = add_project(machine, "p1", "one")
    machine.projects.record_tree(TreeRecord("/w", "1:2", project), "nothing")
    assert machine.projects.tree("/w") == ("1:2", project, "")


def test_a_session_belongs_to_the_project_it_was_first_chosen_in(
    machine: Machine, store: SqliteStore
) -> None:
    one, two = add_project(machine, "p1", "one"), add_project(machine, "p2", "two")
    machine.projects.record_tree(TreeRecord("/one", "1:1", one), "s1")
    machine.projects.record_tree(TreeRecord("/two", "1:2", two), "S1")
    machine.projects.record_tree(TreeRecord("/two", "1:2", two), "s2")
    assert [row["id"] for row in store.catalogue(where={"project": one})] == ["s1"]
    assert [row["id"] for row in store.catalogue(where={"project": two})] == ["s2"]


def test_a_forgotten_session_is_current_nowhere(machine: Machine, store: SqliteStore) -> None:
    project = add_project(machine, "p1", "one")
    machine.projects.record_tree(TreeRecord("/w", "1:2", project), "s1")
    machine.holders.add(holder("s1"))
    store.erase("s1", lambda view: batch("tombstone", forgotten=1))
    assert machine.projects.tree("/w") == ("1:2", project, "")
    assert machine.holders.find() == []


def test_projects_are_listed_with_all_their_keys_once(machine: Machine) -> None:
    one, two = add_project(machine, "p1", "one"), add_project(machine, "p2", "two")
    for _ in range(2):
        machine.projects.record_tree(
            TreeRecord("/one", "1:1", one, keys=[("path", "/one"), ("remote", "r")]), None
        )
    machine.projects.record_tree(TreeRecord("/two", "1:2", two, keys=[("remote", "r")]), None)
    bare = add_project(machine, "p3", "three")
    found = [(number, id, sorted(keys)) for number, id, keys in machine.projects.all()]
    assert found == [
        (one, "p1", [("path", "/one"), ("remote", "r")]),
        (two, "p2", [("remote", "r")]),
        (bare, "p3", []),
    ]


# --- holders ------------------------------------------------------------------------------------


def test_holder_exists_until_it_is_released(machine: Machine, home: Path) -> None:
    other = "m1/b1/ns1/200/556"
    machine.holders.add(holder(since=5))
    machine.holders.add(holder(process=other, since=3))
    machine.holders.add(holder(agent="code-1", since=4))
    machine.holders.add(holder("s2", since=9))
    seen = opened(home).machine
    assert shown(seen.holders.find("s1")) == [
        ("s1", other, ""),
        ("s1", ME, "code-1"),
        ("s1", ME, ""),
    ]
    assert shown(seen.holders.find("S1")) == shown(seen.holders.find("s1"))
    assert len(seen.holders.find()) == 4
    machine.holders.remove([holder(), holder("s2")])
    assert shown(seen.holders.find()) == [("s1", other, ""), ("s1", ME, "code-1")]
    machine.holders.remove([])
    machine.holders.remove([holder()])
    assert len(seen.holders.find()) == 2


def test_recording_a_holder_again_updates_its_current_work(machine: Machine) -> None:
    machine.holders.add(holder())
    machine.holders.add(Holder("S1", ME, "user", "", "testing", 9))
    (found,) = machine.holders.find("s1")
    assert (found.doing, found.since, found.name) == ("testing", 9, "user")


def test_missing_session_has_no_holder(machine: Machine) -> None:
    machine.holders.add(holder("nothing"))
    assert machine.holders.find() == []


# --- files --------------------------------------------------------------------------------------


def test_seen_files_have_the_stamp_and_digest_a_session_recorded_last(machine: Machine) -> None:
    machine.seen_files.record("s1", "/a", "1.1", "d1")
    machine.seen_files.record("s1", "/b", "2.2", "d2")
    machine.seen_files.record("S1", "/a", "3.3", "d3")
    machine.seen_files.record("nothing", "/c", "4.4", "d4")
    found = machine.seen_files.find("s1", ["/a", "/b", "/c"])
    assert found == {"/a": ("3.3", "d3"), "/b": ("2.2", "d2")}
    assert machine.seen_files.find("s2", ["/a"]) == machine.seen_files.find("s1", []) == {}


def test_a_hundred_thousand_seen_files_can_be_queried_at_once(machine: Machine) -> None:
    machine.seen_files.record("s1", "/f99999", "1", "d")
    found = machine.seen_files.find("s1", [f"/f{n}" for n in range(100_000)])
    assert found == {"/f99999": ("1", "d")}
