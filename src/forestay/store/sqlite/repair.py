"""Find and repair missing or changed parts of a database.

Events are never changed here. Tables and indexes are compared with those of a new database; the few
values that every process needs, and each row of the catalogue, are checked for validity. Machine
tables are restored if other tables still contain their data. All of it is one transaction. Data
derived from the events of a session is restored by the journal: `Repaired.stale` lists those
sessions.

A database without events, or with an altered table of events or blobs, cannot be repaired this way:
then only a rebuild helps.
"""

from __future__ import annotations

import json
import re
import sqlite3
from functools import cache, partial

from forestay.store import blob_uses
from forestay.store.port import Repaired, Stored
from forestay.store.sqlite import search
from forestay.store.sqlite.schema import FORMAT, MIN_WRITER, SHIFT, migrate
from forestay.store.sqlite.view import is_intact, unsound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
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
    """Return whether a value of `meta` is one that this or a newer version can have written."""
    return isinstance(value, str) and _META[key].fullmatch(value) is not None


@cache
def _frame() -> Frame:
    """Return name → (type, SQL) of every table and index of a new database, in order."""
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
    """Return missing or changed tables and rows."""
    present = {name: (kind, sql) for kind, name, sql in _objects(read)}
    if not present:
        return []  # there is no database yet
    as_ours = present.get("meta") == _frame()["meta"]
    meta: dict[str, Any] = dict(read("SELECT key, value FROM meta")) if as_ours else {}
    if any(
        is_good(key, meta.get(key)) and int(meta[key]) > FORMAT for key in ("format", "min_writer")
    ):
        return []  # a newer version knows what its tables look like
    found = list(_wrong_tables(present))
    if "find" in present and search.missing_parts(read):
        found.append(table_flaw("a part of the search index is missing"))
    for key in _META if as_ours else ():
        if not is_good(key, meta.get(key)):
            word = "cannot be read" if key in meta else "is missing"
            found.append(table_flaw(f"the value {key} {word}"))
    if not found:
        damaged = "the entry of session {} in the list is damaged"
        found += [row_flaw(damaged.format(id)) for _, id in unsound(read)]
        found += [row_flaw(f"the events of session {n} are not listed") for n in _orphans(read)]
        found += _wrong_uses(read)
        if not search.is_sound(read):
            found.append(table_flaw("the search index is damaged"))
    return found


def _wrong_tables(present: Frame) -> Iterator[Finding]:
    """Yield tables and indexes that are missing or changed, and unknown triggers and indexes.

    Unknown triggers and indexes change the effect of a write; an unknown table does not.
    """
    frame = _frame()
    for name, (kind, sql) in frame.items():
        table = sql.partition(" ON ")[2].split(" ")[0] if kind == "index" else name
        if name not in present and (kind != "index" or table in present):
            yield table_flaw(f"the {kind} {name} is missing", fixable=name != "event")
    for name, (kind, sql) in present.items():
        if name in frame and (kind, sql) != frame[name]:
            mendable = name not in ("event", "blob")
            yield table_flaw(f"the {kind} {name} was changed", fixable=mendable)
        elif name not in frame and kind in ("trigger", "index"):
            yield table_flaw(f"the {kind} {name} does not belong to Forestay")


def _wrong_uses(read: Read) -> Iterator[Finding]:
    missing, surplus = blob_uses.wrong(read, partial(is_intact, read))
    for digest, number in sorted(missing | surplus):
        short = digest[:12].decode("ascii", "replace")
        word = "not recorded" if (digest, number) in missing else "wrongly recorded"
        yield row_flaw(f"it is {word} that session {number} uses content {short}")


# -- mending -----------------------------------------------------------------------------------


def repair(connection: sqlite3.Connection) -> Repaired:
    """Repair every flaw, inside the caller's transaction."""
    done = Repaired()
    made = _recreate(connection, done)
    _restore_values(connection, done)
    if "session" in made:
        search.recreate(connection)
    elif not search.is_sound_inside(connection):
        search.recreate(connection)
        done.done.append("emptied the search index; the next search fills it")
    _list_again(connection, unsound(connection.execute), done)
    if wrong := blob_uses.mend(connection, partial(is_intact, connection.execute)):
        done.done.append(f"corrected which sessions use stored content ({wrong} row(s))")
    for name, sql in _RESTORE.items():
        if name in made:
            connection.execute(sql)
    if {"session", "row"} & set(made):
        done.stale = [str(id) for (id,) in connection.execute("SELECT id FROM session")]
    done.lost += [words for name, words in _LOST.items() if name in made]
    return done


# SQL that restores rows that other tables still refer to. Numbers of projects that are in use must
# not be assigned again; the name of a project is that of its folder.
_RESTORE = {
    "session": """
        UPDATE session SET project =
            (SELECT project FROM tree WHERE tree.session = session.number LIMIT 1)
    """,
    "project": """
        INSERT INTO project SELECT project, lower(hex(randomblob(6))), max(name) FROM (
            SELECT project, replace(path, rtrim(path, replace(path, '/', '')), '') AS name FROM tree
            UNION ALL SELECT project, '' FROM session
        ) WHERE project IS NOT NULL GROUP BY project
    """,
    "project_key": "INSERT INTO project_key SELECT 'path', path, project FROM tree",
}
_LOST = {
    "lost": "which events were known to be missing",
    "tree": "which folder works on which session: forestay session use SESSION",
    "holder": "which processes were working on which session",
}


def _recreate(connection: sqlite3.Connection, done: Repaired) -> list[str]:
    """Drop changed and unknown parts, create missing ones; return the created tables."""
    for kind, name, sql in list(_objects(connection.execute)):
        ours = _frame().get(name)
        if (ours or kind in ("trigger", "index")) and ours != (kind, sql) and name != "find":
            connection.execute(f'DROP {kind} "{name}"')
            done.done.append(f"removed the {kind} {name}")
    present = {name: (kind, sql) for kind, name, sql in _objects(connection.execute)}
    missing = [(name, *facts) for name, facts in _frame().items() if present.get(name) != facts]
    for name, kind, sql in missing:
        if name == "find":
            search.recreate(connection)  # also drops remaining or changed parts of the old index
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


# -- the catalogue -----------------------------------------------------------------------------
#
# Events contain the id of their session, and their positions how many they are. A damaged row gets
# both from them, a row that lost its number gets it back, and events without a row get one. Where
# the session is listed already with other events, duplicates are dropped; the others are
# *strays*, which only the journal can merge.

# One seek for each session, however many events there are.
_NUMBERS = f"""
    WITH RECURSIVE next(number) AS (
        SELECT min(position) >> {SHIFT} FROM event
        UNION ALL
        SELECT (
            SELECT min(position) >> {SHIFT} FROM event WHERE position >= (number + 1) << {SHIFT}
        ) FROM next WHERE number IS NOT NULL
    ) SELECT number FROM next WHERE number IS NOT NULL
"""
_LOW = (1 << SHIFT) - 1
_UNDER = f"position > :n << {SHIFT} AND position < (:n + 1) << {SHIFT}"
_FIRST = f"SELECT header FROM event WHERE {_UNDER} ORDER BY position LIMIT 1"
_LAST = f"SELECT max(position) & {_LOW} FROM event WHERE {_UNDER}"
_EVENTS = f"SELECT position, header, salt, data FROM event WHERE {_UNDER} ORDER BY position"
_NAMED = "SELECT number FROM session WHERE id = ? COLLATE NOCASE AND number != ?"
_INSERT = """
    INSERT INTO session (number, id, seq, fold, core, core_sum, status, goal, archived, began,
        updated, summary) VALUES (?, ?, ?, 0, x'', 0, '', '', 0, 0, 0, '')
"""


def _orphans(run: Read) -> list[int]:
    """Return the session numbers of events that belong to no row of the catalogue."""
    known = {row[0] for row in run("SELECT number FROM session")}
    return [number for (number,) in run(_NUMBERS) if number not in known]


def _list_again(
    connection: sqlite3.Connection, unsound: Iterable[tuple[int, str]], done: Repaired
) -> None:
    """Restore a row for every session that has events; `unsound` are damaged rows: number, id."""
    for number, id in unsound:
        _restore_line(connection, number, id, done)
    for number in _orphans(connection.execute):
        _adopt_events(connection, number, done)
    if done.stale:
        done.done.append(f"listed {len(done.stale)} session(s) again, from their events")


def _restore_line(connection: sqlite3.Connection, number: int, id: str, done: Repaired) -> None:
    named, seq = _read_from_events(connection, number)
    if named and _other(connection, named, number):
        connection.execute("DELETE FROM session WHERE number = ?", (number,))
        return  # no row lists its events now; `_list_again` finds them
    facts = {"n": number, "id": named or id, "seq": seq}
    connection.execute(
        "UPDATE session SET id = :id, seq = ifnull(nullif(:seq, 0), seq) WHERE number = :n", facts
    )
    done.stale.append(named or id)


def _adopt_events(connection: sqlite3.Connection, number: int, done: Repaired) -> None:
    named, seq = _read_from_events(connection, number)
    other = _other(connection, named, number)
    if not named:
        return
    if not other:
        connection.execute(_INSERT, (number, named, seq))
    elif not _last(connection, other):
        connection.execute("UPDATE session SET number = ? WHERE number = ?", (number, other))
    else:
        known = {tuple(event) for _, *event in connection.execute(_EVENTS, {"n": other})}
        dropped = 0
        for position, *event in connection.execute(_EVENTS, {"n": number}).fetchall():
            if tuple(event) in known:
                connection.execute("DELETE FROM event WHERE position = ?", (position,))
                dropped += 1
            else:
                done.strays.setdefault(named, []).append(Stored(position & _LOW, *event))
        if dropped:
            done.done.append(f"removed {dropped} duplicate event(s) of session {named}")
        connection.execute("DELETE FROM row WHERE session = ?", (number,))
        return
    done.stale.append(named)


def _other(connection: sqlite3.Connection, id: str, number: int) -> int:
    """Return the number of another row with this id, 0 if there is none."""
    found = connection.execute(_NAMED, (id, number)).fetchone()
    return found[0] if found else 0


def _last(connection: sqlite3.Connection, number: int) -> int:
    return int(connection.execute(_LAST, {"n": number}).fetchone()[0] or 0)


def _read_from_events(connection: sqlite3.Connection, number: int) -> tuple[str, int]:
    first = connection.execute(_FIRST, {"n": number}).fetchone()
    try:
        return str(json.loads(first[0])["session"]), _last(connection, number)
    except (ValueError, KeyError, TypeError, RecursionError):
        return "", 0
