"""Convert the files of one format to another; the source files are never changed.

Values that the target format has no field for are stored in it under the key `forestay`, and are
restored from there: converting there and back gives equal values, with the changes that other
programs made in between. Comments, quotes and indentation are not carried over.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from forestay.base import files
from forestay.base.findings import Finding
from forestay.errors import Damaged, InvalidInput
from forestay.formats import carry_over
from forestay.formats.port import ERROR, Tree, Where, canonical_name, load_format, require_id
from forestay.formats.text.document import Document, fresh, kind_of
from forestay.formats.text.safe_parse import Unreadable
from forestay.mirror import discover
from forestay.mirror.check_files import count_phases, require_definitions

_SURELY_READ = 100_000
"""A file of at most this size is below every limit of the parser."""


class Converted(Struct):
    """The new files by name, what their format has no field for, and the paths written."""

    format: str
    source: str
    native: str
    files: dict[str, bytes]
    carried: list[str]
    lost: list[str]
    written: list[str] = []


def convert(
    path: str, to: str, where: Where, *, native: str = "", workflows: str = ""
) -> Converted:
    """Return the session at a path in the format `to`, without writing it.

    `native` is its new id; `workflows` is the folder of workflow definitions.
    """
    format = load_format(canonical_name(to))
    require_definitions(workflows)
    if native:
        require_id(format, native)
    one = _only(path)
    # The number of phases comes from a workflow definition, or from an earlier conversion.
    known = one.facts(where).plan_total
    where = replace(where, total=count_phases(one, workflows) or known)
    tree, loss = carry_over.convert(one.format, one.tree, format, where, native_id=native)
    _require_inside(tree)
    documents = one.documents if one.format_id == format.id else {}
    made = {
        name: documents[name].rewrite(value) if name in documents else fresh(kind_of(name), value)
        for name, value in tree.items()
        if value is not None
    }
    id = format.get(tree, where).native_id
    lost = [*loss.lost, *_find_oversized(made)]
    if one.format_id != format.id:
        lost += [
            f"line {line.number} of {name}, which is not JSON"
            for name, document in one.documents.items()
            for line in document.bad
        ]
    return Converted(format.id, one.format_id, id, made, loss.carried, lost)


def _find_oversized(made: dict[str, bytes]) -> Iterator[str]:
    """Yield a message for each new file that is too large to be parsed again."""
    for name, data in made.items():
        try:
            if len(data) > _SURELY_READ:
                Document.parse(data, kind_of(name))
        except Unreadable as error:
            yield f"{name} is too large to be converted back: {error.message}"


def _require_inside(tree: Tree) -> None:
    """Refuse file names that lead out of the target folder.

    They contain the session id from the source file, which can be a path.
    """
    for name in tree:
        if carry_over.leads_out(name):
            raise InvalidInput(
                f"{name[:200]!r} leads out of the folder to write to",
                why="the id of the session is a path",
                hint="choose another id: --id ID",
            )


def default_target(path: str, made: Converted) -> str:
    """Return the default target: a path next to the source, with the new format in its name."""
    name = path.rstrip("/")
    folder = os.path.dirname(os.path.abspath(name))
    if folder in ("/dev", "/dev/fd") or folder.startswith("/proc/"):
        raise InvalidInput(
            f"no files can be written next to {path}", hint="name the target: -o OUT"
        )
    if os.path.basename(name) in ("", ".", ".."):
        # The source is the current folder: name the file after it, and write it there.
        name = os.path.normpath(os.path.join(path, os.path.basename(os.path.abspath(path))))
    target = f"{os.path.splitext(name)[0]}.{made.format}"
    ending = os.path.splitext(next(iter(made.files)))[1] if len(made.files) == 1 else ""
    return target + ending


def write(made: Converted, out: str) -> list[str]:
    """Write converted files: one to `out`, several below it. Existing files are never replaced."""
    return files.create_all(out, made.files)


def _only(path: str) -> discover.Find:
    finds = [one for one in discover.sessions(path) if one.format_id and not one.is_index]
    if len(finds) != 1:
        raise discover.not_one_session(path, finds)
    (one,) = finds
    faults = [fault for fault in one.damage if fault.severity == ERROR]
    if faults or not one.documents:
        fault = faults[0] if faults else Finding("", ERROR, "")
        damaged = one.paths.get(fault.file, one.path)
        raise Damaged(
            f"{damaged} cannot be read completely",
            why=f"{fault.what} (line {fault.line})" if fault.line else fault.what,
            hint=f"forestay doctor {shlex.quote(path)}",
            file=damaged,
        )
    return one
