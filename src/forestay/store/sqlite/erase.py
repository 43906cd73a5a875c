"""Erase the data of events from all other tables: blobs, search text, renderings, activity.

No data of an erased event is left in the database, so every table that stores data of events must
be listed here.
"""

from __future__ import annotations

from forestay.store import blob_uses
from forestay.store.sqlite import search
from forestay.store.sqlite.schema import SHIFT, must_scrub

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from forestay.store.sqlite.view import SqliteView

    IsIntact = Callable[[int], bool]

_ERASE_UNUSED = "DELETE FROM blob WHERE digest NOT IN (SELECT digest FROM blob_use)"
_ERASE_BESIDE = (
    "UPDATE holder SET doing = '' WHERE session = :number",
    "UPDATE inflight SET doing = '' WHERE run IN"
    " (SELECT number FROM run WHERE session = :session COLLATE NOCASE)",
    "DELETE FROM seen_file WHERE session = :number",
    # The digests stay: without them an old file would look like an edit.
    "UPDATE rendering SET data = x'' WHERE binding IN"
    " (SELECT number FROM binding WHERE session = :number)",
    # Files are rendered again: logs in them may contain what is erased.
    "UPDATE binding SET mirrored = 0 WHERE session = :number",
    # Below any earlier value: a process that read events before this must not index them now.
    "UPDATE session SET indexed = min(indexed, 0) - 1 WHERE number = :number",
)
_ERASE = (
    "DELETE FROM blob_use WHERE session = :number",
    _ERASE_UNUSED,
    "UPDATE event SET salt = NULL, data = NULL, key = NULL"
    " WHERE position > :number << :shift AND position < (:number + 1) << :shift",
    "DELETE FROM row WHERE session = :number",
    "DELETE FROM lost WHERE session = :session",
    "DELETE FROM holder WHERE session = :number",
    "DELETE FROM seen_file WHERE session = :number",
    "DELETE FROM chore WHERE session = :number",
    "DELETE FROM inflight WHERE run IN"
    " (SELECT number FROM run WHERE session = :session COLLATE NOCASE)",
    "DELETE FROM run WHERE session = :session COLLATE NOCASE",
    "UPDATE tree SET session = NULL WHERE session = :number",
    "DELETE FROM rendering WHERE binding IN"
    " (SELECT number FROM binding WHERE session IN (:number, -:number))",
    "DELETE FROM binding WHERE session IN (:number, -:number)",
)


def erase_all(connection: sqlite3.Connection, view: SqliteView, is_intact: IsIntact) -> None:
    """Erase the content of every event of a session, and everything derived from it."""
    # One wrong row would erase what others use, or leave what must be erased.
    blob_uses.mend(connection, is_intact)
    _erase_words(connection, view)
    _run(connection, view, _ERASE)
    must_scrub(connection)


def erase_derived(connection: sqlite3.Connection, view: SqliteView, is_intact: IsIntact) -> None:
    """Erase what is derived from erased events: blobs, search text, seen files, renderings."""
    # One wrong row would erase what others use, or leave what must be erased.
    blob_uses.mend(connection, is_intact)
    connection.execute(_ERASE_UNUSED)
    _erase_words(connection, view)
    _run(connection, view, _ERASE_BESIDE)
    must_scrub(connection)


def _run(connection: sqlite3.Connection, view: SqliteView, statements: tuple[str, ...]) -> None:
    whose = {"number": view.number, "session": view.session, "shift": SHIFT}
    for statement in statements:
        connection.execute(statement, whose)


def _erase_words(connection: sqlite3.Connection, view: SqliteView) -> None:
    if not search.is_sound_inside(connection):
        search.recreate(connection)
    connection.execute("DELETE FROM find WHERE session = ?", (view.session,))
    # Otherwise the words stay in the index, marked as deleted.
    connection.execute("INSERT INTO find (find) VALUES ('optimize')")
    search.drop_sum(connection)
