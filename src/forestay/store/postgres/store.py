"""The PostgreSQL store: one database for server processes, fleets, or a user with a server.

`connection` connects to the server, `schema` has the tables, `local_db` what stays on this machine.
"""

from __future__ import annotations

import os

import psycopg

from forestay.base import files
from forestay.store.machine.device import change_device
from forestay.store.machine.machine import Machine, MachineChange
from forestay.store.port import Capabilities, no_such_session
from forestay.store.postgres import append
from forestay.store.postgres.append import Append, Appender, known_text
from forestay.store.postgres.connection import Lost, NotThere, Place, Server
from forestay.store.postgres.local_db import LocalSide, ServerFileWork, put_stubs
from forestay.store.postgres.maintenance import PostgresMaintenance
from forestay.store.postgres.view import LOAD, STATEMENTS, PgView, folded
from forestay.store.sql import SqlStore, pack_blobs

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

    from forestay.base.clock import Clock
    from forestay.errors import Damaged
    from forestay.store.machine.device import MachineName
    from forestay.store.port import Batch, Head, Plan, View
    from forestay.store.postgres.connection import Connection
    from forestay.store.search import TextOf
    from forestay.store.sql import Rows

_MOMENT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_ERASE = (
    "DELETE FROM @blob_use WHERE session = %(number)s",
    append.UNUSED,
    "UPDATE @event SET salt = NULL, data = NULL, key = NULL WHERE session = %(number)s",
    "DELETE FROM @row WHERE session = %(number)s",
    "DELETE FROM @find WHERE session = %(number)s",
    "DELETE FROM @chore WHERE session = %(number)s",
    "DELETE FROM @lost WHERE session = %(session)s",
)


class LentView(PgView):
    """A read-only view over a borrowed connection, which is returned when the view ends."""

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


class PostgresStore(SqlStore):
    capabilities = Capabilities(search=True, files=False)
    statements = STATEMENTS

    def __init__(
        self,
        url: str,
        home: str,
        *,
        clock: Clock,
        busy_timeout: float,
        machine: MachineName,
        opens_sealed: bool = False,
    ) -> None:
        self.home = os.path.abspath(home)
        self._clock = clock
        known = os.path.isdir(os.path.join(self.home, files.STORES))
        self._server = Server(Place(url), clock=clock, timeout=busy_timeout, is_known=known)
        self.shown = self._server.place.shown
        self._local = LocalSide(
            self._server,
            self.home,
            clock=clock,
            busy_timeout=busy_timeout,
            machine=machine,
            opens_sealed=opens_sealed,
        )
        self.machine = Machine(self._local, ServerFileWork(self._local, self._server))
        self.maintenance = PostgresMaintenance(self._local, self._server)
        self._appender = Appender(self._local, self._server)

    # -- appending -----------------------------------------------------------------------------

    def append(
        self,
        session: str,
        plan: Plan,
        *,
        create: bool = False,
        blobs: Sequence[tuple[str, bytes]] = (),
        change: MachineChange | None = None,
    ) -> None:
        work = change.file_work if change else ()
        wanted = Append(session, plan, create=create, blobs=pack_blobs(blobs), file_work=work)
        self._local.prepare()
        if create or (change is not None and change.is_local):
            self._appender.require_outside()
            # One append at a time on this machine: each sees the sessions that others began.
            view = self._local.write(lambda one: self._record_locally(one, wanted, change))
        else:
            view = self._record(wanted)
        if view.has_erased:
            self._local.erase_seen(view.session)

    def _record(self, wanted: Append) -> PgView:
        view = self._appender.record(wanted)
        if view.new_device:
            self._local.forget_device()
            self._local.write(lambda connection: change_device(connection, view.new_device))
        return view

    def _record_locally(
        self, connection: sqlite3.Connection, wanted: Append, change: MachineChange | None
    ) -> PgView:
        """Append inside a transaction of the tables of this machine."""
        view = self._appender.record(wanted)
        if view.exists:
            put_stubs(connection, [view.session])
        if view.new_device:
            self._local.forget_device()
            change_device(connection, view.new_device)
        if change is not None:
            held = [holder.session for holder in change.run.held] if change.run else []
            put_stubs(connection, self._local.stored_ids(held))
            change.apply(connection, view.session)
        return view

    # -- reading -------------------------------------------------------------------------------

    def _sql(self, text: str) -> str:
        return self._server.sql(text)

    def view(self, session: str) -> PgView:
        key = known_text(session)

        def look() -> PgView:
            found = self._read("SELECT number FROM @session WHERE key = %s", (key,))
            if not found:
                raise no_such_session(session)
            return self._moment(session, key, self._appender.recall(found[0][0], session))

        self._local.open()
        view = self._server.insist(look)
        view.device = self._local.sqlite.machine.device
        view.project = self._local.project(view.session)
        return view

    def _moment(self, session: str, key: str, remembered: Head | None) -> PgView:
        """Return a view; `remembered` was read earlier, so that it is never ahead of the view."""
        connection = self._server.borrow()
        try:
            with connection.pipeline():
                connection.execute(_MOMENT)
                cursor = connection.execute(self._sql(LOAD), (key,), binary=True)
            found = cursor.fetchone()
        except psycopg.Error as error:
            _end_moment(self._server, connection)
            raise self._server.translated(error, "read") from error
        if found is None:
            _end_moment(self._server, connection)
            raise no_such_session(session)
        view = LentView(self._lasting(connection), session, "", found)
        view.remembered = remembered
        return view.lend(self._server, connection)

    def _lasting(self, connection: Connection) -> Callable[[str, Sequence[object]], Rows]:
        """Return the function by which a view queries; it fails when the connection is lost."""
        read = self._server.reader(connection)

        def one(sql: str, values: Sequence[object]) -> Rows:
            try:
                return read(sql, values)
            except psycopg.Error as error:
                failed = self._server.translated(error, "read")
                if isinstance(failed, Lost | NotThere):
                    failed = self._server.gone(error)
                raise failed from error

        return one

    def catalogue(
        self, *, where: dict[str, object] | None = None, limit: int = -1
    ) -> list[dict[str, object]]:
        found = super().catalogue(where=where, limit=limit)
        of = {folded(id): project for id, project in self._local.projects().items()}
        return [{**one, "project": of.get(folded(str(one["id"])))} for one in found]

    def _read(self, sql: str, values: Sequence[object]) -> Rows:
        return self._local.read_server(sql, values)

    def _damaged(self, why: str) -> Damaged:
        return append.damaged(why)

    def _comparable(self, id: str) -> str:
        return folded(id)

    def _in_project(self, project: object) -> tuple[str, object]:
        # Which project a session is in is known on this machine only.
        known = self._local.projects()
        within = [folded(id) for id, one in known.items() if project in (None, one)]
        return "key <> ALL(%s)" if project is None else "key = ANY(%s)", within

    def search(self, words: str, *, text_of: TextOf, limit: int = 20) -> list[dict[str, object]]:
        from forestay.store.postgres import search

        return search.search(self._local, self._server, self.view, words, text_of, limit)

    # -- erasing -------------------------------------------------------------------------------

    def erase(self, session: str, plan: Callable[[View], Batch]) -> None:
        self._appender.forget()

        def also(connection: Connection, view: PgView) -> None:
            # Content that another session begins to use now must not be erased.
            connection.execute(self._sql(append.LOCK_BLOBS.format("")))
            for statement in (*_ERASE, append.RESUM):
                values = {"number": view.number, "session": view.session}
                connection.execute(self._sql(statement), values)

        self._local.prepare()
        view = self._record(Append(session, plan, also=also))
        self._local.heads.forget(view.number)
        self._local.erase(view.session)

    def close(self) -> None:
        self._server.close()
        self._local.close()
        self._appender.forget()


def _end_moment(server: Server, connection: Connection) -> None:
    try:
        if not connection.closed:
            connection.rollback()
    except psycopg.Error:
        connection.close()
    server.give_back(connection)
