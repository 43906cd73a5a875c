"""Flaws: what is missing from the tables, or altered in them, and can be made from the events."""

from __future__ import annotations

import json

from holdfast.store import Flaw, Repaired, sum_of_line
from holdfast.store.postgres import schema
from holdfast.store.postgres.view import LINE, folded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.store.postgres.server import Connection, Server

_LINES = f"SELECT number, line_sum, {LINE} FROM @session"
_ORPHANS = """
    SELECT DISTINCT e.session FROM @event e
    WHERE NOT EXISTS (SELECT 1 FROM @session s WHERE s.number = e.session) LIMIT 20
"""
_FIRST = "SELECT header FROM @event WHERE session = %s ORDER BY seq LIMIT 1"
_LAST = "SELECT coalesce(max(seq), 0) FROM @event WHERE session = %s"
_UNUSED = """
    SELECT DISTINCT b.digest FROM @blob_use b WHERE NOT EXISTS
        (SELECT 1 FROM @blob c WHERE c.digest = b.digest) LIMIT 20
"""
_EVENTS = ("event", "blob", "session", "meta")


def flaws(connection: Connection, server: Server) -> list[Flaw]:
    there = schema.there(connection, server.place.schema)
    if "meta" not in there:
        return []
    missing = [name for name in schema.tables() if name not in there]
    found = [
        Flaw(f"the table or index {name} is missing", mendable=name not in _EVENTS, blocks=True)
        for name in missing
    ]
    if not found:
        found += [
            Flaw(f"what is listed of session {id} is damaged") for _, id in _bad(connection, server)
        ]
        for (number,) in connection.execute(server.sql(_ORPHANS)).fetchall():
            found.append(Flaw(f"the events of session {number} are not listed", mendable=False))
        for (digest,) in connection.execute(server.sql(_UNUSED)).fetchall():
            found.append(Flaw(f"content {digest[:12]} is gone", mendable=False))
    return found


def _bad(connection: Connection, server: Server) -> Iterator[tuple[int, str]]:
    """Number and id of the lines that are not as they were written."""
    with connection.transaction(), connection.cursor(name="holdfast_lines") as cursor:
        cursor.itersize = 5000
        for number, line_sum, *line in cursor.execute(server.sql(_LINES)):
            if sum_of_line(line) != line_sum:
                yield number, str(line[0])


def repair(connection: Connection, server: Server) -> Repaired:
    done = Repaired()
    there = schema.there(connection, server.place.schema)
    for name in [name for name in schema.tables() if name not in there]:
        if name not in _EVENTS:
            _make(connection, server, name)
            done.done.append(f"made {name} anew")
            if name == "find":
                connection.execute(server.sql("UPDATE @session SET indexed = 0"))
            if name == "row":
                rows = connection.execute(server.sql("SELECT id FROM @session")).fetchall()
                done.stale += [str(id) for (id,) in rows]
    for number, id in list(_bad(connection, server)):
        done.stale.append(_renew(connection, server, number, id))
    if done.stale:
        done.done.append(f"listed {len(done.stale)} session(s) anew, from their events")
    return done


def _make(connection: Connection, server: Server, name: str) -> None:
    for statement in schema.statements(server.place.schema):
        is_it = f"CREATE TABLE {server.place.schema}.{name} " in statement
        if is_it or f"INDEX {name} ON" in statement:
            connection.execute(statement)


def _renew(connection: Connection, server: Server, number: int, id: str) -> str:
    first = connection.execute(server.sql(_FIRST), (number,)).fetchone()
    try:
        told = str(json.loads(first[0])["session"]) if first else id
    except (ValueError, KeyError, TypeError, RecursionError):
        told = id
    last = connection.execute(server.sql(_LAST), (number,)).fetchone()
    seq = last[0] if last and last[0] else 0
    connection.execute(
        server.sql("UPDATE @session SET id = %s, key = %s, seq = %s WHERE number = %s"),
        (told, folded(told), seq, number),
    )
    return told
