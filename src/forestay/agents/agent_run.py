"""One conversation of an agent: which session it works on, and which events it records.

A conversation (a *run*, known by the agent's own id) stays with its session. A new run joins the
open session of its folder, unless another process works on it; if there is none, the first prompt
starts a session whose goal is the first sentence of that prompt. After a session has ended, the
next prompt starts another one that links to it.

A tool call is *in flight* until its answer arrives: only the answer becomes an event. Calls in
flight are also what the holder of the run's process shows as its current activity: if the process
dies, they have an unknown outcome. Every recorded event has a key derived from the payload, so
that a repeated payload, or two hooks that report the same thing, make one event.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from forestay.agents import shell_changes
from forestay.agents.hook_event import HookEvent, Todo, make_goal, user_prompt
from forestay.agents.shell_changes import complete_change, has_other_line_ends
from forestay.agents.tool_calls import SENDS, status_events
from forestay.base.clock import derived_id
from forestay.base.config import child_environment
from forestay.base.process import ProcessId, ancestors
from forestay.base.text import terminal
from forestay.base.vocabulary import FINISHED
from forestay.errors import ForestayError, InvalidInput, Refused
from forestay.journal.deaths import event_of_deaths
from forestay.journal.journal import ExternalEvents
from forestay.journal.recorder import Recorder
from forestay.mirror.session_files import absorb_file_edits, write_files
from forestay.model import event as ev
from forestay.model.event import Body
from forestay.model.state import CHECKOUT, File, State
from forestay.store.machine.agent_runs import Flight, Run, RunChange
from forestay.store.machine.holders import IDLE, Holder
from forestay.store.machine.projects import TreeRecord
from forestay.workspace.current_session import is_open
from forestay.workspace.tree import relative

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.journal.context import Context
    from forestay.journal.journal import Maker
    from forestay.workspace.tree import Seen

    OnStart = Callable[[Recorder, HookEvent], None]

NO_PROMPT = "(no prompt yet)"
"""The goal of a session in which work was reported before any prompt."""

_REPEAT_MS = 10_000
_KNOWN_FILES = 200
_UNKNOWN = "not found"
_AGENT_ENDS = (ev.AgentFinished, ev.AgentFailed, ev.AgentTimedOut)
"""Events that end a sub-agent. Some agents report them only in the answer to its first call."""


class Received(Struct, frozen=True):
    """A parsed payload, when it arrived, and the process that sent it ("" if unknown)."""

    name: str
    hook: HookEvent
    at: int
    process: str
    digest: str

    @property
    def key(self) -> str:
        """The idempotency key: an event that is reported several times is recorded once."""
        hook = self.hook
        own = hook.key or f"{self.digest} {self.process}"
        if hook.what in ("start", "end") or not (hook.key or hook.dated):
            # Within a few seconds it is a repeated report; later it is another event.
            own += f" {self.at // _REPEAT_MS}"
        return f"hook {hook.agent} {hook.native} {hook.what} {own}"


class RunRecorder:
    """Records the payloads of one run: `apply` each in order, then `save` them together."""

    def __init__(
        self,
        context: Context,
        received: Received,
        change: RunChange,
        on_start: OnStart | None = None,
    ) -> None:
        hook = received.hook
        self._home_context = context
        found = context.store.machine.agent_runs.find(hook.agent, hook.native)
        self.run = found or Run(hook.agent, hook.native, began=received.at)
        self.run.folder = hook.cwd or self.run.folder
        self._actor = f"hook:{hook.agent}"
        self._context = context.seen_from(self.run.folder or os.sep, self._actor)
        self._change, self._on_start = change, on_start
        self._pending: list[ExternalEvents] = []
        self._blobs: list[tuple[str, bytes]] = []
        self._tree: TreeRecord | None = None
        self._answered: set[str] = set()
        self._unredacted: set[str] = set()
        self._exit_codes: dict[str, tuple[int, int | None]] | None = None
        self._status, self._goal = self._status_and_goal(self.run.session)
        if self._status == _UNKNOWN:
            # The session was erased, or the process that chose it died before it recorded anything.
            self.run.session = self._status = ""
        self._is_new = self._has_ended = False
        self._is_idle: bool | None = None
        self._holders: dict[str, Holder] | None = None
        self._seen: dict[str, Seen] = {}
        self.shell: tuple[Received, int] | None = None
        """The last finished shell command, and when the first of the unscanned ones began."""

    # -- payloads ------------------------------------------------------------------------------

    def apply(self, received: Received) -> None:
        """Add the events of one payload; nothing is recorded until `save`."""
        hook = received.hook
        run, process = self.run, received.process
        run.last = max(run.last, received.at)
        run.transcript = hook.transcript or run.transcript
        if process and process != run.process:
            # What the previous process left unfinished is known from its holder.
            run.process, run.flights = process, {}
        if hook.what == "start":
            self._handle_start(received)
        elif hook.what == "prompt" and user_prompt(hook):
            self._handle_prompt(received, user_prompt(hook))
        if hook.what != "other":
            self._is_idle = hook.what == "turn_end" and not hook.by
        if hook.bodies or hook.todo:
            if not run.session or self._status == "aborted":
                self._start_session(received, NO_PROMPT, run.session)
            elif self._status in ("paused", "failed", "created"):
                self._add(f"{received.key} resumed", [ev.SessionResumed()], received.at)
                self._status = "active"
        self._add_bodies(received)
        if act := self._HANDLERS.get(hook.what):
            act(self, received)
        for over in (m for m in hook.bodies if isinstance(m, _AGENT_ENDS)):
            self._remove_agent(over.agent)
        if hook.todo is not None and run.session:
            made = _make_todo_changes(hook.todo, hook.by)
            self._add_later(f"{received.key} todo", made, received.at)

    def _handle_start(self, received: Received) -> None:
        run, source = self.run, received.hook.source
        if source == "fork":
            self._fork(received)
        elif not run.session:
            here, process = "", run.process
            if source == "clear" and process:  # the process continues the session it worked on
                here = self._context.store.machine.agent_runs.last_of(run.agent, process)
            here = self._if_open(here) or self._open_session_here()
            if here and not self._other_live_holders(here):
                run.session = here
                self._status, self._goal = self._status_and_goal(here)
        if not run.session or self._is_new:
            return
        if self._on_start is not None:
            # Called before anything is recorded, so that earlier drift is still visible.
            self._on_start(Recorder(self._context, self.run.session), received.hook)
        if source != "compact" and self._status not in FINISHED:
            held = self._context.workspace.holders(self.run.session)
            died = [holder for holder, word in held if word == "dead"]
            if found := event_of_deaths(died, self._status):
                self._add(f"{received.key} died", [found], received.at)
            self._change.gone += died
            branch, commit = self._checkout()
            resumed = ev.SessionResumed(git_branch=branch, git_commit=commit)
            self._add(f"{received.key} resumed", [resumed], received.at)
            self._status, self._tree = "active", self._tree_record()

    def _fork(self, received: Received) -> None:
        """Start a session for a forked conversation, linked to the original one."""
        run = self.run
        if run.session and self._is_recorded(f"{received.key} begin"):
            return
        origin = run.session or self._open_session_here()
        if origin:
            self._start_session(received, self._status_and_goal(origin)[1], origin)

    def _handle_prompt(self, received: Received, text: str) -> None:
        session, is_over = self.run.session, self._status in FINISHED
        is_to_start = not session or (is_over and not self._is_recorded(received.key))
        if not is_to_start and self._goal != NO_PROMPT:
            return
        goal = make_goal(self._context.journal.redact(text))
        if is_to_start:
            self._start_session(received, goal, session)
        else:
            self._goal = goal
            self._add(f"{received.key} goal", [ev.SessionRenamed(goal=self._goal)], received.at)

    def _add_bodies(self, received: Received) -> None:
        hook = received.hook
        whole = (self._with_task(self._with_exit_code(body, hook)) for body in hook.bodies)
        bodies = [kept for body in whole for kept in self._storable(body)]
        if hook.tokens and not any(isinstance(m, ev.ContextMeasured) for m in bodies):
            bodies += self._storable(ev.ContextMeasured(tokens=hook.tokens, agent=hook.by))
        if bodies:
            actor = f"agent:{hook.by}" if hook.by else self._actor
            self._add(received.key, bodies, received.at, actor)
        if hook.model and not hook.by and self.run.session:

            def made(state: State) -> list[Body]:
                same = state.core.model == hook.model
                return [] if same else [ev.AttributeSet(key="model", value=hook.model)]

            self._add_later(f"{received.key} model", made, received.at)

    def _with_exit_code(self, body: Body, hook: HookEvent) -> Body:
        """Add the exit code of a command that codex reports only in its transcript."""
        if not isinstance(body, ev.CommandRan) or body.status != "unknown" or hook.agent != "codex":
            return body
        if self._exit_codes is None:
            from forestay.agents.transcripts.find import outcomes  # start-up

            self._exit_codes = outcomes(self.run.transcript) if self.run.transcript else {}
        if hook.key not in self._exit_codes:
            return body
        code, duration = self._exit_codes[hook.key]
        received = {"status": "failure", "error": f"exit {code}"} if code else {"status": "success"}
        return replace(body, duration_ms=duration, **received)

    def _with_task(self, body: Body) -> Body:
        """Add the task of a sub-agent, which is only in the call that started it."""
        if not isinstance(body, ev.AgentStarted) or body.task:
            return body
        sent = (flight for flight in self._redacted_flights() if flight.tool in SENDS)
        task = next((f.doing.removeprefix(f"{f.tool}: ") for f in sent), "")
        return replace(body, task=task)

    # -- calls in flight -----------------------------------------------------------------------

    def _handle_before(self, received: Received) -> None:
        hook = received.hook
        pair = hook.pair or hook.key
        if pair and pair not in self._answered:
            doing = hook.doing or hook.tool
            self.run.flights[pair] = Flight(hook.by, hook.tool, doing, received.at)
            self._unredacted.add(pair)

    def _redacted_flights(self) -> list[Flight]:
        """Return the calls in flight, redacted only now: most are answered before this."""
        for pair in self._unredacted & self.run.flights.keys():
            flight = self.run.flights[pair]
            flight.doing = self._context.journal.redact(terminal(flight.doing))
        self._unredacted.clear()
        return list(self.run.flights.values())

    def _handle_after(self, received: Received) -> None:
        pair = received.hook.pair or received.hook.key
        self._answered.add(pair)
        flight = self.run.flights.pop(pair, None)
        if received.hook.shell:
            since = flight.since if flight else received.at
            self.shell = received, min(since, self.shell[1]) if self.shell else since

    def _fail_unanswered(self, received: Received) -> None:
        """Record calls without an answer as failed: a new prompt interrupted them."""
        self._redacted_flights()
        left = {k: f for k, f in self.run.flights.items() if not f.agent}
        for key, flight in left.items():
            del self.run.flights[key]
            body = ev.CommandRan(
                name=flight.tool or "tool",
                arguments=flight.doing.removeprefix(f"{flight.tool}: "),
                status="failure",
                error="interrupted before it answered; outcome unknown",
            )
            key = f"hook {self.run.agent} {self.run.native} unanswered {key}"
            self._add(key, self._storable(body), flight.since)

    def _handle_turn_end(self, received: Received) -> None:
        """Drop calls without an answer at the end of a turn: the user refused them."""
        self.run.flights = {
            k: f for k, f in self.run.flights.items() if f.agent != received.hook.by
        }

    def _handle_agent_start(self, received: Received) -> None:
        hook, process = received.hook, self.run.process
        if process and hook.by:
            began = (self._with_task(m) for m in hook.bodies if isinstance(m, ev.AgentStarted))
            doing = next((m.task for m in began if isinstance(m, ev.AgentStarted)), "")
            self._own_holders()[hook.by] = self._holder(hook.by, doing or hook.by_type, received.at)

    def _remove_agent(self, agent: str) -> None:
        """Remove a sub-agent that has ended, with its calls in flight and its holder."""
        self.run.flights = {k: f for k, f in self.run.flights.items() if f.agent != agent}
        if agent and (holder := self._own_holders().pop(agent, None)):
            self._change.gone.append(holder)

    def _handle_end(self, received: Received) -> None:
        """End the run. Calls without an answer have an unknown outcome."""
        run = self.run
        if not run.session:
            return
        held = list(self._own_holders().values())
        doing = "; ".join(dict.fromkeys(flight.doing for flight in self._redacted_flights()))
        agents = sorted(holder.agent for holder in held if holder.agent)
        if doing or agents:
            body = ev.SessionInterrupted(doing=doing or ", ".join(agents), agents=agents)
            self._add(f"{received.key} died", [body], received.at)
        run.flights = {}
        self._change.gone += held
        self._holders = {}
        if received.hook.source != "clear" and not self._other_live_holders(run.session):
            why = f"{run.agent} ended: {received.hook.source}".removesuffix(": ")
            branch, commit = self._checkout()
            paused = ev.SessionPaused(context=why, git_branch=branch, git_commit=commit)
            self._add(f"{received.key} paused", self._storable(paused), received.at)
        self._has_ended = True
        if received.hook.source != "clear":
            run.process = ""

    _HANDLERS: ClassVar = {
        "before": _handle_before,
        "after": _handle_after,
        "prompt": _fail_unanswered,
        "agent_start": _handle_agent_start,
        "agent_stop": lambda self, received: self._remove_agent(received.hook.by),
        "turn_end": _handle_turn_end,
        "end": _handle_end,
    }

    # -- which session -------------------------------------------------------------------------

    def _open_session_here(self) -> str:
        """Return the current session of the folder if it is open, else ""."""
        try:
            session = self._context.workspace.chosen_here()
        except InvalidInput:
            session = self._known_folder()[2]
        return self._if_open(session)

    def _if_open(self, session: str) -> str:
        return session if session and is_open(self._status_and_goal(session)[0]) else ""

    def _known_folder(self) -> tuple[str, int, str, str]:
        """Return the recorded project of a deleted folder, or of the nearest folder above it."""
        folder = os.path.normpath(self.run.folder or os.sep)
        while folder != os.sep and folder:
            known = self._context.store.machine.projects.tree(folder)
            if known is not None:
                return *known, folder
            folder = os.path.dirname(folder)
        return "", 0, "", ""

    def _other_live_holders(self, session: str) -> list[Holder]:
        """Return live holders other than the run's own process and its children."""
        mine = ProcessId.parse(self.run.process) if self.run.process else None
        held = self._context.workspace.holders(session)
        found = [h for h, word in held if word != "dead" and h.process != self.run.process]
        return [h for h in found if mine is None or mine not in _ancestors_of(h.process)]

    def _start_session(self, received: Received, goal: str, origin: str = "") -> None:
        """Start a session for this run; the same payload always gives the same session id."""
        run = self.run
        self._flush()
        # Commands of this process belong to the new session from now on.
        self._change.gone += self._own_holders().values()
        self._holders = None
        run.session = f"h{derived_id('run', run.agent, run.native, received.key)[:15]}"
        branch, commit = self._checkout()
        body = ev.SessionStarted(
            goal=goal or NO_PROMPT,
            from_session=origin,
            project=self._project(),
            git_branch=branch,
            git_commit=commit,
            tool=run.agent,
        )
        self._is_new, self._tree = True, self._tree_record()
        self._status, self._goal = "active", goal
        self._add(f"{received.key} begin", self._storable(body), received.at)

    def _status_and_goal(self, session: str) -> tuple[str, str]:
        """Return the status and the goal of a session."""
        if not session:
            return "", ""
        rows = self._home_context.store.catalogue(where={"id": session}, limit=1)
        return (str(rows[0]["status"]), str(rows[0]["goal"])) if rows else (_UNKNOWN, "")

    def _is_recorded(self, key: str) -> bool:
        """Return whether an event with this key is already in the session."""
        with self._context.store.view(self.run.session) as view:
            return view.find(derived_id(self.run.session.lower(), key)) is not None

    # -- place ---------------------------------------------------------------------------------

    def _checkout(self) -> tuple[str, str]:
        try:
            return self._context.checkout()
        except InvalidInput:
            return "", ""

    def _project(self) -> str:
        try:
            return terminal(os.path.basename(self._context.workspace.tree.main))
        except InvalidInput:
            return terminal(os.path.basename(self._known_folder()[3]))

    def _tree_record(self) -> TreeRecord | None:
        try:
            return self._context.workspace.spot()
        except InvalidInput:
            inode, project, _, folder = self._known_folder()
            return TreeRecord(folder, inode, project) if project else None

    def _storable(self, body: Body) -> list[Body]:
        """Return a body ready to record (relative paths, long texts as blobs); [] if refused."""
        journal = self._context.journal
        try:
            if isinstance(body, ev.FileChanged):
                body = self._with_relative_path(body)
            return [journal.admit(journal.overflow_to_blob(body, self._blobs))]
        except (InvalidInput, Refused) as error:
            kind = ev.KIND_OF[type(body)]
            # Count refusals without the path, so that all files are counted under one reason.
            why = "outside of the project" if isinstance(body, ev.FileChanged) else error.what
            self._change.count(f"{self.run.agent} {kind}: {why}")
            return []

    def _with_relative_path(self, body: ev.FileChanged) -> ev.FileChanged:
        root = self._tree_root()
        body = replace(body, path=relative(body.path, root, cwd=self.run.folder or root))
        full = os.path.join(root, body.path)
        if body.action == "deleted" or (body.after and not has_other_line_ends(full)):
            return body
        # Some agents do not report the content, or report it with other line ends.
        return complete_change(body, root, self._context.clock.now())[0]

    def _tree_root(self) -> str:
        try:
            return self._context.workspace.tree.root
        except InvalidInput:
            return self._known_folder()[3] or self.run.folder or os.sep

    def scan_now(self, received: Received, since: int) -> None:
        """Scan for changed files now and record them, because the run is about to end."""
        self._flush()
        self.scan(received, since)
        self.shell = None

    def scan(self, received: Received, since: int) -> None:
        """Record which files shell commands changed: agents do not report them."""
        if not self.run.session:
            return
        # Record a changed branch or commit now: after the end of this run nothing else would.
        branch, commit = self._checkout()
        with self._context.store.view(self.run.session) as view:
            core = self._context.journal.state(view).core
        if commit and (branch, commit) != (core.git_branch, core.git_commit):
            checkout = ev.AttributeSet(key=CHECKOUT, value=f"{branch} {commit}".strip())
            self._add(f"{received.key} checkout", self._storable(checkout), received.at)
        seen_files = self._context.store.machine.seen_files
        try:
            tree = self._context.workspace.tree
            found = shell_changes.scan_tree(
                tree,
                child_environment(),
                since=since,
                clock=self._context.clock,
                known=self._known_files(),
                seen=lambda paths: seen_files.find(self.run.session, paths),
            )
        except ForestayError:
            return  # the folder was deleted, or git is not installed
        if found.found:

            def made(state: State) -> Sequence[Body]:
                return shell_changes.new_changes(
                    found, lambda path: state.rows.get("file", path), received.hook.by
                )

            self._add_later(f"{received.key} scan", made, received.at)
            self._seen = found.seen(tree.root)

    def _known_files(self) -> list[str]:
        if self._is_new or not self.run.session:
            return []
        with self._context.store.view(self.run.session) as view:
            state = self._context.journal.state(view)
            rows = state.rows.select("file", newest=True, limit=_KNOWN_FILES)
            return [row.path for row in rows if isinstance(row, File)]

    # -- recording -----------------------------------------------------------------------------

    def _add(self, key: str, bodies: Sequence[Body], at: int, actor: str = "") -> None:
        if bodies:
            self._pending.append(ExternalEvents(key, actor or self._actor, bodies, at))

    def _add_later(self, key: str, made: Maker, at: int) -> None:
        self._pending.append(ExternalEvents(key, self._actor, at=at, made=made))

    def _own_holders(self) -> dict[str, Holder]:
        """Return the holders of this run's process in its session, by sub-agent."""
        if self._holders is None:
            run, holders = self.run, self._context.store.machine.holders
            held = holders.find(run.session) if run.session else []
            self._holders = {h.agent: h for h in held if h.process == run.process}
        return self._holders

    def _holder(self, agent: str, doing: str, since: int) -> Holder:
        run = self.run
        name = f"agent {agent}" if agent else run.agent
        return Holder(run.session, run.process, name, agent, doing, since)

    def _flush(self, change: RunChange | None = None) -> None:
        """Record the pending events and, in the same transaction, the change of the run."""
        given, blobs, spot, create = self._pending, self._blobs, self._tree, self._is_new
        self._pending, self._blobs, self._tree, self._is_new = [], [], None, False
        session = self.run.session
        if not given:
            if change is not None:
                self._context.store.machine.agent_runs.save(change)
            return
        absorb_file_edits(self._context, session)
        recorded = self._context.journal.record_external(
            session, given, create=create, blobs=blobs, spot=spot, change=change
        )
        if recorded.events:
            write_files(self._context, session, recorded.events[-1].kind)
            self._context.run_due_jobs(*(event.kind for event in recorded.events))

    def save(self, received: Sequence[Received]) -> None:
        """Record everything, and that these payloads have been ingested."""
        run, change = self.run, self._change
        self._redacted_flights()
        change.run, change.taken = run, [one.name for one in received]
        if run.process and run.session and not self._has_ended:
            change.held += self._current_holders()
        self._flush(change)
        if self._seen:
            machine, seen = self._context.store.machine, self._seen
            self._context.best_effort(lambda: machine.seen_files.record_all(run.session, seen))

    def _current_holders(self) -> list[Holder]:
        """Return holders for the run's process and its sub-agents, with their current activity."""
        doing: dict[str, list[str]] = {"": []}
        for flight in self._redacted_flights():
            doing.setdefault(flight.agent, []).append(flight.doing)
        held = self._own_holders()
        held.setdefault("", self._holder("", "", self.run.began))
        for agent, words in doing.items():
            if agent in held and (words or not agent):
                before = held[agent]
                idle = before.is_idle if self._is_idle is None else self._is_idle
                now = "; ".join(dict.fromkeys(words)) or (IDLE if idle and not agent else "")
                held[agent] = self._holder(agent, now, before.since)
        return list(held.values())


def _ancestors_of(process: str) -> list[ProcessId]:
    try:
        return ancestors(pid=ProcessId.parse(process).pid)
    except (ValueError, ForestayError):
        return []


def _make_todo_changes(todo: Sequence[Todo], agent: str) -> Callable[[State], list[Body]]:
    """Return a function that computes the changes from the known tasks to a to-do list."""

    def made(state: State) -> list[Body]:
        bodies: list[Body] = []
        for one in todo:
            known = state.step(one.id)
            if known is None:
                bodies.append(ev.StepAdded(step=one.id, title=one.title, agent=agent))
            if (known.status if known else "pending") != one.status:
                bodies += status_events(one.id, one.status)
        return bodies

    return made
