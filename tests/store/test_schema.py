"""Formats and migrations: only added, in place, in one transaction, and old processes stop."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from forestay.errors import Outdated
from forestay.store.sqlite.schema import FORMAT, MIGRATIONS, MIN_WRITER, migrate
from forestay.store.sqlite.store import SqliteStore
from forestay.testing.store_contract import batch, found, put, texts
from tests.store.support import opened, run, start

# --- format and migration -----------------------------------------------------------------------

NEWER = """
    from forestay.store.sqlite import connection as database, schema
    def newer(min_writer, script="CREATE TABLE added (a INTEGER) STRICT"):
        schema.MIGRATIONS = (*schema.MIGRATIONS, script)
        schema.FORMAT = database.FORMAT = len(schema.MIGRATIONS)
        schema.MIN_WRITER = min_writer
"""


def test_an_old_process_is_refused_at_its_next_write_after_a_migration_and_loses_nothing(
    home: Path,
) -> None:
    old = opened(home)
    put(old, "s1", batch("before"))
    run(NEWER + '    newer(schema.FORMAT + 1)\n    put(opened(), "s1", batch("newer"))', home)
    writes: list[Callable[[], object]] = [
        lambda: put(old, "s1", batch("too late")),
        lambda: old.machine.seen_files.record("s1", "/a", "1", "d"),
        lambda: old.erase("s1", lambda view: batch("gone", forgotten=1)),
    ]
    for write in writes:
        with pytest.raises(Outdated) as outdated:
            write()
        assert outdated.value.exit_code == 6
        assert "restart" in outdated.value.hint
    assert texts(old, "s1") == ["before", "newer"]
    assert found(old, "newer") == [("s1", 2)]
    old.close()
    with pytest.raises(Outdated):
        put(opened(home), "s1", batch("also too late"))
    run('assert texts(opened(), "s1") == ["before", "newer"]', home)


def test_newer_format_that_allows_this_version_is_written(home: Path) -> None:
    old = opened(home)
    put(old, "s1", batch("before"))
    run(NEWER + '    newer(schema.FORMAT)\n    put(opened(), "s1", batch("newer"))', home)
    put(old, "s1", batch("still here"))
    fresh = opened(home)
    put(fresh, "s1", batch("and I"))
    assert texts(fresh, "s1") == ["before", "newer", "still here", "and I"]
    fresh.close()
    old.close()


def test_a_migration_that_dies_halfway_leaves_the_old_format(home: Path) -> None:
    run('store = opened(); put(store, "s1", batch("before")); store.close()', home)
    have = str(FORMAT)
    for death in ("SELECT 1; CREATE TABLE session (a)", "SELECT die()"):
        process = start(
            NEWER
            + f"""
    newer(schema.FORMAT + 1, "CREATE TABLE added (a INTEGER) STRICT; {death}")
    plain = schema.migrate
    def migrate(connection, have):
        connection.create_function("die", 0, lambda: os.kill(os.getpid(), signal.SIGKILL))
        plain(connection, have)
    database.migrate = migrate
    put(opened(), "s1", batch("never"))
            """,
            home,
        )
        process.communicate()
        assert process.returncode != 0
        store = opened(home)
        assert store.database.read("SELECT value FROM meta WHERE key = 'format'") == [(have,)]
        assert store.database.read("SELECT 1 FROM sqlite_schema WHERE name = 'added'") == []
        put(store, "s1", batch("after"))
        store.close()
    assert texts(opened(home), "s1") == ["before", "after", "after"]


def test_a_migration_happens_in_place_while_others_read(home: Path) -> None:
    store = opened(home)
    put(store, "s1", batch("before"))
    inode = os.stat(home / "forestay.db").st_ino
    with store.view("s1") as view:
        run(NEWER + '    newer(1)\n    put(opened(), "s1", batch("newer"))', home)
        assert [stored.seq for stored in view.events()] == [1]
    assert texts(store, "s1") == ["before", "newer"]
    assert os.stat(home / "forestay.db").st_ino == inode
    store.close()


# --- the tables ---------------------------------------------------------------------------------


def test_a_fresh_database_has_the_newest_format(store: SqliteStore) -> None:
    put(store, "s1", batch("a"))
    meta = dict(store.database.read("SELECT key, value FROM meta"))
    assert (meta["format"], meta["min_writer"]) == (str(FORMAT), str(MIN_WRITER))
    assert len(MIGRATIONS) == FORMAT
    assert MIN_WRITER <= FORMAT


def test_published_migrations_never_change() -> None:
    """They are only added: a change to a released one breaks every existing database."""
    digests = [sha256(" ".join(script.split()).encode()).hexdigest()[:16] for script in MIGRATIONS]
    assert digests == ["eca4d9501f5b18e8"]


def test_a_database_can_be_brought_up_from_any_format() -> None:
    whole = tables_after(0)
    for have in range(1, FORMAT + 1):
        assert tables_after(have) == whole


def tables_after(have: int) -> list[tuple[str, str]]:
    """Return the tables of a database that had a format and was migrated."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for script in MIGRATIONS[:have]:
            connection.executescript(script)
        migrate(connection, have)
        return connection.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()


def test_the_large_core_column_is_the_last_of_the_session_table() -> None:
    """The core is large and the last column, so listings read only the first page."""
    with closing(sqlite3.connect(":memory:")) as connection:
        migrate(connection, 0)
        columns = [row[1] for row in connection.execute("PRAGMA table_info(session)")]
    assert columns[-1] == "core"
