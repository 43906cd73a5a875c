"""One session, read inside one transaction of one connection.

Events are fetched in batches, each after the last one: so two iterations over one view do not
disturb each other, and a long journal is never in memory as a whole.
"""

from __future__ import annotations

import zlib

from forestay.base.hashing import digest_of
from forestay.errors import Damaged
from forestay.store.port import LISTED, Head, Stored, sum_of_line
from forestay.store.sql import MOST, SqlView, Statements

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from forestay.store.port import Entry
    from forestay.store.sql import Row, Rows

    Read = Callable[[str, Sequence[object]], Rows]

SUM_BITS = 56
_SMALL = {big: big + 32 for big in range(ord("A"), ord("Z") + 1)}
_FETCHED = 1000
STATEMENTS = Statements(table="@", mark="%s", key="key", is_open="open", project="NULL")
LINE = ", ".join(LISTED[:-1])
LOAD = f"""
    SELECT number, event_sum, row_sum, fold, core, core_sum, line_sum, {LINE}
    FROM @session WHERE key = %s
"""
LOCK = f"{LOAD} FOR UPDATE"
OLDEST = "SELECT value FROM @meta WHERE key = 'min_writer'"
# What the sum over the events covers; `sum_of_event` computes the same here.
_SUM = f"""
    SELECT count(*), coalesce(max(seq), 0), coalesce(mod(sum(('x' || encode(substr(sha256(
        convert_to(seq::text || ':' || coalesce(key, ''), 'UTF8') || header
        || coalesce(salt, '') || coalesce(data, '')), 1, 7), 'hex'))::bit({SUM_BITS})::bigint),
        {1 << SUM_BITS}), 0)::bigint
    FROM @event WHERE session = %s
"""


def folded(id: str) -> str:
    """Return an id with its ASCII letters in lower case, for comparison in any case."""
    return id.lower() if id.isascii() else id.translate(_SMALL)


def sum_of_event(seq: int, entry: Entry) -> int:
    place = f"{seq}:{entry.key or ''}".encode()
    whole = place + entry.header + (entry.salt or b"") + (entry.data or b"")
    return int(digest_of(whole)[:14], 16)


def sum_of_row(kind: str, key: str, is_open: bool, rank: int, value: bytes) -> int:
    whole = repr((kind, key, bool(is_open), rank)).encode() + value
    return int(digest_of(whole)[:14], 16)


def within(total: int) -> int:
    """Return a sum in its stored form: modulo 2 to the power of its bits."""
    return total % (1 << SUM_BITS)


def sum_of_events(read: Read, number: int) -> tuple[int, int]:
    """Return how many events a session has (-1 if one is missing) and the sum over them."""
    ((count, last, total),) = read(_SUM, (number,))
    return (count if last == count else -1), total


class PgView(SqlView):
    """A session as `found` by `LOAD`; `read` queries the transaction that the view stands for."""

    statements = STATEMENTS

    def __init__(
        self,
        read: Read,
        asked: str,
        device: str,
        found: Sequence[Any] | None,
        *,
        is_ours: bool = False,
    ) -> None:
        """With `is_ours`, this process wrote the values itself: they need no check."""
        self._read: Read | None = read
        self.device = device
        self.exists = found is not None
        known: Sequence[Any] = found or _NONE
        number, event_sum, row_sum, fold, core, core_sum, line_sum, *line = known
        self.number: int = number
        self.event_sum: int = event_sum
        self.row_sum: int = row_sum
        self.listed_well = is_ours or not self.exists or sum_of_line(line) == line_sum
        self.session: str = line[0] if self.exists else asked
        self.seq: int = line[1]
        sound = is_ours or (self.exists and zlib.crc32(core, fold) == core_sum)
        self.fold: int = fold if sound else -1
        self.core: bytes = core if sound else b""
        self.remembered: Head | None = None
        self.project: int | None = None
        self.new_device = ""
        self.has_erased = False

    def end(self) -> None:
        self._read = None

    def _query(self, sql: str, values: Sequence[object]) -> Rows:
        if self._read is None:
            raise RuntimeError("the view has ended")
        try:
            return self._read(sql, values)
        except UnicodeEncodeError:
            return []  # a text that cannot be encoded was never stored

    def listing(self) -> dict[str, object]:
        return {**super().listing(), "project": self.project}

    def _rows(self, where: str, values: Sequence[object]) -> list[Row]:
        return list(map(_sound, self._query(f"{_ROWS} {where}", (self.number, *values))))

    def find(self, key: str) -> Stored | None:
        found = self._query(
            "SELECT seq, header, salt, data FROM @event WHERE session = %s AND key = %s"
            " ORDER BY seq LIMIT 1",
            (self.number, key),
        )
        return Stored(*found[0]) if found else None

    def has_any(self, keys: Sequence[str]) -> bool:
        sql = "SELECT 1 FROM @event WHERE session = %s AND key = ANY(%s::text[]) LIMIT 1"
        return bool(self._query(sql, (self.number, list(keys))))

    def events(
        self,
        *,
        after: int = 0,
        limit: int = -1,
        newest: bool = False,
        keyless_only: bool = False,
    ) -> Iterator[Stored]:
        self._query("SELECT 1 WHERE false", ())
        only = "AND key IS NULL" if keyless_only else ""
        return self._stream(max(after, 0), MOST if limit < 0 else limit, newest, only)

    def _stream(self, after: int, limit: int, newest: bool, only: str) -> Iterator[Stored]:
        low, high = min(after, MOST), MOST
        order = "DESC" if newest else ""
        while limit > 0:
            some = min(limit, _FETCHED)
            found = self._query(
                "SELECT seq, header, salt, data FROM @event"
                f" WHERE session = %s AND seq > %s AND seq < %s {only}"
                f" ORDER BY seq {order} LIMIT %s",
                (self.number, low, high, some),
            )
            for row in found:
                if self._read is None:
                    raise RuntimeError("the view has ended")
                yield Stored(*row)
            if len(found) < some:
                return
            limit -= some
            low, high = (low, found[-1][0]) if newest else (found[-1][0], high)

    def intact(self) -> bool:
        events = sum_of_events(self._query, self.number)
        try:
            rows = within(sum(sum_of_row(*row) for row in self.all_rows()))
        except Damaged:
            return False
        return events == (self.seq, self.event_sum) and rows == self.row_sum


_NONE = (0, 0, 0, 0, b"", 0, 0, "", 0, "", "", 0, 0, 0, 0, "")
_ROWS = "SELECT kind, key, open, rank, value, sum FROM @row WHERE session = %s"


def _sound(row: tuple[Any, ...]) -> Row:
    kind, key, is_open, rank, value, kept = row
    if sum_of_row(kind, key, is_open, rank, value) != kept:
        raise Damaged("a table derived from the journal is damaged", hint="forestay doctor --fix")
    return kind, key, is_open, rank, value
