"""Agent runs on this machine, as their hooks report them.

A *run* is one conversation of an agent, with the id that the agent gave it (`native`); it works on
one session at a time. A *flight* is a tool call that has begun and has no result yet. Neither is in
the journal: a result becomes an event, and a flight whose process has ended has an unknown outcome.
A payload (the JSON that a hook received) is *taken* when all of it is recorded; its name is stored
in the same transaction, and deleted after its file. A *tally* counts the payloads that were not
recorded as an event, by reason.
"""

from __future__ import annotations

from forestay.store.machine.holders import Holder, add_holder, remove_holder
from forestay.store.machine.tables import Topic

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any


_REASON = 200
_COLUMNS = "number, agent, native, session, process, folder, transcript, began, last, seen"


class Flight:
    """A tool call in progress; `agent` is the sub-agent that made it, "" for the agent itself."""

    __slots__ = ("agent", "doing", "since", "tool")

    def __init__(self, agent: str, tool: str, doing: str, since: int) -> None:
        self.agent, self.tool, self.doing, self.since = agent, tool, doing, since


class Run:
    """A conversation of an agent. `seen` is the last event of its session that it was shown."""

    def __init__(
        self,
        agent: str,
        native: str,
        *,
        number: int = 0,
        session: str = "",
        process: str = "",
        folder: str = "",
        transcript: str = "",
        began: int = 0,
        last: int = 0,
        seen: int = 0,
    ) -> None:
        self.number, self.agent, self.native, self.session = number, agent, native, session
        self.process, self.folder, self.transcript = process, folder, transcript
        self.began, self.last, self.seen = began, last, seen
        self.flights: dict[str, Flight] = {}


class RunChange:
    """The changes of one run by newly recorded payloads; applied completely or not at all."""

    __slots__ = ("gone", "held", "now", "run", "taken", "tallies")

    def __init__(self, now: int) -> None:
        self.now = now
        self.run: Run | None = None
        self.held: list[Holder] = []
        self.gone: list[Holder] = []
        self.taken: list[str] = []
        self.tallies: dict[str, int] = {}

    def count(self, why: str) -> None:
        """Count a payload that was not recorded as an event."""
        self.tallies[why[:_REASON]] = self.tallies.get(why[:_REASON], 0) + 1

    def apply(self, connection: sqlite3.Connection) -> None:
        """Apply the change inside a transaction; a new run gets its number."""
        if self.run is not None:
            _save_run(connection, self.run)
        for holder in self.gone:
            remove_holder(connection, holder)
        for holder in self.held:
            add_holder(connection, holder)
        names = [(name,) for name in self.taken]
        connection.executemany("INSERT OR IGNORE INTO taken VALUES (?)", names)
        connection.executemany(
            "INSERT INTO tally VALUES (?, ?, ?) ON CONFLICT DO UPDATE"
            " SET count = count + excluded.count, last = excluded.last",
            [(what, count, self.now) for what, count in self.tallies.items()],
        )


class AgentRuns(Topic):
    def find(self, agent: str, native: str) -> Run | None:
        """Return the run to which the agent gave the id `native`, with its flights, or None."""
        found = self._read(
            f"SELECT {_COLUMNS} FROM run WHERE agent = ? AND native = ?", (agent, native)
        )
        return self._run_of(found[0]) if found else None

    def of(self, session: str) -> list[Run]:
        """Return the runs that work, or worked last, on a session; latest first."""
        found = self._read(
            f"SELECT {_COLUMNS} FROM run WHERE session = ? COLLATE NOCASE ORDER BY last DESC",
            (session,),
        )
        return [self._run_of(row) for row in found]

    def last_of(self, agent: str, process: str) -> str:
        """Return the session that a process worked on last, in any run; "" if none."""
        found = self._read(
            "SELECT session FROM run WHERE agent = ? AND process = ? AND session != ''"
            " ORDER BY last DESC, number DESC LIMIT 1",
            (agent, process),
        )
        return str(found[0][0]) if found else ""

    def _run_of(self, row: tuple[Any, ...]) -> Run:
        number, agent, native, session, process, folder, transcript, began, last, seen = row
        run = Run(agent, native, number=number, session=session, process=process, folder=folder)
        run.transcript, run.began, run.last, run.seen = transcript, began, last, seen
        for key, *rest in self._read(
            "SELECT key, agent, tool, doing, since FROM inflight WHERE run = ? ORDER BY since, key",
            (number,),
        ):
            run.flights[key] = Flight(*rest)
        return run

    def tallies(self) -> dict[str, tuple[int, int]]:
        """Return reason → (number of payloads that were not recorded, time of the last one)."""
        rows = self._read("SELECT what, count, last FROM tally ORDER BY what")
        return {what: (count, last) for what, count, last in rows}

    def taken(self) -> set[str]:
        """Return the names of recorded payloads whose files may still exist."""
        return {name for (name,) in self._read("SELECT name FROM taken")}

    def forget_taken(self) -> None:
        """Delete the names of taken payloads, whose files are gone; a power cut can undo this."""
        self._run("DELETE FROM taken", (), soon=True)

    def save(self, change: RunChange) -> None:
        """Apply a change without recording an event; durable when this returns."""
        self._tables.ensure_sessions([holder.session for holder in change.held])
        self._tables.write(change.apply)

    def record_seen(self, run: Run, seq: int) -> None:
        """Record the last event that a run has been shown; a power cut can undo this."""
        run.seen = seq
        self._run("UPDATE run SET seen = ? WHERE number = ?", (seq, run.number), soon=True)


def _save_run(connection: sqlite3.Connection, run: Run) -> None:
    values = (run.session, run.process, run.folder, run.transcript, run.began, run.last, run.seen)
    ((run.number,),) = connection.execute(
        "INSERT INTO run (agent, native, session, process, folder, transcript, began, last, seen)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET session = excluded.session,"
        " process = excluded.process, folder = excluded.folder, transcript = excluded.transcript,"
        " last = excluded.last, seen = excluded.seen RETURNING number",
        (run.agent, run.native, *values),
    ).fetchall()
    connection.execute("DELETE FROM inflight WHERE run = ?", (run.number,))
    connection.executemany(
        "INSERT INTO inflight VALUES (?, ?, ?, ?, ?, ?)",
        [(run.number, k, f.agent, f.tool, f.doing, f.since) for k, f in run.flights.items()],
    )
