"""Plans of a sync, computed from values: a plan applied twice does nothing the second time."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from forestay.sync.plan import (
    Coverage,
    Link,
    Pack,
    ReportedHead,
    Stretch,
    crowded,
    missing,
    plan,
    whole,
)

LENGTH = 24


def hashes(branch: str = "a", length: int = LENGTH, fork: int = 0) -> list[str]:
    """The hashes of a chain; a branch shares those up to its fork with branch "a"."""
    return [f"{'a' if n <= fork else branch}{n}" for n in range(1, length + 1)]


def links(*branches: tuple[str, int]) -> dict[str, Link]:
    """The events of a chain with several branches, as they are held."""
    rows = [hashes(branch, fork=fork) for branch, fork in branches]
    return {
        hash: ("d", n, row[n - 2] if n > 1 else "") for row in rows for n, hash in enumerate(row, 1)
    }


def uncovered(there: list[Stretch], branch: str = "a", **held: dict[str, Link]) -> set[int]:
    coverage = Coverage(there, held.get("held", {}))
    return {n for n, hash in enumerate(hashes(branch), 1) if not coverage.has("d", n, hash)}


def stretch(first: int, last: int, branch: str = "a", fork: int = 0) -> Stretch:
    row = hashes(branch, max(last, LENGTH), fork)
    return Stretch("d", first, last, row[first - 2] if first > 1 else "", row[last - 1])


spans = st.lists(
    st.tuples(st.integers(1, LENGTH), st.integers(1, LENGTH)).map(sorted).map(tuple), max_size=6
)


def held(on: Stretch, n: int) -> list[str]:
    return [f"a{n}"] if on.device == "d" and 1 <= n <= LENGTH else []


# --- how far a chain is there -------------------------------------------------------------------


@given(spans)
def test_a_chain_is_whole_up_to_its_first_gap(found: list[tuple[int, int]]) -> None:
    numbers = {n for first, last in found for n in range(first, last + 1)}
    reach = whole(stretch(*span) for span in found)
    assert set(range(1, reach + 1)) <= numbers
    assert reach + 1 not in numbers


@given(spans)
def test_push_uploads_missing_events_and_then_nothing(
    found: list[tuple[int, int]],
) -> None:
    there = [stretch(*span) for span in found]
    wanted = uncovered(there)
    numbers = {n for first, last in found for n in range(first, last + 1)}
    assert wanted == set(range(1, LENGTH + 1)) - numbers
    after = [*there, *(stretch(n, n) for n in wanted)]
    assert uncovered(after) == set()
    assert whole(after) == LENGTH


@given(spans, st.integers(1, LENGTH - 1))
def test_another_branch_of_a_chain_covers_only_shared_events(
    found: list[tuple[int, int]], fork: int
) -> None:
    there = [stretch(*span, branch="b", fork=fork) for span in found]
    numbers = {n for first, last in found for n in range(first, min(last, fork) + 1)}
    held = links(("a", 0), ("b", fork))
    assert uncovered(there, held=held) == set(range(1, LENGTH + 1)) - numbers


def test_a_pack_of_another_chain_covers_nothing() -> None:
    there = [stretch(1, LENGTH)._replace(device="e")]
    assert uncovered(there) == set(range(1, LENGTH + 1))


# --- contradictions -----------------------------------------------------------------------------


@given(spans, st.integers(1, LENGTH))
def test_reported_head_is_missing_exactly_where_the_chain_does_not_reach(
    found: list[tuple[int, int]], n: int
) -> None:
    there = [stretch(*span) for span in found]
    reported = ReportedHead("d", n, f"a{n}")
    assert bool(missing(there, [reported], held)) == (whole(there) < n)


@given(spans)
def test_remote_that_removes_a_needed_pack_is_caught(found: list[tuple[int, int]]) -> None:
    there = [stretch(*span) for span in found]
    reach = whole(there)
    reported = [ReportedHead("d", reach, f"a{reach}")] if reach else []
    assert not missing(there, reported, held)
    for gone in range(len(there)):
        left = there[:gone] + there[gone + 1 :]
        assert bool(missing(left, reported, held)) == (whole(left) < reach)


def test_other_history_at_a_reported_head_is_found() -> None:
    reported = [ReportedHead("d", 8, "a8")]
    (one,) = missing([stretch(1, 8, "b", fork=4)], reported, held)
    assert one.instead == ("b8",)
    (inside,) = missing([stretch(1, 12, "b", fork=4)], reported, lambda *_: ["b8"])
    assert inside.instead == ("b8",)
    both = [stretch(1, 12, "b", fork=4), stretch(1, 9)]
    assert not missing(both, reported, lambda on, _: ["b8" if on.after == "b12" else "a8"])


def test_both_branches_of_a_copied_home_are_no_contradiction() -> None:
    there = [stretch(1, 8), stretch(5, 9, "b", fork=4)]
    assert not missing(there, [ReportedHead("d", 8, "a8"), ReportedHead("d", 9, "b9")], held)


def test_head_inside_a_larger_pack_is_present() -> None:
    assert not missing([stretch(1, 12)], [ReportedHead("d", 8, "a8")], held)
    assert not missing([stretch(1, 12)], [ReportedHead("d", 8, "a8")], lambda *_: [])


# --- the plan -----------------------------------------------------------------------------------


@given(st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9)))
def test_only_unknown_packs_are_read_and_missing_ones_cover_nothing(
    listed: set[int], known: set[int]
) -> None:
    names = {f"p{n}": stretch(n + 1, n + 1) for n in known}
    made = plan([f"p{n}" for n in listed], names)
    assert made.fetch == sorted(f"p{n}" for n in listed - known)
    assert made.gone == sorted(f"p{n}" for n in known - listed)
    assert sorted(one.first for one in made.listed) == sorted(n + 1 for n in known & listed)
    again = plan([f"p{n}" for n in listed], {f"p{n}": stretch(n + 1, n + 1) for n in listed})
    assert (again.fetch, again.gone) == ([], [])


# --- putting small packs together ---------------------------------------------------------------


@settings(max_examples=30)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=40), st.randoms(use_true_random=False))
def test_small_packs_in_a_row_are_merged_and_cover_the_same(
    lengths: list[int], chance: random.Random
) -> None:
    packs, first = [], 1
    for length in lengths:
        row = [f"a{n}" for n in range(1, first + length)]
        one = Stretch("d", first, first + length - 1, row[first - 2] if first > 1 else "", row[-1])
        packs.append(Pack(f"p{first}", 1000, one))
        first += length
    mixed = list(packs)
    chance.shuffle(mixed)
    assert crowded(mixed, few=5) == ([packs] if len(packs) >= 5 else [])


def test_a_large_pack_or_a_fork_ends_a_row() -> None:
    small = [Pack(f"p{n}", 100, stretch(n, n)) for n in range(1, 9)]
    large = [p._replace(size=4 << 20) if p.name == "p4" else p for p in small]
    assert [len(row) for row in crowded(large, few=3)] == [3, 4]
    forked = [
        *small[:4],
        *(p._replace(stretch=stretch(5 + i, 5 + i, "b", fork=2)) for i, p in enumerate(small[4:])),
    ]
    assert [len(row) for row in crowded(forked, few=3)] == [4, 4]
