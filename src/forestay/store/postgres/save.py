"""Write one batch: the statements, and how to find out later whether they took effect."""

from __future__ import annotations

import zlib
from functools import lru_cache
from operator import itemgetter

from forestay.errors import Damaged
from forestay.store.port import SHOWN, sum_of_line
from forestay.store.postgres import schema
from forestay.store.postgres.view import (
    SUM_BITS,
    folded,
    sum_of_event,
    sum_of_events,
    sum_of_row,
    within,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    import psycopg

    from forestay.store.port import Batch
    from forestay.store.postgres.connection import Connection
    from forestay.store.postgres.view import PgView, Read

    Cursor = psycopg.Cursor[tuple[Any, ...]]
    Sql = Callable[[str], str]

UNUSED = (
    "DELETE FROM @blob b WHERE NOT EXISTS (SELECT 1 FROM @blob_use u WHERE u.digest = b.digest)"
)
LOCK_BLOBS = "SELECT pg_advisory_xact_lock{}(hashtext('@blob'), 0)"
_COLUMNS = (
    *("event_sum", "fold", "core", "core_sum", "line_sum", "seq"),
    *SHOWN,
)
_SELDOM = ("fold", "status", "goal", "archived", "forgotten", "began")
"""Columns that most appends do not change, and then do not send."""
_M = 1 << SUM_BITS
_UPDATE = """
    UPDATE @session SET {} WHERE number = {} RETURNING number, row_sum
"""
# If no process has written since, and the store is open to us. A lock of the row is waited for.
_UNCHANGED = f"""
    %(number)s AND seq = %(was_seq)s AND event_sum = %(was_event_sum)s
        AND row_sum = %(was_row_sum)s AND core_sum = %(was_core_sum)s
        AND line_sum = %(was_line_sum)s
        AND (SELECT value::bigint FROM @meta WHERE key = 'min_writer') <= {schema.FORMAT}
"""
# The same for a connection without a lock timeout: not if the row is locked.
_FREE = f"(SELECT number FROM @session WHERE number = {_UNCHANGED} FOR UPDATE SKIP LOCKED)"
_WHICH = {"UPDATE": "%(number)s", "UNCHANGED": _UNCHANGED, "FREE": _FREE}
# A role or database may be configured to answer before the disk has the data.
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
"""These, of what `LOAD` finds."""
_loaded = itemgetter(
    *("number", "event_sum", "row_sum", "fold", "core", "core_sum", "line_sum", "id", "seq"),
    *SHOWN,
)
_shown = itemgetter(*SHOWN)
_seldom, _was_seldom = itemgetter(*_SELDOM), itemgetter(3, 9, 10, 11, 12, 13)
_NUMBER = "(SELECT number FROM @session WHERE key = %s)"
_PUT_PARTS = """
    INSERT INTO @blob SELECT %s, u.* FROM unnest(%s::integer[], %b::bytea[]) u
    ON CONFLICT (digest, part) DO UPDATE SET data = excluded.data
    WHERE blob.data IS DISTINCT FROM excluded.data
"""


class Taken(Exception):
    """Another process has just created a session under this id."""


class Doubt:
    """A batch that was sent; it arrived if its first event is in its place."""

    def __init__(self, seq: int, batch: Batch) -> None:
        self._seq, self.batch = seq, batch

    def arrived(self, view: PgView) -> bool:
        if not self.batch.entries or not view.exists:
            return False
        found = [stored.header for stored in view.events(after=self._seq, limit=1)]
        return found == [self.batch.entries[0].header]


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

    def doubt(self) -> Doubt:
        return Doubt(self._before, self.batch)

    def resum(self, read: Read) -> None:
        """Compute the sum again over the stored events, and add the new ones."""
        _, total = sum_of_events(read, self._view.number)
        after = enumerate(self.batch.entries, start=self._before + 1)
        self._view.event_sum = within(total + sum(sum_of_event(seq, one) for seq, one in after))

    def write(self, connection: Connection) -> Cursor:
        """Send it; the answer has the number of the session and the sum over its rows."""
        view = self._view
        if self.batch.fresh_rows and view.exists:
            connection.execute(self._sql("DELETE FROM @row WHERE session = %s"), (view.number,))
        sql = self._statement("UPDATE" if view.exists else "INSERT")
        return connection.execute(sql, self._values(), binary=True)

    def ask(
        self, connection: Connection, known: Sequence[Any], *, prepares: bool
    ) -> tuple[int, ...] | None:
        """Write in one round trip if the row of the session is still as `known`; else None."""
        values = self._values()
        values.update(zip(_WAS, _was(known), strict=True))
        whole = _seldom(values) != _was_seldom(known)
        sql = self._statement("UNCHANGED" if prepares else "FREE", whole=whole)
        # Without rows everything in the answer is known.
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
        """Return the key of the session, and its line as `LOAD` would find it now."""
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
    """Store content for a session; damaged content is repaired."""
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


def fill_events(connection: Connection, sql: Sql, view: PgView, batch: Batch) -> None:
    """Add content to events that were stored without it."""
    statement = sql(
        "UPDATE @event SET salt = %s, data = %s WHERE session = %s AND seq = %s AND data IS NULL"
    )
    for seq, salt, data in batch.filled:
        connection.execute(statement, (salt, data, view.number, seq))


def erase_events(connection: Connection, sql: Sql, view: PgView, batch: Batch) -> list[str]:
    """Erase the content of the events a batch names; return the blobs that others still name."""
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
    # Content that another session begins to use now must not be erased.
    connection.execute(sql(LOCK_BLOBS.format("")))
    connection.execute(
        sql(f"DELETE FROM @blob_use WHERE session = {_NUMBER} AND digest <> ALL(%s)"), (key, named)
    )
    connection.execute(sql(UNUSED))
    connection.execute(sql(f"DELETE FROM @find WHERE session = {_NUMBER}"), (key,))
    # Below any earlier value: a process that read events before this must not index them now.
    connection.execute(
        sql("UPDATE @session SET indexed = least(indexed, 0) - 1 WHERE key = %s"), (key,)
    )


def put_chores(
    connection: Connection, sql: Sql, view: PgView, home: str, chores: Sequence[str]
) -> None:
    for what in chores:
        connection.execute(
            sql(f"INSERT INTO @chore (session, home, what) SELECT {_NUMBER}, %s, %s"),
            (folded(view.session), home, what),
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
