"""The server: how it is reached, what its errors mean, and what is done when it goes away.

Words. A *place* is what a URL names: how to connect, in which schema the tables are, and how to
speak of it without the password. Connections that nobody uses lie *idle* until one is wanted. The
connection is *lost* when it broke under a statement: whether that statement took effect is not
known, and only who sent it can tell whether it may be sent again.

The pool is our own, and small: one of threads would cost every short process its start, and
tell of a wrong password only by running out of time. No connection crosses a fork.
"""

from __future__ import annotations

import os
import re
from _thread import allocate_lock

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
"""Connections that one process has at a time."""
_PATIENCE = 10
SCHEMA = re.compile("[a-z_][a-z0-9_]{0,40}")
_OURS = {"schema": "forestay", "prepare": "yes"}
_FORM = "postgresql://USER@HOST:5432/DATABASE, signs in a password as %40, %2F …"
_NOT_THERE_YET = ("42P01", "3F000")
_NO_OPTIONS = "unsupported startup parameter"
_STARTING = ("57P03", "57P01", "57P02")
_NOT_PREPARED = ("26000", "42P05")


class Lost(Exception):
    """The connection broke; the cause says how."""


class NotThere(Exception):
    """Nobody has written to this place yet: there are no tables."""


class Place:
    """What a URL names. `shown` is safe to show."""

    def __init__(self, url: str) -> None:
        ours, given = _parsed(url)
        self.schema = ours["schema"]
        self.prepares = ours["prepare"] != "no"
        self._given = given
        self._takes_options = True
        self.password = str(given.get("password") or "")
        self.shown = _shown(given, self.schema)

    def connect(self, patience: int = 0) -> Connection:
        """A connection that waits so many milliseconds for a lock, unless others share it."""
        if not (patience and self.prepares):
            return self._connect()
        try:
            if self._takes_options:
                options = f"{self._given.get('options') or ''} -c lock_timeout={patience}"
                return self._connect(options=options.strip())
        except psycopg.OperationalError as error:
            if _NO_OPTIONS not in str(error):
                raise
            self._takes_options = False  # so do poolers; it takes another round trip
        made = self._connect()
        made.execute(f"SET lock_timeout = {patience}")
        return made

    def _connect(self, **more: str) -> Connection:
        given = {"connect_timeout": _PATIENCE, **self._given, **more}
        connection = Wired.connect(
            conninfo.make_conninfo(**given),
            autocommit=True,
            prepare_threshold=5 if self.prepares else None,
        )
        # Else the driver takes the type by the value, and prepares a statement for each mixture.
        for dumper in (Int8Dumper, Int8BinaryDumper):
            connection.adapters.register_dumper(int, dumper)
        return connection

    def clean(self, text: str) -> str:
        """A message of the driver without the password, on one line."""
        said = text.replace(self.password, "…") if self.password else text
        return " ".join(said.split())


def _parsed(url: str) -> tuple[dict[str, str], dict[str, Any]]:
    from urllib.parse import parse_qsl, quote, urlencode

    bad = "the store is no URL of PostgreSQL"
    base, _, query = url.partition("?")
    given = parse_qsl(query, keep_blank_values=True)
    rest = urlencode([pair for pair in given if pair[0] not in _OURS], quote_via=quote)
    try:
        known = conninfo.conninfo_to_dict(f"{base}?{rest}" if rest else base)
    except (psycopg.Error, ValueError):
        # What the driver says quotes pieces of the URL, and one of them may be the password.
        raise InvalidInput(bad, why="it cannot be taken apart", hint=_FORM) from None
    ports = str(known.get("port") or "0").split(",")
    if "@" in str(known.get("dbname", "")) or not all(port.isdecimal() for port in ports):
        # An unquoted sign in the password: what comes behind it would be shown as something else.
        raise InvalidInput(bad, why="its parts cannot be told apart", hint=_FORM)
    ours = {**_OURS, **dict(pair for pair in given if pair[0] in _OURS)}
    if not SCHEMA.fullmatch(ours["schema"]):
        why = "a schema has small letters, digits and _, 41 at most"
        raise InvalidInput(bad, why=why, hint="?schema=forestay")
    known.setdefault("application_name", "forestay")
    return ours, known


def _shown(given: dict[str, Any], schema: str) -> str:
    """A URL that leads to the same place, for who has the password."""
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
        """`is_known` says that this home has worked with a server: then one that is down is
        likely to come up again, and is waited for."""
        self.place = place
        self._is_known = is_known
        self.clock = clock
        self.timeout = timeout
        self.patience = max(1, int(timeout * 1000))
        self._idle: list[Connection] = []
        self._lent = 0
        self._turn = allocate_lock()
        self._pid = os.getpid()
        self._was_there = False
        _hush()

    # -- using it ------------------------------------------------------------------------------

    def sql(self, text: str) -> str:
        return schema.named(text, self.place.schema)

    def read(self, sql: str, values: Sequence[object] = ()) -> Rows:
        """Rows of one query, asked again when the connection breaks; none without tables."""

        if any(isinstance(value, str) and "\0" in value for value in values):
            return []  # such a text cannot be kept, so none was

        def act(connection: Connection) -> Rows:
            return connection.execute(self.sql(sql), values, binary=True).fetchall()

        try:
            return self.insist(lambda: self.use(act))
        except NotThere:
            return []

    def reader(self, connection: Connection) -> Callable[[str, Sequence[object]], Rows]:
        """Rows of one query in the transaction of a connection."""

        def read(sql: str, values: Sequence[object]) -> Rows:
            return connection.execute(self.sql(sql), values, binary=True).fetchall()

        return read

    def use(self, act: Callable[[Connection], T], operation: str = "read") -> T:
        """Run `act` with a connection. `Lost` if that breaks, `NotThere` without tables."""
        connection = self.borrow()
        try:
            result = act(connection)
        except psycopg.Error as error:
            self.give_back(connection)
            if error.sqlstate in _NOT_PREPARED:
                # A pooler gave it to others meanwhile: nothing was done, and nothing is kept there.
                self.place.prepares = False
                raise Lost from error
            raise self.translated(error, operation) from error
        except BaseException:
            self.give_back(connection)
            raise
        self.give_back(connection)
        return result

    def insist(self, act: Callable[[], T]) -> T:
        """Do something again while the connection breaks, for as long as others are waited for."""
        deadline, pause = self.clock.monotonic() + self.timeout, 0.02
        while True:
            try:
                return act()
            except Lost as lost:
                if self.clock.monotonic() >= deadline:
                    raise self._given_up(lost.__cause__) from lost.__cause__
            self.close_idle()
            self.clock.sleep(pause)
            pause = min(pause * 2, 0.5)

    def _given_up(self, error: BaseException | None) -> ForestayError:
        if isinstance(error, psycopg.Error) and not self._was_there:
            return self._unreachable(error)
        return self.gone(error)

    def gone(self, error: BaseException | None) -> StoreFailed:
        """The connection was lost; who can wait may try again, unless the server refuses."""
        said = self.place.clean(str(error or ""))
        refused = _refusal(said)
        told = StoreFailed(
            f"the connection to {self.place.shown} was lost",
            why=said,
            hint=f"{refused or 'see whether the server runs'}, then repeat the command: with its"
            " --key it counts once",
        )
        told.retryable = not refused
        return told

    # -- connections ---------------------------------------------------------------------------

    def borrow(self) -> Connection:
        self._notice_fork()
        self._take_turn()
        try:
            while self._idle:
                connection = self._idle.pop()
                if not connection.closed:
                    return connection
            return self._connect()
        except BaseException:
            self._lent -= 1
            raise

    def _take_turn(self) -> None:
        deadline = 0.0
        while True:
            with self._turn:
                if self._lent < MOST:
                    self._lent += 1
                    return
            deadline = deadline or self.clock.monotonic() + self.timeout
            if self.clock.monotonic() >= deadline:
                raise Busy(f"all {MOST} connections of this process are in use", hint="try again")
            self.clock.sleep(0.005)

    def _connect(self) -> Connection:
        try:
            connection = self.place.connect(self.patience)
        except psycopg.Error as error:
            # A server that comes up again refuses for a while; one that never was there is told.
            if self._was_there or _is_starting(error) or (self._is_known and _is_down(error)):
                raise Lost from error
            raise self._unreachable(error) from error
        self._was_there = True
        return connection

    def give_back(self, connection: Connection) -> None:
        with self._turn:
            self._lent = max(self._lent - 1, 0)
        if connection.pgconn.transaction_status == _IDLE and len(self._idle) < _MOST_IDLE:
            self._idle.append(connection)
        else:
            connection.close()  # it may be closed already

    def close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _notice_fork(self) -> None:
        if self._pid != os.getpid():
            # They are the parent's: dropped, not closed, which would tell the server to end them.
            self._pid, self._idle, self._lent = os.getpid(), [], 0
            self._turn = allocate_lock()

    def close(self) -> None:
        self._notice_fork()
        self.close_idle()

    __del__ = close

    # -- errors --------------------------------------------------------------------------------

    def translated(self, error: psycopg.Error, operation: str) -> Exception:
        """What a driver error means: one of ours, or `Lost`, or `NotThere`."""
        code = error.sqlstate or ""
        if is_lost(error):
            return Lost()
        if code in _NOT_THERE_YET and not self.is_set_up():
            return NotThere()
        if isinstance(error, psycopg.DataError) and not code:
            code = "22"  # the driver itself refused it
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
        said = self.place.clean(str(error))
        hint = next((told for sign, told in (*_REFUSALS, *_FULL) if sign in said), _REACH)
        what = f"{self.place.shown} cannot be reached"
        told = StoreFailed(what, why=said, hint=hint, operation="connect", file=self.place.shown)
        told.retryable = not _refusal(said)
        return told


_IDLE = psycopg.pq.TransactionStatus.IDLE


def is_lost(error: psycopg.Error) -> bool:
    """Whether the connection went away with the error."""
    code = error.sqlstate or ""
    broken = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and not code
    return broken or code in LOST


def _is_starting(error: psycopg.Error) -> bool:
    said = str(error)
    return (error.sqlstate or "") in _STARTING or any(
        sign in said for sign in ("is starting up", "is shutting down", "recovery")
    )


def _hush() -> None:
    """Of a connection that breaks the driver would tell on the screen; that is for us to say."""
    from logging import NullHandler, getLogger  # the driver has loaded it

    if not getLogger("psycopg").handlers:
        getLogger("psycopg").addHandler(NullHandler())


def _is_down(error: psycopg.Error | str) -> bool:
    """Whether nobody listens where the server should, as while it restarts."""
    return any(sign in str(error) for sign in ("Is the server running", "onnection refused"))


def _refusal(said: str) -> str:
    """What helps where a server was there and did not let us in; "" if it may do so later.

    Of several hosts one may refuse because another, that is down, is the one to ask.
    """
    return "" if _is_down(said) else next((told for sign, told in _REFUSALS if sign in said), "")


_REACH = "see that the server runs and the URL is right: forestay config store"
_REFUSALS = (
    ("password", "give the password by PGPASSWORD or ~/.pgpass, or in the URL"),
    ("does not exist", "make the database or the role first: createdb, createuser"),
    ("no pg_hba.conf entry", "let this host in: pg_hba.conf on the server"),
    ("pg_hba.conf rejects", "let this host in: pg_hba.conf on the server"),
    ("authentication failed", "see how this user may log in: pg_hba.conf on the server"),
    ("not permitted to log in", "let the role log in: ALTER ROLE … LOGIN"),
    ("permission denied", "let the role connect: GRANT CONNECT ON DATABASE …"),
    ("not currently accepting", "let the database be connected to: ALTER DATABASE …"),
    ("certificate verify failed", "see which certificate the server shows: sslrootcert, sslmode"),
    ("does not support SSL", "let the server speak TLS, or see sslmode in the URL"),
)
_FULL = (
    ("too many clients", "try again, or raise max_connections"),
    ("remaining connection slots", "try again, or raise max_connections"),
)
_REPORT = "look closer with: forestay doctor"
_UNKNOWN: tuple[type[ForestayError], str, str] = (StoreFailed, "the server refused", _REPORT)
_WAITED = (Busy, "another program keeps the session locked", "try again")
_RIGHTS = (
    "let the role read and write the schema (docs/postgres.md); the SQL that makes the tables, for"
    " someone who may: python -m forestay.store.postgres"
)
_HARM = (Damaged, "the tables are damaged", "see what can be saved: forestay doctor")

MEANING: dict[str, tuple[type[ForestayError], str, str]] = {
    "22": (InvalidInput, "the server cannot keep this value", ""),
    "23": _HARM,
    "25006": (ReadOnly, "the server is a copy that can only be read", "use the one it copies"),
    "28": (StoreFailed, "the server does not let this user in", _RIGHTS),
    "40": _WAITED,
    "42501": (ReadOnly, "this role may not do that", _RIGHTS),
    "42": _HARM,
    "53100": (StoreFailed, "the disk of the server is full", "free some space there"),
    "53300": (Busy, "the server has no connection left", "try again, or raise max_connections"),
    "53": (StoreFailed, "the server is short of something", "see its log"),
    "55P03": _WAITED,
    "57014": (Busy, "the server ended what took too long", "try again"),
    "58": (StoreFailed, "the server could not use its files", "see its log"),
    "XX001": _HARM,
    "XX002": _HARM,
}
