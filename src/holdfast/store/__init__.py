"""The store port: where a device's journals live, and what every adapter promises.

Words. An *entry* is a sealed event on its way in. A *view* is one session as it stands at one
moment: its core, its rows, its events. A *plan* is a function that is given a view under the
writer lock and answers with a *batch*: everything that must become true together. The store
never looks inside an event or a core; what they mean is the journal's business.

`open_store` is the only place where a URL meets a class.
"""

from __future__ import annotations

import zlib

from holdfast.errors import InvalidInput, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from holdfast.clock import Clock
    from holdfast.store.bound import Bound
    from holdfast.store.local import Local
    from holdfast.store.postgres import PostgresStore
    from holdfast.store.remotes import Remotes
    from holdfast.store.runs import Change, Runs
    from holdfast.store.sqlite import SqliteStore

    Machine = str | Callable[[], str]
    Along = Callable[["View", sqlite3.Connection], None]


SHOWN = ("status", "goal", "archived", "forgotten", "began", "updated", "summary")
LISTED = ("id", "seq", *SHOWN, "project")
"""What a line of the catalogue shows; which project it is in is true of this machine only."""


class Entry:
    """An event to append. `key` is its id when a later look must find it again by that id."""

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
    """The end of the chain this device writes for a session, kept outside the tables too."""

    __slots__ = ("device", "hash", "n")

    def __init__(self, device: str, n: int, hash: str) -> None:
        self.device = device
        self.n = n
        self.hash = hash


class Batch:
    """What one append makes true, all of it or nothing.

    `rows` are (table, key, open, rank, value); with `fresh_rows` they replace all rows of the
    session. `listing` is what the catalogue shows. `head` is this device's new chain end.
    With `resum` the sum over all events, which says whether they are intact, is made anew.
    `erased` are arrival numbers of events that lose data and salt for good, in no byte to be found
    again, and with them what is kept beside events that no event names any more; where the list
    is there and empty, only the latter. `filled` are (arrival number, salt, data) of events that
    were held without their content, and have it from now on.
    """

    __slots__ = (
        "core",
        "device",
        "entries",
        "erased",
        "filled",
        "fold",
        "fresh_rows",
        "head",
        "listing",
        "lost",
        "resum",
        "rows",
    )

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
        self.filled = filled
        self.entries = entries
        self.core = core
        self.fold = fold
        self.rows = rows
        self.listing = listing
        self.head = head
        self.fresh_rows = fresh_rows
        self.resum = resum
        self.device = device
        self.lost = lost
        self.erased = erased


class Spot:
    """A tree of this machine, as found now: where it is and which project it belongs to.

    `project` is 0 where none is known yet: then one is made with `id` and `name`.
    """

    __slots__ = ("id", "inode", "keys", "name", "path", "project")

    def __init__(
        self,
        path: str,
        inode: str,
        project: int,
        *,
        id: str = "",
        name: str = "",
        keys: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.path = path
        self.inode = inode
        self.project = project
        self.id = id
        self.name = name
        self.keys = keys


class View:
    """One session at one moment. Reads may be repeated and always answer the same.

    `remembered` is the last head this device acknowledged before that moment, as it is kept
    outside the tables: if the journal does not hold it, something was lost. `listed_well` tells
    whether id, length and what is listed are as they were written: on others nothing is built.
    """

    session: str
    exists: bool
    listed_well: bool
    seq: int
    core: bytes
    fold: int
    device: str
    remembered: Head | None

    def __enter__(self) -> View:
        return self

    def __exit__(self, *_: object) -> None:
        """End the moment; the view must not be used after this."""

    def listing(self) -> dict[str, object]:
        """What the catalogue shows of the session; `sound` as in `Store.catalogue`."""
        raise NotImplementedError

    def row(self, table: str, key: str) -> bytes | None:
        """The value of one row, or None."""
        raise NotImplementedError

    def rows(
        self, table: str, *, open_only: bool = False, newest: bool = False, limit: int = -1
    ) -> list[bytes]:
        """Values of a table by rank, then key; `newest` turns the order round.

        A negative limit is all of them.
        """
        raise NotImplementedError

    def all_rows(self) -> list[tuple[str, str, bool, int, bytes]]:
        """Every row of the session, for verification."""
        raise NotImplementedError

    def find(self, key: str) -> Stored | None:
        """The event that was appended under this key, or None."""
        raise NotImplementedError

    def has_any(self, keys: Sequence[str]) -> bool:
        """Whether an event was appended under one of these keys."""
        raise NotImplementedError

    def keyless(self) -> Iterator[Stored]:
        """The events that were appended without a key, by arrival number."""
        raise NotImplementedError

    def events(self, *, after: int = 0, limit: int = -1, newest: bool = False) -> Iterator[Stored]:
        """Events by arrival number, from the one after `after`; `newest` reads backwards."""
        raise NotImplementedError

    def intact(self) -> bool:
        """Whether the events are, byte for byte, those that were appended: one quick sum."""
        raise NotImplementedError

    def keeps_content(self) -> bool:
        """Whether all content kept with the session is there, byte for byte: one quick sum."""
        raise NotImplementedError

    def lost(self) -> list[tuple[str, int, str]]:
        """Heads (device, n, hash) that were once acknowledged here and then were not there."""
        raise NotImplementedError


class Flaw:
    """Something about the tables that is not as it should be.

    What is `mendable` can be made anew from the rest; what `blocks` keeps others from looking.
    """

    __slots__ = ("blocks", "mendable", "what")

    def __init__(self, what: str, *, mendable: bool = True, blocks: bool = False) -> None:
        self.what = what
        self.mendable = mendable
        self.blocks = blocks


class Repaired:
    """What a repair did, what it could not bring back, and which sessions must be folded anew.

    `strays` are events of sessions that are listed with others: merged, a second repair ends it.
    """

    __slots__ = ("done", "lost", "stale", "strays")

    def __init__(self) -> None:
        self.done: list[str] = []
        self.lost: list[str] = []
        self.stale: list[str] = []
        self.strays: dict[str, list[Stored]] = {}


class Capabilities:
    """What an adapter can do beyond the contract; the rest is done by polling or not at all.

    With `files` the journal lies in files of the home: they can be looked at, backed up hourly
    and rebuilt here. Otherwise a server looks after them.
    """

    __slots__ = ("files", "notifies", "search")

    def __init__(self, *, search: bool, notifies: bool, files: bool = True) -> None:
        self.search = search
        self.notifies = notifies
        self.files = files


class Store:
    """The port. Driver errors leave it only as `HoldfastError`, with the cause kept.

    `local` holds what is true of this machine only, `bound` which layout files are ours there,
    `runs` which agents were at work there, `remotes` what its remotes have shown it; `device` is
    the id this home writes under.
    """

    capabilities: Capabilities
    home: str
    shown: str
    """Where it is, as a URL that has no password."""

    @property
    def local(self) -> Local:
        raise NotImplementedError

    @property
    def bound(self) -> Bound:
        raise NotImplementedError

    @property
    def runs(self) -> Runs:
        raise NotImplementedError

    @property
    def remotes(self) -> Remotes:
        raise NotImplementedError

    @property
    def device(self) -> str:
        raise NotImplementedError

    def devices(self) -> set[str]:
        """Every id that this home ever wrote under: whatever bears one is its own."""
        raise NotImplementedError

    def secret(self) -> bytes:
        """The secret of this home that keys prompt fences; it never leaves the home."""
        raise NotImplementedError

    def remembered(self) -> list[tuple[str, Head]]:
        """Every session and chain end that was acknowledged here, kept outside the tables."""
        raise NotImplementedError

    def append(
        self,
        session: str,
        plan: Callable[[View], Batch | None],
        *,
        create: bool = False,
        blobs: Sequence[tuple[str, bytes]] = (),
        spot: Spot | None = None,
        chores: Sequence[str] = (),
        change: Change | None = None,
        along: Along | None = None,
    ) -> None:
        """Run `plan` under the writer lock and make its batch durable, atomically.

        Returns only when the batch would survive a power cut. When the plan raises or answers
        None nothing is written. Writers are served one at a time; a lock that stays taken raises
        `Busy`. A session that is not there raises `NoSession` unless `create` is given, and with
        `create` one that is there is simply shown to the plan. Ids are found in any case and
        kept as they were first written. `blobs` (SHA-256, bytes) are kept with the batch for as
        long as an event names them; they
        are given apart from it so that the lock need not be held while they are packed. With `spot`
        the session becomes the current one of that tree in the same transaction, also when the
        plan answers None. `chores` are what must be done to files because of the batch: they are
        remembered with it, until `local.chore_done`. A `change` of the runs becomes true in the
        same transaction, also when the plan answers None. `along` sees the session with the batch
        and adds to the transaction; only a store with `files` calls it. A batch that erases may
        raise `Busy` like `erase`, when all of it is done.
        """
        raise NotImplementedError

    def view(self, session: str) -> View:
        """The session as it is now, read-only, in a `with`. Raises `NoSession` if not there."""
        raise NotImplementedError

    def catalogue(
        self, *, where: dict[str, object] | None = None, limit: int = -1
    ) -> list[dict[str, object]]:
        """Listings, most recently changed first. `where` compares columns for equality.

        A listing that is not `sound` is not as it was written, whatever it shows.
        """
        raise NotImplementedError

    def resolve(self, prefix: str) -> list[str]:
        """Session ids that are equal to, or else begin with, the text; none for an empty one."""
        raise NotImplementedError

    def search(
        self,
        words: str,
        *,
        text_of: Callable[[Stored], tuple[str, str] | None],
        limit: int = 20,
    ) -> list[dict[str, object]]:
        """Places where all words (or words they begin) occur: session, seq, kind, snippet.

        `text_of` gives (kind, text) of an event worth finding; the index is brought up to date
        with it first.
        """
        raise NotImplementedError

    def blob(self, digest: str) -> bytes | None:
        """The bytes kept under a SHA-256, checked against it, or None."""
        raise NotImplementedError

    def erase(self, session: str, plan: Callable[[View], Batch]) -> None:
        """Append the batch, then erase content, salt, rows, blobs and search text for good.

        Raises `Busy` when it is erased, but a reader still keeps old pages in the files; they go
        with the first write after that.
        """
        raise NotImplementedError

    def note_lost(self, session: str, head: Head) -> None:
        """Keep that a head was acknowledged once and is not there, so that nobody forgets it."""
        raise NotImplementedError

    def watch(self, session: str, after: int, timeout: float) -> bool:
        """Wait until the session has an event beyond `after`; False when time ran out."""
        raise NotImplementedError

    def check(self) -> list[str]:
        """What the database itself finds wrong with its files; empty when all is well."""
        raise NotImplementedError

    def remarks(self) -> list[tuple[str, str, str, str]]:
        """What a store without files here says of where it is: severity, what, why, what helps."""
        return []

    def flaws(self) -> list[Flaw]:
        """What is missing from the tables, or altered in them, though the files are sound."""
        raise NotImplementedError

    def repair(self) -> Repaired:
        """Mend the flaws that are mendable, in one transaction; events are never touched."""
        raise NotImplementedError

    def seal(self, other: str, word: str) -> None:
        """Let nobody work with this store but who moves it; durable when it returns.

        It is "moving" or has "moved" to the other: nothing can be written any more, and who is in
        the middle of that is waited for. Or it is "filling" from the other, which writes to it.
        """
        raise NotImplementedError

    def unseal(self) -> None:
        """Be as any other store again; one that is not sealed stays as it is."""
        raise NotImplementedError

    def sealed(self) -> tuple[str, str] | None:
        """The other store and the word, as `seal` was given them; None while it is open."""
        raise NotImplementedError

    def here(self, sessions: Sequence[str]) -> SqliteStore:
        """The database with what is true of this machine only; it knows of these sessions."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of everything. May be called twice."""
        raise NotImplementedError


def moved(here: str, seal: tuple[str, str]) -> Refused:
    """What whoever asks a sealed store for anything is told."""
    other, word = seal
    what, hint = {
        "moved": (
            f"what was kept in {here} has moved to {other}",
            f"use it there: holdfast config store '{other}'; here again: holdfast move --unseal",
        ),
        "filling": (
            f"{here} is being filled from {other}",
            f"finish that: holdfast --store '{other}' move --to '{here}'",
        ),
    }.get(
        word,
        (
            f"what was kept in {here} is being moved to {other}",
            f"finish that: holdfast move --to '{other}'; or stay: holdfast move --unseal",
        ),
    )
    return Refused(what, hint=hint)


def listings(rows: Sequence[tuple[Any, ...]]) -> list[dict[str, object]]:
    return [
        {**dict(zip(LISTED, line, strict=True)), "sound": sum_of_line(line[:-1]) == line_sum}
        for line_sum, *line in rows
    ]


def sum_of_line(line: Sequence[object]) -> int:
    """A CRC-32 of all that a line shows but the project: a flipped bit in it is seen."""
    return zlib.crc32(repr(tuple(line)).encode())


def open_store(
    url: str,
    home: str,
    *,
    clock: Clock,
    busy_timeout: float = 10.0,
    machine: Machine = "",
    sealed: bool = False,
) -> Store:
    """The store a URL names; an empty URL is the SQLite database in `home`.

    One that was moved elsewhere is refused unless `sealed` ones are meant, too. `machine` tells
    this machine from others, so that a copied database is noticed; a function is asked only when
    something is written.
    """
    if url.startswith(("postgresql:", "postgres:")):
        made = _postgres()(url, home, clock=clock, busy_timeout=busy_timeout, machine=machine)
        made.opens_sealed = sealed
        return made
    if url and not url.startswith("sqlite:"):
        raise InvalidInput(
            f"no store is known for {url.split(':', 1)[0]}:",
            why="sessions are kept in SQLite or PostgreSQL",
            hint="leave the store setting empty, or use sqlite:PATH or postgresql://HOST/DATABASE",
        )
    from holdfast.store.sqlite import SqliteStore

    path = url.removeprefix("sqlite:").removeprefix("//")
    store = SqliteStore(path or home, clock=clock, busy_timeout=busy_timeout, machine=machine)
    seal = None if sealed else store.sealed()
    if seal is not None:
        raise moved(store.shown, seal)
    return store


def _postgres() -> type[PostgresStore]:
    try:
        from holdfast.store.postgres import PostgresStore
    except ModuleNotFoundError as error:
        if error.name != "psycopg":
            raise
        raise InvalidInput(
            "the driver for PostgreSQL is not installed",
            hint="pip install 'holdfast[postgres]'",
        ) from error
    return PostgresStore
