"""Absorb edits of a session's files before each append to its journal, and write the files after.

Rooms above the mirror use it only through this module (`mirror_of`, `absorb_file_edits`,
`write_files`), so that a session without files never loads the mirror.

Writes are coalesced. A long-lived process writes files after the first event, and then at most once
in `SessionFiles.interval` seconds. Later events are written by the next append after that time,
when the mirror is used for anything else, and at close. A command writes once, at its end. There is
no thread and no timer. If a process ends before it wrote the files, the next one writes them: a
binding records the sequence number of the last event that its files show.
"""

from __future__ import annotations

from forestay.errors import InvalidInput, Refused
from forestay.journal.context import Follower

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from forestay.formats.port import Travel
    from forestay.formats.to_events import Move
    from forestay.journal.context import Context
    from forestay.journal.recorder import Recorder
    from forestay.mirror.mirror import Mirror
    from forestay.model.event import Body, Event
    from forestay.model.state import State
    from forestay.store.machine.bindings import Binding
    from forestay.store.port import View


WRITTEN_AT_ONCE = frozenset(
    """
    context.compressed
    session.paused session.completed session.failed session.aborted session.abandoned
    """.split()
)
"""The event kinds after which files are written before the call returns."""


class SessionFiles(Follower):
    """Keep the files of sessions equal to their journals.

    `finish_pending` does file work that a process left behind when it died; `device_name` and
    `sync_state` are what files show of other devices. `before_load` is called before the mirror is
    loaded, which takes a while.
    """

    interval = 0.1
    """The least number of seconds between two writes of files."""

    def __init__(
        self,
        context: Context,
        *,
        finish_pending: Callable[[str], None],
        device_name: Callable[[], str],
        sync_state: Callable[[str], Travel | None],
        before_load: Callable[[], None] | None = None,
    ) -> None:
        self._context = context
        self._finish_pending = finish_pending
        self._device_name = device_name
        self._sync_state = sync_state
        self._before_load = before_load
        self._mirror: Mirror | None = None
        self._finished: set[str] = set()
        self._unwritten: dict[str, None] = {}
        """Sessions whose files have to be written, in the order of their events."""
        self._write_at = 0.0
        """The time on the monotonic clock from which on they may be written."""

    @classmethod
    def of(cls, context: Context) -> SessionFiles:
        return context.follower(cls)

    @property
    def mirror(self) -> Mirror:
        """The mirror; files that still have to be written are written first."""
        self.finish()
        return self._loaded

    @property
    def _loaded(self) -> Mirror:
        if self._mirror is None:
            if self._before_load is not None:
                self._before_load()
            from forestay.mirror.context import MirrorContext  # start-up
            from forestay.mirror.mirror import Mirror  # start-up

            self._mirror = Mirror(
                MirrorContext(self._context, self._device_name(), self._sync_state)
            )
        return self._mirror

    def is_bound(self, session: str) -> bool:
        """Whether the session can have bound files; exact once the mirror is loaded."""
        return self._mirror is not None or self._context.store.machine.is_bound(session)

    def before_append(self, session_id: str, bodies: Sequence[Body], actor: str) -> None:
        self.absorb(session_id)

    def after_append(self, session_id: str, events: Sequence[Event]) -> None:
        kind = events[-1].kind
        if kind in WRITTEN_AT_ONCE or self._context.is_shared:
            self.write(session_id, kind)
        elif self.is_bound(session_id):
            now = self._context.clock.monotonic()
            if self._context.one_shot and not self._unwritten:
                self._write_at = now + self.interval
            self._unwritten[session_id] = None
            if now >= self._write_at:
                self.finish()

    def finish(self) -> None:
        """Write the files of all sessions that have events since their last write."""
        if self._unwritten:
            for session in list(self._unwritten):
                self.write(session)
            self._write_at = self._context.clock.monotonic() + self.interval

    def absorb(self, session: str, *, finish: bool = True) -> None:
        """Record what other programs wrote into the session's files; call it before any decision.

        File work that a process left behind when it died is done first, once for each session,
        unless `finish` is false.
        """
        if finish and session not in self._finished:
            self._finished.add(session)
            if self._context.store.machine.file_work.pending(session):
                self._context.best_effort(lambda: self._finish_pending(session))
        if self.is_bound(session):
            self._context.best_effort(lambda: self._absorb(session))

    def _absorb(self, session: str) -> None:
        if lines := self._loaded.absorb(session):
            self._notify(lines)
            self._context.run_due_jobs()

    def write(self, session: str, kind: str = "", *, force: bool = False) -> None:
        """Write what was recorded into the session's files; a failure is reported, not raised."""

        def write() -> None:
            self._notify(self._loaded.write(session, kind=kind, force=force))

        self._unwritten.pop(session, None)
        if self.is_bound(session):
            self._context.best_effort(write)

    def write_sync_state(self) -> None:
        """Write the files that show whether their sessions are synced with other devices."""
        from forestay.formats.port import conventions_of  # start-up

        every = self._context.store.machine.bindings.bindings()
        for session in dict.fromkeys(
            one.session for one in every if conventions_of(one.format).travels
        ):
            self.write(session)

    def pending(self, session: str) -> list[Move]:
        """Return the moves in edits of the session's files that are not absorbed yet."""
        return self._loaded.pending(session) if self.is_bound(session) else []

    def inspect_bindings(self, session: str) -> list[Binding]:
        """Return the session's bindings, with the reason if their files are suspended."""
        return self.mirror.inspect_bindings(session) if self.is_bound(session) else []

    def state(self, session: str, view: View, pending: Sequence[Move] | None = None) -> State:
        """Return the state of a session as it will be once the edits of its files are recorded."""
        pending = self.pending(session) if pending is None else pending
        if not pending:
            from forestay.journal.stored_state import load  # start-up

            return load(view)[0]
        journal = self._context.journal
        bodies, times = [move.body for move in pending], [move.at for move in pending]
        formats = " or ".join(binding.format for binding in self._loaded.bindings(session))
        try:
            return journal.preview(view, *bodies, actor=f"file:{formats}", at=times)
        except (InvalidInput, Refused):
            # A reader gets the recorded state; the next command that writes reports the error.
            return journal.state(view)

    def _notify(self, lines: Sequence[str]) -> None:
        for line in lines:
            self._context.notify(line)

    def close(self) -> None:
        self.finish()
        self._mirror = None


def mirror_of(context: Context) -> Mirror:
    return SessionFiles.of(context).mirror


def absorb_file_edits(context: Context, session: str) -> None:
    """Record what other programs wrote into the session's files; see `SessionFiles.absorb`."""
    SessionFiles.of(context).absorb(session)


def write_files(context: Context, session: str, kind: str = "", *, force: bool = False) -> None:
    """Write what was recorded into the session's files; see `SessionFiles.write`."""
    SessionFiles.of(context).write(session, kind, force=force)


def read_rows(recorder: Recorder, table: str) -> list[Any]:
    """Return the rows of a table of the state, including edits that are not absorbed yet."""
    context = recorder.context
    with context.store.view(recorder.id) as view:
        return list(read_state(context, recorder.id, view).rows.select(table))


def read_state(context: Context, session: str, view: View) -> State:
    """Return the state with edits that are not absorbed yet; see `SessionFiles.state`."""
    return SessionFiles.of(context).state(session, view)
