"""Read the files of a binding, and find out which program wrote their bytes.

Each file gets a verdict: *ours* (the newest rendering), *rewound* (an earlier rendering: a tool
restored it, or a process died before it wrote the newer one), *missing*, *found* (it existed before
we wrote anything), or *edited*. A stored rendering of size 0 is *owed*: it was never written to the
file, and the next rendering continues from it.

The quickest check comes first: the digest is compared with the newest rendering, which the process
that wrote it has in memory, and only then with all stored renderings. A process parses the same
bytes once. An unchanged log is not parsed, and the process that wrote it does not read it again. If
a path is not a regular file of this session, its binding is suspended.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from forestay.base import files, swap_file
from forestay.errors import Busy, ForestayError
from forestay.formats.facts import Facts, count_elements
from forestay.formats.port import Format, Tree, Where, conventions_of, load_format
from forestay.formats.rendering_id import without_id
from forestay.formats.text.document import Document, kind_of
from forestay.formats.text.safe_parse import Unreadable
from forestay.formats.three_way import restore_texts
from forestay.mirror.context import (
    MAX_BYTES,
    MirrorContext,
    Suspended,
    folders_of,
    parse_file,
    paths_of,
)
from forestay.store.machine.bindings import Binding, Rendering

if TYPE_CHECKING:
    from hashlib import _Hash

LOCK_SECONDS = 5.0
THINGS = 5_000
"""The most tasks, files and other things in an edited file: a command waits while all of them are
compared. Files that we wrote, and files that are adopted, have no such limit."""
_DOCUMENTS = 32
_LONGEST_LOG = 256 * 1024 * 1024
"""The most bytes of a log that are read to compare it; a log that is parsed has a lower limit."""


class ParsedFile(Struct):
    """A document that was parsed or made here, and its value; neither is ever changed."""

    document: Document
    value: Any
    is_clean: bool = False
    """Whether it is known to hold no secrets."""
    is_usual: bool | None = None
    """Whether it has the style of files that we create; None if not checked yet."""
    is_whole: bool | None = None
    """Whether the journal stores all of its texts unchanged; None if not checked yet."""


def parsed_file(document: Document) -> ParsedFile:
    """Return a document with its value, from which our rendering id is removed."""
    return ParsedFile(document, without_id(document.parsed))


class Known:
    """A file as we wrote it: its length, its hash, and its stamp if that is known."""

    __slots__ = ("_hash", "digest", "size", "stamp")

    def __init__(self, data: bytes, before: Known | None = None) -> None:
        """Describe `data`, or the log `before` with `data` added."""
        self.size: int = len(data) + (before.size if before else 0)
        self._hash: _Hash = before._hash.copy() if before else sha256()
        self._hash.update(data)
        self.digest = self._hash.hexdigest()
        self.stamp = ""

    def has_stamp_of(self, path: str) -> bool:
        """Return whether the log at `path` is unchanged since its stamp was stored."""
        return bool(self.stamp) and self.stamp == files.stamp(path)

    def store_stamp(self, path: str) -> None:
        """Store the stamp of the log at `path`, unless another program added lines to it."""
        stamp = files.stamp(path)
        self.stamp = stamp if stamp.startswith(f"{self.size}.") else ""


class FoundFile(Struct):
    """One file of a binding as it was found; `known` are our stored renderings, newest first."""

    name: str
    path: str
    data: bytes | None
    digest: str
    verdict: str
    known: list[Rendering] = []
    read: ParsedFile | None = None
    log: Known | None = None
    """For an unchanged log, the part before `data`."""
    older: list[Any] = []
    """The rendering that an edit was made from; set when it is first needed."""
    newest: list[ParsedFile | None] = []
    """Our newest rendering; set when it is first needed."""

    @property
    def value(self) -> Any:
        return self.read.value if self.read else None

    @property
    def is_behind(self) -> bool:
        """Return whether the newest rendering is owed: stored, but never written to the file."""
        return self.verdict == "rewound" and self.known[0].size == 0

    @property
    def is_erased(self) -> bool:
        """Return whether the stored content of its rendering was erased, but not the newest's."""
        if self.verdict != "rewound" or self.known[0].is_bare:
            return False
        return all(each.is_bare for each in self.known if each.digest == self.digest)

    def behind(self, newest: ParsedFile | None) -> FoundFile:
        """Return the file as if it contained the owed rendering `newest`, if there is one."""
        return replace(self, read=newest, verdict="behind") if newest else self


class FileReader:
    def __init__(self, context: MirrorContext) -> None:
        self._context = context
        self._bindings = context.bindings
        self._read_before: dict[tuple[str, str], ParsedFile] = {}
        self._known: dict[tuple[int, str], Known] = {}
        self._reached: dict[int, int] = {}
        self._waited: dict[str, float] = {}
        self.need_new_id: set[tuple[int, str]] = set()
        """Files whose edit was absorbed, but which still have the id of an older rendering."""

    def read_all(
        self, binding: Binding, seen: Mapping[str, Document] | None = None
    ) -> list[FoundFile]:
        """Return the files as found; files with bytes in `seen` are not checked again."""
        newest = self._newest(binding)
        found = []
        for name, path in paths_of(binding).items():
            file = self._classify(binding, name, path, newest)
            if file.verdict == "edited" and not is_log(name):
                # Half of a YAML text can be valid YAML, so wait until no process writes the file.
                self.require_finished(name, path)
                file = self._classify(binding, name, path, newest)
            found.append(file)
        # From which event on a log needs new lines depends on the logs alone.
        if binding.mirrored and all(file.verdict == "ours" for file in found if is_log(file.name)):
            found = [self._from_its_end(binding, file) for file in found]
        news = [file for file in found if not file.read and not _use_seen(file, seen or {})]
        for file in news:
            self.parse(file)
        if news:
            self.require_ours(binding, found)
        return found

    def require_finished(self, name: str, path: str) -> None:
        if not swap_file.is_finished(path, self._context.clock):
            raise Suspended(f"{os.path.basename(name)} is being written by another program")

    def _classify(
        self, binding: Binding, name: str, path: str, of_all: Mapping[str, Rendering]
    ) -> FoundFile:
        newest, log = of_all.get(name), self._known.get((binding.number, name))
        if log and newest and log.digest == newest.digest and log.has_stamp_of(path):
            return self._from_its_end(
                binding, FoundFile(name, path, b"", log.digest, "ours", [newest])
            )
        data = self._data(binding, path)
        if data is None:
            # Another process can have stored a newer rendering since this one wrote the file.
            newest = self._bindings.newest(binding).get(name)
            return FoundFile(name, path, None, "", "missing", [newest] if newest else [])
        there = Known(data)
        digest = there.digest
        if newest is None:
            # The session's other files are known: the program that began it added this one.
            return FoundFile(name, path, data, digest, "edited" if of_all else "found")
        if digest == newest.digest:
            self.cache_newest(binding, name, there)
            return FoundFile(name, path, data, digest, "ours", [newest])
        known = self._bindings.renderings(binding)[name]
        digests = [rendering.digest for rendering in known]
        verdict = "edited" if digest not in digests else "rewound"
        verdict = "ours" if digest == digests[0] else verdict
        return FoundFile(name, path, data, digest, verdict, known)

    def _newest(self, binding: Binding) -> dict[str, Rendering]:
        """Return the newest renderings, from memory if this process wrote them."""
        if not self._has_reached(binding):
            return self._bindings.newest(binding)
        return {
            name: Rendering(name, 0, known.digest, str(known.size))
            for (number, name), known in self._known.items()
            if number == binding.number
        }

    def _from_its_end(self, binding: Binding, file: FoundFile) -> FoundFile:
        """Return an unchanged log with its bytes moved to `log`; any other file as found."""
        log = self._known.get((binding.number, file.name))
        is_it = log is not None and log.digest == file.digest and is_log(file.name)
        if not is_it or not (file.data or b"\n").endswith(b"\n"):
            return file
        return replace(file, data=b"", read=ParsedFile(Document("jsonl", "", []), []), log=log)

    def cache_newest(self, binding: Binding, name: str, known: Known) -> None:
        """Store in memory what the newest rendering of a file is."""
        self._known[binding.number, name] = known

    def cache_shown_event(self, binding: Binding, seq: int, digests: Mapping[str, str]) -> None:
        """Store in memory the last event that the files show, if all are newest renderings.

        A restored file that needs no change stays, and is not the newest rendering.
        """
        known = {name: self._known.get((binding.number, name)) for name in digests}
        if all(each and each.digest == digests[name] for name, each in known.items()):
            self._reached[binding.number] = seq

    def _data(self, binding: Binding, path: str) -> bytes | None:
        """Return the bytes of a file; None if it is missing. Suspend if it is no regular file."""
        require_inside(binding.root, os.path.dirname(path))
        try:
            with self.read_lock(binding, path):
                return files.read_bounded(path, most(path), follow=False)
        except Busy:
            raise
        except ForestayError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            why = str(error).replace(path, "it")
            raise Suspended(f"{path} cannot be used: {why}", file=path) from error

    def read_lock(self, binding: Binding, path: str) -> AbstractContextManager[None]:
        """Return the read lock that a format wants for one of its files."""
        wanted = conventions_of(binding.format).read_lock
        if wanted and path == os.path.join(binding.root, wanted.format(id=binding.native)):
            return self.hold_lock(partial(files.locked, shared=True), path)
        return nullcontext()

    @contextmanager
    def hold_lock(
        self, kind: Callable[..., AbstractContextManager[None]], path: str
    ) -> Iterator[None]:
        """Hold a format's own lock; after a timeout the next attempt does not wait."""
        clock = self._context.clock
        late = clock.monotonic() - self._waited.get(path, -60.0) < 1.0
        with ExitStack() as held:
            try:
                held.enter_context(kind(path, clock=clock, timeout=0.0 if late else LOCK_SECONDS))
            except Busy:
                self._waited[path] = clock.monotonic()
                raise
            yield

    def parse(self, file: FoundFile) -> None:
        """Parse the file; the same bytes are parsed once in a process."""
        if file.data is None:
            return
        kind = kind_of(file.name)
        known = self._read_before.pop((kind, file.digest), None)
        if known is None:
            try:
                known = parsed_file(parse_file(file.name, file.data))
            except Unreadable as error:
                raise _unusable(file, str(error)) from error
        if kind != "jsonl" and not isinstance(known.value, dict):
            raise Suspended(f"{file.name} does not contain a session")
        self.cache_parsed(kind, file.digest, known)
        file.read = known

    def cache_parsed(self, kind: str, digest: str, known: ParsedFile) -> None:
        while len(self._read_before) >= _DOCUMENTS:
            del self._read_before[next(iter(self._read_before))]
        self._read_before[kind, digest] = known

    def newest(self, binding: Binding, file: FoundFile) -> ParsedFile | None:
        """Return our newest rendering; None for a log, and if its content is not stored.

        It is read once per found file: only this process can know its secrets.
        """
        if not file.newest:
            file.newest = [self._read_newest(binding, file)]
        return file.newest[0]

    def _read_newest(self, binding: Binding, file: FoundFile) -> ParsedFile | None:
        kind = kind_of(file.name)
        if kind == "jsonl" or not file.known:
            return None
        digest = file.known[0].digest
        if (kind, digest) not in self._read_before:
            data = self._bindings.last_content(binding, file.name)
            if sha256(data).hexdigest() != digest:
                return self._newest_with_secrets(file, data) if data else None
            self.value_of(file.name, data)
        return self._read_before[kind, digest]

    def value_of(self, name: str, data: bytes) -> Any:
        """Return the value of a rendering; the same bytes are parsed once in a process."""
        kind, digest = kind_of(name), sha256(data).hexdigest()
        if (kind, digest) not in self._read_before:
            document = parse_file(name, data)
            self.cache_parsed(kind, digest, parsed_file(document))
        return self._read_before[kind, digest].value

    def _newest_with_secrets(self, file: FoundFile, data: bytes) -> ParsedFile:
        """Return a rendering that was stored without secrets, with the secrets from the file."""
        document = parse_file(file.name, data)
        clean = self._context.without_secrets(file.value)
        value = restore_texts(file.value, clean, without_id(document.parsed))
        return ParsedFile((file.read.document if file.read else document).rewritten(value), value)

    def require_ours(self, binding: Binding, found_files: Sequence[FoundFile]) -> None:
        """Refuse files of another session, or of a version that Forestay does not write."""
        others = [file for file in found_files if file.verdict in ("edited", "found")]
        if not others:
            return
        tree = {file.name: file.value for file in found_files if file.read is not None}
        format, where = load_format(binding.format), self._context.surroundings(binding)
        for file in others:
            if why := self.why_incomplete(binding, file.name, file.data or b"", file.value):
                raise _unusable(file, why)
        # A shared file names several sessions, so only the main file has the session's own id.
        main = next(iter(paths_of(binding)))
        facts = format.get(tree, where) if main in tree else Facts()
        is_edited = any(file.verdict == "edited" and not is_log(file.name) for file in others)
        if is_edited and count_elements(facts) > THINGS:
            raise Suspended(f"its files contain more than {THINGS} tasks, files and other things")
        native = facts.native_id
        if native and native != binding.native:
            raise Suspended(f"another session is here: {native}", hint="forestay files")
        # A program that left out the version still wrote into our file.
        known = ((file.name, self.newest(binding, file)) for file in found_files)
        tree, _ = format.restore_required(
            tree, {name: read.value for name, read in known if read}, where
        )
        if not (reading := format.reading(tree, where)).writable:
            raise Suspended(reading.read_only_reason)

    def why_incomplete(self, binding: Binding, name: str, data: bytes, value: Any) -> str:
        """Return why a file that can be parsed is incomplete, or an empty string.

        A file is incomplete if it is the beginning of a rendering and lacks keys that the format
        requires. A file from which only the last task was removed is complete.
        """
        format = load_format(binding.format)
        if why := format.why_incomplete(data, value):
            return why
        longer = [] if is_log(name) else self._bindings.contents(binding, name)
        longer = [old for old in longer if len(old) > len(data) and old.startswith(data)]
        values = [parse_file(name, old).value for old in longer]
        if not longer or value in values:
            return ""
        if data.endswith(b"\n") and not _is_worse(format, {name: value}, {name: values[0]}):
            return ""
        return f"it breaks off after {len(data)} of {len(longer[0])} bytes"

    def is_unchanged(self, binding: Binding) -> bool:
        """Return whether no file changed since we wrote it."""
        paths = paths_of(binding)
        if any(map(swap_file.has_leftovers, folders_of(binding))):
            return False
        # A rendering can be stored without being in the file, if the write failed.
        newest = self._newest(binding)
        return all(self._has_bytes_of(binding, n, path, newest.get(n)) for n, path in paths.items())

    def is_newest_rendering(self, binding: Binding, name: str) -> bool:
        """Return whether one of the files is our newest rendering."""
        newest = self._bindings.newest(binding).get(name)
        return self._has_bytes_of(binding, name, paths_of(binding)[name], newest)

    def _has_reached(self, binding: Binding) -> bool:
        """Return whether the newest stored renderings are those of this process."""
        return bool(binding.mirrored) and self._reached.get(binding.number) == binding.mirrored

    def _has_bytes_of(
        self, binding: Binding, name: str, path: str, rendering: Rendering | None
    ) -> bool:
        """Return whether a file has the bytes of a rendering; an unchanged log is not read."""
        known = self._known.get((binding.number, name))
        if known is None or not known.has_stamp_of(path):
            try:
                data, stamp = files.read_stamped(path, most(path), follow=False)
            except ForestayError:
                return False
            found = Known(data)
            if known is not None and known.digest == found.digest and is_log(name):
                known.stamp = stamp
            known = found
        wanted = rendering and (rendering.size, rendering.digest)
        return (known.size, known.digest) == wanted


def _unusable(file: FoundFile, why: str) -> Suspended:
    # The name shows which of several files has to be repaired.
    return Suspended(f"{os.path.basename(file.name)} cannot be used: {why}")


def _is_worse(format: Format, tree: Tree, before: Tree) -> bool:
    """Return whether files break more rules of their format than before."""
    new, old = ({(f.code, f.where) for f in format.check(t, Where())} for t in (tree, before))
    return not new <= old


def _use_seen(file: FoundFile, seen: Mapping[str, Document]) -> bool:
    document = seen.get(file.path)
    if document is None or document.data != file.data:
        return False
    file.read = parsed_file(document)
    return True


def require_inside(root: str, folder: str) -> None:
    """Refuse a folder if a symbolic link on its path leads out of the root."""
    while len(folder) > len(root):
        if os.path.islink(folder):
            raise Suspended(f"{folder} is a symbolic link, and Forestay does not write through it")
        folder = os.path.dirname(folder)


def is_log(name: str) -> bool:
    """Return whether lines are only ever added to a file."""
    return name.endswith(".jsonl")


def most(path: str) -> int:
    """Return how many bytes of a file are read at most."""
    return _LONGEST_LOG if is_log(path) else MAX_BYTES
