"""What one device forgot is erased on the remote and on every other device."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from forestay.api.forestay import Forestay
from forestay.errors import Tampered, Unreachable
from forestay.journal import pack
from forestay.model.event import NoteAdded
from forestay.model.fold import fold
from forestay.sync.pull import PackReader
from forestay.sync.push import SessionPush
from forestay.sync.remotes.object_names import PackName
from tests.histories import image
from tests.sync.travelling import Travellers, folder_of, hashes, travel

WORD, OTHER = "Zimtschnecke", "Muskatnuss"


@pytest.fixture
def both(travellers: Travellers) -> tuple[Forestay, Forestay]:
    """Two devices with one session, in which events of both contain the same word."""
    a, b = travellers.make("a"), travellers.make("b")
    session = a.start("a plan", id="s-1")
    session.note(f"{WORD} one")
    session.note(f"{WORD} and more " * 900)
    session.decide(f"take {WORD}")
    session.note("this stays")
    travel(a)
    travel(b)
    b.session("s-1").note(f"{WORD} of another device")
    travel(b)
    travel(a)
    return a, b


def holding(folder: Path, word: str = WORD) -> list[str]:
    """Return the files below a folder that contain a word, as bytes or packed."""
    found = subprocess.run(
        ["grep", "-rlia", word, str(folder)], capture_output=True, text=True
    ).stdout.split()
    for path in folder.rglob("*.fspack"):
        items = pack.Reader([path.read_bytes()])
        text = [s.data or b"" for i in items if isinstance(i, pack.Range) for s in i.events]
        found += [str(path)] if any(word.lower().encode() in one.lower() for one in text) else []
    return found


def on_remote(home: Forestay, session: str = "s-1") -> bytes:
    """Return all that a device with the keys can read of a session on the remote."""
    seen: list[bytes] = []

    def read(self: PackReader, name: PackName, data: bytes) -> object:
        _, body = self._exchange.keys.open(name, data)
        for item in pack.Reader([body]):
            if isinstance(item, pack.Blob):
                seen.append(item.data)
            else:
                seen.extend(sealed.data or b"" for sealed in item.events)
        return opened(self, name, data)

    opened = PackReader.opened
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PackReader, "opened", read)
        travel(home, push=False)
    return b"\n".join(seen)


def numbers(home: Forestay, word: str = WORD) -> list[int]:
    """Return the numbers of the events that contain the word."""
    lines = home.session("s-1").log()
    return [line.event.seq for line in lines if word in str(line.event.body)]


def state(home: Forestay) -> dict[tuple[str, str], bytes]:
    with home.context.store.view("s-1") as view:
        return image(fold(home.context.journal.events(view)))


def test_forgotten_event_is_erased_on_the_remote_and_other_devices(
    travellers: Travellers, both: tuple[Forestay, Forestay]
) -> None:
    a, b = both
    a.backups.create()
    b.backups.create()
    old = travellers.folder / "b-before"
    b.close()
    shutil.copytree(travellers.folder / "b", old)
    b = travellers.reopen("b")
    a.session("s-1").lifecycle.forget(*numbers(a), because="too sweet")
    assert holding(travellers.folder / "a") == []
    (outcome,) = travel(a).sessions
    assert outcome.packs_up >= 3
    fresh = travellers.make("c")
    there = on_remote(fresh)
    assert WORD.encode() not in there and b"this stays" in there
    assert holding(travellers.folder / "b") != []
    travel(b)
    assert holding(travellers.folder / "b") == [] and holding(travellers.folder / "c") == []
    assert state(a) == state(b) == state(fresh)
    for home in (a, b, fresh):
        assert home.session("s-1").verify().ok
        assert (travel(home).up, travel(home).down) == (0, 0)
    # An old copy of b is restored: it pulls the tombstone before it pushes.
    b.close()
    shutil.rmtree(travellers.folder / "b")
    shutil.copytree(old, travellers.folder / "b")
    shutil.rmtree(old)
    b = travellers.reopen("b")
    assert holding(travellers.folder / "b") != []
    travel(b)
    assert holding(travellers.folder / "b") == []
    travel(a)
    assert state(a) == state(b)
    assert WORD.encode() not in on_remote(travellers.make("d"))


@pytest.mark.parametrize("why", [Unreachable("gone"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("others", [0, 3])
def test_forgotten_event_is_erased_even_if_a_sync_fails(
    travellers: Travellers,
    both: tuple[Forestay, Forestay],
    monkeypatch: pytest.MonkeyPatch,
    why: BaseException,
    others: int,
) -> None:
    a, b = both
    b.backups.create()
    a.session("s-1").lifecycle.forget(*numbers(a), because="too sweet")
    travel(a)
    for n in range(others):
        b.start("another", id=f"another-{n}")

    def go_away(self: SessionPush) -> None:
        raise why

    with monkeypatch.context() as patch:
        patch.setattr(SessionPush, "push", go_away)
        with pytest.raises(type(why)):
            travel(b)
    travel(b)
    b.close()  # other sessions were read meanwhile: the log of the database is emptied now
    assert holding(travellers.folder / "b") == []


@pytest.mark.parametrize("whole", [False, True])
def test_forgotten_event_is_erased_even_if_the_process_dies_after_the_pull(
    travellers: Travellers,
    both: tuple[Forestay, Forestay],
    monkeypatch: pytest.MonkeyPatch,
    whole: bool,
) -> None:
    a, b = both
    b.backups.create()
    a.session("s-1").lifecycle.forget(
        *() if whole else numbers(a), because="" if whole else "too sweet"
    )
    travel(a)

    def die(self: object, outcome: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr("forestay.sync.run._Visit._done", die)
        with pytest.raises(SystemExit):
            travel(b)
    assert holding(travellers.folder / "b") != []
    travel(b)
    b.close()
    assert holding(travellers.folder / "b") == []


def test_session_that_one_device_forgets_is_erased_everywhere(
    travellers: Travellers, both: tuple[Forestay, Forestay]
) -> None:
    a, b = both
    b.session("s-1").note(f"{WORD} meanwhile")
    travel(b)
    a.session("s-1").lifecycle.forget()
    travel(a)
    travel(b)
    travel(a)
    for name in "ab":
        assert holding(travellers.folder / name) == []
    assert hashes(a, "s-1") == hashes(b, "s-1")
    assert b.context.store.catalogue() == []
    assert WORD.encode() not in on_remote(travellers.make("c"))


def test_session_that_was_forgotten_before_it_arrived_is_not_reported_as_new(
    travellers: Travellers, both: tuple[Forestay, Forestay]
) -> None:
    a, _ = both
    a.session("s-1").lifecycle.forget()
    travel(a)
    (outcome,) = travel(travellers.make("c")).sessions
    assert outcome.down and not outcome.new


@pytest.fixture
def late(both: tuple[Forestay, Forestay], monkeypatch: pytest.MonkeyPatch) -> None:
    """Both devices record the same message; one forgets it, the other has not pulled that yet."""
    a, b = both
    for home in both:
        home.context.journal.append(
            "s-1", NoteAdded(text=f"{OTHER} told"), actor="hook", key="told"
        )
    a.session("s-1").lifecycle.forget(*numbers(a, OTHER))
    travel(a)
    with monkeypatch.context() as patch:
        patch.setattr(SessionPush, "_has_more_of_ours", lambda self: False)
        travel(b, pull=False)


@pytest.mark.usefixtures("late")
def test_late_pack_is_replaced_by_the_device_that_forgot(
    travellers: Travellers, both: tuple[Forestay, Forestay]
) -> None:
    a, b = both
    assert OTHER.encode() in on_remote(travellers.make("c"))
    travel(a)
    assert OTHER.encode() not in on_remote(travellers.make("d"))
    travel(b)
    assert [holding(travellers.folder / name, OTHER) for name in "ab"] == [[], []]
    assert state(a) == state(b)
    assert [(travel(home).up, travel(home).down) for home in both] == [(0, 0), (0, 0)]


@pytest.mark.usefixtures("late")
def test_late_pack_is_replaced_by_its_own_device(
    travellers: Travellers, both: tuple[Forestay, Forestay]
) -> None:
    _, b = both
    travel(b, push=False)
    assert holding(travellers.folder / "b", OTHER) == []
    travel(b, pull=False)
    assert OTHER.encode() not in on_remote(travellers.make("c"))


def test_pack_emptied_without_a_tombstone_is_tampering(
    travellers: Travellers, both: tuple[Forestay, Forestay], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, _ = both
    a.session("s-1").lifecycle.forget(numbers(a)[0])
    # A device that erases more than its tombstone names.
    a.context.store.database.write(  # type: ignore[attr-defined]
        lambda connection: connection.execute(
            "UPDATE event SET salt = NULL, data = NULL WHERE position & 4294967295 = 5"
        )
    )
    travel(a)
    (outcome,) = travel(travellers.make("c"), push=False).sessions
    assert isinstance(outcome.error, Tampered) and "no device that is allowed to erase it" in str(
        outcome.error
    )


def test_storage_reveals_nothing_of_an_erasure(
    travellers: Travellers, both: tuple[Forestay, Forestay]
) -> None:
    a, _ = both
    names = {one.name for one in folder_of(travellers).list("s/")}
    a.session("s-1").lifecycle.forget(*numbers(a))
    travel(a)
    assert holding(travellers.folder / "remote", "forgotten") == []
    left = {one.name for one in folder_of(travellers).list("s/")}
    assert len(names - left) >= 2  # the packs that held it are gone from there
