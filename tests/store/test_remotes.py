"""What this device remembers of its remotes, and how many events wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from forestay.errors import InvalidInput
from forestay.store.machine.remotes import Known, Packed, Reach, Remotes, There
from forestay.store.sqlite.store import SqliteStore
from forestay.testing.store_contract import batch, put


@pytest.fixture
def remotes(store: SqliteStore) -> Remotes:
    put(store, "s1", batch("a", "b", "c"))
    put(store, "s2", batch("a"))
    return store.machine.remotes


def added(remotes: Remotes, name: str = "usb") -> Known:
    remotes.add(name, f"folder:/{name}", "", 5)
    found = remotes.find(name)
    assert found is not None
    return found


def test_reading_remotes_of_an_empty_home_finds_nothing(store: SqliteStore, home: Path) -> None:
    assert store.machine.remotes.all() == []
    assert store.machine.remotes.find("usb") is None
    assert store.machine.remotes.waiting() is None
    assert not home.exists()


def test_a_remote_is_added_once_and_listed_by_name(remotes: Remotes) -> None:
    added(remotes, "usb")
    added(remotes, "cloud")
    with pytest.raises(InvalidInput, match="already"):
        remotes.add("usb", "folder:/b", "", 6)
    assert [(one.name, one.address) for one in remotes.all()] == [
        ("cloud", "folder:/cloud"),
        ("usb", "folder:/usb"),
    ]


def test_known_objects_are_remembered_until_the_remote_is_removed(remotes: Remotes) -> None:
    usb, other = added(remotes), added(remotes, "other")
    pack = Packed("s/x/p/y/1", "d1", 1, 3, "", "h3", 77)
    there = There("s1", "x", 1, pushed=3, hash="h3")
    for one in (usb, other):
        remotes.record_session(one, there, chains=[Reach("d1", 3, "h3", "c")], found=[pack])
    remotes.record_session(
        usb, there, found=[Packed("s/x/p/y/2", "d1", 1, 3, "", "h3", 7)], gone=[pack.name]
    )
    assert [one.name for one in remotes.objects(usb, "s1")] == ["s/x/p/y/2"]
    (chain,) = remotes.chains(usb, "s1")
    assert (chain.device, chain.n, chain.hash, chain.circle) == ("d1", 3, "h3", "c")
    remotes.remove(usb)
    assert not remotes.chains(usb, "s1")
    assert not remotes.objects(usb, "s1")
    assert not remotes.sessions(usb)
    assert [one.name for one in remotes.objects(other, "s1")] == [pack.name]


def test_result_of_a_sync_is_recorded(remotes: Remotes) -> None:
    usb = added(remotes)
    remotes.record_sync(usb, 99, "failed", "gone")
    remotes.record_probe(usb, "no conditions")
    found = remotes.all()[0]
    assert (found.synced, found.result, found.error, found.probe) == (
        99,
        "failed",
        "gone",
        "no conditions",
    )


def test_time_of_the_last_successful_sync_survives_failed_ones(remotes: Remotes) -> None:
    """A remote that was read before a success does not become new again."""
    before = added(remotes)
    remotes.record_sync(before, 99, "done", "")
    remotes.record_failure(before, "gone")
    assert (remotes.all()[0].synced, remotes.all()[0].result) == (99, "failed")
    remotes.record_sync(before, 120, "failed", "one session of several")
    assert (remotes.all()[0].synced, remotes.all()[0].error) == (99, "one session of several")
    remotes.record_sync(before, 90, "done", "")
    assert remotes.all()[0].synced == 90, "a clock that was put right"


def test_events_are_counted_as_waiting_until_a_remote_has_them(remotes: Remotes) -> None:
    usb, other = added(remotes), added(remotes, "other")
    assert remotes.waiting() == 4
    remotes.record_session(usb, There("s1", "x", 1, pushed=2, hash="h2"))
    assert (remotes.waiting("S1"), remotes.waiting("s2"), remotes.waiting()) == (1, 1, 2)
    remotes.record_session(other, There("s1", "x", 1, pushed=1, hash="h1", beyond=2))
    assert (remotes.waiting("s1"), remotes.waiting()) == (0, 1)


def test_remote_position_beyond_the_journal_hides_no_waiting_events_of_other_sessions(
    remotes: Remotes,
) -> None:
    """A rebuilt database may be shorter than what it once pushed."""
    usb = added(remotes)
    remotes.record_session(usb, There("s1", "x", 1, pushed=300, hash="h"))
    assert (remotes.waiting("s1"), remotes.waiting()) == (0, 1)
