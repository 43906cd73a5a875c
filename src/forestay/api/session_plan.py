"""Verbs for what is planned: tasks, phases and their gates, proofs, and going back."""

from __future__ import annotations

from forestay.api.session_base import SessionBase
from forestay.errors import Refused
from forestay.journal.recorder import reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from forestay.model.event import Event
    from forestay.model.state import Step
    from forestay.plans.phases import Asked, Listed, Outcome
    from forestay.plans.prove import Standing
    from forestay.plans.revisit import Look
    from forestay.plans.run_command import Sink, Stop


class PlanVerbs(SessionBase):
    """What is to be done, how far it is, and what shows it."""

    # -- tasks ---------------------------------------------------------------------------------

    def task_add(
        self, title: str, *, id: str = "", phase: str = "", agent: str = "", key: str = ""
    ) -> Event:
        """Add a task; without an id it is called t1, t2, …"""
        from forestay.model.event import StepAdded

        while True:
            step = id or self._free_task_id()
            body = StepAdded(step=step, title=title, parent=phase, agent=agent)
            try:
                return self.record(body, key=key)
            except Refused:
                # Another process may have taken the name in between; then the next one is free.
                if id or self._free_task_id() == step:
                    raise

    def _free_task_id(self) -> str:
        with self.context.store.view(self.id) as view:
            state = self.context.journal.state(view)
            number = state.count("step") + 1
            while state.step(f"t{number}") is not None:
                number += 1
        return f"t{number}"

    def task_start(self, id: str, *, agent: str = "", key: str = "") -> Event:
        """Work on a task begins."""
        from forestay.model.event import StepStarted

        return self.record(StepStarted(step=id, agent=agent), key=key)

    def task_done(
        self, id: str, *, outcome: str = "", files: Sequence[str] = (), key: str = ""
    ) -> Event:
        """A task is done, with its outcome and the files it made."""
        from forestay.model.event import StepCompleted

        body = StepCompleted(step=id, outcome=outcome, files=[self._inside(f) for f in files])
        return self.record(body, key=key)

    def task_block(self, id: str, because: str, *, key: str = "") -> Event:
        """A task cannot go on, for a reason."""
        from forestay.model.event import StepBlocked

        return self.record(StepBlocked(step=id, because=reason(because)), key=key)

    def task_skip(self, id: str, because: str, *, key: str = "") -> Event:
        """A task is left out, for a reason."""
        from forestay.model.event import StepSkipped

        return self.record(StepSkipped(step=id, because=reason(because)), key=key)

    def task_unblock(self, id: str, *, key: str = "") -> Event:
        """A blocked task can be taken up again."""
        from forestay.model.event import StepUnblocked

        return self.record(StepUnblocked(step=id), key=key)

    def task_list(self) -> list[Step]:
        """Every task in the order they came up, with its status."""
        return self._rows("step")

    # -- phases --------------------------------------------------------------------------------

    def phase_list(self) -> list[Listed]:
        """The phases of the session's plan, in their order, with how each stands."""
        from forestay.plans import phases

        return phases.listed(self)

    def phase_done(
        self,
        number: int,
        evidence: Mapping[str, object] | None = None,
        *,
        override: bool = False,
        because: str = "",
        key: str = "",
    ) -> Outcome:
        """Hand in the current phase with its evidence; the gate says whether it passed.

        A refusal by the gate is recorded as a failed attempt, and returned, not raised. With
        `override` and a reason the phase passes all the same, if its gate allows that.
        """
        from forestay.plans import phases

        return phases.done(
            self, number, evidence or {}, override=override, because=because, key=key
        )

    def phase_fail(
        self,
        number: int,
        evidence: Mapping[str, object] | None = None,
        *,
        issue: str = "",
        key: str = "",
    ) -> Outcome:
        """Record that an attempt at the current phase failed, and why."""
        from forestay.plans import phases

        return phases.fail(self, number, evidence or {}, issue=issue, key=key)

    def phase_retry(self, *, key: str = "") -> Event:
        """Begin another attempt at the current phase, after a failed one."""
        from forestay.plans import phases

        return phases.retry(self, key=key)

    def phase_rollback(self, number: int, *, because: str = "", key: str = "") -> Event:
        """Go back to a phase: it and all after it are to be done anew. Reopens what is over."""
        from forestay.plans import phases

        return phases.rollback(self, number, because=because, key=key)

    def phase_total(self, count: int, *, names: Sequence[str] = (), key: str = "") -> Event:
        """Say how many phases there are, where the workflow could not; that is said once."""
        from forestay.plans import phases

        return phases.total(self, count, names=names, key=key)

    def phase_gate(self, number: int, evidence: Mapping[str, object] | None = None) -> Asked:
        """What the gate of a phase asks, what there is, and whether it would pass.

        `evidence` is tried together with what was handed in before. Nothing is recorded.
        """
        from forestay.plans import phases

        return phases.gate(self, number, evidence or {})

    # -- proofs --------------------------------------------------------------------------------

    def prove(
        self,
        argv: Sequence[str],
        *,
        phase: str = "",
        name: str = "",
        inputs: Sequence[str] = (),
        timeout: float | None = None,
        sink: Sink | None = None,
        stop: Stop | None = None,
        key: str = "",
    ) -> Event:
        """Run a command without a shell and keep how it ended, also when it fails.

        `name` is what it proves, `inputs` are patterns of files: once they change, the proof is
        stale. What it prints is passed to `sink` as it comes; it is ended when `stop`, asked now
        and then, says so. One that cannot be started raises `InvalidInput`, and nothing is
        recorded.
        """
        from forestay.plans import prove

        what = prove.wanted(self, argv, phase=phase, name=name, globs=inputs, timeout=timeout)
        return prove.prove(self, what, sink=sink, stop=stop, key=key)

    def prove_again(
        self, *, all: bool = False, timeout: float | None = None, sink: Sink | None = None
    ) -> Iterator[tuple[Standing, Event]]:
        """Run what is stale or failed once more, or `all`: what it was, and what came of it."""
        from forestay.plans import prove

        return prove.again(self, everything=all, timeout=timeout, sink=sink)

    def prove_list(self) -> list[Standing]:
        """Every proof, and whether it still holds: each of its inputs is looked at."""
        from forestay.plans import prove

        return prove.standings(self)

    # -- going back ----------------------------------------------------------------------------

    def revisit(self, step: str, *, impact: str = "") -> Look:
        """What going back to a step would mean for the work after it. Changes nothing."""
        from forestay.plans import revisit

        return revisit.look(self, step, impact)

    def revisit_apply(
        self, step: str, *, impact: str = "", because: str = "", key: str = ""
    ) -> tuple[Look, Event]:
        """Go back to a step: versions of its files, statuses and log, all of it or nothing."""
        from forestay.plans import revisit

        return revisit.apply(self, step, impact=impact, because=because, key=key)

    def revisit_undo(self, *, because: str = "", key: str = "") -> Event:
        """Take the last revisit back, with its files."""
        from forestay.plans import revisit

        return revisit.undo(self, because=because, key=key)
