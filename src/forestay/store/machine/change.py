"""What becomes true of this machine in the same transaction as an append."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from forestay.store.machine.agent_runs import RunChange
    from forestay.store.machine.projects import TreeRecord


class MachineChange:
    """A change of the machine's tables, to be handed to `Store.append` as it is.

    With `tree` the session becomes the current one of that tree. `run` is a change of an agent
    run. Both are made also when nothing is appended. `file_work` describes what has to be done to
    files because of the events; it is stored with them, until `machine.file_work.done`.
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
        """Whether tables of this machine change, and not only the work that waits for files."""
        return self.tree is not None or self.run is not None

    def apply(self, connection: sqlite3.Connection, session: str) -> None:
        """Change the machine's tables inside a transaction; file work is the store's business."""
        if self.tree is not None:
            from forestay.store.machine.projects import record_tree  # start-up

            record_tree(connection, self.tree, session)
        if self.run is not None:
            self.run.apply(connection)
