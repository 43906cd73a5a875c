"""Looking around before a briefing: what changed under the session since someone last worked.

Everything here is true of this machine at this moment: who is alive, which branch is checked
out, which touched files are no longer as they were left. None of it is recorded, except that
whoever resumes records the deaths it found.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from holdfast import place
from holdfast.model.brief import Surroundings
from holdfast.model.event import Body, SessionInterrupted, SessionPaused, SessionResumed
from holdfast.model.rules import end_is_disputed
from holdfast.model.state import File, State
from holdfast.store.local import Holder
from holdfast.text import prompt
from holdfast.verb import Recorder
from holdfast.who import names, persons


def moves_of_resume(session: Recorder, died: Sequence[Holder]) -> list[Body]:
    """Who died first, if anyone, then the resume itself, unless it would settle a dispute."""
    branch, commit = session.home.git()
    with session.home.store.view(session.id) as view:
        state = session.home.journal.state(view)
        disputed = end_is_disputed(state)
    moves: list[Body] = [] if disputed else [SessionResumed(git_branch=branch, git_commit=commit)]
    if session.home.store.remotes.all():
        from holdfast.arrival import record_tools

        moves = [*record_tools(session), *moves]
    found = None if disputed and not _broken_off(died) else found_dead(died, state.core.status)
    return [found, *moves] if found else [*moves]


def found_dead(died: Sequence[Holder], status: str) -> Body | None:
    """What the deaths of processes mean: broken off, or only a pause if none had anything to do."""
    if broken := _broken_off(died):
        agents = sorted({holder.agent for holder in broken if holder.agent})
        return SessionInterrupted(doing=doing_of(broken), agents=agents)
    if not died or status != "active":
        return None
    return SessionPaused(context=f"{died[0].name} ended")


def _broken_off(died: Sequence[Holder]) -> list[Holder]:
    return [holder for holder in died if not holder.is_idle]


def survey(
    session: Recorder,
    state: State,
    *,
    died: Sequence[Holder],
    damage: Sequence[str],
    fenced: bool,
) -> Surroundings:
    home, core = session.home, state.core
    branch, commit = home.git()
    drift = _drift(session, state)
    held = home.workspace.holders(session.id)
    secret = home.store.secret() if fenced else b""

    def fence(text: str, label: str, origin: str, confirmed: bool) -> str:
        return prompt(text, secret, label=label, origin=origin, confirmed=confirmed)

    return Surroundings(
        now=home.clock.now(),
        drift=drift,
        branch_then=core.git_branch,
        branch_now=branch,
        commit_then=core.git_commit,
        commit_now=commit,
        holders=[(h.name, h.since, word) for h, word in home.others(session.id)],
        dead_agents=sorted({holder.agent for holder in died if holder.agent}),
        live_agents=sorted({h.agent for h, word in held if h.agent and word == "alive"}),
        interrupted=doing_of(died),
        doing=doing_of([h for h in died if h.doing and not h.agent]),
        damage=list(damage),
        fence=fence if fenced else None,
        device_names=names(home),
        device=home.store.device,
        persons=persons(home),
        window=home.settings.context_window,
        proofs=_proofs(session, state),
        natives={b.layout: b.native for b in home.store.bound.bindings(session.id)},
        **_arrival(session, state, drift),
    )


def _arrival(session: Recorder, state: State, drift: list[tuple[str, str]]) -> dict[str, Any]:
    """Where the session was last worked on, if not here, and what is not here as it was there."""
    if state.core.chains.keys() <= {session.home.store.device}:
        return {}
    from holdfast.arrival import findings, origin

    found = [(one.what, one.text, one.command) for one in findings(session, state, drift)]
    return {"came_from": origin(session.home, state), "lacking": found}


def _proofs(session: Recorder, state: State) -> dict[str, str]:
    if not state.count("proof"):
        return {}
    from holdfast.prove import glance

    return glance(session, state)


def doing_of(died: Sequence[Holder]) -> str:
    """What processes were at when they died; their names, where no more is known of any."""
    broken = _broken_off(died)
    known = [h.doing or h.agent for h in broken if h.doing or h.agent]
    return "; ".join(dict.fromkeys(known or [h.name for h in broken]))


def _drift(session: Recorder, state: State) -> list[tuple[str, str]]:
    home, root = session.home, session.home.workspace.tree.root
    most, ms = home.settings.drift_files, home.settings.drift_ms
    rows = state.rows.select("file", newest=True, limit=most)
    left = [row for row in rows if isinstance(row, File)]
    kept = [(row.path, row.after) for row in left if row.action != "deleted"]
    seen = _seen(session, [path for path, _ in kept], root)
    found = place.drift(kept, seen, most, ms, root=root, clock=home.clock)
    back = [(row.path, "changed") for row in left if _came_back(row, root)]
    return [(path, word) for path, word in found if word != "same"] + back


def _seen(session: Recorder, paths: Sequence[str], root: str) -> dict[str, place.Seen]:
    full = {path: os.path.join(root, path) for path in paths}
    found = session.home.store.local.seen_files(session.id, list(full.values()))
    return {path: found[full[path]] for path in paths if full[path] in found}


def _came_back(row: File, root: str) -> bool:
    return row.action == "deleted" and place.is_there(row.path, root)
