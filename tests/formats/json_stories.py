"""For formats that are one JSON file: junk, documents with some junk in them, facts, places."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from forestay.formats.coerce import copied
from forestay.formats.facts import SESSION, UNIT, AgentFact, DecisionFact, Facts, FileFact, StepFact

ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    1,
    -1,
    0.5,
    65,
    10**30,
    "",
    " ",
    "custom",
    "unknown",
    "in_progress",
    "completed",
    "2026-01-17T14:30:00Z",
    "2026-01-17 14:30:00.5+05:30",
    "2026-01-17T14:30",
    "2026-02-30T00:00:00.000Z",
    "arch-1",
    [],
    {},
    [None, "a", 7],
    ["a", "a"],
    {"task": "a", "id": "arch-1"},
)
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
)
junk = st.recursive(
    scalars | st.sampled_from(ODD),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)

words = st.text(st.characters(codec="utf-8", min_codepoint=32), min_size=1, max_size=12)
filled = words.filter(lambda text: text.strip() != "")
moments = st.integers(1, 4_000_000_000).map(lambda second: second * 1000)
maybe = st.none() | moments
fractions = st.none() | st.integers(0, 100).map(lambda percent: percent / 100)
counts = st.none() | st.integers(0, 10**9)
names = st.lists(filled, max_size=2)

steps = st.builds(StepFact, title=filled, status=st.sampled_from(UNIT))


def _only_failed_have_errors(agent: AgentFact) -> AgentFact:
    if agent.status in ("failed", "timed_out") and agent.error:
        return agent
    return replace(agent, error="", category="", retries=0)


agents = st.builds(
    AgentFact,
    id=st.sampled_from(("arch-1", "code-1", "test-1", "doc-1")),
    type=filled.filter(lambda text: text != "custom"),
    status=st.sampled_from(UNIT),
    started_at=maybe,
    ended_at=maybe,
    fraction=fractions,
    result=st.just("") | filled,
    error=st.just("") | filled,
    category=st.sampled_from(("", "transient")),
    retries=st.integers(0, 3),
    tokens=counts,
).map(_only_failed_have_errors)
decisions = st.builds(DecisionFact, what=filled, because=st.just("") | filled, at=moments)
files = st.builds(
    FileFact,
    path=filled,
    action=st.sampled_from(("created", "modified", "deleted")),
    agent=st.sampled_from(("", "arch-1")),
    at=moments,
    added=counts,
    removed=counts,
    after=st.sampled_from(("", "ab" * 32)),
)
facts = st.builds(
    Facts,
    native_id=st.just("0b2f9d1e-5a77-4c11-9d2e-8a1f00c0ffee"),
    goal=filled.filter(lambda text: text != "No goal given"),
    status=st.sampled_from(SESSION),
    mode=st.sampled_from(("debug", "default", "optimize", "release")),
    progress=fractions,
    began_at=moments,
    updated_at=moments,
    device=filled.filter(lambda text: text != "unknown"),
    project=filled,
    project_path=filled.map(lambda text: f"/projects/{text}"),
    git_branch=filled,
    git_commit=st.just("a" * 40),
    steps=st.lists(steps, max_size=4),
    agents=st.lists(agents, max_size=3, unique_by=lambda agent: agent.id),
    decisions=st.lists(decisions, max_size=3),
    files=st.lists(files, max_size=3),
    tokens=st.integers(0, 10**9),
    compressions=st.integers(0, 9),
    compressed_at=maybe,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value inside, the whole among them."""
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [path, *(place for key, each in inner for place in places(each, (*path, key)))]


@st.composite
def mutants(draw: st.DrawFn, document: Any, most: int = 4) -> Any:
    """A document with some values replaced, removed or added anywhere."""
    made = copied(document)
    for _ in range(draw(st.integers(1, most))):
        # Hypothesis shrinks towards the first place: the whole document is therefore the last.
        path = draw(st.sampled_from([*places(made)[1:], ()]))
        if path:
            _mutate(draw, made, path)
    return made


def _mutate(draw: st.DrawFn, made: Any, path: tuple[Any, ...]) -> None:
    *way, key = path
    parent = made
    for step in way:
        parent = parent[step]
    what = draw(st.sampled_from(("replace", "remove", "add")))
    if what == "replace":
        parent[key] = copied(draw(junk))
    elif what == "remove":
        del parent[key]
    elif isinstance(parent, dict):
        parent[draw(st.sampled_from(("extra", "forestay", "progress", "status")))] = copied(
            draw(junk)
        )
    else:
        parent.insert(key, copied(parent[key]) if draw(st.booleans()) else copied(draw(junk)))


WRONG_KIND = {"text": 7, "stamp": "soon", "number": "7", "boolean": "yes", "list": {}, "object": []}
"""For what a value may be, one of another kind."""


def at(document: Any, place: str) -> tuple[Any, Any]:
    """The container and the last key of a place such as `agents[0].id`."""
    *way, last = (int(key) if key.isdigit() else key for key in re.findall(r"\w+", place))
    for key in way:
        document = document[key]
    return document, last


def changed(document: Any, place: str, value: Any) -> Any:
    """Return a copy with one value changed; the value `...` removes the key."""
    made = copied(document)
    node, key = at(made, place)
    if value is ...:
        del node[key]
    else:
        node[key] = value
    return made


def facts_for(known: Facts) -> st.SearchStrategy[Facts]:
    """Facts about the session of some facts: its steps in other statuses, and other figures."""

    def changed(other: Facts, statuses: list[str]) -> Facts:
        pairs = zip(known.steps, statuses, strict=True)
        return replace(
            other,
            native_id=known.native_id,
            steps=[replace(step, status=status) for step, status in pairs],
            agents=[agent for agent in other.agents if agent.status != "pending"],
            plan_total=known.plan_total,
            plan_base=known.plan_base,
            files=[],
        )

    count = len(known.steps)
    statuses = st.lists(st.sampled_from(UNIT), min_size=count, max_size=count)
    return st.builds(changed, facts, statuses)


def core(facts: Facts) -> Any:
    """Return the facts that every write replaces in a file of any format.

    The status of the session is not among them: a format without a word for it reads it from
    other fields, such as the errors that a file already has.
    """
    # A step with steps inside has no status field in some formats: it follows from those.
    parents = {step.parent for step in facts.steps}
    inner = (step for step in facts.steps if not step.id or step.id not in parents)
    steps = sorted((step.title, step.status) for step in inner)
    agents = {agent.id: agent.status for agent in facts.agents}
    others = facts.mode, facts.tokens, facts.git_branch, facts.project_path
    return steps, agents, others
