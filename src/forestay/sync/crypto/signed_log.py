"""What was said: signed statements that name those before them, as a set that only grows.

Words. Something *said* is bytes and a signature under them; the hash of the bytes is its name. It
tells who said it (`by`) and what that one had *seen*; its *past* is that, and the past of that.
Circles and rings are such sets. They merge by union, and what they mean is computed from the set.
A *language* is one kind of statement: how it is read, what is signed with it, how many there are.

Whoever may write to a remote may show anything there. So a set is counted and measured before it
is read, read before it is put in order, and verified last; each step costs in proportion to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from forestay.errors import Refused, Tampered
from forestay.sync.crypto import keys
from forestay.sync.crypto.envelope import SIGNATURE, UNREADABLE
from forestay.sync.crypto.keys import Key

MOST = 500
"""How many statements a set may have: decades of a person's devices."""
SPARE = 50
"""How many of these are left for what puts someone out."""
_REMEMBERED = 20_000


class StatementContent(Protocol):
    """What every statement tells."""

    @property
    def by(self) -> str: ...

    @property
    def seen(self) -> tuple[str, ...]: ...


S = TypeVar("S", bound=StatementContent)


class SignedStatement(Generic[S]):
    """A statement as it was signed; `told` is what it says."""

    __slots__ = ("content", "hash", "raw", "signature")

    def __init__(self, raw: bytes, signature: bytes, content: S) -> None:
        self.raw, self.signature, self.content = raw, signature, content
        self.hash = sha256(raw).hexdigest()


class StatementKind(Generic[S]):
    """One kind of statement."""

    def __init__(self, type: type[S], *, tag: bytes, whole: str, longest: int) -> None:
        """`tag` is signed before each statement, `whole` is what a set of them is called."""
        self._decoder = msgspec.json.Decoder(type)
        self._tag, self._whole, self._longest = tag, whole, longest
        self._verified: set[tuple[bytes, bytes, str]] = set()

    def parsed(self, raw: bytes) -> S:
        try:
            return self._decoder.decode(raw)
        except UNREADABLE as error:
            raise Tampered(f"a statement in {self._whole} cannot be read", why=str(error)) from None

    def sign(self, content: S, key: Key, *also: tuple[bytes, Key]) -> SignedStatement[S]:
        """Say something; others may sign the same bytes, each with a tag of its own."""
        raw = msgspec.json.encode(content)
        signatures = [by.sign(tag + raw) for tag, by in ((self._tag, key), *also)]
        return SignedStatement(raw, b"".join(signatures), content)

    def has_valid_signature(
        self, log: SignedStatement[S], verify: bytes, *, part: int = 0, tag: bytes = b""
    ) -> bool:
        """Whether a signature is right: the first, or another with its own tag."""
        signature = log.signature[part * SIGNATURE : (part + 1) * SIGNATURE]
        known = (verify, (tag or self._tag) + signature, log.hash)
        if known not in self._verified:
            if not keys.verify(verify, signature, (tag or self._tag) + log.raw):
                return False
            if len(self._verified) >= _REMEMBERED:
                self._verified.clear()
            self._verified.add(known)
        return True

    # -- sets ----------------------------------------------------------------------------------

    def read(self, texts: Sequence[tuple[str, str]]) -> list[SignedStatement[S]]:
        """Statements as they stand in an object, with their signatures in hexadecimal."""
        self._require_few(len(texts))
        if any(len(raw) > self._longest for raw, _ in texts):
            why = f"over {self._longest:,} characters"
            raise Tampered(f"a statement in {self._whole} is too long", why=why)
        try:
            pairs = [(raw.encode(), bytes.fromhex(signature)) for raw, signature in texts]
        except UNREADABLE:
            raise Tampered(f"{self._whole} cannot be read") from None
        return [SignedStatement(raw, signature, self.parsed(raw)) for raw, signature in pairs]

    def collect(
        self, log: Iterable[SignedStatement[S]], most: int = MOST
    ) -> dict[str, SignedStatement[S]]:
        """The set, by hash."""
        found = {each.hash: each for each in log}
        self._require_few(len(found), most)
        return found

    def _require_few(self, count: int, most: int = MOST) -> None:
        if count > most:
            why = f"{count:,}, and {most} is the most"
            hint = "nothing of it was taken; look at the storage, and at: forestay device list"
            raise Tampered(f"there are too many statements in {self._whole}", why=why, hint=hint)

    def require_room(self, log: Mapping[str, SignedStatement[S]], *, spare: int = 0) -> None:
        """`Refused` where no more can be said; the last `spare` places are kept free."""
        if len(log) >= MOST - spare:
            raise Refused(
                f"there is no room for another statement in {self._whole}",
                why=f"it has {len(log)}, and {MOST} is the most",
                hint="begin anew in a home of its own: forestay --home DIR device key init",
            )

    def sort_by_past(self, log: Mapping[str, SignedStatement[S]]) -> SortedLog:
        """The hashes, each after what it has seen, and the past of each."""
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
            raise Tampered(f"{self._whole} is incomplete", why="one that is referred to is missing")
        return SortedLog(sorted(past, key=lambda hash: (depth[hash], hash)), past)


class SortedLog(NamedTuple):
    """A set in an order that everyone computes alike."""

    order: list[str]
    past: dict[str, set[str]]


def ends(
    log: Mapping[str, SignedStatement[S]], among: Iterable[str] | None = None
) -> tuple[str, ...]:
    """Those that nobody has seen yet: what is said next has seen them, and so all."""
    every = set(log if among is None else among)
    return tuple(sorted(every.difference(*(log[each].content.seen for each in every))))


def texts(log: Iterable[SignedStatement[S]]) -> list[tuple[str, str]]:
    """Statements as they stand in an object."""
    return [(each.raw.decode(), each.signature.hex()) for each in log]
