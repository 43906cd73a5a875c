"""Homes and a remote between them: everything arrives, nothing twice, and no lie is believed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from forestay.api.forestay import Forestay
from forestay.api.session import Session
from forestay.errors import (
    Busy,
    Downgraded,
    ForestayError,
    Forked,
    Outdated,
    RemoteFailed,
    Replayed,
    RolledBack,
    Swapped,
    Tampered,
    Truncated,
    Unreachable,
)
from forestay.model.event import NoteAdded
from forestay.sync import pack_builder
from forestay.sync.crypto import key_ring
from forestay.sync.crypto.envelope import Inside, disclose
from forestay.sync.crypto.keys import Secret
from forestay.sync.known_remotes import require_format
from forestay.sync.lock import exclusive_sync
from forestay.sync.remotes import object_names as named
from forestay.sync.remotes.port import FORMAT, Object
from forestay.sync.remotes.weak_consistency import ReadBackRemote
from forestay.sync.run import SyncOptions, visit
from tests.faulty_remotes import MemoryRemote
from tests.sync.travelling import Travellers, add_remote, hashes, known, travel


def packs(remote: MemoryRemote) -> list[str]:
    return [name for name in sorted(remote.objects) if named.as_pack(name)]


def texts(home: Forestay, id: str) -> list[str]:
    with home.context.store.view(id) as view:
        bodies = [event.body for event in home.context.journal.events(view)]
    return [body.text for body in bodies if isinstance(body, NoteAdded)]


# --- there and back -----------------------------------------------------------------------------


def test_session_arrives_completely_and_can_be_continued(
    travellers: Travellers, remote: MemoryRemote
) -> None:
    a, b = travellers.make("a"), travellers.make("b")
    session = a.start("Fix the login")
    session.note("tried cookies")
    session.record.artifact(__file__)
    up = travel(a, remote=remote)
    assert (up.up, up.waiting) == (3, 0)
    down = travel(b, remote=remote)
    assert (down.down, down.sessions[0].new) == (3, True)
    there = b.session(session.id)
    assert there.status().goal == "Fix the login"
    there.note("and sessions")
    travel(b, remote=remote)
    assert travel(a, remote=remote).down == 1
    assert hashes(a, session.id) == hashes(b, session.id)
    assert b.verify() == [] or all(report.ok for report in b.verify())


def test_keys_of_a_session_are_opened_once_in_a_sync(
    travellers: Travellers, remote: MemoryRemote, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = travellers.make("a"), travellers.make("b")
    session = a.start("Fix the login", id="login")
    for home in (a, b):
        travel(home, remote=remote)
    session.note("tried cookies")
    opened: list[bytes] = []

    def counted(data: bytes, kind: str, epochs: Sequence[Secret]) -> Inside:
        opened.append(data)
        return disclose(data, kind, epochs)

    monkeypatch.setattr(key_ring, "disclose", counted)
    assert travel(a, remote=remote).up == 1 and travel(b, remote=remote).down == 1
    assert [each.startswith(b"FORESTAY RING") for each in opened] == [True, True]


def test_known_packs_are_neither_pushed_nor_read_again(
    travellers: Travellers, remote: MemoryRemote
) -> None:
    a, b = travellers.make("a"), travellers.make("b")
    session = a.start("x")
    for home in (a, b, a):
        travel(home, remote=remote)
    before = dict(remote.objects)
    gets: list[str] = []
    plain = remote.get
    remote.get = lambda name: gets.append(name) or plain(name)  # type: ignore[method-assign, func-returns-value]
    for home in (a, b, a):
        report = travel(home, remote=remote)
        assert (report.up, report.down) == (0, 0)
    assert remote.objects == before
    assert set(gets) <= {"forestay/format"}
    a.session(session.id).note("more")
    travel(a, remote=remote)
    assert len(remote.objects) == len(before) + 1


def test_push_pulls_nothing_and_pull_pushes_nothing(
    travellers: Travellers, remote: MemoryRemote
) -> None:
    a, b = travellers.make("a"), travellers.make("b")
    session = a.start("x")
    travel(a, remote=remote, pull=False)
    mine = b.start("y")
    travel(b, remote=remote, pull=False)
    assert len(b.list()) == 1
    before = dict(remote.objects)
    mine.note("not yet")
    travel(b, remote=remote, push=False)
    assert remote.objects == before
    assert {row.session for row in b.list(all=True)} == {session.id, mine.id}


def test_only_the_named_sessions_are_synced(travellers: Travellers, remote: MemoryRemote) -> None:
    a = travellers.make("a")
    one, _ = a.start("one"), a.start("two")
    report = travel(a, remote=remote, sessions=[one.id])
    assert [outcome.session for outcome in report.sessions] == [one.id]
    assert report.waiting == 1


def test_long_chains_travel_in_parts_and_arrive_whole(
    travellers: Travellers, remote: MemoryRemote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack_builder, "MOST_EVENTS", 4)
    a, b = travellers.make("a"), travellers.make("b")
    session = a.start("long")
    for n in range(21):
        session.note(f"note {n}")
    travel(a, remote=remote)
    assert len(packs(remote)) == 6
    assert travel(b, remote=remote).down == 22
    assert hashes(a, session.id) == hashes(b, session.id)


def test_device_pushes_chains_of_others_to_another_remote(
    travellers: Travellers, remote: MemoryRemote
) -> None:
    a, b, c = (travellers.make(name) for name in "abc")
    session = a.start("x")
    travel(a, remote=remote)
    travel(b, remote=remote)
    b.session(session.id).note("from b")
    other = MemoryRemote()
    b.context.store.machine.remotes.add("other", "memory:", "", 1)
    travel(b, remote=other, name="other")
    c.context.store.machine.remotes.add("other", "memory:", "", 1)
    assert travel(c, remote=other, name="other").down == 2
    assert hashes(b, session.id) == hashes(c, session.id)


def test_two_devices_push_at_once_with_clocks_days_apart(
    travellers: Travellers, remote: MemoryRemote
) -> None:
    days = 3 * 24 * 3_600_000
    a, b = travellers.make("a", skew=days), travellers.make("b", skew=-days)
    session = a.start("x")
    travel(a, remote=remote)
    travel(b, remote=remote)
    for round in range(3):
        a.session(session.id).note(f"a{round}")
        b.session(session.id).note(f"b{round}")
        # Both push what they have before either sees what the other put there.
        travel(a, remote=remote, pull=False)
        travel(b, remote=remote, pull=False)
    for home in (a, b, a):
        travel(home, remote=remote)
    assert hashes(a, session.id) == hashes(b, session.id)
    assert len(hashes(a, session.id)) == 7
    assert a.session(session.id).status().goal == b.session(session.id).status().goal


# --- copies and old backups ---------------------------------------------------------------------


def test_home_restored_from_an_old_copy_gets_a_new_id_and_loses_nothing(
    travellers: Travellers, remote: MemoryRemote, tmp_path: Path
) -> None:
    a, b = travellers.make("a"), travellers.make("b")
    session = a.start("x")
    travel(a, remote=remote)
    a.close()
    shutil.copytree(tmp_path / "a", tmp_path / "old")
    a = travellers.reopen("a")
    for n in range(3):
        a.session(session.id).note(f"later {n}")
    travel(a, remote=remote)
    device = a.context.store.machine.device
    a.close()
    shutil.rmtree(tmp_path / "a")
    # In place, as a backup program does it: what is remembered outside the database is old too.
    shutil.move(tmp_path / "old", tmp_path / "a")
    again = travellers.reopen("a", same_place=True)
    again.session(session.id).note("written on the old state")
    travel(again, remote=remote)
    again.session(session.id).note("and after the sync")
    assert again.context.store.machine.device != device
    travel(again, remote=remote)
    travel(b, remote=remote)
    every = hashes(again, session.id)
    assert hashes(b, session.id) == every
    assert len(every) == 6
    assert sorted(texts(b, session.id)) == [
        "and after the sync",
        "later 0",
        "later 1",
        "later 2",
        "written on the old state",
    ]


# --- many small packs ---------------------------------------------------------------------------


def test_many_small_packs_are_merged_without_a_loss(
    travellers: Travellers, remote: MemoryRemote
) -> None:
    a, b = travellers.make("a"), travellers.make("b")
    session = a.start("watched")
    for n in range(40):
        session.note(f"note {n}")
        travel(a, remote=remote, pull=False)
        assert len(packs(remote)) <= 17
        if n % 9 == 0:
            assert not travel(b, remote=remote).problems
    assert not travel(b, remote=remote).problems
    assert hashes(a, session.id) == hashes(b, session.id)


def test_interrupted_merge_of_packs_is_completed_later(
    travellers: Travellers, remote: MemoryRemote
) -> None:
    a, b = travellers.make("a"), travellers.make("b")
    session = a.start("watched")
    plain, remote.delete = remote.delete, lambda name: None  # type: ignore[method-assign]
    for n in range(17):
        session.note(f"note {n}")
        travel(a, remote=remote, pull=False)
    remote.delete = plain  # type: ignore[method-assign]
    assert not travel(b, remote=remote).problems
    assert not travel(a, remote=remote).problems
    session.note("more")
    travel(a, remote=remote)
    assert len(packs(remote)) <= 4
    assert not travel(b, remote=remote).problems
    assert hashes(a, session.id) == hashes(b, session.id)


# --- interrupted --------------------------------------------------------------------------------


class Dying(MemoryRemote):
    """Stops answering after so many puts."""

    def __init__(self, objects: dict[str, bytes], left: int) -> None:
        super().__init__(objects)
        self.left = left

    def put(self, name: str, data: bytes) -> bool:
        self.left -= 1
        if self.left < 0:
            raise Unreachable("it went away", hint="plug it in")
        return super().put(name, data)


def test_push_that_dies_is_continued_by_the_next(
    travellers: Travellers, remote: MemoryRemote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack_builder, "MOST_EVENTS", 3)
    a, b = travellers.make("a"), travellers.make("b")
    session = a.start("long")
    for n in range(10):
        session.note(f"note {n}")
    deaths: list[str] = []
    while a.context.store.machine.remotes.waiting():
        try:
            travel(a, remote=Dying(remote.objects, left=1))
        except Unreachable as error:
            deaths.append(error.hint)
        # A sync in the meantime sees no loss, and pulls complete chains.
        assert [str(one.error) for one in travel(b, remote=remote, push=False).problems] == []
    assert len(deaths) >= 5
    assert all("wait here" in hint for hint in deaths)
    assert len(packs(remote)) == 4
    assert hashes(a, session.id) == hashes(b, session.id)


@pytest.mark.parametrize("ready", [0, 16 << 20])
def test_each_pack_is_fetched_once_despite_little_memory(
    ready: int, travellers: Travellers, remote: MemoryRemote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack_builder, "MOST_EVENTS", 3)
    monkeypatch.setattr("forestay.sync.pull.AT_ONCE", 3)
    monkeypatch.setattr("forestay.sync.pull.READY", ready)
    a, b = travellers.make("a"), travellers.make("b")
    session = a.start("long")
    for n in range(10):
        session.note(f"note {n}")
    travel(a, remote=remote)
    got: list[str] = []
    plain = remote.get

    def get(name: str) -> bytes:
        got.append(name)
        return plain(name)

    remote.get = get  # type: ignore[method-assign]
    travel(b, remote=remote, push=False)
    assert hashes(a, session.id) == hashes(b, session.id)
    assert sorted(name for name in got if "/p/" in name) == sorted(packs(remote))


def test_pull_that_dies_is_continued_by_the_next(
    travellers: Travellers, remote: MemoryRemote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack_builder, "MOST_EVENTS", 3)
    monkeypatch.setattr("forestay.sync.pull.AT_ONCE", 3)
    monkeypatch.setattr("forestay.sync.pull.READY", 0)
    monkeypatch.setattr("forestay.sync.pull.MEMORY", 0)
    monkeypatch.setattr("forestay.sync.pull.MEMORY", 0)
    a, b = travellers.make("a"), travellers.make("b")
    session = a.start("long")
    for n in range(10):
        session.note(f"note {n}")
    travel(a, remote=remote)
    gets = {"left": 9}
    plain = remote.get

    def get(name: str) -> bytes:
        gets["left"] -= 1
        if gets["left"] < 0:
            raise Unreachable("it went away")
        return plain(name)

    remote.get = get  # type: ignore[method-assign]
    with pytest.raises(Unreachable):
        travel(b, remote=remote)
    assert 0 < len(hashes(b, session.id)) < 11
    remote.get = plain  # type: ignore[method-assign]
    travel(b, remote=remote)
    assert hashes(a, session.id) == hashes(b, session.id)


def test_sync_waits_for_a_late_listing(
    travellers: Travellers, remote: MemoryRemote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack_builder, "MOST_EVENTS", 2)
    a, b = travellers.make("a"), travellers.make("b")
    session = a.start("x")
    for n in range(5):
        session.note(f"note {n}")
    travel(a, remote=remote)
    hidden, looks = packs(remote)[0], [0]
    plain = remote.list

    def late(prefix: str) -> Iterator[Object]:
        looks[0] += "/" in prefix[2:]
        return (one for one in plain(prefix) if looks[0] > 1 or one.name != hidden)

    remote.list = late  # type: ignore[method-assign]
    assert not travel(b, remote=remote).problems
    assert hashes(a, session.id) == hashes(b, session.id)
    assert b.context.clock.slept  # type: ignore[attr-defined]


# --- lies ---------------------------------------------------------------------------------------


def rolled_back(remote: MemoryRemote) -> None:
    del remote.objects[packs(remote)[-1]]


def cut_in_the_middle(remote: MemoryRemote) -> None:
    del remote.objects[packs(remote)[0]]


def swapped(remote: MemoryRemote) -> None:
    """The pack of one session under the name of another's."""
    first, *_ = packs(remote)
    place = named.place_of(first)
    other = next(name for name in packs(remote) if named.place_of(name) != place)
    remote.objects[other] = remote.objects[first]


def copied(remote: MemoryRemote) -> None:
    """The pack of one session once more, in another one's place, under a name that fits it."""
    first, *_ = packs(remote)
    place = named.place_of(first)
    other = next(name for name in packs(remote) if named.place_of(name) != place)
    remote.objects[other[:-32] + first[-32:]] = remote.objects[first]


def replayed(remote: MemoryRemote) -> None:
    """An older pack of the same chain under the name of a newer one."""
    place = named.place_of(packs(remote)[0])
    older, newer, *_ = [name for name in packs(remote) if named.place_of(name) == place]
    remote.objects[newer] = remote.objects[older]


def renamed(remote: MemoryRemote) -> None:
    """An older pack under a new name that continues the chain."""
    name = packs(remote)[0]
    found = named.as_pack(name)
    assert found is not None
    chain = [one for one in map(named.as_pack, packs(remote)) if one and one.chain == found.chain]
    last = max(one.last for one in chain)
    length = found.last - found.first
    remote.objects[
        f"s/{found.place}/p/{found.chain}/{last + 1:012d}-{last + 1 + length:012d}-{found.hash}"
    ] = remote.objects[name]


def flipped(remote: MemoryRemote) -> None:
    name = packs(remote)[-1]
    data = bytearray(remote.objects[name])
    data[len(data) // 2] ^= 1
    remote.objects[name] = bytes(data)


def unsealed(remote: MemoryRemote) -> None:
    remote.objects[packs(remote)[-1]] = b"FORESTAY PACK 1\n" + b"x" * 100


def of_an_older_form(remote: MemoryRemote) -> None:
    name = packs(remote)[-1]
    remote.objects[name] = remote.objects[name].replace(b"SEALED 1", b"SEALED 0", 1)


def emptied(remote: MemoryRemote) -> None:
    remote.objects[packs(remote)[-1]] = b""


LIES: list[tuple[Callable[[MemoryRemote], None], type[ForestayError]]] = [
    (cut_in_the_middle, Truncated),
    (swapped, Swapped),
    (copied, Swapped),
    (replayed, Replayed),
    (renamed, Replayed),
    (flipped, Tampered),
    (unsealed, Downgraded),
    (of_an_older_form, Downgraded),
    (emptied, Tampered),
]


def two_sessions(home: Forestay, remote: MemoryRemote) -> list[Session]:
    """Return two sessions that a device pushed in several packs each."""
    sessions = [home.start(goal) for goal in ("one", "two")]
    for n in range(3):
        for session in sessions:
            session.note(f"note {n}")
        travel(home, remote=remote)
    return sessions


@pytest.mark.parametrize(("lie", "kind"), LIES, ids=lambda one: getattr(one, "__name__", ""))
def test_lie_is_reported_by_its_class_and_nothing_of_the_session_is_pulled(
    travellers: Travellers,
    remote: MemoryRemote,
    lie: Callable[[MemoryRemote], None],
    kind: type[ForestayError],
) -> None:
    a, b = travellers.make("a"), travellers.make("b")
    sessions = two_sessions(a, remote)
    honest = dict(remote.objects)
    lie(remote)
    report = travel(b, remote=remote)
    (problem,) = [outcome for outcome in report.sessions if outcome.error or outcome.aside]
    assert type(report.worst) is kind
    assert report.worst.exit_code == 8
    assert report.worst.hint, "there is a hint"
    if problem.error:
        assert not hashes(b, problem.session)
    # Otherwise no pack needs the false one, and the rest is true.
    assert hashes(b, problem.session) <= hashes(a, problem.session)
    (sound,) = [outcome for outcome in report.sessions if outcome is not problem]
    assert hashes(b, sound.session) == hashes(a, sound.session)
    # When the storage is honest again, everything is pulled.
    remote.objects.clear()
    remote.objects.update(honest)
    assert not travel(b, remote=remote).problems
    assert all(hashes(b, one.id) == hashes(a, one.id) for one in sessions)


@pytest.mark.parametrize(("lie", "kind"), LIES, ids=lambda one: getattr(one, "__name__", ""))
def test_damaged_packs_are_uploaded_again_by_a_device_that_has_them(
    travellers: Travellers,
    remote: MemoryRemote,
    lie: Callable[[MemoryRemote], None],
    kind: type[ForestayError],
) -> None:
    a, b = travellers.make("a"), travellers.make("b")
    sessions = two_sessions(a, remote)
    lie(remote)
    assert type(travel(b, remote=remote).worst) is kind
    travel(a, remote=remote, again=True)
    assert not travel(b, remote=remote).problems
    assert all(hashes(b, one.id) == hashes(a, one.id) for one in sessions)


def test_pack_that_is_no_longer_listed_is_a_rollback(
    travellers: Travellers, remote: MemoryRemote
) -> None:
    a, b = travellers.make("a"), travellers.make("b")
    session = a.start("x")
    travel(a, remote=remote)
    session.note("more")
    travel(a, remote=remote)
    travel(b, remote=remote)
    before = remembered(b, session.id)
    rolled_back(remote)
    for home in (a, b):
        (problem,) = travel(home, remote=remote).problems
        assert type(problem.error) is RolledBack
        assert "--again" in problem.error.hint
    assert remembered(b, session.id) == before
    assert not travel(a, remote=remote, again=True).problems
    assert not travel(b, remote=remote).problems


def test_another_history_under_a_known_name_is_a_fork(
    travellers: Travellers, remote: MemoryRemote
) -> None:
    """A pack cannot be forged, but a storage may show one history and hide another."""
    a, b = travellers.make("a"), travellers.make("b")
    session = a.start("x")
    travel(a, remote=remote)
    travel(b, remote=remote)
    held = b.context.store.machine.remotes.chains(known(b), session.id)
    for one in held:
        one.hash = "0" * 64
    there = b.context.store.machine.remotes.session(known(b), session.id)
    assert there is not None
    b.context.store.machine.remotes.record_session(known(b), there, chains=held)
    (problem,) = travel(b, remote=remote).problems
    assert type(problem.error) is Forked


def test_older_keys_than_before_are_refused(travellers: Travellers, remote: MemoryRemote) -> None:
    a = travellers.make("a")
    session = a.start("x")
    travel(a, remote=remote)
    there = a.context.store.machine.remotes.session(known(a), session.id)
    assert there is not None
    there.epoch = 2
    a.context.store.machine.remotes.record_session(known(a), there)
    (problem,) = travel(a, remote=remote).problems
    assert type(problem.error) is Downgraded
    assert "forestay remote add NEW" in problem.error.hint


def test_lost_keys_are_an_error_and_a_new_remote_solves_it(
    travellers: Travellers, remote: MemoryRemote
) -> None:
    a, b = travellers.make("a"), travellers.make("b")
    session = a.start("x")
    travel(a, remote=remote)
    for name in [one for one in remote.objects if "/k/" in one]:
        del remote.objects[name]
    other = MemoryRemote()
    (problem,) = travel(a, remote=remote, again=True).problems
    assert type(problem.error) is Downgraded and "forestay remote add NEW" in problem.error.hint
    for home in (a, b):
        add_remote(home, "/elsewhere", "other")
        travel(home, name="other", remote=other)
    assert hashes(b, session.id) == hashes(a, session.id)


def test_invalid_or_newer_format_object_stops_the_sync(
    travellers: Travellers, remote: MemoryRemote
) -> None:
    a = travellers.make("a")
    a.start("x")
    remote.objects["forestay/format"] = b"something"
    with pytest.raises(Downgraded) as caught:
        travel(a, remote=remote)
    assert "restore that line" in caught.value.hint
    remote.objects["forestay/format"] = b"forestay remote 2\n"
    with pytest.raises(ForestayError, match="newer"):
        travel(a, remote=remote)
    assert a.context.store.machine.remotes.waiting() == 1


def test_remote_that_stores_other_bytes_is_noticed(
    travellers: Travellers, remote: MemoryRemote
) -> None:
    a = travellers.make("a")
    a.start("x")
    plain = remote.put

    def put(name: str, data: bytes) -> bool:
        return plain(name, data[:-1] if named.as_pack(name) else data)

    remote.put = put  # type: ignore[method-assign]
    report = travel(a, remote=ReadBackRemote(remote, clock=a.context.clock))
    assert isinstance(report.problems[0].error, RemoteFailed)
    assert report.waiting == 1


def test_sessions_of_other_persons_on_the_same_remote_are_not_touched(
    travellers: Travellers, remote: MemoryRemote, tmp_path: Path
) -> None:
    (tmp_path / "others").mkdir()
    others = Travellers(tmp_path / "others")
    theirs = others.make("z")
    theirs.start("secret plan")
    travel(theirs, remote=remote)
    a = travellers.make("a")
    a.start("mine")
    report = travel(a, remote=remote)
    assert (report.foreign, len(report.sessions), report.problems) == (1, 1, [])
    assert len(a.list(all=True)) == 1
    assert not any(b"secret plan" in data for data in remote.objects.values())
    theirs.close()


def remembered(home: Forestay, id: str) -> list[tuple[str, int, str]]:
    return [
        (one.device, one.n, one.hash)
        for one in home.context.store.machine.remotes.chains(known(home), id)
    ]


# --- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mark", "error"),
    [
        (b"forestay remote 2\n", Outdated),
        (b"forestay remote 10\n", Outdated),
        (b"forestay remote 1\n\n", Downgraded),
        (b"forestay remote 1", Downgraded),
        (b"forestay remote 01\n", Downgraded),
        (b"forestay remote 2\nmore\n", Downgraded),
        (b"", Downgraded),
    ],
)
def test_only_a_format_object_with_a_higher_number_is_newer(
    mark: bytes, error: type[ForestayError]
) -> None:
    remote = MemoryRemote()
    remote.put(FORMAT, mark)
    with pytest.raises(error):
        require_format(remote, make=False)


def test_error_of_a_second_sync_explains_the_consequence(travellers: Travellers) -> None:
    laptop = travellers.make("laptop")
    (known,) = laptop.context.store.machine.remotes.all()
    again = Forestay(laptop.context.settings, cwd=laptop.context.settings.home)
    with exclusive_sync(again.context), pytest.raises(Busy) as caught:
        visit(laptop.context, known, SyncOptions(wait=0))
    again.close()
    assert "was not started" in caught.value.why and "next sync" in caught.value.hint
