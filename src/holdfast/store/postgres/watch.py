"""Waiting until a session grows: a notification is a hint, its arrival number the truth.

Not every server tells (a pooler that shares connections swallows it, some that speak the same
protocol refuse to listen). So it is tried once whether one connection hears another; who does not
looks again now and then, and so does, less often, who does. A *watcher* is written down while it
waits: only then is a session's growth told at all. Who writes on at a pace does not ask each time
whether there is one, so who has just begun to wait looks again once they must have noticed.
"""

from __future__ import annotations

import psycopg

from holdfast.errors import HoldfastError
from holdfast.store.postgres.append import NOTICED, channel
from holdfast.store.postgres.server import Lost, is_lost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.store.postgres import PostgresStore
    from holdfast.store.postgres.server import Connection, Server

_RARELY = 2.0
_OFTEN = 0.25
_ECHO = 0.5
# Nothing of it has to survive a power cut, so nobody waits for the disk.
_ENLIST = """
    INSERT INTO @watcher SELECT %s, %s, now() + %s * interval '1 second'
    FROM (SELECT set_config('synchronous_commit', 'off', true)) AS soon
"""
_DELIST = """
    WITH soon AS (SELECT set_config('synchronous_commit', 'off', true))
    DELETE FROM @watcher USING soon WHERE who = %s OR until < now()
"""


def watch(store: PostgresStore, server: Server, key: str, after: int, timeout: float) -> bool:
    if store.length(key) > after:
        return True
    if timeout <= 0:
        return False
    deadline = server.clock.monotonic() + timeout
    who = server.clock.random(8).hex()
    connection = None
    if store.capabilities.notifies and server.place.prepares:
        connection = _listening(store, server, (key, who, timeout + _RARELY))
    try:
        return _wait(store, server, key, after, deadline, connection)
    finally:
        if connection is not None:
            _stop(server, connection, who)


def _wait(
    store: PostgresStore,
    server: Server,
    key: str,
    after: int,
    deadline: float,
    connection: Connection | None,
) -> bool:
    pause, wait = 0.02, 2 * NOTICED
    while True:
        if store.length(key) > after:
            return True
        left = deadline - server.clock.monotonic()
        if left <= 0:
            return False
        if connection is None or not _heard(connection, min(left, wait)):
            server.clock.sleep(min(pause, left))
            pause = min(pause * 1.5, _OFTEN)
        wait = _RARELY


def _heard(connection: Connection, seconds: float) -> bool:
    """Whether it was worth waiting: False if the connection is of no use for that."""
    try:
        for _ in connection.notifies(timeout=seconds, stop_after=1):
            pass
    except psycopg.Error:
        return False
    return True


def _listening(
    store: PostgresStore, server: Server, watcher: tuple[str, str, float]
) -> Connection | None:
    name = channel(server.place.schema)
    try:
        connection = server.borrow()
    except Lost:
        return None  # who looks again finds out
    try:
        connection.execute(f"LISTEN {name}")
        if store.hears_itself is None:
            # From another one: a pooler that shares connections does pass back one's own.
            server.use(lambda other: other.execute("SELECT pg_notify(%s, '')", (name,)))
            store.hears_itself = any(connection.notifies(timeout=_ECHO, stop_after=1))
        connection.execute(server.sql(_ENLIST), watcher)
    except (psycopg.Error, Lost, HoldfastError) as error:
        if isinstance(error, Lost) or (isinstance(error, psycopg.Error) and is_lost(error)):
            # A connection that broke says nothing of whether the next one hears.
            _stop(server, connection, watcher[1])
            return None
        store.hears_itself = False
    if not store.hears_itself:
        store.capabilities.notifies = False
        _stop(server, connection, watcher[1])
        return None
    return connection


def _stop(server: Server, connection: Connection, who: str) -> None:
    try:
        if not connection.closed:
            connection.execute("UNLISTEN *")
            connection.execute(server.sql(_DELIST), (who,))
    except psycopg.Error:
        connection.close()
    server.give_back(connection)
