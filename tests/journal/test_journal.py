"""The journal: what it acknowledges is there, sound, and once; what is not sound is found."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from forestay.base.clock import FakeClock
from forestay.base.redact import Redactor
from forestay.errors import Damaged, ForestayError, InvalidInput, NoSession, Refused, StoreFailed
from forestay.journal.journal import Journal
from forestay.journal.projections import search_text
from forestay.model import event as ev
from forestay.model.event import Body, Event, Sealed
from forestay.model.fold import fold
from forestay.model.state import FOLD_VERSION, State
from forestay.store.port import Head
from forestay.store.sqlite.store import SqliteStore
from tests.histories import image, next_event

START = ev.SessionStarted(goal="mend the login")


class Home:
    """A home with a journal, as one process sees it."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path = path
        clock = FakeClock(seed=seed)
        self.store = SqliteStore(str(path), clock=clock, busy_timeout=5.0, machine="m")
        self.journal = Journal(self.store, clock, Redactor())

    def record(
        self, *moves: Body, session: str = "s1", key: str = "", create: bool = False
    ) -> Event:
        done = self.journal.append(session, *moves, actor="cli", key=key, create=create)
        return done.events[-1]

    def started(self, session: str = "s1") -> Home:
        self.record(START, session=session, create=True)
        return self

    def note(self, text: str, session: str = "s1", key: str = "") -> Event:
        return self.record(ev.NoteAdded(text=text), session=session, key=key)

    def events(self, session: str = "s1") -> list[Event]:
        with self.store.view(session) as view:
            return list(self.journal.events(view))

    def sealed(self, session: str = "s1") -> list[Sealed]:
        with self.store.view(session) as view:
            return [Sealed(s.header, s.salt, s.data) for s in view.events()]

    def notes(self, session: str = "s1") -> list[str]:
        bodies = [event.body for event in self.events(session)]
        return [body.text for body in bodies if isinstance(body, ev.NoteAdded)]

    def codes(self, session: str = "s1") -> list[str]:
        return [finding.code for finding in self.journal.verify(session).findings]

    def harm(self, sql: str, *values: object) -> None:
        """Change tables behind the store's back."""
        connection = sqlite3.connect(self.path / "forestay.db", isolation_level=None)
        connection.execute(sql, values)
        connection.close()

    def raw(self) -> bytes:
        """Every byte of the home, read by another process."""
        command = ["find", str(self.path), "-type", "f", "-exec", "cat", "{}", "+"]
        return subprocess.run(command, capture_output=True, check=True).stdout


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Home]]:
    made: list[Home] = []

    def one(name: str = "home") -> Home:
        made.append(Home(tmp_path / name, seed=len(made)))
        return made[-1]

    yield one
    for home in made:
        home.store.close()


@pytest.fixture
def home(make: Callable[..., Home]) -> Home:
    return make()


# --- appending ----------------------------------------------------------------------------------


def test_append_returns_recorded_and_linked_events(home: Home) -> None:
    first = home.record(START, create=True)
    second = home.note("one")
    third = home.note("two")
    assert home.events() == [first, second, third]
    assert [event.seq for event in home.events()] == [1, 2, 3]
    assert [event.head.n for event in home.events()] == [1, 2, 3]
    assert [event.head.prev for event in home.events()] == ["", first.hash, second.hash]
    assert {event.head.device for event in home.events()} == {home.store.machine.device}
    assert home.journal.verify("s1").ok


def test_a_refused_move_leaves_no_trace(home: Home) -> None:
    home.started()
    before = home.raw()
    for body in (ev.StepStarted(step="nothing"), START, ev.SessionReopened(because="x")):
        with pytest.raises(Refused):
            home.record(body)
    assert home.sealed() == home.sealed()
    assert len(home.raw()) == len(before)
    home.note("after")
    assert home.journal.verify("s1").ok


def test_moves_are_recorded_all_or_none(home: Home) -> None:
    home.started()
    with pytest.raises(Refused):
        home.record(ev.NoteAdded(text="first"), ev.StepStarted(step="nothing"))
    assert home.notes() == []
    home.record(ev.NoteAdded(text="first"), ev.NoteAdded(text="second"))
    assert home.notes() == ["first", "second"]
    assert home.journal.verify("s1").ok


def test_bad_input_is_refused_before_any_file_is_created(home: Home) -> None:
    for goal in ("", "x" * 10_000_000, "a\0b", "\udc80", "\x1b[31m"):
        with pytest.raises(InvalidInput):
            home.record(ev.SessionStarted(goal=goal), create=True)
    assert not home.path.exists()
    with pytest.raises(NoSession):
        home.note("where")


def test_the_state_of_a_failed_append_is_not_used_as_the_stored_state(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state of a failed append must not be taken for the one that is stored."""
    home.started()
    home.note("one")

    def failing(*_: object) -> None:
        raise StoreFailed("no space")

    for _ in range(2):
        with monkeypatch.context() as patched:
            patched.setattr(SqliteStore, "_save", failing)
            with pytest.raises(StoreFailed):
                home.record(ev.StepAdded(step="t1", title="a task"))
    home.record(ev.StepAdded(step="t1", title="a task"))
    assert home.journal.verify("s1").ok
    assert len(home.events()) == 3


def test_thread_never_uses_state_that_another_failed_to_write(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.started()
    save = SqliteStore._save
    turns = iter(range(10_000))

    def sometimes(self: SqliteStore, *given: object) -> None:
        save(self, *given)  # type: ignore[arg-type]
        if next(turns) % 3 == 0:
            raise StoreFailed("no space")

    monkeypatch.setattr(SqliteStore, "_save", sometimes)
    recorded: list[str] = []

    def work(name: str) -> None:
        for number in range(15):
            try:
                home.record(ev.StepAdded(step=f"{name}-{number}", title="a task"))
                recorded.append(f"{name}-{number}")
            except StoreFailed:
                pass

    threads = [threading.Thread(target=work, args=(name,)) for name in ("a", "b", "c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert home.journal.verify("s1").ok
    found = [event.body.step for event in home.events() if isinstance(event.body, ev.StepAdded)]
    assert sorted(found) == sorted(recorded)


def test_two_processes_see_each_others_work_at_once(make: Callable[..., Home]) -> None:
    mine, other = make().started(), make()
    mine.record(ev.StepAdded(step="t1", title="a task"))
    other.record(ev.StepStarted(step="t1"))
    with pytest.raises(Refused):
        mine.record(ev.StepStarted(step="t1"))
    mine.record(ev.StepCompleted(step="t1"))
    with pytest.raises(Refused):
        other.record(ev.StepCompleted(step="t1"))
    for number in range(5):
        mine.note(f"mine {number}")
        other.note(f"other {number}")
    assert mine.codes() == other.codes() == []
    assert [event.head.n for event in mine.events()] == list(range(1, 15))


def test_a_state_in_memory_is_not_used_for_another_journal_of_the_same_length(
    make: Callable[..., Home],
) -> None:
    """Another file took the name of the database, with as many events in it but other ones."""
    home = make().started("s1").started("s2")
    home.store.close()
    shutil.copytree(home.path, home.path.parent / "copy")
    elsewhere = make("copy")
    for session in ("s1", "s2"):
        elsewhere.record(ev.StepAdded(step="theirs", title="t"), session=session)
        home.record(ev.StepAdded(step="ours", title="t"), session=session)
    elsewhere.store.close()
    for name in ("forestay.db-wal", "forestay.db-shm"):
        (home.path / name).unlink()
    os.rename(elsewhere.path / "forestay.db", home.path / "forestay.db")
    with pytest.raises(StoreFailed, match="replaced"):
        home.note("x", session="s1")
    home.record(ev.StepStarted(step="theirs"), session="s2")
    with pytest.raises(Refused):
        home.record(ev.StepStarted(step="ours"), session="s2")
    assert home.codes("s2") == ["lost"]


def test_a_session_id_may_be_given_in_upper_or_lower_case(home: Home) -> None:
    home.started("Fix-Login")
    home.note("one", session="FIX-LOGIN")
    home.note("two", session="fix-login", key="k")
    again = home.journal.append(
        "Fix-LOGIN", ev.NoteAdded(text="two"), actor="cli", key="k", create=True
    )
    assert again.repeated
    assert {event.head.session for event in home.events("fix-login")} == {"Fix-Login"}
    assert home.codes("FIX-login") == []


def test_content_comes_with_its_event_or_not_at_all(home: Home) -> None:
    home.started()
    data = b"a long text"
    blobs = [(sha256(data).hexdigest(), data)]
    with pytest.raises(Refused):
        home.journal.append("s1", ev.StepStarted(step="no"), actor="cli", blobs=blobs)
    assert home.store.blob(blobs[0][0]) is None
    home.journal.append("s1", ev.NoteAdded(text="kept"), actor="cli", blobs=blobs)
    assert home.store.blob(blobs[0][0]) == data


def test_secrets_never_reach_the_disk(home: Home) -> None:
    token = "ghp_" + "Ab1" * 12
    home.record(ev.SessionStarted(goal=f"use {token} for it"), create=True)
    home.note(f"password=hunter2secret and {token}")
    home.record(ev.StepAdded(step="t1", title=token))
    home.store.search("use", text_of=search_text)
    assert token.encode() not in home.raw()
    assert b"hunter2secret" not in home.raw()
    assert home.journal.verify("s1").ok


def test_unusable_stored_state_is_replaced_by_folding_the_events_again(home: Home) -> None:
    home.started()
    home.record(ev.StepAdded(step="t1", title="a task"))
    for harm in (
        "UPDATE session SET fold = 0",
        "UPDATE session SET core = x'00'",
        "UPDATE session SET core_sum = core_sum + 1",
        "UPDATE session SET core = x'', core_sum = 0",
    ):
        home.harm(harm)
        assert "core" in home.codes()
        home.note("continued")
        assert home.codes() == []
    home.record(ev.StepStarted(step="t1"))
    assert home.codes() == []


@pytest.mark.parametrize(
    "harm",
    [
        "seq = 1",
        "seq = 7",
        "seq = 0",
        "seq = -3",
        "seq = 9223372036854775807",
        "id = 'S1'",
        "goal = 'another'",
        "line_sum = 0",
    ],
)
def test_nothing_is_recorded_if_the_catalogue_entry_is_damaged(home: Home, harm: str) -> None:
    home.started()
    home.note("kept")
    home.harm(f"UPDATE session SET {harm}")
    before = home.store.database.read("SELECT position FROM event")
    with pytest.raises(Damaged) as caught:
        home.note("lost")
    with pytest.raises(Damaged):
        home.journal.forget("s1", actor="cli")
    with home.store.view("s1") as view:
        assert home.journal.check_chain(view)
    assert "doctor --fix" in (caught.value.hint or "")
    assert home.codes()
    assert home.store.database.read("SELECT position FROM event") == before
    for session in home.store.maintenance.repair().stale:
        home.journal.rebuild(session)
    home.note("continued")
    assert home.codes() == []


def test_state_of_another_version_is_folded_again_and_is_no_damage(home: Home) -> None:
    home.started()
    core = home.store.database.read("SELECT core FROM session")[0][0]
    older = (FOLD_VERSION + 1, zlib.crc32(core, FOLD_VERSION + 1))
    home.harm(f"UPDATE session SET fold = {older[0]}, core_sum = {older[1]}")
    assert home.codes() == []
    home.note("continued")
    assert home.store.database.read("SELECT fold FROM session") == [(FOLD_VERSION,)]
    assert home.codes() == []


# --- keys ---------------------------------------------------------------------------------------


def test_a_repeated_key_records_nothing_and_returns_the_first_event(
    make: Callable[..., Home],
) -> None:
    home = make().started()
    first = home.note("once", key="k1")
    for retrying in (home, make()):
        again = retrying.journal.append("s1", ev.NoteAdded(text="once"), actor="cli", key="k1")
        assert (again.repeated, again.events) == (True, [first])
    home.note("twice", key="k2")
    home.started("s2")
    other = home.note("once", session="s2", key="k1")
    assert other.id != first.id
    assert home.notes() == ["once", "twice"]
    assert home.journal.verify("s1").ok


def test_a_start_may_be_repeated_by_its_key(make: Callable[..., Home]) -> None:
    first = make().record(START, key="start", create=True)
    assert make().record(START, key="start", create=True) == first


def test_a_key_used_again_for_another_kind_of_event_is_refused(home: Home) -> None:
    home.started()
    home.note("a note", key="k1")
    with pytest.raises(Refused, match=r"note\.added"):
        home.record(ev.StepAdded(step="t1", title="a task"), key="k1")
    assert len(home.events()) == 2


def test_several_events_under_one_key_have_different_ids(make: Callable[..., Home]) -> None:
    home = make().started()
    home.record(ev.StepAdded(step="t1", title="a task"))
    # The start that a completion implies, and moves that go together.
    done = home.record(ev.StepCompleted(step="t1"), key="k1")
    home.record(ev.SessionPaused(), key="k2")
    resumed = home.record(
        ev.SessionInterrupted(doing="x"), ev.NoteAdded(text="n"), ev.SessionResumed(), key="k3"
    )
    ids = [event.id for event in home.events()]
    assert len(set(ids)) == len(ids) == 8
    assert home.journal.verify("s1").ok
    retrying = make()
    assert retrying.record(ev.StepCompleted(step="t1"), key="k1") == done
    assert retrying.record(ev.SessionInterrupted(), ev.SessionResumed(), key="k3") == resumed
    assert len(home.events()) == 8


# --- other devices ------------------------------------------------------------------------------


@pytest.fixture
def two(make: Callable[..., Home]) -> tuple[Home, Home]:
    """Two devices that know one session."""
    a, b = make("a").started(), make("b")
    b.journal.absorb("s1", a.sealed())
    return a, b


def test_merged_session_equals_the_original(two: tuple[Home, Home]) -> None:
    a, b = two
    assert b.sealed() == a.sealed()
    assert b.codes() == []
    with a.store.view("s1") as one, b.store.view("s1") as other:
        assert (one.core, one.listing()) == (other.core, other.listing())


def test_devices_that_exchange_everything_have_the_same_state(two: tuple[Home, Home]) -> None:
    a, b = two
    a.record(ev.StepAdded(step="t1", title="of a"))
    b.record(ev.StepAdded(step="t1", title="of b"))
    b.note("from b")
    assert b.journal.absorb("s1", a.sealed()) == 1
    assert a.journal.absorb("s1", b.sealed()) == 2
    assert a.journal.absorb("s1", b.sealed()) == 0
    a.note("after both")
    assert b.journal.absorb("s1", reversed(a.sealed())) == 1  # type: ignore[arg-type]
    for home in two:
        assert home.codes() == []
    with a.store.view("s1") as one, b.store.view("s1") as other:
        assert image(a.journal.state(one)) == image(b.journal.state(other))
    assert {e.hash for e in a.events()} == {e.hash for e in b.events()}
    assert [e.seq for e in b.events()] == list(range(1, 6))


def test_event_with_a_known_id_is_not_a_continuation(
    make: Callable[..., Home],
) -> None:
    home = make().started()
    own = home.note("written here").id

    def arrives(id: str) -> bool:
        with home.store.view("s1") as view:
            core = home.journal.state(view).core
        fields = {"session": "s1", "device": "elsewhere", "id": id, "at": 1, "actor": "agent"}
        note = ev.NoteAdded(text=f"under {id}")
        sealed, event = next_event(core, note, salt=b"s" * ev.SALT_BYTES, **fields)  # type: ignore[arg-type]
        return home.journal.append_in_order("s1", [(sealed, event.head, event.hash)])

    assert not arrives(own)
    assert arrives("new")
    assert not arrives("new")
    assert [event.id for event in home.events()][1:] == [own, "new"]


def test_a_merge_with_an_event_whose_predecessor_is_missing_is_refused_as_a_whole(
    two: tuple[Home, Home],
) -> None:
    a, b = two
    a.note("one")
    a.note("two")
    before = b.sealed()
    with pytest.raises(Damaged, match="missing"):
        b.journal.absorb("s1", [*before, a.sealed()[-1]])
    assert b.sealed() == before


@pytest.mark.parametrize("part", ["header", "salt", "data"])
def test_merging_an_event_with_changed_bytes_is_refused(two: tuple[Home, Home], part: str) -> None:
    a, b = two
    a.note("an honest remark")
    last = a.sealed()[-1]
    parts = {name: getattr(last, name) for name in ("header", "salt", "data")}
    parts[part] = parts[part].replace(b"1", b"2", 1) if part == "header" else parts[part] + b" "
    with pytest.raises(Damaged):
        b.journal.absorb("s1", [Sealed(**parts)])
    assert len(b.events()) == 1


def test_merging_events_of_another_session_is_refused(two: tuple[Home, Home]) -> None:
    a, b = two
    with pytest.raises(Damaged, match="belongs to session s1"):
        b.journal.absorb("s2", a.sealed())
    assert [row["id"] for row in b.store.catalogue()] == ["s1"]


def test_key_of_a_merged_event_returns_that_event_instead_of_recording_again(
    two: tuple[Home, Home],
) -> None:
    a, b = two
    first = a.note("once", key="k1")
    b.journal.absorb("s1", a.sealed())
    again = b.journal.append("s1", ev.NoteAdded(text="once"), actor="cli", key="k1")
    assert again.repeated
    assert again.events[0].hash == first.hash


def test_content_without_events_is_stored_only_for_an_existing_session(
    two: tuple[Home, Home],
) -> None:
    _, b = two
    data = b"an artifact"
    blobs = [(sha256(data).hexdigest(), data)]
    assert b.journal.absorb("s9", [], blobs) == 0
    assert [row["id"] for row in b.store.catalogue()] == ["s1"]
    assert b.journal.absorb("s1", [], blobs) == 0
    assert b.store.blob(blobs[0][0]) == data
    assert b.codes() == []


def test_device_gets_a_new_id_after_merging_unknown_events_under_its_id(
    make: Callable[..., Home],
) -> None:
    """A copy of this home wrote under our id: both histories stay, neither is continued."""
    home = make().started()
    home.store.close()
    shutil.copytree(home.path, home.path.parent / "twin")
    twin = make("twin")
    with twin.store.view("s1"):
        pass
    twin.harm("UPDATE meta SET value = ? WHERE key = 'place'", f"m:{ino(twin.path)}")
    device = home.store.machine.device
    assert twin.note("of the twin").head.device == device
    assert home.note("of the original").head.device == device
    assert home.journal.absorb("s1", twin.sealed()) == 1
    after = home.note("after the merge")
    assert after.head.device == home.store.machine.device != device
    assert len(after.head.seen[device]) == 4
    assert home.codes() == []
    assert sorted(home.notes()) == ["after the merge", "of the original", "of the twin"]


def ino(home: Path) -> int:
    return os.stat(home / "forestay.db").st_ino


# --- verification -------------------------------------------------------------------------------


@pytest.fixture
def whole(home: Home) -> Home:
    home.started()
    home.record(ev.StepAdded(step="t1", title="a task"))
    home.note("the last one")
    home.store.close()
    return home


@pytest.mark.req("S0-70", "S0-79")
@pytest.mark.parametrize("seq", [1, 2, 3])
@pytest.mark.parametrize("column", ["header", "salt", "data"])
def test_a_flipped_byte_in_any_event_is_found(whole: Home, seq: int, column: str) -> None:
    position = (1 << 32) + seq
    (value,) = whole.store.database.read(
        f"SELECT {column} FROM event WHERE position = ?", (position,)
    )[0]
    for place in range(0, len(value), 1 + len(value) // 40):
        for bit in (1, 32):
            bent = bytearray(value)
            bent[place] ^= bit
            whole.harm(f"UPDATE event SET {column} = ? WHERE position = ?", bytes(bent), position)
            assert whole.codes(), (place, bit)
            with whole.store.view("s1") as view:
                assert whole.journal.check_chain(view), (place, bit)
    whole.harm(f"UPDATE event SET {column} = ? WHERE position = ?", value, position)
    assert whole.codes() == []


@pytest.mark.parametrize("bit", [0, 1, 7])
def test_every_flipped_bit_in_events_is_detected(whole: Home, bit: int) -> None:
    path = whole.path / "forestay.db"
    data, good = path.read_bytes(), raw_events(path)
    root = whole.store.database.read("SELECT rootpage FROM sqlite_schema WHERE name = 'event'")[0][
        0
    ]
    found = 0
    for at in range((root - 1) * 4096 + bit % 7, root * 4096, 7):
        whole.store.close()
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :])
        if called_good(whole):
            assert raw_events(path) == good, at % 4096
        else:
            found += 1
    assert found > 120  # so many of the bytes are in use


def called_good(home: Home) -> bool:
    try:
        with home.store.view("s1") as view:
            return not home.journal.check_chain(view)
    except Damaged:
        return False


def raw_events(path: Path) -> object:
    """Everything that the table of events holds, and as what type; or why it cannot be read."""
    columns = ("position", "key", "header", "salt", "data")
    types = ", ".join(f"typeof({name})" for name in columns)
    connection = sqlite3.connect(path)
    try:
        return connection.execute(f"SELECT {', '.join(columns)}, {types} FROM event").fetchall()
    except sqlite3.Error as error:
        return str(error)
    finally:
        connection.close()


@pytest.mark.parametrize(
    "harm, code",
    [
        ("DELETE FROM event WHERE position = 4294967298", "gap"),
        ("UPDATE event SET position = position + 900000 WHERE position = 4294967299", "gap"),
        ("DELETE FROM event WHERE position = 4294967299", "tail"),
        ("DELETE FROM event", "tail"),
        ("UPDATE session SET seq = 2", "tail"),
        ("UPDATE session SET event_sum = event_sum + 1", "sum"),
        ("UPDATE event SET data = NULL WHERE position = 4294967298", "broken"),
        ("UPDATE event SET salt = NULL WHERE position = 4294967298", "broken"),
        ("UPDATE event SET header = x'00' WHERE position = 4294967298", "unreadable"),
        ("UPDATE session SET core = CAST(replace(core, 'mend', 'bend') AS BLOB)", "core"),
        ("DELETE FROM row", "rows"),
        ("UPDATE row SET open = 0", "rows"),
        ("UPDATE row SET rank = rank + 1", "rows"),
        ("UPDATE row SET value = x'00'", "rows"),
        ("UPDATE row SET key = 't2'", "rows"),
        ("UPDATE session SET goal = 'another'", "catalogue"),
        ("UPDATE session SET status = 'paused'", "catalogue"),
        ("UPDATE session SET summary = '{}'", "catalogue"),
        ("UPDATE session SET updated = updated + 1", "catalogue"),
        ("UPDATE session SET archived = 1", "catalogue"),
    ],
)
def test_every_kind_of_damage_is_reported(whole: Home, harm: str, code: str) -> None:
    whole.harm(harm)
    assert code in whole.codes()


def test_events_cut_off_at_the_end_are_noticed(whole: Home) -> None:
    """Events, core, rows and catalogue all agree; only the head remembered outside differs."""
    shorter = whole.sealed()[:2]
    whole.harm("DELETE FROM event WHERE position = 4294967299")
    whole.harm("UPDATE session SET seq = 2")
    whole.journal.rebuild("s1")
    assert whole.sealed() == shorter
    assert whole.codes() == ["lost"]
    with whole.store.view("s1") as view:
        assert [f.code for f in whole.journal.check_chain(view)] == ["lost"]


def test_remembered_head_that_lags_behind_is_no_loss(make: Callable[..., Home]) -> None:
    """After a power cut the slot may be older than the database."""
    home = make().started()
    early = home.note("one")
    home.note("two")
    heads = home.store.database.heads
    heads.remember(1, "s1", Head(early.head.device, early.head.n, early.hash))
    later = make()
    assert later.codes() == []
    assert later.note("three").head.device == early.head.device
    assert later.codes() == []
    assert later.store.maintenance.remembered()[0][1].n == 4


def test_a_session_that_is_sound_has_no_findings(whole: Home) -> None:
    report = whole.journal.verify("S1")
    assert (report.ok, report.events, report.findings) == (True, 3, [])
    with pytest.raises(NoSession):
        whole.journal.verify("s2")


@pytest.mark.parametrize(
    "harm",
    [
        "DELETE FROM row",
        "UPDATE row SET value = x'00'",
        "UPDATE session SET core = x'00', fold = 7",
        "UPDATE session SET goal = 'another', summary = '{}'",
    ],
)
def test_rebuilding_computes_all_derived_data_again(whole: Home, harm: str) -> None:
    before = whole.sealed()
    whole.harm(harm)
    assert whole.codes()
    whole.journal.rebuild("s1")
    assert whole.codes() == []
    assert whole.sealed() == before
    whole.record(ev.StepStarted(step="t1"))
    assert whole.codes() == []


def test_rebuilding_an_intact_session_changes_nothing(whole: Home) -> None:
    with whole.store.view("s1") as view:
        before = (view.core, view.all_rows(), view.listing())
    whole.journal.rebuild("s1")
    with whole.store.view("s1") as view:
        assert (view.core, view.all_rows(), view.listing()) == before


def test_write_during_verification_is_not_reported_as_damage(make: Callable[..., Home]) -> None:
    home, other = make().started(), make()
    going = True

    def write() -> None:
        while going:
            other.note("more")

    writing = threading.Thread(target=write)
    writing.start()
    try:
        for _ in range(40):
            assert home.journal.verify("s1").findings == []
    finally:
        going = False
        writing.join()


def _decision(what: str) -> Body:
    return ev.DecisionMade(decision="d1", what=what, options=[f"{what} a"], chosen=f"{what} a")


# --- forgetting ---------------------------------------------------------------------------------


def test_forgotten_content_is_erased_from_every_file(home: Home) -> None:
    home.started("keep").started("s1")
    data = b"Geheimes " * 500
    digest = sha256(data).hexdigest()
    home.record(ev.SessionRenamed(goal="Geheimziel"))
    home.record(ev.StepAdded(step="t1", title="Geheimtitel"))
    home.record(_decision("Geheimwahl"))
    home.journal.append("s1", ev.NoteAdded(text="Geheimtext"), actor="cli", blobs=[(digest, data)])
    home.note("plain", session="keep")
    assert home.store.search("geheimtext", text_of=search_text)
    assert b"Geheim" in home.raw()
    home.journal.forget("S1", actor="user")
    assert b"geheim" not in home.raw().lower()
    assert home.store.search("geheim", text_of=search_text) == []
    assert home.store.blob(digest) is None
    assert [row["id"] for row in home.store.catalogue()] == ["keep"]
    assert home.notes("keep") == ["plain"]
    assert home.codes("keep") == []


def test_forgotten_session_verifies_and_accepts_no_events(home: Home) -> None:
    home.started()
    home.note("once", key="k1")
    kept = home.sealed()
    home.journal.forget("s1", actor="user")
    events = home.events()
    assert [event.kind for event in events][-1] == "session.forgotten"
    assert all(isinstance(event.body, ev.Erased) for event in events)
    assert home.codes() == []
    with home.store.view("s1") as view:
        state = home.journal.state(view)
        assert (state.core.forgotten, state.core.goal) == (True, "")
    attempts: list[Callable[[], object]] = [
        lambda: home.note("more"),
        lambda: home.note("once", key="k1"),
        lambda: home.journal.forget("s1", actor="user"),
        lambda: home.journal.absorb("s1", kept),
    ]
    for attempt in attempts:
        with pytest.raises(Refused, match="forgotten"):
            attempt()
    assert home.codes() == []


def test_forgetting_an_unknown_session_is_an_error(home: Home) -> None:
    with pytest.raises(NoSession):
        home.journal.forget("s1", actor="user")


# --- reading ------------------------------------------------------------------------------------


def test_events_are_read_in_parts_and_backwards(home: Home) -> None:
    home.started()
    for number in range(5):
        home.note(str(number))
    with home.store.view("s1") as view:
        seqs = [event.seq for event in home.journal.events(view, after=2, limit=2)]
        assert seqs == [3, 4]
        newest = [event.seq for event in home.journal.events(view, newest=True, limit=2)]
        assert newest == [6, 5]


def test_rows_can_only_be_read_while_a_view_is_open(home: Home) -> None:
    home.started()
    done = home.journal.append("s1", ev.StepAdded(step="t1", title="x"), actor="cli")
    with pytest.raises(RuntimeError):
        done.state.rows.get("step", "t2")


def test_search_finds_recorded_text(home: Home) -> None:
    home.started()
    home.note("the cookie is refused")
    home.record(_decision("which cookie"))
    home.record(ev.CommandRan(name="cookie", status="success"))
    hits = home.store.search("cookie", text_of=search_text)
    assert sorted(str(hit["kind"]) for hit in hits) == ["decision.made", "note.added"]
    home.harm("UPDATE event SET header = x'00' WHERE position = 4294967298")
    home.note("one more cookie")
    assert len(home.store.search("cookie", text_of=search_text)) >= 2


def test_errors_of_a_damaged_database_are_translated(whole: Home) -> None:
    size = os.path.getsize(whole.path / "forestay.db")
    for cut in (size // 2, 5000, 4096, 100, 1):
        os.truncate(whole.path / "forestay.db", cut)
        for use in (
            lambda: whole.events(),
            lambda: whole.journal.verify("s1"),
            lambda: whole.note("x"),
            lambda: whole.journal.rebuild("s1"),
            lambda: whole.store.search("login", text_of=search_text),
        ):
            with pytest.raises(ForestayError):
                use()
        whole.store.close()


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE row SET open = 0",
        "UPDATE row SET rank = rank + 1",
        "DELETE FROM row",
        "UPDATE event SET key = 'another' WHERE position = 4294967299",
    ],
)
def test_damage_outside_the_events_is_detected_too(whole: Home, harm: str) -> None:
    whole.harm(harm)
    with whole.store.view("s1") as view:
        assert not view.intact()
        assert [finding.code for finding in whole.journal.check_chain(view)] == ["sum"]
    assert whole.codes()


def test_several_retractions_are_folded_once(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.started()
    notes = [home.note(f"note {n}") for n in range(20)]
    folded: list[int] = []

    def counted(events: Iterable[Event]) -> State:
        folded.append(1)
        return fold(events)

    monkeypatch.setattr("forestay.journal.journal.fold", counted)
    gone = [ev.EventRetracted(event=note.id, because="too many") for note in notes[:19]]
    home.record(*gone, ev.NoteAdded(text="one more"))
    assert len(folded) == 1, "a journal is not added up again for every one of them"
    with home.store.view("s1") as view:
        state = home.journal.state(view)
        assert image(state) == image(fold(home.journal.events(view)))
        assert state.core.retracted == 19
