"""The verbs of a session, by topic: each module here adds some, and `session` is all of them.

A `Recorder` is what they have in common: a session of a home, and the one way by which anything
is recorded in it. The engine asks for no more than that when it is handed a session.
"""

from __future__ import annotations

from holdfast.errors import InvalidInput, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from holdfast.home import Holdfast, Moves
    from holdfast.journal import Maker
    from holdfast.model.event import Body, Event
    from holdfast.model.state import State
    from holdfast.store import Spot, View


class Recorder:
    """A session of a home, as far as something is recorded in it."""

    def __init__(self, home: Holdfast, id: str, actor: str = "") -> None:
        self.home = home
        self.id = id
        self.actor = actor or home.actor
        self.repeated = False
        """Whether the last verb found its key used: it recorded nothing new."""
        self.taken_up = False
        """Whether it was open already when it was to be started, and was resumed instead."""

    def __repr__(self) -> str:
        return f"<Session {self.id}>"

    def record(
        self,
        *bodies: Body,
        key: str = "",
        create: bool = False,
        at: int | None = None,
        blobs: Sequence[tuple[str, bytes]] = (),
        spot: Spot | None = None,
        made: Maker | None = None,
        chores: Sequence[str] = (),
        first: Callable[[], None] | None = None,
    ) -> Event:
        """Record events together, if the rules allow them all; returns the last one.

        `at` is when they happened, in milliseconds, if that is not now. `made` makes them of the
        state in which they are recorded. All verbs end here; `first` is a last look at
        other sessions, under the writer lock.
        """
        if not create:
            bodies = tuple(map(self._with_checkout, bodies))
            self.home.appear(self.id)
            self.home.take_up(self.id)
            if not _is_about_the_session(bodies):
                self.home.expire(self)
        ahead = None if create else self.home.ahead(self.id)
        try:
            recorded = self.home.journal.append(
                self.id,
                *bodies,
                actor=self.actor,
                key=key,
                create=create,
                at=at,
                blobs=blobs,
                spot=spot,
                made=made,
                chores=chores,
                first=first,
                along=ahead,
            )
            if create:
                self.home.afterwards(lambda: self.home.appear(self.id))
            self.home.reflect(self.id, recorded.events[-1].kind, ahead=ahead)
        finally:
            if ahead is not None:
                ahead.end()
        self.home.keep_house(*(event.kind for event in recorded.events))
        self.repeated = recorded.repeated
        return recorded.events[-1]

    def _with_checkout(self, body: Body) -> Body:
        """Who leaves or goes on says what is checked out, where the session is current.

        It may be named from anywhere: what is checked out there is no part of it.
        """
        if getattr(body, "git_commit", None) != "":
            return body
        from holdfast.model.event import checked_out

        try:
            is_here = self.home.workspace.chosen() == self.id
            return checked_out(body, *self.home.git()) if is_here else body
        except InvalidInput:  # the folder is gone
            return body

    def _called_before(self, key: str, is_same: Callable[[Body], bool]) -> list[Event]:
        """What a call recorded that used this key before; refused if it was another call."""
        self.repeated = False
        batch = self.home.journal.batch(self.id, key) if key else []
        if batch and not any(is_same(event.body) for event in batch):
            last = batch[-1]
            raise Refused(
                f"the key {key} was used for something else",
                why=f"it stands for event {last.seq}, {last.kind}",
                hint="use a key of its own for every call",
            )
        self.repeated = bool(batch)
        return batch

    def _rows(self, table: str) -> list[Any]:
        with self.home.store.view(self.id) as view:
            return list(self._state(view).rows.select(table))

    def _inside(self, path: str) -> str:
        from holdfast.place import relative

        return relative(path, self.home.workspace.tree.root)

    def _state(self, view: View, written: Moves | None = None) -> State:
        """The state, with what others wrote into its files and nobody has taken up yet."""
        written = self.home.pending(self.id) if written is None else written
        if not written:
            return self.home.journal.state(view)
        bodies, times = [move.body for move in written], [move.at for move in written]
        layouts = " or ".join(binding.layout for binding in self.home.mirror.bindings(self.id))
        try:
            return self.home.journal.preview(view, *bodies, actor=f"file:{layouts}", at=times)
        except (InvalidInput, Refused):
            # What cannot be recorded is told to whoever writes; a reader sees what was.
            return self.home.journal.state(view)


def _is_about_the_session(bodies: Sequence[Body]) -> bool:
    """Whether someone says what becomes of the session: then inactivity has no say."""
    return bool(bodies) and type(bodies[0]).__name__.startswith("Session")


def reason(text: str) -> str:
    return given(text, "a reason", "--because")


def given(text: str, what: str, option: str) -> str:
    if not text.strip():
        raise InvalidInput(f"{what} is needed", hint=f'{option} "…"')
    return text
