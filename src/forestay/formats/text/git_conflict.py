"""Split a text with git conflict markers into its two versions."""

from __future__ import annotations

import re

_OURS = "<<<<<<<"
_MARKS: dict[str, tuple[int, ...]] = {
    _OURS: (0,),
    "|||||||": (),
    "=======": (1,),
    ">>>>>>>": (0, 1),
}
"""The sides that get the lines after a marker; the common ancestor belongs to neither."""
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def marker_in(line: str) -> str:
    """Return the conflict marker in a line, or an empty string."""
    mark = line[:7]
    return mark if mark in _MARKS and line[7:8] in ("", " ", "\r", "\n") else ""


def sides(text: str) -> list[str]:
    """Return the text, or its two versions if it has conflicts; lines outside are in both."""
    made: tuple[list[str], list[str]] = ([], [])
    into: tuple[int, ...] = (0, 1)
    is_in_two = False
    for line in _LINE.findall(text):
        mark = marker_in(line)
        if mark and (mark == _OURS or is_in_two):
            into, is_in_two = _MARKS[mark], True
            continue
        for side in into:
            made[side].append(line)
    return ["".join(lines) for lines in made] if is_in_two else [text]
