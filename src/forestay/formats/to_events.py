"""From facts to the journal: the events that facts ask for.

`moves` is what it takes to get from the facts that a file once held to those it holds now, as
events with the time they happened where the file tells it. Adopting a file is the same with nothing
before it. What is true of one machine only (paths of the project, device names) makes no event.

Steps are found by their id, else by their title (`match_steps`): layouts that keep bare sentences
have no ids.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from forestay.base.hashing import digest_of
from forestay.base.text import short_name
from forestay.base.vocabulary import CATEGORIES, FINISHED, MODES, PAUSE_REASONS
from forestay.formats.facts import (
    AgentFact,
    CheckpointFact,
    ClaimFact,
    DecisionFact,
    ErrorFact,
    Facts,
    StepFact,
    alike,
    in_one_text,
    in_parts,
    new_revisits,
)
from forestay.formats.from_state import rows
from forestay.model import event as ev
from forestay.model import state as st
from forestay.model.event import Body

_Any = TypeVar("_Any")
_Body = TypeVar("_Body", bound=Body)
_FEW = 16


class Move(Struct, frozen=True):
    """An event to record, and when it happened if that is known."""

    body: Body
    at: int | None = None


def _told(kind: type[_Body], by: Struct, **other: Any) -> _Body:
    """The event that a fact tells: it has the same names for it, but for some."""
    names = (n for n in kind.__struct_fields__ if n not in other and hasattr(by, n))
    return kind(**{name: getattr(by, name) for name in names}, **other)


def adoption(facts: Facts, origin: str) -> list[Move]:
    """The events that a session found in files begins with, in the order they happened."""
    began, name = facts.began_at, facts.native_id.removeprefix(f"{origin}-")
    first = _told(
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
    """What happened between two readings of the same files."""
    steps = match_steps(base.steps, new.steps)
    made = [
        *_described(base, new),
        *_planned(base, new),
        # First: what is begun after that is no second attempt, which would count from the first.
        *(Move(ev.CheckpointRolledBack(step=step)) for step in _taken_back(base, new)),
        *_step_moves(steps),
        *_agent_moves(base, new),
        *_verdicts(base, new),
        *_decided(base, new),
        *_logged(base, new),
        *_claimed(base, new),
        *_measured(base, new),
        *_attributes(base, new),
        *_paused_meanwhile(base, new),
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
    moved = begins or new.position != base.position or _left_there(base, new)
    if (new.position and moved) or _left_alone(base, new):
        yield Move(ev.AttributeSet(key="position", value=new.position or None))


def _left_there(base: Facts, new: Facts) -> bool:
    """Whether other steps began and the files still say where the work is."""
    ran = {step.id for step in base.steps if step.status == "running"}
    runs = {step.id for step in new.steps if step.status == "running"}
    return bool(runs - ran - {new.position})


def _left_alone(base: Facts, new: Facts) -> bool:
    """Whether the files say that nothing is worked on, where it would seem otherwise."""
    begun = any(step.status == "running" for step in new.steps)
    return not new.position and bool(base.position or (begun and not base.steps))


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
    base: Sequence[StepFact], new: Sequence[StepFact], listed: Sequence[StepFact] | None = None
) -> list[tuple[StepFact | None, StepFact]]:
    """Each new step with the one it was: by id, else by its title among those that are `listed` by
    their titles.

    Steps without an id get one: that of the step they were, or one made from their title.
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
            body = _told(ev.StepAdded, step, step=step.id, title=step.title or step.id)
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
    "failed": lambda a: _told(ev.AgentFailed, a, agent=a.id, category=category_of(a.category)),
    "timed_out": lambda a: _told(ev.AgentTimedOut, a, agent=a.id),
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
    gone = _taken_back(base, new)
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
        if old is None or _is_other(old, check):
            body = kinds[check.verdict](step=check.step, evidence=check.evidence, issue=check.issue)
            yield Move(body, check.at)


def _is_other(old: CheckpointFact, check: CheckpointFact) -> bool:
    """Whether a verdict is another one; a failed one that came later is of another attempt."""
    later = check.verdict == "failed" and (check.at or 0) > (old.at or check.at or 0)
    return later or (old.verdict, old.evidence) != (check.verdict, check.evidence)


def _taken_back(base: Facts, new: Facts) -> list[str]:
    """The steps with a verdict that were begun anew, or of which nothing is said any more while
    they are open."""
    judged = {check.step for check in new.checkpoints}
    began = {step.id: step.started_at for step in base.steps}
    again = {
        s.id for s in new.steps if s.started_at is not None and s.started_at != began.get(s.id)
    }
    open_ = {step.id for step in new.steps if step.status in ("pending", "running")}
    said = (check.step for check in base.checkpoints if check.verdict != "pending")
    return [step for step in said if step in again or step in open_ - judged]


def _decided(base: Facts, new: Facts) -> Iterator[Move]:
    for old, decision in _paired(base.decisions, new.decisions):
        is_choice = not decision.options or decision.chosen in decision.options
        body = ev.DecisionMade(
            decision=short_name((old or decision).what),
            what=decision.what or decision.chosen or "a decision",
            because=decision.because,
            options=decision.options,
            chosen=decision.chosen if is_choice else "",
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
    """Those that the session has gained. The error of an agent that ended well after all, or failed
    once more, stays where it is told, but is no agent's any more: it is not another one."""
    still = {(a.id, a.error, a.ended_at) for a in new.agents}
    failed = (a for a in base.agents if a.error and (a.id, a.error, a.ended_at) not in still)
    let_go = Counter((a.id, a.error) for a in failed)
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
        yield Move(_told(ev.FileChanged, f), f.at)
    for c in _new_of(base.commands, new.commands):
        yield Move(_told(ev.CommandRan, c, name=c.name or "command"), c.at)
    for e in _new_errors(base, new):
        yield Move(_told(ev.ErrorRaised, e, category=category_of(e.category)), e.at)
    for n in _new_of(base.notes, new.notes):
        yield Move(ev.NoteAdded(text=n.text), n.at)
    for r in new_revisits(base.revisits, new.revisits):
        yield Move(_told(ev.StepRevisited, r), r.at)


def _claimed(base: Facts, new: Facts) -> Iterator[Move]:
    known = _by_words(base.claims, lambda claim: claim.text)
    for id, old, claim in _same_claims(known, new.claims):
        if old is None:
            deferred = _told(ev.ClaimDeferred, claim, claim=id, reason=claim.reason or "unknown")
            yield Move(deferred, claim.at)
        if claim.result and claim.result != (old and old.result):
            because = claim.because or "no reason given"
            yield Move(_told(ev.ClaimOverridden, claim, claim=id, because=because), claim.at)
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
    decided = rows(state, "decision", st.Decision)
    chosen = {short_name(in_one_text(row.what, row.chosen)): row for row in decided if row.chosen}
    made = [_in_parts(move, chosen) for move in made]
    made = [_to_the_moment(move, decided) for move in made]
    decisions = {short_name(row.what): row.id for row in decided}
    said = _by_words(rows(state, "claim", st.Claim), lambda row: row.text)
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


def _to_the_moment(move: Move, known: Iterable[st.Decision]) -> Move:
    """A decision that is told in other words, with its time as the journal has it: a file may keep
    whole seconds."""
    body, at = move.body, move.at
    if not isinstance(body, ev.DecisionMade) or at is None or at % 1000:
        return move
    same = (row for row in known if body.decision in (row.id, short_name(row.what)))
    times = (row.at for row in same if row.at // 1000 == at // 1000)
    return replace(move, at=next(times, at))


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
    if new.status == base.status in ("paused", "failed") and _went_on(base, new):
        yield Move(ev.SessionResumed(), new.resumed_at)
        base = replace(base, status="active")
    if new.status == base.status:
        return
    if base.status in FINISHED and new.status not in FINISHED:
        yield Move(ev.SessionReopened(because="its files say that it goes on"))
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
        told = {"paused": "paused_at", "active": "resumed_at"}.get(new.status, "ended_at")
        yield Move(makers[new.status](), _news(base, new, told) or _news(base, new, "updated_at"))


def _paused_meanwhile(base: Facts, new: Facts) -> Iterator[Move]:
    """A pause that began and ended between two readings: the files may tell of the last one."""
    since, resumed, paused = base.resumed_at or 0, new.resumed_at or 0, new.paused_at or 0
    if base.status != "active" or resumed <= since:
        return
    if since < paused <= resumed:
        yield Move(_pause(new), paused)
    yield Move(ev.SessionResumed(), resumed)


def is_resumed(made: Iterable[Move]) -> bool:
    """Whether some moves tell that the session went on."""
    return any(isinstance(move.body, ev.SessionResumed) for move in made)


def _pause(new: Facts) -> ev.SessionPaused:
    known = new.pause_reason in PAUSE_REASONS
    reason = new.pause_reason if known else "user_request"
    return ev.SessionPaused(reason=reason, context=new.pause_context)


def _went_on(base: Facts, new: Facts) -> bool:
    """Whether a session was resumed and stopped again since it had stopped."""
    if base.paused_at is None or new.resumed_at is None or new.paused_at is None:
        return False
    return base.paused_at <= new.resumed_at <= new.paused_at != base.paused_at


def _news(base: Facts, new: Facts, field: str) -> int | None:
    """The time in a field, if it is another than it was."""
    at: int | None = getattr(new, field)
    return at if at != getattr(base, field) else None
