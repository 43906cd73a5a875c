"""Facts: what the files of a layout say of a session, in our own words.

Every layout reads its files into `Facts` and writes facts back into its files, so that two
layouts never need to know each other and the journal needs to know none of them. Moments are UTC
milliseconds, fractions lie between 0 and 1, statuses are the canonical words of `SESSION` and
`UNIT`; a field that a file does not speak about keeps its default.

What has no field here and no event kind, but is a single value, is an *attribute* under a dotted
name that begins with its layout (`essay.pushback_level`). What is not even that stays in the file:
writing keeps every key it does not know.

A step without an `id` is known by its title alone: `pending_tasks` is a list of sentences.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set
from functools import cache, lru_cache
from typing import Any, TypeVar

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields, replace

from forestay.formats.diff import both, pair

SESSION = ("created", "active", "paused", "completed", "failed", "aborted", "abandoned")
UNIT = (
    "pending",
    "running",
    "done",
    "failed",
    "blocked",
    "timed_out",
    "needs_review",
    "skipped",
)

_WORD = re.compile(r"\w+")
_APART = re.compile(r"\W")
_SECRET = re.compile(r"\[redacted:[\w-]+\]")
Scalar = str | int | float | bool | None


class StepFact(Struct, omit_defaults=True):
    """A phase, task, stage or section; `parent` is the id of the step around it."""

    title: str
    id: str = ""
    unit: str = "task"
    parent: str = ""
    status: str = "pending"
    agent: str = ""
    outcome: str = ""
    because: str = ""
    files: list[str] = []
    started_at: int | None = None
    ended_at: int | None = None
    fraction: float | None = None
    paused_ms: int | None = None
    """How much of the time between start and end the session was paused."""


class AgentFact(Struct, omit_defaults=True):
    id: str
    type: str = ""
    task: str = ""
    status: str = "running"
    started_at: int | None = None
    ended_at: int | None = None
    fraction: float | None = None
    result: str = ""
    error: str = ""
    category: str = ""
    retries: int = 0
    retried_at: int | None = None
    blocking_on: str = ""
    tokens: int | None = None
    created: list[str] = []
    modified: list[str] = []
    deleted: list[str] = []


_Timed = TypeVar("_Timed", StepFact, AgentFact)


def with_told_times(fact: _Timed, said: _Timed | None) -> _Timed:
    """With the times that a file tells beside a status that has none: no event can say them, and
    so nothing that happened took them away."""
    if said is None or fact.status != said.status or fact.status not in ("pending", "running"):
        return fact
    began = said.started_at if fact.status == "pending" else None
    return replace(
        fact,
        started_at=began if fact.started_at is None else fact.started_at,
        ended_at=said.ended_at if fact.ended_at is None else fact.ended_at,
    )


class DecisionFact(Struct, omit_defaults=True):
    what: str
    because: str = ""
    options: list[str] = []
    chosen: str = ""
    at: int | None = None


def in_one_text(what: str, chosen: str) -> str:
    """A decision where there is no place for what was chosen."""
    return f"{what}: {chosen}" if chosen else what


def in_parts(decision: DecisionFact) -> DecisionFact:
    """A decision of which it is known what there was to choose from, and whose text may tell what
    was chosen."""
    for option in (decision.chosen, *decision.options):
        what = decision.what.removesuffix(f": {option}")
        if what and in_one_text(what, option) == decision.what != what:
            return replace(decision, what=what, chosen=option)
    return decision


def alike(one: str, other: str) -> float:
    """How much two texts have in common, by their words: from 0 to 1. What stands for a secret is
    none of them: it is the same for all."""
    if one == other:
        return 1.0
    words, others = _words(one), _words(other)
    return 2 * len(words & others) / max(1, len(words) + len(others))


@lru_cache(maxsize=4096)
def _words(text: str) -> frozenset[str]:
    # Where many things took the place of many, each is compared with each, for each rendering.
    return frozenset(_WORD.findall(_SECRET.sub(" ", text).casefold()))


def beginnings(texts: Iterable[str], known: Set[str]) -> dict[str, list[str]]:
    """Texts that go on from known ones, each with those, the shortest first."""
    # By their sizes: a long text has too many beginnings to look at each.
    sizes = sorted(set(map(len, known)))
    found = {
        text: [start for n in sizes if _APART.match(text, n) and (start := text[:n]) in known]
        for text in texts
    }
    return {text: starts for text, starts in found.items() if starts}


class FileFact(Struct, omit_defaults=True):
    """One change of one file; a file that changed twice is two of these."""

    path: str
    action: str = "modified"
    agent: str = ""
    at: int | None = None
    added: int | None = None
    removed: int | None = None
    before: str = ""
    after: str = ""


class CommandFact(Struct, omit_defaults=True):
    name: str
    arguments: str = ""
    status: str = "success"
    duration_ms: int | None = None
    error: str = ""
    agent: str = ""
    task: str = ""
    model: str = ""
    at: int | None = None


class ErrorFact(Struct, omit_defaults=True):
    message: str
    category: str = ""
    agent: str = ""
    at: int | None = None


class CheckpointFact(Struct, omit_defaults=True):
    """The verdict on a phase: `passed`, `failed`, `pending` or `skipped`, with its evidence."""

    step: str
    verdict: str
    evidence: dict[str, Any] = {}
    issue: str = ""
    at: int | None = None


class ClaimFact(Struct, omit_defaults=True):
    """A claim put off, or (with a `result`) one that the user let stand against the checker."""

    text: str
    reason: str = ""
    section: int | None = None
    paragraph: int | None = None
    resolved: bool = False
    result: str = ""
    because: str = ""
    at: int | None = None


class RevisitFact(Struct, omit_defaults=True):
    """That somebody went back to a step; `archived` are the files that became versions by it."""

    step: str
    because: str = ""
    impact: str = ""
    archived: list[str] = []
    at: int | None = None


class NoteFact(Struct, omit_defaults=True):
    text: str
    at: int | None = None


class UpdateFact(Struct, omit_defaults=True):
    """That something was recorded, for a log with a line for all of it; read from no file."""

    kind: str
    agent: str = ""
    at: int = 0


class Facts(Struct, omit_defaults=True):
    """Everything that the files of one session say."""

    native_id: str = ""
    goal: str = ""
    status: str = "active"
    mode: str = ""
    model: str = ""
    progress: float | None = None
    began_at: int | None = None
    updated_at: int | None = None
    ended_at: int | None = None
    paused_at: int | None = None
    pause_reason: str = ""
    pause_context: str = ""
    resumed_at: int | None = None
    resumes: int = 0
    because: str = ""
    device: str = ""
    project: str = ""
    project_path: str = ""
    git_branch: str = ""
    git_commit: str = ""
    workflow: str = ""
    workflow_version: str = ""
    target: str = ""
    plan_total: int | None = None
    plan_base: int | None = None
    position: str = ""
    """The id of the step, or agent, that is being worked on."""
    steps: list[StepFact] = []
    agents: list[AgentFact] = []
    decisions: list[DecisionFact] = []
    files: list[FileFact] = []
    commands: list[CommandFact] = []
    updates: list[UpdateFact] = []
    errors: list[ErrorFact] = []
    checkpoints: list[CheckpointFact] = []
    claims: list[ClaimFact] = []
    revisits: list[RevisitFact] = []
    notes: list[NoteFact] = []
    artifacts: list[str] = []
    tokens: int | None = None
    compressions: int | None = None
    compressed_at: int | None = None
    tokens_by_agent: dict[str, int] = {}
    attributes: dict[str, Scalar] = {}


def things(facts: Facts) -> int:
    """Of how many things some facts tell, each of which has to be compared with what was."""
    told: list[list[Any] | dict[str, Any]] = [
        facts.steps,
        facts.agents,
        facts.decisions,
        facts.files,
    ]
    told += [facts.errors, facts.checkpoints, facts.claims, facts.revisits, facts.notes]
    told += [facts.artifacts, facts.tokens_by_agent, facts.attributes]
    return sum(map(len, told))


def plain(value: Any) -> Any:
    """Facts as plain values, in the order of their fields, without those that say nothing.

    Equal facts give equal values: `omit_defaults` alone leaves a field out only where it holds
    the very object that is its default.
    """
    if isinstance(value, Struct):
        told = ((name, getattr(value, name), default) for name, default in _fields(type(value)))
        return {name: plain(v) for name, v, default in told if v != default}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


@cache
def _fields(kind: type[Struct]) -> list[tuple[str, Any]]:
    """Names and what they hold when they say nothing; looking that up is slow."""
    return [(f.name, _default(f)) for f in fields(kind)]


def _default(field: Any) -> Any:
    if field.required:
        return NODEFAULT
    return field.default if field.default is not NODEFAULT else field.default_factory()


def new_revisits(known: Sequence[RevisitFact], told: Sequence[RevisitFact]) -> list[RevisitFact]:
    """Those that are not known yet. A revisit is known by its reason and its time, else by either:
    of one that is told in other words, or at another time, nobody said that it happened again."""
    passes = both(
        lambda revisit: (revisit.step, revisit.because, _second(revisit)),
        lambda revisit: (revisit.step, revisit.because),
        lambda revisit: (revisit.step, _second(revisit)),
    )
    again = set(pair(known, told, passes).values())
    return [revisit for place, revisit in enumerate(told) if place not in again]


def _second(revisit: RevisitFact) -> int | None:
    return None if revisit.at is None else revisit.at // 1000
