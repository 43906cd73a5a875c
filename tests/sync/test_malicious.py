"""A storage that lies: every kind of lie, in seeded instances, to devices that know more or less.

A device that gets false bytes reports the error of that lie and pulls nothing of the session. A lie
that is not read, or cannot be noticed, has no effect: only true events are pulled, and when the
storage is honest again, the devices are equal.
"""

from __future__ import annotations

import base64
import multiprocessing
import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from forestay.api.forestay import Forestay
from forestay.errors import (
    Downgraded,
    ForestayError,
    Locked,
    NotEntitled,
    Outdated,
    Replayed,
    RolledBack,
    Swapped,
    Tampered,
    Truncated,
)
from forestay.sync.remotes import object_names as named
from forestay.sync.remotes.object_names import PackName
from forestay.sync.remotes.port import FORMAT
from tests.chance import new_seed
from tests.faulty_remotes import Lying, MemoryRemote
from tests.sync.travelling import hashes, known, travel
from tests.sync.world import FRESH, FRIEND, FULL, KNOWING, World

MANY, WORLDS = 3_000, 10

WHO = (FRESH, KNOWING, FULL, FRIEND)
_TAMPERED = (Tampered, RolledBack, Truncated, Replayed, Swapped, Downgraded)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("lied-to") / "world")


class Storage:
    """The truth, a liar before it, and chance."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self.world, self.chance = world, chance
        self.truth = MemoryRemote(dict(world.truth))
        self.lying = Lying(self.truth)

    def packs(self) -> list[PackName]:
        return [one for one in map(named.as_pack, sorted(self.truth.objects)) if one]

    def key_ring(self) -> list[list[str]]:
        """The keys of each session, the newest last."""
        every = [name for name in sorted(self.truth.objects) if named.epoch_of(name)]
        places = sorted({named.place_of(name) for name in every})
        return [[name for name in every if named.place_of(name) == place] for place in places]

    def pack(self) -> PackName:
        return self.chance.choice(self.packs())

    def other(self, than: PackName, **same: bool) -> PackName:
        """Another pack, of the same or of another place and chain."""
        return self.chance.choice(
            [
                one
                for one in self.packs()
                if one.name != than.name
                and all((getattr(one, f) == getattr(than, f)) is is_ for f, is_ in same.items())
            ]
        )

    def pair(self, **same: bool) -> tuple[PackName, PackName]:
        """Two packs, the older first."""
        while True:
            one = self.pack()
            try:
                other = self.other(one, **same)
            except IndexError:
                continue  # this one has none of that kind
            return (one, other) if one.first < other.first else (other, one)


# --- lies ---------------------------------------------------------------------------------------


def roll_back(storage: Storage) -> None:
    """All as it was at an earlier stage."""
    storage.lying.before = storage.chance.choice(storage.world.stages[:-1])
    storage.lying.roll_back()


def roll_back_one(storage: Storage) -> None:
    """One session as it was at an earlier stage, its keys as they are."""
    storage.lying.before = storage.chance.choice(storage.world.stages[:-1])
    storage.lying.roll_back(f"s/{storage.pack().place}/p/")


def hide_a_pack(storage: Storage) -> None:
    storage.lying.hide(storage.pack().name)


def hide_keys(storage: Storage) -> None:
    """Show old keys of a session, from before a device was revoked."""
    storage.lying.hide(storage.chance.choice(storage.key_ring())[-1])


def hide_some(storage: Storage) -> None:
    every = sorted(storage.truth.objects)
    for name in storage.chance.sample(every, storage.chance.randrange(1, len(every))):
        storage.lying.hide(name)


def flip(storage: Storage) -> None:
    name = storage.chance.choice(sorted(storage.truth.objects))
    storage.lying.flip(name, storage.chance.randrange(8 * len(storage.truth.objects[name])))


def cut(storage: Storage) -> None:
    name = storage.chance.choice(sorted(storage.truth.objects))
    storage.lying.truncate(name, storage.chance.randrange(len(storage.truth.objects[name])))


def swap_sessions(storage: Storage) -> None:
    one, other = storage.pair(place=False)
    storage.lying.swap(one.name, other.name)


def swap_chains(storage: Storage) -> None:
    one, other = storage.pair(place=True, chain=False)
    storage.lying.swap(one.name, other.name)


def copy_to_another_session(storage: Storage) -> None:
    """A pack of another session, under a name that fits it."""
    one, other = storage.pair(place=False)
    storage.lying.replay(one.name, _renamed(one, place=other.place, chain=other.chain))


def copy_to_another_chain(storage: Storage) -> None:
    one, other = storage.pair(place=True, chain=False)
    storage.lying.replay(one.name, _renamed(one, chain=other.chain))


def replay_older(storage: Storage) -> None:
    older, newer = storage.pair(place=True, chain=True)
    storage.lying.replay(older.name, newer.name)


def replay_as_next(storage: Storage) -> None:
    """Show an old pack as if it continued the chain."""
    one = storage.pack()
    last = max(each.last for each in storage.packs() if each.chain == one.chain)
    after = last + 1 + storage.chance.randrange(3)
    storage.lying.replay(one.name, _renamed(one, first=after, last=after + one.last - one.first))


def older_form(storage: Storage) -> None:
    name = storage.pack().name
    data = storage.truth.objects[name].replace(b" 1 ", b" 0 ", 1)
    storage.lying.show(name, data, "older")


def unsealed(storage: Storage) -> None:
    body = b"FORESTAY PACK 1\n" + storage.chance.randbytes(100)
    storage.lying.show(storage.pack().name, body, "unsealed")


def older_keys(storage: Storage) -> None:
    """Under the name of the newest keys lie those of before."""
    *older, newest = storage.chance.choice(storage.key_ring())
    storage.lying.replay(storage.chance.choice(older), newest)


def keys_of_another(storage: Storage) -> None:
    one, other = storage.key_ring()
    storage.lying.swap(one[-1], other[-1])


def another_mark(storage: Storage) -> None:
    marks = [b"", b"forestay remote 0", b"something else\n", b"forestay"]
    storage.lying.show(FORMAT, storage.chance.choice(marks), "mark")


def stale_circle(storage: Storage) -> None:
    """Show a device group from before a device was revoked."""
    older = [name for name in storage.world.stages[0] if name.startswith("c/")]
    storage.lying.replay(storage.chance.choice(older), _newest_circle(storage))


def hide_circle(storage: Storage) -> None:
    storage.lying.hide(_newest_circle(storage))


def _newest_circle(storage: Storage) -> str:
    known = storage.world.stages[0]
    prefix = next(name for name in known if name.startswith("c/"))[:-32]
    return next(
        name for name in storage.truth.objects if name.startswith(prefix) and name not in known
    )


def rubbish(storage: Storage) -> None:
    """Made up, under the name that it would have."""
    data = storage.chance.randbytes(storage.chance.randrange(200))
    if storage.chance.random() < 0.5:
        data = storage.truth.objects[storage.pack().name][:100] + data
    one = storage.pack()
    storage.lying.show(_renamed(one, hash=named.hash_of(data)), data, "rubbish")


def _renamed(one: PackName, **fields: object) -> str:
    new = one._replace(**fields)  # type: ignore[arg-type]
    return f"s/{new.place}/p/{new.chain}/{new.first:012d}-{new.last:012d}-{new.hash}"


class Attack(NamedTuple):
    """A lie, and the errors that may report it."""

    lie: Callable[[Storage], None]
    errors: tuple[type[ForestayError], ...]


# If the pack is of a revoked device, that may be noticed first.
_OUT = (NotEntitled,)
ATTACKS = [
    Attack(roll_back, (RolledBack, Downgraded)),
    Attack(roll_back_one, (RolledBack, Truncated)),
    Attack(hide_a_pack, (RolledBack, Truncated)),
    Attack(hide_keys, (Downgraded, Locked)),
    Attack(hide_some, (RolledBack, Truncated, Downgraded, Locked)),
    Attack(flip, (*_TAMPERED, Outdated)),
    Attack(cut, (*_TAMPERED, Outdated)),
    Attack(swap_sessions, (Swapped, *_OUT)),
    Attack(swap_chains, (Swapped, *_OUT)),
    Attack(copy_to_another_session, (Swapped, *_OUT)),
    Attack(copy_to_another_chain, (Swapped, *_OUT)),
    Attack(replay_older, (Replayed, *_OUT)),
    Attack(replay_as_next, (Replayed, *_OUT)),
    Attack(older_form, (Downgraded,)),
    Attack(unsealed, (Downgraded,)),
    Attack(older_keys, (Downgraded,)),
    Attack(keys_of_another, (Downgraded, Swapped)),
    Attack(another_mark, (Downgraded, Outdated)),
    Attack(stale_circle, (Tampered,)),
    Attack(hide_circle, ()),  # what a device knows of the others it does not unlearn
    Attack(rubbish, (Tampered, Downgraded, Locked)),  # it may name a key that is not here
]
# These may change an object that is not read again.
_BY_CHANCE = (flip, cut, hide_some)


# --- the outcome --------------------------------------------------------------------------------


class Outcome(NamedTuple):
    who: str
    attack: str
    errors: dict[str, ForestayError]
    delivered: set[str]
    fired: bool


def attempt(world: World, who: str, attack: Attack, seed: int) -> Outcome:
    """Lie to a device once, compare the result with the truth, then be honest again."""
    storage = Storage(world, random.Random(seed))
    attack.lie(storage)
    truth = world.shown_to(who)
    with world.victim(who) as home:
        before = {id: hashes(home, id) for id in truth}
        must = _must_notice(storage, home)
        errors, aside, foreign = _lied_to(home, storage.lying)
        after = {id: hashes(home, id) for id in truth}
        _require_truth(truth, home, before, after, errors)
        errors = aside | errors
        # A session that is new here and whose keys are invalid is counted as foreign.
        assert errors or foreign or not (must or storage.lying.delivered), "not noticed"
        wrong = {id: repr(e) for id, e in errors.items() if type(e) not in attack.errors}
        assert not wrong, f"reported by another class: {wrong}"
        storage.lying.clear_lies()
        assert not travel(home, remote=storage.lying, push=who != FRIEND).problems
        assert {id: hashes(home, id) for id in truth} == truth
    lying = storage.lying
    return Outcome(who, attack.lie.__name__, errors, lying.delivered, bool(lying.fired))


def _must_notice(storage: Storage, home: Forestay) -> bool:
    """Whether packs are hidden that this device was shown before."""
    seen = {one.name for id in storage.world.events for one in _objects(home, id)}
    hidden = {name for name, lie in storage.lying.lies.items() if lie.data is None}
    return any(named.as_pack(name) for name in hidden & seen)


def _objects(home: Forestay, id: str) -> list[PackName]:
    found = (
        named.as_pack(one.name)
        for one in home.context.store.machine.remotes.objects(known(home), id)
    )
    return [one for one in found if one]


Errors = dict[str, ForestayError]


def _lied_to(home: Forestay, lying: Lying) -> tuple[Errors, Errors, int]:
    """The errors by session, "" for all of them; what was set aside where nothing else needs it;
    and how many sessions were left out as foreign."""
    try:
        report = travel(home, remote=lying, push=False)
    except ForestayError as error:
        return {"": error}, {}, 0
    errors = {one.session: one.error for one in report.problems if one.error}
    aside = {one.session: one.aside[0] for one in report.sessions if one.aside}
    return errors, aside, report.foreign


def _require_truth(
    truth: dict[str, set[str]],
    home: Forestay,
    before: dict[str, set[str]],
    after: dict[str, set[str]],
    errors: dict[str, ForestayError],
) -> None:
    assert {str(row["id"]) for row in home.context.store.catalogue()} <= truth.keys()
    for id, found in after.items():
        assert before[id] <= found <= truth[id], f"{id}: not of the truth"
        if id in errors or "" in errors:
            assert found == before[id], f"{id}: events were pulled despite the error"


def instances(count: int, seed: int) -> Iterator[tuple[str, Attack, int]]:
    """Yield every attack on every device, each with its own seed."""
    pairs = [(who, attack) for attack in ATTACKS for who in WHO]
    for n in range(count):
        who, attack = pairs[n % len(pairs)]
        yield who, attack, seed + n


def run(world: World, count: int, seed: int) -> Counter[str]:
    tally: Counter[str] = Counter()
    for who, attack, one in instances(count, seed):
        try:
            outcome = attempt(world, who, attack, one)
        except Exception as error:
            raise AssertionError(f"{attack.lie.__name__} on {who}, seed {one}: {error}") from error
        tally[f"{outcome.attack} {'noticed' if outcome.errors else 'without effect'}"] += 1
        tally["all"] += 1
    return tally


def test_every_lie_of_a_storage_is_noticed_or_has_no_effect(world: World) -> None:
    """Every lie to everyone, once."""
    tally = run(world, len(ATTACKS) * len(WHO), seed=4)
    certain = [one.lie.__name__ for one in ATTACKS if one.errors and one.lie not in _BY_CHANCE]
    assert [name for name in certain if not tally[f"{name} noticed"]] == []


@pytest.mark.soak
def test_thousands_of_lies_of_a_storage_are_noticed_or_have_no_effect(
    tmp_path: Path, report_figure: Callable[[str], None]
) -> None:
    seed, each = new_seed(), MANY // WORLDS
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
        shares = [
            pool.submit(_in_a_world, tmp_path / f"world{n}", each, seed + each * n)
            for n in range(WORLDS)
        ]
        tally = sum((share.result() for share in shares), Counter[str]())
    reported = tally.pop("all")
    report_figure(f"{reported} lies, seed {seed}: {dict(sorted(tally.items()))}")
    assert reported == MANY


def _in_a_world(folder: Path, count: int, seed: int) -> Counter[str]:
    return run(World(folder), count, seed)


# --- what a storage can read --------------------------------------------------------------------


def test_storage_and_its_names_contain_no_recorded_text(world: World) -> None:
    words = [b"canary goal", b"canary note", b"/canary/path", b"canary.py", b"canary-session"]
    words += [b"canary-laptop", b"canary-tower", b"canary-friend", b"friend@example.org"]
    for name, data in world.truth.items():
        for word in [form for each in words for form in _forms(each)]:
            assert word not in data.lower() and word not in name.encode(), (name, word)


def _forms(word: bytes) -> list[bytes]:
    """A word as it would look in plain, as text of two bytes, in hexadecimal and in base64."""
    text = word.decode()
    wide = [text.encode(code) for code in ("utf-16-le", "utf-16-be")]
    shifted = [base64.b64encode(b"x" * n + word)[4 if n else 0 : -4].lower() for n in range(3)]
    return [word, *wide, word.hex().encode(), *shifted]


def test_every_form_of_a_word_is_found() -> None:
    found = [base64.b64encode(b"x" * n + b"canary note" + b"y" * 5).lower() for n in range(3)]
    for each in (b"a canary note", b"canary note".hex().encode(), *found):
        assert any(form in each for form in _forms(b"canary note"))
    assert min(map(len, _forms(b"canary.py"))) >= 8, "a shorter one would occur by chance"


def test_names_reveal_only_which_objects_belong_together(world: World) -> None:
    opaque = r"c/[0-9a-f]{32}/[0-9a-f]{32}|s/[0-9a-f]{32}/(k/\d{6}-[0-9a-f]{32}|w/[0-9a-f]{32}"
    opaque += r"|p/[0-9a-f]{32}/\d{12}-\d{12}-[0-9a-f]{32})|forestay/format"
    assert [name for name in world.truth if not re.fullmatch(opaque, name)] == []
