"""Wait until a session grows: a notification is a hint, the arrival number decides.

Notifications do not work everywhere: a pooler that shares connections drops them, and some servers
with the same protocol refuse to listen. So one connection tries once to notify another; without
notifications the number is read now and then, with them less often. A *watcher* is recorded while
it waits, and only then notifications are sent. A process that keeps writing does not check each
time whether there is one, so a new watcher reads again after the time in which it is noticed.
"""

from __future__ import annotations

import psycopg

from forestay.errors import ForestayError
from forestay.store.postgres.append import NOTICED, channel
from forestay.store.postgres.connection import Lost, is_lost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.store.port import Capabilities
    from forestay.store.postgres.connection import Connection, Server
    from forestay.store.postgres.local_db import LocalSide

_RARELY = 2.0
_OFTEN = 0.25
_ECHO = 0.5
# None of it has to survive a power cut, so it does not wait for the disk.
_ENLIST = """
    INSERT INTO @watcher SELECT %s, %s, now() + %s * interval '1 second'
    FROM (SELECT set_config('synchronous_commit', 'off', true)) AS soon
"""
_DELIST = """
    WITH soon AS (SELECT set_config('synchronous_commit', 'off', true))
    DELETE FROM @watcher USING soon WHERE who = %s OR until < now()
"""


class Watcher:
    """Waits for sessions to grow; knows whether notifications get through."""

    def __init__(self, local: LocalSide, server: Server, capabilities: Capabilities) -> None:
        self._local, self._server, self._capabilities = local, server, capabilities
        self._is_notified: bool | None = None
        """None until one connection has tried to notify another."""

    def watch(self, key: str, after: int, timeout: float) -> bool:
        if self._length(key) > after:
            return True
        if timeout <= 0:
            return False
        clock = self._server.clock
        deadline = clock.monotonic() + timeout
        who = clock.random(8).hex()
        connection = None
        if self._capabilities.notifies and self._server.place.prepares:
            connection = self._listen((key, who, timeout + _RARELY))
        try:
            return self._wait(key, after, deadline, connection)
        finally:
            if connection is not None:
                _stop(self._server, connection, who)

    def _length(self, key: str) -> int:
        """Return the last arrival number of a session, 0 if it does not exist."""
        found = self._local.read_server("SELECT seq FROM @session WHERE key = %s", (key,))
        return int(found[0][0]) if found else 0

    def _wait(self, key: str, after: int, deadline: float, connection: Connection | None) -> bool:
        clock = self._server.clock
        pause, wait = 0.02, 2 * NOTICED
        while True:
            if self._length(key) > after:
                return True
            left = deadline - clock.monotonic()
            if left <= 0:
                return False
            if connection is None or not _was_notified(connection, min(left, wait)):
                clock.sleep(min(pause, left))
                pause = min(pause * 1.5, _OFTEN)
            wait = _RARELY

    def _listen(self, watcher: tuple[str, str, float]) -> Connection | None:
        """Return a connection that is notified; None if there is none to be had."""
        server = self._server
        name = channel(server.place.schema)
        try:
            connection = server.borrow()
        except Lost:
            return None  # the next read finds out
        try:
            connection.execute(f"LISTEN {name}")
            if self._is_notified is None:
                # By another connection: a pooler that shares them does pass back one's own.
                server.use(lambda other: other.execute("SELECT pg_notify(%s, '')", (name,)))
                self._is_notified = any(connection.notifies(timeout=_ECHO, stop_after=1))
            connection.execute(server.sql(_ENLIST), watcher)
        except (psycopg.Error, Lost, ForestayError) as error:
            if isinstance(error, Lost) or (isinstance(error, psycopg.Error) and is_lost(error)):
                # A connection that broke proves nothing about the next one.
                _stop(server, connection, watcher[1])
                return None
            self._is_notified = False
        if not self._is_notified:
            self._capabilities.notifies = False
            _stop(server, connection, watcher[1])
            return None
        return connection


def _was_notified(connection: Connection, seconds: float) -> bool:
    """Wait for a notification; return False if the connection cannot be used for that."""
    try:
        for _ in connection.notifies(timeout=seconds, stop_after=1):
            pass
    except psycopg.Error:
        return False
    return True


def _stop(server: Server, connection: Connection, who: str) -> None:
    try:
        if not connection.closed:
            connection.execute("UNLISTEN *")
            connection.execute(server.sql(_DELIST), (who,))
    except psycopg.Error:
        connection.close()
    server.give_back(connection)
