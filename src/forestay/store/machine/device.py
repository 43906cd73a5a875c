"""The device id of this home, the ids that it used before, and its secret."""

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
"""The prefix of the keys of former device ids in the table `meta`."""
_DEVICE = "SELECT value FROM meta WHERE key = 'device'"


def current_id(tables: Tables) -> str:
    """Return the device id of this home; "" before the first write."""
    found = tables.read(_DEVICE)
    return str(found[0][0]) if found else ""


def former_ids(tables: Tables) -> set[str]:
    """Return the former device ids of this home."""
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
    """Change the device id of this home, and remember the previous one."""
    remember_device(connection)
    connection.execute("UPDATE meta SET value = ? WHERE key = 'device'", (id,))


def remember_device(connection: sqlite3.Connection, id: str = "") -> None:
    """Remember a device id as one that this home used; by default the present one."""
    found = [(id,)] if id else connection.execute(_DEVICE).fetchall()
    rows = [(f"{_FORMER}{one}", "") for (one,) in found if _is_device_id(one)]
    connection.executemany("INSERT OR IGNORE INTO meta VALUES (?, ?)", rows)


def _is_device_id(id: object) -> bool:
    """Return whether a device id is well-formed; a damaged one would get into every pack."""
    return isinstance(id, str) and 0 < len(id) <= 16 and _ID_CHARACTERS.issuperset(id)
