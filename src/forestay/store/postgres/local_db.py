"""The local database of a machine whose sessions are in a PostgreSQL store.

The tables of `Machine`, the device and its secret are in a small SQLite database below the home,
one for each store (by the id of that store). A session that one of these tables refers to has a
*stub* in that database: a row with its id and nothing else. The last events of the chains that this
machine writes are remembered in a file next to the database.

File work is the exception: it must be committed together with its events, so it is on the server,
under the name of this home.
"""

from __future__ import annotations

import os

from forestay.base import files
from forestay.store.machine.seen_files import FileWork
from forestay.store.port import Batch, moved
from forestay.store.postgres import schema
from forestay.store.postgres.view import folded
from forestay.store.sqlite.heads_file import RememberedHeads
from forestay.store.sqlite.store import SqliteStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, TypeVar

    from forestay.base.clock import Clock
    from forestay.store.machine.device import MachineName
    from forestay.store.port import Head
    from forestay.store.postgres.connection import Connection, Server

    T = TypeVar("T")
    Rows = list[tuple[Any, ...]]

_DEVICE_SECONDS = 1.0
_META = "SELECT key, value FROM @meta"
LOSE = "INSERT INTO @lost VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING"
_STUB = """
    INSERT INTO session (id, seq, fold, core, core_sum, status, goal, archived, began, updated,
        summary) SELECT ?1, 0, 0, x'', 0, '', '', 0, 0, 0, ''
    WHERE NOT EXISTS (SELECT 1 FROM session WHERE id = ?1 COLLATE NOCASE)
"""


def put_stubs(connection: sqlite3.Connection, sessions: Iterable[str]) -> None:
    connection.executemany(_STUB, [(id,) for id in sessions])


def _stub(*, forgotten: int = 0, erased: Sequence[int] | None = None) -> Batch:
    texts = dict.fromkeys(("status", "goal", "summary"), "")
    numbers = {"archived": 0, "began": 0, "updated": 0, "forgotten": forgotten}
    listing: dict[str, object] = {**texts, **numbers}
    return Batch(entries=(), core=b"", fold=0, rows=(), listing=listing, erased=erased)


class LocalSide:
    """This home's side of a store on a server: a SQLite database and a heads file.

    Both are created with first use, in a folder that is named by the id of the store.
    """

    def __init__(
        self,
        server: Server,
        home: str,
        *,
        clock: Clock,
        busy_timeout: float,
        machine: MachineName,
        opens_sealed: bool,
    ) -> None:
        self.home = home
        self._server, self._clock = server, clock
        self._timeout, self._machine, self._opens_sealed = busy_timeout, machine, opens_sealed
        self._opened: tuple[SqliteStore, RememberedHeads] | None = None
        self._is_settled = False
        self._device = ("", 0.0)

    # -- opening -------------------------------------------------------------------------------

    def open(self) -> tuple[SqliteStore, RememberedHeads]:
        """Return the database of this machine; an empty one while the server has no tables."""
        if self._opened is not None:
            return self._opened
        meta: dict[str, str] = dict(self._server.read(_META))
        if "store" in meta:
            self.require_open(meta)
        folder = os.path.join(self.home, files.STORES, meta.get("store", "none"))
        opened = (
            SqliteStore(
                folder, clock=self._clock, busy_timeout=self._timeout, machine=self._machine
            ),
            RememberedHeads(os.path.join(folder, files.REMEMBERED)),
        )
        if "store" in meta:
            self._opened = opened
        return opened

    @property
    def sqlite(self) -> SqliteStore:
        return self.open()[0]

    @property
    def heads(self) -> RememberedHeads:
        return self.open()[1]

    def prepare(self) -> None:
        """Prepare a write: create or migrate the tables on the server, and open the local database.

        Once per process this also chooses a device id and a secret, and detects a copied home.
        """
        if self._is_settled:
            return
        found = self._server.read("SELECT value FROM @meta WHERE key = 'format'")
        if not found or int(found[0][0]) < schema.FORMAT:
            self.write_server(lambda one: schema.migrate(one, self._server.place.schema))
        self.sqlite.database.write_soon(lambda connection: None)
        self._is_settled = True

    def require_open(self, meta: dict[str, str] | None = None) -> None:
        """Raise `Refused` if the sessions were moved to another store."""
        seal = read_move_state(meta or dict(self._server.read(_META)))
        if seal is not None and not self._opens_sealed:
            raise moved(self._server.place.shown, seal)

    def close(self) -> None:
        opened, self._opened, self._is_settled = self._opened, None, False
        for one in opened or ():
            one.close()

    # -- the server, as this home sees it ------------------------------------------------------

    def read_server(self, sql: str, values: Sequence[object] = ()) -> Rows:
        """Return rows of one query to the server; none while it has no tables."""
        self.open()
        try:
            return self._server.read(sql, values)
        except UnicodeEncodeError:
            return []  # a text that cannot be encoded was never stored

    def stored_ids(self, sessions: Sequence[str]) -> list[str]:
        """Return those of the sessions that exist, by their ids as they were first written."""
        keys = [folded(id) for id in sessions if id]
        if not keys:
            return []
        found = self.read_server("SELECT id FROM @session WHERE key = ANY(%s)", (keys,))
        return [str(row[0]) for row in found]

    def session_lengths(self, session: str = "") -> Rows:
        sql = "SELECT id, seq FROM @session WHERE forgotten = 0"
        if session:
            return self.read_server(f"{sql} AND key = %s", (folded(session),))
        return self.read_server(sql)

    def write_server(self, act: Callable[[Connection], object]) -> None:
        """Run one statement that has the same effect if it is sent twice."""
        self._server.insist(lambda: self._server.use(act, "update"))

    def note_lost(self, session: str, head: Head) -> None:
        self.prepare()
        sql, lost = self._server.sql(LOSE), (session, head.device, head.n, head.hash)
        self.write_server(lambda connection: connection.execute(sql, lost))

    # -- the device ----------------------------------------------------------------------------

    def recent_device(self) -> str:
        """Return the device id; read it at most once a second, for a process that writes often.

        The id is not read in the transaction of the events, so reading it more often is no safer.
        """
        id, until = self._device
        if not id or self._clock.monotonic() >= until:
            id = self.sqlite.machine.device
            self._device = (id, self._clock.monotonic() + _DEVICE_SECONDS)
        return id

    def forget_device(self) -> None:
        """Forget the cached device id, so that the next use reads it again."""
        self._device = ("", 0.0)

    # -- the tables of the machine -------------------------------------------------------------

    def read(self, sql: str, values: Sequence[object] = ()) -> Rows:
        return self.sqlite.database.read(sql, values)

    def write(self, act: Callable[[sqlite3.Connection], T]) -> T:
        self.prepare()
        return self.sqlite.database.write(act)

    def write_soon(self, act: Callable[[sqlite3.Connection], T]) -> T:
        self.prepare()
        return self.sqlite.database.write_soon(act)

    def scrub(self, session: str, done: str) -> None:
        self.prepare()
        self.sqlite.database.scrub(session, done)

    def ensure_sessions(self, sessions: Iterable[str]) -> None:
        """Add a stub for each of these sessions that the server has."""
        self.prepare()
        stored = self.stored_ids([id for id in dict.fromkeys(sessions) if id and not self.has(id)])
        if stored:
            self.write(lambda connection: put_stubs(connection, stored))

    def head_devices(self) -> set[str]:
        local = {head.device for _, _, head in self.heads.all()}
        return local | self.sqlite.database.head_devices()

    def name(self) -> str:
        """Return the id of this home among all homes that write to the store."""
        from hashlib import sha256  # start-up

        return sha256(b"home" + self.sqlite.machine.secret()).hexdigest()[:16]

    def has(self, session: str) -> bool:
        return bool(self.read("SELECT 1 FROM session WHERE id = ? COLLATE NOCASE", (session,)))

    def projects(self) -> dict[str, int]:
        """Return session → the project it belongs to on this machine."""
        return dict(self.read("SELECT id, project FROM session WHERE project IS NOT NULL"))

    def project(self, session: str) -> int | None:
        found = self.read("SELECT project FROM session WHERE id = ? COLLATE NOCASE", (session,))
        return found[0][0] if found else None

    def erase(self, session: str) -> None:
        """Erase everything that this machine stores about a session."""
        if self.has(session):
            self.sqlite.erase(session, lambda view: _stub(forgotten=1))

    def erase_seen(self, session: str) -> None:
        """Erase local data about a session after some of its events were erased."""
        if self.has(session):
            self.sqlite.append(session, lambda view: _stub(erased=[]))


class ServerFileWork(FileWork):
    """File work that is stored with its events on the server, under the name of this home."""

    def __init__(self, local: LocalSide, server: Server) -> None:
        super().__init__(local)
        self._local, self._server = local, server

    def pending(self, session: str) -> list[tuple[int, str]]:
        if not self._local.sqlite.machine.device:
            return []
        return self._local.read_server(
            "SELECT c.number, c.what FROM @chore c JOIN @session s ON s.number = c.session"
            " WHERE s.key = %s AND c.home = %s ORDER BY c.number",
            (folded(session), self._local.name()),
        )

    def finish(self, number: int) -> None:
        sql = self._server.sql("DELETE FROM @chore WHERE number = %s")
        self._local.write_server(lambda connection: connection.execute(sql, (number,)))


def read_move_state(meta: dict[str, str]) -> tuple[str, str] | None:
    """Return the second store of a move and its state, from the table `meta`; None without one."""
    word, _, other = meta.get("moved", "").partition(" ")
    return (other, word) if word else None
