"""Which layout files belong to which session on this machine, and what we last wrote into them.

A *binding* ties a session to one place of one layout; a place has one owner. One that was let go of
is kept, out of everybody's way, for the session to take again. A *rendering* is
what we once wrote into one of its files: kept so that bytes met later can be told apart as ours,
as ours from earlier (a tool put them back), or as someone's edit, which is then compared with the
nearest one. A process that writes on keeps most of them as what differs from one that it kept
whole. Renderings are a memory, not a truth: one that is lost makes an own file look edited,
and comparing it finds nothing new.
"""

from __future__ import annotations

import os
import struct
import zlib

from holdfast.store.database import must_scrub
from holdfast.store.local import rows_if_any

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from typing import Any

    from holdfast.store.local import Tables

KEPT = 16
"""Renderings of one file that are remembered at least."""

_Base = tuple[int, str, bytes]
"""A rendering that was kept whole: its number, its digest, and what was kept."""
Written = tuple[str, str, int, bytes]
"""A file that is about to be written: its name, digest and size, and what may be kept of it."""

Note = tuple["Binding", "Sequence[Written]", int]
"""What is about to be written for a binding, and the last event that its files then show."""

_COLUMNS = "b.number, s.id, b.layout, b.native, b.root, b.place, b.mirrored, b.quiet, b.suspended"
_NAMED = "id = ? COLLATE NOCASE"


class Binding:
    """A session's place in a layout. `mirrored` is the last event its files show."""

    __slots__ = (
        "layout",
        "mirrored",
        "native",
        "number",
        "place",
        "quiet",
        "root",
        "session",
        "suspended",
    )

    def __init__(
        self,
        number: int,
        session: str,
        layout: str,
        native: str,
        root: str,
        place: str,
        mirrored: int,
        quiet: int,
        suspended: str,
    ) -> None:
        self.number = number
        self.session = session
        self.layout = layout
        self.native = native
        self.root = root
        self.place = place
        self.mirrored = mirrored
        self.quiet = bool(quiet)
        self.suspended = suspended


class Rendering:
    """That we wrote some bytes into a file; what they said is asked for apart (`Bound.said`), and
    not kept of one that `is_bare`."""

    __slots__ = ("digest", "file", "is_bare", "n", "size")

    def __init__(self, file: str, n: int, digest: str, size: str, is_bare: bool = False) -> None:
        self.file = file
        self.n = n
        self.digest = digest
        self.size = int(size or 0)
        self.is_bare = is_bare


class Bound:
    def __init__(self, store: Tables) -> None:
        self._store = store
        self._bases: dict[tuple[int, str], _Base | None] = {}

    def bindings(
        self, session: str = "", *, inside: sqlite3.Connection | None = None
    ) -> list[Binding]:
        """The bindings of a session, or of all; `inside` of a transaction, as it sees them."""
        sql = (
            f"SELECT {_COLUMNS} FROM binding b JOIN session s ON s.number = b.session"
            f" {f'WHERE s.{_NAMED}' if session else ''} ORDER BY b.number"
        )
        values = (session,) if session else ()
        rows = inside.execute(sql, values) if inside else self._read(sql, values)
        return [Binding(*row) for row in rows]

    def _read(self, sql: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        try:
            return rows_if_any(self._store, sql, values)
        except UnicodeEncodeError:
            return []  # a name that is no text was never kept

    def owner(self, place: str) -> Binding | None:
        """The binding that owns a place; one whose name differs by case only is the same."""
        rows = self._read(
            f"SELECT {_COLUMNS} FROM binding b JOIN session s ON s.number = b.session"
            " WHERE b.place = ? COLLATE NOCASE",
            (place,),
        )
        found = [Binding(*row) for row in rows]
        return next((one for one in found if _is_same(one.place, place)), None)

    def named(self, layout: str, native: str) -> list[Binding]:
        """The bindings under an id of a layout, wherever they are."""
        rows = self._read(
            f"SELECT {_COLUMNS} FROM binding b JOIN session s ON s.number = b.session"
            " WHERE b.layout = ? AND b.native = ?",
            (layout, native),
        )
        return [Binding(*row) for row in rows]

    def places(self, root: str) -> set[str]:
        """The places below a folder that have an owner."""
        below = (f"{root}/", f"{root}0")  # the sign behind the slash
        rows = self._read("SELECT place FROM binding WHERE place >= ? AND place < ?", below)
        return {place for (place,) in rows}

    def bind(
        self, session: str, layout: str, native: str, root: str, place: str, *, soon: bool = False
    ) -> bool:
        """Take a place for a session, durably unless `soon` is enough; False if it has an owner."""

        def act(connection: sqlite3.Connection) -> bool:
            connection.execute(_TAKE_AGAIN, (place, session, layout, native, root))
            connection.execute(
                "INSERT OR IGNORE INTO binding (session, layout, native, root, place)"
                f" SELECT number, ?, ?, ?, ? FROM session WHERE {_NAMED}",
                (layout, native, root, place, session),
            )
            owner = connection.execute(
                f"SELECT 1 FROM binding b JOIN session s ON s.number = b.session"
                f" WHERE b.place = ? AND s.{_NAMED}",
                (place, session),
            )
            return owner.fetchone() is not None

        return self._store.write_soon(act) if soon else self._store.write(act)

    def unbind(self, binding: Binding) -> None:
        """Let go of a place. What was written there is remembered, should it be taken again."""

        def act(connection: sqlite3.Connection) -> None:
            connection.execute(_LET_GO, (binding.number,))

        self._store.write(act)

    def follow(self, binding: Binding, root: str, place: str) -> bool:
        """Follow files to another folder; what was written into them stays known. False if the
        place there has an owner."""

        def act(connection: sqlite3.Connection) -> bool:
            moved = connection.execute(_FOLLOW, (root, place, binding.number))
            return moved.rowcount == 1

        return self._store.write(act)

    def let_go(self, session: str, layout: str) -> list[tuple[str, str]]:
        """The ids that a session had in a layout, with their roots; the last let go of first."""
        rows = self._read(
            "SELECT b.native, b.root FROM binding b JOIN session s ON s.number = -b.session"
            f" WHERE s.{_NAMED} AND b.layout = ? ORDER BY b.number DESC",
            (session, layout),
        )
        return [(native, root) for native, root in rows]

    def had(self, layout: str, native: str, root: str) -> str:
        """The session that last let go of an id in a folder, or nothing."""
        rows = self._read(
            "SELECT s.id FROM binding b JOIN session s ON s.number = -b.session"
            " WHERE b.session < 0 AND b.layout = ? AND b.native = ? AND b.root = ?"
            " ORDER BY b.number DESC LIMIT 1",
            (layout, native, root),
        )
        return str(rows[0][0]) if rows else ""

    def forget(self, session: str) -> None:
        """Keep of a session's renderings that they were ours, and not what they said."""

        def act(connection: sqlite3.Connection) -> None:
            connection.execute(_SAY_NOTHING, (session,))
            must_scrub(connection)

        self._store.write(act)
        self._bases.clear()
        self._store.scrub(session, "what files once said is erased")

    def change(self, binding: Binding, *, suspended: str, quiet: bool) -> None:
        values = (suspended, int(quiet), binding.number)

        def act(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE binding SET suspended = ?, quiet = ? WHERE number = ?", values
            )

        self._store.write(act)
        binding.suspended, binding.quiet = suspended, quiet

    def move(self, binding: Binding, place: str) -> None:
        """Let a binding's main file be somewhere else from now on."""

        def act(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE binding SET place = ? WHERE number = ?", (place, binding.number)
            )

        self._store.write(act)
        binding.place = place

    def renderings(self, binding: Binding) -> dict[str, list[Rendering]]:
        """What is remembered of each file, the newest first."""
        rows = self._read(
            "SELECT file, n, digest, stat, data = x'' FROM rendering WHERE binding = ?"
            " ORDER BY file, n DESC",
            (binding.number,),
        )
        found: dict[str, list[Rendering]] = {}
        for row in rows:
            found.setdefault(row[0], []).append(Rendering(*row))
        return found

    def newest(self, binding: Binding) -> dict[str, Rendering]:
        """The newest of what is remembered of each file."""
        rows = self._read(_NEWEST, (binding.number,))
        return {row[0]: Rendering(*row) for row in rows}

    def said(self, binding: Binding, file: str) -> list[bytes]:
        """What the remembered renderings of a file said, the newest first."""
        return [data for _, data in self.said_each(binding, file)]

    def said_each(self, binding: Binding, file: str) -> list[tuple[str, bytes]]:
        """The same, each with the digest of what was in the file."""
        rows = self._read(
            "SELECT n, digest, data FROM rendering WHERE binding = ? AND file = ? ORDER BY n",
            (binding.number, file),
        )
        said: dict[int, bytes] = {}
        digests: dict[int, str] = {}
        for n, digests[n], data in rows:
            text = _unpacked(data, said)
            if text is not None:
                said[n] = text
        return [(digests[n], said[n]) for n in sorted(said, reverse=True)][:KEPT]

    def said_last(self, binding: Binding, file: str) -> bytes:
        """What the newest rendering of a file said; empty if that was not kept."""
        place = (binding.number, file)
        data: bytes = next(iter(self._read(_DATA_LAST, place)), (b"",))[0]
        base: dict[int, bytes] = {}
        if data.startswith(_DELTA):
            n = _HEAD.unpack_from(data, 1)[0]
            base.update((n, zlib.decompress(row[0])) for row in self._read(_DATA_OF, (*place, n)))
        return _unpacked(data, base) or b""

    def rendered(
        self,
        new: Sequence[Note],
        *,
        lasting: bool = False,
        inside: sqlite3.Connection | None = None,
    ) -> None:
        """Remember what is about to be written into the files of some bindings, in one step.

        With each goes the event that its files then reach up to. What a power cut takes away of
        that is only found out again, unless it has to be `lasting`. It may be done `inside` of a
        transaction: if that fails, nothing that the bindings say then is true.
        """

        def act(connection: sqlite3.Connection) -> dict[tuple[int, str], _Base | None]:
            bases: dict[tuple[int, str], _Base | None] = {}
            for binding, files, mirrored in new:
                for written in files:
                    place = (binding.number, written[0])
                    bases[place] = _add(connection, *place, written, self._bases.get(place))
                connection.execute(_REACHED, (mirrored, binding.number))
            return bases

        write = self._store.write if lasting else self._store.write_soon
        self._bases |= act(inside) if inside else write(act)
        for binding, _, mirrored in new:
            binding.mirrored, binding.suspended = mirrored, ""


# A place that was let go of has its session's number negated, which nothing joins with; what it is
# called then is no path, so that anybody may have the path.
_LET_GO = "UPDATE binding SET session = -session, place = '#' || number WHERE number = ?"
_FOLLOW = "UPDATE OR IGNORE binding SET root = ?, place = ?, suspended = '' WHERE number = ?"
_TAKE_AGAIN = f"""
    UPDATE OR IGNORE binding SET session = -session, place = ?, suspended = ''
    WHERE session = (SELECT -number FROM session WHERE {_NAMED})
        AND layout = ? AND native = ? AND root = ?
"""
_SAY_NOTHING = f"""
    UPDATE rendering SET data = x'' WHERE binding IN
        (SELECT b.number FROM binding b JOIN session s ON s.number = b.session AND s.{_NAMED})
"""
_NEWEST = "SELECT file, max(n), digest, stat FROM rendering WHERE binding = ? GROUP BY file"
_DATA_LAST = "SELECT data FROM rendering WHERE binding = ? AND file = ? ORDER BY n DESC LIMIT 1"
_DATA_OF = "SELECT data FROM rendering WHERE binding = ? AND file = ? AND n = ? AND data != x''"
_REACHED = "UPDATE binding SET mirrored = ?, suspended = '' WHERE number = ?"


def _is_same(one: str, other: str) -> bool:
    """Whether two places that differ by case at most are one, now or on another disk."""
    if one == other:
        return True
    here, there = os.path.dirname(one), os.path.dirname(other)
    try:
        return os.path.samefile(here, there)
    except OSError:
        return not (os.path.exists(here) or os.path.exists(there))


def _add(
    connection: sqlite3.Connection,
    binding: int,
    file: str,
    written: Written,
    base: _Base | None,
) -> _Base | None:
    """Remember one rendering; returns the one that the next may be told by."""
    _, digest, size, data = written
    place, sought = (binding, file), base[:2] if base else (0, "")
    last, held = connection.execute(_LAST, (*place, *sought, *place)).fetchone()
    n = last + 1
    if not data:
        packed = b""
    elif base is not None and held and n - base[0] < KEPT:
        packed = _delta(data, base[0], base[2])
    else:
        packed, base = _squeezed(data), (n, digest, data)
    connection.execute(_REMEMBER, (*place, n, digest, str(size), packed))
    if n % 4 == 0:
        connection.execute(_FORGET, (*place, n - KEPT, n - 2 * KEPT))
    return base


_LAST = """
    SELECT coalesce(max(n), 0),
        EXISTS (SELECT 1 FROM rendering WHERE binding = ? AND file = ? AND n = ? AND digest = ?
            AND data != x'')
    FROM rendering WHERE binding = ? AND file = ?
"""
_REMEMBER = "INSERT INTO rendering VALUES (?, ?, ?, ?, ?, ?)"
_FORGET = """
    DELETE FROM rendering WHERE binding = ? AND file = ? AND n <= ?
        AND (n <= ? OR substr(data, 1, 1) IN (x'', x'01'))
"""

# A rendering is kept whole (zlib), or as what differs from one of the last sixteen that is whole.
_DELTA = b"\x01"
_HEAD = struct.Struct(">QII")


def _delta(data: bytes, n: int, base: bytes) -> bytes:
    """Some bytes, as what stands between their common beginning and end with others."""
    least = min(len(data), len(base))
    start = _common(data, base, least)
    end = _common_end(data, base, least - start)
    return _DELTA + _HEAD.pack(n, start, end) + _squeezed(data[start : len(data) - end])


def _squeezed(data: bytes) -> bytes:
    """A zlib stream, by little memory: to be given the usual 256 kB, each time anew, can take ten
    times as long as the work on a small file."""
    squeeze = zlib.compressobj(1, zlib.DEFLATED, 13, 5)
    return squeeze.compress(data) + squeeze.flush()


def _common(one: bytes, other: bytes, most: int) -> int:
    """How many bytes two texts have in common at their beginning, at most."""
    same, different = 0, most + 1
    while different - same > 1:
        half = (same + different) // 2
        if one[same:half] == other[same:half]:
            same = half
        else:
            different = half
    return same


def _common_end(one: bytes, other: bytes, most: int) -> int:
    a, b = len(one), len(other)
    same, different = 0, most + 1
    while different - same > 1:
        half = (same + different) // 2
        if one[a - half : a - same] == other[b - half : b - same]:
            same = half
        else:
            different = half
    return same


def _unpacked(data: bytes, said: dict[int, bytes]) -> bytes | None:
    """What a rendering says; None if that was not kept, or cannot be told any more."""
    if not data.startswith(_DELTA):
        return zlib.decompress(data) if data else None
    n, start, end = _HEAD.unpack_from(data, 1)
    if n not in said:
        return None
    base = said[n]
    return base[:start] + zlib.decompress(data[1 + _HEAD.size :]) + base[len(base) - end :]
