"""Desk: what every room of the mirror needs: the journal's word, the layouts, the surroundings.

Nothing is decided here. A process that writes on need not find the same out again, so trees and
the facts of a moment are kept; all of it may be lost.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from forestay.base import files, walk
from forestay.base.clock import Clock
from forestay.errors import ForestayError, InvalidInput
from forestay.formats.coerce import texts_in, with_texts
from forestay.formats.facts import Facts
from forestay.formats.from_state import (
    facts_of,
    is_retraction,
    only_logged,
    withdrawn,
    without_figures,
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
from forestay.journal.journal import Journal
from forestay.model.event import Body
from forestay.store.machine.bindings import Binding
from forestay.store.port import Store, View
from forestay.workspace.tree import Tree as Place
from forestay.workspace.tree import find_tree, relative

MAX_BYTES = LONGEST
_MOST_NAMES = 2000


class Suspended(ForestayError):
    """A binding cannot be used now; the message says why."""


class Told(Struct):
    """What the journal says of a session, of its logs only what came after an event."""

    facts: Facts
    seq: int
    status: str
    withdrawn: Facts | None = None
    """What was said and taken back since that event, if anything was taken back."""


Last = tuple[tuple[str, int, int], Told]
"""What was told last: of which session, up to which event, and of its logs after which."""


class Desk:
    def __init__(
        self,
        store: Store,
        journal: Journal,
        clock: Clock,
        place: Place,
        *,
        naive: str,
        device: str,
        window: int,
        roots: Mapping[str, str],
        travel: Callable[[str], Travel | None],
    ) -> None:
        """`travel` tells how a session stands with other devices, where that is known here."""
        self.store = store
        self.bound = store.machine.bindings
        self.journal = journal
        self.clock = clock
        self.place = place
        self.naive = naive
        self.device = device
        self.window = window
        self._roots = roots
        self._travel = travel
        self.travels = False
        """Whether a file told last how its session stands with other devices."""
        self._trees: dict[str, Place] = {}
        self.last: Last | None = None
        self.forgotten: list[Body] = []
        """What is being erased: it leaves files as what was taken back does."""

    def told(self, session: str, after: int = 0) -> Told:
        with self.store.view(session) as view:
            return self.tell(view, after)

    def tell(self, view: View, after: int) -> Told:
        """What the journal says at one moment."""
        key = (view.session, view.seq, after)
        if self.last is not None and self.last[0] == key:
            return self.last[1]
        state, events = self.journal.state(view), list(self.journal.events(view, after=after))
        facts, taken = facts_of(state, events), None
        if self.forgotten or any(map(is_retraction, events)):
            taken = only_logged([*withdrawn(events), *self.forgotten])
            facts = without_figures(facts, taken)
        told = Told(facts, view.seq, state.core.status, taken)
        self.last = (key, told)
        return told

    def root_of(self, kind: str) -> str:
        """The folder of a layout in this project."""
        require_known(kind)
        return os.path.join(self.place.root, self._roots.get(kind) or REGISTRY[kind][1])

    def surroundings(self, binding: Binding) -> Where:
        where = self.where(binding.root, names=conventions_of(binding.layout).sees_names)
        if not conventions_of(binding.layout).travels:
            return where
        travel = self._travel(binding.session)
        self.travels = travel is not None
        return replace(where, travel=travel)

    def where(self, root: str, *, names: bool = True) -> Where:
        return Where(
            now=self.clock.now(),
            root=root,
            names=frozenset(walk.list_files_below(root, _MOST_NAMES)) if names else frozenset(),
            naive=self.naive,
            project_path=self.tree_of(root).root if root else self.place.root,
            device=self.device,
            window=self.window,
        )

    def tree_of(self, root: str) -> Place:
        """The working tree around a layout's folder, which may not be there yet."""
        if root not in self._trees:
            folder = _project_of(root)
            while not os.path.isdir(folder):
                folder = os.path.dirname(folder)
            here = f"{folder}/".startswith(f"{self.place.root}/")
            self._trees[root] = self.place if here else find_tree(folder)
        return self._trees[root]

    def name_of(self, binding: Binding, path: str) -> str:
        try:
            return relative(path, self.tree_of(binding.root).root)
        except InvalidInput:
            return os.path.basename(path)

    def without_secrets(self, value: Any) -> Any:
        """A value with every secret taken out of its texts; itself, if all of them have none."""
        is_clean = self.journal.has_no_secrets(texts_in(value))
        return value if is_clean else with_texts(value, self.journal.redact)


def put_away(binding: Binding) -> str:
    """Where a program put the folder of a session that we wrote; empty if it did not."""
    name = conventions_of(binding.layout).put_away
    if not (name and binding.mirrored) or os.path.lexists(os.path.dirname(binding.place)):
        return ""
    folder = os.path.normpath(os.path.join(binding.root, name.format(id=binding.native)))
    return folder if os.path.isdir(folder) else ""


def paths_of(binding: Binding) -> Mapping[str, str]:
    """The files of a binding, by the names that they have in its layout."""
    return _paths(binding.layout, binding.native, binding.root, binding.place)


@lru_cache(maxsize=64)
def _paths(kind: str, native: str, root: str, place: str) -> Mapping[str, str]:
    main, *others = load_format(kind).files(native)
    return {main: place, **{name: os.path.join(root, name) for name in others}}


def folders_of(binding: Binding) -> Sequence[str]:
    """The folders in which the files of a binding are."""
    return _folders(tuple(paths_of(binding).values()))


@lru_cache(maxsize=64)
def _folders(paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(os.path.dirname(path) for path in paths))


def is_real(folder: str, known: set[str]) -> bool:
    """Whether no part of a path is a symbolic link; those `known` were looked at just now."""
    for part in _parts(folder):
        if part in known:
            return True
        if os.path.islink(part):
            return False
        known.add(part)
    return True


@lru_cache(maxsize=8)
def above(folder: str) -> frozenset[str]:
    """What a folder lies in."""
    return frozenset(_parts(folder)[1:])


@lru_cache(maxsize=64)
def _parts(folder: str) -> tuple[str, ...]:
    """A folder, and all that it is in."""
    above = os.path.dirname(folder)
    return (folder,) if above == folder else (folder, *_parts(above))


def parsed(name: str, data: bytes) -> Document:
    kind = kind_of(name)
    if kind != "jsonl":
        return Document.parse(data, kind)
    try:
        return Document.parse(data, kind)
    except Unreadable as error:
        if error.code != "not-utf8":
            raise
        # Half a line that a crash left may end inside a character.
        return Document.parse(data.decode("utf-8", "replace").encode(), kind)


def read(path: str) -> bytes:
    return files.read_bounded(path, MAX_BYTES, follow=False)


def _project_of(root: str) -> str:
    """The folder that a layout's root lies in as usual; an essay's is its own."""
    usual = (f"/{inside}" for _, inside in REGISTRY.values() if inside)
    return next((root.removesuffix(end) for end in usual if root.endswith(end)), root)
