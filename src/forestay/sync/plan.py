"""Compute what a remote has of a session's chains, what it lacks, and what it should still have.

A *stretch* is a range of one chain, from a first to a last number, with the hash of the event
before it and of its last one; a pack has one stretch. Stretches can overlap, if two devices pushed
the same events, or one merged small packs. A chain is *whole* up to a number if stretches cover all
events from 1 to that number; a stretch after a gap is *loose*, because a push is running or was
interrupted. A *reported head* (number and hash) is an event that was on the remote before: the
claim of a pack reports it, or this device saw it. If the remote lacks it, data was lost or hidden.

Everything here is computed from values; nothing is read or sent.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

MOST_EVENTS = 2000
MOST_BYTES = 4 << 20
"""A pack is at most this large, unless a single event with its content is larger."""

_END = 1 << 62
_FEW = 16
"""How many adjacent small packs are needed before they are merged."""


class Stretching(Protocol):
    """Anything with the fields of a stretch."""

    @property
    def device(self) -> str: ...
    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...
    @property
    def before(self) -> str: ...
    @property
    def after(self) -> str: ...


class Stretch(NamedTuple):
    """A range of one chain. `before` is empty at the start of the chain."""

    device: str
    first: int
    last: int
    before: str
    after: str

    @classmethod
    def of(cls, one: Stretching) -> Stretch:
        return cls(one.device, one.first, one.last, one.before, one.after)

    def covered(self, numbers: Mapping[str, Iterable[int]]) -> set[int]:
        """Return the numbers, of those given for its chain, that this stretch covers."""
        return {n for n in numbers.get(self.device, ()) if self.first <= n <= self.last}


class ReportedHead(NamedTuple):
    """A head that was on the remote before; `here` is set if this device itself saw it."""

    device: str
    n: int
    hash: str
    here: bool = False


class Missing(NamedTuple):
    """A reported head that the remote lacks; `instead` has the hashes found at its number."""

    head: ReportedHead
    whole: int
    instead: tuple[str, ...] = ()


Hashes = Callable[[Stretch, int], Iterable[str]]
"""Look up the hashes of the event with this number in a stretch; empty if unknown."""


def whole(stretches: Iterable[Stretch]) -> int:
    """Return the number up to which the stretches cover a chain without a gap."""
    reach = 0
    for one in sorted(stretches, key=lambda one: one.first):
        if one.first > reach + 1:
            break
        reach = max(reach, one.last)
    return reach


def by_chain(stretches: Iterable[Stretch]) -> dict[str, list[Stretch]]:
    found: dict[str, list[Stretch]] = {}
    for one in stretches:
        found.setdefault(one.device, []).append(one)
    return found


def heads_of(stretches: Iterable[Stretch]) -> dict[str, tuple[int, str]]:
    """Return for each chain the number up to which it is whole, and the hash of that event."""
    found = {}
    for device, chain in by_chain(stretches).items():
        reach = whole(chain)
        ends = sorted(one.after for one in chain if one.last == reach)
        if ends:
            found[device] = (reach, ends[0])
    return found


def missing(
    stretches: Iterable[Stretch], reported: Iterable[ReportedHead], held: Hashes
) -> list[Missing]:
    """Return the reported heads that the remote lacks, or has with another hash."""
    chains = by_chain(stretches)
    reach = {device: whole(each) for device, each in chains.items()}
    found = []
    for one in reported:
        if one.n > reach.get(one.device, 0):
            found.append(Missing(one, reach.get(one.device, 0)))
        elif instead := _others(chains[one.device], one, held):
            found.append(Missing(one, reach[one.device], instead))
    return found


def _others(chain: Sequence[Stretch], head: ReportedHead, held: Hashes) -> tuple[str, ...]:
    """Return the hashes at the number of a reported head; empty if its own hash is among them.

    A stretch names only the hash of its last event; `held` looks up the others.
    """
    others: set[str] = set()
    for one in chain:
        if one.first <= head.n <= one.last:
            found = {one.after} if one.last == head.n else set(held(one, head.n))
            if not found or head.hash in found:
                return ()
            others |= found
    return tuple(sorted(others))


# --- what the remote has ----------------------------------------------------------------------


Link = tuple[str, int, str]
"""The device and number of an event, and the hash of the event before it."""


class Coverage:
    """Which events a remote has, by stretches that are also in the journal.

    On a chain with one head an event is found by its number. A forked chain (from a copied home)
    has several events with one number: `links` are the events of such chains, by hash.
    """

    def __init__(self, stretches: Iterable[Stretch], links: Mapping[str, Link]) -> None:
        chains = by_chain(stretches)
        self._spans = {device: _joined(each) for device, each in chains.items()}
        self._branching = {device for device, _, _ in links.values()}
        branches = [one for device in self._branching for one in chains.get(device, ())]
        self._hashes = {hash for one in branches for hash in back(one, links)}

    @property
    def is_empty(self) -> bool:
        return not self._spans

    def has(self, device: str, n: int, hash: str) -> bool:
        if device in self._branching:
            return hash in self._hashes
        spans = self._spans.get(device, [])
        place = bisect_right(spans, (n, _END)) - 1
        return place >= 0 and n <= spans[place][1]


def _joined(chain: Iterable[Stretch]) -> list[tuple[int, int]]:
    """Return the numbers that the stretches cover, as separate spans."""
    found: list[tuple[int, int]] = []
    for first, last in sorted((one.first, one.last) for one in chain):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


def back(stretch: Stretch, links: Mapping[str, Link]) -> Iterator[str]:
    """Yield the hashes of the events of a stretch, the last event first."""
    hash = stretch.after
    while hash in links and links[hash][1] >= stretch.first:
        yield hash
        hash = links[hash][2]


def root(hash: str, links: Mapping[str, Link]) -> str:
    """Return the first event of the branch that ends with `hash`, as far as `links` reach."""
    while hash in links and links[hash][2] in links:
        hash = links[hash][2]
    return hash


# --- merging small packs ----------------------------------------------------------------------


class Pack(NamedTuple):
    """A pack on the remote: its name, size and stretch."""

    name: str
    size: int
    stretch: Stretch


def crowded(packs: Iterable[Pack], *, few: int = _FEW) -> list[list[Pack]]:
    """Return rows of adjacent small packs of one chain, each long enough to be merged.

    A large pack ends a row.
    """
    rows: list[list[Pack]] = []
    small = [p for p in packs if p.size < MOST_BYTES // 4 and _length(p) < MOST_EVENTS // 2]
    for one in sorted(small, key=lambda p: (p.stretch.device, p.stretch.first, p.stretch.last)):
        if rows and _follows(rows[-1][-1].stretch, one.stretch):
            rows[-1].append(one)
        else:
            rows.append([one])
    return [row for row in rows if len(row) >= few]


def _length(pack: Pack) -> int:
    return pack.stretch.last - pack.stretch.first + 1


def _follows(one: Stretch, next: Stretch) -> bool:
    return (one.device, one.last + 1, one.after) == (next.device, next.first, next.before)


# --- the plan ---------------------------------------------------------------------------------


class Plan(NamedTuple):
    """What one sync of a session has to read.

    `fetch` are the names of packs to read; `gone` are known packs that are no longer listed, and
    `listed` the stretches of those that still are.
    """

    fetch: list[str]
    gone: list[str]
    listed: list[Stretch]


def plan(listed: Iterable[str], known: Mapping[str, Stretch]) -> Plan:
    """Compare the listed packs with the known ones.

    A pack that is gone covers no events; `missing` decides whether the remote lost data.
    """
    names = set(listed)
    still = [stretch for name, stretch in known.items() if name in names]
    gone = sorted(name for name in known if name not in names)
    return Plan(sorted(names - known.keys()), gone, still)
