"""Mirror: keeps layout files equal to state, and takes up what others write into them.

Words. A session is *bound* to a place of a layout. What we write there is a *rendering*; the last
few are remembered. Bytes found in a file are *ours*, *rewound* (a rendering from earlier: some tool
put it back, or we died before we wrote the newer one), *missing*, *found* (there before us), or
*edited*. An edit is compared with the nearest rendering, and what it changed is recorded as events
with the actor `file:LAYOUT`; only then is the file written again.

The secret is the order: look, absorb, decide and record (elsewhere), render, remember, exchange,
look at what the exchange displaced. A rendering is remembered before it is written, so that no
other process ever takes our own bytes for someone's edit. A crash in between is found at the next
access: the files are not the newest rendering. Absorbing never by itself writes a file. While git
is in the middle of an operation, or a file cannot be read or is not ours, nothing is read or
written there: the binding is *suspended*, and says why.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast import files
from holdfast.choice import FINISHED
from holdfast.clock import Clock
from holdfast.errors import Busy, HoldfastError, InvalidInput, Refused
from holdfast.journal import Journal
from holdfast.layout import REGISTRY, Layout, Tree, Where, layout
from holdfast.layout.customs import custom
from holdfast.layout.document import Document, fresh
from holdfast.layout.facts import Facts
from holdfast.layout.guarded import Unreadable
from holdfast.layout.threeway import Changes, changes, nearest, written
from holdfast.layout.translate import Move, facts_of
from holdfast.model import event as ev
from holdfast.model.fold import CONFLICT
from holdfast.place import Tree as Place
from holdfast.place import find_tree, git_operation, is_tracked, relative
from holdfast.store import Store
from holdfast.store.bound import Binding, Rendering

MAX_BYTES = 16 * 1024 * 1024
LOCK_SECONDS = 5.0
_TRIES = 5
_UNKNOWN = 0
"""How far files reach that someone edited: what is in their logs has to be looked at."""
_DOCUMENTS = 32
_LOUD = frozenset(
    f"session.{word}" for word in ("paused", "completed", "failed", "aborted", "abandoned")
)
"""Events after which files that git tracks are written too."""

Act = Callable[[Binding], list[str]]


class Look(Struct):
    """One file of a binding as it was found; `known` are our renderings, the newest first."""

    name: str
    path: str
    data: bytes | None
    digest: str
    known: list[Rendering]
    document: Document | None = None
    value: Any = None

    @property
    def verdict(self) -> str:
        if self.data is None:
            return "missing"
        if not self.known:
            return "found"
        if self.digest == self.known[0].digest:
            return "ours"
        return "rewound" if self.is_known(self.digest) else "edited"

    def is_known(self, digest: str) -> bool:
        return any(rendering.digest == digest for rendering in self.known)


class _Read(Struct):
    """A document that was parsed or made here, and what it says: nobody changes either."""

    document: Document
    value: Any
    is_clean: bool = False
    """Whether it is known to hold no secrets."""


class Suspended(HoldfastError):
    """A binding cannot be used now; the message says why."""


class Mirror:
    def __init__(
        self,
        store: Store,
        journal: Journal,
        clock: Clock,
        place: Place,
        *,
        naive: str,
        device: str,
        roots: Mapping[str, str] | None = None,
    ) -> None:
        self._store = store
        self._journal = journal
        self._clock = clock
        self._place = place
        self._naive = naive
        self._device = device
        self._roots = roots or {}
        # What a process that writes on need not find out again; all of it may be lost.
        self._quiet: dict[int, bool] = {}
        self._trees: dict[str, Place] = {}
        self._read_before: dict[tuple[str, str], _Read] = {}
        self._told: tuple[tuple[str, int, int], Facts] | None = None
        self._waited: dict[str, float] = {}

    # -- binding -------------------------------------------------------------------------------

    def bind(
        self, session: str, kind: str, native: str = "", root: str = "", *, found: bool = False
    ) -> Binding:
        """Give a session a place in a layout. Its files appear with the next `write`.

        Files that are there already are somebody's session, unless they were `found` to be its.
        """
        lens = _lens(kind)
        root = os.path.realpath(root or self.root_of(kind))
        native = native or self._free_id(lens, session, root)
        place = _place(kind, native, root)
        self._make_room(session, kind, place, found=found)
        self._keep_out_of_git(kind, root)
        files.make_folder(root)
        if not self._store.bound.bind(session, kind, native, root, place):
            raise self._taken(place)
        return next(b for b in self.bindings(session) if b.place == place)

    def require_place(self, session: str, kind: str, native: str = "") -> None:
        """Refuse what `bind` would refuse, before anything is recorded of a new session."""
        lens = _lens(kind)
        root = os.path.realpath(self.root_of(kind))
        place = _place(kind, native, root) if native else os.path.join(root, lens.files("")[0])
        if kind == "essay" or (not native and lens.files("a") != lens.files("b")):
            # Its folder, or its id, is chosen so that it is free.
            return
        _require_folder(root)
        owner = self._store.bound.owner(place)
        if owner is None:
            self._require_free(kind, place)
        elif owner.session != session:
            if not custom(kind).archive:
                raise self._taken(place)
            self._require_calm(owner)

    def root_of(self, kind: str) -> str:
        """The folder of a layout in this project."""
        return os.path.join(self._place.root, self._roots.get(kind) or REGISTRY[kind][1])

    def _make_room(self, session: str, kind: str, place: str, *, found: bool) -> None:
        """A place has one owner. Where a layout has an archive, an older session goes there."""
        owner = self._store.bound.owner(place)
        if owner is not None and (owner.session, owner.place) != (session, place):
            if not custom(kind).archive or owner.place != place:
                raise self._taken(place)
            if problems := self._guarded(owner, self._retire):
                raise Refused(f"another session is here: {place}", why="; ".join(problems))
        elif owner is None and not found:
            self._require_free(kind, place)

    def _require_free(self, kind: str, place: str) -> None:
        if os.path.lexists(place) or _is_foreign_folder(kind, place):
            raise Refused(
                f"{place} already exists",
                why="another session is here, and it is not ours to change",
                hint=f"make it one of ours: holdfast adopt {place}",
                file=place,
            )

    def _taken(self, place: str) -> Refused:
        owner = self._store.bound.owner(place)
        why = f"it belongs to session {owner.session}" if owner else ""
        return Refused(f"another session is here: {place}", why=why, hint="holdfast layouts")

    def _keep_out_of_git(self, kind: str, root: str) -> None:
        """Files in a folder that we make are nobody's business but this machine's."""
        tree = self._tree_of(root)
        inside = os.path.relpath(root, tree.root)
        if tree.common_dir is None or os.path.lexists(root) or inside.startswith(".."):
            return
        path = os.path.join(tree.common_dir, "info", "exclude")
        try:
            known = files.read_optional(path, MAX_BYTES) or b""
            files.make_folder(os.path.dirname(path))
            for name in custom(kind).unshared:
                line = os.fsencode(f"/{inside}/{name}")
                if line not in known.splitlines():
                    files.append_line(path, line, mode=0o644)
        except HoldfastError:
            # The folder then shows as untracked, which is no reason to have no folder.
            return

    def accept(self, session: str) -> None:
        """Take the files as they are for ours: they and the journal say the same."""
        for binding in self.bindings(session):
            with self._store.view(session) as view:
                seq = view.seq
            self._remember(binding, self._look(binding), seq)

    def unbind(self, binding: Binding) -> None:
        """Let go of a place; its files stay as they are."""
        self._store.bound.unbind(binding)

    def _free_id(self, lens: Layout, session: str, root: str) -> str:
        facts, _ = self._facts(session)
        try:
            taken = frozenset(name.removesuffix(".json") for name in os.listdir(root))
        except OSError:
            taken = frozenset()
        return lens.new_id(facts, self.where(root), taken)

    # -- looking -------------------------------------------------------------------------------

    def bindings(self, session: str = "") -> list[Binding]:
        return self._store.bound.bindings(session)

    def _paths(self, binding: Binding) -> dict[str, str]:
        main, *others = _lens(binding.layout).files(binding.native)
        return {main: binding.place, **{n: os.path.join(binding.root, n) for n in others}}

    def _look(self, binding: Binding) -> list[Look]:
        known = self._store.bound.renderings(binding)
        looks = []
        for name, path in self._paths(binding).items():
            data = self._read(binding, path)
            digest = "" if data is None else sha256(data).hexdigest()
            looks.append(Look(name, path, data, digest, known.get(name, [])))
        for look in looks:
            self._understand(look)
        self._require_ours(binding, looks)
        return looks

    def _read(self, binding: Binding, path: str) -> bytes | None:
        """The bytes of a file; None if it is missing. What is no plain file here suspends."""
        folder = os.path.dirname(path)
        if os.path.realpath(folder) != folder:
            raise Suspended(f"a symbolic link leads away from {folder}")
        try:
            with self._reading(binding, path):
                return files.read_bounded(path, MAX_BYTES, follow=False)
        except Busy:
            raise
        except HoldfastError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise Suspended(f"{path} cannot be used: {error}", file=path) from error

    @contextmanager
    def _reading(self, binding: Binding, path: str) -> Iterator[None]:
        """The read lock that a layout wants for one of its files."""
        wanted = custom(binding.layout).read_lock.format(id=binding.native)
        with ExitStack() as stack:
            if wanted and path == os.path.join(binding.root, wanted):
                stack.enter_context(self._patiently(path, shared=True))
            yield

    @contextmanager
    def _patiently(self, path: str, **how: bool) -> Iterator[None]:
        """Hold a layout's own lock; who waited for it in vain does not wait again at once."""
        now = self._clock.monotonic()
        patience = 0.0 if now - self._waited.get(path, -60.0) < 1.0 else LOCK_SECONDS
        lock = files.locked(path, clock=self._clock, timeout=patience, **how)
        try:
            lock.__enter__()
        except Busy:
            self._waited[path] = self._clock.monotonic()
            raise
        try:
            yield
        finally:
            lock.__exit__()

    def _understand(self, look: Look) -> None:
        """What the file says; the same bytes are parsed once in a process."""
        if look.data is None:
            return
        kind = _kind(look.name)
        read = self._read_before.pop((kind, look.digest), None)
        if read is None:
            document = _parse(look.name, look.data)
            read = _Read(document, document.value)
        if kind != "jsonl" and not isinstance(read.value, dict):
            raise Suspended(f"{look.name} does not hold a session")
        self._keep((kind, look.digest), read)
        look.document, look.value = read.document, read.value

    def _keep(self, key: tuple[str, str], read: _Read) -> None:
        while len(self._read_before) >= _DOCUMENTS:
            del self._read_before[next(iter(self._read_before))]
        self._read_before[key] = read

    def _require_ours(self, binding: Binding, looks: Sequence[Look]) -> None:
        """Files that we did not write must be of this session, and of a version that we know."""
        tree = {look.name: look.value for look in looks if look.document is not None}
        if not any(look.verdict in ("edited", "found") for look in looks):
            return
        lens, where = _lens(binding.layout), self._where(binding)
        # What a folder says of several sessions does not make a file of ours another's.
        main = next(iter(self._paths(binding)))
        native = lens.get(tree, where).native_id if main in tree else ""
        if native and native != binding.native:
            raise Suspended(f"another session is here: {native}", hint="holdfast layouts")
        if not (reading := lens.reading(tree, where)).writable:
            raise Suspended(f"version {reading.version or reading.generation} is not written by us")

    def unchanged(self, binding: Binding) -> bool:
        """Whether nobody has touched the files since we wrote them."""
        known = self._store.bound.renderings(binding)
        for name, path in self._paths(binding).items():
            newest = known.get(name, [None])[0]
            if newest is None or not _is_still(path, newest) or files.displaced(path):
                return False
        return True

    def pending(self, session: str) -> list[Move]:
        """What others wrote into a session's files and nobody has taken up; changes nothing."""
        made: list[Move] = []
        for binding in self.bindings(session):
            if self.unchanged(binding):
                continue
            try:
                self._require_calm(binding)
                looks = self._look(binding)
                edited = {look.name: look.value for look in looks if look.verdict == "edited"}
                made += self._changes(binding, looks, edited).moves if edited else []
            except HoldfastError:
                # Whoever writes next is told; a reader shows what the journal says.
                continue
        return made

    # -- taking up edits -----------------------------------------------------------------------

    def absorb(self, session: str) -> list[str]:
        """Record what others wrote into a session's files; says what was found."""
        said = []
        for binding in self.bindings(session):
            if os.path.isdir(os.path.dirname(binding.place)) and not self.unchanged(binding):
                said += self._guarded(binding, self._absorb_one)
        return said

    def _absorb_one(self, binding: Binding) -> list[str]:
        return self._settle(binding)[1]

    def _guarded(self, binding: Binding, act: Act) -> list[str]:
        """Do something to a binding's files under its locks; a reason not to is remembered."""
        try:
            self._require_calm(binding)
            with self._locks(binding):
                # Another process may have written, or moved it, while we waited.
                current = self._store.bound.renewed(binding)
                said = act(current) if current else []
        except (Suspended, Unreadable) as error:
            self._suspend(binding, str(error))
            return [f"{binding.layout} files are left alone: {error}"]
        except HoldfastError as error:
            return [f"{binding.layout} files are not up to date: {error}"]
        self._suspend(current or binding, "")
        return said

    def _suspend(self, binding: Binding, reason: str) -> None:
        if binding.suspended != reason:
            self._store.bound.change(binding, suspended=reason, quiet=binding.quiet)

    @contextmanager
    def _locks(self, binding: Binding) -> Iterator[None]:
        """Our lock on the folder, and the layout's own manner of locking in addition."""
        files.make_folder(binding.root)
        with ExitStack() as stack:
            stack.enter_context(files.locked(binding.root, clock=self._clock))
            own = custom(binding.layout).lock.format(id=binding.native)
            if own:
                path = os.path.join(binding.root, own)
                files.make_folder(os.path.dirname(path))
                stack.enter_context(self._patiently(path, create=True))
            yield

    def _require_calm(self, binding: Binding) -> None:
        if os.path.realpath(binding.root) != binding.root:
            raise Suspended(f"a symbolic link leads away from {binding.root}")
        if operation := git_operation(self._tree_of(binding.root)):
            raise Suspended(f"git is in the middle of a {operation}")

    def _settle(self, binding: Binding) -> tuple[list[Look], list[str]]:
        """Take up what others wrote; the files as they are, and what was found."""
        self._follow(binding)
        said: list[str] = []
        for path in (*self._paths(binding).values(), self._readme(binding)):
            for temporary in files.unfinished(path):
                files.remove(temporary)
        for name, path in self._paths(binding).items():
            said += self._take_displaced(binding, name, path)
        looks = self._look(binding)
        edited = {look.name: look.value for look in looks if look.verdict == "edited"}
        if edited:
            said += self._absorb_trees(binding, looks, edited)
            self._remember(binding, looks, _UNKNOWN)
        return looks, said

    def _take_displaced(self, binding: Binding, name: str, path: str) -> list[str]:
        """Look at what an exchange displaced."""
        said: list[str] = []
        for aside in files.displaced(path):
            try:
                data = files.read_bounded(aside, MAX_BYTES, follow=False)
                said += self._absorb_bytes(binding, name, data)
            except (InvalidInput, Unreadable, Suspended):
                # Whatever it is, it was there and is nobody's to throw away.
                files.put_back(aside, path)
                raise
            files.remove(aside)
        return said

    def _absorb_bytes(self, binding: Binding, name: str, data: bytes) -> list[str]:
        """Take up bytes that an exchange displaced, if they are not ours."""
        digest = sha256(data).hexdigest()
        known = self._store.bound.renderings(binding).get(name, [])
        if any(rendering.digest == digest for rendering in known):
            return []
        looks = self._look(binding)
        look = next(look for look in looks if look.name == name)
        look.data, look.digest = data, digest
        self._understand(look)
        self._require_ours(binding, looks)
        said = self._absorb_trees(binding, looks, {name: look.value})
        self._remember(binding, [look], _UNKNOWN)
        return said

    def _absorb_trees(self, binding: Binding, looks: Sequence[Look], edited: Tree) -> list[str]:
        found = self._changes(binding, looks, edited)
        if not (found.moves or found.contested or found.residue):
            return []
        self._record(binding, looks, edited, found)
        return [_summary(edited, found)]

    def _changes(self, binding: Binding, looks: Sequence[Look], edited: Tree) -> Changes:
        theirs = {look.name: look.value for look in looks if look.document is not None}
        base = dict(theirs)
        for look in looks:
            if look.name in edited:
                base[look.name] = self._base(binding, look)
        now, _ = self._facts(binding.session)
        base = {name: value for name, value in base.items() if value is not None}
        lens, where = _lens(binding.layout), self._where(binding)
        clean = self._without_secrets
        return changes(lens, clean(base), clean(theirs), now, where, self._journal.kept_as)

    def _base(self, binding: Binding, look: Look) -> Any:
        """What the file said when the editor read it, as far as we can tell."""
        data = look.data or b""
        if _kind(look.name) == "jsonl":
            # A log only grows; of one that was changed, every line is news.
            sizes = [r.size for r in look.known if _digest(data[: r.size]) == r.digest]
            return _parse(look.name, data[: max(sizes, default=0)]).value
        near = nearest(data, self._store.bound.said(binding, look.name))
        return None if near is None else _parse(look.name, near).value

    def _without_secrets(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._journal.redacted(value)
        if isinstance(value, dict):
            return {key: self._without_secrets(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._without_secrets(each) for each in value]
        return value

    def _record(
        self, binding: Binding, looks: Sequence[Look], edited: Tree, found: Changes
    ) -> None:
        heads = [
            ev.ForeignEdited(
                layout=binding.layout,
                path=self._name_of(binding, look.path),
                digest=look.digest,
                cause=_cause(found.contested),
                residue=found.residue,
            )
            for look in looks
            if look.name in edited
        ]
        made = [*(Move(head) for head in heads), *found.moves]
        self._journal.append(
            binding.session,
            *(move.body for move in made),
            at=[move.at for move in made],
            actor=f"file:{binding.layout}",
            foreign=True,
        )

    # -- writing -------------------------------------------------------------------------------

    def write(self, session: str, *, kind: str = "", force: bool = False) -> list[str]:
        """Bring a session's files up to its state; says what could not be written."""
        said = []
        for binding in self.bindings(session):
            if force or kind in _LOUD or not self._is_quiet(binding):
                said += self._guarded(binding, self._write_one)
        return said

    def _is_quiet(self, binding: Binding) -> bool:
        """Files that git tracks are written at pause and finish only; looked up once."""
        if binding.number not in self._quiet:
            tree = self._tree_of(binding.root)
            quiet = any(is_tracked(tree, path) for path in self._paths(binding).values())
            self._quiet[binding.number] = quiet
            if quiet != binding.quiet:
                self._store.bound.change(binding, suspended=binding.suspended, quiet=quiet)
        return self._quiet[binding.number]

    def _write_one(self, binding: Binding) -> list[str]:
        said: list[str] = []
        for _ in range(_TRIES):
            looks, found = self._settle(binding)
            said += found
            if self._unarchive(binding):
                looks = self._look(binding)
            if not self._render(binding, looks):
                self._archive_if_over(binding)
                return said
        return [*said, f"{binding.place} is being written by someone else all the time"]

    def _render(self, binding: Binding, looks: list[Look]) -> bool:
        """Write the files; True when someone's edit was displaced and must be looked at."""
        tree, seq = self._rendering(binding, looks)
        new = [
            (look, made)
            for look in _ordered(binding, looks)
            if (made := self._made(look, tree.get(look.name))) and made.data != look.data
        ]
        if any(look.data is None for look in looks):
            self._prepare(binding)
        if new or binding.mirrored != seq:
            told = [self._rendered(look, made, tree[look.name]) for look, made in new]
            self._store.bound.rendered(binding, told, seq)
        displaced = [self._put(binding, look, made.data) for look, made in new]
        return any(displaced)

    def _rendering(self, binding: Binding, looks: Sequence[Look]) -> tuple[Tree, int]:
        """What the files should say, and the event up to which that goes.

        Where all is as we left it, only events since then are looked at for the logs.
        """
        old = {look.name: look.value for look in looks if look.document is not None}
        brief = all(look.verdict == "ours" for look in looks) and binding.mirrored != _UNKNOWN
        facts, seq = self._facts(binding.session, binding.mirrored if brief else 0)
        facts = replace(facts, native_id=binding.native)
        lens, where = _lens(binding.layout), self._where(binding)
        given, logs = _without_logs(binding, old) if brief else (old, {})
        tree = written(lens, given, facts, where, self._journal.kept_as)
        if any(look.data is None and look.name not in tree for look in looks):
            tree = lens.put(None, facts, where) | tree
        return _with_logs(tree, logs), seq

    def _made(self, look: Look, value: Any) -> Document | None:
        """What the file should be; None for one that the layout does not want, or that is so."""
        if value is None or (look.document is not None and look.value == value):
            return None
        kind = _kind(look.name)
        if kind == "jsonl":
            return _longer(look, value)
        if look.document is None:
            return _parse(look.name, fresh(kind, value))
        return _plainly(kind, look, value) or look.document.rewritten(value)

    def _rendered(self, look: Look, made: Document, value: Any) -> tuple[str, str, int, bytes]:
        """What is to be remembered of a file that is about to be written."""
        kind, data = _kind(look.name), made.data
        digest = _digest(data)
        if kind == "jsonl":
            # Its beginning is always in the file itself.
            return look.name, digest, len(data), b""
        before = self._read_before.get((kind, look.digest))
        # What we add to a file has no secrets any more.
        is_clean = look.data is None or (before is not None and before.is_clean)
        read = _Read(made, value, is_clean)
        kept = self._keepable(kind, data, read)
        self._keep((kind, digest), read)
        return look.name, digest, len(data), kept

    def _keepable(self, kind: str, data: bytes, read: _Read) -> bytes:
        """What may be remembered of a file: not the secrets that someone wrote into it."""
        if not read.is_clean:
            read.is_clean = not self._journal.secrets_in(data.decode("utf-8", "replace"))
        return data if read.is_clean else fresh(kind, self._without_secrets(read.value))

    def _prepare(self, binding: Binding) -> None:
        """What a new session has besides its files."""
        for folder in custom(binding.layout).folders:
            files.make_folder(os.path.join(binding.root, folder.format(id=binding.native)))
        path = self._readme(binding)
        if binding.layout == "ai-session" and not os.path.lexists(path):
            from holdfast.layout.ai_session import readme

            files.create(path, readme().encode(), mode=0o644)

    @staticmethod
    def _readme(binding: Binding) -> str:
        return os.path.join(binding.root, "README.md")

    @staticmethod
    def _backup(binding: Binding, look: Look) -> tuple[str, bytes] | None:
        """The previous version, which could be read: else it would not be written over."""
        ending = custom(binding.layout).backup
        if not ending or look.data is None or look.path != binding.place:
            return None
        return f"{look.path}{ending}", look.data

    def _put(self, binding: Binding, look: Look, data: bytes) -> bool:
        """Exchange one file; True if what it displaced is not what was looked at."""
        files.make_folder(os.path.dirname(look.path))
        if look.name.endswith(".jsonl") and look.data is not None:
            files.append_lines(look.path, data[len(look.data) :].removeprefix(b"\n"), mode=0o644)
            return False
        with self._reading(binding, look.path) if look.data is not None else ExitStack():
            backup = self._backup(binding, look)
            aside = files.exchange(look.path, data, mode=0o644, backup=backup)
        if aside and (files.is_odd(aside) or _read(aside) != (look.data or b"")):
            return True
        if aside:
            files.remove(aside)
        return False

    def _remember(self, binding: Binding, looks: Sequence[Look], mirrored: int) -> None:
        seen = [
            self._rendered(look, look.document, look.value)
            for look in looks
            if look.document is not None and look.verdict != "ours"
        ]
        if seen or binding.mirrored != mirrored:
            self._store.bound.rendered(binding, seen, mirrored)

    # -- archives ------------------------------------------------------------------------------

    def _archive_if_over(self, binding: Binding) -> None:
        """A layout with an archive keeps ended sessions there; disputed ones are not ended."""
        if custom(binding.layout).archive and self._is_over(binding):
            self._archive(binding)

    def _is_over(self, binding: Binding) -> bool:
        with self._store.view(binding.session) as view:
            return self._journal.state(view).core.status in FINISHED

    def _retire(self, binding: Binding) -> list[str]:
        """Make room for another session."""
        self._settle(binding)
        self._archive(binding)
        return []

    def archive(self, binding: Binding) -> None:
        """Put the file of a session away where its layout keeps older ones; its place is free."""
        with self._locks(binding):
            self._retire(binding)

    def _archive(self, binding: Binding) -> None:
        target = self._archived(binding)
        if binding.place == target:
            return
        if os.path.lexists(binding.place):
            self._require_no_other(binding, target)
            files.make_folder(os.path.dirname(target))
            files.move(binding.place, target)
        self._store.bound.move(binding, target)

    def _unarchive(self, binding: Binding) -> bool:
        """A session that goes on gets its place back, if nobody has it; True if it was moved."""
        if binding.place != self._archived(binding) or self._is_over(binding):
            return False
        place = self._current(binding)
        if self._store.bound.owner(place) is not None or os.path.lexists(place):
            return False
        if os.path.lexists(binding.place):
            files.move(binding.place, place)
        self._store.bound.move(binding, place)
        return True

    def _follow(self, binding: Binding) -> None:
        """Find a file again that was moved before we could note it."""
        if not custom(binding.layout).archive or os.path.lexists(binding.place):
            return
        for place in (self._current(binding), self._archived(binding)):
            if self._store.bound.owner(place) is None and self._is_session(binding, place):
                self._store.bound.move(binding, place)
                return

    def _is_session(self, binding: Binding, path: str) -> bool:
        """Whether a file says that it is of this session."""
        lens = _lens(binding.layout)
        main = lens.files(binding.native)[0]
        try:
            value = _parse(main, _read(path)).value
        except HoldfastError:
            return False
        return lens.get({main: value}, self._where(binding)).native_id == binding.native

    def _current(self, binding: Binding) -> str:
        return os.path.join(binding.root, _lens(binding.layout).files(binding.native)[0])

    def _archived(self, binding: Binding) -> str:
        name = custom(binding.layout).archive.format(id=binding.native)
        return os.path.join(binding.root, name) if name else ""

    def _require_no_other(self, binding: Binding, target: str) -> None:
        if os.path.lexists(target) and not self._is_rendering(binding, target):
            raise Suspended(f"{target} is in the archive already, and not ours to write over")

    def _is_rendering(self, binding: Binding, path: str) -> bool:
        """Whether the main file as we once wrote it is under this path."""
        known = self._store.bound.renderings(binding)
        main = _lens(binding.layout).files(binding.native)[0]
        try:
            digest = _digest(_read(path))
        except HoldfastError:
            return False
        return any(rendering.digest == digest for rendering in known.get(main, []))

    # -- what both need ------------------------------------------------------------------------

    def _facts(self, session: str, after: int = 0) -> tuple[Facts, int]:
        """What the journal says, of its logs only what came after an event."""
        with self._store.view(session) as view:
            key = (session, view.seq, after)
            if self._told is None or self._told[0] != key:
                state = self._journal.state(view)
                self._told = (key, facts_of(state, self._journal.events(view, after=after)))
            return self._told[1], view.seq

    def _where(self, binding: Binding) -> Where:
        return self.where(binding.root, names=custom(binding.layout).sees_names)

    def where(self, root: str, *, names: bool = True) -> Where:
        return Where(
            now=self._clock.now(),
            root=root,
            names=frozenset(_names(root)) if names else frozenset(),
            naive=self._naive,
            project_path=self._tree_of(root).root if root else self._place.root,
            device=self._device,
        )

    def _tree_of(self, root: str) -> Place:
        """The working tree around a layout's folder, which may not be there yet."""
        if root not in self._trees:
            folder = _project_of(root)
            while not os.path.isdir(folder):
                folder = os.path.dirname(folder)
            here = f"{folder}/".startswith(f"{self._place.root}/")
            self._trees[root] = self._place if here else find_tree(folder)
        return self._trees[root]

    def _name_of(self, binding: Binding, path: str) -> str:
        try:
            return relative(path, self._tree_of(binding.root).root)
        except InvalidInput:
            return os.path.basename(path)


def _place(kind: str, native: str, root: str) -> str:
    """Where the main file of a session is, if its id can be one of the layout."""
    lens = _lens(kind)
    if problem := lens.valid_id(native):
        word = "feature" if kind == "ai-session" else f"{kind} session"
        raise InvalidInput(f"Invalid {word} ID {native!r}", why=problem)
    return os.path.join(root, lens.files(native)[0])


def _require_folder(path: str) -> None:
    """Refuse a folder that cannot be made, because something else has its name, or one above."""
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    if not os.path.isdir(path):
        raise InvalidInput(f"{path} is not a folder", why="the layout keeps its files in it")


def _cause(contested: Sequence[str]) -> str:
    shown = ", ".join(contested[:20])
    return f"{CONFLICT}{shown}" if contested else "edit"


def _ordered(binding: Binding, looks: Sequence[Look]) -> list[Look]:
    order = custom(binding.layout).order
    return sorted(looks, key=lambda look: _rank(order, look.name))


def _rank(order: Sequence[str], name: str) -> int:
    return next((i for i, ending in enumerate(order) if name.endswith(ending)), -1)


def _is_foreign_folder(kind: str, place: str) -> bool:
    """Whether the session would move into a folder that somebody filled already."""
    return kind == "ai-session" and os.path.lexists(os.path.dirname(place))


def _without_logs(binding: Binding, tree: Tree) -> tuple[Tree, dict[tuple[str, str], list[Any]]]:
    """Files with their logs empty, and the logs: what they hold need not be weighed again."""
    logs: dict[tuple[str, str], list[Any]] = {}
    made = dict(tree)
    for name, value in tree.items():
        if isinstance(value, list):
            made[name], logs[name, ""] = [], value
            continue
        for key in custom(binding.layout).logs:
            if isinstance(value, dict) and isinstance(value.get(key), list):
                made[name], logs[name, key] = {**made[name], key: []}, value[key]
    return made, logs


def _with_logs(tree: Tree, logs: dict[tuple[str, str], list[Any]]) -> Tree:
    made = dict(tree)
    for (name, key), old in logs.items():
        if key:
            made[name] = {**made[name], key: [*old, *made[name][key]]}
        else:
            made[name] = [*old, *made[name]]
    return made


def _longer(look: Look, lines: list[Any]) -> Document | None:
    """A log with lines added; a torn last one is closed and stays."""
    if look.document is None or look.data is None:
        return _parse(look.name, fresh("jsonl", lines))
    new = fresh("jsonl", lines[len(look.value) :])
    if not new:
        return None
    gap = b"\n" if look.data and not look.data.endswith(b"\n") else b""
    return _Raw(look.data + gap + new)


class _Raw(Document):
    """Bytes that need not be read again."""

    def __init__(self, data: bytes) -> None:
        super().__init__("jsonl", "", [])
        self._data = data

    @property
    def data(self) -> bytes:
        return self._data


def _plainly(kind: str, look: Look, value: Any) -> Document | None:
    """A JSON file in the usual form, written as a whole: the same as editing it, and quick."""
    if kind != "json" or _usual(look.value) != look.data:
        return None
    data = _usual(value)
    if data is None or msgspec.json.decode(data) != value:
        return None
    return Document(kind, data.decode(), value)


def _usual(value: Any) -> bytes | None:
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
    except (OverflowError, TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return None


def _parse(name: str, data: bytes) -> Document:
    kind = _kind(name)
    if kind != "jsonl":
        return Document.parse(data, kind)
    try:
        return Document.parse(data, kind)
    except Unreadable as error:
        if error.code != "not-utf8":
            raise
        # Half a line that a crash left may end inside a character.
        return Document.parse(data.decode("utf-8", "replace").encode(), kind)


def _project_of(root: str) -> str:
    """The folder that a layout's root lies in as usual; an essay's is its own."""
    usual = (f"/{inside}" for _, inside in REGISTRY.values() if inside)
    return next((root.removesuffix(end) for end in usual if root.endswith(end)), root)


def _kind(name: str) -> str:
    return name.rsplit(".", 1)[-1]


def _lens(kind: str) -> Layout:
    if kind not in REGISTRY:
        known = ", ".join(REGISTRY)
        raise InvalidInput(f"there is no layout {kind}", why=f"the layouts are {known}")
    return layout(kind)


def _read(path: str) -> bytes:
    return files.read_bounded(path, MAX_BYTES, follow=False)


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def _is_still(path: str, rendering: Rendering) -> bool:
    try:
        data = _read(path)
    except HoldfastError:
        return False
    return len(data) == rendering.size and _digest(data) == rendering.digest


def _names(root: str, limit: int = 2000) -> Iterator[str]:
    """The files below a layout's root, at most two folders deep."""
    count = 0
    for folder, below, found in os.walk(root):
        depth = os.path.relpath(folder, root).count(os.sep)
        if depth >= 2:
            below.clear()
        for name in found:
            count += 1
            if count > limit:
                return
            yield os.path.relpath(os.path.join(folder, name), root)


def _summary(edited: Tree, found: Changes) -> str:
    names = ", ".join(sorted(edited))
    text = f"{names} was changed by someone: {len(found.moves)} change(s) taken up"
    if found.contested:
        text += f"; changed here too: {', '.join(found.contested[:5])}"
    if found.residue:
        text += f"; not taken up: {found.residue[:200]}"
    return text
