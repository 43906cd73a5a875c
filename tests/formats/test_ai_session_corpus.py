"""The `ai-session` format on real files: per file, what is read and exactly what is found.

The files are not part of the project; where they are absent these tests are skipped.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from forestay.formats.ai_session import contract
from forestay.formats.ai_session.format import FORMAT, report
from forestay.formats.ai_session.salvage import salvage_index
from forestay.formats.port import Tree, Where
from forestay.formats.text.document import Document
from forestay.formats.text.safe_parse import Unreadable
from tests import corpus

CORPUS = corpus.CORPUS / "0"
SEED = CORPUS.parents[1] / "spec" / "seeds" / "S0-ai-session-contract.md"
WHERE = Where(now=1_794_771_152_000, naive="utc")
FEATURE = "ai-orchestrator-2025-01-09"

pytestmark = corpus.needs_corpus

STATE, PLAN = "state.yaml", "implementation-plan.yaml"
LOG, INDEX = "history.jsonl", "active-features.yaml"


class Row(NamedTuple):
    path: str
    name: str
    """Which file of the format it is."""
    parses: bool = True
    bad_lines: int = 0
    generation: str = "contract"
    complete: bool | None = False
    status: str = "active"
    progress: float | None = None
    codes: tuple[str, ...] = ()


TABLE = [
    Row("seed-examples/state.yaml", STATE),
    Row("seed-examples/history.jsonl", LOG),
    Row(
        "seed-examples/implementation-plan.template.yaml",
        PLAN,
        progress=0.0,
        codes=("placeholder",) * 5,
    ),
    Row(
        "seed-examples/active-features.template.yaml",
        INDEX,
        complete=None,
        status="",
        codes=("placeholder",),
    ),
    Row(
        "generated/valid/state.status-in-current_state.yaml",
        STATE,
        generation="companion",
        complete=True,
        status="completed",
        codes=("status-in-state",),
    ),
    Row(f"generated/session-tree/{FEATURE}/state.yaml", STATE),
    Row(
        f"generated/session-tree/{FEATURE}/implementation-plan.yaml",
        PLAN,
        progress=0.5,
        codes=("missing-key",) * 7,
    ),
    Row("generated/broken/state.truncated-empty.yaml", STATE, parses=False),
    Row("generated/broken/state.status-misindented.yaml", STATE, parses=False),
    Row("generated/broken/active-features.flow-seq.yaml", INDEX, parses=False),
    Row("generated/broken/active-features.after-cleanup-orphan-fields.yaml", INDEX, parses=False),
    Row("generated/session-tree/active-features.yaml", INDEX, parses=False),
    Row(
        f"generated/session-tree/{FEATURE}/history.jsonl",
        LOG,
        bad_lines=5,
        generation="companion",
        codes=("missing-key",) * 4 + ("duration-implausible",),
    ),
]
PARSING = [row for row in TABLE if row.parses]


def document(row: Row) -> Document:
    return Document.parse((CORPUS / row.path).read_bytes(), row.name.rpartition(".")[2])


def parsed(row: Row) -> Any:
    return document(row).value


def name_of(row: Row) -> str:
    return row.path.rpartition("/")[2]


@pytest.mark.req("S0-37", "S0-79")
@pytest.mark.parametrize("row", TABLE, ids=name_of)
def test_each_corpus_file_is_parsed_or_reported_as_unreadable(row: Row) -> None:
    if row.parses:
        assert len(document(row).bad) == row.bad_lines
    else:
        with pytest.raises(Unreadable):
            parsed(row)


@pytest.mark.req("S0-78", "S0-79", "S0-88")
@pytest.mark.parametrize("row", PARSING, ids=name_of)
def test_each_corpus_file_gives_the_reading_and_findings_listed_for_it(row: Row) -> None:
    value = parsed(row)
    tree: Tree = {row.name: value}
    reading = FORMAT.reading(tree, WHERE)
    assert reading.format == "ai-session"
    assert reading.generation == row.generation
    assert (reading.complete, reading.status) == (row.complete, row.status)
    assert reading.progress == row.progress
    codes = sorted(finding.code for finding in FORMAT.check(tree, WHERE))
    assert codes == sorted(row.codes)
    assert FORMAT.recognise(row.name, value) >= 0.8


@pytest.mark.parametrize("row", PARSING, ids=name_of)
def test_writing_back_the_facts_of_a_corpus_file_changes_nothing(row: Row) -> None:
    tree: Tree = {row.name: parsed(row)}
    assert json.dumps(FORMAT.put(tree, FORMAT.get(tree, WHERE), WHERE)) == json.dumps(tree)


def test_expected_results_are_listed_for_every_corpus_file_of_the_format() -> None:
    names = (STATE, PLAN, LOG, INDEX)
    stems = tuple(name.partition(".")[0] for name in names)
    held = (path for path in CORPUS.rglob("*") if path.is_file())
    ours = {str(path.relative_to(CORPUS)) for path in held if path.name.startswith(stems)}
    assert ours == {row.path for row in TABLE}


# --- broken files ------------------------------------------------------------------------------


def salvage(path: str, name: str) -> Any:
    found = FORMAT.salvage({name: (CORPUS / path).read_bytes()}, WHERE)
    assert found is not None
    return found


@pytest.mark.req("S0-85")
def test_misindented_state_is_salvaged_completely() -> None:
    found = salvage("generated/broken/state.status-misindented.yaml", STATE)
    assert (found.facts.native_id, found.facts.status) == ("payment-api-2025-01-10", "completed")
    assert (found.inferred, found.lost) == ([], [])


@pytest.mark.req("S0-47", "S0-79")
def test_entries_of_broken_indexes_are_salvaged() -> None:
    def ids(path: str) -> tuple[list[str], int]:
        index, lost = salvage_index((CORPUS / path).read_bytes())
        assert all(entry["status"] == "active" for entry in index["active_features"])
        return [entry["feature_id"] for entry in index["active_features"]], len(lost)

    assert ids("generated/broken/active-features.flow-seq.yaml") == (
        ["doomed-2025-01-11", "payment-api-2025-01-10", FEATURE],
        0,
    )
    orphans = "generated/broken/active-features.after-cleanup-orphan-fields.yaml"
    assert ids(orphans) == ([FEATURE], 1)
    assert ids("generated/session-tree/active-features.yaml") == ([FEATURE], 0)


@pytest.mark.req("S0-85", "X0-10")
def test_broken_log_is_salvaged_with_all_its_commands() -> None:
    found = salvage(f"generated/session-tree/{FEATURE}/history.jsonl", LOG)
    names = [command.name for command in found.facts.commands]
    assert names == ["plan", "plan", "implement", "implement", "implement", "review"]
    assert found.facts.commands[1].arguments == 'Handle the "quoted" prompt'
    assert found.facts.commands[4].status == "failure"
    assert 'boom "quoted" failure' in found.facts.commands[4].error
    assert (found.facts.native_id, found.facts.model) == (FEATURE, "opus")
    assert found.inferred[:2] == [
        "history.jsonl: line 5 is not JSON; single fields were read",
        "history.jsonl: line 12 is not JSON; single fields were read",
    ]
    assert found.lost == []


@pytest.mark.req("S0-85")
def test_tree_with_broken_index_and_log_is_salvaged_completely() -> None:
    root = CORPUS / "generated/session-tree"
    bundle = {name: (root / name).read_bytes() for name in FORMAT.files(FEATURE)}
    found = FORMAT.salvage(bundle, WHERE)
    assert found is not None
    facts = found.facts
    assert (facts.native_id, facts.goal, facts.position) == (FEATURE, "Write parser", "T1.2")
    assert [(step.id, step.status) for step in facts.steps] == [
        ("P1", "pending"),
        ("T1.1", "done"),
        ("T1.2", "running"),
    ]
    assert len(facts.commands) == 6
    emptied = FORMAT.salvage(bundle | {f"{FEATURE}/state.yaml": b""}, WHERE)
    assert emptied is not None
    assert emptied.facts.position == "T1.2"
    assert emptied.facts.model == "opus"
    assert emptied.facts.began_at == facts.began_at
    shown = report(FORMAT.put(None, facts, WHERE), WHERE)
    assert (shown.tasks_done, shown.tasks_total, shown.failures) == (1, 2, 1)


@pytest.mark.req("S0-45")
def test_nanoseconds_in_the_log_are_reported() -> None:
    found = salvage(f"generated/session-tree/{FEATURE}/history.jsonl", LOG)
    tree = FORMAT.put(None, found.facts, WHERE)
    codes = [finding.code for finding in FORMAT.check(tree, WHERE)]
    assert codes == ["duration-implausible"]


@pytest.mark.req("S0-85")
def test_empty_state_alone_gives_no_facts() -> None:
    assert FORMAT.salvage({STATE: b""}, WHERE) is None


# --- the contract ------------------------------------------------------------------------------


@pytest.mark.req("S0-99", "X0-9")
def test_acknowledgment_in_the_corpus_is_valid_for_the_original_contract() -> None:
    text = (CORPUS / "generated/valid/contract-acknowledgment.md").read_text()
    (given,) = contract.parse(text)
    assert (given.agent, given.version, given.pledged) == ("agent-1", "1.0", True)
    assert given.checksum == contract.ORIGINAL_SHA256
    assert (given.start, given.end) == (0, len(text))
    assert contract.checksum(SEED.read_bytes()) == contract.ORIGINAL_SHA256
    assert contract.verify(text, "agent-1", SEED.read_bytes()).findings == []
    assert contract.verify(text, "agent-1", contract.shipped()).ok
    assert not contract.verify(text, "agent-1", SEED.read_bytes() + b"\n").ok
