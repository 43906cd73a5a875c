"""Finding the project: keys of real repositories, and a decision that never guesses."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from forestay.base import config
from forestay.errors import InvalidInput
from forestay.workspace.project import (
    KnownProject,
    inode_of,
    match_project,
    normalise_remote,
    place_keys,
    remote_urls,
    root_keys,
    strong_keys,
    write_marker,
)
from forestay.workspace.tree import find_tree

Key = tuple[str, str]
URL = "https://example.org/team/app.git"


def git(folder: Path, *args: str) -> str:
    command = ["git", "-c", "protocol.file.allow=always", "-C", str(folder), *args]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def repository(path: Path, *, remote: str = "", message: str = "first") -> Path:
    path.mkdir(parents=True)
    git(path, "init", "-q", "-b", "main")
    git(path, "commit", "-q", "--allow-empty", "-m", message)
    if remote:
        git(path, "remote", "add", "origin", remote)
    return path


def all_keys(path: Path) -> list[Key]:
    tree = find_tree(str(path))
    roots = root_keys(tree, config.child_environment())
    return [*place_keys(tree), *strong_keys(tree), *roots]


def known(*paths: Path) -> list[KnownProject]:
    return [KnownProject.from_disk(path.name, all_keys(path)) for path in paths]


def with_inodes_now(projects: list[KnownProject]) -> list[KnownProject]:
    return [KnownProject.from_disk(project.id, project.keys) for project in projects]


def values(keys: Iterable[Key], kind: str) -> list[str]:
    return [value for k, value in keys if k == kind]


# --- keys --------------------------------------------------------------------------------------


def test_keys_of_a_repository_are_path_inode_git_folder_remote_and_root_commit(
    tmp_path: Path,
) -> None:
    repo = repository(tmp_path / "repo", remote=URL)
    facts = repo.stat()
    assert dict(all_keys(repo)) == {
        "path": str(repo),
        "inode": f"{facts.st_dev}:{facts.st_ino}",
        "gitdir": str(repo / ".git"),
        "remote": "example.org/team/app",
        "root": git(repo, "rev-parse", "HEAD"),
    }


def test_folder_without_git_has_path_and_inode_only(tmp_path: Path) -> None:
    assert [kind for kind, _ in all_keys(tmp_path)] == ["path", "inode"]


def test_worktree_has_the_keys_of_its_main_checkout(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", remote=URL)
    write_marker(find_tree(str(repo)), "marker-of-mine")
    git(repo, "worktree", "add", "-q", "../side")
    assert sorted(all_keys(tmp_path / "side")) == sorted(all_keys(repo))


def test_submodule_has_separate_keys(tmp_path: Path) -> None:
    library = repository(tmp_path / "library", message="library")
    repo = repository(tmp_path / "repo", remote=URL)
    git(repo, "submodule", "--quiet", "add", str(library), "lib")
    inner = all_keys(repo / "lib")
    assert not set(inner) & set(all_keys(repo))
    assert values(inner, "root") == [git(library, "rev-parse", "HEAD")]
    assert values(inner, "remote") == [str(library)]


def test_shallow_clone_has_no_root(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    git(repo, "commit", "-q", "--allow-empty", "-m", "second")
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{repo}", "shallow")
    git(tmp_path, "clone", "-q", f"file://{repo}", "deep")
    assert values(all_keys(tmp_path / "shallow"), "root") == []
    assert values(all_keys(tmp_path / "deep"), "root") == values(all_keys(repo), "root")


def test_joined_histories_have_all_their_roots(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    git(repo, "checkout", "-q", "--orphan", "other")
    git(repo, "commit", "-q", "--allow-empty", "-m", "other")
    git(repo, "merge", "-q", "--allow-unrelated-histories", "-m", "join", "main")
    assert len(values(all_keys(repo), "root")) == 2


def test_root_keys_are_empty_without_commits_or_git(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "-q")
    assert root_keys(find_tree(str(tmp_path / "empty")), config.child_environment()) == []
    repo = find_tree(str(repository(tmp_path / "repo")))
    assert root_keys(repo, {"PATH": "/nowhere"}) == []
    (tmp_path / "repo" / ".git" / "config").write_text("[")
    assert root_keys(repo, config.child_environment()) == []


def test_root_keys_are_empty_if_git_takes_too_long(tmp_path: Path) -> None:
    tree = find_tree(str(repository(tmp_path / "repo")))
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 30\n")
    slow.chmod(0o755)
    path = f"{slow.parent}:{os.environ['PATH']}"
    assert root_keys(tree, {**config.child_environment(), "PATH": path}, timeout=0.05) == []


def test_git_is_not_misled_by_its_environment(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    other = repository(tmp_path / "other", message="other")
    environ = {**config.child_environment(), "GIT_DIR": str(other / ".git")}
    expected = git(repo, "rev-parse", "HEAD")
    assert root_keys(find_tree(str(repo)), environ) == [("root", expected)]


def test_the_only_remote_is_used_when_none_is_called_origin(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    git(repo, "remote", "add", "upstream", URL)
    assert values(strong_keys(find_tree(str(repo))), "remote") == ["example.org/team/app"]
    git(repo, "remote", "add", "fork", URL + "x")
    assert values(strong_keys(find_tree(str(repo))), "remote") == []
    git(repo, "remote", "add", "origin", "git@example.org:a/b")
    assert values(strong_keys(find_tree(str(repo))), "remote") == ["example.org/a/b"]


def test_marker_is_written_once_and_read_back(tmp_path: Path) -> None:
    path = Path(write_marker(find_tree(str(tmp_path)), "01abc-marker"))
    assert path.read_bytes() == b"01abc-marker\n" and stat.S_IMODE(path.stat().st_mode) == 0o644
    assert strong_keys(find_tree(str(tmp_path))) == [("marker", "01abc-marker")]
    with pytest.raises(InvalidInput, match="already exists"):
        write_marker(find_tree(str(tmp_path)), "another-one")
    assert strong_keys(find_tree(str(tmp_path))) == [("marker", "01abc-marker")]


@pytest.mark.parametrize("text", ["", "short", "x" * 65, "../../etc", "two words", "ü" * 10])
def test_invalid_marker_is_ignored(tmp_path: Path, text: str) -> None:
    (tmp_path / ".forestay").mkdir()
    (tmp_path / ".forestay" / "project").write_text(text)
    assert strong_keys(find_tree(str(tmp_path))) == []


def test_inode_of_a_missing_path_is_empty(tmp_path: Path) -> None:
    assert inode_of(str(tmp_path / "x")) == inode_of("a\0b") == ""


# --- remotes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/team/app.git",
        "https://example.org/team/app",
        "https://example.org/team/app/",
        "https://example.org//team/app.git/",
        "https://EXAMPLE.org:443/team/app",
        "http://example.org/team/app",
        "https://user@example.org/team/app",
        "https://user:hunter2@example.org/team/app.git",
        "https://a:b@c@example.org/team/app",
        "https://example.org/team/app.git?private_token=hunter2",
        "https://example.org/team/app#hunter2",
        "git@example.org:team/app.git",
        "git@Example.org:/team/app",
        "example.org:team/app",
        "user:hunter2@example.org:team/app",
        "ssh://git@example.org/team/app",
        "ssh://git@example.org:22/team/app.git",
        "SSH://example.org/team/app",
        "git://example.org:9418/team/app",
        "  https://example.org/team/app\n",
    ],
)
def test_all_spellings_of_a_remote_normalise_to_one(url: str) -> None:
    assert normalise_remote(url) == "example.org/team/app"


@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("https://example.org:8443/team/app", "example.org:8443/team/app"),
        ("ssh://example.org:2222/team/app", "example.org:2222/team/app"),
        ("https://example.org/team/App", "example.org/team/App"),
        ("https://[::1]:443/x", "[::1]/x"),
        ("https://[::1]/x", "[::1]/x"),
        ("/srv/git/app.git", "/srv/git/app"),
        ("/srv/app/.git", "/srv/app"),
        ("file:///srv/git/app.git/", "/srv/git/app"),
        ("ssh://host/~me/app", "host/~me/app"),
    ],
)
def test_normalised_remotes_stay_distinct(url: str, normal: str) -> None:
    assert normalise_remote(url) == normal


@pytest.mark.parametrize(
    "url",
    [
        "",
        "../app.git",
        "app",
        "C:\\code\\app",
        "https://",
        "https://example.org",
        "https://example.org/",
        "https:///team/app",
        "https://user:hunter/2@example.org/x",
        "https://example.org:port/x",
        "git@example.org:",
        "x\0y:z",
        "https://example.org/" + "x" * 3000,
    ],
)
def test_address_without_a_place_is_no_remote(url: str) -> None:
    assert normalise_remote(url) is None


@given(st.text(max_size=60))
def test_normalised_remote_never_holds_a_password(text: str) -> None:
    normal = normalise_remote(f"https://user:{text.replace('/', '')}@example.org/team/app")
    assert normal in ("example.org/team/app", None)
    normalise_remote(text)


CONFIG = r"""
[core]
    bare = false
    url = not-this
[remote "origin"]
    fetch = +refs/heads/*:refs/remotes/origin/*
    URL = "https://example.org/a;b#c" ; the place
    url = https://example.org/second
[Remote "with \"quotes\""] url = git@example.org:\
long/path
[remote.old]
    url = https://example.org/old
# [remote "commented"]
[branch "main"]
    url = nowhere
[remote "empty"]
[remote "plain"]
url=x # comment
"""


def test_git_config_is_read_as_git_reads_it(tmp_path: Path) -> None:
    found = remote_urls(CONFIG)
    assert found == {
        "origin": "https://example.org/a;b#c",
        'with "quotes"': "git@example.org:long/path",
        "plain": "x",
    }
    path = tmp_path / "config"
    path.write_text(CONFIG)
    for name, url in found.items():
        listed = git(tmp_path, "config", "-f", str(path), "--get-all", f"remote.{name}.url")
        assert listed.splitlines()[0] == url


@given(st.text(alphabet='["]remoting=url\n\\#; \t', max_size=80))
def test_any_config_text_is_read_without_error(text: str) -> None:
    remote_urls(text)
    remote_urls('[remote "origin"]\nurl = ' + text)


NONE = ("", False)

# --- real moves --------------------------------------------------------------------------------


def test_unmoved_project_is_found(tmp_path: Path) -> None:
    projects = known(repository(tmp_path / "one", remote=URL), repository(tmp_path / "two"))
    found = match_project(all_keys(tmp_path / "one"), projects)
    assert found == ("one", True)


@pytest.mark.parametrize("with_git", [True, False])
def test_moved_project_is_found(tmp_path: Path, with_git: bool) -> None:
    old = repository(tmp_path / "old", remote=URL) if with_git else tmp_path / "old"
    old.mkdir(exist_ok=True)
    projects = known(old)
    old.rename(tmp_path / "new")
    found = match_project(all_keys(tmp_path / "new"), with_inodes_now(projects))
    assert found == ("old", with_git)


def test_project_cloned_again_is_found(tmp_path: Path) -> None:
    server = repository(tmp_path / "server")
    git(tmp_path, "clone", "-q", f"file://{server}", "old")
    projects = known(tmp_path / "old")
    shutil.rmtree(tmp_path / "old")
    git(tmp_path, "clone", "-q", f"file://{server}", "new")
    found = match_project(all_keys(tmp_path / "new"), with_inodes_now(projects))
    assert found == ("old", True)


def test_shallow_clone_is_found_by_its_remote(tmp_path: Path) -> None:
    server = repository(tmp_path / "server")
    git(tmp_path, "clone", "-q", f"file://{server}", "old")
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{server}", "new")
    found = match_project(all_keys(tmp_path / "new"), known(tmp_path / "old"))
    assert found == ("old", True)


def test_forked_repository_is_not_matched_to_the_project_of_its_origin(tmp_path: Path) -> None:
    old = repository(tmp_path / "old", remote=URL)
    git(tmp_path, "clone", "-q", str(old), "fork")
    git(tmp_path / "fork", "remote", "set-url", "origin", "https://example.org/me/app")
    assert match_project(all_keys(tmp_path / "fork"), known(old)) == NONE


def test_other_repository_in_the_same_folder_is_another_project(tmp_path: Path) -> None:
    path = tmp_path / "work"
    projects = known(repository(path, remote=URL))
    shutil.rmtree(path)
    repository(path, remote="https://example.org/other", message="other")
    assert match_project(all_keys(path), with_inodes_now(projects)) == NONE


def test_remote_renamed_in_place_is_the_same_project(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", remote=URL)
    projects = known(repo)
    git(repo, "remote", "set-url", "origin", "https://example.org/new/app")
    assert match_project(all_keys(repo), projects) == ("repo", True)


def test_worktree_finds_the_project_of_its_main_checkout(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    git(repo, "worktree", "add", "-q", "../side")
    found = match_project(place_keys(find_tree(str(tmp_path / "side"))), known(repo))
    assert found == ("repo", True)


def test_second_folder_without_git_is_another_project(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    assert match_project(all_keys(tmp_path / "two"), known(tmp_path / "one")) == NONE


# --- the decision as a table -------------------------------------------------------------------


def keys(text: str) -> list[Key]:
    """Parse keys: "path=/a remote=r" are two."""
    return [(kind, value) for kind, _, value in (part.partition("=") for part in text.split())]


CASES = [
    ("nothing known", "path=/a", [], "none"),
    ("nothing in common", "path=/a inode=1 remote=r", ["path=/b inode=2 remote=s"], "none"),
    ("same path", "path=/a", ["path=/a"], "found 0 certain"),
    ("same path, same everything", "path=/a remote=r root=c", ["path=/a remote=r root=c"],
     "found 0 certain"),
    ("same path, remote came later", "path=/a remote=r", ["path=/a"], "found 0 certain"),
    ("same path, remote is gone", "path=/a", ["path=/a remote=r"], "found 0 certain"),
    ("same path, other remote", "path=/a remote=r", ["path=/a remote=s"], "none"),
    ("same path, other root", "path=/a root=c", ["path=/a root=d"], "none"),
    ("same path, other remote, same root", "path=/a remote=r root=c",
     ["path=/a remote=s root=c"], "found 0 certain"),
    ("same path, other root, same remote", "path=/a remote=r root=c",
     ["path=/a remote=r root=d"], "found 0 certain"),
    ("same path, other marker, same rest", "path=/a marker=m remote=r",
     ["path=/a marker=n remote=r"], "none"),
    ("same path of two", "path=/a", ["path=/a", "path=/a"], "none"),
    ("same path of two, one contradicts", "path=/a remote=r",
     ["path=/a remote=s", "path=/a remote=r"], "found 1 certain"),
    ("same path says one, remote another", "path=/a remote=r",
     ["path=/a remote=s", "path=/b remote=r"], "none"),
    ("same path before same remote", "path=/a remote=r", ["path=/b remote=r", "path=/a remote=r"],
     "found 1 certain"),
    ("same git folder", "path=/a gitdir=/g", ["path=/b gitdir=/g"], "found 0 certain"),
    ("same marker", "path=/a marker=m", ["path=/b marker=m"], "found 0 certain"),
    ("same marker against all else", "path=/a marker=m remote=r root=c",
     ["path=/b marker=m remote=s root=d"], "found 0 certain"),
    ("same marker before same path", "path=/a marker=m", ["path=/a", "path=/b marker=m"],
     "found 1 certain"),
    ("same marker of two", "path=/c marker=m", ["path=/a marker=m", "path=/b marker=m"],
     "none"),
    ("moved", "path=/new inode=1", ["path=/old inode=1"], "found 0 perhaps"),
    ("moved, old path taken by another", "path=/new inode=1", ["path=/old inode=1 at:/old=2"],
     "found 0 perhaps"),
    ("moved, same remote", "path=/new inode=1 remote=r", ["path=/old inode=1 remote=r"],
     "found 0 certain"),
    ("moved, same root", "path=/new inode=1 root=c", ["path=/old inode=1 root=c"],
     "found 0 certain"),
    ("moved, one of two with its remote", "path=/new inode=1 remote=r",
     ["path=/x inode=9 remote=r", "path=/old inode=1 remote=r"], "found 1 certain"),
    ("inode used again", "path=/new inode=1 remote=r", ["path=/old inode=1 remote=s"], "none"),
    ("inode used again beside the real one", "path=/new inode=1 remote=r",
     ["path=/old inode=1 remote=s", "path=/x remote=r"], "found 1 certain"),
    ("inode of two", "path=/new inode=1", ["path=/a inode=1", "path=/b inode=1"], "none"),
    ("bind mount", "path=/mnt inode=1", ["path=/old inode=1 at:/old=1"], "found 0 certain"),
    ("bind mount, other remote", "path=/mnt inode=1 remote=r",
     ["path=/old inode=1 at:/old=1 remote=s"], "none"),
    ("cloned again, remote only", "path=/new remote=r", ["path=/old remote=r"], "found 0 certain"),
    ("cloned again, root only", "path=/new root=c", ["path=/old root=c"], "found 0 certain"),
    ("cloned again without its remote", "path=/new root=c", ["path=/old remote=r root=c"],
     "found 0 certain"),
    ("fork", "path=/new remote=r root=c", ["path=/old remote=s root=c"], "none"),
    ("fork that is known", "path=/new remote=r root=c",
     ["path=/old remote=s root=c", "path=/x remote=r root=c"], "found 1 certain"),
    ("rewritten history", "path=/new remote=r root=c", ["path=/old remote=r root=d"],
     "none"),
    ("clone, other marker", "path=/new remote=r marker=m", ["path=/old remote=r marker=n"],
     "none"),
    ("remote of two", "path=/new remote=r", ["path=/a remote=r", "path=/b remote=r"],
     "none"),
    ("remote of one, root of another", "path=/new remote=r root=c",
     ["path=/a remote=r", "path=/b root=c"], "none"),
    ("one of several roots", "path=/new root=c root=d", ["path=/old root=d root=e"],
     "found 0 certain"),
]  # fmt: skip


def project(number: int, text: str) -> KnownProject:
    there = {k.removeprefix("at:"): v for k, v in keys(text) if k.startswith("at:")}
    return KnownProject(str(number), [k for k in keys(text) if "at:" not in k[0]], there)


def describe_match(found: str, is_certain: bool) -> str:
    return f"found {found} {'certain' if is_certain else 'perhaps'}" if found else "none"


@pytest.mark.parametrize(
    ("here", "projects", "answer"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_match_gives_the_expected_project_in_every_listed_case(
    here: str, projects: list[str], answer: str
) -> None:
    candidates = [project(number, text) for number, text in enumerate(projects)]
    for order in (candidates, candidates[::-1]):
        assert describe_match(*match_project(keys(here), order)) == answer


# --- the decision as properties ----------------------------------------------------------------

KINDS = ("path", "inode", "gitdir", "marker", "remote", "root")
key_sets = st.frozensets(
    st.tuples(st.sampled_from(KINDS), st.sampled_from("abc")), min_size=1, max_size=7
)
inodes = st.dictionaries(st.sampled_from("abc"), st.sampled_from("abc"), max_size=2)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[frozenset[Key], list[KnownProject]]:
    sets = draw(st.lists(st.tuples(key_sets, inodes), max_size=4))
    return draw(key_sets), [KnownProject(str(n), *pair) for n, pair in enumerate(sets)]


World = tuple[frozenset[Key], list[KnownProject]]


@given(worlds())
def test_project_that_shares_no_key_is_never_matched(world: World) -> None:
    here, projects = world
    found, is_certain = match_project(here, projects)
    assert found in {"", *(p.id for p in projects if p.keys & here)}
    assert found or not is_certain


@given(worlds(), st.frozensets(st.tuples(st.sampled_from(KINDS), st.sampled_from("xyz"))))
def test_unrelated_project_does_not_change_the_match(world: World, foreign: frozenset[Key]) -> None:
    here, projects = world
    more = [*projects, KnownProject("stranger", foreign, {"x": "x"})]
    assert match_project(here, more) == match_project(here, projects)


@given(worlds(), st.data())
def test_order_of_projects_does_not_change_the_match(world: World, data: st.DataObject) -> None:
    here, projects = world
    shuffled = data.draw(st.permutations(projects))
    assert match_project(here, shuffled) == match_project(here, projects)


@given(worlds())
def test_neither_of_two_equal_projects_is_chosen(world: World) -> None:
    here, projects = world
    answer, _ = match_project(here, projects)
    assume(answer)
    found = next(p for p in projects if p.id == answer)
    twin = KnownProject("twin", found.keys, found.inodes)
    assert match_project(here, [*projects, twin]) == NONE


strong_sets = st.frozensets(
    st.tuples(st.sampled_from(("remote", "root")), st.sampled_from("abc")), min_size=1
)


@given(strong_sets, st.data())
def test_several_strongly_matching_projects_give_no_match(
    here: frozenset[Key], data: st.DataObject
) -> None:
    part = st.frozensets(st.sampled_from(sorted(here)), min_size=1)
    sets = data.draw(st.lists(part, min_size=2, max_size=4))
    projects = [KnownProject(str(n), {*s, ("path", str(n))}, {}) for n, s in enumerate(sets)]
    assert match_project({*here, ("path", "here")}, projects) == NONE


@given(worlds())
def test_matched_project_shares_a_strong_key_or_contradicts_none(world: World) -> None:
    here, projects = world
    answer, _ = match_project(here, projects)
    assume(answer)
    found = next(p for p in projects if p.id == answer)
    agree = {k for k, _ in here & found.keys} & {"marker", "remote", "root"}
    assert agree or not clashes(found.keys, here)


def clashes(one: Iterable[Key], two: Iterable[Key]) -> bool:
    pairs = [
        ({v for k, v in one if k == kind}, {v for k, v in two if k == kind}) for kind in KINDS[3:]
    ]
    return any(a and b and not a & b for a, b in pairs)
