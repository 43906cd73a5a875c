"""Random sessions in the files of a format, as we and as other programs write them."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import yaml

from forestay.formats import carry_over
from forestay.formats.facts import (
    SESSION,
    UNIT,
    AgentFact,
    CheckpointFact,
    ClaimFact,
    CommandFact,
    DecisionFact,
    ErrorFact,
    Facts,
    FileFact,
    NoteFact,
    RevisitFact,
    StepFact,
)
from forestay.formats.port import load_format
from forestay.formats.text.document import fresh
from tests.formats.test_pairs import HERE, Files, kind

T0 = 1_769_853_600_000

WORDS = (
    "Write {}",
    "null {}",
    "- {}: # x",
    "{} \"q\" 'z'",
    "{}\nsecond line",
    "🎉 {} ü",
    "{}",
    "Phase {}",
)


def words(chance: Random) -> str:
    return chance.choice(WORDS).format(chance.choice("abcdefgh") + str(chance.randrange(40)))


def moment(chance: Random) -> int:
    return T0 + chance.randrange(0, 90_000) * chance.choice((1, 1000))


def maybe(chance: Random, value: Any, none: Any = None, share: float = 0.5) -> Any:
    return value if chance.random() < share else none


def step(chance: Random, title: str, **more: Any) -> StepFact:
    status = chance.choice(UNIT[:3] * 2 + UNIT)
    begun = status != "pending"
    return StepFact(
        title,
        status=status,
        agent=maybe(chance, "code-1", "", 0.3),
        outcome=maybe(chance, "it went well", "", 0.2) if status == "done" else "",
        because=maybe(chance, "no net", "", 0.2) if status in ("blocked", "failed") else "",
        files=["a.py"] if status == "done" and chance.random() < 0.2 else [],
        started_at=maybe(chance, moment(chance)) if begun else None,
        ended_at=maybe(chance, moment(chance)) if status == "done" else None,
        **more,
    )


def tasks(chance: Random) -> list[StepFact]:
    return [
        step(chance, words(chance), id=maybe(chance, f"T{n}", "", 0.9))
        for n in range(chance.randrange(5))
    ]


def phased(chance: Random) -> list[StepFact]:
    made = []
    for n in range(1, chance.randrange(2, 4)):
        made.append(step(chance, f"Part {n}", id=f"P{n}", unit="phase"))
        made += [
            step(chance, words(chance), id=f"P{n}T{m}", parent=f"P{n}")
            for m in range(chance.randrange(4))
        ]
    return made


def phases(chance: Random) -> list[StepFact]:
    first = chance.choice((0, 1))
    return [
        step(chance, f"Phase {n}", id=f"phase-{n}", unit="phase")
        for n in range(first, first + chance.randrange(1, 5))
    ]


STAGES = ("Thesis development", "Essay structuring", "Argument development", "Paragraph writing")


def stages(chance: Random) -> list[StepFact]:
    made = []
    for n, title in enumerate(STAGES, 1):
        made.append(step(chance, title, id=f"stage-{n}", unit="stage"))
        if n > 2:
            made += [
                step(
                    chance,
                    f"Section {m}",
                    id=f"stage-{n}/section-{m}",
                    unit="section",
                    parent=f"stage-{n}",
                )
                for m in range(1, chance.randrange(1, 4))
            ]
    return made


SHAPES = {
    "ai-session": (phased, phased, tasks),
    "praxis": (phases,),
    "craft": (tasks,),
    "essay": (stages,),
    "orchestrator": (tasks,),
}


def agent(chance: Random, id: str) -> AgentFact:
    status = chance.choice(
        ("running", "running", "done", "failed", "pending", "blocked", "timed_out", "skipped")
    )
    failed = status in ("failed", "timed_out")
    return AgentFact(
        id,
        type=chance.choice(("code", "test", "", "feature-dev")),
        task=maybe(chance, words(chance), ""),
        status=status,
        started_at=maybe(chance, moment(chance), None, 0.8),
        ended_at=moment(chance) if status == "done" or failed else None,
        fraction=chance.choice((None, 0.0, 0.25, 0.5, 0.333)) if status == "running" else None,
        result=maybe(chance, "two files", "") if status == "done" else "",
        error=words(chance) if failed else "",
        category=chance.choice(("", "permanent", "logical", "transient")) if failed else "",
        retries=chance.choice((0, 0, 2)) if failed else 0,
        blocking_on="x-1" if status == "blocked" else "",
        tokens=maybe(chance, chance.randrange(9000), None, 0.4),
        created=maybe(chance, ["a.py"], [], 0.3),
    )


def decision(chance: Random) -> DecisionFact:
    made = DecisionFact(words(chance), because=maybe(chance, "why", ""))
    made.at = maybe(chance, moment(chance), None, 0.8)
    if chance.random() < 0.4:
        made.options, made.chosen = ["x", "y"], "y"
    return made


def error(chance: Random, agents: list[AgentFact]) -> ErrorFact:
    made = ErrorFact(words(chance), category=chance.choice(("", "permanent")))
    made.agent = chance.choice(["", *(each.id for each in agents)])
    made.at = maybe(chance, moment(chance), None, 0.8)
    return made


def some_facts(chance: Random, a: str) -> Facts:
    """Facts of any session, with steps of the shape that a format has, or of any."""
    any_shape = chance.choice((tasks, phased, phases, stages))
    shape = chance.choice((*SHAPES[a], any_shape))
    steps = shape(chance)
    agents = [agent(chance, id) for id in ("code-1", "test-1", "doc-1")[: chance.randrange(4)]]
    facts = Facts(
        goal=maybe(chance, words(chance), "", 0.9),
        mode=chance.choice(("", "default", "debug", "release", "odd")),
        model=chance.choice(("", "opus", "sonnet", "gpt-9")),
        progress=chance.choice((None, None, 0.0, 0.42, 1.0)),
        began_at=maybe(chance, T0 - 1000 * chance.randrange(1000), None, 0.9),
        updated_at=maybe(chance, T0 + 90_000_000 + chance.randrange(5000), None, 0.9),
        resumes=chance.choice((0, 0, 3)),
        device=chance.choice(("", "desk")),
        project=chance.choice(("", "app")),
        project_path=chance.choice(("", "/home/me/app")),
        git_branch=chance.choice(("", "main")),
        position=chance.choice(["", *(each.id for each in steps)]),
        steps=steps,
        agents=agents,
        decisions=[decision(chance) for _ in range(chance.randrange(4))],
        errors=[error(chance, agents) for _ in range(chance.randrange(3))],
        tokens=chance.choice((None, 1000, 25_000)),
        tokens_by_agent={each.id: each.tokens for each in agents if each.tokens is not None},
        compressions=chance.choice((None, None, 0, 1, 2)),
    )
    _log(chance, facts)
    _stand(chance, facts)
    if shape is phases:
        _in_phases(chance, facts)
    if shape is stages:
        _in_stages(chance, facts)
    return facts


def _log(chance: Random, facts: Facts) -> None:
    facts.files = [
        FileFact(
            f"src/{n}.py", chance.choice(("created", "modified", "deleted")), at=moment(chance)
        )
        for n in range(chance.randrange(3))
    ]
    facts.commands = [
        CommandFact("make", arguments="-k", at=moment(chance), duration_ms=3)
        for _ in range(chance.randrange(3))
    ]
    facts.notes = [NoteFact(words(chance), at=moment(chance)) for _ in range(chance.randrange(2))]
    if facts.compressions and chance.random() < 0.8:
        facts.compressed_at = moment(chance)


def _stand(chance: Random, facts: Facts) -> None:
    facts.status = chance.choice(("active", *SESSION))
    if facts.status == "completed":
        facts.ended_at = maybe(chance, moment(chance))
    elif facts.status == "paused":
        facts.paused_at = maybe(chance, moment(chance))
        facts.pause_reason = chance.choice(("", "user_request", "checkpoint_failed"))
    elif facts.status in ("failed", "aborted"):
        facts.because = maybe(chance, "so it is", "")


def _in_phases(chance: Random, facts: Facts) -> None:
    facts.workflow, facts.target = "spec", maybe(chance, "docs/a.md", "")
    facts.plan_base = int(facts.steps[0].id.removeprefix("phase-"))
    facts.plan_total = maybe(chance, len(facts.steps) + chance.randrange(2), None, 0.8)
    verdicts = {"done": "passed", "failed": "failed", "skipped": "skipped"}
    judged = [step for step in facts.steps if step.status in verdicts and chance.random() < 0.8]
    facts.checkpoints = [CheckpointFact(step.id, verdicts[step.status]) for step in judged]
    for check in facts.checkpoints:
        check.evidence = maybe(chance, {"tests": 3}, {})
        check.at = maybe(chance, moment(chance))


def _in_stages(chance: Random, facts: Facts) -> None:
    facts.claims = [
        ClaimFact(words(chance), reason=chance.choice(("", "timeout")), at=moment(chance))
        for _ in range(chance.randrange(3))
    ]
    for claim in facts.claims:
        claim.section, claim.resolved = maybe(chance, 1), chance.random() < 0.3
    if chance.random() < 0.5:
        impact = chance.choice(("", "major"))
        facts.revisits = [RevisitFact("stage-1", because="another", impact=impact, at=T0)]
        facts.attributes = {"essay.pushback_level": "light"}


def written(chance: Random, a: str, is_hurt: bool) -> Files:
    """A session in the files that we write for it, perhaps with words of others in them."""
    facts, format = some_facts(chance, a), load_format(a)
    facts.native_id = format.new_id(facts, HERE, frozenset())
    is_full = facts.began_at is not None and facts.updated_at is not None and chance.random() < 0.2
    values = carry_over.write(format, None, facts, HERE, full=is_full)
    values = {name: value for name, value in values.items() if value is not None}
    if chance.random() < 0.4:
        odd(chance, values)
    if is_hurt:
        hurt(chance, values)
    return {
        name: spelled(chance, name, value) if chance.random() < 0.5 else fresh(kind(name), value)
        for name, value in values.items()
    }


def odd(chance: Random, values: Any) -> None:
    """What other programs write into files: keys that no format knows, in several places."""
    nodes = [n for n in nodes_in(values) if isinstance(n, dict) and n is not values]
    for node in chance.sample(nodes, min(len(nodes), 2)):
        node[f"x_{chance.randrange(9)}"] = chance.choice((1, "two", [3], {"four": None}, 2.50))
        if chance.random() < 0.5 and node:
            key = chance.choice(list(node))
            node[key] = node.pop(key)


def hurt(chance: Random, values: Any) -> None:
    """What is missing or of the wrong kind; the file can still be read."""
    nodes = [n for n in nodes_in(values) if n and n is not values]
    for node in chance.sample(nodes, min(len(nodes), chance.choice((1, 3)))):
        key = chance.choice(list(node))
        if key in (
            "forestay",
            "feature_id",
            "session_id",
            "workflow_type",
            "current_phase",
            "pipeline_id",
        ):
            continue
        if chance.random() < 0.5:
            del node[key]
        else:
            node[key] = chance.choice((None, "", 7, [], {}, "2026-13-45", [None, 3], True, -1.5))


def nodes_in(value: Any) -> list[Any]:
    """Every map in a value that is not under our own key."""
    if isinstance(value, dict):
        return [value, *(n for k, v in value.items() if k != "forestay" for n in nodes_in(v))]
    if isinstance(value, list):
        return [n for v in value for n in nodes_in(v)]
    return []


def spelled(chance: Random, name: str, value: Any) -> bytes:
    """As another program writes a value."""
    if kind(name) == "jsonl":
        return b"".join(json.dumps(line).encode() + b"\n" for line in value)
    if kind(name) == "json" or chance.random() < 0.2:
        indent = chance.choice((None, 1, 2, 4, "\t"))
        ascii = kind(name) == "json" and chance.random() < 0.5  # YAML has no pairs of surrogates
        return json.dumps(value, indent=indent, ensure_ascii=ascii).encode() + chance.choice(
            (b"", b"\n")
        )
    wide = chance.choice((80, 1000))
    return yaml.safe_dump(
        value,
        sort_keys=False,
        allow_unicode=chance.random() < 0.5,
        width=wide,
        default_flow_style=chance.choice((False, None)),
    ).encode()
