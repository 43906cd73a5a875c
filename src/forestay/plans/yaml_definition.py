"""Read and write our workflow definitions: one YAML file each.

    workflow: release
    phases:
      - name: Build
        evidence:
          tests: observed            # only a command that Forestay ran counts
          coverage: {min: 80}        # a number
          reviewed: true             # exactly this value
          notes: string              # any value of a type
        rules:
          - check: failed == 0
            message: some tests fail
      - Ship it                      # a phase without a gate

Only this module knows the short forms. Problems are `Finding`s with line numbers; a definition
with an error is not used. `workflows/workflow-v1.json` has the same rules as JSON Schema, as far
as a schema can express them.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any

from msgspec import to_builtins

from forestay.base.findings import Finding
from forestay.base.text import clean_id, clean_input, one_line, shorten
from forestay.errors import InvalidInput
from forestay.formats.port import ERROR, WARNING
from forestay.formats.text.document import Document, fresh
from forestay.formats.text.safe_parse import Unreadable
from forestay.model.gates.expression import LARGEST, BadExpression, are_equal, is_number, parse_rule
from forestay.model.gates.gate import is_of_type
from forestay.model.gates.safe_regex import BadPattern, compile_pattern
from forestay.model.plan import (
    TYPES,
    Expiry,
    Field,
    Gate,
    Phase,
    Rule,
    Task,
    Workflow,
)
from forestay.model.state import UNITS

FORMAT = 1
MOST_BYTES = 512 * 1024
MOST = {"phases": 200, "tasks": 200, "outputs": 200, "evidence": 200, "rules": 100}
MOST_FINDINGS = 100
LINE, TEXT = 200, 4_000
_RESERVED = re.compile(r"(?:phase|stage)-[0-9]+|[0-9]+\.[0-9]+")
_HOURS = {"m": 1 / 60, "h": 1.0, "d": 24.0}

Path = tuple[str | int, ...]

KEYS: dict[str, tuple[str, ...]] = {
    "workflow": (
        *("format", "workflow", "version", "title", "description", "unit", "base", "expiry"),
        *("phases", "each"),
    ),
    "phase": (
        *("name", "purpose", "effort", "tasks", "outputs"),
        *("evidence", "rules", "strict", "override"),
    ),
    "task": ("name", "id", "purpose"),
    "field": (*("type", "required", "description", "min", "max", "equals", "matches", "observed"),),
    "rule": ("check", "message"),
    "expiry": ("pause", "abandon"),
}


def read(data: bytes, source: str, *, name: str = "") -> tuple[Workflow | None, list[Finding]]:
    """Parse a definition; return the workflow (None if there are errors) and the findings.

    `source` is how the file is shown to users; `name`, if given, is the name it must have.
    """
    try:
        document = Document.parse(data, "yaml", limit=MOST_BYTES)
    except Unreadable as error:
        return None, [Finding(error.code, ERROR, error.message, file=source, line=error.line)]
    reader = _Reader(document, source)
    made = reader.workflow(name)
    found = sorted(reader.findings, key=lambda finding: finding.line)
    return (None if reader.is_faulty else made), found


class _Reader:
    """Parses one document; a faulty value is reported and replaced by a harmless one."""

    def __init__(self, document: Document, source: str) -> None:
        self.document, self.source = document, source
        self.findings: list[Finding] = []
        self.is_faulty = False
        self.tasks: set[str] = set()

    # -- findings ------------------------------------------------------------------------------

    def note(self, code: str, message: str, path: Path, severity: str = ERROR) -> None:
        self.is_faulty |= severity == ERROR
        if len(self.findings) >= MOST_FINDINGS:
            return  # there are enough findings, and finding their lines takes time
        where = ".".join(str(part + 1) if isinstance(part, int) else part for part in path)
        line = self.document.line(path)
        self.findings.append(
            Finding(code, severity, message, file=self.source, where=where, line=line)
        )

    # -- types of values -----------------------------------------------------------------------

    def keyed(self, value: Any, path: Path, kind: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.note("wrong-type", f"a {kind} is a map of keys, not {_kind(value)}", path)
            return {}
        for key in value:
            if key not in KEYS[kind]:
                hint = _suggest(key, KEYS[kind], f"; keys: {', '.join(KEYS[kind])}")
                message = f"a {kind} has no {shorten(key, 40)}{hint}"
                self.note("unknown-key", message, (*path, key))
        return value

    def several(self, value: Any, path: Path, what: str) -> list[Any]:
        if value is None:
            return []
        if not isinstance(value, list):
            self.note("wrong-type", f"{what} is a list, not {_kind(value)}", path)
            return []
        if len(value) > MOST[what]:
            self.note("too-many", f"more than {MOST[what]} {what}", path)
        return value[: MOST[what]]

    def text(self, value: Any, path: Path, what: str, *, limit: int = LINE) -> str:
        """Return a text; one line unless the limit allows more."""
        if not isinstance(value, str):
            self.note("wrong-type", f"{what} is a text, not {_kind(value)}; put it in quotes", path)
            return ""
        return self.clean(lambda: clean_input(value, what, limit=limit, lines=limit > LINE), path)

    def optional(self, values: dict[str, Any], key: str, path: Path, *, limit: int = LINE) -> str:
        value = values.get(key)
        return "" if value is None else self.text(value, (*path, key), key, limit=limit)

    def clean(self, make: Callable[[], str], path: Path) -> str:
        try:
            return make()
        except InvalidInput as error:
            self.note("bad-text", str(error), path)
            return ""

    def flag(self, values: dict[str, Any], key: str, path: Path, default: bool) -> bool:
        value = values.get(key, default)
        if not isinstance(value, bool):
            self.note("wrong-type", f"{key} is true or false, not {_kind(value)}", (*path, key))
            return default
        return value

    # -- workflow ------------------------------------------------------------------------------

    def workflow(self, wanted: str) -> Workflow:
        values = self.keyed(self.document.value, (), "workflow")
        base = values.get("base", 1)
        if type(base) is not int or base not in (0, 1):
            self.note("bad-base", "the first phase has the number 0 or 1", ("base",))
            base = 1
        unit = values.get("unit", UNITS[0])
        if unit not in UNITS:
            self.note("bad-unit", f"unit is {' or '.join(UNITS)}", ("unit",))
            unit = UNITS[0]
        each = values.get("each")
        made: list[Phase] = []
        for at, given in enumerate(self.several(values.get("phases"), ("phases",), "phases")):
            phase = self.phase(given, ("phases", at), base + at)
            if phase.name and phase.name in [other.name for other in made]:
                message = f"two phases are called {phase.name}"
                self.note("same-name", message, ("phases", at), WARNING)
            made.append(phase)
        return Workflow(
            name=self.name(values, wanted),
            version=self.version(values),
            title=self.optional(values, "title", ()),
            description=self.optional(values, "description", (), limit=TEXT),
            unit=unit,
            base=base,
            total=len(made) if each is None else None,
            phases=made,
            pattern=None if each is None else self.phase(each, ("each",), base + len(made)),
            expiry=self.expiry(values.get("expiry")),
            source=self.source,
        )

    def name(self, values: dict[str, Any], wanted: str) -> str:
        if not are_equal(values.get("format", FORMAT), FORMAT):
            self.note("newer-format", f"only format {FORMAT} is supported", ("format",))
        if "workflow" not in values:
            self.note("missing-key", "workflow: NAME is missing", ())
            return ""
        given = values["workflow"]
        name = self.clean(lambda: clean_id(given, "the name of a workflow"), ("workflow",))
        if wanted and name and name != wanted:
            message = f"its name is {name}, but its file is called {wanted}"
            self.note("other-name", message, ("workflow",))
        return name

    def version(self, values: dict[str, Any]) -> str:
        value = values.get("version", "1")
        if isinstance(value, float):
            message = "put the version in quotes: 1.10 would be the number 1.1"
            self.note("wrong-type", message, ("version",))
            return ""
        if type(value) is int and -LARGEST <= value <= LARGEST:
            return str(value)
        return self.text(value, ("version",), "the version", limit=64)

    def expiry(self, value: Any) -> Expiry:
        if value is None:
            return Expiry()
        values = self.keyed(value, ("expiry",), "expiry")
        pause, abandon = (self.hours(values.get(key), ("expiry", key)) for key in KEYS["expiry"])
        if pause and abandon and abandon <= pause:
            self.note("contradiction", "abandon must be longer than pause", ("expiry", "abandon"))
        return Expiry(pause_hours=pause, abandon_hours=abandon)

    def hours(self, value: Any, path: Path) -> float | None:
        if value is None:
            return None
        number = value[:-1] if isinstance(value, str) else ""
        is_number = number.isascii() and number.isdigit() and 0 < len(number) <= 5
        if are_equal(value, 0):
            return 0.0
        if not is_number or value[-1] not in _HOURS:
            message = "a time is a number with m, h or d, such as 24h or 7d; 0 means never"
            self.note("bad-time", message, path)
            return None
        return int(number) * _HOURS[value[-1]]

    # -- phases --------------------------------------------------------------------------------

    def phase(self, value: Any, path: Path, number: int) -> Phase:
        if isinstance(value, str):
            return Phase(number, self.text(value, path, "the name of a phase"))
        values = self.keyed(value, path, "phase")
        return Phase(
            number=number,
            name=self.named(values, path, "phase"),
            purpose=self.optional(values, "purpose", path, limit=TEXT),
            effort=self.optional(values, "effort", path),
            tasks=[
                self.task(task, (*path, "tasks", at))
                for at, task in enumerate(
                    self.several(values.get("tasks"), (*path, "tasks"), "tasks")
                )
            ],
            outputs=list(self.outputs(values.get("outputs"), (*path, "outputs"))),
            gate=self.gate(values, path),
        )

    def named(self, values: dict[str, Any], path: Path, what: str) -> str:
        if "name" not in values:
            self.note("missing-key", f"a {what} must have a name", path)
            return ""
        return self.text(values["name"], (*path, "name"), f"the name of a {what}")

    def task(self, value: Any, path: Path) -> Task:
        if isinstance(value, str):
            return Task(self.text(value, path, "a task"))
        values = self.keyed(value, path, "task")
        name = self.named(values, path, "task")
        id = self.task_id(values["id"], (*path, "id")) if "id" in values else ""
        return Task(name, id, self.optional(values, "purpose", path, limit=TEXT))

    def task_id(self, value: Any, path: Path) -> str:
        id = self.clean(lambda: clean_id(value, "the id of a task"), path)
        if _RESERVED.fullmatch(id):
            self.note("bad-id", f"{id} is reserved for phases and tasks without an id", path)
        if id and id in self.tasks:
            self.note("duplicate-id", f"two tasks have the id {id}", path)
        self.tasks.add(id)
        return id

    def outputs(self, value: Any, path: Path) -> Iterator[str]:
        for at, each in enumerate(self.several(value, path, "outputs")):
            output = self.text(each, (*path, at), "an output", limit=LINE)
            if output and not is_inside(output):
                message = "an output is a path inside the project, such as docs/plan.md"
                self.note("bad-path", message, (*path, at))
            yield output

    # -- gates ---------------------------------------------------------------------------------

    def gate(self, values: dict[str, Any], path: Path) -> Gate | None:
        asked = [key for key in ("evidence", "rules") if values.get(key)]
        strict = self.flag(values, "strict", path, True)
        override = self.flag(values, "override", path, True)
        fields = list(self.fields(values.get("evidence"), (*path, "evidence")))
        rules = list(self.rules(values.get("rules"), (*path, "rules"), fields))
        if not asked:
            for key in ("strict", "override"):
                if key in values:
                    message = f"{key} has no effect without evidence or rules"
                    self.note("no-gate", message, (*path, key), WARNING)
            return None
        source = f"{self.source}, line {self.document.line((*path, asked[0]))}"
        return Gate(fields=fields, rules=rules, strict=strict, override=override, source=source)

    def fields(self, value: Any, path: Path) -> Iterator[Field]:
        if value is None:
            return
        if not isinstance(value, dict):
            self.note("wrong-type", f"evidence is a map of fields, not {_kind(value)}", path)
            return
        if len(value) > MOST["evidence"]:
            self.note("too-many", f"more than {MOST['evidence']} fields", path)
        for name, given in list(value.items())[: MOST["evidence"]]:
            yield self.field(name, given, (*path, name))

    def field(self, name: str, given: Any, path: Path) -> Field:
        if not is_field_name(name):
            message = "a field has a name of letters, digits and _, such as tests_pass"
            self.note("bad-name", message, path)
        values = self._expand_short_form(given, path)
        field = Field(
            name=name,
            type=self.type_of(values, path),
            required=self.flag(values, "required", path, True),
            description=self.optional(values, "description", path, limit=TEXT),
            min=self.bound(values, "min", path),
            max=self.bound(values, "max", path),
            equals=self.equals(values, path),
            matches=self.pattern(values, path),
            observed=self.flag(values, "observed", path, False),
        )
        for message in _contradictions(field):
            self.note("contradiction", message, path)
        return field

    def _expand_short_form(self, given: Any, path: Path) -> dict[str, Any]:
        """Expand the short form of a field: a type, `observed`, or the required value."""
        if given == "observed":
            return {"observed": True}
        if isinstance(given, str):
            return {"type": given}
        if isinstance(given, bool) or is_number(given):
            return {"equals": given}
        if given is None:
            message = "a field is a type, observed, a value, or a map of conditions"
            self.note("wrong-type", message, path)
            return {}
        return self.keyed(given, path, "field")

    def type_of(self, values: dict[str, Any], path: Path) -> str:
        given = values.get("type")
        if given is None:
            return _implied(values)
        if given not in TYPES:
            here = (*path, "type") if isinstance(given, str) and "type" in values else path
            hint = _suggest(str(given), [*TYPES, "observed"], f"; types: {', '.join(TYPES)}")
            self.note("bad-type", f"there is no type {shorten(str(given), 40)}{hint}", here)
            return "any"
        return str(given)

    def bound(self, values: dict[str, Any], key: str, path: Path) -> float | None:
        value = values.get(key)
        if value is None:
            return None
        if not is_number(value) or not -LARGEST <= value <= LARGEST:
            self.note("wrong-type", f"{key} is a number, not {_kind(value)}", (*path, key))
            return None
        return value

    def equals(self, values: dict[str, Any], path: Path) -> str | int | float | bool | None:
        value = values.get("equals")
        if isinstance(value, (dict, list)) or (
            is_number(value) and not -LARGEST <= value <= LARGEST
        ):
            message = "equals is a text, a number, true or false"
            self.note("wrong-type", message, (*path, "equals"))
            return None
        return value

    def pattern(self, values: dict[str, Any], path: Path) -> str:
        value = values.get("matches", "")
        if value == "" or not isinstance(value, str):
            if "matches" in values:
                self.note("wrong-type", "matches is a pattern in quotes", (*path, "matches"))
            return ""
        try:
            compile_pattern(value)
        except BadPattern as error:
            self.note("bad-pattern", error.what, (*path, "matches"))
            return ""
        return value

    def rules(self, value: Any, path: Path, fields: list[Field]) -> Iterator[Rule]:
        known = {field.name for field in fields}
        for at, each in enumerate(self.several(value, path, "rules")):
            here = (*path, at)
            values = {"check": each} if isinstance(each, str) else self.keyed(each, here, "rule")
            if "check" not in values:
                self.note("missing-key", "a rule must have a check", here)
                continue
            check = self.text(values["check"], here, "a rule", limit=1_000)
            try:
                used = parse_rule(check).fields if check else frozenset()
            except BadExpression as error:
                self.note("bad-rule", f"the rule cannot be read: {error.what}", here)
                used = frozenset()
            for name in sorted(used - known):
                message = f"the rule uses {name}, which is not a field{_suggest(name, known)}"
                self.note("unknown-field", message, here)
            yield Rule(check, self.optional(values, "message", here))


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    words = {dict: "a map", list: "a list", str: "a text", bool: "true or false"}
    return words.get(type(value), "a number")


def _suggest(word: str, known: Collection[str], otherwise: str = "") -> str:
    """Return a hint naming the known word that is most like a wrong one."""
    near = difflib.get_close_matches(word, known, 1)
    return f"; {near[0]}?" if near else otherwise


def is_inside(path: str) -> bool:
    """Return whether a path stays inside the project."""
    return not os.path.isabs(path) and "\\" not in path and ".." not in path.split("/")


def is_field_name(name: str) -> bool:
    return name.isascii() and name.isidentifier() and len(name) <= 64


def _implied(values: dict[str, Any]) -> str:
    """Return the type implied by the conditions of a field."""
    if values.get("observed") is True or isinstance(values.get("equals"), bool):
        return "boolean"
    if is_number(values.get("equals")) or {"min", "max"} & values.keys():
        return "number"
    return "string" if {"equals", "matches"} & values.keys() else "any"


def _contradictions(field: Field) -> Iterator[str]:
    bounds = [bound for bound in (field.min, field.max) if bound is not None]
    if field.observed and (field.type != "boolean" or bounds or field.matches):
        yield "an observed field is true or false: whether the command succeeded"
    elif field.observed and field.equals is not None:
        yield "an observed field must be true; remove equals"
    elif field.type == "boolean" and bounds:
        yield "a true/false field has no min or max"
    if len(bounds) == 2 and bounds[0] > bounds[1]:
        yield "min is greater than max"
    if field.equals is not None and not is_of_type(field.type, field.equals):
        yield f"equals does not have the type {field.type}"
    if field.matches and field.type not in ("any", "string"):
        yield f"matches is for texts, not for the type {field.type}"


# -- writing -----------------------------------------------------------------------------------


def write(workflow: Workflow) -> bytes:
    """Return a definition of a workflow; what our form cannot express is left out, in comments."""
    values: dict[str, Any] = {"workflow": workflow.name, "version": workflow.version}
    values |= {"base": workflow.base}
    stored = to_builtins(workflow)  # without fields that have their defaults
    values |= {key: stored[key] for key in ("title", "description", "unit") if key in stored}
    values["phases"] = [_phase(phase) for phase in stored.get("phases", [])]
    phases = [*workflow.phases]
    if workflow.pattern is not None:
        values["each"] = _phase(stored["pattern"])
        phases.append(workflow.pattern)
    comments = [
        f"# Left out of {workflow.unit} {phase.number}: {one_line(text)}\n"
        for phase in phases
        for text in (phase.gate.opaque if phase.gate else [])
    ]
    return "".join(comments).encode() + fresh("yaml", values)


def _phase(stored: dict[str, Any]) -> dict[str, Any]:
    gate = stored.get("gate") or {}
    fields = {field.pop("name"): field or "any" for field in gate.get("fields", [])}
    values = {key: value for key, value in stored.items() if key in KEYS["phase"]}
    values |= {"evidence": fields} if fields else {}
    if fields or gate.get("rules"):
        values |= {key: gate[key] for key in ("rules", "strict", "override") if key in gate}
    return values
