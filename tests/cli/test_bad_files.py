"""Run every command that reads files with each kind of bad file in place of each good one.

No command crashes, blocks or prints control sequences; read-only commands change nothing; and the
bytes that were there are always preserved under some name.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from forestay.base.clock import FakeClock
from forestay.mirror.contract_file import Contract
from tests.cli.support import Answer, Cli
from tests.format_helpers import ESSAY, INDEX, LOG, MAIN, ORCHESTRATOR, STATE, fill
from tests.mirror.test_discover import BAD

PLACES = {
    **MAIN,
    "plan": STATE.replace("state.yaml", "implementation-plan.yaml"),
    "log": LOG,
    "index": INDEX,
    "backup": f"{ESSAY}.bak",
    "thesis": ESSAY.replace("session-state.yaml", "stage-1-thesis.md"),
    "stage": ESSAY.replace("session-state.yaml", "stage-2-outline.md"),
    "arguments": ESSAY.replace("session-state.yaml", "stage-3-section-1-arguments.md"),
    "draft": ESSAY.replace("session-state.yaml", "stage-4-draft.md"),
    "paragraphs": ESSAY.replace("session-state.yaml", "stage-4-paragraph-log.md"),
    "final": ESSAY.replace("session-state.yaml", "final-essay.md"),
    "contract": ".ai-session/contract-acknowledgment.md",
    "history": ".claude/orchestrator-history/2026-02-13-aaa111.json",
}


def _gigabyte(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 30)


def _socket(path: Path) -> None:
    # The path may be too long for the name of a socket.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)


def _outside(path: Path) -> Path:
    """Return a good file outside the project that belongs to another program."""
    project = next(above for above in path.parents if above.name == "project")
    return project.with_name("precious")


ODD: dict[str, Callable[[Path], object]] = {
    "pipe": lambda path: os.mkfifo(path),
    "socket": _socket,
    "folder": lambda path: path.mkdir(),
    "outside": lambda path: path.symlink_to(_outside(path)),
    "dead link": lambda path: path.symlink_to("nowhere"),
    "loop": lambda path: path.symlink_to(path.name),
    "1 GB": _gigabyte,
}
PATIENCE = 60.0
"""Seconds of CPU time: only a hang takes longer, a slow machine does not."""


def looking(path: str) -> Iterator[tuple[str, ...]]:
    """Return the commands that change nothing."""
    above = os.path.dirname(path)
    yield from (
        ("files", "check", path),
        ("files", "check", above, "--strict"),
        ("--json", "files", "check", "."),
    )
    yield from (
        ("adopt", path, "--dry-run"),
        ("files", "cleanup", "--stale", "--days", "0", "--dry-run"),
    )
    yield from (("files", "report"), ("files", "orchestrator", "history"), ("essay", "list"))
    yield from (("doctor",), ("doctor", path), ("doctor", above), ("list",))
    yield from (("files", "contract", "show"), ("files", "contract", "verify", "--agent", "first"))


def acting(path: str) -> Iterator[tuple[str, ...]]:
    above = os.path.dirname(path)
    yield ("files", "convert", path, "--to", "essay", "-o", "out/one")
    yield ("files", "convert", above, "--to", "ai-session", "-o", "out/two")
    yield from (("doctor", path, "-o", "out/three"), ("adopt",), ("adopt",), ("status",))
    yield from (("doctor", path, "--fix"), ("doctor", above, "--fix"), ("doctor", "--fix"))
    yield ("doctor", path, "--fix", "--choose", "fresh")
    yield ("files", "contract", "ack", "--agent", "second")
    yield from (("files", "orchestrator", "continue"), ("files", "orchestrator", "new", "Another"))
    yield ("files", "orchestrator", "abort")
    yield ("files", "cleanup", "--completed", "--stale", "--days", "0", "--yes")


def harmed(project: Path, place: str, harm: str) -> Path:
    fill(project)
    (project / PLACES["backup"]).write_bytes((project / ESSAY).read_bytes())
    (project / PLACES["stage"]).write_text("## Outline\n\n### Section 1\n\nText.\n")
    history = project / PLACES["history"]
    history.parent.mkdir()
    history.write_text((project / ORCHESTRATOR).read_text().replace("14-abc123", "13-aaa111"))
    for name in ("thesis", "arguments", "draft", "paragraphs", "final"):
        (project / PLACES[name]).write_text("## Thesis Statement\n\nText.\n")
    contract = Contract(str(project / ".ai-session"), clock=FakeClock())
    contract.acknowledge("first")
    path = project / PLACES[place]
    _outside(path).write_bytes(path.read_bytes())
    if harm in BAD:
        path.write_bytes(BAD[harm](path.read_bytes()))
    else:
        path.unlink()
        ODD[harm](path)
    return path


def seen(folder: Path) -> dict[str, object]:
    """Return everything below a folder: the bytes of files, the kind of everything else."""
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
    printed = answer.out + answer.err
    assert 0 <= answer.code <= 5 and "FORESTAY_DEBUG" not in printed, (words, answer)
    assert all(char.isprintable() or char in "\n\t" for char in printed), (words, answer)
    return answer


def _is_kept(bad: object, now: Iterable[object]) -> bool:
    """Return whether the bytes are preserved, also inside a file to which a block was added."""
    return bad == b"" or any(bad == each or _has(each, bad) for each in now)


def _has(whole: object, part: object) -> bool:
    return isinstance(whole, bytes) and isinstance(part, bytes) and part in whole


def of_essay(cli: Cli) -> Iterator[tuple[str, ...]]:
    """Return commands for an essay that was adopted."""
    rows = cli.json("list", "--all")["sessions"]
    ids = [row["session"] for row in rows if row["goal"] != "Another"]
    for id in ids:
        at = ("--session", id)
        yield from (("revisit", "1", *at), ("revisit", "1", "--apply", "--because", "x", *at))
        yield from (("pause", *at), ("resume", *at), ("essay", "show", *at), ("brief", *at))


def try_everything(cli: Cli, project: Path, place: str, harm: str) -> None:
    path = harmed(project, place, harm)
    before, bad = seen(project.parent), _what(path)
    for words in looking(str(path)):
        sane(cli, *words)
        after = {n: what for n, what in seen(project.parent).items() if "/home" not in n}
        assert after == {n: what for n, what in before.items() if "/home" not in n}, words
    for words in (*acting(str(path)), *(of_essay(cli) if "essay-" in str(path) else ())):
        sane(cli, *words)
        assert _is_kept(bad, seen(project).values()), (words, "the bytes of the bad file are lost")
    known = (str(project), str(project.parent / "home"))
    last = seen(project.parent).items()
    outside = {name: what for name, what in last if not name.startswith(known)}
    assert outside.items() <= before.items()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("harm", ["torn", "pipe"])
def test_commands_survive_a_bad_file_and_preserve_its_bytes(
    cli: Cli, project: Path, place: str, harm: str
) -> None:
    try_everything(cli, project, place, harm)


@pytest.mark.soak
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("harm", sorted({*BAD, *ODD} - {"torn", "pipe"}))
def test_commands_survive_every_kind_of_bad_file_and_preserve_its_bytes(
    cli: Cli, project: Path, place: str, harm: str
) -> None:
    try_everything(cli, project, place, harm)
