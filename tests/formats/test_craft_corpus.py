"""What is read in real craft files: one reviewed row per file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import forestay.formats.craft
from forestay.formats.craft.format import FORMAT
from forestay.formats.port import Where
from tests.corpus import CORPUS, needs_corpus

HERE = Where(now=1, device="here", project_path="/here", naive="utc")

pytestmark = needs_corpus

SEED, COMPANION = "seed-complete-example.json", "companion-resume-md-example.json"
SETTINGS = "companion-teleport-config.json"

# File → how surely, generation, version, complete, status, progress.
READINGS = {
    SEED: (1.0, "document", "1.0.0", False, "active", 0.65),
    COMPANION: (0.8, "companion", "", False, "active", 0.65),
}
# File → every finding, in order: code, severity, where.
STYLE, MISSING = "stamp-style warning", "missing-key warning"
FINDINGS = {
    SEED: [
        "not-uuid warning session_id",
        "not-sha256 warning files_modified[0].hash_after",
        "unknown-agent warning context_usage.by_agent.test-1",
    ],
    COMPANION: [
        "missing-key error schema_version",
        f"{MISSING} $schema",
        f"{MISSING} decisions_made",
        "bad-session-id error session_id",
        f"{STYLE} created_at",
        f"{STYLE} updated_at",
        f"{MISSING} agents[0].progress",
        f"{MISSING} agents[0].blocking_on",
        f"{MISSING} agents[0].error",
        f"{MISSING} agents[0].output_summary",
        f"{MISSING} agents[0].artifacts",
        f"{STYLE} agents[0].started_at",
        f"{STYLE} agents[0].completed_at",
        f"{MISSING} agents[1].completed_at",
        f"{MISSING} agents[1].duration_seconds",
        f"{MISSING} agents[1].result",
        f"{MISSING} agents[1].error",
        f"{MISSING} agents[1].output_summary",
        f"{MISSING} agents[1].artifacts",
        "unknown-word error agents[1].status",
        f"{STYLE} agents[1].started_at",
        "bare-path error files_modified[0]",
        "bare-path error files_modified[1]",
        f"{MISSING} context_usage.compression_count",
        f"{MISSING} context_usage.by_agent",
        f"{MISSING} teleportation.sync_error",
        f"{MISSING} teleportation.storage_backend",
        f"{MISSING} teleportation.encrypted",
        f"{MISSING} teleportation.shared_with",
        f"{STYLE} teleportation.last_sync",
    ],
}


def load(name: str) -> dict[str, Any]:
    return {name: json.loads((CORPUS / "2" / name).read_text("utf-8"))}


def test_expected_results_are_listed_for_every_craft_file_of_the_corpus() -> None:
    there = {path.name for path in (CORPUS / "2").glob("*.json")}
    assert there == {*READINGS, SETTINGS}
    assert READINGS.keys() == FINDINGS.keys()


@pytest.mark.req("S2-82")
@pytest.mark.parametrize("name", READINGS)
def test_each_corpus_file_gives_the_reading_listed_for_it(name: str) -> None:
    tree = load(name)
    reading = FORMAT.reading(tree, HERE)
    row = (reading.generation, reading.version, reading.complete, reading.status, reading.progress)
    assert (round(FORMAT.recognise(name, tree[name]), 1), *row) == READINGS[name]
    assert reading.writable
    assert FORMAT.put(tree, FORMAT.get(tree, HERE), HERE) == load(name)


@pytest.mark.req("S2-9", "S2-21", "S2-61")
@pytest.mark.parametrize("name", FINDINGS)
def test_each_corpus_file_gives_the_findings_listed_for_it(name: str) -> None:
    findings = FORMAT.check(load(name), HERE)
    assert [f"{f.code} {f.severity} {f.where}" for f in findings] == FINDINGS[name]
    assert all(f.requirement for f in findings)


@pytest.mark.req("S2-82", "S2-44", "S2-83")
def test_complete_example_is_read_in_full() -> None:
    facts = FORMAT.get(load(SEED), HERE)
    assert [(a.id, a.status, a.fraction) for a in facts.agents] == [
        ("arch-1", "done", 1.0),
        ("code-1", "running", 0.6),
    ]
    assert [step.status for step in facts.steps] == ["done"] * 2 + ["pending"] * 3
    assert [decision.chosen for decision in facts.decisions] == ["Hybrid (JWT + refresh tokens)"]
    assert [(f.path, f.action, f.added) for f in facts.files] == [
        ("src/auth/oauth.ts", "created", 127)
    ]
    assert facts.tokens == sum(facts.tokens_by_agent.values()) == 25_000


@pytest.mark.req("S2-82", "S2-85")
def test_complete_example_satisfies_the_published_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schemas = Path(forestay.formats.craft.__file__).parent
    published = json.loads((schemas / "session-state-v1.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(published).validate(load(SEED)[SEED])


def test_example_of_the_companion_program_gives_its_agents_and_files() -> None:
    facts = FORMAT.get(load(COMPANION), HERE)
    assert [agent.status for agent in facts.agents] == ["done", "running"]
    assert [f.path for f in facts.files] == ["src/auth/oauth.ts", "src/middleware/auth.ts"]


@pytest.mark.parametrize("folder, names", [("2", [SETTINGS]), ("4", None), ("1", None)])
def test_files_of_other_kinds_are_not_read_as_sessions(
    folder: str, names: list[str] | None
) -> None:
    paths = [CORPUS / folder / name for name in names] if names else []
    for path in paths or (CORPUS / folder).rglob("*.json"):
        assert FORMAT.recognise(path.name, json.loads(path.read_text("utf-8"))) == 0.0, path.name
