"""Find session files on disk, whatever program wrote them.

`find` examines a file, a folder or a whole project and returns the sessions in it, by the content
of files; a name counts only where nothing can be read. A *find* is one session: its format, the
bytes of its files, and what of them could be parsed; a file that cannot be is a *fault* of it.

Nothing is written here, links are not followed, and what is too large or too much is reported, not
read.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator
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
from forestay.formats.ai_session.read import INDEX, LOG, OWN, PLAN, STATE, entries_of, entry_of
from forestay.formats.ai_session.salvage import conflicts
from forestay.formats.coerce import mapping, text
from forestay.formats.craft.format import REGISTRY_FILE
from forestay.formats.essay.fields import BACKUP
from forestay.formats.essay.fields import STATE as ESSAY_STATE
from forestay.formats.essay.stage_files import PREFIX, folder_moment, is_current
from forestay.formats.facts import Facts
from forestay.formats.orchestrator.format import CURRENT
from forestay.formats.port import (
    ERROR,
    REGISTRY,
    WARNING,
    Bundle,
    Format,
    Salvaged,
    Tree,
    Where,
    load_format,
)
from forestay.formats.salvage import read_damaged
from forestay.formats.status_words import session_status
from forestay.formats.text.document import Document, kind_of
from forestay.formats.text.safe_parse import LONGEST, Unreadable

MAX_BYTES = LONGEST
BAD_LINE = "bad-line"
NOT_CREATED, GONE = "not-created", "listed-but-gone"
NO_ACCESS, READ_FAILED = "no-access", "read-failed"
NOT_READ = frozenset({NO_ACCESS, READ_FAILED})
"""The system did not allow us to read a file: its bytes may be sound."""
AI_ROOT = ".ai-session"
CONFLICTED = "conflict-markers"
ARCHIVE = ".ai-session-archive"
"""Where other programs move sessions that have ended."""
ARTIFACTS = "artifacts"
ESSAY_ROOTS = ("/tmp",)
"""Where other programs create essays."""
MOST_FILES = 50_000
_MOST_BESIDE = 2000
"""How many files in the folder of a damaged one are read."""
SURE = 0.3
_SKIPPED = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".hg"})
_BARE_KEY = re.compile(rb"(?:\s|#[^\n]*\n)*[A-Za-z_]+:\s")
_ENDINGS = {".json": "json", ".yaml": "yaml", ".yml": "yaml", ".jsonl": "jsonl"}

# What identifies a format in bytes that cannot be parsed, in this order; then by name.
_HINTS = (
    ("praxis", rb'"workflow_type"|"completed_phases"'),
    ("craft", rb'"teleportation"|session-state-v1\.json'),
    ("orchestrator", rb'"schema_version"\s*:\s*"1\.0"|"decisions_made"|"completed_work"'),
    ("essay", rb"(?m)^pipeline_id:|^current_stage(_name)?:"),
    (
        "ai-session",
        rb'(?m)active_features:|^[ \t]*current_state:|model_in_use:|^feature:|"duration_ms"',
    ),
)
_NAMES = (
    ("essay", r"session-state\.ya?ml"),
    ("ai-session", r"state\..*ya?ml|active-features\..*|implementation-plan\..*|history\.jsonl"),
    ("orchestrator", r"orchestrator-session\.json|\d{4}-\d\d-\d\d-[0-9a-z]+\.json"),
    ("praxis", r"(workflow_default_)?[0-9a-f]{8}-[0-9a-f-]{27}\.json"),
)
# How much of a file is searched for them: all together cost half a second in 16 MB.
_SEARCHED = 1024 * 1024
# A file without any of these words has no known format, and need not be parsed.
_KEYWORDS = re.compile(
    rb"session_id|workflow_type|completed_phases|pipeline_id|current_stage|active_features"
    rb"|current_state|schema_version|completed_work|<<<<<<< "
)
_FIXED = {ESSAY_STATE: "essay", CURRENT: "orchestrator"}
_ROLES = {"active_features": INDEX, "current_state": STATE, "feature": PLAN, "phases": PLAN}
_UNREADABLE = {
    "ai-session": "S0-78",
    "praxis": "S1-25",
    "craft": "S2-85",
    "essay": "S3-94",
    "orchestrator": "S4-79",
}
"""The requirement that a file of each format can be read."""
_KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFLNK: "a link",
    stat.S_IFSOCK: "a socket",
}


class Find(Struct):
    """One session in files. `paths` maps the names in its tree to real paths."""

    layout: str
    native: str
    paths: dict[str, str]
    bundle: Bundle
    documents: dict[str, Document]
    faults: list[Finding]

    @property
    def format(self) -> Format:
        return load_format(self.layout)

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
        """Whether the file is not where its format has it, so that files around it do not count."""
        name, path = next(iter(self.paths.items()))
        return not path.endswith(f"/{name}")

    @property
    def is_index(self) -> bool:
        """Whether it is an index without any of its sessions."""
        return list(self.paths) == [INDEX]

    @property
    def is_bare(self) -> bool:
        """Whether it is the folder of a session without any of its files."""
        return any(fault.code == NOT_CREATED for fault in self.faults)

    @property
    def damage(self) -> list[Finding]:
        """Its faults, except bad lines of a log, which are left as they are, and except what other
        sessions lack."""
        return [fault for fault in self.faults if fault.code not in (BAD_LINE, GONE)]

    @property
    def is_torn(self) -> bool:
        """Whether it is a session of which some file cannot be read."""
        torn = not self.documents or any(fault.severity == ERROR for fault in self.damage)
        return bool(self.layout) and torn

    def facts(self, where: Where) -> Facts:
        return carry_over.read(self.format, self.tree, where)

    def salvage(self, where: Where) -> Salvaged | None:
        """Return what can be saved of files that cannot be read."""
        bundle = essay_files(self) if self.layout == "essay" else self.bundle
        if self.is_bare:
            bundle = {next(iter(self.paths)): b"", **bundle}
        return self.format.salvage(bundle, where) if bundle else None


def essay_files(one: Find) -> Bundle:
    """Return the session file of an essay, its backup, and the results of its stages, without files
    that are too large to be read."""
    named = {f"{os.path.basename(one.path)}.bak": BACKUP}
    bundle: Bundle = {}
    for path in files.list_paths(os.path.dirname(one.path))[:_MOST_BESIDE]:
        name = os.path.basename(path)
        if name in named or name.endswith(".md"):
            with suppress(ForestayError):
                bundle[named.get(name, name)] = files.read_bounded(path, MAX_BYTES, follow=False)
    return {**bundle, ESSAY_STATE: next(iter(one.bundle.values()), b"")}


# -- finding -----------------------------------------------------------------------------------


def find(path: str) -> list[Find]:
    """Return the sessions in a file or below a folder; an unknown file is a find without format."""
    return list(walk(path))


def walk(path: str, *, parts: bool = False) -> Iterator[Find]:
    """Yield like `find`; with `parts`, also single files of the `ai-session` format that are in no
    folder of a session. Refuse what is neither a file nor a folder."""
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
    """Yield like `walk`, but a file of a session in its place stands for the whole session."""
    folder, name = os.path.split(os.path.abspath(path))
    is_part = name in (STATE, PLAN, LOG) and _is_root(os.path.dirname(folder))
    if (name == INDEX and started_in(folder)) or (is_part and _is_ai_session(folder)):
        return walk(folder)
    return walk(path)


def not_one_session(path: str, there: list[Find]) -> InvalidInput:
    """Return the error for a path that contains no session, or several."""
    hint = f"forestay files check {shlex.quote(path)}"
    if not there:
        return InvalidInput(f"no session is in {path}", hint=hint)
    why = f"{len(there)} sessions are there"
    return InvalidInput(f"{path} is not one session", why=why, hint=hint)


def find_in_place(path: str) -> Iterator[Find]:
    """Yield the sessions in a folder or file of a format, which must not be a link."""
    return walk(path) if os.path.isdir(path) else iter([_of_plain_file(path)])


def _fault(id: str, code: str, what: str, name: str = "", line: int = 0) -> Finding:
    """Return a fault that prevents reading a file of a format."""
    rule = _UNREADABLE.get(id, "")
    return Finding(code, ERROR, what, file=name, requirement=rule, line=line)


def _of_file(path: str) -> Find:
    try:
        data = files.read_bounded(path, MAX_BYTES)
    except ForestayError as error:
        return _not_read(path, _code_of(error), str(error))
    unknown = _fault("", "unknown-layout", "this is not a session file of a known format", path)
    return identify(path, data) or Find("", "", {"": path}, {"": data}, {}, [unknown])


def _of_plain_file(path: str) -> Find:
    """Return a file in the place of a session's, which must not be a link."""
    if files.is_irregular(path):
        return _not_read(path, "odd-file", _describe_kind(path))
    return _of_file(path)


def _describe_kind(path: str) -> str:
    kind = _KINDS.get(stat.S_IFMT(os.lstat(path).st_mode), "a device")
    return f"this is {kind}, not a file"


def _not_read(path: str, code: str, what: str) -> Find:
    """Return the find of a file that was not read, by its name."""
    id = _guess(path, b"")
    name = _guess_role(id, path, b"") if id else ""
    return Find(id, "", {name: path}, {}, {}, [_fault(id, code, what, name)])


def identify(path: str, data: bytes) -> Find | None:
    """Return a single file as a find, by its bytes and its name; None if its format is unknown."""
    try:
        document = Document.parse(data, _syntax(path, data))
    except Unreadable as error:
        return _broken(path, data, error)
    best = _guess_by_value(path, document.value)
    if document.value == [] and os.path.basename(path) == LOG:
        best = "ai-session"  # a session in which nothing has happened yet
    if not best:
        # It may have the place of a session's file nevertheless.
        name = os.path.basename(path)
        if id := _FIXED.get(name, "") or _format_of_folder(path):
            fault = _fault(id, "not-a-session", f"this is not a session of {id}", name)
            return Find(id, "", {name: path}, {name: data}, {}, [fault])
        return None
    if why := load_format(best).why_incomplete(data, document.value):
        return _broken(path, data, Unreadable("torn", why))
    name, native = _role(best, path, document.value)
    return _make_find(best, {name: path}, {name: data}, {name: document}, native)


def _broken(path: str, data: bytes, error: Unreadable) -> Find | None:
    id = _guess(path, data)
    if not id:
        return None
    name = _guess_role(id, path, data)
    fault = _with_sides(_fault(id, error.code, error.what, name, error.line), data)
    return Find(id, "", {name: path}, {name: data}, {}, [fault])


def _with_sides(fault: Finding, data: bytes) -> Finding:
    """Add both sides to the fault of an index in which git left a merge conflict."""
    found = conflicts(INDEX, data) if (fault.code, fault.file) == (CONFLICTED, INDEX) else []
    return found[0]._replace(line=fault.line) if found else fault


def _make_find(
    id: str,
    paths: dict[str, str],
    bundle: Bundle,
    documents: dict[str, Document],
    native: str = "",
) -> Find:
    """Return a find with the faults of its text; `native` is its id if that is known."""
    if not native:
        tree = {name: document.value for name, document in documents.items()}
        native = load_format(id).get(tree, Where()).native_id
    return Find(id, native, paths, bundle, documents, text_faults(id, documents))


def text_faults(id: str, documents: dict[str, Document]) -> list[Finding]:
    """Return what is wrong with the text of files that could be parsed nevertheless."""
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
        # Converters may call YAML .json; no JSON begins with a bare key.
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
    # Without zeros UTF-16 is found, too.
    start = data[:_SEARCHED].replace(b"\0", b"")
    for id, pattern in _HINTS:
        if re.search(pattern, start):
            return id
    name = os.path.basename(path)
    named = (id for id, pattern in _NAMES if re.fullmatch(pattern, name))
    return _format_of_folder(path) or next(named, "")


def _guess_by_value(path: str, value: object) -> str:
    """Return the format that a value has by its shape; empty if it has none."""
    scores = {id: load_format(id).recognise(path, value) for id in REGISTRY}
    best = max(scores, key=lambda id: scores[id])
    return best if scores[best] >= SURE else ""


def _format_of_folder(path: str) -> str:
    """Return the format whose own folder a file is in, if such folders contain nothing else."""
    folder, name = os.path.split(path)
    own = (id for id in ("praxis", "craft") if folder.endswith(f"/{REGISTRY[id][1]}"))
    return next(own, "") if name.endswith(".json") and name != REGISTRY_FILE else ""


def _role(id: str, path: str, value: object) -> tuple[str, str]:
    """Return the name that a file has in the trees of its format, and the session's id if known."""
    format, keys = load_format(id), mapping(value)
    if id != "ai-session":
        # Lists are not needed to find the id.
        short = {key: each for key, each in keys.items() if not isinstance(each, list)}
        tree = {os.path.basename(path): short if isinstance(value, dict) else value}
        native = format.get(tree, Where()).native_id
        return format.files(native or os.path.basename(path).removesuffix(".json"))[0], native
    folder = os.path.dirname(path)
    if isinstance(value, list):
        return f"{os.path.basename(folder)}/{LOG}", ""
    role = next((role for key, role in _ROLES.items() if key in keys), STATE)
    if role == INDEX:
        return INDEX, ""
    # The session is that of its folder in its place, else the one that the file names.
    named = text(keys.get("feature_id")) or text(mapping(keys.get("feature")).get("id"))
    find_in_place = os.path.basename(path) in OWN and _is_root(os.path.dirname(folder))
    feature = os.path.basename(folder) if find_in_place or not named else named
    return f"{feature}/{role}", ""


def _guess_role(id: str, path: str, data: bytes) -> str:
    if id != "ai-session":
        return os.path.basename(path)
    folder = os.path.basename(os.path.dirname(path))
    if b"active_features" in data or os.path.basename(path).startswith("active-features"):
        return INDEX
    return f"{folder}/{PLAN if b'phases:' in data else LOG if path.endswith('.jsonl') else STATE}"


# -- folders -----------------------------------------------------------------------------------


def _of_folder(folder: str, parts: bool) -> Iterator[Find]:
    if _is_ai_session(folder):
        yield _ai_session(os.path.dirname(folder), os.path.basename(folder))
        return
    roots: set[str] = set()
    yield from _closed(folder)
    there, is_more = _folders(folder)
    homes = tuple(f"/{place}" for _, place in REGISTRY.values() if place)
    # Of two files with the same id, the one in its own place comes first.
    for below, names in sorted(there, key=lambda found: not found[0].endswith(homes)):
        above, name = os.path.split(below)
        if above in roots or os.path.dirname(above) in roots:
            continue
        is_archived = os.path.basename(above) == ARCHIVE
        if name == AI_ROOT or INDEX in names:
            roots.add(below)
            yield from ai_sessions(below)
        elif STATE in names and _is_id(name) and not is_archived and _is_ai_session(below):
            yield _ai_session(above, name)
        else:
            yield from _loose(below, names, parts=parts and not is_archived)
    if is_more:
        what = f"there are over {MOST_FILES} files, and not all were read: name a folder below"
        fault = _fault("", "too-many-files", what, folder)
        yield Find("", "", {"": folder}, {}, {}, [fault])


def _closed(folder: str) -> Iterator[Find]:
    """Yield a fault for a folder that must not be entered, or one of a format in it."""
    if _is_closed(folder):
        yield _no_access(folder, "")
        return
    for id, (_, place) in REGISTRY.items():
        way = accumulate(place.split("/"), os.path.join, initial=folder)
        first = next((here for here in way if _is_closed(here)), "")
        if first:
            yield _no_access(first, id)


def _no_access(folder: str, id: str) -> Find:
    fault = _fault(id, NO_ACCESS, f"{folder} must not be entered (permission denied)")
    return Find(id, "", {"": folder}, {}, {}, [fault])


def _is_closed(folder: str) -> bool:
    try:
        os.scandir(folder).close()
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _is_ai_session(folder: str) -> bool:
    """Return whether the folder itself is that of one session of the `ai-session` format."""
    if _is_root(os.path.dirname(folder)):
        return _is_started(folder)
    # Elsewhere the state has to show it: other programs use the same file name.
    state = os.path.join(folder, STATE)
    found = _identify_in_folder(state) if os.path.isfile(state) else None
    return found is not None and found.layout == "ai-session"


def _is_root(folder: str) -> bool:
    """Return whether a folder is for sessions of the `ai-session` format."""
    return os.path.basename(folder) == AI_ROOT or os.path.isfile(os.path.join(folder, INDEX))


def ai_sessions(root: str) -> Iterator[Find]:
    """Yield the sessions in a folder of the `ai-session` format, or the index if it has none."""
    # All have one index: it is parsed once, unless it changes.
    parse = lru_cache(maxsize=1)(_parse_index)
    found = (_ai_session(root, name, parse) for name in started_in(root))
    there = (one for one in found if not _is_cleaned_up(one))
    index = os.path.join(root, INDEX)
    first = next(there, None)
    if first is None and os.path.lexists(index):
        first = _of_plain_file(index)
    if first is not None:
        yield replace(first, faults=[*first.faults, *_missing_sessions(first, root)])
    yield from there
    below = [os.path.join(root, name) for name in files.list_names(root)]
    yield from (_no_access(path, "ai-session") for path in below if _is_closed(path))


def _missing_sessions(one: Find, root: str) -> Iterator[Finding]:
    """Yield a fault for each open session of an index that has no folder."""
    for number, entry in enumerate(entries_of(one.tree)):
        id, word = text(entry.get("feature_id")), text(entry.get("status"))
        is_over = session_status("ai-session", word) == "completed"
        if id and not is_over and not os.path.lexists(os.path.join(root, id)):
            what, where = f"{id} is listed, and its files are missing", f"active_features[{number}]"
            fault = Finding(GONE, WARNING, what, where=where, requirement="S0-79")
            yield fault._replace(file=INDEX)


def _is_id(name: str) -> bool:
    return not load_format("ai-session").why_invalid_id(name)


def started_in(root: str) -> list[str]:
    """Return the names of sessions in a folder of the `ai-session` format."""
    return [name for name in files.list_names(root) if _is_started(os.path.join(root, name))]


def _is_started(folder: str) -> bool:
    """Return whether a folder is a session's: by one of its files, or by its name if empty."""
    if os.path.islink(folder) or not os.path.isdir(folder):
        return False
    if any(os.path.lexists(os.path.join(folder, part)) for part in (STATE, PLAN, LOG, ARTIFACTS)):
        return True
    is_empty = not (files.list_names(folder) or _is_closed(folder))
    return _is_id(os.path.basename(folder)) and is_empty


def _is_cleaned_up(one: Find) -> bool:
    """Return whether a session has ended, and only its artifacts are left in its place."""
    word = text(entry_of(one.tree, one.native).get("status"))
    return one.is_bare and session_status(one.layout, word) == "completed"


def _parse_index(data: bytes) -> Document:
    return Document.parse(data, "yaml")


def _ai_session(
    root: str, name: str, parse_index: Callable[[bytes], Document] = _parse_index
) -> Find:
    parts = {f"{name}/{part}": os.path.join(root, name, part) for part in (STATE, PLAN, LOG)}
    paths = {**parts, INDEX: os.path.join(root, INDEX)}
    there = {key: path for key, path in paths.items() if os.path.lexists(path)}
    bundle: Bundle = {}
    documents: dict[str, Document] = {}
    faults: list[Finding] = []
    for key, path in there.items():
        try:
            bundle[key] = files.read_bounded(path, MAX_BYTES, follow=False)
            documents[key] = _parse_part(key, bundle[key], parse_index)
        except ForestayError as error:
            code, what, line = what_is_wrong(path, error)
            fault = _fault("ai-session", code, what, key, line)
            faults.append(_with_sides(fault, bundle.get(key, b"")))
    if not there.keys() & parts.keys():
        main = f"{name}/{STATE}"
        there = {main: parts[main], **there}
        what = "none of the session's files exists: it was not created completely, or lost"
        faults.append(Finding(NOT_CREATED, ERROR, what, file=main, requirement="S0-77"))
    made = _make_find("ai-session", there, bundle, documents)
    return replace(made, native=name, faults=[*faults, *made.faults])


def _parse_part(key: str, data: bytes, parse_index: Callable[[bytes], Document]) -> Document:
    """Parse one file of a session; refuse it if it is incomplete, or contains something else."""
    document = parse_index(data) if key == INDEX else Document.parse(data, kind_of(key))
    if why := load_format("ai-session").why_incomplete(data, document.value):
        raise Unreadable("torn", why)
    if document.kind == "yaml" and document.value is None:
        raise Unreadable("empty-file", "the file is empty")
    if document.kind == "yaml" and not isinstance(document.value, dict):
        raise Unreadable("wrong-type", "the file does not contain a mapping")
    return document


def what_is_wrong(path: str, error: ForestayError) -> tuple[str, str, int]:
    """Return code, text and line for a file that cannot be read."""
    if isinstance(error, Unreadable):
        return error.code, error.what, error.line
    if files.is_irregular(path):
        return "odd-file", _describe_kind(path), 0
    return _code_of(error), str(error), 0


def _code_of(error: ForestayError) -> str:
    """Return whether access is denied, the disk fails, or the file itself is at fault."""
    if isinstance(error.__cause__, PermissionError):
        return NO_ACCESS
    return READ_FAILED if isinstance(error, StoreFailed) else "unreadable"


def _loose(folder: str, names: list[str], *, parts: bool) -> Iterator[Find]:
    """Yield the sessions among the files of one folder, of formats that have one file each."""
    formats, others = set(), {""} if parts else {"", "ai-session"}
    for name in names:
        if os.path.splitext(name)[1].lower() in _ENDINGS:
            found = _identify_in_folder(os.path.join(folder, name))
            if found is not None and found.layout not in others:
                formats.add(found.layout)
                yield found
    is_named = folder_moment(os.path.basename(folder)) is not None
    is_essay = BACKUP in names or (is_named and any(map(is_current, names)))
    if is_essay and "essay" not in formats:
        yield essay_without_state(folder)


def essay_without_state(folder: str) -> Find:
    """Return the find of an essay that lost its session file, but not all of its other files."""
    fault = _fault("essay", "missing-file", f"{ESSAY_STATE} is missing", ESSAY_STATE)
    return Find("essay", "", {ESSAY_STATE: os.path.join(folder, ESSAY_STATE)}, {}, {}, [fault])


def _identify_in_folder(path: str) -> Find | None:
    """Identify a file in a folder; one that cannot be read counts if it has the name of one."""
    data = None
    if not files.is_irregular(path):
        with suppress(ForestayError):
            data = files.read_bounded(path, MAX_BYTES, follow=False)
    if data is None:
        return _of_plain_file(path) if _guess(path, b"") else None
    has_keyword = _KEYWORDS.search(data.replace(b"\0", b"") if b"\0" in data else data)
    return identify(path, data) if has_keyword or _guess(path, b"") else None


def _folders(folder: str) -> tuple[list[tuple[str, list[str]]], bool]:
    """Return each folder with the names of its files, and whether there are more than are read.

    The formats' own folders come first. A folder with the name of a session's file is included.
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


# -- essays ------------------------------------------------------------------------------------


def essay_root(settings: Settings) -> str:
    """Return the folder in which essays of this home are made."""
    return os.path.join(settings.home, "essays")


def own_essay_folders(settings: Settings) -> list[str]:
    """Return the folders of the user's essays, in the home and where other programs make them."""
    return essay_folders((essay_root(settings), *ESSAY_ROOTS))


def essay_folders(roots: Iterable[str]) -> list[str]:
    """Return the folders of essays directly below some folders, newest name first.

    Below `/tmp` any user can create such a folder. Only one counts that belongs to the user, is not
    a link, and that no other user can write to.
    """
    found = [
        os.path.join(root, name)
        for root in roots
        for name in files.list_names(root)
        if name.startswith(PREFIX) and _is_private_folder(os.path.join(root, name))
    ]
    return sorted(found, key=lambda path: (os.path.basename(path), path), reverse=True)


def _is_private_folder(path: str) -> bool:
    try:
        facts = os.lstat(path)
    except OSError:
        return False
    is_own = facts.st_uid == os.geteuid()
    return stat.S_ISDIR(facts.st_mode) and is_own and not facts.st_mode & 0o022
