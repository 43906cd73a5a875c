"""The SQLite tables that hold what is true of one machine, as the topics of `Machine` use them.

They lie in the home's own database when that is SQLite, so that they commit together with an event.
Next to another store they have a small database of their own, in which each session that a table
refers to has a row with its id only (`ensure_sessions`).
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
            """Return the rows of one query; none while there is no database."""
            ...

        def write(self, act: Callable[[sqlite3.Connection], T], /) -> T:
            """Run `act` in a write transaction that is durable when this returns."""
            ...

        def write_soon(self, act: Callable[[sqlite3.Connection], T], /) -> T:
            """Run `act` in a transaction that a power cut may undo."""
            ...

        def scrub(self, session: str, done: str, /) -> None:
            """Remove old pages from the files; raise `Busy`, saying what is `done`, otherwise."""
            ...

        def ensure_sessions(self, sessions: Iterable[str], /) -> None:
            """Make sure that the tables can refer to these sessions of the store."""
            ...

        def session_lengths(self, session: str = ..., /) -> Rows:
            """Return (id, last arrival number) of one session, or of all that are not forgotten."""
            ...

        def head_devices(self) -> set[str]:
            """Return the device ids under which remembered chains were written."""
            ...


# The index finds a session by its id in any case, and only with this collation.
BY_ID = "id = ? COLLATE NOCASE"


class Topic:
    """The tables of one topic, and short ways to use them."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def _read(self, sql: str, values: Sequence[object] = ()) -> Rows:
        return self._tables.read(sql, values)

    def _run(self, sql: str, *values: Sequence[object], soon: bool = False) -> None:
        """Run a statement once for each of these values, in one transaction.

        It is durable when this returns; if `soon`, a power cut may undo it.
        """
        write = self._tables.write_soon if soon else self._tables.write
        write(lambda connection: connection.executemany(sql, values))


def key_range(prefix: str) -> tuple[str, str]:
    """Return the bounds of all keys that begin with a prefix: from the first, below the second."""
    return prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1)


def as_text(path: str) -> str:
    """Return a path as it is stored: bytes that are not UTF-8 are spelled out."""
    return path.encode("utf-8", "backslashreplace").decode()
