"""Find the working tree, read its git state, and detect changes to its files.

A *tree* is the folder of the work: the current folder or the nearest one above it that has a `.git`
or a `.forestay/project` (the *marker*); if there is none, the current folder. A git *worktree* is a
separate tree that shares the repository of its *main* checkout. A path is stored *relative* to its
tree, with `/`, and never leads out of it. *Drift* is how files changed since they were last
recorded. The *stamp* of a file is its size, times and inode, which are known without reading it.

Everything is read from git's files, within bounds; no program is started. `project` decides which
project a tree belongs to, `base.process` which processes are alive.
"""

from __future__ import annotations

import os
import stat

from forestay.base import files
from forestay.base.clock import Clock
from forestay.errors import ForestayError, InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from forestay.base.clock import Clock

    Entry = tuple[str, str]
    Seen = tuple[str, str]

MARKER = os.path.join(".forestay", "project")
MAX_HASHED = 256 * 1024 * 1024
"""The size limit for hashing a file; of a larger one only the change is recorded."""
_PACKED_REFS_LIMIT = 1 << 20
_PATH_LIMIT = 4096
_INDEX_LIMIT = 1 << 28
_HEX = frozenset("0123456789abcdef")
# For how long two changes can get the same change time: a tick of any kernel, or two seconds on
# disks that store whole seconds.
_TICK_MS = 20
_COARSE_MS = 2_500


# --- the tree ---------------------------------------------------------------------------------


class Tree:
    """A working tree: its real path and identity, and its repository if it has one."""

    __slots__ = ("common_dir", "dev", "git_dir", "ino", "root")

    def __init__(
        self, root: str, dev: int, ino: int, git_dir: str | None, common_dir: str | None
    ) -> None:
        self.root, self.dev, self.ino = root, dev, ino
        self.git_dir, self.common_dir = git_dir, common_dir

    @property
    def is_worktree(self) -> bool:
        """Return whether it is a linked worktree that shares another checkout's repository."""
        return self.git_dir != self.common_dir

    @property
    def main(self) -> str:
        """Return the checkout that owns the repository; for a bare one, the repository itself."""
        if self.common_dir is None or not self.is_worktree:
            return self.root
        folder, name = os.path.split(self.common_dir)
        return folder if name == ".git" else self.common_dir

    def __repr__(self) -> str:
        return f"Tree({self.root!r}, git_dir={self.git_dir!r})"


def find_tree(cwd: str | None = None) -> Tree:
    """Return the tree around `cwd` (default: the current folder), symbolic links resolved.

    A `.git` marks a root even if it is damaged, so that a broken repository does not become part of
    the one above it; its git facts are then None.
    """
    try:
        start = os.path.realpath(os.getcwd() if cwd is None else cwd, strict=True)
        root, git_dir, common_dir = _root_above(start)
        facts = os.stat(os.path.join(root, "."))
    except PermissionError as error:
        raise files.failure(error, "read", cwd or "the current folder") from error
    except (OSError, ValueError) as error:
        which = "the current folder" if cwd is None else f"the folder {cwd[:200]!r}"
        raise InvalidInput(f"{which} does not exist", hint="cd to a folder that does") from error
    return Tree(root, facts.st_dev, facts.st_ino, git_dir, common_dir)


def is_plain(tree: Tree) -> bool:
    """Return whether nothing marks this folder as the root of a project."""
    marks = (".git", MARKER)
    return tree.git_dir is None and not any(
        os.path.lexists(os.path.join(tree.root, mark)) for mark in marks
    )


def head(tree: Tree) -> tuple[str | None, str | None]:
    """Return the checked-out branch and commit; None for one that is missing or slow to read.

    A detached head has only a commit, a repository without commits only a branch.
    """
    if tree.git_dir is None:
        return None, None
    text = files.read_text(os.path.join(tree.git_dir, "HEAD")) or ""
    if not text.startswith("ref: "):
        return None, text if _is_hash(text) else None
    name = text[5:].strip()
    if name == "refs/heads/.invalid":  # the placeholder of a repository with the reftable format
        return None, None
    return name.removeprefix("refs/heads/"), _commit_of(tree, name)


_OPERATIONS = {
    "MERGE_HEAD": "merge",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "BISECT_LOG": "bisect",
}


def git_operation(tree: Tree) -> str:
    """Return the git operation that is in progress (merge, rebase, …), or ""."""
    if tree.git_dir is None:
        return ""
    try:
        facts = os.stat(tree.git_dir)
    except OSError:
        return ""
    # Each operation leaves a file in one folder: while the folder is unchanged, so is the answer.
    stamp = files.stamp_of(facts)
    if _IDLE_STAMPS.get(tree.git_dir) == stamp:
        return ""
    names = (n for n in _OPERATIONS if os.path.lexists(os.path.join(tree.git_dir or "", n)))
    operation = _OPERATIONS.get(next(names, ""), "")
    if not operation and _is_settled(facts, Clock().now()):
        _IDLE_STAMPS[tree.git_dir] = stamp
    return operation


_IDLE_STAMPS: dict[str, str] = {}


def is_tracked(tree: Tree, path: str) -> bool:
    """Return whether git tracks a file of this tree, by the names in its index.

    Version 4 of the index shortens names; there the last part of the name is compared.
    """
    inside = _relative_to(os.path.realpath(path), tree.root)
    if tree.git_dir is None or inside is None:
        return False
    try:
        index = files.read_bounded(os.path.join(tree.git_dir, "index"), _INDEX_LIMIT)
    except ForestayError:
        return False
    if index[4:8] == b"\0\0\0\4":
        return os.fsencode(os.path.basename(inside)) + b"\0" in index
    return _has_entry(index, os.fsencode(inside))


def _has_entry(index: bytes, name: bytes) -> bool:
    """Return whether the git index has exactly this name; the length before it is compared, too."""
    at = index.find(name + b"\0")
    while at >= 0:
        lengths = (int.from_bytes(index[at - n : at - n + 2], "big") & 0xFFF for n in (2, 4))
        if at > 12 and min(len(name), 0xFFF) in lengths:
            return True
        at = index.find(name + b"\0", at + 1)
    return False


def _root_above(start: str) -> tuple[str, str | None, str | None]:
    folder = start
    while True:
        if os.path.lexists(os.path.join(folder, ".git")):
            return folder, *_repository(folder)
        if os.path.lexists(os.path.join(folder, MARKER)):
            return folder, None, None
        entries = (("HEAD", os.path.isfile), ("objects", os.path.isdir), ("refs", os.path.isdir))
        is_bare = all(is_there(os.path.join(folder, name)) for name, is_there in entries)
        if is_bare and os.path.basename(folder) != ".git":  # there the tree is the folder above
            return folder, folder, folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return start, None, None
        folder = parent


def _repository(folder: str) -> tuple[str | None, str | None]:
    """Return the git folder of a checkout and the shared one, if they are intact."""
    git_dir = os.path.join(folder, ".git")
    if not os.path.isdir(git_dir):
        # In worktrees and submodules `.git` is a file that names the real folder.
        pointer = files.read_text(git_dir) or ""
        if not pointer.startswith("gitdir: "):
            return None, None
        git_dir = os.path.join(folder, pointer[8:].strip())
    git_dir = os.path.realpath(git_dir)
    if not os.path.isfile(os.path.join(git_dir, "HEAD")):
        return None, None
    shared = files.read_text(os.path.join(git_dir, "commondir"))
    return git_dir, os.path.realpath(os.path.join(git_dir, shared)) if shared else git_dir


def _commit_of(tree: Tree, name: str) -> str | None:
    for _ in range(5):  # a ref can name another; git stops after five, too
        # The text comes from a file: it must not lead us out of the repository.
        if not name.startswith("refs/") or ".." in name:
            return None
        # A worktree has a few refs of its own; branches are in the shared folder.
        folders = [folder for folder in (tree.git_dir, tree.common_dir) if folder]
        loose = (files.read_text(os.path.join(folder, name)) for folder in folders)
        text = next(filter(None, loose), "") or _packed(tree, name)
        if not text.startswith("ref: "):
            return text if _is_hash(text) else None
        name = text[5:].strip()
    return None


def _packed(tree: Tree, name: str) -> str:
    path = os.path.join(tree.common_dir or "", "packed-refs")
    for line in (files.read_text(path, _PACKED_REFS_LIMIT) or "").split("\n"):
        commit, _, packed = line.partition(" ")
        if packed == name:
            return commit
    return ""


def _is_hash(text: str) -> bool:
    return len(text) in (40, 64) and _HEX.issuperset(text)


# --- paths ------------------------------------------------------------------------------------


def relative(path: str, root: str, *, cwd: str | None = None) -> str:
    """Return the stored form of a path inside the tree; raise InvalidInput if it leads out.

    A relative path starts at `cwd`. A symbolic link inside the tree is recorded under its own name,
    wherever it points to. `root` must not contain links.
    """
    _require_storable(path)
    # Two leading slashes equal one, but normpath leaves them.
    full = "/" + os.path.join(cwd or os.getcwd(), path).lstrip("/")
    inside = _relative_to(os.path.normpath(full), root)
    # "link/../x" is not "x", and the path to the tree may itself contain a link.
    if inside is None or ".." in path.split("/"):
        folder, name = os.path.split(full)
        is_name = name not in ("", ".", "..")
        real = os.path.join(os.path.realpath(folder), name) if is_name else os.path.realpath(full)
        inside = _relative_to(real, root)
    if inside is None:
        raise InvalidInput(
            f"{path[:200]} is outside of {root}", hint="name a file of the project", file=path
        )
    return inside


def absolute(stored: str, root: str) -> str:
    """Return the real path of a stored path, which can come from an untrusted file or device.

    Raise InvalidInput if it is not a plain path below the tree, or if links lead out of the tree.
    """
    _require_storable(stored)
    full = os.path.join(root, stored)
    if stored.startswith("/") or ".." in stored.split("/"):
        raise InvalidInput(f"{stored[:200]!r} is not a path inside the project", file=stored)
    if _relative_to(os.path.realpath(full), root) is None:
        raise InvalidInput(f"{stored[:200]!r} leads out of {root} by a symbolic link", file=stored)
    return os.path.normpath(full)


def _require_storable(path: str) -> None:
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        what = f"the path is not UTF-8: {path[:200]!r}"
        raise InvalidInput(what, hint="rename the file") from None
    if not path or "\0" in path or size > _PATH_LIMIT:
        why = f"a path has 1 to {_PATH_LIMIT} bytes and no NUL"
        raise InvalidInput(f"not a path: {path[:200]!r}", why=why)


def _relative_to(path: str, root: str) -> str | None:
    if path == root:
        return "."
    prefix = root.rstrip("/") + "/"
    return path[len(prefix) :] if path.startswith(prefix) else None


# --- drift ------------------------------------------------------------------------------------


def file_facts(path: str, now: int) -> tuple[str | None, str] | None:
    """Return the SHA-256 and the stamp of a file; None if the file does not exist.

    The digest is None if it is not a regular file, cannot be read, or is larger than `MAX_HASHED`.
    The stamp is read before the bytes, so a change while hashing shows as a difference later. It is
    empty if a change soon after `now` (in milliseconds) could leave it the same.
    """
    try:
        facts = os.stat(path)
    except (OSError, ValueError):
        return None
    return _digest(path), files.stamp_of(facts) if _is_settled(facts, now) else ""


def digest_of(path: str, known: Seen, now: int) -> Seen:
    """Return the stamp and SHA-256 of a file; read the file only if its stamp differs from `known`.

    Both are those of `file_facts`; the digest is empty if the file could not be read.
    """
    try:
        if known[0] and known[0] == files.stamp_of(os.stat(path)):
            return known
    except (OSError, ValueError):
        return "", ""
    digest, stamp = file_facts(path, now) or (None, "")
    return stamp, digest or ""


def _is_settled(facts: os.stat_result, now: int) -> bool:
    """Return whether a change from now on would get another change time than the last one."""
    whole_seconds = facts.st_ctime_ns % 1_000_000_000 == 0
    return facts.st_ctime_ns // 1_000_000 + (_COARSE_MS if whole_seconds else _TICK_MS) <= now


def path_exists(stored: str, root: str) -> bool:
    """Return whether something exists under a stored path inside the tree."""
    try:
        return os.path.lexists(absolute(stored, root))
    except InvalidInput:
        return False


def check_drift(
    entries: Sequence[Entry],
    seen: Mapping[str, Seen],
    limit: int,
    ms: int,
    *,
    root: str,
    clock: Clock,
) -> list[tuple[str, str]]:
    """Return (path, "same" | "changed" | "missing" | "not checked") for each file.

    An entry is a recorded pair (stored path, digest); `seen` has the stamp and digest of paths that
    were hashed before. A file with the same stamp has the same digest, so only other files are
    hashed. At most `limit` files are checked, for about `ms` milliseconds; the rest, and files that
    are too large for that time, are "not checked".
    """
    deadline = clock.monotonic() + ms / 1000
    found = []
    for index, entry in enumerate(entries):
        in_time = index < limit and clock.monotonic() < deadline
        verdict = _verdict(entry, seen, root, clock, deadline) if in_time else "not checked"
        found.append((entry[0], verdict))
    return found


def _verdict(
    entry: Entry, seen: Mapping[str, Seen], root: str, clock: Clock, deadline: float
) -> str:
    path, digest = entry
    try:
        full = absolute(path, root)
        facts = os.stat(full)
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except (ForestayError, OSError):
        return "not checked"
    if not stat.S_ISREG(facts.st_mode):
        return "changed"
    if not digest:
        return "not checked"
    stamp, known = seen.get(path, ("", ""))
    now = known if stamp == files.stamp_of(facts) else _digest(full, clock, deadline)
    return "not checked" if now is None else "same" if now == digest else "changed"


def _digest(path: str, clock: Clock | None = None, deadline: float = 0.0) -> str | None:
    from hashlib import sha256

    digest, left = sha256(), MAX_HASHED
    try:
        if os.path.getsize(path) > MAX_HASHED:
            return None
        for chunk in files.read_chunks(path):
            digest.update(chunk)
            left -= len(chunk)
            if left < 0 or (clock is not None and clock.monotonic() > deadline):
                return None
    except (ForestayError, OSError):
        return None
    return digest.hexdigest()
