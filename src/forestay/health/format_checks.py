"""Remedy: what the doctor says of the files of layouts, and what it mends without asking.

It speaks of the files of our sessions that are damaged, missing or left alone, of writes that
somebody did not end, and of what is wrong with other session files of this project. What needs an
answer is for `recover`, a path at a time.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from forestay.base import files
from forestay.base.findings import Finding
from forestay.errors import ForestayError
from forestay.formats.conventions import custom
from forestay.formats.essay.fields import STATE
from forestay.formats.port import ERROR
from forestay.journal.context import Context
from forestay.mirror import check_files, discover, interrupted_writes, recover
from forestay.mirror.check_context import Surroundings
from forestay.mirror.discover import NOT_READ, Find, own_essay_folders
from forestay.mirror.quick_scan import places
from forestay.mirror.recover import Case
from forestay.mirror.session_files import mirror_of
from forestay.store.machine.bindings import Binding
from forestay.workspace.tree import find_tree, git_operation

_BESIDE = "the journal has all that was recorded; what is there now is kept beside"
_MOST_SESSIONS = 200


def advice(context: Context) -> list[Finding]:
    """What the doctor says about files of layouts; nothing where the store cannot tell."""
    try:
        return _advised(context)
    except ForestayError:
        return []


def _advised(context: Context) -> list[Finding]:
    told = [_advice(case) for case in recover.cases(context)]
    suspended = [b for b in mirror_of(context).standing() if b.suspended]
    known = {a.file for a in told}
    told += [_waiting(b) for b in suspended if b.place not in known]
    known = {a.file for a in told}
    told += map(_unended, interrupted_writes.everywhere(context))
    return [*told, *_faulty(context, known), *_unreadable_essays(context, known)]


def _faulty(context: Context, known: set[str]) -> Iterator[Finding]:
    """What is wrong with other files of this project, whoever has them: as `check` tells it."""
    around = Surroundings(mirror_of(context).where)
    for place in places(context.workspace.tree.root):
        there = (one for one in discover.in_place(place) if one.path not in known)
        looked_at = ((one, _said(context, one, around)) for one in islice(there, _MOST_SESSIONS))
        wrong = [(one, said) for one, said in looked_at if said]
        yield from (_unusable(one, said) for one, said in wrong if one.is_torn)
        if readable := [(one, said) for one, said in wrong if not one.is_torn]:
            yield _not_as_told(place, readable)
        if next(there, None):
            yield _not_looked_at(place)


def _unended(path: str) -> Finding:
    what, why = f"a write to {path} was cut off", "what was there before lies hidden beside it"
    fixable, fix = files.is_writable(os.path.dirname(path)), "forestay doctor --fix"
    return Finding("file-cut-off", "warning", what, why, fix, fixable=fixable, file=path)


def _unreadable_essays(context: Context, known: set[str]) -> Iterator[Finding]:
    """The user's essays, wherever they lie, whose session file is lost or cannot be read."""
    around = Surroundings(mirror_of(context).where)
    for folder in own_essay_folders(context.settings)[:_MOST_SESSIONS]:
        for one in discover.in_place(folder):
            is_own = one.path == os.path.join(folder, STATE)
            if is_own and one.is_torn and os.path.realpath(one.path) not in known:
                yield _unusable(one, _said(context, one, around))


def _said(context: Context, one: Find, around: Surroundings) -> str:
    report = check_files.check(one, around.of(one), clean=context.journal.redact)
    errors = [finding for finding in report.findings if finding.severity == ERROR]
    more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
    return f"{os.path.basename(errors[0].file)}: {errors[0].what}{more}" if errors else ""


def _unusable(one: Find, said: str) -> Finding:
    what, fix = f"{one.path} cannot be used", f"forestay doctor {shlex.quote(one.path)}"
    if unread := next((fault for fault in one.faults if fault.code in NOT_READ), None):
        fix = recover.may_help(unread, one.paths.get(unread.file, one.path))
    return Finding("file-damaged", "warning", what, said, fix, file=one.path)


def _not_as_told(place: str, wrong: list[tuple[Find, str]]) -> Finding:
    """What can be read is for its owners to put right, however many there are."""
    path = place if len(wrong) > 1 else wrong[0][0].path
    who = f"{len(wrong)} sessions in {path} are" if len(wrong) > 1 else f"{path} is"
    what, fix = f"{who} not as the document says", f"forestay files check {shlex.quote(path)}"
    return Finding("file-faulty", "warning", what, wrong[0][1], fix, file=path)


def _not_looked_at(place: str) -> Finding:
    what = (
        f"there are more than {_MOST_SESSIONS} sessions in {place}: the others were not looked at"
    )
    fix = f"forestay files check {shlex.quote(place)}"
    return Finding("file-unseen", "info", what, "looking at all would take long", fix, file=place)


def _advice(case: Case) -> Finding:
    why, fix = _first_of_all(case)
    return Finding(
        code="layout-damaged" if case.damaged else "layout-missing",
        severity="error" if case.damaged else "warning",
        what=f"the {case.layout} files of session {case.session} are not whole: {case.what}",
        why=why or (_BESIDE if case.damaged else "nothing is lost: the journal has it all"),
        fix=fix or "forestay doctor --fix",
        fixable=not fix and files.is_writable(recover.existing(os.path.dirname(case.path))),
        session=case.session,
        file=case.path,
    )


def _first_of_all(case: Case) -> tuple[str, str]:
    """What keeps a case from being mended from the journal, and what to do about that."""
    if recover.index_in_conflict(case):
        return recover.BY_HAND, f"forestay doctor {shlex.quote(case.path)}"
    if blocked := _in_the_way(case.path):
        return f"{blocked} is not a folder", "move that away, then: forestay doctor --fix"
    if operation := git_operation(find_tree(recover.existing(os.path.dirname(case.path)))):
        why = f"git is in the middle of a {operation}"
        return why, "finish that, then: forestay doctor --fix"
    return "", ""


def _in_the_way(path: str) -> str:
    """What has the name of a folder that a file is to be in, and is none; empty if nothing is."""
    folder = os.path.dirname(path)
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    return "" if os.path.isdir(folder) else folder


def _waiting(binding: Binding) -> Finding:
    let_be = f"forestay files unbind {binding.layout} --session {binding.session}"
    # Of a layout that has one place for all, ours makes room for what is adopted there.
    is_taken = custom(binding.layout).archive and "another session is here" in binding.suspended
    adopt = f"make it one of ours: forestay adopt {shlex.quote(binding.place)}"
    return Finding(
        code="layout-suspended",
        severity="warning",
        what=f"the {binding.layout} files of session {binding.session} are left alone",
        why=binding.suspended,
        fix=adopt if is_taken else f"put that right, or let them be: {let_be}",
        session=binding.session,
        file=binding.place,
    )


def blocked(left: list[Finding]) -> bool:
    """Whether the journal itself is not whole, so that no file should be made from it."""
    return any(a.severity == "error" and not a.code.startswith("layout-") for a in left)


def mend(context: Context) -> list[str]:
    """Write anew what is damaged or missing, and end what was cut off; says what was done and what
    could not be."""
    waited = mirror_of(context).waiting()
    # One after the other: what mended one session may have mended the index of the next.
    said = [line for case in recover.cases(context) for line in _mended(context, case)]
    # What kept us from files may be gone, and a session that is over has no event any more. Not
    # before: an index that is lost would come back with that session alone.
    caught_up = mirror_of(context).try_again(waited)
    said += [f"brought the {b.layout} files of session {b.session} up to date" for b in caught_up]
    left = list(interrupted_writes.everywhere(context))
    shown = [kept for path in left for kept in interrupted_writes.uncover(context, path)]
    return [*said, *(f"kept what was there as {kept}" for kept in shown)]


def _mended(context: Context, case: Case) -> Iterator[str]:
    with suppress(ForestayError):  # the next look tells it
        recover.restore(context, case)
        yield f"wrote the {case.layout} files of session {case.session} anew"
    for path in case.kept:
        yield f"kept what was there as {path}"
