"""Patterns: they mean what Python's mean, refuse what they cannot do, and never take long."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forestay.model.gates.safe_regex import BadPattern, compile_pattern

SIGNS = "ab0_ .\n-é٣ "

_atoms = st.one_of(
    st.sampled_from("ab0_ -é"),
    st.sampled_from([".", r"\d", r"\w", r"\s", r"\D", r"\W", r"\S", r"\.", r"\n", r"\-"]),
    st.sampled_from(["[ab]", "[^a]", "[a-z0]", r"[\d_]", r"[^\w]", r"[\-a]", "[a-]", r"[\s0-9]"]),
    st.sampled_from(["^", r"\Z"]),
)


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    group = st.builds("({})".format, inner) | st.builds("(?:{})".format, inner)
    times = st.sampled_from(["?", "*", "+", "{2}", "{0}", "{0,2}", "{1,}", "{2,3}"])
    return st.one_of(
        group,
        st.builds("{}{}".format, group, times),
        st.builds("{}|{}".format, inner, inner),
        st.lists(inner, max_size=3).map("".join),
    )


patterns = st.recursive(_atoms | st.just(""), _grown, max_leaves=12)
texts = st.text(SIGNS, max_size=8)


@given(patterns, st.lists(texts, min_size=1, max_size=8))
def test_a_pattern_matches_as_in_python(pattern: str, samples: list[str]) -> None:
    ours = compile_pattern(pattern.replace(r"\Z", "$"))
    theirs = re.compile(pattern)
    for text in samples:
        assert ours.matches(text) == bool(theirs.fullmatch(text)), (pattern, text)
        assert ours.finds(text) == bool(theirs.search(text)), (pattern, text)


@given(st.text("ab(){}[]|*+?^$\\.,-0123456789:=!<Pdwbx", max_size=12))
def test_any_text_is_a_pattern_or_is_refused_with_a_reason(pattern: str) -> None:
    try:
        ours = compile_pattern(pattern)
    except BadPattern:
        return
    if "[" not in pattern:
        theirs = re.compile(re.sub(r"(?<!\\)((?:\\\\)*)\$", r"\1(?!\\n)\\Z", pattern))
        assert ours.matches("ab0") == bool(theirs.fullmatch("ab0")), pattern


@pytest.mark.parametrize(
    "pattern, message, column",
    [
        (r"(a)\1", "backreference", 4),
        ("a(?=b)", "lookahead", 2),
        ("a(?!b)", "lookahead", 2),
        ("(?<=a)b", "lookbehind", 1),
        ("(?P<n>a)", "named group", 1),
        ("(?i)a", "this kind of group", 1),
        (r"\bword", r"\\b is not supported", 1),
        (r"\x41", r"\\x is not supported", 1),
        ("*a", "nothing is before", 1),
        ("a**", "repeat after a repeat", 3),
        ("a*?", "repeat after a repeat", 3),
        ("^*", "cannot be repeated", 2),
        ("a{2", r"write \\{", 2),
        ("a{3,2}", "ends before it begins", 2),
        ("a{2000}", "repeats", 2),
        ("(a", r"'\(' without '\)'", 1),
        ("a)", r"'\)' without '\('", 2),
        ("[a", "not a class", 1),
        ("[]", "not a class", 1),
        ("[a[b]", "not a class", 1),
        ("[a&&b]", "not a class", 1),
        ("[z-a]", "bad character range", 1),
        ("a\\", "at the end", 2),
        ("(" * 40 + ")" * 40, "deep", 21),
        ("a" * 501, "more than 500", 0),
    ],
)
def test_unsupported_syntax_is_refused_with_its_column(
    pattern: str, message: str, column: int
) -> None:
    with pytest.raises(BadPattern, match=message) as caught:
        compile_pattern(pattern)
    assert caught.value.column == column


@pytest.mark.parametrize(
    "pattern",
    ["(((a{100}){100}){100}){100}", "((((){1000}){1000}){1000}){1000}", "(a|b){1000}c{1000}"],
)
def test_repeats_that_expand_to_too_much_are_refused_at_once(pattern: str) -> None:
    began = time.process_time()
    with pytest.raises(BadPattern, match="expand"):
        compile_pattern(pattern)
    assert time.process_time() - began < 60


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+b", "(a|a)*b", "(a*)*b", "a?" * 60 + "a{60}b", "(.*)*(.*)*(.*)*x", "((a{0,30}){0,30})b"],
)
def test_patterns_that_take_exponential_time_in_python_stay_fast(pattern: str) -> None:
    began = time.process_time()
    assert not compile_pattern(pattern).matches("a" * 2_000)
    assert time.process_time() - began < 60


def test_a_text_too_long_for_a_wide_pattern_is_refused_not_waited_for() -> None:
    began = time.process_time()
    with pytest.raises(BadPattern, match="too long"):
        compile_pattern("((a?){400})*b").matches("a" * 100_000)
    assert time.process_time() - began < 60


def test_empty_alternatives_cost_no_more_than_the_counted_steps() -> None:
    began = time.perf_counter()
    assert compile_pattern("((" + "|" * 480 + ")a)*").matches("a" * 20_000)
    assert time.perf_counter() - began < 1
