"""Values: which elements are one, what differs, and what becomes of a change since."""

from __future__ import annotations

import copy
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forestay.formats.diff import align, identical, identity, merge, same
from tests.formats.scribe import maps, scalars, values

often = settings(deadline=None, suppress_health_check=list(HealthCheck))
elements = st.one_of(scalars, values, st.fixed_dictionaries({"id": st.sampled_from("abcdef")}))
lists = st.lists(elements, max_size=7)


@pytest.mark.parametrize("one, other", [(1, True), (1, 1.0), (0, False), (0.0, -0.0), ("1", 1)])
def test_values_of_different_types_differ(one: Any, other: Any) -> None:
    assert not same(one, other)
    assert not same({"a": [one]}, {"a": [other]})


def test_order_of_keys_is_compared_by_identical_and_ignored_by_same() -> None:
    one, other = {"a": 1, "b": 2}, {"b": 2, "a": 1}
    assert same(one, other)
    assert not identical(one, other)


# Alignment


@often
@given(lists, lists)
def test_alignment_pairs_each_element_at_most_once(old: list[Any], new: list[Any]) -> None:
    pairs = align(old, new)
    assert len({i for i, _ in pairs}) == len({j for _, j in pairs}) == len(pairs)
    assert all(0 <= i < len(old) and 0 <= j < len(new) for i, j in pairs)
    assert [j for _, j in pairs] == sorted(j for _, j in pairs)


@often
@given(lists)
def test_list_is_aligned_with_itself(old: list[Any]) -> None:
    assert align(old, copy.deepcopy(old)) == [(i, i) for i in range(len(old))]


@often
@given(st.lists(st.integers(), unique=True, max_size=9), st.integers(0, 9), st.integers())
def test_alignment_pairs_all_other_elements_after_an_insertion(
    old: list[int], at: int, more: int
) -> None:
    new = [*old[:at], "new", *old[at:]]
    assert all(old[i] == new[j] for i, j in align(old, new))
    assert len(align(old, new)) == len(old)


def test_identity_is_the_first_key_that_all_share_uniquely() -> None:
    assert identity([{"id": 1, "title": "x"}, {"id": 2, "title": "x"}]) == "id"
    assert identity([{"id": 1, "title": "x"}, {"id": 1, "title": "y"}]) == "title"
    assert identity([{"id": 1, "title": "x"}], [{"title": "x"}]) == "title"
    assert identity([{"a": 1}]) == ""
    assert identity(["x", {"name": "y"}]) == "name"


def test_elements_with_an_id_are_paired_when_they_move() -> None:
    old = [{"id": "a", "n": 1}, {"id": "b", "n": 2}]
    new = [{"id": "b", "n": 3}, {"id": "c", "n": 2}, {"id": "a", "n": 1}]
    assert align(old, new) == [(1, 0), (0, 2)]


def test_retitled_element_is_the_same_and_one_with_another_id_is_not() -> None:
    assert align([{"title": "a"}, {"title": "b"}], [{"title": "a"}, {"title": "c"}]) == [
        (0, 0),
        (1, 1),
    ]
    assert align([{"id": "a", "n": 1}], [{"id": "b", "n": 2}]) == []


def test_changed_sentence_is_paired_with_the_one_at_its_place() -> None:
    assert align(["a", "b", "c"], ["a", "B", "c"]) == [(0, 0), (1, 1), (2, 2)]
    assert align(["a", "c"], ["a", "B", "c"]) == [(0, 0), (1, 2)]


LONG = 10_000


@pytest.mark.parametrize(
    "old, new",
    [
        ([{"id": i} for i in range(LONG)], [{"id": i, "x": 1} for i in range(5, LONG)]),
        (list(range(LONG)), list(range(LONG, 0, -1))),
        ([i % 7 for i in range(LONG)], [i % 5 for i in range(LONG)]),
        (
            [{"name": "x", "n": i} for i in range(LONG)],
            [{"name": "x", "n": -i} for i in range(LONG)],
        ),
        ([1] * LONG, [1] * (LONG - 5) + [2] * 10),
    ],
    ids=["ids", "reversed", "repeated", "namesakes", "same"],
)
def test_long_lists_take_no_quadratic_time(old: list[Any], new: list[Any]) -> None:
    start = time.process_time()
    assert align(old, new)
    assert time.process_time() - start < 60


# Merging


@often
@given(st.one_of(values, maps), st.one_of(values, maps))
def test_change_on_one_side_is_merged(base: Any, changed: Any) -> None:
    assert merge(base, base, changed) == (changed, [])
    assert merge(base, changed, base) == (changed, [])
    assert merge(base, changed, copy.deepcopy(changed)) == (changed, [])


@often
@given(values, values, values, values)
def test_changes_of_different_keys_are_both_merged(a: Any, b: Any, c: Any, d: Any) -> None:
    base = {"x": a, "y": b}
    assert merge(base, {"x": c, "y": b}, {"x": a, "y": d}) == ({"x": c, "y": d}, [])


@often
@given(maps, maps, maps)
def test_arguments_are_never_changed(base: Any, ours: Any, theirs: Any) -> None:
    before = copy.deepcopy((base, ours, theirs))
    merge(base, ours, theirs)
    assert (base, ours, theirs) == before


def test_conflicts_are_reported_and_ours_wins() -> None:
    base = {"s": "a", "list": [{"id": 1, "n": 1}, {"id": 2, "n": 1}]}
    ours = {"s": "b", "list": [{"id": 1, "n": 2}, {"id": 2, "n": 1}]}
    theirs = {"s": "c", "list": [{"id": 1, "n": 3}, {"id": 2, "n": 4}]}
    value, conflicts = merge(base, ours, theirs)
    assert value == {"s": "b", "list": [{"id": 1, "n": 2}, {"id": 2, "n": 4}]}
    assert conflicts == [("s",), ("list", 0, "n")]


def test_elements_added_on_both_sides_are_merged_and_equal_ones_only_once() -> None:
    base = [{"id": 1}]
    ours = [{"id": 1}, {"id": 2}, {"id": 9}]
    theirs = [{"id": 0}, {"id": 1}, {"id": 9}, {"id": 3}]
    value, conflicts = merge(base, ours, theirs)
    assert sorted(each["id"] for each in value) == [0, 1, 2, 3, 9]
    assert conflicts == []


@pytest.mark.parametrize("a, b", [("a", "b"), ({"n": 1, "m": 1}, {"n": 2, "m": 1})])
def test_element_added_on_one_side_is_not_an_edit_of_one_removed_on_the_other(
    a: Any, b: Any
) -> None:
    assert merge([a], [b], [a, b]) == merge([a], [a, b], [b]) == ([b], [])


def test_removal_is_merged_unless_the_other_side_changed_the_element() -> None:
    base = [{"id": 1, "n": 1}, {"id": 2, "n": 1}]
    assert merge(base, [{"id": 2, "n": 1}], base) == ([{"id": 2, "n": 1}], [])
    assert merge(base, base, [{"id": 2, "n": 1}]) == ([{"id": 2, "n": 1}], [])
    value, conflicts = merge(base, [{"id": 2, "n": 1}], [{"id": 1, "n": 5}, {"id": 2, "n": 1}])
    assert {"id": 1, "n": 5} in value
    assert len(conflicts) == 1


def test_value_of_the_maximum_depth_is_merged() -> None:
    base: Any = 1
    target: Any = 2
    for level in range(64):
        base = {"k": base} if level % 2 else [base]
        target = {"k": target} if level % 2 else [target]
    assert merge(base, base, target) == (target, [])
    assert merge(base, target, base) == (target, [])
