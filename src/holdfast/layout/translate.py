"""Between facts and the journal: what a state says as facts, and the events that facts ask for.

`facts_of` is what a layout writes; `moves` is what it takes to get from the facts that a file
once held to those it holds now, as events with the time they happened where the file tells it.
Adopting a file is the same with nothing before it. Both directions leave out what is true of one
machine only (paths of the project, device names): the layout gets those from its surroundings.

Steps are found by their id, else by their title (`match_steps`): layouts that keep bare sentences
have no ids.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from holdfast.choice import CATEGORIES, FINISHED, MODES, PAUSE_REASONS
from holdfast.layout.facts import (
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
    alike,
    in_one_text,
    in_parts,
    new_revisits,
)
from holdfast.model import event as ev
from holdfast.model import state as st
from holdfast.model.event import Body, Event
from holdfast.model.merge import in_order, retracted
from holdfast.sha import digest_of
from holdfast.text import short_name

_Row = TypeVar("_Row", bound=st.Row)
_Any = TypeVar("_Any")
_FEW = 16
News = Mapping[tuple[str, str], tuple[st.Row | None, st.Row]]
"""Table and key of rows that changed, with what they were and are."""


class Move(Struct, frozen=True):
    """An event to record, and when it happened if that is known."""

    body: Body
    at: int | None = None


# -- state → facts -----------------------------------------------------------------------------


def facts_of(state: st.State, events: Iterable[Event]) -> Facts:
    """What a session's state says; file changes, commands, revisits and notes come from its
    events."""
    core = state.core
    attributes = {row.key: row.value for row in _rows(state, "attribute", st.Attribute)}
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
    facts.tokens_by_agent = {a.id: a.tokens for a in _rows(state, "agent", st.Agent) if a.tokens}
    add_events(facts, events)
    return facts


def facts_since(was: Facts, state: st.State, events: Sequence[Event], news: News) -> Facts | None:
    """The facts after some events, from those before and the rows that changed.

    None if more may have changed than rows tell.
    """
    if not all(isinstance(event.body, _TOLD_BY_ROWS) for event in events):
        return None
    logs: dict[str, Any] = {"files": [], "commands": [], "notes": [], "updates": []}
    facts = replace(was, **_told_by(state.core), **logs, resumed_at=None)
    for table in {table for table, _ in news}:
        if table in _LISTED:
            _renew(facts, state, table, [both for (t, _), both in news.items() if t == table])
    add_events(facts, events)
    return facts


def _renew(facts: Facts, state: st.State, table: str, news: list[tuple[Any, Any]]) -> None:
    """Bring a list of facts up to its rows; what stayed the same is the same object."""
    field, kind, made_of = _LISTED[table]
    listed = list(getattr(facts, field))
    known = table in _WITH_ID and any(before is not None for before, _ in news)
    places = {fact.id: at for at, fact in enumerate(listed)} if known else {}
    for before, row in news:
        if before is None:
            listed.append(made_of(row))
        elif row.name in places and before.rank == row.rank:
            listed[places[row.name]] = made_of(row)
        else:
            listed = [made_of(row) for row in _listed(state, table, kind)]
            break
    setattr(facts, field, listed)
    if table == "step":
        facts.position = _position(state, facts)
    if table == "agent":
        spent = {agent.id: agent.tokens for agent in facts.agents if agent.tokens is not None}
        facts.tokens_by_agent = facts.tokens_by_agent | spent


_LOGGED = (ev.FileChanged, ev.CommandRan, ev.EvidenceObserved, ev.NoteAdded)
_TOLD_BY_ROWS = (
    *_LOGGED,
    ev.StepAdded,
    ev.StepStarted,
    ev.StepProgressed,
    ev.StepCompleted,
    ev.StepFailed,
    ev.StepBlocked,
    ev.StepUnblocked,
    ev.StepSkipped,
    ev.AgentStarted,
    ev.AgentProgressed,
    ev.AgentFinished,
    ev.AgentFailed,
    ev.DecisionMade,
    ev.ErrorRaised,
)


def _told_by(core: st.Core) -> dict[str, Any]:
    """What the core of a state tells, without its rows."""
    return {
        "goal": core.goal,
        "status": core.status,
        "model": core.model,
        "progress": core.progress,
        "began_at": core.began_at,
        "updated_at": core.updated_at,
        "ended_at": core.ended_at or None,
        "paused_at": core.paused_at or None,
        "pause_reason": core.pause_reason,
        "pause_context": core.pause_context,
        "resumes": core.resumes,
        "because": core.because,
        "project": core.project,
        "git_branch": core.git_branch,
        "git_commit": core.git_commit,
        "workflow": core.workflow,
        "plan_total": core.plan_total or None,
        "plan_base": core.plan_base if core.workflow else None,
        "tokens": core.tokens or None,
        "compressions": core.compressions or None,
        "compressed_at": core.compressed_at or None,
    }


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
            facts.revisits.append(_revisit_fact(body, at))
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
            facts.files.append(replace(_file_fact(body, 0), at=None))
    return facts


def is_retraction(event: Event) -> bool:
    return isinstance(event.body, ev.EventRetracted)


def _rows(state: st.State, table: str, kind: type[_Row]) -> list[_Row]:
    return [row for row in state.rows.select(table) if isinstance(row, kind)]


def _text(value: Scalar) -> str:
    return value if isinstance(value, str) else ""


def _position(state: st.State, facts: Facts) -> str:
    """What is being worked on: what someone said last, while it is open; else what began last.

    Of the phases of a plan that is the current one alone, whatever was left open before.
    """
    core, began = state.core, (s for s in reversed(facts.steps) if s.status == "running")
    running = [s for s in began if core.phase_of(s.id) in (None, core.phase)]
    latest = max(running, key=lambda s: s.started_at or 0, default=StepFact(""))
    chosen = state.chosen(latest.started_at or 0)
    return latest.id if chosen is None else chosen.id


def _step_fact(row: st.Step) -> StepFact:
    return StepFact(
        title=row.title,
        id=row.id,
        unit=row.unit,
        parent=row.parent,
        status=row.status,
        agent=row.agent,
        outcome=row.outcome,
        because=row.because,
        files=list(row.files),
        started_at=row.started_at or None,
        ended_at=row.ended_at or None,
        fraction=row.fraction,
        paused_ms=row.paused_ms or None,
    )


def _is_only_measured(row: st.Agent) -> bool:
    """Whether nobody ever said more of an agent than how large its context is."""
    began = row.attempts or row.is_planned or row.status != "pending"
    return not began and row.fraction is None


def _agent_fact(row: st.Agent) -> AgentFact:
    return AgentFact(
        id=row.id,
        type=row.type,
        task=row.task,
        status=row.status,
        started_at=row.started_at or None,
        ended_at=row.ended_at or None,
        fraction=row.fraction,
        result=row.result,
        error=row.error,
        category=row.category,
        retries=max(0, row.attempts - 1),
        retried_at=row.retried_at or None,
        blocking_on=row.blocking_on,
        tokens=row.tokens or None,
        created=list(row.created),
        modified=list(row.modified),
        deleted=list(row.deleted),
    )


def _listed(state: st.State, table: str, kind: type[_Row]) -> list[_Row]:
    rows = _rows(state, table, kind)
    return [row for row in rows if not (isinstance(row, st.Agent) and _is_only_measured(row))]


def _lists(state: st.State) -> dict[str, Any]:
    return {
        field: [made_of(row) for row in _listed(state, table, kind)]
        for table, (field, kind, made_of) in _LISTED.items()
    }


def _decision_fact(row: st.Decision) -> DecisionFact:
    return DecisionFact(row.what, row.because, list(row.options), row.chosen, row.at)


def _checkpoint_fact(row: st.Checkpoint) -> CheckpointFact:
    verdict = {"overridden": "passed", "rolled_back": "pending"}.get(row.verdict, row.verdict)
    return CheckpointFact(row.step, verdict, dict(row.evidence), row.issue, row.at)


def _error_fact(row: st.Problem) -> ErrorFact:
    return ErrorFact(row.message, row.category, row.agent, row.at)


def _claim_fact(row: st.Claim) -> ClaimFact:
    return ClaimFact(
        text=row.text,
        reason=row.reason,
        section=row.section,
        paragraph=row.paragraph,
        resolved=row.resolved,
        result=row.result,
        because=row.because,
        at=row.at,
    )


# Table of rows → the field of facts that lists them, their kind, and what each says.
_LISTED: dict[str, tuple[str, type[Any], Callable[[Any], Any]]] = {
    "step": ("steps", st.Step, _step_fact),
    "agent": ("agents", st.Agent, _agent_fact),
    "decision": ("decisions", st.Decision, _decision_fact),
    "error": ("errors", st.Problem, _error_fact),
    "checkpoint": ("checkpoints", st.Checkpoint, _checkpoint_fact),
    "claim": ("claims", st.Claim, _claim_fact),
    "artifact": ("artifacts", st.Artifact, lambda row: row.path),
}
_WITH_ID = ("step", "agent")


def _file_fact(body: ev.FileChanged, at: int) -> FileFact:
    return FileFact(
        body.path, body.action, body.agent, at, body.added, body.removed, body.before, body.after
    )


def _revisit_fact(body: ev.StepRevisited, at: int) -> RevisitFact:
    return RevisitFact(body.step, body.because, body.impact, list(body.archived), at)


def _command_fact(body: ev.CommandRan, at: int) -> CommandFact:
    return CommandFact(
        name=body.name,
        arguments=body.arguments,
        # No layout has a word for an end that nobody told; not to fail is what they know.
        status="success" if body.status == "unknown" else body.status,
        duration_ms=body.duration_ms,
        error=body.error,
        agent=body.agent,
        task=body.task,
        model=body.model,
        at=at,
    )


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


# -- facts → events ----------------------------------------------------------------------------


def adoption(facts: Facts, origin: str) -> list[Move]:
    """The events that a session found in files begins with, in the order they happened."""
    began = facts.began_at
    first = ev.SessionAdopted(
        goal=facts.goal or f"{origin} {facts.native_id}".strip(),
        origin=origin,
        native_id=facts.native_id,
        mode=facts.mode if facts.mode in MODES else "default",
        status="created" if facts.status == "created" else "active",
        began_at=began,
        project=facts.project,
        git_branch=facts.git_branch,
        git_commit=facts.git_commit,
    )
    blank = Facts(goal=facts.goal, mode=facts.mode, native_id=facts.native_id, status=first.status)
    return [Move(first, began), *moves(blank, facts)]


def moves(base: Facts, new: Facts) -> list[Move]:
    """What happened between two readings of the same files."""
    steps = match_steps(base.steps, new.steps)
    made = [
        *_described(base, new),
        *_planned(base, new),
        *_step_moves(steps),
        *_agent_moves(base, new),
        *_verdicts(base, new),
        *_decided(base, new),
        *_logged(base, new),
        *_claimed(base, new),
        *_measured(base, new),
        *_attributes(base, new),
    ]
    # Parts tell their own order; between parts only time can. Where the work is and who does it
    # come last: they count more than which step was begun last, or who ran the last command.
    return [*_in_time(made), *_placed(base, new), *_status_moves(base, new)]


def _placed(base: Facts, new: Facts) -> Iterator[Move]:
    others = (c for c in _new_of(base.commands, new.commands) if c.model not in ("", new.model))
    if new.model and (new.model != base.model or any(True for _ in others)):
        yield Move(ev.AttributeSet(key="model", value=new.model))
    # Another plan begins at its first phase, whatever phase the work has reached.
    begins = base.workflow and new.workflow and new.workflow != base.workflow
    if new.position and (begins or new.position != base.position or _left_there(base, new)):
        yield Move(ev.AttributeSet(key="position", value=new.position))


def _left_there(base: Facts, new: Facts) -> bool:
    """Whether other steps began and the files still say where the work is."""
    ran = {step.id for step in base.steps if step.status == "running"}
    runs = {step.id for step in new.steps if step.status == "running"}
    return bool(runs - ran - {new.position})


def _in_time(made: list[Move]) -> list[Move]:
    latest = 0
    keyed = []
    for place, move in enumerate(made):
        latest = latest if move.at is None else move.at
        keyed.append((latest, place, move))
    return [move for _, _, move in sorted(keyed, key=lambda item: item[:2])]


def _described(base: Facts, new: Facts) -> Iterator[Move]:
    if new.goal != base.goal and new.goal.strip():
        yield Move(ev.SessionRenamed(goal=new.goal))
    if new.mode != base.mode and new.mode:
        yield Move(ev.AttributeSet(key="mode", value=new.mode))
    if new.progress != base.progress:
        yield Move(ev.AttributeSet(key="progress", value=new.progress))


def _planned(base: Facts, new: Facts) -> Iterator[Move]:
    if new.workflow and new.workflow != base.workflow:
        plan = ev.PlanSet(
            workflow=new.workflow,
            version=new.workflow_version,
            base=new.plan_base or 0,
            total=new.plan_total,
            target=new.target,
        )
        yield Move(plan, new.began_at)
    elif new.plan_total is not None and new.plan_total != base.plan_total:
        yield Move(ev.PlanResolved(total=new.plan_total))
    for key, value, old in (
        ("workflow.version", new.workflow_version, base.workflow_version),
        ("workflow.target", new.target, base.target),
    ):
        if value != old and value:
            yield Move(ev.AttributeSet(key=key, value=value))


def match_steps(
    base: Sequence[StepFact], new: Sequence[StepFact]
) -> list[tuple[StepFact | None, StepFact]]:
    """Each new step with the one it was: by id, else by title, else by its place among the rest.

    Steps without an id get one: that of the step they were, or one made from their title.
    """
    by_id = {step.id: step for step in base if step.id}
    by_title: dict[str, list[StepFact]] = {}
    for step in base:
        by_title.setdefault(step.title, []).append(step)
    taken = set(by_id) | {step.id for step in new if step.id}
    last: dict[str, int] = {}
    pairs: list[tuple[StepFact | None, StepFact]] = []
    for step in new:
        old = by_id.get(step.id) if step.id else next(iter(by_title.get(step.title, ())), None)
        if old is not None and not step.id:
            by_title[step.title].remove(old)
            step = replace(step, id=old.id, unit=old.unit, parent=old.parent)
        if not step.id:
            step = replace(step, id=_free(step_id(step.title), taken, last))
            taken.add(step.id)
        pairs.append((old, step))
    return pairs


def step_id(title: str) -> str:
    """An id for a step that has only a title: readable, and always the same."""
    slug = re.sub(r"[^a-z0-9]+", "-", title.lower())[:24].strip("-")
    return slug or f"t-{digest_of(title.encode())[:8]}"


def _free(id: str, taken: set[str], last: dict[str, int]) -> str:
    """The id, or the first with a number behind it that is free; `last` is how far that went."""
    if id not in taken:
        return id
    last[id] = next(n for n in count(last.get(id, 1) + 1) if f"{id}-{n}" not in taken)
    return f"{id}-{last[id]}"


def _step_moves(pairs: Sequence[tuple[StepFact | None, StepFact]]) -> Iterator[Move]:
    for old, step in pairs:
        if old is None or (old.title, old.unit, old.parent) != (step.title, step.unit, step.parent):
            body = ev.StepAdded(
                step=step.id,
                title=step.title or step.id,
                unit=step.unit,
                parent=step.parent,
                agent=step.agent,
            )
            yield Move(body, step.started_at if old is None else None)
        yield from _unit_moves(old, step, _STEP_EVENTS)
        if step.fraction is not None and step.fraction != (old and old.fraction):
            yield Move(ev.StepProgressed(step=step.id, fraction=step.fraction))


_Maker = Callable[[Any], Body]
_STEP_EVENTS: dict[str, _Maker] = {
    "pending": lambda s: ev.StepReset(step=s.id),
    "running": lambda s: ev.StepStarted(step=s.id, agent=s.agent),
    "done": lambda s: ev.StepCompleted(step=s.id, outcome=s.outcome, files=s.files),
    "failed": lambda s: ev.StepFailed(step=s.id, because=s.because),
    "blocked": lambda s: ev.StepBlocked(step=s.id, because=s.because or "no reason was given"),
    "timed_out": lambda s: ev.StepFailed(step=s.id, because=s.because or "timed out"),
    "needs_review": lambda s: ev.StepNeedsReview(step=s.id, because=s.because),
    "skipped": lambda s: ev.StepSkipped(step=s.id, because=s.because),
}
_AGENT_EVENTS: dict[str, _Maker] = {
    "pending": lambda a: replace(_started(a), status="pending"),
    "blocked": lambda a: replace(_started(a), status="blocked"),
    "running": lambda a: _started(a),
    "needs_review": lambda a: _started(a),
    "done": lambda a: _finished(a),
    "skipped": lambda a: replace(_finished(a), status="skipped"),
    "failed": lambda a: ev.AgentFailed(
        agent=a.id,
        error=a.error,
        category=category_of(a.category),
        retries=a.retries,
        retried_at=a.retried_at,
    ),
    "timed_out": lambda a: ev.AgentTimedOut(
        agent=a.id, error=a.error, retries=a.retries, retried_at=a.retried_at
    ),
}


def _started(a: AgentFact) -> ev.AgentStarted:
    return ev.AgentStarted(agent=a.id, type=a.type, task=a.task, blocking_on=a.blocking_on)


def _finished(a: AgentFact) -> ev.AgentFinished:
    return ev.AgentFinished(
        agent=a.id, result=a.result, created=a.created, modified=a.modified, deleted=a.deleted
    )


def _unit_moves(old: Any, new: Any, events: dict[str, _Maker]) -> Iterator[Move]:
    """The start, if it is news, and the status it has come to since, or how that came about."""
    was = old.status if old is not None else "pending"
    began = new.started_at is not None and new.started_at != (old and old.started_at)
    if began and new.status not in ("pending", "running"):
        yield Move(events["running"](new), new.started_at)
    anew = new.status == was and new.status in _ENDS and _ended_otherwise(old, new)
    if new.status != was or (began and was != "pending") or anew:
        ended = new.started_at if new.status == "running" else new.ended_at
        # Moves are told in the order of their times: an end never before what it is the end of.
        ended = ended and max(ended, new.started_at or ended)
        yield Move(events[new.status](new), ended)


_ENDS = ("done", "skipped", "failed", "timed_out")


def _ended_otherwise(old: Any, new: Any) -> bool:
    """Whether more, or something else, is said of an end; a file without its time denies none."""
    if any(getattr(old, name, None) != getattr(new, name, None) for name in _OF_END):
        return True
    return new.ended_at not in (None, old.ended_at)


_OF_END = (
    *("outcome", "result", "files", "created", "modified", "deleted", "because"),
    *("error", "category", "retries", "retried_at"),
)


def category_of(word: str) -> str:
    """The category that an error is recorded with."""
    return word if word in CATEGORIES else "logical"


def _agent_moves(base: Facts, new: Facts) -> Iterator[Move]:
    known = {agent.id: agent for agent in base.agents}
    for agent in new.agents:
        old = known.get(agent.id)
        if old is None and agent.status in ("pending", "blocked"):
            yield Move(_AGENT_EVENTS[agent.status](agent))
        else:
            if old is None and agent.started_at is None:
                # An ending that nothing began: the start is recorded so that the run is whole.
                yield Move(_started(agent), agent.ended_at)
            again = list(_unit_moves(old, agent, _AGENT_EVENTS))
            yield from again
            if begun_by(again):
                # It is as on its first day by that, and has come to nothing yet.
                old = None
        yield from _so_far(old or AgentFact(agent.id), agent)


def begun_by(made: list[Move]) -> set[str]:
    """The agents whose start some moves tell."""
    return {move.body.agent for move in made if isinstance(move.body, ev.AgentStarted)}


def _so_far(old: AgentFact, new: AgentFact) -> Iterator[Move]:
    """What an agent that is not done has come to."""
    names = ("fraction", "result", "created", "modified", "deleted")
    told = {n: getattr(new, n) for n in names if getattr(new, n) != getattr(old, n)}
    if (
        any(value not in (None, "", []) for value in told.values())
        and new.status not in st.CLOSED_UNITS
    ):
        yield Move(ev.AgentProgressed(agent=new.id, **told))


def _verdicts(base: Facts, new: Facts) -> Iterator[Move]:
    known = {c.step: c for c in base.checkpoints}
    kinds: dict[str, type[ev.Verdict]] = {
        "passed": ev.CheckpointPassed,
        "failed": ev.CheckpointFailed,
        "skipped": ev.CheckpointOverridden,
        "pending": ev.CheckpointRolledBack,
    }
    for step in _taken_back(base, new):
        yield Move(ev.CheckpointRolledBack(step=step))
    for check in new.checkpoints:
        old = known.get(check.step)
        if check.verdict not in kinds or (old is None and check.verdict == "pending"):
            continue
        if old is None or _is_other(old, check):
            body = kinds[check.verdict](step=check.step, evidence=check.evidence, issue=check.issue)
            yield Move(body, check.at)


def _is_other(old: CheckpointFact, check: CheckpointFact) -> bool:
    """Whether a verdict is another one; a failed one that came later is of another attempt."""
    later = check.verdict == "failed" and (check.at or 0) > (old.at or check.at or 0)
    return later or (old.verdict, old.evidence) != (check.verdict, check.evidence)


def _taken_back(base: Facts, new: Facts) -> Iterator[str]:
    """The steps that were judged, and of which nothing is said any more while they are open."""
    judged = {check.step for check in new.checkpoints}
    open_ = {step.id for step in new.steps if step.status in ("pending", "running")}
    said = (check.step for check in base.checkpoints if check.verdict != "pending")
    return (step for step in said if step in open_ - judged)


def _decided(base: Facts, new: Facts) -> Iterator[Move]:
    for old, decision in _paired(base.decisions, new.decisions):
        chosen = decision.chosen if decision.chosen in decision.options else ""
        body = ev.DecisionMade(
            decision=short_name((old or decision).what),
            what=decision.what or decision.chosen or "a decision",
            because=decision.because,
            options=decision.options,
            chosen=chosen,
        )
        yield Move(body, decision.at)


def _paired(
    base: Sequence[DecisionFact], new: Sequence[DecisionFact]
) -> list[tuple[DecisionFact | None, DecisionFact]]:
    """Each decision that is not there already, with the one it was.

    The same words, or some of them and the same time, are the same decision; but several may have
    been made in one second, and one of them have come as another went.
    """
    there = [_log_key(decision) for decision in base]
    left = Counter(there) & Counter(_log_key(decision) for decision in new)
    rest: dict[object, list[DecisionFact]] = {}
    for decision, key in zip(base, there, strict=True):
        if left[key]:
            left[key] -= 1
        else:
            rest.setdefault(_identity(decision), []).append(decision)
    pairs = ((rest.get(_identity(decision), []), decision) for decision in _new_of(base, new))
    return [(_taken(same, decision), decision) for same, decision in pairs]


def _taken(same: list[DecisionFact], decision: DecisionFact) -> DecisionFact | None:
    """That of some decisions which this one was, taken from among them."""
    likest = max(same[:_FEW], key=lambda old: alike(old.what, decision.what), default=None)
    if likest is None or not alike(likest.what, decision.what):
        return None
    same.remove(likest)
    return likest


def reworded(base: Sequence[DecisionFact], new: Sequence[DecisionFact]) -> dict[str, str]:
    """What decisions said that are taken for others now, and what these say."""
    return {old.what: now.what for old, now in _paired(base, new) if old and old.what != now.what}


def _identity(decision: DecisionFact) -> object:
    return decision.what if decision.at is None else decision.at


def _new_of(base: Sequence[Any], new: Sequence[Any]) -> list[Any]:
    """What a log has gained; a log only grows, so what is missing says nothing. Who took the time
    of an entry out did not say it once more."""
    left = Counter(map(_log_key, base))
    news = [entry for entry in new if not _took(left, entry)]
    if all(entry.at is not None for entry in news):
        return news
    gone = (replace(entry, at=None) for entry in base if _took(left, entry))
    untimed = Counter(map(_log_key, gone))
    return [entry for entry in news if entry.at is not None or not _took(untimed, entry)]


def _took(left: Counter[object], entry: Any) -> bool:
    """Whether such an entry was left; one less is, then."""
    key = _log_key(entry)
    if there := left[key] > 0:
        left[key] -= 1
    return there


def _log_key(entry: Any) -> object:
    return tuple(
        tuple(v) if isinstance(v, list) else v
        for v in (getattr(entry, name) for name in entry.__struct_fields__)
    )


def _new_errors(base: Facts, new: Facts) -> list[ErrorFact]:
    """Those that the session has gained. The error of an agent that ended well after all stays
    where it is told, but is that of no agent any more: it is not another one."""
    before, after = (Counter((a.id, a.error) for a in of.agents if a.error) for of in (base, new))
    let_go = before - after
    gained: list[ErrorFact] = []
    for error in _new_of(base.errors, new.errors):
        key = (error.agent, error.message)
        if let_go[key]:
            let_go[key] -= 1
        else:
            gained.append(error)
    return gained


def _logged(base: Facts, new: Facts) -> Iterator[Move]:
    for f in _new_of(base.files, new.files):
        changed = ev.FileChanged(
            path=f.path,
            action=f.action,
            agent=f.agent,
            added=f.added,
            removed=f.removed,
            before=f.before,
            after=f.after,
        )
        yield Move(changed, f.at)
    for c in _new_of(base.commands, new.commands):
        ran = ev.CommandRan(
            name=c.name or "command",
            arguments=c.arguments,
            status=c.status,
            duration_ms=c.duration_ms,
            error=c.error,
            agent=c.agent,
            task=c.task,
            model=c.model,
        )
        yield Move(ran, c.at)
    for e in _new_errors(base, new):
        raised = ev.ErrorRaised(message=e.message, category=category_of(e.category), agent=e.agent)
        yield Move(raised, e.at)
    for n in _new_of(base.notes, new.notes):
        yield Move(ev.NoteAdded(text=n.text), n.at)
    for r in new_revisits(base.revisits, new.revisits):
        went_back = ev.StepRevisited(
            step=r.step, because=r.because, impact=r.impact, archived=r.archived
        )
        yield Move(went_back, r.at)


def _claimed(base: Facts, new: Facts) -> Iterator[Move]:
    known = _by_words(base.claims, lambda claim: claim.text)
    for id, old, claim in _same_claims(known, new.claims):
        if old is None:
            deferred = ev.ClaimDeferred(
                claim=id,
                text=claim.text,
                reason=claim.reason or "unknown",
                section=claim.section,
                paragraph=claim.paragraph,
            )
            yield Move(deferred, claim.at)
        if claim.result and claim.result != (old and old.result):
            overridden = ev.ClaimOverridden(
                claim=id,
                result=claim.result,
                because=claim.because or "no reason given",
            )
            yield Move(overridden, claim.at)
        elif claim.resolved and not (old and old.resolved):
            yield Move(ev.ClaimResolved(claim=id))


def _by_words(rows: Iterable[_Any], words: Callable[[_Any], str]) -> dict[str, list[_Any]]:
    found: dict[str, list[_Any]] = {}
    for row in rows:
        found.setdefault(words(row), []).append(row)
    return found


def _same_claims(
    known: Mapping[str, list[ClaimFact]], claims: Sequence[ClaimFact]
) -> Iterator[tuple[str, ClaimFact | None, ClaimFact]]:
    """Each claim with what it is called and was: the same words in another place are another one,
    unless they were claimed once only, for a claim may get its place later."""
    left: dict[object, deque[tuple[int, ClaimFact]]] = {}
    for text, same in known.items():
        for number, old in enumerate(same, 1):
            place = _placed_words(old) if len(same) > 1 else text
            left.setdefault(place, deque()).append((number, old))
    count = {text: len(same) for text, same in known.items()}
    for claim in claims:
        same_place = left.get(_placed_words(claim)) or left.get(claim.text)
        number, was = same_place.popleft() if same_place else (0, None)
        if was is None:
            number = count[claim.text] = count.get(claim.text, 0) + 1
        yield _nth(short_name(claim.text), number), was, claim


def _placed_words(claim: ClaimFact) -> object:
    return claim.text, claim.section, claim.paragraph


def _nth(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"


def by_known_names(made: list[Move], state: st.State) -> list[Move]:
    """Moves that call a decision or a claim what the journal calls it: no layout tells that."""
    decided = _rows(state, "decision", st.Decision)
    chosen = {short_name(in_one_text(row.what, row.chosen)): row for row in decided if row.chosen}
    made = [_in_parts(move, chosen) for move in made]
    decisions = {short_name(row.what): row.id for row in decided}
    said = _by_words(_rows(state, "claim", st.Claim), lambda row: row.text)
    claims = {
        _nth(short_name(text), number): row.id
        for text, rows in said.items()
        for number, row in enumerate(rows, 1)
    }
    return [_renamed(_renamed(move, "decision", decisions), "claim", claims) for move in made]


def _in_parts(move: Move, known: Mapping[str, st.Decision]) -> Move:
    """A decision that was told in one text with what was chosen, with that apart."""
    body = move.body
    if not isinstance(body, ev.DecisionMade) or body.chosen or body.decision not in known:
        return move
    row = known[body.decision]
    told = in_parts(DecisionFact(body.what, options=row.options, chosen=row.chosen))
    more = {name: getattr(told, name) for name in ("what", "options", "chosen")}
    apart = more if told.what != body.what else {}
    return replace(move, body=replace(body, decision=row.id, **apart))


def _renamed(move: Move, field: str, names: Mapping[str, str]) -> Move:
    name = names.get(getattr(move.body, field, ""), "")
    return replace(move, body=replace(move.body, **{field: name})) if name else move


def _measured(base: Facts, new: Facts) -> Iterator[Move]:
    if new.tokens is not None and new.tokens != base.tokens:
        yield Move(ev.ContextMeasured(tokens=new.tokens))
    by_agent = {a.id: a.tokens for a in base.agents} | base.tokens_by_agent
    now = {a.id: a.tokens for a in new.agents if a.tokens is not None} | new.tokens_by_agent
    for agent, tokens in now.items():
        if tokens is not None and tokens != by_agent.get(agent):
            yield Move(ev.ContextMeasured(tokens=tokens, agent=agent))
    more = (new.compressions or 0) - (base.compressions or 0)
    for _ in range(min(max(more, 0), 100)):
        yield Move(ev.ContextCompressed(), new.compressed_at)


def _attributes(base: Facts, new: Facts) -> Iterator[Move]:
    for key in (*new.attributes, *(k for k in base.attributes if k not in new.attributes)):
        value = new.attributes.get(key)
        if value != base.attributes.get(key):
            yield Move(ev.AttributeSet(key=key, value=value))


def _status_moves(base: Facts, new: Facts) -> Iterator[Move]:
    if new.status == base.status:
        return
    if base.status in FINISHED and new.status not in FINISHED:
        yield Move(ev.SessionReopened(because="its files say that it goes on"))
    makers: dict[str, Callable[[], Body]] = {
        "paused": lambda: ev.SessionPaused(
            reason=new.pause_reason if new.pause_reason in PAUSE_REASONS else "user_request",
            context=new.pause_context,
        ),
        "completed": lambda: ev.SessionCompleted(because=new.because),
        "failed": lambda: ev.SessionFailed(because=new.because),
        "aborted": lambda: ev.SessionAborted(because=new.because),
        "abandoned": lambda: ev.SessionAbandoned(because=new.because),
        "active": ev.SessionResumed,
    }
    if new.status == "active" and base.status in ("created", *FINISHED):
        return
    if new.status in makers:
        told = {"paused": "paused_at", "active": "resumed_at"}.get(new.status, "ended_at")
        yield Move(makers[new.status](), _news(base, new, told) or _news(base, new, "updated_at"))


def _news(base: Facts, new: Facts, field: str) -> int | None:
    """The time in a field, if it is another than it was."""
    at: int | None = getattr(new, field)
    return at if at != getattr(base, field) else None
