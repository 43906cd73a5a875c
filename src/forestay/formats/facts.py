"""Facts: the content of a session's files, in terms that all formats share.

Every format reads its files into `Facts` and writes facts back into its files, so no format needs
to know another one, and the journal needs to know none. Times are UTC milliseconds, fractions lie
between 0 and 1, statuses are words of `SESSION` and `UNIT`. A field that a file does not have gets
its default.

A single value for which there is no field and no event kind is an *attribute*: its dotted name
begins with its format (`essay.pushback_level`). Everything else stays in the file, because writing
preserves unknown keys.

A step without an `id` is identified by its title, because some files list tasks as sentences.
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
    """How long the session was paused between start and end, in milliseconds."""


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


def with_stated_times(fact: _Timed, stated: _Timed | None) -> _Timed:
    """Return a fact with those times of the file that contradict its status, such as an early end.

    No event records such times, so they are copied from `stated`, the fact in the file.
    """
    if stated is None or fact.status != stated.status or fact.status not in ("pending", "running"):
        return fact
    began = stated.started_at if fact.status == "pending" else None
    return replace(
        fact,
        started_at=began if fact.started_at is None else fact.started_at,
        ended_at=stated.ended_at if fact.ended_at is None else fact.ended_at,
    )


class DecisionFact(Struct, omit_defaults=True):
    what: str
    because: str = ""
    options: list[str] = []
    chosen: str = ""
    at: int | None = None


def join_choice(what: str, chosen: str) -> str:
    """Return a decision and its choice as one text, for formats without a field for the choice."""
    return f"{what}: {chosen}" if chosen else what


def split_choice(decision: DecisionFact) -> DecisionFact:
    """Return a decision with its choice split from its text, if the text ends with an option."""
    for option in (decision.chosen, *decision.options):
        what = decision.what.removesuffix(f": {option}")
        if what and join_choice(what, option) == decision.what != what:
            return replace(decision, what=what, chosen=option)
    return decision


def alike(one: str, other: str) -> float:
    """Return the share of words that two texts have in common, from 0 to 1.

    Placeholders of secrets do not count, because they are equal for different secrets.
    """
    if one == other:
        return 1.0
    words, others = _words(one), _words(other)
    return 2 * len(words & others) / max(1, len(words) + len(others))


@lru_cache(maxsize=4096)
def _words(text: str) -> frozenset[str]:
    # Cached, because every rendering can compare each text with each other one.
    return frozenset(_WORD.findall(_SECRET.sub(" ", text).casefold()))


def find_known_prefixes(texts: Iterable[str], known: Set[str]) -> dict[str, list[str]]:
    """Return text → the known texts that it begins with, shortest first; omit other texts."""
    # Try only prefixes of the lengths that known texts have: a long text has too many others.
    sizes = sorted(set(map(len, known)))
    found = {
        text: [start for n in sizes if _APART.match(text, n) and (start := text[:n]) in known]
        for text in texts
    }
    return {text: starts for text, starts in found.items() if starts}


class FileFact(Struct, omit_defaults=True):
    """One change of one file; a file that changed twice has two of these."""

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
    """A deferred claim, or (with a `result`) one that the user accepted against the checker."""

    text: str
    reason: str = ""
    section: int | None = None
    paragraph: int | None = None
    resolved: bool = False
    result: str = ""
    because: str = ""
    at: int | None = None


class RevisitFact(Struct, omit_defaults=True):
    """A return to an earlier step; `archived` are the files that were stored as old versions."""

    step: str
    because: str = ""
    impact: str = ""
    archived: list[str] = []
    at: int | None = None


class NoteFact(Struct, omit_defaults=True):
    text: str
    at: int | None = None


class UpdateFact(Struct, omit_defaults=True):
    """One recorded event, to be written to files that log all events; never read from them."""

    kind: str
    agent: str = ""
    at: int = 0


class Facts(Struct, omit_defaults=True):
    """The content of the files of one session."""

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
    """The id of the step or agent that the session is working on."""
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


def count_elements(facts: Facts) -> int:
    """Return the number of elements in the lists and maps of some facts."""
    lists: list[list[Any] | dict[str, Any]] = [facts.steps, facts.agents, facts.decisions]
    lists += [facts.files, facts.errors, facts.checkpoints, facts.claims, facts.revisits]
    lists += [facts.notes, facts.artifacts, facts.tokens_by_agent, facts.attributes]
    return sum(map(len, lists))


def plain(value: Any) -> Any:
    """Return facts as plain values, in the order of their fields, without defaults.

    Equal facts give equal values. `omit_defaults` is not enough for that: it leaves a field out
    only if it holds the very object that is its default.
    """
    if isinstance(value, Struct):
        values = ((name, getattr(value, name), default) for name, default in _fields(type(value)))
        return {name: plain(v) for name, v, default in values if v != default}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


@cache
def _fields(kind: type[Struct]) -> list[tuple[str, Any]]:
    """Return the names and defaults of fields; cached, because the lookup is slow."""
    return [(f.name, _default(f)) for f in fields(kind)]


def _default(field: Any) -> Any:
    if field.required:
        return NODEFAULT
    return field.default if field.default is not NODEFAULT else field.default_factory()


def new_revisits(known: Sequence[RevisitFact], found: Sequence[RevisitFact]) -> list[RevisitFact]:
    """Return the revisits in `found` that are not in `known`.

    A revisit is matched by its reason and time, else by one of the two: if only its reason or time
    was edited, it is not a new one.
    """
    passes = both(
        lambda revisit: (revisit.step, revisit.because, _second(revisit)),
        lambda revisit: (revisit.step, revisit.because),
        lambda revisit: (revisit.step, _second(revisit)),
    )
    again = set(pair(known, found, passes).values())
    return [revisit for place, revisit in enumerate(found) if place not in again]


def _second(revisit: RevisitFact) -> int | None:
    return None if revisit.at is None else revisit.at // 1000
