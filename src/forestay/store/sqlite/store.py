"""The SQLite store: one database per user, all projects in it.

`connection` opens, shares and closes the file; `schema` has the tables. This module decides what is
written to them, and in which order.
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from functools import partial

from forestay.base import files
from forestay.errors import InvalidInput
from forestay.store.machine.device import change_device, settle_device
from forestay.store.machine.machine import Machine, MachineChange
from forestay.store.port import (
    SHOWN,
    Batch,
    Capabilities,
    Entry,
    View,
    no_such_session,
    sum_of_line,
)
from forestay.store.sql import SqlStore, pack_blobs
from forestay.store.sqlite.connection import DRIVER_ERRORS, Database
from forestay.store.sqlite.heads_file import LONGEST_ID
from forestay.store.sqlite.maintenance import SqliteMaintenance
from forestay.store.sqlite.schema import SHIFT, note_lost
from forestay.store.sqlite.view import (
    STATEMENTS,
    LentView,
    SqliteView,
    end_moment,
    guarded,
    is_intact,
    sum_of_events,
    sum_of_rows,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from forestay.base.clock import Clock
    from forestay.errors import Damaged
    from forestay.store.machine.device import MachineName
    from forestay.store.port import Head, Plan
    from forestay.store.search import TextOf
    from forestay.store.sql import Rows
    from forestay.store.sqlite.connection import Reader

    Parts = list[bytes]

_LOAD = """
    SELECT w.value, d.value, s.number, s.event_sum, s.row_sum, s.fold, s.core, s.core_sum,
        s.line_sum, s.id, s.seq, CAST(s.status AS BLOB), CAST(s.goal AS BLOB), s.archived,
        s.forgotten, s.began, s.updated, CAST(s.summary AS BLOB)
    FROM meta w JOIN meta d ON d.key = 'device'
    LEFT JOIN session s ON s.id = ? COLLATE NOCASE WHERE w.key = 'min_writer'
"""
_NUMBER = "SELECT number FROM session WHERE id = ? COLLATE NOCASE"
_CREATE = """
    INSERT INTO session (id, seq, fold, core, core_sum, status, goal, archived, began, updated,
        summary) VALUES (?, 0, 0, x'', 0, '', '', 0, 0, 0, '')
"""
_SAVE = """
    UPDATE session SET event_sum = ?, row_sum = ?, fold = ?, core = ?, core_sum = ?, line_sum = ?,
        seq = ?, status = ?, goal = ?, archived = ?, forgotten = ?, began = ?, updated = ?,
        summary = ? WHERE number = ?
"""
_PUT_ROW = """
    INSERT INTO row VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE
    SET open = excluded.open, rank = excluded.rank, value = excluded.value
"""
_ADD_CHORE = "INSERT INTO chore (session, what) VALUES (?, ?)"
_TOGETHER = 50
_ADD = "INSERT INTO event VALUES (?, ?, ?, ?, ?)"
_ADD_MANY = _ADD + ", (?, ?, ?, ?, ?)" * (_TOGETHER - 1)
_COLUMNS = 5
_MANY = 1000
# The key stays: a repeated call must still find the event, and not record it a second time.
_ERASE_EVENT = "UPDATE event SET salt = NULL, data = NULL WHERE position = ?"
_FILL_EVENT = "UPDATE event SET salt = ?, data = ? WHERE position = ? AND data IS NULL"


class SqliteStore(SqlStore):
    capabilities = Capabilities(search=True)
    statements = STATEMENTS

    def __init__(
        self, home: str, *, clock: Clock, busy_timeout: float, machine: MachineName
    ) -> None:
        self.home = os.path.abspath(home)
        self.path = os.path.join(self.home, files.DATABASE)
        self.shown = f"sqlite:{self.home}"
        self._clock = clock
        # Not a method of this store, which would be a reference cycle and delay its deletion.
        settle = partial(settle_device, clock, machine, self.path)
        self.database = Database(self.home, clock=clock, timeout=busy_timeout, settle=settle)
        self.machine = Machine(self.database)
        self.maintenance = SqliteMaintenance(self.database)

    # -- appending -----------------------------------------------------------------------------

    def append(
        self,
        session: str,
        plan: Plan,
        *,
        create: bool = False,
        blobs: Sequence[tuple[str, bytes]] = (),
        change: MachineChange | None = None,
    ) -> None:
        parts = pack_blobs(blobs)

        def act(connection: sqlite3.Connection) -> tuple[SqliteView, Batch] | None:
            view = self._load(connection, session)
            if not view.exists and not create:
                raise no_such_session(session)
            try:
                batch = plan(view)
            finally:
                view.end()
            if batch is not None:
                self._save(connection, view, batch)
                _put_blobs(connection, view.number, parts)
                if batch.erased is not None:
                    from forestay.store.sqlite.erase import erase_derived

                    erase_derived(connection, view, partial(is_intact, connection.execute))
                for what in change.file_work if change else ():
                    connection.execute(_ADD_CHORE, (view.number, what))
            if change is not None:
                change.apply(connection, view.session)
            return (view, batch) if batch is not None else None

        def remember(done: tuple[SqliteView, Batch] | None) -> None:
            if done is not None and done[1].head is not None:
                view, head = done[0], done[1].head
                self.database.heads.remember(view.number, view.session, head)

        done = self.database.write(act, remember, checks=True)
        if done is not None and done[1].erased is not None:
            self._scrub(session, f"what was forgotten of session {session} is erased")

    def _load(self, connection: sqlite3.Connection, session: str) -> SqliteView:
        """Return the view of a session inside the write transaction."""
        found = connection.execute(_LOAD, (session,)).fetchone()
        if found is None:
            raise self.database.damaged("it does not know its device")
        self.database.require_current(found[0])
        view = SqliteView(self.database, connection, session, found)
        if view.exists:
            view.remembered = self._recall(view.number, session, connection)
        return view

    def _save(self, connection: sqlite3.Connection, view: SqliteView, batch: Batch) -> None:
        if not view.exists:
            self._create(connection, view)
        if len(batch.entries) > _MANY:
            self.database.make_room(connection)
        _add_events(connection, view, batch.entries)
        for seq in batch.erased or ():
            connection.execute(_ERASE_EVENT, ((view.number << SHIFT) + seq,))
        for seq, salt, data in batch.filled:
            connection.execute(_FILL_EVENT, (salt, data, (view.number << SHIFT) + seq))
        if batch.resum or batch.erased or batch.filled:
            _, view.event_sum = sum_of_events(connection.execute, view.number)
        core = (batch.fold, batch.core, zlib.crc32(batch.core, batch.fold))
        line = (view.seq, *(batch.listing[name] for name in SHOWN))
        self._put_rows(connection, view, batch)
        sums = (view.event_sum, view.row_sum)
        line_sum = sum_of_line((view.session, *line))
        connection.execute(_SAVE, (*sums, *core, line_sum, *line, view.number))
        for lost in batch.lost:
            note_lost(connection, view.session, lost)
        if batch.device:
            change_device(connection, batch.device)

    @staticmethod
    def _put_rows(connection: sqlite3.Connection, view: SqliteView, batch: Batch) -> None:
        if batch.fresh_rows:
            connection.execute("DELETE FROM row WHERE session = ?", (view.number,))
            view.row_sum = 0
        for kind, key, is_open, rank, value in batch.rows:
            place = (view.number, kind, key)
            old = sum_of_rows(connection, STATEMENTS.row, place)
            row = (kind, key, int(is_open), rank, guarded(value))
            connection.execute(_PUT_ROW, (view.number, *row))
            view.row_sum ^= old ^ zlib.crc32(repr(row).encode())

    def _create(self, connection: sqlite3.Connection, view: SqliteView) -> None:
        if len(view.session.encode()) > LONGEST_ID:
            raise InvalidInput(f"a session id has at most {LONGEST_ID} bytes")
        cursor = connection.execute(_CREATE, (view.session,))
        view.number, view.exists = int(cursor.lastrowid or 0), True
        self._recall(view.number, view.session, connection)

    def _recall(
        self, number: int, session: str, writer: sqlite3.Connection | None = None
    ) -> Head | None:
        left = self.database.heads.recall(number)
        if left is None or left[0].lower() == session.lower():
            return left and left[1]
        if writer is not None:
            # The slot of a session that only a newer copy of the database had is overwritten soon.
            note_lost(writer, left[0], (left[1].device, left[1].n, left[1].hash))
        return None

    # -- reading -------------------------------------------------------------------------------

    def view(self, session: str) -> SqliteView:
        reader = self.database.borrow()
        if reader is None:
            raise no_such_session(session)
        try:
            return self._open_view(reader, session)
        except DRIVER_ERRORS as error:
            self.database.give_back(reader, broken=True)
            raise self.database.translated(error, "read") from error
        except BaseException:
            end_moment(self.database, reader)
            raise

    def _open_view(self, reader: Reader, session: str) -> SqliteView:
        try:
            known = reader.execute(_NUMBER, (session,)).fetchone()
        except UnicodeEncodeError:
            raise no_such_session(session) from None
        # Read the head before the transaction begins, so that it is never ahead of the view.
        remembered = self._recall(known[0], session) if known else None
        reader.execute("BEGIN")
        found = reader.execute(_LOAD, (session,)).fetchone()
        if found is None:
            raise self.database.damaged("it does not know its device")
        if found[2] is None:
            raise no_such_session(session)
        view = LentView(self.database, reader, session, found)
        view.remembered = remembered
        return view

    def _read(self, sql: str, values: Sequence[object]) -> Rows:
        return self.database.read(sql, values)

    def _damaged(self, why: str) -> Damaged:
        return self.database.damaged(why)

    def _in_project(self, project: object) -> tuple[str, object]:
        return "project IS ?", project

    def search(self, words: str, *, text_of: TextOf, limit: int = 20) -> list[dict[str, object]]:
        from forestay.store.sqlite import search

        names = ("session", "seq", "kind", "snippet")
        hits = search.search(self.database, self.view, words, text_of, limit)
        return [dict(zip(names, hit, strict=True)) for hit in hits]

    # -- erasing -------------------------------------------------------------------------------

    def erase(self, session: str, plan: Callable[[View], Batch]) -> None:
        from forestay.store.sqlite import erase as sqlite_erase

        def act(connection: sqlite3.Connection) -> int:
            view = self._load(connection, session)
            if not view.exists:
                raise no_such_session(session)
            self._save(connection, view, plan(view))
            view.end()
            sqlite_erase.erase_all(connection, view, partial(is_intact, connection.execute))
            _, left = sum_of_events(connection.execute, view.number)
            connection.execute(
                "UPDATE session SET event_sum = ?, row_sum = 0 WHERE number = ?",
                (left, view.number),
            )
            return view.number

        self.database.write(act, self.database.heads.forget, checks=True)
        self._scrub(session, f"session {session} is forgotten")

    def _scrub(self, session: str, done: str) -> None:
        from forestay.store.sqlite.search import put_sum  # start-up

        self.database.write_soon(put_sum)
        self.database.scrub(session, done)

    def close(self) -> None:
        self.database.close()


def _add_events(connection: sqlite3.Connection, view: SqliteView, entries: Sequence[Entry]) -> None:
    next = (view.number << SHIFT) + view.seq + 1
    for start in range(0, len(entries), _TOGETHER):
        some = entries[start : start + _TOGETHER]
        view.event_sum = zlib.crc32(_summed(some), view.event_sum)
        values = _values(some, next + start)
        if len(some) == _TOGETHER:
            # Many by one statement, so that the cost of a statement is shared.
            connection.execute(_ADD_MANY, values)
        else:
            connection.executemany(_ADD, zip(*[iter(values)] * _COLUMNS, strict=True))
    view.seq += len(entries)


def _summed(entries: Sequence[Entry]) -> bytes:
    """Return the bytes of these events that the sum over all events covers."""
    parts: list[bytes] = []
    for one in entries:
        parts += ((one.key or "").encode(), one.header, one.salt or b"", one.data or b"")
    return b"".join(parts)


def _values(entries: Sequence[Entry], first: int) -> list[object]:
    """Return the columns of events from a position on, one after another.

    Not as `bytes`: the driver searches for an adapter for each of them, which takes longer than
    copying them.
    """
    values: list[object] = []
    for place, one in enumerate(entries, first):
        salt, data = one.salt, one.data
        kept = None if salt is None else bytearray(salt), None if data is None else bytearray(data)
        values += (place, one.key, bytearray(one.header), *kept)
    return values


def _put_blobs(
    connection: sqlite3.Connection, number: int, blobs: Sequence[tuple[str, Parts]]
) -> None:
    for digest, parts in blobs:
        stored = connection.execute(STATEMENTS.blob, (digest,)).fetchall()
        if [part for (part,) in stored] != parts:
            # The blob is missing or damaged: store it again.
            connection.execute("DELETE FROM blob WHERE digest = ?", (digest,))
            rows = [(digest, n, data) for n, data in enumerate(parts)]
            connection.executemany("INSERT INTO blob VALUES (?, ?, ?)", rows)
        connection.execute("INSERT OR IGNORE INTO blob_use VALUES (?, ?)", (digest, number))
