"""One append: how it is decided, sent, and sent again, so that it counts once.

It takes two round trips: one locks the session's row and reads it, then the plan decides, and one
writes everything and commits. A process that wrote before needs one: it decides by what it wrote
itself, and the statement writes only if that is unchanged. Arrival numbers are assigned under the
lock of the row either way, so they have no gaps and are unique.

If the connection breaks, the append is repeated: the row lock makes it wait for the outcome of the
first attempt, and the event that was sent is searched before anything is sent again. So it counts
once, whatever was lost.
"""

from __future__ import annotations

from _thread import get_ident

from psycopg import errors as pgerrors

from forestay.errors import InvalidInput, Outdated
from forestay.store.port import no_such_session
from forestay.store.postgres import save, schema
from forestay.store.postgres.protocol import NotDone
from forestay.store.postgres.view import LOCK, OLDEST, PgView, folded
from forestay.store.sqlite.heads_file import LONGEST_ID

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from forestay.store.port import Batch, Head, View
    from forestay.store.postgres.connection import Connection, Server
    from forestay.store.postgres.local_db import LocalSide
    from forestay.store.postgres.save import Doubt, Saving

    Also = Callable[[Connection, PgView], None]

_MOST_AT_HAND = 64
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
LOSE = "INSERT INTO @lost VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING"


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
        self.sent: Doubt | None = None

    def fits_one_statement(self) -> bool:
        return not (self.sent or self.create or self.blobs or self.file_work or self.also)


class Appender:
    """Appends to the sessions of one store; knows those it has just written to."""

    def __init__(self, local: LocalSide, server: Server) -> None:
        self._local, self._server, self._sql = local, server, server.sql
        self._known: dict[str, Sequence[Any]] = {}
        self._planning: set[int] = set()

    def record(self, append: Append) -> PgView:
        """Append, again after each broken connection; return the session as it is then."""
        self.require_outside()
        self._planning.add(get_ident())
        try:
            while True:
                try:
                    return self._server.insist(lambda: self._try(append))
                except save.Taken:
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
        """Append in one round trip to a session as this process left it.

        It takes effect only if no other process has written since. Otherwise, also if the plan
        refuses, this returns None: it is decided again under the lock.
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
        if batch is None or not save.is_plain(batch):
            return None
        work = save.Saving(self._sql, view, batch)
        append.sent = work.doubt()
        prepares = self._server.place.prepares
        try:
            found = self._server.use(lambda one: work.ask(one, known, prepares=prepares), "update")
        except NotDone:
            found = None
        if found is None:
            append.sent = None
            return None
        self._keep(work, found)
        self._remember(view, batch)
        return view

    def _keep(self, work: Saving, answer: Sequence[Any]) -> None:
        """Remember a session as it is now, for the next append."""
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
        """Return the session, its row locked until the transaction ends."""
        key = known_text(session)
        with connection.pipeline():
            connection.execute(_BEGIN)
            if not self._server.place.prepares:
                # Otherwise it was set on connecting, which a shared connection forgets.
                connection.execute(f"SET LOCAL lock_timeout = {self._server.patience}")
            found = connection.execute(self._sql(LOCK), (key,), binary=True)
            # After the lock: sealing the store waits for all that hold one.
            oldest = connection.execute(self._sql(OLDEST), binary=True)
        self._require_current(oldest.fetchone())
        read, device = self._server.reader(connection), self._local.prepare().sqlite.machine.device
        view = PgView(read, session, device, found.fetchone())
        if view.exists:
            view.remembered = self.recall(view.number, session)
        return view

    def _require_current(self, oldest: Sequence[Any] | None) -> None:
        needed = int(oldest[0]) if oldest else 0
        if needed > schema.FORMAT:
            self._local.require_open()
            raise Outdated(
                "this process is too old to write here",
                why=f"a newer Forestay uses the store (format {needed}, this one has"
                f" {schema.FORMAT})",
                hint="restart this program with the newer version; nothing was written",
            )

    def _send(self, connection: Connection, view: PgView, batch: Batch, append: Append) -> None:
        if not view.exists and len(view.session.encode()) > LONGEST_ID:
            raise InvalidInput(f"a session id has at most {LONGEST_ID} bytes")
        work = save.Saving(self._sql, view, batch)
        named: list[str] = []
        if batch.filled:
            save.fill_events(connection, self._sql, view, batch)
        if batch.erased is not None:
            named = save.erase_events(connection, self._sql, view, batch)
        if batch.resum or batch.erased or batch.filled:
            work.resum(self._server.reader(connection))
        append.sent = work.doubt()
        answer = self._write(connection, view, work, named, append)
        view.number, view.exists = answer[0], True
        if append.also is None and batch.erased is None:
            self._keep(work, answer)

    def _write(
        self, connection: Connection, view: PgView, work: Saving, named: list[str], append: Append
    ) -> tuple[Any, ...]:
        sql, batch = self._sql, work.batch
        try:
            with connection.pipeline():
                written = work.write(connection)
                if append.blobs:
                    save.put_blobs(connection, sql, view, append.blobs)
                if batch.erased is not None:
                    save.erase_content(connection, sql, view, named)
                if append.file_work:
                    home = self._local.prepare().name()
                    save.put_chores(connection, sql, view, home, append.file_work)
                for lost in batch.lost:
                    connection.execute(sql(LOSE), (view.session, *lost))
                if append.also is not None:
                    append.also(connection, view)
                connection.execute("COMMIT")
        except pgerrors.UniqueViolation as error:
            if error.diag.constraint_name == "session_key":
                raise save.Taken from error
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
            self._local.prepare().heads.remember(view.number, view.session, head)

    def _is_later(self, view: PgView, head: Head | None) -> bool:
        """Return whether no process of this home has remembered a later head."""
        left = self._local.prepare().heads.recall(view.number)
        if left and folded(left[0]) != folded(view.session):
            # The slot belongs to a session that an older copy of the database never had.
            self._local.note_lost(left[0], left[1])
            left = None
        if left is None or head is None:
            return True
        return left[1].device != head.device or left[1].n <= head.n

    def recall(self, number: int, session: str) -> Head | None:
        left = self._local.open().heads.recall(number)
        if left is None or (left[0] != session and folded(left[0]) != folded(session)):
            return None
        return left[1]


def known_text(session: str) -> str:
    """Return an id as it is searched; `NoSession` for one that cannot be stored."""
    try:
        session.encode()
    except UnicodeEncodeError:
        raise no_such_session(session) from None
    if "\0" in session:
        raise no_such_session(session)
    return folded(session)
