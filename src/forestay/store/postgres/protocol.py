"""Send one statement and read its answer through libpq, without most of the driver.

For each statement the driver finds the type of every value, creates a cursor and steps through
coroutines. An append is always the same statement: its numbers are `bigint`, its answer begins with
numbers, and it is prepared once for each connection.
"""

from __future__ import annotations

import re
import select
import struct
from functools import lru_cache
from operator import itemgetter

import psycopg
from psycopg import pq

from forestay.base.hashing import digest_of, use_openssl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

_PLACE = re.compile(r"%\((\w+)\)[sb]")
_BIGINT, _TEXT = 20, 25
_OID: dict[type, int] = {bool: 16, bytes: 17, int: _BIGINT, str: _TEXT}
_number = struct.Struct("!q").pack
_size = struct.Struct("!i").pack
_array_head = struct.Struct("!iiIii").pack
_TIMES_UNPREPARED = 2
_NOT_PREPARED, _THERE_ALREADY, _WAITED = "26000", "42P05", "55P03"
_LINES = pq.ExecStatus.TUPLES_OK
LOST = ("57P01", "57P02", "57P05", "08000", "08003", "08006", "25P03")
"""Codes of errors after which the connection is closed."""


class NotDone(Exception):
    """The statement was refused and had no effect; the driver, sending it, raises the reason."""


class Wired(psycopg.Connection["tuple[Any, ...]"]):
    """A connection that also sends statements directly."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._times: dict[str, int] = {}
        self._poll = select.poll()
        self._poll.register(self.pgconn.socket, select.POLLIN)

    def ask(
        self, sql: str, values: Mapping[str, object], count: int, *, prepares: bool
    ) -> tuple[int, ...] | None:
        """Send a statement; return the first numbers of the row in its answer, None without a row.

        Raise `NotDone` if the server refuses; an error of the driver if the lock timeout is over
        or the connection breaks.
        """
        text, taken = _numbered(sql)
        given = taken(values)
        try:
            sent = [_ENCODED[type(value)](value) for value in given]
        except (struct.error, KeyError) as error:
            raise NotDone from error
        formats = [1] * len(sent)
        if prepares and self._prepare(sql, text, given):
            self.pgconn.send_query_prepared(_name(sql), sent, formats, 1)
        else:
            self.pgconn.send_query_params(text, sent, _types(given), formats, 1)
        self._await_answer()
        return self._answer(sql, count)

    def _prepare(self, sql: str, text: bytes, given: Sequence[object]) -> bool:
        """Return whether a statement is prepared; prepare one that is sent often."""
        times = self._times[sql] = self._times.get(sql, 0) + 1
        if times == _TIMES_UNPREPARED + 1:
            use_openssl()
            made = self.pgconn.prepare(_name(sql), text, _types(given))
            # The name is derived from the text, so an existing statement of this name is the same.
            if made.status != pq.ExecStatus.COMMAND_OK and _code(made) != _THERE_ALREADY:
                raise self._refusal(sql, made)
        return times > _TIMES_UNPREPARED

    def _await_answer(self) -> None:
        connection = self.pgconn
        while connection.flush():
            self._poll.modify(connection.socket, select.POLLIN | select.POLLOUT)
            self._poll.poll()
            connection.consume_input()
            self._poll.modify(connection.socket, select.POLLIN)
        while connection.is_busy():
            self._poll.poll()
            connection.consume_input()

    def _answer(self, sql: str, count: int) -> tuple[int, ...] | None:
        found = self.pgconn.get_result()
        if found is None or found.status != _LINES:
            raise self._refusal(sql, found)
        while self.pgconn.get_result() is not None:
            pass
        if not found.ntuples:
            return None
        return tuple([_read(found.get_value(0, column)) for column in range(count)])

    def _refusal(self, sql: str, found: pq.abc.PGresult | None) -> Exception:
        while self.pgconn.get_result() is not None:
            pass
        code = _code(found)
        if self.pgconn.status == pq.ConnStatus.BAD or code in LOST:
            return psycopg.OperationalError(self.pgconn.get_error_message())
        if code == _WAITED:
            return psycopg.errors.LockNotAvailable(self.pgconn.get_error_message())
        if code == _NOT_PREPARED:
            self._times.pop(sql, None)  # a pooler dropped it: prepare it again
        return NotDone(found.get_error_message() if found is not None else "")


def _code(found: pq.abc.PGresult | None) -> str:
    code = found.error_field(pq.DiagnosticField.SQLSTATE) if found is not None else None
    return (code or b"").decode()


@lru_cache(64)
def _numbered(sql: str) -> tuple[bytes, Callable[[Mapping[str, object]], Sequence[object]]]:
    """Return a statement with `$1` for its first name and so on, and the getter of the values."""
    names = tuple(dict.fromkeys(_PLACE.findall(sql)))
    places = {name: f"${number}" for number, name in enumerate(names, start=1)}
    return _PLACE.sub(lambda found: places[found[1]], sql).encode(), itemgetter(*names)


@lru_cache(64)
def _name(sql: str) -> bytes:
    return f"forestay_{digest_of(sql.encode())[:16]}".encode()


def _types(given: Sequence[object]) -> list[int]:
    """Return the type of each value; 0 for lists and None, whose type the statement names."""
    return [_OID.get(type(value), 0) for value in given]


def _array(values: Any) -> bytes:
    oid = next((_OID[type(value)] for value in values if value is not None), _TEXT)
    parts = [_array_head(1, int(None in values), oid, len(values), 1)]
    for value in (_ENCODED[type(value)](value) for value in values):
        parts += (_size(-1),) if value is None else (_size(len(value)), value)
    return b"".join(parts)


def _read(value: bytes | None) -> int:
    return int.from_bytes(value or b"", "big", signed=True)


_ENCODED: dict[type, Callable[[Any], bytes | None]] = {
    int: _number,
    str: str.encode,
    bytes: bytes,
    bool: lambda value: bytes([value]),
    type(None): lambda value: None,
    list: _array,
}
