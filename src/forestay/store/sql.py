"""What stores with SQL tables share: statements, and what is read with them.

The statements are written once. `Statements` adapts them to one store: how it names tables, marks
values, and compares ids in any case. Each store has another table of events, so the statements that
read events are not here.

A blob is stored in compressed parts, each with a checksum, so that damage or a missing part is
found without decompressing anything.
"""

from __future__ import annotations

import zlib

from forestay.errors import Damaged
from forestay.store.port import LISTED, Store, View, listings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from forestay.base.clock import Clock

    Rows = list[tuple[Any, ...]]
    Row = tuple[str, str, bool, int, bytes]

MOST = 1 << 62
_MOST_RESOLVED = 20
_PART = 1 << 20


class Statements:
    """The statements of one store.

    `table` comes before the name of a table, `mark` stands for a value, `key` is a session's id as
    it is compared, `is_open` the test for open rows, `project` the project of a session.
    """

    def __init__(self, *, table: str, mark: str, key: str, is_open: str, project: str) -> None:
        def spell(sql: str) -> str:
            return sql.replace("@", table).replace("?", mark).replace("KEY", key)

        self.list = spell(f"SELECT line_sum, {', '.join(LISTED[:-1])}, {project} FROM @session")
        self.listing = spell(f"{self.list} WHERE number = ?")
        self.recent = spell(" ORDER BY updated DESC, number DESC LIMIT ?")
        self.row = spell("AND kind = ? AND key = ?")
        self.rows = {
            (open_only, newest): spell(f"AND kind = ?{only} ORDER BY {order} LIMIT ?")
            for open_only, only in ((False, ""), (True, f" AND {is_open}"))
            for newest, order in ((False, "rank, key"), (True, "rank DESC, key DESC"))
        }
        self.lost = spell("SELECT device, n, hash FROM @lost WHERE session = ?")
        self.used_blobs = spell("SELECT digest FROM @blob_use WHERE session = ?")
        self.blob = spell("SELECT data FROM @blob WHERE digest = ? ORDER BY part")
        # The plus prevents SQLite from searching by that column, of which most rows are alike.
        self.same_id = spell("SELECT id FROM @session WHERE KEY = ? AND +forgotten = 0")
        self.ids_between = spell(
            "SELECT id FROM @session WHERE KEY >= ? AND KEY < ? AND +forgotten = 0"
            " ORDER BY KEY LIMIT ?"
        )
        self.length = spell("SELECT seq FROM @session WHERE KEY = ?")
        self.tests = {
            "id": spell("KEY = ?"),
            **{name: spell(f"{name} = ?") for name in ("status", "archived", "forgotten")},
        }


def at_most(limit: int) -> int:
    """Return a limit for a statement; a negative number means no limit."""
    return min(limit, MOST) if limit >= 0 else MOST


class SqlView(View):
    """One session, read with the statements of a store inside one transaction."""

    statements: Statements
    number: int
    event_sum: int
    row_sum: int

    def _query(self, sql: str, values: Sequence[object]) -> Rows:
        """Return the rows of one query; raise `RuntimeError` if the view has ended."""
        raise NotImplementedError

    def _rows(self, where: str, values: Sequence[object]) -> list[Row]:
        """Return rows of the session; raise `Damaged` if one is not as it was written."""
        raise NotImplementedError

    def end(self) -> None:
        """End the view. May be called twice."""
        raise NotImplementedError

    def __exit__(self, *_: object) -> None:
        self.end()

    def listing(self) -> dict[str, object]:
        return listings(self._query(self.statements.listing, (self.number,)))[0]

    def row(self, table: str, key: str) -> bytes | None:
        found = self._rows(self.statements.row, (table, key))
        return found[0][4] if found else None

    def rows(
        self, table: str, *, open_only: bool = False, newest: bool = False, limit: int = -1
    ) -> list[bytes]:
        where = self.statements.rows[open_only, newest]
        return [row[4] for row in self._rows(where, (table, at_most(limit)))]

    def all_rows(self) -> list[Row]:
        return self._rows("", ())

    def keeps_content(self) -> bool:
        used = self._query(self.statements.used_blobs, (self.number,))
        return all(
            is_undamaged(digest, [p for (p,) in self._query(self.statements.blob, (digest,))])
            for (digest,) in used
        )

    def lost(self) -> list[tuple[str, int, str]]:
        return self._query(self.statements.lost, (self.session,))


class SqlStore(Store):
    """What a store reads outside of views, with its statements."""

    statements: Statements
    _clock: Clock

    def _read(self, sql: str, values: Sequence[object]) -> Rows:
        """Return the rows of one query; none while there are no tables."""
        raise NotImplementedError

    def _damaged(self, why: str) -> Damaged:
        raise NotImplementedError

    def _comparable(self, id: str) -> str:
        """Return an id in the form of the column that ids are compared with."""
        return id

    def _in_project(self, project: object) -> tuple[str, object]:
        """Return the SQL condition "is in this project" (None: in no project), and its value."""
        raise NotImplementedError

    def catalogue(
        self, *, where: dict[str, object] | None = None, limit: int = -1
    ) -> list[dict[str, object]]:
        tests: list[str] = []
        values: list[object] = []
        for name, value in {"forgotten": 0, **(where or {})}.items():
            if name == "project":
                test, value = self._in_project(value)
            else:
                test = self.statements.tests[name]
                value = self._comparable(str(value)) if name == "id" else value
            tests.append(test)
            values.append(value)
        sql = f"{self.statements.list} WHERE {' AND '.join(tests)}{self.statements.recent}"
        return listings(self._read(sql, (*values, at_most(limit))))

    def resolve(self, prefix: str) -> list[str]:
        if not prefix:
            return []
        key = self._comparable(prefix)
        between = (key, key + "\U0010ffff", _MOST_RESOLVED)
        found: Iterable[tuple[Any, ...]] = self._read(self.statements.same_id, (key,))
        found = found or self._read(self.statements.ids_between, between)
        return [str(id) for (id,) in found]

    def watch(self, session: str, after: int, timeout: float) -> bool:
        key = self._comparable(session)
        deadline, pause = self._clock.monotonic() + timeout, 0.02
        while True:
            found = self._read(self.statements.length, (key,))
            if found and int(found[0][0]) > after:
                return True
            left = deadline - self._clock.monotonic()
            if left <= 0:
                return False
            self._clock.sleep(min(pause, left))
            pause = min(pause * 1.5, 0.25)

    def blob(self, digest: str) -> bytes | None:
        parts = [part for (part,) in self._read(self.statements.blob, (digest,))]
        if not parts:
            return None
        data = unpack_blob(digest, parts)
        if data is None:
            raise self._damaged(f"the content stored under {digest[:12]} is damaged")
        return data


def pack_blobs(blobs: Iterable[tuple[str, bytes]]) -> list[tuple[str, list[bytes]]]:
    """Return (SHA-256, compressed parts) for each blob (SHA-256, bytes)."""
    return [(digest, _pack(digest, data)) for digest, data in blobs]


def _pack(digest: str, data: bytes) -> list[bytes]:
    if _sha256(data) != digest:
        raise Damaged(f"the content given as {digest[:12]} has another SHA-256")
    starts = range(0, len(data) or 1, _PART)
    parts = [zlib.compress(data[start : start + _PART], 6) for start in starts]
    return [part + _sum_of_part(digest, n, len(parts), part) for n, part in enumerate(parts)]


def _sum_of_part(digest: str, number: int, count: int, part: bytes | memoryview) -> bytes:
    place = f"{digest} {number}/{count}".encode()
    return zlib.crc32(part, zlib.crc32(place)).to_bytes(4, "little")


def unpack_blob(digest: str, parts: Sequence[bytes]) -> bytes | None:
    """Return the content of these parts; None if it does not match the digest."""
    try:
        data = b"".join(zlib.decompressobj().decompress(part) for part in parts)
    except (zlib.error, TypeError):
        return None
    return data if _sha256(data) == digest else None


def is_undamaged(digest: str, parts: Sequence[bytes]) -> bool:
    """Return whether all parts of a blob exist and are as they were written."""
    sums = (
        _sum_of_part(digest, n, len(parts), memoryview(part)[:-4]) == part[-4:]
        for n, part in enumerate(parts)
    )
    return bool(parts) and all(sums)


def _sha256(data: bytes) -> str:
    from hashlib import sha256

    return sha256(data).hexdigest()
