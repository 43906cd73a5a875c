"""What is true of this machine only: trees and projects, holders, files as last seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.store import Spot
from holdfast.store.local import Holder, Local
from holdfast.store.sqlite import SqliteStore
from holdfast.testing.contracts import batch, put
from tests.store.support import add_project, opened

ME = "m1/b1/ns1/100/555"


@pytest.fixture
def local(store: SqliteStore) -> Local:
    put(store, "s1", batch("a", updated=1))
    put(store, "s2", batch("a", updated=2))
    return store.local


def holder(session: str = "s1", process: str = ME, agent: str = "", since: int = 1) -> Holder:
    return Holder(session, process, "user", agent, "writing", since)


def shown(holders: list[Holder]) -> list[tuple[str, str, str]]:
    return [(h.session, h.process, h.agent) for h in holders]


# --- trees and projects -------------------------------------------------------------------------


def test_looking_where_nothing_was_written_finds_nothing(store: SqliteStore, home: Path) -> None:
    local = store.local
    assert local.tree("/x") is None
    assert local.projects() == [] == local.holders()
    assert local.project_name(1) == ""
    assert local.seen_files("s1", ["/x"]) == {}
    assert not home.exists()


def test_a_tree_knows_its_project_and_its_current_session(local: Local) -> None:
    project = add_project(local, "p1", "Projekt ✓")
    local.settle(Spot("/w", "1:2", project, keys=[("path", "/w"), ("inode", "1:2")]), "s1")
    assert local.tree("/w") == ("1:2", project, "s1")
    assert local.project_name(project) == "Projekt ✓"
    assert local.tree("/W") is None


def test_who_meets_a_tree_at_the_same_time_makes_no_second_project_of_it(local: Local) -> None:
    keys = [("path", "/w"), ("inode", "1:2")]
    here = [Spot("/w", "1:2", 0, id=id, name="w", keys=keys) for id in ("p1", "p2")]
    first, second = local.settle(here[0], "s1"), local.settle(here[1], None, members=["s2"])
    assert first == second and [id for _, id, _ in local.projects()] == ["p1"]
    assert local.tree("/w") == ("1:2", first, "s1")
    other = local.settle(Spot("/w", "1:9", 0, id="p3", name="w"), None)
    assert other != first, "another folder has the name now"


def test_worktrees_that_are_met_at_the_same_time_are_of_one_project(local: Local) -> None:
    keys = [("path", "/w"), ("gitdir", "/w/.git"), ("root", "abc")]
    one = local.settle(Spot("/w1", "1:3", 0, id="p1", name="w", keys=keys), "s1")
    assert local.settle(Spot("/w2", "1:4", 0, id="p2", name="w", keys=keys), "s2") == one
    clone = [("path", "/v"), ("gitdir", "/v/.git"), ("root", "abc")]
    assert local.settle(Spot("/v", "1:5", 0, id="p3", name="v", keys=clone), None) != one
    assert local.settle(Spot("/u", "1:6", 0, id="p4", name="u"), None) != one


def test_settling_again_keeps_what_is_not_said(local: Local) -> None:
    project, other = add_project(local, "p1", "one"), add_project(local, "p2", "two")
    local.settle(Spot("/w", "1:2", project, keys=[("path", "/w")]), "s1")
    local.settle(Spot("/w", "1:3", other), None)
    assert local.tree("/w") == ("1:3", other, "s1")
    local.settle(Spot("/w", "1:3", other), "S2")
    assert local.tree("/w") == ("1:3", other, "s2")


def test_a_folder_whose_name_is_not_text_is_known_like_any_other(local: Local) -> None:
    path = "/w/\udcff"
    project = add_project(local, "p1", "\udcff")
    local.settle(Spot(path, "1:2", project, keys=[("path", path)]), "s1")
    assert local.tree(path) == ("1:2", project, "s1")
    assert local.tree("/w/\udcfe") is None
    assert local.project_name(project)
    local.saw_file("s1", path, "1.2", "d")
    assert local.seen_files("s1", [path]) == {path: ("1.2", "d")}


def test_a_session_that_is_not_there_is_not_chosen(local: Local) -> None:
    project = add_project(local, "p1", "one")
    local.settle(Spot("/w", "1:2", project), "nothing")
    assert local.tree("/w") == ("1:2", project, "")


def test_a_session_belongs_to_the_project_it_was_first_chosen_in(
    local: Local, store: SqliteStore
) -> None:
    one, two = add_project(local, "p1", "one"), add_project(local, "p2", "two")
    local.settle(Spot("/one", "1:1", one), "s1")
    local.settle(Spot("/two", "1:2", two), "S1")
    local.settle(Spot("/two", "1:2", two), "s2")
    assert [row["id"] for row in store.catalogue(where={"project": one})] == ["s1"]
    assert [row["id"] for row in store.catalogue(where={"project": two})] == ["s2"]


def test_a_forgotten_session_is_current_nowhere(local: Local, store: SqliteStore) -> None:
    project = add_project(local, "p1", "one")
    local.settle(Spot("/w", "1:2", project), "s1")
    local.hold(holder("s1"))
    store.erase("s1", lambda view: batch("tombstone", forgotten=1))
    assert local.tree("/w") == ("1:2", project, "")
    assert local.holders() == []


def test_projects_are_listed_with_all_their_keys_once(local: Local) -> None:
    one, two = add_project(local, "p1", "one"), add_project(local, "p2", "two")
    for _ in range(2):
        local.settle(Spot("/one", "1:1", one, keys=[("path", "/one"), ("remote", "r")]), None)
    local.settle(Spot("/two", "1:2", two, keys=[("remote", "r")]), None)
    bare = add_project(local, "p3", "three")
    found = [(number, id, sorted(keys)) for number, id, keys in local.projects()]
    assert found == [
        (one, "p1", [("path", "/one"), ("remote", "r")]),
        (two, "p2", [("remote", "r")]),
        (bare, "p3", []),
    ]


# --- holders ------------------------------------------------------------------------------------


def test_a_holder_is_there_until_it_lets_go(local: Local, home: Path) -> None:
    other = "m1/b1/ns1/200/556"
    local.hold(holder(since=5))
    local.hold(holder(process=other, since=3))
    local.hold(holder(agent="code-1", since=4))
    local.hold(holder("s2", since=9))
    seen = opened(home).local
    assert shown(seen.holders("s1")) == [("s1", other, ""), ("s1", ME, "code-1"), ("s1", ME, "")]
    assert shown(seen.holders("S1")) == shown(seen.holders("s1"))
    assert len(seen.holders()) == 4
    local.let_go([holder(), holder("s2")])
    assert shown(seen.holders()) == [("s1", other, ""), ("s1", ME, "code-1")]
    local.let_go([])
    local.let_go([holder()])
    assert len(seen.holders()) == 2


def test_holding_again_says_what_is_done_now(local: Local) -> None:
    local.hold(holder())
    local.hold(Holder("S1", ME, "user", "", "testing", 9))
    (found,) = local.holders("s1")
    assert (found.doing, found.since, found.name) == ("testing", 9, "user")


def test_nobody_holds_a_session_that_is_not_there(local: Local) -> None:
    local.hold(holder("nothing"))
    assert local.holders() == []


# --- files --------------------------------------------------------------------------------------


def test_files_are_known_as_a_session_last_saw_them(local: Local) -> None:
    local.saw_file("s1", "/a", "1.1", "d1")
    local.saw_file("s1", "/b", "2.2", "d2")
    local.saw_file("S1", "/a", "3.3", "d3")
    local.saw_file("nothing", "/c", "4.4", "d4")
    found = local.seen_files("s1", ["/a", "/b", "/c"])
    assert found == {"/a": ("3.3", "d3"), "/b": ("2.2", "d2")}
    assert local.seen_files("s2", ["/a"]) == local.seen_files("s1", []) == {}


def test_any_number_of_files_can_be_asked_for(local: Local) -> None:
    local.saw_file("s1", "/f99999", "1", "d")
    found = local.seen_files("s1", [f"/f{n}" for n in range(100_000)])
    assert found == {"/f99999": ("1", "d")}
