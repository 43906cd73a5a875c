"""Holders: the processes that work, or worked, on sessions of this machine."""

from __future__ import annotations

from forestay.store.machine.tables import BY_ID, Topic

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

IDLE = "waiting to be asked"
"""The `doing` of an agent that waits for its user: if it ends then, no work was interrupted."""


class Holder:
    """A process that works, or worked, on a session and has not released it."""

    __slots__ = ("agent", "doing", "name", "process", "session", "since")

    def __init__(
        self, session: str, process: str, name: str, agent: str, doing: str, since: int
    ) -> None:
        self.session, self.process, self.name = session, process, name
        self.agent, self.doing, self.since = agent, doing, since

    @property
    def is_idle(self) -> bool:
        return self.doing == IDLE


def interrupted_work(died: Sequence[Holder]) -> list[Holder]:
    """Return the holders that died while they were doing something."""
    return [holder for holder in died if not holder.is_idle]


def describe_work(died: Sequence[Holder]) -> str:
    """Describe what processes were doing when they died; name them if that is unknown."""
    broken = interrupted_work(died)
    known = [h.doing or h.agent for h in broken if h.doing or h.agent]
    return "; ".join(dict.fromkeys(known or [h.name for h in broken]))


class Holders(Topic):
    def find(self, session: str = "") -> list[Holder]:
        """Return the holders of one session, or of all sessions; the oldest first."""
        rows = self._read(
            "SELECT s.id, h.machine, h.boot, h.ns, h.pid, h.start, h.name, h.agent, h.doing,"
            " h.since FROM holder h JOIN session s ON s.number = h.session"
            f" {f'WHERE {BY_ID}' if session else ''} ORDER BY h.since",
            (session,) if session else (),
        )
        return [Holder(r[0], "/".join(map(str, r[1:6])), r[6], r[7], r[8], r[9]) for r in rows]

    def add(self, holder: Holder) -> None:
        """Record that a process works on a session."""
        self._tables.ensure_sessions([holder.session])
        self._tables.write(lambda connection: add_holder(connection, holder))

    def remove(self, holders: Sequence[Holder]) -> None:
        """Record that these processes no longer work on their sessions."""

        def act(connection: sqlite3.Connection) -> None:
            for holder in holders:
                remove_holder(connection, holder)

        if holders:
            self._tables.write(act)


def add_holder(connection: sqlite3.Connection, holder: Holder) -> None:
    """Record, inside a transaction, that a process works on a session."""
    machine, boot, ns, pid, start = holder.process.split("/")
    values = (machine, boot, ns, int(pid), start, holder.name, holder.agent, holder.doing)
    connection.execute(
        "INSERT OR REPLACE INTO holder SELECT number, ?, ?, ?, ?, ?, ?, ?, ?, ?"
        f" FROM session WHERE {BY_ID}",
        (*values, holder.since, holder.session),
    )


def remove_holder(connection: sqlite3.Connection, holder: Holder) -> None:
    """Record, inside a transaction, that a process no longer works on a session."""
    machine, boot, ns, pid, start = holder.process.split("/")
    connection.execute(
        "DELETE FROM holder"
        f" WHERE session = (SELECT number FROM session WHERE {BY_ID})"
        " AND machine = ? AND boot = ? AND ns = ? AND pid = ? AND start = ?"
        " AND agent = ?",
        (holder.session, machine, boot, ns, int(pid), start, holder.agent),
    )
