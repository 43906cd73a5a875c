"""Each kind of bad input, in the place of each kind of file, before each command that meets it.

No command crashes, waits or lets anything raw through to the terminal; those that only look change
nothing; and whatever is done, the bytes that were there are kept under some name.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.layouts import ESSAY, INDEX, LOG, MAIN, ORCHESTRATOR, STATE, fill
from tests.surface.support import Answer, Cli
from tests.test_found import BAD

PLACES = {
    **MAIN,
    "plan": STATE.replace("state.yaml", "implementation-plan.yaml"),
    "log": LOG,
    "index": INDEX,
    "backup": f"{ESSAY}.bak",
    "stage": ESSAY.replace("session-state.yaml", "stage-2-outline.md"),
    "history": ".claude/orchestrator-history/2026-02-13-aaa111.json",
}


def _gigabyte(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 30)


ODD: dict[str, Callable[[Path], object]] = {
    "pipe": lambda path: os.mkfifo(path),
    "folder": lambda path: path.mkdir(),
    "dead link": lambda path: path.symlink_to("nowhere"),
    "loop": lambda path: path.symlink_to(path.name),
    "1 GB": _gigabyte,
}
PATIENCE = 5.0
"""In seconds of work: it tells a hang, not a slow machine."""


def looking(path: str) -> Iterator[tuple[str, ...]]:
    """Commands that only look."""
    above = os.path.dirname(path)
    yield from (("check", path), ("check", above, "--strict"), ("--json", "check", "."))
    yield from (("adopt", path, "--dry-run"), ("cleanup", "--stale", "--days", "0", "--dry-run"))
    yield from (("layouts", "report"), ("orchestrator", "history"), ("essay", "list"))
    yield from (("doctor",), ("doctor", path), ("doctor", above), ("list",))


def acting(path: str) -> Iterator[tuple[str, ...]]:
    above = os.path.dirname(path)
    yield ("convert", path, "--to", "essay", "-o", "out/one")
    yield ("convert", above, "--to", "ai-session", "-o", "out/two")
    yield from (("doctor", path, "-o", "out/three"), ("adopt",), ("adopt",), ("status",))
    yield from (("doctor", path, "--fix"), ("doctor", above, "--fix"), ("doctor", "--fix"))
    yield ("doctor", path, "--fix", "--choose", "fresh")
    yield ("cleanup", "--completed", "--stale", "--days", "0", "--yes")


def harmed(project: Path, place: str, harm: str) -> Path:
    fill(project)
    (project / PLACES["backup"]).write_bytes((project / ESSAY).read_bytes())
    (project / PLACES["stage"]).write_text("## Outline\n\n### Section 1\n\nText.\n")
    history = project / PLACES["history"]
    history.parent.mkdir()
    history.write_text((project / ORCHESTRATOR).read_text().replace("14-abc123", "13-aaa111"))
    path = project / PLACES[place]
    if harm in BAD:
        path.write_bytes(BAD[harm](path.read_bytes()))
    else:
        path.unlink()
        ODD[harm](path)
    return path


def seen(folder: Path) -> dict[str, object]:
    """Everything below a folder: of files the bytes, of all else what it is."""
    every = (Path(here, name) for here, b, n in os.walk(folder) for name in (*b, *n))
    return {str(path): _what(path) for path in every if path.name != ".state.lock"}


def _what(path: Path) -> object:
    if path.is_symlink():
        return "link", os.readlink(path)
    if path.is_file():
        return path.read_bytes() if path.stat().st_size < 1 << 24 else path.stat().st_size
    return path.lstat().st_mode


def sane(cli: Cli, *words: str) -> Answer:
    began = time.process_time()
    answer = cli(*words)
    assert time.process_time() - began < PATIENCE, words
    said = answer.out + answer.err
    assert 0 <= answer.code <= 5 and "HOLDFAST_DEBUG" not in said, (words, answer)
    assert all(char.isprintable() or char in "\n\t" for char in said), (words, answer)
    return answer


def try_everything(cli: Cli, project: Path, place: str, harm: str) -> None:
    path = harmed(project, place, harm)
    before, bad = seen(project.parent), _what(path)
    for words in looking(str(path)):
        sane(cli, *words)
        after = {n: what for n, what in seen(project.parent).items() if "/home" not in n}
        assert after == {n: what for n, what in before.items() if "/home" not in n}, words
    for words in acting(str(path)):
        sane(cli, *words)
        now = seen(project)
        assert bad in now.values(), (words, "what was there is gone")
    known = (str(project), str(project.parent / "home"))
    outside = (name for name in seen(project.parent) if not name.startswith(known))
    assert set(outside) <= before.keys()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("harm", ["torn", "pipe"])
def test_bad_files_do_no_harm_to_any_command(
    cli: Cli, project: Path, place: str, harm: str
) -> None:
    try_everything(cli, project, place, harm)


@pytest.mark.soak
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("harm", sorted({*BAD, *ODD} - {"torn", "pipe"}))
def test_no_bad_file_of_any_kind_does_harm(cli: Cli, project: Path, place: str, harm: str) -> None:
    try_everything(cli, project, place, harm)
