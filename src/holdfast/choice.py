"""Choices: every field that takes one of a few words, those words, and what is chosen next.

Nothing is imported here, so that whoever parses an option or lists sessions knows the words
without loading the model. What the words mean is in `model.rules` and `model.meaning`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

STATUSES = ("created", "active", "paused", "completed", "failed", "aborted", "abandoned")
FINISHED = frozenset({"completed", "aborted", "abandoned"})
"""Session statuses from which only reopening, or nothing, leads on."""

MODES = ("default", "debug", "optimize", "release")
PAUSE_REASONS = ("user_request", "checkpoint_failed", "system_error", "inactivity")
CATEGORIES = ("transient", "resource", "configuration", "logical", "permanent")
ACTIONS = ("created", "modified", "deleted")
COMMAND_STATUSES = ("success", "failure", "unknown")
ROLES = ("user", "machine", "agent")


def undecided(what: str, chosen: str, options: list[str]) -> list[str]:
    """The options of a decision that are still open, because none of them was taken."""
    return [] if chosen or what in options else options


WAIT = "wait for or continue agent "
_NAMED = 3


def what_next(
    step: str,
    dead: Iterable[str],
    *,
    paused: bool,
    damaged: bool = False,
    ask: str = "find out what became of",
) -> str:
    """What to do next, wherever that is told: what must be looked at first, then the step.

    `dead` are agents whose outcome nobody knows; nobody is told to wait for one of them.
    """
    names = sorted(set(dead))
    more = " and others" if len(names) > _NAMED else ""
    first = [
        ("run holdfast verify", damaged),
        (f"{ask} {', '.join(names[:_NAMED])}{more}", bool(names)),
        ("holdfast resume", paused),
    ]
    waits = step.startswith(WAIT) and step.removeprefix(WAIT).partition(":")[0] in names
    first.append((step, bool(step) and not waits))
    return ", then ".join(words for words, is_so in first if is_so)


STYLES = ("holdfast", "orchestrator", "praxis")
FORMATS = ("text", "markdown", "json")
LEAST, MOST = 150, 20_000
"""What a briefing may cost, in tokens."""

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
"""What a fact check says of a claim."""
SETTLING = ("verified", "partial", "common_knowledge", "personal")
"""Those after which a claim needs nobody's word; any other one is the user's to let stand."""
