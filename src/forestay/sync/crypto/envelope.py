"""The format of sealed objects: a line in clear text, then a signed claim and a body under age.

    object    = line LF, age of inside
    line      = "FORESTAY", kind, version, and for some kinds one word more
    inside    = length of the claim (4 bytes, big endian), claim (JSON), signature (64), body
    signature = Ed25519 over: "FORESTAY", kind, version, LF, SHA-256 of claim, SHA-256 of body

    !! Objects stay on remotes for years and are never rewritten. A change needs a new version.

The line only shows which key opens the object. Kind and version are signed too, so an object of
one kind cannot pass for one of another.
"""

from __future__ import annotations

import re
import struct
from hashlib import sha256
from typing import NamedTuple

from forestay.errors import Downgraded, Outdated, Tampered
from forestay.sync.crypto import keys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from forestay.sync.crypto.keys import Key, Secret

VERSION = 1
SIGNATURE = 64
_LENGTH = struct.Struct(">I")
_LINE = re.compile(rb"FORESTAY ([A-Z]{2,10}) ([0-9]{1,6})(?: ([0-9a-f]{16,64}))?\n")
_MAX_CLAIM = 4 << 20
UNREADABLE = (ValueError, RecursionError)
"""What decoding JSON can raise: ValueError for bad JSON or UTF-8, RecursionError for nesting."""


class Inside(NamedTuple):
    """The decrypted content of an object; its signature is not checked yet."""

    kind: str
    claim: bytes
    signature: bytes
    body: bytes

    def is_signed_by(self, verify: bytes) -> bool:
        return keys.verify(verify, self.signature, _signed(self.kind, self.claim, self.body))


def enclose(
    kind: str, claim: bytes, body: bytes, key: Key, recipients: Sequence[str], word: str = ""
) -> bytes:
    """Sign a claim and a body, and seal both."""
    signature = key.sign(_signed(kind, claim, body))
    inside = _LENGTH.pack(len(claim)) + claim + signature + body
    line = f"FORESTAY {kind} {VERSION}{' ' if word else ''}{word}\n"
    return line.encode() + keys.seal(inside, recipients)


def word_of(data: bytes, kind: str) -> str:
    """Return the last word of an object's first line; raise if it is of another kind or version."""
    return _opened_line(data, kind)[0]


def disclose(data: bytes, kind: str, secrets: Sequence[Secret | Key]) -> Inside:
    """Decrypt an object of this kind; raise `Locked` or `Tampered` as `Secret.open` does."""
    sealed = _opened_line(data, kind)[1]
    return parted(kind, keys.open_with([_secret(one) for one in secrets], sealed))


def parted(kind: str, inside: bytes) -> Inside:
    """Split decrypted bytes into claim, signature and body; raise `Tampered` if too short."""
    size = _LENGTH.unpack_from(inside)[0] if len(inside) >= _LENGTH.size else _MAX_CLAIM + 1
    start, end = _LENGTH.size, _LENGTH.size + size
    if size > _MAX_CLAIM or end + SIGNATURE > len(inside):
        raise Tampered(f"a sealed {kind.lower()} is cut short inside")
    return Inside(kind, inside[start:end], inside[end : end + SIGNATURE], inside[end + SIGNATURE :])


def _secret(one: Secret | Key) -> Secret:
    return one._secret if isinstance(one, keys.Key) else one


def _opened_line(data: bytes, kind: str) -> tuple[str, bytes]:
    found = _LINE.match(data)
    if not found or found[1].decode() != kind:
        what = f"an object on the remote is not a {kind} object of Forestay"
        if data.startswith(b"FORESTAY PACK "):
            raise Downgraded("a pack on the remote is not encrypted")
        raise Tampered(what, why=f"it begins with {data[:16]!r}")
    version = int(found[2])
    if version > VERSION:
        raise Outdated(f"a newer Forestay wrote this {kind.lower()}", hint="update Forestay")
    if version < VERSION or found[2] != str(VERSION).encode():
        raise Downgraded(f"a {kind.lower()} has version {version}, which is older than {VERSION}")
    return (found[3] or b"").decode(), data[found.end() :]


def _signed(kind: str, claim: bytes, body: bytes) -> bytes:
    start = f"FORESTAY {kind} {VERSION}\n".encode()
    return start + sha256(claim).digest() + sha256(body).digest()
