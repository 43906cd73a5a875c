"""Turn the state of a session into the facts that a format writes.

Values that belong to one machine (paths of the project, device names) are left out: formats get
them from `Where`.
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
_Fact = TypeVar("_Fact", bound=Struct)


def facts_of(state: st.State, events: Iterable[Event]) -> Facts:
    """Return the facts of a session.

    File changes, commands, revisits and notes come from its `events`, everything else from its
    `state`.
    """
    core = state.core
    attributes = {row.key: row.value for row in rows(state, "attribute", st.Attribute)}
    facts = Facts(
        **_core_facts(core),
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


_CORE_FIELDS = (
    *("goal", "status", "model", "progress", "began_at", "updated_at", "because"),
    *("pause_reason", "pause_context", "resumes"),
    *("project", "git_branch", "git_commit", "workflow"),
)
_FIGURES = ("ended_at", "paused_at", "plan_total", "tokens", "compressions", "compressed_at")


def _core_facts(core: st.Core) -> dict[str, Any]:
    """Return the facts in the core of a state."""
    values = {name: getattr(core, name) for name in _CORE_FIELDS}
    base = core.plan_base if core.workflow else None
    return {**values, **_figures(core, *_FIGURES), "plan_base": base}


def add_events(facts: Facts, events: Iterable[Event]) -> None:
    """Add the facts that are not in the state: file changes, commands, revisits and notes.

    Add also an update for each event that is not a command.
    """
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
    """Return the bodies of the events that were retracted."""
    events = list(events)
    gone = retracted(in_order(events)) if any(map(is_retraction, events)) else ()
    return [event.body for event in events if event.id in gone]


def log_facts(values: Iterable[ev.Body]) -> Facts:
    """Return, without times, the facts of events that files store in lists that only grow."""
    facts = Facts()
    for body in values:
        if isinstance(body, ev.DecisionMade):
            facts.decisions.append(DecisionFact(body.what, chosen=body.chosen))
        elif isinstance(body, ev.ErrorRaised):
            facts.errors.append(ErrorFact(body.message, agent=body.agent))
        elif isinstance(body, ev.AgentFailed | ev.AgentTimedOut):
            facts.errors.append(ErrorFact(body.error, agent=body.agent))
        elif isinstance(body, ev.FileChanged):
            facts.files.append(_fact(FileFact, body))
        elif isinstance(body, ev.ContextMeasured) and body.agent:
            facts.tokens_by_agent[body.agent] = body.tokens
        elif isinstance(body, ev.ContextMeasured):
            facts.tokens = body.tokens
        elif isinstance(body, ev.ContextCompressed):
            facts.compressions = 1
    return facts


def clear_retracted_figures(facts: Facts, taken: Facts) -> Facts:
    """Return the facts with 0 for each retracted figure.

    Leaving a figure out would not be enough: a file retains figures that the facts do not have.
    """
    figures = dict.fromkeys(taken.tokens_by_agent, 0) | facts.tokens_by_agent
    names = ("tokens", "compressions")
    gone = [n for n in names if getattr(facts, n) is None and getattr(taken, n) is not None]
    return replace(facts, tokens_by_agent=figures, **dict.fromkeys(gone, 0))


def is_retraction(event: Event) -> bool:
    return isinstance(event.body, ev.EventRetracted)


def rows(state: st.State, table: str, kind: type[_Row]) -> list[_Row]:
    """Return the rows of a table of the state that are instances of `kind`."""
    return [row for row in state.rows.select(table) if isinstance(row, kind)]


def _text(value: Scalar) -> str:
    return value if isinstance(value, str) else ""


def _position(state: st.State, facts: Facts) -> str:
    """Return the id of the step or agent that the session is working on, or an empty string.

    That is the one set explicitly since the last start of a step, if it is still open; else the one
    that started last. Of the phases of a plan only the current one counts.
    """
    core, began = state.core, (s for s in reversed(facts.steps) if s.status == "running")
    running = [s for s in began if core.phase_of(s.id) in (None, core.phase)]
    latest = max(running, key=lambda s: s.started_at or 0, default=StepFact(""))
    elsewhere = state.elsewhere(latest.started_at or 0)
    if elsewhere is not None:
        return elsewhere
    chosen = state.chosen(latest.started_at or 0)
    return latest.id if chosen is None else chosen.id


def _fact(kind: type[_Fact], by: Struct, **other: Any) -> _Fact:
    """Return a fact with the fields of the same names in a row or event, and the `other` fields."""
    fact = convert(by, kind, from_attributes=True)
    return replace(fact, **other) if other else fact


def _step_fact(row: st.Step) -> StepFact:
    return _fact(StepFact, row, **_figures(row, "started_at", "ended_at", "paused_ms"))


def _figures(row: Struct, *names: str) -> dict[str, int | None]:
    """Return figures of a row, with None instead of 0, which stands for unknown in a row."""
    return {name: getattr(row, name) or None for name in names}


def _agent_fact(row: st.Agent) -> AgentFact:
    figures = _figures(row, "started_at", "ended_at", "retried_at", "tokens")
    return _fact(AgentFact, row, retries=max(0, row.attempts - 1), **figures)


def _lists(state: st.State) -> dict[str, Any]:
    """Return the lists of facts; leave out an agent of which only the context size is known."""
    found = {
        field: [make_fact(row) for row in rows(state, table, kind)]
        for table, (field, kind, make_fact) in _LISTS.items()
    }
    agents = rows(state, "agent", st.Agent)
    begun = (
        row
        for row in agents
        if row.attempts or row.is_planned or row.status != "pending" or row.fraction is not None
    )
    return found | {"agents": [_agent_fact(row) for row in begun]}


def _checkpoint_fact(row: st.Checkpoint) -> CheckpointFact:
    verdict = {"overridden": "passed", "rolled_back": "pending"}.get(row.verdict, row.verdict)
    return _fact(CheckpointFact, row, verdict=verdict)


# Table of rows → the field of facts that lists them, their kind, and how each becomes a fact.
_LISTS: dict[str, tuple[str, type[Any], Callable[[Any], Any]]] = {
    "step": ("steps", st.Step, _step_fact),
    "decision": ("decisions", st.Decision, partial(_fact, DecisionFact)),
    "error": ("errors", st.Problem, partial(_fact, ErrorFact)),
    "checkpoint": ("checkpoints", st.Checkpoint, _checkpoint_fact),
    "claim": ("claims", st.Claim, partial(_fact, ClaimFact)),
    "artifact": ("artifacts", st.Artifact, lambda row: row.path),
}


def _file_fact(body: ev.FileChanged, at: int) -> FileFact:
    # Written without `_fact`, which is slow: there can be very many file changes.
    return FileFact(
        body.path, body.action, body.agent, at, body.added, body.removed, body.before, body.after
    )


def _command_fact(body: ev.CommandRan, at: int) -> CommandFact:
    # No format has a word for an unknown result, only for failure and success.
    status = "success" if body.status == "unknown" else body.status
    return _fact(CommandFact, body, status=status, at=at)


def _observed_fact(body: ev.EvidenceObserved, at: int) -> CommandFact:
    """Return a proof as a command that ran, because no format has a field for proofs."""
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
