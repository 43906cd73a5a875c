"""Bad input in bound files, in all five formats at once: nothing is lost.

What the commands do with such files is shown in `tests/mirror/test_discover.py` (`check`, `adopt`,
`convert` and `doctor`, each on every format); these tests are about absorbing and writing.

    object tags, bombs, deep nesting, duplicate keys, NaN,        BAD, here and in test_discover
    numbers, encodings, surrogates, NUL, torn, empty, conflict
    a folder, a pipe, a link, a gigabyte in the place of a file   ODD here; test_discover
    two sessions claiming one id or one file                      test_bindings, test_adopt
    two homes on one file                                         here
    case-only differences                                         here, test_bindings, test_discover
    ids that are paths                                            test_bindings, test_adopt
    version 99                                                    here, test_suspend, test_discover
    half-written trees                                            test_write, test_discover
    branch switches, a rebase in progress                         here, test_suspend
    a whole stale file written back                               here, test_absorb
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from forestay.errors import InvalidInput, Refused
from forestay.formats.text import safe_parse
from forestay.mirror.read_files import THINGS
from tests.homes import state_of
from tests.mirror.conftest import Make
from tests.mirror.support import AI_SESSION, leftovers, swap_in
from tests.mirror.test_discover import BAD

KINDS = ("ai-session", "praxis", "craft", "essay", "orchestrator")
SLOW = 30.0
"""Seconds of work that one file may cost a command: it detects a hang, not a busy machine."""


class Five:
    """A session with files in all five formats."""

    def __init__(self, make: Make, *, git: bool = False) -> None:
        self.project = make(git=git)
        for kind in KINDS:
            root = str(self.project.folder / "essay") if kind == "essay" else ""
            self.project.session.files.bind(AI_SESSION if kind == "ai-session" else kind, root=root)
        self.project.session.tasks.add("First", id="t1")

    @property
    def places(self) -> dict[str, Path]:
        return {b.format: Path(b.place) for b in self.project.session.files.list()}

    @property
    def suspended(self) -> set[str]:
        return {b.format for b in self.project.session.files.list() if b.suspended}

    def held(self) -> dict[str, bytes]:
        return {kind: path.read_bytes() for kind, path in self.places.items()}

    def put(self, files: dict[str, bytes]) -> None:
        for kind, path in self.places.items():
            swap_in(path, files[kind])

    def work(self) -> None:
        """Run some commands, in more than one process; none of them may be slow."""
        session = self.project.session
        for act in (
            lambda: session.tasks.add("Meanwhile"),
            lambda: session.pause(),
            lambda: self.project.again().resume(),
            lambda: self.project.session.note("on"),
        ):
            began = time.process_time()
            act()
            assert time.process_time() - began < SLOW * len(KINDS)


@pytest.fixture
def five(make: Make) -> Five:
    return Five(make)


def around(five: Five) -> dict[str, bytes]:
    """Return every file outside the folders of the session and the home."""
    mine = {path.parent for path in five.places.values()}
    found = (path for path in five.project.base.rglob("*") if path.is_file())
    return {
        str(path): path.read_bytes()
        for path in found
        if not mine & set(path.parents) and five.project.base / "home" not in path.parents
    }


@pytest.mark.parametrize("harm", BAD)
def test_bad_file_is_left_alone_or_absorbed_and_the_session_continues(
    five: Five, harm: str
) -> None:
    good = five.held()
    bad = {kind: BAD[harm](data) for kind, data in good.items()}
    (five.project.folder / "other.txt").write_text("other")
    five.put(bad)
    before = around(five)
    five.work()
    now = five.held()
    for kind in five.suspended:
        assert now[kind] == bad[kind], kind
    assert all(now[kind] != bad[kind] for kind in set(KINDS) - five.suspended)
    index = str(five.project.index)
    assert {n: d for n, d in around(five).items() if n != index} == {
        n: d for n, d in before.items() if n != index
    }
    assert "Meanwhile" in five.project.titles() and leftovers(five.project.folder) == []
    five.put(good)
    five.project.session.note("mended")
    assert five.suspended == set(), five.project.notices[-5:]
    assert five.project.session.verify().ok


def _folder(path: Path, outside: Path) -> None:
    path.mkdir()


def _pipe(path: Path, outside: Path) -> None:
    os.mkfifo(path)


def _link(path: Path, outside: Path) -> None:
    path.symlink_to(outside)


def _dead_link(path: Path, outside: Path) -> None:
    path.symlink_to(outside.with_name("nowhere"))


def _gigabyte(path: Path, outside: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 30)


ODD = (_folder, _pipe, _link, _dead_link, _gigabyte)


@pytest.mark.parametrize("odd", ODD)
def test_irregular_or_huge_file_in_our_place_is_left_alone(
    five: Five, odd: Callable[[Path, Path], None]
) -> None:
    outside = five.project.base / "outside"
    outside.write_text("outside")
    for path in five.places.values():
        path.unlink()
        odd(path, outside)
    kinds = {kind: path.lstat().st_mode for kind, path in five.places.items()}
    five.work()
    assert {kind: path.lstat().st_mode for kind, path in five.places.items()} == kinds
    assert five.suspended == set(KINDS) and outside.read_text() == "outside"
    assert "Meanwhile" in five.project.titles()


@pytest.mark.parametrize("version", ["99", "99.0.0"])
def test_files_of_an_unsupported_version_are_never_changed(five: Five, version: str) -> None:
    ours = {"craft": b'"1.0.0"', "orchestrator": b'"1.0"', "ai-session": b'"1.0"'}
    theirs = {
        kind: data.replace(ours[kind], f'"{version}"'.encode(), 1) if kind in ours else data
        for kind, data in five.held().items()
    }
    five.put(theirs)
    five.work()
    five.project.session.decide("Use JWT")
    five.project.session.complete()
    five.project.home.doctor(fix=True)
    now = five.held()
    assert {kind: now[kind] for kind in ours} == {kind: theirs[kind] for kind in ours}
    assert five.suspended == set(ours)


# -- git -------------------------------------------------------------------------------------------


def test_no_format_is_read_or_written_during_a_rebase(make: Make) -> None:
    five = Five(make, git=True)
    project = five.project
    (project.folder / "x").write_text("base")
    project.git("add", "x")
    project.git("commit", "-qm", "base")
    for branch, text in (("other", "theirs"), ("main", "ours")):
        project.git("checkout", "-q", *(["-b", branch] if branch == "other" else [branch]))
        (project.folder / "x").write_text(text)
        project.git("commit", "-qam", text)
    subprocess.run(["git", "rebase", "other"], cwd=project.folder, capture_output=True)
    before = five.held()
    five.work()
    assert five.held() == before and five.suspended == set(KINDS)
    assert len(list(project.home.files.adopt(str(project.folder)))) == len(KINDS)
    assert five.held() == before
    project.git("rebase", "--abort")
    project.session.note("go on")
    assert five.suspended == set() and all(now != before[k] for k, now in five.held().items())


def test_switching_branches_is_not_an_edit_in_any_format(make: Make) -> None:
    five = Five(make, git=True)
    project = five.project
    project.git("add", "-Af", ".")
    project.git("commit", "-qm", "one")
    project.git("checkout", "-qb", "feature")
    project.again().tasks.add("Second")
    project.session.pause()
    project.git("commit", "-qam", "two")
    project.git("checkout", "-q", "main")
    project.session.resume()
    project.session.tasks.add("Third")
    project.session.pause()
    assert project.edits() == [] and five.suspended == set()
    assert project.titles()[-3:] == ["First", "Second", "Third"]
    for kind in ("craft", "orchestrator"):
        assert json.loads(five.held()[kind])["pending_tasks"] == ["First", "Second", "Third"]


# -- other writers ---------------------------------------------------------------------------------

# The file, one change in it, and the kind of the event that records the change.
THEIRS: dict[str, tuple[str, Callable[[Any], object], str]] = {
    "ai-session": (
        "implementation-plan.yaml",
        lambda v: v["phases"][0]["tasks"][0].update(description="Theirs"),
        "step.added",
    ),
    "praxis": ("", lambda v: v["lifecycle"].update(paused=True), "session.paused"),
    "craft": ("", lambda v: v["pending_tasks"].append("Theirs"), "step.added"),
    "essay": ("", lambda v: v.update(pushback_level="light"), "attribute.set"),
    "orchestrator": ("", lambda v: v["pending_tasks"].append("Theirs"), "step.added"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_change_of_a_stale_file_is_absorbed(five: Five, kind: str) -> None:
    project, (name, change, event) = five.project, THEIRS[kind]
    path = five.places[kind].with_name(name) if name else five.places[kind]
    stale = project.read(path)
    for number in range(6):
        project.session.tasks.add(f"More {number}")
    project.session.tasks.done("t1")
    change(stale)
    text = yaml.safe_dump(stale) if path.suffix == ".yaml" else json.dumps(stale, indent=2)
    swap_in(path, text.encode())
    project.session.note("next")
    assert project.kinds() == ["foreign.edited", event]
    assert {f"More {n}" for n in range(6)} <= set(project.titles())
    assert state_of(project.session).count("step.done") == 1 and project.disputes() == []
    for json_kind in ("craft", "orchestrator"):
        assert "More 5" in json.loads(five.held()[json_kind])["pending_tasks"]


@pytest.mark.parametrize("kind", KINDS)
def test_two_homes_on_one_file_absorb_each_others_edits(five: Five, kind: str) -> None:
    first = five.project
    with first.opened("other") as other:
        (adopted,) = other.files.adopt(str(five.places[kind]))
        second = other.session(adopted.session)
        assert adopted.bound
        for number in range(3):
            first.session.tasks.add(f"ours {number}")
            second.tasks.add(f"theirs {number}")
        first.session.pause()
        second.note("look")
        assert second.status().status == "paused"
        first.session.note("look")
        there = {getattr(row, "title", "") for row in state_of(second).rows.select("step")}
    wanted = {f"{who} {number}" for who in ("ours", "theirs") for number in range(3)}
    if kind not in ("praxis", "essay"):  # which have no field for a task
        assert wanted <= there and wanted <= set(first.titles())
    assert five.suspended == set() and first.disputes() == []


@pytest.mark.parametrize("kind", ["praxis", "craft"])
def test_ids_that_differ_only_in_case_are_one_place(five: Five, kind: str) -> None:
    other, before = five.project.home.start("another"), five.held()
    with pytest.raises((Refused, InvalidInput)):
        other.files.bind(f"{kind}:{five.places[kind].stem.upper()}")
    assert five.held() == before and other.files.list() == []


@pytest.mark.parametrize("kind", ["craft", AI_SESSION])
@pytest.mark.parametrize("grown", ["long", "wide"])
def test_largest_allowed_edit_is_absorbed_quickly(make: Make, kind: str, grown: str) -> None:
    project = make(kind)
    path = project.ai("state.yaml") if kind == AI_SESSION else project.place
    is_yaml = path.suffix == ".yaml"
    nodes = safe_parse.YAML_NODES if is_yaml else safe_parse.NODES
    most = safe_parse.LARGEST_YAML if is_yaml else safe_parse.LARGEST
    few, line = (
        range(nodes // (9 if is_yaml else 5)),
        "of something long, as logs are, that goes on and on",
    )
    wide = {f"k{n}": {"a": {"b": {"c": n}}} for n in few}
    long = [f"{n} {line}" for n in range(most // len(f"    '12345 {line}',\n"))]
    more = {"x_notes": wide if grown == "wide" else long}
    text = json.dumps(project.read(path) | more, indent=2)
    if is_yaml:
        text = path.read_text() + yaml.dump(more, Dumper=yaml.CSafeDumper)
    swap_in(path, text.encode())
    began = time.process_time()
    project.session.note("after it")
    assert time.process_time() - began < 60 and not project.suspended


@pytest.mark.parametrize("kind", ["orchestrator", "craft"])
@pytest.mark.parametrize("too_many", [False, True])
def test_edit_is_left_alone_only_if_it_has_too_many_elements(
    make: Make, kind: str, too_many: bool
) -> None:
    project = make(kind)
    tasks = [f"task {n}" for n in range(THINGS + 1 if too_many else THINGS // 2)]
    edited = json.dumps(project.read(project.place) | {"pending_tasks": tasks}, indent=2).encode()
    swap_in(project.place, edited)
    began = time.process_time()
    project.session.note("after it")
    assert time.process_time() - began < 60
    assert ("more than 5000 tasks" in project.suspended) == too_many
    assert (project.place.read_bytes() == edited) == too_many
    assert len(project.session.tasks.list()) == (0 if too_many else len(tasks))


def test_our_own_file_may_have_any_number_of_elements(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forestay.mirror.read_files.THINGS", 3)
    project = make("craft")
    for n in range(5):
        project.session.tasks.add(f"task {n}")
    project.again().tasks.add("from another process")
    assert not project.suspended
    assert project.read(project.place)["pending_tasks"][-1] == "from another process"
