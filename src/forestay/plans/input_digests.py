"""Digest the input files of a command, named by patterns.

A *pattern* is relative to the project root: `src/**` is everything below `src`, `*.py` the Python
files in the root, `a?.[ch]` as in a shell, a plain name the file or the whole folder. A *manifest*
maps the paths to SHA-256 digests, as sorted JSON; two manifests are equal exactly if nothing was
changed, added, deleted or renamed.

Nothing outside the project is read. The `.git` folder, files ignored by git, caches and files
written by Forestay are left out. A symbolic link counts by its target, and by the content if the
target is a file of the project; links to folders are not followed.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256

from msgspec import Struct

from forestay.errors import ForestayError, InvalidInput
from forestay.workspace import git
from forestay.workspace import tree as workspace_tree
from forestay.workspace.tree import Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.workspace.tree import Seen

MAX_FILES = 20_000
MAX_BYTES = 2 << 30
MAX_GLOBS = 50
_MAX_GLOB = 500
_GIT_SECONDS = 20.0
_LEFT_OUT = frozenset({".git", ".forestay", "__pycache__"})
_CACHE = "CACHEDIR.TAG"
_SPAN = "(?:[^/]+/)*"
_WILD = re.compile(r"[*?\[]")


class Manifest(Struct, frozen=True):
    """Digests by path, and stamps with digests by path for the next check."""

    files: dict[str, str]
    seen: dict[str, tuple[str, str]]

    @property
    def data(self) -> bytes:
        text = json.dumps(self.files, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        return text.encode("utf-8", "backslashreplace")


def parse(data: bytes) -> dict[str, str]:
    """Parse a stored manifest; return an empty one if it is invalid."""
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def differences(then: Mapping[str, str], now: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return (path, "changed" | "missing" | "new") for each difference, by path."""
    gone = [(path, "missing") for path in then.keys() - now.keys()]
    new = [(path, "new") for path in now.keys() - then.keys()]
    both = [(p, "changed") for p in then.keys() & now.keys() if then[p] != now[p]]
    return sorted([*gone, *new, *both])


# -- patterns ----------------------------------------------------------------------------------


def checked(globs: Sequence[str]) -> list[str]:
    """Normalize patterns; refuse too many, and any that leads out of the project."""
    if len(globs) > MAX_GLOBS:
        raise InvalidInput(f"{len(globs)} patterns are too many", why=f"at most {MAX_GLOBS}")
    return [_checked(glob) for glob in globs]


def _checked(glob: str) -> str:
    clean = glob.removeprefix("./").rstrip("/") if glob not in ("/", ".", "./") else glob[:1]
    if clean == ".":
        return "**"
    bad = ""
    if not clean or not clean.isprintable() or len(clean) > _MAX_GLOB:
        bad = f"a pattern is one line of 1 to {_MAX_GLOB} characters"
    elif clean.startswith("/") or ".." in clean.split("/"):
        bad = "inputs are relative to the project root and inside the project"
    if bad:
        raise InvalidInput(
            f"not a pattern for inputs: {glob[:100]!r}", why=bad, hint="--inputs 'src/**'"
        )
    return clean


def matcher(globs: Sequence[str]) -> Callable[[str], object]:
    try:
        return re.compile("|".join(f"(?:{_regex(glob)})" for glob in globs), re.DOTALL).fullmatch
    except re.error as error:
        raise InvalidInput(f"{', '.join(globs)} is not a valid pattern", why=str(error)) from error


def _regex(glob: str) -> str:
    """Translate a pattern: `**` spans folders, other wildcards do not."""
    blocks: list[str] = [""]
    for part in glob.split("/"):
        if part != "**":
            blocks[-1] += f"{_segment(part)}/"
        elif blocks[-1] or len(blocks) == 1:
            blocks.append("")
    first, *middle, last = blocks if len(blocks) > 1 else ["", *blocks]
    # Atomic: the first match of a part is final, so matching stays linear.
    whole = first + "".join(f"(?>{_SPAN}?{block})" for block in middle)
    whole += (_SPAN if len(blocks) > 1 else "") + last
    return f"{whole.removesuffix('/')}(?:/.*)?" if last else f"{whole}[^/]+"


def _segment(part: str) -> str:
    """Translate one path segment, with atomic groups so that matching stays linear."""
    fixed = [_fixed(piece) for piece in re.split(r"\*+", part)]
    if len(fixed) == 1:
        return fixed[0]
    first, *middle, last = fixed
    return first + "".join(f"(?>[^/]*?{piece})" for piece in middle) + f"[^/]*{last}"


def _fixed(piece: str) -> str:
    def one(match: re.Match[str]) -> str:
        word = match.group()
        if word == "?":
            return "[^/]"
        if len(word) == 1:
            return re.escape(word)
        inner = re.sub(r"([\\\[\]^&~|])", r"\\\1", word[1:-1].removeprefix("!"))
        return f"(?!/)[{'^' if word[1] == '!' else ''}{inner}]"

    return re.sub(r"\[!?[^\]/]+\]|.", one, piece)


def _beginnings(globs: Sequence[str]) -> list[str]:
    """Return the folders or files below which all matches must be; [] for the whole tree."""
    found = []
    for glob in globs:
        plain: list[str] = []
        for part in glob.split("/"):
            if _WILD.search(part):
                break
            plain.append(part)
        if not plain:
            return []
        found.append("/".join(plain))
    return sorted(set(found))


# -- files -------------------------------------------------------------------------------------


def manifest(
    globs: Sequence[str],
    tree: Tree,
    environ: Mapping[str, str],
    *,
    now: Callable[[], int],
    seen: Callable[[Sequence[str]], Mapping[str, Seen]],
    ours: Iterable[str] = (),
    name: Callable[[str], str] = str,
) -> Manifest:
    """Digest the files that the patterns match; a file whose stamp is in `seen` is not read.

    `ours` are files that Forestay writes; `name` returns a path without secrets, for storing.
    """
    paths = found(globs, tree, environ, ours)
    if len(paths) > MAX_FILES:
        raise InvalidInput(
            f"{', '.join(globs)} matches {len(paths):,} files",
            why=f"at most {MAX_FILES:,} can be inputs of a proof",
            hint="name fewer: --inputs 'src/**/*.py'",
        )
    known, room = seen(paths), MAX_BYTES
    files: dict[str, str] = {}
    stamps: dict[str, Seen] = {}
    for path in paths:
        facts = _facts(path, tree.root, known.get(path, ("", "")), now())
        if facts is None:
            continue
        size, stamp, digest = facts
        room -= size
        if room < 0:
            raise InvalidInput(
                f"the files matching {', '.join(globs)} are too large",
                why=f"over {MAX_BYTES >> 30} GB in all would have to be read",
                hint="name fewer: --inputs 'src/**/*.py'",
            )
        files[name(path)] = digest
        if stamp:
            stamps[path] = (stamp, digest)
    return Manifest(files, stamps)


def found(
    globs: Sequence[str], tree: Tree, environ: Mapping[str, str], ours: Iterable[str] = ()
) -> list[str]:
    """Return the files that the patterns match, sorted, relative to the root."""
    if not globs:
        return []
    matches, written = matcher(globs), set(ours)
    listed = _listed_by_git(globs, tree, environ)
    names = _walked(_beginnings(globs) or [""], tree.root) if listed is None else listed
    wanted = {n for n in names if _LEFT_OUT.isdisjoint(n.split("/")) and matches(n)}
    return sorted(n for n in wanted if os.path.join(tree.root, n) not in written)


def _listed_by_git(
    globs: Sequence[str], tree: Tree, environ: Mapping[str, str]
) -> list[str] | None:
    """Return tracked and untracked files that git does not ignore; None without git."""
    paths = [f":(literal){start}" for start in _beginnings(globs)]
    options = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *paths)
    answer = git.run_git(tree, environ, *options, timeout=_GIT_SECONDS)
    if answer is None:
        return None
    return [os.fsdecode(name) for name in answer.split(b"\0") if name]


def _walked(starts: Sequence[str], root: str) -> Iterator[str]:
    """Yield files below folders, or the files themselves; links are not followed."""
    stack = [start for start in starts if _within(start, root)]
    while stack:
        inside = stack.pop()
        full = os.path.join(root, inside)
        if inside and (os.path.islink(full) or not os.path.isdir(full)):
            yield inside
            continue
        try:
            names = os.listdir(full)
        except OSError as error:
            why = str(error.strerror).lower()
            raise InvalidInput(f"the folder {full} cannot be read", why=why, file=full) from error
        if not (_CACHE in names and inside):
            kept = [name for name in names if name not in _LEFT_OUT]
            stack += [f"{inside}/{name}" if inside else name for name in kept]


def _within(start: str, root: str) -> bool:
    """Return whether a path contains no link that leads out of the project."""
    try:
        workspace_tree.absolute(os.path.dirname(start) or ".", root)
    except ForestayError:
        return False
    return os.path.lexists(os.path.join(root, start))


def _facts(path: str, root: str, known: Seen, now: int) -> tuple[int, str, str] | None:
    """Return size, stamp and digest of a file; None if it was deleted or is not a file."""
    full = os.path.join(root, path)
    try:
        facts = os.lstat(full)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISLNK(facts.st_mode):
        return _link(path, root, now)
    if not stat.S_ISREG(facts.st_mode):
        return None
    if facts.st_size > workspace_tree.MAX_HASHED:
        raise InvalidInput(
            f"{path} is too large to be an input",
            why=f"{facts.st_size:,} bytes; at most {workspace_tree.MAX_HASHED:,}",
            file=path,
        )
    stamp, digest = workspace_tree.digest_of(full, known, now)
    if not digest:
        raise InvalidInput(f"{path} cannot be read", hint=f"ls -l {path}", file=path)
    return facts.st_size, stamp, digest


def _link(path: str, root: str, now: int) -> tuple[int, str, str] | None:
    full = os.path.join(root, path)
    try:
        content = b"link " + os.fsencode(os.readlink(full))
    except OSError:
        return None
    try:
        inside = os.path.isfile(workspace_tree.absolute(path, root))
    except ForestayError:
        inside = False
    if inside:
        content += b"\0" + workspace_tree.digest_of(full, ("", ""), now)[1].encode()
    return 0, "", sha256(content).hexdigest()
