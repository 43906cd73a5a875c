"""Recover session files that cannot be read, by the first of these methods (*rungs*) that works:

    journal      a session of Forestay has these files: they are written again from its journal
    backup       the format's own backup of the file can still be read
    artifacts    the content is inferred from the bytes that are left and from files around them
    user         nothing works, or several results are possible: the user has to choose

A *case* is one session whose files are damaged or missing. It has the rung that works, what was
inferred, what is lost, and what would be written. A case can have a *question* for the user; this
module does not ask it, the caller does.

No byte gets lost: damaged files are renamed to `NAME.corrupt-TIME`, or linked to that name, before
they are replaced, and what is written is on disk before a function returns.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from forestay.base import files, swap_file
from forestay.base.clock import Clock, iso
from forestay.base.findings import Choice, Finding, Question
from forestay.errors import ForestayError, InvalidInput, Refused, StoreFailed
from forestay.formats import salvage
from forestay.formats.facts import Facts
from forestay.formats.from_state import facts_of
from forestay.formats.port import (
    REGISTRY,
    Format,
    Salvaged,
    Tree,
    Where,
    conventions_of,
    load_format,
)
from forestay.formats.text.document import Document, fresh, kind_of
from forestay.formats.text.safe_parse import Unreadable
from forestay.journal.context import Context
from forestay.mirror import discover
from forestay.mirror.context import archived_folder, paths_of
from forestay.mirror.discover import (
    BAD_LINE,
    MAX_BYTES,
    NO_ACCESS,
    NOT_CREATED,
    NOT_READ,
    Find,
)
from forestay.mirror.session_files import mirror_of
from forestay.store.machine.bindings import Binding
from forestay.workspace.tree import find_tree, git_operation

JOURNAL, FROM_BACKUP, ARTIFACTS, USER = "journal", "backup", "artifacts", "user"
_CONFLICT = re.compile(rb"(?m)^<<<<<<< ")
_USER_DECIDES = "only the user can decide which sessions it lists"
_FROM_BACKUP = "Session state recovered from backup. Last state update may be lost."
_NOTHING_READ = "Nothing in it can be read."


class Case(Struct):
    """Damaged or missing files of one session, and what can be done about them."""

    format: str
    path: str
    session: str = ""
    what: str = ""
    rung: str = ""
    message: str = ""
    inferred: list[str] = []
    lost: list[str] = []
    question: Question | None = None
    damaged: list[str] = []
    """The files that cannot be read."""
    missing: list[str] = []
    writes: dict[str, bytes] = {}
    """Path → new content."""
    kept: list[str] = []
    """The paths to which damaged files were renamed."""
    written: list[str] = []


class Unusable(Refused):
    """The files of a session cannot be read; `case` has the choices for the user."""

    def __init__(self, case: Case) -> None:
        super().__init__(
            f"{case.path} cannot be read",
            why=case.what,
            hint=f"forestay doctor {shlex.quote(case.path)}",
        )
        self.case = case


# -- files of our sessions ---------------------------------------------------------------------


def cases(context: Context, session: str = "") -> Iterator[Case]:
    """Yield a case for each binding with damaged or missing files, of one session or of all.

    Nothing is changed.
    """
    # Files that another program archived are not missing.
    found = (_case_of(context, binding) for binding in mirror_of(context).inspect_bindings(session))
    return (case for case in found if case is not None)


def _case_of(context: Context, binding: Binding) -> Case | None:
    """Return the case for a binding's files; None if all can be read."""
    if archived_folder(binding):
        return None
    damaged: dict[str, str] = {}
    missing: list[str] = []
    once = context.store.machine.bindings.renderings(binding)
    for name, path in paths_of(binding).items():
        fault = _fault(context, binding, name, path)
        if fault is None:
            missing += [path] if once.get(name) else []
        elif fault and not mirror_of(context).reader.is_newest_rendering(binding, name):
            # A log that only we wrote can be too long to be parsed, which is no damage.
            damaged[path] = fault
    backup = conventions_of(binding.format).backup
    if backup and files.is_irregular(f"{binding.place}{backup}"):
        damaged[f"{binding.place}{backup}"] = "it is not a regular file"
    if not (damaged or missing):
        return None
    faults = [f"{path}: {why}" for path, why in damaged.items()]
    return Case(
        format=binding.format,
        path=binding.place,
        session=binding.session,
        what=faults[0] if faults else f"{missing[0]} is missing",
        rung=JOURNAL,
        message=f"written again from the journal of session {binding.session}",
        damaged=list(damaged),
        missing=missing,
    )


def _fault(context: Context, binding: Binding, name: str, path: str) -> str | None:
    """Return why a file of a binding cannot be used; empty if it can be, None if it is missing."""
    kind = kind_of(path)
    try:
        data = files.read_optional(path, MAX_BYTES, follow=False)
        if data is None:
            return None
        document = Document.parse(data, kind)
    except Unreadable as error:
        return str(error)
    except StoreFailed:
        return ""  # a file that the system does not allow us to read need not be damaged
    except ForestayError as error:
        return "it is not a regular file" if files.is_irregular(path) else str(error)
    if kind != "jsonl" and not isinstance(document.value, dict):
        return "it does not contain a session"
    return mirror_of(context).reader.why_incomplete(binding, name, data, document.value)


def restore(context: Context, case: Case) -> Case:
    """Write a session's files again from its journal; the previous bytes are kept."""
    binding = context.store.machine.bindings.owner(case.path)
    if binding is None:
        raise Refused(f"no session is bound to {case.path} any more", file=case.path)
    _require_possible(case)
    harmed = _make_room(context, case, binding)
    problems = mirror_of(context).write(binding.session, force=True)
    # If the session has ended, its main file is in the archive of its format by now.
    known = context.store.machine.bindings.bindings(binding.session)
    binding = next((b for b in known if b.number == binding.number), binding)
    left = _case_of(context, binding)
    if left is not None:
        why = "; ".join(problems) or left.what
        raise Refused(f"{case.path} could not be written again", why=why)
    case.written = [path for name, path in paths_of(binding).items() if name in harmed]
    return case


def _make_room(context: Context, case: Case, binding: Binding) -> set[str]:
    """Rename damaged files and store the renderings to start from; return the files' names."""
    bound = context.store.machine.bindings
    wanted = [*case.damaged, *case.missing]
    shared = conventions_of(binding.format).shared
    for path in wanted:
        name = os.path.basename(path)
        index = _save_shared(context, path, binding) if name in shared else None
        if path in case.damaged:
            case.kept.append(set_aside(path, context.clock))
        if index is not None:
            # All sessions of the folder share it: a new one with our session would hide the others.
            files.make_folder(binding.root)
            files.create(path, index, mode=0o644)
    harmed = {name: path for name, path in paths_of(binding).items() if path in wanted}
    for name, path in harmed.items():
        data, newest = bound.last_content(binding, name), bound.newest(binding).get(name)
        is_whole = newest is not None and newest.digest == sha256(data).hexdigest()
        if is_whole and not os.path.lexists(path):
            # The last rendering has content that is only in the file, such as a phase's attempts.
            files.make_folder(os.path.dirname(path))
            files.create(path, data, mode=0o644)
    return set(harmed)


def why_not_possible(case: Case) -> tuple[str, str]:
    """Return what prevents writing the files, and what to do about it; both "" if nothing does."""
    if _index_in_conflict(case) and case.rung == JOURNAL:
        return _USER_DECIDES, f"forestay doctor {shlex.quote(case.path)}"
    folder = os.path.dirname(case.path)
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        return f"{folder} is not a folder", "move that away, then: forestay doctor --fix"
    if operation := git_operation(find_tree(folder)):
        return f"git is in the middle of a {operation}", "finish that, then: forestay doctor --fix"
    return "", ""


def _require_possible(case: Case) -> None:
    why, hint = why_not_possible(case)
    if why:
        raise Refused(f"{case.path} cannot be written now", why=why, hint=hint, file=case.path)


def _index_in_conflict(case: Case) -> str:
    """Return the path of the shared index if git left a merge conflict in it, else ""."""
    shared = conventions_of(case.format).shared
    indexes = (path for path in case.damaged if os.path.basename(path) in shared)
    return next((path for path in indexes if _is_conflicted(_read(path))), "")


def _is_conflicted(data: bytes) -> bool:
    # The regular expression alone takes a tenth of a second in a large file.
    return b"<<<<<<< " in data and bool(_CONFLICT.search(data))


def _read(path: str) -> bytes:
    try:
        return files.read_bounded(path, MAX_BYTES, follow=False)
    except ForestayError:
        return b""


def _save_shared(context: Context, path: str, binding: Binding) -> bytes | None:
    """Return a new shared file that lists the other sessions of the folder; None if there are none.

    They are found in its damaged bytes, or in our last rendering if the file is missing, and in the
    session folders next to it.
    """
    bound, format = context.store.machine.bindings, load_format(binding.format)
    name = os.path.basename(path)
    if os.path.lexists(path):
        value = format.salvage_shared(_read(path))
    else:
        # The rendering is old: take the entries of our own sessions from the journal.
        ours = {b.native for b in bound.bindings() if b.root == binding.root}
        old = format.salvage_shared(bound.last_content(binding, name))
        value = format.with_entries(old, None, ours)
    where = mirror_of(context).where(binding.root)
    value, _ = _list_folders(context, format, binding.root, name, value, where)
    value = format.with_entries(value, None, {binding.native})
    return fresh(kind_of(name), value) if format.listed(value) else None


def _list_folders(
    context: Context, format: Format, root: str, name: str, value: Any, where: Where
) -> tuple[Any, list[str]]:
    """Add a folder's sessions to a shared file; return it, and a line per unknown status."""
    unknown = []
    for one in discover.sessions_in(format, root):
        if one.native and (owner := _owner_of(context, one)):
            with context.store.view(owner.session) as view:
                facts = facts_of(context.journal.state(view), ())
            facts.native_id = one.native
            value = format.add_entry(value, facts, where, is_current=True)
        elif one.native and one.native not in {entry.id for entry in format.listed(value)}:
            facts = one.facts(where) if one.documents else Facts()
            facts.native_id = one.native
            value = format.add_entry(value, facts, where, is_current=False)
            unknown.append(f"{name}: {one.native} is listed as active, no file has its status")
    return value, unknown


def aside_name(path: str, clock: Clock) -> str:
    """Return a free name for a file's previous bytes: `NAME.corrupt-TIME`, with a number if needed.

    No program reads a file of such a name as a session.
    """
    stamp = re.sub("[-:]", "", iso(clock.now()))
    names = (f"{path}.corrupt-{stamp}{'' if n == 0 else f'-{n}'}" for n in range(10_000))
    return next(name for name in names if not os.path.lexists(name))


def set_aside(path: str, clock: Clock, hidden: str = "") -> str:
    """Rename a file, or the `hidden` file with its previous bytes, to `aside_name`; return that."""
    target = aside_name(path, clock)
    files.move(hidden or path, target)
    return target


def examine(context: Context, path: str, *, choose: str = "") -> Case | None:
    """Return the case for damaged session files at a path; None if they can be read.

    `choose` is the user's answer to the question of the case, if it has one.
    """
    path = os.path.abspath(path)
    if owner := _owner_of_missing(context, path):
        case = _of_ours(context, owner, choose)
    else:
        one = _find_one(path)
        _require_access(one)
        owner = _owner_of(context, one)
        case = _of_ours(context, owner, choose) if owner else _of_other(context, one, choose)
    if choose and case and case.question:
        known = [choice.id for choice in case.question.choices]
        if choose not in known:
            what, why = f"{choose} is not a choice", f"the choices are {', '.join(known)}"
            raise InvalidInput(what, why=why, hint=_choices_of(case.path))
    if case is None and _main_of_backup(path):
        why = "the session file can be read, and the next write makes a new backup"
        raise Refused(f"{path} is a backup that is not needed", why=why, file=path)
    if case is None:
        return None
    clean = context.journal.redact
    inferred, lost = (list(map(clean, lines)) for lines in (case.inferred, case.lost))
    return replace(case, what=clean(case.what), inferred=inferred, lost=lost)


def _owner_of_missing(context: Context, path: str) -> Binding | None:
    """Return the binding whose main file should be at a path, or in the folder at the path."""
    spots = (path, *(os.path.join(path, name) for name in _main_names()))
    owned = (_owner(context, spot) for spot in spots if not os.path.lexists(spot))
    return next((owner for owner in owned if owner is not None), None)


def _owner_of(context: Context, one: Find) -> Binding | None:
    """Return the binding that the files belong to, even if the main one of several is missing."""
    main, *others = one.format.files(one.native)
    if not others or one.is_loose or main in one.paths:
        return _owner(context, one.path)
    return _owner(context, os.path.join(one.root, main))


def _owner(context: Context, path: str) -> Binding | None:
    """Return the binding of a place, even if a link replaced the file there."""
    place = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    owned = (context.store.machine.bindings.owner(each) for each in (place, os.path.realpath(path)))
    return next((owner for owner in owned if owner is not None), None)


def _main_names() -> set[str]:
    """Return the file names that a session's main file can have, over all formats."""
    return {os.path.basename(load_format(id).files("")[0]) for id in REGISTRY}


def _main_of_backup(path: str) -> str:
    """Return the main file of which the given path is the backup; "" if it is no backup."""
    for id in REGISTRY:
        ending = conventions_of(id).backup
        main = path.removesuffix(ending) if ending else path
        if main != path and os.path.basename(main) == load_format(id).files("")[0]:
            return main
    return ""


def _find_one(path: str) -> Find:
    path = _main_of_backup(path) or path  # examine the session that a backup belongs to
    folder, name = os.path.split(path)
    if name in _main_names() and not os.path.lexists(path):
        path = folder
    finds = [one for one in discover.sessions(path) if one.format_id]
    if len(finds) > 1 and name in finds[0].conventions.shared:
        # A shared file belongs to all these sessions, and any of them can be used to recover it.
        return replace(finds[0], faults=[f for f in finds[0].faults if f.file == name])
    # If the folder is that of one session, ignore other files in it, such as copies of its file.
    mains = [one for one in finds if one.path == os.path.join(path, one.format.files("")[0])]
    finds = mains or finds
    if not finds:
        names = {os.path.basename(each) for each in files.list_paths(path) if os.path.isfile(each)}
        formats, at = map(load_format, REGISTRY), os.path.basename(path)
        whose = (f for f in formats if f.is_folder_of_session(at, names, chosen=True))
        finds = [discover.without_main_file(format, path) for format in whose]
    if len(finds) != 1:
        raise discover.not_one_session(path, finds)
    return finds[0]


def _require_access(one: Find) -> None:
    """Refuse to recover files that the system did not allow us to read; they can be undamaged."""
    for fault in one.faults:
        if fault.code in NOT_READ:
            path = one.paths.get(fault.file, one.path)
            hint = may_help(fault, path)
            raise StoreFailed(fault.what, hint=hint, file=path, operation="read")


def may_help(fault: Finding, path: str) -> str:
    """Return a hint for the user if the system did not allow a file to be read."""
    if fault.code == NO_ACCESS:
        return f"check owner and permissions: ls -ld {shlex.quote(path)}"
    return f"see the system log, then: forestay files check {shlex.quote(path)}"


def _of_ours(context: Context, owner: Binding, choose: str) -> Case | None:
    """Return the case of a session of Forestay, whose files are written again from its journal.

    Only a merge conflict in the shared index needs an answer from the user.
    """
    case = _case_of(context, owner)
    index = _index_in_conflict(case) if case else ""
    if not case or not index:
        return case
    name = os.path.basename(index)
    contested = Find(owner.format, owner.native, {name: index}, {name: _read(index)}, {}, [])
    return _of_conflict(contested, case, name, choose)


def _of_other(context: Context, one: Find, choose: str) -> Case | None:
    """Return the case of files that are not bound to a session of Forestay."""
    bad = [f for f in one.faults if f.severity == "error" and f.code not in (BAD_LINE, NOT_CREATED)]
    damaged = [one.paths.get(fault.file, one.path) for fault in bad]
    missing = [os.path.join(one.root, name) for name in _missing(one)]
    if not bad and not missing:
        return None
    case = Case(
        format=one.format_id,
        # If only files are missing, the path of the case is the session's folder.
        path=one.path if bad else os.path.dirname(missing[0]),
        what=f"{damaged[0]}: {bad[0].what}" if bad else f"{missing[0]} is missing",
        damaged=list(dict.fromkeys(damaged)),
        missing=missing,
    )
    conflicted = [n for n, data in one.bundle.items() if _is_conflicted(data)]
    shared = [name for name in conflicted if name in one.conventions.shared]
    if conflicted and (shared or len(one.paths) == 1):
        return _of_conflict(one, case, (shared or conflicted)[0], choose)
    where = mirror_of(context).where(one.root)
    answer = one.format.answer(choose, one.with_files_around(), where) if choose else None
    if answer is not None:
        case.writes = _new_files(one, case, answer[1])
        return replace(case, rung=USER, message=answer[0])
    level, saved = _save(context, one, case, where)
    return _ask(context, one, level, saved, where, choose)


def _missing(one: Find) -> list[str]:
    """Return the missing files that can be made again, of a session with its own folder."""
    main, *others = one.format.files(one.native)
    if not others or one.is_loose or one.format.why_invalid_id(one.native):
        return []
    names = [main, *others]
    is_begun = one.is_bare or not set(one.bundle) <= set(one.conventions.shared)
    if not is_begun or not one.format.reading(one.tree, Where()).writable:
        return []
    return [name for name in names if not os.path.lexists(os.path.join(one.root, name))]


def _kind(one: Find, path: str) -> str:
    """Return the syntax of a file by its name, else the syntax of its format's main file."""
    kind = kind_of(path)
    return kind if kind in ("json", "jsonl", "yaml") else kind_of(one.format.files("x")[0])


def _save(context: Context, one: Find, case: Case, where: Where) -> tuple[str, Case]:
    """Return the level of damage ("" if nothing can be recovered), and the case with new files."""
    if backups := _read_backups(one, case):
        lost = ["what changed after the backup was made"]
        case = replace(case, rung=FROM_BACKUP, message=_FROM_BACKUP, lost=lost, writes=backups)
        return FROM_BACKUP, case
    saved = one.salvage(where)
    if saved is None and one.is_bare:
        saved = Salvaged(Facts(), ARTIFACTS, message="Created again from the specification")
    if saved is None:
        return "", case
    tree, made = (saved.tree, []) if saved.tree else _rebuild_tree(context, one, saved.facts, where)
    writes = _new_files(one, case, tree)
    written = {os.path.basename(path) for path in writes}
    inferred = [*saved.inferred, *(line for line in made if line.partition(":")[0] in written)]
    rung = FROM_BACKUP if saved.level == FROM_BACKUP else ARTIFACTS
    case = replace(case, rung=rung, message=saved.message, lost=saved.lost, writes=writes)
    return saved.level or ARTIFACTS, replace(case, inferred=inferred)


def _read_backups(one: Find, case: Case) -> dict[str, bytes]:
    """Return a `.bak` file of the same format for each damaged file, or nothing.

    A format with its own backups decides when to use them; then nothing is returned here.
    """
    writes: dict[str, bytes] = {}
    for path in case.damaged if not one.conventions.backup else ():
        try:
            data = files.read_bounded(f"{path}.bak", MAX_BYTES, follow=False)
            value = Document.parse(data, _kind(one, path)).value
        except ForestayError:
            return {}
        if one.format.recognise(path, value) < discover.SURE:
            return {}
        writes[path] = data
    return writes


def _new_files(one: Find, case: Case, tree: Tree) -> dict[str, bytes]:
    """Return the new content of each damaged and missing file, by path."""
    names = {path: name for name, path in one.paths.items()}
    names |= {path: os.path.relpath(path, one.root) for path in case.missing}
    if len(one.format.files(one.native)) == 1:
        tree = {next(iter(one.paths)): next(iter(tree.values()))}  # whatever it is called here
    values = {path: tree.get(names[path]) for path in (*case.damaged, *case.missing)}
    return {
        path: value if isinstance(value, bytes) else fresh(_kind(one, path), value)
        for path, value in values.items()
        if value is not None
    }


def _rebuild_tree(
    context: Context, one: Find, facts: Facts, where: Where
) -> tuple[Tree, list[str]]:
    """Return new files with the given facts and the unknown keys that are left in the old bytes.

    Return also the names of what had to be made from the specification alone.
    """
    facts.native_id = facts.native_id or one.native
    old: Tree = dict(one.tree)
    for name, data in one.bundle.items():
        if name not in old and name in one.conventions.shared:
            old[name] = one.format.salvage_shared(data)
    tree, made = one.format.recreate(one.format.put(old or None, facts, where), where)
    for name in set(one.conventions.shared) - one.tree.keys():
        value = tree.get(name)
        tree[name], more = _list_folders(context, one.format, one.root, name, value, where)
        made += more
    for name, data in one.bundle.items():
        if name.endswith(".json") and name not in one.tree and isinstance(tree.get(name), dict):
            left = salvage.read_damaged(data)
            tree[name] = {**(left.value if left else {}), **tree[name]}
    return tree, made


# -- questions ---------------------------------------------------------------------------------


def _ask(context: Context, one: Find, level: str, saved: Case, where: Where, choose: str) -> Case:
    """Return the case with a question: the format's own, or whether to start fresh.

    Return the `saved` case if there is nothing to ask.
    """
    kept_as = os.path.basename(aside_name(saved.path, context.clock))
    asked = one.format.ask(one.with_files_around(), where, level, kept_as)
    if asked is None:
        if level:
            return saved
        fresh = Choice("fresh", "Start fresh", f"move it away (kept as {kept_as})")
        stop = Choice("stop", "Stop here", "change nothing")
        asked = _NOTHING_READ, Question("What should be done with it?", (fresh, stop), "stop")
    message, question = asked
    known = {choice.id for choice in question.choices}
    if choose == "fresh" and choose in known:
        return replace(saved, rung=USER, writes={}, message="The place is free for a new session.")
    if choose == "manual" and choose in known:
        if not level:
            what = f"nothing can be extracted from {saved.path}"
            raise Refused(what, hint=command_of(saved.path, "fresh"))
        return saved
    question = _with_commands(question, saved.path)
    return replace(saved, rung=USER, writes={}, message=message, question=question)


def _with_commands(question: Question, path: str) -> Question:
    choices = [
        choice._replace(command=choice.command or command_of(path, choice.id))
        if choice.id != "stop"
        else choice
        for choice in question.choices
    ]
    return question._replace(choices=tuple(choices))


def _choices_of(path: str) -> str:
    return f"see the choices: forestay doctor {shlex.quote(path)}"


def command_of(path: str, choice: str = "") -> str:
    """Return the command that recovers files in place."""
    chosen = f" --choose {choice}" if choice else ""
    return f"forestay doctor {shlex.quote(path)} --fix{chosen}"


def _of_conflict(one: Find, case: Case, name: str, choose: str) -> Case:
    """Return the case with the question which side of a merge conflict to use."""
    both = salvage.sides(one.bundle[name].decode("latin-1"))  # which decodes any bytes
    sides = dict(zip(("first", "second"), (side.encode("latin-1") for side in both), strict=True))
    if choose in sides:
        case.writes = {one.paths[name]: sides[choose]}
        return replace(case, rung=USER, message=f"The {choose} side of the conflict was used.")
    choices = [
        Choice(id, f"The {id} side", _describe(one, name, data)) for id, data in sides.items()
    ]
    choices.append(Choice("stop", "Stop here", "and resolve the conflict in an editor"))
    question = Question("Two versions are in conflict. Which one counts?", tuple(choices), "stop")
    question, message = _with_commands(question, case.path), "The file contains a merge conflict."
    return replace(case, rung=USER, message=message, question=question)


def _describe(one: Find, name: str, data: bytes) -> str:
    """Describe one side of a merge conflict in a few words."""
    try:
        value = Document.parse(data, _kind(one, name)).value
    except Unreadable as error:
        return f"which cannot be read: {error.what}"
    if name in one.conventions.shared:
        listed = (entry.id for entry in one.format.listed(value))
        return f"which lists {', '.join(listed) or 'nothing'}"
    reading = one.format.reading({name: value}, Where())
    return f"which has status {reading.status or 'unknown'}"


# -- writing -----------------------------------------------------------------------------------


def fix(context: Context, case: Case) -> Case:
    """Recover a case in place; the damaged bytes are kept."""
    if case.rung == JOURNAL:
        return restore(context, case)
    if case.question is not None:
        raise Refused(
            f"only the user can decide about {case.path}",
            why=case.question.text,
            hint=_choices_of(case.path),
            file=case.path,
        )
    _require_possible(case)
    folder = os.path.dirname(case.path)
    above = os.path.dirname(folder)
    # Writers lock the folder of all sessions of a format.
    root = above if discover.is_root_of_folders(above) else folder
    with files.locked(root, clock=context.clock):
        if not case.writes:
            case.kept += [set_aside(path, context.clock) for path in case.damaged]
        for path, data in case.writes.items():
            case.kept += _replace_file(path, data, context.clock)
            case.written.append(path)
    return case


def _replace_file(path: str, data: bytes, clock: Clock) -> list[str]:
    """Give a file's previous bytes a second name, then replace it; return the second names.

    After a crash either the old or the new file is in its place.
    """
    kept = [aside_name(path, clock)] if os.path.lexists(path) else []
    is_linked = False
    try:
        if kept and not files.is_irregular(path):
            os.link(path, kept[0])
            is_linked = True
            files.sync_folder(files.folder_of(path))
    except FileExistsError as error:  # a file that another program just put there
        raise files.failure(error, "write", kept[0]) from error
    except OSError:
        pass  # not every file system has links
    if kept and not is_linked:
        files.move(path, kept[0])
    # Also handle files that an earlier repair left when it was killed.
    kept += [set_aside(path, clock, hidden) for hidden in swap_file.remove_leftovers(path)]
    files.replace(path, data, mode=0o644)
    return kept


def write(case: Case, out: str) -> Case:
    """Write the recovered files to the path `out`; replace nothing that exists there."""
    if not case.writes:
        why, hint = "it would only be moved away", command_of(case.path, "fresh")
        if case.rung == JOURNAL:
            why = f"it belongs to session {case.session}, which writes it in place"
            hint = f"in place: {command_of(case.path)}"
        elif case.question:
            why = case.question.text
            hint = f"add --choose; the choices: forestay doctor {shlex.quote(case.path)}"
        raise Refused(f"{case.path} cannot be recovered to another place", why=why, hint=hint)
    named = {os.path.basename(path): data for path, data in case.writes.items()}
    case.written = files.create_all(out, named)
    return case
