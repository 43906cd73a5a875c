"""Judge the impact of a change to an essay's file: thesis, outline, or arguments of a section.

The result is a word for the impact, a reason, and the sections concerned. The document's examples
set the measure: another claim type makes another essay, one changed section concerns that section.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from forestay.formats.essay.fields import DRAFT, DRAFT_LOG, FINAL, OUTLINE, THESIS
from forestay.formats.essay.stage_files import outline, section_in, thesis

Compare = Callable[[str, str], float]
"""Return how similar two texts are, from 0 to 1."""
Impact = tuple[str, str, list[int]]
"""Impact, reason, sections."""

STAGE_OF = {OUTLINE: 2, DRAFT: 4, DRAFT_LOG: 4, FINAL: 5}
_SECTION = re.compile(r"(?m)^### Section (\d{1,3}):")
_ALIKE = 0.8


def stage_of_file(name: str) -> int | None:
    """Return the stage of a file; 5 is the finished essay and the logs over all stages."""
    if name.startswith("stage-1-"):
        return 1
    if section_in(name) is not None:
        return 3
    if name in ("fact-check-log.md", "voice-check-log.md"):
        return 5
    return STAGE_OF.get(name)


def told(name: str, old: str, new: str, compare: Compare) -> list[Impact]:
    """Return the impact of a change to a file; nothing for files judged by their text alone."""
    if name == THESIS:
        return _thesis(old, new, compare)
    if name == OUTLINE:
        return _outline(old, new, compare)
    number = section_in(name)
    if number is None:
        return []
    part = compare(old, new)
    word = "minor" if part >= _ALIKE else "moderate"
    return [(word, f"the arguments of section {number} changed ({_percent(part)})", [number])]


def _percent(part: float) -> str:
    return f"{round(part * 100)}% as they were"


def _thesis(old: str, new: str, compare: Compare) -> list[Impact]:
    then, now = thesis(old.encode()), thesis(new.encode())
    if then.claim_type != now.claim_type and then.claim_type and now.claim_type:
        kinds = f"{then.claim_type} → {now.claim_type}"
        return [("major", f"the claim type changed: {kinds}; the essay has another direction", [])]
    if not then.statement and not now.statement:
        return []  # it has another form and is judged by its text alone
    part = compare(then.statement, now.statement)
    if then.statement == now.statement:
        return [("minor", "the thesis statement is as it was", [])]
    if part >= _ALIKE:
        return [("minor", "the thesis statement was reworded", [])]
    if part >= _ALIKE / 2:
        return [("moderate", f"the thesis statement changed ({_percent(part)})", [])]
    return [("major", f"the thesis is another one ({_percent(part)})", [])]


def _outline(old: str, new: str, compare: Compare) -> list[Impact]:
    then, now = _sections(old), _sections(new)
    if not then and not now:
        return []
    lost = sorted(then.keys() - now.keys())
    added = sorted(now.keys() - then.keys())
    changed = [n for n in sorted(then.keys() & now.keys()) if compare(then[n], now[n]) < _ALIKE]
    moved = sorted({*lost, *added, *changed})
    if not moved:
        return [("minor", "every section of the outline is there and reworded at most", [])]
    parts = [
        *([f"without {_named(lost)}"] if lost else []),
        *([f"new: {_named(added)}"] if added else []),
        *([f"changed: {_named(changed)}"] if changed else []),
    ]
    most = len(lost) + len(changed) > len(then) / 2 and len(then) > 1
    reason = f"the outline changed ({'; '.join(parts)})"
    return [("major", reason, [])] if most else [("moderate", reason, moved)]


def _named(sections: list[int]) -> str:
    return f"section{'' if len(sections) == 1 else 's'} {', '.join(map(str, sections))}"


def _sections(text: str) -> dict[int, str]:
    """Return the text of each section of an outline, with its title first."""
    marks = list(_SECTION.finditer(text))
    ends = [*(mark.start() for mark in marks[1:]), len(text)][: len(marks)]
    titles = outline(text.encode()).titles
    found: dict[int, str] = {}
    for mark, end in zip(marks, ends, strict=True):
        number = int(mark[1])
        title = f"{titles.get(number, '')} " * 3
        found.setdefault(number, title + _until_heading(text[mark.end() : end]))
    return found


def _until_heading(text: str) -> str:
    return re.split(r"(?m)^#{1,2} ", text, maxsplit=1)[0]
