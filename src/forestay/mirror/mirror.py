"""Mirror: keeps layout files equal to state, and takes up what others write into them.

Words. A session is *bound* to a place of a layout (`owner`). What we write there is a *rendering*;
the last few are remembered. What is found in a file is looked at (`look`), what others wrote is
absorbed (`absorb`), what we write is rendered (`render`); ended sessions go to a layout's
`archive`.

The secret of this room is the order: look, absorb, decide and record (elsewhere), render,
remember, exchange, look at what the exchange displaced. A rendering is remembered before it is
written, those of all bindings in one step. A crash in between is found
at the next access: the files are not the newest rendering. While git is in the middle of an
operation, or a file cannot be read or is not ours, nothing is read or written there: the binding is
*suspended*, and says why.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager, suppress
from functools import partial

from msgspec import Struct

from forestay.base import files, swap_file
from forestay.base.lockfile import ScriptLock, describe_stale_lock
from forestay.errors import ForestayError
from forestay.formats.port import Where, conventions_of, load_format
from forestay.formats.text.document import Document
from forestay.formats.text.safe_parse import Unreadable
from forestay.formats.to_events import Move
from forestay.mirror import bindings as mirror_bindings
from forestay.mirror import erase
from forestay.mirror.absorb import Absorber
from forestay.mirror.archive import Archive, archived_place, is_taken
from forestay.mirror.context import (
    Desk,
    Suspended,
    above,
    folders_of,
    is_real,
    paths_of,
    put_away,
)
from forestay.mirror.erase import Owned
from forestay.mirror.read_files import Look, Looker, is_log, require_inside
from forestay.mirror.render import Plan, Renderer, prepare, to_sync
from forestay.model.event import Body
from forestay.store.machine.bindings import Binding
from forestay.workspace.tree import git_operation, is_tracked

_TRIES = 5
_PATIENCE = 10.0
_UNENDED = "they were not written to the end, which is done by: forestay doctor --fix"
_UNDONE = "they are gone, or older than what we wrote, which is mended by: forestay doctor --fix"
_LOUD = frozenset(
    f"session.{word}" for word in ("paused", "completed", "failed", "aborted", "abandoned")
)
"""Events after which files that git tracks are written too."""


class _Job(Struct):
    """A binding that is being written, under its locks."""

    binding: Binding
    said: list[str] = []
    looks: list[Look] = []
    plan: Plan | None = None
    is_done: bool = False


class Mirror:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._bound = desk.bound
        self._look_anew()
        self._archive = Archive(desk)
        self._quiet: dict[int, bool] = {}
        self._seen: tuple[str, list[Binding]] = ("", [])
        self._last: tuple[str, list[Binding]] = ("", [])
        self._above: set[str] = {os.sep}
        self._held: set[str] = set()

    # -- binding -------------------------------------------------------------------------------

    def bindings(self, session: str = "") -> list[Binding]:
        return self._bound.bindings(session)

    def standing(self, session: str = "") -> list[Binding]:
        """The bindings of a session, or all, each with why its files are left alone as they are
        now; changes nothing."""
        found = self.bindings(session)
        for binding in found:
            try:
                binding.suspended = self._hindrance(binding)
            except (Suspended, Unreadable) as error:
                binding.suspended = str(error)
            except ForestayError:
                continue  # nobody can tell now: what was found last is told
        return found

    def _hindrance(self, binding: Binding) -> str:
        if shut := next((f for f in folders_of(binding) if files.is_not_searchable(f)), ""):
            return f"{shut} may not be entered"
        self._require_calm(binding)
        for folder in folders_of(binding):
            require_inside(binding.root, folder)
        if put_away(binding) and self._archive.is_over(binding):
            return ""
        _own_lock(binding)
        looks: list[Look] = []
        if not self._looker.unchanged(binding):
            binding.place = self._archive.whereabouts(binding)
            looks = self._looker.looks(binding)
        elif self._is_up_to_date(binding) and not self._archive.is_owed(binding):
            # As we left them they are written again, unless something else stands in the way.
            return binding.suspended
        is_edit = any(look.verdict == "edited" for look in looks)
        # They are written with the next event, if they can be, and if there is one.
        return next(filter(None, _obstacles(binding)), "") or self._unended(binding, is_edit)

    def _unended(self, binding: Binding, is_edit: bool) -> str:
        """What is told of files of a session that is over, if whoever wrote them died, or somebody
        took them away since."""
        if self._archive.is_owed(binding):
            self._archive.require_room(binding)
            return _UNENDED
        is_told = not (is_edit or binding.quiet) and self._archive.is_over(binding)
        why = _UNDONE if self._is_up_to_date(binding) else _UNENDED
        return why if is_told else ""

    def waiting(self) -> set[int]:
        """The bindings whose files something keeps us from now, by their numbers."""
        return {each.number for each in self.standing() if each.suspended}

    def try_again(self, waited: Set[int]) -> list[Binding]:
        """Bring files up to date that something keeps us from, or kept, where that is gone; says
        whose."""
        standing = self.standing()
        behind = {b.number for b in standing if b.number in waited and not self._is_up_to_date(b)}
        waiting = [each for each in standing if each.suspended or each.number in behind]
        for binding in waiting:
            self.write(binding.session, force=self._archive.is_over(binding))
        # Files that git tracks wait for the next pause.
        left = {b.number for b in self.standing() if b.suspended or not self._is_up_to_date(b)}
        return [each for each in waiting if each.number not in left]

    def _is_up_to_date(self, binding: Binding) -> bool:
        with self._desk.store.view(binding.session) as view:
            return binding.mirrored >= view.seq

    def bind(
        self,
        session: str,
        kind: str,
        native: str = "",
        root: str = "",
        *,
        found: bool = False,
        away: bool = False,
        tell: Callable[[str], None] | None = None,
    ) -> Binding:
        """Give a session a place in a layout. Its files appear with the next `write`.

        Files that are there already are somebody's session, unless they were `found` to be its;
        they may be `away`, where the layout keeps older ones. `tell` is told of a session that is
        put there to make room.
        """
        retired: list[Binding] = []

        def retire(other: Binding) -> list[str]:
            retired.append(other)
            return self._guarded(other, self._retire)

        self._last = ("", [])
        with self.holding(root or self.root_of(kind)):
            binding = mirror_bindings.bind(
                self._desk, session, kind, native, root, found=found, away=away, retire=retire
            )
            for other in retired:
                self._write_put_away(other.session)
                if tell is not None:
                    place = archived_place(other.layout, other.native, other.root)
                    tell(f"the session before is archived: {place}")
        return binding

    @contextmanager
    def holding(self, *roots: str) -> Iterator[None]:
        """Keep the projects that some folders are in for whoever begins there.

        Who looks whether a place is free, takes it and writes its files there is alone meanwhile,
        among all homes: who waited finds whole files. This comes before all locks on files.
        """
        folders = {self._desk.tree_of(os.path.realpath(root)).root for root in roots}
        with ExitStack() as locks:
            for folder in sorted(folders - self._held):
                locks.enter_context(self._locked(folder))
                locks.callback(self._held.remove, folder)
                self._held.add(folder)
            yield

    def _write_put_away(self, session: str) -> None:
        """Where another program had written over its file, the archive has none of it yet."""
        if not all(os.path.lexists(kept.place) for kept in self.bindings(session)):
            self.write(session, force=True)

    def require_places(self, session: str, wanted: Sequence[tuple[str, str]]) -> None:
        """Refuse what `bind` would refuse, before anything is recorded of a new session: layouts,
        each perhaps with an id."""
        for kind, native in wanted:
            self._require_place(session, kind, native)
            mirror_bindings.require_one_id(
                load_format(kind), *(id for other, id in wanted if other == kind)
            )

    def _require_place(self, session: str, kind: str, native: str) -> None:
        other = mirror_bindings.require_place(self._desk, session, kind, native)
        if other is None:
            return
        try:
            self._require_calm(other)
            self._looker.looks(other)
            self._archive.require_room(other)
        except (Suspended, Unreadable) as error:
            raise mirror_bindings.stays(other, str(error)) from error

    def require_root(self, kind: str) -> None:
        """Refuse the folder of a layout in this project if nothing can be begun there."""
        mirror_bindings.require_root(self._desk, kind)

    def root_of(self, kind: str) -> str:
        """The folder of a layout in this project."""
        return self._desk.root_of(kind)

    def where(self, root: str, *, names: bool = True) -> Where:
        """What a layout may know of its surroundings there; the files only if `names`."""
        return self._desk.where(root, names=names)

    def accept(self, session: str, seen: Mapping[str, Document] | None = None) -> None:
        """Take the files as they are for ours: they and the journal say the same.

        What was `seen` in them, by path, need not be parsed and judged again.
        """
        for binding in self.bindings(session):
            with self._desk.store.view(session) as view:
                seq = view.seq
            self._renderer.remember(binding, self._looker.looks(binding, seen), seq)

    def follow(self, binding: Binding, root: str) -> bool:
        """Go on with files where their whole folder was moved to; they stay as they are for now."""
        self._last = ("", [])
        root = os.path.realpath(root)
        place = os.path.join(root, os.path.relpath(binding.place, binding.root))
        return self._bound.follow(binding, root, place)

    def keep_private(self, folder: str, files: Iterable[str]) -> None:
        """Keep a folder that is about to be made for some files out of git, unless git has them:
        those who share them are to see where they went."""
        tree = self._desk.tree_of(folder)
        if not any(is_tracked(tree, path) for path in files):
            mirror_bindings.keep_out_of_git(self._desk, folder, ("",))

    def take_out(self, binding: Binding, path: str, *, dry_run: bool = False) -> bool:
        """Whether another program put the file of an archived session back into its place, where it
        goes on; the one that had the place is put away for it. One that is over is not begun again
        by a stale file, and what is in the archive must be as we left it."""
        if not (self._archive.is_back(binding, path) and self._looker.unchanged(binding)):
            return False
        if dry_run:
            return True
        self._last = ("", [])
        other = self._bound.owner(path)
        if other is not None:
            mirror_bindings.put_away(
                self._desk, other, lambda each: self._guarded(each, self._retire)
            )
        self._archive.take_out(binding)
        if other is not None:
            self._write_put_away(other.session)
        return True

    def unbind(self, binding: Binding) -> None:
        """Let go of a place; its files stay as they are."""
        self._last = ("", [])
        self._bound.unbind(binding)

    def is_as_left(self, binding: Binding, name: str) -> bool:
        """Whether one of a binding's files is as we left it."""
        return self._looker.is_as_left(binding, name)

    def torn(self, binding: Binding, name: str, document: Document) -> str:
        """Why one of a binding's files was not written to its end, or nothing."""
        return self._looker.torn(binding, name, document.data, document.value)

    def owned(self, session: str) -> list[Owned]:
        """The files that a session has, to be asked before it is forgotten."""
        return erase.owned(self._desk, session)

    def remove(self, files: list[Owned], *, force: bool = False) -> tuple[list[str], list[str]]:
        """Remove files of a session that was forgotten: which went, which may hold some of it."""
        gone: list[str] = []
        left: list[str] = []
        for one in files:
            went, stayed = erase.remove(one, force=force, clock=self._desk.clock)
            gone += went
            left += stayed
        return gone, left

    def cleanse(
        self, session: str, said: list[Body], values: Sequence[object]
    ) -> tuple[list[str], list[str]]:
        """Bring files up to a session of which events were erased, so that they say none of it:
        what these `said`, and all `values` in which it may be told.

        Returns those that were begun anew for that, and those that may still say something.
        """

        def write() -> None:
            self._look_anew()
            self.write(session, force=True)

        self._desk.forgotten, self._desk.last = said, None
        try:
            begun, left = erase.cleanse(self._desk, session, erase.words_of(values), write)
            self._keep_again(session, left)
            return begun, left
        finally:
            self._desk.forgotten, self._desk.last = [], None
            self._look_anew()  # also after an interrupt

    def _keep_again(self, session: str, left: list[str]) -> None:
        """What is remembered of files was erased, too: all but those `left` are remembered anew, so
        that what others wrote into them can be told and brought back."""
        for binding in self.bindings(session):
            with suppress(ForestayError):
                looks = [k for k in self._looker.looks(binding) if k.path not in left]
                self._renderer.keep_again(binding, looks)

    def _look_anew(self) -> None:
        """What this process remembers of files says what must go: it looks anew."""
        self._looker = Looker(self._desk)
        self._renderer = Renderer(self._desk, self._looker)
        self._absorber = Absorber(self._desk, self._looker, self._renderer.remember)

    def archive(self, binding: Binding) -> None:
        """Put the file of a session away where its layout keeps older ones; its place is free."""
        with ExitStack() as locks:
            self._lock(binding, locks)
            self._retire(binding)

    def _retire(self, binding: Binding) -> list[str]:
        """Make room for another session."""
        if not is_taken(self._desk, binding):
            self._settle(binding)
        self._archive.put_away(binding)
        return []

    # -- taking up edits -----------------------------------------------------------------------

    def pending(self, session: str) -> list[Move]:
        """What others wrote into a session's files and nobody has taken up; changes nothing."""
        made: list[Move] = []
        for binding in self.bindings(session):
            try:
                if not self._looker.unchanged(binding):
                    self._require_calm(binding)
                    binding.place = self._archive.whereabouts(binding)
                    made += self._absorber.pending(binding)
            except ForestayError:
                # Whoever writes next is told; a reader shows what the journal says.
                continue
        return made

    def absorb(self, session: str) -> list[str]:
        """Record what others wrote into a session's files; says what was found."""
        said = []
        # Those of the last time will do: whoever writes afterwards sees what others changed.
        last = self._last[1] if self._last[0] == session else []
        self._seen = (session, last or self.bindings(session))
        changed = (each for each in self._seen[1] if not self._looker.unchanged(each))
        met = [each for each in changed if not put_away(each)]
        for binding in met:
            if os.path.isdir(os.path.dirname(binding.place)):
                said += self._guarded(binding, lambda current: self._settle(current)[1])
        if met and self._archive.is_over(met[0]):
            # Nothing is recorded after its end that would bring the files up to it.
            said += [line for line in self.write(session, force=True) if line not in said]
        return said

    def _settle(self, binding: Binding) -> tuple[list[Look], list[str]]:
        self._archive.follow(binding)
        looks, said = self._absorber.settle(binding)
        if binding.suspended:  # what is remembered may have been erased while they were unreadable
            self._renderer.keep_again(binding, looks)
        return looks, said

    # -- writing -------------------------------------------------------------------------------

    def write(self, session: str, *, kind: str = "", force: bool = False) -> list[str]:
        """Bring a session's files up to its state; says what could not be written."""
        loud = force or kind in _LOUD
        known, self._seen = self._seen, ("", [])
        found = known[1] if known[0] == session else []
        jobs: list[_Job] = []
        met: set[int] = set()
        # Those that were seen just now may lack one: who writes under a lock sees them all.
        while new := [b for b in found or self.bindings(session) if b.number not in met]:
            met |= {binding.number for binding in new}
            chosen = [_Job(binding) for binding in new if loud or not self._is_quiet(binding)]
            found = [b for batch in _apart(chosen) for b in self._write_at_once(batch)]
            jobs += chosen
        self._last = (session, found)
        return [line for job in jobs for line in job.said]

    def _write_at_once(self, jobs: list[_Job]) -> list[Binding]:
        """Write bindings of different folders; returns all that the session has."""
        calm = set(self._above)
        current: list[Binding] = []
        with ExitStack() as locks:
            todo = [job for job in jobs if self._tried(job, lambda j: self._open(j, locks, calm))]
            current = self._renew(todo)
            for _ in range(_TRIES):
                todo = [job for job in self._round(todo) if not job.is_done] if todo else []
        for job in todo:
            job.said.append(f"{job.binding.place} is being written by someone else all the time")
        return current

    def _open(self, job: _Job, locks: ExitStack, calm: set[str] | None = None) -> None:
        self._require_calm(job.binding, calm)
        if job.binding.mirrored and not os.path.lexists(job.binding.root):
            gone = f"{job.binding.root} was gone and is made anew"
            moved = "if it was moved, remove it again, then: forestay adopt NEW_PLACE"
            job.said.append(f"{gone}; {moved}")
        self._lock(job.binding, locks)

    def _renew(self, jobs: list[_Job]) -> list[Binding]:
        """See what others did while we waited: written, moved, or let go of a binding."""
        session = jobs[0].binding.session if jobs else ""
        current = self._bound.bindings(session) if jobs else []
        known = {binding.number: binding for binding in current}
        for job in jobs:
            job.is_done = job.binding.number not in known
            job.binding = known.get(job.binding.number, job.binding)
        return current

    def _round(self, jobs: list[_Job]) -> list[_Job]:
        """One try for some bindings; returns those that did not fail."""
        jobs = [job for job in jobs if not job.is_done and self._tried(job, self._look)]
        jobs = self._planned(jobs) if jobs else []
        plans = [job.plan for job in jobs if job.plan]
        if notes := self._renderer.notes(plans):
            self._bound.rendered(notes)
        self._renderer.stage(plans)
        calm = set(self._above)
        jobs = [job for job in jobs if self._tried(job, lambda j: self._exchange(j, calm))]
        written = {path for job in jobs if job.plan for path in to_sync(job.plan)}
        try:
            return [job for job in jobs if self._tried(job, self._put)]
        finally:
            try:
                if jobs:
                    self._tried(jobs[0], lambda _: swap_file.sync_all(written))
            finally:
                self._renderer.let_go(plans)

    def _look(self, job: _Job) -> None:
        job.looks, found = self._settle(job.binding)
        job.said += found
        if self._archive.bring_back(job.binding):
            job.looks = self._looker.looks(job.binding)

    def _planned(self, jobs: list[_Job]) -> list[_Job]:
        """Plan for one moment of the journal what all the files should be."""
        with self._desk.store.view(jobs[0].binding.session) as view:

            def plan(job: _Job) -> None:
                tell = partial(self._desk.tell, view)
                where = self._desk.surroundings(job.binding)
                job.plan = self._renderer.plan(job.binding, job.looks, tell, where)
                prepare(job.plan)

            return [job for job in jobs if self._tried(job, plan)]

    def _exchange(self, job: _Job, calm: set[str]) -> None:
        def require() -> None:
            """Someone may have begun something, or put a link there, since this was planned."""
            self._require_calm(job.binding, calm)
            for folder in folders_of(job.binding):
                require_inside(job.binding.root, folder)

        assert job.plan is not None
        self._renderer.exchange(job.plan, require)

    def _put(self, job: _Job) -> None:
        assert job.plan is not None
        if self._renderer.has_displaced(job.plan):
            return
        self._archive.put_away_if_over(job.binding, job.plan.status)
        self._suspend(job.binding, "")
        job.is_done = True

    def _is_quiet(self, binding: Binding) -> bool:
        """Files that git tracks are written at pause and finish only; looked up once."""
        if binding.number not in self._quiet:
            try:
                tree = self._desk.tree_of(binding.root)
            except ForestayError:
                return False  # whoever writes there is told why not, and the others are written
            quiet = any(is_tracked(tree, path) for path in paths_of(binding).values())
            self._quiet[binding.number] = quiet
            if quiet != binding.quiet:
                self._bound.change(binding, suspended=binding.suspended, quiet=quiet)
        return self._quiet[binding.number]

    # -- suspending ----------------------------------------------------------------------------

    def _guarded(self, binding: Binding, act: Callable[[Binding], list[str]]) -> list[str]:
        """Do something to a binding's files under its locks; a reason not to is remembered."""

        def go(job: _Job) -> None:
            with ExitStack() as locks:
                self._open(job, locks)
                self._renew([job])
                if not job.is_done:
                    job.said += act(job.binding)

        job = _Job(binding)
        if self._tried(job, go):
            self._suspend(job.binding, "")
        return job.said

    def _tried(self, job: _Job, act: Callable[[_Job], None]) -> bool:
        """Whether something could be done; if not, it is said why."""
        what = f"{job.binding.layout} files are"
        try:
            act(job)
        except (Suspended, Unreadable) as error:
            self._suspend(job.binding, str(error))
            job.said.append(f"{what} left alone: {error}; what helps: forestay doctor")
            return False
        except ForestayError as error:
            job.said.append(f"{what} not up to date: {error}")
            return False
        return True

    def _suspend(self, binding: Binding, reason: str) -> None:
        if binding.suspended != reason:
            self._bound.change(binding, suspended=reason, quiet=binding.quiet)

    def _lock(self, binding: Binding, locks: ExitStack) -> None:
        """Our lock on the folder, and the layout's own manner of locking in addition."""
        files.make_folder(binding.root)
        if binding.root not in self._held:  # an essay may lie in the project's own folder
            locks.enter_context(self._locked(binding.root))
        if path := _own_lock(binding):
            require_inside(binding.root, os.path.dirname(path))
            files.make_folder(os.path.dirname(path))
            locks.enter_context(self._looker.patiently(ScriptLock, path))

    def _locked(self, folder: str) -> files.locked:
        return files.locked(folder, clock=self._desk.clock, timeout=_PATIENCE)

    def _require_calm(self, binding: Binding, calm: set[str] | None = None) -> None:
        """Refuse a folder that is elsewhere, or in which git is at work; `calm` are those, and
        trees, that were looked at just now."""
        known = set(self._above) if calm is None else calm
        if not is_real(binding.root, known):
            raise Suspended(f"a symbolic link leads away from {binding.root}")
        tree = self._desk.tree_of(binding.root)
        # What the project lies in is nothing that comes with it: looked at once.
        self._above.update(known & above(tree.root))
        if f"git {tree.root}" in known:
            return
        if operation := git_operation(tree):
            raise Suspended(f"git is in the middle of a {operation}")
        known.add(f"git {tree.root}")


def _own_lock(binding: Binding) -> str:
    """The file that a layout wants to be locked, if any; refused if something else is there."""
    name = conventions_of(binding.layout).lock
    path = os.path.join(binding.root, name.format(id=binding.native)) if name else ""
    if path and files.is_irregular(path):
        raise Suspended(f"{path} is not a file, and cannot be locked")
    if folder := put_away(binding):
        raise Suspended(f"they were put away: to go on with them, move {folder} back")
    if path and (gone := describe_stale_lock(path)):
        raise Suspended(gone)
    return path


def _obstacles(binding: Binding) -> Iterator[str]:
    """What keeps us from writing the files of a binding; empty for what does not."""
    yield from map(files.why_not_writable, folders_of(binding))
    locks = filter(None, (binding.root, _own_lock(binding)))
    closed = filter(files.is_unreadable, locks)
    yield from (f"{path} may not be read, and cannot be locked" for path in closed)
    paths = list(paths_of(binding).values())
    yield from (files.why_not_appendable(path) for path in paths if is_log(path))
    if ending := conventions_of(binding.layout).backup:
        paths.append(f"{binding.place}{ending}")
        yield f"{paths[-1]} is not a file" if files.is_irregular(paths[-1]) else ""
    yield from map(files.why_not_replaceable, paths)


def _apart(jobs: list[_Job]) -> Iterator[list[_Job]]:
    """Bindings that can be written at once, one for each folder, in the order of the folders.

    Each folder is locked once, and by all processes in one order: nobody waits for another who
    waits for him. Two sessions of one folder may share a file.
    """
    rest = sorted(jobs, key=lambda job: job.binding.root)
    while rest:
        first = {job.binding.root: job for job in reversed(rest)}
        batch = [job for job in rest if first[job.binding.root] is job]
        rest = [job for job in rest if first[job.binding.root] is not job]
        yield batch
