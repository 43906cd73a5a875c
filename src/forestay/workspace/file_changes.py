"""Describe changes to files, and read files as artifacts.

Digests are SHA-256 of the bytes. Content is stored only if the user asks for it (`artifact`) or a
plan names the file as the output of a phase, and never if it holds a secret: then only the digest
is stored.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from hashlib import sha256

from msgspec import Struct
from msgspec.structs import replace

from forestay.base import files
from forestay.base.config import child_environment
from forestay.errors import InvalidInput
from forestay.model.event import ArtifactSaved, FileChanged
from forestay.model.state import Artifact, File, Row
from forestay.workspace import git
from forestay.workspace.tree import MAX_HASHED, Tree, absolute, file_facts, relative

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.workspace.tree import Seen

MAX_ARTIFACT = 64 * 1024 * 1024
_HEX = frozenset("0123456789abcdef")


def complete_change(
    given: FileChanged, tree: Tree, known: Row | None, now: int
) -> tuple[FileChanged, Seen]:
    """Return a change with its missing action, digests and line counts filled in.

    Return also the current stamp and digest of the file, both empty if they cannot be used later.
    """
    path = given.path
    for digest in (given.before, given.after):
        if digest and (len(digest) != 64 or not _HEX.issuperset(digest)):
            raise InvalidInput(
                f"{digest[:20]} is not a SHA-256", why="a SHA-256 has 64 hexadecimal digits"
            )
    last = known.after if isinstance(known, File) else ""
    is_known = isinstance(known, File) and known.action != "deleted"
    full = absolute(path, tree.root)
    if os.path.lexists(full) and not os.path.isfile(full):
        raise InvalidInput(f"{path} is not a regular file", hint="name a file", file=path)
    facts = file_facts(full, now)
    digest_now, stamp = (facts[0] or "", facts[1]) if facts else ("", "")
    # A file too large to hash is too large to compare with the committed one.
    is_large = facts is not None and not digest_now and os.path.getsize(full) > MAX_HASHED
    after = given.after or digest_now
    before = given.before or last or ("" if is_large else _committed_digest(tree, path))
    if facts is None and not (given.action or given.after or before or isinstance(known, File)):
        hint = f"if it was deleted, run: forestay record file {shlex.quote(path)} --action deleted"
        raise InvalidInput(f"there is no such file: {path}", hint=hint, file=path)
    guess = "deleted" if facts is None else "modified" if is_known or before else "created"
    action = given.action or guess
    if action == "deleted":
        after = given.after
    counts = {"added": given.added, "removed": given.removed}
    if given.added is None and given.removed is None and not is_large:
        counts = _line_counts(tree, path)
    body = replace(given, action=action, before=before, after=after, **counts)
    return body, (stamp if digest_now else "", digest_now)


def _git(tree: Tree, *arguments: str) -> bytes | None:
    return git.run_git(tree, child_environment(), *arguments, timeout=5)


def _committed_digest(tree: Tree, path: str) -> str:
    content = _git(tree, "cat-file", "blob", f"HEAD:{path}")
    return "" if content is None else sha256(content).hexdigest()


def _line_counts(tree: Tree, path: str) -> dict[str, int | None]:
    found = _git(tree, "diff", "--numstat", "--no-ext-diff", "--no-textconv", "HEAD", "--", path)
    parts = (found or b"").split(b"\t")
    if len(parts) < 3 or not parts[0].isdigit() or not parts[1].isdigit():
        return {"added": None, "removed": None}
    return {"added": int(parts[0]), "removed": int(parts[1])}


def build_artifact(
    path: str, tree: Tree, secrets_in: Callable[[str], list[str]]
) -> tuple[ArtifactSaved, list[tuple[str, bytes]]]:
    """Return the event that saves a file, and its content unless it holds secrets."""
    body, blobs, _ = read_artifact(relative(path, tree.root), tree.root, secrets_in)
    return body, blobs


def read_artifact(
    inside: str, root: str, secrets_in: Callable[[str], list[str]]
) -> tuple[ArtifactSaved, list[tuple[str, bytes]], bytes]:
    """Return the event, the blobs and the bytes for a file, by its path inside a folder."""
    data = files.read_bounded(absolute(inside, root), MAX_ARTIFACT)
    digest = sha256(data).hexdigest()
    found = secrets_in(data.decode("utf-8", "replace"))
    body = ArtifactSaved(
        path=inside, digest=digest, size=len(data), kept=not found, redacted=sorted(set(found))
    )
    return body, [] if found else [(digest, data)], data


class OutputFiles(Struct, frozen=True):
    """The expected output files of a phase: what to save, and the status of each path.

    A status is `kept`, `as it was` (the same content is stored already), `missing`, or the reason
    why the file is not saved.
    """

    bodies: list[ArtifactSaved] = []
    blobs: list[tuple[str, bytes]] = []
    statuses: dict[str, str] = {}


def collect_outputs(
    paths: Sequence[str],
    root: str,
    secrets_in: Callable[[str], list[str]],
    known: Callable[[str], Row | None],
) -> OutputFiles:
    """Read the expected files; one that cannot be saved only gets a status."""
    outputs, room = OutputFiles(), MAX_ARTIFACT
    for path in dict.fromkeys(paths):
        try:
            body, blobs, data = read_artifact(path, root, secrets_in)
        except InvalidInput as error:
            gone = isinstance(error.__cause__, FileNotFoundError | NotADirectoryError)
            outputs.statuses[path] = "missing" if gone else f"not kept: {error}"
            continue
        row = known(path)
        if len(data) > room:
            outputs.statuses[path] = "too large"
        elif isinstance(row, Artifact) and row.digest == body.digest:
            outputs.statuses[path] = "as it was"
        else:
            secret = "only its digest is kept, it holds a secret"
            outputs.statuses[path] = "kept" if body.kept else secret
            outputs.bodies.append(body)
            outputs.blobs.extend(blobs)
            room -= len(data)
    return outputs
