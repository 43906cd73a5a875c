"""The store port: the interface of every store, and what each adapter guarantees.

Words. An *entry* is an encoded event to be appended. A *view* is one session at one moment: its
core, its rows, its events. A *plan* is a function that gets a view under the writer lock and
returns a *batch*: everything that is written in one transaction. The store does not interpret
events or cores; only the journal does.

The tables of one machine (`store.machine`) and the functions that check, repair and move a store
(`Maintenance`) are separate interfaces.
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
"""The columns of a listing; the project is a fact of this machine and is not synced."""


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
    """An event in the store, with its arrival number in its session."""

    __slots__ = ("seq",)

    def __init__(self, seq: int, header: bytes, salt: bytes | None, data: bytes | None) -> None:
        # Does not call `Entry.__init__`, for speed: a journal can have tens of thousands of events.
        self.seq = seq
        self.header = header
        self.salt = salt
        self.data = data
        self.key = None


class Head:
    """The last event of the chain that this device writes; stored outside the tables too."""

    __slots__ = ("device", "hash", "n")

    def __init__(self, device: str, n: int, hash: str) -> None:
        self.device = device
        self.n = n
        self.hash = hash


class Batch:
    """Everything that one append writes, in one transaction.

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
    """One session at one moment: repeated reads return the same, whatever others write.

    `remembered` is the last head that this device acknowledged before that moment; it is stored
    outside the tables. If the journal does not contain it, events were lost. `listed_well` is
    False if id, length or listing are damaged: then nothing can be appended.
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
        """Yield events by arrival number, from the one after `after`.

        `newest` reverses the order. With `keyless_only`, yield only events without a key.
        """
        raise NotImplementedError

    def intact(self) -> bool:
        """Return whether events and rows are unchanged since they were written, by a checksum."""
        raise NotImplementedError

    def keeps_content(self) -> bool:
        """Return whether all blobs of the session are unchanged, byte for byte."""
        raise NotImplementedError

    def lost(self) -> list[tuple[str, int, str]]:
        """Return heads (device, n, hash) that were acknowledged on this device and are missing."""
        raise NotImplementedError


class Capabilities:
    """The optional functions that an adapter supports.

    With `files` the journal is in files of the home, which Forestay checks, backs up hourly and
    rebuilds. Otherwise the operator of the database server does that.
    """

    __slots__ = ("files", "search")

    def __init__(self, *, search: bool, files: bool = True) -> None:
        self.search = search
        self.files = files


class Store:
    """The journals of one home. Driver errors are raised as `ForestayError` with their cause.

    `machine` has the tables with facts of this machine; they are opened together with the store,
    because some of them change with an event. `maintenance` is for checks, repair and moves.
    """

    capabilities: Capabilities
    home: str
    shown: str
    """The URL of the store, without a password."""
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

        Return only when the batch would survive a power cut. If the plan raises or returns None,
        nothing is written. A plan is called again if the first attempt was not written, and must
        not write itself. Only one process writes at a time; raise `Busy` if another process holds
        the lock for too long. Raise `NoSession` if the session does not exist and `create` is not
        given; with `create`, the plan gets a view of an existing session, too. Ids are matched
        without regard to case and stored as they were first written.

        `blobs` (SHA-256, bytes) are stored with the batch, until no event names them any more. They
        are not part of the batch, so that they can be compressed before the lock is taken. `change`
        is made in the same transaction, its file work only together with a batch. A batch that
        erases can raise `Busy` as `erase` does, after all of it is done.
        """
        raise NotImplementedError

    def view(self, session: str) -> View:
        """Return a read-only view of the present state of a session, to be used in a `with`.

        Raise `NoSession` if it does not exist. Later writes do not change an open view.
        """
        raise NotImplementedError

    def catalogue(
        self, *, where: dict[str, object] | None = None, limit: int = -1
    ) -> list[dict[str, object]]:
        """Return listings, most recently changed first; forgotten sessions only if asked for.

        `where` compares columns for equality. If `sound` is false, the listing is damaged.
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
        """Return events that contain all these words, or words that begin with them; best first.

        Each is a dict with session, seq, kind and snippet. `text_of` returns (kind, text) of an
        event to index, else None; first the index is updated with it. If the store is read-only,
        events that are not indexed yet are searched in memory.
        """
        raise NotImplementedError

    def blob(self, digest: str) -> bytes | None:
        """Return the bytes stored under a SHA-256, checked against it; None if there are none."""
        raise NotImplementedError

    def erase(self, session: str, plan: Callable[[View], Batch]) -> None:
        """Append the batch, then erase content, salt, rows, blobs and search text permanently.

        All of it is one transaction. Raise `NoSession` if the session does not exist. Raise `Busy`
        after everything is erased, if a reader still uses old pages of the files: the first write
        after that removes them.
        """
        raise NotImplementedError

    def watch(self, session: str, after: int, timeout: float) -> bool:
        """Wait until the session has an event after `after`; return False on timeout.

        The session need not exist yet.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Close every connection and file. Can be called twice."""
        raise NotImplementedError


def no_such_session(session: str) -> NoSession:
    return NoSession(f"there is no session {session}", hint="forestay list --all", session=session)


def listings(rows: Sequence[tuple[Any, ...]]) -> list[dict[str, object]]:
    return [
        {**dict(zip(LISTED, line, strict=True)), "sound": sum_of_line(line[:-1]) == line_sum}
        for line_sum, *line in rows
    ]


def sum_of_line(line: Sequence[object]) -> int:
    """Return the CRC-32 of a listing without its project, which detects damage."""
    return zlib.crc32(repr(tuple(line)).encode())


class Repaired:
    """The result of a repair: what was done or lost, and which sessions must be folded again.

    `strays` are events whose arrival numbers belong to other events; after the journal has merged
    them, a second repair removes the duplicates.
    """

    __slots__ = ("done", "lost", "stale", "strays")

    def __init__(self) -> None:
        self.done: list[str] = []
        self.lost: list[str] = []
        self.stale: list[str] = []
        self.strays: dict[str, list[Stored]] = {}


class Maintenance:
    """The interface to check, repair and move a store. Every call can be repeated."""

    def remembered(self) -> list[tuple[str, Head]]:
        """Return the sessions and heads that this device acknowledged, stored outside the tables.

        Heads that were recorded as lost are included.
        """
        raise NotImplementedError

    def note_lost(self, session: str, head: Head) -> None:
        """Record that a head was acknowledged and is missing now; durable when this returns."""
        raise NotImplementedError

    def check(self) -> list[str]:
        """Return the defects that the database itself reports in its files."""
        raise NotImplementedError

    def remarks(self) -> list[Finding]:
        """Return findings about the database server, such as an unsafe setting."""
        return []

    def flaws(self) -> list[Finding]:
        """Return missing or changed tables and rows, in files that are not damaged."""
        raise NotImplementedError

    def repair(self) -> Repaired:
        """Repair the flaws that can be repaired, in one transaction; events are never changed."""
        raise NotImplementedError

    def seal(self, other: str, word: str) -> None:
        """Close this store to all programs except the command that moves it; durable on return.

        `other` is the URL of the second store of the move. If `word` is "moving" or "moved", this
        store was moved to `other`: wait for a running write; later ones are refused. If it is
        "filling", the sessions of `other` are being copied into this store.
        """
        raise NotImplementedError

    def unseal(self) -> None:
        """Open the store to all programs again; do nothing if it is not sealed."""
        raise NotImplementedError

    def sealed(self) -> tuple[str, str] | None:
        """Return `other` and `word` as given to `seal`; None if the store is not sealed."""
        raise NotImplementedError


def moved(here: str, seal: tuple[str, str]) -> Refused:
    """Return the error for any use of a sealed store."""
    other, word = seal
    what, hint = {
        "moved": (
            f"the sessions in {here} were moved to {other}",
            f"to use them there: forestay config store '{other}'; "
            "to use the old store again: forestay backup move --unseal",
        ),
        "filling": (
            f"the sessions of {other} are being moved into {here}",
            f"to finish the move: forestay --store '{other}' backup move --to '{here}'",
        ),
    }.get(
        word,
        (
            f"the sessions in {here} are being moved to {other}",
            f"to finish the move: forestay backup move --to '{other}'; "
            "to cancel it: forestay backup move --unseal",
        ),
    )
    return Refused(what, hint=hint)
