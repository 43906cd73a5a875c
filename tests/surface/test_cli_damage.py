"""A home that was harmed: every command says what, why and what helps, and `doctor` mends it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.surface.support import Answer, Cli

Harm = Callable[[Path], None]


def folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()
    (path / "inside").write_text("kept")


def pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def link(path: Path) -> None:
    target = path.with_name("elsewhere")
    target.write_text("not ours\n")
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def dangling(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(path.with_name("nowhere"))


ODD = pytest.mark.parametrize("harm", [folder, pipe, link, dangling])


def is_told(answer: Answer, code: int) -> None:
    """An error of ours with a next step, and no sign that the program itself failed."""
    assert answer.code == code, answer
    assert "this is a bug" not in answer.err + answer.out
    assert "Traceback" not in answer.err + answer.out
    assert "→ " in answer.err + answer.out, answer


@ODD
@pytest.mark.parametrize("name", ["writer.lock", "writer.queue"])
def test_what_stands_in_the_place_of_a_lock_is_told_and_moved_aside(
    cli: Cli, home: Path, name: str, harm: Harm
) -> None:
    cli.start("Add login", "--id", "login")
    harm(home / name)
    answer = cli("note", "x")
    is_told(answer, 1)
    assert "holdfast doctor --fix" in answer.err and name in answer.err
    assert cli.json("status")["seq"] == 1
    is_told(cli("doctor"), 5)
    assert cli("doctor", "--fix").code == 0
    assert any(path.name.startswith(name) for path in (home / "quarantine").iterdir())
    cli.ok("note", "x")
    assert cli("verify").code == 0
    if (home / "elsewhere").exists():
        assert (home / "elsewhere").read_text() == "not ours\n"


@ODD
def test_what_stands_in_the_place_of_the_heads_is_told_and_moved_aside(
    cli: Cli, home: Path, harm: Harm
) -> None:
    cli.start("Add login", "--id", "login")
    harm(home / "heads")
    cli.ok("note", "one")
    cli.ok("status")
    is_told(cli("doctor"), 5)
    assert cli("doctor", "--fix").code == 0
    cli.ok("note", "two")
    assert (home / "heads").is_file() and cli("verify").code == 0


@ODD
def test_what_stands_in_the_place_of_the_backups_memory_is_moved_aside(
    cli: Cli, home: Path, harm: Harm
) -> None:
    cli.start("Add login", "--id", "login")
    cli.ok("backup")
    harm(home / "backups" / "state.json")
    is_told(cli("doctor"), 5)
    cli.ok("backup")
    assert (home / "backups" / "state.json").is_file()
    assert cli("doctor").code == 0
