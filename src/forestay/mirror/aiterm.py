"""Live sessions of aiterm: one small file per running agent, below `~/.claude/sessions/`.

    active/{id}.json                  session_id, project, path, git_branch, git_dirty, started,
                                      pid, task
    history/YYYY-MM-DD/{id}.json      the same, with `ended` and `status`

They say who is at work now and nothing of the work itself, so they are shown, not adopted: two
on one path are a *conflict*. A file whose process is gone may be *pruned*: it is moved into the
history. Only its own program ever ends a session that lives; a process number that someone else
has by now counts as alive.
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
_SAID = (*_NEEDED, "project", "task", "git_branch", "problem")


class Live(Struct):
    """One file of a session that runs, or ran until its process died."""

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
    """Whether a parsed file is one of these."""
    return isinstance(value, dict) and all(isinstance(value.get(key), str) for key in _NEEDED)


def live(folder: str, clean: Callable[[str], str] = str) -> list[Live]:
    """The sessions in a folder of aiterm, by file name; an unreadable one has a `problem`.

    What they say is told as `clean` leaves it, without secrets.
    """
    paths = [p for p in files.list_paths(os.path.join(folder, ACTIVE)) if p.endswith(".json")]
    found = [_read(path) for path in paths[:_MOST]]
    for one in found:
        one.conflicts = [clean(o.session_id) for o in found if o is not one and _clash(one, o)]
    return [replace(one, **{name: clean(getattr(one, name)) for name in _SAID}) for one in found]


def prune(folder: str, clock: Clock, clean: Callable[[str], str] = str) -> list[Live]:
    """Move the files of dead processes into the history; returns all that were there."""
    found = live(folder, clean)
    for one in found:
        if not one.alive and not one.problem:
            one.pruned = _archive(folder, one, clock)
    return found


def _clash(one: Live, other: Live) -> bool:
    return one.alive and other.alive and os.path.realpath(one.path) == os.path.realpath(other.path)


def _read(path: str) -> Live:
    name = os.path.basename(path).removesuffix(".json")
    try:
        value = _value(path)
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


def _value(path: str) -> Any:
    return Document.parse(files.read_bounded(path, _MAX_BYTES, follow=False), "json").value


def _archive(folder: str, one: Live, clock: Clock) -> str:
    """Move a file into the history of today, with when and how it ended."""
    now = timestamps.write(clock.now())
    target = os.path.join(folder, HISTORY, now[:10], os.path.basename(one.file))
    data = files.read_bounded(one.file, _MAX_BYTES, follow=False)
    document = Document.parse(data, "json")
    if os.path.lexists(target):
        return ""
    files.make_folder(os.path.dirname(target))
    ended = {**document.value, "ended": now, "status": "pruned"}
    files.create(target, document.rewrite(ended), mode=0o644)
    files.remove(one.file)
    return target
