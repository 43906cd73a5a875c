"""Revisit: go back to an earlier step, with its files, completely or not at all.

`look` returns what would happen and changes nothing. `apply` records the events in one append and,
in the same transaction, the file operations that follow from them (see `pending_file_ops`). `undo`
withdraws the events and restores the files in the same way.

A *version* is a file that was renamed to `NAME.vN.md`; only the name without a number is current.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from forestay.base import files
from forestay.base.clock import new_id
from forestay.base.hashing import digest_of
from forestay.errors import InvalidInput, Refused
from forestay.formats.essay import fields
from forestay.formats.essay.stage_files import (
    assess_change,
    is_current,
    section_in,
    stage_of_file,
    version_name,
)
from forestay.journal.context import Context
from forestay.journal.journal import AppendOptions
from forestay.journal.recorder import Recorder
from forestay.journal.topics import Topic
from forestay.mirror.session_files import absorb_file_edits, read_state
from forestay.model import event as ev
from forestay.model.essay.moves import is_essay
from forestay.model.event import Body, Event
from forestay.model.gates.revisit_impact import (
    IMPACTS,
    Assessment,
    Later,
    Output,
    Signal,
    assess,
    later_steps,
    likeness,
    passed_checkpoints,
)
from forestay.model.merge import in_order, retracted
from forestay.model.state import POSITION, Artifact, State, Step, number_of
from forestay.plans import pending_file_ops
from forestay.plans.essay_sessions import folder_of
from forestay.workspace import tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.base.words import Impact

_LOGS = (fields.THESIS_LOG, fields.DRAFT_LOG)
_OVER_ALL = (fields.FINAL, "fact-check-log.md", "voice-check-log.md")


class Look(Struct, frozen=True):
    """The preview of a revisit: its assessment, the versions it makes, unfinished file work."""

    assessment: Assessment
    versions: dict[str, str]
    pending: list[str] = []


class Revisited(NamedTuple):
    """A step that was revisited: what that did to the work after it, and the event."""

    preview: Look
    event: Event


class Kept(Struct, frozen=True):
    """A file that becomes a version: its path, its new name, and its content."""

    path: str
    full: str
    target: str
    version: int
    data: bytes

    @property
    def digest(self) -> str:
        return digest_of(self.data)


class Revisit(Topic):
    """Go back to an earlier step, with the versions of its files."""

    def preview(self, step: str, *, impact: Impact | None = None) -> Look:
        """Return what going back to a step would do to the work after it. Changes nothing."""
        if impact and impact not in IMPACTS:
            raise InvalidInput(
                f"the impact cannot be {impact}", why=f"it is one of {', '.join(IMPACTS)}"
            )
        context, session = self._context, self._recorder.id
        with context.store.view(session) as view:
            known = _Known(self._recorder, read_state(context, session, view))
            found = known.assess(known.step(step).id, impact or "")
        kept = [*known.changed(found), *known.archived(found)]
        names = {one.path: os.path.basename(one.target) for one in kept}
        pending = context.store.machine.file_work.pending(session)
        return Look(found, names, [pending_file_ops.in_words(what) for _, what in pending])

    def apply(
        self, step: str, *, impact: Impact | None = None, because: str = "", key: str = ""
    ) -> Revisited:
        """Go back to a step: save versions of its files and reset later steps, all or nothing."""
        context, session = self._context, self._recorder
        absorb_file_edits(context, session.id)
        found = self.preview(step, impact=impact)
        if done := session.called_before(key, _is_revisit):
            return Revisited(found, next(event for event in done if _is_revisit(event.body)))
        reason = context.journal.redact(because.strip() or "; ".join(found.assessment.reasons))
        with context.store.view(session.id) as view:
            known = _Known(session, context.journal.state(view))
            old, gone = known.changed(found.assessment), known.archived(found.assessment)
            fresh = known.fresh(found.assessment)
            first, *moves = known.moves(found.assessment, reason, gone)
            forgotten = known.forgotten(found.assessment, [one.path for one in gone])
        bodies: list[Body] = [first]
        for one in (*old, *gone):
            size = len(one.data)
            bodies.append(
                ev.ArtifactVersioned(
                    path=one.path, version=one.version, digest=one.digest, size=size
                )
            )
        for path, data in fresh:
            secrets, size = sorted(set(_secrets(context, data))), len(data)
            bodies.append(
                ev.ArtifactSaved(
                    path=path,
                    digest=digest_of(data),
                    size=size,
                    kept=not secrets,
                    redacted=secrets,
                )
            )
        chores = [
            *({"op": "write", "to": one.target, "digest": one.digest} for one in old),
            *(_move(one.full, one.target, one.digest) for one in gone),
        ]
        contents = [*(one.data for one in (*old, *gone)), *(data for _, data in fresh)]
        name = key or new_id(context.clock)
        session.record(
            *bodies,
            *forgotten,
            *moves,
            key=name,
            blobs=[(digest_of(data), data) for data in contents if not _secrets(context, data)],
            options=AppendOptions(file_work=[json.dumps(one) for one in chores]),
        )
        pending_file_ops.finish(context, session.id)
        batch = context.journal.events_of_key(session.id, name)
        return Revisited(found, next(event for event in batch if _is_revisit(event.body)))

    def undo(self, *, because: str = "", key: str = "") -> Event:
        """Undo the last revisit: withdraw its events and restore the names of its files."""
        context, session = self._context, self._recorder
        absorb_file_edits(context, session.id)
        if earlier := session.called_before(key, lambda body: isinstance(body, ev.EventRetracted)):
            return earlier[-1]
        event, batch = _last(session)
        with context.store.view(session.id) as view:
            known = _Known(session, context.journal.state(view))
        fresh = {one.body.path for one in batch if isinstance(one.body, ev.ArtifactSaved)}
        versions = [one.body for one in batch if isinstance(one.body, ev.ArtifactVersioned)]
        chores = [_put_back(known, body, copied=body.path in fresh) for body in versions]
        if known.essay and (where := fields.place_of(getattr(event.body, "step", ""))):
            entry = {"op": "unlog", "file": known.essay.place, "stage": where[0]}
            chores.append({**entry, "at": event.head.at})
        reason = because or "the revisit was undone"
        done = session.record(
            *(ev.EventRetracted(event=one.id, because=reason) for one in reversed(batch)),
            key=key,
            options=AppendOptions(file_work=[json.dumps(one) for one in reversed(chores)]),
        )
        pending_file_ops.finish(context, session.id)
        return done


class _Known:
    """The steps and files of a session that a revisit needs."""

    def __init__(self, session: Recorder, state: State) -> None:
        self._session, self._state = session, state
        self._plan = session.context.journal.plan(state)
        bindings = session.context.store.machine.bindings.bindings(session.id)
        self.essay = next((one for one in bindings if one.format == fields.ID), None)
        self._is_essay = self.essay is not None or is_essay(state)
        self._root = session.context.workspace.tree.root
        if self._is_essay:
            self._root = folder_of(session.context, session.id, state)
        self._names = _names(self._root) if self._is_essay else []

    def step(self, name: str) -> Step:
        """Return a step by its number or id."""
        tries = [f"{unit}-{name}" for unit in ("phase", "stage")] if name.isdigit() else []
        for id in (*tries, name):
            if row := self._state.step(id):
                return row
        steps = [row.name for row in self._state.rows.select("step", limit=20)]
        why = f"the steps are {', '.join(steps)}" if steps else "there are no steps yet"
        raise Refused(f"there is no step {name}", why=why, hint="forestay task list")

    def assess(self, step: str, impact: str) -> Assessment:
        later = [self._later(row) for row in later_steps(self._state, step)]
        if self._is_essay:
            files = [name for name in _OVER_ALL if name in self._names]
            later.append(Later("", "done" if files else "pending", files))
        ordered = self._plan is not None and number_of(step) is not None and not self._is_essay
        outputs = [self._output(path) for path in self._outputs(step)]
        return assess(step, outputs, later, impact=impact, in_order=ordered)

    def _later(self, row: Step) -> Later:
        at = fields.place_of(row.id) if self._is_essay else None
        if at is None:
            paths = [path for path in self._paths(row) if os.path.isfile(self.full(path))]
            return Later(row.id, row.status, paths)
        stage, section = at
        mine = [n for n in self._names if is_current(n) and stage_of_file(n) == stage]
        if section:
            return Later(
                row.id,
                row.status,
                [n for n in mine if section_in(n) == section],
                [section],
            )
        own = [name for name in mine if section_in(name) is None]
        return Later(row.id, row.status, own, self._begun(stage))

    def _begun(self, stage: int) -> list[int]:
        """Return the sections of a stage in which work was done."""
        found = [row for row in self._state.rows.select("step") if isinstance(row, Step)]
        places = [(fields.place_of(row.id), row.status) for row in found]
        return [at[1] for at, s in places if at and at[0] == stage and at[1] and s != "pending"]

    def _outputs(self, step: str) -> list[str]:
        """Return the recorded outputs of a step."""
        at = fields.place_of(step) if self._is_essay else None
        if at is None:
            rows = [row for row in self._state.rows.select("step") if isinstance(row, Step)]
            mine = [row for row in rows if step in (row.id, row.parent)]
            return list(dict.fromkeys(path for row in mine for path in self._paths(row)))
        stage, section = at
        kept = [row.name for row in self._state.rows.select("artifact")]
        names = [n for n in {*self._names, *kept} if is_current(n) and n not in _LOGS]
        mine_too = [n for n in names if stage_of_file(n) == stage]
        return sorted(n for n in mine_too if not section or section_in(n) in (section, None))

    def _paths(self, row: Step) -> list[str]:
        number = number_of(row.id)
        phase = self._plan.phase(number) if self._plan and number is not None else None
        return [*row.files, *(phase.outputs if phase else [])]

    def full(self, path: str) -> str:
        return os.path.join(self._root, path) if self._is_essay else tree.absolute(path, self._root)

    def _output(self, path: str) -> Output:
        data, old = self._now(path), self._kept(path)
        now = None if data is None else data.decode("utf-8", "replace")
        then = None if old is None else old.decode("utf-8", "replace")
        known = None
        if self._is_essay and then is not None and now is not None:
            known = assess_change(path, then, now, likeness)
        return Output(path, then, now, [Signal(*known)] if known else [])

    def _now(self, path: str) -> bytes | None:
        return files.read_optional(self.full(path), pending_file_ops.MAX_FILE, follow=False)

    def _kept(self, path: str) -> bytes | None:
        row = self._state.rows.get("artifact", path)
        if not isinstance(row, Artifact) or not row.kept:
            return None
        return self._session.context.store.blob(row.digest)

    # -- versions ------------------------------------------------------------------------------

    def changed(self, found: Assessment) -> list[Kept]:
        """Return the changed outputs of the step; their old content becomes a version."""
        pairs = [(path, self._kept(path)) for path in found.changed]
        return [self._version(path, data) for path, data in pairs if data is not None]

    def archived(self, found: Assessment) -> list[Kept]:
        pairs = [(path, self._now(path)) for path in dict.fromkeys(found.archive)]
        return [self._version(path, data) for path, data in pairs if data is not None]

    def fresh(self, found: Assessment) -> list[tuple[str, bytes]]:
        """Return current outputs whose content is not stored yet."""
        pairs = [(path, self._now(path), self._kept(path)) for path in self._outputs(found.step)]
        return [(path, now) for path, now, old in pairs if now is not None and now != old]

    def _version(self, path: str, data: bytes) -> Kept:
        full = self.full(path)
        folder, name = os.path.split(full)
        target = version_name(name, _names(folder))
        number = int(target.removesuffix(os.path.splitext(name)[1]).rpartition(".v")[2])
        return Kept(path, full, os.path.join(folder, target), number, data)

    # -- events --------------------------------------------------------------------------------

    def moves(self, found: Assessment, because: str, gone: Sequence[Kept]) -> list[Body]:
        row = self.step(found.step)
        parent = self._state.step(row.parent) if row.parent else None
        above = [parent.id] if parent is not None and parent.status == "done" else []
        review, reset = [*found.review, *above], found.reset
        again = [row.id, *reset, *(review if found.impact == "moderate" else [])]
        passed = passed_checkpoints(self._state, again)
        why = f"revisit of {row.id}: {because}"[:1000]
        return [
            ev.StepRevisited(
                step=row.id,
                because=because,
                impact=found.impact,
                archived=[os.path.basename(one.target) for one in gone],
            ),
            *(ev.CheckpointRolledBack(step=s, because=why) for s in passed),
            *(ev.StepNeedsReview(step=step, because=why) for step in review),
            *(ev.StepReset(step=step, because=why) for step in reset),
            *([ev.StepReset(step=row.id, because=why)] if row.status == "done" else []),
            *([ev.StepStarted(step=row.id)] if row.status != "running" else []),
            *([ev.AttributeSet(key=POSITION, value=row.id)] if self._is_essay else []),
        ]

    def forgotten(self, found: Assessment, gone: Iterable[str]) -> list[Body]:
        """Return events that clear attributes which name files that no longer exist."""
        if not self._is_essay:
            return []
        at = fields.place_of(found.step)
        names, stage = set(gone), at[0] if at else 9
        bodies: list[Body] = []
        for row in self._state.rows.select("attribute"):
            value = getattr(row, "value", None)
            lost = isinstance(value, str) and os.path.basename(value) in names
            later = found.impact == "major" and _stage_of(row.name) > stage
            if value is not None and (lost or later):
                bodies.append(ev.AttributeSet(key=row.name, value=None))
        return bodies


def _stage_of(attribute: str) -> int:
    """Return the stage in the name of an essay attribute, else 0."""
    if attribute.startswith(f"{fields.ID}.output."):
        return 5
    return next((n for n in fields.STAGES if attribute.startswith(f"{fields.ID}.stage_{n}.")), 0)


def _names(folder: str) -> list[str]:
    return [os.path.basename(path) for path in files.list_paths(folder)]


def _is_revisit(body: Body) -> bool:
    return isinstance(body, ev.StepRevisited)


def _secrets(context: Context, data: bytes) -> list[str]:
    return context.journal.find_secrets(data.decode("utf-8", "replace"))


def _move(path: str, target: str, digest: str) -> dict[str, Any]:
    return {"op": "move", "from": path, "to": target, "digest": digest}


def _put_back(known: _Known, body: ev.ArtifactVersioned, *, copied: bool) -> dict[str, Any]:
    full = known.full(body.path)
    stem, dot = os.path.splitext(full)
    version = f"{stem}.v{body.version}{dot}"
    if copied:
        # The version was written from stored content; the file itself was never moved.
        return {"op": "remove", "path": version, "digest": body.digest}
    return _move(version, full, body.digest)


def _last(session: Recorder) -> tuple[Event, list[Event]]:
    """Return the last revisit that was not undone, and all events recorded with it."""
    with session.context.store.view(session.id) as view:
        events = in_order(session.context.journal.events(view))
    gone = retracted(events)
    standing = [event for event in events if event.id not in gone]
    # Skip revisits absorbed from a session file: Forestay moved no files for them.
    found = [event for event in standing if _is_revisit(event.body) and not event.is_read]
    if not found:
        raise Refused("there is no revisit to undo", hint="forestay revisit STEP")
    base = found[-1].id.partition("-")[0]
    batch = [event for event in standing if event.id.partition("-")[0] == base]
    _require_idle_since(standing, batch)
    return found[-1], batch


def _require_idle_since(standing: Sequence[Event], batch: Sequence[Event]) -> None:
    steps = {step for one in batch if (step := getattr(one.body, "step", ""))}
    after = standing[standing.index(batch[-1]) + 1 :]
    work = [event for event in after if getattr(event.body, "step", "") in steps]
    if work:
        raise Refused(
            "the revisit cannot be undone: work continued after it",
            why=f"#{work[0].seq} {work[0].kind} is about {getattr(work[0].body, 'step', '')}",
            hint=f"undo that first: forestay undo {work[-1].seq}",
        )
