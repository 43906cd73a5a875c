"""What it means for a session that processes which held it have died."""

from __future__ import annotations

from collections.abc import Sequence

from forestay.model.event import Body, SessionInterrupted, SessionPaused
from forestay.store.machine.holders import Holder


def event_of_deaths(died: Sequence[Holder], status: str) -> Body | None:
    """Return what to record: an interruption, or a pause if none of them had anything to do."""
    if broken := interrupted_work(died):
        agents = sorted({holder.agent for holder in broken if holder.agent})
        return SessionInterrupted(doing=describe_work(broken), agents=agents)
    if not died or status != "active":
        return None
    return SessionPaused(context=f"{died[0].name} ended")


def interrupted_work(died: Sequence[Holder]) -> list[Holder]:
    """Return the holders that died while they were doing something."""
    return [holder for holder in died if not holder.is_idle]


def describe_work(died: Sequence[Holder]) -> str:
    """Describe what processes were doing when they died; by their names if no more is known."""
    broken = interrupted_work(died)
    known = [h.doing or h.agent for h in broken if h.doing or h.agent]
    return "; ".join(dict.fromkeys(known or [h.name for h in broken]))
