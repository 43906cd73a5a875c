"""Which files belong to which session on this machine, and what Forestay last wrote into them.

A *binding* connects a session with the files of one format at one *place* (a path); a place belongs
to one session. A binding that was released stays stored without its place, so that its session can
bind again. A *rendering* is the content that Forestay once wrote into a file of a binding. Content
found in a file later is compared with them: it is the newest rendering, an older one that a tool
restored, or an edit, which is then compared with the most similar rendering. Renderings are a
cache: without one, an unchanged file looks edited, and the comparison finds nothing new.
"""

from __future__ import annotations

import os
import zlib

from forestay.store.machine.tables import BY_ID, Topic
from forestay.store.sqlite.schema import must_scrub

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

KEPT = 16
"""How many renderings of one file are stored."""

Written = tuple[str, str, int, bytes]
"""A file that is about to be written: its name, digest and size, and the bytes to store."""

Note = tuple["Binding", "Sequence[Written]", int]
"""A binding, the files to be written for it, and the last event that they will show."""

_COLUMNS = "b.number, s.id, b.format, b.native, b.root, b.place, b.mirrored, b.quiet, b.suspended"


class Binding:
    """The files of a session in one format. `mirrored` is the last event that they show."""

    def __init__(
        self,
        number: int,
        session: str,
        format_id: str,
        native: str,
        root: str,
        place: str,
        mirrored: int,
        quiet: int,
        suspended: str,
    ) -> None:
        self.number, self.session, self.format, self.native = number, session, format_id, native
        self.root, self.place, self.mirrored = root, place, mirrored
        self.quiet, self.suspended = bool(quiet), suspended


class Rendering:
    """Content that Forestay wrote into a file, by its digest.

    `Bindings.contents` returns the bytes. If `is_bare`, only the digest is stored.
    """

    __slots__ = ("digest", "file", "is_bare", "n", "size")

    def __init__(self, file: str, n: int, digest: str, size: str, is_bare: bool = False) -> None:
        self.file, self.n, self.digest = file, n, digest
        self.size, self.is_bare = int(size or 0), is_bare


class Bindings(Topic):
    def bindings(self, session: str = "") -> list[Binding]:
        """Return the bindings of one session, or of all sessions."""
        sql = (
            f"SELECT {_COLUMNS} FROM binding b JOIN session s ON s.number = b.session"
            f" {f'WHERE s.{BY_ID}' if session else ''} ORDER BY b.number"
        )
        return [Binding(*row) for row in self._read(sql, (session,) if session else ())]

    def owner(self, place: str) -> Binding | None:
        """Return the binding of a place, or None; upper and lower case are not distinguished."""
        rows = self._read(
            f"SELECT {_COLUMNS} FROM binding b JOIN session s ON s.number = b.session"
            " WHERE b.place = ? COLLATE NOCASE",
            (place,),
        )
        found = [Binding(*row) for row in rows]
        return next((one for one in found if _is_same(one.place, place)), None)

    def named(self, format_id: str, native: str) -> list[Binding]:
        """Return the bindings whose files have the id `native` in a format, at any place."""
        rows = self._read(
            f"SELECT {_COLUMNS} FROM binding b JOIN session s ON s.number = b.session"
            " WHERE b.format = ? AND b.native = ?",
            (format_id, native),
        )
        return [Binding(*row) for row in rows]

    def places(self, root: str) -> set[str]:
        """Return the places below a folder that belong to a session."""
        below = (f"{root}/", f"{root}0")  # "0" is the character after "/"
        rows = self._read("SELECT place FROM binding WHERE place >= ? AND place < ?", below)
        return {place for (place,) in rows}

    def bind(
        self,
        session: str,
        kind: str,
        native: str,
        root: str,
        place: str,
        *,
        soon: bool = False,
    ) -> bool:
        """Bind a place to a session; return False if the place belongs to another session.

        The binding is durable when this returns; if `soon`, a power cut can undo it.
        """

        def act(connection: sqlite3.Connection) -> bool:
            connection.execute(_BIND_AGAIN, (place, session, kind, native, root))
            connection.execute(
                "INSERT OR IGNORE INTO binding (session, format, native, root, place)"
                f" SELECT number, ?, ?, ?, ? FROM session WHERE {BY_ID}",
                (kind, native, root, place, session),
            )
            owner = connection.execute(
                f"SELECT 1 FROM binding b JOIN session s ON s.number = b.session"
                f" WHERE b.place = ? AND s.{BY_ID}",
                (place, session),
            )
            return owner.fetchone() is not None

        self._tables.ensure_sessions([session])
        return self._tables.write_soon(act) if soon else self._tables.write(act)

    def unbind(self, binding: Binding) -> None:
        """Release a place. Its renderings stay stored, in case the session binds it again."""
        self._run(_RELEASE, (binding.number,))

    def follow(self, binding: Binding, root: str, place: str) -> bool:
        """Move a binding with its files to another folder; its renderings stay known.

        Return False if that place belongs to another session.
        """

        def act(connection: sqlite3.Connection) -> bool:
            moved = connection.execute(_FOLLOW, (root, place, binding.number))
            return moved.rowcount == 1

        return self._tables.write(act)

    def released_ids(self, session: str, format_id: str) -> list[tuple[str, str]]:
        """Return (id in the format, folder) of the bindings a session released, the last first."""
        rows = self._read(
            "SELECT b.native, b.root FROM binding b JOIN session s ON s.number = -b.session"
            f" WHERE s.{BY_ID} AND b.format = ? ORDER BY b.number DESC",
            (session, format_id),
        )
        return [(native, root) for native, root in rows]

    def released_by(self, format_id: str, native: str, root: str) -> str:
        """Return the session that last released the files with this id in a folder, or ""."""
        rows = self._read(
            "SELECT s.id FROM binding b JOIN session s ON s.number = -b.session"
            " WHERE b.session < 0 AND b.format = ? AND b.native = ? AND b.root = ?"
            " ORDER BY b.number DESC LIMIT 1",
            (format_id, native, root),
        )
        return str(rows[0][0]) if rows else ""

    def forget(self, session: str) -> None:
        """Erase the content of a session's renderings; their digests stay stored."""

        def act(connection: sqlite3.Connection) -> None:
            connection.execute(_ERASE_DATA, (session,))
            must_scrub(connection)

        self._tables.write(act)
        self._tables.scrub(session, "the stored content of its files is erased")

    def change(self, binding: Binding, *, suspended: str, quiet: bool) -> None:
        sql = "UPDATE binding SET suspended = ?, quiet = ? WHERE number = ?"
        self._run(sql, (suspended, int(quiet), binding.number))
        binding.suspended, binding.quiet = suspended, quiet

    def move(self, binding: Binding, place: str) -> None:
        """Change the place of a binding's main file."""
        self._run("UPDATE binding SET place = ? WHERE number = ?", (place, binding.number))
        binding.place = place

    def renderings(self, binding: Binding) -> dict[str, list[Rendering]]:
        """Return the renderings of each file, the newest first."""
        rows = self._read(
            "SELECT file, n, digest, stat, data = x'' FROM rendering WHERE binding = ?"
            " ORDER BY file, n DESC",
            (binding.number,),
        )
        found: dict[str, list[Rendering]] = {}
        for row in rows:
            found.setdefault(row[0], []).append(Rendering(*row))
        return found

    def newest(self, binding: Binding) -> dict[str, Rendering]:
        """Return the newest rendering of each file."""
        rows = self._read(_NEWEST, (binding.number,))
        return {row[0]: Rendering(*row) for row in rows}

    def contents(self, binding: Binding, file: str) -> list[bytes]:
        """Return the content of the renderings of a file, the newest first."""
        rows = self._read(
            "SELECT data FROM rendering WHERE binding = ? AND file = ? AND data != x''"
            " ORDER BY n DESC",
            (binding.number, file),
        )
        return [zlib.decompress(data) for (data,) in rows]

    def last_content(self, binding: Binding, file: str) -> bytes:
        """Return the content of the newest rendering of a file; empty if it is not stored."""
        rows = self._read(_DATA_LAST, (binding.number, file))
        return zlib.decompress(rows[0][0]) if rows and rows[0][0] else b""

    def rendered(self, new: Sequence[Note], *, lasting: bool = False) -> None:
        """Record, in one transaction, what is about to be written into the files of bindings.

        A power cut can undo the record unless it is `lasting`. If it does, the files look edited
        and are compared once more, without harm.
        """

        def act(connection: sqlite3.Connection) -> None:
            for binding, files, mirrored in new:
                for file, digest, size, data in files:
                    _add(connection, (binding.number, file), digest, size, data)
                connection.execute(_SET_MIRRORED, (mirrored, binding.number))

        write = self._tables.write if lasting else self._tables.write_soon
        write(act)
        for binding, _, mirrored in new:
            binding.mirrored, binding.suspended = mirrored, ""


# A released binding has the negative number of its session, which no query joins, and a place that
# is not a path, so that another session can bind the path.
_RELEASE = "UPDATE binding SET session = -session, place = '#' || number WHERE number = ?"
_FOLLOW = "UPDATE OR IGNORE binding SET root = ?, place = ?, suspended = '' WHERE number = ?"
_BIND_AGAIN = f"""
    UPDATE OR IGNORE binding SET session = -session, place = ?, suspended = ''
    WHERE session = (SELECT -number FROM session WHERE {BY_ID})
        AND format = ? AND native = ? AND root = ?
"""
_ERASE_DATA = f"""
    UPDATE rendering SET data = x'' WHERE binding IN
        (SELECT b.number FROM binding b JOIN session s ON s.number = b.session AND s.{BY_ID})
"""
_NEWEST = "SELECT file, max(n), digest, stat FROM rendering WHERE binding = ? GROUP BY file"
_DATA_LAST = "SELECT data FROM rendering WHERE binding = ? AND file = ? ORDER BY n DESC LIMIT 1"
_SET_MIRRORED = "UPDATE binding SET mirrored = ?, suspended = '' WHERE number = ?"


def _is_same(one: str, other: str) -> bool:
    """Return whether two places that differ at most by case are the same file."""
    if one == other:
        return True
    here, there = os.path.dirname(one), os.path.dirname(other)
    try:
        return os.path.samefile(here, there)
    except OSError:
        return not (os.path.exists(here) or os.path.exists(there))


def _add(
    connection: sqlite3.Connection, place: tuple[int, str], digest: str, size: int, data: bytes
) -> None:
    """Store one rendering of a file, and delete those that are too old."""
    ((last,),) = connection.execute(_LAST, place)
    # Compress with little memory: allocating the usual 256 kB each time can take ten times as long
    # as compressing a small file.
    squeeze = zlib.compressobj(1, zlib.DEFLATED, 13, 5)
    packed = squeeze.compress(data) + squeeze.flush() if data else b""
    connection.execute(
        "INSERT INTO rendering VALUES (?, ?, ?, ?, ?, ?)",
        (*place, last + 1, digest, str(size), packed),
    )
    connection.execute(_DELETE_OLD, (*place, last + 1 - KEPT))


_LAST = "SELECT coalesce(max(n), 0) FROM rendering WHERE binding = ? AND file = ?"
_DELETE_OLD = "DELETE FROM rendering WHERE binding = ? AND file = ? AND n <= ?"
