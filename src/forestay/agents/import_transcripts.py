"""Import the transcripts of agents as sessions.

Events get the times of the transcript and the actor `transcript:AGENT`; they are unconfirmed.
Session and event ids are derived from the transcript, so that importing twice changes nothing and
a transcript that grew adds only what is new. A conversation that was recorded by hooks is skipped.
Transcripts are never written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace

from forestay.agents.hook_event import HookEvent, make_goal, user_prompt
from forestay.agents.tool_calls import status_events
from forestay.agents.transcripts import find
from forestay.agents.transcripts.find import Transcript
from forestay.base.clock import derived_id
from forestay.base.config import user_environment, user_home
from forestay.base.text import terminal
from forestay.errors import ForestayError, InvalidInput
from forestay.journal.context import Context
from forestay.journal.journal import ExternalEvents
from forestay.model import event as ev
from forestay.model.event import Body
from forestay.workspace.tree import relative

ADOPTED, GROWN, KNOWN = "adopted", "grown", "known"
RECORDED, EMPTY, FORGOTTEN, UNREADABLE = "recorded", "empty", "forgotten", "unreadable"

_BATCH = 1000
_WAIT_FOR_PROMPT = 300
_PARSER_VERSION = "1"
"""The version of this importer: increase it when it parses more, to read transcripts again."""

OnPart = Callable[[Transcript, int], None]


class TranscriptImport(Struct):
    """The result for one conversation. `missed` counts what could not be parsed, by kind."""

    agent: str
    native: str
    path: str
    size: int = 0
    folder: str = ""
    session: str = ""
    outcome: str = UNREADABLE
    goal: str = ""
    began: int = 0
    last: int = 0
    events: int = 0
    missed: dict[str, int] = {}
    problems: list[str] = []


def import_transcripts(
    context: Context,
    agent: str,
    place: str = "",
    *,
    since: int = 0,
    dry_run: bool = False,
    on_part: OnPart | None = None,
) -> Iterator[TranscriptImport]:
    """Import every conversation that changed after `since`; a failure does not stop the others.

    Without a `place`, import from the agent's usual folder.
    """
    own = find.folder(agent, user_home(), user_environment())
    if place and not os.path.exists(place):
        raise InvalidInput(
            f"no file or folder: {place}", hint="name a transcript, or a folder with transcripts"
        )
    imported: dict[str, list[str]] = {}
    try:
        for one in find.find(agent, place or own):
            if one.changed >= since:
                result = _Importer(context, one, on_part).run(dry_run=dry_run)
                if result.events and not dry_run:
                    imported.setdefault(one.cwd, []).append(result.session)
                yield result
    finally:
        for folder, sessions in imported.items():
            _claim(context, folder, sessions)
        if imported:
            context.run_due_jobs()


_SPAN = re.compile(r"(\d{1,6})([hdw])")
_HOURS = {"h": 1, "d": 24, "w": 24 * 7}


def parse_since(since: str, now: int) -> int:
    """Return a span before `now` (`36h`) or a day as a time in milliseconds; 0 for ""."""
    if not since:
        return 0
    if found := _SPAN.fullmatch(since.strip()):
        return now - int(found[1]) * _HOURS[found[2]] * 3_600_000
    try:
        day = datetime.strptime(since.strip(), "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        why = "it is a span such as 36h, 30d or 3w, or a day such as 2026-01-31"
        raise InvalidInput(f"unknown time for since: {since[:40]!r}", why=why) from None
    return int(day.timestamp() * 1000)


def _claim(context: Context, folder: str, sessions: Sequence[str]) -> None:
    """Assign sessions to the project of their folder, if it still exists."""
    if os.path.isdir(folder):
        there = context.seen_from(folder, context.actor)
        context.best_effort(lambda: there.workspace.claim(sessions))


class _Importer:
    def __init__(self, context: Context, one: Transcript, on_part: OnPart | None) -> None:
        self.context, self.one, self._on_part = context, one, on_part
        self.actor = f"transcript:{one.agent}"
        self.result = TranscriptImport(one.agent, one.native, one.path, one.size, one.cwd)
        self._root = _root(context, one.cwd)
        self._pending: list[ExternalEvents] = []
        self._blobs: list[tuple[str, bytes]] = []
        self._before_goal: list[HookEvent] = []
        self._todo: dict[str, str] = {}
        self._model = ""
        self._tokens = 0
        self._number = 0
        self._is_dry_run = True
        self._is_new = True

    def run(self, *, dry_run: bool) -> TranscriptImport:
        result, self._is_dry_run = self.result, dry_run
        run = self.context.store.machine.agent_runs.find(self.one.agent, self.one.native)
        if run is not None and run.session:
            result.session, result.outcome = run.session, RECORDED
            return result
        id = f"t{derived_id('transcript', self.one.agent, self.one.native)[:15]}"
        result.session, self._is_new = id, not self.context.store.resolve(id)
        try:
            if self._is_unchanged():
                result.outcome = KNOWN
                return result
            self._import_all()
        except ForestayError as error:
            result.problems.append(str(error))
            result.outcome = FORGOTTEN if self._is_forgotten() else UNREADABLE
        return result

    def _import_all(self) -> None:
        result = self.result
        for hook in find.read_events(self.one, result.missed):
            result.began = result.began or hook.at
            result.last = max(result.last, hook.at)
            self._add_hook(hook)
        self._start_session("")
        self._flush()
        if not result.goal:
            result.session, result.outcome = "", EMPTY
        elif result.outcome == UNREADABLE:
            result.outcome = ADOPTED if self._is_new else GROWN if result.events else KNOWN
        if result.goal and not self._is_dry_run:
            self.context.store.machine.seen_files.record_all(result.session, self._stamps())

    # -- events --------------------------------------------------------------------------------

    def _add_hook(self, hook: HookEvent) -> None:
        if self.result.goal:
            self._add_events_of(hook)
            return
        self._before_goal.append(hook)
        if goal := user_prompt(hook):
            self._start_session(goal)
        elif len(self._before_goal) > _WAIT_FOR_PROMPT:
            self._start_session("")

    def _start_session(self, goal: str) -> None:
        """Start the session with the first prompt, or without one if work was done before it."""
        hooks, self._before_goal = self._before_goal, []
        if self.result.goal or not any(hook.bodies or hook.todo for hook in hooks):
            return
        self.result.goal = make_goal(self.context.journal.redact(goal)) or "(no prompt)"
        self._add("begin", self._storable(self._session_adopted()), self.result.began)
        for hook in hooks:
            self._add_events_of(hook)

    def _session_adopted(self) -> ev.SessionAdopted:
        one, result = self.one, self.result
        return ev.SessionAdopted(
            goal=result.goal,
            origin=self.actor,
            native_id=one.native,
            status="paused",
            began_at=result.began,
            project=terminal(os.path.basename(self._root)),
            git_branch=one.branch,
            git_commit=one.commit,
        )

    def _add_events_of(self, hook: HookEvent) -> None:
        self._number += 1
        bodies = [
            kept
            for body in (*hook.bodies, *self._changes_of(hook))
            for kept in self._storable(body)
        ]
        own = hook.key or f"{hook.at} {self._number}"
        self._add(f"{hook.what} {hook.by} {own}", bodies, hook.at)
        if self._on_part is not None and self._number % _BATCH == 0:
            self._on_part(self.one, self._number)

    def _changes_of(self, hook: HookEvent) -> Iterator[Body]:
        """Yield changes of the to-do list, the model and the tokens."""
        for one in hook.todo or ():
            was = self._todo.get(one.id)
            self._todo[one.id] = one.status
            if was is None:
                yield ev.StepAdded(step=one.id, title=one.title)
            if one.status != (was or "pending"):
                yield from status_events(one.id, one.status)
        if hook.model and hook.model != self._model and not hook.by:
            self._model = hook.model
            yield ev.AttributeSet(key="model", value=hook.model)
        if hook.tokens and hook.tokens != self._tokens and not hook.by:
            self._tokens = hook.tokens
            yield ev.ContextMeasured(tokens=hook.tokens)

    # -- preparing -----------------------------------------------------------------------------

    def _storable(self, body: Body) -> list[Body]:
        journal = self.context.journal
        try:
            if isinstance(body, ev.FileChanged):
                path = relative(body.path, self._root, cwd=self.one.cwd or self._root)
                body = replace(body, path=path)
            return [journal.admit(journal.overflow_to_blob(body, self._blobs))]
        except ForestayError as error:
            is_file = isinstance(body, ev.FileChanged)
            why = "a file outside of the project" if is_file else error.what
            self.result.missed[why] = self.result.missed.get(why, 0) + 1
            return []

    # -- recording -----------------------------------------------------------------------------

    def _add(self, key: str, bodies: Sequence[Body], at: int) -> None:
        if bodies:
            self._pending.append(ExternalEvents(f"{self.actor} {key}", self.actor, bodies, at))
        if len(self._pending) >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        given, blobs, result = self._pending, self._blobs, self.result
        self._pending, self._blobs = [], []
        if not given:
            return
        if self._is_dry_run:
            result.events += sum(len(one.moves) for one in given) if self._is_new else 0
            return
        create = self._is_new and not result.events
        done = self.context.journal.record_external(
            result.session, given, create=create, blobs=blobs
        )
        result.events += len(done.events)

    def _is_forgotten(self) -> bool:
        try:
            with self.context.store.view(self.result.session) as view:
                return self.context.journal.state(view).core.forgotten
        except ForestayError:
            return False

    # -- unchanged transcripts ------------------------------------------------------------------

    def _is_unchanged(self) -> bool:
        now, seen_files = self._stamps(), self.context.store.machine.seen_files
        seen = {} if self._is_new else seen_files.find(self.result.session, [*now])
        return bool(seen) and seen == now

    def _stamps(self) -> dict[str, tuple[str, str]]:
        found = {}
        for path, _ in self.one.paths:
            facts = os.stat(path)
            found[path] = (f"{_PARSER_VERSION}.{facts.st_size}.{facts.st_mtime_ns}", "")
        return found


def _root(context: Context, folder: str) -> str:
    """Return the root of the project in a folder, or the folder if it does not exist."""
    try:
        return context.seen_from(folder, context.actor).workspace.tree.root if folder else os.sep
    except ForestayError:
        return os.path.normpath(folder)
