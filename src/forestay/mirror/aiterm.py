"""List the live sessions of aiterm: one small file per running agent in `~/.claude/sessions/`.

    active/{id}.json                  session_id, project, path, git_branch, git_dirty, started,
                                      pid, task
    history/YYYY-MM-DD/{id}.json      the same, with `ended` and `status`

The files show which agents run now, but not what they do, so they are listed and not adopted. Two
agents on one path are a *conflict*. The file of a process that no longer runs can be *pruned*: it
is moved into the history. Only its own program ends a live session. If another process has the same
process number by now, the session counts as alive.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from forestay.base import files, process
from forestay.base.clock import Clock
from forestay.errors import ForestayError
from forestay.formats import timestamps
from forestay.formats.coerce import text
from forestay.formats.text.document import Document

ACTIVE, HISTORY = "active", "history"
_MAX_BYTES = 64 * 1024
_MOST = 1000
_NEEDED = ("session_id", "path", "started")
_TEXTS = (*_NEEDED, "project", "task", "git_branch", "problem")


class Live(Struct):
    """One file in `active/`: a session whose process runs, or died without removing the file."""

    file: str
    session_id: str
    path: str
    project: str = ""
    task: str = ""
    git_branch: str = ""
    pid: int | None = None
    started: str = ""
    alive: bool = False
    conflicts: list[str] = []
    """Ids of the other live sessions on the same path."""
    pruned: str = ""
    problem: str = ""


def recognise(value: Any) -> bool:
    """Return whether a parsed file has the keys of a live session of aiterm."""
    return isinstance(value, dict) and all(isinstance(value.get(key), str) for key in _NEEDED)


def list_live(folder: str, clean: Callable[[str], str] = str) -> list[Live]:
    """Return the sessions in a folder of aiterm, by file name; an unreadable one has a `problem`.

    `clean` removes secrets from their texts.
    """
    paths = [p for p in files.list_paths(os.path.join(folder, ACTIVE)) if p.endswith(".json")]
    found = [_read(path) for path in paths[:_MOST]]
    for one in found:
        alive = [other for other in found if other is not one and other.alive and one.alive]
        here = os.path.realpath(one.path)
        same = [other for other in alive if os.path.realpath(other.path) == here]
        one.conflicts = [clean(other.session_id) for other in same]
    return [replace(one, **{name: clean(getattr(one, name)) for name in _TEXTS}) for one in found]


def prune(folder: str, clock: Clock, clean: Callable[[str], str] = str) -> list[Live]:
    """Move the files of dead processes into the history; return all sessions."""
    found = list_live(folder, clean)
    for one in found:
        if not one.alive and not one.problem:
            one.pruned = _archive(folder, one, clock)
    return found


def _read(path: str) -> Live:
    name = os.path.basename(path).removesuffix(".json")
    try:
        value = _parse(path).value
    except ForestayError as error:
        return Live(path, name, "", problem=str(error))
    if not recognise(value):
        return Live(path, name, "", problem="this is not a live session")
    pid = value.get("pid")
    number = pid if isinstance(pid, int) and not isinstance(pid, bool) else None
    return Live(
        file=path,
        session_id=value["session_id"],
        path=value["path"],
        started=value["started"],
        pid=number,
        alive=number is not None and process.pid_exists(number),
        project=text(value.get("project")),
        task=text(value.get("task")),
        git_branch=text(value.get("git_branch")),
    )


def _parse(path: str) -> Document:
    return Document.parse(files.read_bounded(path, _MAX_BYTES, follow=False), "json")


def _archive(folder: str, one: Live, clock: Clock) -> str:
    """Move a file into today's history folder, with `ended` and `status` added."""
    now = timestamps.write(clock.now())
    target = os.path.join(folder, HISTORY, now[:10], os.path.basename(one.file))
    document = _parse(one.file)
    if os.path.lexists(target):
        return ""
    files.make_folder(os.path.dirname(target))
    ended = {**document.value, "ended": now, "status": "pruned"}
    files.create(target, document.rewrite(ended), mode=0o644)
    files.remove(one.file)
    return target
