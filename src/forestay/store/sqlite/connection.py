"""The database file: how it is created, opened, shared with other processes and closed.

The *writer* is this process's one writing connection, a *reader* a read-only one. Unused readers
are *idle*; one that is *lent* belongs to a view.

Rules learned by experiment, each with a test:

- Every write transaction, checkpoint and close of the writer happens under the writer lock
  (`writer_lock.py`): in SQLite before 3.51.3 a commit can be lost that races a checkpoint.
- Nothing in Forestay opens the database, its -wal or its -shm except through SQLite: closing such a
  descriptor drops the locks of the whole process.
- Readers open read-only: they never checkpoint and write nothing.
- A connection is not used after a fork. SQLite records in memory which locks its process has, and a
  child process inherits that record: even a new connection of the child would rely on its parent's
  locks, and its commits would be lost when the parent closes the database.
- A database is created under another name and renamed when it is complete.
- After an error that may come from the disk, the connection is closed and not used again.
- A process that ends makes no checkpoint, because that takes too long; a later process makes it.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from _weakref import ref
from functools import partial

from forestay.base import files
from forestay.errors import Busy, Damaged, ForestayError, Outdated, ReadOnly, StoreFailed
from forestay.store.sqlite.heads_file import RememberedHeads
from forestay.store.sqlite.schema import FORMAT, SEALED, migrate
from forestay.store.sqlite.writer_lock import WriterLock, open_private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, Protocol, TypeVar

    from forestay.base.clock import Clock

    T = TypeVar("T")
    Inode = tuple[int, int]

    class Read(Protocol):
        def __call__(
            self, sql: str, values: Sequence[object] = (), /
        ) -> Iterable[tuple[Any, ...]]: ...


_ASIDE = ".new"
_MOST_IDLE = 4
_FORK_WAIT = 1.0
_AT_ONCE = 0.05
_SCRUB_WAIT_MS = 1000
_MUCH_ROOM = 16_384
"""In KiB: the size of twenty thousand events."""
DRIVER_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""What the driver raises; the second when its message quotes bytes of a damaged schema."""

_PRAGMAS = (
    "synchronous=FULL",
    "secure_delete=ON",
    # A short log is read quickly by the next short process.
    "wal_autocheckpoint=128",
    "journal_size_limit=16777216",
    *(("fullfsync=ON", "checkpoint_fullfsync=ON") if sys.platform == "darwin" else ()),
)


class Reader(sqlite3.Connection):
    """A read-only connection that knows the inode of its file."""

    inode: Inode = (0, 0)
    frozen = False
    ends = 0
    """How often it was returned, so that a view left by an interrupt detects its reuse."""


class Database:
    def __init__(
        self,
        home: str,
        *,
        clock: Clock,
        timeout: float,
        settle: Callable[[sqlite3.Connection], None],
    ) -> None:
        """`settle` is called in the first transaction of each writer."""
        self.home = home
        self.path = os.path.join(home, files.DATABASE)
        self.lock = WriterLock(os.path.join(home, files.LOCK), clock=clock, timeout=timeout)
        self.heads = RememberedHeads(os.path.join(home, files.HEADS))
        self._timeout = timeout
        self._settle = settle
        self._prepared = False
        self._writer: sqlite3.Connection | None = None
        self._patience = 0
        self._room: int | None = None
        self._inode: Inode = (0, 0)
        self._idle: list[Reader] = []
        self._lent: dict[int, ref[Reader]] = {}
        self._alone = False

    # -- using it ------------------------------------------------------------------------------

    def write(
        self,
        act: Callable[[sqlite3.Connection], T],
        then: Callable[[T], None] | None = None,
        *,
        checks: bool = False,
        synced: bool = True,
    ) -> T:
        """Run `act` in a write transaction under the writer lock; durable when it returns.

        `then` gets the result of `act`, after the commit and before the lock is released. With
        `checks`, `act` reads `min_writer` itself and calls `require_current`. A write that is not
        `synced` is durable with the next one that is.
        """
        self._prepare_home()

        def alone() -> T:
            connection = self._writing()
            try:
                connection.execute(f"PRAGMA synchronous={'FULL' if synced else 'NORMAL'}")
                self._share_patience(connection)
                if self._room is not None:
                    connection.execute(f"PRAGMA cache_size={self._room}")
                    self._room = None
                connection.execute("BEGIN IMMEDIATE")
                if not checks:
                    self.require_current(_meta(connection, "min_writer"))
                result = act(connection)
                connection.execute("COMMIT")
            except DRIVER_ERRORS as error:
                self._discard_writer()
                raise self.translated(error, "update") from error
            except BaseException as error:
                self._roll_back(connection, error)
                raise
            if then is not None:
                then(result)
            return result

        return self.lock.hold(alone)

    def make_room(self, connection: sqlite3.Connection) -> None:
        """Allow a large transaction to hold its changed pages in memory.

        Pages that are written early, for lack of memory, often have to be written again.
        """
        if self._room is None:
            self._room = int(connection.execute("PRAGMA cache_size").fetchone()[0])
            connection.execute(f"PRAGMA cache_size=-{_MUCH_ROOM}")

    def mend(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """Write to a database whose damaged tables or values prevent `write`."""
        self._prepare_home()

        def alone() -> T:
            self._discard_writer()
            connection = self._connect("rw")
            connection.text_factory = _lenient  # a damaged value need not be text
            try:
                for pragma in ("journal_mode=WAL", *_PRAGMAS):
                    connection.execute(f"PRAGMA {pragma}")
                connection.execute("BEGIN IMMEDIATE")
                result = act(connection)
                self._settle(connection)
                connection.execute("COMMIT")
                self._sync_home()
            except DRIVER_ERRORS as error:
                raise self.translated(error, "update") from error
            finally:
                _close_quietly(connection)
            return result

        return self.lock.hold(alone)

    def read(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of one read-only query; empty if there is no database yet."""
        reader = self.borrow()
        if reader is None:
            return []
        try:
            rows = rows_of(reader, sql, values)
        except DRIVER_ERRORS as error:
            self.give_back(reader, broken=True)
            raise self.translated(error, "read") from error
        self.give_back(reader)
        return rows

    def read_together(self, act: Callable[[Read], T]) -> T | None:
        """Run `act`, whose queries all see the same state; None if there is no database yet."""
        reader = self.borrow()
        if reader is None:
            return None
        broken = True
        try:
            reader.execute("BEGIN")
            result = act(partial(rows_of, reader))
            reader.execute("ROLLBACK")
            broken = False
        except DRIVER_ERRORS as error:
            raise self.translated(error, "read") from error
        finally:
            self.give_back(reader, broken=broken)
        return result

    def borrow(self) -> Reader | None:
        """Return a reader, which must be returned later; None if there is no database yet."""
        inode = self._inode_there()
        if inode is None:
            return None
        reader = self._pop_idle(inode)
        if reader is None:
            try:
                reader = self._connect("ro")
            except DRIVER_ERRORS as error:
                raise self.translated(error, "read") from error
            reader.inode = inode
        # A weak reference: an interrupt may prevent that the reader is returned.
        self._lent[id(reader)] = ref(reader)
        return reader

    def _pop_idle(self, inode: Inode) -> Reader | None:
        while self._idle:
            try:
                reader = self._idle.pop()
            except IndexError:
                return None  # another thread was faster
            if reader.inode == inode:
                return reader
            _close_quietly(reader)
        return None

    def give_back(self, reader: Reader, *, broken: bool = False) -> None:
        reader.ends += 1
        if self._lent.pop(id(reader), None) is None:
            return  # after an interrupt: it was returned already, or belongs to a parent process
        if not broken and not reader.frozen and len(self._idle) < _MOST_IDLE:
            self._idle.append(reader)
        else:
            _close_quietly(reader)

    def write_soon(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """Write like `write`, but a power cut can undo it: for data that can be computed again."""
        return self.write(act, synced=False)

    def ensure_sessions(self, sessions: Iterable[str]) -> None:
        """Do nothing: the sessions of this store are in the same database."""

    def session_lengths(self, session: str = "") -> list[tuple[Any, ...]]:
        sql = "SELECT id, seq FROM session WHERE forgotten = 0"
        if session:
            return self.read(f"{sql} AND id = ? COLLATE NOCASE", (session,))
        return self.read(sql)

    def head_devices(self) -> set[str]:
        return {head.device for _, _, head in self.heads.all()}

    def scrub(self, session: str, done: str) -> None:
        """Free erased pages and empty the -wal, so that erased data is in no file.

        Raise `Busy`, with the text `done` of what was erased, while a reader uses old pages. After
        `must_scrub` they are removed at the latest when the next writer opens.
        """

        def alone() -> bool:
            connection = self._writing()
            try:
                return self._scrub(connection, wait_ms=_SCRUB_WAIT_MS)
            except DRIVER_ERRORS as error:
                self._discard_writer()
                raise self.translated(error, "delete") from error

        if not self.lock.hold(alone):
            raise Busy(
                f"{done}, but the erased data is still in the files of the database",
                why="another process or thread is still reading an older state",
                hint="it is removed by the first command that writes after that process has ended",
                operation="delete",
                session=session,
            )

    def _scrub(self, connection: sqlite3.Connection, *, wait_ms: int) -> bool:
        connection.execute(f"PRAGMA busy_timeout={wait_ms}")
        # `executescript`, because it steps through all pages; `execute` would free only one.
        connection.executescript("PRAGMA incremental_vacuum")
        busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if not busy:
            connection.execute("DELETE FROM meta WHERE key = 'scrub'")
        connection.execute(f"PRAGMA busy_timeout={self._patience}")
        return not busy

    def _share_patience(self, connection: sqlite3.Connection) -> None:
        """Limit the wait for SQLite's locks to the time that the writer lock has left."""
        hurried = self.lock.left < self._timeout - _AT_ONCE
        patience = int((self.lock.left if hurried else self._timeout) * 1000)
        if patience != self._patience:
            connection.execute(f"PRAGMA busy_timeout={patience}")
            self._patience = patience

    # -- closing -------------------------------------------------------------------------------

    def close(self) -> None:
        """Close everything, with a checkpoint if no other process has the database open."""
        self._close_idle()
        if self._writer is not None:
            try:
                self.lock.hold(self._discard_writer)
            except ForestayError:
                pass  # without the lock, `leave` closes without a checkpoint; nothing is lost
        self.leave()

    def leave(self) -> None:
        """Close everything without a checkpoint; the next process makes it."""
        self._close_idle()
        self.lock.in_turn(self._leave_all, _FORK_WAIT)
        _enlisted.pop(id(self), None)

    def _leave_all(self) -> None:
        self._leave_writer()
        self.lock.close()
        self.heads.close()

    def __del__(self) -> None:
        if self._writer is not None or self._idle:
            self.leave()

    def _close_idle(self) -> None:
        while self._idle:
            _close_quietly(self._idle.pop())

    def _discard_writer(self) -> None:
        connection, self._writer = self._writer, None
        if connection is not None:
            _close_quietly(connection)

    def _leave_writer(self) -> None:
        """Close the writer without a checkpoint, by closing a read-only connection after it.

        Only the last connection makes a checkpoint, and a reader cannot. So no lock is needed.
        """
        writer, self._writer = self._writer, None
        if writer is None:
            return
        try:
            reader = self._connect("ro")
            rows_of(reader, "SELECT 1 FROM meta")
        except (sqlite3.Error, ForestayError):
            _leak(writer)
            _leaked.add(self._inode)
            return
        _close_quietly(writer)
        _close_quietly(reader)

    def _roll_back(self, connection: sqlite3.Connection, error: BaseException) -> None:
        try:
            if isinstance(error.__cause__, sqlite3.Error):
                self._discard_writer()
            elif connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._discard_writer()

    # -- forks ---------------------------------------------------------------------------------

    def before_fork(self) -> None:
        if any(reader() is not None for reader in list(self._lent.values())):
            import gc

            gc.collect()  # closes readers that were left by an interrupt
        self._alone = not self.lock.is_mine
        if self._alone and self.lock.begin_turn(_FORK_WAIT):
            self._leave_writer()
        self._close_idle()

    def after_fork_in_parent(self) -> None:
        if self._alone:
            self.lock.end_turn()

    def after_fork_in_child(self) -> None:
        # If a connection could not be closed (an open view or write), its file cannot be used.
        lent = (reader() for reader in self._lent.values())
        _inherited.update(_leaked, (reader.inode for reader in lent if reader is not None))
        if self._writer is not None:
            _inherited.add(self._inode)
            _leak(self._writer)
        self._writer, self._idle, self._lent = None, [], {}
        self.lock.reset_after_fork()
        self.heads.close()

    # -- opening -------------------------------------------------------------------------------

    def _prepare_home(self) -> None:
        if self._prepared:
            return
        from forestay.store.sqlite import filesystem_check

        files.make_private_dir(self.home)
        reason = filesystem_check.shared_locks_ok(self.home)
        if reason:
            raise StoreFailed(
                f"sessions cannot be stored in {self.home}",
                why=reason,
                hint="set FORESTAY_HOME to a folder on a local disk",
                file=self.home,
            )
        self._prepared = True

    def _writing(self) -> sqlite3.Connection:
        """Return the writer, opened if necessary. Call only under the writer lock."""
        if self._writer is None:
            try:
                self._writer = self._open_writer()
            except DRIVER_ERRORS as error:
                raise self.translated(error, "update") from error
        elif _inode(self.path) != self._inode:
            self._discard_writer()
            self.heads.close()
            self.lock.recheck_file()
            self._prepared = False
            raise StoreFailed(
                "the database was replaced while it was open",
                why="another file has its name now",
                hint="repeat the command, then: forestay verify",
                file=self.path,
            )
        return self._writer

    def _open_writer(self) -> sqlite3.Connection:
        if self._inode_there() is None:
            self._create()
        connection = self._connect("rw")
        try:
            # Check this first, so that a database of another program is not changed.
            self.require_current(_meta(connection, "min_writer"))
            mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
            if mode != "wal":
                raise self.damaged(f"its journal mode is {mode}")
            for pragma in _PRAGMAS:
                connection.execute(f"PRAGMA {pragma}")
            self._patience = -1
            self._share_patience(connection)
            connection.execute("BEGIN IMMEDIATE")
            self.require_current(_meta(connection, "min_writer"))
            have = self._number("format", _meta(connection, "format"))
            if have < FORMAT:
                migrate(connection, have)
            self._settle(connection)
            connection.execute("COMMIT")
            if _meta(connection, "scrub"):
                self._scrub(connection, wait_ms=0)
            # SQLite ignores a failed sync of the folder in which it created the -wal.
            self._sync_home()
        except BaseException:
            _close_quietly(connection)
            raise
        self._inode = _inode(self.path)
        return connection

    def require_current(self, min_writer: str | None) -> None:
        """Refuse to write if the store was moved or is used by a newer version.

        Every write transaction checks this.
        """
        needed = self._number("min_writer", min_writer)
        if needed == SEALED:
            raise Outdated(
                "nothing can be recorded in this store any more",
                why="its sessions were moved to another store, or are being moved",
                hint="to see where: forestay status; to finish: forestay backup move --to URL",
            )
        if needed > FORMAT:
            raise Outdated(
                "this program is too old to write to the store",
                why=f"a newer Forestay uses the store (format {needed}, this one has {FORMAT})",
                hint="restart this program with the newer version; nothing was written",
            )

    def _number(self, name: str, value: str | None) -> int:
        # No number that was ever written has ten digits; `int` refuses more than some thousand.
        if value is None or not value.isdecimal() or len(value) > 9:
            raise self.damaged(f"its {name} cannot be read")
        return int(value)

    def _create(self) -> None:
        """Create the database under another name, complete, and rename it."""
        aside = self.path + _ASIDE
        try:
            for leftover in (aside, aside + "-journal", aside + "-wal", aside + "-shm"):
                if os.path.lexists(leftover):
                    os.unlink(leftover)
            os.close(open_private(aside, os.O_EXCL))
            self._fill(aside)
            os.rename(aside, self.path)
        except OSError as error:
            raise files.failure(error, "write", self.path) from error
        self._sync_home()

    def _fill(self, aside: str) -> None:
        connection = sqlite3.connect(_uri(aside, "rw"), uri=True, isolation_level=None)
        try:
            for pragma in ("auto_vacuum=INCREMENTAL", "journal_mode=WAL", *_PRAGMAS):
                connection.execute(f"PRAGMA {pragma}")
            connection.execute("BEGIN")
            migrate(connection, 0)
            connection.execute("COMMIT")
            # Syncs the file, and unlike the checkpoint of a close reports when that fails.
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            connection.close()

    def _sync_home(self) -> None:
        try:
            files.sync_folder(self.home)
        except OSError as error:
            raise files.failure(error, "write", self.home) from error

    def _connect(self, mode: str) -> Reader:
        if _inherited and _inode(self.path) in _inherited:
            raise StoreFailed(
                "this process was forked while its parent was using the database",
                why="only the parent process has the locks of the database",
                hint="start a new process; with multiprocessing, use the spawn method",
                file=self.path,
            )
        _enlist(self)
        # Without a log, and where none can be created, the database file alone is complete.
        frozen = (
            mode == "ro" and not files.size(self.path + "-wal") and not files.is_writable(self.home)
        )
        connection = sqlite3.connect(
            _uri(self.path, "ro&immutable=1" if frozen else mode),
            uri=True,
            isolation_level=None,
            timeout=self.lock.left if mode == "rw" else self._timeout,
            check_same_thread=False,
            factory=Reader,
        )
        connection.frozen = frozen
        return connection

    def _inode_there(self) -> Inode | None:
        """Return the inode of the database file; None if there is none yet.

        Raise `Damaged` if the file is missing or empty although it had sessions.
        """
        found = self._inode_if_filled()
        if found:
            return found
        gone = len({session for _, session, _ in self.heads.all()})
        # SQLite would delete the log of a database that is empty, and what is still in it.
        if not gone and not files.size(self.path + "-wal"):
            return None
        # Another process may have created the database since the first check.
        found = self._inode_if_filled()
        if found:
            return found
        raise Damaged(
            f"the database is missing or empty, but it had {gone or 'some'} session(s)",
            why="the file was deleted or emptied",
            hint="restore the file, or rebuild it from backups: forestay doctor --fix",
            file=self.path,
        )

    def _inode_if_filled(self) -> Inode | None:
        try:
            facts = os.stat(self.path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise files.failure(error, "read", self.path) from error
        return (facts.st_dev, facts.st_ino) if facts.st_size else None

    # -- errors --------------------------------------------------------------------------------

    def translated(self, error: Exception, operation: str) -> ForestayError:
        """Return the `ForestayError` for a driver error."""
        code = getattr(error, "sqlite_errorcode", 0)
        has_log = files.size(self.path + "-wal") and not files.size(self.path + "-shm")
        if code == sqlite3.SQLITE_CANTOPEN and has_log and not files.is_writable(self.home):
            # Without its log the file would show an older state as the newest.
            return ReadOnly(
                f"the newest events in {self.home} cannot be read",
                why="they are in the log of the database, and reading it needs a writable home",
                hint=f"read a copy: cp -r {self.home} COPY && forestay --home COPY list",
                operation=operation,
                file=self.path,
            )
        if isinstance(error, UnicodeDecodeError) or str(error).startswith(_SIGNS_OF_DAMAGE):
            code = sqlite3.SQLITE_CORRUPT
        kind, hint = MEANING.get(code) or MEANING.get(code & 0xFF, _UNKNOWN)
        what = {
            Busy: "another program has the database locked",
            ReadOnly: "the home cannot be written to",
            Damaged: "the database is damaged",
        }.get(kind, "the database reported an error")
        return kind(what, why=str(error), hint=hint, operation=operation, file=self.path)

    def damaged(self, why: str) -> Damaged:
        return Damaged("the database is damaged", why=why, hint=_SALVAGE, file=self.path)


# Databases that this process has open, for forks and for its end.
_enlisted: dict[int, Callable[[], Database | None]] = {}
# Files that SQLite in this process wrongly considers locked by this process.
_inherited: set[Inode] = set()
# Files of connections that could not be closed.
_leaked: set[Inode] = set()
_watching: list[bool] = []


def _enlist(database: Database) -> None:
    _enlisted[id(database)] = ref(database)
    if not _watching:
        import atexit

        _watching.append(True)
        atexit.register(_for_each, Database.leave)
        os.register_at_fork(
            before=partial(_for_each, Database.before_fork),
            after_in_parent=partial(_for_each, Database.after_fork_in_parent),
            after_in_child=partial(_for_each, Database.after_fork_in_child),
        )


def _for_each(act: Callable[[Database], None]) -> None:
    for reference in list(_enlisted.values()):
        if (database := reference()) is not None:
            act(database)


_SALVAGE = "see what can be saved: forestay doctor"
_RIGHTS = "check owner and permissions, or set FORESTAY_HOME"
_DISK = "check the disk (df -h, system log), then: forestay verify"
_REPORT = "this is a bug of Forestay; to find the cause: forestay doctor"
# Messages of damage that SQLite and its driver report as general errors.
_SIGNS_OF_DAMAGE = ("no such table", "no such column", "Could not decode to UTF-8")
_UNKNOWN: tuple[type[ForestayError], str] = (StoreFailed, "to find the cause: forestay doctor")

_MEANINGS: dict[str, tuple[type[ForestayError], str]] = {
    "BUSY LOCKED PROTOCOL": (Busy, "try again"),
    "READONLY PERM AUTH": (ReadOnly, _RIGHTS),
    "READONLY_DBMOVED": (StoreFailed, "the file was moved; run the command again"),
    "FULL": (StoreFailed, "free some space, then run the command again: df -h"),
    "IOERR NOLFS": (StoreFailed, _DISK),
    "CANTOPEN": (
        StoreFailed,
        "check that the home exists and is yours; if it is read-only, read a copy",
    ),
    "NOMEM": (StoreFailed, "free some memory, then run the command again"),
    "TOOBIG": (StoreFailed, "store large content in a separate file"),
    # The last two: tables contradict each other, such as an arrival number that occurs twice.
    "CORRUPT NOTADB FORMAT EMPTY CONSTRAINT MISMATCH": (Damaged, _SALVAGE),
    "ERROR INTERNAL MISUSE NOTFOUND RANGE": (StoreFailed, _REPORT),
    "ABORT INTERRUPT SCHEMA": (StoreFailed, "run the command again"),
}
MEANING = {
    int(getattr(sqlite3, f"SQLITE_{name}")): meaning
    for names, meaning in _MEANINGS.items()
    for name in names.split()
}
"""Result code of SQLite → the error class and its hint."""


def _meta(connection: sqlite3.Connection, key: str) -> str | None:
    found = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if found is None else str(found[0])


def rows_of(
    connection: sqlite3.Connection, sql: str, values: Sequence[object] = ()
) -> list[tuple[Any, ...]]:
    """Return all rows of a query; damaged text is returned as far as it can be decoded."""
    try:
        return connection.execute(sql, values).fetchall()
    except UnicodeEncodeError:
        return []  # a text that cannot be encoded is in no row
    except sqlite3.OperationalError as error:
        if not str(error).startswith("Could not decode to UTF-8"):
            raise
    # Damage of one text must not hide all other rows; `forestay verify` reports it.
    connection.text_factory = _lenient
    try:
        return connection.execute(sql, values).fetchall()
    finally:
        connection.text_factory = str


def _lenient(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def _uri(path: str, mode: str) -> str:
    # Other bytes are escaped: a path need not be text, and may contain "?" and "#".
    plain = b"/-_.~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    name = "".join(chr(b) if b in plain else f"%{b:02x}" for b in os.fsencode(path))
    return f"file://{name}?mode={mode}"


def _inode(path: str) -> Inode:
    try:
        facts = os.stat(path)
    except OSError:
        return (0, 0)
    return (facts.st_dev, facts.st_ino)


def _close_quietly(connection: sqlite3.Connection) -> None:
    try:
        connection.close()
    except sqlite3.Error:
        # It is closed because it failed; the first error is the one to report.
        return


def _leak(connection: sqlite3.Connection) -> None:
    """Prevent this process from ever closing a connection."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
