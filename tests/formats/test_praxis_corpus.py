"""What is read in real praxis files: one reviewed row per file.

The number of phases that a workflow's definition gives is handed in where there is one, as
`classification.json` notes it; what that file states about each session is compared with the table.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from forestay.formats.port import Tree, Where
from forestay.formats.praxis.api_types import WorkflowState
from forestay.formats.praxis.format import FORMAT
from forestay.formats.praxis.read import View
from forestay.formats.to_events import adoption_moves
from forestay.model.fold import extend
from forestay.model.state import State
from tests import corpus
from tests.histories import next_event

CORPUS = corpus.CORPUS / "1"

pytestmark = corpus.needs_corpus

OLD = ("legacy-format", "naive-stamp")
UNKNOWN = ("legacy-format", "total-unknown", "naive-stamp")
PAST = ("legacy-format", "naive-stamp", "current-out-of-range")
OVERRUN = (*PAST, "overrun")
CONTRADICTIONS = (
    "completed-but-failed",
    "completed-but-pending",
    "completed-without-end",
    "complete-not-flagged",
)

# File → generation, complete, status, progress in hundredths, findings.
Row = tuple[str, bool, str, int | None, tuple[str, ...]]
OCT_08: dict[str, Row] = {
    "00e6d3b2-c4c1-4c6b-9ca8-56da29c8efa9": ("legacy", False, "active", None, UNKNOWN),
    "084cae7d-4d31-41f1-9542-d928c5c3a6cb": ("legacy", False, "active", 0, OLD),
    "12d6e99f-1cc8-4aae-9d36-e1b393a97dd6": ("legacy", False, "active", 0, OLD),
    "17184ce1-e1ae-4853-abd0-b78dc27e9d39": ("legacy", False, "active", None, UNKNOWN),
    "3402b54b-669a-405e-8f5a-9ed15de6672d": ("legacy", False, "active", None, UNKNOWN),
    "4be9c315-21fe-4a75-82d1-299e39ebb2f7": ("legacy", False, "active", None, UNKNOWN),
    "56d1d65c-bf77-4593-b201-b5b76f767a6d": ("legacy", False, "active", None, UNKNOWN),
    "5790a428-c03b-4810-b93c-9cf7a3a004b0": ("legacy", False, "active", None, UNKNOWN),
    "78974205-ada1-444a-979a-a48a101221f3": ("legacy", True, "completed", 100, OVERRUN),
    "7f27d095-2969-48b7-a67f-c46ea48aac49": ("legacy", False, "active", None, UNKNOWN),
    "9721b92b-959c-4814-b492-175919d72989": ("legacy", False, "active", 0, OLD),
    "97eb0855-1369-42d1-b66e-ce24050cd37c": ("legacy", False, "active", 0, OLD),
    "b6501395-55db-4c5e-823a-0e3327b136fc": ("legacy", False, "active", 0, OLD),
    "bafe866c-c22c-48a2-97fb-fa3cf887225e": ("legacy", False, "active", None, UNKNOWN),
    "d0f98daf-8d46-419f-b730-37efa57e4a8b": ("legacy", False, "active", None, UNKNOWN),
    "d56664be-adf0-4ccd-b711-1ed69288afc8": ("legacy", False, "active", None, UNKNOWN),
    "df84593c-ba81-4349-aa41-d93fa527076f": ("legacy", False, "active", None, UNKNOWN),
    "e5ae0473-e251-489f-8ae4-de1c84ac255f": ("legacy", False, "active", 0, OLD),
    "f42f1b3b-3c77-4de4-8395-00b4fd5ef8c2": ("legacy", False, "active", 0, OLD),
    "f4de8f2e-c485-4255-80d1-85a679ce716a": ("legacy", False, "active", None, UNKNOWN),
    "old-state-dir__ed5481fe-7334-427c-bea4-c8e6103a592b": (
        "legacy",
        False,
        "active",
        None,
        UNKNOWN,
    ),
}
OCT_27: dict[str, Row] = {
    "062f24e7-6fdc-40b3-a2d8-7ffaea6351b6": ("legacy-total", True, "completed", 100, PAST),
    "1ec2c575-729c-44a2-a8b8-31409068cb68": ("legacy-total", False, "active", 0, OLD),
    "1fc3c1c4-a94d-4823-8b4f-dce597252225": ("legacy-total", True, "completed", 100, OVERRUN),
    "61e24eb6-7c13-4e7c-b0cc-5a6c9347b6e1": ("legacy-total", False, "active", 0, OLD),
    "6bc23573-0698-4044-8063-5bf2aa32d101": ("legacy", False, "active", 33, OLD),
    "d89a34b3-5536-40c6-bcb9-15cc1aced0c6": ("legacy", False, "active", 33, OLD),
    "f01b7f5f-d981-4b69-82a4-acc34e16b2fc": ("legacy-total", True, "completed", 100, PAST),
    # These two are not classified, so the number of phases is not given.
    "earlier-version/062f24e7-6fdc-40b3-a2d8-7ffaea6351b6": (
        "legacy-total",
        True,
        "completed",
        100,
        PAST,
    ),
    "earlier-version/d89a34b3-5536-40c6-bcb9-15cc1aced0c6": (
        "legacy",
        False,
        "active",
        None,
        UNKNOWN,
    ),
}
NOVEMBER: dict[str, Row] = {
    "active/workflow_default_109d397f-b3dc-4dda-a455-48b425dc7c23": (
        "ouroboros-timed",
        False,
        "active",
        None,
        UNKNOWN,
    ),
    "active/workflow_default_3b4b4046-8cce-4235-a3c8-653854da9a53": (
        "ouroboros",
        False,
        "active",
        0,
        OLD,
    ),
    "completed/workflow_default_005f838e-62a2-4922-a05f-3962698e3a06": (
        "ouroboros-timed",
        True,
        "completed",
        100,
        UNKNOWN,
    ),
    "error/workflow_default_2e9c3d28-62b6-4372-9cd0-8c34c98765eb": (
        "ouroboros-timed",
        False,
        "failed",
        None,
        ("legacy-format", "total-unknown", "deleted-by-hand", "naive-stamp"),
    ),
}
EXAMPLE: Row = ("redesign", True, "completed", 100, CONTRADICTIONS)
TABLE: dict[str, Row] = {
    **{f"legacy-2025-10-08/{name}.json": row for name, row in OCT_08.items()},
    **{f"legacy-2025-10-27/{name}.json": row for name, row in OCT_27.items()},
    **{f"ouroboros-2025-11/{name}.json": row for name, row in NOVEMBER.items()},
    "seed-proposed-example.stripped.json": EXAMPLE,
}


def classified() -> dict[str, dict[str, Any]]:
    rows = json.loads((CORPUS / "classification.json").read_text(encoding="utf-8"))
    return {row["file"].removeprefix("1/"): row for row in rows}


def load(name: str) -> Tree:
    return {Path(name).name: json.loads((CORPUS / name).read_text(encoding="utf-8"))}


def surroundings(name: str) -> Where:
    return Where(total=classified().get(name, {}).get("workflow_metadata_total"))


@pytest.mark.parametrize("name", TABLE)
def test_each_corpus_file_gives_the_reading_and_findings_listed_for_it(name: str) -> None:
    tree, where = load(name), surroundings(name)
    reading = FORMAT.reading(tree, where)
    progress = None if reading.progress is None else int(reading.progress * 100)
    codes = tuple(finding.code for finding in FORMAT.check(tree, where))
    result = (reading.generation, reading.complete, reading.status, progress, codes)
    assert result == TABLE[name]
    assert reading.writable == (reading.generation == "redesign")


def test_expected_results_are_listed_for_every_praxis_session_of_the_corpus() -> None:
    files = {path.relative_to(CORPUS).as_posix() for path in CORPUS.rglob("*.json")}
    others = ("classification.json", "workflows/", "ouroboros-2025-11/browser/")
    assert {name for name in files if not name.startswith(others)} == set(TABLE)


def test_completeness_and_findings_agree_with_the_classification_file_of_the_corpus() -> None:
    for name, row in classified().items():
        tree, where = load(name), surroundings(name)
        codes = {finding.code for finding in FORMAT.check(tree, where)}
        complete = bool(row["superset_rule"]) or row["stored_status"] == "completed"
        assert FORMAT.reading(tree, where).complete is complete, name
        assert ("overrun" in codes) == row["overrun"], name
        assert ("current-out-of-range" in codes) == row["current_out_of_range"], name


def test_finished_legacy_session_is_complete_at_its_last_phase() -> None:
    name = "legacy-2025-10-27/062f24e7-6fdc-40b3-a2d8-7ffaea6351b6.json"
    (value,) = load(name).values()
    assert FORMAT.reading(load(name), Where()).complete
    assert WorkflowState.from_dict(value).is_complete()
    assert FORMAT.get(load(name), Where()).position == "phase-5"


@pytest.mark.parametrize("name", TABLE)
def test_writing_back_the_facts_of_a_corpus_file_changes_nothing(name: str) -> None:
    tree, where = load(name), surroundings(name)
    again = FORMAT.put(tree, FORMAT.get(tree, where), where)
    assert json.dumps(again) == json.dumps(load(name))


@pytest.mark.parametrize("name", [name for name in TABLE if name != list(TABLE)[-1]])
def test_redesigned_form_of_each_corpus_file_has_the_same_facts(name: str) -> None:
    tree, where = load(name), surroundings(name)
    new = FORMAT.in_current_form(tree, where)
    before, after = FORMAT.get(tree, where), FORMAT.get(new, where)
    if before.status == "failed":
        # Only a completion has an end in this form; what failed is paused since then.
        before.paused_at, before.ended_at = before.ended_at, None
    assert after == before
    assert FORMAT.reading(new, where).writable
    assert [f for f in FORMAT.check(new, where, strict=True) if f.severity == "error"] == []
    assert tree == load(name)


def test_workflow_state_class_reads_and_writes_every_corpus_file_of_its_generations() -> None:
    for name in TABLE:
        (value,) = load(name).values()
        again = WorkflowState.from_dict(value).to_dict()
        assert {key: again[key] for key in value} == value, name


@pytest.mark.parametrize(
    "name",
    [
        "ouroboros-2025-11/browser/test_session_1.json",
        "classification.json",
        "workflows/spec_execution_v1/metadata.json",
    ],
)
def test_other_files_of_the_same_program_are_not_sessions(name: str) -> None:
    (value,) = load(name).values()
    assert FORMAT.recognise(name, value) == 0


def test_file_torn_anywhere_gives_everything_before_the_damage() -> None:
    data = (CORPUS / list(TABLE)[-1]).read_bytes()
    whole = FORMAT.get(load(list(TABLE)[-1]), Where())
    for length in range(250, len(data), 37):
        saved = FORMAT.salvage({"x.json": data[:length]}, Where())
        assert saved is not None
        assert saved.facts.native_id == whole.native_id
        assert saved.inferred and (saved.lost or length > 1_300)


def _is_of_a_workflow(path: Path) -> bool:
    value = json.loads(path.read_text(encoding="utf-8"))
    known = FORMAT.recognise(path.name, value) >= 0.5
    return known and bool(FORMAT.get({"": value}, Where(now=0)).workflow)


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(CORPUS.rglob("*.json")) if _is_of_a_workflow(path)],
    ids=lambda path: path.stem[:24],
)
def test_adopted_session_is_at_the_phase_in_its_file(path: Path) -> None:
    value = json.loads(path.read_text(encoding="utf-8"))
    where = Where(now=1_800_000_000_000)
    state = State()
    for number, move in enumerate(adoption_moves(FORMAT.get({"": value}, where), "praxis")):
        common = {"session": "s", "device": "d", "actor": "file:praxis", "salt": bytes(16)}
        at, id = move.at or 0, f"e{number}"
        _, event = next_event(state.core, move.body, id=id, at=at, **common)  # type: ignore[arg-type]
        extend(state, event)
    assert state.core.phase == View({"": value}, where).position
