"""One session, read inside one transaction of one connection.

Events are fetched some at a time, each time from where the last ones ended: so two readings of
one view do not disturb each other, and a long journal is never held whole.
"""

from __future__ import annotations

import zlib

from forestay.base.hashing import digest_of
from forestay.errors import Damaged
from forestay.store.blob_codec import are_undamaged
from forestay.store.port import Head, Stored, View, listings, sum_of_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from forestay.store.port import Entry
    from forestay.store.postgres.connection import Rows

    Read = Callable[[str, Sequence[object]], Rows]

SUM_BITS = 56
_SMALL = {big: big + 32 for big in range(ord("A"), ord("Z") + 1)}
_FETCHED = 1000
_MOST = 1 << 62
LINE = "id, seq, status, goal, archived, forgotten, began, updated, summary"
LOAD = f"""
    SELECT number, event_sum, row_sum, fold, core, core_sum, line_sum, {LINE}
    FROM @session WHERE key = %s
"""
LOCK = f"""
    SELECT number, event_sum, row_sum, fold, core, core_sum, line_sum, {LINE}
    FROM @session WHERE key = %s FOR UPDATE
"""
OLDEST = "SELECT value FROM @meta WHERE key = 'min_writer'"
# What the sum over the events takes of one; `sum_of_event` is the same on our side.
_SUM = f"""
    SELECT count(*), coalesce(max(seq), 0), coalesce(mod(sum(('x' || encode(substr(sha256(
        convert_to(seq::text || ':' || coalesce(key, ''), 'UTF8') || header
        || coalesce(salt, '') || coalesce(data, '')), 1, 7), 'hex'))::bit({SUM_BITS})::bigint),
        {1 << SUM_BITS}), 0)::bigint
    FROM @event WHERE session = %s
"""
_PARTS = "SELECT data FROM @blob WHERE digest = %s ORDER BY part"


def folded(id: str) -> str:
    """An id as it is found in any case: letters of ASCII only, as every adapter does."""
    return id.lower() if id.isascii() else id.translate(_SMALL)


def sum_of_event(seq: int, entry: Entry) -> int:
    place = f"{seq}:{entry.key or ''}".encode()
    whole = place + entry.header + (entry.salt or b"") + (entry.data or b"")
    return int(digest_of(whole)[:14], 16)


def sum_of_row(kind: str, key: str, is_open: bool, rank: int, value: bytes) -> int:
    whole = repr((kind, key, bool(is_open), rank)).encode() + value
    return int(digest_of(whole)[:14], 16)


def within(total: int) -> int:
    """A sum as it is kept: what is beyond its bits is dropped."""
    return total % (1 << SUM_BITS)


def sum_of_events(read: Read, number: int) -> tuple[int, int]:
    """How many events there are, -1 if not numbered without a gap, and the sum over all."""
    ((count, last, total),) = read(_SUM, (number,))
    return (count if last == count else -1), total


class PgView(View):
    """A session as `found` by `LOAD`; `read` asks in the transaction that the view stands for."""

    def __init__(
        self,
        read: Read,
        asked: str,
        device: str,
        found: Sequence[Any] | None,
        *,
        is_ours: bool = False,
    ) -> None:
        """What `is_ours` was never anywhere else, so there is nothing to check."""
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
        """May be called twice."""
        self._read = None

    def __exit__(self, *_: object) -> None:
        self.end()

    def _all(self, sql: str, values: Sequence[object]) -> Rows:
        if self._read is None:
            raise RuntimeError("the view has ended")
        try:
            return self._read(sql, values)
        except UnicodeEncodeError:
            return []  # what cannot be written was never stored

    def listing(self) -> dict[str, object]:
        found = self._all(f"SELECT line_sum, {LINE} FROM @session WHERE number = %s", [self.number])
        return listings([(*found[0], self.project)])[0]

    def row(self, table: str, key: str) -> bytes | None:
        found = self._rows("AND key = %s", (table, key))
        return found[0][4] if found else None

    def rows(
        self, table: str, *, open_only: bool = False, newest: bool = False, limit: int = -1
    ) -> list[bytes]:
        order = "rank DESC, key DESC" if newest else "rank, key"
        only = "AND open" if open_only else ""
        asked = (table, min(limit, _MOST) if limit >= 0 else None)
        return [row[4] for row in self._rows(f"{only} ORDER BY {order} LIMIT %s::bigint", asked)]

    def all_rows(self) -> list[tuple[str, str, bool, int, bytes]]:
        found = self._all(f"{_ROWS} WHERE session = %s", (self.number,))
        return list(map(_sound, found))

    def _rows(self, tail: str, values: Sequence[object]) -> list[tuple[str, str, bool, int, bytes]]:
        sql = f"{_ROWS} WHERE session = %s AND kind = %s {tail}"
        return list(map(_sound, self._all(sql, (self.number, *values))))

    def find(self, key: str) -> Stored | None:
        found = self._all(
            "SELECT seq, header, salt, data FROM @event WHERE session = %s AND key = %s"
            " ORDER BY seq LIMIT 1",
            (self.number, key),
        )
        return Stored(*found[0]) if found else None

    def has_any(self, keys: Sequence[str]) -> bool:
        sql = "SELECT 1 FROM @event WHERE session = %s AND key = ANY(%s::text[]) LIMIT 1"
        return bool(self._all(sql, (self.number, list(keys))))

    def events(
        self,
        *,
        after: int = 0,
        limit: int = -1,
        newest: bool = False,
        keyless_only: bool = False,
    ) -> Iterator[Stored]:
        self._all("SELECT 1 WHERE false", ())
        only = "AND key IS NULL" if keyless_only else ""
        return self._stream(max(after, 0), _MOST if limit < 0 else limit, newest, only)

    def _stream(self, after: int, limit: int, newest: bool, only: str) -> Iterator[Stored]:
        low, high = min(after, _MOST), _MOST
        order = "DESC" if newest else ""
        while limit > 0:
            some = min(limit, _FETCHED)
            found = self._all(
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
        events = sum_of_events(self._all, self.number)
        try:
            rows = within(sum(sum_of_row(*row) for row in self.all_rows()))
        except Damaged:
            return False
        return events == (self.seq, self.event_sum) and rows == self.row_sum

    def keeps_content(self) -> bool:
        used = self._all("SELECT digest FROM @blob_use WHERE session = %s", (self.number,))
        return all(
            are_undamaged(digest, [part for (part,) in self._all(_PARTS, (digest,))])
            for (digest,) in used
        )

    def lost(self) -> list[tuple[str, int, str]]:
        return self._all("SELECT device, n, hash FROM @lost WHERE session = %s", (self.session,))


_NONE = (0, 0, 0, 0, b"", 0, 0, "", 0, "", "", 0, 0, 0, 0, "")
_ROWS = "SELECT kind, key, open, rank, value, sum FROM @row"


def _sound(row: tuple[Any, ...]) -> tuple[str, str, bool, int, bytes]:
    kind, key, is_open, rank, value, kept = row
    if sum_of_row(kind, key, is_open, rank, value) != kept:
        raise Damaged("a table derived from the journal is damaged", hint="forestay doctor --fix")
    return kind, key, is_open, rank, value
