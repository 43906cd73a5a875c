"""The schema check gives the same results as a full implementation of JSON Schema."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forestay.mcp import schema_check
from forestay.mcp.tool_schemas import TOOLS

Draft202012Validator: Any = import_module("jsonschema").Draft202012Validator
_LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 30_000),
    st.text(max_size=3),
    st.sampled_from(["note", "done", "pause", "log", "active", "debug"]),
    st.floats(0.1, 0.9),
)
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["do", "text", "x"]), inner, max_size=3),
    ),
    max_leaves=6,
)


@given(data=st.data())
def test_arguments_are_refused_exactly_when_the_schema_refuses_them(data: st.DataObject) -> None:
    tool = data.draw(st.sampled_from(list(TOOLS.values())))
    names = st.sampled_from([*tool.takes, "strange"])
    given: dict[str, Any] = data.draw(st.dictionaries(names, _VALUES, max_size=4))
    example = data.draw(st.sampled_from([{}, *tool.examples]))
    arguments = {**example, **given}
    fits = Draft202012Validator(tool.input_schema).is_valid(arguments)
    problem = schema_check.find_problem(arguments, tool.input_schema)
    assert bool(problem) != fits, problem


@pytest.mark.parametrize("name", TOOLS)
def test_schemas_are_valid_and_examples_fit_them(name: str) -> None:
    tool = TOOLS[name]
    for schema in (tool.input_schema, tool.output_schema):
        Draft202012Validator.check_schema(schema)
    for example in tool.examples:
        assert schema_check.find_problem(example, tool.input_schema) == ""


def test_problem_is_described_without_the_value() -> None:
    problem = schema_check.find_problem({"goal": 7, "key": "secret"}, TOOLS["start"].input_schema)
    assert problem == "goal must be of type string"
    problem = schema_check.find_problem(
        {"events": [{"do": "note"}, 7]}, TOOLS["record"].input_schema
    )
    assert problem == "events[1] must be of type object"
