"""One session read inside one transaction, and the sums by which damage to its tables is noticed.

Derived bytes (core, rows, the line of a listing) carry a CRC-32, so that a flipped bit in them
is noticed, and they are computed again from the events, which have their own hashes.
"""

from __future__ import annotations

import sqlite3
import zlib

from forestay.errors import Damaged
from forestay.store.port import LISTED, Head, Stored, listings, sum_of_line
from forestay.store.sql import SqlView, Statements, at_most
from forestay.store.sqlite.connection import DRIVER_ERRORS, Database, rows_of
from forestay.store.sqlite.schema import SHIFT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from forestay.store.sql import Row
    from forestay.store.sqlite.connection import Read, Reader

# The index finds an id in any case, and only with this collation.
STATEMENTS = Statements(
    table="", mark="?", key="id COLLATE NOCASE", is_open="open = 1", project="project"
)
_ROWS = "SELECT kind, key, open, rank, value FROM row WHERE session = ?"
_LAST_SEQ = (1 << SHIFT) - 1
_SUMMED = 256
_ASKED = 500
# Joined by SQLite: a Python value for each column takes twice as long. A value that lost its
# type, which its bytes do not show, is not counted: blobs compare above all else.
_SUM = """
    SELECT count(*), ifnull(sum(position - ?), 0), CAST(ifnull(group_concat(
        ifnull(key, '') || header || ifnull(salt, '') || ifnull(data, ''), ''), '') AS BLOB)
    FROM event WHERE position > ? AND position <= ? AND ifnull(key, '') < x'' AND header >= x''
        AND ifnull(salt, x'') >= x'' AND ifnull(data, x'') >= x''
"""
_LAST = "SELECT ifnull(max(position), ?) FROM event WHERE position > ? AND position < ?"


class SqliteView(SqlView):
    """A session read inside one transaction of one connection."""

    statements = STATEMENTS

    def __init__(
        self, database: Database, connection: sqlite3.Connection, asked: str, found: tuple[Any, ...]
    ) -> None:
        self._database = database
        self._connection: sqlite3.Connection | None = connection
        self._cursors: list[sqlite3.Cursor] = []
        _, self.device, number, event_sum, row_sum, fold, core, core_sum, line_sum, *line = found
        self.exists = number is not None
        # As bytes, because damaged text must not prevent reading the events.
        texts = [part.decode("utf-8", "replace") if type(part) is bytes else part for part in line]
        self.listed_well = not self.exists or sum_of_line(texts) == line_sum
        self.session: str = line[0] if isinstance(line[0], str) else asked
        self.number: int = number or 0
        self.seq: int = line[1] if type(line[1]) is int and 0 < line[1] <= _LAST_SEQ else 0
        self.event_sum: int = event_sum or 0
        self.row_sum: int = row_sum or 0
        sound = core is not None and zlib.crc32(core, fold) == core_sum
        self.fold: int = fold if sound else -1
        self.core: bytes = core if sound else b""
        self.remembered: Head | None = None

    def end(self) -> None:
        self._connection, cursors, self._cursors = None, self._cursors, []
        # A statement that was not read to its end would keep the transaction open.
        for cursor in cursors:
            cursor.close()

    def intact(self) -> bool:
        if self._connection is None:
            raise RuntimeError("the view has ended")
        try:
            events = sum_of_events(self._connection.execute, self.number)
            rows = sum_of_rows(self._connection, "", (self.number,))
            return events == (self.seq, self.event_sum) and rows == self.row_sum
        except DRIVER_ERRORS as error:
            raise self._database.translated(error, "read") from error

    def _rows(self, where: str, values: Sequence[object]) -> list[Row]:
        found = self._query(f"{_ROWS} {where}", (self.number, *values))
        return [(k, n, bool(o), r, unguarded(v)) for k, n, o, r, v in found]

    def find(self, key: str) -> Stored | None:
        found = self._query(
            "SELECT position, header, salt, data FROM event WHERE key = ? AND position >> ? = ?"
            " ORDER BY position LIMIT 1",
            (key, SHIFT, self.number),
        )
        return self._stored(found[0]) if found else None

    def has_any(self, keys: Sequence[str]) -> bool:
        for start in range(0, len(keys), _ASKED):
            some = keys[start : start + _ASKED]
            marks = ", ".join("?" * len(some))
            sql = f"SELECT 1 FROM event WHERE key IN ({marks}) AND position >> ? = ? LIMIT 1"
            if self._query(sql, (*some, SHIFT, self.number)):
                return True
        return False

    def events(
        self,
        *,
        after: int = 0,
        limit: int = -1,
        newest: bool = False,
        keyless_only: bool = False,
    ) -> Iterator[Stored]:
        low = (self.number << SHIFT) + min(max(after, 0), _LAST_SEQ)
        only = "AND key IS NULL" if keyless_only else ""
        if self._connection is None:
            raise RuntimeError("the view has ended")
        try:
            cursor = self._connection.execute(
                "SELECT position, header, salt, data FROM event"
                f" WHERE position > ? AND position < ? {only}"
                f" ORDER BY position {'DESC' if newest else ''} LIMIT ?",
                (low, (self.number + 1) << SHIFT, at_most(limit)),
            )
        except DRIVER_ERRORS as error:
            raise self._database.translated(error, "read") from error
        self._cursors.append(cursor)
        return self._stream(cursor)

    def _stream(self, cursor: sqlite3.Cursor) -> Iterator[Stored]:
        try:
            for found in cursor:
                position, header, salt, data = found
                if type(header) is bytes is type(salt) is type(data):
                    yield Stored(position & _LAST_SEQ, header, salt, data)
                else:
                    yield self._stored(found)
        except sqlite3.ProgrammingError:
            raise RuntimeError("the view has ended") from None
        except DRIVER_ERRORS as error:
            raise self._database.translated(error, "read") from error

    def _stored(self, found: tuple[int, bytes, bytes | None, bytes | None]) -> Stored:
        position, header, salt, data = found
        kinds = (type(header), type(salt or b""), type(data or b""))
        if kinds != (bytes, bytes, bytes):
            raise self._database.damaged(
                f"event {position & _LAST_SEQ} has a value of another type"
            )
        return Stored(position & _LAST_SEQ, header, salt, data)

    def _query(self, sql: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        if self._connection is None:
            raise RuntimeError("the view has ended")
        try:
            return rows_of(self._connection, sql, values)
        except DRIVER_ERRORS as error:
            raise self._database.translated(error, "read") from error


class LentView(SqliteView):
    """A read-only view over a borrowed reader, which is returned when the view ends."""

    _reader: Reader | None = None
    _ends = 0

    def __init__(
        self, database: Database, reader: Reader, asked: str, found: tuple[Any, ...]
    ) -> None:
        super().__init__(database, reader, asked, found)
        self._reader, self._ends = reader, reader.ends

    def end(self) -> None:
        super().end()
        reader, self._reader = self._reader, None
        if reader is not None and reader.ends == self._ends:
            end_moment(self._database, reader)

    def __del__(self) -> None:
        if self._reader is not None:
            self.end()


def end_moment(database: Database, reader: Reader) -> None:
    try:
        if reader.in_transaction:
            reader.execute("ROLLBACK")
    except sqlite3.Error:
        database.give_back(reader, broken=True)
    else:
        database.give_back(reader)


def unsound(run: Read) -> list[tuple[int, str]]:
    """Return number and id of the damaged listings."""
    rows = list(run(f"SELECT number, line_sum, {', '.join(LISTED)} FROM session"))
    listed = zip(rows, listings([row[1:] for row in rows]), strict=True)
    return [(number, str(shown["id"])) for (number, *_), shown in listed if not shown["sound"]]


def is_intact(run: Read, number: int) -> bool:
    """Return whether the events of the session with this number are unchanged."""
    listed = list(run("SELECT seq, event_sum FROM session WHERE number = ?", (number,)))
    return sum_of_events(run, number) == (listed[0] if listed else (0, 0))


def sum_of_events(run: Read, number: int) -> tuple[int, int]:
    """Return how many events a session has (-1 if one is missing) and the CRC-32 over them.

    The CRC-32 covers the bytes of key, header, salt and data of each event, in order of arrival.
    """
    base, end = number << SHIFT, (number + 1) << SHIFT
    count = numbers = total = 0
    found = _SUMMED
    while found == _SUMMED:
        reach = (base, base + count, base + count + _SUMMED)
        ((found, part, whole),) = run(_SUM, reach)
        count, numbers, total = count + found, numbers + part, zlib.crc32(whole, total)
    ((last,),) = run(_LAST, (base, base, end))
    gapless = last == base + count and numbers == count * (count + 1) // 2
    return count if gapless else -1, total


def sum_of_rows(connection: sqlite3.Connection, where: str, values: tuple[object, ...]) -> int:
    """Return the CRC-32 of each row, joined by exclusive or, so that one row is updated cheaply.

    The first of the values is the number of the session.
    """
    total = 0
    for row in connection.execute(f"{_ROWS} {where}", values):
        total ^= zlib.crc32(repr(row).encode())
    return total


def guarded(value: bytes) -> bytes:
    return zlib.crc32(value).to_bytes(4, "little") + value


def unguarded(stored: bytes) -> bytes:
    value = stored[4:]
    if zlib.crc32(value).to_bytes(4, "little") != stored[:4]:
        raise Damaged("a table derived from the journal is damaged", hint="forestay doctor --fix")
    return value
