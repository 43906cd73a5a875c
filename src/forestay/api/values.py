"""Result classes of the public library; see `base.value`. Further ones are in their rooms."""

from __future__ import annotations

from forestay.base.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any, ClassVar, Literal

    from forestay.base.words import (
        Category,
        FileAction,
        Life,
        Mode,
        ShareMode,
        Status,
        UnitStatus,
    )


class Holder(Value):
    """A process that works on a session, or did; `state` is whether it is alive."""

    name: str
    agent: str
    doing: str
    pid: int
    since: datetime
    state: Life


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
    previous: list[float]


class SuspendedFile(Value):
    """A file of the session that is neither read nor written now, and why."""

    format: str
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


class SearchResult(Value):
    """An event in which all the words occur, with its session."""

    session: str
    goal: str
    project: str
    seq: int
    kind: str
    snippet: str


class KeyInfo(Value):
    """Public facts about this device's key, and where it is stored.

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


class ArchivedSession(Value):
    """An archived orchestrator session; `created` is the text of its file."""

    id: str
    goal: str
    status: str
    created: str
    path: str


class TaskInfo(Value):
    """A task of a session; `phase` is the task that it is a part of."""

    id: str
    title: str
    status: UnitStatus
    agent: str
    because: str
    outcome: str
    started_at: datetime | None
    ended_at: datetime | None
    progress: float | None
    phase: str
    files: list[str]

    _renamed: ClassVar[dict[str, str]] = {"progress": "fraction", "phase": "parent"}

    @property
    def is_open(self) -> bool:
        """Whether it is neither done nor skipped."""
        return bool(self._source.is_open)


class AgentInfo(Value):
    """An agent of a session."""

    id: str
    type: str
    task: str
    status: UnitStatus
    blocking_on: str
    result: str
    error: str
    category: Category | Literal["", "interrupted"]
    tokens: int
    started_at: datetime | None
    ended_at: datetime | None
    progress: float | None

    _renamed: ClassVar[dict[str, str]] = {"progress": "fraction"}

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return bool(self._source.is_open)


class DecisionInfo(Value):
    """A decision; `rejected` are the options that were not chosen."""

    id: str
    what: str
    because: str
    options: list[str]
    chosen: str
    rejected: list[str]
    by: str
    at: datetime


class NoteInfo(Value):
    """A note for the next agent."""

    text: str
    by: str
    at: datetime


class FileInfo(Value):
    """A file that changed in a session, with its SHA-256 before and after."""

    path: str
    action: FileAction
    agent: str
    changes: int
    before: str
    after: str
    at: datetime


class ArtifactInfo(Value):
    """A file that is stored with a session; only its digest is if it contains secrets."""

    path: str
    digest: str
    size: int
    kept: bool
    versions: int
    at: datetime


class ErrorInfo(Value):
    """An error that was recorded."""

    message: str
    category: Category
    agent: str
    at: datetime


class SessionState(Value):
    """The state of a session at a point, with what was recorded until then."""

    session: str
    status: Status
    goal: str
    mode: Mode
    model: str
    because: str
    git_branch: str
    git_commit: str
    archived: bool
    forgotten: bool
    resumes: int
    tokens: int
    seq: int
    began_at: datetime | None
    updated_at: datetime | None
    paused_at: datetime | None
    ended_at: datetime | None
    tasks: list[TaskInfo]
    agents: list[AgentInfo]
    decisions: list[DecisionInfo]
    notes: list[NoteInfo]
    files: list[FileInfo]
    artifacts: list[ArtifactInfo]
    errors: list[ErrorInfo]

    _renamed: ClassVar[dict[str, str]] = {"seq": "events", "tokens": "tokens_used"}
    _tables: ClassVar[dict[str, str]] = {
        "tasks": "step",
        "agents": "agent",
        "decisions": "decision",
        "notes": "note",
        "files": "file",
        "artifacts": "artifact",
        "errors": "error",
    }

    def _raw(self, name: str) -> Any:
        if table := self._tables.get(name):
            return list(self._source.rows.select(table))
        return getattr(self._source.core, self._renamed.get(name, name))

    def as_json(self) -> dict[str, Any]:
        """Return the whole state, as `show --json` prints it."""
        from forestay.journal.history import state_to_json  # start-up

        return state_to_json(self._source)


class RemoteInfo(Value):
    """A remote, with the result of the last attempt to sync; `care` names features it lacks."""

    name: str
    address: str
    result: str | None
    error: str | None
    care: str | None
    added_at: datetime
    synced_at: datetime | None

    _renamed: ClassVar[dict[str, str]] = {
        "care": "probe",
        "added_at": "added",
        "synced_at": "synced",
    }


class DeviceInfo(Value):
    """A device of the user; in a list, `this` is whether it is the one in use."""

    key: str
    name: str
    active: bool
    added: datetime
    revoked: datetime | None
    this: bool


class DeviceGroupInfo(Value):
    """The devices of the user, as this device knows them."""

    circle: str
    fingerprint: str
    devices: list[DeviceInfo]


class Delivery(Value):
    """Whether a change reached a remote; `error` is None if it did."""

    remote: str
    error: str | None


class DeviceChange(Value):
    """A device group after a change: the device concerned, and which remotes have the change.

    `recovery` is a new recovery code, to be shown once; it is not stored.
    """

    circle: str
    fingerprint: str
    epoch: int
    device: DeviceInfo
    recovery: str
    remotes: list[Delivery]

    def __repr__(self) -> str:
        return f"DeviceChange({self.device!r})"  # without the recovery code


class MemberInfo(Value):
    """A person with whom a session is shared, by their device group."""

    circle: str
    email: str
    mode: ShareMode
    since: datetime


class SharingInfo(Value):
    """The persons with whom a session is shared, and which remotes have the last change.

    `owner` is the device group that owns the session; empty if it is the user's own session.
    """

    session: str
    owner: str
    members: list[MemberInfo]
    remotes: list[Delivery]


class SideInfo(Value):
    """The value that one device gave to a disputed field; `number` counts from 1."""

    number: int
    outcome: str
    said: str
    device: str
    by: str
    event: str | None
    at: datetime | None


class DisputeInfo(Value):
    """An open dispute; `recommended` is the number of the newer side, for the reason `why`."""

    number: int
    subject: str
    about: str
    recommended: int
    why: str
    sides: list[SideInfo]

    _renamed: ClassVar[dict[str, str]] = {"recommended": "newer"}

    @property
    def kind(self) -> str:
        """What is disputed: `step`, `agent`, `decision`, `file`, `edit`, …"""
        return self.subject.partition(":")[0]


class DeviceViewInfo(Value):
    """What one device knew of the session when it last wrote."""

    device: str
    progress: float
    active_agents: list[str]
    events: int
    last_modified: datetime


class CommandResult(Value):
    """A command in a session file."""

    command: str
    status: str
    duration_ms: int | None

    _renamed: ClassVar[dict[str, str]] = {"command": "name"}


class FeatureReport(Value):
    """A session of the ai-session format in figures; printed, it is a report for people."""

    feature_id: str
    status: str
    health: str
    active_task: str
    model: str
    started_at: datetime | None
    last_updated: datetime | None
    tasks_done: int
    tasks_total: int
    percent: int
    commands: dict[str, int]
    models: dict[str, int]
    failures: int
    average_ms: int
    total_ms: int
    last: list[CommandResult]
    artifacts: dict[str, int]

    def __str__(self) -> str:
        return str(self._source)


class TranscriptInfo(Value):
    """The result of adopting one transcript; `missed` counts what could not be parsed, by kind."""

    agent: str
    native: str
    path: str
    folder: str
    session: str
    outcome: str
    goal: str
    began_at: datetime | None
    last_at: datetime | None
    events: int
    missed: dict[str, int]
    problems: list[str]

    _renamed: ClassVar[dict[str, str]] = {"began_at": "began", "last_at": "last"}


class Setting(Value):
    """A setting, and where its value is from: a file, a variable, an argument or the default."""

    value: str | int | float | bool | list[str]
    origin: str
