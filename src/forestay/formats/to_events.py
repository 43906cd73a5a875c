"""Translate facts into events for the journal.

`moves` returns the events that lead from the facts a file had before to those it has now, each with
its time if the file has it. Adopting a file is the same, starting from no facts. Values that
depend on the machine (paths of the project, device names) cause no event.

Steps are found by their id, else by their title (`match_steps`): formats that list plain sentences
have no ids.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from forestay.base.hashing import digest_of
from forestay.base.text import short_name
from forestay.base.vocabulary import CATEGORIES, FINISHED, MODES, PAUSE_REASONS
from forestay.formats.diff import both, pair
from forestay.formats.facts import (
    AgentFact,
    ClaimFact,
    DecisionFact,
    ErrorFact,
    Facts,
    StepFact,
    alike,
    join_choice,
    new_revisits,
    split_choice,
)
from forestay.formats.from_state import rows
from forestay.model import event as ev
from forestay.model import state as st
from forestay.model.event import Body

_Any = TypeVar("_Any")
_Body = TypeVar("_Body", bound=Body)
_MAX_COMPARED = 16


class Move(Struct, frozen=True):
    """An event to record, and the time at which it happened if that is known."""

    body: Body
    at: int | None = None


def _event_from(kind: type[_Body], by: Struct, **other: Any) -> _Body:
    """Return an event with the fields of the same names in a fact, and the `other` fields."""
    names = (n for n in kind.__struct_fields__ if n not in other and hasattr(by, n))
    return kind(**{name: getattr(by, name) for name in names}, **other)


def adoption_moves(facts: Facts, origin: str) -> list[Move]:
    """Return the first events of a session that was found in files, in the order of their times."""
    began, name = facts.began_at, facts.native_id.removeprefix(f"{origin}-")
    first = _event_from(
        ev.SessionAdopted,
        facts,
        goal=facts.goal or f"{origin} {name}".strip(),
        origin=origin,
        mode=facts.mode if facts.mode in MODES else "default",
        status="created" if facts.status == "created" else "active",
    )
    blank = Facts(goal=facts.goal, mode=facts.mode, native_id=facts.native_id, status=first.status)
    return [Move(first, began), *moves(blank, facts)]


def moves(base: Facts, new: Facts) -> list[Move]:
    """Return the events that happened between two readings of the same files."""
    steps = match_steps(base.steps, new.steps)
    made = [
        *_description_moves(base, new),
        *_plan_moves(base, new),
        # Rollbacks come before the steps: a step that starts again must not count as a second
        # attempt.
        *(Move(ev.CheckpointRolledBack(step=step)) for step in _withdrawn_verdicts(base, new)),
        *_step_moves(steps),
        *_agent_moves(base, new),
        *_verdict_moves(base, new),
        *_decision_moves(base, new),
        *_log_moves(base, new),
        *_claim_moves(base, new),
        *_context_moves(base, new),
        *_attribute_moves(base, new),
        *_missed_pause_moves(base, new),
    ]
    # Within each part the order is known; between parts only times decide. Position and model
    # come last, because they override the step started last and the model of the last command.
    return [*_sort_by_time(made), *_position_moves(base, new), *_status_moves(base, new)]


def _position_moves(base: Facts, new: Facts) -> Iterator[Move]:
    commands = _new_entries(base.commands, new.commands)
    others = [command for command in commands if command.model not in ("", new.model)]
    if new.model and (new.model != base.model or others):
        yield Move(ev.AttributeSet(key="model", value=new.model))
    ran, runs = ({s.id for s in f.steps if s.status == "running"} for f in (base, new))
    # A new plan starts at its first phase, so the position has to be recorded again, as it has to
    # be if another step started.
    begins = base.workflow and new.workflow and new.workflow != base.workflow
    moved = begins or new.position != base.position or runs - ran - {new.position}
    # Record even an empty position; otherwise one would be inferred from the running steps.
    cleared = not new.position and (base.position or (runs and not base.steps))
    if (new.position and moved) or cleared:
        yield Move(ev.AttributeSet(key="position", value=new.position or None))


def _sort_by_time(made: list[Move]) -> list[Move]:
    latest = 0
    keyed = []
    for place, move in enumerate(made):
        latest = latest if move.at is None else move.at
        keyed.append((latest, place, move))
    return [move for _, _, move in sorted(keyed, key=lambda item: item[:2])]


def _description_moves(base: Facts, new: Facts) -> Iterator[Move]:
    if new.goal != base.goal and new.goal.strip():
        yield Move(ev.SessionRenamed(goal=new.goal))
    if new.mode != base.mode and new.mode:
        yield Move(ev.AttributeSet(key="mode", value=new.mode))
    if new.progress != base.progress:
        yield Move(ev.AttributeSet(key="progress", value=new.progress))


def _plan_moves(base: Facts, new: Facts) -> Iterator[Move]:
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
    base: Sequence[StepFact], new: Sequence[StepFact], listed: Sequence[StepFact] | None = None
) -> list[tuple[StepFact | None, StepFact]]:
    """Pair each new step with its earlier version, or None.

    A step is found by its id, else by its title among those that are `listed` by title (by default
    all of `base`). A step without an id gets that of its earlier version, or one made of its title.
    """
    by_id = {step.id: step for step in base if step.id}
    by_title: dict[str, list[StepFact]] = {}
    for step in base if listed is None else listed:
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
            id = name = step_id(step.title)
            while id in taken:
                last[name] = last.get(name, 1) + 1
                id = f"{name}-{last[name]}"
            step = replace(step, id=id)
            taken.add(id)
        pairs.append((old, step))
    return pairs


def step_id(title: str) -> str:
    """Return a readable id for a step that has only a title; the same title gives the same id."""
    slug = re.sub(r"[^a-z0-9]+", "-", title.lower())[:24].strip("-")
    return slug or f"t-{digest_of(title.encode())[:8]}"


def _step_moves(pairs: Sequence[tuple[StepFact | None, StepFact]]) -> Iterator[Move]:
    for old, step in pairs:
        if old is None or (old.title, old.unit, old.parent) != (step.title, step.unit, step.parent):
            body = _event_from(ev.StepAdded, step, step=step.id, title=step.title or step.id)
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
    "pending": lambda a: _event_from(ev.AgentStarted, a, agent=a.id),
    "blocked": lambda a: _event_from(ev.AgentStarted, a, agent=a.id),
    "running": lambda a: _event_from(ev.AgentStarted, a, agent=a.id, status=""),
    "needs_review": lambda a: _event_from(ev.AgentStarted, a, agent=a.id, status=""),
    "done": lambda a: _event_from(ev.AgentFinished, a, agent=a.id, status=""),
    "skipped": lambda a: _event_from(ev.AgentFinished, a, agent=a.id),
    "failed": lambda a: _event_from(
        ev.AgentFailed, a, agent=a.id, category=category_of(a.category)
    ),
    "timed_out": lambda a: _event_from(ev.AgentTimedOut, a, agent=a.id),
}
_ENDS = ("done", "skipped", "failed", "timed_out")
_END_FIELDS = (
    *("outcome", "result", "files", "created", "modified", "deleted", "because"),
    *("error", "category", "retries", "retried_at"),
)


def _unit_moves(old: Any, new: Any, events: dict[str, _Maker]) -> Iterator[Move]:
    """Yield the start of a step or agent if it is new, and then its new status or its new end."""
    was = old.status if old is not None else "pending"
    began = new.started_at is not None and new.started_at != (old and old.started_at)
    if began and new.status not in ("pending", "running"):
        yield Move(events["running"](new), new.started_at)
    ended_again = False
    if new.status == was and new.status in _ENDS:
        # An end time that is missing on one side is not a difference.
        ended_again = new.ended_at not in (None, old.ended_at) or any(
            getattr(old, name, None) != getattr(new, name, None) for name in _END_FIELDS
        )
    if new.status != was or (began and was != "pending") or ended_again:
        ended = new.started_at if new.status == "running" else new.ended_at
        # Moves are sorted by time, and an end must not come before its start.
        ended = ended and max(ended, new.started_at or ended)
        yield Move(events[new.status](new), ended)


def category_of(word: str) -> str:
    """Return the category with which an error is recorded, for the word in a file."""
    return word if word in CATEGORIES else "logical"


def _agent_moves(base: Facts, new: Facts) -> Iterator[Move]:
    known = {agent.id: agent for agent in base.agents}
    for agent in new.agents:
        old = known.get(agent.id)
        if old is None and agent.status in ("pending", "blocked"):
            yield Move(_AGENT_EVENTS[agent.status](agent))
        else:
            if old is None and agent.started_at is None:
                # The file has an end without a start; a run needs both.
                yield Move(_AGENT_EVENTS["running"](agent), agent.ended_at)
            again = list(_unit_moves(old, agent, _AGENT_EVENTS))
            yield from again
            if any(isinstance(move.body, ev.AgentStarted) for move in again):
                old = None  # the new run has no progress yet
        was = old or AgentFact(agent.id)
        values = ((name, getattr(agent, name)) for name in _PROGRESS)
        changed = {name: value for name, value in values if value != getattr(was, name)}
        is_open = agent.status not in st.CLOSED_UNITS
        if is_open and any(value not in (None, "", []) for value in changed.values()):
            yield Move(ev.AgentProgressed(agent=agent.id, **changed))


_PROGRESS = ("fraction", "result", "created", "modified", "deleted")


def _verdict_moves(base: Facts, new: Facts) -> Iterator[Move]:
    gone = _withdrawn_verdicts(base, new)
    known = {c.step: c for c in base.checkpoints if c.step not in gone}
    kinds: dict[str, type[ev.Verdict]] = {
        "passed": ev.CheckpointPassed,
        "failed": ev.CheckpointFailed,
        "skipped": ev.CheckpointOverridden,
        "pending": ev.CheckpointRolledBack,
    }
    for check in new.checkpoints:
        old = known.get(check.step)
        if check.verdict not in kinds or (old is None and check.verdict == "pending"):
            continue
        # A later failure belongs to another attempt.
        failed_at = check.at or 0 if check.verdict == "failed" else 0
        if (
            old is None
            or failed_at > (old.at or failed_at)
            or (old.verdict, old.evidence) != (check.verdict, check.evidence)
        ):
            body = kinds[check.verdict](step=check.step, evidence=check.evidence, issue=check.issue)
            yield Move(body, check.at)


def _withdrawn_verdicts(base: Facts, new: Facts) -> list[str]:
    """Return the ids of steps whose verdict no longer holds.

    Such a step had a verdict, and now it started again or is open without a verdict.
    """
    judged = {check.step for check in new.checkpoints}
    began = {step.id: step.started_at for step in base.steps}
    again = {
        s.id for s in new.steps if s.started_at is not None and s.started_at != began.get(s.id)
    }
    open_ = {step.id for step in new.steps if step.status in ("pending", "running")}
    judged_before = (check.step for check in base.checkpoints if check.verdict != "pending")
    return [step for step in judged_before if step in again or step in open_ - judged]


def _decision_moves(base: Facts, new: Facts) -> Iterator[Move]:
    for old, decision in _pair_decisions(base.decisions, new.decisions):
        is_choice = not decision.options or decision.chosen in decision.options
        body = ev.DecisionMade(
            decision=short_name((old or decision).what),
            what=decision.what or decision.chosen or "a decision",
            because=decision.because,
            options=decision.options,
            chosen=decision.chosen if is_choice else "",
        )
        yield Move(body, decision.at)


def _pair_decisions(
    base: Sequence[DecisionFact], new: Sequence[DecisionFact]
) -> list[tuple[DecisionFact | None, DecisionFact]]:
    """Pair each new or changed decision with its earlier version, or None.

    Two decisions are the same if their words are equal, or if they have the same time and some
    common words. The time alone is not enough: several can be made in one second, and one can be
    added while another is removed.
    """
    known = pair(base, new, both(_log_key))
    rest: dict[object, list[DecisionFact]] = {}
    for at, decision in enumerate(base):
        if at not in known:
            rest.setdefault(_identity(decision), []).append(decision)
    pairs = ((rest.get(_identity(decision), []), decision) for decision in _new_entries(base, new))
    return [(_pop_most_similar(same, decision), decision) for same, decision in pairs]


def _pop_most_similar(same: list[DecisionFact], decision: DecisionFact) -> DecisionFact | None:
    """Remove the decision with the most similar words from `same` and return it, or None."""
    nearest = max(
        same[:_MAX_COMPARED], key=lambda old: alike(old.what, decision.what), default=None
    )
    if nearest is None or not alike(nearest.what, decision.what):
        return None
    same.remove(nearest)
    return nearest


def reworded(base: Sequence[DecisionFact], new: Sequence[DecisionFact]) -> dict[str, str]:
    """Return the old words of each reworded decision with its new words."""
    return {
        old.what: now.what
        for old, now in _pair_decisions(base, new)
        if old and old.what != now.what
    }


def _identity(decision: DecisionFact) -> object:
    return decision.what if decision.at is None else decision.at


def _new_entries(base: Sequence[_Any], new: Sequence[_Any]) -> list[_Any]:
    """Return the entries that were added to a log.

    A missing entry is ignored, because logs only grow. An entry that only lost its time is not new.
    """

    def without_time(entry: Any) -> Hashable:
        return _log_key(entry) if entry.at is None else None

    lost_time = (lambda entry: _log_key(replace(entry, at=None)), without_time)
    known = set(pair(base, new, [*both(_log_key), lost_time]).values())
    return [entry for at, entry in enumerate(new) if at not in known]


def _log_key(entry: Any) -> Hashable:
    return tuple(
        tuple(v) if isinstance(v, list) else v
        for v in (getattr(entry, name) for name in entry.__struct_fields__)
    )


def _new_errors(base: Facts, new: Facts) -> list[ErrorFact]:
    """Return the errors that were added.

    If a failed agent later succeeds or fails again, its earlier error moves from the agent to the
    list of errors: that is not a new error.
    """
    still = {(a.id, a.error, a.ended_at) for a in new.agents}
    failed = (a for a in base.agents if a.error and (a.id, a.error, a.ended_at) not in still)
    former = Counter((a.id, a.error) for a in failed)
    gained: list[ErrorFact] = []
    for error in _new_entries(base.errors, new.errors):
        key = (error.agent, error.message)
        if former[key]:
            former[key] -= 1
        else:
            gained.append(error)
    return gained


def _log_moves(base: Facts, new: Facts) -> Iterator[Move]:
    for f in _new_entries(base.files, new.files):
        yield Move(_event_from(ev.FileChanged, f), f.at)
    for c in _new_entries(base.commands, new.commands):
        yield Move(_event_from(ev.CommandRan, c, name=c.name or "command"), c.at)
    for e in _new_errors(base, new):
        yield Move(_event_from(ev.ErrorRaised, e, category=category_of(e.category)), e.at)
    for n in _new_entries(base.notes, new.notes):
        yield Move(ev.NoteAdded(text=n.text), n.at)
    for r in new_revisits(base.revisits, new.revisits):
        yield Move(_event_from(ev.StepRevisited, r), r.at)


def _claim_moves(base: Facts, new: Facts) -> Iterator[Move]:
    known = _group_by_text(base.claims, lambda claim: claim.text)
    for id, old, claim in _pair_claims(known, new.claims):
        if old is None:
            deferred = _event_from(
                ev.ClaimDeferred, claim, claim=id, reason=claim.reason or "unknown"
            )
            yield Move(deferred, claim.at)
        if claim.result and claim.result != (old and old.result):
            because = claim.because or "no reason given"
            yield Move(_event_from(ev.ClaimOverridden, claim, claim=id, because=because), claim.at)
        elif claim.resolved and not (old and old.resolved):
            yield Move(ev.ClaimResolved(claim=id))


def _group_by_text(rows: Iterable[_Any], words: Callable[[_Any], str]) -> dict[str, list[_Any]]:
    found: dict[str, list[_Any]] = {}
    for row in rows:
        found.setdefault(words(row), []).append(row)
    return found


def _pair_claims(
    known: Mapping[str, list[ClaimFact]], claims: Sequence[ClaimFact]
) -> Iterator[tuple[str, ClaimFact | None, ClaimFact]]:
    """Yield each claim with its name and its earlier version, or None.

    A claim with equal words at another place in the text is another claim, unless only one claim
    had these words: a claim can get its place later.
    """
    left: dict[object, deque[tuple[int, ClaimFact]]] = {}
    for text, same in known.items():
        for number, old in enumerate(same, 1):
            place = _claim_place(old) if len(same) > 1 else text
            left.setdefault(place, deque()).append((number, old))
    count = {text: len(same) for text, same in known.items()}
    for claim in claims:
        same_place = left.get(_claim_place(claim)) or left.get(claim.text)
        number, was = same_place.popleft() if same_place else (0, None)
        if was is None:
            number = count[claim.text] = count.get(claim.text, 0) + 1
        yield _numbered(short_name(claim.text), number), was, claim


def _claim_place(claim: ClaimFact) -> object:
    return claim.text, claim.section, claim.paragraph


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"


def with_journal_names(made: list[Move], state: st.State) -> list[Move]:
    """Return the moves with the journal's ids of decisions and claims, which no format has."""
    decided = rows(state, "decision", st.Decision)
    chosen = {short_name(join_choice(row.what, row.chosen)): row for row in decided if row.chosen}
    decisions = {short_name(row.what): row.id for row in decided}
    same_text = _group_by_text(rows(state, "claim", st.Claim), lambda row: row.text)
    claims = {
        _numbered(short_name(text), number): row.id
        for text, rows in same_text.items()
        for number, row in enumerate(rows, 1)
    }
    named: list[Move] = []
    for move in made:
        body, at = move.body, move.at
        if isinstance(body, ev.DecisionMade):
            if not body.chosen and body.decision in chosen:
                body = _split_choice(body, chosen[body.decision])
            if at is not None and not at % 1000:
                # A file can have whole seconds only; the journal has the exact time.
                same = (r for r in decided if body.decision in (r.id, short_name(r.what)))
                at = next((row.at for row in same if row.at // 1000 == at // 1000), at)
            body = replace(body, decision=decisions.get(body.decision, body.decision))
        elif isinstance(body, ev.ClaimDeferred | ev.ClaimOverridden | ev.ClaimResolved):
            body = replace(body, claim=claims.get(body.claim, body.claim))
        named.append(Move(body, at))
    return named


def _split_choice(body: ev.DecisionMade, row: st.Decision) -> ev.DecisionMade:
    """Split the choice from a decision that the file states as one text."""
    split = split_choice(DecisionFact(body.what, options=row.options, chosen=row.chosen))
    more = {name: getattr(split, name) for name in ("what", "options", "chosen")}
    return replace(body, decision=row.id, **(more if split.what != body.what else {}))


def _context_moves(base: Facts, new: Facts) -> Iterator[Move]:
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


def _attribute_moves(base: Facts, new: Facts) -> Iterator[Move]:
    for key in (*new.attributes, *(k for k in base.attributes if k not in new.attributes)):
        value = new.attributes.get(key)
        if value != base.attributes.get(key):
            yield Move(ev.AttributeSet(key=key, value=value))


def _status_moves(base: Facts, new: Facts) -> Iterator[Move]:
    if new.status == base.status in ("paused", "failed") and _was_resumed_between(base, new):
        yield Move(ev.SessionResumed(), new.resumed_at)
        base = replace(base, status="active")
    if new.status == base.status:
        return
    if base.status in FINISHED and new.status not in FINISHED:
        yield Move(ev.SessionReopened(because="its files state that it is active again"))
    makers: dict[str, Callable[[], Body]] = {
        "paused": lambda: _pause(new),
        "completed": lambda: ev.SessionCompleted(because=new.because),
        "failed": lambda: ev.SessionFailed(because=new.because),
        "aborted": lambda: ev.SessionAborted(because=new.because),
        "abandoned": lambda: ev.SessionAbandoned(because=new.because),
        "active": ev.SessionResumed,
    }
    if new.status == "active" and base.status in FINISHED:
        return
    if new.status in makers:
        field = {"paused": "paused_at", "active": "resumed_at"}.get(new.status, "ended_at")
        yield Move(
            makers[new.status](),
            _changed_time(base, new, field) or _changed_time(base, new, "updated_at"),
        )


def _missed_pause_moves(base: Facts, new: Facts) -> Iterator[Move]:
    """Yield a pause that began and ended between two readings, if the files state its times."""
    since, resumed, paused = base.resumed_at or 0, new.resumed_at or 0, new.paused_at or 0
    if base.status != "active" or resumed <= since:
        return
    if since < paused <= resumed:
        yield Move(_pause(new), paused)
    yield Move(ev.SessionResumed(), resumed)


def is_resumed(made: Iterable[Move]) -> bool:
    """Return whether some moves resume the session."""
    return any(isinstance(move.body, ev.SessionResumed) for move in made)


def _pause(new: Facts) -> ev.SessionPaused:
    known = new.pause_reason in PAUSE_REASONS
    reason = new.pause_reason if known else "user_request"
    return ev.SessionPaused(reason=reason, context=new.pause_context)


def _was_resumed_between(base: Facts, new: Facts) -> bool:
    """Return whether a session was resumed and stopped again between two readings."""
    if base.paused_at is None or new.resumed_at is None or new.paused_at is None:
        return False
    return base.paused_at <= new.resumed_at <= new.paused_at != base.paused_at


def _changed_time(base: Facts, new: Facts, field: str) -> int | None:
    """Return the time in a field if it changed, else None."""
    at: int | None = getattr(new, field)
    return at if at != getattr(base, field) else None
