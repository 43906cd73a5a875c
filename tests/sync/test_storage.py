"""The faulty storages of the tests: each fails as described and counts how often."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from forestay.errors import NotThere, RemoteFailed, Unreachable
from forestay.sync.remotes.port import Object, Remote
from forestay.sync.remotes.weak_consistency import ReadBackRemote
from forestay.testing.remote_contract import RemoteContract
from tests.faulty_remotes import (
    AFTER,
    BEFORE,
    HALF,
    Dying,
    Forgetful,
    Full,
    Late,
    Lying,
    MemoryRemote,
    ReadOnlyRemote,
    Throttling,
    snapshot,
)


@pytest.fixture
def memory() -> MemoryRemote:
    return MemoryRemote({"s/1": b"one", "s/2": b"two!", "t/1": b"three"})


def names(remote: Remote, prefix: str = "") -> list[str]:
    return [each.name for each in remote.list(prefix)]


class TestWrappersWithoutFaults(RemoteContract):
    @pytest.fixture
    def opener(self) -> Callable[[], Remote]:
        objects: dict[str, bytes] = {}
        return lambda: Lying(Dying(Full(Late(MemoryRemote(objects), 0), 1 << 30), at=1 << 30))


class TestReadBackOfForgetfulStorage(RemoteContract):
    @pytest.fixture
    def opener(self) -> Callable[[], Remote]:
        objects: dict[str, bytes] = {}
        return lambda: ReadBackRemote(Forgetful(MemoryRemote(objects)), late=False)


def test_late_object_can_be_read_at_once_and_is_listed_later(
    memory: MemoryRemote,
) -> None:
    late = Late(memory, 2)
    assert late.put("u/1", b"new") and not late.put("u/1", b"")
    assert late.get("u/1") == b"new"
    assert [names(late, "u/") for _ in range(3)] == [[], [], ["u/1"]]
    assert late.fired["late"] == 2 and names(memory, "u/") == ["u/1"]


def test_read_back_remote_lists_its_objects_although_the_storage_is_late(
    memory: MemoryRemote,
) -> None:
    late = Late(memory, 2)
    careful = ReadBackRemote(late, late=True)
    assert careful.put("u/1", b"new")
    assert [names(careful, "u/") for _ in range(4)] == [["u/1"]] * 4 and late.fired["late"] == 2
    memory.delete("u/1")
    assert names(careful, "u/") == []


@pytest.mark.parametrize("how, kept", [(BEFORE, None), (AFTER, b"sealed"), (HALF, b"sea")])
def test_broken_connection_leaves_the_stated_effect(how: str, kept: bytes | None) -> None:
    memory = MemoryRemote()
    dying = Dying(memory, at=2, how=how)
    assert dying.put("s/1", b"first")
    for _ in range(2):
        with pytest.raises(Unreachable):
            dying.put("s/2", b"sealed")
    assert memory.objects.get("s/2") == kept and dying.fired["died"] == 2
    assert dying.get("s/1") == b"first"


def test_each_kind_of_call_can_be_made_to_die(memory: MemoryRemote) -> None:
    acts: dict[str, Callable[[Remote], object]] = {
        "list": names,
        "get": lambda remote: remote.get("s/1"),
        "delete": lambda remote: remote.delete("t/1"),
    }
    for only, act in acts.items():
        dying = Dying(memory, at=1, only=only)
        with pytest.raises(Unreachable):
            act(dying)
        for other in acts.keys() - {only}:
            acts[other](dying)
        memory.put("t/1", b"three")


def test_throttling_storage_answers_every_third_call(memory: MemoryRemote) -> None:
    remote = Throttling(memory)
    for act in (partial(remote.get, "s/1"), partial(remote.put, "u", b""), lambda: names(remote)):
        for _ in range(2):
            with pytest.raises(Unreachable, match="limits the rate of requests"):
                act()
        act()
    assert remote.fired["throttled"] == 6


def test_full_storage_stores_what_fits(memory: MemoryRemote) -> None:
    full = Full(memory, room=5)
    assert full.put("u/1", b"abc") and not full.put("u/1", b"a")
    with pytest.raises(RemoteFailed, match="no room left"):
        full.put("u/2", b"abc")
    assert full.put("u/2", b"ab") and full.fired["full"] == 1


def test_read_only_storage_can_be_read(memory: MemoryRemote) -> None:
    remote = ReadOnlyRemote(memory)
    for act in (partial(remote.put, "u", b""), partial(remote.delete, "s/1")):
        with pytest.raises(RemoteFailed, match="read-only"):
            act()
    assert remote.get("s/1") == b"one" and remote.fired["read-only"] == 2


def test_lying_storage_shows_an_earlier_state(memory: MemoryRemote) -> None:
    lying = Lying(memory, before=snapshot(memory))
    lying.put("u/1", b"new")
    lying.delete("s/1")
    lying.roll_back()
    assert snapshot(lying) == {"s/1": b"one", "s/2": b"two!", "t/1": b"three"}
    assert lying.fired["rollback"] >= 2 and set(lying.lies) == {"s/1", "u/1"}
    lying.clear_lies()
    assert names(lying) == ["s/2", "t/1", "u/1"]


@pytest.mark.parametrize(
    "kind, lie, shown",
    [
        ("hidden", lambda r: r.hide("s/1"), {"s/1": None}),
        ("truncated", lambda r: r.truncate("s/2", 2), {"s/2": b"tw"}),
        ("flipped", lambda r: r.flip("s/1", 8), {"s/1": b"ooe"}),
        ("swapped", lambda r: r.swap("s/1", "t/1"), {"s/1": b"three", "t/1": b"one"}),
        ("replayed", lambda r: r.replay("s/1", "u/9"), {"u/9": b"one"}),
        ("moved", lambda r: r.move("s/1", "u/9"), {"s/1": None, "u/9": b"one"}),
        ("shown", lambda r: r.show("u/9", b"made up"), {"u/9": b"made up"}),
    ],
)
def test_lying_storage_shows_the_given_objects(
    memory: MemoryRemote,
    kind: str,
    lie: Callable[[Lying], None],
    shown: dict[str, bytes | None],
) -> None:
    truth, lying = snapshot(memory), Lying(memory)
    lie(lying)
    expected = {n: d for n, d in {**truth, **shown}.items() if d is not None}
    assert snapshot(lying) == expected and lying.fired[kind]
    assert [*lying.list("s/")] == [
        Object(n, len(d)) for n, d in sorted(expected.items()) if n.startswith("s/")
    ]
    assert snapshot(memory) == truth
    for name, data in shown.items():
        if data is None:
            with pytest.raises(NotThere):
                lying.get(name)


def test_lie_that_equals_the_truth_is_not_counted(memory: MemoryRemote) -> None:
    lying = Lying(memory, before=snapshot(memory))
    lying.flip("s/1", 3)
    lying.flip("s/1", 3)
    lying.roll_back()
    lying.truncate("s/2", 100)
    assert not lying.lies
