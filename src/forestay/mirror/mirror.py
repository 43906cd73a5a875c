"""Keep the files of a session equal to its state, and record what other programs write into them.

A *binding* connects a session to a place: the path of its main file in one format. What we write
there is a *rendering*; the last few are stored. `read_files` reads and classifies files, `absorb`
records edits of other programs, `render` writes, and `archive` moves the files of ended sessions.

The order matters: read files, absorb edits, decide and record (in other rooms), render, store the
rendering, exchange new files with old ones, read the old (*displaced*) files. A rendering is stored
before it is written, for all bindings in one transaction. A crash in between is noticed at the next
access, because the files are not the newest rendering. While git is in the middle of an operation,
or a file cannot be read or belongs to another session, nothing is read or written: the binding is
*suspended*.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial

from msgspec import Struct

from forestay.base import files, swap_file
from forestay.base.lockfile import ScriptLock, describe_stale_lock
from forestay.errors import ForestayError
from forestay.formats.port import conventions_of, load_format
from forestay.formats.text.document import Document
from forestay.formats.text.safe_parse import Unreadable
from forestay.formats.to_events import Move
from forestay.mirror import bindings as mirror_bindings
from forestay.mirror import erase
from forestay.mirror.absorb import Absorber
from forestay.mirror.archive import Archive, archived_place, is_taken
from forestay.mirror.context import (
    MirrorContext,
    Suspended,
    above,
    archived_folder,
    folders_of,
    has_no_link,
    paths_of,
)
from forestay.mirror.erase import Owned
from forestay.mirror.read_files import FileReader, FoundFile, is_log, require_inside
from forestay.mirror.render import Plan, Renderer, prepare, to_sync
from forestay.model.event import Body
from forestay.store.machine.bindings import Binding
from forestay.workspace.tree import git_operation, is_tracked

_TRIES = 5
_LOCK_SECONDS = 10.0
_UNFINISHED = "they were not written completely; to finish: forestay doctor --fix"
_OUTDATED = "they are missing, or older than what we wrote; to repair: forestay doctor --fix"
_ALWAYS_WRITTEN = frozenset(
    f"session.{word}" for word in ("paused", "completed", "failed", "aborted", "abandoned")
)
"""The event kinds after which even files that git tracks are written."""


class _Job(Struct):
    """A binding that is being written, under its locks."""

    binding: Binding
    messages: list[str] = []
    found_files: list[FoundFile] = []
    plan: Plan | None = None
    is_done: bool = False


class Mirror:
    def __init__(self, context: MirrorContext) -> None:
        self._context = context
        self._bindings = context.bindings
        self.bindings = context.bindings.bindings
        self.root_of, self.where = context.root_of, context.where
        self._forget_files()
        self._archive = Archive(context)
        self._tracked: dict[int, bool] = {}
        self._above: set[str] = {os.sep}
        self._held: set[str] = set()

    # -- binding -------------------------------------------------------------------------------

    def inspect_bindings(self, session: str = "") -> list[Binding]:
        """Return the bindings of a session, or all, with the reason why their files are suspended.

        The files are examined as they are now; nothing is changed.
        """
        found = self.bindings(session)
        for binding in found:
            try:
                binding.suspended = self._why_suspended(binding)
            except (Suspended, Unreadable) as error:
                binding.suspended = str(error)
            except ForestayError:
                continue  # the files cannot be examined now: return the stored reason
        return found

    def _why_suspended(self, binding: Binding) -> str:
        if shut := next((f for f in folders_of(binding) if files.is_not_searchable(f)), ""):
            return f"{shut} may not be entered"
        self._require_no_git_operation(binding)
        for folder in folders_of(binding):
            require_inside(binding.root, folder)
        if archived_folder(binding) and self._archive.has_ended(binding):
            return ""
        _format_lock(binding)
        found_files: list[FoundFile] = []
        if not self.reader.is_unchanged(binding):
            binding.place = self._archive.locate(binding)
            found_files = self.reader.read_all(binding)
        elif self._is_up_to_date(binding) and not self._archive.is_due(binding):
            # The files are unchanged since our last write, so the stored reason is still true.
            return binding.suspended
        is_edit = any(file.verdict == "edited" for file in found_files)
        # The next event will write the files. Report only what prevents that: an obstacle, or that
        # the session has ended, so that there is no next event.
        return next(filter(None, _obstacles(binding)), "") or self._why_unfinished(binding, is_edit)

    def _why_unfinished(self, binding: Binding, is_edit: bool) -> str:
        """Return what is wrong with the files of an ended session, which no event will write again.

        Either the process that wrote them died, or they were removed or restored since.
        """
        if self._archive.is_due(binding):
            self._archive.require_room(binding)
            return _UNFINISHED
        is_reported = not (is_edit or binding.quiet) and self._archive.has_ended(binding)
        why = _OUTDATED if self._is_up_to_date(binding) else _UNFINISHED
        return why if is_reported else ""

    def retry_suspended(self) -> list[Binding]:
        """Write the files of suspended bindings again; return those that are up to date then."""
        were_suspended = {each.number for each in self.bindings() if each.suspended}
        waiting = [
            each
            for each in self.inspect_bindings()
            if each.suspended or (each.number in were_suspended and not self._is_up_to_date(each))
        ]
        for binding in waiting:
            self.write(binding.session, force=self._archive.has_ended(binding))
        # Files that git tracks are written when the session is paused the next time.
        left = {
            b.number for b in self.inspect_bindings() if b.suspended or not self._is_up_to_date(b)
        }
        return [each for each in waiting if each.number not in left]

    def _is_up_to_date(self, binding: Binding) -> bool:
        with self._context.store.view(binding.session) as view:
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
        notify: Callable[[str], None] | None = None,
    ) -> Binding:
        """Bind a session to a place of a format. The next `write` writes its files.

        Files that exist there belong to another session, unless `found` is true; `away` is true if
        the session's own files are in the format's archive. `notify` gets a message if another
        session is archived to make room.
        """
        retired: list[Binding] = []

        def retire(other: Binding) -> list[str]:
            retired.append(other)
            return self._run_locked(other, self._retire)

        with self.hold_projects(root or self.root_of(kind)):
            binding = mirror_bindings.bind(
                self._context, session, kind, native, root, found=found, away=away, retire=retire
            )
            for other in retired:
                self._write_archived(other.session)
                if notify is not None:
                    place = archived_place(other.format, other.native, other.root)
                    notify(f"the previous session is archived: {place}")
        return binding

    @contextmanager
    def hold_projects(self, *roots: str) -> Iterator[None]:
        """Lock the projects that contain the given folders, to begin a session there.

        Checking that a place is free, binding it and writing its files happen under this lock, so
        a process that waited for it finds complete files. Processes with different homes share
        this lock. It is acquired before all locks on files.
        """
        folders = {self._context.tree_of(os.path.realpath(root)).root for root in roots}
        with ExitStack() as locks:
            for folder in sorted(folders - self._held):
                locks.enter_context(self._locked(folder))
                locks.callback(self._held.remove, folder)
                self._held.add(folder)
            yield

    def _write_archived(self, session: str) -> None:
        """Write the archived files of a session if they are missing.

        They are missing if another program overwrote them before they could be archived.
        """
        if not all(os.path.lexists(binding.place) for binding in self.bindings(session)):
            self.write(session, force=True)

    def require_places(self, session: str, wanted: Sequence[tuple[str, str]]) -> None:
        """Refuse what `bind` would refuse, before a new session is recorded.

        `wanted` has pairs of a format and an id; an empty id asks for a new one.
        """
        for kind, native in wanted:
            other = mirror_bindings.require_place(self._context, session, kind, native)
            if other is not None:
                try:
                    self._require_no_git_operation(other)
                    self.reader.read_all(other)
                    self._archive.require_room(other)
                except (Suspended, Unreadable) as error:
                    raise mirror_bindings.cannot_archive(other, str(error)) from error
            mirror_bindings.require_one_id(
                load_format(kind), *(id for also, id in wanted if also == kind)
            )

    def require_root(self, kind: str) -> None:
        """Refuse if no session can be created in the folder that a format has in this project."""
        mirror_bindings.require_root(self._context, kind)

    def accept(self, session: str, seen: Mapping[str, Document] | None = None) -> None:
        """Store a session's files as our newest renderings, without writing them.

        Call it when the files and the journal have the same content. Documents in `seen`, by path,
        are not parsed and checked again.
        """
        for binding in self.bindings(session):
            with self._context.store.view(session) as view:
                seq = view.seq
            self._renderer.remember(binding, self.reader.read_all(binding, seen), seq)

    def follow(self, binding: Binding, root: str) -> bool:
        """Move a binding to the folder `root`, where its files are now, without writing them."""
        root = os.path.realpath(root)
        place = os.path.join(root, os.path.relpath(binding.place, binding.root))
        return self._bindings.follow(binding, root, place)

    def exclude_from_git(self, folder: str, files: Iterable[str]) -> None:
        """Exclude the new folder of moved files from git, unless git tracks the files.

        Tracked files stay visible to git, so that the move can be committed.
        """
        tree = self._context.tree_of(folder)
        if not any(is_tracked(tree, path) for path in files):
            mirror_bindings.exclude_from_git(self._context, folder, ("",))

    def return_from_archive(self, binding: Binding, path: str, *, dry_run: bool = False) -> bool:
        """Resume an archived session whose file another program moved back to its place.

        Return whether it did. The session that had the place is archived. An ended session is not
        resumed, and the file must have the bytes that were archived.
        """
        if not (self._archive.is_place_of(binding, path) and self.reader.is_unchanged(binding)):
            return False
        if dry_run:
            return True
        other = self._bindings.owner(path)
        if other is not None:
            mirror_bindings.archive_owner(
                self._context, other, lambda each: self._run_locked(each, self._retire)
            )
        self._archive.use_current_place(binding)
        if other is not None:
            self._write_archived(other.session)
        return True

    def unbind(self, binding: Binding) -> None:
        """Remove a binding; its files stay unchanged."""
        self._bindings.unbind(binding)

    def owned(self, session: str) -> list[Owned]:
        """Return the files of a session; call it before the session is erased."""
        return erase.list_owned(self._context, session)

    def remove(self, files: list[Owned], *, force: bool = False) -> tuple[list[str], list[str]]:
        """Remove files of an erased session; return the removed ones, and those that are left."""
        gone: list[str] = []
        left: list[str] = []
        for one in files:
            went, stayed = erase.remove(one, force=force, clock=self._context.clock)
            gone += went
            left += stayed
        return gone, left

    def cleanse(
        self, session: str, bodies: list[Body], values: Sequence[object]
    ) -> tuple[list[str], list[str]]:
        """Remove erased events from the files of a session.

        `bodies` are the erased events, `values` all values that can contain their text. Return the
        files that were written from the journal alone, and those that can still contain the text.
        """

        def write() -> None:
            self._forget_files()
            self.write(session, force=True)

        self._context.erased, self._context.cached_facts = bodies, None
        try:
            rewritten, left = erase.cleanse(
                self._context, session, erase.searched_texts(values), write
            )
            # The stored renderings were erased, too. Without them, edits of other programs could
            # not be found and preserved.
            for binding in self.bindings(session):
                with suppress(ForestayError):
                    found_files = [k for k in self.reader.read_all(binding) if k.path not in left]
                    self._renderer.remember_again(binding, found_files)
            return rewritten, left
        finally:
            self._context.erased, self._context.cached_facts = [], None
            self._forget_files()  # also after an interrupt

    def _forget_files(self) -> None:
        """Drop everything this process has cached about files: it may contain erased text."""
        self.reader = FileReader(self._context)
        self._renderer = Renderer(self._context, self.reader)
        self._absorber = Absorber(self._context, self.reader, self._renderer.remember)

    def archive(self, binding: Binding) -> None:
        """Move the file of a session into its format's archive, so that its place is free."""
        with ExitStack() as locks:
            self._lock(binding, locks)
            self._retire(binding)

    def _retire(self, binding: Binding) -> list[str]:
        """Absorb the last edits of a session and archive it, to make room for another one."""
        if not is_taken(self._context, binding):
            self._absorb_binding(binding)
        self._archive.archive(binding)
        return []

    # -- absorbing edits -----------------------------------------------------------------------

    def pending(self, session: str) -> list[Move]:
        """Return the moves in edits of a session's files that are not absorbed yet."""
        made: list[Move] = []
        for binding in self.bindings(session):
            try:
                if not self.reader.is_unchanged(binding):
                    self._require_no_git_operation(binding)
                    binding.place = self._archive.locate(binding)
                    made += self._absorber.pending(binding)
            except ForestayError:
                # A reader uses what the journal has; the next command that writes reports this.
                continue
        return made

    def absorb(self, session: str) -> list[str]:
        """Record what other programs wrote into a session's files; return messages about it."""
        messages = []
        changed = (each for each in self.bindings(session) if not self.reader.is_unchanged(each))
        edited = [each for each in changed if not archived_folder(each)]
        for binding in edited:
            if os.path.isdir(os.path.dirname(binding.place)):
                messages += self._run_locked(
                    binding, lambda current: self._absorb_binding(current)[1]
                )
        if edited and self._archive.has_ended(edited[0]):
            # Write the files now: an ended session has no later event that would.
            messages += [line for line in self.write(session, force=True) if line not in messages]
        return messages

    def _absorb_binding(self, binding: Binding) -> tuple[list[FoundFile], list[str]]:
        self._archive.follow(binding)
        found_files, messages = self._absorber.absorb(binding)
        if binding.suspended:  # the renderings can have been erased while files were unreadable
            self._renderer.remember_again(binding, found_files)
        return found_files, messages

    # -- writing -------------------------------------------------------------------------------

    def write(self, session: str, *, kind: str = "", force: bool = False) -> list[str]:
        """Update a session's files to its state; return messages about what could not be written.

        `kind` is the kind of the last event: files that git tracks are written only after some
        kinds, or with `force`.
        """
        is_forced = force or kind in _ALWAYS_WRITTEN
        jobs = [_Job(b) for b in self.bindings(session) if is_forced or not self._is_quiet(b)]
        for batch in _batches(jobs):
            self._write_batch(batch)
        return [line for job in jobs for line in job.messages]

    def _write_batch(self, jobs: list[_Job]) -> None:
        """Write the files of bindings in different folders."""
        checked = set(self._above)
        with ExitStack() as locks:
            todo = [job for job in jobs if self._try(job, lambda j: self._open(j, locks, checked))]
            self._reload_bindings(todo)
            for _ in range(_TRIES):
                todo = [job for job in self._attempt(todo) if not job.is_done] if todo else []
        for job in todo:
            job.messages.append(
                f"{job.binding.place} is constantly being written by another program"
            )

    def _open(self, job: _Job, locks: ExitStack, checked: set[str] | None = None) -> None:
        self._require_no_git_operation(job.binding, checked)
        if job.binding.mirrored and not os.path.lexists(job.binding.root):
            gone = f"{job.binding.root} was missing and is created again"
            moved = "if it was moved, delete the new one, then: forestay adopt NEW_PLACE"
            job.messages.append(f"{gone}; {moved}")
        self._lock(job.binding, locks)

    def _reload_bindings(self, jobs: list[_Job]) -> None:
        """Read the bindings again: another process may have changed them before we got the lock."""
        session = jobs[0].binding.session if jobs else ""
        known = {each.number: each for each in self.bindings(session)} if jobs else {}
        for job in jobs:
            job.is_done = job.binding.number not in known
            job.binding = known.get(job.binding.number, job.binding)

    def _attempt(self, jobs: list[_Job]) -> list[_Job]:
        """Try once to write some bindings; return the jobs that did not fail."""
        jobs = [job for job in jobs if not job.is_done and self._try(job, self._read)]
        jobs = self._plan(jobs) if jobs else []
        plans = [job.plan for job in jobs if job.plan]
        if notes := self._renderer.notes(plans):
            self._bindings.rendered(notes)
        self._renderer.stage(plans)
        checked = set(self._above)
        jobs = [job for job in jobs if self._try(job, lambda j: self._exchange(j, checked))]
        written = {path for job in jobs if job.plan for path in to_sync(job.plan)}
        try:
            return [job for job in jobs if self._try(job, self._finish)]
        finally:
            try:
                if jobs:
                    self._try(jobs[0], lambda _: swap_file.sync_all(written))
            finally:
                self._renderer.free_space(plans)

    def _read(self, job: _Job) -> None:
        job.found_files, found = self._absorb_binding(job.binding)
        job.messages += found
        if self._archive.bring_back(job.binding):
            job.found_files = self.reader.read_all(job.binding)

    def _plan(self, jobs: list[_Job]) -> list[_Job]:
        """Plan all files from one state of the journal; return the jobs that did not fail."""
        with self._context.store.view(jobs[0].binding.session) as view:

            def plan(job: _Job) -> None:
                facts_after = partial(self._context.read_facts_at, view)
                where = self._context.surroundings(job.binding)
                job.plan = self._renderer.plan(job.binding, job.found_files, facts_after, where)
                prepare(job.plan)

            return [job for job in jobs if self._try(job, plan)]

    def _exchange(self, job: _Job, checked: set[str]) -> None:
        def require() -> None:
            """Refuse if a git operation or a link appeared since the files were planned."""
            self._require_no_git_operation(job.binding, checked)
            for folder in folders_of(job.binding):
                require_inside(job.binding.root, folder)

        assert job.plan is not None
        self._renderer.exchange(job.plan, require)

    def _finish(self, job: _Job) -> None:
        assert job.plan is not None
        if self._renderer.has_displaced(job.plan):
            return
        self._archive.archive_if_ended(job.binding, job.plan.status)
        self._suspend(job.binding, "")
        job.is_done = True

    def _is_quiet(self, binding: Binding) -> bool:
        """Return whether git tracks a file, so that files are written at pause and end only."""
        if binding.number not in self._tracked:
            try:
                tree = self._context.tree_of(binding.root)
            except ForestayError:
                return False  # then `write` writes the other files and reports the error
            quiet = any(is_tracked(tree, path) for path in paths_of(binding).values())
            self._tracked[binding.number] = quiet
            if quiet != binding.quiet:
                self._bindings.change(binding, suspended=binding.suspended, quiet=quiet)
        return self._tracked[binding.number]

    # -- suspending ----------------------------------------------------------------------------

    def _run_locked(self, binding: Binding, act: Callable[[Binding], list[str]]) -> list[str]:
        """Call `act` under the locks of a binding; if it is refused, store the reason."""

        def run(job: _Job) -> None:
            with ExitStack() as locks:
                self._open(job, locks)
                self._reload_bindings([job])
                if not job.is_done:
                    job.messages += act(job.binding)

        job = _Job(binding)
        if self._try(job, run):
            self._suspend(job.binding, "")
        return job.messages

    def _try(self, job: _Job, act: Callable[[_Job], None]) -> bool:
        """Call `act`; if it fails, report the reason and return False."""
        what = f"{job.binding.format} files are"
        try:
            act(job)
        except (Suspended, Unreadable) as error:
            self._suspend(job.binding, str(error))
            job.messages.append(f"{what} not written: {error}; to fix it: forestay doctor")
            return False
        except ForestayError as error:
            job.messages.append(f"{what} not up to date: {error}")
            return False
        return True

    def _suspend(self, binding: Binding, reason: str) -> None:
        if binding.suspended != reason:
            self._bindings.change(binding, suspended=reason, quiet=binding.quiet)

    def _lock(self, binding: Binding, locks: ExitStack) -> None:
        """Lock the folder, and the lock file of the format if it has one."""
        files.make_folder(binding.root)
        if binding.root not in self._held:  # an essay can be in the project folder itself
            locks.enter_context(self._locked(binding.root))
        if path := _format_lock(binding):
            require_inside(binding.root, os.path.dirname(path))
            files.make_folder(os.path.dirname(path))
            locks.enter_context(self.reader.hold_lock(ScriptLock, path))

    def _locked(self, folder: str) -> files.locked:
        return files.locked(folder, clock=self._context.clock, timeout=_LOCK_SECONDS)

    def _require_no_git_operation(self, binding: Binding, checked: set[str] | None = None) -> None:
        """Refuse a folder behind a symbolic link, or in which git is in the middle of an operation.

        `checked` are the folders and trees that were just checked; it is extended.
        """
        known = set(self._above) if checked is None else checked
        if not has_no_link(binding.root, known):
            raise Suspended(f"a part of the path {binding.root} is a symbolic link")
        tree = self._context.tree_of(binding.root)
        # Folders above the project rarely change, so they are checked once.
        self._above.update(known & above(tree.root))
        if f"git {tree.root}" in known:
            return
        if operation := git_operation(tree):
            raise Suspended(f"git is in the middle of a {operation}")
        known.add(f"git {tree.root}")


def _format_lock(binding: Binding) -> str:
    """Return the lock file of a format, empty if it has none; refuse if it cannot be locked."""
    name = conventions_of(binding.format).lock
    path = os.path.join(binding.root, name.format(id=binding.native)) if name else ""
    if path and files.is_irregular(path):
        raise Suspended(f"{path} is not a file, and cannot be locked")
    if folder := archived_folder(binding):
        raise Suspended(f"they were archived: to continue with them, move {folder} back")
    if path and (gone := describe_stale_lock(path)):
        raise Suspended(gone)
    return path


def _obstacles(binding: Binding) -> Iterator[str]:
    """Yield what prevents writing the files of a binding; "" for each check that passed."""
    yield from map(files.why_not_writable, folders_of(binding))
    locks = filter(None, (binding.root, _format_lock(binding)))
    closed = filter(files.is_unreadable, locks)
    yield from (f"{path} may not be read, and cannot be locked" for path in closed)
    paths = list(paths_of(binding).values())
    yield from (files.why_not_appendable(path) for path in paths if is_log(path))
    if ending := conventions_of(binding.format).backup:
        paths.append(f"{binding.place}{ending}")
        yield f"{paths[-1]} is not a file" if files.is_irregular(paths[-1]) else ""
    yield from map(files.why_not_replaceable, paths)


def _batches(jobs: list[_Job]) -> Iterator[list[_Job]]:
    """Yield jobs that can be written together: one per folder, in the order of the folders.

    Each folder is locked once, and by all processes in the same order, which prevents deadlocks.
    Two sessions of one folder may share a file, so they are written one after the other.
    """
    rest = sorted(jobs, key=lambda job: job.binding.root)
    while rest:
        first = {job.binding.root: job for job in reversed(rest)}
        batch = [job for job in rest if first[job.binding.root] is job]
        rest = [job for job in rest if first[job.binding.root] is not job]
        yield batch
