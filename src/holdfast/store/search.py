"""Full-text search over what events say, with an index that is brought up to date when asked.

The index follows the journal: `session.indexed` says how far. Texts are read and parsed in a
view, and only their insertion needs the writer lock. Where nothing can be written, what is not
indexed yet is searched in memory, so that a home that can be read can be searched.
"""

from __future__ import annotations

import sqlite3
from functools import partial

from holdfast.errors import Damaged, HoldfastError, InvalidInput
from holdfast.store.schema import FIND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.store import Stored
    from holdfast.store.sqlite import SqliteStore

    TextOf = Callable[[Stored], "tuple[str, str] | None"]
    Hit = tuple[str, int, str, str]

MOST_WORDS = 64
_BATCH = 2000
_BEHIND = "SELECT number, id, indexed FROM session WHERE indexed < seq AND forgotten = 0 LIMIT ?"
_ADD = "INSERT INTO find (session, seq, kind, text) VALUES (?, ?, ?, ?)"
_FIND = """
    SELECT session, seq, kind, snippet(find, 0, '[', ']', '…', 12) FROM find
    WHERE find MATCH ? ORDER BY rank, session, seq LIMIT ?
"""


class Unread:
    """What the index has not seen of one session, up to where a batch reaches."""

    __slots__ = ("after", "number", "reached", "texts")

    def __init__(self, number: int, after: int) -> None:
        self.number = number
        self.after = self.reached = after
        self.texts: list[Hit] = []


def search(store: SqliteStore, words: str, text_of: TextOf, limit: int) -> list[Hit]:
    query = _query(words)
    if not query:
        return []
    try:
        while unread := _unread(store, text_of, _BATCH):
            store.write(partial(_index, unread))
        waiting: list[Hit] = []
    except Damaged:
        raise
    except HoldfastError:
        waiting = _in_memory(_unread(store, text_of, -1), query, limit)
    found: list[Hit] = [*waiting, *store.read(_FIND, (query, limit))]
    return found if limit < 0 else found[:limit]


def _query(words: str) -> str:
    """All words, each as the beginning of one; nothing in them is an operator."""
    clean = words.replace("\0", " ").encode("utf-8", "replace").decode()
    wanted = list(dict.fromkeys(clean.split()))
    if len(wanted) > MOST_WORDS:
        raise InvalidInput(f"{len(wanted)} words to search for; at most {MOST_WORDS}")
    return " ".join('"' + word.replace('"', '""') + '"*' for word in wanted)


def _unread(store: SqliteStore, text_of: TextOf, most: int) -> list[Unread]:
    """What is behind, as far as `most` events reach; a negative number is all."""
    found: list[Unread] = []
    for number, session, indexed in store.read(_BEHIND, (most,)):
        part = Unread(number, indexed)
        with store.view(session) as view:
            events = list(view.events(after=indexed, limit=most))
            # Where events are missing the index still gets to the end.
            part.reached = events[-1].seq if len(events) == most else view.seq
        for stored in events:
            part.texts += _hits(session, stored, text_of)
        found.append(part)
        most -= len(events) if most >= 0 else 0
        if most == 0:
            break
    return found


def _hits(session: str, stored: Stored, text_of: TextOf) -> list[Hit]:
    try:
        found = text_of(stored)
    except Damaged:
        return []  # verification speaks of it; the rest must still be found
    return [(session, stored.seq, *found)] if found else []


def _index(unread: list[Unread], connection: sqlite3.Connection) -> None:
    for part in unread:
        moved = connection.execute(
            "UPDATE session SET indexed = ? WHERE number = ? AND indexed = ? AND forgotten = 0",
            (part.reached, part.number, part.after),
        )
        # Otherwise another process has indexed, or erased, the session meanwhile.
        if moved.rowcount:
            connection.executemany(_ADD, part.texts)


def _in_memory(unread: list[Unread], query: str, limit: int) -> list[Hit]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        connection.execute(FIND)
        for part in unread:
            connection.executemany(_ADD, part.texts)
        return connection.execute(_FIND, (query, limit)).fetchall()
    finally:
        connection.close()
