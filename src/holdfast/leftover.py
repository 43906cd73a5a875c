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

from holdfast import exchange, files, found
from holdfast.clock import Clock, iso
from holdfast.errors import HoldfastError
from holdfast.found import AI_ROOT, Find
from holdfast.glance import places
from holdfast.home import Holdfast
from holdfast.mirror.desk import paths_of

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


def of(home: Holdfast, one: Find) -> list[str]:
    """The files of a session that is not ours an exchange of which was cut off."""
    folders = dict.fromkeys(os.path.dirname(path) for path in one.paths.values())
    return [left for folder in folders for left in _in(home, folder)]


def everywhere(home: Holdfast) -> Iterator[str]:
    """The same of all in this project, and of the user's essays."""
    there = (p if os.path.isdir(p) else os.path.dirname(p) for p in _roots(home))
    for root in dict.fromkeys(there):
        below = (os.path.join(root, name) for name in found.started_in(root))
        for folder in (root, *below):
            yield from _in(home, folder)


def _roots(home: Holdfast) -> list[str]:
    return [*places(home.workspace.tree.root), *home.essay_folders()[:_MOST_ESSAYS]]


def _in(home: Holdfast, folder: str) -> list[str]:
    """Those in a folder; whoever is just writing there is waited for."""
    if not exchange.cut_off(folder):
        return []
    lock = files.locked(root_of(os.path.join(folder, "")), timeout=_PATIENCE, clock=home.clock)
    with suppress(HoldfastError), lock:
        left = exchange.cut_off(folder)
        ours = {p for b in home.store.bound.bindings() for p in paths_of(b).values()}
        return [path for path in left if os.path.realpath(path) not in ours]
    return []


def uncover(home: Holdfast, path: str) -> list[str]:
    """Show what was displaced; where it is now. What cannot be done now the next look tells."""
    with suppress(HoldfastError), files.locked(root_of(path), clock=home.clock):
        return uncovered(path, home.clock)
    return []


def uncovered(path: str, clock: Clock) -> list[str]:
    """The same, for whoever holds the lock."""
    return [renamed(aside, aside_name(path, clock)) for aside in exchange.clear_up(path)]
