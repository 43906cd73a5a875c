"""Real files through the commands: `check` and `adopt` report what the tables list.

The reviewed tables are those of the formats' own tests; the files are not part of the project.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import forestay
from forestay.api.forestay import Forestay
from forestay.formats import carry_over
from forestay.mirror.session_files import mirror_of
from forestay.model.state import State
from tests.cli.support import Cli
from tests.corpus import CORPUS, needs_corpus
from tests.formats import test_ai_session_corpus as ai_session
from tests.formats import test_craft_corpus as craft
from tests.formats import test_essay_corpus as essay
from tests.formats import test_orchestrator_corpus as orchestrator
from tests.formats import test_praxis_corpus as praxis
from tests.homes import state_of

WORKFLOWS = str(CORPUS / "1" / "workflows")

pytestmark = needs_corpus

# A row lists: format, generation, complete, status, progress, finding codes.
Said = tuple[str, str, bool | None, str, float | None, tuple[str, ...]]


def _rows() -> Iterator[tuple[str, Said]]:
    for name, row in praxis.TABLE.items():
        generation, complete, status, hundredths, codes = row
        progress = None if hundredths is None else float(hundredths)
        yield f"1/{name}", ("praxis", generation, complete, status, progress, codes)
    for name, seen in craft.READINGS.items():
        found = tuple(line.split()[0] for line in craft.FINDINGS[name])
        yield f"2/{name}", ("craft", seen[1], seen[3], seen[4], seen[5] * 100, found)
    for name, essay_row in essay.TABLE.items():
        yield f"3/{name}", ("essay", *essay_row[:3], essay_row[3] * 100, essay_row[4])
    for name, read in orchestrator.READINGS.items():
        found = tuple(line.split()[0] for line in orchestrator.FINDINGS[name])
        yield f"4/{name}", ("orchestrator", read[1], read[3], read[4], read[5] * 100, found)
    for each in ai_session.TABLE:
        if each.parses and not each.bad_lines:
            hundred = None if each.progress is None else each.progress * 100
            rest = (each.generation, each.complete, each.status, hundred, each.codes)
            yield f"0/{each.path}", ("ai-session", *rest)


TABLE: dict[str, Said] = dict(_rows())
BROKEN = [f"0/{row.path}" for row in ai_session.TABLE if not row.parses or row.bad_lines]


OTHERS = {
    "0/generated/valid/contract-acknowledgment.md",
    "1/classification.json",
    "1/ouroboros-2025-11/browser/test_session_1.json",
    "2/companion-teleport-config.json",
}
"""Beside the files of sessions; of a tree's folder and of the workflows, whatever is there."""


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setenv("FORESTAY_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return Cli()


def options(name: str, tmp_path: Path) -> list[str]:
    """The definition of a workflow is handed in where the classification had one."""
    row = praxis.classified().get(name.removeprefix("1/"), {})
    if not row.get("workflow_metadata_total"):
        return []
    folder = tmp_path / "workflows" / row["workflow_type"]
    folder.mkdir(parents=True, exist_ok=True)
    total = {"total_phases": row["workflow_metadata_total"]}
    (folder / "metadata.json").write_text(json.dumps(total))
    return ["--workflows", str(folder.parent)]


def alone(name: str) -> bool:
    """Files of a folder are recognised by their place in it, too."""
    return "session-tree" not in name


def test_expected_results_are_listed_for_every_file_of_the_corpus() -> None:
    kinds = [str(number) for number in range(5)]
    every = (path for kind in kinds for path in (CORPUS / kind).rglob("*") if path.is_file())
    names = {str(path.relative_to(CORPUS)) for path in every}
    known = {*TABLE, *BROKEN, *OTHERS}
    apart = ("1/workflows/", "0/generated/session-tree/")
    assert {name for name in names - known if not name.startswith(apart)} == set()
    assert known <= names | {name for name in known if name.startswith(apart)}


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_corpus_files_that_are_not_sessions_are_reported_as_unknown_format(
    cli: Cli, name: str
) -> None:
    answer = cli("--json", "files", "check", str(CORPUS / name))
    assert [finding["code"] for finding in answer.json["findings"]] == ["unknown-format"]
    assert answer.code == 5


@pytest.mark.parametrize("name", [name for name in TABLE if alone(name)])
def test_check_reports_the_findings_listed_for_each_corpus_file(
    cli: Cli, tmp_path: Path, name: str
) -> None:
    answer = cli("--json", "files", "check", str(CORPUS / name), *options(name, tmp_path))
    stated = answer.json
    codes = tuple(finding["code"] for finding in stated["findings"])
    _require_read(stated, name)
    assert codes == TABLE[name][-1]
    severe = any(finding["severity"] == "error" for finding in stated["findings"])
    assert answer.code == (5 if severe else 0)
    assert all(finding["message"] and finding["requirement"] for finding in stated["findings"])


def _require_read(stated: dict[str, Any], name: str) -> None:
    shown = None if stated["progress"] is None else int(stated["progress"] * 100 + 1e-9)
    format_id, generation, complete, status, progress, _ = TABLE[name]
    assert (stated["format"], stated["generation"] or "") == (format_id, generation)
    assert (stated["complete"], stated["status"] or "") == (complete, status)
    assert shown == (None if progress is None else int(progress + 1e-9))


@pytest.mark.parametrize("name", BROKEN)
def test_broken_corpus_file_is_reported_and_salvaged(cli: Cli, name: str) -> None:
    path = CORPUS / name
    answer = cli("--json", "files", "check", str(path))
    assert answer.code == 5
    assert answer.json["format"] == "ai-session"
    assert answer.json["findings"][0]["severity"] == "error"
    reported = cli("--json", "adopt", str(path)).json["adopted"]
    assert all(one["problems"] for one in reported)


@pytest.mark.parametrize("name", [name for name in TABLE if alone(name)])
def test_adopt_records_the_status_listed_for_each_corpus_file(
    cli: Cli, tmp_path: Path, name: str
) -> None:
    path = CORPUS / name
    before = path.read_bytes()
    (one,) = cli("--json", "adopt", str(path), *options(name, tmp_path)).json["adopted"]
    _, _, complete, status, _, codes = TABLE[name]
    _require_read(one, name)
    if "placeholder" in codes:
        assert one["outcome"] == "template" and one["session"] is None
        return
    assert one["outcome"] == "adopted" and not one["bound"]
    with forestay.open(str(tmp_path / "home"), trust_env=False) as stay:
        state = state_of(stay.session(one["session"]))
        assert state.core.status == (status or "active")
        assert (state.core.status == "completed") is bool(complete)
        _require_told(stay, path, state, tmp_path)
    (again,) = cli("--json", "adopt", str(path), *options(name, tmp_path)).json["adopted"]
    assert (again["outcome"], again["events"]) == ("known", 0)
    assert path.read_bytes() == before


def _require_told(stay: Forestay, path: Path, state: State, tmp_path: Path) -> None:
    """The content of the file is recorded: every step, agent, decision, checkpoint and error."""
    from forestay.mirror import discover
    from forestay.mirror.check_files import Surroundings

    (one,) = discover.find(str(path))
    folder = tmp_path / "workflows"
    where = Surroundings(mirror_of(stay.context).where, str(folder) if folder.is_dir() else "").of(
        one
    )
    facts = carry_over.read(one.format, one.tree, where)

    def count(table: str) -> int:
        return len(list(state.rows.select(table)))

    # Tokens of an agent that the file does not list make it one all the same.
    assert count("agent") == len({agent.id for agent in facts.agents} | {*facts.tokens_by_agent})
    assert count("decision") == len(facts.decisions)
    titles: list[Any] = list(state.rows.select("step"))
    assert len(titles) == len(facts.steps)
    assert {step.title for step in facts.steps} <= {row.title for row in titles}


def test_whole_corpus_is_adopted_at_once(cli: Cli) -> None:
    reported = cli.json("adopt", str(CORPUS), "--workflows", WORKFLOWS)["adopted"]
    outcomes = [one["outcome"] for one in reported]
    assert outcomes.count("rival") == 2 and outcomes.count("unreadable") == 0
    again = cli.json("adopt", str(CORPUS), "--workflows", WORKFLOWS)["adopted"]
    assert [o["outcome"] for o in again] == [w.replace("adopted", "known") for w in outcomes]
    tree = next(one for one in reported if one["format"] == "ai-session")
    assert tree["outcome"] == "adopted" and tree["problems"]


def test_check_reports_a_finished_legacy_praxis_session_as_complete(cli: Cli) -> None:
    (path,) = (CORPUS / "1/legacy-2025-10-27").glob("062f24e7*.json")
    stated = cli.json("files", "check", str(path))
    assert stated["complete"] is True and stated["status"] == "completed"
