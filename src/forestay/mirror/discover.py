"""Find session files on disk, whatever program wrote them.

`find` searches a file, a folder or a whole project for sessions. It recognizes a session by the
content of its files, and by a file name only if the content cannot be read. A *find* is one
session: its format, the bytes of its files, and the parsed values. A file that cannot be parsed is
a *fault* of the find.

A session is a single file, or a folder with several files in the root folder of its format, where
all sessions can share an index. Nothing is written and links are not followed. Files that are too
large, or too many, are reported and not read.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import accumulate

from msgspec import Struct
from msgspec.structs import replace

from forestay.base import files
from forestay.base import walk as base_walk
from forestay.base.config import Settings
from forestay.base.findings import Finding
from forestay.errors import ForestayError, InvalidInput, StoreFailed
from forestay.formats import carry_over
from forestay.formats.facts import Facts
from forestay.formats.port import (
    ERROR,
    REGISTRY,
    WARNING,
    Bundle,
    Conventions,
    Format,
    Salvaged,
    Tree,
    Where,
    load_format,
)
from forestay.formats.salvage import differences, read_damaged
from forestay.formats.text.document import Document, kind_of
from forestay.formats.text.safe_parse import LONGEST, Unreadable

MAX_BYTES = LONGEST
BAD_LINE = "bad-line"
NOT_CREATED, GONE = "not-created", "listed-but-gone"
NO_ACCESS, READ_FAILED = "no-access", "read-failed"
NOT_READ = frozenset({NO_ACCESS, READ_FAILED})
"""The code of a file that the system did not allow us to read; it need not be damaged."""
SHARED_ROOTS = ("/tmp",)
"""Folders open to all users in which other programs create session folders."""
MOST_FILES = 50_000
_MOST_BESIDE = 2000
"""How many files in the same folder are read to restore a damaged file."""
SURE = 0.3
_SKIPPED = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".hg"})
_BARE_KEY = re.compile(rb"(?:\s|#[^\n]*\n)*[A-Za-z_]+:\s")
_ENDINGS = {".json": "json", ".yaml": "yaml", ".yml": "yaml", ".jsonl": "jsonl"}
# How many bytes of a file are searched for signs of a format: 16 MB would take half a second.
_SEARCHED = 1024 * 1024
_KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFLNK: "a link",
    stat.S_IFSOCK: "a socket",
}


class Find(Struct):
    """One session found in files. `paths` maps the names that its format uses to real paths."""

    format_id: str
    native: str
    paths: dict[str, str]
    bundle: Bundle
    documents: dict[str, Document]
    faults: list[Finding]

    @property
    def format(self) -> Format:
        return load_format(self.format_id)

    @property
    def conventions(self) -> Conventions:
        return self.format.conventions if self.format_id else Conventions()

    @property
    def tree(self) -> Tree:
        return {name: document.value for name, document in self.documents.items()}

    @property
    def path(self) -> str:
        """The main file, or the first one that exists."""
        return next(iter(self.paths.values()))

    @property
    def root(self) -> str:
        """The folder that the names in the tree are relative to."""
        name, path = next(iter(self.paths.items()))
        return path[: -len(name) - 1] if path.endswith(f"/{name}") else os.path.dirname(path)

    @property
    def is_loose(self) -> bool:
        """Whether the file is outside its format's place, so that files around it do not count."""
        name, path = next(iter(self.paths.items()))
        return not path.endswith(f"/{name}")

    @property
    def is_index(self) -> bool:
        """Whether it is an index without any of its sessions."""
        return all(name in self.conventions.shared for name in self.paths)

    @property
    def is_bare(self) -> bool:
        """Whether it is the folder of a session without any of its files."""
        return any(fault.code == NOT_CREATED for fault in self.faults)

    @property
    def damage(self) -> list[Finding]:
        """Its faults, without bad lines of a log (they stay) and faults of other sessions."""
        return [fault for fault in self.faults if fault.code not in (BAD_LINE, GONE)]

    @property
    def is_torn(self) -> bool:
        """Whether it is a session of which some file cannot be read."""
        return bool(self.format_id) and any(fault.severity == ERROR for fault in self.damage)

    def facts(self, where: Where) -> Facts:
        return carry_over.read(self.format, self.tree, where)

    def salvage(self, where: Where) -> Salvaged | None:
        """Return what can be recovered from damaged files; None if nothing can."""
        bundle = self.with_files_around()
        if self.is_bare:
            bundle = {next(iter(self.paths)): b"", **bundle}
        return self.format.salvage(bundle, where) if bundle else None

    def with_files_around(self) -> Bundle:
        """Return the session's files, and the files in the same folder that can help to restore it.

        Files that are too large to be read are left out.
        """
        ending, backup = self.conventions.salvaged_with, self.conventions.backup
        if not ending:
            return self.bundle
        main = self.format.files(self.native)[0]
        named = {f"{os.path.basename(self.path)}{backup}": f"{main}{backup}"}
        bundle: Bundle = {}
        for path in files.list_paths(os.path.dirname(self.path))[:_MOST_BESIDE]:
            name = os.path.basename(path)
            if name in named or name.endswith(ending):
                with suppress(ForestayError):
                    data = files.read_bounded(path, MAX_BYTES, follow=False)
                    bundle[named.get(name, name)] = data
        return {**bundle, main: next(iter(self.bundle.values()), b"")}


# -- finding -----------------------------------------------------------------------------------


def find(path: str) -> list[Find]:
    """Return the sessions in a file or below a folder.

    If `path` is a file of unknown format, return a find without a format.
    """
    return list(walk(path))


def walk(path: str, *, parts: bool = False) -> Iterator[Find]:
    """Yield what `find` returns; refuse a path that is neither a file nor a folder.

    With `parts`, yield also single files of formats with several files per session, if they are
    outside a session's folder.
    """
    try:
        kind = _KINDS.get(stat.S_IFMT(os.stat(path).st_mode), "a device")
    except PermissionError as error:
        raise files.failure(error, "read", path) from error
    except (OSError, ValueError) as error:
        why = (getattr(error, "strerror", None) or str(error)[:200]).lower()
        what, hint = f"cannot read {path[:200]}", "check the path"
        raise InvalidInput(what, why=why, hint=hint, file=path, operation="read") from None
    if kind == "a file":
        return iter([_of_file(os.path.abspath(path))])
    if kind == "a folder":
        return _of_folder(os.path.abspath(path), parts)
    what = f"{path} is neither a file nor a folder"
    raise InvalidInput(what, why=f"it is {kind}", file=path, operation="read")


def sessions(path: str) -> Iterator[Find]:
    """Yield what `walk` yields, but for a path to one file of a session the whole session."""
    folder, name = os.path.split(os.path.abspath(path))
    for format in _with_folders():
        is_part = name in _own_names(format) and _is_root(format, os.path.dirname(folder))
        is_index = name in format.conventions.shared and bool(started_in(format, folder))
        if is_index or (is_part and _is_session_folder(format, folder)):
            return walk(folder)
    return walk(path)


def not_one_session(path: str, there: list[Find]) -> InvalidInput:
    """Return the error for a path that contains no session, or several."""
    hint = f"forestay files check {shlex.quote(path)}"
    if not there:
        return InvalidInput(f"there is no session in {path}", hint=hint)
    why = f"it contains {len(there)} sessions: name the path of one of them"
    return InvalidInput(f"{path} is not one session", why=why, hint=hint)


def find_in_place(path: str) -> Iterator[Find]:
    """Yield the sessions in a format's usual folder or file; a file that is a link is a fault."""
    return walk(path) if os.path.isdir(path) else iter([_of_plain_file(path)])


def _fault(id: str, code: str, what: str, name: str = "", line: int = 0) -> Finding:
    """Return a finding about a file that cannot be read."""
    rule = load_format(id).conventions.unreadable if id else ""
    return Finding(code, ERROR, what, file=name, requirement=rule, line=line)


def _of_file(path: str) -> Find:
    try:
        data = files.read_bounded(path, MAX_BYTES)
    except ForestayError as error:
        return _not_read(path, _code_of(error), str(error))
    unknown = _fault("", "unknown-format", "this is not a session file of a known format", path)
    return identify(path, data) or Find("", "", {"": path}, {"": data}, {}, [unknown])


def _of_plain_file(path: str) -> Find:
    """Return the find for a file in a session's place; a link there is a fault."""
    if files.is_irregular(path):
        return _not_read(path, "odd-file", _describe_kind(path))
    return _of_file(path)


def _describe_kind(path: str) -> str:
    kind = _KINDS.get(stat.S_IFMT(os.lstat(path).st_mode), "a device")
    return f"this is {kind}, not a file"


def _not_read(path: str, code: str, what: str) -> Find:
    """Return a find for a file that was not read; its name decides the format."""
    id = _guess(path, b"")
    name = _damaged_name(id, path, b"") if id else ""
    return Find(id, "", {name: path}, {}, {}, [_fault(id, code, what, name)])


def identify(path: str, data: bytes) -> Find | None:
    """Return a single file as a find, by its bytes and its name; None if its format is unknown."""
    try:
        document = Document.parse(data, _syntax(path, data))
    except Unreadable as error:
        return _broken(path, data, error)
    best = _guess_by_value(path, document.value)
    if not best:
        # A file without a session can still be in the place where a format has one.
        name = os.path.basename(path)
        if id := _with_fixed_names().get(name, "") or _format_of_folder(path):
            fault = _fault(id, "not-a-session", f"this is not a session of {id}", name)
            return Find(id, "", {name: path}, {name: data}, {}, [fault])
        return None
    format = load_format(best)
    if why := format.why_incomplete(data, document.value):
        return _broken(path, data, Unreadable("torn", why))
    name, native = _name_in_tree(format, path, document.value)
    return _make_find(best, {name: path}, {name: data}, {name: document}, native)


def _broken(path: str, data: bytes, error: Unreadable) -> Find | None:
    id = _guess(path, data)
    if not id:
        return None
    name = _damaged_name(id, path, data)
    fault = _with_sides(id, _fault(id, error.code, error.what, name, error.line), data)
    return Find(id, "", {name: path}, {name: data}, {}, [fault])


def _with_sides(id: str, fault: Finding, data: bytes) -> Finding:
    """Add both sides to the fault of a shared file in which git left a merge conflict."""
    if fault.code != "conflict-markers" or fault.file not in load_format(id).conventions.shared:
        return fault
    ours, theirs = differences(data)
    what = f"merge conflict, to be resolved in an editor: one side has {ours}; the other {theirs}"
    return fault._replace(what=what, requirement="S0-69")


def _make_find(
    id: str,
    paths: dict[str, str],
    bundle: Bundle,
    documents: dict[str, Document],
    native: str = "",
) -> Find:
    """Return a find with the faults of its text; `native` is the session's id, "" if unknown."""
    if not native:
        tree = {name: document.value for name, document in documents.items()}
        native = load_format(id).get(tree, Where()).native_id
    return Find(id, native, paths, bundle, documents, text_faults(id, documents))


def text_faults(id: str, documents: dict[str, Document]) -> list[Finding]:
    """Return findings about the text of files that could be parsed."""
    lines = [
        Finding(BAD_LINE, ERROR, bad.message, file=name, requirement="S0-37", line=bad.number)
        for name, document in documents.items()
        for bad in document.bad
    ]
    what = "other programs may read this YAML differently"
    return lines + [
        _fault(id, remark.code, what, name, remark.line)._replace(severity=WARNING)
        for name, document in documents.items()
        for remark in document.remarks
    ]


# -- formats of files --------------------------------------------------------------------------


def _syntax(path: str, data: bytes) -> str:
    named = _ENDINGS.get(os.path.splitext(path)[1].lower())
    if named:
        # Some converters write YAML into a file called .json; no JSON begins with a bare key.
        return "yaml" if named == "json" and _BARE_KEY.match(data) else named
    if data.lstrip()[:1] != b"{":
        return "yaml"
    first, _, rest = data.strip().partition(b"\n")
    is_line = first.rstrip().endswith(b"}") and rest.lstrip().startswith(b"{")
    return "jsonl" if is_line else "json"


def _guess(path: str, data: bytes) -> str:
    """Return the format of a file that cannot be parsed; empty if it is unknown."""
    left = read_damaged(data[: _SEARCHED // 4]) if data else None
    if left and (id := _guess_by_value(path, left.value)):
        return id
    # Removing zero bytes makes the words of UTF-16 text visible, too.
    start = data[:_SEARCHED].replace(b"\0", b"")
    name = os.path.basename(path)
    formats = [load_format(id) for id in REGISTRY]
    signs = (format.id for format in formats if re.search(format.signs.damaged, start))
    named = (format.id for format in formats if re.fullmatch(format.signs.names, name))
    return next(signs, "") or _format_of_folder(path) or next(named, "")


def _guess_by_value(path: str, value: object) -> str:
    """Return the format whose keys a parsed value has; empty if there is none."""
    scores = {id: load_format(id).recognise(path, value) for id in REGISTRY}
    best = max(scores, key=lambda id: scores[id])
    return best if scores[best] >= SURE else ""


def _format_of_folder(path: str) -> str:
    """Return the format whose folder a file is in, if such folders contain only its files."""
    folder, name = os.path.split(path)
    own = (id for id, (_, place) in REGISTRY.items() if place and folder.endswith(f"/{place}"))
    is_own = (id for id in own if re.fullmatch(load_format(id).signs.names_in_place, name))
    return next(is_own, "")


def _with_fixed_names() -> dict[str, str]:
    """Return the formats whose sessions all have the same file name, by that name."""
    formats = map(load_format, REGISTRY)
    return {each.files("a")[0]: each.id for each in formats if each.files("a") == each.files("b")}


def _name_in_tree(format: Format, path: str, value: object) -> tuple[str, str]:
    """Return the name that the format uses for a file, and the session's id if it is known."""
    folder, name = os.path.split(path)
    if isinstance(value, dict):
        # The elements of lists are not needed to find the id.
        value = {key: [] if isinstance(each, list) else each for key, each in value.items()}
    file, native = format.file_of(name, value)
    if "/" not in file:
        return file.format(id=native or name.removesuffix(".json")), native
    # In its place, a file belongs to the session its folder is named after; elsewhere, to the
    # session whose id it contains.
    is_in_place = name in _own_names(format) and _is_root(format, os.path.dirname(folder))
    id = os.path.basename(folder) if is_in_place or not native else native
    return file.format(id=id), ""


def _damaged_name(id: str, path: str, data: bytes) -> str:
    """Return the name that the format uses for a file that cannot be parsed."""
    folder, name = os.path.split(path)
    file = load_format(id).damaged_file_of(name, data)
    return file.format(id=os.path.basename(folder)) or name


# -- formats with a folder for each session ----------------------------------------------------


def _with_folders() -> list[Format]:
    """Return the formats whose sessions have folders of their own in one root folder."""
    return [format for format in map(load_format, REGISTRY) if _own_names(format)]


def _own_names(format: Format) -> list[str]:
    """Return the names of the files in the folder of a session, main file first."""
    return [name[3:] for name in format.files("id") if name.startswith("id/")]


def _is_root(format: Format, folder: str) -> bool:
    """Return whether a folder is the root folder of a format, by its name or a shared file."""
    if os.path.basename(folder) == REGISTRY[format.id][1]:
        return True
    return any(os.path.isfile(os.path.join(folder, name)) for name in format.conventions.shared)


def _is_session_folder(format: Format, folder: str) -> bool:
    """Return whether a folder is the folder of one session of a format."""
    root, name = os.path.split(folder)
    if _is_root(format, root):
        return _is_started(format, root, name)
    # Outside the format's root, read the main file: other programs use the same file name.
    main = os.path.join(folder, _own_names(format)[0])
    found = _identify_in_folder(main) if os.path.isfile(main) else None
    return found is not None and found.format_id == format.id


def is_root_of_folders(folder: str) -> bool:
    """Return whether a folder is a root folder that has a folder for each session."""
    return any(_is_root(format, folder) for format in _with_folders())


def session_folders(root: str) -> list[str]:
    """Return the folders of sessions in a root folder; none if its sessions have no folders."""
    formats = (format for format in _with_folders() if _is_root(format, root))
    return [os.path.join(root, name) for format in formats for name in started_in(format, root)]


def started_in(format: Format, root: str) -> list[str]:
    """Return the names of the folders of sessions in the root folder of a format."""
    return [name for name in files.list_names(root) if _is_started(format, root, name)]


def _is_started(format: Format, root: str, name: str) -> bool:
    """Return whether a folder is a session's: by one of its files, or by its name if empty."""
    folder = os.path.join(root, name)
    if os.path.islink(folder) or not os.path.isdir(folder):
        return False
    artifacts = os.path.basename(format.conventions.artifacts)
    if any(os.path.lexists(os.path.join(folder, n)) for n in (*_own_names(format), artifacts) if n):
        return True
    is_empty = not (files.list_names(folder) or _is_closed(folder))
    return is_empty and not format.why_invalid_id(name)


def sessions_in(format: Format, root: str) -> Iterator[Find]:
    """Yield the sessions in the root folder of a format, or its index if it has none."""
    found = (_in_folder(format, root, name) for name in started_in(format, root))
    # A session with only artifacts left has ended.
    there = (one for one in found if not (one.is_bare and _is_over(one)))
    paths = (os.path.join(root, name) for name in format.conventions.shared)
    first = next(there, None)
    if first is None and (index := next(filter(os.path.lexists, paths), "")):
        first = _of_plain_file(index)
    if first is not None:
        yield replace(first, faults=[*first.faults, *_missing_sessions(first, root)])
    yield from there
    below = [os.path.join(root, name) for name in files.list_names(root)]
    yield from (_no_access(path, format.id) for path in below if _is_closed(path))


def _is_over(one: Find) -> bool:
    values = map(one.tree.get, one.conventions.shared)
    entries = (entry for value in values for entry in one.format.listed(value))
    return any(each.id == one.native and each.status == "completed" for each in entries)


def _missing_sessions(one: Find, root: str) -> Iterator[Finding]:
    """Yield a fault for each open session that an index lists and that has no folder."""
    for name in one.conventions.shared:
        for id, status, where in one.format.listed(one.tree.get(name)):
            if status != "completed" and not os.path.lexists(os.path.join(root, id)):
                what = f"{id} is listed, but its files are missing"
                yield Finding(GONE, WARNING, what, file=name, where=where, requirement="S0-79")


def _in_folder(format: Format, root: str, name: str) -> Find:
    """Return the session in a folder, with the files that it shares with others."""
    own, shared = [f"{name}/{part}" for part in _own_names(format)], format.conventions.shared
    paths = {key: os.path.join(root, key) for key in (*own, *shared)}
    there = {key: path for key, path in paths.items() if os.path.lexists(path)}
    bundle: Bundle = {}
    documents: dict[str, Document] = {}
    faults: list[Finding] = []
    for key, path in there.items():
        try:
            bundle[key] = files.read_bounded(path, MAX_BYTES, follow=False)
            # All sessions share one index: it is parsed once, unless it changes.
            parse = _parse_shared if key in shared else _parse
            documents[key] = parse(format.id, key, bundle[key])
        except ForestayError as error:
            code, what, line = what_is_wrong(path, error)
            fault = _fault(format.id, code, what, key, line)
            faults.append(_with_sides(format.id, fault, bundle.get(key, b"")))
    if not there.keys() & set(own):
        there = {own[0]: paths[own[0]], **there}
        what = "none of the session's files exists: they were never written, or they were lost"
        faults.append(Finding(NOT_CREATED, ERROR, what, file=own[0], requirement="S0-77"))
    made = _make_find(format.id, there, bundle, documents)
    return replace(made, native=name, faults=[*faults, *made.faults])


def _parse(id: str, name: str, data: bytes) -> Document:
    """Parse one file of a session; raise Unreadable if it is empty or holds no mapping."""
    document = Document.parse(data, kind_of(name))
    if why := load_format(id).why_incomplete(data, document.value):
        raise Unreadable("torn", why)
    if document.kind == "yaml" and document.value is None:
        raise Unreadable("empty-file", "the file is empty")
    if document.kind == "yaml" and not isinstance(document.value, dict):
        raise Unreadable("wrong-type", "the file does not contain a mapping")
    return document


_parse_shared = lru_cache(maxsize=1)(_parse)


# -- folders -----------------------------------------------------------------------------------


def _of_folder(folder: str, parts: bool) -> Iterator[Find]:
    formats = _with_folders()
    if own := next((each for each in formats if _is_session_folder(each, folder)), None):
        yield _in_folder(own, *os.path.split(folder))
        return
    roots: set[str] = set()
    yield from _closed(folder)
    there, is_more = _folders(folder)
    homes = tuple(f"/{place}" for _, place in REGISTRY.values() if place)
    archives = {os.path.basename(os.path.dirname(f.conventions.put_away)) for f in formats}
    # If two files have the same id, the one in its format's place comes first.
    for below, names in sorted(there, key=lambda found: not found[0].endswith(homes)):
        above, name = os.path.split(below)
        if above in roots or os.path.dirname(above) in roots:
            continue
        is_archived = os.path.basename(above) in archives
        whose = (f for f in formats if _own_names(f)[0] in names and not f.why_invalid_id(name))
        is_root = (
            f for f in formats if name == REGISTRY[f.id][1] or {*f.conventions.shared} & {*names}
        )
        if format := next(is_root, None):
            roots.add(below)
            yield from sessions_in(format, below)
        elif not is_archived and (
            own := next((each for each in whose if _is_session_folder(each, below)), None)
        ):
            yield _in_folder(own, above, name)
        else:
            yield from _loose(below, names, parts=parts and not is_archived)
    if is_more:
        what = f"it has over {MOST_FILES} files, and not all were read: name a folder inside it"
        fault = _fault("", "too-many-files", what, folder)
        yield Find("", "", {"": folder}, {}, {}, [fault])


def _closed(folder: str) -> Iterator[Find]:
    """Yield a fault for a folder without access, or for a format's folder in it without access."""
    if _is_closed(folder):
        yield _no_access(folder, "")
        return
    for id, (_, place) in REGISTRY.items():
        way = accumulate(place.split("/"), os.path.join, initial=folder)
        first = next((here for here in way if _is_closed(here)), "")
        if first:
            yield _no_access(first, id)


def _no_access(folder: str, id: str) -> Find:
    fault = _fault(id, NO_ACCESS, f"{folder} cannot be opened (permission denied)")
    return Find(id, "", {"": folder}, {}, {}, [fault])


def _is_closed(folder: str) -> bool:
    try:
        os.scandir(folder).close()
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def what_is_wrong(path: str, error: ForestayError) -> tuple[str, str, int]:
    """Return the code, text and line of a finding about a file that cannot be read."""
    if isinstance(error, Unreadable):
        return error.code, error.what, error.line
    if files.is_irregular(path):
        return "odd-file", _describe_kind(path), 0
    return _code_of(error), str(error), 0


def _code_of(error: ForestayError) -> str:
    """Return the code for an error: access denied, disk failure, or a bad file."""
    if isinstance(error.__cause__, PermissionError):
        return NO_ACCESS
    return READ_FAILED if isinstance(error, StoreFailed) else "unreadable"


def _loose(folder: str, names: list[str], *, parts: bool) -> Iterator[Find]:
    """Yield the sessions in single files of one folder."""
    found_formats = set()
    others = {""} if parts else {"", *(format.id for format in _with_folders())}
    for name in names:
        if os.path.splitext(name)[1].lower() in _ENDINGS:
            found = _identify_in_folder(os.path.join(folder, name))
            if found is not None and found.format_id not in others:
                found_formats.add(found.format_id)
                yield found
    for id in REGISTRY.keys() - found_formats:
        if load_format(id).is_folder_of_session(os.path.basename(folder), set(names)):
            yield without_main_file(load_format(id), folder)


def without_main_file(format: Format, folder: str) -> Find:
    """Return a find for a session whose main file is missing, but not all other files are."""
    main = format.files("")[0]
    fault = _fault(format.id, "missing-file", f"{main} is missing", main)
    return Find(format.id, "", {main: os.path.join(folder, main)}, {}, {}, [fault])


def _identify_in_folder(path: str) -> Find | None:
    """Identify a file in a folder; if it cannot be read, it counts if its name fits a format."""
    data = None
    if not files.is_irregular(path):
        with suppress(ForestayError):
            data = files.read_bounded(path, MAX_BYTES, follow=False)
    if data is None:
        return _of_plain_file(path) if _guess(path, b"") else None
    words = b"|".join([b"<<<<<<< ", *(load_format(id).signs.words for id in REGISTRY)])
    has_words = re.search(words, data.replace(b"\0", b"") if b"\0" in data else data)
    return identify(path, data) if has_words or _guess(path, b"") else None


def _folders(folder: str) -> tuple[list[tuple[str, list[str]]], bool]:
    """Return each folder with the names of its files, and whether the limit cut the list.

    The formats' own folders come first. A folder that has the name of a session file is included.
    """
    count = 0
    seen: dict[str, list[str]] = {}
    real = os.path.realpath(folder)
    spots = (os.path.join(folder, place) for _, place in REGISTRY.values() if place)
    homes = [spot for spot in spots if os.path.realpath(spot) == real + spot[len(folder) :]]
    for start in (*homes, folder):
        for here, below, others in base_walk.walk(start):
            if here in seen:
                below.clear()
                continue
            count += len(others)
            if count > MOST_FILES:
                return list(seen.items()), True
            odd = [name for name in below if os.path.splitext(name)[1].lower() in _ENDINGS]
            below[:] = sorted(name for name in below if name not in _SKIPPED)
            seen[here] = sorted([*others, *odd])
    return list(seen.items()), False


# -- sessions with a folder in no project ------------------------------------------------------


def own_folders(settings: Settings) -> list[str]:
    """Return the session folders outside of projects, newest name first.

    They are in Forestay's home, or in folders open to all users (other programs create them there).
    """
    formats = (load_format(id).conventions for id in REGISTRY)
    found = [
        path
        for each in formats
        if each.folder_prefix
        for path in folders_below(
            (os.path.join(settings.home, each.home), *SHARED_ROOTS), each.folder_prefix
        )
    ]
    return sorted(found, key=lambda path: (os.path.basename(path), path), reverse=True)


def folders_below(roots: Iterable[str], prefix: str) -> list[str]:
    """Return the folders directly below `roots` whose names begin with `prefix`.

    Any user can create such a folder in `/tmp`. A folder counts only if it belongs to the current
    user, is not a link, and no other user can write to it.
    """
    paths = (os.path.join(root, name) for root in roots for name in files.list_names(root))
    named = (path for path in paths if os.path.basename(path).startswith(prefix))
    return [path for path in named if _is_private_folder(path)]


def _is_private_folder(path: str) -> bool:
    try:
        facts = os.lstat(path)
    except OSError:
        return False
    is_own = facts.st_uid == os.geteuid()
    return stat.S_ISDIR(facts.st_mode) and is_own and not facts.st_mode & 0o022
