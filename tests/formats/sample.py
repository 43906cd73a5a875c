"""What the contract suite needs to know of a format."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from forestay.base.findings import Finding
from forestay.formats.coerce import copied
from forestay.formats.facts import Facts
from forestay.formats.port import Format, Tree, Where

HERE = Where(now=1_768_700_000_000, naive="utc")

Field = tuple[str, str, str]
"""Place, kind (with a question mark: or null; `-` if only `faults` say), requirement."""
Fault = tuple[str, Any, str, str]
"""Place, wrong value (`...` removes the key), code of the finding, requirement."""
Words = tuple[str, str, str]
"""Place, every word that is allowed there, requirement."""


class Sample(Struct, frozen=True):
    """A format with a consistent session in it; the first file of the tree is the main one.

    Places are such as `agents[0].id`, or `index:active_features[0]` with a name from `files`.
    """

    format: Format
    tree: Tree
    where: Where = HERE
    files: dict[str, str] = {}
    """Name in places → file of the tree."""
    fields: Iterable[Field] = ()
    optional: tuple[str, ...] = ()
    """How the places begin of fields that may be missing."""
    full: Callable[[str], Tree] | None = None
    """Return a session in which the field at a place is filled; None if new files differ."""
    unwritten: tuple[str, ...] = ()
    """How the places begin of fields that facts alone do not bring into a new file."""
    faults: Iterable[Fault] = ()
    words: Iterable[Words] = ()
    statuses: dict[str, str] = {}
    """Word of the file → status of the session."""
    status: tuple[str, str] = ("", "")
    """Place and requirement of the status."""
    updated: tuple[str, str] = ("", "")
    """Place and requirement of the time of the last change."""
    versions: dict[Any, bool] = {}
    """Version → whether files of it are written."""
    version: tuple[str, str] = ("", "")
    """Place and requirement of the version."""
    others: Iterable[Any] = ()
    """Values that are not recognised as a session of this format."""

    @property
    def main(self) -> str:
        return next(iter(self.tree))

    def get(self, tree: Tree | None = None) -> Facts:
        return self.format.get(self.tree if tree is None else tree, self.where)

    def put(self, tree: Tree | None, facts: Facts) -> Tree:
        return self.format.put(tree, facts, self.where)

    def check(self, tree: Tree, *, strict: bool = False) -> list[Finding]:
        return self.format.check(tree, self.where, strict=strict)

    def changed(self, place: str, value: Any) -> Tree:
        """Return the session with one value changed, or removed if the value is `...`."""
        made: Tree = copied(self.tree)
        node, key = self.locate(made, place)
        if value is ...:
            del node[key]
        else:
            node[key] = value
        return made

    def locate(self, tree: Tree, place: str) -> tuple[Any, Any]:
        """Return the container of a place and the key in it."""
        file, _, path = place.rpartition(":")
        keys: list[Any] = [self.files.get(file, self.main)]
        keys += [int(n) if n else name for name, n in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path)]
        node: Any = tree
        for key in keys[:-1]:
            node = node[key]
        return node, keys[-1]


def rows(text: str) -> list[Any]:
    """Return the rows of a table: a line each, with columns separated by blanks."""
    return [tuple(line.split()) for line in text.strip().splitlines()]
