"""Gates: decide whether the evidence for a phase is enough, and what to do if it is not.

Evidence is *claimed* (an agent or a user gave the value) or *observed* (a command that we ran
showed it). If a field has both, the observed value counts. A gate that is not strict passes
everything and warns; a phase without a gate passes everything. `judge` is pure: equal arguments
give an equal judgment.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from forestay.base.text import plural, shorten, terminal
from forestay.errors import InvalidInput
from forestay.model.gates.expression import BadExpression, are_equal, is_number, kind_of, parse_rule
from forestay.model.gates.safe_regex import BadPattern, Effort, compile_pattern
from forestay.model.plan import Field, Gate, Rule

MOST_BYTES = 10 * 1024 * 1024
DEEPEST = 64
MOST_FIELDS = 1_000
MOST_VALUES = 1_000_000
LONGEST_NAME = 200
PERMISSIVE = "permissive"
"""The source of the gate that is used for a phase without a gate."""

_SHOWN = 60
_PROVE_AGAIN = "forestay prove --again"


class Diagnostics(Struct, frozen=True):
    fields_submitted: list[str]
    fields_required: list[str]
    fields_missing: list[str]
    fields_failed: list[str]
    strict_mode: bool
    gate_source: str
    validation_timestamp: str


class Judgment(Struct, frozen=True):
    """The result of a gate. `errors` is empty if it passed; `remediation` is for people."""

    checkpoint_passed: bool
    errors: list[str]
    warnings: list[str]
    diagnostics: Diagnostics
    remediation: str
    next_steps: list[str]

    @property
    def issue(self) -> str:
        """Return why the evidence did not pass, in one line."""
        return "; ".join(self.errors)

    def as_values(self) -> dict[str, Any]:
        """Return the judgment as plain values, as it is shown to programs."""
        values: dict[str, Any] = msgspec.to_builtins(self)
        return values


def judge(
    gate: Gate | None,
    evidence: Mapping[str, Any],
    *,
    at: str,
    phase: int | None = None,
    observed: Mapping[str, bool] | None = None,
    stale: frozenset[str] = frozenset(),
    next_steps: Sequence[str] = (),
) -> Judgment:
    """Judge whether the evidence is enough for a gate; `gate` is None for a phase without one.

    `evidence` are the claimed values, `observed` holds for each field with a command whether that
    succeeded, `stale` names those whose inputs have changed since. `at` is the time shown in the
    diagnostics, `next_steps` what follows if it passed. Evidence that cannot be recorded at all
    raises `InvalidInput`.
    """
    check_evidence(evidence)
    check = _Check(gate or Gate(strict=False, source=PERMISSIVE), evidence, observed or {}, stale)
    check.run(phase)
    passed = not check.gate.strict or not check.errors
    return Judgment(
        checkpoint_passed=passed,
        errors=[] if passed else check.errors,
        warnings=[*(check.errors if passed else []), *check.warnings],
        diagnostics=check.diagnostics(at),
        remediation="\n".join(check.advice),
        next_steps=list(next_steps) if passed else _steps_after_failure(check, phase),
    )


def _steps_after_failure(check: _Check, phase: int | None) -> list[str]:
    lacking = {*check.missing, *check.failed, *check.disputed}
    again = submit_command(check.gate, check.evidence, phase, check.observed, lacking)
    steps = [*dict.fromkeys(check.commands), again]
    override = f"{submit_command(Gate(), {}, phase)} --override --because REASON"
    return [*steps, override] if check.gate.override else steps


def submit_command(
    gate: Gate,
    evidence: Mapping[str, Any],
    phase: int | None,
    observed: Iterable[str] = (),
    lacking: Iterable[str] = (),
) -> str:
    """Return the command that submits a phase, with the values that are valid already."""
    line = f"forestay phase done {'N' if phase is None else phase}"
    for field in gate.fields:
        if field.name in lacking and not field.observed:
            line += f" --evidence {field.name}=VALUE"
        elif field.observed or field.name in observed:
            continue
        elif field.required or field.name in evidence:
            line += f" --evidence {field.name}={_as_argument(evidence.get(field.name))}"
    return line


def _as_argument(value: Any) -> str:
    """Return how a suggested command shows a value: a number as typed, any text as VALUE."""
    return msgspec.json.encode(value).decode() if isinstance(value, int | float) else "VALUE"


# -- one check ---------------------------------------------------------------------------------


class _Check:
    """Checks evidence against a gate, and collects what is wrong and what would correct it."""

    def __init__(
        self,
        gate: Gate,
        evidence: Mapping[str, Any],
        observed: Mapping[str, bool],
        stale: frozenset[str],
    ) -> None:
        self.gate, self.evidence, self.observed, self.stale = gate, evidence, observed, stale
        self.effort = Effort()
        self.errors: list[str] = []
        self.warnings: list[str] = []
        self.advice: list[str] = []
        self.commands: list[str] = []
        self.missing: list[str] = []
        self.failed: list[str] = []
        self.disputed: set[str] = set()
        """Fields of rules that do not hold; which of them is wrong is not known."""
        self.unusable: set[str] = set()
        """Fields whose value rules cannot use; their errors are reported already."""

    def run(self, phase: int | None) -> None:
        known = {field.name for field in self.gate.fields}
        given = {**self.observed, **self.evidence}
        values: dict[str, Any] = {name: given[name] for name in given if name not in known}
        for field in self.gate.fields:
            values[field.name] = self._check_field(field, phase)
        for rule in self.gate.rules:
            self._check_rule(rule, values)
        self.warnings += [f"not checked here: {shorten(each, 500)}" for each in self.gate.opaque]

    def diagnostics(self, at: str) -> Diagnostics:
        return Diagnostics(
            fields_submitted=[*dict.fromkeys([*self.evidence, *self.observed])],
            fields_required=[field.name for field in self.gate.fields if field.required],
            fields_missing=self.missing,
            fields_failed=self.failed,
            strict_mode=self.gate.strict,
            gate_source=self.gate.source,
            validation_timestamp=at,
        )

    def _check_field(self, field: Field, phase: int | None) -> Any:
        """Check one field; return the value that counts for it, None if there is none."""
        claim = self.evidence.get(field.name)
        if field.observed or self._prefers_observed(field, claim):
            self._check_observed(field, phase)
            value: Any = self.observed.get(field.name)
        else:
            value = claim
        if value is None:
            if not field.observed:
                self._report_missing(field)
            return None
        if field.name not in self.failed:
            for why in _faults(field, value, self.effort):
                self._fail(field.name, why, _advice(field))
            if not is_of_type(field.type, value):
                self.unusable.add(field.name)
        return value

    def _prefers_observed(self, field: Field, claim: Any) -> bool:
        """Return whether the observed value counts for a field that accepts claims too."""
        seen = self.observed.get(field.name)
        if seen is None or field.type not in ("any", "boolean"):
            return False
        if claim is None or field.name not in self.stale:
            if claim is not None and claim is not seen:
                self.warnings.append(f"{field.name} was claimed; the observed value counts")
            return True
        return False

    def _report_missing(self, field: Field) -> None:
        if not field.required:
            return
        self.missing.append(field.name)
        self.unusable.add(field.name)
        strange = [*self.evidence.keys() - {each.name for each in self.gate.fields}]
        near = difflib.get_close_matches(field.name, sorted(strange), 1, 0.75)
        slip = f"; {_name(near[0])} was given" if near else ""
        self.errors.append(f"{field.name} is missing{slip}")
        self.advice.append(_advice(field))

    def _check_observed(self, field: Field, phase: int | None) -> None:
        name = field.name
        if name not in self.observed:
            return self._report_unobserved(field, phase)
        if name in self.stale:
            why, mend = "was observed before its inputs changed", ""
        elif not self.observed[name]:
            why, mend = "was observed to fail: its command did not succeed", "correct it, then "
        else:
            return
        self._fail(name, why, f"{name}: {mend}{_PROVE_AGAIN}")
        self.unusable.add(name)
        self.commands.append(_PROVE_AGAIN)

    def _report_unobserved(self, field: Field, phase: int | None) -> None:
        number = "N" if phase is None else phase
        line = f"forestay prove --phase {number} --as {field.name} -- CMD"
        advice = f"{field.name}: {line}"
        advice += f" ({field.description})" if field.description else ""
        if self.evidence.get(field.name) is not None:
            self._fail(field.name, "must be observed, a claim does not count", advice)
        elif field.required:
            self.missing.append(field.name)
            self.errors.append(f"{field.name} was not observed")
            self.advice.append(advice)
        else:
            return
        self.unusable.add(field.name)
        self.commands.append(line)

    def _fail(self, name: str, why: str, advice: str) -> None:
        if name not in self.failed:
            self.failed.append(name)
        self.errors.append(f"{name} {why}")
        if advice not in self.advice:
            self.advice.append(advice)

    def _check_rule(self, rule: Rule, values: Mapping[str, Any]) -> None:
        try:
            expression = parse_rule(rule.check)
            if self.unusable & expression.fields or expression.holds(values, self.effort):
                return
            self.errors.append(rule.message or f"not true: {rule.check}")
        except BadExpression as error:
            rule_text = repr(shorten(rule.check, 200))
            self.errors.append(f"the rule {rule_text} cannot be evaluated: {error.what}")
        else:
            self.disputed |= expression.fields
        self.advice.append(f"make this true: {rule.check}")


# -- one value ---------------------------------------------------------------------------------


def is_of_type(type: str, value: Any) -> bool:
    """Return whether a value is of a type of gates; true and false are not numbers."""
    if type in ("integer", "number"):
        return is_number(value) and not (type == "integer" and isinstance(value, float))
    kinds: dict[str, Any] = {"boolean": bool, "string": str, "list": (list, tuple)}
    return isinstance(value, kinds.get(type, Mapping if type == "object" else object))


_TYPE_WORDS = {
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "list": "a list",
    "object": "an object",
}


def _faults(field: Field, value: Any, effort: Effort) -> Iterator[str]:
    """Yield what is wrong with a value, each as the end of a sentence that begins with its name."""
    if not is_of_type(field.type, value):
        yield f"must be {_TYPE_WORDS[field.type]}, it is {kind_of(value)}"
        return
    size, described = _size(value)
    if field.min is not None and (size is None or size < field.min):
        yield f"{described}, at least {_plain(field.min)} is wanted"
    if field.max is not None and (size is None or size > field.max):
        yield f"{described}, at most {_plain(field.max)} is wanted"
    if field.equals is not None and not are_equal(value, field.equals):
        yield f"is {_show(value)}, {_show(field.equals)} is wanted"
    if field.matches and not isinstance(value, str):
        yield f"must be text, it is {kind_of(value)}"
    elif field.matches:
        try:
            if not compile_pattern(field.matches).matches(value, effort):
                yield f"is {_show(value)}, which does not match {field.matches}"
        except BadPattern as error:
            yield f"cannot be compared: {error.what}"


def _size(value: Any) -> tuple[float | None, str]:
    """Return what `min` and `max` limit (a number, or the length of another value), described."""
    if isinstance(value, str):
        return len(value), f"has {plural(len(value), 'character')}"
    if isinstance(value, (list, tuple, Mapping)):
        return len(value), f"has {plural(len(value), 'entry', 'entries')}"
    return value if is_number(value) else None, f"is {_show(value)}"


def _show(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if is_number(value):
        return _plain(value)
    return repr(shorten(value, _SHOWN)) if isinstance(value, str) else kind_of(value)


def _plain(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:.10g}"


def _name(name: str) -> str:
    return shorten(terminal(name), _SHOWN)


def describe_field(field: Field) -> str:
    """Return what a field must be, in a few words."""
    parts = [] if field.observed else [_TYPE_WORDS.get(field.type, "")]
    parts += [f"at least {_plain(field.min)}"] if field.min is not None else []
    parts += [f"at most {_plain(field.max)}"] if field.max is not None else []
    parts += [f"matching {field.matches}"] if field.matches else []
    if field.equals is not None:
        parts = [_show(field.equals)]
    return "observed" if field.observed else ", ".join(filter(None, parts))


def _advice(field: Field) -> str:
    text = "; ".join(filter(None, [describe_field(field), field.description]))
    return f"{field.name}: {text}" if text else f"{field.name}: give it with --evidence"


# -- what may be evidence ----------------------------------------------------------------------


def check_evidence(evidence: Mapping[str, Any]) -> None:
    """Refuse evidence that cannot be recorded: too deep, too large, or not plain values."""
    if not isinstance(evidence, Mapping):
        why = f"it is {kind_of(evidence)}"
        raise InvalidInput("evidence must be an object of fields", why=why, hint=_HOW)
    if len(evidence) > MOST_FIELDS:
        raise InvalidInput(f"the evidence has more than {MOST_FIELDS} fields", hint=_RECORD_AS_FILE)
    for name in evidence:
        _admit_name(name)
    for name, value in evidence.items():
        _admit_value(name, value)
    size = len(msgspec.json.encode(evidence))
    if size > MOST_BYTES:
        why = f"it has {size} bytes; at most {MOST_BYTES} are allowed"
        raise InvalidInput("the evidence is too large", why=why, hint=_RECORD_AS_FILE)


_HOW = 'such as {"tests_pass": true}'
_RECORD_AS_FILE = "record the file with: forestay record artifact PATH, and name it in the evidence"


def _admit_name(name: object) -> None:
    if not isinstance(name, str) or not name or len(name) > LONGEST_NAME:
        why = f"a text of 1 to {LONGEST_NAME} characters is wanted"
        raise InvalidInput(f"{shorten(str(name), _SHOWN)!r} cannot be a name of evidence", why=why)
    if terminal(name) != name or not name.strip():
        why = "it has invisible characters"
        raise InvalidInput(f"{_name(name)!r} cannot be a name of evidence", why=why)


def _admit_value(name: str, value: Any) -> None:
    level, count = [value], 0
    for _ in range(DEEPEST):
        count += len(level)
        if count > MOST_VALUES:
            why = f"more than {MOST_VALUES} values in {_name(name)}"
            raise InvalidInput("the evidence is too large", why=why, hint=_RECORD_AS_FILE)
        for each in level:
            _admit_leaf(name, each)
        level = [inner for each in level for inner in _inside(name, each)]
        if not level:
            return
    raise InvalidInput(f"{_name(name)} is more than {DEEPEST} levels deep")


def _admit_leaf(name: str, value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidInput(f"{_name(name)} is not a number", why=f"{value} cannot be recorded")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise InvalidInput(f"{_name(name)} is too large a number", why="it needs more than 64 bits")
    if isinstance(value, str) and not value.isascii() and _has_lone_surrogates(value):
        raise InvalidInput(f"{_name(name)} is not valid Unicode", why="unpaired surrogate")
    if not isinstance(value, (str, int, float, list, tuple, dict)) and value is not None:
        raise InvalidInput(
            f"{_name(name)} cannot be recorded", why=f"its type is {type(value).__name__}"
        )


def _has_lone_surrogates(text: str) -> bool:
    return text.encode(errors="ignore") != text.encode(errors="surrogatepass")


def _inside(name: str, value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        if not all(isinstance(key, str) and not _has_lone_surrogates(key) for key in value):
            raise InvalidInput(f"{_name(name)} has a key that is not text")
        yield from value.values()
    elif isinstance(value, (list, tuple)):
        yield from value
