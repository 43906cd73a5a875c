"""Fields that accept one of a few words, and those words.

This module imports nothing, so the command line can parse options and list sessions without loading
the model. `model.rules` and `model.handlers` define what the words do.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

STATUSES = ("created", "active", "paused", "completed", "failed", "aborted", "abandoned")
FINISHED = frozenset({"completed", "aborted", "abandoned"})
"""Session statuses that only reopening can leave."""

MODES = ("default", "debug", "optimize", "release")
PAUSE_REASONS = ("user_request", "checkpoint_failed", "system_error", "inactivity")
CATEGORIES = ("transient", "resource", "configuration", "logical", "permanent")
ACTIONS = ("created", "modified", "deleted")
COMMAND_STATUSES = ("success", "failure", "unknown")
ROLES = ("user", "machine", "agent")


def undecided(what: str, chosen: str, options: list[str]) -> list[str]:
    """Return the options of a decision that are still open: all of them until one is chosen."""
    return [] if chosen or what in options else options


WAIT = "wait for or continue agent "
_MAX_NAMES = 3


def what_next(
    step: str,
    dead: Iterable[str],
    *,
    paused: bool,
    damaged: bool = False,
    ask: str = "find out what became of",
) -> str:
    """Return what to do next: problems first, then the step.

    `dead` are agents whose outcome is unknown; the text never suggests waiting for one of them.
    """
    names = sorted(set(dead))
    more = " and others" if len(names) > _MAX_NAMES else ""
    first = [
        ("run forestay verify", damaged),
        (f"{ask} {', '.join(names[:_MAX_NAMES])}{more}", bool(names)),
        ("forestay resume", paused),
    ]
    waits = step.startswith(WAIT) and step.removeprefix(WAIT).partition(":")[0] in names
    first.append((step, bool(step) and not waits))
    return ", then ".join(text for text, applies in first if applies)


ESSAY = "essay"
"""The workflow of essays, which has additional rules (`model.essay.rules`)."""
STYLES = ("forestay", "orchestrator", "praxis")
FORMATS = ("text", "markdown", "json")
LEAST, MOST = 150, 20_000
"""Smallest and largest budget of a briefing, in tokens."""

# -- essays ------------------------------------------------------------------------------------

GATES = ("G1", "G2", "G3", "G3-Final", "G4", "G4-Section", "G5")
PUSHBACK = ("full", "light", "minimal")
DEFER_REASONS = ("timeout", "service_unavailable", "no_results")
VOICE_MODES = ("profile", "sample", "hybrid")
FACT_CHECKS = (
    "verified",
    "partial",
    "contested",
    "unverified",
    "deferred",
    "common_knowledge",
    "personal",
)
"""Results of checking a claim."""
SETTLING = ("verified", "partial", "common_knowledge", "personal")
"""Results that settle a claim; after any other, the user decides whether it may stay."""
