"""A move of an essay in the making, and how an essay lies in a session.

An essay goes through four *stages*: thesis, outline, arguments, paragraphs. The last two have one
*section* each for every section of the outline. Stages and sections are steps (`stage-3`,
`stage-3/section-2`); all else that is known of them are attributes, named as the essay layout
names the fields of its file. That is the secret of `Moves`: whoever makes one speaks of stages,
sections and fields, and finds in `bodies` the events that it takes. It shows the essay as it
stands, with what is about to be recorded counted in. When a move is refused is said in `essay`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from forestay.model import event as ev
from forestay.model.event import Body
from forestay.model.state import POSITION, Artifact, Attribute, Claim, State

WORKFLOW = "essay"
SOURCE = "source."
"""Begins the names of attributes that each hold one source."""

_SECTION = re.compile(r"stage-([34])/section-([1-9][0-9]{0,5})")
NAMES = {1: "the thesis", 2: "the outline", 3: "the arguments", 4: "the essay"}
"""The stages, by what is approved in them."""

Value = str | int | float | bool | None


def is_essay(state: State) -> bool:
    """Whether a session is an essay: one with the plan of it, or one that was found in files."""
    core = state.core
    if core.workflow:
        return core.workflow == WORKFLOW and core.plan_unit == "stage"
    return all(state.step(step_id(stage)) is not None for stage in NAMES)


def step_id(stage: int, section: int | None = None) -> str:
    return f"stage-{stage}" if section is None else f"stage-{stage}/section-{section}"


def name_of(field: str) -> str:
    """The attribute that a field of the essay layout's file is kept as."""
    return f"essay.{field}"


class Moves:
    """An essay as it stands, with what is about to be recorded counted in."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.bodies: list[Body] = []
        self.missing: list[str] = []
        """Commands that are still owed before a section is done."""
        self.said = ""
        self._statuses: dict[str, str] = {}
        self._values: dict[str, Value] = {}

    # -- looking -------------------------------------------------------------------------------

    def status(self, stage: int, section: int | None = None) -> str:
        """The status of a step; empty where there is none, or it was left out."""
        id = step_id(stage, section)
        step = self.state.step(id)
        word = self._statuses.get(id, step.status if step else "")
        return "" if word == "skipped" else word

    def sections(self, stage: int = 3, *statuses: str) -> list[int]:
        """The sections of a stage, or those of them in some statuses."""
        known = {n for s, n in map(_place, self._ids()) if s == stage and n is not None}
        wanted = ((n, self.status(stage, n)) for n in sorted(known))
        return [n for n, word in wanted if word and (not statuses or word in statuses)]

    def _ids(self) -> Iterable[str]:
        yield from (row.name for row in self.state.rows.select("step"))
        yield from self._statuses

    def value(self, field: str) -> Value:
        name = name_of(field)
        if name in self._values:
            return self._values[name]
        row = self.state.rows.get("attribute", name)
        return row.value if isinstance(row, Attribute) else None

    def count(self, field: str) -> int:
        return self.known(field) or 0

    def known(self, field: str) -> int | None:
        value = self.value(field)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def completed(self, section: int) -> int:
        """How many paragraphs of a section are approved."""
        return self.count(f"stage_4.section_{section}.completed_paragraphs")

    def is_argued(self, section: int) -> bool:
        """Whether the arguments of a section are completed, on its own or as part of the whole."""
        own = self.status(3, section)
        return own == "done" or (not own and self.status(3) == "done")

    def claims(self) -> list[Claim]:
        return [row for row in self.state.rows.select("claim") if isinstance(row, Claim)]

    def sources(self) -> list[str]:
        """Every source that a claim was checked with, each once."""
        begin = name_of(SOURCE)
        rows = self.state.rows.select("attribute")
        return [str(r.value) for r in rows if isinstance(r, Attribute) and r.key.startswith(begin)]

    def position(self) -> tuple[int, int | None]:
        """The stage and the section that are worked on."""
        row = self.state.rows.get("attribute", POSITION)
        said = self._values.get(POSITION, row.value if isinstance(row, Attribute) else "")
        stage, section = _place(str(said))
        if stage and self.status(stage, section) not in ("", "done", "pending"):
            return stage, section
        return self._first_open()

    def _first_open(self) -> tuple[int, int | None]:
        for stage in (4, 3):
            if running := self.sections(stage, "running"):
                return stage, running[0]
        stages = [n for n in NAMES if self.status(n) not in ("", "done")]
        return (stages[0] if stages else 4), None

    # -- recording -----------------------------------------------------------------------------

    def set(self, field: str, value: Value, *, always: bool = False) -> None:
        """Note what a field says; nothing where it says that already."""
        if always or self.value(field) != value:
            self._values[name_of(field)] = value
            self.bodies.append(ev.AttributeSet(key=name_of(field), value=value))

    def add(self, stage: int, section: int, title: str) -> None:
        id = step_id(stage, section)
        if self.state.step(id) is not None:
            self.bodies.append(ev.StepReset(step=id, because="it is in the outline again"))
        else:
            added = ev.StepAdded(step=id, title=title, unit="section", parent=step_id(stage))
            self.bodies.append(added)
        self._statuses[id] = "pending"

    def entitle(self, stage: int, section: int, title: str) -> None:
        """See that a section is there, and called so."""
        step = self.state.step(step_id(stage, section))
        if not self.status(stage, section):
            self.add(stage, section, title or f"Section {section}")
        if step is not None and title and step.title != title:
            parent, unit = step_id(stage), "section"
            self.bodies.append(ev.StepAdded(step=step.id, title=title, unit=unit, parent=parent))

    def leave_out(self, stage: int, section: int) -> None:
        id = step_id(stage, section)
        self.bodies.append(ev.StepSkipped(step=id, because="the outline has it no more"))
        self._statuses[id] = "skipped"

    def start(self, stage: int, section: int | None = None) -> None:
        """Let a step run, if it does not."""
        id = step_id(stage, section)
        if self.status(stage, section) != "running":
            self.bodies.append(ev.StepStarted(step=id))
            self._statuses[id] = "running"

    def finish(self, stage: int, section: int | None = None, files: Sequence[str] = ()) -> None:
        id = step_id(stage, section)
        if self.status(stage, section) not in ("running", "needs_review"):
            self.start(stage, section)
        self.bodies.append(ev.StepCompleted(step=id, files=list(files)))
        self._statuses[id] = "done"

    def keep(self, artifact: ev.ArtifactSaved | None) -> None:
        """Keep a file as it is now, unless it was kept so before."""
        old = self.state.rows.get("artifact", artifact.path) if artifact else None
        if artifact and not (isinstance(old, Artifact) and old.digest == artifact.digest):
            self.bodies.append(artifact)

    def approve(self, gate: str, step: str, **more: object) -> None:
        evidence = {"approved": True, "gate": gate, **more}
        self.bodies.append(ev.CheckpointPassed(step=step, evidence=evidence))

    def place(self, stage: int, section: int | None = None) -> None:
        """Make a step the one that is worked on."""
        self._values[POSITION] = step_id(stage, section)
        if stage == 4:
            following = None if section is None else self.completed(section) + 1
            self.set("stage_4.current_paragraph", following)
        self.bodies.append(ev.AttributeSet(key=POSITION, value=step_id(stage, section)))

    def go_on(self, stage: int) -> None:
        """Go where the work goes on, and begin it there."""
        if running := self.sections(stage, "running", "needs_review"):
            return self.place(stage, running[0])
        ready = self.sections(stage, "pending")
        if stage == 4:
            ready = [n for n in ready if self.is_argued(n)]
        if ready:
            self.start(stage, ready[0])
            return self.place(stage, ready[0])
        if stage == 4 and self.status(3) not in ("done", "") and self.sections(4, "pending"):
            return self.go_on(3)
        self.place(stage)


def _place(step: str) -> tuple[int, int | None]:
    """The stage and section of a step; stage 0 for any other."""
    if match := _SECTION.fullmatch(step):
        return int(match[1]), int(match[2])
    number = step.removeprefix("stage-")
    return (int(number), None) if number in ("1", "2", "3", "4") and number != step else (0, None)
