"""Record what other programs wrote into a session's files as events.

An edit is compared with the rendering that its program had read, and what it changed is recorded
with the actor `file:FORMAT`. If a program writes a file while we replace it, its bytes end up in a
*displaced* file, which is absorbed in the same way. Unknown keys and comments are not recorded. If
the edit was not made from our newest rendering, they are *owed* to the file: the next rendering
contains them. Absorbing never writes a session file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from typing import Any

from msgspec.structs import replace

from forestay.base import files, swap_file
from forestay.base.text import plural
from forestay.errors import InvalidInput, Refused
from forestay.formats import diff as trees
from forestay.formats.facts import Facts
from forestay.formats.port import Format, Tree, Where, conventions_of, load_format
from forestay.formats.rendering_id import rendering_id
from forestay.formats.text.document import kind_of
from forestay.formats.text.safe_parse import Unreadable
from forestay.formats.three_way import LONGEST, Changes, changes, choose_base, write_facts
from forestay.formats.to_events import Move, with_journal_names
from forestay.journal.journal import AppendOptions
from forestay.mirror.context import (
    MAX_BYTES,
    MirrorContext,
    Suspended,
    folders_of,
    parse_file,
    paths_of,
    read,
)
from forestay.mirror.read_files import FileReader, FoundFile, ParsedFile, is_log
from forestay.model import event as ev
from forestay.model.gates.phase_moves import add_phase
from forestay.model.plan import Workflow
from forestay.model.state import CONFLICT, State
from forestay.store.machine.bindings import Binding

UNKNOWN = 0
"""Stands for the last event that a log shows if a program edited the log: read all of its lines."""

Remember = Callable[[Binding, Sequence[FoundFile], int], None]
"""Store the given files as the newest renderings, which show all events up to the given number."""


class Absorber:
    def __init__(self, context: MirrorContext, reader: FileReader, remember: Remember) -> None:
        self._context = context
        self._reader = reader
        self._remember = remember
        self._clean = context.journal.clean_facts

    def absorb(self, binding: Binding) -> tuple[list[FoundFile], list[str]]:
        """Record what other programs wrote; return the files as found, and lines for the user."""
        lines: list[str] = []
        paths = paths_of(binding)
        if any(swap_file.has_leftovers(f) for f in {binding.root, *folders_of(binding)}):
            for path in (*paths.values(), readme_of(binding)):
                for temporary in files.list_unfinished(path):
                    files.remove(temporary)
            for name, path in paths.items():
                lines += self._absorb_displaced(binding, name, path)
        found_files = self._reader.read_all(binding)
        edited = {file.name: file.value for file in found_files if file.verdict == "edited"}
        if edited:
            lines += self._absorb_trees(binding, found_files, edited)
            self._reader.need_new_id.update((binding.number, name) for name in edited)
            owed = [self._owed(binding, file) for file in found_files if file.name in edited]
            made = {each.name: each for each in owed if each}
            shown = binding.mirrored if any(file.log for file in found_files) else UNKNOWN
            self._remember(binding, [*found_files, *made.values()], shown)
            found_files = [
                file.behind(made[file.name].read) if file.name in made else file
                for file in found_files
            ]
        return found_files, lines

    def pending(self, binding: Binding) -> list[Move]:
        """Return the moves in edits that are not absorbed yet; change nothing."""
        found_files = self._reader.read_all(binding)
        edited = {file.name: file.value for file in found_files if file.verdict == "edited"}
        return self._changes(binding, found_files, edited).moves if edited else []

    def _absorb_displaced(self, binding: Binding, name: str, path: str) -> list[str]:
        lines: list[str] = []
        for aside in swap_file.displaced(path):
            try:
                data = read(aside)
                if swap_file.is_staged(aside, data):
                    files.remove(aside)
                    continue
                self._reader.require_finished(name, aside)
                data = read(aside)
                is_edit = not self._is_ours(binding, name, data)
                lines += self._absorb_bytes(binding, name, data)
                found = files.read_optional(path, MAX_BYTES, follow=False)
                has_secrets = self._context.journal.find_secrets(data.decode("utf-8", "replace"))
                if is_edit and has_secrets and self._is_ours(binding, name, found):
                    # Secrets are not stored, so the next rendering could not contain them: the
                    # edited file moves back to its place. It is absorbed first, because another
                    # program can write at any moment.
                    swap_file.undo(aside, path)
                    lines += self._absorb_bytes(binding, name, read(aside))
            except (InvalidInput, Unreadable, Suspended):
                # Another program's file that cannot be read must not be deleted.
                swap_file.undo(aside, path)
                raise
            files.remove(aside)
        return lines

    def _is_ours(self, binding: Binding, name: str, data: bytes | None) -> bool:
        known = self._context.bindings.renderings(binding).get(name, [])
        digest = "" if data is None else sha256(data).hexdigest()
        return any(rendering.digest == digest for rendering in known)

    def _absorb_bytes(self, binding: Binding, name: str, data: bytes) -> list[str]:
        """Absorb the bytes of a displaced file, unless they are one of our renderings."""
        if self._is_ours(binding, name, data):
            return []
        digest, known = sha256(data).hexdigest(), self._context.bindings.renderings(binding)
        found_files = self._reader.read_all(binding)
        file = next(file for file in found_files if file.name == name)
        file.data, file.digest, file.known = data, digest, known.get(name, [])
        file.verdict = "edited" if file.known else "found"
        self._reader.parse(file)
        self._reader.require_ours(binding, found_files)
        lines = self._absorb_trees(binding, found_files, {name: file.value})
        # The edited file was replaced, so the next rendering has to contain all of its unknown
        # keys and comments.
        owed = self._owed(binding, file) or replace(file, verdict="owed")
        self._remember(binding, [file, owed], UNKNOWN)
        return lines

    def _owed(self, binding: Binding, file: FoundFile) -> FoundFile | None:
        """Return our newest rendering with the edit applied to it and all required keys present.

        Return None if the file already holds exactly that.
        """
        newest, older = self._reader.newest(binding, file), self._find_base(binding, file)
        if newest is None or older is None or file.read is None:
            return None
        value = file.value
        if older != newest.value:
            value, _ = trees.merge(older, value, newest.value)
            value = self._with_other_entries(binding, file, value)
        value = self._with_required_keys(binding, file, value)
        document = file.read.document.rewritten(value)
        if document.data == file.data:
            return None
        digest = sha256(document.data).hexdigest()
        return FoundFile(
            file.name, file.path, document.data, digest, "owed", read=ParsedFile(document, value)
        )

    def _with_other_entries(self, binding: Binding, file: FoundFile, value: Any) -> Any:
        """Return the value of a shared file with our other sessions' entries as they are on disk.

        The entries in our rendering are older: the other sessions would absorb them as an edit.
        """
        if file.name not in conventions_of(binding.format).shared:
            return value
        here = (binding.format, binding.root)
        bound = [b for b in self._context.bindings.bindings() if (b.format, b.root) == here]
        others = {b.native for b in bound if b.number != binding.number}
        return load_format(binding.format).with_entries(value, file.value, others)

    def _absorb_trees(
        self, binding: Binding, found_files: Sequence[FoundFile], edited: Tree
    ) -> list[str]:
        found = self._changes(binding, found_files, edited)
        if not (found.moves or found.contested or found.residue):
            return []
        self._record(binding, found_files, edited, found)
        return [_summary(edited, found)]

    def _changes(self, binding: Binding, found_files: Sequence[FoundFile], edited: Tree) -> Changes:
        format, where = load_format(binding.format), self._context.surroundings(binding)
        now = replace(self._context.read_facts(binding.session).facts, native_id=binding.native)
        stated = {file.name: file.value for file in found_files if file.read is not None}
        base = self._tree_before(binding, found_files, edited, now)
        # A format needs the name of the main file to find the session's entry in a shared file.
        main: Tree = dict.fromkeys(list(paths_of(binding))[:1])
        base, theirs = main | base, main | stated
        whole, remarks = format.restore_required(theirs, base, where)
        if remarks:
            # A program did not remove a key if it had read the file before the key was added.
            read = base | self._bases_of(binding, found_files, edited)
            remarks = format.restore_required(theirs, read, where)[1]
        remarks = [*remarks, *self._removed_lines(binding, edited, base, now)]
        found = changes(format, base, whole, now, where, self._clean)
        # If the main file is missing, nothing counts as removed from the other files.
        remarks = remarks if main.keys() <= stated.keys() else []
        found.residue = "; ".join(filter(None, (found.residue, *remarks)))[:LONGEST]
        found.moves = self._with_known_names(binding, found.moves)
        return found

    def _tree_before(
        self, binding: Binding, found_files: Sequence[FoundFile], edited: Tree, now: Facts
    ) -> dict[str, Any]:
        """Return the values of all files before some of them were edited."""
        format, where = load_format(binding.format), self._context.surroundings(binding)
        base = {file.name: file.value for file in found_files if file.read is not None}
        changed = [file for file in found_files if file.name in edited]
        for file in changed:
            base[file.name] = self._base(binding, file, now, where)
        base = {name: value for name, value in base.items() if value is not None}
        if new := {file.name for file in changed if not file.known} - base.keys():
            # Another program added this file: compare it with what we would have written.
            ours = write_facts(format, base, now, where, self._clean)
            base |= {name: ours[name] for name in new & ours.keys()}
        return base

    def _removed_lines(
        self, binding: Binding, edited: Tree, base: Tree, now: Facts
    ) -> Iterator[str]:
        """Yield a remark for each log that lost lines; the next rendering restores them."""
        logs = [name for name in edited if is_log(name)]
        if not logs or binding.mirrored != self._context.read_facts(binding.session).seq:
            return
        format, where = load_format(binding.format), self._context.surroundings(binding)
        ours = write_facts(format, base, now, where, self._clean)
        for name in logs:
            if gone := len(ours[name]) - len(base[name]):
                were = "was" if gone == 1 else "were"
                yield f"{plural(gone, 'line')} of {os.path.basename(name)} {were} removed"

    def _bases_of(self, binding: Binding, found_files: Sequence[FoundFile], edited: Tree) -> Tree:
        """Return, for each edited file, the rendering that its program had read."""
        chosen = [file for file in found_files if file.name in edited and not is_log(file.name)]
        found = {file.name: self._find_base(binding, file) for file in chosen}
        return {name: value for name, value in found.items() if value is not None}

    def _with_known_names(self, binding: Binding, moves: list[Move]) -> list[Move]:
        """Return the moves with the step names that the journal and the plan use."""
        with self._context.store.view(binding.session) as view:
            state = self._context.journal.state(view)
            moves = with_journal_names(moves, state)
            plan = self._context.journal.plan(state) if state.core.plan else None
            if plan is not None:
                return list(_as_planned(moves, plan, state))
            return list(map(_as_task, moves)) if _is_of_tasks(state, moves) else moves

    def _with_required_keys(self, binding: Binding, file: FoundFile, value: Any) -> Any:
        """Return the file's value, with missing required keys copied from our newest rendering."""
        newest, where = self._reader.newest(binding, file), self._context.surroundings(binding)
        # A format can need the names of all files to find the session that they belong to.
        names: Tree = dict.fromkeys(paths_of(binding))
        before = {**names, file.name: newest.value if newest else None}
        made, _ = load_format(binding.format).restore_required(
            {**names, file.name: value}, before, where
        )
        return made[file.name]

    def _base(self, binding: Binding, file: FoundFile, now: Facts, where: Where) -> Any:
        """Return the value that the file had when the editing program read it."""
        if kind_of(file.name) == "jsonl":
            return self._base_of_log(load_format(binding.format), file, now, where)
        older = self._find_base(binding, file)
        return None if older is None else self._with_required_keys(binding, file, older)

    def _find_base(self, binding: Binding, file: FoundFile) -> Any:
        """Return the value of the rendering that an edit was made from; None if none is stored."""
        if not file.older:
            assert file.read is not None
            stored = self._context.bindings.contents(binding, file.name)
            # Programs that drop keys they do not know drop them from any rendering.
            found = self._context.without_secrets(
                self._with_required_keys(binding, file, file.value)
            )
            read = partial(self._reader.value_of, file.name)
            base = choose_base(rendering_id(file.read.document), found, stored, read)
            newest = self._reader.newest(binding, file)
            is_newest = newest is not None and self._context.without_secrets(newest.value) == base
            file.older = [newest.value if newest is not None and is_newest else base]
        return file.older[0]

    def _base_of_log(self, format: Format, file: FoundFile, now: Facts, where: Where) -> list[Any]:
        """Return the lines that the log had before the edit.

        Those are the lines that we wrote, and those of the other lines that the journal contains:
        a program that changes one line can rewrite all of them.
        """
        data = file.data or b""
        known = sorted(file.known, key=lambda rendering: -rendering.size)
        sizes = (r.size for r in known if sha256(data[: r.size]).hexdigest() == r.digest)
        before = parse_file(file.name, data[: next(sizes, 0)]).value
        return format.lines_before(self._clean(file.value), len(before), now, where)

    def _record(
        self, binding: Binding, found_files: Sequence[FoundFile], edited: Tree, found: Changes
    ) -> None:
        heads = [
            ev.ForeignEdited(
                format=binding.format,
                path=self._context.name_of(binding, file.path),
                digest=file.digest,
                cause=f"{CONFLICT}{', '.join(found.contested[:20])}" if found.contested else "edit",
                residue=found.residue,
            )
            for file in found_files
            if file.name in edited
        ]
        made = [*(Move(head) for head in heads), *found.moves]
        try:
            self._context.journal.append(
                binding.session,
                *(move.body for move in made),
                actor=f"file:{binding.format}",
                options=AppendOptions(at=[move.at for move in made], foreign=True),
            )
        except (InvalidInput, Refused) as error:
            what = f"the edit of {', '.join(sorted(edited))} cannot be recorded"
            raise type(error)(what, why=error.why or error.what) from error


def readme_of(binding: Binding) -> str:
    return os.path.join(binding.root, "README.md")


def _is_of_tasks(state: State, moves: Sequence[Move]) -> bool:
    """Return whether a session has tasks but no phases, and the moves set no plan.

    Some formats list such tasks as phases.
    """
    has_tasks = bool(state.count("step")) and not (state.count("phase") or state.core.is_phased)
    return has_tasks and not any(isinstance(move.body, ev.PlanSet) for move in moves)


def _as_task(move: Move) -> Move:
    """Return the move with an added phase turned into a task; other moves are unchanged."""
    body = move.body
    is_phase = isinstance(body, ev.StepAdded) and body.unit == "phase"
    return replace(move, body=replace(body, unit="task")) if is_phase else move


def _as_planned(moves: Sequence[Move], plan: Workflow, state: State) -> Iterator[Move]:
    """Yield the moves; a phase that a file adds gets its title and its tasks from the plan."""
    taken = {row.name for row in state.rows.select("step")}
    for move in moves:
        body = move.body
        number = state.core.phase_of(body.step) if isinstance(body, ev.StepAdded) else None
        if not isinstance(body, ev.StepAdded) or number is None:
            yield move
            continue
        phase, *tasks = add_phase(plan, number, taken)
        yield replace(move, body=phase) if body.title == f"Phase {number}" else move
        yield from (Move(task, move.at) for task in tasks)


def _summary(edited: Tree, found: Changes) -> str:
    names = ", ".join(sorted(edited))
    were = "was" if len(edited) == 1 else "were"
    text = f"{names} {were} edited: {plural(len(found.moves), 'change')} recorded"
    if found.contested:
        text += f"; also changed in Forestay: {', '.join(found.contested[:5])}"
    if found.residue:
        text += f"; not recorded: {found.residue[:200]}"
    return text
