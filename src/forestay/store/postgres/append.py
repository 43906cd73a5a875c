"""Append to a session on a PostgreSQL server, exactly once even if the connection breaks.

An append takes two round trips: the first locks and reads the session's row, then the plan decides,
and the second writes everything and commits. A process that has just written to the session needs
only one: the plan decides by what this process wrote last, and the statement writes only if no
other process has written since.
Arrival numbers are assigned under the lock of the row, so they are unique and have no gaps.

If the connection breaks, the append is repeated: the row lock makes it wait for the outcome of the
first attempt, and before anything is sent again, the server is asked whether it has the event.
"""

from __future__ import annotations

import zlib
from _thread import get_ident
from functools import lru_cache
from operator import itemgetter

from psycopg import errors as pgerrors

from forestay.errors import Damaged, InvalidInput, Outdated
from forestay.store.port import SHOWN, no_such_session, sum_of_line
from forestay.store.postgres import schema
from forestay.store.postgres.local_db import LOSE
from forestay.store.postgres.protocol import NotDone
from forestay.store.postgres.view import (
    LOCK,
    OLDEST,
    SUM_BITS,
    PgView,
    folded,
    sum_of_event,
    sum_of_events,
    sum_of_row,
    within,
)
from forestay.store.sqlite.heads_file import LONGEST_ID

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    import psycopg

    from forestay.store.port import Batch, Head, View
    from forestay.store.postgres.connection import Connection, Server
    from forestay.store.postgres.local_db import LocalSide
    from forestay.store.postgres.view import Read

    Also = Callable[[Connection, PgView], None]
    Cursor = psycopg.Cursor[tuple[Any, ...]]
    Sql = Callable[[str], str]

_MOST_AT_HAND = 64
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
UNUSED = (
    "DELETE FROM @blob b WHERE NOT EXISTS (SELECT 1 FROM @blob_use u WHERE u.digest = b.digest)"
)
LOCK_BLOBS = "SELECT pg_advisory_xact_lock{}(hashtext('@blob'), 0)"
_COLUMNS = (
    *("event_sum", "fold", "core", "core_sum", "line_sum", "seq"),
    *SHOWN,
)
_SELDOM = ("fold", "status", "goal", "archived", "forgotten", "began")
"""Columns that most appends do not change; they are sent only if they change."""
_M = 1 << SUM_BITS
_UPDATE = """
    UPDATE @session SET {} WHERE number = {} RETURNING number, row_sum
"""
# Write only if no other process has written, and the store is not sealed. Wait for a locked row.
_UNCHANGED = f"""
    %(number)s AND seq = %(was_seq)s AND event_sum = %(was_event_sum)s
        AND row_sum = %(was_row_sum)s AND core_sum = %(was_core_sum)s
        AND line_sum = %(was_line_sum)s
        AND (SELECT value::bigint FROM @meta WHERE key = 'min_writer') <= {schema.FORMAT}
"""
# The same for a connection without a lock timeout: do not write if the row is locked.
_FREE = f"(SELECT number FROM @session WHERE number = {_UNCHANGED} FOR UPDATE SKIP LOCKED)"
_WHICH = {"UPDATE": "%(number)s", "UNCHANGED": _UNCHANGED, "FREE": _FREE}
# A role or database can be configured to answer before the data is on the disk: prevent that.
_ANSWER = """
    SELECT number, row_sum, CASE WHEN current_setting('synchronous_commit') = 'off'
        THEN set_config('synchronous_commit', 'on', true) END
    FROM s
"""
_INSERT = f"""
    INSERT INTO @session (id, key, row_sum, {", ".join(_COLUMNS)})
    VALUES (%(id)s, %(key)s, %(rows)s, {", ".join(f"%({name})s" for name in _COLUMNS)})
    RETURNING number, row_sum
"""
_ROW_SUM = f"""
    mod(row_sum + %(rows)s + {_M} - mod(coalesce((SELECT sum(r.sum) FROM @row r
        JOIN unnest(%(kinds)s::text[], %(keys)s::text[]) u (kind, key)
        ON r.kind = u.kind AND r.key = u.key WHERE r.session = %(number)s), 0), {_M}), {_M})
"""
# Most appends have one event, and building arrays is half of the driver's work for it.
_EVENT = """
    INSERT INTO @event SELECT s.number, %(seq)s, %(event)s::text, %(header)b::bytea,
        %(salt)b::bytea, %(body)b::bytea FROM s
"""
_EVENTS = """
    INSERT INTO @event SELECT s.number, u.* FROM s, unnest(%(seqs)s::bigint[],
        %(ids)s::text[], %(headers)b::bytea[], %(salts)b::bytea[], %(bodies)b::bytea[]) u
"""
_ROWS = """
    INSERT INTO @row SELECT s.number, u.* FROM s, unnest(%(kinds)s::text[], %(keys)s::text[],
        %(opens)s::boolean[], %(ranks)s::bigint[], %(sums)s::bigint[], %(values)b::bytea[]) u
    ON CONFLICT (session, kind, key) DO UPDATE
    SET open = excluded.open, rank = excluded.rank, sum = excluded.sum, value = excluded.value
"""
_WAS = ("was_event_sum", "was_row_sum", "was_core_sum", "was_line_sum", "was_seq")
_was = itemgetter(1, 2, 5, 6, 8)
"""The positions of these columns in the result of `LOAD`."""
_loaded = itemgetter(
    *("number", "event_sum", "row_sum", "fold", "core", "core_sum", "line_sum", "id", "seq"),
    *SHOWN,
)
_shown = itemgetter(*SHOWN)
_seldom, _was_seldom = itemgetter(*_SELDOM), itemgetter(3, 9, 10, 11, 12, 13)
_NUMBER = "(SELECT number FROM @session WHERE key = %s)"
_FILL = "UPDATE @event SET salt = %s, data = %s WHERE session = %s AND seq = %s AND data IS NULL"
_PUT_CHORE = f"INSERT INTO @chore (session, home, what) SELECT {_NUMBER}, %s, %s"
_PUT_PARTS = """
    INSERT INTO @blob SELECT %s, u.* FROM unnest(%s::integer[], %b::bytea[]) u
    ON CONFLICT (digest, part) DO UPDATE SET data = excluded.data
    WHERE blob.data IS DISTINCT FROM excluded.data
"""


class Append:
    """An append as it was requested, and whether it was sent before.

    `also` runs in the same transaction, after everything else.
    """

    def __init__(
        self,
        session: str,
        plan: Callable[[View], Batch | None],
        *,
        create: bool = False,
        blobs: Sequence[tuple[str, list[bytes]]] = (),
        file_work: Sequence[str] = (),
        also: Also | None = None,
    ) -> None:
        self.session, self.plan, self.create = session, plan, create
        self.blobs, self.file_work, self.also = blobs, file_work, also
        self.sent: Saving | None = None

    def fits_one_statement(self) -> bool:
        return not (self.sent or self.create or self.blobs or self.file_work or self.also)


class Appender:
    """Appends to the sessions of one store; knows those it has just written to."""

    def __init__(self, local: LocalSide, server: Server) -> None:
        self._local, self._server, self._sql = local, server, server.sql
        self._known: dict[str, Sequence[Any]] = {}
        self._planning: set[int] = set()

    def record(self, append: Append) -> PgView:
        """Append, again if the connection breaks; return the new state of the session."""
        self.require_outside()
        self._planning.add(get_ident())
        try:
            while True:
                try:
                    return self._server.insist(lambda: self._try(append))
                except AlreadyCreated:
                    continue  # another process has just created the same session
        finally:
            self._planning.discard(get_ident())

    def require_outside(self) -> None:
        if get_ident() in self._planning:
            raise RuntimeError("a plan must not write: it runs inside a transaction")

    def forget(self) -> None:
        self._known.clear()

    def _try(self, append: Append) -> PgView:
        view = self._try_at_once(append) if append.fits_one_statement() else None
        return view or self._server.use(lambda one: self._try_locked(one, append), "update")

    # -- in one round trip ---------------------------------------------------------------------

    def _try_at_once(self, append: Append) -> PgView | None:
        """Append in one round trip to a session that this process has just written to.

        It takes effect only if no other process has written to the session since. If one has, or if
        the plan refuses, return None: the caller then repeats the append under the lock.
        """
        known = self._known.pop(known_text(append.session), None)
        if known is None:
            return None
        device = self._local.recent_device()
        view = PgView(self._server.read, append.session, device, known, is_ours=True)
        view.remembered = self.recall(view.number, append.session)
        try:
            batch = append.plan(view)
        except Exception:
            return None
        finally:
            view.end()
        if batch is None or not is_plain(batch):
            return None
        work = Saving(self._sql, view, batch)
        append.sent = work
        prepares = self._server.place.prepares
        try:
            found = self._server.use(lambda one: work.ask(one, known, prepares=prepares), "update")
        except NotDone:
            found = None
        if found is None:
            append.sent = None
            return None
        self._cache_session(work, found)
        self._remember(view, batch)
        return view

    def _cache_session(self, work: Saving, answer: Sequence[Any]) -> None:
        """Remember the state of a session after this append, for the next one."""
        if len(self._known) >= _MOST_AT_HAND:
            self._known.clear()
        key, found = work.found(answer[0], answer[1])
        self._known[key] = found

    # -- under the lock ------------------------------------------------------------------------

    def _try_locked(self, connection: Connection, append: Append) -> PgView:
        view = self._lock(connection, append.session)
        try:
            if append.sent is not None and append.sent.arrived(view):
                batch: Batch | None = append.sent.batch
            elif not view.exists and not append.create:
                raise no_such_session(append.session)
            else:
                batch = append.plan(view)
                if batch is not None:
                    self._send(connection, view, batch, append)
        finally:
            view.end()
            if not connection.closed and connection.info.transaction_status:
                connection.rollback()
        if batch is not None:
            self._remember(view, batch)
            view.has_erased = batch.erased is not None
        return view

    def _lock(self, connection: Connection, session: str) -> PgView:
        """Lock the row of a session until the transaction ends; return the session."""
        key = known_text(session)
        with connection.pipeline():
            connection.execute(_BEGIN)
            if not self._server.place.prepares:
                # On a shared connection the setting made on connecting is lost: set it again.
                connection.execute(f"SET LOCAL lock_timeout = {self._server.patience}")
            found = connection.execute(self._sql(LOCK), (key,), binary=True)
            # Check after taking the lock: sealing the store waits for all who hold a lock.
            oldest = connection.execute(self._sql(OLDEST), binary=True)
        ((value,),) = oldest.fetchall() or (("0",),)
        if int(value) > schema.FORMAT:
            self._local.require_open()
            raise Outdated(
                "this program is too old to write to the store",
                why=f"a newer Forestay uses the store (format {value}, this one has"
                f" {schema.FORMAT})",
                hint="restart this program with the newer version; nothing was written",
            )
        read, device = self._server.reader(connection), self._local.sqlite.machine.device
        view = PgView(read, session, device, found.fetchone())
        if view.exists:
            view.remembered = self.recall(view.number, session)
        return view

    def _send(self, connection: Connection, view: PgView, batch: Batch, append: Append) -> None:
        if not view.exists and len(view.session.encode()) > LONGEST_ID:
            raise InvalidInput(f"a session id has at most {LONGEST_ID} bytes")
        work = Saving(self._sql, view, batch)
        named: list[str] = []
        for seq, salt, data in batch.filled:
            connection.execute(self._sql(_FILL), (salt, data, view.number, seq))
        if batch.erased is not None:
            named = erase_events(connection, self._sql, view, batch)
        if batch.resum or batch.erased or batch.filled:
            work.resum(self._server.reader(connection))
        append.sent = work
        answer = self._write(connection, view, work, named, append)
        view.number, view.exists = answer[0], True
        if append.also is None and batch.erased is None:
            self._cache_session(work, answer)

    def _write(
        self, connection: Connection, view: PgView, work: Saving, named: list[str], append: Append
    ) -> tuple[Any, ...]:
        sql, batch = self._sql, work.batch
        try:
            with connection.pipeline():
                written = work.write(connection)
                if append.blobs:
                    put_blobs(connection, sql, view, append.blobs)
                if batch.erased is not None:
                    erase_content(connection, sql, view, named)
                if append.file_work:
                    key, home = folded(view.session), self._local.name()
                    for what in append.file_work:
                        connection.execute(sql(_PUT_CHORE), (key, home, what))
                for lost in batch.lost:
                    connection.execute(sql(LOSE), (view.session, *lost))
                if append.also is not None:
                    append.also(connection, view)
                connection.execute("COMMIT")
        except pgerrors.UniqueViolation as error:
            if error.diag.constraint_name == "session_key":
                raise AlreadyCreated from error
            raise
        (answer,) = written.fetchall()
        return answer

    # -- what this machine remembers -----------------------------------------------------------

    def _remember(self, view: PgView, batch: Batch) -> None:
        """Remember the new head on this machine, after the commit."""
        view.new_device = batch.device or ""
        head = batch.head
        is_later = view.remembered is not None or self._is_later(view, head)
        if head is not None and is_later:
            self._local.heads.remember(view.number, view.session, head)

    def _is_later(self, view: PgView, head: Head | None) -> bool:
        """Return whether no process of this home has remembered a later head."""
        left = self._local.heads.recall(view.number)
        if left and folded(left[0]) != folded(view.session):
            # The slot belongs to a session that is not in this (restored, older) database.
            self._local.note_lost(left[0], left[1])
            left = None
        if left is None or head is None:
            return True
        return left[1].device != head.device or left[1].n <= head.n

    def recall(self, number: int, session: str) -> Head | None:
        left = self._local.heads.recall(number)
        if left is None or (left[0] != session and folded(left[0]) != folded(session)):
            return None
        return left[1]


# -- what is written ------------------------------------------------------------------------------


class AlreadyCreated(Exception):
    """Another process has just created a session under this id."""


def is_plain(batch: Batch) -> bool:
    """Return whether a batch only adds events and rows, so that one statement suffices."""
    more = batch.fresh_rows or batch.resum or batch.device or batch.lost
    return bool(batch.entries) and not more and batch.erased is None


class Saving:
    """One batch being written, in the transaction that has locked the session's row."""

    def __init__(self, sql: Sql, view: PgView, batch: Batch) -> None:
        self._sql, self._view, self.batch = sql, view, batch
        self._before = view.seq
        self._line: dict[str, object] = {}
        total = view.event_sum
        for entry in batch.entries:
            view.seq += 1
            total += sum_of_event(view.seq, entry)
        view.event_sum = within(total)

    def arrived(self, view: PgView) -> bool:
        """Return whether an earlier attempt wrote the batch: its first event is stored."""
        if not self.batch.entries or not view.exists:
            return False
        found = [stored.header for stored in view.events(after=self._before, limit=1)]
        return found == [self.batch.entries[0].header]

    def resum(self, read: Read) -> None:
        """Compute the checksum over the stored events again, and add the new events."""
        _, total = sum_of_events(read, self._view.number)
        after = enumerate(self.batch.entries, start=self._before + 1)
        self._view.event_sum = within(total + sum(sum_of_event(seq, one) for seq, one in after))

    def write(self, connection: Connection) -> Cursor:
        """Send the batch; the answer is the number of the session and the sum over its rows."""
        view = self._view
        if self.batch.fresh_rows and view.exists:
            connection.execute(self._sql("DELETE FROM @row WHERE session = %s"), (view.number,))
        sql = self._statement("UPDATE" if view.exists else "INSERT")
        return connection.execute(sql, self._values(), binary=True)

    def ask(
        self, connection: Connection, known: Sequence[Any], *, prepares: bool
    ) -> tuple[int, ...] | None:
        """Write in one round trip if the session's row still equals `known`; else return None."""
        values = self._values()
        values.update(zip(_WAS, _was(known), strict=True))
        whole = _seldom(values) != _was_seldom(known)
        sql = self._statement("UNCHANGED" if prepares else "FREE", whole=whole)
        # If the batch has no rows, all values of the answer are known already.
        count = 2 if self.batch.rows else 0
        found = connection.ask(sql, values, count, prepares=prepares)
        return found if found or found is None else (known[0], known[2])

    def _values(self) -> dict[str, object]:
        self._line = {**self._new_line(), **self._rows(), **self._events()}
        return self._line

    def _statement(self, head: str, *, whole: bool = True) -> str:
        batch = self.batch
        events, rows = min(len(batch.entries), 2), bool(batch.rows)
        return self._sql(_statement(head, events, rows, batch.fresh_rows, whole))

    def found(self, number: int, row_sum: int) -> tuple[str, tuple[Any, ...]]:
        """Return the key of the session, and its row as `LOAD` would return it now."""
        self._line["number"], self._line["row_sum"] = number, row_sum
        return str(self._line["key"]), _loaded(self._line)

    def _new_line(self) -> dict[str, object]:
        view, batch = self._view, self.batch
        line = (view.session, view.seq, *_shown(batch.listing))
        return {
            "number": view.number,
            "id": view.session,
            "key": folded(view.session),
            "event_sum": view.event_sum,
            "fold": batch.fold,
            "core": batch.core,
            "core_sum": zlib.crc32(batch.core, batch.fold),
            "line_sum": sum_of_line(line),
            "seq": view.seq,
            **batch.listing,
        }

    def _events(self) -> dict[str, object]:
        entries = self.batch.entries
        if len(entries) == 1:
            (one,) = entries
            return {"event": one.key, "header": one.header, "salt": one.salt, "body": one.data}
        return {
            "seqs": list(range(self._before + 1, self._view.seq + 1)),
            "ids": [entry.key for entry in entries],
            "headers": [entry.header for entry in entries],
            "salts": [entry.salt for entry in entries],
            "bodies": [entry.data for entry in entries],
        }

    def _rows(self) -> dict[str, object]:
        if not self.batch.rows:
            return {"rows": 0}
        # A statement cannot write a row twice: the last one counts.
        rows = list({row[:2]: row for row in self.batch.rows}.values())
        sums = [sum_of_row(*row) for row in rows]
        names = ("kinds", "keys", "opens", "ranks", "values")
        columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
        return {"rows": within(sum(sums)), "sums": sums, **columns}


@lru_cache
def _statement(head: str, events: int, has_rows: bool, fresh_rows: bool, whole: bool) -> str:
    """Return one statement for a whole batch: of no event, of one, or of several."""
    parts = [f"s AS ({_head(head, has_rows, fresh_rows, whole)})"]
    if events:
        parts.append(f"e AS ({_EVENT if events == 1 else _EVENTS})")
    if has_rows:
        parts.append(f"r AS ({_ROWS})")
    return f"WITH {', '.join(parts)} {_ANSWER}"


def _head(head: str, has_rows: bool, fresh_rows: bool, whole: bool) -> str:
    if head == "INSERT":
        return _INSERT
    names = [name for name in _COLUMNS if whole or name not in _SELDOM]
    columns = [f"{name} = %({name})s" for name in names]
    if fresh_rows or has_rows:
        columns.append(f"row_sum = {'%(rows)s' if fresh_rows else _ROW_SUM}")
    return _UPDATE.format(", ".join(columns), _WHICH[head])


def put_blobs(
    connection: Connection, sql: Sql, view: PgView, blobs: Sequence[tuple[str, list[bytes]]]
) -> None:
    """Store blobs for a session; replace stored parts that are damaged."""
    connection.execute(sql(LOCK_BLOBS.format("_shared")))
    for digest, parts in blobs:
        connection.execute(sql(_PUT_PARTS), (digest, list(range(len(parts))), parts))
        connection.execute(
            sql("DELETE FROM @blob WHERE digest = %s AND part >= %s"), (digest, len(parts))
        )
        connection.execute(
            sql(f"INSERT INTO @blob_use SELECT %s, {_NUMBER} ON CONFLICT DO NOTHING"),
            (digest, folded(view.session)),
        )


def erase_events(connection: Connection, sql: Sql, view: PgView, batch: Batch) -> list[str]:
    """Erase the data of events that a batch names; return the blobs that others still name."""
    from forestay.store.blob_uses import names

    connection.execute(
        sql("UPDATE @event SET salt = NULL, data = NULL WHERE session = %s AND seq = ANY(%s)"),
        (view.number, list(batch.erased or ())),
    )
    every = [*(view.events() if view.exists else ()), *batch.entries]
    found = (names(one.header, one.data) for one in every if one.data is not None)
    return [name.decode() for some in found for name in some]


def erase_content(connection: Connection, sql: Sql, view: PgView, named: list[str]) -> None:
    """Erase blobs that no event names any more, and the search text of a session."""
    key = folded(view.session)
    # Content that another session begins to use at this moment must not be erased.
    connection.execute(sql(LOCK_BLOBS.format("")))
    connection.execute(
        sql(f"DELETE FROM @blob_use WHERE session = {_NUMBER} AND digest <> ALL(%s)"), (key, named)
    )
    connection.execute(sql(UNUSED))
    connection.execute(sql(f"DELETE FROM @find WHERE session = {_NUMBER}"), (key,))
    # Lower than any earlier value, so that a process that has read the events does not index them.
    connection.execute(
        sql("UPDATE @session SET indexed = least(indexed, 0) - 1 WHERE key = %s"), (key,)
    )


RESUM = """
    UPDATE @session SET row_sum = 0, event_sum = (
        SELECT coalesce(mod(sum(('x' || encode(substr(sha256(convert_to(seq::text || ':', 'UTF8')
            || header), 1, 7), 'hex'))::bit(56)::bigint), 72057594037927936), 0)::bigint
        FROM @event WHERE session = %(number)s)
    WHERE number = %(number)s
"""
"""Compute the sum over events of which only the headers are left."""


def damaged(why: str) -> Damaged:
    return Damaged(
        "the database is damaged", why=why, hint="see what can be saved: forestay doctor"
    )


def known_text(session: str) -> str:
    """Return an id in the form that is searched; raise `NoSession` if it cannot be stored."""
    try:
        session.encode()
    except UnicodeEncodeError:
        raise no_such_session(session) from None
    if "\0" in session:
        raise no_such_session(session)
    return folded(session)
