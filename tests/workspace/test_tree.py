"""Trees, their git state, stored paths and drift, on real repositories."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forestay.base.clock import Clock, FakeClock
from forestay.errors import InvalidInput, StoreFailed
from forestay.workspace import tree as workspace_tree
from forestay.workspace.tree import (
    Tree,
    absolute,
    check_drift,
    file_facts,
    find_tree,
    head,
    path_exists,
    relative,
)


def git(folder: Path, *args: str) -> str:
    command = ["git", "-c", "protocol.file.allow=always", "-C", str(folder), *args]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def repository(path: Path, *, commit: bool = True) -> Path:
    path.mkdir(parents=True)
    git(path, "init", "-q", "-b", "main")
    if commit:
        git(path, "commit", "-q", "--allow-empty", "-m", "first")
    return path


# --- trees -------------------------------------------------------------------------------------


def test_folder_without_git_is_its_own_tree(tmp_path: Path) -> None:
    tree = find_tree(str(tmp_path))
    assert tree.root == tree.main == os.path.realpath(tmp_path)
    assert (tree.dev, tree.ino) == (tmp_path.stat().st_dev, tmp_path.stat().st_ino)
    assert tree.git_dir is tree.common_dir is None
    assert not tree.is_worktree
    assert head(tree) == (None, None)


def test_current_folder_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_tree().root == str(tmp_path)


def test_tree_is_found_from_deep_inside(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    (repo / "a" / "b").mkdir(parents=True)
    tree = find_tree(str(repo / "a" / "b"))
    assert tree.root == str(repo)
    assert tree.git_dir == tree.common_dir == str(repo / ".git")
    assert find_tree(str(repo / ".git" / "refs")).root == str(repo)


def test_tree_behind_a_link_is_the_real_one(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    (tmp_path / "link").symlink_to(repo)
    assert find_tree(str(tmp_path / "link")).root == str(repo)


def test_nearest_repository_wins(tmp_path: Path) -> None:
    repository(tmp_path / "dotfiles")
    inner = repository(tmp_path / "dotfiles" / "work")
    assert find_tree(str(inner)).root == str(inner)


def test_marker_makes_a_tree_without_git(tmp_path: Path) -> None:
    (tmp_path / "p" / ".forestay").mkdir(parents=True)
    (tmp_path / "p" / ".forestay" / "project").write_text("x")
    (tmp_path / "p" / "sub").mkdir()
    tree = find_tree(str(tmp_path / "p" / "sub"))
    assert (tree.root, tree.git_dir) == (str(tmp_path / "p"), None)


def test_worktree_is_a_separate_tree_with_the_repository_of_the_main_one(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    git(repo, "worktree", "add", "-q", "-b", "side", "../side")
    tree = find_tree(str(tmp_path / "side"))
    assert tree.root == str(tmp_path / "side")
    assert tree.is_worktree and not find_tree(str(repo)).is_worktree
    assert tree.common_dir == str(repo / ".git")
    assert tree.main == str(repo)
    assert head(tree) == ("side", git(repo, "rev-parse", "HEAD"))


def test_worktrees_of_a_bare_repository_share_it_as_main(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    git(tmp_path, "clone", "-q", "--bare", "repo", "x.git")
    bare = tmp_path / "x.git"
    git(bare, "worktree", "add", "-q", "../one", "main")
    assert find_tree(str(tmp_path / "one")).main == str(bare)
    inside = find_tree(str(bare / "refs"))
    assert (inside.root, inside.git_dir, inside.main) == (str(bare), str(bare), str(bare))
    assert head(inside) == ("main", git(repo, "rev-parse", "HEAD"))


def test_submodule_is_a_separate_tree(tmp_path: Path) -> None:
    library = repository(tmp_path / "library")
    repo = repository(tmp_path / "repo")
    git(repo, "submodule", "--quiet", "add", str(library), "lib")
    tree = find_tree(str(repo / "lib"))
    assert tree.root == tree.main == str(repo / "lib")
    assert tree.git_dir == tree.common_dir == str(repo / ".git" / "modules" / "lib")
    assert head(tree)[1] == git(library, "rev-parse", "HEAD")


def test_separate_git_dir_belongs_to_its_checkout(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    git(tmp_path / "work", "init", "-q", "--separate-git-dir", str(tmp_path / "store"))
    tree = find_tree(str(tmp_path / "work"))
    assert tree.root == tree.main == str(tmp_path / "work")
    assert tree.git_dir == str(tmp_path / "store")


@pytest.mark.parametrize(
    "damage", ["empty folder", "empty file", "no such gitdir", "garbage", "fifo", "dangling link"]
)
def test_damaged_git_folder_marks_the_tree_without_git_facts(tmp_path: Path, damage: str) -> None:
    repository(tmp_path / "outer")
    inner = tmp_path / "outer" / "inner"
    inner.mkdir()
    broken = inner / ".git"
    if damage == "empty folder":
        broken.mkdir()
    elif damage == "fifo":
        os.mkfifo(broken)
    elif damage == "dangling link":
        broken.symlink_to("nowhere")
    else:
        texts = {"no such gitdir": b"gitdir: ../gone\n", "garbage": b"\xff\0" * 9000}
        broken.write_bytes(texts.get(damage, b""))
    tree = find_tree(str(inner))
    assert (tree.root, tree.git_dir, tree.common_dir) == (str(inner), None, None)
    assert head(tree) == (None, None)


def test_deleted_current_folder_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(InvalidInput, match="the current folder does not exist") as caught:
        find_tree()
    assert "cd" in caught.value.hint


@pytest.mark.parametrize("name", ["nowhere", "file", "a\0b", "loop"])
def test_path_that_is_not_a_folder_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InvalidInput, match="does not exist"):
        find_tree(f"{tmp_path}/{name}")


def test_folder_without_permission_is_not_reported_as_missing(plain_user: Path) -> None:
    plain_user.chmod(0)
    with pytest.raises(StoreFailed, match="permission denied") as caught:
        find_tree(str(plain_user))
    assert "ls -ld" in caught.value.hint


# --- head --------------------------------------------------------------------------------------


def test_branch_and_commit_are_read_from_loose_and_packed_refs(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    commit = git(repo, "rev-parse", "HEAD")
    git(repo, "checkout", "-q", "-b", "feature/x")
    assert head(find_tree(str(repo))) == ("feature/x", commit)
    git(repo, "pack-refs", "--all", "--prune")
    assert not (repo / ".git" / "refs" / "heads" / "feature").exists()
    assert head(find_tree(str(repo))) == ("feature/x", commit)


def test_loose_branch_is_newer_than_the_packed_one(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    git(repo, "pack-refs", "--all")
    git(repo, "commit", "-q", "--allow-empty", "-m", "second")
    assert head(find_tree(str(repo)))[1] == git(repo, "rev-parse", "HEAD")


def test_detached_head_has_a_commit_and_no_branch(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    git(repo, "checkout", "-q", "--detach")
    assert head(find_tree(str(repo))) == (None, git(repo, "rev-parse", "HEAD"))


def test_repository_without_commits_has_a_branch_only(tmp_path: Path) -> None:
    assert head(find_tree(str(repository(tmp_path / "repo", commit=False)))) == ("main", None)


def test_symbolic_branch_is_followed_and_a_loop_of_branches_ends(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    git(repo, "symbolic-ref", "refs/heads/alias", "refs/heads/main")
    git(repo, "symbolic-ref", "HEAD", "refs/heads/alias")
    assert head(find_tree(str(repo)))[1] == git(repo, "rev-parse", "HEAD")
    (repo / ".git" / "refs" / "heads" / "loop").write_text("ref: refs/heads/loop\n")
    (repo / ".git" / "HEAD").write_text("ref: refs/heads/loop\n")
    assert head(find_tree(str(repo))) == ("loop", None)


def test_head_never_reads_outside_of_the_repository(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    (tmp_path / "secret").write_text("a" * 40)
    for name in ("refs/../../../secret", str(tmp_path / "secret"), "../../secret"):
        (repo / ".git" / "HEAD").write_text(f"ref: {name}\n")
        assert head(find_tree(str(repo)))[1] is None


@pytest.mark.parametrize("text", ["", "garbage", "ref: ", "ref: refs/heads/.invalid", "f" * 39])
def test_empty_head_is_no_error(tmp_path: Path, text: str) -> None:
    repo = repository(tmp_path / "repo")
    (repo / ".git" / "HEAD").write_text(text)
    assert head(find_tree(str(repo)))[1] is None


def test_repository_with_longer_hashes_is_read(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    git(tmp_path / "repo", "init", "-q", "-b", "main", "--object-format=sha256")
    git(tmp_path / "repo", "commit", "-q", "--allow-empty", "-m", "first")
    commit = head(find_tree(str(tmp_path / "repo")))[1]
    assert commit == git(tmp_path / "repo", "rev-parse", "HEAD") and len(commit) == 64


# --- paths -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "cwd", "stored"),
    [
        ("a.py", "", "a.py"),
        ("a.py", "src", "src/a.py"),
        ("../a.py", "src", "a.py"),
        ("./src//a.py", "", "src/a.py"),
        ("src/../a.py", "", "a.py"),
        ("{root}/src/a.py", "src", "src/a.py"),
        ("/{root}/src/a.py", "", "src/a.py"),
        (".", "", "."),
        ("..", "src", "."),
        ("{root}", "", "."),
        ("not there/ü x", "", "not there/ü x"),
        ("src/back\\slash", "", "src/back\\slash"),
        ("{link}/src/a.py", "", "src/a.py"),
        ("out/x", "", "out/x"),
    ],
)
def test_path_in_the_tree_is_stored_relative(
    tmp_path: Path, path: str, cwd: str, stored: str
) -> None:
    root = tmp_path / "root"
    (root / "src").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (root / "out").symlink_to("../outside")
    (tmp_path / "link").symlink_to("root")
    given_path = path.format(root=root, link=tmp_path / "link")
    assert relative(given_path, str(root), cwd=str(root / cwd)) == stored


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "/etc/passwd",
        "{root}x",
        "src/../../x",
        "..",
        "out/../secret",
        "",
        "a\0b",
        "\udc80",
        "x" * 4097,
        "ü" * 2049,
        "../" + "x/" * 2000,
    ],
)
def test_path_that_is_invalid_or_leads_out_is_refused(tmp_path: Path, path: str) -> None:
    root = tmp_path / "root"
    (root / "src").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (root / "out").symlink_to("../outside")
    with pytest.raises(InvalidInput) as caught:
        relative(path.format(root=root), str(root), cwd=str(root))
    assert len(str(caught.value)) < 400


def test_root_of_the_file_system_is_a_tree_too() -> None:
    assert relative("/etc/passwd", "/") == "etc/passwd"
    assert absolute("etc/passwd", "/") == "/etc/passwd"


@pytest.mark.parametrize("stored", ["/etc/passwd", "../x", "a/../../x", "..", "", "a\0", "\udc80"])
def test_stored_path_that_leads_out_is_refused(tmp_path: Path, stored: str) -> None:
    with pytest.raises(InvalidInput):
        absolute(stored, str(tmp_path))


def test_stored_path_is_not_followed_out_of_the_tree(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "out").symlink_to("/etc")
    (root / "file").symlink_to("/etc/passwd")
    (root / "in").symlink_to("real")
    for stored in ("out/passwd", "file"):
        with pytest.raises(InvalidInput, match="symbolic link"):
            absolute(stored, str(root))
    assert absolute("in/x", str(root)) == str(root / "in" / "x")


names = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1)


@given(st.lists(names.filter(lambda name: name not in (".", "..")), min_size=1, max_size=5))
def test_stored_path_leads_back_to_the_file(parts: list[str]) -> None:
    path = "/".join(parts)
    stored = relative("/root of a tree/" + path, "/root of a tree", cwd="/")
    assert stored == path
    assert absolute(stored, "/root of a tree") == "/root of a tree/" + path


@given(st.text(max_size=30), st.sampled_from(["/r", "/r/s", "/"]))
def test_no_text_is_stored_as_a_path_outside_the_tree(text: str, cwd: str) -> None:
    try:
        stored = relative(text, "/r", cwd=cwd)
    except InvalidInput:
        return
    full = absolute(stored, "/r")
    assert full == "/r" or full.startswith("/r/")


# --- drift -------------------------------------------------------------------------------------


LATER = 2**50
"""A time in milliseconds at which every change is long past."""


def entry(path: Path) -> tuple[str, str]:
    facts = file_facts(str(path), LATER)
    assert facts is not None and facts[0]
    return path.name, facts[0]


def seen(*paths: Path) -> dict[str, tuple[str, str]]:
    found = {path.name: file_facts(str(path), LATER) for path in paths}
    return {name: (facts[1], facts[0] or "") for name, facts in found.items() if facts}


def test_file_facts_are_digest_and_stamp(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"data" * 1_000_000)
    digest = hashlib.sha256(b"data" * 1_000_000).hexdigest()
    facts = os.stat(path)
    stamp = f"{4_000_000}.{facts.st_ino}.{facts.st_mtime_ns}.{facts.st_ctime_ns}"
    assert file_facts(str(path), LATER) == (digest, stamp)


def test_a_file_that_changed_just_now_has_no_stamp(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"old")
    changed = os.stat(tmp_path / "x").st_ctime_ns // 1_000_000
    stamps = [(file_facts(str(tmp_path / "x"), changed + ms) or ("", ""))[1] for ms in (-9, 0, 19)]
    assert stamps == ["", "", ""]
    assert (file_facts(str(tmp_path / "x"), changed + 2_500) or ("", ""))[1]


def test_file_facts_of_a_folder_have_no_digest(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert file_facts(str(tmp_path / "nowhere"), LATER) is None
    assert file_facts("a\0b", LATER) is None
    for path in (tmp_path, tmp_path / "fifo"):
        facts = file_facts(str(path), LATER)
        assert facts is not None and facts[0] is None


@pytest.mark.parametrize("known", [True, False])
def test_drift_check_reports_each_file_in_order(tmp_path: Path, known: bool) -> None:
    for name in ("same", "touched", "changed", "grown", "missing", "folder"):
        (tmp_path / name).write_bytes(b"old")
    paths = sorted(tmp_path.iterdir())
    entries, stamps = [entry(path) for path in paths], seen(*paths) if known else {}
    (tmp_path / "changed").write_bytes(b"new")
    (tmp_path / "grown").write_bytes(b"older")
    (tmp_path / "missing").unlink()
    (tmp_path / "folder").unlink()
    (tmp_path / "folder").mkdir()
    for name in ("touched", "changed"):
        os.utime(tmp_path / name, ns=(1, 1))
    assert dict(check_drift(entries, stamps, 200, 60_000, root=str(tmp_path), clock=Clock())) == {
        "changed": "changed",
        "folder": "changed",
        "grown": "changed",
        "missing": "missing",
        "same": "same",
        "touched": "same",
    }


def test_file_whose_stamp_is_unchanged_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x").write_bytes(b"old")
    (name, digest), stamps = entry(tmp_path / "x"), seen(tmp_path / "x")
    monkeypatch.setattr(workspace_tree, "_digest", None)
    entries = [(name, digest), (name, "0" * 64)]
    found = check_drift(entries, stamps, 9, 9_000, root=str(tmp_path), clock=Clock())
    assert found == [("x", "same"), ("x", "changed")]


def test_restoring_time_and_size_does_not_hide_a_change(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    entries, stamps, before = [entry(path)], seen(path), os.stat(path)
    while os.stat(path).st_ctime_ns == before.st_ctime_ns:
        path.write_bytes(b"new")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = os.stat(path)
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    found = check_drift(entries, stamps, 9, 9_000, root=str(tmp_path), clock=Clock())
    assert found == [("x", "changed")]


def test_unreadable_file_is_reported_as_not_checked(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"old")
    (tmp_path / "out").symlink_to("/etc/passwd")
    entries = [("x", ""), ("../x", "0" * 64), ("out", "0" * 64)]
    found = check_drift(entries, {}, 9, 9_000, root=str(tmp_path), clock=Clock())
    assert [verdict for _, verdict in found] == ["not checked"] * 3


def test_drift_check_stops_at_the_maximum_number_of_files(tmp_path: Path) -> None:
    for name in "abcd":
        (tmp_path / name).touch()
    entries = [entry(tmp_path / name) for name in "abcd"]
    found = check_drift(entries, {}, 2, 9_000, root=str(tmp_path), clock=Clock())
    assert [verdict for _, verdict in found] == ["same", "same", "not checked", "not checked"]


def test_path_outside_the_tree_is_reported_as_missing(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    (tmp_path / "out").symlink_to("/etc/passwd")
    found = {name: path_exists(name, str(tmp_path)) for name in ("x", "y", "out", "../x", "/etc")}
    assert found == {"x": True, "y": False, "out": False, "../x": False, "/etc": False}


class Ticking(FakeClock):
    def monotonic(self) -> float:
        self.sleep(0.010)
        return super().monotonic()


def test_drift_check_stops_when_its_time_is_over(tmp_path: Path) -> None:
    for name in "abcdefgh":
        (tmp_path / name).touch()
    entries = [entry(tmp_path / name) for name in "abcdefgh"]
    stamps = seen(*tmp_path.iterdir())
    found = check_drift(entries, stamps, 99, 50, root=str(tmp_path), clock=Ticking())
    assert [verdict for _, verdict in found] == ["same"] * 4 + ["not checked"] * 4
    found = check_drift(entries, stamps, 99, 0, root=str(tmp_path), clock=Ticking())
    assert {verdict for _, verdict in found} == {"not checked"}


def test_file_too_large_for_the_time_is_not_checked(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"x" * 8_000_000)
    entries = [("x", "0" * 64)]
    found = check_drift(entries, {}, 9, 50, root=str(tmp_path), clock=Ticking())
    assert found == [("x", "not checked")]


def test_repr_of_a_tree_shows_its_path_and_git_folder(tmp_path: Path) -> None:
    assert repr(Tree("/x", 1, 2, None, None)) == "Tree('/x', git_dir=None)"
