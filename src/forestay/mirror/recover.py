"""Recover: session files that cannot be read, by the first rung of a ladder that holds.

    journal      the session is ours: its files are written anew from what was recorded
    backup       the layout's own backup beside the file can still be read
    artifacts    what is left of the bytes, and the files around them, tell the rest
    user         nothing does, or the files cannot decide: somebody must say

A *case* is one session whose files are damaged or missing, with the rung that holds, what was
inferred and what is lost, and what would be written. A case may carry a *question*: choices, each
with the command that takes it, and one that is recommended. Nothing is asked here.

The secret is that nothing gets lost on the way: damaged bytes are moved beside, under a name that
says so, before anything takes their place, and what is written is on disk before this returns.
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
from forestay.base.clock import Clock
from forestay.base.findings import Choice, Finding, Question
from forestay.errors import ForestayError, InvalidInput, Refused, StoreFailed
from forestay.formats.ai_session.format import ensured_entry, recreate, salvage_index
from forestay.formats.ai_session.read import INDEX, entries_of, entry_of
from forestay.formats.ai_session.read import STATE as AI_STATE
from forestay.formats.coerce import text
from forestay.formats.conventions import custom
from forestay.formats.essay import salvage as essay_salvage
from forestay.formats.essay.fields import BACKUP, STATE
from forestay.formats.essay.salvage import FROM_BACKUP as RECOVERED_FROM_BACKUP
from forestay.formats.facts import Facts
from forestay.formats.from_state import facts_of
from forestay.formats.orchestrator import format as orch
from forestay.formats.port import Bundle, Salvaged, Tree, Where
from forestay.formats.status_words import session_word
from forestay.formats.text import git_conflict
from forestay.formats.text.document import Document, fresh, kind_of
from forestay.formats.text.safe_parse import Unreadable
from forestay.formats.text.salvage_json import recover as torn
from forestay.journal.context import Context
from forestay.mirror import discover, interrupted_writes
from forestay.mirror.context import paths_of, put_away
from forestay.mirror.discover import BAD_LINE, MAX_BYTES, NO_ACCESS, NOT_CREATED, NOT_READ, Find
from forestay.mirror.interrupted_writes import aside_name, renamed
from forestay.mirror.session_files import mirror_of
from forestay.store.machine.bindings import Binding
from forestay.workspace.tree import find_tree, git_operation

JOURNAL, FROM_BACKUP, ARTIFACTS, USER = "journal", "backup", "artifacts", "user"
_CONFLICT = re.compile(rb"(?m)^<<<<<<< ")
BY_HAND = "which sessions it lists is for somebody to say who knows both sides"


class Case(Struct):
    """Damaged or missing files of one session, and what can be done about them."""

    layout: str
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
    cut_off: list[str] = []
    """Files a write to which was cut off: what was there before it lies hidden beside them."""
    missing: list[str] = []
    writes: dict[str, bytes] = {}
    """Path → what it would hold."""
    kept: list[str] = []
    """Where damaged bytes are now."""
    written: list[str] = []


class Unusable(Refused):
    """The files of a session cannot be read; `case` holds the choices."""

    def __init__(self, case: Case) -> None:
        super().__init__(
            f"{case.path} cannot be read",
            why=case.what,
            hint=f"forestay doctor {shlex.quote(case.path)}",
        )
        self.case = case


# -- bound files -------------------------------------------------------------------------------


def cases(context: Context, session: str = "") -> Iterator[Case]:
    """What is wrong with the files of one session, or of all, each looked at when it is asked for;
    changes nothing."""
    # What another program archived is not missing.
    found = (_case_of(context, binding) for binding in mirror_of(context).standing(session))
    return (case for case in found if case is not None)


def _case_of(context: Context, binding: Binding) -> Case | None:
    damaged, missing = ({}, []) if put_away(binding) else _harmed(context, binding)
    if not (damaged or missing):
        return None
    faults = [f"{path}: {why}" for path, why in damaged.items()]
    return Case(
        layout=binding.layout,
        path=binding.place,
        session=binding.session,
        what=faults[0] if faults else f"{missing[0]} is missing",
        rung=JOURNAL,
        message=f"written anew from the journal of session {binding.session}",
        damaged=list(damaged),
        missing=missing,
    )


def _harmed(context: Context, binding: Binding) -> tuple[dict[str, str], list[str]]:
    """The files of a binding that are damaged, each with why, and those that are missing."""
    damaged: dict[str, str] = {}
    missing: list[str] = []
    once = context.store.machine.bindings.renderings(binding)
    for name, path in paths_of(binding).items():
        fault = _fault(context, binding, name, path)
        if fault is None:
            missing += [path] if once.get(name) else []
        elif fault and not mirror_of(context).is_as_left(binding, name):
            # A log that only we wrote may be too long to be taken apart.
            damaged[path] = fault
    if in_the_way := _odd_backup(binding):
        damaged[in_the_way] = "it is not a regular file"
    return damaged, missing


def _odd_backup(binding: Binding) -> str:
    """What stands where the layout's own backup belongs and is no file: nothing can be written."""
    backup = custom(binding.layout).backup
    path = f"{binding.place}{backup}"
    return path if backup and files.is_irregular(path) else ""


def _fault(context: Context, binding: Binding, name: str, path: str) -> str | None:
    """Why a file of a binding cannot be used; empty when it can be, None when it is not there."""
    kind = kind_of(path)
    try:
        data = files.read_optional(path, MAX_BYTES, follow=False)
        if data is None:
            return None
        document = Document.parse(data, kind)
    except Unreadable as error:
        return str(error)
    except StoreFailed:
        return ""  # what the system does not let us read may be good: it is left alone, and told
    except ForestayError as error:
        return "it is not a regular file" if files.is_irregular(path) else str(error)
    is_other = kind != "jsonl" and not isinstance(document.value, dict)
    return (
        "it does not hold a session"
        if is_other
        else mirror_of(context).torn(binding, name, document)
    )


def restore(context: Context, case: Case) -> Case:
    """Write a session's files anew from its journal; what was in their place is kept beside."""
    binding = context.store.machine.bindings.owner(case.path)
    if binding is None:
        raise Refused(f"{case.path} belongs to no session any more", file=case.path)
    require_calm(binding.root)
    if contested := index_in_conflict(case):
        hint = f"settle it in an editor, or: forestay doctor {shlex.quote(case.path)}"
        what = f"{contested} holds a merge conflict"
        raise Refused(what, why=BY_HAND, hint=hint, file=contested)
    harmed = _make_room(context, case, binding)
    said = mirror_of(context).write(binding.session, force=True)
    # The main file of a session that is over is in the archive of its layout by now.
    binding = _renewed(context, binding)
    left = _case_of(context, binding)
    if left is not None:
        raise Refused(f"{case.path} could not be written anew", why="; ".join(said) or left.what)
    case.written = [path for name, path in paths_of(binding).items() if name in harmed]
    return case


def _make_room(context: Context, case: Case, binding: Binding) -> dict[str, str]:
    """Move what is damaged beside, and go on from what is still known; says of which files."""
    for path in (*case.damaged, *case.missing):
        index = _saved_index(context, path, binding) if path.endswith(f"/{INDEX}") else None
        if path in case.damaged:
            case.kept.append(set_aside(path, context.clock))
        if index is not None:
            # It belongs to all sessions of the folder: ours alone would hide the others.
            files.make_folder(binding.root)
            files.create(path, index, mode=0o644)
    wanted = {*case.damaged, *case.missing}
    harmed = {name: path for name, path in paths_of(binding).items() if path in wanted}
    for name, path in harmed.items():
        if not os.path.lexists(path):
            _put_back(context, binding, name, path)
    return harmed


def _renewed(context: Context, binding: Binding) -> Binding:
    found = context.store.machine.bindings.bindings(binding.session)
    return next((b for b in found if b.number == binding.number), binding)


def _put_back(context: Context, binding: Binding, name: str, path: str) -> None:
    """Go on from what we wrote last, if all of it was kept: it has what only the file tells, as
    earlier attempts at a phase, and what others added."""
    data = context.store.machine.bindings.said_last(binding, name)
    newest = context.store.machine.bindings.newest(binding).get(name)
    if newest is not None and newest.digest == sha256(data).hexdigest():
        files.make_folder(os.path.dirname(path))
        files.create(path, data, mode=0o644)


def index_in_conflict(case: Case) -> str:
    """The index of all sessions of a folder, if git left both sides of a merge in it."""
    indexes = [path for path in case.damaged if os.path.basename(path) == INDEX]
    return next((path for path in indexes if _is_conflicted(_bytes(path))), "")


def _is_conflicted(data: bytes) -> bool:
    # To look for the beginnings of lines first would take a large file a tenth of a second.
    return b"<<<<<<< " in data and bool(_CONFLICT.search(data))


def _bytes(path: str) -> bytes:
    try:
        return files.read_bounded(path, MAX_BYTES, follow=False)
    except ForestayError:
        return b""


def _saved_index(context: Context, path: str, binding: Binding) -> bytes | None:
    """The other sessions, as a damaged index still tells of them, or the one that we wrote last if
    it is gone, and as they lie beside it."""
    is_gone = not os.path.lexists(path)
    said = context.store.machine.bindings.said_last(binding, INDEX) if is_gone else _bytes(path)
    value, _ = salvage_index(said)
    if is_gone:
        # What it said of ours then is old: the journal knows better.
        ours = {
            b.native for b in context.store.machine.bindings.bindings() if b.root == binding.root
        }
        kept = [e for e in value["active_features"] if e.get("feature_id") not in ours]
        value["active_features"] = kept
    _list_beside(context, binding.root, {INDEX: value}, mirror_of(context).where(binding.root))
    entries = [e for e in value["active_features"] if e.get("feature_id") != binding.native]
    return fresh("yaml", {**value, "active_features": entries}) if entries else None


def _list_beside(context: Context, root: str, tree: Tree, where: Where) -> list[str]:
    """List in an index the sessions that lie beside it; says of which nobody knows the status."""
    told = []
    for one in discover.ai_sessions(root):
        if one.native and (ours := _recorded(context, one)):
            # What it does not tell of them would be read as an edit: one that is over goes on then.
            entry = ensured_entry(tree, one.native, ours, where)
            entry.setdefault("status", session_word(one.layout, ours.status))
        elif one.native and not entry_of(tree, one.native):
            facts = one.facts(where) if one.documents else Facts()
            ensured_entry(tree, one.native, facts, where)
            told.append(f"{INDEX}: {one.native} is listed as active, no file tells its status")
    return told


def _recorded(context: Context, one: Find) -> Facts | None:
    """What the journal says of a session, if the files are those of one of ours."""
    owner = _owner_of(context, one)
    if owner is None:
        return None
    with context.store.view(owner.session) as view:
        return facts_of(context.journal.state(view), ())


def require_calm(folder: str) -> None:
    """Refuse while git is in the middle of something there: it may still put the file right."""
    operation = git_operation(find_tree(existing(folder)))
    if operation:
        raise Refused(
            f"git is in the middle of a {operation}",
            why="what it is doing may change these files",
            hint=f"finish it, or: git {operation} --abort",
        )


def existing(folder: str) -> str:
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder


def set_aside(path: str, clock: Clock) -> str:
    """Move a file beside, every byte kept, and say where it is now."""
    return renamed(path, aside_name(path, clock))


# -- files that are nobody's -------------------------------------------------------------------


def examine(context: Context, path: str, *, choose: str = "") -> Case | None:
    """What can be made of damaged files at a path; None when they can be read.

    `choose` answers the question that the case would carry.
    """
    path = os.path.abspath(path)
    if owner := _owner_of_gone(context, path):
        case = _of_ours(context, owner, choose)
    else:
        case = _of_found(context, _one(path), choose)
    if choose and case and case.question:
        _require_choice(case.path, case.question, choose)
    if case is None and os.path.basename(path) == BACKUP:
        why = "the session file beside it can be read, and whoever writes that makes a new one"
        raise Refused(f"{path} is a backup, of which nothing is to be made", why=why, file=path)
    return case and _without_secrets(context, case)


def _without_secrets(context: Context, case: Case) -> Case:
    clean = context.journal.redact
    inferred, lost = (list(map(clean, lines)) for lines in (case.inferred, case.lost))
    return replace(case, what=clean(case.what), inferred=inferred, lost=lost)


def _owner_of_gone(context: Context, path: str) -> Binding | None:
    """Whose file is missing at a path, or in a folder of one session."""
    places = (path, os.path.join(path, STATE), os.path.join(path, AI_STATE))
    owned = (_owner(context, place) for place in places if not os.path.lexists(place))
    return next((owner for owner in owned if owner is not None), None)


def _of_found(context: Context, one: Find, choose: str) -> Case | None:
    _require_access(one)
    if owner := _owner_of(context, one):
        return _of_ours(context, owner, choose)
    if case := _of_nobody(one):
        return _climbed(context, one, case, mirror_of(context).where(one.root), choose)
    return _of_cut_off(context, one)


def _owner_of(context: Context, one: Find) -> Binding | None:
    """Whose files they are, also where the main one of several is gone."""
    main, *others = one.format.files(one.native)
    if not others or one.is_loose or main in one.paths:
        return _owner(context, one.path)
    return _owner(context, os.path.join(one.root, main))


def _owner(context: Context, path: str) -> Binding | None:
    """Whose a place is, also where a link stands in for the file; else what the link leads to."""
    place = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    owned = (context.store.machine.bindings.owner(each) for each in (place, os.path.realpath(path)))
    return next((owner for owner in owned if owner is not None), None)


def _require_access(one: Find) -> None:
    """Refuse to make anything of what could not be read: its bytes may be good."""
    for fault in one.faults:
        if fault.code in NOT_READ:
            path = one.paths.get(fault.file, one.path)
            hint = may_help(fault, path)
            raise StoreFailed(fault.what, hint=hint, file=path, operation="read")


def may_help(fault: Finding, path: str) -> str:
    if fault.code == NO_ACCESS:
        return f"check owner and permissions: ls -ld {shlex.quote(path)}"
    return f"see the system log, then: forestay files check {shlex.quote(path)}"


def _require_choice(path: str, question: Question, choose: str) -> None:
    known = [choice.id for choice in question.choices]
    if choose not in known:
        what, why = f"{choose} is no choice", f"they are {', '.join(known)}"
        raise InvalidInput(what, why=why, hint=_choices_of(path))


def _of_ours(context: Context, owner: Binding, choose: str) -> Case | None:
    """The journal has it all, but which side of a conflict in the index counts."""
    case = _case_of(context, owner)
    index = index_in_conflict(case) if case else ""
    if not case or not index:
        return case
    both = {INDEX: _bytes(index)}
    contested = Find(owner.layout, owner.native, {INDEX: index}, both, {}, [])
    return _sides(contested, case, INDEX, choose)


def _of_nobody(one: Find) -> Case | None:
    bad = [f for f in one.faults if f.severity == "error" and f.code not in (BAD_LINE, NOT_CREATED)]
    damaged = [one.paths.get(fault.file, one.path) for fault in bad]
    missing = [os.path.join(one.root, name) for name in _missing(one)]
    if not bad and not missing:
        return None
    return Case(
        layout=one.layout,
        # What lacks a file is known by its folder.
        path=one.path if bad else os.path.dirname(missing[0]),
        what=f"{damaged[0]}: {bad[0].what}" if bad else f"{missing[0]} is missing",
        damaged=list(dict.fromkeys(damaged)),
        missing=missing,
    )


def _of_cut_off(context: Context, one: Find) -> Case | None:
    """Files that are good, where somebody died who wrote them."""
    left = interrupted_writes.of(context, one)
    if not left:
        return None
    what = f"a write to {left[0]} was cut off, and what was there before lies hidden beside it"
    said = "What was there before can be seen."
    return Case(one.layout, one.path, what=what, rung=ARTIFACTS, message=said, cut_off=left)


def _missing(one: Find) -> list[str]:
    """The files that a session in a folder of its own lacks, and that can be made anew."""
    if one.layout != "ai-session" or one.is_loose or one.format.valid_id(one.native):
        return []
    names = one.format.files(one.native)
    is_begun = one.is_bare or any(name in one.bundle for name in names if name != INDEX)
    if not is_begun or not one.format.reading(one.tree, Where()).writable:
        return []
    return [name for name in names if not os.path.lexists(os.path.join(one.root, name))]


def _one(path: str) -> Find:
    if os.path.basename(path) == BACKUP:
        # Nothing but a state that was written may be one: it stands for the essay it is of.
        path = os.path.join(os.path.dirname(path), STATE)
    if os.path.basename(path) in (STATE, AI_STATE) and not os.path.lexists(path):
        # It is gone, and named by what we said of its folder.
        path = os.path.dirname(path)
    finds = [one for one in discover.sessions(path) if one.layout]
    if len(finds) > 1 and os.path.basename(path) == INDEX:
        # It is of all of them, and by any of them it can be mended.
        return replace(finds[0], faults=[f for f in finds[0].faults if f.file == INDEX])
    # What else lies in an essay's folder, a copy of it perhaps, is another session's.
    finds = [one for one in finds if one.path == os.path.join(path, STATE)] or finds
    if not finds and _has_stages(path):
        finds = [discover.essay_without_state(path)]
    if len(finds) != 1:
        raise discover.not_one(path, finds)
    return finds[0]


def _has_stages(folder: str) -> bool:
    """Whether somebody who names a folder for an essay's is right, whatever it is called."""
    there = (path for path in files.list_paths(folder) if os.path.isfile(path))
    return any(os.path.basename(path).startswith("stage-") for path in there)


def _climbed(context: Context, one: Find, case: Case, where: Where, choose: str) -> Case:
    conflicted = [n for n, data in one.bundle.items() if _is_conflicted(data)]
    if conflicted and (len(one.paths) == 1 or INDEX in conflicted):
        return _sides(one, case, INDEX if INDEX in conflicted else conflicted[0], choose)
    if one.layout == "essay":
        return _essay(one, case, where, choose)
    if one.layout == "orchestrator":
        return _orchestrator(context, one, case, where, choose)
    saved = _backed_up(one, case) or _salvaged(context, one, case, where)
    return saved or _nothing(case, context.clock, choose)


def _kind(one: Find, path: str) -> str:
    """How a file is written: as its name says, else as the main file of its layout is."""
    kind = kind_of(path)
    return kind if kind in ("json", "jsonl", "yaml") else kind_of(one.format.files("x")[0])


def _backed_up(one: Find, case: Case) -> Case | None:
    """A backup beside each file, if it is one of the same session's."""
    writes: dict[str, bytes] = {}
    for path in case.damaged:
        try:
            data = files.read_bounded(f"{path}.bak", MAX_BYTES, follow=False)
            value = Document.parse(data, _kind(one, path)).value
        except ForestayError:
            return None
        if one.format.recognise(path, value) < discover.SURE:
            return None
        writes[path] = data
    if not writes:
        return None
    lost = ["what changed after the backup was made"]
    said = RECOVERED_FROM_BACKUP
    return replace(case, writes=writes, lost=lost, rung=FROM_BACKUP, message=said)


def _salvaged(context: Context, one: Find, case: Case, where: Where) -> Case | None:
    saved = one.salvage(where)
    if saved is None and one.is_bare:
        saved = Salvaged(Facts(), message="Made anew from the specification")
    if saved is None:
        return None
    tree, made = _rebuilt(context, one, saved.facts, where)
    names = {path: name for name, path in one.paths.items()}
    names |= {os.path.join(one.root, name): name for name in _missing(one)}
    for path in [*case.damaged, *case.missing]:
        value = tree.get(names[path])
        if value is not None:
            case.writes[path] = fresh(_kind(one, path), value)
    written = {os.path.basename(path) for path in case.writes}
    inferred = [*saved.inferred, *(line for line in made if line.partition(":")[0] in written)]
    return replace(case, rung=ARTIFACTS, message=saved.message, inferred=inferred, lost=saved.lost)


def _rebuilt(context: Context, one: Find, facts: Any, where: Where) -> tuple[Tree, list[str]]:
    """New files for what was saved, with the keys that no layout knows but the bytes still hold.

    Also says what had to be made from the specification alone.
    """
    facts.native_id = facts.native_id or one.native
    old: Tree = dict(one.tree)
    for name, data in one.bundle.items():
        if name not in old and os.path.basename(name) == INDEX:
            old[name] = salvage_index(data)[0]
    tree, made = one.format.put(old or None, facts, where), list[str]()
    if one.layout == "ai-session":
        tree, made = recreate(tree, where)
        if INDEX not in one.tree:
            made += _list_beside(context, one.root, tree, where)
    else:
        # One file, whatever it is called here.
        tree = {next(iter(one.paths)): next(iter(tree.values()))}
    for name, data in one.bundle.items():
        left = torn(data) if name.endswith(".json") and name not in one.tree else None
        if left is not None and isinstance(tree.get(name), dict):
            tree[name] = {
                **tree[name],
                **{k: v for k, v in left.value.items() if k not in tree[name]},
            }
    return tree, made


def _nothing(case: Case, clock: Clock, choose: str) -> Case:
    """No rung holds: the user may begin anew, or leave everything as it is."""
    if choose == "fresh":
        return _out_of_the_way(case)
    kept = os.path.basename(aside_name(case.path, clock))
    choices = (
        _choice(case, "fresh", "Start fresh", f"move it away (kept as {kept})"),
        Choice("stop", "Stop here", "change nothing"),
    )
    question = Question("What shall become of it?", choices, "stop")
    return replace(case, rung=USER, message="Nothing in it can be read.", question=question)


def _out_of_the_way(case: Case) -> Case:
    return replace(case, rung=USER, writes={}, message="The way is free for a new session.")


def _choice(case: Case, id: str, title: str, says: str = "") -> Choice:
    return Choice(id, title, says, command_of(case.path, id))


def _choices_of(path: str) -> str:
    return f"look at the choices: forestay doctor {shlex.quote(path)}"


def command_of(path: str, choice: str = "") -> str:
    chosen = f" --choose {choice}" if choice else ""
    return f"forestay doctor {shlex.quote(path)} --fix{chosen}"


# -- both sides of a merge ---------------------------------------------------------------------


def _sides(one: Find, case: Case, name: str, choose: str) -> Case:
    """A file in the middle of a merge: which side counts is not for us to say."""
    both = git_conflict.sides(one.bundle[name].decode("latin-1"))  # as which any bytes can be read
    sides = dict(zip(("first", "second"), (side.encode("latin-1") for side in both), strict=True))
    if choose in sides:
        case.writes = {one.paths[name]: sides[choose]}
        return replace(case, rung=USER, message=f"The {choose} side of the conflict was taken.")
    choices = [
        _choice(case, side, f"The {side} side", _told(one, name, sides[side])) for side in sides
    ]
    choices.append(Choice("stop", "Stop here", "and resolve the conflict in an editor"))
    question = Question("Two versions are in conflict. Which one counts?", tuple(choices), "stop")
    return replace(case, rung=USER, message="The file holds a merge conflict.", question=question)


def _told(one: Find, name: str, data: bytes) -> str:
    try:
        value = Document.parse(data, _kind(one, name)).value
    except Unreadable as error:
        return f"which cannot be read: {error.what}"
    if name == INDEX:
        listed = (text(entry.get("feature_id")) for entry in entries_of({INDEX: value}))
        return f"which lists {', '.join(listed) or 'nothing'}"
    reading = one.format.reading({name: value}, Where())
    return f"which says {reading.status or 'nothing of a status'}"


# -- essays ------------------------------------------------------------------------------------


def _essay(one: Find, case: Case, where: Where, choose: str) -> Case:
    """The three levels of the essay's document."""
    bundle = discover.essay_files(one)
    made = essay_salvage.recover(bundle, where)
    if made is None:
        return case
    if choose:
        return _begun(case, bundle, where, choose)
    if made.question is not None:
        choices = [c._replace(command=command_of(case.path, c.id)) for c in made.question.choices]
        question = made.question._replace(choices=tuple(choices))
        return replace(case, rung=USER, message=made.message, question=question, lost=made.lost)
    case.writes = {case.path: made.data or fresh("yaml", made.state)}
    rung = FROM_BACKUP if made.level == "backup" else ARTIFACTS
    return replace(case, rung=rung, message=made.message, inferred=made.inferred, lost=made.lost)


def _begun(case: Case, bundle: Bundle, where: Where, choose: str) -> Case:
    match = re.fullmatch(r"stage[-_]?([1-4])", choose)
    if match is None:
        raise InvalidInput(f"{choose} is no stage", why="they are stage-1 to stage-4")
    state = essay_salvage.begin_at(int(match[1]), bundle, where)
    case.writes = {case.path: fresh("yaml", state)}
    return replace(case, rung=USER, message=f"Begun at stage {match[1]}, as you said.")


# -- orchestrators -----------------------------------------------------------------------------


def _orchestrator(context: Context, one: Find, case: Case, where: Where, choose: str) -> Case:
    """The menu of the orchestrator's document, the old file kept."""
    kept = aside_name(case.path, context.clock)
    asked = orch.recovery(os.path.basename(kept))
    saved = _backed_up(one, case) or _salvaged(context, one, case, where)
    if choose == "fresh":
        return _out_of_the_way(case)
    if choose == "manual":
        if saved is None:
            raise Refused("nothing can be extracted", hint=command_of(case.path, "fresh"))
        return saved
    choices = tuple(c._replace(command=_menu_command(case, c.id)) for c in asked.choices)
    archived = os.path.isdir(os.path.join(os.path.dirname(case.path), orch.HISTORY))
    best = "manual" if saved is not None else "history" if archived else "fresh"
    question = asked._replace(choices=choices, recommended=best)
    found = saved or case
    return replace(found, rung=USER, writes={}, message=orch.CORRUPTED, question=question)


def _menu_command(case: Case, choice: str) -> str:
    return (
        "forestay files orchestrator history"
        if choice == "history"
        else command_of(case.path, choice)
    )


# -- acting ------------------------------------------------------------------------------------


def fix(context: Context, case: Case) -> Case:
    """Do what a case says, in place; the damaged bytes are kept beside."""
    if case.rung == JOURNAL:
        return restore(context, case)
    if case.question is not None:
        raise Refused(
            f"somebody must say what becomes of {case.path}",
            why=case.question.text,
            hint=_choices_of(case.path),
            file=case.path,
        )
    require_calm(os.path.dirname(case.path))
    with files.locked(interrupted_writes.root_of(case.path), clock=context.clock):
        for path in (*case.cut_off, *case.damaged, *case.writes):
            case.kept += interrupted_writes.uncovered(path, context.clock)
        if not case.writes:
            case.kept += [set_aside(path, context.clock) for path in case.damaged]
        for path, data in case.writes.items():
            case.kept += _take_place(path, data, context.clock)
            case.written.append(path)
    return case


def _take_place(path: str, data: bytes, clock: Clock) -> list[str]:
    """Put a new file where a damaged one may be, in one step; says where that is now. With no room
    for the new one, or after a crash, one of them is there: what is missing nobody looks for. What
    is no file changes places with none: it is moved away first."""
    if files.is_irregular(path):
        kept = set_aside(path, clock)
        files.create(path, data, mode=0o644)
        return [kept]
    displaced = swap_file.one(path, data, mode=0o644)
    return [renamed(displaced, aside_name(path, clock))] if displaced else []


def write(case: Case, out: str) -> Case:
    """Write what was recovered somewhere else; nothing that is there is replaced."""
    if not case.writes:
        raise _only_in_place(case)
    named = {os.path.basename(path): data for path, data in case.writes.items()}
    case.written = files.create_all(out, named)
    return case


def _only_in_place(case: Case) -> Refused:
    why, hint = "it would only be moved away", command_of(case.path, "fresh")
    if case.rung == JOURNAL:
        why = f"it belongs to session {case.session}, which writes it where it is"
        hint = f"in its place: {command_of(case.path)}"
    elif case.question:
        why = case.question.text
        hint = f"add --choose; the choices: forestay doctor {shlex.quote(case.path)}"
    return Refused(f"nothing of {case.path} can be written elsewhere", why=why, hint=hint)
