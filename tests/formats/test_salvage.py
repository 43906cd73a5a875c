"""Damaged files: mistakes in JSON are repaired, and conflicts are split into their sides."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from forestay.formats.port import Where, load_format
from forestay.formats.salvage import read_damaged, sides
from tests.formats.test_pairs import STORIES

PLAIN: dict[str, Any] = {"goal": "C:\\kim", "list": [1, {"a": None}], "on": True, "end": "x"}
TEXT = json.dumps(PLAIN, indent=2)

# What happened → the text, and what is said of it.
SLIPS: dict[str, tuple[str, dict[str, Any]]] = {
    "a backslash that escapes nothing": (TEXT.replace("C:\\\\kim", "C:\\kim"), PLAIN),
    "half an escape": (TEXT.replace('"x"', '"\\u12"'), {**PLAIN, "end": "\\u12"}),
    "a comma too many in a list": (TEXT.replace("    }\n  ]", "    },\n  ]"), PLAIN),
    "a comma too many at the end": (TEXT.replace('"x"\n', '"x",\n'), PLAIN),
    "a comma too few": (TEXT.replace("true,", "true"), PLAIN),
    "no number": (TEXT.replace("1,", "NaN,"), {**PLAIN, "list": [None, {"a": None}]}),
    "words of Python": (TEXT.replace("null", "None").replace("true", "True"), PLAIN),
    "a remark": (TEXT.replace("true,", "true, // since noon"), PLAIN),
    "a text that looks like slips": (
        TEXT.replace('"x"', '"see https://x, ] None"'),
        {**PLAIN, "end": "see https://x, ] None"},
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_syntax_mistake_loses_nothing_around_it(slip: str) -> None:
    text, stated = SLIPS[slip]
    found = read_damaged(text.encode())
    assert found is not None and found.rung == "whole" and found.value == stated


def test_syntax_mistake_before_the_damage_loses_nothing_between_them() -> None:
    text = TEXT.replace("C:\\\\kim", "C:\\kim").replace('"x"\n}', '"x')
    found = read_damaged(text.encode())
    assert found is not None and found.rung == "partial"
    assert found.value == {key: value for key, value in PLAIN.items() if key != "end"}


@pytest.mark.parametrize("story", [name for name in STORIES if not name.startswith(("ai", "es"))])
def test_syntax_mistake_in_a_session_file_loses_nothing(story: str) -> None:
    format = load_format(story.partition("/")[0])
    ((name, data),) = STORIES[story].items()
    assert data.rstrip().endswith(b"}")
    saved = format.salvage({name: data.rstrip()[:-1] + b",}"}, Where())
    assert saved is not None and saved.level == "whole"
    assert saved.facts == format.get({name: json.loads(data)}, Where())


def test_any_number_of_mistakes_is_repaired_in_bounded_time() -> None:
    for noise in (",", '"\\', "//", "/*", '"\n', "NaN ", "\\", "1\n"):
        read_damaged(b"{" + noise.encode() * 50_000)


# --- git conflicts ------------------------------------------------------------------------------

CONFLICTS = {
    "no marks": ("a\nb\n", ["a\nb\n"]),
    "two sides": (
        "a\n<<<<<<< HEAD\nb\n=======\nc\n>>>>>>> main\nd\n",
        ["a\nb\nd\n", "a\nc\nd\n"],
    ),
    "the version before both is of neither": (
        "<<<<<<< HEAD\nb\n||||||| base\nz\n=======\nc\n>>>>>>> main\n",
        ["b\n", "c\n"],
    ),
    "two conflicts": (
        "<<<<<<< x\n1\n=======\n2\n>>>>>>> y\n-\n<<<<<<< x\n3\n=======\n4\n>>>>>>> y\n",
        ["1\n-\n3\n", "2\n-\n4\n"],
    ),
    "lines end as on Windows": (
        "<<<<<<< x\r\n1\r\n=======\r\n2\r\n>>>>>>> y\r\n",
        ["1\r\n", "2\r\n"],
    ),
    "the last mark ends the file": ("<<<<<<< x\n1\n=======\n2\n>>>>>>> y", ["1\n", "2\n"]),
    "equal signs without a conflict": ("Title\n=======\ntext\n", ["Title\n=======\ntext\n"]),
    "more than a mark": ("<<<<<<<<<< x\n", ["<<<<<<<<<< x\n"]),
}


@pytest.mark.parametrize("case", CONFLICTS)
def test_each_side_of_a_merge_conflict_is_the_file_without_the_other_side(case: str) -> None:
    text, wanted = CONFLICTS[case]
    assert sides(text) == wanted


def test_key_that_never_has_a_value_is_searched_in_bounded_time() -> None:
    began = time.perf_counter()
    assert read_damaged(b'"goal": "' * 80_000, single=("goal",)) is None
    assert time.perf_counter() - began < 3
