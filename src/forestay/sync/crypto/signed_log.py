"""A log of signed statements: a set that only grows, where each statement names its predecessors.

A signed statement is bytes and a signature; the hash of the bytes is its name. Its content names
the signer (`by`) and the statements that the signer had *seen*; its *past* is these and their
pasts. Device groups and key rings are such logs. Two logs merge by union; the order of arrival does
not matter. A `StatementKind` parses and signs one kind of statement.

Anyone who can write to a remote can put any bytes there. So the cheap checks come first: the size
of a log is checked before it is parsed, it is parsed before it is sorted, and verified last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Generic, Protocol, TypeVar

import msgspec

from forestay.errors import Refused, Tampered
from forestay.sync.crypto import keys
from forestay.sync.crypto.envelope import SIGNATURE, UNREADABLE
from forestay.sync.crypto.keys import Key

MOST = 500
"""The most statements a log may have: enough for decades of a person's devices."""
SPARE = 50
"""How many of `MOST` are reserved for statements that revoke a device or remove a member."""
_REMEMBERED = 20_000


class StatementContent(Protocol):
    """The fields that every statement has."""

    @property
    def by(self) -> str: ...

    @property
    def seen(self) -> tuple[str, ...]: ...


S = TypeVar("S", bound=StatementContent)


class SignedStatement(Generic[S]):
    """A statement as it was signed: raw bytes, signature, and the parsed content."""

    __slots__ = ("content", "hash", "raw", "signature")

    def __init__(self, raw: bytes, signature: bytes, content: S) -> None:
        self.raw, self.signature, self.content = raw, signature, content
        self.hash = sha256(raw).hexdigest()


class StatementKind(Generic[S]):
    """One kind of statement: how it is parsed, signed and verified."""

    def __init__(self, type: type[S], *, tag: bytes, name: str, longest: int) -> None:
        """`tag` is signed before each statement; `name` names a log in errors."""
        self._decoder = msgspec.json.Decoder(type)
        self._tag, self._name, self._longest = tag, name, longest
        self._verified: set[tuple[bytes, bytes, str]] = set()

    def parsed(self, raw: bytes) -> S:
        try:
            return self._decoder.decode(raw)
        except UNREADABLE as error:
            raise Tampered(f"a statement in {self._name} cannot be read", why=str(error)) from None

    def sign(self, content: S, key: Key, *also: tuple[bytes, Key]) -> SignedStatement[S]:
        """Sign a statement; further keys may sign the same bytes, each with its own tag."""
        raw = msgspec.json.encode(content)
        signatures = [by.sign(tag + raw) for tag, by in ((self._tag, key), *also)]
        return SignedStatement(raw, b"".join(signatures), content)

    def has_valid_signature(
        self, log: SignedStatement[S], verify: bytes, *, part: int = 0, tag: bytes = b""
    ) -> bool:
        """Return whether a signature is valid: the first, or number `part` with its own tag."""
        signature = log.signature[part * SIGNATURE : (part + 1) * SIGNATURE]
        known = (verify, (tag or self._tag) + signature, log.hash)
        if known not in self._verified:
            if not keys.verify(verify, signature, (tag or self._tag) + log.raw):
                return False
            if len(self._verified) >= _REMEMBERED:
                self._verified.clear()
            self._verified.add(known)
        return True

    # -- logs ----------------------------------------------------------------------------------

    def read(self, texts: Sequence[tuple[str, str]]) -> list[SignedStatement[S]]:
        """Parse statements from an object, each with its signature in hexadecimal."""
        self._require_few(len(texts))
        if any(len(raw) > self._longest for raw, _ in texts):
            why = f"over {self._longest:,} characters"
            raise Tampered(f"a statement in {self._name} is too long", why=why)
        try:
            pairs = [(raw.encode(), bytes.fromhex(signature)) for raw, signature in texts]
        except UNREADABLE:
            raise Tampered(f"{self._name} cannot be read") from None
        return [SignedStatement(raw, signature, self.parsed(raw)) for raw, signature in pairs]

    def collect(
        self, log: Iterable[SignedStatement[S]], most: int = MOST
    ) -> dict[str, SignedStatement[S]]:
        """Return the statements by hash; refuse more than `most`."""
        found = {each.hash: each for each in log}
        self._require_few(len(found), most)
        return found

    def _require_few(self, count: int, most: int = MOST) -> None:
        if count > most:
            why = f"there are {count:,}; at most {most} are allowed"
            hint = "nothing was read; check the storage, and: forestay device list"
            raise Tampered(f"there are too many statements in {self._name}", why=why, hint=hint)

    def require_room(self, log: Mapping[str, SignedStatement[S]], *, spare: int = 0) -> None:
        """Raise `Refused` if the log has no room for a statement and `spare` further ones."""
        if len(log) >= MOST - spare:
            raise Refused(
                f"there is no room for another statement in {self._name}",
                why=f"it has {len(log)}, and the limit is {MOST}",
                hint="start over in another home: forestay --home DIR device key init",
            )

    def sort_by_past(
        self, log: Mapping[str, SignedStatement[S]]
    ) -> tuple[list[str], dict[str, set[str]]]:
        """Return the hashes of the statements, each after those it has seen, and the past of each.

        Every device computes the same order.
        """
        waits = {hash: set(each.content.seen) for hash, each in log.items()}
        behind: dict[str, list[str]] = {}
        for hash, seen in waits.items():
            for each in seen:
                behind.setdefault(each, []).append(hash)
        ready = [hash for hash, seen in waits.items() if not seen]
        past: dict[str, set[str]] = {}
        depth: dict[str, int] = {}
        for hash in ready:
            seen = set(log[hash].content.seen)
            past[hash] = seen.union(*(past[each] for each in seen))
            depth[hash] = 1 + max((depth[each] for each in seen), default=0)
            for next in behind.get(hash, ()):
                waits[next].discard(hash)
                if not waits[next]:
                    ready.append(next)
        if len(past) < len(log):
            raise Tampered(
                f"{self._name} is incomplete", why="a statement that another one names is missing"
            )
        return sorted(past, key=lambda hash: (depth[hash], hash)), past


def ends(
    log: Mapping[str, SignedStatement[S]], among: Iterable[str] | None = None
) -> tuple[str, ...]:
    """Return the statements that no other has seen; the next statement names them."""
    every = set(log if among is None else among)
    return tuple(sorted(every.difference(*(log[each].content.seen for each in every))))


def texts(log: Iterable[SignedStatement[S]]) -> list[tuple[str, str]]:
    """Return statements as they are stored in an object."""
    return [(each.raw.decode(), each.signature.hex()) for each in log]
