"""Adopt session files that another program wrote: record each as a session of Forestay.

Every event and artifact in the files is recorded, with the time that the files give. Ids are
derived from the files, so adopting the same files twice, or on two devices, gives one session. The
first of these rules that applies decides which session the files belong to:

    bound        a session is bound to this place: changes in the files are absorbed as an edit
    unbound      a session was unbound from this place: it is bound again
    moved        the folder of the session with this id is gone: the binding moves to these files
    rival        the session with this id has other files: report these, and change nothing
    converted    they were converted from files of a session: report them as a copy of those files
    synced       a session without files came from another device and has the same content: bind it
    new          otherwise create a session, or update the one that was adopted from these files

Files of a format that we can write are bound to their session; they are first written after the
session's next event. Other files are only read. A template that is not filled in is not a session.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator
from functools import cached_property, partial

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from forestay.base import files, walk
from forestay.base.hashing import digest_of
from forestay.base.text import clean_id, is_text
from forestay.errors import Busy, ForestayError
from forestay.formats import carry_over
from forestay.formats.facts import Facts
from forestay.formats.fields import tasks_in
from forestay.formats.from_state import facts_of
from forestay.formats.port import ERROR, REGISTRY, Reading, Where, conventions_of
from forestay.formats.three_way import LONGEST, Changes, Plain, as_recorded, merge_facts
from forestay.formats.to_events import Move, adoption_moves, match_steps, moves, with_journal_names
from forestay.journal.context import Context
from forestay.journal.journal import AppendOptions
from forestay.mirror import check_files, discover
from forestay.mirror.check_files import Surroundings
from forestay.mirror.discover import Find
from forestay.mirror.quick_scan import adopted_stamp
from forestay.mirror.session_files import absorb_file_edits, mirror_of
from forestay.model.event import ArtifactSaved, ForeignEdited, SessionStarted
from forestay.model.fold import extend, fold
from forestay.model.state import ADOPTED_FROM, CONFLICT, Edit, State
from forestay.store.machine.bindings import Binding
from forestay.workspace.tree import find_tree, is_plain

MAX_ARTIFACTS = 500
MAX_ARTIFACT = 16 * 1024 * 1024
_AT_ONCE = 5000

ADOPTED, KNOWN, EDITED, MOVED = "adopted", "known", "edited", "moved"
COPY, RIVAL, TEMPLATE, UNREADABLE = "copy", "rival", "template", "unreadable"
_ESSENTIAL = frozenset({"pipeline_id", "feature_id", "session_id", "id", "status"})
"""Fields to check: a file in which one still has its template's placeholder is not a session."""


class Adopted(Struct):
    """The result for one session's files; `session` is empty if they could not be adopted."""

    path: str
    format: str
    native: str
    session: str = ""
    outcome: str = UNREADABLE
    events: int = 0
    artifacts: int = 0
    is_new: bool = False
    bound: bool = False
    problems: list[str] = []
    errors: int = 0
    """How many errors `forestay files check` finds in the adopted files."""
    reading: Reading = Reading("")
    """What reading the files found out, as far as they could be read."""


class AdoptOptions(Struct, frozen=True):
    """How to adopt: whether only to report, whether templates count, the definitions' folder."""

    dry_run: bool = False
    templates: bool = False
    workflows: str = ""


def adopt(
    context: Context, path: str, options: AdoptOptions | None = None, *, also: Iterable[str] = ()
) -> Iterator[Adopted]:
    """Adopt every session at a path and in other folders; continue after one that fails."""
    adoption = _Adoption(context, options or AdoptOptions())
    try:
        for one in _in_order((path, *also)):
            result = adoption.try_to_adopt(one)
            # Do not report an index that lists only ended sessions.
            if result.problems or result.outcome == TEMPLATE or not one.is_index:
                yield result
    finally:
        # Once for all sessions: a synced write costs more than the rest of adopting a session.
        for folder, sessions in adoption.claims.items():
            there = context.seen_from(folder, context.actor)
            context.best_effort(partial(there.workspace.claim, sessions))
        if adoption.claims:
            context.run_due_jobs()


def _in_order(places: Iterable[str]) -> Iterator[Find]:
    """Yield the sessions found; converted files last, because their source is adopted first."""
    converted = []
    for place in places:
        for one in discover.sessions(place):
            if carry_over.origins(one.tree):
                converted.append(one)
            else:
                yield one
    yield from converted


class _Adoption:
    """One run of `adopt`; `met` has the first files that it found for each format and id."""

    def __init__(self, context: Context, options: AdoptOptions) -> None:
        self.context = context
        self.bound = context.store.machine.bindings
        self.options = options
        self.met: dict[tuple[str, str], tuple[str, str, str]] = {}
        self.claims: dict[str, list[str]] = {}
        self.where = Surroundings(mirror_of(context).where, options.workflows).of
        self.clean = context.journal.redact

    def try_to_adopt(self, one: Find) -> Adopted:
        try:
            result = self.adopt(one)
        except ForestayError as error:
            result = Adopted(one.path, one.format_id, one.native, problems=[str(error)])
        result.native = self.clean(result.native)
        result.problems = [self.clean(problem) for problem in result.problems]
        return result

    def adopt(self, one: Find) -> Adopted:
        where = self.where(one)
        facts, remarks = read_facts(one, where)
        result = Adopted(one.path, one.format_id, one.native, problems=_faults(one))
        result.reading = check_files.reading_of(one, where, self.clean)
        if facts is None:
            return result
        result.native = facts.native_id = facts.native_id or one.native
        owner = self._owner(one, result.native)
        findings = one.format.check(one.tree, where) if one.documents else []
        blank = (f.where.rpartition(".")[2] for f in findings if f.code == "placeholder")
        if not self.options.templates and not _ESSENTIAL.isdisjoint(blank):
            result.outcome = TEMPLATE
        elif not one.is_index and (owner is not None or not self._is_duplicate(one, result)):
            self._decide(one, facts, result, owner)
        if result.outcome in (ADOPTED, EDITED):
            result.problems[:0] = [] if owner else remarks
            result.errors = sum(finding.severity == ERROR for finding in findings)
        if owner is None and result.outcome != RIVAL:
            met = one.path, _digest(one), result.session
            self.met.setdefault((one.format_id, result.native), met)
        if result.session and not self.options.dry_run:
            # Also for sessions adopted before: a crash can have prevented this step.
            if result.outcome != COPY:
                self.claims.setdefault(_project_of(self.context, one), []).append(result.session)
            if not result.bound:
                _remember_file(self.context, result.session, one)
        return result

    def _owner(self, one: Find, native: str) -> Binding | None:
        """Return the binding of the place; None if another program began a session there.

        That is possible if the format has one place for all sessions: ours is archived then.
        """
        owner = self.bound.owner(os.path.realpath(one.path))
        if owner is None or one.damage or not conventions_of(one.format_id).archive:
            return owner
        # A file without an id is our file with an edit.
        return owner if native in ("", owner.native) else None

    def _is_duplicate(self, one: Find, result: Adopted) -> bool:
        """Return whether this run already found another file with the same id."""
        path, digest, session = self.met.get((one.format_id, result.native), ("", "", ""))
        if path and result.native:
            _report_rival(result, path, session, same=digest == _digest(one))
        return bool(path and result.native)

    def _decide(self, one: Find, facts: Facts, result: Adopted, owner: Binding | None) -> None:
        if owner is None and self._has_session(one, facts, result):
            return
        if owner is not None and not one.damage and result.native not in ("", owner.native):
            what = f"not adopted: session {owner.session} is bound to the place of these files"
            unbind = f"forestay files unbind {owner.format} --session {owner.session}"
            result.outcome = RIVAL
            result.problems.append(f"{what}; to adopt them: {unbind}, then adopt again")
            return
        result.session = owner.session if owner else _session_id(self.context, one, facts)
        result.is_new = not self.context.store.resolve(result.session)
        state = None if result.is_new else _state(self.context, result.session)
        if owner is not None and not result.is_new:
            self._absorb(result)
        elif state is None or not _edits(state):  # the mark of a complete adoption
            self._record(one, facts, result)
        else:
            self._compare(one, facts, result, state)

    def _has_session(self, one: Find, facts: Facts, result: Adopted) -> bool:
        """Return whether a rule of this module gives unbound files to an existing session."""
        native = result.native
        if session := self._unbound_from(one, native):
            result.session = session
            if not self.options.dry_run:
                self._bind_files(one, result, native)
            self._absorb(result)
        elif moved := self._moved_from(one, native):
            self._rebind_moved(one, moved, result)
        elif twin := self._twin(one.format_id, native):
            self._compare_with_twin(one, result, twin)
        elif source := self._source(one):
            path, result.session = source
            result.outcome = COPY
            what = f"not adopted: this is a converted copy of {path}, whose session is known"
            result.problems.append(f"{what}; to adopt it, move {path} away and adopt again")
        elif session := self._synced(one, facts):
            result.session, result.outcome = session, ADOPTED
            if not self.options.dry_run:
                self._bind(one, result)
        else:
            return False
        return True

    def _unbound_from(self, one: Find, native: str) -> str:
        """Return the session that was unbound from these files; "" if none, or if it has others."""
        root = os.path.realpath(_root(one)) if native and _root(one) else ""
        session = self.bound.released_by(one.format_id, native, root) if root else ""
        others = self.bound.bindings(session) if session else []
        return "" if any((b.format, b.root) == (one.format_id, root) for b in others) else session

    def _moved_from(self, one: Find, native: str) -> Binding | None:
        """Return the only binding with this id if its folder is gone; else None."""
        known = self.bound.named(one.format_id, native) if native else []
        gone = [b for b in known if not os.path.lexists(b.root)]
        return gone[0] if len(gone) == len(known) == 1 and _root(one) else None

    def _rebind_moved(self, one: Find, left: Binding, result: Adopted) -> None:
        result.session, result.outcome, result.bound = left.session, MOVED, True
        if not self.options.dry_run and mirror_of(self.context).follow(left, _root(one)):
            result.events = _absorb_edits(self.context, left.session)
            _restore_current(self.context, one, left)

    def _twin(self, kind: str, native: str) -> Binding | None:
        """Return the binding with this id that has other existing files; None if there is none."""
        known = self.bound.named(kind, native) if native else []
        return next((b for b in known if os.path.lexists(b.place)), None)

    def _compare_with_twin(self, one: Find, result: Adopted, twin: Binding) -> None:
        """Resume an archived session if these files were moved out of its archive.

        Otherwise report them and record nothing: a stale copy would undo later events.
        """
        if mirror_of(self.context).return_from_archive(
            twin, one.path, dry_run=self.options.dry_run
        ):
            result.session = twin.session
            self._absorb(result)
            return
        same = _main_bytes(one) == files.read_optional(twin.place, discover.MAX_BYTES)
        archive = conventions_of(twin.format).archive.format(id=twin.native)
        is_archived = bool(archive and not _archive(one)) and twin.place.endswith(f"/{archive}")
        _report_rival(result, twin.place, twin.session, same=same, is_archived=is_archived)

    def _source(self, one: Find) -> tuple[str, str] | None:
        """Return the path these files were converted from, if it exists, and its session."""
        for kind, id in carry_over.origins(one.tree).items():
            if known := self._twin(kind, id):
                return known.place, known.session
            if (kind, id) in self.met:
                path, _, session = self.met[kind, id]
                return path, session
        return None

    def _synced(self, one: Find, facts: Facts) -> str:
        """Return the session without files that has the same content as these files, or ""."""
        began = self._without_files.get((facts.began_at or 0) // 1000, []) if _root(one) else []
        where = self.where(one)
        return next((id for id in began if _is_equal(self.context, id, one, facts, where)), "")

    @cached_property
    def _without_files(self) -> dict[int, list[str]]:
        """The sessions that had no files before this run, by the second in which they began."""
        began: dict[int, list[str]] = {}
        bound = {binding.session for binding in self.bound.bindings()}
        for row in self.context.store.catalogue():
            if row["id"] not in bound:
                began.setdefault(int(str(row["began"] or 0)) // 1000, []).append(str(row["id"]))
        return began

    def _record(self, one: Find, facts: Facts, result: Adopted) -> None:
        result.outcome = ADOPTED
        if self.options.dry_run:
            return
        with mirror_of(self.context).hold_projects(os.path.dirname(one.path)):
            _require_unchanged(one)
            warning = result.reading.warning
            result.events = _record(self.context, result.session, one, facts, warning)
            result.artifacts = _save_artifacts(self.context, result.session, one, result.problems)
            self._bind(one, result)

    def _bind(self, one: Find, result: Adopted) -> None:
        """Bind files that are in their format's place and that we can write; do not write them."""
        root = _root(one)
        # If the files and their folder name different sessions, the files are only read.
        is_own = result.native == one.native
        if not (is_own and root and one.format.reading(one.tree, self.where(one)).writable):
            return
        self._bind_files(one, result, one.native)
        seen = {one.paths[name]: document for name, document in one.documents.items()}
        mirror_of(self.context).accept(result.session, seen)
        result.bound = True

    def _bind_files(self, one: Find, result: Adopted, native: str) -> None:
        away, notify = bool(_archive(one)), self.context.notify
        mirror_of(self.context).bind(
            result.session, one.format_id, native, _root(one), found=True, away=away, notify=notify
        )

    def _absorb(self, result: Adopted) -> None:
        """Absorb changes in files that are bound already."""
        result.outcome, result.bound = KNOWN, True
        if not self.options.dry_run:
            result.events = _absorb_edits(self.context, result.session)
            result.outcome = EDITED if result.events else KNOWN

    def _compare(self, one: Find, facts: Facts, result: Adopted, state: State) -> None:
        """Compare the files with an adopted session: known bytes, an edit, or a rival's files."""
        result.outcome = KNOWN
        real = os.path.realpath(one.path)
        places = [b.place for b in self.bound.bindings(result.session) if b.format == one.format_id]
        elsewhere = next((p for p in places if p != real and os.path.lexists(p)), "")
        here = [row.digest for row in _edits(state) if _place(one) in row.cause]
        if elsewhere or not here:
            same = _digest(one) in {row.digest for row in _edits(state)}
            _report_rival(result, elsewhere, result.session, same=same)
            return
        if here[-1] != _digest(one):
            self._record_edit(one, facts, result, state)
        if not self.options.dry_run and not result.bound:
            self._bind(one, result)

    def _record_edit(self, one: Find, facts: Facts, result: Adopted, state: State) -> None:
        edit = _find_edit(self.context, result.session, one, facts, self.where(one))
        is_news = edit.moves or edit.contested or edit.residue
        result.outcome = EDITED if is_news else KNOWN
        result.problems += [f"not recorded: {edit.residue}"] if edit.residue else []
        if is_news and not self.options.dry_run:
            mark = _mark(one, edit.contested, result.reading.warning)
            mark = replace(mark, residue=edit.residue)
            _append(self.context, result.session, one, [Move(mark), *edit.moves], state)
            result.events = len(edit.moves)


def _report_rival(
    result: Adopted, path: str, session: str, *, same: bool, is_archived: bool = False
) -> None:
    """Report files with the id of a session that has other files, or came from another place."""
    other = path or f"session {session}, from another place,"
    if same:
        result.outcome, result.session = COPY, session
        result.problems.append(f"the same as {other}".removesuffix(","))
        return
    result.outcome, result.session = RIVAL, ""
    what = f"not adopted: {other} has the same id and other content"
    convert = f"forestay files convert {shlex.quote(result.path)} --to {result.format}"
    both = f"to have both: {convert} --id ID -o OUT, then: forestay adopt OUT"
    instead = "to adopt these files instead, replace the others with them and adopt again"
    helps = instead if path else both
    if is_archived:
        reopen = f'forestay session reopen --because "…" --session {session}'
        helps = f"if the session continues here: {reopen}, then adopt again"
    result.problems.append(f"{what}; {helps}")


# -- what the files contain --------------------------------------------------------------------


def read_facts(one: Find, where: Where) -> tuple[Facts | None, list[str]]:
    """Return the facts in a session's files, or those that can be saved, and remarks about them."""
    if not one.format_id or one.is_bare:
        return None, []
    if one.documents and not any(fault.severity == ERROR for fault in one.faults):
        return one.facts(where), []
    saved = one.salvage(where)
    if saved is None:
        return (one.facts(where) if one.documents else None), []
    remarks = [saved.message] if saved.message else []
    inferred = [f"inferred: {line}" for line in saved.inferred]
    return saved.facts, [*remarks, *inferred, *(f"lost: {line}" for line in saved.lost)]


def _faults(one: Find) -> list[str]:
    lines = []
    for fault in (*one.faults, *check_files.check_name(one)):
        name = os.path.basename(one.paths.get(fault.file, fault.file))
        place = f"{name}:{fault.line}" if fault.line else name
        lines.append(f"{place}: {fault.what}")
    return lines


def _digest(one: Find) -> str:
    parts = (f"{name}\0{digest_of(data)}\n" for name, data in sorted(one.bundle.items()))
    return digest_of("".join(parts).encode("utf-8", "replace"))


def _session_id(context: Context, one: Find, facts: Facts) -> str:
    """Return an id for the session: the one in the files if it is valid and free, else a new one.

    A new id is derived from the files, so it is the same each time.
    """
    native = facts.native_id or one.native
    try:
        # Ids are stored everywhere, so they must not contain secrets.
        wanted = clean_id(context.journal.redact(native), "id")
    except ForestayError:
        named = native.encode("utf-8", "replace") or one.path.encode("utf-8", "replace")
        wanted = f"{one.format_id}-{digest_of(named)[:12]}"
    if not context.store.resolve(wanted) or _came_from(context, wanted, one.format_id, native):
        return wanted
    seed = f"{one.format_id}:{native}:{one.path}"
    return f"{wanted[:57]}-{digest_of(seed.encode('utf-8', 'replace'))[:6]}"


def _came_from(context: Context, session: str, kind: str, native: str) -> bool:
    with context.store.view(session) as view:
        first = next(context.journal.events(view, limit=1), None)
    body = first.body if first else None
    # The journal stores the id without escape sequences and secrets.
    is_named = getattr(body, "native_id", "") in (native, context.journal.clean_facts(native))
    return getattr(body, "origin", "") == kind and is_named


def _is_equal(context: Context, session: str, one: Find, facts: Facts, where: Where) -> bool:
    """Return whether files have the same content as a session without files of their format."""
    bindings = context.store.machine.bindings.bindings(session)
    with context.store.view(session) as view:
        events = list(context.journal.events(view))
    is_whole = bool(events) and isinstance(events[0].body, SessionStarted)
    if not is_whole or any(binding.format == one.format_id for binding in bindings):
        return False
    now = replace(facts_of(fold(events), events), native_id=facts.native_id)
    ours = carry_over.read(one.format, carry_over.write(one.format, None, now, where), where)
    # The model of a command is only in the log.
    ours, theirs = (replace(each, commands=[]) for each in (ours, facts))
    return not (moves(ours, theirs) or moves(theirs, ours))


def _state(context: Context, session: str) -> State:
    with context.store.view(session) as view:
        return fold(context.journal.events(view))


def _edits(state: State) -> list[Edit]:
    return [row for row in state.rows.select("edit") if isinstance(row, Edit)]


def _place(one: Find) -> str:
    """Return a place as a digest: the journal does not reveal folders of a machine."""
    real = os.path.realpath(one.path).encode("utf-8", "surrogateescape")
    return f"{ADOPTED_FROM}{digest_of(real)[:12]}"


def _mark(one: Find, contested: list[str], warning: str) -> ForeignEdited:
    shown = f"{CONFLICT}{', '.join(contested[:20])}; " if contested else ""
    name = os.path.basename(one.path).encode("utf-8", "replace").decode()
    cause = "; ".join(filter(None, [f"{shown}{_place(one)}", warning]))
    return ForeignEdited(format=one.format_id, path=name, digest=_digest(one), cause=cause)


def _remember_file(context: Context, session: str, one: Find) -> None:
    """Remember an unbound file as it is, so that users are not asked to adopt it again."""
    stamp = adopted_stamp(one.path)
    try:
        is_same = files.read_bounded(one.path, discover.MAX_BYTES, follow=False) == _main_bytes(one)
    except ForestayError:
        return  # gone, or too long
    if is_same:
        seen = {os.path.realpath(one.path): (stamp, "")}
        context.store.machine.seen_files.record_all(session, seen)


def _main_bytes(one: Find) -> bytes | None:
    return one.bundle.get(next(iter(one.paths)))


# -- recording ---------------------------------------------------------------------------------


def _require_unchanged(one: Find) -> None:
    """Refuse files that were moved or changed since they were read."""
    data = _main_bytes(one)
    if data is not None and data != files.read_optional(one.path, discover.MAX_BYTES):
        hint = f"forestay adopt {shlex.quote(one.path)}"
        raise Busy(f"{one.path} was changed while it was adopted", hint=hint, file=one.path)


def _record(context: Context, session: str, one: Find, facts: Facts, warning: str) -> int:
    """Record the facts of files; a last event marks the adoption as complete."""
    goal = facts.goal or one.format.goal_in(one.with_files_around())
    made = adoption_moves(replace(facts, goal=goal), one.format_id)
    last = max(filter(None, (facts.updated_at, *(move.at for move in made))), default=None)
    return _append(context, session, one, [*made, Move(_mark(one, [], warning), at=last)])


def _append(
    context: Context, session: str, one: Find, made: list[Move], state: State | None = None
) -> int:
    """Record events; `state` is the session's state if it was adopted before, else None."""
    times: list[int] = []
    for move in made:
        # An event without a time gets the time of the event before it.
        last = times[-1] if times else context.clock.now()
        times.append(last if move.at is None else move.at)
    turn = len(_edits(state)) if state else 0
    count = 0
    for start in range(0, len(made), _AT_ONCE):
        part = made[start : start + _AT_ONCE]
        done = context.journal.append(
            session,
            *(move.body for move in part),
            actor=f"file:{one.format_id}",
            key=f"adopt:{_digest(one)}:{_place(one)}:{turn}:{start}",
            create=state is None and not start,
            options=AppendOptions(at=times[start : start + _AT_ONCE], foreign=True),
        )
        count += 0 if done.repeated else len(done.events)
    return count


def _find_edit(context: Context, session: str, one: Find, facts: Facts, where: Where) -> Changes:
    """Return what changed in files since they were adopted, as changes to the session's state now.

    The adopted events give what the files contained then. All three versions are compared in the
    form in which the format can express them.
    """
    with context.store.view(session) as view:
        events = list(context.journal.events(view))
    theirs = [event for event in events if event.head.actor == f"file:{one.format_id}"]
    adopted = State()
    for event in theirs:
        extend(adopted, event)  # unlike `fold`, this does not treat gaps as forks
    state = fold(events)
    now, then = facts_of(state, events), facts_of(adopted, theirs)
    sides = [_as_written(one, each, where) for each in (then, now, facts)]
    before, today, after = map(context.journal.clean_facts, sides)
    merged, contested, residue = merge_facts(before, after, today)
    wanted, known = msgspec.convert(merged, Facts), msgspec.convert(today, Facts)
    for each in (wanted, known):
        each.steps = [step for _, step in match_steps(now.steps, each.steps, tasks_in(now))]
    made = with_journal_names(moves(known, wanted), state)
    return Changes(made, contested, "; ".join(filter(None, residue))[:LONGEST])


def _as_written(one: Find, facts: Facts, where: Where) -> Plain:
    # No format has a field for these, so they are left out of the comparison.
    facts.native_id, facts.updates = one.native, []
    tree = carry_over.write(one.format, None, facts, where, full=True)
    return as_recorded(carry_over.read(one.format, tree, where))


def _absorb_edits(context: Context, session: str) -> int:
    """Absorb edits of a session's files; return how many events were recorded."""
    before = _seq(context, session)
    absorb_file_edits(context, session)
    return _seq(context, session) - before


def _seq(context: Context, session: str) -> int:
    with context.store.view(session) as view:
        return view.seq


# -- artifacts ---------------------------------------------------------------------------------


def _save_artifacts(context: Context, session: str, one: Find, problems: list[str]) -> int:
    folder, paths = _artifact_paths(one)
    if left := paths[MAX_ARTIFACTS:]:
        first = os.path.relpath(left[0], folder)
        problems.append(f"{len(left)} of {len(paths)} artifacts were left out, from {first} on")
    # Artifacts get the time of the last work on the session, because adopting is not work on it.
    at = _state(context, session).core.updated_at if paths else None
    count = 0
    for path in paths[:MAX_ARTIFACTS]:
        try:
            data = files.read_bounded(path, MAX_ARTIFACT, follow=False)
            name = os.path.relpath(path, folder).encode("utf-8", "replace").decode()
            digest = digest_of(data)
            secrets = context.journal.find_secrets(data.decode("utf-8", "replace"))
            context.journal.append(
                session,
                ArtifactSaved(
                    path=name,
                    digest=digest,
                    size=len(data),
                    kept=not secrets,
                    redacted=sorted(set(secrets)),
                ),
                actor=f"file:{one.format_id}",
                key=f"artifact:{name}:{digest}",
                blobs=[] if secrets else [(digest, data)],
                options=AppendOptions(at=at, foreign=True),
            )
            count += 1
        except ForestayError as error:
            problems.append(str(error))
    return count


def _artifact_paths(one: Find) -> tuple[str, list[str]]:
    """Return a session's artifact folder and the files in it, if its files are in their place."""
    wanted, folder = one.conventions.artifacts, os.path.dirname(one.path)
    if not wanted or one.is_loose:
        return "", []
    if wanted.startswith("."):
        there = [path for path in files.list_paths(folder) if path.endswith(wanted)]
    else:
        # Neither an id that is a path nor a link may lead to another folder.
        below = os.path.join(one.root, wanted.format(id=one.native))
        walked = () if os.path.islink(below) else walk.walk(below)
        there = [os.path.join(here, name) for here, _, names in walked for name in names]
    shown = (path for path in there if not os.path.basename(path).startswith("."))
    return folder, sorted(path for path in shown if not files.is_irregular(path))


# -- places ------------------------------------------------------------------------------------


def _restore_current(context: Context, one: Find, left: Binding) -> None:
    """Set the current session of a project again after the project was moved."""
    was = left.root.removesuffix(f"/{REGISTRY[left.format][1]}")
    _, _, current = context.store.machine.projects.tree(was) or ("", 0, "")
    here = context.seen_from(_project_of(context, one), context.actor).workspace
    if current == left.session and not os.path.lexists(was) and not here.chosen_here():
        context.best_effort(lambda: here.choose(current))


def _project_of(context: Context, one: Find) -> str:
    """Return the folder of the project that contains these files in their format's place.

    Return the current project's folder if the files are elsewhere.
    """
    root, place = os.path.realpath(_root(one) or one.root), REGISTRY[one.format_id][1]
    here, folder = context.workspace.tree, root.removesuffix(f"/{place}") or "/"
    if not place or folder == root:
        return context.folder
    if not f"{root}/".startswith(f"{here.root.rstrip('/')}/"):
        return folder
    # In a folder without a repository, such as the user's home, each repository is a project.
    return folder if is_plain(here) and not is_plain(find_tree(folder)) else context.folder


def _root(one: Find) -> str:
    """Return the root folder of readable files in their format's place or archive, else "".

    The main file can be missing, if the program did not finish creating the session.
    """
    format = one.format
    if os.path.islink(one.path) or one.damage or not is_text(one.path):
        return ""
    if archive := _archive(one):
        return one.path.removesuffix(f"/{archive}")
    names = (
        format.files(one.native) if one.native and not format.why_unusable_id(one.native) else []
    )
    own = [
        os.path.join(one.root, name)
        for name in names
        if name not in conventions_of(format.id).shared
    ]
    in_place = one.path in own and (one.path == own[0] or not os.path.lexists(own[0]))
    return one.root if in_place else ""


def _archive(one: Find) -> str:
    """Return the file's name in its format's archive; empty if the file is not in the archive."""
    name = conventions_of(one.format_id).archive.format(id=one.native)
    is_kept = bool(one.native and name) and one.path.endswith(f"/{name}")
    return name if is_kept and not one.format.why_unusable_id(one.native) else ""
