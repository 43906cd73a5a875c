"""Adopt: sessions that began in files of other programs become sessions here.

Every event and artifact that the files tell is recorded, with the time they tell. Ids are derived
from the files, so adopting twice, or on two devices, is adopting once. What was adopted is
remembered by its digest and its place: bytes that are known tell nothing new, others in the same
place are an edit, and those of another place that claim the same id are told and left alone, unless
the folder that they were kept in is gone: then they were moved, and their session goes with them.
What was converted from files that are still there is of their session, and none of its own; so are
files that say just what a session says which was begun on another device and came here without.

Files that we can write are bound to their session and stay as they are until something happens in
it; others are only read. A template that nobody filled in is no session.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator
from functools import cached_property

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from forestay.base import files, walk
from forestay.base.hashing import digest_of
from forestay.base.text import clean_id, is_text
from forestay.errors import Busy, ForestayError
from forestay.formats import carry_over
from forestay.formats.ai_session.read import entries_of
from forestay.formats.coerce import text
from forestay.formats.essay.fields import THESIS
from forestay.formats.essay.stage_files import thesis
from forestay.formats.facts import Facts
from forestay.formats.fields import tasks_in
from forestay.formats.from_state import facts_of
from forestay.formats.port import ERROR, REGISTRY, Reading, Where, conventions_of
from forestay.formats.status_words import session_status
from forestay.formats.three_way import LONGEST, Changes, Plain, as_recorded, in_one
from forestay.formats.to_events import Move, adoption, by_known_names, match_steps, moves
from forestay.journal.context import Context
from forestay.journal.journal import AppendOptions
from forestay.mirror import check_files, discover
from forestay.mirror.check_files import Surroundings
from forestay.mirror.convert import convert
from forestay.mirror.discover import Find
from forestay.mirror.quick_scan import adopted_as
from forestay.mirror.session_files import absorb_file_edits, mirror_of
from forestay.model.event import ArtifactSaved, Event, ForeignEdited, SessionStarted
from forestay.model.fold import extend, fold
from forestay.model.state import ADOPTED_FROM, CONFLICT, Edit, State
from forestay.store.machine.bindings import Binding
from forestay.workspace.tree import find_tree, is_plain

MAX_ARTIFACTS = 500
MAX_ARTIFACT = 16 * 1024 * 1024
_AT_ONCE = 5000

ADOPTED, KNOWN, EDITED, MOVED = "adopted", "known", "edited", "moved"
COPY, RIVAL, TEMPLATE, UNREADABLE = "copy", "rival", "template", "unreadable"


class Adopted(Struct):
    """What became of one session's files. Without a `session` they could not be taken."""

    path: str
    layout: str
    native: str
    session: str = ""
    outcome: str = UNREADABLE
    events: int = 0
    artifacts: int = 0
    is_new: bool = False
    bound: bool = False
    problems: list[str] = []
    errors: int = 0
    """In how many places files that were taken break the rules of their document."""
    reading: Reading = Reading("")
    """How the files were read, as far as they were."""


class Manner(Struct, frozen=True):
    """How to adopt: only say what would be, take what is not filled in too, and where the
    definitions of workflows are."""

    dry_run: bool = False
    templates: bool = False
    workflows: str = ""


def adopt(
    context: Context, path: str, manner: Manner | None = None, *, also: Iterable[str] = ()
) -> Iterator[Adopted]:
    """Take every session found at a path, and in other folders; one that fails keeps no other."""
    taking = _Taking(context, manner or Manner())
    try:
        for one in _in_order((path, *also)):
            told = taking.try_to_take(one)
            # A list of sessions that are over, and put away, is nothing to speak of.
            if told.problems or told.outcome == TEMPLATE or not one.is_index:
                yield told
    finally:
        # Once for all of them: a write that is synced takes longer than all else about a session.
        for folder, sessions in taking.taken.items():
            _claim(context, folder, sessions)
        if taking.taken:
            context.run_due_jobs()


def _in_order(places: Iterable[str]) -> Iterator[Find]:
    """What was converted from other files comes last: theirs is the session."""
    converted = []
    for place in places:
        for one in discover.sessions(place):
            if carry_over.origins(one.tree):
                converted.append(one)
            else:
                yield one
    yield from converted


def _claim(context: Context, folder: str, sessions: list[str]) -> None:
    there = context.seen_from(folder, context.actor)
    context.best_effort(lambda: there.workspace.claim(sessions))


class _Taking:
    def __init__(self, context: Context, manner: Manner) -> None:
        self.context = context
        self.manner = manner
        self.claimed: dict[tuple[str, str], tuple[str, str, str]] = {}
        self.taken: dict[str, list[str]] = {}
        self.where = Surroundings(mirror_of(context).where, manner.workflows).of
        self.clean = context.journal.redact

    def try_to_take(self, one: Find) -> Adopted:
        try:
            told = self.take(one)
        except ForestayError as error:
            told = Adopted(one.path, one.layout, one.native, problems=[str(error)])
        told.native = self.clean(told.native)
        told.problems = [self.clean(problem) for problem in told.problems]
        return told

    def take(self, one: Find) -> Adopted:
        where = self.where(one)
        facts, saved = facts_in(one, where)
        told = Adopted(one.path, one.layout, one.native, problems=_faults(one))
        told.reading = check_files.reading_of(one, where, self.clean)
        if facts is None:
            return told
        told.native = facts.native_id = facts.native_id or one.native
        owner = self._owner(one, told.native)
        if not self.manner.templates and _is_template(one, where):
            told.outcome = TEMPLATE
        elif one.is_index:
            told.problems = told.problems or _gone(one)
        elif owner is not None or not self._has_rival_here(one, told):
            self._settle(one, facts, told, owner)
        if told.outcome in (ADOPTED, EDITED):
            told.problems[:0] = [] if owner else saved
            told.errors = _errors(one, where)
        if owner is None and told.outcome != RIVAL:
            claim = one.path, _digest(one), told.session
            self.claimed.setdefault((one.layout, told.native), claim)
        if told.session and not self.manner.dry_run:
            self._remember(one, told)
        return told

    def _remember(self, one: Find, told: Adopted) -> None:
        """Whose files these are; also of known ones, which a crash may have kept from it."""
        if told.outcome != COPY:
            self.taken.setdefault(_project_of(self.context, one), []).append(told.session)
        if not told.bound:
            _saw(self.context, told.session, one)

    def _owner(self, one: Find, native: str) -> Binding | None:
        """Whose place it is; nobody's, if another program began a session in the one place there
        is for all of them. Ours is archived then."""
        owner = self.context.store.machine.bindings.owner(os.path.realpath(one.path))
        if owner is None or one.damage or not conventions_of(one.layout).archive:
            return owner
        # Who took the id out edited our file all the same.
        return owner if native in ("", owner.native) else None

    def _has_rival_here(self, one: Find, told: Adopted) -> bool:
        """Whether another file was met on the way that claims to be the same session."""
        path, digest, session = self.claimed.get((one.layout, told.native), ("", "", ""))
        if path and told.native:
            _tell_of_rival(told, one, path, session, same=digest == _digest(one))
        return bool(path and told.native)

    def _source(self, one: Find) -> tuple[str, str] | None:
        """The file that others were converted from, if it is still there, and its session."""
        for kind, id in carry_over.origins(one.tree).items():
            if known := _twin(self.context, kind, id):
                return known.place, known.session
            if (kind, id) in self.claimed:
                path, _, session = self.claimed[kind, id]
                return path, session
        return None

    def _join(self, one: Find, told: Adopted, source: str, session: str) -> None:
        """Files that were converted from others: where they lie in their place and say the same,
        their session is kept there, too."""
        root, usual = _root(one), REGISTRY[one.layout][1]
        in_place = bool(root) and (not usual or root.endswith(f"/{usual}"))
        if session and in_place and _is_conversion(self.context, one, source, self.manner):
            told.session, told.outcome = session, ADOPTED
            if not self.manner.dry_run:
                told.bound = _bind(self.context, session, one, self.where(one))
            return
        told.outcome, told.session = (RIVAL, "") if in_place else (COPY, session)
        told.problems.append(_converted(source))

    def _settle(self, one: Find, facts: Facts, told: Adopted, owner: Binding | None) -> None:
        if owner is None and self._has_session(one, facts, told):
            return
        if owner is not None and not one.damage and told.native not in ("", owner.native):
            told.outcome = RIVAL
            told.problems.append(_in_place_of(owner))
            return
        told.session = owner.session if owner else _session_id(self.context, one, facts)
        told.is_new = not self.context.store.resolve(told.session)
        state = None if told.is_new else _state(self.context, told.session)
        if owner is not None and not told.is_new:
            self._take_up(told)
        elif state is None or not _is_remembered(state):
            self._record(one, facts, told)
        else:
            self._compare(one, facts, told, state)

    def _has_session(self, one: Find, facts: Facts, told: Adopted) -> bool:
        """Whether files that nobody keeps are of a session which let go of them, whose folder was
        moved, which is kept in other files, in those that they were converted from, or which
        came here without them."""
        if session := _let_go_by(self.context, one, told.native):
            self._take_again(one, told, session)
        elif moved := _left_behind(self.context, one, told.native):
            self._follow(one, moved, told)
        elif twin := _twin(self.context, one.layout, told.native):
            self._meet(one, told, twin)
        elif source := self._source(one):
            self._join(one, told, *source)
        elif session := self._came_ahead(one, facts):
            self._reunite(one, told, session)
        else:
            return False
        return True

    def _meet(self, one: Find, told: Adopted, twin: Binding) -> None:
        """Files of a session that is kept in others: they were taken out of its archive, or else a
        stale copy would bring back what was ended here."""
        if mirror_of(self.context).take_out(twin, one.path, dry_run=self.manner.dry_run):
            told.session = twin.session
            self._take_up(told)
            return
        same = _main_bytes(one) == files.read_optional(twin.place, discover.MAX_BYTES)
        way = "" if _archive(one) else self._way_back(twin)
        _tell_of_rival(told, one, twin.place, twin.session, same=same, way=way)

    def _came_ahead(self, one: Find, facts: Facts) -> str:
        """The session that was begun elsewhere and is here without these files of its, which say
        what it says."""
        began = self._unbound.get((facts.began_at or 0) // 1000, []) if _root(one) else []
        where = self.where(one)
        return next((id for id in began if _is_said_by(self.context, id, one, facts, where)), "")

    @cached_property
    def _unbound(self) -> dict[int, list[str]]:
        """The sessions that were here without files before, by the second in which they began."""
        began: dict[int, list[str]] = {}
        bound = {binding.session for binding in self.context.store.machine.bindings.bindings()}
        for row in self.context.store.catalogue():
            if row["id"] not in bound:
                began.setdefault(int(str(row["began"] or 0)) // 1000, []).append(str(row["id"]))
        return began

    def _reunite(self, one: Find, told: Adopted, session: str) -> None:
        told.session, told.outcome = session, ADOPTED
        if not self.manner.dry_run:
            self._bind(one, told)

    def _take_again(self, one: Find, told: Adopted, session: str) -> None:
        """Files that a session let go of are its own, with what was written into them since."""
        told.session = session
        if not self.manner.dry_run:
            mirror_of(self.context).bind(
                session, one.layout, told.native, _root(one), found=True, away=bool(_archive(one))
            )
        self._take_up(told)

    def _follow(self, one: Find, left: Binding, told: Adopted) -> None:
        """Files that were moved with their folder: their session goes on with them there."""
        told.session, told.outcome, told.bound = left.session, MOVED, True
        if not self.manner.dry_run and mirror_of(self.context).follow(left, _root(one)):
            told.events = _taken_up(self.context, left.session)
            _stay_current(self.context, one, left)

    def _record(self, one: Find, facts: Facts, told: Adopted) -> None:
        told.outcome = ADOPTED
        if self.manner.dry_run:
            return
        with mirror_of(self.context).holding(os.path.dirname(one.path)):
            _require_unmoved(one)
            told.events = _record(self.context, told.session, one, facts, told.reading.warning)
            told.artifacts = _keep_artifacts(self.context, told.session, one, told.problems)
            self._bind(one, told)

    def _bind(self, one: Find, told: Adopted) -> None:
        """Keep the files from now on, unless they name another session than their folder does."""
        if told.native == one.native:
            told.bound = _bind(self.context, told.session, one, self.where(one))

    def _take_up(self, told: Adopted) -> None:
        """Files that are bound: what changed in them is an edit like any other."""
        told.outcome, told.bound = KNOWN, True
        if self.manner.dry_run:
            return
        told.events = _taken_up(self.context, told.session)
        told.outcome = EDITED if told.events else KNOWN

    def _way_back(self, twin: Binding) -> str:
        """How a session goes on that was ended here, where it is only in the archive."""
        with self.context.store.view(twin.session) as view:
            may_return = view.listing().get("status") in ("completed", "abandoned")
        kept = os.path.join(twin.root, conventions_of(twin.layout).archive.format(id=twin.native))
        is_away = may_return and twin.place == kept
        return f'forestay session reopen --because "…" --session {twin.session}' if is_away else ""

    def _compare(self, one: Find, facts: Facts, told: Adopted, state: State) -> None:
        """Files of a session that is here: the bytes are known, an edit, or a rival's."""
        told.outcome = KNOWN
        elsewhere = _bound_elsewhere(self.context, told.session, one)
        if elsewhere or not (_knows(state, one) or self._lost_sight(one, told.session, state)):
            if elsewhere or not _came_from_here(state, one):
                same = _digest(one) in _digests(state)
                return _tell_of_rival(told, one, elsewhere, told.session, same=same)
            self._edit(one, facts, told, state)
        if not self.manner.dry_run and not told.bound:
            self._bind(one, told)

    def _lost_sight(self, one: Find, session: str, state: State) -> bool:
        """Whether these are the bytes of a session that is bound to no file of the layout: whoever
        adopted it died before, and they were put away since."""
        known = self.context.store.machine.bindings.bindings(session)
        is_free = not any(binding.layout == one.layout for binding in known)
        return is_free and bool(_root(one)) and _digest(one) in _digests(state)

    def _edit(self, one: Find, facts: Facts, told: Adopted, state: State) -> None:
        edit = _edited(self.context, told.session, one, facts, self.where(one))
        is_news = edit.moves or edit.contested or edit.residue
        told.outcome = EDITED if is_news else KNOWN
        told.problems += [f"not taken up: {edit.residue}"] if edit.residue else []
        if is_news and not self.manner.dry_run:
            mark = replace(_mark(one, edit.contested, told.reading.warning), residue=edit.residue)
            _append(self.context, told.session, one, [Move(mark), *edit.moves], state)
            told.events = len(edit.moves)


def _in_place_of(owner: Binding) -> str:
    what = f"another session is here, in the place of {owner.session}; it was left alone"
    let_go = f"forestay files unbind {owner.layout} --session {owner.session}"
    return f"{what}; if it is the one that counts: {let_go}, then adopt again"


def _tell_of_rival(
    told: Adopted, one: Find, path: str, session: str, *, same: bool, way: str = ""
) -> None:
    """Files that claim to be a session which is here, from a path or, if nobody knows any more
    from which, as a session of ours: the same are its own, others are left alone. `way` is a
    command that lets it go on in those."""
    told.outcome, told.session = (COPY, session) if same else (RIVAL, "")
    alike = f"the same as {path or f'session {session}, from another place'}"
    told.problems.append(alike if same else _both_claim(one, path, session, way))


def _both_claim(one: Find, path: str, session: str, way: str) -> str:
    what = "claims the same id and says something else; this one was left alone"
    if way:
        return f"{path} {what}; if it goes on there: {way}, then adopt again"
    if path:
        # Only what is where its layout has it is followed to another folder.
        way = "move that one away" if _root(one) else "put it in the place of that one"
        return f"{path} {what}; if it is the one that counts, {way} and adopt again"
    file = shlex.quote(one.path)
    mend = f"forestay doctor {file}, then: " if one.damage else ""
    new = f"{mend}forestay files convert {file} --to {one.layout} --id ID -o OUT"
    said = f"session {session}, from another place, {what}"
    return f"{said}; to have both: {new}, then: forestay adopt OUT"


def _converted(source: str) -> str:
    what = f"converted from {source}, where its session goes on; this one was left alone"
    return f"{what}; if it is the one that counts, move that one away and adopt again"


def _is_conversion(context: Context, one: Find, source: str, manner: Manner) -> bool:
    """Whether files are what others come to in their layout as they are now."""
    where, definitions = mirror_of(context).where(""), manner.workflows
    try:
        made = convert(source, one.layout, where, native=one.native, workflows=definitions)
    except ForestayError:
        return False
    return all(one.bundle.get(name) == data for name, data in made.files.items())


# -- what the files say ------------------------------------------------------------------------


def facts_in(one: Find, where: Where) -> tuple[Facts | None, list[str]]:
    """What a session's files say; or what can be saved of them, and what has to be said of that."""
    if not one.layout or one.is_bare:
        return None, []
    if one.documents and not any(fault.severity == ERROR for fault in one.faults):
        return one.facts(where), []
    saved = one.salvage(where)
    if saved is None:
        return (one.facts(where) if one.documents else None), []
    said = [saved.message] if saved.message else []
    inferred = [f"inferred: {line}" for line in saved.inferred]
    return saved.facts, [*said, *inferred, *(f"lost: {line}" for line in saved.lost)]


def _gone(one: Find) -> list[str]:
    """The sessions of which a list alone says that they are not over."""
    told = ((text(e.get("feature_id")), text(e.get("status"))) for e in entries_of(one.tree))
    left = [id for id, word in told if id and session_status(one.layout, word) != "completed"]
    return [f"{id} is listed, and its files are not there" for id in left]


def _faults(one: Find) -> list[str]:
    told = (*one.faults, *check_files.check_name(one))
    return [_said(one, fault.file, fault.line, fault.what) for fault in told]


def _said(one: Find, file: str, line: int, message: str) -> str:
    name = os.path.basename(one.paths.get(file, file))
    return f"{name}:{line}: {message}" if line else f"{name}: {message}"


def _errors(one: Find, where: Where) -> int:
    """How many errors `check` finds in files beyond those that kept some from being read."""
    return (
        sum(f.severity == ERROR for f in one.format.check(one.tree, where)) if one.documents else 0
    )


def _is_template(one: Find, where: Where) -> bool:
    """Whether nobody has filled in which session it is, or how it stands."""
    if not one.documents or one.layout not in _WITH_TEMPLATES:
        return False
    found = [f for f in one.format.check(one.tree, where) if f.code == "placeholder"]
    return any(f.where.rpartition(".")[2] in _ESSENTIAL for f in found)


_WITH_TEMPLATES = ("ai-session", "essay")
_ESSENTIAL = ("pipeline_id", "feature_id", "session_id", "id", "status")


def _digest(one: Find) -> str:
    parts = (f"{name}\0{digest_of(data)}\n" for name, data in sorted(one.bundle.items()))
    return digest_of("".join(parts).encode("utf-8", "replace"))


def _session_id(context: Context, one: Find, facts: Facts) -> str:
    """The native id where it can be ours and is not taken by something else."""
    native = facts.native_id or one.native
    try:
        # What is stored everywhere may be no secret.
        wanted = clean_id(context.journal.redact(native), "id")
    except ForestayError:
        named = native.encode("utf-8", "replace") or one.path.encode("utf-8", "replace")
        wanted = f"{one.layout}-{digest_of(named)[:12]}"
    if not context.store.resolve(wanted) or _came_from(context, wanted, one.layout, native):
        return wanted
    seed = f"{one.layout}:{native}:{one.path}"
    return f"{wanted[:57]}-{digest_of(seed.encode('utf-8', 'replace'))[:6]}"


def _is_said_by(context: Context, session: str, one: Find, facts: Facts, where: Where) -> bool:
    """Whether files are those that a session of ours would have, if it has no others."""
    if any(
        binding.layout == one.layout for binding in context.store.machine.bindings.bindings(session)
    ):
        return False
    with context.store.view(session) as view:
        events = list(context.journal.events(view))
    if not (events and isinstance(events[0].body, SessionStarted)):
        return False
    now = replace(facts_of(fold(events), events), native_id=facts.native_id)
    ours = carry_over.read(one.format, carry_over.write(one.format, None, now, where), where)
    # With which model a command ran is in the log alone.
    ours, theirs = (replace(each, commands=[]) for each in (ours, facts))
    return not (moves(ours, theirs) or moves(theirs, ours))


def _came_from(context: Context, session: str, kind: str, native: str) -> bool:
    with context.store.view(session) as view:
        first = next(context.journal.events(view, limit=1), None)
    body = first.body if first else None
    # What stands in the journal is what may: no escape sequence, no secret.
    named = getattr(body, "native_id", "") in (native, context.journal.clean_facts(native))
    return getattr(body, "origin", "") == kind and named


# -- what is remembered ------------------------------------------------------------------------


def _state(context: Context, session: str) -> State:
    with context.store.view(session) as view:
        return fold(context.journal.events(view))


def _edits(state: State) -> list[Edit]:
    return [row for row in state.rows.select("edit") if isinstance(row, Edit)]


def _is_remembered(state: State) -> bool:
    """Whether an adoption was recorded to its end."""
    return bool(_edits(state))


def _digests(state: State) -> set[str]:
    return {row.digest for row in _edits(state)}


def _knows(state: State, one: Find) -> bool:
    """Whether the last that was seen of this place are these bytes."""
    here = [row.digest for row in _edits(state) if _place(one) in row.cause]
    return here[-1:] == [_digest(one)]


def _came_from_here(state: State, one: Find) -> bool:
    return any(_place(one) in row.cause for row in _edits(state))


def _place(one: Find) -> str:
    """A place as it is remembered: which folder of which machine it was is nobody's business."""
    real = os.path.realpath(one.path).encode("utf-8", "surrogateescape")
    return f"{ADOPTED_FROM}{digest_of(real)[:12]}"


def _mark(one: Find, contested: list[str], warning: str) -> ForeignEdited:
    shown = f"{CONFLICT}{', '.join(contested[:20])}; " if contested else ""
    name = os.path.basename(one.path).encode("utf-8", "replace").decode()
    cause = "; ".join(filter(None, [f"{shown}{_place(one)}", warning]))
    return ForeignEdited(layout=one.layout, path=name, digest=_digest(one), cause=cause)


def _saw(context: Context, session: str, one: Find) -> None:
    """Remember files that are only read, as they are, so that nobody is told to adopt them."""
    stamp = adopted_as(one.path)
    try:
        is_same = files.read_bounded(one.path, discover.MAX_BYTES, follow=False) == _main_bytes(one)
    except ForestayError:
        return  # gone meanwhile, or too long to be read twice
    if is_same:
        context.store.machine.seen_files.record_all(
            session, {os.path.realpath(one.path): (stamp, "")}
        )


def _bound_elsewhere(context: Context, session: str, one: Find) -> str:
    """Another file that this session is bound to in the same layout, and that is still there."""
    real = os.path.realpath(one.path)
    places = [
        b.place for b in context.store.machine.bindings.bindings(session) if b.layout == one.layout
    ]
    return next((p for p in places if p != real and os.path.lexists(p)), "")


def _twin(context: Context, kind: str, native: str) -> Binding | None:
    """The binding of another file that is still there and has this id of a layout."""
    known = context.store.machine.bindings.named(kind, native) if native else []
    return next((b for b in known if os.path.lexists(b.place)), None)


def _let_go_by(context: Context, one: Find, native: str) -> str:
    """The session whose files these were until it let go of them; nothing if it has others."""
    root = os.path.realpath(_root(one)) if native and _root(one) else ""
    session = context.store.machine.bindings.had(one.layout, native, root) if root else ""
    others = context.store.machine.bindings.bindings(session) if session else []
    return "" if any((b.layout, b.root) == (one.layout, root) for b in others) else session


def _left_behind(context: Context, one: Find, native: str) -> Binding | None:
    """The binding of these files in a folder that is gone, where they are whole here."""
    known = context.store.machine.bindings.named(one.layout, native) if native else []
    gone = [b for b in known if not os.path.lexists(b.root)]
    return gone[0] if len(gone) == len(known) == 1 and _root(one) else None


def _main_bytes(one: Find) -> bytes | None:
    return one.bundle.get(next(iter(one.paths)))


# -- recording ---------------------------------------------------------------------------------


def _require_unmoved(one: Find) -> None:
    """Refuse what somebody put away, or changed, since it was read."""
    data = _main_bytes(one)
    if data is not None and data != files.read_optional(one.path, discover.MAX_BYTES):
        hint = f"forestay adopt {shlex.quote(one.path)}"
        raise Busy(f"{one.path} was changed meanwhile", hint=hint, file=one.path)


def _record(context: Context, session: str, one: Find, facts: Facts, warning: str) -> int:
    """Record what files tell; the mark at the very end says that nothing is missing."""
    made = adoption(replace(facts, goal=facts.goal or _thesis(one)), one.layout)
    told = max(filter(None, (facts.updated_at, *(move.at for move in made))), default=None)
    return _append(context, session, one, [*made, Move(_mark(one, [], warning), at=told)])


def _thesis(one: Find) -> str:
    """What an essay sets out to show: its session file has no goal."""
    if one.layout != "essay":
        return ""
    path = os.path.join(one.root, THESIS)
    try:
        return thesis(files.read_optional(path, MAX_ARTIFACT, follow=False) or b"").statement
    except ForestayError:
        return ""


def _append(
    context: Context, session: str, one: Find, made: list[Move], state: State | None = None
) -> int:
    """Record what happened; `state` is that of a session that was adopted before."""
    times = _times(made, context.clock.now())
    turn = len(_edits(state)) if state else 0
    count = 0
    for start in range(0, len(made), _AT_ONCE):
        part = made[start : start + _AT_ONCE]
        done = context.journal.append(
            session,
            *(move.body for move in part),
            actor=f"file:{one.layout}",
            key=f"adopt:{_digest(one)}:{_place(one)}:{turn}:{start}",
            create=state is None and not start,
            options=AppendOptions(at=times[start : start + _AT_ONCE], foreign=True),
        )
        count += 0 if done.repeated else len(done.events)
    return count


def _times(made: list[Move], now: int) -> list[int]:
    """When each happened: what has no time of its own happened right after what is before it."""
    times: list[int] = []
    for move in made:
        times.append(move.at if move.at is not None else times[-1] if times else now)
    return times


def _edited(context: Context, session: str, one: Find, facts: Facts, where: Where) -> Changes:
    """What changed in files since they were adopted, applied to the facts of today.

    What they said then is what their own events say. All sides are compared as the layout can
    tell them.
    """
    with context.store.view(session) as view:
        events = list(context.journal.events(view))
    theirs = [event for event in events if event.head.actor == f"file:{one.layout}"]
    state = fold(events)
    now = facts_of(state, events)
    then = facts_of(_one_by_one(theirs), theirs)
    said = [_as_told(one, each, where) for each in (then, now, facts)]
    before, today, after = map(context.journal.clean_facts, said)
    merged, contested, residue = in_one(before, after, today)
    wanted, known = msgspec.convert(merged, Facts), msgspec.convert(today, Facts)
    for each in (wanted, known):
        each.steps = [step for _, step in match_steps(now.steps, each.steps, tasks_in(now))]
    made = by_known_names(moves(known, wanted), state)
    return Changes(made, contested, "; ".join(filter(None, residue))[:LONGEST])


def _one_by_one(some: list[Event]) -> State:
    """What some events of a journal add up to: those left out make no two sides of the rest."""
    state = State()
    for event in some:
        extend(state, event)
    return state


def _as_told(one: Find, facts: Facts, where: Where) -> Plain:
    # That something was recorded is in no file, so it is none of what both sides say.
    facts.native_id, facts.updates = one.native, []
    tree = carry_over.write(one.format, None, facts, where, full=True)
    return as_recorded(carry_over.read(one.format, tree, where))


def _taken_up(context: Context, session: str) -> int:
    """Take up what was written into a session's files; how many events it came to."""
    before = _seq(context, session)
    absorb_file_edits(context, session)
    return _seq(context, session) - before


def _seq(context: Context, session: str) -> int:
    with context.store.view(session) as view:
        return view.seq


# -- artifacts ---------------------------------------------------------------------------------


def _keep_artifacts(context: Context, session: str, one: Find, problems: list[str]) -> int:
    folder, paths = _artifact_paths(one)
    if left := paths[MAX_ARTIFACTS:]:
        first = os.path.relpath(left[0], folder)
        problems.append(f"{len(left)} of {len(paths)} artifacts were left out, from {first} on")
    # What they were like was so when the session was last worked on: nobody did so just now.
    at = _state(context, session).core.updated_at if paths else None
    kept = 0
    for path in paths[:MAX_ARTIFACTS]:
        try:
            _keep_artifact(context, session, one, folder, path, at)
            kept += 1
        except ForestayError as error:
            problems.append(str(error))
    return kept


def _keep_artifact(
    context: Context, session: str, one: Find, folder: str, path: str, at: int | None
) -> None:
    data = files.read_bounded(path, MAX_ARTIFACT, follow=False)
    digest, secrets = digest_of(data), context.journal.find_secrets(data.decode("utf-8", "replace"))
    name = os.path.relpath(path, folder).encode("utf-8", "replace").decode()
    body = ArtifactSaved(
        path=name, digest=digest, size=len(data), kept=not secrets, redacted=sorted(set(secrets))
    )
    context.journal.append(
        session,
        body,
        actor=f"file:{one.layout}",
        key=f"artifact:{name}:{digest}",
        blobs=[] if secrets else [(digest, data)],
        options=AppendOptions(at=at, foreign=True),
    )


def _artifact_paths(one: Find) -> tuple[str, list[str]]:
    """Files beside the session that are its work: S0's artifacts, an essay's stages."""
    if one.layout == "ai-session" and not one.is_loose:
        folder = os.path.join(one.root, one.native)
        artifacts = os.path.join(folder, discover.ARTIFACTS)
        # Neither an id that is a path nor a link makes another folder the session's.
        return folder, [] if os.path.islink(artifacts) else _files_below(artifacts)
    if one.layout == "essay" and os.path.basename(one.path) == one.format.files("")[0]:
        folder = os.path.dirname(one.path)
        return folder, [p for p in _files_below(folder, deep=False) if p.endswith(".md")]
    return "", []


def _files_below(folder: str, *, deep: bool = True) -> list[str]:
    there: list[str] = []
    for here, below, names in walk.walk(folder):
        if not deep:
            below.clear()
        there += (os.path.join(here, name) for name in names if not name.startswith("."))
    return sorted(path for path in there if not files.is_irregular(path))


# -- binding -----------------------------------------------------------------------------------


def _bind(context: Context, session: str, one: Find, where: Where) -> bool:
    """Bind files that are in their place and that we can write; never write them now."""
    root = _root(one)
    if not (root and one.format.reading(one.tree, where).writable):
        return False
    away = bool(_archive(one))
    mirror_of(context).bind(
        session, one.layout, one.native, root, found=True, away=away, tell=context.notify
    )
    mirror_of(context).accept(session, {one.paths[n]: d for n, d in one.documents.items()})
    return True


def _stay_current(context: Context, one: Find, left: Binding) -> None:
    """A project that was moved takes its current session along: the files are its evidence."""
    was = left.root.removesuffix(f"/{REGISTRY[left.layout][1]}")
    _, _, current = context.store.machine.projects.tree(was) or ("", 0, "")
    here = context.seen_from(_project_of(context, one), context.actor).workspace
    if current == left.session and not os.path.lexists(was) and not here.chosen_here():
        context.best_effort(lambda: here.choose(current))


def _project_of(context: Context, one: Find) -> str:
    """The folder of the project that files are in the place of a layout in; else this one."""
    root, place = os.path.realpath(_root(one) or one.root), REGISTRY[one.layout][1]
    here, folder = context.workspace.tree, root.removesuffix(f"/{place}") or "/"
    if not place or folder == root:
        return context.folder
    if not f"{root}/".startswith(f"{here.root.rstrip('/')}/"):
        return folder
    # Below a folder that is none itself, as that of the user, a repository is a project.
    return folder if is_plain(here) and not is_plain(find_tree(folder)) else context.folder


def _root(one: Find) -> str:
    """The folder of the layout, if files can be read and lie where it wants them, or in its
    archive; the main one may be missing, if whoever began the session did not come to it."""
    format = one.format
    if os.path.islink(one.path) or one.damage or not is_text(one.path):
        return ""
    if archive := _archive(one):
        return one.path.removesuffix(f"/{archive}")
    names = format.files(one.native) if one.native and not format.unkept_id(one.native) else []
    own = [
        os.path.join(one.root, name)
        for name in names
        if name not in conventions_of(format.id).shared
    ]
    in_place = one.path in own and (one.path == own[0] or not os.path.lexists(own[0]))
    return one.root if in_place else ""


def _archive(one: Find) -> str:
    """Where a file is in the archive of its layout; empty if it is elsewhere."""
    name = conventions_of(one.layout).archive.format(id=one.native)
    is_kept = bool(one.native and name) and one.path.endswith(f"/{name}")
    return name if is_kept and not one.format.unkept_id(one.native) else ""
