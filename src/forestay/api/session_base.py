"""What all verbs of a session have in common: recording, and reading its state."""

from __future__ import annotations

from forestay.journal.recorder import Recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from forestay.model.state import State
    from forestay.store.port import View


class SessionBase(Recorder):
    """A session that can be recorded in and read."""

    def _rows(self, table: str) -> list[Any]:
        with self.context.store.view(self.id) as view:
            return list(self._state(view).rows.select(table))

    def _inside(self, path: str) -> str:
        from forestay.workspace.tree import relative  # start-up

        return relative(path, self.context.workspace.tree.root)

    def _state(self, view: View) -> State:
        """Return the state with what others wrote into its files and is not absorbed yet."""
        from forestay.mirror.session_files import read_state  # start-up

        return read_state(self.context, self.id, view)
