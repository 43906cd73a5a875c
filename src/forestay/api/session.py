"""One session. Its methods are named like the commands of the command line.

A method that returns has recorded what it describes, durably; one that raises has recorded
nothing. What belongs to one topic is grouped: `session.tasks.add(…)`, `session.agents.start(…)`.

Every recording method takes a `key`: called again with the same key it records nothing new and
returns what the first call recorded, so that a caller who does not know whether its call succeeded
can repeat it.
"""

from __future__ import annotations

from forestay.api.status import session_status
from forestay.api.values import SessionState, SessionStatus
from forestay.errors import InvalidInput
from forestay.journal.recorder import Recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from forestay.api.session_agents import Agents
    from forestay.api.session_disputes import Disputes
    from forestay.api.session_files import BoundFiles
    from forestay.api.session_lifecycle import Lifecycle
    from forestay.api.session_record import Record
    from forestay.api.session_tasks import Tasks
    from forestay.base.words import Format, PauseReason, Style
    from forestay.briefing.brief import Briefing
    from forestay.journal.context import Context
    from forestay.journal.history import Change, LogLine
    from forestay.journal.verify import Report
    from forestay.model.event import Body, Event
    from forestay.plans.essay_steps import Essay
    from forestay.plans.phases import Phases
    from forestay.plans.prove import Proofs
    from forestay.plans.revisit import Revisit


class Session:
    """A session of a home, by its id. Nothing is read until it is needed."""

    def __init__(self, context: Context, id: str, actor: str = "") -> None:
        self._recorder = Recorder(context, id, actor)
        self.was_open = False
        """Whether `Forestay.start` resumed this open session instead of starting another."""

    def __repr__(self) -> str:
        return f"<Session {self.id}>"

    @property
    def id(self) -> str:
        """The id of the session."""
        return self._recorder.id

    @property
    def context(self) -> Context:
        """What the engine works with: settings, clock, store, journal and workspace."""
        return self._recorder.context

    @property
    def repeated(self) -> bool:
        """Whether the last call found its `key` used: it recorded nothing new."""
        return self._recorder.repeated

    # -- topics --------------------------------------------------------------------------------

    @property
    def tasks(self) -> Tasks:
        """What is to be done, and how far it is."""
        from forestay.api.session_tasks import Tasks  # start-up

        return Tasks(self._recorder)

    @property
    def agents(self) -> Agents:
        """Agents that work on the session."""
        from forestay.api.session_agents import Agents  # start-up

        return Agents(self._recorder)

    @property
    def phases(self) -> Phases:
        """Phases of the workflow that it follows, with their gates."""
        from forestay.plans.phases import Phases  # start-up

        return Phases(self._recorder)

    @property
    def proofs(self) -> Proofs:
        """Commands that were run to prove something."""
        from forestay.plans.prove import Proofs  # start-up

        return Proofs(self._recorder)

    @property
    def revisit(self) -> Revisit:
        """Go back to an earlier step of the plan."""
        from forestay.plans.revisit import Revisit  # start-up

        return Revisit(self._recorder)

    @property
    def essay(self) -> Essay:
        """The essay that is written in the session."""
        from forestay.plans.essay_steps import Essay  # start-up

        return Essay(self._recorder)

    @property
    def record(self) -> Record:
        """Facts about the work: commands, files, artifacts, tokens, errors."""
        from forestay.api.session_record import Record  # start-up

        return Record(self._recorder)

    @property
    def files(self) -> BoundFiles:
        """Files of the session in the formats of other programs, and its artifacts."""
        from forestay.api.session_files import BoundFiles  # start-up

        return BoundFiles(self._recorder)

    @property
    def disputes(self) -> Disputes:
        """Fields to which devices of the user gave different values."""
        from forestay.api.session_disputes import Disputes  # start-up

        return Disputes(self._recorder)

    @property
    def lifecycle(self) -> Lifecycle:
        """Fail, abort or abandon the session; reopen, archive or erase it."""
        from forestay.api.session_lifecycle import Lifecycle  # start-up

        return Lifecycle(self._recorder)

    # -- everyday ------------------------------------------------------------------------------

    def note(self, text: str, *, for_next: bool = False, key: str = "") -> Event:
        """Save a note; with `for_next` it is the first thing in the next briefing."""
        from forestay.api.notes import add_note  # start-up

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
        """Record a decision with its reason; options not chosen are shown as rejected."""
        from forestay.api.notes import add_decision  # start-up

        return add_decision(
            self._recorder, what, because=because, options=options, chosen=chosen, key=key
        )

    def undo(self, event: str | int | None = None, *, because: str = "", key: str = "") -> Event:
        """Withdraw the last record, or a given event; undoing the undo restores it."""
        if event == "":
            raise InvalidInput("the event to undo is empty", why="perhaps a variable is empty")
        from forestay.journal.history import undo_targets  # start-up
        from forestay.model.event import EventRetracted  # start-up

        with self.context.store.view(self.id) as view:
            targets = undo_targets(list(self.context.journal.events(view)), str(event or ""))
        bodies = [EventRetracted(event=each.id, because=because) for each in targets]
        return self._recorder.record(*bodies, key=key)

    def pause(
        self,
        *,
        reason: PauseReason = "user_request",
        context: str = "",
        partial: dict[str, str] | None = None,
        key: str = "",
    ) -> Event:
        """Pause the session; `context` is what was being worked on.

        `partial` is unfinished work of an essay by file name. It is on disk before the session is
        recorded as paused; it is also stored for a session that is paused already.
        """
        from forestay.model.event import NoteAdded, SessionPaused  # start-up

        recorder = self._recorder
        body: Body = SessionPaused(reason=reason, context=context)
        if partial:
            from forestay.plans.essay_sessions import save_partial  # start-up

            kinds = SessionPaused, NoteAdded
            if done := recorder.called_before(key, lambda body: isinstance(body, kinds)):
                return done[-1]
            body = save_partial(recorder, partial, body)
        if self.context.store.machine.remotes.all():
            # Another device can continue the session: record which tools were used on this one.
            from forestay.sync.arrival import record_tools  # start-up

            if tools := record_tools(recorder):
                self.context.journal.append(self.id, *tools, actor=recorder.actor)
        return recorder.record(body, key=key)

    def complete(self, *, because: str = "", key: str = "") -> Event:
        """Record that the goal is reached."""
        from forestay.model.event import SessionCompleted  # start-up

        return self._recorder.record(SessionCompleted(because=because), key=key)

    def resume(
        self,
        *,
        budget: int | None = None,
        style: Style = "forestay",
        fmt: Format = "text",
        fenced: bool = True,
        key: str = "",
    ) -> Briefing:
        """Continue the session: record which processes died and that work resumes, make it the
        current one, and return the briefing.

        A session whose events are damaged is not resumed; the briefing describes the damage. One
        that only lost contents of artifacts or notes is resumed, and the briefing reports that.
        While its end is disputed, no resume is recorded: only `disputes.settle` settles that.
        """
        from forestay.api.briefing_context import resume  # start-up

        recorder = self._recorder
        return resume(recorder, budget=budget, style=style, fmt=fmt, fenced=fenced, key=key)

    def brief(
        self,
        *,
        budget: int | None = None,
        style: Style = "forestay",
        fmt: Format = "text",
        fenced: bool = True,
    ) -> Briefing:
        """Return a summary for the next agent, within a budget of tokens. Changes nothing.

        With `fenced`, text from the session is quoted so that a model does not follow it as
        instructions.
        """
        from forestay.api.briefing_context import survey_surroundings, write_brief  # start-up

        around = survey_surroundings(self._recorder, fenced=fenced)
        return write_brief(self._recorder, around, budget=budget, style=style, fmt=fmt)

    # -- reading -------------------------------------------------------------------------------

    def status(self) -> SessionStatus:
        """Return the status of the session: the same fields as `status --json`."""
        return SessionStatus(session_status(self.context, self.id))

    def show(self, at: str | int = "") -> SessionState:
        """Return the state now, or at an event number, an event id or a time.

        The state now includes edits in the session's files that are not recorded yet.
        """
        from forestay.mirror.session_files import SessionFiles  # start-up
        from forestay.model.fold import fold  # start-up
        from forestay.model.state import State  # start-up

        session_files = SessionFiles.of(self.context)
        if at or not (pending := session_files.pending(self.id)):
            return SessionState(fold(self._until(at)[0]))
        with self.context.store.view(self.id) as view:
            found = session_files.state(self.id, view, pending)
            state = State(found.core)
            state.core.events = view.seq  # edits that are not recorded have no number
            for table, key, row in found.rows.items():
                state.rows.put(table, key, row)
            return SessionState(state)

    def log(self, *, limit: int = -1, after: int = 0, full: bool = False) -> Iterator[LogLine]:
        """Return the events in order of arrival; with a `limit`, only the newest ones.

        A note that is too long for its event is cut; with `full`, it is returned whole.
        """
        from forestay.journal.history import log  # start-up
        from forestay.sync.device_names import whose  # start-up

        names, journal = whose(self.context), self.context.journal
        with self.context.store.view(self.id) as view:
            yield from log(journal, view, limit=limit, after=after, full=full, whose=names)

    def wait(self, after: int, timeout: float) -> bool:
        """Wait for an event with a number above `after`; return False on timeout."""
        return self.context.store.watch(self.id, after, timeout)

    def _until(self, *points: str | int) -> list[Sequence[Event]]:
        """Return the events that had arrived by each of these points."""
        from forestay.journal.history import events_until  # start-up

        with self.context.store.view(self.id) as view:
            events = list(self.context.journal.events(view))
        now, naive = self.context.clock.now(), self.context.settings.naive_time
        return [events_until(events, str(point), now, naive) for point in points]

    def diff(self, a: str | int, b: str | int = "") -> list[Change]:
        """Return what changed between two points of the session; see `show` for points."""
        from forestay.journal.history import diff_states  # start-up

        return diff_states(*self._until(a, b))

    def verify(self) -> Report:
        """Check every event, the chain ends, and everything derived against the journal."""
        return self.context.journal.verify(self.id)

    def export(
        self,
        path: str,
        *,
        overwrite: bool = False,
        partial: bool = False,
        to: Sequence[str] = (),
        passphrase: str = "",
    ) -> list[str]:
        """Write the session with its artifacts into one pack file.

        Missing content is an error; with `partial` it is left out, and its names are returned.
        With `to` (keys of persons or devices) or a `passphrase` the file is encrypted.
        """
        from forestay.base import files  # start-up
        from forestay.journal import backup  # start-up

        made = backup.export(
            self.context.journal, self.id, clock=self.context.clock, partial=partial
        )
        chunks = made.chunks
        if to or passphrase:
            from forestay.sync import sealed_export  # start-up

            chunks = iter([sealed_export.sealed(chunks, to=to, passphrase=passphrase)])
        (files.replace if overwrite else files.create)(path, chunks)
        return made.left_out

    def size(self) -> int:
        """Return how many bytes its events and stored artifacts have."""
        with self.context.store.view(self.id) as view:
            parts = (part or b"" for s in view.events() for part in (s.header, s.salt, s.data))
            events = sum(map(len, parts))
            state = self.context.journal.state(view)
            rows: list[Any] = state.rows.select("artifact") if state.count("artifact") else []
        return int(events + sum(row.size for row in rows if row.kept))
