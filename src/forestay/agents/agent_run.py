"""One conversation of an agent: which session it works on, and what is kept of what it says.

A conversation (a *run*, by the agent's own id) keeps its session. A new one takes up what is open
in its folder, unless someone else is at work on that; where nothing is, a session begins with the
first thing a user asks, and its goal is the first sentence of that. When the session is over, the
next thing asked begins another one, from it.

What was begun is *in flight* until its answer comes: the answer becomes an event, the beginning
none. What is in flight is also what the run's process is doing, as its holder tells: if the
process is gone, that is what has an unknown outcome. Everything recorded has a key made of what
the agent sent, so that the same payload, or two hooks that tell the same, make one event.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from forestay.agents import shell_changes
from forestay.agents.hook_event import Heard, Todo, goal_of, prompt_of
from forestay.agents.shell_changes import has_other_line_ends, settled
from forestay.agents.tool_calls import SENDS
from forestay.agents.transcripts.find import outcomes
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

    OnStart = Callable[[Recorder, Heard], None]

NO_PROMPT = "(no prompt yet)"
"""The goal of a session in which work was seen before anyone was heard to ask for it."""

_AT_ONCE_MS = 10_000
_LOOKED_AT = 200
_NOT_THERE = "not there"
_OVER = (ev.AgentFinished, ev.AgentFailed, ev.AgentTimedOut)
"""Some agents tell of a sub-agent's end by the answer to the call that sent it, and not else."""


class Told(Struct, frozen=True):
    """A payload as it was understood: what it says, when, and from which process ("": unknown)."""

    name: str
    heard: Heard
    at: int
    process: str
    digest: str

    @property
    def key(self) -> str:
        """What makes this one thing, however often it is told."""
        heard = self.heard
        own = heard.key or f"{self.digest} {self.process}"
        if heard.what in ("start", "end") or not (heard.key or heard.dated):
            # It may begin, end, or ask again in the same words, but not at once.
            own += f" {self.at // _AT_ONCE_MS}"
        return f"hook {heard.agent} {heard.native} {heard.what} {own}"


class Conversation:
    """The run of some payloads, which are played to it in order; `save` makes it all true."""

    def __init__(
        self, context: Context, told: Told, change: RunChange, on_start: OnStart | None = None
    ) -> None:
        heard = told.heard
        self._whole = context
        found = context.store.machine.agent_runs.find(heard.agent, heard.native)
        self.run = found or Run(heard.agent, heard.native, began=told.at)
        self.run.folder = heard.cwd or self.run.folder
        self._actor = f"hook:{heard.agent}"
        self._context = context.seen_from(self.run.folder or os.sep, self._actor)
        self._change, self._on_start = change, on_start
        self._given: list[ExternalEvents] = []
        self._blobs: list[tuple[str, bytes]] = []
        self._spot: TreeRecord | None = None
        self._answered: set[str] = set()
        self._unread: set[str] = set()
        self._ends: dict[str, tuple[int, int | None]] | None = None
        self._status, self._goal = self._listed(self.run.session)
        if self._status == _NOT_THERE:
            # Forgotten; or whoever chose it died before anything was recorded in it.
            self.run.session = self._status = ""
        self._create = self._let_go = False
        self._idle: bool | None = None
        self._holders: dict[str, Holder] | None = None
        self._seen: dict[str, Seen] = {}
        self.shell: tuple[Told, int] | None = None
        """The last shell command that was answered, and when the first of them began."""

    # -- what it says --------------------------------------------------------------------------

    def play(self, told: Told) -> None:
        heard = told.heard
        self._meet(told)
        if heard.what == "start":
            self._start(told)
        elif heard.what == "prompt" and prompt_of(heard):
            self._prompt(told, prompt_of(heard))
        if heard.what != "other":
            self._idle = heard.what == "turn_end" and not heard.by
        if heard.moves or heard.todo:
            self._ready(told)
        self._record(told)
        act = self._ACTS.get(heard.what)
        if act is not None:
            act(self, told)
        for over in (m for m in heard.moves if isinstance(m, _OVER)):
            self._without(over.agent)
        self._todo(told)

    def _meet(self, told: Told) -> None:
        run, process = self.run, told.process
        run.last = max(run.last, told.at)
        run.transcript = told.heard.transcript or run.transcript
        if process and process != run.process:
            # What the process before had begun is told by its holder, if it is gone.
            run.process, run.flights = process, {}

    def _start(self, told: Told) -> None:
        run, source = self.run, told.heard.source
        if source == "fork":
            self._fork(told)
        elif not run.session:
            here = self._cleared(source) or self._open_here()
            if here and not self._others(here):
                self._take(here)
        if not run.session or self._create:
            return
        if self._on_start is not None:
            # Before anything is recorded, so that what changed since the last work still shows.
            self._on_start(Recorder(self._context, self.run.session), told.heard)
        if source != "compact" and self._status not in FINISHED:
            self._resume(told)

    def _fork(self, told: Told) -> None:
        """Another way on from the same past: a session of its own, from the one before."""
        run = self.run
        if run.session and self._has(f"{told.key} begin"):
            return
        origin = run.session or self._open_here()
        if origin:
            self._begin(told, self._listed(origin)[1], origin)

    def _resume(self, told: Told) -> None:
        """Take up a session that is there: who died over it, and that work goes on."""
        died = self._died()
        if found := event_of_deaths(died, self._status):
            self._give(f"{told.key} died", [found], told.at)
        self._change.gone += died
        branch, commit = self._git()
        resumed = ev.SessionResumed(git_branch=branch, git_commit=commit)
        self._give(f"{told.key} resumed", [resumed], told.at)
        self._status, self._spot = "active", self._place()

    def _prompt(self, told: Told, text: str) -> None:
        run = self.run
        if run.session and self._status in FINISHED and not self._has(told.key):
            origin = run.session
            self._flush()
            self._begin(told, goal_of(self._context.journal.redact(text)), origin)
        elif not run.session:
            self._begin(told, goal_of(self._context.journal.redact(text)))
        elif self._goal == NO_PROMPT:
            self._goal = goal_of(self._context.journal.redact(text))
            self._give(f"{told.key} goal", [ev.SessionRenamed(goal=self._goal)], told.at)

    def _ready(self, told: Told) -> None:
        """Work needs a session, and one that is active."""
        if not self.run.session or self._status == "aborted":
            self._begin(told, NO_PROMPT, self.run.session)
        elif self._status in ("paused", "failed", "created"):
            self._give(f"{told.key} resumed", [ev.SessionResumed()], told.at)
            self._status = "active"

    def _record(self, told: Told) -> None:
        heard = told.heard
        whole = (self._completed(self._ended(move, heard)) for move in heard.moves)
        moves = [kept for move in whole for kept in self._kept(move)]
        if heard.tokens and not any(isinstance(m, ev.ContextMeasured) for m in moves):
            moves += self._kept(ev.ContextMeasured(tokens=heard.tokens, agent=heard.by))
        if moves:
            actor = f"agent:{heard.by}" if heard.by else self._actor
            self._give(told.key, moves, told.at, actor)
        if heard.model and not heard.by and self.run.session:
            self._make(f"{told.key} model", _model(heard.model), told.at)

    def _ended(self, move: Body, heard: Heard) -> Body:
        """How a command ended, where the agent tells it in its transcript alone."""
        if (
            not isinstance(move, ev.CommandRan)
            or move.status != "unknown"
            or heard.agent != "codex"
        ):
            return move
        if self._ends is None:
            self._ends = outcomes(self.run.transcript) if self.run.transcript else {}
        if heard.key not in self._ends:
            return move
        code, duration = self._ends[heard.key]
        told = {"status": "failure", "error": f"exit {code}"} if code else {"status": "success"}
        return replace(move, duration_ms=duration, **told)

    def _completed(self, move: Body) -> Body:
        """A sub-agent is not told its task by the event of its start, but by the call before."""
        if not isinstance(move, ev.AgentStarted) or move.task:
            return move
        sent = (flight for flight in self._flights() if flight.tool in SENDS)
        task = next((f.doing.removeprefix(f"{f.tool}: ") for f in sent), "")
        return replace(move, task=task)

    def _todo(self, told: Told) -> None:
        todo = told.heard.todo
        if todo is not None and self.run.session:
            self._make(f"{told.key} todo", _todo_moves(todo, told.heard.by), told.at)

    # -- what is in flight ---------------------------------------------------------------------

    def _before(self, told: Told) -> None:
        heard = told.heard
        pair = heard.pair or heard.key
        if pair and pair not in self._answered:
            doing = heard.doing or heard.tool
            self.run.flights[pair] = Flight(heard.by, heard.tool, doing, told.at)
            self._unread.add(pair)

    def _flights(self) -> list[Flight]:
        """What is in flight, to be shown or kept; most is answered before anyone asks."""
        for pair in self._unread & self.run.flights.keys():
            flight = self.run.flights[pair]
            flight.doing = self._context.journal.redact(terminal(flight.doing))
        self._unread.clear()
        return list(self.run.flights.values())

    def _after(self, told: Told) -> None:
        pair = told.heard.pair or told.heard.key
        self._answered.add(pair)
        flight = self.run.flights.pop(pair, None)
        if told.heard.shell:
            since = flight.since if flight else told.at
            self.shell = told, min(since, self.shell[1]) if self.shell else since

    def _unanswered(self, told: Told) -> None:
        """Someone asks for something else: what the agent itself had begun was broken off."""
        self._flights()
        left = {k: f for k, f in self.run.flights.items() if not f.agent}
        for key, flight in left.items():
            del self.run.flights[key]
            body = ev.CommandRan(
                name=flight.tool or "tool",
                arguments=flight.doing.removeprefix(f"{flight.tool}: "),
                status="failure",
                error="broken off before it answered; outcome unknown",
            )
            key = f"hook {self.run.agent} {self.run.native} unanswered {key}"
            self._give(key, self._kept(body), flight.since)

    def _turn_end(self, told: Told) -> None:
        """What has no answer by now was refused."""
        self.run.flights = {k: f for k, f in self.run.flights.items() if f.agent != told.heard.by}

    def _agent_start(self, told: Told) -> None:
        heard, process = told.heard, self.run.process
        if process and heard.by:
            began = (self._completed(m) for m in heard.moves if isinstance(m, ev.AgentStarted))
            doing = next((m.task for m in began if isinstance(m, ev.AgentStarted)), "")
            self._held()[heard.by] = self._holder(heard.by, doing or heard.by_type, told.at)

    def _agent_stop(self, told: Told) -> None:
        self._without(told.heard.by)

    def _without(self, agent: str) -> None:
        """A sub-agent is at work no more."""
        self.run.flights = {k: f for k, f in self.run.flights.items() if f.agent != agent}
        if agent and (holder := self._held().pop(agent, None)):
            self._change.gone.append(holder)

    def _end(self, told: Told) -> None:
        """It let go in order; what it left unanswered has an unknown outcome all the same."""
        run = self.run
        if not run.session:
            return
        held = list(self._held().values())
        doing = "; ".join(dict.fromkeys(flight.doing for flight in self._flights()))
        agents = sorted(holder.agent for holder in held if holder.agent)
        if doing or agents:
            body = ev.SessionInterrupted(doing=doing or ", ".join(agents), agents=agents)
            self._give(f"{told.key} died", [body], told.at)
        run.flights = {}
        self._change.gone += held
        self._holders = {}
        if told.heard.source != "clear" and not self._others(run.session):
            why = f"{run.agent} ended: {told.heard.source}".removesuffix(": ")
            branch, commit = self._git()
            paused = ev.SessionPaused(context=why, git_branch=branch, git_commit=commit)
            self._give(f"{told.key} paused", self._kept(paused), told.at)
        self._let_go = True
        if told.heard.source != "clear":
            run.process = ""

    _ACTS: ClassVar = {
        "before": _before,
        "after": _after,
        "prompt": _unanswered,
        "agent_start": _agent_start,
        "agent_stop": _agent_stop,
        "turn_end": _turn_end,
        "end": _end,
    }

    # -- which session -------------------------------------------------------------------------

    def _open_here(self) -> str:
        """The session that is current in the folder and open, if any."""
        try:
            session = self._context.workspace.chosen_here()
        except InvalidInput:
            session = self._known_folder()[2]
        return session if session and is_open(self._listed(session)[0]) else ""

    def _cleared(self, source: str) -> str:
        """What the same process was at before its context was cleared, whatever else goes on."""
        if source != "clear" or not self.run.process:
            return ""
        session = self._context.store.machine.agent_runs.last_of(self.run.agent, self.run.process)
        return session if session and is_open(self._listed(session)[0]) else ""

    def _known_folder(self) -> tuple[str, int, str, str]:
        """Of a folder that is gone: what was in it, or in one above it, when it was last met."""
        folder = os.path.normpath(self.run.folder or os.sep)
        while folder != os.sep and folder:
            known = self._context.store.machine.projects.tree(folder)
            if known is not None:
                return *known, folder
            folder = os.path.dirname(folder)
        return "", 0, "", ""

    def _others(self, session: str) -> list[Holder]:
        """Live processes of someone else: neither the run's own nor one that it started."""
        mine = ProcessId.parse(self.run.process) if self.run.process else None
        held = self._context.workspace.holders(session)
        found = [h for h, word in held if word != "dead" and h.process != self.run.process]
        return [h for h in found if mine is None or mine not in _above(h.process)]

    def _died(self) -> list[Holder]:
        held = self._context.workspace.holders(self.run.session)
        return [holder for holder, word in held if word == "dead"]

    def _take(self, session: str) -> None:
        self.run.session = session
        self._status, self._goal = self._listed(session)

    def _begin(self, told: Told, goal: str, origin: str = "") -> None:
        """A session of its own for this run; the same payload always begins the same one."""
        run = self.run
        self._flush()
        # Its own commands are meant for the new one from now on.
        self._change.gone += self._held().values()
        self._holders = None
        run.session = f"h{derived_id('run', run.agent, run.native, told.key)[:15]}"
        branch, commit = self._git()
        body = ev.SessionStarted(
            goal=goal or NO_PROMPT,
            from_session=origin,
            project=self._project(),
            git_branch=branch,
            git_commit=commit,
            tool=run.agent,
        )
        self._create, self._spot = True, self._place()
        self._status, self._goal = "active", goal
        self._give(f"{told.key} begin", self._kept(body), told.at)

    def _listed(self, session: str) -> tuple[str, str]:
        """Status and goal of a session."""
        if not session:
            return "", ""
        rows = self._whole.store.catalogue(where={"id": session}, limit=1)
        return (str(rows[0]["status"]), str(rows[0]["goal"])) if rows else (_NOT_THERE, "")

    def _has(self, key: str) -> bool:
        """Whether the session knows it already."""
        with self._context.store.view(self.run.session) as view:
            return view.find(derived_id(self.run.session.lower(), key)) is not None

    # -- where it is ---------------------------------------------------------------------------

    def _git(self) -> tuple[str, str]:
        try:
            return self._context.checkout()
        except InvalidInput:
            return "", ""

    def _project(self) -> str:
        try:
            return terminal(os.path.basename(self._context.workspace.tree.main))
        except InvalidInput:
            return terminal(os.path.basename(self._known_folder()[3]))

    def _place(self) -> TreeRecord | None:
        try:
            return self._context.workspace.spot()
        except InvalidInput:
            inode, project, _, folder = self._known_folder()
            return TreeRecord(folder, inode, project) if project else None

    def _kept(self, move: Body) -> list[Body]:
        """What can be kept of a move: paths inside the project, long messages beside the event."""
        try:
            return [
                self._context.journal.admit(
                    self._context.journal.overflow_to_blob(self._placed(move), self._blobs)
                )
            ]
        except (InvalidInput, Refused) as error:
            kind = ev.KIND_OF[type(move)]
            # Without the path: there are as many reasons as there are paths otherwise.
            why = "not of the project" if isinstance(move, ev.FileChanged) else error.what
            self._change.count(f"{self.run.agent} {kind}: {why}")
            return []

    def _placed(self, move: Body) -> Body:
        if not isinstance(move, ev.FileChanged):
            return move
        move = replace(move, path=self._inside(move.path))
        full = os.path.join(self._root(), move.path)
        if move.action == "deleted" or (move.after and not has_other_line_ends(full)):
            return move
        # Not all agents tell what is in a file now, or tell it with its own ends of lines.
        return settled(move, self._root(), self._context.clock.now())[0]

    def _inside(self, path: str) -> str:
        root = self._root()
        return relative(path, root, cwd=self.run.folder or root)

    def _root(self) -> str:
        try:
            return self._context.workspace.tree.root
        except InvalidInput:
            return self._known_folder()[3] or self.run.folder or os.sep

    def scan_now(self, told: Told, since: int) -> None:
        """The same before this run ends: what it did comes before its end."""
        self._flush()
        self.scan(told, since)
        self.shell = None

    def scan(self, told: Told, since: int) -> None:
        """Which files shell commands changed until this one; their agent tells nothing of it."""
        if not self.run.session:
            return
        self._tell_checkout(told)
        try:
            tree = self._context.workspace.tree
            found = shell_changes.look(
                tree,
                child_environment(),
                since=since,
                clock=self._context.clock,
                known=self._known_files(),
                seen=lambda paths: self._context.store.machine.seen_files.find(
                    self.run.session, paths
                ),
            )
        except ForestayError:
            return  # the folder is gone, or git is not at hand
        if found.found:

            def made(state: State) -> Sequence[Body]:
                return shell_changes.news(
                    found, lambda path: state.rows.get("file", path), told.heard.by
                )

            self._make(f"{told.key} scan", made, told.at)
            self._seen = found.seen(tree.root)

    def _tell_checkout(self, told: Told) -> None:
        """Commands commit and switch, and nobody may come to say so when this run ends."""
        branch, commit = self._git()
        with self._context.store.view(self.run.session) as view:
            core = self._context.journal.state(view).core
        if commit and (branch, commit) != (core.git_branch, core.git_commit):
            said = ev.AttributeSet(key=CHECKOUT, value=f"{branch} {commit}".strip())
            self._give(f"{told.key} checkout", self._kept(said), told.at)

    def _known_files(self) -> list[str]:
        if self._create or not self.run.session:
            return []
        with self._context.store.view(self.run.session) as view:
            rows = self._context.journal.state(view).rows.select(
                "file", newest=True, limit=_LOOKED_AT
            )
            return [row.path for row in rows if isinstance(row, File)]

    # -- making it true ------------------------------------------------------------------------

    def _give(self, key: str, moves: Sequence[Body], at: int, actor: str = "") -> None:
        if moves:
            self._given.append(ExternalEvents(key, actor or self._actor, moves, at))

    def _make(self, key: str, made: Maker, at: int) -> None:
        self._given.append(ExternalEvents(key, self._actor, at=at, made=made))

    def _held(self) -> dict[str, Holder]:
        """The holders of this run's process in its session, by sub-agent."""
        if self._holders is None:
            held = (
                self._context.store.machine.holders.find(self.run.session)
                if self.run.session
                else []
            )
            self._holders = {h.agent: h for h in held if h.process == self.run.process}
        return self._holders

    def _holder(self, agent: str, doing: str, since: int) -> Holder:
        run = self.run
        name = f"agent {agent}" if agent else run.agent
        return Holder(run.session, run.process, name, agent, doing, since)

    def _flush(self, change: RunChange | None = None) -> None:
        """Record what was given so far, together with what becomes true of the run by it."""
        given, blobs, spot, create = self._given, self._blobs, self._spot, self._create
        self._given, self._blobs, self._spot, self._create = [], [], None, False
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

    def save(self, told: Sequence[Told]) -> None:
        """Record everything that was said, and that these payloads are taken."""
        run, change = self.run, self._change
        self._flights()
        change.run, change.taken = run, [one.name for one in told]
        if run.process and run.session and not self._let_go:
            change.held += self._holding()
        self._flush(change)
        if self._seen:
            machine, seen = self._context.store.machine, self._seen
            self._context.best_effort(lambda: machine.seen_files.record_all(run.session, seen))

    def _holding(self) -> list[Holder]:
        """The run's process and its sub-agents, with what each is doing."""
        doing: dict[str, list[str]] = {"": []}
        for flight in self._flights():
            doing.setdefault(flight.agent, []).append(flight.doing)
        held = self._held()
        held.setdefault("", self._holder("", "", self.run.began))
        for agent, words in doing.items():
            if agent in held and (words or not agent):
                before = held[agent]
                idle = before.is_idle if self._idle is None else self._idle
                now = "; ".join(dict.fromkeys(words)) or (IDLE if idle and not agent else "")
                held[agent] = self._holder(agent, now, before.since)
        return list(held.values())


def _above(process: str) -> list[ProcessId]:
    try:
        return ancestors(pid=ProcessId.parse(process).pid)
    except (ValueError, ForestayError):
        return []


def _model(name: str) -> Callable[[State], list[Body]]:
    def made(state: State) -> list[Body]:
        same = state.core.model == name
        return [] if same else [ev.AttributeSet(key="model", value=name)]

    return made


def _todo_moves(todo: Sequence[Todo], agent: str) -> Callable[[State], list[Body]]:
    """What is new in an agent's list of tasks, against what is known of them."""

    def made(state: State) -> list[Body]:
        moves: list[Body] = []
        for one in todo:
            known = state.step(one.id)
            if known is None:
                moves.append(ev.StepAdded(step=one.id, title=one.title, agent=agent))
            if (known.status if known else "pending") != one.status:
                moves += _TURNS[one.status](one) if one.status in _TURNS else []
        return moves

    return made


_TURNS: dict[str, Callable[[Todo], list[Body]]] = {
    "running": lambda one: [ev.StepStarted(step=one.id)],
    "done": lambda one: [ev.StepCompleted(step=one.id)],
    "skipped": lambda one: [ev.StepSkipped(step=one.id, because="taken off the list")],
}
