"""The recorder: a session, and the method that appends events to it.

Functions of the engine that get a session need only this; the façade's `Session` is a recorder.
"""

from __future__ import annotations

from forestay.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from forestay.journal.context import Context
    from forestay.journal.journal import AppendOptions
    from forestay.model.event import Body, Event


class Recorder:
    """A session of a home, to which events can be appended."""

    def __init__(self, context: Context, id: str, actor: str = "") -> None:
        self.context = context
        self.id = id
        self.actor = actor or context.actor
        self.repeated = False
        """Whether the last call had a key that was used before, and so recorded nothing new."""

    def __repr__(self) -> str:
        return f"<Session {self.id}>"

    def record(
        self,
        *bodies: Body,
        key: str = "",
        create: bool = False,
        blobs: Sequence[tuple[str, bytes]] = (),
        options: AppendOptions | None = None,
    ) -> Event:
        """Append events together if the rules allow all of them; return the last one.

        All methods that record something call this one.
        """
        context = self.context
        if not create:
            bodies = tuple(map(self._with_checkout, bodies))
            for follower in context.followers:
                follower.before_append(self.id, bodies, self.actor)
        recorded = context.journal.append(
            self.id,
            *bodies,
            actor=self.actor,
            key=key,
            create=create,
            blobs=blobs,
            options=options,
        )
        for follower in context.followers:
            follower.after_append(self.id, recorded.events)
        self.repeated = recorded.repeated
        return recorded.events[-1]

    def _with_checkout(self, body: Body) -> Body:
        """Add branch and commit to an event that needs them, if the session is current here.

        A session can be named in any folder: the checkout of another project is not recorded.
        """
        if getattr(body, "git_commit", None) != "":
            return body
        from forestay.model.event import with_checkout  # start-up

        try:
            is_here = self.context.workspace.chosen_here() == self.id
            return with_checkout(body, *self.context.checkout()) if is_here else body
        except InvalidInput:  # the folder no longer exists
            return body

    def called_before(self, key: str, is_same: Callable[[Body], bool]) -> list[Event]:
        """Return the events that an earlier call with this key recorded.

        Raise `Refused` if that call was a different one.
        """
        self.repeated = False
        batch = self.context.journal.events_of_key(self.id, key, is_same) if key else []
        self.repeated = bool(batch)
        return batch


def reason(text: str) -> str:
    return given(text, "a reason", "--because")


def given(text: str, what: str, option: str) -> str:
    if not text.strip():
        raise InvalidInput(f"{what} is needed", hint=f'add {option} "…"')
    return text
