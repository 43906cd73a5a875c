"""Summary: the status of a session and its next step, in a few words.

Every interface shows three answers that are found here: how far the session is (`progress`), what
to do next (`next_step`), and what needs attention (`attention`). `summary` puts the answers into
a small value that the catalogue stores with each session, so that a list of sessions needs no
fold. It is computed again with every event: each question reads the counts first, and selects
rows only if the counts show that there are some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from forestay.base.hashing import digest_of
from forestay.base.vocabulary import ESSAY, FINISHED, WAIT
from forestay.model.state import CONFLICT, EDIT, Agent, Checkpoint, Dispute, State, Step

FAILED = ("failed", "timed_out")
FILE, JOURNAL = "the file", "the journal"
"""The sides of a dispute between a format file and the journal."""

_FEW, _MANY = 3, 200
"""How many open rows are read first, and how many at most, to find one in a given status."""

_TEXT_BYTES = 160
_RUNNING = 5
_AVERAGED = 50
_TOOK = 8


# -- progress ----------------------------------------------------------------------------------


def progress(state: State) -> tuple[float, str]:
    """Return how far the work is, from 0 to 1, and where the figure comes from."""
    return _progress(state, None)


def _progress(state: State, open_agents: list[Agent] | None) -> tuple[float, str]:
    core = state.core
    if core.progress is not None:
        return core.progress, "given"
    if core.is_phased and core.plan_total:
        return min(1.0, len(core.phases_done) / core.plan_total), "phases"
    # While the end of a plan is not known, its present steps are no measure.
    if not core.is_phased and (steps := state.tasks()):
        return settled_steps(state) / steps, "steps"
    if not core.is_phased and state.count("agent"):
        agents, finished = state.count("agent"), state.count("agent.done")
        rows = _open_agents(state) if open_agents is None else open_agents
        # The agents whose rows were not read are assumed to be like these.
        mean = sum(agent.fraction or 0.0 for agent in rows) / len(rows) if rows else 0.0
        return min(1.0, max(0.0, (finished + mean * (agents - finished)) / agents)), "agents"
    return (1.0, "completed") if core.status == "completed" else (0.0, "none")


def settled_steps(state: State) -> int:
    """Return the number of steps that are done, or skipped on purpose."""
    return state.tasks("done") + state.tasks("skipped")


def _open_agents(state: State) -> list[Agent]:
    if state.count("agent") == state.count("agent.done"):
        return []  # all are finished, or there is none
    rows = state.rows.select("agent", open_only=True, newest=True, limit=_AVERAGED)
    return [row for row in rows if isinstance(row, Agent)]


# -- the next step -----------------------------------------------------------------------------


def next_step(state: State) -> str:
    """Return what to do next, by the first rule that applies."""
    for rule in _NEXT:
        if found := rule(state):
            return found
    return "decide what to do next"


def _next_without_work(state: State) -> str:
    core = state.core
    if core.forgotten:
        return "nothing: the session was forgotten"
    if core.needs:
        return f"upgrade Forestay to {core.needs} or newer; here the session can only be read"
    if not core.status:
        return "start the session"
    return ""


def _next_dispute(state: State) -> str:
    if "dispute.open" not in state.core.counts:
        return ""
    rows = state.rows.select("dispute", open_only=True, limit=1)
    first = rows[0] if rows else None
    if not isinstance(first, Dispute):
        return "settle what is disputed"
    return f"settle {subject(first)}: {' or '.join(outcomes(first))}?"


def subject(dispute: Dispute) -> str:
    """Return the subject of a dispute for people: `task s3`, `the session`, `goal in the craft
    file`."""
    kind, _, name = dispute.subject.partition(":")
    if dispute.subject.startswith(EDIT):
        format_id, _, cause = dispute.sides[0][3].partition(f": {CONFLICT}")
        return f"{cause.partition(';')[0]} in the {format_id} file"
    kind = "task" if kind == "step" else kind
    return f"{kind} {name}" if name else f"the {kind}"


def outcomes(dispute: Dispute) -> list[str]:
    """Return the different outcomes stated, in a fixed order."""
    if dispute.subject.startswith(EDIT):
        return [FILE, JOURNAL]
    return sorted({plain_outcome(outcome) for _, _, _, outcome in dispute.sides})


def plain_outcome(word: str) -> str:
    """Return an outcome in words for users; a digest is cut to its beginning."""
    is_digest = len(word) == _DIGEST and word.isalnum()
    return f"{word[:_SHOWN]}…" if is_digest else word.replace("_", " ")


_DIGEST, _SHOWN = 64, 12


def _next_by_status(state: State) -> str:
    core = state.core
    if core.status == "failed":
        why = f" ({core.because})" if core.because else ""
        return f"fix what made the session fail{why}, then: forestay resume"
    if core.status == "aborted":
        again = f'forestay start "GOAL" --from {core.session}'
        return f"nothing: it was aborted; to start again: {again}"
    if core.status in FINISHED:
        return f'nothing: it is {core.status}; to continue: forestay session reopen --because "…"'
    return ""


def _next_after_failed_checkpoint(state: State) -> str:
    if "checkpoint.failed" not in state.core.counts:
        return ""
    rows = state.rows.select("checkpoint", newest=True, limit=_MANY)
    failed = [r for r in rows if isinstance(r, Checkpoint) and r.verdict == "failed"]
    if not failed:
        return "fix the failed checkpoint"
    issue = failed[0].issue or failed[0].because
    text = f"fix the failed checkpoint of {failed[0].step}" + (f": {issue}" if issue else "")
    number = state.core.phase_of(failed[0].step)
    return text if number is None else f"{text}; then: forestay phase done {number}"


def _next_in_phase(state: State) -> str:
    """Return the next step in the current phase: a task inside it, or the phase itself."""
    core = state.core
    here = None if core.phase is None else state.step(core.phase_step(core.phase))
    if here is None or core.plan_unit != "phase":
        return ""
    if not here.is_open:
        is_over = core.plan_total is not None and len(core.phases_done) >= core.plan_total
        line = f"all phases are done: forestay complete, or forestay phase rollback {core.phase}"
        return line if is_over else ""
    for verb, statuses in _STEP_VERBS:
        if _has_any(state, statuses) and (task := _find_step(state, statuses, parent=here.id)):
            return _describe(verb, task)
    if here.status != "running":
        verb = next((v for v, statuses in _STEP_VERBS if here.status in statuses), "continue")
        return _describe(verb, here)
    return f"{_describe('finish', here)}, then: forestay phase done {core.phase}"


def _next_in_essay(state: State) -> str:
    core = state.core
    is_maybe = core.workflow == ESSAY or (not core.workflow and state.step("stage-1") is not None)
    if not is_maybe or core.status not in ("active", "created"):
        return ""
    from forestay.model.essay.moves import is_essay
    from forestay.model.essay.next_step import ahead

    return "; then: forestay ".join(ahead(state)) if is_essay(state) else ""


def _next_task(state: State) -> str:
    if "step" not in state.core.counts:
        return ""
    chosen = _chosen_step(state)
    for verb, statuses in _STEP_VERBS:
        if chosen is not None and chosen.status in statuses:
            return _describe(verb, chosen)
        if chosen is None and (step := first_step(state, *statuses)):
            return _describe(verb, step)
    return ""


def _chosen_step(state: State) -> Step | None:
    """Return the step that was named as the current one, by a command or in a file."""
    if state.chosen(0) is None:
        return None
    rows = state.rows.select("step", open_only=True, limit=_MANY)
    began = [r.started_at for r in rows if isinstance(r, Step) and r.status == "running"]
    return state.chosen(max(began, default=0))


def _describe(verb: str, step: Step) -> str:
    name = f"{step.id}: {step.title}" if step.title not in ("", step.id) else step.id
    why = f" ({step.because})" if step.because else ""
    return f"{verb} {name}{why}"


def first_step(state: State, *statuses: str, inside: bool = False) -> Step | None:
    """Return the earliest open step in one of these statuses; or one `inside` the current phase."""
    core = state.core
    parent = core.phase_step(core.phase or 0) if inside else ""
    return _find_step(state, statuses, parent=parent) if _has_any(state, statuses) else None


def _has_any(state: State, statuses: tuple[str, ...]) -> bool:
    return any(f"step.{status}" in state.core.counts for status in statuses)


def _find_step(state: State, statuses: tuple[str, ...], *, parent: str = "") -> Step | None:
    for limit in (_FEW, _MANY):
        rows = state.rows.select("step", open_only=True, limit=limit)
        for row in rows:
            if not isinstance(row, Step) or row.status not in statuses or state.is_heading(row):
                continue
            if parent in ("", row.parent):
                return row
        if len(rows) < limit:
            break
    return None


def _next_of_agents(state: State) -> str:
    counts = state.core.counts
    if "agent" not in counts:
        return ""
    for verb, statuses in _AGENT_VERBS:
        if any(f"agent.{status}" in counts for status in statuses):
            agent = next((a for a in _open_agents(state) if a.status in statuses), None)
            if agent is not None:
                return verb + agent.id + (f": {agent.task}" if agent.task else "")
    return ""


_STEP_VERBS = (
    ("retry", FAILED),
    ("continue", ("running",)),
    ("unblock", ("blocked",)),
    ("review", ("needs_review",)),
    ("start", ("pending",)),
)
_AGENT_VERBS = (("retry agent ", FAILED), (WAIT, ("running",)))
_NEXT: tuple[Callable[[State], str], ...] = (
    _next_without_work,
    _next_dispute,
    _next_by_status,
    _next_after_failed_checkpoint,
    _next_in_essay,
    _next_in_phase,
    _next_task,
    _next_of_agents,
)


# -- attention ---------------------------------------------------------------------------------


def attention(state: State) -> list[str]:
    """Return the attention flags that follow from the journal, the most urgent first."""
    core = state.core
    raised = (
        ("outdated", core.needs),
        ("disputed", "dispute.open" in core.counts),
        ("interrupted", core.interrupted),
        ("checkpoint_failed", "checkpoint.failed" in core.counts),
        ("blocked", "step.blocked" in core.counts),
        ("needs_review", "step.needs_review" in core.counts),
    )
    return [word for word, is_raised in raised if is_raised]


# -- the summary -------------------------------------------------------------------------------


def summary(state: State) -> dict[str, Any]:
    """Return the summary stored in the catalogue: plain values, 1.5 kilobytes at most."""
    core, count = state.core, state.core.counts.get
    by_agents = core.progress is None and "step" not in core.counts
    reads_agents = by_agents or "agent.running" in core.counts or "agent.failed" in core.counts
    agents = _open_agents(state) if reads_agents else []
    fraction, origin = _progress(state, agents)
    running = [agent.id for agent in reversed(agents) if agent.status == "running"]
    lost = sorted(agent.id for agent in agents if agent.died)
    found = {
        "status": core.status,
        "goal": _cut(core.goal),
        "project": _cut(core.project, 40),
        "progress": round(fraction, 4),
        "progress_from": origin,
        "next": _cut(next_step(state)),
        "running": [_cut(id, 40) for id in running[:_RUNNING]],
        "unknown": [_cut(id, 40) for id in lost[:_RUNNING]],
        "steps": {
            "done": state.tasks("done"),
            "skipped": state.tasks("skipped"),
            "total": state.tasks(),
        },
        "agents": {
            "running": count("agent.running", 0),
            "done": count("agent.done", 0),
            "failed": count("agent.failed", 0) + count("agent.timed_out", 0),
        },
        "attention": attention(state),
        "tokens": core.tokens_used,
        "began_at": core.began_at,
        "updated_at": core.updated_at,
        "paused_at": core.paused_at,
        "paused_ms": core.paused_ms,
        "paused_reason": core.pause_reason,
        "resumes": core.resumes,
    }
    if core.is_phased:
        found["plan"] = plan(state)
    return found


def plan(state: State) -> dict[str, Any]:
    """Return the progress of a plan, with everything needed to compute times at any moment.

    Numbers of phases are written as runs, `0-4`, because most of them are consecutive.
    """
    core = state.core
    here = state.step(core.phase_step(core.phase or 0)) or Step(id="")
    verdict = state.rows.get("checkpoint", here.id) if core.phase_verdicts else None
    issue = verdict.issue if isinstance(verdict, Checkpoint) else ""
    spent = [ms for ms in core.phases_done.values() if ms >= 0]
    verdicts, words = core.phase_verdicts.items(), dict.fromkeys(core.phase_verdicts.values())
    return {
        "workflow": _cut(core.workflow, 80),
        "target": _cut(core.plan_target, 80),
        "key": plan_key(core.workflow, core.plan_target),
        "unit": core.plan_unit,
        "current": core.phase,
        "name": _cut(here.title, 60),
        "step": here.status,
        "total": core.plan_total or None,
        "base": core.plan_base,
        "done": runs(core.phases_done),
        "verdicts": {word: runs(n for n, v in verdicts if v == word) for word in words},
        "issue": _cut(issue, 120),
        "started": here.started_at,
        "away": core.away_ms - here.away_before,
        "since": core.paused_at or core.ended_at,
        "spent": [len(spent), sum(spent)],
        "took": spent[-_TOOK:],
        "paused": core.paused_ms,
        "pauses": core.counts.get("pauses", 0),
        "interruptions": core.counts.get("interruptions", 0),
    }


def plan_key(workflow: str, target: str) -> str:
    """Return a short key, equal for equal workflows on equal targets; empty without a target."""
    return digest_of(f"{workflow}\0{target}".encode())[:16] if target else ""


def runs(numbers: Iterable[int]) -> str:
    """Return numbers as runs of neighbours: `0-4,7`."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(f"{a}-{b}" if a != b else str(a) for a, b in found)


def _cut(text: str, limit: int = _TEXT_BYTES) -> str:
    """Return one line of at most `limit` bytes; a cut is shown as …"""
    line = " ".join(text[: limit + 1].split())
    if len(text) * 4 <= limit:
        return line
    data = line.encode("utf-8", "replace")
    if len(data) <= limit and len(text) <= limit:
        return line
    return data[: limit - 3].decode("utf-8", "ignore").rstrip() + "…"
