"""Write a session's state into a binding's files without losing a concurrent edit.

A rendering is planned, stored, and only then written, so that no process mistakes our bytes for an
edit. The new file is exchanged with the old one in one step. Then the old bytes are compared with
those that were read before: if they differ, another program edited the file in between.

For speed, the old and the new value share the parts that did not change, and a file in the style
that we write is written from its value instead of being edited in place.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from hashlib import sha256
from secrets import token_hex
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from forestay.base import files, swap_file
from forestay.errors import ForestayError
from forestay.formats.facts import Facts
from forestay.formats.port import ERROR, Tree, Where, conventions_of, load_format
from forestay.formats.rendering_id import rendering_id, with_id, with_id_line, without_id_line
from forestay.formats.text.document import Document, fresh, kind_of
from forestay.formats.three_way import is_stored_whole, write_facts
from forestay.mirror.absorb import UNKNOWN, readme_of
from forestay.mirror.context import JournalFacts, MirrorContext, parse_file
from forestay.mirror.read_files import FileReader, FoundFile, Known, ParsedFile, is_log
from forestay.store.machine.bindings import Binding, Note, Written

_LONG = 256 * 1024

FactsAfter = Callable[[int], JournalFacts]
"""Return the current facts of a session, with log entries after the given event."""


class Change(Struct):
    """A file that is to be written."""

    file: FoundFile
    made: ParsedFile
    data: bytes
    digest: str = ""
    """The digest of the new bytes; computed when the rendering is stored."""
    staged: str | ForestayError = ""
    """The path of the new file before the exchange, or the error from writing it; "" for a log."""
    displaced: str = ""
    """The path of the old file after the exchange; empty if there was none."""
    gone: int | None = None
    """An open file descriptor of the removed old file; closing it frees the disk space."""
    log: Known | None = None
    """The size and hash of a log after the change."""


class Plan(Struct):
    """The changes that bring a binding's files up to date with the journal."""

    binding: Binding
    found_files: list[FoundFile]
    made: list[Change]
    """The new renderings; those that are in `changes`, too, are not written yet."""
    seq: int
    status: str
    changes: list[Change]


class Renderer:
    def __init__(self, context: MirrorContext, reader: FileReader) -> None:
        self._context = context
        self._reader = reader

    # -- planning ------------------------------------------------------------------------------

    def plan(
        self, binding: Binding, found_files: list[FoundFile], facts_after: FactsAfter, where: Where
    ) -> Plan:
        """Return the plan for a binding's files; an unchanged log only gets new lines."""
        shared, order = conventions_of(binding.format).shared, conventions_of(binding.format).order
        is_ours = any(file.log for file in found_files) or all(
            file.verdict == "ours" for file in found_files
        )
        brief = binding.mirrored != UNKNOWN and is_ours
        found_files = [
            file.behind(self._reader.newest(binding, file))
            if file.is_behind or (file.is_erased and file.name not in shared)
            else file
            for file in self._restore_missing(binding, found_files, where)
        ]
        latest = facts_after(binding.mirrored if brief else 0)
        if brief and latest.withdrawn is not None and not any(file.log for file in found_files):
            # Retracted events can be anywhere in the logs, so all lines are read.
            brief, latest = False, facts_after(0)
        where = replace(where, brief=brief, withdrawn=latest.withdrawn)
        facts = replace(latest.facts, native_id=binding.native)
        tree = self._tree(binding, found_files, facts, where, brief=brief)

        def rank(file: FoundFile) -> int:
            """Return the position of a file in the format's writing order; unlisted files first."""
            return next((i for i, end in enumerate(order) if file.name.endswith(end)), -1)

        made = [
            Change(file, each, each.document.data)
            for file in sorted(found_files, key=rank)
            if (each := self._render_file(binding, file, tree.get(file.name)))
        ]
        changes = [change for change in made if change.data != change.file.data]
        # A file with an owed rendering is stored again with its bytes.
        made = [c for c in made if c.data != c.file.data or c.file.verdict == "behind"]
        return Plan(binding, found_files, made, latest.seq, latest.status, changes)

    def _restore_missing(
        self, binding: Binding, found_files: list[FoundFile], where: Where
    ) -> list[FoundFile]:
        """Return missing files as we wrote them last, unless those renderings break their format.

        A rendering has what the journal lacks: unknown keys, order and style of other programs.
        Files that several sessions share are created again instead.
        """
        shared = conventions_of(binding.format).shared
        gone = [
            k for k in found_files if k.verdict == "missing" and k.known and k.name not in shared
        ]
        if not gone:
            return found_files
        back = [k.behind(self._reader.newest(binding, k)) if k in gone else k for k in found_files]
        tree = {file.name: file.value for file in back if file.read is not None}
        # Check the renderings alone: errors in other files do not count here.
        found = load_format(binding.format).check(tree, replace(where, names=frozenset()))
        return found_files if any(finding.severity == ERROR for finding in found) else back

    def _tree(
        self,
        binding: Binding,
        found_files: Sequence[FoundFile],
        facts: Facts,
        where: Where,
        *,
        brief: bool,
    ) -> Tree:
        old = {file.name: file.value for file in found_files if file.read is not None}
        if _is_moved(binding, old):
            where = replace(where, moved=True)
        format = load_format(binding.format)
        given, logs = _without_logs(binding, old) if brief else (old, {})
        clean, reads = (
            self._context.journal.clean_facts,
            [file.read for file in found_files if file.read],
        )
        if any(read.is_whole is None for read in reads):
            is_whole = is_stored_whole(format, old, where, clean)
            for read in reads:
                read.is_whole = is_whole
        is_clean = all(read.is_whole for read in reads)
        tree = write_facts(format, given, facts, where, clean, is_clean=is_clean)
        if any(file.data is None and file.name not in tree for file in found_files):
            tree = format.put(None, facts, where) | tree
        return _with_logs(tree, logs)

    def _render_file(self, binding: Binding, file: FoundFile, value: Any) -> ParsedFile | None:
        """Return the new file; None if the format has no such file now, or if nothing changes."""
        needs_id = (binding.number, file.name) in self._reader.need_new_id
        is_so = file.read is not None and file.value == value and not needs_id
        if value is None or (is_so and file.verdict != "behind"):
            return None
        kind = kind_of(file.name)
        if kind == "jsonl":
            return _extend_log(file, value)
        if is_so:
            return file.read
        id = "" if file.name in conventions_of(binding.format).shared else token_hex(6)
        stated = with_id(value, id) if id and kind == "json" else value
        if file.read is None:
            made = ParsedFile(
                parse_file(file.name, fresh(kind, stated)), value, is_clean=True, is_whole=True
            )
        else:
            again = _render_again(file.read, kind, stated)
            made = again or ParsedFile(file.read.document.rewritten(stated), value)
            # Values from the journal contain no secrets, so they are stored unchanged.
            made.is_clean, made.is_whole = self._is_clean(binding, file), file.read.is_whole
        if id and kind == "yaml":
            made.document = with_id_line(made.document, id)
        made.value = value
        return made

    def _is_clean(self, binding: Binding, file: FoundFile) -> bool:
        """Return whether a file is known to contain no secrets.

        A long file is compared with the stored rendering, which is quicker than searching it.
        """
        assert file.read is not None
        if not file.read.is_clean and file.verdict == "ours" and len(file.data or b"") > _LONG:
            stored = self._context.bindings.last_content(binding, file.name)
            file.read.is_clean = sha256(stored).hexdigest() == file.digest
        return file.read.is_clean

    def notes(self, plans: Sequence[Plan]) -> list[Note]:
        """Return the renderings to store before the files of plans are exchanged."""
        new = [p for p in plans if p.changes or p.binding.mirrored != p.seq]
        return [(p.binding, [n for c in p.made for n in self._notes_of(c)], p.seq) for p in new]

    def _notes_of(self, change: Change) -> list[Written]:
        """Return the new rendering of a file, preceded by the older one that is still on disk.

        Only the last few renderings are stored. Without storing the older one again, a file that
        cannot be written for a long time would count as edited.
        """
        file = change.file
        if file.verdict != "rewound" or file.read is None or file.data is None:
            return [self._note(change)]
        return [self._note(Change(file, file.read, file.data, file.digest)), self._note(change)]

    def _note(self, change: Change) -> Written:
        kind, data, file = kind_of(change.file.name), change.data, change.file
        if kind == "jsonl":
            change.log = Known(data, file.log)
            change.digest = change.log.digest
            # The content of a log is not stored, because the file itself still begins with it.
            return file.name, change.digest, change.log.size, b""
        change.digest = change.digest or sha256(data).hexdigest()
        stored = self._without_secrets(kind, data, change.made)
        self._reader.cache_parsed(kind, change.digest, change.made)
        size = 0 if file.verdict == "owed" else len(data)
        return file.name, change.digest, size, stored

    def _without_secrets(self, kind: str, data: bytes, made: ParsedFile) -> bytes:
        """Return the bytes of a file without secrets, so that they can be stored."""
        if not made.is_clean:
            made.is_clean = not self._context.journal.find_secrets(data.decode("utf-8", "replace"))
        if made.is_clean:
            return data
        clean = fresh(kind, self._context.without_secrets(made.document.parsed))
        id = rendering_id(made.document)
        is_line = kind == "yaml" and id
        return with_id_line(Document(kind, clean, None), id).data if is_line else clean

    def remember(self, binding: Binding, found_files: Sequence[FoundFile], mirrored: int) -> None:
        """Store the found files as the newest renderings, which show events up to `mirrored`."""
        seen = [
            self._note(Change(file, file.read, file.data, file.digest))
            for file in found_files
            if file.read is not None and file.data is not None and file.verdict != "ours"
        ]
        if seen or binding.mirrored != mirrored:
            self._context.bindings.rendered([(binding, seen, mirrored)])

    def remember_again(self, binding: Binding, found_files: Sequence[FoundFile]) -> None:
        """Store our renderings again from the files if their stored content was erased."""
        bare = [
            file
            for file in found_files
            if file.verdict in ("ours", "rewound") and file.read is not None
            if not is_log(file.name)
            if not self._context.bindings.last_content(binding, file.name)
        ]
        self.remember(binding, [replace(file, verdict="found") for file in bare], binding.mirrored)

    # -- writing -------------------------------------------------------------------------------

    def stage(self, plans: Sequence[Plan]) -> None:
        """Write the new files of plans next to their places; their renderings must be stored."""
        changes = [c for plan in plans for c in plan.changes if not _is_extended(c.file)]
        new = [(change.file.path, change.data, change.digest) for change in changes]
        for change, staged in zip(changes, swap_file.stage_all(new, 0o644), strict=True):
            change.staged = staged

    def exchange(self, plan: Plan, require: Callable[[], None]) -> None:
        """Exchange staged files with the old ones, in the format's order, unless `require` raises.

        The exchange is durable once the folders are synced.
        """
        try:
            require()
            for change in plan.changes:
                if isinstance(change.staged, ForestayError):
                    raise change.staged
            for change in plan.changes:
                self._swap(plan.binding, change)
        except ForestayError:
            for change in plan.changes:
                if isinstance(change.staged, str) and change.staged:
                    files.remove(change.staged)
            raise

    def _swap(self, binding: Binding, change: Change) -> None:
        file, aside = change.file, change.staged
        # Do not remove this file after an error: after the swap it can contain an edit.
        change.staged = ""
        if not isinstance(aside, str) or not aside:
            new = change.data[len(file.data or b"") :]
            files.append_lines(file.path, new.removeprefix(b"\n"), mode=0o644, sync=False)
            return
        with self._reader.read_lock(binding, file.path) if file.data is not None else nullcontext():
            # The format's backup is the previous version, if it was readable.
            ending, backup = conventions_of(binding.format).backup, None
            if ending and file.data is not None and file.path == binding.place:
                backup = f"{file.path}{ending}", file.data
            if swap_file.swap(aside, file.path, backup=backup, mode=0o644):
                change.displaced = aside

    def has_displaced(self, plan: Plan) -> bool:
        """Remove displaced renderings of ours; return whether an edit was displaced."""
        displaced = [change for change in plan.changes if change.displaced]
        for change in displaced:
            change.gone = swap_file.remove_displaced(
                change.displaced, change.file.data or b"", self._context.clock
            )
        if any(change.gone is None for change in displaced):
            return True
        digests = {file.name: file.digest for file in plan.found_files}
        for change in plan.changes:
            name = change.file.name
            digests[name] = change.digest
            self._reader.need_new_id.discard((plan.binding.number, name))
            if change.log:
                change.log.store_stamp(change.file.path)
            known = change.log or Known(change.data)
            self._reader.cache_newest(plan.binding, name, known)
        self._reader.cache_shown_event(plan.binding, plan.seq, digests)
        return False

    def free_space(self, plans: Sequence[Plan]) -> None:
        """Free the space of displaced files that were removed."""
        gone = [change.gone for plan in plans for change in plan.changes]
        swap_file.free_removed([fd for fd in gone if fd is not None])


def _is_moved(binding: Binding, tree: Tree) -> bool:
    """Return whether the files contain a folder path that is not the folder they are in."""
    key = conventions_of(binding.format).own_folder
    main = os.path.relpath(binding.place, binding.root) if key else ""
    value = tree.get(main)
    named = value.get(key) if isinstance(value, dict) else None
    if not isinstance(named, str) or not os.path.isabs(named):
        return False
    try:
        return not os.path.samefile(named, binding.root)
    except (OSError, ValueError) as error:
        return isinstance(error, FileNotFoundError | NotADirectoryError)


def prepare(plan: Plan) -> None:
    """Create the folders that the files of a plan need, and the README of a new root folder."""
    binding = plan.binding
    customs, readme = conventions_of(binding.format), readme_of(binding)
    if any(file.data is None for file in plan.found_files):
        for folder in customs.folders:
            files.make_folder(os.path.join(binding.root, folder.format(id=binding.native)))
        if customs.readme and not os.path.lexists(readme):
            files.create(readme, customs.readme.encode(), mode=0o644)
    for change in plan.changes:
        if change.file.data is None:
            files.make_folder(os.path.dirname(change.file.path))


def _is_extended(file: FoundFile) -> bool:
    return file.data is not None and is_log(file.name)


def to_sync(plan: Plan) -> set[str]:
    """Return the files and folders to sync to disk, so that a plan's changes are durable."""
    paths = ((change.file.path, _is_extended(change.file)) for change in plan.changes)
    return {path if grows else os.path.dirname(path) for path, grows in paths}


def _without_logs(binding: Binding, tree: Tree) -> tuple[Tree, dict[tuple[str, str], list[Any]]]:
    """Return the files with empty logs, and the logs apart: they need not be compared again."""
    logs: dict[tuple[str, str], list[Any]] = {}
    made = dict(tree)
    for name, value in tree.items():
        if isinstance(value, list):
            made[name], logs[name, ""] = [], value
            continue
        for key in conventions_of(binding.format).logs:
            if isinstance(value, dict) and isinstance(value.get(key), list):
                made[name], logs[name, key] = {**made[name], key: []}, value[key]
    return made, logs


def _with_logs(tree: Tree, logs: dict[tuple[str, str], list[Any]]) -> Tree:
    made = dict(tree)
    for (name, key), old in logs.items():
        new = made[name][key] if key else made[name]
        whole = [*old, *new] if new else old
        made[name] = {**made[name], key: whole} if key else whole
    return made


def _extend_log(file: FoundFile, lines: list[Any]) -> ParsedFile | None:
    """Return a log with new lines; an incomplete last line stays and gets a line break."""
    if file.read is None or file.data is None:
        return ParsedFile(Document("jsonl", fresh("jsonl", lines), lines), lines)
    new = fresh("jsonl", lines[len(file.value) :])
    if not new:
        return None
    gap = b"\n" if file.data and not file.data.endswith(b"\n") else b""
    return ParsedFile(Document("jsonl", file.data + gap + new, lines), lines)


def _render_again(old: ParsedFile, kind: str, value: Any) -> ParsedFile | None:
    """Return a file with a new value if it has the style of files that we create, else None.

    Editing the file in place would give the same bytes, but takes longer.
    """
    if old.is_usual is None:
        old.is_usual = fresh(kind, old.document.parsed) == without_id_line(old.document.data)
    if not old.is_usual:
        return None
    return ParsedFile(Document(kind, fresh(kind, value), value), value, is_usual=True)
