"""Measure a store on a server: one event compared with an equally durable raw insert."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from forestay.base.clock import Clock
from forestay.base.redact import Redactor
from forestay.journal.journal import Journal
from forestay.store.open import open_store

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class NotRun(Exception):
    """Report why no server can run here."""


@contextmanager
def run_server(
    folder: str, size: int, flush: int = 0
) -> Iterator[tuple[Journal, Callable[[], None], str]]:
    """Provide a journal on a server with files on the measured disk, and a raw insert of `size`.

    With `flush` the files are in memory, and each flush takes so many microseconds: the speed of
    disks, even of one over time, varies more than the measured difference.
    """
    try:
        import psycopg

        from tests.pgserver import NoServer, PgServer
    except ImportError as error:
        raise NotRun(str(error)) from error
    try:
        durable = {"fsync": "on", "full_page_writes": "on", "wal_level": "replica"}
        delayed = {"commit_delay": str(flush), "commit_siblings": "0"} if flush else {}
        server = PgServer(18, "" if flush else folder, **durable, **delayed)
    except (NoServer, OSError) as error:
        raise NotRun(str(error)) from error
    try:
        store = open_store(server.url, os.path.join(folder, "home"), clock=Clock(), machine="bench")
        with psycopg.connect(server.url, autocommit=True) as raw:
            raw.execute("CREATE TABLE raw (id bigserial PRIMARY KEY, data bytea)")
            row = raw.execute("SHOW server_version").fetchone()
            data = b"x" * size

            def insert() -> None:
                raw.execute("INSERT INTO raw (data) VALUES (%b)", (data,))

            yield Journal(store, Clock(), Redactor()), insert, str(row and row[0])
        store.close()
    finally:
        server.close()
