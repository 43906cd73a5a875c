"""Tombstones: which events say nothing any more, whatever a copy of them says.

A *tombstone* is an event by which someone forgot others: `event.forgotten` names some of them,
`session.forgotten` means all. What they mean follows from the set of events alone, so homes that
hold the same events agree, in whatever order these came. Nothing takes a tombstone back.

Whether content is erased as well is another question: that takes the word of someone who may say
so. So each tombstone is kept with the device that wrote it, and `Rights` says who that is at home.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from forestay.model import event as ev
from forestay.model.event import Event, Header

WHOLE = "session.forgotten"
KINDS = frozenset({WHOLE, "event.forgotten"})

Entitled = Callable[[str, str], bool]
"""Whether the first device may have events of the second erased; "" stands for all devices."""


def anyone(device: str, of: str) -> bool:
    """All devices are one person's."""
    return True


class Rights:
    """Who may have what erased in one home, by what is known there.

    Whatever this home wrote itself, under any id, is the word of its user and holds here for all
    of it. Others have a say in their own chains, persons in those of their devices, and the owner
    of a session in all of it. Whose a chain is that nobody showed to be theirs, is unknown.
    An id that two persons wrote under speaks for nobody, and only the owner has a say in it.
    """

    def __init__(
        self,
        mine: Iterable[str],
        whose: Mapping[str, str],
        *,
        circle: str = "",
        owner: str = "",
        disputed: Iterable[str] = (),
    ) -> None:
        """`whose` tells the circle of a device, `circle` is that of this home."""
        self._mine, self._whose = frozenset(mine), whose
        self._circle, self._owner = circle, owner
        self._disputed = frozenset(disputed)

    def may_erase(self, device: str, of: str) -> bool:
        if device in self._mine:
            return True
        if device in self._disputed or device == of:
            return device not in self._disputed
        circle = self._of(device)
        of_one = "" if of in self._disputed else self._of(of)
        return bool(circle) and circle in (self._owner, of_one)

    def _of(self, device: str) -> str:
        return self._circle if device in self._mine else self._whose.get(device, "")


class Tombstones:
    """What was forgotten in a session, and by which devices."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._named: dict[str, set[str]] = {}
        self.whole: set[str] = set()
        for event in events:
            self.take(event)

    def __bool__(self) -> bool:
        return bool(self._named or self.whole)

    def take(self, event: Event) -> None:
        """Any event may be given; only tombstones are remembered."""
        if event.kind == WHOLE:
            self.whole.add(event.head.device)
        elif isinstance(event.body, ev.EventForgotten):
            for name in (*event.body.hashes, *event.body.ids):
                self._named.setdefault(name, set()).add(event.head.device)

    def name(self, head: Header, hash: str) -> bool:
        """Whether an event is one of those that were named; no tombstone ever is."""
        return bool(self._who(head, hash))

    def erase(self, head: Header, hash: str, entitled: Entitled) -> bool:
        """Whether someone who may say so had the content of an event erased."""
        who = self._who(head, hash) | self.whole
        return any(entitled(device, head.device) for device in who)

    def erase_all(self, entitled: Entitled) -> bool:
        """Whether someone who may say so forgot the whole session."""
        return any(entitled(device, "") for device in self.whole)

    def _who(self, head: Header, hash: str) -> set[str]:
        if head.kind in KINDS or not self._named:
            return set()
        return self._named.get(hash, set()) | self._named.get(head.id, set())
