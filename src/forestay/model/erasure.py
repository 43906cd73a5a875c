"""Tombstones: which events have no effect any more, even if a copy of them still has content.

A *tombstone* is an event that forgets others: `event.forgotten` names some of them,
`session.forgotten` covers all. Its effect follows from the set of events alone, so homes that
hold the same events agree, in whatever order these arrived. A tombstone cannot be retracted.

Whether the content is erased as well depends on who wrote the tombstone: `Rights` decides which
devices may erase what in one home.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from forestay.model import event as ev
from forestay.model.event import Event, Header

WHOLE = "session.forgotten"
KINDS = frozenset({WHOLE, "event.forgotten"})

Entitled = Callable[[str, str], bool]
"""Returns whether the first device may erase events of the second; "" stands for all devices."""


def anyone(device: str, of: str) -> bool:
    """Allow everything: all devices belong to one person."""
    return True


class Rights:
    """Decides which devices may erase what in one home.

    A device of this home, under any id, may erase everything here. Another device may erase its
    own chain, a person the chains of their devices, and the owner of a session all of it. A chain
    that was not proven to belong to a person belongs to none. A device id that two persons wrote
    under may erase nothing, and only the owner may erase its events.
    """

    def __init__(
        self,
        mine: Iterable[str],
        whose: Mapping[str, str],
        *,
        group: str = "",
        owner: str = "",
        disputed: Iterable[str] = (),
    ) -> None:
        """`whose` maps a device to its device group; `group` is the device group of this home."""
        self._mine, self._whose = frozenset(mine), whose
        self._group, self._owner = group, owner
        self._disputed = frozenset(disputed)

    def may_erase(self, device: str, of: str) -> bool:
        if device in self._mine:
            return True
        if device in self._disputed or device == of:
            return device not in self._disputed
        group = self._group_of(device)
        of_one = "" if of in self._disputed else self._group_of(of)
        return bool(group) and group in (self._owner, of_one)

    def _group_of(self, device: str) -> str:
        return self._group if device in self._mine else self._whose.get(device, "")


class Tombstones:
    """What was forgotten in a session, and by which devices."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._named: dict[str, set[str]] = {}
        self.whole: set[str] = set()
        for event in events:
            self.add(event)

    def __bool__(self) -> bool:
        return bool(self._named or self.whole)

    def add(self, event: Event) -> None:
        """Add an event; those that are no tombstones are ignored."""
        if event.kind == WHOLE:
            self.whole.add(event.head.device)
        elif isinstance(event.body, ev.EventForgotten):
            for name in (*event.body.hashes, *event.body.ids):
                self._named.setdefault(name, set()).add(event.head.device)

    def name(self, head: Header, hash: str) -> bool:
        """Return whether a tombstone names an event; tombstones are never named."""
        return bool(self._writers(head, hash))

    def erase(self, head: Header, hash: str, entitled: Entitled) -> bool:
        """Return whether an entitled device erased the content of an event."""
        writers = self._writers(head, hash) | self.whole
        return any(entitled(device, head.device) for device in writers)

    def erase_all(self, entitled: Entitled) -> bool:
        """Return whether an entitled device forgot the whole session."""
        return any(entitled(device, "") for device in self.whole)

    def _writers(self, head: Header, hash: str) -> set[str]:
        if head.kind in KINDS or not self._named:
            return set()
        return self._named.get(hash, set()) | self._named.get(head.id, set())
