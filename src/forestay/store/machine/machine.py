"""The facts of one machine: projects, bindings, agent runs, remotes, the device id.

They are not in a journal and are not synced. They are always stored in SQLite.
"""

from __future__ import annotations

from forestay.errors import Damaged
from forestay.store.machine import device
from forestay.store.machine.projects import Projects, record_tree
from forestay.store.machine.tables import BY_ID

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from forestay.store.machine.agent_runs import AgentRuns, RunChange
    from forestay.store.machine.bindings import Bindings
    from forestay.store.machine.holders import Holders
    from forestay.store.machine.projects import TreeRecord
    from forestay.store.machine.remotes import Remotes
    from forestay.store.machine.seen_files import FileWork, SeenFiles
    from forestay.store.machine.tables import Tables


class Machine:
    """The tables of this machine, by topic.

    Each topic is imported with its first use: a short command needs one or two of them.
    """

    def __init__(self, tables: Tables, file_work: FileWork | None = None) -> None:
        """`file_work` is given if pending file work is stored with the events, not in `tables`."""
        self.tables = tables
        self._file_work = file_work

    @property
    def projects(self) -> Projects:
        """Projects, their working trees, and the current session of each tree."""
        return Projects(self.tables)

    @property
    def holders(self) -> Holders:
        """Processes that work, or worked, on sessions."""
        from forestay.store.machine.holders import Holders  # start-up

        return Holders(self.tables)

    @property
    def seen_files(self) -> SeenFiles:
        """The state of files when sessions last recorded them."""
        from forestay.store.machine.seen_files import SeenFiles  # start-up

        return SeenFiles(self.tables)

    @property
    def file_work(self) -> FileWork:
        """Changes of files that recorded events still require."""
        from forestay.store.machine.seen_files import FileWork  # start-up

        return self._file_work or FileWork(self.tables)

    @property
    def bindings(self) -> Bindings:
        """Which files belong to which session, and what was written into them."""
        from forestay.store.machine.bindings import Bindings  # start-up

        return Bindings(self.tables)

    @property
    def agent_runs(self) -> AgentRuns:
        """Conversations of agents."""
        from forestay.store.machine.agent_runs import AgentRuns  # start-up

        return AgentRuns(self.tables)

    @property
    def remotes(self) -> Remotes:
        """The remotes of this home, and what each of them has."""
        from forestay.store.machine.remotes import Remotes  # start-up

        return Remotes(self.tables)

    @property
    def device(self) -> str:
        """The device id of this home; "" before the first write."""
        return device.current_id(self.tables)

    def devices(self) -> set[str]:
        """Return the present and all former device ids of this home."""
        # An older version stored former ids in the heads only.
        lost = {str(id) for (id,) in self.tables.read("SELECT device FROM lost")}
        known = device.former_ids(self.tables) | self.tables.head_devices() | lost
        return (known | {self.device}) - {""}

    def secret(self) -> bytes:
        """Return the secret key for the fences around text in prompts; it never leaves the home."""
        found = self.tables.read("SELECT value FROM meta WHERE key = 'secret'")
        try:
            return bytes.fromhex(str(found[0][0]) if found else "") or bytes(32)
        except ValueError:
            raise Damaged(
                "the database is damaged",
                why="its secret cannot be read",
                hint="see what can be saved: forestay doctor",
            ) from None

    def is_bound(self, session: str) -> bool:
        """Return whether a session has files on this machine."""
        sql = f"SELECT 1 FROM binding b JOIN session s ON s.number = b.session AND s.{BY_ID}"
        return bool(self.tables.read(sql, (session,)))


class MachineChange:
    """Changes of this machine's tables in the same transaction as an append.

    With `tree` the session becomes the current one of that tree. `run` is a change of an agent
    run. Both are made even if nothing is appended. `file_work` describes changes of files that the
    events require; it is stored with the events until `machine.file_work.finish` is called.
    """

    __slots__ = ("file_work", "run", "tree")

    def __init__(
        self,
        *,
        tree: TreeRecord | None = None,
        file_work: Sequence[str] = (),
        run: RunChange | None = None,
    ) -> None:
        self.tree = tree
        self.file_work = file_work
        self.run = run

    @property
    def is_local(self) -> bool:
        """Return whether tables of this machine change, and not only pending file work."""
        return self.tree is not None or self.run is not None

    def apply(self, connection: sqlite3.Connection, session: str) -> None:
        """Change the machine's tables inside a transaction; the store itself adds file work."""
        if self.tree is not None:
            record_tree(connection, self.tree, session)
        if self.run is not None:
            self.run.apply(connection)
