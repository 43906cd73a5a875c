"""Do the file operations that follow from recorded events, each exactly once in effect.

An operation is stored as plain data in the transaction of its events, and done right after. If the
process dies before that, the next command that writes to the session does it. An operation can run
twice; the second time it changes nothing. It never touches a file that has changed since it was
decided.

    keep                   bind a new session to formats, so that its files are written
    move, write, remove    make a file a version, or restore its name
    unlog                  remove an entry from the revision history of an essay
    line                   append a line to a log of an essay
    log                    from an earlier version; the mirror writes that entry now
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Any

from forestay.base import files
from forestay.base.hashing import digest_of
from forestay.errors import ForestayError, Refused, StoreFailed
from forestay.formats import coerce, timestamps
from forestay.formats.registry import REGISTRY
from forestay.formats.text.document import Document
from forestay.formats.text.safe_parse import LONGEST
from forestay.journal.context import Context
from forestay.mirror.session_files import SessionFiles, mirror_of, write_files
from forestay.plans.essay_sessions import bind
from forestay.store.machine.bindings import Binding

MAX_FILE = 64 * 1024 * 1024


def finish(context: Context, session: str) -> None:
    """Do the pending operations. A failure is reported, and tried again next time."""
    for number, what in context.store.machine.file_work.pending(session):
        try:
            chore = json.loads(what)
            _DO[chore["op"]](context, chore)
        except (ForestayError, OSError, ValueError, KeyError) as error:
            context.notify(f"recorded, but this is still to do: {in_words(what)}: {error}")
            continue
        context.store.machine.file_work.finish(number)


def keep(context: Context, session: str, formats: Sequence[str]) -> str:
    """Return the operation that binds a session to formats of this project."""
    roots = {chosen: _root(context, chosen.partition(":")[0]) for chosen in formats}
    return json.dumps({"op": "keep", "session": session, "formats": roots})


def _root(context: Context, kind: str) -> str:
    # A session of a format without a root folder gets its own folder.
    return mirror_of(context).root_of(kind) if REGISTRY[kind][1] else ""


def in_words(what: str) -> str:
    chore: dict[str, Any] = json.loads(what)
    names = [os.path.basename(str(chore[k])) for k in ("from", "path", "file", "to") if k in chore]
    names += chore.get("formats", ())
    return f"{chore['op']} {' → '.join(names)}"


def _do_keep(context: Context, chore: dict[str, Any]) -> None:
    session, roots = chore["session"], chore["formats"]
    with mirror_of(context).hold_projects(*filter(None, roots.values())):
        for chosen, root in roots.items():
            try:
                give_place(context, session, chosen, root)
            except Refused as error:
                if error.retryable:
                    raise
                # Another session has these files by now; do not replace it, and do not try again.
                context.notify(f"recorded, but no {chosen} files are written: {error}")
        write_files(context, session, force=True)


def give_place(context: Context, session: str, chosen: str, root: str) -> Binding:
    """Bind a session to a format, perhaps with an id; the next write creates its files."""
    kind, _, native = chosen.partition(":")
    if REGISTRY[kind][1]:
        return mirror_of(context).bind(session, kind, native, root, notify=context.notify)
    return bind(context, session, native, root)


def _do_move(context: Context, chore: dict[str, Any]) -> None:
    source, target, digest = chore["from"], chore["to"], chore["digest"]
    if _digest(target) == digest:
        _remove(source, digest)
        return
    if os.path.lexists(target):
        context.notify(f"{source} was not renamed: {target} already exists")
    elif _digest(source) == digest:
        files.move(source, target)
    else:
        # Another program has changed the file since: leave it, and write only the version.
        _do_write(context, chore)


def _do_write(context: Context, chore: dict[str, Any]) -> None:
    target, data = chore["to"], context.store.blob(chore["digest"])
    for torn in files.list_unfinished(target):
        files.remove(torn)
    if os.path.lexists(target):
        return
    if data is None:
        context.notify(f"{target} was not restored: its content is not stored")
        return
    files.create(target, data, mode=0o644)
    for torn in files.list_unfinished(target):
        raise StoreFailed(f"{torn} could not be removed", hint="the next command tries again")


def _do_remove(context: Context, chore: dict[str, Any]) -> None:
    _remove(chore["path"], chore["digest"])


def _remove(path: str, digest: str) -> None:
    """Remove a file durably if it still has this digest."""
    if _digest(path) == digest:
        os.unlink(path)
    files.sync_folder(os.path.dirname(path))


def _digest(path: str) -> str:
    data = files.read_optional(path, MAX_FILE, follow=False)
    return "" if data is None else digest_of(data)


def _do_unlog(context: Context, chore: dict[str, Any]) -> None:
    """Remove the entry of a revisit from the history in a session file."""
    path = chore["file"]
    binding = context.store.machine.bindings.owner(path)
    if binding:
        # Absorb edits of other programs first, so that only Forestay's change remains.
        SessionFiles.of(context).absorb(binding.session, finish=False)
    data = files.read_optional(path, LONGEST, follow=False)
    if data is None:
        return
    document = Document.parse(data, "yaml")
    if not isinstance(document.value, dict):
        return
    mark = {"stage_revisited": chore["stage"], "timestamp": timestamps.write(chore["at"])}
    entries = coerce.sequence(document.value.get("revision_history"))
    left = [one for one in entries if not mark.items() <= coerce.mapping(one).items()]
    made = document.rewrite({**document.value, "revision_history": left})
    if made != data:
        if binding and not binding.suspended:
            _remember(context, binding, os.path.relpath(path, binding.root), data, made)
        files.replace(path, made, mode=0o644)


def _remember(context: Context, binding: Binding, name: str, data: bytes, made: bytes) -> None:
    """Record the written bytes as Forestay's own rendering, so that they are not absorbed."""
    bound = context.store.machine.bindings
    known = [rendering.digest for rendering in bound.renderings(binding).get(name, [])]
    if digest_of(data) in known:
        kept = b"" if context.journal.find_secrets(made.decode("utf-8", "replace")) else made
        written = (name, digest_of(made), len(made), kept)
        bound.rendered([(binding, [written], binding.mirrored)], lasting=True)


def _do_line(context: Context, chore: dict[str, Any]) -> None:
    title, line = f"# {chore['title']}", chore["line"]
    files.append_once(chore["file"], line.encode(), header=title.encode(), mode=0o644)


_DO: dict[str, Callable[[Context, dict[str, Any]], None]] = {
    "keep": _do_keep,
    "move": _do_move,
    "write": _do_write,
    "remove": _do_remove,
    "unlog": _do_unlog,
    "line": _do_line,
}
