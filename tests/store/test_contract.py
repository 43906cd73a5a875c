"""The SQLite store fulfils the contract of every store."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from forestay.base.clock import Clock
from forestay.store.open import open_store
from forestay.testing.store_contract import Place, StoreContract


class SqlitePlace(Place):
    def __init__(self, home: Path) -> None:
        super().__init__(partial(open_store, "", str(home), clock=Clock(), machine="m"))
        self.home = home

    def raw(self) -> bytes:
        # In another process: closing these files would drop the locks of this one.
        return subprocess.run(
            ["find", str(self.home), "-type", "f", "-exec", "cat", "{}", "+"],
            capture_output=True,
            check=True,
        ).stdout

    def damage_blob(self, digest: str) -> None:
        other = zlib.compress(b"something else")
        self.harm("UPDATE blob SET data = ? WHERE digest = ?", other, digest)

    def damage_event(self, session: str, seq: int) -> None:
        self.harm(
            "UPDATE event SET data = CAST(data || 'x' AS BLOB) WHERE position ="
            " ((SELECT number FROM session WHERE id = ?) << 32) + ?",
            session,
            seq,
        )

    def harm(self, sql: str, *values: object) -> None:
        connection = sqlite3.connect(self.home / "forestay.db", isolation_level=None)
        assert connection.execute(sql, values).rowcount == 1
        connection.close()

    def copy_data(self) -> Callable[[], None]:
        database, kept = self.home / "forestay.db", self.home.parent / "kept.db"
        shutil.copy(database, kept)

        def put_back() -> None:
            database.unlink()
            shutil.copy(kept, database)

        return put_back


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> SqlitePlace:
        return SqlitePlace(tmp_path / "home")
