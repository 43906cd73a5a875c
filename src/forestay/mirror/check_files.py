"""Check session files against their format's specification, for `files check`; write nothing.

The format reports its own findings. This module adds those about file names, backups, and logs that
are too long to read, and gives each finding a line and a full path. `Surroundings` collects what a
format needs to know about the files around a session: their names, and how many phases the
session's workflow has.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from functools import cache, partial

from msgspec import Struct
from msgspec.structs import replace

from forestay.base import files, walk
from forestay.base.findings import Finding
from forestay.errors import ForestayError, InvalidInput
from forestay.formats import carry_over
from forestay.formats.port import ERROR, INFO, WARNING, Reading, Where
from forestay.formats.text.document import Document
from forestay.mirror.discover import (
    MAX_BYTES,
    MOST_FILES,
    SURE,
    Find,
    what_is_wrong,
)


class FileReport(Struct):
    """What `files check` reports about one session."""

    path: str
    reading: Reading
    findings: list[Finding]
    is_torn: bool = False
    """Whether one of its files cannot be read."""

    @property
    def ok(self) -> bool:
        return not any(finding.severity == ERROR for finding in self.findings)


def check(
    find: Find, where: Where, *, strict: bool = False, clean: Callable[[str], str] = str
) -> FileReport:
    """Return every deviation of one session's files from their specification.

    `clean` removes secrets from what findings quote.
    """
    find = replace(find, faults=[_without_length(find, fault) for fault in find.faults])
    findings = [*find.faults]
    if find.documents and find.format_id:
        findings += find.format.check(find.tree, where, strict=strict)
    findings += [*check_name(find), *_check_backup(find)]
    shown = [
        finding._replace(
            what=clean(finding.what),
            where=clean(finding.where),
            file=find.paths.get(finding.file, finding.file),
            line=_line(find, finding),
        )
        for finding in findings
    ]
    return FileReport(find.path, reading_of(find, where, clean), shown, find.is_torn)


def _line(find: Find, finding: Finding) -> int:
    document = find.documents.get(finding.file)
    if finding.line or document is None or not finding.where:
        return finding.line
    return document.line(finding.where)


def check_name(find: Find) -> Iterator[Finding]:
    """Check that a file is named after its session, if its format's programs search by name."""
    folder, name = os.path.split(find.path)
    named = find.conventions.named_after
    rule = named[1] if named[0] and folder.endswith(f"/{named[0]}") else ""
    if rule and find.native and name != f"{find.native}.json":
        what = f"the file should be called {find.native}.json"
        found = Finding("name-differs", WARNING, what, where="session_id", requirement=rule)
        yield found._replace(file=next(iter(find.paths)))


def _check_backup(find: Find) -> Iterator[Finding]:
    """Check the backup of a file; without this check, a bad one is noticed only in an emergency."""
    ending = find.conventions.backup
    path = f"{find.path}{ending}"
    if not ending or not os.path.lexists(path):
        return
    line = 0
    try:
        data = files.read_bounded(path, MAX_BYTES, follow=False)
        value = Document.parse(data, "yaml").value
        is_session = find.format.recognise(find.path, value) >= SURE
        why = "" if is_session else f"this is not a {find.format_id} session"
        why = find.format.why_incomplete(data, value) or why
    except ForestayError as error:
        _, why, line = what_is_wrong(path, error)
    if why:
        what = f"the backup cannot be used: {why}"
        yield Finding("bad-backup", WARNING, what, file=path, requirement="S3-92", line=line)


def _without_length(find: Find, fault: Finding) -> Finding:
    """Return the fault, or a remark if a log is too long to be read: no rule limits its length."""
    path = find.paths.get(fault.file, "")
    is_log = fault.code == "unreadable" and path.endswith(".jsonl") and os.path.isfile(path)
    if not is_log or os.path.getsize(path) <= MAX_BYTES:
        return fault
    what = f"not checked: the log is larger than {MAX_BYTES >> 20} MB"
    return fault._replace(code="long-log", severity=INFO, what=what)


def reading_of(find: Find, where: Where, clean: Callable[[str], str] = str) -> Reading:
    """Return what reading a session's files found out; only the format if they cannot be read."""
    if not find.documents or not find.format_id:
        return Reading(format=find.format_id)
    reading = find.format.reading(find.tree, where)
    reading = replace(reading, version=clean(reading.version))
    if not (reading.writable or reading.warning):
        return replace(reading, warning=f"{reading.read_only_reason}; the files are not changed")
    if carry_over.has_carried(find.tree):
        # One status of the format can stand for several of ours; the exact one is under our key.
        facts = find.facts(where)
        complete = reading.complete and facts.status == "completed"
        progress = reading.progress if facts.progress is None else facts.progress
        return replace(reading, status=facts.status, complete=complete, progress=progress)
    return reading


# -- surroundings ------------------------------------------------------------------------------


class Surroundings:
    """The files around sessions. A folder is listed once for all sessions in it."""

    def __init__(self, where: Callable[..., Where], workflows: str = "") -> None:
        require_definitions(workflows)
        self._where = cache(partial(where, names=False))
        self._names = cache(lambda folder: frozenset(walk.list_files_below(folder, MOST_FILES)))
        self._workflows = workflows

    def of(self, one: Find) -> Where:
        """Return what a format can know when it checks a session: the names of the files around it.

        Those are the files in the session's own folder, and its files elsewhere.
        """
        where = replace(self._where(one.root), total=count_phases(one, self._workflows))
        if one.is_loose:
            return replace(where, root="")
        there = (
            name for name in one.conventions.shared if os.path.isfile(os.path.join(one.root, name))
        )
        names = self._names(os.path.dirname(one.path)).union(one.paths, there)
        return replace(where, names=names)


def require_definitions(folder: str) -> None:
    """Refuse a folder of workflow definitions that does not exist."""
    if folder and not os.path.isdir(folder):
        what = f"{folder[:200]} is not a folder"
        raise InvalidInput(what, hint="check the path", file=folder)


def count_phases(one: Find, folder: str = "") -> int | None:
    """Return how many phases the definition of a session's workflow has; None if that is unknown.

    The definition is `TYPE/metadata.json` below the given folder, or below the workflow folder of
    the session's project. If it cannot be read, it is refused in a given folder, else ignored.
    """
    kind = one.format.workflow_of(one.tree) if one.format_id else ""
    usual = one.conventions.definitions
    above, found, _ = one.path.partition(f"/{usual.partition('/')[0]}/") if usual else ("", "", "")
    root = folder or (os.path.join(above, usual) if found else "")
    if not root or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", kind):
        return None
    path = os.path.join(root, kind, "metadata.json")
    try:
        value = Document.parse(files.read_bounded(path, MAX_BYTES), "json").value
    except ForestayError as error:
        if folder and os.path.lexists(path):
            raise InvalidInput(f"{path} cannot be read", why=str(error), file=path) from error
        return None
    total = value.get("total_phases") if isinstance(value, dict) else None
    return total if type(total) is int and 0 < total < 10_000 else None
