"""Connect to the PostgreSQL server, convert its errors, and handle lost connections.

A *place* is what a URL names: how to connect, the schema of the tables, and how to show it without
the password. Unused connections are *idle*. A connection is *lost* if it broke during a statement:
whether the statement took effect is unknown, so the caller has to decide whether to repeat it.

The connection pool is small and has no threads: threads would slow the start of every short
process, and report a wrong password only after a timeout. A forked process opens new connections.
"""

from __future__ import annotations

import os
import re
from logging import NullHandler, getLogger
from queue import Empty, SimpleQueue

import psycopg
from psycopg import conninfo
from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper

from forestay.errors import Busy, Damaged, ForestayError, InvalidInput, ReadOnly, StoreFailed
from forestay.store.postgres import schema
from forestay.store.postgres.protocol import LOST, Wired

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    from forestay.base.clock import Clock

    T = TypeVar("T")
    Rows = list[tuple[Any, ...]]
    Connection = Wired

_MOST_IDLE = 4
MOST = 16
"""The most connections that one process has at a time."""
_PATIENCE = 10
SCHEMA = re.compile("[a-z_][a-z0-9_]{0,40}")
_OURS = {"schema": "forestay", "prepare": "yes"}
_FORM = "postgresql://USER@HOST:5432/DATABASE; in a password write @ as %40, / as %2F"
_NOT_THERE_YET = ("42P01", "3F000")
_STARTING = ("57P03", "57P01", "57P02")
_NOT_PREPARED = ("26000", "42P05")


class Lost(Exception):
    """The connection broke; its cause is the driver's error."""


class NotThere(Exception):
    """No process has written to this place yet: there are no tables."""


class Place:
    """What a URL names. `shown` is without the password."""

    def __init__(self, url: str) -> None:
        ours, given = _parsed(url)
        self.schema = ours["schema"]
        self.prepares = ours["prepare"] != "no"
        self._given = given
        self.password = str(given.get("password") or "")
        self.shown = _shown(given, self.schema)

    def connect(self, patience: int = 0) -> Connection:
        """Return a connection that waits `patience` ms for a lock, unless a pooler shares it."""
        given = conninfo.make_conninfo(**{"connect_timeout": _PATIENCE, **self._given})
        threshold = 5 if self.prepares else None
        connection = Wired.connect(given, autocommit=True, prepare_threshold=threshold)
        # Otherwise the driver chooses types by values, and prepares a statement for each mixture.
        for dumper in (Int8Dumper, Int8BinaryDumper):
            connection.adapters.register_dumper(int, dumper)
        if patience and self.prepares:
            connection.execute(f"SET lock_timeout = {patience}")
        return connection

    def clean(self, text: str) -> str:
        """Return a message of the driver on one line, without the password."""
        clean = text.replace(self.password, "…") if self.password else text
        return " ".join(clean.split())


def _parsed(url: str) -> tuple[dict[str, str], dict[str, Any]]:
    from urllib.parse import parse_qsl, quote, urlencode

    bad = "the store is not a PostgreSQL URL"
    base, _, query = url.partition("?")
    given = parse_qsl(query, keep_blank_values=True)
    rest = urlencode([pair for pair in given if pair[0] not in _OURS], quote_via=quote)
    try:
        known = conninfo.conninfo_to_dict(f"{base}?{rest}" if rest else base)
    except (psycopg.Error, ValueError):
        # The driver's message quotes parts of the URL, and one of them may be the password.
        raise InvalidInput(bad, why="its text cannot be parsed as a URL", hint=_FORM) from None
    ports = str(known.get("port") or "0").split(",")
    if "@" in str(known.get("dbname", "")) or not all(port.isdecimal() for port in ports):
        # The password has an unescaped character: the part after it would be shown.
        raise InvalidInput(bad, why="its parts are ambiguous", hint=_FORM)
    ours = {**_OURS, **dict(pair for pair in given if pair[0] in _OURS)}
    if not SCHEMA.fullmatch(ours["schema"]):
        why = "the name of a schema has at most 41 lower-case letters, digits and underscores"
        raise InvalidInput(bad, why=why, hint="?schema=forestay")
    known.setdefault("application_name", "forestay")
    return ours, known


def _shown(given: dict[str, Any], schema: str) -> str:
    """Return the URL of a place without the password."""
    from urllib.parse import quote, urlencode

    hosts = str(given.get("host") or "")
    user = f"{quote(str(given['user']))}@" if given.get("user") else ""
    port = f":{given['port']}" if given.get("port") else ""
    inside = {"user", "port", "dbname", "password", "sslpassword", "application_name"}
    rest = {name: str(value) for name, value in given.items() if name not in inside}
    if not hosts.startswith("/"):
        rest.pop("host", None)
        user += hosts
    elif port:
        rest["port"], port = port[1:], ""
    if schema != _OURS["schema"]:
        rest["schema"] = schema
    query = urlencode(rest, safe="/", quote_via=quote)
    return f"postgresql://{user}{port}/{given.get('dbname') or ''}" + (f"?{query}" if query else "")


class Server:
    """The connections of this process to one place."""

    def __init__(
        self, place: Place, *, clock: Clock, timeout: float, is_known: bool = False
    ) -> None:
        """With `is_known`, this home has used the server before: if it is down, wait for it."""
        self.place = place
        self._is_known = is_known
        self.clock = clock
        self.timeout = timeout
        self.patience = max(1, int(timeout * 1000))
        self._idle: list[Connection] = []
        self._slots = _new_slots()
        self._pid = os.getpid()
        self._was_there = False
        # The driver would print that a connection broke; it is raised as an error instead.
        if not getLogger("psycopg").handlers:
            getLogger("psycopg").addHandler(NullHandler())

    # -- using it ------------------------------------------------------------------------------

    def sql(self, text: str) -> str:
        return schema.named(text, self.place.schema)

    def read(self, sql: str, values: Sequence[object] = ()) -> Rows:
        """Return the rows of one query; [] without tables. Repeat it if the connection breaks."""
        if any(isinstance(value, str) and "\0" in value for value in values):
            return []  # such a text cannot be stored

        try:
            return self.insist(lambda: self.use(lambda one: self.reader(one)(sql, values)))
        except NotThere:
            return []

    def reader(self, connection: Connection) -> Callable[[str, Sequence[object]], Rows]:
        """Return a function that queries inside the transaction of a connection."""

        def read(sql: str, values: Sequence[object]) -> Rows:
            return connection.execute(self.sql(sql), values, binary=True).fetchall()

        return read

    def use(self, act: Callable[[Connection], T], operation: str = "read") -> T:
        """Run `act` with a connection; raise `Lost` if that breaks, `NotThere` without tables."""
        connection = self.borrow()
        try:
            return act(connection)
        except psycopg.Error as error:
            if error.sqlstate in _NOT_PREPARED:
                # A pooler gave the connection to another client: the statement was not executed,
                # and prepared statements are gone.
                self.place.prepares = False
                raise Lost from error
            raise self.translated(error, operation) from error
        finally:
            self.give_back(connection)

    def insist(self, act: Callable[[], T]) -> T:
        """Repeat `act` while the connection breaks, until the timeout."""
        deadline, pause = self.clock.monotonic() + self.timeout, 0.02
        while True:
            try:
                return act()
            except Lost as lost:
                cause = lost.__cause__
                if self.clock.monotonic() >= deadline:
                    if isinstance(cause, psycopg.Error) and not self._was_there:
                        raise self._unreachable(cause) from cause
                    raise self.gone(cause) from cause
            self.close_idle()
            self.clock.sleep(pause)
            pause = min(pause * 2, 0.5)

    def gone(self, error: BaseException | None) -> StoreFailed:
        """Return the error for a lost connection; retryable unless the server refused it."""
        why = self.place.clean(str(error or ""))
        refused = _refusal(why)
        failed = StoreFailed(
            f"the connection to {self.place.shown} was lost",
            why=why,
            hint=f"{refused or 'check that the server runs'}, then repeat the command; with the"
            " same --key it is recorded once",
        )
        failed.retryable = not refused
        return failed

    # -- connections ---------------------------------------------------------------------------

    def borrow(self) -> Connection:
        self._notice_fork()
        try:
            self._slots.get(timeout=self.timeout)
        except Empty:
            what = f"all {MOST} connections of this process are in use"
            raise Busy(what, hint="try again") from None
        try:
            while self._idle:
                connection = self._idle.pop()
                if not connection.closed:
                    return connection
            return self._connect()
        except BaseException:
            self._slots.put(None)
            raise

    def _connect(self) -> Connection:
        try:
            connection = self.place.connect(self.patience)
        except psycopg.Error as error:
            # A server that restarts refuses for a while; one that never answered is reported.
            signs = ("is starting up", "is shutting down", "recovery")
            is_starting = error.sqlstate in _STARTING or any(sign in str(error) for sign in signs)
            if self._was_there or is_starting or (self._is_known and _is_down(error)):
                raise Lost from error
            raise self._unreachable(error) from error
        self._was_there = True
        return connection

    def give_back(self, connection: Connection) -> None:
        self._slots.put(None)
        if connection.pgconn.transaction_status == _IDLE and len(self._idle) < _MOST_IDLE:
            self._idle.append(connection)
        else:
            connection.close()

    def close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _notice_fork(self) -> None:
        if self._pid != os.getpid():
            # They belong to the parent process: do not close them, or the server would end them.
            self._pid, self._idle, self._slots = os.getpid(), [], _new_slots()

    def close(self) -> None:
        self._notice_fork()
        self.close_idle()

    __del__ = close

    # -- errors --------------------------------------------------------------------------------

    def translated(self, error: psycopg.Error, operation: str) -> Exception:
        """Return the error for a driver error: a `ForestayError`, `Lost`, or `NotThere`."""
        code = error.sqlstate or ""
        if is_lost(error):
            return Lost()
        if code in _NOT_THERE_YET and not self.is_set_up():
            return NotThere()
        if isinstance(error, psycopg.DataError) and not code:
            code = "22"  # the driver refused the value before sending it
        kind, what, hint = MEANING.get(code) or MEANING.get(code[:2]) or _UNKNOWN
        why = self.place.clean(error.diag.message_primary or str(error))
        return kind(what, why=why, hint=hint, operation=operation, file=self.place.shown)

    def is_set_up(self) -> bool:
        connection = self.borrow()
        try:
            sql = "SELECT to_regclass(%s) IS NOT NULL"
            found = connection.execute(sql, (f"{self.place.schema}.meta",)).fetchone()
            return bool(found and found[0])
        except psycopg.Error as error:
            raise Lost from error
        finally:
            self.give_back(connection)

    def _unreachable(self, error: psycopg.Error) -> ForestayError:
        why = self.place.clean(str(error))
        hint = next((hint for sign, hint in (*_REFUSALS, *_FULL) if sign in why), _REACH)
        what = f"{self.place.shown} cannot be reached"
        failed = StoreFailed(what, why=why, hint=hint, operation="connect", file=self.place.shown)
        failed.retryable = not _refusal(why)
        return failed


_IDLE = psycopg.pq.TransactionStatus.IDLE


def _new_slots() -> SimpleQueue[None]:
    """Return a queue with one slot per connection; it is faster than a semaphore."""
    slots: SimpleQueue[None] = SimpleQueue()
    for _ in range(MOST):
        slots.put(None)
    return slots


def is_lost(error: psycopg.Error) -> bool:
    """Return whether the error ended the connection."""
    code = error.sqlstate or ""
    broken = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and not code
    return broken or code in LOST


def _is_down(error: psycopg.Error | str) -> bool:
    """Return whether the server does not listen, for example while it restarts."""
    return any(sign in str(error) for sign in ("Is the server running", "onnection refused"))


def _refusal(message: str) -> str:
    """Return the hint if a server refused this user; "" if it may accept the user later.

    If the URL names several hosts, one may refuse because another, which is down, is the right one.
    """
    if _is_down(message):
        return ""
    return next((hint for sign, hint in _REFUSALS if sign in message), "")


_REACH = "check that the server runs and the URL is right: forestay config store"
_REFUSALS = (
    ("password", "give the password by PGPASSWORD or ~/.pgpass, or in the URL"),
    ("does not exist", "create the database or the role first: createdb, createuser"),
    ("no pg_hba.conf entry", "allow this host: pg_hba.conf on the server"),
    ("pg_hba.conf rejects", "allow this host: pg_hba.conf on the server"),
    ("authentication failed", "check how this user can log in: pg_hba.conf on the server"),
    ("not permitted to log in", "allow the role to log in: ALTER ROLE … LOGIN"),
    ("permission denied", "allow the role to connect: GRANT CONNECT ON DATABASE …"),
    ("not currently accepting", "allow connections to the database: ALTER DATABASE …"),
    ("certificate verify failed", "check the certificate of the server: sslrootcert, sslmode"),
    ("does not support SSL", "enable TLS on the server, or change sslmode in the URL"),
)
_FULL = (
    ("too many clients", "try again, or raise max_connections"),
    ("remaining connection slots", "try again, or raise max_connections"),
)
_REPORT = "to find the cause: forestay doctor"
_UNKNOWN: tuple[type[ForestayError], str, str] = (StoreFailed, "the server failed", _REPORT)
_WAITED = (Busy, "another program has the session locked", "try again")
_RIGHTS = (
    "allow the role to read and write the schema (docs/postgres.md); the SQL that creates the"
    " tables: python -m forestay.store.postgres"
)
_HARM = (Damaged, "the tables are damaged", "see what can be saved: forestay doctor")

MEANING: dict[str, tuple[type[ForestayError], str, str]] = {
    "22": (InvalidInput, "the server cannot store this value", "change the value"),
    "23": _HARM,
    "25006": (ReadOnly, "the server is a read-only replica", "use its primary server"),
    "28": (StoreFailed, "the server refused this user", _RIGHTS),
    "40": _WAITED,
    "42501": (ReadOnly, "this database role is not allowed to do that", _RIGHTS),
    "42": _HARM,
    "53100": (StoreFailed, "the disk of the server is full", "free some space on the server"),
    "53300": (Busy, "the server has no connection left", "try again, or raise max_connections"),
    "53": (StoreFailed, "the server lacks resources", "read the log of the server"),
    "55P03": _WAITED,
    "57014": (Busy, "the server stopped a statement that took too long", "try again"),
    "58": (StoreFailed, "the server could not use its files", "read the log of the server"),
    "XX001": _HARM,
    "XX002": _HARM,
}
