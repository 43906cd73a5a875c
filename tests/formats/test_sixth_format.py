"""A sixth format is one folder: generic code binds, finds, adopts, checks and recovers it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import forestay
from forestay.api.forestay import Forestay
from forestay.base.clock import FakeClock
from forestay.formats import port
from forestay.formats.port import Where
from forestay.health import format_checks
from forestay.mirror import convert, discover

WHERE = Where(now=1_768_700_000_000)


@pytest.fixture(autouse=True)
def toy_is_registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(port.REGISTRY, "toy", ("tests.formats.toy.format", ".toy"))
    yield
    port.load_format.cache_clear()


@pytest.fixture
def stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Forestay]:
    monkeypatch.chdir(tmp_path)
    with forestay.open(str(tmp_path / "home"), clock=FakeClock()) as opened:
        yield opened


def toy_file(folder: Path) -> tuple[Path, dict[str, Any]]:
    (path,) = (folder / ".toy").glob("*.toy.json")
    return path, json.loads(path.read_text())


def test_session_bound_to_a_sixth_format_writes_and_absorbs_its_file(
    stay: Forestay, tmp_path: Path
) -> None:
    session = stay.start("Play", formats=["toy"])
    session.tasks.add("Build", id="t1")
    session.tasks.add("Test", id="t2")
    session.tasks.done("t1")
    path, value = toy_file(tmp_path)
    assert (value["aim"], value["finished"], value["open"]) == ("Play", ["Build"], ["Test"])

    path.write_text(json.dumps({**value, "mine": 1, "open": ["Test", "Ship"]}))
    session.note("absorb the edit")
    assert {task.title for task in session.tasks.list()} == {"Build", "Test", "Ship"}
    assert toy_file(tmp_path)[1]["mine"] == 1, "an unknown key survives"


@pytest.mark.parametrize("other", ["craft", "essay"])
def test_sixth_format_converts_to_another_and_back(
    stay: Forestay, tmp_path: Path, other: str
) -> None:
    session = stay.start("Play", formats=["toy"])
    session.tasks.add("Build", id="t1")
    path, value = toy_file(tmp_path)
    path.write_text(json.dumps({**value, "mine": [1, {"a": None}]}))

    there = convert.convert(str(path), other, WHERE)
    assert there.lost == []
    (made,) = convert.write(there, str(tmp_path / f"there{Path(next(iter(there.files))).suffix}"))
    back = convert.convert(made, "toy", WHERE)
    assert (back.format, back.native, back.lost) == ("toy", value["name"], [])
    assert json.loads(next(iter(back.files.values()))) == json.loads(path.read_text())


def write_toy(folder: Path, name: str, **changes: object) -> Path:
    folder.mkdir(exist_ok=True)
    value = {"name": name, "aim": "Play", "state": "active", "finished": [], "open": ["Build"]}
    path = folder / f"{name}.toy.json"
    path.write_text(json.dumps({**value, **changes}))
    return path


def test_files_of_a_sixth_format_are_found_adopted_and_bound(
    stay: Forestay, tmp_path: Path
) -> None:
    path = write_toy(tmp_path / ".toy", "t1")
    (tmp_path / ".toy" / "plan.txt").write_text("cut, glue")
    (tmp_path / "package.json").write_text('{"open": "source"}')
    assert stay.files.unadopted() == [str(tmp_path / ".toy")]
    (found,) = discover.find(str(tmp_path))
    assert (found.format_id, found.native, found.path) == ("toy", "t1", str(path))

    (adopted,) = stay.files.adopt()
    assert (adopted.outcome, adopted.bound, adopted.artifacts) == ("adopted", True, 1)
    assert stay.session(adopted.session).status().goal == "Play"
    (again,) = stay.files.adopt()
    assert (again.outcome, again.session, again.events) == ("known", adopted.session, 0)
    value = json.loads(path.read_text())
    path.write_text(json.dumps({**value, "open": ["Build", "Ship"]}))
    (edited,) = stay.files.adopt()
    assert (edited.outcome, edited.events > 0) == ("edited", True)


def test_files_of_a_sixth_format_are_checked(stay: Forestay, tmp_path: Path) -> None:
    path = write_toy(tmp_path / ".toy", "t2", state=5)
    (report,) = stay.files.check(str(tmp_path))
    assert (report.path, report.ok) == (str(path), False)
    assert any(finding.where == "state" for finding in report.findings)
    faulty = [each.file for each in format_checks.examine(stay.context)]
    assert faulty == [str(path)]


@pytest.mark.parametrize("data", [b'{"name": "t3", "aim": "Play", "op', b"\0\0"])
def test_damaged_file_of_a_sixth_format_is_found_and_recovered(
    stay: Forestay, tmp_path: Path, data: bytes
) -> None:
    path = write_toy(tmp_path / ".toy", "t3")
    path.write_bytes(data)
    (found,) = discover.find(str(tmp_path))
    assert (found.format_id, found.is_torn, found.faults[0].requirement) == ("toy", True, "T0-1")
    case = stay.files.recover(str(path))
    assert case is not None and (case.question is None) is (b"Play" in data)
    case = stay.files.recover(str(path), choose="fresh", fix=True)
    assert case is not None
    (kept,) = case.kept
    assert Path(kept).read_bytes() == data
    if b"Play" in data:
        assert json.loads(path.read_text())["aim"] == "Play"
    else:
        assert not path.exists()


def test_damaged_file_of_our_session_in_a_sixth_format_is_restored_from_the_journal(
    stay: Forestay, tmp_path: Path
) -> None:
    session = stay.start("Play", formats=["toy"])
    session.tasks.add("Build", id="t1")
    path, value = toy_file(tmp_path)
    path.write_bytes(b"{")
    (finding,) = format_checks.examine(stay.context)
    assert (finding.code, finding.fixable) == ("files-damaged", True)
    session.files.restore()
    assert toy_file(tmp_path)[1]["open"] == value["open"] == ["Build"]
