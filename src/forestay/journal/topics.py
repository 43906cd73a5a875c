"""Base classes of the topics of a session and of a home."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    from forestay.journal.context import Context
    from forestay.journal.recorder import Recorder
    from forestay.model.event import Body, Event

    One = TypeVar("One")
    OnEach = Callable[[One], None] | None


class Topic:
    """A group of methods of one session, such as `session.tasks`."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    @property
    def _context(self) -> Context:
        return self._recorder.context

    def _record(self, body: Body, key: str) -> Event:
        return self._recorder.record(body, key=key)

    def _inside(self, path: str) -> str:
        """Return a path relative to the project; refuse a path outside the project."""
        from forestay.workspace.tree import relative  # start-up

        return relative(path, self._context.workspace.tree.root)


class HomeTopic:
    """A group of methods of a home, such as `forestay.remotes`."""

    def __init__(self, context: Context) -> None:
        self._context = context


def collect(values: Iterable[One], on_each: OnEach[One]) -> list[One]:
    """Return all values; call `on_each` with each value as soon as it is computed."""
    found = []
    for value in values:
        found.append(value)
        if on_each is not None:
            on_each(value)
    return found
