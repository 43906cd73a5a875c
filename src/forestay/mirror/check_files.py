"""Inspection: what `check` says of the files of one session that was found.

Besides what its layout's document asks for, it tells of the backup beside a file, looks into the
beginning of a log that is too long to be read, and says of each finding the line it speaks of and
the file as the user knows it. Nothing is ever written here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from forestay.base import files
from forestay.base.findings import Finding
from forestay.errors import ForestayError
from forestay.formats import carry_over
from forestay.formats.ai_session.read import LOG
from forestay.formats.conventions import NAMED_AFTER, custom
from forestay.formats.port import ERROR, INFO, WARNING, Reading, Where
from forestay.formats.text.document import Document
from forestay.formats.text.safe_parse import Unreadable
from forestay.mirror.discover import MAX_BYTES, SURE, Find, text_faults, what_is_wrong

LONG_LOG = "long-log"
_FIRST_BYTES = 2 * 1024 * 1024
"""How much of a longer log is looked at: what takes less than a second."""


class Report(Struct):
    """What `check` says of one session's files."""

    path: str
    reading: Reading
    findings: list[Finding]
    is_torn: bool = False
    """Whether a file of it cannot be read: that can be mended, and what it says only by hand."""

    @property
    def ok(self) -> bool:
        return not any(finding.severity == ERROR for finding in self.findings)


def check(
    find: Find, where: Where, *, strict: bool = False, clean: Callable[[str], str] = str
) -> Report:
    """Every deviation of one session's files from its document; `clean` takes secrets out of what
    findings quote."""
    find = _with_long_log(find)
    findings = [*find.faults]
    if find.documents and find.layout:
        findings += find.format.check(find.tree, where, strict=strict)
    findings += [*of_name(find), *_of_backup(find)]
    placed = [_quoted(_placed(find, finding), clean) for finding in findings]
    return Report(find.path, reading_of(find, where, clean), placed, find.is_torn)


def of_name(find: Find) -> Iterator[Finding]:
    """In these folders a file is named after its session, or other programs do not find it."""
    folder, name = os.path.split(find.path)
    rule = next((req for place, req in NAMED_AFTER.items() if folder.endswith(f"/{place}")), "")
    if rule and find.native and name != f"{find.native}.json":
        said = f"the file should be called {find.native}.json"
        yield Finding(
            "name-differs",
            WARNING,
            said,
            file=next(iter(find.paths)),
            where="session_id",
            requirement=rule,
        )


def _of_backup(find: Find) -> Iterator[Finding]:
    """What is wrong with the backup that a layout has: nobody would miss it until it is needed."""
    ending = custom(find.layout).backup if find.layout else ""
    path = f"{find.path}{ending}"
    if ending and os.path.lexists(path):
        why, line = _why_no_backup(find, path)
        said = f"the backup is of no use: {why}"
        yield from (
            [Finding("bad-backup", WARNING, said, file=path, requirement="S3-92", line=line)]
            if why
            else []
        )


def _why_no_backup(find: Find, path: str) -> tuple[str, int]:
    try:
        data = files.read_bounded(path, MAX_BYTES, follow=False)
        value = Document.parse(data, "yaml").value
    except ForestayError as error:
        return what_is_wrong(path, error)[1:]
    is_it = find.format.recognise(find.path, value) >= SURE
    return find.format.torn(data, value) or (
        "" if is_it else f"this is no {find.layout} session"
    ), 0


def _with_long_log(find: Find) -> Find:
    """With the beginning of a log that is too long to be read: that it grew is no fault."""
    long = next((f for f in find.faults if _is_long_log(find, f)), None)
    begins = _first_lines(find.paths[long.file]) if long else b""
    if long is None or not begins:
        return find
    try:
        log = Document.parse(begins, "jsonl")
    except Unreadable:
        return find
    seen = f"over {MAX_BYTES >> 20} MB: only its first {len(log.lines)} lines were looked at"
    said = Finding(LONG_LOG, INFO, seen, file=long.file, requirement="S0-78")
    rest = [fault for fault in find.faults if fault is not long]
    faults = [said, *rest, *text_faults(find.layout, {long.file: log})]
    return replace(find, documents={**find.documents, long.file: log}, faults=faults)


def _is_long_log(find: Find, fault: Finding) -> bool:
    if fault.code != "unreadable" or os.path.basename(fault.file) != LOG:
        return False
    path = find.paths[fault.file]
    return os.path.isfile(path) and os.path.getsize(path) > MAX_BYTES


def _first_lines(path: str) -> bytes:
    """The whole lines at the beginning of a file; none if it cannot be read."""
    data = b""
    try:
        for part in files.read_chunks(path, follow=False):
            data += part
            if len(data) >= _FIRST_BYTES:
                break
    except ForestayError:
        return b""
    return data[: data.rfind(b"\n", 0, _FIRST_BYTES) + 1]


def reading_of(find: Find, where: Where, clean: Callable[[str], str] = str) -> Reading:
    """How a session's files are read; of what is no session, or unreadable, only the layout."""
    if not find.documents or not find.layout:
        return Reading(layout=find.layout)
    reading = find.format.reading(find.tree, where)
    reading = replace(reading, version=clean(reading.version))
    if not (reading.writable or reading.warning):
        return replace(reading, warning=f"{reading.unwritten}; the files stay so")
    if carry_over.has_carried(find.tree):
        # The layout's word may stand for several, of which the one meant travels beside it.
        facts = find.facts(where)
        complete = reading.complete and facts.status == "completed"
        progress = reading.progress if facts.progress is None else facts.progress
        return replace(reading, status=facts.status, complete=complete, progress=progress)
    return reading


def _quoted(finding: Finding, clean: Callable[[str], str]) -> Finding:
    return finding._replace(what=clean(finding.what), where=clean(finding.where))


def _placed(find: Find, finding: Finding) -> Finding:
    """A finding with the line it speaks of, and the file as the user knows it."""
    document = find.documents.get(finding.file)
    line = finding.line
    if not line and document is not None and finding.where:
        line = document.line(finding.where)
    return finding._replace(file=find.paths.get(finding.file, finding.file), line=line)
