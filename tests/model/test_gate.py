"""Gates: which evidence is enough, what to do if it is not, and which evidence is refused."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forestay.errors import InvalidInput
from forestay.model.gates.gate import Judgment, judge, submit_command
from forestay.model.gates.safe_regex import Effort
from forestay.model.plan import Field, Gate, Rule

NOW = "2026-01-31T10:00:00Z"


def check(gate: Gate | None, evidence: dict[str, Any], **more: Any) -> Judgment:
    return judge(gate, evidence, at=NOW, **more)


def gate(*fields: Field, **more: Any) -> Gate:
    return Gate(fields=list(fields), source="here", **more)


@pytest.mark.req("X1-9")
def test_a_judgment_has_the_documented_fields() -> None:
    asked = gate(Field("coverage", "number", min=80), Field("notes", "string", required=False))
    values = check(asked, {"coverage": 65, "extra": [1]}, phase=2).as_values()
    assert values == {
        "checkpoint_passed": False,
        "errors": ["coverage is 65, at least 80 is wanted"],
        "warnings": [],
        "diagnostics": {
            "fields_submitted": ["coverage", "extra"],
            "fields_required": ["coverage"],
            "fields_missing": [],
            "fields_failed": ["coverage"],
            "strict_mode": True,
            "gate_source": "here",
            "validation_timestamp": NOW,
        },
        "remediation": "coverage: a number, at least 80",
        "next_steps": [
            "forestay phase done 2 --evidence coverage=VALUE",
            "forestay phase done 2 --override --because REASON",
        ],
    }
    passed = check(asked, {"coverage": 80}, phase=2, next_steps=["forestay phase done 3"])
    assert passed.checkpoint_passed and passed.errors == [] and passed.remediation == ""
    assert passed.next_steps == ["forestay phase done 3"]


TYPES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "integer": [0, -3],
    "number": [1, 2.5],
    "string": ["", "x"],
    "list": [[], [1]],
    "object": [{}, {"a": 1}],
}


@pytest.mark.req("X1-8")
@pytest.mark.parametrize("kind", TYPES)
def test_a_value_must_have_the_type_of_its_field(kind: str) -> None:
    for other, values in TYPES.items():
        for value in values:
            is_right = kind == other or {kind, other} == {"number", "integer"}
            is_right = is_right and not (kind == "integer" and isinstance(value, float))
            judged = check(gate(Field("x", kind)), {"x": value})
            assert judged.checkpoint_passed == is_right, (kind, value)
            assert check(gate(Field("x")), {"x": value}).checkpoint_passed


def test_true_is_not_accepted_as_a_number_nor_one_as_true() -> None:
    assert not check(gate(Field("x", "number", min=0)), {"x": True}).checkpoint_passed
    assert not check(gate(Field("x", equals=True)), {"x": 1}).checkpoint_passed
    assert not check(gate(Field("x", equals=1)), {"x": True}).checkpoint_passed
    assert check(gate(Field("x", equals=1)), {"x": 1.0}).checkpoint_passed


@pytest.mark.parametrize(
    "field, good, bad, why",
    [
        (Field("x", min=80), 80, 79.9, "x is 79.9, at least 80 is wanted"),
        (Field("x", max=0), 0, 1, "x is 1, at most 0 is wanted"),
        (Field("x", "list", min=1), [0], [], "x has 0 entries, at least 1 is wanted"),
        (Field("x", "string", max=2), "ab", "abc", "x has 3 characters, at most 2 is wanted"),
        (Field("x", min=1), 1, None, "x is missing"),
        (Field("x", min=1), 1, True, "x is true, at least 1 is wanted"),
        (Field("x", equals=True), True, False, "x is false, true is wanted"),
        (Field("x", equals="go"), "go", "no", "x is 'no', 'go' is wanted"),
        (Field("x", matches=r"v\d+"), "v12", "v1x", r"x is 'v1x', which does not match v\d+"),
        (Field("x", matches=r"v\d+"), "v12", 12, "x must be text, it is a number"),
        (Field("x", "object"), {}, [], "x must be an object, it is a list"),
    ],
)
def test_a_value_must_satisfy_its_field(field: Field, good: Any, bad: Any, why: str) -> None:
    assert check(gate(field), {"x": good}).checkpoint_passed
    judged = check(gate(field), {"x": bad})
    assert judged.errors == [why] and judged.issue == why
    assert (judged.diagnostics.fields_failed or judged.diagnostics.fields_missing) == ["x"]


def test_a_missing_field_is_reported_with_a_similar_name_that_was_given() -> None:
    judged = check(gate(Field("coverage", "number")), {"covrage": 90})
    assert judged.errors == ["coverage is missing; covrage was given"]
    assert judged.diagnostics.fields_missing == ["coverage"]


def test_an_optional_field_may_be_missing_but_not_wrong() -> None:
    asked = gate(Field("x", "integer", required=False))
    assert check(asked, {}).checkpoint_passed and check(asked, {"x": None}).checkpoint_passed
    assert not check(asked, {"x": "1"}).checkpoint_passed


@pytest.mark.req("X1-8")
def test_a_gate_that_is_not_strict_warns_and_passes() -> None:
    asked = gate(Field("x", "integer"), rules=[Rule("y > 1")], strict=False)
    judged = check(asked, {"y": 0})
    assert judged.checkpoint_passed and judged.errors == []
    assert judged.warnings == ["x is missing", "not true: y > 1"]
    assert judged.diagnostics.fields_missing == ["x"] and not judged.diagnostics.strict_mode


@pytest.mark.req("X1-8")
def test_a_phase_without_a_gate_passes_everything() -> None:
    judged = check(None, {"anything": [1, {"deep": None}]})
    assert judged.checkpoint_passed and not judged.warnings
    assert judged.diagnostics.gate_source == "permissive"
    assert judged.diagnostics.fields_submitted == ["anything"]


def test_a_gate_that_cannot_be_overridden_does_not_offer_it() -> None:
    judged = check(gate(Field("x"), override=False), {}, phase=0)
    assert judged.next_steps == ["forestay phase done 0 --evidence x=VALUE"]


# -- rules -------------------------------------------------------------------------------------


def test_a_rule_that_does_not_hold_is_reported_by_its_message() -> None:
    asked = gate(rules=[Rule("passed == total", "some tests fail"), Rule("total > 0")])
    assert check(asked, {"passed": 3, "total": 3}).checkpoint_passed
    judged = check(asked, {"passed": 0, "total": 0})
    assert judged.errors == ["not true: total > 0"]
    judged = check(asked, {"passed": 2, "total": 3})
    assert judged.errors == ["some tests fail"]
    assert judged.remediation == "make this true: passed == total"


@pytest.mark.parametrize(
    "rule, why",
    [
        ("nowhere > 1", "no field nowhere"),
        ("text > 1", "text > a number"),
        ("text ==", "too early"),
        ("text", "not true or false"),
    ],
)
def test_a_rule_without_a_value_is_an_error_of_the_judgment(rule: str, why: str) -> None:
    judged = check(gate(rules=[Rule(rule)]), {"text": "abc"})
    assert not judged.checkpoint_passed
    assert why in judged.issue and "column" in judged.issue


def test_an_optional_field_that_was_left_out_is_null_in_rules() -> None:
    asked = gate(Field("waiver", "string", required=False), rules=[Rule("x > 1 or waiver != null")])
    assert check(asked, {"x": 2}).checkpoint_passed
    assert check(asked, {"x": 0, "waiver": "agreed"}).checkpoint_passed
    assert not check(asked, {"x": 0}).checkpoint_passed


def test_a_wrong_field_is_not_reported_again_by_the_rules_that_read_it() -> None:
    asked = gate(Field("a", "integer"), Field("b", "integer"), rules=[Rule("a < b")])
    assert check(asked, {"a": "x"}).errors == [
        "a must be a whole number, it is text",
        "b is missing",
    ]


@pytest.mark.req("X1-8")
def test_conditions_in_other_languages_are_shown_and_never_evaluated() -> None:
    opaque = ["tests: lambda x: __import__('os').system('touch /tmp/x')", "1 == 2"]
    judged = check(gate(opaque=opaque), {})
    assert judged.checkpoint_passed
    assert judged.warnings == [f"not checked here: {each}" for each in opaque]


# -- observed ----------------------------------------------------------------------------------

TESTS = Field("tests", "boolean", observed=True)


def test_a_claimed_value_fails_a_field_that_must_be_observed() -> None:
    judged = check(gate(TESTS), {"tests": True}, phase=3)
    line = "forestay prove --phase 3 --as tests -- CMD"
    assert judged.errors == ["tests must be observed, a claim does not count"]
    assert judged.remediation == f"tests: {line}"
    assert judged.next_steps[:2] == [line, "forestay phase done 3"]
    nothing = check(gate(TESTS), {}, phase=3)
    assert nothing.errors == ["tests was not observed"] and nothing.next_steps[0] == line
    assert nothing.diagnostics.fields_missing == ["tests"]


def test_an_observed_value_overrides_a_claim() -> None:
    assert check(gate(TESTS), {}, observed={"tests": True}).checkpoint_passed
    judged = check(gate(TESTS), {"tests": True}, observed={"tests": False})
    assert judged.errors == ["tests was observed to fail: its command did not succeed"]
    free = gate(Field("tests", equals=True))
    assert check(free, {}, observed={"tests": True}).checkpoint_passed
    judged = check(free, {"tests": True}, observed={"tests": False})
    assert judged.errors == ["tests was observed to fail: its command did not succeed"]
    assert judged.warnings == ["tests was claimed; the observed value counts"]


def test_a_stale_observation_does_not_count() -> None:
    judged = check(gate(TESTS), {}, observed={"tests": True}, stale=frozenset({"tests"}))
    assert judged.errors == ["tests was observed before its inputs changed"]
    assert judged.remediation == "tests: forestay prove --again"
    assert judged.next_steps[0] == "forestay prove --again"
    assert judged.diagnostics.fields_failed == ["tests"]


def test_a_successful_command_is_not_a_number() -> None:
    asked = gate(Field("coverage", "number", min=80), rules=[Rule("coverage > 70")])
    assert check(asked, {}, observed={"coverage": True}).errors == ["coverage is missing"]
    assert check(asked, {"coverage": 81}, observed={"coverage": True}).checkpoint_passed
    loose = gate(Field("coverage", min=80))
    assert not check(loose, {}, observed={"coverage": True}).checkpoint_passed


def test_a_claim_counts_if_the_observation_is_stale() -> None:
    asked, stale = gate(Field("tests", equals=True)), frozenset({"tests"})
    assert check(asked, {"tests": True}, observed={"tests": False}, stale=stale).checkpoint_passed
    judged = check(asked, {}, observed={"tests": True}, stale=stale)
    assert judged.errors == ["tests was observed before its inputs changed"]


def test_rules_read_observed_values() -> None:
    asked = gate(TESTS, rules=[Rule("tests and coverage > 80")])
    assert check(asked, {"coverage": 90}, observed={"tests": True}).checkpoint_passed
    assert not check(asked, {"coverage": 70}, observed={"tests": True}).checkpoint_passed


# -- hostile evidence --------------------------------------------------------------------------


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def _ring() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.req("X1-10")
def test_evidence_of_more_than_10_mb_is_refused() -> None:
    most = 10 * 1024 * 1024 - len('{"x":""}')
    assert check(None, {"x": "a" * most}).checkpoint_passed
    for large in ("a" * (most + 1), ["ab" * 1000] * 6000, {"k": "é" * 6_000_000}, [0] * 2_000_000):
        with pytest.raises(InvalidInput, match="too large"):
            check(None, {"x": large})


@pytest.mark.parametrize(
    "evidence, why",
    [
        ([1], "must be an object"),
        ("x=1", "must be an object"),
        (None, "must be an object"),
        ({"x": _deep(64)}, "64 levels"),
        ({"x": _ring()}, "64 levels"),
        ({"x": float("nan")}, "x is not a number"),
        ({"x": [{"y": float("-inf")}]}, "x is not a number"),
        ({"x": 2**64}, "too large"),
        ({"x": 10**5000}, "too large"),
        ({"x": "\ud800"}, "Unicode"),
        ({"x": {"\ud800": 1}}, "not text"),
        ({"x": b"bytes"}, "cannot be recorded"),
        ({"x": {1: 2}}, "not text"),
        ({"x": object()}, "cannot be recorded"),
        ({"x": {1, 2}}, "cannot be recorded"),
        ({1: 2}, "cannot be a name"),
        ({"": 2}, "cannot be a name"),
        ({"a\x1b[31m": 2}, "cannot be a name"),
        ({"a\nb": 2}, "cannot be a name"),
        ({"a" * 201: 2}, "cannot be a name"),
        ({f"f{n}": 1 for n in range(1001)}, "1000 fields"),
    ],
)
def test_hostile_evidence_is_refused_clearly(evidence: Any, why: str) -> None:
    began = time.perf_counter()
    with pytest.raises(InvalidInput, match=why):
        check(gate(Field("x")), evidence)
    assert time.perf_counter() - began < 60


_plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
_fields = st.builds(
    Field,
    name=st.sampled_from("abc"),
    type=st.sampled_from(["any", *TYPES]),
    required=st.booleans(),
    min=st.none() | st.floats(-5, 5),
    max=st.none() | st.floats(-5, 5),
    equals=st.none() | st.booleans() | st.integers(-2, 2) | st.text(max_size=2),
    matches=st.sampled_from(["", "[a-z]*", "(", r"\d"]),
    observed=st.booleans(),
)
_rules = st.sampled_from(["a > 1", "len(b) == c", "a and b", "c.d == 1", "a in b", "((", "a == b"])


@given(
    st.builds(
        Gate,
        fields=st.lists(_fields, max_size=3),
        rules=st.lists(st.builds(Rule, _rules), max_size=2),
        strict=st.booleans(),
    ),
    st.dictionaries(st.sampled_from("abcd"), _plain, max_size=4),
    st.dictionaries(st.sampled_from("abc"), st.booleans()),
    st.frozensets(st.sampled_from("abc")),
)
def test_any_gate_judges_or_refuses_any_evidence(
    asked: Gate, evidence: dict[str, Any], observed: dict[str, bool], stale: frozenset[str]
) -> None:
    try:
        judged = check(asked, evidence, observed=observed, stale=stale)
    except InvalidInput:
        return
    assert judged.checkpoint_passed == (not asked.strict or not judged.errors)
    assert bool(judged.errors) == (not judged.checkpoint_passed)
    assert not (judged.errors and not judged.remediation)
    assert judged == check(asked, evidence, observed=observed, stale=stale)


def test_the_next_step_repeats_valid_values_and_leaves_out_others() -> None:
    fields = (Field("passing"), Field("total"), Field("coverage", min=80))
    asked = gate(*fields, rules=[Rule("passing == total")])
    judged = check(asked, {"passing": 3, "total": 4, "coverage": 91}, phase=2)
    line = "forestay phase done 2 --evidence passing=VALUE --evidence total=VALUE"
    assert judged.next_steps[0] == f"{line} --evidence coverage=91"


def test_a_text_is_not_repeated_in_the_next_step() -> None:
    asked = gate(Field("note", "string"), Field("ok", equals=True))
    judged = check(asked, {"note": "hush", "ok": False}, phase=1)
    assert judged.next_steps[0] == "forestay phase done 1 --evidence note=VALUE --evidence ok=VALUE"
    assert submit_command(asked, {"note": "hush", "ok": True}, 1).endswith("--evidence ok=true")


def test_all_patterns_of_a_gate_share_one_limit_of_matching_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("forestay.model.gates.gate.Effort", lambda: Effort(20_000))
    rules = [Rule('matches(t, "(a|aa)*b")') for _ in range(50)]
    judged = check(gate(Field("t", matches="(a|b)*"), rules=rules), {"t": "a" * 300})
    late = [error for error in judged.errors if "too long for this pattern" in error]
    assert 0 < len(late) < 50, "the first could be compared, the last could not"
    assert (
        check(gate(Field("t", matches="(a|b)*"), rules=rules), {"t": "a" * 10}).errors[-1][:3]
        == "not"
    )


def test_an_optional_value_that_was_given_is_submitted_too() -> None:
    asked = gate(Field("coverage"), Field("notes", required=False), Field("author", required=False))
    line = "forestay phase done 1 --evidence coverage=85"
    assert submit_command(asked, {"coverage": 85}, 1) == line
    assert submit_command(asked, {"coverage": 85, "notes": 3}, 1) == f"{line} --evidence notes=3"
