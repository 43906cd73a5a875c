"""Derive the state of a session from the processes that worked on it and have died."""

from __future__ import annotations

from collections.abc import Sequence

from forestay.model.event import Body, SessionInterrupted, SessionPaused
from forestay.store.machine.holders import Holder, describe_work, interrupted_work


def event_of_deaths(died: Sequence[Holder], status: str) -> Body | None:
    """Return the event to record for holders that died; None if there is nothing to record.

    It is an interruption, or a pause if none of them was working on anything.
    """
    if broken := interrupted_work(died):
        agents = sorted({holder.agent for holder in broken if holder.agent})
        return SessionInterrupted(doing=describe_work(broken), agents=agents)
    if not died or status != "active":
        return None
    return SessionPaused(context=f"{died[0].name} ended")
