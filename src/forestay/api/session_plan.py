"""The plan of a session: phases with their gates, proofs, and going back to an earlier step."""

from __future__ import annotations

from typing import NamedTuple

from forestay.api.json_values import proof
from forestay.api.topic import Topic
from forestay.api.values import PhaseInfo, ProofInfo
from forestay.model.event import Event
from forestay.plans import phases, prove, revisit

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterator, Mapping, Sequence

    from forestay.api.words import Impact
    from forestay.plans.phases import Asked, Outcome
    from forestay.plans.revisit import Look, Revisited
    from forestay.plans.run_command import Sink, Stop


class Phases(Topic):
    """Phases of the session's workflow. Recording methods take a `key`; see `Session`."""

    def list(self) -> builtins.list[PhaseInfo]:
        """Return the phases in their order, each with its status."""
        return [PhaseInfo(one) for one in phases.listed(self._recorder)]

    def gate(self, number: int, evidence: Mapping[str, object] | None = None) -> Asked:
        """Return what the gate of a phase requires, what was found, and whether it would pass.

        `evidence` is tried together with what was submitted before. Nothing is recorded.
        """
        return phases.gate(self._recorder, number, evidence or {})

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
        return phases.done(
            self._recorder, number, evidence or {}, override=override, because=because, key=key
        )

    def fail(
        self,
        number: int,
        evidence: Mapping[str, object] | None = None,
        *,
        issue: str = "",
        key: str = "",
    ) -> Outcome:
        """Record that an attempt at the current phase failed, and why."""
        return phases.fail(self._recorder, number, evidence or {}, issue=issue, key=key)

    def retry(self, *, key: str = "") -> Event:
        """Begin another attempt at the current phase, after a failed one."""
        return phases.retry(self._recorder, key=key)

    def rollback(self, number: int, *, because: str = "", key: str = "") -> Event:
        """Go back to a phase: it and all later ones are to be done again.

        A completed session is reopened by it.
        """
        return phases.rollback(self._recorder, number, because=because, key=key)

    def total(self, count: int, *, names: Sequence[str] = (), key: str = "") -> Event:
        """Set the number of phases if the workflow leaves it open; possible once."""
        return phases.total(self._recorder, count, names=names, key=key)


class Rerun(NamedTuple):
    """A proof that was run again: its state before, and the event of its new result."""

    before: ProofInfo
    event: Event


class Proofs(Topic):
    """Proofs: commands that were run, with how they ended and which files they depend on."""

    def list(self) -> builtins.list[ProofInfo]:
        """Return every proof and whether it still holds; all of its input files are read."""
        return [ProofInfo(proof(one)) for one in prove.standings(self._recorder)]

    def run(
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
        """Run a command without a shell and record how it ended, also if it fails.

        `name` is what it proves; `inputs` are patterns of files: once they change, the proof is
        stale. Its output is passed to `sink` as it arrives. The command is ended when `stop`,
        called from time to time, returns true. One that cannot be started raises `InvalidInput`,
        and nothing is recorded.
        """
        wanted = prove.wanted(
            self._recorder, argv, phase=phase, name=name, globs=inputs, timeout=timeout
        )
        return prove.prove(self._recorder, wanted, sink=sink, stop=stop, key=key)

    def run_again(
        self, *, all: bool = False, timeout: float | None = None, sink: Sink | None = None
    ) -> Iterator[Rerun]:
        """Run stale and failed proofs again, or `all`, each when its result is asked for."""
        ran = prove.again(self._recorder, everything=all, timeout=timeout, sink=sink)
        return (Rerun(ProofInfo(proof(before)), event) for before, event in ran)


class Revisit(Topic):
    """Going back to an earlier step, with the versions of its files."""

    def preview(self, step: str, *, impact: Impact | None = None) -> Look:
        """Return what going back to a step would do to the work after it. Changes nothing."""
        return revisit.look(self._recorder, step, impact or "")

    def apply(
        self, step: str, *, impact: Impact | None = None, because: str = "", key: str = ""
    ) -> Revisited:
        """Go back to a step: versions of its files, statuses and log, all of it or nothing."""
        return revisit.apply(self._recorder, step, impact=impact or "", because=because, key=key)

    def undo(self, *, because: str = "", key: str = "") -> Event:
        """Undo the last revisit, with its files."""
        return revisit.undo(self._recorder, because=because, key=key)
