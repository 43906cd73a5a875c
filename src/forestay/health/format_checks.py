"""Check session files for the doctor, and repair those that need no answer from the user.

Report files of our sessions that are damaged, missing or suspended, and faults of other session
files in this project. If only the user can decide, `mirror.recover` repairs the files of one path.
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
from forestay.formats.port import ERROR, conventions_of
from forestay.journal.context import Context
from forestay.mirror import check_files, discover, recover
from forestay.mirror.check_files import Surroundings
from forestay.mirror.discover import NOT_READ, Find, own_folders
from forestay.mirror.quick_scan import places
from forestay.mirror.recover import Case
from forestay.mirror.session_files import mirror_of
from forestay.store.machine.bindings import Binding

FIX = "forestay doctor --fix"
_MOST_SESSIONS = 200
_COMPLETE = "nothing is lost: the journal has it all"


def examine(context: Context) -> list[Finding]:
    """Return what is wrong with session files; nothing if the store cannot be read."""
    try:
        found = [_of_case(case) for case in recover.cases(context)]
        known = {finding.file for finding in found}
        standing = mirror_of(context).inspect_bindings()
        found += [_suspended(b) for b in standing if b.suspended and b.place not in known]
        known = {finding.file for finding in found}
        return [*found, *_faulty(context, known), *_unreadable_elsewhere(context, known)]
    except ForestayError:
        return []


def _of_case(case: Case) -> Finding:
    """Report damaged or missing files of one of our sessions."""
    why, fix = recover.why_not_possible(case)
    stored = "the journal has all that was recorded"
    return Finding(
        code="files-damaged" if case.damaged else "files-missing",
        severity="error" if case.damaged else "warning",
        what=f"the {case.format} files of session {case.session} are not complete: {case.what}",
        why=why or (f"{stored}; the damaged bytes are kept" if case.damaged else _COMPLETE),
        fix=fix or FIX,
        fixable=not fix and not files.why_not_writable(os.path.dirname(case.path)),
        session=case.session,
        file=case.path,
    )


def _suspended(binding: Binding) -> Finding:
    # If the format has one place for all sessions, adopting the other one archives ours.
    is_taken = (
        conventions_of(binding.format).archive and "another session is here" in binding.suspended
    )
    fix = f"import it: forestay adopt {shlex.quote(binding.place)}"
    if not is_taken:
        unbind = f"forestay files unbind {binding.format} --session {binding.session}"
        fix = f"correct the cause, or stop writing them: {unbind}"
    what = f"the {binding.format} files of session {binding.session} are not written"
    session, file = binding.session, binding.place
    return Finding(
        "files-suspended", "warning", what, binding.suspended, fix, session=session, file=file
    )


def _faulty(context: Context, known: set[str]) -> Iterator[Finding]:
    """Report errors that `files check` finds in other session files of this project."""
    around = Surroundings(mirror_of(context).where)
    for place in places(context.workspace.tree.root):
        there = (one for one in discover.find_in_place(place) if one.path not in known)
        checked = ((one, _errors(context, one, around)) for one in islice(there, _MOST_SESSIONS))
        wrong = [(one, errors) for one, errors in checked if errors]
        yield from (_damaged(one, errors) for one, errors in wrong if one.is_torn)
        readable = [(one, errors) for one, errors in wrong if not one.is_torn]
        check = f"forestay files check {shlex.quote(place)}"
        if len(readable) > 1:
            what = f"{len(readable)} sessions in {place} do not meet their specification"
            why = readable[0][1]
            yield Finding("file-faulty", "warning", what, why, check, file=place)
        for one, errors in readable if len(readable) == 1 else ():
            what, fix = f"{one.path} does not meet its specification", shlex.quote(one.path)
            fix = f"forestay files check {fix}"
            yield Finding("file-faulty", "warning", what, errors, fix, file=one.path)
        if next(there, None):
            what = f"{place} has more than {_MOST_SESSIONS} sessions: the others were not checked"
            why = "checking all would take long"
            yield Finding("file-unseen", "info", what, why, check, file=place)


def _unreadable_elsewhere(context: Context, known: set[str]) -> Iterator[Finding]:
    """Report sessions in folders outside of projects whose main file cannot be read."""
    around = Surroundings(mirror_of(context).where)
    for folder in own_folders(context.settings)[:_MOST_SESSIONS]:
        for one in discover.find_in_place(folder):
            is_own = one.path == os.path.join(folder, one.format.files("")[0])
            if is_own and one.is_torn and os.path.realpath(one.path) not in known:
                yield _damaged(one, _errors(context, one, around))


def _errors(context: Context, one: Find, around: Surroundings) -> str:
    """Return the first error that `files check` finds, and how many more."""
    report = check_files.check(one, around.of(one), clean=context.journal.redact)
    errors = [finding for finding in report.findings if finding.severity == ERROR]
    more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
    return f"{os.path.basename(errors[0].file)}: {errors[0].what}{more}" if errors else ""


def _damaged(one: Find, errors: str) -> Finding:
    fix = f"forestay doctor {shlex.quote(one.path)}"
    if unread := next((fault for fault in one.faults if fault.code in NOT_READ), None):
        fix = recover.may_help(unread, one.paths.get(unread.file, one.path))
    what = f"{one.path} cannot be used"
    return Finding("file-damaged", "warning", what, errors, fix, file=one.path)


def is_blocked(left: list[Finding]) -> bool:
    """Return whether the journal itself is damaged, so that no file should be written from it."""
    return any(f.severity == "error" and not f.code.startswith("files-") for f in left)


def fix(context: Context) -> list[str]:
    """Restore damaged and missing files; return what was done."""
    # Examine each again before its repair: an earlier repair can have restored a shared index.
    done = [line for case in recover.cases(context) for line in _restore(context, case)]
    # Retry suspended files, because no event will write those of ended sessions. Do it last: a
    # lost index would otherwise be created with that session alone.
    updated = mirror_of(context).retry_suspended()
    done += [f"brought the {b.format} files of session {b.session} up to date" for b in updated]
    return done


def _restore(context: Context, case: Case) -> Iterator[str]:
    with suppress(ForestayError):  # the next examination reports it
        recover.restore(context, case)
        yield f"wrote the {case.format} files of session {case.session} again"
    for path in case.kept:
        yield f"kept the previous bytes as {path}"
