"""Full-text search over what events say, with an index that is brought up to date when asked.

The index follows the journal: `session.indexed` says how far. Texts are read and parsed in a
view, and only their insertion needs the writer lock. Where nothing can be written, what is not
indexed yet is searched in memory, so that a home that can be read can be searched.

A flipped byte in the index would hide what is there. So a sum over all of it lies in `meta`, and
is compared whenever someone searches; an index that differs is made anew from the events. While
a long journal is being indexed there is no sum: then SQLite says whether the index is sound.
"""

from __future__ import annotations

import sqlite3
import zlib
from functools import cache, partial

from holdfast.errors import Damaged, HoldfastError, InvalidInput
from holdfast.store.schema import FIND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.store import Stored
    from holdfast.store.database import Read
    from holdfast.store.sqlite import SqliteStore

    TextOf = Callable[[Stored], "tuple[str, str] | None"]
    Hit = tuple[str, int, str, str]

MOST_WORDS = 64
_BATCH = 2000
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


class Unread:
    """What the index has not seen of one session, up to where a batch reaches."""

    __slots__ = ("after", "number", "reached", "texts")

    def __init__(self, number: int, after: int) -> None:
        self.number = number
        self.after = self.reached = after
        self.texts: list[Hit] = []


def search(store: SqliteStore, words: str, text_of: TextOf, limit: int) -> list[Hit]:
    query = _query(words)
    if not query:
        return []
    try:
        _catch_up(store, text_of)
        return store.read(_FIND, (query, limit))
    except HoldfastError:
        # It cannot be written, or not even read; that must not keep anything from being found.
        return _without_writing(store, text_of, query, limit)


def _catch_up(store: SqliteStore, text_of: TextOf) -> None:
    """Index what is not indexed yet, and all of it if the index is not as it was written."""
    is_checked = False
    while True:
        unread = _unread(store, text_of, _BATCH)
        if not unread and (is_checked or _is_summed(store.read)):
            break
        is_checked = store.write(partial(_index, unread, is_checked=is_checked))
    if is_checked:
        # In a transaction of its own: SQLite writes out some of the index at the end of one.
        store.write_soon(put_sum)


def _without_writing(store: SqliteStore, text_of: TextOf, query: str, limit: int) -> list[Hit]:
    try:
        known: list[Hit] = store.read(_FIND, (query, limit)) if is_sound(store.read) else []
        asked = _BEHIND if is_sound(store.read) else _ALL
    except Damaged:
        known, asked = [], _ALL
    found = [*_in_memory(_unread(store, text_of, -1, asked), query, limit), *known]
    return found if limit < 0 else found[:limit]


def _query(words: str) -> str:
    """All words, each as the beginning of one; nothing in them is an operator."""
    clean = words.replace("\0", " ").encode("utf-8", "replace").decode()
    wanted = list(dict.fromkeys(clean.split()))
    if len(wanted) > MOST_WORDS:
        raise InvalidInput(f"{len(wanted)} words to search for; at most {MOST_WORDS}")
    return " ".join('"' + word.replace('"', '""') + '"*' for word in wanted)


def _unread(store: SqliteStore, text_of: TextOf, most: int, asked: str = _BEHIND) -> list[Unread]:
    """What is behind, as far as `most` events reach; a negative number is all."""
    found: list[Unread] = []
    for number, session, indexed in store.read(asked, (most,)):
        part = Unread(number, indexed)
        with store.view(session) as view:
            events = list(view.events(after=indexed, limit=most))
            # Where events are missing the index still gets to the end.
            part.reached = events[-1].seq if len(events) == most else view.seq
        for stored in events:
            part.texts += _hits(session, stored, text_of)
        found.append(part)
        most -= len(events) if most >= 0 else 0
        if most == 0:
            break
    return found


def _hits(session: str, stored: Stored, text_of: TextOf) -> list[Hit]:
    try:
        found = text_of(stored)
    except Damaged:
        return []  # verification speaks of it; the rest must still be found
    return [(session, stored.seq, *found)] if found else []


def _index(unread: list[Unread], connection: sqlite3.Connection, *, is_checked: bool) -> bool:
    """Take in what is unread; False if the index had to be emptied instead."""
    if not is_checked and not is_sound_inside(connection):
        make_anew(connection)
        return False
    for part in unread:
        moved = connection.execute(
            "UPDATE session SET indexed = ? WHERE number = ? AND indexed = ? AND forgotten = 0",
            (part.reached, part.number, part.after),
        )
        # Otherwise another process has indexed, or erased, the session meanwhile.
        if moved.rowcount:
            connection.executemany(_ADD, part.texts)
    drop_sum(connection)
    return True


def _in_memory(unread: list[Unread], query: str, limit: int) -> list[Hit]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        connection.execute(FIND)
        for part in unread:
            connection.executemany(_ADD, part.texts)
        return connection.execute(_FIND, (query, limit)).fetchall()
    finally:
        connection.close()


# -- the index as a whole ------------------------------------------------------------------------


def is_sound(run: Read) -> bool:
    """Whether the index is as it was written, or nobody has said yet how that was."""
    given = [value for (value,) in run(_GIVEN_SUM)]
    return not given or given == [str(_sum(run))]


def _is_summed(run: Read) -> bool:
    """Whether it is so for sure; where nothing is indexed yet there is no doubt."""
    empty = not list(run("SELECT 1 FROM session WHERE indexed != 0 LIMIT 1"))
    try:
        return is_sound(run) and (empty or bool(list(run(_GIVEN_SUM))))
    except Damaged:
        return False  # a part is missing, or cannot be read


def is_sound_inside(connection: sqlite3.Connection) -> bool:
    """The same inside a write transaction, in which SQLite can be asked too."""
    if missing_parts(connection.execute):
        return False
    try:
        if list(connection.execute(_GIVEN_SUM)):
            return is_sound(connection.execute)
        connection.execute("INSERT INTO find (find) VALUES ('integrity-check')")
    except sqlite3.DatabaseError as error:
        # After others (a full disk) the transaction is gone, and with it the right to go on.
        if error.sqlite_errorcode & 0xFF not in _SIGNS_OF_DAMAGE:
            raise
        return False
    return True


def missing_parts(run: Read) -> set[str]:
    """Tables of the index that are not there."""
    there = {name for (name,) in run("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    return parts().keys() - there


def put_sum(connection: sqlite3.Connection) -> None:
    value = str(_sum(connection.execute))
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('find_sum', ?)", (value,))


def drop_sum(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM meta WHERE key = 'find_sum'")


def _sum(run: Read) -> int:
    """The CRC-32 over all tables of the index, and over how far it follows each session."""
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


def make_anew(connection: sqlite3.Connection) -> None:
    """An empty index in the place of one in whatever state: the next search fills it."""
    _empty_parts(connection)
    connection.execute("DROP TABLE IF EXISTS find")
    for name in parts():
        connection.execute(f"DROP TABLE IF EXISTS {name}")
    connection.execute(FIND)
    connection.execute("UPDATE session SET indexed = 0")
    drop_sum(connection)


def _empty_parts(connection: sqlite3.Connection) -> None:
    """Give the index all parts of an empty one: SQLite drops none that it cannot open."""
    there = dict(connection.execute("SELECT name, sql FROM sqlite_schema").fetchall())
    for name, (sql, rows) in parts().items():
        if there.get(name) == sql:
            connection.execute(f"DELETE FROM {name}")
        else:
            connection.execute(f"DROP TABLE IF EXISTS {name}")
            connection.execute(sql)
        for row in rows:
            marks = ", ".join("?" * len(row))
            connection.execute(f"INSERT INTO {name} VALUES ({marks})", row)


@cache
def parts() -> dict[str, tuple[str, list[tuple[Any, ...]]]]:
    """Name → (SQL, rows) of the tables that an empty index consists of."""
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
