"""One session: every verb of the command line is a method of it, under the same name.

A method that returns has recorded what it says, durably; one that raises has recorded nothing.
Methods name the stations in order and stop there: what may be done is decided in `model.rules`,
how it is kept in `journal`, who else is there in `workspace`, what the next reader must know in
`model.brief`. Verbs that belong to one topic alone are in `verb`.

Every recording method takes a `key`: called again with the same key it records nothing new and
returns what the first call recorded, so that a caller who does not know whether its call went
through may simply repeat it.
"""

from __future__ import annotations

from forestay.api.session_essay import EssayVerbs
from forestay.api.session_plan import PlanVerbs
from forestay.api.session_settle import SettleVerbs
from forestay.api.status import count_waiting, look
from forestay.base import files
from forestay.errors import ForestayError, InvalidInput
from forestay.journal.presence import Presence
from forestay.journal.recorder import given, reason
from forestay.mirror.session_files import SessionFiles, absorb_file_edits, mirror_of, write_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType
    from typing import Any

    from forestay.briefing.brief import Briefing
    from forestay.briefing.sections import Fence, Surroundings
    from forestay.health.forget import Forgotten, Reach
    from forestay.journal.context import Context
    from forestay.journal.history import Change, LogLine
    from forestay.journal.verify import Report
    from forestay.mirror.recover import Case
    from forestay.model.event import Body, Event, NoteAdded
    from forestay.model.state import Agent, State
    from forestay.plans.inactivity import Idle
    from forestay.store.machine.bindings import Binding
    from forestay.store.machine.holders import Holder
    from forestay.store.port import View
    from forestay.sync.arrival import Put

MAX_NOTE = 1024 * 1024
_NOTE_IN_EVENT = 6000
_NO_MESSAGE = "no error message was given"
_ERROR = 2000
_AT_A_GLANCE = 1000
"""Events that are looked through in a millisecond or two."""

_FOR_OTHERS = 2.0
"""Seconds that another process may need to take up what hooks said."""


class Session(PlanVerbs, EssayVerbs, SettleVerbs):
    """A session of a home, by its id. Cheap to make: nothing is read until it is asked."""

    def __init__(self, context: Context, id: str, actor: str = "") -> None:
        super().__init__(context, id, actor)
        self.taken_up = False
        """Whether it was open already when it was to be started, and was resumed instead."""

    # -- what happened -------------------------------------------------------------------------

    def note(self, text: str, *, for_next: bool = False, key: str = "") -> Event:
        """Keep a remark; `for_next` puts it first in the next briefing."""
        from forestay.model.event import NoteAdded

        if len(text.encode("utf-8", "replace")) <= _NOTE_IN_EVENT:
            return self.record(NoteAdded(text=text, for_next=for_next), key=key)
        body, data = self._spill(text, for_next)
        return self.record(body, key=key, blobs=[(body.blob, data)])

    def _spill(self, text: str, for_next: bool) -> tuple[NoteAdded, bytes]:
        """A long note as a preview, and its text whole, secrets taken out of both."""
        from forestay.base.hashing import sha256
        from forestay.base.text import clean_input
        from forestay.model.event import NoteAdded

        clean = clean_input(text, "text", limit=MAX_NOTE, lines=True)
        # Before it is cut: half a secret is not recognized as one.
        kept, names = self.context.journal.redact(clean), self.context.journal.find_secrets(clean)
        data = kept.encode()
        body = NoteAdded(
            text=kept[:1000].strip(),
            for_next=for_next,
            blob=sha256(data).hexdigest(),
            size=len(data),
            redacted=sorted(set(names)),
        )
        return body, data

    def decide(
        self,
        what: str,
        *,
        because: str = "",
        options: Sequence[str] = (),
        chosen: str = "",
        key: str = "",
    ) -> Event:
        """Keep a decision with its reason; the options not chosen stay known as rejected."""
        from forestay.base.text import short_name
        from forestay.model.event import DecisionMade

        body = DecisionMade(
            decision=short_name(self.context.journal.redact(what)),
            what=what,
            because=because,
            options=list(options),
            chosen=chosen,
        )
        return self.record(body, key=key)

    def error(
        self, message: str, *, category: str = "logical", agent: str = "", key: str = ""
    ) -> Event:
        """Keep an error, in one of the five categories."""
        from forestay.model.event import ErrorRaised

        return self.record(ErrorRaised(message=message, category=category, agent=agent), key=key)

    def command(
        self,
        name: str,
        *,
        arguments: str = "",
        status: str = "success",
        duration_ms: int | None = None,
        error: str = "",
        agent: str = "",
        task: str = "",
        model: str = "",
        key: str = "",
    ) -> Event:
        """Keep that a command ran and how it ended; a failure always has an error message."""
        from forestay.model.event import CommandRan

        if status == "failure" and not error:
            error = _NO_MESSAGE
        body = CommandRan(
            name=name,
            arguments=arguments,
            status=status,
            duration_ms=duration_ms,
            error=error,
            agent=agent,
            task=task,
            model=model,
        )
        event = self.record(body, key=key)
        self._tell_of_model(model)
        return event

    def file(
        self,
        path: str,
        *,
        action: str = "",
        agent: str = "",
        added: int | None = None,
        removed: int | None = None,
        before: str = "",
        after: str = "",
        key: str = "",
    ) -> Event:
        """Keep that a file changed; what is not given is worked out from the file and git."""
        import os

        from forestay.model.event import FileChanged
        from forestay.workspace.file_changes import complete_change

        inside = self._inside(path)
        given = FileChanged(
            path=inside,
            action=action,
            agent=agent,
            added=added,
            removed=removed,
            before=before,
            after=after,
        )
        with self.context.store.view(self.id) as view:
            known = self.context.journal.state(view).rows.get("file", inside)
        tree = self.context.workspace.tree
        body, (stamp, digest) = complete_change(given, tree, known, self.context.clock.now())
        event = self.record(body, key=key)
        # A path that was redacted must not be kept beside its event either.
        if stamp and getattr(event.body, "path", "") == inside:
            full, seen = os.path.join(tree.root, inside), self.context.store.machine.seen_files
            self.context.best_effort(lambda: seen.record(self.id, full, stamp, digest))
        return event

    def artifact(self, path: str, *, key: str = "") -> Event:
        """Keep a file's content with the session; one that holds secrets only by its digest."""
        from forestay.workspace.file_changes import build_artifact

        body, blobs = build_artifact(
            path, self.context.workspace.tree, self.context.journal.find_secrets
        )
        return self.record(body, key=key, blobs=blobs)

    def tokens(self, count: int, *, agent: str = "", key: str = "") -> Event:
        """Keep how many tokens the context (of an agent) holds now."""
        from forestay.model.event import ContextMeasured

        return self.record(ContextMeasured(tokens=count, agent=agent), key=key)

    def compressed(self, summary: str = "", *, key: str = "") -> Event:
        """Keep that the agent's context was compressed."""
        from forestay.model.event import ContextCompressed

        return self.record(ContextCompressed(summary=summary), key=key)

    def rename(self, goal: str, *, key: str = "") -> Event:
        """Give the session another goal."""
        from forestay.model.event import SessionRenamed

        return self.record(SessionRenamed(goal=goal), key=key)

    def model(self, name: str, *, key: str = "") -> Event:
        """Keep which model works on the session."""
        event = self.attr("model", name, key=key)
        self._tell_of_model(name)
        return event

    def _tell_of_model(self, name: str) -> None:
        """Say so where its files cannot name a model: the contract has a list of its own."""
        if not name or not self.context.store.machine.is_bound(self.id):
            return
        from forestay.formats.ai_session.format import FORMAT, refuses

        why = refuses(name)
        if why and any(
            one.layout == FORMAT.id for one in self.context.store.machine.bindings.bindings(self.id)
        ):
            self.context.notify(
                f"its {FORMAT.id} files keep the last model that they may name: {why}"
            )

    def attr(self, name: str, value: str | int | float | bool | None, *, key: str = "") -> Event:
        """Set an attribute of your own."""
        from forestay.model.event import AttributeSet

        return self.record(AttributeSet(key=name, value=value), key=key)

    def undo(self, event: str | int | None = None, *, because: str = "", key: str = "") -> Event:
        """Withdraw what was recorded last, or with the event named; undoing that brings it back."""
        if event == "":
            raise InvalidInput("no event is named", why="an empty variable, perhaps")
        from forestay.journal.history import undo_targets
        from forestay.model.event import EventRetracted

        with self.context.store.view(self.id) as view:
            taken = undo_targets(list(self.context.journal.events(view)), str(event or ""))
        bodies = [EventRetracted(event=each.id, because=because) for each in taken]
        return self.record(*bodies, key=key)

    # -- agents --------------------------------------------------------------------------------

    def agent(self, id: str, *, type: str = "", task: str = "", blocking_on: str = "") -> AgentRun:
        """An agent's run, for a `with`: started on entry, done or failed on exit."""
        named = Session(self.context, self.id, actor=f"agent:{id}")
        return AgentRun(named, id, type=type, task=task, blocking_on=blocking_on)

    def agent_start(
        self,
        id: str,
        *,
        type: str = "",
        task: str = "",
        blocking_on: str = "",
        pid: int | None = None,
        key: str = "",
    ) -> Event:
        """An agent begins; with its `pid`, its death will be noticed."""
        from forestay.model.event import AgentStarted

        if pid is not None:
            _require_own_process(pid)
        body = AgentStarted(agent=id, type=type, task=task, blocking_on=blocking_on)
        event = self.record(body, key=key)
        if pid is not None:
            doing, name = self.context.journal.redact(task), self.context.journal.redact(id)
            self.context.best_effort(
                lambda: Presence.of(self.context).introduce(self.id, name, doing, pid)
            )
        return event

    def agent_progress(self, id: str, fraction: float, *, key: str = "") -> Event:
        """How far an agent is, from 0 to 1."""
        from forestay.model.event import AgentProgressed

        return self.record(AgentProgressed(agent=id, fraction=fraction), key=key)

    def agent_done(
        self,
        id: str,
        *,
        result: str = "",
        created: Sequence[str] = (),
        modified: Sequence[str] = (),
        deleted: Sequence[str] = (),
        key: str = "",
    ) -> Event:
        """An agent has finished its work."""
        from forestay.model.event import AgentFinished

        body = AgentFinished(
            agent=id,
            result=result,
            created=[self._inside(path) for path in created],
            modified=[self._inside(path) for path in modified],
            deleted=[self._inside(path) for path in deleted],
        )
        return self._agent_ends(id, body, key)

    def agent_fail(self, id: str, error: str, *, category: str = "logical", key: str = "") -> Event:
        """An agent failed, with an error of one of the five categories."""
        from forestay.model.event import AgentFailed

        failed = AgentFailed(agent=id, error=given(error, "an error", "--error"), category=category)
        return self._agent_ends(id, failed, key)

    def agent_timeout(self, id: str, *, error: str = "", key: str = "") -> Event:
        """An agent took longer than it may."""
        from forestay.model.event import AgentTimedOut

        return self._agent_ends(id, AgentTimedOut(agent=id, error=error), key)

    def agent_retry(self, id: str, *, key: str = "") -> Event:
        """A failed agent runs again."""
        from forestay.model.event import AgentRetried

        return self.record(AgentRetried(agent=id), key=key)

    def agent_list(self) -> list[Agent]:
        """Every agent in the order they came up, with its status."""
        return self._rows("agent")

    def _agent_ends(self, id: str, body: Body, key: str) -> Event:
        event = self.record(body, key=key)
        name = self.context.journal.redact(id)
        held = [h for h, _ in self.context.workspace.holders(self.id) if h.agent == name]
        self.context.best_effort(lambda: self.context.workspace.release(held))
        return event

    # -- layout files --------------------------------------------------------------------------

    def layouts_add(self, format_id: str, *, root: str = "") -> Binding:
        """Keep the session's files of a layout here too: `craft`, or `craft:ID`."""
        from forestay.formats.port import spelled
        from forestay.plans.pending_file_ops import give_place

        mirror, format_id = mirror_of(self.context), spelled(format_id)
        with mirror.holding(root or mirror.root_of(format_id.partition(":")[0])):
            place = give_place(self.context, self.id, format_id, root)
            write_files(self.context, self.id, force=True)
        made = (place.layout, place.native, place.root)
        known = self.layouts_list()
        return next((b for b in known if (b.layout, b.native, b.root) == made), place)

    def layouts_remove(self, format_id: str) -> list[Binding]:
        """Let the files of a layout be; they stay as they are."""
        from forestay.formats.port import spelled

        kind, _, native = spelled(format_id).partition(":")
        has = (b for b in self.layouts_list() if b.layout == kind)
        found = [b for b in has if native in ("", b.native)]
        for binding in found:
            mirror_of(self.context).unbind(binding)
        return found

    def layouts_update(
        self, *, task: str = "", model: str = "", status: str = "", key: str = ""
    ) -> Event:
        """Set the task at work (`none`: no task is), the model or the status (active, paused,
        completed), together.

        Where the session has files of the ai-session layout, only its models are allowed.
        """
        named = [b.native for b in self.layouts_list() if b.layout == "ai-session"]
        try:
            bodies = self._to_update(task, model, status, bound=bool(named))
        except InvalidInput as error:
            error.session = next(iter(named), self.id)
            raise
        return self.record(*bodies, key=key)

    def _to_update(self, task: str, model: str, status: str, *, bound: bool) -> list[Body]:
        from forestay.formats.ai_session.format import refuses

        if model and bound and (why := refuses(model)):
            raise InvalidInput(f"the model cannot be {model}", why=why)
        absorb_file_edits(self.context, self.id)
        bodies = [*self._to_task(task), *self._to_model(model), *self._to_status(status)]
        if not bodies:
            raise InvalidInput(
                "nothing would change",
                hint="forestay files update --task ID --model NAME --status WORD",
            )
        return bodies

    def _to_task(self, task: str) -> list[Body]:
        from forestay.model.event import AttributeSet, StepStarted

        if not task:
            return []
        rows = {getattr(row, "id", ""): row for row in self.state().rows.select("step")}
        if task == "none" and task not in rows:
            return [AttributeSet(key="position", value=None)]
        if task not in rows:
            raise InvalidInput(
                f"there is no task {task}", hint=f'forestay task add "…" --id {task}'
            )
        runs = getattr(rows[task], "status", "") == "running"
        begin: list[Body] = [] if runs else [StepStarted(step=task)]
        return [*begin, AttributeSet(key="position", value=task)]

    def _to_model(self, model: str) -> list[Body]:
        from forestay.model.event import AttributeSet

        return [AttributeSet(key="model", value=model)] if model else []

    def _to_status(self, status: str) -> list[Body]:
        from forestay.model.event import SessionCompleted, SessionPaused, SessionResumed

        now = self.state().core.status
        moves: dict[str, Body] = {
            "active": SessionResumed(),
            "paused": SessionPaused(),
            "completed": SessionCompleted(),
        }
        if status and status not in moves:
            raise InvalidInput(f"the status cannot be {status}", why=f"one of {', '.join(moves)}")
        return [moves[status]] if status and status != now else []

    def layouts_restore(self, format_id: str = "") -> list[Case]:
        """Write damaged or missing files of the session anew; what was there is kept beside."""
        from forestay.formats.port import require_known, spelled
        from forestay.mirror import recover

        if format_id:
            require_known(format_id := spelled(format_id))
        found = [c for c in recover.cases(self.context, self.id) if format_id in ("", c.layout)]
        done = [recover.restore(self.context, case) for case in found]
        write_files(self.context, self.id, force=True)
        return done

    def layouts_list(self) -> list[Binding]:
        """Where the session's files are kept beside the journal, and why some are left alone."""
        return SessionFiles.of(self.context).standing(self.id)

    # -- the life of the session ---------------------------------------------------------------

    def pause(
        self,
        *,
        reason: str = "user_request",
        context: str = "",
        partial: dict[str, str] | None = None,
        key: str = "",
    ) -> Event:
        """Lay the session aside, with what was being worked on.

        `partial` is unfinished work of an essay by file name. It is on disk before anything says
        that the session is paused; a session that is paused already takes it, too.
        """
        from forestay.model.event import NoteAdded, SessionPaused

        body: Body = SessionPaused(reason=reason, context=context)
        if partial:
            from forestay.plans.essay_sessions import save_partial

            if done := self.called_before(key, lambda b: isinstance(b, SessionPaused | NoteAdded)):
                return done[-1]
            body = save_partial(self, partial, body)
        self._tell_tools()
        return self.record(body, key=key)

    def _tell_tools(self) -> None:
        """Before others may take it up elsewhere: what it was worked on with."""
        if self.context.store.machine.remotes.all():
            from forestay.sync.arrival import record_tools

            if told := record_tools(self):
                self.context.journal.append(self.id, *told, actor=self.actor)

    def complete(self, *, because: str = "", key: str = "") -> Event:
        """The goal is reached."""
        from forestay.model.event import SessionCompleted

        return self.record(SessionCompleted(because=because), key=key)

    def fail(self, *, because: str = "", key: str = "") -> Event:
        """The session failed; it may be resumed."""
        from forestay.model.event import SessionFailed

        return self.record(SessionFailed(because=because), key=key)

    def abort(self, *, because: str = "", key: str = "") -> Event:
        """Stop for good. Nothing leads back; everything stays readable."""
        from forestay.model.event import SessionAborted

        return self.record(SessionAborted(because=because), key=key)

    def abandon(self, *, because: str = "", key: str = "") -> Event:
        """Give up on it; it may be reopened."""
        from forestay.model.event import SessionAbandoned

        return self.record(SessionAbandoned(because=because), key=key)

    def reopen(self, because: str, *, key: str = "") -> Event:
        """Take up a completed or abandoned session again, for a reason."""
        from forestay.model.event import SessionReopened

        return self.record(SessionReopened(because=reason(because)), key=key)

    def archive(self, *, key: str = "") -> Event:
        """Put a finished session out of the way; nothing is deleted."""
        from forestay.model.event import SessionArchived

        return self.record(SessionArchived(), key=key)

    def unarchive(self, *, key: str = "") -> Event:
        """Bring an archived session back into the list."""
        from forestay.model.event import SessionArchived

        return self.record(SessionArchived(archived=False), key=key)

    def forget(self, *events: str | int, because: str = "", force: bool = False) -> Forgotten:
        """Erase everything the session says, for good; or only what some of its events say.

        What remains is that it existed: ids, kinds and times, so that no old copy brings it back.
        It goes from the store, this home's backups, the session's files and whatever was set
        aside; `left` of the answer are files that may still hold some of it. Files that others
        wrote into stay, unless `force` is given. A session without some events goes on.
        """
        from forestay.health import forget as health_forget

        if count_waiting(self.context):
            # What its agent reported before this goes with it, and begins no other session.
            from forestay.agents.ingest import ingest

            self.context.best_effort(lambda: ingest(self.context, wait=_FOR_OTHERS))
        if not events:
            done = health_forget.forget(self.context, self.id, actor=self.actor, force=force)
        else:
            names = [str(event) for event in events]
            health_forget.require_names(names)
            absorb_file_edits(self.context, self.id)
            actor = self.actor
            done = health_forget.forget_events(
                self.context, self.id, names, actor=actor, because=because
            )
        # What travelled is erased where it lies only by a push.
        self.context.run_due_jobs("session.forgotten")
        return done

    def forgettable(self, *events: str | int) -> list[Event]:
        """The events that `forget` would erase; refuses as it would."""
        from forestay.health import forget as health_forget

        return health_forget.chosen(self.context, self.id, [str(event) for event in events])

    def reach(self, *, force: bool = False) -> Reach:
        """Where the session lies beside the store: what `forget` would look through."""
        from forestay.health import forget as health_forget

        return health_forget.reach(self.context, self.id, force=force)

    # -- picking it up -------------------------------------------------------------------------

    def resume(
        self,
        *,
        budget: int | None = None,
        style: str = "forestay",
        fmt: str = "text",
        fenced: bool = True,
        key: str = "",
    ) -> Briefing:
        """Take the session up: notes who died, records the resume, makes it current, briefs.

        A session whose events are damaged is not resumed; the briefing says what is wrong. One
        that lost content beside them is, and the briefing says so too. While its end is disputed,
        no resume is recorded: that would settle it, and only `settle` does.
        """
        from forestay.api.briefing_context import moves_of_resume
        from forestay.api.followers import Inactivity  # start-up
        from forestay.briefing.brief import check_request

        check_request(self._budget(budget), style, fmt)
        absorb_file_edits(self.context, self.id)
        self.context.follower(Inactivity).check(self.id, self.actor)
        # Before the resume is recorded, so that what changed since the last work still shows.
        around = self.look(fenced=fenced)
        if not (around.damage and self._has_damaged_events()):
            died = self._died()
            if moves := moves_of_resume(self, died):
                recorded = self.context.journal.append(self.id, *moves, actor=self.actor, key=key)
                self.repeated = recorded.repeated
            if not self.repeated:  # else nobody was told of these deaths yet
                self.context.best_effort(lambda: self.context.workspace.release(died))
            self.context.best_effort(lambda: self.context.workspace.choose(self.id))
            self.context.best_effort(lambda: Presence.of(self.context).register_process(self.id))
            write_files(self.context, self.id)
            self.context.run_due_jobs()
        return self._brief(around, budget, style, fmt)

    def artifact_restore(self, *, force: bool = False) -> list[Put]:
        """Write the artifacts that came with the session into this project.

        A file that is there and differs is left as it is, unless forced. Hidden files that a tool
        might run something by are never written, nor is what lies outside the project.
        """
        from forestay.sync.arrival import restore

        return restore(self, force=force)

    def artifact_write(self, path: str, to: str, *, overwrite: bool = False) -> int:
        """Write what is kept of an artifact to any file; returns how many bytes it has.

        Without `overwrite` that file must not be there yet.
        """
        from forestay.sync.arrival import write

        return write(self, path, to, overwrite=overwrite)

    def brief(
        self,
        *,
        budget: int | None = None,
        style: str = "forestay",
        fmt: str = "text",
        fenced: bool = True,
        around: Surroundings | None = None,
    ) -> Briefing:
        """What the next reader must know, within a budget of tokens. Changes nothing.

        `fenced` quotes the session's own words so that a model cannot take them for orders.
        `around` is what a `look` saw, if that was before something that should not count.
        """
        return self._brief(around or self.look(fenced=fenced), budget, style, fmt)

    def look(self, *, fenced: bool = True) -> Surroundings:
        """What is around the session now: who is at work, who died, what changed underneath."""
        from forestay.api.briefing_context import survey

        damage = self.damage()
        with self.context.store.view(self.id) as view:
            state = self._state(view)
            return survey(self, state, died=self._died(), damage=damage, fenced=fenced)

    def _brief(self, around: Surroundings, budget: int | None, style: str, fmt: str) -> Briefing:
        from msgspec.structs import replace

        from forestay.base.text import DEAREST_FENCE
        from forestay.briefing.brief import brief, estimate
        from forestay.briefing.sections import AMPLE
        from forestay.briefing.token_estimate import cost

        with self.context.store.view(self.id) as view:
            around.seq = view.seq
            state = self._state(view)
            if self._budget(budget) >= AMPLE:
                self._look_back(around, state, view, self._budget(budget))
            fence = around.fence if fmt != "json" else None
            found = brief(
                state,
                around,
                budget=self._budget(budget),
                style=style,
                fmt=fmt,
                reserve=cost(DEAREST_FENCE) if fence else 0,
            )
        if fence is None:
            return found
        text = self._fenced(fence, found.text)
        return replace(found, text=text, tokens=estimate(text), budget=self._budget(budget))

    def _look_back(self, around: Surroundings, state: State, view: View, budget: int) -> None:
        """Where there is room for more than the state's last few lines, read the journal."""
        from forestay.journal.history import recent_lines

        if any(
            map(state.count, ("notes", "command.success", "command.failure", "command.unknown"))
        ):
            # No token holds more than three plain characters by the estimate.
            around.notes, around.commands = recent_lines(self.context.journal, view, 3 * budget)

    def _fenced(self, fence: Fence, text: str) -> str:
        """The whole briefing is data for a model, not only what it quotes."""
        return fence(text.rstrip("\n"), "", "", True)

    def _budget(self, asked: int | None) -> int:
        return self.context.settings.brief_budget if asked is None else asked

    def _died(self) -> list[Holder]:
        return [h for h, word in self.context.workspace.holders(self.id) if word == "dead"]

    def damage(self) -> list[str]:
        """What is wrong with the session's events, in words, or else with the content kept beside
        them; empty when all is sound."""
        journal = self.context.journal
        with self.context.store.view(self.id) as view:
            findings = journal.check_chain(view) or journal.check_content(view)
        return [finding.what for finding in findings]

    def _has_damaged_events(self) -> bool:
        with self.context.store.view(self.id) as view:
            return bool(self.context.journal.check_chain(view))

    def looks_damaged(self) -> bool:
        """Whether damage shows at a glance; a long session is left to `damage` and `verify`."""
        with self.context.store.view(self.id) as view:
            if view.seq > _AT_A_GLANCE:
                return bool(view.lost())
            return bool(self.context.journal.check_chain(view))

    # -- looking -------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Where the session stands, from the catalogue: the same fields as `status --json`."""
        return look(self.context, self.id)

    def size(self) -> int:
        """How many bytes the session holds: its events, and the artifacts kept with it."""
        with self.context.store.view(self.id) as view:
            parts = (part or b"" for s in view.events() for part in (s.header, s.salt, s.data))
            events = sum(map(len, parts))
            state = self.context.journal.state(view)
            rows: list[Any] = state.rows.select("artifact") if state.count("artifact") else []
        return int(events + sum(row.size for row in rows if row.kept))

    def others(self) -> list[tuple[Holder, str]]:
        """Return the other processes that hold it, each with "alive", "dead" or "unknown"."""
        return Presence.of(self.context).others(self.id)

    def expiry(self) -> Idle:
        """How long nobody worked on it and what that means; with the choices once it matters."""
        from forestay.plans import inactivity

        return inactivity.look(self)

    def log(self, *, limit: int = -1, after: int = 0, full: bool = False) -> Iterator[LogLine]:
        """Events in order of arrival; with a limit, the newest so many.

        With `full`, a note that is too long for its event is there whole.
        """
        from forestay.journal.history import log
        from forestay.sync.device_names import whose

        named, journal = whose(self.context), self.context.journal
        with self.context.store.view(self.id) as view:
            yield from log(journal, view, limit=limit, after=after, full=full, whose=named)

    def follow(self, after: int, timeout: float) -> bool:
        """Wait until there is an event beyond `after`; False when time ran out."""
        return self.context.store.watch(self.id, after, timeout)

    def _workflow(self) -> str:
        """The workflow it follows, as far as it can be read; for who needs no more of the state."""
        try:
            with self.context.store.view(self.id) as view:
                return self.context.journal.state(view).core.workflow
        except ForestayError:
            return ""

    def state(self, at: str | int = "") -> State:
        """The state now, or as it was at an arrival number, an event or a time."""
        from forestay.model.fold import fold

        return fold(self._until(at)[0])

    def show(self, at: str | int = "") -> State:
        """The same; now with what others wrote into its files and nobody has taken up yet."""
        from forestay.model.state import State

        if at or not (written := SessionFiles.of(self.context).pending(self.id)):
            return self.state(at)
        with self.context.store.view(self.id) as view:
            found = SessionFiles.of(self.context).state(self.id, view, written)
            made = State(found.core)
            made.core.events = view.seq  # what nobody recorded has no number
            for table, key, row in found.rows.items():
                made.rows.put(table, key, row)
            return made

    def _until(self, *points: str | int) -> list[Sequence[Event]]:
        """What had arrived by each of these points."""
        from forestay.journal.history import events_until

        with self.context.store.view(self.id) as view:
            events = list(self.context.journal.events(view))
        now, naive = self.context.clock.now(), self.context.settings.naive_time
        return [events_until(events, str(point), now, naive) for point in points]

    def diff(self, a: str | int, b: str | int = "") -> list[Change]:
        """What changed between two points of the session."""
        from forestay.journal.history import diff_states

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

        Content that is gone is an error; with `partial` it is left out, and what is returned.
        With `to` (keys of persons or devices) or a `passphrase` nobody else can read the file.
        """
        from forestay.journal import backup

        made = backup.export(
            self.context.journal, self.id, clock=self.context.clock, partial=partial
        )
        chunks = made.chunks
        if to or passphrase:
            from forestay.sync import sealed_export

            chunks = iter([sealed_export.sealed(chunks, to=to, passphrase=passphrase)])
        (files.replace if overwrite else files.create)(path, chunks)
        return made.left_out


class AgentRun:
    """An agent at work, for a `with`: `session` records in its name, and so is its end."""

    def __init__(self, session: Session, id: str, *, type: str, task: str, blocking_on: str):
        self.id = id
        self._session = session
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
            self._session.context.notify(line)

    def _told(self, error: BaseException) -> str:
        from forestay.base.text import coerce_input, terminal

        try:
            text = f"{type(error).__name__}: {error}"
        except Exception:
            # Its own words cannot be had; that it happened is worth keeping.
            text = type(error).__name__
        text = terminal(text, newlines=True)
        return coerce_input(self._session.context.journal.redact(text), limit=_ERROR, lines=True)

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


def _require_own_process(pid: int) -> None:
    """Refuse what cannot be the process of one agent: whoever descends from it is taken for it."""
    import os

    from forestay.base.process import INIT, identity

    if pid == INIT and os.getpid() != INIT:
        raise InvalidInput(
            f"process {pid} is not the process of an agent",
            why="every process descends from it, so all they record would go to this session",
            hint="name the agent's own process, or leave --pid out",
        )
    if identity(pid) is None:
        raise InvalidInput(f"there is no process {pid}", why="nothing was recorded")
