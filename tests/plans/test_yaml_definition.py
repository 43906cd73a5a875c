"""Our format of a definition: short forms, findings by line, and a schema that agrees."""

from __future__ import annotations

import copy
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forestay.formats.text.document import Document, fresh
from forestay.model.gates.gate import judge
from forestay.model.plan import (
    Expiry,
    Field,
    Gate,
    Phase,
    Rule,
    Task,
    Workflow,
    from_snapshot,
    snapshot,
)
from forestay.plans import workflows, yaml_definition

SHIPPED = Path(yaml_definition.__file__).parent / "shipped"
BUILT_IN = sorted(SHIPPED.glob("*.yaml"))
SCHEMA: Any = import_module("jsonschema").Draft202012Validator(json.loads(workflows.schema()))

# Findings of the reader that a schema cannot express.
BEYOND = {
    "bad-pattern",
    "bad-rule",
    "unknown-field",
    "contradiction",
    "duplicate-id",
    "no-gate",
    "same-name",
}


def read(text: str | bytes) -> Workflow:
    data = text if isinstance(text, bytes) else text.encode()
    made, findings = yaml_definition.read(data, "x.yaml")
    assert made is not None, findings
    return made


def codes(text: str | bytes) -> list[tuple[str, int]]:
    data = text if isinstance(text, bytes) else text.encode()
    return [(each.code, each.line) for each in yaml_definition.read(data, "x.yaml")[1]]


def test_every_short_form_equals_its_long_form() -> None:
    short = """
workflow: release
version: 2
base: 0
expiry: {pause: 90m, abandon: 7d}
phases:
  - name: Build
    tasks: [Write it, {id: t2, name: Test it}]
    evidence:
      tests: observed
      coverage: {min: 80}
      reviewed: true
      level: 3
      notes: string
      tag: {matches: 'v\\d+'}
      word: {equals: go, required: false}
    rules: [coverage > level]
  - Ship
each: More
"""
    fields = [
        Field("tests", "boolean", observed=True),
        Field("coverage", "number", min=80),
        Field("reviewed", "boolean", equals=True),
        Field("level", "number", equals=3),
        Field("notes", "string"),
        Field("tag", "string", matches=r"v\d+"),
        Field("word", "string", equals="go", required=False),
    ]
    gate = Gate(fields=fields, rules=[Rule("coverage > level")], source="x.yaml, line 9")
    tasks = [Task("Write it"), Task("Test it", "t2")]
    assert read(short) == Workflow(
        name="release",
        version="2",
        base=0,
        total=None,
        phases=[Phase(0, "Build", tasks=tasks, gate=gate), Phase(1, "Ship")],
        pattern=Phase(2, "More"),
        expiry=Expiry(1.5, 168),
        source="x.yaml",
    )


def test_total_is_the_number_of_listed_phases_unless_a_pattern_adds_more() -> None:
    assert read("{workflow: a, phases: [One, Two]}").total == 2
    assert read("workflow: a").total == 0
    assert read("{workflow: a, each: One}").total is None


@pytest.mark.parametrize("path", BUILT_IN, ids=lambda path: path.stem)
def test_built_in_workflow_is_valid_and_described(path: Path) -> None:
    made, findings = yaml_definition.read(path.read_bytes(), "here", name=path.stem)
    assert made is not None and not findings
    SCHEMA.validate(Document.parse(path.read_bytes(), "yaml").value)
    assert from_snapshot(snapshot(made)) == made
    assert made.title and made.description
    for phase in made.phases:
        assert phase.purpose and phase.tasks and phase.gate and phase.gate.fields


def test_built_in_workflows_are_these_four() -> None:
    found = {path.stem: read(path.read_bytes()) for path in BUILT_IN}
    assert {name: (each.total, each.base, each.unit) for name, each in found.items()} == {
        "free": (0, 1, "phase"),
        "essay": (4, 1, "stage"),
        "spec-execution": (6, 0, "phase"),
        "feature": (4, 1, "phase"),
    }
    assert [phase.name for phase in found["essay"].phases] == [
        *("Thesis Development", "Essay Structuring"),
        *("Argument Development", "Paragraph Writing"),
    ]
    assert found["essay"].expiry == Expiry(24, 168)
    names = [phase.name for phase in found["spec-execution"].phases]
    assert names[:3] == ["Planning", "Setup", "Implementation"]


def test_specified_example_of_evidence_is_judged_as_specified() -> None:
    implementation = read((SHIPPED / "spec-execution.yaml").read_bytes()).phase(2)
    assert implementation is not None
    evidence = {"tests_passing": 42, "tests_total": 45, "coverage": 65}
    judged = judge(implementation.gate, evidence, at="", phase=2)
    assert judged.errors == ["coverage is 65, at least 80 is wanted", "not all tests pass"]
    evidence = {"tests_passing": 45, "tests_total": 45, "coverage": 81}
    assert judge(implementation.gate, evidence, at="", phase=2).checkpoint_passed


# -- findings ----------------------------------------------------------------------------------

HEAD = "workflow: a\nphases:\n  - name: One\n"

GOOD = {
    "least": "workflow: a",
    "nothing in it": "{workflow: a, title: null, phases: null, each: null, expiry: null}",
    "format": "{workflow: a, format: 1, version: 1.0.0}",
    "map of a field": HEAD + "    evidence: {x: {type: list, min: 1, description: some}}",
    "advice only": HEAD + "    evidence: {x: any}\n    strict: false\n    override: false",
    "outputs": HEAD + "    outputs: [docs/a.md, 'stage-*.md']",
    "long text": f"workflow: a\ndescription: |\n  {'word ' * 500}\n  and more",
    "nulls in a field": HEAD + "    evidence: {x: {type: null, min: null, equals: null}}",
    "aliases": "workflow: a\nphases:\n  - {name: One, tasks: &t [x]}\n  - {name: Two, tasks: *t}",
}
BAD = {
    "not a map": ("[workflow]", [("wrong-type", 1), ("missing-key", 1)]),
    "no name": ("phases: [One]", [("missing-key", 1)]),
    "a name that escapes": ("workflow: ../a", [("bad-text", 1)]),
    "a device": ("workflow: NUL", [("bad-text", 1)]),
    "a number for a name": ("workflow: 12", [("bad-text", 1)]),
    "another format": ("workflow: a\nformat: 2", [("newer-format", 2)]),
    "a slip": ("workflow: a\nphase: [One]", [("unknown-key", 2)]),
    "a slip in a phase": (HEAD + "    evidense: {}", [("unknown-key", 4)]),
    "a slip in a task": (HEAD + "    tasks:\n      - {name: x, due: y}", [("unknown-key", 5)]),
    "a slip in a field": (HEAD + "    evidence: {x: {minimum: 1}}", [("unknown-key", 4)]),
    "a slip in a rule": (HEAD + "    rules: [{check: 1 == 1, msg: x}]", [("unknown-key", 4)]),
    "a slip in expiry": ("workflow: a\nexpiry:\n  after: 1h", [("unknown-key", 3)]),
    "a version that is a float": ("workflow: a\nversion: 1.10", [("wrong-type", 2)]),
    "base": ("workflow: a\nbase: 2", [("bad-base", 2)]),
    "base that is true": ("workflow: a\nbase: true", [("bad-base", 2)]),
    "unit": ("workflow: a\nunit: step", [("bad-unit", 2)]),
    "time": ("workflow: a\nexpiry: {pause: 24}", [("bad-time", 2)]),
    "less than never": ("workflow: a\nexpiry: {pause: -1h}", [("bad-time", 2)]),
    "false is no time": ("workflow: a\nexpiry: {pause: false}", [("bad-time", 2)]),
    "phases no list": ("workflow: a\nphases: One", [("wrong-type", 2)]),
    "a phase without a name": ("workflow: a\nphases:\n  - purpose: x", [("missing-key", 3)]),
    "a phase that is a number": (
        "workflow: a\nphases:\n  - 1",
        [("wrong-type", 3), ("missing-key", 3)],
    ),
    "a phase called null": ("workflow: a\nphases:\n  - name:", [("wrong-type", 3)]),
    "an empty name": ("workflow: a\nphases:\n  - ''", [("bad-text", 3)]),
    "two lines": ('workflow: a\ntitle: "a\\nb"', [("bad-text", 2)]),
    "a task without a name": (HEAD + "    tasks:\n      - {id: x}", [("missing-key", 5)]),
    "a bad task id": (HEAD + "    tasks:\n      - {id: a/b, name: x}", [("bad-text", 5)]),
    "an empty task id": (HEAD + "    tasks: [{id: '', name: x}]", [("bad-text", 4)]),
    "the id of a phase": (HEAD + "    tasks: [{id: phase-2, name: x}]", [("bad-id", 4)]),
    "the id of a task without one": (HEAD + "    tasks: [{id: '2.1', name: x}]", [("bad-id", 4)]),
    "an output outside": (HEAD + "    outputs:\n      - a.md\n      - ../b", [("bad-path", 6)]),
    "an output at the root": (HEAD + "    outputs: [/etc/passwd]", [("bad-path", 4)]),
    "evidence no map": (HEAD + "    evidence: [x]", [("wrong-type", 4)]),
    "a field name": (HEAD + "    evidence: {tests-pass: boolean}", [("bad-name", 4)]),
    "no type": (HEAD + "    evidence:\n      x: bool", [("bad-type", 5)]),
    "an empty field": (HEAD + "    evidence:\n      x:", [("wrong-type", 5)]),
    "min no number": (HEAD + "    evidence: {x: {min: '80'}}", [("wrong-type", 4)]),
    "min that is true": (HEAD + "    evidence: {x: {min: true}}", [("wrong-type", 4)]),
    "a huge min": (HEAD + "    evidence: {x: {min: 1e30}}", [("wrong-type", 4)]),
    "equals a list": (HEAD + "    evidence: {x: {equals: [1]}}", [("wrong-type", 4)]),
    "matches no text": (HEAD + "    evidence: {x: {matches: 1}}", [("wrong-type", 4)]),
    "strict no flag": (HEAD + "    evidence: {x: any}\n    strict: 'no'", [("wrong-type", 5)]),
    "a rule without a check": (HEAD + "    rules:\n      - message: x", [("missing-key", 5)]),
    "too many": (f"workflow: a\nphases: {[f'p{n}' for n in range(201)]}", [("too-many", 2)]),
}
ONLY_READ = {
    "a pattern": (HEAD + "    evidence: {x: {matches: '(a)\\1'}}", [("bad-pattern", 4)]),
    "a rule": (HEAD + "    evidence: {x: any}\n    rules:\n      - x =< 1", [("bad-rule", 6)]),
    "an unknown field": (
        HEAD + "    rules:\n      - 1 == 1\n      - y > 1",
        [("unknown-field", 6)],
    ),
    "min over max": (HEAD + "    evidence: {x: {min: 2, max: 1}}", [("contradiction", 4)]),
    "observed number": (
        HEAD + "    evidence: {x: {observed: true, min: 1}}",
        [("contradiction", 4)],
    ),
    "observed not to be": (
        HEAD + "    evidence: {x: {observed: true, equals: false}}",
        [("contradiction", 4)],
    ),
    "equals of another type": (
        HEAD + "    evidence: {x: {type: integer, equals: go}}",
        [("contradiction", 4)],
    ),
    "min of true": (HEAD + "    evidence: {x: {type: boolean, min: 1}}", [("contradiction", 4)]),
    "a pattern for numbers": (
        HEAD + "    evidence: {x: {type: number, matches: 'x'}}",
        [("contradiction", 4)],
    ),
    "an id twice": (
        HEAD + "    tasks: [{id: x, name: x}, {id: x, name: y}]",
        [("duplicate-id", 4)],
    ),
    "abandoned first": (
        "workflow: a\nexpiry:\n  pause: 7d\n  abandon: 24h",
        [("contradiction", 4)],
    ),
}


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_reader_and_schema_accept_a_valid_definition(text: str) -> None:
    assert not codes(text)
    SCHEMA.validate(Document.parse(text.encode(), "yaml").value)


@pytest.mark.parametrize("text, found", BAD.values(), ids=BAD)
def test_reader_and_schema_refuse_an_invalid_definition(
    text: str, found: list[tuple[str, int]]
) -> None:
    assert codes(text) == found
    assert yaml_definition.read(text.encode(), "x.yaml")[0] is None
    assert not SCHEMA.is_valid(Document.parse(text.encode(), "yaml").value)


@pytest.mark.parametrize("text, found", ONLY_READ.values(), ids=ONLY_READ)
def test_reader_finds_faults_that_a_schema_cannot(text: str, found: list[tuple[str, int]]) -> None:
    assert codes(text) == found
    assert {code for code, _ in found} <= BEYOND
    assert yaml_definition.read(text.encode(), "x.yaml")[0] is None
    SCHEMA.validate(Document.parse(text.encode(), "yaml").value)


@pytest.mark.parametrize(
    "data, code, line",
    [
        (b"", "empty", 1),
        (b"workflow: a\n  bad: indent", "yaml-syntax", 2),
        (b"workflow: a\nworkflow: b", "duplicate-key", 2),
        (b"workflow: !!python/object:os.system a", "yaml-tag", 1),
        (b"a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*c]", "alias-bomb", 3),
        (b"\xff\xfe", "utf16", 1),
        (b"workflow: " + b"[" * 100 + b"]" * 100, "too-deep", 1),
        (b"x" * 600_000, "too-large", 0),
    ],
)
def test_invalid_yaml_is_reported_by_line(data: bytes, code: str, line: int) -> None:
    assert codes(data) == [(code, line)]


def test_strict_without_a_gate_is_a_warning() -> None:
    text = HEAD + "    strict: false"
    assert codes(text) == [("no-gate", 4)] and read(text).phases[0].gate is None


def test_a_typing_error_is_reported_with_a_suggestion() -> None:
    found = yaml_definition.read((HEAD + "    evidence: {x: integr}").encode(), "x.yaml")[1]
    assert found[0].what == "there is no type integr; integer?"
    found = yaml_definition.read(b"workflow: a\nphase: []", "x.yaml")[1]
    assert found[0].what == "a workflow has no phase; phases?"


# -- schema and reader agree on anything -------------------------------------------------------

_JUNK: list[Any] = [
    *(None, True, False, 0, 1, 2, -1, 2.5, 1e30, "", " ", "x", "observed", "boolean", "24h", "0d"),
    *(
        [],
        {},
        ["x"],
        {"x": 1},
        {"name": "x"},
        [{"name": "x"}],
        "../x",
        "/x",
        "a\nb",
        "stage-1",
        "x" * 300,
    ),
    *({"type": "integer"}, {"type": "int"}, {"min": 1}, {"check": "1 == 1"}, {"pause": "1h"}),
    *({"x": "any"}, {"a-b": "any"}, {"x": {"equals": None}}, {"x": {"matches": ""}}),
]


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = [*value.items()]
    elif isinstance(value, list):
        inner = [*enumerate(value)]
    for key, each in inner:
        found += _places(each, (*path, key))
    return found


def _put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    made = copy.deepcopy(value)
    at = made
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = new
    return made


@given(st.data())
def test_reader_and_schema_agree_after_any_change(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(BUILT_IN))
    value = Document.parse(path.read_bytes(), "yaml").value
    for _ in range(data.draw(st.integers(1, 2))):
        value = _put(
            value, data.draw(st.sampled_from(_places(value))), data.draw(st.sampled_from(_JUNK))
        )
    if not isinstance(value, dict):
        return
    findings = yaml_definition.read(fresh("yaml", value), "x.yaml")[1]
    refused = [each for each in findings if each.code not in BEYOND]
    assert SCHEMA.is_valid(value) == (not refused), (value, refused)


_BITS = [
    *(
        "workflow: a\n",
        "phases:\n",
        "  - name: x\n",
        "    evidence: ",
        "{",
        "}",
        "[",
        "]",
        ": ",
        "&a ",
    ),
    *(
        "*a",
        "x",
        '"\\ud800"',
        '"\\e"',
        "!!str ",
        "equals",
        "matches",
        "|\n",
        "\n",
        "  ",
        "1e999",
        "0x1f",
    ),
    *(
        "rules: ['x > 1']\n",
        "each: y\n",
        "é",
        "<<",
        "---\n",
        "#",
        ", ",
        "null",
        "observed",
        "9" * 50,
    ),
]


@given(st.lists(st.sampled_from(_BITS), max_size=30).map("".join))
def test_any_text_is_a_workflow_that_can_be_stored_or_is_refused(text: str) -> None:
    made, findings = yaml_definition.read(text.encode(), "x.yaml")
    if made is None:
        assert findings
        return
    assert from_snapshot(snapshot(made)) == made


@pytest.mark.parametrize("key", ["equals", "matches"])
def test_half_a_character_is_refused(key: str) -> None:
    text = f'workflow: a\nphases: [{{name: x, evidence: {{x: {{{key}: "\\ud800"}}}}}}]'
    assert codes(text) and yaml_definition.read(text.encode(), "x.yaml")[0] is None


@pytest.mark.parametrize("never", ["0", "0h", "0d"])
def test_a_time_of_0_means_never(never: str) -> None:
    made, found = yaml_definition.read(
        f"workflow: a\nexpiry: {{pause: {never}, abandon: 7d}}\n".encode(), "a"
    )
    assert made is not None and not found
    assert made.expiry == Expiry(pause_hours=0.0, abandon_hours=168.0)


def test_two_phases_of_one_name_are_reported_and_can_be_used() -> None:
    made, found = yaml_definition.read(
        b"workflow: a\nphases:\n  - Build\n  - Test\n  - name: Build\n", "a"
    )
    assert made is not None and [(f.code, f.severity, f.line) for f in found] == [
        ("same-name", "warning", 5)
    ]
