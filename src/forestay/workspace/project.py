"""Find the project that a tree belongs to.

A project is a local id with a set of *keys*, each a (kind, value). Keys of the *place* (`path`,
`gitdir`, `inode`) state where the main checkout is on this machine; *strong* keys (`marker`,
`remote`, `root`) state what it is, wherever it is. Two sets *agree* in a strong kind if they share
a value of it, and *clash* if both have values and share none.

A moved folder, a second clone and a fork have to be recognized by these keys. A wrong match would
write one project's work into another's sessions. So if keys contradict each other, or several
projects fit equally well, no project matches; projects are never merged.
"""

from __future__ import annotations

import os

from forestay.base import files
from forestay.workspace.tree import MARKER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from forestay.workspace.tree import Tree

    Key = tuple[str, str]
    Kinds = dict[str, set[str]]

STRONG = frozenset(("marker", "remote", "root"))
_CONFIG_LIMIT = 256 * 1024
_DEFAULT_PORTS = {"ssh": "22", "https": "443", "http": "80", "git": "9418"}

# How well a project fits, worst first.
_MOVED, _AGREES, _MOVED_AND_AGREES, _HERE, _MARKED = range(5)


# --- keys -------------------------------------------------------------------------------------


def place_keys(tree: Tree) -> list[Key]:
    """Return the keys of the place: path and inode of the main checkout, and its repository.

    This costs one `stat` call.
    """
    keys = [("path", tree.main)]
    if inode := inode_of(tree.main):
        keys.append(("inode", inode))
    if tree.common_dir:
        keys.append(("gitdir", tree.common_dir))
    return keys


def strong_keys(tree: Tree) -> list[Key]:
    """Return the strong keys that a few small files contain: marker and remote."""
    keys = []
    if marker := _marker(tree):
        keys.append(("marker", marker))
    if tree.common_dir and (remote := _remote(tree.common_dir)):
        keys.append(("remote", remote))
    return keys


def root_keys(tree: Tree, environ: Mapping[str, str], *, timeout: float = 2.0) -> list[Key]:
    """Return the first commits of the tree's history as keys; wait at most `timeout` seconds.

    Return nothing without git, and for a shallow clone, whose first commit is arbitrary.
    """
    if not tree.common_dir or os.path.exists(os.path.join(tree.common_dir, "shallow")):
        return []
    from forestay.workspace import git

    command = ("--no-replace-objects", "rev-list", "--max-parents=0", "HEAD", "--")
    found = git.run_git(tree, environ, *command, timeout=timeout) or b""
    # A history can have many first commits; a few are enough to recognize it.
    return [("root", line) for line in sorted(found.decode("ascii", "replace").split())[:16]]


def inode_of(path: str) -> str:
    """Return "device:inode" of the file or folder at `path`, or "" if there is none."""
    try:
        facts = os.stat(path)
    except (OSError, ValueError):
        return ""
    return f"{facts.st_dev}:{facts.st_ino}"


def write_marker(tree: Tree, project: str) -> str:
    """Write the marker file by which the project is recognized on any device; return its path."""
    path = os.path.join(tree.root, MARKER)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    except OSError as error:
        raise files.failure(error, "make the folder", os.path.dirname(path)) from error
    files.create(path, project.encode() + b"\n", 0o644)
    return path


def _marker(tree: Tree) -> str | None:
    # An untracked marker is missing in a worktree; then the main checkout has it.
    for folder in (tree.root, tree.main):
        text = files.read_text(os.path.join(folder, MARKER)) or ""
        if 8 <= len(text) <= 64 and text.isascii() and text.replace("-", "").isalnum():
            return text
    return None


# --- remotes ----------------------------------------------------------------------------------


def normalise_remote(url: str) -> str | None:
    """Return one form for all addresses of a repository: "host/path", without credentials.

    git@host:a/b.git, ssh://git@HOST:22/a/b/ and https://user:secret@host/a/b are the same. A folder
    on this machine is "/path". Return None for a relative folder or an address without a path.
    """
    text = url.strip()
    if len(text) > 2000 or not text.isprintable():
        return None
    scheme, found, rest = text.partition("://")
    if found:
        host, path = _from_url(scheme.lower(), rest)
    elif text.startswith("/"):
        host, path = "", text
    else:
        host, path = _from_scp(text)
    path = "/".join(filter(None, path.split("/"))).removesuffix(".git").rstrip("/")
    if not path or host is None:
        return None
    return f"{host.lower()}/{path}"


def _from_url(scheme: str, rest: str) -> tuple[str | None, str]:
    rest = rest.partition("?")[0].partition("#")[0]  # may contain tokens
    authority, _, path = rest.partition("/")
    host = authority.rpartition("@")[2]
    if scheme == "file":
        return "", path
    name, colon, port = host.rpartition(":")
    if colon and not host.endswith("]"):
        if not (name and port.isdigit()):
            return None, ""
        host = name if port == _DEFAULT_PORTS.get(scheme) else host
    return host or None, path


def _from_scp(text: str) -> tuple[str | None, str]:
    before, slash, after = text.partition("/")
    host, colon, path = (before.rpartition("@")[2] + slash + after).partition(":")
    # Without a colon it is a relative folder; C:\x is a folder on Windows.
    if not colon or "/" in host or len(host) < 2:
        return None, ""
    return host, path


def _remote(common_dir: str) -> str | None:
    urls = remote_urls(files.read_text(os.path.join(common_dir, "config"), _CONFIG_LIMIT) or "")
    if "origin" in urls:
        return normalise_remote(urls["origin"])
    return normalise_remote(*urls.values()) if len(urls) == 1 else None


def remote_urls(config: str) -> dict[str, str]:
    """Return the first URL of each remote in the text of a git config file."""
    import re

    header = re.compile(r'\s*\[\s*([\w.-]+)\s*(?:"((?:[^"\\]|\\.)*)"\s*)?\]')
    urls: dict[str, str] = {}
    remote = ""
    for line in config.replace("\\\n", "").split("\n"):
        if found := header.match(line):
            is_remote = found[1].lower() == "remote" and found[2]
            remote = re.sub(r"\\(.)", r"\1", found[2]) if is_remote else ""
            line = line[found.end() :]
        name, equals, raw = line.partition("=")
        if remote and equals and name.strip().lower() == "url":
            urls.setdefault(remote, _config_value(raw))
    return urls


def _config_value(raw: str) -> str:
    value, quoted, signs = "", False, iter(raw.strip())
    for sign in signs:
        if sign == "\\":
            value += next(signs, "")
        elif sign == '"':
            quoted = not quoted
        elif sign in "#;" and not quoted:
            break
        else:
            value += sign
    return value.strip()


# --- the decision -----------------------------------------------------------------------------


class KnownProject:
    """A project in the store: its keys, and the inode at each of its paths now."""

    __slots__ = ("id", "inodes", "keys")

    def __init__(self, id: str, keys: Iterable[Key], inodes: Mapping[str, str]) -> None:
        self.id, self.keys, self.inodes = id, frozenset(keys), inodes

    @classmethod
    def from_disk(cls, id: str, keys: Iterable[Key]) -> KnownProject:
        """Read the current inodes of its paths, which show whether a folder was moved."""
        keys = list(keys)
        return cls(id, keys, {v: inode_of(v) for kind, v in keys if kind == "path"})


def match_project(keys: Iterable[Key], known: Iterable[KnownProject]) -> tuple[str, bool]:
    """Return the known project that has these keys, "" if none, and whether that is certain.

    The best fit is accepted if it is the only one of its rank and no key contradicts it. It is
    certain unless only the inode matches. A missing key contradicts nothing, so pass all keys
    before a new project is created. The function is pure.
    """
    here = _by_kind(keys)
    fits = [(*fit, project.id) for project in known if (fit := _fit(here, project))]
    best = max((rank for rank, _, _ in fits), default=_MOVED)
    sound = [id for rank, is_contradicted, id in fits if rank == best and not is_contradicted]
    return (sound[0], best != _MOVED) if len(sound) == 1 else ("", False)


def _by_kind(keys: Iterable[Key]) -> Kinds:
    kinds: Kinds = {}
    for kind, value in keys:
        kinds.setdefault(kind, set()).add(value)
    return kinds


def _fit(here: Kinds, project: KnownProject) -> tuple[int, bool] | None:
    """Return how well a project fits, and whether strong keys clash; None if it does not fit."""
    theirs = _by_kind(project.keys)
    both = here.keys() & theirs.keys()
    same = {kind for kind in both if here[kind] & theirs[kind]}
    agree, clash = same & STRONG, (both - same) & STRONG
    if "marker" in same:
        return _MARKED, False
    # An old path that still leads to this very folder is a bind mount, not a move.
    is_mounted = "inode" in same and here["inode"] & set(project.inodes.values())
    if same & {"path", "gitdir"} or is_mounted:
        # The remote of a project can change. But if the marker changed, or no strong key is left,
        # the folder contains another project now.
        return _HERE, bool(clash) and ("marker" in clash or not agree)
    # An inode that contradicts the repository's strong keys was merely reused.
    if "inode" in same and not clash:
        return (_MOVED_AND_AGREES if agree else _MOVED), False
    return (_AGREES, bool(clash)) if agree else None
