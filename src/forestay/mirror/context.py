"""Provide what all parts of the mirror need: a session's facts, file paths, and working trees.

This module makes no decisions. Working trees and the facts after the last event are cached, because
a process that continues to write needs them again; dropping the caches is always safe.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from forestay.base import files, walk
from forestay.errors import ForestayError, InvalidInput
from forestay.formats.coerce import texts_in, with_texts
from forestay.formats.facts import Facts
from forestay.formats.from_state import (
    clear_retracted_figures,
    facts_of,
    is_retraction,
    log_facts,
    withdrawn,
)
from forestay.formats.port import (
    REGISTRY,
    Travel,
    Where,
    conventions_of,
    load_format,
    require_known,
)
from forestay.formats.text.document import Document, kind_of
from forestay.formats.text.safe_parse import LONGEST, Unreadable
from forestay.journal.context import Context
from forestay.model.event import Body
from forestay.store.machine.bindings import Binding
from forestay.store.port import View
from forestay.workspace.tree import Tree as Place
from forestay.workspace.tree import find_tree, relative

MAX_BYTES = LONGEST
_MOST_NAMES = 2000


class Suspended(ForestayError):
    """A binding's files cannot be read or written now; the message gives the reason."""


class JournalFacts(Struct):
    """The facts of a session from its journal; log entries only after a given event."""

    facts: Facts
    seq: int
    status: str
    withdrawn: Facts | None = None
    """Log entries that were retracted since that event; None if none were."""


CachedFacts = tuple[tuple[str, int, int], JournalFacts]
"""The facts read last, by session, its last event, and the event after which log entries start."""


class MirrorContext:
    def __init__(
        self, context: Context, device: str, travel: Callable[[str], Travel | None]
    ) -> None:
        """Set up the context of all mirror work.

        `device` is the name that files show for this machine. `travel` returns how a session is
        synced with other devices, None if this device does not know.
        """
        self.store = context.store
        self.bindings = context.store.machine.bindings
        self.journal = context.journal
        self.clock = context.clock
        self.tree = context.workspace.tree
        self._settings = context.settings
        self._device = device
        self._travel = travel
        self.shows_sync_state = False
        """Whether the file that was rendered last shows the sync state of its session."""
        self._trees: dict[str, Place] = {}
        self.cached_facts: CachedFacts | None = None
        self.erased: list[Body] = []
        """Events that are being erased: they are removed from files like retracted events."""

    def read_facts(self, session: str, after: int = 0) -> JournalFacts:
        with self.store.view(session) as view:
            return self.read_facts_at(view, after)

    def read_facts_at(self, view: View, after: int) -> JournalFacts:
        """Return the facts of a session at one moment; its logs start after the event `after`."""
        key = (view.session, view.seq, after)
        if self.cached_facts is not None and self.cached_facts[0] == key:
            return self.cached_facts[1]
        state, events = self.journal.state(view), list(self.journal.events(view, after=after))
        facts, retracted = facts_of(state, events), None
        if self.erased or any(map(is_retraction, events)):
            retracted = log_facts([*withdrawn(events), *self.erased])
            facts = clear_retracted_figures(facts, retracted)
        latest = JournalFacts(facts, view.seq, state.core.status, retracted)
        self.cached_facts = (key, latest)
        return latest

    def root_of(self, kind: str) -> str:
        """Return the folder of a format in this project."""
        require_known(kind)
        name = conventions_of(kind).root_setting
        chosen = getattr(self._settings, name) if name else ""
        return os.path.join(self.tree.root, chosen or REGISTRY[kind][1])

    def surroundings(self, binding: Binding) -> Where:
        where = self.where(binding.root, names=conventions_of(binding.format).sees_names)
        if not conventions_of(binding.format).travels:
            return where
        travel = self._travel(binding.session)
        self.shows_sync_state = travel is not None
        return replace(where, travel=travel)

    def where(self, root: str, *, names: bool = True) -> Where:
        return Where(
            now=self.clock.now(),
            root=root,
            names=frozenset(walk.list_files_below(root, _MOST_NAMES)) if names else frozenset(),
            naive=self._settings.naive_time,
            project_path=self.tree_of(root).root if root else self.tree.root,
            device=self._device,
            window=self._settings.context_window,
        )

    def tree_of(self, root: str) -> Place:
        """Return the working tree around the folder of a format, which need not exist yet."""
        if root not in self._trees:
            folder = _project_of(root)
            while not os.path.isdir(folder):
                folder = os.path.dirname(folder)
            here = f"{folder}/".startswith(f"{self.tree.root}/")
            self._trees[root] = self.tree if here else find_tree(folder)
        return self._trees[root]

    def name_of(self, binding: Binding, path: str) -> str:
        try:
            return relative(path, self.tree_of(binding.root).root)
        except InvalidInput:
            return os.path.basename(path)

    def without_secrets(self, value: Any) -> Any:
        """Return a value with the secrets in its texts redacted; the same object if it has none."""
        is_clean = self.journal.redactor.has_no_secret(texts_in(value))
        return value if is_clean else with_texts(value, self.journal.redact)


def archived_folder(binding: Binding) -> str:
    """Return the path to which another program archived a session's folder; empty if it did not."""
    name = conventions_of(binding.format).put_away
    if not (name and binding.mirrored) or os.path.lexists(os.path.dirname(binding.place)):
        return ""
    folder = os.path.normpath(os.path.join(binding.root, name.format(id=binding.native)))
    return folder if os.path.isdir(folder) else ""


def paths_of(binding: Binding) -> Mapping[str, str]:
    """Return the paths of a binding's files, by their names in the format."""
    return _paths(binding.format, binding.native, binding.root, binding.place)


@lru_cache(maxsize=64)
def _paths(kind: str, native: str, root: str, place: str) -> Mapping[str, str]:
    main, *others = load_format(kind).files(native)
    return {main: place, **{name: os.path.join(root, name) for name in others}}


def folders_of(binding: Binding) -> Sequence[str]:
    """Return the folders that contain the files of a binding."""
    return _folders(tuple(paths_of(binding).values()))


@lru_cache(maxsize=64)
def _folders(paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(os.path.dirname(path) for path in paths))


def has_no_link(folder: str, known: set[str]) -> bool:
    """Return whether no part of a path is a symbolic link; do not check folders in `known`."""
    for part in _parts(folder):
        if part in known:
            return True
        if os.path.islink(part):
            return False
        known.add(part)
    return True


@lru_cache(maxsize=8)
def above(folder: str) -> frozenset[str]:
    """Return all folders above a folder."""
    return frozenset(_parts(folder)[1:])


@lru_cache(maxsize=64)
def _parts(folder: str) -> tuple[str, ...]:
    """Return a folder and all folders above it, from the inside out."""
    above = os.path.dirname(folder)
    return (folder,) if above == folder else (folder, *_parts(above))


def parse_file(name: str, data: bytes) -> Document:
    kind = kind_of(name)
    if kind != "jsonl":
        return Document.parse(data, kind)
    try:
        return Document.parse(data, kind)
    except Unreadable as error:
        if error.code != "not-utf8":
            raise
        # A crash can leave half a line, which can end inside a character.
        return Document.parse(data.decode("utf-8", "replace").encode(), kind)


def read(path: str) -> bytes:
    return files.read_bounded(path, MAX_BYTES, follow=False)


def _project_of(root: str) -> str:
    """Return the project folder that contains a format's root folder; for an essay, the root."""
    usual = (f"/{inside}" for _, inside in REGISTRY.values() if inside)
    return next((root.removesuffix(end) for end in usual if root.endswith(end)), root)
