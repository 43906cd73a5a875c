"""The remote port: the contract of every adapter that stores sealed objects.

A remote is a flat set of immutable objects. Names are ASCII, of segments `[a-z0-9.-]+` joined
by `/`. Nothing is ever overwritten. Contents are opaque here: they were sealed before. No name is a
folder of another one.

Which adapter an address names is in `remotes.open`.
"""

from __future__ import annotations

from typing import NamedTuple

from forestay.errors import InvalidInput, RemoteFailed
from forestay.sync.remotes.cloud_folder import is_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FORMAT = "forestay/format"
"""The object that marks a remote; once seen it must be seen again."""

MOST = 96 << 20
"""An object is at most this large; a larger one is not read.

A pack holds a little, or one event with its content.
"""
MOST_LISTED = 1_000_000
"""A remote has at most so many objects; a longer listing is refused."""

_LONGEST = 512


class Object(NamedTuple):
    """One object as the remote lists it."""

    name: str
    size: int


class Oddity(NamedTuple):
    """A file in a remote that is no object, and what it seems to be.

    `kind`: `copy` (with the same bytes as the object `of`), `differs` (with others), `stand-in`
    (read in place of `of`, which is missing), `placeholder`, `partial`, `link`.
    """

    place: str
    kind: str
    of: str = ""


class Probe(NamedTuple):
    """What a remote proved able to do. Where it is less, every write is read back.

    `conditional`: a write under a taken name is refused. `lists`: what was written is listed at
    once. `why` says what was seen where one of them is False.
    """

    conditional: bool
    lists: bool
    why: str = ""


class Remote:
    """The port. Errors leave it only as `RemoteFailed`, without any credential in them.

    Any number of threads may use one at the same time.
    """

    address: str
    """Where it is, without credentials."""

    backend: str
    """`folder` or `s3`."""

    steps = 0
    """A counter that rises during a long operation of many steps."""

    def list(self, prefix: str) -> Iterator[Object]:
        """Yield the objects whose names begin with the prefix, by name."""
        raise NotImplementedError

    def get(self, name: str) -> bytes:
        """Return the whole object; raise `NotThere` if there is none of that name."""
        raise NotImplementedError

    def put(self, name: str, data: bytes) -> bool:
        """Store an object, durably when it returns; return False if the name exists."""
        raise NotImplementedError

    def delete(self, name: str) -> None:
        """Delete an object; a missing one is no error."""
        raise NotImplementedError

    def probe(self) -> Probe:
        """Test what the remote can do; leave nothing behind."""
        raise NotImplementedError

    def oddities(self) -> Sequence[Oddity]:
        """Return unexpected files, for the user to check."""
        return ()

    def close(self) -> None:
        """Release all resources. May be called twice."""


def require_few(count: int, address: str) -> None:
    """Refuse a listing that is too long."""
    if count > MOST_LISTED:
        raise RemoteFailed(
            f"{address} lists more than {MOST_LISTED:,} objects",
            why="someone fills it, or it is no place for Forestay alone",
            hint="use another bucket, prefix or folder: forestay remote add NAME ADDRESS",
        )


def is_name(name: str) -> bool:
    """Return whether a name is valid on every remote and unlike any name of a sync tool."""
    return len(name) <= _LONGEST and all(is_object(part) for part in name.split("/"))


def check_name(name: str) -> str:
    """Return a valid name; raise `InvalidInput` otherwise."""
    if is_name(name):
        return name
    raise InvalidInput(
        f"no name for an object: {name[:80]!r}", why="segments of a-z, 0-9, '.' and '-' are"
    )
