"""Gates: whether the evidence for a phase is enough, and what to do where it is not.

Evidence is *claimed* (someone says so) or *observed* (a command that we ran showed it). Where both
are there for a field, the observed value counts. A gate that is not strict lets everything pass
and warns; a phase without a gate lets everything pass. Nothing here changes anything: `judge` is
the same for the same arguments.
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
from forestay.model.gates.expression import BadExpression, is_number, kind_of, parsed, same
from forestay.model.gates.safe_regex import BadPattern, Effort, compiled
from forestay.model.plan import Field, Gate, Rule

MOST_BYTES = 10 * 1024 * 1024
DEEPEST = 64
MOST_FIELDS = 1_000
MOST_VALUES = 1_000_000
LONGEST_NAME = 200
PERMISSIVE = "permissive"
"""The source of a gate that is not there."""

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
    """What a gate says. `errors` is empty where it passed; `remediation` is for people."""

    checkpoint_passed: bool
    errors: list[str]
    warnings: list[str]
    diagnostics: Diagnostics
    remediation: str
    next_steps: list[str]

    @property
    def issue(self) -> str:
        """Why it did not pass, in one line."""
        return "; ".join(self.errors)

    def as_values(self) -> dict[str, Any]:
        """As plain values, in the shape that programs know."""
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
    """Whether the evidence is enough for a gate; None is a phase without one.

    `evidence` is what was claimed, `observed` tells of each field that a command was run for
    whether it ended well, `stale` names those whose inputs have changed since. `at` is the time
    that the answer shows, `next_steps` what follows if it passed. Evidence that cannot be
    recorded at all raises `InvalidInput`.
    """
    admit(evidence)
    look = _Look(gate or Gate(strict=False, source=PERMISSIVE), evidence, observed or {}, stale)
    look.at_all(phase)
    passed = not look.gate.strict or not look.errors
    return Judgment(
        checkpoint_passed=passed,
        errors=[] if passed else look.errors,
        warnings=[*(look.errors if passed else []), *look.warnings],
        diagnostics=look.diagnostics(at),
        remediation="\n".join(look.advice),
        next_steps=list(next_steps) if passed else _after_a_failure(look, phase),
    )


def _after_a_failure(look: _Look, phase: int | None) -> list[str]:
    lacking = {*look.missing, *look.failed, *look.disputed}
    again = hand_in(look.gate, look.evidence, phase, look.observed, lacking)
    steps = [*dict.fromkeys(look.commands), again]
    over = f"{hand_in(Gate(), {}, phase)} --override --because REASON"
    return [*steps, over] if look.gate.override else steps


def hand_in(
    gate: Gate,
    evidence: Mapping[str, Any],
    phase: int | None,
    observed: Iterable[str] = (),
    lacking: Iterable[str] = (),
) -> str:
    """The command that hands a phase in: all it needs, with the values that are good already."""
    line = f"forestay phase done {'N' if phase is None else phase}"
    for field in gate.fields:
        if field.name in lacking and not field.observed:
            line += f" --evidence {field.name}=VALUE"
        elif field.observed or field.name in observed:
            continue
        elif field.required or field.name in evidence:
            line += f" --evidence {field.name}={_typed(evidence.get(field.name))}"
    return line


def _typed(value: Any) -> str:
    """A value as it is typed; of texts and more, which may be long or secret, only the place."""
    return msgspec.json.encode(value).decode() if isinstance(value, int | float) else "VALUE"


# -- one look ----------------------------------------------------------------------------------


class _Look:
    """A gate beside some evidence: what is wrong, and what would mend it."""

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
        """Fields of rules that do not hold: which of them is wrong nobody knows."""
        self.unusable: set[str] = set()
        """Fields whose value rules cannot look at, and of which enough was said already."""

    def at_all(self, phase: int | None) -> None:
        known = {field.name for field in self.gate.fields}
        given = {**self.observed, **self.evidence}
        values: dict[str, Any] = {name: given[name] for name in given if name not in known}
        for field in self.gate.fields:
            values[field.name] = self._field(field, phase)
        for rule in self.gate.rules:
            self._rule(rule, values)
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

    def _field(self, field: Field, phase: int | None) -> Any:
        """Look at one field; the value that counts for it, None if there is none."""
        claim = self.evidence.get(field.name)
        if field.observed or self._counts(field, claim):
            self._observed(field, phase)
            value: Any = self.observed.get(field.name)
        else:
            value = claim
        if value is None:
            if not field.observed:
                self._missing(field)
            return None
        if field.name not in self.failed:
            self._value(field, value)
        return value

    def _counts(self, field: Field, claim: Any) -> bool:
        """Whether what was observed stands for a field that a claim would do for as well."""
        seen = self.observed.get(field.name)
        if seen is None or field.type not in ("any", "boolean"):
            return False
        if claim is None or field.name not in self.stale:
            if claim is not None and claim is not seen:
                self.warnings.append(f"{field.name} was claimed; what was observed counts")
            return True
        return False

    def _value(self, field: Field, value: Any) -> None:
        for why in _faults(field, value, self.effort):
            self._fail(field.name, why, _advice(field))
        if not is_of_type(field.type, value):
            self.unusable.add(field.name)

    def _is_claimed(self, name: str) -> bool:
        return self.evidence.get(name) is not None

    def _missing(self, field: Field) -> None:
        if not field.required:
            return
        self.missing.append(field.name)
        self.unusable.add(field.name)
        strange = [*self.evidence.keys() - {each.name for each in self.gate.fields}]
        near = difflib.get_close_matches(field.name, sorted(strange), 1, 0.75)
        slip = f"; is it what was given as {_name(near[0])}?" if near else ""
        self.errors.append(f"{field.name} is missing{slip}")
        self.advice.append(_advice(field))

    def _observed(self, field: Field, phase: int | None) -> None:
        name = field.name
        if name not in self.observed:
            return self._unobserved(field, phase)
        if name in self.stale:
            why, mend = "was observed before its inputs changed", ""
        elif not self.observed[name]:
            why, mend = "was observed to fail: its command did not end well", "mend it, then "
        else:
            return
        self._fail(name, why, f"{name}: {mend}{_PROVE_AGAIN}")
        self.unusable.add(name)
        self.commands.append(_PROVE_AGAIN)

    def _unobserved(self, field: Field, phase: int | None) -> None:
        number = "N" if phase is None else phase
        line = f"forestay prove --phase {number} --as {field.name} -- CMD"
        if self._is_claimed(field.name):
            self._fail(field.name, "must be observed, a claim does not count", _to(field, line))
        elif field.required:
            self.missing.append(field.name)
            self.errors.append(f"{field.name} was not observed")
            self.advice.append(_to(field, line))
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

    def _rule(self, rule: Rule, values: Mapping[str, Any]) -> None:
        try:
            expression = parsed(rule.check)
            if self.unusable & expression.fields or expression.holds(values, self.effort):
                return
            self.errors.append(rule.message or f"not so: {rule.check}")
        except BadExpression as error:
            self.errors.append(
                f"the rule {shorten(rule.check, 200)!r} cannot be told: {error.what}"
            )
        else:
            self.disputed |= expression.fields
        self.advice.append(f"make this so: {rule.check}")


# -- one value ---------------------------------------------------------------------------------


def is_of_type(type: str, value: Any) -> bool:
    """Whether a value is of a type of gates; true and false are not numbers."""
    if type == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if type == "number":
        return is_number(value)
    kinds: dict[str, Any] = {
        "boolean": bool,
        "string": str,
        "list": (list, tuple),
        "object": Mapping,
    }
    return isinstance(value, kinds.get(type, object))


_TYPE_WORDS = {
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "list": "a list",
    "object": "an object",
}


def _faults(field: Field, value: Any, effort: Effort) -> Iterator[str]:
    """What is wrong with a value, each as the end of a sentence that begins with its name."""
    if not is_of_type(field.type, value):
        yield f"must be {_TYPE_WORDS[field.type]}, it is {kind_of(value)}"
        return
    size, said = _size(value)
    if field.min is not None and (size is None or size < field.min):
        yield f"{said}, at least {_plain(field.min)} is wanted"
    if field.max is not None and (size is None or size > field.max):
        yield f"{said}, at most {_plain(field.max)} is wanted"
    if field.equals is not None and not same(value, field.equals):
        yield f"is {_show(value)}, {_show(field.equals)} is wanted"
    if field.matches:
        yield from _unlike(field.matches, value, effort)


def _unlike(pattern: str, value: Any, effort: Effort) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"must be text, it is {kind_of(value)}"
        return
    try:
        if not compiled(pattern).matches(value, effort):
            yield f"is {_show(value)}, which is not as {pattern} says"
    except BadPattern as error:
        yield f"cannot be compared: {error.what}"


def _size(value: Any) -> tuple[float | None, str]:
    """What `min` and `max` are about: a number itself, else how long the value is."""
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


def wanted(field: Field) -> str:
    """What a field must be, in a few words."""
    parts = [] if field.observed else [_TYPE_WORDS.get(field.type, "")]
    parts += [f"at least {_plain(field.min)}"] if field.min is not None else []
    parts += [f"at most {_plain(field.max)}"] if field.max is not None else []
    parts += [f"as {field.matches} says"] if field.matches else []
    if field.equals is not None:
        parts = [_show(field.equals)]
    return "observed" if field.observed else ", ".join(filter(None, parts))


def _advice(field: Field) -> str:
    said = "; ".join(filter(None, [wanted(field), field.description]))
    return f"{field.name}: {said}" if said else f"{field.name}: give it with --evidence"


def _to(field: Field, line: str) -> str:
    return f"{field.name}: {line}" + (f" ({field.description})" if field.description else "")


# -- what may be evidence ----------------------------------------------------------------------


def admit(evidence: Mapping[str, Any]) -> None:
    """Refuse what cannot be recorded: too deep, too large, not finite, not plain values."""
    if not isinstance(evidence, Mapping):
        why = f"it is {kind_of(evidence)}"
        raise InvalidInput("evidence must be an object of fields", why=why, hint=_HOW)
    if len(evidence) > MOST_FIELDS:
        raise InvalidInput(f"evidence of more than {MOST_FIELDS} fields")
    for name in evidence:
        _admit_name(name)
    for name, value in evidence.items():
        _admit_value(name, value)
    size = len(msgspec.json.encode(evidence))
    if size > MOST_BYTES:
        why = f"{size} bytes; at most {MOST_BYTES}"
        raise InvalidInput("the evidence is too large", why=why, hint=_IN_A_FILE)


_HOW = 'such as {"tests_pass": true}'
_IN_A_FILE = "keep the file with: forestay record artifact PATH, and name it in the evidence"


def _admit_name(name: object) -> None:
    if not isinstance(name, str) or not name or len(name) > LONGEST_NAME:
        why = f"a text of 1 to {LONGEST_NAME} characters is wanted"
        raise InvalidInput(f"{shorten(str(name), _SHOWN)!r} is no name for evidence", why=why)
    if terminal(name) != name or not name.strip():
        raise InvalidInput(f"{_name(name)!r} is no name for evidence", why="it has hidden signs")


def _admit_value(name: str, value: Any) -> None:
    level, count = [value], 0
    for _ in range(DEEPEST):
        count += len(level)
        if count > MOST_VALUES:
            why = f"more than {MOST_VALUES} values in {_name(name)}"
            raise InvalidInput("the evidence is too large", why=why, hint=_IN_A_FILE)
        for each in level:
            _admit_leaf(name, each)
        level = [inner for each in level for inner in _inside(name, each)]
        if not level:
            return
    raise InvalidInput(f"{_name(name)} is more than {DEEPEST} levels deep")


def _admit_leaf(name: str, value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidInput(f"{_name(name)} is no number", why=f"{value} cannot be recorded")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise InvalidInput(f"{_name(name)} is too great a number", why="more than 64 bits")
    if isinstance(value, str) and not value.isascii() and _has_half_signs(value):
        raise InvalidInput(f"{_name(name)} is not valid Unicode", why="half a surrogate pair")
    if not isinstance(value, (str, int, float, list, tuple, dict)) and value is not None:
        raise InvalidInput(f"{_name(name)} cannot be recorded", why=f"{type(value).__name__}")


def _has_half_signs(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _inside(name: str, value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        if not all(isinstance(key, str) and not _has_half_signs(key) for key in value):
            raise InvalidInput(f"{_name(name)} has a key that is no text")
        yield from value.values()
    elif isinstance(value, (list, tuple)):
        yield from value
