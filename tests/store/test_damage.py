"""A damaged, replaced or full database: a clear error, and nothing is lost.

Whatever happened to the files, the error has what, why and what helps; nothing is overwritten that
could still be saved, and a chain is never continued under an id that may fork.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from forestay.base.clock import Clock
from forestay.errors import Damaged, ForestayError, StoreFailed
from forestay.model.event import NoteAdded, SessionStarted
from forestay.store.port import Batch, Head, View
from forestay.store.sqlite.connection import MEANING, Database
from forestay.store.sqlite.store import SqliteStore
from forestay.testing.store_contract import batch, head, put, texts
from tests.store.support import (
    describe_files,
    is_locked,
    journal_of,
    mounted,
    opened,
    run,
    start,
    unstorable_batch,
)

# --- replaced, copied, moved, set back ----------------------------------------------------------


def test_a_database_that_is_replaced_while_open_is_reported_once(home: Path) -> None:
    store = opened(home)
    put(store, "s1", batch("a"))
    store.close()
    shutil.copy(home / "forestay.db", home.parent / "other.db")
    put(store, "s1", batch("b"))
    device = store.machine.device
    os.rename(home.parent / "other.db", home / "forestay.db")
    for name in ("forestay.db-wal", "forestay.db-shm"):
        (home / name).unlink(missing_ok=True)
    run('put(opened(), "s1", batch("of the new file")); os._exit(0)', home)
    with pytest.raises(StoreFailed, match="replaced") as failed:
        put(store, "s1", batch("c"))
    assert "verify" in failed.value.hint
    put(store, "s1", batch("d"))
    assert texts(store, "s1") == ["a", "of the new file", "d"]
    assert store.machine.device != device
    store.close()


def test_readers_read_the_new_file_after_a_database_was_replaced(home: Path) -> None:
    store = opened(home)
    put(store, "s1", batch("a"))
    store.close()
    shutil.copytree(home, home.parent / "copy")
    put(store, "s1", batch("b"))
    store.close()
    assert texts(store, "s1") == ["a", "b"]
    os.rename(home.parent / "copy" / "forestay.db", home / "forestay.db")
    assert texts(store, "s1") == ["a"]
    store.close()


def test_home_that_vanished_while_open_is_reported_then_created_again(home: Path) -> None:
    store = opened(home)
    put(store, "s1", batch("a"))
    shutil.rmtree(home)
    with pytest.raises(ForestayError):
        put(store, "s1", batch("b"))

    def plan(view: View) -> Batch:
        # A lock on the removed file would exclude no other process.
        assert is_locked(str(home / "writer.lock"))
        return batch("c")

    store.append("s1", plan, create=True)
    assert texts(store, "s1") == ["c"]
    store.close()


def test_copied_home_gets_a_new_device_id_and_the_original_does_not(home: Path) -> None:
    original = opened(home)
    put(original, "s1", batch("a"))
    device = original.machine.device
    original.close()
    subprocess.run(["cp", "-r", str(home), str(home.parent / "copy")], check=True)
    copy = opened(home.parent / "copy")
    seen: list[str] = []
    copy.append("s1", lambda view: seen.append(view.device))
    assert seen[0] != device
    put(copy, "s1", batch("b"))
    put(original, "s1", batch("b"))
    assert (copy.machine.device, original.machine.device) == (seen[0], device)
    again = opened(home.parent / "copy")
    put(again, "s1", batch("c"))
    assert again.machine.device == seen[0]
    for store in (copy, original, again):
        store.close()


def test_moved_home_has_the_same_device_id(home: Path) -> None:
    store = opened(home)
    put(store, "s1", batch("a"))
    device = store.machine.device
    store.close()
    os.rename(home, home.parent / "moved")
    moved = opened(home.parent / "moved")
    put(moved, "s1", batch("b"))
    assert moved.machine.device == device
    moved.close()


def test_home_moved_to_another_machine_gets_a_new_device_id(home: Path) -> None:
    store = opened(home)
    put(store, "s1", batch("a"))
    device = store.machine.device
    store.close()
    elsewhere = opened(home, machine="another")
    put(elsewhere, "s1", batch("b"))
    assert elsewhere.machine.device != device
    elsewhere.close()


def test_a_database_of_last_week_gets_a_new_device_id_and_verify_names_the_loss(
    home: Path,
) -> None:
    store = opened(home)
    journal = journal_of(store)
    journal.append("s1", SessionStarted(goal="g"), actor="user", create=True)
    store.close()
    shutil.copy(home / "forestay.db", home.parent / "last-week.db")
    lost = journal.append("s1", NoteAdded(text="since then"), actor="user").events[-1]
    store.close()
    # In place, so that only the remembered head can show it.
    with (home.parent / "last-week.db").open("rb") as old, (home / "forestay.db").open("wb") as new:
        shutil.copyfileobj(old, new)
    store = opened(home)
    journal = journal_of(store)
    (finding,) = journal.verify("s1").findings
    assert (finding.code, lost.address in finding.what) == ("lost", True)
    again = journal.append("s1", NoteAdded(text="today"), actor="user").events[-1]
    assert again.head.device != lost.head.device
    (finding,) = journal.verify("s1").findings
    assert finding.code == "lost"
    later = journal.append("s1", NoteAdded(text="more"), actor="user").events[-1]
    assert later.head.device == again.head.device == store.machine.device
    store.close()


def test_two_processes_on_one_session_never_appear_as_a_loss(home: Path) -> None:
    mine = opened(home)
    journal = journal_of(mine)
    first = journal.append("s1", SessionStarted(goal="g"), actor="user", create=True).events[-1]
    other = journal_of(opened(home))
    for number in range(6):
        for writing in (journal, other):
            recorded = writing.append("s1", NoteAdded(text=str(number)), actor="user")
            assert recorded.events[-1].head.device == first.head.device
        assert journal.verify("s1").ok
    mine.close()
    other.store.close()


# --- damage -------------------------------------------------------------------------------------


def harm_by_removing(path: Path) -> None:
    path.unlink()


def harm_by_emptying(path: Path) -> None:
    path.write_bytes(b"")


def harm_by_cutting(path: Path) -> None:
    os.truncate(path, 6000)


def harm_by_cutting_short(path: Path) -> None:
    os.truncate(path, 50)


def harm_by_garbage(path: Path) -> None:
    path.write_bytes(os.urandom(20_000))


def harm_by_another_database(path: Path) -> None:
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE mine (a)")
    connection.commit()
    connection.close()


HARMS = [
    harm_by_removing,
    harm_by_emptying,
    harm_by_cutting,
    harm_by_cutting_short,
    harm_by_garbage,
    harm_by_another_database,
]


@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_database_is_reported_and_nothing_is_overwritten(
    home: Path, harm: Callable[[Path], None]
) -> None:
    store = opened(home)
    for number in range(30):
        put(store, f"s{number}", batch("x" * 500, head=head(1)))
    store.close()
    harm(home / "forestay.db")
    for name in ("forestay.db-wal", "forestay.db-shm"):
        (home / name).unlink(missing_ok=True)
    before = describe_files(home)
    for use in (
        lambda: opened(home).catalogue(),
        lambda: texts(opened(home), "s1"),
        lambda: put(opened(home), "s1", batch("y")),
        lambda: put(opened(home), "new", batch("y")),
        lambda: opened(home).erase("s1", lambda view: batch("gone", forgotten=1)),
    ):
        with pytest.raises(Damaged) as damaged:
            use()
        assert damaged.value.exit_code == 5
        assert "forestay doctor" in damaged.value.hint
    after = describe_files(home)
    for name in before.keys() - {"writer.lock"}:
        assert after[name] == before[name], name
    assert after.keys() - before.keys() <= {"forestay.db-wal", "forestay.db-shm"}


def test_log_of_a_missing_database_is_never_deleted(home: Path) -> None:
    """SQLite would delete the log of an empty database, with every commit that is only there."""
    run('put(opened(), "s1", batch("only in the log")); os._exit(0)', home)
    (home / "heads").unlink(missing_ok=True)
    for harm in (harm_by_emptying, harm_by_removing):
        harm(home / "forestay.db")
        before = describe_files(home)["forestay.db-wal"]
        with pytest.raises(Damaged):
            opened(home).catalogue()
        with pytest.raises(Damaged):
            put(opened(home), "s2", batch("x"))
        assert describe_files(home)["forestay.db-wal"] == before


def test_database_created_by_another_process_during_the_first_read_is_not_damage(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, created = opened(home), []
    read_heads = store.database.heads.all

    def create_then_read_heads() -> Iterator[tuple[int, str, Head]]:
        created.append(run('put(opened(), "s1", batch("first")); os._exit(0)', home))
        return read_heads()

    monkeypatch.setattr(store.database.heads, "all", create_then_read_heads)
    assert texts(store, "s1") == ["first"]
    assert created
    store.close()


def test_empty_file_without_earlier_sessions_is_not_damage(home: Path) -> None:
    home.mkdir(0o700)
    (home / "forestay.db").touch()
    store = opened(home)
    assert store.catalogue() == []
    put(store, "s1", batch("a"))
    assert texts(store, "s1") == ["a"]
    store.close()


def test_interrupted_creation_of_a_database_starts_again(home: Path) -> None:
    home.mkdir(0o700)
    for name in ("forestay.db.new", "forestay.db.new-wal", "forestay.db.new-journal"):
        (home / name).write_bytes(b"half a database")
    store = opened(home)
    assert store.catalogue() == []
    put(store, "s1", batch("a"))
    store.close()
    assert sorted(os.listdir(home)) == ["forestay.db", "writer.lock", "writer.queue"]


def test_no_process_ever_opens_half_a_database(home: Path) -> None:
    """Kill at any statement of the creation: there is no database, and the next write works."""
    for step in (0, 1, 3, 10, 20):
        process = start(
            """
            from forestay.store.sqlite import connection as database
            plain, left = database.migrate, [int(sys.argv[2])]
            def migrate(connection, have):
                def trace(sql):
                    left[0] -= 1
                    if left[0] < 0:
                        os.kill(os.getpid(), signal.SIGKILL)
                connection.set_trace_callback(trace)
                plain(connection, have)
            database.migrate = migrate
            put(opened(), "s1", batch("never"))
            """,
            home,
            step,
        )
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert not (home / "forestay.db").exists()
        assert opened(home).catalogue() == []
    put(opened(home), "s1", batch("a"))
    assert texts(opened(home), "s1") == ["a"]


def test_flipped_byte_in_derived_data_is_noticed_and_repaired(store: SqliteStore) -> None:
    put(store, "s1", batch("a", core=b"core", rows=[("step", "t", True, 1, b"row")]))
    writer = store.database._writer
    assert writer is not None
    writer.execute("UPDATE session SET core = x'00'")
    writer.execute("UPDATE row SET value = x'0000000001'")
    with store.view("s1") as view:
        assert (view.core, view.fold) == (b"", -1)
        for look_at in (lambda: view.row("step", "t"), lambda: view.rows("step"), view.all_rows):
            with pytest.raises(Damaged):
                look_at()


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE event SET key = 'other'",
        "UPDATE event SET key = NULL",
        "UPDATE event SET salt = x'00'",
        "UPDATE event SET position = position + 1",
        "UPDATE event SET position = position + 300",
        "DELETE FROM event",
        "UPDATE row SET open = 0",
        "UPDATE row SET rank = 2",
        "UPDATE row SET kind = 'file'",
        "UPDATE row SET value = x'0000000001'",
        "DELETE FROM row",
        "INSERT INTO row VALUES (1, 'step', 'new', 1, 1, x'')",
        "UPDATE session SET seq = 2",
    ],
)
def test_checksum_of_a_session_detects_a_change_of_its_stored_data(
    store: SqliteStore, harm: str
) -> None:
    put(store, "s1", batch("a", key="k", rows=[("step", "t", True, 1, b"row")]))
    with store.view("s1") as view:
        assert view.intact()
    writer = store.database._writer
    assert writer is not None
    writer.execute(harm)
    with store.view("s1") as view:
        assert not view.intact()


def test_a_flipped_byte_in_a_text_does_not_hide_the_other_sessions(store: SqliteStore) -> None:
    put(store, "s1", batch("a", goal="one"))
    put(store, "s2", batch("a", goal="two"))
    writer = store.database._writer
    assert writer is not None
    writer.execute("UPDATE session SET goal = CAST(x'ff6f6e65' AS TEXT) WHERE id = 's1'")
    assert sorted(str(row["goal"]) for row in store.catalogue()) == ["two", "�one"]
    with store.view("s1") as view:
        assert not view.listing()["sound"]


@pytest.mark.parametrize("value", ["", "x", "-1", "1.5", "²"])
def test_a_format_that_cannot_be_read_is_damage_not_a_traceback(
    store: SqliteStore, value: str
) -> None:
    put(store, "s1", batch("a"))
    writer = store.database._writer
    assert writer is not None
    writer.execute("UPDATE meta SET value = ? WHERE key = 'min_writer'", (value,))
    with pytest.raises(Damaged):
        put(store, "s1", batch("b"))
    with pytest.raises(Damaged):
        store.machine.seen_files.record("s1", "/a", "1", "d")


def test_arrival_number_in_use_is_damage_and_nothing_is_overwritten(
    store: SqliteStore,
) -> None:
    put(store, "s1", batch("a", "b"))
    writer = store.database._writer
    assert writer is not None
    writer.execute("UPDATE session SET seq = 1")
    with pytest.raises(Damaged):
        put(store, "s1", batch("c"))
    assert texts(store, "s1") == ["a", "b"]


def test_errors_while_reading_a_view_are_translated_to_store_failed(store: SqliteStore) -> None:
    put(store, "s1", batch("a"))
    with store.view("s1") as view:
        assert view._connection is not None
        view._connection.close()
        with pytest.raises(StoreFailed):
            view.row("step", "t")


def test_a_connection_that_failed_is_not_trusted_again(store: SqliteStore) -> None:
    put(store, "s1", batch("a"))
    before = store.database._writer
    with pytest.raises(Damaged):
        put(store, "s1", unstorable_batch())
    assert store.database._writer is None

    def plan(view: View) -> Batch:
        raise StoreFailed("an error of the disk") from sqlite3.OperationalError("disk I/O error")

    put(store, "s1", batch("b"))
    assert store.database._writer is not before
    with pytest.raises(StoreFailed):
        store.append("s1", plan)
    assert store.database._writer is None


def test_a_blob_that_cannot_be_unpacked_is_damage(store: SqliteStore) -> None:
    put(store, "s1", batch("a"), blobs=[b"data"])
    writer = store.database._writer
    assert writer is not None
    writer.execute("UPDATE blob SET data = x'00'")
    with pytest.raises(Damaged):
        store.blob(sha256(b"data").hexdigest())


def test_search_ends_even_if_events_are_missing(home: Path) -> None:
    out = run(
        """
        from forestay.testing.store_contract import found
        store = opened()
        put(store, "s1", batch("a word", "a word", "a word"))
        put(store, "s2", batch("a word"))
        store.database._writer.execute("DELETE FROM event WHERE position = (1 << 32) + 3")
        report(sorted(found(store, "word")))
        report(sorted(found(store, "word")))
        """,
        home,
    )
    assert out.splitlines() == [str([("s1", 1), ("s1", 2), ("s2", 1)])] * 2


def test_integrity_problems_of_a_database_are_listed(store: SqliteStore, home: Path) -> None:
    for number in range(40):
        put(store, f"s{number}", batch("x" * 300))
    store.close()
    assert store.maintenance.check() == []
    store.close()
    with (home / "forestay.db").open("r+b") as file:
        file.seek(4096 * 3)
        file.write(os.urandom(4096 * 3))
    assert store.maintenance.check() != []
    store.close()


# --- a full disk --------------------------------------------------------------------------------


def test_append_on_a_full_disk_is_not_acknowledged_and_succeeds_when_there_is_space(
    home: Path,
) -> None:
    home.mkdir(mode=0o700)
    with mounted("-t", "tmpfs", "-o", "size=2m,mode=0700", "tmpfs", str(home)):
        assert os.path.ismount(home)
        store = opened(home)
        put(store, "s1", batch("0"))
        acknowledged = ["0"]
        (home / "ballast").write_bytes(bytes(200_000))

        def fill() -> None:
            for number in range(1, 10_000):
                put(store, "s1", batch(str(number) + "x" * 2000))
                acknowledged.append(str(number) + "x" * 2000)

        with pytest.raises(StoreFailed) as failed:
            fill()
        assert "space" in failed.value.hint
        assert failed.value.exit_code == 1
        assert texts(store, "s1") == acknowledged
        for _ in range(3):
            with pytest.raises(StoreFailed):
                put(store, "s1", batch("y" * 200_000))
        assert texts(store, "s1") == acknowledged
        (home / "ballast").unlink()
        put(store, "s1", batch("again"))
        assert texts(store, "s1") == [*acknowledged, "again"]
        assert store.maintenance.check() == []
        store.close()


# --- errors of the driver -----------------------------------------------------------------------

# These are no errors, or names of the authorizer that look like result codes.
NO_ERRORS = """
    OK ROW DONE NOTICE WARNING DENY IGNORE DELETE INSERT PRAGMA READ SELECT TRANSACTION UPDATE
    ATTACH DETACH REINDEX ANALYZE FUNCTION SAVEPOINT RECURSIVE
""".split()


def test_every_sqlite_error_code_is_translated() -> None:
    codes = {
        name: value
        for name, value in vars(sqlite3).items()
        if name.startswith("SQLITE_") and name.count("_") == 1 and value < 256
    }
    unknown = {n for n, v in codes.items() if n[7:] not in NO_ERRORS and v not in MEANING}
    assert unknown == set()
    assert codes.keys() - {f"SQLITE_{name}" for name in NO_ERRORS} >= {"SQLITE_BUSY", "SQLITE_FULL"}


@pytest.mark.parametrize("code", sorted(MEANING))
def test_translated_error_has_what_why_and_hint(home: Path, code: int) -> None:
    base = Database(str(home), clock=Clock(), timeout=1, settle=lambda connection: None)
    cause = sqlite3.OperationalError("the driver's words")
    cause.sqlite_errorcode = code
    error = base.translated(cause, "update")
    assert type(error) is MEANING[code][0]
    assert error.what and error.why == "the driver's words" and error.hint
    assert (error.operation, error.file) == ("update", str(home / "forestay.db"))
    cause.sqlite_errorcode = code | 77 << 8
    assert isinstance(base.translated(cause, "update"), ForestayError)
