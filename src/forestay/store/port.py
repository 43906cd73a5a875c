"""The store port: where a device's journals live, and what every adapter promises.

Words. An *entry* is a sealed event to be appended. A *view* is one session as it stands at one
moment: its core, its rows, its events. A *plan* is a function that gets a view under the
writer lock and returns a *batch*: everything that must become true together. The store
never reads inside an event or a core; only the journal interprets them.

What is true of one machine is not part of the port (`store.machine`), nor is what checks, repairs
and moves a store (`store.maintenance`).
"""

from __future__ import annotations

import zlib

from forestay.errors import NoSession, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, Self

    from forestay.base.findings import Finding
    from forestay.store.machine.machine import Machine, MachineChange

    Plan = Callable[["View"], "Batch | None"]

SHOWN = ("status", "goal", "archived", "forgotten", "began", "updated", "summary")
LISTED = ("id", "seq", *SHOWN, "project")
"""The columns of a listing; the project is true of this machine only."""


class Entry:
    """An event to append. `key` is its id if it must be found by that id later."""

    __slots__ = ("data", "header", "key", "salt")

    def __init__(
        self, header: bytes, salt: bytes | None, data: bytes | None, key: str | None = None
    ) -> None:
        self.header = header
        self.salt = salt
        self.data = data
        self.key = key


class Stored(Entry):
    """An event as it lies in the store, with its arrival number in its session."""

    __slots__ = ("seq",)

    def __init__(self, seq: int, header: bytes, salt: bytes | None, data: bytes | None) -> None:
        # Not by the other `__init__`: journals are read by tens of thousands.
        self.seq = seq
        self.header = header
        self.salt = salt
        self.data = data
        self.key = None


class Head:
    """The end of the chain this device writes for a session, stored outside the tables too."""

    __slots__ = ("device", "hash", "n")

    def __init__(self, device: str, n: int, hash: str) -> None:
        self.device = device
        self.n = n
        self.hash = hash


class Batch:
    """What one append makes true, all of it or nothing.

    `rows` are (table, key, open, rank, value); with `fresh_rows` they replace all rows of the
    session. `listing` is what the catalogue shows. `head` is this device's new chain end.
    With `resum` the sum that proves the events intact is computed again. `erased` are arrival
    numbers of events that lose data and salt permanently, so that no byte of them is left. Blobs
    that no event names any more are erased with them; an empty list erases only such blobs.
    `filled` are (arrival number, salt, data) of events that were stored without their content
    and get it now. `device` is a new device id; `lost` are heads (device, n, hash) that were
    acknowledged once and are missing now.
    """

    def __init__(
        self,
        *,
        entries: Sequence[Entry],
        core: bytes,
        fold: int,
        rows: Sequence[tuple[str, str, bool, int, bytes]],
        listing: dict[str, object],
        head: Head | None = None,
        fresh_rows: bool = False,
        resum: bool = False,
        device: str | None = None,
        lost: Sequence[tuple[str, int, str]] = (),
        erased: Sequence[int] | None = None,
        filled: Sequence[tuple[int, bytes, bytes]] = (),
    ) -> None:
        self.entries, self.core, self.fold, self.rows = entries, core, fold, rows
        self.listing, self.head, self.fresh_rows, self.resum = listing, head, fresh_rows, resum
        self.device, self.lost, self.erased, self.filled = device, lost, erased, filled


class View:
    """One session at one moment. Reads may be repeated and always return the same.

    `remembered` is the last head this device acknowledged before that moment, as it is stored
    outside the tables: if the journal does not contain it, something was lost. `listed_well` is
    false if id, length or listing were damaged: then nothing may be appended.
    """

    session: str
    exists: bool
    listed_well: bool
    seq: int
    core: bytes
    fold: int
    device: str
    remembered: Head | None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the view; it must not be used afterwards."""

    def listing(self) -> dict[str, object]:
        """Return the listing of the session; `sound` as in `Store.catalogue`."""
        raise NotImplementedError

    def row(self, table: str, key: str) -> bytes | None:
        """Return the value of one row, or None."""
        raise NotImplementedError

    def rows(
        self, table: str, *, open_only: bool = False, newest: bool = False, limit: int = -1
    ) -> list[bytes]:
        """Return the values of a table by rank, then key; `newest` reverses the order.

        A negative limit returns all of them.
        """
        raise NotImplementedError

    def all_rows(self) -> list[tuple[str, str, bool, int, bytes]]:
        """Return every row of the session, in any order, for verification."""
        raise NotImplementedError

    def find(self, key: str) -> Stored | None:
        """Return the first event that was appended under this key, or None."""
        raise NotImplementedError

    def has_any(self, keys: Sequence[str]) -> bool:
        """Return whether an event was appended under one of these keys."""
        raise NotImplementedError

    def events(
        self,
        *,
        after: int = 0,
        limit: int = -1,
        newest: bool = False,
        keyless_only: bool = False,
    ) -> Iterator[Stored]:
        """Iterate over events by arrival number, from the one after `after`.

        `newest` reverses the order. With `keyless_only`, only those appended without a key.
        """
        raise NotImplementedError

    def intact(self) -> bool:
        """Return whether events and rows are as they were written: one quick checksum."""
        raise NotImplementedError

    def keeps_content(self) -> bool:
        """Return whether the blobs of the session are, byte for byte, as they were written."""
        raise NotImplementedError

    def lost(self) -> list[tuple[str, int, str]]:
        """Return heads (device, n, hash) that were acknowledged here once and then were missing."""
        raise NotImplementedError


class Capabilities:
    """What an adapter can do beyond the contract; the rest is not done at all.

    With `files` the journal lies in files of the home, which are checked, backed up hourly and
    rebuilt here. Otherwise that is the business of a server.
    """

    __slots__ = ("files", "search")

    def __init__(self, *, search: bool, files: bool = True) -> None:
        self.search = search
        self.files = files


class Store:
    """The journals of one home. Driver errors leave it only as `ForestayError`, cause included.

    `machine` has the tables that are true of this machine only; they are opened together with the
    store, because some of them change with an event. `maintenance` is for checks, repair and moves.
    """

    capabilities: Capabilities
    home: str
    shown: str
    """Where it is, as a URL without a password."""
    machine: Machine
    maintenance: Maintenance

    def append(
        self,
        session: str,
        plan: Plan,
        *,
        create: bool = False,
        blobs: Sequence[tuple[str, bytes]] = (),
        change: MachineChange | None = None,
    ) -> None:
        """Run `plan` under the writer lock and make its batch durable, atomically.

        Returns only when the batch would survive a power cut. When the plan raises or returns
        None, nothing is written. A plan may be called again when the first try was not written,
        and must not write itself. Writers are served one at a time; a lock that another process
        holds for too long raises `Busy`. A session that does not exist raises `NoSession` unless
        `create` is given. With `create`, one that exists is simply shown to the plan. Ids are found
        in any case and stored as they were first written.

        `blobs` (SHA-256, bytes) are stored with the batch for as long as an event names them. They
        are given apart from it so that they are compressed before the lock is held. `change` is
        made in the same transaction, its file work only together with a batch. A batch that erases
        may raise `Busy` as `erase` does, after all of it is done.
        """
        raise NotImplementedError

    def view(self, session: str) -> View:
        """Return the session as it is now, read-only, for a `with`.

        Raises `NoSession` if it does not exist. Later writes do not change an open view.
        """
        raise NotImplementedError

    def catalogue(
        self, *, where: dict[str, object] | None = None, limit: int = -1
    ) -> list[dict[str, object]]:
        """Return listings, most recently changed first; forgotten sessions only if asked for.

        `where` compares columns for equality. A listing that is not `sound` was damaged after it
        was written.
        """
        raise NotImplementedError

    def resolve(self, prefix: str) -> list[str]:
        """Return the session id equal to the text, or else those that begin with it, sorted.

        At most 20 are returned; none for an empty text. Forgotten sessions are left out.
        """
        raise NotImplementedError

    def search(
        self,
        words: str,
        *,
        text_of: Callable[[Stored], tuple[str, str] | None],
        limit: int = 20,
    ) -> list[dict[str, object]]:
        """Return events in which all words (or words they begin) occur, best first.

        Each is a dict with session, seq, kind and snippet. `text_of` returns (kind, text) of an
        event worth finding; the index is brought up to date with it first. Where nothing can be
        written, what is not indexed yet is searched in memory.
        """
        raise NotImplementedError

    def blob(self, digest: str) -> bytes | None:
        """Return the bytes stored under a SHA-256, checked against it; None if there are none."""
        raise NotImplementedError

    def erase(self, session: str, plan: Callable[[View], Batch]) -> None:
        """Append the batch, then erase content, salt, rows, blobs and search text permanently.

        All of it is one transaction. Raises `NoSession` if the session does not exist. Raises
        `Busy` after it is erased, if a reader still holds old pages of the files: the first write
        afterwards removes them.
        """
        raise NotImplementedError

    def watch(self, session: str, after: int, timeout: float) -> bool:
        """Wait until the session has an event after `after`; return False on timeout.

        A session that does not exist yet is waited for as well.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Close every connection and file. May be called twice."""
        raise NotImplementedError


def no_such_session(session: str) -> NoSession:
    return NoSession(f"there is no session {session}", hint="forestay list --all", session=session)


def listings(rows: Sequence[tuple[Any, ...]]) -> list[dict[str, object]]:
    return [
        {**dict(zip(LISTED, line, strict=True)), "sound": sum_of_line(line[:-1]) == line_sum}
        for line_sum, *line in rows
    ]


def sum_of_line(line: Sequence[object]) -> int:
    """Return the CRC-32 of a listing without its project, by which a flipped bit is noticed."""
    return zlib.crc32(repr(tuple(line)).encode())


class Repaired:
    """What a repair did, what it could not restore, and which sessions must be folded again.

    `strays` are events of a session whose places are occupied; once the journal has merged them,
    a second repair removes the duplicates.
    """

    __slots__ = ("done", "lost", "stale", "strays")

    def __init__(self) -> None:
        self.done: list[str] = []
        self.lost: list[str] = []
        self.stale: list[str] = []
        self.strays: dict[str, list[Stored]] = {}


class Maintenance:
    """The port for the care of a store. Every call may be repeated."""

    def remembered(self) -> list[tuple[str, Head]]:
        """Return every session and chain end that was acknowledged here, stored outside the tables.

        Those that were noted as lost are included.
        """
        raise NotImplementedError

    def note_lost(self, session: str, head: Head) -> None:
        """Record that a head was acknowledged once and is missing now; durable on return."""
        raise NotImplementedError

    def check(self) -> list[str]:
        """Return what the database itself finds wrong with its files."""
        raise NotImplementedError

    def remarks(self) -> list[Finding]:
        """Return what can be seen of a server."""
        return []

    def flaws(self) -> list[Finding]:
        """Return what is missing from the tables or altered in them, in files that are sound."""
        raise NotImplementedError

    def repair(self) -> Repaired:
        """Repair the flaws that can be repaired, in one transaction; events are never touched."""
        raise NotImplementedError

    def seal(self, other: str, word: str) -> None:
        """Lock everybody out of this store except the command that moves it; durable on return.

        `word` is "moving" or "moved" to the other store: nothing can be written any more, and a
        write in progress is waited for. Or it is "filling" from the other, which writes to it.
        """
        raise NotImplementedError

    def unseal(self) -> None:
        """Open the store again; nothing changes if it is not sealed."""
        raise NotImplementedError

    def sealed(self) -> tuple[str, str] | None:
        """Return the other store and the word that `seal` was given; None while it is open."""
        raise NotImplementedError


def moved(here: str, seal: tuple[str, str]) -> Refused:
    """Return the error for any use of a sealed store."""
    other, word = seal
    what, hint = {
        "moved": (
            f"what was kept in {here} has moved to {other}",
            f"use it there: forestay config store '{other}'; "
            "use this one again: forestay backup move --unseal",
        ),
        "filling": (
            f"{here} is being filled from {other}",
            f"finish that: forestay --store '{other}' move --to '{here}'",
        ),
    }.get(
        word,
        (
            f"what was kept in {here} is being moved to {other}",
            f"finish that: forestay backup move --to '{other}'; "
            "or stay: forestay backup move --unseal",
        ),
    )
    return Refused(what, hint=hint)
