"""Full-text search over the text of events, with an index that each search brings up to date.

The index follows the journal up to `session.indexed`. Texts are read and parsed in a view, and only
their insertion needs the writer lock. If the home is read-only, events that are not indexed
yet are searched in memory.

A flipped byte in the index would hide events. So `meta` has a checksum over all of it, which every
search compares; a damaged index is built again from the events. While a long journal is being
indexed there is no checksum: then the integrity check of SQLite decides.
"""

from __future__ import annotations

import sqlite3
import zlib
from functools import cache, partial

from forestay.errors import Damaged, ForestayError
from forestay.store.search import BATCH, read_unread, split_words
from forestay.store.sqlite.schema import FIND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from forestay.store.search import OpenView, TextOf, Unread
    from forestay.store.sqlite.connection import Database, Read

    Hit = tuple[str, int, str, str]

_ALL = "SELECT number, id, 0 FROM session WHERE forgotten = 0 LIMIT ?"
_BEHIND = "SELECT number, id, indexed FROM session WHERE indexed < seq AND forgotten = 0 LIMIT ?"
_ADD = "INSERT INTO find (session, seq, kind, text) VALUES (?, ?, ?, ?)"
_FIND = """
    SELECT session, seq, kind, snippet(find, 0, '[', ']', '…', 12) FROM find
    WHERE find MATCH ? ORDER BY rank, session, seq LIMIT ?
"""
_SUMMED = 1000
_PARTS = {
    "find_content": ("c0", "c1", "c2", "c3"),
    "find_data": ("block",),
    "find_docsize": ("sz",),
}
_SMALL = (
    "SELECT segid, CAST(term AS BLOB), pgno FROM find_idx ORDER BY segid, term",
    "SELECT k, v FROM find_config ORDER BY k",
    "SELECT number, indexed FROM session WHERE indexed != 0 ORDER BY number",
)
_SIGNS_OF_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR)
_GIVEN_SUM = "SELECT value FROM meta WHERE key = 'find_sum'"


def search(
    database: Database, open_view: OpenView, words: str, text_of: TextOf, limit: int
) -> list[Hit]:
    """Return (session, seq, kind, snippet) of the events that hold all words, best first."""
    # Each word is a prefix; quoted, nothing in it is an operator.
    query = " ".join('"' + word.replace('"', '""') + '"*' for word in split_words(words))
    if not query:
        return []
    try:
        _catch_up(database, open_view, text_of)
        return database.read(_FIND, (query, limit))
    except ForestayError:
        # The index cannot be written, or not even read; the events can still be searched.
        return _without_writing(database, open_view, text_of, query, limit)


def _catch_up(database: Database, open_view: OpenView, text_of: TextOf) -> None:
    """Index the events that are not indexed yet; all events if the index is damaged."""
    is_checked = False
    while True:
        unread = read_unread(database.read(_BEHIND, (BATCH,)), open_view, text_of, BATCH)
        if not unread and (is_checked or _is_summed(database.read)):
            break
        is_checked = database.write(partial(_index, unread, is_checked=is_checked))
    if is_checked:
        # In a separate transaction: SQLite writes some of the index at the end of one.
        database.write_soon(put_sum)


def _without_writing(
    database: Database, open_view: OpenView, text_of: TextOf, query: str, limit: int
) -> list[Hit]:
    try:
        known: list[Hit] = database.read(_FIND, (query, limit)) if is_sound(database.read) else []
        asked = _BEHIND if is_sound(database.read) else _ALL
    except Damaged:
        known, asked = [], _ALL
    unread = read_unread(database.read(asked, (-1,)), open_view, text_of, -1)
    found = [*_in_memory(unread, query, limit), *known]
    return found if limit < 0 else found[:limit]


def _index(unread: list[Unread], connection: sqlite3.Connection, *, is_checked: bool) -> bool:
    """Add these events to the index; return False if it was damaged and emptied instead."""
    if not is_checked and not is_sound_inside(connection):
        recreate(connection)
        return False
    for part in unread:
        moved = connection.execute(
            "UPDATE session SET indexed = ? WHERE number = ? AND indexed = ? AND forgotten = 0",
            (part.reached, part.number, part.after),
        )
        # Otherwise another process has indexed or erased the session since.
        if moved.rowcount:
            connection.executemany(_ADD, [(part.session, *text) for text in part.texts])
    drop_sum(connection)
    return True


def _in_memory(unread: list[Unread], query: str, limit: int) -> list[Hit]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        connection.execute(FIND)
        for part in unread:
            connection.executemany(_ADD, [(part.session, *text) for text in part.texts])
        return connection.execute(_FIND, (query, limit)).fetchall()
    finally:
        connection.close()


# -- the index as a whole ------------------------------------------------------------------------


def is_sound(run: Read) -> bool:
    """Return whether the index matches its checksum, or has none yet."""
    given = [value for (value,) in run(_GIVEN_SUM)]
    return not given or given == [str(_sum(run))]


def _is_summed(run: Read) -> bool:
    """Return whether the index has a checksum and matches it, or is empty."""
    empty = not list(run("SELECT 1 FROM session WHERE indexed != 0 LIMIT 1"))
    try:
        return is_sound(run) and (empty or bool(list(run(_GIVEN_SUM))))
    except Damaged:
        return False  # a part is missing, or cannot be read


def is_sound_inside(connection: sqlite3.Connection) -> bool:
    """Like `is_sound`, inside a write transaction, where SQLite can check an index without one."""
    if missing_parts(connection.execute):
        return False
    try:
        if list(connection.execute(_GIVEN_SUM)):
            return is_sound(connection.execute)
        connection.execute("INSERT INTO find (find) VALUES ('integrity-check')")
    except sqlite3.DatabaseError as error:
        # Other errors (a full disk) end the transaction, so nothing may follow.
        if error.sqlite_errorcode & 0xFF not in _SIGNS_OF_DAMAGE:
            raise
        return False
    return True


def missing_parts(run: Read) -> set[str]:
    """Return the tables of the index that are missing."""
    present = {name for (name,) in run("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    return parts().keys() - present


def put_sum(connection: sqlite3.Connection) -> None:
    value = str(_sum(connection.execute))
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('find_sum', ?)", (value,))


def drop_sum(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM meta WHERE key = 'find_sum'")


def _sum(run: Read) -> int:
    """Return the CRC-32 over the tables of the index and the last indexed event of each session."""
    total = 0
    for table, columns in _PARTS.items():
        whole = " || ".join(["id", *(f"ifnull({column}, '')" for column in columns)])
        count, last = _SUMMED, -1
        while count == _SUMMED:
            rows = f"SELECT * FROM {table} WHERE id > ? ORDER BY id LIMIT {_SUMMED}"
            joined = f"CAST(ifnull(group_concat({whole}, ''), '') AS BLOB)"
            ((count, top, data),) = run(
                f"SELECT count(*), max(id), {joined} FROM ({rows})", (last,)
            )
            total, last = zlib.crc32(data, total), top
    for sql in _SMALL:
        for row in run(sql):
            total = zlib.crc32(repr(row).encode(), total)
    return total


def recreate(connection: sqlite3.Connection) -> None:
    """Replace the index, whatever its state, by an empty one that the next search fills."""
    _empty_parts(connection)
    connection.execute("DROP TABLE IF EXISTS find")
    for name in parts():
        connection.execute(f"DROP TABLE IF EXISTS {name}")
    connection.execute(FIND)
    connection.execute("UPDATE session SET indexed = 0")
    drop_sum(connection)


def _empty_parts(connection: sqlite3.Connection) -> None:
    """Create all parts of an empty index: SQLite drops none that it cannot open."""
    present = dict(connection.execute("SELECT name, sql FROM sqlite_schema").fetchall())
    for name, (sql, rows) in parts().items():
        if present.get(name) == sql:
            connection.execute(f"DELETE FROM {name}")
        else:
            connection.execute(f"DROP TABLE IF EXISTS {name}")
            connection.execute(sql)
        for row in rows:
            marks = ", ".join("?" * len(row))
            connection.execute(f"INSERT INTO {name} VALUES ({marks})", row)


@cache
def parts() -> dict[str, tuple[str, list[tuple[Any, ...]]]]:
    """Return name → (SQL, rows) of the tables that an empty index consists of."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        connection.execute(FIND)
        found = connection.execute(
            "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name GLOB 'find_*'"
        ).fetchall()
        rows = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name, _ in found}
        return {name: (sql, rows[name]) for name, sql in found}
    finally:
        connection.close()
