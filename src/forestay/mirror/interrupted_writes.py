"""Leftover: what somebody who died while he exchanged a file left hidden beside it.

An exchange puts a new file in the place of an old one, which lies beside it until it was looked at
(`exchange`). For the files of our own sessions the next event sees to that (`mirror`). All others
are looked for here: what was displaced gets a name that shows, and not a byte of it goes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress

from forestay.base import files, swap_file
from forestay.base.clock import Clock, iso
from forestay.errors import ForestayError
from forestay.journal.context import Context
from forestay.mirror import discover
from forestay.mirror.context import paths_of
from forestay.mirror.discover import AI_ROOT, Find, own_essay_folders
from forestay.mirror.quick_scan import places

_MOST_ESSAYS = 200
_PATIENCE = 1.0


def aside_name(path: str, clock: Clock) -> str:
    """A free name beside a file for what was in its place; nobody takes it for a session's."""
    stamp = re.sub("[-:]", "", iso(clock.now()))
    names = (f"{path}.corrupt-{stamp}{'' if n == 0 else f'-{n}'}" for n in range(10_000))
    return next(name for name in names if not os.path.lexists(name))


def renamed(path: str, target: str) -> str:
    files.move(path, target)
    return target


def root_of(path: str) -> str:
    """The folder that whoever writes a file locks: that of all sessions of an ai-session's."""
    folder = os.path.dirname(path)
    above = os.path.dirname(folder)
    return above if os.path.basename(above) == AI_ROOT else folder


def of(context: Context, one: Find) -> list[str]:
    """The files of a session that is not ours an exchange of which was cut off."""
    folders = dict.fromkeys(os.path.dirname(path) for path in one.paths.values())
    return [left for folder in folders for left in _in(context, folder)]


def everywhere(context: Context) -> Iterator[str]:
    """The same of all in this project, and of the user's essays."""
    there = (p if os.path.isdir(p) else os.path.dirname(p) for p in _roots(context))
    for root in dict.fromkeys(there):
        below = (os.path.join(root, name) for name in discover.started_in(root))
        for folder in (root, *below):
            yield from _in(context, folder)


def _roots(context: Context) -> list[str]:
    return [
        *places(context.workspace.tree.root),
        *own_essay_folders(context.settings)[:_MOST_ESSAYS],
    ]


def _in(context: Context, folder: str) -> list[str]:
    """Those in a folder; whoever is just writing there is waited for."""
    if not swap_file.cut_off(folder):
        return []
    lock = files.locked(root_of(os.path.join(folder, "")), timeout=_PATIENCE, clock=context.clock)
    with suppress(ForestayError), lock:
        left = swap_file.cut_off(folder)
        ours = {p for b in context.store.machine.bindings.bindings() for p in paths_of(b).values()}
        return [path for path in left if os.path.realpath(path) not in ours]
    return []


def uncover(context: Context, path: str) -> list[str]:
    """Show what was displaced; where it is now. What cannot be done now the next look tells."""
    with suppress(ForestayError), files.locked(root_of(path), clock=context.clock):
        return uncovered(path, context.clock)
    return []


def uncovered(path: str, clock: Clock) -> list[str]:
    """The same, for whoever holds the lock."""
    return [renamed(aside, aside_name(path, clock)) for aside in swap_file.clear_up(path)]
