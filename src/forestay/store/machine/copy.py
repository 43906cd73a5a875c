"""Copies the tables of this machine from one store's database to another's.

Sessions, projects, bindings and the rest have different numbers in each; they are matched by
their ids, names and places. Where the other database differs, the copied row is newer and wins.
Holders are not copied: a process registers again when it continues.

Where a database is rebuilt from packs, only identities are copied: the ids that this home wrote
under, its remotes, the owners of chains. What lies on the remotes has to be read again, because
what was fetched from there before may be missing now.
"""

from __future__ import annotations

from forestay.errors import ForestayError
from forestay.store.machine.device import remember_device
from forestay.store.machine.tables import read_if_present

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable
    from typing import Any

    from forestay.store.machine.machine import Machine

    Rows = list[tuple[Any, ...]]

_READ = {
    "session": "SELECT number, id, project FROM session",
    "project": "SELECT number, id, name FROM project",
    "project_key": "SELECT kind, value, project FROM project_key",
    "tree": "SELECT path, inode, project, session FROM tree",
    "seen_file": "SELECT session, path, stamp, digest FROM seen_file",
    "binding": "SELECT number, session, layout, native, root, place, mirrored, quiet, suspended"
    " FROM binding",
    "rendering": "SELECT binding, file, n, digest, stat, data FROM rendering",
    "run": "SELECT number, agent, native, session, process, folder, transcript, began, last, seen"
    " FROM run",
    "inflight": "SELECT run, key, agent, tool, doing, since FROM inflight",
    "taken": "SELECT name FROM taken",
    "tally": "SELECT what, count, last FROM tally",
    "meta": "SELECT key, value FROM meta WHERE key = 'circle' OR substr(key, 1, instr(key, ' '))"
    " IN ('person ', 'shared ', 'hearsay ')",
    "remote": "SELECT number, name, address, probe, added, synced, result, error FROM remote",
    **{
        name: f"SELECT * FROM {name}"
        for name in ("remote_session", "remote_chain", "remote_object")
    },
}


def carry(source: Machine, target: Machine) -> None:
    """Copy all of it, in one transaction; repeating it changes nothing."""
    found = {name: read_if_present(source.tables, sql) for name, sql in _READ.items()}
    found["device"] = [(device,) for device in source.devices()]
    target.tables.write(lambda connection: _Carrying(connection, found).run())


class Who:
    """Identity of this home and of those it knows, read from a database that may be damaged."""

    def __init__(self, source: Machine, more: Iterable[str] = ()) -> None:
        """`more` are further ids that this home wrote under."""
        self._source = source
        names = ("meta", "remote", "remote_session", "remote_chain")
        self._found = {name: self._readable(name) for name in names}
        self._found["remote_object"] = []
        self._found["device"] = [(device,) for device in {*more, *_ids(source)}]
        # What was there once is listed again, and fetched if it is missing here.
        self._found["remote_session"] = [
            (*row[:4], 0, "", 0, *row[7:]) for row in self._found["remote_session"]
        ]

    def _readable(self, name: str) -> Rows:
        try:
            found = read_if_present(self._source.tables, _READ[name])
        except ForestayError:
            return []
        # A damaged page may hold anything, and other tables would refuse it.
        kinds = [tuple(map(type, row)) for row in found]
        usual = max(set(kinds), key=kinds.count, default=())
        return [row for row, kind in zip(found, kinds, strict=True) if kind == usual]

    def take_over(self, target: Machine) -> None:
        target.tables.write(lambda connection: _Carrying(connection, self._found).who())


def _ids(source: Machine) -> set[str]:
    try:
        return source.devices()
    except ForestayError:
        return set()


class _Carrying:
    def __init__(self, connection: sqlite3.Connection, found: dict[str, Rows]) -> None:
        self._connection, self._put, self._found = connection, connection.execute, found

    def run(self) -> None:
        sessions = self._numbers(
            "session", "id", ((row[0], row[1]) for row in self._found["session"])
        )
        projects = self._projects()
        for _, id, project in self._found["session"]:
            if project in projects:
                self._put(
                    "UPDATE session SET project = ? WHERE id = ?",
                    (projects[project], id),
                )
        for path, inode, project, session in self._found["tree"]:
            values = (path, inode, projects.get(project, 0), sessions.get(session))
            self._put("INSERT OR REPLACE INTO tree VALUES (?, ?, ?, ?)", values)
        self._mapped("seen_file", sessions)
        self._bindings(sessions)
        self._runs()
        self._plain("taken")
        self._plain("tally")
        self.who()

    def who(self) -> None:
        for (device,) in self._found["device"]:
            remember_device(self._connection, str(device))
        self._plain("meta")
        self._remotes()

    def _numbers(self, table: str, name: str, rows: Any) -> dict[int, int]:
        """Return number there → number here of the rows of a table, matched by name."""
        sql = f"SELECT number FROM {table} WHERE {name} = ?"
        pairs = ((number, self._put(sql, (called,)).fetchone()) for number, called in rows)
        return {number: found[0] for number, found in pairs if found}

    def _plain(self, table: str, rows: Rows | None = None) -> None:
        for row in self._found[table] if rows is None else rows:
            marks = ", ".join("?" * len(row))
            self._put(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", row)

    def _mapped(self, table: str, numbers: dict[int, int]) -> None:
        """Copy rows whose first column is such a number."""
        rows = self._found[table]
        self._plain(table, [(numbers[row[0]], *row[1:]) for row in rows if row[0] in numbers])

    def _projects(self) -> dict[int, int]:
        for _, id, name in self._found["project"]:
            self._put("INSERT OR IGNORE INTO project (id, name) VALUES (?, ?)", (id, name))
        rows = ((row[0], row[1]) for row in self._found["project"])
        projects = self._numbers("project", "id", rows)
        for kind, value, project in self._found["project_key"]:
            if project in projects:
                values = (kind, value, projects[project])
                self._put("INSERT OR IGNORE INTO project_key VALUES (?, ?, ?)", values)
        return projects

    def _bindings(self, sessions: dict[int, int]) -> None:
        for _, session, *rest in self._found["binding"]:
            if session in sessions:
                self._put(
                    "INSERT INTO binding (session, layout, native, root, place, mirrored, quiet,"
                    " suspended) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (place) DO UPDATE SET"
                    " session = excluded.session, native = excluded.native,"
                    " mirrored = excluded.mirrored, quiet = excluded.quiet,"
                    " suspended = excluded.suspended",
                    (sessions[session], *rest),
                )
        rows = ((row[0], row[5]) for row in self._found["binding"])
        self._mapped("rendering", self._numbers("binding", "place", rows))

    def _runs(self) -> None:
        numbers: dict[int, int] = {}
        for number, *rest in self._found["run"]:
            self._put(
                "INSERT INTO run (agent, native, session, process, folder, transcript, began, last,"
                " seen) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (agent, native) DO UPDATE"
                " SET session = excluded.session, process = excluded.process,"
                " last = excluded.last, seen = excluded.seen",
                rest,
            )
            here = self._put("SELECT number FROM run WHERE agent = ? AND native = ?", rest[:2])
            numbers[number] = here.fetchone()[0]
        self._mapped("inflight", numbers)

    def _remotes(self) -> None:
        for _, *rest in self._found["remote"]:
            self._put(
                "INSERT OR IGNORE INTO remote (name, address, probe, added, synced, result, error)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                rest,
            )
        rows = ((row[0], row[1]) for row in self._found["remote"])
        numbers = {0: 0, **self._numbers("remote", "name", rows)}
        for table in ("remote_session", "remote_chain", "remote_object"):
            self._mapped(table, numbers)
