"""The laws that every format meets, as plain tests over a `case`.

A test module imports this one with `*` and parametrises `case`; a new format brings a consistent
session as a tree and passes all of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from forestay.formats.coerce import copied
from forestay.formats.facts import SESSION, UNIT, Facts, StepFact
from forestay.formats.port import ERROR, EXTRA, Format, Tree, Where
from tests.formats import json_stories as stories


class Case(NamedTuple):
    """A format with a consistent session in it; the first file of the tree is the main one."""

    format: Format
    tree: Tree
    where: Where = Where(now=1_768_700_000_000, naive="utc")

    @property
    def main(self) -> str:
        return next(iter(self.tree))


def mappings(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield every mapping inside a value with its path."""
    if isinstance(value, dict):
        yield path, value
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in inner:
        if isinstance(each, dict | list):
            yield from mappings(each, (*path, key))


@given(data=st.data())
def test_any_tree_can_be_read_and_checked(case: Case, data: st.DataObject) -> None:
    names = st.sampled_from([*case.tree, "x"])
    tree = data.draw(st.dictionaries(names, stories.junk, max_size=3))
    facts = case.format.get(tree, case.where)
    assert facts.status in SESSION
    assert {step.status for step in facts.steps} <= {*UNIT}
    case.format.reading(tree, case.where)
    case.format.check(tree, case.where, strict=True)
    assert all(0.0 <= case.format.recognise(name, each) <= 1.0 for name, each in tree.items())


@pytest.mark.req("S2-82")
@given(data=st.data())
def test_writing_what_was_read_changes_no_byte(case: Case, data: st.DataObject) -> None:
    where = replace(case.where, device="elsewhere", project_path="/elsewhere")
    tree = {**case.tree, case.main: data.draw(stories.mutants(case.tree[case.main]))}
    before = json.dumps(tree)
    facts = case.format.get(tree, where)
    case.format.check(tree, where, strict=True)
    assert json.dumps(case.format.put(tree, facts, where)) == before == json.dumps(tree)


def test_consistent_session_has_no_fault(case: Case) -> None:
    assert case.format.check(case.tree, case.where, strict=True) == []
    assert case.format.recognise(case.main, case.tree[case.main]) > 0.5


@pytest.mark.parametrize("status", SESSION)
def test_new_file_gives_back_its_facts_without_fault(case: Case, status: str) -> None:
    format, where = case.format, case.where
    began = 1_768_600_000_000
    steps = [StepFact("Plan it", status="done"), StepFact("Build it")]
    facts = Facts(goal="Row", status=status, began_at=began, updated_at=began + 60_000, steps=steps)
    made = format.put(None, facts, where)
    read = format.get(made, where)
    assert (read.began_at, read.updated_at) == (facts.began_at, facts.updated_at)
    assert format.has_goal is False or read.goal in ("Row", "")
    faults = [f for f in format.check(made, where, strict=True) if f.severity == ERROR]
    assert faults == []
    assert format.put(made, read, where) == made
    again = format.put(made, facts, where)
    assert format.put(again, facts, where) == again


def test_new_id_is_valid_repeatable_and_not_taken(case: Case) -> None:
    facts = Facts(goal="Row across", began_at=1_768_600_000_000)
    first = case.format.new_id(facts, case.where, frozenset())
    other = case.format.new_id(facts, case.where, frozenset({first}))
    assert first == case.format.new_id(facts, case.where, frozenset()) != other
    assert [case.format.valid_id(id) for id in (first, other)] == ["", ""]


def test_unknown_keys_survive_in_every_mapping(case: Case) -> None:
    tree = copied(case.tree)
    marked = [(name, path) for name, value in tree.items() for path, _ in [*mappings(value)]]
    for value in tree.values():
        for _, part in [*mappings(value)]:
            part["zz_theirs"] = "x"
    facts = case.format.get(tree, case.where)
    facts = replace(
        facts,
        status="paused",
        updated_at=(facts.updated_at or 0) + 60_000,
        agents=[replace(agent, result="Another result") for agent in facts.agents],
        decisions=[replace(choice, because="Another reason") for choice in facts.decisions],
        tokens=77,
        git_branch="another",
        mode="debug",
    )
    made = case.format.put(tree, facts, case.where)
    assert made != tree
    for name, path in marked:
        part = made[name]
        for key in path:
            part = part[key]
        assert part["zz_theirs"] == "x", (name, path)


def test_our_own_key_is_tolerated_and_stays(case: Case) -> None:
    ours = {"v": 1, "facts": {}}
    tree = {**case.tree, case.main: {**case.tree[case.main], EXTRA: ours}}
    assert case.format.check(tree, case.where, strict=True) == []
    facts = replace(case.format.get(tree, case.where), status="paused")
    assert case.format.put(tree, facts, case.where)[case.main][EXTRA] == ours


@given(st.integers(0, 4000), st.binary(max_size=20))
def test_salvage_never_raises_and_changes_no_bytes(case: Case, cut: int, tail: bytes) -> None:
    data = json.dumps(case.tree[case.main], indent=2).encode()[:cut] + tail
    bundle = {case.main: data}
    case.format.salvage(bundle, case.where)
    assert bundle == {case.main: data}


@pytest.mark.parametrize(
    "data", [b"", b"\0" * 900, b"nothing", b"[1, 2]", b"{", b"[" * 90_000, b'{"a":' * 90_000]
)
def test_nothing_is_salvaged_from_nothing(case: Case, data: bytes) -> None:
    assert case.format.salvage({case.main: data}, case.where) is None
    assert case.format.salvage({}, case.where) is None
