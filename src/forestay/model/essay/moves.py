"""How an essay is stored in a session, and how a move in it becomes events.

An essay goes through four *stages*: thesis, outline, arguments, paragraphs. The last two have one
*section* each for every section of the outline. Stages and sections are steps (`stage-3`,
`stage-3/section-2`); all other values are attributes, named like the fields of the essay format's
file. `Moves` hides that: its callers use stages, sections and fields, and `bodies` collects the
events. It shows the essay including what is about to be recorded. `rules` decides which moves are
allowed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from forestay.base.vocabulary import ESSAY
from forestay.model import event as ev
from forestay.model.event import Body
from forestay.model.state import POSITION, Artifact, Attribute, Claim, State

WORKFLOW = ESSAY
SOURCE = "source."
"""The beginning of the names of attributes that store one source each."""

_SECTION = re.compile(r"stage-([34])/section-([1-9][0-9]{0,5})")
NAMES = {1: "the thesis", 2: "the outline", 3: "the arguments", 4: "the essay"}
"""What the user approves in each stage."""

Value = str | int | float | bool | None


def is_essay(state: State) -> bool:
    """Return whether a session is an essay, by its workflow or by its steps."""
    core = state.core
    if core.workflow:
        return core.workflow == WORKFLOW and core.plan_unit == "stage"
    return all(state.step(step_id(stage)) is not None for stage in NAMES)


def step_id(stage: int, section: int | None = None) -> str:
    return f"stage-{stage}" if section is None else f"stage-{stage}/section-{section}"


def name_of(field: str) -> str:
    """Return the attribute for a field of the essay format's file."""
    return f"essay.{field}"


class Moves:
    """The state of an essay, including what is about to be recorded."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.bodies: list[Body] = []
        self.missing: list[str] = []
        """Commands that are still missing before a section is done."""
        self.message = ""
        self._statuses: dict[str, str] = {}
        self._values: dict[str, Value] = {}

    # -- reading -------------------------------------------------------------------------------

    def status(self, stage: int, section: int | None = None) -> str:
        """Return the status of a step; empty if there is none, or it was skipped."""
        id = step_id(stage, section)
        step = self.state.step(id)
        word = self._statuses.get(id, step.status if step else "")
        return "" if word == "skipped" else word

    def sections(self, stage: int = 3, *statuses: str) -> list[int]:
        """Return the sections of a stage, or those in the given statuses."""
        ids = [*(row.name for row in self.state.rows.select("step")), *self._statuses]
        known = {n for s, n in map(_place, ids) if s == stage and n is not None}
        wanted = ((n, self.status(stage, n)) for n in sorted(known))
        return [n for n, word in wanted if word and (not statuses or word in statuses)]

    def value(self, field: str) -> Value:
        name = name_of(field)
        if name in self._values:
            return self._values[name]
        row = self.state.rows.get("attribute", name)
        return row.value if isinstance(row, Attribute) else None

    def count(self, field: str) -> int:
        return self.whole_number(field) or 0

    def whole_number(self, field: str) -> int | None:
        value = self.value(field)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def completed(self, section: int) -> int:
        """Return how many paragraphs of a section are approved."""
        return self.count(f"stage_4.section_{section}.completed_paragraphs")

    def is_argued(self, section: int) -> bool:
        """Return whether the arguments of a section are completed, alone or with the stage."""
        own = self.status(3, section)
        return own == "done" or (not own and self.status(3) == "done")

    def claims(self) -> list[Claim]:
        return [row for row in self.state.rows.select("claim") if isinstance(row, Claim)]

    def sources(self) -> list[str]:
        """Return every source that a claim was checked with, each once."""
        begin = name_of(SOURCE)
        rows = self.state.rows.select("attribute")
        return [str(r.value) for r in rows if isinstance(r, Attribute) and r.key.startswith(begin)]

    def position(self) -> tuple[int, int | None]:
        """Return the current stage and section."""
        row = self.state.rows.get("attribute", POSITION)
        position = self._values.get(POSITION, row.value if isinstance(row, Attribute) else "")
        stage, section = _place(str(position))
        if stage and self.status(stage, section) not in ("", "done", "pending"):
            return stage, section
        for stage in (4, 3):
            if running := self.sections(stage, "running"):
                return stage, running[0]
        stages = [n for n in NAMES if self.status(n) not in ("", "done")]
        return (stages[0] if stages else 4), None

    # -- recording -----------------------------------------------------------------------------

    def set(self, field: str, value: Value, *, always: bool = False) -> None:
        """Set a field; record nothing if it has that value already."""
        if always or self.value(field) != value:
            self._values[name_of(field)] = value
            self.bodies.append(ev.AttributeSet(key=name_of(field), value=value))

    def set_fields(self, part: str, **values: Value) -> None:
        """Set the fields of a part that have a value; None and empty texts change nothing."""
        for key, value in values.items():
            if value not in (None, ""):
                self.set(f"{part}.{key}", value)

    def add(self, stage: int, section: int, title: str) -> None:
        id = step_id(stage, section)
        if self.state.step(id) is not None:
            self.bodies.append(ev.StepReset(step=id, because="it is in the outline again"))
        else:
            added = ev.StepAdded(step=id, title=title, unit="section", parent=step_id(stage))
            self.bodies.append(added)
        self._statuses[id] = "pending"

    def ensure_section(self, stage: int, section: int, title: str) -> None:
        """Add a section if it is missing, and give it its title."""
        step = self.state.step(step_id(stage, section))
        if not self.status(stage, section):
            self.add(stage, section, title or f"Section {section}")
        if step is not None and title and step.title != title:
            parent, unit = step_id(stage), "section"
            self.bodies.append(ev.StepAdded(step=step.id, title=title, unit=unit, parent=parent))

    def skip(self, stage: int, section: int) -> None:
        id = step_id(stage, section)
        self.bodies.append(ev.StepSkipped(step=id, because="it is no longer in the outline"))
        self._statuses[id] = "skipped"

    def start(self, stage: int, section: int | None = None) -> None:
        """Start a step if it is not running."""
        id = step_id(stage, section)
        if self.status(stage, section) != "running":
            self.bodies.append(ev.StepStarted(step=id))
            self._statuses[id] = "running"

    def complete(self, stage: int, section: int | None = None, files: Sequence[str] = ()) -> None:
        id = step_id(stage, section)
        if self.status(stage, section) not in ("running", "needs_review"):
            self.start(stage, section)
        self.bodies.append(ev.StepCompleted(step=id, files=list(files)))
        self._statuses[id] = "done"

    def save_artifact(self, artifact: ev.ArtifactSaved | None) -> None:
        """Save the contents of a file, unless they are saved already."""
        old = self.state.rows.get("artifact", artifact.path) if artifact else None
        if artifact and not (isinstance(old, Artifact) and old.digest == artifact.digest):
            self.bodies.append(artifact)

    def approve(self, gate: str, step: str, **more: object) -> None:
        evidence = {"approved": True, "gate": gate, **more}
        self.bodies.append(ev.CheckpointPassed(step=step, evidence=evidence))

    def set_position(self, stage: int, section: int | None = None) -> None:
        """Make a step the current one."""
        self._values[POSITION] = step_id(stage, section)
        if stage == 4:
            following = None if section is None else self.completed(section) + 1
            self.set("stage_4.current_paragraph", following)
        self.bodies.append(ev.AttributeSet(key=POSITION, value=step_id(stage, section)))

    def advance(self, stage: int) -> None:
        """Move to the next section to work on, and start it."""
        if running := self.sections(stage, "running", "needs_review"):
            return self.set_position(stage, running[0])
        ready = self.sections(stage, "pending")
        if stage == 4:
            ready = [n for n in ready if self.is_argued(n)]
        if ready:
            self.start(stage, ready[0])
            return self.set_position(stage, ready[0])
        if stage == 4 and self.status(3) not in ("done", "") and self.sections(4, "pending"):
            return self.advance(3)
        self.set_position(stage)


def _place(step: str) -> tuple[int, int | None]:
    """Return the stage and section of a step; stage 0 for any other."""
    if match := _SECTION.fullmatch(step):
        return int(match[1]), int(match[2])
    number = step.removeprefix("stage-")
    return (int(number), None) if number in ("1", "2", "3", "4") and number != step else (0, None)
