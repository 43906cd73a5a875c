"""What the journal says, as facts: what a layout writes.

What is true of one machine only (paths of the project, device names) is left out: the layout gets
that from its surroundings.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct, convert
from msgspec.structs import replace

from forestay.formats.facts import (
    AgentFact,
    CheckpointFact,
    ClaimFact,
    CommandFact,
    DecisionFact,
    ErrorFact,
    Facts,
    FileFact,
    NoteFact,
    RevisitFact,
    Scalar,
    StepFact,
    UpdateFact,
)
from forestay.model import event as ev
from forestay.model import state as st
from forestay.model.event import Event
from forestay.model.merge import in_order, retracted

_Row = TypeVar("_Row", bound=st.Row)
_Told = TypeVar("_Told", bound=Struct)


def facts_of(state: st.State, events: Iterable[Event]) -> Facts:
    """What a session's state says; file changes, commands, revisits and notes come from its
    events."""
    core = state.core
    attributes = {row.key: row.value for row in rows(state, "attribute", st.Attribute)}
    facts = Facts(
        **_told_by(core),
        mode=_text(attributes.pop("mode", None)) or core.mode,
        workflow_version=_text(attributes.pop("workflow.version", None)) or core.plan_version,
        target=_text(attributes.pop("workflow.target", None)) or core.plan_target,
        **_lists(state),
    )
    attributes.pop(st.POSITION, None)
    attributes.pop(st.CHECKOUT, None)
    facts.position = _position(state, facts)
    attributes.pop("model", None)
    attributes.pop("progress", None)
    facts.attributes = attributes
    facts.tokens_by_agent = {a.id: a.tokens for a in rows(state, "agent", st.Agent) if a.tokens}
    add_events(facts, events)
    return facts


_OF_CORE = (
    *("goal", "status", "model", "progress", "began_at", "updated_at", "because"),
    *("pause_reason", "pause_context", "resumes"),
    *("project", "git_branch", "git_commit", "workflow"),
)
_FIGURES = ("ended_at", "paused_at", "plan_total", "tokens", "compressions", "compressed_at")


def _told_by(core: st.Core) -> dict[str, Any]:
    """What the core of a state tells, without its rows."""
    said = {name: getattr(core, name) for name in _OF_CORE}
    base = core.plan_base if core.workflow else None
    return {**said, **_known(core, *_FIGURES), "plan_base": base}


def add_events(facts: Facts, events: Iterable[Event]) -> None:
    """Add what only events tell: each change of a file, each command, revisit and note; and of
    all that is no command, that it was."""
    events = list(events)
    gone = retracted(in_order(events)) if any(map(is_retraction, events)) else ()
    for event in events:
        body, at = event.body, event.head.at
        if not isinstance(body, ev.CommandRan | ev.EvidenceObserved):
            facts.updates.append(UpdateFact(event.kind, getattr(body, "agent", ""), at))
        if isinstance(body, ev.FileChanged):
            facts.files += [_file_fact(body, at)] if event.id not in gone else []
        elif isinstance(body, ev.CommandRan):
            facts.commands.append(_command_fact(body, at))
        elif isinstance(body, ev.EvidenceObserved):
            facts.commands.append(_observed_fact(body, at))
        elif isinstance(body, ev.NoteAdded):
            facts.notes.append(NoteFact(body.text, at))
        elif isinstance(body, ev.StepRevisited) and event.id not in gone:
            facts.revisits.append(_fact(RevisitFact, body, at=at))
        elif isinstance(body, ev.SessionResumed):
            facts.resumed_at = at


def withdrawn(events: Iterable[Event]) -> list[ev.Body]:
    """What a session said and took back."""
    events = list(events)
    gone = retracted(in_order(events)) if any(map(is_retraction, events)) else ()
    return [event.body for event in events if event.id in gone]


def only_logged(said: Iterable[ev.Body]) -> Facts:
    """Of what was said, what files keep in lists that are only added to; when it was said does not
    matter."""
    facts = Facts()
    for body in said:
        if isinstance(body, ev.DecisionMade):
            facts.decisions.append(DecisionFact(body.what, chosen=body.chosen))
        elif isinstance(body, ev.ErrorRaised):
            facts.errors.append(ErrorFact(body.message, agent=body.agent))
        elif isinstance(body, ev.AgentFailed | ev.AgentTimedOut):
            facts.errors.append(ErrorFact(body.error, agent=body.agent))
        elif isinstance(body, ev.FileChanged):
            facts.files.append(_fact(FileFact, body))
        elif isinstance(body, ev.ContextMeasured):
            _add_figure(facts, body)
        elif isinstance(body, ev.ContextCompressed):
            facts.compressions = 1
    return facts


def _add_figure(facts: Facts, body: ev.ContextMeasured) -> None:
    if body.agent:
        facts.tokens_by_agent[body.agent] = body.tokens
    else:
        facts.tokens = body.tokens


def without_figures(facts: Facts, taken: Facts) -> Facts:
    """The facts, with nothing for each figure that was taken back and is not known otherwise: a
    file keeps a figure that nobody speaks of."""
    figures = dict.fromkeys(taken.tokens_by_agent, 0) | facts.tokens_by_agent
    names = ("tokens", "compressions")
    gone = [n for n in names if getattr(facts, n) is None and getattr(taken, n) is not None]
    return replace(facts, tokens_by_agent=figures, **dict.fromkeys(gone, 0))


def is_retraction(event: Event) -> bool:
    return isinstance(event.body, ev.EventRetracted)


def rows(state: st.State, table: str, kind: type[_Row]) -> list[_Row]:
    """The rows of a table, as what they are known to be."""
    return [row for row in state.rows.select(table) if isinstance(row, kind)]


def _text(value: Scalar) -> str:
    return value if isinstance(value, str) else ""


def _position(state: st.State, facts: Facts) -> str:
    """What is being worked on: what someone said last, nothing too, while it is open; else what
    began last.

    Of the phases of a plan that is the current one alone, whatever was left open before.
    """
    core, began = state.core, (s for s in reversed(facts.steps) if s.status == "running")
    running = [s for s in began if core.phase_of(s.id) in (None, core.phase)]
    latest = max(running, key=lambda s: s.started_at or 0, default=StepFact(""))
    elsewhere = state.elsewhere(latest.started_at or 0)
    if elsewhere is not None:
        return elsewhere
    chosen = state.chosen(latest.started_at or 0)
    return latest.id if chosen is None else chosen.id


def _fact(kind: type[_Told], by: Struct, **other: Any) -> _Told:
    """What a row or an event tells: a fact has the same names for it, but for some."""
    told = convert(by, kind, from_attributes=True)
    return replace(told, **other) if other else told


def _step_fact(row: st.Step) -> StepFact:
    return _fact(StepFact, row, **_known(row, "started_at", "ended_at", "paused_ms"))


def _known(row: Struct, *names: str) -> dict[str, int | None]:
    """Figures of a state, which has 0 for one that is not known."""
    return {name: getattr(row, name) or None for name in names}


def _is_only_measured(row: st.Agent) -> bool:
    """Whether nobody ever said more of an agent than how large its context is."""
    began = row.attempts or row.is_planned or row.status != "pending"
    return not began and row.fraction is None


def _agent_fact(row: st.Agent) -> AgentFact:
    figures = _known(row, "started_at", "ended_at", "retried_at", "tokens")
    return _fact(AgentFact, row, retries=max(0, row.attempts - 1), **figures)


def _listed(state: st.State, table: str, kind: type[_Row]) -> list[_Row]:
    found = rows(state, table, kind)
    return [row for row in found if not (isinstance(row, st.Agent) and _is_only_measured(row))]


def _lists(state: st.State) -> dict[str, Any]:
    return {
        field: [made_of(row) for row in _listed(state, table, kind)]
        for table, (field, kind, made_of) in _LISTED.items()
    }


def _checkpoint_fact(row: st.Checkpoint) -> CheckpointFact:
    verdict = {"overridden": "passed", "rolled_back": "pending"}.get(row.verdict, row.verdict)
    return _fact(CheckpointFact, row, verdict=verdict)


# Table of rows → the field of facts that lists them, their kind, and what each says.
_LISTED: dict[str, tuple[str, type[Any], Callable[[Any], Any]]] = {
    "step": ("steps", st.Step, _step_fact),
    "agent": ("agents", st.Agent, _agent_fact),
    "decision": ("decisions", st.Decision, partial(_fact, DecisionFact)),
    "error": ("errors", st.Problem, partial(_fact, ErrorFact)),
    "checkpoint": ("checkpoints", st.Checkpoint, _checkpoint_fact),
    "claim": ("claims", st.Claim, partial(_fact, ClaimFact)),
    "artifact": ("artifacts", st.Artifact, lambda row: row.path),
}


def _file_fact(body: ev.FileChanged, at: int) -> FileFact:
    # There may be very many of these.
    return FileFact(
        body.path, body.action, body.agent, at, body.added, body.removed, body.before, body.after
    )


def _command_fact(body: ev.CommandRan, at: int) -> CommandFact:
    # No layout has a word for an end that nobody told; not to fail is what they know.
    status = "success" if body.status == "unknown" else body.status
    return _fact(CommandFact, body, status=status, at=at)


def _observed_fact(body: ev.EvidenceObserved, at: int) -> CommandFact:
    """A proof is a command that ran; what it proves no layout has a place for."""
    failed = body.exit or body.timed_out or body.interrupted
    word = "timed out" if body.timed_out else "interrupted" if body.interrupted else ""
    return CommandFact(
        name=body.argv[0] if body.argv else body.proof,
        arguments=shlex.join(body.argv[1:]),
        status="failure" if failed else "success",
        duration_ms=body.duration_ms,
        error=word or (f"exit {body.exit}" if failed else ""),
        task=body.step,
        at=at,
    )
