"""Followers: the code that runs before and after every append, in this order.

Before: this process is registered, file edits are absorbed, inactivity is recorded. After: files
are written, a backup is made and a sync is started if they are due.
"""

from __future__ import annotations

import os

from forestay.base import files
from forestay.errors import ForestayError
from forestay.journal.context import Follower
from forestay.journal.presence import Presence
from forestay.mirror.session_files import SessionFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from forestay.formats.port import Travel
    from forestay.health.forget import Forgotten
    from forestay.journal.context import Context
    from forestay.model.event import Body, Event

URGENT_KINDS = frozenset(
    """
    agent.started agent.finished agent.failed agent.timed_out decision.made error.raised
    session.paused session.completed session.failed session.aborted session.abandoned
    session.forgotten
    """.split()
)
"""Kinds of events that are synced to other devices at once."""

_HOUR = 3_600_000
_SHORTEST_LIMIT = 6 * 60_000
"""The shortest limit of inactivity that a workflow or setting can have, in milliseconds."""


def make_followers(
    context: Context, *, before_mirror: Callable[[], None] | None = None
) -> Sequence[Follower]:
    """Return the followers of a context. `before_mirror` is called before the mirror is loaded."""
    session_files = SessionFiles(
        context,
        finish_pending=lambda session: _finish_pending(context, session),
        device_name=lambda: _device_name(context),
        sync_state=lambda session: sync_state(context, session),
        before_load=before_mirror,
    )
    return (
        Presence(context),
        session_files,
        Inactivity(context),
        BackupJob(context),
        SyncJob(context),
        RemoteErasure(context),
    )


def _finish_pending(context: Context, session: str) -> None:
    from forestay.plans.pending_file_ops import finish  # start-up

    finish(context, session)


def _device_name(context: Context) -> str:
    from forestay.sync.device_names import own_name  # start-up

    return own_name(context)


def sync_state(context: Context, session: str) -> Travel | None:
    """Return the sync state of a session; None if no other device is known."""
    remotes = context.store.machine.remotes
    if not (remotes.any() or remotes.device_group() or remotes.is_in_desktop()):
        return None
    from forestay.sync.device_names import travel  # start-up

    return travel(context, session)


class Inactivity(Follower):
    """Records that a session was paused by inactivity; checks at most once an hour."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._check_again: dict[str, int] = {}

    def before_append(self, session_id: str, bodies: Sequence[Body], actor: str) -> None:
        # An event about the session itself sets its status: inactivity does not matter.
        if not (bodies and type(bodies[0]).__name__.startswith("Session")):
            self.check(session_id, actor)

    def check(self, session: str, actor: str) -> None:
        """Record that a session was paused by inactivity, if it was."""
        now = self._context.clock.now()
        if now < self._check_again.get(session, now):
            return
        self._check_again[session] = now + _HOUR
        if is_idle(self._context, session):
            from forestay.journal.recorder import Recorder  # start-up
            from forestay.plans.inactivity import enforce  # start-up

            self._context.best_effort(lambda: enforce(Recorder(self._context, session, actor)))


def is_idle(context: Context, session: str) -> bool:
    """Return whether nothing was recorded for so long that a limit of inactivity can be reached.

    For most sessions this quick check is all that is needed.
    """
    rows = context.store.catalogue(where={"id": session}, limit=1)
    updated = rows[0]["updated"] if rows else None
    return isinstance(updated, int) and context.clock.now() - updated >= _SHORTEST_LIMIT


class BackupJob(Follower):
    """Backs up a database file, once an hour by default; a database server has its own backups."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._check_again = 0.0

    def after_append(self, session_id: str, events: Sequence[Event]) -> None:
        self.run_due_jobs()

    def run_due_jobs(self, kinds: Sequence[str] = ()) -> None:
        store, settings = self._context.store, self._context.settings
        every = settings.backup_every_minutes * store.capabilities.files
        now = self._context.clock.now() / 1000
        if not every or now < self._check_again:
            return
        self._check_again = now + 60
        folder = os.path.join(store.home, files.BACKUPS)
        try:
            last = os.stat(os.path.join(folder, files.BACKUP_STATE)).st_mtime
        except OSError:
            last = 0.0
        if not 0 <= now - last < every * 60:
            self._back_up(folder)

    def _back_up(self, folder: str) -> None:
        from forestay.journal import backup  # start-up

        clock, most = self._context.clock, self._context.settings.backup_keep
        try:
            backup.backup_if_due(self._context.store, folder, clock=clock, keep=most)
        except ForestayError as error:
            # The event is durable: a backup that fails must not look like an event that failed.
            self._context.notify(f"the hourly backup was not made: {error}")


class SyncJob(Follower):
    """Starts a sync in the background after something was recorded, if there is a remote."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._check_again = 0.0

    def after_append(self, session_id: str, events: Sequence[Event]) -> None:
        self.run_due_jobs([event.kind for event in events])

    def run_due_jobs(self, kinds: Sequence[str] = ()) -> None:
        now = self._context.clock.monotonic()
        is_urgent = not URGENT_KINDS.isdisjoint(kinds)
        if self._context.settings.auto_sync != "on" or (now < self._check_again and not is_urgent):
            return
        self._check_again = now + 1
        if self._context.store.machine.remotes.any():
            self._context.best_effort(lambda: self._request(now, is_urgent))

    def _request(self, now: float, is_urgent: bool) -> None:
        from forestay.sync import background  # start-up

        self._check_again = now + background.request_sync(self._context, is_urgent=is_urgent)


class RemoteErasure(Follower):
    """Erases copies outside the journal after another device erased events or a session."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def before_erasure(self, session_id: str) -> Callable[[], Sequence[str]]:
        from forestay.health import forget  # start-up

        finish = forget.prepare(self._context, session_id)
        return lambda: _remaining_files(finish())

    def resume_erasure(self, session_id: str) -> Sequence[str]:
        from forestay.health import forget  # start-up

        return _remaining_files(forget.catch_up(self._context, session_id))


def _remaining_files(done: Forgotten | None) -> Sequence[str]:
    return done.left if done else ()
