"""Generate the pinned bytes of events: for every kind a line with all fields, one with the fewest.

The lines in `events.jsonl` are what this version writes, and must never change: stored journals
hold such bytes, and every hash is over them. A new kind or field adds lines or a new name, and
leaves the old ones unchanged. To write the file again, from the root of the project:

    python -m tests.golden.events > tests/golden/events.jsonl
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from forestay.model import event as ev
from forestay.model.hash_chain import continue_chain
from tests.histories import next_event
from forestay.model.event import Body, Event, Header, Sealed
from forestay.model.fold import advance
from forestay.model.state import Core

SALT = bytes(range(16))
SECRETS = ["aws_key", "jwt"]
_D = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

MINIMAL: list[Body] = [
    ev.SessionStarted(goal="Ship the parser"),
    ev.SessionAdopted(goal="Ship the parser", origin="file:praxis"),
    ev.SessionRenamed(goal="Ship the lexer"),
    ev.SessionPaused(),
    ev.SessionResumed(),
    ev.SessionCompleted(),
    ev.SessionFailed(),
    ev.SessionAborted(),
    ev.SessionAbandoned(),
    ev.SessionReopened(because="a test was missing"),
    ev.SessionArchived(),
    ev.SessionInterrupted(),
    ev.SessionForgotten(),
    ev.EventRetracted(event="e-7"),
    ev.EventForgotten(hashes=[_D]),
    ev.PlanSet(workflow="test-generation"),
    ev.PlanResolved(total=8),
    ev.StepAdded(step="t1", title="Read the grammar"),
    ev.StepStarted(step="t1"),
    ev.StepProgressed(step="t1", fraction=0.0),
    ev.StepCompleted(step="t1"),
    ev.StepFailed(step="t1"),
    ev.StepBlocked(step="t1", because="no access"),
    ev.StepUnblocked(step="t1"),
    ev.StepSkipped(step="t1"),
    ev.StepNeedsReview(step="t1"),
    ev.StepRevisited(step="t1"),
    ev.StepReset(step="t1"),
    ev.CheckpointPassed(step="p1"),
    ev.CheckpointFailed(step="p1"),
    ev.CheckpointOverridden(step="p1"),
    ev.CheckpointRolledBack(step="p1"),
    ev.AgentStarted(agent="code-1"),
    ev.AgentProgressed(agent="code-1", fraction=1.0),
    ev.AgentFinished(agent="code-1"),
    ev.AgentFailed(agent="code-1"),
    ev.AgentTimedOut(agent="code-1"),
    ev.AgentRetried(agent="code-1"),
    ev.DecisionMade(decision="d1", what="Use SQLite"),
    ev.FileChanged(path="src/parser.py"),
    ev.ArtifactSaved(path="out/report.md", digest=_D, size=0),
    ev.ArtifactVersioned(path="stage-1.md", version=1, digest=_D),
    ev.CommandRan(name="pytest"),
    ev.ContextMeasured(tokens=0),
    ev.ContextCompressed(),
    ev.ErrorRaised(message="disk full"),
    ev.NoteAdded(text="look at the lexer first"),
    ev.ClaimDeferred(claim="c1", text="It is faster", reason="no measurement"),
    ev.ClaimResolved(claim="c1"),
    ev.ClaimOverridden(claim="c1", result="kept", because="known from 2019"),
    ev.AttributeSet(key="model", value=None),
    ev.ContractAcknowledged(agent="code-1", version="1.0", checksum=_D),
    ev.ForeignEdited(format="craft", path="s.json", digest=_D),
    ev.EvidenceObserved(proof="lint", argv=["make", "lint"], exit=0),
    ev.MessageSent(role="user", text="fix the parser"),
]

_VERDICT = {
    "step": "p1",
    "evidence": {"coverage": 81.5, "files": ["a.py"], "passed": True, "why": None, "n": {"x": 1}},
    "observed": True,
    "issue": "two tests failed",
    "because": "flaky",
    "redacted": SECRETS,
}

FULL: list[Body] = [
    ev.SessionStarted(
        goal='Ship "the" parser – naïve \\ 日本 🚀\n\ttwice',
        mode="debug",
        from_session="2024-old",
        project="p-1",
        git_branch="main",
        git_commit="8c5ff0f",
        tool="claude-code",
        redacted=SECRETS,
    ),
    ev.SessionAdopted(
        goal="Ship the parser",
        origin="file:praxis",
        native_id="b7c1",
        mode="release",
        status="paused",
        began_at=1_600_000_000_000,
        project="p-1",
        git_branch="main",
        git_commit="8c5ff0f",
        redacted=SECRETS,
    ),
    ev.SessionRenamed(goal="Ship the lexer", redacted=SECRETS),
    ev.SessionPaused(reason="checkpoint_failed", context="phase 2", redacted=SECRETS),
    ev.SessionResumed(git_branch="main", git_commit="8c5ff0f", redacted=SECRETS),
    ev.SessionCompleted(because="all green", redacted=SECRETS),
    ev.SessionFailed(because="out of budget", redacted=SECRETS),
    ev.SessionAborted(because="wrong repository", redacted=SECRETS),
    ev.SessionAbandoned(because="nobody came back", redacted=SECRETS),
    ev.SessionReopened(because="a test was missing", redacted=SECRETS),
    ev.SessionArchived(archived=False, redacted=SECRETS),
    ev.SessionInterrupted(doing="pytest", agents=["code-1", "code-2"], redacted=SECRETS),
    ev.SessionForgotten(redacted=SECRETS),
    ev.EventRetracted(event="e-7", because="typo", redacted=SECRETS),
    ev.EventForgotten(hashes=[_D], ids=["e-7"], because="a name", redacted=SECRETS),
    ev.PlanSet(
        workflow="test-generation",
        version="1.2",
        base=0,
        total=8,
        target="src/parser.py",
        snapshot=_D,
        redacted=SECRETS,
    ),
    ev.PlanResolved(total=8, redacted=SECRETS),
    ev.StepAdded(
        step="t1",
        title="Read the grammar",
        unit="section",
        parent="p1",
        agent="code-1",
        redacted=SECRETS,
    ),
    ev.StepStarted(step="t1", agent="code-1", redacted=SECRETS),
    ev.StepProgressed(step="t1", fraction=0.6, redacted=SECRETS),
    ev.StepCompleted(step="t1", outcome="read", files=["a.py", "b.py"], redacted=SECRETS),
    ev.StepFailed(step="t1", because="no grammar", redacted=SECRETS),
    ev.StepBlocked(step="t1", because="no access", redacted=SECRETS),
    ev.StepUnblocked(step="t1", redacted=SECRETS),
    ev.StepSkipped(step="t1", because="not needed", redacted=SECRETS),
    ev.StepNeedsReview(step="t1", because="the outline changed", redacted=SECRETS),
    ev.StepRevisited(step="t1", because="new facts", impact="moderate", redacted=SECRETS),
    ev.StepReset(step="t1", because="start over", redacted=SECRETS),
    ev.CheckpointPassed(**_VERDICT),  # type: ignore[arg-type]
    ev.CheckpointFailed(**_VERDICT),  # type: ignore[arg-type]
    ev.CheckpointOverridden(**_VERDICT),  # type: ignore[arg-type]
    ev.CheckpointRolledBack(**_VERDICT),  # type: ignore[arg-type]
    ev.AgentStarted(
        agent="code-1",
        type="feature-dev",
        task="Write the parser",
        blocking_on="arch-1",
        redacted=SECRETS,
    ),
    ev.AgentProgressed(agent="code-1", fraction=0.25, redacted=SECRETS),
    ev.AgentFinished(
        agent="code-1",
        result="written",
        created=["a.py"],
        modified=["b.py"],
        deleted=["c.py"],
        redacted=SECRETS,
    ),
    ev.AgentFailed(agent="code-1", error="429", category="transient", redacted=SECRETS),
    ev.AgentTimedOut(agent="code-1", error="30 min", redacted=SECRETS),
    ev.AgentRetried(agent="code-1", redacted=SECRETS),
    ev.DecisionMade(
        decision="d1",
        what="Storage",
        because="one file",
        options=["SQLite", "files"],
        chosen="SQLite",
        redacted=SECRETS,
    ),
    ev.FileChanged(
        path="src/parser.py",
        action="created",
        agent="code-1",
        added=120,
        removed=0,
        before="",
        after=_D,
        redacted=SECRETS,
    ),
    ev.ArtifactSaved(path="out/report.md", digest=_D, size=1234, kept=False, redacted=SECRETS),
    ev.ArtifactVersioned(path="stage-1.md", version=2, digest=_D, size=99, redacted=SECRETS),
    ev.CommandRan(
        name="pytest",
        arguments="-q",
        status="failure",
        duration_ms=1500,
        error="2 failed",
        agent="code-1",
        task="t1",
        model="opus",
        redacted=SECRETS,
    ),
    ev.ContextMeasured(tokens=64_000, agent="code-1", redacted=SECRETS),
    ev.ContextCompressed(summary="half way", redacted=SECRETS),
    ev.ErrorRaised(message="disk full", category="resource", agent="code-1", redacted=SECRETS),
    ev.NoteAdded(text="look", for_next=True, blob=_D, size=20_000, redacted=SECRETS),
    ev.ClaimDeferred(
        claim="c1",
        text="It is faster",
        reason="no measurement",
        section=2,
        paragraph=3,
        redacted=SECRETS,
    ),
    ev.ClaimResolved(claim="c1", redacted=SECRETS),
    ev.ClaimOverridden(claim="c1", result="kept", because="known from 2019", redacted=SECRETS),
    ev.AttributeSet(key="progress", value=0.5, redacted=SECRETS),
    ev.ContractAcknowledged(agent="code-1", version="1.0", checksum=_D, redacted=SECRETS),
    ev.ForeignEdited(
        format="craft",
        path="s.json",
        digest=_D,
        cause="edited",
        residue='{"x":1}',
        redacted=SECRETS,
    ),
    ev.EvidenceObserved(
        proof="lint",
        argv=["make", "lint"],
        exit=137,
        step="phase-2",
        duration_ms=1200,
        output=_D,
        printed=2048,
        tail="all is well",
        globs=["src/**"],
        blob=_D,
        size=300,
        files=3,
        changed=True,
        timed_out=True,
        interrupted=True,
        folder="parser",
        redacted=SECRETS,
    ),
    ev.MessageSent(role="agent", text="fixed", blob=_D, size=20_000, redacted=SECRETS),
]


# Fields that were added to kinds later: the older pinned lines stay unchanged.
GROWN: list[Body] = [
    ev.SessionPaused(git_branch="main", git_commit="8c5ff0f"),
    ev.SessionCompleted(git_branch="main", git_commit="8c5ff0f"),
    ev.SessionFailed(git_branch="main", git_commit="8c5ff0f"),
    ev.SessionAborted(git_branch="main", git_commit="8c5ff0f"),
    ev.SessionAbandoned(git_branch="main", git_commit="8c5ff0f"),
    ev.PlanSet(workflow="essay", unit="stage"),
    ev.StepRevisited(step="p1", archived=["stage-2-outline.v1.md"]),
    ev.CheckpointPassed(step="p1", blob=_D, size=20_000),
    ev.CheckpointFailed(step="p1", blob=_D, size=20_000),
    ev.CheckpointOverridden(step="p1", blob=_D, size=20_000),
    ev.CheckpointRolledBack(step="p1", blob=_D, size=20_000),
    ev.AgentStarted(agent="a1", status="blocked"),
    ev.AgentProgressed(
        agent="a1", result="half of it", created=["a"], modified=["b"], deleted=["c"]
    ),
    ev.AgentFinished(agent="a1", status="skipped"),
    ev.AgentFailed(agent="a1", retries=2, retried_at=1_700_000_000_123),
    ev.AgentTimedOut(agent="a1", retries=2, retried_at=1_700_000_000_123),
]


def lines() -> Iterator[str]:
    for size, bodies in (("minimal", MINIMAL), ("full", FULL), ("grown", GROWN)):
        for body in bodies:
            sealed, event = _seal_single(body)
            yield _line(f"{event.kind} {size}", sealed)
    for name, sealed in chain():
        yield _line(f"chain {name}", sealed)


def _seal_single(body: Body) -> tuple[Sealed, Event]:
    return next_event(
        Core(),
        body,
        session="fix-parser-2",
        device="d1",
        id=f"golden-{ev.KIND_OF[type(body)]}",
        at=1_700_000_000_123,
        actor="user",
        salt=SALT,
    )


def chain() -> Iterator[tuple[str, Sealed]]:
    """Yield a chain of two devices: both write, then the first writes a kind of a newer version."""
    core = Core()
    for name, device, body in (
        ("1: d1 begins", "d1", ev.SessionStarted(goal="Ship the parser")),
        ("2: d2 takes up", "d2", ev.NoteAdded(text="taken up")),
    ):
        sealed, event = next_event(
            core,
            body,
            session="fix-parser-2",
            device=device,
            id=f"chain-{device}",
            at=1_700_000_000_123,
            actor="agent:code-1",
            salt=SALT,
        )
        advance(core, event)
        yield name, sealed
    yield "3: d1 goes on, must", _seal_newer_kind(core)


def _seal_newer_kind(core: Core) -> Sealed:
    data = b'{"to":"d3"}'
    link = continue_chain(core, "d1")
    header = Header(
        v=1,
        id="chain-newer",
        session="fix-parser-2",
        device="d1",
        n=link.n,
        clock=link.clock,
        at=-1,
        actor="cli",
        kind="session.teleported",
        digest=ev.content_digest(SALT, data),
        prev=link.prev,
        seen=link.seen,
        must="2.10",
    )
    return ev.seal(header, SALT, data)


def _line(name: str, sealed: Sealed) -> str:
    assert sealed.data is not None and sealed.salt is not None
    pinned = {
        "name": name,
        "header": sealed.header.decode(),
        "salt": sealed.salt.hex(),
        "data": sealed.data.decode(),
        "hash": sealed.hash,
    }
    return json.dumps(pinned, ensure_ascii=False)


if __name__ == "__main__":
    for line in lines():
        print(line)
