"""Files that somebody made to do harm: what they say leads nowhere, and nobody waits for it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast import found
from holdfast.layout import tree
from tests.layouts import IDS, MAIN, ORCHESTRATOR, fill, snapshot
from tests.surface.support import Answer, Cli

PATIENCE = 5.0


@pytest.fixture(autouse=True)
def _own_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(found, "ESSAY_ROOTS", (str(tmp_path / "tmp"),))


def forged(project: Path, extra: dict[str, Any], **more: Any) -> Path:
    """The file of another program with this under the key of what is carried."""
    fill(project, kinds=["orchestrator"])
    path = project / "in.json"
    value = json.loads((project / ORCHESTRATOR).read_text())
    path.write_text(json.dumps({**value, **more, "holdfast": {"v": 1, **extra}}))
    return path


def quickly(cli: Cli, *words: str) -> Answer:
    began = time.process_time()
    answer = cli(*words)
    assert time.process_time() - began < PATIENCE
    return answer


# -- conversion writes where it is told to -----------------------------------------------------


@pytest.mark.parametrize("name", ["../../evil.json", "{out}/../evil.json", ".profile"])
def test_what_is_carried_names_no_other_file(
    cli: Cli, project: Path, tmp_path: Path, name: str
) -> None:
    out = project / "out"
    out.mkdir()
    entry = {"id": IDS["craft"], "rest": {"add": {name.format(out=out): {"x": 1}}}}
    forged(project, {"from": {"craft": entry}})
    before = snapshot(tmp_path)
    cli.ok("convert", "in.json", "--to", "craft", "-o", "out")
    made = snapshot(tmp_path).keys() - before.keys()
    assert {Path(path).name for path in made if "/home/" not in path} == {f"{IDS['craft']}.json"}


@pytest.mark.parametrize("id", ["../../evil", "/{out}/evil", "../evil"])
def test_an_id_that_was_carried_and_is_a_path_is_not_used(cli: Cli, project: Path, id: str) -> None:
    (project / "out").mkdir()
    forged(project, {"from": {"craft": {"id": id.format(out=project)}}})
    (path,) = cli.json("convert", "in.json", "--to", "craft", "-o", "out")["files"]
    assert (project / path).resolve().parent == project / "out"


@pytest.mark.parametrize("kind", ["craft", "ai-session"])
def test_an_id_that_is_a_path_makes_no_file_elsewhere(
    cli: Cli, project: Path, tmp_path: Path, kind: str
) -> None:
    fill(project, kinds=[kind])
    old = project / MAIN[kind]
    path = project / f"in{old.suffix}"
    path.write_text(old.read_text().replace(IDS[kind], "../../evil"))
    (project / "out").mkdir()
    refused = cli("convert", path.name, "--to", kind, "-o", "out")
    assert refused.code == 2 and "leads out" in refused.err and "--id" in refused.err
    assert not list(tmp_path.rglob("evil*"))
    cli.ok("convert", path.name, "--to", kind, "-o", "out", "--id", IDS[kind])


# -- what was carried and cannot be ------------------------------------------------------------


def _huge() -> dict[str, Any]:
    return {"in": {"steps": {"n": 10**15, "at": [[7, "x", {"add": {}}]]}}}


def _repeated() -> dict[str, Any]:
    return {"add": {f"k{i}": 1 for i in range(10_000)}, "order": ["goal"] * 200_000}


def _many_new() -> dict[str, Any]:
    return {"in": {"steps": {"n": 0, "new": [[-1, "", f"a{i}"] for i in range(20_000)]}}}


@pytest.mark.parametrize("facts", [_huge, _repeated, _many_new])
def test_what_is_carried_keeps_nobody_waiting(cli: Cli, project: Path, facts: Any) -> None:
    tasks = [f"task {i}" for i in range(1000)]
    forged(project, {"facts": facts()}, pending_tasks=tasks)
    assert quickly(cli, "convert", "in.json", "--to", "craft", "-o", "out.json").code == 0


@pytest.mark.parametrize(
    "manner",
    [
        {"style": {"step": 10**8}},
        {"style": {"dash": 10**8}},
        {"at": {"/original_idea": {"s": ["DIGEST", [[9, 0, ""]] * 60_000]}}},
    ],
)
def test_manners_that_were_carried_fill_no_memory(
    cli: Cli, project: Path, manner: dict[str, Any]
) -> None:
    text = json.dumps(manner).replace("DIGEST", tree.digest("Add login", 6))
    entry = {"id": IDS["essay"], "manner": {"session-state.yaml": json.loads(text)}}
    forged(project, {"from": {"essay": entry}})
    assert quickly(cli, "convert", "in.json", "--to", "essay", "-o", "out.yaml").code == 0
    assert (project / "out.yaml").stat().st_size < 100_000


@pytest.mark.parametrize(
    "facts",
    [
        {"in": {"status": {"was": "active", "now": "bogus"}}, "add": {"status": "bogus"}},
        {"in": {"steps": {"n": 2, "new": [[-1, "", {"title": "x", "status": "bogus"}]]}}},
        {"in": {"agents": {"n": 1, "new": [[-1, "", {"id": "x", "status": "bogus"}]]}}},
    ],
)
def test_a_status_that_was_carried_and_is_none_is_left_out(
    cli: Cli, project: Path, facts: dict[str, Any]
) -> None:
    forged(project, {"facts": facts})
    cli.ok("convert", "in.json", "--to", "craft", "-o", "out.json")
    (one,) = cli.json("adopt", "in.json")["adopted"]
    assert one["outcome"] == "adopted"
    assert cli.json("status", "--session", one["session"])["status"] == "active"
