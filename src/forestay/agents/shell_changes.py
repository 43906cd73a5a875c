"""Scan: which files a shell command changed, of which its agent tells nothing.

First a *look*: what git calls changed, or without git what a short walk meets, as far as it was
changed since a moment. Then, purely, what is *news*: a file whose digest is not the one that the
session knows. So a tree that was dirty before is no news, nor is what an agent's own edit told.

Everything is bounded: time, number, and what is read. What git ignores is not even listed, of a
large file only that it changed is seen, links are not followed, and git takes no lock.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256

from msgspec import Struct
from msgspec.structs import replace

from forestay.base import files
from forestay.base.clock import Clock
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
"""How many changed files are looked at; of more, those that changed last."""
MOST_BYTES = 8 * 1024 * 1024
"""A larger file is not read."""
_GIT_SECONDS = 2.0
_SECONDS = 0.5
_ENTRIES = 20_000
_SLACK_MS = 2_000
"""Clocks of disks are coarse, and those of containers are not quite the same."""
_COMMITTED = 20
_SNIFFED = 8192
_LEFT_OUT = frozenset(
    {".git", ".hg", ".svn", ".forestay", "node_modules", "__pycache__", ".venv", "venv", ".tox"}
    | {".mypy_cache", ".pytest_cache", ".ruff_cache", ".cache", "target", "dist", "build"}
)


class Found(Struct, frozen=True):
    """A file that was changed, as it is now: relative path, stamp, digest ("": not read).

    `met` says that it was read before, so that nobody has to ask what was committed.
    """

    path: str
    there: bool = True
    stamp: str = ""
    digest: str = ""
    tracked: bool = False
    met: bool = False
    committed: str = ""
    added: int | None = None
    removed: int | None = None


class Look(Struct, frozen=True):
    """What was met. `left` files were too many, `whole` is False if time ran out."""

    found: tuple[Found, ...] = ()
    left: int = 0
    whole: bool = True

    def seen(self, root: str) -> dict[str, Seen]:
        """Stamps and digests by full path, to be remembered."""
        kept = ((one.path, (one.stamp, one.digest)) for one in self.found if one.digest)
        return {os.path.join(root, path): seen for path, seen in kept}


# -- what is news ------------------------------------------------------------------------------


def news(look: Look, known: Callable[[str], Row | None], by: str = "") -> list[FileChanged]:
    """The changes of a look that a session does not know yet; `known` gives its row of a path."""
    found = (_change(one, known(one.path), by) for one in look.found)
    return [change for change in found if change is not None]


def _change(one: Found, row: Row | None, by: str) -> FileChanged | None:
    last = row if isinstance(row, File) else None
    was_there = last.action != "deleted" if last else one.tracked
    if not one.there:
        gone = FileChanged(path=one.path, action="deleted", agent=by, before=_before(one, last))
        return gone if was_there else None
    if last and was_there and last.after == one.digest:
        return None
    if not one.digest and last and not last.after:
        return None  # a large one that changes all the time is told once
    return FileChanged(
        path=one.path,
        action="modified" if was_there else "created",
        agent=by,
        added=one.added,
        removed=one.removed,
        before=_before(one, last) if was_there else "",
        after=one.digest,
    )


def _before(one: Found, last: File | None) -> str:
    return (last.after if last else "") or one.committed


# -- looking -----------------------------------------------------------------------------------


def look(
    tree: Tree,
    environ: Mapping[str, str],
    *,
    since: int,
    clock: Clock,
    known: Sequence[str] = (),
    seen: Callable[[Sequence[str]], Mapping[str, Seen]] = lambda paths: {},
) -> Look:
    """The files of a tree that changed since a moment, in milliseconds.

    `known` are files that the session knows, which may be gone; `seen` gives stamp and digest of
    full paths as they were last read, so that what did not change is not read again.
    """
    deadline = clock.monotonic() + _SECONDS
    listed = _listed(tree, environ)
    is_whole = listed is not None or tree.git_dir is None
    if listed is None:
        listed = {} if tree.git_dir else dict.fromkeys(_walked(tree.root, clock, deadline), False)
    names = {**dict.fromkeys(known[:MOST_FILES], True), **listed}
    fresh = _fresh(tree.root, names, max(0, since - _SLACK_MS))
    chosen = fresh[:MOST_FILES]
    found = list(_read(tree.root, chosen, names, clock, deadline, seen))
    whole = is_whole and len(found) == len(chosen)
    return Look(tuple(_told(tree, environ, found)), len(fresh) - len(chosen), whole)


def _fresh(root: str, names: Iterable[str], since: int) -> list[str]:
    """Those that changed since then, the last one first; what is gone counts by its folder."""
    times = {name: _changed_at(os.path.join(root, name), root) for name in names}
    fresh = [name for name, at in times.items() if at >= since]
    return sorted(fresh, key=lambda name: (-times[name], name))


def _changed_at(path: str, root: str) -> int:
    """When a file was changed, in milliseconds; -1 for what is no plain file."""
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
) -> Iterator[Found]:
    """The chosen files as they are, until time is up."""
    before = seen([os.path.join(root, name) for name in chosen]) if chosen else {}
    for name in chosen:
        if clock.monotonic() > deadline:
            return
        full = os.path.join(root, name)
        met = full in before
        if not os.path.lexists(full):
            yield Found(name, there=False, tracked=names[name], met=met)
            continue
        stamp, digest = _digest(full, before.get(full, ("", "")), clock.now())
        yield Found(name, stamp=stamp, digest=digest, tracked=names[name], met=met)


def _digest(full: str, known: Seen, now: int) -> Seen:
    try:
        large = os.path.getsize(full) > MOST_BYTES
    except OSError:
        return "", ""
    return ("", "") if large else workspace_tree.digest_of(full, known, now)


def _walked(root: str, clock: Clock, deadline: float) -> Iterator[str]:
    """Files below a folder without git, no more than so many and for so long."""
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


# -- asking git --------------------------------------------------------------------------------

# No program that a repository names is run for it.
_STATUS = (
    *("-c", "core.fsmonitor=false", "-c", "core.untrackedCache=keep", "status"),
    *("--porcelain=v2", "-z", "--untracked-files=all", "--ignore-submodules=all", "--no-renames"),
)
_TRACKED = {b"1": 8, b"2": 9, b"u": 10}
"""Where the path stands in a line of each kind, counted in spaces."""


def _listed(tree: Tree, environ: Mapping[str, str]) -> dict[str, bool] | None:
    """What git calls changed, and whether it was in the last commit; None if it cannot be asked."""
    answer = git.run_git(tree, environ, *_STATUS, timeout=_GIT_SECONDS)
    return None if answer is None else dict(entries(answer))


def entries(answer: bytes) -> Iterator[tuple[str, bool]]:
    """(path, whether it is tracked) of each line of `git status --porcelain=v2 -z`."""
    lines = iter(answer.split(b"\0"))
    for line in lines:
        kind, _, rest = line.partition(b" ")
        if kind == b"?":
            name, tracked = rest, False
        elif kind in _TRACKED:
            name = line.split(b" ", _TRACKED[kind])[-1]
            tracked = line[2:3] != b"A"
            if kind == b"2":
                next(lines, b"")  # where it was before
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


def _told(tree: Tree, environ: Mapping[str, str], found: list[Found]) -> list[Found]:
    """With what git knows: how many lines changed, and what a file was in the last commit."""
    tracked = [one.path for one in found if one.tracked]
    if not tracked:
        return found
    options = ("diff", "--numstat", "-z", "--no-ext-diff", "--no-textconv", "--no-renames")
    paths = (f":(literal){path}" for path in tracked)
    answer = git.run_git(tree, environ, *options, "HEAD", "--", *paths, timeout=_GIT_SECONDS)
    counts = dict(_numbers(answer or b""))
    some = {one.path for one in found if one.tracked and not one.met}
    some = set(sorted(some)[:_COMMITTED])
    return [_completed(tree, environ, one, counts, some) for one in found]


def _numbers(answer: bytes) -> Iterator[tuple[str, tuple[int, int]]]:
    for line in answer.split(b"\0"):
        added, _, rest = line.partition(b"\t")
        removed, _, name = rest.partition(b"\t")
        if added.isdigit() and removed.isdigit() and name:
            yield os.fsdecode(name), (int(added), int(removed))


def _completed(
    tree: Tree,
    environ: Mapping[str, str],
    one: Found,
    counts: Mapping[str, tuple[int, int]],
    some: set[str],
) -> Found:
    added, removed = counts.get(one.path, (None, None))
    committed = _committed(tree, environ, one.path) if one.path in some else ""
    return replace(one, added=added, removed=removed, committed=committed)


def _committed(tree: Tree, environ: Mapping[str, str], path: str) -> str:
    size = git.run_git(tree, environ, "cat-file", "-s", f"HEAD:{path}", timeout=_GIT_SECONDS)
    if size is None or int(size) > MOST_BYTES:
        return ""
    content = git.run_git(tree, environ, "cat-file", "blob", f"HEAD:{path}", timeout=_GIT_SECONDS)
    return "" if content is None else sha256(content).hexdigest()


# -- what an agent told of a file ---------------------------------------------------------------


def has_other_line_ends(full: str) -> bool:
    """Whether the first lines of a file end as those do that agents hand on otherwise."""
    try:
        if files.is_irregular(full):
            return False
        with open(full, "rb") as file:
            return b"\r\n" in file.read(_SNIFFED)
    except (OSError, ValueError):
        return False


def settled(told: FileChanged, root: str, now: int) -> tuple[FileChanged, Seen]:
    """A change as an agent told it, held against the file; and the file as it is seen.

    Agents hand on text with other ends of lines than the file has, or no text at all. What the
    file is now is true of the last change; of an earlier one then nothing is known.
    """
    if told.action == "deleted":
        return told, ("", "")
    try:
        full = workspace_tree.absolute(told.path, root)
        stamp, digest = _digest(full, ("", ""), now)
        data = files.read_bounded(full, MOST_BYTES) if digest not in ("", told.after) else b""
    except ForestayError:
        return told, ("", "")
    if not told.after:
        return replace(told, after=digest), (stamp, digest)
    if b"\r\n" in data:
        same = sha256(data.replace(b"\r\n", b"\n")).hexdigest() == told.after
        told = replace(told, before="", after=digest if same else "")
    return told, (stamp, digest) if told.after == digest else ("", "")
