"""Files that work touches: what a change to one amounts to, and keeping one as an artifact.

Digests are SHA-256 of the bytes. Content is kept only where the user asks for it (`artifact`)
or a plan names the file as the output of a phase, and never when it holds a secret: then the
digest alone is kept.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from hashlib import sha256

from msgspec import Struct
from msgspec.structs import replace

from holdfast import files, git
from holdfast.config import child_environment
from holdfast.errors import InvalidInput
from holdfast.model.event import ArtifactSaved, FileChanged
from holdfast.model.state import Artifact, File, Row
from holdfast.place import MAX_HASHED, Tree, absolute, file_facts, relative

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.place import Seen

MAX_ARTIFACT = 64 * 1024 * 1024
_HEX = frozenset("0123456789abcdef")
_SAME = "as it was"


def file_change(
    given: FileChanged, tree: Tree, known: Row | None, now: int
) -> tuple[FileChanged, Seen]:
    """Complete a change: action, digests and line counts, where they are absent.

    The second is stamp and digest of the file as it was then, empty where they are of no use.
    """
    path = given.path
    for digest in (given.before, given.after):
        if digest and (len(digest) != 64 or not _HEX.issuperset(digest)):
            raise InvalidInput(f"{digest[:20]} is no SHA-256", why="it has 64 hexadecimal digits")
    last = known.after if isinstance(known, File) else ""
    is_known = isinstance(known, File) and known.action != "deleted"
    full = absolute(path, tree.root)
    if os.path.lexists(full) and not os.path.isfile(full):
        raise InvalidInput(f"{path} is not a regular file", hint="name a file", file=path)
    facts = file_facts(full, now)
    there, stamp = (facts[0] or "", facts[1]) if facts else ("", "")
    # What is too large to be hashed is too large to be compared with what was committed.
    is_large = facts is not None and not there and os.path.getsize(full) > MAX_HASHED
    after = given.after or there
    before = given.before or last or ("" if is_large else _committed_digest(tree, path))
    if facts is None and not (given.action or given.after or before or isinstance(known, File)):
        hint = f"if it was deleted: holdfast file {shlex.quote(path)} --action deleted"
        raise InvalidInput(f"there is no such file: {path}", hint=hint, file=path)
    action = given.action or _action(exists=facts is not None, was_there=is_known or bool(before))
    if action == "deleted":
        after = given.after
    counts = {"added": given.added, "removed": given.removed}
    if given.added is None and given.removed is None and not is_large:
        counts = _line_counts(tree, path)
    body = replace(given, action=action, before=before, after=after, **counts)
    return body, (stamp if there else "", there)


def _action(*, exists: bool, was_there: bool) -> str:
    if not exists:
        return "deleted"
    return "modified" if was_there else "created"


def _git(tree: Tree, *arguments: str) -> bytes | None:
    return git.ask(tree, child_environment(), *arguments, timeout=5)


def _committed_digest(tree: Tree, path: str) -> str:
    content = _git(tree, "cat-file", "blob", f"HEAD:{path}")
    return "" if content is None else sha256(content).hexdigest()


def _line_counts(tree: Tree, path: str) -> dict[str, int | None]:
    found = _git(tree, "diff", "--numstat", "--no-ext-diff", "--no-textconv", "HEAD", "--", path)
    parts = (found or b"").split(b"\t")
    if len(parts) < 3 or not parts[0].isdigit() or not parts[1].isdigit():
        return {"added": None, "removed": None}
    return {"added": int(parts[0]), "removed": int(parts[1])}


def artifact(
    path: str, tree: Tree, secrets_in: Callable[[str], list[str]]
) -> tuple[ArtifactSaved, list[tuple[str, bytes]]]:
    """The event that keeps a file, and its content unless that holds secrets."""
    body, blobs, _ = saved(relative(path, tree.root), tree.root, secrets_in)
    return body, blobs


def saved(
    inside: str, root: str, secrets_in: Callable[[str], list[str]]
) -> tuple[ArtifactSaved, list[tuple[str, bytes]], bytes]:
    """The same for a file by its name inside a folder, with what it holds."""
    data = files.read_bounded(absolute(inside, root), MAX_ARTIFACT)
    digest = sha256(data).hexdigest()
    found = secrets_in(data.decode("utf-8", "replace"))
    body = ArtifactSaved(
        path=inside, digest=digest, size=len(data), kept=not found, redacted=sorted(set(found))
    )
    return body, [] if found else [(digest, data)], data


class Made(Struct, frozen=True):
    """Files that a piece of work should make, as they are: to be kept, and what is told of each.

    `told` is by path: `kept`, `as it was` when the same is kept already, `missing`, or why not.
    """

    bodies: list[ArtifactSaved] = []
    blobs: list[tuple[str, bytes]] = []
    told: dict[str, str] = {}


def outputs(
    paths: Sequence[str],
    root: str,
    secrets_in: Callable[[str], list[str]],
    known: Callable[[str], Row | None],
) -> Made:
    """What some expected files are now. One that cannot be kept is told, and stops nobody."""
    made, room = Made(), MAX_ARTIFACT
    for path in dict.fromkeys(paths):
        try:
            body, blobs, data = saved(path, root, secrets_in)
        except InvalidInput as error:
            made.told[path] = _why_not(error)
            continue
        word = made.told[path] = _word(body, known(path)) if len(data) <= room else "too large"
        if word not in (_SAME, "too large"):
            made.bodies.append(body)
            made.blobs.extend(blobs)
            room -= len(data)
    return made


def _why_not(error: InvalidInput) -> str:
    gone = isinstance(error.__cause__, FileNotFoundError | NotADirectoryError)
    return "missing" if gone else f"not kept: {error}"


def _word(body: ArtifactSaved, row: Row | None) -> str:
    if isinstance(row, Artifact) and row.digest == body.digest:
        return _SAME
    return "kept" if body.kept else "only its digest is kept, it holds a secret"
