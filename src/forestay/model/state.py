"""State: the result of folding a journal.

State has two parts. `core` is small and of bounded size: status, goal, counters, the heads of
the chains. `rows` are the units of work (steps, agents, files, decisions, …), one row each,
reached through a small interface so that a store can hold them in tables next to the journal and
the pure tests in a dict. That is why appending costs the same at ten and at a hundred thousand
events: an event changes the core and the one or two rows it is about.

Rows are values: a change replaces the old row by a new one. `fold` computes all of this.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace

FOLD_VERSION = 14
"""Raised when the effect of events changes: stored states of another version are folded again."""
CLOSED_UNITS = frozenset({"done", "skipped"})
POSITION = "position"
"""The attribute that names the step being worked on."""
CHECKOUT = "checkout"
"""The attribute that names the branch and commit checked out: `BRANCH COMMIT`."""
UNITS = ("phase", "stage")
"""What the steps of a plan are called, in their ids before the number of the phase: `phase-3`."""
_MOST_DIGITS = 6


def number_of(step_id: str) -> int | None:
    """Return the number of the phase that a step's id names."""
    unit, _, digits = step_id.partition("-")
    if unit not in UNITS or not 0 < len(digits) <= _MOST_DIGITS or not digits.isascii():
        return None
    return int(digits) if digits.isdecimal() and str(int(digits)) == digits else None


def last_number(base: int, total: int | None) -> int | None:
    """Return the number of the last phase, or None while the total is not known."""
    return None if total is None else base + total - 1


class Chain(Struct, array_like=True):
    """One device's part of the journal: its heads (n, hash, clock) and what it had seen."""

    heads: list[tuple[int, str, int]] = []
    seen: dict[str, list[int | str]] = {}


class Line(Struct, array_like=True, gc=False):
    """A recent note, command or message, in the core for the briefing; `device` as in `Row`."""

    event: str
    at: int
    by: str
    text: str
    device: str = ""


class Core(Struct, omit_defaults=True):
    """The bounded part of a state.

    `phase` is the current one of a plan, always one that exists. `phases_done` has for each
    completed phase how long it was worked on, in milliseconds, -1 if that is not known. `away_ms`
    is all time without work: pauses, and between an end and a reopening. `asked` is the last
    message of a user, `said` the last of the agent. `git_first` is the first commit that was known
    to be checked out, `git_commit` the last, `git_by` the device that recorded it. `git_there` is
    branch and commit of the previous device, until the session is paused or ends on this one.
    """

    session: str = ""
    status: str = ""
    goal: str = ""
    goal_by: str = ""
    goal_device: str = ""
    mode: str = "default"
    model: str = ""
    project: str = ""
    from_session: str = ""
    git_branch: str = ""
    git_commit: str = ""
    archived: bool = False
    forgotten: bool = False
    began_at: int = 0
    updated_at: int = 0
    paused_at: int = 0
    paused_ms: int = 0
    pause_reason: str = ""
    pause_context: str = ""
    resumes: int = 0
    ended_at: int = 0
    because: str = ""
    held: dict[str, str | int | bool] = {}
    progress: float | None = None
    workflow: str = ""
    plan_total: int | None = None
    plan_base: int = 1
    tokens: int = 0
    agent_tokens: int = 0
    compressions: int = 0
    compressed_at: int = 0
    summary: str = ""
    interrupted: str = ""
    events: int = 0
    clock: int = 0
    retracted: int = 0
    erased: int = 0
    needs: str = ""
    counts: dict[str, int] = {}
    unknown: dict[str, int] = {}
    redacted: dict[str, int] = {}
    notes: list[Line] = []
    commands: list[Line] = []
    pauses: list[Line] = []
    chains: dict[str, Chain] = {}
    tips: list[str] = []
    plan: str = ""
    plan_unit: str = "phase"
    plan_target: str = ""
    plan_version: str = ""
    phase: int | None = None
    phases_done: dict[int, int] = {}
    phase_verdicts: dict[int, str] = {}
    away_ms: int = 0
    asked: Line | None = None
    said: Line | None = None
    git_first: str = ""
    git_by: str = ""
    git_there: list[str] = []

    @property
    def is_phased(self) -> bool:
        """Return whether the session has a plan with phases."""
        return self.phase is not None

    def phase_of(self, step: str) -> int | None:
        """Return the number of the phase that a step stands for; None if it stands for none."""
        number = number_of(step)
        if self.phase is None or number is None or step != self.phase_step(number):
            return None
        last = last_number(self.plan_base, self.plan_total)
        return number if self.plan_base <= number <= (number if last is None else last) else None

    def phase_step(self, number: int) -> str:
        """Return the id of the step that stands for a phase."""
        return f"{self.plan_unit}-{number}"

    @property
    def tokens_used(self) -> int:
        """Return the tokens measured for the session, or else the sum of its agents."""
        return self.tokens or self.agent_tokens

    def count(self, name: str, by: int = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + by
        if not self.counts[name]:
            del self.counts[name]


class Row(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A unit outside the core. `rank` is its place in merge order: when it was added or changed.

    `device` is the chain that changed it last; empty while the session had only one chain.
    """

    KEY: ClassVar[str] = "id"

    rank: int = 0
    at: int = 0
    device: str = ""

    @property
    def name(self) -> str:
        """Return the row's key in its table."""
        value: str = getattr(self, self.KEY)
        return value

    @property
    def is_open(self) -> bool:
        return False

    @property
    def word(self) -> str:
        """Return the status counted in `core.counts`, or an empty string."""
        return ""


class Unit(Row, frozen=True):
    """What steps and agents have in common: one life, with one table of transitions."""

    id: str
    status: str = "pending"
    fraction: float | None = None
    because: str = ""
    started_at: int = 0
    ended_at: int = 0
    attempts: int = 0

    @property
    def is_open(self) -> bool:
        return self.status not in CLOSED_UNITS

    @property
    def word(self) -> str:
        return self.status


class Step(Unit, frozen=True):
    """`away_before` is the session's `away_ms` at the start, `paused_ms` how much it grew."""

    title: str = ""
    unit: str = "task"
    parent: str = ""
    agent: str = ""
    outcome: str = ""
    files: list[str] = []
    away_before: int = 0
    paused_ms: int = 0


class Agent(Unit, frozen=True):
    type: str = ""
    task: str = ""
    result: str = ""
    error: str = ""
    category: str = ""
    blocking_on: str = ""
    tokens: int = 0
    retried_at: int = 0
    is_planned: bool = False
    created: list[str] = []
    modified: list[str] = []
    deleted: list[str] = []

    @property
    def died(self) -> bool:
        """Return whether the agent's process was found dead, without an outcome recorded since."""
        return self.status == "failed" and self.category == "interrupted"


class Decision(Row, frozen=True):
    id: str
    event: str
    what: str
    because: str = ""
    options: list[str] = []
    chosen: str = ""
    rejected: list[str] = []
    by: str = ""


class File(Row, frozen=True):
    KEY: ClassVar[str] = "path"
    path: str
    action: str = "modified"
    agent: str = ""
    changes: int = 0
    before: str = ""
    after: str = ""


class Artifact(Row, frozen=True):
    KEY: ClassVar[str] = "path"
    path: str
    digest: str
    size: int = 0
    kept: bool = True
    versions: int = 1


class Note(Row, frozen=True):
    """A note for the next agent or user; other notes have no row, only an event."""

    KEY: ClassVar[str] = "event"

    event: str
    text: str
    by: str = ""


class Problem(Row, frozen=True):
    KEY: ClassVar[str] = "event"
    event: str
    message: str
    category: str = ""
    agent: str = ""


class Checkpoint(Row, frozen=True):
    """The verdict on a step. `tries` are the last ones as (verdict, when, issue)."""

    KEY: ClassVar[str] = "step"
    step: str
    verdict: str
    observed: bool = False
    evidence: dict[str, Any] = {}
    issue: str = ""
    because: str = ""
    attempts: int = 0
    tries: list[tuple[str, int, str]] = []
    blob: str = ""
    size: int = 0

    @property
    def word(self) -> str:
        return self.verdict


class Proof(Row, frozen=True):
    """The last run of a command as evidence. Whether it still holds is not stored."""

    id: str
    proof: str
    event: str
    argv: list[str]
    exit: int = 0
    step: str = ""
    duration_ms: int = 0
    output: str = ""
    tail: str = ""
    globs: list[str] = []
    blob: str = ""
    files: int = 0
    changed: bool = False
    timed_out: bool = False
    interrupted: bool = False
    folder: str = ""
    again: bool = True
    """Whether the command can be run again: no secret was removed from it."""
    by: str = ""

    @property
    def passed(self) -> bool:
        return not (self.exit or self.timed_out or self.interrupted)

    @property
    def word(self) -> str:
        return "passed" if self.passed else "failed"


def proof_key(step: str, proof: str) -> str:
    return f"{step} {proof}".strip()


class Claim(Row, frozen=True):
    id: str
    text: str
    reason: str = ""
    section: int | None = None
    paragraph: int | None = None
    result: str = ""
    because: str = ""
    resolved: bool = False

    @property
    def is_open(self) -> bool:
        return not self.resolved


class Attribute(Row, frozen=True):
    KEY: ClassVar[str] = "key"
    key: str
    value: str | int | float | bool | None = None


class Acknowledgment(Row, frozen=True):
    KEY: ClassVar[str] = "agent"
    agent: str
    version: str
    checksum: str


EDIT = "edit:"
"""Begins the subject of a dispute between a format file and the journal."""
CONFLICT = "conflict: "
"""Begins the cause of an edit that changed fields which had changed here too; names follow."""
ADOPTED_FROM = "adopted from "
"""Begins the cause of an edit that records adopted bytes; the short digest of a path follows,
and details of their format."""


class Edit(Row, frozen=True):
    """The last change that another program made to a format file."""

    KEY: ClassVar[str] = "path"

    format: str
    path: str
    digest: str
    cause: str = ""
    residue: str = ""


class Dispute(Row, frozen=True):
    """Concurrent statements that contradict each other; both sides are stored forever."""

    KEY: ClassVar[str] = "subject"

    subject: str
    sides: list[tuple[str, str, int, str]] = []
    settled_by: str = ""

    @property
    def is_open(self) -> bool:
        return not self.settled_by

    @property
    def word(self) -> str:
        return "open" if self.is_open else "settled"


TABLES: dict[str, type[Row]] = {
    "step": Step,
    "agent": Agent,
    "decision": Decision,
    "file": File,
    "artifact": Artifact,
    "note": Note,
    "error": Problem,
    "checkpoint": Checkpoint,
    "claim": Claim,
    "attribute": Attribute,
    "contract": Acknowledgment,
    "edit": Edit,
    "dispute": Dispute,
    "proof": Proof,
}


class Rows:
    """The rows of a state, in a dict; a store has its own, in its tables."""

    def __init__(self) -> None:
        self._tables: dict[str, dict[str, Row]] = {}

    def get(self, table: str, key: str) -> Row | None:
        return self._tables.get(table, {}).get(key)

    def put(self, table: str, key: str, row: Row) -> None:
        self._tables.setdefault(table, {})[key] = row

    def select(
        self, table: str, *, open_only: bool = False, newest: bool = False, limit: int = -1
    ) -> list[Row]:
        """Return rows of a table by rank; `newest` reverses the order; all if limit is below 0."""
        rows = [r for r in self._tables.get(table, {}).values() if r.is_open or not open_only]
        rows.sort(key=lambda row: (row.rank, row.name), reverse=newest)
        return rows if limit < 0 else rows[:limit]

    def items(self) -> Iterator[tuple[str, str, Row]]:
        for table, rows in self._tables.items():
            for key, row in rows.items():
                yield table, key, row


class State:
    """The fold of a journal: the core and the rows."""

    __slots__ = ("core", "rows", "writer")

    def __init__(self, core: Core | None = None, rows: Rows | None = None) -> None:
        self.core = core or Core()
        self.rows = rows or Rows()
        self.writer = ""
        """The chain whose event is being applied; empty while there is only one."""

    def step(self, key: str) -> Step | None:
        row = self.rows.get("step", key)
        return row if isinstance(row, Step) else None

    def agent(self, key: str) -> Agent | None:
        row = self.rows.get("agent", key)
        return row if isinstance(row, Agent) else None

    def open_dispute(self, subject: str = "session") -> Dispute | None:
        """Return the dispute that is open about a subject; by default, how the session ended."""
        row = self.rows.get("dispute", subject) if self.count("dispute.open") else None
        return row if isinstance(row, Dispute) and row.is_open else None

    def chosen(self, since: int) -> Step | None:
        """Return the open step that was named as current, if that was at `since` or later."""
        row = self._position(since)
        step = self.step(row.value) if row and isinstance(row.value, str) else None
        if step is None or not step.is_open:
            return None
        # The work may have moved to another phase since.
        is_left = self.core.phase_of(step.id) not in (None, self.core.phase)
        return None if is_left else step

    def elsewhere(self, since: int) -> str | None:
        """Return the name of the current work if it is no known step, "" if it was cleared.

        None if it is a known step, was never given, or was given before `since`.
        """
        row = self._position(since)
        if row and isinstance(row.value, str):
            return row.value if self.step(row.value) is None else None
        return "" if row and row.value is None else None

    def _position(self, since: int) -> Attribute | None:
        row = self.rows.get("attribute", POSITION) if self.count("attribute") else None
        return row if isinstance(row, Attribute) and row.at >= since else None

    def put(self, table: str, row: Row) -> None:
        """Store a row and update the counters of its table."""
        if row.device != self.writer:
            row = replace(row, device=self.writer)
        old = self.rows.get(table, row.name)
        self._count(table, old, row)
        if _is_phase(row):
            self._count("phase", old if _is_phase(old) else None, row)
        self.rows.put(table, row.name, row)

    def _count(self, table: str, old: Row | None, row: Row) -> None:
        count = self.core.count
        if old is None:
            count(table)
        elif old.word:
            count(f"{table}.{old.word}", -1)
        if row.word:
            count(f"{table}.{row.word}")

    def count(self, name: str) -> int:
        return self.core.counts.get(name, 0)

    @property
    def has_headings(self) -> bool:
        """Return whether phases only group tasks, because there is no plan to go through."""
        return 0 < self.count("phase") < self.count("step") and not self.core.is_phased

    def is_heading(self, row: Row) -> bool:
        return _is_phase(row) and self.has_headings

    def tasks(self, status: str = "") -> int:
        """Return how many tasks there are, or how many are in a status."""
        if "step" not in self.core.counts:
            return 0
        word = f".{status}" if status else ""
        phases = self.count(f"phase{word}") if self.has_headings else 0
        return self.count(f"step{word}") - phases


def _is_phase(row: Row | None) -> bool:
    return isinstance(row, Step) and row.unit == "phase"
