"""Remove the files of an erased session, and erased events from the files of a session.

A file is removed if its bytes are one of our stored renderings. Other files were edited, and stay
unless `force` is given. A file that several sessions share loses only the session's entry. Read the
list of files (`list_owned`) before the journal erases the session.

After events were erased, files are written again in the usual way. What a format carries over from
the old file can still contain the erased text: then the file is removed and written from the
journal alone. A log only loses the lines with the text. A concurrent edit is not lost, because a
file is renamed before its bytes are compared.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any

from msgspec import Struct

from forestay.base import files, swap_file
from forestay.base.clock import Clock
from forestay.errors import ForestayError
from forestay.formats.port import conventions_of, load_format
from forestay.formats.text.document import Document, kind_of
from forestay.mirror.context import MAX_BYTES, MirrorContext, has_no_link, parse_file, paths_of
from forestay.mirror.edit_shared_file import amend, amend_lines
from forestay.mirror.read_files import is_log, most, require_inside
from forestay.store.machine.bindings import Binding

_LEAST, _BEGINNING = 6, 24
"""The least length of a text that is searched for in files, and how many characters must match."""


class Owned(Struct):
    """The files of a binding: path → digests of all renderings that we wrote there."""

    binding: Binding
    paths: dict[str, set[str]]
    shared: list[str]
    logs: list[str]
    """Logs, which grow line by line: their title instead of a digest shows that they are ours."""


def list_owned(context: MirrorContext, session: str) -> list[Owned]:
    return [_owned_files(context, binding) for binding in context.bindings.bindings(session)]


def _owned_files(context: MirrorContext, binding: Binding) -> Owned:
    known = context.bindings.renderings(binding)
    customs = conventions_of(binding.format)
    paths: dict[str, set[str]] = {}
    for name, path in paths_of(binding).items():
        if name not in customs.shared:
            paths[path] = {rendering.digest for rendering in known.get(name, [])}
    if customs.backup:
        paths[f"{binding.place}{customs.backup}"] = paths[binding.place]
    shared = [os.path.join(binding.root, name) for name in customs.shared]
    logs = [os.path.join(binding.root, name) for name in customs.line_logs]
    return Owned(binding, paths, shared, logs)


def split_by_edits(one: Owned, *, force: bool) -> tuple[list[str], list[str]]:
    """Return which files of a binding would be removed, and which would stay because of edits."""
    there = [path for path in one.paths if os.path.lexists(path)]
    ours = [path for path in there if force or _digest(path) in one.paths[path]]
    logs = [path for path in one.logs if os.path.lexists(path)]
    ours += [path for path in logs if force or _is_log(path)]
    return ours, [path for path in (*there, *logs) if path not in ours]


def remove(one: Owned, *, force: bool, clock: Clock) -> tuple[list[str], list[str]]:
    """Remove the files of a binding; return the removed files, and those that can contain text."""
    binding = one.binding
    if not os.path.isdir(binding.root):
        return [], []
    if not has_no_link(binding.root, {os.sep}):
        return [], [binding.root]  # links are not followed
    with files.locked(binding.root, clock=clock):
        # Do this first: a file that is edited while we remove it stays under a displaced name.
        for path in one.paths:
            for torn in swap_file.leftovers(path) if _is_inside(binding.root, path) else ():
                files.remove(torn)
        ours, left = split_by_edits(one, force=force)
        gone: list[str] = []
        for path in ours:
            known = None if force else one.paths.get(path)
            (gone if _unlink(binding.root, path, known) else left).append(path)
        for path in one.shared:
            left += _remove_entry(binding, path)
    _remove_empty_folders(binding)
    return gone, left


def _is_inside(root: str, path: str) -> bool:
    """Return whether a file is below a root without passing through a link."""
    try:
        require_inside(root, os.path.dirname(path))
    except ForestayError:
        return False
    return True


def _digest(path: str, limit: int = 0) -> str:
    try:
        return sha256(files.read_bounded(path, limit or most(path), follow=False)).hexdigest()
    except ForestayError:
        return ""


def _is_log(path: str) -> bool:
    """Return whether a log begins with a title of ours."""
    try:
        data = files.read_bounded(path, MAX_BYTES, follow=False)
    except ForestayError:
        return False
    return data.startswith(b"# ")


def _unlink(root: str, path: str, known: set[str] | None) -> bool:
    """Remove a file; with `known` digests, only if its bytes have one of them.

    The file is renamed before its bytes are compared, so that no concurrent edit is removed.
    """
    aside = files.temporary_name(path)
    try:
        require_inside(root, os.path.dirname(path))
        os.rename(path, aside)
        if known is not None and _digest(aside, most(path)) not in known:
            # Move it back; if a newer file exists by now, it stays under the other name.
            os.link(aside, path, follow_symlinks=False)
            os.unlink(aside)
            return False
        os.unlink(aside)
        files.sync_folder(os.path.dirname(path))
    except (OSError, ForestayError):
        return False
    return True


def _remove_entry(binding: Binding, path: str) -> list[str]:
    """Remove a session's entry from a shared file; return the file if that is impossible."""

    def without_entry(data: bytes) -> bytes:
        document, format = Document.parse(data, kind_of(path)), load_format(binding.format)
        return document.rewrite(format.with_entries(document.value, None, {binding.native}))

    try:
        if os.path.lexists(path):
            amend(path, without_entry)
    except ForestayError:
        return [path]
    return []


def _remove_empty_folders(binding: Binding) -> None:
    """Remove the session's lock file, and its own folders if they are empty."""
    customs = conventions_of(binding.format)
    own = os.path.join(binding.root, binding.native)
    lock = os.path.join(binding.root, customs.lock.format(id=binding.native))
    if os.path.dirname(customs.lock) and _is_inside(binding.root, lock):
        files.remove(lock)
        folders = [folder.format(id=binding.native) for folder in customs.folders]
        for folder in (*(os.path.join(binding.root, name) for name in folders), own):
            try:
                os.rmdir(folder)
            except OSError:
                continue  # not empty


# -- events --------------------------------------------------------------------------------------


def searched_texts(values: Iterable[Any]) -> list[str]:
    """Return what to search for in files: the beginnings of erased texts, on one line each."""
    found = (" ".join(text.split()) for value in values for text in _texts(value))
    return sorted({text[:_BEGINNING] for text in found if len(text) >= _LEAST})


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from (key, *_texts(each)) if isinstance(key, str) else _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)


def cleanse(
    context: MirrorContext, session: str, words: Sequence[str], write: Callable[[], object]
) -> tuple[list[str], list[str]]:
    """Update the files of a session after events were erased.

    Return the files that were written from the journal alone, and those that can still contain the
    erased text.
    """
    write()
    found = [
        (one, path)
        for one in list_owned(context, session)
        for path in (*one.paths, *one.logs)
        if _contains(path, words)
    ]
    ours = [(one, path) for one, path in found if _digest(path) in one.paths.get(path, ())]
    if ours:
        # Do this before files are removed: after a crash they must not be restored from old
        # renderings.
        context.bindings.forget(session)
    begun = [p for one, p in ours if _remove_text(one.binding.root, p, one.paths[p], words)]
    left = [path for _, path in found if path not in begun]
    if begun:
        write()
    return [p for p in begun if not _contains(p, words)], left + [
        p for p in begun if _contains(p, words)
    ]


def _remove_text(root: str, path: str, known: set[str], words: Sequence[str]) -> bool:
    """Remove a file with erased text; from a log, which other programs extend, only the lines."""
    if not is_log(path):
        return _unlink(root, path, known)

    def rest(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        return b"".join(line for line in lines if not _has_text(path, line, words))

    try:
        require_inside(root, os.path.dirname(path))
        amend_lines(path, rest, most(path))
    except ForestayError:
        return False
    return True


def _contains(path: str, words: Sequence[str]) -> bool:
    try:
        data = files.read_optional(path, most(path), follow=False)
    except ForestayError:
        return True
    return data is not None and bool(words) and _has_text(path, data, words)


def _has_text(path: str, data: bytes, words: Sequence[str]) -> bool:
    try:
        value = parse_file(path, data).value
    except ForestayError:
        value = data.decode("utf-8", "replace")
    texts = [" ".join(text.split()) for text in _texts(value)]
    return any(word in text for word in words for text in texts)
