"""Check, repair and seal the PostgreSQL store, and report findings about its server."""

from __future__ import annotations

import json

from forestay.base import files
from forestay.base.findings import Finding
from forestay.store.port import Head, Maintenance, Repaired, sum_of_line
from forestay.store.postgres import schema
from forestay.store.postgres.connection import NotThere
from forestay.store.postgres.local_db import read_move_state
from forestay.store.postgres.view import LINE, folded
from forestay.store.sqlite.repair import row_flaw, table_flaw
from forestay.store.sqlite.schema import SEALED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from forestay.store.postgres.connection import Connection, Server
    from forestay.store.postgres.local_db import LocalSide

_SEAL = """
    INSERT INTO @meta VALUES ('moved', %s), ('min_writer', %s)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value
"""
_UNSEAL = "DELETE FROM @meta WHERE key = 'moved'"
_OPEN = "UPDATE @meta SET value = %s WHERE key = 'min_writer' AND value = %s"
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
_FACTS = """
    SELECT current_setting('server_version', true), current_setting('fsync', true),
        current_setting('full_page_writes', true), pg_is_in_recovery()::text
"""


class PostgresMaintenance(Maintenance):
    def __init__(self, local: LocalSide, server: Server) -> None:
        self._local, self._server = local, server

    def remembered(self) -> list[tuple[str, Head]]:
        heads = [(session, head) for _, session, head in self._local.heads.all()]
        lost = self._local.read_server("SELECT session, device, n, hash FROM @lost")
        return heads + [(session, Head(device, n, hash)) for session, device, n, hash in lost]

    def note_lost(self, session: str, head: Head) -> None:
        self._local.note_lost(session, head)

    def check(self) -> list[str]:
        found = self._local.read_server(
            "SELECT checksum_failures FROM pg_stat_database WHERE datname = current_database()"
        )
        failed = int(found[0][0] or 0) if found else 0
        text = f"the server found {failed} page(s) with a wrong checksum: see the log of the server"
        return [text] if failed else []

    def remarks(self) -> list[Finding]:
        facts = self._server.insist(lambda: self._server.use(_server_facts))
        meta: dict[str, str] = dict(self._server.read("SELECT key, value FROM @meta"))
        found = [*_server_remarks(self._server.place.shown, facts), *_table_remarks(meta)]
        local = self._local.sqlite
        if problems := local.maintenance.check():
            what = "the local database of this machine is damaged"
            fix = f"move it away (it has no sessions): {files.move_away_command(local.home)}"
            found.append(_remark("error", what, "; ".join(problems[:3]), fix))
        return found

    def flaws(self) -> list[Finding]:
        try:
            return self._server.insist(
                lambda: self._server.use(lambda one: _find_flaws(one, self._server))
            )
        except NotThere:
            return []

    def repair(self) -> Repaired:
        self._local.prepare()
        return self._server.insist(
            lambda: self._server.use(lambda one: _repair(one, self._server), "update")
        )

    def seal(self, other: str, word: str) -> None:
        oldest = schema.MIN_WRITER if word == "filling" else SEALED

        def act(connection: Connection) -> None:
            with connection.transaction():
                # Wait for processes that write to a session; later ones find the store sealed.
                connection.execute(self._server.sql("LOCK TABLE @session IN EXCLUSIVE MODE"))
                connection.execute(self._server.sql(_SEAL), (f"{word} {other}", str(oldest)))

        self._local.prepare()
        self._local.write_server(act)

    def unseal(self) -> None:
        def act(connection: Connection) -> None:
            with connection.transaction():
                connection.execute(self._server.sql(_UNSEAL))
                values = (str(schema.MIN_WRITER), str(SEALED))
                connection.execute(self._server.sql(_OPEN), values)

        if self.sealed() is not None:
            self._local.write_server(act)

    def sealed(self) -> tuple[str, str] | None:
        return read_move_state(dict(self._server.read("SELECT key, value FROM @meta")))


def _find_flaws(connection: Connection, server: Server) -> list[Finding]:
    present = schema.existing_names(connection, server.place.schema)
    if "meta" not in present:
        return []
    missing = [name for name in schema.tables() if name not in present]
    found = [
        table_flaw(f"the table or index {name} is missing", fixable=name not in _EVENTS)
        for name in missing
    ]
    if not found:
        found += [
            row_flaw(f"the entry of session {id} in the list is damaged")
            for _, id in _bad(connection, server)
        ]
        for (number,) in connection.execute(server.sql(_ORPHANS)).fetchall():
            found.append(row_flaw(f"the events of session {number} are not listed", fixable=False))
        for (digest,) in connection.execute(server.sql(_UNUSED)).fetchall():
            found.append(row_flaw(f"the stored content {digest[:12]} is missing", fixable=False))
    return found


def _bad(connection: Connection, server: Server) -> Iterator[tuple[int, str]]:
    """Yield number and id of the damaged listings."""
    with connection.transaction(), connection.cursor(name="forestay_lines") as cursor:
        cursor.itersize = 5000
        for number, line_sum, *line in cursor.execute(server.sql(_LINES)):
            if sum_of_line(line) != line_sum:
                yield number, str(line[0])


def _repair(connection: Connection, server: Server) -> Repaired:
    done = Repaired()
    present = schema.existing_names(connection, server.place.schema)
    for name in [name for name in schema.tables() if name not in present]:
        if name not in _EVENTS:
            _make(connection, server, name)
            done.done.append(f"recreated {name}")
            if name == "find":
                connection.execute(server.sql("UPDATE @session SET indexed = 0"))
            if name == "row":
                rows = connection.execute(server.sql("SELECT id FROM @session")).fetchall()
                done.stale += [str(id) for (id,) in rows]
    for number, id in list(_bad(connection, server)):
        done.stale.append(_restore(connection, server, number, id))
    if done.stale:
        done.done.append(f"listed {len(done.stale)} session(s) again, from their events")
    return done


def _make(connection: Connection, server: Server, name: str) -> None:
    for statement in schema.statements(server.place.schema):
        is_it = f"CREATE TABLE {server.place.schema}.{name} " in statement
        if is_it or f"INDEX {name} ON" in statement:
            connection.execute(statement)


def _restore(connection: Connection, server: Server, number: int, id: str) -> str:
    first = connection.execute(server.sql(_FIRST), (number,)).fetchone()
    try:
        named = str(json.loads(first[0])["session"]) if first else id
    except (ValueError, KeyError, TypeError, RecursionError):
        named = id
    last = connection.execute(server.sql(_LAST), (number,)).fetchone()
    seq = last[0] if last and last[0] else 0
    connection.execute(
        server.sql("UPDATE @session SET id = %s, key = %s, seq = %s WHERE number = %s"),
        (named, folded(named), seq, number),
    )
    return named


def _server_facts(connection: Connection) -> dict[str, str]:
    names = ("version", "fsync", "full_page_writes", "standby")
    found = connection.execute(_FACTS).fetchone()
    return dict(zip(names, map(str, found or ()), strict=False))


def _remark(severity: str, what: str, why: str = "", fix: str = "") -> Finding:
    return Finding("server", severity, what, why, fix)


def _server_remarks(place: str, facts: dict[str, str]) -> Iterator[Finding]:
    what = f"sessions are stored in {place}, by PostgreSQL {facts.get('version', '')}"
    yield _remark("info", what, "checks and backups of its files are done on the server")
    for name in ("fsync", "full_page_writes"):
        if facts.get(name) == "off":
            why = "recorded events may be lost after a power cut"
            what = f"the server runs with {name} = off"
            yield _remark("error", what, why, f"set {name} = on on the server")
    if facts.get("standby") == "true":
        what = "the server is a read-only replica"
        yield _remark("warning", what, "", "use its primary server")


def _table_remarks(meta: dict[str, str]) -> Iterator[Finding]:
    """Yield remarks about the version of the tables."""
    have = int(meta.get("format", 0))
    if not have:
        why = "the first command that records something creates the tables"
        yield _remark("info", "the store is empty", why)
    elif have < schema.FORMAT:
        what = f"the tables have format {have}, this version uses {schema.FORMAT}"
        yield _remark("info", what, "the next command that records something updates them")
    elif int(meta.get("min_writer", 0)) > schema.FORMAT:
        what = "a newer Forestay uses the store; this version can only read it"
        yield _remark("error", what, "", "update Forestay on this device")
