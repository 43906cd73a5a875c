"""Workflows by name and path: which one is found, what is refused, and the folders of praxis."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from forestay.errors import Damaged, InvalidInput
from forestay.model.gates.gate import judge
from forestay.model.plan import Field, Task, from_snapshot, snapshot
from forestay.plans import workflows
from tests import corpus

CORPUS = corpus.CORPUS / "1" / "workflows"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    (made / ".forestay/workflows").mkdir(parents=True)
    return made


def put(root: Path, name: str, text: str) -> Path:
    path = root / ".forestay/workflows" / name
    path.write_text(text)
    return path


# -- names -------------------------------------------------------------------------------------


def test_workflows_of_the_project_come_before_built_in_ones(root: Path) -> None:
    assert workflows.find("feature", str(root)).source == "feature (built in)"
    put(root, "feature.yaml", "{workflow: feature, phases: [Ours]}")
    found = workflows.find("feature", str(root))
    assert [phase.name for phase in found.phases] == ["Ours"]
    assert found.source == ".forestay/workflows/feature.yaml"


def test_a_path_is_the_file_itself(root: Path, tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("{workflow: elsewhere, phases: [One]}")
    assert workflows.find(str(tmp_path / "other.yaml"), str(root)).name == "elsewhere"


def test_every_workflow_is_listed_and_a_faulty_one_with_its_fault(root: Path) -> None:
    put(root, "good.yaml", "{workflow: good, title: Good, base: 0, phases: [One, Two]}")
    put(root, "bad.yaml", "workflow: bad\nphases: 3")
    put(root, "free.yml", "{workflow: free, each: More}")
    put(root, "notes.txt", "not a workflow")
    listed = {each.name: each for each in workflows.available(str(root))}
    assert list(listed) == ["bad", "free", "good", "essay", "feature", "spec-execution"]
    assert listed["bad"].error == "line 2: phases is a list, not a number"
    good = listed["good"]
    assert (good.title, good.base, good.phases, good.error) == ("Good", 0, 2, "")
    assert listed["free"].phases is None and not listed["free"].built_in
    assert listed["essay"].built_in and listed["essay"].phases == 4


def test_faulty_workflow_is_refused_with_its_first_fault(root: Path) -> None:
    path = put(root, "bad.yaml", "workflow: bad\nphases: 3")
    with pytest.raises(Damaged, match="line 2: phases is a list") as caught:
        workflows.find("bad", str(root))
    assert caught.value.hint == f"see them all: forestay workflow check {path}"


def test_a_file_name_must_equal_the_workflow_name(root: Path) -> None:
    put(root, "a.yaml", "workflow: b")
    with pytest.raises(Damaged, match="its name is b, but its file is called a"):
        workflows.find("a", str(root))


@pytest.mark.parametrize("name", ["", "..", "../x", "a/../../x", "x\0y", "x" * 65, "-x", "a b"])
def test_invalid_name_of_a_workflow_is_refused(root: Path, name: str) -> None:
    with pytest.raises(InvalidInput):
        workflows.find(name, str(root))


def test_an_unknown_name_is_refused_with_a_suggestion(root: Path) -> None:
    with pytest.raises(InvalidInput, match="no workflow essai") as caught:
        workflows.find("essai", str(root))
    assert caught.value.hint == "did you mean essay?"
    with pytest.raises(InvalidInput) as caught:
        workflows.find("zzz", str(root))
    assert caught.value.hint == "forestay workflow list"


def test_a_link_out_of_the_project_is_not_followed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.yaml").write_text("workflow: link")
    (root / ".forestay/workflows/link.yaml").symlink_to(tmp_path / "secret.yaml")
    with pytest.raises(InvalidInput, match="leads out of the project"):
        workflows.find("link", str(root))
    listed = {each.name: each for each in workflows.available(str(root))}
    assert "leads out" in listed["link"].error
    put(root, "real.yaml", "workflow: inner")
    (root / ".forestay/workflows/inner.yaml").symlink_to("real.yaml")
    assert workflows.find("inner", str(root)).name == "inner"


@pytest.mark.parametrize("kind", ["fifo", "folder", "large", "unreadable"])
def test_unreadable_workflow_file_is_refused(root: Path, kind: str) -> None:
    path = root / ".forestay/workflows/x.yaml"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "large":
        path.write_bytes(b"#" * (512 * 1024 + 1))
    else:
        path.write_bytes(b"\xff\xff")
    with pytest.raises((InvalidInput, Damaged)):
        workflows.find("x", str(root))
    assert any(each.error for each in workflows.available(str(root)) if each.name == "x")


# -- new ---------------------------------------------------------------------------------------


def test_new_workflow_is_a_valid_example(root: Path) -> None:
    path = Path(workflows.new("release", str(root)))
    assert path == root / ".forestay/workflows/release.yaml"
    assert not workflows.check(str(path)).findings
    assert workflows.find("release", str(root)).name == "release"
    text = path.read_text()
    for key in (
        "base:",
        "unit:",
        "expiry:",
        "effort:",
        "outputs:",
        "strict:",
        "override:",
        "each:",
    ):
        assert key in text


def test_commented_lines_of_the_example_are_valid_too(root: Path) -> None:
    lines = Path(workflows.new("release", str(root))).read_text().split("\n")
    shown = [
        line.replace("# ", "", 1) if line.lstrip().startswith("# ") and ":" in line else line
        for line in lines[4:]
        if "What it is for" not in line and "description" not in line
    ]
    path = put(root, "all.yaml", "\n".join(shown).replace("release", "all"))
    found = workflows.check(str(path))
    assert found.findings == [] and found.workflow is not None
    assert found.workflow.total is None and found.workflow.expiry.abandon_hours == 168


def test_a_copied_workflow_has_the_comments_and_the_new_name(root: Path) -> None:
    path = Path(workflows.new("mine", str(root), origin="spec-execution"))
    assert path.read_text().startswith("# Six phases, counted from 0")
    made, was = workflows.find("mine", str(root)), workflows.find("spec-execution", str(root))
    assert made.name == "mine"
    assert [phase.name for phase in made.phases] == [phase.name for phase in was.phases]


def test_a_new_workflow_never_replaces_another(root: Path) -> None:
    path = put(root, "mine.yaml", "workflow: mine")
    with pytest.raises(InvalidInput, match="already"):
        workflows.new("mine", str(root))
    assert path.read_text() == "workflow: mine"
    put(root, "yours.yml", "workflow: yours")
    with pytest.raises(InvalidInput, match="already"):
        workflows.new("yours", str(root))
    workflows.new("feature", str(root))
    assert workflows.find("feature", str(root)).source == ".forestay/workflows/feature.yaml"


def test_nothing_is_written_outside_the_project(tmp_path: Path) -> None:
    (tmp_path / "away").mkdir()
    project = tmp_path / "project"
    project.mkdir()
    (project / ".forestay").symlink_to(tmp_path / "away")
    with pytest.raises(InvalidInput, match="leads out"):
        workflows.new("x", str(project))
    with pytest.raises(InvalidInput):
        workflows.new("../x", str(project))
    assert not list((tmp_path / "away").iterdir())


# -- praxis ------------------------------------------------------------------------------------

METADATA: dict[str, Any] = {
    "workflow_type": "release_v1",
    "version": "1.2.0",
    "name": "Release",
    "description": "To the world",
    "total_phases": 2,
    "estimated_duration": "1 day",
    "primary_outputs": ["a release"],
    "phases": [
        {
            "phase_number": 0,
            "phase_name": "Prepare",
            "purpose": "Know what is in it",
            "estimated_effort": "1 hour",
            "key_deliverables": ["a list"],
            "validation_criteria": ["complete"],
            "tasks": [{"task_number": 1, "name": "list", "file": "t.md", "purpose": "to know"}],
        },
        {"phase_number": 1, "phase_name": "Publish", "task_execution": {}},
    ],
    "dynamic_phases": False,
    "dynamic_config": {"source_type": "x", "templates": {}, "parser": "y"},
    "something": "else",
}
GATE = """
checkpoint: {strict: true, allow_override: false}
evidence_schema:
  listed: {type: boolean, required: true, description: all is listed}
  count: {type: integer, validator: positive, validator_params: {least: 1}}
  notes: {type: string, required: false, validator: missing}
  odd: {type: tuple, required: false}
validators:
  positive: "lambda x: x > 0"
cross_field_validation:
  - {rule: "lambda e: e['count'] > 0 or not e['listed']", error_message: "nothing is listed"}
"""


def praxis(root: Path, metadata: dict[str, Any], gates: dict[int, str] | None = None) -> Path:
    folder = root / ".praxis-os/workflows" / str(metadata.get("workflow_type", "x"))
    folder.mkdir(parents=True)
    (folder / "metadata.json").write_text(json.dumps(metadata))
    for number, text in (gates or {}).items():
        (folder / "phases" / str(number)).mkdir(parents=True)
        (folder / "phases" / str(number) / "gate-definition.yaml").write_text(text)
    return folder


@pytest.mark.req("X1-3")
def test_a_folder_of_praxis_is_a_workflow(root: Path) -> None:
    folder = praxis(root, METADATA, {0: GATE})
    made = workflows.find("release_v1", str(root))
    assert workflows.find(str(folder), str(root)) == made
    assert workflows.find(str(folder / "metadata.json"), str(root)) == made
    assert (made.name, made.version, made.title) == ("release_v1", "1.2.0", "Release")
    assert (made.description, made.total, made.base) == ("To the world", 2, 0)
    prepare, publish = made.phases
    assert (prepare.number, prepare.name, prepare.effort) == (0, "Prepare", "1 hour")
    assert prepare.purpose == "Know what is in it"
    assert prepare.tasks == [Task("list", purpose="to know")]
    assert (publish.number, publish.name, publish.gate) == (1, "Publish", None)
    assert "release_v1" in [each.name for each in workflows.available(str(root))]


@pytest.mark.req("X1-8")
def test_a_praxis_gate_checks_types_and_shows_its_rules(root: Path) -> None:
    folder = praxis(root, METADATA, {0: GATE})
    checked = workflows.check(str(folder), str(root))
    assert checked.workflow is not None
    gate = checked.workflow.phases[0].gate
    assert gate is not None and gate.strict and not gate.override
    assert gate.source == ".praxis-os/workflows/release_v1/phases/0/gate-definition.yaml"
    assert gate.fields == [
        Field("listed", "boolean", description="all is listed"),
        Field("count", "integer"),
        Field("notes", "string", required=False),
        Field("odd", "any", required=False),
    ]
    assert gate.opaque == [
        'count: lambda x: x > 0 with {"least": 1}',
        "notes: missing",
        "lambda e: e['count'] > 0 or not e['listed'] (nothing is listed)",
    ]
    codes = [finding.code for finding in checked.findings]
    assert codes == ["bad-type", "opaque-rule", "opaque-rule", "opaque-rule"]
    judged = judge(gate, {"listed": True, "count": -1}, at="")
    assert judged.checkpoint_passed and len(judged.warnings) == 3
    assert not judge(gate, {"listed": "yes", "count": 1}, at="").checkpoint_passed


@pytest.mark.req("X1-8")
def test_a_gate_of_praxis_may_only_warn(root: Path) -> None:
    praxis(root, METADATA, {0: GATE.replace("strict: true", "strict: false")})
    gate = workflows.find("release_v1", str(root)).phases[0].gate
    judged = judge(gate, {}, at="")
    assert judged.checkpoint_passed and judged.warnings[0] == "listed is missing"


@pytest.mark.req("X1-3")
def test_later_phases_are_made_from_the_pattern(root: Path) -> None:
    phases = [
        {"phase_number": 0, "phase_name": "Analysis"},
        {"phase_number": "1-N", "phase_name": "Implementation", "purpose": "Do it"},
    ]
    metadata = {"workflow_type": "spec", "total_phases": "dynamic", "phases": phases}
    praxis(root, metadata, {0: "checkpoint: {}", 2: "evidence_schema: {done: {type: boolean}}"})
    made = workflows.find("spec", str(root))
    assert (made.total, made.base) == (None, 0)
    seventh = made.phase(7)
    assert seventh is not None
    assert (seventh.number, seventh.name, seventh.gate) == (7, "Implementation", None)
    second = made.phase(2)
    assert second is not None and second.gate is not None
    assert (second.name, second.purpose) == ("Implementation", "Do it")
    assert [field.name for field in second.gate.fields] == ["done"]


@pytest.mark.req("X1-4")
@pytest.mark.parametrize("folders, base", [([0, 1], 0), ([1, 2], 1), ([], 0)])
def test_first_phase_is_the_lowest_one_with_a_folder(
    root: Path, folders: list[int], base: int
) -> None:
    praxis(root, METADATA, dict.fromkeys(folders, "checkpoint: {}"))
    assert workflows.find("release_v1", str(root)).base == base


@pytest.mark.parametrize(
    "change, code",
    [
        ({"phases": "none"}, "wrong-type"),
        ({"phases": [{"phase_name": "x"}]}, "bad-number"),
        ({"phases": [{"phase_number": True}]}, "bad-number"),
        ({"phases": [{"phase_number": 1}, {"phase_number": 1}]}, "duplicate-number"),
        ({"total_phases": -1}, "bad-total"),
        ({"total_phases": "many"}, "bad-total"),
    ],
)
def test_a_faulty_praxis_definition_is_reported(
    root: Path, change: dict[str, Any], code: str
) -> None:
    folder = praxis(root, {**METADATA, **change})
    checked = workflows.check(str(folder))
    assert checked.workflow is None and code in [each.code for each in checked.findings]


def test_total_that_differs_from_the_listed_phases_is_reported(root: Path) -> None:
    folder = praxis(root, {**METADATA, "total_phases": 5})
    checked = workflows.check(str(folder))
    assert checked.workflow is not None and checked.workflow.total == 5
    assert [each.code for each in checked.findings] == ["other-total"]


def test_phase_beyond_the_total_is_reported(root: Path) -> None:
    phases = [{"phase_number": number, "phase_name": "x"} for number in (0, 5)]
    checked = workflows.check(str(praxis(root, {**METADATA, "phases": phases})))
    assert checked.workflow is not None and checked.workflow.total == 2
    (reported,) = checked.findings
    assert (reported.code, reported.severity) == (
        "out-of-range",
        "warning",
    ) and "5" in reported.what


@pytest.mark.parametrize(
    "gate",
    [
        "evidence_schema: [1]\nvalidators: 3\ncheckpoint: x\ncross_field_validation: {}",
        'evidence_schema: {"": {}, "\\e[31m": {type: 3}, x: null, y: {validator: [1]}}',
        f"evidence_schema: {{x: {{validator: v, validator_params: {{n: {'9' * 3000}}}}}}}",
        "cross_field_validation: [1, null, {rule: [1]}, {error_message: x}]",
    ],
)
def test_odd_gate_file_is_read_as_far_as_possible(root: Path, gate: str) -> None:
    folder = praxis(root, METADATA, {0: gate})
    made = workflows.check(str(folder)).workflow
    assert made is not None and from_snapshot(snapshot(made)) == made
    assert all(field.name for phase in made.phases if phase.gate for field in phase.gate.fields)


def test_a_part_of_a_gate_file_without_effect_is_reported_by_line(root: Path) -> None:
    gate = "evidence_schema: [a]\nvalidators: 3\ncheckpoint: x\ncross_field_validation: {a: 1}\n"
    folder = praxis(root, METADATA, {0: gate, 1: "evidence_schema:\n  a: {type: list}\n  b: 3\n"})
    reported = workflows.check(str(folder)).findings
    assert {(each.code, each.severity) for each in reported} == {("wrong-type", "warning")}
    assert sorted(each.line for each in reported) == [1, 2, 3, 3, 4]


def test_very_many_faults_are_reported_quickly(root: Path) -> None:
    path = put(root, "x.yaml", "workflow: x\n" + "".join(f"k{n}: 1\n" for n in range(20_000)))
    began = time.perf_counter()
    assert len(workflows.check(str(path)).findings) == 100
    assert time.perf_counter() - began < 60


def test_a_faulty_gate_file_is_named_by_line(root: Path) -> None:
    folder = praxis(root, METADATA, {0: "checkpoint:\n  strict: true\n bad"})
    (finding,) = workflows.check(str(folder)).findings
    assert finding.line == 3 and finding.file.endswith("phases/0/gate-definition.yaml")


def test_link_out_of_a_praxis_folder_is_reported(root: Path, tmp_path: Path) -> None:
    folder = praxis(root, METADATA, {0: "{}"})
    (tmp_path / "secret").write_text("evidence_schema: {secret: {type: string}}")
    gate = folder / "phases/0/gate-definition.yaml"
    gate.unlink()
    gate.symlink_to(tmp_path / "secret")
    assert [each.code for each in workflows.check(str(folder)).findings] == ["link-out"]


def test_copy_of_a_praxis_workflow_is_in_our_format(root: Path) -> None:
    praxis(root, METADATA, {0: GATE})
    text = Path(workflows.new("mine", str(root), origin="release_v1")).read_text()
    assert text.startswith("# Left out of phase 0: count: lambda x: x > 0 with")
    made = workflows.find("mine", str(root))
    assert [phase.name for phase in made.phases] == ["Prepare", "Publish"]
    theirs = workflows.find("release_v1", str(root)).phases[0].gate
    assert made.base == 0 and made.phases[0].gate is not None and theirs is not None
    assert made.phases[0].gate.fields == theirs.fields
    assert [field.name for field in theirs.fields] == ["listed", "count", "notes", "odd"]


@corpus.needs_corpus
@pytest.mark.req("X1-3", "X1-4")
@pytest.mark.parametrize(
    "name, total, listed, gates",
    [
        ("praxis_os_upgrade_v1", 6, 6, 6),
        ("spec_creation_v1", 6, 6, 6),
        ("spec_execution_v1", None, 1, 1),
        ("standards_creation_v1", 6, 6, 0),
        ("workflow_creation_v1", 7, 7, 6),
    ],
)
def test_real_workflows_are_read(name: str, total: int | None, listed: int, gates: int) -> None:
    checked = workflows.check(str(CORPUS / name))
    made = checked.workflow
    assert made is not None and not checked.findings
    assert (made.name, made.total, made.base, len(made.phases)) == (name, total, 0, listed)
    assert sum(phase.gate is not None for phase in made.phases) == gates
    assert (made.pattern is None) == (total is not None)
    for phase in made.phases:
        judged = judge(phase.gate, {}, at="")
        assert judged.checkpoint_passed and bool(judged.warnings) == (phase.gate is not None)
