"""The device id that this home writes under, the ids it used before, and its secret."""

from __future__ import annotations

import os

from forestay.base.clock import short_id
from forestay.store.machine.tables import key_range

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from forestay.base.clock import Clock
    from forestay.store.machine.tables import Tables

    MachineName = str | Callable[[], str]

_ID_CHARACTERS = frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-")
_FORMER = "was "
"""Begins the keys of ids that this home wrote under before."""
_DEVICE = "SELECT value FROM meta WHERE key = 'device'"


def current_id(tables: Tables) -> str:
    """Return the id this home writes under; "" before the first write."""
    found = tables.read(_DEVICE)
    return str(found[0][0]) if found else ""


def former_ids(tables: Tables) -> set[str]:
    """Return the ids that this home wrote under before."""
    sql = "SELECT key FROM meta WHERE key >= ? AND key < ?"
    return {str(key).removeprefix(_FORMER) for (key,) in tables.read(sql, key_range(_FORMER))}


def settle_device(
    clock: Clock, machine: MachineName, path: str, connection: sqlite3.Connection
) -> None:
    """Choose a new device id if the database was copied, replaced, or moved to another machine."""
    meta = dict(connection.execute("SELECT key, value FROM meta").fetchall())
    name = machine if isinstance(machine, str) else machine()
    place = f"{name}:{os.stat(path).st_ino}"
    values = []
    if meta.get("place") != place or not _is_device_id(meta.get("device")):
        remember_device(connection)
        values += [("device", short_id(clock, 12)), ("place", place)]
    if not meta.get("secret"):
        values += [("secret", clock.random(32).hex())]
    connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values)


def change_device(connection: sqlite3.Connection, id: str) -> None:
    """Write under another id from now on; the previous one stays known."""
    remember_device(connection)
    connection.execute("UPDATE meta SET value = ? WHERE key = 'device'", (id,))


def remember_device(connection: sqlite3.Connection, id: str = "") -> None:
    """Remember that this home wrote under an id; without one, under the present one."""
    found = [(id,)] if id else connection.execute(_DEVICE).fetchall()
    rows = [(f"{_FORMER}{one}", "") for (one,) in found if _is_device_id(one)]
    connection.executemany("INSERT OR IGNORE INTO meta VALUES (?, ?)", rows)


def _is_device_id(id: object) -> bool:
    """Return whether events may be written under an id: a damaged one would go into every pack."""
    return isinstance(id, str) and 0 < len(id) <= 16 and _ID_CHARACTERS.issuperset(id)
