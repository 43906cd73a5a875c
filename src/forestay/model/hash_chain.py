"""Chains: how the next event of a device is linked to everything it follows.

A chain is one device's part of a session. Its next event carries a `Link`: the next number, the
hash of the event before it, the heads of other chains that changed since then, and the clock
that follows from those. `continue_chain` makes a link from the folded core alone, so an append
costs the same however long the journal is; `check_link` verifies that a header from another
device carries the only link it can have.

A copied home can leave one device with two heads. Its writer gets a new device id and sees both.
If the forked id is continued all the same, the link names every head, including its own other
one: what each of the two branches had seen is no longer known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from forestay.model import event as ev
from forestay.model.event import Body, Event, Header, Sealed
from forestay.model.state import Chain, Core

Seen = dict[str, list[int | str]]


class Link(NamedTuple):
    """What ties an event to its past."""

    n: int
    prev: str
    clock: int
    seen: Seen


def continue_chain(core: Core, device: str) -> Link:
    """Return the link of this device's next event, given everything that has been folded here."""
    chain = core.chains.get(device) or Chain([], {})
    if len(chain.heads) == len(core.chains) == 1:
        ((n, prev, clock),) = chain.heads
        return Link(n + 1, prev, clock + 1, {})
    last = max(chain.heads, key=lambda head: (head[2], head[0], head[1]), default=(0, ev.FIRST, 0))
    n, prev, clock = last
    known = chain.seen if len(chain.heads) == 1 else {}
    seen: Seen = {}
    for other in sorted(core.chains):
        heads = sorted(h for h in core.chains[other].heads if h[1] != prev)
        flat = [part for number, digest, _ in heads for part in (number, digest)]
        if flat and flat != known.get(other):
            seen[other] = flat
            clock = max(clock, *(h[2] for h in heads))
    return Link(n + 1, prev, clock + 1, seen)


def next_of(
    core: Core, stored: Body, device: str, salt: bytes, seq: int = 0, must: str = "", **fields: Any
) -> tuple[Sealed, Event]:
    """Return the next event of this device's chain, as bytes to store and as a value to fold.

    `stored` is a body as its bytes will be read again, so that folding it now and folding it later
    agree; `seq` is the arrival number, `fields` are the other fields of the header.
    """
    kind, data = ev.KIND_OF[type(stored)], ev.encode_body(stored)
    must = must or ev.MUST.get(kind, "")
    sealed, header = seal_next(core, device, kind, data, salt, must=must, **fields)
    return sealed, Event(header, sealed.hash, stored, seq)


def seal_next(
    core: Core, device: str, kind: str, data: bytes, salt: bytes, **fields: Any
) -> tuple[Sealed, Header]:
    """Return what `next_of` returns, for data of any kind; `fields` are other header fields."""
    n, prev, clock, seen = continue_chain(core, device)
    header = Header(
        v=ev.FORMAT,
        device=device,
        n=n,
        clock=clock,
        kind=kind,
        digest=ev.content_digest(salt, data),
        prev=prev,
        seen=seen,
        **fields,
    )
    return ev.seal(header, salt, data), header


def check_link(header: Header, get: Callable[[str], Header | None]) -> str:
    """Return what is wrong with a header's link, or an empty string; `get` finds stored headers."""
    wrong, clock = _check_prev(header, get)
    for device, flat in header.seen.items():
        if wrong:
            break
        wrong, seen_clock = _check_seen(header, device, flat, get)
        clock = max(clock, seen_clock)
    if wrong:
        return wrong
    if header.clock != clock + 1:
        return (
            f"its clock is {header.clock}, but after the events it follows it must be {clock + 1}"
        )
    return ""


def _check_prev(header: Header, get: Callable[[str], Header | None]) -> tuple[str, int]:
    if header.prev == ev.FIRST:
        return ("" if header.n == 1 else f"number {header.n} names no predecessor"), 0
    before = get(header.prev)
    if before is None:
        return "the event before it is missing", 0
    if before.device != header.device or before.session != header.session:
        return "the event it names as its predecessor is of another chain", 0
    if header.n != before.n + 1:
        return f"its number is {header.n}, but the event before it has {before.n}", 0
    return "", before.clock


def _check_seen(
    header: Header, device: str, flat: list[int | str], get: Callable[[str], Header | None]
) -> tuple[str, int]:
    heads = ev.pairs(flat)
    if not heads or len(heads) * 2 != len(flat):
        return f"what it has seen of {device} cannot be read", 0
    clock = 0
    for n, digest in heads:
        found = get(digest)
        if found is None:
            return f"it has seen {device}:{n}, which is missing", 0
        if (found.session, found.device, found.n) != (header.session, device, n):
            return f"what it has seen as {device}:{n} is another event", 0
        clock = max(clock, found.clock)
    return "", clock
