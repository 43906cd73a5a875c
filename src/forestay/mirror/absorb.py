"""Record what others wrote into a session's files as events.

An edit is compared with the rendering that it was made from, and what it changed is recorded with
the actor `file:FORMAT`. Bytes that an exchange displaced are absorbed in the same way. Unknown keys
and comments are no events: those of an edit that was not made from our newest rendering are *owed*,
and the file that is written next has them. Absorbing never writes a file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Any

from msgspec.structs import replace

from forestay.base import files, swap_file
from forestay.base.text import plural
from forestay.errors import InvalidInput, Refused
from forestay.formats import diff as trees
from forestay.formats.facts import Facts
from forestay.formats.port import Tree, Where, conventions_of, load_format
from forestay.formats.rendering_id import rendering_id
from forestay.formats.text.document import kind_of
from forestay.formats.text.safe_parse import Unreadable
from forestay.formats.three_way import LONGEST, Changes, changes, choose_base, write_facts
from forestay.formats.to_events import Move, by_known_names
from forestay.journal.journal import AppendOptions
from forestay.mirror.context import (
    MAX_BYTES,
    Desk,
    Suspended,
    folders_of,
    parsed,
    paths_of,
    read,
)
from forestay.mirror.read_files import Look, Looker, Read, is_log
from forestay.model import event as ev
from forestay.model.gates.phase_moves import add_phase
from forestay.model.plan import Workflow
from forestay.model.state import CONFLICT, State
from forestay.store.machine.bindings import Binding

UNKNOWN = 0
"""The last event in logs that someone edited: their lines have to be read."""

Remember = Callable[[Binding, Sequence[Look], int], None]
"""Store files as the newest renderings, which show everything up to an event."""


class Absorber:
    def __init__(self, desk: Desk, looker: Looker, remember: Remember) -> None:
        self._desk = desk
        self._looker = looker
        self._remember = remember
        self._clean = desk.journal.clean_facts

    def settle(self, binding: Binding) -> tuple[list[Look], list[str]]:
        """Record what others wrote; return the files as found, and lines to report."""
        said: list[str] = []
        paths = paths_of(binding)
        if any(swap_file.has_leftovers(f) for f in {binding.root, *folders_of(binding)}):
            said += self._clear_up(binding, paths)
        looks = self._looker.looks(binding)
        edited = self._edited(looks)
        if edited:
            said += self._absorb_trees(binding, looks, edited)
            self._looker.need_new_id.update((binding.number, name) for name in edited)
            owed = [self._owed(binding, look) for look in looks if look.name in edited]
            made = {each.name: each for each in owed if each}
            self._remember(binding, [*looks, *made.values()], _reached(binding, looks))
            looks = [
                look.behind(made[look.name].read) if look.name in made else look for look in looks
            ]
        return looks, said

    def pending(self, binding: Binding) -> list[Move]:
        """Return the moves that others wrote and that are not absorbed yet; change nothing."""
        looks = self._looker.looks(binding)
        edited = self._edited(looks)
        return self._changes(binding, looks, edited).moves if edited else []

    def _edited(self, looks: Sequence[Look]) -> Tree:
        """Return what others wrote."""
        return {look.name: look.value for look in looks if look.verdict == "edited"}

    def _clear_up(self, binding: Binding, paths: Mapping[str, str]) -> list[str]:
        """Remove unfinished temporary files, and absorb what an exchange displaced."""
        for path in (*paths.values(), readme_of(binding)):
            for temporary in files.list_unfinished(path):
                files.remove(temporary)
        said: list[str] = []
        for name, path in paths.items():
            said += self._take_displaced(binding, name, path)
        return said

    def _take_displaced(self, binding: Binding, name: str, path: str) -> list[str]:
        said: list[str] = []
        for aside in swap_file.displaced(path):
            try:
                data = read(aside)
                if swap_file.is_staged(aside, data):
                    files.remove(aside)
                    continue
                self._looker.require_finished(name, aside)
                data = read(aside)
                is_edit = not self._is_ours(binding, name, data)
                said += self._absorb_bytes(binding, name, data)
                if is_edit and self._has_secrets(data) and self._is_ours(binding, name, _at(path)):
                    # Secrets are not stored, so they could not be owed: the file gets its name
                    # back. Not before: a program that read our file may write at any moment.
                    swap_file.undo(aside, path)
                    said += self._absorb_bytes(binding, name, read(aside))
            except (InvalidInput, Unreadable, Suspended):
                # It cannot be read, and it is not ours to delete.
                swap_file.undo(aside, path)
                raise
            files.remove(aside)
        return said

    def _is_ours(self, binding: Binding, name: str, data: bytes | None) -> bool:
        known = self._desk.bound.renderings(binding).get(name, [])
        digest = "" if data is None else sha256(data).hexdigest()
        return any(rendering.digest == digest for rendering in known)

    def _has_secrets(self, data: bytes) -> bool:
        return bool(self._desk.journal.find_secrets(data.decode("utf-8", "replace")))

    def _absorb_bytes(self, binding: Binding, name: str, data: bytes) -> list[str]:
        """Absorb bytes that an exchange displaced, if they are not ours."""
        digest = sha256(data).hexdigest()
        known = self._desk.bound.renderings(binding).get(name, [])
        if any(rendering.digest == digest for rendering in known):
            return []
        looks = self._looker.looks(binding)
        look = next(look for look in looks if look.name == name)
        look.data, look.digest, look.known = data, digest, known
        look.verdict = "edited" if known else "found"
        self._looker.understand(look)
        self._looker.require_ours(binding, looks)
        said = self._absorb_trees(binding, looks, {name: look.value})
        # It is no longer in its place, so all of it is owed.
        owed = self._owed(binding, look) or replace(look, verdict="owed")
        self._remember(binding, [look, owed], UNKNOWN)
        return said

    def _owed(self, binding: Binding, look: Look) -> Look | None:
        """Return what an edit would have made of our newest rendering, with its required keys.

        None if the file holds just that.
        """
        newest, older = self._looker.newest(binding, look), self._made_from(binding, look)
        if newest is None or older is None or look.read is None:
            return None
        value = look.value
        if older != newest.value:
            value, _ = trees.merge(older, value, newest.value)
            value = self._as_others_say(binding, look, value)
        value = self._whole(binding, look, value)
        document = look.read.document.rewritten(value)
        if document.data == look.data:
            return None
        digest = sha256(document.data).hexdigest()
        return Look(look.name, look.path, document.data, digest, "owed", read=Read(document, value))

    def _as_others_say(self, binding: Binding, look: Look, value: Any) -> Any:
        """Return a file that sessions share, with the entries of our other sessions as found.

        Our rendering has old entries of them, which they would absorb as an edit.
        """
        if look.name not in conventions_of(binding.layout).shared:
            return value
        from forestay.formats.ai_session.read import listed_as

        here = (binding.layout, binding.root)
        bound = [b for b in self._desk.bound.bindings() if (b.layout, b.root) == here]
        others = {b.native for b in bound if b.number != binding.number}
        return listed_as(look.value, value, others)

    def _absorb_trees(self, binding: Binding, looks: Sequence[Look], edited: Tree) -> list[str]:
        found = self._changes(binding, looks, edited)
        if not (found.moves or found.contested or found.residue):
            return []
        self._record(binding, looks, edited, found)
        return [_summary(edited, found)]

    def _changes(self, binding: Binding, looks: Sequence[Look], edited: Tree) -> Changes:
        format, where = load_format(binding.layout), self._desk.surroundings(binding)
        now = replace(self._desk.told(binding.session).facts, native_id=binding.native)
        said = {look.name: look.value for look in looks if look.read is not None}
        base = self._before(binding, looks, edited, now)
        # By the name of the main file a format knows which entry of a shared file is meant.
        main: Tree = dict.fromkeys(list(paths_of(binding))[:1])
        base, theirs = main | base, main | said
        whole, told = format.whole(theirs, base, where)
        if told:
            # A program that read the file before a key was added has not removed it.
            read = base | self._read_by_others(binding, looks, edited)
            told = format.whole(theirs, read, where)[1]
        told = [*told, *self._cut(binding, edited, base, now)]
        found = changes(format, base, whole, now, where, self._clean)
        # Without a main file nothing was removed from the others.
        told = told if main.keys() <= said.keys() else []
        found.residue = "; ".join(filter(None, (found.residue, *told)))[:LONGEST]
        found.moves = self._in_our_words(binding, found.moves)
        return found

    def _before(
        self, binding: Binding, looks: Sequence[Look], edited: Tree, now: Facts
    ) -> dict[str, Any]:
        """Return what the files stated before some of them were edited."""
        format, where = load_format(binding.layout), self._desk.surroundings(binding)
        base = {look.name: look.value for look in looks if look.read is not None}
        changed = [look for look in looks if look.name in edited]
        for look in changed:
            base[look.name] = self._base(binding, look, now, where)
        base = {name: value for name, value in base.items() if value is not None}
        if new := {look.name for look in changed if not look.known} - base.keys():
            # A file that was added later is compared with what we would have written there.
            ours = write_facts(format, base, now, where, self._clean)
            base |= {name: ours[name] for name in new & ours.keys()}
        return base

    def _cut(self, binding: Binding, edited: Tree, base: Tree, now: Facts) -> Iterator[str]:
        """Yield a residue for logs from which lines were removed: they come back."""
        logs = [name for name in edited if is_log(name)]
        if not logs or binding.mirrored != self._desk.told(binding.session).seq:
            return
        format, where = load_format(binding.layout), self._desk.surroundings(binding)
        ours = write_facts(format, base, now, where, self._clean)
        for name in logs:
            if gone := len(ours[name]) - len(base[name]):
                were = "was" if gone == 1 else "were"
                yield f"{plural(gone, 'line')} of {os.path.basename(name)} {were} taken out"

    def _read_by_others(self, binding: Binding, looks: Sequence[Look], edited: Tree) -> Tree:
        """Return the renderings that edited files were made from."""
        chosen = [look for look in looks if look.name in edited and not is_log(look.name)]
        found = {look.name: self._made_from(binding, look) for look in chosen}
        return {name: value for name, value in found.items() if value is not None}

    def _in_our_words(self, binding: Binding, moves: list[Move]) -> list[Move]:
        """Return moves with the names that the journal and its plan have for things."""
        with self._desk.store.view(binding.session) as view:
            state = self._desk.journal.state(view)
            moves = by_known_names(moves, state)
            plan = self._desk.journal.plan(state) if state.core.plan else None
            if plan is not None:
                return list(_planned(moves, plan, state))
            return list(map(_as_task, moves)) if _is_of_tasks(state, moves) else moves

    def _whole(self, binding: Binding, look: Look, value: Any) -> Any:
        """Return the value of a file with the required keys that our newest rendering has."""
        newest, where = self._looker.newest(binding, look), self._desk.surroundings(binding)
        # A format may need the names of all files to know whose they are.
        names: Tree = dict.fromkeys(paths_of(binding))
        before = {**names, look.name: newest.value if newest else None}
        made, _ = load_format(binding.layout).whole({**names, look.name: value}, before, where)
        return made[look.name]

    def _base(self, binding: Binding, look: Look, now: Facts, where: Where) -> Any:
        """Return what the file stated when its editor read it."""
        if kind_of(look.name) == "jsonl":
            return self._base_of_log(look, now, where)
        older = self._made_from(binding, look)
        return None if older is None else self._whole(binding, look, older)

    def _made_from(self, binding: Binding, look: Look) -> Any:
        """Return the rendering that an edit was made from; None if none is stored."""
        if not look.older:
            assert look.read is not None
            kept = self._desk.bound.contents(binding, look.name)
            # Programs that drop keys they do not know drop them from any rendering.
            found = self._desk.without_secrets(self._whole(binding, look, look.value))
            read = partial(self._looker.said, look.name)
            base = choose_base(rendering_id(look.read.document), found, kept, read)
            newest = self._looker.newest(binding, look)
            is_newest = newest is not None and self._desk.without_secrets(newest.value) == base
            look.older = [newest.value if newest is not None and is_newest else base]
        return look.older[0]

    def _base_of_log(self, look: Look, now: Facts, where: Where) -> list[Any]:
        """Return the lines that were there before.

        Those are the lines that we wrote, and of all others those that the journal has: a program
        that changes one line may rewrite all of them.
        """
        from forestay.formats.ai_session.history_log import without_news

        data = look.data or b""
        known = sorted(look.known, key=lambda rendering: -rendering.size)
        sizes = (r.size for r in known if _begins(data, r.size, r.digest))
        before = parsed(look.name, data[: next(sizes, 0)]).value
        return without_news(self._clean(look.value), len(before), now.commands, where)

    def _record(
        self, binding: Binding, looks: Sequence[Look], edited: Tree, found: Changes
    ) -> None:
        heads = [
            ev.ForeignEdited(
                layout=binding.layout,
                path=self._desk.name_of(binding, look.path),
                digest=look.digest,
                cause=_cause(found.contested),
                residue=found.residue,
            )
            for look in looks
            if look.name in edited
        ]
        made = [*(Move(head) for head in heads), *found.moves]
        try:
            self._desk.journal.append(
                binding.session,
                *(move.body for move in made),
                actor=f"file:{binding.layout}",
                options=AppendOptions(at=[move.at for move in made], foreign=True),
            )
        except (InvalidInput, Refused) as error:
            what = f"what someone changed in {', '.join(sorted(edited))} cannot be taken up"
            raise type(error)(what, why=error.why or error.what) from error


def readme_of(binding: Binding) -> str:
    return os.path.join(binding.root, "README.md")


def _reached(binding: Binding, looks: Sequence[Look]) -> int:
    """Return the last event that the logs of edited files show."""
    return binding.mirrored if any(look.log for look in looks) else UNKNOWN


def _is_of_tasks(state: State, moves: Sequence[Move]) -> bool:
    """Return whether a session has tasks, which some files list as phases, and gets no plan."""
    has_tasks = bool(state.count("step")) and not (state.count("phase") or state.core.is_phased)
    return has_tasks and not any(isinstance(move.body, ev.PlanSet) for move in moves)


def _as_task(move: Move) -> Move:
    """Return a phase that a file adds to a session of tasks as a task."""
    body = move.body
    is_phase = isinstance(body, ev.StepAdded) and body.unit == "phase"
    return replace(move, body=replace(body, unit="task")) if is_phase else move


def _planned(moves: Sequence[Move], plan: Workflow, state: State) -> Iterator[Move]:
    """Yield phases that a file adds as the plan has them, with their tasks."""
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


def _begins(data: bytes, size: int, digest: str) -> bool:
    return sha256(data[:size]).hexdigest() == digest


def _cause(contested: Sequence[str]) -> str:
    shown = ", ".join(contested[:20])
    return f"{CONFLICT}{shown}" if contested else "edit"


def _summary(edited: Tree, found: Changes) -> str:
    names = ", ".join(sorted(edited))
    were = "was" if len(edited) == 1 else "were"
    text = f"{names} {were} changed by someone: {plural(len(found.moves), 'change')} taken up"
    if found.contested:
        text += f"; changed here too: {', '.join(found.contested[:5])}"
    if found.residue:
        text += f"; not taken up: {found.residue[:200]}"
    return text


def _at(path: str) -> bytes | None:
    return files.read_optional(path, MAX_BYTES, follow=False)
