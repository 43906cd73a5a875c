"""What is true of this machine, carried from one store's database to another's.

Sessions, projects, bindings and the rest have numbers of their own in each; they are the same by
their ids, names and places. Where the other one knows something else, what comes is newer. Who
holds a session is left behind: a process says so again when it works on.

Where a database is made anew from packs, only *who* is taken over: the ids that this home wrote
under, its remotes, whose chains are. What lies on the remotes has to be looked at again, because
what was taken from there before may not be here any more.
"""

from __future__ import annotations

from holdfast.errors import HoldfastError
from holdfast.store.local import rows_if_any
from holdfast.store.sqlite import keep_device

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable
    from typing import Any

    from holdfast.store.sqlite import SqliteStore

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


def carry(source: SqliteStore, target: SqliteStore) -> None:
    """Take over all of it, in one transaction; again changes nothing."""
    found = {name: rows_if_any(source, sql) for name, sql in _READ.items()}
    found["device"] = [(device,) for device in source.devices()]
    target.write(lambda connection: _Carrying(connection, found).run())


class Who:
    """Who this home is and whom it met, read from a database that may be damaged."""

    def __init__(self, source: SqliteStore, more: Iterable[str] = ()) -> None:
        """`more` are ids that it wrote under, known from elsewhere."""
        self._source = source
        names = ("meta", "remote", "remote_session", "remote_chain")
        self._found = {name: self._readable(name) for name in names}
        self._found["remote_object"] = []
        self._found["device"] = [(device,) for device in {*more, *_ids(source)}]
        # What was there once is shown again, and taken if it is not here.
        self._found["remote_session"] = [
            (*row[:4], 0, "", 0, *row[7:]) for row in self._found["remote_session"]
        ]

    def _readable(self, name: str) -> Rows:
        try:
            found = rows_if_any(self._source, _READ[name])
        except HoldfastError:
            return []
        # A damaged page may hold anything, and other tables would not take it.
        kinds = [tuple(map(type, row)) for row in found]
        usual = max(set(kinds), key=kinds.count, default=())
        return [row for row, kind in zip(found, kinds, strict=True) if kind == usual]

    def take_over(self, target: SqliteStore) -> None:
        target.write(lambda connection: _Carrying(connection, self._found).who())


def _ids(source: SqliteStore) -> set[str]:
    try:
        return source.devices()
    except HoldfastError:
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
            keep_device(self._connection, str(device))
        self._plain("meta")
        self._remotes()

    def _numbers(self, table: str, name: str, rows: Any) -> dict[int, int]:
        """The numbers of a table there → here, by what they are called."""
        sql = f"SELECT number FROM {table} WHERE {name} = ?"
        pairs = ((number, self._put(sql, (called,)).fetchone()) for number, called in rows)
        return {number: found[0] for number, found in pairs if found}

    def _plain(self, table: str, rows: Rows | None = None) -> None:
        for row in self._found[table] if rows is None else rows:
            marks = ", ".join("?" * len(row))
            self._put(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", row)

    def _mapped(self, table: str, numbers: dict[int, int]) -> None:
        """Rows whose first column is such a number."""
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
