"""Check an essay's session file: first the table `RULES`, then the rules that span several values.

Completed stages and sections must have their files, positions must be in range, and no stage may be
completed before an earlier one was started. Whether a file exists is checked only if the names in
the session's folder are known, and only for paths inside that folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from forestay.base.findings import Finding
from forestay.formats.coerce import mapping, sequence
from forestay.formats.essay import stage_files
from forestay.formats.essay.fields import (
    FIELDS,
    RULES,
    SECTIONED,
    STAGES,
    TEMPORARY,
    folders,
    inside,
    is_count,
    read_session_status,
    read_unit_status,
    read_value,
    sections,
    state_name,
    state_of,
    value_at,
)
from forestay.formats.port import ERROR, INFO, Tree, Where
from forestay.formats.schema import check_time_order, check_value, warn


def find_faults(tree: Tree, where: Where, *, strict: bool = False) -> list[Finding]:
    name, doc = state_name(tree), state_of(tree)
    if not doc:
        return [
            Finding(
                "no-state", ERROR, "the file has no session state", file=name, requirement="S3-1"
            )
        ]
    found = [
        finding._replace(severity=INFO) if finding.code == "not-set" else finding
        for finding in check_value(RULES, doc, strict=strict)
        if strict or finding.code != "stamp-style"
    ]
    found += [finding for check in _CHECKS for finding in check(doc, where)]
    return [finding._replace(file=name) for finding in found]


def _error(code: str, message: str, at: str, req: str) -> Finding:
    return warn(code, message, at, req, ERROR)


# -- values against each other -------------------------------------------------------------------


def _check_stage(doc: dict[str, Any], where: Where) -> Iterator[Finding]:
    number, name = doc.get("current_stage"), doc.get("current_stage_name")
    names = [stage.name for stage in STAGES.values()]
    if is_count(number) and number in STAGES and name in names and STAGES[number].name != name:
        message = f"stage {number} is called `{STAGES[number].name}`, not `{name}`"
        yield _error("stage-name-differs", message, "current_stage_name", "S3-11")


def _check_numbers(doc: dict[str, Any], where: Where) -> Iterator[Finding]:
    for stage, req in ((3, "S3-27"), (4, "S3-41")):
        first = sections(doc, stage)
        path = f"stages.stage_{stage}.sections"
        for place, entry in enumerate(sequence(value_at(doc, path))):
            index = mapping(entry).get("section_index")
            if is_count(index, 1) and first.get(index, entry) is not entry:
                message = f"section {index} is listed twice"
                yield _error("duplicate-section", message, f"{path}[{place}]", req)


def _check_position(doc: dict[str, Any], where: Where) -> Iterator[Finding]:
    totals = [value_at(doc, f"stages.stage_{n}.total_sections") for n in (3, 2)]
    for stage in SECTIONED:
        path = f"stages.stage_{stage}.current_section"
        section, known = value_at(doc, path), max(sections(doc, stage), default=None)
        total = next((count for count in totals if is_count(count)), known)
        if is_count(section, 1) and total is not None and section > total:
            message = f"section {section} is current, but there are only {total}"
            yield _error("section-out-of-range", message, path, "S3-111")
    path = "stages.stage_4.current_paragraph"
    paragraph, current = value_at(doc, path), value_at(doc, "stages.stage_4.current_section")
    total = sections(doc, 4).get(current, {}).get("total_paragraphs") if is_count(current) else None
    last = total + 1 if is_count(total) else None
    if is_count(paragraph) and not 1 <= paragraph <= (paragraph if last is None else last):
        message = f"paragraph {paragraph} is current, but the last possible one is {last}"
        message = message if last is not None else "paragraphs are counted from 1"
        yield _error("paragraph-out-of-range", message, path, "S3-112")


def _check_counts(doc: dict[str, Any], where: Where) -> Iterator[Finding]:
    """Compare counts that the file has in several places; a difference is only a warning."""
    outlined, argued = (value_at(doc, f"stages.stage_{n}.total_sections") for n in (2, 3))
    if is_count(outlined) and is_count(argued) and outlined != argued:
        message = f"{argued} sections are to be argued, but the outline has {outlined}"
        yield warn("count-differs", message, "stages.stage_3.total_sections", "S3-24")
    path = "stages.stage_4.sections"
    for place, entry in enumerate(sequence(value_at(doc, path))):
        total, done = (mapping(entry).get(f"{k}_paragraphs") for k in ("total", "completed"))
        if is_count(total) and is_count(done) and done > total:
            message = f"{done} paragraphs are completed, but there are only {total}"
            yield warn("count-differs", message, f"{path}[{place}].completed_paragraphs", "S3-43")


def _check_order(doc: dict[str, Any], where: Where) -> Iterator[Finding]:
    statuses = {n: read_unit_status(value_at(doc, f"stages.stage_{n}.status")) for n in STAGES}
    for number, status in statuses.items():
        pending = [n for n in STAGES if n < number and statuses[n] == "pending"]
        if status == "done" and pending:
            message = f"stage {number} is completed, but stage {pending[0]} was not started"
            path = f"stages.stage_{number}.status"
            yield _error("prerequisite-not-started", message, path, "S3-114")
    unfinished = [n for n, status in statuses.items() if status in ("pending", "running")]
    if read_session_status(doc.get("status")) == "completed" and unfinished:
        message = f"the session is completed, but stage {unfinished[0]} is not"
        yield warn("completed-too-early", message, "status", "S3-5")
    yield from check_time_order(doc, ("started_at", "last_activity"), "", "S3-4", where)


# -- completed units and files -------------------------------------------------------------------


def _units(doc: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], str, str, str]]:
    """Yield each stage and each section of stage 3.

    A row has the path, the value, the key that names the result file, and the requirements for its
    time and its file.
    """
    ends = {1: "S3-16", 2: "S3-22", 3: "S3-34", 4: "S3-46"}
    for number, stage in STAGES.items():
        path = f"stages.stage_{number}"
        yield path, mapping(value_at(doc, path)), stage.file, ends[number], "S3-109"
    path, first = "stages.stage_3.sections", {id(each) for each in sections(doc, 3).values()}
    for place, entry in enumerate(sequence(value_at(doc, path))):
        if id(entry) in first:
            yield f"{path}[{place}]", entry, "argument_map_file", "S3-32", "S3-110"


def _check_results(doc: dict[str, Any], where: Where) -> Iterator[Finding]:
    """Check that each completed stage and section has its time and its result file."""
    for path, unit, key, ended, result in _units(doc):
        if read_unit_status(unit.get("status")) != "done":
            continue
        if unit.get("completed_at", "") is None:
            message = f"`{path}` is completed, but has no completion time"
            yield warn("completed-without-time", message, f"{path}.completed_at", ended)
        if key and unit.get(key) in (None, ""):
            message = f"marked completed, but `{path}.{key}` names no file"
            yield _error("completed-without-file", message, f"{path}.{key}", result)


def _check_files(doc: dict[str, Any], where: Where) -> Iterator[Finding]:
    around = folders(doc, where)
    for at, value, req in _references(doc):
        name = inside(value, around)
        if not stage_files.is_current(name) and stage_files.is_version(name):
            message = f"{name} is an archived version; only the unversioned file is current"
            yield warn("archived-as-current", message, at, "S3-133")
        if _is_absent(name, where):
            yield _error("file-missing", f"{name} does not exist in the session's folder", at, req)
    for number, entry in enumerate(sequence(doc.get("revision_history"))):
        for name in sequence(mapping(entry).get("downstream_archived")):
            if isinstance(name, str) and _is_absent(inside(name, around), where):
                message = f"the archived {name} does not exist in the session's folder"
                path = f"revision_history[{number}].downstream_archived"
                yield warn("archived-file-missing", message, path, "S3-113")


def _is_absent(name: str, where: Where) -> bool:
    lies_here = name != "" and not name.startswith(("/", "~", "../"))
    return bool(where.names) and lies_here and name not in where.names


def _references(doc: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield every path in the file: its key, the path, and the requirement that it exists."""
    results: dict[str, str] = {}
    for path, unit, key, _, req in _units(doc):
        is_done = read_unit_status(unit.get("status")) == "done"
        results[f"{path}.{key}"] = req if is_done else "S3-113"
        if "[" in path and isinstance(name := unit.get(key), str) and name.strip():
            yield f"{path}.{key}", name, results[f"{path}.{key}"]
    for field in FIELDS:
        name = read_value(field, value_at(doc, field.path)) if field.kind == "path" else None
        if name is not None:
            yield field.path, name, results.get(field.path, "S3-113")


def _check_folder(doc: dict[str, Any], where: Where) -> Iterator[Finding]:
    named, root = next(iter(folders(doc, Where())), ""), where.root.rstrip("/")
    if named and root and named != root:
        message = f"the file names {named} as its folder, but it lies in {root}"
        yield warn("folder-differs", message, "session_dir", "S3-9")
    if (root or named).startswith("/tmp/"):
        message = "the session lies in /tmp, which is emptied when the machine restarts"
        yield warn("folder-is-temporary", message, "session_dir", "S3-120")
    if TEMPORARY in where.names:
        message = f"{TEMPORARY} was left by a write that did not finish"
        yield warn("write-unfinished", message, "", "S3-76", INFO)


_CHECKS = (
    *(_check_stage, _check_numbers, _check_position, _check_counts, _check_order),
    *(_check_results, _check_files, _check_folder),
)
