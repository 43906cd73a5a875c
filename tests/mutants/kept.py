"""Kept mutants: small wrongs, one at least per heading of the requirements, that tests must see.

`kept.toml` has them as data: the heading, what the program then does wrong, the text in the source
and the text in its place. A text stands exactly once in all of the source, so that a mutant needs
no file name and outlives a move; one that no longer applies is an error, never skipped.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
LIST = ROOT / "docs/requirements.md"
KEPT = Path(__file__).with_name("kept.toml")

_DOCUMENT = re.compile(r"^## ([SX]\d) ")
_HEADING = re.compile(r"^### (.+?)(?: \(.*\))?$")
_TESTED = re.compile(r"^- ([SX]\d-\d+) \[tested\]")


@dataclass(frozen=True)
class Mutant:
    heading: str
    breaks: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.heading}: {self.breaks}"


def headings(text: str) -> dict[str, frozenset[str]]:
    """The headings with tested numbers; what stands in parentheses at their end is left out."""
    found: dict[str, set[str]] = {}
    document = heading = ""
    for line in text.splitlines():
        if match := _DOCUMENT.match(line):
            document = heading = match[1]
        elif match := _HEADING.match(line):
            heading = f"{document} {match[1]}"
        elif match := _TESTED.match(line):
            found.setdefault(heading, set()).add(match[1])
    return {name: frozenset(numbers) for name, numbers in found.items()}


def kept(text: str) -> list[Mutant]:
    found = tomllib.loads(text)
    return [
        Mutant(heading, each["breaks"], each["old"], each["new"])
        for heading, mutants in found.items()
        for each in mutants
    ]


def place(mutant: Mutant, source: Path = SOURCE) -> Path:
    """The one file that a mutant is about; ValueError if there is none, or more than one."""
    files = [
        (path, path.read_text(encoding="utf-8").count(mutant.old)) for path in _modules(source)
    ]
    found = [(path, count) for path, count in files if count]
    if sum(count for _, count in found) != 1:
        where = ", ".join(f"{count} times in {path.name}" for path, count in found) or "nowhere"
        raise ValueError(f"{mutant}: its text must stand in the source once, and stands {where}")
    return found[0][0]


def _modules(source: Path) -> Iterator[Path]:
    return (path for path in sorted(source.rglob("*.py")))


def apply(mutant: Mutant, source: Path) -> None:
    """Put the mutant into a copy of the source."""
    path = place(mutant, source)
    path.write_text(path.read_text(encoding="utf-8").replace(mutant.old, mutant.new), "utf-8")


def problems(mutants: list[Mutant], wanted: dict[str, frozenset[str]]) -> Iterator[str]:
    """What is wrong with the kept mutants as such."""
    having = {mutant.heading for mutant in mutants}
    yield from (f"no mutant is kept for: {name}" for name in wanted if name not in having)
    yield from (f"no such heading, or nothing tested: {name}" for name in having - wanted.keys())
    for mutant in mutants:
        try:
            changed = place(mutant).read_text(encoding="utf-8").replace(mutant.old, mutant.new)
            compile(changed, str(mutant), "exec")
        except (ValueError, SyntaxError) as error:
            yield str(error)
