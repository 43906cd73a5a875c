"""What objects are called on a remote: opaque to whoever runs it, told apart by who holds keys.

Nothing in a name says what a session is about, where it is worked on or by whom; two names tell
only that they belong together. Each ends in the SHA-256 of the object's bytes, so no name ever
means two things and nothing is ever overwritten.

    forestay/format                            "forestay remote 1" LF
    c/CIRCLE/HASH                              what a circle's devices know of it
    s/PLACE/k/EPOCH-HASH                       a ring: the keys of a session
    s/PLACE/p/CHAIN/FIRST-LAST-HASH            a pack: a stretch of one chain
    s/PLACE/w/HASH                             who: the devices of someone who takes part

    PLACE = HMAC-SHA256(name key, "session " + id), 32 digits
    CHAIN = HMAC-SHA256(place key, "chain " + device), 32 digits; place key, as bytes, is
            HMAC-SHA256(name key, "place " + id)
    HASH has 32 digits, EPOCH 6, FIRST and LAST 12

    !! A remote is kept for years. A change of these is a new number in forestay/format.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from forestay.base.hashing import digest_of, hmac_sha256
from forestay.sync.remotes.port import MOST

MARK = b"forestay remote 1\n"
SESSIONS, CIRCLES = "s/", "c/"
_LENGTH = 32
_PACK = re.compile(r"s/([0-9a-f]{32})/p/([0-9a-f]{32})/([0-9]{12})-([0-9]{12})-([0-9a-f]{32})")
_RING = re.compile(r"s/([0-9a-f]{32})/k/([0-9]{6})-([0-9a-f]{32})")
_CIRCLE = re.compile(r"c/[0-9a-f]{32}/[0-9a-f]{32}")
_WHO = re.compile(r"s/([0-9a-f]{32})/w/([0-9a-f]{32})")


class PackName(NamedTuple):
    """What the name of a pack says."""

    name: str
    place: str
    chain: str
    first: int
    last: int
    hash: str

    @property
    def events(self) -> int:
        return self.last - self.first + 1


def place(name_key: bytes, session: str) -> str:
    """Where a session's objects are."""
    return hmac_sha256(name_key, f"session {session}".encode())[:_LENGTH]


def place_key(name_key: bytes, session: str) -> bytes:
    """What names the chains of a session: whoever it is shared with gets it, and no more."""
    return bytes.fromhex(hmac_sha256(name_key, f"place {session}".encode()))


def chain(place_key: bytes, device: str) -> str:
    return hmac_sha256(place_key, f"chain {device}".encode())[:_LENGTH]


def most(name: str) -> int:
    """How many bytes an object of a name may have: what tells who takes part is never large."""
    if _CIRCLE.fullmatch(name) or _WHO.fullmatch(name):
        return 8 << 20
    return 32 << 20 if _RING.fullmatch(name) else MOST


def hash_of(data: bytes) -> str:
    """The end of an object's name."""
    return digest_of(data)[:_LENGTH]


def is_of(name: str, data: bytes) -> bool:
    """Whether a name was given to these bytes."""
    return name.endswith(hash_of(data))


def group_prefix(group_id: str) -> str:
    """What the names of a circle's objects begin with."""
    return f"{CIRCLES}{group_id}/"


def within(place: str) -> str:
    """What the names of a session's objects begin with."""
    return f"{SESSIONS}{place}/"


def circle_name(group_id: str, data: bytes) -> str:
    return group_prefix(group_id) + hash_of(data)


def pack_name(place: str, chain: str, first: int, last: int, data: bytes) -> str:
    return f"{within(place)}p/{chain}/{first:012d}-{last:012d}-{hash_of(data)}"


def ring_name(place: str, epoch: int, data: bytes) -> str:
    return f"{within(place)}k/{epoch:06d}-{hash_of(data)}"


def participant_name(place: str, data: bytes) -> str:
    return f"{within(place)}w/{hash_of(data)}"


def as_pack(name: str) -> PackName | None:
    """A name taken apart, None if it is not that of a pack."""
    found = _PACK.fullmatch(name)
    if found is None:
        return None
    return PackName(name, found[1], found[2], int(found[3]), int(found[4]), found[5])


def epoch_of(name: str) -> int:
    """The epoch of a ring by its name, 0 if it is not that of a ring."""
    found = _RING.fullmatch(name)
    return int(found[2]) if found else 0


def is_circle(name: str) -> bool:
    return _CIRCLE.fullmatch(name) is not None


def is_participant(name: str) -> bool:
    return _WHO.fullmatch(name) is not None


def place_of(name: str) -> str:
    """The place that an object of a session is in, "" for other objects."""
    parts = name.split("/")
    return parts[1] if len(parts) > 2 and f"{parts[0]}/" == SESSIONS else ""
