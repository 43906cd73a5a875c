"""Access to the SQLite tables with facts of one machine, for the topics of `Machine`.

If the store is SQLite, the tables are in its database, so that they are committed together with an
event. Otherwise they are in a separate small database, in which each session that a table refers to
has a row with its id only (`ensure_sessions`).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, Protocol, TypeVar

    T = TypeVar("T")
    Rows = list[tuple[Any, ...]]

    class Tables(Protocol):
        """A database with the tables of `sqlite.schema`."""

        def read(self, sql: str, values: Sequence[object] = ..., /) -> Rows:
            """Return the rows of one query; empty if there is no database yet."""
            ...

        def write(self, act: Callable[[sqlite3.Connection], T], /) -> T:
            """Run `act` in a write transaction that is durable when this returns."""
            ...

        def write_soon(self, act: Callable[[sqlite3.Connection], T], /) -> T:
            """Run `act` in a write transaction that a power cut can undo."""
            ...

        def scrub(self, session: str, done: str, /) -> None:
            """Remove erased data from the files; on failure raise `Busy` with the text `done`."""
            ...

        def ensure_sessions(self, sessions: Iterable[str], /) -> None:
            """Make sure that the tables can refer to these sessions of the store."""
            ...

        def session_lengths(self, session: str = ..., /) -> Rows:
            """Return (id, last arrival number) of one session, or of all that are not forgotten."""
            ...

        def head_devices(self) -> set[str]:
            """Return the device ids of all chains whose last event is remembered."""
            ...


# The index is used only with this collation; upper and lower case are not distinguished.
BY_ID = "id = ? COLLATE NOCASE"


class Topic:
    """The base class of the topics of `Machine`: short methods to read and write tables."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def _read(self, sql: str, values: Sequence[object] = ()) -> Rows:
        return self._tables.read(sql, values)

    def _run(self, sql: str, *values: Sequence[object], soon: bool = False) -> None:
        """Run a statement once for each of these values, in one transaction.

        It is durable when this returns; if `soon`, a power cut can undo it.
        """
        write = self._tables.write_soon if soon else self._tables.write
        write(lambda connection: connection.executemany(sql, values))


def key_range(prefix: str) -> tuple[str, str]:
    """Return the bounds of all keys that begin with a prefix: from the first, below the second."""
    return prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1)


def as_text(path: str) -> str:
    """Return a path as stored text; bytes that are not UTF-8 are escaped."""
    return path.encode("utf-8", "backslashreplace").decode()
