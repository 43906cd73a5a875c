"""What git leaves of a merge, taken apart."""

from __future__ import annotations

import pytest

from forestay.formats.text.git_conflict import sides

CASES = {
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


@pytest.mark.parametrize("case", CASES)
def test_each_side_is_the_file_without_the_other(case: str) -> None:
    text, wanted = CASES[case]
    assert sides(text) == wanted
