"""A storage that shows each device a different history, and how that is noticed."""

from __future__ import annotations

import random
import shutil

import pytest

from forestay.api.forestay import Forestay
from forestay.errors import Forked, Replayed, RolledBack, Tampered, Truncated
from forestay.sync.remotes import object_names as named
from tests.faulty_remotes import Lying, MemoryRemote
from tests.sync.travelling import Travellers, hashes, travel


def met(travellers: Travellers, remote: MemoryRemote) -> tuple[Forestay, Forestay, str]:
    """Return two devices that have all events of a session, and its id."""
    a, b = travellers.make("a"), travellers.make("b")
    session = a.start("travel").id
    for home in (a, b, a):
        assert not travel(home, remote=remote).problems
    return a, b, session


def write(home: Forestay, session: str, word: str, count: int) -> None:
    for n in range(count):
        home.session(session).note(f"{word} {n}")


def twins(
    travellers: Travellers, remote: MemoryRemote, session: str, left: int, right: int
) -> tuple[MemoryRemote, MemoryRemote]:
    """Return the remotes of a home and of its exact copy, after each pushed more events."""
    shutil.copytree(travellers.folder / "a", travellers.folder / "twin")
    histories = []
    for name, word, count in (("a", "left", left), ("twin", "right", right)):
        home = travellers.reopen(name, same_place=True)
        write(home, session, word, count)
        histories.append(MemoryRemote(dict(remote.objects)))
        assert not travel(home, remote=histories[-1]).problems
        home.close()
    one, other = histories
    return one, other


# A shorter history is reported as an older one.
@pytest.mark.parametrize(
    "left, right, kind", [(1, 1, Forked), (3, 3, Forked), (1, 3, Forked), (3, 1, RolledBack)]
)
def test_different_history_of_a_device_than_before_is_noticed(
    travellers: Travellers, left: int, right: int, kind: type[Tampered]
) -> None:
    remote = MemoryRemote()
    a, b, session = met(travellers, remote)
    a.close()
    one, other = twins(travellers, remote, session, left, right)
    assert not travel(b, remote=one).problems
    before = hashes(b, session)
    (problem,) = travel(b, remote=other).problems
    assert type(problem.error) is kind and hashes(b, session) == before
    both = MemoryRemote({**other.objects, **one.objects})
    for home in (b, travellers.reopen("twin", same_place=True), b):
        assert not travel(home, remote=both).problems
        assert len(hashes(home, session)) == 1 + left + right
    (problem,) = travel(b, remote=other).problems
    assert type(problem.error) is kind


def test_separated_devices_have_everything_after_they_meet(
    travellers: Travellers,
) -> None:
    remote = MemoryRemote()
    a, b, session = met(travellers, remote)
    histories = [MemoryRemote(dict(remote.objects)) for _ in range(2)]
    for round in range(3):
        for home, history in zip((a, b), histories, strict=True):
            write(home, session, f"{home.context.store.machine.device} {round}", 1)
            assert not travel(home, remote=history).problems
    joined = MemoryRemote({**histories[0].objects, **histories[1].objects})
    for home in (a, b, a):
        assert not travel(home, remote=joined).problems
    assert hashes(a, session) == hashes(b, session) and len(hashes(a, session)) == 7


@pytest.mark.parametrize("seed", range(3))
def test_part_of_a_history_reveals_that_the_rest_is_hidden(
    travellers: Travellers, seed: int
) -> None:
    """Any part but the beginning is recognised as incomplete."""
    chance, remote = random.Random(seed), MemoryRemote()
    a, b, session = met(travellers, remote)
    lying = Lying(remote)
    mine: list[str] = []
    for round in range(4):
        write(a, session, f"round {round}", 1 + chance.randrange(2))
        before = set(remote.objects)
        assert not travel(a, remote=remote).problems
        mine += sorted(name for name in set(remote.objects) - before if named.as_pack(name))
    hidden = chance.sample(mine[:-1], chance.randrange(1, len(mine)))
    for name in hidden:
        lying.hide(name)
    held = hashes(b, session)
    (problem,) = travel(b, remote=lying).problems
    assert type(problem.error) is Truncated and hashes(b, session) == held
    lying.clear_lies()
    assert not travel(b, remote=lying).problems
    assert hashes(a, session) == hashes(b, session)


@pytest.mark.parametrize("lie", ["hidden", "cut", "replayed"])
def test_push_does_not_build_on_a_false_listing(travellers: Travellers, lie: str) -> None:
    """Events wait here, are counted, and are pushed when the storage is honest again."""
    remote = MemoryRemote()
    a, b, session = met(travellers, remote)
    seen = [name for name in remote.objects if named.as_pack(name)]
    write(a, session, "there", 1)
    assert not travel(a, remote=remote).problems
    (new,) = (name for name in remote.objects if named.as_pack(name) and name not in seen)
    write(b, session, "waits", 2)
    lying, there = Lying(remote), set(remote.objects)
    if lie == "hidden":
        lying.hide(seen[0])
    elif lie == "cut":
        lying.truncate(new, 50)
    else:
        lying.replay(seen[0], new)
    report = travel(b, remote=lying)
    assert [type(one.error) for one in report.problems] == [
        {"hidden": RolledBack, "cut": Tampered, "replayed": Replayed}[lie]
    ]
    assert set(remote.objects) == there and report.waiting == 2
    lying.clear_lies()
    for home in (b, a):
        assert not travel(home, remote=lying).problems
    assert hashes(a, session) == hashes(b, session) and len(hashes(a, session)) == 4
