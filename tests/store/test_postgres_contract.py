"""The PostgreSQL store fulfils the contract of every store, with a real server."""

from __future__ import annotations

import itertools
import os
import subprocess
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import psycopg
import pytest

from forestay.base.clock import Clock
from forestay.store.open import open_store
from forestay.testing.store_contract import Place, StoreContract

_numbers = itertools.count()
_emptied: list[str] = []
"""Schemas whose tables are there, but empty: making them takes longer than most tests."""
_TABLES = ("session", "event", "row", "blob", "blob_use", "lost", "find", "chore")


class PostgresPlace(Place):
    """A schema and a home for one test."""

    def __init__(self, url: str, home: Path, schema: str = "") -> None:
        self.schema = schema or f"stay{os.getpid()}_{next(_numbers)}"
        self.url = f"{url}&schema={self.schema}"
        super().__init__(partial(open_store, self.url, str(home), clock=Clock(), machine="m"))
        self.server, self.home = url.replace("&prepare=no", ""), home

    def empty(self) -> None:
        """Empty the tables, as if they were those of a new store."""
        with psycopg.connect(self.server) as connection:
            for table in _TABLES:
                connection.execute(f"DELETE FROM {self.schema}.{table}")
            for table in ("session", "chore"):
                connection.execute(f"ALTER TABLE {self.schema}.{table} ALTER number RESTART")
            connection.execute(
                f"UPDATE {self.schema}.meta SET value = md5(random()::text) WHERE key = 'store'"
            )
            connection.execute(f"DROP SCHEMA IF EXISTS {self.schema}kept CASCADE")
        _emptied.append(self.schema)

    def raw(self) -> bytes:
        """Return every value of every table, and every file of the home."""
        files = subprocess.run(
            ["find", str(self.home), "-type", "f", "-exec", "cat", "{}", "+"], capture_output=True
        ).stdout
        with psycopg.connect(self.server) as connection:
            tables = connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = %s", (self.schema,)
            ).fetchall()
            values = [
                value if isinstance(value, bytes) else str(value).encode()
                for (table,) in tables
                for row in connection.execute(f"SELECT * FROM {self.schema}.{table}").fetchall()
                for value in row
            ]
        return files + b" ".join(values)

    def damage_blob(self, digest: str) -> None:
        other = zlib.compress(b"something else")
        self.harm("UPDATE @blob SET data = %s WHERE digest = %s", other, digest)

    def damage_event(self, session: str, seq: int) -> None:
        self.harm(
            "UPDATE @event SET data = data || 'x' WHERE seq = %s"
            " AND session = (SELECT number FROM @session WHERE id = %s)",
            seq,
            session,
        )

    def harm(self, sql: str, *values: object) -> None:
        with psycopg.connect(self.server) as connection:
            made = sql.replace("@", f"{self.schema}.")
            assert connection.execute(made, values).rowcount == 1

    def copy_data(self) -> Callable[[], None]:
        """Copy the tables to another schema; the returned function puts them back."""
        kept = f"{self.schema}kept"
        with psycopg.connect(self.server) as connection:
            names = [
                name
                for (name,) in connection.execute(
                    "SELECT tablename FROM pg_tables WHERE schemaname = %s", (self.schema,)
                ).fetchall()
            ]
            connection.execute(f"CREATE SCHEMA {kept}")
            for name in names:
                connection.execute(
                    f"CREATE TABLE {kept}.{name} AS SELECT * FROM {self.schema}.{name}"
                )

        def put_back() -> None:
            with psycopg.connect(self.server) as connection:
                for name in names:
                    connection.execute(f"DELETE FROM {self.schema}.{name}")
                    connection.execute(
                        f"INSERT INTO {self.schema}.{name} OVERRIDING SYSTEM VALUE"
                        f" SELECT * FROM {kept}.{name}"
                    )
                connection.execute(
                    "SELECT setval(pg_get_serial_sequence(%s, 'number'), 1)",
                    (f"{self.schema}.session",),
                )

        return put_back


class TestPostgresStore(StoreContract):
    @pytest.fixture
    def place(self, pg_url: str, tmp_path: Path) -> Iterator[PostgresPlace]:
        made = PostgresPlace(pg_url, tmp_path / "home", _emptied.pop() if _emptied else "")
        yield made
        with suppress(psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            made.empty()
