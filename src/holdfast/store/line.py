"""Lines of the catalogue made again from the events that lie under their numbers.

The events say which session they belong to and how many they are. A line that is damaged takes
both from them, a line that lost its number finds it again, and events without a line get one.
Where the session is listed already, with events of its own, they are put together again: those
that are there twice are dropped, the rest takes its old place. *Strays* are those whose place is
taken: they are handed out, for the journal alone can merge them.
"""

from __future__ import annotations

import json

from holdfast.store import Stored
from holdfast.store.schema import SHIFT

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable
    from typing import Any

    from holdfast.store import Repaired
    from holdfast.store.database import Read

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
    """Numbers under which events lie that no line speaks of."""
    known = {row[0] for row in run("SELECT number FROM session")}
    return [number for (number,) in run(_NUMBERS) if number not in known]


def list_again(
    connection: sqlite3.Connection, unsound: Iterable[tuple[int, str]], done: Repaired
) -> None:
    """Give every session that has events a line again; `unsound` are lines by number and id."""
    for number, id in unsound:
        _renew(connection, number, id, done)
    for number in orphans(connection.execute):
        _adopt(connection, number, done)
    if done.stale:
        done.done.append(f"listed {len(done.stale)} session(s) anew, from their events")


def _renew(connection: sqlite3.Connection, number: int, id: str, done: Repaired) -> None:
    told, seq = _told_by_events(connection, number)
    if told and _other(connection, told, number):
        connection.execute("DELETE FROM session WHERE number = ?", (number,))
        return  # its events are orphans now
    facts = {"n": number, "id": told or id, "seq": seq}
    connection.execute(
        "UPDATE session SET id = :id, seq = ifnull(nullif(:seq, 0), seq) WHERE number = :n", facts
    )
    done.stale.append(told or id)


def _adopt(connection: sqlite3.Connection, number: int, done: Repaired) -> None:
    told, seq = _told_by_events(connection, number)
    other = _other(connection, told, number)
    if not told:
        return
    if not other:
        connection.execute(_INSERT, (number, told, seq))
    elif not _last(connection, other):
        connection.execute("UPDATE session SET number = ? WHERE number = ?", (number, other))
    else:
        _bring_together(connection, number, other, told, done)
        connection.execute("DELETE FROM row WHERE session = ?", (number,))
        return
    done.stale.append(told)


def _bring_together(
    connection: sqlite3.Connection, number: int, other: int, id: str, done: Repaired
) -> None:
    """Put the events under a number to those that are listed under another one."""
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
    """The number of another line with this id, 0 if there is none."""
    found = connection.execute(_NAMED, (id, number)).fetchone()
    return found[0] if found else 0


def _last(connection: sqlite3.Connection, number: int) -> int:
    return int(connection.execute(_LAST, {"n": number}).fetchone()[0] or 0)


def _told_by_events(connection: sqlite3.Connection, number: int) -> tuple[str, int]:
    first = connection.execute(_FIRST, {"n": number}).fetchone()
    try:
        return str(json.loads(first[0])["session"]), _last(connection, number)
    except (ValueError, KeyError, TypeError, RecursionError):
        return "", 0
