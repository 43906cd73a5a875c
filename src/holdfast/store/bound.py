"""Which layout files belong to which session on this machine, and what we last wrote into them.

A *binding* ties a session to one place of one layout; a place has one owner. A *rendering* is
what we once wrote into one of its files: kept so that bytes met later can be told apart as ours,
as ours from earlier (a tool put them back), or as someone's edit, which is then compared with the
nearest one. Renderings are a memory, not a truth: one that is lost makes an own file look edited,
and comparing it finds nothing new.
"""

from __future__ import annotations

import os
import zlib

from holdfast.errors import HoldfastError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from typing import Any

    from holdfast.store.sqlite import SqliteStore

KEPT = 16
"""Renderings of one file that are remembered."""

_COLUMNS = "b.number, s.id, b.layout, b.native, b.root, b.place, b.mirrored, b.quiet, b.suspended"
_NAMED = "id = ? COLLATE NOCASE"


class Binding:
    """A session's place in a layout. `mirrored` is the last event its files show."""

    __slots__ = (
        "layout",
        "mirrored",
        "native",
        "number",
        "place",
        "quiet",
        "root",
        "session",
        "suspended",
    )

    def __init__(
        self,
        number: int,
        session: str,
        layout: str,
        native: str,
        root: str,
        place: str,
        mirrored: int,
        quiet: int,
        suspended: str,
    ) -> None:
        self.number = number
        self.session = session
        self.layout = layout
        self.native = native
        self.root = root
        self.place = place
        self.mirrored = mirrored
        self.quiet = bool(quiet)
        self.suspended = suspended


class Rendering:
    """That we wrote some bytes into a file; what they said is asked for apart (`Bound.said`)."""

    __slots__ = ("digest", "file", "n", "size")

    def __init__(self, file: str, n: int, digest: str, size: str) -> None:
        self.file = file
        self.n = n
        self.digest = digest
        self.size = int(size or 0)


class Bound:
    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    def bindings(self, session: str = "") -> list[Binding]:
        """The bindings of a session, or of all."""
        rows = self._read(
            f"SELECT {_COLUMNS} FROM binding b JOIN session s ON s.number = b.session"
            f" {f'WHERE s.{_NAMED}' if session else ''} ORDER BY b.number",
            (session,) if session else (),
        )
        return [Binding(*row) for row in rows]

    def renewed(self, binding: Binding) -> Binding | None:
        """The binding as it is now; None if someone let go of it."""
        rows = self._read(
            f"SELECT {_COLUMNS} FROM binding b JOIN session s ON s.number = b.session"
            " WHERE b.number = ?",
            (binding.number,),
        )
        return Binding(*rows[0]) if rows else None

    def _read(self, sql: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        try:
            return self._store.read(sql, values)
        except HoldfastError as error:
            # Readers never migrate: a home that this version has not written to has no bindings.
            if "no such table" in str(error.__cause__):
                return []
            raise

    def owner(self, place: str) -> Binding | None:
        """The binding that owns a place; one whose name differs by case only is the same."""
        rows = self._read(
            f"SELECT {_COLUMNS} FROM binding b JOIN session s ON s.number = b.session"
            " WHERE b.place = ? COLLATE NOCASE",
            (place,),
        )
        found = [Binding(*row) for row in rows]
        return next((one for one in found if _is_same(one.place, place)), None)

    def places(self, root: str) -> set[str]:
        """The places below a folder that have an owner."""
        below = (f"{root}/", f"{root}0")  # the sign behind the slash
        rows = self._read("SELECT place FROM binding WHERE place >= ? AND place < ?", below)
        return {place for (place,) in rows}

    def bind(self, session: str, layout: str, native: str, root: str, place: str) -> bool:
        """Take a place for a session; False if another one owns it."""

        def act(connection: sqlite3.Connection) -> bool:
            connection.execute(
                "INSERT OR IGNORE INTO binding (session, layout, native, root, place)"
                f" SELECT number, ?, ?, ?, ? FROM session WHERE {_NAMED}",
                (layout, native, root, place, session),
            )
            owner = connection.execute(
                f"SELECT 1 FROM binding b JOIN session s ON s.number = b.session"
                f" WHERE b.place = ? AND s.{_NAMED}",
                (place, session),
            )
            return owner.fetchone() is not None

        return self._store.write(act)

    def unbind(self, binding: Binding) -> None:
        def act(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM binding WHERE number = ?", (binding.number,))
            connection.execute("DELETE FROM rendering WHERE binding = ?", (binding.number,))

        self._store.write(act)

    def change(self, binding: Binding, *, suspended: str, quiet: bool) -> None:
        values = (suspended, int(quiet), binding.number)

        def act(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE binding SET suspended = ?, quiet = ? WHERE number = ?", values
            )

        self._store.write(act)
        binding.suspended, binding.quiet = suspended, quiet

    def move(self, binding: Binding, place: str) -> None:
        """Let a binding's main file be somewhere else from now on."""

        def act(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE binding SET place = ? WHERE number = ?", (place, binding.number)
            )

        self._store.write(act)
        binding.place = place

    def renderings(self, binding: Binding) -> dict[str, list[Rendering]]:
        """What is remembered of each file, the newest first."""
        rows = self._read(
            "SELECT file, n, digest, stat FROM rendering WHERE binding = ? ORDER BY file, n DESC",
            (binding.number,),
        )
        found: dict[str, list[Rendering]] = {}
        for row in rows:
            found.setdefault(row[0], []).append(Rendering(*row))
        return found

    def said(self, binding: Binding, file: str) -> list[bytes]:
        """What the remembered renderings of a file said, the newest first."""
        rows = self._read(
            "SELECT data FROM rendering WHERE binding = ? AND file = ? ORDER BY n DESC",
            (binding.number, file),
        )
        return [zlib.decompress(data) for (data,) in rows if data]

    def rendered(
        self, binding: Binding, files: Sequence[tuple[str, str, int, bytes]], mirrored: int
    ) -> None:
        """Remember what is about to be written, as (file, digest, size, what it says).

        `mirrored` is the event that the files then reach up to.
        """
        packed = [
            (f, d, str(size), zlib.compress(data, 1) if data else b"") for f, d, size, data in files
        ]

        def act(connection: sqlite3.Connection) -> None:
            for rendering in packed:
                _add(connection, binding.number, *rendering)
            connection.execute(
                "UPDATE binding SET mirrored = ?, suspended = '' WHERE number = ?",
                (mirrored, binding.number),
            )

        # Not synced: what a power cut takes away here is only found out again.
        self._store.write_soon(act)
        binding.mirrored, binding.suspended = mirrored, ""


def _is_same(one: str, other: str) -> bool:
    """Whether two places that differ by case at most are one, now or on another disk."""
    if one == other:
        return True
    here, there = os.path.dirname(one), os.path.dirname(other)
    try:
        return os.path.samefile(here, there)
    except OSError:
        return not (os.path.exists(here) or os.path.exists(there))


def _add(
    connection: sqlite3.Connection, binding: int, file: str, digest: str, stat: str, data: bytes
) -> None:
    place = (binding, file)
    connection.execute(
        "DELETE FROM rendering WHERE binding = ? AND file = ? AND digest = ?", (*place, digest)
    )
    connection.execute(
        "INSERT INTO rendering SELECT ?, ?, 1 + coalesce(max(n), 0), ?, ?, ? FROM rendering"
        " WHERE binding = ? AND file = ?",
        (*place, digest, stat, data, *place),
    )
    connection.execute(
        "DELETE FROM rendering WHERE binding = ? AND file = ? AND n <="
        " (SELECT max(n) FROM rendering WHERE binding = ? AND file = ?) - ?",
        (*place, *place, KEPT),
    )
