"""Which sessions use which blobs: the content that is stored outside their events.

The table `blob_use` is an index that is derived from the events. During a repair, and before
content is erased, the table is compared with the events. All digests are bytes here, because a
damaged digest may not be valid text.
"""

from __future__ import annotations

from forestay.errors import Damaged
from forestay.store.sqlite.schema import SHIFT

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable

    from forestay.store.sqlite.connection import Read

    Use = tuple[bytes, int]

_STORED = "SELECT DISTINCT CAST(digest AS BLOB) FROM blob"
_USES = "SELECT CAST(digest AS BLOB), session FROM blob_use"
_NEXT = """
    SELECT position, CAST(data AS BLOB) FROM event
    WHERE position > ? AND data IS NOT NULL ORDER BY position LIMIT 1000
"""
_HEADER = "SELECT CAST(header AS BLOB) FROM event WHERE position = ?"
_ADD = "INSERT OR IGNORE INTO blob_use VALUES (CAST(? AS TEXT), ?)"
_DROP = "DELETE FROM blob_use WHERE CAST(digest AS BLOB) = ? AND session = ?"


def wrong(run: Read, is_intact: Callable[[int], bool]) -> tuple[set[Use], set[Use]]:
    """Return the rows that the table `blob_use` lacks, and its rows that no event explains.

    A damaged event may have named any content, so all rows of its session count as correct.
    """
    kept, there = {digest for (digest,) in run(_STORED)}, set(run(_USES))
    if not kept and not there:
        return set(), set()
    true = _of_events(run, kept | {digest for digest, _ in there})
    doubtful = {number for _, number in there - true if not is_intact(number)}
    missing = {use for use in true - there if use[0] in kept}
    return missing, {use for use in there - true if use[1] not in doubtful}


def mend(connection: sqlite3.Connection, is_intact: Callable[[int], bool]) -> int:
    """Correct the table `blob_use` by the events; return how many rows were wrong."""
    missing, surplus = wrong(connection.execute, is_intact)
    connection.executemany(_ADD, sorted(missing))
    connection.executemany(_DROP, sorted(surplus))
    return len(missing) + len(surplus)


def _of_events(run: Read, wanted: set[bytes]) -> set[Use]:
    from forestay.model.blob_refs import may_name

    found: set[Use] = set()
    last = 0
    while rows := list(run(_NEXT, (last,))):
        for position, data in rows:
            if may_name(data):
                ((header,),) = run(_HEADER, (position,))
                named = wanted.intersection(names(header, data))
                found.update((digest, position >> SHIFT) for digest in named)
        last = rows[-1][0]
    return found


def names(header: bytes, data: bytes) -> Iterable[bytes]:
    """Return the digests of the blobs that an event may name."""
    from forestay.model.blob_refs import blob_names, digests_in
    from forestay.model.event import Sealed

    try:
        return [name.encode() for name in blob_names(Sealed(header, None, data))]
    except Damaged:
        return digests_in(data)  # an event of an unknown kind may use any digest in its data
