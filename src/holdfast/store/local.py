"""What is true of this machine only: projects and their trees, holders, files as last seen.

None of it is in the journal and none of it travels. The tables lie in the same database so that
one lock and one file serve everything.
"""

from __future__ import annotations

from holdfast.errors import HoldfastError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol, TypeVar

    from holdfast.store import Spot

    T = TypeVar("T")
    Key = tuple[str, str]
    Rows = list[tuple[Any, ...]]

    class Tables(Protocol):
        """Where these tables are: in a home's own database, or in one beside another store."""

        def read(self, sql: str, values: Sequence[object] = ..., /) -> Rows: ...

        def write(self, act: Callable[[sqlite3.Connection], T], /) -> T: ...

        def write_soon(self, act: Callable[[sqlite3.Connection], T], /) -> T: ...

        def scrub(self, session: str, done: str, /) -> None: ...


# A session is found by its id in any case, and only so by the index.
_NAMED = "id = ? COLLATE NOCASE"
_AT_ONCE = 500


def rows_if_any(tables: Tables, sql: str, values: Sequence[object] = ()) -> Rows:
    """Rows of one query; none where a table is not there.

    Readers never migrate: a home that this version has not written to lacks what is new in it.
    """
    try:
        return tables.read(sql, values)
    except HoldfastError as error:
        if "no such table" in str(error.__cause__):
            return []
        raise


IDLE = "waiting to be asked"
"""What an agent is doing whose turn is over: if it is gone then, nothing was broken off."""


class Holder:
    """A process that works, or worked, on a session and has not let go."""

    __slots__ = ("agent", "doing", "name", "process", "session", "since")

    def __init__(
        self, session: str, process: str, name: str, agent: str, doing: str, since: int
    ) -> None:
        self.session = session
        self.process = process
        self.name = name
        self.agent = agent
        self.doing = doing
        self.since = since

    @property
    def is_idle(self) -> bool:
        return self.doing == IDLE


class Places:
    """What is known of the projects and folders of this machine, sessions by their ids."""

    __slots__ = ("keys", "members", "projects", "trees")

    def __init__(self, projects: Rows, keys: Rows, members: Rows, trees: Rows) -> None:
        self.projects = projects
        self.keys = keys
        self.members = members
        self.trees = trees


def _text(path: str) -> str:
    """A path as it is kept: what is not UTF-8 in it is spelled out."""
    return path.encode("utf-8", "backslashreplace").decode()


class Local:
    def __init__(self, store: Tables) -> None:
        self._store = store

    # -- projects and trees --------------------------------------------------------------------

    def tree(self, path: str) -> tuple[str, int, str] | None:
        """(inode, project, current session or "") of a tree that was met before."""
        found = self._store.read(
            "SELECT t.inode, t.project, s.id FROM tree t LEFT JOIN session s"
            " ON s.number = t.session AND s.forgotten = 0 WHERE t.path = ?",
            (_text(path),),
        )
        return (str(found[0][0]), int(found[0][1]), str(found[0][2] or "")) if found else None

    def projects(self) -> list[tuple[int, str, list[Key]]]:
        """Every project with its keys."""
        rows = self._store.read(
            "SELECT p.number, p.id, k.kind, k.value FROM project p"
            " LEFT JOIN project_key k ON k.project = p.number ORDER BY p.number"
        )
        found: dict[int, tuple[int, str, list[Key]]] = {}
        for number, id, kind, value in rows:
            entry = found.setdefault(int(number), (int(number), str(id), []))
            if kind is not None:
                entry[2].append((str(kind), str(value)))
        return list(found.values())

    def project_name(self, number: int) -> str:
        found = self._store.read("SELECT name FROM project WHERE number = ?", (number,))
        return str(found[0][0]) if found else ""

    def settle(self, spot: Spot, session: str | None, *, members: Sequence[str] = ()) -> int:
        """Remember where a tree is, what it belongs to, and (unless None) its current session.

        `members` are sessions that belong to its project from now on, if they had none. Returns
        the number of the project.
        """

        def act(connection: sqlite3.Connection) -> int:
            project = settle(connection, spot, session)
            for id in members:
                _join(connection, project, id)
            return project

        return self._store.write(act)

    def places(self) -> Places:
        """Projects, folders and what belongs to them, to be taken over by another database."""

        def read(sql: str, *kinds: type | tuple[type, ...]) -> Rows:
            # A damaged page may hold anything, and other tables would not take it.
            found = self._store.read(sql)
            return [r for r in found if all(map(isinstance, r, kinds))]

        return Places(
            read("SELECT number, id, name FROM project", int, str, str),
            read("SELECT kind, value, project FROM project_key", str, str, int),
            read("SELECT id, project FROM session WHERE project IS NOT NULL", str, int),
            read(
                "SELECT t.path, t.inode, t.project, s.id FROM tree t"
                " LEFT JOIN session s ON s.number = t.session",
                *(str, str, int, (str, type(None))),
            ),
        )

    def take_over(self, places: Places) -> None:
        """Put what another database knew of this machine into one that knows nothing yet."""

        def act(connection: sqlite3.Connection) -> None:
            connection.executemany(
                "INSERT OR IGNORE INTO project VALUES (?, ?, ?)", places.projects
            )
            connection.executemany(
                "INSERT OR IGNORE INTO project_key VALUES (?, ?, ?)", places.keys
            )
            connection.executemany(
                f"UPDATE session SET project = ?2 WHERE {_NAMED.replace('?', '?1')}", places.members
            )
            connection.executemany(
                "INSERT OR IGNORE INTO tree VALUES"
                f" (?1, ?2, ?3, (SELECT number FROM session WHERE {_NAMED.replace('?', '?4')}))",
                places.trees,
            )

        self._store.write(act)

    def is_bound(self, session: str) -> bool:
        """Whether layout files belong to the session here (see `bound`)."""
        sql = f"SELECT 1 FROM binding b JOIN session s ON s.number = b.session AND s.{_NAMED}"
        return bool(rows_if_any(self._store, sql, (session,)))

    # -- holders -------------------------------------------------------------------------------

    def holders(self, session: str = "") -> list[Holder]:
        rows = self._store.read(
            "SELECT s.id, h.machine, h.boot, h.ns, h.pid, h.start, h.name, h.agent, h.doing,"
            " h.since FROM holder h JOIN session s ON s.number = h.session"
            f" {f'WHERE {_NAMED}' if session else ''} ORDER BY h.since",
            (session,) if session else (),
        )
        return [Holder(r[0], "/".join(map(str, r[1:6])), r[6], r[7], r[8], r[9]) for r in rows]

    def hold(self, holder: Holder) -> None:
        self._store.write(lambda connection: hold(connection, holder))

    def let_go(self, holders: Sequence[Holder]) -> None:
        def act(connection: sqlite3.Connection) -> None:
            for holder in holders:
                let_go(connection, holder)

        if holders:
            self._store.write(act)

    # -- files as last seen --------------------------------------------------------------------

    def seen_files(self, session: str, paths: Sequence[str]) -> dict[str, tuple[str, str]]:
        """path → (stamp, digest) for absolute paths of files that the session recorded here."""
        found: dict[str, tuple[str, str]] = {}
        for start in range(0, len(paths), _AT_ONCE):
            some = {_text(path): path for path in paths[start : start + _AT_ONCE]}
            for kept, stamp, digest in self._store.read(
                "SELECT path, stamp, digest FROM seen_file"
                f" WHERE session = (SELECT number FROM session WHERE {_NAMED})"
                f" AND path IN ({','.join('?' * len(some))})",
                (session, *some),
            ):
                found[some[kept]] = (stamp, digest)
        return found

    def stamps_below(self, folder: str) -> set[tuple[str, str]]:
        """(path, stamp) of a file, or of those below a folder, as sessions saw them."""
        # Only within a session are they in order, so each is asked.
        rows = self._store.read(
            "SELECT f.path, f.stamp FROM session s CROSS JOIN seen_file f"
            " ON f.session = s.number AND f.path >= ? AND f.path < ?",
            (_text(folder), f"{_text(folder)}0"),  # the sign behind the slash
        )
        return set(rows)

    def saw_file(self, session: str, path: str, stamp: str, digest: str) -> None:
        """Remember a file as it was when the session recorded it."""

        def act(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT OR REPLACE INTO seen_file"
                f" SELECT number, ?, ?, ? FROM session WHERE {_NAMED}",
                (_text(path), stamp, digest, session),
            )

        self._store.write(act)

    def saw_files(self, session: str, seen: dict[str, tuple[str, str]]) -> None:
        """Like `saw_file`, for many; what a power cut takes away is only read again."""
        known = self.seen_files(session, list(seen))
        new = [(_text(path), *one) for path, one in seen.items() if known.get(path) != one]

        def act(connection: sqlite3.Connection) -> None:
            connection.executemany(
                "INSERT OR REPLACE INTO seen_file"
                f" SELECT number, ?, ?, ? FROM session WHERE {_NAMED}",
                [(*one, session) for one in new],
            )

        if new:
            self._store.write_soon(act)

    # -- what is left to do --------------------------------------------------------------------

    def chores(self, session: str) -> list[tuple[int, str]]:
        """What recorded events still ask to be done to files, in order: (number, what)."""
        return rows_if_any(
            self._store,
            "SELECT c.number, c.what FROM chore c JOIN session s ON s.number = c.session"
            f" AND s.{_NAMED} ORDER BY c.number",
            (session,),
        )

    def chore_done(self, number: int) -> None:
        self._store.write(
            lambda connection: connection.execute("DELETE FROM chore WHERE number = ?", (number,))
        )


def hold(connection: sqlite3.Connection, holder: Holder) -> None:
    """Inside a transaction: that a process works on a session."""
    machine, boot, ns, pid, start = holder.process.split("/")
    values = (machine, boot, ns, int(pid), start, holder.name, holder.agent, holder.doing)
    connection.execute(
        "INSERT OR REPLACE INTO holder SELECT number, ?, ?, ?, ?, ?, ?, ?, ?, ?"
        f" FROM session WHERE {_NAMED}",
        (*values, holder.since, holder.session),
    )


def let_go(connection: sqlite3.Connection, holder: Holder) -> None:
    """Inside a transaction: that it does so no more."""
    machine, boot, ns, pid, start = holder.process.split("/")
    connection.execute(
        "DELETE FROM holder"
        f" WHERE session = (SELECT number FROM session WHERE {_NAMED})"
        " AND machine = ? AND boot = ? AND ns = ? AND pid = ? AND start = ?"
        " AND agent = ?",
        (holder.session, machine, boot, ns, int(pid), start, holder.agent),
    )


def settle(connection: sqlite3.Connection, spot: Spot, session: str | None) -> int:
    """Inside a transaction: as `Local.settle`; returns the number of the project."""
    path = _text(spot.path)
    project = spot.project or _met_meanwhile(connection, spot) or _new_project(connection, spot)
    connection.executemany(
        "INSERT OR IGNORE INTO project_key VALUES (?, ?, ?)",
        [(kind, _text(value), project) for kind, value in spot.keys],
    )
    connection.execute(
        "INSERT INTO tree VALUES (?, ?, ?, NULL) ON CONFLICT DO UPDATE"
        " SET inode = excluded.inode, project = excluded.project",
        (path, spot.inode, project),
    )
    if session is not None:
        connection.execute(
            f"UPDATE tree SET session = (SELECT number FROM session WHERE {_NAMED}) WHERE path = ?",
            (session, path),
        )
        _join(connection, project, session)
    return project


def _met_meanwhile(connection: sqlite3.Connection, spot: Spot) -> int:
    """The project that another process gave the same tree, or one that has every key of it, since
    this process looked; else 0."""
    row = connection.execute(
        "SELECT project FROM tree WHERE path = ? AND inode = ?", (_text(spot.path), spot.inode)
    ).fetchone()
    if row:
        return int(row[0])
    key = "SELECT project FROM project_key WHERE kind = ? AND value = ?"
    having = [
        {int(project) for (project,) in connection.execute(key, (kind, _text(value)))}
        for kind, value in spot.keys
    ]
    return min(set.intersection(*having), default=0) if having else 0


def _new_project(connection: sqlite3.Connection, spot: Spot) -> int:
    values = (spot.id, _text(spot.name))
    cursor = connection.execute("INSERT INTO project (id, name) VALUES (?, ?)", values)
    return int(cursor.lastrowid or 0)


def _join(connection: sqlite3.Connection, project: int, session: str) -> None:
    connection.execute(
        f"UPDATE session SET project = ? WHERE project IS NULL AND {_NAMED}", (project, session)
    )
