"""Time in phases against an oracle, with pauses, failures, rollbacks and resumes.

The oracle is the one of the machine in `tests/plans/test_phase_machine.py`. Nothing here is stored,
so that hundreds of histories cost what one does there.
"""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from forestay.model import event as ev
from forestay.model.event import Body
from forestay.model.fold import extend
from forestay.model.gates import phase_moves as moves
from forestay.model.plan import Phase, Workflow
from forestay.model.rules import decide
from forestay.model.state import State
from forestay.model.summary import plan
from forestay.model.timing import Progress
from tests.histories import next_event
from tests.plans.test_phase_machine import Oracle

BEGAN = 1_800_000_000_000
TOTAL = 3
WORKFLOW = Workflow(
    name="w", total=TOTAL, phases=[Phase(number=n, name=f"Part {n}") for n in (1, 2, 3)]
)

Move = tuple[str, int]
MOVES = st.tuples(
    st.sampled_from(["pause", "resume", "pass", "fail", "retry", "back", "reopen"]),
    st.integers(0, 5_000),
)


class Lived:
    """A session of phases in memory, together with its oracle."""

    def __init__(self) -> None:
        self.state, self.now, self.count = State(), BEGAN, 0
        self.oracle = Oracle(1, TOTAL)
        self.record(
            ev.SessionStarted(goal="g"), *moves.begin_plan(WORKFLOW, target="", snapshot="")
        )

    def record(self, *bodies: Body) -> None:
        for body in bodies:
            decide(self.state, body)
            self.count += 1
            fields = {"session": "s", "device": "d", "actor": "cli", "id": f"e{self.count}"}
            _, event = next_event(self.state.core, body, **fields, at=self.now, salt=bytes(16))
            extend(self.state, event)

    def move(self, word: str, ms: int) -> None:
        """Advance the time, then make a move if the oracle allows it."""
        self.now += ms
        self.oracle.time_passes(ms)
        getattr(self, f"_{word}")(ms)

    def _pause(self, _: int) -> None:
        if self.oracle.status == "active":
            self.record(ev.SessionPaused())
            self.oracle.status = "paused"

    def _resume(self, _: int) -> None:
        if self.oracle.status == "paused":
            self.record(ev.SessionResumed())
            self.oracle.status = "active"

    def _pass(self, _: int) -> None:
        here = self.oracle.current
        if self.oracle.may_judge(here):
            verdict = ev.CheckpointPassed(step=f"phase-{here}")
            self.record(
                *moves.start_phase(self.state, WORKFLOW, here),
                verdict,
                *moves.complete_phase(self.state, WORKFLOW, here),
            )
            self.oracle.judge(here, "passed")

    def _fail(self, _: int) -> None:
        here = self.oracle.current
        if self.oracle.may_judge(here):
            failed = ev.CheckpointFailed(step=f"phase-{here}", issue="no")
            self.record(*moves.start_phase(self.state, WORKFLOW, here), failed)
            self.oracle.judge(here, "failed")

    def _retry(self, _: int) -> None:
        here = self.oracle.current
        if self.oracle.may_judge(here) and self.oracle.verdicts.get(here) == "failed":
            self.record(*moves.retry_phase(self.state))
            self.oracle.verdicts[here] = "pending"

    def _back(self, ms: int) -> None:
        number = 1 + ms % TOTAL
        if self.oracle.may_go_back(number):
            self.record(*moves.roll_back_to(self.state, number))
            self.oracle.go_back(number)

    def _reopen(self, _: int) -> None:
        if self.oracle.status == "completed":
            self.record(ev.SessionReopened(because="there is more to it"))
            self.oracle.status = "active"

    def agrees(self) -> None:
        oracle, core = self.oracle, self.state.core
        assert (core.status, core.phase) == (oracle.status, oracle.current)
        assert core.phases_done == {n: oracle.spent[n] for n in oracle.done}
        inside = Progress(plan(self.state), self.now, status=core.status).timing.inside
        assert inside == (oracle.spent[oracle.current] / 1000 if oracle.is_open else None)


@example([("pause", 5), ("resume", 7), ("pass", 11)])
@example([("fail", 3), ("pause", 5), ("resume", 7), ("retry", 11), ("pause", 2), ("pass", 1)])
@example([("pause", 5), ("back", 3), ("resume", 7), ("back", 3), ("pass", 11)])
@example([("pass", 1), ("pass", 1), ("pass", 1), ("reopen", 9), ("back", 2), ("pause", 4)])
@given(st.lists(MOVES, max_size=30))
def test_the_time_of_a_phase_is_its_active_time(history: list[Move]) -> None:
    lived = Lived()
    for word, ms in history:
        lived.move(word, ms)
        lived.agrees()
