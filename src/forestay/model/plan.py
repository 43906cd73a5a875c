"""Plan: the definition of a workflow, as a value that a session has from its start to its end.

A definition is read once, when a session starts, and stored as a snapshot; later edits of the
definition change no running session. Phases have native numbers, counted from `base`. A `total`
of None is not known yet: it is resolved once, and `pattern` is the template of each phase that
the definition could not name.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from forestay.errors import Damaged

TYPES = ("any", "boolean", "integer", "number", "string", "list", "object")


class Field(Struct, frozen=True, omit_defaults=True):
    """One piece of evidence that a gate requires."""

    name: str
    type: str = "any"
    required: bool = True
    description: str = ""
    min: float | None = None
    max: float | None = None
    equals: str | int | float | bool | None = None
    matches: str = ""
    observed: bool = False
    """Whether only the result of a command that Forestay ran counts, not a claim."""


class Rule(Struct, frozen=True, omit_defaults=True):
    """A condition over several fields, in the language of `expression`."""

    check: str
    message: str = ""


class Gate(Struct, frozen=True, omit_defaults=True):
    """The evidence that a phase needs to pass. A gate that is not strict only warns."""

    fields: list[Field] = []
    rules: list[Rule] = []
    strict: bool = True
    override: bool = True
    source: str = ""
    opaque: list[str] = []
    """Conditions in other languages: shown to people, never evaluated."""


class Task(Struct, frozen=True, omit_defaults=True):
    name: str
    id: str = ""
    purpose: str = ""


class Phase(Struct, frozen=True, omit_defaults=True):
    number: int
    name: str
    purpose: str = ""
    effort: str = ""
    tasks: list[Task] = []
    outputs: list[str] = []
    """Files, relative to the project, that the phase is expected to make."""
    gate: Gate | None = None


class Expiry(Struct, frozen=True, omit_defaults=True):
    """After how many hours without activity a session is paused, and abandoned."""

    pause_hours: float | None = None
    abandon_hours: float | None = None


class Workflow(Struct, frozen=True, omit_defaults=True):
    name: str
    version: str = "1"
    title: str = ""
    description: str = ""
    unit: str = "phase"
    base: int = 1
    total: int | None = None
    phases: list[Phase] = []
    pattern: Phase | None = None
    expiry: Expiry = Expiry()
    source: str = ""

    def phase(self, number: int) -> Phase | None:
        """Return the phase as defined, or made from the pattern if it is not defined."""
        for phase in self.phases:
            if phase.number == number:
                return phase
        if self.pattern is None or number < self.base:
            return None
        return msgspec.structs.replace(self.pattern, number=number)

    def step_id(self, number: int) -> str:
        return f"{self.unit}-{number}"


def snapshot(workflow: Workflow) -> bytes:
    return msgspec.json.encode(workflow)


def from_snapshot(data: bytes) -> Workflow:
    try:
        return msgspec.json.decode(data, type=Workflow)
    except msgspec.MsgspecError as error:
        raise Damaged("the plan stored with this session cannot be read", why=str(error)) from None


def as_values(value: Any) -> Any:
    """Return a definition, or a part of one, as plain values, defaults included."""
    if isinstance(value, Struct):
        return {name: as_values(getattr(value, name)) for name in value.__struct_fields__}
    return [as_values(each) for each in value] if isinstance(value, list) else value
