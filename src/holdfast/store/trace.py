"""Traces: what an event leaves in the tables besides its own row, and how all of it goes.

The secret is where that is: content that no event names any more, words to find, the bytes of
files, what holders and runs were said to do. An event that is erased must be in no byte of the
database, so a new table that keeps something of events needs its line here.
"""

from __future__ import annotations

from holdfast.store import search, uses
from holdfast.store.database import must_scrub
from holdfast.store.schema import SHIFT

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from holdfast.store.sqlite import SqliteView

    IsIntact = Callable[[int], bool]

_ERASE_UNUSED = "DELETE FROM blob WHERE digest NOT IN (SELECT digest FROM blob_use)"
_ERASE_CONTENT = ("DELETE FROM blob_use WHERE session = :number", _ERASE_UNUSED)
_ERASE_BESIDE = (
    "UPDATE holder SET doing = '' WHERE session = :number",
    "UPDATE inflight SET doing = '' WHERE run IN"
    " (SELECT number FROM run WHERE session = :session COLLATE NOCASE)",
    "DELETE FROM seen_file WHERE session = :number",
    # That bytes were ours once stays known, or an old file would look like an edit.
    "UPDATE rendering SET data = x'' WHERE binding IN"
    " (SELECT number FROM binding WHERE session = :number)",
    # What was left of logs in files is weighed again: they may say what must go.
    "UPDATE binding SET mirrored = 0 WHERE session = :number",
    # Less than ever: whoever read events before this must not index them now.
    "UPDATE session SET indexed = min(indexed, 0) - 1 WHERE number = :number",
)
_ERASE = (
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
    """Erase what every event of a session says, and all that was made of them."""
    if uses.has_any(connection.execute, view.number):
        # One wrong row would erase what others use, or keep what must go.
        uses.mend(connection, is_intact)
        _run(connection, view, _ERASE_CONTENT)
    _erase_words(connection, view)
    _run(connection, view, _ERASE)
    must_scrub(connection)


def erase_beside(connection: sqlite3.Connection, view: SqliteView, is_intact: IsIntact) -> None:
    """Let go of what was made of events that are erased: content, words, what is seen of them."""
    # One wrong row would erase what others use, or keep what must go.
    uses.mend(connection, is_intact)
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
        search.make_anew(connection)
    connection.execute("DELETE FROM find WHERE session = ?", (view.session,))
    # Otherwise the words stay in the index, marked as gone.
    connection.execute("INSERT INTO find (find) VALUES ('optimize')")
    search.drop_sum(connection)
