"""A sixth format is one folder: generic code binds, absorbs, converts and checks it unchanged."""

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
from forestay.mirror import convert

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
    assert (back.layout, back.native, back.lost) == ("toy", value["name"], [])
    assert json.loads(next(iter(back.files.values()))) == json.loads(path.read_text())


def test_files_of_a_sixth_format_are_adopted_and_checked(stay: Forestay, tmp_path: Path) -> None:
    folder = tmp_path / ".toy"
    folder.mkdir()
    value = {"name": "t1", "aim": "Play", "state": "active", "finished": [], "open": ["Build"]}
    (folder / "t1.toy.json").write_text(json.dumps(value))
    (adopted,) = stay.files.adopt(str(folder / "t1.toy.json"))
    assert adopted.session
    del value["state"]
    (folder / "t2.toy.json").write_text(json.dumps({**value, "name": "t2", "state": 5}))
    findings = [
        each for one in stay.files.check(str(folder / "t2.toy.json")) for each in one.findings
    ]
    assert any(finding.where == "state" for finding in findings)
