"""A damaged search index: every event is still found, the damage is reported and repaired."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from forestay.store.sqlite.store import SqliteStore
from forestay.testing.store_contract import batch, found, put
from tests.crash.disk import lay_out
from tests.store.support import mounted, opened

WORDS = ["login", "logout", "session", "password", "üben"]
Harm = Callable[[sqlite3.Connection], object]


def everything(store: SqliteStore) -> dict[str, list[tuple[object, object]]]:
    return {word: sorted(found(store, word, limit=-1), key=str) for word in [*WORDS, "lo"]}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stage")


@pytest.fixture
def indexed(stage: Path) -> Path:
    """Return a closed home with 90 indexed events in three sessions.

    It is created once and then copied to the same path for each test.
    """
    here, kept = stage / "here", stage / "kept"
    if kept.exists():
        lay_out(str(kept), str(here))
    else:
        _make(here)
        shutil.copytree(here, kept)
    return here


def _make(home: Path) -> None:
    store = opened(home)
    for n in range(90):
        text = f"note {n} on {WORDS[n % 5]} and {WORDS[n * 7 % 5]} " + "filler " * (n % 9)
        put(store, f"s{n % 3}", batch(text))
    assert all(everything(store).values())
    store.close()


def in_tables(home: Path, harm: Harm) -> None:
    """Change the tables without the store, and check that they did change."""
    with closing(sqlite3.connect(home / "forestay.db", isolation_level=None)) as connection:
        before = list(connection.iterdump())
        harm(connection)
        assert list(connection.iterdump()) != before


def flipped(seed: int) -> Harm:
    """Flip one bit of one record of the index."""

    def harm(connection: sqlite3.Connection) -> None:
        random = Random(seed)
        table, column = random.choice([("find_data", "block"), ("find_docsize", "sz")])
        rows = connection.execute(f"SELECT id, {column} FROM {table} WHERE length({column})")
        id, data = random.choice(rows.fetchall())
        at = random.randrange(len(data))
        data = data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE id = ?", (data, id))

    return harm


def sql(*statements: str) -> Harm:
    def harm(connection: sqlite3.Connection) -> None:
        for statement in statements:
            connection.execute(statement)

    return harm


HARM: dict[str, Harm] = {
    **{f"a bit, {seed}": flipped(seed) for seed in range(12)},
    "all blocks": sql("UPDATE find_data SET block = x'00'"),
    "its structure": sql("UPDATE find_data SET block = zeroblob(20) WHERE id = 10"),
    "no structure": sql("DELETE FROM find_data WHERE id = 10"),
    "no blocks": sql("DELETE FROM find_data"),
    "no terms": sql("DELETE FROM find_idx"),
    "a text": sql("UPDATE find_content SET c0 = 'nothing'"),
    "a session": sql("UPDATE find_content SET c1 = 'nobody'"),
    "no texts": sql("DELETE FROM find_content"),
    "its version": sql("UPDATE find_config SET v = 99"),
    "no version": sql("DELETE FROM find_config"),
    "a part": sql("DROP TABLE find_data"),
    "all of it": sql("DROP TABLE find"),
    "how far it reaches": sql("UPDATE session SET indexed = 4000000 WHERE number = 2"),
    "where it begins": sql("UPDATE session SET indexed = 3 WHERE number = 2"),
    "its sum": sql("UPDATE meta SET value = '1' WHERE key = 'find_sum'"),
}


@pytest.mark.parametrize("name", HARM)
def test_a_search_finds_everything_however_damaged_the_index_is(indexed: Path, name: str) -> None:
    store = opened(indexed)
    before = everything(store)
    store.close()
    in_tables(indexed, HARM[name])
    assert everything(store) == before
    assert store.maintenance.flaws() == [] == store.maintenance.check()
    put(store, "s1", batch("one more on login"))
    assert len(found(store, "login", limit=-1)) == len(before["login"]) + 1
    store.close()


@pytest.mark.parametrize("name", HARM)
def test_damaged_index_is_reported_and_repaired(indexed: Path, name: str) -> None:
    store = opened(indexed)
    before = everything(store)
    store.close()
    in_tables(indexed, HARM[name])
    flaws = store.maintenance.flaws()
    assert flaws and all(flaw.fixable for flaw in flaws)
    assert store.maintenance.repair().done
    assert store.maintenance.flaws() == [] == store.maintenance.check()
    assert everything(store) == before
    store.close()


@pytest.mark.parametrize("name", HARM)
def test_a_session_is_forgotten_however_damaged_the_index_is(indexed: Path, name: str) -> None:
    in_tables(indexed, HARM[name])
    store = opened(indexed)
    store.erase("s1", lambda view: batch("tombstone", forgotten=1))
    sessions = {session for hits in everything(store).values() for session, _ in hits}
    assert sessions == {"s0", "s2"}
    assert store.maintenance.flaws() == []
    store.close()


@pytest.mark.parametrize("name", ["a bit, 1", "no terms", "its version", "how far it reaches"])
def test_damaged_index_is_ignored_in_a_read_only_home(indexed: Path, name: str) -> None:
    store = opened(indexed)
    before = everything(store)
    store.close()
    in_tables(indexed, HARM[name])
    with mounted("--bind", str(indexed), str(indexed)):
        subprocess.run(["mount", "-o", "remount,ro,bind", str(indexed)], check=True)
        assert everything(store) == before
        store.close()


def test_index_without_a_checksum_is_checked_by_sqlite(indexed: Path) -> None:
    store = opened(indexed)
    before = everything(store)
    store.close()
    in_tables(indexed, sql("DELETE FROM meta WHERE key = 'find_sum'", "DELETE FROM find_idx"))
    in_tables(indexed, sql("UPDATE find_content SET c0 = 'nothing' WHERE id = 1"))
    assert everything(store) == before
    assert store.database.read("SELECT 1 FROM meta WHERE key = 'find_sum'") == [(1,)]
    store.close()
