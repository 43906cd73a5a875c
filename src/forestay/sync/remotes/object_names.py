"""The names of objects on a remote. They disclose nothing to its operator.

A name does not show the topic, the folder or the author of a session; only that two objects belong
together. Each ends in the SHA-256 of the object's bytes, so a name never stands for two contents
and nothing is ever overwritten.

    forestay/format                            "forestay remote 1" LF
    c/CIRCLE/HASH                              the statements of a device group
    s/PLACE/k/EPOCH-HASH                       a ring: the keys of a session
    s/PLACE/p/CHAIN/FIRST-LAST-HASH            a pack: a stretch of one chain
    s/PLACE/w/HASH                             a participant: the devices of a person

    PLACE = HMAC-SHA256(name key, "session " + id), 32 digits
    CHAIN = HMAC-SHA256(place key, "chain " + device), 32 digits; place key, as bytes, is
            HMAC-SHA256(name key, "place " + id)
    HASH has 32 digits, EPOCH 6, FIRST and LAST 12

    !! Remotes are used for years. A change of these names needs a new number in forestay/format.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from forestay.base.hashing import digest_of, hmac_sha256
from forestay.sync.remotes.port import MOST

MARK = b"forestay remote 1\n"
SESSIONS, GROUPS = "s/", "c/"
_LENGTH = 32
_PACK = re.compile(r"s/([0-9a-f]{32})/p/([0-9a-f]{32})/([0-9]{12})-([0-9]{12})-([0-9a-f]{32})")
_RING = re.compile(r"s/([0-9a-f]{32})/k/([0-9]{6})-([0-9a-f]{32})")
_CIRCLE = re.compile(r"c/[0-9a-f]{32}/[0-9a-f]{32}")
_WHO = re.compile(r"s/([0-9a-f]{32})/w/([0-9a-f]{32})")


class PackName(NamedTuple):
    """The parts of the name of a pack."""

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
    """Return the place of a session's objects."""
    return hmac_sha256(name_key, f"session {session}".encode())[:_LENGTH]


def place_key(name_key: bytes, session: str) -> bytes:
    """Return the key for the chain names of one session; members get only this key."""
    return bytes.fromhex(hmac_sha256(name_key, f"place {session}".encode()))


def chain(place_key: bytes, device: str) -> str:
    return hmac_sha256(place_key, f"chain {device}".encode())[:_LENGTH]


def size_limit(name: str) -> int:
    """Return the size limit in bytes of the object with this name."""
    if _CIRCLE.fullmatch(name) or _WHO.fullmatch(name):
        return 8 << 20
    return 32 << 20 if _RING.fullmatch(name) else MOST


def hash_of(data: bytes) -> str:
    """Return the hash that ends an object's name."""
    return digest_of(data)[:_LENGTH]


def is_of(name: str, data: bytes) -> bool:
    """Return whether the hash at the end of a name is that of these bytes."""
    return name.endswith(hash_of(data))


def group_prefix(group_id: str) -> str:
    """Return the prefix of a device group's objects."""
    return f"{GROUPS}{group_id}/"


def within(place: str) -> str:
    """Return the prefix of a session's objects."""
    return f"{SESSIONS}{place}/"


def group_name(group_id: str, data: bytes) -> str:
    return group_prefix(group_id) + hash_of(data)


def pack_name(place: str, chain: str, first: int, last: int, data: bytes) -> str:
    return f"{within(place)}p/{chain}/{first:012d}-{last:012d}-{hash_of(data)}"


def ring_name(place: str, epoch: int, data: bytes) -> str:
    return f"{within(place)}k/{epoch:06d}-{hash_of(data)}"


def participant_name(place: str, data: bytes) -> str:
    return f"{within(place)}w/{hash_of(data)}"


def as_pack(name: str) -> PackName | None:
    """Parse the name of a pack; None if it is not one."""
    found = _PACK.fullmatch(name)
    if found is None:
        return None
    return PackName(name, found[1], found[2], int(found[3]), int(found[4]), found[5])


def epoch_of(name: str) -> int:
    """Return the epoch in the name of a key ring, 0 if it is not one."""
    found = _RING.fullmatch(name)
    return int(found[2]) if found else 0


def is_group(name: str) -> bool:
    return _CIRCLE.fullmatch(name) is not None


def is_participant(name: str) -> bool:
    return _WHO.fullmatch(name) is not None


def place_of(name: str) -> str:
    """Return the place in the name of a session's object, "" for other objects."""
    parts = name.split("/")
    return parts[1] if len(parts) > 2 and f"{parts[0]}/" == SESSIONS else ""
