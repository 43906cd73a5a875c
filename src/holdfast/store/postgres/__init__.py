"""The PostgreSQL store: one database for server processes, fleets, or a person with a server.

How the server is reached is the business of `server`, what the tables look like of `schema`. What
is true of one machine only stays on it (`beside`). Here is what is kept.
"""

from __future__ import annotations

import os

import psycopg

from holdfast import files
from holdfast.store import Capabilities, Flaw, Head, Repaired, Store, listings, moved
from holdfast.store.kept import packed, unpacked
from holdfast.store.local import settle
from holdfast.store.postgres import save, schema
from holdfast.store.postgres.append import LOSE, Append, Appender, known_text
from holdfast.store.postgres.beside import (
    Beside,
    BoundBeside,
    Here,
    LocalBeside,
    RemotesBeside,
    RunsBeside,
    put_stubs,
)
from holdfast.store.postgres.server import Lost, NotThere, Place, Server
from holdfast.store.postgres.view import LINE, LOAD, PgView, folded
from holdfast.store.schema import SEALED
from holdfast.store.sqlite import SqliteStore, change_device, no_such_session

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

    from holdfast.clock import Clock
    from holdfast.store import Along, Batch, Machine, Spot, View
    from holdfast.store.bound import Bound
    from holdfast.store.local import Local
    from holdfast.store.postgres.server import Connection, Rows
    from holdfast.store.remotes import Remotes
    from holdfast.store.runs import Change, Runs
    from holdfast.store.search import TextOf

_MOST = 1 << 62
_MOST_RESOLVED = 20
_MOST_KNOWN = 1000
_LATELY = 1.0
_MOMENT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_LIST = f"SELECT line_sum, {LINE} FROM @session"
_TESTS = {name: f"{name} = %s" for name in ("status", "archived", "forgotten")}
_ERASE = (
    "DELETE FROM @blob_use WHERE session = %(number)s",
    save.UNUSED,
    "UPDATE @event SET salt = NULL, data = NULL, key = NULL WHERE session = %(number)s",
    "DELETE FROM @row WHERE session = %(number)s",
    "DELETE FROM @find WHERE session = %(number)s",
    "DELETE FROM @chore WHERE session = %(number)s",
    "DELETE FROM @lost WHERE session = %(session)s",
)


_SEAL = """
    INSERT INTO @meta VALUES ('moved', %s), ('min_writer', %s)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value
"""
_UNSEAL = "DELETE FROM @meta WHERE key = 'moved'"
_OPEN = "UPDATE @meta SET value = %s WHERE key = 'min_writer' AND value = %s"


class LentView(PgView):
    """A view for reading only, over a connection that goes back when it ends."""

    _lent: tuple[Server, Connection] | None = None

    def lend(self, server: Server, connection: Connection) -> LentView:
        self._lent = (server, connection)
        return self

    def end(self) -> None:
        super().end()
        lent, self._lent = self._lent, None
        if lent is not None:
            _end_moment(*lent)

    __del__ = end


class PostgresStore(Store):
    def __init__(
        self, url: str, home: str, *, clock: Clock, busy_timeout: float, machine: Machine
    ) -> None:
        self.home = os.path.abspath(home)
        self.capabilities = Capabilities(search=True, notifies=True, files=False)
        self._clock, self._timeout, self._machine = clock, busy_timeout, machine
        known = os.path.isdir(os.path.join(self.home, files.STORES))
        self._server = Server(Place(url), clock=clock, timeout=busy_timeout, is_known=known)
        self.shown = self._server.place.shown
        self._beside: Beside | None = None
        self._numbers: dict[str, int] = {}
        self._lately = ("", 0.0)
        self._appender = Appender(self, self._server)
        self.opens_sealed = False
        self.hears_itself: bool | None = None
        """Whether notifications come through; None while nobody has tried."""

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
        parts = [(digest, packed(digest, data)) for digest, data in blobs]
        asked = Append(session, plan, create=create, blobs=parts, chores=chores)
        beside = self.set_up()
        if not (create or spot is not None or change is not None):
            view = self._record(asked)
        else:
            self._appender.require_outside()
            # One at a time on this machine: who begins looks at what others here have begun.
            view = beside.sqlite.write(lambda one: self._record_here(one, asked, spot, change))
        if view.has_erased:
            beside.erase_seen(view.session)

    def _record(self, asked: Append) -> PgView:
        view = self._appender.record(asked)
        if view.new_device:
            self._take_device(view.new_device)
        return view

    def _take_device(self, id: str) -> None:
        self._lately = ("", 0.0)
        self.set_up().sqlite.write(lambda connection: change_device(connection, id))

    def _record_here(
        self,
        connection: sqlite3.Connection,
        asked: Append,
        spot: Spot | None,
        change: Change | None,
    ) -> PgView:
        """Append inside a transaction of what is kept on this machine."""
        view = self._appender.record(asked)
        if view.exists:
            put_stubs(connection, [view.session])
        if view.new_device:
            self._lately = ("", 0.0)
            change_device(connection, view.new_device)
        if change is not None:
            put_stubs(connection, self._ids([holder.session for holder in change.held]))
            change.make(connection)
        if spot is not None:
            settle(connection, spot, view.session)
        return view

    # -- reading -------------------------------------------------------------------------------

    def _sql(self, text: str) -> str:
        return self._server.sql(text)

    def read(self, sql: str, values: Sequence[object] = ()) -> Rows:
        """Rows of one query; no tables yet means no rows."""
        self.at_hand()
        try:
            return self._server.read(sql, values)
        except UnicodeEncodeError:
            return []  # what cannot be written was never stored

    def view(self, session: str) -> PgView:
        key = known_text(session)

        def look() -> PgView:
            number = self._number(key)
            if number is None:
                raise no_such_session(session)
            return self._moment(session, key, self._appender.recall(number, session))

        beside = self.at_hand()
        view = self._server.insist(look)
        view.device = beside.sqlite.device
        view.project = beside.project(view.session)
        return view

    def _number(self, key: str) -> int | None:
        if key not in self._numbers:
            found = self.read("SELECT number FROM @session WHERE key = %s", (key,))
            if not found:
                return None
            if len(self._numbers) >= _MOST_KNOWN:
                self._numbers.clear()
            self._numbers[key] = found[0][0]
        return self._numbers[key]

    def _moment(self, session: str, key: str, remembered: Head | None) -> PgView:
        """`remembered` was read before: a head that another process remembers now is not in it."""
        connection = self._server.borrow()
        try:
            with connection.pipeline():
                connection.execute(_MOMENT)
                cursor = connection.execute(self._sql(LOAD), (key,), binary=True)
            found = cursor.fetchone()
        except psycopg.Error as error:
            _end_moment(self._server, connection)
            raise self._server.translated(error, "read") from error
        if found is None or found[0] != self._numbers.get(key):
            _end_moment(self._server, connection)
            self._numbers.pop(key, None)
            raise no_such_session(session) if found is None else Lost
        view = LentView(self._lasting(connection), session, "", found)
        view.remembered = remembered
        return view.lend(self._server, connection)

    def _lasting(self, connection: Connection) -> Callable[[str, Sequence[object]], Rows]:
        """Reads for a view that somebody holds: what is lost under it cannot be had again."""
        read = self._server.reader(connection)

        def one(sql: str, values: Sequence[object]) -> Rows:
            try:
                return read(sql, values)
            except psycopg.Error as error:
                told = self._server.translated(error, "read")
                raise (
                    self._server.gone(error) if isinstance(told, Lost | NotThere) else told
                ) from error

        return one

    def catalogue(
        self, *, where: dict[str, object] | None = None, limit: int = -1
    ) -> list[dict[str, object]]:
        asked = {"forgotten": 0, **(where or {})}
        projects = self.at_hand().projects()
        tests, values = self._tests(asked, projects)
        most = min(limit, _MOST) if limit >= 0 else None
        rows = self.read(
            f"{_LIST} WHERE {' AND '.join(tests)} ORDER BY updated DESC, number DESC"
            " LIMIT %s::bigint",
            (*values, most),
        )
        of = {folded(id): project for id, project in projects.items()}
        return listings([(*row, of.get(folded(row[1]))) for row in rows])

    @staticmethod
    def _tests(
        asked: dict[str, object], projects: dict[str, int]
    ) -> tuple[list[str], list[object]]:
        """Conditions and their values; which project a session is in is known here only."""
        tests: list[str] = []
        values: list[object] = []
        for name, value in asked.items():
            if name == "id":
                tests.append("key = %s")
                values.append(folded(str(value)))
            elif name == "project":
                tests.append("key <> ALL(%s)" if value is None else "key = ANY(%s)")
                within = (id for id, project in projects.items() if value in (None, project))
                values.append(list(map(folded, within)))
            else:
                tests.append(_TESTS[name])
                values.append(value)
        return tests, values

    def resolve(self, prefix: str) -> list[str]:
        if not prefix:
            return []
        key = folded(prefix)
        found = self.read("SELECT id FROM @session WHERE key = %s AND forgotten = 0", (key,))
        found = found or self.read(
            "SELECT id FROM @session WHERE key >= %s AND key < %s AND forgotten = 0"
            " ORDER BY key LIMIT %s",
            (key, key + "\U0010ffff", _MOST_RESOLVED),
        )
        return [str(row[0]) for row in found]

    def _ids(self, sessions: Sequence[str]) -> list[str]:
        """These sessions as they are written, as far as they are there."""
        keys = list(map(folded, sessions))
        found = self.read("SELECT id FROM @session WHERE key = ANY(%s)", (keys,)) if keys else []
        return [str(row[0]) for row in found]

    def blob(self, digest: str) -> bytes | None:
        found = self.read("SELECT data FROM @blob WHERE digest = %s ORDER BY part", (digest,))
        if not found:
            return None
        data = unpacked(digest, [part for (part,) in found])
        if data is None:
            raise save.damaged(f"what is kept under {digest[:12]} was not written so")
        return data

    def search(self, words: str, *, text_of: TextOf, limit: int = 20) -> list[dict[str, object]]:
        from holdfast.store.postgres import search

        return search.search(self, self._server, words, text_of, limit)

    def watch(self, session: str, after: int, timeout: float) -> bool:
        from holdfast.store.postgres import watch

        return watch.watch(self, self._server, folded(session), after, timeout)

    def length(self, key: str) -> int:
        """The last arrival number of a session, 0 if it is not there."""
        found = self.read("SELECT seq FROM @session WHERE key = %s", (key,))
        return int(found[0][0]) if found else 0

    # -- erasing -------------------------------------------------------------------------------

    def erase(self, session: str, plan: Callable[[View], Batch]) -> None:
        self._appender.forget()

        def also(connection: Connection, view: PgView) -> None:
            # Content that another session takes up meanwhile must not go.
            connection.execute(self._sql(save.LOCK_BLOBS.format("")))
            for statement in _ERASE:
                if "%(session)s" in statement or "%(number)s" in statement:
                    values = {"number": view.number, "session": view.session}
                    connection.execute(self._sql(statement), values)
                else:
                    connection.execute(self._sql(statement))
            connection.execute(self._sql(save.RESUM), {"number": view.number})

        beside = self.set_up()
        view = self._record(Append(session, plan, also=also))
        beside.heads.forget(view.number)
        beside.erase(view.session)

    def note_lost(self, session: str, head: Head) -> None:
        self.set_up()
        lost = (session, head.device, head.n, head.hash)
        self._write(lambda connection: connection.execute(self._sql(LOSE), lost))

    def _write(self, act: Callable[[Connection], object]) -> None:
        """One statement that may be sent twice."""
        self._server.insist(lambda: self._server.use(act, "update"))

    # -- the whole -----------------------------------------------------------------------------

    def check(self) -> list[str]:
        found = self.read(
            "SELECT checksum_failures FROM pg_stat_database WHERE datname = current_database()"
        )
        failed = int(found[0][0] or 0) if found else 0
        return [f"the server met {failed} page(s) with a wrong checksum: see its log"] * bool(
            failed
        )

    def flaws(self) -> list[Flaw]:
        from holdfast.store.postgres import repair

        try:
            return self._server.insist(
                lambda: self._server.use(lambda one: repair.flaws(one, self._server))
            )
        except NotThere:
            return []

    def repair(self) -> Repaired:
        from holdfast.store.postgres import repair

        self.set_up()
        return self._server.insist(
            lambda: self._server.use(lambda one: repair.repair(one, self._server), "update")
        )

    def remarks(self) -> list[tuple[str, str, str, str]]:
        from holdfast.store.postgres import remarks

        facts = self._server.insist(lambda: self._server.use(remarks.facts_of))
        meta: dict[str, str] = dict(self._server.read("SELECT key, value FROM @meta"))
        beside = self.at_hand().sqlite
        return [
            *remarks.of_server(self.shown, facts),
            *remarks.of_tables(meta),
            *remarks.of_home(beside.home, beside.check()),
        ]

    # -- this home -----------------------------------------------------------------------------

    def at_hand(self) -> Beside:
        """What is kept on this machine; of a store without tables, nothing."""
        if self._beside is None:
            meta: dict[str, str] = dict(self._server.read("SELECT key, value FROM @meta"))
            if "store" not in meta:
                return self._beside_of("none")
            self.require_here(meta)
            self._beside = self._beside_of(meta["store"])
        return self._beside

    def _beside_of(self, id: str) -> Beside:
        return Beside(
            self.home,
            id,
            clock=self._clock,
            busy_timeout=self._timeout,
            machine=self._machine,
            ids=self._ids,
        )

    def require_here(self, meta: dict[str, str] | None = None) -> None:
        """Refuse to work with a store that was moved elsewhere."""
        seal = _seal_of(meta or dict(self._server.read("SELECT key, value FROM @meta")))
        if seal is not None and not self.opens_sealed:
            raise moved(self.shown, seal)

    # -- moving away ---------------------------------------------------------------------------

    def seal(self, other: str, word: str) -> None:
        oldest = schema.MIN_WRITER if word == "filling" else SEALED

        def act(connection: Connection) -> None:
            with connection.transaction():
                # Who has a session's row is waited for; who comes later sees the seal.
                connection.execute(self._sql("LOCK TABLE @session IN EXCLUSIVE MODE"))
                connection.execute(self._sql(_SEAL), (f"{word} {other}", str(oldest)))

        self.set_up()
        self._write(act)

    def unseal(self) -> None:
        def act(connection: Connection) -> None:
            with connection.transaction():
                connection.execute(self._sql(_UNSEAL))
                values = (str(schema.MIN_WRITER), str(SEALED))
                connection.execute(self._sql(_OPEN), values)

        if self.sealed() is not None:
            self._write(act)

    def sealed(self) -> tuple[str, str] | None:
        return _seal_of(dict(self._server.read("SELECT key, value FROM @meta")))

    def here(self, sessions: Sequence[str]) -> SqliteStore:
        beside = self.set_up()
        beside.know(sessions)
        return beside.sqlite

    def set_up(self) -> Beside:
        """The same for who writes: the tables are made or brought up to date first."""
        if self._beside is None or not self._beside.is_settled:
            found = self._server.read("SELECT value FROM @meta WHERE key = 'format'")
            if not found or int(found[0][0]) < schema.FORMAT:
                self._server.insist(lambda: self._server.use(self._migrate, "update"))
            self.at_hand().settle()
        return self.at_hand()

    def _migrate(self, connection: Connection) -> None:
        schema.migrate(connection, self._server.place.schema)

    @property
    def _here(self) -> Here:
        return Here(self.at_hand, self.set_up)

    @property
    def local(self) -> Local:
        return LocalBeside(self._here, self._chores, self._chore_done)

    def _chores(self, session: str) -> list[tuple[int, str]]:
        beside = self.at_hand()
        if not beside.sqlite.device:
            return []
        return self.read(
            "SELECT c.number, c.what FROM @chore c JOIN @session s ON s.number = c.session"
            " WHERE s.key = %s AND c.home = %s ORDER BY c.number",
            (folded(session), beside.name()),
        )

    def _chore_done(self, number: int) -> None:
        sql = self._sql("DELETE FROM @chore WHERE number = %s")
        self._write(lambda connection: connection.execute(sql, (number,)))

    @property
    def bound(self) -> Bound:
        return BoundBeside(self._here)

    @property
    def runs(self) -> Runs:
        return RunsBeside(self._here)

    @property
    def remotes(self) -> Remotes:
        return RemotesBeside(self._here, self._lengths)

    def _lengths(self, session: str) -> Rows:
        one = " AND key = %s" if session else ""
        values = (folded(session),) if session else ()
        return self.read(f"SELECT id, seq FROM @session WHERE forgotten = 0{one}", values)

    @property
    def device(self) -> str:
        return self.at_hand().sqlite.device

    def devices(self) -> set[str]:
        beside = self.at_hand()
        return beside.sqlite.devices() | {head.device for _, _, head in beside.heads.all()}

    def device_lately(self) -> str:
        """The device as it was a moment ago, for who writes on at a pace.

        It cannot change together with what is on the server, however often it is read.
        """
        id, until = self._lately
        if not id or self._clock.monotonic() >= until:
            id = self.device
            self._lately = (id, self._clock.monotonic() + _LATELY)
        return id

    def secret(self) -> bytes:
        return self.at_hand().sqlite.secret()

    def remembered(self) -> list[tuple[str, Head]]:
        heads = [(session, head) for _, session, head in self.at_hand().heads.all()]
        lost = self.read("SELECT session, device, n, hash FROM @lost")
        return heads + [(session, Head(device, n, hash)) for session, device, n, hash in lost]

    def close(self) -> None:
        self._server.close()
        beside, self._beside = self._beside, None
        self._numbers.clear()
        self._appender.forget()
        if beside is not None:
            beside.close()


def _seal_of(meta: dict[str, str]) -> tuple[str, str] | None:
    word, _, other = meta.get("moved", "").partition(" ")
    return (other, word) if word else None


def _end_moment(server: Server, connection: Connection) -> None:
    try:
        if not connection.closed:
            connection.rollback()
    except psycopg.Error:
        connection.close()
    server.give_back(connection)
