"""Restores rows of the catalogue from the events that are stored under their numbers.

Events contain the id of their session, and their positions how many they are. A damaged row gets
both from them, a row that lost its number gets it back, and events without a row get one. Where the
session is listed already with events of its own, both are joined: duplicates are dropped, the rest
returns to its place. *Strays* are events whose place is occupied: only the journal can merge them.
"""

from __future__ import annotations

import json

from forestay.store.port import Stored
from forestay.store.sqlite.schema import SHIFT

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable
    from typing import Any

    from forestay.store.port import Repaired
    from forestay.store.sqlite.connection import Read

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


def orphans(run: Read) -> list[int]:
    """Return numbers under which events are stored that no row lists."""
    known = {row[0] for row in run("SELECT number FROM session")}
    return [number for (number,) in run(_NUMBERS) if number not in known]


def list_again(
    connection: sqlite3.Connection, unsound: Iterable[tuple[int, str]], done: Repaired
) -> None:
    """Restore a row for every session that has events; `unsound` are damaged rows: number, id."""
    for number, id in unsound:
        _restore(connection, number, id, done)
    for number in orphans(connection.execute):
        _adopt(connection, number, done)
    if done.stale:
        done.done.append(f"listed {len(done.stale)} session(s) again, from their events")


def _restore(connection: sqlite3.Connection, number: int, id: str, done: Repaired) -> None:
    named, seq = _read_from_events(connection, number)
    if named and _other(connection, named, number):
        connection.execute("DELETE FROM session WHERE number = ?", (number,))
        return  # its events are orphans now
    facts = {"n": number, "id": named or id, "seq": seq}
    connection.execute(
        "UPDATE session SET id = :id, seq = ifnull(nullif(:seq, 0), seq) WHERE number = :n", facts
    )
    done.stale.append(named or id)


def _adopt(connection: sqlite3.Connection, number: int, done: Repaired) -> None:
    named, seq = _read_from_events(connection, number)
    other = _other(connection, named, number)
    if not named:
        return
    if not other:
        connection.execute(_INSERT, (number, named, seq))
    elif not _last(connection, other):
        connection.execute("UPDATE session SET number = ? WHERE number = ?", (number, other))
    else:
        _join(connection, number, other, named, done)
        connection.execute("DELETE FROM row WHERE session = ?", (number,))
        return
    done.stale.append(named)


def _join(connection: sqlite3.Connection, number: int, other: int, id: str, done: Repaired) -> None:
    """Join the events under a number with those listed under another one."""
    held = {position & _LOW: tuple(event) for position, *event in _events(connection, other)}
    known = set(held.values())
    moved = dropped = 0
    for position, *event in _events(connection, number):
        seq = position & _LOW
        if tuple(event) in known:
            connection.execute("DELETE FROM event WHERE position = ?", (position,))
            dropped += 1
        elif seq not in held:
            there = (other << SHIFT) + seq
            connection.execute(
                "UPDATE event SET position = ? WHERE position = ?", (there, position)
            )
            moved += 1
        else:
            done.strays.setdefault(id, []).append(Stored(seq, *event))
    if dropped:
        done.done.append(f"removed {dropped} event(s) of session {id} that were there twice")
    if moved:
        done.done.append(f"put {moved} event(s) of session {id} back to the others")


def _events(connection: sqlite3.Connection, number: int) -> list[tuple[Any, ...]]:
    return connection.execute(_EVENTS, {"n": number}).fetchall()


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
