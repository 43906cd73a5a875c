"""The SQLite store: one database per user, all projects in it.

How the file is opened, shared and let go of is the business of `database`; what the tables look
like, of `schema`. Here is what is kept in them, and in which order things become true.

Derived bytes (core, rows, the line that lists show) carry a CRC-32, so that a flipped bit in them
is seen and they are made anew from the journal, which carries its own hashes.
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from functools import partial

from holdfast import files
from holdfast.clock import short_id
from holdfast.errors import Busy, Damaged, InvalidInput, NoSession
from holdfast.store import (
    LISTED,
    SHOWN,
    Batch,
    Capabilities,
    Entry,
    Head,
    Store,
    Stored,
    View,
    listings,
    sum_of_line,
)
from holdfast.store.database import DRIVER_ERRORS, Database, rows_of
from holdfast.store.heads import LONGEST_ID
from holdfast.store.local import Local, settle
from holdfast.store.schema import MIN_WRITER, SEALED, SHIFT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, TypeVar

    from holdfast.clock import Clock
    from holdfast.store import Along, Flaw, Machine, Repaired, Spot
    from holdfast.store.bound import Bound
    from holdfast.store.database import Read, Reader
    from holdfast.store.remotes import Remotes
    from holdfast.store.runs import Change, Runs
    from holdfast.store.search import TextOf

    T = TypeVar("T")
    Parts = list[bytes]

_OF_DEVICES = frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-")
_WAS = "was "
"""Begins the keys under which ids are kept that this home once wrote under."""
_DEVICE = "SELECT value FROM meta WHERE key = 'device'"
_LAST_SEQ = (1 << SHIFT) - 1
_MOST = 1 << 62
_SUMMED = 256
_MOST_RESOLVED = 20

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
# Joined by SQLite, because a value for Python from each column takes twice as long. What is no
# longer of its type, which the bytes do not tell, is not counted: blobs compare above all else.
_SUM = """
    SELECT count(*), ifnull(sum(position - ?), 0), CAST(ifnull(group_concat(
        ifnull(key, '') || header || ifnull(salt, '') || ifnull(data, ''), ''), '') AS BLOB)
    FROM event WHERE position > ? AND position <= ? AND ifnull(key, '') < x'' AND header >= x''
        AND ifnull(salt, x'') >= x'' AND ifnull(data, x'') >= x''
"""
_PARTS = "SELECT data FROM blob WHERE digest = ? ORDER BY part"
_LAST = "SELECT ifnull(max(position), ?) FROM event WHERE position > ? AND position < ?"
_LIST = f"SELECT line_sum, {', '.join(LISTED)} FROM session"
# An id is found in any case, and only so by its index.
_TESTS = {
    "id": "id = ? COLLATE NOCASE",
    **{name: f"{name} IS ?" for name in ("status", "archived", "forgotten", "project")},
}
_TOGETHER = 50
_ADD = "INSERT INTO event VALUES (?, ?, ?, ?, ?)"
_ADD_MANY = _ADD + ", (?, ?, ?, ?, ?)" * (_TOGETHER - 1)
_COLUMNS = 5
_ASKED = 500
_MANY = 1000
# What is found by its key again must be found still: it was recorded, and is not recorded anew.
_ERASE_EVENT = "UPDATE event SET salt = NULL, data = NULL WHERE position = ?"
_FILL_EVENT = "UPDATE event SET salt = ?, data = ? WHERE position = ? AND data IS NULL"


class SqliteView(View):
    """A session read inside one transaction of one connection."""

    def __init__(
        self, database: Database, connection: sqlite3.Connection, asked: str, found: tuple[Any, ...]
    ) -> None:
        self._database = database
        self._connection: sqlite3.Connection | None = connection
        self._cursors: list[sqlite3.Cursor] = []
        _, self.device, number, event_sum, row_sum, fold, core, core_sum, line_sum, *line = found
        self.exists = number is not None
        # As bytes, because a text that is damaged must not keep the events from being read.
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

    def __enter__(self) -> SqliteView:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def saved(self, connection: sqlite3.Connection, batch: Batch) -> SqliteView:
        """The session as it is with a batch, looked at by whoever saved that."""
        self._connection, self.core, self.fold = connection, batch.core, batch.fold
        return self

    def end(self) -> None:
        """May be called twice."""
        self._connection, cursors, self._cursors = None, self._cursors, []
        # A statement that was not read to its end would keep the moment alive.
        for cursor in cursors:
            cursor.close()

    def intact(self) -> bool:
        if self._connection is None:
            raise RuntimeError("the view has ended")
        try:
            events = _sum_of_events(self._connection.execute, self.number)
            rows = _sum_of_rows(self._connection, "session = ?", (self.number,))
            return events == (self.seq, self.event_sum) and rows == self.row_sum
        except DRIVER_ERRORS as error:
            raise self._database.translated(error, "read") from error

    def keeps_content(self) -> bool:
        used = self._all("SELECT digest FROM blob_use WHERE session = ?", (self.number,))
        if not used:
            return True
        from holdfast.store.kept import are_as_kept

        return all(
            are_as_kept(digest, [part for (part,) in self._all(_PARTS, (digest,))])
            for (digest,) in used
        )

    def listing(self) -> dict[str, object]:
        return listings(self._all(f"{_LIST} WHERE number = ?", (self.number,)))[0]

    def row(self, table: str, key: str) -> bytes | None:
        found = self._all(
            "SELECT value FROM row WHERE session = ? AND kind = ? AND key = ?",
            (self.number, table, key),
        )
        return _unguarded(found[0][0]) if found else None

    def rows(
        self, table: str, *, open_only: bool = False, newest: bool = False, limit: int = -1
    ) -> list[bytes]:
        order = "rank DESC, key DESC" if newest else "rank, key"
        only = "AND open = 1" if open_only else ""
        found = self._all(
            f"SELECT value FROM row WHERE session = ? AND kind = ? {only} ORDER BY {order} LIMIT ?",
            (self.number, table, min(limit, _MOST)),
        )
        return [_unguarded(value) for (value,) in found]

    def all_rows(self) -> list[tuple[str, str, bool, int, bytes]]:
        found = self._all(
            "SELECT kind, key, open, rank, value FROM row WHERE session = ?", (self.number,)
        )
        return [(k, n, bool(o), r, _unguarded(v)) for k, n, o, r, v in found]

    def find(self, key: str) -> Stored | None:
        found = self._all(
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
            if self._all(sql, (*some, SHIFT, self.number)):
                return True
        return False

    def keyless(self) -> Iterator[Stored]:
        return self._events("AND key IS NULL ORDER BY position", self.number << SHIFT)

    def events(self, *, after: int = 0, limit: int = -1, newest: bool = False) -> Iterator[Stored]:
        low = (self.number << SHIFT) + min(max(after, 0), _LAST_SEQ)
        order = f"ORDER BY position {'DESC' if newest else ''} LIMIT ?"
        return self._events(order, low, min(limit, _MOST))

    def _events(self, which: str, low: int, *values: int) -> Iterator[Stored]:
        cursor = self._execute(
            "SELECT position, header, salt, data FROM event"
            f" WHERE position > ? AND position < ? {which}",
            (low, (self.number + 1) << SHIFT, *values),
        )
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
            raise self._database.damaged(f"event {position & _LAST_SEQ} is not made of bytes")
        return Stored(position & _LAST_SEQ, header, salt, data)

    def lost(self) -> list[tuple[str, int, str]]:
        return self._all("SELECT device, n, hash FROM lost WHERE session = ?", (self.session,))

    def _all(self, sql: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        if self._connection is None:
            raise RuntimeError("the view has ended")
        try:
            return rows_of(self._connection, sql, values)
        except DRIVER_ERRORS as error:
            raise self._database.translated(error, "read") from error

    def _execute(self, sql: str, values: Sequence[object]) -> sqlite3.Cursor:
        if self._connection is None:
            raise RuntimeError("the view has ended")
        try:
            return self._connection.execute(sql, values)
        except DRIVER_ERRORS as error:
            raise self._database.translated(error, "read") from error


class LentView(SqliteView):
    """A view for reading only, over a reader that goes back when it ends."""

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
            _end_moment(self._database, reader)

    def __del__(self) -> None:
        if self._reader is not None:
            self.end()


class SqliteStore(Store):
    capabilities = Capabilities(search=True, notifies=False)

    def __init__(self, home: str, *, clock: Clock, busy_timeout: float, machine: Machine) -> None:
        self.home = os.path.abspath(home)
        self.path = os.path.join(self.home, files.DATABASE)
        self.shown = f"sqlite:{self.home}"
        self._clock = clock
        # Not a method of ours: a store that is dropped should be gone at once, without a cycle.
        device = partial(_settle_device, clock, machine, self.path)
        self._database = Database(self.home, clock=clock, timeout=busy_timeout, settle=device)

    # -- appending -----------------------------------------------------------------------------

    def append(
        self,
        session: str,
        plan: Callable[[View], Batch | None],
        *,
        create: bool = False,
        blobs: Sequence[tuple[str, bytes]] = (),
        spot: Spot | None = None,
        chores: Sequence[str] = (),
        change: Change | None = None,
        along: Along | None = None,
    ) -> None:
        parts = _all_packed(blobs) if blobs else []

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
                    from holdfast.store.trace import erase_beside

                    erase_beside(connection, view, partial(_is_intact, connection.execute))
                connection.executemany(
                    "INSERT INTO chore (session, what) VALUES (?, ?)",
                    [(view.number, what) for what in chores],
                )
            if spot is not None:
                settle(connection, spot, view.session)
            if change is not None:
                change.make(connection)
            if along is not None and batch is not None:
                with view.saved(connection, batch):
                    along(view, connection)
            return (view, batch) if batch is not None else None

        done = self._database.write(act, self._remember, checks=True)
        if done is not None and done[1].erased is not None:
            self.scrub(session, f"what was forgotten of session {session} is erased")

    def write(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """Run `act` in a write transaction under the writer lock; durable when it returns."""
        return self._database.write(act)

    def write_soon(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """Like `write`, but a power cut may take it back: for what can be found out again."""
        return self._database.write(act, synced=False)

    def _load(self, connection: sqlite3.Connection, session: str) -> SqliteView:
        """The session under the writer lock."""
        found = connection.execute(_LOAD, (session,)).fetchone()
        if found is None:
            raise self._database.damaged("it does not know its device")
        self._database.require_current(found[0])
        view = SqliteView(self._database, connection, session, found)
        if view.exists:
            view.remembered = self._recall(view.number, session, connection)
        return view

    def _save(self, connection: sqlite3.Connection, view: SqliteView, batch: Batch) -> None:
        if not view.exists:
            self._create(connection, view)
        if len(batch.entries) > _MANY:
            self._database.make_room(connection)
        _add_events(connection, view, batch.entries)
        for seq in batch.erased or ():
            connection.execute(_ERASE_EVENT, ((view.number << SHIFT) + seq,))
        for seq, salt, data in batch.filled:
            connection.execute(_FILL_EVENT, (salt, data, (view.number << SHIFT) + seq))
        if batch.resum or batch.erased or batch.filled:
            _, view.event_sum = _sum_of_events(connection.execute, view.number)
        core = (batch.fold, batch.core, zlib.crc32(batch.core, batch.fold))
        line = (view.seq, *(batch.listing[name] for name in SHOWN))
        self._put_rows(connection, view, batch)
        sums = (view.event_sum, view.row_sum)
        line_sum = sum_of_line((view.session, *line))
        connection.execute(_SAVE, (*sums, *core, line_sum, *line, view.number))
        for lost in batch.lost:
            _note_lost(connection, view.session, lost)
        if batch.device:
            change_device(connection, batch.device)

    @staticmethod
    def _put_rows(connection: sqlite3.Connection, view: SqliteView, batch: Batch) -> None:
        if batch.fresh_rows:
            connection.execute("DELETE FROM row WHERE session = ?", (view.number,))
            view.row_sum = 0
        for kind, key, is_open, rank, value in batch.rows:
            place = (view.number, kind, key)
            old = _sum_of_rows(connection, "session = ? AND kind = ? AND key = ?", place)
            row = (kind, key, int(is_open), rank, _guarded(value))
            connection.execute(_PUT_ROW, (view.number, *row))
            view.row_sum ^= old ^ zlib.crc32(repr(row).encode())

    def _create(self, connection: sqlite3.Connection, view: SqliteView) -> None:
        if len(view.session.encode()) > LONGEST_ID:
            raise InvalidInput(f"a session id has at most {LONGEST_ID} bytes")
        cursor = connection.execute(_CREATE, (view.session,))
        view.number, view.exists = int(cursor.lastrowid or 0), True
        left = self._database.heads.recall(view.number)
        if left and left[0].lower() != view.session.lower():
            # The slot remembers a session that an older copy of the database never had.
            _note_lost(connection, left[0], (left[1].device, left[1].n, left[1].hash))

    def _remember(self, done: tuple[SqliteView, Batch] | None) -> None:
        if done is not None and done[1].head is not None:
            view, head = done[0], done[1].head
            self._database.heads.remember(view.number, view.session, head)

    def _recall(
        self, number: int, session: str, writer: sqlite3.Connection | None = None
    ) -> Head | None:
        left = self._database.heads.recall(number)
        if left is None or left[0].lower() == session.lower():
            return left and left[1]
        if writer is not None:
            # About to be overwritten: a session that another copy of the database had.
            _note_lost(writer, left[0], (left[1].device, left[1].n, left[1].hash))
        return None

    # -- reading -------------------------------------------------------------------------------

    def view(self, session: str) -> SqliteView:
        reader = self._database.borrow()
        if reader is None:
            raise no_such_session(session)
        try:
            return self._look(reader, session)
        except DRIVER_ERRORS as error:
            self._database.give_back(reader, broken=True)
            raise self._database.translated(error, "read") from error
        except BaseException:
            _end_moment(self._database, reader)
            raise

    def _look(self, reader: Reader, session: str) -> SqliteView:
        try:
            known = reader.execute(_NUMBER, (session,)).fetchone()
        except UnicodeEncodeError:
            raise no_such_session(session) from None
        # Before the moment begins: a head that another process remembers now is not in it.
        remembered = self._recall(known[0], session) if known else None
        reader.execute("BEGIN")
        found = reader.execute(_LOAD, (session,)).fetchone()
        if found is None:
            raise self._database.damaged("it does not know its device")
        if found[2] is None:
            raise no_such_session(session)
        view = LentView(self._database, reader, session, found)
        view.remembered = remembered
        return view

    def read(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Rows of one read-only query; no database yet means no rows."""
        return self._database.read(sql, values)

    def catalogue(
        self, *, where: dict[str, object] | None = None, limit: int = -1
    ) -> list[dict[str, object]]:
        asked = {"forgotten": 0, **(where or {})}
        tests = " AND ".join(_TESTS[name] for name in asked)
        rows = self.read(
            f"{_LIST} WHERE {tests} ORDER BY updated DESC, number DESC LIMIT ?",
            (*asked.values(), min(limit, _MOST)),
        )
        return listings(rows)

    def resolve(self, prefix: str) -> list[str]:
        if not prefix:
            return []
        found = self.read(
            "SELECT id FROM session WHERE id = ? COLLATE NOCASE AND NOT forgotten", (prefix,)
        ) or self.read(
            "SELECT id FROM session WHERE id >= ? COLLATE NOCASE AND id < ? COLLATE NOCASE"
            " AND NOT forgotten ORDER BY id COLLATE NOCASE LIMIT ?",
            (prefix, prefix + "\U0010ffff", _MOST_RESOLVED),
        )
        return [str(row[0]) for row in found]

    def blob(self, digest: str) -> bytes | None:
        parts = [part for (part,) in self.read(_PARTS, (digest,))]
        if not parts:
            return None
        from holdfast.store.kept import unpacked

        data = unpacked(digest, parts)
        if data is None:
            raise self._database.damaged(f"what is kept under {digest[:12]} was not written so")
        return data

    def note_lost(self, session: str, head: Head) -> None:
        lost = (head.device, head.n, head.hash)
        self.write(lambda connection: _note_lost(connection, session, lost))

    def watch(self, session: str, after: int, timeout: float) -> bool:
        deadline, pause = self._clock.monotonic() + timeout, 0.02
        while True:
            found = self.read("SELECT seq FROM session WHERE id = ? COLLATE NOCASE", (session,))
            if found and int(found[0][0]) > after:
                return True
            left = deadline - self._clock.monotonic()
            if left <= 0:
                return False
            self._clock.sleep(min(pause, left))
            pause = min(pause * 1.5, 0.25)

    def check(self) -> list[str]:
        try:
            problems = [str(row[0]) for row in self.read("PRAGMA integrity_check(20)")]
        except Damaged as error:
            return [str(error)]
        return [problem for problem in problems if problem != "ok"]

    def flaws(self) -> list[Flaw]:
        from holdfast.store import repair

        def look(run: Read) -> list[Flaw]:
            return repair.flaws(run, lambda: _unsound(run), partial(_is_intact, run))

        return self._database.read_together(look) or []

    def repair(self) -> Repaired:
        from holdfast.store import repair

        def act(connection: sqlite3.Connection) -> Repaired:
            run = connection.execute
            return repair.repair(
                connection, self._clock, lambda: _unsound(run), partial(_is_intact, run)
            )

        return self._database.mend(act)

    def search(self, words: str, *, text_of: TextOf, limit: int = 20) -> list[dict[str, object]]:
        from holdfast.store import search

        names = ("session", "seq", "kind", "snippet")
        hits = search.search(self, words, text_of, limit)
        return [dict(zip(names, hit, strict=True)) for hit in hits]

    # -- erasing -------------------------------------------------------------------------------

    def erase(self, session: str, plan: Callable[[View], Batch]) -> None:
        from holdfast.store import trace

        def act(connection: sqlite3.Connection) -> int:
            view = self._load(connection, session)
            if not view.exists:
                raise no_such_session(session)
            self._save(connection, view, plan(view))
            view.end()
            trace.erase_all(connection, view, partial(_is_intact, connection.execute))
            _, left = _sum_of_events(connection.execute, view.number)
            connection.execute(
                "UPDATE session SET event_sum = ?, row_sum = 0 WHERE number = ?",
                (left, view.number),
            )
            return view.number

        self._database.write(act, self._database.heads.forget, checks=True)
        self.scrub(session, f"session {session} is forgotten")

    def scrub(self, session: str, done: str) -> None:
        """Leave no old page in any file; `Busy`, saying what is done, while one is being read."""
        from holdfast.store import search

        self.write_soon(search.put_sum)
        if not self._database.scrub():
            raise Busy(
                f"{done}, but old pages of it are still being read",
                why="another process or thread looks at an earlier moment",
                hint="the first command that writes once it has finished removes them",
                operation="delete",
                session=session,
            )

    # -- this home -----------------------------------------------------------------------------

    @property
    def local(self) -> Local:
        return Local(self)

    @property
    def bound(self) -> Bound:
        from holdfast.store.bound import Bound

        return Bound(self)

    @property
    def runs(self) -> Runs:
        from holdfast.store.runs import Runs

        return Runs(self)

    @property
    def remotes(self) -> Remotes:
        from holdfast.store.remotes import Remotes

        return Remotes(self)

    @property
    def device(self) -> str:
        return self._meta("device")

    def devices(self) -> set[str]:
        before = self.read(
            "SELECT key FROM meta WHERE key >= ? AND key < ?", (_WAS, _WAS[:-1] + "!")
        )
        known = {str(key).removeprefix(_WAS) for (key,) in before} | {self.device}
        # A database of an older version kept no ids but in the heads.
        return (known | {head.device for _, head in self.remembered()}) - {""}

    def secret(self) -> bytes:
        try:
            return bytes.fromhex(self._meta("secret")) or bytes(32)
        except ValueError:
            raise self._database.damaged("its secret cannot be read") from None

    def _meta(self, key: str) -> str:
        found = self.read("SELECT value FROM meta WHERE key = ?", (key,))
        return str(found[0][0]) if found else ""

    def remembered(self) -> list[tuple[str, Head]]:
        heads = [(session, head) for _, session, head in self._database.heads.all()]
        lost = self.read("SELECT session, device, n, hash FROM lost")
        return heads + [(session, Head(device, n, hash)) for session, device, n, hash in lost]

    # -- moving away ---------------------------------------------------------------------------

    @property
    def _seal(self) -> str:
        return os.path.join(self.home, files.SEAL)

    def seal(self, other: str, word: str) -> None:
        oldest = MIN_WRITER if word == "filling" else SEALED

        def act(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT OR REPLACE INTO meta VALUES ('min_writer', ?)", (str(oldest),)
            )

        # Found without opening the database; that one keeps out who has it open already.
        files.make_private_dir(self.home)
        files.replace(self._seal, f"{word} {other}\n".encode())
        if self._is_sealed_inside():
            self._database.mend(act)
        else:
            self.write(act)

    def unseal(self) -> None:
        def act(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE meta SET value = ? WHERE key = 'min_writer' AND value = ?",
                (str(MIN_WRITER), str(SEALED)),
            )

        if self._is_sealed_inside():
            self._database.mend(act)
        if self.sealed() is not None:
            try:
                os.unlink(self._seal)
                files.sync_folder(self.home)
            except OSError as error:
                raise files.failure(error, "remove", self._seal) from error

    def _is_sealed_inside(self) -> bool:
        """Whether the tables say so, who keep everybody from writing."""
        return self._meta("min_writer") == str(SEALED)

    def sealed(self) -> tuple[str, str] | None:
        if not os.path.exists(self._seal):
            return None
        text = (files.read_optional(self._seal, 10_000) or b"").decode("utf-8", "replace")
        word, _, other = text.strip().partition(" ")
        return other, word

    def here(self, sessions: Sequence[str]) -> SqliteStore:
        return self

    def close(self) -> None:
        self._database.close()


def no_such_session(session: str) -> NoSession:
    return NoSession(f"there is no session {session}", hint="holdfast list --all", session=session)


def _settle_device(
    clock: Clock, machine: Machine, path: str, connection: sqlite3.Connection
) -> None:
    """Take a new device id if the database was copied, replaced, or moved to another machine."""
    meta = dict(connection.execute("SELECT key, value FROM meta").fetchall())
    name = machine if isinstance(machine, str) else machine()
    here = f"{name}:{os.stat(path).st_ino}"
    values = []
    if meta.get("place") != here or not _is_device(meta.get("device")):
        keep_device(connection)
        values += [("device", short_id(clock, 12)), ("place", here)]
    if not meta.get("secret"):
        values += [("secret", clock.random(32).hex())]
    connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values)


def change_device(connection: sqlite3.Connection, id: str) -> None:
    """Write under another id from now on; the one before stays known."""
    keep_device(connection)
    connection.execute("UPDATE meta SET value = ? WHERE key = 'device'", (id,))


def keep_device(connection: sqlite3.Connection, id: str = "") -> None:
    """Remember that this home wrote under an id; without one, under the present one."""
    found = [(id,)] if id else connection.execute(_DEVICE).fetchall()
    rows = [(f"{_WAS}{one}", "") for (one,) in found if _is_device(one)]
    connection.executemany("INSERT OR IGNORE INTO meta VALUES (?, ?)", rows)


def _is_device(id: object) -> bool:
    """Whether events may be written under an id: one that is garbled would go into every pack."""
    return isinstance(id, str) and 0 < len(id) <= 16 and _OF_DEVICES.issuperset(id)


def _end_moment(database: Database, reader: Reader) -> None:
    try:
        if reader.in_transaction:
            reader.execute("ROLLBACK")
    except sqlite3.Error:
        database.give_back(reader, broken=True)
    else:
        database.give_back(reader)


def _unsound(run: Read) -> list[tuple[int, str]]:
    """Number and id of the lines that are not as they were written."""
    rows = list(run(f"SELECT number, line_sum, {', '.join(LISTED)} FROM session"))
    listed = zip(rows, listings([row[1:] for row in rows]), strict=True)
    return [(number, str(shown["id"])) for (number, *_), shown in listed if not shown["sound"]]


def _add_events(connection: sqlite3.Connection, view: SqliteView, entries: Sequence[Entry]) -> None:
    next = (view.number << SHIFT) + view.seq + 1
    for start in range(0, len(entries), _TOGETHER):
        some = entries[start : start + _TOGETHER]
        view.event_sum = zlib.crc32(_summed(some), view.event_sum)
        values = _values(some, next + start)
        if len(some) == _TOGETHER:
            # Many by one statement: what a statement costs is then felt no more.
            connection.execute(_ADD_MANY, values)
        else:
            connection.executemany(_ADD, zip(*[iter(values)] * _COLUMNS, strict=True))
    view.seq += len(entries)


def _summed(entries: Sequence[Entry]) -> bytes:
    """The bytes that the sum over all events covers, of these."""
    parts: list[bytes] = []
    for one in entries:
        parts += ((one.key or "").encode(), one.header, one.salt or b"", one.data or b"")
    return b"".join(parts)


def _values(entries: Sequence[Entry], first: int) -> list[object]:
    """What is kept of events from a position on, column after column.

    Not as `bytes`: the driver looks for someone who adapts each of them, which takes longer than
    to copy them.
    """
    values: list[object] = []
    for place, one in enumerate(entries, first):
        salt, data = one.salt, one.data
        kept = None if salt is None else bytearray(salt), None if data is None else bytearray(data)
        values += (place, one.key, bytearray(one.header), *kept)
    return values


def _is_intact(run: Read, number: int) -> bool:
    """Whether the events under a number are those that were appended; so are none, of none."""
    listed = list(run("SELECT seq, event_sum FROM session WHERE number = ?", (number,)))
    return _sum_of_events(run, number) == (listed[0] if listed else (0, 0))


def _sum_of_events(run: Read, number: int) -> tuple[int, int]:
    """How many events there are, -1 if not numbered without a gap, and the CRC-32 over all.

    It covers the bytes of key, header, salt and data, event after event in order of arrival.
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


def _sum_of_rows(connection: sqlite3.Connection, where: str, values: tuple[object, ...]) -> int:
    """The CRC-32 of each row, added by exclusive or: a changed row changes it at little cost."""
    total = 0
    sql = f"SELECT kind, key, open, rank, value FROM row WHERE {where}"
    for row in connection.execute(sql, values):
        total ^= zlib.crc32(repr(row).encode())
    return total


def _note_lost(connection: sqlite3.Connection, session: str, head: tuple[str, int, str]) -> None:
    connection.execute("INSERT OR IGNORE INTO lost VALUES (?, ?, ?, ?)", (session, *head))


def _all_packed(blobs: Sequence[tuple[str, bytes]]) -> list[tuple[str, Parts]]:
    from holdfast.store.kept import packed

    return [(digest, packed(digest, data)) for digest, data in blobs]


def _put_blobs(
    connection: sqlite3.Connection, number: int, blobs: Sequence[tuple[str, Parts]]
) -> None:
    for digest, parts in blobs:
        there = connection.execute(_PARTS, (digest,)).fetchall()
        if [part for (part,) in there] != parts:
            # Not there yet, or not as it was written: this is the moment to mend it.
            connection.execute("DELETE FROM blob WHERE digest = ?", (digest,))
            rows = [(digest, n, data) for n, data in enumerate(parts)]
            connection.executemany("INSERT INTO blob VALUES (?, ?, ?)", rows)
        connection.execute("INSERT OR IGNORE INTO blob_use VALUES (?, ?)", (digest, number))


def _guarded(value: bytes) -> bytes:
    return zlib.crc32(value).to_bytes(4, "little") + value


def _unguarded(stored: bytes) -> bytes:
    value = stored[4:]
    if zlib.crc32(value).to_bytes(4, "little") != stored[:4]:
        raise Damaged("a table beside the journal is damaged", hint="holdfast doctor --fix")
    return value
