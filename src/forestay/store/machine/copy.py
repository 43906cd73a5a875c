"""Copy the tables of this machine from the database of one store (source) to another (target).

The same session, project or binding has different row numbers in the two databases, so rows are
matched by their ids, names and places. If a row exists in both, the source row replaces the target
row. Holders are not copied: a process registers again when it continues.

When a database is rebuilt from packs, only places and identities are copied: projects and folders,
the device ids of this home, its remotes, the owners of chains. The contents of remotes have to be
read again, because events that were pulled before may be missing in the rebuilt database.
"""

from __future__ import annotations

import sqlite3

from forestay.errors import ForestayError
from forestay.store.machine.device import remember_device

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from forestay.store.machine.machine import Machine

    Row = dict[str, Any]

_PLACES = ("session", "project", "project_key", "tree")
_IDENTITY = ("meta", "remote", "remote_session", "remote_chain")
_REST = ("seen_file", "binding", "rendering", "run", "inflight", "taken", "tally", "remote_object")
_KEYS = {
    "project": ("id",),
    "binding": ("place",),
    "run": ("agent", "native"),
    "remote": ("name",),
}
"""The columns by which rows with numbers are matched."""
_REFERENCES = {
    "project_key": {"project": "project"},
    "tree": {"project": "project", "session": "session"},
    "seen_file": {"session": "session"},
    "binding": {"session": "session"},
    "rendering": {"binding": "binding"},
    "inflight": {"run": "run"},
    **{name: {"remote": "remote"} for name in ("remote_session", "remote_chain", "remote_object")},
}
"""The columns that are numbers of rows in another table."""
_NULLABLE = {("session", "project"), ("tree", "session")}
_COPIED_META = (
    "WHERE key = 'circle' OR substr(key, 1, instr(key, ' ')) IN ('person ', 'shared ', 'hearsay ')"
)
_COLUMNS = "SELECT name FROM pragma_table_info(?)"


def copy_machine(source: Machine, target: Machine) -> None:
    """Copy all tables of this machine in one transaction; repeating it changes nothing."""
    found = {name: _read(source, name) for name in (*_PLACES, *_IDENTITY, *_REST)}
    devices = source.devices()
    target.tables.write(lambda connection: _Copy(connection).write(found, devices))


class SalvagedMachine:
    """The places and identities of this machine, read from a database that may be damaged."""

    def __init__(self, source: Machine, more: Iterable[str] = ()) -> None:
        """`more` are further device ids of this home."""
        self._source = source
        self.has_places = True
        """Whether all rows of projects and folders could be read."""
        self._places = {name: self._readable(name) for name in _PLACES}
        self._identity = {name: self._readable(name) for name in _IDENTITY}
        # Packs that were on a remote are listed again, and fetched if they are missing here.
        for row in self._identity["remote_session"]:
            row.update(pushed=0, hash="", beyond=0)
        try:
            self._devices = {*more, *source.devices()}
        except ForestayError:
            self._devices = set(more)

    def _readable(self, name: str) -> list[Row]:
        """Return the rows of a table that can be read."""
        try:
            return _read(self._source, name)
        except ForestayError:
            self.has_places = self.has_places and name not in _PLACES
            return []

    def write_identity(self, target: Machine) -> None:
        """Write the device ids of this home, its remotes, and the owners of chains."""
        target.tables.write(lambda db: _Copy(db).write(self._identity, self._devices))

    def write_places(self, target: Machine) -> None:
        """Write projects and folders; the sessions must already be in the target."""
        target.tables.write(lambda db: _Copy(db).write(self._places))


def _read(source: Machine, table: str) -> list[Row]:
    if table == "session":
        columns = ["number", "id", "project"]
    else:
        columns = [name for (name,) in source.tables.read(_COLUMNS, (table,))]
    if not columns:
        return []
    where = _COPIED_META if table == "meta" else ""
    rows = source.tables.read(f"SELECT {', '.join(columns)} FROM {table} {where}")
    return [dict(zip(columns, row, strict=True)) for row in rows]


class _Copy:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._numbers: dict[str, dict[int | None, int]] = {"remote": {0: 0}}
        """Table → row number in the source → row number in the target."""

    def write(self, found: dict[str, list[Row]], devices: Iterable[str] = ()) -> None:
        for device in devices:
            remember_device(self._connection, device)
        for row in found.get("session", ()):
            self._match("session", ("id",), row["number"], row)
        for name, rows in found.items():
            if name != "session":
                for row in rows:
                    self._put(name, row)
        for row in found.get("session", ()):
            project = self._numbers.get("project", {}).get(row["project"])
            if project is not None:
                sql = "UPDATE session SET project = ? WHERE id = ?"
                self._connection.execute(sql, (project, row["id"]))

    def _put(self, table: str, row: Row) -> None:
        values = {name: value for name, value in row.items() if name != "number"}
        for column, other in _REFERENCES.get(table, {}).items():
            values[column] = self._numbers.get(other, {}).get(row[column])
            if values[column] is None and (table, column) not in _NULLABLE:
                return  # the row that it refers to is not in the target
        key = _KEYS.get(table)
        into = f"INTO {table} ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})"
        sql = f"INSERT OR REPLACE {into}"
        if key is not None:
            changes = ", ".join(f"{name} = excluded.{name}" for name in values if name not in key)
            sql = f"INSERT {into} ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changes}"
        try:
            self._connection.execute(sql, (*values.values(),))
        except sqlite3.IntegrityError:
            return  # a damaged value has another type than its column
        if key is not None:
            self._match(table, key, row["number"], row)

    def _match(self, table: str, key: Iterable[str], number: int, row: Row) -> None:
        """Remember the number of a row in the target, if the target has it."""
        tests = " AND ".join(f"{name} = ?" for name in key)
        sql = f"SELECT number FROM {table} WHERE {tests}"
        here = self._connection.execute(sql, [row[name] for name in key]).fetchone()
        if here is not None:
            self._numbers.setdefault(table, {})[number] = here[0]
