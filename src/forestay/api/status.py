"""The status of sessions as JSON values, made from the catalogue alone.

The catalogue row carries a summary that is rewritten with every event, so listing ten thousand
sessions or reading the status of one requires neither the journal nor the model.
"""

from __future__ import annotations

import os

from forestay.base import files
from forestay.base.clock import iso
from forestay.base.vocabulary import what_next
from forestay.errors import Damaged, NoSession
from forestay.workspace.current_session import find_session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from forestay.journal.context import Context
    from forestay.mirror.session_files import SessionFiles
    from forestay.model.event import Event
    from forestay.store.machine.bindings import Binding
    from forestay.store.machine.holders import Holder


_QUICKLY_CHECKED = 1000
"""Number of events that can be checked in a millisecond or two."""


def session_status(context: Context, session: str) -> dict[str, Any]:
    """Return the status of a session: the fields of `status --json`."""
    rows = context.store.catalogue(where={"id": session}, limit=1)
    if not rows:
        raise NoSession(
            f"session {session} does not exist any more",
            hint="see all sessions: forestay list --all; find the problem: forestay doctor",
            session=session,
        )
    if not rows[0]["sound"]:
        raise Damaged(
            f"the catalogue entry of session {session} is damaged",
            hint="rebuild it from its events: forestay doctor --fix",
            session=session,
        )
    name = project_name(context, rows[0]["project"])
    held = context.workspace.distinct(context.workspace.holders(session))
    if not context.store.machine.is_bound(session):
        return status(rows[0], name, held, context.clock.now())
    from forestay.mirror.session_files import SessionFiles  # start-up

    session_files = SessionFiles.of(context)
    shown = status(
        rows[0] | _pending_changes(context, session, session_files), name, held, context.clock.now()
    )
    return shown | _suspended_files(session_files.inspect_bindings(session))


def current_session(context: Context, *, open_only: bool = False) -> str:
    """Return the id of the current session; see `Forestay.current`."""
    if context.settings.session:
        return find_session(context.store, context.settings.session)
    try:
        return context.workspace.require(open_only=open_only)
    except NoSession:
        # An edit of its files can have reopened it, so absorb edits first.
        finished = context.workspace.current()
        if not finished or not context.store.machine.is_bound(finished):
            raise
    from forestay.mirror.session_files import absorb_file_edits  # start-up

    absorb_file_edits(context, finished)
    return context.workspace.require(open_only=open_only)


def may_expire(context: Context, session: str) -> bool:
    """Return whether a session without a workflow can expire by inactivity: if the settings have
    limits, or if it has files, which can be those of an essay."""
    limits = context.settings.pause_hours, context.settings.abandon_hours
    return any(limits) or context.store.machine.is_bound(session)


def looks_damaged(context: Context, session: str) -> bool:
    """Return whether a quick check finds damage; in a long session only missing events count."""
    with context.store.view(session) as view:
        if view.seq > _QUICKLY_CHECKED:
            return bool(view.lost())
        return bool(context.journal.check_chain(view))


def list_sessions(
    context: Context,
    *,
    all: bool = False,
    archived: bool = False,
    status: str = "",
    limit: int = -1,
) -> list[dict[str, Any]]:
    """Return the sessions of this project, or of every one; see `Forestay.list`."""
    where: dict[str, object] = {"status": status} if status else {}
    if not all:
        where |= {"archived": int(archived), "project": context.workspace.project()}
    rows = context.store.catalogue(where=where, limit=limit)
    names = {n: project_name(context, n) for n in {row["project"] for row in rows}}
    held: dict[object, list[tuple[Holder, str]]] = {}
    for holder, word in context.workspace.holders(""):
        held.setdefault(holder.session, []).append((holder, word))
    shown = [listing(row, held.get(row["id"], [])) for row in rows]
    # A session of another device has the name of its own project until it is resumed on this one.
    return [
        one | {"project": names[row["project"]] or one["project"]}
        for one, row in zip(shown, rows, strict=True)
    ]


def project_name(context: Context, number: object) -> str:
    """Return the name of a project by its number; empty without one."""
    return context.store.machine.projects.name_of(number) if isinstance(number, int) else ""


def count_waiting(context: Context) -> int:
    """Return how many payloads of hooks wait to be ingested."""
    try:
        return len(os.listdir(os.path.join(context.store.home, files.SPOOL, files.WAITING)))
    except OSError:
        return 0


def _suspended_files(bindings: Sequence[Binding]) -> dict[str, list[dict[str, str]]]:
    """Return the session's files that are neither read nor written now, with the reason."""
    shown = [
        {"format": one.format, "path": one.place, "why": one.suspended}
        for one in bindings
        if one.suspended
    ]
    return {"suspended": shown} if shown else {}


def _pending_changes(
    context: Context, session: str, session_files: SessionFiles
) -> dict[str, object]:
    """Return the fields of a listing that differ because of edits in the session's files."""
    pending = session_files.pending(session)
    if not pending:
        return {}
    from forestay.journal.projections import listing  # start-up

    with context.store.view(session) as view:
        return listing(session_files.state(session, view, pending))


def listing(row: dict[str, object], held: Sequence[tuple[Holder, str]] = ()) -> dict[str, Any]:
    """Return a session as `list` shows it; `held` are its holders with their states."""
    dead = [holder for holder, word in held if word == "dead"]
    shown = _listing(row, {holder.agent for holder in dead if holder.agent})
    if not dead or len(dead) < len(held) or "interrupted" in shown["attention"]:
        return shown
    if not all(holder.is_idle for holder in dead):
        shown["attention"].insert(0, "interrupted")
    elif shown["status"] == "active":
        shown["status"] = "paused"  # its process ended between two turns without recording the end
    return shown


def _listing(row: dict[str, object], dead: set[str]) -> dict[str, Any]:
    summary = _summary(row)
    unknown = dead.union(summary.get("unknown", []))
    return {
        "session": row["id"],
        "status": row["status"],
        "goal": row["goal"],
        "progress": summary.get("progress", 0.0),
        "progress_from": summary.get("progress_from", "none"),
        "seq": row["seq"],
        "next": what_next(summary.get("next", ""), unknown, paused=row["status"] == "paused"),
        "attention": list(summary.get("attention", [])) if row["sound"] else ["damaged"],
        "archived": bool(row["archived"]),
        "project": summary.get("project", ""),
        "began_at": _stamp(row["began"]),
        "updated_at": _stamp(row["updated"]),
    }


def status(
    row: dict[str, object], project: str, held: Sequence[tuple[Holder, str]], now: int = 0
) -> dict[str, Any]:
    """Return a session as `status` shows it: the listing, the rest of the summary, its holders."""
    summary = _summary(row)
    plan = summary.pop("plan", None)
    was_interrupted = "interrupted" in summary.get("attention", [])
    shown = listing(row, held)
    shown |= {name: value for name, value in summary.items() if name not in shown}
    shown |= _plan_status(shown, plan, now) if plan else _UNPLANNED
    if plan and shown["timing"]["status"] == "possibly_stalled":
        shown["attention"].append("possibly_stalled")
    shown["project"] = project
    shown["paused_at"] = _stamp(summary.get("paused_at"))
    shown["doing"] = ""
    shown["holders"] = [holder_view(holder, word) for holder, word in held]
    dead = [holder for holder, word in held if word == "dead"]
    _mark_dead_agents(shown, {holder.agent for holder in dead if holder.agent})
    if "interrupted" in shown["attention"] and not was_interrupted:
        shown["doing"] = "; ".join(
            filter(None, (h.doing or h.agent for h in dead if not h.is_idle))
        )
    return shown


def _mark_dead_agents(shown: dict[str, Any], agents: set[str]) -> None:
    """Move agents whose process died from `running` to `unknown`."""
    shown["unknown"] = sorted(agents.union(shown.get("unknown", [])))
    died = [name for name in shown.get("running", []) if name in agents]
    if died:
        shown["running"] = [name for name in shown["running"] if name not in agents]
        shown["agents"]["running"] -= len(died)
        shown["agents"]["died"] = len(died)


def holder_view(holder: Holder, word: str) -> dict[str, Any]:
    """Return a holder as JSON; `state` is alive, dead or unknown."""
    return {
        "name": holder.name,
        "agent": holder.agent,
        "doing": holder.doing,
        "pid": int(holder.process.split("/")[3]),
        "since": iso(holder.since),
        "state": word,
    }


def event_receipt(event: Event) -> dict[str, Any]:
    """Return the JSON answer for an event that was just recorded."""
    return {
        "seq": event.seq,
        "id": event.id,
        "kind": event.kind,
        "redacted": list(event.body.redacted),
    }


_UNPLANNED: dict[str, Any] = {
    "workflow": None,
    "target": None,
    "phase": None,
    "timing": None,
    "context": [],
}


def _plan_status(shown: dict[str, Any], plan: dict[str, Any], now: int) -> dict[str, Any]:
    """Return the status of a session's plan at a time, from its summary."""
    from forestay.model.timing import Progress

    here = Progress(plan, now, status=shown["status"])
    timing = here.timing
    return {
        "workflow": plan["workflow"],
        "target": plan["target"] or None,
        "phase": {
            "unit": plan["unit"],
            "current": plan["current"],
            "name": plan["name"],
            "total": plan["total"],
            "starting": plan["base"],
            "completed": here.done,
            "checkpoints": {str(number): word for number, word in here.verdicts.items()},
            "failed": plan["current"] if here.failed else None,
            "issue": plan["issue"] if here.failed else "",
        },
        "timing": {
            "status": here.standing,
            "percent_complete": timing.percent,
            "phases_remaining": timing.remaining,
            "avg_phase_duration": timing.average,
            "estimated_remaining": timing.estimate,
            "time_in_phase": timing.inside,
            "is_stalled": timing.stalled,
            "started_at": _stamp(plan["started"]),
            "previous": here.took,
        },
        "context": here.sentences(iso(plan["started"]).removesuffix("Z")),
    }


def _summary(row: dict[str, object]) -> dict[str, Any]:
    if not row["sound"]:
        return {}
    import json  # start-up

    try:
        found = json.loads(str(row["summary"]) or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _stamp(ms: object) -> str | None:
    return iso(ms) if isinstance(ms, int) and ms else None
