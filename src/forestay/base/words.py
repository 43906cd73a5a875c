"""Types of parameters and results that allow only certain words, for type checkers.

They equal the vocabulary of the engine, which refuses other words at run time.
"""

from __future__ import annotations

from typing import Literal

Mode = Literal["default", "debug", "optimize", "release"]
Status = Literal["created", "active", "paused", "completed", "failed", "aborted", "abandoned"]
PauseReason = Literal["user_request", "checkpoint_failed", "system_error", "inactivity"]
Category = Literal["transient", "resource", "configuration", "logical", "permanent"]
FileAction = Literal["created", "modified", "deleted"]
CommandStatus = Literal["success", "failure", "unknown"]
Style = Literal["forestay", "orchestrator", "praxis"]
Format = Literal["text", "markdown", "json"]
Pushback = Literal["full", "light", "minimal"]
DeferReason = Literal["timeout", "service_unavailable", "no_results"]
FactCheck = Literal[
    "verified", "partial", "contested", "unverified", "deferred", "common_knowledge", "personal"
]
Impact = Literal["minor", "moderate", "major"]
Scope = Literal["user", "project"]
ShareMode = Literal["read", "continue"]

# Words of results only.
UnitStatus = Literal[
    "pending", "running", "blocked", "failed", "timed_out", "done", "needs_review", "skipped"
]
Checkpoint = Literal["pending", "passed", "failed", "overridden", "rolled_back"]
ProofState = Literal["passed", "failed", "fresh", "stale", "not checked"]
Life = Literal["alive", "dead", "unknown"]
