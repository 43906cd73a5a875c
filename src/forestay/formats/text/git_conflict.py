"""Conflict: what git leaves in a file of which two versions could not be merged."""

from __future__ import annotations

import re

_OURS = "<<<<<<<"
_MARKS: dict[str, tuple[int, ...]] = {
    _OURS: (0,),
    "|||||||": (),
    "=======": (1,),
    ">>>>>>>": (0, 1),
}
"""Into which sides the lines after a mark go; what stood there before both goes into none."""
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def mark_of(line: str) -> str:
    """The mark that a line is, or nothing."""
    mark = line[:7]
    return mark if mark in _MARKS and line[7:8] in ("", " ", "\r", "\n") else ""


def sides(text: str) -> list[str]:
    """The text, or both sides of it if it holds a conflict; what stands outside is in both."""
    made: tuple[list[str], list[str]] = ([], [])
    into: tuple[int, ...] = (0, 1)
    is_in_two = False
    for line in _LINE.findall(text):
        mark = mark_of(line)
        if mark and (mark == _OURS or is_in_two):
            into, is_in_two = _MARKS[mark], True
            continue
        for side in into:
            made[side].append(line)
    return ["".join(lines) for lines in made] if is_in_two else [text]
