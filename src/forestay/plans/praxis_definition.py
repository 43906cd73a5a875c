"""Read praxis workflow definitions: a folder with `metadata.json` and a gate file per phase.

    metadata.json                        the phases and their tasks; `total_phases` can be "dynamic"
    phases/N/gate-definition.yaml        the evidence required for phase N; optional

Their validators and rules are Python. They are shown to users (`Gate.opaque`) and never evaluated.
Nothing outside the folder is read: links that lead out are refused.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from forestay.base import files
from forestay.base.findings import Finding
from forestay.base.text import clean_id, coerce_input
from forestay.errors import ForestayError
from forestay.formats.coerce import mapping, sequence
from forestay.formats.port import ERROR, WARNING
from forestay.formats.praxis.read import is_count, is_phase, last_phase
from forestay.formats.text.document import Document
from forestay.formats.text.safe_parse import Unreadable
from forestay.model.plan import Field, Gate, Phase, Task, Workflow

METADATA = "metadata.json"
GATE = "gate-definition.yaml"
MOST_BYTES = 1024 * 1024
MOST_IN_ALL = 4 * 1024 * 1024
MOST_PHASES = 1000
MOST_FINDINGS = 100
DYNAMIC = "dynamic"

_TYPES = {
    **{word: word for word in ("boolean", "integer", "number", "string", "list", "object", "any")},
    "bool": "boolean",
    "int": "integer",
    "float": "number",
    "str": "string",
    "array": "list",
    "dict": "object",
}
_RANGE = re.compile(r"([0-9]{1,4})\s*-\s*[A-Za-z]")
_LINE, _TEXT = 200, 4_000


def is_folder(path: str) -> bool:
    """Return whether a folder contains a praxis definition."""
    return os.path.isfile(os.path.join(path, METADATA))


def starting_phase(
    metadata: Mapping[str, Any], workflow_dir: str | os.PathLike[str] | None = None
) -> int:
    """Return 0 or 1: from the phase folders if there are any, else from the definition."""
    if workflow_dir is not None:
        return 0 if os.path.isdir(os.path.join(workflow_dir, "phases", "0")) else 1
    return first_of(metadata)


def first_of(metadata: Mapping[str, Any]) -> int:
    """Return 0 or 1, from the metadata."""
    listed = metadata.get("phases")
    entries = listed[:MOST_PHASES] if isinstance(listed, list) else []
    numbers = [each.get("phase_number") for each in entries if isinstance(each, dict)]
    values = [metadata.get("starting_phase"), metadata.get("start_phase")]
    known = [number for number in (*values, *numbers) if is_phase(number)]
    return 0 if 0 in known else 1


def read(folder: str, source: str) -> tuple[Workflow | None, list[Finding]]:
    """Parse a folder; return the workflow (None if there are errors) and the findings."""
    reader = _Reader(folder, source)
    made = reader.workflow()
    return (None if reader.has_errors else made), reader.findings


class _Reader:
    def __init__(self, folder: str, source: str) -> None:
        self.folder, self.source = folder, source
        self.findings: list[Finding] = []
        self.has_errors = False
        self.room = MOST_IN_ALL

    def note(
        self, code: str, message: str, file: str, line: int = 0, severity: str = ERROR
    ) -> None:
        self.has_errors |= severity == ERROR
        if len(self.findings) >= MOST_FINDINGS:
            return
        file = os.path.join(self.source, file)
        self.findings.append(Finding(code, severity, message, file=file, line=line))

    # -- files ---------------------------------------------------------------------------------

    def document(self, name: str, kind: str) -> Document | None:
        """Return a file of the folder that contains a map; None if missing or faulty."""
        path = os.path.join(self.folder, name)
        if not os.path.lexists(path):
            return None
        try:
            return self._parsed(path, kind)
        except Unreadable as error:
            self.note(error.code, error.message, name, error.line)
        except ForestayError as error:
            self.note("unreadable", str(error), name)
        return None

    def _parsed(self, path: str, kind: str) -> Document:
        if not _is_below(path, self.folder):
            raise Unreadable("link-out", "a link that leads out of the folder")
        data = files.read_bounded(path, min(MOST_BYTES, self.room))
        self.room -= len(data)
        found = Document.parse(data, kind)
        if not isinstance(found.value, dict):
            raise Unreadable("wrong-type", "it is not a map")
        return found

    # -- metadata ------------------------------------------------------------------------------

    def workflow(self) -> Workflow | None:
        found = self.document(METADATA, "json")
        if found is None:
            if not self.findings:
                self.note("missing-file", "the file is missing", METADATA)
            return None
        values = found.value
        base = self.base(values)
        listed = self.phases(values, found)
        pattern = next((phase for phase, is_pattern in listed if is_pattern), None)
        named = [phase for phase, is_pattern in listed if not is_pattern]
        named += self.further(pattern, named, base)
        total = self.total(values, named, pattern)
        self.range(named, base, total)
        return Workflow(
            name=self.name(values),
            version=_word(values.get("version"), 64) or "1",
            title=_word(values.get("name")),
            description=_word(values.get("description"), _TEXT),
            base=base,
            total=total,
            phases=sorted(named, key=lambda phase: phase.number),
            pattern=pattern,
            source=self.source,
        )

    def name(self, values: Mapping[str, Any]) -> str:
        # A workflow is found by its folder's name; workflow_type inside the file can differ.
        for given in (os.path.basename(os.path.abspath(self.folder)), values.get("workflow_type")):
            try:
                return clean_id(given or "", "workflow_type")
            except ForestayError:
                continue
        self.note("bad-name", "workflow_type cannot be used as a name", METADATA)
        return ""

    def base(self, values: Mapping[str, Any]) -> int:
        # Without phase folders, the metadata decides whether the first phase is 0 or 1.
        has_phases = os.path.isdir(os.path.join(self.folder, "phases"))
        return starting_phase(values, self.folder if has_phases else None)

    def total(
        self, values: Mapping[str, Any], named: list[Phase], pattern: Phase | None
    ) -> int | None:
        total = values.get("total_phases")
        if total == DYNAMIC or (total is None and pattern is not None):
            return None
        if total is None:
            return len(named)
        if not is_count(total) or total > MOST_PHASES:
            self.note("bad-total", 'total_phases must be a number or "dynamic"', METADATA)
            return None
        if len(named) != total and pattern is None:
            message = f"total_phases is {total}, and {len(named)} phases are listed"
            self.note("other-total", message, METADATA, severity=WARNING)
        return total

    def range(self, named: list[Phase], base: int, total: int | None) -> None:
        last = None if total is None else last_phase(total, base)
        outside = [
            str(p.number) for p in named if last is not None and not base <= p.number <= last
        ]
        if outside:
            message = (
                f"phases outside {base} to {last} are never reached: {', '.join(outside[:10])}"
            )
            self.note("out-of-range", message, METADATA, severity=WARNING)

    def phases(self, values: Mapping[str, Any], found: Document) -> list[tuple[Phase, bool]]:
        """Return each phase, and whether it is a pattern for phases that are not known yet."""
        listed = values.get("phases")
        if not isinstance(listed, list) or len(listed) > MOST_PHASES:
            self.note("wrong-type", "phases must be a list", METADATA)
            return []
        made: list[tuple[Phase, bool]] = []
        for at, each in enumerate(listed):
            line = found.line(("phases", at))
            number, is_pattern = _number(each)
            if number is None:
                self.note("bad-number", "a phase must have a phase_number", METADATA, line)
            elif any(number == phase.number for phase, _ in made):
                self.note("duplicate-number", f"phase {number} is listed twice", METADATA, line)
            else:
                made.append((self.phase(each, number), is_pattern))
        return made

    def phase(self, values: Mapping[str, Any], number: int) -> Phase:
        tasks = values.get("tasks")
        entries = tasks[:MOST_PHASES] if isinstance(tasks, list) else []
        return Phase(
            number=number,
            name=_word(values.get("phase_name")) or f"Phase {number}",
            purpose=_word(values.get("purpose"), _TEXT),
            effort=_word(values.get("estimated_effort")),
            tasks=[task for each in entries if (task := _task(each))],
            gate=self.gate(number),
        )

    def further(self, pattern: Phase | None, named: list[Phase], base: int) -> list[Phase]:
        """Return phases that have only a gate file, made from the pattern of the definition."""
        if pattern is None:
            return []
        known = {phase.number for phase in named}
        found = []
        for path in files.list_paths(os.path.join(self.folder, "phases"))[:MOST_PHASES]:
            name = os.path.basename(path)
            number = int(name) if name.isascii() and name.isdigit() and len(name) < 5 else -1
            gate = self.gate(number) if number >= base and number not in known else None
            if gate is not None:
                found.append(msgspec.structs.replace(pattern, number=number, gate=gate))
        return found

    # -- gates ---------------------------------------------------------------------------------

    def gate(self, number: int) -> Gate | None:
        name = os.path.join("phases", str(number), GATE)
        found = self.document(name, "yaml")
        if found is None:
            return None
        values = found.value
        checkpoint, schema, validators = (
            self.part(values, (key,), name, found)
            for key in ("checkpoint", "evidence_schema", "validators")
        )
        return Gate(
            fields=[
                self.field(
                    key, self.part(schema, ("evidence_schema", key), name, found), name, found
                )
                for key in schema
                if _word(key)
            ],
            strict=checkpoint.get("strict", True) is not False,
            override=checkpoint.get("allow_override", True) is not False,
            source=os.path.join(self.source, name),
            opaque=self.opaque(values, schema, validators, name, found),
        )

    def part(
        self, values: Mapping[str, Any], path: tuple[str, ...], file: str, found: Document
    ) -> Mapping[str, Any]:
        """Return a map in a gate; report any other value, because it has no effect."""
        value = values.get(path[-1])
        if value is not None and not isinstance(value, dict):
            message = f"{_word(path[-1], 40)} is not a map and has no effect"
            self.note("wrong-type", message, file, found.line(path), WARNING)
        return mapping(value)

    def field(self, key: str, values: Mapping[str, Any], file: str, found: Document) -> Field:
        given = values.get("type", "any")
        kind = _TYPES.get(given if isinstance(given, str) else "")
        if kind is None:
            line = found.line(("evidence_schema", key))
            message = f"unknown type {_word(str(given), 40)}; any value passes"
            self.note("bad-type", message, file, line, WARNING)
        return Field(
            name=_word(key),
            type=kind or "any",
            required=values.get("required", True) is not False,
            description=_word(values.get("description"), _TEXT),
        )

    def opaque(
        self,
        values: Mapping[str, Any],
        schema: Mapping[str, Any],
        validators: Mapping[str, Any],
        file: str,
        found: Document,
    ) -> list[str]:
        texts = [_validator(key, mapping(values), validators) for key, values in schema.items()]
        rules = values.get("cross_field_validation")
        if rules is not None and not isinstance(rules, list):
            line = found.line(("cross_field_validation",))
            self.note("wrong-type", "cross_field_validation is not a list", file, line, WARNING)
        texts += [_rule(each) for each in sequence(rules)]
        texts = [each for each in texts if each]
        for each in texts:
            key = "evidence_schema" if rules is None else "cross_field_validation"
            message = f"shown, but not evaluated: {_word(each)}"
            self.note("opaque-rule", message, file, found.line((key,)), WARNING)
        return texts


def _is_below(path: str, folder: str) -> bool:
    real = os.path.realpath(folder)
    return os.path.realpath(path).startswith(real + os.sep)


def _word(value: Any, limit: int = _LINE) -> str:
    """Return a value as clean text; empty if it is not a text."""
    return coerce_input(value, limit=limit, lines=limit > _LINE) if isinstance(value, str) else ""


def _number(value: Any) -> tuple[int | None, bool]:
    given = value.get("phase_number") if isinstance(value, dict) else None
    if is_phase(given):
        return given, False
    match = _RANGE.fullmatch(given) if isinstance(given, str) else None
    return (int(match[1]), True) if match else (None, False)


def _task(value: Any) -> Task | None:
    values = mapping(value)
    name = _word(value if isinstance(value, str) else values.get("name"))
    return Task(name, purpose=_word(values.get("purpose"), _TEXT)) if name else None


def _validator(key: str, values: Mapping[str, Any], validators: Mapping[str, Any]) -> str:
    name = values.get("validator")
    if not isinstance(name, str):
        return ""
    meant = validators.get(name, name)
    given = values.get("validator_params")
    more = f" with {json.dumps(given)}" if given else ""
    return _word(f"{key}: {meant}{more}", 1_000)


def _rule(value: Any) -> str:
    values = mapping(value)
    rule, message = values.get("rule"), values.get("error_message")
    text = f"{rule} ({message})" if message else f"{rule}"
    return "" if rule is None else _word(text, 1_000)
