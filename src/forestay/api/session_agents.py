"""The agents of a session: which of them run, and how they ended."""

from __future__ import annotations

import os

from forestay.api.notes import add_decision, add_note
from forestay.api.status import holder_view
from forestay.api.values import AgentInfo, Holder
from forestay.base.process import INIT, identity
from forestay.base.text import coerce_input, terminal
from forestay.errors import InvalidInput
from forestay.journal.presence import Presence
from forestay.journal.recorder import Recorder, given
from forestay.journal.topics import Topic
from forestay.mirror.session_files import read_rows
from forestay.model.event import (
    AgentFailed,
    AgentFinished,
    AgentProgressed,
    AgentRetried,
    AgentStarted,
    AgentTimedOut,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Sequence
    from types import TracebackType

    from forestay.api.session_record import Record
    from forestay.base.words import Category
    from forestay.model.event import Body, Event

_LONGEST_ERROR = 2000


class Agents(Topic):
    """Agents of a session. Every recording method takes a `key`; see `Session`."""

    def list(self) -> builtins.list[AgentInfo]:
        """Return every agent in the order in which they started, with its status."""
        return [AgentInfo(row) for row in read_rows(self._recorder, "agent")]

    def others(self) -> builtins.list[Holder]:
        """Return the other processes that work on the session, and those that died."""
        held = Presence.of(self._context).others(self._recorder.id)
        return [Holder(holder_view(holder, state)) for holder, state in held]

    def run(self, id: str, *, type: str = "", task: str = "", blocking_on: str = "") -> AgentRun:
        """Return an agent for a `with`: started on entry, done or failed on exit."""
        recorder = Recorder(self._context, self._recorder.id, f"agent:{id}")
        return AgentRun(recorder, id, type=type, task=task, blocking_on=blocking_on)

    def start(
        self,
        id: str,
        *,
        type: str = "",
        task: str = "",
        blocking_on: str = "",
        pid: int | None = None,
        key: str = "",
    ) -> Event:
        """Record that an agent starts; if its `pid` is given, its death will be noticed.

        `blocking_on` is the agent that it waits for.
        """
        if pid is not None:
            _require_own_process(pid)
        event = self._record(
            AgentStarted(agent=id, type=type, task=task, blocking_on=blocking_on), key
        )
        if pid is not None:
            redact = self._context.journal.redact
            doing, name, holder = redact(task), redact(id), pid
            self._context.best_effort(
                lambda: Presence.of(self._context).introduce(self._recorder.id, name, doing, holder)
            )
        return event

    def progress(self, id: str, fraction: float, *, key: str = "") -> Event:
        """Record how far an agent is, from 0 to 1."""
        return self._record(AgentProgressed(agent=id, fraction=fraction), key)

    def done(
        self,
        id: str,
        *,
        result: str = "",
        created: Sequence[str] = (),
        modified: Sequence[str] = (),
        deleted: Sequence[str] = (),
        key: str = "",
    ) -> Event:
        """Record that an agent has finished, with its result and the files it changed."""
        body = AgentFinished(
            agent=id,
            result=result,
            created=[self._inside(path) for path in created],
            modified=[self._inside(path) for path in modified],
            deleted=[self._inside(path) for path in deleted],
        )
        return self._end(id, body, key)

    def fail(self, id: str, error: str, *, category: Category = "logical", key: str = "") -> Event:
        """Record that an agent failed, with its error."""
        failed = AgentFailed(agent=id, error=given(error, "an error", "--error"), category=category)
        return self._end(id, failed, key)

    def timeout(self, id: str, *, error: str = "", key: str = "") -> Event:
        """Record that an agent ran longer than it was allowed to."""
        return self._end(id, AgentTimedOut(agent=id, error=error), key)

    def retry(self, id: str, *, key: str = "") -> Event:
        """Record that a failed agent runs again."""
        return self._record(AgentRetried(agent=id), key)

    def _end(self, id: str, body: Body, key: str) -> Event:
        event = self._record(body, key)
        name, workspace = self._context.journal.redact(id), self._context.workspace
        ended = [h for h, _ in workspace.holders(self._recorder.id) if h.agent == name]
        self._context.best_effort(lambda: workspace.release(ended))
        return event


class AgentRun:
    """A running agent, for a `with`: records events in its name, and its end on leaving."""

    def __init__(self, recorder: Recorder, id: str, *, type: str, task: str, blocking_on: str):
        self.id = id
        self._recorder = recorder
        self._agents = Agents(recorder)
        self._start = {"type": type, "task": task, "blocking_on": blocking_on}
        self._ended = False

    def __enter__(self) -> AgentRun:
        self._agents.start(self.id, pid=os.getpid(), **self._start)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._ended:
            return
        if error is None:
            self.done()
        else:
            self._ended = True
            self._record_failure(error)

    def _record_failure(self, error: BaseException) -> None:
        """Record a failure if possible; the caller gets the original error in any case."""
        try:
            self._agents.fail(self.id, self._describe(error))
        except Exception as second:
            line = f"the failure of agent {self.id} is not recorded: {second}"
            error.add_note(line)
            self._recorder.context.notify(line)

    def _describe(self, error: BaseException) -> str:
        try:
            text = f"{type(error).__name__}: {error}"
        except Exception:
            # `str` of the error failed, so only its type is recorded.
            text = type(error).__name__
        text = self._recorder.context.journal.redact(terminal(text, newlines=True))
        return coerce_input(text, limit=_LONGEST_ERROR, lines=True)

    def progress(self, fraction: float) -> Event:
        """Record how far the agent is, from 0 to 1."""
        return self._agents.progress(self.id, fraction)

    def done(self, result: str = "", **files: Sequence[str]) -> Event:
        """Record the end of the agent; `created`, `modified` and `deleted` are files."""
        self._ended = True
        return self._agents.done(self.id, result=result, **files)  # type: ignore[arg-type]

    def note(self, text: str, *, for_next: bool = False, key: str = "") -> Event:
        """Save a note; see `Session.note`."""
        return add_note(self._recorder, text, for_next=for_next, key=key)

    def decide(
        self,
        what: str,
        *,
        because: str = "",
        options: Sequence[str] = (),
        chosen: str = "",
        key: str = "",
    ) -> Event:
        """Record a decision; see `Session.decide`."""
        return add_decision(
            self._recorder, what, because=because, options=options, chosen=chosen, key=key
        )

    @property
    def record(self) -> Record:
        """Facts about the work of this agent; see `Session.record`."""
        from forestay.api.session_record import Record  # start-up

        return Record(self._recorder, agent=self.id)


def _require_own_process(pid: int) -> None:
    """Refuse a process that does not exist, or that every process descends from.

    Everything that descendants of an agent's process record is recorded for that agent.
    """
    if pid == INIT and os.getpid() != INIT:
        raise InvalidInput(
            f"process {pid} is not the process of an agent",
            why="every process descends from it, so whatever they record would go to this session",
            hint="name the agent's own process, or leave --pid out",
        )
    if identity(pid) is None:
        raise InvalidInput(f"there is no process {pid}", why="nothing was recorded")
