"""Briefings and resuming: the surroundings of a session, and the text of its briefing.

The surroundings are true of this machine at this moment: which processes are alive, which branch
is checked out, which files differ from what the session recorded. None of it is recorded, except
that `resume` records which processes died.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from forestay.api.followers import Inactivity
from forestay.base.text import DEAREST_FENCE, prompt
from forestay.briefing.brief import Briefing, Surroundings, brief, check_request, estimate
from forestay.briefing.sections import AMPLE, Lacking
from forestay.briefing.token_estimate import cost
from forestay.journal.presence import Presence
from forestay.journal.recorder import Recorder
from forestay.journal.stored_state import looks_intact
from forestay.mirror.session_files import absorb_file_edits, read_state, write_files
from forestay.model.state import File, State
from forestay.store.machine.holders import Holder, describe_work, interrupted_work
from forestay.store.port import View
from forestay.sync.device_names import names, persons
from forestay.workspace import tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.model.event import Body


def resume(
    session: Recorder, *, budget: int | None, style: str, fmt: str, fenced: bool, key: str
) -> Briefing:
    """Record that work continues, and return the briefing; see `Session.resume`."""
    context = session.context
    check_request(_budget(session, budget), style, fmt)
    absorb_file_edits(context, session.id)
    context.follower(Inactivity).check(session.id, session.actor)
    # Before the resume is recorded, so that changes since the last work are still visible.
    around = survey_surroundings(session, fenced=fenced)
    if not (around.damage and _has_damaged_events(session)):
        died = _find_dead(session)
        if moves := _resume_events(session, died):
            recorded = context.journal.append(session.id, *moves, actor=session.actor, key=key)
            session.repeated = recorded.repeated
        if (
            not session.repeated
        ):  # a repeated call recorded nothing, so these deaths are still to record
            context.best_effort(lambda: context.workspace.release(died))
        context.best_effort(lambda: context.workspace.choose(session.id))
        context.best_effort(lambda: Presence.of(context).register_process(session.id))
        write_files(context, session.id)
        context.run_due_jobs()
    return write_brief(session, around, budget=budget, style=style, fmt=fmt)


def survey_surroundings(session: Recorder, *, fenced: bool = True) -> Surroundings:
    """Return the surroundings of the session now: processes, branch and changed files."""
    with session.context.store.view(session.id) as view:
        damage = _find_damage(session, view)
        state = read_state(session.context, session.id, view)
        return _describe_surroundings(
            session, state, died=_find_dead(session), damage=damage, fenced=fenced
        )


def _find_damage(session: Recorder, view: View) -> list[str]:
    """Return the damage of the session's events, or else of the content stored for them."""
    if looks_intact(view) and view.keeps_content():
        return []
    journal = session.context.journal
    return [one.what for one in journal.check_chain(view) or journal.check_content(view)]


def write_brief(
    session: Recorder,
    around: Surroundings,
    *,
    budget: int | None = None,
    style: str = "forestay",
    fmt: str = "text",
) -> Briefing:
    """Return the briefing of a session in its surroundings, within a budget of tokens."""
    budget = _budget(session, budget)
    with session.context.store.view(session.id) as view:
        around.seq = view.seq
        state = read_state(session.context, session.id, view)
        if budget >= AMPLE:
            _add_recent_lines(session, around, state, view, budget)
        fence = around.fence if fmt != "json" else None
        reserve = cost(DEAREST_FENCE) if fence else 0
        found = brief(state, around, budget=budget, style=style, fmt=fmt, reserve=reserve)
    if fence is None:
        return found
    # For a model the whole briefing is data, not only its quotations.
    text = fence(found.text.rstrip("\n"), "", "", True)
    return replace(found, text=text, tokens=estimate(text), budget=budget)


def _add_recent_lines(
    session: Recorder, around: Surroundings, state: State, view: View, budget: int
) -> None:
    """Read more notes and commands from the journal than the state has."""
    counted = ("notes", "command.success", "command.failure", "command.unknown")
    if any(map(state.count, counted)):
        from forestay.journal.history import recent_lines  # start-up

        # The token estimate counts at most three characters per token: more cannot fit the budget.
        journal = session.context.journal
        around.notes, around.commands = recent_lines(journal, view, 3 * budget)


def _budget(session: Recorder, asked: int | None) -> int:
    return session.context.settings.brief_budget if asked is None else asked


def _find_dead(session: Recorder) -> list[Holder]:
    return [h for h, word in session.context.workspace.holders(session.id) if word == "dead"]


def _has_damaged_events(session: Recorder) -> bool:
    with session.context.store.view(session.id) as view:
        return bool(session.context.journal.check_chain(view))


def _resume_events(session: Recorder, died: Sequence[Holder]) -> list[Body]:
    """Return the events of dead processes, then the resume, unless that would settle a dispute."""
    from forestay.journal.deaths import event_of_deaths  # start-up
    from forestay.model.event import SessionResumed  # start-up

    branch, commit = session.context.checkout()
    with session.context.store.view(session.id) as view:
        state = session.context.journal.state(view)
        disputed = state.open_dispute() is not None
    moves: list[Body] = [] if disputed else [SessionResumed(git_branch=branch, git_commit=commit)]
    if session.context.store.machine.remotes.all():
        from forestay.sync.arrival import record_tools  # start-up

        moves = [*record_tools(session), *moves]
    if disputed and not interrupted_work(died):
        return moves
    found = event_of_deaths(died, state.core.status)
    return [found, *moves] if found else moves


def _describe_surroundings(
    session: Recorder,
    state: State,
    *,
    died: Sequence[Holder],
    damage: Sequence[str],
    fenced: bool,
) -> Surroundings:
    context, core = session.context, state.core
    branch, commit = context.checkout()
    drift = _find_drift(session, state)
    held = context.workspace.holders(session.id)
    secret = context.store.machine.secret() if fenced else b""

    def fence(text: str, label: str, origin: str, confirmed: bool) -> str:
        return prompt(text, secret, label=label, origin=origin, confirmed=confirmed)

    return Surroundings(
        now=context.clock.now(),
        drift=drift,
        branch_then=core.git_branch,
        branch_now=branch,
        commit_then=core.git_commit,
        commit_now=commit,
        holders=[(h.name, h.since, word) for h, word in Presence.of(context).others(session.id)],
        dead_agents=sorted({holder.agent for holder in died if holder.agent}),
        live_agents=sorted({h.agent for h, word in held if h.agent and word == "alive"}),
        interrupted=describe_work(died),
        doing=describe_work([h for h in died if h.doing and not h.agent]),
        damage=list(damage),
        fence=fence if fenced else None,
        device_names=names(context),
        device=context.store.machine.device,
        persons=persons(context),
        window=context.settings.context_window,
        proofs=_proofs(session, state),
        natives={b.format: b.native for b in context.store.machine.bindings.bindings(session.id)},
        **_arrival(session, state, drift),
    )


def _arrival(session: Recorder, state: State, drift: list[tuple[str, str]]) -> dict[str, Any]:
    """Return the device that last worked on the session, and what differs on this one.

    Return {} if it was this device.
    """
    if state.core.chains.keys() <= {session.context.store.machine.device}:
        return {}
    from forestay.sync.arrival import findings, origin  # start-up

    found = [Lacking(one.code, one.what, one.fix) for one in findings(session, state, drift)]
    return {"came_from": origin(session.context, state), "lacking": found}


def _proofs(session: Recorder, state: State) -> dict[str, str]:
    if not state.count("proof"):
        return {}
    from forestay.plans.prove import glance  # start-up

    return glance(session, state)


def _find_drift(session: Recorder, state: State) -> list[tuple[str, str]]:
    context, root = session.context, session.context.workspace.tree.root
    most, ms = context.settings.drift_files, context.settings.drift_ms
    rows = state.rows.select("file", newest=True, limit=most)
    changed = [row for row in rows if isinstance(row, File)]
    recorded = [(row.path, row.after) for row in changed if row.action != "deleted"]
    seen = _seen_files(session, [path for path, _ in recorded], root)
    found = tree.check_drift(recorded, seen, most, ms, root=root, clock=context.clock)
    back = [(row.path, "changed") for row in changed if _exists_again(row, root)]
    return [(path, word) for path, word in found if word != "same"] + back


def _seen_files(session: Recorder, paths: Sequence[str], root: str) -> dict[str, tree.Seen]:
    full = {path: os.path.join(root, path) for path in paths}
    found = session.context.store.machine.seen_files.find(session.id, list(full.values()))
    return {path: found[full[path]] for path in paths if full[path] in found}


def _exists_again(row: File, root: str) -> bool:
    return row.action == "deleted" and tree.path_exists(row.path, root)
