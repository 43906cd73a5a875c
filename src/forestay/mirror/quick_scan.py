"""Find session files of other programs in a project by their names, without reading any.

Users are then asked to run `forestay adopt`, which reads them. A scan costs a few stats where
nothing is, and one short listing where something is; of very long listings only the start counts.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from forestay.journal.context import Context

_FOLDER = ".ai-session"
_JSON = (
    ".praxis-os/.cache/state",
    ".praxis-os/state/workflow/active",
    ".praxis-os/state/workflow/completed",
    ".praxis-os/state/workflow/error",
    ".craft/cache/orchestration-sessions",
)
_CURRENT = ".claude/orchestrator-session.json"
_PARTS = ("state.yaml", "implementation-plan.yaml", "history.jsonl")
_PLACES = (_FOLDER, *_JSON, _CURRENT)
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
    """Return places below a project's root with sessions that were not adopted as they are.

    `ours` returns the bound files, and is called only if there are any; `seen` returns what was
    remembered of the files in a place, and is called only if there are others.
    """
    there = [place for place in _PLACES if os.path.lexists(f"{root}/{place}")]
    if not there:
        return []
    known = ours()
    return [
        f"{root}/{place}"
        for place in there
        if (others := [one for one in _sessions(root, place) if one not in known])
        and not _all_adopted(others, seen(f"{root}/{place}"))
    ]


def _all_adopted(paths: list[str], seen: set[tuple[str, str]]) -> bool:
    return all((path, adopted_stamp(path)) in seen for path in paths)


def adopted_stamp(path: str) -> str:
    """Return the stamp of an adopted file that is only read; it changes with the file."""
    try:
        facts = os.lstat(path)
    except OSError:
        return ""
    return f"adopted.{facts.st_ino}.{facts.st_size}.{facts.st_mtime_ns}"


def places(root: str) -> list[str]:
    """Return the folders and files below a project's root that formats use for sessions."""
    return [path for place in _PLACES if os.path.lexists(path := f"{root}/{place}")]


def _sessions(root: str, place: str) -> Iterator[str]:
    """Yield the main files that sessions in a place have, or would have."""
    path = f"{root}/{place}"
    if place == _CURRENT:
        yield path
    for name in _names(path):
        if place in _JSON and name.endswith(".json") and name != _INDEX:
            yield f"{path}/{name}"
        elif place == _FOLDER and any(os.path.lexists(f"{path}/{name}/{p}") for p in _PARTS):
            yield f"{path}/{name}/{_PARTS[0]}"


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))[:_MOST]
    except OSError:
        return []
