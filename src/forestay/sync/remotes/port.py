"""The remote port: the contract of every adapter that stores sealed objects.

A remote is a flat set of immutable objects. Names are ASCII, of segments `[a-z0-9.-]+` joined
by `/`. Nothing is ever overwritten. Contents are encrypted before they are stored. No name is a
folder of another name.

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
"""The object that marks a remote. If it was there once, a remote without it is an error."""

MOST = 96 << 20
"""The size limit of an object in bytes; a larger one is not read.

A pack is small, or has a single event with its content.
"""
MOST_LISTED = 1_000_000
"""How many objects a remote can have; a longer listing is refused."""

_LONGEST = 512


class Object(NamedTuple):
    """One object as the remote lists it."""

    name: str
    size: int


class Oddity(NamedTuple):
    """A file on a remote that is not an object, and what it seems to be.

    `kind`: `copy` (same bytes as the object `of`), `differs` (a copy with other bytes), `stand-in`
    (a copy that is read because `of` is missing), `placeholder`, `partial`, `link`.
    """

    place: str
    kind: str
    of: str = ""


class Probe(NamedTuple):
    """The result of testing a remote.

    `conditional`: a write under an existing name is refused. `lists`: written objects appear in
    listings at once. If one of the two is False, `why` is what was observed, and every write is
    read back.
    """

    conditional: bool
    lists: bool
    why: str = ""


class Remote:
    """The interface of all remotes. They raise only `RemoteFailed`, without any credential in it.

    Any number of threads can use one remote at the same time.
    """

    address: str
    """The address of the remote, without credentials."""

    backend: str
    """`folder` or `s3`."""

    steps = 0
    """A counter that increases with each step of a long operation."""

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
        """Release all resources. Can be called twice."""


def require_few(count: int, address: str) -> None:
    """Raise `RemoteFailed` if a listing is too long."""
    if count > MOST_LISTED:
        raise RemoteFailed(
            f"{address} lists more than {MOST_LISTED:,} objects",
            why="someone uploads files to fill it, or other programs use it too",
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
        f"not a valid object name: {name[:80]!r}",
        why="names have parts of a-z, 0-9, '.' and '-', joined by '/'",
    )
