"""The rules of the SQLite store that were learned by experiment: a test for each.

Where it can be done in a moment, a test also shows on a scratch database what happens without the
rule, so that no reader mistakes it for superstition.
"""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import forestay
from forestay.base import files
from forestay.base.clock import FakeClock
from forestay.errors import (
    Busy,
    Damaged,
    NoSession,
    ReadOnly,
    Refused,
    StoreFailed,
)
from forestay.journal.journal import Journal
from forestay.model.event import NoteAdded, SessionStarted
from forestay.store.port import Entry
from forestay.store.sqlite import connection as sqlite_connection
from forestay.store.sqlite import filesystem_check
from forestay.store.sqlite.store import SqliteStore
from forestay.testing.store_contract import batch, found, head, put, text_of, texts
from tests.store.support import (
    describe_files,
    end,
    is_locked,
    journal_of,
    mounted,
    opened,
    raising,
    read_word,
    resume_process,
    run,
    size,
    start,
    unstorable_batch,
)

DATABASE_FILES = ("forestay.db", "forestay.db-wal", "forestay.db-shm")


# --- one writer lock ----------------------------------------------------------------------------


class Spy(sqlite_connection.Reader):
    """A connection that records whether the writer lock was held when it was used."""

    path = ""
    log: list[tuple[int, str, bool]] = []  # noqa: RUF012 - shared by all of them, on purpose

    def note(self, what: str) -> None:
        self.log.append((id(self), what, is_locked(Spy.path)))

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        self.note(sql)
        return super().execute(sql, *values)

    def executescript(self, sql: str) -> sqlite3.Cursor:
        self.note(sql)
        return super().executescript(sql)

    def close(self) -> None:
        self.note("close")
        super().close()


def test_all_use_of_the_writer_is_under_the_lock(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_connection, "Reader", Spy)
    monkeypatch.setattr(Spy, "path", store.database.lock.path)
    monkeypatch.setattr(Spy, "log", [])
    put(store, "s1", batch("a word", head=head(1)))
    store.machine.seen_files.record("s1", "/a", "1", "d")
    assert found(store, "word") == [("s1", 1)]
    with pytest.raises(LookupError):
        store.append("s1", raising)
    with pytest.raises(Damaged):
        put(store, "s1", unstorable_batch())
    put(store, "s1", batch("b"))
    store.erase("s1", lambda view: batch("tombstone", forgotten=1))
    store.close()
    writers = {who for who, what, _ in Spy.log if what == "BEGIN IMMEDIATE"}
    used = [(what, held) for who, what, held in Spy.log if who in writers]
    assert [what for what, held in used if not held] == []
    assert {"COMMIT", "ROLLBACK", "PRAGMA wal_checkpoint(TRUNCATE)", "close"} <= {
        w for w, _ in used
    }
    assert not any(held for who, what, held in Spy.log if who not in writers)


def test_head_is_remembered_before_the_lock_is_released(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise two processes could write their slots in the wrong order."""
    held: list[bool] = []
    path = store.database.lock.path
    monkeypatch.setattr(store.database.heads, "remember", lambda *_: held.append(is_locked(path)))
    put(store, "s1", batch("a", head=head(1)))
    put(store, "s1", batch("b"))
    assert held == [True]


def test_a_folder_that_cannot_be_synced_is_a_failure(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite ignores such a failure; then a power cut may lose the log and everything in it."""

    def failing(path: str) -> None:
        raise OSError(errno.EIO, "input/output error")

    for before in ([], ["a"]):
        with monkeypatch.context() as patched:
            patched.setattr(files, "sync_folder", failing)
            with pytest.raises(StoreFailed):
                put(store, "s1", batch("not acknowledged"))
        assert len(store.catalogue()) == len(before)
        put(store, "s1", batch("a"))
        assert texts(store, "s1") == [*before, "a"]
        store.close()


def test_a_holder_that_was_stopped_is_named_and_nothing_is_lost(home: Path) -> None:
    holder = start(
        """
        def plan(view):
            report("holding")
            sys.stdin.readline()
            return batch("from the holder")
        opened().append("s1", plan, create=True)
        """,
        home,
    )
    read_word(holder, "holding")
    holder.send_signal(signal.SIGSTOP)
    store = opened(home, timeout=0.3)
    began = time.monotonic()
    with pytest.raises(Busy) as busy:
        put(store, "s1", batch("mine"))
    assert 0.25 < time.monotonic() - began < 60
    assert f"pid {holder.pid}" in str(busy.value)
    assert (busy.value.exit_code, busy.value.retryable) == (6, True)
    assert "busy_timeout" in busy.value.hint
    holder.send_signal(signal.SIGCONT)
    resume_process(holder)
    end(holder)
    put(store, "s1", batch("mine"))
    assert texts(store, "s1") == ["from the holder", "mine"]
    store.close()


def test_writer_that_died_leaves_nothing_and_blocks_no_process(home: Path) -> None:
    writer = start(
        """
        store = opened()
        put(store, "s1", batch("a"))
        def plan(view):
            report("holding")
            sys.stdin.readline()
            return batch("never")
        store.append("s1", plan)
        """,
        home,
    )
    read_word(writer, "holding")
    writer.kill()
    writer.communicate()
    store = opened(home, timeout=1)
    put(store, "s1", batch("b"))
    assert texts(store, "s1") == ["a", "b"]
    store.close()


def test_process_that_keeps_writing_starves_no_other(home: Path) -> None:
    store = opened(home, timeout=10)
    put(store, "s1", batch("start"))
    greedy = start(
        """
        store = opened()
        report("writing")
        stop = time.monotonic() + 20
        while time.monotonic() < stop and not os.path.exists(home + "/../stop"):
            put(store, "s1", batch("greedy"))
        """,
        home,
    )
    read_word(greedy, "writing")
    waits = []
    for number in range(15):
        began = time.monotonic()
        put(store, "s1", batch(f"mine {number}"))
        waits.append(time.monotonic() - began)
    (home.parent / "stop").touch()
    end(greedy)
    store.close()
    assert sorted(waits)[7] < 0.5, waits


def test_an_interrupt_in_the_middle_of_a_write_leaves_no_trace(home: Path) -> None:
    out = run(
        """
        signal.signal(signal.SIGINT, signal.default_int_handler)
        store = opened()
        put(store, "s1", batch("a"))
        def plan(view):
            signal.raise_signal(signal.SIGINT)
            return batch("never")
        try:
            store.append("s1", plan)
        except KeyboardInterrupt:
            put(store, "s1", batch("b"))
        report(texts(store, "s1"))
        """,
        home,
    )
    assert out == str(["a", "b"])


def test_another_program_that_locks_the_database_makes_us_wait_then_busy(home: Path) -> None:
    store = opened(home, timeout=0.3)
    put(store, "s1", batch("a"))
    for how in ("IMMEDIATE", "EXCLUSIVE"):
        other = start(
            """
            connection = sqlite3.connect(home + "/forestay.db", isolation_level=None)
            connection.execute("BEGIN " + sys.argv[2])
            report("locked")
            sys.stdin.readline()
            """,
            home,
            how,
        )
        read_word(other, "locked")
        with pytest.raises(Busy, match="another program") as busy:
            put(store, "s1", batch("not now"))
        assert busy.value.exit_code == 6
        assert texts(store, "s1")[0] == "a"
        resume_process(other)
        end(other)
        put(store, "s1", batch(f"after {how}"))
    assert texts(store, "s1") == ["a", "after IMMEDIATE", "after EXCLUSIVE"]
    store.close()


# --- readers ------------------------------------------------------------------------------------

READ_EVERYTHING = """
    store = opened()
    assert texts(store, "s1") == ["a", "b"]
    assert len(store.catalogue()) == 1
    assert store.resolve("s") == ["s1"]
    assert store.blob("0" * 64) is None
    assert store.maintenance.check() == []
    assert store.machine.device and store.machine.secret() and store.maintenance.remembered()
    assert not store.watch("s1", 2, 0.01)
    store.machine.projects.all(), store.machine.holders.find()
    store.close()
"""


def test_readers_write_nothing_and_never_checkpoint(home: Path) -> None:
    run('put(opened(), "s1", batch("a", "b", head=head(1))); os._exit(0)', home)
    before = describe_files(home)
    assert size(home / "forestay.db-wal") > 0
    run(READ_EVERYTHING, home)
    after = describe_files(home)
    # The -shm is memory shared by all connections: readers mark their place there.
    for name in before.keys() - {"forestay.db-shm"}:
        assert after[name] == before[name], name
    assert after.keys() == before.keys()


def test_a_reader_cannot_write_even_if_it_tries(store: SqliteStore) -> None:
    put(store, "s1", batch("a"))
    with pytest.raises(ReadOnly):
        store.database.read("DELETE FROM event")
    assert texts(store, "s1") == ["a"]


def test_reading_a_home_that_is_not_there_makes_nothing(home: Path) -> None:
    store = opened(home)
    assert store.catalogue() == []
    with pytest.raises(NoSession):
        store.view("s1")
    assert store.search("x", text_of=text_of) == []
    assert store.machine.holders.find() == []
    store.close()
    assert not home.exists()
    home.mkdir()
    assert store.catalogue() == []
    assert list(home.iterdir()) == []


@contextmanager
def read_only(home: Path) -> Iterator[None]:
    with mounted("--bind", str(home), str(home)):
        subprocess.run(["mount", "-o", "remount,ro,bind", str(home)], check=True)
        yield


@pytest.mark.parametrize("log", ["with a log", "with an empty log", "without a log"])
def test_a_read_only_home_can_be_read_and_searched_but_not_written(home: Path, log: str) -> None:
    leave = "os._exit(0)" if log == "with a log" else "store.close()"
    run(f'store = opened(); put(store, "s1", batch("a", "b", head=head(1))); {leave}', home)
    assert bool(size(home / "forestay.db-wal")) == (log == "with a log")
    if log == "with an empty log":
        (home / "forestay.db-wal").touch(0o600)
    before = describe_files(home)
    with read_only(home):
        run(READ_EVERYTHING, home)
        store = opened(home)
        assert found(store, "b") == [("s1", 2)]
        with pytest.raises(ReadOnly) as refused:
            put(store, "s1", batch("c"))
        assert refused.value.exit_code == 6
        store.close()
        assert describe_files(home) == before
    put(store, "s1", batch("c"))
    assert texts(store, "s1") == ["a", "b", "c"]
    store.close()


def test_writes_after_a_home_became_writable_are_visible(home: Path) -> None:
    run('store = opened(); put(store, "s1", batch("a")); store.close()', home)
    store = opened(home)
    with read_only(home):
        assert texts(store, "s1") == ["a"]
    run('put(opened(), "s1", batch("b")); os._exit(0)', home)
    assert texts(store, "s1") == ["a", "b"]
    store.close()


def test_unreadable_log_in_a_read_only_home_is_reported(home: Path) -> None:
    run('put(opened(), "s1", batch("a")); os._exit(0)', home)
    (home / "forestay.db-shm").unlink()
    with read_only(home):
        with pytest.raises(ReadOnly, match="newest events") as refused:
            opened(home).catalogue()
        assert f"cp -r {home}" in refused.value.hint
    assert len(opened(home).catalogue()) == 1


def test_long_read_does_not_block_writers_and_the_log_shrinks_after_it(
    store: SqliteStore, home: Path
) -> None:
    put(store, "s1", batch("a"))
    with store.view("s1") as view:
        for number in range(20):
            put(store, "s1", batch(str(number)), blobs=[noise(number)])
        assert size(home / "forestay.db-wal") > 18_000_000
        assert [stored.seq for stored in view.events()] == [1]
    for number in range(20, 24):
        put(store, "s1", batch(str(number)), blobs=[noise(number)])
    assert size(home / "forestay.db-wal") <= 17_000_000
    assert len(texts(store, "s1")) == 25


def test_the_log_does_not_grow_without_bound(store: SqliteStore, home: Path) -> None:
    for number in range(16):
        put(store, "s1", batch(str(number)), blobs=[noise(number)])
    assert size(home / "forestay.db-wal") < 8_000_000


# --- many at once -------------------------------------------------------------------------------


def test_events_appended_together_are_stored_like_single_ones(store: SqliteStore) -> None:
    every = [Entry(f"h{n}".encode(), b"salt", b"data", f"key {n}") for n in range(1_017)]
    every[3], every[1_016] = Entry(b"erased", None, None, "key 3"), Entry(b"keyless", b"s", b"")
    for session, some in (("together", [every]), ("apart", [[one] for one in every])):
        for entries in some:
            what = batch()
            what.entries = entries
            put(store, session, what)
    columns = "position & 0xffffffff, key, header, salt, data"
    together, apart = (
        store.database.read(f"SELECT {columns} FROM event WHERE position >> 32 = ?", (number,))
        for number in (1, 2)
    )
    assert together == apart and len(apart) == 1_017
    (sum_of_one, sum_of_other) = store.database.read(
        "SELECT event_sum FROM session ORDER BY number"
    )
    assert sum_of_one == sum_of_other


def test_memory_for_a_large_transaction_is_released_by_the_next(store: SqliteStore) -> None:
    def room(connection: sqlite3.Connection) -> int:
        return int(connection.execute("PRAGMA cache_size").fetchone()[0])

    usual = store.database.write(room)
    put(store, "s1", batch(*map(str, range(1_100))))
    assert store.database._writer is not None and room(store.database._writer) != usual
    assert store.database.write(room) == usual


# --- erasing ------------------------------------------------------------------------------------


def test_erasing_shrinks_the_database(store: SqliteStore, home: Path) -> None:
    put(store, "s1", batch("a"), blobs=[noise(1), noise(2)])
    put(store, "s2", batch("b"))
    store.erase("s1", lambda view: batch("tombstone", forgotten=1))
    assert size(home / "forestay.db") < 500_000
    assert size(home / "forestay.db-wal") < 50_000
    assert store.database.read("PRAGMA freelist_count") == [(0,)]


def test_old_pages_that_a_reader_held_are_removed_by_the_next_writer(home: Path) -> None:
    out = run(
        """
        from forestay.errors import Busy
        store, reading = opened(), opened()
        put(store, "s1", batch("Geheimnis " * 50))
        with reading.view("s1") as view:
            try:
                store.erase("s1", lambda view: batch("tombstone", forgotten=1))
            except Busy as busy:
                report(busy)
            os._exit(0)
        """,
        home,
    )
    assert "still in the files" in out
    assert b"Geheimnis" in raw(home)
    run('put(opened(), "s2", batch("b")); os._exit(0)', home)
    assert b"Geheimnis" not in raw(home)
    assert opened(home).database.read("SELECT * FROM meta WHERE key = 'scrub'") == []


def raw(home: Path) -> bytes:
    """Return every byte of a home, read by another process."""
    command = ["find", str(home), "-type", "f", "-exec", "cat", "{}", "+"]
    return subprocess.run(command, capture_output=True, check=True).stdout


def noise(seed: int) -> bytes:
    """Return a megabyte of incompressible bytes."""
    return b"".join(sha256(f"{seed}:{n}".encode()).digest() for n in range(32 * 1024))


# --- no foreign opens ---------------------------------------------------------------------------


def test_opening_the_file_without_sqlite_loses_commits(tmp_path: Path) -> None:
    """Show why: the system drops all locks of a process when it closes any descriptor.

    SQLite avoids that from 3.51 on; the rule is for older versions.
    """
    careless = """
        import subprocess
        connection = sqlite3.connect(home, isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE t (a)")
        if sys.argv[2] == "careless":
            open(home, "rb").close()
        visit = "import sqlite3; sqlite3.connect(%r).execute('SELECT * FROM t').fetchall()" % home
        subprocess.run([sys.executable, "-c", visit], check=True)
        connection.execute("INSERT INTO t VALUES ('acknowledged')")
        os._exit(0)
    """
    rows = "print(sqlite3.connect(sys.argv[1]).execute('SELECT a FROM t').fetchall())"
    kept = "[('acknowledged',)]"
    lost = "[]" if sqlite3.sqlite_version_info < (3, 51) else kept
    for manner, expected in (("careful", kept), ("careless", lost)):
        path = tmp_path / f"{manner}.db"
        run(careless, path, manner)
        assert run(rows, path) == expected


AUDITED = """
    import forestay
    from forestay.cli.main import main
    opens = []
    def listen(event, arguments):
        if event == "open":
            opens.append(os.fsdecode(arguments[0]) if not isinstance(arguments[0], int) else "")
    sys.addaudithook(listen)
    os.chdir(sys.argv[2])
    quiet = open(os.devnull, "w")
    with forestay.open(home, trust_env=False) as stay:
        s = stay.start("a goal")
        s.note("a word")
        s.tasks.add("a task")
        s.status(), list(s.log()), s.verify(), s.brief(), s.show(), stay.list()
        stay.search("word"), stay.verify(), stay.backups.create()
        stay.start("another").lifecycle.forget()
    for words in (["start", "x"], ["note", "y"], ["status"], ["list"], ["log"], ["verify"],
                  ["search", "y"], ["backup", "create"], ["doctor"], ["resume"], ["brief"]):
        main(["--home", home, *words], quiet, quiet)
    for path in opens:
        if os.path.basename(path) in ("forestay.db", "forestay.db-wal", "forestay.db-shm"):
            report(path)
"""


def test_no_code_of_ours_opens_the_database_without_sqlite(home: Path, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    assert run(AUDITED, home, tmp_path / "work") == ""


# --- forks --------------------------------------------------------------------------------------


def test_a_connection_that_a_forked_child_opens_itself_loses_commits(tmp_path: Path) -> None:
    """Show why: the child relies on locks of its parent, so its log is removed while in use."""
    naive = """
        def connect():
            return sqlite3.connect(sys.argv[1], isolation_level=None)
        parent = connect()
        parent.execute("PRAGMA journal_mode=WAL")
        parent.execute("CREATE TABLE t (a)")
        closed, go = os.pipe(), os.pipe()
        if os.fork() == 0:
            child = connect()
            child.execute("INSERT INTO t VALUES ('first')")
            os.write(go[1], b"x")
            os.read(closed[0], 1)
            child.execute("INSERT INTO t VALUES ('acknowledged')")
            os._exit(0)
        os.read(go[0], 1)
        parent.close()
        os.write(closed[1], b"x")
        os.wait()
        print(connect().execute("SELECT a FROM t").fetchall())
    """
    assert run(naive, tmp_path / "scratch.db") == "[('first',)]"


def test_a_forked_child_and_its_parent_both_write_and_lose_nothing(home: Path) -> None:
    out = run(
        """
        store = opened()
        put(store, "s1", batch("parent 1", head=head(1)))
        store.view("s1")  # dropped, not ended: it must not count as open
        closed, go = os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:
            put(store, "s1", batch("child 1", head=head(2)))
            assert store.database.lock.holder().startswith(f"pid {os.getpid()} ")
            os.write(go[1], b"x")
            os.read(closed[0], 1)
            put(store, "s1", batch("child 2", head=head(3)))
            sys.exit(0)
        os.read(go[0], 1)
        put(store, "s1", batch("parent 2"))
        store.close()
        os.write(closed[1], b"x")
        assert os.waitpid(child, 0)[1] == 0
        put(store, "s1", batch("parent 3"))
        report(texts(store, "s1"))
        report(store.maintenance.check())
        """,
        home,
    )
    expected = ["parent 1", "child 1", "parent 2", "child 2", "parent 3"]
    assert out.splitlines() == [str(expected), "[]"]


@pytest.mark.parametrize("leaving", ["sys.exit(0)", "os._exit(0)", "store.close(); sys.exit(0)"])
def test_a_child_that_only_ends_does_not_disturb_its_parent(home: Path, leaving: str) -> None:
    out = run(
        f"""
        store = opened()
        put(store, "s1", batch("a"))
        list(store.catalogue())
        for _ in range(3):
            child = os.fork()
            if child == 0:
                {leaving}
            assert os.waitpid(child, 0)[1] == 0
            put(store, "s1", batch("b"))
        os.kill(os.getpid(), signal.SIGKILL) if os.fork() == 0 else os.wait()
        put(store, "s1", batch("c"))
        report(texts(opened(), "s1"))
        """,
        home,
    )
    assert out == str(["a", "b", "b", "b", "c"])


def test_a_child_that_outlives_its_parent_loses_nothing(home: Path) -> None:
    run(
        """
        store = opened()
        put(store, "s1", batch("a"))
        if os.fork() == 0:
            put(store, "s1", batch("b"))
            while os.getppid() == int(sys.argv[2]):
                time.sleep(0.01)
            time.sleep(0.05)
            put(store, "s1", batch("c"))
            store.close()
            open(home + "/../done", "w").close()
            sys.exit(0)
        """.replace("int(sys.argv[2])", "parent").replace(
            "store = opened()", "store = opened(); parent = os.getpid()"
        ),
        home,
    )
    for _ in range(500):
        if (home.parent / "done").exists():
            break
        time.sleep(0.01)
    assert texts(opened(home), "s1") == ["a", "b", "c"]


def test_child_forked_while_a_view_is_open_gets_an_error(home: Path) -> None:
    out = run(
        """
        from forestay.errors import StoreFailed
        store = opened()
        put(store, "s1", batch("a"))
        with store.view("s1") as view:
            child = os.fork()
            if child == 0:
                for use in (lambda: put(store, "s1", batch("x")), lambda: texts(opened(), "s1")):
                    try:
                        use()
                    except StoreFailed as error:
                        report(error.hint)
                sys.exit(0)
            assert os.waitpid(child, 0)[1] == 0
            assert [stored.seq for stored in view.events()] == [1]
        put(store, "s1", batch("b"))
        report(texts(store, "s1"))
        """,
        home,
    )
    hint = "start a new process; with multiprocessing, use the spawn method"
    assert out.splitlines() == [hint, hint, "['a', 'b']"]


def test_child_of_a_process_that_could_not_close_its_writer_gets_an_error(home: Path) -> None:
    out = run(
        """
        from forestay.errors import StoreFailed
        store = opened()
        put(store, "s1", batch("a"))
        connect = store.database._connect
        def failing(mode):
            raise sqlite3.OperationalError("disk I/O error")
        store.database._connect = failing
        child = os.fork()
        store.database._connect = connect
        if child == 0:
            try:
                put(store, "s1", batch("x"))
            except StoreFailed as error:
                report(error.hint)
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        put(store, "s1", batch("b"))
        report(texts(store, "s1"))
        """,
        home,
    )
    assert "spawn" in out.splitlines()[0]
    assert out.splitlines()[1:] == ["['a', 'b']"]


def test_forking_while_other_threads_write_blocks_neither_parent_nor_child(home: Path) -> None:
    out = run(
        """
        import threading
        store = opened()
        put(store, "s1", batch("start"))
        going = True
        def write():
            while going:
                put(store, "s1", batch("thread"))
        threads = [threading.Thread(target=write) for _ in range(2)]
        [thread.start() for thread in threads]
        for _ in range(8):
            child = os.fork()
            if child == 0:
                put(store, "s1", batch("child"))
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        going = False
        [thread.join() for thread in threads]
        report(texts(store, "s1").count("child"))
        report(store.maintenance.check())
        """,
        home,
    )
    assert out.splitlines() == ["8", "[]"]


def test_forked_child_is_a_separate_holder(home: Path) -> None:
    out = run(
        """
        import forestay
        stay = forestay.open(home, cwd=os.path.dirname(home), trust_env=False)
        s = stay.start("a goal")
        s.note("parent")
        child = os.fork()
        if child == 0:
            s.note("child")
            holders = stay.context.store.machine.holders.find(s.id)
            pids = {int(h.process.split("/")[3]) for h in holders}
            assert pids == {os.getpid(), os.getppid()}, pids
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        s.note("parent again")
        holders = stay.context.store.machine.holders.find(s.id)
        assert [int(h.process.split("/")[3]) for h in holders] == [os.getpid()]
        report(s.verify().ok)
        stay.close()
        """,
        home,
    )
    assert out == "True"


# --- leaving ------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaving", ["", "os._exit(0)", "sys.exit(0)", "del store"])
def test_a_short_process_does_not_checkpoint_the_write_ahead_log(home: Path, leaving: str) -> None:
    run('store = opened(); put(store, "s1", batch("a")); store.close()', home)
    before = describe_files(home)["forestay.db"]
    run(f'store = opened(); put(store, "s1", batch("b")); store.catalogue(); {leaving}', home)
    assert describe_files(home)["forestay.db"] == before
    assert size(home / "forestay.db-wal") > 0
    assert texts(opened(home), "s1") == ["a", "b"]


def test_a_command_does_not_checkpoint_the_write_ahead_log(home: Path, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()

    def command(*words: str) -> str:
        script = [sys.executable, "-c", "from forestay.cli.main import entry; entry()"]
        done = subprocess.run(
            [*script, "--home", str(home), *words],
            cwd=tmp_path / "work",
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    command("start", "a goal")
    before = describe_files(home)["forestay.db"]
    command("note", "a remark")
    assert describe_files(home)["forestay.db"] == before
    assert size(home / "forestay.db-wal") > 0
    assert "a remark" in command("log")


def test_regular_close_moves_everything_into_the_database(home: Path) -> None:
    store = opened(home)
    put(store, "s1", batch("a"))
    store.close()
    assert not (home / "forestay.db-wal").exists()
    assert texts(store, "s1") == ["a"]
    store.close()


def test_closing_while_another_writes_neither_waits_for_ever_nor_fails(home: Path) -> None:
    store = opened(home, timeout=0.2)
    put(store, "s1", batch("a"))
    holder = start(
        """
        def plan(view):
            report("holding")
            sys.stdin.readline()
            return batch("b")
        opened().append("s1", plan)
        """,
        home,
    )
    read_word(holder, "holding")
    store.close()
    resume_process(holder)
    end(holder)
    assert texts(store, "s1") == ["a", "b"]
    store.close()


# --- homes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["nfs4", "9p", "virtiofs", "fuse.sshfs"])
def test_a_home_that_other_machines_may_share_is_refused(
    home: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = f"36 35 98:0 / {os.path.realpath(home.parent)} rw - {kind} server:/x rw\n"
    monkeypatch.setattr(filesystem_check, "_mount_table", lambda: line.encode())
    with pytest.raises(StoreFailed) as failed:
        put(opened(home), "s1", batch("a"))
    assert kind in failed.value.why
    assert "FORESTAY_HOME" in failed.value.hint
    assert list(home.iterdir()) == []


def test_a_home_that_others_may_write_to_is_refused(home: Path) -> None:
    home.mkdir()
    home.chmod(0o770)
    with pytest.raises(Refused, match="other users of this computer can write"):
        put(opened(home), "s1", batch("a"))
    assert list(home.iterdir()) == []


def test_a_home_of_another_user_is_refused(home: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    home.mkdir(0o700)
    os.chown(home, 12345, 12345)
    with pytest.raises(Refused, match="another user"):
        put(opened(home), "s1", batch("a"))
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
def test_everything_is_private_whatever_the_umask(home: Path, tmp_path: Path, umask: int) -> None:
    (tmp_path / "work").mkdir()
    run(
        """
        import forestay
        stay = forestay.open(home, cwd=sys.argv[2], trust_env=False)
        stay.start("a goal").note("a remark")
        stay.backups.create()
        os._exit(0)
        """,
        home,
        tmp_path / "work",
        umask=umask,
    )
    modes = {name: facts[0] for name, facts in describe_files(home).items()}
    assert set(DATABASE_FILES) | {"heads", "writer.lock"} <= modes.keys()
    assert any(name.startswith("backups/") for name in modes)
    assert {name: oct(int(str(mode))) for name, mode in modes.items() if mode != 0o600} == {}
    folders = [home, *(path for path in home.rglob("*") if path.is_dir())]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}


def test_home_can_be_in_a_folder_of_any_name(tmp_path: Path) -> None:
    for name in (
        "a b",
        "100%",
        "what?",
        "#1",
        "näh",
        "%41",
        "x&immutable=1",
        b"\xff\xfe".decode("utf-8", "surrogateescape"),
    ):
        store = opened(tmp_path / name / "home")
        put(store, "s1", batch("a"))
        assert texts(store, "s1") == ["a"]
        store.close()
        assert (tmp_path / name / "home" / "forestay.db").exists()
    assert len(os.listdir(tmp_path)) == 8


# --- settings -----------------------------------------------------------------------------------


def test_the_writer_syncs_every_commit_and_overwrites_deleted_data(store: SqliteStore) -> None:
    put(store, "s1", batch("a"))
    writer = store.database._writer
    assert writer is not None

    def pragma(name: str) -> object:
        return writer.execute(f"PRAGMA {name}").fetchone()[0]

    assert pragma("journal_mode") == "wal"
    assert pragma("synchronous") == 2
    assert pragma("secure_delete") == 1
    assert pragma("auto_vacuum") == 2
    assert pragma("wal_autocheckpoint") == 128
    # After waiting for our lock, only the rest of the twenty seconds is left.
    assert 10_000 < int(str(pragma("busy_timeout"))) <= 20_000


def test_every_table_of_ours_is_strict(store: SqliteStore) -> None:
    put(store, "s1", batch("a"))
    tables = store.database.read(
        "SELECT name, type, strict FROM pragma_table_list WHERE schema = 'main'"
    )
    ours = {
        name: strict for name, kind, strict in tables if kind == "table" and name[:7] != "sqlite_"
    }
    assert {"event", "session", "row", "holder"} <= ours.keys()
    assert [name for name, strict in ours.items() if not strict] == []


def test_unavailable_wal_mode_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(opened(home), "s1", batch("a"))

    class Stubborn(sqlite_connection.Reader):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            return super().execute(sql.replace("journal_mode=WAL", "encoding"), *values)

    monkeypatch.setattr(sqlite_connection, "Reader", Stubborn)
    with pytest.raises(Damaged, match="journal mode"):
        put(opened(home), "s1", batch("b"))


def test_an_append_costs_the_same_however_long_the_journal_is(
    store: SqliteStore, home: Path
) -> None:
    journal = journal_of(store)
    journal.append("s1", SessionStarted(goal="g"), actor="user", create=True)
    costs = []
    for length in (10, 5_000):
        with store.view("s1") as view:
            missing = length - view.seq
        notes = [NoteAdded(text=f"note {n}") for n in range(missing)]
        journal.append("s1", *notes, actor="user")
        costs.append([cost(store, home, journal) for _ in range(5)][2:])
    assert {statements for statements, _ in costs[0] + costs[1]} == {costs[0][0][0]}
    assert costs[0][0][0] <= 6
    assert max(pages for _, pages in costs[1]) <= max(pages for _, pages in costs[0]) + 2


def cost(store: SqliteStore, home: Path, journal: Journal) -> tuple[int, int]:
    """Return the statements and pages of one append."""
    writer = store.database._writer
    statements: list[str] = []
    assert writer is not None
    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    writer.set_trace_callback(statements.append)
    journal.append("s1", NoteAdded(text="one more"), actor="user")
    writer.set_trace_callback(None)
    return len(statements), size(home / "forestay.db-wal") // 4096


def test_watching_stays_within_the_timeout(home: Path) -> None:
    class Resting(FakeClock):
        slept = 0.0

        def sleep(self, seconds: float) -> None:
            self.slept += seconds
            super().sleep(seconds)

    clock = Resting()
    store = SqliteStore(str(home), clock=clock, busy_timeout=1, machine="m")
    put(store, "s1", batch("a"))
    assert store.watch("s1", 1, 0.03) is False
    assert clock.slept == pytest.approx(0.03)
    assert store.watch("s1", 1, 5) is False
    assert clock.slept == pytest.approx(5.03)
    store.close()


def test_looking_up_sessions_never_scans_them(store: SqliteStore) -> None:
    put(store, "s1", batch("a"))
    asked: list[str] = []
    reader = store.database.borrow()
    assert reader is not None
    reader.set_trace_callback(asked.append)
    store.database.give_back(reader)
    store.catalogue(where={"id": "s1"}, limit=1)
    store.catalogue(where={"archived": 0}, limit=20)
    store.catalogue(where={"archived": 0, "project": 1}, limit=20)
    store.catalogue(where={"project": 1}, limit=20)
    store.resolve("s")
    store.resolve("s1")
    store.watch("s1", 5, 0)
    reader.set_trace_callback(None)
    assert len(asked) >= 8
    for sql in asked:
        plan = " ".join(str(step[3]) for step in store.database.read(f"EXPLAIN QUERY PLAN {sql}"))
        assert "SCAN" not in plan, (sql, plan)
        assert "TEMP B-TREE" not in plan, (sql, plan)


# --- threads ------------------------------------------------------------------------------------


def test_one_home_may_be_used_by_several_threads(home: Path, tmp_path: Path) -> None:
    problems: list[BaseException] = []
    with forestay.open(str(home), cwd=str(tmp_path), trust_env=False) as stay:
        session = stay.start("a goal")

        def work(name: str) -> None:
            try:
                for number in range(12):
                    session.note(f"{name} {number}")
                    session.status(), list(session.log(limit=3)), stay.list()
            except BaseException as problem:
                problems.append(problem)

        threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert problems == []
        assert session.verify().ok
        said = [line.event.body.text for line in session.log() if line.event.kind == "note.added"]  # type: ignore[attr-defined]
        for name in ("t0", "t1", "t2", "t3"):
            assert [s for s in said if s.startswith(name)] == [f"{name} {n}" for n in range(12)]


def test_store_dropped_without_close_is_released(home: Path) -> None:
    for number in range(50):
        put(opened(home), "s1", batch(str(number)))
    mine = [
        os.readlink(f"/proc/self/fd/{fd}")
        for fd in os.listdir("/proc/self/fd")
        if fd.isdigit() and os.path.exists(f"/proc/self/fd/{fd}")
    ]
    assert [path for path in mine if path.startswith(str(home))] == []
    assert len(texts(opened(home), "s1")) == 50
