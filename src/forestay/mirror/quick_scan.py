"""Find session files of other programs in a project by their names, without reading any.

If there are any, the user is advised to run `forestay adopt`, which reads them. The scan costs a
few `stat` calls for each format without files, and one directory listing for each format with
files. Only the beginning of a very long listing is read.
"""

from __future__ import annotations

import os

from forestay.formats.registry import REGISTRY, SESSION_FILES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from forestay.journal.context import Context

_INDEX = "index.json"
_MOST = 200


def unadopted_here(context: Context) -> list[str]:
    """Return places in this project with session files of other programs that are not adopted."""
    root, store = context.workspace.tree.root, context.store
    return unadopted(
        root, lambda: store.machine.bindings.places(root), store.machine.seen_files.stamps_below
    )


def unadopted(
    root: str, ours: Callable[[], set[str]], seen: Callable[[str], set[tuple[str, str]]]
) -> list[str]:
    """Return places below a project's root with sessions that were not adopted, or changed since.

    `ours` returns the bound files; it is called only if there are session files. `seen` returns the
    stored stamps of adopted files in a place; it is called only if some files are not bound.
    """
    there = places(root)
    if not there:
        return []
    known = ours()
    return [
        place
        for place in there
        if (others := [path for path in _sessions(root, place) if path not in known])
        and not _all_adopted(others, seen(place))
    ]


def _all_adopted(paths: list[str], seen: set[tuple[str, str]]) -> bool:
    return all((path, adopted_stamp(path)) in seen for path in paths)


def adopted_stamp(path: str) -> str:
    """Return the stamp to store for an adopted, unbound file; it changes when the file does."""
    try:
        facts = os.lstat(path)
    except OSError:
        return ""
    return f"adopted.{facts.st_ino}.{facts.st_size}.{facts.st_mtime_ns}"


def places(root: str) -> list[str]:
    """Return the folders and files below a project's root that formats use for sessions."""
    found = dict.fromkeys(f"{root}/{pattern.partition('/*')[0]}" for pattern in _patterns())
    return [path for path in found if os.path.lexists(path)]


def _patterns() -> list[str]:
    """Return the places of all formats as patterns relative to a project's root."""
    roots = [(id, place) for id, (_, place) in REGISTRY.items() if place]
    return [each for id, place in roots for each in SESSION_FILES.get(id, (f"{place}/*",))]


def _sessions(root: str, place: str) -> Iterator[str]:
    """Yield the paths of the main files of the sessions in a place; they need not exist."""
    here = [each for each in _patterns() if f"{root}/{each.partition('/*')[0]}" == place]
    endings = [each.partition("/*")[2] for each in here]
    if not any("*" in each for each in here):
        yield place
        return
    for name in _names(place):
        if endings[0].startswith("/"):
            if any(os.path.lexists(f"{place}/{name}{ending}") for ending in endings):
                yield f"{place}/{name}{endings[0]}"
        elif name.endswith(tuple(endings)) and name != _INDEX:
            yield f"{place}/{name}"


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))[:_MOST]
    except OSError:
        return []
