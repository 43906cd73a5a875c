"""Tombstones: which events say nothing any more, whatever a copy of them says.

A *tombstone* is an event by which someone forgot others: `event.forgotten` names some of them,
`session.forgotten` means all. What they mean follows from the set of events alone, so homes that
hold the same events agree, in whatever order these came. Nothing takes a tombstone back.

Whether content is erased as well is another question: that takes the word of someone who may say
so. So each tombstone is kept with the device that wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from holdfast.model import event as ev
from holdfast.model.event import Event, Header

WHOLE = "session.forgotten"
KINDS = frozenset({WHOLE, "event.forgotten"})

Entitled = Callable[[str, str], bool]
"""Whether the first device may have events of the second erased; "" stands for all devices."""


def anyone(device: str, of: str) -> bool:
    """All devices are one person's."""
    return True


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
