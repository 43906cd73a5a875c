"""Finds and repairs what is missing from a database, or altered in it.

The events are the truth and are never touched here. Tables and indexes are compared with those
of a fresh database; the few values that every process relies on, and each row of the
catalogue, with what they must look like. Machine tables are restored as far as other tables
still contain their data. All of it happens in one transaction. What is derived from the events of a
session is the journal's business: `Repaired.stale` lists those sessions.

A database without events, or with an altered table of events or blobs, cannot be repaired this way:
then only a rebuild helps.
"""

from __future__ import annotations

import os
import re
import sqlite3
from functools import cache, partial

from forestay.base.clock import Clock, short_id
from forestay.store import blob_uses
from forestay.store.port import Repaired
from forestay.store.sqlite import catalogue_repair, search
from forestay.store.sqlite.schema import FORMAT, MIN_WRITER, migrate
from forestay.store.sqlite.view import is_intact, unsound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from forestay.base.findings import Finding
    from forestay.store.sqlite.connection import Read

    Frame = dict[str, tuple[str, str]]

_SHADOW = "find_"
_NUMBER = re.compile("[0-9]{1,9}")
_DEVICE = re.compile("[0-9A-Za-z._-]{1,16}")
_SECRET = re.compile("[0-9a-f]{64}")
_META = {"format": _NUMBER, "min_writer": _NUMBER, "device": _DEVICE, "secret": _SECRET}


def is_good(key: str, value: object) -> bool:
    """Return whether a value of `meta` may have been written by this or a newer version."""
    return isinstance(value, str) and _META[key].fullmatch(value) is not None


@cache
def _frame() -> Frame:
    """Return name → (type, SQL) of everything that a fresh database has, in order."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        migrate(connection, 0)
        return {name: (kind, sql) for kind, name, sql in _objects(connection.execute)}
    finally:
        connection.close()


def _objects(execute: Callable[[str], Any]) -> Iterator[tuple[str, str, str]]:
    for kind, name, sql in execute("SELECT type, name, sql FROM sqlite_schema ORDER BY rowid"):
        if sql and not str(name).startswith(_SHADOW):
            yield str(kind), str(name), str(sql)


def table_flaw(what: str, *, fixable: bool = True, code: str = "tables") -> Finding:
    """Return a finding about a table or an index, which may hide other findings."""
    from forestay.base.findings import Finding  # start-up

    return Finding(code, "error", what, fixable=fixable)


def row_flaw(what: str, *, fixable: bool = True) -> Finding:
    """Return a finding about the content of a table."""
    return table_flaw(what, fixable=fixable, code="line")


# -- looking -----------------------------------------------------------------------------------


def find_flaws(read: Read) -> list[Finding]:
    """Return what is missing from the tables or altered in them."""
    there = {name: (kind, sql) for kind, name, sql in _objects(read)}
    if not there:
        return []  # there is no database yet
    as_ours = there.get("meta") == _frame()["meta"]
    meta: dict[str, Any] = dict(read("SELECT key, value FROM meta")) if as_ours else {}
    if any(
        is_good(key, meta.get(key)) and int(meta[key]) > FORMAT for key in ("format", "min_writer")
    ):
        return []  # a newer version knows what its tables look like
    frame = _frame()
    found = [
        *_missing(there, frame),
        *_altered(there, frame),
        *_foreign(there, frame),
        *_search(read),
    ]
    if as_ours:
        found += _values(meta)
    if not found:
        found += [row_flaw(f"what is listed of session {id} is damaged") for _, id in unsound(read)]
        found += [
            row_flaw(f"the events of session {n} are not listed")
            for n in catalogue_repair.orphans(read)
        ]
        found += _wrong_uses(read)
        if not search.is_sound(read):
            found.append(table_flaw("the search index is not as it was written"))
    return found


def _missing(there: Frame, frame: Frame) -> Iterator[Finding]:
    for name, (kind, sql) in frame.items():
        table = sql.partition(" ON ")[2].split(" ")[0] if kind == "index" else name
        if name not in there and (kind != "index" or table in there):
            yield table_flaw(f"the {kind} {name} is missing", fixable=name != "event")


def _altered(there: Frame, frame: Frame) -> Iterator[Finding]:
    for name, (kind, sql) in there.items():
        if name in frame and (kind, sql) != frame[name]:
            mendable = name not in ("event", "blob")
            yield table_flaw(f"the {kind} {name} has another form", fixable=mendable)


def _foreign(there: Frame, frame: Frame) -> Iterator[Finding]:
    """Yield foreign triggers and indexes, which change what a write does; a table does not."""
    for name, (kind, _) in there.items():
        if name not in frame and kind in ("trigger", "index"):
            yield table_flaw(f"the {kind} {name} is not one of Forestay")


def _values(meta: dict[str, object]) -> Iterator[Finding]:
    for key in _META:
        if key not in meta:
            yield table_flaw(f"the value {key} is missing")
        elif not is_good(key, meta[key]):
            yield table_flaw(f"the value {key} cannot be read")


def _wrong_uses(read: Read) -> Iterator[Finding]:
    missing, surplus = blob_uses.wrong(read, partial(is_intact, read))
    for digest, number in sorted(missing):
        yield row_flaw(f"it is not noted that session {number} uses {_short(digest)}")
    for digest, number in sorted(surplus):
        yield row_flaw(f"it is noted that session {number} uses {_short(digest)}, but it does not")


def _short(digest: bytes) -> str:
    return "content " + digest[:12].decode("ascii", "replace")


def _search(read: Read) -> Iterator[Finding]:
    if list(read("SELECT 1 FROM sqlite_schema WHERE name = 'find'")) and search.missing_parts(read):
        yield table_flaw("a part of the search index is missing")


# -- mending -----------------------------------------------------------------------------------


def repair(connection: sqlite3.Connection, clock: Clock) -> Repaired:
    """Repair every flaw, inside the caller's transaction."""
    done = Repaired()
    made = _recreate(connection, done)
    _restore_values(connection, done)
    if "session" in made:
        search.recreate(connection)
    elif not search.is_sound_inside(connection):
        search.recreate(connection)
        done.done.append("emptied the search index; the next search fills it")
    catalogue_repair.list_again(connection, unsound(connection.execute), done)
    if wrong := blob_uses.mend(connection, partial(is_intact, connection.execute)):
        done.done.append(f"corrected which sessions use stored content ({wrong} row(s))")
    _restore_projects(connection, clock, made)
    if {"session", "row"} & set(made):
        done.stale = [str(id) for (id,) in connection.execute("SELECT id FROM session")]
    done.lost += [words for name, words in _LOST.items() if name in made]
    return done


_LOST = {
    "lost": "which events were known to be missing",
    "tree": "which folder works on which session: forestay session use SESSION",
    "holder": "which processes were at work",
}


def _recreate(connection: sqlite3.Connection, done: Repaired) -> list[str]:
    """Drop what is altered or foreign, create what is missing; return the created tables."""
    for kind, name, sql in list(_objects(connection.execute)):
        ours = _frame().get(name)
        if (ours or kind in ("trigger", "index")) and ours != (kind, sql) and name != "find":
            connection.execute(f'DROP {kind} "{name}"')
            done.done.append(f"removed the {kind} {name}")
    there = {name: (kind, sql) for kind, name, sql in _objects(connection.execute)}
    missing = [(name, *facts) for name, facts in _frame().items() if there.get(name) != facts]
    for name, kind, sql in missing:
        if name == "find":
            search.recreate(connection)  # with what is left of its parts, or has another form
        else:
            connection.execute(sql)
        done.done.append(f"recreated the {kind} {name}")
    return [name for name, kind, _ in missing if kind == "table"]


def _restore_values(connection: sqlite3.Connection, done: Repaired) -> None:
    """Restore `format` and `min_writer`; the next writer chooses the rest."""
    meta = dict(connection.execute("SELECT key, value FROM meta").fetchall())
    bad = [key for key in _META if not is_good(key, meta.get(key))]
    known = {"format": str(FORMAT), "min_writer": str(MIN_WRITER)}
    for key in bad:
        connection.execute("DELETE FROM meta WHERE key = ?", (key,))
        if key in known:
            connection.execute("INSERT INTO meta VALUES (?, ?)", (key, known[key]))
        done.done.append(f"restored the value {key}")


def _restore_projects(connection: sqlite3.Connection, clock: Clock, made: Sequence[str]) -> None:
    """Restore projects as far as trees and sessions still refer to them."""
    if "session" in made:
        connection.execute(
            "UPDATE session SET project ="
            " (SELECT project FROM tree WHERE tree.session = session.number LIMIT 1)"
        )
    if "project" in made:
        # Their numbers are still in use, and must not be given to others.
        known = "SELECT project FROM tree UNION SELECT project FROM session"
        paths = dict(connection.execute("SELECT project, path FROM tree").fetchall())
        numbers = [n for (n,) in connection.execute(known).fetchall() if n is not None]
        for number in numbers:
            name = os.path.basename(str(paths.get(number, "")))
            connection.execute(
                "INSERT INTO project VALUES (?, ?, ?)", (number, short_id(clock), name)
            )
    if "project_key" in made:
        connection.execute("INSERT INTO project_key SELECT 'path', path, project FROM tree")
