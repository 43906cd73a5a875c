"""Checking an essay's session file: every departure from the template, and the rules on loading.

Field by field the table `FIELDS` is the rule. Then what the document wants validated when a session
is loaded: that completed stages and sections have their files, that positions are in range, that
no stage is completed over one that was not started.

Whether files exist is judged only where the names in the session's folder are known, and only for
paths that lie in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from holdfast.layout import ERROR, INFO, WARNING, Finding, Tree, Where, stamps
from holdfast.layout.essay import artifact
from holdfast.layout.essay.form import (
    FIELDS,
    LOGS,
    PARTS,
    SECTION,
    SECTIONED,
    STAGES,
    TEMPORARY,
    Field,
    at,
    folders,
    inside,
    is_count,
    is_number,
    is_placeholder,
    main,
    said,
    sections,
    session_status,
    state_of,
    unit_status,
)
from holdfast.layout.value import mapping, sequence, text

_UUID = re.compile(r"essay-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_STYLE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_STRICT_ONLY = ("stamp-style",)
_GRAVER = ("missing-key", "naive-stamp", "odd-word", "odd-id", "placeholder")


def findings(tree: Tree, where: Where, *, strict: bool = False) -> list[Finding]:
    name, doc = main(tree), state_of(tree)
    if not doc:
        return [Finding("no-state", ERROR, "the file holds no session state", name, "", "S3-1")]
    found = [replace(finding, file=name) for look in _LOOKS for finding in look(doc, where)]
    if strict:
        graver = (*_STRICT_ONLY, *_GRAVER)
        return [replace(f, severity=ERROR) if f.code in graver else f for f in found]
    return [finding for finding in found if finding.code not in _STRICT_ONLY]


def _of(code: str, severity: str, message: str, place: str, number: str) -> Finding:
    return Finding(code, severity, message, "", place, number)


def id_fault(native_id: str) -> str:
    """Why an id is not one of this layout, or an empty string."""
    return "" if _UUID.fullmatch(native_id) else "an essay's id is `essay-` and a UUID"


# -- single values -------------------------------------------------------------------------------

Fault = tuple[str, str, str]
"""Code, severity and what is wrong."""


def _shape(doc: dict[str, Any], where: Where) -> Iterator[Finding]:
    yield from _parts(doc)
    for field in FIELDS:
        path, _, key = field.path.rpartition(".")
        parent = at(doc, path) if path else doc
        if isinstance(parent, dict):
            yield from _field(parent, key, field, field.path)
    for stage in SECTIONED:
        path = f"stages.stage_{stage}.sections"
        yield from _elements(at(doc, path), path, SECTION[stage])
    for log, fields in LOGS.items():
        yield from _elements(doc.get(log), log, fields)


def _parts(doc: dict[str, Any]) -> Iterator[Finding]:
    """The mappings around the fields."""
    for path in PARTS:
        number = next(field.number for field in FIELDS if field.path.startswith(f"{path}."))
        above, _, key = path.rpartition(".")
        parent = at(doc, above) if above else doc
        if not isinstance(parent, dict):
            continue
        if key not in parent:
            yield _of("missing-key", WARNING, f"`{path}` is missing", path, number)
        elif not isinstance(parent[key], dict):
            yield _of("wrong-type", ERROR, f"`{path}` should be a mapping", path, number)


def _elements(value: Any, path: str, fields: Iterable[Field]) -> Iterator[Finding]:
    for place, entry in enumerate(sequence(value)):
        name = f"{path}[{place}]"
        if not isinstance(entry, dict):
            number = next(iter(fields)).number
            yield _of("wrong-type", ERROR, f"`{name}` should be a mapping", name, number)
            continue
        for field in fields:
            yield from _field(entry, field.path, field, f"{name}.{field.path}")


def _field(parent: dict[str, Any], key: str, field: Field, place: str) -> Iterator[Finding]:
    if key not in parent:
        yield _of("missing-key", WARNING, f"`{place}` is missing", place, field.number)
    elif (fault := _fault(field, parent[key])) is not None:
        code, severity, message = fault
        yield _of(code, severity, f"`{place}` {message}", place, field.number)


def _fault(field: Field, value: Any) -> Fault | None:
    if value is None:
        nullable = field.default is None or field.kind in ("list", "log", "names")
        return None if nullable else ("wrong-type", ERROR, "is null")
    if is_placeholder(field, value):
        return "placeholder", INFO, "is still the template's placeholder"
    return _RULES[field.kind](field, value)


def _wrong(wanted: str) -> Fault:
    return "wrong-type", ERROR, f"should be {wanted}"


def _text(field: Field, value: Any) -> Fault | None:
    if not isinstance(value, str):
        return _wrong("text")
    return None if value.strip() else ("not-set", INFO, "is empty")


_OWN_WORDS = ("reason", "fact_checker_result")
"""Real files say in their own words why a claim was deferred, and fact checkers what they found."""


def _word(field: Field, value: Any) -> Fault | None:
    if not isinstance(value, str):
        return _wrong(f"one of {', '.join(field.words)}")
    if value in field.words:
        return None
    known = {"status": session_status, "unit": unit_status}.get(field.kind)
    if field.path in _OWN_WORDS or (known is not None and known(value) is not None):
        return "odd-word", WARNING, f"should be one of {', '.join(field.words)}"
    return "unknown-word", ERROR, f"should be one of {', '.join(field.words)}"


def _id(field: Field, value: Any) -> Fault | None:
    if not isinstance(value, str):
        return _wrong("text")
    return ("odd-id", WARNING, "should be `essay-` and a UUID") if id_fault(value) else None


def _stamp(field: Field, value: Any) -> Fault | None:
    if stamps.read(value) is None:
        return "bad-stamp", ERROR, "should be a time in ISO 8601"
    if stamps.is_naive(value):
        return "naive-stamp", WARNING, "has no time zone"
    return None if _STYLE.fullmatch(value) else ("stamp-style", INFO, "is not in our own style")


def _number(field: Field, value: Any) -> Fault | None:
    return None if is_number(value) else _wrong("a number")


def _rating(field: Field, value: Any) -> Fault | None:
    if not is_number(value):
        return _wrong("a number from 1 to 5")
    return None if 1 <= value <= 5 else ("out-of-range", ERROR, "should be from 1 to 5")


def _count(field: Field, value: Any) -> Fault | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return _wrong("a whole number")
    least = 1 if field.kind in ("ordinal", "stage") else 0
    most = len(STAGES) if field.kind == "stage" else None
    if is_count(value, least) and (most is None or value <= most):
        return None
    wanted = f"from {least} to {most}" if most else f"{least} or more"
    return "out-of-range", ERROR, f"should be {wanted}"


def _flag(field: Field, value: Any) -> Fault | None:
    return None if isinstance(value, bool) else _wrong("true or false")


def _list(field: Field, value: Any) -> Fault | None:
    return None if isinstance(value, list) else _wrong("a list")


def _names(field: Field, value: Any) -> Fault | None:
    names = sequence(value)
    return _list(field, value) or (
        None if all(isinstance(n, str) for n in names) else _wrong("a list of names")
    )


def _stage_name(field: Field, value: Any) -> Fault | None:
    return _word(field._replace(words=tuple(stage.name for stage in STAGES.values())), value)


_RULES: dict[str, Callable[[Field, Any], Fault | None]] = {
    "id": _id,
    "stamp": _stamp,
    "status": _word,
    "unit": _word,
    "word": _word,
    "text": _text,
    "place": _text,
    "path": _text,
    "folder": _text,
    "stage": _count,
    "stage-name": _stage_name,
    "count": _count,
    "ordinal": _count,
    "rating": _rating,
    "score": _number,
    "flag": _flag,
    "list": _list,
    "log": _list,
    "names": _names,
}


# -- values against each other -------------------------------------------------------------------


def _stage_agrees(doc: dict[str, Any], where: Where) -> Iterator[Finding]:
    number, name = doc.get("current_stage"), doc.get("current_stage_name")
    names = [stage.name for stage in STAGES.values()]
    if is_count(number) and number in STAGES and name in names and STAGES[number].name != name:
        message = f"stage {number} is called `{STAGES[number].name}`, not `{name}`"
        yield _of("stage-name-differs", ERROR, message, "current_stage_name", "S3-11")


def _numbering(doc: dict[str, Any], where: Where) -> Iterator[Finding]:
    for stage, number in ((3, "S3-27"), (4, "S3-41")):
        seen: set[int] = set()
        path = f"stages.stage_{stage}.sections"
        for place, entry in enumerate(sequence(at(doc, path))):
            index = mapping(entry).get("section_index")
            if not is_count(index, 1):
                continue
            if index in seen:
                message = f"section {index} stands twice in the list"
                yield _of("duplicate-section", ERROR, message, f"{path}[{place}]", number)
            seen.add(index)


def _ranges(doc: dict[str, Any], where: Where) -> Iterator[Finding]:
    for stage in SECTIONED:
        path, total = f"stages.stage_{stage}.current_section", _total(doc, stage)
        section = at(doc, path)
        if is_count(section, 1) and total is not None and section > total:
            message = f"section {section} is current, but there are {total}"
            yield _of("section-out-of-range", ERROR, message, path, "S3-111")
    path = "stages.stage_4.current_paragraph"
    paragraph, last = at(doc, path), _last_paragraph(doc)
    if is_count(paragraph) and not 1 <= paragraph <= (paragraph if last is None else last):
        message = f"paragraph {paragraph} is current, but the last possible one is {last}"
        message = message if last is not None else "paragraphs are counted from 1"
        yield _of("paragraph-out-of-range", ERROR, message, path, "S3-112")


def _counts(doc: dict[str, Any], where: Where) -> Iterator[Finding]:
    """Numbers of the same things, told in several places; readers live with what differs."""
    outlined, argued = (at(doc, f"stages.stage_{n}.total_sections") for n in (2, 3))
    if is_count(outlined) and is_count(argued) and outlined != argued:
        message = f"{argued} sections are to be argued, but the outline has {outlined}"
        yield _of("count-differs", WARNING, message, "stages.stage_3.total_sections", "S3-24")
    path = "stages.stage_4.sections"
    for place, entry in enumerate(sequence(at(doc, path))):
        total, done = (mapping(entry).get(f"{k}_paragraphs") for k in ("total", "completed"))
        if is_count(total) and is_count(done) and done > total:
            message = f"{done} paragraphs are completed, but there are {total}"
            at_entry = f"{path}[{place}].completed_paragraphs"
            yield _of("count-differs", WARNING, message, at_entry, "S3-43")


def _total(doc: dict[str, Any], stage: int) -> int | None:
    """How many sections there are, as far as the file knows."""
    said = [at(doc, f"stages.stage_{n}.total_sections") for n in (3, 2)]
    counts = [count for count in said if is_count(count)]
    return counts[0] if counts else max(sections(doc, stage), default=None)


def _last_paragraph(doc: dict[str, Any]) -> int | None:
    current = at(doc, "stages.stage_4.current_section")
    section = sections(doc, 4).get(current, {}) if is_count(current, 1) else {}
    total = section.get("total_paragraphs")
    return total + 1 if is_count(total) else None


def _order(doc: dict[str, Any], where: Where) -> Iterator[Finding]:
    statuses = {n: unit_status(at(doc, f"stages.stage_{n}.status")) for n in STAGES}
    for number, status in statuses.items():
        skipped = [n for n in STAGES if n < number and statuses[n] == "pending"]
        if status == "done" and skipped:
            message = f"stage {number} is completed, but stage {skipped[0]} was not started"
            place = f"stages.stage_{number}.status"
            yield _of("prerequisite-not-started", ERROR, message, place, "S3-114")
    unfinished = [n for n, status in statuses.items() if status in ("pending", "running")]
    if session_status(doc.get("status")) == "completed" and unfinished:
        message = f"the session is completed, but stage {unfinished[0]} is not"
        yield _of("completed-too-early", WARNING, message, "status", "S3-5")


def _times(doc: dict[str, Any], where: Where) -> Iterator[Finding]:
    began, last = (stamps.read(doc.get(k), where.naive) for k in ("started_at", "last_activity"))
    if began is not None and last is not None and last < began:
        message = "the last activity lies before the start"
        yield _of("time-runs-back", WARNING, message, "last_activity", "S3-4")
    stages = ((n, f"stages.stage_{n}", mapping(at(doc, f"stages.stage_{n}"))) for n in STAGES)
    numbers = {1: "S3-16", 2: "S3-22", 3: "S3-34", 4: "S3-46"}
    for number, path, stage in stages:
        yield from _ended(stage, path, numbers[number])
    for path, section in _mapped(doc):
        yield from _ended(section, path, "S3-32")


def _ended(unit: dict[str, Any], path: str, number: str) -> Iterator[Finding]:
    if unit_status(unit.get("status")) == "done" and unit.get("completed_at", "") is None:
        message = f"`{path}` is completed, but not when"
        yield _of("completed-without-time", WARNING, message, f"{path}.completed_at", number)


def _mapped(doc: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The sections of which there are maps of arguments, each with its path."""
    path = "stages.stage_3.sections"
    places = {id(entry): place for place, entry in enumerate(sequence(at(doc, path)))}
    for section in sections(doc, 3).values():
        yield f"{path}[{places[id(section)]}]", section


# -- files ---------------------------------------------------------------------------------------


def _results(doc: dict[str, Any], where: Where) -> Iterator[Finding]:
    """What is marked completed must have its result."""
    for number, stage in STAGES.items():
        path = f"stages.stage_{number}"
        if stage.file and unit_status(at(doc, f"{path}.status")) == "done":
            yield from _result(at(doc, f"{path}.{stage.file}"), f"{path}.{stage.file}", "S3-109")
    for path, section in _mapped(doc):
        if unit_status(section.get("status")) == "done":
            file = section.get("argument_map_file")
            yield from _result(file, f"{path}.argument_map_file", "S3-110")


def _result(value: Any, place: str, number: str) -> Iterator[Finding]:
    if value is None or value == "":
        message = f"marked completed, but `{place}` names no file"
        yield _of("completed-without-file", ERROR, message, place, number)


def _files(doc: dict[str, Any], where: Where) -> Iterator[Finding]:
    around = folders(doc, where)
    for place, value, rule in _references(doc):
        name = inside(value, around)
        if not artifact.is_current(name) and artifact.is_version(name):
            message = f"{name} is an archived version; only the unversioned file is current"
            yield _of("archived-as-current", WARNING, message, place, "S3-133")
        if _is_absent(name, where):
            message = f"{name} does not exist in the session's folder"
            yield _of("file-missing", ERROR, message, place, rule)
    for number, entry in enumerate(sequence(doc.get("revision_history"))):
        for name in sequence(mapping(entry).get("downstream_archived")):
            if isinstance(name, str) and _is_absent(inside(name, around), where):
                message = f"the archived {name} does not exist in the session's folder"
                path = f"revision_history[{number}].downstream_archived"
                yield _of("archived-file-missing", WARNING, message, path, "S3-113")


def _is_absent(name: str, where: Where) -> bool:
    lies_here = name != "" and not name.startswith(("/", "~", "../"))
    return bool(where.names) and lies_here and name not in where.names


def _references(doc: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Every path that the file names: its place, itself, the rule that wants it to exist."""
    results = {f"stages.stage_{n}.{stage.file}" for n, stage in STAGES.items() if stage.file}
    for field in FIELDS:
        path = said(field, at(doc, field.path)) if field.kind == "path" else None
        if path is not None:
            done = unit_status(at(doc, field.path.rpartition(".")[0] + ".status")) == "done"
            yield field.path, path, "S3-109" if done and field.path in results else "S3-113"
    for at_section, section in _mapped(doc):
        if isinstance(path := section.get("argument_map_file"), str) and path.strip():
            done = unit_status(section.get("status")) == "done"
            yield f"{at_section}.argument_map_file", path, "S3-110" if done else "S3-113"


def _folder(doc: dict[str, Any], where: Where) -> Iterator[Finding]:
    named = folders(doc, Where())
    root = where.root.rstrip("/")
    if named and root and named[0] != root:
        message = f"the file says that its folder is {named[0]}, but it lies in {root}"
        yield _of("folder-differs", WARNING, message, "session_dir", "S3-9")
    if (root or text(next(iter(named), ""))).startswith("/tmp/"):
        message = "the session lies in /tmp, which is emptied when the machine restarts"
        yield _of("folder-is-temporary", WARNING, message, "session_dir", "S3-120")
    if TEMPORARY in where.names:
        message = f"{TEMPORARY} was left by a write that did not finish"
        yield _of("write-unfinished", INFO, message, "", "S3-76")


_LOOKS = (
    *(_shape, _stage_agrees, _numbering, _ranges, _counts),
    *(_order, _times, _results, _files, _folder),
)
