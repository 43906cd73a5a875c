"""Choices: every field that takes one of a few words, and those words.

Nothing is imported here, so that whoever parses an option knows the words without loading the
model. What the words mean is in `model.rules` and `model.fold`.
"""

from __future__ import annotations

STATUSES = ("created", "active", "paused", "completed", "failed", "aborted", "abandoned")
FINISHED = frozenset({"completed", "aborted", "abandoned"})
"""Session statuses from which only reopening, or nothing, leads on."""

MODES = ("default", "debug", "optimize", "release")
PAUSE_REASONS = ("user_request", "checkpoint_failed", "system_error", "inactivity")
CATEGORIES = ("transient", "resource", "configuration", "logical", "permanent")
ACTIONS = ("created", "modified", "deleted")
COMMAND_STATUSES = ("success", "failure")


def undecided(what: str, chosen: str, options: list[str]) -> list[str]:
    """The options of a decision that are still open, because none of them was taken."""
    return [] if chosen or what in options else options


STYLES = ("holdfast", "orchestrator", "praxis")
FORMATS = ("text", "markdown", "json")
LEAST, MOST = 150, 20_000
"""What a briefing may cost, in tokens."""
