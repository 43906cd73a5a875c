"""The remote port: where sealed packs travel, and what every adapter promises.

A remote is a flat set of immutable objects. Names are ASCII, of segments `[a-z0-9.-]+` joined
by `/`. Nothing is ever overwritten: a name that is taken stays as it is. What an object holds
is nobody's business here; it was sealed before it came.

`open_remote` is the only place where an address meets a class.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class Object(NamedTuple):
    """One object as the remote lists it."""

    name: str
    size: int


class Probe(NamedTuple):
    """What a remote proved able to do. Where it is less, every write is read back.

    `conditional`: a write under a taken name is refused. `lists`: what was written is listed at
    once. `why` says what was seen where one of them is False.
    """

    conditional: bool
    lists: bool
    why: str = ""


class Remote:
    """The port. Errors leave it only as `RemoteFailed`, without any credential in them."""

    address: str
    """Where it is, without credentials."""

    backend: str
    """`folder` or `s3`."""

    def list(self, prefix: str) -> Iterator[Object]:
        """Objects whose names begin with the prefix, by name."""
        raise NotImplementedError

    def get(self, name: str) -> bytes:
        """The whole object; `NotThere` if there is none of that name."""
        raise NotImplementedError

    def put(self, name: str, data: bytes) -> bool:
        """Keep an object, durably when it returns; False when the name is taken already."""
        raise NotImplementedError

    def delete(self, name: str) -> None:
        """Remove an object; one that is not there is as good."""
        raise NotImplementedError

    def probe(self) -> Probe:
        """Find out what the remote can do, by doing it; leaves nothing behind."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of everything. May be called twice."""


def open_remote(address: str, *, timeout: float = 30.0) -> Remote:
    """The remote that an address names: `folder:PATH` or `s3://BUCKET/PREFIX?endpoint=URL`."""
    raise InvalidInput(f"no remote is known for {address.split(':', 1)[0]}:")
