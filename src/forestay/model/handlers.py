"""Handlers: the effect of each kind of event on a state. It is defined nowhere else.

Handlers are total: a unit that an event mentions but no event introduced gets a row made from its
id. `fold` decides in which order events are applied, and which of them count; `FOLD_VERSION`
is raised when something here changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec.structs import asdict, replace

from forestay.base.vocabulary import ROLES, STATUSES
from forestay.model import event as ev
from forestay.model.event import Body, Event
from forestay.model.state import (
    CHECKOUT,
    CONFLICT,
    EDIT,
    Acknowledgment,
    Agent,
    Artifact,
    Attribute,
    Checkpoint,
    Claim,
    Core,
    Decision,
    Dispute,
    Edit,
    File,
    Line,
    Note,
    Problem,
    Proof,
    Row,
    State,
    Step,
    Unit,
    last_number,
    proof_key,
)

RECENT = 5
TRIES = 20
"""How many verdicts the row of a checkpoint stores; the journal has all of them."""
BOTH = " and "
"""Joins choices that are made together; none of them counts as rejected."""
SETTLED = "settled"
"""The cause of an edit that settles the dispute about its file."""
TOKEN = "[redacted:"
"""Begins the text that replaces a secret."""
_LINE = 160
_WORDS = 800
"""How many characters of the last message the core stores."""
_R = TypeVar("_R", bound=Row)


def _line(state: State, event: Event, text: str, most: int = _LINE) -> Line:
    head = event.head
    return Line(head.id, head.at, head.actor, text[:most], state.writer)


def _new_row(kind: type[_R], state: State, event: Event, body: Body, **more: Any) -> _R:
    """Return a row of this kind: the fields that it shares with the event, and `more`."""
    head = event.head
    given = {"rank": state.core.events, "at": head.at, "event": head.id, "by": head.actor}
    values = {**given, **asdict(body), **more}
    return kind(**{name: values[name] for name in kind.__struct_fields__ if name in values})


def _append_recent(lines: list[Line], line: Line) -> list[Line]:
    return [*lines[1 - RECENT :], line]


def _begun(state: State, event: Event, body: Any) -> None:
    """Begin a session, started here or adopted; an adopted one may have begun earlier."""
    core = state.core
    status, began = getattr(body, "status", "active"), getattr(body, "began_at", None)
    core.status = status if status in STATUSES else "active"
    _set_goal(state, event, body.goal)
    core.mode, core.project = body.mode, body.project
    core.from_session = getattr(body, "from_session", core.from_session)
    _check_out(core, event, body.git_branch, body.git_commit)
    core.began_at = event.head.at if began is None else began


def _renamed(state: State, event: Event, body: ev.SessionRenamed) -> None:
    _set_goal(state, event, body.goal)


def _set_goal(state: State, event: Event, goal: str) -> None:
    core = state.core
    core.goal, core.goal_by, core.goal_device = goal, event.head.actor, state.writer


def _check_out(core: Core, event: Event, branch: str, commit: str) -> None:
    """Update the checkout; a detached head has a commit and no branch."""
    if core.git_commit and core.git_by != event.head.device:
        # The user of this device may lack that commit, so it is shown until the next pause.
        core.git_there = [core.git_branch, core.git_commit]
    core.git_branch = branch if commit else branch or core.git_branch
    core.git_commit = commit or core.git_commit
    core.git_first = core.git_first or commit
    core.git_by = event.head.device if core.git_commit else ""


def _paused(state: State, event: Event, body: ev.SessionPaused) -> None:
    core = state.core
    _check_out(core, event, body.git_branch, body.git_commit)
    core.git_there = []
    core.status, core.paused_at = "paused", event.head.at
    core.pause_reason, core.pause_context = body.reason, body.context
    core.count("pauses")
    core.pauses = _append_recent(core.pauses, _line(state, event, body.context or body.reason))


def _end_pause(core: Core, at: int) -> None:
    if core.paused_at:
        core.paused_ms += max(0, at - core.paused_at)
        core.away_ms += max(0, at - core.paused_at)
    core.paused_at = 0
    core.pause_reason = core.pause_context = core.interrupted = ""


def _work_again(core: Core, at: int) -> None:
    _end_pause(core, at)
    if core.ended_at:
        core.away_ms += max(0, at - core.ended_at)
    core.status, core.archived, core.ended_at, core.because = "active", False, 0, ""


def _resumed(state: State, event: Event, body: ev.SessionResumed) -> None:
    core = state.core
    _work_again(core, event.head.at)
    core.resumes += 1
    _check_out(core, event, body.git_branch, body.git_commit)


def _ended(status: str) -> Callable[[State, Event, Any], None]:
    def handler(state: State, event: Event, body: Any) -> None:
        core = state.core
        _end_pause(core, event.head.at)
        _check_out(core, event, body.git_branch, body.git_commit)
        core.git_there = []
        core.status, core.ended_at, core.because = status, event.head.at, body.because

    return handler


def _reopened(state: State, event: Event, body: ev.SessionReopened) -> None:
    _work_again(state.core, event.head.at)


def _archived(state: State, event: Event, body: ev.SessionArchived) -> None:
    state.core.archived = body.archived


def _interrupted(state: State, event: Event, body: ev.SessionInterrupted) -> None:
    state.core.interrupted = body.doing or "unknown"
    state.core.count("interruptions")
    for key in body.agents:
        agent = state.agent(key)
        if agent is not None and agent.status == "running":
            died = {"error": "its process died; outcome unknown", "category": "interrupted"}
            state.put("agent", replace(agent, status="failed", ended_at=event.head.at, **died))


def _forgotten(state: State, event: Event, body: ev.SessionForgotten) -> None:
    state.core.forgotten = True


def _erased(state: State, event: Event, body: ev.Erased) -> None:
    core = state.core
    core.erased += 1
    # The kind of a tombstone is enough, so it holds without content too.
    core.forgotten = core.forgotten or event.kind == "session.forgotten"
    if event.kind in _BEGINNINGS and not core.status:
        # The kind of a beginning is enough, too: without one nothing more could be recorded.
        core.status, core.began_at = "active", event.head.at
    if event.kind not in ev.KINDS:
        _require(core, event.head.must)


_BEGINNINGS = ("session.started", "session.adopted")


def _unknown(state: State, event: Event, body: ev.Unknown) -> None:
    core = state.core
    core.unknown[event.kind] = core.unknown.get(event.kind, 0) + 1
    _require(core, event.head.must)


def _require(core: Core, version: str) -> None:
    core.needs = max(core.needs, version, key=_version_key)


def _version_key(version: str) -> tuple[list[int], str]:
    return [int(part[:18]) for part in re.findall(r"[0-9]+", version)], version


def _plan_set(state: State, event: Event, body: ev.PlanSet) -> None:
    core = state.core
    core.workflow, core.plan_total, core.plan_base = body.workflow, body.total, body.base
    core.plan, core.plan_unit = body.snapshot, body.unit
    core.plan_target, core.plan_version = body.target, body.version
    # A plan without phases has no current one.
    core.phase = None if body.total == 0 else body.base
    # A file may name the position before the plan is known.
    row = state.rows.get("attribute", "position") if state.count("attribute") else None
    if isinstance(row, Attribute) and isinstance(row.value, str):
        _move_to_phase_of(core, row.value)
    _recount_phases(state)


def _recount_phases(state: State) -> None:
    """Compute completed phases and verdicts again, for a plan that has changed."""
    core = state.core
    core.phases_done, core.phase_verdicts = {}, {}
    for row in state.rows.select("step") if state.count("step") else ():
        if isinstance(row, Step):
            _update_phase(core, row)
    for row in state.rows.select("checkpoint") if state.count("checkpoint") else ():
        if isinstance(row, Checkpoint):
            _update_verdict(core, row)


def _move_to_phase_of(core: Core, step: str) -> None:
    """Make the phase of a step current: the step is that phase, or its id is inside it."""
    number = core.phase_of(step.partition("/")[0])
    if number is not None:
        core.phase = number


def _plan_resolved(state: State, event: Event, body: ev.PlanResolved) -> None:
    core = state.core
    core.plan_total = body.total
    last = last_number(core.plan_base, core.plan_total)
    if core.phase is not None and last is not None:
        core.phase = max(core.plan_base, min(core.phase, last))
    _recount_phases(state)


def _put_step(state: State, step: Step) -> None:
    state.put("step", step)
    _update_phase(state.core, step)


def _update_phase(core: Core, step: Step) -> None:
    """If the step is a phase, update whether the phase is done, and how long it took."""
    number = core.phase_of(step.id)
    if number is None:
        return
    if step.status != "done":
        core.phases_done.pop(number, None)
        return
    is_timed = step.started_at and step.ended_at
    active = max(0, step.ended_at - step.started_at - step.paused_ms)
    core.phases_done[number] = active if is_timed else -1


def _get_step(state: State, event: Event, key: str) -> Step:
    return state.step(key) or Step(rank=state.core.events, at=event.head.at, id=key, title=key)


def _step_added(state: State, event: Event, body: ev.StepAdded) -> None:
    step = _get_step(state, event, body.step)
    described = {"title": body.title, "unit": body.unit, "parent": body.parent}
    state.put("step", replace(step, agent=body.agent, **described))


def _start_unit(unit: Unit, at: int) -> dict[str, Any]:
    return {
        "status": "running",
        "because": "",
        "started_at": at,
        "ended_at": 0,
        "attempts": unit.attempts + 1,
    }


def _step_started(state: State, event: Event, body: ev.StepStarted) -> None:
    step = _get_step(state, event, body.step)
    begun = {**_start_unit(step, event.head.at), "away_before": state.core.away_ms, "paused_ms": 0}
    if _retry_phase(state, step):
        # The time of a phase runs from its first attempt to the one that passes.
        begun |= {"started_at": step.started_at, "away_before": step.away_before}
    _put_step(state, replace(step, agent=body.agent or step.agent, **begun))
    _move_to_phase_of(state.core, step.id)


def _retry_phase(state: State, step: Step) -> bool:
    """Return whether a start follows a failed verdict; if so, make the verdict pending again."""
    if "checkpoint.failed" not in state.core.counts:
        return False
    row = state.rows.get("checkpoint", step.id)
    if not isinstance(row, Checkpoint) or row.verdict != "failed":
        return False
    blank: dict[str, Any] = {"evidence": {}, "issue": "", "because": "", "blob": "", "size": 0}
    _put_checkpoint(state, replace(row, verdict="pending", observed=False, **blank))
    return bool(step.started_at) and step.is_open


def _step_progressed(state: State, event: Event, body: ev.StepProgressed) -> None:
    step = _get_step(state, event, body.step)
    _put_step(state, replace(step, fraction=body.fraction))


def _step_moved(status: str) -> Callable[[State, Event, Any], None]:
    ends = status in ("done", "failed", "skipped")

    def handler(state: State, event: Event, body: Any) -> None:
        step = _get_step(state, event, body.step)
        changed = replace(
            step,
            status=status,
            because=getattr(body, "because", ""),
            ended_at=event.head.at if ends else 0,
            outcome=getattr(body, "outcome", step.outcome),
            files=getattr(body, "files", step.files),
        )
        if ends:
            changed = replace(changed, paused_ms=_paused_in(state.core, step, event.head.at))
        _put_step(state, changed)
        if status == "done":
            _leave_phase(state.core, step.id)

    return handler


def _leave_phase(core: Core, step: str) -> None:
    """Make the next open phase current after a completed one, unless the plan has gates."""
    number, last = core.phase_of(step), last_number(core.plan_base, core.plan_total)
    if number is None or number != core.phase or core.plan or last is None:
        return
    open_ = (n for n in range(number + 1, last + 1) if n not in core.phases_done)
    core.phase = next(open_, number)


def _paused_in(core: Core, step: Step, at: int) -> int:
    if not step.started_at:
        return 0
    running = at - core.paused_at if core.paused_at else 0
    return max(0, core.away_ms - step.away_before) + max(0, running)


def _step_reset(state: State, event: Event, body: ev.StepReset) -> None:
    _step_moved("pending")(state, event, body)
    step = _get_step(state, event, body.step)
    fresh = {"started_at": 0, "fraction": None, "away_before": 0, "paused_ms": 0}
    _put_step(state, replace(step, **fresh))


def _step_revisited(state: State, event: Event, body: ev.StepRevisited) -> None:
    step = _get_step(state, event, body.step)
    _put_step(state, replace(step, because=body.because))


def _verdict(word: str) -> Callable[[State, Event, Any], None]:
    def handler(state: State, event: Event, body: ev.Verdict) -> None:
        old = state.rows.get("checkpoint", body.step)
        before = old if isinstance(old, Checkpoint) else Checkpoint(step=body.step, verdict="")
        attempts = before.attempts + (word != "rolled_back")
        last = (word, event.head.at, (body.issue or body.because)[:_LINE])
        counted = {"attempts": attempts, "tries": [*before.tries, last][-TRIES:]}
        row = _new_row(Checkpoint, state, event, body, verdict=word, **counted)
        _put_checkpoint(state, row)

    return handler


def _put_checkpoint(state: State, row: Checkpoint) -> None:
    state.put("checkpoint", row)
    _update_verdict(state.core, row)


def _update_verdict(core: Core, row: Checkpoint) -> None:
    number = core.phase_of(row.step)
    if number is not None:
        core.phase_verdicts[number] = row.verdict


def _get_agent(state: State, event: Event, key: str) -> Agent:
    return state.agent(key) or Agent(rank=state.core.events, at=event.head.at, id=key)


def _agent_started(state: State, event: Event, body: ev.AgentStarted) -> None:
    agent = _get_agent(state, event, body.agent)
    planned = {"status": body.status, "attempts": agent.attempts, "is_planned": True}
    begun = planned if body.status else _start_unit(agent, event.head.at)
    same = {"id": agent.id, "rank": agent.rank, "tokens": agent.tokens}
    state.put("agent", _new_row(Agent, state, event, body, **same, **begun))


def _agent_progressed(state: State, event: Event, body: ev.AgentProgressed) -> None:
    agent = _get_agent(state, event, body.agent)
    names = ("fraction", "result", "created", "modified", "deleted")
    given = {name: value for name in names if (value := getattr(body, name)) not in (None, "", [])}
    state.put("agent", replace(agent, **given))


def _agent_finished(state: State, event: Event, body: ev.AgentFinished) -> None:
    agent = _get_agent(state, event, body.agent)
    ended = {"status": body.status or "done", "ended_at": event.head.at, "fraction": 1.0}
    files = {"created": body.created, "modified": body.modified, "deleted": body.deleted}
    done = replace(agent, result=body.result, error="", category="", **ended, **files)
    state.put("agent", done)


def _agent_ended(status: str) -> Callable[[State, Event, Any], None]:
    outcome = status.replace("_", " ")

    def handler(state: State, event: Event, body: Any) -> None:
        agent = _get_agent(state, event, body.agent)
        category = getattr(body, "category", "")
        ended: dict[str, Any] = {"status": status, "ended_at": event.head.at}
        if body.retries:
            ended["attempts"] = max(agent.attempts, body.retries + 1)
            ended["retried_at"] = body.retried_at or agent.retried_at
        state.put("agent", replace(agent, error=body.error, category=category, **ended))
        message = body.error or f"agent {body.agent} {outcome}"
        state.put("error", _new_row(Problem, state, event, body, message=message))

    return handler


def _agent_retried(state: State, event: Event, body: ev.AgentRetried) -> None:
    agent = _get_agent(state, event, body.agent)
    again = {"retried_at": event.head.at, "error": "", "category": ""}
    state.put("agent", replace(agent, **again, **_start_unit(agent, event.head.at)))


def _error(state: State, event: Event, body: ev.ErrorRaised) -> None:
    state.put("error", _new_row(Problem, state, event, body))


def _decision(state: State, event: Event, body: ev.DecisionMade) -> None:
    old = state.rows.get("decision", body.decision)
    choice = body.chosen or body.what
    # Options without a choice among them are still open: none of them was rejected.
    rejected = [o for o in body.options if o != choice] if choice in body.options else []
    chosen, options = body.chosen, list(body.options)
    if isinstance(old, Decision):
        # A choice stands until another is made: a further reason for it rejects nothing.
        is_choice = chosen or choice in options or choice.casefold() != old.what.casefold()
        if not is_choice:
            chosen, options = old.chosen, options or old.options
        earlier = [*old.rejected, *([old.chosen] if old.chosen != chosen else [])]
        made = (choice, *choice.split(BOTH))
        rejected += [o for o in filter(None, earlier) if o not in rejected and o not in made]
    made_of = {"options": options, "chosen": chosen, "rejected": rejected}
    state.put("decision", _new_row(Decision, state, event, body, id=body.decision, **made_of))


def _file(state: State, event: Event, body: ev.FileChanged) -> None:
    old = state.rows.get("file", body.path)
    first = old if isinstance(old, File) else File(path="", before=body.before)
    counted = {"changes": first.changes + 1, "before": first.before}
    state.put("file", _new_row(File, state, event, body, **counted))


def _artifact(state: State, event: Event, body: Any) -> None:
    old = state.rows.get("artifact", body.path)
    versions = 1 + (old.versions if isinstance(old, Artifact) else 0)
    state.put("artifact", _new_row(Artifact, state, event, body, versions=versions))


def _command(state: State, event: Event, body: ev.CommandRan) -> None:
    core = state.core
    core.count(f"command.{body.status}")
    line = _line(state, event, command_text(body, _LINE - 40))
    core.commands = _append_recent(core.commands, line)
    core.model = body.model or core.model


def command_text(body: ev.CommandRan, most: int) -> str:
    """Return a command as it is typed, at most `most` characters, and its status unless success."""
    text = f"{body.name} {body.arguments}".strip()
    mark = "" if body.status == "success" else f" [{body.status}] {body.error}".rstrip()
    return text[:most] + mark


def _measured(state: State, event: Event, body: ev.ContextMeasured) -> None:
    if not body.agent:
        state.core.tokens = body.tokens
        return
    agent = _get_agent(state, event, body.agent)
    state.core.agent_tokens += body.tokens - agent.tokens
    state.put("agent", replace(agent, tokens=body.tokens))


def _compressed(state: State, event: Event, body: ev.ContextCompressed) -> None:
    core = state.core
    core.compressions += 1
    core.compressed_at = event.head.at
    core.summary = body.summary[: _LINE * 4] or core.summary


def _note(state: State, event: Event, body: ev.NoteAdded) -> None:
    core = state.core
    core.count("notes")
    if body.for_next:
        state.put("note", _new_row(Note, state, event, body))
    else:
        core.notes = _append_recent(core.notes, _line(state, event, body.text))


def _message(state: State, event: Event, body: ev.MessageSent) -> None:
    core = state.core
    if body.role in ROLES:
        core.count(f"message.{body.role}")
    line = _line(state, event, body.text, _WORDS)
    if body.role == "user":
        core.asked = line
    elif body.role == "agent":
        core.said = line


def _deferred(state: State, event: Event, body: ev.ClaimDeferred) -> None:
    state.put("claim", _new_row(Claim, state, event, body, id=body.claim))


def _claim_closed(state: State, event: Event, body: Any) -> None:
    old = state.rows.get("claim", body.claim)
    claim = old if isinstance(old, Claim) else Claim(rank=state.core.events, id=body.claim, text="")
    result, because = getattr(body, "result", ""), getattr(body, "because", "")
    state.put("claim", replace(claim, resolved=True, result=result, because=because))


def _attribute(state: State, event: Event, body: ev.AttributeSet) -> None:
    core = state.core
    if body.key == "model" and isinstance(body.value, str):
        core.model = body.value
    elif body.key == "progress":
        is_number = isinstance(body.value, int | float) and not isinstance(body.value, bool)
        core.progress = float(min(1, max(0, body.value))) if is_number else None  # type: ignore[type-var,arg-type]
    elif body.key == "position" and isinstance(body.value, str):
        _move_to_phase_of(core, body.value)
    elif body.key == CHECKOUT and isinstance(body.value, str):
        branch, _, commit = body.value.rpartition(" ")
        if _COMMIT.fullmatch(commit):
            _check_out(core, event, branch, commit)
    state.put("attribute", _new_row(Attribute, state, event, body))


_COMMIT = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")


def _acknowledged(state: State, event: Event, body: ev.ContractAcknowledged) -> None:
    state.put("contract", _new_row(Acknowledgment, state, event, body))


def _edited(state: State, event: Event, body: ev.ForeignEdited) -> None:
    state.put("edit", _new_row(Edit, state, event, body))
    subject = f"{EDIT}{body.path}"
    if body.cause.startswith(CONFLICT):
        head = event.head
        sides = [(event.hash, head.device, head.n, f"{body.format}: {body.cause}")]
        state.put("dispute", _new_row(Dispute, state, event, body, subject=subject, sides=sides))
    elif body.cause == SETTLED and (old := state.open_dispute(subject)):
        state.put("dispute", replace(old, settled_by=event.hash))


def _observed(state: State, event: Event, body: ev.EvidenceObserved) -> None:
    key = proof_key(body.step, body.proof)
    again = not any(TOKEN in word for word in (*body.argv, *body.globs))
    state.put("proof", _new_row(Proof, state, event, body, id=key, again=again))


HANDLERS: dict[type[Body], Callable[[State, Event, Any], None]] = {
    ev.SessionStarted: _begun,
    ev.SessionAdopted: _begun,
    ev.SessionRenamed: _renamed,
    ev.SessionPaused: _paused,
    ev.SessionResumed: _resumed,
    ev.SessionCompleted: _ended("completed"),
    ev.SessionFailed: _ended("failed"),
    ev.SessionAborted: _ended("aborted"),
    ev.SessionAbandoned: _ended("abandoned"),
    ev.SessionReopened: _reopened,
    ev.SessionArchived: _archived,
    ev.SessionInterrupted: _interrupted,
    ev.SessionForgotten: _forgotten,
    ev.Erased: _erased,
    ev.Unknown: _unknown,
    ev.PlanSet: _plan_set,
    ev.PlanResolved: _plan_resolved,
    ev.StepAdded: _step_added,
    ev.StepStarted: _step_started,
    ev.StepProgressed: _step_progressed,
    ev.StepCompleted: _step_moved("done"),
    ev.StepFailed: _step_moved("failed"),
    ev.StepBlocked: _step_moved("blocked"),
    ev.StepUnblocked: _step_moved("pending"),
    ev.StepSkipped: _step_moved("skipped"),
    ev.StepNeedsReview: _step_moved("needs_review"),
    ev.StepRevisited: _step_revisited,
    ev.StepReset: _step_reset,
    ev.CheckpointPassed: _verdict("passed"),
    ev.CheckpointFailed: _verdict("failed"),
    ev.CheckpointOverridden: _verdict("overridden"),
    ev.CheckpointRolledBack: _verdict("rolled_back"),
    ev.AgentStarted: _agent_started,
    ev.AgentProgressed: _agent_progressed,
    ev.AgentFinished: _agent_finished,
    ev.AgentFailed: _agent_ended("failed"),
    ev.AgentTimedOut: _agent_ended("timed_out"),
    ev.AgentRetried: _agent_retried,
    ev.DecisionMade: _decision,
    ev.FileChanged: _file,
    ev.ArtifactSaved: _artifact,
    ev.ArtifactVersioned: _artifact,
    ev.CommandRan: _command,
    ev.ContextMeasured: _measured,
    ev.ContextCompressed: _compressed,
    ev.ErrorRaised: _error,
    ev.NoteAdded: _note,
    ev.ClaimDeferred: _deferred,
    ev.ClaimResolved: _claim_closed,
    ev.ClaimOverridden: _claim_closed,
    ev.AttributeSet: _attribute,
    ev.ContractAcknowledged: _acknowledged,
    ev.ForeignEdited: _edited,
    ev.EvidenceObserved: _observed,
    ev.MessageSent: _message,
}
