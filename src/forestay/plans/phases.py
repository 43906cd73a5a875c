"""Move a session through the phases of its plan, judged by the gates it started with.

Gates come from the snapshot in the session, never from a file: later edits of a workflow do not
change a running session. A gate judges the evidence as it was given; what is recorded is redacted.
A refusal by a gate is recorded too, as a failed attempt.

Every move is decided again under the writer lock, so that two processes cannot both pass a phase.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import asdict, replace

from forestay.base.clock import iso
from forestay.base.value import Value
from forestay.errors import InvalidInput, Refused
from forestay.journal.topics import Topic
from forestay.mirror.session_files import absorb_file_edits, read_state
from forestay.model import event as ev
from forestay.model.essay.moves import is_essay
from forestay.model.essay.next_step import next_command
from forestay.model.gates import phase_moves as moves
from forestay.model.gates.gate import PERMISSIVE, Judgment, judge
from forestay.model.plan import Gate, Workflow
from forestay.model.rules import check_current, check_reach, decide
from forestay.model.state import Checkpoint, Rows, State, Step, number_of
from forestay.plans import prove
from forestay.plans.evidence import kept
from forestay.workspace.file_changes import OutputFiles, collect_outputs

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from typing import Any

    from forestay.base import words
    from forestay.journal.recorder import Recorder
    from forestay.model.event import Body, Event

_ISSUE = 1_000


class Outcome(Struct, frozen=True):
    """The result of a phase: the event, the phase, and the judgment of its gate.

    `judgment` is None if the call repeated a key, or no gate judged it. `outputs` lists the
    expected files of a passed phase and whether each was stored.
    """

    event: Event
    phase: int
    passed: bool
    overridden: bool = False
    complete: bool = False
    judgment: Judgment | None = None
    outputs: dict[str, str] = {}


class Asked(Struct, frozen=True):
    """What a gate requires, the evidence so far, and whether that would pass.

    `done` is set for a phase that passed; `handed_in` is False where `phase done` does not apply.
    """

    phase: int
    name: str
    gate: Gate
    evidence: dict[str, object]
    observed: dict[str, bool]
    stale: list[str]
    judgment: Judgment
    done: bool = False
    handed_in: bool = True

    def as_json(self) -> dict[str, Any]:
        """Return what the gate requires, the evidence for it, and the judgment."""
        return {
            "gate": {
                "phase": self.phase,
                "name": self.name,
                "passed": self.done,
                "strict": self.gate.strict,
                "override": self.gate.override,
                "fields": [asdict(field) for field in self.gate.fields],
                "rules": [{"check": r.check, "message": r.message} for r in self.gate.rules],
                "not_checked": [*self.gate.opaque],
            },
            "evidence": self.evidence,
            "observed": self.observed,
            "stale": self.stale,
            "result": self.judgment.as_values(),
        }


class PhaseInfo(Value):
    """A phase of the workflow; `duration_seconds` is active time, None if unknown."""

    number: int
    name: str
    status: words.UnitStatus
    checkpoint: words.Checkpoint
    attempts: int
    started_at: datetime | None
    ended_at: datetime | None
    duration_seconds: float | None
    current: bool


class Phases(Topic):
    """Phases of the session's workflow. Recording methods take a `key`; see `Session`."""

    def list(self) -> builtins.list[PhaseInfo]:
        """Return the phases in their order, each with its status."""
        context, session = self._context, self._recorder.id
        with context.store.view(session) as view:
            state = read_state(context, session, view)
            moves.require_plan(state)
            rows = [row for row in state.rows.select("step") if isinstance(row, Step)]
            phases = {n: row for row in rows if (n := state.core.phase_of(row.id)) is not None}
            return [_describe(state, number, phases[number]) for number in sorted(phases)]

    def gate(self, number: int, evidence: Mapping[str, object] | None = None) -> Asked:
        """Return what the gate of a phase requires, what was found, and whether it would pass.

        `evidence` is tried together with what was submitted before. Nothing is recorded.
        """
        state, workflow = self._read()
        moves.require_plan(state)
        check_reach(state.core, number)
        there = {**moves.submitted_evidence(state, number), **(evidence or {})}
        case = _Case(self._recorder, state, workflow, number, there)
        done = number in state.core.phases_done
        judgment, other = case.judgment, _other_way(state, number, done=done)
        if other:
            judgment = replace(judgment, next_steps=[f"forestay {other}"])
        return Asked(
            phase=number,
            name=case.name,
            gate=case.gate or Gate(strict=False, source=PERMISSIVE),
            evidence=there,
            observed=case.observed,
            stale=sorted(case.stale),
            judgment=judgment,
            done=done,
            handed_in=not other,
        )

    def done(
        self,
        number: int,
        evidence: Mapping[str, object] | None = None,
        *,
        override: bool = False,
        because: str = "",
        key: str = "",
    ) -> Outcome:
        """Submit the current phase with its evidence; the result contains whether its gate passed.

        A refusal by the gate is recorded as a failed attempt, and returned, not raised. With
        `override` and a reason the phase passes anyway, if its gate allows that.
        """
        if override and not because.strip():
            raise InvalidInput("an override needs a reason", hint='--override --because "…"')
        if earlier := self._judged_before(number, key):
            return earlier
        case = self._current_case(number, evidence or {})
        if case.judgment.checkpoint_passed:
            return case.record(ev.CheckpointPassed, key)
        if not override:
            return case.record(ev.CheckpointFailed, key, issue=case.judgment.issue[:_ISSUE])
        if case.gate is not None and not case.gate.override:
            raise Refused(
                f"phase {number} cannot be overridden: its gate does not allow it",
                why=case.judgment.issue,
                legal=[step.removeprefix("forestay ") for step in case.judgment.next_steps],
            )
        return case.record(ev.CheckpointOverridden, key, because=because)

    def fail(
        self,
        number: int,
        evidence: Mapping[str, object] | None = None,
        *,
        issue: str = "",
        key: str = "",
    ) -> Outcome:
        """Record that an attempt at the current phase failed, and why."""
        if earlier := self._judged_before(number, key):
            return earlier
        case = self._current_case(number, evidence or {})
        return replace(case.record(ev.CheckpointFailed, key, issue=issue), judgment=None)

    def retry(self, *, key: str = "") -> Event:
        """Begin another attempt at the current phase, after a failed one."""
        session = self._recorder
        if earlier := session.called_before(key, lambda body: isinstance(body, ev.StepStarted)):
            return earlier[-1]
        return session.record(*moves.retry_phase(self._absorb()[0]), key=key)

    def rollback(self, number: int, *, because: str = "", key: str = "") -> Event:
        """Go back to a phase: it and all later ones are to be done again.

        A completed session is reopened by it.
        """

        def is_same(body: Body) -> bool:
            return isinstance(body, ev.StepStarted) and number_of(body.step) == number

        if earlier := self._recorder.called_before(key, is_same):
            return earlier[-1]
        state, _ = self._absorb()
        _require_phases(state)
        return self._recorder.record(*moves.roll_back_to(state, number, because), key=key)

    def total(self, count: int, *, names: Sequence[str] = (), key: str = "") -> Event:
        """Set the number of phases if the workflow leaves it open; possible once."""

        def is_same(body: Body) -> bool:
            return isinstance(body, ev.PlanResolved) and body.total == count

        if earlier := self._recorder.called_before(key, is_same):
            return earlier[-1]
        bodies = moves.resolve_total(*self._absorb(), count, names)
        return self._recorder.record(*bodies, key=key)

    def _absorb(self) -> tuple[State, Workflow | None]:
        """Return state and workflow before recording, after absorbing file edits."""
        absorb_file_edits(self._context, self._recorder.id)
        return self._read()

    def _read(self) -> tuple[State, Workflow | None]:
        """Return the state with pending file edits, and the workflow snapshot."""
        context, session = self._context, self._recorder.id
        with context.store.view(session) as view:
            state = read_state(context, session, view)
            # Loaded now, so that the state can be read after its view is closed.
            rows = Rows()
            essay = ("attribute", "claim") if is_essay(state) else ()
            for table in ("step", "checkpoint", *essay):
                for row in state.rows.select(table):
                    rows.put(table, row.name, row)
        state = State(state.core, rows)
        return state, context.journal.plan(state)

    def _current_case(self, number: int, evidence: Mapping[str, object]) -> _Case:
        """Return the case of the current phase; refuse another phase before its gate is asked."""
        state, workflow = self._absorb()
        _require_phases(state)
        check_current(state.core, number)
        decide(state, ev.CheckpointPassed(step=state.core.phase_step(number)))
        return _Case(self._recorder, state, workflow, number, evidence)

    def _judged_before(self, number: int, key: str) -> Outcome | None:
        def is_same(body: Body) -> bool:
            return isinstance(body, ev.Verdict) and number_of(body.step) == number

        batch = self._recorder.called_before(key, is_same)
        kinds = [type(event.body) for event in batch if is_same(event.body)]
        return _outcome(batch[-1], number, kinds[0]) if batch else None


def _describe(state: State, number: int, step: Step) -> PhaseInfo:
    row = state.rows.get("checkpoint", step.id)
    spent = state.core.phases_done.get(number, -1)
    return PhaseInfo(
        {
            "number": number,
            "name": step.title,
            "status": step.status,
            "checkpoint": row.verdict if isinstance(row, Checkpoint) else "pending",
            "attempts": row.attempts if isinstance(row, Checkpoint) else 0,
            "started_at": iso(step.started_at) if step.started_at else None,
            "ended_at": iso(step.ended_at) if step.ended_at else None,
            "duration_seconds": spent / 1000 if spent >= 0 else None,
            "current": number == state.core.phase,
        }
    )


def _require_phases(state: State) -> None:
    """Refuse a session without phases, and an essay, whose stages have their own gates."""
    moves.require_plan(state)
    if is_essay(state):
        raise Refused(
            "an essay has no phases: the user approves its stages",
            legal=[f"essay approve {gate}" for gate in ("G1", "G2", "G3-Final", "G5")],
            session=state.core.session,
        )


def _other_way(state: State, number: int, *, done: bool) -> str:
    """Return the command to use instead of `phase done`, "" if there is none."""
    if is_essay(state):
        return f"revisit {number}" if done else next_command(state)
    return f"phase rollback {number} --because REASON" if done else ""


class _Case:
    """The evidence for a phase, and its gate."""

    def __init__(
        self,
        session: Recorder,
        state: State,
        workflow: Workflow | None,
        number: int,
        evidence: Mapping[str, object],
    ) -> None:
        self.session, self.state, self.workflow = session, state, workflow
        self.number, self.evidence = number, evidence
        phase = workflow.phase(number) if workflow else None
        self.id = state.core.phase_step(number)
        self.name = self._name_of(number)
        self.gate = phase.gate if phase else None
        self.outputs = phase.outputs if phase else []
        self.observed, self.stale = prove.observed(session, self.id)
        following = moves.next_number(state, number)
        next_steps = ["nothing: that was the last phase"]
        if following is not None:
            name = self._name_of(following)
            next_steps = [f"Phase {following}: {name}", f"forestay phase gate {following}"]
        self.judgment = judge(
            self.gate,
            evidence,
            at=iso(session.context.clock.now()),
            phase=number,
            observed=self.observed,
            stale=self.stale,
            next_steps=next_steps,
        )

    def _name_of(self, number: int) -> str:
        step = self.state.step(self.state.core.phase_step(number))
        return step.title if step else moves.phase_title(self.workflow, number)

    def record(
        self, kind: type[ev.Verdict], key: str, *, issue: str = "", because: str = ""
    ) -> Outcome:
        passed = kind is not ev.CheckpointFailed
        keep = kept({**self.evidence, **self.observed}, self.session.context.journal)
        made = self._made() if passed else OutputFiles()
        verdict = kind(
            step=self.id,
            evidence=keep.values,
            observed=passed and self._is_proven(),
            issue=issue,
            because=because,
            blob=keep.blob,
            size=len(keep.data),
            redacted=keep.redacted,
        )
        event = self.session.record(
            *moves.start_phase(self.state, self.workflow, self.number),
            *made.bodies,
            verdict,
            *(moves.complete_phase(self.state, self.workflow, self.number) if passed else ()),
            key=key,
            blobs=[*made.blobs, *([(keep.blob, keep.data)] if keep.blob else [])],
        )
        return _outcome(event, self.number, kind, self.judgment, made.statuses)

    def _made(self) -> OutputFiles:
        """Return the output files of the phase, stored so that later changes can be compared."""
        context = self.session.context
        with context.store.view(self.session.id) as view:
            rows = context.journal.state(view).rows
            return collect_outputs(
                self.outputs,
                context.workspace.tree.root,
                context.journal.find_secrets,
                lambda path: rows.get("artifact", path),
            )

    def _is_proven(self) -> bool:
        """Return whether all required evidence was observed and none of it claimed."""
        required = [f.name for f in self.gate.fields if f.required] if self.gate else []
        fresh = {name for name, held in self.observed.items() if held and name not in self.stale}
        return bool(required) and fresh.issuperset(required)


def _outcome(
    event: Event,
    number: int,
    kind: type[Body],
    judgment: Judgment | None = None,
    outputs: dict[str, str] | None = None,
) -> Outcome:
    return Outcome(
        event=event,
        phase=number,
        passed=kind is not ev.CheckpointFailed,
        overridden=kind is ev.CheckpointOverridden,
        complete=event.kind == "session.completed",
        judgment=judgment,
        outputs=outputs or {},
    )
