"""Looking around before a briefing: what changed under the session since someone last worked.

Everything here is true of this machine at this moment: who is alive, which branch is checked
out, which touched files are no longer as they were left. None of it is recorded, except that
whoever resumes records the deaths it found.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from forestay.base.text import prompt
from forestay.briefing.brief import Surroundings
from forestay.journal.deaths import describe_work, event_of_deaths, interrupted_work
from forestay.journal.presence import Presence
from forestay.journal.recorder import Recorder
from forestay.model.event import Body, SessionResumed
from forestay.model.rules import end_is_disputed
from forestay.model.state import File, State
from forestay.store.machine.holders import Holder
from forestay.sync.device_names import names, persons
from forestay.workspace import tree


def moves_of_resume(session: Recorder, died: Sequence[Holder]) -> list[Body]:
    """Who died first, if anyone, then the resume itself, unless it would settle a dispute."""
    branch, commit = session.context.checkout()
    with session.context.store.view(session.id) as view:
        state = session.context.journal.state(view)
        disputed = end_is_disputed(state)
    moves: list[Body] = [] if disputed else [SessionResumed(git_branch=branch, git_commit=commit)]
    if session.context.store.machine.remotes.all():
        from forestay.sync.arrival import record_tools

        moves = [*record_tools(session), *moves]
    if disputed and not interrupted_work(died):
        return moves
    found = event_of_deaths(died, state.core.status)
    return [found, *moves] if found else moves


def survey(
    session: Recorder,
    state: State,
    *,
    died: Sequence[Holder],
    damage: Sequence[str],
    fenced: bool,
) -> Surroundings:
    context, core = session.context, state.core
    branch, commit = context.checkout()
    drift = _drift(session, state)
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
        natives={b.layout: b.native for b in context.store.machine.bindings.bindings(session.id)},
        **_arrival(session, state, drift),
    )


def _arrival(session: Recorder, state: State, drift: list[tuple[str, str]]) -> dict[str, Any]:
    """Where the session was last worked on, if not here, and what is not here as it was there."""
    if state.core.chains.keys() <= {session.context.store.machine.device}:
        return {}
    from forestay.sync.arrival import findings, origin

    found = [(one.code, one.what, one.fix) for one in findings(session, state, drift)]
    return {"came_from": origin(session.context, state), "lacking": found}


def _proofs(session: Recorder, state: State) -> dict[str, str]:
    if not state.count("proof"):
        return {}
    from forestay.plans.prove import glance

    return glance(session, state)


def _drift(session: Recorder, state: State) -> list[tuple[str, str]]:
    context, root = session.context, session.context.workspace.tree.root
    most, ms = context.settings.drift_files, context.settings.drift_ms
    rows = state.rows.select("file", newest=True, limit=most)
    left = [row for row in rows if isinstance(row, File)]
    kept = [(row.path, row.after) for row in left if row.action != "deleted"]
    seen = _seen(session, [path for path, _ in kept], root)
    found = tree.check_drift(kept, seen, most, ms, root=root, clock=context.clock)
    back = [(row.path, "changed") for row in left if _came_back(row, root)]
    return [(path, word) for path, word in found if word != "same"] + back


def _seen(session: Recorder, paths: Sequence[str], root: str) -> dict[str, tree.Seen]:
    full = {path: os.path.join(root, path) for path in paths}
    found = session.context.store.machine.seen_files.find(session.id, list(full.values()))
    return {path: found[full[path]] for path in paths if full[path] in found}


def _came_back(row: File, root: str) -> bool:
    return row.action == "deleted" and tree.path_exists(row.path, root)
