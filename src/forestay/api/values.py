"""Results of the library, typed: a field is an attribute, a time is a `datetime`.

A value wraps the object that the command line prints with `--json`, and converts a field when it is
read: `status` and `list` run at every prompt, and most callers read few fields.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any, ClassVar, Literal

    from forestay.api.words import Status

    Life = Literal["alive", "dead", "unknown"]
    TaskStatus = Literal["pending", "running", "review", "blocked", "failed", "done", "skipped"]
    AgentWord = Literal["running", "done", "failed", "timed_out", "unknown"]


class Value:
    """A result. `as_json()` returns the object that the command line prints for it."""

    __slots__ = ("_values",)
    _values: dict[str, Any]

    _times: frozenset[str] = frozenset()
    """Fields that are a `datetime`."""
    _parts: ClassVar[dict[str, type[Value]]] = {}
    """Fields that are a value, or a list of values."""
    _defaults: ClassVar[dict[str, object]] = {}
    """Fields that may be missing."""

    def __init__(self, values: dict[str, Any]) -> None:
        object.__setattr__(self, "_values", values)

    if not TYPE_CHECKING:  # a type checker knows only the declared fields

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            if name not in self._values:
                if name in self._defaults:
                    return self._defaults[name]
                raise AttributeError(f"{type(self).__name__} has no field {name}")
            value = self._values[name]
            if value is None:
                return None
            if name in self._times:
                from datetime import UTC, datetime  # start-up

                if isinstance(value, int):
                    return datetime.fromtimestamp(value / 1000, UTC)
                return datetime.fromisoformat(value)
            if part := self._parts.get(name):
                return [part(one) for one in value] if isinstance(value, list) else part(value)
            return value

        def __setattr__(self, name: str, value: object) -> None:
            raise AttributeError(f"{type(self).__name__} cannot be changed")

    def as_json(self) -> dict[str, Any]:
        """Return the fields as the command line prints them, with times as text."""
        return dict(self._values)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._values == self._values

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._values!r})"


class Holder(Value):
    """A process that works on a session, or did; `state` is whether it is alive."""

    name: str
    agent: str
    doing: str
    pid: int
    since: datetime
    state: Life

    _times = frozenset({"since"})


class SessionListing(Value):
    """One session, as a list shows it."""

    session: str
    status: Status
    goal: str
    progress: float
    progress_from: str
    seq: int
    next: str
    attention: list[str]
    archived: bool
    project: str
    began_at: datetime | None
    updated_at: datetime | None

    _times = frozenset({"began_at", "updated_at"})


class StepCounts(Value):
    """How many tasks there are."""

    done: int
    skipped: int
    total: int


class AgentCounts(Value):
    """How many agents there are; `died` are those whose process ended without a result."""

    running: int
    done: int
    failed: int
    died: int

    _defaults: ClassVar[dict[str, object]] = {"died": 0}


class PlanStatus(Value):
    """The status of a session's plan; `total` is None until it is known."""

    unit: Literal["phase", "stage"]
    current: int
    name: str
    total: int | None
    starting: int
    completed: list[int]
    checkpoints: dict[str, str]
    failed: int | None
    issue: str


class PlanTiming(Value):
    """How long the plan takes, in seconds of active work; None where it cannot be known."""

    status: str
    percent_complete: float | None
    phases_remaining: int | None
    avg_phase_duration: float | None
    estimated_remaining: float | None
    time_in_phase: float | None
    is_stalled: bool
    started_at: datetime | None
    previous: list[Any]

    _times = frozenset({"started_at"})


class SuspendedFile(Value):
    """A file of the session that is neither read nor written now, and why."""

    layout: str
    path: str
    why: str


class SessionStatus(SessionListing):
    """The status of one session."""

    running: list[str]
    unknown: list[str]
    steps: StepCounts
    agents: AgentCounts
    tokens: int
    paused_at: datetime | None
    paused_ms: int
    paused_reason: str
    resumes: int
    holders: list[Holder]
    doing: str
    workflow: str | None
    target: str | None
    phase: PlanStatus | None
    timing: PlanTiming | None
    context: list[str]
    suspended: list[SuspendedFile]

    _times = frozenset({"began_at", "updated_at", "paused_at"})
    _parts: ClassVar[dict[str, type[Value]]] = {
        "steps": StepCounts,
        "agents": AgentCounts,
        "holders": Holder,
        "phase": PlanStatus,
        "timing": PlanTiming,
        "suspended": SuspendedFile,
    }
    _defaults: ClassVar[dict[str, object]] = {"suspended": []}


class SearchResult(Value):
    """An event in which all the words occur, with its session."""

    session: str
    goal: str
    project: str
    seq: int
    kind: str
    snippet: str


class KeyInfo(Value):
    """What is known of this device's key; none of it is secret.

    From `name` on, fields are None while the key is locked or belongs to no device group.
    """

    id: str
    kept: str
    made: datetime
    file: str
    recipient: str
    circle: str | None
    circle_fingerprint: str | None
    locked: bool
    name: str | None
    active: bool | None
    person: str | None
    person_fingerprint: str | None
    epoch: int | None

    _times = frozenset({"made"})
    _defaults: ClassVar[dict[str, object]] = {
        "locked": False,
        **dict.fromkeys(("name", "active", "person", "person_fingerprint", "epoch")),
    }


class ArchivedSession(Value):
    """An archived orchestrator session; `created` is the text of its file."""

    id: str
    goal: str
    status: str
    created: str
    path: str
