"""The tasks of a session: what is to be done, and how far it is."""

from __future__ import annotations

from forestay.api.values import TaskInfo
from forestay.errors import Refused
from forestay.journal.recorder import reason
from forestay.journal.topics import Topic
from forestay.mirror.session_files import read_rows
from forestay.model.event import (
    StepAdded,
    StepBlocked,
    StepCompleted,
    StepSkipped,
    StepStarted,
    StepUnblocked,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Sequence

    from forestay.model.event import Event


class Tasks(Topic):
    """Tasks of a session. Every recording method takes a `key`; see `Session`."""

    def list(self) -> builtins.list[TaskInfo]:
        """Return every task in the order in which they were added, with its status."""
        return [TaskInfo(row) for row in read_rows(self._recorder, "step")]

    def add(
        self, title: str, *, id: str = "", phase: str = "", agent: str = "", key: str = ""
    ) -> Event:
        """Add a task; without an `id` it is called t1, t2, and so on.

        `phase` is the task that it is a part of, `agent` the one that is to do it.
        """
        while True:
            step = id or self._free_id()
            body = StepAdded(step=step, title=title, parent=phase, agent=agent)
            try:
                return self._record(body, key)
            except Refused:
                # Another process used this id in the meantime; try the next one.
                if id or self._free_id() == step:
                    raise

    def _free_id(self) -> str:
        with self._context.store.view(self._recorder.id) as view:
            state = self._context.journal.state(view)
            number = state.count("step") + 1
            while state.step(f"t{number}") is not None:
                number += 1
        return f"t{number}"

    def start(self, id: str, *, agent: str = "", key: str = "") -> Event:
        """Record that work on a task begins."""
        return self._record(StepStarted(step=id, agent=agent), key)

    def done(
        self, id: str, *, outcome: str = "", files: Sequence[str] = (), key: str = ""
    ) -> Event:
        """Record that a task is done, with its outcome and the files it made."""
        made = [self._inside(path) for path in files]
        return self._record(StepCompleted(step=id, outcome=outcome, files=made), key)

    def block(self, id: str, because: str, *, key: str = "") -> Event:
        """Record that a task cannot continue, and why."""
        return self._record(StepBlocked(step=id, because=reason(because)), key)

    def unblock(self, id: str, *, key: str = "") -> Event:
        """Record that a blocked task can continue."""
        return self._record(StepUnblocked(step=id), key)

    def skip(self, id: str, because: str, *, key: str = "") -> Event:
        """Record that a task is left out, and why."""
        return self._record(StepSkipped(step=id, because=reason(because)), key)
