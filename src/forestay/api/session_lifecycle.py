"""How a session ends, is reopened, archived and erased."""

from __future__ import annotations

from forestay.api.status import count_waiting
from forestay.health import forget
from forestay.journal.recorder import reason
from forestay.journal.topics import Topic
from forestay.mirror.session_files import absorb_file_edits
from forestay.model.event import (
    SessionAbandoned,
    SessionAborted,
    SessionArchived,
    SessionFailed,
    SessionReopened,
)
from forestay.plans import inactivity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.health.forget import Forgotten, Reach
    from forestay.model.event import Event
    from forestay.plans.inactivity import Idle

_WAIT_FOR_INGEST = 2.0
"""Seconds to wait for another process that ingests reports of hooks."""


class Lifecycle(Topic):
    """End a session, or undo its end. Recording methods take a `key`; see `Session`."""

    def fail(self, *, because: str = "", key: str = "") -> Event:
        """Record that the session failed; it can be resumed."""
        return self._record(SessionFailed(because=because), key)

    def abort(self, *, because: str = "", key: str = "") -> Event:
        """Stop the session permanently: it can be read, but not resumed or reopened."""
        return self._record(SessionAborted(because=because), key)

    def abandon(self, *, because: str = "", key: str = "") -> Event:
        """Abandon the session; it can be reopened."""
        return self._record(SessionAbandoned(because=because), key)

    def reopen(self, because: str, *, key: str = "") -> Event:
        """Continue a completed or abandoned session, for a reason."""
        return self._record(SessionReopened(because=reason(because)), key)

    def archive(self, *, key: str = "") -> Event:
        """Hide a finished session in lists; nothing is deleted."""
        return self._record(SessionArchived(), key)

    def unarchive(self, *, key: str = "") -> Event:
        """Show an archived session in lists again."""
        return self._record(SessionArchived(archived=False), key)

    def inactivity(self) -> Idle:
        """Return how long nothing was recorded and, once a limit is reached, the choices."""
        return inactivity.look(self._recorder)

    def forget(self, *events: str | int, because: str = "", force: bool = False) -> Forgotten:
        """Erase the contents of the session, or of some of its events, permanently.

        Ids, kinds and times remain, so that no old copy restores it. It is erased from the store,
        this home's backups, the session's files and copies of damaged files; `left` of the result
        are files that can still contain parts of it. Files that other programs changed stay,
        unless `force` is given. A session of which only some events are erased can continue.
        """
        context, session, actor = self._context, self._recorder.id, self._recorder.actor
        if count_waiting(context):
            # Ingest waiting hook reports, to erase them too: later they would start a new session.
            from forestay.agents.ingest import ingest  # start-up

            context.best_effort(lambda: ingest(context, wait=_WAIT_FOR_INGEST))
        if not events:
            done = forget.forget(context, session, actor=actor, force=force)
        else:
            names = [str(event) for event in events]
            forget.require_names(names)
            absorb_file_edits(context, session)
            done = forget.forget_events(context, session, names, actor=actor, because=because)
        # Start a push, because only a push erases the copies on remotes.
        context.run_due_jobs("session.forgotten")
        return done

    def forgettable(self, *events: str | int) -> list[Event]:
        """Return the events that `forget` would erase; raise the errors that it would raise."""
        return forget.chosen(self._context, self._recorder.id, [str(event) for event in events])

    def reach(self, *, force: bool = False) -> Reach:
        """Return the places outside the store where `forget` searches for copies of the session."""
        return forget.reach(self._context, self._recorder.id, force=force)
