"""Retell: conversations that agents wrote down become sessions here.

Everything is recorded with the time the transcript tells, as said by `transcript:AGENT`: nobody
has confirmed it. Session and events have ids made of their source, so that retelling twice is
retelling once, and a transcript that grew adds what is new. A conversation whose hooks told it
while it went on is left alone. Transcripts are only ever read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace

from forestay.agents.hook_event import HookEvent, Todo, make_goal, user_prompt
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

_AT_ONCE = 1000
_WAIT = 300
_MANNER = "1"
"""Raised when more is understood: what was retold in another manner is looked at again."""

OnPart = Callable[[Transcript, int], None]


class TranscriptImport(Struct):
    """What became of one conversation. `missed` counts what was not understood, by kind."""

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
    """Take every conversation whose transcript changed since then; one that fails keeps no other.

    Without a place these are all that the agent keeps.
    """
    own = find.folder(agent, user_home(), user_environment())
    if place and not os.path.exists(place):
        raise InvalidInput(f"there is no {place}", hint="name a transcript, or a folder of them")
    taken: dict[str, list[str]] = {}
    try:
        for one in find.find(agent, place or own):
            if one.changed >= since:
                told = _Importer(context, one, on_part).run(dry_run=dry_run)
                if told.events and not dry_run:
                    taken.setdefault(one.cwd, []).append(told.session)
                yield told
    finally:
        for folder, sessions in taken.items():
            _claim(context, folder, sessions)
        if taken:
            context.run_due_jobs()


_SPAN = re.compile(r"(\d{1,6})([hdw])")
_HOURS = {"h": 1, "d": 24, "w": 24 * 7}


def moment_of(since: str, now: int) -> int:
    """A span before now, or a day, in milliseconds; 0 for none."""
    if not since:
        return 0
    if found := _SPAN.fullmatch(since.strip()):
        return now - int(found[1]) * _HOURS[found[2]] * 3_600_000
    try:
        day = datetime.strptime(since.strip(), "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        why = "it is a span such as 36h, 30d or 3w, or a day such as 2026-01-31"
        raise InvalidInput(f"since cannot be {since[:40]!r}", why=why) from None
    return int(day.timestamp() * 1000)


def _claim(context: Context, folder: str, sessions: Sequence[str]) -> None:
    """Let sessions belong to the project in which they went on, if it is still there."""
    if os.path.isdir(folder):
        there = context.seen_from(folder, context.actor)
        context.best_effort(lambda: there.workspace.claim(sessions))


class _Importer:
    def __init__(self, context: Context, one: Transcript, on_part: OnPart | None) -> None:
        self.context, self.one, self._on_part = context, one, on_part
        self.actor = f"transcript:{one.agent}"
        self.told = TranscriptImport(one.agent, one.native, one.path, one.size, one.cwd)
        self._root = _root(context, one.cwd)
        self._given: list[ExternalEvents] = []
        self._blobs: list[tuple[str, bytes]] = []
        self._wait: list[HookEvent] = []
        self._todo: dict[str, str] = {}
        self._model = ""
        self._tokens = 0
        self._number = 0
        self._dry = True
        self._is_new = True

    def run(self, *, dry_run: bool) -> TranscriptImport:
        told, self._dry = self.told, dry_run
        run = self.context.store.machine.agent_runs.find(self.one.agent, self.one.native)
        if run is not None and run.session:
            told.session, told.outcome = run.session, RECORDED
            return told
        id = f"t{derived_id('transcript', self.one.agent, self.one.native)[:15]}"
        told.session, self._is_new = id, not self.context.store.resolve(id)
        try:
            if self._is_as_it_was():
                told.outcome = KNOWN
                return told
            self._tell_all()
        except ForestayError as error:
            told.problems.append(str(error))
            told.outcome = FORGOTTEN if self._is_forgotten() else UNREADABLE
        return told

    def _tell_all(self) -> None:
        told = self.told
        for heard in find.read_events(self.one, told.missed):
            told.began = told.began or heard.at
            told.last = max(told.last, heard.at)
            self._tell(heard)
        self._begin("")
        self._flush()
        if not told.goal:
            told.session, told.outcome = "", EMPTY
        elif told.outcome == UNREADABLE:
            told.outcome = ADOPTED if self._is_new else GROWN if told.events else KNOWN
        if told.goal and not self._dry:
            self.context.store.machine.seen_files.record_all(told.session, self._stamps())

    # -- one thing after the other -------------------------------------------------------------

    def _tell(self, heard: HookEvent) -> None:
        if self.told.goal:
            self._keep(heard)
            return
        self._wait.append(heard)
        if goal := user_prompt(heard):
            self._begin(goal)
        elif len(self._wait) > _WAIT:
            self._begin("")

    def _begin(self, goal: str) -> None:
        """The session begins with the first thing that a user asked, or that was done."""
        waited, self._wait = self._wait, []
        if self.told.goal or not any(heard.bodies or heard.todo for heard in waited):
            return
        self.told.goal = make_goal(self.context.journal.redact(goal)) or "(nobody asked)"
        self._give("begin", self._kept(self._adopted()), self.told.began)
        for heard in waited:
            self._keep(heard)

    def _adopted(self) -> ev.SessionAdopted:
        one, told = self.one, self.told
        return ev.SessionAdopted(
            goal=told.goal,
            origin=self.actor,
            native_id=one.native,
            status="paused",
            began_at=told.began,
            project=terminal(os.path.basename(self._root)),
            git_branch=one.branch,
            git_commit=one.commit,
        )

    def _keep(self, heard: HookEvent) -> None:
        self._number += 1
        bodies = [kept for move in (*heard.bodies, *self._also(heard)) for kept in self._kept(move)]
        own = heard.key or f"{heard.at} {self._number}"
        self._give(f"{heard.what} {heard.by} {own}", bodies, heard.at)
        if self._on_part is not None and self._number % _AT_ONCE == 0:
            self._on_part(self.one, self._number)

    def _also(self, heard: HookEvent) -> Iterator[Body]:
        """What changed about tasks, model and tokens since it was told last."""
        for one in heard.todo or ():
            yield from self._turned(one)
        if heard.model and heard.model != self._model and not heard.by:
            self._model = heard.model
            yield ev.AttributeSet(key="model", value=heard.model)
        if heard.tokens and heard.tokens != self._tokens and not heard.by:
            self._tokens = heard.tokens
            yield ev.ContextMeasured(tokens=heard.tokens)

    def _turned(self, one: Todo) -> Iterator[Body]:
        was = self._todo.get(one.id)
        self._todo[one.id] = one.status
        if was is None:
            yield ev.StepAdded(step=one.id, title=one.title)
        if one.status == (was or "pending"):
            return
        if one.status == "running":
            yield ev.StepStarted(step=one.id)
        elif one.status == "done":
            yield ev.StepCompleted(step=one.id)
        elif one.status == "skipped":
            yield ev.StepSkipped(step=one.id, because="taken off the list")

    # -- what can be kept ----------------------------------------------------------------------

    def _kept(self, move: Body) -> list[Body]:
        try:
            body = self.context.journal.overflow_to_blob(self._placed(move), self._blobs)
            return [self.context.journal.admit(body)]
        except ForestayError as error:
            why = "a file outside of the project" if _is_file(move) else error.what
            self.told.missed[why] = self.told.missed.get(why, 0) + 1
            return []

    def _placed(self, move: Body) -> Body:
        if not isinstance(move, ev.FileChanged):
            return move
        return replace(move, path=relative(move.path, self._root, cwd=self.one.cwd or self._root))

    # -- making it true ------------------------------------------------------------------------

    def _give(self, key: str, bodies: Sequence[Body], at: int) -> None:
        if bodies:
            self._given.append(ExternalEvents(f"{self.actor} {key}", self.actor, bodies, at))
        if len(self._given) >= _AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        given, blobs, told = self._given, self._blobs, self.told
        self._given, self._blobs = [], []
        if not given:
            return
        if self._dry:
            told.events += sum(len(one.moves) for one in given) if self._is_new else 0
            return
        create = self._is_new and not told.events
        done = self.context.journal.record_external(told.session, given, create=create, blobs=blobs)
        told.events += len(done.events)

    def _is_forgotten(self) -> bool:
        try:
            with self.context.store.view(self.told.session) as view:
                return self.context.journal.state(view).core.forgotten
        except ForestayError:
            return False

    # -- what is known already -----------------------------------------------------------------

    def _is_as_it_was(self) -> bool:
        now = self._stamps()
        seen = (
            {}
            if self._is_new
            else self.context.store.machine.seen_files.find(self.told.session, [*now])
        )
        return bool(seen) and seen == now

    def _stamps(self) -> dict[str, tuple[str, str]]:
        found = {}
        for path, _ in self.one.paths:
            facts = os.stat(path)
            found[path] = (f"{_MANNER}.{facts.st_size}.{facts.st_mtime_ns}", "")
        return found


def _root(context: Context, folder: str) -> str:
    """The root of the project in a folder; the folder itself if it is gone."""
    try:
        return context.seen_from(folder, context.actor).workspace.tree.root if folder else os.sep
    except ForestayError:
        return os.path.normpath(folder)


def _is_file(move: Body) -> bool:
    return isinstance(move, ev.FileChanged)
