"""Projects of this machine, their working trees, and the current session of each tree."""

from __future__ import annotations

from forestay.store.machine.tables import BY_ID, Topic, as_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    Key = tuple[str, str]


class TreeRecord:
    """A working tree: its path, and the number of its project.

    If `project` is 0, the project is new and is created with `id` and `name`.
    """

    __slots__ = ("id", "inode", "keys", "name", "path", "project")

    def __init__(
        self,
        path: str,
        inode: str,
        project: int,
        *,
        id: str = "",
        name: str = "",
        keys: Sequence[Key] = (),
    ) -> None:
        self.path, self.inode, self.project = path, inode, project
        self.id, self.name, self.keys = id, name, keys


class Projects(Topic):
    def tree(self, path: str) -> tuple[str, int, str] | None:
        """Return (inode, project, current session or "") of a known tree, or None."""
        found = self._read(
            "SELECT t.inode, t.project, s.id FROM tree t LEFT JOIN session s"
            " ON s.number = t.session AND s.forgotten = 0 WHERE t.path = ?",
            (as_text(path),),
        )
        return (str(found[0][0]), int(found[0][1]), str(found[0][2] or "")) if found else None

    def all(self) -> list[tuple[int, str, list[Key]]]:
        """Return every project: its number, id and keys."""
        rows = self._read(
            "SELECT p.number, p.id, k.kind, k.value FROM project p"
            " LEFT JOIN project_key k ON k.project = p.number ORDER BY p.number"
        )
        found: dict[int, tuple[int, str, list[Key]]] = {}
        for number, id, kind, value in rows:
            entry = found.setdefault(int(number), (int(number), str(id), []))
            if kind is not None:
                entry[2].append((str(kind), str(value)))
        return list(found.values())

    def name_of(self, number: int) -> str:
        """Return the name of a project; "" if there is none."""
        found = self._read("SELECT name FROM project WHERE number = ?", (number,))
        return str(found[0][0]) if found else ""

    def record_tree(
        self, tree: TreeRecord, session: str | None, *, members: Sequence[str] = ()
    ) -> int:
        """Record where a tree is, its project, and (unless None) its current session.

        Add the sessions `members` to its project if they have none. Return the number of the
        project.
        """

        def act(connection: sqlite3.Connection) -> int:
            project = record_tree(connection, tree, session)
            for id in members:
                _join(connection, project, id)
            return project

        self._tables.ensure_sessions([session or "", *members])
        return self._tables.write(act)


def record_tree(connection: sqlite3.Connection, tree: TreeRecord, session: str | None) -> int:
    """Record a tree inside a transaction; return the number of its project."""
    path = as_text(tree.path)
    project = tree.project or _found_meanwhile(connection, tree)
    if not project:
        values = (tree.id, as_text(tree.name))
        cursor = connection.execute("INSERT INTO project (id, name) VALUES (?, ?)", values)
        project = int(cursor.lastrowid or 0)
    connection.executemany(
        "INSERT OR IGNORE INTO project_key VALUES (?, ?, ?)",
        [(kind, as_text(value), project) for kind, value in tree.keys],
    )
    connection.execute(
        "INSERT INTO tree VALUES (?, ?, ?, NULL) ON CONFLICT DO UPDATE"
        " SET inode = excluded.inode, project = excluded.project",
        (path, tree.inode, project),
    )
    if session is not None:
        connection.execute(
            f"UPDATE tree SET session = (SELECT number FROM session WHERE {BY_ID}) WHERE path = ?",
            (session, path),
        )
        _join(connection, project, session)
    return project


def _found_meanwhile(connection: sqlite3.Connection, tree: TreeRecord) -> int:
    """Return the project that another process has recorded for this tree in the meantime.

    Otherwise return one that has every key of the tree, or 0.
    """
    row = connection.execute(
        "SELECT project FROM tree WHERE path = ? AND inode = ?", (as_text(tree.path), tree.inode)
    ).fetchone()
    if row:
        return int(row[0])
    key = "SELECT project FROM project_key WHERE kind = ? AND value = ?"
    having = [
        {int(project) for (project,) in connection.execute(key, (kind, as_text(value)))}
        for kind, value in tree.keys
    ]
    return min(set.intersection(*having), default=0) if having else 0


def _join(connection: sqlite3.Connection, project: int, session: str) -> None:
    connection.execute(
        f"UPDATE session SET project = ? WHERE project IS NULL AND {BY_ID}", (project, session)
    )
