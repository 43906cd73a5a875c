"""Load the kept mutants: small faults, at least one per heading of requirements, for tests to find.

`kept.toml` holds the heading, what the program then does wrong, the text in the source and its
replacement. The text occurs exactly once in the whole source, so that a mutant needs no file name
and stays valid after a move; one that no longer applies is an error, never skipped.
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
    """Return the headings with their tested numbers, without parentheses at their end."""
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


def load_mutants(text: str) -> list[Mutant]:
    found = tomllib.loads(text)
    return [
        Mutant(heading, each["breaks"], each["old"], each["new"])
        for heading, mutants in found.items()
        for each in mutants
    ]


def find_file(mutant: Mutant, source: Path = SOURCE) -> Path:
    """Return the only file with the mutant's text; ValueError if it occurs never or twice."""
    files = [
        (path, path.read_text(encoding="utf-8").count(mutant.old)) for path in _modules(source)
    ]
    found = [(path, count) for path, count in files if count]
    if sum(count for _, count in found) != 1:
        where = ", ".join(f"{count} times in {path.name}" for path, count in found) or "nowhere"
        raise ValueError(f"{mutant}: its text must occur in the source once, but occurs {where}")
    return found[0][0]


def _modules(source: Path) -> Iterator[Path]:
    return (path for path in sorted(source.rglob("*.py")))


def apply(mutant: Mutant, source: Path) -> None:
    """Apply the mutant to a copy of the source."""
    path = find_file(mutant, source)
    path.write_text(path.read_text(encoding="utf-8").replace(mutant.old, mutant.new), "utf-8")


def problems(mutants: list[Mutant], wanted: dict[str, frozenset[str]]) -> Iterator[str]:
    """Yield headings without a mutant, unknown headings, and mutants that do not apply."""
    covered = {mutant.heading for mutant in mutants}
    yield from (f"no mutant is kept for: {name}" for name in wanted if name not in covered)
    yield from (f"no such heading, or nothing tested: {name}" for name in covered - wanted.keys())
    for mutant in mutants:
        try:
            changed = find_file(mutant).read_text(encoding="utf-8").replace(mutant.old, mutant.new)
            compile(changed, str(mutant), "exec")
        except (ValueError, SyntaxError) as error:
            yield str(error)
