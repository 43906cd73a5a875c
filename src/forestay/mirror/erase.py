"""Erase: the files of a session that was forgotten, and of one of which events were.

Files are ours to remove when their bytes are a rendering that we remember; others wrote into the
rest, which stays unless it is asked for. A file that several sessions share loses the entry of
the one. Which files there are has to be asked before the journal forgets the session.

A file that events were taken out of is written anew in the usual way. What a layout carries along
of its own accord may still say what must go: then the file is begun from nothing, but for a log,
which only loses the lines that say it. Whoever writes to a file in that very moment loses nothing:
what was there is compared once it is aside.
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
from forestay.formats.port import conventions_of
from forestay.formats.text.document import Document, kind_of
from forestay.mirror.context import MAX_BYTES, Desk, is_real, parsed, paths_of
from forestay.mirror.edit_shared_file import amend, amend_lines
from forestay.mirror.read_files import is_log, most, require_inside
from forestay.store.machine.bindings import Binding

_LEAST, _BEGINNING = 6, 24
"""How long a text must be to be looked for in files, and how much of it has to be there."""


class Owned(Struct):
    """What a binding has on disk: path → digests of what we once wrote there."""

    binding: Binding
    paths: dict[str, set[str]]
    shared: list[str]
    logs: list[str]
    """Logs that are added to line by line: no digest tells whose they are, their title does."""


def owned(desk: Desk, session: str) -> list[Owned]:
    return [_owned(desk, binding) for binding in desk.bound.bindings(session)]


def _owned(desk: Desk, binding: Binding) -> Owned:
    known = desk.bound.renderings(binding)
    customs = conventions_of(binding.layout)
    paths: dict[str, set[str]] = {}
    for name, path in paths_of(binding).items():
        if name not in customs.shared:
            paths[path] = {rendering.digest for rendering in known.get(name, [])}
    if customs.backup:
        paths[f"{binding.place}{customs.backup}"] = paths[binding.place]
    shared = [os.path.join(binding.root, name) for name in customs.shared]
    logs = [os.path.join(binding.root, name) for name in customs.line_logs]
    return Owned(binding, paths, shared, logs)


def holding(one: Owned, *, force: bool) -> tuple[list[str], list[str]]:
    """Which files of a binding would go, and which would stay because others wrote into them."""
    there = [path for path in one.paths if os.path.lexists(path)]
    ours = [path for path in there if force or _digest(path) in one.paths[path]]
    logs = [path for path in one.logs if os.path.lexists(path)]
    ours += [path for path in logs if force or _is_log(path)]
    return ours, [path for path in (*there, *logs) if path not in ours]


def remove(one: Owned, *, force: bool, clock: Clock) -> tuple[list[str], list[str]]:
    """Remove the files of a binding; returns those that went, and those that may hold something."""
    binding = one.binding
    if not os.path.isdir(binding.root):
        return [], []
    if not is_real(binding.root, {os.sep}):
        return [], [binding.root]  # a link leads elsewhere, and we do not follow
    with files.locked(binding.root, clock=clock):
        # First: what is removed below may have been edited meanwhile, and stays beside then.
        for path in one.paths:
            for torn in swap_file.leftovers(path) if _is_inside(binding.root, path) else ():
                files.remove(torn)
        ours, left = holding(one, force=force)
        gone: list[str] = []
        for path in ours:
            known = None if force else one.paths.get(path)
            (gone if _unlink(binding.root, path, known) else left).append(path)
        for path in one.shared:
            left += _take_out(binding, path)
    _tidy(binding)
    return gone, left


def _is_inside(root: str, path: str) -> bool:
    """Whether no link leads away from where a file is."""
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
    """Whether a log begins with a title of ours."""
    try:
        data = files.read_bounded(path, MAX_BYTES, follow=False)
    except ForestayError:
        return False
    return data.startswith(b"# ")


def _unlink(root: str, path: str, known: set[str] | None) -> bool:
    """Remove a file; if digests are `known`, only one that is there once nobody finds it."""
    aside = files.temporary_name(path)
    try:
        require_inside(root, os.path.dirname(path))
        os.rename(path, aside)
        if known is not None and _digest(aside, most(path)) not in known:
            # Not over a newer one that somebody made meanwhile: then it stays beside.
            os.link(aside, path, follow_symlinks=False)
            os.unlink(aside)
            return False
        os.unlink(aside)
        files.sync_folder(os.path.dirname(path))
    except (OSError, ForestayError):
        return False
    return True


def _take_out(binding: Binding, path: str) -> list[str]:
    """Take a session's entry out of a file that several share; the file, if that cannot be."""
    try:
        if os.path.lexists(path):
            amend(path, lambda data: _without_entry(path, data, binding.native))
    except ForestayError:
        return [path]
    return []


def _without_entry(path: str, data: bytes, native: str) -> bytes:
    document = Document.parse(data, kind_of(path))
    return document.rewrite(_without(document.value, native))


def _without(value: Any, native: str) -> Any:
    """A document without the members of its lists that are about one session."""
    if not isinstance(value, dict):
        return value
    return {
        key: [one for one in each if not (isinstance(one, dict) and native in one.values())]
        if isinstance(each, list)
        else each
        for key, each in value.items()
    }


def _tidy(binding: Binding) -> None:
    """Folders that only this session had go when they are empty, and the lock in them."""
    customs = conventions_of(binding.layout)
    own = os.path.join(binding.root, binding.native)
    lock = os.path.join(binding.root, customs.lock.format(id=binding.native))
    if os.path.dirname(customs.lock) and _is_inside(binding.root, lock):
        files.remove(lock)
        folders = [folder.format(id=binding.native) for folder in customs.folders]
        for folder in (*(os.path.join(binding.root, name) for name in folders), own):
            try:
                os.rmdir(folder)
            except OSError:
                continue  # somebody keeps something there


# -- events --------------------------------------------------------------------------------------


def words_of(values: Iterable[Any]) -> list[str]:
    """What to look for in files: how the texts begin that were forgotten, in one line each."""
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
    desk: Desk, session: str, words: Sequence[str], write: Callable[[], object]
) -> tuple[list[str], list[str]]:
    """Bring files up to a session of which events were erased; which were begun anew, and which
    may still say something of them."""
    write()
    saying = [
        (one, path)
        for one in owned(desk, session)
        for path in (*one.paths, *one.logs)
        if _says(path, words)
    ]
    ours = [(one, path) for one, path in saying if _digest(path) in one.paths.get(path, ())]
    if ours:
        # Before the files go: whoever dies in between must not make them of what is remembered.
        desk.bound.forget(session)
    begun = [p for one, p in ours if _took_out(one.binding.root, p, one.paths[p], words)]
    left = [path for _, path in saying if path not in begun]
    if begun:
        write()
    return [p for p in begun if not _says(p, words)], left + [p for p in begun if _says(p, words)]


def _took_out(root: str, path: str, known: set[str], words: Sequence[str]) -> bool:
    """Remove a file that says something; of a log, which others may add to, only those lines."""
    if not is_log(path):
        return _unlink(root, path, known)

    def rest(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        return b"".join(line for line in lines if not _is_said(path, line, words))

    try:
        require_inside(root, os.path.dirname(path))
        amend_lines(path, rest, most(path))
    except ForestayError:
        return False
    return True


def _says(path: str, words: Sequence[str]) -> bool:
    try:
        data = files.read_optional(path, most(path), follow=False)
    except ForestayError:
        return True
    return data is not None and bool(words) and _is_said(path, data, words)


def _is_said(path: str, data: bytes, words: Sequence[str]) -> bool:
    try:
        value = parsed(path, data).value
    except ForestayError:
        value = data.decode("utf-8", "replace")
    said = [" ".join(text.split()) for text in _texts(value)]
    return any(word in text for word in words for text in said)
