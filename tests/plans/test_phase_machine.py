"""Phases against a simple oracle: any sequence of moves, with restarts of the process between them.

The oracle knows the rules in the words of document S1 and nothing of journals. After every move
the status, as `status --json` prints it, must agree: where the session
is, what is completed, the verdict of each checkpoint, and how long each phase was worked on.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import forestay
from forestay import Forestay, Session
from forestay.base.clock import FakeClock
from forestay.errors import ForestayError, Refused
from forestay.model.plan import Field, Gate, Phase, Workflow
from forestay.plans.yaml_definition import write

GATE = Gate(fields=[Field(name="ok", type="boolean", equals=True)])
NEAR = st.integers(-1, 1)


def workflow(base: int, total: int | None) -> Workflow:
    named = range(base, base + (total or 1))
    phases = [Phase(number=n, name=f"Part {n}", gate=GATE) for n in named]
    pattern = None if total else Phase(number=base, name="Part", gate=GATE)
    return Workflow(name="parts", base=base, total=total, phases=phases, pattern=pattern)


class Oracle:
    """The state of a session by the rules of document S1, in plain values."""

    def __init__(self, base: int, total: int | None) -> None:
        self.base, self.total, self.current = base, total, base
        self.status = "active"
        self.done: list[int] = []
        self.verdicts: dict[int, str] = {}
        self.spent: dict[int, int] = {base: 0}

    @property
    def last(self) -> int | None:
        return None if self.total is None else self.base + self.total - 1

    @property
    def is_open(self) -> bool:
        return self.current not in self.done

    def time_passes(self, ms: int) -> None:
        if self.status == "active" and self.is_open:
            self.spent[self.current] += ms

    def may_judge(self, number: int) -> bool:
        return number == self.current and self.status == "active" and self.is_open

    def judge(self, number: int, word: str) -> None:
        self.verdicts[number] = word
        if word == "failed":
            return
        self.done.append(number)
        if number == self.last:
            self.status = "completed"
        else:
            self.current = number + 1
            self.spent[self.current] = 0

    def may_go_back(self, number: int) -> bool:
        return self.base <= number <= self.current and self.status in ("active", "completed")

    def go_back(self, number: int) -> None:
        self.status, self.current = "active", number
        self.done = [n for n in self.done if n < number]
        self.verdicts = {n: v for n, v in self.verdicts.items() if n < number}
        self.spent = {n: ms for n, ms in self.spent.items() if n < number} | {number: 0}

    def may_have(self, total: int) -> bool:
        # The next phase starts as soon as one has passed, which may have been the last.
        only_begun = self.current - 1 in self.done and self.current not in self.verdicts
        last = self.base + total - 1
        if self.status == "completed" or (self.status == "paused" and last < self.current):
            return False  # the phase after the last would be skipped: not in a paused session
        return self.total is None and total >= 1 and last >= self.current - only_begun

    def have(self, total: int) -> None:
        self.total = total
        self.current = min(self.current, self.base + total - 1)
        if self.last in self.done:
            self.status = "completed"

    @property
    def may_complete(self) -> bool:
        return self.status in ("active", "paused") and self.last in self.done


class Phases(RuleBasedStateMachine):
    stay: Forestay
    oracle: Oracle

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="forestay-phases-"))
        self.clock = FakeClock()
        self.id = ""

    @initialize(base=st.sampled_from([0, 1]), total=st.sampled_from([1, 2, 3, 6, None]))
    def begin(self, base: int, total: int | None) -> None:
        project = self.folder / "project"
        project.mkdir()
        (project / "parts.yaml").write_bytes(write(workflow(base, total)))
        self.stay = self.opened()
        self.id = self.stay.start("go through it", workflow="./parts.yaml", id="it").id
        # A running session does not need the file.
        (project / "parts.yaml").unlink()
        self.oracle = Oracle(base, total)

    def opened(self) -> Forestay:
        return forestay.open(
            str(self.folder / "home"), cwd=str(self.folder / "project"), clock=self.clock
        )

    @property
    def session(self) -> Session:
        return self.stay.session(self.id)

    def attempt(self, allowed: bool, act: Any) -> bool:
        """Call it; it must be refused exactly if the oracle forbids it, and then change nothing."""
        before = self.session.status().seq
        try:
            act()
        except Refused:
            assert not allowed
            assert self.session.status().seq == before
            return False
        assert allowed
        return True

    # -- moves ---------------------------------------------------------------------------------

    @rule(ms=st.integers(0, 10_000_000))
    def time_passes(self, ms: int) -> None:
        self.clock.sleep(ms / 1000)
        self.oracle.time_passes(ms)

    @rule()
    def the_process_restarts(self) -> None:
        self.stay.close()
        self.stay = self.opened()

    @rule(off=NEAR, ok=st.booleans(), override=st.booleans())
    def hand_in(self, off: int, ok: bool, override: bool) -> None:
        number, oracle = self.oracle.current + off, self.oracle
        why = "because" if override else ""

        def act() -> None:
            reported = self.session.phases.done(number, {"ok": ok}, override=override, because=why)
            assert reported.passed == (ok or override)

        if self.attempt(number >= 0 and oracle.may_judge(number), act):
            word = "passed" if ok else "overridden" if override else "failed"
            oracle.judge(number, word)

    @rule(off=NEAR)
    def complete_the_wrong_one(self, off: int) -> None:
        number = self.oracle.current + off
        if off and number >= 0:
            reported = f"Cannot complete phase {number}, current phase is {self.oracle.current}"
            with pytest.raises(Refused, match=reported):
                self.session.phases.done(number, {"ok": True})

    @rule(off=NEAR)
    def fail(self, off: int) -> None:
        number, oracle = self.oracle.current + off, self.oracle
        allowed = oracle.may_judge(number)
        if self.attempt(allowed, lambda: self.session.phases.fail(number, issue="no")):
            oracle.judge(number, "failed")

    @rule()
    def retry(self) -> None:
        oracle = self.oracle
        failed = oracle.verdicts.get(oracle.current) == "failed"
        allowed = failed and oracle.status == "active"
        if self.attempt(allowed, lambda: self.session.phases.retry()):
            oracle.verdicts[oracle.current] = "pending"

    @rule(back=st.integers(-1, 3))
    def roll_back(self, back: int) -> None:
        number, oracle = self.oracle.current - back, self.oracle
        act = lambda: self.session.phases.rollback(number)  # noqa: E731
        if self.attempt(oracle.may_go_back(number), act):
            oracle.go_back(number)

    @rule(total=st.integers(0, 5))
    def say_how_many(self, total: int) -> None:
        oracle = self.oracle
        if self.attempt(oracle.may_have(total), lambda: self.session.phases.total(total)):
            oracle.have(total)

    @rule()
    def pause(self) -> None:
        if self.attempt(self.oracle.status == "active", lambda: self.session.pause()):
            self.oracle.status = "paused"

    @rule()
    def resume(self) -> None:
        if self.attempt(self.oracle.status != "completed", lambda: self.session.resume()):
            self.oracle.status = "active"

    @rule()
    def complete(self) -> None:
        if self.attempt(self.oracle.may_complete, lambda: self.session.complete()):
            self.oracle.status = "completed"

    @precondition(lambda self: self.oracle.status == "completed")
    @rule()
    def reopen(self) -> None:
        self.session.lifecycle.reopen("there is more to it")
        self.oracle.status = "active"

    # -- what must hold ------------------------------------------------------------------------

    @invariant()
    def status_agrees(self) -> None:
        if not self.id:
            return
        shown, oracle = self.session.status(), self.oracle
        phase, timing = shown.as_json()["phase"], shown.as_json()["timing"]
        assert shown.status == oracle.status
        assert (phase["current"], phase["total"]) == (oracle.current, oracle.total)
        assert phase["starting"] == oracle.base
        assert phase["completed"] == sorted(oracle.done)
        words = {oracle.current: "pending", **oracle.verdicts}
        reported = {int(n): word for n, word in phase["checkpoints"].items()}
        assert {n: w for n, w in reported.items() if w != "pending" or n in words} == words
        # Never a number that no phase has, not even when all is done.
        assert oracle.base <= phase["current"] <= (oracle.last or phase["current"])
        self._times_agree(timing)

    def _times_agree(self, timing: dict[str, Any]) -> None:
        oracle = self.oracle
        inside = oracle.spent[oracle.current] / 1000 if oracle.is_open else None
        assert timing["time_in_phase"] == pytest.approx(inside)
        spent = [oracle.spent[n] / 1000 for n in oracle.done]
        average = sum(spent) / len(spent) if spent else None
        assert timing["avg_phase_duration"] == pytest.approx(average)
        if oracle.total is not None:
            left = oracle.total - len(oracle.done)
            assert timing["phases_remaining"] == left
            assert timing["percent_complete"] == round(100 * len(oracle.done) / oracle.total)
        stalled = bool(spent) and inside is not None and inside > 2 * (average or 0)
        assert timing["is_stalled"] == stalled

    def teardown(self) -> None:
        try:
            if self.id:
                assert self.session.verify().ok
                self.stay.close()
        except ForestayError as error:  # pragma: no cover
            raise AssertionError(error) from error
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


@pytest.mark.req("S1-2", "S1-5", "S1-9", "S1-17", "S1-20", "S1-21")
def test_phases_agree_with_the_oracle_after_any_moves_and_restarts() -> None:
    options = settings(max_examples=15, stateful_step_count=30, deadline=None)
    run_state_machine_as_test(Phases, settings=options)
