"""Found: session files on disk, whatever program made them.

`find` looks at a file, a folder or a whole project and says which sessions of which layouts are
there, by what is in the files and not by their names. A *find* is one session: its layout, the
files it has as bytes, and what of them could be parsed; a file that cannot be is a *fault* of it.

Nothing is ever written here, links are not followed, and what is too large or too much is said to
be skipped, not read. A name is believed only where nothing is left to read.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator
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
from forestay.formats.status_words import session_status
from forestay.formats.text.document import Document, kind_of
from forestay.formats.text.safe_parse import LONGEST, Unreadable
from forestay.formats.text.salvage_json import recover

MAX_BYTES = LONGEST
BAD_LINE = "bad-line"
NOT_CREATED, GONE = "not-created", "listed-but-gone"
NO_ACCESS, READ_FAILED = "no-access", "read-failed"
NOT_READ = frozenset({NO_ACCESS, READ_FAILED})
"""The system did not let us read a file, which says nothing of its bytes."""
AI_ROOT = ".ai-session"
CONFLICTED = "conflict-markers"
ARCHIVE = ".ai-session-archive"
"""Where sessions are put away that are over."""
ARTIFACTS = "artifacts"
ESSAY_ROOTS = ("/tmp",)
"""Where essays are made by other programs."""
MOST_FILES = 50_000
_MOST_BESIDE = 2000
"""How many files beside a damaged one are looked at."""
SURE = 0.3
_SKIPPED = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".hg"})
_BARE_KEY = re.compile(rb"(?:\s|#[^\n]*\n)*[A-Za-z_]+:\s")
_ENDINGS = {".json": "json", ".yaml": "yaml", ".yml": "yaml", ".jsonl": "jsonl"}

# What tells a layout apart in bytes that do not parse, in this order; then what its name says.
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
# How much of a file is searched for them: one after the other, they cost half a second in 16 MB.
_HINTING = 1024 * 1024
# Without any of these words a file is of no layout, and need not be parsed.
_TELLING = re.compile(
    rb"session_id|workflow_type|completed_phases|pipeline_id|current_stage|active_features"
    rb"|current_state|schema_version|completed_work|<<<<<<< "
)
_ROLES = {"active_features": INDEX, "current_state": STATE, "feature": PLAN, "phases": PLAN}


class Find(Struct):
    """One session in files. `paths` says where each file of its tree really is."""

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
        """The main file, or the first one that is there."""
        return next(iter(self.paths.values()))

    @property
    def root(self) -> str:
        """The folder that the names in the tree are relative to."""
        name, path = next(iter(self.paths.items()))
        return path[: -len(name) - 1] if path.endswith(f"/{name}") else os.path.dirname(path)

    @property
    def is_loose(self) -> bool:
        """Whether the file is not where its layout has it, so that nothing around it is its."""
        name, path = next(iter(self.paths.items()))
        return not path.endswith(f"/{name}")

    @property
    def is_index(self) -> bool:
        """Whether it is a list of sessions, none of which is there."""
        return list(self.paths) == [INDEX]

    @property
    def is_bare(self) -> bool:
        """Whether it is the folder of a session without any of its files."""
        return any(fault.code == NOT_CREATED for fault in self.faults)

    @property
    def damage(self) -> list[Finding]:
        """Its faults but for lines of a log that are no JSON: nobody may change those, and all
        else can be read and written beside them; and but for what other sessions lack."""
        return [fault for fault in self.faults if fault.code not in (BAD_LINE, GONE)]

    @property
    def is_torn(self) -> bool:
        """Whether a session is here of which some file cannot be read."""
        torn = not self.documents or any(fault.severity == ERROR for fault in self.damage)
        return bool(self.layout) and torn

    def facts(self, where: Where) -> Facts:
        return carry_over.read(self.format, self.tree, where)

    def salvage(self, where: Where) -> Salvaged | None:
        """What can be saved of files that cannot be read."""
        bundle = essay_files(self) if self.layout == "essay" else self.bundle
        if self.is_bare:
            bundle = {next(iter(self.paths)): b"", **bundle}
        return self.format.salvage(bundle, where) if bundle else None


def essay_files(one: Find) -> Bundle:
    """The session file of an essay, whatever it is called, its backup, and the results of its
    stages; nothing of a file that is too large to be read."""
    named = {f"{os.path.basename(one.path)}.bak": BACKUP}
    bundle: Bundle = {}
    for path in files.list_paths(os.path.dirname(one.path))[:_MOST_BESIDE]:
        name = os.path.basename(path)
        if name in named or name.endswith(".md"):
            try:
                bundle[named.get(name, name)] = files.read_bounded(path, MAX_BYTES, follow=False)
            except ForestayError:
                continue
    return {**bundle, ESSAY_STATE: next(iter(one.bundle.values()), b"")}


# -- finding -----------------------------------------------------------------------------------


def find(path: str) -> list[Find]:
    """The sessions in a file or below a folder; one that cannot be told is a find without layout.

    A folder without any gives an empty list; what is not a file or folder is refused.
    """
    return list(walk(path))


def walk(path: str, *, parts: bool = False) -> Iterator[Find]:
    """Like `find`, one after the other as they are met; with `parts`, also single files of the
    `ai-session` layout that are in no folder of a session."""
    kind = _kind_of(path)
    if kind == "a file":
        return iter([_of_file(os.path.abspath(path))])
    if kind == "a folder":
        return _of_folder(os.path.abspath(path), parts)
    what = f"{path} is neither a file nor a folder"
    raise InvalidInput(what, why=f"it is {kind}", file=path, operation="read")


def sessions(path: str) -> Iterator[Find]:
    """Like `walk`, but a file that is a part of a session, in its place, stands for all of it."""
    return walk(_folder_of_parts(path) or path)


def not_one(path: str, there: list[Find]) -> InvalidInput:
    """What to say to whoever named something that is of no session, or of several."""
    hint = f"forestay files check {shlex.quote(path)}"
    if not there:
        return InvalidInput(f"no session is in {path}", hint=hint)
    why = f"{len(there)} sessions are there"
    return InvalidInput(f"{path} is not one session", why=why, hint=hint)


def _folder_of_parts(path: str) -> str:
    """The folder whose session, or sessions, a file of the `ai-session` layout belongs to."""
    folder, name = os.path.split(os.path.abspath(path))
    if name == INDEX:
        return folder if started_in(folder) else ""
    above = os.path.dirname(folder)
    is_part = name in (STATE, PLAN, LOG) and _is_root(above) and _is_ai_session(folder)
    return folder if is_part else ""


def in_place(path: str) -> Iterator[Find]:
    """The sessions in a folder or file of a layout, which no link may stand in for."""
    return walk(path) if os.path.isdir(path) else iter([_of_plain_file(path)])


def _kind_of(path: str) -> str:
    try:
        mode = os.stat(path).st_mode
    except PermissionError as error:
        raise files.failure(error, "read", path) from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)[:200]
        raise InvalidInput(
            f"cannot read {path[:200]}",
            why=why.lower(),
            hint="check the path",
            file=path,
            operation="read",
        ) from None
    return _KINDS.get(stat.S_IFMT(mode), "a device")


_KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFLNK: "a link",
    stat.S_IFSOCK: "a socket",
}


def _of_file(path: str) -> Find:
    try:
        data = files.read_bounded(path, MAX_BYTES)
    except ForestayError as error:
        return _unreadable(path, _code_of(error), str(error))
    return told(path, data) or Find("", "", {"": path}, {"": data}, {}, [_unknown(path)])


def _unreadable(path: str, code: str, message: str) -> Find:
    """A file that was not read: its name is all that tells what it would be."""
    id = _hinted(path, b"")
    name = _named_role(id, path, b"") if id else ""
    fault = Finding(code, ERROR, message, file=name, requirement=_UNREADABLE.get(id, ""))
    return Find(id, "", {name: path}, {}, {}, [fault])


def told(path: str, data: bytes) -> Find | None:
    """A single file as a find, by its bytes and its name; None if it is of no layout."""
    kind = _kind_by_content(path, data)
    try:
        document = Document.parse(data, kind)
    except Unreadable as error:
        return _broken(path, data, error)
    best = _likeliest(path, document.value)
    if document.value == [] and os.path.basename(path) == LOG:
        best = "ai-session"  # of a session in which nothing has happened yet
    if not best:
        return _in_the_place(path, data)
    if why := load_format(best).torn(data, document.value):
        return _broken(path, data, Unreadable("torn", why))
    name, native = _role(best, path, document.value)
    return _made(best, {name: path}, {name: data}, {name: document}, native)


def _in_the_place(path: str, data: bytes) -> Find | None:
    """A file that parses and is of no layout, but has the very place of a session's file."""
    name = os.path.basename(path)
    id = _FIXED.get(name, "") or _at_home(path)
    if not id:
        return None
    fault = Finding(
        "not-a-session", ERROR, f"this is no {id} session", file=name, requirement=_UNREADABLE[id]
    )
    return Find(id, "", {name: path}, {name: data}, {}, [fault])


_FIXED = {ESSAY_STATE: "essay", CURRENT: "orchestrator"}


def _broken(path: str, data: bytes, error: Unreadable) -> Find | None:
    id = _hinted(path, data)
    if not id:
        return None
    name = _named_role(id, path, data)
    fault = Finding(
        error.code, ERROR, error.what, file=name, requirement=_UNREADABLE[id], line=error.line
    )
    return Find(id, "", {name: path}, {name: data}, {}, [_with_sides(fault, data)])


_UNREADABLE = {
    "ai-session": "S0-78",
    "praxis": "S1-25",
    "craft": "S2-85",
    "essay": "S3-94",
    "orchestrator": "S4-79",
}


def _made(
    id: str,
    paths: dict[str, str],
    bundle: Bundle,
    documents: dict[str, Document],
    native: str = "",
) -> Find:
    """A find with the faults of its text; `native` is its id if that is known already."""
    if not native:
        tree = {name: document.value for name, document in documents.items()}
        native = load_format(id).get(tree, Where()).native_id
    return Find(id, native, paths, bundle, documents, text_faults(id, documents))


def text_faults(id: str, documents: dict[str, Document]) -> list[Finding]:
    """What was wrong with the text of files that could be parsed all the same."""
    said = "this YAML is read, but not as others may"
    bad = [
        Finding(BAD_LINE, ERROR, bad.message, file=name, requirement="S0-37", line=bad.number)
        for name, document in documents.items()
        for bad in document.bad
    ]
    return bad + [
        Finding(
            remark.code, WARNING, said, file=name, requirement=_UNREADABLE[id], line=remark.line
        )
        for name, document in documents.items()
        for remark in document.remarks
    ]


def _kind_by_content(path: str, data: bytes) -> str:
    named = _ENDINGS.get(os.path.splitext(path)[1].lower())
    if named:
        # YAML may be called .json by who converts; no JSON begins with a bare key.
        return "yaml" if named == "json" and _BARE_KEY.match(data) else named
    start = data.lstrip()[:1]
    if start != b"{":
        return "yaml"
    first, _, rest = data.strip().partition(b"\n")
    whole = first.rstrip().endswith(b"}") and rest.lstrip().startswith(b"{")
    return "jsonl" if whole else "json"


def _hinted(path: str, data: bytes) -> str:
    if id := _said_by_rest(path, data):
        return id
    # Without its zeros UTF-16 tells, too.
    start = data[:_HINTING].replace(b"\0", b"")
    for id, pattern in _HINTS:
        if re.search(pattern, start):
            return id
    name = os.path.basename(path)
    named = (id for id, pattern in _NAMES if re.fullmatch(pattern, name))
    return _at_home(path) or next(named, "")


def _said_by_rest(path: str, data: bytes) -> str:
    """The layout of what can still be read of a JSON file."""
    left = recover(data[: _HINTING // 4]) if data else None
    return _likeliest(path, left.value) if left else ""


def _likeliest(path: str, value: object) -> str:
    """The layout whose a value is by its shape; empty if it is of none."""
    scores = {id: load_format(id).recognise(path, value) for id in REGISTRY}
    best = max(scores, key=lambda id: scores[id])
    return best if scores[best] >= SURE else ""


def _at_home(path: str) -> str:
    """The layout in whose own folder a file is, where such a folder holds nothing else."""
    folder, name = os.path.split(path)
    own = (id for id in ("praxis", "craft") if folder.endswith(f"/{REGISTRY[id][1]}"))
    return next(own, "") if name.endswith(".json") and name != REGISTRY_FILE else ""


def _role(id: str, path: str, value: object) -> tuple[str, str]:
    """The name that a file has in its layout's trees, and the session's id if it tells."""
    format = load_format(id)
    if id != "ai-session":
        native = format.get({os.path.basename(path): _without_lists(value)}, Where()).native_id
        return format.files(native or os.path.basename(path).removesuffix(".json"))[0], native
    if isinstance(value, list):
        return f"{os.path.basename(os.path.dirname(path))}/{LOG}", ""
    keys = value if isinstance(value, dict) else {}
    role = next((role for key, role in _ROLES.items() if key in keys), STATE)
    return role if role == INDEX else f"{_feature(path, value)}/{role}", ""


def _without_lists(value: object) -> object:
    """What is enough of a file to tell which session it is."""
    if not isinstance(value, dict):
        return value
    return {key: each for key, each in value.items() if not isinstance(each, list)}


def _feature(path: str, value: object) -> str:
    """Whose a file is: its folder's in its place, else as it says itself."""
    folder, of = os.path.dirname(path), mapping(value)
    if os.path.basename(path) in OWN and _is_root(os.path.dirname(folder)):
        return os.path.basename(folder)
    said = text(of.get("feature_id")) or text(mapping(of.get("feature")).get("id"))
    return said or os.path.basename(folder)


def _named_role(id: str, path: str, data: bytes) -> str:
    if id != "ai-session":
        return os.path.basename(path)
    folder = os.path.basename(os.path.dirname(path))
    if b"active_features" in data or os.path.basename(path).startswith("active-features"):
        return INDEX
    return f"{folder}/{PLAN if b'phases:' in data else LOG if path.endswith('.jsonl') else STATE}"


def _unknown(path: str) -> Finding:
    message = "this is not a session file of any of the five layouts"
    return Finding("unknown-layout", ERROR, message, file=path)


# -- folders -----------------------------------------------------------------------------------


def _of_folder(folder: str, parts: bool) -> Iterator[Find]:
    if _is_ai_session(folder):
        yield _ai_session(os.path.dirname(folder), os.path.basename(folder))
        return
    roots: set[str] = set()
    yield from _closed(folder)
    there, is_more = _folders(folder)
    # Of two files that claim to be one session, the one in its own place is met first.
    for below, names in sorted(there, key=lambda found: not _is_home(found[0])):
        if os.path.dirname(below) in roots or os.path.dirname(os.path.dirname(below)) in roots:
            continue
        if os.path.basename(below) == AI_ROOT or INDEX in names:
            roots.add(below)
            yield from ai_sessions(below)
        elif STATE in names and _is_feature(below):
            yield _ai_session(os.path.dirname(below), os.path.basename(below))
        else:
            is_away = os.path.basename(os.path.dirname(below)) == ARCHIVE
            yield from _loose(below, names, parts=parts and not is_away)
    if is_more:
        yield Find("", "", {"": folder}, {}, {}, [_too_much(folder)])


def _closed(folder: str) -> Iterator[Find]:
    """What keeps us from the folder, or from one of a layout in it."""
    if _is_closed(folder):
        yield _not_ours(folder, "")
        return
    for id, (_, place) in REGISTRY.items():
        way = accumulate(place.split("/"), os.path.join, initial=folder)
        first = next((here for here in way if _is_closed(here)), "")
        if first:
            yield _not_ours(first, id)


def _not_ours(folder: str, id: str) -> Find:
    message = f"{folder} may not be entered (permission denied)"
    fault = Finding(NO_ACCESS, ERROR, message, requirement=_UNREADABLE.get(id, ""))
    return Find(id, "", {"": folder}, {}, {}, [fault])


def _is_closed(folder: str) -> bool:
    try:
        os.scandir(folder).close()
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _too_much(folder: str) -> Finding:
    message = f"over {MOST_FILES} files are here, and not all were looked at: name a folder below"
    return Finding("too-many-files", ERROR, message, file=folder)


def _is_home(folder: str) -> bool:
    return any(folder.endswith(f"/{place}") for _, place in REGISTRY.values() if place)


def _is_ai_session(folder: str) -> bool:
    """Whether the folder itself is that of one session of the `ai-session` layout."""
    if _is_root(os.path.dirname(folder)):
        return _is_started(folder)
    # Elsewhere the state has to say so itself: others call their files that, too.
    said = _look(os.path.join(folder, STATE)) if _is_file(folder, STATE) else None
    return said is not None and said.layout == "ai-session"


def _is_feature(folder: str) -> bool:
    """Whether a folder is that of a session by its name, too, and was not put away."""
    above, name = os.path.split(folder)
    return _is_id(name) and os.path.basename(above) != ARCHIVE and _is_ai_session(folder)


def _is_root(folder: str) -> bool:
    """Whether a folder is there for sessions of the `ai-session` layout."""
    return os.path.basename(folder) == AI_ROOT or _is_file(folder, INDEX)


def ai_sessions(root: str) -> Iterator[Find]:
    """The sessions in a folder of the `ai-session` layout; the index alone, if it has none."""
    # All have one index: it is parsed once, unless somebody writes it meanwhile.
    parse = lru_cache(maxsize=1)(_as_index)
    there = (one for n in started_in(root) if not _is_put_away(one := _ai_session(root, n, parse)))
    index = os.path.join(root, INDEX)
    first = next(there, None)
    if first is None and os.path.lexists(index):
        first = _of_plain_file(index)
    if first is not None:
        yield replace(first, faults=[*first.faults, *_gone(first, root)])
    yield from there
    below = [os.path.join(root, name) for name in files.list_names(root)]
    yield from (_not_ours(path, "ai-session") for path in below if _is_closed(path))


def _gone(one: Find, root: str) -> Iterator[Finding]:
    """The sessions of which the index alone says that they are not over."""
    for number, entry in enumerate(entries_of(one.tree)):
        id, word = text(entry.get("feature_id")), text(entry.get("status"))
        is_over = session_status("ai-session", word) == "completed"
        if id and not is_over and not os.path.lexists(os.path.join(root, id)):
            message = f"{id} is listed, and its files are not there"
            yield Finding(
                GONE,
                WARNING,
                message,
                file=INDEX,
                where=f"active_features[{number}]",
                requirement="S0-79",
            )


def _is_id(name: str) -> bool:
    return not load_format("ai-session").valid_id(name)


def started_in(root: str) -> list[str]:
    """The folders of sessions in a folder of the `ai-session` layout."""
    return [name for name in files.list_names(root) if _is_started(os.path.join(root, name))]


def _is_started(folder: str) -> bool:
    """Whether a session's folder is there; half of its files make one too, or its name alone."""
    parts = (STATE, PLAN, LOG, ARTIFACTS)
    if os.path.islink(folder) or not os.path.isdir(folder):
        return False
    return any(os.path.lexists(os.path.join(folder, part)) for part in parts) or _is_empty(folder)


def _is_empty(folder: str) -> bool:
    """Whether nothing followed after the folder of a session was made."""
    is_session = _is_id(os.path.basename(folder)) and os.path.isdir(folder)
    return is_session and not (files.list_names(folder) or _is_closed(folder))


def _is_put_away(one: Find) -> bool:
    """Whether a session is over, and only what it generated was left in its place."""
    word = text(entry_of(one.tree, one.native).get("status"))
    return one.is_bare and session_status(one.layout, word) == "completed"


def _as_index(data: bytes) -> Document:
    return Document.parse(data, "yaml")


def _ai_session(root: str, name: str, as_index: Callable[[bytes], Document] = _as_index) -> Find:
    parts = {f"{name}/{part}": os.path.join(root, name, part) for part in (STATE, PLAN, LOG)}
    paths = {**parts, INDEX: os.path.join(root, INDEX)}
    there = {key: path for key, path in paths.items() if os.path.lexists(path)}
    bundle: Bundle = {}
    documents: dict[str, Document] = {}
    faults: list[Finding] = []
    for key, path in there.items():
        try:
            bundle[key] = files.read_bounded(path, MAX_BYTES, follow=False)
            documents[key] = _part(key, bundle[key], as_index)
        except ForestayError as error:
            code, what, line = what_is_wrong(path, error)
            fault = Finding(code, ERROR, what, file=key, requirement="S0-78", line=line)
            faults.append(_with_sides(fault, bundle.get(key, b"")))
    if not there.keys() & parts.keys():
        main = f"{name}/{STATE}"
        there = {main: parts[main], **there}
        faults.append(Finding(NOT_CREATED, ERROR, _BROKEN_OFF, file=main, requirement="S0-77"))
    made = _made("ai-session", there, bundle, documents)
    return replace(made, native=name, faults=[*faults, *made.faults])


def _part(key: str, data: bytes, as_index: Callable[[bytes], Document]) -> Document:
    """One file of a session; refused if it was not written to its end, or holds something else."""
    document = as_index(data) if key == INDEX else Document.parse(data, kind_of(key))
    if why := load_format("ai-session").torn(data, document.value):
        raise Unreadable("torn", why)
    if document.kind == "yaml" and not isinstance(document.value, dict):
        raise _no_mapping(document.value)
    return document


def _no_mapping(value: object) -> Unreadable:
    """What a program leaves that had nothing to write, or wrote something else there."""
    if value is None:
        return Unreadable("empty-file", "the file is empty")
    return Unreadable("wrong-type", "the file holds no mapping")


_BROKEN_OFF = "none of the session's files is there: it was never created to the end, or lost"


def _with_sides(fault: Finding, data: bytes) -> Finding:
    """A fault; what git left in the index for people to settle is told with both sides."""
    told = conflicts(INDEX, data) if (fault.code, fault.file) == (CONFLICTED, INDEX) else []
    return told[0]._replace(line=fault.line) if told else fault


def what_is_wrong(path: str, error: ForestayError) -> tuple[str, str, int]:
    if isinstance(error, Unreadable):
        return error.code, error.what, error.line
    if files.is_irregular(path):
        return "odd-file", f"this is {_odd_kind(path)}, not a file", 0
    return _code_of(error), str(error), 0


def _code_of(error: ForestayError) -> str:
    """Whether a file is not for us, or the disk fails, or the file itself is at fault."""
    if isinstance(error.__cause__, PermissionError):
        return NO_ACCESS
    return READ_FAILED if isinstance(error, StoreFailed) else "unreadable"


def _odd_kind(path: str) -> str:
    return _KINDS.get(stat.S_IFMT(os.lstat(path).st_mode), "a device")


def _loose(folder: str, names: list[str], *, parts: bool) -> Iterator[Find]:
    """The sessions among the files of one folder, of those layouts that have one file each."""
    formats, others = set(), {""} if parts else {"", "ai-session"}
    for name in names:
        path = os.path.join(folder, name)
        if os.path.splitext(name)[1].lower() in _ENDINGS:
            found = _look(path)
            if found is not None and found.layout not in others:
                formats.add(found.layout)
                yield found
    if "essay" not in formats and _is_left_of_essay(folder, names):
        yield essay_without_state(folder)


def _is_left_of_essay(folder: str, names: list[str]) -> bool:
    """Whether a folder is surely an essay's, by its name or the backup in it."""
    is_named = folder_moment(os.path.basename(folder)) is not None
    return BACKUP in names or (is_named and any(map(is_current, names)))


def essay_without_state(folder: str) -> Find:
    """An essay that has lost its session file, but not its backup or all of its stages."""
    path = os.path.join(folder, ESSAY_STATE)
    message = f"{ESSAY_STATE} is missing"
    gone = Finding(
        "missing-file", ERROR, message, file=ESSAY_STATE, requirement=_UNREADABLE["essay"]
    )
    return Find("essay", "", {ESSAY_STATE: path}, {}, {}, [gone])


def _look(path: str) -> Find | None:
    """A file met on the way; one that only its name makes a session's is told, if not read."""
    try:
        data = (
            None if files.is_irregular(path) else files.read_bounded(path, MAX_BYTES, follow=False)
        )
    except ForestayError:
        data = None
    if data is None:
        return _of_plain_file(path) if _hinted(path, b"") else None
    tells = _TELLING.search(data.replace(b"\0", b"") if b"\0" in data else data)
    return told(path, data) if tells or _hinted(path, b"") else None


def _of_plain_file(path: str) -> Find:
    """A file in the place of a session's, which no link may stand in for."""
    if files.is_irregular(path):
        return _unreadable(path, "odd-file", f"this is {_odd_kind(path)}, not a file")
    return _of_file(path)


def _folders(folder: str) -> tuple[list[tuple[str, list[str]]], bool]:
    """Each folder and what is in it that is no folder, or has the name of a session's file.

    The layouts' own folders come first. Also says whether there was more than is looked at.
    """
    count = 0
    seen: dict[str, list[str]] = {}
    for start in (*_homes(folder), folder):
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


def _homes(folder: str) -> list[str]:
    spots = (os.path.join(folder, place) for _, place in REGISTRY.values() if place)
    real = os.path.realpath(folder)
    return [spot for spot in spots if os.path.realpath(spot) == real + spot[len(folder) :]]


def _is_file(folder: str, name: str) -> bool:
    return os.path.isfile(os.path.join(folder, name))


# -- essays ------------------------------------------------------------------------------------


def essay_root(settings: Settings) -> str:
    """Return the folder in which essays of this home are made."""
    return os.path.join(settings.home, "essays")


def own_essay_folders(settings: Settings) -> list[str]:
    """Return the folders of the user's essays, in the home and where other programs make them."""
    return essay_folders((essay_root(settings), *ESSAY_ROOTS))


def essay_folders(roots: Iterable[str]) -> list[str]:
    """The folders of essays directly below some folders, newest name first.

    Below `/tmp` anybody may make such a folder. Only one that is the user's own, that is no link
    and that nobody else can write to is looked at.
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
    mine = facts.st_uid == os.geteuid()
    return stat.S_ISDIR(facts.st_mode) and mine and not facts.st_mode & 0o022
