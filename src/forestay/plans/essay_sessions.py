"""Essays: find and list their folders, bind them to sessions, pause and resume them.

Each essay has its own folder, named after the time it began: below the home, or, if another program
began it, in `/tmp`. Messages about pausing and resuming are made from the session's file.
"""

from __future__ import annotations

import os
import shlex
from itertools import count
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from forestay.base import files
from forestay.base.text import coerce_input
from forestay.errors import ForestayError, InvalidInput, NoSession, Refused
from forestay.formats.essay import display, format
from forestay.formats.essay.fields import STATE
from forestay.formats.essay.stage_files import folder_name, is_version, version_name
from forestay.formats.from_state import facts_of
from forestay.formats.port import ERROR, Where
from forestay.formats.text.document import Document
from forestay.journal.context import Context
from forestay.journal.recorder import Recorder
from forestay.mirror import adopt, check_files, discover, recover
from forestay.mirror.discover import own_folders
from forestay.mirror.recover import Unusable
from forestay.mirror.session_files import absorb_file_edits, mirror_of, read_state, write_files
from forestay.model.essay.moves import is_essay
from forestay.model.event import Body, NoteAdded
from forestay.model.rules import decide
from forestay.model.state import Rows, State
from forestay.store.machine.bindings import Binding
from forestay.workspace.tree import relative

MAX_PARTIAL = 4 * 1024 * 1024
_LONGEST_NUMBER = 3
"""The most digits of a number in the list; more digits are part of a name (a date and a time)."""


class Listed(Struct):
    """An essay's folder; `state` is None where its session file cannot be read."""

    folder: str
    state: dict[str, Any] | None

    @property
    def name(self) -> str:
        return os.path.basename(self.folder)


def bind(context: Context, session: str, native: str, root: str = "") -> Binding:
    """Bind a session to the folder of an essay: the given one, its former one, or a new one."""
    require_free(context, session, native)
    mine = [folder for id, folder in _had(context, session) if native in ("", id)]
    if root or mine:
        return mirror_of(context).bind(session, "essay", native, root or mine[0])
    while True:
        folder = _new_folder(context)
        try:
            return mirror_of(context).bind(session, "essay", native, folder)
        except Refused:
            if not _is_owned(context, folder):
                raise  # otherwise another process used the same name just now: try again


def _had(context: Context, session: str) -> list[tuple[str, str]]:
    """Return ids and folders of a session's essays: the bound ones, then those unbound earlier."""
    bound = context.store.machine.bindings
    has = [(b.native, b.root) for b in bound.bindings(session) if b.format == "essay"]
    return [*has, *(one for one in bound.released_ids(session, "essay") if os.path.isdir(one[1]))]


def require_free(context: Context, session: str, native: str) -> None:
    """Refuse an id that another essay has; two essays have different folders, so ids can clash."""
    if not native:
        return
    owner = next(
        (b for b in context.store.machine.bindings.named("essay", native) if b.session != session),
        None,
    )
    if owner is not None:
        why = f"it belongs to session {owner.session}"
        raise _taken(native, owner.root, why, f"resume {owner.session}")
    mine = {root for _, root in _had(context, session)}
    for one in listed(context):
        is_other = os.path.realpath(one.folder) not in mine
        if is_other and one.state is not None and one.state.get("pipeline_id") == native:
            why = "another program wrote it, and Forestay has not adopted it"
            raise _taken(native, one.folder, why, f"adopt {shlex.quote(one.folder)}")


def _taken(native: str, folder: str, why: str, helps: str) -> Refused:
    what, hint = f"essay {native} already exists in {folder}", f"forestay {helps}"
    return Refused(what, why=why, hint=hint, file=folder, session=native)


def _new_folder(context: Context) -> str:
    """Return a folder for a new essay: not in `/tmp`, which is emptied at every start."""
    moments = count(context.clock.now(), 1000)
    names = (folder_name(moment, context.settings.naive_time) for moment in moments)
    root = os.path.join(context.settings.home, format.FORMAT.conventions.home)
    paths = (os.path.join(root, name) for name in names)
    return next(path for path in paths if not (os.path.lexists(path) or _is_owned(context, path)))


def _is_owned(context: Context, folder: str) -> bool:
    """Return whether a folder is bound to an essay, even if it no longer exists."""
    return (
        context.store.machine.bindings.owner(os.path.join(os.path.realpath(folder), STATE))
        is not None
    )


def listed(context: Context) -> list[Listed]:
    """Return the essays of this user, newest first, including adopted ones elsewhere."""
    ours = (
        os.path.dirname(b.place)
        for b in context.store.machine.bindings.bindings()
        if b.format == "essay"
    )
    folders = {folder: folder for folder in ours if os.path.isdir(folder)}
    folders |= {os.path.realpath(folder): folder for folder in own_folders(context.settings)}
    newest = sorted(folders.values(), key=lambda f: (os.path.basename(f), f), reverse=True)
    return [Listed(folder, _state(os.path.join(folder, STATE))) for folder in newest]


def list_text(context: Context) -> str:
    """Return the list of essays in the exact words of the specification."""
    rows = [(coerce_input(e.name, limit=255, lines=False), e.state) for e in listed(context)]
    return display.session_list(rows, mirror_of(context).where(""))


def abandoned_for(context: Context, one: Listed) -> int:
    """Return for how many days an essay was idle, once that counts as abandoned; else 0."""
    return display.abandoned_for(one.state, mirror_of(context).where(""))


def chosen(context: Context, text: str) -> Listed:
    """Return the essay for a number of the list, a name, or part of a name."""
    essays = listed(context)
    if text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER:
        if 0 < int(text) <= len(essays):
            return essays[int(text) - 1]
        why = f"there are {len(essays)} in the list"
        raise NoSession(f"there is no essay {text}", why=why, hint="forestay essay list")
    near = [one for one in essays if one.name == text] or [
        one for one in essays if text and text in one.name
    ]
    if len(near) != 1:
        called = f"{len(near)} essays have names that contain {text}"
        raise NoSession(called if near else f"there is no essay {text}", hint="forestay essay list")
    return near[0]


def faults(context: Context, one: Listed) -> list[str]:
    """Return a sentence for every error in the state of an essay."""
    (find,) = discover.find(os.path.join(one.folder, STATE))
    report = check_files.check(find, mirror_of(context).where(one.folder))
    return [finding.what for finding in report.findings if finding.severity == ERROR]


class Faulty(Refused):
    """The state of an essay contradicts its files; the user decides how to proceed."""

    def __init__(self, name: str, faults: list[str]) -> None:
        super().__init__(
            f"the state of {name} contradicts its files",
            why=faults[0],
            hint="correct it, or resume it anyway: "
            f"forestay essay resume {shlex.quote(name)} --anyway",
        )
        self.name = name
        self.faults = faults


def adopt_essay(context: Context, which: str, *, anyway: bool = False) -> str:
    """Adopt an essay whose state is valid, choose its session, and return its id."""
    one = chosen(context, which)
    case = recover.examine(context, one.folder)
    if case is not None:
        raise Unusable(case)
    wrong = [] if anyway else faults(context, one)
    if wrong:
        raise Faulty(one.name, wrong)
    (taken,) = adopt.adopt(context, os.path.join(one.folder, STATE))
    if not taken.session:
        raise Refused(
            f"essay {one.name} cannot be resumed", why=taken.problems[-1], file=taken.path
        )
    context.workspace.choose(taken.session)
    return taken.session


def _state(path: str) -> dict[str, Any] | None:
    try:
        data = files.read_bounded(path, discover.MAX_BYTES, follow=False)
        value = Document.parse(data, "yaml").value
    except ForestayError:
        return None
    whole = isinstance(value, dict) and not format.FORMAT.why_incomplete(data, value)
    return value if whole else None


# -- an essay with a session -------------------------------------------------------------------


def binding_of(context: Context, session: str) -> Binding | None:
    """Return the essay binding of a session, or None."""
    bound = context.store.machine.bindings.bindings(session)
    return next((b for b in bound if b.format == "essay"), None)


def state_of(session: Recorder) -> State:
    """Return the session's state, including edits of its files that are not absorbed yet; a copy
    that can be read after the view is closed."""
    with session.context.store.view(session.id) as view:
        state = read_state(session.context, session.id, view)
        rows = Rows()
        for table in ("step", "checkpoint", "claim", "attribute", "artifact"):
            for row in state.rows.select(table):
                rows.put(table, row.name, row)
        return State(state.core, rows)


def folder_of(context: Context, session: str, state: State) -> str:
    """Return the folder of an essay's files: its own, its target, or the project."""
    binding = binding_of(context, session)
    if binding is not None:
        return binding.root
    root = context.workspace.tree.root
    target = os.path.join(root, state.core.plan_target)
    return target if state.core.plan_target and os.path.isdir(target) else root


def inside(context: Context, folder: str, name: str) -> str:
    """Return a file's name relative to an essay's folder, found there or in the current one."""
    real = os.path.realpath(folder)
    cwd = context.folder
    there = os.path.lexists(os.path.join(real, name))
    is_here = not there and os.path.lexists(os.path.join(cwd, name))
    return relative(name, real, cwd=cwd if is_here else real)


def document(context: Context, session: str) -> dict[str, Any] | None:
    """Return the content of an essay's session file, even if not written; None if no essay."""
    binding = binding_of(context, session)
    if binding is not None:
        return _state(binding.place)
    state = state_of(Recorder(context, session))
    if not is_essay(state):
        return None
    where = _around(context, folder_of(context, session, state), state)
    tree = format.FORMAT.put(None, facts_of(state, ()), where)
    value = tree[STATE]
    return value if isinstance(value, dict) else None


def discrepancies(context: Context, session: str) -> list[str]:
    """Return a sentence for each contradiction between an essay's state and its files.

    Sessions without an essay have none.
    """
    found = document(context, session)
    if found is None:
        return []
    state = state_of(Recorder(context, session))
    where = _around(context, folder_of(context, session, state), state)
    findings = format.FORMAT.check({STATE: found}, where)
    return [finding.what for finding in findings if finding.severity == ERROR]


def _around(context: Context, folder: str, state: State) -> Where:
    """Return what the format needs about an essay's folder: its files, and those it names."""
    where = mirror_of(context).where(folder, names=False)
    named = [str(getattr(row, "value", "")) for row in state.rows.select("attribute")]
    known = {*files.list_names(folder), *(n for n in named if n and not os.path.isabs(n))}
    names = frozenset(n for n in known if os.path.isfile(os.path.join(folder, n)))
    return replace(where, names=names)


def pause_message(context: Context, session: str) -> str:
    return _sentence(context, session, display.pause_message)


def resume_summary(context: Context, session: str) -> str:
    return _sentence(context, session, display.resume_summary)


def _sentence(context: Context, session: str, render: Any) -> str:
    """Return a message rendered from the session's file; "" if the session has no essay."""
    found = document(context, session)
    return str(render(found)) if found is not None else ""


def save_partial(session: Recorder, partial: dict[str, str], pause: Body) -> Body:
    """Write unfinished work durably into the essay's folder; return the event to record.

    Earlier contents of a file stay: as the beginning of the new text, or as a version.
    Nothing is written if the session cannot be paused; one that is paused already, perhaps by
    inactivity, still stores it.
    """
    context = session.context
    absorb_file_edits(context, session.id)
    with context.store.view(session.id) as view:
        state = context.journal.state(view)
        is_paused = state.core.status == "paused"
        if not is_paused:
            decide(state, pause)
    folder = _folder_for(context, session.id, partial)
    for name, text in partial.items():
        path, data = os.path.join(folder, name), text.encode("utf-8", "replace")
        old = files.read_optional(path, discover.MAX_BYTES, follow=False)
        if old is not None and not data.startswith(old.rstrip()):
            files.move(path, os.path.join(folder, version_name(name, os.listdir(folder))))
        if old != data:
            files.replace(path, data, mode=0o644)
    return NoteAdded(text=f"unfinished work is in {', '.join(partial)}") if is_paused else pause


def _folder_for(context: Context, session: str, partial: dict[str, str]) -> str:
    """Return the folder for unfinished work; refuse names and texts that cannot be written."""
    binding = binding_of(context, session)
    if binding is None:
        raise Refused(
            f"session {session} has no folder for unfinished work",
            why="only an essay has one",
            hint="forestay files bind essay",
        )
    for name, text in partial.items():
        plain = name.endswith(".md") and "/" not in name and not name.startswith(".")
        if not plain or len(os.fsencode(name)) > 200 or not name.isprintable() or is_version(name):
            raise InvalidInput(
                f"{name[:100]!r} is not a file name for unfinished work",
                why="it must be a Markdown file of the essay's folder, such as stage-4-draft.md, "
                "but not an older version (NAME.vN.md)",
            )
        if len(text) > MAX_PARTIAL:
            raise InvalidInput(
                f"the text for {name} is too long", why=f"over {MAX_PARTIAL} characters"
            )
    if not os.path.isdir(binding.root):
        write_files(context, session, force=True)  # this also reports that the folder was deleted
    files.make_folder(binding.root)
    return binding.root
