"""Only for PostgreSQL: lost connections, several machines, refusals, and statements."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

psycopg = pytest.importorskip("psycopg")

from forestay.base.clock import Clock  # noqa: E402
from forestay.base.redact import Redactor  # noqa: E402
from forestay.errors import (  # noqa: E402
    Busy,
    ForestayError,
    InvalidInput,
    Outdated,
    ReadOnly,
    StoreFailed,
)
from forestay.journal.journal import Journal  # noqa: E402
from forestay.model.event import NoteAdded, SessionStarted  # noqa: E402
from forestay.store.machine.machine import MachineChange  # noqa: E402
from forestay.store.machine.projects import TreeRecord  # noqa: E402
from forestay.store.open import open_store  # noqa: E402
from forestay.store.port import Batch, Store, View  # noqa: E402
from forestay.store.postgres import connection as servers  # noqa: E402
from forestay.store.postgres import schema  # noqa: E402
from forestay.store.postgres.protocol import Wired  # noqa: E402
from forestay.store.postgres.store import PostgresStore  # noqa: E402
from forestay.testing.store_contract import batch, head, put, texts  # noqa: E402
from tests.pgserver import PgServer  # noqa: E402
from tests.store.test_postgres_contract import PostgresPlace  # noqa: E402


@pytest.fixture
def place(pg_url: str, tmp_path: Path) -> PostgresPlace:
    return PostgresPlace(pg_url, tmp_path / "home")


@pytest.fixture
def store(place: PostgresPlace) -> Iterator[PostgresStore]:
    made = opened(place)
    yield made
    made.close()


def opened(place: PostgresPlace, home: str = "home", timeout: float = 20.0) -> PostgresStore:
    made = open_store(
        place.url,
        str(place.home.parent / home),
        clock=Clock(),
        busy_timeout=timeout,
        machine=home,
    )
    assert isinstance(made, PostgresStore)
    return made


def asked(place: PostgresPlace, sql: str, *values: object) -> list[tuple[Any, ...]]:
    with psycopg.connect(place.server, autocommit=True) as connection:
        cursor = connection.execute(sql.replace("@", f"{place.schema}."), values)
        found: list[tuple[Any, ...]] = cursor.fetchall() if cursor.description else []
        return found


def end_all(place: PostgresPlace) -> None:
    """End every connection of ours, like a server that shuts down."""
    asked(
        place,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'forestay' AND pid <> pg_backend_pid()",
    )


# --- what an append asks of the server -----------------------------------------------------------


def test_events_of_one_shape_are_one_prepared_statement_whatever_numbers_they_have(
    store: PostgresStore,
) -> None:
    journal = Journal(store, Clock(), Redactor())
    journal.append("s1", SessionStarted(goal="a goal"), actor="me", create=True)
    for number in range(40):
        journal.append("s1", NoteAdded(text=f"note {number}"), actor="me")
    sql = "SELECT statement FROM pg_prepared_statements WHERE statement LIKE '%%UPDATE%%'"
    found = [text for (text,) in store._server.use(lambda one: one.execute(sql).fetchall())]
    assert len(found) == 1


def test_rarely_changed_columns_are_written_when_they_change(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, "s1", batch("a", summary="{}"))
    monkeypatch.delattr(type(store._appender), "_lock")
    said: dict[str, Any] = {}
    for name, value in (("status", "paused"), ("goal", "g"), ("archived", 1), ("began", 5)):
        said[name] = value
        for text in "bc":
            store.append("s1", lambda view, text=text: batch(text, **said))  # type: ignore[misc]
        with store.view("s1") as view:
            assert view.listed_well
            assert {key: view.listing()[key] for key in said} == said
    store.append("s1", lambda view: batch("d", core=b"newer", fold=2, **said))
    with store.view("s1") as view:
        assert (view.fold, view.core) == (2, b"newer")


def test_statement_that_the_server_dropped_is_prepared_again(store: PostgresStore) -> None:
    put(store, "s1", batch("0"))
    for number in range(1, 9):
        store.append("s1", lambda view, text=str(number): batch(text))  # type: ignore[misc]
        if number == 5:
            store._server.use(lambda one: one.execute("DEALLOCATE ALL"))
    assert texts(store, "s1") == list("012345678")


def test_several_events_and_rows_are_appended_in_one_statement(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, "s1", batch("a"))
    monkeypatch.delattr(type(store._appender), "_lock")
    rows = [("step", key, key == "x", -5, b"\0\xff") for key in "xyz"]
    store.append("s1", lambda view: batch("b", "c", "ü" * 100_000, rows=rows))
    assert texts(store, "s1") == ["a", "b", "c", "ü" * 100_000]
    with store.view("s1") as view:
        assert sorted(view.all_rows()) == rows
        assert view.intact()


def test_a_number_that_no_column_holds_is_refused_and_changes_nothing(
    store: PostgresStore,
) -> None:
    put(store, "s1", batch("a"))
    with pytest.raises(InvalidInput):
        store.append("s1", lambda view: batch("b", rows=[("step", "x", True, 1 << 70, b"")]))
    assert texts(store, "s1") == ["a"]


# --- connections that break ----------------------------------------------------------------------


def test_append_after_a_broken_connection_succeeds(
    store: PostgresStore, place: PostgresPlace
) -> None:
    put(store, "s1", batch("a"))
    end_all(place)
    put(store, "s1", batch("b"))
    end_all(place)
    assert texts(store, "s1") == ["a", "b"]


def test_connection_that_breaks_during_the_plan_adds_no_second_event(
    store: PostgresStore, place: PostgresPlace
) -> None:
    put(store, "s1", batch("a"))
    tries: list[int] = []

    def plan(view: View) -> Batch:
        tries.append(view.seq)
        if len(tries) == 1:
            end_all(place)
        return batch("b")

    store.append("s1", plan)
    assert tries == [1, 1]
    assert texts(store, "s1") == ["a", "b"]


class Cutting:
    """A connection that breaks at COMMIT: before it is sent, or after it took effect."""

    def __init__(self, connection: Any, *, effect: bool) -> None:
        self._connection, self._effect = connection, effect

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, sql: str, *values: Any, **how: Any) -> Any:
        if sql != "COMMIT":
            return self._connection.execute(sql, *values, **how)
        if self._effect:
            self._connection.execute(sql)
            # Everything that was sent takes effect; the answer never arrives.
            self._connection._pipeline.sync()
        self._connection.close()
        raise psycopg.OperationalError("the connection is lost")


@pytest.mark.parametrize("effect", [True, False], ids=["after it", "before it"])
@pytest.mark.parametrize("begun", [True, False], ids=["a session", "a new one"])
def test_append_interrupted_around_the_commit_counts_once(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, effect: bool, begun: bool
) -> None:
    if begun:
        put(store, "s1", batch("a", head=head(1)))
    cut: list[bool] = []
    send = store._appender._send

    def sending(connection: Any, *rest: Any) -> None:
        if not cut:
            cut.append(True)
            connection = Cutting(connection, effect=effect)
        send(connection, *rest)

    monkeypatch.setattr(store._appender, "_send", sending)
    put(store, "s1", batch("b", head=head(2)), [b"content"])
    assert texts(store, "s1") == ["a", "b"][not begun :]
    assert store.blob(sha256(b"content").hexdigest()) == b"content"
    assert [h.n for _, h in store.maintenance.remembered()] == [2]
    with store.view("s1") as view:
        assert view.intact()


@pytest.mark.parametrize("effect", [True, False], ids=["after it", "before it"])
def test_append_interrupted_around_a_single_statement_counts_once(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, effect: bool
) -> None:
    put(store, "s1", batch("a", head=head(1)))
    ask, cut = Wired.ask, list[bool]()

    def cutting(self: Wired, *given: Any, **named: Any) -> Any:
        if not cut:
            cut.append(True)
            if effect:
                ask(self, *given, **named)
            self.close()
            raise psycopg.OperationalError("the connection is lost")
        return ask(self, *given, **named)

    monkeypatch.setattr(Wired, "ask", cutting)
    store.append("s1", lambda view: batch("b", head=head(2)))
    assert cut and texts(store, "s1") == ["a", "b"]
    assert [h.n for _, h in store.maintenance.remembered()] == [2]


def test_repeated_append_takes_one_round_trip_and_an_outdated_one_decides_again(
    store: PostgresStore, place: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, "s1", batch("a"))
    locked: list[str] = []
    lock = store._appender._lock

    def counted(connection: Any, session: str) -> Any:
        locked.append(session)
        return lock(connection, session)

    monkeypatch.setattr(store._appender, "_lock", counted)
    rows = [("step", "t", True, 1, b"1")]
    store.append("s1", lambda view: batch("b", rows=rows))
    store.append("S1", lambda view: batch("c", rows=rows))
    assert locked == []
    other = opened(place, "other")
    other.append("s1", lambda view: batch("theirs", rows=[("step", "t", False, 2, b"2")]))
    seen: list[int] = []

    def plan(view: View) -> Batch:
        seen.append(view.seq)
        return batch("d", rows=rows)

    store.append("s1", plan)
    assert (locked, seen) == (["s1"], [3, 4])
    assert texts(store, "s1") == ["a", "b", "c", "theirs", "d"]
    with store.view("s1") as view:
        assert view.intact() and view.all_rows() == [("step", "t", True, 1, b"1")]
    asked(place, "UPDATE @meta SET value = '99' WHERE key = 'min_writer'")
    with pytest.raises(Outdated):
        store.append("s1", plan)
    other.close()


def put_while_it_starts(store: Store, server: PgServer) -> None:
    """Append to a server that is down and then starts."""
    try:
        # The server ends with the thread that started it, so the writer gets another thread.
        writing = threading.Thread(target=lambda: put(store, "s1", batch("b")))
        writing.start()
        time.sleep(0.2)
    finally:
        server.start()
    writing.join(60)


def test_append_waits_for_a_server_that_restarts(tmp_path: Path, pg_server: PgServer) -> None:
    place = PostgresPlace(pg_server.url, tmp_path / "home")
    store = opened(place)
    put(store, "s1", batch("a"))
    pg_server.stop()
    put_while_it_starts(store, pg_server)
    assert texts(store, "s1") == ["a", "b"]
    store.close()


def test_a_process_that_begins_while_the_server_restarts_waits_for_it(
    tmp_path: Path, pg_server: PgServer
) -> None:
    place = PostgresPlace(pg_server.url, tmp_path / "home")
    first = opened(place)
    put(first, "s1", batch("a"))
    first.close()
    pg_server.stop()
    later = opened(place)
    put_while_it_starts(later, pg_server)
    assert texts(later, "s1") == ["a", "b"]
    later.close()


def test_server_that_does_not_return_is_reported_as_unreachable(
    place: PostgresPlace,
) -> None:
    first = opened(place)
    put(first, "s1", batch("a"))
    first.close()
    away = PostgresPlace("postgresql://me@127.0.0.1:1/db", place.home)
    with pytest.raises(StoreFailed, match="cannot be reached") as reported:
        texts(opened(away, timeout=0.1), "s1")
    assert "forestay config store" in reported.value.hint


def test_view_that_lost_its_connection_raises(store: PostgresStore, place: PostgresPlace) -> None:
    put(store, "s1", batch("a"))
    with store.view("s1") as view:
        end_all(place)
        with pytest.raises(StoreFailed, match="was lost"):
            view.row("step", "t")
    assert texts(store, "s1") == ["a"]


def test_permanently_lost_connection_is_reported_as_our_error(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, "s1", batch("a"))
    store.close()
    store._server.timeout = 0.1

    def refuse(*_: object) -> None:
        raise psycopg.OperationalError("connection refused")

    monkeypatch.setattr(servers.Place, "connect", refuse)
    with pytest.raises(StoreFailed, match="was lost"):
        put(store, "s1", batch("b"))


def test_forked_child_opens_new_connections(store: PostgresStore, place: PostgresPlace) -> None:
    put(store, "s1", batch("a"))
    child = os.fork()
    if not child:
        try:
            put(store, "s1", batch("of the child"))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    put(store, "s1", batch("b"))
    assert texts(store, "s1") == ["a", "of the child", "b"]


# --- several at once -----------------------------------------------------------------------------


def journal_of(store: Store) -> Journal:
    return Journal(store, Clock(), Redactor())


def note_many(opener: Callable[[], Store], name: str, count: int) -> None:
    store = opener()
    journal = journal_of(store)
    for number in range(count):
        journal.append("s1", NoteAdded(text=f"{name} {number}"), actor=name)
    store.close()


# Imports everything once, then forks into eight processes.
_HERD = """
import os, pickle, sys
acts = pickle.load(sys.stdin.buffer)
children = []
for act in acts:
    child = os.fork()
    if not child:
        try:
            act()
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    children.append(child)
sys.exit(any(os.waitpid(child, 0)[1] for child in children))
"""


def test_eight_processes_append_to_one_session_and_its_chains_hold(
    place: PostgresPlace, tmp_path: Path
) -> None:
    """Two homes, as on two machines, with four processes each."""
    with_start = opened(place)
    journal_of(with_start).append("s1", SessionStarted(goal="g"), actor="user", create=True)
    acts = [
        partial(
            note_many,
            partial(
                open_store,
                place.url,
                str(tmp_path / f"home{number % 2}"),
                clock=Clock(),
                machine=f"m{number % 2}",
            ),
            f"w{number}",
            6,
        )
        for number in range(8)
    ]
    done = subprocess.run([sys.executable, "-c", _HERD], input=pickle.dumps(acts), timeout=120)
    assert done.returncode == 0
    report = journal_of(with_start).verify("s1")
    assert report.ok and report.events == 49, report.findings
    with with_start.view("s1") as view:
        devices = {event.head.device for event in journal_of(with_start).events(view)}
        assert [stored.seq for stored in view.events()] == list(range(1, 50))
    assert len(devices) == 3
    with_start.close()


def test_tables_of_one_machine_are_not_visible_on_another(place: PostgresPlace) -> None:
    here, there = opened(place), opened(place, "other")
    spot = TreeRecord("/w", "1:2", 0, id="p1", name="shop", keys=[("path", "/w")])
    here.append(
        "s1", lambda view: batch("a", head=head(1)), create=True, change=MachineChange(tree=spot)
    )
    assert (
        here.machine.projects.tree("/w") is not None and there.machine.projects.tree("/w") is None
    )
    assert (here.catalogue()[0]["project"], there.catalogue()[0]["project"]) == (1, None)
    put(there, "S1", batch("b", head=head(1, "d2")))
    there.machine.projects.record_tree(
        TreeRecord("/elsewhere", "3:4", 0, id="p2", name="store"), "S1"
    )
    assert there.machine.projects.tree("/elsewhere") == ("3:4", 1, "s1")
    assert here.machine.projects.tree("/elsewhere") is None
    assert (
        here.machine.device != there.machine.device
        and here.machine.secret() != there.machine.secret()
    )
    assert [h.device for _, h in here.maintenance.remembered()] == ["d1"]
    assert texts(here, "s1") == ["a", "b"]
    here.close()
    there.close()


def test_pending_file_work_is_visible_only_in_the_home_that_recorded_it(
    place: PostgresPlace,
) -> None:
    here, there = opened(place), opened(place, "other")
    here.append("s1", lambda view: batch("a"), create=True, change=MachineChange(file_work=["{}"]))
    put(there, "s1", batch("b"))
    ((number, what),) = here.machine.file_work.pending("S1")
    assert what == "{}" and there.machine.file_work.pending("s1") == []
    here.machine.file_work.finish(number)
    assert here.machine.file_work.pending("s1") == []
    here.close()
    there.close()


@pytest.mark.parametrize("knows", [True, False], ids=["writing on", "for the first time"])
def test_waiting_too_long_for_a_session_raises_busy(place: PostgresPlace, knows: bool) -> None:
    here, there = opened(place), opened(place, timeout=0.05)
    put(there if knows else here, "s1", batch("a"))

    def slow(view: View) -> Batch:
        with pytest.raises(Busy, match="has the session locked"):
            there.append("s1", lambda view: batch("x"))
        put(opened(place, "third"), "s2", batch("others go on"))
        return batch("b")

    content = (sha256(b"x").hexdigest(), b"x")
    here.append("s1", slow, blobs=[content])  # with content the plan runs under the lock
    assert texts(here, "s1") == ["a", "b"]
    here.close()
    there.close()


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:s3cret@127.0.0.1:1/db",
        "postgresql://127.0.0.1:1/db?user=me&password=s3cret",
        "postgresql://me:s3cret@127.0.0.1:s3cret/db",
        "postgresql://me:s3c/ret@127.0.0.1/db",
        "postgresql://me:s3cret@127.0.0.1/db?nothing=s3cret",
        "postgresql://me:s3cret@127.0.0.1:1/db?schema=S3cret;DROP",
    ],
)
def test_no_message_has_the_password(url: str, tmp_path: Path) -> None:
    with pytest.raises(ForestayError) as caught:
        open_store(url, str(tmp_path), clock=Clock(), busy_timeout=0.2, machine="m").catalogue()
    error: BaseException | None = caught.value
    said = repr(caught.value.__dict__)
    while error is not None:
        said += str(error)
        error = error.__cause__
    assert "s3c" not in said and isinstance(caught.value, InvalidInput | StoreFailed)


def test_a_store_that_requires_a_newer_version_is_not_written_to(
    store: PostgresStore, place: PostgresPlace
) -> None:
    put(store, "s1", batch("a"))
    asked(place, "UPDATE @meta SET value = '99' WHERE key = 'min_writer'")
    with pytest.raises(Outdated):
        put(store, "s1", batch("b"))
    assert texts(store, "s1") == ["a"]


def test_a_role_that_may_only_read_can_read_and_search(
    store: PostgresStore, place: PostgresPlace
) -> None:
    put(store, "s1", batch("needle here"))
    role = f"reader{place.schema}"
    asked(place, f"CREATE ROLE {role} LOGIN")
    asked(place, f"GRANT USAGE ON SCHEMA {place.schema} TO {role}")
    asked(place, f"GRANT SELECT ON ALL TABLES IN SCHEMA {place.schema} TO {role}")
    url = place.url.replace("postgres@", f"{role}@")
    reader = open_store(url, str(place.home), clock=Clock(), machine="m")
    assert texts(reader, "s1") == ["needle here"]
    hits = reader.search("needle", text_of=lambda stored: ("note", (stored.data or b"").decode()))
    assert [(hit["session"], hit["snippet"]) for hit in hits] == [("s1", "[needle] here")]
    with pytest.raises(ReadOnly, match="is not allowed"):
        put(reader, "s1", batch("b"))
    reader.close()


def test_every_error_class_of_the_postgres_driver_is_translated() -> None:
    known = {state[:2] for error in vars(psycopg.errors).values() if (state := _state(error))}
    ours = {code[:2] for code in servers.MEANING}
    lost = {"08", "57", "25"}
    # No statement of ours can cause these: routines of users, cursors, roles, imports.
    never = set("00 01 02 03 09 0A 0B 0F 0L 0P 0Z 10 20 21 24 26 27 2B 2D 2F 34 38 39 3B".split())
    never |= set("3D 3F 44 54 55 72 F0 HV P0 XX".split())
    assert known - ours - lost - never == set()


def _state(error: object) -> str:
    state = getattr(error, "sqlstate", None) if isinstance(error, type) else None
    return state if isinstance(state, str) else ""


# --- tables --------------------------------------------------------------------------------------


def test_remarks_report_an_empty_postgres_store_without_creating_it(
    store: PostgresStore, place: PostgresPlace
) -> None:
    def there() -> list[tuple[Any, ...]]:
        return asked(place, "SELECT 1 FROM pg_namespace WHERE nspname = %s", place.schema)

    said = [remark.what for remark in store.maintenance.remarks()]
    assert any("the store is empty" in what for what in said) and there() == []
    put(store, "s1", batch("a"))
    assert there() and not any(
        "the store is empty" in remark.what for remark in store.maintenance.remarks()
    )


@pytest.mark.parametrize("given, code", [([], 0), (["--help"], 1)])
def test_the_sql_is_printed_for_a_schema_name_and_other_arguments_are_refused(
    given: list[str], code: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "forestay.store.postgres", *given],
        capture_output=True,
        text=True,
    )
    assert done.returncode == code
    first = f"CREATE SCHEMA IF NOT EXISTS {(given or ['forestay'])[0]};\n"
    assert done.stdout.startswith(first) if not code else "usage: " in done.stderr


def test_printing_the_sql_to_a_closed_pipe_shows_no_traceback() -> None:
    line = f"{sys.executable} -m forestay.store.postgres | true"
    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True)
    assert done.stderr == ""


def test_published_postgres_migrations_never_change_and_drop_nothing(place: PostgresPlace) -> None:
    """The digest of each is pinned: a released migration is never changed, only followed."""
    digests = [sha256(script.encode()).hexdigest()[:16] for script in schema.MIGRATIONS]
    assert digests == ["1ccee8fb4036156d"]
    whole = " ".join(schema.statements("x"))
    assert not {"DROP", "RENAME", "TRUNCATE"} & set(whole.split())


def test_missing_tables_and_altered_rows_are_found_and_repaired(
    store: PostgresStore, place: PostgresPlace
) -> None:
    journal = journal_of(store)
    journal.append("s1", SessionStarted(goal="g"), actor="user", create=True)
    asked(place, "DROP INDEX @row_rank")
    asked(place, "DROP TABLE @find")
    assert {flaw.what.split()[-3] for flaw in store.maintenance.flaws()} == {
        "find",
        "find_words",
        "row_rank",
    }
    assert sorted(store.maintenance.repair().done) == ["recreated find", "recreated find_words",
                                           "recreated row_rank"]  # fmt: skip
    asked(place, "UPDATE @session SET goal = 'altered', seq = 7")
    assert [flaw.what for flaw in store.maintenance.flaws()] == [
        "the entry of session s1 in the list is damaged"
    ]
    assert store.maintenance.repair().stale == ["s1"]
    journal.rebuild("s1")
    assert store.maintenance.flaws() == [] and journal.verify("s1").ok


def test_sessions_can_be_written_and_read_in_a_partitioned_event_table(
    store: PostgresStore, place: PostgresPlace
) -> None:
    for statement in schema.statements(place.schema):
        made = statement
        if f"CREATE TABLE {place.schema}.event " in statement:
            made += " PARTITION BY HASH (session)"
        asked(place, made.replace("@", ""))
    for number in range(2):
        asked(
            place,
            f"CREATE TABLE @event_{number} PARTITION OF @event"
            f" FOR VALUES WITH (MODULUS 2, REMAINDER {number})",
        )
    for session in ("s1", "s2", "s3"):
        put(store, session, batch("a", "b", key="k"))
    assert texts(store, "s2") == ["a", "b"] and store.maintenance.flaws() == []
    with store.view("s3") as view:
        assert view.intact() and view.find("k") is not None
