"""What is read in real orchestrator files: one reviewed row per file."""

from __future__ import annotations

import json
from typing import Any

import pytest

from forestay.formats.orchestrator.format import FORMAT
from forestay.formats.port import Where
from tests.corpus import CORPUS, needs_corpus

HERE = Where(now=1, device="here", project_path="/here", naive="utc")

pytestmark = needs_corpus

SEED, AITERM = "seed-example.json", "aiterm__dogfood-persistence-test.json"

# File → how surely, generation, version, complete, status, progress, writable.
READINGS = {
    SEED: (1.0, "document", "1.0", False, "active", 0.6, True),
    AITERM: (0.7, "aiterm", "", True, "completed", 1.0, False),
}
# File → every finding, in order: code, severity, where.
FINDINGS = {
    SEED: [],
    AITERM: [
        "missing-key error schema_version",
        "missing-key error created",
        "missing-key warning updated",
        "missing-key warning project",
        "missing-key warning mode",
        "missing-key warning agents",
        "missing-key warning decisions_made",
        "missing-key warning context_usage",
        "missing-key warning errors",
        "odd-session-id warning session_id",
        "foreign-word warning status",
        "unknown-key info pattern",
        "alias-key warning started_at",
        "alias-key warning paused_at",
        "alias-key warning resumed_at",
        "alias-key warning completed_at",
        "alias-key warning project_path",
        *(f"bare-text error completed_work[{n}]" for n in range(5)),
        "alias-key warning files_modified",
        "unknown-key info test_results",
    ],
}


def load(name: str) -> dict[str, Any]:
    return {name: json.loads((CORPUS / "4" / name).read_text("utf-8"))}


def test_expected_results_are_listed_for_every_orchestrator_file_of_the_corpus() -> None:
    assert {path.name for path in (CORPUS / "4").glob("*.json")} == READINGS.keys()
    assert READINGS.keys() == FINDINGS.keys()


@pytest.mark.parametrize("name", READINGS)
def test_each_corpus_file_gives_the_reading_listed_for_it(name: str) -> None:
    tree = load(name)
    reading = FORMAT.reading(tree, HERE)
    row = (reading.generation, reading.version, reading.complete, reading.status, reading.progress)
    surely = round(FORMAT.recognise(name, tree[name]), 1)
    assert (surely, *row, reading.writable) == READINGS[name]
    assert FORMAT.put(tree, FORMAT.get(tree, HERE), HERE) == load(name)


@pytest.mark.req("S4-7", "S4-8")
@pytest.mark.parametrize("name", FINDINGS)
def test_each_corpus_file_gives_the_findings_listed_for_it(name: str) -> None:
    findings = FORMAT.check(load(name), HERE)
    assert [f"{f.code} {f.severity} {f.where}" for f in findings] == FINDINGS[name]


@pytest.mark.req("S4-9", "S4-11", "S4-14", "S4-24", "S4-25", "S4-34")
def test_example_equals_a_new_file_with_its_facts() -> None:
    tree = load(SEED)
    assert FORMAT.put(None, FORMAT.get(tree, HERE), HERE) == {
        "orchestrator-session.json": tree[SEED]
    }


def test_real_file_is_read() -> None:
    facts = FORMAT.get(load(AITERM), HERE)
    times = (facts.began_at, facts.paused_at, facts.resumed_at, facts.ended_at)
    assert times == (1766871000000, 1766871120000, 1766871900000, 1766872080000)
    assert facts.project_path == "/Users/dt/projects/dev-tools/aiterm"
    assert [step.status for step in facts.steps] == ["done"] * 5
    assert [f.path for f in facts.files] == ["src/aiterm/cli/main.py", "tests/test_cli.py"]


@pytest.mark.parametrize("folder", ["1", "2"])
def test_files_of_other_kinds_are_not_read_as_sessions(folder: str) -> None:
    for path in (CORPUS / folder).rglob("*.json"):
        assert FORMAT.recognise(path.name, json.loads(path.read_text("utf-8"))) == 0.0, path.name
