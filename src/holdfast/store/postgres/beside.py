"""What is true of this machine only, kept beside a database that many machines share.

Projects and their trees, holders, layout files and runs, the device and its secret: all of it in
a small SQLite database below the home, one for each store (by the id of that store), with the
tables that every home has. A session that one of them speaks of has a *stub* there: a line with
its id and nothing else. The ends of the chains written here are remembered beside it, too.

Chores are the exception: they must become true with their events, so they lie with those, under
the name of this home.
"""

from __future__ import annotations

import os

from holdfast import files
from holdfast.store import Batch
from holdfast.store.bound import Bound
from holdfast.store.heads import RememberedHeads
from holdfast.store.local import Holder, Local, Places
from holdfast.store.remotes import Remotes
from holdfast.store.runs import Change, Runs
from holdfast.store.sqlite import SqliteStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, TypeVar

    from holdfast.clock import Clock
    from holdfast.store import Machine, Spot, View

    T = TypeVar("T")
    Rows = list[tuple[Any, ...]]
    Ids = Callable[[Sequence[str]], Sequence[str]]
    Chores = Callable[[str], list[tuple[int, str]]]

_STUB = """
    INSERT INTO session (id, seq, fold, core, core_sum, status, goal, archived, began, updated,
        summary) SELECT ?1, 0, 0, x'', 0, '', '', 0, 0, 0, ''
    WHERE NOT EXISTS (SELECT 1 FROM session WHERE id = ?1 COLLATE NOCASE)
"""


class Beside:
    def __init__(
        self, home: str, id: str, *, clock: Clock, busy_timeout: float, machine: Machine, ids: Ids
    ) -> None:
        """`ids` gives sessions of the store as they are written there."""
        folder = os.path.join(home, files.STORES, id)
        self.sqlite = SqliteStore(folder, clock=clock, busy_timeout=busy_timeout, machine=machine)
        self.heads = RememberedHeads(os.path.join(folder, files.REMEMBERED))
        self._ids = ids
        self.is_settled = False

    def settle(self) -> None:
        """Have a device id and a secret, and notice a home that was copied; once for each life."""
        if not self.is_settled:
            self.sqlite.write_soon(lambda connection: None)
            self.is_settled = True

    def name(self) -> str:
        """What tells this home from the others that write to the store."""
        from hashlib import sha256

        return sha256(b"home" + self.sqlite.secret()).hexdigest()[:16]

    def know(self, sessions: Iterable[str]) -> None:
        """Have a stub for each of these sessions, as far as the store has them."""
        asked = [id for id in dict.fromkeys(sessions) if id and not self._has(id)]
        there = self._ids(asked) if asked else ()
        if there:
            self.sqlite.write(lambda connection: put_stubs(connection, there))

    def _has(self, id: str) -> bool:
        return bool(self.sqlite.read("SELECT 1 FROM session WHERE id = ? COLLATE NOCASE", (id,)))

    def projects(self) -> dict[str, int]:
        """Session → the project it belongs to on this machine."""
        return dict(self.sqlite.read("SELECT id, project FROM session WHERE project IS NOT NULL"))

    def project(self, session: str) -> int | None:
        found = self.sqlite.read(
            "SELECT project FROM session WHERE id = ? COLLATE NOCASE", (session,)
        )
        return found[0][0] if found else None

    def erase(self, session: str) -> None:
        if self._has(session):
            self.sqlite.erase(session, _forgotten)

    def erase_seen(self, session: str) -> None:
        """Let go of what this machine saw of a session of which events were erased."""
        if self._has(session):
            self.sqlite.append(session, _seen_nothing)

    def close(self) -> None:
        self.sqlite.close()
        self.heads.close()


def put_stubs(connection: sqlite3.Connection, sessions: Iterable[str]) -> None:
    connection.executemany(_STUB, [(id,) for id in sessions])


def _forgotten(view: View) -> Batch:
    return _stub(forgotten=1)


def _seen_nothing(view: View) -> Batch:
    batch = _stub(forgotten=0)
    batch.erased = []
    return batch


def _stub(forgotten: int) -> Batch:
    nothing = dict.fromkeys(("status", "goal", "summary"), "")
    numbers = {"archived": 0, "began": 0, "updated": 0, "forgotten": forgotten}
    return Batch(entries=(), core=b"", fold=0, rows=(), listing={**nothing, **numbers})


class Here:
    """The tables of this machine, found anew each time: they are made with the first write."""

    def __init__(self, at_hand: Callable[[], Beside], set_up: Callable[[], Beside]) -> None:
        self._at_hand, self._set_up = at_hand, set_up

    def read(self, sql: str, values: Sequence[object] = (), /) -> Rows:
        return self._at_hand().sqlite.read(sql, values)

    def write(self, act: Callable[[sqlite3.Connection], T], /) -> T:
        return self._set_up().sqlite.write(act)

    def write_soon(self, act: Callable[[sqlite3.Connection], T], /) -> T:
        return self._set_up().sqlite.write_soon(act)

    def scrub(self, session: str, done: str, /) -> None:
        self._set_up().sqlite.scrub(session, done)

    def know(self, sessions: Iterable[str]) -> None:
        self._set_up().know(sessions)


class LocalBeside(Local):
    """As in a home of its own; sessions are made known first, chores are with their events."""

    def __init__(self, here: Here, chores: Chores, done: Callable[[int], None]) -> None:
        super().__init__(here)
        self._here, self._chores, self._done = here, chores, done

    def settle(self, spot: Spot, session: str | None, *, members: Sequence[str] = ()) -> int:
        self._here.know([session or "", *members])
        return super().settle(spot, session, members=members)

    def take_over(self, places: Places) -> None:
        self._here.know([*(r[0] for r in places.members), *(r[3] or "" for r in places.trees)])
        super().take_over(places)

    def hold(self, holder: Holder) -> None:
        self._here.know([holder.session])
        super().hold(holder)

    def saw_file(self, session: str, path: str, stamp: str, digest: str) -> None:
        self._here.know([session])
        super().saw_file(session, path, stamp, digest)

    def saw_files(self, session: str, seen: dict[str, tuple[str, str]]) -> None:
        self._here.know([session])
        super().saw_files(session, seen)

    def chores(self, session: str) -> list[tuple[int, str]]:
        return self._chores(session)

    def chore_done(self, number: int) -> None:
        self._done(number)


class BoundBeside(Bound):
    def __init__(self, here: Here) -> None:
        super().__init__(here)
        self._here = here

    def bind(
        self, session: str, layout: str, native: str, root: str, place: str, *, soon: bool = False
    ) -> bool:
        self._here.know([session])
        return super().bind(session, layout, native, root, place, soon=soon)


class RunsBeside(Runs):
    def __init__(self, here: Here) -> None:
        super().__init__(here)
        self._here = here

    def save(self, change: Change) -> None:
        self._here.know([holder.session for holder in change.held])
        super().save(change)


class RemotesBeside(Remotes):
    """How long each session is, which tells what waits, is known to the store alone."""

    def __init__(self, here: Here, lengths: Callable[[str], Rows]) -> None:
        super().__init__(here)
        self._lengths = lengths

    def waiting(self, session: str = "") -> int | None:
        if not self.all():
            return None
        marks = self._read("SELECT session, pushed, beyond FROM remote_session")
        waiting = 0
        for id, seq in self._lengths(session):
            waiting += max(seq - _there(id, seq, marks), 0)
        return waiting


def _there(session: str, seq: int, marks: Sequence[tuple[str, int, int]]) -> int:
    whose = session.lower()
    known = [min(pushed, seq) + beyond for id, pushed, beyond in marks if id.lower() == whose]
    return max(known, default=0)
