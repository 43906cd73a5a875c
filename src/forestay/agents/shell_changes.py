"""Find which files a shell command changed: agents do not report them.

A *scan* lists the files that changed since a moment, from git or, without git, by a short walk.
*New changes* are those whose digest differs from the one in the session's state, so files that were
dirty before, or that the agent edited by its tools, are not recorded again.

Everything is bounded: time, number of files, bytes read. Files ignored by git are not listed, large
files are not read, links are not followed, and git takes no lock.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from forestay.base import files
from forestay.base.clock import Clock
from forestay.base.hashing import digest_of
from forestay.errors import ForestayError
from forestay.model.event import FileChanged
from forestay.model.state import File, Row
from forestay.workspace import git
from forestay.workspace import tree as workspace_tree
from forestay.workspace.tree import Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.workspace.tree import Seen

MOST_FILES = 200
"""The most changed files that are read; if there are more, the latest ones are."""
MOST_BYTES = 8 * 1024 * 1024
"""Larger files are not read."""
_GIT_SECONDS = 2.0
_SECONDS = 0.5
_ENTRIES = 20_000
_SLACK_MS = 2_000
"""Tolerance in milliseconds: file times are coarse, and clocks of containers differ slightly."""
_COMMITTED = 20
_SNIFFED = 8192
_LEFT_OUT = frozenset(
    {".git", ".hg", ".svn", ".forestay", "node_modules", "__pycache__", ".venv", "venv", ".tox"}
    | {".mypy_cache", ".pytest_cache", ".ruff_cache", ".cache", "target", "dist", "build"}
)


class ChangedFile(Struct, frozen=True):
    """A changed file: relative path, stamp, digest ("" if it was not read).

    `exists` is False for a deleted file. `met` is set if the file was read
    before, so that git need not be asked for the committed version.
    """

    path: str
    exists: bool = True
    stamp: str = ""
    digest: str = ""
    tracked: bool = False
    met: bool = False
    committed: str = ""
    added: int | None = None
    removed: int | None = None


class Scan(Struct, frozen=True):
    """The result of a scan. `left` files exceed the limit; `whole` is False if time ran out."""

    found: tuple[ChangedFile, ...] = ()
    left: int = 0
    whole: bool = True

    def seen(self, root: str) -> dict[str, Seen]:
        """Return stamps and digests by full path, for the next scan."""
        kept = ((one.path, (one.stamp, one.digest)) for one in self.found if one.digest)
        return {os.path.join(root, path): seen for path, seen in kept}


# -- new changes -------------------------------------------------------------------------------


def new_changes(
    scan_tree: Scan, known: Callable[[str], Row | None], by: str = ""
) -> list[FileChanged]:
    """Return the changes that the session does not have yet; `known` returns its row of a path."""
    found = (_change(one, known(one.path), by) for one in scan_tree.found)
    return [change for change in found if change is not None]


def _change(one: ChangedFile, row: Row | None, by: str) -> FileChanged | None:
    last = row if isinstance(row, File) else None
    existed = last.action != "deleted" if last else one.tracked
    if not one.exists:
        gone = FileChanged(path=one.path, action="deleted", agent=by, before=_before(one, last))
        return gone if existed else None
    if last and existed and last.after == one.digest:
        return None
    if not one.digest and last and not last.after:
        return None  # a large file has no digest, so only its first change is recorded
    return FileChanged(
        path=one.path,
        action="modified" if existed else "created",
        agent=by,
        added=one.added,
        removed=one.removed,
        before=_before(one, last) if existed else "",
        after=one.digest,
    )


def _before(one: ChangedFile, last: File | None) -> str:
    return (last.after if last else "") or one.committed


# -- scanning ----------------------------------------------------------------------------------


def scan_tree(
    tree: Tree,
    environ: Mapping[str, str],
    *,
    since: int,
    clock: Clock,
    known: Sequence[str] = (),
    seen: Callable[[Sequence[str]], Mapping[str, Seen]] = lambda paths: {},
) -> Scan:
    """Return the files of a tree that changed since a time in milliseconds.

    `known` are files of the session, which can be deleted by now; `seen` returns the stamp and
    digest of full paths at the last scan, so that unchanged files are not read again.
    """
    deadline = clock.monotonic() + _SECONDS
    answer = git.run_git(tree, environ, *_STATUS, timeout=_GIT_SECONDS)
    listed = None if answer is None else dict(entries(answer))
    is_whole = listed is not None or tree.git_dir is None
    if listed is None:
        listed = {} if tree.git_dir else dict.fromkeys(_walk(tree.root, clock, deadline), False)
    names = {**dict.fromkeys(known[:MOST_FILES], True), **listed}
    fresh = _changed_since(tree.root, names, max(0, since - _SLACK_MS))
    chosen = fresh[:MOST_FILES]
    found = list(_read(tree.root, chosen, names, clock, deadline, seen))
    whole = is_whole and len(found) == len(chosen)
    return Scan(tuple(_add_git_facts(tree, environ, found)), len(fresh) - len(chosen), whole)


def _changed_since(root: str, names: Iterable[str], since: int) -> list[str]:
    """Return the files changed since a time, latest first; a deleted one by its folder's time."""
    times = {name: _changed_at(os.path.join(root, name), root) for name in names}
    fresh = [name for name, at in times.items() if at >= since]
    return sorted(fresh, key=lambda name: (-times[name], name))


def _changed_at(path: str, root: str) -> int:
    """Return when a file was changed, in milliseconds; -1 if it is not a plain file."""
    try:
        facts = os.lstat(path)
    except (OSError, ValueError):
        return _folder_changed_at(os.path.dirname(path), root)
    is_file = stat.S_ISREG(facts.st_mode)
    return max(facts.st_mtime_ns, facts.st_ctime_ns) // 1_000_000 if is_file else -1


def _folder_changed_at(folder: str, root: str) -> int:
    while len(folder) >= len(root):
        try:
            return os.stat(folder).st_mtime_ns // 1_000_000
        except (OSError, ValueError):
            folder = os.path.dirname(folder)
    return -1


def _read(
    root: str,
    chosen: Sequence[str],
    names: Mapping[str, bool],
    clock: Clock,
    deadline: float,
    seen: Callable[[Sequence[str]], Mapping[str, Seen]],
) -> Iterator[ChangedFile]:
    """Read the chosen files until time is up."""
    before = seen([os.path.join(root, name) for name in chosen]) if chosen else {}
    for name in chosen:
        if clock.monotonic() > deadline:
            return
        full = os.path.join(root, name)
        met = full in before
        if not os.path.lexists(full):
            yield ChangedFile(name, exists=False, tracked=names[name], met=met)
            continue
        stamp, digest = _digest(full, before.get(full, ("", "")), clock.now())
        yield ChangedFile(name, stamp=stamp, digest=digest, tracked=names[name], met=met)


def _digest(full: str, known: Seen, now: int) -> Seen:
    try:
        large = os.path.getsize(full) > MOST_BYTES
    except OSError:
        return "", ""
    return ("", "") if large else workspace_tree.digest_of(full, known, now)


def _walk(root: str, clock: Clock, deadline: float) -> Iterator[str]:
    """Yield files below a folder, within limits of number and time."""
    stack, left = [""], _ENTRIES
    while stack and left > 0 and clock.monotonic() < deadline:
        inside = stack.pop()
        for entry in _entries(os.path.join(root, inside)):
            left -= 1
            below = f"{inside}/{entry.name}" if inside else entry.name
            if entry.name in _LEFT_OUT or left <= 0:
                continue
            if entry.is_dir(follow_symlinks=False):
                stack.append(below)
            elif _is_storable(below):
                yield below


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []


# -- git ---------------------------------------------------------------------------------------

# Options that prevent a repository's settings from running programs.
_STATUS = (
    *("-c", "core.fsmonitor=false", "-c", "core.untrackedCache=keep", "status"),
    *("--porcelain=v2", "-z", "--untracked-files=all", "--ignore-submodules=all", "--no-renames"),
)
_TRACKED = {b"1": 8, b"2": 9, b"u": 10}
"""The number of spaces before the path, by kind of line."""


def entries(answer: bytes) -> Iterator[tuple[str, bool]]:
    """Yield the path and whether git tracks it, by line of `git status --porcelain=v2 -z`."""
    lines = iter(answer.split(b"\0"))
    for line in lines:
        kind, _, rest = line.partition(b" ")
        if kind == b"?":
            name, tracked = rest, False
        elif kind in _TRACKED:
            name = line.split(b" ", _TRACKED[kind])[-1]
            tracked = line[2:3] != b"A"
            if kind == b"2":
                next(lines, b"")  # its previous path
        else:
            continue
        path = os.fsdecode(name)
        if path and not path.endswith("/") and _is_storable(path):
            yield path, tracked


def _is_storable(path: str) -> bool:
    try:
        return 0 < len(path.encode()) < 4096
    except UnicodeEncodeError:
        return False


def _add_git_facts(
    tree: Tree, environ: Mapping[str, str], found: list[ChangedFile]
) -> list[ChangedFile]:
    """Add the numbers of changed lines and the committed digests, from git."""
    tracked = [one.path for one in found if one.tracked]
    if not tracked:
        return found
    options = ("diff", "--numstat", "-z", "--no-ext-diff", "--no-textconv", "--no-renames")
    paths = (f":(literal){path}" for path in tracked)
    answer = git.run_git(tree, environ, *options, "HEAD", "--", *paths, timeout=_GIT_SECONDS)
    counts = dict(_parse_numstat(answer or b""))
    some = sorted(one.path for one in found if one.tracked and not one.met)[:_COMMITTED]
    complete = []
    for one in found:
        added, removed = counts.get(one.path, (None, None))
        committed = _committed_digest(tree, environ, one.path) if one.path in some else ""
        complete.append(replace(one, added=added, removed=removed, committed=committed))
    return complete


def _parse_numstat(answer: bytes) -> Iterator[tuple[str, tuple[int, int]]]:
    for line in answer.split(b"\0"):
        added, _, rest = line.partition(b"\t")
        removed, _, name = rest.partition(b"\t")
        if added.isdigit() and removed.isdigit() and name:
            yield os.fsdecode(name), (int(added), int(removed))


def _committed_digest(tree: Tree, environ: Mapping[str, str], path: str) -> str:
    size = git.run_git(tree, environ, "cat-file", "-s", f"HEAD:{path}", timeout=_GIT_SECONDS)
    if size is None or int(size) > MOST_BYTES:
        return ""
    content = git.run_git(tree, environ, "cat-file", "blob", f"HEAD:{path}", timeout=_GIT_SECONDS)
    return "" if content is None else digest_of(content)


# -- reported changes ---------------------------------------------------------------------------


def has_other_line_ends(full: str) -> bool:
    """Return whether a file has Windows line ends, which agents report as plain ones."""
    try:
        if files.is_irregular(full):
            return False
        with open(full, "rb") as file:
            return b"\r\n" in file.read(_SNIFFED)
    except (OSError, ValueError):
        return False


def complete_change(reported: FileChanged, root: str, now: int) -> tuple[FileChanged, Seen]:
    """Return a reported change with the file's present digest added, and the file's stamp.

    Agents report text with other line ends than the file has, or no text at all. The present file
    belongs to the last change; for an earlier one the digest stays unknown.
    """
    if reported.action == "deleted":
        return reported, ("", "")
    try:
        full = workspace_tree.absolute(reported.path, root)
        stamp, digest = _digest(full, ("", ""), now)
        data = files.read_bounded(full, MOST_BYTES) if digest not in ("", reported.after) else b""
    except ForestayError:
        return reported, ("", "")
    if not reported.after:
        return replace(reported, after=digest), (stamp, digest)
    if b"\r\n" in data:
        same = digest_of(data.replace(b"\r\n", b"\n")) == reported.after
        reported = replace(reported, before="", after=digest if same else "")
    return reported, (stamp, digest) if reported.after == digest else ("", "")
