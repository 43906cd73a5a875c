"""Changes of files by a shell command are found, and no others."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from forestay.agents import shell_changes
from forestay.agents.shell_changes import (
    ChangedFile,
    Scan,
    complete_change,
    entries,
    new_changes,
    scan_tree,
)
from forestay.base.clock import Clock, FakeClock
from forestay.base.config import child_environment
from forestay.base.hashing import digest_of
from forestay.model.event import FileChanged
from forestay.model.state import File
from forestay.workspace.tree import find_tree

CLOCK = Clock()
OLD = 1_000_000_000


def sha(text: str) -> str:
    return digest_of(text.encode())


def git(folder: Path, *words: str) -> None:
    quiet = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    who = ("-c", "user.name=x", "-c", "user.email=x@localhost")
    command = ["git", "-C", str(folder), *who, *words]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **quiet})


def age(*paths: Path) -> None:
    """Give a file an old modification time; only its inode time is new."""
    for path in paths:
        os.utime(path, (OLD, OLD))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "proj"
    folder.mkdir()
    git(folder, "init", "-q")
    for name, text in (("kept.py", "a\n"), ("gone.py", "b\n"), (".gitignore", "*.log\n")):
        (folder / name).write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder


def scanned(folder: Path, since: int = 0, **more: object) -> Scan:
    tree = find_tree(str(folder))
    return scan_tree(tree, child_environment(), since=since, clock=CLOCK, **more)  # type: ignore[arg-type]


def reported(found: Scan, *rows: File) -> list[FileChanged]:
    known = {row.path: row for row in rows}
    return sorted(new_changes(found, known.get), key=lambda change: change.path)


# -- scanning ----------------------------------------------------------------------------------


def test_changes_of_a_command_are_found_with_digests_and_lines(repository: Path) -> None:
    (repository / "kept.py").write_text("a\nb\nc\n")
    (repository / "gone.py").unlink()
    (repository / "deep").mkdir()
    (repository / "deep" / "new é.py").write_text("n\n")
    (repository / "noise.log").write_text("never read\n")
    assert reported(scanned(repository)) == [
        FileChanged(path="deep/new é.py", action="created", after=sha("n\n")),
        FileChanged(path="gone.py", action="deleted", before=sha("b\n")),
        FileChanged(
            path="kept.py",
            action="modified",
            added=2,
            removed=0,
            before=sha("a\n"),
            after=sha("a\nb\nc\n"),
        ),
    ]


def test_files_changed_before_the_command_are_not_listed(repository: Path) -> None:
    (repository / "kept.py").write_text("dirty before\n")
    (repository / "gone.py").unlink()
    later = int(time.time() * 1000) + 60_000
    assert scanned(repository, since=later) == Scan()


def test_scan_takes_no_lock_and_does_not_change_the_index(repository: Path) -> None:
    (repository / "kept.py").write_text("x\n")
    index = repository / ".git" / "index"
    age(index)
    before = (index.read_bytes(), index.stat().st_mtime_ns)
    (repository / ".git" / "index.lock").write_text("held by someone")
    assert [one.path for one in scanned(repository).found] == ["kept.py"]
    assert (index.read_bytes(), index.stat().st_mtime_ns) == before


def test_no_program_of_the_repository_is_run(repository: Path) -> None:
    trap, sprung = repository / "trap.sh", repository / "sprung.log"
    trap.write_text(f"#!/bin/sh\ntouch {sprung}\n")
    trap.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(trap))
    assert [one.path for one in scanned(repository).found] == ["trap.sh"]
    assert not sprung.exists()


def test_change_of_a_large_file_is_recorded_without_its_new_digest(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell_changes, "MOST_BYTES", 10)
    (repository / "kept.py").write_text("x" * 11)
    [change] = reported(scanned(repository))
    assert (change.path, change.after, change.before) == ("kept.py", "", sha("a\n"))


def test_links_and_names_that_are_not_utf_8_are_left_out(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    (repository / "link").symlink_to(tmp_path / "secret")
    with open(os.fsencode(repository) + b"/\xff.py", "wb"):
        pass
    assert scanned(repository).found == ()


def test_too_many_changed_files_are_limited_to_the_newest(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell_changes, "MOST_FILES", 2)
    for name in ("1.py", "2.py", "3.py"):
        (repository / name).write_text(name)
        time.sleep(0.01)
    found = scanned(repository)
    assert [one.path for one in found.found] == ["3.py", "2.py"] and found.left == 1


def test_a_repository_that_git_cannot_read_is_not_walked(repository: Path) -> None:
    (repository / ".git" / "index").write_text("torn")
    (repository / "kept.py").write_text("x\n")
    assert scanned(repository) == Scan(whole=False)


def test_changes_are_found_without_git_by_a_short_walk(tmp_path: Path) -> None:
    for name in ("a.py", "sub/b.py", "node_modules/c.js", "sub/__pycache__/d.pyc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    found = scanned(tmp_path, known=["was.py", "a.py"])
    assert {(one.path, one.exists) for one in found.found} == {
        ("a.py", True),
        ("sub/b.py", True),
        ("was.py", False),
    }


class Hasty(FakeClock):
    """A clock that advances one second with each call."""

    def monotonic(self) -> float:
        self.at = getattr(self, "at", 0.0) + 1.0
        return self.at


def test_scan_ends_at_its_time_limit(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x")
    found = scan_tree(find_tree(str(tmp_path)), {}, since=0, clock=Hasty())
    assert found.found == ()


def test_unchanged_file_is_not_read_again(repository: Path) -> None:
    full = str(repository / "kept.py")
    (repository / "kept.py").write_text("x\n")
    age(repository / "kept.py")
    requested: list[str] = []

    def seen(paths: Sequence[str]) -> Mapping[str, tuple[str, str]]:
        requested.extend(paths)
        facts = os.stat(full)
        stamp = f"{facts.st_size}.{facts.st_ino}.{facts.st_mtime_ns}.{facts.st_ctime_ns}"
        return {full: (stamp, "f" * 64)}

    found = scanned(repository, seen=seen)
    assert requested == [full] and [one.digest for one in found.found] == ["f" * 64]
    assert found.seen(str(repository)) == {full: (found.found[0].stamp, "f" * 64)}


# -- which changes are new --------------------------------------------------------------------

NOW = ChangedFile("a.py", stamp="s", digest="d2", tracked=True, committed="d0")
NEWS: dict[str, tuple[ChangedFile, File | None, FileChanged | None]] = {
    "as the agent reported": (NOW, File(path="a.py", after="d2"), None),
    "changed since the agent reported it": (
        NOW,
        File(path="a.py", after="d1"),
        FileChanged(path="a.py", action="modified", before="d1", after="d2"),
    ),
    "unknown": (
        NOW,
        None,
        FileChanged(path="a.py", action="modified", before="d0", after="d2"),
    ),
    "back again": (
        NOW,
        File(path="a.py", action="deleted"),
        FileChanged(path="a.py", action="created", after="d2"),
    ),
    "gone": (
        ChangedFile("a.py", exists=False),
        File(path="a.py", after="d1"),
        FileChanged(path="a.py", action="deleted", before="d1"),
    ),
    "deleted, as reported": (
        ChangedFile("a.py", exists=False),
        File(path="a.py", action="deleted"),
        None,
    ),
    "gone, and never was": (ChangedFile("a.py", exists=False), None, None),
    "large, reported once": (ChangedFile("a.py"), File(path="a.py"), None),
}


@pytest.mark.parametrize("name", NEWS)
def test_only_changes_unknown_to_the_session_are_new(name: str) -> None:
    found, row, expected = NEWS[name]
    assert new_changes(Scan((found,)), lambda path: row) == ([expected] if expected else [])


def test_change_names_its_agent() -> None:
    assert new_changes(Scan((NOW,)), lambda path: None, by="a7")[0].agent == "a7"


def test_git_status_is_parsed_field_by_field() -> None:
    hashes = b"0" * 40 + b" " + b"1" * 40
    answer = b"\0".join(
        [
            b"1 .M N... 100644 100644 100644 " + hashes + b" with space.py",
            b"1 A. N... 000000 100644 100644 " + hashes + b" staged.py",
            b"2 R. N... 100644 100644 100644 " + hashes + b" R100 to.py",
            b"from.py",
            b"u UU N... 100644 100644 100644 100644 " + hashes + b" " + b"2" * 40 + b" both.py",
            b"? new.py",
            b"? folder/",
            b"! ignored.py",
            b"# branch.oid x",
            b"",
        ]
    )
    assert list(entries(answer)) == [
        ("with space.py", True),
        ("staged.py", False),
        ("to.py", True),
        ("both.py", True),
        ("new.py", False),
    ]


# -- changes that an agent reported -------------------------------------------------------------


def test_digest_with_other_line_ends_is_replaced_by_that_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    given = FileChanged(path="a.txt", before=sha("x"), after=sha("one\ntwo\n"))
    change, seen = complete_change(given, str(tmp_path), CLOCK.now())
    assert (change.after, change.before) == (sha("one\r\ntwo\r\n"), "")
    assert seen[1] == change.after
    earlier = FileChanged(path="a.txt", after=sha("one\n"))
    assert complete_change(earlier, str(tmp_path), CLOCK.now()) == (
        FileChanged(path="a.txt"),
        ("", ""),
    )


def test_a_change_without_a_digest_gets_that_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    change, seen = complete_change(FileChanged(path="a.txt"), str(tmp_path), CLOCK.now())
    assert (change.after, seen[1]) == (sha("one\n"), sha("one\n"))


@pytest.mark.parametrize("path", ["a.txt", "gone.txt", "/etc/passwd", "../x"])
def test_change_that_the_file_does_not_confirm_stays_unaltered(tmp_path: Path, path: str) -> None:
    (tmp_path / "a.txt").write_text("changed again\n")
    given = FileChanged(path=path, before=sha("x"), after=sha("one\n"))
    assert complete_change(given, str(tmp_path), CLOCK.now())[0] == given
