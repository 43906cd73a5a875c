"""Surroundings: what is around the files of found sessions that a layout may know when it judges
them: the names in their folder, and how many phases their workflow has."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import cache, partial

from msgspec.structs import replace

from forestay.base import files, walk
from forestay.errors import ForestayError, InvalidInput
from forestay.formats.conventions import custom
from forestay.formats.port import Where
from forestay.formats.text.document import Document
from forestay.mirror.discover import MAX_BYTES, MOST_FILES, Find


class Surroundings:
    """What is around the files of sessions. A folder is listed once, however many are in it."""

    def __init__(self, where: Callable[..., Where], workflows: str = "") -> None:
        require_definitions(workflows)
        self._where = cache(partial(where, names=False))
        self._names = cache(lambda folder: frozenset(walk.list_files_below(folder, MOST_FILES)))
        self._workflows = workflows

    def of(self, one: Find) -> Where:
        """What of it counts for a session; the names are those in its own folder, and those of its
        files, which may be beside it."""
        where = replace(self._where(one.root), total=phases(one, self._workflows))
        if one.is_loose:
            return replace(where, root="")
        shared = custom(one.layout).shared
        there = (name for name in shared if os.path.isfile(os.path.join(one.root, name)))
        names = self._names(os.path.dirname(one.path)).union(one.paths, there)
        return replace(where, names=names)


def require_definitions(folder: str) -> None:
    """Refuse a folder of workflow definitions that was named and is none."""
    if folder and not os.path.isdir(folder):
        what = f"{folder[:200]} is not a folder"
        raise InvalidInput(what, hint="check the path", file=folder)


def phases(one: Find, folder: str = "") -> int | None:
    """How many phases the definition of a session's workflow gives, if one is at hand.

    Definitions are in `TYPE/metadata.json`, below the folder given or that of the session's own
    project. One that only says that the number changes is none. What cannot be read is refused in
    a folder that was given, and else none.
    """
    kind = _workflow(one)
    root = folder or _definitions(one.path)
    if not root or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", kind):
        return None
    path = os.path.join(root, kind, "metadata.json")
    try:
        value = Document.parse(files.read_bounded(path, MAX_BYTES), "json").value
    except ForestayError as error:
        if folder and os.path.lexists(path):
            raise InvalidInput(f"{path} cannot be read", why=str(error), file=path) from error
        return None
    total = value.get("total_phases") if isinstance(value, dict) else None
    return total if type(total) is int and 0 < total < 10_000 else None


def _workflow(one: Find) -> str:
    value = next(iter(one.tree.values()), None) if one.layout == "praxis" else None
    kind = value.get("workflow_type") if isinstance(value, dict) else ""
    return kind if isinstance(kind, str) else ""


def _definitions(path: str) -> str:
    above, found, _ = path.partition("/.praxis-os/")
    return f"{above}/.praxis-os/workflows" if found else ""
