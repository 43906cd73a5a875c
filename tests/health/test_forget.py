"""Forgetting: forgotten content is in no byte any more, and nothing restores it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from forestay.errors import Refused
from forestay.journal import backup, pack, restore
from forestay.journal.projections import search_text
from forestay.model import event as ev
from forestay.model.erasure import anyone
from forestay.model.event import Body, Event, Sealed
from forestay.model.fold import fold
from forestay.model.state import Proof
from tests.histories import image, simulate
from tests.homes import Home, digest_of

WORD = "Zimtschnecke"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    one = Home(tmp_path / "a", seed=1)
    yield one
    one.store.close()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Home]:
    one = Home(tmp_path / "b", seed=2)
    yield one
    one.store.close()


def events(home: Home, session: str = "s-1") -> list[Event]:
    with home.store.view(session) as view:
        return list(home.journal.events(view))


def forget(home: Home, *numbers: int, because: str = "") -> list[int]:
    """Forget events by their arrival numbers; return the numbers of those that lost content."""
    hashes = [event.hash for event in events(home) if event.seq in numbers]
    done = home.journal.forget_events("s-1", hashes, actor="user", because=because)
    return [event.seq for event in done]


def files_with(home: Home, text: str = WORD) -> list[str]:
    """Return the files of a home that contain a text, in any case, plain or inside a pack."""
    found = []
    for path in sorted(home.path.rglob("*")):
        data = path.read_bytes() if path.is_file() else b""
        if path.suffix == ".fspack":
            data += b"".join(_content_of(item) for item in pack.Reader([data]))
        if text.lower().encode() in data.lower():
            found.append(str(path))
    return found


def _content_of(item: pack.Item) -> bytes:
    if isinstance(item, pack.Blob):
        return item.data
    return b"".join(sealed.data or b"" for sealed in item.events)


def fill_session(home: Home) -> None:
    """Record a session that contains one word in every kind of text."""
    home.start()
    long = (f"{WORD} " * 900).encode()
    home.do("s-1", ev.NoteAdded(text=f"{WORD} is short", for_next=True))
    home.do("s-1", ev.NoteAdded(text=WORD, blob=digest_of(long), size=len(long)), content=long)
    home.do("s-1", ev.StepAdded(step="t1", title=f"bake {WORD}"))
    home.do("s-1", ev.DecisionMade(decision="d1", what=f"{WORD} it is", chosen=f"a {WORD}"))
    home.save_artifact(f"{WORD} as an artifact".encode())
    home.note("nothing else")


# -- on one device -------------------------------------------------------------------------------


def test_forgotten_events_are_gone_from_every_byte_and_the_chain_verifies(home: Home) -> None:
    fill_session(home)
    assert home.store.search(WORD, text_of=search_text)
    home.save()
    before = [sealed.hash for sealed in home.events()]
    assert forget(home, 2, 3, 4, 5, 6) == [2, 3, 4, 5, 6]
    backup.purge(home.folder, "s-1", set(before[1:6]))
    assert files_with(home) == []
    assert home.store.search(WORD, text_of=search_text) == []
    assert home.is_sound() and [s.hash for s in home.events()][:7] == before
    assert home.store.maintenance.flaws() == []
    home.note("the session continues")
    assert home.is_sound() and home.store.search("continues", text_of=search_text)


def test_forgetting_an_event_leaves_content_that_other_sessions_use(home: Home) -> None:
    home.start()
    home.start("s-2")
    home.save_artifact(b"shared")
    home.save_artifact(b"shared", "s-2")
    home.save_artifact(b"twice")
    home.save_artifact(b"twice")
    forget(home, 2, 3)
    assert home.store.blob(digest_of(b"shared")) == b"shared"
    assert home.store.blob(digest_of(b"twice")) == b"twice"
    forget(home, 4)
    assert home.store.blob(digest_of(b"twice")) is None
    assert home.is_sound() and home.is_sound("s-2")


def test_erased_event_has_no_content(home: Home) -> None:
    fill_session(home)
    home.do("s-1", ev.StepStarted(step="t1"))
    home.do("s-1", ev.EvidenceObserved(proof="lint", argv=["make", WORD], exit=0))
    forget(home, 2, 3, 4, 5, 6, 8, 9)
    with home.store.view("s-1") as view:
        state = home.journal.state(view)
        assert (state.core.goal, state.core.erased) == ("the goal of s-1", 7)
        assert [line.text for line in state.core.notes] == ["nothing else"]
        tables = ("step", "decision", "artifact", "note", "proof")
        assert not any(list(state.rows.select(table)) for table in tables)
        assert not any(isinstance(row, Proof) for _, _, row in state.rows.items())


def test_session_continues_after_its_first_event_was_forgotten(home: Home) -> None:
    home.start()
    forget(home, 1)
    with home.store.view("s-1") as view:
        core = home.journal.state(view).core
    assert (core.status, core.goal) == ("active", "")
    assert core.began_at == events(home)[0].head.at
    home.do("s-1", ev.SessionRenamed(goal="said better"))
    assert home.is_sound()


def test_forgetting_twice_records_one_tombstone_which_cannot_be_forgotten(home: Home) -> None:
    fill_session(home)
    assert forget(home, 2, because="a name") == [2]
    count = len(home.events())
    assert forget(home, 2) == [] and len(home.events()) == count
    assert forget(home, count) == [] and len(home.events()) == count
    (stone,) = [e for e in events(home) if isinstance(e.body, ev.EventForgotten)]
    event = events(home)[1]
    assert isinstance(stone.body, ev.EventForgotten)
    assert (stone.body.hashes, stone.body.ids) == ([event.hash], [event.id])
    assert (stone.body.because, stone.head.actor, stone.head.must) == ("a name", "user", "0.1.0")


def test_many_events_take_several_tombstones(home: Home) -> None:
    home.start()
    moves: list[Body] = [ev.NoteAdded(text=f"{WORD} {n}") for n in range(250)]
    home.journal.append("s-1", *moves, actor="cli")
    assert forget(home, *range(2, 252)) == list(range(2, 252))
    assert [e.kind for e in events(home)][251:] == ["event.forgotten"] * 3
    assert files_with(home) == [] and home.is_sound()


def test_a_call_under_the_key_of_a_forgotten_event_does_not_record_it_again(home: Home) -> None:
    home.start()
    home.journal.append("s-1", ev.NoteAdded(text=WORD), actor="cli", key="k")
    forget(home, 2)
    again = home.journal.append("s-1", ev.NoteAdded(text=WORD), actor="cli", key="k")
    assert again.repeated and files_with(home) == []


def test_erasing_an_event_of_a_damaged_session_is_refused(home: Home) -> None:
    fill_session(home)
    home.write("UPDATE event SET data = x'7b7d' WHERE position & 4294967295 = 7")
    from forestay.errors import Damaged

    with pytest.raises(Damaged, match="damaged"):
        forget(home, 2)
    assert files_with(home) and not home.is_sound()


# -- copies --------------------------------------------------------------------------------------


def test_importing_old_copies_restores_nothing_forgotten(home: Home) -> None:
    fill_session(home)
    export, saved = home.export(), home.save().path
    old = home.events()
    Path(home.path / "elsewhere.fspack").write_bytes(Path(saved).read_bytes())
    forget(home, 2, 3, 4, 5, 6)
    backup.purge(home.folder, "s-1", {sealed.hash for sealed in old[1:6]})
    home.absorb(export)
    home.absorb(str(home.path / "elsewhere.fspack"), partial=True)
    home.journal.absorb("s-1", old, entitled=anyone)
    os.unlink(home.path / "elsewhere.fspack")
    assert files_with(home) == [] and home.is_sound()


def test_copy_that_arrives_after_its_tombstone_is_stored_without_content(
    home: Home, other: Home
) -> None:
    fill_session(home)
    export = home.export()
    forget(home, 2, 3, 4, 5, 6)
    other.absorb(home.export())
    assert files_with(other) == []
    other.absorb(export)
    assert files_with(other) == [] and other.is_sound()


def test_content_that_arrives_alone_is_not_stored_for_an_erased_event(home: Home) -> None:
    fill_session(home)
    long = (f"{WORD} " * 900).encode()
    forget(home, 2, 3, 4, 5, 6)
    home.journal.absorb("s-1", [], [(digest_of(long), long)])
    assert home.store.blob(digest_of(long)) is None and files_with(home) == []


def test_imported_file_erases_nothing_but_counts_events_forgotten_elsewhere(
    home: Home, other: Home
) -> None:
    fill_session(home)
    other.absorb(home.export())
    forget(home, 2, 4)
    (taken,) = other.absorb(home.export()).sessions
    assert (taken.new, taken.kept, taken.why) == (1, 2, "")
    assert other.events()[1].data is not None and files_with(other)
    assert image(fold(events(other))) == image(fold(events(home)))
    assert other.is_sound()
    assert forget(other, 2, 4) == [2, 4]  # the word of the user
    assert [e.kind for e in events(other)].count("event.forgotten") == 1
    forget(other, 3, 5, 6)
    assert files_with(other) == [] and other.is_sound()


def test_a_tombstone_of_an_entitled_device_erases_here(home: Home, other: Home) -> None:
    fill_session(home)
    other.absorb(home.export())
    assert files_with(other)
    forget(home, 2, 3, 4, 5, 6)
    restore.absorb(other.journal, home.export(), entitled=anyone)
    assert files_with(other) == [] and other.is_sound()
    assert image(fold(events(other))) == image(fold(events(home)))
    restore.absorb(other.journal, home.export(), entitled=anyone)
    assert [s.hash for s in other.events()] == [s.hash for s in home.events()]


def test_tombstone_of_another_person_is_stored_and_erases_nothing(home: Home, other: Home) -> None:
    fill_session(home)
    other.absorb(home.export())
    forget(home, 2)
    mine = home.events()[0]
    device = ev.parse_header(mine.header).device

    def refuse_all(by: str, of: str) -> bool:
        assert (by, of) == (device, device)
        return False

    restore.absorb(other.journal, home.export(), entitled=refuse_all)
    assert len(other.events()) == 8 and other.events()[1].data is not None


def test_copy_of_a_forgotten_event_under_another_hash_is_forgotten_too(
    home: Home, other: Home
) -> None:
    home.start()
    other.absorb(home.export())
    for one in (home, other):
        one.journal.append("s-1", ev.NoteAdded(text=WORD), actor="hook:x", key="told")
    forget(home, 2)
    restore.absorb(other.journal, home.export(), entitled=anyone)
    assert files_with(other) == [] and other.is_sound()
    home.absorb(other.export())
    assert files_with(home) == [] and [s.hash for s in home.events()][1] == home.events()[1].hash


def test_a_session_that_another_device_forgot_is_erased_here(home: Home, other: Home) -> None:
    fill_session(home)
    other.absorb(home.export())
    other.note(f"{WORD} meanwhile")
    meanwhile = other.export()
    home.journal.forget("s-1", actor="user")
    with pytest.raises(Refused):
        home.journal.absorb("s-1", other.events())
    restore.absorb(other.journal, home.export(), entitled=anyone)
    restore.absorb(home.journal, meanwhile, entitled=anyone)
    for one in (home, other):
        assert files_with(one) == [] and one.is_sound()
        assert [row["id"] for row in one.store.catalogue()] == []
        assert all(sealed.data is None for sealed in one.events())
    assert {s.hash for s in home.events()} == {s.hash for s in other.events()}


def test_session_that_another_person_forgot_is_not_erased(home: Home, other: Home) -> None:
    fill_session(home)
    other.absorb(home.export())
    home.journal.forget("s-1", actor="user")
    (taken,) = restore.absorb(other.journal, home.export(), entitled=lambda by, of: False).sessions
    assert "stays on this device" in taken.why and files_with(other)
    with pytest.raises(Refused, match="another person has forgotten"):
        other.journal.absorb("s-1", home.events(), entitled=lambda by, of: False)


def test_tombstone_is_not_absorbed_as_an_ordinary_event(home: Home, other: Home) -> None:
    """Ordinary events are folded onto the last state; a tombstone needs a fold of all events."""
    fill_session(home)
    other.absorb(home.export())
    home.journal.forget("s-1", actor="user")
    stone = home.events()[-1]
    assert not other.journal.append_in_order(
        "s-1", [(stone, ev.parse_header(stone.header), stone.hash)]
    )
    assert files_with(other) and len(other.events()) == 7


# -- any order -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_histories_with_tombstones_converge_in_any_order(tmp_path: Path, seed: int) -> None:
    _check_convergence(tmp_path, seed)


@pytest.mark.soak
def test_many_histories_with_tombstones_converge(
    tmp_path: Path, soak_seconds: float, report_figure: Callable[[str], None]
) -> None:
    end, seed = time.monotonic() + soak_seconds, 100
    while time.monotonic() < end:
        _check_convergence(tmp_path / str(seed), seed)
        seed += 1
    report_figure(f"{seed - 100} histories with tombstones")


def _check_convergence(path: Path, seed: int) -> None:
    """Check that homes with the same events have the same state, without forgotten content."""
    random = Random(seed)
    world = simulate(random, 14, newer=False)
    if any(event.kind == "session.forgotten" for event in world.events):
        return
    sealed = [world.sealed[event.hash] for event in world.events]
    gone, kept = _forgotten(world.events), _fold_copy(path / "x", sealed)
    for name in "ab":
        home = Home(path / name, seed=3)
        for part in _parts(random, sealed):
            home.journal.absorb("s-1", part, entitled=anyone)
        home.journal.absorb("s-1", sealed, entitled=anyone)
        assert {s.hash for s in home.events() if s.data is None} == gone
        assert image(fold(events(home))) == kept
        assert home.is_sound()
        home.store.close()


def _fold_copy(path: Path, sealed: list[Sealed]) -> dict[tuple[str, str], bytes]:
    home = Home(path, seed=3)
    home.journal.absorb("s-1", sealed)
    found = image(fold(events(home)))
    home.store.close()
    return found


def _parts(random: Random, sealed: list[Sealed]) -> Iterator[list[Sealed]]:
    """Yield beginnings of a history of random length, with repetitions."""
    for _ in range(3):
        yield sealed[: random.randrange(1, len(sealed) + 1)]


def _forgotten(history: list[Event]) -> set[str]:
    stones = [e.body for e in history if isinstance(e.body, ev.EventForgotten)]
    hashes = {hash for stone in stones for hash in stone.hashes}
    ids = {id for stone in stones for id in stone.ids}
    return {
        e.hash for e in history if (e.hash in hashes or e.id in ids) and e.kind != "event.forgotten"
    }
