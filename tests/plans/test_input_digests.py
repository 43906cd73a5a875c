"""Patterns of inputs: which files they match, what is left out, and which changes are found."""

from __future__ import annotations

import itertools
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from forestay.errors import InvalidInput
from forestay.plans import input_digests
from forestay.workspace import tree as workspace_tree

NAMES = "a.py b.txt src/a.py src/deep/er/c.py src/d.c srcs/x docs/i.md .hidden/h"
CASES = {
    "src/**": "src/a.py src/d.c src/deep/er/c.py",
    "src": "src/a.py src/d.c src/deep/er/c.py",
    "./src/": "src/a.py src/d.c src/deep/er/c.py",
    "*.py": "a.py",
    "**/*.py": "a.py src/a.py src/deep/er/c.py",
    "src/*.[ch]": "src/d.c",
    "src/?.py": "src/a.py",
    "[!a].txt": "b.txt",
    "src/**/c.py": "src/deep/er/c.py",
    "b.txt": "b.txt",
    "s*/x": "srcs/x",
    ".hidden/*": ".hidden/h",
    ".": NAMES,
    "**": NAMES,
}


@pytest.fixture(params=["plain", "git"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a project with or without git; the same files must be found in both."""
    folder = tmp_path / "project"
    folder.mkdir()
    for name in NAMES.split():
        put(folder, name)
    if request.param == "git":
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
        subprocess.run(["git", "add", "src"], cwd=folder, check=True)
    return folder


def put(folder: Path, name: str, text: str = "x") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def found(root: Path, *globs: str) -> list[str]:
    tree = workspace_tree.find_tree(str(root))
    return input_digests.found(input_digests.checked(globs), tree, dict(os.environ))


def manifest(root: Path, *globs: str, **how: Any) -> input_digests.Manifest:
    return input_digests.manifest(
        input_digests.checked(globs),
        workspace_tree.find_tree(str(root)),
        dict(os.environ),
        **{"now": lambda: int(time.time() * 1000), "seen": lambda paths: {}, **how},
    )


@pytest.mark.parametrize("glob", CASES)
def test_pattern_matches_these_files(root: Path, glob: str) -> None:
    assert found(root, glob) == sorted(CASES[glob].split())


def test_several_patterns_match_the_files_of_each(root: Path) -> None:
    assert found(root, "*.txt", "docs/**") == ["b.txt", "docs/i.md"]


@pytest.mark.parametrize("glob", ["../x", "/etc/**", "src/../../x", "", "a\nb", "x" * 600])
def test_invalid_pattern_or_one_outside_the_project_is_refused(glob: str) -> None:
    with pytest.raises(InvalidInput, match="not a pattern for inputs"):
        input_digests.checked([glob])


def test_own_folders_and_caches_are_left_out(root: Path) -> None:
    before = found(root, "**")
    for name in (".forestay/project", "src/__pycache__/a.pyc"):
        put(root, name)
    assert found(root, "**") == before


def test_folder_with_a_cache_tag_is_left_out(tmp_path: Path) -> None:
    put(tmp_path, ".ruff_cache/CACHEDIR.TAG")
    put(tmp_path, ".ruff_cache/x")
    put(tmp_path, "y")
    assert found(tmp_path, "**") == ["y"]


def test_files_ignored_by_git_are_left_out(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    put(tmp_path, ".gitignore", "build/\n")
    put(tmp_path, "build/out")
    put(tmp_path, "kept")
    assert found(tmp_path, "**") == [".gitignore", "kept"]


def test_links_out_of_the_project_are_not_followed(root: Path, tmp_path: Path) -> None:
    secret = put(tmp_path, "outside/secret", "one")
    (root / "out").symlink_to(secret)
    (root / "folder").symlink_to(secret.parent)
    before = manifest(root, "out", "folder", "folder/secret").files
    assert "folder/secret" not in before
    secret.write_text("two")
    assert manifest(root, "out", "folder", "folder/secret").files == before


def test_change_behind_a_link_inside_the_project_is_found(root: Path) -> None:
    (root / "link").symlink_to("b.txt")
    before = manifest(root, "link")
    put(root, "b.txt", "other")
    assert input_digests.differences(before.files, manifest(root, "link").files) == [
        ("link", "changed")
    ]


def test_every_kind_of_change_is_found(root: Path) -> None:
    before = manifest(root, "src/**").files
    put(root, "src/new.py")
    (root / "src/d.c").unlink()
    put(root, "src/a.py", "longer")
    (root / "src/deep/er/c.py").rename(root / "src/deep/er/e.py")
    assert input_digests.differences(before, manifest(root, "src/**").files) == [
        ("src/a.py", "changed"),
        ("src/d.c", "missing"),
        ("src/deep/er/c.py", "missing"),
        ("src/deep/er/e.py", "new"),
        ("src/new.py", "new"),
    ]


def test_a_file_with_an_unchanged_stamp_is_not_read_again(root: Path) -> None:
    later = int(time.time() * 1000) + 10_000
    first = manifest(root, "src/**", now=lambda: later)
    assert set(first.seen) == set(first.files)
    known = {path: (stamp, "0" * 64) for path, (stamp, _) in first.seen.items()}
    assert set(manifest(root, "src/**", seen=lambda paths: known).files.values()) == {"0" * 64}


def test_pipe_is_left_out(root: Path) -> None:
    os.mkfifo(root / "src/pipe")
    assert "src/pipe" not in manifest(root, "src/**").files


def test_an_unreadable_file_is_named(root: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    (root / "src/a.py").chmod(0)
    with pytest.raises(InvalidInput, match=r"src/a\.py cannot be read"):
        manifest(root, "src/**")


def test_too_many_files_are_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_digests, "MAX_FILES", 2)
    with pytest.raises(InvalidInput, match=r"matches 3 files \(at most 2"):
        manifest(root, "src/**")


def test_inputs_with_too_many_bytes_are_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_digests, "MAX_BYTES", 2)
    with pytest.raises(InvalidInput, match="too large"):
        manifest(root, "src/**")


def test_a_stored_manifest_parses_to_the_same_digests(root: Path) -> None:
    made = manifest(root, "**")
    assert input_digests.parse(made.data) == made.files
    assert input_digests.parse(b"[1]") == input_digests.parse(b"{") == {}


def test_patterns_with_many_stars_are_matched_quickly() -> None:
    began = time.monotonic()
    assert not input_digests.matcher(["*a" * 60 + "b"])("a" * 250)
    assert not input_digests.matcher(["**/a/" * 90 + "b"])("a/" * 200 + "c")
    assert time.monotonic() - began < 60


def _matches(glob: list[str], path: list[str]) -> bool:
    """Return whether a pattern of `**`, `*` and names matches, in the simplest way."""
    if not glob:
        return True
    if glob[0] == "**":
        rest = glob[1:]
        below = bool(path) if not rest else _matches(rest, path)
        return below or (bool(path) and _matches(glob, path[1:]))
    return bool(path) and glob[0] in ("*", path[0]) and _matches(glob[1:], path[1:])


def test_patterns_match_like_the_reference_for_any_combination_of_parts() -> None:
    paths = [list(p) for n in (1, 2, 3, 4) for p in itertools.product("ab", repeat=n)]
    for length in (1, 2, 3, 4):
        for glob in itertools.product(("**", "*", "a"), repeat=length):
            matches = input_digests.matcher(["/".join(glob)])
            for path in paths:
                found = bool(matches("/".join(path)))
                assert found == _matches(list(glob), path), (glob, path)
