"""An agent at work, for a `with`: the verbs of a session in the agent's name."""

from __future__ import annotations

from holdfast.session import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Any

    from holdfast.model.event import Event

_ERROR = 2000


class AgentRun:
    """An agent at work: what it records carries its name, and its end is recorded with it."""

    def __init__(self, session: Session, id: str, *, type: str, task: str, blocking_on: str):
        self.id = id
        self._session = Session(session.home, session.id, actor=f"agent:{id}")
        self._start = {"type": type, "task": task, "blocking_on": blocking_on}
        self._ended = False

    def __enter__(self) -> AgentRun:
        import os

        self._session.agent_start(self.id, pid=os.getpid(), **self._start)
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
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        """Record it as far as that can be; what the caller must see is its own error."""
        try:
            self._session.agent_fail(self.id, self._told(error))
        except Exception as second:
            line = f"the failure of agent {self.id} is not recorded: {second}"
            error.add_note(line)
            self._session.home.say(line)

    def _told(self, error: BaseException) -> str:
        from holdfast.text import tame, terminal

        try:
            text = f"{type(error).__name__}: {error}"
        except Exception:
            # Its own words cannot be had; that it happened is worth keeping.
            text = type(error).__name__
        text = terminal(text, newlines=True)
        return tame(self._session.home.journal.redacted(text), limit=_ERROR, lines=True)

    def progress(self, fraction: float) -> Event:
        return self._session.agent_progress(self.id, fraction)

    def done(self, result: str = "", **files: Sequence[str]) -> Event:
        """Finish now; `created`, `modified` and `deleted` name files."""
        self._ended = True
        return self._session.agent_done(self.id, result=result, **files)  # type: ignore[arg-type]

    def note(self, text: str, *, for_next: bool = False) -> Event:
        return self._session.note(text, for_next=for_next)

    def decide(self, what: str, **details: Any) -> Event:
        return self._session.decide(what, **details)

    def error(self, message: str, *, category: str = "logical") -> Event:
        return self._session.error(message, category=category, agent=self.id)

    def file(self, path: str, **details: Any) -> Event:
        return self._session.file(path, agent=self.id, **details)

    def command(self, name: str, **details: Any) -> Event:
        return self._session.command(name, agent=self.id, **details)

    def tokens(self, count: int) -> Event:
        return self._session.tokens(count, agent=self.id)
